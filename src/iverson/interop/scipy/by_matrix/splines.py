"""Splines and interpolators that are linear in the values, under the names of `scipy.interpolate`.

A spline is polynomials between knots, whose coefficients are SciPy's matrix for the knots times the values;
it is differentiated in the values and in the points at which it is evaluated. Scattered data and grids are
the product of the values with the matrix of SciPy's interpolator at the points, which are numbers there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.errors import ArgumentError
from iverson.core.protocols import NDArray
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting, check_numbers, theirs


def _numbers(name: str, **settings: Setting) -> list[NDArray]:
    """Settings that are numbers, as arrays; raises GradientError for tracked ones."""
    check_numbers(name, settings)
    return [np.asarray(x) for x in settings.values()]


class PPoly:
    """Polynomials between breakpoints: c[m, i] times (x - x[i])^(k - m) between x[i] and x[i + 1].

    Differentiated in the coefficients and in the points; the breakpoints are numbers.

    >>> PPoly(iv.asarray([[2.0], [1.0]]), [0.0, 1.0])(iv.asarray([0.5]))
    iverson.Tensor([2.])
    """

    def __init__(self, c: ArrayLike, x: ArrayLike, extrapolate: Setting = True, axis: int = 0) -> None:
        self.c, self.axis, self.extrapolate = iv.asarray(c), axis, extrapolate
        (self.x,) = _numbers("PPoly", x=x)

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: Setting = None) -> Tensor:
        """Values at points, or those of the derivative of order nu."""
        at = iv.asarray(x)
        places = np.asarray(at.detach())
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if extrapolate == "periodic":
            period = self.x[-1] - self.x[0]
            at = at - np.floor((places - self.x[0]) / period) * period
            places = np.asarray(at.detach())
        piece = np.clip(np.searchsorted(self.x, places, side="right") - 1, 0, self.x.size - 2)
        offset = at - self.x[piece]
        shape = (*at.shape, *(1,) * (self.c.ndim - 2))
        offset = iv.reshape(offset, shape)
        total: Any = iv.zeros((*at.shape, *self.c.shape[2:]))
        degree = self.c.shape[0] - 1
        for m in range(degree + 1 - nu):
            power = degree - m
            factor = float(np.prod(np.arange(power - nu + 1, power + 1)))
            total = total * offset + factor * self.c[m, piece]
        if not extrapolate:
            outside = (places < self.x[0]) | (places > self.x[-1])
            total = iv.where(np.reshape(outside, shape), np.nan, total)
        result: Tensor = total
        if self.axis == 0:
            return result
        # The axes of the points stand where that of the values was.
        return iv.moveaxis(result, tuple(range(at.ndim)), tuple(range(self.axis, self.axis + at.ndim)))


class BSpline:
    """A spline of a degree from knots and coefficients: `scipy.interpolate.BSpline`.

    Differentiated in the coefficients and in the points; the knots are numbers.

    >>> BSpline([0.0, 0.0, 1.0, 1.0], iv.asarray([1.0, 3.0]), 1)(iv.asarray([0.5]))
    iverson.Tensor([2.])
    """

    def __init__(
        self, t: ArrayLike, c: ArrayLike, k: int, extrapolate: Setting = True, axis: int = 0
    ) -> None:
        self.c, self.k, self.extrapolate, self.axis = iv.asarray(c), k, extrapolate, axis
        (self.t,) = _numbers("BSpline", t=t)
        values_first = iv.moveaxis(self.c, axis, 0)
        count = self.t.size - k - 1
        of_unit = theirs("interpolate.PPoly").from_spline
        units = [of_unit((self.t, np.pad(row, (0, k + 1)), k)) for row in np.eye(count)]
        x = units[0].x
        keep = np.flatnonzero(np.diff(x) > 0)
        matrix = np.stack([unit.c[:, keep] for unit in units], axis=-1)
        breaks = np.append(x[keep], x[keep[-1] + 1])
        coefficients = iv.tensordot(iv.asarray(np.ascontiguousarray(matrix)), values_first[:count], axes=1)
        self._pieces = PPoly(coefficients, breaks, extrapolate, axis)

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: Setting = None) -> Tensor:
        """Values at points, or those of the derivative of order nu."""
        return self._pieces(x, nu, extrapolate)

    def integrate(self, a: float, b: float, extrapolate: Setting = None) -> Tensor:
        """The integral between two numbers."""
        unit = theirs("interpolate.BSpline")(self.t, np.eye(self.t.size - self.k - 1), self.k)
        weights = iv.asarray(np.asarray(unit.integrate(a, b)))
        return iv.tensordot(weights, iv.moveaxis(self.c, self.axis, 0)[: weights.shape[0]], axes=1)


def _fitted(name: str, x: ArrayLike, y: ArrayLike, axis: int, *args: Setting, **options: Setting) -> BSpline:
    """The spline whose coefficients are SciPy's for the identity times the values."""
    (points,) = _numbers(name, x=x)
    check_numbers(name, options)
    values = iv.moveaxis(iv.asarray(y), axis, 0)
    unit = theirs(f"interpolate.{name}")(points, np.eye(points.size), *args, **options)
    coefficients = iv.tensordot(iv.asarray(np.ascontiguousarray(unit.c)), values, axes=1)
    return BSpline(unit.t, iv.moveaxis(coefficients, 0, axis), unit.k, axis=axis)


def make_interp_spline(
    x: ArrayLike,
    y: ArrayLike,
    k: int = 3,
    t: Setting = None,
    bc_type: Setting = None,
    axis: int = 0,
    check_finite: bool = True,
) -> BSpline:
    """The spline through points, with SciPy's end conditions by name.

    >>> make_interp_spline([0.0, 1.0, 2.0, 3.0], iv.asarray([0.0, 1.0, 4.0, 9.0]))(1.5).round(decimals=6)
    iverson.Tensor(2.25)
    """
    if bc_type is not None and not isinstance(bc_type, str):
        raise ArgumentError(
            "make_interp_spline", "bc_type", got="derivatives at ends", expected="a name, or None"
        )
    return _fitted("make_interp_spline", x, y, axis, k, t, bc_type)


def make_lsq_spline(
    x: ArrayLike,
    y: ArrayLike,
    t: Setting,
    k: int = 3,
    w: Setting = None,
    axis: int = 0,
    check_finite: bool = True,
) -> BSpline:
    """The spline with given knots that is nearest to points."""
    (knots,) = _numbers("make_lsq_spline", t=t)
    return _fitted("make_lsq_spline", x, y, axis, knots, k, w)


def make_smoothing_spline(
    x: ArrayLike, y: ArrayLike, w: Setting = None, lam: Setting = None, *, axis: int = 0
) -> BSpline:
    """The cubic spline that minimises squares of residuals plus lam times the curvature; lam is a number."""
    if lam is None:
        raise ArgumentError(
            "make_smoothing_spline", "lam", got="None, for which SciPy reads the values", expected="a number"
        )
    return _fitted("make_smoothing_spline", x, y, axis, w, lam)


def splrep(
    x: ArrayLike,
    y: ArrayLike,
    w: Setting = None,
    xb: Setting = None,
    xe: Setting = None,
    k: int = 3,
    task: int = 0,
    s: Setting = None,
    **options: Setting,
) -> tuple[Any, ...]:
    """Knots, coefficients and degree of the spline through points; raises ArgumentError for smoothing."""
    if s or options or w is not None:
        raise ArgumentError("splrep", "s", got="smoothing or weights", expected="neither, on tensors")
    spline = make_interp_spline(x, y, k)
    return spline.t, iv.pad(spline.c, [(0, k + 1)]), k


def _of_triple(tck: Setting) -> BSpline:
    return tck if isinstance(tck, BSpline) else BSpline(tck[0], tck[1], tck[2])


def splev(x: ArrayLike, tck: Setting, der: int = 0, ext: int = 0) -> Tensor:
    """Values of a spline, or of its derivative, at points."""
    return _of_triple(tck)(x, der)


def splint(a: float, b: float, tck: Setting, full_output: bool = False) -> Tensor:
    """The integral of a spline between two numbers."""
    return _of_triple(tck).integrate(a, b)


def spalde(x: ArrayLike, tck: Setting) -> Tensor:
    """All derivatives of a spline at a point."""
    spline = _of_triple(tck)
    return iv.stack([spline(x, nu) for nu in range(spline.k + 1)])


class _Univariate:
    """A spline through points, of a degree k."""

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        w: Setting = None,
        bbox: Setting = (None, None),
        k: int = 3,
        s: float | None = 0.0,
        **_: Setting,
    ) -> None:
        if s != 0 or w is not None:
            raise ArgumentError("UnivariateSpline", "s", got=f"{s}", expected="0 and no weights, on tensors")
        self._spline = make_interp_spline(x, y, k)

    def __call__(self, x: ArrayLike, nu: int = 0, ext: Setting = None) -> Tensor:
        return self._spline(x, nu)


class InterpolatedUnivariateSpline(_Univariate):
    """The spline through points: `scipy.interpolate.InterpolatedUnivariateSpline`."""


class LSQUnivariateSpline:
    """The spline with given inner knots that is nearest to points."""

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        t: Setting,
        w: Setting = None,
        bbox: Setting = None,
        k: int = 3,
        **_: Setting,
    ) -> None:
        points, inner = _numbers("LSQUnivariateSpline", x=x, t=t)
        knots = np.concatenate([[points[0]] * (k + 1), inner, [points[-1]] * (k + 1)])
        self._spline = make_lsq_spline(points, y, knots, k, w)

    def __call__(self, x: ArrayLike, nu: int = 0, ext: Setting = None) -> Tensor:
        """Values at points, or those of the derivative of order nu."""
        return self._spline(x, nu)


def interp1d(x: ArrayLike, y: ArrayLike, kind: Setting = "linear", axis: int = -1, **options: Setting) -> Any:
    """The spline of a kind through points: "linear", "quadratic", "cubic" or a degree."""
    degree = {"linear": 1, "slinear": 1, "quadratic": 2, "cubic": 3}.get(kind, kind)
    if not isinstance(degree, int) or options.keys() - {
        "fill_value",
        "bounds_error",
        "assume_sorted",
        "copy",
    }:
        raise ArgumentError(
            "interp1d", "kind", got=repr(kind), expected="linear, quadratic, cubic or a degree"
        )
    rank = iv.asarray(y).ndim
    return make_interp_spline(x, y, degree, axis=axis % rank)


class _Polynomial:
    """The polynomial through points: by divided differences, in the values and in the points of
    evaluation."""

    def __init__(self, xi: ArrayLike, yi: ArrayLike, axis: int = 0, **_: Setting) -> None:
        self._x, self._axis = iv.asarray(xi), axis
        table = iv.moveaxis(iv.asarray(yi), axis, 0)
        columns = (-1, *(1,) * (table.ndim - 1))
        self._coefficients = [table[0]]
        for order in range(1, self._x.shape[0]):
            spans = iv.reshape(self._x[order:] - self._x[: -order or None], columns)
            table = (table[1:] - table[:-1]) / spans
            self._coefficients.append(table[0])

    def __call__(self, x: ArrayLike) -> Tensor:
        """Values at points."""
        at = iv.asarray(x)
        place = iv.reshape(at, (*at.shape, *(1,) * self._coefficients[0].ndim))
        total: Any = self._coefficients[-1]
        for k in range(len(self._coefficients) - 2, -1, -1):
            total = total * (place - self._x[k]) + self._coefficients[k]
        return total  # type: ignore[no-any-return]


class BarycentricInterpolator(_Polynomial):
    """The polynomial through points: `scipy.interpolate.BarycentricInterpolator`."""


class KroghInterpolator(_Polynomial):
    """The polynomial through distinct points: `scipy.interpolate.KroghInterpolator`."""


def lagrange(x: ArrayLike, w: ArrayLike) -> Callable[[ArrayLike], Tensor]:
    """The polynomial through points, as a function."""
    return _Polynomial(x, w)


def barycentric_interpolate(
    xi: ArrayLike, yi: ArrayLike, x: ArrayLike, axis: int = 0, **_: Setting
) -> Tensor:
    """The values at points of the polynomial through others."""
    return _Polynomial(xi, yi, axis)(x)


def krogh_interpolate(xi: ArrayLike, yi: ArrayLike, x: ArrayLike, der: int = 0, axis: int = 0) -> Tensor:
    """The values at points of the polynomial through others."""
    if der != 0:
        raise ArgumentError("krogh_interpolate", "der", got=str(der), expected="0; differentiate the result")
    return _Polynomial(xi, yi, axis)(x)


# --- linear in the values alone -------------------------------------------------------


def _product(
    name: str, make: Callable[[NDArray], Callable[[Setting], Setting]], values: Tensor, at: Setting
) -> Tensor:
    """Values at points: the matrix of an interpolator at the points times the values at its nodes."""
    size = values.shape[0]
    matrix = np.asarray(make(np.eye(size))(at))
    return iv.tensordot(iv.asarray(np.ascontiguousarray(matrix)), values, axes=1)


def _scattered(name: str) -> type:
    """An interpolator of scattered points that is linear in their values."""

    class Interpolator:
        """An interpolator of one kind."""

        def __init__(self, points: ArrayLike, values: ArrayLike, *args: Setting, **options: Setting) -> None:
            check_numbers(name, options)
            (nodes,) = _numbers(name, points=points)
            self._values = iv.asarray(values)

            def make(unit: NDArray) -> Any:
                return theirs(f"interpolate.{name}")(nodes, unit, *args, **options)

            self._make = make

        def __call__(self, *xi: ArrayLike) -> Tensor:
            """Values at points, which are numbers."""
            at = [np.asarray(x) for x in xi] if not any(map(_tracked, xi)) else _numbers(name, xi=xi[0])
            return _product(name, lambda unit: lambda _: self._make(unit)(*at), self._values, at)

    Interpolator.__name__ = Interpolator.__qualname__ = name
    Interpolator.__doc__ = f"`scipy.interpolate.{name}`: differentiated in the values; points are numbers."
    return Interpolator


def _tracked(x: Setting) -> bool:
    return bool(getattr(x, "requires_grad", False))


RBFInterpolator, LinearNDInterpolator = map(_scattered, ("RBFInterpolator", "LinearNDInterpolator"))
CloughTocher2DInterpolator = _scattered("CloughTocher2DInterpolator")


def griddata(
    points: ArrayLike, values: ArrayLike, xi: ArrayLike, method: str = "linear", **options: Setting
) -> Tensor:
    """Values at points from scattered ones: differentiated in the values."""
    nodes, at = _numbers("griddata", points=points, xi=xi)
    function = theirs("interpolate.griddata")
    make = lambda unit: lambda x: function(nodes, unit, x, method=method, **options)
    return _product("griddata", make, iv.asarray(values), at)


#: The degrees of splines on grids, by SciPy's names of methods.
DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}


def on_grid(points: Setting, values: Tensor, xi: ArrayLike, method: str) -> Tensor:
    """Values at points of the spline through values on a grid: along each axis, the values of unit
    splines."""
    axes = [_numbers("RegularGridInterpolator", points=p)[0] for p in points]
    degree = DEGREES[method]
    at = iv.asarray(xi)
    # Along each axis, the coefficients of its spline; at a point, the product of B-splines.
    rows = iv.reshape(at, (-1, len(axes)))
    weights = [BSpline(unit.t, iv.asarray(np.ascontiguousarray(unit.c)), degree)(rows[:, k]) for k, unit in
        enumerate( theirs("interpolate.make_interp_spline")(p, np.eye(p.size), degree) for p in axes
    )]  # fmt: skip
    result = iv.tensordot(weights[0], values, axes=1)
    for weight in weights[1:]:
        shape = (*weight.shape, *(1,) * (result.ndim - 2))
        result = iv.sum(result * iv.reshape(weight, shape), axis=1)
    return iv.reshape(result, (*at.shape[:-1], *values.shape[len(axes) :]))


class RectBivariateSpline:
    """The spline through values on a grid of two axes: differentiated in the values and in the points."""

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        z: ArrayLike,
        bbox: Setting = None,
        kx: int = 3,
        ky: int = 3,
        s: float = 0.0,
        **_: Setting,
    ) -> None:
        if s:
            raise ArgumentError("RectBivariateSpline", "s", got=str(s), expected="0, on tensors")
        first, second = _numbers("RectBivariateSpline", x=x, y=y)
        self._z = iv.asarray(z)
        self._rows = make_interp_spline(first, iv.eye(first.size), kx)
        self._columns = make_interp_spline(second, iv.eye(second.size), ky)

    def __call__(self, x: ArrayLike, y: ArrayLike, grid: bool = True) -> Tensor:
        """Values on the grid of two vectors of points, or at pairs of them without ``grid``."""
        rows, columns = self._rows(iv.atleast_1d(iv.asarray(x))), self._columns(iv.atleast_1d(iv.asarray(y)))
        return rows @ self._z @ columns.mT if grid else iv.sum((rows @ self._z) * columns, axis=-1)


UnivariateSpline = _Univariate
__all__ = [
    "BSpline", "BarycentricInterpolator", "CloughTocher2DInterpolator", "InterpolatedUnivariateSpline",
    "KroghInterpolator", "LSQUnivariateSpline", "LinearNDInterpolator", "PPoly", "RBFInterpolator",
    "RectBivariateSpline", "barycentric_interpolate", "griddata", "interp1d", "krogh_interpolate",
    "lagrange", "make_interp_spline", "make_lsq_spline", "make_smoothing_spline", "spalde", "splev",
    "splint", "splrep",
]  # fmt: skip
