"""Orthogonal polynomials and Legendre functions: the derivative in x is a polynomial of the next family.

Formulas are of the NIST Handbook of Mathematical Functions, sections 14.10 and 18.9. Degrees have no
derivative.
"""

from __future__ import annotations

import math

import iverson as iv
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.special.records import Elementwise, function

eval_gegenbauer: Elementwise = function(
    "eval_gegenbauer", "n alpha x", None, None,
    lambda n, alpha, x: 2 * alpha * iv.where(n > 0, eval_gegenbauer(n - 1, alpha + 1, x), 0.0),
)  # fmt: skip
eval_jacobi: Elementwise = function(
    "eval_jacobi", "n alpha beta x", None, None, None,
    lambda n, alpha, beta, x: 0.5 * (n + alpha + beta + 1)
    * iv.where(n > 0, eval_jacobi(n - 1, alpha + 1, beta + 1, x), 0.0),
)  # fmt: skip
eval_genlaguerre: Elementwise = function(
    "eval_genlaguerre", "n alpha x", None, None,
    lambda n, alpha, x: -iv.where(n > 0, eval_genlaguerre(n - 1, alpha + 1, x), 0.0),
)  # fmt: skip
eval_chebyt: Elementwise = function("eval_chebyt", "n x", None, lambda n, x: n * eval_chebyu(n - 1, x))
eval_chebyu: Elementwise = function(
    "eval_chebyu", "n x", None, lambda n, x: 2 * iv.where(n > 0, eval_gegenbauer(n - 1, 2.0, x), 0.0)
)
eval_legendre: Elementwise = function(
    "eval_legendre", "n x", None, lambda n, x: iv.where(n > 0, eval_gegenbauer(n - 1, 1.5, x), 0.0)
)
eval_laguerre: Elementwise = function(
    "eval_laguerre", "n x", None, lambda n, x: -iv.where(n > 0, eval_genlaguerre(n - 1, 1.0, x), 0.0)
)
eval_hermite: Elementwise = function(
    "eval_hermite", "n x", None, lambda n, x: 2 * n * eval_hermite(iv.maximum(n - 1, 0), x), integers=1
)
eval_hermitenorm: Elementwise = function(
    "eval_hermitenorm", "n x", None, lambda n, x: n * eval_hermitenorm(iv.maximum(n - 1, 0), x), integers=1
)


def eval_chebyc(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Chebyshev's C_n(x) = 2 T_n(x / 2)."""
    return 2 * eval_chebyt(n, 0.5 * iv.asarray(x))


def eval_chebys(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Chebyshev's S_n(x) = U_n(x / 2)."""
    return eval_chebyu(n, 0.5 * iv.asarray(x))


def eval_sh_chebyt(n: ArrayLike, x: ArrayLike) -> Tensor:
    """T_n(2 x - 1)."""
    return eval_chebyt(n, 2 * iv.asarray(x) - 1)


def eval_sh_chebyu(n: ArrayLike, x: ArrayLike) -> Tensor:
    """U_n(2 x - 1)."""
    return eval_chebyu(n, 2 * iv.asarray(x) - 1)


def eval_sh_legendre(n: ArrayLike, x: ArrayLike) -> Tensor:
    """P_n(2 x - 1)."""
    return eval_legendre(n, 2 * iv.asarray(x) - 1)


def eval_sh_jacobi(n: ArrayLike, p: ArrayLike, q: ArrayLike, x: ArrayLike) -> Tensor:
    """Jacobi's polynomial P_n of (p - q, q - 1) at 2 x - 1, over binom(2 n + p - 1, n)."""
    n, p, q = iv.asarray(n), iv.asarray(p), iv.asarray(q)
    return eval_jacobi(n, p - q, q - 1, 2 * iv.asarray(x) - 1) / iv.special.binom(2 * n + p - 1, n)


def assoc_laguerre(x: ArrayLike, n: ArrayLike, k: ArrayLike = 0.0) -> Tensor:
    """The generalised Laguerre polynomial L_n^k(x)."""
    return eval_genlaguerre(n, k, x)


def _legendre_slope(m: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return ((v + 1) * x * lpmv(m, v, x) - (v - m + 1) * lpmv(m, v + 1, x)) / (1 - x * x)


lpmv: Elementwise = function("lpmv", "m v x", None, None, _legendre_slope)


def sph_harm_y(n: int, m: int, theta: ArrayLike, phi: ArrayLike) -> Tensor:
    """The spherical harmonic of degree n and order m, at a polar angle theta and an azimuth phi.

    Its derivative in theta is nan at the poles.

    >>> sph_harm_y(1, 0, 0.5, 0.2).round(decimals=6)
    iverson.Tensor(0.428789+0.j)
    """
    order = abs(m)
    scale = math.sqrt((2 * n + 1) / (4 * math.pi) * math.factorial(n - order) / math.factorial(n + order))
    sign = (-1) ** order if m < 0 else 1
    return sign * scale * lpmv(order, n, iv.cos(iv.asarray(theta))) * iv.exp(1j * m * iv.asarray(phi))
