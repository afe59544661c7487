"""Sparsity detection for Jacobians: the entries of inputs that each entry of a recorded value may depend on.

The relations of the nodes that a function left behind are composed (`iverson.core.relations`). They follow
from shapes, parameters, index arrays and patterns of factors, never from entries of what is differentiated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import NoneType
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from iverson.autograd.demand_propagation import are_differentiated, known_inputs
from iverson.autograd.node import Node, reachable
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, is_tracked, levels, slot_of
from iverson.core.entries import FULL, Box, Stored
from iverson.core.entry_map import Call
from iverson.core.op import frozen
from iverson.core.relations import Matrix, Rows, listed, one_each
from iverson.core.table import TABLE
from iverson.layouts import layouts_by_type, support_of

Numbers = NDArray[np.int64]
#: Fewer places are always listed, also where an entry depends on all of them.
MANY = 129


@dataclass(frozen=True, slots=True)
class Dependence:
    """Places (entries of the variables) that each entry of an array, in row-major order, may depend on.

    rows : a boolean matrix with a row for each entry and a column for each place. The last column stands for
        all places; a row with True there has no other True.
    everywhere : True if every row has True in the last column.
    """

    rows: Rows
    everywhere: bool

    @property
    def matrix(self) -> Matrix:
        """Matrix of ``rows`` for all entries of the array (`scipy.sparse.csr_array`)."""
        return self.rows.whole

    @property
    def wide(self) -> NDArray[np.bool_]:
        """Boolean for each entry: True if it may depend on any place. `pairs` lists no place for such an
        entry.
        """
        matrix = self.matrix
        return _rows_with(matrix, matrix.indices == matrix.shape[1] - 1)

    @property
    def is_full(self) -> bool:
        """True if the array has more than one entry, and each of them may depend on all places."""
        m, matrix = self.rows.size, self.rows.matrix
        return m > 1 and (self.everywhere or matrix.nnz == m * (matrix.shape[1] - 1))

    @property
    def pairs(self) -> tuple[Numbers, Numbers]:
        """Pairs of an entry and a place that it may depend on, as two arrays in row-major order, without wide
        entries.
        """
        matrix = self.matrix.sorted_indices()
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        one_by_one = matrix.indices < matrix.shape[1] - 1
        return rows[one_by_one], matrix.indices[one_by_one].astype(np.int64)


def dependences(
    variables: Sequence[Handle],
    outputs: Sequence[Handle],
    recording: bool = False,
    lost: list[str] | None = None,
    widest: int | None = None,
) -> list[Dependence]:
    """`Dependence` of each output on ``variables``; the entries of all variables, in order, are numbered as
    places.

    recording : True if the result is differentiated further. Then only zeros of constants count: a tracked
        value may have a derivative where it stores nothing.
    lost : a list; texts are added to it for calls whose result may depend on everything, though their
        operands do not.
    widest : rows with at least this number of places count as full rows (`MANY` is the least number); by
        default, rows with all places.
    """
    by_slot: dict[tuple[Node | None, int], Dependence] = {}
    count = sum(prod(x.shape) for x in variables)
    widest = count if widest is None else min(widest, count)
    start = 0
    for x in variables:
        size = prod(x.shape)
        by_slot[slot_of(x)] = Dependence(Rows.of_all(one_each(size, count + 1, start)), False)
        start += size
    floor = min(slot_of(x)[0].number for x in variables)
    for node in reachable([slot_of(y)[0] for y in outputs if is_tracked(y)], floor):
        if (node, 0) in by_slot or node.op is None:
            continue
        incoming = {}
        for i, slot in enumerate(zip(node.parents, node.indices, strict=True)):
            if slot in by_slot:
                incoming[i] = by_slot[slot]
        if incoming:
            for k in range(len(node.out) if node.multiple else 1):
                by_slot[node, k] = _of_node(node, incoming, k, recording, max(widest, MANY))
            if (
                lost is not None
                and by_slot[node, 0].is_full
                and not any(d.is_full for d in incoming.values())
            ):
                lost.append(node.describe())
    return [
        by_slot.get(slot_of(y)) or Dependence(Rows.empty(prod(y.shape), count + 1), False) for y in outputs
    ]


def _of_node(
    node: Node, incoming: Mapping[int, Dependence], k: int, recording: bool, widest: int
) -> Dependence:
    """`Dependence` of result ``k`` of a node, from those of its inputs, which ``incoming`` has by their
    numbers.
    """
    op, out = node.op, node.result(k)
    assert op is not None
    size, count = prod(out.shape), next(iter(incoming.values())).rows.matrix.shape[1] - 1
    inputs = known_inputs(node, recording)
    may_be_zero = any(isinstance(getattr(x, "support", None), Stored) for x in inputs)
    if not may_be_zero and all(d.everywhere for d in incoming.values()):
        return _anything(size, count)
    rows = {i: d.rows for i, d in incoming.items()}
    rows_of_result = op.dependence(rows, Call(op, inputs, out, node.params, k))
    if rows_of_result is None:
        return _anything(size, count)
    unchanged = next((d for d in incoming.values() if d.rows is rows_of_result), None)
    return unchanged or _with_wide_rows(rows_of_result, widest)


def _anything(size: int, count: int) -> Dependence:
    """`Dependence` of ``size`` entries that may all depend on any of ``count`` places."""
    return Dependence(Rows.of_all(listed(np.arange(size + 1), np.full(size, count), count + 1)), True)


def _with_wide_rows(rows: Rows, widest: int) -> Dependence:
    """`Dependence` with ``rows``, in which rows of at least ``widest`` places are replaced by wide rows.

    A wide row has only the last column, which stands for all places; a row that has this column loses all
    others.
    """
    matrix = rows.matrix
    count, lengths = matrix.shape[1] - 1, np.diff(matrix.indptr)
    wide = _rows_with(matrix, matrix.indices == count)
    wide |= lengths >= widest
    if not wide.any():
        return Dependence(rows, False)
    if (lengths[wide] > 1).any():
        remaining = ~np.repeat(wide, lengths)
        columns = np.insert(matrix.indices[remaining], np.cumsum(lengths * ~wide)[wide], count)
        starts = np.concatenate([[0], np.cumsum(np.where(wide, 1, lengths))])
        matrix = listed(starts, columns, count + 1)
    return Dependence(Rows(matrix, rows.size, rows.numbers), rows.numbers is None and bool(wide.all()))


def _rows_with(matrix: Matrix, there: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Boolean for each row of ``matrix``: True if ``there`` is True for one of its stored entries."""
    rows = np.zeros(matrix.shape[0], bool)
    rows[np.searchsorted(matrix.indptr, np.flatnonzero(there), side="right") - 1] = True
    return rows


def structure(variables: Sequence[Handle], outputs: Sequence[Handle]) -> Any:
    """Key for a cache of the results of `dependences`: all that it reads of the recorded computation.

    The key has the ops, their parameters and index arrays, shapes, patterns, and the operands of each op. It
    is None if an index array is large, or the key would keep objects of the user alive.
    """
    number_of: dict[tuple[Node | None, int], Any] = {slot_of(x): k for k, x in enumerate(variables)}
    records: list[Any] = []
    floor = min(slot_of(x)[0].number for x in variables)
    for node in reachable([slot_of(y)[0] for y in outputs if is_tracked(y)], floor):
        if (node, 0) in number_of or node.op is None:
            continue
        params = frozen(node.params) if node.params else ()
        args, op = _operands(node), node.op
        op_key: Any = op
        if TABLE.get(op.name) is not op:  # an op in index notation, or that runs a graph, is told by its map
            op_key = ref(op.entry_map) if op.entry_map.indexed else ...
        if op_key is ... or ... in args or not _is_constant(params):
            return None
        slots = zip(node.parents, node.indices, strict=True)
        parents = tuple([None if slot[0] is None else number_of.get(slot, "outside") for slot in slots])
        shapes = [y.shape for y in (node.out if node.multiple else (node.out,))]
        for k in range(len(shapes)):
            number_of[node, k] = len(records), k
        records.append((op_key, params, args, parents, *shapes))
    ends = [(number_of.get(slot_of(y)), y.shape) for y in outputs]
    return are_differentiated(levels()), *(x.shape for x in variables), *records, *ends


#: Index arrays of so many entries are part of a structure.
FEW = 1 << 12


def _operands(node: Node) -> tuple[Any, ...]:
    """Facts of each operand of ``node`` that relations read: shape, dtype, and pattern, region or index
    entries.

    An index array of more than `FEW` entries gives ``...``: the node has then no key.
    """
    op = node.op
    assert op is not None
    indexed = op.entry_map.indexed
    linear = {i for group in op.groups(len(node.args)) for i in group} if indexed else ()
    facts: list[Any] = []
    for i, x in enumerate(node.args):
        if type(x) is Aval and x.support is FULL:
            facts.append((x.shape, x.dtype))
        else:
            facts.append(_operand(x, indexed and i not in linear))
    return tuple(facts)


def _operand(x: Any, may_be_index: bool) -> Any:
    dtype = getattr(x, "dtype", type(x))
    if may_be_index and isinstance(x, np.ndarray) and x.dtype.kind in "biu":
        return (x.shape, dtype, x.tobytes()) if x.size <= FEW else ...
    support = support_of(x) if type(x) in layouts_by_type else getattr(x, "support", None)
    if isinstance(support, Stored):
        return x.shape, dtype, ref(support.pattern)
    return getattr(x, "shape", ()), dtype, support.region if isinstance(support, Box) else None


def _is_constant(x: Any) -> bool:
    """Return True if ``x`` consists of numbers, names and types only, so that a cache may keep it."""
    try:
        if x in _KNOWN:
            return True
    except TypeError:  # not hashable
        return False
    is_constant = all(map(_is_constant, x)) if type(x) is tuple else isinstance(x, _CONSTANTS)
    if is_constant and type(x) is tuple and len(_KNOWN) < _KEPT:
        _KNOWN.add(x)
    return is_constant


#: Tuples that are, so many at most: the parameters of ops are few.
_KNOWN: set[Any] = set()
_KEPT = 1024
_CONSTANTS = (bool, int, float, complex, str, bytes, type, np.dtype, NoneType)


__all__ = ["Dependence", "dependences", "structure"]
