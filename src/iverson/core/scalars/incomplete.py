"""Incomplete gamma and beta functions and the zeta function, with their derivatives in the parameters.

Values are SciPy's. Derivatives in parameters, to any order, are functions of their own, whose first arguments
are the orders; what they integrate or sum is of one sign for the first order, so that nothing cancels. Their
densities are exponentials of sums of logarithms: of parameters near A they are right to about A log(A) units
in the last place.
"""

from __future__ import annotations

import functools
from math import factorial
from typing import Any

import numpy as np

from iverson.core.scalars.quadrature import by_orders, half_line, of_exponential, whole
from iverson.core.scalars.record import POSITIVE, REAL, Scalar, of_scipy
from iverson.core.scalars.special import scipy_special


def _polygamma(n: int, x: Any) -> Any:
    import scipy.special

    return scipy.special.digamma(x) if n == 0 else scipy.special.polygamma(n, x)


def _psi(F: Any, n: int, x: Any) -> Any:
    return F.digamma(x) if n == 0 else F.polygamma(n, x)


def _gamma_order(m: int, a: Any, x: Any) -> Any:
    """The m-th derivative in a of the regularized lower incomplete gamma function P(a, x).

    The integral from 0 to x of the same derivative of t^(a-1) e^-t / gamma(a), with t = x e^-z; where x is
    above a, less that from x on, with t = x + z.
    """
    import scipy.special

    below = x <= a
    scale = np.where(
        below,
        1 / np.maximum(a - x, np.minimum(a, np.sqrt(a))),
        1 / np.maximum((x - a) / x, np.minimum(1, 1 / np.sqrt(x))),
    )
    slopes = [-_polygamma(k, a) for k in range(m)]
    log_x = np.log(x)
    front = np.exp(np.where(below, a, a - 1) * log_x - x - scipy.special.gammaln(a))

    def integrand(z: Any) -> Any:
        shrunk = -np.expm1(-z)  # t = x - x shrunk
        log_t = np.where(below, log_x - z, log_x + np.log1p(z / x))
        part = np.where(below, x * shrunk - a * z, (a - 1) * np.log1p(z / x) - z)
        return np.exp(part) * of_exponential((m, 0), lambda j, _k: slopes[j - 1] + (log_t if j == 1 else 0.0))

    found = np.where(below, 1, -1) * front * half_line(integrand, scale)
    # At 0 and at infinity P is constant in a.
    found = np.where((x == 0) | np.isinf(x), 0.0, found)
    return np.where((a > 0) & (x >= 0), found, np.nan)


def _gamma_density(F: Any, m: int, a: Any, x: Any) -> Any:
    """The m-th derivative in a of x^(a-1) e^-x / gamma(a), the derivative of P in x."""
    density = F.exp(F.xlogy(a - 1, x) - x - F.lgamma(a))

    def slope(j: int, _k: int) -> Any:
        return F.log(x) - F.digamma(a) if j == 1 else -F.polygamma(j - 1, a)

    return density * of_exponential((m, 0), slope) if m else density


def _beta_order(m: int, n: int, a: Any, b: Any, x: Any) -> Any:
    """The mixed derivative in a and b of the regularized incomplete beta function I_x(a, b).

    The integral from 0 to x of the same derivative of t^(a-1) (1-t)^(b-1) / B(a, b), with t = x e^-z; where x
    is above the mean, that of the mirrored function, I_x(a, b) = 1 - I_(1-x)(b, a).
    """
    swap = x * (a + b) > a
    left = _beta_integral(
        m,
        n,
        np.where(swap, b, a),
        np.where(swap, a, b),
        np.where(swap, 1 - x, x),
        np.where(swap, x, 1 - x),
        swap,
    )
    found = np.where(swap, -left, left)
    found = np.where((x == 0) | (x == 1), 0.0, found)
    return np.where((a > 0) & (b > 0) & (x >= 0) & (x <= 1), found, np.nan)


def _beta_integral(m: int, n: int, a: Any, b: Any, x: Any, rest: Any, swap: Any) -> Any:
    """As `_beta_order`, with x below the mean and 1 - x = rest; where ``swap``, m is the order in b."""
    import scipy.special

    slope = a - b * x / rest
    scale = 1 / np.maximum(slope, np.minimum(a, np.sqrt(a * (a + b) / b)))
    log_x, log_rest = np.log(x), np.log(rest)
    front = np.exp(a * log_x + (b - 1) * log_rest - scipy.special.betaln(a, b))
    of_a, of_b, of_both = ([_polygamma(k, v) for k in range(m + n)] for v in (a, b, a + b))

    def integrand(z: Any) -> Any:
        further = np.log1p(-np.expm1(-z) * x / rest)
        log_t, log_other = log_x - z, log_rest + further

        def slopes(j: int, k: int) -> Any:
            both = of_both[j + k - 1]
            if j and k:
                return both
            own = np.where(swap, of_b[j - 1], of_a[j - 1]) if j else np.where(swap, of_a[k - 1], of_b[k - 1])
            if j + k > 1:
                return both - own
            log = np.where(swap, log_other, log_t) if j else np.where(swap, log_t, log_other)
            return both - own + log

        return np.exp((b - 1) * further - a * z) * of_exponential((m, n), slopes)

    return front * half_line(integrand, scale)


def _beta_density(F: Any, m: int, n: int, a: Any, b: Any, x: Any) -> Any:
    """The mixed derivative in a and b of x^(a-1) (1-x)^(b-1) / B(a, b), the derivative of I in x."""
    density = F.exp(F.xlogy(a - 1, x) + F.xlog1py(b - 1, -x) - F.betaln(a, b))

    def slope(j: int, k: int) -> Any:
        both = _psi(F, j + k - 1, a + b)
        if j and k:
            return both
        found = both - _psi(F, j + k - 1, a if j else b)
        return found + (F.log(x) if j else F.log1p(-x)) if j + k == 1 else found

    return density * of_exponential((m, n), slope) if m + n else density


_zeta = scipy_special("zeta")


def zeta(x: Any, q: Any) -> Any:
    """The sum of (k + q)^-x over k >= 0: SciPy's, for q = 1 that of Riemann, which is defined at all x."""
    y = _zeta(x, q)
    return np.where(np.equal(q, 1), _zeta(x), y).astype(y.dtype, copy=False)


@functools.cache
def _bernoulli() -> tuple[float, ...]:
    """B(2k) / (2k)! for k = 1, ..., 14."""
    import scipy.special

    return tuple(float(scipy.special.bernoulli(28)[2 * k]) / factorial(2 * k) for k in range(1, 15))


def _zeta_order(m: int, s: Any, q: Any) -> Any:
    """The m-th derivative in s of zeta(s, q).

    By the Euler-Maclaurin formula after 16 terms (NIST Handbook, 25.11.5 and 25.11.6), with each term as the
    leading coefficients of its Taylor series in s.
    """
    total: Any = [0.0] * (m + 1)
    for k in range(16):
        total = _sum(total, _power(m, s, q + k))
    w = q + 16
    tail = _power(m, s, w)
    pole = [(-1) ** j / (s - 1) ** (j + 1) for j in range(m + 1)]
    total = _sum(total, [t / 2 for t in tail], _product([t * w for t in tail], pole))
    rising = _product([t / w for t in tail], [s, 1.0])
    for k, b in enumerate(_bernoulli()):
        total = _sum(total, [b * t for t in rising])
        for i in (2 * k + 1, 2 * k + 2):
            rising = _product([t / w for t in rising], [s + i, 1.0])
    found = total[m] * factorial(m)
    return np.where(np.isposinf(s), np.where(q < 1, np.inf * (-1) ** m, 0.0), np.where(q > 0, found, np.nan))


def _power(m: int, s: Any, w: Any) -> list[Any]:
    """Taylor coefficients of w^-s in s."""
    return [w**-s * (-np.log(w)) ** j / factorial(j) for j in range(m + 1)]


def _sum(*series: list[Any]) -> list[Any]:
    return [functools.reduce(lambda a, b: a + b, terms) for terms in zip(*series, strict=True)]


def _product(series: list[Any], factor: list[Any]) -> list[Any]:
    return [
        functools.reduce(
            lambda a, b: a + b, (series[j - i] * factor[i] for i in range(min(j + 1, len(factor))))
        )
        for j in range(len(series))
    ]


def _zeta_dq(F: Any, m: int, s: Any, q: Any) -> Any:
    # Of (-log w)^m w^-s with w = k + q the derivative is -(s (-log w)^m + m (-log w)^(m-1)) w^(-s-1).
    own = -s * (F.zeta_order(m, s + 1, q) if m else F.zeta(s + 1, q))
    if m == 0:
        return own
    return own - m * (F.zeta_order(m - 1, s + 1, q) if m > 1 else F.zeta(s + 1, q))


_SHAPE: tuple[float, float] = (0.5, 2.5)

INCOMPLETE = (
    of_scipy(
        "gammainc",
        scipy_special("gammainc"),
        (lambda F, _y, a, x: F.gammainc_order(1, a, x), lambda F, _y, a, x: _gamma_density(F, 0, a, x)),
        domain=(_SHAPE, POSITIVE),
        names=("a", "x"),
        summary="The regularized lower incomplete gamma function P(a, x).",
        example=("[1., 2.]", "1.", "[0.63212056, 0.26424112]"),
    ),
    of_scipy(
        "gammaincc",
        scipy_special("gammaincc"),
        (lambda F, _y, a, x: -F.gammainc_order(1, a, x), lambda F, _y, a, x: -_gamma_density(F, 0, a, x)),
        domain=(_SHAPE, POSITIVE),
        names=("a", "x"),
        summary="The regularized upper incomplete gamma function 1 - P(a, x).",
        example=("[1., 2.]", "1.", "[0.36787944, 0.73575888]"),
    ),
    Scalar(
        "gammainc_order",
        by_orders(1, _gamma_order),
        (
            None,
            lambda F, _y, m, a, x: F.gammainc_order(m + 1, a, x),
            lambda F, _y, m, a, x: _gamma_density(F, whole(m), a, x),
        ),
        domain=(None, _SHAPE, POSITIVE),
        names=("m", "a", "x"),
        orders=1,
        kinds=REAL,
        result="float",
    ),
    of_scipy(
        "betaln",
        scipy_special("betaln"),
        (
            lambda F, _y, a, b: F.digamma(a) - F.digamma(a + b),
            lambda F, _y, a, b: F.digamma(b) - F.digamma(a + b),
        ),
        domain=(_SHAPE, _SHAPE),
        names=("a", "b"),
        summary="The logarithm of abs(B(a, b)), the beta function.",
        example=("[1., 2.]", "3.", "[-1.09861229, -2.48490665]"),
    ),
    of_scipy(
        "betainc",
        scipy_special("betainc"),
        (
            lambda F, _y, a, b, x: F.betainc_order(1, 0, a, b, x),
            lambda F, _y, a, b, x: F.betainc_order(0, 1, a, b, x),
            lambda F, _y, a, b, x: _beta_density(F, 0, 0, a, b, x),
        ),
        domain=(_SHAPE, _SHAPE, (0.1, 0.9)),
        names=("a", "b", "x"),
        summary="The regularized incomplete beta function I_x(a, b).",
        example=("[1., 2.]", "3.", "0.5", "[0.875 , 0.6875]"),
    ),
    Scalar(
        "betainc_order",
        by_orders(2, _beta_order),
        (
            None,
            None,
            lambda F, _y, m, n, a, b, x: F.betainc_order(m + 1, n, a, b, x),
            lambda F, _y, m, n, a, b, x: F.betainc_order(m, n + 1, a, b, x),
            lambda F, _y, m, n, a, b, x: _beta_density(F, whole(m), whole(n), a, b, x),
        ),
        domain=(None, None, _SHAPE, _SHAPE, (0.1, 0.9)),
        names=("m", "n", "a", "b", "x"),
        orders=2,
        kinds=REAL,
        result="float",
    ),
    of_scipy(
        "zeta",
        zeta,
        (lambda F, _y, x, q: F.zeta_order(1, x, q), lambda F, _y, x, q: _zeta_dq(F, 0, x, q)),
        domain=((1.5, 4.0), _SHAPE),
        names=("x", "q"),
    ),
    Scalar(
        "zeta_order",
        by_orders(1, _zeta_order),
        (
            None,
            lambda F, _y, m, x, q: F.zeta_order(m + 1, x, q),
            lambda F, _y, m, x, q: _zeta_dq(F, whole(m), x, q),
        ),
        domain=(None, (1.5, 4.0), _SHAPE),
        names=("m", "x", "q"),
        orders=1,
        kinds=REAL,
        result="float",
    ),
)
