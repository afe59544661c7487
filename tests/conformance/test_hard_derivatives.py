"""Derivatives to second order where values saturate: at infinities and on the way there, against mpmath.

Eager, by the interpreter of tensor expressions and compiled. The derivative of a function that flattens is as
exact, relative to itself, as the function: a form like y (1 - y) is not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.te.ir import interpret
from iverson.te.lowering import statement_lowering
from iverson.transforms import jvp

Array = np.ndarray[Any, Any]
POINTS = np.array([0.0, 0.3, 1.0, 5.0, 20.0, 37.0, 40.0, 90.0, 700.0, 1e5, math.inf])
X = np.concatenate([POINTS, -POINTS[1:]])


def exact_functions() -> dict[str, Callable[[Any], Any]]:
    import mpmath as mp

    def normal(x: Any) -> Any:
        return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)

    def bell(x: Any) -> Any:
        return mp.exp(-x * x) / mp.sqrt(mp.pi)

    def s(x: Any) -> Any:
        return 1 / (1 + mp.exp(-x))

    # Derivatives of order 1 and 2, by hand.
    return {
        "sigmoid": lambda x: (s(x) * s(-x), s(x) * s(-x) * (s(-x) - s(x))),
        "softplus": lambda x: (s(x), s(x) * s(-x)),
        "silu": lambda x: (s(x) + x * s(x) * s(-x), s(x) * s(-x) * (2 + x * (s(-x) - s(x)))),
        "erf": lambda x: (2 * bell(x), -4 * x * bell(x)),
        "erfc": lambda x: (-2 * bell(x), 4 * x * bell(x)),
        "gelu": lambda x: (mp.ncdf(x) + x * normal(x), (2 - x * x) * normal(x)),
        "tanh": lambda x: (mp.sech(x) ** 2, -2 * mp.tanh(x) * mp.sech(x) ** 2),
        "expm1": lambda x: (mp.exp(x), mp.exp(x)),
    }


def expected(name: str) -> Array:
    """Both derivatives at the points; at infinities those at 1e3, which are the limits in double."""
    import mpmath as mp

    with mp.workprec(200):
        at = [mp.mpf(math.copysign(min(abs(v), 1e3), v)) for v in X.tolist()]
        return np.array([[float(d) for d in exact_functions()[name](x)] for x in at]).T


def eager(names: list[str]) -> dict[str, list[Array]]:
    ones = iv.ones(X.shape)

    def slope(name: str, x: Any) -> Any:
        return jvp(getattr(iv, name), (x,), (ones,))[1]

    x = iv.asarray(X)
    return {
        name: [slope(name, x).numpy(), jvp(functools.partial(slope, name), (x,), (ones,))[1].numpy()]
        for name in names
    }


def expressions(names: list[str], run: Callable[..., Any]) -> dict[str, list[Array]]:
    x, t = te.placeholder(X.shape, name="x"), te.placeholder(X.shape, name="t")
    outputs = []
    for name in names:
        y = te.compute(X.shape, lambda i, name=name: getattr(te.F, name)(x[i]))
        first = te.jvp(y, {x: t})
        outputs += [first, te.jvp(first, {x: t})]
    found = run(te.program_of(outputs, (x, t)), [X, np.ones_like(X)])
    return {name: [found[2 * k], found[2 * k + 1]] for k, name in enumerate(names)}


WAYS = {
    "eager": eager,
    "interpreted": lambda names: expressions(names, interpret.run),
    "compiled": lambda names: expressions(names, statement_lowering.run),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("way", WAYS)
def test_where_values_saturate(way):
    names = list(exact_functions())
    for name, found in WAYS[way](names).items():
        for order, (got, want) in enumerate(zip(found, expected(name), strict=True), 1):
            np.testing.assert_allclose(got, want, rtol=2e-13, atol=1e-300, err_msg=f"{name}, order {order}")


#: Points that come near the ends of a domain, where 1 - x * x would be of rounding.
ENDS = np.array([1 - 2.0**-k for k in (1, 5, 20, 40, 50, 53)])
NEAR_ENDS = {
    "asin": (ENDS, lambda mp, x: 1 / mp.sqrt(1 - x * x)),
    "acos": (-ENDS, lambda mp, x: -1 / mp.sqrt(1 - x * x)),
    "atanh": (-ENDS, lambda mp, x: 1 / (1 - x * x)),
    "acosh": (1 / ENDS, lambda mp, x: 1 / mp.sqrt(x * x - 1)),
    "log1p": (-ENDS, lambda mp, x: 1 / (1 + x)),
}


@pytest.mark.parametrize("name", NEAR_ENDS)
def test_at_the_ends_of_a_domain(name):
    import mpmath as mp

    x, derivative = NEAR_ENDS[name]
    with mp.workprec(200):
        want = [float(derivative(mp, mp.mpf(v))) for v in x.tolist()]
    found = jvp(getattr(iv, name), (iv.asarray(x),), (iv.ones(x.shape),))[1].numpy()
    np.testing.assert_allclose(found, want, rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_derivative_is_nan_where_a_function_saturates(dtype):
    """To third order: products of what vanishes and what overflows must not arise."""
    x = iv.asarray([0.0, 30, 70, 120, 500, 1e4, math.inf, -90, -800, -math.inf], dtype=dtype)

    def slope(f: Any, x: Any) -> Any:
        return jvp(f, (x,), (iv.ones(x.shape, dtype=dtype),))[1]

    for f, third in ((iv.tanh, -2.0), (iv.sigmoid, -0.125), (iv.softplus, 0.0)):
        for _ in range(3):
            f = functools.partial(slope, f)
            assert np.isfinite(f(x).numpy()).all()
        assert f(x).numpy()[0] == third


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_dies_out_is_0_at_minus_infinity(dtype):
    """silu and gelu come to 0 from below."""
    x = iv.asarray([-math.inf, -1e5], dtype=dtype)
    for f in (iv.silu, iv.gelu):
        y = f(x).numpy()
        assert (y == 0).all()
        assert np.signbit(y).all()


A, B = (v.ravel() for v in np.meshgrid([0.0, 1e-100, 0.5, 2.0], [0.0, 0.5, 1.0, 1.5, 2.0, 3.0]))


def second_derivatives_of_pow() -> list[list[Array]]:
    """In (a, b), (b, a), (a, a) and (b, b); at a = 0 the limits from above."""
    with np.errstate(all="ignore"):
        mixed = A ** (B - 1) * (1 + B * np.log(A))
        in_a = B * (B - 1) * A ** (B - 2)
        in_b = A**B * np.log(A) ** 2
    zero = A == 0
    mixed[zero & (B > 1)] = 0
    mixed[zero & (B <= 1)] = -np.inf
    mixed[zero & (B == 0)] = np.inf
    in_a[(B == 0) | (B == 1)] = 0
    in_b[zero] = 0
    return [[in_a, mixed], [mixed, in_b]]


@pytest.mark.parametrize("way", ["eager", "interpreted"])
def test_second_derivatives_of_pow_are_right_or_nan(way):
    found: Any
    if way == "eager":
        slopes = [iv.grad(lambda a, b: iv.pow(a, b).sum(), argnums=k) for k in (0, 1)]
        args = iv.asarray(A), iv.asarray(B)
        found = [
            [iv.grad(lambda a, b, d=d: d(a, b).sum(), argnums=k)(*args).numpy() for k in (0, 1)]
            for d in slopes
        ]
    else:
        a, b, t = (te.placeholder(A.shape, name=n) for n in "abt")
        y = te.compute(A.shape, lambda i: te.F.pow(a[i], b[i]))
        outputs = [te.jvp(te.jvp(y, {x: t}), {z: t}) for x in (a, b) for z in (a, b)]
        flat = interpret.run(te.program_of(outputs, (a, b, t)), [A, B, np.ones_like(A)])
        found = [flat[:2], flat[2:]]
    for x, row, wanted in zip("ab", found, second_derivatives_of_pow(), strict=True):
        for z, got, want in zip("ab", row, wanted, strict=True):
            said = ~np.isnan(got)
            assert said[A >= 0.5].all()
            np.testing.assert_allclose(got[said], want[said], rtol=1e-12, atol=1e-300, err_msg=f"{x}, {z}")


def exact_slopes() -> list[tuple[str, tuple[float, ...], int, float]]:
    """Functions, arguments, which of them, and the derivative in it."""
    import mpmath as mp

    found = []
    with mp.workdps(60):
        for a, b in ((1e12, 2.0), (1e12, 3e11), (5.0, 1e10), (13.0, 0.5), (0.5, 0.7), (12.5, 1e-9)):
            whole = mp.digamma(mp.mpf(a) + mp.mpf(b))
            found.append(("betaln", (a, b), 0, float(mp.digamma(a) - whole)))
            found.append(("betaln", (a, b), 1, float(mp.digamma(b) - whole)))
        for y, x in ((1e-200, 1e-200), (1e200, -1e200), (1e-170, 3e-165), (-1e300, 1.0)):
            square = mp.mpf(x) ** 2 + mp.mpf(y) ** 2
            found += [("atan2", (y, x), 0, float(x / square)), ("atan2", (y, x), 1, float(-y / square))]
        found += [("asinh", (x,), 0, float(1 / mp.sqrt(1 + mp.mpf(x) ** 2))) for x in (1e200, -1e300, 1e-9)]
        found += [("zeta", (s,), 0, float(mp.zeta(s, derivative=1))) for s in (-20.5, -2.1, -0.5, 1.5, 40.0)]
        found += [("zeta", (s, 1.5), 0, math.nan) for s in (-2.1, -20.5)]
    return found


@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_that_formulas_lose_are_exact(compiled: bool) -> None:
    """Where terms cancel, or squares leave the range of floats; nan where there is no formula."""
    for name, args, k, exact in exact_slopes():
        f = getattr(iv, name, None) or getattr(iv.special, name)
        slope = iv.grad(f, k)
        found = (iv.jit(slope) if compiled else slope)(*map(iv.asarray, args)).item()
        np.testing.assert_allclose(
            found, exact, rtol=1e-10 if name == "zeta" else 4e-15, err_msg=f"{name} {args}"
        )
