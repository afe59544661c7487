"""Thread sharing: the phases, products and calls of a program that threads share, by what they cost."""

from __future__ import annotations

from math import prod

from iverson.codegen.execution.launch import iterations
from iverson.codegen.execution.routines import Loop as RoutineLoop
from iverson.codegen.nests.nodes import Loop, Stmt
from iverson.codegen.nests.phase_cost import cost, is_worth_threads
from iverson.codegen.programs.nodes import Call, Product
from iverson.codegen.schedule.parallel_scatter import shared
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


def is_shared_out(phase: Stmt) -> bool:
    """True if threads share a phase: they may, and it is long."""
    return may_share(phase) and bool(shared_flag(phase))


def shared_flag(phase: Stmt) -> int:
    """1 if it is worth it that threads share a phase which they may share, else 0.

    It is a number: of symbolic sizes it is a formula, and decides nothing.
    """
    is_long = lifted(lambda count, nanoseconds: int(count > 1 and is_worth_threads(phase, nanoseconds)))
    flag: int = is_long(iterations(phase, {}), cost(phase, {}))
    return flag


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


__all__ = ["is_shared_call", "is_shared_out", "may_share", "shared_flag", "sharing"]
