"""Ranges of lines and boxes of CSR and CSC matrices: cut out, put back and put together, without a look at
what lies outside. What else is indexed goes by coordinates, in `sparse_moves`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.shapes import Shape
from iverson.kernels.keys import Key
from iverson.layouts import CompressedPattern, CooPattern, Sparse, counting
from iverson.layouts.conversion import converted, placements
from iverson.layouts.parts import Ends, joined, part, put_back

Array = np.ndarray[Any, Any]


def plain(x: Any) -> bool:
    """Whether a value is one matrix in CSR or CSC."""
    pattern = x.pattern
    return type(pattern) is CompressedPattern and pattern.blocks is None and pattern.ndim == 2


def ends_of(key: Key) -> Ends | None:
    """The box that a key of two slices of step 1 reads."""
    if len(key) != 2 or any(type(item) is not slice or item.step != 1 for item in key):
        return None
    rows, columns = key
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


def place(g: Sparse, key: Key, shape: Shape) -> Any:
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
    pattern, source = converted(x.pattern, "csr" if axis == 0 else "csc")
    assert isinstance(pattern, CompressedPattern)
    starts, indices, order = counting.rows(pattern.indptr, pattern.indices, chosen)
    shape = (chosen.size, x.shape[1]) if axis == 0 else (x.shape[0], chosen.size)
    order = source[order] if isinstance(source, np.ndarray) else order
    return CompressedPattern(shape, starts, indices, axis).value(x.values[order])
