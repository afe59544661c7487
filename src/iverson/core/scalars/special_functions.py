"""Special functions and the activation functions made of them; bodies within a few units in the last place.

SciPy's bodies are used where they are that exact. Elsewhere (results that are nearly or really subnormal, the
surroundings of zeros and poles) the entries in question are computed again by the methods named below.
SciPy is imported when a function is first called. lgamma and digamma are less exact next to their zeros at
negative x: the error is that of values of size 1 (lgamma) and 4 (digamma).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.scalars.scalar_record import (
    COMPILED,
    COMPLEX,
    FINITE,
    FLOAT,
    POSITIVE,
    REAL_FLOAT,
    SCIPY,
    ZERO,
    Derivative,
    Scalar,
    Slopes,
    Strided,
    scalar,
)


def scipy_special(name: str) -> Callable[..., Any]:
    """SciPy's function ``name``; SciPy is imported at the first call.

    SciPy's loops treat a Python number as double precision: here it is cast to the dtype of the arrays.
    """

    def body(*args: Strided) -> Any:
        import scipy.special

        if any(isinstance(x, (int, float)) for x in args):
            dtype = np.result_type(*args)
            args = tuple(np.asarray(x, dtype) if isinstance(x, (int, float)) else x for x in args)
        return getattr(scipy.special, name)(*args)

    body.__name__ = name
    return body


def of_scipy(
    name: str, d: Derivative | tuple[Derivative | None, ...], summary: str = "", *example: str, **facts: Any
) -> Scalar:
    """The record of a function of real numbers that is public in `iverson.special`, under SciPy's name."""
    return scalar(name, scipy_special(name), d, SCIPY, summary, *example, **facts)


_erfc, _erfcx, _ndtr, _gammaln, _psi = map(scipy_special, ("erfc", "erfcx", "ndtr", "gammaln", "digamma"))


def mended(y: NDArray, hard: NDArray, better: Callable[[NDArray], NDArray], x: NDArray) -> Any:
    """``y`` with the entries in the mask ``hard`` replaced by ``better(x)`` at these entries."""
    if not np.any(hard):
        return y
    result = np.array(y)
    result[hard] = better(np.asarray(x)[hard])
    return result


def sigmoid(x: NDArray) -> Any:
    """1 / (1 + e^-x); for negative x as e^x / (1 + e^x), so that it may be subnormal."""
    if x.dtype.kind == "c":
        negative = x.real < 0
        e = np.exp(np.where(negative, x, -x))
        return np.where(negative, e, np.ones((), x.dtype)) / (1 + e)
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))


def silu(x: NDArray) -> Any:
    """x sigmoid(x); for negative x, (x h / (1 + h^2)) h with h = e^(-|x|/2), rounded once if subnormal."""
    if x.dtype.kind == "c":
        return np.where(x.real < -4000, -4000 + 1j * x.imag, x).astype(x.dtype) * sigmoid(x)
    x = np.maximum(x, -4000)  # beyond, the result is -0
    h = np.exp(-0.5 * np.abs(x))
    part = np.where(x < 0, h, np.ones((), x.dtype))
    return x * part / (1 + h * h) * part


def erfc(x: NDArray) -> Any:
    """1 - erf(x), computed by its scaled form where x > 1."""
    return mended(_erfc(x), x > 1, lambda v: tail(v, 1.0, 30.0, _erfcx), x)


def gelu(x: NDArray) -> Any:
    """x erfc(-x / sqrt(2)) / 2; x is multiplied in before a result may become subnormal."""

    def scaled(b: NDArray) -> Any:
        return -0.5 * b * _erfcx(b * math.sqrt(0.5))

    return mended(np.maximum(x, -1) * _ndtr(x), x < -1, lambda v: tail(-v, 0.5, 45.0, scaled), x)


def gelu_derivative(x: NDArray) -> Any:
    """cdf(x) + x pdf(x) of the standard normal distribution; the tail as exp(-x^2 / 2) times what is left."""

    def scaled(b: NDArray) -> Any:
        return 0.5 * _erfcx(b * math.sqrt(0.5)) - b * _PDF_AT_0

    t = np.clip(x, -1, 45)
    middle = _ndtr(t) + t * np.exp(-0.5 * t * t) * _PDF_AT_0
    return mended(middle, x < -1, lambda v: tail(-v, 0.5, 45.0, scaled), x)


def tail(a: NDArray, factor: float, last: float, scaled: Callable[[NDArray], NDArray]) -> Any:
    """exp(-factor a^2) scaled(a), for a >= 1; 0 for a beyond ``last``.

    The relative error of the result would be the absolute rounding error of factor a^2. So a^2 is split: with
    h the leading bits of a, h^2 is exact and exp(-factor (a - h) (a + h)) is near 1 (W. Cody, Math. Comp. 23,
    1969).
    """
    b = np.minimum(a, last).astype(np.float64)
    h = b.astype(np.float32).astype(np.float64)
    near = np.exp(-factor * (b - h) * (b + h))
    return (scaled(b) * near * np.exp(-factor * h * h)).astype(a.dtype)


def lgamma(x: NDArray) -> Any:
    """log |gamma(x)|; inf at both infinities, as in C."""
    y = mended(_gammaln(x), np.isinf(x), np.abs, x)
    if y.dtype == np.float32:  # computed in double
        return y
    y = mended(y, np.abs(x) < 1e-300, lambda v: -np.log(np.abs(v)), x)
    return mended(y, (x > 0.5) & (x < 2.5), _lgamma_near_zeros, x)


def _lgamma_near_zeros(x: NDArray) -> Any:
    """lgamma in (1/2, 5/2), where it has the zeros 1 and 2.

    lgamma(2 + t) = (1 - gamma) t + sum of (zeta(k) - 1) (-t)^k / k over k >= 2 (Abramowitz and Stegun
    6.1.33), and lgamma(1 + t) is log(1 + t) less.
    """
    first = x < 1.5
    t = x - np.where(first, 1.0, 2.0)
    series = np.zeros_like(t)
    for c in _lgamma_series():
        series = (series + c) * t
    return np.where(first, series - np.log1p(np.where(first, t, 0.0)), series)


@functools.cache
def _lgamma_series() -> tuple[float, ...]:
    """Coefficients of t^30, ..., t^2, t."""
    zeta_less_1 = scipy_special("zetac")
    return (*(float(zeta_less_1(k)) * (-1) ** k / k for k in range(30, 1, -1)), 1 - np.euler_gamma)


def digamma(x: NDArray) -> Any:
    """The derivative of lgamma; nan at negative integers, -inf at 0 and inf at -0.

    Near its poles as psi(1 - x) - pi / tan(pi x), with x - round(x) in the tangent.
    """
    return mended(_psi(x), (x < 0) & (np.abs(x - np.rint(x)) <= 0.25), _reflected_digamma, x)


def _reflected_digamma(x: NDArray) -> Any:
    fraction = x - np.rint(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = _psi(1 - x) - np.pi / np.tan(np.pi * fraction)
    return np.where(fraction == 0, np.nan, value).astype(x.dtype)


def polygamma(n: NDArray, x: NDArray) -> Any:
    """The n-th derivative of digamma. SciPy's is always in double precision."""
    return np.asarray(scipy_special("polygamma")(n, x), np.result_type(n, x))


def _softplus(x: NDArray) -> Any:
    return np.logaddexp(x, np.zeros((), x.dtype))


def near(F: Namespace, x: Value) -> Any:
    """``x`` limited to [-1e4, 1e4], for products with exp(-|x|), 0 beyond: 0 * inf would be nan."""
    return F.clip(x, -1e4, 1e4)


def _sigmoid_d(F: Namespace, y: Value, x: Value) -> Any:
    return y * F.sigmoid(-x)  # 1 - y would cancel


def _silu_d(F: Namespace, _y: Shaped, x: Value) -> Any:
    # Beyond, sigmoid(x) or sigmoid(-x) is 0: 0 * inf would be nan.
    t = x if x.dtype.kind == "c" else F.where(F.abs(x) <= 1e4, x, 0.0)
    return F.sigmoid(x) * (1 + t * F.sigmoid(-x))


def _gelu_dd(F: Namespace, _y: Shaped, x: Value) -> Any:
    square = F.square(near(F, x))
    return (2 - square) * F.exp(-0.5 * square) * _PDF_AT_0


def _erf_d(F: Namespace, _y: Shaped, x: Value) -> Any:
    return _TWO_OVER_SQRT_PI * F.exp(-F.square(near(F, x)))


_TWO_OVER_SQRT_PI, _PDF_AT_0 = 2 / math.sqrt(math.pi), 1 / math.sqrt(2 * math.pi)

# fmt: off
SPECIAL = (
    scalar("sigmoid", sigmoid, _sigmoid_d, FLOAT | COMPLEX | FINITE | COMPILED, "1 / (1 + exp(-x)).",
        "[0., 2.]", "[0.5       , 0.88079708]", slopes=Slopes()),
    scalar("softplus", _softplus, lambda F, _y, x: F.sigmoid(x), FLOAT | COMPILED,
        "log(1 + exp(x)), without overflow.", kinds="f", slopes=Slopes()),
    scalar("silu", silu, _silu_d, ZERO | COMPLEX | FINITE | COMPILED, "x * sigmoid(x).", "[0., 1.]",
        "[0.        , 0.73105858]", kinds="fc", slopes=Slopes()),
    scalar("gelu", gelu, lambda F, _y, x: F.gelu_derivative(x), ZERO | COMPILED,
        "x times the standard normal distribution function of x.", kinds="f", slopes=Slopes()),
    # A function of its own: what gelu and it have in common is computed once (`codegen.emit.vecmath.error`).
    scalar("gelu_derivative", gelu_derivative, _gelu_dd, COMPILED, kinds="f", slopes=Slopes()),
    scalar("erf", scipy_special("erf"), _erf_d, REAL_FLOAT | ZERO | COMPILED, "The error function.",
        "[0., 1.]", "[0.        , 0.84270079]", slopes=Slopes()),
    scalar("erfc", erfc, lambda F, _y, x: -_erf_d(F, _y, x), REAL_FLOAT | COMPILED,
        "1 - erf(x), exact for large x.", "[0., 1.]", "[1.        , 0.15729921]", slopes=Slopes()),
    scalar("lgamma", lgamma, lambda F, _y, x: F.digamma(x), REAL_FLOAT,
        "The logarithm of abs(gamma(x)); next to its zeros at negative x within 1e-15.", "[1., 5.]",
        "[0.        , 3.17805383]", domain=(POSITIVE,), slopes=Slopes()),
    scalar("digamma", digamma, lambda F, _y, x: F.polygamma(1, x), REAL_FLOAT,
        "The derivative of lgamma; next to its zeros at negative x within 1e-15.", "[1., 2.]",
        "[-0.57721566,  0.42278434]", domain=(POSITIVE,), slopes=Slopes()),
    scalar("polygamma", polygamma, (None, lambda F, _y, n, x: F.polygamma(n + 1, x)), REAL_FLOAT,
        domain=(None, POSITIVE), names=("n", "x"), orders=1),
)
# fmt: on
