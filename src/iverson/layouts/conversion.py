"""One sparse layout from another: the pattern is converted once and kept; values are only reordered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from iverson.core.shapes import Shape
from iverson.layouts import counting
from iverson.layouts.compressed import KINDS, CompressedPattern
from iverson.layouts.coo import CooPattern, coalesced
from iverson.layouts.pattern import Array, Pattern, Sparse, addresses, coordinates_of, index_dtype
from iverson.layouts.registry import to_strided as strided_of


@dataclass(frozen=True, slots=True)
class Padded:
    """Where the entries of blocks come from; -1 is a place that was not stored."""

    source: Array


#: Where the entries of a converted value come from.
Source = Array | slice | Padded | None
Blocks = tuple[int, int] | None

SPARSE_LAYOUTS = ("coo", *KINDS)


def can_hold(layout: str, shape: Shape, blocks: Blocks = None) -> bool:
    """Whether a sparse layout can hold a tensor of this shape, with nothing but its axes."""
    if layout == "coo":
        return len(shape) > 0
    if len(shape) < 2:
        return False
    return blocks is None or all(n % b == 0 for n, b in zip(shape[-2:], blocks, strict=True))


def convert(value: Any, layout: str, blocks: Blocks = None) -> Any:
    """A sparse value in another sparse layout that can hold it; entries stored twice are summed."""
    value = coalesced(value if layout == "coo" else with_sparse_axes(value, len(value.shape)))
    pattern = value.pattern
    if pattern.layout == layout and pattern.blocksize == blocks:
        return value
    target, source = converted(pattern, layout, blocks)
    return target.value(reordered(value.entries, source))


def with_sparse_axes(value: Sparse, count: int) -> Any:
    """A value with at least ``count`` sparse axes: dense trailing axes become indexed ones."""
    k = value.pattern.ndim
    if k >= count:
        return value
    inner = value.dense_shape[: count - k]
    within = np.indices(inner, value.pattern.index_dtype).reshape(len(inner), -1)
    width = within.shape[1]
    indices = np.concatenate(
        [np.repeat(value.pattern.coordinates, width, axis=1), np.tile(within, value.pattern.count)]
    )
    entries = value.entries.reshape((-1, *value.dense_shape[count - k :]))
    if not entries.size:
        entries = np.zeros((indices.shape[1], *value.dense_shape[count - k :]), value.dtype)
    return CooPattern(value.shape[:count], indices, value.pattern.distinct or None).value(entries)


def converted(pattern: Pattern, layout: str, blocks: Blocks = None) -> tuple[Pattern, Source]:
    """A distinct pattern in another layout, and where its entries come from."""
    if pattern.layout == layout and pattern.blocksize == blocks:
        return pattern, None
    found: tuple[Pattern, Source] = pattern.once(
        ("converted", layout, blocks), lambda: _with_placements(pattern, *_converted(pattern, layout, blocks))
    )
    return found


def _with_placements(pattern: Pattern, made: Pattern, source: Source) -> tuple[Pattern, Source]:
    if not isinstance(source, Padded):
        order: Array | slice = slice(None) if source is None else source
        placements(made)[pattern] = Placement(None, lambda: order, put=False)
        placements(pattern)[made] = Placement(None, lambda: order, put=True)
    return made, source


def reordered(entries: Array, source: Source) -> Array:
    """Stored entries in the order of a converted pattern."""
    if source is None:
        return entries
    if isinstance(source, slice):
        return entries[source]
    if isinstance(source, Padded):
        entries = np.concatenate([entries, np.zeros((1, *entries.shape[1:]), entries.dtype)])
        source = source.source
    return counting.taken(entries, source)


class Placement:
    """How entries on one pattern are read at another: from the positions ``at`` of their own, or put there.

    source : the order, of the entries as they are stored, in which they are taken first.
    at : gives positions among the entries there if ``put``, else among those read.
    """

    __slots__ = ("at", "put", "source")

    def __init__(self, source: Source, at: Callable[[], Array | slice], put: bool) -> None:
        self.source = source
        self.at = at
        self.put = put

    def read(self, entries: Array, count: int) -> Array:
        """The entries at the other pattern, which stores ``count``; 0 where there is none."""
        entries = reordered(entries, self.source)
        if not self.put:
            return counting.taken(entries, self.at())
        out = np.zeros((count, *entries.shape[1:]), entries.dtype)
        out[self.at()] = entries
        return out


def placements(pattern: Pattern) -> WeakKeyDictionary[Pattern, Placement]:
    """For other patterns, how values on them are read at this one; as far as known."""
    found: WeakKeyDictionary[Pattern, Placement] = pattern.once("placements", WeakKeyDictionary)
    return found


def subset(pattern: Pattern, at: Array) -> Pattern:
    """A pattern of at least the entries at increasing positions; if of those alone, where they are from is
    kept."""
    if at.size == pattern.count or len(pattern.stored_shape) > 1:
        return pattern
    made = pattern.subset(at)
    if made.stored_shape == at.shape and pattern.distinct:
        placements(made)[pattern] = Placement(None, lambda: at, put=False)
        placements(pattern)[made] = Placement(None, lambda: at, put=True)
    return made


def _converted(pattern: Pattern, layout: str, blocks: Blocks) -> tuple[Pattern, Source]:
    if layout == "coo":
        return CooPattern(pattern.shape, pattern.coordinates, True), None
    axis = 0 if layout in ("csr", "bsr") else 1
    if blocks is not None:
        return _blocked(pattern, axis, blocks)
    found = pattern.lines_along(axis)
    if found is not None:
        return CompressedPattern(pattern.shape, *found[:2], axis), found[2]
    coordinates = pattern.coordinates
    order: Source
    if axis == 0:
        order = pattern.sorted[1]
    else:
        turned = addresses(coordinates[_turned(range(pattern.ndim))], tuple(_turned(pattern.shape)))
        order = counting.in_order(turned)[1] if (turned[1:] < turned[:-1]).any() else slice(None)
    *batch, rows, columns = coordinates
    across, along = (rows, columns) if axis == 0 else (columns, rows)
    lines = across
    if batch:
        lines = addresses(np.stack([*batch, across]), (*pattern.shape[:-2], pattern.shape[-2 + axis]))
    return _compress(pattern.shape, lines[order], along[order], axis, None, pattern.index_dtype), order


def _turned(rows: Sequence[Any]) -> list[Any]:
    """A sequence with its last two in the other order."""
    return [*rows[:-2], rows[-1], rows[-2]]


def _blocked(pattern: Pattern, axis: int, blocks: tuple[int, int]) -> tuple[Pattern, Source]:
    """Blocks that hold a stored entry, by the address of the block; the rest of a block is an explicit 0."""
    r, c = blocks
    *batch, rows, columns = pattern.coordinates
    places = [*batch, rows // r, columns // c]
    extents = [*pattern.shape[:-2], pattern.shape[-2] // r, pattern.shape[-1] // c]
    if axis == 1:
        places, extents = _turned(places), _turned(extents)
    keys, order = _grouped(places, tuple(extents))
    first = np.ones(keys.size, bool)
    first[1:] = keys[1:] != keys[:-1]
    block = np.cumsum(first) - 1
    keys = keys[first]
    lines, indices = np.divmod(keys, max(extents[-1], 1))
    source = np.full((keys.size, r, c), -1, np.int64)
    within = (rows - rows // r * r) * c + (columns - columns // c * c)
    source.reshape(-1)[block * (r * c) + within[order]] = order
    made = _compress(pattern.shape, lines, indices, axis, blocks, pattern.index_dtype)
    return made, Padded(source.ravel()) if (source < 0).any() else source.ravel()


def _grouped(places: list[Array], extents: Shape) -> tuple[Array, Array]:
    """The addresses of places, where entries may share one, in order, and the order that gives it."""
    keys = addresses(np.stack(places), extents)
    if len(extents) > 2 or not counting.worth_counting(keys.size, *extents):
        return counting.in_order(keys)
    order = counting.compressed(extents[0], extents[1], *places)[2]
    return keys[order], order


def _compress(
    shape: Shape, lines: Array, indices: Array, axis: int, blocks: Blocks, dtype: Any
) -> CompressedPattern:
    """A pattern of sorted lines."""
    count = prod(shape[:-2]) * (shape[-2 + axis] // (blocks[axis] if blocks else 1))
    indptr = np.zeros(count + 1, dtype)
    np.cumsum(np.bincount(lines, minlength=count), out=indptr[1:])
    return CompressedPattern(shape, indptr, np.ascontiguousarray(indices, dtype), axis, blocks)


def like(value: Sparse, model: Pattern) -> Any:
    """A value in the layout of a pattern where that `suits` it, else in COO."""
    if not value.dense_shape and _suits(value.shape, model, value.pattern.count):
        return convert(value, model.layout, model.blocksize)
    return value if value.pattern.layout == "coo" else convert(value, "coo")


def from_keys(keys: Array, shape: Shape, model: Pattern) -> Pattern:
    """The pattern of increasing addresses, in the layout of a pattern where that suits it, else in COO."""
    coo = CooPattern.of_keys(keys, shape, model.index_dtype)
    return converted(coo, model.layout, model.blocksize)[0] if _suits(shape, model, keys.size) else coo


def _suits(shape: Shape, model: Pattern, count: int) -> bool:
    """Whether the compressed layout of a pattern can hold a result of a shape without storing mostly starts
    of lines: its lines are as long as the pattern's, or no more than those or than the entries."""
    if type(model) is not CompressedPattern or not can_hold(model.layout, shape, model.blocks):
        return False
    along = -1 - model.axis
    if shape[along] >= model.shape[along]:
        return True
    return prod(shape) <= max(prod(model.shape) // model.shape[along], count) * shape[along]


def without_entries(value: Sparse, dtype: Any) -> Any:
    """A value of the same shape and layout that stores nothing."""
    shape, model = value.shape, value.pattern
    empty = CooPattern.of_keys(np.zeros(0, np.int64), shape, model.index_dtype)
    pattern = converted(empty, model.layout, model.blocksize)[0] if can_hold(model.layout, shape) else empty
    return pattern.value(np.zeros((0, *pattern.stored_shape[1:]), dtype))


def nonzero_indices(value: Any) -> tuple[Array, ...]:
    """The indices of the nonzero entries of a value, in row-major order, one int64 array per axis."""
    if not isinstance(value, Sparse):
        return np.nonzero(strided_of(value))
    value = coalesced(with_sparse_axes(value, len(value.shape)))
    keys, order = value.pattern.sorted
    found = coordinates_of(keys[value.entries[order] != 0], value.shape)
    return tuple(found)


def from_strided(x: Array, layout: str, blocks: Blocks = None, sparse_axes: int | None = None) -> Any:
    """The nonzero entries (or slices that hold one) of an array in a sparse layout."""
    k = x.ndim if sparse_axes is None else sparse_axes
    occupied = x != 0
    if k < x.ndim:
        occupied = occupied.any(axis=tuple(range(k, x.ndim)))
    found = np.nonzero(occupied)
    indices = np.array(found, index_dtype(*x.shape)).reshape(k, -1)
    value = CooPattern(x.shape[:k], indices, True).value(x[found])
    return convert(value, layout, blocks)
