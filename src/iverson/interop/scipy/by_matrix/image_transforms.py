"""Resampling of images under the names of `scipy.ndimage`: spline filters, samples at coordinates,
morphology.

An image is filtered to spline coefficients, axis by axis, by the matrix of SciPy's filter; a sample is a
sum of coefficients times B-splines of the coordinates, so results have derivatives in the image and in the
coordinates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.errors import ArgumentError
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting, check_numbers, theirs, times

#: How coordinates beyond the image are mapped into it, by mode: from coordinates and the extent.
_INTO: dict[str, Callable[[Any, int], Any]] = {
    "nearest": lambda x, n: iv.clip(x, 0, n - 1),
    "mirror": lambda x, n: (n - 1) - iv.abs(iv.remainder(x, 2 * (n - 1)) - (n - 1)) if n > 1 else 0 * x,
    "reflect": lambda x, n: n - 0.5 - iv.abs(iv.remainder(x + 0.5, 2 * n) - n),
    "grid-wrap": iv.remainder,
    "constant": lambda x, n: x,
}
_FILTER_MODES = {"nearest": "mirror", "constant": "mirror", "reflect": "reflect", "mirror": "mirror",
                 "grid-wrap": "grid-wrap"}  # fmt: skip


def _mode(name: str, mode: str) -> str:
    mode = {"grid-mirror": "reflect"}.get(mode, mode)
    if mode not in _INTO:
        raise ArgumentError(name, "mode", got=repr(mode), expected=f"one of {', '.join(_INTO)}")
    return mode


def spline_filter1d(
    input: ArrayLike, order: int = 3, axis: int = -1, output: Setting = None, mode: str = "mirror"
) -> Tensor:
    """Coefficients of the spline through the samples along an axis.

    >>> spline_filter1d(iv.asarray([1., 1., 1.])).round(decimals=6)
    iverson.Tensor([1., 1., 1.])
    """
    x = iv.asarray(input)
    if order < 2 or x.shape[axis] < 2:
        return x
    matrix = theirs("ndimage.spline_filter1d")(np.eye(x.shape[axis]), order, axis=0, mode=mode)
    return times(matrix, x, axis)


def spline_filter(input: ArrayLike, order: int = 3, output: Setting = None, mode: str = "mirror") -> Tensor:
    """`spline_filter1d` along all axes."""
    x = iv.asarray(input)
    for axis in range(x.ndim):
        x = spline_filter1d(x, order, axis, mode=mode)
    return x


def _basis(distance: Tensor, order: int) -> Any:
    """The centred B-spline of an order at a distance, by truncated powers."""
    if order == 0:
        return iv.where((distance >= -0.5) & (distance < 0.5), 1.0, 0.0)
    half = 0.5 * (order + 1)
    total: Any = 0.0
    for k in range(order + 2):
        shifted = half - k - iv.abs(distance)
        total = total + (-1) ** k * math.comb(order + 1, k) * iv.where(shifted > 0, shifted, 0.0) ** order
    return total / math.factorial(order)


def _samples(coefficients: Tensor, points: Sequence[Tensor], order: int, mode: str) -> Any:
    """Values of a spline at points, of which there is a tensor of coordinates for each axis."""
    starts, weights = [], []
    for x, n in zip(points, coefficients.shape, strict=True):
        inner = _INTO[mode](x, n)
        first = iv.floor(inner.detach() + (0.5 if order % 2 == 0 else 0.0)) - order // 2
        starts.append(first)
        weights.append([_basis(inner - (first + k), order) for k in range(order + 1)])
    total: Any = 0.0
    extension = _FILTER_MODES[mode]
    for steps in itertools.product(range(order + 1), repeat=len(points)):
        at = []
        weight: Any = 1.0
        for axis, k in enumerate(steps):
            n = coefficients.shape[axis]
            place = _INTO["nearest" if mode == "constant" and order < 2 else extension](starts[axis] + k, n)
            at.append(iv.astype(iv.round(place), "int64"))
            weight = weight * weights[axis][k]
        total = total + weight * coefficients[tuple(at)]
    return total


def map_coordinates(
    input: ArrayLike,
    coordinates: ArrayLike,
    output: Setting = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Values of an image at coordinates, of shape (axes, ...), by splines of an order from 0 to 5.

    Derivatives are in the image and in the coordinates; beyond the image the mode "constant" has none.

    >>> map_coordinates(iv.asarray([0., 1., 2.]), iv.asarray([[0.5]]), order=1)
    iverson.Tensor([0.5])
    """
    x, points = iv.asarray(input), iv.asarray(coordinates)
    mode = _mode("map_coordinates", mode)
    coefficients = spline_filter(x, order, mode=_FILTER_MODES[mode]) if prefilter else x
    parts = [points[k] for k in range(x.ndim)]
    values = _samples(coefficients, parts, order, mode)
    if mode != "constant":
        return values  # type: ignore[no-any-return]
    inside = iv.asarray(True)
    for part, n in zip(parts, x.shape, strict=True):
        inside = inside & (part >= 0) & (part <= n - 1)
    return iv.where(inside, values, cval)  # type: ignore[no-any-return]


def affine_transform(
    input: ArrayLike,
    matrix: ArrayLike,
    offset: ArrayLike = 0.0,
    output_shape: Setting = None,
    output: Setting = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """The image at matrix @ o + offset for each place o of the result.

    Derivatives are in the image, the matrix and the offset.

    >>> affine_transform(iv.asarray([0., 1., 2.]), iv.asarray([[1.]]), 0.5, order=1)
    iverson.Tensor([0.5, 1.5, 0. ])
    """
    x, m = iv.asarray(input), iv.asarray(matrix)
    shift_ = iv.asarray(offset)
    if m.ndim == 1:
        m = iv.diag(m)
    elif m.shape[1] == x.ndim + 1:
        m, shift_ = m[: x.ndim, : x.ndim], m[: x.ndim, x.ndim]
    shape = tuple(output_shape) if output_shape is not None else x.shape
    places = iv.asarray(np.indices(shape, float).reshape(len(shape), -1))
    points = m @ places + (iv.expand_dims(shift_, axis=1) if shift_.ndim else shift_)
    values = map_coordinates(x, points, None, order, mode, cval, prefilter)
    return iv.reshape(values, shape)


def geometric_transform(
    input: ArrayLike,
    mapping: Callable[..., Sequence[Setting]],
    output_shape: Setting = None,
    output: Setting = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
    extra_arguments: tuple[Setting, ...] = (),
    extra_keywords: dict[str, Setting] | None = None,
) -> Tensor:
    """The image at mapping(o) for each place o of the result."""
    x = iv.asarray(input)
    shape = tuple(output_shape) if output_shape is not None else x.shape
    places = np.indices(shape, float).reshape(len(shape), -1)
    points = mapping(tuple(places), *extra_arguments, **(extra_keywords or {}))
    stacked = iv.stack([iv.asarray(p) for p in points])
    return iv.reshape(map_coordinates(x, stacked, None, order, mode, cval, prefilter), shape)


def _separable(name: str) -> Callable[..., Tensor]:
    """A function of SciPy that moves entries along each axis by itself: one matrix an axis, for one
    setting."""

    def call(
        input: ArrayLike,
        value: Setting,
        output: Setting = None,
        order: int = 3,
        mode: str = "constant",
        cval: float = 0.0,
        **options: Setting,
    ) -> Tensor:
        check_numbers(name, {"setting": value, "cval": cval})
        x = iv.asarray(input)
        if cval:
            raise ArgumentError(name, "cval", got=str(cval), expected="0")
        settings = np.broadcast_to(value, (x.ndim,))
        for axis in range(x.ndim):
            function = theirs(f"ndimage.{name}")
            columns = [
                function(row, settings[axis], order=order, mode=mode, **options)
                for row in np.eye(x.shape[axis])
            ]
            x = times(np.stack(columns, axis=1), x, axis)
        return x

    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"`scipy.ndimage.{name}` with a cval of 0; linear in the image, by the matrix of each axis."
    )
    return call


shift, zoom = _separable("shift"), _separable("zoom")


def rotate(
    input: ArrayLike,
    angle: ArrayLike,
    axes: tuple[int, int] = (1, 0),
    reshape: bool = True,
    output: Setting = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """An image of two axes turned by an angle in degrees, in which it is differentiable, too.

    >>> rotate(iv.asarray([[1., 2.], [3., 4.]]), 90.0).round(decimals=6)
    iverson.Tensor([[2., 4.],
                    [1., 3.]])
    """
    x, turn = iv.asarray(input), iv.asarray(angle) * (math.pi / 180)
    if x.ndim != 2 or sorted(a % 2 for a in axes) != [0, 1]:
        raise ArgumentError(
            "rotate", "input", got=f"shape {x.shape}, axes {axes}", expected="an image of two axes"
        )
    c, s = iv.cos(turn), iv.sin(turn)
    matrix = iv.stack([iv.stack([c, s]), iv.stack([-s, c])])
    shape = x.shape
    if reshape:
        corners = np.array([[0, 0, x.shape[0], x.shape[0]], [0, x.shape[1], 0, x.shape[1]]])
        bounds = np.asarray(matrix.detach()) @ corners
        shape = tuple((np.ptp(bounds, axis=1) + 0.5).astype(int).tolist())
    centre = (np.array(shape) - 1) / 2
    offset = iv.asarray((np.array(x.shape) - 1) / 2) - matrix @ iv.asarray(centre)
    return affine_transform(x, matrix, offset, shape, None, order, mode, cval, prefilter)


# --- statistics of labelled entries -------------------------------------------------


def _labelled(name: str, statistic: Callable[..., Setting]) -> Callable[..., Any]:
    """A statistic of the entries of each label, or of all entries."""

    def call(input: ArrayLike, labels: Setting = None, index: Setting = None) -> Any:
        x = iv.asarray(input)
        if labels is None:
            return statistic(iv.reshape(x, (-1,)))
        marks = np.broadcast_to(np.asarray(labels), x.shape)
        if index is None:
            return statistic(x[marks != 0])
        results = [statistic(x[marks == k]) for k in np.atleast_1d(index).tolist()]
        return results[0] if np.ndim(index) == 0 else iv.stack(results)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.ndimage.{name}` of all entries, of those with a label, or of each of some labels."
    return call


maximum, minimum, mean = (
    _labelled("maximum", iv.max),
    _labelled("minimum", iv.min),
    _labelled("mean", iv.mean),
)
median, variance = _labelled("median", iv.median), _labelled("variance", iv.var)
standard_deviation, sum_labels = _labelled("standard_deviation", iv.std), _labelled("sum_labels", iv.sum)


def center_of_mass(input: ArrayLike, labels: Setting = None, index: Setting = None) -> tuple[Tensor, ...]:
    """The mean place of the entries, weighed by them; of those with a label, where labels are given.

    >>> center_of_mass(iv.asarray([0., 1., 1.]))
    (iverson.Tensor(1.5),)
    """
    x = iv.asarray(input)
    if index is not None:
        raise ArgumentError("center_of_mass", "index", got="labels", expected="None, on tensors")
    if labels is not None:
        x = iv.where(np.asarray(labels) != 0, x, 0.0)
    places = np.indices(x.shape, float)
    return tuple(iv.sum(x * iv.asarray(p)) / iv.sum(x) for p in places)


__all__ = [
    "affine_transform", "center_of_mass", "geometric_transform", "map_coordinates", "maximum", "mean",
    "median", "minimum", "rotate", "shift", "spline_filter", "spline_filter1d", "standard_deviation",
    "sum_labels", "variance", "zoom",
]  # fmt: skip
