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
    """Decorator that registers a kernel for all sparse layouts, for each of the names or families of ops."""

    def add(kernel: Kernel) -> Kernel:
        for family in families:
            register(family, Sparse)(kernel)
        return kernel

    return add


def is_sparse(value: LayoutValue | complex) -> TypeIs[Sparse]:
    return isinstance(value, Sparse)


def read(value: Any, pattern: Pattern, shape: Shape) -> Any:
    """Entries of an operand, broadcast to ``shape``, at the entries of ``pattern``: (count, *dense axes).

    Entries that the operand does not store are 0. Numbers and arrays of rank 0 are returned unchanged.

    shape : the shape of the result, to which the pattern belongs.
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
    """Entries of a box at the entries of ``pattern``, 0 outside of the box; the box is never made dense."""
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
    """For each entry of ``pattern``, the address of the entry of an operand that is broadcast to it.

    shape : of the operand before it is broadcast.
    """
    at = pattern.coordinates[pattern.ndim - len(shape) :]
    axes = [k for k, n in enumerate(shape) if n != 1]
    return addresses(at[axes], tuple(shape[k] for k in axes))


def _found(value: Sparse, keys: Array, *within: Array) -> Array:
    """Entries of ``value`` at the addresses ``keys`` on its sparse axes; 0 for entries that are not stored.

    within : indices on the first dense axes; without them, whole slices are returned.
    """
    if not value.pattern.count:
        return np.zeros((keys.size, *value.dense_shape[len(within) :]), value.dtype)
    at, there = value.pattern.find(keys)
    entries: Array = value.entries[(at, *within)]
    if not there.all():
        entries[~there] = 0
    return entries


def broadcast(value: Sparse, shape: Shape) -> Any:
    """Sparse value broadcast to ``shape``: its entries are repeated along the axes that it lacks."""
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
    """The same value with all axes sparse: without dense trailing axes."""
    return with_sparse_axes(value, len(value.shape))


def moved(
    value: Sparse, shape: Shape, indices: Array, entries: Array | None = None, distinct: bool = True
) -> Any:
    """Value of shape ``shape`` with the entries of ``value`` at the coordinates ``indices``.

    It is in the value's own layout if that can store it, else in COO; without sparse axes it is strided. If
    ``indices`` are the coordinates of the value's own pattern, the result is on this pattern.

    entries : other entries in place of the value's.
    distinct : False if some new coordinates may be equal.
    """
    entries = value.entries if entries is None else entries
    k = len(indices)
    if indices is value.pattern.coordinates:
        return value.pattern.value(entries)
    if not k:
        return entries.sum(axis=0, dtype=entries.dtype).reshape(shape)
    is_distinct = value.pattern.distinct if distinct else None
    result = CooPattern(shape[:k], indices, is_distinct or None).value(entries)
    return like(result, value.pattern)
