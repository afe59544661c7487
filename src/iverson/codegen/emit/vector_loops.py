"""Vector loops: groups of whole vectors, then masked ones, with accumulators that live in lanes.

Statements inside are emitted by `nest_emission`; this module makes the points that they are emitted for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from iverson.codegen.emit import scalar_code, vector_access
from iverson.codegen.emit.lane_evaluation import Lane, Point, Slot, Wide
from iverson.codegen.emit.llvm_builder import I64, Builder, Type, Value, as_type
from iverson.codegen.nests import loop_facts, phase_cost
from iverson.codegen.nests.loop_facts import updated
from iverson.codegen.nests.nodes import Loop, Stmt, Update, UpdateArg
from iverson.codegen.runtime.target import Machine as Target
from iverson.expr.function_facts import identity
from iverson.expr.nodes import DType, Number
from iverson.expr.symbolic_numbers import integer

Points = list[Point]


class Emitter(Protocol):
    """Operations that a vector loop needs from the emitter of statements."""

    b: Builder
    target: Target

    def block(self, body: tuple[Stmt, ...], points: Points) -> None: ...
    def plain_loop(self, s: Loop, points: Points) -> None: ...
    def counted(self, lower: Value, upper: Value, step: int, body: Callable[[Value], None]) -> None: ...
    def once(self, condition: Value, body: Callable[[], None]) -> None: ...
    def count_of(self, lower: Value, end: Value, stride: int) -> Value: ...
    def slot(self, name: str, p: Point) -> Slot: ...
    def across(self, value: Value, how: str, dtype: DType) -> Value: ...
    def challenge(
        self, how: str, best: Slot, at: Slot, value: Value, position: Value, mask: Value | None
    ) -> None: ...


class Vectors:
    """A vector loop: groups of whole vectors, then masked ones; accumulators per lane, combined after."""

    def __init__(self, emitter: Emitter, s: Loop, limit: float) -> None:
        """``limit``: iterations at most; infinite if it is not known."""
        self.e, self.b, self.s, self.limit = emitter, emitter.b, s, limit
        self.lanes = loop_facts.width(s, emitter.target.vector_bytes)
        self.count = loop_facts.constant_extent(s)
        self.updates = loop_facts.accumulators(s)
        # A group is no longer than the loop ever is, of whole vectors where a remainder comes behind it.
        vectors = limit / self.lanes if self.count is None else -(-self.count // self.lanes)
        self.factor = integer(max(1, min(s.factor, vectors)))
        # In two passes at most LLVM leaves no loop, and computes outside what does not vary further out.
        if (self.count is None or vectors > 2 * s.factor) and not self.updates and phase_cost.is_long(s.body):
            self.factor = 1

    def emit(self, points: Points, lower: Value, upper: Value) -> None:
        """Emit the loop for these points.

        Accumulators that are not vectors yet are vectors during the loop, and combined after it.
        """
        self.lower, self.upper = lower, upper
        if self.lanes == 1:
            self.e.plain_loop(replace(self.s, mark=""), points)
            return
        already_open = self.is_open(points)
        inner = points if already_open else self.open(points)
        # The points of a group: for each outer point, `factor` vectors with accumulators of their own.
        self.outer = [(p, k) for p in inner for k in range(self.factor)]
        self._groups()
        if not already_open:
            self.close(points, inner)

    def is_open(self, points: Points) -> bool:
        """True if the accumulators already are vectors, of a loop further out."""
        return any(isinstance(points[0].env.get(updated(u)), Wide) for u in self.updates)

    def open(self, points: Points) -> Points:
        """Copies of the points at which the accumulators are new vectors, which start at the identity."""
        return [self._open_point(p) for p in points]

    def _open_point(self, p: Point) -> Point:
        names = dict(w for u in self.updates for w in self._slots(u, p))
        return Point({**p.env, **names}, p.lanes, p.mask)

    def close(self, points: Points, inner: Points) -> None:
        """Combine the vectors of ``inner`` into the variables of ``points``."""
        for p, q in zip(points, inner, strict=True):
            for u in self.updates:
                self._finish(u, p, q)

    def _groups(self) -> None:
        """Emit groups of ``factor`` vectors, then the remaining ones; the last is masked if not full."""
        b, s, span = self.b, self.s, self.lanes * self.s.step
        group = span * self.factor
        if self.count is None:
            start = self.lower
            if self.limit >= self.lanes:
                last = self.upper - (group - s.step)
                self.e.counted(self.lower, last, group, lambda i: self._group(i, self.factor))
                start = self.lower + self.e.count_of(self.lower, last, group) * group
            with b.saving(self.limit >= self.lanes):
                if self.factor == 1 or self.limit <= self.lanes:
                    self.e.once(start < self.upper, lambda: self._group(start, 1, self._tail_mask(start)))
                else:
                    self.e.counted(start, self.upper, span, lambda i: self._group(i, 1, self._tail_mask(i)))
            return
        vectors, tail = divmod(self.count, self.lanes)
        full = vectors // self.factor
        if full == 1:
            self._group(self.lower, self.factor)
        elif full:
            end = self.lower + full * group
            self.e.counted(self.lower, end, group, lambda i: self._group(i, self.factor))
        start = self.lower + full * group
        remaining = vectors - full * self.factor + (1 if tail else 0)
        if remaining:
            mask = None
            if tail:
                bits = ", ".join(f"i1 {'true' if k < tail else 'false'}" for k in range(self.lanes))
                mask = Value(b, f"<{bits}>", Type("i1", self.lanes))
            with b.saving(full > 0):
                self._group(start, remaining, mask)

    def _tail_mask(self, i: Value) -> Value:
        """Mask of the lanes below ``upper``, if the first lane is at ``i``."""
        distance = self.upper - i
        return self.b.iota(self.lanes) * self.s.step < self.b.splat(distance, self.lanes)

    def _group(self, start: Value, size: int, mask: Value | None = None) -> None:
        """Emit the body for ``size`` vectors from ``start``; ``mask`` is that of the last of them."""
        points = []
        for p, k in self.outer:
            if k >= size:
                continue
            offset = self.b.const(k * self.lanes * self.s.step, I64)
            lane = Lane(start + offset, self.s.step)
            names: dict[str, Value | Lane | Slot | Wide] = {self.s.var: lane}
            names |= {n: w.copies[k] for n, w in p.env.items() if isinstance(w, Wide)}
            points.append(Point({**p.env, **names}, self.lanes, mask if k == size - 1 else None))
        self.e.block(self.s.body, points)

    # --- accumulators -----------------------------------------------------------------------------

    def _slots(self, u: Update | UpdateArg, p: Point) -> list[tuple[str, Wide]]:
        """Accumulators of ``u``: names, each with a new variable for each vector of a group.

        The variables start at the identity; the position of an UpdateArg starts at the largest integer.
        """
        if isinstance(u, Update):
            firsts = {u.name: identity(u.combine, self.e.slot(u.name, p).dtype)}
        else:
            best = self.e.slot(u.best, p).dtype
            last = np.iinfo(self.e.slot(u.at, p).dtype).max
            firsts = {u.best: identity(u.combine, best), u.at: last}
        return [(name, self._fresh(self.e.slot(name, p).dtype, v)) for name, v in firsts.items()]

    def _fresh(self, dtype: DType, first: Number) -> Wide:
        type = as_type(dtype, self.lanes)
        copies = tuple(Slot(self.b.variable(type), type, dtype) for _ in range(self.factor))
        for slot in copies:
            self.b.put(slot.pointer, self.b.const(first, type))
        return Wide(copies)

    def _finish(self, u: Update | UpdateArg, p: Point, q: Point) -> None:
        """Combine the vectors at ``q``, then their lanes, and the result with the variable at ``p``."""
        b = self.b

        def copies(name: str) -> list[Value]:
            accumulator = q.env[name]
            assert isinstance(accumulator, Wide)
            return [b.get(slot.pointer, slot.type) for slot in accumulator.copies]

        if isinstance(u, Update):
            slot = self.e.slot(u.name, p)
            first, *remaining = copies(u.name)
            for other in remaining:
                first = scalar_code.combine(b, u.combine, slot.dtype, first, other)
            total = self.e.across(first, u.combine, slot.dtype)
            old = b.get(slot.pointer, slot.type)
            b.put(slot.pointer, scalar_code.combine(b, u.combine, slot.dtype, old, total))
            return
        best, at = self.e.slot(u.best, p), self.e.slot(u.at, p)
        pairs = list(zip(copies(u.best), copies(u.at), strict=True))
        while len(pairs) > 1:
            pairs = [self._better(u, best.dtype, *pairs[:2]), *pairs[2:]]
        (pair,) = pairs
        while pair[0].type.lanes > 1:
            values, positions = (vector_access.halves(b, x) for x in pair)
            pair = self._better(u, best.dtype, (values[0], positions[0]), (values[1], positions[1]))
        self.e.challenge(u.combine, best, at, *pair, None)

    def _better(
        self, u: UpdateArg, dtype: DType, first: tuple[Value, Value], second: tuple[Value, Value]
    ) -> tuple[Value, Value]:
        """The better of two values with their positions; one that was never updated has the last position."""
        b = self.b
        wins, ties = scalar_code.better(b, u.combine, dtype, first[0], second[0])
        wins = wins | (ties & (second[1] < first[1]))
        return b.select(wins, second[0], first[0]), b.select(wins, second[1], first[1])
