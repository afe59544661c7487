"""Creation functions: new tensors from shapes, numbers, ranges and other libraries' arrays.

All of them take ``dtype``, ``device`` (None or "cpu") and ``requires_grad``. `asarray` is in
`iverson.handles`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import (
    SCALARS,
    as_operand,
    as_operands,
    as_weak,
    cast,
    check_device,
    given_dtype,
)
from iverson.array_api.entries.manipulation import diagonal
from iverson.array_api.sparse_arrays.sparse_construction import with_numbers
from iverson.core import dtypes
from iverson.core.dispatch import LevelValue, Wrapper, created, rewrap, unwrap, value_of
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    BufferExportError,
    OutOfMemoryError,
    ShapeError,
    described,
    speaking_as,
)
from iverson.core.float_warnings import at_user_line
from iverson.core.inputs.arguments import checked
from iverson.core.protocols import DType, NDArray
from iverson.core.shapes import (
    Shape,
    as_int,
    as_shape,
    broadcast_shapes,
    check_choice,
    check_storable,
    normalize_axis,
)
from iverson.handles import Tensor, asarray
from iverson.handles.array import Array
from iverson.kernels.deferred_patterns import noted, stored_by
from iverson.layouts import CooPattern, Pattern, Sparse, convert, warn_dense
from iverson.layouts.conversion import without_entries
from iverson.layouts.pattern import index_dtype
from iverson.layouts.pattern_symbols import PatternRead, StandIn
from iverson.layouts.strided import aligned_empty, aligned_zeros
from iverson.ops import F
from iverson.ops.moves.pattern_ops import check_fits, check_layout

if TYPE_CHECKING:
    from iverson.handles.typing import (
        A,
        ArrayLike,
        Axis,
        Data,
        Device,
        DTypeLike,
        Layout,
        Real,
        ShapeLike,
        SupportsDLPack,
    )


Body = Callable[[Any, Any], Any]


def _made(array: NDArray | Sparse, requires_grad: bool) -> Any:
    """New tensor of a value, marked as created by this call; a leaf if ``requires_grad``."""
    return created(Tensor(array).requires_grad_() if requires_grad else Tensor(array))


def _allocated(name: str, shape: Shape, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Result of ``make(*args)``; raises OutOfMemoryError, with the user's function ``name``, if memory does
    not suffice.
    """
    try:
        return make(*args, **options)
    except MemoryError as error:
        expected = "an array that fits into memory"
        raise OutOfMemoryError(name, got=f"shape {tuple(shape)}", expected=expected) from error


def _filled(shape: Shape, dtype: DType, value: Array | ArrayLike) -> Any:
    array = aligned_empty(shape, dtype)
    array.fill(value)
    return array


_filled_with = at_user_line(_filled)
_linspace = at_user_line(np.linspace)


def _ones(shape: Shape, dtype: DType) -> Any:
    return _filled(shape, dtype, 1)


def _shaped(
    name: str, body: Body, shape: ShapeLike, dtype: DTypeLike | None, device: Device, requires_grad: bool
) -> Any:
    """New tensor of a shape, whose array ``body(shape, dtype)`` makes.

    name : the public function, for errors. dtype : None for the default float.
    """
    check_device(device, name)
    entry_dtype = given_dtype(dtype, dtypes.default_float, name)
    shape = check_storable(as_shape(shape, name), entry_dtype, name)
    return _made(_allocated(name, shape, body, shape, entry_dtype), requires_grad)


def _settled(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The ``shape`` for a new array; raises PatternRead if an extent stands for any number of entries.

    The new array would not show that its extent depends on that number.
    """
    if StandIn in map(type, shape):
        raise PatternRead
    return shape


def _shaped_like(
    name: str, body: Body, x: Any, dtype: DTypeLike | None, device: Device, requires_grad: bool
) -> Any:
    """New tensor of the shape of ``x``, whose array ``body(shape, dtype)`` makes.

    A wrapper gives a wrapper with the same mask. `zeros_like` of a sparse tensor is sparse.
    """
    check_device(device, name)
    x = with_numbers(as_operand(x, name))
    if isinstance(x, Wrapper):
        return rewrap(x, _shaped_like(name, body, unwrap(x), dtype, device, requires_grad))
    entry_dtype = given_dtype(dtype, x.dtype, name)
    value = value_of(x, None)
    pattern = stored_by(x) if name == "zeros_like" and isinstance(value, Sparse | LevelValue) else None
    if isinstance(value, Sparse) and pattern is None:
        warn_dense(value, name)
    shape = check_storable(_settled(x.shape), entry_dtype, name, "x")
    if isinstance(pattern, Pattern):
        return _made(without_entries(pattern, shape, entry_dtype), requires_grad)
    result = _made(_allocated(name, shape, body, shape, entry_dtype), requires_grad)
    return result if pattern is None else noted(result, pattern)


@checked
def zeros(
    shape: ShapeLike,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor of the given shape, its entries 0.

    ``shape`` is an integer or a sequence of them; ``dtype`` is float64 unless given. Raises ShapeError
    for negative extents, DTypeError for a dtype Iverson does not have.

    >>> zeros((2, 0), dtype="float32").shape
    (2, 0)
    """
    return _shaped("zeros", aligned_zeros, shape, dtype, device, requires_grad)


@checked
def ones(
    shape: ShapeLike,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor of the given shape, its entries 1.

    ``shape`` is an integer or a sequence of them; ``dtype`` is float64 unless given. Raises ShapeError
    for negative extents, DTypeError for a dtype Iverson does not have.

    >>> ones((2, 0), dtype="float32").shape
    (2, 0)
    """
    return _shaped("ones", _ones, shape, dtype, device, requires_grad)


@checked
def empty(
    shape: ShapeLike,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor of the given shape, its entries not initialised.

    ``shape`` is an integer or a sequence of them; ``dtype`` is float64 unless given. Raises ShapeError
    for negative extents, DTypeError for a dtype Iverson does not have.

    >>> empty((2, 0), dtype="float32").shape
    (2, 0)
    """
    return _shaped("empty", aligned_empty, shape, dtype, device, requires_grad)


@checked
def zeros_like(
    x: A | ArrayLike,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> A:
    """A new tensor of x's shape and (unless given) dtype, its entries 0, in x's layout if that is sparse.

    Of a MaskedTensor a MaskedTensor with its mask.

    >>> zeros_like(zeros((2, 0), dtype="int8"))
    iverson.Tensor([], shape=(2, 0), dtype=int8)
    """
    return _shaped_like("zeros_like", aligned_zeros, x, dtype, device, requires_grad)


def zero_of(x: Array) -> Any:
    """Zero wherever ``x`` has an entry: the number 0.0, or a masked tensor of zeros if ``x`` is masked."""
    make: Any = zeros_like
    return make(x) if isinstance(x, Wrapper) else 0.0


@checked
def ones_like(
    x: A | ArrayLike,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> A:
    """A new tensor of x's shape and (unless given) dtype, its entries 1.

    Of a MaskedTensor a MaskedTensor with its mask.

    >>> ones_like(zeros((2, 0), dtype="int8"))
    iverson.Tensor([], shape=(2, 0), dtype=int8)
    """
    return _shaped_like("ones_like", _ones, x, dtype, device, requires_grad)


@checked
def empty_like(
    x: A | ArrayLike,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> A:
    """A new tensor of x's shape and (unless given) dtype, its entries not initialised.

    Of a MaskedTensor a MaskedTensor with its mask.

    >>> empty_like(zeros((2, 0), dtype="int8"))
    iverson.Tensor([], shape=(2, 0), dtype=int8)
    """
    return _shaped_like("empty_like", aligned_empty, x, dtype, device, requires_grad)


def _dtype_of_scalar(value: Array | ArrayLike, operation: str, argument: str) -> Any:
    """Default dtype for a Python scalar by its type; raises ArgumentTypeError for anything else."""
    kinds = {bool: dtypes.bool, int: dtypes.default_int, float: dtypes.default_float}
    kinds[complex] = dtypes.default_complex
    if type(value) not in kinds:
        raise ArgumentTypeError(
            operation, argument, got=f"a {type(value).__name__}", expected="a Python scalar"
        )
    return kinds[type(value)]


@checked
def full(
    shape: ShapeLike,
    fill_value: Array | ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor of the given shape, every entry ``fill_value``: a number, or an array of rank 0.

    The dtype follows the value's type (float64, int64, complex128 or bool; that of an array) unless given.
    Differentiable in an array. Raises ArgumentTypeError for a fill that is neither, ShapeError for an array
    of higher rank, ArgumentError for a fill that the dtype cannot hold.

    >>> full((2,), 3)
    iverson.Tensor([3, 3])
    """
    check_device(device, "full")
    if type(fill_value) not in SCALARS:
        value = _scalar_array(fill_value, "full")
        entry_dtype = given_dtype(dtype, value.dtype, "full")
        return _broadcast(value, as_shape(shape, "full"), entry_dtype, requires_grad, "full")
    value_dtype = _dtype_of_scalar(fill_value, "full", "fill_value")
    entry_dtype = given_dtype(dtype, value_dtype, "full")
    extents = check_storable(as_shape(shape, "full"), entry_dtype, "full")
    return _made(_fill(extents, entry_dtype, fill_value, value_dtype), requires_grad)


@checked
def full_like(
    x: A | ArrayLike,
    /,
    fill_value: Array | ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> A:
    """A new tensor of x's shape and (unless given) dtype, every entry ``fill_value``.

    Of a MaskedTensor a MaskedTensor with its mask. Errors are those of `full`.

    >>> full_like(zeros((2,)), 3)
    iverson.Tensor([3., 3.])
    """
    check_device(device, "full_like")
    x = as_operand(x, "full_like")
    operand: Any = x
    if isinstance(operand, Wrapper):
        inner = unwrap(operand)
        filled_inner: A = full_like(
            inner, fill_value, dtype=dtype, device=device, requires_grad=requires_grad
        )
        return rewrap(operand, filled_inner)
    value = value_of(x, None)
    if isinstance(value, Sparse):
        warn_dense(value, "full_like")
    if type(fill_value) not in SCALARS:
        entry_dtype = given_dtype(dtype, x.dtype, "full_like")
        return _broadcast(
            _scalar_array(fill_value, "full_like"), _settled(x.shape), entry_dtype, requires_grad, "full_like"
        )
    value_dtype = _dtype_of_scalar(fill_value, "full_like", "fill_value")
    entry_dtype = given_dtype(dtype, x.dtype, "full_like")
    return _made(
        _fill(
            check_storable(_settled(x.shape), entry_dtype, "full_like", "x"),
            entry_dtype,
            fill_value,
            value_dtype,
        ),
        requires_grad,
    )


def _scalar_array(value: Array | ArrayLike, name: str) -> Any:
    """Handle of rank 0 with the entry to fill an array with; raises ShapeError for another rank."""
    value = as_operand(value, name, "fill_value")
    if value.ndim:
        raise ShapeError(name, "fill_value", got=f"shape {value.shape}", expected="a number or rank 0")
    return value


def _broadcast(value: Array, shape: Shape, dtype: DType, requires_grad: bool, name: str) -> Any:
    """Array of ``shape`` and ``dtype`` with ``value``, of rank 0, as each entry; differentiable in
    ``value``.
    """
    check_storable(shape, dtype, name)
    if not _fits(value.dtype, dtype):
        raise ArgumentError(
            name, "fill_value", got=f"dtype {value.dtype}", expected=f"a value that {dtype} can hold"
        )
    result = F.broadcast_to(cast(value, dtype), shape=shape)
    return result.requires_grad_() if requires_grad and not result.requires_grad else result


def _fits(value_dtype: DType, dtype: DType) -> bool:
    """Return True if entries of ``value_dtype`` may fill an array of ``dtype``."""
    return bool(dtypes.can_cast(value_dtype, dtype, "same_kind")) or (
        value_dtype.kind in "bi" and dtype.kind in "iufcV"
    )


def _fill(shape: Shape, dtype: DType, value: Array | ArrayLike, value_dtype: DType) -> Any:
    try:
        if _fits(value_dtype, dtype):
            return _allocated("full", shape, _filled_with, shape, dtype, value)
    except OverflowError:
        pass
    raise ArgumentError("full", "fill_value", got=repr(value), expected=f"a value that {dtype} can hold")


@checked
def arange(
    start: Real,
    /,
    stop: Real | None = None,
    step: Real = 1,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from ``start`` up to but not including ``stop``, ``step`` apart; ``arange(n)`` starts at 0.

    All three are Python numbers; the dtype is int64 if all are integers, else float64. Raises
    ArgumentError for a step of 0.

    >>> arange(2, 8, 3), arange(3.0)
    (iverson.Tensor([2, 5]), iverson.Tensor([0., 1., 2.]))
    """
    check_device(device, "arange")
    if stop is None:
        start, stop = 0, start
    for argument, value in (("start", start), ("stop", stop), ("step", step)):
        if type(value) not in (int, float) and not isinstance(value, np.number):
            raise ArgumentTypeError(
                "arange", argument, got=f"a {type(value).__name__}", expected="a real number"
            )
        if not -(2**63) <= value < 2**63:  # nan and inf too
            raise ArgumentError("arange", argument, got=str(value), expected="a number that int64 can hold")
    if step == 0:
        raise ArgumentError("arange", "step", got="0", expected="a step that leads to stop")
    number_dtype = np.result_type(type(start), type(stop), type(step))
    entry_dtype = given_dtype(
        dtype, dtypes.default_int if number_dtype.kind in "iu" else number_dtype, "arange"
    )
    numbers: tuple[Any, ...] = (start, stop, step)
    shape = check_storable((max(int((stop - start) / step), 0),), entry_dtype, "arange", "stop")
    entries = _allocated("arange", shape, np.arange, *numbers)
    return _made(_allocated("arange", shape, entries.astype, entry_dtype), requires_grad)


@checked
def linspace(
    start: Array | ArrayLike,
    stop: Array | ArrayLike,
    /,
    num: SupportsIndex,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    endpoint: bool = True,
    axis: Axis = 0,
    requires_grad: bool = False,
) -> Tensor:
    """``num`` numbers evenly spaced from ``start`` to ``stop``, the end included unless ``endpoint=False``.

    Of arrays, which broadcast, they stand along a new axis; differentiable in both. Raises ArgumentError for
    a negative ``num``, ShapeError where the arrays do not fit, AxisError.

    >>> linspace(0, 1, 3)
    iverson.Tensor([0. , 0.5, 1. ])
    """
    check_device(device, "linspace")
    num = as_int(num, "linspace", "num")
    if num < 0:
        raise ArgumentError("linspace", "num", got=str(num), expected="a number of entries")
    if type(start) not in SCALARS or type(stop) not in SCALARS:
        return _between(start, stop, num, bool(endpoint), axis, dtype, requires_grad)
    first: Any = start
    last: Any = stop
    for argument, value in (("start", first), ("stop", last)):
        if type(value) is int and abs(value) >= 2**1023:
            raise ArgumentError(
                "linspace", argument, got="an integer of more than 1023 bits", expected="one in float64"
            )
    normalize_axis(axis, 1, "linspace")
    default_dtype = dtypes.default_complex if complex in (type(start), type(stop)) else dtypes.default_float
    entry_dtype = given_dtype(dtype, default_dtype, "linspace")
    shape, ends = check_storable((num,), entry_dtype, "linspace", "num"), (first * 1.0, last * 1.0)
    entries = _allocated("linspace", shape, _linspace, *ends, num, endpoint=endpoint, dtype=entry_dtype)
    return _made(entries, requires_grad)


def _between(
    start: Array | ArrayLike,
    stop: Array | ArrayLike,
    num: int,
    endpoint: bool,
    axis: Axis,
    dtype: DTypeLike | None,
    requires_grad: bool,
) -> Any:
    """Result of `linspace` for ends of which at least one is an array; the arguments are those of
    `linspace`.
    """
    ends = [as_weak(x, "linspace", argument) for x, argument in ((start, "start"), (stop, "stop"))]
    common_dtype = dtypes.to_inexact(dtypes.result_type(*ends))
    ends = [cast(as_operand(x, "linspace"), common_dtype) for x in ends]
    shape = broadcast_shapes("linspace", *(x.shape for x in ends))
    k = normalize_axis(axis, len(shape) + 1, "linspace")
    check_storable((*shape, num), common_dtype, "linspace", "num")
    first, last = (F.expand_dims(F.broadcast_to(x, shape=shape), axis=(k,)) for x in ends)
    part = np.arange(num, dtype=dtypes.real_of(common_dtype)) / max(num - endpoint, 1)
    part = part.astype(dtypes.real_of(common_dtype)).reshape((num,) + (1,) * (len(shape) - k))
    points = cast(first * (1 - part) + last * part, given_dtype(dtype, common_dtype, "linspace"))
    return points.requires_grad_() if requires_grad and not points.requires_grad else points


@checked
def eye(
    n_rows: SupportsIndex,
    n_cols: SupportsIndex | None = None,
    /,
    *,
    k: SupportsIndex = 0,
    dtype: DTypeLike | None = None,
    device: Device = None,
    requires_grad: bool = False,
    layout: Layout = "strided",
) -> Tensor:
    """A matrix with ones on its ``k``-th diagonal and zeros elsewhere.

    ``layout`` is one of `to_layout` that takes no blocksize. Raises ShapeError for negative extents or a
    shape that the layout cannot hold, ArgumentError for another layout.

    >>> eye(2, 3, k=1)
    iverson.Tensor([[0., 1., 0.],
                    [0., 0., 1.]])
    >>> eye(10**6, layout="csr").nnz
    1000000
    """
    check_device(device, "eye")
    rows, columns = as_shape((n_rows, n_rows if n_cols is None else n_cols), "eye")
    offset = as_int(k, "eye", "k")
    entry_dtype = given_dtype(dtype, dtypes.default_float, "eye")
    check_layout(layout, "eye", blocked=False)
    if layout == "strided":
        check_storable((rows, columns), entry_dtype, "eye")
        entries = _allocated("eye", (rows, columns), np.eye, rows, columns, k=offset, dtype=entry_dtype)
        return _made(entries, requires_grad)
    pattern = _diagonal_pattern((rows, columns), offset)
    diagonal_value = pattern.value(np.ones(pattern.count, entry_dtype))
    check_fits((rows, columns), layout, None, "eye", "layout")
    return _made(convert(diagonal_value, layout), requires_grad)


@checked
def diag(v: A | ArrayLike, /, *, k: SupportsIndex = 0, layout: Layout = "strided") -> A:
    """The square matrix with a vector on its ``k``-th diagonal and zeros elsewhere. Differentiable in v.

    Of a matrix, its ``k``-th diagonal, as `diagonal`.

    layout : as in `eye`; in a sparse one, every entry of v is stored, and no other.

    Raises ShapeError unless v is a vector, ArgumentError for another layout.

    >>> diag(arange(1, 3)), diag(arange(1, 3), k=1, layout="csr").shape
    (iverson.Tensor([[1, 0],
                    [0, 2]]), (3, 3))
    """
    v = as_operand(v, "diag", "v")
    if v.ndim not in (1, 2):
        raise ShapeError("diag", "v", got=f"shape {v.shape}", expected="a vector or a matrix")
    check_layout(layout, "diag", blocked=False)
    offset = as_int(k, "diag", "k")
    if v.ndim == 2:
        with speaking_as("diag", x="v", offset="k"):
            return diagonal(v, offset=offset)
    n = v.shape[0] + abs(offset)
    # In a sparse layout too, each entry has an address.
    check_storable((n, n), v.dtype if layout == "strided" else np.dtype(bool), "diag", "k")
    if layout == "strided":
        return F.to_dense(F.diag_embed(v, offset=offset, shape=(n, n)))
    diagonal_matrix = F.from_values(F.to_dense(v), pattern=_diagonal_pattern((n, n), offset))
    with speaking_as("diag"):
        return F.to_layout(diagonal_matrix, layout=layout, blocksize=None, dense_dim=0)


def _diagonal_pattern(shape: tuple[int, ...], offset: int) -> CooPattern:
    """COO pattern of the ``offset``-th diagonal of a matrix of ``shape``."""
    rows, columns = shape
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    along = np.arange(length, dtype=index_dtype(*shape))
    if not length:  # where an offset may be too large for an index
        return CooPattern(shape, np.stack([along, along]), True)
    indices = np.stack([along + max(-offset, 0), along + max(offset, 0)]).astype(along.dtype, copy=False)
    return CooPattern(shape, indices, True)


@checked
def meshgrid(*arrays: A | ArrayLike, indexing: Literal["xy", "ij"] = "xy") -> tuple[A, ...]:
    """One grid of coordinates per axis, from vectors of coordinates.

    With ``indexing="ij"`` grid k varies along axis k; with "xy" the first two axes are exchanged. Raises
    ShapeError for an operand of rank other than 1 (rank 0 counts as one coordinate).

    >>> meshgrid(arange(2), arange(3), indexing="ij")[0]
    iverson.Tensor([[0, 0, 0],
                    [1, 1, 1]])
    """
    check_choice(indexing, ("xy", "ij"), "meshgrid", "indexing")
    if not arrays:
        return ()
    xs = as_operands(arrays, "meshgrid")
    for k, x in enumerate(xs):
        if x.ndim > 1:
            raise ShapeError("meshgrid", f"arrays[{k}]", got=f"shape {x.shape}", expected="a vector")
    order = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        order[:2] = [1, 0]
    extents = [x.shape[0] if x.ndim else 1 for x in xs]
    shape = tuple(extents[order.index(k)] for k in range(len(xs)))
    grids = []
    for k, x in enumerate(xs):
        grid_shape = tuple(extents[k] if axis == order[k] else 1 for axis in range(len(xs)))
        grids.append(F.broadcast_to(F.reshape(x, shape=grid_shape), shape=shape))
    return tuple(grids)


def _triangle(name: str, x: Array | ArrayLike, k: SupportsIndex) -> Any:
    x = as_operand(x, name)
    if x.ndim < 2:
        raise ShapeError(name, "x", got=f"shape {x.shape}", expected="at least two axes")
    return getattr(F, name)(x, k=as_int(k, name, "k"))


@method
def tril(x: A | ArrayLike, /, *, k: SupportsIndex = 0) -> A:
    """The lower triangles of matrices, zeros elsewhere; ``k`` moves the last diagonal.

    x has shape (..., m, n). The zeros are specified, of a MaskedTensor too. Raises ShapeError for fewer than
    two axes.

    >>> int(tril(ones((3, 3))).sum()), int(tril(ones((3, 3)), k=-1).sum())
    (6, 3)
    """
    return _triangle("tril", x, k)


@method
def triu(x: A | ArrayLike, /, *, k: SupportsIndex = 0) -> A:
    """The upper triangles of matrices, zeros elsewhere; ``k`` moves the last diagonal.

    x has shape (..., m, n). The zeros are specified, of a MaskedTensor too. Raises ShapeError for fewer than
    two axes.

    >>> int(triu(ones((3, 3))).sum()), int(triu(ones((3, 3)), k=-1).sum())
    (6, 8)
    """
    return _triangle("triu", x, k)


@checked
def from_dlpack(
    x: SupportsDLPack, /, *, device: Device = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of another library's array, through the DLPack protocol; shares memory unless ``copy=True``.

    Raises ArgumentTypeError for an object without ``__dlpack__``, BufferExportError (a BufferError) where
    ``copy=False`` cannot be kept.

    >>> import numpy
    >>> from_dlpack(numpy.arange(3))
    iverson.Tensor([0, 1, 2])
    """
    check_device(device, "from_dlpack")
    if not hasattr(x, "__dlpack__"):
        raise ArgumentTypeError(
            "from_dlpack", "x", got=f"a {type(x).__name__}", expected="an object with __dlpack__"
        )
    try:
        array = np.from_dlpack(x, copy=copy)
    except (BufferError, ValueError) as error:
        raise BufferExportError(
            "from_dlpack", "x", got=described(x), expected="what DLPack can pass on", remedy=str(error)
        ) from error
    return asarray(array, requires_grad=requires_grad)


@checked
def tensor(
    data: Data, /, *, dtype: DTypeLike | None = None, device: Device = None, requires_grad: bool = False
) -> Tensor:
    """A Tensor with a copy of what ``data`` holds: `asarray` with ``copy=True``, under PyTorch's name.

    Parameters
    ----------
    data : a Tensor, NumPy array, Python number, nested sequence or DLPack exporter.
    dtype : of the result; by default that of ``data`` (Python floats become float64, ints int64).
    device : None or "cpu".
    requires_grad : make the result a new leaf of the graph.

    What is made of a tensor that tracks gradients depends on it, unless it is a new leaf.

    Raises DTypeError for dtypes Iverson does not have, ArgumentTypeError for what is no array.

    >>> import iverson as iv
    >>> iv.tensor([1.0, 2.0], requires_grad=True)
    iverson.Tensor([1., 2.], requires_grad=True)
    """
    with speaking_as("tensor", obj="data"):
        return asarray(data, dtype=dtype, device=device, copy=True, requires_grad=requires_grad)


__all__ = [
    "arange", "asarray", "diag", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace",
    "meshgrid", "ones", "ones_like", "tensor", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip
