"""Kernels over segments: sums, maxima and softmax of the slices that share one, and what repeats by segment.

Vectors of many entries in order run in compiled loops, everything else in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.op import Op
from iverson.kernels import sparse_loops, sparse_moves
from iverson.kernels.sparse_forms import sparse
from iverson.kernels.strided import scatter_add
from iverson.layouts import Segments

Values = tuple[Any, ...]
Params = dict[str, Any]
Array = np.ndarray[Any, Any]


def segment_sum(x: Array, *, segments: Segments) -> Array:
    """The sum of the slices of x in each segment."""
    if sparse_loops.compiled_for_segments(x) and segments.starts is not None:
        return sparse_loops.segment_sum(segments.starts, x)
    return scatter_add(x, segments.ids, axes=(0,), shape=(segments.count, *x.shape[1:]))


def segment_repeat(x: Array, *, segments: Segments) -> Array:
    """For each slice, that of x for its segment."""
    return np.asarray(x.take(segments.ids, axis=0))


def segment_max(x: Array, *, segments: Segments) -> Array:
    """The largest of the slices of x in each segment; -inf (the least number) where there is none."""
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    out = np.full((segments.count, *x.shape[1:]), least, x.dtype)
    if segments.starts is None:
        np.maximum.at(out, segments.ids, x)
    elif len(x):
        first = segments.starts[:-1]
        held = first < segments.starts[1:]
        out[held] = np.maximum.reduceat(x, first[held])
    return out


def segment_softmax(x: Array, *, segments: Segments) -> Array:
    """exp(x) over the sum of exp(x) of its segment, shifted by the segment's maximum."""
    if sparse_loops.compiled_for_segments(x) and segments.starts is not None:
        return sparse_loops.segment_softmax(segments.starts, x)
    out = np.exp(x - segment_repeat(segment_max(x, segments=segments), segments=segments))
    return np.asarray(out / segment_repeat(segment_sum(out, segments=segments), segments=segments))


def softmax_pullback(g: Array, y: Array, *, segments: Segments) -> Array:
    """y (g - the sum of y g over the segment)."""
    if sparse_loops.compiled_for_segments(y, g) and segments.starts is not None:
        return sparse_loops.softmax_pullback(segments.starts, y, g)
    mean = segment_sum(y * g, segments=segments)
    return np.asarray(y * (g - segment_repeat(mean, segments=segments)))


@sparse("segment_sum")
def sum_sparse(op: Op, values: Values, params: Params) -> Any:
    """Stored slices are put at their segments; repeats are kept twice."""
    x, segments = values[0], params["segments"]
    placed = {"axes": (0,), "shape": (segments.count, *x.shape[1:])}
    return sparse_moves.scatter_add(op, (x, segments.ids), placed)


@sparse("segment_repeat")
def repeat_sparse(op: Op, values: Values, params: Params) -> Any:
    return sparse_moves.gather(op, (values[0], params["segments"].ids), {"axes": (0,)})
