"""Batches of sparse matrices as one sparse matrix with the same entries in the same order, and back.

The pattern of all entries of stored slices is here too.
"""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from iverson.core.shapes import Shape
from iverson.layouts import conversion
from iverson.layouts.compressed import CompressedPattern
from iverson.layouts.coo import CooPattern
from iverson.layouts.pattern import Array, Pattern, addresses, index_dtype
from iverson.layouts.pattern_symbols import follows


def diagonal(pattern: Pattern) -> Pattern:
    """The matrices of a batch along the diagonal of one, of shape (batch * rows, batch * columns)."""
    if pattern.ndim == 2:
        return pattern
    matrix: Pattern = pattern.once("diagonal", lambda: _diagonal(pattern))
    return matrix


def stacked(pattern: Pattern) -> Pattern:
    """The matrices of a batch below each other, of shape (batch * rows, columns)."""
    if pattern.ndim == 2:
        return pattern
    matrix: Pattern = pattern.once("stacked", lambda: _stacked(pattern))
    return matrix


def from_diagonal(pattern: CompressedPattern, shape: Shape) -> CompressedPattern:
    """The batch, of the given shape, of the matrices on the diagonal of one in CSR: all that it stores."""
    matrix = pattern.lines // max(shape[-2], 1)
    return CompressedPattern(shape, pattern.indptr, pattern.indices - matrix * shape[-1], 0)


def of_all(pattern: Pattern, size: int) -> Pattern:
    """A pattern for each of some examples, along a new first axis: in COO, example after example."""
    batch: Pattern = pattern.once(("of_all", size), lambda: _of_all(pattern, size))
    return batch


def _of_all(pattern: Pattern, size: int) -> Pattern:
    coordinates = pattern.coordinates
    dtype = index_dtype(size, *pattern.shape)
    indices = np.empty((1 + len(coordinates), size, pattern.count), dtype)
    indices[0] = np.arange(size, dtype=dtype)[:, None]
    indices[1:] = coordinates[:, None]
    return CooPattern((size, *pattern.shape), indices.reshape(len(indices), -1), pattern.distinct or None)


def each(pattern: Pattern) -> Pattern | None:
    """The pattern that all examples along the first axis are stored on, in the layout of theirs where that
    suits it; None where they differ, or entries are stored twice."""
    result: tuple[Pattern | None] = pattern.once("each", lambda: (_each(pattern),))
    return result[0]


def _each(pattern: Pattern) -> Pattern | None:
    size, *shape = pattern.shape
    if not shape or not size or pattern.count % size or not pattern.distinct:
        return None
    keys = pattern.sorted[0].reshape(size, -1) - np.arange(size)[:, None] * prod(shape)
    if bool((keys != keys[0]).any()) or bool((keys[0] < 0).any()) or bool((keys[0] >= prod(shape)).any()):
        return None
    example = CooPattern.of_keys(keys[0], tuple(shape), pattern.index_dtype)
    return conversion.like(example.value(np.zeros(example.count, bool)), pattern).pattern  # type: ignore[no-any-return]


def entries_of_slices(pattern: Pattern, dense: Shape) -> Pattern:
    """The pattern of all entries, slice after slice, of slices of these extents that a pattern stores."""
    if not dense:
        return pattern
    result = follows(("entries of slices", dense), partial(_entries_of_slices, dense=dense), pattern)
    assert result is not None
    return result


def _entries_of_slices(pattern: Pattern, dense: Shape) -> Pattern:
    def make() -> Pattern:
        value = pattern.value(np.ones((pattern.count, *dense), bool))
        return conversion.with_sparse_axes(value, len(value.shape)).pattern  # type: ignore[no-any-return]

    result: Pattern = pattern.once(("entries of slices", dense), make)
    return result


def in_layout(pattern: Pattern, like: Pattern) -> tuple[Pattern, Array | None]:
    """A COO pattern in the layout of another, if that suits it, and the order its entries have there."""
    value = conversion.like(pattern.value(np.arange(pattern.count)), like)
    return value.pattern, None if value.pattern is pattern else value.entries


def _diagonal(pattern: Pattern) -> Pattern:
    *batch, n, m = pattern.shape
    count = prod(batch)
    shape = (count * n, count * m)
    dtype = np.result_type(pattern.index_dtype, index_dtype(*shape))
    if isinstance(pattern, CompressedPattern):
        along = pattern.grid[1 - pattern.axis]
        matrix = pattern.lines.astype(dtype) // max(pattern.grid[pattern.axis], 1)
        starts = pattern.indptr.astype(dtype, copy=False)
        return CompressedPattern(
            shape, starts, pattern.indices + matrix * along, pattern.axis, pattern.blocksize
        )
    matrix, rows, columns = _numbered(pattern)
    return CooPattern(
        shape, np.stack([matrix * n + rows, matrix * m + columns]).astype(dtype), _known(pattern)
    )


def _stacked(pattern: Pattern) -> Pattern:
    *batch, n, m = pattern.shape
    shape = (prod(batch) * n, m)
    if isinstance(pattern, CompressedPattern) and pattern.axis == 0:
        return CompressedPattern(shape, pattern.indptr, pattern.indices, 0, pattern.blocksize)
    dtype = np.result_type(pattern.index_dtype, index_dtype(*shape))
    matrix, rows, columns = _numbered(pattern)
    return CooPattern(shape, np.stack([matrix * n + rows, columns]).astype(dtype), _known(pattern))


def _numbered(pattern: Pattern) -> tuple[Array, Array, Array]:
    """The matrix, row and column of each entry."""
    coordinates = pattern.coordinates
    return addresses(coordinates[:-2], pattern.shape[:-2]), coordinates[-2], coordinates[-1]


def _known(pattern: Pattern) -> bool | None:
    return pattern.distinct or None
