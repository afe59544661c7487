"""Segment kernels: maximum and softmax over the slices that share a segment number.

Vectors of many entries in order run in compiled loops, everything else in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.kernels.sparse import sparse_loops
from iverson.kernels.strided import scatter_add
from iverson.layouts import segment_starts

Array = np.ndarray[Any, Any]


def segment_max(x: Array, ids: Array, *, count: int) -> Array:
    """Maximum over the slices of x in each segment; the least number (-inf) for an empty segment.

    ids : the segment of each slice.
    count : the number of segments.
    """
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    out = np.full((count, *x.shape[1:]), least, x.dtype)
    starts = segment_starts(ids, count)
    if starts is None:
        np.maximum.at(out, ids, x)
    elif len(x):
        first = starts[:-1]
        nonempty = first < starts[1:]
        out[nonempty] = np.maximum.reduceat(x, first[nonempty])
    return out


def _sums(x: Array, ids: Array, count: int) -> Array:
    sums: Array = scatter_add(x, ids, axes=(0,), shape=(count, *x.shape[1:]))
    return sums


def segment_softmax(x: Array, ids: Array, *, count: int) -> Array:
    """Softmax within each segment: exp(x) over the sum of exp(x) of the segment, shifted by its maximum."""
    starts = segment_starts(ids, count) if sparse_loops.compiled_for_segments(x) else None
    if starts is not None:
        return sparse_loops.segment_softmax(starts, x)
    out = np.exp(x - segment_max(x, ids, count=count).take(ids, axis=0))
    return np.asarray(out / _sums(out, ids, count).take(ids, axis=0))


def softmax_pullback(g: Array, y: Array, ids: Array, *, count: int) -> Array:
    """Gradient of `segment_softmax` in x: ``y (g - s)``, with s the sum of ``y g`` over the segment.

    g, y : the gradient of the result, and the result.
    """
    starts = segment_starts(ids, count) if sparse_loops.compiled_for_segments(y, g) else None
    if starts is not None:
        return sparse_loops.softmax_pullback(starts, y, g)
    return np.asarray(y * (g - _sums(y * g, ids, count).take(ids, axis=0)))
