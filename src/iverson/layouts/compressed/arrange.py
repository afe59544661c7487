"""Any pattern as a compressed one, its entries by line or in blocks; and the records of these layouts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from iverson.core.entries import Stored
from iverson.core.shapes import Shape
from iverson.layouts import counting
from iverson.layouts.compressed import KINDS, NAMES, CompressedPattern
from iverson.layouts.pattern import Array, Pattern, Sparse, addresses, check, stored, to_strided
from iverson.layouts.placement import ByPattern, Padded, Source
from iverson.layouts.registry import Blocks, Layout, register


def arranged(axis: int, pattern: Pattern, blocks: Blocks) -> tuple[Pattern, Source]:
    """The entries of a pattern by rows (axis 0) or columns (1), single or in blocks."""
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


def unfit(blocked: bool, shape: Shape, blocks: Blocks) -> str:
    """What a shape should be to be that of matrices, of whole blocks."""
    whole = blocks is None or all(n % b == 0 for n, b in zip(shape[-2:], blocks, strict=False))
    if len(shape) >= 2 and whole:
        return ""
    return "a matrix, or a batch of them" + (", of whole blocks" if blocked else "")


def _register(name: str, kind: type[Sparse]) -> None:
    axis, blocked = next(key for key, own in NAMES.items() if own == name)
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
            from_coo=ByPattern(name, partial(arranged, axis)),
            unfit=partial(unfit, blocked),
            blocked=blocked,
            priority=21,
        )
    )


for _name, _kind in KINDS.items():
    _register(_name, _kind)
