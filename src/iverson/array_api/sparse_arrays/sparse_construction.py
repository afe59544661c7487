"""Sparse tensors: constructors from indices and values, conversions, stored entries, and reads at a pattern.

A layout never changes what a tensor is: entries that are not stored are 0. Gradients with respect to a sparse
tensor are over all entries; those with respect to the values it was made from are over the stored ones alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from iverson.array_api.conventions.methods import method, tensor_method, tensor_property
from iverson.array_api.conventions.operands import (
    as_operand,
    as_tuple,
    by_columns,
    cast,
    check_entries,
    given_dtype,
)
from iverson.array_api.sparse_arrays.patterns import compressed_pattern, coo_pattern
from iverson.core.dispatch import Handle, LevelValue, Wrapper, has_entries, levels, value_of, zero_filled
from iverson.core.errors import ArgumentError, ArgumentTypeError, ShapeError, speaking_as
from iverson.core.inputs.arguments import checked
from iverson.core.inputs.arrays import plain
from iverson.core.shapes import as_int
from iverson.handles import Tensor
from iverson.handles.array import Array
from iverson.kernels.deferred_patterns import UNKNOWN, layout_in_level, stored_by
from iverson.layouts import (
    CompressedPattern,
    Pattern,
    Sparse,
    Zero,
    distinct,
    layout_named,
    layout_of,
    sparse_layouts,
)
from iverson.layouts.conversion import dense_axes
from iverson.layouts.pattern_symbols import PatternRead, PatternSymbol, handed_out
from iverson.ops import F
from iverson.ops.moves.pattern_ops import check_layout

if TYPE_CHECKING:
    from iverson.handles.typing import A, ArrayLike, DTypeLike, Indices, ShapeLike, Values


def made_on(
    values: Any, pattern: Pattern, dtype: DTypeLike | None, requires_grad: bool, operation: str
) -> Any:
    """Sparse tensor with ``values`` on ``pattern``; a new leaf if ``requires_grad``.

    dtype : None for that of the values. Raises ShapeError if the values do not fit the pattern.
    """
    values = cast(values, given_dtype(dtype, values.dtype, operation))
    if type(value_of(values, None)) is Zero:  # stored all the same: the result is sparse
        values = F.to_dense(values)
    lead = len(pattern.stored_shape)
    dense = layout_named(pattern.layout).dense_axes
    if values.shape[:lead] != pattern.stored_shape or (not dense and values.ndim > lead):
        expected = f"shape {pattern.stored_shape}" + (", then dense axes or none" if dense else "")
        raise ShapeError(operation, "values", got=f"shape {values.shape}", expected=expected)
    if isinstance(pattern, PatternSymbol) and has_entries(
        values
    ):  # known when the trace runs, so that the result is of the trace
        for level in levels():
            values = level.variable_of(values)
    result = F.from_values(values, pattern=pattern)
    return result.detach().requires_grad_() if requires_grad else result


def _as_values(values: Any, operation: str) -> Any:
    if isinstance(values, (list, tuple)):
        values = plain(values, operation, "values")
    return as_operand(values, operation, "values")


@checked
def sparse_coo_tensor(
    indices: Indices,
    values: Values,
    shape: ShapeLike | None = None,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    check: bool = True,
) -> Tensor:
    """A tensor in the COO layout: ``values[n]`` at ``indices[:, n]``, repeats summed.

    indices : integers of shape (sparse axes, count); copied, unless nobody can write them.
    values : shape (count, *dense): axes after the first are dense trailing axes of the tensor.
    shape : of the tensor; by default as large as the indices ask for, then the dense axes.
    requires_grad : make the result a leaf. Without it, gradients flow into ``values``, and are of their size.
    check : whether the indices are validated; without it they must be right.

    Raises ShapeError, DTypeError for indices that are not integers, IndexingError for ones outside the shape.

    >>> sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    iverson.Tensor([[0., 0., 3.],
                    [4., 0., 0.]], layout='coo')
    """
    entries = _as_values(values, "sparse_coo_tensor")
    pattern = coo_pattern(indices, entries.shape, shape, check)
    return made_on(entries, pattern, dtype, requires_grad, "sparse_coo_tensor")


def _compressed(
    operation: str,
    axis: int,
    blocks: bool,
    indptr: Indices,
    indices: Indices,
    values: Values,
    shape: ShapeLike | None,
    dtype: DTypeLike | None,
    requires_grad: bool,
    check: bool,
) -> Any:
    """Tensor in a compressed layout, a matrix or a batch, from arguments of the public constructors.

    axis : 0 if lines are rows, 1 if they are columns. blocks : True if the entries are blocks.
    """
    entries = _as_values(values, operation)
    pattern, dense = compressed_pattern(operation, indptr, indices, entries.shape, shape, axis, blocks, check)
    if entries.shape != pattern.stored_shape + dense:  # one list of entries per matrix of a batch
        entries = F.reshape(entries, shape=pattern.stored_shape + dense)
    return made_on(entries, pattern, dtype, requires_grad, operation)


@checked
def sparse_csr_tensor(
    indptr: Indices,
    indices: Indices,
    values: Values,
    shape: ShapeLike | None = None,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    check: bool = True,
) -> Tensor:
    """A matrix in the CSR layout: rows of entries, one after the other.

    Row i holds ``values[p]`` in column ``indices[p]``, for p from ``indptr[i]`` to before ``indptr[i + 1]``.
    Columns increase within a row. ``shape`` is (rows, columns), by default as large as the indices ask for.
    Other arguments and errors are those of `sparse_coo_tensor`; ArgumentError for lines out of order.

    values : shape (count, *dense): axes after the first are dense trailing axes, also of ``shape``.

    A batch of matrices, of shape (*batch, rows, columns, *dense), comes in one of two forms: all three arrays
    with the batch's axes first (each matrix stores as many entries), or, with ``shape`` given, the rows of
    all matrices one after the other, as `indptr`, `indices` and `values` give them back.

    >>> sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3))
    iverson.Tensor([[0., 0., 3.],
                    [4., 0., 0.]], layout='csr')
    >>> sparse_csr_tensor([[0, 1], [0, 1]], [[2], [0]], [[3.0], [4.0]])
    iverson.Tensor([[[0., 0., 3.]],
    <BLANKLINE>
                    [[4., 0., 0.]]], layout='csr')
    >>> sparse_csr_tensor([0, 1, 2], [2, 0], [[3.0, 4.0], [5.0, 6.0]]).shape
    (2, 3, 2)
    """
    arguments = (indptr, indices, values, shape, dtype, requires_grad, check)
    return _compressed("sparse_csr_tensor", 0, False, *arguments)


@checked
def sparse_csc_tensor(
    indptr: Indices,
    indices: Indices,
    values: Values,
    shape: ShapeLike | None = None,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    check: bool = True,
) -> Tensor:
    """A matrix in the CSC layout: as `sparse_csr_tensor`, columns in place of rows.

    >>> sparse_csc_tensor([0, 1, 1, 2], [1, 0], [4.0, 3.0]).layout
    'csc'
    """
    arguments = (indptr, indices, values, shape, dtype, requires_grad, check)
    return _compressed("sparse_csc_tensor", 1, False, *arguments)


@checked
def sparse_bsr_tensor(
    indptr: Indices,
    indices: Indices,
    values: Values,
    shape: ShapeLike | None = None,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    check: bool = True,
) -> Tensor:
    """A matrix in the BSR layout: as `sparse_csr_tensor`, blocks in place of entries.

    values : shape (blocks, rows of a block, columns of a block, *dense); blocks tile the matrix.

    >>> sparse_bsr_tensor([0, 1], [1], [[[1.0, 2.0]]])
    iverson.Tensor([[0., 0., 1., 2.]], layout='bsr')
    """
    arguments = (indptr, indices, values, shape, dtype, requires_grad, check)
    return _compressed("sparse_bsr_tensor", 0, True, *arguments)


@checked
def sparse_bsc_tensor(
    indptr: Indices,
    indices: Indices,
    values: Values,
    shape: ShapeLike | None = None,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    check: bool = True,
) -> Tensor:
    """A matrix in the BSC layout: as `sparse_bsr_tensor`, with columns of blocks.

    >>> sparse_bsc_tensor([0, 0, 1], [0], [[[1.0, 2.0]]])
    iverson.Tensor([[0., 0., 1., 2.]], layout='bsc')
    """
    arguments = (indptr, indices, values, shape, dtype, requires_grad, check)
    return _compressed("sparse_bsc_tensor", 1, True, *arguments)


@method
def to_layout(
    x: A | ArrayLike,
    layout: str,
    /,
    *,
    blocksize: Sequence[SupportsIndex] | None = None,
    dense_dim: SupportsIndex | None = None,
) -> A:
    """x in another layout: "strided", "coo", "csr", "csc", or with ``blocksize`` "bsr" and "bsc".

    Or in any other that is registered with a ``from_coo`` (`iverson.layouts.Layout`). A strided tensor's
    entries that are not 0 are stored. Differentiable: a layout changes nothing.

    dense_dim : how many trailing axes of a sparse result are dense: it stores slices over them, those of a
        strided x in which an entry is not 0. By default those of x that the layout does not have to index.

    Raises ArgumentError for other layouts, a missing blocksize, a ``dense_dim`` or entries that the layout
    cannot hold, ShapeError where it cannot hold the shape of x.

    >>> from iverson import asarray
    >>> to_layout(asarray([[0.0, 1.0]]), "csr")
    iverson.Tensor([[0., 1.]], layout='csr')
    >>> to_layout(asarray([[[0.0, 0.0], [0.0, 1.0]]]), "csr", dense_dim=1).values()
    iverson.Tensor([[0., 1.]])
    """
    x = with_numbers(as_operand(x, "to_layout"))
    check_layout(layout, "to_layout")
    dense = _dense_axes(x, layout, dense_dim)
    blocks = None
    if layout_named(layout).blocked:
        stored_blocksize = getattr(stored_by(x), "blocksize", None)
        extents = stored_blocksize if blocksize is None else blocksize
        if extents is None:
            raise ArgumentError(
                "to_layout",
                "blocksize",
                got="none",
                expected="two positive integers: the rows and columns of a block",
                remedy=f'call to_layout("{layout}", blocksize=(rows, columns))',
            )
        sizes = [as_int(n, "to_layout", "blocksize") for n in as_tuple(extents)]
        if len(sizes) != 2 or min(sizes) < 1:
            raise ArgumentError("to_layout", "blocksize", got=str(sizes), expected="two positive integers")
        blocks = (sizes[0], sizes[1])
    elif blocksize is not None:
        raise ArgumentError(
            "to_layout", "blocksize", got=repr(blocksize), expected=f"none for layout {layout!r}"
        )
    return F.to_layout(x, layout=layout, blocksize=blocks, dense_dim=dense)


def _dense_axes(x: Any, layout: str, requested: SupportsIndex | None) -> int:
    """Number of trailing axes that are dense in a layout: ``requested``, checked, or by default as
    in ``x``.
    """
    if requested is None:
        pattern = stored_by(zero_filled(x))
        return dense_axes(pattern, x.shape, layout) if isinstance(pattern, Pattern) else 0
    count = as_int(requested, "to_layout", "dense_dim")
    largest = x.ndim if layout_named(layout).dense_axes else 0
    if not 0 <= count <= largest:
        expected = f"one in [0, {largest}], for shape {x.shape} in layout {layout!r}"
        raise ArgumentError("to_layout", "dense_dim", got=str(count), expected=expected)
    return count


@method
def to_sparse(x: A | ArrayLike, /) -> A:
    """x in the COO layout; a tensor in a sparse layout as it is.

    >>> from iverson import asarray
    >>> to_sparse(asarray([0.0, 1.0])).nnz
    1
    """
    x = as_operand(x, "to_sparse")
    name = layout_in_level(value_of(x, None)) or getattr(x, "layout", "")
    return x if any(name == layout.name for layout in sparse_layouts()) else to_layout(x, "coo")


def with_numbers(x: Array | ArrayLike) -> Any:
    """Sparse tensor of stored zeros for an operand in the zero layout that eager code would have as sparse.

    All other operands are returned unchanged.
    """
    if type(value_of(x, None)) is not Zero or not isinstance(pattern := stored_by(x), Pattern):
        return x
    pattern = distinct(pattern)
    return made_on(F.values_at(x, pattern=pattern), pattern, None, False, "to_layout")


def sparse_value(x: Array | ArrayLike, operation: str, argument: str = "x") -> Any:
    """Sparse value of a tensor; raises ArgumentTypeError if it is not sparse, GraphError in a trace or a
    batch.
    """
    if isinstance(value_of(x, None), LevelValue):
        check_entries(
            operation,
            x,
            decides="the result, which is made here and not when the program runs",
            remedy="call it outside of the transform, or close over the tensor",
        )
    x = with_numbers(x)
    if not isinstance(value_of(x, None), Sparse):
        kind = layout_of(value_of(x)).name if isinstance(x, Handle) else type(x).__name__
        raise ArgumentTypeError(
            operation,
            argument,
            got=f"layout '{kind}'" if isinstance(x, Handle) else f"a {kind}",
            expected="a tensor in a sparse layout",
            remedy="call to_tensor(fill) first" if isinstance(x, Wrapper) else "call to_sparse() first",
        )
    return value_of(x)


def pattern_held(x: Array | ArrayLike, operation: str, argument: str = "x") -> Any:
    """Pattern on which a sparse tensor, or each example of a batch, is stored.

    Raises ArgumentTypeError if the tensor is not sparse, ArgumentError if the pattern is not known or
    examples are stored on different ones.
    """
    value = value_of(x, None)
    if not isinstance(value, LevelValue | Zero) or (type(value) is Zero and value.stored is None):
        return sparse_value(x, operation, argument).pattern
    pattern = stored_by(x)
    if pattern is UNKNOWN:
        raise ArgumentError(
            operation,
            argument,
            got="a tensor of which it is not known here which entries are stored",
            expected="one that is sparse, and of a batch one whose examples are stored on the same entries",
            remedy="read it through sparse_mask first, or call this outside of the transform",
        )
    if pattern is None:
        raise ArgumentTypeError(
            operation,
            argument,
            got="a tensor that is not sparse",
            expected="a tensor in a sparse layout",
            remedy="read it at the entries of one by sparse_mask first",
        )
    return pattern


@tensor_method
def values(x: Tensor, /) -> Tensor:
    """The stored entries of a sparse tensor: shape (nnz, *dense axes), or (blocks, rows, columns).

    Differentiable in x at the stored entries. Raises ArgumentTypeError for other layouts, ArgumentError where
    entries are stored twice (call `coalesce` first), and in a `vmap` of examples stored on different entries.

    >>> sparse_coo_tensor([[2, 0]], [1.0, 5.0]).values()
    iverson.Tensor([1., 5.])
    """
    pattern = pattern_held(x, "values")
    if not pattern.distinct:
        raise ArgumentError(
            "values", "x", got="entries stored twice", expected="each once", remedy="call coalesce() first"
        )
    return F.values_at(x, pattern=pattern)


@tensor_method
def with_values(x: Tensor, values: Values, /) -> Tensor:
    """The tensor with other values on the stored entries of a sparse tensor x, whose own are not read.

    It shares x's indices, and what was worked out from them (the transpose, other layouts). Differentiable in
    ``values``, which has the shape of ``x.values()``. Raises ShapeError.

    >>> with_values(sparse_coo_tensor([[2, 0]], [1.0, 5.0]), [3.0, 4.0])
    iverson.Tensor([4., 0., 3.], layout='coo')
    """
    pattern = pattern_held(x, "with_values")
    values = _as_values(values, "with_values")
    return made_on(values, pattern, None, False, "with_values")


@tensor_method
def indices(x: Tensor, /) -> Tensor:
    """Indices of the stored entries: (sparse axes, nnz) for COO, otherwise positions within lines, (nnz,).

    >>> sparse_coo_tensor([[2, 0]], [1.0, 5.0]).indices()
    iverson.Tensor([[2, 0]])
    """
    return Tensor(pattern_held(x, "indices").indices)


@tensor_method
def indptr(x: Tensor, /) -> Tensor:
    """Start of each row (or column) of a compressed layout among the stored entries; then their number.

    Shape (lines + 1,); the lines of a batch of matrices follow each other, whatever each stores.

    >>> sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0]).indptr()
    iverson.Tensor([0, 1, 2])
    """
    pattern = pattern_held(x, "indptr")
    if not isinstance(getattr(pattern, "model", pattern), CompressedPattern):  # of a symbol, what is known
        raise ArgumentTypeError(
            "indptr", "x", got=f"layout '{pattern.layout}'", expected="a compressed layout"
        )
    return Tensor(pattern.indptr)


@tensor_property
def nnz(x: Tensor, /) -> int:
    """Number of entries that a sparse tensor stores, with explicit zeros, repeats and all of each block."""
    pattern = pattern_held(x, "nnz")
    if getattr(pattern, "capacity", False):
        raise PatternRead  # its number of entries is one that it does not exceed
    count: int = handed_out(pattern.count)
    return count


@tensor_method
def sparse_dim(x: Tensor, /) -> int:
    """Number of axes of a sparse tensor that are indexed: the first ones.

    >>> sparse_coo_tensor([[2, 0]], [[1.0, 5.0], [3.0, 4.0]]).sparse_dim()
    1
    """
    count: int = pattern_held(x, "sparse_dim").ndim
    return count


@tensor_method
def dense_dim(x: Tensor, /) -> int:
    """Number of axes of a sparse tensor that are not indexed: the last ones, along which slices are stored.

    >>> sparse_coo_tensor([[2, 0]], [[1.0, 5.0], [3.0, 4.0]]).dense_dim()
    1
    """
    return x.ndim - int(pattern_held(x, "dense_dim").ndim)


@tensor_method
def coalesce(x: A, /) -> A:
    """A sparse tensor with each entry stored once, in row-major order.

    >>> coalesce(sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0])).values()
    iverson.Tensor([2., 4.])
    """
    if has_entries(x):
        pattern_held(x, "coalesce")
    return F.coalesce(x)


def as_pattern(x: Array | Pattern, operation: str, argument: str = "pattern") -> Pattern:
    """Pattern with each entry once, from a sparse tensor, a masked tensor with a sparse mask, or a
    pattern.
    """
    plain = zero_filled(x)
    x = plain if isinstance(value_of(plain, None), Sparse | LevelValue) else x
    result: Pattern = distinct(x if isinstance(x, Pattern) else pattern_held(x, operation, argument))
    return result


@tensor_method
def sparse_mask(x: A | ArrayLike, mask: Array, /) -> A:
    """x where a sparse tensor stores an entry, 0 elsewhere; in that tensor's layout, on the same indices.

    Only these entries of x's gradient exist; what comes before x computes no others where it can avoid them.
    Raises ShapeError where the shapes differ, ArgumentTypeError for a mask that is not sparse.

    >>> from iverson import asarray
    >>> sparse_mask(asarray([1.0, 2.0]), sparse_coo_tensor([[1]], [0.0], (2,)))
    iverson.Tensor([0., 2.], layout='coo')
    """
    x = as_operand(x, "sparse_mask")
    return F.on_pattern(x, as_pattern(mask, "sparse_mask", "mask"))


def sampled_matmul(a: ArrayLike, b: ArrayLike, pattern: Array, /) -> Tensor:
    """a @ b at the stored entries of ``pattern`` (SDDMM), in its layout; no other entry is computed.

    a has shape (*batch, m, k), b (*batch, k, n), broadcast to the sparse tensor ``pattern`` of shape
    (*batch, m, n); its values are not read. Raises ShapeError.

    >>> from iverson import ones
    >>> sampled_matmul(ones((2, 3)), ones((3, 2)), sparse_coo_tensor([[0], [1]], [0.0], (2, 2)))
    iverson.Tensor([[0., 3.],
                    [0., 0.]], layout='coo')
    """
    a, b = as_operand(a, "sampled_matmul", "a"), as_operand(b, "sampled_matmul", "b")
    target = as_pattern(pattern, "sampled_matmul")
    with speaking_as("sampled_matmul"):
        return F.from_values(F.sampled_product(a, b, pattern=target), pattern=target)


def spsolve(a: ArrayLike, b: ArrayLike, /) -> Tensor:
    """x with a @ x = b for a sparse square matrix, by SuperLU; b is a vector or a matrix of columns.

    Differentiable in both by the implicit function theorem: one more solve with the transpose. The factors
    are kept on the pattern until it is solved with other values, and serve every solve with the same matrix
    and with its transpose; `iverson.linalg.factorized` holds on to them. Raises ShapeError,
    LinearAlgebraError for a singular matrix.

    >>> from iverson import asarray
    >>> spsolve(to_layout(asarray([[2.0, 0.0], [1.0, 1.0]]), "csr"), asarray([2.0, 3.0]))
    iverson.Tensor([1., 2.])
    """
    a, b = as_operand(a, "spsolve", "a"), as_operand(b, "spsolve", "b")
    if a.ndim != 2 or b.ndim not in (1, 2):
        raise ShapeError(
            "spsolve", got=f"shapes {a.shape} and {b.shape}", expected="a matrix, and a vector or a matrix"
        )
    with speaking_as("spsolve"):
        return by_columns(lambda b: F.solve(a, b), b)


__all__ = [
    "coalesce",
    "sampled_matmul",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "sparse_mask",
    "spsolve",
    "to_layout",
    "to_sparse",
    "with_values",
]
