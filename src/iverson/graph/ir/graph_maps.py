"""Entry maps of ops that run graphs: the relations of a graph's equations, composed from its inputs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core.entry_map import Call, EntryMap
from iverson.core.relations import Matrix, Relation, listed
from iverson.core.table import TABLE
from iverson.graph.ir.nodes import Equation, Graph, Value, known
from iverson.layouts import is_strided

#: For an op with these parameters: graphs that may run, and the operand that is the first input of each.
Runs = Callable[[Mapping[str, Any]], tuple[Sequence[Graph], int]]


class GraphMap(EntryMap):
    """An entry of a result depends on what it does in one of the graphs that the op may run."""

    indexed = True

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def relation(self, call: Call, i: int) -> Relation:
        """By all equations of these graphs."""
        graphs, first = self._runs(call.params)
        pairs: Matrix | None = None
        for graph in graphs if i >= first else ():
            rows = rows_of(graph, i - first, call.inputs[first:])[call.result]
            if rows is None:
                return call.everything(i)
            pairs = rows if pairs is None else pairs + rows
        return Relation.listed(call.out.shape, call.inputs[i].shape, pairs)


def rows_of(graph: Graph, i: int, operands: Sequence[Any]) -> list[Matrix | None]:
    """For each entry of each output, the entries of input i that it depends on; None where they are too many.

    operands : what is known of the inputs, index arrays among them.
    """
    arrays = {v: x for v, x in zip(graph.inputs, operands, strict=False) if _is_index(x)}
    if arrays:
        return _composed(graph, i, arrays)
    return graph.once(("rows", i), lambda: _composed(graph, i, {}))


def _composed(graph: Graph, i: int, arrays: Mapping[Value, Any]) -> list[Matrix | None]:
    size = prod(graph.inputs[i].shape)
    rows: dict[Any, Matrix | None] = {graph.inputs[i]: listed(np.arange(size + 1), np.arange(size), size)}
    arrays = {**{v: x for v, x in graph.constants if _is_index(x)}, **arrays}
    for e in graph.equations:
        incoming = {k: rows[x] for k, x in enumerate(e.operands) if type(x) is Value and x in rows}
        inputs = [arrays[x] if type(x) is Value and x in arrays else known(x) for x in e.operands]
        if not incoming and _is_arithmetic_on_indices(e, inputs):
            arrays[e.results[0]] = np.asarray(e.op.forward(*inputs, **e.params))
        if incoming:
            for k, y in enumerate(e.results):
                rows[y] = e.op.dependence(incoming, Call(e.op, inputs, y.aval, e.params, k))
    nothing = np.empty(0, np.int64)
    return [
        rows[y]
        if type(y) is Value and y in rows
        else listed(np.zeros(prod(y.shape) + 1, np.int64), nothing, size)
        for y in graph.outputs
    ]


def _is_arithmetic_on_indices(e: Equation, inputs: Sequence[Any]) -> bool:
    """True for an equation that makes an index array of index arrays that are known."""
    is_index = not e.op.multiple and e.op.name in TABLE and e.results[0].dtype.kind in "biu"
    return is_index and any(map(_is_index, inputs)) and all(_is_index(x) or type(x) is int for x in inputs)


def _is_index(x: Any) -> bool:
    return is_strided(x) and x.dtype.kind in "biu"


__all__ = ["GraphMap"]
