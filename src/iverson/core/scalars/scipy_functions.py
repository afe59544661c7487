"""Further functions of `scipy.special`: powers, gamma functions, integrals, Bessel's of the second kind.

Bodies are SciPy's; derivatives are from the NIST Handbook of Mathematical Functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.scalars.incomplete import zeta_slope
from iverson.core.scalars.quadrature import Double, Total, by_orders, half_line
from iverson.core.scalars.scalar_record import (
    NOT_BELOW_0,
    POSITIVE,
    REAL_FLOAT,
    SCIPY,
    Scalar,
    Slopes,
    scalar,
)
from iverson.core.scalars.special_functions import lgamma, of_scipy, scipy_special

_DEGREE = math.pi / 180
_ABOVE = (1.5, 3.0)
_hyp1f1, _hyp2f1 = scipy_special("hyp1f1"), scipy_special("hyp2f1")


def _exprel_order(_F: Namespace, k: int, x: Double) -> Any:
    """The k-th derivative of (exp(x) - 1) / x: the integral of t^k exp(x t) over t in [0, 1] (13.4.1).

    x is at most 800 in SciPy's function, whose series may not end where exp(x) overflows; at -inf, the result
    is 0, where SciPy gives nan.
    """
    x = np.asarray(x)
    return np.where(np.isneginf(x), 0.0, _hyp1f1(k + 1.0, k + 2.0, np.minimum(x, 800.0)) / (k + 1))


def _log1prel_order(_F: Namespace, k: int, x: Double) -> Any:
    """The k-th derivative of log(1 + x) / x: the integral of (-t)^k k! / (1 + x t)^(k+1) over t in [0, 1]
    (15.6.1).

    For large x it is computed by Leibniz' rule, whose terms cancel little: SciPy's function loses digits
    there.
    """
    x = np.asarray(x)
    n = k + 1.0
    limit = 64.0 if k <= 4 else 1e6
    near = np.where(x < -1, np.nan, _hyp2f1(n, n, n + 1, -np.minimum(x, limit)) / n)
    away = np.where((x > limit) & np.isfinite(x), x, limit)
    share, sums = away / (1 + away), 0.0
    for j in range(k, 0, -1):
        sums = (sums + 1 / j) * share
    far = np.where(np.isposinf(x), 0.0, (np.log1p(away) - sums) / away**n)
    return (-1) ** k * math.factorial(k) * np.where(x > limit, far, near)


def _order(name: str, body: Callable[..., Any], **facts: Any) -> Scalar:
    """Record of a function whose first argument is the order of a derivative in the second argument."""
    rules = None, lambda F, _y, k, x: getattr(F, name)(k + 1, x)
    domain, names = (None, POSITIVE), ("k", "x")
    return scalar(name, by_orders(1, body), rules, REAL_FLOAT, domain=domain, names=names, orders=1, **facts)


def _at_box_cox(F: Namespace, log: Value, slope: Value) -> Any:
    """The derivative in ``slope`` of (exp(slope log) - 1) / slope."""
    return log * log * F.exprel_order(1, slope * log)


def _at_inverse(F: Namespace, y: Value, slope: Value) -> Any:
    """The derivative in ``slope`` of log(1 + slope y) / slope."""
    return y * y * F.log1prel_order(1, slope * y)


def _loggamma(x: NDArray) -> Any:
    return np.where(x < 0, np.nan, lgamma(x)).astype(x.dtype, copy=False)


def _rgamma_d(F: Namespace, y: Value, x: Value) -> Any:
    """Derivative of 1 / gamma(x); for x < 1/2 by the reflection 1 / gamma(x) = gamma(1 - x) sin(pi x) / pi.

    At the poles of gamma, y digamma(x) would be 0 times inf.
    """
    low = F.less(x, 0.5)
    near = F.where(low, x, 0.0)
    nearest = F.round(near)
    half = 0.5 * nearest
    sign = F.where(F.equal(F.floor(half), half), 1.0, -1.0)
    angle, mirrored = math.pi * (near - nearest), 1.0 - near
    reflected = F.gamma(mirrored) * (F.cos(angle) - F.digamma(mirrored) * F.sin(angle) * (1 / math.pi))
    return F.where(low, sign * reflected, -y * F.digamma(F.where(low, 1.0, x)))


def _spence_d(F: Namespace, _y: Shaped, x: Value) -> Any:
    """log(x) / (1 - x)."""
    near = F.less(F.abs(x - 1), 0.5)
    away = F.where(near, 2.0, x)
    return F.where(near, -F.log1prel_order(0, F.where(near, x - 1, 0.0)), F.log(away) / (1 - away))


def _k0e_order(F: Namespace, k: int, x: Double) -> Total:
    """The k-th derivative of exp(x) K0(x), the integral of (-z)^k exp(-x z) / sqrt(z (z + 2)) over z >= 0
    (NIST Handbook, 10.32.8), whose terms are of one sign."""

    def integrand(z: Double, x: Double) -> Any:
        return z**k * F.exp(-x * z) / F.sqrt(z * (z + 2))

    def finish(total: Double, x: Double) -> Any:
        return F.where(x > 0, F.where(F.isinf(x), 0.0, (-1.0) ** k * total), math.nan)

    return half_line(F, integrand, 1 / x, (x,), finish)


# fmt: off
FUNCTIONS = (
    of_scipy("cbrt", lambda F, y, _x: 1 / (3 * y * y), "The real cube root.", "[8., -1.]", "[ 2., -1.]",
        convention="at 0 the derivative is inf", domain=(POSITIVE,), zero_preserving=True),
    of_scipy("exp10", lambda F, y, _x: math.log(10) * y, "10**x.", "[0., 2.]", "[  1., 100.]"),
    of_scipy("exprel", lambda F, _y, x: F.exprel_order(1, x), "(exp(x) - 1) / x, 1 at 0.", "[0., 1.]",
        "[1.        , 1.71828183]"),
    _order("exprel_order", _exprel_order),
    _order("log1prel_order", _log1prel_order),
    _order("k0e_order", _k0e_order, series=_k0e_order),
    of_scipy("cosm1", lambda F, _y, x: -F.sin(x), "cos(x) - 1.", "[0., 1.]", "[ 0.        , -0.45969769]",
        zero_preserving=True),
    of_scipy("sindg", lambda F, _y, x: _DEGREE * F.cosdg(x), "The sine of an angle in degrees.", "[30., 90.]",
        "[0.5, 1. ]", zero_preserving=True),
    of_scipy("cosdg", lambda F, _y, x: -_DEGREE * F.sindg(x), "The cosine of an angle in degrees.",
        "[60., 180.]", "[ 0.5, -1. ]"),
    of_scipy("tandg", lambda F, y, _x: _DEGREE * (1 + y * y), "The tangent of an angle in degrees.",
        "[0., 45.]", "[0., 1.]", zero_preserving=True),
    of_scipy("boxcox",
        (
            lambda F, _y, x, lmbda: F.exp((lmbda - 1) * F.log(x)),
            lambda F, _y, x, lmbda: _at_box_cox(F, F.log(x), lmbda)),
        "The Box-Cox transformation (x**lmbda - 1) / lmbda, log(x) for lmbda = 0.", "[1., 4.]", "0.5",
        "[0., 2.]", names=("x", "lmbda"), domain=(POSITIVE, (-1.0, 2.0))),
    of_scipy("boxcox1p",
        (
            lambda F, _y, x, lmbda: F.exp((lmbda - 1) * F.log1p(x)),
            lambda F, _y, x, lmbda: _at_box_cox(F, F.log1p(x), lmbda)),
        "The Box-Cox transformation of 1 + x.", "[0., 3.]", "0.5", "[0., 2.]", names=("x", "lmbda"),
        domain=(POSITIVE, (-1.0, 2.0)), zero_preserving=True),
    of_scipy("inv_boxcox",
        (
            lambda F, out, y, lmbda: out / (1 + lmbda * y),
            lambda F, out, y, lmbda: out * _at_inverse(F, y, lmbda)),
        "The inverse of the Box-Cox transformation in its first argument.", "[0., 2.]", "0.5", "[1., 4.]",
        names=("y", "lmbda"), domain=(POSITIVE, (0.1, 2.0))),
    # Not 1 + out, which cancels where out is near -1.
    of_scipy("inv_boxcox1p",
        (
            lambda F, _out, y, lmbda: F.inv_boxcox(y, lmbda) / (1 + lmbda * y),
            lambda F, _out, y, lmbda: F.inv_boxcox(y, lmbda) * _at_inverse(F, y, lmbda)),
        "The inverse of `boxcox1p` in its first argument.", "[0., 2.]", "0.5", "[0., 3.]",
        names=("y", "lmbda"), domain=(POSITIVE, (0.1, 2.0)), zero_preserving=True),
    of_scipy("gamma", lambda F, y, x: y * F.digamma(x), "The gamma function.", "[1., 5.]", "[ 1., 24.]",
        domain=(POSITIVE,)),
    of_scipy("rgamma", _rgamma_d, "1 / gamma(x).", "[1., 3.]", "[1. , 0.5]", domain=(POSITIVE,),
        zero_preserving=True),
    scalar("loggamma", _loggamma, lambda F, _y, x: F.digamma(x), SCIPY,
        "The principal branch of the logarithm of the gamma function: nan for x < 0.", "[1., 3.]",
        "[0.        , 0.69314718]", loops=lambda F, x: F.where(x < 0, math.nan, F.lgamma(x)),
        slopes=Slopes((NOT_BELOW_0,)), domain=(POSITIVE,)),
    of_scipy("beta",
        (
            lambda F, y, a, b: -y * F.psi_step_order(0, a, b),
            lambda F, y, a, b: -y * F.psi_step_order(0, b, a)),
        "The beta function gamma(a) gamma(b) / gamma(a + b).", "[1., 2.]", "2.", "[0.5       , 0.16666667]",
        names=("a", "b"), domain=(POSITIVE, POSITIVE), slopes=Slopes(ulps=2e3, size=1e3)),
    of_scipy("binom",
        (
            lambda F, y, n, k: y * F.psi_step_order(0, n - k + 1, k),
            lambda F, y, n, k: y * F.psi_step_order(0, k + 1, n - 2 * k)),
        "The binomial coefficient, of real n and k too.", "[4., 5.]", "2.", "[ 6., 10.]", names=("n", "k"),
        domain=(_ABOVE, (0.2, 1.2)), slopes=Slopes(ulps=2e3, size=1e3)),
    of_scipy("poch",
        (lambda F, y, z, m: y * F.psi_step_order(0, z, m), lambda F, y, z, m: y * F.digamma(z + m)),
        "The Pochhammer symbol gamma(z + m) / gamma(z).", "[1., 2.]", "3.", "[ 6., 24.]", names=("z", "m"),
        domain=(POSITIVE, POSITIVE), slopes=Slopes(ulps=2e3, size=1e3)),
    of_scipy("zetac", lambda F, _y, x: zeta_slope(F, x, 1.0), "Riemann's zeta function less 1.", "[2., 4.]",
        "[0.64493407, 0.08232323]", slopes=Slopes(ulps=2e4, size=1e2), domain=((1.5, 4.0),)),
    of_scipy("exp1", lambda F, _y, x: -F.exp(-x) / x, "The exponential integral E1.", "[1., 2.]",
        "[0.21938393, 0.04890051]", domain=(POSITIVE,), slopes=Slopes((NOT_BELOW_0,))),
    of_scipy("expi", lambda F, _y, x: F.exp(x) / x, "The exponential integral Ei.", "[1., 2.]",
        "[1.89511782, 4.95423436]", domain=(POSITIVE,)),
    of_scipy("spence", _spence_d, "Spence's function, the integral of log(t) / (1 - t) from 1 to x.",
        "[1., 2.]", "[ 0.        , -0.82246703]", domain=(POSITIVE,)),
    of_scipy("k0", lambda F, _y, x: -F.k1(x), "The modified Bessel function of the second kind of order 0.",
        "[1., 2.]", "[0.42102444, 0.11389387]", domain=(POSITIVE,)),
    of_scipy("k1", lambda F, y, x: -F.k0(x) - y / x,
        "The modified Bessel function of the second kind of order 1.", "[1., 2.]", "[0.60190723, 0.13986588]",
        domain=(POSITIVE,)),
    of_scipy("k0e", lambda F, _y, x: F.k0e_order(1, x), "exp(x) * k0(x).", "[1., 2.]",
        "[1.14446308, 0.84156822]", domain=(POSITIVE,)),
    of_scipy("k1e", lambda F, _y, x: F.k0e_order(1, x) - F.k0e_order(2, x), "exp(x) * k1(x).", "[1., 2.]",
        "[1.63615349, 1.03347685]", domain=(POSITIVE,)),
    of_scipy("y0", lambda F, _y, x: -F.y1(x), "The Bessel function of the second kind of order 0.",
        "[1., 2.]", "[0.08825696, 0.51037567]", domain=(POSITIVE,)),
    of_scipy("y1", lambda F, y, x: F.y0(x) - y / x, "The Bessel function of the second kind of order 1.",
        "[1., 2.]", "[-0.78121282, -0.10703243]", domain=(POSITIVE,)),
)
# fmt: on
