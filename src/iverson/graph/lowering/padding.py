"""Padding: programs for any number of stored entries up to a capacity.

A program's extents are numbers. For a symbol with a capacity, arrays have as many entries as that. Those
beyond the pattern's own entries are zeros in the arrays that a call passes, and anything in values that the
program computes. So ops that combine entries leave them out:

    %3 = sum[axis=(0,)](%2)       ->    %3 = where(%valid, %2, 0); %4 = sum[axis=(0,)](%3)

An axis is one of entries if its extent is a capacity; no other extent of the graph is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, value_of
from iverson.core.entries import Box, Entries
from iverson.core.protocols import LayoutValue, NDArray
from iverson.core.region import Region
from iverson.core.table import TABLE
from iverson.graph.ir.entry_ops import extreme
from iverson.graph.ir.nodes import AnyOperand, Equation, Graph, Operand, Value, subgraphs
from iverson.graph.ir.pattern_binding import named, on_actual
from iverson.graph.ir.regions import renamed
from iverson.layouts import Zero, to_strided
from iverson.layouts.pattern_symbols import Binding, PatternRead, PatternSymbol, StandIn, examples


def entry_axis(x: AnyOperand, capacities: Container[int]) -> int | None:
    """The axis of entries of a value; None where it has none. Raises PatternRead where it has several."""
    axes = [k for k, n in enumerate(x.shape) if n in capacities] if type(x) is Value else []
    if len(axes) > 1:
        raise PatternRead
    return axes[0] if axes else None


def guarded(graph: Graph, valid: Mapping[int, Value]) -> Graph:
    """The graph, with entries beyond a pattern's own left out where entries meet.

    valid : by capacity, the value that says which entries are a pattern's own.
    Raises PatternRead where an equation is not known to do the same for any number of entries.
    """
    guarding = _Guarding(valid)
    for e in graph.equations:
        guarding.add(e)
    return replace(graph, equations=tuple(guarding.equations))


class _Guarding:
    def __init__(self, valid: Mapping[int, Value]) -> None:
        self.valid = valid
        self.equations: list[Equation] = []

    def axis(self, x: AnyOperand) -> int | None:
        return entry_axis(x, self.valid)

    def add(self, e: Equation) -> None:
        axes = [self.axis(x) for x in (*e.operands, *e.results)]
        if axes.count(None) < len(axes):
            rule = RULES.get(e.op.name) or (_free if e.op.elementwise else None)
            if rule is None:
                raise PatternRead
            e = rule(self, e)
        self.equations.append(e)

    def require(self, holds: bool) -> None:
        if not holds:
            raise PatternRead

    def kept(self, x: Operand, fill: float = 0, *, held: bool = False) -> Operand:
        """Operand, which has an axis of entries, with ``fill`` in place of those beyond the pattern's own.

        held : leave these entries out by a selection, in place of a number.
        """
        k = self.axis(x)
        assert k is not None
        shape = tuple(n if i == k else 1 for i, n in enumerate(x.shape))
        valid = self.bind("reshape", self.valid[x.shape[k]], shape=shape)
        if held:
            return self.bind("bracket", valid, x, like=x, negated=False)
        number = np.asarray(fill, x.dtype).item()
        return self.bind("where", valid, x, number, like=x)

    def bind(self, op: str, *operands: Operand, like: Value | None = None, **params: Any) -> Value:
        first = operands[0] if like is None else like
        result = Value(Aval(params.get("shape", first.shape), first.dtype))
        self.equations.append(Equation(TABLE[op], operands, params, (result,)))
        return result


Rule = Callable[[_Guarding, Equation], Equation]


def _free(_: _Guarding, e: Equation) -> Equation:
    """Rule of ops that combine no entries: they stay, as entries beyond the pattern's own stay beyond."""
    return e


def _reduced(g: _Guarding, e: Equation) -> Equation:
    (x,) = e.operands
    return replace(e, operands=(g.kept(x),)) if g.axis(x) in e.params["axis"] else e


def _gathered(g: _Guarding, e: Equation) -> Equation:
    """Rule of `gather`: it stays, if it reads a plain array at one index for each entry; else PatternRead."""
    x, *indices = e.operands
    g.require(g.axis(x) is None and all(len(n.shape) == 1 for n in indices))
    return e


def _scattered(g: _Guarding, e: Equation) -> Equation:
    x, *indices = e.operands
    g.require(g.axis(e.results[0]) is None and all(len(n.shape) == 1 for n in indices))
    return replace(e, operands=(g.kept(x, held=bool(e.params.get("held"))), *indices))


def _product(g: _Guarding, e: Equation) -> Equation:
    """Rule of products by rows: they stay, since rows end where the pattern's own entries do.

    PatternRead if the dense factor has an axis of entries.
    """
    g.require(g.axis(e.operands[3]) is None)
    return e


def _by_rows(g: _Guarding, e: Equation) -> Equation:
    """Rule of reads by rows: they stay, since rows end where the pattern's own entries do.

    PatternRead if the result has an axis of entries, as where the row numbers have one.
    """
    g.require(g.axis(e.results[0]) is None)
    return e


def _read(g: _Guarding, e: Equation) -> Equation:
    """Rule of `stored_read`: it stays, since it reads at places of the pattern's own entries.

    PatternRead if the places are no vector, or if what is read has an axis of entries that is not the first.
    """
    entries, places = e.operands
    g.require(g.axis(entries) in (None, 0) and len(places.shape) == 1)
    return e


def _samples(g: _Guarding, e: Equation) -> Equation:
    g.require(all(g.axis(x) is None for x in e.operands[:2]))
    return e


def _reshaped(g: _Guarding, e: Equation) -> Equation:
    """Rule of `reshape`: it stays, if it keeps the number of items before the axis of entries.

    PatternRead otherwise.
    """
    (x,), (v,) = e.operands, e.results
    g.require(prod(x.shape[: g.axis(x)]) == prod(v.shape[: g.axis(v)]))  # all items where there is no axis
    return e


def _in_segments(fill: float) -> Rule:
    """Rule of ops on slices in segments: slices beyond get ``fill``, which changes no segment's result."""

    def rule(g: _Guarding, e: Equation) -> Equation:
        *xs, ids = e.operands
        g.require(all(g.axis(x) == 0 for x in (*xs, ids)))
        return replace(e, operands=(*(g.kept(x, fill) for x in xs), ids))

    return rule


def _segments(g: _Guarding, e: Equation) -> Equation:
    kind = e.params["kind"]
    fill = 1 if kind == "prod" else extreme(e.operands[0].dtype, largest=kind == "min")
    return _in_segments(fill)(g, e)


def _matmul(g: _Guarding, e: Equation) -> Equation:
    """Rule of `matmul`: if it sums over the axis of entries, those beyond the pattern's own become zeros."""
    a, b = e.operands
    return replace(e, operands=(g.kept(a), g.kept(b))) if g.axis(a) == len(a.shape) - 1 else e


def _part(g: _Guarding, e: Equation) -> Equation:
    """Rule of `index_basic` and `embed`: they stay, if the key takes all of the axis of entries.

    PatternRead otherwise.
    """
    (x,) = e.operands if e.op.name == "index_basic" else e.results
    k = g.axis(x)
    items = [item for item in e.params["key"] if item is not None]
    g.require(k is not None and items[k] == slice(0, x.shape[k], 1))
    return e


def _block(g: _Guarding, e: Equation) -> Equation:
    """Rule of loops and branches: they stay, since their graphs are guarded already.

    PatternRead if these graphs name symbols, or if a scan has a step for each entry: steps beyond the
    pattern's own would change what is carried.
    """
    g.require(not any(any(named(body)) for _, body in subgraphs(e)))
    g.require(e.params.get("length") not in g.valid)
    return e


#: By name; ops entry by entry besides.
RULES: dict[str, Rule] = {
    "add_n": _free,
    "broadcast_to": _free,
    "checkpoint": _block,
    "cond": _block,
    "copy": _free,
    "embed": _part,
    "expand_dims": _free,
    "from_values": _free,
    "gather": _gathered,
    "index_basic": _part,
    "matmul": _matmul,
    "permute_dims": _free,
    "reshape": _reshaped,
    "scan": _block,
    "scatter_add": _scattered,
    "segment_max": _in_segments(-math.inf),
    "segment_softmax": _in_segments(-math.inf),
    "softmax_pullback": _in_segments(0),
    "squeeze": _free,
    "stack": _free,
    "stored_find": _by_rows,
    "stored_product": _product,
    "stored_read": _read,
    "stored_rows": _by_rows,
    "stored_samples": _samples,
    "stored_segments": _segments,
    "sum": _reduced,
    "to_dense": _free,
    "values_at": _free,
    "while": _block,
}


def on_binding(graph: Graph, binding: Binding) -> Graph:
    """The graph with patterns, or other symbols, in place of symbols."""
    binding = dict(binding)
    with examples({s: p for s, p in binding.items() if not isinstance(p, PatternSymbol)}):
        graph = on_actual(graph, binding)  # which finds what follows from those
    counts = {
        m: n
        for s, p in binding.items()
        if s.capacity
        for m, n in zip(s.extents, (p.stored_shape[0], p.count), strict=True)
    }
    return with_counts(graph, counts) if counts else graph


def with_counts(graph: Graph, counts: Mapping[int, int], made: dict[Value, Value] | None = None) -> Graph:
    """The graph with ``counts[n]`` in place of each number n in shapes, boxes and parameters.

    Bodies are changed too. Stand-ins without a count become plain ints.

    made : new Values in place of old ones; a Value of a graph around this one has the same in both. Raises
        PatternRead where a constant has such an extent and is not one number everywhere.
    """
    replacements = {} if made is None else made

    def now(x: Operand) -> Operand:
        if type(x) is not Value:
            return x
        if StandIn not in map(type, x.shape) and not any(n in counts for n in x.shape):
            return x
        if x not in replacements:
            shape = tuple(int(counts.get(n, n)) for n in x.shape)
            replacements[x] = Value(Aval(shape, x.dtype, region(x.aval.support)))
        return replacements[x]

    def region(support: Entries) -> Any:
        if type(support) is not Box:
            return support
        start, stop = (tuple(counts.get(n, n) for n in at) for at in support.region)
        return replace(support, region=Region(start, stop))

    def param(p: Any) -> Any:
        if isinstance(p, int) and type(p) is not bool:
            return int(counts.get(p, p))
        if type(p) is tuple or type(p) is list:
            return type(p)(map(param, p))
        if type(p) is slice:
            return slice(param(p.start), param(p.stop), param(p.step))
        return with_counts(p, counts, replacements) if isinstance(p, Graph) else p

    return renamed(graph, now, param, lambda v, w, constant: constant if w is v else _filled(constant, w))


def _filled(constant: LayoutValue | Handle, like: Value) -> Any:
    """A constant that is one number everywhere, in another shape."""
    array = value_of(constant, constant)
    if type(array) is Zero:
        return Zero(like.shape, like.dtype)
    if type(array) is not np.ndarray or not array.size or (array != array.flat[0]).any():
        raise PatternRead
    return np.full(like.shape, array.flat[0], array.dtype)


def padded(array: LayoutValue, axis: int, count: int, fill: int = 0) -> Any:
    """An array with zeros, or another number, after its entries along an axis, so that there are so many."""
    if array.shape[axis] == count:
        return array
    array = to_strided(array)
    shape = (*array.shape[:axis], count, *array.shape[axis + 1 :])
    out = np.full(shape, fill, array.dtype)
    out[(slice(None),) * axis + (slice(array.shape[axis]),)] = array
    return out


def trimmed(array: NDArray, axis: int, count: int) -> Any:
    """The first entries along an axis."""
    return array[(slice(None),) * axis + (slice(count),)]


__all__ = ["entry_axis", "guarded", "on_binding", "padded", "trimmed", "with_counts"]
