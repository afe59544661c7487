"""`pad`: entries added around an array, moved from inside it or computed from its entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import SCALARS, as_operand, as_tuple, check_kind
from iverson.array_api.entries.joining import concat, take_positions
from iverson.array_api.entries.manipulation import flip
from iverson.array_api.reduction.order_statistics import median
from iverson.array_api.reduction.reductions import max as _max
from iverson.array_api.reduction.reductions import mean
from iverson.array_api.reduction.reductions import min as _min
from iverson.core import dtypes
from iverson.core.errors import ArgumentError, ArgumentTypeError, ShapeError, described
from iverson.core.shapes import as_int, check_choice, check_storable
from iverson.kernels.deferred_patterns import is_sparse
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, PadMode, Widths

_MOVES = ("edge", "reflect", "symmetric", "wrap")
#: What stands for a stretch of entries; means and medians of integers are rounded, as in NumPy.
_STATISTICS: dict[str, Any] = {"maximum": _max, "mean": mean, "median": median, "minimum": _min}
_PAD_MODES = ("constant", "linear_ramp", *_MOVES, *_STATISTICS)


@method
def pad(
    x: A | ArrayLike,
    pad_width: Widths,
    /,
    mode: PadMode = "constant",
    *,
    constant_values: complex = 0,
    end_values: complex = 0,
    stat_length: SupportsIndex | None = None,
) -> A:
    """x with entries added before and after each axis.

    ``pad_width`` is an integer, a pair (before, after) for all axes, or a sequence of one pair per axis.
    ``mode`` says what is added, one axis after the other: "constant" (the scalar ``constant_values``),
    "edge" (the entry at the edge), "reflect" (the array mirrored at that entry), "symmetric" (mirrored
    beside it, so that it is there twice), "wrap" (the array from its other end), "linear_ramp" (a line from
    the edge to the scalar ``end_values``), or the "maximum", "mean", "median" or "minimum" along the axis, of
    the ``stat_length`` entries next to that edge (of all by default). A negative width takes entries away.
    Raises ArgumentError for another mode or an axis without entries to repeat, ShapeError where more is
    taken than there is.

    >>> from iverson import asarray
    >>> pad(asarray([1, 2, 3]), (1, 2)), pad(asarray([1, 2, 3]), 2, "reflect")
    (iverson.Tensor([0, 1, 2, 3, 0, 0]), iverson.Tensor([3, 2, 1, 2, 3, 2, 1]))
    >>> pad(asarray([4., 2.]), (2, 1), "linear_ramp"), pad(asarray([4., 2.]), 1, "mean")
    (iverson.Tensor([0., 2., 4., 2., 0.]), iverson.Tensor([3., 4., 2., 3.]))
    """
    x = as_operand(x, "pad")
    signed_widths = _pad_widths(pad_width, x.ndim)
    widths = [(max(a, 0), max(b, 0)) for a, b in signed_widths]
    shape = tuple(a + n + b for n, (a, b) in zip(x.shape, widths, strict=True))
    check_storable(shape, np.dtype(np.complex128), "pad", "pad_width")
    check_choice(mode, _PAD_MODES, "pad", "mode")
    if mode == "constant":
        padded = _pad_constant(x, widths, constant_values)
    elif mode in _MOVES:
        padded = _with_moved(x, widths, mode)
    else:
        length = None if stat_length is None else as_int(stat_length, "pad", "stat_length")
        if length is not None and length < 1:
            raise ArgumentError("pad", "stat_length", got=str(length), expected="at least 1")
        padded = _with_computed(x, widths, mode, end_values, length)
    return _without_ends(padded, signed_widths)


def _without_ends(x: Array, widths: list[tuple[int, int]]) -> Any:
    """Array ``x`` with entries removed at the ends of its axes, as many as the negative ``widths`` say."""
    cuts = [(max(-a, 0), n + min(b, 0)) for n, (a, b) in zip(x.shape, widths, strict=True)]
    if any(a > b for a, b in cuts):
        raise ShapeError(
            "pad",
            "pad_width",
            got=str(widths),
            expected="no more taken away than there is with what is added",
        )
    if all(cut == (0, n) for cut, n in zip(cuts, x.shape, strict=True)):
        return x
    return F.index_basic(x, key=tuple(slice(a, b, 1) if a < b else slice(0, 0, 1) for a, b in cuts))


def _padded_axes(x: Array, widths: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Triples of an axis that gets entries and the numbers of entries before and after it.

    Raises ArgumentError if such an axis has no entries to repeat.
    """
    axes = [(k, before, after) for k, (before, after) in enumerate(widths) if before or after]
    for k, _, _ in axes:
        if x.shape[k] == 0:
            raise ArgumentError("pad", "x", got=f"shape {x.shape}", expected=f"entries on axis {k}")
    return axes


def _with_moved(x: Array, widths: list[tuple[int, int]], mode: str) -> Any:
    for k, before, after in _padded_axes(x, widths):
        options: dict[str, Any] = {"mode": mode}
        x = take_positions(x, np.pad(np.arange(x.shape[k]), (before, after), **options), k)
    return x


def _with_computed(
    x: Array, widths: list[tuple[int, int]], mode: str, end: complex, length: int | None
) -> Any:
    """Array ``x`` padded with ramps, or with statistics of the entries next to the edges.

    end : the end of a ramp. length : the number of entries for statistics, or None for all.
    """
    check_kind(x, "iufc" if mode in ("linear_ramp", "mean") else "iuf", "pad")
    if mode == "linear_ramp" and type(end) not in ((*SCALARS,) if x.dtype.kind == "c" else (int, float)):
        raise ArgumentTypeError("pad", "end_values", got=described(end), expected="a real Python scalar")
    for k, before, after in _padded_axes(x, widths):
        n = x.shape[k]
        count = 1 if mode == "linear_ramp" else n if length is None else min(length, n)
        first, last = _part(x, k, 0, count), _part(x, k, n - count, n)
        if mode == "linear_ramp":
            sides = [_ramp(first, k, before, end), flip(_ramp(last, k, after, end), axis=k)]
        else:
            sides = [_alike(_STATISTICS[mode], y, k, m) for y, m in ((first, before), (last, after))]
        parts = [part for part in (sides[0], x, sides[1]) if part.shape[k]]
        x = concat(parts, axis=k)
    return x


def _part(x: Array, axis: int, start: int, stop: int) -> Any:
    return F.index_basic(
        x, key=tuple(slice(start, stop, 1) if k == axis else slice(0, n, 1) for k, n in enumerate(x.shape))
    )


def _alike(statistic: Callable[..., Array], x: Array, axis: int, count: int) -> Any:
    """Statistic of ``x`` along an axis, repeated ``count`` times."""
    summary = statistic(x, axis=axis, keepdims=True)
    if summary.dtype != x.dtype:
        summary = F.astype(F.round(summary), dtype=x.dtype)
    return F.broadcast_to(summary, shape=(*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _ramp(edge: Array, axis: int, width: int, end: complex) -> Any:
    """Line of ``width`` entries from ``end`` towards ``edge``, which is not reached; rounded down for
    integers.
    """
    is_integer = edge.dtype.kind in "iu"
    y = F.astype(edge, dtype=np.dtype("float64")) if is_integer else edge
    dtype = np.dtype(y.dtype.type(0).real.dtype)
    steps = np.arange(width, dtype=dtype).reshape(-1, *[1] * (y.ndim - axis - 1))
    line = (y - end) / float(max(width, 1)) * steps + end
    return F.astype(F.floor(line), dtype=edge.dtype) if is_integer else line


def _pad_widths(pad_width: Widths, ndim: int) -> list[tuple[int, int]]:
    """List of one pair (before, after) for each axis, from the argument of `pad`."""
    pairs: list[Any] = list(as_tuple(pad_width))
    if pairs and all(not isinstance(p, (list, tuple)) for p in pairs) and len(pairs) <= 2:
        pairs = [(pairs[0], pairs[-1])] * ndim
    if len(pairs) != ndim or any(len(as_tuple(p)) != 2 for p in pairs):
        raise ShapeError(
            "pad",
            "pad_width",
            got=str(pad_width),
            expected=f"an integer, a pair, or {ndim} pairs (before, after)",
        )
    return [(as_int(a, "pad", "pad_width"), as_int(b, "pad", "pad_width")) for a, b in pairs]


def _pad_constant(x: Array, widths: list[tuple[int, int]], value: complex | np.generic) -> Any:
    """Array ``x`` padded with one number; a sparse array stays sparse if the number is 0."""
    shape = tuple(a + n + b for n, (a, b) in zip(x.shape, widths, strict=True))
    key = tuple(
        slice(a, a + n, 1) if n else slice(0, 0, 1) for n, (a, _) in zip(x.shape, widths, strict=True)
    )
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) not in SCALARS:
        raise ArgumentTypeError(
            "pad", "constant_values", got=f"a {type(value).__name__}", expected="a Python scalar"
        )
    if value == 0:
        embedded = F.embed(x, key=key, shape=shape)
        return embedded if is_sparse(x) else F.to_dense(embedded)
    around = np.asarray(value)
    if not dtypes.can_cast(around.dtype, x.dtype, "same_kind") and around.dtype.kind not in "bi":
        raise ArgumentError(
            "pad", "constant_values", got=repr(value), expected=f"a value that {x.dtype} can hold"
        )
    return F.index_put(np.broadcast_to(around.astype(x.dtype), shape), x, key=key)


__all__ = ["pad"]
