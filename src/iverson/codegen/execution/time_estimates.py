"""Time estimates: what a phase is expected to take beside its time at the machine's peak, for reports.

A unit is the time of a multiply-add: what a thread takes at peak for each entry of full vectors. Two reads
along memory cost a unit too. Code that runs an entry at a time takes as many times longer as there are lanes.
Decisions are made by `codegen.nests.phase_cost`, not by these estimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iverson.codegen.execution.launch import threads_of
from iverson.codegen.nests import loop_facts
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
from iverson.codegen.nests.phase_cost import trips
from iverson.codegen.nests.task import motion
from iverson.codegen.runtime.machine_peak import Peak
from iverson.codegen.runtime.target import host
from iverson.codegen.schedule.visit_counts import size_of, visits
from iverson.expr.function_facts import FEW, LIGHT
from iverson.expr.nodes import Apply, Expr, subexpressions

#: Floating-point operations that an elementary function counts as.
DEAR = 10
#: Iterations of loops that bound other loops, up to which points are counted one by one.
COUNTED = 50_000
#: Units of a contiguous read, of one that does not move with the innermost loop, and of a gathered entry.
READ, STILL, GATHERED = 0.5, 0.1, 2.0


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


def at_peak(flops: float, moved: float, itemsize: int, peak: Peak) -> float:
    """Least seconds for so many operations on numbers of ``itemsize`` bytes, and so many bytes moved."""
    return max(flops / (peak.flops * 8 / itemsize), moved / peak.bytes)


def expected(
    phase: Stmt, sizes: Mapping[str, int], peak: Peak, labels: Mapping[str, str] | None = None
) -> Expected:
    """The estimate for a phase at these sizes; bounds that depend on data count as 16 apart.

    labels : what buffers are called, by name. (Expressions are shared between programs that are equal but for
        labels, and have those of any of them.)
    """
    points, byte_count = _visited(phase, sizes)
    flops = int(trips(phase, sizes, _flops))
    itemsize = max((s.buffer.dtype.itemsize for s in statements((phase,)) if isinstance(s, Store)), default=8)
    itemsize = min(max(itemsize, 4), 8)
    count = threads_of(phase, sizes)
    best = at_peak(flops, byte_count, itemsize, peak)
    rate = peak.flops * 8 / itemsize / peak.threads / 2
    slow: dict[str, None] = {}
    lanes = host().vector_bytes // itemsize
    units = trips(phase, sizes, _Units(phase, lanes, slow, labels or {}))
    return Expected(points, byte_count, flops, best, max(best, units / rate / count), count, tuple(slow))


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
    buffers = {x.buffer.name: x.buffer for x in _accesses(block)}
    return points, sum(size_of(b, sizes) for b in buffers.values())


def _accesses(block: Iterable[Stmt]) -> Iterable[Load | Store]:
    for s in block:
        if isinstance(s, Store):
            yield s
        for e in expressions(s):
            yield from (x for x in subexpressions(e) if isinstance(x, Load))


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


class _Units:
    """Function of a statement: the units of one run of it, without the statements in its body.

    slow : gets a text, as a key, for each cause why a part of the phase does not run in lanes.
    """

    def __init__(self, phase: Stmt, lanes: int, slow: dict[str, None], labels: Mapping[str, str]) -> None:
        self.lanes, self.slow = lanes, slow
        output_labels = {s.buffer.name: s.buffer.label for s in statements((phase,)) if isinstance(s, Store)}
        self.labels = {**output_labels, **labels}
        self.vector: dict[int, Loop | None] = {}
        self.inner: dict[int, Loop | None] = {}
        self._place(phase, None, None)

    def _place(self, s: Stmt, vector: Loop | None, inner: Loop | None) -> None:
        """Note the vector loop and the innermost loop around ``s`` and around each statement in it."""
        self.vector[id(s)], self.inner[id(s)] = vector, inner
        if isinstance(s, Loop) and s.mark == "vector" and vector is None and loop_facts.vectorizable(s):
            vector = s
        if isinstance(s, (Loop, If)):
            if isinstance(s, Loop) and s.mark != "unroll" and s.var != "once":
                inner = s
            for x in s.body:
                self._place(x, vector, inner)

    def __call__(self, s: Stmt) -> float:
        """Units of one run of ``s``, without its body; causes of slowness are added to ``slow``."""
        if isinstance(s, Loop):
            return 0.0
        vector, inner = self.vector[id(s)], self.inner[id(s)]
        loop = inner if vector is None else vector
        name, loop_name = ("", "") if loop is None else (loop.var, loop.said)
        total, gathered = _flops(s) / 2, 0
        for x in _accesses([s]):
            how = motion(x, name)
            if how == 2 and vector is not None:
                gathered += 1
                buffer = self.labels.get(x.buffer.name) or x.buffer.name
                self.slow[f"{buffer} is read or written entry by entry along {loop_name}"] = None
            total += STILL if how == 0 and not motion(x, inner.var if inner else "") else READ
        if vector is None and total >= 1:
            self.slow[f"an entry at a time along {loop_name}"] = None
        return total * (self.lanes if vector is None else 1) + GATHERED * gathered * self.lanes
