"""Time estimates: what a phase is expected to take beside its time at the machine's peak, for reports.

The cost model is that of decisions (`codegen.nests.phase_cost`), for a machine of the measured peak; here
come in how many threads share a phase, and the bytes of memory that it touches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iverson.codegen.nests import phase_cost
from iverson.codegen.nests.nodes import (
    If,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Update,
    Var,
    expressions,
    statements,
)
from iverson.codegen.nests.phase_cost import Machine, StatementCost, itemsize_of, trips
from iverson.codegen.runtime.machine_peak import Peak
from iverson.codegen.runtime.target import available, host
from iverson.codegen.schedule.visit_counts import size_of, visits
from iverson.expr.function_facts import FEW, LIGHT
from iverson.expr.nodes import Apply, Expr, subexpressions

#: Floating-point operations that an elementary function is reported as.
DEAR = 10
#: Iterations of loops that bound other loops, up to which points are counted one by one.
COUNTED = 50_000


@dataclass(frozen=True)
class Expected:
    """An estimate for a phase.

    best : seconds at peak: of its operations or its bytes, whichever takes longer.
    seconds : as it is compiled.
    slow : what runs an entry at a time, or gathers.
    """

    points: int
    bytes: int
    flops: int
    best: float
    seconds: float
    threads: int
    slow: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Share of the machine's peak."""
        return self.best / self.seconds if self.seconds else 1.0


def at_peak(multiply_adds: float, moved: float, itemsize: int, peak: Peak) -> float:
    """Least seconds for so many multiply-adds of ``itemsize`` bytes on all threads, and bytes moved."""
    return max(multiply_adds * 2 / (peak.flops * 8 / itemsize), moved / peak.bytes)


def expected(
    phase: Stmt, sizes: Mapping[str, int], peak: Peak, labels: Mapping[str, str] | None = None
) -> Expected:
    """The estimate for a phase at these sizes; bounds that depend on data count as 16 apart.

    labels : what buffers are called, by name. (Expressions are shared between programs that are equal but for
        labels, and have those of any of them.)
    """
    points, byte_count = _visited(phase, sizes)
    count = _threads(phase, sizes)
    machine = Machine(host().vector_bytes, 2e9 * peak.threads / peak.flops, 1e9 / peak.bytes)
    cost = StatementCost(phase, sizes, machine)
    seconds = trips(phase, sizes, cost) * 1e-9 / count
    best = at_peak(trips(phase, sizes, cost.operations), byte_count, itemsize_of(phase), peak)
    flops, slow = int(trips(phase, sizes, _flops)), tuple(_causes(phase, cost, labels or {}))
    return Expected(points, byte_count, flops, best, max(best, seconds), count, slow)


def _threads(phase: Stmt, sizes: Mapping[str, int]) -> int:
    """Number of threads that share a phase."""
    total = phase_cost.iterations(phase, sizes)
    if total <= 1 or not phase_cost.is_worth_threads(phase, phase_cost.cost(phase, sizes)):
        return 1
    return min(available(), total)


def _causes(phase: Stmt, cost: StatementCost, labels: Mapping[str, str]) -> Iterator[str]:
    """Texts on the causes why a part of the phase does not run in lanes."""
    outputs = {s.buffer.name: s.buffer.label for s in statements((phase,)) if isinstance(s, Store)}
    for loop, name in cost.causes:
        label = labels.get(name) or outputs.get(name) or name
        how = f"{label} is read or written entry by entry" if name else "an entry at a time"
        yield f"{how} along {loop}"


def _visited(phase: Stmt, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Number of runs of innermost bodies of a phase, and of the bytes that it touches.

    They are counted, or estimated if that takes long or if bounds depend on data.
    """
    block = list(statements((phase,)))
    bounds = [e for s in block if isinstance(s, Loop) for e in (s.lower, s.upper)]
    names = {x.name for e in bounds for x in subexpressions(e) if isinstance(x, Var)}
    on_data = any(isinstance(x, (Load, Local)) for e in bounds for x in subexpressions(e))
    bounding = trips(phase, sizes, lambda s: float(isinstance(s, Loop) and bool(s.var not in names)))
    if not on_data and (not names or bounding <= COUNTED):
        return visits(phase, sizes)
    inner = {id(s.body[0]) for s in block if isinstance(s, (Loop, If)) and not _has_loops(s.body)}
    points = int(trips(phase, sizes, lambda s: float(id(s) in inner)))
    accesses = (x for s in block for x in (s, *(y for e in expressions(s) for y in subexpressions(e))))
    buffers = {x.buffer.name: x.buffer for x in accesses if isinstance(x, (Load, Store))}
    return points, sum(size_of(b, sizes) for b in buffers.values())


def _has_loops(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(s, Loop) for s in statements(body))


def _arithmetic(e: Expr) -> bool:
    return isinstance(e, Apply) and e.dtype.kind in "fc"


def _flops(s: Stmt) -> float:
    """The floating-point operations of a statement itself, those of conditions and indices aside."""
    if isinstance(s, (Loop, If)):
        return 0.0
    adds = isinstance(s, (Update, Store)) and s.combine != "assign"
    return float(adds) + sum(
        (1 if x.name in LIGHT | FEW else DEAR) * (4 if x.dtype.kind == "c" else 1)
        for e in expressions(s)
        for x in subexpressions(e)
        if isinstance(x, Apply) and _arithmetic(x)
    )
