"""Line reductions: sums, products, extrema and norms of sparse values along axes, as ops on their entries.

    %1 = max[axis=(1,)](%0)     ->      %1 = stored_segments[count=n, kind='max'](%entries, %rows)

where %0 is stored. A line that does not store all of its entries has a 0 besides. Rules of
`graph.sparse.sparse_lowering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.entries import NOTHING
from iverson.core.protocols import DType
from iverson.graph.ir.entry_ops import stored_segments
from iverson.graph.ir.nodes import AnyOperand, Equation, Value
from iverson.graph.sparse.calling_convention import Gaps, Into
from iverson.graph.sparse.lowering_state import Opening, Rule, is_stored, pattern_of
from iverson.kernels import line_rules
from iverson.kernels.line_rules import RULES as LINE_RULES
from iverson.kernels.line_rules import StoredLines, share_of_each, shares
from iverson.kernels.sparse.sparse_moves import lines_with_entries
from iverson.layouts import Pattern


def _is_of_lines(e: Equation) -> bool:
    """True if an equation reduces the entries of a stored operand along some axes, to an array."""
    (x,), (v,) = e.operands, e.results
    return is_stored(x) and not is_stored(v) and pattern_of(x).ndim == len(x.shape) and bool(_axes(e))


def _axes(e: Equation) -> tuple[int, ...]:
    """The axes that an equation reduces."""
    axis: Any = e.params["axis"]
    return tuple(range(len(e.operands[0].shape))) if axis is None else (axis,) if type(axis) is int else axis


class Lines(StoredLines):
    """The lines along some axes of a pattern's array, numbered in order.

    at : the line of each entry.
    full : how many entries each line has, stored or not.
    """

    def __init__(self, o: Opening, p: Pattern, axis: tuple[int, ...], dtype: DType) -> None:
        remaining_axes = [k for k in range(p.ndim) if k not in axis]
        self.o, self.N, self.dtype = o, o.ops, dtype
        self.pattern, self.axis = p, axis
        self.length = prod(p.shape[k] for k in axis)
        self.full: Value | float = float(self.length)
        self.count = prod(p.shape[k] for k in remaining_axes)
        self.at: Value = self._address(remaining_axes)
        self._number: Value | None = None

    def _address(self, axes: Sequence[int]) -> Value:
        """The row-major address of each entry on some axes."""
        if not axes:
            return self.o.constant(np.zeros(self.pattern.count, np.int64))
        return _row_major(self.o, self.pattern, self.o.along(self.pattern, axes[0]), axes[1:])

    @property
    def position(self) -> Value:
        """The place of each entry in its line."""
        return _wide(self.o, self._address(self.axis))

    @property
    def gap(self) -> Value:
        """The first place of each line that is not stored; its length where there is none."""
        return self.o.take(Gaps(self.pattern, self.axis, self.count))

    @property
    def number(self) -> Value:
        """The number of entries that each line stores, in the values' dtype."""
        if self._number is None:
            self._number = self.summed(self.o.constant(np.ones(self.pattern.count, self.dtype)))
        return self._number

    def summed(self, entries: Value) -> Value:
        """The sum of each line's entries."""
        return self.o.bind("scatter_add", entries, self.at, axes=(0,), shape=(self.count,))

    def combined(self, entries: Value, kind: str) -> Value:
        """The product, the largest or the least of each line's entries."""
        return self.o.bind(stored_segments, entries, self.at, count=self.count, kind=kind)

    def each(self, of_lines: Value) -> Value:
        """For each entry, the value of its line."""
        return self.o.bind("gather", of_lines, self.at, axes=(0,))


class Segments(Lines):
    """The lines that the slices of each segment make, side by side along the first axis.

    ids : the segment of each slice, of so many segments.
    """

    def __init__(self, o: Opening, p: Pattern, ids: Value, segments: int, dtype: DType) -> None:
        self.o, self.N, self.dtype = o, o.ops, dtype
        self.pattern, self.axis = p, (0,)
        self._number = None
        lines_per_segment = prod(p.shape[1:])
        self.count = segments * lines_per_segment
        self.at = _row_major(o, p, o.bind("gather", ids, o.along(p, 0), axes=(0,)), range(1, p.ndim))
        slices = o.constant(np.ones(p.shape[0], dtype))
        self.full = o.bind("scatter_add", slices, ids, axes=(0,), shape=(segments,))
        if lines_per_segment != 1:
            of_line = o.constant(np.repeat(np.arange(segments), lines_per_segment))
            self.full = o.bind("gather", self.full, of_line, axes=(0,))


def _row_major(o: Opening, p: Pattern, first: Value, axes: Sequence[int]) -> Value:
    """The row-major address of each entry on some axes, after one that is given."""
    for k in axes:
        first = o.bind("add", o.bind("multiply", _wide(o, first), p.shape[k]), o.along(p, k))
    return first


def _wide(o: Opening, x: Value) -> Value:
    """Indices as int64."""
    return x if x.dtype == np.int64 else o.bind("astype", x, dtype=np.dtype(np.int64))


def summed(o: Opening, e: Equation) -> bool:
    """Rule of `sum`: the sum of all entries, or of those of each line.

    The result is an array, or is stored on the pattern that the graph has for it. False if no rule applies.
    """
    if not _is_of_lines(e):
        return _as_it_is(o, e) or _to_stored(o, e)
    (x,) = e.operands
    p, entries = pattern_of(x), o.among_zeros(x)
    remaining_axes = [k for k in range(p.ndim) if k not in e.params["axis"]]
    if not remaining_axes:
        return o.is_dense(e, o.bind("sum", entries, axis=(0,), keepdims=False))
    at, shape = [o.along(p, k) for k in remaining_axes], tuple(x.shape[k] for k in remaining_axes)
    return o.is_dense(
        e, o.bind("scatter_add", entries, *at, axes=tuple(range(len(remaining_axes))), shape=shape)
    )


def summed_of_stored(o: Opening, e: Equation) -> bool:
    """Rule of `sum_of_stored`, the sum of a cotangent: as `summed`.

    If zeros of the operand last (`Opening.lasting`), the result is a selection without the lines that store
    no entry. False if `summed` does not apply.
    """
    if not summed(o, e):
        return False
    (x,), (v,) = e.operands, e.results
    remaining_axes = [k for k in range(len(x.shape)) if k not in _axes(e)]
    if v not in o.now or not is_stored(x) or x not in o.lasting or not remaining_axes:
        return True
    p = pattern_of(x)
    if not p.is_symbol:
        mask = lines_with_entries(p, tuple(remaining_axes))
        there = None if mask is None else o.constant(mask)
    else:
        there = o.ops.greater(Lines(o, p, _axes(e), np.dtype(np.float64)).number, 0)
    if there is not None:
        o.now[v] = o.bind("bracket", o.reshaped(there, v.shape), o.now[v], negated=False)
    return True


def _as_it_is(o: Opening, e: Equation) -> bool:
    """Rule of a reduction over no axis: the result has the operand's entries. False for other reductions."""
    (x,), (v,) = e.operands, e.results
    if _axes(e) or not (is_stored(x) and is_stored(v)) or pattern_of(x).ndim != pattern_of(v).ndim:
        return False
    entries = o.at(x, pattern_of(v))
    return entries is not None and o.is_open(e, entries)


def _to_stored(o: Opening, e: Equation) -> bool:
    """Rule of sums of lines with a stored result, which has an entry where a line has any.

    False for other reductions.
    """
    (x,), (v,) = e.operands, e.results
    if not (is_stored(x) and is_stored(v)) or pattern_of(x).ndim != len(x.shape):
        return False
    p, q = pattern_of(x), pattern_of(v)
    if q.ndim != len(v.shape) or not q.distinct:
        return False
    at = o.take(Into(p, q, tuple(k for k in range(p.ndim) if k not in _axes(e))))
    return o.is_open(e, o.bind("scatter_add", o.among_zeros(x), at, axes=(0,), shape=(q.count,)))


def _opened(o: Opening, e: Equation, kinds: str = "f") -> tuple[Lines, Value] | None:
    """The lines that an equation reduces, and the entries of its first operand.

    None if its dtype is of no kind in ``kinds``, it may store an entry twice, or it is empty.
    """
    x: Any = e.operands[0]
    p = pattern_of(x)
    if x.dtype.kind not in kinds or not p.distinct or 0 in x.shape:
        return None
    dtype = x.dtype if x.dtype.kind == "f" else dtypes.real_of(dtypes.to_inexact(x.dtype))
    return Lines(o, p, _axes(e), dtype), o.open(x)


def _by_rule(o: Opening, e: Equation) -> bool:
    """Rule of reductions in `LINE_RULES`: write them by the rule that eager code uses too.

    False for operands to which it does not apply.
    """
    kinds, rule, _ = LINE_RULES[e.op.name]
    if not _is_of_lines(e):
        return _as_it_is(o, e) if e.op.name in ("max", "min", "prod") else False
    operands = _opened(o, e, kinds)
    return operands is not None and o.is_dense(e, rule(*operands, e.params))


def _cross_entropy(o: Opening, e: Equation) -> bool:
    """Rule of `cross_entropy` of stored entries with class numbers; False for other operands."""
    (x, classes), axis = e.operands, e.params["axis"]
    if not _of_entries(x) or type(classes) is not Value or (operands := _opened(o, e)) is None:
        return False
    lines, entries = operands
    every = o.constant(np.arange(x.shape[axis]))  # which checks that there are such classes
    targets = o.reshaped(o.bind("gather", every, o.given(classes), axes=(0,)), (lines.count,))
    losses = line_rules.losses(lines, entries, targets)
    return o.is_dense(e, line_rules.over_examples(o.ops, losses, e.params["reduction"]))


def _segment_max(o: Opening, e: Equation) -> bool:
    """Rule of `segment_max`: the largest of the slices in each segment, where entries not stored are 0.

    False for operands to which it does not apply.
    """
    x, ids = e.operands
    if not _of_entries(x) or type(ids) is not Value or x.dtype.kind != "f" or 0 in x.shape:
        return False
    lines = Segments(o, pattern_of(x), o.given(ids), e.params["count"], x.dtype)
    return o.is_dense(e, lines.extreme(o.open(x), largest=True))


def _scatter_add(o: Opening, e: Equation) -> bool:
    """Rule of `scatter_add` of stored entries into an array; index arrays name the places of slices.

    False for operands to which it does not apply.
    """
    x, *ids = e.operands
    (v,), axes = e.results, e.params["axes"]
    if not is_stored(x) or pattern_of(x).ndim < len(x.shape) or is_stored(v):
        return False
    p, entries = pattern_of(x), o.among_zeros(x)
    lead = len(x.shape) - (len(v.shape) - len(axes))
    if any(type(n) is not Value or n.shape != x.shape[:lead] for n in ids):
        return False
    coordinates = [o.along(p, k) for k in range(p.ndim)]
    at = {
        k: o.bind("gather", o.given(n), *coordinates[:lead], axes=tuple(range(lead)))
        for k, n in zip(axes, ids, strict=True)
    }
    remaining = iter(coordinates[lead:])
    places = [at[k] if k in at else next(remaining) for k in range(len(v.shape))]
    params = {**e.params, "axes": tuple(range(len(v.shape)))}
    if x not in o.lasting:
        params.pop("held", None)
    return o.is_dense(e, o.bind("scatter_add", entries, *places, **params))


def _of_entries(x: AnyOperand) -> bool:
    """True if an operand stores single entries, each once."""
    return is_stored(x) and pattern_of(x).ndim == len(x.shape) and pattern_of(x).distinct


def _shares(o: Opening, e: Equation) -> bool:
    """Rule of `extremum_shares_at`, whose result is at the entries of a pattern.

    It is 1/n at the n entries of a line that attain its extremum, and nan at those that are nan. False for
    operands to which it does not apply.
    """
    (x,), p, axis = e.operands, e.params["pattern"], e.params["axis"]
    if not is_stored(x) and x.aval.support is not NOTHING and p.ndim == len(x.shape):
        every = o.bind("extremum_shares", o.given(x), axis=axis, largest=e.params["largest"])
        return o.is_dense(e, o.gathered(every, o.places(p)))
    if not (is_stored(x) and axis and pattern_of(x).ndim == p.ndim == len(x.shape) and p.distinct):
        return False
    operands, values = _opened(o, e), o.at(x, p)
    if operands is None or values is None:
        return False
    lines, entries = operands
    of_lines = shares(lines, entries, e.params["largest"])
    there = lines if p is pattern_of(x) else Lines(o, p, axis, x.dtype)
    return o.is_dense(e, share_of_each(o.ops, values, *map(there.each, of_lines)))


#: By name.
RULES: dict[str, Rule] = {
    **dict.fromkeys(LINE_RULES, _by_rule),
    "cross_entropy": _cross_entropy,
    "extremum_shares_at": _shares,
    "scatter_add": _scatter_add,
    "segment_max": _segment_max,
    "sum": summed,
    "sum_of_stored": summed_of_stored,
}

__all__ = ["RULES"]
