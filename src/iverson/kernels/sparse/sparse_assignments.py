"""Sparse assignment: a copy of a sparse tensor without the overwritten entries, with new ones."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from iverson.core.op import Op
from iverson.core.protocols import Params, Value
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.kernels.index_keys import Key, key_shape
from iverson.kernels.kernel_registry import Values
from iverson.kernels.sparse.merging import union
from iverson.kernels.sparse.sparse_moves import embedded
from iverson.kernels.sparse.sparse_operands import broadcast, is_sparse, sparse, sparse_only
from iverson.layouts import CooPattern, Pattern, Sparse, Zero, coalesced, is_strided, to_strided
from iverson.layouts.conversion import like
from iverson.layouts.pattern import addresses, index_dtype
from iverson.layouts.pattern_symbols import follows

Array = np.ndarray[Any, Any]


def is_read(coordinates: Iterable[Value], key: Key, shape: Shape) -> Any:
    """Mask of the entries that ``x[key]`` reads, among the entries with these coordinates.

    coordinates : an array, or a handle of one, for each axis.
    shape : of x.
    """
    inside: Any = True
    axes = (item for item in key if item is not None)
    for item, at, extent in zip(axes, coordinates, shape, strict=False):
        if isinstance(item, slice):
            indices = range(*item.indices(extent))
            position, remainder = (at - indices.start) // indices.step, (at - indices.start) % indices.step
            inside = inside & (remainder == 0) & (position >= 0) & (position < len(indices))
        else:
            inside = inside & (at == item)
    return inside


@sparse("index_put")
def index_put(op: Op, values: Values, params: Params) -> Any:
    """Kernel of ``x[key] = v``: a copy of x with v at the key; NotImplemented if v makes most of x nonzero.

    The entries that v replaces are no longer stored.
    """
    x, v = values
    if not is_sparse(x):
        return NotImplemented
    x, key = coalesced(sparse_only(x)), params["key"]
    new = _written(v, key_shape(key, x.shape), x)
    if new is NotImplemented:
        return NotImplemented
    if isinstance(new, Sparse):
        there = embedded(coalesced(new), key, x.shape)
        at, entries = there.pattern.coordinates, there.entries
    else:  # a single entry, or none
        at = np.array([0 if isinstance(i, slice) else i for i in key if i is not None], np.int64)
        at, entries = np.repeat(at[:, None], new.size, axis=1), new
    return _reembedded(x, is_read(x.pattern.coordinates, key, x.shape), at, entries)


@sparse("gather_put")
def gather_put(op: Op, values: Values, params: Params) -> Any:
    """Kernel of the assignment of v at integer index arrays on some axes; the last writer of a place wins.

    The result is NotImplemented if v makes most of x nonzero.
    """
    x, v, *indices = values
    axes = params["axes"]
    if not is_sparse(x) or any(not is_strided(i) for i in indices):
        return NotImplemented
    x = coalesced(sparse_only(x))
    at = np.broadcast_arrays(*indices)
    remaining_axes = tuple(k for k in range(len(x.shape)) if k not in axes)
    new = _written(v, (*at[0].shape, *(x.shape[k] for k in remaining_axes)), x)
    if new is NotImplemented:
        return NotImplemented
    places = places_on(axes, list(at), x.shape)
    x_places = places_on(axes, list(x.pattern.coordinates[list(axes)]), x.shape)
    lead = at[0].ndim
    if isinstance(new, Sparse):
        new = coalesced(sparse_only(new))
        coordinates = new.pattern.coordinates
        writer = addresses(coordinates[:lead], at[0].shape) if lead else np.zeros(new.pattern.count, int)
        entries = new.entries
    else:
        coordinates = np.zeros((lead + len(remaining_axes), new.size), np.int64)
        writer, entries = np.zeros(new.size, np.int64), new
    positions = np.empty((len(x.shape), writer.size), np.int64)
    for k, i in zip(axes, at, strict=True):
        positions[k] = i.ravel()[writer]
    positions[list(remaining_axes)] = coordinates[lead:]
    last = _last_writer(places)[writer]
    return _reembedded(x, np.isin(x_places, places), positions[:, last], entries[last])


def _last_writer(places: Array) -> Array:
    last = np.zeros(places.size, bool)
    _, from_end = np.unique(places[::-1], return_index=True)
    last[places.size - 1 - from_end] = True
    return last


def _written(v: Any, shape: Shape, x: Sparse) -> Any:
    """Value v in the form to be written into places of shape ``shape``: sparse, or an array of one entry.

    All numbers of an array are stored, zeros too: which entries a result stores does not depend on values.
    The result is an empty array if there is nothing to write, and NotImplemented if v makes most of x
    nonzero.
    """
    if type(v) is Zero or (not hasattr(v, "shape") and v == 0) or not prod(shape):
        return np.zeros(0, x.dtype)
    if is_sparse(v):
        stretched = coalesced(sparse_only(broadcast(v, shape)))
        return stretched.pattern.value(stretched.entries.astype(x.dtype, copy=False))
    if 2 * prod(shape) > prod(x.shape) and prod(shape) > 1:
        return NotImplemented
    array = np.asarray(to_strided(v) if hasattr(v, "shape") else v).astype(x.dtype)
    if not shape:
        return array.reshape(1)
    places = np.indices(shape, index_dtype(*shape)).reshape(len(shape), -1)
    return CooPattern(shape, places, True).value(np.broadcast_to(array, shape).ravel())


def _reembedded(x: Sparse, is_overwritten: Array, at: Array, entries: Array) -> Any:
    """Value x without its overwritten entries (a mask), and with ``entries`` at the coordinates ``at``."""
    dtype = np.result_type(x.pattern.index_dtype, index_dtype(*x.shape))
    keep = ~is_overwritten
    indices = np.concatenate([x.pattern.coordinates[:, keep], at], axis=1).astype(dtype)
    result = CooPattern(x.shape, indices, True).value(np.concatenate([x.entries[keep], entries]))
    return like(result, x.pattern)


def places_on(axes: Shape, indices: list[Array], shape: Shape) -> Array:
    """Row-major addresses of index arrays on the axes ``axes`` of an array of shape ``shape``."""
    at = np.broadcast_arrays(*indices)
    return addresses(np.stack([i.ravel() for i in at]), tuple(shape[k] for k in axes))


def _put(key: Key, shape: Shape, v: Pattern) -> Pattern:
    return embedded(v.value(np.ones(v.count, bool)), key, shape).pattern  # type: ignore[no-any-return]


def places_read(
    x: Pattern | None, v: Pattern | None, region: Region | None, key: Key, shape: Shape
) -> Pattern:
    """Pattern at which a cotangent of ``x[key] = v`` is read: the union of those arguments that are not None.

    x : the pattern of x.
    v : the pattern of v, which is put at the key.
    region : all entries of it are read.
    """
    patterns = [] if x is None else [x]
    if v is not None:
        put_pattern = follows(("put", repr(key), shape), partial(_put, key, shape), v)
        assert put_pattern is not None
        patterns.append(put_pattern)
    if region is not None:
        inside = np.indices(region.shape).reshape(len(shape), -1) + np.array(region.start)[:, None]
        patterns.append(CooPattern(shape, inside, True))
    return patterns[0] if len(patterns) == 1 else union(patterns, patterns[0])
