"""What compiling costs: exact loops for access patterns; gradients, second derivatives and chains of stages.

`python -m benchmarks --compile`. Nothing is remembered between measurements: isl is asked anew and the
cache of kernels is off. Derivatives are timed by the processor time of this process, the best of three.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any

from benchmarks.accesses import CASES, Case, gradients
from benchmarks.report import table
from iverson import te
from iverson.codegen.execution import object_code
from iverson.codegen.launches import compiled_kernel, compiled_program
from iverson.codegen.runtime import target
from iverson.te.elimination import exact_loops
from iverson.te.ir import integer_sets
from iverson.te.lowering import statement_lowering
from iverson.te.lowering.explanation import counts
from iverson.te.lowering.native_call import NativeCall

# --- exact loops -----------------------------------------------------------------


class Stopwatch:
    """Measures what a function of a module takes while it stands in for it."""

    def __init__(self, module: ModuleType, name: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.module, self.name, self.plain = module, name, getattr(module, name)
        self.milliseconds = 0.0
        setattr(module, name, self)

    def __call__(self, *args: object) -> object:
        start = self.clock()
        try:
            return self.plain(*args)
        finally:
            self.milliseconds += (self.clock() - start) * 1e3

    def restore(self) -> None:
        setattr(self.module, self.name, self.plain)


@dataclass(frozen=True)
class Measured:
    """Milliseconds for one case, isl asked anew: differentiation, elimination, isl's part of it."""

    case: Case
    differentiate: float
    eliminate: float
    isl: float
    points: int
    strategies: tuple[str, ...]


def measure(case: Case) -> Measured:
    """Time one case; nothing is remembered from earlier ones."""
    integer_sets.forget()
    start = time.perf_counter()
    program, wanted = gradients(case)
    made = time.perf_counter()
    watch = Stopwatch(exact_loops, "loops_of")
    try:
        found = te.eliminate(program)
    finally:
        watch.restore()
    done = time.perf_counter()
    mine = [s for s in found.statements if s.tensor in wanted]
    points = sum(counts(s).visited or 0 for s in mine)
    strategies = tuple(dict.fromkeys(s.strategy for s in mine))
    spent = (made - start) * 1e3, (done - made) * 1e3
    return Measured(case, *spent, watch.milliseconds, points, strategies)


def isl_table() -> str:
    """Per case: points visited, brute-force terms, milliseconds and what was chosen."""
    measure(CASES[2])  # the first use loads isl
    rows = []
    for case in CASES:
        best = min((measure(case) for _ in range(3)), key=lambda m: m.eliminate)
        spent = (best.differentiate, best.eliminate, best.isl)
        counted = (str(best.points), str(case.brute()))
        rows.append((case.name, *counted, *(f"{t:.1f}" for t in spent), ", ".join(best.strategies)))
    head = ("access", "points", "terms", "differentiate ms", "eliminate ms", "isl ms", "strategy")
    return table(head, rows)


# --- machine code ----------------------------------------------------------------

#: Processor seconds that gradients and second derivatives of a kernel may take, and a stage of a chain.
GRADIENT, SECOND, STAGE = 0.5, 2.0, 0.010
#: Stages of the chains.
CHAINS = (10, 25, 50, 100)
WORST, TRIES = 10, 3
PARTS = ("differentiate", "eliminate", "lower", "emit", "LLVM")


@dataclass(frozen=True)
class Compiled:
    """Processor seconds of the parts of compiling a program; its statements, and lines of LLVM's IR."""

    parts: tuple[float, ...]
    statements: int
    lines: int

    @property
    def total(self) -> float:
        return sum(self.parts)


def compiled(define: Callable[[], list[te.Tensor]]) -> Compiled:
    """Compile what is defined; nothing is remembered from earlier."""
    integer_sets.forget()
    statement_lowering.forget()
    compiled_kernel.forget()
    compiled_program.forget()
    watch = Stopwatch(object_code, "to_object", time.process_time)
    try:
        times = [time.process_time()]
        program = te.program_of(define())
        times.append(time.process_time())
        walked = te.eliminate(program)
        times.append(time.process_time())
        made = statement_lowering.lower(walked)
        times.append(time.process_time())
        calls = [call.compiled for call in made.calls() if isinstance(call, NativeCall)]
        times.append(time.process_time())
    finally:
        watch.restore()
    spent = [b - a for a, b in pairwise(times)]
    llvm = watch.milliseconds / 1e3
    lines = sum(call.text.count("\n") for call in calls)
    return Compiled((*spent[:3], spent[3] - llvm, llvm), len(walked.statements), lines)


def kernels() -> dict[str, Any]:
    """The corpus: kernels of libraries, papers, recurrences and scenes."""
    from tests.te import corpus, corpus_papers, corpus_recurrences, corpus_scenes  # noqa: F401

    return corpus.KERNELS


def derivatives(name: str, order: int) -> Callable[[], list[te.Tensor]]:
    """A kernel of the corpus with its gradients, or with those of the gradients, of all inputs."""

    def define() -> list[te.Tensor]:
        given, outputs, _ = kernels()[name].built()
        wanted = [t for t in given if t.dtype.kind == "f"]
        found = list(outputs)
        for k in range(order):
            heads = [te.placeholder(t.shape, t.dtype, f"head{k}_{n}") for n, t in enumerate(found)]
            found = list(te.differentiate(found, wanted, heads))
        return [*outputs, *found]

    return define


def chain(stages: int) -> Callable[[], list[te.Tensor]]:
    """So many stages, each a short stencil of the one before, with the gradient."""

    def define() -> list[te.Tensor]:
        x = te.placeholder((64,), name="x")
        t: te.Tensor = x
        for k in range(stages):
            t = te.compute((64,), lambda i, t=t: te.sin(t[i]) + 0.5 * t[te.clamp(i - 1, 0, 63)], f"t{k}")
        head = te.placeholder((64,), name="head")
        return [t, *te.differentiate(t, x, head)]

    return define


def best_of(define: Callable[[], list[te.Tensor]]) -> Compiled:
    return min((compiled(define) for _ in range(TRIES)), key=lambda c: c.total)


def order_table(order: int, limit: float) -> str:
    """The kernels whose derivatives take longest, part by part, and how many are above the limit."""
    found = sorted(((best_of(derivatives(n, order)), n) for n in kernels()), key=lambda f: -f[0].total)
    rows = [
        (n, f"{c.total:.2f}", *(f"{p:.2f}" for p in c.parts), str(c.statements), str(c.lines))
        for c, n in found[:WORST]
    ]
    above = sum(c.total > limit for c, _ in found)
    title = "gradients" if order == 1 else "second derivatives"
    head = (title, "s", *PARTS, "statements", "lines")
    return f"{table(head, rows)}\n{above} of {len(found)} above {limit:g} s"


def chain_table() -> str:
    """What a stage of a chain takes, with its gradient: the same, if compiling is linear."""
    rows = []
    for n in CHAINS:
        c = compiled(chain(n))
        rows.append((str(n), f"{c.total:.2f}", f"{1e3 * c.total / n:.1f}", *(f"{p:.2f}" for p in c.parts)))
    head = ("stages", "s", "ms a stage", *PARTS)
    return f"{table(head, rows)}\nat most {1e3 * STAGE:g} ms a stage"


def main() -> None:
    """Print all tables."""
    os.environ["IVERSON_CACHE"] = "off"
    target.target_machine(target.host())
    compiled(derivatives("matmul", 1))  # the first use loads isl
    print(isl_table(), end="\n\n", flush=True)
    for order, limit in ((1, GRADIENT), (2, SECOND)):
        print(order_table(order, limit), end="\n\n", flush=True)
    print(chain_table())


if __name__ == "__main__":
    main()
