"""Numerics of NumPy and PyTorch by the functions of the other modules: spacings, polynomials, distances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias

import numpy as np

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import (
    SCALARS,
    as_inexact,
    as_operand,
    as_plain,
    as_tuple,
    as_weak,
    cast,
    check_kind,
    in_single,
)
from iverson.array_api.entries.creation import linspace, ones_like, zeros_like
from iverson.array_api.entries.joining import concat, stack
from iverson.array_api.entries.manipulation import broadcast_to, expand_dims, ravel, reshape
from iverson.array_api.reduction.norms import vector_norm
from iverson.array_api.reduction.reductions import cumulative_sum, mean
from iverson.array_api.reduction.reductions import max as _max
from iverson.array_api.reduction.reductions import min as _min
from iverson.array_api.reduction.reductions import sum as _sum
from iverson.core import dtypes
from iverson.core.dispatch import Wrapper
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.inputs.arguments import as_real, checked
from iverson.core.shapes import as_int, check_choice, check_storable, normalize_axes, normalize_axis
from iverson.handles import Tensor
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.typing import A, ArrayLike, Axes, Axis, DTypeLike

    #: A function of an array, or a number.
    Piece: TypeAlias = Callable[[Tensor], Tensor] | float


@checked
def logspace(
    start: float,
    stop: float,
    /,
    num: SupportsIndex = 50,
    *,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Powers of a base whose exponents are evenly spaced; see `linspace`.

    >>> logspace(0, 2, 3)
    iverson.Tensor([  1.,  10., 100.])
    """
    exponents = linspace(start, stop, num, endpoint=endpoint, dtype=dtype)
    return F.pow(as_real(base, "logspace", "base"), exponents)


@checked
def geomspace(
    start: float,
    stop: float,
    /,
    num: SupportsIndex = 50,
    *,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Numbers from one to another with a constant ratio.

    Raises ArgumentError for a zero, and for numbers of different signs.

    >>> geomspace(1, 8, 4)
    iverson.Tensor([1., 2., 4., 8.])
    """
    first = float(as_real(start, "geomspace", "start"))
    last = float(as_real(stop, "geomspace", "stop"))
    if first * last <= 0:
        raise ArgumentError(
            "geomspace", "stop", got=f"{first} and {last}", expected="two numbers of one sign, not 0"
        )
    sign = -1.0 if first < 0 else 1.0
    ends = float(np.log2(abs(first))), float(np.log2(abs(last)))
    return sign * logspace(*ends, num, endpoint=endpoint, base=2.0, dtype=dtype)


@method
def average(x: A | ArrayLike, /, axis: Axes = None, weights: A | ArrayLike | None = None) -> A:
    """The mean with weights, which need not add up to 1.

    Parameters
    ----------
    x : an array.
    axis : an axis, or None for all.
    weights : of the shape of x, or a vector along ``axis``. None: all alike.

    Raises ShapeError for weights of another shape, AxisError.

    >>> from iverson import asarray
    >>> average(asarray([1., 2.]), weights=asarray([3., 1.]))
    iverson.Tensor(1.25)
    """
    x = as_inexact(x, "average")
    if weights is None:
        return mean(x, axis=axis)
    w: Any = as_operand(weights, "average", "weights")
    w = cast(w, dtypes.result_type(x, w))
    if w.shape != x.shape:
        along: Any = axis
        is_joint = axis is None or isinstance(axis, tuple | list)
        k = None if is_joint else normalize_axis(along, x.ndim, "average")
        if k is None or w.shape != (x.shape[k],):
            raise ShapeError(
                "average", "weights", got=f"shape {w.shape}", expected=f"shape {x.shape}, or that of one axis"
            )
        lines = reshape(w, tuple(n if axis == k else 1 for axis, n in enumerate(x.shape)))
        w = broadcast_to(lines, x.shape)
    mass = ones_like(x) * w if isinstance(x, Wrapper) else w  # the weights of what exists
    return _sum(x * w, axis=axis) / _sum(mass, axis=axis)


@method
def ptp(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """The largest entry minus the smallest, along axes. Raises ShapeError for none, AxisError.

    >>> from iverson import asarray
    >>> ptp(asarray([3, 1, 7]))
    iverson.Tensor(6)
    """
    x = as_operand(x, "ptp")
    return _max(x, axis=axis, keepdims=keepdims) - _min(x, axis=axis, keepdims=keepdims)


@method
@in_single
def heaviside(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """0 below zero, 1 above, and x2 at zero. The derivative in x1 is 0.

    >>> from iverson import asarray
    >>> heaviside(asarray([-2., 0., 3.]), 0.5)
    iverson.Tensor([0. , 0.5, 1. ])
    """
    x1, x2 = _in_common("heaviside", x1, x2)
    check_kind(x1, "f", "heaviside", "x1")
    check_kind(x2, "f", "heaviside", "x2")
    step = F.where(F.equal(x1, 0), x2, F.astype(F.greater(x1, 0), dtype=x1.dtype))
    return F.where(F.isnan(x1), x1, step)


@method
def lerp(x: A | ArrayLike, end: A | ArrayLike, weight: A | ArrayLike, /) -> A:
    """x + weight * (end - x): the way from x to end.

    >>> from iverson import asarray
    >>> lerp(asarray([0., 10.]), asarray([4., 20.]), 0.25)
    iverson.Tensor([ 1. , 12.5])
    """
    x, end = _in_common("lerp", x, end)
    return x + as_weak(weight, "lerp", "weight") * (end - x)


def _in_common(name: str, x1: A | ArrayLike, x2: A | ArrayLike) -> tuple[A, A]:
    """Two operands in their common floating dtype."""
    a, b = as_operand(x1, name, "x1"), as_operand(x2, name, "x2")
    dtype = dtypes.to_inexact(dtypes.result_type(a, b))
    return cast(a, dtype), cast(b, dtype)


@method
def fmax(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The larger of two entries, or the one that is not nan.

    >>> from iverson import asarray
    >>> fmax(asarray([1., float("nan")]), asarray([2., 3.]))
    iverson.Tensor([2., 3.])
    """
    return _but_nan("fmax", x1, x2)


@method
def fmin(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The smaller of two entries, or the one that is not nan.

    >>> from iverson import asarray
    >>> fmin(asarray([1., float("nan")]), asarray([2., 3.]))
    iverson.Tensor([1., 3.])
    """
    return _but_nan("fmin", x1, x2)


def _but_nan(name: str, x1: A | ArrayLike, x2: A | ArrayLike) -> A:
    x1, x2 = as_operand(x1, name, "x1"), as_operand(x2, name, "x2")
    extremum = (F.maximum if name == "fmax" else F.minimum)(x1, x2)
    return F.where(F.isnan(x1), x2, F.where(F.isnan(x2), x1, extremum))


@method
def isposinf(x: A | ArrayLike, /) -> A:
    """True where an entry is the positive infinity.

    >>> from iverson import asarray
    >>> isposinf(asarray([float("inf"), 1.]))
    iverson.Tensor([ True, False])
    """
    x = as_operand(x, "isposinf")
    check_kind(x, "fiub", "isposinf")
    return F.logical_and(F.isinf(x), F.greater(x, 0))


@method
def isneginf(x: A | ArrayLike, /) -> A:
    """True where an entry is the negative infinity.

    >>> from iverson import asarray
    >>> isneginf(asarray([float("-inf"), 1.]))
    iverson.Tensor([ True, False])
    """
    x = as_operand(x, "isneginf")
    check_kind(x, "fiub", "isneginf")
    return F.logical_and(F.isinf(x), F.less(x, 0))


def polyval(p: A | ArrayLike, x: A | ArrayLike, /) -> A:
    """A polynomial at each entry of x, by Horner's scheme; the first coefficient is of the highest power.

    Raises ShapeError for coefficients that are no vector.

    >>> from iverson import asarray
    >>> polyval(asarray([1., 0., -2.]), asarray([3.]))
    iverson.Tensor([7.])
    """
    p, x = as_operand(p, "polyval", "p"), as_operand(x, "polyval")
    if p.ndim != 1:
        raise ShapeError("polyval", "p", got=f"shape {p.shape}", expected="a vector of coefficients")
    total = zeros_like(cast(x, dtypes.result_type(p, x)))
    for k in range(p.shape[0]):
        total = total * x + p[k]
    return total


@method
@in_single
def vander(x: A | ArrayLike, /, N: SupportsIndex | None = None, *, increasing: bool = False) -> A:
    """The powers 0 to N - 1 (N: the length of x) of a vector as columns, the highest first or last.

    Raises ShapeError for what is no vector, ArgumentError for N below 0.

    >>> from iverson import asarray
    >>> vander(asarray([2., 3.]), 3)
    iverson.Tensor([[4., 2., 1.],
                    [9., 3., 1.]])
    """
    x = as_operand(x, "vander")
    if x.ndim != 1:
        raise ShapeError("vander", "x", got=f"shape {x.shape}", expected="a vector")
    x = cast(x, dtypes.result_type(x, dtypes.int64)) if x.dtype.kind in "biu" else x
    count = x.shape[0] if N is None else as_int(N, "vander", "N")
    if count < 0:
        raise ArgumentError("vander", "N", got=str(count), expected="at least 0")
    check_storable((x.shape[0], count), x.dtype, "vander", "N")
    powers = [ones_like(x)]
    for _ in range(1, count):
        powers.append(powers[-1] * x)
    if not count:
        return expand_dims(x, 1)[:, :0]
    return stack(powers if increasing else powers[::-1], axis=1)


@method
def gradient(
    x: A | ArrayLike, /, *spacing: A | ArrayLike, axis: Axes = None, edge_order: Literal[1, 2] = 1
) -> A | tuple[A, ...]:
    """Slopes of samples along an axis: central differences, and one-sided ones at both ends.

    Parameters
    ----------
    x : an array with at least two samples along each axis.
    spacing : the distance of two samples, or the places of the samples along an axis; one for all axes, or
        one for each. 1 unless given. A slope is infinite or nan where two of its places coincide.
    axis : along which axis, or axes. None: along each.
    edge_order : 1 for the difference of two samples at an end, 2 for the parabola through three.

    Returns
    -------
    An array; of several axes a tuple with one for each. Raises ShapeError for less samples, AxisError,
    ArgumentError for another number of spacings.

    >>> from iverson import asarray
    >>> gradient(asarray([1., 2., 4.]))
    iverson.Tensor([1. , 1.5, 2. ])
    """
    x = as_inexact(x, "gradient")
    check_choice(edge_order, (1, 2), "gradient", "edge_order")
    axes = normalize_axes(tuple(range(x.ndim)) if axis is None else axis, x.ndim, "gradient")
    steps = spacing or (1.0,)
    steps = steps * len(axes) if len(steps) == 1 else steps
    if len(steps) != len(axes):
        raise ArgumentError(
            "gradient",
            "spacing",
            got=f"{len(spacing)} spacings",
            expected=f"one, or one for each of {len(axes)} axes",
        )
    slopes = tuple([_slopes(x, k, step, edge_order) for k, step in zip(axes, steps, strict=True)])
    return slopes[0] if len(slopes) == 1 else slopes


@in_single
def _slopes(x: A, k: int, step: A | ArrayLike, edge_order: int) -> A:
    """Slopes along axis k, second-order for places at any distance (B. Fornberg, Math. Comp. 51, 1988)."""
    n = x.shape[k]
    if n < edge_order + 1:
        raise ShapeError(
            "gradient", "x", got=f"shape {x.shape}", expected=f"{edge_order + 1} samples along axis {k}"
        )

    def part(start: int | None, stop: int | None) -> Any:
        return x[(slice(None),) * k + (slice(start, stop),)]

    places = as_operand(step, "gradient", "spacing")
    if places.ndim == 0:
        first, last = part(1, 2) - part(0, 1), part(-1, None) - part(-2, -1)
        if edge_order == 2:
            first = (4 * part(1, 2) - 3 * part(0, 1) - part(2, 3)) / 2
            last = (3 * part(-1, None) - 4 * part(-2, -1) + part(-3, -2)) / 2
        distance: Any = step if isinstance(step, SCALARS) else places  # a number leaves the dtype of x
        return concat([first, (part(2, None) - part(0, -2)) / 2, last], axis=k) / distance
    if places.shape != (n,):
        raise ShapeError("gradient", "spacing", got=f"shape {places.shape}", expected=f"a number, or ({n},)")
    h = (places[1:] - places[:-1]).reshape([-1 if j == k else 1 for j in range(x.ndim)])
    slopes = (part(1, None) - part(0, -1)) / h

    def of(a: Any, start: int | None, stop: int | None) -> Any:
        return a[(slice(None),) * k + (slice(start, stop),)]

    before, after = of(h, 0, -1), of(h, 1, None)
    inner = (of(slopes, 0, -1) * after + of(slopes, 1, None) * before) / (before + after)
    first, last = of(slopes, 0, 1), of(slopes, -1, None)
    if edge_order == 2:
        near, far = of(h, 0, 1), of(h, 1, 2)
        first = of(slopes, 0, 1) + (of(slopes, 0, 1) - of(slopes, 1, 2)) * near / (near + far)
        near, far = of(h, -1, None), of(h, -2, -1)
        last = of(slopes, -1, None) + (of(slopes, -1, None) - of(slopes, -2, -1)) * near / (near + far)
    return concat([first, inner, last], axis=k)


@method
@in_single
def unwrap(
    x: A | ArrayLike, /, discont: float | None = None, axis: Axis = -1, *, period: float = 2 * pi
) -> A:
    """Phases whose jumps by more than half a period along an axis are taken out, a period at a time.

    Parameters
    ----------
    x : phases.
    discont : the least jump that is taken out; default, and at least: half a period.
    axis : along which axis.
    period : of the phases.

    The derivative is that of x: how many periods are added is constant. Raises AxisError.

    >>> from iverson import asarray
    >>> unwrap(asarray([0., 3., 7.]), period=4)
    iverson.Tensor([ 0., -1., -1.])
    """
    x = as_inexact(as_plain(x, "unwrap"), "unwrap")
    check_kind(x, "f", "unwrap")
    k, half = normalize_axis(axis, x.ndim, "unwrap"), as_real(period, "unwrap", "period") / 2
    least = half if discont is None else max(as_real(discont, "unwrap", "discont"), half)
    if x.shape[k] < 2:
        return x
    lead = (slice(None),) * k
    head = x[(*lead, slice(0, 1))]
    jumps = x[(*lead, slice(1, None))] - x[(*lead, slice(0, -1))]
    remainders = F.remainder(jumps + half, 2 * half) - half
    at_half = F.logical_and(F.equal(remainders, -half), F.greater(jumps, 0))
    remainders = F.where(at_half, half, remainders)
    shifts = F.where(F.less(F.abs(jumps), least), 0.0, remainders - jumps)
    shifts = F.round(shifts / (2 * half)) * (2 * half)
    total = cumulative_sum(shifts, axis=k)
    return concat([head, x[(*lead, slice(1, None))] + total], axis=k)


@method
@in_single
def cdist(x1: A | ArrayLike, x2: A | ArrayLike, /, p: float = 2.0) -> A:
    """The distance of each row of one matrix from each row of another.

    Parameters
    ----------
    x1 : of shape (..., m, n).
    x2 : of shape (..., k, n).
    p : the order of the norm of a difference.

    Returns
    -------
    An array of shape (..., m, k). Raises ShapeError where shapes do not fit.

    >>> from iverson import asarray
    >>> cdist(asarray([[0., 0.]]), asarray([[3., 4.], [0., 1.]]))
    iverson.Tensor([[5., 1.]])
    """
    a, b = _in_common("cdist", x1, x2)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            "cdist", "x2", got=f"shapes {a.shape} and {b.shape}", expected="rows of one length in both"
        )
    return vector_norm(expand_dims(a, -2) - expand_dims(b, -3), ord=p, axis=-1)


@method
@in_single
def dist(x1: A | ArrayLike, x2: A | ArrayLike, /, p: float = 2.0) -> A:
    """The norm of a difference of two arrays that broadcast, of order p. Raises ShapeError.

    >>> from iverson import asarray
    >>> dist(asarray([0., 0.]), asarray([3., 4.]))
    iverson.Tensor(5.)
    """
    a, b = _in_common("dist", x1, x2)
    return vector_norm(ravel(a - b), ord=p)


@method
def view_as_real(x: A | ArrayLike, /) -> A:
    """Complex entries as pairs of real ones along a new last axis: a copy. Raises DTypeError for others.

    >>> from iverson import asarray
    >>> view_as_real(asarray([1 + 2j]))
    iverson.Tensor([[1., 2.]])
    """
    x = as_operand(x, "view_as_real")
    check_kind(x, "c", "view_as_real")
    return stack([F.real(x), F.imag(x)], axis=-1)


@method
def view_as_complex(x: A | ArrayLike, /) -> A:
    """Pairs of real entries along the last axis as complex ones: a copy.

    Raises ShapeError unless the last axis has extent 2, DTypeError for complex entries.

    >>> from iverson import asarray
    >>> view_as_complex(asarray([[1., 2.]]))
    iverson.Tensor([1.+2.j])
    """
    x = as_operand(x, "view_as_complex")
    check_kind(x, "f", "view_as_complex")
    if not x.ndim or x.shape[-1] != 2:
        raise ShapeError("view_as_complex", "x", got=f"shape {x.shape}", expected="extent 2 on the last axis")
    return x[..., 0] + 1j * x[..., 1]


def piecewise(array: A | ArrayLike, conditions: Sequence[A | ArrayLike], functions: Sequence[Piece], /) -> A:
    """A function of its own where each condition holds: the last one that does.

    Parameters
    ----------
    array : what the functions are of.
    conditions : bools of its shape.
    functions : for each condition a function of it or a number, and perhaps one more for where none holds, by
        default 0. Each function gets all of it; what it gives elsewhere is left out, and has no derivative.

    Raises ArgumentError for another number of functions.

    >>> from iverson import asarray
    >>> x = asarray([-1., 2.])
    >>> piecewise(x, [x < 0, x > 0], [lambda x: -x, lambda x: x * x])
    iverson.Tensor([1., 4.])
    """
    x = as_operand(array, "piecewise", "array")
    flags = [as_operand(c, "piecewise", "conditions") for c in as_tuple(conditions)]
    pieces = as_tuple(functions)
    if len(pieces) not in (len(flags), len(flags) + 1):
        raise ArgumentError(
            "piecewise",
            "functions",
            got=f"{len(pieces)} of them",
            expected=f"{len(flags)}, one for each condition, or one more",
        )
    values: list[Any] = [piece(x) if callable(piece) else piece for piece in pieces]
    out: Any = ones_like(x) * values[-1] if len(pieces) > len(flags) else x * 0
    for flag, value in zip(flags, values, strict=False):
        check_kind(flag, "b", "piecewise", "conditions")
        out = F.where(flag, value, out)
    return F.astype(out, dtype=x.dtype)


__all__ = [
    "average",
    "cdist",
    "dist",
    "fmax",
    "fmin",
    "geomspace",
    "gradient",
    "heaviside",
    "isneginf",
    "isposinf",
    "lerp",
    "logspace",
    "piecewise",
    "polyval",
    "ptp",
    "unwrap",
    "vander",
    "view_as_complex",
    "view_as_real",
]
