"""Emission of loop nests as LLVM IR text: statements and loops, emitted for a list of points at once.

The points of a block are the iterations that run jammed: one for a plain loop, ``factor`` of them under a
tile, several vectors under a vector loop. Each statement is emitted for all points before the next, so
that a reduction inside a tile has one register per point and shares its loads (register tiling), and the
lanes of a vector loop may contain further loops (outer-loop vectorisation). Expressions and memory are in
`lane_evaluation` and `vector_access`, vector loops in `vector_loops`, questions about loops in
`codegen.nests.loop_facts`.

Entry points are ``void name(i64 first, i64 last, ptr arguments)``: one runs the iterations first to last of
a phase's parallel loop, or all of it where there is none. ``arguments`` holds the addresses of the buffers
that the phase uses, that of the record of faults (`codegen.nests.fault_reports`), then the sizes. Phases that
do the same to other buffers have one entry point: a chain of equal stages is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from iverson.codegen.emit import scalar_code, vector_access
from iverson.codegen.emit.lane_evaluation import Machine, Point, Slot
from iverson.codegen.emit.llvm_builder import (
    I8,
    I64,
    PTR,
    Builder,
    Value,
    as_type,
    function_text,
)
from iverson.codegen.emit.vector_loops import Points, Vectors
from iverson.codegen.nests import integer_bounds, loop_facts
from iverson.codegen.nests.access_checks import Plan
from iverson.codegen.nests.nodes import (
    INT64,
    Buffer,
    Declare,
    If,
    Kernel,
    Let,
    Loop,
    Stmt,
    Store,
    Update,
    UpdateArg,
    arguments_of,
    buffers_of,
    loads_and_stores,
)
from iverson.codegen.nests.print import phase_text
from iverson.codegen.runtime.target import Machine as Target
from iverson.codegen.schedule.row_tiling import parts, row_bytes
from iverson.core.errors import ArgumentError
from iverson.core.protocols import DType
from iverson.expr.function_facts import identity
from iverson.expr.symbolic_numbers import integer

#: Loops with bounds of each lane's own are written out if they can take at most this many values.
_WRITTEN_OUT = 5


#: The kind of phases that are parts of others (`row_tiling.parts`): rows at hand are given to them.
PART = "_part"
#: Of all functions.
ATTRIBUTES = 'nounwind "no-trapping-math"="true"'


class Works:
    """The functions of a module that do the work of phases: one for all that differ in their buffers only."""

    def __init__(self, prefix: str, target: Target, shared: Builder) -> None:
        self.prefix, self.target, self.shared = prefix, target, shared
        self.texts: list[str] = []
        self._names: dict[str, dict[object, str]] = {}
        self._entries: set[str] = set()

    def function(self, kernel: Kernel, k: int, plan: Plan, kind: str = "") -> str:
        """Name of the function that does the work of phase ``k``; it is made unless an equal phase has one.

        It is ``void name(first, last, buffers..., faults, sizes...)``, with the buffers that the phase uses.

        kind : a part of the name; phases of a kind are numbered by themselves.
        """
        names = self._names.setdefault(kind, {})
        key = _key(kernel, k, plan)
        name = names.get(key)
        if name is None:
            name = names[key] = f"{self.prefix}{kind}_{len(names)}"
            b = self.shared.nested()
            self.texts.append(_work_function(name, kernel, k, plan, self, b, kind))
        return name

    def share(self, kernel: Kernel, k: int, plan: Plan) -> str:
        """Name of the entry point of phase ``k``; it is made at the first use.

        It is ``void name(i64 first, i64 last, ptr arguments)``: it unpacks the arguments and calls the
        function that `function` makes.
        """
        work = self.function(kernel, k, plan)
        name = f"{work}_share"
        if name not in self._entries:
            self._entries.add(name)
            e = self.shared.nested()
            actual, arguments = ["i64 %first", "i64 %last"], Value(e, "%arguments", PTR)
            pointers = len(arguments_of(kernel, k)) + 1
            for n, type in enumerate([PTR] * pointers + [I64] * len(kernel.sizes)):
                item = e.element(arguments, I64, n)
                actual.append(f"{type} {e.load(item, type, 8).ref}")
            e.do(f"call void @{work}({', '.join(actual)})")
            e.do("ret void")
            self.texts.append(function_text(e, name, None, "i64 %first, i64 %last, ptr %arguments"))
        return name


def _key(kernel: Kernel, k: int, plan: Plan) -> object:
    """Key of a phase: equal for phases that one function serves."""
    by_row = [x.buffer.role == "row" for x in loads_and_stores(kernel.phases[k])]
    return phase_text(kernel, k), len(kernel.sizes), _outcome(kernel.phases[k], plan), tuple(by_row)


def _outcome(phase: Stmt, plan: Plan) -> tuple[object, ...]:
    """Plan for each index of the accesses of a phase, in order: whether it is clamped, and its test."""
    if not (plan.clamped or plan.tested):
        return ()
    places = [(id(x), axis) for x in loads_and_stores(phase) for axis in range(len(x.indices))]
    return tuple((p in plan.clamped, plan.tested.get(p)) for p in places)


def _work_function(name: str, kernel: Kernel, k: int, plan: Plan, works: Works, b: Builder, kind: str) -> str:
    """Text of the function that does a phase's work: its parameters can be ``noalias``.

    kind : `PART` for a phase that is a part of another one; else "".
    """
    phase = kernel.phases[k]
    b.flags = "contract "
    buffers = buffers_of(kernel, k) if kind == PART else arguments_of(kernel, k)
    pointers = {x.name: Value(b, f"%p{n}", PTR) for n, x in enumerate(buffers)}
    faults = Value(b, "%faults", PTR)
    sizes = {size: Value(b, f"%n{n}", I64) for n, size in enumerate(kernel.sizes)}
    emitter = _Emitter(Machine(b, pointers, sizes, faults, plan), works.target)
    if phase_parts := parts(phase):
        assert isinstance(phase, Loop)
        parts_kernel = replace(kernel, phases=tuple(p for p, _ in phase_parts))
        emitter.parts(
            phase,
            [x for x in kernel.buffers if x.role == "row"],
            [
                (works.function(parts_kernel, n, plan, PART), buffers_of(parts_kernel, n), size)
                for n, (_, size) in enumerate(phase_parts)
            ],
        )
    elif isinstance(phase, Loop) and phase.mark == "parallel":
        emitter.parallel(phase)
    else:
        emitter.block((phase,), [Point({})])
    b.do("ret void")
    formal = ["i64 %first", "i64 %last"]
    formal += [f"ptr noalias {p.ref}" for p in (*pointers.values(), faults)]
    formal += [f"i64 {n.ref}" for n in sizes.values()]
    text = function_text(b, name, None, ", ".join(formal))
    return text.replace("define void", "define internal void", 1).replace("#0 {", "#0 noinline {", 1)


class _Emitter:
    """Emitter of statements and loops into one builder."""

    def __init__(self, machine: Machine, target: Target) -> None:
        self.m, self.b, self.target = machine, machine.b, target
        self.scope = integer_bounds.Scope()

    def block(self, body: tuple[Stmt, ...], points: Points) -> None:
        for s in body:
            self.statement(s, points)

    def statement(self, s: Stmt, points: Points) -> None:
        """Emit a statement for each of the points; a Let or Declare adds its name to ``env`` of each."""
        if isinstance(s, Loop):
            self.loop(s, points)
        elif isinstance(s, If):
            self.branch(s, points)
        else:
            for p in points:
                if isinstance(s, Let):
                    lane = self.m.linear(s.value, p) if s.value.dtype == INT64 else None
                    p.env[s.name] = lane if lane and lane.step else self.m.value(s.value, p)
                elif isinstance(s, Declare):
                    type = as_type(s.dtype, p.lanes)
                    slot = Slot(self.b.variable(type), type, s.dtype)
                    self.b.put(slot.pointer, self.m.wide(s.value, p))
                    p.env[s.name] = slot
                elif isinstance(s, Update):
                    self.update(s, p)
                elif isinstance(s, UpdateArg):
                    self.update_arg(s, p)
                elif isinstance(s, Store):
                    self.store(s, p)

    # --- variables and memory ---------------------------------------------------------------------

    def slot(self, name: str, p: Point) -> Slot:
        slot = p.env[name]
        assert isinstance(slot, Slot)
        return slot

    def _keep(self, new: Value, old: Value, p: Point) -> Value:
        return new if p.mask is None or new.type.lanes == 1 else self.b.select(p.mask, new, old)

    def update(self, s: Update, p: Point) -> None:
        slot = self.slot(s.name, p)
        old = self.b.get(slot.pointer, slot.type)
        value = self.b.splat(self.m.value(s.value, p), slot.type.lanes)
        new = scalar_code.combine(self.b, s.combine, slot.dtype, old, value)
        self.b.put(slot.pointer, self._keep(new, old, p))

    def update_arg(self, s: UpdateArg, p: Point) -> None:
        best, at = self.slot(s.best, p), self.slot(s.at, p)
        lanes = best.type.lanes
        value = self.b.splat(self.m.value(s.value, p), lanes)
        position = self.b.splat(self.m.value(s.position, p), lanes)
        mask = p.mask if lanes > 1 else None
        self.challenge(s.combine, best, at, value, position, mask)

    def challenge(
        self, how: str, best: Slot, at: Slot, value: Value, position: Value, mask: Value | None
    ) -> None:
        """Put ``value`` and ``position`` in the variables ``best`` and ``at`` where the value is better.

        Of equally good values the one with the smaller position wins.

        how : "argmax" or "argmin".
        mask : the lanes that take part; None for all.
        """
        b = self.b
        old, where = b.get(best.pointer, best.type), b.get(at.pointer, at.type)
        wins, ties = scalar_code.better(b, how, best.dtype, old, value)
        wins = wins | (ties & (position < where))
        if mask is not None:
            wins = wins & mask
        b.put(best.pointer, b.select(wins, value, old))
        b.put(at.pointer, b.select(wins, position, where))

    def store(self, s: Store, p: Point) -> None:
        """Emit a Store at a point: to one entry per lane, or of all lanes combined to one entry."""
        b = self.b
        at = self.m.address(s, p)
        varies = at.coefficient != 0
        value = self.m.value(s.value, p)
        if not varies:
            if (
                at.mask is not None and at.mask.type.lanes > 1
            ):  # one place, by indices of which some are outside
                p = p.inner(at.mask if p.mask is None else at.mask & p.mask)
            value = self._over_lanes(s, value, p)
            self._one_entry(s, at, value)
            return
        value = b.splat(value, p.lanes)
        if s.combine != "assign":
            old = vector_access.read(b, at, value.type)
            value = scalar_code.combine(b, s.combine, s.buffer.dtype, old, value)
        vector_access.write(b, at, value)

    def _over_lanes(self, s: Store, value: Value, p: Point) -> Value:
        """Combined value of all lanes for one entry; of an assignment, the first lane's value."""
        if p.lanes == 1 or s.combine == "assign":
            return self.b.lane(value, 0)
        dtype = s.buffer.dtype
        value = self.b.splat(value, p.lanes)
        if p.mask is not None:
            nothing = self.b.const(identity(s.combine, dtype), value.type)
            value = self.b.select(p.mask, value, nothing)
        return self.across(value, s.combine, dtype)

    def across(self, value: Value, how: str, dtype: DType) -> Value:
        return vector_access.across(
            self.b,
            value,
            lambda x, y: scalar_code.combine(self.b, how, dtype, x, y),
        )

    def _one_entry(self, s: Store, at: vector_access.Address, value: Value) -> None:
        """Emit a Store of a scalar to one entry; under a mask, only if it holds in some lane."""
        b = self.b
        after, available = None, None
        if at.mask is not None:  # an address that could not be proven: only where it is inside
            inside, after = b.fresh("inside"), b.fresh("done")
            there = b.any(at.mask)
            available = b.known
            b.br_if(there, inside, after)
            b.start(inside, available)
        at = replace(at, mask=None)
        if s.combine != "assign":
            old = vector_access.read(b, at, as_type(s.buffer.dtype))
            value = scalar_code.combine(b, s.combine, s.buffer.dtype, old, value)
        vector_access.write(b, at, value)
        if after is not None:
            b.br(after)
            b.start(after, available)

    # --- control ----------------------------------------------------------------------------------

    def branch(self, s: If, points: Points) -> None:
        """Emit an If: as a mask if the condition differs between lanes, else as a branch.

        If it differs between points, each point gets a branch of its own.
        """
        conditions = [self.m.value(s.condition, p) for p in points]
        if any(c.type.lanes > 1 for c in conditions):
            inner = []
            for p, c in zip(points, conditions, strict=True):
                c = self.b.splat(c, p.lanes)
                inner.append(p.inner(c if p.mask is None else c & p.mask))
            self.block(s.body, inner)
            return
        if len({c.ref for c in conditions}) > 1:
            for p in points:
                self.branch(s, [p])
            return
        self.once(conditions[0], lambda: self.block(s.body, [p.inner() for p in points]))

    def once(self, condition: Value, body: Callable[[], None]) -> None:
        """Emit ``if condition``; ``body()`` emits what is inside."""
        b = self.b
        yes, after, available = b.fresh("then"), b.fresh("done"), b.known
        b.br_if(condition, yes, after)
        b.start(yes, available)
        body()
        b.br(after)
        b.start(after, available)

    def loop(self, s: Loop, points: Points) -> None:
        """Emit a loop; accumulators of a vector loop inside stay vectors for all of it where they may."""
        around, self.scope = self.scope, replace(self.scope, loops=(*self.scope.loops, s))
        plain = s.mark != "vector" and points[0].lanes == 1
        prepared = (
            [Vectors(self, v, inf) for v in loop_facts.carried(s, self.target.vector_bytes)] if plain else []
        )
        prepared = [v for v in prepared if not v.is_open(points)]
        inner = points
        for v in prepared:
            inner = v.open(inner)
        self.plain_loop(s, inner)
        for v in prepared:
            v.close(points, inner)
        self.scope = around

    def plain_loop(self, s: Loop, points: Points) -> None:
        """Emit a loop by its mark: in lanes, as tiles, written out, or counted.

        Points whose bounds differ get a loop each; lanes whose bounds differ are masked in one loop (`hull`).
        """
        lower = [self.m.value(s.lower, p) for p in points]
        upper = [self.m.value(s.upper, p) for p in points]
        if any(v.type.lanes > 1 for v in (*lower, *upper)):
            self.hull(s, lower, upper, points)
            return
        if len({v.ref for v in lower}) > 1 or len({v.ref for v in upper}) > 1:
            for p in points:
                self.plain_loop(s, [p])
            return
        scalar = points[0].lanes == 1
        if s.mark == "vector" and scalar and loop_facts.vectorizable(s):
            Vectors(self, s, self.limit(s)).emit(points, lower[0], upper[0])
        elif s.mark == "tile" and not loop_facts.accumulators(s):
            self.tile(s, lower[0], upper[0], points)
        elif s.mark == "unroll" and loop_facts.constant_extent(s) is not None:
            for k in range(loop_facts.constant_extent(s) or 0):
                value = lower[0] + k * s.step
                self.block(s.body, [p.inner(**{s.var: value}) for p in points])
        else:
            self.counted(
                lower[0],
                upper[0],
                s.step,
                lambda i: self.block(s.body, [p.inner(**{s.var: i}) for p in points]),
            )

    def hull(self, s: Loop, lower: list[Value], upper: list[Value], points: Points) -> None:
        """Emit a loop whose bounds differ between lanes: from the first to the last of any, lanes masked.

        An index that all lanes share moves evenly with the variable, so that it is inside between two
        places where it is; an index of a lane's own is used only where the lane takes part.
        """
        b = self.b
        if s.step != 1:
            raise ArgumentError("codegen", s.var, got="a step", expected="1 where lanes differ")
        lows = [b.splat(v, p.lanes) for v, p in zip(lower, points, strict=True)]
        highs = [b.splat(v, p.lanes) for v, p in zip(upper, points, strict=True)]
        first, last = self._extreme(lows, points, "min"), self._extreme(highs, points, "max")

        def body(i: Value, variable: Value) -> None:
            inner = []
            for p, low, high in zip(points, lows, highs, strict=True):
                at = b.splat(i, p.lanes)
                inside = (low <= at) & (at < high)
                inner.append(p.inner(inside if p.mask is None else inside & p.mask, **{s.var: variable}))
            self.block(s.body, inner)

        span = self._span(s)
        if span is None:
            self.counted(first, last, 1, lambda i: body(i, i))
            return
        # Few values in all: written out, so that their masks do not change inside outer loops.
        nonempty, after = b.fresh("some"), b.fresh("none")
        there = first < last
        available = b.known
        b.br_if(there, nonempty, after)
        b.start(nonempty, available)
        for k in range(*span):
            here = b.const(k, I64)
            body(here, b.larger(b.smaller(here, last - 1), first))
        b.br(after)
        b.start(after, available)

    def _span(self, s: Loop) -> tuple[int, int] | None:
        """Range of all values that a loop's variable can ever take: the first, and the one behind the last.

        None if the range is empty or has more than `_WRITTEN_OUT` values.
        """
        around = replace(self.scope, loops=self.scope.loops[:-1])
        low, high = integer_bounds.loop_extremes(s, around)
        return (int(low), int(high)) if 0 < high - low <= _WRITTEN_OUT else None

    def limit(self, s: Loop) -> float:
        """Largest number of iterations of the innermost loop of the scope; infinite if it is not known."""
        return loop_facts.most_iterations(s, replace(self.scope, loops=self.scope.loops[:-1]))

    def _extreme(self, values: list[Value], points: Points, how: str) -> Value:
        """Smallest (``how`` "min") or largest ("max") value in the lanes that exist."""
        nothing = 2**62 if how == "min" else -(2**62)
        total = None
        for v, p in zip(values, points, strict=True):
            if p.mask is not None:
                v = self.b.select(p.mask, v, self.b.const(nothing, v.type))
            total = v if total is None else self.b.intrinsic(f"s{how}", total, v)
        assert total is not None
        return self.b.call(f"llvm.vector.reduce.s{how}.{total.type.suffix}", I64, (total,))

    def counted(self, lower: Value, upper: Value, step: int, body: Callable[[Value], None]) -> None:
        """Emit ``for i in range(lower, upper, step)``; ``body(i)`` emits what is inside.

        One iteration gets no loop: LLVM takes as long for a loop as for fifty lines.
        """
        b = self.b
        if lower.const is not None and upper.const is not None and upper.const - lower.const <= step:
            if upper.const > lower.const:
                body(lower)
            return
        head, inside, after = b.fresh("head"), b.fresh("loop"), b.fresh("done")
        before, available = b.block, b.known
        b.br(head)
        b.start(head)
        i = b.emit(f"phi i64 [{lower.ref}, %{before}], [%{head}.next, %{head}.latch]", I64, pure=False)
        b.br_if(i < upper, inside, after)
        b.start(inside, available)
        body(i)
        b.br(f"{head}.latch")
        b.start(f"{head}.latch")
        b.do(f"%{head}.next = add nsw i64 {i.ref}, {step}")
        b.br(head)
        b.start(after, available)

    def tile(self, s: Loop, lower: Value, upper: Value, points: Points) -> None:
        """Emit a loop with ``factor`` iterations at once.

        The remaining iterations are jammed too if their number is constant; else they run one by one.
        """
        count = loop_facts.constant_extent(s)

        def jammed(start: Value, size: int) -> None:
            steps = [start + t * s.step for t in range(size)]
            self.block(s.body, [p.inner(**{s.var: v}) for p in points for v in steps])

        factor = integer(max(1, min(s.factor, self.limit(s) if count is None else count)))
        stride = factor * s.step
        if count is not None:
            full, remainder = divmod(count, factor)
            end = lower + full * stride
            if full == 1:
                jammed(lower, factor)
            elif full:
                self.counted(lower, end, stride, lambda i: jammed(i, factor))
            if remainder:
                jammed(end, remainder)
            return
        if factor == 1:
            self.counted(lower, upper, s.step, lambda i: jammed(i, 1))
            return
        # The last full group starts where factor - 1 further steps are still below upper.
        last = upper - (factor - 1) * s.step
        self.counted(lower, last, stride, lambda i: jammed(i, factor))
        groups = self.count_of(lower, last, stride)
        self.counted(lower + groups * stride, upper, s.step, lambda i: jammed(i, 1))

    def count_of(self, lower: Value, end: Value, stride: int) -> Value:
        """Number of iterations of range(lower, end, stride)."""
        b = self.b
        length = end - lower + (stride - 1)
        length = b.select(length > 0, length, b.const(0, I64))
        return b.emit(f"udiv i64 {length.ref}, {stride}", I64)

    def parallel(self, s: Loop) -> None:
        """Emit iterations %first to %last - 1 of the phase's loop."""
        b = self.b
        self.scope = replace(self.scope, loops=(s,))
        lower = self.m.value(s.lower, Point({}))
        first, last = Value(b, "%first", I64), Value(b, "%last", I64)
        self.counted(
            lower + first * s.step,
            lower + last * s.step,
            s.step,
            lambda i: self.block(s.body, [Point({s.var: i})]),
        )

    def parts(
        self, s: Loop, by_row: Sequence[Buffer], functions: Sequence[tuple[str, Sequence[Buffer], int]]
    ) -> None:
        """Emit iterations %first to %last - 1 of a loop over blocks of rows: calls of the parts' functions.

        by_row : buffers with memory for the rows of one block only. A function gets the address at which the
            whole array would begin if these rows were at their place in it.
        functions : of each part, the name of its function, its buffers, and its number of iterations per
            block.
        """
        b, m = self.b, self.m
        lower = m.value(s.lower, Point({}))
        count = m.value(s.upper, Point({})) - lower
        rows = {x.name: b.slot(I64, -(-row_bytes(x) * s.step // 8)) for x in by_row}

        def iteration(i: Value) -> None:
            begin = i * s.step
            end = b.intrinsic("smin", begin + s.step, count)
            here = {x.name: b.element(rows[x.name], I8, (begin + lower) * -row_bytes(x)) for x in by_row}
            pointers = {**m.pointers, **here}
            for name, buffers, size in functions:
                span = (i, i + 1) if size == 1 else (begin, end)
                arguments = (*span, *(pointers[x.name] for x in buffers), m.faults, *m.sizes.values())
                b.do(f"call void @{name}({', '.join(f'{x.type} {x.ref}' for x in arguments)})")

        self.counted(Value(b, "%first", I64), Value(b, "%last", I64), 1, iteration)
