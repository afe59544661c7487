"""Region images: the smallest region that holds the images of a region's entries under an op that moves them.

Each function takes the region, which is not empty, its array's shape and the op's parameters. It gives None,
or an empty region, where no entry of the region goes anywhere. Nothing here moves an entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from math import prod
from operator import mul
from typing import Any

import numpy as np

from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.kernels.index_keys import Key, cut, key_region, region_through_key

Array = np.ndarray[Any, Any]
Axes = range
Interval = tuple[int, int]


def _of(intervals: Iterable[Interval]) -> Region:
    """Region with these intervals (start, stop) on its axes."""
    pairs = list(intervals)
    return Region(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


def permuted(region: Region, _shape: Shape, *, axes: Shape) -> Region:
    return region.permuted(axes)


def expanded(region: Region, _shape: Shape, *, axis: Shape) -> Region:
    start, stop = list(region.start), list(region.stop)
    for k in axis:
        start.insert(k, 0)
        stop.insert(k, 1)
    return Region(tuple(start), tuple(stop))


def _without(region: Region, axis: Shape) -> Region:
    keep = [k for k in range(len(region.start)) if k not in axis]
    return region.permuted(tuple(keep))


def squeezed(region: Region, _shape: Shape, *, axis: Shape) -> Region:
    return _without(region, axis)


def summed(region: Region, _shape: Shape, *, axis: Shape, keepdims: bool) -> Region:
    reduced = _without(region, axis)
    return expanded(reduced, (), axis=axis) if keepdims else reduced


def broadcast(region: Region, old: Shape, *, shape: Shape) -> Region:
    return region.broadcast(old, shape)


def flipped(region: Region, shape: Shape, *, axis: Shape) -> Region:
    pairs = enumerate(zip(region.start, region.stop, strict=True))
    return _of((shape[k] - b, shape[k] - a) if k in axis else (a, b) for k, (a, b) in pairs)


def rolled(region: Region, shape: Shape, *, shift: Shape, axis: Shape) -> Region:
    """Image under `roll`: an interval that crosses the end of its axis becomes the whole axis."""
    pairs = list(zip(region.start, region.stop, strict=True))
    for k, by in zip(axis, shift, strict=True):
        a, b = pairs[k]
        first, last = (a + by) % shape[k], (a + by) % shape[k] + b - a
        pairs[k] = (first, last) if last <= shape[k] else (0, shape[k])
    return _of(pairs)


def lower(region: Region, _shape: Shape, *, k: int) -> Region:
    """Image under `tril`: smallest region with the entries at which column - row <= k."""
    (*_, r, c), (*_, stop, end) = region.start, region.stop
    return region.intersect(_last_two(region, (max(r, c - k), stop), (c, min(end, stop + k))))


def upper(region: Region, _shape: Shape, *, k: int) -> Region:
    """Image under `triu`: smallest region with the entries at which column - row >= k."""
    (*_, r, c), (*_, stop, end) = region.start, region.stop
    return region.intersect(_last_two(region, (r, min(stop, end - k)), (max(c, r + k), end)))


def _last_two(region: Region, rows: tuple[int, int], columns: tuple[int, int]) -> Region:
    return Region(
        (*region.start[:-2], rows[0], columns[0]),
        (*region.stop[:-2], max(rows), max(columns)),
    )


def diagonal(region: Region, _shape: Shape, *, offset: int) -> Region:
    down, right = max(-offset, 0), max(offset, 0)
    first = max(region.start[-2] - down, region.start[-1] - right)
    last = min(region.stop[-2] - down, region.stop[-1] - right)
    return Region((*region.start[:-2], first), (*region.stop[:-2], max(first, last)))


def on_diagonal(region: Region, _shape: Shape, *, offset: int, shape: Shape) -> Region:
    down, right = max(-offset, 0), max(offset, 0)
    a, b = region.start[-1], region.stop[-1]
    return Region((*region.start[:-1], a + down, a + right), (*region.stop[:-1], b + down, b + right))


def read(region: Region, shape: Shape, *, key: Key) -> Region | None:
    """Image under ``x[key]``; None if it is empty."""
    return region_through_key(region, key, shape)


def embedded(region: Region, _shape: Shape, *, key: Key, shape: Shape, held: bool = False) -> Region:
    """Image under the adjoint of ``x[key]``, which has the shape ``shape``."""
    return key_region(cut(key, region), shape)


def gathered(region: Region, _shape: Shape, *indices: Array, axes: Shape) -> Region | None:
    """Image of ``region`` under a read at index arrays; None if the image is empty.

    Along the axes of the index arrays, which come first, the image is the smallest span that holds all
    positions at which every index points into ``region``. Along the remaining axes, the image has the
    interval of ``region``.
    """
    inside = [
        (n >= region.start[k]) & (n < region.stop[k])
        for n, k in zip(map(np.asarray, indices), axes, strict=True)
    ]
    where = np.logical_and.reduce(np.broadcast_arrays(*inside))
    if not where.any():
        return None
    remaining = _without(region, axes)
    return _of([*map(_span, np.argwhere(where).T), *zip(remaining.start, remaining.stop, strict=True)])


def scattered(
    region: Region, _shape: Shape, *indices: Array, axes: Shape, shape: Shape, held: bool = False
) -> Region:
    """The image under an addition at index arrays: from the first to the last place that is added to."""
    lead = len(region.start) - (len(shape) - len(axes))
    lead_region = Region(region.start[:lead], region.stop[:lead])
    intervals = iter(zip(region.start[lead:], region.stop[lead:], strict=True))
    indices_by_axis = {
        k: n[lead_region.slices] for k, n in zip(axes, np.broadcast_arrays(*indices), strict=True)
    }
    return _of(
        [_span(indices_by_axis[k]) if k in indices_by_axis else next(intervals) for k in range(len(shape))]
    )


def _span(indices: Array) -> Interval:
    return int(indices.min()), int(indices.max()) + 1


def groups(old: Shape, new: Shape) -> list[tuple[Axes, Axes]]:
    """Pairs of ranges of axes of ``old`` and ``new`` that hold the same entries, each as small as possible.

    >>> groups((4, 6, 5), (2, 2, 30))
    [(range(0, 1), range(0, 2)), (range(1, 3), range(2, 3))]
    """
    old_sizes, new_sizes = (list(accumulate(shape, mul, initial=1)) for shape in (old, new))
    inner = sorted(set(old_sizes[:-1]) & set(new_sizes[:-1]) - {1})
    cuts = [
        (0, 0),
        *((old_sizes.index(n), new_sizes.index(n)) for n in inner if n != old_sizes[-1]),
        (len(old), len(new)),
    ]
    return [(range(i, k), range(j, m)) for (i, j), (k, m) in pairwise(cuts)]


def reshaped(region: Region, old: Shape, *, shape: Shape) -> Region:
    """Image under `reshape`: for each of the `groups` of axes, intervals that contain all moved entries."""
    intervals: list[Interval] = []
    for source, target in groups(old, shape):
        starts, length = _runs(region.permuted(tuple(source)), tuple(old[k] for k in source))
        intervals += _digits(starts, length, tuple(shape[k] for k in target))
    return _of(intervals)


def _runs(region: Region, shape: Shape) -> tuple[Array, int]:
    """Starts and common length of the runs of consecutive row-major addresses that make up a region."""
    axis = len(shape)
    length = 1
    while axis and (region.start[axis - 1], region.stop[axis - 1]) == (0, shape[axis - 1]):
        axis -= 1
        length *= shape[axis]
    if axis:
        axis -= 1
        first, length = region.start[axis] * length, region.shape[axis] * length
    else:
        first = 0
    lead_region = Region(region.start[:axis], region.stop[:axis])
    return first + addresses(lead_region, shape[:axis]) * prod(shape[axis:]), length


def addresses(region: Region, shape: Shape) -> Array:
    """Row-major addresses, in an array of shape ``shape``, of the entries of ``region``, in order."""
    keys = np.zeros((1,), np.int64)
    for a, b, n in zip(region.start, region.stop, shape, strict=True):
        keys = np.add.outer(keys * n, np.arange(a, b)).ravel()
    return keys


def _digits(starts: Array, length: int, shape: Shape) -> Iterator[Interval]:
    """Interval of indices, on each axis of ``shape``, of the entries whose addresses are in the runs.

    starts, length : the first address of each run, and the length of all runs.
    """
    stride = prod(shape)
    for n in shape:
        stride //= n
        first, last = starts // stride, (starts + length - 1) // stride
        if (first // n != last // n).any():  # a run goes on past the end of this axis
            yield 0, n
        else:
            yield int((first % n).min()), int((last % n).max()) + 1
