"""Counting sorts, merges and slices of compressed matrices: linear passes over their lines.

They are the loops that SciPy's own sparse matrices run, called on plain arrays (`docs/decisions/0026`).
Indices of a call have one dtype; positions of entries are int64, by which NumPy gathers vectors fastest.
Nothing here knows of patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, wraps
from math import prod
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from iverson.core.protocols import DType
from iverson.core.shapes import Shape

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Array = np.ndarray[Any, Any]

P = ParamSpec("P")
R = TypeVar("R")

#: Of a compressed matrix: where lines start, and the indices of the entries.
Lines = tuple[Array, Array]

#: How many times the entries the lines to count may be, before comparing entries takes fewer steps: a sort
#: of N entries passes over them some log2(N) / 2 times, a counting sort twice, and once over the counts.
LINES_PER_ENTRY = 4


@cache
def loops() -> Any:
    """SciPy's module of loops over sparse matrices."""
    from scipy.sparse import _sparsetools

    return _sparsetools


def _in_single(of: Callable[P, R]) -> Callable[P, R]:
    """Decorator for a function of entries: it computes in float32 on entries in half precision.

    The loops have no half precision. Arrays in half precision are cast to float32 before the call, and arrays
    in float32 among the results are cast back.
    """

    @wraps(of)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        half = next((a.dtype for a in args if type(a) is np.ndarray and a.dtype.char in "eE"), None)
        return of(*args, **kwargs) if half is None else _narrowed(of(*_wide(args, half), **kwargs), half)

    return call


def _wide(args: Iterable[Any], half: DType) -> Any:
    """Arguments with the arrays of dtype ``half`` cast to float32."""
    return [a.astype(np.float32) if getattr(a, "dtype", None) == half else a for a in args]


def _narrowed(result: Any, half: DType) -> Any:
    """Result, or tuple of results, with the arrays of dtype float32 cast to ``half``."""
    if type(result) is tuple:
        return tuple([_narrowed(x, half) for x in result])
    return result.astype(half) if getattr(result, "dtype", None) == np.float32 else result


def taken(entries: Array, at: Array | slice) -> Array:
    """Entries at the positions ``at``, along the first axis.

    Slices go faster through ``take``, numbers through indexing. An array that is not contiguous in memory is
    indexed too: ``take`` would first copy all of it.
    """
    result: Array
    if isinstance(at, slice) or entries.ndim == 1 or not entries.flags.c_contiguous:
        result = entries[at]
    else:
        result = entries.take(at, axis=0)
    return result


def worth_counting(count: int, *extents: int) -> bool:
    """True if a counting sort of ``count`` entries by these extents is less work than comparing entries."""
    return sum(extents) <= LINES_PER_ENTRY * count + 1024


def in_order(keys: Array) -> tuple[Array, Array]:
    """Sort nonnegative keys: return the increasing keys, and the position of each in ``keys``.

    Equal keys keep their order. Each key is sorted as one number together with its position, if both fit into
    63 bits: NumPy sorts numbers in vectors, but positions by comparing two at a time, which takes some ten
    times as long.
    """
    bits = keys.size.bit_length()
    if not keys.size or int(keys.max()) >> (63 - bits):
        order = np.argsort(keys, kind="stable")
        return keys[order], order
    combined = np.left_shift(keys, bits, dtype=np.int64)
    combined |= np.arange(keys.size)
    combined.sort()
    order = combined & ((1 << bits) - 1)
    combined >>= bits
    return combined, order


#: A pass that moves entries with their indices: ``take(indptr, indices, entries)``.
Pass = Callable[..., tuple[Array, Array, Array]]


@_in_single
def carried(
    take: Pass, indptr: Array, indices: Array, entries: Array
) -> tuple[Array, Array, Array, Callable[[], Array]]:
    """New starts, indices and entries after the pass ``take``, and a function that returns old positions.

    The function gives the position that each new entry had before the pass, and computes these positions at
    most once. If each entry is a slice (``entries`` has more than one axis), the pass moves positions instead
    of entries, and the slices are then taken at the moved positions.
    """
    if entries.ndim > 1:
        starts, along, at = take(indptr, indices, np.arange(indices.size))
        return starts, along, entries.take(at, axis=0), lambda: at
    arrays = take(indptr, indices, np.ascontiguousarray(entries))
    return *arrays, cache(lambda: take(indptr, indices, np.arange(indices.size))[2])


def turned(n: int, m: int, indptr: Array, indices: Array, entries: Array) -> tuple[Array, Array, Array]:
    """Convert ``n`` lines with indices below ``m`` to ``m`` lines across them (CSR to CSC).

    Returns the starts of the new lines, the indices in them and the entries.
    """
    starts, along, out = np.empty(m + 1, indptr.dtype), np.empty_like(indices), np.empty_like(entries)
    loops().csr_tocsc(n, m, indptr, indices, entries, starts, along, out)
    return starts, along, out


def in_blocks(
    shape: Shape, blocks: tuple[int, int], indptr: Array, indices: Array, entries: Array
) -> tuple[Array, Array, Array]:
    """Convert a matrix in CSR to BSR: starts of the rows of blocks, indices of the blocks, and the blocks.

    Only blocks that contain a stored entry are stored; the other numbers in such a block are 0.
    """
    (n, m), (r, c) = shape, blocks
    count = loops().csr_count_blocks(n, m, r, c, indptr, indices)
    starts, along = np.empty(n // r + 1, indptr.dtype), np.empty(count, indices.dtype)
    out = np.zeros((count, r, c), entries.dtype)
    rows = indptr, indices, np.ascontiguousarray(entries)
    loops().csr_tobsr(n, m, r, c, *rows, starts, along, out.ravel())
    loops().bsr_sort_indices(n // r, m // c, r, c, starts, along, out.ravel())
    return starts, along, out


def lines_of(indptr: Array, out: Array) -> Array:
    """Write the line of each entry to ``out``, and return ``out``.

    indptr : the start of each line.
    """
    loops().expandptr(indptr.size - 1, indptr, out)
    return out


def compressed(n: int, m: int, across: Array, along: Array) -> tuple[Array, Array, Array]:
    """Sort entries into ``n`` lines with indices below ``m``: starts, indices, and old positions.

    Two counting sorts, by ``along`` and then by ``across``: repeats keep their order.

    across : the line of each entry.
    along : the index of each entry in its line.
    """
    starts, lines = np.empty(m + 1, across.dtype), np.empty_like(across)
    order = np.empty(across.size, np.int64)
    across, along = np.ascontiguousarray(across), np.ascontiguousarray(along)
    loops().coo_tocsr(m, n, across.size, along, across, np.arange(across.size), starts, lines, order)
    result = np.empty(n + 1, across.dtype), np.empty_like(across), np.empty_like(order)
    loops().csr_tocsc(m, n, starts, lines, order, *result)
    return result


def starts_of(lines: Array, count: int) -> Array:
    """The start of each of ``count`` lines, then the number of entries: ``count + 1`` numbers.

    lines : the line of each entry, in increasing order.
    """
    starts = np.zeros(count + 1, lines.dtype)
    np.cumsum(np.bincount(lines, minlength=count), out=starts[1:])
    return starts


def starts_at(lines: Array, changed: Array, count: int) -> Array:
    """Same result as `starts_of`, from the places where the line changes.

    lines : the line of each entry, in increasing order.
    changed : a mask, one shorter than ``lines``: True where the next entry is in another line.
    """
    starts = np.zeros(count + 1, lines.dtype)
    last = np.flatnonzero(changed)
    starts[lines[last] + 1] = last + 1
    if lines.size:
        starts[int(lines[-1]) + 1 :] = lines.size
    return np.maximum.accumulate(starts, out=starts)


def merged(n: int, m: int, first: Lines, second: Lines) -> tuple[Array, Array, Array]:
    """Union of two compressed matrices: starts, indices, and a code for each entry.

    The code is 1 if only the first matrix stores the entry, 2 if only the second does, 3 if both do.

    first, second : starts and indices of n lines with indices below m, in order and none twice.
    """
    size = first[1].size + second[1].size
    starts, indices, code = (
        np.empty(n + 1, first[0].dtype),
        np.empty(size, first[1].dtype),
        np.empty(size, np.int8),
    )
    codes = np.empty(first[1].size, np.int8), np.empty(second[1].size, np.int8)
    codes[0].fill(1)
    codes[1].fill(2)
    loops().csr_plus_csr(n, m, *first, codes[0], *second, codes[1], starts, indices, code)
    count = int(starts[-1])
    # A copy where much would be held in vain.
    indices = indices[:count] if 4 * count > 3 * size else indices[:count].copy()
    return starts, indices, code[:count]


def met(n: int, m: int, first: Lines, second: Lines) -> tuple[Array, Array, Array]:
    """Intersection of two compressed matrices: starts, indices, and the position of each entry in ``first``.

    Lines of which the other matrix stores nothing are passed over.

    first, second : starts and indices of n lines with indices below m, in order and none twice.
    """
    size = min(first[1].size, second[1].size)
    # Half the memory to move, wherever it holds the positions.
    dtype = np.int32 if first[1].size < 2**31 - 1 else np.int64
    result = np.empty(n + 1, first[0].dtype), np.empty(size, first[1].dtype), np.empty(size, dtype)
    # Entries of a product: SciPy leaves out those that are 0.
    operands = (*first, np.arange(1, first[1].size + 1, dtype=dtype), *second, np.ones(second[1].size, dtype))
    loops().csr_elmul_csr(n, m, *operands, *result)
    starts, indices, at = result
    count = int(starts[-1])
    return starts, indices[:count].copy(), np.subtract(at[:count], np.int64(1))


def box(
    n: int, m: int, indptr: Array, indices: Array, entries: Array, ends: tuple[int, int, int, int]
) -> tuple[Array, Array, Array]:
    """Cut a box out of ``n`` lines with indices below ``m``: starts, indices and entries of the box.

    ends : first line, end of the lines, first index, end of the indices (both ends are exclusive). Starts and
        indices of the result are counted from the corner of the box.
    """
    result: tuple[Array, Array, Array] = loops().get_csr_submatrix(n, m, indptr, indices, entries, *ends)
    return result


@lru_cache(maxsize=4)
def numbered(count: int, dtype: DTypeLike) -> Array:
    """Read-only array of 1, 2, ... ``count``, for loops that move the positions of entries.

    The last few arrays are cached, because most calls are of few sizes.
    """
    numbers = np.arange(1, count + 1, dtype=dtype)
    numbers.flags.writeable = False
    return numbers


@_in_single
def spread(shape: tuple[int, int], indptr: Array, indices: Array, values: Array) -> Array:
    """Dense matrix of the entries of compressed lines; entries stored twice are summed.

    values : one for each entry.
    """
    out = np.zeros(shape, values.dtype)
    loops().csr_todense(*shape, indptr, indices, np.ascontiguousarray(values), out)
    return out


def chosen_lines(indptr: Array, indices: Array, entries: Array, chosen: Array) -> tuple[Array, Array, Array]:
    """Lines with the numbers ``chosen``, in this order: their starts, indices and entries."""
    starts = np.zeros(chosen.size + 1, indptr.dtype)
    np.cumsum((indptr[1:] - indptr[:-1])[chosen], out=starts[1:])
    along, out = np.empty(starts[-1], indices.dtype), np.empty(starts[-1], entries.dtype)
    lines = chosen.astype(indices.dtype, copy=False)
    loops().csr_row_index(chosen.size, lines, indptr, indices, entries, along, out)
    return starts, along, out


def chosen_across(n: int, m: int, indptr: Array, indices: Array, chosen: Array) -> tuple[Array, Array, Array]:
    """Keep the entries of ``n`` lines at the indices ``chosen`` (below ``m``), renumbered in this order.

    Returns starts, indices and, for each entry, its position before. The caller then takes the entries at
    these positions, which costs less than the pass and the sort.
    """
    starts, ends = np.empty_like(indptr), np.zeros(m, indptr.dtype)
    selection = chosen.astype(indices.dtype)
    loops().csr_column_index1(selection.size, selection, n, m, indptr, indices, ends, starts)
    along, at = np.empty(starts[-1], indices.dtype), np.empty(starts[-1], np.int64)
    order = in_order(chosen)[1].astype(indices.dtype, copy=False)
    loops().csr_column_index2(order, ends, indices.size, indices, numbered(indices.size, at.dtype), along, at)
    if bool((selection[1:] < selection[:-1]).any()):
        loops().csr_sort_indices(n, starts, along, at)
    at -= 1
    return starts, along, at


@_in_single
def samples(
    shape: tuple[int, int], indptr: Array, indices: Array, values: Array, at: Sequence[Array]
) -> Array:
    """Values of the entries at lines ``at[0]`` and indices ``at[1]``; 0 where none is stored."""
    result = np.zeros(at[0].size, values.dtype)
    lines, along = (np.ascontiguousarray(a, indptr.dtype) for a in at)
    arguments = indptr, indices, np.ascontiguousarray(values), lines.size, lines, along, result
    loops().csr_sample_values(*shape, *arguments)
    return result


def diagonal(n: int, m: int, indptr: Array, indices: Array, offset: int) -> Array:
    """Position from 1 of each entry on a diagonal of ``n`` lines with indices below ``m``; 0 if not stored.

    offset : number of the diagonal, as in ``numpy.diagonal``.
    """
    dtype = np.int32 if indices.size < 2**31 - 1 else np.int64
    positions = np.zeros(max(min(n + min(offset, 0), m - max(offset, 0)), 0), dtype)
    loops().csr_diagonal(offset, n, m, indptr, indices, numbered(indices.size, dtype), positions)
    return positions


@_in_single
def line_sums(n: int, m: int, indptr: Array, indices: Array, values: Array, *, across: bool) -> Array:
    """Sum of the entries of each of ``n`` lines; with ``across``, sum at each of ``m`` indices.

    Sums in single precision are accumulated in double precision.
    """
    of = values.astype(np.float64) if values.dtype == np.float32 else np.ascontiguousarray(values)
    out = np.zeros(m if across else n, of.dtype)
    if across:
        loops().csc_matvec(m, n, indptr, indices, of, np.ones(n, of.dtype), out)
    else:
        loops().csr_matvec(n, m, indptr, indices, of, np.ones(m, of.dtype), out)
    return out.astype(values.dtype, copy=False)


@_in_single
def sums_of_runs(entries: Array, order: Array | slice, starts: Array) -> Array:
    """Sum of each run of consecutive entries, in the order ``order``; entries may be slices.

    A matrix of ones, a row for each run, times the entries: they are read where they are. (``add.reduceat``
    takes some fifty times as long for slices, and needs a copy of them in order.)

    order : positions of the entries, in the order in which they are summed.
    starts : the place in ``order`` at which each run begins.
    """
    count = entries.shape[0]
    if starts.size == count:
        return entries[order]
    flat = np.ascontiguousarray(entries).reshape(count, -1)
    width = flat.shape[1]
    out = np.zeros((starts.size, width), entries.dtype)
    at = np.arange(count)[order] if isinstance(order, slice) else order
    runs = np.append(starts, count), at, np.ones(count, entries.dtype)
    if width == 1:
        loops().csr_matvec(starts.size, count, *runs, flat.ravel(), out.ravel())
    elif width:
        loops().csr_matvecs(starts.size, count, width, *runs, flat.ravel(), out.ravel())
    return out.reshape(starts.size, *entries.shape[1:])


@_in_single
def added_rows(count: int, rows: Array, entries: Array) -> Array:
    """Array of ``count`` rows, with entry k added to row ``rows[k]``; entries are numbers or slices.

    The transpose of `sums_of_runs`: a matrix with a 1 in each column. (``add.at`` takes far longer.)
    """
    width = prod(entries.shape[1:])
    out = np.zeros((count, width), entries.dtype)
    at = np.arange(rows.size + 1), rows.astype(np.int64, copy=False)
    operands = *at, np.ones(rows.size, out.dtype), np.ascontiguousarray(entries).ravel(), out.ravel()
    if width == 1:
        loops().csc_matvec(count, rows.size, *operands)
    elif width:
        loops().csc_matvecs(count, rows.size, width, *operands)
    return out.reshape(count, *entries.shape[1:])


def places(n: int, m: int, indptr: Array, indices: Array, lines: Array, along: Array) -> Array:
    """Position of the entry at line ``lines[k]`` and index ``along[k]``, for each k; -1 where none is stored.

    The indices within each line must be in order.
    """
    positions = np.empty(lines.size, indptr.dtype)
    queries = lines.astype(indptr.dtype, copy=False), along.astype(indptr.dtype, copy=False)
    loops().csr_sample_offsets(n, m, indptr, indices, lines.size, *queries, positions)
    return positions.astype(np.int64)
