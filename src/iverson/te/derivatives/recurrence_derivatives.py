"""Derivatives of recurrences: the adjoint is a recurrence in the other direction, the tangent in the same.

    s[t] = f(s[t - 1], x[t])   ->   ds[t] = f_s(s[t], x[t + 1]) ds[t + 1] + heads,   dx[t] += f_x(...) ds[t]

A contribution to the cotangent of an earlier step is rewritten to run at that step (`at_step`), so that each
member's cotangent is computed at its own step. Contributions to other tensors wait until all steps are done:
they are ordinary statements, over all steps at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from iverson.expr.build import as_expr
from iverson.expr.nodes import Expr
from iverson.te.ir.expressions import Extent, Tensor, Var, reads_of, substitute
from iverson.te.ir.fresh_names import part
from iverson.te.ir.index_arithmetic import affine_of
from iverson.te.ir.nodes import Compute, Domain, Recurrence, Statement, step_index
from iverson.te.ir.supports import meet_members, met_again
from iverson.te.language.nonlinear_reductions import linear_statements

#: (head, statement, tensors) -> for each of the tensors read, what the statement adds to its cotangent.
Adjoints = Callable[[Statement, Tensor, Collection[Tensor]], Iterable[tuple[Tensor, Statement]]]


def reached(recurrence: Recurrence, starts: Iterable[Tensor], *, backwards: bool) -> list[Compute]:
    """Members of the recurrence that are in ``starts`` or depend on tensors in ``starts``.

    With ``backwards``: those that are in ``starts`` or on which members in ``starts`` depend.
    """
    members = set(starts)
    reads = {
        m: {r.tensor for s in linear_statements(m) for r in reads_of([s.body])} for m in recurrence.members
    }
    while True:
        if backwards:
            neighbours = {r for m in recurrence.members if m in members for r in reads[m]}
        else:
            neighbours = {m for m in recurrence.members if reads[m] & members}
        if neighbours <= members:
            return [m for m in recurrence.members if m in members]
        members |= neighbours


def at_step(s: Statement, index: int, axis: Var) -> Statement:
    """Statement equal to ``s``, but with the steps renumbered so that it writes at the step ``axis``.

    ``A[t - 1] += f(t) for 1 <= t  ->  A[t] += f(t + 1) for t < n - 1``

    index : the position of the step among the indices of the write.
    """
    lag = affine_of(s.write[index]) - affine_of(axis)
    if lag.terms or not lag.const:  # data say which step: it is written before that one's turn
        return s
    step = axis - lag.const  # the step that writes there
    assert axis.hi is not None
    inside = step < as_expr(axis.hi) if lag.const < 0 else step >= 0
    new = s.mapped(lambda e: substitute([e], {axis: step})[0])
    write = tuple(axis if k == index else w for k, w in enumerate(new.write))
    return replace(new, write=write, domain=Domain(new.domain.axes, (*new.domain.where, inside)))


def adjoint_recurrence(
    recurrence: Recurrence,
    batch: tuple[Extent, ...],
    heads: Mapping[Compute, Tensor],
    targets: Collection[Tensor],
    adjoints: Adjoints,
    label: str,
) -> tuple[dict[Compute, Compute], list[tuple[Tensor, Statement, Compute]]]:
    """Cotangents of the members, computed by a new recurrence, and contributions to other tensors.

    A contribution is (tensor, statement, member from which it comes).

    batch : leading axes of all cotangents.
    heads : cotangents from outside, of shape batch + member.shape.
    targets : the other tensors whose cotangents are wanted.
    adjoints : the contributions of one statement.
    label : the name of the output, for names of tensors.
    """
    axis = recurrence.axis
    new_recurrence = Recurrence(axis, not recurrence.reverse)
    members = reached(recurrence, heads, backwards=True)
    new = {
        m: Compute((*batch, *m.shape), m.dtype, f"d{label}/d{m.name}", (), new_recurrence)
        for m in reversed(members)
    }
    parts: dict[Compute, list[Statement]] = {m: [] for m in new}
    contributions: list[tuple[Tensor, Statement, Compute]] = []
    for m, head in heads.items():
        parts[m].append(_copied(head, len(batch) + _step_index(m), axis))
    for m, cotangent in new.items():
        for s in linear_statements(m):
            for d, statement in adjoints(s, cotangent, {*new, *targets}):
                if isinstance(d, Compute) and d in new:
                    parts[d].append(at_step(statement, len(batch) + _step_index(d), axis))
                else:
                    contributions.append((d, statement, m))
    new_recurrence.define({new[m]: parts[m] for m in new})
    meet_members(new_recurrence)
    return new, [(d, met_again(s), m) for d, s, m in contributions]


def tangent_recurrence(
    recurrence: Recurrence,
    tangent_of: Mapping[Tensor, Tensor],
    tangents: Callable[[Statement, Mapping[Tensor, Tensor]], Iterable[Statement]],
) -> dict[Tensor, Tensor]:
    """Tangents, computed by a new recurrence, of the members that depend on tensors with a known tangent.

    tangents : the statements of a tangent, from a statement and the known tangents.
    """
    new_recurrence = Recurrence(recurrence.axis, recurrence.reverse)
    fixed = {m for m in recurrence.members if m in tangent_of}
    members = [m for m in reached(recurrence, tangent_of, backwards=False) if m not in fixed]
    new = {m: Compute(m.shape, m.dtype, part(m, "tangent"), (), new_recurrence) for m in members}
    while True:
        all_tangents = {**tangent_of, **dict[Tensor, Tensor](new.items())}
        parts = {m: [n for s in linear_statements(m) for n in tangents(s, all_tangents)] for m in new}
        if all(parts.values()):
            new_recurrence.define({new[m]: statements for m, statements in parts.items()})
            meet_members(new_recurrence)
            return dict[Tensor, Tensor](new.items())
        # Members computed by floor and the like have no tangent.
        new = {m: new[m] for m, statements in parts.items() if statements}


def _step_index(m: Compute) -> int:
    index = step_index(m)
    assert index is not None, "a gather over steps has no derivative"
    return index


def _copied(t: Tensor, index: int, axis: Var) -> Statement:
    axes = tuple(axis if k == index else Var(f"a{k}", 0, n) for k, n in enumerate(t.shape))
    indices: tuple[Expr, ...] = axes
    return Statement(None, indices, t[indices], Domain(axes), "sum")
