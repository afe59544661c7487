"""Loop nests of recurrences: one phase, a loop over the steps around the nests of one step.

    for t: for i: z[t, i] = ...; for i: s[t, i] = f(s[t - 1, ...], z[t, i])

Conditions that depend on the step only (``t >= 1``: there is an earlier state) are placed around a
statement's nest, and there is one nest for each combination of their values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from iverson.codegen.nests.integer_bounds import Scope
from iverson.codegen.nests.nodes import INT64, Buffer, If, Loop, Stmt, Store, Var, rewritten
from iverson.codegen.nests.task import Task
from iverson.codegen.schedule.exact_walks import boxed, pinned
from iverson.codegen.schedule.loop_fusion import apart
from iverson.codegen.schedule.loop_schedule import schedule
from iverson.expr.nodes import Apply, Const, Expr, postorder
from iverson.te.elimination.extremum_positions import covers_all
from iverson.te.elimination.nest_translation import Sizes, Translation, phases_of, task_of
from iverson.te.ir.evaluation_guards import conjunction
from iverson.te.ir.expressions import Tensor, replacing, variables
from iverson.te.ir.expressions import Var as Index
from iverson.te.ir.index_arithmetic import conjuncts, depends_on_data, negation
from iverson.te.ir.integer_sets import is_empty
from iverson.te.ir.nodes import Domain, Recurrence, Statement

#: Conditions on the step that get nests of their own for each way they turn out, in one statement.
APART = 3
#: The variable of the loop over steps.
STEP = "step"


def starts_whole(s: Statement) -> bool:
    """True if a member's first statement writes all of its tensor at every step: it then needs no fill."""
    axis = _recurrence(s).axis
    varies = all(any(v is not axis and v.kind != "size" for v in variables([c])) for c in s.domain.where)
    return varies and covers_all(s)


def phase_of(
    recurrence: Recurrence,
    statements: Sequence[Statement],
    buffers: Mapping[Tensor, Buffer],
    sizes: Sizes,
    fresh: Collection[Tensor],
) -> Stmt:
    """Loop over the steps of a recurrence, with the nests of its statements.

    fresh : members whose first statement writes all of them.
    """
    count = Translation(buffers, sizes).index(recurrence.axis.hi)
    at: Expr = Var(STEP)
    if recurrence.reverse:
        last = (
            Const(count.value - 1)
            if isinstance(count, Const)
            else Apply("subtract", (count, Const(1)), INT64)
        )
        at = Apply("subtract", (last, at), INT64)
    steps = Scope((Loop(STEP, Const(0), count, ()),))
    body: list[Stmt] = []
    started: set[Tensor] = set()
    taken = {STEP}
    for s in statements:
        first = s.tensor not in started
        started.add(s.tensor)
        for guard, variant in variants(s, recurrence.axis):
            task = task_of(variant, buffers, first and s.tensor in fresh, sizes, {recurrence.axis: at})
            if variant.walk is None:
                nests = _nests(task)
            else:
                nests = tuple(phases_of(variant, task, buffers, {recurrence.axis: at}, steps))
            nests = tuple(x for nest in nests for x in _unwrapped(apart(nest, taken)))
            if guard is not None:
                condition = Translation(buffers, sizes, {recurrence.axis: at}).expression(guard)
                nests = (If(condition, nests),)
            body += nests
    return Loop(STEP, Const(0), count, tuple(body), label=recurrence.axis.name)


def _nests(task: Task) -> tuple[Stmt, ...]:
    """Nests of a task for use inside of a loop: all in one thread."""

    def alone(s: Stmt) -> Stmt:
        if isinstance(s, Loop) and s.mark == "parallel":
            return replace(s, mark="")
        return replace(s, shared=False) if isinstance(s, Store) else s

    has_nest = task.whole is not None
    return tuple(rewritten(s, alone) for s in (boxed(task) if has_nest else (schedule(pinned(task)),)))


def _unwrapped(nest: Stmt) -> tuple[Stmt, ...]:
    """The body of a loop of one iteration, which a phase needs and a step does not; any other nest as it is."""
    return nest.body if isinstance(nest, Loop) and nest.var == "once" else (nest,)


def variants(s: Statement, axis: Index) -> Iterator[tuple[Expr | None, Statement]]:
    """Pairs of a condition on the step (None for always) and the statement for steps where it holds.

    There is a pair for each combination of truth values of the conditions in the statement that depend on the
    step alone, up to `APART` of them.
    """
    conditions = _of_step(s.roots, s)[:APART]
    for truth_values in product((True, False), repeat=len(conditions)):
        guards = [c if h else negation(c) for c, h in zip(conditions, truth_values, strict=True)]
        if len(guards) > 1 and is_empty((axis,), guards):
            continue
        values: dict[Expr, Expr] = {}
        for c, h in zip(conditions, truth_values, strict=True):
            values[c] = Const(h, c.dtype)
            values[negation(c)] = Const(not h, c.dtype)
        new = s.mapped(replacing(values))
        if any(isinstance(c, Const) and not c.value for c in new.domain.where):
            continue
        where = tuple(c for c in new.domain.where if not isinstance(c, Const))
        new = replace(new, domain=Domain(new.domain.axes, where))
        yield (conjunction(guards) if guards else None), new


def _of_step(roots: Sequence[Expr], s: Statement) -> list[Expr]:
    """Comparisons under the roots that depend on the step alone; of two opposite comparisons, the first."""
    axis = _recurrence(s).axis
    comparisons: dict[Expr, None] = {}
    for root in roots:
        for e in postorder([root]):
            compares = isinstance(e, Apply) and e.dtype.kind == "b" and conjuncts(e) == [e]
            moving = [v for v in variables([e]) if v.kind != "size"] if compares else []
            if moving == [axis] and not depends_on_data([e]) and negation(e) not in comparisons:
                comparisons[e] = None
    return list(comparisons)


def _recurrence(s: Statement) -> Recurrence:
    recurrence = s.tensor.recurrence
    assert recurrence is not None
    return recurrence
