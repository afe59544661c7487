"""Indexing by integer positions. ``x[key]`` itself is in `iverson.handles.subscripts`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import addresses_of, as_operand, check_entries
from iverson.array_api.entries.joining import take_positions
from iverson.array_api.entries.manipulation import as_vector
from iverson.core.dispatch import Wrapper, has_entries, rewrap, unwrap, value_of, zero_filled
from iverson.core.errors import DTypeError, IndexingError, ShapeError
from iverson.core.protocols import NDArray
from iverson.core.shapes import broadcast_shapes, normalize_axis
from iverson.handles.subscripts import as_index
from iverson.layouts import nonzero_indices
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.tensor import Tensor
    from iverson.handles.typing import A, ArrayLike, Axis


def positions(indices: Array | ArrayLike, extent: int, operation: str, argument: str = "indices") -> Any:
    """Checked integer positions on an axis of ``extent``, negative ones converted: a NumPy array, or a traced
    handle.

    Raises DTypeError unless they are integers, IndexingError outside the axis (for a handle, when the graph
    runs).
    """
    operand = as_operand(indices, operation, argument)
    plain = as_index(operand)
    readable = has_entries(plain)
    index: Any = F.to_numpy(plain) if readable else plain
    if index.dtype.kind not in "iu":
        raise DTypeError(
            operation,
            argument,
            got=f"dtype {index.dtype}",
            expected="integers",
            remedy="use x[mask] for boolean masks" if index.dtype.kind == "b" else "",
        )
    if not readable:
        return F.checked_index(index, extent=extent, operation=operation, argument=argument)
    index = index.astype(np.intp)  # a copy: what was checked is kept for backward, and the caller may write
    if not index.size:
        return index
    low, high = index.min(), index.max()
    if low < -extent or high >= extent:
        raise IndexingError(
            operation,
            argument,
            got=f"position {high if high >= extent else low}",
            expected=f"one in [{-extent}, {extent})",
        )
    return np.where(index < 0, index + extent, index) if low < 0 else index


@method
def take(x: A | ArrayLike, indices: Array | ArrayLike, /, *, axis: Axis | None = None) -> A:
    """x at integer positions along an axis; the axes of ``indices`` take that axis's place.

    ``axis`` may be left out for vectors. Raises IndexingError for positions outside the axis, DTypeError
    for indices that are not integers, AxisError.

    >>> from iverson import asarray
    >>> take(asarray([1., 2., 3.]), asarray([2, 0, -1]))
    iverson.Tensor([3., 1., 3.])
    """
    x = as_operand(x, "take")
    if axis is None and x.ndim != 1:
        raise ShapeError("take", "axis", got=f"None for shape {x.shape}", expected="one axis")
    k = normalize_axis(0 if axis is None else axis, x.ndim, "take")
    return take_positions(x, positions(indices, x.shape[k], "take"), k)


@method
def take_along_axis(x: A | ArrayLike, indices: A | ArrayLike, /, *, axis: Axis = -1) -> A:
    """x at positions along an axis given for each of the other axes' entries, as `argsort` gives them.

    ``indices`` has x's rank and broadcasts with x on the other axes. Raises IndexingError for positions
    outside the axis, ShapeError where the shapes do not fit, DTypeError, AxisError.

    >>> from iverson import argsort, asarray
    >>> x = asarray([[3., 1., 2.]])
    >>> take_along_axis(x, argsort(x))
    iverson.Tensor([[1., 2., 3.]])
    """
    x = as_operand(x, "take_along_axis")
    k = normalize_axis(axis, x.ndim, "take_along_axis")
    handle: Any = indices
    if isinstance(handle, Wrapper):
        return _take_at_held(x, handle, k)
    along = positions(handle, x.shape[k], "take_along_axis")
    if along.ndim != x.ndim:
        raise ShapeError(
            "take_along_axis",
            "indices",
            got=f"shape {along.shape} for an array of shape {x.shape}",
            expected=f"{x.ndim} axes",
        )
    lengths = tuple(1 if j == k else n for j, n in enumerate(x.shape))
    shape = broadcast_shapes("take_along_axis", along.shape, lengths)
    full_shape = tuple(n if j == k else shape[j] for j, n in enumerate(x.shape))
    if full_shape != x.shape:
        x = F.broadcast_to(x, shape=full_shape)
    return F.take_along(x, along, k)


def _take_at_held(x: Array, indices: Any, k: int) -> Any:
    """Entries of ``x`` at the specified positions in ``indices``, a masked tensor; the result has its mask.

    k : the axis that the positions are on.
    """
    entries = unwrap(indices)
    if not has_entries(entries) and entries.shape == (indices.size,):  # it may not be known which exist
        entries = F.reshape(zero_filled(indices), shape=entries.shape)
    along = positions(entries, x.shape[k], "take_along_axis")
    lengths = tuple(1 if j == k else n for j, n in enumerate(indices.shape))
    if indices.ndim != x.ndim or broadcast_shapes("take_along_axis", x.shape, lengths) != x.shape:
        raise ShapeError(
            "take_along_axis",
            "indices",
            got=f"shape {indices.shape} for an array of shape {x.shape}",
            expected="the same extents on the other axes, as some do not exist",
        )
    at = list(np.unravel_index(addresses_of(indices), indices.shape))
    at[k] = along
    return rewrap(indices, F.gather(x, *at, axes=tuple(range(x.ndim))))


@method
def nonzero(x: Array | ArrayLike, /) -> tuple[Tensor, ...]:
    """The positions of the nonzero entries in row-major order, one int64 tensor per axis.

    Of a MaskedTensor, only specified entries count. Raises ShapeError for rank 0.

    >>> from iverson import asarray
    >>> nonzero(asarray([0, 3, 0, 4]))
    (iverson.Tensor([1, 3]),)
    """
    x = as_operand(x, "nonzero")
    if not x.ndim:
        raise ShapeError("nonzero", "x", got="rank 0", expected="at least one axis")
    check_entries(
        "nonzero",
        x,
        decides="the shape of the result",
        remedy="keep the shape: where(x, y, 0) or masked_tensor(y, x != 0) in place of y[nonzero(x)]",
    )
    plain: Any = zero_filled(x)
    return tuple(as_operand(axis_positions, "nonzero") for axis_positions in nonzero_indices(value_of(plain)))


def flat_take(x: Array | ArrayLike, addresses: NDArray, operation: str) -> Any:
    """Entries of ``x``, flattened, at ``addresses``, which were checked before."""
    return F.gather(as_vector(x, operation), addresses, axes=(0,))


__all__ = ["nonzero", "take", "take_along_axis"]
