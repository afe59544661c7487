"""Bessel functions of whole order, and sinc. Derivatives are functions of neighbouring orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, SupportsInt

import numpy as np

from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.scalars.quadrature import Double, by_orders, whole
from iverson.core.scalars.scalar_record import (
    COMPLEX,
    FLOAT,
    REAL_FLOAT,
    Derivative,
    Scalar,
    Slopes,
    scalar,
)
from iverson.core.scalars.special_functions import of_scipy, scipy_special


def _i0e_order(F: Namespace, k: int, x: Double) -> Any:
    """The k-th derivative of exp(-x) I0(x) for x > 0, without its sign (-1)^k, at |x|.

    As the integral of w^k exp(-x w) / pi over the angles, w = 1 - cos(angle), it satisfies
    x f(k+2) = (2 x + k + 1) f(k+1) - (2 k + 1) f(k) (by parts), of which it is the solution that does not
    grow; so f(k+1) / f(k) is a continued fraction (W. Gautschi, SIAM Review 9, 1967).
    """
    x = F.minimum(F.abs(x), 1e300)
    ratio: Any = 2.0
    product = F.i0e(x)
    for j in range(k + 120, -1, -1):
        ratio = (2 * j + 1) / (2 * x + j + 1 - x * ratio)
        if j < k:
            product = product * ratio
    return product


def _bessel(name: str) -> Any:
    function = scipy_special(name)
    return by_orders(1, lambda _F, n, x: function(np.asarray(n), x))


def _sinc(x: NDArray) -> Any:
    """sin(pi x) / (pi x), exactly 0 at whole numbers."""
    nearest = np.rint(x.real)
    sine = np.sin(np.pi * (x - nearest)) * np.where(nearest % 2, -1, 1).astype(nearest.dtype)
    zero = x == 0
    return np.where(zero, np.ones((), x.dtype), sine / (np.pi * np.where(zero, 1, x)))


def _sinc_by_sine(F: Namespace, x: Value) -> Any:
    """sin(pi x) / (pi x) as a graph; see `_sinc`."""
    nearest = F.round(x)
    half = 0.5 * nearest
    sine = F.sin(math.pi * (x - nearest))
    sine = F.where(F.equal(F.floor(half), half), sine, -sine)
    zero = F.equal(x, 0.0)
    return F.where(zero, 1.0, sine / (math.pi * F.where(zero, 1.0, x)))


#: The coefficients of the derivative of sinc over pi^2 x, in powers of (pi x)^2.
_SINC_D = tuple((-1) ** m * 2 * m / math.factorial(2 * m + 1) for m in range(1, 16))


def _sinc_d(F: Namespace, _y: Shaped, x: Value) -> Any:
    """-pi j(1, pi x); of complex x (cos(pi x) - sinc(x)) / x, and near 0, where that cancels, a series."""
    if x.dtype.kind != "c":
        return -math.pi * F.spherical_j(1, math.pi * x)
    near = F.less(F.abs(x), 0.7)
    z, t = F.where(near, x, 0.0), F.where(near, 1.0, x)
    square, series = F.square(math.pi * z), 0.0
    for c in reversed(_SINC_D):
        series = series * square + c
    return F.where(near, math.pi**2 * z * series, (F.cos(math.pi * t) - F.sinc(t)) / t)


def _spherical_d(F: Namespace, _y: Shaped, n: SupportsInt, x: Value) -> Any:
    """(n j(n-1) - (n+1) j(n+1)) / (2n + 1), NIST Handbook, 10.51.2; there is no j(-1) at 0."""
    k = whole(n)
    above = (k + 1) * F.spherical_j(k + 1, x)
    return ((k * F.spherical_j(k - 1, x) - above) if k else -above) / (2 * k + 1)


def _order(name: str, body: Callable[..., Any], rule: Derivative, **facts: Any) -> Scalar:
    """Record of a function whose first argument is its order; ``rule`` is the derivative in the second."""
    names, domain = ("n", "x"), (None, None)
    return scalar(name, body, (None, rule), REAL_FLOAT, domain=domain, names=names, orders=1, **facts)


# fmt: off
BESSEL = (
    of_scipy("i0", lambda F, _y, x: F.i1(x), "The modified Bessel function of the first kind of order 0.",
        "[0., 1.]", "[1.        , 1.26606588]"),
    of_scipy("i0e", lambda F, _y, x: -F.sign(x) * F.i0e_order(1, x), "exp(-abs(x)) * i0(x).", "[0., 1.]",
        "[1.        , 0.46575961]", convention="at 0 the derivative is 0, the mean of both sides"),
    of_scipy("i1", lambda F, _y, x: 0.5 * (F.i0(x) + F.bessel_i(2, x)),
        "The modified Bessel function of the first kind of order 1.", "[0., 1.]", "[0.        , 0.5651591]",
        zero_preserving=True),
    of_scipy("i1e", lambda F, _y, x: F.i0e_order(2, x) - F.i0e_order(1, x), "exp(-abs(x)) * i1(x).",
        "[0., 1.]", "[0.        , 0.20791042]", zero_preserving=True,
        convention="at 0 the derivative is 1/2"),
    of_scipy("j0", lambda F, _y, x: -F.j1(x), "The Bessel function of the first kind of order 0.", "[0., 1.]",
        "[1.        , 0.76519769]"),
    of_scipy("j1", lambda F, _y, x: 0.5 * (F.j0(x) - F.bessel_j(2, x)),
        "The Bessel function of the first kind of order 1.", "[0., 1.]", "[0.        , 0.44005059]",
        zero_preserving=True),
    scalar("sinc", _sinc, _sinc_d, FLOAT | COMPLEX, "sin(pi * x) / (pi * x), 1 at 0.", "[0., 0.5]",
        "[1.        , 0.63661977]", method=False, space="special", loops=_sinc_by_sine, slopes=Slopes()),
    _order("bessel_i", _bessel("iv"),
        lambda F, _y, n, x: 0.5 * (F.bessel_i(n - 1, x) + F.bessel_i(n + 1, x))),
    _order("bessel_j", _bessel("jv"),
        lambda F, _y, n, x: 0.5 * (F.bessel_j(n - 1, x) - F.bessel_j(n + 1, x))),
    _order("spherical_j", _bessel("spherical_jn"), _spherical_d),
    _order("i0e_order", by_orders(1, _i0e_order), lambda F, _y, n, x: -F.sign(x) * F.i0e_order(n + 1, x),
        series=_i0e_order),
)
# fmt: on
