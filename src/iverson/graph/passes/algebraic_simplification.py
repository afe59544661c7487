"""Algebraic simplification: equations become one of their operands, or simpler equations.

    identity(x), selected(x) of a value without a selection, x in its own shape, dtype or order      ->  x
    multiply(x, 1), divide(x, 1), pow(x, 1), add_n(x), negative(negative(x))                         ->  x
    add(x, zero), add_n(x, zero), subtract(x, zero) of what is structurally zero                     ->  x
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
from iverson.core.region import Region
from iverson.core.table import TABLE
from iverson.graph.ir.nodes import Equation, Graph, Operand, Value
from iverson.graph.ir.regions import rewritten, substituted
from iverson.kernels import index_keys
from iverson.layouts import Zero, is_strided
from iverson.ops.moves.shape_ops import Joined

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
        made = rewritten(equation, known)
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


def _difference(known: _Known, e: Equation) -> Simpler:
    x, y = e.operands
    return x if known.is_zero(y) and _same(x, e.results[0]) else None


def _indexed(known: _Known, e: Equation) -> Simpler:
    """What is read of a stack or concat is read of the operand that it is of."""
    (x,), key = e.operands, e.params["key"]
    if type(x) is not Value or index_keys.reads_everything(key, x.shape):
        return _itself(known, e)
    inner = known.by(x, "stack") or known.by(x, "concat")
    return None if inner is None else _read_joined(e, inner, index_keys.key_region(key, x.shape))


def _read_joined(e: Equation, inner: Equation, read: Region) -> Simpler:
    places, (joined,), key = inner.op.entry_map, inner.results, e.params["key"]
    assert isinstance(places, Joined)
    for k, x in enumerate(inner.operands):
        if type(x) is not Value or x.dtype != e.results[0].dtype or not read.size:
            continue
        own = places.image_of(Region.full(x.shape), k, inner.params)
        if own.intersect(read) == read:
            within = list(index_keys.key_within(own, key, joined.shape))
            if inner.op.name == "stack":  # the operand lacks the axis, along which one entry is read
                at = [n for n, item in enumerate(within) if item is not None][inner.params["axis"]]
                within[at : at + 1] = [None] if isinstance(within[at], slice) else []
            return replace(e, operands=(x,), params={"key": tuple(within)})
    return None


_RULES: Mapping[str, Callable[[_Known, Equation], Simpler]] = {
    **dict.fromkeys(("identity", "copy", "positive", "astype", "broadcast_to"), _itself),
    "selected": _selected,
    "multiply": _neutral(0, 1),
    "divide": _neutral(1),
    "pow": _neutral(1),
    "negative": _twice,
    "add": _terms,
    "add_n": _terms,
    "subtract": _difference,
    "permute_dims": _permuted,
    "reshape": _reshaped,
    "index_basic": _indexed,
}
assert set(_RULES) <= set(TABLE)
