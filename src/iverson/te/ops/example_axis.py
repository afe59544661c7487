"""Batching of a program: an axis for the examples, in all that depends on an input that differs between them.

It is the first axis of a tensor's shape, of the indices written and of the indices read.

    B[i] += A[i, k]   ->   B[e, i] += A[e, i, k]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from iverson.expr.build import simplified_with
from iverson.expr.nodes import Expr, postorder
from iverson.te.ir.expressions import Placeholder, Read, Tensor, Var
from iverson.te.ir.nodes import Recurrence, Statement, computes_of, rebuilt, units_below
from iverson.te.language.definitions import compute


def over_examples(outputs: Sequence[Tensor], given: Mapping[Placeholder, Placeholder]) -> tuple[Tensor, ...]:
    """The outputs for all examples.

    given : for each input that differs from example to example, that of one example and that of all.
    """
    made: dict[Tensor, Tensor] = dict(given.items())
    size = next(iter(given.values())).shape[0]
    for unit in units_below(outputs):
        own = computes_of(unit)
        if not any(r.tensor in made for t in own for s in t.statements for r in s.reads):
            continue
        if isinstance(unit, Recurrence):
            rebuilt(
                unit,
                unit.axis,
                lambda t: (size, *t.shape),
                made,
                lambda s: _over(s, Var("e", 0, size), made),
            )
            continue
        (t,) = own
        statements = [_over(s, Var("e", 0, size), made) for s in t.statements]
        made[t] = t.again((size, *t.shape), statements)
    return tuple([made[t] if t in made else _repeated(t, size) for t in outputs])


def _repeated(t: Tensor, size: object) -> Tensor:
    return compute((size, *t.shape), lambda _, *i: t[i], t.name)


def _over(s: Statement, example: Var, made: Mapping[Tensor, Tensor]) -> Statement:
    def changed(root: Expr) -> Expr:
        new: dict[Expr, Expr] = {}
        for x in postorder([root]):
            found = simplified_with(x, [new[o] for o in x.operands])
            if isinstance(found, Read) and found.tensor in made:
                found = Read(made[found.tensor], (example, *found.indices))
            new[x] = found
        return new[root]

    mapped = s.mapped(changed, (example, *s.domain.axes))
    return replace(mapped, write=(example, *mapped.write))
