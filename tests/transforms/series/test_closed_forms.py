"""Series of elementwise functions against the Taylor coefficients of mpmath, to order 12."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import iverson as iv
from iverson.core.dispatch import bind
from iverson.core.scalars import SCALARS
from iverson.ops import TABLE

ORDER = 12
RT2 = mp.sqrt(2)


class Closed:
    """A function whose derivatives mpmath has in closed form, times e^x if ``scaled``."""

    def __init__(self, derivative, scaled=False):
        self.derivative, self.scaled = derivative, scaled

    def taylor(self, x):
        terms = [self.derivative(x, k) / mp.factorial(k) for k in range(ORDER + 1)]
        if not self.scaled:
            return terms
        powers = [mp.exp(x) / mp.factorial(k) for k in range(ORDER + 1)]
        return [mp.fsum(terms[j] * powers[k - j] for j in range(k + 1)) for k in range(ORDER + 1)]


def besselk(order, x, k):
    """Derivative k, from K_n' = -(K_(n-1) + K_(n+1)) / 2."""
    terms = [mp.binomial(k, m) * mp.besselk(order - k + 2 * m, x) for m in range(k + 1)]
    return mp.fsum(terms) / mp.mpf(-2) ** k


#: By name: the function in mpmath, a point, and the distance to the nearest singularity (1 if there is none).
FUNCTIONS = {
    "acos": (mp.acos, 0.3, 0.7),
    "acosh": (mp.acosh, 1.9, 0.9),
    "asin": (mp.asin, 0.3, 0.7),
    "asinh": (mp.asinh, 0.3, 1.04),
    "atan": (mp.atan, 0.3, 1.04),
    "atanh": (mp.atanh, 0.3, 0.7),
    "cbrt": (mp.cbrt, 1.3, 1.3),
    "cos": (mp.cos, 0.7, 1.0),
    "cosh": (mp.cosh, 0.7, 1.0),
    "cosm1": (lambda x: mp.cos(x) - 1, 0.7, 1.0),
    "deg2rad": (mp.radians, 0.7, 1.0),
    "digamma": (mp.digamma, 1.7, 1.7),
    "entr": (lambda x: -x * mp.log(x), 1.2, 1.2),
    "erf": (mp.erf, 0.4, 1.0),
    "erfc": (mp.erfc, 0.4, 1.0),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), 0.4, 1.0),
    "erfinv": (mp.erfinv, 0.3, 0.7),
    "exp": (mp.exp, 0.7, 1.0),
    "exp1": (mp.e1, 1.2, 1.2),
    "exp10": (lambda x: mp.mpf(10) ** x, 0.3, 1.0),
    "exp2": (lambda x: mp.mpf(2) ** x, 0.3, 1.0),
    "expi": (mp.ei, 1.2, 1.2),
    "expm1": (mp.expm1, 0.3, 1.0),
    "gamma": (mp.gamma, 1.7, 1.7),
    "gelu": (lambda x: x * (1 + mp.erf(x / RT2)) / 2, 0.4, 1.0),
    "i0": (lambda x: mp.besseli(0, x), 0.6, 1.0),
    "i0e": (lambda x: mp.exp(-x) * mp.besseli(0, x), 0.6, 1.0),
    "i1": (lambda x: mp.besseli(1, x), 0.6, 1.0),
    "i1e": (lambda x: mp.exp(-x) * mp.besseli(1, x), 0.6, 1.0),
    "j0": (lambda x: mp.besselj(0, x), 0.6, 1.0),
    "j1": (lambda x: mp.besselj(1, x), 0.6, 1.0),
    "lgamma": (mp.loggamma, 1.7, 1.7),
    "log": (mp.log, 1.3, 1.3),
    "log10": (mp.log10, 1.3, 1.3),
    "log1p": (mp.log1p, 0.3, 1.3),
    "log2": (lambda x: mp.log(x) / mp.log(2), 1.3, 1.3),
    "log_ndtr": (lambda x: mp.log(mp.ncdf(x)), 0.4, 1.0),
    "loggamma": (mp.loggamma, 1.7, 1.7),
    "logit": (lambda x: mp.log(x / (1 - x)), 0.4, 0.4),
    "ndtr": (mp.ncdf, 0.4, 1.0),
    "negative": (lambda x: -x, 0.4, 1.0),
    "reciprocal": (lambda x: 1 / x, 1.3, 1.3),
    "rgamma": (mp.rgamma, 1.7, 1.0),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), 1.3, 1.3),
    "sech2": (lambda x: mp.sech(x) ** 2, 0.4, 1.6),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), 0.4, 3.1),
    "silu": (lambda x: x / (1 + mp.exp(-x)), 0.4, 3.1),
    "sin": (mp.sin, 0.7, 1.0),
    "sinc": (mp.sincpi, 0.4, 1.0),
    "sinh": (mp.sinh, 0.7, 1.0),
    "softplus": (lambda x: mp.log(1 + mp.exp(x)), 0.4, 3.1),
    "spence": (lambda x: mp.polylog(2, 1 - x), 0.6, 0.6),
    "sqrt": (mp.sqrt, 1.3, 1.3),
    "square": (lambda x: x * x, 1.3, 1.0),
    "tan": (mp.tan, 0.4, 1.17),
    "tanh": (mp.tanh, 0.4, 1.6),
    "exprel": (lambda x: mp.expm1(x) / x, 0.8, 1.0),
    "k0": (Closed(lambda x, k: besselk(0, x, k)), 1.2, 1.2),
    "k0e": (Closed(lambda x, k: besselk(0, x, k), scaled=True), 1.2, 1.2),
    "k1": (Closed(lambda x, k: besselk(1, x, k)), 1.2, 1.2),
    "k1e": (Closed(lambda x, k: besselk(1, x, k), scaled=True), 1.2, 1.2),
    "y0": (Closed(lambda x, k: mp.bessely(0, x, derivative=k)), 1.2, 1.2),
    "y1": (Closed(lambda x, k: mp.bessely(1, x, derivative=k)), 1.2, 1.2),
    "zetac": (Closed(lambda x, k: mp.zeta(x, 1, k) - (k == 0)), 2.5, 1.5),
}

#: Smooth functions of one argument without a row above, and why.
WITHOUT = {
    "abs": "kinks: test_points",
    "angle": "constant where it is smooth",
    "conj": "of real numbers, the identity",
    "cosdg": "cos, of degrees",
    "frac": "the identity where it is smooth",
    "gelu_derivative": "the derivative of gelu",
    "imag": "of real numbers, zero",
    "ndtri": "erfinv, scaled",
    "positive": "the identity",
    "rad2deg": "deg2rad, inverted",
    "real": "of real numbers, the identity",
    "relu": "kinks: test_points",
    "sign": "constant where it is smooth",
    "sindg": "sin, of degrees",
    "tandg": "tan, of degrees",
}


def exact(function, point):
    """The Taylor coefficients in 60 digits."""
    with mp.workdps(60):
        if isinstance(function, Closed):
            return function.taylor(mp.mpf(point))
        return [mp.re(c) for c in mp.taylor(function, mp.mpf(point), ORDER)]


def test_every_smooth_function_of_one_argument_is_here_or_says_why():
    smooth = {s.name for s in SCALARS.values() if s.arity == 1 and (any(s.d) or s.vjp)}
    assert smooth == FUNCTIONS.keys() | WITHOUT.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_series_to_order_12(name):
    """Within 1e-10 of the largest of the coefficients times r^k: Cauchy's bound for each of them."""
    function, point, radius = FUNCTIONS[name]
    expected = np.array([float(c * mp.mpf(radius) ** k) for k, c in enumerate(exact(function, point))])
    series = [iv.asarray(1.0), *(iv.asarray(0.0) for _ in range(ORDER - 1))]
    value, others = iv.jet(lambda x: bind(TABLE[name], (x,), {}), (iv.asarray(point),), (series,))
    found = np.array([float(c) * radius**k for k, c in enumerate([value, *others])])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.max(np.abs(expected)))


@pytest.mark.parametrize("exponent", [-2, -0.5, 0, 0.5, 1, 2, 3, 7, 2.5, 40])
def test_powers(exponent):
    expected = exact(lambda x: x**exponent, 1.3)
    found = iv.derivatives(lambda x: x**exponent, ORDER)(iv.asarray(1.3))
    for k, (x, c) in enumerate(zip(found, expected, strict=True)):
        scale = float(max(abs(c) * mp.mpf(1.3) ** j for j, c in enumerate(expected))) / 1.3**k
        assert float(x) / float(mp.factorial(k)) == pytest.approx(float(c), abs=1e-10 * scale)


@pytest.mark.parametrize("exponent", [1, 3, 5, 7])
def test_whole_powers_of_a_curve_through_0(exponent):
    """The coefficients of (t + 2 t^2 - t^3)^n, by NumPy's polynomials."""
    curve = np.polynomial.Polynomial([0.0, 1.0, 2.0, -1.0])
    expected = (curve**exponent).coef
    expected = np.concatenate([expected, np.zeros(ORDER + 1)])[: ORDER + 1]
    series = [iv.asarray(c) for c in np.concatenate([curve.coef[1:], np.zeros(ORDER - 3)])]
    value, others = iv.jet(lambda x: x**exponent, (iv.asarray(0.0),), (series,))
    np.testing.assert_allclose([float(c) for c in (value, *others)], expected, atol=1e-12)


def test_functions_of_two_arguments():
    a = [0.7, 1.0, -0.5, 0.25]
    b = [1.2, 0.5, 0.3, -0.2]
    for name, function in {
        "divide": lambda x, y: x / y,
        "multiply": lambda x, y: x * y,
        "pow": lambda x, y: x**y,
        "hypot": mp.hypot,
        "atan2": mp.atan2,
        "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
        "xlogy": lambda x, y: x * mp.log(y),
        "beta": mp.beta,
    }.items():
        expected = exact(
            lambda t, f=function: f(*(sum(c * t**k for k, c in enumerate(s)) for s in (a, b))), 0
        )
        series = [[iv.asarray(c) for c in (*s[1:], *(0.0,) * (ORDER - 3))] for s in (a, b)]
        value, others = iv.jet(
            lambda x, y, n=name: bind(TABLE[n], (x, y), {}), (iv.asarray(a[0]), iv.asarray(b[0])), series
        )
        # The curves leave the domain of the functions at |t| = 0.9 at the earliest.
        scaled = np.array([float(c) * 0.7**k for k, c in enumerate(expected)])
        found = np.array([float(c) * 0.7**k for k, c in enumerate([value, *others])])
        np.testing.assert_allclose(found, scaled, rtol=0, atol=1e-10 * np.max(np.abs(scaled)), err_msg=name)
