"""Polymorphism in the number of stored entries: one trace for sparse operands with any number of them.

A trace is for operands with certain numbers of stored entries. A second trace has numbers in their place that
occur nowhere else. If the two are the same but for these numbers, the computation does not depend on them:
calls with other numbers run programs for a *capacity*, at least as many entries
(`iverson.graph.lowering.padding`). A function that reads such a number is not traced for any
(`iverson.layouts.pattern_symbols.handed_out`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from iverson.core.dispatch import Operand
from iverson.graph.ir.graph_templates import is_same
from iverson.graph.ir.nodes import Graph
from iverson.graph.ir.pattern_binding import on_actual
from iverson.graph.ir.print import numbers, text_and_objects
from iverson.graph.lowering.padding import with_counts
from iverson.layouts import Pattern
from iverson.layouts.pattern_symbols import Binding, Counts, PatternSymbol, StandIn, examples, symbol_for
from iverson.transforms.pytree_tracing import TracedFunction

if TYPE_CHECKING:
    from iverson.graph.tracing.captured_state import TensorCell

Symbols = Mapping[Pattern, PatternSymbol]


def stand_ins(patterns: Sequence[Pattern], traced: TracedFunction) -> dict[Pattern, PatternSymbol]:
    """Symbol for each pattern, with a number of stored entries that occurs nowhere in the trace
    ``traced``.
    """
    counts = Counts(numbers(traced.graph), StandIn)
    return {p: symbol_for(p, counts.of(p.stored_shape), counts) for p in patterns}  # type: ignore[misc]


class AnyCount:
    """Trace of a function that is valid for any number of stored entries.

    traced : the trace, on symbols whose numbers of entries are stand-ins.
    symbols : these symbols, in the order in which a call has its patterns.
    """

    def __init__(self, traced: TracedFunction, symbols: Sequence[PatternSymbol]) -> None:
        self.traced, self.symbols = traced, tuple(symbols)
        self._taken = numbers(traced.graph)

    def agrees(self, other: TracedFunction, symbols: Sequence[PatternSymbol]) -> bool:
        """Return True if the trace ``other``, on ``symbols``, differs from this one only in numbers of
        entries.
        """
        a, b = self.traced, other
        alike = (a.leaves, a.structure, a.written) == (b.leaves, b.structure, b.written)
        alike = alike and [has for _, has in a.put] == [has for _, has in b.put]
        pairs = [(a.captured, b.captured), ([c for c, _ in a.put], [c for c, _ in b.put])]
        if not alike or not all(_are_same(x, y) for x, y in pairs):
            return False
        graphs = self._graph(symbols), other.graph
        (text, objects), (other_text, other_objects) = map(text_and_objects, graphs)
        texts_agree = text == other_text and len(objects) == len(other_objects)
        return texts_agree and all(map(is_same, objects, other_objects))

    def capacities(self, counts: Sequence[int]) -> tuple[int, ...]:
        """Number of entries to compile for, for each pattern of a call: at least its number in ``counts``."""
        counts_in_use = Counts(set(self._taken))
        pairs = zip(counts, self.symbols, strict=True)
        return tuple([counts_in_use.of((n, *s.stored_shape[1:])) for n, s in pairs])

    def graph(self, patterns: Sequence[Pattern], capacities: Sequence[int] | None = None) -> Graph:
        """Graph for operands on ``patterns``, with room for ``capacities`` entries, or by default for as many
        as they have.

        Patterns that are computed from these get capacities that suit the numbers of entries they have for
        ``patterns``.
        """
        counts = Counts({*self._taken, *(capacities or ()), *(p.stored_shape[0] for p in patterns)})
        if capacities is None:
            symbols: list[Any] = [symbol_for(p, counts=counts) for p in patterns]
        else:
            symbols = [s.with_capacity(n, counts) for s, n in zip(self.symbols, capacities, strict=True)]
        with examples(dict(zip(symbols, patterns, strict=True))):
            return self._graph(symbols)

    def _graph(self, symbols: Sequence[PatternSymbol]) -> Graph:
        """Graph of the trace with ``symbols``, and their numbers of entries, in place of its own."""
        binding: Binding = dict(zip(self.symbols, symbols, strict=True))
        graph = on_actual(self.traced.graph, binding)  # which finds symbols that follow from these
        pairs: Any = binding.items()
        counts = {m: n for old, new in pairs for m, n in zip(old.extents, new.extents, strict=True)}
        return with_counts(graph, counts)


def _are_same(tensors: Sequence[Operand | TensorCell], other_tensors: Sequence[Operand | TensorCell]) -> bool:
    """Return True if two lists of outside tensors and cells are of equal length and name the same tensors."""
    pairs = zip(tensors, other_tensors, strict=False)
    return len(tensors) == len(other_tensors) and all(
        x is y or (not (isinstance(x, Operand) or isinstance(y, Operand)) and x.same_as(y)) for x, y in pairs
    )


__all__ = ["AnyCount", "stand_ins"]
