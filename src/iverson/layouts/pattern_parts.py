"""Parts of patterns of matrices: boxes and lines, cut out, put back and joined.

A part remembers where its entries are in the whole (`placement.placements`), so that values of the part are
values of the whole, gathered once. The same part of a pattern is the same object for as long as it lives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any
from weakref import ref

import numpy as np

from iverson.core.shapes import Shape
from iverson.layouts import counting_sorts
from iverson.layouts.compressed import CompressedPattern
from iverson.layouts.coo import CooPattern
from iverson.layouts.pattern import Array, Pattern, Sparse
from iverson.layouts.placement import Placement, placements
from iverson.layouts.weak_tables import StillUsed

#: Where a box lies along rows and columns: start and stop of each.
Ends = tuple[tuple[int, int], tuple[int, int]]


def parts(pattern: Pattern) -> StillUsed[Any]:
    """The boxes, by their ends, and lines, by their numbers, of a pattern that are still in use."""
    table: StillUsed[Any] = pattern.once("parts", StillUsed)
    return table


def part(x: Sparse, ends: Ends) -> Any:
    """The entries of a matrix in a box, of the box's shape; on the same pattern while that lives."""
    cached = parts(x.pattern).get(ends)
    if cached is not None:
        return cached.value(placements(cached)[x.pattern].read(x.values, cached.count))
    piece, values, at = _cut(x.pattern, ends, x.values)
    belongs(piece, x.pattern, ends, at)
    return piece.value(values)


def line(x: Sparse, k: int) -> Any:
    """A whole line of a matrix, as a vector; on the same pattern while that lives."""
    pattern: Any = x.pattern
    first, last = pattern.indptr[k:][:2].tolist()
    piece = parts(pattern).get(k)
    if piece is None:
        indices = pattern.indices[None, first:last]
        piece = parts(pattern)[k] = CooPattern((x.shape[1 - pattern.axis],), indices, True)
        piece._facts["line of"] = ref(pattern)
    return piece.value(x.values[first:last])


def is_line_of(piece: Pattern) -> CompressedPattern | None:
    """The matrix that a pattern was cut out of as a line, while it lives."""
    reference: Callable[[], CompressedPattern | None] | None = piece._facts.get("line of")
    return None if reference is None else reference()


def line_put_back(piece: Pattern, k: int, whole: CompressedPattern) -> CooPattern:
    """A matrix with line ``k`` of ``whole`` alone; kept on the pattern of the line."""
    matrix: CooPattern = piece.once(("put back", k), lambda: _line_put_back(piece, k, whole))
    if parts(whole).get(k) is piece and matrix not in placements(whole):
        first, last = whole.indptr[k:][:2].tolist()
        at = partial(_itself, slice(first, last))
        placements(whole)[matrix] = Placement(None, at, put=True)
        placements(matrix)[whole] = Placement(None, at, put=False)
    return matrix


def _line_put_back(piece: Pattern, k: int, whole: CompressedPattern) -> CooPattern:
    indices = np.empty((2, piece.count), whole.index_dtype)
    indices[whole.axis], indices[1 - whole.axis] = k, piece.coordinates[0]
    return CooPattern(whole.shape, indices, True)


def belongs(piece: CompressedPattern, whole: Pattern, ends: Ends, at: Callable[[], Array | slice]) -> None:
    """Note that a pattern is the box of another between ``ends``: its entries are at positions ``at()``."""
    parts(whole)[ends] = piece
    placements(piece)[whole] = Placement(None, at, put=False)
    placements(whole)[piece] = Placement(None, at, put=True)
    piece._facts["whole"] = ref(whole), ends


def _cut(
    pattern: CompressedPattern, ends: Ends, values: Array
) -> tuple[CompressedPattern, Array, Callable[[], Array | slice]]:
    """The pattern of a box, the values there, and a function that gives their positions in the whole."""
    (first, last), (low, high) = ends if pattern.axis == 0 else ends[::-1]
    (row_start, row_stop), (column_start, column_stop) = ends
    shape = row_stop - row_start, column_stop - column_start
    n, m = pattern.grid[pattern.axis], pattern.grid[1 - pattern.axis]
    if (low, high) == (0, m):
        starts = pattern.indptr[first : last + 1]
        at = slice(int(starts[0]), int(starts[-1]))
        result = CompressedPattern(shape, starts - starts[0], pattern.indices[at], pattern.axis)
        return result, values[at], lambda: at
    take = partial(counting_sorts.box, n, m, ends=(first, last, low, high))
    starts, indices, entries, positions = counting_sorts.carried(
        take, pattern.indptr, pattern.indices, values
    )
    return CompressedPattern(shape, starts, indices, pattern.axis), entries, positions


def put_back(piece: CompressedPattern, ends: Ends, shape: Shape) -> CompressedPattern:
    """A pattern of a larger shape that stores a box's entries where the box lies; kept on that of the box."""
    result: CompressedPattern = piece.once(("put back", ends, shape), lambda: _put_back(piece, ends, shape))
    reference, whole_ends = piece._facts.get("whole", (lambda: None, None))
    source = reference()
    if (
        whole_ends == ends
        and source is not None
        and source.shape == shape
        and result not in placements(source)
    ):
        at = placements(source)[piece].at
        placements(source)[result] = Placement(None, at, put=True)
        placements(result)[source] = Placement(None, at, put=False)
    return result


def _put_back(piece: CompressedPattern, ends: Ends, shape: Shape) -> CompressedPattern:
    (first, last), (low, _) = ends if piece.axis == 0 else ends[::-1]
    n = shape[piece.axis]
    starts = np.empty(n + 1, piece.indptr.dtype)
    starts[:first], starts[first : last + 1], starts[last + 1 :] = 0, piece.indptr, piece.indptr[-1]
    return CompressedPattern(shape, starts, piece.indices + low if low else piece.indices, piece.axis)


def joined(patterns: list[CompressedPattern], axis: int, shape: Shape) -> tuple[CompressedPattern, list[Any]]:
    """Matrices beside each other along an axis, and where each one's entries are: positions or slices.

    Kept on the first for as long as the others live, so that a cotangent is on the pattern of the result.
    """
    first, *remaining = patterns
    table: dict[Any, Any] = first.once(("joined", axis), dict)
    key = tuple(map(id, remaining))
    cached = table.get(key)
    if cached is not None and all(r() is p for r, p in zip(cached[0], remaining, strict=True)):
        result: tuple[CompressedPattern, list[Any]] = cached[1]
        return result
    for stale in [k for k, (refs, _) in list(table.items()) if any(r() is None for r in refs)]:
        del table[stale]
    joint = _joined(patterns, axis, shape)
    table[key] = tuple(map(ref, remaining)), joint
    return joint


def _itself(at: Array | slice) -> Array | slice:
    return at


def _joined(
    patterns: list[CompressedPattern], axis: int, shape: Shape
) -> tuple[CompressedPattern, list[Any]]:
    offsets = np.cumsum([0, *(p.shape[axis] for p in patterns)]).tolist()
    across = patterns[0].axis
    dtype = np.result_type(*(p.index_dtype for p in patterns))
    if axis == across:
        counts = np.cumsum([0, *(p.count for p in patterns)]).tolist()
        line_starts = [p.indptr[k > 0 :].astype(dtype) + counts[k] for k, p in enumerate(patterns)]
        result = CompressedPattern(
            shape,
            np.concatenate(line_starts, dtype=dtype),
            np.concatenate([p.indices for p in patterns], dtype=dtype),
            across,
        )
        at: list[Any] = [slice(a, b) for a, b in pairwise(counts)]
    else:
        starts = np.sum([p.indptr for p in patterns], axis=0, dtype=dtype)
        indices = np.empty(int(starts[-1]), dtype)
        before = starts[:-1].astype(np.int64)
        at = []
        for p, offset in zip(patterns, offsets, strict=False):
            lengths = np.diff(p.indptr)
            at.append(np.repeat(before - p.indptr[:-1], lengths) + np.arange(p.count))
            indices[at[-1]] = p.indices + offset if offset else p.indices
            before += lengths
        result = CompressedPattern(shape, starts, indices, across)
    for p, where, first, last in zip(patterns, at, offsets, offsets[1:], strict=False):
        other = 0, shape[1 - axis]
        piece_ends = (first, last), other
        belongs(p, result, piece_ends if axis == 0 else piece_ends[::-1], partial(_itself, where))
    return result, at
