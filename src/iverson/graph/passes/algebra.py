"""Equations that are an operand of theirs, or simpler ones.

    identity(x), selected(x) of a value without a selection, x in its own shape, dtype or order      ->  x
    multiply(x, 1), divide(x, 1), pow(x, 1), add_n(x), negative(negative(x))                         ->  x
    permute_dims(permute_dims(x)), reshape(reshape(x))                                               ->  one
    stack(..., x, ...)[k], concat(..., x, ...)[of x]                                                 ->  x,
    x[...]

Each keeps shape, dtype and every entry, nan and the sign of zero included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from iverson.core.entries import Bracket
from iverson.core.table import TABLE
from iverson.graph.nodes import Equation, Graph, Operand, Value
from iverson.graph.regions import substituted
from iverson.layouts import Zero, is_strided

#: What an equation is instead: an operand, another equation with its results, or None for what it is.
Simpler = Operand | Equation | None


class _Known:
    """What is known while a graph is walked: the equation of each value, and constants."""

    def __init__(self, graph: Graph) -> None:
        self.made: dict[Value, Equation] = {}
        self.constants = dict(graph.constants)

    def by(self, x: Operand, name: str) -> Equation | None:
        """The equation of a value, if it is of that op."""
        found = self.made.get(x) if type(x) is Value else None
        return found if found is not None and found.op.name == name else None

    def is_all(self, x: Operand, number: int) -> bool:
        """Whether an operand is that number everywhere."""
        if type(x) is not Value:
            return isinstance(x, int | float) and x == number
        held: Any = self.constants.get(x)
        return is_strided(held) and held.dtype.kind != "c" and held.size > 0 and bool((held == number).all())

    def is_zero(self, x: Operand) -> bool:
        """Whether an operand is structurally zero."""
        return type(x) is Value and type(self.constants.get(x)) is Zero


def algebra(graph: Graph) -> Graph:
    """The graph with simpler equations."""
    known: dict[Value, Operand] = {}
    facts = _Known(graph)
    equations: list[Equation] = []
    for equation in graph.equations:
        made = replace(equation, operands=substituted(equation.operands, known))
        rule = _RULES.get(made.op.name)
        simpler: Any = None
        while rule is not None and (simpler := rule(facts, made)) is not None:
            if not isinstance(simpler, Equation):
                break
            made = simpler
            rule = _RULES.get(made.op.name)
            simpler = None
        if simpler is not None:
            known[equation.results[0]] = simpler
            continue
        equations.append(made)
        facts.made.update(dict.fromkeys(made.results, made))
    return Graph(graph.inputs, tuple(equations), substituted(graph.outputs, known), graph.constants)


def _same(x: Operand, result: Value) -> bool:
    """Whether a value may stand for a result: of its shape and dtype."""
    return type(x) is Value and x.shape == result.shape and x.dtype == result.dtype


def _itself(_known: _Known, e: Equation) -> Simpler:
    return e.operands[0] if _same(e.operands[0], e.results[0]) else None


def _selected(_known: _Known, e: Equation) -> Simpler:
    x = e.operands[0]
    return x if type(x) is Value and not isinstance(x.aval.support, Bracket) else None


def _neutral(*positions: int) -> Callable[[_Known, Equation], Simpler]:
    """The other operand where one at these positions is 1."""

    def rule(known: _Known, e: Equation) -> Simpler:
        for k in positions:
            other = e.operands[1 - k]
            if known.is_all(e.operands[k], 1) and _same(other, e.results[0]):
                return other
        return None

    return rule


def _twice(known: _Known, e: Equation) -> Simpler:
    inner = known.by(e.operands[0], e.op.name)
    return None if inner is None else inner.operands[0]


def _permuted(known: _Known, e: Equation) -> Simpler:
    x, axes = e.operands[0], e.params["axes"]
    if tuple(axes) == tuple(range(len(axes))):
        return _itself(known, e)
    inner = known.by(x, "permute_dims")
    if inner is None:
        return None
    both = tuple(inner.params["axes"][k] for k in axes)
    return replace(e, operands=inner.operands, params={"axes": both})


def _reshaped(known: _Known, e: Equation) -> Simpler:
    x = e.operands[0]
    if _same(x, e.results[0]):
        return x
    inner = known.by(x, "reshape")
    return None if inner is None else replace(e, operands=inner.operands)


def _terms(known: _Known, e: Equation) -> Simpler:
    """A sum without terms that are structurally zero."""
    terms = tuple(x for x in e.operands if not known.is_zero(x))
    if len(terms) == 1 and _same(terms[0], e.results[0]):
        return terms[0]
    fewer = terms and len(terms) < len(e.operands) and all(_same(x, e.results[0]) for x in terms)
    return replace(e, operands=terms) if fewer else None


def _indexed(known: _Known, e: Equation) -> Simpler:
    """What is read of a stack or concat is read of the operand that it is of."""
    key = e.params["key"]
    if all(isinstance(k, slice) for k in key) and _is_all(key, e.operands[0].shape):
        return _itself(known, e)
    if (inner := known.by(e.operands[0], "stack")) is not None:
        axis = inner.params["axis"]
        k = key[axis] if axis < len(key) else None
        if isinstance(k, int):
            return _read(e, inner.operands[k], (*key[:axis], *key[axis + 1 :]))
    if (inner := known.by(e.operands[0], "concat")) is not None:
        return _read_concat(e, inner, key)
    return None


def _is_all(key: Any, shape: Any) -> bool:
    return len(key) == len(shape) and all(
        (k.start, k.stop, k.step) == (0, n, 1) for k, n in zip(key, shape, strict=True)
    )


def _read(e: Equation, x: Value, key: tuple[Any, ...]) -> Equation:
    return replace(e, operands=(x,), params={"key": key})


def _read_concat(e: Equation, inner: Equation, key: Any) -> Simpler:
    axis = inner.params["axis"]
    if axis >= len(key):
        return None
    k = key[axis]
    first, last = (k, k) if isinstance(k, int) else (k.start, k.stop - 1)
    if isinstance(k, slice) and (k.step != 1 or last < first):
        return None
    for x, offset in zip(inner.operands, inner.params["offsets"], strict=True):
        if offset <= first and last < offset + x.shape[axis]:
            own = k - offset if isinstance(k, int) else slice(k.start - offset, k.stop - offset, 1)
            if x.dtype != e.results[0].dtype:
                return None
            return _read(e, x, (*key[:axis], own, *key[axis + 1 :]))
    return None


_RULES: Mapping[str, Callable[[_Known, Equation], Simpler]] = {
    **dict.fromkeys(("identity", "copy", "positive", "astype", "broadcast_to"), _itself),
    "selected": _selected,
    "multiply": _neutral(0, 1),
    "divide": _neutral(1),
    "pow": _neutral(1),
    "negative": _twice,
    "add_n": _terms,
    "permute_dims": _permuted,
    "reshape": _reshaped,
    "index_basic": _indexed,
}
assert set(_RULES) <= set(TABLE)
