"""Support and demand: each value is computed only where it may be nonzero and is read.

    %2 = embed[key=(3, :), ...](%g)     a box       %2 = index_basic[key=(3, :)](%x)
    %3 = cos(%x)                                    %3 = cos(%2)
    %4 = multiply(%2, %3)                   ->      %4 = multiply(%g, %3)
                                                    %5 = embed[key=(3, :), ...](%4)

    %2 = bracket(%c, %g)    a selection
    %3 = multiply(%2, %x)                   ->      %3 = multiply(%g, %x)
    %4 = selected(%3)                               %4 = where(%c, %3, 0)

Demands go backwards, supports forwards; a value is computed where they meet. One that is not computed
everywhere is held in a box. Ops compute on parts by their entry maps: an elementwise op on the
region outside of which its result is zero or unread, a product on rows and columns, a reduction on whole
lines, an op that moves entries on the part that it moves. All others get zeros in place of missing entries.

The rules of ops are those of eager kernels (`kernels.partial`), run on values of the graph. An op's way with
a selection follows from its record: one that is zero where the bracket is computes on all values and carries
the condition, one that moves entries moves the condition too, a sum selects and is held where any of its
terms is. All others select first. A product selects; terms of which a factor is left out are dropped where
the product is not finite (`mended`), and rows and columns that are left out stay so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from iverson.autograd.mode import recording
from iverson.autograd.node import differentiated
from iverson.core.dispatch import Handle, bind, make_handle, value_of
from iverson.core.entries import FULL, NOTHING, Box, Entries, Stored, covers
from iverson.core.op import Op, frozen
from iverson.core.protocols import LayoutValue, Params
from iverson.core.shapes import Shape
from iverson.core.table import TABLE, F
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.nodes import AnyOperand, Argument, Equation, Graph, Operand, Value, values_of
from iverson.graph.ir.operations import is_pure
from iverson.graph.passes.demand_analysis import demanded, met
from iverson.graph.passes.graph_namespace import GRAPHS
from iverson.graph.passes.graph_rules import RULES, rules_of
from iverson.graph.tracing.trace import Trace, Traced
from iverson.kernels import index_keys
from iverson.kernels.index_keys import Key
from iverson.kernels.partial.partial_values import everything, placed, read, region_of
from iverson.layouts import Box as BoxLayout
from iverson.layouts import Bracket, Packed, to_strided
from iverson.ops.numbers.selection_ops import TAKEN_APART, begins
from iverson.te.ops.operator import expression_of


def entries(graph: Graph) -> Graph:
    """The graph in which each value is computed where it may be nonzero and is read.

    A value that is cut to its support reads less of its operands: so this repeats while fewer entries are
    computed.
    """
    result, cut = _cut(graph)
    less = _computed(result) < _computed(graph)
    if not less and is_made(graph):
        return graph
    while cut:
        graph = result
        result, cut = _cut(graph)
        if _computed(result) >= _computed(graph):
            return graph
    return result


def is_of_stored(graph: Graph) -> bool:
    """True if a selection begins at stored entries: it is carried once the entries are values themselves."""
    return any(
        e.op is TABLE["sum_of_stored"]
        or (e.op is TABLE["values_at"] and e.params.get("held", False) and _is_sparse(e.operands[0]))
        for e in graph.equations
    )


#: What may read from around a box, or put its entries apart.
_FROM_AROUND = ("gather", "scatter_add", "roll", "reshape")


def is_made(graph: Graph) -> bool:
    """True if no selection of the graph is still to be made."""
    return not any(type(constant) in (Bracket, Packed) for _, constant in graph.constants) and not any(
        e.op.name in TAKEN_APART
        or begins(e.op, e.params)
        or (e.op.name in _FROM_AROUND and e.operands[0].aval.support is not FULL)
        or _reads_around_a_box(e)
        for e in graph.equations
    )


def _reads_around_a_box(e: Equation) -> bool:
    """True for a product with a factor in a box, and for a box that is divided: the result is zero around the
    box, but the other operand is read there."""
    return len(values_of(e.operands)) > 1 and any(
        len(group) < len(e.operands) and any(_is_in_box(e.operands[k]) for k in group)
        for group in e.op.groups(len(e.operands))
    )


def _is_in_box(x: Operand) -> bool:
    return type(x) is Value and type(x.aval.support) is Box


def _cut(graph: Graph) -> tuple[Graph, bool]:
    """The graph with each value cut to the meet of its support and demand.

    Also returns True if any value was cut, or found to be zero.
    """
    with _Parts("entries") as level, recording(False):
        level.inputs = list(graph.inputs)
        level.constants = list(graph.constants)
        walk = _Walk(level, graph)
        before = differentiated.get()
        try:
            for equation in graph.equations:
                differentiated.set(equation.where)  # what is written for it is of the same call
                walk.equation(equation)
            result = level.graph([walk.made(x) for x in graph.outputs])
        finally:
            differentiated.set(before)
    return _ordered(_late(dead_code(result))), bool(level.parts) or walk.has_new_zeros


def _computed(graph: Graph) -> tuple[int, int]:
    """Number of entries that are computed, without those taken from a value or put in place; and number of
    equations."""
    shapes = (v.shape for e in graph.equations if e.op.name not in _PLACING for v in e.results)
    return sum(prod(shape) for shape in shapes if shape is not None), len(graph.equations)


#: How parts are taken and put in place.
_PLACING = ("embed", "index_basic")


class _Parts(Trace):
    """A trace in which a part of a value is one value, however often it is taken or put in place.

    So selections under one condition still have one condition after they are cut.
    """

    __slots__ = ("parts", "placed", "taken_from")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.parts: dict[Any, Any] = {}
        #: What was put in place, by the value that it is then, and the key that reads it there.
        self.placed: dict[Value, tuple[Any, Any]] = {}
        #: What a value was taken from, and the key that read it there.
        self.taken_from: dict[Value, tuple[Any, Any]] = {}

    def bind(self, op: Op, args: tuple[LayoutValue | complex, ...], params: Params) -> Any:
        result = self._bound(op, args, params)
        return (
            np.empty(result.shape, result.dtype)
            if isinstance(result, Traced) and 0 in result.shape
            else result
        )

    def _bound(self, op: Op, args: tuple[LayoutValue | complex, ...], params: Params) -> Any:
        """Result of an op; a part or placement that was written before is not written again."""
        if op.name not in _PLACING:
            return super().bind(op, args, params)
        x = self.operand(args[0])
        part = self._taken(x, **params) if op.name == "index_basic" else self._put_back(x, **params)
        if part is not None:
            return value_of(part)
        key = op.name, x, frozen(params)
        if key not in self.parts:
            result = self.parts[key] = super().bind(op, args, params)
            sources = self.placed if op.name == "embed" else self.taken_from
            sources[result.value] = self.handle(x), params["key"]
        return self.parts[key]

    def constant_part(self, x: Value, box: BoxLayout) -> Any:
        """Inner value of a constant in a box, noted so that putting it in place gives that constant."""
        inner = self.operand(make_handle(box.inner))
        self.taken_from[inner] = self.handle(x), box.region.slices
        self.placed[x] = self.handle(inner), box.region.slices
        return self.placed[x][0]

    def _put_back(self, x: Operand, key: Key, shape: Shape) -> Any:
        """The value that x was taken from, if x is put back there and all else is zero; None otherwise."""
        source, place = self.taken_from.get(x, (None, None))
        if source is None or key != place or shape != source.shape or not index_keys.is_dense(key):
            return None
        support = value_of(source).value.aval.support
        return source if covers(Box(index_keys.key_region(key, shape)), support, shape) else None

    def _taken(self, x: Operand, key: Key) -> Any:
        """Part of an embedded value that a key reads, embedded in turn; None where that is not known."""
        if type(x) is not Value or x not in self.placed:
            return None
        inner, place = self.placed[x]
        if key == place:
            return inner
        if not index_keys.is_dense(place):
            return None
        region, shape = index_keys.key_region(place, x.shape), index_keys.key_shape(key, x.shape)
        image = index_keys.region_through_key(region, key, x.shape)
        if image is None:
            return GRAPHS.zero(shape, x.dtype)
        inner = F.reshape(inner, shape=region.shape) if inner.shape != region.shape else inner
        inner_key = index_keys.key_within(region, key, x.shape)
        part = (
            inner
            if index_keys.reads_everything(inner_key, inner.shape)
            else F.index_basic(inner, key=inner_key)
        )
        return part if image.covers(shape) else F.embed(part, key=image.slices, shape=shape)


def _late(graph: Graph) -> Graph:
    """The graph in which parts are taken and put in place just before they are read."""
    waiting: dict[Value, Equation] = {}
    equations: list[Equation] = []

    def fetch(operands: Sequence[AnyOperand]) -> None:
        pending: list[Any] = list(reversed(operands))
        while pending:
            x = pending.pop()
            maker = waiting.get(x) if type(x) is Value else None
            inner = maker.operands[0] if maker else None
            if type(inner) is Value and inner in waiting:
                pending += (x, inner)
            elif maker:
                equations.append(waiting.pop(x))

    for e in graph.equations:
        if e.op.name in _PLACING:
            waiting[e.results[0]] = e
        else:
            fetch(e.operands)
            equations.append(e)
    fetch(graph.outputs)
    return replace(graph, equations=tuple(equations))


def _ordered(graph: Graph) -> Graph:
    """The graph with its constants in the order in which they are read: some were made here, some not."""
    constants: dict[Value, Any] = dict(graph.constants)
    reads = dict.fromkeys(x for e in graph.equations for x in values_of(e.operands))
    reads.update(dict.fromkeys(values_of(graph.outputs)))
    return replace(graph, constants=tuple((v, constants[v]) for v in reads if v in constants))


#: Values that are not made yet.
_PARTIAL = frozenset((Bracket, BoxLayout))


class _Walk:
    """Walk over equations: each value becomes a handle of the trace, or a box or selection of handles."""

    def __init__(self, level: _Parts, graph: Graph) -> None:
        self.level = level
        self.constants = dict(graph.constants)
        _, self.demands, self.supports = demanded(graph)
        self.known: dict[Value, Any] = {}
        #: What follows from stored values: it may be a selection where their entries are values themselves.
        self.of_stored: set[Value] = set()
        self._made: dict[Any, Any] = {}
        self.has_new_zeros = False

    def of(self, x: AnyOperand) -> Any:
        """Form of an operand in this walk: a handle, a box or selection of handles, or a number."""
        if type(x) is not Value:
            return x
        if x not in self.known:
            self.known[x] = self._found(x)
        return self.known[x]

    def _found(self, x: Value) -> Any:
        """Form of a constant, an input, or the result of an equation that was written as it is."""
        constant: Any = self.constants.get(x)
        handle = self.level.handle(x)
        if type(constant) is BoxLayout:
            return BoxLayout(constant.shape, constant.region, self.level.constant_part(x, constant))
        if type(constant) is Bracket:
            return self._bracket(constant)
        if type(constant) is Packed:
            return Bracket(self._constant(to_strided(constant)), self._constant(constant.mask), is_made=True)
        if constant is None and isinstance(support := x.aval.support, Box):
            return BoxLayout(x.shape, support.region, read(GRAPHS, handle, support.region))
        return handle

    def _bracket(self, selection: Bracket) -> Any:
        """A constant selection with handles: in a box if it is of a part; its condition has extent 1 along
        axes on which it repeats."""
        values, condition = selection.values, selection.condition
        if type(values) is BoxLayout:
            inner = Bracket(self._constant(values.inner), self._constant(condition.inner), selection.negated)
            return placed(GRAPHS, values.shape, values.region, inner)
        once = tuple(
            slice(1) if s == 0 and n else slice(None)
            for s, n in zip(condition.strides, condition.shape, strict=True)
        )
        return Bracket(self._constant(values), self._constant(condition[(*once, ...)]), selection.negated)

    def _constant(self, value: LayoutValue) -> Any:
        return self.level.handle(self.level.operand(make_handle(value)))

    def made(self, x: AnyOperand) -> Any:
        """Handle of an operand with all of its entries, its selection made."""
        operand = self.of(x)
        if type(operand) not in _PARTIAL:
            return operand
        if x not in self._made:
            self._made[x] = GRAPHS.plain(operand)
        return self._made[x]

    def begun(self, x: AnyOperand) -> Any:
        """Handle of an operand of an op that also has stored operands.

        A selection is handed over as a `bracket`, which is carried out where the stored entries are computed.
        """
        operand = self.of(x)
        if type(operand) in _PARTIAL:
            operand = everything(GRAPHS, GRAPHS.as_selection(operand))
        if type(operand) is not Bracket:
            return self.made(x)
        return F.bracket(operand.condition, operand.values, negated=operand.negated)

    def equation(self, e: Equation) -> None:
        """Write the equation, or find its results by a rule on partial values; ``known`` gets the results.

        Results that are empty, or of which nothing is demanded, are not computed.
        """
        if all(0 in v.shape and not _is_sparse(v) for v in e.results) and is_pure(e):
            self.known.update((v, make_handle(np.empty(v.shape, v.dtype))) for v in e.results)
            return
        needs = [self.demands.get(v, NOTHING) for v in e.results]
        if all(map(self._is_nothing, e.results, needs)) and is_pure(e):
            self.known.update((v, GRAPHS.zero(v.shape, v.dtype)) for v in e.results)
            return
        result = None
        expression = expression_of(e.op)
        linear = e.operands[:1] if expression is not None and expression.linear else e.operands
        sparse = any(map(_is_sparse, (*linear, *e.results)))
        if sparse or (self.of_stored and not self.of_stored.isdisjoint(values_of(e.operands))):
            self.of_stored.update(e.results)
        if not e.op.multiple and not sparse:
            result = self.carried(e, needs[0])
        beside = bool(self.of_stored) and self._is_beside_stored(e, result)
        if result is not None and not beside:
            need = needs[0]
            if type(result) is Bracket and not result.is_made and isinstance(need, Box):
                # What is read is selected.
                region = region_of(result).intersect(need.region)
                result = placed(GRAPHS, result.shape, region, read(GRAPHS, result, region))
            self.known[e.results[0]] = result
            self.has_new_zeros |= GRAPHS.is_zero(result)
            return
        values = [self.of(x) for x in e.operands]
        operand = self.begun if beside or e.op is TABLE["from_values"] else self.made
        if not _PARTIAL.isdisjoint(map(type, values)) and _selects(e):
            self.known.update(zip(e.results, _evaluated(e, list(map(operand, e.operands))), strict=True))
            return
        operands = tuple([self.level.operand(operand(x)) for x in e.operands])
        self.level.equations.append(replace(e, operands=operands))

    def _is_nothing(self, v: Value, need: Entries) -> bool:
        """True if none of the entries in a value's support is demanded."""
        return met(need, v, self.supports.get(v, v.aval.support)) is NOTHING

    def carried(self, e: Equation, need: Entries) -> Any:
        """Result of a rule on operands in their forms; None where these must be made first."""
        operands = [self.of(x) for x in e.operands]
        if e.op.name == "where_held" and self.of_stored:
            return self._where_held(e, operands[0])
        if need is FULL and e.op.name not in RULES and _PARTIAL.isdisjoint(map(type, operands)):
            return None
        for rule in rules_of(e.op):
            result = rule(GRAPHS, e.op, operands, e.params, need)
            if result is not NotImplemented:
                return result
        return None

    def _is_beside_stored(self, e: Equation, result: Handle | Bracket | BoxLayout | None) -> bool:
        """True if an elementwise op or sum must wait until stored entries are values themselves.

        That is so if it has a stored operand, or a selection beside a value that follows from a stored one:
        only then is it known which entries both leave out.

        result : the result that a rule gave; None if no rule did.
        """
        if e.op.name in TAKEN_APART or not (e.op.elementwise or e.op is TABLE["add_n"]):
            return False
        if result is None:
            return any(map(_is_sparse, e.operands))
        return (
            type(result) not in _PARTIAL
            and not _PARTIAL.isdisjoint(type(self.of(x)) for x in e.operands)
            and not self.of_stored.isdisjoint(values_of(e.operands))
        )

    def _where_held(self, e: Equation, x: Handle | Bracket | BoxLayout) -> Any:
        """Mask of the entries that a selection holds beside stored values; None if x is no selection.

        Which entries the stored values leave out is known where their entries are values themselves.
        """
        x = everything(GRAPHS, GRAPHS.as_selection(x))
        if type(x) is not Bracket:
            return None
        return F.logical_and(GRAPHS.everywhere(x), bind(e.op, (x.values,), {}))


def _is_sparse(x: AnyOperand) -> bool:
    return type(x) is Value and isinstance(x.aval.support, Stored)


def _selects(e: Equation) -> bool:
    """True if a result has a support that is not full: it follows from operands that are not made yet."""
    return any(v.aval.support is not FULL for v in e.results)


def _evaluated(e: Equation, args: Sequence[Argument]) -> Sequence[Any]:
    evaluate = getattr(e.op, "evaluate", None)
    if evaluate is not None:
        return evaluate(args, **e.params)  # type: ignore[no-any-return]
    out = bind(e.op, tuple(args), dict(e.params))
    return out if e.op.multiple else (out,)


__all__ = ["entries", "is_made", "is_of_stored"]
