"""`iverson.special` against SciPy (values, dtypes, broadcasting) and mpmath (derivatives, hard points)."""

from __future__ import annotations

import functools
import math

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import iverson as iv
from iverson import special
from iverson.core.scalars import SCALARS
from iverson.transforms import jvp
from tests.array_api.common import draw, same
from tests.conformance.product import some

RECORDS = sorted(s.name for s in SCALARS.values() if s.space == "special" and s.example)
SHAPES = [((2, 3), (3,), (1, 1)), ((),) * 3, ((2, 3),) * 3]
ALIASES = {
    "digamma": "psi",
    "erf": "erf",
    "erfc": "erfc",
    "exp2": "exp2",
    "expit": "expit",
    "gammaln": "gammaln",
    "psi": "psi",
}


def arguments(name, shapes, dtype):
    scalar = SCALARS[name]
    boxes = [box or (-2.0, 2.0) for box in scalar.domain]
    return [draw(s, dtype, k, *box) for k, (s, box) in enumerate(zip(shapes, boxes, strict=False))]


@pytest.mark.parametrize("name", ALIASES)
def test_functions_of_iverson_under_scipys_names(name):
    x = draw((2, 3), low=0.2)
    same(getattr(special, name)(x), getattr(scipy.special, ALIASES[name])(x))


def test_functions_along_axes():
    x, b = draw((2, 3)), draw((3,), seed=1)
    b = abs(b) + 0.1
    for axis, keepdims in ((None, False), (0, True), ((0, 1), False), (-1, False)):
        same(
            special.logsumexp(x, axis=axis, keepdims=keepdims),
            scipy.special.logsumexp(x, axis, keepdims=keepdims),
        )
        same(
            special.logsumexp(x, axis=axis, b=b, keepdims=keepdims),
            scipy.special.logsumexp(x, axis, b=b, keepdims=keepdims),
        )
    same(special.logsumexp(np.array([1e4, -np.inf, 1e4]), b=np.array([2.0, 1.0, -1.0])), 1e4)
    same(special.logsumexp(np.array([1e4, 1.0]), b=np.array([0.0, 1.0])), 1.0)
    for axis in (None, 0, 1):
        same(special.softmax(x, axis), scipy.special.softmax(x, axis))
        same(special.log_softmax(x, axis), scipy.special.log_softmax(x, axis))
    assert iv.testing.gradcheck(
        lambda x, b: special.logsumexp(x, axis=0, b=b),
        (iv.asarray(x, requires_grad=True), iv.asarray(b, requires_grad=True)),
    )
    same(
        special.polygamma(np.array([0, 1, 2]), np.array([0.5, 1.5, 2.5])),
        scipy.special.polygamma([0, 1, 2], [0.5, 1.5, 2.5]),
    )
    same(special.zeta(np.array([-1.0, 0.5, 3.0])), scipy.special.zeta(np.array([-1.0, 0.5, 3.0])))
    with pytest.raises(iv.errors.DTypeError, match="polygamma: argument 'n': got dtype float64"):
        special.polygamma(1.5, x)
    with pytest.raises(iv.errors.DTypeError, match="betainc: argument 'x': got dtype complex128"):
        special.betainc(x, x, x + 0j)


#: Functions made of others, and how many arguments each takes.
MADE = {
    "fdtr": 3,
    "fdtrc": 3,
    "gdtr": 3,
    "gdtrc": 3,
    "huber": 2,
    "pdtr": 2,
    "pdtrc": 2,
    "pseudo_huber": 2,
    "radian": 3,
}


@pytest.mark.parametrize("name", MADE)
def test_functions_made_of_others(name):
    ours, theirs = getattr(special, name), getattr(scipy.special, name)
    xs = [draw((4,), "float64", k, 0.3, 3.0) for k in range(MADE[name])]
    for dtype in ("float32", "float64"):
        given = [x.astype(dtype) for x in xs]
        found = ours(*map(iv.asarray, given))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, theirs(*given), rtol=3e-6 if dtype == "float32" else 1e-12)
        np.testing.assert_allclose(
            ours(2.0, *given[1:]), theirs(dtype and given[0].dtype.type(2), *given[1:]), rtol=3e-6
        )
    inputs = tuple(iv.asarray(x, requires_grad=True) for x in xs)
    if name.startswith("pdtr"):
        inputs = (inputs[0].detach(), inputs[1])
    assert iv.testing.gradcheck(ours, inputs)
    if name.endswith("huber"):
        same(ours(-1.0, xs[0]), np.full(4, np.inf))


def test_the_multivariate_gamma_function():
    a = draw((3,), "float64", 0, 2.0, 3.0)
    np.testing.assert_allclose(special.multigammaln(a, 3), scipy.special.multigammaln(a, 3), rtol=1e-13)
    assert iv.testing.gradcheck(lambda a: special.multigammaln(a, 3), (iv.asarray(a, requires_grad=True),))
    with pytest.raises(iv.errors.ArgumentError, match="1 or more"):
        special.multigammaln(a, 0)


def test_scipys_universal_functions_are_ours():
    """Called as SciPy's, on a tensor that tracks gradients."""
    x = iv.asarray(draw((3,), low=0.4), requires_grad=True)
    for name in ("exp1", "gamma", "k1", "boxcox"):
        more = (0.3,) * (name == "boxcox")
        found = iv.autograd.grad(getattr(scipy.special, name)(x, *more).sum(), x)
        same(found, iv.autograd.grad(getattr(special, name)(x, *more).sum(), x).numpy())


def slope(function, k, order):
    """The derivative of an order in argument k."""
    if order == 0:
        return function
    inner = slope(function, k, order - 1)

    def of(*xs):
        tangents = [iv.ones(x.shape) if j == k else iv.zeros(x.shape) for j, x in enumerate(xs)]
        return jvp(inner, xs, tuple(tangents))[1]

    return of


def _scaled(order):
    return lambda x: mp.exp(-abs(x)) * mp.besseli(order, x)


#: By name: mpmath's function, points (rows of arguments), and (argument, order) of the derivatives tried.
DERIVATIVES = {
    "erfinv": (mp.erfinv, [(-0.99,), (0.0,), (1e-9,), (0.5,), (0.999999,)], [(0, 1), (0, 2)]),
    "erfcx": (
        lambda x: mp.exp(x * x) * mp.erfc(x),
        [(-5.0,), (0.0,), (0.3,), (3.0,), (40.0,), (1e4,)],
        [(0, 1), (0, 2), (0, 3)],
    ),
    "log_ndtr": (
        lambda x: mp.log(mp.ncdf(x)),
        [(-1e3,), (-7.0,), (-0.5,), (0.0,), (4.9,), (5.1,), (30.0,)],
        [(0, 1), (0, 2)],
    ),
    "ndtri": (lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), [(1e-3,), (0.5,), (0.9,)], [(0, 1), (0, 2)]),
    "logit": (lambda x: mp.log(x / (1 - x)), [(1e-20,), (0.5,), (0.75,)], [(0, 1), (0, 2)]),
    "entr": (lambda x: -x * mp.log(x), [(1e-20,), (0.5,), (3.0,)], [(0, 1), (0, 2)]),
    "i0e": (_scaled(0), [(-3.0,), (0.5,), (1.0,), (60.0,)], [(0, 1), (0, 2), (0, 3)]),
    "i1e": (_scaled(1), [(-3.0,), (0.5,), (1.0,), (60.0,)], [(0, 1), (0, 2), (0, 3)]),
    "i0": (lambda x: mp.besseli(0, x), [(-3.0,), (0.0,), (20.0,)], [(0, 1), (0, 2), (0, 3)]),
    "i1": (lambda x: mp.besseli(1, x), [(-3.0,), (0.0,), (20.0,)], [(0, 1), (0, 2)]),
    "j0": (lambda x: mp.besselj(0, x), [(-3.0,), (0.0,), (20.0,)], [(0, 1), (0, 2), (0, 3)]),
    "j1": (lambda x: mp.besselj(1, x), [(-3.0,), (0.0,), (20.0,)], [(0, 1), (0, 2)]),
    "sinc": (mp.sincpi, [(-3.3,), (1e-5,), (0.25,), (7.0,)], [(0, 1), (0, 2)]),
    "gammainc": (
        lambda a, x: mp.gammainc(a, 0, x, regularized=True),
        [(0.01, 0.005), (0.3, 0.2), (1.5, 5.0), (5.0, 2.0), (5.0, 20.0), (30.0, 28.0), (30.0, 33.0)],
        [(0, 1), (0, 2), (1, 1), (1, 2)],
    ),
    "betaincc": (
        lambda a, b, x: mp.betainc(b, a, 0, 1 - x, regularized=True),
        [(0.5, 0.5, 0.3), (2.0, 3.0, 0.9), (0.05, 4.0, 0.01), (3.0, 0.2, 0.999)],
        [(0, 1), (1, 1), (2, 1), (0, 2)],
    ),
    "betainc": (
        lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        [(0.5, 0.5, 0.3), (2.0, 3.0, 0.9), (0.05, 4.0, 0.01), (3.0, 0.2, 0.999)],
        [(0, 1), (1, 1), (2, 1), (0, 2)],
    ),
    "exprel": (lambda x: mp.expm1(x) / x, [(-30.0,), (-0.5,), (1e-6,), (2.0,), (20.0,)], [(0, 1), (0, 2)]),
    "spence": (lambda x: mp.polylog(2, 1 - x), [(0.01,), (0.3,), (0.999,), (1.7,)], [(0, 1), (0, 2)]),
    "boxcox": (
        lambda x, p: mp.expm1(p * mp.log(x)) / p,
        [(0.1, 1e-9), (2.0, 0.3), (7.0, -1.5), (1.0001, 1e-3)],
        [(0, 1), (0, 2), (1, 1), (1, 2)],
    ),
    "inv_boxcox": (
        lambda y, p: mp.exp(mp.log1p(p * y) / p),
        [(0.1, 1e-9), (2.0, 0.3), (0.5, -0.7)],
        [(0, 1), (0, 2), (1, 1)],
    ),
    "cbrt": (mp.cbrt, [(1e-9,), (8.0,)], [(0, 1), (0, 2)]),
    "gamma": (mp.gamma, [(-1.5,), (0.3,), (9.0,)], [(0, 1), (0, 2)]),
    "rgamma": (mp.rgamma, [(-1.5,), (0.3,), (9.0,)], [(0, 1), (0, 2)]),
    "exp1": (mp.e1, [(0.01,), (1.0,), (30.0,)], [(0, 1), (0, 2)]),
    "expi": (mp.ei, [(-2.0,), (0.01,), (10.0,)], [(0, 1), (0, 2)]),
    "k1": (lambda x: mp.besselk(1, x), [(0.01,), (1.0,), (30.0,)], [(0, 1), (0, 2)]),
    "y1": (lambda x: mp.bessely(1, x), [(0.01,), (1.0,), (30.0,)], [(0, 1), (0, 2)]),
    "binom": (mp.binomial, [(5.5, 2.2), (3.0, 1.0)], [(0, 1), (1, 1)]),
    "poch": (mp.rf, [(1.5, 2.2), (3.0, 1.0)], [(0, 1), (1, 1)]),
    "betaln": (lambda a, b: mp.log(mp.beta(a, b)), [(0.5, 2.0), (3.0, 1e-3)], [(0, 1), (1, 2)]),
}  # fmt: skip
#: Where terms of size 1 cancel, or of the size of an exponent: relative errors.
TOLERANCE = {
    "gammainc": 3e-13,
    "betainc": 2e-13,
    "betaincc": 2e-13,
    "betaln": 1e-13,
    "j0": 1e-13,
    "j1": 1e-13,
    "sinc": 1e-13,
    "binom": 1e-13,
    "poch": 1e-13,
    "gamma": 1e-13,
    "rgamma": 1e-13,
    "y1": 1e-13,
    "inv_boxcox": 1e-13,
    "boxcox": 1e-13,
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_against_mpmath(name):
    exact, points, orders = DERIVATIVES[name]
    xs = [iv.asarray(np.array(column)) for column in zip(*points, strict=True)]
    for k, order in orders:
        found = slope(getattr(special, name), k, order)(*xs).numpy()
        with mp.workdps(30):
            which = tuple(order if j == k else 0 for j in range(len(xs)))
            wanted = [
                float(
                    mp.diff(
                        exact,
                        tuple(map(mp.mpf, row)) if len(row) > 1 else mp.mpf(row[0]),
                        which if len(row) > 1 else order,
                    )
                )
                for row in points
            ]
        np.testing.assert_allclose(
            found, wanted, rtol=TOLERANCE.get(name, 2e-14), atol=1e-15, err_msg=f"{k}, {order}"
        )


@mp.workdps(40)
def test_derivatives_of_zeta_against_mpmath():
    s = np.array([1.5, 2.0, 4.0, 30.0, 1.01, 0.5, 10.0, -3.5, -4.0, -50.25, -99.0])
    q = np.array([1.0, 0.5, 3.0, 2.0, 1.0, 1.0, 50.0, 1.0, 1.0, 1.0, 1.0])
    for order in (1, 2):
        wanted = [float(mp.zeta(a, b, order)) for a, b in zip(s.tolist(), q.tolist(), strict=True)]
        found = slope(special.zeta, 0, order)(iv.asarray(s), iv.asarray(q)).numpy()
        np.testing.assert_allclose(found, wanted, rtol=2e-13)
    in_q = slope(special.zeta, 1, 1)(iv.asarray(s), iv.asarray(q)).numpy()
    np.testing.assert_allclose(
        in_q, [-a * float(mp.zeta(a + 1, b)) for a, b in zip(s, q, strict=True)], rtol=1e-13
    )
    mixed = slope(slope(special.zeta, 1, 1), 0, 1)(iv.asarray(s), iv.asarray(q)).numpy()
    wanted = [-float(mp.zeta(a + 1, b) + a * mp.zeta(a + 1, b, 1)) for a, b in zip(s, q, strict=True)]
    np.testing.assert_allclose(mixed, wanted, rtol=1e-12)


def test_both_modes_and_mixed_orders():
    """Of all functions at once: the sum of a Hessian's row is the directional derivative of the gradient."""
    for name in [*RECORDS, "zeta"]:
        function = getattr(special, name)
        xs = [iv.asarray(x) for x in arguments(name, [(3,)] * SCALARS[name].arity, "float64")]
        ones = tuple(iv.ones(3) for _ in xs)

        def gradient(*xs, f=function):
            return iv.grad(lambda *v: f(*v).sum(), argnums=tuple(range(len(xs))))(*xs)

        forward = jvp(lambda *v: functools.reduce(lambda a, b: a + b, gradient(*v)), tuple(xs), ones)[1]
        reverse = jvp(lambda *v, f=function, o=ones: jvp(f, v, o)[1], tuple(xs), ones)[1]
        np.testing.assert_allclose(forward.numpy(), reverse.numpy(), rtol=1e-10, atol=1e-12, err_msg=name)


def test_what_zero_wins():
    x, y = (iv.asarray(v, requires_grad=True) for v in (np.array([0.0, 0.0, 2.0]), np.array([0.0, 0.5, 0.5])))
    for f, in_y in ((special.xlogy, [0, 0, 4]), (special.rel_entr, [0, 0, -4]), (special.kl_div, [1, 1, -3])):
        y_bar = iv.autograd.grad(f(x, y).sum(), y)
        np.testing.assert_array_equal(y_bar.numpy(), in_y)
    mixed = jvp(
        lambda x: jvp(lambda y: special.xlogy(x, y), (y.detach(),), (iv.ones(3),))[1],
        (x.detach(),),
        (iv.ones(3),),
    )[1]
    np.testing.assert_array_equal(mixed.numpy()[1:], [2, 2])
    assert special.sinc(np.array([3.0])).item() == 0
    assert math.isinf(special.erfcx(np.array([-30.0])).item())


def test_traced_jitted_and_batched():
    """The functions and their gradients through every level above."""
    a, x = iv.asarray(draw((2, 3), low=0.5, high=2.0)), iv.asarray(draw((2, 3), seed=1, low=0.2, high=0.8))

    def f(a, x):
        return (
            special.betainc(a, 1.5, x) + special.gammainc(a, x) + special.log_ndtr(x) * special.i0e(a)
        ).sum()

    slopes = iv.grad(f, argnums=(0, 1))
    wanted = [g.numpy() for g in slopes(a, x)]
    for way in some("ways", [iv.jit(slopes), iv.grad(iv.jit(f), argnums=(0, 1)), iv.vmap(slopes)], 2):
        for found, expected in zip(way(a, x), wanted, strict=True):
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


HOLOMORPHIC = {
    "exp2": lambda z: mp.mpf(2) ** z,
    "sigmoid": lambda z: 1 / (1 + mp.exp(-z)),
    "silu": lambda z: z / (1 + mp.exp(-z)),
}


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_complex_numbers_by_mpmath(name):
    """Values and two derivatives, eager, compiled and mapped, where real parts are large too."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(6, 3)) + 1j * rng.uniform(-3, 3, (6, 3))
    z *= np.array([1, 1, 20, 100, 300, 700])[:, None] / (1 + abs(z))
    z.imag = rng.uniform(-3, 3, z.shape)
    mp.mp.dps = 40

    def derivative(order):
        def at(x):
            found = mp.diff(HOLOMORPHIC[name], mp.mpc(x), order)
            return complex(found)

        return np.vectorize(at, otypes=[complex])(z)

    def along(f):
        return lambda x: iv.jvp(f, (x,), (iv.ones_like(x),))[1]

    function = getattr(iv, name)
    levels = [function, along(function), along(along(function))]
    for order, f in enumerate(levels):
        expected = derivative(order)
        for way in (f, iv.jit(f), iv.vmap(f)):
            np.testing.assert_allclose(way(iv.asarray(z)).numpy(), expected, rtol=3e-13, atol=1e-300)
    leaf = iv.asarray(z, requires_grad=True)
    pulled = iv.autograd.grad(function(leaf), leaf, np.ones_like(z)).numpy()
    np.testing.assert_allclose(pulled, derivative(1).conj(), rtol=3e-13, atol=1e-300)


def test_logsumexp_of_complex_numbers():
    z = draw((3, 4)) * 600 + 1j * draw((3, 4), seed=2)
    there = draw((3, 4), seed=5) > -1
    for f, g in (
        (lambda x: iv.logsumexp(x, 1), lambda x: scipy.special.logsumexp(x, 1)),
        (iv.logsumexp, scipy.special.logsumexp),
    ):
        for way in (f, iv.jit(f)):
            same(way(iv.asarray(z)), np.asarray(g(z)))
            masked = way(iv.masked_tensor(z, there)).to_tensor(0)
            same(masked, np.asarray(g(np.where(there, z, -np.inf))))
    same(iv.vmap(iv.logsumexp)(iv.asarray(z)), scipy.special.logsumexp(z, 1))
    small = iv.asarray(draw((2, 3)) + 1j * draw((2, 3), seed=1), requires_grad=True)
    assert iv.testing.gradcheck(lambda x: iv.logsumexp(x, 1), (small,))
    assert iv.testing.gradgradcheck(lambda x: iv.logsumexp(x, 0), (small,))
    same(iv.logsumexp(np.array([-np.inf, 1 + 2j])), 1 + 2j)
    assert iv.logsumexp(np.zeros(0, complex)).item() == -np.inf
