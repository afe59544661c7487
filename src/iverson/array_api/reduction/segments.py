"""Embeddings and segment reductions: rows picked from a table, and slices reduced by segment number."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from iverson.array_api.conventions.methods import tensor_method
from iverson.array_api.conventions.operands import as_operand, cast, check_kind, in_single
from iverson.array_api.entries.creation import ones_like
from iverson.array_api.entries.indexing import positions
from iverson.array_api.entries.joining import concat
from iverson.array_api.reduction.norms import vector_norm
from iverson.core import dtypes
from iverson.core.dispatch import Handle, Wrapper, has_entries, value_of, zero_filled
from iverson.core.errors import ArgumentError, DTypeError, ShapeError
from iverson.core.inputs.arguments import checked
from iverson.core.inputs.arrays import plain
from iverson.core.protocols import NDArray
from iverson.core.shapes import as_int
from iverson.layouts import CooPattern, Pattern, frozen, support_pattern
from iverson.layouts.pattern import index_dtype
from iverson.ops import TABLE, F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.tensor import Tensor
    from iverson.handles.typing import A, ArrayLike, NonNegative, Rows, Segmented


@checked
def embedding(
    indices: Array | ArrayLike,
    table: A | ArrayLike | Rows,
    /,
    padding_idx: SupportsIndex | None = None,
    max_norm: NonNegative | None = None,
    norm_type: float = 2.0,
) -> A:
    """The rows of a table at integer indices: shape (*indices.shape, *table.shape[1:]).

    Parameters
    ----------
    indices : integers; negative ones count from the end of the table.
    table : a tensor, or one whose rows are elsewhere (`iverson.interop.dask.PartitionedTable`).
    padding_idx : the number of a row that is constant: the gradient of the table has no such row.
    max_norm : rows with a larger norm are returned scaled to it, and differentiated as that. The table is not
        written to; in PyTorch it is, and the gradient is that of the scaled table.
    norm_type : the order of that norm.

    The gradient of the table is in the COO layout with dense rows: one row per index, repeats not yet summed.
    Of an index that is unspecified, so is the row. Raises IndexingError for indices outside the table,
    DTypeError for ones that are not integers, ArgumentError for max_norm below 0.

    >>> from iverson import asarray
    >>> embedding(asarray([1, 1]), asarray([[1.0, 2.0], [3.0, 4.0]]))
    iverson.Tensor([[3., 4.],
                    [3., 4.]])
    >>> embedding(asarray([1]), asarray([[1.0, 2.0], [3.0, 4.0]]), max_norm=1.0)
    iverson.Tensor([[0.59999999, 0.79999998]])
    """
    source: Any = table
    if hasattr(type(source), "__iverson_embedding__"):  # its rows are elsewhere
        if padding_idx is not None or max_norm is not None:
            raise ArgumentError(
                "embedding",
                "table",
                got=f"a {type(source).__name__} with padding_idx or max_norm",
                expected="a Tensor",
                remedy="choose and scale among the rows",
            )
        return source.__iverson_embedding__(indices)
    source = as_operand(source, "embedding", "table")
    if not source.ndim:
        raise ShapeError("embedding", "table", got="rank 0", expected="at least one axis")
    at: Any = indices
    if isinstance(at, Wrapper):
        rows: Any = embedding(F.to_dense(zero_filled(at)), source, padding_idx, max_norm, norm_type)
        exists: Any = ones_like(indices, dtype="bool")
        return F.where(
            F.reshape(exists, shape=exists.shape + (1,) * (source.ndim - 1)),
            rows,
            F.zero((), rows.dtype),
        )
    row_numbers = positions(indices, source.shape[0], "embedding")
    constant = None
    if padding_idx is not None:
        constant = positions(
            np.asarray(as_int(padding_idx, "embedding", "padding_idx")),
            source.shape[0],
            "embedding",
            "padding_idx",
        )
    if has_entries(row_numbers):
        rows = _rows_at(source, row_numbers.reshape(-1), constant)
        rows = rows if row_numbers.ndim == 1 else F.reshape(rows, shape=row_numbers.shape + source.shape[1:])
    else:
        rows = F.gather(source, row_numbers, axes=(0,))
        if constant is not None:
            fixed = F.equal(
                F.expand_dims(row_numbers, axis=tuple(range(row_numbers.ndim, rows.ndim))), constant
            )
            rows = F.where(fixed, rows.detach(), rows)
    return rows if max_norm is None else _shortened(rows, source.ndim - 1, float(max_norm), norm_type)


def _rows_at(table: Tensor, row_numbers: NDArray, constant: Any) -> Any:
    """Rows of a table at a vector of positions.

    constant : the number of a row that is no part of the gradient of the table, or None.
    """
    fixed = row_numbers == constant if constant is not None else np.zeros(row_numbers.shape, bool)
    if fixed.any():
        rows = F.concat(
            _rows_at(table, row_numbers[~fixed], None),
            F.gather(table.detach(), constant.reshape(1), axes=(0,)),
            axis=0,
            offsets=(0, np.count_nonzero(~fixed)),
        )
        return F.gather(rows, np.where(fixed, rows.shape[0] - 1, np.cumsum(~fixed) - 1), axes=(0,))
    pattern = CooPattern(table.shape[:1], row_numbers.reshape(1, -1).astype(index_dtype(table.shape[0])))
    return F.values_at(table, pattern=pattern)


@in_single
def _shortened(rows: Tensor, rank: int, max_norm: float, order: float) -> Any:
    """Rows scaled to the norm ``max_norm`` if theirs is larger; a row is the entries over the last ``rank``
    axes.

    As PyTorch does, 1e-7 is added to a norm before the division. order : the order of the norm.
    """
    lead = rows.ndim - rank
    lines = F.reshape(rows, shape=(*rows.shape[:lead], prod(rows.shape[lead:])))
    long = vector_norm(lines.detach(), axis=-1, keepdims=True, ord=order) > max_norm
    norms = vector_norm(F.where(long, lines, 1.0), axis=-1, keepdims=True, ord=order)
    return F.reshape(F.where(long, lines * (max_norm / (norms + 1e-7)), lines), shape=rows.shape)


def _array(ids: Segmented, operation: str) -> Any:
    return plain(ids, operation, "segment_ids") if isinstance(ids, (list, tuple)) else ids


def _segments(
    x: Array | ArrayLike, ids: Segmented, count: SupportsIndex | None, operation: str
) -> tuple[Any, Any, int]:
    """Slices, the number of the segment of each (a NumPy array or a traced handle), and the number of
    segments.

    ids : segment numbers, or a sparse matrix whose rows are the segments.
    """
    x = as_operand(x, operation)
    pattern = support_pattern(value_of(ids)) if isinstance(ids, Handle) else None
    if pattern is not None:
        return x, *_rows_of(ids, pattern, count, operation)
    numbers = as_operand(_array(ids, operation), operation, "segment_ids")
    if numbers.dtype.kind not in "iu":
        raise DTypeError(operation, "segment_ids", got=f"dtype {numbers.dtype}", expected="integers")
    readable = has_entries(numbers)
    numbers = F.to_numpy(numbers) if readable else numbers
    if count is None:
        if not readable:
            raise ArgumentError(
                operation,
                "num_segments",
                got="None, with segment_ids that are not known until the program runs",
                expected="how many segments there are",
            )
        count = int(numbers.max()) + 1 if numbers.size else 0
    count = as_int(count, operation, "num_segments")
    if not 0 <= count < 2**60:
        raise ArgumentError(operation, "num_segments", got=str(count), expected="a number in [0, 2**60)")
    if numbers.ndim != 1:
        raise ShapeError(operation, "segment_ids", got=f"shape {numbers.shape}", expected="one axis")
    if not readable:
        context = {"operation": operation, "argument": "segment_ids"}
        return x, F.checked_index(numbers, least=0, extent=count, **context), count
    if numbers.size and numbers.min() < 0:
        raise ArgumentError(operation, "segment_ids", got=f"segment {numbers.min()}", expected="none below 0")
    return x, frozen(positions(numbers, count, operation, "segment_ids")), count


def _rows_of(x: Any, pattern: Pattern, count: SupportsIndex | None, operation: str) -> tuple[Any, int]:
    """Row number of each stored entry of a sparse matrix ``x``, and the number of rows; raises if it is no
    matrix.

    count : the number of segments that the user gave, which must be that of the rows, or None.
    """
    if len(pattern.shape) != 2 or pattern.blocksize or pattern.ndim != len(x.shape):
        raise ArgumentError(
            operation,
            "segment_ids",
            got=f"a tensor of shape {x.shape} in layout '{pattern.layout}'",
            expected="a matrix of single entries",
            remedy="call to_layout(x, 'csr') first",
        )
    if count is not None and as_int(count, operation, "num_segments") != x.shape[0]:
        raise ArgumentError(
            operation, "num_segments", got=str(count), expected=f"{x.shape[0]}, as there are rows, or None"
        )
    return F.along(pattern, 0), x.shape[0]


@tensor_method
def segment_sum(x: A | ArrayLike, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None) -> A:
    """The sum of the slices of x (along its first axis) with each number; 0 for a segment without any.

    segment_ids : an integer for each slice, or a sparse matrix with a stored entry for each: its row counts.
    num_segments : by default one more than the largest number, or as many as the matrix has rows; to be given
        where the numbers are arguments of a function that is compiled, or differ between examples of a batch.

    Raises IndexingError for numbers beyond ``num_segments``, ArgumentError below 0, DTypeError for ones that
    are not integers, ShapeError unless there is one for each slice.

    >>> from iverson import asarray
    >>> segment_sum(asarray([1.0, 2.0, 4.0]), [0, 2, 0])
    iverson.Tensor([5., 0., 2.])
    """
    slices: Any
    slices, ids, count = _segments(x, segment_ids, num_segments, "segment_sum")
    if slices.shape[:1] != ids.shape:
        raise ShapeError(
            "segment_sum",
            "segment_ids",
            got=f"shape {ids.shape} for x of shape {slices.shape}",
            expected="one number for each slice of x along its first axis",
        )
    return F.scatter_add(slices, ids, axes=(0,), shape=(count, *slices.shape[1:]))


@tensor_method
def segment_max(x: A | ArrayLike, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None) -> A:
    """The largest of the slices of x with each number; -inf for a segment without any. As `segment_sum`.

    >>> from iverson import asarray
    >>> segment_max(asarray([1.0, 2.0, 4.0]), [0, 1, 0])
    iverson.Tensor([4., 2.])
    """
    slices: Any
    slices, ids, count = _segments(x, segment_ids, num_segments, "segment_max")
    check_kind(slices, "iuf", "segment_max")
    TABLE["segment_max"].abstract(slices, ids, count=count)
    return F.segment_max(slices, ids, count=count)


@tensor_method
def segment_min(x: A | ArrayLike, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None) -> A:
    """The smallest of the slices of x with each number; inf for a segment without any. As `segment_sum`.

    >>> from iverson import asarray
    >>> segment_min(asarray([1.0, 2.0, 4.0]), [0, 1, 0])
    iverson.Tensor([1., 2.])
    """
    slices: Any
    slices, ids, count = _segments(x, segment_ids, num_segments, "segment_min")
    check_kind(slices, "f", "segment_min")
    TABLE["segment_max"].abstract(slices, ids, count=count)
    return F.negative(F.segment_max(F.negative(slices), ids, count=count))


@tensor_method
@in_single
def segment_mean(x: A | ArrayLike, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None) -> A:
    """The mean of the slices of x with each number; 0 for a segment without any. As `segment_sum`.

    >>> from iverson import asarray
    >>> segment_mean(asarray([1.0, 2.0, 4.0]), [0, 1, 0])
    iverson.Tensor([2.5, 2. ])
    """
    slices: Any
    slices, ids, count = _segments(x, segment_ids, num_segments, "segment_mean")
    slices = cast(slices, dtypes.to_inexact(slices.dtype))
    TABLE["segment_max"].abstract(slices, ids, count=count)
    total = F.scatter_add(slices, ids, axes=(0,), shape=(count, *slices.shape[1:]))
    # Of a masked tensor, True where an entry exists.
    presence = (
        F.logical_or(F.isnan(slices), True) if isinstance(slices, Wrapper) else np.ones(ids.shape, bool)
    )
    number = F.scatter_add(
        F.astype(presence, dtype=slices.dtype), ids, axes=(0,), shape=(count, *presence.shape[1:])
    )
    stretched = F.reshape(number, shape=number.shape + (1,) * (slices.ndim - number.ndim))
    return total / F.where(F.equal(stretched, 0), 1.0, stretched)


@tensor_method
def segment_prod(x: A | ArrayLike, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None) -> A:
    """The product of the slices of x with each number; 1 for a segment without any. As `segment_sum`.

    Its derivative divides by nothing, so it is right where slices are 0: running products over the slices
    in the order of their segments.

    >>> from iverson import asarray
    >>> segment_prod(asarray([3.0, 2.0, 4.0]), [0, 2, 0])
    iverson.Tensor([12.,  1.,  2.])
    """
    slices: Any
    slices, ids, count = _segments(x, segment_ids, num_segments, "segment_prod")
    check_kind(slices, "fc", "segment_prod")
    TABLE["segment_max"].abstract(slices, ids, count=count)
    masked = isinstance(slices, Wrapper)
    if masked:
        there = segment_sum(ones_like(slices, dtype="int64"), ids, count)
        return F.where(F.greater(there, 0), segment_prod(slices.to_tensor(1), ids, count), 1.0)
    if not slices.shape[0]:
        return F.broadcast_to(np.ones((), slices.dtype), shape=(count, *slices.shape[1:]))
    order = F.argsort(ids, axis=0, descending=False, stable=True)
    ordered, ordered_ids = F.gather(slices, order, axes=(0,)), F.gather(ids, order, axes=(0,))
    before, behind = ((slice(k, k + slices.shape[0] - 1, 1),) for k in (0, 1))
    changes = F.not_equal(F.index_basic(ordered_ids, key=behind), F.index_basic(ordered_ids, key=before))
    starts: Any = concat([np.ones(1, bool), changes], axis=0)
    lines = F.reshape(ordered, shape=(slices.shape[0], prod(slices.shape[1:])))
    running = F.reshape(_running_products()(lines, starts), shape=slices.shape)
    number = F.scatter_add(np.ones(slices.shape[:1], np.int64), ids, axes=(0,), shape=(count,))
    last = F.maximum(F.cumulative_sum(number, axis=0) - 1, 0)
    empty = F.reshape(F.equal(number, 0), shape=(count,) + (1,) * (slices.ndim - 1))
    return F.where(empty, 1.0, F.gather(running, last, axes=(0,)))


@cache
def _running_products() -> Any:
    """Op for running products of rows that start anew where a segment starts; compiled once.

    It takes the rows and a vector that is True at each start. Entries before a start are not read.
    """
    from iverson import te

    @te.op
    def running_products(x: te.Tensor, starts: te.Tensor) -> Any:
        n, m = shape = x.shape

        def step(s: te.Tensor) -> Any:
            return te.compute(
                (n, m), lambda k, i: te.select(starts[k], x[k, i], x[k, i] * s[k - 1, i]), dtype=x.dtype
            )

        return te.scan(shape, step, dtype=x.dtype)

    return running_products


@tensor_method
def segment_softmax(
    x: A | ArrayLike, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None
) -> A:
    """exp(x) over the sum of exp(x) of its segment. As `segment_sum`.

    With a sparse matrix for ``segment_ids`` and its values for x, the softmax of each of its rows over the
    stored entries.

    >>> from iverson import asarray
    >>> segment_softmax(asarray([1.0, 2.0, 1.0]), [0, 1, 0])
    iverson.Tensor([0.5, 1. , 0.5])
    """
    slices: Any
    slices, ids, count = _segments(x, segment_ids, num_segments, "segment_softmax")
    slices = cast(slices, dtypes.to_inexact(slices.dtype))
    check_kind(slices, "f", "segment_softmax")
    TABLE["segment_softmax"].abstract(slices, ids, count=count)
    return F.segment_softmax(slices, ids, count=count)


__all__ = [
    "embedding",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_softmax",
    "segment_sum",
]
