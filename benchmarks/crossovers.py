"""Thresholds of the cost model, each with a workload by which `benchmarks.calibrate` measures it.

A threshold is an amount of work, in some unit, from which one of two ways pays. A weight of a cost function
is measured like one: its amount at a size is the weight at which the function finds both ways equal there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from iverson.te.ir.expressions import Expr
    from iverson.te.lowering.lowered_program import Lowered

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


def _sgd_step(n: int) -> Call:
    import iverson as iv

    x = iv.asarray(_normal(n), requires_grad=True)
    optimizer = iv.optim.SGD([x], lr=1e-3, momentum=0.9)
    x.grad = iv.asarray(_normal(n))
    return optimizer.step


def _union(n: int) -> Call:
    first, second = (_fresh_csr(n, seed) for seed in (0, 1))
    return lambda: first() + second()


def _fresh_csr(n: int, seed: int = 0) -> Callable[[], Any]:
    """Function for a matrix that has a new pattern at each call: patterns keep what is found out of them."""
    import iverson as iv

    s = _random_csr(n, seed)
    parts = [np.asarray(x) for x in (s.indptr(), s.indices(), s.values())]
    return lambda: iv.sparse_csr_tensor(*parts, s.shape)


def _random_csr(n: int, seed: int = 0) -> Any:
    """Square matrix of about n stored entries, 8 in a row."""
    import iverson as iv

    rows = max(n // 8, 8)
    columns = np.random.default_rng(seed).integers(0, rows, (rows, 8)).ravel()
    places = np.stack([np.repeat(np.arange(rows), 8), columns])
    return iv.sparse_coo_tensor(places, _normal(rows * 8), (rows, rows)).coalesce().to_layout("csr")


def _blocks_of_rows(n: int) -> Call:
    fresh = _fresh_csr(n)
    return lambda: fresh().to_layout("bsr", blocksize=(2, 2))


def _columns_times(n: int) -> Call:
    import iverson as iv

    s, b = _random_csr(2**18).to_layout("csc"), iv.asarray(_normal(2**15, n))
    return lambda: s @ b


def _selection(n: int) -> Call:
    import iverson as iv

    x, y = iv.asarray(_normal(n)), iv.asarray(_normal(n)[::-1].copy())
    # So many conditions that the processor does not learn their entries by heart.
    conditions = itertools.cycle(list(iv.asarray(_normal(max(2**17 // n, 1), n) > 0)))
    return lambda: iv.where(next(conditions), x, y)


def _sparse_plus_strided(n: int) -> Call:
    import iverson as iv

    side = int(n**0.5)
    s = iv.asarray(np.eye(side)).to_layout("csr")
    x = iv.asarray(_normal(side, side))
    return lambda: s + x


def _rows_times_vector(n: int) -> Call:
    import iverson as iv

    s = _random_csr(n)
    b = iv.asarray(_normal(s.shape[1], 1))
    f = iv.jit(lambda s, b: s @ b)
    return lambda: f(s, b)


def _membership(n: int) -> Call:
    import iverson as iv

    x, members = iv.asarray(_normal(2**12)), iv.asarray(_normal(n))
    f = iv.jit(iv.isin)
    return lambda: f(x, members)


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
_OWNED = _Scatter("owned", "LOOK", lambda n: (2**16, 2**12, n))

CROSSOVERS = (
    Crossover(
        "kernels.compiled_elementwise", "WORTHWHILE", "entries", float, _elementwise,
        tuple(2**k for k in range(8, 20, 2)),
    ),
    Crossover(
        "kernels.compiled_elementwise", "WORTHWHILE_STEP", "entries", float, _sgd_step,
        tuple(2**k for k in range(10, 22, 2)),
    ),
    Crossover(
        "kernels.sparse.merging", "WORTHWHILE", "entries", lambda n: 2 * n, _union,
        tuple(2**k for k in range(10, 22, 2)),
    ),
    Crossover(
        "layouts.compressed.arrange", "MANY", "entries", float, _blocks_of_rows,
        tuple(2**k for k in range(8, 20, 2)),
    ),
    Crossover(
        "kernels.sparse.sparse_products", "_WIDE", "columns", float, _columns_times, (1, 2, 4, 8, 16, 32),
    ),
    Crossover(
        "core.scalars.array_bodies", "_SMALL", "entries", float, _selection,
        tuple(2**k for k in range(5, 15)),
    ),
    Crossover(
        "kernels.sparse.sparse_elementwise", "_FEW", "entries", float, _sparse_plus_strided,
        tuple(4**k for k in range(4, 11)),
    ),
    Crossover(
        "array_api.entries.searching", "FEW", "entries", float, _membership,
        tuple(2**k for k in range(2, 11)),
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
        "codegen.programs.thread_sharing", "WORTH_THREADS", "multiply-adds", lambda n: n**3,
        _compiled_product, (32, 48, 64, 96, 128, 192, 256),
    ),
    Crossover(
        "graph.native.sparse_row_products", "_MANY", "entries", float, _rows_times_vector,
        tuple(2**k for k in range(17, 24)),
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
        tuple(2**k for k in range(15, 22)), ("LOOK",),
    ),
    Crossover(
        "codegen.schedule.parallel_scatter", "LOOK", "ns an iteration", _OWNED.weight, _OWNED.call,
        (0, 1, 2, 4, 8, 16), ("COPY",),
    ),
)  # fmt: skip
