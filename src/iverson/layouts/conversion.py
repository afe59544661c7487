"""Layout conversion: values from one layout into another, and sparse values made of arrays and addresses.

A pattern is converted once, and the result is kept on it (`ByPattern`); after that values are only reordered.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.errors import ShapeError
from iverson.core.inputs.arrays import repeat, tile
from iverson.core.protocols import LayoutValue
from iverson.core.shapes import Shape
from iverson.layouts.compressed import CompressedPattern
from iverson.layouts.coo import CooPattern, coalesced, of_nonzeros
from iverson.layouts.layout_registry import Blocks, layout_named, layout_of
from iverson.layouts.layout_registry import to_strided as strided_of
from iverson.layouts.pattern import Array, Pattern, Sparse, coordinates_of
from iverson.layouts.placement import ByPattern, converted

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


def can_hold(layout: str, shape: Shape, blocks: Blocks = None) -> bool:
    """True if a layout can hold a tensor whose sparse axes have this shape."""
    return not layout_named(layout).unfit(shape, blocks)


def convert(value: LayoutValue, layout: str, blocksize: Blocks = None, dense_dim: int | None = None) -> Any:
    """A value in another layout that can hold its shape; entries stored twice are summed.

    dense_dim : how many trailing axes are dense; None for those of the value that the layout can have dense.

    Raises the error of the layout's ``from_coo`` where the layout cannot hold the entries.
    """
    target = layout_named(layout)
    rank = len(value.shape)
    if dense_dim is None:
        dense_dim = dense_axes(value.pattern, value.shape, layout) if isinstance(value, Sparse) else 0
    axes = rank - dense_dim
    if unfit := target.unfit(value.shape[:axes], blocksize):  # loops over entries trust what they are given
        description = f"shape {value.shape[:axes]}" + (f", then {dense_dim} dense axes," if dense_dim else "")
        raise ShapeError("to_layout", "x", got=f"{description} for layout '{layout}'", expected=unfit)
    if target.kind is np.ndarray:
        return strided_of(value)
    sparse_value: Sparse = value if isinstance(value, Sparse) else to_coo(value)
    sparse_value = with_dense_axes(coalesced(with_sparse_axes(sparse_value, axes)), axes)
    if type(sparse_value) is target.kind and sparse_value.pattern.blocksize == blocksize:
        return sparse_value
    from_coo = target.from_coo
    assert from_coo is not None
    return from_coo(sparse_value if isinstance(from_coo, ByPattern) else to_coo(sparse_value), blocksize)


def to_coo(value: LayoutValue) -> Any:
    """The stored entries of a value, in COO."""
    layout = layout_of(value)
    if layout.to_coo is not None:
        return layout.to_coo(value)
    if isinstance(value, Sparse):
        return converted(value.pattern, "coo")[0].value(value.entries)
    parts = layout.stored(value)
    if parts is None or not value.shape:
        return of_nonzeros(layout.to_strided(value))
    index = np.nonzero(parts[0]) if isinstance(parts[0], np.ndarray) else parts[0]
    if any(isinstance(i, slice) for i in index):
        return of_nonzeros(layout.to_strided(value))
    return CooPattern.of_indices(index, value.shape[: len(index)]).value(parts[1])


def dense_axes(pattern: Pattern, shape: Shape, layout: str) -> int:
    """Number of trailing axes of a value that can stay dense when it is converted to ``layout``.

    These are the dense axes of the value, except those that the layout must index (CSR needs two sparse
    axes).

    pattern, shape : of the value; axes of ``shape`` behind those of ``pattern`` are dense.
    """
    target, rank = layout_named(layout), len(shape)
    if not target.dense_axes:
        return 0
    return next((rank - k for k in range(pattern.ndim, rank) if not target.unfit(shape[:k], None)), 0)


def with_dense_axes(value: Sparse, count: int) -> Any:
    """Convert ``value`` to one with at most ``count`` sparse axes; the axes behind them become dense.

    A slice over the new dense axes that contains an entry is stored as a whole, with zeros. Each entry of
    ``value`` must be stored once. A value with ``count`` sparse axes or fewer is returned unchanged.
    """
    pattern = value.pattern
    if pattern.ndim <= count:
        return value
    lead, inner = pattern.shape[:count], pattern.shape[count:]
    slices, within = np.divmod(pattern.keys, max(prod(inner), 1))
    keys, at = np.unique(slices, return_inverse=True)
    entries = np.zeros((keys.size, prod(inner), *value.dense_shape), value.dtype)
    entries[at, within] = value.entries
    coo = CooPattern.of_keys(keys, lead, pattern.index_dtype)
    return coo.value(entries.reshape(keys.size, *inner, *value.dense_shape))


def with_sparse_axes(value: Sparse, count: int) -> Any:
    """Convert ``value`` to one in COO with ``count`` sparse axes: all numbers along new ones are stored.

    A value with at least ``count`` sparse axes is returned unchanged.
    """
    k = value.pattern.ndim
    if k >= count:
        return value
    inner = value.dense_shape[: count - k]
    within = np.indices(inner, value.pattern.index_dtype).reshape(len(inner), -1)
    width = within.shape[1]
    indices = np.concatenate(
        [repeat(value.pattern.coordinates, width, axis=1), tile(within, value.pattern.count)]
    )
    entries = value.entries.reshape((indices.shape[1], *value.dense_shape[count - k :]))
    return CooPattern(value.shape[:count], indices, value.pattern.distinct or None).value(entries)


def like(value: Sparse, model: Pattern) -> Any:
    """Convert ``value`` to the layout of ``model`` if `_suits` allows it for this shape, else to COO."""
    if _suits(value.pattern.shape, model, value.pattern.count):
        return convert(value, model.layout, model.blocksize)
    return value if value.pattern.layout == "coo" else convert(value, "coo")


def from_keys(keys: Array, shape: Shape, model: Pattern) -> Pattern:
    """Pattern of entries at the increasing row-major addresses ``keys``.

    It has the layout of ``model`` if `_suits` allows it for ``shape``, else COO.
    """
    coo = CooPattern.of_keys(keys, shape, model.index_dtype)
    return converted(coo, model.layout, model.blocksize)[0] if _suits(shape, model, keys.size) else coo


def _suits(shape: Shape, model: Pattern, count: int) -> bool:
    """True if the compressed layout of ``model`` fits a result of ``shape`` that stores ``count`` entries.

    The result must not store mostly starts of lines: its lines are as long as those of ``model``, or it has
    no more lines than ``model`` has or than it has entries.
    """
    if type(model) is not CompressedPattern or not can_hold(model.layout, shape, model.blocks):
        return False
    along = -1 - model.axis
    if shape[along] >= model.shape[along]:
        return True
    return prod(shape) <= max(prod(model.shape) // model.shape[along], count) * shape[along]


def without_entries(model: Pattern, shape: Shape, dtype: DTypeLike) -> Any:
    """Sparse value in the layout of ``model`` that stores nothing.

    shape : of the value; it begins with the shape of ``model``, and the other axes are dense.
    """
    empty = CooPattern.of_keys(np.zeros(0, np.int64), model.shape, model.index_dtype)
    return convert(empty.value(np.zeros((0, *shape[model.ndim :]), dtype)), model.layout, model.blocksize)


def nonzero_indices(value: LayoutValue) -> tuple[Array, ...]:
    """The indices of the nonzero entries of a value, in row-major order, one int64 array per axis."""
    if not isinstance(value, Sparse):
        return np.nonzero(strided_of(value))
    sparse_value = coalesced(with_sparse_axes(value, len(value.shape)))
    keys, order = sparse_value.pattern.sorted
    indices = coordinates_of(keys[sparse_value.entries[order] != 0], value.shape)
    return tuple(indices)


def from_strided(x: Array, layout: str, blocks: Blocks = None, sparse_axes: int | None = None) -> Any:
    """Convert an array to a sparse layout that stores its nonzero entries.

    sparse_axes : number of leading axes that are sparse (by default all). The slices over these axes that
        contain a nonzero entry are stored as a whole.
    """
    return convert(of_nonzeros(x, sparse_axes), layout, blocks)
