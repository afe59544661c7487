"""Basic index keys in canonical form, as ops hold them, and the images of regions under them.

A key is a tuple of int, slice and None that covers every axis: integers are non-negative, slices have the
form `canonical_slice` gives.
"""

from __future__ import annotations

from typing import Any

from iverson.core.region import Region
from iverson.core.shapes import Shape

Key = tuple[Any, ...]


def canonical_slice(item: slice, extent: int) -> slice:
    """The slice with explicit bounds that reads the same entries of an axis of this extent."""
    indices = range(*item.indices(extent))
    if not indices:
        return slice(0, 0, 1)
    if indices.step > 0:
        return slice(indices[0], indices[-1] + 1, indices.step)
    return slice(indices[0], indices[-1] - 1 if indices[-1] else None, indices.step)


def key_shape(key: Key, shape: Shape) -> Shape:
    """The shape of ``x[key]``."""
    result, axis = [], 0
    for item in key:
        if item is None:
            result.append(1)
            continue
        if isinstance(item, slice):
            stop = -1 if item.stop is None else item.stop
            result.append(max(0, -((item.start - stop) // item.step)))
        axis += 1
    return tuple(result)


def _positions(item: slice, extent: int, low: int, high: int) -> tuple[int, int]:
    """The range of positions k whose entry ``item[k]`` lies in [low, high)."""
    r = range(*item.indices(extent))
    first, last = (low, high - 1) if r.step > 0 else (high - 1, low)
    begin = -((r.start - first) // r.step)  # ceil((first - start) / step)
    end = (last - r.start) // r.step + 1
    begin, end = max(begin, 0), min(end, len(r))
    return begin, max(begin, end)


def region_through_key(region: Region, key: Key, shape: Shape) -> Region | None:
    """The region in which ``x[key]`` may be nonzero, if x is zero outside ``region``; None if it is empty."""
    start, stop, axis = [], [], 0
    for item in key:
        if item is None:
            start.append(0)
            stop.append(1)
            continue
        low, high = region.start[axis], region.stop[axis]
        if isinstance(item, slice):
            begin, end = _positions(item, shape[axis], low, high)
            start.append(begin)
            stop.append(end)
        elif not low <= item < high:
            return None
        axis += 1
    result = Region(tuple(start), tuple(stop))
    return result if result.size else None


def key_within(region: Region, key: Key, shape: Shape) -> Key:
    """Key that reads, from the array of a box's entries, the entries of ``x[key]`` that come from the box.

    region : the region of x that the box covers; outside of it x is zero.
    shape : the shape of x.
    """
    result: list[Any] = []
    axis = 0
    for item in key:
        if item is None:
            result.append(None)
            continue
        low = region.start[axis]
        if isinstance(item, slice):
            begin, end = _positions(item, shape[axis], low, region.stop[axis])
            indices = range(*item.indices(shape[axis]))[begin:end]
            inner_slice = slice(indices.start - low, indices.stop - low, indices.step)
            result.append(
                slice(inner_slice.start, None if inner_slice.stop < 0 else inner_slice.stop, inner_slice.step)
            )
        else:
            result.append(item - low)
        axis += 1
    return tuple(result)


def cut(key: Key, region: Region) -> Key:
    """Key that reads, from x itself, the part of ``x[key]`` in ``region``, which must not be empty."""
    result: list[Any] = []
    axis = 0
    for item in key:
        if isinstance(item, slice):
            stop = -1 if item.stop is None else item.stop
            indices = range(item.start, stop, item.step)[region.start[axis] : region.stop[axis]]
            result.append(canonical_slice(_as_slice(indices), max(indices[0], indices[-1]) + 1))
        else:
            result.append(item)
        axis += item is None or isinstance(item, slice)
    return tuple(result)


def _as_slice(indices: range) -> slice:
    return slice(indices.start, indices.stop if indices.stop >= 0 else None, indices.step)


def is_dense(key: Key) -> bool:
    """True if the key reads every entry of its `key_region` (its slices have steps of 1)."""
    return all(not isinstance(item, slice) or item.step == 1 for item in key)


def reads_everything(key: Key, shape: Shape) -> bool:
    """True if ``x[key]`` is x itself for every x of the shape."""
    return len(key) == len(shape) and all(
        isinstance(item, slice) and (item.step == 1 or n == 1) and len(range(*item.indices(n))) == n
        for item, n in zip(key, shape, strict=True)
    )


def key_region(key: Key, shape: Shape) -> Region:
    """The smallest region of x that holds all entries ``x[key]`` reads."""
    start, stop, axis = [], [], 0
    for item in key:
        if item is None:
            continue
        if type(item) is not slice:
            low, high = item, item + 1
        elif item.step == 1:
            low, high = item.start, item.stop
        else:
            r = range(*item.indices(shape[axis]))
            low, high = (min(r[0], r[-1]), max(r[0], r[-1]) + 1) if r else (0, 0)
        start.append(low)
        stop.append(high)
        axis += 1
    return Region(tuple(start), tuple(stop))
