"""Distributions of vectors and matrices under the names of `scipy.stats`, differentiable in all parameters.

A family is a record of the logarithm of its density; `Family` derives the density, SciPy's two forms of
calls, and the entropy where there is a formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import iverson as iv
from iverson import special
from iverson.core.errors import ArgumentError
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting
from iverson.interop.scipy.special.bessel_orders import ive

Function = Callable[..., Any]
_LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Family:
    """A family of distributions of vectors or matrices.

    ``multivariate_normal.logpdf(x, mean, cov)`` as in SciPy; ``multivariate_normal(mean, cov).logpdf(x)``
    is the same. Entries of x and of parameters are not checked to be in the support.

    name : as in SciPy.
    log_density : the logarithm of the density, or of the probability, of x and the parameters.
    entropy_ : of the parameters; none where there is no formula here.
    discrete : whether it is one of whole numbers.
    """

    name: str
    log_density: Function
    entropy_: Function | None = None
    discrete: bool = False
    parameters: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *args: Setting, **options: Setting) -> Family:
        """The distribution with these parameters, whose methods take x alone."""
        return Family(self.name, self.log_density, self.entropy_, self.discrete, args, options)

    def _log(self, method: str, x: ArrayLike, args: Setting, options: Setting) -> Tensor:
        if method.endswith("pmf") is not self.discrete:
            raise ArgumentError(
                f"{self.name}.{method}", "self", got="the other kind of distribution",
                expected="a call of pmf or logpmf" if self.discrete else "a call of pdf or logpdf",
            )  # fmt: skip
        result: Tensor = self.log_density(iv.asarray(x), *self.parameters, *args, **self.options, **options)
        return result

    def logpdf(self, x: ArrayLike, *args: Setting, **options: Setting) -> Tensor:
        """The logarithm of the density at x.

        >>> multivariate_normal.logpdf(iv.asarray([0.0, 0.0])).round(decimals=6)
        iverson.Tensor(-1.837877)
        """
        return self._log("logpdf", x, args, options)

    def pdf(self, x: ArrayLike, *args: Setting, **options: Setting) -> Tensor:
        """The density at x."""
        return iv.exp(self._log("pdf", x, args, options))

    def logpmf(self, x: ArrayLike, *args: Setting, **options: Setting) -> Tensor:
        """The logarithm of the probability of x.

        >>> multinomial.logpmf([1.0, 1.0], 2, iv.asarray([0.5, 0.5])).round(decimals=6)
        iverson.Tensor(-0.693147)
        """
        return self._log("logpmf", x, args, options)

    def pmf(self, x: ArrayLike, *args: Setting, **options: Setting) -> Tensor:
        """The probability of x."""
        return iv.exp(self._log("pmf", x, args, options))

    def entropy(self, *args: Setting, **options: Setting) -> Tensor:
        """The entropy; raises ArgumentError where there is no formula."""
        if self.entropy_ is None:
            raise ArgumentError(
                f"{self.name}.entropy", got="a family without a formula here", expected="one with it"
            )
        result: Tensor = self.entropy_(*self.parameters, *args, **self.options, **options)
        return result


def _matrix(cov: ArrayLike, n: int) -> Tensor:
    x = iv.asarray(cov)
    if x.ndim == 0:
        return x * iv.eye(n)
    return iv.diag(x) if x.ndim == 1 else x


def _log_det(factor: Tensor) -> Tensor:
    """The logarithm of the determinant of a matrix, from its Cholesky factor."""
    return 2 * iv.sum(iv.log(iv.linalg.diagonal(factor)), axis=-1)


def _distance(x: Tensor, mean: ArrayLike, factor: Tensor) -> Tensor:
    """The square of the distance of points from a mean in the metric of a covariance, from its factor."""
    difference = x - iv.asarray(mean)
    whitened = iv.linalg.solve_triangular(
        factor, difference.mT if difference.ndim > 1 else difference, lower=True
    )
    return iv.sum(whitened * whitened, axis=0)


def _normal(x: Tensor, mean: ArrayLike = 0.0, cov: ArrayLike = 1.0, allow_singular: bool = False) -> Tensor:
    n = x.shape[-1] if x.ndim else 1
    points = iv.reshape(x, (1,)) if x.ndim == 0 else x
    factor = iv.linalg.cholesky(_matrix(cov, n))
    return -0.5 * (n * _LOG_2PI + _log_det(factor) + _distance(points, mean, factor))


def _normal_entropy(mean: ArrayLike = 0.0, cov: ArrayLike = 1.0) -> Tensor:
    n = max(iv.asarray(mean).size, int(iv.asarray(cov).size ** 0.5))
    return 0.5 * (n * (1 + _LOG_2PI) + _log_det(iv.linalg.cholesky(_matrix(cov, n))))


def _student(
    x: Tensor, loc: ArrayLike = 0.0, shape: ArrayLike = 1.0, df: ArrayLike = 1.0, **_: Setting
) -> Tensor:
    n, nu = x.shape[-1], iv.asarray(df)
    factor = iv.linalg.cholesky(_matrix(shape, n))
    scale = iv.lgamma(0.5 * (nu + n)) - iv.lgamma(0.5 * nu) - 0.5 * n * iv.log(nu * math.pi)
    return scale - 0.5 * _log_det(factor) - 0.5 * (nu + n) * iv.log1p(_distance(x, loc, factor) / nu)


def _wishart(x: Tensor, df: ArrayLike, scale: ArrayLike, inverse: bool = False) -> Tensor:
    n, nu = x.shape[-1], iv.asarray(df)
    s = _matrix(scale, n)
    sign, (a, b) = (-1, (x, s)) if inverse else (1, (s, x))
    factor, other = iv.linalg.cholesky(s), iv.linalg.cholesky(x)
    trace = iv.linalg.trace(iv.linalg.solve(a, b))
    constant = 0.5 * nu * n * math.log(2) + special.multigammaln(0.5 * nu, n)
    return 0.5 * ((sign * nu - n - 1) * _log_det(other) - trace - sign * nu * _log_det(factor)) - constant


def _dirichlet(x: Tensor, alpha: ArrayLike) -> Tensor:
    a = iv.asarray(alpha)
    n = a.shape[-1]
    points = x if x.shape[0] == n else iv.concat([x, 1 - iv.sum(x, axis=0, keepdims=True)])
    logs = special.xlogy((a - 1 if points.ndim == 1 else iv.expand_dims(a - 1, axis=-1)), points)
    return iv.sum(logs, axis=0) + iv.lgamma(iv.sum(a)) - iv.sum(iv.lgamma(a))


def _dirichlet_entropy(alpha: ArrayLike) -> Tensor:
    a = iv.asarray(alpha)
    total = iv.sum(a)
    constant = iv.sum(iv.lgamma(a)) - iv.lgamma(total)
    return constant + (total - a.shape[-1]) * special.psi(total) - iv.sum((a - 1) * special.psi(a))


def _multinomial(x: Tensor, n: ArrayLike, p: ArrayLike) -> Tensor:
    """The logarithm of the probability; as in SciPy, the last probability is 1 less the others."""
    shares = iv.asarray(p)
    shares = iv.concat([shares[..., :-1], 1 - iv.sum(shares[..., :-1], axis=-1, keepdims=True)], axis=-1)
    counts = iv.astype(x, "float64")
    ways = iv.lgamma(iv.asarray(n, dtype="float64") + 1) - iv.sum(iv.lgamma(counts + 1), axis=-1)
    return ways + iv.sum(special.xlogy(counts, shares), axis=-1)


def _dirichlet_multinomial(x: Tensor, alpha: ArrayLike, n: ArrayLike) -> Tensor:
    a, counts = iv.asarray(alpha), iv.astype(x, "float64")
    total, size = iv.sum(a, axis=-1), iv.asarray(n, dtype="float64")
    terms = iv.lgamma(counts + a) - iv.lgamma(a) - iv.lgamma(counts + 1)
    return iv.lgamma(total) + iv.lgamma(size + 1) - iv.lgamma(size + total) + iv.sum(terms, axis=-1)


def _scatter(x: Tensor, mean: ArrayLike | None, rows: ArrayLike, columns: ArrayLike) -> tuple[Any, ...]:
    """The whitened difference of a matrix from its mean, and the logarithms of both determinants."""
    m, n = x.shape[-2:]
    row_factor, right = iv.linalg.cholesky(_matrix(rows, m)), iv.linalg.cholesky(_matrix(columns, n))
    difference = x if mean is None else x - iv.asarray(mean)
    half = iv.linalg.solve_triangular(row_factor, difference, lower=True)
    return iv.linalg.solve_triangular(right, half.mT, lower=True).mT, _log_det(row_factor), _log_det(right)


def _matrix_normal(
    X: Tensor, mean: ArrayLike | None = None, rowcov: ArrayLike = 1.0, colcov: ArrayLike = 1.0
) -> Tensor:
    m, n = X.shape[-2:]
    z, rows, columns = _scatter(X, mean, rowcov, colcov)
    return -0.5 * (m * n * _LOG_2PI + n * rows + m * columns + iv.sum(z * z))  # type: ignore[no-any-return]


def _matrix_t(
    X: Tensor,
    mean: ArrayLike | None = None,
    row_spread: ArrayLike = 1.0,
    col_spread: ArrayLike = 1.0,
    df: ArrayLike = 1.0,
) -> Tensor:
    (m, n), nu = X.shape[-2:], iv.asarray(df)
    z, rows, columns = _scatter(X, mean, row_spread, col_spread)
    shape = 0.5 * (nu + m + n - 1)
    constant = (
        special.multigammaln(shape, m)
        - special.multigammaln(shape - 0.5 * n, m)
        - 0.5 * m * n * math.log(math.pi)
    )
    scatter = iv.linalg.cholesky(iv.eye(m) + z @ z.mT)
    return constant - 0.5 * n * rows - 0.5 * m * columns - shape * _log_det(scatter)  # type: ignore[no-any-return]


def _normal_inverse_gamma(
    x: Tensor,
    s2: ArrayLike,
    mu: ArrayLike = 0.0,
    lmbda: ArrayLike = 1.0,
    a: ArrayLike = 1.0,
    b: ArrayLike = 1.0,
) -> Tensor:
    variance, mean, precision, shape, rate = map(iv.asarray, (s2, mu, lmbda, a, b))
    normal = 0.5 * (iv.log(precision) - _LOG_2PI - iv.log(variance))
    constant = shape * iv.log(rate) - iv.lgamma(shape)
    distance = (2 * rate + precision * iv.square(x - mean)) / (2 * variance)
    return normal + constant - (shape + 1) * iv.log(variance) - distance


def _vonmises_fisher(x: Tensor, mu: ArrayLike, kappa: ArrayLike = 1.0) -> Tensor:
    direction, k = iv.asarray(mu), iv.asarray(kappa, dtype="float64")
    half = 0.5 * direction.shape[0]
    constant = (half - 1) * iv.log(k) - half * _LOG_2PI - iv.log(ive(half - 1, k)) - k
    return constant + k * (x @ direction)


multivariate_normal = Family("multivariate_normal", _normal, _normal_entropy)
multivariate_t = Family("multivariate_t", _student)
wishart = Family("wishart", _wishart)
invwishart = Family("invwishart", partial(_wishart, inverse=True))
dirichlet = Family("dirichlet", _dirichlet, _dirichlet_entropy)
multinomial = Family("multinomial", _multinomial, discrete=True)
dirichlet_multinomial = Family("dirichlet_multinomial", _dirichlet_multinomial, discrete=True)
matrix_normal = Family("matrix_normal", _matrix_normal)
matrix_t = Family("matrix_t", _matrix_t)
normal_inverse_gamma = Family("normal_inverse_gamma", _normal_inverse_gamma)
vonmises_fisher = Family("vonmises_fisher", _vonmises_fisher)

__all__ = [
    "Family", "dirichlet", "dirichlet_multinomial", "invwishart", "matrix_normal", "matrix_t", "multinomial",
    "multivariate_normal", "multivariate_t", "normal_inverse_gamma", "vonmises_fisher", "wishart",
]  # fmt: skip
