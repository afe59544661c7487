"""Thread sharing: the phases, products and calls of a program that threads share, by what they cost.

Phases whose iterations may write the same entries become ones that threads can share where that pays
(`codegen.schedule.parallel_scatter`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from iverson.codegen.execution.routines import Loop as RoutineLoop
from iverson.codegen.nests.nodes import Buffer, Loop, Stmt, shape_at
from iverson.codegen.nests.phase_cost import cost, is_worth_threads, iterations
from iverson.codegen.programs.nodes import Branch, Call, Nest, Product, Program, Repeat, Step, whole
from iverson.codegen.schedule.parallel_scatter import shared, with_ways
from iverson.expr.symbolic_numbers import lifted

#: Multiply-adds from which a product is shared out: some 20 microseconds of a processor. Measured against
#: OpenBLAS's own threads (`make calibrate`, two threads at 2.5 GHz): not faster up to 1.7e7.
WORTH_THREADS = 2**20
#: Matrices of a batch from which they are the shares, and entries of a panel's edge that it has at least.
MATRICES, PANEL = 4, 32
#: Entries from which an elementwise function is shared among threads: some 20 microseconds of a processor.
WORTH_CALLS = 2**13


def may_share(phase: Stmt) -> bool:
    """True if threads may share a phase: no two of its iterations write one entry."""
    return isinstance(phase, Loop) and phase.mark == "parallel" and not shared(phase)


def is_shared_out(phase: Stmt, sizes: Mapping[str, int], threads: int | None = None) -> bool:
    """True if threads share a phase: they may, and it is long.

    threads : 1 if none is shared, more if all are that may be (default: those that are long).
    """
    return may_share(phase) and bool(shared_flag(phase, sizes, threads))


def shared_flag(phase: Stmt, sizes: Mapping[str, int], threads: int | None = None) -> int:
    """1 if threads share a phase which they may share, else 0.

    It is a number: of symbolic sizes it is a formula, and decides nothing. threads : as of `is_shared_out`.
    """
    if threads is not None:
        return int(threads > 1 and iterations(phase, sizes) > 1)
    is_long = lifted(lambda count, nanoseconds: int(count > 1 and is_worth_threads(phase, nanoseconds)))
    flag: int = is_long(iterations(phase, sizes), cost(phase, sizes))
    return flag


def with_shared_scatters(program: Program, threads: int | None = None) -> Program:
    """The program with long scatters in a way in which threads can share them.

    threads : as of `is_shared_out`.
    """
    copies: list[Buffer] = []

    def block(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(map(step, steps))

    def step(s: Step) -> Step:
        if isinstance(s, Repeat):
            return replace(s, body=block(s.body))
        if isinstance(s, Branch):
            return replace(s, then=block(s.then), other=block(s.other))
        if not isinstance(s, Nest) or not any(map(shared, s.kernel.phases)):
            return s
        kernel, buffers = with_ways(s.kernel, s.values, threads)
        of_nest = [
            Buffer(f"{b.name}.{len(copies) + k}", b.dtype, shape_at(b, s.values), "temp")
            for k, b in enumerate(buffers)
        ]
        copies.extend(of_nest)
        return Nest(kernel, (*s.views, *map(whole, of_nest)), s.sizes)

    steps = block(program.steps)
    return replace(program, steps=steps, buffers=(*program.buffers, *copies))


def sharing(s: Product) -> str:
    """Parts of a product that threads share: "matrices", "rows" or "columns"; "" if none share it."""
    (*batch, rows, columns), inner = s.out.shape, s.left.shape[-1]
    work = rows * columns * inner
    if work * prod(batch) < WORTH_THREADS:
        return ""
    if prod(batch) >= MATRICES:
        return "matrices"
    if work < WORTH_THREADS or max(rows, columns) < 2 * PANEL:
        return ""
    return "rows" if rows >= columns else "columns"


def is_shared_call(s: Call) -> bool:
    """True if threads share a call: of an elementwise function of many entries that lie in order."""
    is_elementwise = isinstance(s.routine, RoutineLoop) and not any(s.routine.cores)
    return is_elementwise and prod(s.batch) >= WORTH_CALLS and all(v.contiguous for v in s.views)


__all__ = ["is_shared_call", "is_shared_out", "may_share", "shared_flag", "sharing", "with_shared_scatters"]
