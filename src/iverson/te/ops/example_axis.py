"""Batching of a program: an axis for the examples, in all that depends on an input that differs between them.

It is the first axis of a tensor's shape, of the indices written and of the indices read.

    B[i] += A[i, k]   ->   B[e, i] += A[e, i, k]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from iverson.expr.build import simplified_with
from iverson.expr.nodes import Expr, postorder
from iverson.te.ir.expressions import Extent, Placeholder, Read, Tensor, Var
from iverson.te.ir.nodes import Recurrence, Statement, computes_of, rebuilt, units_below
from iverson.te.language.definitions import compute


def over_examples(
    outputs: Sequence[Tensor], batched_inputs: Mapping[Placeholder, Placeholder]
) -> tuple[Tensor, ...]:
    """The outputs for all examples, with the axis of examples first.

    batched_inputs : for each input that differs between examples, the input for all of them.
    """
    batched: dict[Tensor, Tensor] = dict(batched_inputs.items())
    size = next(iter(batched_inputs.values())).shape[0]
    for unit in units_below(outputs):
        members = computes_of(unit)
        if not any(r.tensor in batched for t in members for s in t.statements for r in s.reads):
            continue
        if isinstance(unit, Recurrence):
            rebuilt(
                unit,
                lambda v: v,
                lambda t: (size, *t.shape),
                batched,
                lambda s: _over(s, Var("e", 0, size), batched),
            )
            continue
        (t,) = members
        statements = [_over(s, Var("e", 0, size), batched) for s in t.statements]
        batched[t] = t.again((size, *t.shape), statements)
    return tuple([batched[t] if t in batched else _repeated(t, size) for t in outputs])


def _repeated(t: Tensor, size: Extent) -> Tensor:
    return compute((size, *t.shape), lambda _, *i: t[i], t.name)


def _over(s: Statement, example: Var, batched: Mapping[Tensor, Tensor]) -> Statement:
    def changed(root: Expr) -> Expr:
        new: dict[Expr, Expr] = {}
        for x in postorder([root]):
            node = simplified_with(x, [new[o] for o in x.operands])
            if isinstance(node, Read) and node.tensor in batched:
                node = Read(batched[node.tensor], (example, *node.indices))
            new[x] = node
        return new[root]

    mapped = s.mapped(changed, (example, *s.domain.axes))
    return replace(mapped, write=(example, *mapped.write))
