"""Patterns from what users hand in, checked: every index error is found here, before any kernel runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.dispatch import Handle
from iverson.core.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from iverson.core.shapes import Shape, as_shape
from iverson.layouts import CompressedPattern, CooPattern, to_strided

Array = np.ndarray[Any, Any]


def _integers(x: Any, operation: str, argument: str, ndim: int) -> Array:
    """An index array: int32 and int64 as they are, other integers as int64."""
    array = to_strided(x._value) if isinstance(x, Handle) else np.asarray(x)
    if not array.size and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DTypeError(operation, argument, got=f"dtype {array.dtype}", expected="integers")
    if array.ndim != ndim:
        raise ShapeError(
            operation, argument, got=f"shape {array.shape}", expected=f"{ndim} axis" + "es"[2 * (ndim < 2) :]
        )
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


def _inside(row: Array, extent: int, operation: str, argument: str, axis: int) -> None:
    if row.size and (row.min() < 0 or row.max() >= extent):
        bad = row.min() if row.min() < 0 else row.max()
        raise IndexingError(
            operation, argument, got=f"index {bad} on axis {axis}", expected=f"one in [0, {extent})"
        )


def coo_pattern(indices: Any, values_shape: Shape, shape: Any, check: bool) -> CooPattern:
    """The pattern of `sparse_coo_tensor`'s arguments."""
    operation = "sparse_coo_tensor"
    found = _integers(indices, operation, "indices", 2)
    if not values_shape or values_shape[0] != found.shape[1]:
        raise ShapeError(
            operation,
            "values",
            got=f"shape {values_shape}",
            expected=f"{found.shape[1]} along the first axis, one per column of indices",
        )
    axes, dense = found.shape[0], values_shape[1:]
    if not axes:
        raise ShapeError(operation, "indices", got=f"shape {found.shape}", expected="at least one row")
    if shape is None:
        whole = tuple(int(row.max()) + 1 if row.size else 0 for row in found) + dense
    else:
        whole = as_shape(shape, operation)
        if len(whole) != axes + len(dense) or whole[axes:] != dense:
            raise ShapeError(
                operation,
                "shape",
                got=str(whole),
                expected=f"{axes} sparse axes, then {dense}, the dense axes of values",
            )
    if check:
        for axis, row in enumerate(found):
            _inside(row, whole[axis], operation, "indices", axis)
    return CooPattern(whole[:axes], found)


def compressed_pattern(
    operation: str,
    indptr: Any,
    indices: Any,
    values_shape: Shape,
    shape: Any,
    axis: int,
    blocks: bool,
    check: bool,
) -> CompressedPattern:
    """The pattern of the arguments of ``sparse_csr_tensor`` and its kin."""
    starts = _integers(indptr, operation, "indptr", 1)
    inner = _integers(indices, operation, "indices", 1)
    dtype = np.result_type(starts, inner)
    starts, inner = starts.astype(dtype, copy=False), inner.astype(dtype, copy=False)
    rank = 3 if blocks else 1
    if len(values_shape) != rank or values_shape[0] != inner.size or 0 in values_shape[1:]:
        what = "(blocks, rows, columns)" if blocks else "(entries,)"
        raise ShapeError(
            operation,
            "values",
            got=f"shape {values_shape}",
            expected=f"shape {what} with {inner.size} along the first axis, one per index",
        )
    if not starts.size:
        raise ShapeError(operation, "indptr", got="no entries", expected="one more than there are lines")
    block = (values_shape[1], values_shape[2]) if blocks else (1, 1)
    if shape is None:
        across = int(inner.max()) + 1 if inner.size else 0
        grid = (starts.size - 1, across) if axis == 0 else (across, starts.size - 1)
        whole = (grid[0] * block[0], grid[1] * block[1])
    else:
        given = as_shape(shape, operation)
        if len(given) != 2 or given[0] % block[0] or given[1] % block[1]:
            raise ShapeError(
                operation,
                "shape",
                got=str(given),
                expected="two extents" + (f" that blocks {block} divide" if blocks else ""),
            )
        whole = (given[0], given[1])
    lines, across = whole[axis] // block[axis], whole[1 - axis] // block[1 - axis]
    if starts.size != lines + 1:
        raise ShapeError(
            operation, "indptr", got=f"{starts.size} entries", expected=f"{lines + 1} for shape {whole}"
        )
    if check:
        _check_lines(operation, starts, inner, across, 1 - axis)
    return CompressedPattern(whole, starts, inner, axis, block if blocks else None)


def _check_lines(operation: str, indptr: Array, indices: Array, across: int, axis: int) -> None:
    steps = np.diff(indptr)
    if indptr[0] != 0 or indptr[-1] != indices.size or (steps < 0).any():
        got = f"from {indptr[0]} to {indptr[-1]}" + (", decreasing on the way" if (steps < 0).any() else "")
        raise ArgumentError(operation, "indptr", got=got, expected=f"0 to {indices.size}, never decreasing")
    _inside(indices, across, operation, "indices", axis)
    within = np.ones(max(indices.size - 1, 0), bool)
    ends = indptr[1:-1]
    within[ends[(ends > 0) & (ends < indices.size)] - 1] = False
    wrong = np.flatnonzero(within & (np.diff(indices) <= 0))
    if wrong.size:
        raise ArgumentError(
            operation,
            "indices",
            got=f"{indices[wrong[0]]} before {indices[wrong[0] + 1]} at position {wrong[0]}",
            expected="increasing indices in each line, none twice",
            remedy="build it with sparse_coo_tensor(...).to_layout(...), which sorts and sums",
        )
