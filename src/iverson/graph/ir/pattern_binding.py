"""Pattern symbols of a graph, and their binding to the actual patterns of a call.

A graph that was traced for any pattern has symbols in place of patterns (`iverson.layouts.pattern_symbols`).
At each call, the inputs that are stored on a symbol say which pattern it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iverson.core.aval import Aval
from iverson.core.dispatch import LevelValue
from iverson.core.entries import Stored
from iverson.core.protocols import LayoutValue
from iverson.graph.ir.nodes import Equation, Graph, Operand, Undefined, Value, values_of
from iverson.graph.ir.regions import renamed
from iverson.layouts import support_pattern
from iverson.layouts.pattern_symbols import Binding, PatternSymbol, actual


def symbol_of(v: Value) -> PatternSymbol | None:
    """The pattern symbol that a value is stored on; None if it is on a pattern, or not stored."""
    support = v.aval.support
    pattern = support.pattern if isinstance(support, Stored) else None
    return pattern if isinstance(pattern, PatternSymbol) else None


def inputs_on_symbols(graph: Graph) -> tuple[tuple[int, PatternSymbol], ...]:
    """Numbers of the inputs that are stored on symbols, each with its symbol."""
    pairs: tuple[tuple[int, PatternSymbol], ...] = graph.once("inputs on symbols", lambda: _inputs(graph))
    return pairs


def _inputs(graph: Graph) -> tuple[tuple[int, PatternSymbol], ...]:
    pairs = ((k, symbol_of(v)) for k, v in enumerate(graph.inputs))
    return tuple((k, s) for k, s in pairs if s is not None)


def binding_of(graph: Graph, values: Sequence[LayoutValue | Undefined]) -> Binding:
    """Pattern of each symbol, from the values of the inputs."""
    binding: Binding = {}
    for k, s in inputs_on_symbols(graph):
        s.bind(_held(values[k]), binding)
    return binding


def _held(value: Any) -> Any:
    return value.pattern if isinstance(value, LevelValue) else support_pattern(value)


def unknown(graph: Graph, given: Sequence[Value] | None = None) -> set[PatternSymbol]:
    """Pattern symbols that need a pattern before all symbols in ``graph`` have one, but get none.

    A symbol gets a pattern from a value that is stored on it: an input, or one of ``given`` if that is not
    None. Symbols that follow from others need the patterns of these.
    """
    bound_symbols: set[PatternSymbol] = set()
    for v in graph.inputs if given is None else given:
        s = symbol_of(v)
        while s is not None:
            bound_symbols.add(s)
            s = s.known_from
    return {r for s in named(graph) for r in _needed(s, bound_symbols)}


def _needed(s: PatternSymbol, bound_symbols: set[PatternSymbol]) -> Iterator[PatternSymbol]:
    if s not in bound_symbols and not s.follows:
        yield s
    elif s not in bound_symbols:
        for p in s.sources:
            if isinstance(p, PatternSymbol):
                yield from _needed(p, bound_symbols)


def named(graph: Graph) -> Iterator[PatternSymbol]:
    """The symbols that a graph, or one inside, names, in order."""
    values = [*graph.inputs, *(v for v, _ in graph.constants)]
    for e in graph.equations:
        for p in e.params.values():
            if isinstance(p, PatternSymbol):
                yield p
            elif isinstance(p, Graph):
                yield from named(p)
        values += (*values_of(e.operands), *e.results)
    yield from (s for v in values if (s := symbol_of(v)) is not None)


def names_symbols(e: Equation) -> bool:
    """True where a parameter of an equation is a symbol, or a graph that names one."""
    return any(
        isinstance(p, PatternSymbol) or (isinstance(p, Graph) and any(named(p))) for p in e.params.values()
    )


def bounds(graph: Graph) -> dict[PatternSymbol, None]:
    """The symbols with a capacity that a graph names."""
    symbols: dict[PatternSymbol, None] = graph.once(
        "bounds", lambda: dict.fromkeys(s for s in named(graph) if s.capacity)
    )
    return symbols


def on_actual(graph: Graph, binding: Binding, made: dict[Value, Value] | None = None) -> Graph:
    """The graph with patterns in place of symbols.

    made : new values in place of old ones; a value of a graph around this one has the same in both.
    """
    new_values = {} if made is None else made

    def now(x: Operand) -> Operand:
        if type(x) is not Value or symbol_of(x) is None:
            return x
        if x not in new_values:
            support: Any = x.aval.support
            pattern = actual(support.pattern, binding)
            new_values[x] = Value(Aval(x.shape, x.dtype, Stored(pattern, support.products)))
        return new_values[x]

    def param(p: Any) -> Any:
        if isinstance(p, Graph):
            return on_actual(p, binding, new_values)
        return actual(p, binding) if isinstance(p, PatternSymbol) else p

    return renamed(graph, now, param, lambda _v, _w, array: array)


__all__ = [
    "binding_of",
    "bounds",
    "inputs_on_symbols",
    "named",
    "names_symbols",
    "on_actual",
    "symbol_of",
    "unknown",
]
