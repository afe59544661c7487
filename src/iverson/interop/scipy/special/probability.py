"""Integrals, quantiles and distribution functions of `scipy.special` that the library itself has not."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import iverson as iv
from iverson import special
from iverson.core.scalars import SCALARS
from iverson.core.table import F
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting
from iverson.interop.scipy.special.records import Elementwise, function

_ROOT_PI, _DEGREE = math.sqrt(math.pi), math.pi / 180

dawsn: Elementwise = function("dawsn", "x", lambda x: 1 - 2 * x * dawsn(x))
erfi: Elementwise = function("erfi", "z", lambda z: 2 / _ROOT_PI * iv.exp(z * z))
erfcinv: Elementwise = function("erfcinv", "y", lambda y: -0.5 * _ROOT_PI * iv.exp(erfcinv(y) ** 2))
log_expit: Elementwise = function("log_expit", "x", lambda x: iv.sigmoid(-x))
softplus: Elementwise = function("softplus", "x", iv.sigmoid)
ndtri_exp: Elementwise = function(
    "ndtri_exp", "y", lambda y: math.sqrt(2 * math.pi) * iv.exp(y + 0.5 * ndtri_exp(y) ** 2)
)
cotdg: Elementwise = function("cotdg", "x", lambda x: -_DEGREE * (1 + cotdg(x) ** 2))
powm1: Elementwise = function(
    "powm1", "x y", lambda x, y: y * iv.pow(x, y - 1), lambda x, y: iv.log(x) * iv.pow(x, y)
)
wofz: Elementwise = function("wofz", "z", lambda z: 2j / _ROOT_PI - 2 * z * wofz(z), kinds="c")
lambertw_of: Elementwise = function(
    "lambertw", "z", lambda z: iv.exp(-lambertw_of(z)) / (1 + lambertw_of(z)), kinds="c"
)
wrightomega: Elementwise = function(
    "wrightomega", "z", lambda z: wrightomega(z) / (1 + wrightomega(z)), kinds="iufc"
)
wright_bessel: Elementwise = function(
    "wright_bessel", "a b x", None, None, lambda a, b, x: wright_bessel(a, a + b, x)
)
log_wright_bessel: Elementwise = function(
    "log_wright_bessel", "a b x", None, None,
    lambda a, b, x: iv.exp(log_wright_bessel(a, a + b, x) - log_wright_bessel(a, b, x)),
)  # fmt: skip
expn: Elementwise = function(
    "expn", "n x", None,
    lambda n, x: -iv.where(n > 0, expn(iv.maximum(n - 1, 0), x), iv.exp(-x) * (1 + 1 / x) / x),
)  # fmt: skip
owens_t: Elementwise = function(
    "owens_t",
    "h a",
    lambda h, a: -iv.exp(-0.5 * h * h) * iv.erf(a * h / math.sqrt(2)) / math.sqrt(8 * math.pi),
    lambda h, a: iv.exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a)),
)


def _pair(
    name: str, first: Callable[..., Setting], second: Callable[..., Setting]
) -> Callable[..., tuple[Tensor, ...]]:
    parts = (function(name, "x", first, part=0), function(name, "x", second, part=1))

    def call(x: ArrayLike) -> tuple[Tensor, ...]:
        return parts[0](x), parts[1](x)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.special.{name}` of real x: two integrals, each with its derivative."
    return call


sici = _pair("sici", lambda x: iv.sin(x) / x, lambda x: iv.cos(x) / x)
shichi = _pair("shichi", lambda x: iv.sinh(x) / x, lambda x: iv.cosh(x) / x)
fresnel = _pair("fresnel", lambda x: iv.sin(0.5 * math.pi * x * x), lambda x: iv.cos(0.5 * math.pi * x * x))


def _complex(z: ArrayLike) -> Tensor:
    x = iv.asarray(z)
    return x if x.dtype.kind == "c" else iv.astype(x, iv.result_type(x, 1j))


def _wofz(z: ArrayLike) -> Tensor:
    """The Faddeeva function exp(-z^2) erfc(-i z), of complex or real z."""
    return wofz(_complex(z))


def lambertw(z: ArrayLike, k: int = 0) -> Tensor:
    """The principal branch of the inverse of w exp(w), complex. Raises ArgumentError for another branch.

    >>> lambertw(1.0).round(decimals=6)
    iverson.Tensor(0.567143+0.j)
    """
    if k != 0:
        raise iv.errors.ArgumentError("lambertw", "k", got=str(k), expected="0: this is the principal branch")
    return lambertw_of(_complex(z))


def voigt_profile(x: ArrayLike, sigma: ArrayLike, gamma: ArrayLike) -> Tensor:
    """The convolution of a normal density of deviation sigma and a Cauchy density of half width gamma.

    >>> voigt_profile(0.0, 1.0, 0.5).round(decimals=6)
    iverson.Tensor(0.278955)
    """
    width = iv.asarray(sigma) * math.sqrt(2)
    z = (iv.asarray(x) + 1j * iv.asarray(gamma)) / width
    return iv.real(wofz(z)) / (width * _ROOT_PI)


def tklmbda(x: ArrayLike, lmbda: ArrayLike) -> Tensor:
    """The distribution function of Tukey's lambda distribution, for a lambda other than 0."""
    return _tklmbda(x, lmbda)


def _quantile_density(p: Tensor, shape: Tensor) -> Tensor:
    return iv.pow(p, shape - 1) + iv.pow(1 - p, shape - 1)


def _tukey_in_shape(x: Tensor, shape: Tensor) -> Any:
    """dF/dlambda = -f dQ/dlambda, of the quantile function Q(p) = (p^l - (1 - p)^l) / l."""
    p = _tklmbda(x, shape)
    logs = iv.pow(p, shape) * iv.log(p) - iv.pow(1 - p, shape) * iv.log1p(-p)
    return -(logs - x) / shape / _quantile_density(p, shape)


_tklmbda: Elementwise = function(
    "tklmbda", "x lmbda", lambda x, l: 1 / _quantile_density(_tklmbda(x, l), l), _tukey_in_shape
)


def chdtri(v: ArrayLike, p: ArrayLike) -> Tensor:
    """The inverse of chdtrc in x."""
    return 2 * special.gammainccinv(0.5 * iv.asarray(v), p)


def fdtri(dfn: ArrayLike, dfd: ArrayLike, p: ArrayLike) -> Tensor:
    """The inverse of fdtr in x."""
    n, d = iv.asarray(dfn), iv.asarray(dfd)
    share = special.betaincinv(0.5 * n, 0.5 * d, p)
    return d * share / (n * (1 - share))


def stdtrit(df: ArrayLike, p: ArrayLike) -> Tensor:
    """The inverse of stdtr in t.

    >>> stdtrit(1.0, 0.75).round(decimals=6)
    iverson.Tensor(1.)
    """
    result: Tensor = import_module("iverson.interop.scipy.stats").t.ppf(p, df)  # which imports this package
    return result


def bdtr(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Tensor:
    """The probability of at most k of n successes."""
    k = iv.floor(iv.asarray(k, dtype="float64"))
    return special.betainc(iv.asarray(n) - k, k + 1, 1 - iv.asarray(p))


def bdtrc(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Tensor:
    """The probability of more than k of n successes."""
    k = iv.floor(iv.asarray(k, dtype="float64"))
    return special.betainc(k + 1, iv.asarray(n) - k, p)


def bdtri(k: ArrayLike, n: ArrayLike, y: ArrayLike) -> Tensor:
    """The inverse of bdtr in p."""
    k = iv.floor(iv.asarray(k, dtype="float64"))
    return 1 - special.betaincinv(iv.asarray(n) - k, k + 1, y)


def nbdtr(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Tensor:
    """The probability of at most k failures before n successes."""
    return special.betainc(iv.astype(iv.asarray(n), "float64"), iv.asarray(k, dtype="float64") + 1, p)


def nbdtrc(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Tensor:
    """The probability of more than k failures before n successes."""
    return special.betaincc(iv.astype(iv.asarray(n), "float64"), iv.asarray(k, dtype="float64") + 1, p)


def nbdtri(k: ArrayLike, n: ArrayLike, y: ArrayLike) -> Tensor:
    """The inverse of nbdtr in p."""
    return special.betaincinv(iv.astype(iv.asarray(n), "float64"), iv.asarray(k, dtype="float64") + 1, y)


def pdtri(k: ArrayLike, y: ArrayLike) -> Tensor:
    """The inverse of pdtr in the mean."""
    return special.gammainccinv(iv.asarray(k, dtype="float64") + 1, y)


def gdtrix(a: ArrayLike, b: ArrayLike, p: ArrayLike) -> Tensor:
    """The inverse of gdtr in x."""
    return special.gammaincinv(b, p) / iv.asarray(a)


def gdtria(p: ArrayLike, b: ArrayLike, x: ArrayLike) -> Tensor:
    """The inverse of gdtr in the rate."""
    return special.gammaincinv(b, p) / iv.asarray(x)


def _partial(name: str, k: int, y: Setting, *xs: Setting) -> Any:
    """The derivative of a function of the library in one argument, by its record."""
    rule = SCALARS[name].d[k]
    assert rule is not None
    return rule(F, y, *xs)


#: Inverses in a parameter: y solves f(..., y, ...) = p, so that dy = (dp - sum of f_k dx_k) / f_y.
btdtria: Elementwise = function(
    "btdtria",
    "p b x",
    lambda p, b, x: 1 / _partial("betainc", 0, p, btdtria(p, b, x), b, x),
    lambda p, b, x: (
        -_partial("betainc", 1, p, a := btdtria(p, b, x), b, x) / _partial("betainc", 0, p, a, b, x)
    ),
    lambda p, b, x: (
        -_partial("betainc", 2, p, a := btdtria(p, b, x), b, x) / _partial("betainc", 0, p, a, b, x)
    ),
)


def btdtrib(a: ArrayLike, p: ArrayLike, x: ArrayLike) -> Tensor:
    """The b at which betainc(a, b, x) is p, by betainc(b, a, 1 - x) = 1 - p."""
    return btdtria(1 - iv.asarray(p), a, 1 - iv.asarray(x))


_gamma_shape: Elementwise = function(
    "chdtriv",
    "p x",
    lambda p, x: 2 / _partial("gammainc", 0, p, 0.5 * _gamma_shape(p, x), 0.5 * x),
    lambda p, x: (
        -_partial("gammainc", 1, p, a := 0.5 * _gamma_shape(p, x), 0.5 * x)
        / _partial("gammainc", 0, p, a, 0.5 * x)
    ),
)


def chdtriv(p: ArrayLike, x: ArrayLike) -> Tensor:
    """The degrees of freedom at which chdtr is p."""
    return _gamma_shape(p, x)


def gdtrib(a: ArrayLike, p: ArrayLike, x: ArrayLike) -> Tensor:
    """The shape at which gdtr is p."""
    return 0.5 * _gamma_shape(p, 2 * iv.asarray(a) * iv.asarray(x))


def pdtrik(p: ArrayLike, m: ArrayLike) -> Tensor:
    """The k at which pdtr is p."""
    return 0.5 * _gamma_shape(1 - iv.asarray(p), 2 * iv.asarray(m)) - 1


chndtr: Elementwise = function(
    "chndtr",
    "x df nc",
    lambda x, df, nc: 0.5 * (chndtr(x, df - 2, nc) - chndtr(x, df, nc)),
    None,
    lambda x, df, nc: 0.5 * (chndtr(x, df + 2, nc) - chndtr(x, df, nc)),
)


def comb(N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False) -> Tensor:
    """The binomial coefficient, of real numbers."""
    n = iv.asarray(N)
    return special.binom(n + k - 1 if repetition else n, k)


def perm(N: ArrayLike, k: ArrayLike, exact: bool = False) -> Tensor:
    """gamma(N + 1) / gamma(N - k + 1)."""
    k = iv.asarray(k)
    return special.poch(iv.asarray(N) - k + 1, k)


def factorial(n: ArrayLike, exact: bool = False) -> Tensor:
    """gamma(n + 1)."""
    return special.gamma(iv.asarray(n) + 1)


def diric(x: ArrayLike, n: int) -> Tensor:
    """The periodic sinc function sin(n x / 2) / (n sin(x / 2)), (-1)^(k (n - 1)) at x = 2 pi k."""
    angle = 0.5 * iv.asarray(x)
    turns = iv.round(angle / math.pi)
    near = angle - turns * math.pi
    sign = 1 - 2 * iv.abs(iv.remainder(turns * (n - 1), 2))
    return sign * special.sinc(n * near / math.pi) / special.sinc(near / math.pi)
