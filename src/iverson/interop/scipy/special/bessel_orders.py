"""Bessel, Airy, Struve and Kelvin functions, and their integrals: derivatives are neighbouring orders.

Formulas are of the NIST Handbook of Mathematical Functions, chapters 9 to 11. Orders have no derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import iverson as iv
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting
from iverson.interop.scipy.special.records import Elementwise, function

_ROOT_PI = math.sqrt(math.pi)

jv: Elementwise = function("jv", "v z", None, lambda v, z: 0.5 * (jv(v - 1, z) - jv(v + 1, z)))
yv: Elementwise = function("yv", "v z", None, lambda v, z: 0.5 * (yv(v - 1, z) - yv(v + 1, z)))
iv_: Elementwise = function("iv", "v z", None, lambda v, z: 0.5 * (iv_(v - 1, z) + iv_(v + 1, z)))
kv: Elementwise = function("kv", "v z", None, lambda v, z: -0.5 * (kv(v - 1, z) + kv(v + 1, z)))
ive: Elementwise = function(
    "ive", "v z", None, lambda v, z: 0.5 * (ive(v - 1, z) + ive(v + 1, z)) - iv.sign(z) * ive(v, z)
)
kve: Elementwise = function(
    "kve", "v z", None, lambda v, z: kve(v, z) - 0.5 * (kve(v - 1, z) + kve(v + 1, z))
)
jn = jve = jv  # of real arguments
yn, yve, kn = yv, yv, kv


def hankel1(v: ArrayLike, z: ArrayLike) -> Tensor:
    """The Hankel function of the first kind, jv + i yv, of real z.

    >>> hankel1(0.5, 1.0).round(decimals=6)
    iverson.Tensor(0.671397-0.431099j)
    """
    return jv(v, z) + 1j * yv(v, z)


def hankel2(v: ArrayLike, z: ArrayLike) -> Tensor:
    """The Hankel function of the second kind, jv - i yv, of real z."""
    return jv(v, z) - 1j * yv(v, z)


def hankel1e(v: ArrayLike, z: ArrayLike) -> Tensor:
    """`hankel1` times exp(-i z)."""
    return hankel1(v, z) * iv.exp(-1j * iv.asarray(z))


def hankel2e(v: ArrayLike, z: ArrayLike) -> Tensor:
    """`hankel2` times exp(i z)."""
    return hankel2(v, z) * iv.exp(1j * iv.asarray(z))


def _derivative(name: str, of: Callable[..., Tensor], sign: int, outer: int = 1) -> Callable[..., Tensor]:
    """The n-th derivative of a Bessel function: 2^-n sum of sign^k binom(n, k) f(v - n + 2 k)."""

    def call(v: ArrayLike, z: ArrayLike, n: int = 1) -> Tensor:
        order = iv.asarray(v)
        terms = [sign**k * math.comb(n, k) * of(order - n + 2 * k, z) for k in range(n + 1)]
        return sum(terms[1:], terms[0]) * (outer**n / 2**n)  # type: ignore[no-any-return]

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.special.{name}`: the n-th derivative in z, which has derivatives itself."
    return call


jvp, yvp = _derivative("jvp", jv, -1), _derivative("yvp", yv, -1)
h1vp, h2vp = _derivative("h1vp", hankel1, -1), _derivative("h2vp", hankel2, -1)
ivp, kvp = _derivative("ivp", iv_, 1), _derivative("kvp", kv, 1, -1)


def _spherical(name: str, below: float, above: float) -> Callable[..., Tensor]:
    """A spherical Bessel function: (2 n + 1) f' = below n f(n - 1) + above (n + 1) f(n + 1)."""

    def slope(n: Tensor, z: Tensor) -> Tensor:
        lower = below * n * of(iv.maximum(n - 1, 0), z)
        return (lower + above * (n + 1) * of(n + 1, z)) / (2 * n + 1)

    of = function(name, "n z", None, slope)
    return of


spherical_jn, spherical_yn = _spherical("spherical_jn", 1, -1), _spherical("spherical_yn", 1, -1)
spherical_in, spherical_kn = _spherical("spherical_in", 1, 1), _spherical("spherical_kn", -1, -1)

_ai: Elementwise = function("airy", "z", lambda z: _ai_slope(z), part=0)  # noqa: PLW0108
_ai_slope: Elementwise = function("airy", "z", lambda z: z * _ai(z), part=1)
_bi: Elementwise = function("airy", "z", lambda z: _bi_slope(z), part=2)  # noqa: PLW0108
_bi_slope: Elementwise = function("airy", "z", lambda z: z * _bi(z), part=3)


def airy(z: ArrayLike) -> tuple[Tensor, ...]:
    """Ai, Ai', Bi and Bi' of real z."""
    return _ai(z), _ai_slope(z), _bi(z), _bi_slope(z)


def airye(z: ArrayLike) -> tuple[Tensor, ...]:
    """`airy` of z above 0, times exp(t) for Ai and exp(-t) for Bi, t = 2 z sqrt(z) / 3."""
    x = iv.asarray(z)
    t = 2 / 3 * x * iv.sqrt(x)
    ai, ai_slope, bi, bi_slope = airy(x)
    return ai * iv.exp(t), ai_slope * iv.exp(t), bi * iv.exp(-t), bi_slope * iv.exp(-t)


def _inhomogeneous(v: Tensor, x: Tensor) -> Tensor:
    return iv.pow(0.5 * x, v) * iv.special.rgamma(v + 1.5) / _ROOT_PI


struve: Elementwise = function(
    "struve", "v x", None, lambda v, x: 0.5 * (struve(v - 1, x) - struve(v + 1, x) + _inhomogeneous(v, x))
)
modstruve: Elementwise = function(
    "modstruve",
    "v x",
    None,
    lambda v, x: 0.5 * (modstruve(v - 1, x) + modstruve(v + 1, x) + _inhomogeneous(v, x)),
)

ber: Elementwise = function("ber", "x", lambda x: berp(x))  # noqa: PLW0108
bei: Elementwise = function("bei", "x", lambda x: beip(x))  # noqa: PLW0108
berp: Elementwise = function("berp", "x", lambda x: -berp(x) / x - bei(x))
beip: Elementwise = function("beip", "x", lambda x: -beip(x) / x + ber(x))
ker: Elementwise = function("ker", "x", lambda x: kerp(x))  # noqa: PLW0108
kei: Elementwise = function("kei", "x", lambda x: keip(x))  # noqa: PLW0108
kerp: Elementwise = function("kerp", "x", lambda x: -kerp(x) / x - kei(x))
keip: Elementwise = function("keip", "x", lambda x: -keip(x) / x + ker(x))


def kelvin(x: ArrayLike) -> tuple[Tensor, ...]:
    """Be = ber + i bei, Ke = ker + i kei and their derivatives."""
    pairs = ((ber, bei), (ker, kei), (berp, beip), (kerp, keip))
    return tuple(real(x) + 1j * imaginary(x) for real, imaginary in pairs)


def _integrals(name: str, *slopes: Callable[[Tensor], Setting]) -> Callable[..., tuple[Tensor, ...]]:
    """A function that gives several integrals, from their integrands."""
    parts = [function(name, "x", slope, part=k) for k, slope in enumerate(slopes)]

    def call(x: ArrayLike) -> tuple[Tensor, ...]:
        return tuple(part(x) for part in parts)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.special.{name}`, each result with its derivative."
    return call


_S = iv.special
itj0y0 = _integrals("itj0y0", _S.j0, _S.y0)
iti0k0 = _integrals("iti0k0", _S.i0, _S.k0)
it2j0y0 = _integrals("it2j0y0", lambda x: (1 - _S.j0(x)) / x, lambda x: -_S.y0(x) / x)
it2i0k0 = _integrals("it2i0k0", lambda x: (_S.i0(x) - 1) / x, lambda x: -_S.k0(x) / x)
itairy = _integrals("itairy", _ai, _bi, lambda x: _ai(-x), lambda x: _bi(-x))
itstruve0: Elementwise = function("itstruve0", "x", lambda x: struve(0.0, x))
itmodstruve0: Elementwise = function("itmodstruve0", "x", lambda x: modstruve(0.0, x))
it2struve0: Elementwise = function("it2struve0", "x", lambda x: -struve(0.0, x) / x)
