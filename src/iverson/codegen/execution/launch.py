"""Launch of a kernel's phases on checked arguments: how many threads, and which ranges each of them gets.

Where iterations of a phase may write the same entries, `codegen.schedule.parallel_scatter` says what keeps
them safe.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, prod
from typing import Any, Protocol

import numpy as np

from iverson.codegen.execution.object_code import Library
from iverson.codegen.nests import fault_reports, integer_bounds
from iverson.codegen.nests.access_checks import Plan
from iverson.codegen.nests.nodes import Kernel, Loop, Stmt, arguments_of
from iverson.codegen.nests.phase_cost import cost, is_worth_threads
from iverson.codegen.runtime import thread_pool
from iverson.codegen.runtime.array_headers import address
from iverson.codegen.schedule import parallel_scatter
from iverson.core.errors import ArgumentError
from iverson.expr.affine import Affine
from iverson.expr.symbolic_numbers import integer

Array = np.ndarray[Any, Any]


class Compiled(Protocol):
    """A compiled kernel, as far as running it goes; ``facts`` remembers what follows from it."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def library(self) -> Library: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def entries(self) -> tuple[str, ...]: ...
    @property
    def facts(self) -> dict[Any, Any]: ...
    def run(self, arrays: Sequence[Array], sizes: Mapping[str, int], threads: int | None = None) -> None: ...


Compile = Callable[[Kernel], Compiled]

# What an empty buffer points to: an address that may be read, should code look before it leaps.
_NOTHING = np.zeros(64, np.uint8)


def launch(
    compiled: Compiled,
    by_name: Mapping[str, Array],
    sizes: Mapping[str, int],
    limit: int | None,
    make: Compile,
) -> None:
    """Run all phases; ``limit`` is the most threads (None: as many as pay), ``make`` compiles variants."""
    for k, phase in enumerate(compiled.kernel.phases):
        total, alone = _work(compiled, k, phase, sizes)
        count = _threads(phase, total, alone, limit)
        costs = _ways(compiled, k, by_name, sizes, (total, alone, count)) if count > 1 else {}
        if costs and isinstance(phase, Loop):
            way = parallel_scatter.choose(costs).way
            _Shared(compiled, k, phase, by_name, sizes, total, count, make).run(way)
        else:
            _run(compiled, k, by_name, sizes, total, count)


def sharing(phase: Stmt) -> str:
    """Text for reports on a phase without sizes: the way in which colliding writes are kept safe."""
    outputs = parallel_scatter.shared(phase)
    if not outputs or not isinstance(phase, Loop):
        return "each thread has entries of its own"
    total, alone = iterations(phase, {}), cost(phase, {})
    count = _threads(phase, total, alone, None)
    if count == 1:
        return "one thread, as more would not pay"
    entries = sum(prod(n for n in s.buffer.shape if isinstance(n, int)) for s in outputs.values())
    return str(parallel_scatter.choose(parallel_scatter.estimates(phase, alone, entries, total, {}, count)))


def threads_of(phase: Stmt, sizes: Mapping[str, int]) -> int:
    """Number of threads that share a phase if a call does not say."""
    total = iterations(phase, sizes)
    return _threads(phase, total, cost(phase, sizes) if total > 1 else 0.0, None)


def _threads(phase: Stmt, total: int, alone: float, limit: int | None) -> int:
    if total <= 1 or (limit is None and not is_worth_threads(phase, alone)):
        return 1
    return min(limit or thread_pool.available(), total)


def _run(
    compiled: Compiled,
    k: int,
    by_name: Mapping[str, Array],
    sizes: Mapping[str, int],
    total: int,
    count: int,
) -> None:
    """Run one phase whose iterations write entries of their own.

    total : number of iterations.
    count : number of threads.
    """
    with _reporting(compiled, by_name) as record:
        block = _block(compiled.kernel, k, by_name, sizes, record)
        thread_pool.run(
            _function(compiled, k), thread_pool.shares(total, ctypes.addressof(block), count), count
        )


@dataclass(frozen=True)
class _Shared:
    """A phase whose iterations may write the same entries, run in each of the ways of `parallel_scatter`.

    total : number of iterations.
    count : number of threads.
    make : compiles a kernel.
    """

    compiled: Compiled
    k: int
    phase: Loop
    by_name: Mapping[str, Array]
    sizes: Mapping[str, int]
    total: int
    count: int
    make: Compile

    def run(self, way: str) -> None:
        ways = {"private": self.private, "sorted": self.sorted, "atomic": self.atomic}
        if way in ways:
            ways[way]()
        else:
            _run(self.compiled, self.k, self.by_name, self.sizes, self.total, 1)

    def private(self) -> None:
        """Run ranges of iterations at once, each with its own copy of the outputs; combine the copies."""
        copies = parallel_scatter.private(self.phase, self.by_name, self.count)
        kernel = self.compiled.kernel
        edges = [self.total * n // self.count for n in range(self.count + 1)]
        with _reporting(self.compiled, self.by_name) as record:
            arrays = [{**self.by_name, **copy} for copy in ({}, *copies)]
            blocks = [_block(kernel, self.k, a, self.sizes, record) for a in arrays]
            work = [(edges[n], edges[n + 1], ctypes.addressof(block)) for n, block in enumerate(blocks)]
            thread_pool.run(_function(self.compiled, self.k), work, self.count)
        parallel_scatter.combine(self.phase, self.by_name, copies)

    def sorted(self) -> None:
        """Run the iterations in the order of their keys; no key is in two of the ranges that threads take."""
        finder = self.variant("keys", parallel_scatter.keys)
        sizes = {**self.sizes, parallel_scatter.COUNT: self.total}
        keys = np.empty(self.total, np.int64)
        finder.run([*(self.by_name[b.name] for b in finder.kernel.buffers[:-1]), keys], sizes, self.count)
        order, ranges = parallel_scatter.order_of(keys, _first(self.phase, self.sizes), 4 * self.count)
        variant = self.variant("sorted", parallel_scatter.in_order)
        by_name = {**self.by_name, parallel_scatter.ORDER: order}
        with _reporting(variant, by_name) as record:
            block = _block(variant.kernel, 0, by_name, sizes, record)
            work = [(first, last, ctypes.addressof(block)) for first, last in ranges]
            thread_pool.run(_function(variant, 0), work, self.count)

    def atomic(self) -> None:
        variant = self.variant("atomic", parallel_scatter.atomic)
        _run(variant, 0, self.by_name, self.sizes, self.total, self.count)

    def variant(self, kind: str, transform: Callable[[Kernel, Loop], Kernel]) -> Compiled:
        """The kernel that ``transform`` makes of this phase, compiled once and kept under ``kind``."""
        kernel = self.compiled.facts.get((kind, self.k))
        if kernel is None:
            kernel = self.compiled.facts[kind, self.k] = self.make(
                transform(self.compiled.kernel, self.phase)
            )
        return kernel


# --- arguments and extents -----------------------------------------------------------


def _function(compiled: Compiled, k: int) -> Any:
    return compiled.library.functions[compiled.entries[k]]


def _block(
    kernel: Kernel, k: int, by_name: Mapping[str, Array], sizes: Mapping[str, int], record: Array
) -> Any:
    """Argument block of an entry point: addresses, the last that of the record of faults, then sizes."""
    arrays = [by_name[b.name] for b in arguments_of(kernel, k)]
    words = [address(a if a.size else _NOTHING) for a in arrays]
    words += [address(record), *map(sizes.__getitem__, kernel.sizes)]
    return (ctypes.c_int64 * len(words))(*words)


@contextmanager
def _reporting(compiled: Compiled, by_name: Mapping[str, Array]) -> Iterator[Array]:
    """Context that gives a record of faults for a run of loops, and at its end raises what they reported."""
    if not compiled.plan.reported:
        yield _NOTHING
        return
    record = fault_reports.record(compiled.plan)
    yield record
    # Of rows at hand the first extent is not asked for: their index there is the row itself.
    shapes = {b.name: b.shape for b in compiled.kernel.buffers} | {n: a.shape for n, a in by_name.items()}
    fault_reports.check(compiled.kernel.name, compiled.plan, record, shapes)


def _work(compiled: Compiled, k: int, phase: Stmt, sizes: Mapping[str, int]) -> tuple[int, float]:
    """Number of iterations of the parallel loop, and the nanoseconds of the phase on one thread."""
    key = ("work", k, *map(sizes.__getitem__, compiled.kernel.sizes))
    work = compiled.facts.get(key)
    if work is None:
        total = iterations(phase, sizes)
        work = compiled.facts[key] = (total, cost(phase, sizes) if total > 1 else 0.0)
    return work


def _ways(
    compiled: Compiled,
    k: int,
    by_name: Mapping[str, Array],
    sizes: Mapping[str, int],
    work: tuple[int, float, int],
) -> dict[str, float]:
    """Cost of each way to share the phase's outputs, by name; empty if iterations share no entries.

    work : number of iterations, nanoseconds on one thread, and number of threads.
    """
    total, alone, count = work
    key = ("ways", k, count, *map(sizes.__getitem__, compiled.kernel.sizes))
    costs = compiled.facts.get(key)
    if costs is None:
        phase, costs = compiled.kernel.phases[k], {}
        outputs = parallel_scatter.shared(phase)
        if outputs and isinstance(phase, Loop):
            entries = sum(by_name[name].size for name in outputs)
            costs = parallel_scatter.estimates(phase, alone, entries, total, sizes, count)
        compiled.facts[key] = costs
    return costs


def iterations(phase: Stmt, sizes: Mapping[str, int]) -> int:
    """Number of iterations of a phase's parallel loop; 1 if it has none."""
    if not isinstance(phase, Loop) or phase.mark != "parallel":
        return 1
    scope = integer_bounds.Scope()
    length = integer_bounds.affine(phase.upper, scope) - integer_bounds.affine(phase.lower, scope)
    return max(0, -(-_constant_value(length, phase, sizes) // phase.step))


def _first(phase: Loop, sizes: Mapping[str, int]) -> int:
    """The value of the loop's variable in its first iteration."""
    return _constant_value(integer_bounds.affine(phase.lower, integer_bounds.Scope()), phase, sizes)


def _constant_value(form: Affine, phase: Loop, sizes: Mapping[str, int]) -> int:
    ranges = {name: (n, n) for name, n in sizes.items()}
    low, high = integer_bounds.extremes(form, integer_bounds.Scope(), ranges)
    if not low == high < inf:
        raise ArgumentError("codegen", phase.var, got="bounds that depend on data", expected="sizes")
    return integer(high)
