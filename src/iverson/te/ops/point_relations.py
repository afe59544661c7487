"""Relations of programs: at a point of a statement, the entry that is written depends on those that are read.

The points are listed as the interpreter visits them, and conditions and indices are evaluated there, also
those that depend on index arrays. The relation of a program is the closure of its statements' relations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core.errors import IversonError
from iverson.core.protocols import Shaped
from iverson.core.relations import MOST, Relation
from iverson.expr.nodes import Expr, Select
from iverson.layouts import is_strided
from iverson.te.ir.evaluation_guards import statement_guards
from iverson.te.ir.expressions import Read, Scoped, Tensor, Var, at_sizes, limits, reads_of
from iverson.te.ir.interpret import Array, Values, evaluate, points_of, points_within, run_statement
from iverson.te.ir.nodes import Program, Statement, recurrence_of, tensors_of

Points = dict[Var, Array]


def relation_of(
    program: Program, inputs: Sequence[Tensor], operands: Sequence[Shaped | complex], i: int, result: int
) -> Relation:
    """Relation that lists, for each entry of output ``result``, the entries of input i on which it depends.

    If other data determine which entries are read, or there are more than `MOST` points, everything depends
    on everything.

    operands : for each input that consists of integers and is known, its array.
    """
    source, target = inputs[i], program.outputs[result]
    out, into = _shape(target), _shape(source)
    values = {t: x for t, x in zip(inputs, operands, strict=True) if _is_index(t) and is_strided(x)}
    if source not in program.inputs:  # nobody reads it
        return Relation(out, into, ())
    closure = _closure(program, source, values)
    if closure is None:
        return Relation.everything(out, into)
    starts, matrix = closure
    return Relation.listed(out, into, matrix[starts[target] : starts[target] + prod(out)])


def _closure(program: Program, source: Tensor, values: Values) -> tuple[dict[Tensor, int], Any] | None:
    """Start of each tensor's entries in one list of all entries, and a sparse matrix of booleans.

    A row of it has the entries of ``source`` on which this entry of the list depends. The result is None if
    the matrix is too large or data are missing.

    values : the known index arrays; those that are computed from them are added.
    """
    from scipy.sparse import csr_array

    indices = _known_indices(program, values)
    tensors = tensors_of(program)
    starts = dict(zip(tensors, np.cumsum([0, *(prod(_shape(t)) for t in tensors)]).tolist(), strict=False))
    count = sum(prod(_shape(t)) for t in tensors)
    rows, columns, points = [], [], 0
    for s in program.statements:
        points += prod(high - low for low, high in map(limits, s.scope))
        if points > MOST:
            return None
        try:
            if s.tensor in indices:
                run_statement(s, values)
                continue
            for tensor, places, sources in _ties(s, values):
                rows.append(starts[s.tensor] + places)
                columns.append(starts[tensor] + sources)
        except (KeyError, IversonError):  # data that are not known here; an index out of range
            return None
    if not rows:
        rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    pairs = np.concatenate(rows), np.concatenate(columns)
    links = csr_array((np.ones(pairs[0].size, bool), pairs), shape=(count, count))
    entries = np.arange(prod(_shape(source)))
    closure = csr_array(
        (np.ones(entries.size, bool), (entries + starts[source], entries)), shape=(count, entries.size)
    )
    size = -1
    while size < closure.nnz:  # as often as the longest chain of statements, or of steps
        size = closure.nnz
        if size > MOST or np.diff(closure.indptr)[links.indices].sum() > MOST:
            return None
        closure = closure + links @ closure
    return starts, closure


def _known_indices(program: Program, values: Values) -> set[Tensor]:
    """Tensors of integers, outside of recurrences, that are computed only from tensors in ``values``."""
    statements: dict[Tensor, list[Statement]] = {}
    for s in program.statements:
        statements.setdefault(s.tensor, []).append(s)
    indices: set[Tensor] = set(values)
    for tensor, of_tensor in statements.items():
        reads = {r.tensor for s in of_tensor for r in reads_of(s.roots)}
        if _is_index(tensor) and recurrence_of(tensor) is None and reads <= indices:
            indices.add(tensor)
    return indices.difference(values)


def _ties(s: Statement, values: Values) -> Iterator[tuple[Tensor, Array, Array]]:
    """Triples for the reads in a statement's value: tensor, addresses written, addresses read."""
    points, count = points_of(s, values)
    guards = statement_guards(s)
    for node, around in _reads_of_value(s.body):
        at, number = points, count
        for reduction in around:
            at, number = points_within(reduction, at, number, values)
        for condition in guards[node]:
            if all(r.tensor in values for r in reads_of([condition])):
                holds = evaluate([condition], at, number, values)[condition]
                at, number = {v: p[holds] for v, p in at.items()}, int(holds.sum())
        index = evaluate([*s.write, *node.indices], at, number, values)
        places, inside = _addresses([index[e] for e in s.write], _shape(s.tensor), number)
        sources, exist = _addresses([index[e] for e in node.indices], _shape(node.tensor), number)
        inside &= exist
        yield node.tensor, places[inside], sources[inside]


def _reads_of_value(body: Expr, around: tuple[Scoped, ...] = ()) -> list[tuple[Read, tuple[Scoped, ...]]]:
    """Reads whose values enter the value of ``body``, without the reads in conditions and indices.

    Each comes with the reductions around it.
    """
    reads: list[tuple[Read, tuple[Scoped, ...]]] = []
    visited: set[Expr] = set()
    pending = [body]
    while pending:
        node = pending.pop()
        if node in visited or node.dtype.kind not in "fc":
            continue
        visited.add(node)
        if isinstance(node, Read):
            reads.append((node, around))
        elif isinstance(node, Scoped):
            reads += [r for v in node.values for r in _reads_of_value(v, (*around, node))]
        else:
            pending += [node.then, node.other] if isinstance(node, Select) else node.operands
    return reads


def _addresses(indices: Sequence[Array], shape: tuple[int, ...], count: int) -> tuple[Array, Array]:
    """Row-major addresses of ``count`` entries, and a mask of those that are inside of ``shape``."""
    addresses, inside = np.zeros(count, np.int64), np.ones(count, bool)
    for index, n in zip(indices, shape, strict=True):
        inside &= (index >= 0) & (index < n)
        addresses = addresses * n + index
    return addresses, inside


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(at_sizes(n, {}) for n in tensor.shape)


def _is_index(tensor: Tensor) -> bool:
    return tensor.dtype.kind in "biu"


__all__ = ["relation_of"]
