"""Special functions by mpmath, under the names of rows of the table of elementwise functions.

A function is nan where it is not a real number, as ours are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import scipy.special


def _positive(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of positive arguments alone."""

    def of(*xs: Any) -> Any:
        return function(*xs) if all(x > 0 for x in xs) else mp.nan

    return of


def _log_power(x: Any, p: Any) -> Any:
    """(x^p - 1) / p."""
    log = mp.log(x)
    return mp.expm1(p * log) / p if p else log


def _from_log_power(y: Any, p: Any) -> Any:
    return mp.exp(mp.log1p(p * y) / p) if p else mp.exp(y)


def _gammainc(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True) if a > 0 and x >= 0 else mp.nan


def _gammaincc(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True) if a > 0 and x >= 0 else mp.nan


def _betaincc(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(b, a, 0, 1 - x, regularized=True) if a > 0 and b > 0 and 0 <= x <= 1 else mp.nan


def _betainc(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True) if a > 0 and b > 0 and 0 <= x <= 1 else mp.nan


def _inverse(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The x with function(*parameters, x) = p, from SciPy's on, by Newton's method."""

    def of(*xs: Any) -> Any:
        *parameters, p = xs
        if not (0 < p < 1 and all(a > 0 for a in parameters)):
            return mp.nan
        x = mp.mpf(float(getattr(scipy.special, name)(*map(float, xs))))
        for _ in range(3 if mp.mp.dps < 60 else 4):
            h = x * mp.mpf(10) ** (-mp.mp.dps // 3)
            slope = (function(*parameters, x + h) - function(*parameters, x - h)) / (2 * h)
            x -= (function(*parameters, x) - p) / slope
        return x

    return of


def _silu(x: Any) -> Any:
    return x / (1 + mp.exp(-x))


EXACT: dict[str, Callable[..., Any]] = {
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "silu": _silu,
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2,
    "gelu_derivative": lambda x: (
        (mp.erfc(-x / mp.sqrt(2)) if x < 1 else -mp.erfc(x / mp.sqrt(2))) / 2 + x * mp.npdf(x)
    ),  # but for a constant
    "erf": lambda x: 1 - mp.erfc(x) if x < 1 else -mp.erfc(x),  # but for a constant
    "erfc": mp.erfc,
    "lgamma": lambda x: mp.re(mp.loggamma(x)),
    "digamma": lambda x: mp.psi(0, x),
    "erfinv": lambda x: mp.erfinv(x) if abs(x) < 1 else mp.nan,
    "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x),
    "ndtr": mp.ncdf,
    "ndtri": lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1) if 0 < p < 1 else mp.nan,
    "log_ndtr": lambda x: mp.log(mp.ncdf(x)) if x < 0 else mp.log1p(-mp.ncdf(-x)),
    "logit": lambda x: mp.log(x / (1 - x)) if 0 < x < 1 else mp.nan,
    "xlogy": lambda x, y: x * mp.log(y) if y > 0 else mp.nan,
    "xlog1py": lambda x, y: x * mp.log1p(y) if y > -1 else mp.nan,
    "entr": lambda x: -x * mp.log(x) if x > 0 else mp.nan,
    "rel_entr": lambda x, y: x * mp.log(x / y) if x > 0 and y > 0 else mp.nan,
    "kl_div": lambda x, y: x * mp.log(x / y) - x + y if x > 0 and y > 0 else mp.nan,
    "i0": lambda x: mp.besseli(0, x),
    "i1": lambda x: mp.besseli(1, x),
    "i0e": lambda x: mp.exp(-abs(x)) * mp.besseli(0, x),
    "i1e": lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
    "j0": mp.j0,
    "j1": mp.j1,
    "sinc": mp.sincpi,
    "gammainc": _gammainc,
    "gammaincc": _gammaincc,
    "betaln": lambda a, b: mp.re(mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)),
    "betainc": _betainc,
    "betaincc": _betaincc,
    "gammaincinv": _inverse("gammaincinv", _gammainc),
    "gammainccinv": _inverse("gammainccinv", _gammaincc),
    "betaincinv": _inverse("betaincinv", _betainc),
    "betainccinv": _inverse("betainccinv", _betaincc),
    "zeta": lambda x, q: mp.zeta(x, q) if q > 0 else mp.nan,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "exp10": lambda x: mp.mpf(10) ** x,
    "exprel": lambda x: mp.expm1(x) / x if x else mp.mpf(1),
    "cosm1": lambda x: mp.cos(x) - 1,
    "sindg": lambda x: mp.sin(x * mp.pi / 180),
    "cosdg": lambda x: mp.cos(x * mp.pi / 180),
    "tandg": lambda x: mp.tan(x * mp.pi / 180),
    "boxcox": lambda x, p: _log_power(x, p) if x > 0 else mp.nan,
    "boxcox1p": lambda x, p: _log_power(1 + x, p) if x > -1 else mp.nan,
    "inv_boxcox": lambda y, p: _from_log_power(y, p) if 1 + p * y > 0 else mp.nan,
    "inv_boxcox1p": lambda y, p: _from_log_power(y, p) - 1 if 1 + p * y > 0 else mp.nan,
    "gamma": mp.gamma,
    "rgamma": mp.rgamma,
    "loggamma": _positive(mp.loggamma),
    "beta": mp.beta,
    "binom": mp.binomial,
    "poch": mp.rf,
    "zetac": lambda x: mp.zeta(x) - 1,
    "exp1": _positive(mp.e1),
    "expi": mp.ei,
    "spence": lambda x: mp.re(mp.polylog(2, 1 - x)) if x > 0 else mp.nan,
    "k0": _positive(lambda x: mp.besselk(0, x)),
    "k1": _positive(lambda x: mp.besselk(1, x)),
    "k0e": _positive(lambda x: mp.exp(x) * mp.besselk(0, x)),
    "k1e": _positive(lambda x: mp.exp(x) * mp.besselk(1, x)),
    "y0": _positive(lambda x: mp.bessely(0, x)),
    "y1": _positive(lambda x: mp.bessely(1, x)),
}
