"""Lowering by formulas: graphs that are alike but for their numbers are lowered once for all of them.

    step(x) for x of 347, 212 and 490 rows      # each is traced: three graphs, which differ in one number

The first size has code of its own. At the second, the graph is lowered with symbolic numbers in place of
those that have changed (`iverson.expr.symbolic_numbers`), and its code takes as words all integers that are
symbolic (`iverson.codegen.launches.integer_arguments`). What a call needs besides the code (words, shapes,
the size of the arena) is known by formulas, under the path conditions that lowering met. A later graph whose
numbers meet them is not lowered: it takes what the formulas give, in a few hundred operations. Costs are
judged by the numbers of the graph that was lowered (`typical`): that others are near them is a condition.

Numbers of a graph that are equal are one number here, so graphs are alike only if the same ones are equal: an
extent that happens to be that of another axis, or the value of a parameter, is lowered by itself. 0, 1 and -1
are not numbers but part of the text. Where symbolic numbers do not pass (`EscapedNumber`), and where there
are enough general codes, a graph is lowered by its own numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from iverson.codegen.launches.integer_arguments import CodeSharing, NoGeneralCode, SymbolicSharing
from iverson.core.aval import Aval, has_shape
from iverson.core.dispatch import value_of
from iverson.core.op import Op
from iverson.core.protocols import Params
from iverson.core.python.recent_items import RecentItems
from iverson.expr.symbolic_numbers import Argument, Formulas, Number, Recording, SymbolicNumber
from iverson.graph.ir.nodes import Equation, Graph, Value
from iverson.graph.ir.print import text_and_objects

#: Families of graphs that a function remembers, and formulas of a family.
FAMILIES, MOST = 64, 8
#: Attempts without success after which a family gets no more formulas: where a number of Python is needed,
#: and where no general code fits yet.
ESCAPES, MISSES = 2, 8

#: Numbers, texts and lists of facts; `_Position` where formulas give a number.
Facts: TypeAlias = "Argument | Sequence[Facts]"
#: Lowers a graph.
Lower = Callable[[Graph, SymbolicSharing], Facts]
#: Number in place of another one.
Substitution = Callable[[Number], Any]


class LoweringFormulas(CodeSharing):
    """Codes that programs of a function share, and formulas for what their calls need."""

    def __init__(self, *, always: bool = False) -> None:
        super().__init__(always=always)
        self._graphs: RecentItems[Hashable, _Family] = RecentItems(FAMILIES)

    def facts(self, graph: Graph, how: Hashable, lower: Lower, keep: Callable[[Facts], None]) -> Any:
        """The facts of a lowered graph, by formulas; None where there are none for it.

        graph : one of whose parameters all have a text. how : hashable; what lowering depends on besides the
        graph. keep : gets the facts of a graph that was lowered for them.
        """
        key, numbers = _key_of(graph, how)
        family = self._graphs.find(key) or self._graphs.keep(key, _Family())
        facts = family.known(numbers)
        if facts is None:
            facts = family.lowered(graph, numbers, lower, self)
            if facts is not None:
                keep(facts)
        return facts


class _Family:
    """Graphs with one text but for their numbers.

    seen : the numbers of those that were lowered by themselves. formulas : with which of the numbers they
    take, and the others as they must be.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[Number, ...]] = []
        self.formulas: list[_Facts] = []
        self.escapes = self.misses = 0

    def known(self, numbers: tuple[Number, ...]) -> Any:
        """The facts by formulas that there are; None if none hold."""
        return next((x for facts in self.formulas if (x := facts.at(numbers)) is not None), None)

    def lowered(
        self, graph: Graph, numbers: tuple[Number, ...], lower: Lower, sharing: LoweringFormulas
    ) -> Any:
        """The facts by formulas of which this graph is the first; None if it must be lowered by itself."""
        earlier = [x for x in self.seen if x != numbers]
        self.seen = [*earlier, numbers][-4:]
        if not earlier or self.escapes >= ESCAPES or self.misses >= MISSES:
            return None
        changing = [k for k, n in enumerate(numbers) if any(x[k] != n for x in earlier)]
        try:
            new = _lowered(graph, numbers, changing, lower, sharing)
        except NoGeneralCode:
            self.misses += 1
            return None
        except Exception:  # code that reads a number as one of Python's: it may raise anything
            self.escapes += 1
            return None
        self.formulas = [new, *self.formulas][:MOST]
        return new.at(numbers)


class _Facts:
    """Facts of lowered graphs as formulas of their numbers."""

    def __init__(
        self, form: Facts, formulas: Formulas, numbers: Sequence[Number], changing: Sequence[int]
    ) -> None:
        self.form, self.formulas, self.changing = form, formulas, changing
        self.fixed = [(k, n) for k, n in enumerate(numbers) if k not in set(changing)]

    def at(self, numbers: Sequence[Number]) -> Any:
        """The facts for a graph with other numbers; None where the formulas do not hold."""
        if any(numbers[k] != n for k, n in self.fixed):
            return None
        results = self.formulas.at([numbers[k] for k in self.changing])
        return None if results is None else _mapped(self.form, lambda p: results[p.number], _Position)


class _Position:
    """The place of a symbolic number in facts."""

    def __init__(self, number: int) -> None:
        self.number = number


def _lowered(
    graph: Graph, numbers: Sequence[Number], changing: Sequence[int], lower: Lower, sharing: CodeSharing
) -> _Facts:
    recording = Recording()
    symbols = {_named(numbers[k]): recording.number(numbers[k]) for k in changing}
    facts = lower(with_numbers(graph, lambda n: symbols.get(_named(n), n)), SymbolicSharing(sharing))
    results: list[Any] = []

    def position(n: SymbolicNumber) -> _Position:
        results.append(n)
        return _Position(len(results) - 1)

    form = _mapped(facts, position, SymbolicNumber)
    return _Facts(form, recording.formulas(results), numbers, changing)


def _mapped(facts: Facts, f: Callable[..., Facts], kind: type) -> Facts:
    """Facts with ``f(x)`` in place of each x of a kind."""
    if type(facts) is kind:
        return f(facts)
    if isinstance(facts, (list, tuple)):
        return [_mapped(x, f, kind) for x in facts]
    assert type(facts) in (str, int, float, bool), f"got {facts!r} among facts"
    return facts


def _named(n: Number) -> tuple[type, str]:
    """A number as a key: 1 and 1.0 are two, and 0.0 and -0.0."""
    return type(n), repr(n)


def _key_of(graph: Graph, how: Hashable) -> tuple[Hashable, tuple[Number, ...]]:
    """Key of a graph without its numbers, and these."""
    recording = Recording()
    symbols: dict[Any, Any] = {}
    numbers: list[Number] = []

    def symbol(n: Number) -> Any:
        name = _named(n)
        if name not in symbols:
            symbols[name] = recording.number(n)
            numbers.append(n)
        return symbols[name]

    text, objects = text_and_objects(with_numbers(graph, symbol))
    constants = [x for _, x in graph.constants]
    ops = [x for x in objects if isinstance(x, Op)]
    kinds = tuple(type(value_of(x, x)) for x in constants)
    repeated = tuple([next(k for k, y in enumerate(constants) if y is x) for x in constants])
    return (text.replace(f"<{recording.name}.", "<"), kinds, repeated, tuple(ops), how), tuple(numbers)


def with_numbers(graph: Graph, f: Substitution) -> Graph:
    """Graph with ``f(n)`` in place of each number among extents, parameters and operands, but 0, 1 and -1."""
    return _Numbers(f).graph(graph)


class _Numbers:
    def __init__(self, f: Substitution) -> None:
        self.f = f
        self.values: dict[Value, Value] = {}

    def value(self, v: Value) -> Value:
        new = self.values.get(v)
        if new is None:
            aval = v.aval
            if has_shape(aval):
                aval = Aval(self.param(aval.shape), aval.dtype, aval.support)
            new = self.values[v] = Value(aval)
        return new

    def param(self, x: Argument | slice | list[Argument]) -> Any:
        if isinstance(x, (int, float)):
            return x if isinstance(x, int) and -1 <= x <= 1 else self.f(x)
        if isinstance(x, Value):
            return self.value(x)
        if isinstance(x, Graph):
            return self.graph(x)
        if isinstance(x, slice):
            return slice(self.param(x.start), self.param(x.stop), self.param(x.step))
        if type(x) is tuple:
            return tuple([self.param(part) for part in x])
        return [self.param(part) for part in x] if isinstance(x, list) else x

    def params(self, params: Params) -> dict[str, Any]:
        return {name: self.param(x) for name, x in params.items()}

    def equation(self, e: Equation) -> Equation:
        return replace(
            e, operands=self.param(e.operands), params=self.params(e.params), results=self.param(e.results)
        )

    def graph(self, graph: Graph) -> Graph:
        constants = tuple([(self.value(v), x) for v, x in graph.constants])
        inputs = self.param(graph.inputs)
        equations = tuple(map(self.equation, graph.equations))
        return Graph(inputs, equations, self.param(graph.outputs), constants)


__all__ = ["Facts", "LoweringFormulas", "with_numbers"]
