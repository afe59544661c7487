"""Inverse and scaled error functions, the normal distribution, logarithms of odds, and entropies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.scalars.quadrature import Double, Total, by_orders, half_line
from iverson.core.scalars.scalar_record import (
    NOT_BELOW_0,
    POSITIVE,
    REAL_FLOAT,
    SCIPY,
    SHARE,
    Slopes,
    scalar,
)
from iverson.core.scalars.special_functions import mended, near, of_scipy, scipy_special, tail

_erfcx, _ndtr = scipy_special("erfcx"), scipy_special("ndtr")
_SQRT_PI, _SQRT_2PI = math.sqrt(math.pi), math.sqrt(2 * math.pi)


def _ndtr_body(x: NDArray) -> Any:
    """SciPy's ndtr; for x < -1, where it is small, by the scaled complementary error function."""

    def scaled(b: NDArray) -> Any:
        return 0.5 * _erfcx(b * math.sqrt(0.5))

    return mended(_ndtr(x), x < -1, lambda v: tail(-v, 0.5, 45.0, scaled), x)


def _ndtr_by_parts(F: Namespace, x: Double) -> Any:
    """Normal distribution function as a graph; gelu is x times it, and accurate where it is small."""
    return F.where(x < -1.0, F.gelu(x) / x, 0.5 * F.erfc(x * -math.sqrt(0.5)))


def _erfcx_order(F: Namespace, n: int, x: Double) -> Total:
    """The n-th derivative of erfcx, which has the sign (-1)^n.

    For x > 0 the integral of (-2 t)^n exp(-t^2 - 2 x t) 2 / sqrt(pi) over t >= 0 (NIST Handbook, 7.7.1). Else
    by the recurrence f(n+1) = 2 x f(n) + 2 n f(n-1), whose terms are of one sign there.
    """
    before = F.erfcx(x)
    left = 2 * x * before - 2 / _SQRT_PI
    for k in range(1, n):
        before, left = left, 2 * x * left + 2 * k * before

    def integrand(t: Double, x: Double, _left: Shaped) -> Any:
        return t**n * F.exp(-t * (t + 2 * x)) * (2 / _SQRT_PI)

    def finish(total: Double, x: Double, left: Double) -> Any:
        return F.where(x > 0, (-2.0) ** n * total, left)

    return half_line(F, integrand, 1 / (1 + F.maximum(x, 0.0)), (x, left), finish)


def _density(F: Namespace, x: Value) -> Any:
    """The density of the normal distribution."""
    return F.exp(-0.5 * F.square(near(F, x))) * (1 / _SQRT_2PI)


def _log_ndtr_d(F: Namespace, _y: Shaped, x: Value) -> Any:
    # The density over the distribution; on the left both vanish, and their scaled forms do not.
    right = F.greater(x, 5.0)
    scaled = math.sqrt(2 / math.pi) / F.erfcx(F.where(right, 5.0, x) * -math.sqrt(0.5))
    return F.where(right, _density(F, x) / F.ndtr(x), scaled)


def _both_zero(F: Namespace, x: Value, y: Value, value: Callable[[Value], Value]) -> Any:
    """``value(y)``, but 0 where x and y are both 0: there a factor x = 0 is stronger than a pole."""
    zero = F.logical_and(F.equal(x, 0), F.equal(y, 0))
    return F.where(zero, 0.0, value(F.where(zero, 1.0, y)))


_AT_ZERO = "at x = 0 and y = {0} the derivative in y is 0"

# fmt: off
DISTRIBUTIONS = (
    of_scipy("erfinv", lambda F, y, _x: 0.5 * _SQRT_PI * F.exp(F.square(y)),
        "The inverse of erf, on [-1, 1].", "[0., 0.5]", "[0.        , 0.47693628]", zero_preserving=True,
        domain=((-0.9, 0.9),)),
    scalar("erfcx", _erfcx, lambda F, _y, x: F.erfcx_order(1, x), SCIPY,
        "exp(x**2) * erfc(x), which does not vanish for large x.", "[0., 100.]", "[1.        , 0.00564161]"),
    scalar("erfcx_order", by_orders(1, _erfcx_order), (None, lambda F, _y, n, x: F.erfcx_order(n + 1, x)),
        REAL_FLOAT, series=_erfcx_order, domain=(None, None), names=("n", "x"), orders=1),
    scalar("ndtr", _ndtr_body, lambda F, _y, x: _density(F, x), SCIPY,
        "The distribution function of the standard normal distribution.", "[0., 1.]",
        "[0.5       , 0.84134475]", loops=_ndtr_by_parts),
    of_scipy("ndtri", lambda F, y, _x: _SQRT_2PI * F.exp(0.5 * F.square(y)),
        "The inverse of ndtr, on [0, 1].", "[0.5, 0.9]", "[0.        , 1.28155157]", domain=((0.05, 0.95),)),
    of_scipy("log_ndtr", _log_ndtr_d, "The logarithm of ndtr, exact where that vanishes.", "[0., -100.]",
        "[-6.93147181e-01, -5.00552421e+03]"),
    of_scipy("logit", lambda F, _y, x: F.reciprocal(x * (1 - x)),
        "log(x / (1 - x)), the inverse of the logistic function.", "[0.5, 0.9]", "[0.        , 2.19722458]",
        domain=((0.05, 0.95),), slopes=Slopes((SHARE,))),
    of_scipy("xlogy",
        (lambda F, _y, _x, y: F.log(y), lambda F, _y, x, y: _both_zero(F, x, y, lambda v: x / v)),
        "x * log(y), and 0 where x is 0.", "[0., 2.]", "0.5", "[ 0.        , -1.38629436]",
        zero_preserving=True, domain=(None, POSITIVE), names=("x", "y"), slopes=Slopes((None, NOT_BELOW_0)),
        convention=_AT_ZERO.format(0)),
    of_scipy("xlog1py",
        (lambda F, _y, _x, y: F.log1p(y), lambda F, _y, x, y: _both_zero(F, x, 1 + y, lambda v: x / v)),
        "x * log(1 + y), and 0 where x is 0.", "[0., 2.]", "1e-20", "[0.e+00, 2.e-20]", zero_preserving=True,
        domain=(None, POSITIVE), names=("x", "y"), slopes=Slopes((None, (-1.0, math.inf))),
        convention=_AT_ZERO.format(-1)),
    of_scipy("entr", lambda F, _y, x: -F.log(x) - 1, "-x * log(x), 0 at 0 and -inf below.", "[0., 0.5]",
        "[0.        , 0.34657359]", zero_preserving=True, domain=(POSITIVE,), slopes=Slopes((NOT_BELOW_0,))),
    of_scipy("rel_entr",
        (lambda F, _y, x, y: F.log(x / y) + 1, lambda F, _y, x, y: -_both_zero(F, x, y, lambda v: x / v)),
        "x * log(x / y), 0 where x is 0 and y is not below; inf elsewhere.", "[0., 0.5]", "0.25",
        "[0.        , 0.34657359]", zero_preserving=True, domain=(POSITIVE, POSITIVE), names=("x", "y"),
        slopes=Slopes((NOT_BELOW_0, NOT_BELOW_0)), convention=_AT_ZERO.format(0)),
    of_scipy("kl_div",
        (lambda F, _y, x, y: F.log(x / y), lambda F, _y, x, y: 1 - _both_zero(F, x, y, lambda v: x / v)),
        "x * log(x / y) - x + y, y where x is 0; inf where x or y is negative.", "[0., 0.5]", "0.25",
        "[0.25      , 0.09657359]", zero_preserving=True, domain=(POSITIVE, POSITIVE), names=("x", "y"),
        slopes=Slopes((NOT_BELOW_0, NOT_BELOW_0)), convention="at x = y = 0 the derivative in y is 1"),
)
# fmt: on
