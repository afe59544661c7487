"""Loop nests of recurrences: one phase, a loop over the steps around the nests of one step.

    for t: for i: z[t, i] = ...; for i: s[t, i] = f(s[t - 1, ...], z[t, i])

Conditions that depend on the step only (``t >= 1``: there is an earlier state) are placed around a
statement's nest, and there is one nest for each combination of their values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, product

from iverson.codegen.nests.integer_bounds import Scope
from iverson.codegen.nests.nodes import INT64, Buffer, If, Loop, Stmt, Store, Var, rewritten
from iverson.codegen.nests.task import Task
from iverson.codegen.schedule.exact_walks import boxed, pinned
from iverson.codegen.schedule.loop_fusion import apart
from iverson.codegen.schedule.loop_schedule import schedule
from iverson.expr.nodes import Apply, Const, Expr, is_number, postorder
from iverson.te.elimination.nest_translation import Sizes, Translation, phases_of, task_of
from iverson.te.ir.evaluation_guards import conjunction
from iverson.te.ir.expressions import Read, Tensor, reads_of, replacing, variables
from iverson.te.ir.expressions import Var as Index
from iverson.te.ir.index_arithmetic import conjuncts, depends_on_data, negation
from iverson.te.ir.integer_sets import is_empty
from iverson.te.ir.nodes import Domain, Recurrence, Statement, inner_recurrence, step_axes
from iverson.te.ir.verify import inside
from iverson.te.lowering.ring_buffers import Rings

#: Conditions on the step that get nests of their own for each way they turn out, in one statement.
APART = 3
#: The variable of the loop over steps.
STEP = "step"


def phase_of(
    recurrence: Recurrence,
    statements: Sequence[Statement],
    buffers: Mapping[Tensor, Buffer],
    sizes: Sizes,
    fresh: Collection[Tensor],
    rings: Rings,
) -> Stmt:
    """Loop over the steps of a recurrence, with the nests of its statements.

    fresh : members whose first statement writes all of them.
    """
    return _Steps(buffers, sizes, fresh, rings).loop(recurrence, statements, {}, Scope())


class _Steps:
    """Lowering of recurrences: `started` are the members written so far, `taken` the names in use."""

    def __init__(
        self,
        buffers: Mapping[Tensor, Buffer],
        sizes: Sizes,
        fresh: Collection[Tensor],
        rings: Rings,
    ) -> None:
        self.buffers, self.sizes, self.fresh, self.rings = buffers, sizes, fresh, rings
        self.started: set[Tensor] = set()
        self.taken: set[str] = set()

    def loop(
        self,
        recurrence: Recurrence,
        statements: Sequence[Statement],
        outer: Mapping[Index, Expr],
        around: Scope,
    ) -> Loop:
        """Loop over the steps of a recurrence.

        outer, around : the steps of the recurrences around it, and their loops.
        """
        name = STEP if not outer else f"{STEP}{len(outer)}"
        self.taken.add(name)
        count = Translation(self.buffers, self.sizes, outer).index(recurrence.axis.hi)
        at: Expr = Var(name)
        if recurrence.reverse:
            last = (
                Const(count.value - 1)
                if isinstance(count, Const)
                else Apply("subtract", (count, Const(1)), INT64)
            )
            at = Apply("subtract", (last, at), INT64)
        steps = {**outer, recurrence.axis: at}
        scope = Scope((*around.loops, Loop(name, Const(0), count, ())))
        body: list[Stmt] = []
        for inner, group in groupby(statements, key=lambda s: inner_recurrence(s.tensor, recurrence)):
            if inner is not None:
                body.append(self.loop(inner, tuple(group), steps, scope))
                continue
            for s in group:
                body += self.nests(s, steps, scope)
        return Loop(name, Const(0), count, tuple(body), label=recurrence.axis.name)

    def nests(self, s: Statement, steps: Mapping[Index, Expr], around: Scope) -> Iterator[Stmt]:
        """Nests of a statement at one step: one for each way that the conditions on the step turn out."""
        fresh = s.tensor in self.fresh and s.tensor not in self.started
        self.started.add(s.tensor)
        for guards, where_they_hold in variants(s):
            terms = _without_terms(where_they_hold, fresh)
            if terms is None:
                continue
            variant = self.rings.statement(terms)
            task = task_of(variant, self.buffers, fresh, self.sizes, steps)
            if variant.walk is None:
                nests = _nests(task)
            else:
                nests = tuple(phases_of(variant, task, self.buffers, steps, around))
            nests = tuple(x for nest in apart(nests, self.taken) for x in _unwrapped(nest))
            for guard in reversed(guards):
                condition = Translation(self.buffers, self.sizes, steps).expression(
                    self.rings.expression(guard)
                )
                nests = (If(condition, nests),)
            yield from nests


def _nests(task: Task) -> tuple[Stmt, ...]:
    """Nests of a task for use inside of a loop: all in one thread."""

    def alone(s: Stmt) -> Stmt:
        if isinstance(s, Loop) and s.mark == "parallel":
            return replace(s, mark="")
        return replace(s, shared=False) if isinstance(s, Store) else s

    has_nest = task.whole is not None
    return tuple(rewritten(s, alone) for s in (boxed(task) if has_nest else (schedule(pinned(task)),)))


def _unwrapped(nest: Stmt) -> tuple[Stmt, ...]:
    """The body of a loop of one iteration, which a step does not need; any other nest as it is."""
    return nest.body if isinstance(nest, Loop) and nest.var == "once" else (nest,)


def variants(s: Statement) -> Iterator[tuple[tuple[Expr, ...], Statement]]:
    """Pairs of conditions on the step, each under those before it, and the statement where they hold.

    There is a pair for each combination of truth values of the conditions in the statement that depend on the
    step alone, up to `APART` of them; then for one that is read at it, as of `te.while_`.
    """
    for guards, new in _decided(s, _of_step(s.roots, s)[:APART]):
        where = (*new.domain.where, *guards)
        outer = (conjunction(guards),) if guards else ()
        conditions = [c for c in _read_of_step(new) if _is_inside(c, where)]
        for data_guards, variant in _decided(new, conditions[:1]):
            yield (*outer, *data_guards), variant


def _without_terms(s: Statement, fresh: bool) -> Statement | None:
    """A statement that adds 0, at one point for each entry; None if it need not, as the entries are there."""
    if s.combine != "sum" or not is_number(s.body, 0):
        return s
    output_axes = {*variables(s.write)}
    axes = tuple(v for v in s.domain.axes if v in output_axes)
    return replace(s, domain=Domain(axes, s.domain.where)) if fresh and s.walk is None else None


def _decided(s: Statement, conditions: Sequence[Expr]) -> Iterator[tuple[list[Expr], Statement]]:
    """Pairs of guards and the statement where they hold, for each way that the conditions turn out."""
    for truth_values in product((True, False), repeat=len(conditions)):
        guards = [c if h else negation(c) for c, h in zip(conditions, truth_values, strict=True)]
        if len(guards) > 1 and is_empty(step_axes(s.tensor), guards):
            continue
        values: dict[Expr, Expr] = {}
        for c, h in zip(conditions, truth_values, strict=True):
            values[c] = Const(h, c.dtype)
            values[negation(c)] = Const(not h, c.dtype)
        new = s.mapped(replacing(values))
        if any(isinstance(c, Const) and not c.value for c in new.domain.where):
            continue
        where = tuple(c for c in new.domain.where if not isinstance(c, Const))
        yield guards, replace(new, domain=Domain(new.domain.axes, where))


def _is_inside(entry: Read, where: Sequence[Expr]) -> bool:
    return all(inside(e, n, where) for e, n in zip(entry.indices, entry.tensor.shape, strict=True))


def _read_of_step(s: Statement) -> list[Read]:
    """Conditions in a statement that another tensor holds for the step."""
    steps = step_axes(s.tensor)
    reads = [r for r in reads_of([s.body]) if r.dtype.kind == "b" and r.tensor is not s.tensor]
    return [r for r in reads if {v for v in variables(r.indices) if v.kind != "size"} <= {*steps}]


def _of_step(roots: Sequence[Expr], s: Statement) -> list[Expr]:
    """Comparisons under the roots that depend on the step alone; of two opposite comparisons, the first."""
    steps = step_axes(s.tensor)
    comparisons: dict[Expr, None] = {}
    for root in roots:
        for e in postorder([root]):
            compares = isinstance(e, Apply) and e.dtype.kind == "b" and conjuncts(e) == [e]
            moving = [v for v in variables([e]) if v.kind != "size"] if compares else []
            if (
                moving
                and {*moving} <= {*steps}
                and not depends_on_data([e])
                and negation(e) not in comparisons
            ):
                comparisons[e] = None
    return list(comparisons)
