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
    """The program without tensors that are equal to an earlier one; all outputs remain.

    Members of recurrences are compared recurrence by recurrence.
    """
    representatives: dict[object, tuple[Tensor, ...]] = {}
    replacements: dict[Tensor, Tensor] = {}
    statements: list[Statement] = []
    for _, group in groupby(program.statements, key=lambda s: recurrence_of(s.tensor) or s.tensor):
        members = [_reading(s, replacements) for s in group]
        tensors = tuple(dict.fromkeys(s.tensor for s in members))
        equal_tensors = representatives.setdefault(_key(members, tensors), tensors)
        if equal_tensors is tensors or any(t in program.outputs for t in tensors):
            statements += members
        else:
            replacements.update(zip(tensors, equal_tensors, strict=True))
    if not replacements:
        return program
    return Program(program.inputs, tuple(statements), program.outputs, program.sizes)


def _key(statements: Sequence[Statement], tensors: tuple[Tensor, ...]) -> object:
    """Key that is equal for statements that compute the same: from their structure, operands and sizes."""
    operands = dict.fromkeys(r.tensor for s in statements for r in s.reads if r.tensor not in tensors)
    return Program((), tuple(statements), tensors).key(), tuple(operands), sizes_of(tensors)


def _reading(s: Statement, replacements: Mapping[Tensor, Tensor]) -> Statement:
    """The statement with reads of ``replacements[t]`` in place of reads of a tensor t."""
    if not any(r.tensor in replacements for r in s.reads):
        return s

    def changed(root: Expr) -> Expr:
        new: dict[Expr, Expr] = {}
        for x in postorder([root]):
            node = simplified_with(x, [new[o] for o in x.operands])
            if isinstance(node, Read) and node.tensor in replacements:
                node = Read(replacements[node.tensor], node.indices)
            new[x] = node
        return new[root]

    return s.mapped(changed)
