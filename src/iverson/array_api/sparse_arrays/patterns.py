"""Patterns from the index arrays that users pass: every index error is found here, before any kernel runs."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.dispatch import Handle, value_of
from iverson.core.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from iverson.core.inputs.arrays import plain
from iverson.core.shapes import Shape, as_shape
from iverson.layouts import CompressedPattern, CooPattern, frozen, to_strided
from iverson.layouts.pattern import index_dtype

if TYPE_CHECKING:
    from iverson.handles.typing import Indices, ShapeLike

Array = np.ndarray[Any, Any]


def _integers(x: Handle | Indices, operation: str, argument: str) -> Array:
    """Index array that nobody else can write: int32 and int64 keep their dtype, other integers
    become int64.
    """
    indices: Any = x
    array = to_strided(value_of(x)) if isinstance(x, Handle) else plain(indices, operation, argument)
    if not array.size and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DTypeError(operation, argument, got=f"dtype {array.dtype}", expected="integers")
    return frozen(array if array.dtype in (np.int32, np.int64) else array.astype(np.int64))


def _ranked(array: Array, operation: str, argument: str, ndim: int) -> Array:
    if array.ndim != ndim:
        raise ShapeError(
            operation, argument, got=f"shape {array.shape}", expected=f"{ndim} axis" + "es"[2 * (ndim < 2) :]
        )
    return array


def _inside(row: Array, extent: int, operation: str, argument: str, axis: int) -> None:
    """Raise IndexingError unless the indices in ``row`` are in [0, extent)."""
    if row.size and (row.min() < 0 or row.max() >= extent):
        bad = row.min() if row.min() < 0 else row.max()
        raise IndexingError(
            operation, argument, got=f"index {bad} on axis {axis}", expected=f"one in [0, {extent})"
        )


def coo_pattern(
    indices: Handle | Indices,
    values_shape: Shape,
    shape: ShapeLike | None,
    check: bool,
    operation: str = "sparse_coo_tensor",
) -> CooPattern:
    """COO pattern from arguments of `sparse_coo_tensor`; raises if they do not fit each other.

    values_shape : the shape of the values: the number of entries, then dense axes.
    check : True to check that indices are inside of the shape.
    """
    coordinates = _ranked(_integers(indices, operation, "indices"), operation, "indices", 2)
    if not values_shape or values_shape[0] != coordinates.shape[1]:
        raise ShapeError(
            operation,
            "values",
            got=f"shape {values_shape}",
            expected=f"{coordinates.shape[1]} along the first axis, one per column of indices",
        )
    axes, dense = coordinates.shape[0], values_shape[1:]
    if not axes and dense:
        raise ShapeError(
            operation, "indices", got="no rows", expected="at least one, as the values have dense axes"
        )
    if shape is None:
        extents = tuple(_extent(row) for row in coordinates) + dense
    else:
        extents = as_shape(shape, operation)
        if len(extents) != axes + len(dense) or extents[axes:] != dense:
            raise ShapeError(
                operation,
                "shape",
                got=str(extents),
                expected=f"{axes} sparse axes, then {dense}, the dense axes of values",
            )
    if check:
        for axis, row in enumerate(coordinates):
            _inside(row, extents[axis], operation, "indices", axis)
    return CooPattern(extents[:axes], _wide_enough(coordinates, *extents[:axes]))


def _extent(indices: Array) -> int:
    """Smallest extent of an axis that contains the indices."""
    return max(int(indices.max()) + 1, 0) if indices.size else 0


def _wide_enough(indices: Array, *extents: int) -> Array:
    return indices.astype(np.result_type(indices, index_dtype(*extents)), copy=False)


def compressed_pattern(
    operation: str,
    indptr: Handle | Indices,
    indices: Handle | Indices,
    values_shape: Shape,
    shape: ShapeLike | None,
    axis: int,
    blocks: bool,
    check: bool,
) -> tuple[CompressedPattern, Shape]:
    """Compressed pattern from arguments of `sparse_csr_tensor` and its siblings, and the extents of dense
    axes.

    A batch comes as arrays with its axes first, the same number of entries for each matrix, or, with a shape
    given, as ``indptr`` over the lines of all matrices and the entries one after the other.
    axis : 0 if lines are rows, 1 if they are columns. blocks : True if the entries are blocks.
    """
    starts = _integers(indptr, operation, "indptr")
    batch = starts.shape[:-1]
    starts = _ranked(starts, operation, "indptr", max(starts.ndim, 1))
    inner = _ranked(_integers(indices, operation, "indices"), operation, "indices", starts.ndim)
    dtype = np.result_type(starts, inner)
    if inner.shape[:-1] != batch:
        raise ShapeError(
            operation, "indices", got=f"shape {inner.shape}", expected=f"{batch} first, the batch of indptr"
        )
    rank = starts.ndim + 2 * blocks
    dense = values_shape[rank:]
    if (
        len(values_shape) < rank
        or values_shape[: starts.ndim] != inner.shape
        or 0 in values_shape[starts.ndim : rank]
    ):
        form = "(blocks, rows, columns, *dense)" if blocks else "(entries, *dense)"
        raise ShapeError(
            operation,
            "values",
            got=f"shape {values_shape}",
            expected=f"shape {form} with {inner.shape} first, one per index",
        )
    if not starts.shape[-1]:
        raise ShapeError(operation, "indptr", got="no entries", expected="one more than there are lines")
    if check:
        _check_starts(operation, starts, inner.shape[-1])
    block = (values_shape[rank - 2], values_shape[rank - 1]) if blocks else (1, 1)
    if shape is not None:
        shape = _sparse_part(operation, shape, dense)
    extents = _compressed_shape(operation, starts, inner, shape, axis, block)
    grid = (extents[-2] // block[0], extents[-1] // block[1])
    dtype = np.result_type(dtype, index_dtype(*extents[-2:], inner.size))
    if batch:
        before = np.arange(prod(batch), dtype=dtype)[:, None] * inner.shape[-1]
        later = starts.reshape(-1, starts.shape[-1])[:, 1:] + before
        starts = np.concatenate([np.zeros(1, dtype), later.ravel()])
        inner = inner.reshape(-1)
    starts, inner = starts.astype(dtype, copy=False), inner.astype(dtype, copy=False)
    if check:
        _check_lines(operation, starts, inner, grid[1 - axis], len(extents) - 1 - axis)
    return CompressedPattern(extents, starts, inner, axis, block if blocks else None), dense


def _sparse_part(operation: str, shape: ShapeLike, dense: Shape) -> Shape:
    """Extents of the sparse axes in ``shape``, which must end with ``dense``, the extents of dense axes."""
    extents = as_shape(shape, operation)
    lead = len(extents) - len(dense)
    if dense and (lead < 2 or extents[lead:] != dense):
        raise ShapeError(
            operation,
            "shape",
            got=str(extents),
            expected=f"two extents, a batch before them or none, then {dense}, the dense axes of values",
        )
    return extents[:lead]


def _compressed_shape(
    operation: str, starts: Array, inner: Array, shape: ShapeLike | None, axis: int, block: tuple[int, int]
) -> Shape:
    """Extents of sparse axes: ``shape``, checked against the arrays, or by default the smallest that the
    indices fit.

    starts, inner : the starts of lines and the indices. axis : that of lines. block : the extents of a block.
    """
    batch, lines = starts.shape[:-1], starts.shape[-1] - 1
    if shape is None:
        across = _extent(inner)
        grid = (lines, across) if axis == 0 else (across, lines)
        return (*batch, grid[0] * block[0], grid[1] * block[1])
    extents = as_shape(shape, operation)
    if len(extents) < 2 or extents[-2] % block[0] or extents[-1] % block[1]:
        blocked = f" that blocks {block} divide" if block != (1, 1) else ""
        raise ShapeError(
            operation,
            "shape",
            got=str(extents),
            expected=f"two extents{blocked}, a batch before them or none",
        )
    if batch and extents[:-2] != batch:
        raise ShapeError(operation, "shape", got=str(extents), expected=f"{batch} first, the batch of indptr")
    line_count = extents[-2 + axis] // block[axis] * (1 if batch else prod(extents[:-2]))
    if lines != line_count:
        raise ShapeError(
            operation, "indptr", got=f"{lines + 1} entries", expected=f"{line_count + 1} for shape {extents}"
        )
    return extents


def _check_starts(operation: str, indptr: Array, count: int) -> None:
    """Raise ArgumentError unless the starts of lines go from 0 to ``count`` and never decrease."""
    falls = (indptr[..., 1:] < indptr[..., :-1]).any()
    first, last = indptr[..., 0], indptr[..., -1]
    if falls or (first != 0).any() or (last != count).any():
        span = f"from {first.min()} to {last.max()}" if first.size else "nothing"
        raise ArgumentError(
            operation,
            "indptr",
            got=span + (", decreasing on the way" if falls else ""),
            expected=f"0 to {count}, never decreasing" + (", for each matrix" if indptr.ndim > 1 else ""),
        )


def _out_of_order(indptr: Array, indices: Array) -> Array:
    """Positions of the indices after which the next index of the same line is not larger."""
    within = np.ones(max(indices.size - 1, 0), bool)
    ends = indptr[1:-1]
    within[ends[(ends > 0) & (ends < indices.size)] - 1] = False
    return np.flatnonzero(within & (np.diff(indices) <= 0))


def scipy_structure(matrix: Any, operation: str) -> tuple[Array, Array, bool]:
    """Starts of the lines of a compressed SciPy matrix, its indices, and True if the indices of each line
    increase.

    SciPy's constructor checks neither starts nor indices: no function of SciPy may read them before this one.
    """
    axis = 1 if matrix.format == "csc" else 0
    starts = _ranked(_integers(matrix.indptr, operation, "indptr"), operation, "indptr", 1)
    inner = _ranked(_integers(matrix.indices, operation, "indices"), operation, "indices", 1)
    block = tuple(matrix.data.shape[1:]) or (1, 1)
    _compressed_shape(operation, starts, inner, matrix.shape, axis, block)
    count = min(inner.size, len(matrix.data), int(starts[-1]))  # SciPy allows for more room than is used
    _check_starts(operation, starts, count)
    dtype = np.result_type(starts, inner, index_dtype(*matrix.shape, count))
    starts, inner = starts.astype(dtype, copy=False), inner[:count].astype(dtype, copy=False)
    _inside(inner, matrix.shape[1 - axis] // block[1 - axis], operation, "indices", 1 - axis)
    return starts, inner, not _out_of_order(starts, inner).size


def _check_lines(operation: str, indptr: Array, indices: Array, across: int, axis: int) -> None:
    """Raise unless the indices are in [0, across) and increase within each line."""
    _inside(indices, across, operation, "indices", axis)
    wrong = _out_of_order(indptr, indices)
    if wrong.size:
        raise ArgumentError(
            operation,
            "indices",
            got=f"{indices[wrong[0]]} before {indices[wrong[0] + 1]} at position {wrong[0]}",
            expected="increasing indices in each line, none twice",
            remedy="build it with sparse_coo_tensor(...).to_layout(...), which sorts and sums",
        )
