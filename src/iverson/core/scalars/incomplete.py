"""Incomplete gamma and beta functions and the zeta function, with their derivatives in the parameters.

Values are SciPy's. Derivatives in parameters, to any order, are functions of their own, whose first arguments
are the orders; for the first order the integrand or summand has one sign, so that nothing cancels. Their
densities are exponentials of sums of logarithms: of parameters near A they are right to about A log(A) units
in the last place.
"""

from __future__ import annotations

import functools
import math
from math import factorial, prod
from typing import Any

import numpy as np

from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.scalars.quadrature import Double, Total, by_orders, half_line, of_exponential, whole
from iverson.core.scalars.scalar_record import (
    NOT_BELOW_0,
    POSITIVE,
    REAL_FLOAT,
    SCIPY,
    SHARE,
    Slopes,
    scalar,
)
from iverson.core.scalars.special_functions import of_scipy, scipy_special


def _psi(F: Namespace, n: int, x: Double | Value) -> Any:
    return F.digamma(x) if n == 0 else F.polygamma(n, x)


def _gamma_order(F: Namespace, m: int, a: Double, x: Double) -> Total:
    """The m-th derivative in a of the regularized lower incomplete gamma function P(a, x), as a sum.

    It is the integral from 0 to x of the same derivative of t^(a-1) e^-t / gamma(a), with t = x e^-z. Where x
    is above a, it is minus the integral from x to infinity, with t = x + z.
    """
    scale = F.where(
        x <= a,
        1 / F.maximum(a - x, F.minimum(a, F.sqrt(a))),
        1 / F.maximum((x - a) / x, F.minimum(1.0, 1 / F.sqrt(x))),
    )
    log_x = F.log(x)
    front = F.exp(F.where(x <= a, a, a - 1) * log_x - x - F.lgamma(a))

    def integrand(z: Double, a: Double, x: Double, log_x: Double, _front: Double, *slopes: Double) -> Any:
        below = x <= a
        shrunk = -F.expm1(-z)  # t = x - x shrunk
        further = F.log1p(z / x)
        log_t = F.where(below, log_x - z, log_x + further)
        part = F.where(below, x * shrunk - a * z, (a - 1) * further - z)
        return F.exp(part) * of_exponential(
            (m, 0), lambda j, _k: log_t - slopes[0] if j == 1 else -slopes[j - 1]
        )

    def finish(total: Double, a: Double, x: Double, _log: Shaped, front: Double, *_slopes: Double) -> Any:
        value = F.where(x <= a, front, -front) * total
        # At 0 and at infinity P is constant in a.
        value = F.where((x == 0) | F.isinf(x), 0.0, value)
        return F.where((a > 0) & (x >= 0), value, math.nan)

    slopes = [_psi(F, k, a) for k in range(m)]
    return half_line(F, integrand, scale, (a, x, log_x, front, *slopes), finish)


def _gamma_density(F: Namespace, m: int, a: Value, x: Value) -> Any:
    """The m-th derivative in a of x^(a-1) e^-x / gamma(a), the derivative of P in x."""
    density = F.exp(F.xlogy(a - 1, x) - x - F.lgamma(a))

    def slope(j: int, _k: int) -> Any:
        return F.log(x) - F.digamma(a) if j == 1 else -F.polygamma(j - 1, a)

    return density * of_exponential((m, 0), slope) if m else density


def _beta_order(F: Namespace, m: int, n: int, a: Double, b: Double, x: Double) -> Total:
    """The mixed derivative, m-th in a and n-th in b, of the regularized incomplete beta function I_x(a, b).

    It is the integral from 0 to x of the same derivative of t^(a-1) (1-t)^(b-1) / B(a, b), with t = x e^-z.
    Where x is above the mean, that of the mirrored function is taken, by I_x(a, b) = 1 - I_(1-x)(b, a).
    """
    swap = x * (a + b) > a
    # The parameters of the function or its mirror image, whose x is below the mean, and 1 - x.
    p, q = F.where(swap, b, a), F.where(swap, a, b)
    y, complement = F.where(swap, 1 - x, x), F.where(swap, x, 1 - x)
    scale = 1 / F.maximum(p - q * y / complement, F.minimum(p, F.sqrt(p * (p + q) / q)))
    front = F.exp(p * F.log(y) + (q - 1) * F.log(complement) - F.betaln(p, q))
    orders = range(m + n)
    arguments = (a, b, x, front, *(_psi(F, k, v) for v in (p, q, p + q) for k in orders))

    def integrand(z: Double, a: Double, b: Double, x: Double, _front: Double, *psis: Double) -> Any:
        """The integrand in z, divided by the factor ``front`` that does not depend on z."""
        swap = x * (a + b) > a
        p, q = F.where(swap, b, a), F.where(swap, a, b)
        y, complement = F.where(swap, 1 - x, x), F.where(swap, x, 1 - x)
        of_p, of_q, of_both = (psis[k * (m + n) : (k + 1) * (m + n)] for k in range(3))
        further = F.log1p(-F.expm1(-z) * y / complement)
        log_t, log_other = F.log(y) - z, F.log(complement) + further

        def slopes(j: int, k: int) -> Any:
            psi_of_sum = of_both[j + k - 1]
            if j and k:
                return psi_of_sum
            psis_of_argument, other = (of_p, of_q) if j else (of_q, of_p)
            value = psi_of_sum - F.where(swap, other[j + k - 1], psis_of_argument[j + k - 1])
            if j + k > 1:
                return value
            one_log, other_log = (log_t, log_other) if j else (log_other, log_t)
            return value + F.where(swap, other_log, one_log)

        return F.exp((q - 1) * further - p * z) * of_exponential((m, n), slopes)

    def finish(total: Double, a: Double, b: Double, x: Double, front: Double, *_psis: Double) -> Any:
        value = F.where(x * (a + b) > a, -front, front) * total
        value = F.where((x == 0) | (x == 1), 0.0, value)
        return F.where((a > 0) & (b > 0) & (x >= 0) & (x <= 1), value, math.nan)

    return half_line(F, integrand, scale, arguments, finish)


def _beta_density(F: Namespace, m: int, n: int, a: Value, b: Value, x: Value) -> Any:
    """Mixed derivative, m-th in a and n-th in b, of x^(a-1) (1-x)^(b-1) / B(a, b), which is dI/dx."""
    density = F.exp(F.xlogy(a - 1, x) + F.xlog1py(b - 1, -x) - F.betaln(a, b))

    def slope(j: int, k: int) -> Any:
        psi_of_sum = _psi(F, j + k - 1, a + b)
        if j and k:
            return psi_of_sum
        value = psi_of_sum - _psi(F, j + k - 1, a if j else b)
        return value + (F.log(x) if j else F.log1p(-x)) if j + k == 1 else value

    return density * of_exponential((m, n), slope) if m + n else density


#: Below, the terms of a few more steps are added.
_FAR = 12.0
#: Those of minus the asymptotic series of digamma: B(2k) / (2k) for k = 1, 2, ...
_COEFFICIENTS = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)


def _psi_step_order(F: Namespace, n: int, a: Double, b: Double) -> Total:
    """The n-th derivative of digamma at a + b, minus the one at a, without cancellation.

    Let x be the smaller and z the larger of a and a + b. For x < 12, the terms of 1 / (x + k) are added up to
    x + 20 by the recurrence; from there on, the terms of the asymptotic series are subtracted one by one
    (NIST Handbook, 5.5.2 and 5.11.2). If x <= -8, there are two cases: for z < 1/2 and n < 2, both are
    reflected to 1 - z and 1 - x (5.5.4); else the two values themselves are subtracted.
    """

    def ends(a: Double, b: Double) -> tuple[Any, Any, Any, Any, Any]:
        """x, z and z - x; whether they are reflected, or far apart."""
        x, z, d = F.where(b < 0, a + b, a), F.where(b < 0, a, a + b), F.abs(b)
        return x, z, d, (x <= -8) & (z < 0.5) & (n < 2), (x <= -8) & ((z >= 0.5) | (n >= 2))

    x, z, d, reflected, apart = ends(a, b)
    low = F.where(reflected, 1 - z, F.where(apart, 1.0, x))
    high = F.where(reflected, 1 - x, F.where(apart, 1.0, z))
    sign = (-1.0) ** n

    def term(k: Double, low: Double, high: Double, d: Double, *_: Double) -> Any:
        p, q = 1 / (low + k), 1 / (high + k)
        return F.where(low < _FAR, sign * factorial(n) * d * p * q * _sum(p, q, n + 1), 0.0)

    def finish(total: Double, low: Double, high: Double, d: Double, a: Double, b: Double) -> Any:
        """Result from the sum of the terms: adds the asymptotic series and the reflection."""
        steps = F.where(low < _FAR, 20.0, 0.0)
        p, q = 1 / (low + steps), 1 / (high + steps)
        first = d * p * q  # p - q
        value = total + sign * (factorial(n) / 2) * first * _sum(p, q, n + 1)
        value = value + (F.log1p(d * p) if n == 0 else sign * factorial(n - 1) * first * _sum(p, q, n))
        for k, c in enumerate(_COEFFICIENTS, 1):
            value = value + sign * c * prod(range(2 * k, 2 * k + n)) * first * _sum(p, q, 2 * k + n)
        x, z, _, reflected, apart = ends(a, b)
        if n < 2:
            # pi (cot(pi x) - cot(pi z)) and its derivative, by a product where they are close.
            at_x, at_z, step = _sine(F, x), _sine(F, z), _sine(F, d)
            if n == 0:
                poles = math.pi * step / (at_x * at_z)
                plain = math.pi * (_sine(F, x + 0.5) / at_x - _sine(F, z + 0.5) / at_z)
            else:
                poles = -math.pi * math.pi * step * _sine(F, x + z) / (at_x * at_z * at_x * at_z)
                plain = math.pi * math.pi * (1 / (at_z * at_z) - 1 / (at_x * at_x))
            poles = F.where(F.abs(step) < 0.1, poles, plain)
            value = F.where(reflected, poles - sign * value, value)
        value = F.where(apart, _psi(F, n, z) - _psi(F, n, x), value)
        return F.where(b < 0, -value, value)

    return Total(20, (low, high, d, a, b), term, finish)


def _sine(F: Namespace, x: Double) -> Any:
    """sin(pi x)."""
    nearest = F.round(x)
    half = 0.5 * nearest
    sine = F.sin(math.pi * (x - nearest))
    return F.where(F.floor(half) < half, -sine, sine)


def _sum(p: Double, q: Double, n: int) -> Any:
    """(p^n - q^n) / (p - q)."""
    total: Any = 1.0
    power = q
    for _ in range(n - 1):
        total, power = total * p + power, power * q
    return total


_zeta = scipy_special("zeta")


def zeta(x: NDArray, q: NDArray) -> Any:
    """The sum of (k + q)^-x over k >= 0: SciPy's, for q = 1 that of Riemann, which is defined at all x."""
    y = _zeta(x, q)
    return np.where(np.equal(q, 1), _zeta(x), y).astype(y.dtype, copy=False)


@functools.cache
def _bernoulli() -> tuple[float, ...]:
    """B(2k) / (2k)! for k = 1, ..., 14."""
    import scipy.special

    return tuple(float(scipy.special.bernoulli(28)[2 * k]) / factorial(2 * k) for k in range(1, 15))


def _zeta_order(F: Namespace, m: int, s: Double, q: Double) -> Total:
    """The m-th derivative in s of zeta(s, q).

    By the Euler-Maclaurin formula after 16 terms (NIST Handbook, 25.11.5 and 25.11.6); the terms of its
    remainder are computed as Taylor coefficients in s.
    """

    def rest(s: Double, q: Double) -> Any:
        w = q + 16
        tail = [_power(F, j, s, w) for j in range(m + 1)]
        pole = [(-1) ** j / (s - 1) ** (j + 1) for j in range(m + 1)]
        total = tail[m] / 2 + _product([t * w for t in tail], pole)[m]
        rising = _product([t / w for t in tail], [s, 1.0])
        for k, b in enumerate(_bernoulli()):
            total = total + b * rising[m]
            for i in (2 * k + 1, 2 * k + 2):
                rising = _product([t / w for t in rising], [s + i, 1.0])
        return total

    def finish(total: Double, s: Double, q: Double) -> Any:
        value = (total + rest(s, q)) * factorial(m)
        at_infinity = F.where(q < 1, math.inf * (-1) ** m, 0.0)
        # Below, the terms are larger than their sum by as much as rounding leaves digits.
        value = F.where(s >= -2, value, math.nan)
        return F.where(s == math.inf, at_infinity, F.where(q > 0, value, math.nan))

    return Total(16, (s, q), lambda k, s, q: _power(F, m, s, q + k), finish)


def _power(F: Namespace, j: int, s: Double, w: Double) -> Any:
    """The Taylor coefficient j of w^-s in s."""
    power = w**-s
    return power * (-F.log(w)) ** j / factorial(j) if j else power


def _product(series: list[Double], factor: list[Double | float]) -> list[Any]:
    """The leading Taylor coefficients of the product of two series, as many as ``series`` has."""
    return [
        functools.reduce(
            lambda a, b: a + b, (series[j - i] * factor[i] for i in range(min(j + 1, len(factor))))
        )
        for j in range(len(series))
    ]


def _zeta_dq(F: Namespace, m: int, s: Value, q: Value) -> Any:
    # Of (-log w)^m w^-s with w = k + q the derivative is -(s (-log w)^m + m (-log w)^(m-1)) w^(-s-1).
    # The factor is s as it is left in s + 1: near s = 0 the pole of zeta there multiplies what that rounds.
    if m == 0:
        # At s = 0 it is -1 + s digamma(q) + O(s^2); of the power, the second derivative in s is nan.
        at_pole = F.equal(s, 0)
        t = F.where(at_pole, 1.0, s)
        there = s * F.digamma(q) - 1 + F.pow(F.abs(s), 1.5)
        return F.where(at_pole, there, (1 - (t + 1)) * F.zeta(t + 1, q))
    leading_term = (1 - (s + 1)) * F.zeta_order(m, s + 1, q)
    return leading_term - m * (F.zeta_order(m - 1, s + 1, q) if m > 1 else F.zeta(s + 1, q))


def _reflected_slope(F: Namespace, s: Value) -> Any:
    """The derivative of Riemann's zeta function at negative numbers.

    zeta(s) is 2 (2 pi)^(s - 1) sin(pi s / 2) gamma(u) zeta(u) with u = 1 - s (NIST Handbook, 25.4.1).
    """
    u, angle = 1 - s, 0.5 * math.pi * s
    value = F.zeta(u, 1.0)
    slope = (math.log(2 * math.pi) - F.digamma(u)) * value - F.zeta_order(1, u, 1.0)
    terms = F.sin(angle) * slope + 0.5 * math.pi * F.cos(angle) * value
    return terms * (2 * F.exp(F.lgamma(u) + (s - 1) * math.log(2 * math.pi)))


def zeta_slope(F: Namespace, s: Value, q: Value | float) -> Any:
    """The derivative of zeta(s, q) in s; for s < -2 and q = 1, Riemann's function, by reflection.

    q : a Python float says that q is 1.
    """
    below = F.less(s, -2)
    riemann = type(q) is float
    if not riemann:
        below = F.logical_and(below, F.equal(q, 1))
    t = F.where(below, s, -3.0)
    slope = _reflected_slope(F, t)
    if not riemann:  # its derivative in q at 1; of the power, the second is nan
        beyond = F.where(below, q, 1.0) - 1
        slope = slope - beyond * (F.zeta(t + 1, 1.0) + t * _reflected_slope(F, t + 1))
        slope = slope + F.pow(F.abs(beyond), 1.5)
    return F.where(below, slope, F.zeta_order(1, F.where(below, 2.0, s), q))


_SHAPE: tuple[float, float] = (0.5, 2.5)

# fmt: off
INCOMPLETE = (
    of_scipy("gammainc",
        (lambda F, _y, a, x: F.gammainc_order(1, a, x), lambda F, _y, a, x: _gamma_density(F, 0, a, x)),
        "The regularized lower incomplete gamma function P(a, x).", "[1., 2.]", "1.",
        "[0.63212056, 0.26424112]", domain=(_SHAPE, POSITIVE),
        slopes=Slopes((NOT_BELOW_0, NOT_BELOW_0), 2e3, 1e3), names=("a", "x")),
    of_scipy("gammaincc",
        (lambda F, _y, a, x: -F.gammainc_order(1, a, x), lambda F, _y, a, x: -_gamma_density(F, 0, a, x)),
        "The regularized upper incomplete gamma function 1 - P(a, x).", "[1., 2.]", "1.",
        "[0.36787944, 0.73575888]", domain=(_SHAPE, POSITIVE),
        slopes=Slopes((NOT_BELOW_0, NOT_BELOW_0), 2e3, 1e3), names=("a", "x")),
    scalar("gammainc_order", by_orders(1, _gamma_order),
        (
            None,
            lambda F, _y, m, a, x: F.gammainc_order(m + 1, a, x),
            lambda F, _y, m, a, x: _gamma_density(F, whole(m), a, x)), REAL_FLOAT,
        domain=(None, _SHAPE, POSITIVE), names=("m", "a", "x"), orders=1, series=_gamma_order),
    of_scipy("betaln",
        (lambda F, _y, a, b: -F.psi_step_order(0, a, b), lambda F, _y, a, b: -F.psi_step_order(0, b, a)),
        "The logarithm of abs(B(a, b)), the beta function.", "[1., 2.]", "3.", "[-1.09861229, -2.48490665]",
        domain=(_SHAPE, _SHAPE), slopes=Slopes(ulps=200.0), names=("a", "b")),
    scalar("psi_step_order", by_orders(1, _psi_step_order),
        (
            None,
            lambda F, _y, n, a, b: F.psi_step_order(n + 1, a, b),
            lambda F, _y, n, a, b: F.polygamma(n + 1, a + b)), REAL_FLOAT, domain=(None, _SHAPE, _SHAPE),
        names=("n", "a", "b"), orders=1, series=_psi_step_order),
    of_scipy("betainc",
        (
            lambda F, _y, a, b, x: F.betainc_order(1, 0, a, b, x),
            lambda F, _y, a, b, x: F.betainc_order(0, 1, a, b, x),
            lambda F, _y, a, b, x: _beta_density(F, 0, 0, a, b, x)),
        "The regularized incomplete beta function I_x(a, b).", "[1., 2.]", "3.", "0.5", "[0.875 , 0.6875]",
        domain=(_SHAPE, _SHAPE, (0.1, 0.9)), slopes=Slopes((NOT_BELOW_0, NOT_BELOW_0, SHARE), 2e4, 1e3),
        names=("a", "b", "x")),
    of_scipy("betaincc",
        (
            lambda F, _y, a, b, x: -F.betainc_order(1, 0, a, b, x),
            lambda F, _y, a, b, x: -F.betainc_order(0, 1, a, b, x),
            lambda F, _y, a, b, x: -_beta_density(F, 0, 0, a, b, x)),
        "The complement 1 - I_x(a, b) of the regularized incomplete beta function.", "[1., 2.]", "3.", "0.5",
        "[0.125 , 0.3125]", domain=(_SHAPE, _SHAPE, (0.1, 0.9)),
        slopes=Slopes((NOT_BELOW_0, NOT_BELOW_0, SHARE), 2e4, 1e3), names=("a", "b", "x")),
    scalar("betainc_order", by_orders(2, _beta_order),
        (
            None,
            None,
            lambda F, _y, m, n, a, b, x: F.betainc_order(m + 1, n, a, b, x),
            lambda F, _y, m, n, a, b, x: F.betainc_order(m, n + 1, a, b, x),
            lambda F, _y, m, n, a, b, x: _beta_density(F, whole(m), whole(n), a, b, x)), REAL_FLOAT,
        domain=(None, None, _SHAPE, _SHAPE, (0.1, 0.9)), names=("m", "n", "a", "b", "x"), orders=2,
        series=_beta_order),
    # x with P(a, x) = p has dx = (dp - P_a da) / density(x): the derivative of a draw, for a uniform p (M.
    # Figurnov, S. Mohamed, A. Mnih, Implicit reparameterization gradients, 2018).
    of_scipy("gammaincinv",
        (
            lambda F, x, a, _p: -F.gammainc_order(1, a, x) / _gamma_density(F, 0, a, x),
            lambda F, x, a, _p: 1 / _gamma_density(F, 0, a, x)), "The x with gammainc(a, x) = p.", "[1., 2.]",
        "0.5", "[0.69314718, 1.67834699]", zero_preserving=True, domain=(_SHAPE, (0.1, 0.9)),
        slopes=Slopes((NOT_BELOW_0, SHARE), 2e4, 1e2), names=("a", "p")),
    of_scipy("betaincinv",
        (
            lambda F, x, a, b, _p: -F.betainc_order(1, 0, a, b, x) / _beta_density(F, 0, 0, a, b, x),
            lambda F, x, a, b, _p: -F.betainc_order(0, 1, a, b, x) / _beta_density(F, 0, 0, a, b, x),
            lambda F, x, a, b, _p: 1 / _beta_density(F, 0, 0, a, b, x)), "The x with betainc(a, b, x) = p.",
        "[1., 2.]", "2.", "0.5", "[0.29289322, 0.5       ]", domain=(_SHAPE, _SHAPE, (0.1, 0.9)),
        slopes=Slopes((NOT_BELOW_0, NOT_BELOW_0, SHARE), 2e4, 1e2), names=("a", "b", "p")),
    of_scipy("gammainccinv",
        (
            lambda F, x, a, _p: -F.gammainc_order(1, a, x) / _gamma_density(F, 0, a, x),
            lambda F, x, a, _p: -1 / _gamma_density(F, 0, a, x)),
        "The x with gammaincc(a, x) = p, exact for small p.", "[1., 2.]", "0.5", "[0.69314718, 1.67834699]",
        domain=(_SHAPE, (0.1, 0.9)), slopes=Slopes((NOT_BELOW_0, SHARE), 2e4, 1e2), names=("a", "p")),
    of_scipy("betainccinv",
        (
            lambda F, x, a, b, _p: -F.betainc_order(1, 0, a, b, x) / _beta_density(F, 0, 0, a, b, x),
            lambda F, x, a, b, _p: -F.betainc_order(0, 1, a, b, x) / _beta_density(F, 0, 0, a, b, x),
            lambda F, x, a, b, _p: -1 / _beta_density(F, 0, 0, a, b, x)),
        "The x with betaincc(a, b, x) = p, exact for small p.", "[1., 2.]", "2.", "0.5",
        "[0.29289322, 0.5       ]", domain=(_SHAPE, _SHAPE, (0.1, 0.9)),
        slopes=Slopes((NOT_BELOW_0, NOT_BELOW_0, SHARE), 2e4, 1e2), names=("a", "b", "p")),
    scalar("zeta", zeta, (lambda F, _y, x, q: zeta_slope(F, x, q), lambda F, _y, x, q: _zeta_dq(F, 0, x, q)),
        SCIPY, domain=((1.5, 4.0), _SHAPE), slopes=Slopes((None, NOT_BELOW_0), 2e4, 1e2), names=("x", "q")),
    scalar("zeta_order", by_orders(1, _zeta_order),
        (
            None,
            lambda F, _y, m, x, q: F.zeta_order(m + 1, x, q),
            lambda F, _y, m, x, q: _zeta_dq(F, whole(m), x, q)), REAL_FLOAT,
        domain=(None, (1.5, 4.0), _SHAPE), names=("m", "x", "q"), orders=1, series=_zeta_order),
)
# fmt: on
