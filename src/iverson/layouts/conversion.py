"""Values from one layout into another, and sparse values made of arrays and addresses.

A pattern is converted once, and that is kept on it (`ByPattern`); values are only reordered.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from iverson.core.errors import ShapeError
from iverson.core.shapes import Shape
from iverson.layouts.compressed import CompressedPattern
from iverson.layouts.coo import CooPattern, coalesced, of_nonzeros
from iverson.layouts.pattern import Array, Pattern, Sparse, coordinates_of
from iverson.layouts.placement import ByPattern, converted
from iverson.layouts.registry import Blocks, layout_named, layout_of
from iverson.layouts.registry import to_strided as strided_of


def can_hold(layout: str, shape: Shape, blocks: Blocks = None) -> bool:
    """Whether a layout can hold a tensor of this shape, with nothing but its axes."""
    return not layout_named(layout).unfit(shape, blocks)


def convert(value: Any, layout: str, blocksize: Blocks = None) -> Any:
    """A value in another layout that can hold its shape; entries stored twice are summed.

    Raises what the layout's ``from_coo`` does where it cannot hold the entries.
    """
    target = layout_named(layout)
    if unfit := target.unfit(value.shape, blocksize):  # loops over entries trust what they are given
        raise ShapeError("to_layout", "x", got=f"shape {value.shape} for layout '{layout}'", expected=unfit)
    if target.kind is np.ndarray:
        return strided_of(value)
    held: Sparse = value if isinstance(value, Sparse) else to_coo(value)
    held = coalesced(held if target.dense_axes else with_sparse_axes(held, len(held.shape)))
    if type(held) is target.kind and held.pattern.blocksize == blocksize:
        return held
    from_coo = target.from_coo
    assert from_coo is not None
    return from_coo(held if isinstance(from_coo, ByPattern) else to_coo(held), blocksize)


def to_coo(value: Any) -> Any:
    """What a value stores, in COO."""
    layout = layout_of(value)
    if layout.to_coo is not None:
        return layout.to_coo(value)
    if isinstance(value, Sparse):
        return converted(value.pattern, "coo")[0].value(value.entries)
    found = layout.stored(value)
    if found is None or not value.shape:
        return of_nonzeros(layout.to_strided(value))
    index = np.nonzero(found[0]) if isinstance(found[0], np.ndarray) else found[0]
    if any(isinstance(i, slice) for i in index):
        return of_nonzeros(layout.to_strided(value))
    return CooPattern.of_indices(index, value.shape[: len(index)]).value(found[1])


def with_sparse_axes(value: Sparse, count: int) -> Any:
    """A value with at least ``count`` sparse axes: dense trailing axes become indexed ones."""
    k = value.pattern.ndim
    if k >= count:
        return value
    inner = value.dense_shape[: count - k]
    within = np.indices(inner, value.pattern.index_dtype).reshape(len(inner), -1)
    width = within.shape[1]
    indices = np.concatenate(
        [np.repeat(value.pattern.coordinates, width, axis=1), np.tile(within, value.pattern.count)]
    )
    entries = value.entries.reshape((-1, *value.dense_shape[count - k :]))
    if not entries.size:
        entries = np.zeros((indices.shape[1], *value.dense_shape[count - k :]), value.dtype)
    return CooPattern(value.shape[:count], indices, value.pattern.distinct or None).value(entries)


def like(value: Sparse, model: Pattern) -> Any:
    """A value in the layout of a pattern where that `suits` it, else in COO."""
    if not value.dense_shape and _suits(value.shape, model, value.pattern.count):
        return convert(value, model.layout, model.blocksize)
    return value if value.pattern.layout == "coo" else convert(value, "coo")


def from_keys(keys: Array, shape: Shape, model: Pattern) -> Pattern:
    """The pattern of increasing addresses, in the layout of a pattern where that suits it, else in COO."""
    coo = CooPattern.of_keys(keys, shape, model.index_dtype)
    return converted(coo, model.layout, model.blocksize)[0] if _suits(shape, model, keys.size) else coo


def _suits(shape: Shape, model: Pattern, count: int) -> bool:
    """Whether the compressed layout of a pattern can hold a result of a shape without storing mostly starts
    of lines: its lines are as long as the pattern's, or no more than those or than the entries."""
    if type(model) is not CompressedPattern or not can_hold(model.layout, shape, model.blocks):
        return False
    along = -1 - model.axis
    if shape[along] >= model.shape[along]:
        return True
    return prod(shape) <= max(prod(model.shape) // model.shape[along], count) * shape[along]


def without_entries(value: Sparse, dtype: Any) -> Any:
    """A value of the same shape and layout that stores nothing."""
    shape, model = value.shape, value.pattern
    empty = CooPattern.of_keys(np.zeros(0, np.int64), shape, model.index_dtype)
    held = empty.value(np.zeros(0, dtype))
    return convert(held, model.layout, model.blocksize) if can_hold(model.layout, shape) else held


def nonzero_indices(value: Any) -> tuple[Array, ...]:
    """The indices of the nonzero entries of a value, in row-major order, one int64 array per axis."""
    if not isinstance(value, Sparse):
        return np.nonzero(strided_of(value))
    value = coalesced(with_sparse_axes(value, len(value.shape)))
    keys, order = value.pattern.sorted
    found = coordinates_of(keys[value.entries[order] != 0], value.shape)
    return tuple(found)


def from_strided(x: Array, layout: str, blocks: Blocks = None, sparse_axes: int | None = None) -> Any:
    """The nonzero entries (or slices that hold one) of an array in a sparse layout."""
    return convert(of_nonzeros(x, sparse_axes), layout, blocks)
