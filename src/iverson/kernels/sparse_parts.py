"""Ranges of lines and boxes of CSR and CSC matrices: cut out, put back and put together, without a look at
what lies outside. What else is indexed goes by coordinates, in `sparse_moves`.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from iverson.core.shapes import Shape
from iverson.kernels.keys import Key
from iverson.layouts import CompressedPattern, CooPattern, Sparse, counting
from iverson.layouts.parts import Ends, joined, part, put_back
from iverson.layouts.placement import converted, placements

Array = np.ndarray[Any, Any]


def plain(x: Any) -> bool:
    """Whether a value is one matrix in CSR or CSC."""
    pattern = x.pattern
    return type(pattern) is CompressedPattern and pattern.blocks is None and pattern.ndim == 2


def ends_of(key: Key) -> Ends | None:
    """The box that a key of two slices of step 1 reads."""
    if len(key) != 2:
        return None
    rows, columns = key
    if type(rows) is not slice or type(columns) is not slice or not rows.step == columns.step == 1:
        return None
    return (rows.start, rows.stop), (columns.start, columns.stop)


def cut(x: Sparse, key: Key) -> Any:
    """x[key] for a box, and for one whole line; NotImplemented for others."""
    if not plain(x):
        return NotImplemented
    pattern = x.pattern
    ends = ends_of(key)
    if ends is not None:
        if ends == ((0, x.shape[0]), (0, x.shape[1])):
            return x
        piece = part(pattern, ends)
        return piece.value(placements(piece)[pattern].read(x.values, piece.count))
    if (
        len(key) == 2
        and type(key[pattern.axis]) is int
        and key[1 - pattern.axis] == slice(0, x.shape[1 - pattern.axis], 1)
    ):
        first, last = pattern.indptr[key[pattern.axis] :][:2].tolist()
        line = CooPattern((x.shape[1 - pattern.axis],), pattern.indices[None, first:last], True)
        return line.value(x.values[first:last])
    return NotImplemented


def embed(g: Sparse, key: Key, shape: Shape) -> Any:
    """The adjoint of `cut` for a box; NotImplemented for other keys."""
    ends = ends_of(key) if plain(g) and len(shape) == 2 else None
    if ends is None:
        return NotImplemented
    return put_back(g.pattern, ends, shape).value(g.values)


def concat(values: list[Sparse], axis: int, shape: Shape, dtype: Any) -> Any:
    """Matrices of one layout beside each other; NotImplemented for others."""
    patterns = [x.pattern for x in values]
    if (
        not all(map(plain, values))
        or len({p.axis for p in patterns}) > 1
        or len(set(map(id, patterns))) < len(patterns)
    ):
        return NotImplemented
    made, at = joined(patterns, axis, shape)
    entries = np.empty(made.count, dtype)
    for x, where in zip(values, at, strict=True):
        entries[where] = x.values
    return made.value(entries)


def lines(x: Sparse, chosen: Array, axis: int) -> Any:
    """Some rows (axis 0) or columns (1) of a matrix, in the order given: compressed along them."""
    shape = (chosen.size, x.shape[1]) if axis == 0 else (x.shape[0], chosen.size)
    layout = "csr" if axis == 0 else "csc"
    if axis != x.pattern.axis and ("converted", layout, None) not in x.pattern._facts:
        # Turning all entries costs several times what the first choice does: the second does it.
        before: set[bool] = x.pattern.once("lines chosen across", set)
        if not before:
            before.add(True)
            x, chosen = _only(x, chosen, axis)
    pattern, source = converted(x.pattern, layout)
    assert isinstance(pattern, CompressedPattern)
    if source is None and counting.moves(x.values):
        starts, indices, values = counting.chosen_rows(pattern.indptr, pattern.indices, x.values, chosen)
        made = CompressedPattern(shape, starts, indices, axis)
        made._facts["lines of"] = ref(pattern), chosen
        return made.value(values)
    starts, indices, order = counting.rows(pattern.indptr, pattern.indices, chosen)
    order = source[order] if isinstance(source, np.ndarray) else order
    return CompressedPattern(shape, starts, indices, axis).value(x.values[order])


def put_lines(g: Sparse, chosen: Array, axis: int, shape: Shape) -> Any:
    """The adjoint of `lines`, for entries on the pattern of its result: added up where they were taken from,
    on the pattern they are of. NotImplemented for other patterns."""
    found, own = g.pattern._facts.get("lines of", (lambda: None, None))
    whole = found()
    if whole is None or whole.shape != shape or whole.axis != axis or not np.array_equal(own, chosen):
        return NotImplemented
    order = counting.rows(whole.indptr, whole.indices, chosen)[2]
    return whole.value(counting.added_rows(whole.count, order, g.entries))


def _only(x: Sparse, chosen: Array, axis: int) -> tuple[Sparse, Array]:
    """Of a matrix compressed along the other axis, the rows or columns that are chosen, each once, and their
    numbers there: fewer entries to turn, unless most are chosen."""
    pattern = x.pattern
    wanted = np.zeros(x.shape[axis], bool)
    wanted[chosen] = True
    kept = wanted[pattern.indices]
    at = np.flatnonzero(kept)
    if 2 * at.size > pattern.count:
        return x, chosen
    number = np.cumsum(wanted, dtype=pattern.index_dtype) - 1
    before = np.zeros(pattern.count + 1, pattern.index_dtype)
    np.cumsum(kept, out=before[1:])
    starts = before[pattern.indptr]
    count = int(number[-1]) + 1 if number.size else 0
    shape = (count, x.shape[1]) if axis == 0 else (x.shape[0], count)
    made = CompressedPattern(shape, starts, number[pattern.indices[at]], pattern.axis)
    return made.value(x.values[at]), number[chosen]


def diagonal(x: Sparse, shape: Shape, offset: int) -> Any:
    """The stored entries of a diagonal, which is looked for in each line."""
    pattern = x.pattern
    n, m = x.shape if pattern.axis == 0 else x.shape[::-1]
    at = counting.diagonal(n, m, pattern.indptr, pattern.indices, -offset if pattern.axis else offset)
    kept = np.flatnonzero(at)
    indices = kept.astype(pattern.index_dtype)[None]
    return CooPattern(shape, indices, True).value(x.values[at[kept] - 1])


def entries_at(x: Sparse, at: list[Array]) -> Array:
    """The entries at rows and columns."""
    pattern = x.pattern
    n, m = x.shape if pattern.axis == 0 else x.shape[::-1]
    lines = at if pattern.axis == 0 else at[::-1]
    return counting.samples((n, m), pattern.indptr, pattern.indices, x.values, lines)
