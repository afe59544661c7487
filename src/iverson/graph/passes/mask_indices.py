"""Masks as index arrays: entries that a mask picks, or puts back, are gathered by their places.

%2 = pack[count=n](%0, %mask)     ->    %places = the place of each entry, in order, where the mask holds
                                        %3 = reshape(%0); %2 = gather[axes=(0,)](%3, %places)

%2 = unpack[count=n](%0, %mask)   ->    %ranks = how many of them come before each place
                                        %3 = gather[axes=(0,)](%0, %ranks); %2 = where(%mask, %3, 0)

Places and ranks are computed from the mask by running sums. A mask is a constant unless examples of a batch
share it; places and ranks of a constant mask are constants too.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.table import TABLE
from iverson.graph.ir.nodes import Equation, Graph, Operand, Value

_INT = np.dtype(np.int64)


def packing(graph: Graph) -> Graph:
    """The graph without ops on masks."""
    if not any(e.op.name in _RULES and type(e.operands[1]) is Value for e in graph.equations):
        return graph
    made = _Packing(graph)
    for e in graph.equations:
        made.add(e)
    return replace(graph, equations=tuple(made.equations), constants=tuple(made.constants.items()))


class _Packing:
    def __init__(self, graph: Graph) -> None:
        self.equations: list[Equation] = []
        self.constants: dict[Value, Any] = dict(graph.constants)
        self.known: dict[Any, Value] = {}

    def add(self, e: Equation) -> None:
        rule = _RULES.get(e.op.name)
        x, mask = e.operands if rule is not None else (None, None)
        if rule is None or type(mask) is not Value or type(x) is not Value:
            self.equations.append(e)
        else:
            op, operands, params = rule(self, x, mask, e)
            self.equations.append(replace(e, op=TABLE[op], operands=operands, params=params))

    def bind(self, op: str, *operands: Operand, **params: Any) -> Value:
        known = (Aval(x.shape, x.dtype) if type(x) is Value else x for x in operands)
        made = Value(TABLE[op].infer(*known, **params))
        self.equations.append(Equation(TABLE[op], operands, params, (made,)))
        return made

    def constant(self, array: Any) -> Value:
        made = Value(Aval(array.shape, array.dtype))
        self.constants[made] = array
        return made

    def once(self, key: Any, make: Any) -> Value:
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    def flat(self, x: Value) -> Value:
        return x if len(x.shape) == 1 else self.bind("reshape", x, shape=(prod(x.shape),))

    def ranks(self, mask: Value) -> Value:
        """At each place in a row, the number of the entry that is there, if one is."""

        def make() -> Value:
            counted = self.bind("astype", self.flat(mask), dtype=_INT)
            return self.bind("subtract", self.bind("cumulative_sum", counted, axis=0), 1)

        return self.once(("ranks", mask), make)

    def places(self, mask: Value, count: int) -> Value:
        """Of each entry, in a row; all other places are written beyond the last."""

        def make() -> Value:
            at = self.bind("where", self.flat(mask), self.ranks(mask), count)
            every = self.constant(np.arange(prod(mask.shape)))
            own = self.bind("where", self.flat(mask), every, 0)
            found = self.bind("scatter_add", own, at, axes=(0,), shape=(count + 1,))
            return self.bind("index_basic", found, key=(slice(0, count, 1),))

        return self.once(("places", mask, count), make)


def _packed(p: _Packing, x: Value, mask: Value, e: Equation) -> Any:
    count: int = e.params["count"]
    if not count:
        return "index_basic", (p.flat(x),), {"key": (slice(0, 0, 1),)}
    return "gather", (p.flat(x), p.places(mask, count)), {"axes": (0,)}


def _unpacked(p: _Packing, x: Value, mask: Value, e: Equation) -> Any:
    shape = e.results[0].shape
    if not e.params["count"]:
        return "copy", (p.constant(np.zeros(shape, x.dtype)),), {}
    ranks = p.bind("reshape", p.bind("maximum", p.ranks(mask), 0), shape=shape)
    return "where", (mask, p.bind("gather", x, ranks, axes=(0,)), False if x.dtype.kind == "b" else 0), {}


_RULES = {"pack": _packed, "unpack": _unpacked}


__all__ = ["packing"]
