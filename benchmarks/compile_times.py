"""What compiling costs: finding the exact loops of each access pattern, and machine code for each op.

`python -m benchmarks --compile`. Nothing is remembered between measurements: isl is asked anew and the
cache of kernels is off.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from benchmarks.accesses import CASES, Case, gradients
from benchmarks.expressions import HEAD, Op, define, floating
from benchmarks.report import table
from iverson import te
from iverson.codegen import kernel, target
from iverson.te import loops, lower, sets
from iverson.te.explain import counts

# --- exact loops -----------------------------------------------------------------


class Stopwatch:
    """Measures what a function of a module takes while it stands in for it."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self.module, self.name, self.plain = module, name, getattr(module, name)
        self.milliseconds = 0.0
        setattr(module, name, self)

    def __call__(self, *args: object) -> object:
        start = time.perf_counter()
        try:
            return self.plain(*args)
        finally:
            self.milliseconds += (time.perf_counter() - start) * 1e3

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
    sets.forget()
    start = time.perf_counter()
    program, wanted = gradients(case)
    made = time.perf_counter()
    watch = Stopwatch(loops, "loops_of")
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


def compile_op(op: Op, *, with_gradients: bool) -> tuple[float, float, float, int]:
    """Milliseconds for elimination, lowering cold and lowering again; and how many kernels that made."""
    inputs: dict[str, Any] = dict(op.make(op.sizes[0], _generator()))
    given, out = define(op, inputs)
    placeholders, results = list(given.values()), [out]
    start = time.perf_counter()
    if with_gradients:
        head = te.placeholder(out.shape, "float32", HEAD)
        results += te.differentiate(out, [given[name] for name in floating(inputs)], head)
        placeholders.append(head)
    program = te.eliminate(te.program_of(results, placeholders))
    kernel.forget()
    eliminated = time.perf_counter()
    made = lower.lower(program)
    cold = time.perf_counter()
    lower.lower(program)
    warm = time.perf_counter()
    kernels = sum(isinstance(step, lower.Run) for step in made.steps)
    return (eliminated - start) * 1e3, (cold - eliminated) * 1e3, (warm - cold) * 1e3, kernels


def _generator() -> Any:
    import numpy as np

    return np.random.default_rng(0)


def code_table(ops: tuple[Op, ...]) -> str:
    """Per op, forward and with gradients: what compiling its kernels takes."""
    os.environ["IVERSON_CACHE"] = "off"
    target.host()
    target.target_machine(target.host())
    rows = []
    for op in ops:
        for with_gradients in (False, True):
            eliminated, cold, warm, kernels = compile_op(op, with_gradients=with_gradients)
            name = f"{op.name}{'_gradients' if with_gradients else ''}"
            rows.append((name, str(kernels), f"{eliminated:.0f}", f"{cold:.0f}", f"{warm:.2f}"))
    return table(("op", "kernels", "eliminate ms", "compile ms, cold", "from memory"), rows)


def main() -> None:
    """Print both tables."""
    from benchmarks.workloads import te_dense, te_images, te_pairs

    print(isl_table(), end="\n\n", flush=True)
    print(code_table((*te_dense.OPS, *te_images.OPS, *te_pairs.OPS)))


if __name__ == "__main__":
    main()
