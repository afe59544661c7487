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
    """Table of the parts of ``pattern`` that are still in use.

    The key of a box is its `Ends`, that of a line its number.
    """
    table: StillUsed[Any] = pattern.once("parts", StillUsed)
    return table


def part(x: Sparse, ends: Ends) -> Any:
    """The box ``ends`` of a sparse matrix, as a sparse matrix of the shape of the box.

    The pattern of the box is kept and used again as long as something else refers to it.
    """
    cached = parts(x.pattern).get(ends)
    if cached is not None:
        return cached.value(placements(cached)[x.pattern].read(x.values, cached.count))
    piece, values, at = _cut(x.pattern, ends, x.values)
    belongs(piece, x.pattern, ends, at)
    return piece.value(values)


def line(x: Sparse, k: int) -> Any:
    """Line ``k`` of a compressed matrix (a row of CSR, a column of CSC), as a sparse vector.

    The pattern of the vector is kept and used again as long as something else refers to it.
    """
    pattern: Any = x.pattern
    first, last = pattern.indptr[k:][:2].tolist()
    piece = parts(pattern).get(k)
    if piece is None:
        indices = pattern.indices[None, first:last]
        piece = parts(pattern)[k] = CooPattern((x.shape[1 - pattern.axis],), indices, True)
        piece._facts["line of"] = ref(pattern)
    return piece.value(x.values[first:last])


def is_line_of(piece: Pattern) -> CompressedPattern | None:
    """The pattern of the matrix from which `line` took ``piece``; None if there is none or it is gone."""
    reference: Callable[[], CompressedPattern | None] | None = piece._facts.get("line of")
    return None if reference is None else reference()


def line_put_back(piece: Pattern, k: int, whole: CompressedPattern) -> CooPattern:
    """Pattern of the shape of ``whole`` that stores only line ``k``; its entries are those of ``piece``.

    It is kept on ``piece``. If ``piece`` is line ``k`` of ``whole``, the places of the entries in ``whole``
    are noted too (see `placements`).
    """
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
    """Note that ``piece`` is the box ``ends`` of ``whole``.

    at : function that gives the position in ``whole`` of each entry of ``piece``.
    """
    parts(whole)[ends] = piece
    placements(piece)[whole] = Placement(None, at, put=False)
    placements(whole)[piece] = Placement(None, at, put=True)
    piece._facts["whole"] = ref(whole), ends


def _cut(
    pattern: CompressedPattern, ends: Ends, values: Array
) -> tuple[CompressedPattern, Array, Callable[[], Array | slice]]:
    """Cut the box ``ends`` out of a compressed matrix with these ``values``.

    Returns the pattern of the box, its values and a function that gives their positions in ``values``.
    """
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
    """Pattern of the larger ``shape`` that stores the entries of ``piece`` with the box placed at ``ends``.

    It is kept on ``piece``. If ``piece`` was cut out at ``ends`` of a pattern of this shape, the places of
    the entries in that pattern are noted too (see `placements`).
    """
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
    """Join compressed matrices along ``axis``: the pattern, and the places of the entries of each.

    The places are positions in the result, or a slice. The result is kept on the first pattern as long as the
    others live, so that a cotangent is on the same pattern.
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
    """Return ``at``: with `partial`, a function without arguments that gives known positions."""
    return at


def _joined(
    patterns: list[CompressedPattern], axis: int, shape: Shape
) -> tuple[CompressedPattern, list[Any]]:
    """Result of `joined`, computed; each matrix is noted as a box of the result (`belongs`)."""
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
