"""Selections are made where they must be, and not before: a value that a condition leaves out is never read.

    %2 = bracket(%c, %g)
    %3 = multiply(%2, %x)       ->      %3 = multiply(%g, %x)
    %4 = selected(%3)                   %4 = where(%c, %3, 0)

What an op does with a selection follows from its record, as for the bracket layout (`kernels.bracket`):
one that is zero where the bracket is computes on all values and carries the condition, one that moves entries
moves the condition too, a sum selects and is held where any of its terms is. All others select first. In a
product the strong zero ends with the selection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iverson.autograd.mode import no_grad
from iverson.autograd.node import differentiated
from iverson.core.dispatch import bind, is_tracked, value_of
from iverson.core.entries import NOTHING
from iverson.core.table import F
from iverson.graph.nodes import Equation, Graph, Value
from iverson.graph.trace import Trace, Traced


@dataclass(frozen=True, slots=True)
class Held:
    """A selection not yet made: values, and where they are held (are not, if ``negated``)."""

    values: Any
    condition: Any
    negated: bool

    def selected(self) -> Any:
        """The selection made."""
        return F.where(self.condition, *((0, self.values) if self.negated else (self.values, 0)))

    def there(self) -> Any:
        """Where values are held."""
        return F.logical_not(self.condition) if self.negated else self.condition

    def same(self, other: Held) -> bool:
        """Whether both are held under one condition."""
        return self.negated == other.negated and _operand(self.condition) is _operand(other.condition)

    def stretched(self, shape: Any) -> Held:
        """Broadcast to a shape."""
        if self.values.shape == self.condition.shape == shape:
            return self
        values, condition = (F.broadcast_to(x, shape=shape) for x in (self.values, self.condition))
        return Held(values, condition, self.negated)


def _operand(x: Any) -> Any:
    held = value_of(x, x)
    return held.value if isinstance(held, Traced) else held


def brackets(graph: Graph) -> Graph:
    """The graph with selections made where they must be."""
    if not any(e.op.name in ("bracket", "selected") for e in graph.equations):
        return graph
    with Trace("brackets") as level, no_grad():
        level.inputs = list(graph.inputs)
        level.constants = list(graph.constants)
        walk = _Walk(level)
        before = differentiated.get()
        try:
            for equation in graph.equations:
                differentiated.set(equation.where)  # what is written for it is of the same call
                walk.equation(equation)
            return level.graph([walk.made(x) for x in graph.outputs])
        finally:
            differentiated.set(before)


class _Walk:
    """What values have become: handles of the trace, or `Held`."""

    def __init__(self, level: Trace) -> None:
        self.level = level
        self.known: dict[Value, Any] = {}

    def of(self, x: Any) -> Any:
        """An operand as it is held here."""
        if type(x) is not Value:
            return x
        return self.known[x] if x in self.known else self.level.handle(x)

    def made(self, x: Any) -> Any:
        """An operand with its selection made."""
        found = self.of(x)
        return found.selected() if isinstance(found, Held) else found

    def equation(self, e: Equation) -> None:
        given = [self.of(x) for x in e.operands]
        if e.op.name == "bracket":
            self.known[e.results[0]] = self._bracket(given, e)
        elif e.op.name == "selected":
            self.known[e.results[0]] = self.made(e.operands[0])
        elif not any(isinstance(x, Held) for x in given):
            operands = tuple(map(self.level.operand, given))
            self.level.equations.append(replace(e, operands=operands, results=e.results))
        else:
            for v, result in zip(e.results, _carried(e, given, self.made), strict=True):
                self.known[v] = result

    def _bracket(self, given: Sequence[Any], e: Equation) -> Held:
        condition, x = given
        if isinstance(condition, Held):
            condition = condition.selected()
        negated, shape = e.params["negated"], e.results[0].shape
        if not isinstance(x, Held):
            return Held(_full(x, e), condition, negated).stretched(shape)
        outer = Held(x.values, condition, negated).stretched(shape)
        inner = x.stretched(shape)
        return Held(inner.values, F.logical_and(inner.there(), outer.there()), False)


def _full(x: Any, e: Equation) -> Any:
    """An operand of a bracket as a handle: a number is one too."""
    if hasattr(x, "shape"):
        return x
    return F.broadcast_to(F.astype(x, dtype=e.results[0].dtype), shape=())


def _carried(e: Equation, given: list[Any], made: Callable[[Any], Any]) -> Sequence[Any]:
    """The results of an op of which some operands are held: handles, or `Held`."""
    op, params = e.op, dict(e.params)
    selected = [made(x) for x in e.operands]
    if op.multiple:
        return _evaluated(e, selected)
    shape = e.results[0].shape
    if op.elementwise or op.name == "add_n":
        found = _elementwise(e, given, shape)
        if found is not None:
            return [found]
    elif op.name == "sum":
        there = given[0].there()
        out = bind(op, (selected[0],), params)
        return [Held(out, F.any(there, **params), False)]
    elif op.entry_map.moves and len(given) == 1:
        x = given[0]
        return [Held(bind(op, (x.values,), params), bind(op, (x.there(),), params), False)]
    return _evaluated(e, selected)


def _evaluated(e: Equation, args: Sequence[Any]) -> Sequence[Any]:
    evaluate = getattr(e.op, "evaluate", None)
    if evaluate is not None:
        return evaluate(args, **e.params)  # type: ignore[no-any-return]
    out = bind(e.op, tuple(args), dict(e.params))
    return out if e.op.multiple else (out,)


def _elementwise(e: Equation, given: list[Any], shape: Any) -> Held | None:
    """The op on all values, under the conditions of operands that make it zero; None if none does."""
    op = e.op
    zeros = {k for k, x in enumerate(given) if isinstance(x, Held) or _is_zero(x)}
    groups = [g for g in op.groups(len(given)) if g and zeros.issuperset(g)]
    if op.zero_preserving and len(zeros) == len(given):
        groups.append(tuple(range(len(given))))
    free: set[int] = set()
    conditions: list[Held] = []
    for group in groups:
        terms = [given[k].stretched(shape) for k in group if isinstance(given[k], Held)]
        if not terms:
            continue
        if all(terms[0].same(t) for t in terms[1:]):
            free.update(group)
            conditions.append(terms[0])
        else:
            either = terms[0].there()
            for t in terms[1:]:
                either = F.logical_or(either, t.there())
            conditions.append(Held(terms[0].values, either, False))
    if not conditions:
        return None
    parts = [
        (x.values if k in free else x.selected()) if isinstance(x, Held) else x for k, x in enumerate(given)
    ]
    out = bind(op, tuple(parts), dict(e.params))
    if all(conditions[0].same(c) for c in conditions[1:]):
        return Held(out, conditions[0].condition, conditions[0].negated)
    both = conditions[0].there()
    for c in conditions[1:]:
        both = F.logical_and(both, c.there())
    return Held(out, both, False)


def _is_zero(x: Any) -> bool:
    held = value_of(x, x)
    return isinstance(held, Traced) and held.value.aval.support is NOTHING and not is_tracked(x)
