"""Entry maps of ops that run graphs: the relations of a graph's equations, composed from its inputs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from iverson.core.entry_map import Call, EntryMap
from iverson.core.protocols import Shaped
from iverson.core.relations import MOST, Matrix, Relation, Rows, no_entries, one_each
from iverson.core.table import TABLE
from iverson.graph.ir.nodes import Equation, Graph, Value, known
from iverson.layouts import is_strided

#: Results of so many steps are followed one by one.
MANY_STEPS = 1 << 11
#: For an op with these parameters: graphs that may run, and the operand that is the first input of each.
Runs = Callable[[Mapping[str, Any]], tuple[Sequence[Graph], int]]


class GraphMap(EntryMap):
    """The entries that a result depends on in any of the graphs that the op may run."""

    indexed = True

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def relation(self, call: Call, i: int) -> Relation:
        """The relation of result and operand i, from all equations of these graphs."""
        graphs, first = self._runs(call.params)
        pairs: Matrix | None = None
        for graph in graphs if i >= first else ():
            rows = rows_of(graph, i - first, call.inputs[first:])[call.result]
            if rows is None:
                return call.everything(i)
            pairs = rows if pairs is None else pairs + rows
        return Relation.listed(call.out.shape, call.inputs[i].shape, pairs)


class LoopMap(EntryMap):
    """The entries that a result of a loop depends on, through all steps one after the other.

    A scan stops after ``length`` steps; a loop with a condition, after any number of them.
    """

    indexed = True

    def relation(self, call: Call, i: int) -> Relation:
        """The relation of a result of the loop and operand i: that of the body, composed over all steps."""
        rows = _of_steps(call, i)[call.result]
        return (
            call.everything(i)
            if rows is None
            else Relation.listed(call.out.shape, call.inputs[i].shape, rows)
        )


def _of_steps(call: Call, i: int) -> list[Matrix | None]:
    """For each result of a loop, a matrix: for each entry, the entries of operand ``i`` that it depends on.

    An item is None if they are too many. The list is cached in the body unless an input is an index array.
    """
    body, consts = call.params["body"], call.params["consts"]
    length: int | None = call.params.get("length")
    carry: int = call.params.get("carry", len(body.outputs))
    if any(map(_is_index, call.inputs)):
        return _steps(body, i, consts, carry, length, call)
    key = "steps", i, consts, carry, length, call.params.get("reverse")
    return body.once(key, lambda: _steps(body, i, consts, carry, length, call))  # type: ignore[no-any-return]


def _steps(
    body: Graph, i: int, consts: int, carry: int, length: int | None, call: Call
) -> list[Matrix | None]:
    """The result of `_of_steps`, from the relations of the body that are multiplied step by step.

    Each item is None if there are too many steps (`MANY_STEPS`) or pairs of entries (`MOST`). If ``length``
    is None, steps are joined until no new pairs of entries are found.
    """
    end = consts + carry
    size = prod(call.inputs[i].shape)
    constants = [x if k < consts else None for k, x in enumerate(call.inputs)]
    step = [rows_of(body, k, constants) for k in range(len(body.inputs))]  # of each input, for each output
    if any(rows is None for of_input in step for rows in of_input):
        return [None] * len(body.outputs)
    if (length or 0) * len(body.outputs) > MANY_STEPS:
        return [None] * len(body.outputs)
    part = size // (length or 1) if i >= end else size
    state = [
        one_each(size, size) if k == i else no_entries(prod(body.inputs[k].shape), size)
        for k in range(consts, end)
    ]
    constant = {i: one_each(size, size)} if i < consts else {}
    stacks: list[list[Matrix]] = [[] for _ in body.outputs[carry:]]
    steps: Sequence[int] = range(length) if length is not None else range(size + 1)
    for t in reversed(steps) if call.params.get("reverse") else steps:
        rows = {**constant, **dict(enumerate(state, consts))}
        if i >= end:  # the slice of this step
            rows[i] = one_each(part, size, t * part)
        outputs = [
            _union([step[k][n] @ matrix for k, matrix in rows.items()]) for n in range(len(body.outputs))
        ]
        if any(matrix.nnz > MOST for matrix in outputs):
            return [None] * len(body.outputs)
        for stack, matrix in zip(stacks, outputs[carry:], strict=True):
            stack.append(matrix)
        previous, state = state, outputs[:carry]
        if length is None:  # after any number of steps
            state = [a + b for a, b in zip(previous, state, strict=True)]
            if [a.nnz for a in previous] == [a.nnz for a in state]:
                break
    stacks_in_order = [stack[::-1] if call.params.get("reverse") else stack for stack in stacks]
    return [*state, *(_one_after_the_other(stack, size) for stack in stacks_in_order)]


def _union(parts: Sequence[Matrix]) -> Matrix:
    return reduce(lambda a, b: a + b, parts)


def _one_after_the_other(stack: Sequence[Matrix], size: int) -> Matrix:
    from scipy.sparse import vstack

    return vstack(stack, format="csr") if stack else no_entries(0, size)


def rows_of(graph: Graph, i: int, operands: Sequence[Shaped | complex | None]) -> list[Matrix | None]:
    """For each output, a matrix: for each entry, the entries of input ``i`` that it depends on.

    An item is None if they are too many.

    operands : avals or arrays of the inputs; entries of index arrays are used.
    """
    arrays = {v: x for v, x in zip(graph.inputs, operands, strict=False) if _is_index(x)}
    if arrays:
        return _composed(graph, i, arrays)
    return graph.once(("rows", i), lambda: _composed(graph, i, {}))


def _composed(graph: Graph, i: int, arrays: Mapping[Value, Shaped | complex | None]) -> list[Matrix | None]:
    """The result of `rows_of`; ``arrays`` has the entries of the inputs that are index arrays."""
    size = prod(graph.inputs[i].shape)
    rows: dict[Any, Rows | None] = {graph.inputs[i]: Rows.of_all(one_each(size, size))}
    arrays = {**{v: x for v, x in graph.constants if _is_index(x)}, **arrays}
    for e in graph.equations:
        incoming = {k: rows[x] for k, x in enumerate(e.operands) if type(x) is Value and x in rows}
        inputs = [arrays[x] if type(x) is Value and x in arrays else known(x) for x in e.operands]
        if not incoming and _is_arithmetic_on_indices(e, inputs):
            arrays[e.results[0]] = np.asarray(e.op.forward(*inputs, **e.params))
        if incoming:
            for k, y in enumerate(e.results):
                rows[y] = e.op.dependence(incoming, Call(e.op, inputs, y.aval, e.params, k))
    of_outputs = [rows.get(y, Rows.empty(prod(y.shape), size)) for y in graph.outputs]
    return [None if of_output is None else of_output.whole for of_output in of_outputs]


def _is_arithmetic_on_indices(e: Equation, inputs: Sequence[Shaped | complex | None]) -> bool:
    """True for an equation that makes an index array of index arrays that are known."""
    is_index = not e.op.multiple and e.op.name in TABLE and e.results[0].dtype.kind in "biu"
    return is_index and any(map(_is_index, inputs)) and all(_is_index(x) or type(x) is int for x in inputs)


def _is_index(x: Shaped | complex | None) -> bool:
    return is_strided(x) and x.dtype.kind in "biu"


__all__ = ["GraphMap"]
