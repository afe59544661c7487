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
    """One matrix with the matrices of a batch along its diagonal, of shape (batch * rows, batch * columns).

    The entries keep their order. A pattern of a single matrix is returned as it is.
    """
    if pattern.ndim == 2:
        return pattern
    matrix: Pattern = pattern.once("diagonal", lambda: _diagonal(pattern))
    return matrix


def stacked(pattern: Pattern) -> Pattern:
    """One matrix with the matrices of a batch below each other, of shape (batch * rows, columns).

    The entries keep their order. A pattern of a single matrix is returned as it is.
    """
    if pattern.ndim == 2:
        return pattern
    matrix: Pattern = pattern.once("stacked", lambda: _stacked(pattern))
    return matrix


def from_diagonal(pattern: CompressedPattern, shape: Shape) -> CompressedPattern:
    """Batch of the matrices on the diagonal of ``pattern``: the inverse of `diagonal` for a matrix in CSR.

    All entries of ``pattern`` must be in these diagonal blocks.

    shape : of the batch, ``(*batch, rows, columns)``.
    """
    matrix = pattern.lines // max(shape[-2], 1)
    return CompressedPattern(shape, pattern.indptr, pattern.indices - matrix * shape[-1], 0)


def of_all(pattern: Pattern, size: int) -> Pattern:
    """Pattern of ``size`` examples that all store the entries of ``pattern``, along a new first axis.

    The result is in COO, one example after the other.
    """
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
    """Pattern of a single example, if all examples along the first axis of ``pattern`` store equal entries.

    The result has the layout of ``pattern`` if that suits the shape of an example, else COO. It is None if
    the examples store different entries, if an entry is stored twice, or if there are no examples.
    """
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
    """Pattern that stores each number in the slices that ``pattern`` stores: ``dense`` becomes sparse axes.

    Entries are in the order of the slices, and in row-major order within each. With no extents in ``dense``,
    the result is ``pattern``.

    dense : extents of the slices, behind the axes of ``pattern``.
    """
    if not dense:
        return pattern
    result = follows(("entries of slices", dense), partial(_entries_of_slices, dense=dense), pattern)
    assert result is not None
    return result


def _entries_of_slices(pattern: Pattern, dense: Shape) -> Pattern:
    """Result of `entries_of_slices` for a pattern that is no symbol, kept on ``pattern``."""

    def make() -> Pattern:
        value = pattern.value(np.ones((pattern.count, *dense), bool))
        return conversion.with_sparse_axes(value, len(value.shape)).pattern  # type: ignore[no-any-return]

    result: Pattern = pattern.once(("entries of slices", dense), make)
    return result


def in_layout(pattern: Pattern, like: Pattern) -> tuple[Pattern, Array | None]:
    """Convert a COO pattern to the layout of ``like``, if that suits its shape, else leave it in COO.

    Returns the pattern and, for each of its entries, the position that this entry has in the given pattern.
    Instead of the positions, the result has None if the pattern is returned unchanged.
    """
    value = conversion.like(pattern.value(np.arange(pattern.count)), like)
    return value.pattern, None if value.pattern is pattern else value.entries


def _diagonal(pattern: Pattern) -> Pattern:
    """Result of `diagonal` for a batch: lines or coordinates are moved by the offset of their matrix."""
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
    """Number in the batch, row and column of each stored entry: three arrays."""
    coordinates = pattern.coordinates
    return addresses(coordinates[:-2], pattern.shape[:-2]), coordinates[-2], coordinates[-1]


def _known(pattern: Pattern) -> bool | None:
    """True if the entries of ``pattern`` are distinct; None (not known), not False, otherwise."""
    return pattern.distinct or None
