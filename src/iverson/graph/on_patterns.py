"""Ops on stored entries as ops on their values and index arrays, which programs carry out.

    %2 = matmul(%0, %1)         ->      %2 = stored_product[shape=(n,)](%values, %starts, %columns, %1)

    %0 : stored on a pattern            %values : its entries, in the pattern's order
                                        %starts, %columns : where they are by rows, which the pattern has

This is the one place that says which ops on sparse values are native. What is not said here is a library
step on sparse values as before: it reads them packed, and what it makes is opened where a native step reads
it. Values and index arrays are inputs of the graph that is left (`OnPatterns.core`), so that programs know no
patterns. Index arrays of patterns that are part of the graph are constants of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import value_of
from iverson.core.entries import NOTHING, Stored
from iverson.core.op import Op
from iverson.core.table import TABLE
from iverson.graph.kinds import Kinds
from iverson.graph.nodes import UNDEFINED, Equation, Graph, Operand, Value, subgraphs
from iverson.graph.padding import entry_axis, guarded, padded, trimmed
from iverson.graph.stored_ops import stored_product, stored_read, stored_samples
from iverson.graph.symbols import bounds, named, unknown
from iverson.kernels.registry import run_in_layouts
from iverson.kernels.sparse_forms import read
from iverson.layouts import Pattern, Sparse, is_strided, to_strided
from iverson.layouts.placement import rows
from iverson.layouts.symbols import Binding, PatternRead, PatternSymbol, actual, kept


@dataclass(frozen=True, slots=True)
class Given:
    """An input of the core that is one of the graph, by number."""

    number: int


@dataclass(frozen=True, slots=True)
class Entries:
    """An input of the core that holds the entries at a pattern of one of the graph's."""

    number: int
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Along:
    """An input of the core that holds the index of each entry of a pattern along an axis."""

    pattern: Pattern
    axis: int


@dataclass(frozen=True, slots=True)
class Rows:
    """An input of the core that says where a pattern's rows start (part 0), in which column each of its
    entries or blocks is (1), or which of the entries these are (2), as of `layouts.placement.rows`."""

    pattern: Pattern
    part: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        p = self.pattern
        lines = prod(p.shape[:-1])
        if p.layout != "bsr" or p.blocksize is None:
            return (lines + 1,) if self.part == 0 else (p.count,)
        return (lines // p.blocksize[0] + 1,) if self.part == 0 else p.stored_shape[:1]


@dataclass(frozen=True, slots=True)
class Valid:
    """An input of the core that says which of so many entries (or blocks) are a pattern's own."""

    pattern: PatternSymbol
    extent: int


@dataclass(frozen=True, slots=True)
class Move:
    """An op that puts each entry of stored operands to a place of its own in the result.

    key : tells the op, its parameters and other operands.
    values : ``values(which, patterns)`` gives the result, where the operand of that number holds the
        number of each of its entries, from 1, and the others nothing that changes it.
    """

    key: Any
    values: Callable[[int, Sequence[Pattern]], Any] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Places:
    """An input of the core that says, for each entry of a pattern, which entry of one of some others it is,
    -1 for none: the same entry of the tensor, or the one that an op moves there."""

    at: Pattern
    of: tuple[Pattern, ...]
    which: int = 0
    move: Move | None = None
    dense: tuple[int, ...] = ()

    def found(self, binding: Binding) -> Any:
        """The array, for a call."""
        at, *of = (actual(p, binding) for p in (self.at, *self.of))
        extent = self.at.count
        key = "places", extent, self.which, self.move and self.move.key, self.dense
        return kept(key, (at, *of), lambda: padded(self._found(at, of), 0, extent, -1))

    def _found(self, at: Pattern, of: Sequence[Pattern]) -> Any:
        if self.move is None:
            found = read(numbered(of[self.which], self.dense), at, at.shape)
        else:
            value = self.move.values(self.which, of)
            found = read(value, at, value.shape)
        return np.asarray(found, np.int64).reshape(at.count) - 1


def numbered(pattern: Pattern, dense: Sequence[int] = ()) -> Any:
    """A value that holds the number of each of its entries, from 1, with ``dense`` axes behind."""
    count = pattern.count
    return pattern.value(np.arange(1, count * prod(dense) + 1).reshape((count, *dense)))


@dataclass(frozen=True, slots=True)
class Beyond:
    """An input or output of a number that has an axis of a pattern's entries, in the core with others behind
    them; ``extent`` with those."""

    number: int
    axis: int
    pattern: PatternSymbol
    extent: int

    def count(self, binding: Binding) -> int:
        """The extent without those."""
        return self.pattern.at(binding).stored_shape[0] * (self.extent // self.pattern.stored_shape[0])


@dataclass(frozen=True, slots=True)
class Packed:
    """An output of the graph: the core's of a number, on a pattern."""

    number: int
    pattern: Pattern


@dataclass(frozen=True, eq=False)
class OnPatterns:
    """A graph without sparse values, and how a call of the one it was made of becomes a call of it.

    takes : what each input of the core is. gives : what each output of the graph is, a number of one of the
    core's, `Packed`, `Beyond`, or UNDEFINED.
    """

    core: Graph
    takes: tuple[Take, ...]
    gives: tuple[Any, ...]

    def opened(self, values: Sequence[Any], binding: Binding) -> list[Any]:
        """Values for the core's inputs, from those for the graph's."""
        return [_taken(t, values, binding) for t in self.takes]

    def packed(self, made: Sequence[Any], binding: Binding) -> list[Any]:
        """The graph's outputs, from the core's."""
        found: list[Any] = []
        for g in self.gives:
            if type(g) is Packed:
                pattern = actual(g.pattern, binding)
                found.append(pattern.value(trimmed(made[g.number], 0, pattern.count)))
            elif type(g) is Beyond:
                found.append(trimmed(made[g.number], g.axis, g.count(binding)))
            else:
                found.append(UNDEFINED if g is UNDEFINED else made[g])
        return found


def _taken(take: Take, values: Sequence[Any], binding: Binding) -> Any:
    if type(take) is Given:
        return values[take.number]
    if type(take) is Beyond:
        return padded(to_strided(values[take.number]), take.axis, take.extent)
    if type(take) is Places:
        return take.found(binding)
    own: Any = take.pattern  # type: ignore[union-attr]
    pattern, count = actual(own, binding), own.count
    if type(take) is Along:
        axis = take.axis
        if pattern.count == count:
            return pattern.index_array(axis)
        key = "index array", axis, count
        return pattern.once(key, lambda: padded(pattern.index_array(axis), 0, count))
    if type(take) is Rows:
        return pattern.once(("by rows", take.part, take.shape), lambda: _by_rows(pattern, take))
    if type(take) is Valid:
        n = pattern.count * take.extent // own.count
        return pattern.once(("valid", n, take.extent), lambda: np.arange(take.extent) < n)
    return padded(entries_of(values[take.number], pattern), 0, count)  # type: ignore[union-attr]


def _by_rows(pattern: Pattern, take: Rows) -> Any:
    parts = rows(pattern)
    if take.part == len(parts):  # in order, as others that the program is for need not be
        parts = (*parts, np.arange(pattern.count, dtype=pattern.index_dtype))
    return padded(parts[take.part], 0, *take.shape)


def entries_of(value: Any, pattern: Pattern) -> Any:
    """The entries of a value at a pattern: (count, *dense axes)."""
    if isinstance(value, Sparse) and value.pattern is pattern:
        return value.entries
    op, params = TABLE["values_at"], {"pattern": pattern}
    found = op.forward(value, **params) if is_strided(value) else run_in_layouts(op, (value,), params)
    return found.reshape((pattern.count, *found.shape[len(pattern.stored_shape) :]))


Take = Given | Entries | Along | Rows | Places | Valid | Beyond


def on_patterns(graph: Graph) -> OnPatterns | None:
    """The graph on values and index arrays; None for one in which nothing is sparse."""
    if not _names_patterns(graph):
        return None
    bounded = {n: s for s in reversed(bounds(graph)) for n in s.extents}
    return _Opening(graph, bounded).run()


def _names_patterns(graph: Graph) -> bool:
    """Whether something is sparse in a graph, or in one inside."""
    values = (*graph.inputs, *(v for e in graph.equations for v in e.results))
    named = any(isinstance(p, Pattern) for e in graph.equations for p in e.params.values())
    inside = (body for e in graph.equations for _, body in subgraphs(e))
    return named or any(map(_is_stored, values)) or any(map(_names_patterns, inside))


def _is_stored(x: Any) -> bool:
    return type(x) is Value and isinstance(x.aval.support, Stored)


def _pattern(v: Value) -> Any:
    return v.aval.support.pattern  # type: ignore[union-attr]


def _is_of_numbers(e: Equation) -> bool:
    return all(dtypes.is_compiled(v.dtype) for v in (*e.operands, *e.results) if type(v) is Value)


@dataclass(eq=False)
class _Opening:
    """One graph: what is made of it so far.

    entries : of values that are open, theirs. now : what stands for values of the graph that are dense.
    whole : sparse values that are there packed.
    """

    graph: Graph
    bounded: Mapping[int, PatternSymbol]
    equations: list[Equation] = field(default_factory=list)
    entries: dict[Value, Value] = field(default_factory=dict)
    now: dict[Value, Value] = field(default_factory=dict)
    whole: set[Value] = field(default_factory=set)
    takes: dict[Any, Value] = field(default_factory=dict)
    held: dict[Any, Value] = field(default_factory=dict)
    where: Any = None

    def run(self) -> OnPatterns:
        """All of it, on what a call gives."""
        self.open_all()
        gives: list[Any] = []
        outputs: list[Operand] = []
        for x in self.graph.outputs:
            if x is UNDEFINED:
                gives.append(UNDEFINED)
                continue
            is_open = x in self.entries and x not in self.whole
            gives.append(Packed(len(outputs), _pattern(x)) if is_open else len(outputs))
            outputs.append(self.entries[x] if is_open else self.given(x))
        self.bound(outputs)
        self.tell_beyond(outputs, gives)
        return OnPatterns(self.core(outputs), tuple(self.takes), tuple(gives))

    def core(self, outputs: Sequence[Operand]) -> Graph:
        """What was made, with these outputs."""
        read = {x for e in self.equations for x in e.operands if type(x) is Value} | {*outputs}
        constants = tuple((v, held) for v, held in self.constants.items() if v in read)
        return Graph(tuple(self.takes.values()), tuple(self.equations), tuple(outputs), constants)

    def open_all(self) -> None:
        """The equations, one after the other."""
        g = self.graph
        self.numbers = {v: k for k, v in enumerate(g.inputs)}
        self.constants = dict(g.constants)
        self.whole.update((*g.inputs, *self.constants))
        for k, v in enumerate(g.inputs):
            if not _is_stored(v):
                self.takes[Given(k)] = v
        for e in g.equations:
            self.where = e.where
            sparse = e.op.name in RULES or any(map(_is_stored, (*e.operands, *e.results)))
            rules = [_rule_of(e.op), _on_every_entry] if sparse and _is_of_numbers(e) else []
            if not any(rule is not None and rule(self, e) for rule in rules):
                self.library(e)

    def bound(self, outputs: Sequence[Operand]) -> None:
        """Leave out what is beyond the entries of patterns."""
        valid = {
            n: self.takes.get(Valid(s, n)) or Value(Aval((n,), np.dtype(bool)))
            for n, s in self.bounded.items()
        }
        if not valid:
            return
        graph = Graph(tuple(self.takes.values()), tuple(self.equations), tuple(outputs))
        self.equations = list(guarded(graph, valid).equations)
        for n, own in valid.items():
            if any(own in e.operands for e in self.equations):
                self.takes[Valid(self.bounded[n], n)] = own

    def tell_beyond(self, outputs: Sequence[Operand], gives: list[Any]) -> None:
        """Tell what inputs and outputs have beyond the entries of patterns."""
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
        """An operand as equations read it that take values packed."""
        if type(x) is not Value or x in self.now:
            return self.now.get(x, x) if type(x) is Value else x
        if x in self.numbers:
            return self.takes.setdefault(Given(self.numbers[x]), x)
        if _is_stored(x) and x not in self.whole:
            p, entries = _pattern(x), self.entries[x]
            values = self.reshaped(entries, p.stored_shape + entries.shape[1:])
            self.equations.append(Equation(TABLE["from_values"], (values,), {"pattern": p}, (x,), self.where))
            self.whole.add(x)
        return x

    def library(self, e: Equation) -> None:
        """An equation as it is, on packed values. Raises PatternRead where graphs of it name patterns that no
        input of theirs is on."""
        for _, body in subgraphs(e):
            if unknown(body):
                raise PatternRead
        self.equations.append(replace(e, operands=tuple(map(self.given, e.operands))))
        self.whole.update(e.results)

    def dense(self, x: Operand) -> Operand:
        """An operand with every entry."""
        if not _is_stored(x):
            return self.given(x)
        p = _pattern(x)
        axes = tuple(range(p.ndim))
        return self.bind("scatter_add", self.open(x), *self.places(p), axes=axes, shape=x.shape)

    def open(self, v: Value) -> Value:
        """The entries of a sparse value: (count, *dense axes)."""
        found = self.entries.get(v)
        if found is None:
            found = self.entries[v] = self._opened(v)
        return found

    def _opened(self, v: Value) -> Value:
        p = _pattern(v)
        shape = (p.count, *v.shape[p.ndim :])
        if v in self.numbers:
            return self.takes.setdefault(Entries(self.numbers[v], p), Value(Aval(shape, v.dtype)))
        if v not in self.constants or isinstance(p, PatternSymbol):
            return self.reshaped(self.bind("values_at", v, pattern=p), shape)
        found = Value(Aval(shape, v.dtype))
        self.constants[found] = entries_of(value_of(self.constants[v], self.constants[v]), p)
        return found

    def places(self, p: Pattern) -> list[Value]:
        """The index of each entry, along each sparse axis."""
        return [self.along(p, k) for k in range(p.ndim)]

    def along(self, pattern: Pattern, axis: int) -> Value:
        p, key = pattern, Along(pattern, axis)
        if isinstance(p, PatternSymbol):
            return self.takes.setdefault(key, Value(Aval((p.count,), p.index_dtype)))
        if key not in self.held:
            array = p.index_array(axis)
            self.held[key] = Value(Aval(array.shape, array.dtype))
            self.constants[self.held[key]] = array
        return self.held[key]

    def rows(self, p: Pattern) -> list[Value]:
        """A pattern by rows: what `stored_product` reads before and after its dense factor."""
        parts = (0, 1) if p.by_rows else (0, 1, 2)
        return [self.of_rows(Rows(p, k)) for k in parts]

    def of_rows(self, key: Rows) -> Value:
        p = key.pattern
        if isinstance(p, PatternSymbol):
            return self.takes.setdefault(key, Value(Aval(key.shape, p.index_dtype)))
        if key not in self.held:
            array = rows(p)[key.part]
            self.held[key] = Value(Aval(array.shape, array.dtype))
            self.constants[self.held[key]] = array
        return self.held[key]

    def at(self, x: Value, p: Pattern) -> Value | None:
        """The entries of a sparse value at a pattern over the same axes, or over all of those that it is
        broadcast to; None at others."""
        own = _pattern(x)
        if own is p:
            return self.open(x)
        if own.shape == p.shape:
            return self.bind(stored_read, self.open(x), self.at_places(Places(p, (own,))), flat=False)
        if p.ndim < len(x.shape):
            return None
        places = Places(p, (own,), dense=x.shape[own.ndim :])
        return self.bind(stored_read, self.open(x), self.at_places(places), flat=True)

    def at_places(self, key: Places) -> Value:
        aval = Aval((key.at.count,), np.dtype(np.int64))
        if any(isinstance(p, PatternSymbol) for p in (key.at, *key.of)):
            return self.takes.setdefault(key, Value(aval))
        if key not in self.held:
            self.held[key] = Value(aval)
            self.constants[self.held[key]] = key.found({})
        return self.held[key]

    def operand(self, take: Any, operands: Sequence[Operand]) -> Operand:
        """What a graph inside takes, of an equation with these operands; None where it is not there."""
        if type(take) is Given:
            return self.dense(operands[take.number])
        if type(take) is Along:
            return self.along(take.pattern, take.axis)
        if type(take) is Rows:
            return self.of_rows(take)
        if type(take) is Places:
            return self.at_places(take)
        if type(take) is Valid:
            return self.takes.setdefault(take, Value(Aval((take.extent,), np.dtype(bool))))
        x = operands[take.number]
        return self.open(x) if _is_stored(x) and _pattern(x) is take.pattern else None

    # --- equations --------------------------------------------------------------------------------

    def bind(self, op: str | Op, *operands: Operand, **params: Any) -> Value:
        """The result of a new equation."""
        op = TABLE[op] if isinstance(op, str) else op
        aval = op.infer(*(x.aval if type(x) is Value else x for x in operands), **params)
        found = Value(Aval(aval.shape, aval.dtype))
        self.equations.append(Equation(op, operands, params, (found,), self.where))
        return found

    def combined(self, parts: Sequence[Value], op: str, dtype: Any) -> Value:
        """The sum or product of values, in a dtype."""
        found = parts[0]
        for x in parts[1:]:
            found = self.bind(op, found, x)
        return found if found.dtype == dtype else self.bind("astype", found, dtype=dtype)

    def reshaped(self, x: Value, shape: tuple[int, ...]) -> Value:
        return x if x.shape == shape else self.bind("reshape", x, shape=shape)

    def is_dense(self, e: Equation, found: Value) -> bool:
        """What an equation gives is this, with every entry."""
        (v,) = e.results
        self.now[v] = self.reshaped(found, v.shape)
        return True

    def is_open(self, e: Equation, entries: Value) -> bool:
        """What an equation gives is stored on its pattern, and these are the entries."""
        (v,) = e.results
        p = _pattern(v)
        self.entries[v] = self.reshaped(entries, (p.count, *v.shape[p.ndim :]))
        return True


# --- rules: whether an equation was made of native ones ---------------------------------------------

Rule = Callable[[_Opening, Equation], bool]


def _elementwise(o: _Opening, e: Equation) -> bool:
    """An op entry by entry: on the entries of operands that are stored alike, and of dense ones where these
    are stored; with every entry, where that is what the op gives and an operand has them."""
    (v,) = e.results
    if not any(map(_is_stored, e.operands)):
        return False
    if _is_stored(v):
        operands = [_read_at(o, x, _pattern(v), v.shape) for x in e.operands]
        return None not in operands and o.is_open(e, o.bind(e.op, *operands, **e.params))
    strided = [x for x in e.operands if type(x) is Value and not _is_stored(x) and x.shape == v.shape]
    if not strided or e.op.name not in ("add", "subtract", "add_n"):
        return False
    return o.is_dense(e, o.bind(e.op, *map(o.dense, e.operands), **e.params))


def _read_at(o: _Opening, x: Operand, p: Pattern, shape: tuple[int, ...]) -> Operand:
    """An operand's entries at a pattern of the result; None where that takes more than reading them."""
    if type(x) is not Value:
        return x
    if _is_stored(x):
        return o.at(x, p) if x.shape == shape or p.ndim == len(shape) else None
    if x.aval.support is NOTHING or (x.shape and p.ndim < len(shape)):
        return None
    lead = len(shape) - len(x.shape)
    kept = [k for k, n in enumerate(x.shape) if n != 1]
    held = o.reshaped(o.given(x), tuple(x.shape[k] for k in kept))
    if not kept:
        return held
    return o.bind("gather", held, *(o.along(p, lead + k) for k in kept), axes=tuple(range(len(kept))))


def _same(o: _Opening, e: Equation) -> bool:
    """An op that gives its operand."""
    (x,), (v,) = e.operands, e.results
    if not (_is_stored(x) and _is_stored(v) and _pattern(x).ndim == _pattern(v).ndim):
        return False
    entries = o.at(x, _pattern(v))
    return entries is not None and o.is_open(e, entries)


def _from_values(o: _Opening, e: Equation) -> bool:
    (v,) = e.results
    return _is_stored(v) and _pattern(v) is e.params["pattern"] and o.is_open(e, o.given(e.operands[0]))


def _values_at(o: _Opening, e: Equation) -> bool:
    x, p = e.operands[0], e.params["pattern"]
    if _is_stored(x):
        entries = o.at(x, p) if _pattern(x).ndim == p.ndim else None
        return entries is not None and o.is_dense(e, entries)
    if x.aval.support is NOTHING:
        return False
    return o.is_dense(e, o.bind("gather", o.given(x), *o.places(p), axes=tuple(range(p.ndim))))


def _to_dense(o: _Opening, e: Equation) -> bool:
    (x,) = e.operands
    if _is_stored(e.results[0]):
        return _same(o, e)
    strided = e.params.get("layout", "strided") == "strided"
    return strided and _is_stored(x) and o.is_dense(e, o.dense(x))


def _index_array(o: _Opening, e: Equation) -> bool:
    (v,) = e.results
    o.now[v] = o.along(**e.params)
    return True


def _permute(o: _Opening, e: Equation) -> bool:
    """The same entries in the same order (those of blocks turned), where the pattern is the turned one."""
    (x,), (v,) = e.operands, e.results
    if not (_is_stored(x) and _is_stored(v)):
        return False
    p, axes = _pattern(x), e.params["axes"]
    if sorted(axes[: p.ndim]) != list(range(p.ndim)) or axes[p.ndim :] != tuple(range(p.ndim, len(axes))):
        return False
    if p.permuted(axes[: p.ndim]) is not _pattern(v):
        return _moved(o, e)
    if p.blocksize and axes[-2:] != (p.ndim - 1, p.ndim - 2):
        return _moved(o, e)
    return o.is_open(e, _turned_entries(o, p, o.open(x)))


def _sum(o: _Opening, e: Equation) -> bool:
    """Sums of all entries, or of those of lines, as an array."""
    (x,), (v,) = e.operands, e.results
    if not _is_stored(x) or _is_stored(v) or _pattern(x).ndim != len(x.shape):
        return False
    p, entries = _pattern(x), o.open(x)
    left = [k for k in range(p.ndim) if k not in e.params["axis"]]
    if not left:
        return o.is_dense(e, o.bind("sum", entries, axis=(0,), keepdims=False))
    at, shape = [o.along(p, k) for k in left], tuple(x.shape[k] for k in left)
    return o.is_dense(e, o.bind("scatter_add", entries, *at, axes=tuple(range(len(left))), shape=shape))


def _matmul(o: _Opening, e: Equation) -> bool:
    """A sparse matrix times a dense one, or the other way round; a batch of them too."""
    a, b = e.operands
    if _is_stored(a) == _is_stored(b) or _is_stored(e.results[0]):
        return False
    s, x = (a, b) if _is_stored(a) else (b, a)
    p = _pattern(s)
    if len(s.shape) != p.ndim or len(x.shape) < 2 or x.aval.support is NOTHING:
        return False
    if p.ndim > 2 and s.shape[:-2] != e.results[0].shape[:-2]:
        return False
    x, entries = o.given(x), o.open(s)
    if s is a:
        return o.is_dense(e, _times(o, p, entries, x))
    if p.ndim == 2:
        x = o.reshaped(x, (prod(x.shape[:-1]), x.shape[-1]))
    turned = _times(o, p.permuted(_turned(p.ndim)), _turned_entries(o, p, entries), _transposed(o, x))
    return o.is_dense(e, _transposed(o, turned))


def _times(o: _Opening, p: Pattern, entries: Value, x: Value) -> Value:
    """The entries at a pattern of matrices times dense ones."""
    starts, columns, *order = o.rows(p)
    blocks = p.blocksize if p.layout == "bsr" else None
    shape = p.shape[:-1]
    return o.bind(stored_product, entries, starts, columns, x, *order, shape=shape, blocks=blocks or (1, 1))


def _turned(ndim: int) -> tuple[int, ...]:
    """The axes with the last two in the other order."""
    return (*range(ndim - 2), ndim - 1, ndim - 2)


def _transposed(o: _Opening, x: Value) -> Value:
    return o.bind("permute_dims", x, axes=_turned(len(x.shape)))


def _turned_entries(o: _Opening, p: Pattern, entries: Value) -> Value:
    """The entries of a value in the order of the transposed pattern: those of blocks are turned."""
    if not p.blocksize:
        return entries
    return o.reshaped(_transposed(o, o.reshaped(entries, p.stored_shape)), (p.count,))


def _moved(o: _Opening, e: Equation) -> bool:
    """An op that puts each entry of stored operands to a place of its own, where they are read."""
    (v,) = e.results
    xs = [x for x in e.operands if _is_stored(x)]
    if not _is_stored(v) or prod(v.shape[_pattern(v).ndim :]) > 1:
        return False
    jointly = len(e.op.groups(len(e.operands))) == 1
    move = _move(o, e, jointly)
    if move is None:
        return False
    p, of = _pattern(v), tuple(map(_pattern, xs))
    parts = [
        o.bind(stored_read, o.open(x), o.at_places(Places(p, of, k, move)), flat=True)
        for k, x in enumerate(xs)
    ]
    return o.is_open(e, o.combined(parts, "add" if jointly else "multiply", v.dtype))


def _move(o: _Opening, e: Equation, jointly: bool) -> Move | None:
    """What an equation does to entries; None where other operands are not known."""
    others: dict[int, Any] = {}
    dense = [x.shape[_pattern(x).ndim :] if _is_stored(x) else () for x in e.operands]
    for k, x in enumerate(e.operands):
        held = o.constants.get(x) if type(x) is Value else x
        if not _is_stored(x):
            if held is None or (type(x) is Value and not is_strided(value_of(held, held))):
                return None
            others[k] = value_of(held, held)

    def values(which: int, patterns: Sequence[Pattern]) -> Any:
        numbers = iter(range(len(patterns)))
        given: list[Any] = []
        for k in range(len(e.operands)):
            if k in others:
                given.append(others[k])
            elif (n := next(numbers)) == which:
                given.append(numbered(patterns[n], dense[k]))
            else:
                ones = np.full((patterns[n].count, *dense[k]), not jointly, np.int64)
                given.append(patterns[n].value(ones))
        return run_in_layouts(e.op, tuple(given), dict(e.params))

    arrays = [(k, id(x) if hasattr(x, "shape") else x) for k, x in others.items()]
    return Move((e.op.name, repr(e.params), tuple(arrays), len(e.operands)), values)


#: Of ops that run graphs, how many operands come before those of the graphs.
BLOCKS = {"scan": 0, "while": 0, "cond": 1, "checkpoint": 0}


def _block(o: _Opening, e: Equation) -> bool:
    """A loop or branch on entries and index arrays, which are the same in all steps."""
    graphs = dict(subgraphs(e))
    first, operands = e.operands[: BLOCKS[e.op.name]], e.operands[BLOCKS[e.op.name] :]
    if not any(map(_names_patterns, graphs.values())) or any(map(_is_stored, e.results)):
        return False
    opened = {name: _Opening(body, o.bounded) for name, body in graphs.items()}
    for inner in opened.values():
        inner.open_all()
        if any(x is UNDEFINED or _is_stored(x) for x in inner.graph.outputs):
            return False
    outputs = {name: [inner.given(x) for x in inner.graph.outputs] for name, inner in opened.items()}
    for name, inner in opened.items():
        inner.bound(outputs[name])
    if any(map(_is_left, opened.values())):
        return False
    takes = list(dict.fromkeys(t for inner in opened.values() for t in inner.takes))
    moves = [t for t in takes if type(t) is Given and t.number >= e.params.get("consts", 0)]
    if "consts" in e.params:
        takes = [*(t for t in takes if t not in moves), *moves]
    given = [o.operand(t, operands) for t in takes]
    if None in given:
        return False
    bodies = {}
    for name, inner in opened.items():
        core = inner.core(outputs[name])
        inputs = tuple(
            inner.takes.get(t) or Value(Aval(x.shape, x.dtype)) for t, x in zip(takes, given, strict=True)
        )
        bodies[name] = replace(core, inputs=inputs)
    params = {**e.params, **bodies}
    if "consts" in params:
        params["consts"] = len(takes) - len(moves)
    o.equations.append(replace(e, operands=(*map(o.given, first), *given), params=params))
    return True


def _is_left(inner: _Opening) -> bool:
    """Whether an equation names a pattern that is not known yet, or reads a value packed."""
    made = inner.equations
    return any(
        isinstance(p, PatternSymbol) or (isinstance(p, Graph) and any(named(p)))
        for e in made
        for p in e.params.values()
    ) or any(_is_stored(v) for take, v in inner.takes.items() if type(take) is Given)


def _sampled(o: _Opening, e: Equation) -> bool:
    a, b = e.operands
    p = e.params["pattern"]
    if _is_stored(a) or _is_stored(b) or NOTHING in (a.aval.support, b.aval.support):
        return False
    if any(n not in (1, m) for x in (a, b) for n, m in zip(x.shape[-3::-1], p.shape[-3::-1], strict=False)):
        return False
    return o.is_dense(e, o.bind(stored_samples, o.given(a), o.given(b), *o.places(p)))


#: An array of so many entries may be made in place of one that is stored, or of as many as the result has.
_SMALL = 1 << 20


def _on_every_entry(o: _Opening, e: Equation) -> bool:
    """An op of which every entry is a number: on every entry of its operands, where that is native and makes
    nothing much larger than what is there."""
    if any(map(_is_stored, e.results)) or any(subgraphs(e)):
        return False
    if e.op.name == "matmul":  # of what is stored it takes less
        return False
    stored = [x for x in e.operands if _is_stored(x)]
    most = max(_SMALL, *(prod(v.shape) for v in e.results))
    if not stored or any(prod(x.shape) > max(most, 8 * _pattern(x).count) for x in stored):
        return False
    if any(type(x) is Value and x.aval.support is NOTHING for x in e.operands) or UNDEFINED in e.operands:
        return False
    alike = [Value(Aval(x.shape, x.dtype)) if type(x) is Value else x for x in e.operands]
    results = tuple(Value(Aval(v.shape, v.dtype)) for v in e.results)
    on_all = replace(e, operands=tuple(alike), results=results)
    if Kinds(Graph((), (on_all,), ())).of(on_all) == "library":
        return False
    o.equations.append(replace(e, operands=tuple(map(o.dense, e.operands))))
    return True


#: By name; ops entry by entry besides, and ops that move entries.
RULES: dict[str, Rule] = {
    "add_n": _elementwise,
    "checkpoint": _block,
    "coalesce": _same,
    "cond": _block,
    "copy": _same,
    "from_values": _from_values,
    "identity": _same,
    "index_array": _index_array,
    "kron": _moved,
    "matmul": _matmul,
    "permute_dims": _permute,
    "sampled_product": _sampled,
    "scan": _block,
    "sum": _sum,
    "to_dense": _to_dense,
    "to_layout": _to_dense,
    "values_at": _values_at,
    "while": _block,
}


def _rule_of(op: Op) -> Rule | None:
    """The rule of an op; None where it has none."""
    if op.name in RULES:
        return RULES[op.name]
    return _elementwise if op.elementwise else _moved if op.entry_map.moves else None


__all__ = ["OnPatterns", "on_patterns"]
