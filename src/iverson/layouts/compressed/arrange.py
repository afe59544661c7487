"""Compression of any pattern, by lines or in blocks, and the records of the compressed layouts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from iverson.core.entries import Stored
from iverson.core.shapes import Shape
from iverson.layouts import counting_sorts
from iverson.layouts.compressed import KINDS, NAMES, CompressedPattern
from iverson.layouts.layout_registry import Blocks, Layout, register
from iverson.layouts.pattern import Array, Pattern, Sparse, addresses, check, stored, to_strided
from iverson.layouts.placement import ByPattern, Padded, Source, WithEntries

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

T = TypeVar("T")


def arranged(axis: int, pattern: Pattern, blocks: Blocks) -> tuple[Pattern, Source]:
    """Convert ``pattern`` to a compressed one, and return it with the source of its entries (see `Source`).

    axis : 0 for lines of rows, 1 for lines of columns.
    blocks : shape of the blocks to store; None for single entries.
    """
    if blocks is not None:
        return _blocked(pattern, axis, blocks)
    compressed = pattern.lines_along(axis)
    if compressed is not None:
        return CompressedPattern(pattern.shape, *compressed[:2], axis), compressed[2]
    coordinates = pattern.coordinates
    order: Source
    if axis == 0:
        order = pattern.sorted[1]
    else:
        keys = addresses(coordinates[_turned(range(pattern.ndim))], tuple(_turned(pattern.shape)))
        order = counting_sorts.in_order(keys)[1] if (keys[1:] < keys[:-1]).any() else slice(None)
    *batch, rows, columns = coordinates
    across, along = (rows, columns) if axis == 0 else (columns, rows)
    lines = across
    if batch:
        lines = addresses(np.stack([*batch, across]), (*pattern.shape[:-2], pattern.shape[-2 + axis]))
    return _compress(pattern.shape, lines[order], along[order], axis, None, pattern.index_dtype), order


def _turned(rows: Sequence[T]) -> list[T]:
    """List of the same elements with the last two exchanged."""
    return [*rows[:-2], rows[-1], rows[-2]]


#: Entries from which one sort of all of them takes less time than SciPy's sort of blocks, line by line.
#: Measured (`make calibrate`): 8e3 where each entry has a block of its own; never where blocks are full.
MANY = 1 << 13


def carried(axis: int, pattern: Pattern, blocks: Blocks, entries: Array) -> WithEntries | None:
    """Convert a compressed matrix and the ``entries`` of a value on it in one pass.

    There is such a pass from rows to columns, from columns to rows, and from a few rows to rows of blocks.
    Returns the new pattern, the entries on it and a function that gives the source of these entries. The
    result is None if there is no such pass for ``pattern``, if entries are slices, or if their order along
    ``axis`` is known already.

    axis : 0 for lines of rows in the result, 1 for columns.
    """
    if not isinstance(pattern, CompressedPattern) or pattern.ndim != 2 or pattern.blocks:
        return None
    if blocks is not None and pattern.axis == axis == 0 and entries.ndim == 1 and pattern.count < MANY:
        return _rows_in_blocks(pattern, blocks, entries)
    if blocks or pattern.axis == axis or "turned" in pattern._facts or entries.ndim > 1:
        return None
    turn = partial(counting_sorts.turned, pattern.grid[pattern.axis], pattern.grid[axis])
    starts, along, values, order = counting_sorts.carried(turn, pattern.indptr, pattern.indices, entries)
    return CompressedPattern(pattern.shape, starts, along, axis), values, order


def _rows_in_blocks(pattern: CompressedPattern, blocks: tuple[int, int], entries: Array) -> WithEntries:
    """Convert a matrix in CSR, with its ``entries``, to BSR in one pass, without a sort of all entries.

    Returns the new pattern, the entries on it and a function that gives the source of these entries.
    """
    to_blocks = partial(counting_sorts.in_blocks, pattern.shape, blocks, pattern.indptr, pattern.indices)
    starts, indices, values = to_blocks(entries)
    result = CompressedPattern(pattern.shape, starts, indices, 0, blocks)

    @cache
    def source() -> Source:
        numbers = to_blocks(counting_sorts.numbered(pattern.count, np.dtype(np.int64)))[2].ravel()
        if result.count == pattern.count:
            return numbers - 1
        at = np.empty(pattern.count, np.int64)
        slots = np.flatnonzero(numbers)
        at[numbers[slots] - 1] = slots
        return Padded(at, result.count)

    return result, values.reshape(result.count), source


def _blocked(pattern: Pattern, axis: int, blocks: tuple[int, int]) -> tuple[Pattern, Source]:
    """Pattern of the blocks that contain a stored entry, and the source of its entries.

    Entries are sorted by the address of their block and their place within the block. Where ``pattern``
    stores nothing, the block has an explicit 0: then the source is `Padded`.
    """
    r, c = blocks
    grid = pattern.shape[-2] // r, pattern.shape[-1] // c
    keys, order = counting_sorts.in_order(_by_block(pattern, axis, blocks, grid))
    block = keys // (r * c)
    first = np.ones(keys.size, bool)
    first[1:] = block[1:] != block[:-1]
    block_keys, extent = block[first], max(grid[1 - axis], 1)
    lines = block_keys // extent
    indices = block_keys - lines * extent
    block -= np.cumsum(first)
    block += 1
    block *= r * c
    keys -= block
    result = _compress(pattern.shape, lines, indices, axis, blocks, pattern.index_dtype)
    if result.count == keys.size:
        return result, order
    at = np.empty_like(keys)
    at[order] = keys
    return result, Padded(at, result.count)


def _by_block(pattern: Pattern, axis: int, blocks: tuple[int, int], grid: tuple[int, int]) -> Array:
    """Position of each stored entry in the dense array of all blocks, block after block, each in C order.

    Blocks follow each other by rows of blocks (``axis`` 0) or columns of blocks (1). The arithmetic is in
    place, because most of the time would go into new memory.

    grid : number of blocks along rows and along columns.
    """
    *batch, rows, columns = pattern.coordinates.astype(np.int64, copy=False)
    places, extents = [rows // blocks[0], columns // blocks[1]], grid
    if axis == 1:
        places, extents = places[::-1], extents[::-1]
    keys: Array = addresses(np.stack([*batch, places[0]]), (*pattern.shape[:-2], extents[0]))
    keys *= extents[1]
    keys += places[1]
    for at, across, extent in ((rows, places[axis], blocks[0]), (columns, places[1 - axis], blocks[1])):
        keys *= extent
        keys += at
        across *= extent
        keys -= across
    return keys


def _compress(
    shape: Shape, lines: Array, indices: Array, axis: int, blocks: Blocks, dtype: DTypeLike
) -> CompressedPattern:
    """Compressed pattern of entries (or blocks) that are sorted by line, then by index.

    lines : the line of each entry.
    indices : the place of each entry in its line.
    dtype : of the index arrays of the result.
    """
    count = prod(shape[:-2]) * (shape[-2 + axis] // (blocks[axis] if blocks else 1))
    indptr = counting_sorts.starts_of(np.asarray(lines, dtype), count)
    return CompressedPattern(shape, indptr, np.ascontiguousarray(indices, dtype), axis, blocks)


def unfit(blocked: bool, shape: Shape, blocks: Blocks) -> str:
    """Description of the shapes that fit the layout, if ``shape`` does not fit; "" if it does.

    blocked : True for a layout of blocks: the description then asks for whole blocks.
    """
    divides = blocks is None or all(n % b == 0 for n, b in zip(shape[-2:], blocks, strict=False))
    if len(shape) >= 2 and divides:
        return ""
    return "a matrix, or a batch of them" + (", of whole blocks" if blocked else "")


def _register(name: str, kind: type[Sparse]) -> None:
    """Register the compressed layout ``name``, with values of type ``kind``."""
    axis, blocked = next(key for key, layout in NAMES.items() if layout == name)
    register(
        Layout(
            name=name,
            kind=kind,
            to_strided=to_strided,
            check=check,
            support=lambda value: Stored(value.pattern),
            stored=stored,
            buffers=lambda value: (value.values,),
            structure=lambda value: value.pattern.arrays,
            rebuild=lambda value, buffers: kind(value.pattern, buffers[0]),
            from_coo=ByPattern(name, partial(arranged, axis), partial(carried, axis)),
            dense_axes=True,
            unfit=partial(unfit, blocked),
            blocked=blocked,
            priority=21,
        )
    )


for _name, _kind in KINDS.items():
    _register(_name, _kind)
