"""Thresholds of the cost model, measured again: from which amount of work the costlier start pays.

    python -m benchmarks.calibrate            measure all of `CROSSOVERS` on this machine
    python -m benchmarks.calibrate NAME ...   those whose name contains one of these words

A threshold chooses between two ways to one result: below it the plain one, from it on the one that has more
to start with. Each way is forced in a process of its own, where the threshold is infinite or 0 before
anything is compiled. The two processes run the same workload at growing sizes in turns. The result is the
range of amounts in which the ways cross, beside the threshold that the package has, with how much slower the
package's choice is where it loses most. Compiling is not counted: every call runs once before it is timed.

A weight of a cost function is measured like a threshold: its amount at a size is the weight at which the cost
function finds both ways equal there.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from iverson.te.ir.expressions import Expr
    from iverson.te.lowering.lowered_program import Lowered

#: Rounds in which both ways run at a size; seconds that a way runs in each.
ROUNDS, SECONDS = 5, 0.02
#: The threshold of a way that is never taken.
NEVER = 2**62

Call = Callable[[], object]


class Crossover(NamedTuple):
    """A threshold: its place in the package, its unit, and a workload with so much of the unit at size n.

    attribute : the constant; ``module`` the module in which it is defined.
    sizes : of the workload, in growing order, on both sides of the threshold.
    never : further constants of the module, whose ways are not taken.
    """

    module: str
    attribute: str
    unit: str
    amount: Callable[[int], float]
    workload: Callable[[int], Call]
    sizes: tuple[int, ...]
    never: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.module}.{self.attribute}"


class Result(NamedTuple):
    """What was measured of a crossover.

    low, high : amounts between which the ways cross; 0 or infinity where one is always faster.
    loss : how many times longer the package's choice takes than the other way, at the size where most.
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    loss: float


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def _elementwise(n: int) -> Call:
    import iverson as iv

    x = iv.asarray(_normal(n))
    return lambda: iv.tanh(x)


def _sparse_product(n: int) -> Call:
    import iverson as iv

    rows = n // 8
    columns = np.sort(np.random.default_rng(0).integers(0, rows, (rows, 8)), axis=1).ravel()
    places = np.stack([np.repeat(np.arange(rows), 8), columns])
    s = iv.sparse_coo_tensor(places, _normal(n), (rows, rows)).coalesce().to_layout("csr")
    b = iv.asarray(_normal(rows, 8))
    return lambda: s @ b


def _segments(n: int) -> Call:
    import iverson as iv

    segments = np.sort(np.random.default_rng(0).integers(0, max(n // 8, 1), n))
    x, count = iv.asarray(_normal(n)), max(n // 8, 1)
    return lambda: iv.nn.segment_softmax(x, segments, num_segments=count)


def _compiled_product(n: int) -> Call:
    import iverson as iv

    a, b = iv.asarray(_normal(n, n)), iv.asarray(_normal(n, n))
    f = iv.jit(lambda x, y: x @ y)
    return lambda: f(a, b)


def _phase(n: int) -> Call:
    import iverson as iv

    x = iv.asarray(_normal(n))
    f = iv.jit(lambda x: iv.tanh(x) * iv.exp(-x))
    return lambda: f(x)


def _te_product(n: int) -> Call:
    import iverson as iv
    from iverson import te

    @te.op
    def product(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, a.shape[1]))
        return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))

    a, b = iv.asarray(_normal(n, n)), iv.asarray(_normal(n, n))
    return lambda: product(a, b)


def _te_transposed(n: int) -> Call:
    import iverson as iv
    from iverson import te

    @te.op
    def distances(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, a.shape[1]))
        return te.compute((a.shape[0], b.shape[0]), lambda i, j: te.sum(te.abs(a[i, k] - b[j, k]), axis=k))

    a, b = iv.asarray(_normal(n, n)), iv.asarray(_normal(n, n))
    return lambda: distances(a, b)


def _scatter(count: int, entries: int, functions: int) -> Lowered:
    """Sums of functions of ``count`` numbers into ``entries``, at places that data gives."""
    from iverson import te
    from iverson.te.ir.nodes import program_of
    from iverson.te.lowering.statement_lowering import lower

    places = te.placeholder((count,), "int32", "places")
    x = te.placeholder((count,), "float64", "x")

    def term(e: Expr) -> tuple[Expr, Expr]:
        value = x[e]
        for _ in range(functions):
            value = te.exp(-value)
        return places[e], value

    return lower(program_of([te.scatter((entries,), (count,), term)], (places, x)))


class _Scatter(NamedTuple):
    """A scatter as a workload of size n; ``weight`` is the amount of the weight of one of its ways."""

    way: str
    attribute: str
    of_size: Callable[[int], tuple[int, int, int]]

    def call(self, n: int) -> Call:
        count, entries, functions = self.of_size(n)
        places = np.random.default_rng(0).integers(0, entries, count, np.int32)
        x, scatter = _normal(count), _scatter(count, entries, functions)
        return lambda: scatter(places, x, threads=2)

    def weight(self, n: int) -> float:
        """Weight at which this way, on two threads, costs what one thread does alone."""
        from iverson.codegen.nests.phase_cost import cost
        from iverson.codegen.schedule import parallel_scatter

        count, entries, functions = self.of_size(n)
        (step,) = (s for s in _scatter(count, entries, functions).steps if hasattr(s, "kernel"))
        (phase,) = step.kernel.phases
        alone = cost(phase, {})
        once = parallel_scatter.estimates(phase, alone, entries, count, {}, 2)[self.way] - alone / 2
        return alone / 2 / (once / getattr(parallel_scatter, self.attribute))


_COPIES = _Scatter("private", "COPY", lambda n: (n, 2**15, 0))
_SORTED = _Scatter("sorted", "SORT", lambda n: (2**16, 2**12, n))
_ATOMIC = _Scatter("atomic", "ATOMIC", lambda n: (2**16, 2**12, n))

CROSSOVERS = (
    Crossover(
        "kernels.compiled_elementwise", "WORTHWHILE", "entries", float, _elementwise,
        tuple(2**k for k in range(8, 20, 2)),
    ),
    Crossover(
        "kernels.sparse.sparse_loops", "WORTHWHILE", "products", lambda n: 8 * n, _sparse_product,
        tuple(2**k for k in range(10, 20, 2)),
    ),
    Crossover(
        "kernels.sparse.sparse_loops", "WORTH_THREADS", "products", lambda n: 8 * n, _sparse_product,
        tuple(2**k for k in range(15, 22)),
    ),
    Crossover(
        "kernels.sparse.sparse_loops", "WORTHWHILE_ENTRIES", "entries", float, _segments,
        tuple(2**k for k in range(8, 20, 2)),
    ),
    Crossover(
        "codegen.programs.product_emission", "WORTH_THREADS", "multiply-adds", lambda n: n**3,
        _compiled_product, (32, 48, 64, 96, 128, 192, 256),
    ),
    Crossover(
        "codegen.nests.phase_cost", "WORTH_THREADS", "nanoseconds", lambda n: 2.1 * n, _phase,
        tuple(2**k for k in range(10, 21, 2)),
    ),
    Crossover(
        "codegen.schedule.blas_contraction", "WORTH_BLAS", "multiply-adds", lambda n: n**3, _te_product,
        (8, 12, 16, 24, 32, 48, 64, 96),
    ),
    Crossover(
        "codegen.schedule.operand_packing", "WORTH", "points", lambda n: n**3, _te_transposed,
        (32, 64, 96, 128, 192, 256),
    ),
    Crossover(
        "codegen.schedule.parallel_scatter", "COPY", "ns an entry", _COPIES.weight, _COPIES.call,
        tuple(2**k for k in range(15, 22)), ("SORT", "ATOMIC"),
    ),
    Crossover(
        "codegen.schedule.parallel_scatter", "SORT", "ns an iteration", _SORTED.weight, _SORTED.call,
        (1, 2, 4, 8, 16, 32), ("COPY", "ATOMIC"),
    ),
    Crossover(
        "codegen.schedule.parallel_scatter", "ATOMIC", "ns a write", _ATOMIC.weight, _ATOMIC.call,
        (0, 1, 2, 4, 8), ("COPY", "SORT"),
    ),
)  # fmt: skip


def measured(crossover: Crossover) -> Result:
    """Run both ways in turns."""
    value = float(getattr(importlib.import_module(f"iverson.{crossover.module}"), crossover.attribute))
    plain, started = _Way(crossover, NEVER), _Way(crossover, 0)
    try:
        times = [(plain.seconds(n), started.seconds(n)) for n in crossover.sizes]
    finally:
        plain.close()
        started.close()
    amounts = [crossover.amount(n) for n in crossover.sizes]
    wins = [b < a for a, b in times]
    first = next((k for k in range(len(wins)) if all(wins[k:])), len(wins))
    low = amounts[first - 1] if first else 0.0
    high = amounts[first] if first < len(wins) else math.inf
    losses = [(b / a if amount >= value else a / b) for amount, (a, b) in zip(amounts, times, strict=True)]
    return Result(crossover.name, crossover.unit, value, low, high, max(1.0, *losses))


class _Way:
    """A process that takes one way."""

    def __init__(self, crossover: Crossover, threshold: int) -> None:
        self.crossover = crossover
        command = sys.executable, "-m", "benchmarks.calibrate", "--way", crossover.name, str(threshold)
        environment = os.environ | {"IVERSON_CACHE": "off"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def seconds(self, n: int) -> float:
        """The median time of a call at size n."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.crossover.name}: the process ended at size {n}")
        return float(json.loads(line))

    def close(self) -> None:
        self.process.communicate("")


def serve(name: str, threshold: int) -> None:
    """Force a way, and time the workload at each size that is asked for."""
    importlib.import_module("iverson")
    (crossover,) = (c for c in CROSSOVERS if c.name == name)
    force(crossover, threshold)
    for line in sys.stdin:
        call = crossover.workload(int(line))
        call()
        print(json.dumps(_median(call)), flush=True)


def force(crossover: Crossover, threshold: float) -> None:
    """Give the threshold another value, in its module and in those that import it."""
    module = importlib.import_module(f"iverson.{crossover.module}")
    value = getattr(module, crossover.attribute)
    users = (m for name, m in list(sys.modules.items()) if name.startswith("iverson."))
    for user in (m for m in users if vars(m).get(crossover.attribute) is value):
        setattr(user, crossover.attribute, threshold)
    for attribute in crossover.never:
        setattr(module, attribute, NEVER)


def _median(call: Call) -> float:
    start = time.perf_counter()
    call()
    repeats = max(1, int(SECONDS / max(time.perf_counter() - start, 1e-9)))
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        seconds.append((time.perf_counter() - start) / repeats)
    return sorted(seconds)[ROUNDS // 2]


def table(results: Iterator[Result]) -> Iterator[str]:
    """Lines of the report, one for each result."""
    yield f"{'threshold':58}{'unit':>16}{'value':>12}{'the ways cross in':>24}{'loss':>7}"
    for r in results:
        crossing = f"{r.low:.3g} to {r.high:.3g}"
        yield f"{r.name:58}{r.unit:>16}{r.value:>12.3g}{crossing:>24}{r.loss:>7.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="words that names contain")
    parser.add_argument("--way", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        serve(options.way[0], int(options.way[1]))
        return
    chosen = [c for c in CROSSOVERS if not options.names or any(word in c.name for word in options.names)]
    for line in table(map(measured, chosen)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
