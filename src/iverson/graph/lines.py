"""Reductions of sparse values as ops on their entries: sums, extrema, norms over lines of an array.

    %1 = max[axis=(1,)](%0)     ->      %1 = segment_max[count=n](%entries, %rows)

where %0 is stored; a line with entries that are not stored has a 0 besides. Rules of `graph.on_patterns`.
"""

from __future__ import annotations

import math
from functools import partial
from math import prod
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.graph.nodes import Equation, Value
from iverson.graph.opening import Opening, Rule, is_stored, pattern_of
from iverson.layouts import Pattern


def _is_of_lines(e: Equation) -> bool:
    """Whether the entries of a stored operand are reduced along some axes, to an array."""
    (x,), (v,) = e.operands, e.results
    return is_stored(x) and not is_stored(v) and pattern_of(x).ndim == len(x.shape) and bool(e.params["axis"])


class Lines:
    """The lines along some axes of a pattern's array, numbered in order.

    at : the line of each entry. number : how many entries are stored in each line, `None` until asked for.
    """

    def __init__(self, o: Opening, p: Pattern, axis: tuple[int, ...], dtype: Any) -> None:
        kept = [k for k in range(p.ndim) if k not in axis]
        self.o, self.dtype = o, dtype
        self.length = prod(p.shape[k] for k in axis)
        self.count = prod(p.shape[k] for k in kept)
        self.stored = p.count
        self.at: Value = o.along(p, kept[0]) if kept else self._constant(np.zeros(p.count, np.int64))
        for k in kept[1:]:
            wide = (
                self.at if self.at.dtype == np.int64 else o.bind("astype", self.at, dtype=np.dtype(np.int64))
            )
            self.at = o.bind("add", o.bind("multiply", wide, p.shape[k]), o.along(p, k))
        self._number: Value | None = None

    def _constant(self, array: Any) -> Value:
        found = Value(Aval(array.shape, array.dtype))
        self.o.constants[found] = array
        return found

    @property
    def number(self) -> Value:
        """How many entries each line stores, as numbers of the values' dtype."""
        if self._number is None:
            self._number = self.summed(self._constant(np.ones(self.stored, self.dtype)))
        return self._number

    def summed(self, entries: Value) -> Value:
        """The sum of each line's."""
        return self.o.bind("scatter_add", entries, self.at, axes=(0,), shape=(self.count,))

    def each(self, of_lines: Value) -> Value:
        """For each entry, what its line has."""
        return self.o.bind("gather", of_lines, self.at, axes=(0,))

    def largest(self, entries: Value) -> Value:
        """The maximum of each line, with the zeros that are not stored."""
        top = self.o.bind("segment_max", entries, self.at, count=self.count)
        return self.where_full(top, self.o.bind("maximum", top, 0.0))

    def where_full(self, full: Value, other: Any) -> Value:
        """One value for lines of which every entry is stored, another for those with zeros besides."""
        return self.o.bind("where", self.o.bind("less", self.number, float(self.length)), other, full)

    def missing(self) -> Value:
        """How many zeros each line has that are not stored."""
        return self.o.bind("subtract", float(self.length), self.number)


def summed(o: Opening, e: Equation) -> bool:
    """Sums of all entries, or of those of lines, as an array."""
    if not _is_of_lines(e):
        return False
    (x,) = e.operands
    p, entries = pattern_of(x), o.open(x)
    left = [k for k in range(p.ndim) if k not in e.params["axis"]]
    if not left:
        return o.is_dense(e, o.bind("sum", entries, axis=(0,), keepdims=False))
    at, shape = [o.along(p, k) for k in left], tuple(x.shape[k] for k in left)
    return o.is_dense(e, o.bind("scatter_add", entries, *at, axes=tuple(range(len(left))), shape=shape))


def _opened(o: Opening, e: Equation) -> tuple[Lines, Value] | None:
    """The lines that an equation reduces and their entries, real numbers each stored once."""
    x: Any = e.operands[0]
    p = pattern_of(x)
    if x.dtype.kind != "f" or not p.distinct or 0 in x.shape:
        return None
    return Lines(o, p, e.params["axis"], x.dtype), o.open(x)


def _extremum(o: Opening, e: Equation, *, largest: bool) -> bool:
    found = _opened(o, e) if _is_of_lines(e) else None
    if found is None:
        return False
    lines, entries = found
    top = lines.largest(_signed(o, entries, largest))
    return o.is_dense(e, _signed(o, top, largest))


def _signed(o: Opening, x: Value, as_it_is: bool) -> Value:
    return x if as_it_is else o.bind("negative", x)


def _norm(o: Opening, e: Equation) -> bool:
    found = _opened(o, e) if _is_of_lines(e) else None
    if found is None:
        return False
    lines, entries = found
    return o.is_dense(e, o.bind("sqrt", lines.summed(o.bind("square", entries))))


def _shares(o: Opening, e: Equation) -> bool:
    """1/n at the n entries of a line that attain its extremum, nan at those that are nan, at a pattern."""
    (x,), p, axis = e.operands, e.params["pattern"], e.params["axis"]
    if not (is_stored(x) and axis and pattern_of(x).ndim == p.ndim == len(x.shape) and p.distinct):
        return False
    found, values = _opened(o, e), o.at(x, p)
    if found is None or values is None:
        return False
    lines, entries = found
    largest = e.params["largest"]
    top = lines.largest(_signed(o, entries, largest))
    attained = o.bind("equal", _signed(o, entries, largest), lines.each(top))
    number = lines.summed(o.bind("astype", attained, dtype=x.dtype))
    zeros = o.bind("where", o.bind("equal", top, 0.0), lines.missing(), 0.0)
    share = o.bind("reciprocal", o.bind("add", number, zeros))
    there = lines if p is pattern_of(x) else Lines(o, p, axis, x.dtype)
    is_top = o.bind("equal", _signed(o, values, largest), there.each(top))
    shares = o.bind("where", is_top, there.each(share), 0.0)
    return o.is_dense(e, o.bind("where", o.bind("isnan", values), math.nan, shares))


#: By name.
RULES: dict[str, Rule] = {
    "extremum_shares_at": _shares,
    "max": partial(_extremum, largest=True),
    "min": partial(_extremum, largest=False),
    "norm": _norm,
    "sum": summed,
}

__all__ = ["RULES"]
