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
from iverson.expr.nodes import Expr, postorder
from iverson.te.ir.evaluation_guards import conjunction, guards_of
from iverson.te.ir.expressions import Placeholder, Read, Tensor
from iverson.te.ir.fresh_names import part
from iverson.te.ir.nodes import Compute, Recurrence, Statement, computes_of, units_below
from iverson.te.language.definitions import compute

#: By tensor made of the input: with nothing left out multiplied, and its count.
_Made = dict[Tensor, tuple[Tensor, Tensor]]


def of_selection(
    outputs: Sequence[Tensor], source: Placeholder, condition: Placeholder
) -> tuple[tuple[Tensor, Tensor], ...]:
    """For each output, itself of what the condition leaves of ``source``, and its count.

    Outputs are linear in ``source``: what is made of it is made by sums and assignments.
    """
    made: _Made = {source: (source, condition)}
    for unit in units_below(outputs):
        own = computes_of(unit)
        if any(r.tensor in made for t in own for s in t.statements for r in s.reads):
            _add(unit, own, made)
    return tuple(made[t] if t in made else (t, _none(t)) for t in outputs)


def _add(unit: Tensor | Recurrence, own: Sequence[Compute], made: _Made) -> None:
    """Add what is computed as one; steps of a recurrence read counts of earlier ones."""
    steps = Recurrence(unit.axis, unit.reverse) if isinstance(unit, Recurrence) else None
    values = {t: Compute(t.shape, t.dtype, t.name, (), steps) for t in own}
    counts = {t: Compute(t.shape, dtypes.int64, part(t, "held"), (), steps) for t in own}
    if steps is not None:
        made.update({t: (values[t], counts[t]) for t in own})
    defined = {}
    for t in own:
        defined[counts[t]] = [_counted(s, made) for s in t.statements]
        defined[values[t]] = [_chosen(s, made) for s in t.statements]
    if steps is not None:
        steps.define(defined)
    else:
        made.update({t: (values[t], counts[t]) for t in own})
        for t, statements in defined.items():
            t.define(statements)


def _none(t: Tensor) -> Tensor:
    return compute(t.shape, lambda *_: const(0, dtypes.int64), part(t, "held"))


def _held(read: Read, made: _Made) -> Expr:
    """Whether an entry that is read depends on one that was not left out."""
    count = made[read.tensor][1]
    found = Read(count, read.indices)
    return found if count.dtype.kind == "b" else found > 0


def _chosen(s: Statement, made: _Made) -> Statement:
    def changed(root: Expr) -> Expr:
        new: dict[Expr, Expr] = {}
        for x in postorder([root]):
            found = simplified_with(x, [new[o] for o in x.operands])
            if isinstance(found, Read) and found.tensor in made:
                found = select(_held(found, made), Read(made[found.tensor][0], found.indices), 0)
            new[x] = found
        return new[root]

    return s.mapped(changed)


def _counted(s: Statement, made: _Made) -> Statement:
    one, none = const(1, dtypes.int64), const(0, dtypes.int64)
    body: Expr = none
    for node, guards in guards_of(s.body).items():
        if isinstance(node, Read) and node.tensor in made:
            body = body + select(conjunction(guards) & _held(node, made), one, none)
    return replace(s, body=body)
