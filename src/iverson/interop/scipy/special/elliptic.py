"""Elliptic integrals and functions, and hypergeometric functions: derivatives of the same families.

Formulas are of the NIST Handbook of Mathematical Functions, chapters 13, 15, 19 and 22.
"""

from __future__ import annotations

import math
from typing import Any

import iverson as iv
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.special.records import Elementwise, function

hyp0f1: Elementwise = function("hyp0f1", "v z", None, lambda v, z: hyp0f1(v + 1, z) / v)
hyp1f1: Elementwise = function("hyp1f1", "a b x", None, None, lambda a, b, x: a / b * hyp1f1(a + 1, b + 1, x))
hyperu: Elementwise = function("hyperu", "a b x", None, None, lambda a, b, x: -a * hyperu(a + 1, b + 1, x))
hyp2f1: Elementwise = function(
    "hyp2f1", "a b c z", None, None, None, lambda a, b, c, z: a * b / c * hyp2f1(a + 1, b + 1, c + 1, z)
)

# K = pi/2 F(1/2, 1/2; 1; m) and E = pi/2 F(-1/2, 1/2; 1; m); F(3/2, 3/2; 2; m) = F(1/2, 1/2; 2; m) / (1 - m).
ellipk: Elementwise = function("ellipk", "m", lambda m: math.pi / 8 * hyp2f1(0.5, 0.5, 2.0, m) / (1 - m))
ellipe: Elementwise = function("ellipe", "m", lambda m: -math.pi / 8 * hyp2f1(0.5, 1.5, 2.0, m))
ellipkm1: Elementwise = function("ellipkm1", "p", lambda p: -math.pi / 8 * hyp2f1(0.5, 0.5, 2.0, 1 - p) / p)


def _carlson_d(x: Tensor, y: Tensor, z: Tensor) -> Any:
    """The derivative of R_D in x, from that of R_F: x and z differ."""
    return (elliprd(y, z, x) - elliprd(x, y, z)) / (2 * (x - z))


elliprd: Elementwise = function(
    "elliprd",
    "x y z",
    _carlson_d,
    lambda x, y, z: _carlson_d(y, x, z),
    lambda x, y, z: (  # R_D is homogeneous of degree -3/2
        -(1.5 * elliprd(x, y, z) + x * _carlson_d(x, y, z) + y * _carlson_d(y, x, z)) / z
    ),
)
elliprf: Elementwise = function(
    "elliprf",
    "x y z",
    lambda x, y, z: -elliprd(y, z, x) / 6,
    lambda x, y, z: -elliprd(z, x, y) / 6,
    lambda x, y, z: -elliprd(x, y, z) / 6,
)


def elliprc(x: ArrayLike, y: ArrayLike) -> Tensor:
    """Carlson's degenerate integral R_C(x, y) = R_F(x, y, y)."""
    return elliprf(x, y, y)


def elliprg(x: ArrayLike, y: ArrayLike, z: ArrayLike) -> Tensor:
    """Carlson's integral R_G, of R_F and R_D (19.21.10)."""
    a, b, c = iv.asarray(x), iv.asarray(y), iv.asarray(z)
    return 0.5 * (c * elliprf(a, b, c) - (a - c) * (b - c) * elliprd(a, b, c) / 3 + iv.sqrt(a * b / c))


def _delta(phi: Tensor, m: Tensor) -> Any:
    return iv.sqrt(1 - m * iv.sin(phi) ** 2)


def _difference(phi: Tensor, m: Tensor) -> Any:
    """(F - E) / m = sin(phi)^3 R_D(cos(phi)^2, 1 - m sin(phi)^2, 1) / 3 for abs(phi) <= pi / 2 (19.25.9), by
    periods."""
    turns = iv.round(phi / math.pi)
    sine = iv.sin(phi - turns * math.pi)
    periods = 2 * turns * (math.pi / 4) * hyp2f1(0.5, 1.5, 2.0, m)
    return periods + sine**3 * elliprd(1 - sine**2, 1 - m * sine**2, iv.ones_like(sine)) / 3


def _first_in_m(phi: Tensor, m: Tensor) -> Any:
    part = ellipkinc(phi, m) - _difference(phi, m) - iv.sin(phi) * iv.cos(phi) / _delta(phi, m)
    return part / (2 * (1 - m))


ellipkinc: Elementwise = function("ellipkinc", "phi m", lambda phi, m: 1 / _delta(phi, m), _first_in_m)
ellipeinc: Elementwise = function("ellipeinc", "phi m", _delta, lambda phi, m: -0.5 * _difference(phi, m))
_amplitude: Elementwise = function(
    "ellipj",
    "u m",
    lambda u, m: _delta(_amplitude(u, m), m),
    lambda u, m: -_first_in_m(_amplitude(u, m), m) * _delta(_amplitude(u, m), m),
    part=3,
)


def ellipj(u: ArrayLike, m: ArrayLike) -> tuple[Tensor, ...]:
    """Jacobi's sn, cn, dn and the amplitude.

    >>> ellipj(1.0, 0.5)[0].round(decimals=6)
    iverson.Tensor(0.803002)
    """
    phi = _amplitude(u, m)
    return iv.sin(phi), iv.cos(phi), _delta(phi, iv.asarray(m)), phi


def _mean_slope(a: Tensor, b: Tensor) -> Any:
    """The derivative of agm(a, b) = pi/4 (a + b) / K(m), m = ((a - b) / (a + b))^2, in a."""
    total, ratio = a + b, (a - b) / (a + b)
    k, k_slope = ellipk(ratio**2), math.pi / 8 * hyp2f1(0.5, 0.5, 2.0, ratio**2) / (1 - ratio**2)
    return math.pi / 4 * (1 / k - total * k_slope / k**2 * 2 * ratio * 2 * b / total**2)


agm: Elementwise = function("agm", "a b", _mean_slope, lambda a, b: _mean_slope(b, a))
