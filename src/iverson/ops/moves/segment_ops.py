"""Segment ops: functions of the slices of an array along its first axis, each of which is in one group.

An index array gives the segment of each slice, as in `scatter_add`, which sums over segments, and `gather`,
which repeats the value of each segment for its slices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.entry_map import Call, EntryMap
from iverson.core.errors import ShapeError
from iverson.core.op import Op, Rule, Sample, Sampler
from iverson.core.protocols import Namespace, Shaped, Value
from iverson.core.relations import Factor, Matched, Relation, same
from iverson.core.table import define
from iverson.kernels import segment_kernels
from iverson.layouts import is_strided
from iverson.ops.rules import loops
from iverson.ops.rules.batching import Examples, behind_first

LINEAR = ((0,),)


class Segmented(EntryMap):
    """Entry map of segment ops: slices along the first axis depend on the slices of their segment.

    full : True if the result has a slice for each slice of x; False if it has one for each segment.
    """

    indexed = True

    def __init__(self, full: bool) -> None:
        self._full = full

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the entries at the same place in the slices of the segment."""
        into, ids, count = call.inputs[i].shape, call.inputs[-1], call.params["count"]
        factors = [same(k, k) for k in range(1, len(into))]
        if is_strided(ids):
            row_keys = ids if self._full else np.arange(count)
            factors.append(Factor(Matched(row_keys, ids, count), (0,), (0,)))
        return Relation.of(call.out.shape, into, *factors)


def _checked(name: str, full: bool) -> Rule:
    """The abstract of an op whose result has a slice for each slice of x (``full``) or for each segment."""

    def abstract(x: Shaped, *factors: Shaped, count: int) -> Aval:
        ids = factors[-1]
        if x.shape[:1] != ids.shape:
            raise ShapeError(
                name,
                "segment_ids",
                got=f"shape {ids.shape} for x of shape {x.shape}",
                expected="one number for each slice of x along its first axis",
            )
        return Aval(x.shape if full else (count, *x.shape[1:]), x.dtype)

    return abstract


def _batched(F: Namespace, examples: Examples, *args: Value, count: int) -> Any:
    """A segment op for each example.

    If all share the segment numbers, examples are side by side in each slice; else one after the other, with
    segments of their own.
    """
    *xs, ids = args
    n = examples.size
    if not examples.of[-1]:
        return behind_first(F, examples, *args, count=count, alike=1)
    xs = [F.reshape(x, shape=(-1, *x.shape[2:])) for x in examples.each(F, args)[:-1]]
    ids = F.reshape(ids + count * np.arange(n)[:, None], shape=(-1,))
    out = examples.call(*xs, ids, count=n * count)
    return F.reshape(out, shape=(n, -1, *out.shape[1:]))


_IDS = (np.array([0, 2, 2, 0, 3]), np.array([0, 0, 2, 2, 3]))


def _added(F: Namespace, x: Value, ids: Value, count: int) -> Any:
    """The sum of the slices of x in each of ``count`` segments."""
    return F.scatter_add(x, ids, axes=(0,), shape=(count, *x.shape[1:]))


def _each(F: Namespace, x: Value, ids: Value) -> Any:
    """For each slice, the slice of x that belongs to its segment."""
    return F.gather(x, ids, axes=(0,))


def _samples(
    inputs: int, *, distinct: bool = False, post: Rule | None = None
) -> Callable[[Sampler], list[Sample]]:
    """Samples with ``inputs`` random arrays of five slices, with segments in order and not in order."""
    return lambda s: [
        Sample((*((s.distinct if distinct else s)(shape) for _ in range(inputs)), ids), {"count": 4}, post)
        for ids in _IDS
        for shape in ((5,), (5, 2))
    ]


def _share_of_largest(F: Namespace, y: Value, x: Value, ids: Value, count: int) -> Any:
    """A mask of the entries that attain their segment's maximum, and the share of each segment's ties.

    For n ties the share is 1/n, and nan if the maximum is nan.
    """
    ties = F.logical_or(F.equal(x, _each(F, y, ids)), F.isnan(x))
    number = _added(F, F.astype(ties, dtype=x.dtype), ids, count)
    return ties, F.where(F.isnan(y), math.nan, F.reciprocal(F.maximum(number, 1)))


def _segment_max_vjp(F: Namespace, g: Value, y: Value, x: Value, ids: Value, *, count: int) -> Any:
    ties, share = _share_of_largest(F, y, x, ids, count)
    return F.bracket(ties, _each(F, g * share, ids), negated=False)


def _segment_max_jvp(F: Namespace, t: Value, y: Value, x: Value, ids: Value, *, count: int) -> Any:
    ties, share = _share_of_largest(F, y, x, ids, count)
    return _added(F, F.bracket(ties, t, negated=False), ids, count) * share


define(
    Op(
        name="segment_max",
        forward=segment_kernels.segment_max,
        abstract=_checked("segment_max", False),
        vjp=(_segment_max_vjp, None),
        jvp=(_segment_max_jvp, None),
        entry_map=Segmented(full=False),
        batch=_batched,
        # Segment 1 has no slice, so its maximum is -inf: read the others.
        loops=loops.segment_max,
        samples=_samples(
            1, distinct=True, post=lambda F, y: F.gather(y, np.array([0, 2, 2, 0, 3]), axes=(0,))
        ),
        exceptions={"complex": "complex numbers have no order"},
        convention="equal maxima of a segment share the derivative evenly",
    )
)


def _pull(F: Namespace, g: Value, y: Value, _x: Shaped, ids: Value, *, count: int) -> Any:
    return F.softmax_pullback(g, y, ids, count=count)


define(
    Op(
        name="segment_softmax",
        forward=segment_kernels.segment_softmax,
        abstract=_checked("segment_softmax", True),
        vjp=(_pull, None),
        jvp=(_pull, None),
        entry_map=Segmented(full=True),
        batch=_batched,
        loops=loops.segment_softmax,
        samples=_samples(1),
        exceptions={"complex": "the maximum that keeps it from overflowing has no meaning there"},
    )
)


def _weighted(F: Namespace, y: Value, g: Value, ids: Value, count: int) -> Any:
    """For each slice, the sum of y g over its segment."""
    return _each(F, _added(F, y * g, ids, count), ids)


# out = y (g - S(y g)) with S the sum over a segment, which is its own transpose: so is out's in g, and
# grad y = c (g - S(y g)) - g S(y c) for the cotangent c of out.
define(
    Op(
        name="softmax_pullback",
        forward=segment_kernels.softmax_pullback,
        abstract=_checked("softmax_pullback", True),
        vjp=(
            lambda F, c, _y, _g, y, ids, *, count: F.softmax_pullback(c, y, ids, count=count),
            lambda F, c, _y, g, y, ids, *, count: (
                c * (g - _weighted(F, y, g, ids, count)) - g * _weighted(F, y, c, ids, count)
            ),
            None,
        ),
        jvp=(
            None,
            lambda F, t, _y, g, y, ids, *, count: (
                t * (g - _weighted(F, y, g, ids, count)) - y * _weighted(F, t, g, ids, count)
            ),
            None,
        ),
        linear_in=LINEAR,
        entry_map=Segmented(full=True),
        batch=_batched,
        loops=loops.softmax_pullback,
        samples=_samples(2),
        exceptions={"complex": "softmax, of which it is the derivative, is real"},
    )
)
