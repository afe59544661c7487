"""Functional updates: new arrays with entries changed at positions; nothing here writes into its operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iverson.array_api.conventions.methods import method, tensor_method, tensor_property
from iverson.array_api.conventions.operands import as_operand, as_plain, as_weak, cast, check_kind
from iverson.array_api.entries.creation import arange
from iverson.array_api.entries.indexing import positions, take_along_axis
from iverson.core import dtypes
from iverson.core.errors import DTypeError, ShapeError, speaking_as
from iverson.core.shapes import normalize_axis
from iverson.kernels.strided import index_along
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.subscripts import Key
    from iverson.handles.tensor import Tensor
    from iverson.handles.typing import A, ArrayLike, Axis


@method
def masked_fill(x: A | ArrayLike, mask: Array | ArrayLike, value: A | ArrayLike, /) -> A:
    """``value`` where the mask is True, else x. The three broadcast.

    What is replaced has a gradient of 0. Raises DTypeError unless the mask is bool, ShapeError where shapes
    do not fit.

    >>> from iverson import asarray
    >>> masked_fill(asarray([1., 2.]), asarray([True, False]), 0.)
    iverson.Tensor([0., 2.])
    """
    mask = as_operand(mask, "masked_fill", "mask")
    check_kind(mask, "b", "masked_fill", "mask")
    return F.where(mask, as_weak(value, "masked_fill", "value"), as_operand(x, "masked_fill"))


@method
def gather(x: A | ArrayLike, indices: A | ArrayLike, /, *, axis: Axis = -1) -> A:
    """x at positions along an axis given for each of the other axes' entries, as in PyTorch.

    As `take_along_axis`, but that the result has the shape of ``indices``: on the other axes their extents
    may be less than x's, of which the first entries are read. Raises IndexingError for positions outside the
    axis, ShapeError where the shapes do not fit, DTypeError, AxisError.

    >>> from iverson import asarray
    >>> gather(asarray([[3., 1., 2.]]), asarray([[2, 0]]), axis=1)
    iverson.Tensor([[2., 3.]])
    """
    x, at = as_operand(x, "gather"), as_operand(indices, "gather", "indices")
    k = normalize_axis(axis, x.ndim, "gather")
    if at.ndim == x.ndim:
        extents = tuple(n if j == k else min(n, at.shape[j]) for j, n in enumerate(x.shape))
        x = _first(x, extents)
    with speaking_as("gather"):
        return take_along_axis(x, at, axis=k)


def _first(x: Array, extents: tuple[int, ...]) -> Any:
    """First entries of ``x`` on each axis, as many as ``extents`` says."""
    return x if x.shape == extents else F.index_basic(x, key=tuple(slice(0, n, 1) for n in extents))


def _added(x: Array, values: Array | ArrayLike, operation: str) -> Any:
    """The ``values`` in the dtype of ``x``, to which they will be added; raises DTypeError if it cannot hold
    them.
    """
    values = as_plain(values, operation, "values")
    if dtypes.result_type(x, values) != x.dtype:
        raise DTypeError(
            operation,
            "values",
            got=f"dtype {values.dtype}",
            expected=f"one that {x.dtype} can hold",
            remedy="convert x or the values with astype",
        )
    return cast(values, x.dtype)


@tensor_method
def scatter(x: A | ArrayLike, indices: Array | ArrayLike, values: A | ArrayLike, /, *, axis: Axis = -1) -> A:
    """x with values in place of the entries at positions along an axis: what `gather` reads, written.

    Of values for one place the last counts; what is replaced has a gradient of 0, and so has a value that
    another replaces. Arguments and errors are those of `scatter_add`.

    >>> from iverson import asarray
    >>> scatter(asarray([1., 1., 1.]), asarray([2, 0]), asarray([3., 4.]))
    iverson.Tensor([4., 1., 3.])
    """
    target, entries, index = _along(x, indices, values, axis, "scatter")
    return F.gather_put(target, entries, *index, axes=tuple(range(target.ndim)))


@tensor_method
def scatter_add(
    x: A | ArrayLike, indices: Array | ArrayLike, values: A | ArrayLike, /, *, axis: Axis = -1
) -> A:
    """x with values added at positions along an axis, given for each of the other axes' entries.

    Parameters
    ----------
    x : the array.
    indices : positions along the axis, of x's rank. On the other axes their extents are at most x's; further
        entries of x stay as they are.
    values : what is added, as many as there are positions on each axis, or one for all; of more, as in
        PyTorch, the first. Values for one place are summed.
    axis : the axis along which they are added.

    The transpose of `gather`. Raises IndexingError for positions outside the axis, ShapeError where shapes do
    not fit, DTypeError, AxisError.

    >>> from iverson import asarray
    >>> scatter_add(asarray([1., 1., 1.]), asarray([2, 2, 0]), asarray([1., 2., 4.]))
    iverson.Tensor([5., 1., 4.])
    """
    target, entries, index = _along(x, indices, values, axis, "scatter_add")
    return target + F.scatter_add(entries, *index, axes=tuple(range(target.ndim)), shape=target.shape)


def _along(
    x: Array | ArrayLike, indices: Array | ArrayLike, values: Array | ArrayLike, axis: Axis, operation: str
) -> tuple[Any, Any, Any]:
    """Operands of a scatter along ``axis``: ``x``, the values, and index arrays for all axes of ``x``.

    The values are broadcast to the shape of ``indices``. Raises ShapeError, DTypeError or IndexingError.
    """
    x = as_plain(x, operation)
    k = normalize_axis(axis, x.ndim, operation)
    entries: Any = _added(x, values, operation)
    along = positions(indices, x.shape[k], operation)
    if along.ndim != x.ndim or any(along.shape[j] > n for j, n in enumerate(x.shape) if j != k):
        raise ShapeError(
            operation,
            "indices",
            got=f"shape {along.shape} for an array of shape {x.shape}",
            expected=f"{x.ndim} axes, with at most x's extents but on axis {k}",
        )
    if entries.ndim == along.ndim:
        entries = _first(entries, tuple(map(min, entries.shape, along.shape)))
    lead = along.ndim - entries.ndim
    if lead < 0 or any(e not in (1, n) for e, n in zip(entries.shape, along.shape[lead:], strict=True)):
        raise ShapeError(
            operation,
            "values",
            got=f"shape {entries.shape} for indices of shape {along.shape}",
            expected="as many values as indices on each axis, or one for all",
        )
    if entries.shape != along.shape:
        entries = F.broadcast_to(entries, shape=along.shape)
    return x, entries, index_along(along.shape, along, k)


@tensor_method
def index_add(x: A | ArrayLike, indices: Array | ArrayLike, values: A | ArrayLike, /, *, axis: Axis = 0) -> A:
    """x with slices added at positions on an axis, as x[indices] += values would if it counted repeats.

    ``indices`` is a vector; the values broadcast to x's shape with its length on that axis. Raises
    IndexingError for positions outside the axis, ShapeError where shapes do not fit, DTypeError, AxisError.

    >>> from iverson import asarray
    >>> index_add(asarray([1., 1., 1.]), asarray([2, 2, 0]), asarray([1., 2., 4.]))
    iverson.Tensor([5., 1., 4.])
    """
    x = as_plain(x, "index_add")
    k = normalize_axis(axis, x.ndim, "index_add")
    slices: Any = _added(x, values, "index_add")
    along = positions(indices, x.shape[k], "index_add")
    if along.ndim != 1:
        raise ShapeError("index_add", "indices", got=f"shape {along.shape}", expected="a vector")
    shape = (*x.shape[:k], along.shape[0], *x.shape[k + 1 :])
    if slices.shape != shape:
        slices = F.broadcast_to(slices, shape=shape)
    if k:  # the places are the first axis of what is scattered
        slices = F.permute_dims(slices, axes=(k, *range(k), *range(k + 1, x.ndim)))
    return x + F.scatter_add(slices, along, axes=(k,), shape=x.shape)


class At:
    """Entries of an array by key, for a new array in which they are changed: ``x.at[key].add(values)``."""

    __slots__ = ("_x",)

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, key: Key) -> Entries:
        return Entries(self._x, key)


class Entries:
    """The entries of an array that a key names."""

    __slots__ = ("_key", "_x")

    def __init__(self, x: Tensor, key: Key) -> None:
        self._x = x
        self._key = key

    def get(self) -> Tensor:
        """The entries: ``x[key]``."""
        entries: Tensor = self._x[self._key]
        return entries

    def set(self, values: Array | ArrayLike, /) -> Tensor:
        """The array with these values in place of the entries; of values for one place the last counts."""
        copy: Any = F.copy(self._x)
        copy[self._key] = values
        result: Tensor = copy
        return result

    def add(self, values: Array | ArrayLike, /) -> Tensor:
        """The array with values added to the entries; values for one place are summed."""
        x = self._x
        terms: Any = _added(x, values, "at.add")
        addresses: Any = F.reshape(arange(x.size), shape=x.shape)[self._key]
        if terms.shape != addresses.shape:
            terms = F.broadcast_to(terms, shape=addresses.shape)
        flat_positions = positions(addresses, x.size, "at.add")
        total = F.scatter_add(terms, flat_positions, axes=(0,), shape=(x.size,))
        result: Tensor = x + F.reshape(total, shape=x.shape)
        return result


@tensor_property
def at(x: Tensor) -> At:
    """Entries by key, for a new array in which they are changed: ``x.at[key].add(values)``, ``set``, ``get``.

    Differentiable in x and in the values. Keys are those of ``x[key]``.

    >>> from iverson import asarray
    >>> asarray([1., 1., 1.]).at[asarray([2, 2, 0])].add(asarray([1., 2., 4.]))
    iverson.Tensor([5., 1., 4.])
    """
    return At(x)


__all__ = ["gather", "index_add", "masked_fill", "scatter", "scatter_add"]
