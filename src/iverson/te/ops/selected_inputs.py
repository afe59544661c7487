"""Selection in one input of a linear program: terms that read an entry that is left out are skipped.

Every tensor made of that input has a count beside it: on how many of the remaining entries each of its own
entries depends.

    B[i] += A[k] * C[i, k]   ->   B[i] += select(held(A, k), A[k] * C[i, k], 0)
                                  n[i] += select(held(A, k), 1, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iverson.core import dtypes
from iverson.expr.build import const, select, simplified_with
from iverson.expr.nodes import Expr, postorder, producers_first
from iverson.te.ir.evaluation_guards import conjunction, guards_of
from iverson.te.ir.expressions import Placeholder, Read, Reduce, Scoped, Tensor, operands_here, renamed
from iverson.te.ir.fresh_names import part
from iverson.te.ir.nodes import Compute, Recurrence, Statement, computes_of, units_below
from iverson.te.language.definitions import compute

#: By tensor that depends on the input: (the tensor for the selected entries, the count of these).
_Made = dict[Tensor, tuple[Tensor, Tensor]]


def of_selection(
    outputs: Sequence[Tensor], source: Placeholder, condition: Placeholder
) -> tuple[tuple[Tensor, Tensor], ...]:
    """Pair for each output: its value for the selected entries of ``source``, and the count of these.

    The count says, for each entry of the output, on how many selected entries it depends. Outputs are linear
    in ``source``: sums and assignments compute them from it.

    condition : the mask of the selected entries.
    """
    pairs: _Made = {source: (source, condition)}
    for unit in units_below(outputs):
        members = computes_of(unit)
        if any(r.tensor in pairs for t in members for s in t.statements for r in s.reads):
            _add(unit, members, pairs)
    return tuple(pairs[t] if t in pairs else (t, _none(t)) for t in outputs)


def _add(unit: Tensor | Recurrence, members: Sequence[Compute], pairs: _Made) -> None:
    """Add to ``pairs`` those of a unit's tensors; steps of a recurrence read counts of earlier steps."""
    new = unit.renewed() if isinstance(unit, Recurrence) else {}
    steps = new[unit] if isinstance(unit, Recurrence) else None
    inside = {t: new[t.recurrence] if t.recurrence is not None else None for t in members}
    values = {t: Compute(t.shape, t.dtype, t.name, (), inside[t]) for t in members}
    counts = {t: Compute(t.shape, dtypes.int64, part(t, "held"), (), inside[t]) for t in members}
    if steps is not None:
        pairs.update({t: (values[t], counts[t]) for t in members})
    defined = {}
    for t in members:
        defined[counts[t]] = [_counted(s, pairs) for s in t.statements]
        defined[values[t]] = [_chosen(s, pairs) for s in t.statements]
    if steps is not None:
        steps.define(defined)
    else:
        pairs.update({t: (values[t], counts[t]) for t in members})
        for t, statements in defined.items():
            t.define(statements)


def _none(t: Tensor) -> Tensor:
    return compute(t.shape, lambda *_: const(0, dtypes.int64), part(t, "held"))


def _held(read: Read, pairs: _Made) -> Expr:
    """Condition that the entry that ``read`` reads depends on a selected entry."""
    count = pairs[read.tensor][1]
    number = Read(count, read.indices)
    return number if count.dtype.kind == "b" else number > 0


def _chosen(s: Statement, pairs: _Made) -> Statement:
    def changed(root: Expr) -> Expr:
        new: dict[Expr, Expr] = {}
        for x in postorder([root]):
            node = simplified_with(x, [new[o] for o in x.operands])
            if isinstance(node, Read) and node.tensor in pairs:
                node = select(_held(node, pairs), Read(pairs[node.tensor][0], node.indices), 0)
            new[x] = node
        return new[root]

    return s.mapped(changed)


def _counted(s: Statement, pairs: _Made) -> Statement:
    return replace(s, body=_count(s.body, pairs))


def _count(root: Expr, pairs: _Made) -> Expr:
    """Number of the reads of selected entries on which the value of an expression depends."""
    unit, none = const(1, dtypes.int64), const(0, dtypes.int64)
    guards = guards_of(root)
    total: Expr = none
    for node in producers_first([root], operands_here):
        term: Expr = none
        if isinstance(node, Read) and node.tensor in pairs:
            term = select(_held(node, pairs), unit, none)
        elif isinstance(node, Scoped):
            inner = sum((_count(v, pairs) for v in node.values), start=none)
            term = none if inner is none else renamed(Reduce("sum", node.axes, inner, node.where))
        if term is not none:
            total = total + select(conjunction(guards[node]), term, none)
    return total
