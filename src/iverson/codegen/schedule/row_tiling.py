"""Row tiling: phases over the same rows become one loop over blocks of rows, which stay in cache.

    for i: for j: E[i, j] = f(x[i, j])                for r in range(0, n, 8):
    for i: acc = 0; for j: acc += E[i, j]; S[i] = acc   for i in r: r + 8: for j: E[i, j] = f(x[i, j])
    for i: for j: P[i, j] = E[i, j] / S[i]       ->     for i in r: r + 8: acc = 0; ...; S[i] = acc
                                                        for i in r: r + 8: for j: P[i, j] = E[i, j] / S[i]

It is done only if no row reads or writes what another one writes: a buffer that one phase writes and another
one touches has the row as its index on one axis. Threads share the rows once, not in each phase. In machine
code each part is a function of its own, as the phase was (`parts`, `codegen.emit.nest_emission`): every entry
is computed as before, to the bit, by loops that keep the registers to themselves.

A buffer that only these parts touch, row by row, needs memory for the rows of one block only (`held`): it
stays in cache, and no memory is written that nobody reads again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from math import inf, lcm, prod

from iverson.codegen.nests.loop_facts import constant_extent
from iverson.codegen.nests.nodes import (
    INT64,
    Buffer,
    Kernel,
    Loop,
    Stmt,
    Store,
    Var,
    block_of,
    bound,
    buffers_of,
    expressions,
    loads_and_stores,
    rewritten,
    statements,
    with_buffers,
)
from iverson.codegen.nests.phase_cost import cost, is_worth_threads
from iverson.codegen.schedule.loop_fusion import STATEMENTS, apart, fresh, shapes_in
from iverson.core.python.cached import cached_property
from iverson.expr.nodes import Apply, Const, Expr, same, subexpressions
from iverson.expr.symbolic_numbers import is_symbolic, pinned, typical

#: Rows of a block, if so many blocks are left for threads.
ROWS, BLOCKS = 8, 16
#: Bytes at most that each row reads anew: they are to stay in a cache from one row to the next.
COMMON = 2**17
#: Bytes of stack for the rows of a block that only its parts touch.
STACK = 2**16
#: An extent that a call gives.
TYPICAL = 64


def by_rows(phases: Sequence[Stmt]) -> list[Stmt]:
    """The phases, with those over the same rows as one where that changes no result."""
    groups: list[Rows] = []
    for phase in phases:
        new, place = Rows((phase,)), len(groups)
        for k in reversed(range(len(groups))):
            if groups[k].fits(new):
                place = k
                break
            if not groups[k].lets_pass(new):
                break
        groups[place : place + 1] = [groups[place].and_then(new) if place < len(groups) else new]
    k = 0
    while k + 1 < len(groups):
        if groups[k].fits(groups[k + 1]):
            groups[k : k + 2] = [groups[k].and_then(groups[k + 1])]
            k = max(k - 1, 0)
        else:
            k += 1
    return [g.phase() for g in groups]


def alike(first: Stmt, second: Stmt) -> bool:
    """True if two phases are loops for threads over the same rows."""
    return (
        isinstance(first, Loop)
        and isinstance(second, Loop)
        and first.mark == second.mark == "parallel"
        and same((first.lower, first.upper), (second.lower, second.upper))
    )


def parts(phase: Stmt) -> tuple[tuple[Loop, int], ...]:
    """The phases that a loop over blocks of rows stands for, each with its number of iterations per block.

    A part that does a row in an iteration is the phase that it was, with as many iterations as a block has
    rows; another part does a block in one iteration. The result is empty for other loops.
    """
    if not isinstance(phase, Loop) or phase.mark != "parallel" or len(phase.body) < 2:
        return ()
    loops = [[x for x in statements((s,)) if isinstance(x, Loop)] for s in phase.body]
    if not all(any(same((x.lower,), (Var(phase.var),)) for x in inner_loops) for inner_loops in loops):
        return ()
    pieces: list[tuple[Loop, int]] = []
    for s, inner_loops in zip(phase.body, loops, strict=True):
        is_row_loop = inner_loops[0] is s and s.mark == "" and same((s.lower,), (Var(phase.var),))
        if is_row_loop:
            full_loop = replace(inner_loops[0], lower=phase.lower, upper=phase.upper, mark="parallel")
            pieces.append((full_loop, phase.step))
        else:
            pieces.append((replace(phase, body=(s,)), 1))
    return tuple(pieces)


def held(phase: Stmt, names: Container[str]) -> frozenset[str]:
    """Names of arrays that need memory for the rows of a block only.

    Each of their rows is touched by its own iteration, and there is room for the rows on the stack.

    names : arrays to look at, which are written before they are read, and touched by this phase alone.
    """
    axes: dict[str, frozenset[int]] = {}
    buffers: dict[str, Buffer] = {}
    for loop, _ in parts(phase):
        part = _part(loop)
        if part is None:
            return frozenset()
        buffers |= {x.buffer.name: x.buffer for x in loads_and_stores(loop)}
        axes |= {n: part_axes & axes.get(n, part_axes) for n, part_axes in part.axes.items()}
    row_arrays, room = set(), STACK
    for n, b in buffers.items():
        if n in names and 0 in axes[n] and b.strides is None and all(isinstance(k, int) for k in b.shape[1:]):
            size = row_bytes(b) * phase.step  # type: ignore[union-attr]
            if size <= room:
                row_arrays.add(n)
                room -= size
    return frozenset(row_arrays)


def with_rows(kernel: Kernel, names: Container[str]) -> Kernel:
    """The kernel with the role "row" for arrays in ``names`` that need memory for a block's rows only."""
    touched = Counter(b.name for k in range(len(kernel.phases)) for b in buffers_of(kernel, k))
    alone = {n for n, count in touched.items() if count == 1 and n in names}
    row_arrays = frozenset[str]().union(*(held(p, alone) for p in kernel.phases))
    if not row_arrays:
        return kernel
    buffers = {b.name: replace(b, role="row") if b.name in row_arrays else b for b in kernel.buffers}
    phases = tuple(with_buffers(p, buffers) for p in kernel.phases)
    return replace(kernel, buffers=tuple(buffers.values()), phases=phases)


def row_bytes(b: Buffer) -> int:
    """Bytes of one row of an array whose other extents are known."""
    return prod(n for n in b.shape[1:] if isinstance(n, int)) * b.dtype.itemsize


@dataclass(frozen=True)
class _Part:
    """A phase by rows.

    phase : its loop over rows, or over blocks of them. row : the variable of rows. block : the loop over a
    block of rows, if there is one.
    """

    phase: Loop
    row: str
    block: Loop | None

    @cached_property
    def axes(self) -> dict[str, frozenset[int]]:
        """By buffer: the axes on which all of its accesses have the row as index."""
        axes_by_name: dict[str, frozenset[int]] = {}
        for x in loads_and_stores(self.phase):
            row_axes = frozenset(
                k for k, e in enumerate(x.indices) if isinstance(e, Var) and e.name == self.row
            )
            name = x.buffer.name
            axes_by_name[name] = axes_by_name[name] & row_axes if name in axes_by_name else row_axes
        return axes_by_name

    @cached_property
    def tile(self) -> int:
        """Number of rows that the part takes at a time; 1 if any number will do."""
        return self.phase.step if self.block is not None and self.block.mark == "tile" else 1

    def over(self, first: str, end: Expr) -> Stmt:
        """The part for the rows from ``first`` up to an end."""
        if self.block is None:
            return replace(self.phase, lower=Var(first), upper=end, mark="")

        def bounded(s: Stmt) -> Stmt:
            mine = isinstance(s, Loop) and s.var == self.row
            return replace(s, lower=Var(first), upper=end) if mine else s  # type: ignore[arg-type]

        (body,) = self.phase.body
        return rewritten(body, bounded)


def _part(phase: Stmt) -> _Part | None:
    """A phase by rows; None where it is something else, where a user asks for threads, and where several
    rows may write one entry."""
    if not isinstance(phase, Loop) or phase.mark != "parallel" or phase.factor > 1:
        return None
    if any(isinstance(s, Store) and s.shared for s in statements(phase.body)):
        return None
    if phase.step == 1:
        return _Part(phase, phase.var, None)
    inner = [s for s in statements(phase.body) if isinstance(s, Loop)]
    users = [s for s in statements(phase.body) for e in expressions(s) if _uses(e, phase.var)]
    if users:
        blocks = [s for s in inner if s.step == 1 and same((s.lower,), (Var(phase.var),))]
    else:  # one block, over all rows
        blocks = [s for s in inner if same((s.lower, s.upper), (phase.lower, phase.upper))]
        blocks = [s for s in blocks if block_of(s.var) == phase.var and s.step == 1]
    if len(blocks) != 1 or any(s is not blocks[0] for s in users) or len(phase.body) != 1:
        return None
    return _Part(phase, blocks[0].var, blocks[0])


def _uses(e: Expr, name: str) -> bool:
    return any(isinstance(x, Var) and x.name == name for x in subexpressions(e))


@dataclass(frozen=True)
class Rows:
    """Phases that one loop may stand for.

    halves : the two that they were put together from, whose facts are theirs; else they are one phase.
    """

    phases: tuple[Stmt, ...]
    halves: tuple[Rows, ...] = ()

    def and_then(self, other: Rows) -> Rows:
        return Rows((*self.phases, *other.phases), (self, other))

    @cached_property
    def parts(self) -> tuple[_Part, ...]:
        """The phases as parts by rows; empty if one of them is something else."""
        if self.halves:
            first, second = (x.parts for x in self.halves)
            return (*first, *second) if first and second else ()
        part = _part(self.phases[0])
        return () if part is None else (part,)

    @cached_property
    def stored(self) -> frozenset[str]:
        if self.halves:
            return self.halves[0].stored | self.halves[1].stored
        return frozenset(s.buffer.name for s in statements(self.phases) if isinstance(s, Store))

    @cached_property
    def touched(self) -> dict[str, Buffer]:
        if self.halves:
            return self.halves[0].touched | self.halves[1].touched
        return {x.buffer.name: x.buffer for x in loads_and_stores(self.phases[0])}

    @cached_property
    def shapes(self) -> dict[str, object]:
        """By buffer: how it is indexed."""
        if self.halves:
            return self.halves[0].shapes | self.halves[1].shapes
        return dict(shapes_in(self.phases[0]))

    @cached_property
    def axes(self) -> dict[str, frozenset[int]]:
        """By buffer: the axes on which all accesses have the row as index."""
        if not self.halves:
            return dict(self.parts[0].axes) if self.parts else {}
        first, second = (x.axes for x in self.halves)
        return first | {n: axes & first.get(n, axes) for n, axes in second.items()}

    @cached_property
    def count(self) -> int:
        """Number of statements."""
        return sum(x.count for x in self.halves) if self.halves else len(list(statements(self.phases)))

    def lets_pass(self, other: Rows) -> bool:
        """True if other phases may run before these."""
        return self.stored.isdisjoint(other.touched) and other.stored.isdisjoint(self.touched)

    def fits(self, other: Rows) -> bool:
        """True if other phases may run after these in each row, and read there what these have in cache."""
        if not self.parts or not other.parts:
            return False
        joint = self.and_then(other)
        common = self.touched.keys() & other.touched.keys()
        if not alike(self.phases[0], other.phases[0]) or not any(joint.axes[n] for n in common):
            return False
        if not all(joint.axes[n] for n in common & (self.stored | other.stored)):
            return False
        if any(self.shapes[n] != other.shapes[n] for n in common):
            return False
        if joint.blocks < min(max(self.blocks, other.blocks), BLOCKS) and joint.is_long:
            return False  # fewer threads would have a part in it
        anew = sum(_bytes(x) for n, x in joint.touched.items() if not joint.axes[n])
        return anew <= COMMON and joint.count <= STATEMENTS

    def phase(self) -> Stmt:
        """One loop for all of the phases."""
        if len(self.phases) == 1:
            return self.phases[0]
        first, size = self.parts[0], self.size
        name = fresh(
            block_of(first.row), {n for p in self.parts for s in p.phase.body for n in (p.row, *bound(s))}
        )
        end: Expr = Apply("add", (Var(name), Const(size)), INT64)
        if self.extent is None or is_symbolic(self.extent) or self.extent % size:
            end = Apply("minimum", (end, first.phase.upper), INT64)
        names_in_use = {name}
        body = apart([p.over(name, end) for p in self.parts], names_in_use)
        return replace(first.phase, var=name, body=body, step=size)

    @property
    def extent(self) -> int | None:
        """Number of rows, if it is known."""
        return constant_extent(replace(self.parts[0].phase, step=1))

    @cached_property
    def size(self) -> int:
        """Rows of a block."""
        if len(self.phases) == 1:
            return self.parts[0].phase.step
        if all(p.block is not None and p.tile == 1 for p in self.parts):
            return min(p.phase.step for p in self.parts)
        size = lcm(*(pinned(p.tile) for p in self.parts))
        while 2 * size <= ROWS and (self.blocks_of(2 * size) >= BLOCKS or not self.is_long):
            size *= 2
        extent = self.extent
        if extent is not None and not is_symbolic(extent) and 0 < extent <= 2 * ROWS and not self.is_long:
            return extent  # one block, of a known number of rows: there is no code for others
        return size

    @cached_property
    def is_long(self) -> bool:
        """True if the phases are work for threads: then blocks must be left for these."""
        if self.extent is None or any(x.is_long for x in self.halves):
            return True
        return not self.halves and is_worth_threads(self.phases[0], typical(cost(self.phases[0], {})))

    @property
    def blocks(self) -> float:
        """Number of blocks for threads; infinite if it is not known."""
        return self.blocks_of(self.size)

    def blocks_of(self, size: int) -> float:
        """Number of blocks of so many rows."""
        return inf if self.extent is None else typical(self.extent) / size


def _bytes(b: Buffer) -> int:
    return prod(n if isinstance(n, int) else TYPICAL for n in b.shape) * b.dtype.itemsize


__all__ = ["Rows", "alike", "by_rows", "held", "parts", "row_bytes", "with_rows"]
