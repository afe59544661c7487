"""Sparse tensors in order: in each line the stored entries below 0, the zeros, the stored entries above 0."""

from __future__ import annotations

from math import log, prod
from typing import Any

import numpy as np

from iverson.core.op import Op
from iverson.kernels.registry import zeros_like_result
from iverson.kernels.sparse_forms import sparse, sparse_only
from iverson.kernels.sparse_reductions import lines_of
from iverson.layouts import CooPattern, Sparse, coalesced
from iverson.layouts.conversion import like

Values = tuple[Any, ...]
Params = dict[str, Any]
Array = np.ndarray[Any, Any]


def sorted_pattern(x: Sparse, axis: int, descending: bool) -> CooPattern:
    """Where each stored entry of a real value, stored once, goes when lines along an axis are sorted.

    Equal entries stay in their order, zeros that are stored among those that are not; nan is the largest.
    """
    lines, length = lines_of(x.pattern, (axis,)), x.shape[axis]
    entries, position = x.entries[lines.order], lines.position
    number = lines.repeated(np.arange(lines.ids.size))
    rank = np.arange(entries.size) - lines.repeated(lines.starts)
    tie = -rank if descending else rank
    order = np.lexsort((tie, entries, number))
    place = np.empty(entries.size, np.int64)
    place[order] = rank
    zero, below = entries == 0, entries < 0
    place[~(zero | below)] += (length - lines.repeated(lines.counts))[~(zero | below)]
    if descending:
        place = length - 1 - place
    first = lines.reduced(np.add, (~zero & (~below if descending else below)).astype(np.int64))
    stored_before = np.cumsum(zero) - zero
    before = stored_before - lines.repeated(stored_before[lines.starts] if entries.size else first)
    zeros = lines.repeated(first) + position - rank + before
    found = np.array(x.pattern.coordinates)
    found[axis, lines.order] = np.where(zero, zeros, place)
    return CooPattern(x.shape, found, True)


@sparse("sort")
def sort(op: Op, values: Values, params: Params) -> Any:
    x = coalesced(sparse_only(values[0]))
    if x.dtype.kind == "c":
        return NotImplemented
    return like(sorted_pattern(x, **params).value(x.entries), x.pattern)


def places_in_order(x: Sparse, axis: int, descending: bool, ranks: range) -> Array:
    """As the argsort of a real value along an axis gives them, the indices at some ranks alone: strided."""
    x, length = coalesced(sparse_only(x)), x.shape[axis]
    lines = lines_of(x.pattern, (axis,))
    extents = tuple(n for k, n in enumerate(x.shape) if k != axis)
    line = lines.repeated(lines.ids) * length
    at_rank = line + sorted_pattern(x, axis, descending).along(axis)[lines.order]
    order = np.argsort(at_rank)
    at_rank = at_rank[order]
    start = np.arange(prod(extents))[:, None] * length
    rank = np.arange(ranks.start, ranks.stop)
    first, found = np.searchsorted(at_rank, start), np.searchsorted(at_rank, start + rank)
    # The other ranks are those of zeros that are not stored, in the order of their places: the number u of
    # these stands where u of them and the stored entries before it have been passed.
    number = rank - (found - first)
    passed = line + lines.position - (np.arange(line.size) - lines.repeated(lines.starts))
    out = number + np.searchsorted(passed, start + number, "right") - first
    held = np.zeros(out.shape, bool)
    inside = found < at_rank.size
    held[inside] = at_rank[found[inside]] == (start + rank)[inside]
    out[held] = lines.position[order[found[held]]]
    shape = (*extents, rank.size)
    return np.moveaxis(out.reshape(shape), -1, axis)


@sparse("logsumexp")
def logsumexp(op: Op, values: Values, params: Params) -> Any:
    """Zeros that are not stored count as exp(0) = 1: every line has a sum, and the result is strided."""
    x, axis = coalesced(sparse_only(values[0])), params["axis"]
    result = zeros_like_result(op, values, params)
    if not axis:
        return x
    if x.dtype.kind == "c" or not prod(x.shape[k] for k in axis):
        return NotImplemented
    lines = lines_of(x.pattern, axis)
    entries = x.entries[lines.order]
    most = lines.reduced(np.maximum, entries)
    most = np.where(lines.full, most, np.maximum(most, 0))
    shift = np.where(np.isfinite(most), most, 0)
    total = lines.reduced(np.add, np.exp(entries - lines.repeated(shift)))
    rest = (lines.length - lines.counts) * np.exp(-shift)
    out = np.full(prod(lines.extents), log(lines.length), result.dtype)
    out[lines.ids] = shift + np.log(total + np.where(lines.full, 0, rest))
    return out.reshape(result.shape)


__all__ = ["places_in_order", "sorted_pattern"]
