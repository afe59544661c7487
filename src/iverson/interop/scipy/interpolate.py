"""Interpolation, as in `scipy.interpolate`: differentiable in the knots, the values and the points.

A piecewise cubic is given by its values and slopes at the knots; methods differ in what slopes they choose.
Those of a spline solve a system with three entries in a row (C. de Boor, A Practical Guide to Splines, 2001,
chapter IV), by sparse factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

import iverson as iv
from iverson.array_api.conventions.operands import as_real, check_kind
from iverson.core.dispatch import has_entries
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.protocols import NDArray
from iverson.core.shapes import as_int, check_choice, normalize_axis
from iverson.handles import Tensor
from iverson.interop.scipy.by_matrix import splines
from iverson.interop.scipy.by_matrix.linear_maps import Setting
from iverson.interop.scipy.by_matrix.splines import *  # noqa: F403
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.typing import ArrayLike

End = Literal["not-a-knot", "natural", "clamped"]
if TYPE_CHECKING:
    #: A condition at an end: a name, or the order of a derivative and its value.
    Condition: TypeAlias = End | tuple[int, ArrayLike]

#: The order of the derivative that is given at an end (3: not-a-knot), and its value, a row.
Given: TypeAlias = tuple[int, Tensor | float]
#: Entries of a matrix: their rows, columns and values.
Entry: TypeAlias = tuple[int | NDArray, int | NDArray, Tensor]
#: Entries, and the right sides of their rows.
Equation: TypeAlias = tuple[list[Entry], Tensor]


def _real(x: ArrayLike, operation: str, argument: str, kinds: str = "f") -> Tensor:
    real: Tensor = F.to_dense(as_real(x, operation, argument, kinds))
    return real


def _increasing(x: Tensor, operation: str, argument: str = "x") -> None:
    """Raise ArgumentError if the knots are known not to increase, ShapeError if they are not a vector."""
    if x.ndim != 1 or x.shape[0] < 2:
        raise ShapeError(operation, argument, got=f"shape {x.shape}", expected="a vector of at least 2 knots")
    if has_entries(x) and not np.all(np.diff(F.to_numpy(x)) > 0):
        raise ArgumentError(operation, argument, got="knots that do not increase", expected="increasing ones")


class CubicHermiteSpline:
    """The piecewise cubic with given values and slopes at knots.

    Parameters
    ----------
    x : the knots, increasing.
    y : the values, with an axis of as many entries; real or complex.
    dydx : the slopes, of y's shape.
    axis : that axis.
    extrapolate : whether the first and the last piece go on outside of the knots; nan there otherwise.

    An instance is called with points, of any shape, and an order of derivative ``nu``. Derivatives exist to
    any order in knots, values, slopes and points; where pieces meet, those in a point are from the right.

    Raises ShapeError for shapes that do not fit, ArgumentError for knots that do not increase.

    >>> CubicHermiteSpline(iv.asarray([0., 1.]), iv.asarray([0., 1.]), iv.asarray([0., 0.]))(0.5)
    iverson.Tensor(0.5)
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, dydx: ArrayLike, axis: int = 0, extrapolate: bool = True
    ) -> None:
        self._set(x, y, axis, extrapolate)
        slopes = _real(dydx, self._name, "dydx", "fc")
        if slopes.shape != tuple(np.moveaxis(np.empty(self._y.shape), 0, self.axis).shape):
            raise ShapeError(self._name, "dydx", got=f"shape {slopes.shape}", expected="the shape of y")
        self._slopes = iv.moveaxis(slopes, self.axis, 0)

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _set(self, x: ArrayLike, y: ArrayLike, axis: int, extrapolate: bool) -> None:
        self.x, values = _real(x, self._name, "x"), _real(y, self._name, "y", "fc")
        _increasing(self.x, self._name)
        self.axis, self.extrapolate = normalize_axis(axis, values.ndim, self._name), bool(extrapolate)
        if values.shape[self.axis] != self.x.shape[0]:
            raise ShapeError(
                self._name, "y", got=f"shape {values.shape}", expected=f"{self.x.shape[0]} along axis {axis}"
            )
        self._y = iv.moveaxis(values, self.axis, 0)

    def _columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Lengths of the pieces as a column, slopes between knots, and the values, each with a column for
        each line.
        """
        y = iv.reshape(self._y, (self.x.shape[0], -1) if self._y.size else (self.x.shape[0], 0))
        h = iv.expand_dims(iv.diff(self.x), axis=1)
        return h, (y[1:] - y[:-1]) / h, y

    def __call__(self, x: ArrayLike, nu: int = 0) -> Tensor:
        """The values, or derivatives of order ``nu``, at points, whose axes take the place of the axis."""
        at, order = _real(x, self._name, "x"), as_int(nu, self._name, "nu")
        if order < 0:
            raise ArgumentError(self._name, "nu", got=str(nu), expected="at least 0")
        flat = iv.reshape(at, (at.size,))
        h, slopes, y = self._columns()
        m = iv.reshape(self._slopes, y.shape)
        last = self.x.shape[0] - 2
        piece = iv.clip(iv.searchsorted(self.x, flat, side="right") - 1, 0, last)
        c = [  # coefficients of powers of what is beyond the knot
            y[:-1], m[:-1], (3 * slopes - 2 * m[:-1] - m[1:]) / h, (m[:-1] + m[1:] - 2 * slopes) / (h * h)
        ]  # fmt: skip
        t = iv.expand_dims(flat - iv.take(self.x, piece), axis=1)
        values = 0.0 * t * iv.take(c[0], piece, axis=0)
        for k in range(3, order - 1, -1):
            values = values * t + math.perm(k, order) * iv.take(c[k], piece, axis=0)
        if not self.extrapolate:
            outside = (flat < self.x[0]) | (flat > self.x[-1])
            values = iv.where(iv.expand_dims(outside, axis=1), math.nan, values)
        result = iv.reshape(values, (*at.shape, *self._y.shape[1:]))
        places = tuple(range(self.axis, self.axis + at.ndim))
        return iv.moveaxis(result, tuple(range(at.ndim)), places) if at.ndim else result

    def derivative(self, nu: int = 1) -> Callable[[ArrayLike], Tensor]:
        """The function of points that is its derivative of an order."""
        return lambda x: self(x, nu)


class CubicSpline(CubicHermiteSpline):
    """The piecewise cubic through values with two continuous derivatives.

    Parameters
    ----------
    x, y, axis, extrapolate : as in `CubicHermiteSpline`.
    bc_type : at the ends: "not-a-knot" (the two outer pieces are one cubic), "natural" (the second derivative
        is 0), "clamped" (the first is 0), "periodic" (both ends are alike, y's first entry standing
        for the last), or a pair of these or of ``(order, value)`` of a derivative.

    Raises as `CubicHermiteSpline`, and ArgumentError for other conditions.

    >>> CubicSpline(iv.asarray([0., 1., 2., 3.]), iv.asarray([0., 1., 8., 27.]))(iv.asarray([0.5, 2.5]))
    iverson.Tensor([ 0.125, 15.625])
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        bc_type: End | Literal["periodic"] | Sequence[Condition] = "not-a-knot",
        extrapolate: bool = True,
    ) -> None:
        self._set(x, y, axis, extrapolate)
        h, slopes, values = self._columns()
        n = self.x.shape[0]
        if isinstance(bc_type, str) and bc_type == "periodic":
            knot_slopes = _periodic_slopes(h, slopes)
        else:
            ends = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
            if len(ends) != 2:
                raise ArgumentError("CubicSpline", "bc_type", got=repr(bc_type), expected="one, or a pair")
            first, last = (_condition(e, values.shape[1]) for e in ends)
            knot_slopes = _spline_slopes(h, slopes, first, last, n)
        self._slopes = iv.reshape(knot_slopes, self._y.shape)


_NAMED = {"not-a-knot": (3, 0.0), "natural": (2, 0.0), "clamped": (1, 0.0)}


def _condition(condition: str | tuple[int, ArrayLike], count: int) -> Given:
    """Order of the derivative that is given at an end (3 for not-a-knot), and its value as a row of ``count``
    entries.
    """
    if isinstance(condition, str):
        check_choice(condition, tuple(_NAMED), "CubicSpline", "bc_type")
        return _NAMED[condition]
    try:
        order, value = condition
    except (TypeError, ValueError):
        order, value = 0, 0.0
    if order not in (1, 2):
        raise ArgumentError(
            "CubicSpline",
            "bc_type",
            got=repr(condition),
            expected="a name, or (order, value) with order 1 or 2",
        )
    row = _real(value, "CubicSpline", "bc_type", "fc")
    return order, iv.reshape(iv.broadcast_to(iv.reshape(row, (-1,)), (count,)), (1, count))


def _solved(n: int, entries: Sequence[Entry], b: Tensor) -> Tensor:
    """Solution of a sparse system of ``n`` equations; each column of ``b`` is a right side."""
    rows, columns = (np.concatenate([np.atleast_1d(e[k]) for e in entries]) for k in (0, 1))
    values = iv.concat([iv.reshape(v, (-1,)) for _, _, v in entries])
    matrix = iv.sparse_coo_tensor(np.stack([rows, columns]), iv.astype(values, b.dtype), (n, n))
    return iv.spsolve(iv.to_layout(iv.coalesce(matrix), "csr"), b)


def _inner(
    h: Tensor,
    slopes: Tensor,
    rows: NDArray,
    before: NDArray | slice,
    after: NDArray | slice,
    unknowns: tuple[NDArray, NDArray, NDArray],
) -> Equation:
    """Equations of the knots between two pieces: second derivatives are equal on both sides.

    rows : the rows of the equations. before, after : the pieces on both sides of each knot.
    unknowns : the columns of the slopes at the knot before, at the knot, and at the knot after.
    """
    a, b = h[before], h[after]
    entries: list[Entry] = [(rows, unknowns[0], b), (rows, unknowns[1], 2 * (a + b)), (rows, unknowns[2], a)]
    return entries, 3 * (b * slopes[before] + a * slopes[after])


def _spline_slopes(h: Tensor, d: Tensor, first: Given, last: Given, n: int) -> Tensor:
    """Slopes at ``n`` knots of the spline with the conditions ``first`` and ``last`` at its ends.

    h : lengths of the pieces. d : slopes between knots.
    """
    if n == 2:  # without a knot between, the line or the parabola
        first, last = (c if c[0] != 3 else (1, d[:1]) for c in (first, last))
        if (first[0], last[0]) == (1, 1):
            return iv.concat([0 * d + c for _, c in (first, last)])
    unit = iv.ones((1, 1), dtype=h.dtype)
    if n == 3 and first[0] == last[0] == 3:  # one parabola
        top: Equation = [(0, 0, unit), (0, 1, unit)], 2 * d[:1]
        bottom: Equation = [(2, 1, unit), (2, 2, unit)], 2 * d[1:]
    else:
        top = _end(first, h[:1], h[1:2] if n > 2 else h[:1], d[:1], d[1:2] if n > 2 else d[:1], (0, 1), 1)
        bottom = _end(
            last,
            h[-1:],
            h[-2:-1] if n > 2 else h[-1:],
            d[-1:],
            d[-2:-1] if n > 2 else d[-1:],
            (n - 1, n - 2),
            -1,
        )
    k = np.arange(1, n - 1)
    entries, b = _inner(h, d, k, slice(0, n - 2), slice(1, n - 1), (k - 1, k, k + 1))
    return _solved(n, [*top[0], *entries, *bottom[0]], iv.concat([top[1], b, bottom[1]]))


def _end(
    condition: Given, h: Tensor, h2: Tensor, d: Tensor, d2: Tensor, at: tuple[int, int], sign: int
) -> Equation:
    """Equation of the slope at an end.

    h, h2 : lengths of the outer piece and of the next. d, d2 : slopes between their knots.
    at : columns of the slopes at the outer knot and at the next. sign : 1 at the first knot, -1 at the last.
    """
    (order, value), (outer, near) = condition, at
    unit = iv.ones((1, 1), dtype=h.dtype)
    if order == 1:
        return [(outer, outer, unit)], 0 * d + value
    if order == 2:
        return [(outer, outer, 2 * unit), (outer, near, unit)], 3 * d - sign * 0.5 * h * value
    total = h + h2
    return [(outer, outer, h2), (outer, near, total)], ((h + 2 * total) * h2 * d + h * h * d2) / total


def _periodic_slopes(h: Tensor, d: Tensor) -> Tensor:
    n = h.shape[0]
    k = np.arange(n)
    entries, b = _inner(h, d, k, (k - 1) % n, k, ((k - 1) % n, k, (k + 1) % n))
    solution = _solved(n, entries, b)
    return iv.concat([solution, solution[:1]])


class PchipInterpolator(CubicHermiteSpline):
    """The piecewise cubic through values that increases and decreases where they do.

    Slopes at knots are weighed harmonic means of the slopes beside them, 0 where these differ in sign (F.
    Fritsch and J. Butland, SIAM J. Sci. Comput. 5, 1984). Arguments and errors are those of `CubicSpline`,
    without ``bc_type``; values are real.

    >>> PchipInterpolator(iv.asarray([0., 1., 2.]), iv.asarray([0., 1., 1.]))(1.5)
    iverson.Tensor(1.)
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, axis: int = 0, extrapolate: bool = True) -> None:
        self._set(x, y, axis, extrapolate)
        check_kind(self._y, "f", self._name, "y")
        h, d, _ = self._columns()
        if self.x.shape[0] == 2:
            slopes = iv.concat([d, d])
        else:
            a, b = h[:-1], h[1:]
            u, v = d[:-1], d[1:]
            steady = u * v > 0
            mean = (
                3
                * (a + b)
                / ((2 * b + a) / iv.where(steady, u, 1.0) + (b + 2 * a) / iv.where(steady, v, 1.0))
            )
            middle = iv.where(steady, mean, 0.0)
            first = _outer_slope(h[:1], h[1:2], d[:1], d[1:2])
            last = _outer_slope(h[-1:], h[-2:-1], d[-1:], d[-2:-1])
            slopes = iv.concat([first, middle, last])
        self._slopes = iv.reshape(slopes, self._y.shape)


def _outer_slope(h: Tensor, h2: Tensor, d: Tensor, d2: Tensor) -> Tensor:
    """Slope at an end of the parabola through three knots: 0 if its sign is not that of ``d``, and at most 3
    ``d``.

    The second limit applies if the slopes ``d`` (outer piece) and ``d2`` (the next) differ in sign.
    """
    slope = ((2 * h + h2) * d - h * d2) / (h + h2)
    too_steep = (iv.sign(d) != iv.sign(d2)) & (iv.abs(slope) > 3 * iv.abs(d))
    return iv.where(iv.sign(slope) != iv.sign(d), 0.0, iv.where(too_steep, 3 * d, slope))


class Akima1DInterpolator(CubicHermiteSpline):
    """The piecewise cubic through values with Akima's slopes, which follow values nearby alone.

    A slope at a knot is the mean of those beside it, each weighed by how much the two on the other side
    differ (H. Akima, J. ACM 17, 1970); where none differ, their plain mean. nan outside of the knots unless
    ``extrapolate``. Arguments and errors are those of `PchipInterpolator`.

    >>> f = Akima1DInterpolator(iv.asarray([0., 1., 2., 3.]), iv.asarray([0., 1., 1., 1.]))
    >>> f(iv.asarray([0.5, 2.5]))
    iverson.Tensor([0.6875, 1.    ])
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, axis: int = 0, extrapolate: bool = False) -> None:
        self._set(x, y, axis, extrapolate)
        check_kind(self._y, "f", self._name, "y")
        _, d, _ = self._columns()
        if self.x.shape[0] == 2:
            self._slopes = iv.reshape(iv.concat([d, d]), self._y.shape)
            return
        first = 2 * d[:1] - d[1:2]
        last = 2 * d[-1:] - d[-2:-1]
        m = iv.concat([2 * first - d[:1], first, d, last, 2 * last - d[-1:]])
        change = iv.abs(iv.diff(m, axis=0))
        after, before = change[2:], change[:-2]
        total = after + before
        varies = total > 1e-9 * iv.max(total, axis=None)
        weighed = (after * m[1:-2] + before * m[2:-1]) / iv.where(varies, total, 1.0)
        slopes = iv.where(varies, weighed, 0.5 * (m[3:] + m[:-3]))
        self._slopes = iv.reshape(slopes, self._y.shape)


class RegularGridInterpolator:
    """Interpolation of values on a grid of any rank: linear, by splines, or of the nearest entry.

    Parameters
    ----------
    points : a vector of increasing knots for each axis.
    values : an array, the first axes of which are those of the grid.
    method : "linear", "nearest", or a spline: "slinear", "cubic", "quintic" (whose knots are numbers).
    bounds_error : whether points outside of the grid are an error, where their entries are known.
    fill_value : of points outside otherwise; None to go on with the outer cells.

    An instance is called with points of shape (..., axes), or a tuple of arrays that broadcast, one for each
    axis. Differentiable in the knots, in the values and in the points.

    Raises ShapeError and ArgumentError for what does not fit, and for points outside.

    >>> knots = iv.asarray([0., 1.]), iv.asarray([0., 2.])
    >>> RegularGridInterpolator(knots, iv.asarray([[0., 2.], [4., 6.]]))(iv.asarray([[0.5, 1.]]))
    iverson.Tensor([3.])
    """

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: Literal["linear", "nearest", "slinear", "cubic", "quintic"] = "linear",
        bounds_error: bool = True,
        fill_value: float | None = math.nan,
    ) -> None:
        name = "RegularGridInterpolator"
        check_choice(method, ("linear", "nearest", *splines.DEGREES), name, "method")
        self.grid = tuple(_real(p, name, "points") for p in points)
        self.values = _real(values, name, "values", "fc")
        for p in self.grid:
            _increasing(p, name, "points")
        extents = tuple(p.shape[0] for p in self.grid)
        if not extents or self.values.shape[: len(extents)] != extents:
            raise ShapeError(
                name, "values", got=f"shape {self.values.shape}", expected=f"{extents} along the first axes"
            )
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value

    def __call__(self, xi: ArrayLike | tuple[ArrayLike, ...]) -> Tensor:
        """The values at points."""
        name, rank = "RegularGridInterpolator", len(self.grid)
        if isinstance(xi, tuple):
            xi = iv.stack(iv.broadcast_arrays(*(_real(x, name, "xi") for x in xi)), axis=-1)
        at = _real(xi, name, "xi")
        at = at[..., None] if rank == 1 and at.ndim == 1 else at
        if not at.ndim or at.shape[-1] != rank:
            raise ShapeError(name, "xi", got=f"shape {at.shape}", expected=f"{rank} along the last axis")
        flat = iv.reshape(at, (at.size // rank, rank))
        outside: Any = False
        cells, parts = [], []
        for k, knots in enumerate(self.grid):
            x = flat[:, k]
            outside = outside | (x < knots[0]) | (x > knots[-1])
            cell = iv.clip(iv.searchsorted(knots, x, side="right") - 1, 0, knots.shape[0] - 2)
            low = iv.take(knots, cell)
            cells.append(cell)
            parts.append((x - low) / (iv.take(knots, cell + 1) - low))
        if self.bounds_error and has_entries(flat) and bool(iv.any(outside)):
            raise ArgumentError(
                name,
                "xi",
                got="points outside of the grid",
                expected="points inside",
                remedy="pass bounds_error=False",
            )
        extra = (1,) * (self.values.ndim - rank)
        if self.method in splines.DEGREES:
            values: Tensor | float = splines.on_grid(self.grid, self.values, flat, self.method)
        elif self.method == "nearest":
            values = self.values[
                tuple(iv.where(t <= 0.5, c, c + 1) for c, t in zip(cells, parts, strict=True))
            ]
        else:
            values = 0.0
            for corner in product((0, 1), repeat=rank):
                weight: Any = 1.0
                for t, step in zip(parts, corner, strict=True):
                    weight = weight * (t if step else 1 - t)
                entries = self.values[tuple(c + step for c, step in zip(cells, corner, strict=True))]
                values = values + iv.reshape(weight, (-1, *extra)) * entries
        if self.fill_value is not None:
            values = iv.where(iv.reshape(outside, (-1, *extra)), self.fill_value, values)
        absent = iv.reshape(iv.any(iv.isnan(flat), axis=1), (-1, *extra))
        values = iv.where(absent, math.nan, values)
        return iv.reshape(values, (*at.shape[:-1], *self.values.shape[rank:]))


def pchip_interpolate(xi: ArrayLike, yi: ArrayLike, x: ArrayLike, der: int = 0, axis: int = 0) -> Tensor:
    """The values of `PchipInterpolator` at points."""
    return PchipInterpolator(xi, yi, axis)(x, der)


def interpn(
    points: Setting, values: ArrayLike, xi: ArrayLike, method: str = "linear", **options: Setting
) -> Tensor:
    """Values at points from those on a grid: differentiated in the values, with the linear method in the
    points.
    """
    if method == "linear" and not options:
        return RegularGridInterpolator(points, values, method="linear")(xi)
    return splines.on_grid(points, iv.asarray(values), xi, method)


__all__ = [  # noqa: PLE0604
    "pchip_interpolate", "interpn", *splines.__all__, "Akima1DInterpolator", "CubicHermiteSpline",
    "CubicSpline", "PchipInterpolator", "RegularGridInterpolator",
]  # fmt: skip
