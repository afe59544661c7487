"""Loop schedule: a task over a box of axes becomes a loop nest with a loop order, marks and tiles.

The choices, in order: which axis runs in vector lanes (the one along which reads are contiguous or do not
move), which is tiled (the one whose neighbours share most reads), which is cut into ranges for threads
(one that no two iterations of write to the same entry). Reduction axes go inside, into accumulators that
live in registers. What a nest means does not depend on any of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf, prod

import numpy as np

from iverson.codegen.nests.access_checks import is_inside
from iverson.codegen.nests.integer_bounds import Scope, affine, extremes
from iverson.codegen.nests.loop_facts import constant_extent, depends, is_short, most_iterations, width
from iverson.codegen.nests.nodes import (
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
    alike,
    block_of,
    expressions,
    rewritten,
    statements,
)
from iverson.codegen.nests.phase_cost import WORTH_THREADS, cost
from iverson.codegen.nests.task import MOTION_COST, Axis, Task, motion, no_position, position_in
from iverson.codegen.runtime.target import available, host
from iverson.expr.affine import difference
from iverson.expr.function_facts import NEGATED, identity
from iverson.expr.nodes import Apply, Cast, Const, DType, Expr, subexpressions
from iverson.expr.symbolic_numbers import integer, is_infinite, is_symbolic, typical

#: Lanes assumed when axes are weighed; the real width is the emitter's.
LANES = 16
#: Points that make a reduction long, and the updates written out at most in a long and in a short one.
MANY, WRITTEN, ALL_WRITTEN = 16, 64, 160
#: Iterations of plain innermost loops that are written out.
SHORT = 8
#: Rows of a register tile of two vectors, where there are registers for them.
TILE = 8
#: Vector registers for the factors of a register tile. Measured with 16 registers: products of tiles of 5
#: rows take 0.75 to 0.85 of the time of those of 6, and half of those of 8, whose sums go to memory.
FACTORS = 6
#: Tiles from which an axis is long.
LONG = 16
#: Points of a reduction from which vectors in which guards hold for all lanes get a loop of their own, which
#: takes 0.1 s to compile. Measured: input gradients of 3 x 3 convolutions take 0.4 to 0.7 of the time.
ENDS = 2**20
#: Entries of a line of a cache that a tile of a transpose reads or writes together.
TRANSPOSED = 16
#: How many times fewer terms are written out where reads are strided: each is several vectors and a shuffle.
STRIDED = 8
#: Iterations of a loop that are written out at most, where a user asks for it.
MOST_WRITTEN = 64
#: The factor of a loop whose mark, "parallel" or "unroll", a user asked for.
ASKED = 2
#: Entries a thread takes at a time where the only axis left is the vector's.
BLOCK = 4096


def fused(first: Stmt, second: Stmt) -> Stmt | None:
    """One nest of two over the same outer loop: with one body after the other, or fused inner loops.

    None if the outer loops differ or have marks other than "parallel", or if names are declared in them. For
    tasks that may run in any order, such as those that write different entries of one output.
    """
    if not (isinstance(first, Loop) and isinstance(second, Loop)) or first.mark not in ("", "parallel"):
        return None
    if not alike(first, second):
        return None
    body = (*first.body, *second.body)
    if any(isinstance(s, (Let, Declare)) for s in body):
        return None
    if len(first.body) == len(second.body) == 1:
        inner = fused(first.body[0], second.body[0])
        body = body if inner is None else (inner,)
    return replace(first, body=body)


def schedule(task: Task) -> Stmt:
    """A phase that carries out the task."""
    return Choice(_apart(task)).phase()


def _apart(task: Task) -> Task:
    """The task, with ``apart`` set if guards that differ between terms of an entry keep its store inside."""
    outer, inner = _guards(task)
    if not inner or not task.reduces or task.fresh or task.position is not None or task.walk is not None:
        return task
    return (
        task
        if is_inside(Store(task.out, task.write, task.value), _scope(task, outer))
        else replace(task, apart=True)
    )


def _guards(task: Task) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The guards that all terms of an entry share, and the others."""
    reduced = set(task.inner)
    return tuple(c for c in task.where if not depends(c, reduced)), tuple(
        c for c in task.where if depends(c, reduced)
    )


def _scope(task: Task, guards: tuple[Expr, ...] = ()) -> Scope:
    """Context of the store of a reduction: the loops around it, and guards."""
    loops = tuple(a.loop() for a in task.axes if a.name not in task.inner)
    return Scope(loops, tuple((c, True) for c in guards))


def _in_write_order(task: Task, axes: list[Axis]) -> list[Axis]:
    """The axes in the order in which they first appear in the write, so that stores run through memory."""

    def appears(a: Axis) -> int:
        return min((n for n, i in enumerate(task.write) if depends(i, {a.name})), default=len(task.write))

    return sorted(axes, key=appears)


class Choice:
    """The choices for one task, and the nest they make."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.reduced = [] if task.apart else [a for a in task.axes if a.name in task.inner]
        self.outer = _in_write_order(task, [a for a in task.axes if a not in self.reduced])
        self.store = Store(task.out, task.write, task.value)
        self.walked = self._walked()
        self.plain = [a for a in self.outer if a.name in task.owned]
        self.asked = next((a for a in self.plain if a.lever == "parallel"), None)
        self.vector = self._vector_axis()
        self.factor, self.tile = 1, 1
        self.second: tuple[Axis, int] | None = None
        self.tiled = self._tile_axis()

    # --- weighing ---------------------------------------------------------------------------------

    def weight(self, a: Axis, known: Mapping[Load, float] | None = None) -> float:
        """Cost of an entry if the axis ``a`` runs in vector lanes; lower is better.

        known : cost of some reads, in place of the one that follows from their motion.
        """
        cost, known = MOTION_COST, known or {}
        total = 0.5 + sum(
            known.get(x, cost[motion(x, a.name, self.task.lets)]) / self.terms(x) for x in self.task.loads
        )
        if a in self.outer:
            total += cost[motion(self.store, a.name)] / (16 if self.task.reduces else 1)
        else:
            total += 1.5  # lanes must be combined at the end
        extent = self.walked.get(a, a.typical_extent)
        lane_share = 1.0 if is_infinite(extent) else extent / (-(-extent // LANES) * LANES or 1)
        return total / max(lane_share, 1e-3)

    def _walked(self) -> dict[Axis, float]:
        """Loops of the walk that could run in lanes, as axes, each with its largest number of iterations.

        These are innermost loops along which every read is contiguous or stands still.
        """
        task, loops = self.task, dict[Axis, float]()

        def look(s: Stmt, around: Scope) -> None:
            if isinstance(s, Loop):
                innermost = all(isinstance(x, Point) for x in s.body)
                even = all(motion(x, s.var, task.lets) < 2 for x in task.loads)
                if innermost and even and s.step == 1 and not s.mark and not is_short(s, around):
                    loops[Axis(s.var, s.lower, s.upper, label=s.label)] = most_iterations(s, around)
                around = replace(around, loops=(*around.loops, s))
            if isinstance(s, (Loop, If)):
                for x in s.body:
                    look(x, around)

        for s in task.walk or ():
            look(s, _scope(task))
        return loops

    def terms(self, x: Load) -> int:
        """Number of terms of an entry that share one read ``x`` outside of their loops; 1 to `LANES`."""
        fixed_axes = [a for a in self.reduced if motion(x, a.name, self.task.lets) == 0]
        if not self.reduced or len(fixed_axes) < len(self.reduced) or self.task.walk is not None:
            return 1
        return max(1, integer(min(prod(a.typical_extent for a in fixed_axes), LANES)))

    def _vector_axis(self) -> Axis | None:
        """The axis to run in vector lanes: the one with the least `weight`.

        None if no axis can, or if no access would be contiguous.
        """
        walk = self.task.walk
        even = [
            a
            for a in self.outer
            if not ends_by_data(walk, a.name)
            and (a in self.plain or self.task.combine == "assign")
            and motion(self.store, a.name)
        ]
        candidates = [*even, *(self.reduced if self.task.combine != "assign" else ()), *self.walked]
        usable = [a for a in candidates if a.typical_extent > 1 and a.lever != "unroll"]
        usable = [a for a in usable if a is not self.asked] or usable
        best = min(usable, key=lambda a: (self.weight(a), motion(self.store, a.name) != 1), default=None)
        if best is not None and not self.task.reduces and self._only_scattered(best):
            return None
        return best

    def _only_scattered(self, a: Axis) -> bool:
        """True if no access with the axis in lanes would be contiguous: then memory order is better."""
        accesses: tuple[Load | Store, ...] = (self.store, *self.task.loads)
        return all(motion(x, a.name, self.task.lets) in (0, 2) for x in accesses)

    def _tile_axis(self) -> Axis | None:
        """The axis to tile: the one whose iterations share the most reads; None if none is worth it.

        Sets ``factor`` (vectors at a time), ``tile`` (iterations of a tile) and ``second``, another axis to
        tile.
        """
        v, task = self.vector, self.task
        if not task.reduces or v is None or task.combine.startswith("arg"):
            self.factor = 4 if v in self.reduced and not task.combine.startswith("arg") else 2
            return self._transposing_axis()

        def shared(a: Axis) -> float:
            still = [x for x in task.loads if not motion(x, a.name, task.lets)]
            return sum(1.0 if motion(x, v.name, task.lets) else 0.4 for x in still)

        choices = [
            a
            for a in self.plain
            if a is not v and a.typical_extent > 1 and not moves_walk(task.walk, a.name) and not a.lever
        ]

        def steps(a: Axis) -> float:
            return sum(MOTION_COST[motion(x, a.name, task.lets)] for x in task.loads)

        choices.sort(key=lambda a: (-shared(a), -min(a.typical_extent, TILE), steps(a)))
        best = choices[0] if choices else None
        if v in self.reduced or v in self.walked:
            self.factor = 2 if best else 4
            self.tile = 4
            if len(choices) > 1 and shared(choices[1]) > 0:
                self.factor = 1
                self.second = (choices[1], _divisor(choices[1].typical_extent, 4))
        else:
            self.factor = 2 if v.typical_extent > LANES else 1
            self.tile = self._rows(TILE if self.factor == 2 else 12)
        if best is None or shared(best) == 0:
            strided = any(motion(x, v.name, task.lets) == 3 for x in task.loads)
            self.factor, self.tile = 4, STRIDED if strided else 1
            return None
        extent = best.typical_extent
        if extent < inf:
            size = _divisor(extent, self.tile)
            if extent < LONG * size and extent % size and v in self.outer:
                size = _divisor(extent, self._rows(12))
            self.tile = size
        return best

    def _rows(self, limit: int) -> int:
        """Rows of a register tile: as many as have registers for their sums, beside those of the factors."""
        return min(limit, (host().registers - FACTORS) // self.factor)

    def _transposing_axis(self) -> Axis | None:
        """The axis along which an access is contiguous that the lanes scatter; None if there is none.

        Tiles read and write each line of such memory as a whole before it leaves the cache. Without them a
        transposed matrix whose rows are a power of two apart is read from a further cache at every entry.
        Sets ``factor`` and ``tile``.
        """
        task, v = self.task, self.vector
        if task.reduces or task.walk is not None or v is None or v not in self.outer:
            return None
        accesses: tuple[Load | Store, ...] = (self.store, *task.loads)
        scattered = [x for x in accesses if motion(x, v.name, task.lets) == 2]
        for a in self.plain:
            long = a is not v and not a.lever and a.typical_extent >= TRANSPOSED
            if long and any(motion(x, a.name, task.lets) == 1 for x in scattered):
                self.factor, self.tile = 1, TRANSPOSED
                return a
        return None

    # --- building ---------------------------------------------------------------------------------

    def phase(self) -> Stmt:
        """The nest that the choices make."""
        v, t = self.vector, self.tiled
        remaining = [a for a in self.outer if a is not v and a is not t]
        body = self._inside()
        if self.second is not None:
            a, size = self.second
            remaining = [x for x in remaining if x is not a]
            body = (a.loop(body, "tile", size),)
        if t is not None:
            split = not self._has_own(remaining) and t in self.plain
            if split:
                return self._split(t, self.tile, remaining, body, "tile", self.tile)
            body = (t.loop(body, "tile", self.tile),)
        if v is not None and v in self.outer:
            vector_loop = self._lanes(v, body)
            if not self._has_own(remaining) and t is None and _wide(v):
                if remaining and self._is_small(remaining, vector_loop) and v is not self.asked:
                    return Loop("once", Const(0), Const(1), _loops(remaining, vector_loop))
                size = _share(v.typical_extent) if remaining else _block(v.typical_extent)
                return self._split(v, size, remaining, body, "vector", self.factor)
            body = vector_loop
        return self._rewrap(remaining, body)

    def _lanes(self, v: Axis, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The loop over the axis in lanes; or three, where guards hold for all lanes but in its ends.

        Vectors of four lanes, one at a time:
        for i < n: for j < 3: x += A[i - j] if i >= j                     ->
        for i < 4: for j < 3: x += A[i - j] if i >= j;   for 4 <= i < n: for j < 3: x += A[i - j]
        """
        loop = v.loop(body, "vector", self.factor)
        low, high = affine(v.lower, Scope()), affine(v.upper, Scope())
        points = prod(a.typical_extent for a in self.task.axes)
        if points < ENDS or not self.task.reduces or low.terms or high.terms or is_symbolic(v.extent):
            return (loop,)
        first, last, group = low.const, high.const, width(loop, host().vector_bytes) * self.factor
        holding = _holding(self.task, v, first, last)
        for begin, end in holding.values():
            first, last = max(first, begin), min(last, end)
        start = low.const + -(-(first - low.const) // group) * group
        stop = high.const if last == high.const else start + max(last - start, 0) // group * group
        if not holding or stop - start < group:
            return (loop,)
        pieces = [(a, b) for a, b in pairwise((low.const, start, stop, high.const)) if a < b]
        surely = [{c for c, (begin, end) in holding.items() if begin <= a and b <= end} for a, b in pieces]
        return tuple(
            replace(loop, lower=Const(a), upper=Const(b), body=_without(body, conditions))
            for (a, b), conditions in zip(pieces, surely, strict=True)
        )

    def _has_own(self, axes: list[Axis]) -> bool:
        """True if one of the axes is for the threads: it has enough iterations, or a user asks for it."""
        return any(a in self.plain and (_wide(a) or a is self.asked) for a in axes)

    def _is_small(self, axes: list[Axis], body: tuple[Stmt, ...]) -> bool:
        """True if a scatter is surely too little work for threads: each would read the addresses anew."""
        is_constant = all(a.extent is not None for a in self.task.axes) and self.task.walk is None
        scatters = any(a not in self.plain for a in axes)
        work = sum(cost(s, {}) for s in _loops(axes, body)) if is_constant and scatters else inf
        return typical(work) < WORTH_THREADS

    def _split(
        self, a: Axis, size: int, remaining: list[Axis], body: tuple[Stmt, ...], mark: str, factor: int
    ) -> Stmt:
        """A loop for threads over blocks of an axis, and in a block the axis' own loop around ``body``.

        size : iterations of a block.
        remaining : axes whose loops stand between the two.
        mark, factor : of the axis' own loop.
        """
        start = block_of(a.name)
        end: Expr = Apply("add", (Var(start), Const(size)), INT64)
        extent = None if is_symbolic(a.extent) else a.extent
        if extent is None or extent % size:
            end = Apply("minimum", (end, a.upper), INT64)
        begin: Expr = Var(start)
        if extent is not None and extent <= size:
            begin, end = a.lower, a.upper  # one block, of a known number of iterations: no code for others
        v = self.vector
        body = (replace(a, lower=begin, upper=end).loop(body, mark, factor),)
        if v is not None and v in self.outer and v is not a:
            body = self._lanes(v, body)
        how = ASKED if a is self.asked else 1
        blocks = replace(a, name=start).loop(_loops(remaining, body), "parallel", how)
        return replace(blocks, step=size)

    def _rewrap(self, remaining: list[Axis], body: tuple[Stmt, ...]) -> Stmt:
        """A phase of the remaining loops around ``body``, outermost one whose iterations share no entries.

        If there is none, stores that combine are marked as shared, or one thread runs all of it.
        """
        first = max((a for a in remaining if a in self.plain), key=_reach, default=None)
        if not self.task.reduces:  # the first with work for all threads: each then writes one stretch
            enough = 4 * available()
            large = (a for a in remaining if a in self.plain and a.typical_extent >= enough)
            first = next(large, first)
        first = next((a for a in remaining if a is self.asked), first)
        if first is None and not self.task.owned and self.task.combine == "assign" and remaining:
            first = remaining[0]
        shared_axis = None
        if first is None and self.task.combine in COMMUTING and remaining:
            shared_axis = next((a for a in remaining if a.lever == "parallel"), remaining[0])
        lead = first or shared_axis
        body = _loops([a for a in remaining if a is not lead], body)
        if lead is None:
            return Loop("once", Const(0), Const(1), body)
        if shared_axis is not None:
            body = with_shared(body)
        how = ASKED if lead.lever == "parallel" else 1
        return lead.loop(body, "parallel", how)

    def _inside(self) -> tuple[Stmt, ...]:
        """Statements for one entry of the output (or, in a scatter, for one point)."""
        task = self.task
        how = "assign" if task.fresh else task.combine
        if task.position is not None:
            return self._inside_arg()
        if not task.reduces:
            body: tuple[Stmt, ...] = (*task.lets, Store(task.out, task.write, task.value, how))
            return self._reduction(_guarded(task.where, body))
        dtype = task.out.dtype
        outer, inner = self._guards()
        update: tuple[Stmt, ...] = (*task.lets, Update("acc", task.combine, task.value))
        body = (
            Declare("acc", dtype, Const(identity(task.combine, dtype), dtype)),
            *self._reduction(_guarded(inner, update)),
            Store(task.out, task.write, Local("acc", dtype), how),
        )
        return _guarded(outer, body)

    def _in_lanes(self, s: Stmt) -> Stmt:
        """The walk ``s`` with a "vector" mark on the loop that was chosen for the lanes.

        If its bounds are data, it takes one vector at a time: such rows are short as a rule.
        """
        if isinstance(s, Loop) and self.vector in self.walked and s.var == self.vector.name:
            by_data = any(isinstance(x, Load) for e in (s.lower, s.upper) for x in subexpressions(e))
            return replace(s, mark="vector", factor=1 if by_data else self.factor)
        return replace(s, body=tuple(map(self._in_lanes, s.body))) if isinstance(s, (Loop, If)) else s

    def _guards(self) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """The guards to put around a reduction, and those to put inside it.

        Guards are put around it only if without them its store could be outside of the output.
        """
        if self.task.fresh or is_inside(self.store, _scope(self.task)):
            return (), self.task.where
        return _guards(self.task)

    def _inside_arg(self) -> tuple[Stmt, ...]:
        """Statements for one entry of an argmax or argmin; the stored position is -1 if it has no terms."""
        task = self.task
        assert task.position is not None
        dtype, kind = task.value.dtype, self._position_dtype()
        position = task.position if kind == INT64 else Cast(task.position, kind)
        update = UpdateArg("best", "at", task.combine, task.value, position)
        place = position_in(Local("at", kind))
        value = () if task.best is None else (Store(task.best, task.write, Local("best", dtype)),)
        outer, inner = self._guards()
        body = (
            Declare("best", dtype, Const(identity(task.combine, dtype), dtype)),
            Declare("at", kind, no_position(kind)),
            *self._reduction(_guarded(inner, (*task.lets, update))),
            Store(task.out, task.write, place if kind == INT64 else Cast(place, INT64)),
            *value,
        )
        return _guarded(outer, body)

    def _position_dtype(self) -> DType:
        """Dtype of positions in registers: as wide as the values they belong to, if that is enough."""
        points = prod(2**31 if a.extent is None else a.extent for a in self.reduced)
        narrow = self.task.value.dtype.itemsize <= 4 and self.task.walk is None and points < 2**31
        return np.dtype("int32") if narrow else INT64

    def _reduction(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The reduction loops around ``body``: the vector's innermost, small constant ones written out."""
        if self.task.walk is not None:
            return along(tuple(map(self._in_lanes, self.task.walk)), body)
        v = self.vector
        axes = [a for a in self.reduced if a is not v]
        points = prod(a.typical_extent for a in self.reduced)
        budget = (WRITTEN if points > MANY else ALL_WRITTEN) // (self.factor * self.tile)
        if v in self.reduced and v is not None:
            body = (v.loop(body, "vector", self.factor),)
            budget = 1
        for a in reversed(axes):
            extent = a.extent
            small = extent is not None and (1 < extent <= min(budget, 8) or _is_asked(a))
            if small and extent is not None:
                budget //= max(extent, 1)
            else:
                budget = 1
            body = (a.loop(body, "unroll", _asked(a)) if small else a.loop(body),)
        return body


def ends_by_data(walk: tuple[Stmt, ...] | None, name: str) -> bool:
    """True if loops of a walk have data as bounds that differ along an axis: no work for its lanes."""
    loops = [s for s in statements(walk or ()) if isinstance(s, Loop)]
    bounds = [e for s in loops for e in (s.lower, s.upper) if depends(e, {name})]
    return any(isinstance(x, Load) for e in bounds for x in subexpressions(e))


def _loops(axes: Sequence[Axis], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Loops around a body, the first axis outermost; the innermost are written out if they are short."""
    budget = 1 if any(isinstance(s, Loop) for s in statements(body)) else SHORT
    for a in reversed(axes):
        n = a.extent
        budget = budget // n if n else 0
        unroll = (budget and n != 1) or _is_asked(a)
        body = (a.loop(body, "unroll", _asked(a)) if unroll else a.loop(body),)
    return body


def _is_asked(a: Axis) -> bool:
    """True if a user asks to have the loop over an axis written out, and it is short enough."""
    return a.lever == "unroll" and a.extent is not None and a.extent <= MOST_WRITTEN


def _asked(a: Axis) -> int:
    """Factor of the loop over an axis that is written out."""
    return ASKED if _is_asked(a) else 1


def is_written_out(s: Loop) -> bool:
    """True if a loop is short enough to be written out where a user asks for it."""
    count = constant_extent(s)
    return count is not None and count <= MOST_WRITTEN


def unrolled(s: Stmt, levers: Mapping[str, str]) -> Stmt:
    """The walk with "unroll" marks on the loops that a user asks to have written out and that are short.

    levers : the user's requests, by loop variable.
    """

    def marked(x: Stmt) -> Stmt:
        unroll = isinstance(x, Loop) and levers.get(x.var) == "unroll" and is_written_out(x)
        return replace(x, mark="unroll", factor=ASKED) if unroll else x  # type: ignore[arg-type]

    return rewritten(s, marked)


def along(walk: tuple[Stmt, ...], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The walk with ``body`` in place of each of its points, which must give no values to axes."""
    result: list[Stmt] = []
    for s in walk:
        if isinstance(s, Point):
            result += body
        elif isinstance(s, (Loop, If)):
            result.append(replace(s, body=along(s.body, body)))
    return tuple(result)


def moves_walk(walk: tuple[Stmt, ...] | None, name: str) -> bool:
    """True if a walk's bounds or guards depend on an axis."""
    return any(depends(e, {name}) for s in statements(walk or ()) for e in expressions(s))


def _holding(task: Task, axis: Axis, low: int, high: int) -> dict[Expr, tuple[int, int]]:
    """For guards of a task, from where to where along an axis they hold at all values of the other axes."""
    other_axes = Scope(tuple(a.loop() for a in task.axes if a is not axis))
    holding: dict[Expr, tuple[int, int]] = {}
    for c in task.where:
        if not isinstance(c, Apply) or c.name not in NEGATED or c.args[0].dtype != INT64:
            continue
        form = difference(c.name, *(affine(x, other_axes) for x in c.args))
        factor = form.coefficient(Var(axis.name)) if form and c.name != "equal" else 0
        if form and abs(factor) == 1:
            least, _ = extremes(form.without(Var(axis.name)), other_axes, {})
            if not is_infinite(least):
                holding[c] = (integer(-least), high) if factor == 1 else (low, integer(least) + 1)
    return holding


def _without(body: tuple[Stmt, ...], conditions: set[Expr]) -> tuple[Stmt, ...]:
    """The statements, with what stands under these conditions in their place."""
    result: list[Stmt] = []
    for s in body:
        if isinstance(s, If) and s.condition in conditions:
            result += _without(s.body, conditions)
        elif isinstance(s, (Loop, If)):
            result.append(replace(s, body=_without(s.body, conditions)))
        else:
            result.append(s)
    return tuple(result)


def _guarded(where: tuple[Expr, ...], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    for condition in reversed(where):
        body = (If(condition, body),)
    return body


def with_shared(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The block with its stores that combine marked as shared between threads."""
    result: list[Stmt] = []
    for s in body:
        if isinstance(s, (Loop, If)):
            result.append(replace(s, body=with_shared(s.body)))
        elif isinstance(s, Store) and s.combine in COMMUTING:
            result.append(replace(s, shared=True))
        else:
            result.append(s)
    return tuple(result)


def _divisor(extent: float, limit: int) -> int:
    """The largest divisor that is at most ``limit`` and more than half of it, or ``limit`` itself.

    Of long axes it is the limit: what remains is a small part.
    """
    if extent <= limit:
        return integer(extent)
    if extent >= LONG * limit:
        return limit
    fits = [d for d in range(limit, limit // 2, -1) if extent % d == 0]
    return fits[0] if fits else limit


def _reach(a: Axis) -> float:
    return a.typical_extent if a.typical_extent == inf else min(a.typical_extent, 64)


def _wide(a: Axis) -> bool:
    """True if an axis has enough iterations to share among threads."""
    return a.typical_extent >= 8


def _share(extent: float) -> int:
    """Size of blocks of an axis, in whole vectors, so that each thread gets one block.

    For blocks with other loops inside, which run once for every block.
    """
    if extent == inf:
        return BLOCK
    return max(1, integer(-(-extent // (LANES * available())))) * LANES


def _block(extent: float) -> int:
    """Entries per turn of a thread: at most `BLOCK`, at least a few vectors."""
    if extent == inf:
        return BLOCK
    return min(BLOCK, max(1, integer(-(-extent // (16 * 4 * LANES)))) * 4 * LANES)
