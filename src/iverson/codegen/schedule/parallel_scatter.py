"""Parallel scatter: threads run iterations that may write the same entries; the safe way is chosen by cost.

    alone     one thread
    private   each part of the iterations combines into a copy of the output; the copies are combined in order
    owned     each thread owns a part of the output, goes through all iterations, and carries out those that
              write to its part

Each way gives the same bits in every run (private for the same number of threads); those of owned are those
of one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from iverson.codegen.nests.loop_facts import depends
from iverson.codegen.nests.nodes import (
    BOOL,
    INT64,
    Buffer,
    If,
    Kernel,
    Load,
    Local,
    Loop,
    Size,
    Stmt,
    Store,
    Var,
    rewritten,
    shape_at,
    statements,
    with_buffers,
)
from iverson.codegen.nests.phase_cost import cost, is_worth_threads, iterations, trips
from iverson.codegen.runtime.target import available
from iverson.expr.function_facts import identity
from iverson.expr.nodes import Apply, Const, Expr, Select, changed, subexpressions

#: Nanoseconds (see `phase_cost`) of an entry of a private copy: to start it, which touches new memory, and to
#: combine it at the end. Measured as processor time of float64, 5.2 to 6.1; as time (`make calibrate`), 2.2
#: to 4.5.
COPY = 5.0
#: ... of a look at where an iteration writes, by each thread that may own the place.
LOOK = 1.5


@dataclass(frozen=True)
class Choice:
    """The way that is chosen, and the expected nanoseconds of each possible way."""

    way: str
    costs: Mapping[str, float]

    def __str__(self) -> str:
        alternatives = (f"{name} {t / 1e6:.3g} ms" for name, t in self.costs.items() if name != self.way)
        return f"{self.way}, expected {self.costs[self.way] / 1e6:.3g} ms ({', '.join(alternatives)})"


def shared(phase: Stmt) -> dict[str, Store]:
    """Buffers, by name, whose entries several iterations of a parallel phase may combine into.

    Each comes with one of the stores to it.
    """
    return {s.buffer.name: s for s in statements((phase,)) if isinstance(s, Store) and s.shared}


def estimates(
    phase: Loop, alone: float, entries: int, total: int, sizes: Mapping[str, int], threads: int
) -> dict[str, float]:
    """Nanoseconds of each possible way to run a phase, by name.

    alone : cost of the phase on one thread. entries : number of entries of the shared outputs. total : number
    of iterations.
    """
    costs = {"alone": alone, "private": alone / threads + COPY * threads * entries}
    stores = [s for s in statements((phase,)) if isinstance(s, Store)]
    if key(phase) is not None:
        costs["owned"] = alone / threads + LOOK * total
    elif all(s.shared and s.indices for s in stores):
        looks = trips(phase, sizes, lambda s: float(isinstance(s, Store)))
        costs["owned"] = alone / threads + LOOK * looks
    return costs


def choose(costs: Mapping[str, float]) -> Choice:
    """The cheapest way."""
    return Choice(min(costs, key=lambda way: costs[way]), costs)


def choice(phase: Stmt, sizes: Mapping[str, int], threads: int | None = None) -> Choice | None:
    """The way for a phase; None where its iterations share no entries, or where one thread is to run it.

    threads : how many share it (default: as many as there are processors, if the work is worth it).
    """
    outputs = shared(phase)
    count, total = threads or available(), iterations(phase, sizes) if outputs else 0
    if count <= 1 or total <= 1 or not isinstance(phase, Loop):
        return None
    alone = cost(phase, sizes)
    if threads is None and not is_worth_threads(phase, alone):
        return None
    entries = sum(prod(shape_at(s.buffer, sizes)) for s in outputs.values())
    return choose(estimates(phase, alone, entries, total, sizes, count))


def sharing(phase: Stmt) -> str:
    """Text for reports on a phase without sizes: the way in which colliding writes are kept safe."""
    if not shared(phase):
        return "each thread has entries of its own"
    option = choice(phase, {})
    return "one thread, as more would not pay" if option is None else str(option)


def with_ways(
    kernel: Kernel, sizes: Mapping[str, int], threads: int | None = None
) -> tuple[Kernel, list[Buffer]]:
    """A kernel whose long phases threads can share, and the buffers that it takes in addition.

    threads : as of `choice`.
    """
    phases: list[Stmt] = []
    copies: list[Buffer] = []
    for phase in kernel.phases:
        option = choice(phase, sizes, threads)
        way = "alone" if option is None else option.way
        if way == "alone":
            phases.append(phase)
        elif way == "owned":
            phases.append(owned(phase, threads or available()))
        else:
            parts, of_phase = private(phase, threads or available(), f".{len(phases)}")
            phases += parts
            copies += of_phase
    if all(a is b for a, b in zip(phases, kernel.phases, strict=False)):
        return kernel, []
    buffers = {b.name: b for b in (*kernel.buffers, *copies)}
    kernel_phases = tuple([with_buffers(p, buffers) for p in phases])
    return Kernel(kernel.name, tuple(buffers.values()), kernel_phases, kernel.sizes), copies


def _of(name: str, *operands: Expr) -> Expr:
    return Apply(name, operands, INT64)


def _is(name: str, *operands: Expr) -> Expr:
    return Apply(name, operands, BOOL)


def _extent(n: int | str) -> Expr:
    return Size(n) if isinstance(n, str) else Const(n)


def _share(total: Expr, part: Expr, parts: int) -> Expr:
    """First item of the share of a part."""
    return _of("floor_divide", _of("multiply", total, part), Const(parts))


# --- private ---------------------------------------------------------------------


def private(phase: Stmt, parts: int, suffix: str) -> tuple[list[Stmt], list[Buffer]]:
    """A phase in parts with copies of the shared outputs, and these copies.

    for i in 0:n: y[a[i]] += x[i]
    ->  for p in 0:parts: for j: c[p, j] = 0
        for p in 0:parts: for i in n * p / parts : n * (p + 1) / parts: c[p, a[i]] += x[i]
        for p in 0:parts: for j: y[j] += c[p, j]
    """
    assert isinstance(phase, Loop)
    part = Var(f"{phase.var}.part")
    outputs = shared(phase)
    copies = {
        name: Buffer(f"{name}.copies{suffix}", s.buffer.dtype, (parts, *s.buffer.shape), "out")
        for name, s in outputs.items()
    }

    def own(s: Stmt) -> Stmt:
        if not isinstance(s, Store) or not s.shared:
            return s
        return replace(s, buffer=copies[s.buffer.name], indices=(part, *s.indices), shared=False)

    room = _of("add", _of("subtract", phase.upper, phase.lower), Const(phase.step - 1))
    count = _of("floor_divide", room, Const(phase.step))

    def start(p: Expr) -> Expr:
        return _of("add", phase.lower, _of("multiply", _share(count, p, parts), Const(phase.step)))

    last = _of("minimum", phase.upper, start(_of("add", part, Const(1))))
    inner = tuple([rewritten(s, own) for s in phase.body])
    walk = replace(phase, lower=start(part), upper=last, mark="", body=inner)
    outer = Loop(part.name, Const(0), Const(parts), (walk,), mark="parallel")
    phases: list[Stmt] = [outer]
    for name, s in outputs.items():
        copy = copies[name]
        at = tuple([Var(f"{phase.var}.at{k}") for k in range(len(s.buffer.shape))])
        first = Const(identity(s.combine, copy.dtype), copy.dtype)
        fill = _over(at, s.buffer, Store(copy, (part, *at), first))
        combine = _over(at, s.buffer, Store(s.buffer, at, Load(copy, (part, *at)), s.combine))
        phases = [replace(outer, body=(fill,)), *phases, replace(outer, body=(combine,), mark="")]
    return phases, list(copies.values())


def _over(at: tuple[Var, ...], b: Buffer, body: Stmt) -> Stmt:
    """Loops over the entries of a buffer."""
    for k, (v, n) in reversed(list(enumerate(zip(at, b.shape, strict=True)))):
        body = Loop(v.name, Const(0), _extent(n), (body,), mark="vector" if k == len(at) - 1 else "")
    return body


# --- owned -----------------------------------------------------------------------


def owned(phase: Stmt, parts: int) -> Loop:
    """A phase whose outputs are shared out.

    for i in 0:n: y[a[i]] += x[i]
    ->  for p in 0:parts: for i in 0:n: if m * p / parts <= a[i] < m * (p + 1) / parts: y[a[i]] += x[i]

    An index outside of the output belongs to the first part or the last one, which reports it.
    """
    assert isinstance(phase, Loop)
    part = Var(f"{phase.var}.part")
    place = key(phase)

    def is_own(e: Expr, extent: int | str) -> Expr:
        start, stop = (_share(_extent(extent), p, parts) for p in (part, _of("add", part, Const(1))))
        below = _is("logical_or", _is("equal", part, Const(0)), _is("greater_equal", e, start))
        above = _is("logical_or", _is("equal", part, Const(parts - 1)), _is("less", e, stop))
        return _is("logical_and", below, above)

    def own(s: Stmt) -> Iterator[Stmt]:
        if isinstance(s, (Loop, If)):
            yield replace(s, body=tuple([x for inner in s.body for x in own(inner)]))
        elif isinstance(s, Store) and s.shared:
            store = replace(s, shared=False)
            axis = next((k for k, n in enumerate(s.buffer.shape) if n != 1), 0)
            yield store if place else If(is_own(s.indices[axis], s.buffer.shape[axis]), (store,))
        else:
            yield s

    body = tuple([x for s in phase.body for x in own(s)])
    if place:
        e, extent = place
        guard = is_own(changed(e, lambda x: _where_inside(x) if isinstance(x, Load) else x), extent)
        body = (If(guard, body),)
    return Loop(part.name, Const(0), Const(parts), (replace(phase, body=body, mark=""),), mark="parallel")


def key(phase: Loop) -> tuple[Expr, int | str] | None:
    """An index that says where an iteration writes, and the extent that it counts in.

    It must stand at one place of every shared store, and depend on nothing else inside the loop.
    """
    stores = [s for s in statements((phase,)) if isinstance(s, Store)]
    inner = {s.var for s in statements(phase.body) if isinstance(s, Loop)}
    output_names = {s.buffer.name for s in stores}
    stores = [s for s in stores if s.shared]
    for axis, e in enumerate(stores[0].indices if stores else ()):
        parts = list(subexpressions(e))
        alone = depends(e, {phase.var}) and not depends(e, inner)
        plain = not any(
            isinstance(x, Local) or (isinstance(x, Load) and x.buffer.name in output_names) for x in parts
        )
        if alone and plain and all(len(s.indices) > axis and s.indices[axis] is e for s in stores):
            return e, stores[0].buffer.shape[axis]
    return None


def _where_inside(load: Load) -> Expr:
    """Value of a load where it is inside its buffer; 0 elsewhere."""
    result: Expr = load
    for i, n in zip(load.indices, load.buffer.shape, strict=True):
        fits = _is("logical_and", _is("greater_equal", i, Const(0)), _is("less", i, _extent(n)))
        result = Select(fits, result, Const(load.dtype.type(0).item(), load.dtype))
    return result
