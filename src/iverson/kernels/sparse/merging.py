"""Unions and intersections of patterns, by one merge of their sorted entries, and values read at them.

A merge finds which entries of one pattern are which of the other. Both patterns keep that for as long as both
live, so that operands are read at the pattern of a result, and cotangents back, without a search.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isfinite, prod
from typing import Any
from weakref import ref

import numpy as np

from iverson.core.protocols import LayoutValue
from iverson.layouts import counting_sorts
from iverson.layouts.compressed import CompressedPattern
from iverson.layouts.conversion import from_keys
from iverson.layouts.coo import CooPattern
from iverson.layouts.pattern import Array, Pattern, Sparse
from iverson.layouts.pattern_symbols import PatternSymbol, follows
from iverson.layouts.placement import Placement, Source, converted, placements, reordered
from iverson.layouts.weak_tables import ForOthers


def read_at(value: Sparse, pattern: Pattern) -> Array:
    """Entries of ``value`` at the entries of ``pattern``, which has as many axes; 0 where it stores none.

    The value must store each entry once.
    """
    if value.pattern is pattern:
        return value.entries
    placement = placements(pattern).get(value.pattern) or _placement(value.pattern, pattern)
    if placement is not None:
        return placement.read(value.entries, pattern.count)
    if value.pattern.count < pattern.count and pattern.distinct:
        at, there = pattern.find(value.pattern.keys)
        result = np.zeros((pattern.count, *value.dense_shape), value.dtype)
        result[at[there]] = value.entries[there]
        return result
    if not value.pattern.count:
        return np.zeros((pattern.count, *value.dense_shape), value.dtype)
    at, there = value.pattern.find(pattern.keys)
    result = counting_sorts.taken(value.entries, at)
    if not there.all():
        result[~there] = 0
    return result


def _placement(source: Pattern, target: Pattern) -> Placement | None:
    """Placement that reads values on ``source`` at ``target``; None if it follows from no known placement.

    It may follow from the placement of the transposed patterns, which have the same entries in the same
    order, from a union of both patterns, or because ``target`` is ``source`` with repeated entries.
    """
    placement = None
    if source.ndim == target.ndim == 2 and not (source.blocksize or target.blocksize):
        placement = placements(target.permuted((1, 0))).get(source.permuted((1, 0)))
    if placement is None and isinstance(target, CooPattern) and _is_coalesced(source, target):
        placement = placements(target)[source] = _of_repeats(target)
    return _across(source, target) if placement is None else placement


def _is_coalesced(source: Pattern, target: CooPattern) -> bool:
    return not target.distinct and target.coalescing()[0] is source


def _of_repeats(pattern: CooPattern) -> Placement:
    """Placement that reads values on the coalesced pattern at ``pattern``, which has repeated entries."""
    keys, order = pattern.sorted
    number = np.zeros(keys.size, np.int64)
    np.cumsum(keys[1:] != keys[:-1], out=number[1:])
    at = np.empty_like(number)
    at[order] = number
    return Placement(None, lambda: at, put=False)


def _across(source: Pattern, target: Pattern) -> Placement | None:
    """Placement between two patterns, which follows from a known union of both; None without one."""
    for union_pattern in list(placements(target)):
        target_placement, source_placement = (placements(union_pattern).get(x) for x in (target, source))
        if target_placement is None or source_placement is None:
            continue
        at, there = target_placement.at, source_placement.at
        if type(at) is type(there) is Marked and at.code is there.code:
            return _met(
                source, target, _shared(target_placement.source, at), _shared(source_placement.source, there)
            )
    return None


def _met(source: Pattern, target: Pattern, positions: Array, order: Array) -> Placement:
    placement = placements(target)[source] = Placement(order, lambda: positions, put=True)
    return placement


def _shared(source: Source, at: Marked) -> Array:
    """Positions, in one of two patterns, of the entries that both patterns store.

    source : the order of the pattern's entries in the union.
    at : the positions of the pattern's entries in the union.
    """
    positions = np.flatnonzero(at.code[at()] == 3)
    return source[positions] if isinstance(source, np.ndarray) else positions


def union(patterns: list[Pattern], model: Pattern) -> Pattern:
    """Pattern of the entries that any of the patterns stores, in the layout of ``model``.

    The patterns have one shape, and each stores its entries once. The result is a symbol if one of them is.
    """
    apart = list(dict.fromkeys(patterns))
    if len(apart) == 1 or PatternSymbol not in map(type, apart):
        return _folded(patterns, model, "union")
    layout_model = model.model if isinstance(model, PatternSymbol) else model
    key = "union", layout_model.layout, layout_model.blocksize
    pattern = follows(key, lambda *members: _folded(list(members), layout_model, "union"), *apart)
    assert pattern is not None
    return pattern


def intersection(patterns: list[Pattern], model: Pattern) -> Pattern:
    """Pattern of the entries that all of the patterns store, in the layout of ``model``. See `union`."""
    return _folded(patterns, model, "intersection")


def _folded(patterns: list[Pattern], model: Pattern, name: str) -> Pattern:
    result = patterns[0]
    for k in range(1, len(patterns)):
        other = patterns[k]
        if other is not result and other not in patterns[:k]:
            result = _known_meeting(result, other, model, name)
    return result


def _known_meeting(p: Pattern, q: Pattern, model: Pattern, name: str) -> Pattern:
    meetings: ForOthers[Any] = p.once((name, model.layout, model.blocksize), ForOthers)
    reference = meetings.get(q)
    if reference is None:
        pattern = _meeting(p, q, model, name)
        # A pattern does not keep itself.
        meetings[q] = ref(pattern) if pattern is p or pattern is q else lambda: pattern
        return pattern
    result: Pattern = reference()
    return result


def _meeting(p: Pattern, q: Pattern, model: Pattern, name: str) -> Pattern:
    """Compute the union or intersection (``name``) of two patterns, and note its placements with both.

    If one of the two patterns is the result, it is returned itself.
    """
    layout = model.layout if type(model) is CompressedPattern and not model.blocks else "coo"
    first, second = _in_order(p, layout), _in_order(q, layout)
    dtype = np.promote_types(first[1].dtype, second[1].dtype)
    pair = [(a.astype(dtype, copy=False), b.astype(dtype, copy=False)) for a, b, _ in (first, second)]
    n, m = first[0].size - 1, max(p.shape[-2:]) if layout != "coo" else prod(p.shape)
    if name == "union":
        starts, indices, code = counting_sorts.merged(n, m, *pair)
        at: tuple[Callable[[], Array], ...] = Marked(code, 1), Marked(code, 2)
    else:
        starts, indices, first_positions = counting_sorts.met(n, m, *pair)
        at = (lambda: first_positions), cache(lambda: _places(n, m, pair[1], (starts, indices)))
    pattern = None
    for x, (_, _, source) in ((p, first), (q, second)):
        if (
            pattern is None
            and x.count == indices.size
            and x.layout == layout
            and not isinstance(source, np.ndarray)
        ):
            pattern = x
    if pattern is None and layout != "coo":
        pattern = CompressedPattern(p.shape, starts, indices, _AXES[layout])
    elif pattern is None:
        pattern = CooPattern.of_keys(indices, p.shape, np.result_type(p.index_dtype, q.index_dtype))
    for x, (_, _, source), positions in zip((p, q), (first, second), at, strict=True):
        if x is not pattern:
            _place(x, pattern, source, positions, put=name == "union")
    return pattern if layout == model.layout else from_keys(pattern.keys, pattern.shape, model)


_AXES = {"csr": 0, "csc": 1}


def _in_order(x: Pattern, layout: str) -> tuple[Array, Array, Source]:
    """Starts of lines, indices, and the order of x's entries in the layout ``layout``.

    For COO there is a single line, and the indices are row-major addresses. The order gives the position in x
    of each entry.
    """
    if layout == "coo":
        keys, order = x.sorted
        return np.array([0, keys.size]), keys, order
    pattern, source = converted(x, layout)
    assert isinstance(pattern, CompressedPattern)
    return pattern.indptr, pattern.indices, source


def _places(n: int, m: int, source: tuple[Array, Array], target: tuple[Array, Array]) -> Array:
    """Positions in ``source`` of the entries of ``target``.

    A few entries are searched for; for many, one pass over all is faster.

    source, target : the starts of lines, and the indices.
    n, m : the number of lines, and their length.
    """
    starts, indices = target
    if 8 * indices.size > source[1].size or n == 1:
        return counting_sorts.met(n, m, source, target)[2]
    lines = np.repeat(np.arange(n, dtype=starts.dtype), np.diff(starts))
    return counting_sorts.places(n, m, *source, lines, indices)


class Marked:
    """Function that returns the positions, in a union of two patterns, of the entries of one of them.

    code : for each entry of the union, a number with the bit 1 or 2 for the patterns that store it.
    bit : the bit of this pattern.
    """

    __slots__ = ("_at", "bit", "code")

    def __init__(self, code: Array, bit: int) -> None:
        self.code, self.bit = code, bit
        self._at: Array | None = None

    def __call__(self) -> Array:
        if self._at is None:
            self._at = (self.code & 1 if self.bit == 1 else self.code >> 1).view(bool).nonzero()[0]
        return self._at


#: Entries from which one compiled pass over a union pays, and the functions that have one. Measured for sums
#: of matrices of new patterns (`make calibrate`): 1.3e5 to 5.2e5.
WORTHWHILE = 1 << 18
IN_ONE_PASS = frozenset(("add", "subtract", "maximum", "minimum"))


def in_one_pass(name: str, a: LayoutValue, b: LayoutValue, pattern: Pattern) -> Array | None:
    """Entries of f(a, b) on ``pattern``, in one compiled pass over both values; None if that does not pay.

    The pattern must have been made as the union of theirs. None is returned too if a result is not finite:
    NumPy then computes the entries, and warns of new infs and nans.

    name : of the function f.
    """
    if pattern.count < WORTHWHILE or not (isinstance(a, Sparse) and isinstance(b, Sparse)):
        return None
    if a.dtype != b.dtype or a.dtype.kind != "f":
        return None
    if not a.pattern.count or not b.pattern.count:  # the pass reads an entry of each at every step
        return None
    by_pattern = placements(pattern)
    x, y = by_pattern.get(a.pattern), by_pattern.get(b.pattern)
    if x is None or y is None or a.dense_shape:
        return None
    first, second = x.at, y.at
    if not (type(first) is type(second) is Marked and first.code is second.code):
        return None
    from iverson.kernels.sparse import entry_loops

    out = np.empty(pattern.count, a.dtype)
    operands = (np.ascontiguousarray(reordered(v.entries, p.source)) for v, p in ((a, x), (b, y)))
    entry_loops.on_union(name, a.dtype)(first.code, *operands, out)
    return out if isfinite(np.dot(out, out)) else None


def _place(x: Pattern, target: Pattern, source: Source, at: Callable[[], Array], *, put: bool) -> None:
    placements(target)[x] = Placement(source, at, put)
    if not isinstance(source, np.ndarray):
        placements(x)[target] = Placement(None, at, not put)
