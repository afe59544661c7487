"""State of sparse lowering: the graph in the making, equation by equation, and the entries of its values.

Where a rule writes an equation as native ones, its sparse operands are opened into entries and index arrays;
otherwise it stays a library step on packed values. The rules are listed in `graph.sparse.sparse_lowering`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import value_of
from iverson.core.entries import Stored
from iverson.core.op import Op
from iverson.core.protocols import DType, LayoutValue, Params
from iverson.core.python.cached import cached_property
from iverson.core.table import TABLE
from iverson.graph.ir.derivative_interface import where_held
from iverson.graph.ir.entry_ops import stored_on, stored_read
from iverson.graph.ir.nodes import (
    UNDEFINED,
    AnyOperand,
    Equation,
    Graph,
    Operand,
    Value,
    subgraphs,
    values_of,
)
from iverson.graph.ir.pattern_binding import symbol_of, unknown
from iverson.graph.ir.print import numbers
from iverson.graph.lowering.padding import entry_axis, guarded
from iverson.graph.passes.support_and_demand import is_made, is_of_stored
from iverson.graph.sparse.calling_convention import (
    Along,
    Beyond,
    Converted,
    Entries,
    Gaps,
    Given,
    Into,
    OnPatterns,
    Packed,
    Pairs,
    Places,
    Rows,
    Valid,
    entries_of,
)
from iverson.layouts import Pattern
from iverson.layouts.pattern_symbols import PatternRead, PatternSymbol
from iverson.layouts.placement import rows

Rule: TypeAlias = "Callable[[Opening, Equation], bool]"


def is_stored(x: AnyOperand) -> TypeGuard[Value]:
    """True if an operand is a value that is stored on a pattern."""
    return type(x) is Value and isinstance(x.aval.support, Stored)


def pattern_of(v: Value) -> Any:
    """The pattern that a value is stored on."""
    return v.aval.support.pattern  # type: ignore[union-attr]


def read_on(graph: Graph) -> dict[Any, Pattern]:
    """Dense values of which all readers read the entries on one pattern alone; each with this pattern.

    Their entries elsewhere need not be computed.
    """
    patterns: dict[Any, Pattern] = {}
    excluded = set(graph.outputs)
    for e in reversed(graph.equations):
        v: Any = next(iter(e.results), None)
        for x in excluded.intersection(e.results):
            patterns.pop(x, None)
        p: Any = e.params["pattern"] if e.op is stored_on else None
        if e.op.elementwise:
            p = pattern_of(v) if is_stored(v) else patterns.get(v)
        for x in e.operands:
            if (
                p is None
                or is_stored(x)
                or getattr(x, "shape", None) != v.shape
                or patterns.get(x, p) is not p
            ):
                excluded.add(x)
            else:
                patterns[x] = p
    return patterns


class _Ops:
    def __init__(self, bind: Callable[..., Value]) -> None:
        self._bind = bind

    def __getattr__(self, name: str) -> Any:
        if name not in TABLE:
            raise AttributeError(name)
        return partial(self._bind, name)


@dataclass(eq=False)
class Opening:
    """State of the lowering of one graph: the new graph so far.

    entries : for each sparse value that was opened, the value that holds its entries.
    now : the dense value in place of a value of the graph.
    whole : sparse values that exist packed, as the graph has them.
    converted : dense values to convert to a layout when a call returns them, with the parameters.
    carried : patterns of values of which the graph does not say that they are stored.
    takes : inputs of the new graph, by what a call computes for them.
    held : constants that follow from patterns, by what they are.
    bounded : the pattern whose capacity an extent is.
    rules_of : rules to try for an equation, in order: each returns True if it wrote native equations.
    """

    graph: Graph
    bounded: dict[int, PatternSymbol]
    rules_of: Callable[[Equation], Sequence[Rule]]
    equations: list[Equation] = field(default_factory=list)
    entries: dict[Value, Value] = field(default_factory=dict)
    now: dict[Value, Value] = field(default_factory=dict)
    whole: set[Value] = field(default_factory=set)
    converted: dict[Value, Params] = field(default_factory=dict)
    carried: dict[Value, Pattern] = field(default_factory=dict)
    takes: dict[Any, Value] = field(default_factory=dict)
    held: dict[Any, Value] = field(default_factory=dict)
    where: Any = None

    @cached_property
    def selects(self) -> bool:
        """True if entries may be a selection."""
        return not is_made(self.graph) or is_of_stored(self.graph)

    @cached_property
    def lasting(self) -> set[Value]:
        """Values that are zero off their patterns to any order: what was put there, and what follows from
        that alone. What follows from an input that is stored is zero there only now."""
        values = {v for v, _ in self.graph.constants if is_stored(v)}
        for e in self.graph.equations:
            operands = list(filter(is_stored, values_of(e.operands)))
            if e.op is TABLE["from_values"] or (operands and values.issuperset(operands)):
                values.update(e.results)
        return values

    def left_out(self, entries: Value, places: Value) -> Value:
        """Entries that were read at ``places``, as a selection without those of which the place is -1."""
        there = self.bind("greater_equal", places, 0)
        there = self.reshaped(there, (*places.shape, *(1,) * (len(entries.shape) - 1)))
        return self.bind("bracket", there, entries, negated=False)

    def inside(self, body: Graph) -> Opening:
        """New state for lowering ``body``, a graph inside this one, with the same rules and capacities."""
        return Opening(body, self.bounded, self.rules_of)

    def run(self) -> OnPatterns:
        """Lower the whole graph; the result says how a call is made."""
        self.open_all()
        gives: list[Any] = []
        outputs: list[Operand] = []
        for x in self.graph.outputs:
            if x is UNDEFINED:
                gives.append(UNDEFINED)
                continue
            is_open = x in self.entries and x not in self.whole
            if x in self.converted:
                gives.append(Converted(len(outputs), self.converted[x]))
            else:
                if x in self.carried and len(self.entries[x].shape) > 1:  # of several steps
                    is_open = False
                pattern = self.carried.get(x) if type(x) is Value else None
                p = (pattern or pattern_of(x)) if is_open else None
                gives.append(len(outputs) if p is None else Packed(len(outputs), p))
            outputs.append(self.entries[x] if is_open else self.given(x))
        self.bound(outputs)
        self.tell_beyond(outputs, gives)
        return OnPatterns(self.core(outputs), tuple(self.takes), tuple(gives))

    def core(self, outputs: Sequence[Operand]) -> Graph:
        """The graph of the equations so far, with these outputs."""
        reads = {x for e in self.equations for x in e.operands if type(x) is Value} | {*outputs}
        constants = tuple((v, constant) for v, constant in self.constants.items() if v in reads)
        return Graph(tuple(self.takes.values()), tuple(self.equations), tuple(outputs), constants)

    def open_all(self) -> None:
        """Lower the equations, one after the other."""
        g = self.graph
        self.numbers = {v: k for k, v in enumerate(g.inputs)}
        self.constants = {v: x for v, x in g.constants if symbol_of(v) is None}
        self.whole.update((*g.inputs, *self.constants))
        for v, x in g.constants:  # on a symbol: only a call says where its entries are
            if v not in self.constants:
                self.entries[v] = self.constant(entries_of(value_of(x, x), pattern_of(v)))
        for k, v in enumerate(g.inputs):
            if not is_stored(v):
                self.takes[Given(k)] = v
        at = read_on(g)
        replacements: dict[Operand, Value] = {}
        for e in g.equations:
            self.where = e.where
            if replacements:
                e = replace(e, operands=tuple([replacements.get(x, x) for x in e.operands]))
            results = [v for v in e.results if v in at] if any(map(is_stored, e.operands)) else []
            there = {v: Value(Aval(v.shape, v.dtype, Stored(at[v]))) for v in results}
            equation = replace(e, results=tuple([there.get(v, v) for v in e.results])) if there else e
            if (e.op.elementwise or e.op.entry_map.moves or not there) and self.native(equation):
                replacements.update(there)
            elif not (there and self.native(e)):
                self.library(equation)
                replacements.update(there)

    def native(self, e: Equation) -> bool:
        """Try the rules for ``e``, in order; True if one of them wrote it as native equations."""
        return any(rule(self, e) for rule in self.rules_of(e))

    def bound(self, outputs: Sequence[Operand]) -> None:
        """Change the equations so that entries beyond those of patterns (padding) take no part in results.

        Masks of the patterns' own entries become inputs, if they are read.

        outputs : the outputs of the new graph.
        """
        valid = {
            n: self.takes.get(Valid(s, n)) or Value(Aval((n,), np.dtype(bool)))
            for n, s in self.bounded.items()
        }
        if not valid:
            return
        graph = Graph(tuple(self.takes.values()), tuple(self.equations), tuple(outputs))
        self.equations = list(guarded(graph, valid).equations)
        for n, mask in valid.items():
            if any(mask in e.operands for e in self.equations):
                self.takes[Valid(self.bounded[n], n)] = mask

    def tell_beyond(self, outputs: Sequence[Operand], gives: list[Any]) -> None:
        """Mark inputs and outputs that have an axis of entries with padding; calls pad and trim these.

        gives : the form of each output (`OnPatterns.gives`), changed in place.
        """
        bounded = self.bounded
        for take, v in list(self.takes.items()):
            if type(take) is Given and (k := entry_axis(v, bounded)) is not None:
                extent = v.shape[k]
                self.takes[Beyond(take.number, k, bounded[extent], extent)] = v
                del self.takes[take]
        for m, g in enumerate(gives):
            k = entry_axis(outputs[g], bounded) if type(g) is int else None
            if k is not None:
                extent = outputs[g].shape[k]
                gives[m] = Beyond(g, k, bounded[extent], extent)

    # --- values -----------------------------------------------------------------------------------

    def given(self, x: Operand) -> Operand:
        """Operand for an equation that takes values as the graph has them: dense, or sparse and packed.

        If ``x`` is open, the equation that packs its entries is written first.
        """
        if type(x) is not Value or x in self.now:
            return self.now.get(x, x) if type(x) is Value else x
        if x in self.carried:
            build = self.spread if len(self.entries[x].shape) == 1 else self._of_steps
            self.now[x] = build(self.among_zeros(x), self.carried[x], x.shape)
            return self.now[x]
        if x in self.numbers:
            return self.takes.setdefault(Given(self.numbers[x]), x)
        if is_stored(x) and x not in self.whole:
            p, entries = pattern_of(x), self.entries[x]
            values = self.reshaped(entries, p.stored_shape + entries.shape[1:])
            self.equations.append(Equation(TABLE["from_values"], (values,), {"pattern": p}, (x,), self.where))
            self.whole.add(x)
        return x

    def library(self, e: Equation) -> None:
        """Write an equation as it is, on packed values. Raises PatternRead where graphs of it name patterns
        that no input of theirs is on, or read padding."""
        for _, body in subgraphs(e):
            if unknown(body) or any(entry_axis(x, self.bounded) is not None for x in e.operands):
                raise PatternRead
        self.equations.append(replace(e, operands=tuple(map(self.given, e.operands))))
        self.whole.update(e.results)

    def dense(self, x: Operand) -> Operand:
        """An operand as an array with every entry; stored entries that are a selection give a selection."""
        if not is_stored(x):
            return self.given(x)
        out = self.spread(self.among_zeros(x), pattern_of(x), x.shape)
        if not self.selects or x in self.lasting:
            return out
        return self.bind("bracket", self.not_held(x), out, negated=True)

    def not_held(self, x: Value) -> Value:
        """Mask, as an array, of the stored entries that a selection leaves out."""
        left_out = self.bind("logical_not", self.bind(where_held, self.open(x)))
        return self.spread(left_out, pattern_of(x), x.shape)

    def among_zeros(self, x: Value) -> Value:
        """The entries of a sparse value, for use among its zeros: to be put into an array, or added up.

        A selection is carried out if these zeros do not last (`lasting`).
        """
        entries = self.open(x)
        return self.bind("selected", entries) if self.selects and x not in self.lasting else entries

    def spread(self, entries: Value, p: Pattern, shape: tuple[int, ...]) -> Value:
        """An array with entries at a pattern."""
        return self.bind("scatter_add", entries, *self.places(p), axes=tuple(range(p.ndim)), shape=shape)

    def _of_steps(self, entries: Value, p: Pattern, shape: tuple[int, ...]) -> Value:
        """An array of the results of all steps, each with entries at a pattern."""
        by_step = self.bind("permute_dims", entries, axes=(1, 0))
        array = self.spread(by_step, p, (*shape[1:], shape[0]))
        return self.bind("permute_dims", array, axes=(p.ndim, *range(p.ndim)))

    def open(self, v: Value) -> Value:
        """The entries of a sparse value, an array (count, *dense axes); a value is opened once."""
        entries = self.entries.get(v)
        if entries is None:
            entries = self.entries[v] = self._opened(v)
        return entries

    def entries_of(self, x: Value) -> Value:
        """The entries of a sparse value, or all entries of a dense one as a vector."""
        return self.open(x) if is_stored(x) else self.reshaped(self.given(x), (prod(x.shape),))

    def _opened(self, v: Value) -> Value:
        p = pattern_of(v)
        shape = (p.count, *v.shape[p.ndim :])
        if v in self.numbers:
            return self.takes.setdefault(Entries(self.numbers[v], p), Value(Aval(shape, v.dtype)))
        if v not in self.constants:
            return self.reshaped(self.bind("values_at", self.given(v), pattern=p), shape)
        entries = Value(Aval(shape, v.dtype))
        self.constants[entries] = entries_of(value_of(self.constants[v], self.constants[v]), p)
        return entries

    def turned(self, p: Pattern, entries: Value) -> Value:
        """Entries of a value in the order of the transposed pattern: blocks are transposed, others stay."""
        if not p.blocksize:
            return entries
        dense = entries.shape[1:]
        blocks = self.reshaped(entries, p.stored_shape + dense)
        transpose = self.bind("permute_dims", blocks, axes=(0, 2, 1, *range(3, len(blocks.shape))))
        return self.reshaped(transpose, (p.count, *dense))

    def places(self, p: Pattern) -> list[Value]:
        """The index of each entry, along each sparse axis."""
        return [self.along(p, k) for k in range(p.ndim)]

    def along(self, pattern: Pattern, axis: int) -> Value:
        """The index of each entry along ``axis``: an input if the pattern is a symbol, else a constant."""
        p, key = pattern, Along(pattern, axis)
        if isinstance(p, PatternSymbol):
            return self.takes.setdefault(key, Value(Aval((p.count,), p.index_dtype)))
        if key not in self.held:
            array = p.index_array(axis)
            self.held[key] = Value(Aval(array.shape, array.dtype))
            self.constants[self.held[key]] = array
        return self.held[key]

    def rows(self, p: Pattern) -> list[Value]:
        """Index arrays of a pattern by rows: starts and columns, and an order.

        The order says which entry is next by rows; it is missing if the entries are in this order.
        """
        parts = (0, 1) if p.by_rows else (0, 1, 2)
        return [self.of_rows(Rows(p, k)) for k in parts]

    def of_rows(self, key: Rows) -> Value:
        """The array that ``key`` describes: an input if the pattern is a symbol, else a constant."""
        p = key.pattern
        if isinstance(p, PatternSymbol):
            return self.takes.setdefault(key, Value(Aval(key.shape, p.index_dtype)))
        if key not in self.held:
            array = rows(p)[key.part]
            self.held[key] = Value(Aval(array.shape, array.dtype))
            self.constants[self.held[key]] = array
        return self.held[key]

    def on_all_axes(self, p: Pattern, shape: tuple[int, ...]) -> Pattern:
        """The pattern of the single entries in the slices that ``p`` stores, of arrays of this shape.

        If it has a capacity, that is added to ``bounded``; PatternRead if the graph has an extent of this
        number.
        """
        flat = p.of_entries(shape[p.ndim :])
        if isinstance(flat, PatternSymbol) and flat.capacity and flat.count not in self.bounded:
            if flat.count in numbers(self.graph):
                raise PatternRead
            self.bounded[flat.count] = flat
        return flat

    def constant(self, array: LayoutValue) -> Value:
        """A new constant."""
        value = Value(Aval(array.shape, array.dtype))
        self.constants[value] = array
        return value

    def take(self, key: Gaps | Into | Pairs) -> Value:
        """Array that follows from patterns: an input if one of them is a symbol, else a constant."""
        if any(isinstance(p, PatternSymbol) for p in key.patterns):
            return self.takes.setdefault(key, Value(Aval(key.shape, np.dtype(np.int64))))
        if key not in self.held:
            self.held[key] = self.constant(key.of({}))
        return self.held[key]

    def at(self, x: Value, p: Pattern) -> Value | None:
        """The entries of a sparse value at the pattern ``p``; None if that cannot be written.

        ``p`` has the axes of the value's own pattern, or all axes that the value is broadcast to.
        """
        pattern = pattern_of(x)
        if pattern is p:
            return self.open(x)
        if pattern.shape == p.shape:
            places = self.at_places(Places(p, (pattern,)))
            entries = self.bind(stored_read, self.open(x), places, flat=False)
            return self.left_out(entries, places) if self.selects and x in self.lasting else entries
        if p.ndim < len(x.shape):
            return None
        places = self.at_places(Places(p, (pattern,), dense=x.shape[pattern.ndim :]))
        return self.bind(stored_read, self.open(x), places, flat=True)

    def at_places(self, key: Places) -> Value:
        """The array that ``key`` describes: an input if one of its patterns is a symbol, else a constant."""
        aval = Aval((key.at.count,), np.dtype(np.int64))
        if any(isinstance(p, PatternSymbol) for p in (key.at, *key.of)):
            return self.takes.setdefault(key, Value(aval))
        if key not in self.held:
            self.held[key] = Value(aval)
            self.constants[self.held[key]] = key.found({})
        return self.held[key]

    def operand(self, take: Any, operands: Sequence[Operand]) -> Operand:
        """Operand, in this graph, for an input of a graph inside; None if there is none.

        take : what the input of the graph inside is.
        operands : those of the equation that runs that graph.
        """
        if type(take) is Given:
            return self.dense(operands[take.number])
        if type(take) is Along:
            return self.along(take.pattern, take.axis)
        if type(take) is Rows:
            return self.of_rows(take)
        if type(take) in (Gaps, Into, Pairs):
            return self.take(take)
        if type(take) is Places:
            return self.at_places(take)
        if type(take) is Valid:
            return self.takes.setdefault(take, Value(Aval((take.extent,), np.dtype(bool))))
        x = operands[take.number]
        if x in self.carried:
            return self.entries[x] if self.carried[x] is take.pattern else None
        return self.open(x) if is_stored(x) and pattern_of(x) is take.pattern else None

    # --- equations --------------------------------------------------------------------------------

    def bind(self, op: str | Op, *operands: Operand, **params: Any) -> Value:
        """The result of a new equation."""
        op = TABLE[op] if isinstance(op, str) else op
        aval = op.infer(*(x.aval if type(x) is Value else x for x in operands), **params)
        result = Value(Aval(aval.shape, aval.dtype))
        self.equations.append(Equation(op, operands, params, (result,), self.where))
        return result

    @property
    def ops(self) -> Any:
        """The namespace that rules are written against: `ops.where` binds the op of that name."""
        return _Ops(self.bind)

    def gathered(self, x: Value, places: Sequence[Value]) -> Value:
        """The slices of an array at places along its first axes; of an empty one there are none to read."""
        lead = len(places)
        if 0 in x.shape[:lead]:
            return self.constant(np.zeros((*places[0].shape, *x.shape[lead:]), x.dtype))
        return self.bind("gather", x, *places, axes=tuple(range(lead)))

    def combined(self, parts: Sequence[Value], op: str, dtype: DType) -> Value:
        """The sum or product of values, in a dtype."""
        total = parts[0]
        for x in parts[1:]:
            total = self.bind(op, total, x)
        return total if total.dtype == dtype else self.bind("astype", total, dtype=dtype)

    def reshaped(self, x: Value, shape: tuple[int, ...]) -> Value:
        return x if x.shape == shape else self.bind("reshape", x, shape=shape)

    def is_dense(self, e: Equation, found: Value) -> bool:
        """Set the result of an equation to a value with every entry; True, as a rule returns."""
        (v,) = e.results
        self.now[v] = self.reshaped(found, v.shape)
        return True

    def is_open(self, e: Equation, entries: Value) -> bool:
        """Set the entries of an equation's result, on its pattern; True, as a rule returns."""
        (v,) = e.results
        p = pattern_of(v)
        self.entries[v] = self.reshaped(entries, (p.count, *v.shape[p.ndim :]))
        return True
