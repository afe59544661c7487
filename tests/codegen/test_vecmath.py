"""Vector mathematics against wider arithmetic: errors in ulp, special values, signs of zeros."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from iverson.codegen.emit import llvm_builder, scalar_code
from iverson.codegen.emit.vecmath import FUNCTIONS
from iverson.codegen.launches import compiled_kernel as kernel
from tests.codegen.elementwise import apply
from tests.conformance.product import SEED, paired, some

Array = np.ndarray[Any, Any]

FULL = bool(os.environ.get("IVERSON_TEST_ALL"))
COUNT = 4_000_000 if FULL else 100_000
LIMITS = {
    "pow": 4.0,
    "sinh": 3.0,
    "erfc": 3.0,
    "gelu": 4.0,
    "gelu_derivative": 4.0,
    "sech2": 4.0,
    "silu": 3.0,
}
#: Where a function has a zero that is no number of the format, and how large the terms are that cancel there.
ZEROS = {"gelu_derivative": (-0.7517915246935645, 0.25)}
UNARY = sorted(set(FUNCTIONS) - {"pow"})
DTYPES = (np.float32, np.float64)
SPECIAL = (
    0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-30, -1e-30,
    1e-40, -1e-40, 88.72, 88.73, -87.34, -103.9, -104.1, 709.78, 709.79, -745.1, -745.2, 9.02, 19.1, 20.0,
    1e5, -1e5, 1.6e6, 1e7, 1e22, -1e30, 3.4e38, math.pi, math.pi / 2, -math.pi / 4, 1e15, 2.0**24, 2.0**53,
)  # fmt: skip


def wide(dtype: Any) -> Any:
    return np.float64 if dtype == np.float32 else np.longdouble


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def probability(double: Callable[[Array], Array], exact: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """SciPy's in double; in extended precision from mpmath, on few samples."""
    import mpmath as mp

    def reference(x: Array) -> Array:
        if x.dtype == np.float64:
            return double(x)
        with mp.workprec(120):
            values = [np.longdouble(mp.nstr(exact(mp.mpf(float(v))), 25)) for v in x]
        return np.array(values)

    return reference


def erfc(x: Any) -> Any:
    """In mpmath numbers; beyond 100 it is far below the smallest number of every format."""
    import mpmath as mp

    return mp.erfc(min(x, mp.mpf(100)))


def gelu(x: Any) -> Any:
    """In mpmath numbers; at -infinity its limit."""
    import mpmath as mp

    return mp.mpf(0) if x == -mp.inf else x * erfc(-x / mp.sqrt(2)) / 2


def gelu_derivative(x: Any) -> Any:
    """In mpmath numbers; beyond 100 it is its limit in every format."""
    import mpmath as mp

    x = x if mp.isnan(x) else min(max(x, mp.mpf(-100)), mp.mpf(100))
    return erfc(-x / mp.sqrt(2)) / 2 + x * mp.npdf(x)


def derivative_of_gelu(x: Array) -> Array:
    """In double precision; in the left tail, where both terms nearly cancel, by the scaled erfc."""
    x = np.clip(x, -100, 100)
    e, middle = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), np.maximum(x, -1)
    tail = e * (np.sqrt(np.pi / 2) * scipy.special.erfcx(-x / np.sqrt(2)) + x)
    return np.where(x < -1, tail, scipy.special.ndtr(middle) + middle * e)


def references() -> dict[str, Callable[[Array], Array]]:
    import mpmath as mp

    return {
        "sech2": sech2,
        "sigmoid": sigmoid,
        "silu": lambda x: np.maximum(x, -2e4) * sigmoid(x),  # at -infinity its limit
        "erf": lambda x: np.copysign(probability(scipy.special.erf, mp.erf)(x), x),
        "erfc": probability(scipy.special.erfc, erfc),
        "gelu": lambda x: np.copysign(
            probability(lambda v: np.maximum(v, -1e4) * scipy.special.ndtr(v), gelu)(x), x
        ),
        # beyond its zero it is negative, also where it is rounded to 0
        "gelu_derivative": lambda x: np.copysign(
            probability(derivative_of_gelu, gelu_derivative)(x), x - x.dtype.type(ZEROS["gelu_derivative"][0])
        ),
    }


def sech2(x: Array) -> Array:
    h = np.exp(-np.abs(x))
    return np.square(2 * h / (1 + h * h))


REFERENCES = references()
SLOW = ("erf", "erfc", "gelu", "gelu_derivative")


def samples(dtype: Any, count: int, seed: int = 0) -> Array:
    """Every exponent, both signs; more where the functions live; the edges; the neighbours of all edges."""
    rng = np.random.default_rng(seed)
    bits = np.uint32 if dtype == np.float32 else np.uint64
    everywhere = rng.integers(0, np.iinfo(bits).max, count // 2, dtype=bits, endpoint=True).view(dtype)
    near = (rng.normal(size=count // 4) * 10 ** rng.uniform(-3, 3, count // 4)).astype(dtype)
    inside = rng.uniform(-3, 3, count // 4).astype(dtype)
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        edges = np.array(
            [*SPECIAL, info.tiny, -info.tiny, info.max, -info.max, info.smallest_subnormal, info.eps]
        ).astype(dtype)
        around = [np.nextafter(edges, dtype(d)) for d in (-math.inf, math.inf)]
    return np.concatenate([everywhere, near, inside, edges, *around])


def ulps(got: Array, want: Array) -> Array:
    """|got - want| in units in the last place of ``want``; inf where a special value is missed."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        info = np.finfo(got.dtype)
        unit = np.maximum(np.abs(np.spacing(rounded)), info.smallest_subnormal).astype(want.dtype)
        error = np.abs(got.astype(want.dtype) - want) / unit
    special = ~np.isfinite(rounded) | ~np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    # Rounding to inf instead of the largest finite number (or back) is an error of one unit, not of many.
    edge = special & (np.abs(np.where(np.isfinite(rounded), rounded, got)) == info.max)
    return np.where(special, np.where(same, 0.0, np.where(edge, 1.0, np.inf)), error)


def check(name: str, got: Array, want: Array, *inputs: Array) -> None:
    error = ulps(got, want)
    if name in ZEROS:
        zero, terms = ZEROS[name]
        close = (inputs[0] > zero - 0.25) & (inputs[0] < zero + 0.25)
        error[close] *= np.spacing(np.abs(want[close]).astype(got.dtype)) / np.spacing(got.dtype.type(terms))
    worst = int(np.argmax(error))
    at = tuple(x[worst] for x in inputs)
    assert error[worst] <= LIMITS.get(name, 2.0), (name, at, got[worst], want[worst], error[worst])
    signs = (np.signbit(got) != np.signbit(want)) & ~np.isnan(want)
    assert not signs.any(), (name, tuple(x[signs][:3] for x in inputs))


@pytest.mark.parametrize(("name", "dtype"), paired(UNARY, DTYPES))
def test_unary(name: str, dtype: Any) -> None:
    slow = name in SLOW and dtype == np.float64
    x = samples(dtype, COUNT if not slow else 4000)
    with np.errstate(all="ignore"):
        want = REFERENCES.get(name, getattr(np, name, None))(x.astype(wide(dtype)))
    check(name, apply(name, x, lanes=16), want, x)


@pytest.mark.parametrize(("name", "dtype"), paired(UNARY, DTYPES[::-1]))
def test_without_fused_multiply_add(name: str, dtype: Any) -> None:
    x = samples(dtype, 2000 if name in SLOW else 20_000, seed=1)
    with np.errstate(all="ignore"):
        want = REFERENCES.get(name, getattr(np, name, None))(x.astype(wide(dtype)))
    check(name, apply(name, x, has_fma=False), want, x)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_any_width_gives_the_same_bits(name: str) -> None:
    for dtype in DTYPES:
        x = samples(dtype, 400, seed=2)
        y = x[::-1].copy()
        args = (x, y) if name == "pow" else (x,)
        one = apply(name, *args, lanes=1)
        for lanes in some(f"{name} {dtype}", (2, 4, 16)):
            np.testing.assert_array_equal(apply(name, *args, lanes=lanes), one)


def test_tanh_and_its_derivative_share_their_exponential() -> None:
    """In one loop there is one division, as of either alone."""
    given = llvm_builder.Value(b := llvm_builder.Builder(has_fma=True), "%x", llvm_builder.Type("double", 8))
    made = {name: FUNCTIONS[name](b, given).ref for name in ("tanh", "sech2")}
    assert len(set(made.values())) == 2
    assert sum(" fdiv " in line for line in b.lines) == 1


def test_large_arguments_of_sin_and_cos_are_reduced_exactly() -> None:
    import mpmath as mp

    x = np.array([1e22, 6381956970095103 * 2.0**797, 1.7e308, 1e300, -1.5999e6, 1.6001e6])
    with mp.workprec(1200):
        want_sin = [float(mp.sin(mp.mpf(v))) for v in x]
        want_cos = [float(mp.cos(mp.mpf(v))) for v in x]
    np.testing.assert_allclose(apply("sin", x), want_sin, rtol=4e-16)
    np.testing.assert_allclose(apply("cos", x), want_cos, rtol=4e-16)


def exact_pow(x: Array, y: Array) -> Array:
    """C's pow at special values; elsewhere |x|^y with 120 bits, and C's sign."""
    import mpmath as mp

    result = np.empty(x.size, np.longdouble)
    with mp.workprec(120):
        for k, (a, c) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
            special = _pow_special(a, c)
            if special is not None:
                result[k] = special
                continue
            size = mp.power(mp.mpf(abs(a)), mp.mpf(c))
            large, tiny = size > mp.mpf(2) ** 16000, size < mp.mpf(2) ** -16000
            value = np.longdouble(math.inf if large else 0.0 if tiny else mp.nstr(size, 25))
            result[k] = -value if a < 0 and c % 2 == 1 else value
    return result


def _pow_special(a: float, c: float) -> float | None:
    if a != 0 and c != 0 and math.isfinite(a) and math.isfinite(c) and (a > 0 or c == int(c)):
        return None
    try:
        return math.pow(a, c)
    except ValueError:  # a negative number to a fraction, or zero to a negative power
        if a != 0:
            return math.nan
        return math.copysign(math.inf, a) if c % 2 == 1 else math.inf


@pytest.mark.parametrize("dtype", DTYPES)
def test_pow(dtype: Any) -> None:
    count = 8000 if FULL else 2000
    rng = np.random.default_rng(3)
    x = np.abs(samples(dtype, count, seed=3)[:count])
    x[: count // 2] = rng.uniform(0.3, 3, count // 2)
    x[: count // 4] = rng.uniform(0.99, 1.01, count // 4)
    exponent = rng.uniform(-1.05, 1.05, count) * math.log(np.finfo(dtype).max)
    with np.errstate(all="ignore"):
        y = (exponent / np.log(x.astype(np.float64))).astype(dtype)
        edges = np.array([*SPECIAL, 2.5, -2.5, 7.0, 4503599627370497.0, 1e300, -1e300]).astype(dtype)
    x = np.concatenate([x, np.repeat(edges, edges.size)])
    y = np.concatenate([y, np.tile(edges, edges.size)])
    want = exact_pow(x, y)
    for has_fma in (True, False):
        check("pow", apply("pow", x, y, has_fma=has_fma), want, x, y)


def test_coefficients_are_those_the_script_prints() -> None:
    from iverson.codegen.emit.vecmath import coefficients
    from tools import minimax

    goals = list(minimax.goals())
    for goal in goals if FULL else goals[SEED % 3 :: 3]:
        values, error = minimax.remez(goal)
        assert error < 1e-6
        stored = getattr(coefficients, goal.name)
        np.testing.assert_allclose(stored, [float(v) for v in values], rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_that_is_called_gives_the_same_bits(
    name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.array([*SPECIAL, *np.random.default_rng(0).normal(size=59)], dtype)
    args = (x, x[::-1].copy()) if name == "pow" else (x,)
    inside = apply(name, *args)
    monkeypatch.setattr(scalar_code, "INLINED", 0)
    kernel.forget()
    monkeypatch.setenv("IVERSON_CACHE", "off")
    called = apply(name, *args)
    kernel.forget()
    np.testing.assert_array_equal(called, inside)
    np.testing.assert_array_equal(np.signbit(called), np.signbit(inside))
