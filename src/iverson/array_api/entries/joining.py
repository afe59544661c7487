"""Joining and splitting arrays: concat, stack, split, tile, repeat, diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from iverson.array_api.conventions.methods import method, variadic_method
from iverson.array_api.conventions.operands import as_operand, as_operands, check_entries
from iverson.array_api.entries.manipulation import as_vector
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.inputs.arguments import checked
from iverson.core.inputs.arrays import plain
from iverson.core.protocols import NDArray
from iverson.core.shapes import Shape, as_int, as_shape, check_storable, concat_offsets, normalize_axis
from iverson.handles.views import as_part
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axis, ShapeLike


@checked
def concat(arrays: Sequence[A | ArrayLike] | A, /, *, axis: Axis | None = 0) -> A:
    """Arrays one after the other along an axis; ``axis=None`` flattens them first. dtypes are promoted.

    Raises ShapeError where other extents differ, AxisError, ArgumentError for no arrays.

    >>> from iverson import asarray
    >>> concat([asarray([1, 2]), asarray([3.])])
    iverson.Tensor([1., 2., 3.])
    """
    xs = as_operands(arrays, "concat")
    if axis is None:
        xs, axis = [as_vector(x, "concat") for x in xs], 0
    ndim = len(xs[0].shape)
    k = normalize_axis(axis, ndim, "concat")
    for i, x in enumerate(xs):
        if len(x.shape) != ndim:
            raise ShapeError("concat", f"arrays[{i}]", got=f"shape {x.shape}", expected=f"{ndim} axes")
    return F.concat(*xs, axis=k, offsets=concat_offsets([x.shape[k] for x in xs]))


@checked
def stack(arrays: Sequence[A | ArrayLike] | A, /, *, axis: Axis = 0) -> A:
    """Arrays of one shape along a new axis. dtypes are promoted.

    Raises ShapeError where shapes differ, AxisError, ArgumentError for no arrays.

    >>> from iverson import asarray
    >>> stack([asarray([1, 2]), asarray([3, 4])], axis=1)
    iverson.Tensor([[1, 3],
                    [2, 4]])
    """
    xs = as_operands(arrays, "stack")
    return F.stack(*xs, axis=normalize_axis(axis, xs[0].ndim + 1, "stack"))


def _parts(x: Array, keys: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    return (as_part(F.index_basic(x, key=key), x, key) for key in keys)


@method
def unstack(x: A | ArrayLike, /, *, axis: Axis = 0) -> tuple[A, ...]:
    """The slices of x along an axis, which they lose. Raises AxisError.

    >>> from iverson import asarray
    >>> unstack(asarray([[1, 2], [3, 4]]), axis=1)
    (iverson.Tensor([1, 3]), iverson.Tensor([2, 4]))
    """
    x = as_operand(x, "unstack")
    k = normalize_axis(axis, x.ndim, "unstack")
    full_key = tuple(slice(0, n, 1) for n in x.shape)
    keys = ((*full_key[:k], i, *full_key[k + 1 :]) for i in range(x.shape[k]))
    return tuple(_parts(x, keys))


@method
def split(x: A | ArrayLike, indices_or_sections: ShapeLike, /, *, axis: Axis = 0) -> tuple[A, ...]:
    """x cut along an axis: into a number of equal parts, or before each of a sequence of positions.

    Raises ArgumentError where the parts would not be equal or positions do not increase, AxisError.

    >>> from iverson import arange
    >>> split(arange(4), 2), split(arange(4), [1])[1]
    ((iverson.Tensor([0, 1]), iverson.Tensor([2, 3])), iverson.Tensor([1, 2, 3]))
    """
    x = as_operand(x, "split")
    k = normalize_axis(axis, x.ndim, "split")
    n, argument = x.shape[k], "indices_or_sections"
    if isinstance(indices_or_sections, (list, tuple)):
        cuts = [as_int(i, "split", argument) for i in indices_or_sections]
        cuts = [0, *(min(max(i + n if i < 0 else i, 0), n) for i in cuts), n]
        if any(a > b for a, b in pairwise(cuts)):
            raise ArgumentError(
                "split", argument, got=str(indices_or_sections), expected="increasing positions"
            )
    else:
        parts = as_int(indices_or_sections, "split", argument)
        if parts < 1 or n % parts:
            raise ArgumentError(
                "split",
                argument,
                got=f"{parts} sections of an axis of extent {n}",
                expected="a number that divides it",
                remedy="use array_split, or pass the positions of the cuts",
            )
        cuts = list(range(0, n + 1, n // parts)) if n else [0] * (parts + 1)
    return tuple(_parts(x, (_cut(x.shape, k, a, b) for a, b in pairwise(cuts))))


@method
def array_split(x: A | ArrayLike, sections: SupportsIndex, /, *, axis: Axis = 0) -> tuple[A, ...]:
    """x cut along an axis into a number of parts, the first of them one longer where they cannot be equal.

    Raises ArgumentError for fewer than one part, AxisError.

    >>> from iverson import arange
    >>> array_split(arange(3), 2)
    (iverson.Tensor([0, 1]), iverson.Tensor([2]))
    """
    x = as_operand(x, "array_split")
    k = normalize_axis(axis, x.ndim, "array_split")
    parts = as_int(sections, "array_split", "sections")
    if not 1 <= parts < 2**31:
        raise ArgumentError("array_split", "sections", got=str(parts), expected="a number of parts")
    size, longer = divmod(x.shape[k], parts)
    cuts = [i * size + min(i, longer) for i in range(parts + 1)]
    return tuple(_parts(x, (_cut(x.shape, k, a, b) for a, b in pairwise(cuts))))


def _cut(shape: Shape, axis: int, start: int, stop: int) -> tuple[slice, ...]:
    """Basic key for the range from ``start`` to ``stop`` of one axis, which may be empty, and all of the
    other axes.
    """
    part = slice(start, stop, 1) if stop > start else slice(0, 0, 1)
    return tuple(part if k == axis else slice(0, n, 1) for k, n in enumerate(shape))


@variadic_method
def tile(x: A | ArrayLike, repetitions: ShapeLike, /) -> A:
    """x laid side by side with itself, ``repetitions[k]`` times along axis k.

    The shorter of ``repetitions`` and x's shape is filled up with ones in front. Raises ShapeError for
    negative numbers.

    >>> from iverson import arange
    >>> tile(arange(2), (2, 2))
    iverson.Tensor([[0, 1, 0, 1],
                    [0, 1, 0, 1]])
    """
    x = as_operand(x, "tile")
    times = as_shape(repetitions, "tile")
    times = (1,) * (x.ndim - len(times)) + times
    padded_shape = (1,) * (len(times) - x.ndim) + x.shape
    spread = tuple(m for n in padded_shape for m in (1, n))
    wide = tuple(m for r, n in zip(times, padded_shape, strict=True) for m in (r, n))
    folded = tuple(r * n for r, n in zip(times, padded_shape, strict=True))
    _check_spread(x, times, folded, "tile", "repetitions")
    return _spread(x, spread, wide, folded)


def _check_spread(x: Any, times: Shape, folded: Shape, operation: str, argument: str) -> None:
    """Raise ShapeError if the entries that are stored of a repeated array cannot fit into memory.

    times : the numbers of repetitions. folded : the shape of the result.
    """
    check_storable(folded if x.layout == "strided" else times, x.dtype, operation, argument)


def _spread(x: Array, spread: Shape, wide: Shape, folded: Shape) -> Any:
    """Array ``x`` with axes of extent 1 put in, repeated along these, and then reshaped to ``folded``.

    spread : the shape with the new axes. wide : the same with their numbers of repetitions.
    """
    return F.reshape(F.broadcast_to(F.reshape(x, shape=spread), shape=wide), shape=folded)


@method
def repeat(x: A | ArrayLike, repeats: ArrayLike | Sequence[int], /, *, axis: Axis | None = None) -> A:
    """Each entry along an axis ``repeats`` times (an integer, or one per entry); None flattens x first.

    Raises ArgumentError for negative numbers, ShapeError where there is not one for each entry, AxisError.

    >>> from iverson import arange
    >>> repeat(arange(2), 2), repeat(arange(2), arange(2))
    (iverson.Tensor([0, 0, 1, 1]), iverson.Tensor([1]))
    """
    x = as_vector(x, "repeat") if axis is None else as_operand(x, "repeat")
    k = normalize_axis(0 if axis is None else axis, x.ndim, "repeat")
    n = x.shape[k]
    counts = _counts(repeats, n)
    if counts.size == 1:
        lead, trailing, times = x.shape[: k + 1], x.shape[k + 1 :], int(counts.reshape(()))
        folded = (*lead[:-1], n * times, *trailing)
        _check_spread(x, (times,), folded, "repeat", "repeats")
        return _spread(x, (*lead, 1, *trailing), (*lead, times, *trailing), folded)
    check_storable((sum(counts.tolist()),), x.dtype, "repeat", "repeats")
    return take_positions(x, np.repeat(np.arange(n), counts), k)


def _counts(repeats: Any, n: int) -> np.ndarray[Any, Any]:
    """Checked numbers of repetitions as a NumPy array: one, or ``n`` of them."""
    if not isinstance(repeats, (list, tuple)):
        repeats = as_operand(repeats, "repeat", "repeats")
        check_entries(
            "repeat",
            repeats,
            decides="the shape of the result",
            remedy="pass what is no argument of the transform, or use take(x, positions)",
        )
        repeats = F.to_numpy(repeats)
    counts = plain(repeats, "repeat", "repeats")
    if counts.size and (counts.dtype.kind not in "iu" or counts.min() < 0):
        raise ArgumentError("repeat", "repeats", got=str(counts), expected="integers, none of them negative")
    if counts.shape not in ((), (1,), (n,)):
        raise ShapeError(
            "repeat", "repeats", got=f"shape {counts.shape}", expected=f"one integer, or {n} of them"
        )
    return counts


def take_positions(x: Array | ArrayLike, positions: NDArray, axis: int) -> Any:
    """Slices of ``x`` at checked integer positions of one axis; the axes of ``positions`` take the place of
    that axis.
    """
    result = F.gather(x, positions, axes=(axis,))
    if axis == 0:
        return result
    lead = positions.ndim
    order = (*range(lead, lead + axis), *range(lead), *range(lead + axis, result.ndim))
    return F.permute_dims(result, axes=order)


@method
def diff(
    x: A | ArrayLike,
    /,
    n: SupportsIndex = 1,
    *,
    axis: Axis = -1,
    prepend: A | ArrayLike | None = None,
    append: A | ArrayLike | None = None,
) -> A:
    """The differences of neighbours along an axis, taken ``n`` times.

    ``prepend`` and ``append`` are arrays put before and after x along the axis first; with ``n=0`` the result
    is x, without them, as in NumPy. Raises ArgumentError for a negative ``n``, ShapeError where they do not
    fit, AxisError.

    >>> from iverson import asarray
    >>> diff(asarray([1, 4, 9])), diff(asarray([1, 4, 9]), 2)
    (iverson.Tensor([3, 5]), iverson.Tensor([2]))
    """
    x = as_operand(x, "diff")
    k = normalize_axis(axis, x.ndim, "diff")
    times = as_int(n, "diff", "n")
    if times < 0:
        raise ArgumentError("diff", "n", got=str(n), expected="a number of times")
    if times == 0:
        return x
    parts = [p for p in (prepend, x, append) if p is not None]
    differences: Any = concat(parts, axis=k) if len(parts) > 1 else x
    for _ in range(min(times, differences.shape[k])):  # after that nothing is left
        m, shape = differences.shape[k], differences.shape
        before, after = (
            F.index_basic(differences, key=_cut(shape, k, a, b)) for a, b in ((0, m - 1), (1, m))
        )
        differences = (
            F.not_equal(after, before) if differences.dtype.kind == "b" else F.subtract(after, before)
        )
    return differences


__all__ = ["array_split", "concat", "diff", "repeat", "split", "stack", "tile", "unstack"]
