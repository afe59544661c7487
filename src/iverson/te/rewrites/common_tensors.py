"""Common-subexpression elimination of tensors: those with equal definitions are computed once.

Gradients in several inputs profit most.

P[i] = f(A[i]); Q[i] = f(A[i]); R[i] = g(P[i], Q[i])  ->  P[i] = f(A[i]); R[i] = g(P[i], P[i])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from iverson.expr.build import simplified_with
from iverson.expr.nodes import Expr, postorder
from iverson.te.ir.expressions import Read, Tensor
from iverson.te.ir.nodes import Program, Statement, recurrence_of, sizes_of


def shared(program: Program) -> Program:
    """The program without statements of tensors that an earlier one is equal to; outputs all stay.

    Members of recurrences are compared recurrence by recurrence.
    """
    known: dict[object, tuple[Tensor, ...]] = {}
    same: dict[Tensor, Tensor] = {}
    kept: list[Statement] = []
    for _, group in groupby(program.statements, key=lambda s: recurrence_of(s.tensor) or s.tensor):
        own = [_reading(s, same) for s in group]
        made = tuple(dict.fromkeys(s.tensor for s in own))
        found = known.setdefault(_key(own, made), made)
        if found is made or any(t in program.outputs for t in made):
            kept += own
        else:
            same.update(zip(made, found, strict=True))
    if not same:
        return program
    return Program(program.inputs, tuple(kept), program.outputs, program.sizes)


def _key(own: Sequence[Statement], made: tuple[Tensor, ...]) -> object:
    """Equal for statements that compute the same: their structure, and the very tensors and sizes read."""
    read = dict.fromkeys(r.tensor for s in own for r in s.reads if r.tensor not in made)
    return Program((), tuple(own), made).key(), tuple(read), sizes_of(made)


def _reading(s: Statement, same: Mapping[Tensor, Tensor]) -> Statement:
    """The statement with what is equal to a tensor read from that."""
    if not any(r.tensor in same for r in s.reads):
        return s

    def changed(root: Expr) -> Expr:
        new: dict[Expr, Expr] = {}
        for x in postorder([root]):
            found = simplified_with(x, [new[o] for o in x.operands])
            if isinstance(found, Read) and found.tensor in same:
                found = Read(same[found.tensor], found.indices)
            new[x] = found
        return new[root]

    return s.mapped(changed)
