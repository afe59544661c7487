"""Masks as index arrays: entries that a mask picks, or puts back, are gathered by their places.

%2 = pack[count=n](%0, %mask)     ->    %places = the place of each entry, in order, where the mask holds
                                        %3 = reshape(%0); %2 = gather[axes=(0,)](%3, %places)

%2 = unpack[count=n](%0, %mask)   ->    %ranks = how many of them come before each place
                                        %3 = gather[axes=(0,)](%0, %ranks); %2 = where(%mask, %3, 0)

Places and ranks are computed from the mask by running sums. A mask is a constant unless examples of a batch
share it; places and ranks of a constant mask are constants too.
"""

from __future__ import annotations

from math import prod

import numpy as np

from iverson.core.aval import Aval
from iverson.graph.ir.nodes import Value
from iverson.graph.passes.rewriting import WRITTEN, After, Match, Rewriting, Writer, rule

_INT = np.dtype(np.int64)


def _flat(w: Writer, x: Value) -> Value:
    if len(x.shape) == 1:
        return x
    flat = Value(Aval((prod(x.shape),), x.dtype))  # not on a pattern, which nobody reads
    return w.write("reshape", x, result=flat, shape=flat.shape)


def _ranks(w: Writer, mask: Value) -> Value:
    """For each place of the flat mask, how many places before it hold; used only where the mask holds."""

    def make() -> Value:
        flags = w.write("astype", _flat(w, mask), dtype=_INT)
        return w.write("subtract", w.write("cumulative_sum", flags, axis=0), 1)

    return w.once(("ranks", mask), make)


def _places(w: Writer, mask: Value, count: int) -> Value:
    """The places of the flat mask that hold, in order, as an array of ``count`` integers.

    Places that do not hold are written beyond the last entry, which is then cut off.
    """

    def make() -> Value:
        at = w.write("where", _flat(w, mask), _ranks(w, mask), count)
        every = w.constant(np.arange(prod(mask.shape)))
        positions = w.write("where", _flat(w, mask), every, 0)
        places = w.write("scatter_add", positions, at, axes=(0,), shape=(count + 1,))
        return w.write("index_basic", places, key=(slice(0, count, 1),))

    return w.once(("places", mask, count), make)


def _packed(m: Match) -> After:
    w, x, mask, count = m.writer, m["x"], m["mask"], m.equation.params["count"]
    if type(x) is not Value or type(mask) is not Value:
        return None
    (result,), where = m.equation.results, m.equation.where
    if not count:
        w.write("index_basic", _flat(w, x), where=where, result=result, key=(slice(0, 0, 1),))
    else:
        w.write("gather", _flat(w, x), _places(w, mask, count), where=where, result=result, axes=(0,))
    return WRITTEN


def _unpacked(m: Match) -> After:
    w, x, mask = m.writer, m["x"], m["mask"]
    if type(x) is not Value or type(mask) is not Value:
        return None
    (result,), where = m.equation.results, m.equation.where
    if not m.equation.params["count"]:
        w.write("copy", w.constant(np.zeros(result.shape, x.dtype)), where=where, result=result)
    else:
        ranks = w.write("reshape", w.write("maximum", _ranks(w, mask), 0), shape=result.shape)
        none = False if x.dtype.kind == "b" else 0
        w.write("where", mask, w.write("gather", x, ranks, axes=(0,)), none, where=where, result=result)
    return WRITTEN


packing = Rewriting(
    "packing",
    rule("pack(x, mask) -> gather(reshape(x), places(mask))", _packed),
    rule("unpack(x, mask) -> where(mask, gather(x, ranks(mask)), 0)", _unpacked),
)


__all__ = ["packing"]
