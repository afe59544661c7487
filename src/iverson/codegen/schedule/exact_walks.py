"""Exact walks: loop nests along the loops that elimination found, with accumulators and marks put in.

A walk is plain loops and guards around Points. Axes that are read under ``// d`` are cut into d phases first,
in each of which the quotient is an axis of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import lcm

from iverson.codegen.nests.access_checks import is_inside
from iverson.codegen.nests.integer_bounds import Scope, affine, from_affine, loop_extremes, without_division
from iverson.codegen.nests.loop_facts import depends, has_loop, is_short, sides
from iverson.codegen.nests.nodes import (
    BOOL,
    COMMUTING,
    INT64,
    Declare,
    If,
    Let,
    Load,
    Local,
    Loop,
    Point,
    Stmt,
    Store,
    Update,
    UpdateArg,
    Var,
    block_of,
    expressions,
    mapped,
    replaced,
    rewritten,
    statements,
)
from iverson.codegen.nests.task import MOTION_COST, Axis, Task, motion, no_position, position_in
from iverson.codegen.schedule.loop_schedule import (
    ASKED,
    Choice,
    fused,
    is_written_out,
    schedule,
    unrolled,
    with_shared,
)
from iverson.codegen.schedule.operand_packing import packed
from iverson.expr.affine import Affine, make, single
from iverson.expr.function_facts import identity
from iverson.expr.nodes import Apply, Const, Expr, changed, same, subexpressions
from iverson.expr.symbolic_numbers import integer

#: Iterations in a block that lanes share.
BLOCK = 64
#: Places at most where quotients change along an axis that is cut there, and the extent from which it is.
CHANGES, LONG = 4, 64
#: The scope of a nest that stands in no loop.
NO_LOOPS = Scope()


def nest(task: Task, walk: Stmt, strategy: str, around: Scope = NO_LOOPS) -> tuple[Stmt, ...]:
    """Phases that run the task along the walk; ``around`` has the loops in which they stand.

    Where the outermost loops are a box of the written axes, they are scheduled like any box, with the
    rest of the walk as the reduction inside.
    """
    boxes = None if any(isinstance(s, Declare) for s in statements((walk,))) else peeled(task, walk)
    if boxes is not None:
        return tuple(schedule(pinned(t)) for t in boxes)
    phase = _Walk(task, strategy).build(walk, around, False)
    if around.loops:
        return phase
    if len(phase) == 1 and isinstance(phase[0], Loop):
        return phase
    return (Loop("once", Const(0), Const(1), _by_one_thread(phase)),)


def _by_one_thread(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements without "parallel" marks, which only the outermost loop of a phase may have."""
    result: list[Stmt] = []
    for s in body:
        if isinstance(s, (Loop, If)):
            s = replace(s, body=_by_one_thread(s.body))
        if isinstance(s, Loop) and s.mark == "parallel":
            s = replace(s, mark="", factor=1)
        result.append(s)
    return tuple(result)


def pinned(task: Task) -> Task:
    """The task without axes that take a single value: the value stands in their place.

    A guarded reduction stays one: where its guard fails, an entry gets what the accumulator starts with.
    """
    single: dict[str, Expr] = {
        a.name: a.lower for a in task.axes if a.extent == 1 and isinstance(a.lower, Const)
    }
    inner = task.inner
    if task.where and inner and single.keys() >= set(inner):
        del single[inner[-1]]
    if not single:
        return task

    def put(e: Expr) -> Expr:
        return replaced(e, single)

    new_task = _mapped(replace(task, axes=tuple(a for a in task.axes if a.name not in single)), put)
    position = None if task.position is None else put(task.position)
    return replace(new_task, where=tuple(put(c) for c in task.where), position=position)


def boxed(task: Task) -> tuple[Stmt, ...]:
    """Phases that run a task over its box, after those that copy packed operands.

    It is one phase, or, if the last axis is read under ``// d``, one for each piece in which no quotient
    changes or for each residue, fused where they can be.
    """
    if task.whole is not None:
        return nest(task, task.whole, "scatter")
    phases: list[Stmt] = []
    for t in (part for piece in _by_pieces(task) for part in _by_residues(piece)):
        copies, t = packed(pinned(t))
        phases += copies
        phase = schedule(t)
        joint = fused(phases[-1], phase) if phases else None
        phases[-1:] = [joint] if joint is not None else [*phases[-1:], phase]
    return tuple(phases)


def _by_pieces(task: Task) -> list[Task]:
    """The tasks to run for this one: one for each piece of its last axis in which no quotient changes.

    for i < n: O[i] = A[(i - 3) % n]   ->   for i < 3: O[i] = A[i - 3 + n];  for 3 <= i < n: O[i] = A[i - 3]

    The task alone if the axis is short, or if its quotients change at more than `CHANGES` places.
    """
    axis = _last_axis(task)
    if axis is None or axis.typical_extent < LONG:
        return [task]
    low, high = affine(axis.lower, NO_LOOPS).const, affine(axis.upper, NO_LOOPS).const
    quotients: dict[Expr, tuple[int, int]] = {}
    places = {low, high}
    for x in (x for e in _all_expressions(task) for x in subexpressions(e)):
        divisor = _divisor(x, axis.name)
        form = affine(x.operands[0], NO_LOOPS) if divisor else None
        if form and form.terms == ((Var(axis.name), 1),) and 2 * divisor >= high - low:
            quotients[x] = form.const, divisor
            first = ((low + form.const) // divisor + 1) * divisor - form.const
            places.update(n for n in (first, first + divisor) if low < n < high)
    if not 2 < len(places) <= 2 + CHANGES:
        return [task]

    def piece(start: int, end: int) -> Task:
        def constant(x: Expr) -> Expr:
            if x not in quotients:
                return x
            shift, divisor = quotients[x]
            quotient = (start + shift) // divisor
            if isinstance(x, Apply) and x.name == "floor_divide":
                return Const(quotient)
            return Apply("add", (Var(axis.name), Const(shift - quotient * divisor)), INT64)

        new = replace(axis, lower=Const(start), upper=Const(end))
        axes = tuple([new if a is axis else a for a in task.axes])
        return _mapped(replace(task, axes=axes), lambda e: changed(e, constant))

    return [piece(start, end) for start, end in pairwise(sorted(places)) if start < end]


def _last_axis(task: Task) -> Axis | None:
    """The axis along which the output is written last, if it can be cut into parts."""
    last = task.write[-1] if task.write else None
    axis = next((a for a in task.axes if isinstance(last, Var) and a.name == last.name), None)
    fits = task.reduces or task.combine == "assign"
    if not fits or axis is None or axis.extent is None or task.where or task.position is not None:
        return None
    return axis


def _by_residues(task: Task) -> list[Task]:
    """The tasks to run for this one: one for each residue of its last axis, or the task alone.

    The axis is split if it is read under ``// d``, and, for a reduction, if lanes along it then cost less.
    """
    axis = _last_axis(task)
    if axis is None:
        return [task]
    tasks = _phases(task, axis.name, 1)
    if len(tasks) == 1 or not task.reduces:
        return tasks
    undivided, part = Choice(pinned(task)), Choice(pinned(tasks[0]))
    if part.vector is None or part.vector.name != axis.name:
        return [task]
    better = undivided.vector is None or part.weight(part.vector) < undivided.weight(undivided.vector)
    return tasks if better else [task]


def peeled(task: Task, walk: Stmt) -> list[Task] | None:
    """Tasks over the box of the walk's outermost loops, with the rest of the walk inside each.

    There are several if an axis is split by steps or residues. None if these loops are not a box of all
    written axes, or if the walk's guards are needed to keep the writes inside.
    """
    if task.position is not None or task.combine not in COMMUTING:
        return None
    names = [i.name for i in task.write if isinstance(i, Var)]
    axes: list[Axis] = []
    remaining: tuple[Stmt, ...] = (walk,)
    steps: dict[str, int] = {}
    while len(remaining) == 1 and isinstance(s := remaining[0], Loop):
        if s.var not in names or not isinstance(s.lower, Const) or not isinstance(s.upper, Const):
            break
        axes.append(Axis(s.var, s.lower, s.upper, task.levers.get(s.var, ""), s.label))
        steps[s.var] = s.step
        remaining = s.body
    points = _points(remaining)
    if not axes or set(names) != set(steps) or len(names) != len(task.write):
        return None
    if len(points) != 1 or points[0].at:
        return None
    loops = tuple(a.loop() for a in axes)
    if not is_inside(Store(task.out, task.write, task.value), Scope(loops)):
        return None  # only the walk's guards keep the writes inside
    inner = None if isinstance(remaining[0], Point) else remaining
    levers = {n: lever for n, lever in task.levers.items() if n not in steps}
    inner = None if inner is None else tuple(unrolled(s, levers) for s in inner)
    tasks = [replace(task, axes=tuple(axes), walk=inner, fresh=False, where=())]
    for a in axes:
        tasks = [split for t in tasks for split in _phases(t, a.name, steps[a.name])]
    return [_aligned(t) for t in tasks]


def _phases(task: Task, name: str, step: int) -> list[Task]:
    """Rewrite ``task`` so that its axis ``name`` counts whole steps: one task, or one for each residue.

    A ``step`` above 1 gives one task. An axis under ``// d`` gives one task for each residue r modulo d, with
    a = d q + r:
    ``for a in range(lo, hi): ... (a + c) // d ...  ->  for q: ... q + (r + c) // d ...``.
    The result is ``[task]`` if the axis is empty or the split for a division brings no gain.
    """
    axis = next(a for a in task.axes if a.name == name)
    low, high = affine(axis.lower, Scope()).const, affine(axis.upper, Scope()).const
    if low >= high:
        return [task]
    divisors = {d for e in _all_expressions(task) for d in _divisors(e, name)}
    if step > 1:
        starts, d = [low], step
        if any(step % other for other in divisors):
            return [_stepped(task, name, low, step, -(-(high - low) // step))]
    elif divisors and lcm(*divisors) <= 8 and _is_last(task, name):
        d = lcm(*divisors)
        starts = [low + r for r in range(d) if low + r < high]
    else:
        return [task]
    tasks = [_stepped(task, name, first, d, -(-(high - first) // d)) for first in starts]
    # A store of every d-th entry takes as long as lanes that are read one by one; a reduction has few stores.
    stores = 0 if task.reduces else MOTION_COST[2]
    if step == 1 and stores + _reads_cost(_aligned(tasks[0]), name) >= _reads_cost(_aligned(task), name):
        return [task]
    return tasks


def _is_last(task: Task, name: str) -> bool:
    """True if the output is contiguous along an axis: no other axis could run in lanes."""
    return motion(Store(task.out, task.write, task.value), name) == 1


def _stepped(task: Task, name: str, first: int, step: int, count: int) -> Task:
    """The task at ``count`` values of the axis ``name`` only: ``first``, ``first + step``, and so on.

    The new axis, of the same name, counts the steps, from ``first // step`` on.
    """
    quotient, residue = divmod(first, step)
    value = Apply("add", (Apply("multiply", (Var(name), Const(step)), INT64), Const(residue)), INT64)
    replacement = {name: value}

    def changed(e: Expr) -> Expr:
        return without_division(replaced(e, replacement))

    axes = tuple(
        replace(a, lower=Const(quotient), upper=Const(quotient + count)) if a.name == name else a
        for a in task.axes
    )
    return _mapped(replace(task, axes=axes), changed)


def _mapped(task: Task, f: Callable[[Expr], Expr]) -> Task:
    return replace(
        task,
        write=tuple(f(w) for w in task.write),
        value=f(task.value),
        lets=tuple(Let(x.name, f(x.value)) for x in task.lets),
        walk=None if task.walk is None else tuple(mapped(s, f) for s in task.walk),
    )


def _aligned(task: Task) -> Task:
    """The task with loops of its walk counted from the position of an axis, where reads then cost less.

    ``for h in range(q - 1, q + 2): A[h] B[q - h]  ->  for h in range(-1, 2): A[q + h] B[-h]``
    """
    task = _by_ones(task)
    for axis in task.axes:
        for loop in _loops_of(task.walk, axis.name):
            var = loop.var
            if loop.step != 1:
                continue
            shifted = {var: Apply("add", (Var(var), Var(axis.name)), INT64)}
            new_task = _mapped(task, lambda e, s=shifted: replaced(e, s))  # type: ignore[misc]
            new_task = _rebounded(new_task, var, partial(_shifted, by=axis.name))
            if _reads_cost(new_task, axis.name) < _reads_cost(task, axis.name):
                task = new_task
    return task


def _by_ones(task: Task) -> Task:
    """The task with loops of its walk that have a step as loops with step 1, counted in steps.

    A loop is changed only if it always starts at the same residue of its step.
    ``for w in range(max(1, 2 q - 1), u, 2): A[w]  ->  for w in range(max(0, q - 1), u // 2): A[2 w + 1]``
    """
    for loop in _loops_of(task.walk):
        if loop.step == 1:
            continue
        scope = Scope()
        lows, highs = (sides(e, how, scope) for e, how in ((loop.lower, "maximum"), (loop.upper, "minimum")))
        residues = {f.const % loop.step for f in lows}
        if len(residues) > 1 or any(c % loop.step for f in (*lows, *highs) for _, c in f.terms):
            continue
        (first,) = residues
        bounds = [[from_affine(_divided(f.shift(-first), loop.step)) for f in side] for side in (lows, highs)]
        low, high = (_nested(side, how) for side, how in zip(bounds, ("maximum", "minimum"), strict=True))
        value = Apply(
            "add", (Apply("multiply", (Var(loop.var), Const(loop.step)), INT64), Const(first)), INT64
        )
        replacement = {loop.var: value}
        task = _mapped(task, lambda e, m=replacement: without_division(replaced(e, m)))  # type: ignore[misc]
        task = _rebounded(task, loop.var, partial(replace, lower=low, upper=high, step=1))
    return task


def _divided(f: Affine, by: int) -> Affine:
    """The form ``f / by``, rounded up; ``by`` divides all coefficients."""
    return make(-(-f.const // by), {a: c // by for a, c in f.terms})


def _nested(sides: list[Expr], how: str) -> Expr:
    total, *remaining = sides
    for e in remaining:
        total = Apply(how, (total, e), INT64)
    return total


def _rebounded(task: Task, var: str, f: Callable[[Loop], Loop]) -> Task:
    """The task with ``f(loop)`` in place of the loop over ``var`` in its walk."""

    def bounds(s: Stmt) -> Stmt:
        return f(s) if isinstance(s, Loop) and s.var == var else s

    return replace(task, walk=tuple(rewritten(s, bounds) for s in task.walk or ()))


def _shifted(s: Loop, by: str) -> Loop:
    return replace(s, lower=_less(s.lower, by), upper=_less(s.upper, by))


def _loops_of(walk: tuple[Stmt, ...] | None, name: str | None = None) -> list[Loop]:
    """The loops of a walk; if ``name`` is given, only those whose bounds depend on it."""
    loops = [s for s in statements(walk or ()) if isinstance(s, Loop) and _points((s,))]
    return [s for s in loops if name is None or depends(s.lower, {name}) or depends(s.upper, {name})]


def _less(e: Expr, by: str) -> Expr:
    """``e - by``, inside minima and maxima, with what cancels left out."""
    if isinstance(e, Apply) and e.name in ("minimum", "maximum"):
        return Apply(e.name, tuple(_less(a, by) for a in e.args), INT64)
    if isinstance(e, Apply) and e.name == "add" and isinstance(e.args[1], Const):
        return Apply("add", (_less(e.args[0], by), e.args[1]), INT64)
    return from_affine(affine(e, Scope()) - single(Var(by)))


def _reads_cost(task: Task, name: str) -> float:
    """Cost of the task's reads with the axis ``name`` in vector lanes.

    A loop whose bounds differ between lanes runs over all their values, and under ``// d`` only one lane
    in d takes part.
    """
    idle = max((d for e in _bounds_of(task.walk) for d in _divisors(e, name)), default=1)
    scope = Scope(tuple(a.loop() for a in task.axes))
    spans = 1
    for loop in _loops_of(task.walk, name):
        low, high = loop_extremes(loop, scope)
        spans *= integer(max(1, min(high - low, 64)))
    return idle * spans * sum(MOTION_COST[motion(x, name, task.lets)] for x in task.loads)


def _all_expressions(task: Task) -> list[Expr]:
    return [*task.expressions, *_bounds_of(task.walk)]


def _bounds_of(walk: tuple[Stmt, ...] | None) -> list[Expr]:
    """The bounds and guards of a walk."""
    return [e for s in statements(walk or ()) for e in expressions(s)]


def _divisors(e: Expr, name: str) -> set[int]:
    """The divisors of quotients and remainders of an expression in which a name stands."""
    return {integer(d) for x in subexpressions(e) if (d := _divisor(x, name))}


def _divisor(x: Expr, name: str) -> int:
    """The constant by which an expression is divided in which a name stands; 0 for other functions."""
    if not (isinstance(x, Apply) and x.name in ("floor_divide", "remainder") and x.dtype == INT64):
        return 0
    number, divisor = x.args
    return divisor.value if isinstance(divisor, Const) and depends(number, {name}) else 0


class _Walk:
    """Builder of the statements that carry out a task along its walk.

    strategy : "injective" if different values of a loop's variable always write different entries.
    """

    def __init__(self, task: Task, strategy: str) -> None:
        self.task, self.strategy = task, strategy

    def build(self, walk: Stmt, around: Scope, inside: bool) -> tuple[Stmt, ...]:
        """Statements that carry out the task along ``walk``.

        A guard stands outside of the accumulator: only it may keep the store inside the output.

        around : the loops and guards around the walk.
        inside : True if the statements are inside an accumulator's block, and so update it.
        """
        if not _points((walk,)):
            return (walk,)  # a reduction that the points after it use
        if isinstance(walk, If):
            guarded = replace(around, guards=(*around.guards, (walk.condition, True)))
            return (replace(walk, body=self._all(walk.body, guarded, inside)),)
        if not inside and self._accumulates(walk, around):
            return self._accumulated(walk, around)
        if isinstance(walk, Point):
            return self._point(walk, inside)
        assert isinstance(walk, Loop)
        inner = self._all(walk.body, replace(around, loops=(*around.loops, walk)), inside)
        mark, factor = self._mark(walk, inner, around, inside)
        if mark == "vector" and is_short(walk, around):
            mark, factor = "", 1
        lever = self.task.levers.get(walk.var)
        if lever == "unroll" and mark != "parallel" and is_written_out(walk):
            mark, factor = "unroll", ASKED
        elif lever == "parallel" and mark == "parallel":
            factor = ASKED
        if mark == "parallel" and not self._owns(walk.var):
            inner = with_shared(inner)
        elif mark == "parallel" and self._in_blocks(walk, inner):
            return (_blocks(walk, inner),)
        return (replace(walk, body=inner, mark=mark, factor=factor),)

    def _in_blocks(self, walk: Loop, inner: tuple[Stmt, ...]) -> bool:
        """True if lanes may share the blocks of an outermost loop: they have no other loop for a fold."""
        stores = [s for s in statements(inner) if isinstance(s, Store)]
        lanes = any(isinstance(s, Loop) and s.mark == "vector" for s in statements(inner))
        along = all(motion(s, walk.var) == 1 for s in stores) and walk.step == 1
        return along and not lanes and _folds(inner) and not is_short(walk, NO_LOOPS)

    def _all(self, body: tuple[Stmt, ...], around: Scope, inside: bool) -> tuple[Stmt, ...]:
        return tuple(s for w in body for s in self.build(w, around, inside))

    # --- points -----------------------------------------------------------------------------------

    def _point(self, point: Point, inside: bool) -> tuple[Stmt, ...]:
        task = self.task
        lets = tuple(Let(x.name, replaced(x.value, point.at)) for x in task.lets)
        value = replaced(task.value, point.at)
        if task.position is not None:
            best = UpdateArg("best", "at", task.combine, value, replaced(task.position, point.at))
            return (*lets, best)
        if inside:
            return (*lets, Update("acc", task.combine, value))
        return (*lets, Store(task.out, self._write(point), value, task.combine))

    def _write(self, point: Point) -> tuple[Expr, ...]:
        return tuple(replaced(w, point.at) for w in self.task.write)

    # --- accumulators -----------------------------------------------------------------------------

    def _accumulates(self, walk: Stmt, around: Scope) -> bool:
        """True if an accumulator starts here: loops are left, and all points in them write one entry.

        The indices of this entry must be known outside of these loops. False as well if guards on the terms
        are needed to keep the write inside the output.
        """
        if isinstance(walk, Point) or self.task.combine == "assign":
            return self.task.position is not None
        free = {s.var for s in _loops_of((walk,))}
        free |= {s.name for s in statements((walk,)) if isinstance(s, Let)}
        writes = [self._write(p) for p in _points((walk,))]
        is_one_entry = all(same(w, writes[0]) for w in writes)
        if not is_one_entry or any(depends(i, free) for i in writes[0]) or not has_loop((walk,)):
            return False
        # Where guards on the terms keep the write inside, or that there is one, each is written by itself.
        guarded = (
            any(isinstance(s, If) and _points((s,)) for s in statements((walk,)))
            or _unless_empty(walk) is None
        )
        return not guarded or self._is_inside(writes[0], around)

    def _is_inside(self, write: tuple[Expr, ...], around: Scope) -> bool:
        return is_inside(Store(self.task.out, write, self.task.value), around)

    def _accumulated(self, walk: Stmt, around: Scope) -> tuple[Stmt, ...]:
        """Block of a reduction: an accumulator is declared, updated along the walk, and stored."""
        task = self.task
        body = self.build(walk, around, True)
        write = self._write(_points((walk,))[0])
        if task.position is not None:
            dtype = task.value.dtype
            first = Const(identity(task.combine, dtype), dtype)
            return (
                Declare("best", dtype, first),
                Declare("at", task.out.dtype, no_position(task.out.dtype)),
                *body,
                Store(task.out, write, position_in(Local("at", task.out.dtype))),
            )
        dtype = task.out.dtype
        block: tuple[Stmt, ...] = (
            Declare("acc", dtype, Const(identity(task.combine, dtype), dtype)),
            *body,
            Store(task.out, write, Local("acc", dtype), task.combine),
        )
        for condition in () if self._is_inside(write, around) else _unless_empty(walk) or ():
            block = (If(condition, block),)
        return block

    # --- marks ------------------------------------------------------------------------------------

    def _owns(self, var: str) -> bool:
        """True if different values of a loop's variable write different entries."""
        return self.strategy == "injective" or any(w is Var(var) for w in self.task.write)

    def _mark(self, walk: Loop, inner: tuple[Stmt, ...], around: Scope, inside: bool) -> tuple[str, int]:
        """Mark and factor for a loop of the walk, whose body becomes ``inner``."""
        var = walk.var
        stores = [s for s in statements(inner) if isinstance(s, Store)]
        innermost = not any(isinstance(s, Loop) and s.mark == "vector" for s in statements(inner))
        if not around.loops and not inside and stores and self._parallel(var):
            return "parallel", 1
        if inside:
            contiguous = not any(isinstance(s, Loop) for s in inner) and self._reads_along(var)
            return ("vector", 2) if contiguous and self.task.position is None else ("", 1)
        along = innermost and stores and all(motion(s, var) == 1 for s in stores)
        if along and any(isinstance(s, Declare) for s in statements(walk.body)):  # a reduction of its own
            along = _folds(inner) or _moves_along(inner, var)
        return ("vector", 2) if along else ("", 1)

    def _parallel(self, var: str) -> bool:
        return self._owns(var) or self.task.combine in COMMUTING

    def _reads_along(self, var: str) -> bool:
        lets = self.task.lets
        return all(motion(x, var, lets) < 2 for x in self.task.loads)


def _folds(body: tuple[Stmt, ...]) -> bool:
    """True if each step of a loop in a body depends on the one before: it has no lanes of its own."""
    return any(isinstance(s, Update) and s.combine == "assign" for s in statements(body))


def _moves_along(body: tuple[Stmt, ...], var: str) -> bool:
    """True if all that is read in a body lies along a variable."""
    loads = (x for s in statements(body) for e in expressions(s) for x in subexpressions(e))
    lets = [s for s in statements(body) if isinstance(s, Let)]
    return all(motion(x, var, lets) < 2 for x in loads if isinstance(x, Load))


def _blocks(walk: Loop, inner: tuple[Stmt, ...]) -> Loop:
    """The loop over blocks of its iterations, which threads share, each block in lanes."""
    block = Var(block_of(walk.var))
    end = Apply("minimum", (Apply("add", (block, Const(BLOCK)), INT64), walk.upper), INT64)
    lanes = replace(walk, lower=block, upper=end, body=inner, mark="vector")
    return Loop(block.name, walk.lower, walk.upper, (lanes,), BLOCK, "parallel", label=walk.label)


def _unless_empty(walk: Stmt) -> tuple[Expr, ...] | None:
    """Conditions under which no loop of the walk is empty, one for each loop that may be empty.

    None if bounds of such a loop depend on other loops of the walk.
    """
    loops = _loops_of((walk,))
    variables = {s.var for s in loops}
    conditions: list[Expr] = []
    for s in loops:
        if isinstance(s.lower, Const) and isinstance(s.upper, Const) and s.lower.value < s.upper.value:
            continue
        if any(depends(e, variables) for e in (s.lower, s.upper)):
            return None
        conditions.append(Apply("less", (s.lower, s.upper), BOOL))
    return tuple(conditions)


def _points(walk: tuple[Stmt, ...]) -> list[Point]:
    return [s for s in statements(walk) if isinstance(s, Point)]
