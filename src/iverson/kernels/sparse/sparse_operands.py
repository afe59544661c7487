"""Operands of sparse kernels: read at a pattern, broadcast, or with their coordinates moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.inputs.arrays import repeat, tile
from iverson.core.protocols import LayoutValue
from iverson.core.shapes import Shape
from iverson.kernels.kernel_registry import Kernel, register
from iverson.kernels.sparse.merging import read_at
from iverson.layouts import (
    Box,
    CooPattern,
    Pattern,
    Sparse,
    Zero,
    coalesced,
    to_strided,
)
from iverson.layouts.conversion import like, with_sparse_axes
from iverson.layouts.pattern import addresses

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Array = np.ndarray[Any, Any]


def sparse(*families: str) -> Callable[[Kernel], Kernel]:
    """Register a kernel for every sparse layout: those of a pattern and the values on it."""

    def add(kernel: Kernel) -> Kernel:
        for family in families:
            register(family, Sparse)(kernel)
        return kernel

    return add


def is_sparse(value: LayoutValue | complex) -> TypeIs[Sparse]:
    return isinstance(value, Sparse)


def read(value: Any, pattern: Pattern, shape: Shape) -> Any:
    """An operand's entries at the stored entries of a pattern of the result: (count, *dense axes).

    Scalars and arrays of rank 0 stay as they are. Entries that are not stored are 0.
    """
    if isinstance(value, Sparse):
        source = value.pattern
        if value.shape == shape and (source is pattern or (source.ndim == pattern.ndim and source.distinct)):
            return read_at(value, pattern)
        return _read_sparse(value, pattern, shape)
    if not hasattr(value, "shape"):
        return value
    if type(value) is Zero:
        return np.zeros((), value.dtype)
    if type(value) is Box and value.shape == shape:
        return _read_box(value, pattern)
    array = to_strided(value)
    if not array.ndim:
        return array
    entries: Array
    if array.shape != shape and pattern.ndim == len(shape):  # where it is stretched, its only entry is read
        lead = len(shape) - array.ndim
        axes = [k for k, n in enumerate(array.shape) if n != 1]
        compact = array.reshape([array.shape[k] for k in axes])
        entries = compact[tuple([pattern.along(lead + k) for k in axes])]
        return entries
    array = array if array.shape == shape else np.broadcast_to(array, shape)
    entries = array[tuple(pattern.coordinates)]
    return entries


def _read_sparse(value: Sparse, pattern: Pattern, shape: Shape) -> Array:
    if value.shape != shape and pattern.ndim == len(shape):
        return _found(coalesced(sparse_only(value)), _projected(value.shape, pattern))
    value = coalesced(broadcast(value, shape))
    k = value.pattern.ndim
    if k < pattern.ndim:  # of the slices that the entries are in, these alone
        return _found(value, addresses(pattern.coordinates[:k], shape[:k]), *pattern.coordinates[k:])
    return read_at(value, pattern)


def _read_box(x: Box, pattern: Pattern) -> Array:
    """The entries at a pattern that lie inside of the box, 0 for others; the box is never made dense."""
    k = pattern.ndim
    start, stop = (np.array(c[:k])[:, None] for c in (x.region.start, x.region.stop))
    inside = ((pattern.coordinates >= start) & (pattern.coordinates < stop)).all(axis=0)
    out = np.zeros((pattern.count, *x.shape[k:]), x.dtype)
    part = np.zeros((int(inside.sum()), *x.shape[k:]), x.dtype)
    dense_slices = tuple(slice(a, b) for a, b in zip(x.region.start[k:], x.region.stop[k:], strict=True))
    part[(slice(None), *dense_slices)] = x.inner[tuple(pattern.coordinates[:, inside] - start)]
    out[inside] = part
    return out


def _projected(shape: Shape, pattern: Pattern) -> Array:
    """For each entry of a pattern, the address of the entry that an operand of a shape is stretched from."""
    at = pattern.coordinates[pattern.ndim - len(shape) :]
    axes = [k for k, n in enumerate(shape) if n != 1]
    return addresses(at[axes], tuple(shape[k] for k in axes))


def _found(value: Sparse, keys: Array, *within: Array) -> Array:
    """The entries at addresses, of slices those at indices within: 0 for those not stored."""
    if not value.pattern.count:
        return np.zeros((keys.size, *value.dense_shape[len(within) :]), value.dtype)
    at, there = value.pattern.find(keys)
    entries: Array = value.entries[(at, *within)]
    if not there.all():
        entries[~there] = 0
    return entries


def broadcast(value: Sparse, shape: Shape) -> Any:
    """A sparse value stretched to a shape: its entries repeated along the axes it lacks."""
    if value.shape == shape:
        return value
    lead = len(shape) - len(value.shape)
    padded_shape = (1,) * lead + value.shape
    k = lead + value.pattern.ndim
    old = value.pattern.coordinates
    indices = np.concatenate([np.zeros((lead, old.shape[1]), old.dtype), old])
    entries = value.entries
    entries = entries.reshape(entries.shape[:1] + padded_shape[k:])
    entries = np.broadcast_to(entries, entries.shape[:1] + shape[k:])
    for axis in range(k):
        if padded_shape[axis] == 1 and shape[axis] != 1:
            n, count = shape[axis], indices.shape[1]
            indices = repeat(indices, n, axis=1)
            indices[axis] = tile(np.arange(n, dtype=indices.dtype), count)
            entries = repeat(entries, n, axis=0)
    pattern = CooPattern(shape[:k], indices, value.pattern.distinct or None)
    return like(pattern.value(entries), value.pattern)


def sparse_only(value: Sparse) -> Any:
    """A value without dense trailing axes."""
    return with_sparse_axes(value, len(value.shape))


def moved(
    value: Sparse, shape: Shape, indices: Array, entries: Array | None = None, distinct: bool = True
) -> Any:
    """A value with other coordinates: in its own layout where that can hold it, else in COO, else (without
    sparse axes) strided. With its own, it is on the same pattern."""
    entries = value.entries if entries is None else entries
    k = len(indices)
    if indices is value.pattern.coordinates:
        return value.pattern.value(entries)
    if not k:
        return entries.sum(axis=0, dtype=entries.dtype).reshape(shape)
    is_distinct = value.pattern.distinct if distinct else None
    result = CooPattern(shape[:k], indices, is_distinct or None).value(entries)
    return like(result, value.pattern)
