"""Distributions under the names of `scipy.stats`, differentiable in the argument and in every parameter.

A distribution is one record: functions of the standard variable ``z = (x - loc) / scale`` and of the shape
parameters, made of `iverson.special`. All else is derived from them by `Distribution`.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from typing import Any, TypedDict, Unpack

import iverson as iv
from iverson import special
from iverson.handles import Tensor
from iverson.interop.scipy.distribution_base import Distribution, Function

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_EULER = 0.5772156649015329


def _positive(*_: Tensor) -> tuple[float, float]:
    return 0.0, math.inf


def _unit(*_: Tensor) -> tuple[float, float]:
    return 0.0, 1.0


def _above(x: Tensor, low: float = 0.0) -> Tensor:
    """Maximum of ``x`` and ``low``, where ``low`` has no derivative.

    It keeps functions finite outside of the support, where their values are not used.
    """
    return iv.where(x > low, x, low)


class _Further(TypedDict):
    """Fields of `Distribution` that do not follow from the symmetry in `_symmetric`."""

    name: str
    log_density: Function
    mean_: Function
    variance_: Function
    entropy_: Function


def _symmetric(
    *,
    cdf_: Function,
    ppf_: Function,
    log_cdf_: Function | None = None,
    shapes: tuple[str, ...] = (),
    **options: Unpack[_Further],
) -> Distribution:
    """Distribution that is symmetric about 0: ``sf_`` and ``isf_`` follow from ``cdf_`` and ``ppf_``."""
    return Distribution(
        shapes=shapes,
        cdf_=cdf_,
        sf_=lambda z, *shapes: cdf_(-z, *shapes),
        ppf_=ppf_,
        isf_=lambda q, *shapes: -ppf_(q, *shapes),
        log_cdf_=log_cdf_,
        log_sf_=log_cdf_ and (lambda z, *shapes: log_cdf_(-z, *shapes)),
        **options,
    )


# --- continuous -------------------------------------------------------------------------------------

norm = _symmetric(
    name="norm",
    log_density=lambda z: -0.5 * z * z - _LOG_SQRT_2PI,
    cdf_=special.ndtr,
    ppf_=special.ndtri,
    log_cdf_=special.log_ndtr,
    mean_=lambda: iv.asarray(0.0),
    variance_=lambda: iv.asarray(1.0),
    entropy_=lambda: iv.asarray(0.5 + _LOG_SQRT_2PI),
)

uniform = Distribution(
    name="uniform",
    support=_unit,
    log_density=iv.zeros_like,
    cdf_=lambda z: z,
    sf_=lambda z: 1 - z,
    ppf_=lambda q: q,
    isf_=lambda q: 1 - q,
    mean_=lambda: iv.asarray(0.5),
    variance_=lambda: iv.asarray(1 / 12),
    entropy_=lambda: iv.asarray(0.0),
)

expon = Distribution(
    name="expon",
    support=_positive,
    log_density=lambda z: -z,
    cdf_=lambda z: -iv.expm1(-_above(z)),
    sf_=lambda z: iv.exp(-_above(z)),
    log_sf_=lambda z: -_above(z),
    ppf_=lambda q: -iv.log1p(-q),
    isf_=lambda q: -iv.log(q),
    mean_=lambda: iv.asarray(1.0),
    variance_=lambda: iv.asarray(1.0),
    entropy_=lambda: iv.asarray(1.0),
)

laplace = _symmetric(
    name="laplace",
    log_density=lambda z: -iv.abs(z) - math.log(2),
    cdf_=lambda z: iv.where(z > 0, 1 - 0.5 * iv.exp(-z), 0.5 * iv.exp(iv.minimum(z, 0.0))),
    log_cdf_=lambda z: iv.where(z > 0, iv.log1p(-0.5 * iv.exp(-z)), z - math.log(2)),
    ppf_=lambda q: iv.where(q > 0.5, -iv.log(2 * (1 - q)), iv.log(2 * q)),
    mean_=lambda: iv.asarray(0.0),
    variance_=lambda: iv.asarray(2.0),
    entropy_=lambda: iv.asarray(1 + math.log(2)),
)

logistic = _symmetric(
    name="logistic",
    log_density=lambda z: -iv.softplus(z) - iv.softplus(-z),
    cdf_=iv.sigmoid,
    ppf_=special.logit,
    log_cdf_=lambda z: -iv.softplus(-z),
    mean_=lambda: iv.asarray(0.0),
    variance_=lambda: iv.asarray(math.pi**2 / 3),
    entropy_=lambda: iv.asarray(2.0),
)


def _cauchy_ppf(q: Tensor) -> Tensor:
    """Quantile -1 / tan(pi q), which is 0 at q = 1 / 2."""
    far = iv.abs(q - 0.5) > 0.25
    outer = -1 / iv.tan(math.pi * iv.where(far, iv.where(q > 0.5, q - 1, q), 0.25))
    return iv.where(far, outer, iv.tan(math.pi * (iv.where(far, 0.5, q) - 0.5)))


cauchy = _symmetric(
    name="cauchy",
    log_density=lambda z: -iv.log1p(z * z) - math.log(math.pi),
    cdf_=lambda z: iv.atan2(iv.ones_like(z), -z) / math.pi,
    ppf_=_cauchy_ppf,
    mean_=lambda: iv.asarray(math.nan),
    variance_=lambda: iv.asarray(math.nan),
    entropy_=lambda: iv.asarray(math.log(4 * math.pi)),
)

gumbel_r = Distribution(
    name="gumbel_r",
    log_density=lambda z: -z - iv.exp(-z),
    cdf_=lambda z: iv.exp(-iv.exp(-z)),
    log_cdf_=lambda z: -iv.exp(-z),
    sf_=lambda z: -iv.expm1(-iv.exp(-z)),
    ppf_=lambda q: -iv.log(-iv.log(q)),
    isf_=lambda q: -iv.log(-iv.log1p(-q)),
    mean_=lambda: iv.asarray(_EULER),
    variance_=lambda: iv.asarray(math.pi**2 / 6),
    entropy_=lambda: iv.asarray(1 + _EULER),
)

gamma = Distribution(
    name="gamma",
    shapes=("a",),
    support=_positive,
    log_density=lambda z, a: special.xlogy(a - 1, z) - z - iv.lgamma(a),
    cdf_=lambda z, a: special.gammainc(a, _above(z)),
    sf_=lambda z, a: special.gammaincc(a, _above(z)),
    ppf_=lambda q, a: special.gammaincinv(a, q),
    isf_=lambda q, a: special.gammainccinv(a, q),
    mean_=lambda a: a,
    variance_=lambda a: a,
    entropy_=lambda a: a + iv.lgamma(a) + (1 - a) * iv.digamma(a),
)

chi2 = Distribution(
    name="chi2",
    shapes=("df",),
    support=_positive,
    log_density=lambda z, df: special.xlogy(df / 2 - 1, z) - z / 2 - iv.lgamma(df / 2) - df / 2 * math.log(2),
    cdf_=lambda z, df: special.gammainc(df / 2, _above(z) / 2),
    sf_=lambda z, df: special.gammaincc(df / 2, _above(z) / 2),
    ppf_=lambda q, df: 2 * special.gammaincinv(df / 2, q),
    isf_=lambda q, df: 2 * special.gammainccinv(df / 2, q),
    mean_=lambda df: df,
    variance_=lambda df: 2 * df,
    entropy_=lambda df: df / 2 + math.log(2) + iv.lgamma(df / 2) + (1 - df / 2) * iv.digamma(df / 2),
)

beta = Distribution(
    name="beta",
    shapes=("a", "b"),
    support=_unit,
    log_density=lambda z, a, b: special.xlogy(a - 1, z) + special.xlog1py(b - 1, -z) - special.betaln(a, b),
    cdf_=lambda z, a, b: special.betainc(a, b, iv.clip(z, 0.0, 1.0)),
    sf_=lambda z, a, b: special.betaincc(a, b, iv.clip(z, 0.0, 1.0)),
    ppf_=lambda q, a, b: special.betaincinv(a, b, q),
    isf_=lambda q, a, b: special.betainccinv(a, b, q),
    mean_=lambda a, b: a / (a + b),
    variance_=lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1)),
    entropy_=lambda a, b: (
        special.betaln(a, b)
        - (a - 1) * iv.digamma(a)
        - (b - 1) * iv.digamma(b)
        + (a + b - 2) * iv.digamma(a + b)
    ),
)

lognorm = Distribution(
    name="lognorm",
    shapes=("s",),
    support=_positive,
    log_density=lambda z, s: iv.where(
        z > 0, -0.5 * iv.square(iv.log(z) / s) - _LOG_SQRT_2PI - iv.log(s * z), -math.inf
    ),
    cdf_=lambda z, s: special.ndtr(iv.log(_above(z)) / s),
    sf_=lambda z, s: special.ndtr(-iv.log(_above(z)) / s),
    log_cdf_=lambda z, s: special.log_ndtr(iv.log(_above(z)) / s),
    log_sf_=lambda z, s: special.log_ndtr(-iv.log(_above(z)) / s),
    ppf_=lambda q, s: iv.exp(s * special.ndtri(q)),
    isf_=lambda q, s: iv.exp(-s * special.ndtri(q)),
    mean_=lambda s: iv.exp(s * s / 2),
    variance_=lambda s: iv.expm1(s * s) * iv.exp(s * s),
    entropy_=lambda s: 0.5 + _LOG_SQRT_2PI + iv.log(s),
)

weibull_min = Distribution(
    name="weibull_min",
    shapes=("c",),
    support=_positive,
    log_density=lambda z, c: iv.log(c) + special.xlogy(c - 1, z) - _above(z) ** c,
    cdf_=lambda z, c: -iv.expm1(-(_above(z) ** c)),
    sf_=lambda z, c: iv.exp(-(_above(z) ** c)),
    log_sf_=lambda z, c: -(_above(z) ** c),
    ppf_=lambda q, c: (-iv.log1p(-q)) ** (1 / c),
    isf_=lambda q, c: (-iv.log(q)) ** (1 / c),
    mean_=lambda c: special.gamma(1 + 1 / c),
    variance_=lambda c: special.gamma(1 + 2 / c) - iv.square(special.gamma(1 + 1 / c)),
    entropy_=lambda c: _EULER * (1 - 1 / c) - iv.log(c) + 1,
)

pareto = Distribution(
    name="pareto",
    shapes=("b",),
    support=lambda *_: (1.0, math.inf),
    log_density=lambda z, b: iv.log(b) - (b + 1) * iv.log(_above(z, 1.0)),
    cdf_=lambda z, b: -iv.expm1(-b * iv.log(_above(z, 1.0))),
    sf_=lambda z, b: iv.exp(-b * iv.log(_above(z, 1.0))),
    log_sf_=lambda z, b: -b * iv.log(_above(z, 1.0)),
    ppf_=lambda q, b: iv.exp(-iv.log1p(-q) / b),
    isf_=lambda q, b: iv.exp(-iv.log(q) / b),
    mean_=lambda b: iv.where(b > 1, b / (b - 1), math.inf),
    variance_=lambda b: iv.where(b > 2, b / (iv.square(b - 1) * (b - 2)), math.inf),
    entropy_=lambda b: 1 + 1 / b - iv.log(b),
)


def _t_log_density(z: Tensor, df: Tensor) -> Tensor:
    constant = iv.lgamma((df + 1) / 2) - iv.lgamma(df / 2) - 0.5 * iv.log(math.pi * df)
    return constant - (df + 1) / 2 * iv.log1p(z * z / df)


def _t_cdf(z: Tensor, df: Tensor) -> Tensor:
    """Distribution function by the incomplete beta function of df / (df + z^2), half of which is the tail.

    Its derivative at 0 would be 0 / 0. Near 0, the integral of the density's series: with u = -z^2 / df,
    z f(0) times the sum of ((df + 1) / 2)_k u^k / (k! (2 k + 1)).
    """
    small = iv.abs(z) < 0.01 * iv.minimum(1.0, iv.sqrt(df))
    far = iv.where(small, 1.0, z)
    tail = 0.5 * special.betainc(df / 2, 0.5, df / (df + far * far))
    near = iv.where(small, z, 0.0)
    term: Tensor = iv.ones_like(near)
    series = term
    for k in range(8):
        term = term * ((df + 1) / 2 + k) * (-near * near / df) / (k + 1)
        series = series + term / (2 * k + 3)
    center = 0.5 + near * iv.exp(_t_log_density(iv.zeros_like(near), df)) * series
    return iv.where(small, center, iv.where(z > 0, 1 - tail, tail))


def _odds(a: Tensor, b: Tensor | float, q: Tensor) -> Tensor:
    """Odds w / (1 - w) of the number w with betainc(a, b, w) = q.

    They are computed from the smaller of w and 1 - w, so that they are exact at both ends.
    """
    w, v = special.betaincinv(a, b, q), special.betainccinv(b, a, q)
    return iv.where(w < v, w / (1 - w), (1 - v) / v)


def _t_ppf(q: Tensor, df: Tensor) -> Tensor:
    """Quantile of the t distribution. Near q = 1 / 2 it is a line with the exact derivative: the formula has
    none there.
    """
    density = iv.exp(_t_log_density(iv.zeros_like(df), df))
    middle = iv.abs(q - 0.5) < 1e-7
    away = iv.where(middle, 0.3, q)
    # Where the tail below z is half of I_w(df / 2, 1 / 2), z^2 is df (1 - w) / w.
    far = iv.sqrt(df / _odds(df / 2, 0.5, 2 * iv.minimum(away, 1 - away)))
    return iv.where(middle, (q - 0.5) / density, iv.where(away > 0.5, far, -far))


def _t_entropy(df: Tensor) -> Tensor:
    half_sum = (df + 1) / 2
    return (
        half_sum * (iv.digamma(half_sum) - iv.digamma(df / 2))
        + 0.5 * iv.log(df)
        + special.betaln(df / 2, iv.asarray(0.5))
    )


t = _symmetric(
    name="t",
    shapes=("df",),
    log_density=_t_log_density,
    cdf_=_t_cdf,
    ppf_=_t_ppf,
    mean_=lambda df: iv.where(df > 1, 0.0, math.inf),
    variance_=lambda df: iv.where(df > 2, df / (df - 2), iv.where(df > 1, math.inf, math.nan)),
    entropy_=_t_entropy,
)


def _f_log_density(z: Tensor, n: Tensor, d: Tensor) -> Tensor:
    ratio = n / d
    return (
        n / 2 * iv.log(ratio)
        + special.xlogy(n / 2 - 1, z)
        - (n + d) / 2 * iv.log1p(ratio * z)
        - special.betaln(n / 2, d / 2)
    )


def _f_entropy(n: Tensor, d: Tensor) -> Tensor:
    a, b = n / 2, d / 2
    return (
        iv.log(d / n)
        + special.betaln(a, b)
        + (1 - a) * iv.digamma(a)
        - (1 + b) * iv.digamma(b)
        + (a + b) * iv.digamma(a + b)
    )


f = Distribution(
    name="f",
    shapes=("dfn", "dfd"),
    support=_positive,
    log_density=_f_log_density,
    cdf_=lambda z, n, d: special.fdtr(n, d, _above(z)),
    sf_=lambda z, n, d: special.fdtrc(n, d, _above(z)),
    ppf_=lambda q, n, d: d / n * _odds(n / 2, d / 2, q),
    isf_=lambda q, n, d: d / n / _odds(d / 2, n / 2, q),
    mean_=lambda n, d: iv.where(d > 2, d / (d - 2) + 0 * n, math.inf),
    variance_=lambda n, d: iv.where(
        d > 4, 2 * d * d * (n + d - 2) / (n * iv.square(d - 2) * (d - 4)), math.inf
    ),
    entropy_=_f_entropy,
)

# --- discrete ---------------------------------------------------------------------------------------


def _probability(p: Tensor) -> Tensor:
    return (p >= 0) & (p <= 1)


poisson = Distribution(
    name="poisson",
    shapes=("mu",),
    support=_positive,
    log_density=lambda k, mu: special.xlogy(k, mu) - mu - iv.lgamma(_above(k) + 1),
    cdf_=lambda k, mu: special.pdtr(_above(k), mu),
    sf_=lambda k, mu: special.pdtrc(_above(k), mu),
    allowed=lambda mu: mu >= 0,
    mean_=lambda mu: mu,
    variance_=lambda mu: mu,
    discrete=True,
    draw_=lambda rng, size, mu: rng.poisson(mu, size),
)


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    inside = (k >= 0) & (k <= n)
    k = iv.where(inside, k, 0.0)
    return iv.lgamma(n + 1) - iv.lgamma(k + 1) - iv.lgamma(n - k + 1)


binom = Distribution(
    name="binom",
    shapes=("n", "p"),
    support=lambda n, p: (0.0, n),
    log_density=lambda k, n, p: _log_choose(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p),
    cdf_=lambda k, n, p: special.betaincc(iv.clip(k, 0.0, n - 1) + 1, n - iv.clip(k, 0.0, n - 1), p),
    sf_=lambda k, n, p: special.betainc(iv.clip(k, 0.0, n - 1) + 1, n - iv.clip(k, 0.0, n - 1), p),
    allowed=lambda n, p: (n >= 0) & (iv.floor(n) == n) & _probability(p),
    mean_=lambda n, p: n * p,
    variance_=lambda n, p: n * p * (1 - p),
    discrete=True,
    draw_=lambda rng, size, n, p: rng.binomial(iv.astype(n, iv.int64), p, size),
)

bernoulli = Distribution(
    name="bernoulli",
    shapes=("p",),
    support=_unit,
    log_density=lambda k, p: special.xlogy(k, p) + special.xlog1py(1 - k, -p),
    cdf_=lambda _k, p: 1 - p,
    sf_=lambda _k, p: p,
    allowed=_probability,
    mean_=lambda p: p,
    variance_=lambda p: p * (1 - p),
    discrete=True,
    entropy_=lambda p: -special.xlogy(p, p) - special.xlog1py(1 - p, -p),
    draw_=lambda rng, size, p: rng.bernoulli(p, size),
)

geom = Distribution(
    name="geom",
    shapes=("p",),
    support=lambda p: (1.0, math.inf),
    log_density=lambda k, p: special.xlog1py(k - 1, -p) + iv.log(p),
    cdf_=lambda k, p: -iv.expm1(special.xlog1py(_above(k), -p)),
    sf_=lambda k, p: iv.exp(special.xlog1py(_above(k), -p)),
    log_sf_=lambda k, p: special.xlog1py(_above(k), -p),
    allowed=lambda p: (p > 0) & (p <= 1),
    mean_=lambda p: 1 / p,
    variance_=lambda p: (1 - p) / (p * p),
    discrete=True,
    entropy_=lambda p: -(special.xlogy(p, p) + special.xlog1py(1 - p, -p)) / p,
    draw_=lambda rng, size, p: 1 + iv.floor(iv.log1p(-rng.random(size)) / iv.log1p(-p)),
)

nbinom = Distribution(
    name="nbinom",
    shapes=("n", "p"),
    support=_positive,
    log_density=lambda k, n, p: (
        iv.lgamma(_above(k) + n)
        - iv.lgamma(_above(k) + 1)
        - iv.lgamma(n)
        + n * iv.log(p)
        + special.xlog1py(k, -p)
    ),
    cdf_=lambda k, n, p: special.betainc(n, _above(k) + 1, p),
    sf_=lambda k, n, p: special.betaincc(n, _above(k) + 1, p),
    allowed=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    mean_=lambda n, p: n * (1 - p) / p,
    variance_=lambda n, p: n * (1 - p) / (p * p),
    discrete=True,
    draw_=lambda rng, size, n, p: rng.poisson(rng.gamma(n, (1 - p) / p, size)),
)

#: Distributions by SciPy's own formulas (`iverson.interop.scipy.distributions.scipy_formulas`), made on use.
_OF_SCIPY = (
    "alpha", "anglit", "arcsine", "argus", "betabinom", "betanbinom", "betaprime", "boltzmann", "bradford",
    "burr12", "chi", "cosine", "crystalball", "dgamma", "dlaplace", "dpareto_lognorm", "dweibull",
    "erlang", "exponnorm", "exponpow", "exponweib", "fatiguelife", "fisk", "foldcauchy", "foldnorm",
    "gausshyper", "genexpon", "genextreme", "gengamma", "genhalflogistic", "genlogistic", "gennorm",
    "genpareto", "gibrat", "gompertz", "gumbel_l", "halfcauchy", "halfgennorm", "halflogistic", "halfnorm",
    "hypergeom", "hypsecant", "invgamma", "invgauss", "invweibull", "jf_skew_t", "johnsonsb", "johnsonsu",
    "kappa3", "laplace_asymmetric", "levy", "levy_l", "loggamma", "loglaplace", "logser", "loguniform",
    "lomax", "maxwell", "mielke", "moyal", "nakagami", "nchypergeom_fisher", "nchypergeom_wallenius",
    "nhypergeom", "norminvgauss", "pearson3", "planck", "powerlaw", "powerlognorm", "powernorm", "randint",
    "rayleigh", "rdist", "recipinvgauss", "reciprocal", "rel_breitwigner", "rice", "semicircular",
    "skellam", "skewcauchy", "skewnorm", "trapezoid", "triang", "truncexpon", "truncnorm", "truncpareto",
    "truncweibull_min", "tukeylambda", "vonmises", "vonmises_line", "wald", "weibull_max", "wrapcauchy",
    "yulesimon", "zipf", "zipfian",
)  # fmt: skip
_OF_VECTORS = (
    "dirichlet", "dirichlet_multinomial", "invwishart", "matrix_normal", "matrix_t", "multinomial",
    "multivariate_normal", "multivariate_t", "normal_inverse_gamma", "vonmises_fisher", "wishart",
)  # fmt: skip


@cache
def __getattr__(name: str) -> Any:
    if name in _OF_SCIPY:
        return import_module("iverson.interop.scipy.distributions.scipy_formulas").from_scipy(name)
    if name in _OF_VECTORS:
        return getattr(import_module("iverson.interop.scipy.distributions.vector_families"), name)
    raise AttributeError(f"module 'iverson.interop.scipy.stats' has no attribute '{name}'")


__all__ = [  # noqa: PLE0604
    "Distribution", "bernoulli", "beta", "binom", "cauchy", "chi2", "expon", "f", "gamma", "geom", "gumbel_r",
    "laplace", "logistic", "lognorm", "nbinom", "norm", "pareto", "poisson", "t", "uniform", "weibull_min",
    *_OF_SCIPY, *_OF_VECTORS,
]  # fmt: skip
