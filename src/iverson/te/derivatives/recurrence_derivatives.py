"""Derivatives of recurrences: the adjoint is a recurrence in the other direction, the tangent in the same.

    s[t] = f(s[t - 1], x[t])   ->   ds[t] = f_s(s[t], x[t + 1]) ds[t + 1] + heads,   dx[t] += f_x(...) ds[t]

A contribution to the cotangent of an earlier step is rewritten to run at that step (`at_steps`), so that each
member's cotangent is computed at its own step. Contributions to other tensors wait until all steps are done:
they are ordinary statements, over all steps at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from iverson.expr.affine import make
from iverson.expr.build import as_expr, const, select
from iverson.expr.nodes import Expr
from iverson.te.ir.expressions import Extent, Tensor, Var, reads_of, replacing, substitute
from iverson.te.ir.fresh_names import part
from iverson.te.ir.index_arithmetic import affine_of, depends_on_data, expr_of
from iverson.te.ir.nodes import Compute, Domain, Recurrence, Statement, loops_of, step_index
from iverson.te.ir.supports import meet_members, met_again
from iverson.te.language.nonlinear_reductions import linear_statements

#: (head, statement, tensors) -> for each of the tensors read, what the statement adds to its cotangent.
Adjoints = Callable[[Statement, Tensor, Collection[Tensor]], Iterable[tuple[Tensor, Statement]]]
#: A tensor and the order of a coefficient of it.
Order = tuple[Tensor, int]


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


def at_steps(s: Statement, member: Compute, batch: int) -> Statement:
    """Statement equal to ``s``, which adds to ``member``, but with steps renumbered to run at what it writes.

    ``A[t - 1] += f(t) for 1 <= t  ->  A[t] += f(t + 1) for t < n - 1``. In a recurrence inside of another
    that is so for the steps of both; a reader without such a step takes it from the entry that it reads:
    ``A[t, m - 1] += f(t)  ->  A[t, u] += f(t) for u == m - 1``.

    batch : the number of axes before those of ``member``.
    """
    for r in loops_of(member):
        s = _at_step(s, batch + _step_index(member, r), r.axis)
    return s


def _at_step(s: Statement, place: int, axis: Var) -> Statement:
    """The statement, written at the step ``axis``. place : of the step among the indices of the write."""
    step = affine_of(s.write[place])
    if depends_on_data([s.write[place]]):
        if axis in s.domain.axes:  # data say which step: it is written before that one's turn
            return s
        body = select(as_expr(axis) == s.write[place], s.body, const(0, s.body.dtype))
        write = tuple(axis if k == place else w for k, w in enumerate(s.write))
        return replace(s, write=write, body=body, domain=Domain((axis, *s.domain.axes), s.domain.where))
    candidates = [v for v in (axis, *s.domain.axes) if v in s.domain.axes and abs(step.coefficient(v)) == 1]
    old = candidates[0] if candidates else None
    if old is axis and step == affine_of(axis):
        return s
    new: dict[Expr, Expr] = {}
    if axis in s.domain.axes and old is not axis:  # all steps of the reader at once
        new[axis] = axis.ranging(axis.lo, axis.hi)
        (index,) = substitute([s.write[place]], new)
        step = affine_of(index)
    where: list[Expr] = []
    if old is None:
        where = [as_expr(axis) == expr_of(step)]
    else:  # the step that writes there
        by = step.coefficient(old)
        value = expr_of((affine_of(axis) - step + make(0, {old: by})).scaled(by))
        assert old.hi is not None
        where = [value >= old.lo, value < as_expr(old.hi)]
        if old is axis:  # one of them follows from the range of the axis
            where = where[:1] if (step.const > 0) is (by > 0) else where[1:]
        new[old] = value
    axes = tuple(v for v in (new.get(v, v) for v in s.domain.axes if v is not old) if isinstance(v, Var))
    mapped = s.mapped(replacing(new), (axis, *axes))
    write = tuple(axis if k == place else w for k, w in enumerate(mapped.write))
    return replace(mapped, write=write, domain=Domain(mapped.domain.axes, (*mapped.domain.where, *where)))


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
    renewed = recurrence.renewed(backwards=True)
    new_recurrence = renewed[recurrence]
    members = reached(recurrence, heads, backwards=True)
    new = {
        m: Compute((*batch, *m.shape), m.dtype, f"d{label}/d{m.name}", (), renewed[loops_of(m)[-1]])
        for m in reversed(members)
    }
    while True:
        parts: dict[Compute, list[Statement]] = {m: [] for m in new}
        contributions: list[tuple[Tensor, Statement, Compute]] = []
        for m, head in heads.items():
            parts[m].append(_copied(head, {len(batch) + _step_index(m, r): r.axis for r in loops_of(m)}))
        for m, cotangent in new.items():
            for s in linear_statements(m):
                for d, statement in adjoints(s, cotangent, {*new, *targets}):
                    if isinstance(d, Compute) and d in new:
                        parts[d].append(at_steps(statement, d, len(batch)))
                    else:
                        contributions.append((d, statement, m))
        if all(parts.values()):
            break
        # What only conditions and indices read has no cotangent.
        new = {m: cotangent for m, cotangent in new.items() if parts[m]}
    new_recurrence.define({new[m]: parts[m] for m in new})
    meet_members(new_recurrence)
    return new, [(d, met_again(s), m) for d, s, m in contributions]


def coefficient_recurrence(
    recurrence: Recurrence,
    order: int,
    varying: Collection[Tensor],
    coefficients: Callable[[Statement, int, Mapping[Order, Tensor]], Iterable[Statement]],
) -> dict[Order, Compute]:
    """Taylor coefficients of the members that depend on tensors that vary, computed by a new recurrence.

    order : the highest one; coefficients of order 1 are tangents.
    coefficients : the statements of a coefficient, from a statement, the order and the new members.
    """
    renewed = recurrence.renewed()
    members = [m for m in reached(recurrence, varying, backwards=False) if m not in varying]
    new: dict[Order, Compute] = {
        (m, k): Compute(m.shape, m.dtype, named(m, k, order), (), renewed[loops_of(m)[-1]])
        for m in members
        for k in range(1, order + 1)
    }
    while True:
        parts = {
            (m, k): [n for s in linear_statements(m) for n in coefficients(s, k, new)]
            for m in members
            for k in range(1, order + 1)
            if (m, k) in new
        }
        if all(parts.values()):
            renewed[recurrence].define({new[key]: statements for key, statements in parts.items()})
            meet_members(renewed[recurrence])
            return new
        # Members computed by floor and the like do not vary.
        new = {key: new[key] for key, statements in parts.items() if statements}


def named(t: Tensor, k: int, order: int) -> str:
    """The name of Taylor coefficient k of a tensor, which is a tangent if there are no others."""
    return part(t, "tangent") if order == 1 else part(t, "coefficient", k)


def _step_index(m: Compute, recurrence: Recurrence) -> int:
    index = step_index(m, recurrence)
    assert index is not None, "a gather over steps has no derivative"
    return index


def _copied(t: Tensor, steps: Mapping[int, Var]) -> Statement:
    """Statement that copies a tensor; ``steps`` are its axes of steps, by their positions."""
    axes = tuple(steps[k] if k in steps else Var(f"a{k}", 0, n) for k, n in enumerate(t.shape))
    indices: tuple[Expr, ...] = axes
    return Statement(None, indices, t[indices], Domain(axes), "sum")
