"""One trace for sparse operands with any number of entries.

A trace is of operands that store so many entries. Where a second one, with numbers that occur nowhere else in
place of these, writes down the same but for the numbers, what the function computes does not depend on them:
calls with other numbers run programs for a *capacity*, at least as many entries (`iverson.graph.padding`).
A function that compares such a number is not traced for any (`iverson.layouts.symbols.StandIn`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from iverson.core.dispatch import Operand
from iverson.graph.nodes import Graph
from iverson.graph.padding import capacity, with_counts
from iverson.graph.print import text_and_objects
from iverson.graph.symbols import on_actual
from iverson.layouts import Pattern, Strided, Zero
from iverson.layouts.symbols import PatternSymbol, StandIn, symbol_for
from iverson.transforms.tracing import TracedFunction

#: Constants of both traces are compared if they have at most so many entries.
_SMALL = 1 << 16

Symbols = Mapping[Pattern, PatternSymbol]


def stand_ins(patterns: Sequence[Pattern], traced: TracedFunction) -> dict[Pattern, PatternSymbol]:
    """A symbol for each pattern, that stores a number of entries that occurs nowhere in a trace."""
    taken = _numbers(traced.graph)
    made = {}
    for p in patterns:
        n = max(p.stored_shape[0], 1) + 1
        while n in taken or n * prod(p.stored_shape[1:]) in taken:
            n += 1
        made[p] = symbol_for(p, StandIn(n))
        taken |= {n, n * prod(p.stored_shape[1:])}
    return made  # type: ignore[return-value]


def _numbers(graph: Graph) -> set[int]:
    """The numbers in a graph's text."""
    return set(map(int, re.findall(r"\d+", text_and_objects(graph)[0])))


class AnyCount:
    """A trace for any number of entries.

    traced : with stand-ins, for these symbols, in the order of the patterns of a call.
    """

    def __init__(self, traced: TracedFunction, symbols: Sequence[PatternSymbol]) -> None:
        self.traced, self.symbols = traced, tuple(symbols)
        self._taken = _numbers(traced.graph)

    def agrees(self, other: TracedFunction, symbols: Sequence[PatternSymbol]) -> bool:
        """Whether the trace for these symbols is the same but for the numbers of entries."""
        a, b = self.traced, other
        alike = (a.leaves, a.structure, a.written) == (b.leaves, b.structure, b.written)
        alike = alike and [has for _, has in a.put] == [has for _, has in b.put]
        pairs = [(a.captured, b.captured), ([c for c, _ in a.put], [c for c, _ in b.put])]
        if not alike or not all(_are_same(x, y) for x, y in pairs):
            return False
        (text, objects), (other_text, others) = map(text_and_objects, (self._graph(symbols), other.graph))
        same = text == other_text and len(objects) == len(others)
        return same and all(map(_is_same, objects, others))

    def capacities(self, counts: Sequence[int]) -> tuple[int, ...]:
        """Numbers of entries that programs are made for, for patterns that store so many."""
        taken = set(self._taken)
        found = []
        for n in counts:
            found.append(capacity(n, taken))
            taken.add(found[-1])
        return tuple(found)

    def graph(self, capacities: Sequence[int]) -> Graph:
        """The graph for at most so many entries."""
        pairs = zip(self.symbols, capacities, strict=True)
        return self._graph([s.with_capacity(n) for s, n in pairs])

    def _graph(self, symbols: Sequence[PatternSymbol]) -> Graph:
        pairs = list(zip(self.symbols, symbols, strict=True))
        counts = {m: n for old, new in pairs for m, n in zip(old.extents, new.extents, strict=True)}
        return with_counts(on_actual(self.traced.graph, dict(pairs)), counts)


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether tensors from outside, and cells, are those of another trace."""
    pairs = zip(some, others, strict=False)
    return len(some) == len(others) and all(
        x is y or (not isinstance(x, Operand) and x.same_as(y)) for x, y in pairs
    )


def _is_same(a: Any, b: Any) -> bool:
    if type(a) is Strided and type(b) is Strided:
        alike = (a.shape, a.dtype) == (b.shape, b.dtype) and a.size <= _SMALL
        return alike and a.tobytes() == b.tobytes()
    if type(a) is Zero and type(b) is Zero:
        return (a.shape, a.dtype) == (b.shape, b.dtype)
    return a is b


__all__ = ["AnyCount", "stand_ins"]
