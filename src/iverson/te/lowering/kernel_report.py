"""Kernel report of a program: the work and expected time of each kernel, as text.

It also lists the stages that are stored and those that are computed where they are read, the schedule hints
("levers") without effect, and the fallbacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from iverson.codegen.emit.scalar_code import INLINED
from iverson.codegen.execution.time_estimates import Expected, at_peak, expected
from iverson.codegen.launches import compile_kernel
from iverson.codegen.nests.nodes import Loop, Stmt, Store, statements
from iverson.codegen.nests.phase_cost import iterations
from iverson.codegen.runtime.machine_peak import Peak, peak
from iverson.codegen.schedule.row_tiling import parts
from iverson.codegen.schedule.visit_counts import size_of
from iverson.te.elimination.zero_elimination import is_symbolic
from iverson.te.ir.expressions import Var, typical
from iverson.te.ir.nodes import Program
from iverson.te.lowering.lowered_program import Fill, Interpreted, Lowered, Run, SomeProduct
from iverson.te.lowering.program_work import work
from iverson.te.lowering.statement_lowering import afresh
from iverson.te.rewrites.axis_blocks import bytes_of, in_blocks, is_large
from iverson.te.rewrites.inlining import choices

#: The share of peak below which a kernel is warned of.
LITTLE = 0.25
#: Part of the reason for a walk where isl was not asked (`zero_elimination`).
NO_ISL = "too much to ask isl"


def kernels_text(program: Program, visited: int | None) -> list[str]:
    """Lines on the kernels, stages, levers, fallbacks and blocks of a program with chosen walks.

    visited : the points that its statements visit, if they are counted.
    """
    code = afresh(program)
    if program.sizes:
        code = code.at({v: v.typical for v in code.program.sizes})
    lines = []
    for k, part in enumerate(_parts(code, peak()), 1):
        lines += [f"kernel {k}: {part[0]}", *part[1:]]
    if visited is not None:
        lines.append(f"program   {visited} points visited by statements, {work(code).points} by kernels")
    lines += [*_stages(program), *_levers(program, code)]
    return [*lines, *_fallbacks(program, code), *_blocks(program)]


def _blocks(program: Program) -> Iterator[str]:
    """Line on the blocks in which an op of this program runs, if its temporaries are large."""
    blocks = in_blocks(program) if is_large(program) else None
    if blocks is not None:
        places = blocks.places({v: v.typical for v in program.sizes})
        names = ", ".join(dict.fromkeys(v.name for v in blocks.axes.values()))
        yield (
            f"blocks    as an op, {places} places of {names} at a time, of {typical(blocks.extent)}: "
            f"{sum(map(bytes_of, blocks.stored)) >> 20} MiB of temporaries are never whole"
        )


def _parts(code: Lowered, p: Peak) -> Iterator[list[str]]:
    """Lines of text for each kernel; the first line has the names of its results.

    p : the peak performance of this machine.
    """
    sizes = {b.name: b for b in code.buffers.values()}
    labels = {name: b.label for name, b in sizes.items() if b.label}
    for step in code.steps:
        if isinstance(step, Run):
            for phase in step.kernel.phases:
                outputs = dict.fromkeys(s.buffer.label for s in statements((phase,)) if isinstance(s, Store))
                cost = expected(phase, code.values, p, labels)
                yield [
                    ", ".join(outputs),
                    *_numbers(cost, p),
                    f"  threads   {_threads(phase, cost, code)}",
                    *_rows(phase),
                    *_slow(cost),
                ]
        elif isinstance(step, Interpreted):
            tensor_names = ", ".join(dict.fromkeys(s.tensor.name for s in step.statements))
            yield [
                tensor_names,
                "  warning   below a quarter of peak: carried out by the interpreter, point by point",
            ]
        elif isinstance(step, Fill):
            traffic = size_of(sizes[step.name], code.values)
            best = at_peak(0, traffic, 8, p)
            yield [f"{step.label}, filled", *_numbers(Expected(0, traffic, 0, best, best, 1), p)]
        else:
            product = step.at(code.values) if isinstance(step, SomeProduct) else step
            product_work = work(Lowered(code.program, (product,), code.buffers))
            flops, out = 2 * product_work.points, product.out
            best = at_peak(product_work.points, product_work.bytes, out.dtype.itemsize, p)
            yield [
                f"{out.label}, a product of BLAS",
                *_numbers(Expected(product_work.points, product_work.bytes, flops, best, best, p.threads), p),
            ]


def _numbers(cost: Expected, p: Peak) -> list[str]:
    return [
        f"  work      {cost.points} points, {cost.bytes} bytes, {cost.flops} flops",
        f"  expected  {_time(cost.seconds)}, at peak {_time(cost.best)} ({p})",
    ]


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


def _threads(phase: Stmt, cost: Expected, code: Lowered) -> str:
    if not isinstance(phase, Loop) or iterations(phase, code.values) <= 1:
        return "1: no loop that several could share"
    if cost.threads == 1:
        return f"1: more would not pay over {phase.said}"
    return f"{cost.threads}, over {phase.said}{': te.parallel' if phase.factor > 1 else ''}"


def _rows(phase: Stmt) -> list[str]:
    """Line on the loops inside of a loop over blocks of rows; [] if the phase is no such loop."""
    loops = parts(phase)
    if not loops or not isinstance(phase, Loop):
        return []
    how = f"{phase.step} rows of {phase.said} at a time: what one makes of them the next reads in cache"
    return [f"  rows      {len(loops)} loops, {how}"]


def _slow(cost: Expected) -> list[str]:
    if cost.share >= LITTLE:
        return []
    return [f"  warning   {cost.share:.0%} of peak: {'; '.join(cost.slow) or 'more operations than bytes'}"]


def _stages(program: Program) -> Iterator[str]:
    for tensor, choice in choices(program)[1].items():
        yield f"stage {tensor.name}: {'recomputed' if choice.inlined else 'kept'}: {choice.why}"


def _levers(program: Program, code: Lowered) -> Iterator[str]:
    """Lines on those levers of axes that no loop obeys."""
    phases = tuple(p for s in code.steps if isinstance(s, Run) for p in s.kernel.phases)
    loops = [s for s in statements(phases) if isinstance(s, Loop)]
    effective_levers = {(s.mark, s.label) for s in loops if s.mark != "parallel" or s.factor > 1}
    axes: dict[Var, None] = dict.fromkeys(v for s in program.statements for v in s.domain.axes if v.lever)
    for v in axes:
        if (v.lever, v.name) not in effective_levers:
            yield f"lever te.{v.lever}({v.name}): not done, {_NOT_DONE[v.lever]}"


_NOT_DONE = {
    "unroll": "as no loop over it has a number of iterations up to 64",
    "parallel": "as no outermost loop over it writes entries of its own",
}


#: Elementary functions that are functions of a module, and not in the midst of it.
_CALLED = re.compile(r"@iverson_(\w+?)_(?:v\d+)?f(?:32|64)\(")


def _fallbacks(program: Program, code: Lowered) -> Iterator[str]:
    """Lines on simpler code that was used because better code would take too long to find."""
    for step in code.steps:
        if not isinstance(step, Run):
            continue
        stores = [s for s in statements(step.kernel.phases) if isinstance(s, Store)]
        outputs = ", ".join(dict.fromkeys(s.buffer.label for s in stores))
        compiled = compile_kernel(step.kernel).at(code.values)
        if names := ", ".join(dict.fromkeys(_CALLED.findall(compiled.text))):
            yield f"fallback {outputs}: {names} called after whole vectors, and from {INLINED + 1} times on"
    for s in program.statements:
        if NO_ISL in s.reason:
            yield f"fallback {s.tensor.name}: visits its own box, as there is {NO_ISL}"
        elif is_symbolic(s) and s.reason.startswith("sizes are not"):
            yield f"fallback {s.tensor.name}: visits its own box, as its sizes are not bound"
