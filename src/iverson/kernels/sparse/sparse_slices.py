"""Slices of CSR and CSC matrices: ranges of lines and boxes, cut out, put back and joined.

No entry outside of the slice is read. Slices over dense axes, which are moved as a whole, are covered too.
All other indexing goes by coordinates, in `sparse_moves`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard
from weakref import ref

import numpy as np

from iverson.core.shapes import Shape
from iverson.kernels.index_keys import Key
from iverson.layouts import CompressedPattern, CooPattern, Pattern, Sparse, counting_sorts
from iverson.layouts.pattern import index_dtype
from iverson.layouts.pattern_parts import Ends, is_line_of, joined, line, line_put_back, part, put_back
from iverson.layouts.placement import Placement, placements
from iverson.layouts.weak_tables import StillUsed

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Array = np.ndarray[Any, Any]


def plain(x: Sparse) -> bool:
    """True if x is one matrix in CSR or CSC whose entries are numbers, not slices."""
    return is_plain(x.pattern) and not x.dense_shape


def is_plain(pattern: Pattern) -> TypeGuard[CompressedPattern]:
    """True if a pattern is that of one matrix in CSR or CSC."""
    return type(pattern) is CompressedPattern and pattern.blocks is None and pattern.ndim == 2


def ends_of(key: Key) -> Ends | None:
    """Bounds of rows and of columns that a key reads, if it is two slices of step 1; else None."""
    if len(key) != 2:
        return None
    rows, columns = key
    if type(rows) is not slice or type(columns) is not slice or not rows.step == columns.step == 1:
        return None
    return (rows.start, rows.stop), (columns.start, columns.stop)


def _of_sparse_axes(key: Key, dense: Shape) -> Key | None:
    """Part of a key for the sparse axes, if the key reads all of the dense axes after them; else None."""
    lead = len(key) - len(dense)
    is_full = all(a == slice(0, n, 1) for a, n in zip(key[lead:], dense, strict=True))
    return key[:lead] if is_full else None


def cut(x: Sparse, key: Key) -> Any:
    """Value of ``x[key]``, if the key reads a box or one whole line; else NotImplemented."""
    sparse_key = _of_sparse_axes(key, x.dense_shape)
    if sparse_key is None or not is_plain(x.pattern):
        return NotImplemented
    key, pattern = sparse_key, x.pattern
    ends = ends_of(key)
    if ends is not None:
        if ends == ((0, x.shape[0]), (0, x.shape[1])):
            return x
        return part(x, ends)
    k = _line(key, pattern)
    return NotImplemented if k is None else line(x, k)


def _line(key: Key, pattern: CompressedPattern) -> int | None:
    """Number of the line that a key reads, if it reads the whole of a single line; else None."""
    if len(key) != 2 or key[1 - pattern.axis] != slice(0, pattern.shape[1 - pattern.axis], 1):
        return None
    k = key[pattern.axis]
    return k if type(k) is int else None


def embed(g: Sparse, key: Key, shape: Shape) -> Any:
    """Value of shape ``shape`` with g at the key: the adjoint of `cut`.

    The result is NotImplemented if the key is not that of a box, nor that of the line that g was cut from.
    """
    sparse_key = _of_sparse_axes(key, g.dense_shape)
    if sparse_key is None:
        return NotImplemented
    key, shape = sparse_key, shape[: len(shape) - len(g.dense_shape)]
    matrix = is_line_of(g.pattern)
    if matrix is not None and matrix.shape == shape and (k := _line(key, matrix)) is not None:
        return line_put_back(g.pattern, k, matrix).value(g.values)
    if not is_plain(g.pattern):
        return NotImplemented
    ends = ends_of(key) if len(shape) == 2 else None
    if ends is None:
        return NotImplemented
    return put_back(g.pattern, ends, shape).value(g.values)


def concat(values: list[Sparse], axis: int, shape: Shape, dtype: DTypeLike) -> Any:
    """Concatenation of matrices that all are in CSR, or all in CSC, along ``axis``; else NotImplemented.

    It is NotImplemented too if a pattern occurs twice.
    """
    patterns = [x.pattern for x in values]
    if (
        not all(map(is_plain, patterns))
        or axis > 1
        or len({x.dense_shape for x in values}) > 1
        or len({p.axis for p in patterns}) > 1
        or len(set(map(id, patterns))) < len(patterns)
    ):
        return NotImplemented
    dense = values[0].dense_shape
    pattern, at = joined(patterns, axis, shape[:2])
    entries = np.empty((pattern.count, *dense), dtype)
    for x, where in zip(values, at, strict=True):
        entries[where] = x.values
    return pattern.value(entries)


def lines(x: Sparse, chosen: Array, axis: int) -> Any:
    """Rows (axis 0) or columns (axis 1) of x with the numbers ``chosen``, as the first axis of the result.

    Equal numbers give the same pattern while it lives.
    """
    pattern: Any = x.pattern
    key = axis, chosen.size, hash(chosen.tobytes())
    table: StillUsed[Any] = pattern.once("chosen lines", StillUsed)
    across = axis != pattern.axis
    cached = table.get(key)
    if cached is not None:
        result = cached.permuted((1, 0)) if across else cached
        _, numbers, _, at = result.lines_of
        if np.array_equal(numbers, chosen):
            return result.value(counting_sorts.taken(x.values, at()))
    if across:
        n, m = pattern.grid[pattern.axis], pattern.grid[1 - pattern.axis]
        starts, indices, where = counting_sorts.chosen_across(n, m, pattern.indptr, pattern.indices, chosen)
        values, at = counting_sorts.taken(x.values, where), lambda: where
    else:
        take = partial(counting_sorts.chosen_lines, chosen=chosen)
        starts, indices, values, at = counting_sorts.carried(take, pattern.indptr, pattern.indices, x.values)
    result = CompressedPattern((chosen.size, x.shape[1 - axis]), starts, indices, int(across))
    result.lines_of = ref(pattern), chosen, axis, at
    table[key] = result.permuted((1, 0)) if across else result  # what indexing makes of it
    return result.value(values)


def put_lines(g: Sparse, chosen: Array, axis: int, shape: Shape, held: bool = False) -> Any:
    """Adjoint of `lines`: the entries of g, added at the positions from which they come.

    The pattern of g is one that `lines` made. The result is on the pattern that `lines` read or, if ``held``
    is True, on the part of it that was read. It is NotImplemented for all other patterns and arguments.

    chosen, axis : the arguments of `lines`.
    shape : of the matrix that `lines` read.
    """
    if g.pattern.lines_of is None:
        return NotImplemented
    reference, numbers, of, at = g.pattern.lines_of
    source = reference()
    if (
        source is None
        or source.shape + g.dense_shape != shape
        or of != axis
        or not np.array_equal(numbers, chosen)
    ):
        return NotImplemented
    entries = counting_sorts.added_rows(source.count, at(), g.entries)
    if not held:
        return source.value(entries)
    positions = g.pattern.once(
        "taken from", lambda: np.flatnonzero(np.bincount(at(), minlength=source.count))
    )
    return source.part(positions).value(entries[positions])


def diagonal(x: Sparse, offset: int) -> Any:
    """Stored entries of a diagonal as a COO vector; their positions are kept on the pattern."""
    pattern, at = x.pattern.once(("diagonal", offset), lambda: _diagonal(x.pattern, offset))
    return pattern.value(x.values[at])


def _diagonal(pattern: CompressedPattern, offset: int) -> tuple[CooPattern, Array]:
    """Pattern of a diagonal, by a search in each line, and the positions of its entries in ``pattern``."""
    n, m = pattern.grid[pattern.axis], pattern.grid[1 - pattern.axis]
    at = counting_sorts.diagonal(n, m, pattern.indptr, pattern.indices, -offset if pattern.axis else offset)
    indices = (at != 0).nonzero()[0]  # of flags, many times as fast as of numbers
    result = CooPattern(at.shape, indices.astype(pattern.index_dtype)[None], True)
    places = at[indices] - np.int64(1)
    result._facts["diagonal of"] = ref(pattern), offset, places
    return result, places


def embedded(pattern: Pattern, offset: int, shape: Shape) -> CooPattern:
    """Pattern of matrices of shape ``shape`` that have the last axis of ``pattern`` on a diagonal.

    It is kept on ``pattern``.
    """
    result: CooPattern = pattern.once(("embedded", offset, shape), lambda: _embedded(pattern, offset, shape))
    return result


def _embedded(pattern: Pattern, offset: int, shape: Shape) -> CooPattern:
    dtype = np.result_type(pattern.index_dtype, index_dtype(*shape))
    *lead, along = pattern.coordinates.astype(dtype, copy=False)
    ends = [along + max(-offset, 0), along + max(offset, 0)]
    result = CooPattern(shape, np.stack([*lead, *ends]), pattern.distinct)
    of, at, places = pattern._facts.get("diagonal of", (lambda: None, 0, None))
    source = of()
    if source is not None and at == offset and source.shape == shape:
        placements(source)[result] = Placement(None, lambda: places, put=True)
    return result


def entries_at(x: Sparse, at: list[Array]) -> Array:
    """Entries of x at pairs of a row and a column; 0 if not stored.

    at : the array of rows and that of columns.
    """
    pattern = x.pattern
    n, m = x.shape if pattern.axis == 0 else x.shape[::-1]
    lines = at if pattern.axis == 0 else at[::-1]
    return counting_sorts.samples((n, m), pattern.indptr, pattern.indices, x.values, lines)
