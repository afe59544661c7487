"""Loop rolling: steps that do the same at evenly spaced places, as of a Python loop, become one nest.

#0(x[0], y[0]); #0(x[20], y[20]); ...; #0(x[20 n], y[20 n])   ->   #1(x, y): for r in range(n): #0(x[r], y[r])
#0(x[0], s); #0(x[20], t); ...                                ->   the same; s, t, ... are rows of one temp

One step may be too short for threads to share; the nest is not, and its code is as long as that of one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from iverson.codegen.nests.nodes import (
    Buffer,
    Kernel,
    Load,
    Loop,
    Stmt,
    Store,
    Var,
    bound,
    mapped,
    rewritten,
    statements,
)
from iverson.codegen.nests.print import nameless_text
from iverson.codegen.programs.nodes import (
    Branch,
    Nest,
    Program,
    Repeat,
    Step,
    View,
    c_strides,
    extents,
    size,
    walk,
)
from iverson.codegen.programs.nodes import mapped as with_views
from iverson.codegen.programs.thread_sharing import is_shared_out
from iverson.codegen.schedule.loop_fusion import fresh
from iverson.expr.nodes import Const, Expr, changed

#: As few steps stay as they are.
FEW = 4


def rolled(program: Program) -> Program:
    """The program with runs of steps as loops, where steps do the same at evenly spaced places."""
    if sum(isinstance(s, Nest) for s in program.steps) < FEW and not any(
        isinstance(s, Repeat | Branch) for s in program.steps
    ):
        return program
    rolling = _Rolled(program)
    steps = rolling.block(program.steps)
    if rolling.count == 0:
        return program
    buffers = [b for b in program.buffers if b not in rolling.rows]
    buffers += dict.fromkeys(joint for joint, _ in rolling.rows.values())
    return replace(program, buffers=tuple(buffers), steps=tuple(with_views(s, rolling.moved) for s in steps))


class _Rolled:
    """The steps of a program, gone through in order.

    temps : buffers that may become rows of a joint buffer. rows : for each that did, the joint buffer and its
    row. count : the number of runs.
    """

    def __init__(self, program: Program) -> None:
        swapped = {b for s in walk(program.steps) if isinstance(s, Repeat) for pair in s.swaps for b in pair}
        self.temps = set(program.of("temp")) - swapped
        self.rows: dict[Buffer, tuple[Buffer, int]] = {}
        self.count = 0

    def moved(self, v: View) -> View:
        """A view of a temp as a view of the joint buffer, if the temp is a row of one."""
        if v.buffer not in self.rows:
            return v
        joint, row = self.rows[v.buffer]
        return replace(v, buffer=joint, offset=v.offset + row * size(v.buffer))

    def block(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """The steps with each run of nests as one nest where possible, also inside of loops and branches."""
        new_steps: list[Step] = []
        k = 0
        while k < len(steps):
            s = steps[k]
            k += 1
            if isinstance(s, Nest):
                run = self.run(steps, k - 1)
                rolled_run = self.nest(run) if len(run) >= FEW else None
                new_steps += run if rolled_run is None else [rolled_run]
                k += len(run) - 1
                continue
            if isinstance(s, Repeat):
                s = replace(s, body=self.block(s.body))
            elif isinstance(s, Branch):
                s = replace(s, then=self.block(s.then), other=self.block(s.other))
            new_steps.append(s)
        return tuple(new_steps)

    def run(self, steps: Sequence[Step], k: int) -> list[Nest]:
        """The nests from number ``k`` on that run the same kernel, at places that move by equal strides.

        The result has at least the nest ``k``.
        """
        nests: list[Nest] = []
        strides: list[int | None] = []
        for s in steps[k:]:
            if not isinstance(s, Nest) or (nests and not _is_like(nests[0], s)):
                break
            if nests:
                pairs = zip(map(self.moved, nests[-1].views), map(self.moved, s.views), strict=True)
                new_strides = [b.offset - a.offset if a.buffer == b.buffer else None for a, b in pairs]
                if strides and new_strides != strides:
                    break
                strides = new_strides
            nests.append(s)
        # What ends an uneven pair may begin a run.
        return nests[:1] if len(nests) == 2 else nests

    def nest(self, run: Sequence[Nest]) -> Nest | None:
        """A run as one step; None where one step may touch what another writes, where places do not lie
        evenly, and where threads share each."""
        kernel = run[0].kernel
        if not _is_plain(kernel) or any(is_shared_out(p, {}) for p in kernel.phases):
            return None
        views: list[View] = []
        rows: dict[Buffer, tuple[Buffer, int]] = {}
        for p, b in enumerate(kernel.buffers):
            run_views = [self.moved(s.views[p]) for s in run]
            apart = [v.buffer for v in run_views]
            if b.role == "out" and len(set(apart)) == len(run) and self.temps.issuperset(apart):
                if not all(v.whole for v in run_views):
                    return None
                like = apart[0]
                joint = Buffer(f"{like.name}_{len(run)}", like.dtype, (len(run), *extents(like)), "temp")
                rows |= {temp: (joint, n) for n, temp in enumerate(apart)}
                run_views = [replace(v, buffer=joint, offset=n * size(like)) for n, v in enumerate(run_views)]
            view = _stacked(run_views)
            if view is None or (b.role != "in" and (view is run_views[0] or not _is_injective(view))):
                return None
            views.append(view)
        for n, (b, v) in enumerate(zip(kernel.buffers, views, strict=True)):
            if b.role != "in" and any(_meet(v, x) for k, x in enumerate(views) if k != n):
                return None
        self.temps.difference_update(rows)
        self.rows |= rows
        self.count += 1
        moving = {
            b.name: v
            for b, v, s in zip(kernel.buffers, views, run[0].views, strict=True)
            if len(v.shape) > len(s.shape)
        }
        return Nest(_looped(kernel, moving, len(run)), tuple(views))


def _is_like(a: Nest, b: Nest) -> bool:
    if nameless_text(a.kernel) != nameless_text(b.kernel):
        return False
    pairs = zip(a.views, b.views, strict=True)
    return all((x.shape, x.strides, x.moves) == (y.shape, y.strides, y.moves) for x, y in pairs)


def _is_plain(kernel: Kernel) -> bool:
    """True if a kernel has no sizes, and no two iterations of its loops write one entry."""
    stores = [s for s in statements(kernel.phases) if isinstance(s, Store)]
    return not kernel.sizes and not any(s.shared for s in stores)


def _stacked(views: Sequence[View]) -> View | None:
    """One view that has the given views as its rows.

    The first view if all are the same; None if they are not at equal distances in one buffer.
    """
    first = views[0]
    by = {b.offset - a.offset for a, b in pairwise(views)}
    if len(by) != 1 or any(v.buffer != first.buffer for v in views):
        return None
    (step,) = by
    if step == 0:
        return first
    inner = c_strides(first.shape) if first.contiguous else first.strides
    return replace(first, shape=(len(views), *first.shape), strides=(step, *inner))


def _is_injective(v: View) -> bool:
    """True if no two entries of a view are the same entry of the buffer."""
    reach = 0
    for by, n in sorted((abs(s), n) for s, n in zip(v.strides, v.shape, strict=True) if n > 1):
        if by <= reach:
            return False
        reach += by * (n - 1)
    return True


def _meet(a: View, b: View) -> bool:
    """True if two views may have an entry in common."""
    if a.buffer != b.buffer or 0 in a.shape or 0 in b.shape:
        return False
    (low, high), (first, last) = a.reach, b.reach
    return a.moves != b.moves or (low <= last and first <= high)


def _looped(kernel: Kernel, moving: dict[str, View], count: int) -> Kernel:
    """Kernel that runs ``kernel`` ``count`` times, each time on another row of the buffers in ``moving``.

    moving : by buffer name, views whose first axis is that of the rows.
    """
    row = Var(fresh("row", {name for phase in kernel.phases for name in bound(phase)}))
    buffers = {
        b.name: replace(b, shape=v.shape, strides=None if v.contiguous else v.strides)
        if (v := moving.get(b.name))
        else b
        for b in kernel.buffers
    }

    def load(e: Expr) -> Expr:
        if not isinstance(e, Load):
            return e
        b = buffers[e.buffer.name]
        return Load(b, (row, *e.indices) if b.name in moving else e.indices)

    def store(s: Stmt) -> Stmt:
        if isinstance(s, Loop) and s.mark == "parallel":
            return replace(s, mark="", factor=1)
        if not isinstance(s, Store):
            return s
        b = buffers[s.buffer.name]
        return replace(s, buffer=b, indices=(row, *s.indices) if b.name in moving else s.indices)

    def phase(s: Stmt) -> Stmt:
        inner = rewritten(mapped(s, lambda e: changed(e, load)), store)
        return Loop(row.name, Const(0), Const(count), (inner,), mark="parallel")

    return Kernel(kernel.name, tuple(buffers.values()), tuple(map(phase, kernel.phases)))


__all__ = ["rolled"]
