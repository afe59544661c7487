"""Launches: the steps of a planned program as calls, with every decision made and every integer in its place.

::

    step    ::= Phases(kernel, plan, faults, places, sizes, totals, by_team)  each phase of a kernel
              | Gemm(...)                                    a call of BLAS, or a batch of them
              | RoutineCall(...)                             a call of a library's routine, or a batch of them
              | StopIf(condition, failure)
              | Loop(var, trips, body, swaps, when, often)
              | Choice(condition, then, other)
    place   ::= Place(buffer, offset, moves, is_empty)       an address, in bytes
    integer ::= a number | Word(k)                           the k-th integer that a call passes

`launches` makes them of a program, `program_emission` prints them as LLVM IR, and `integer_arguments` turns
integers into words, so that one machine code serves programs that differ in them. Equal text means equal
code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from iverson.codegen.execution.launch import iterations
from iverson.codegen.nests.access_checks import Plan
from iverson.codegen.nests.nodes import Buffer, Kernel, Stmt, loads_and_stores
from iverson.codegen.nests.nodes import Loop as LoopNest
from iverson.codegen.nests.phase_cost import cost, is_worth_threads
from iverson.codegen.nests.print import nameless_text
from iverson.codegen.programs import blas_calls, nodes, routines
from iverson.codegen.programs.buffer_allocation import Arena
from iverson.codegen.programs.nodes import Number, Program, View, c_strides
from iverson.codegen.programs.routines import Failure, Routine
from iverson.codegen.schedule.parallel_scatter import shared

#: Iterations of a loop from which it looks for signals.
OFTEN = 16
#: Multiply-adds from which a product is shared out: some 20 microseconds of a processor. Measured against
#: OpenBLAS's own threads (`make calibrate`, two threads at 2.5 GHz): not faster up to 1.7e7.
WORTH_THREADS = 2**20
#: Matrices of a batch from which they are the shares, and entries of a panel's edge that it has at least.
MATRICES, PANEL = 4, 32


@dataclass(frozen=True, slots=True)
class Word:
    """An integer that the call passes: its number among them."""

    number: int


Integer = int | Word
#: Gives the integer that stands for another one.
Substitution = Callable[[int], Integer]


@dataclass(frozen=True, slots=True)
class Place:
    """Address ``offset`` bytes behind a buffer's first entry, and a move for each iteration of loops around.

    is_empty : no entry is read or written there.
    """

    buffer: Buffer
    offset: Integer
    moves: tuple[tuple[str, Integer], ...] = ()
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Phases:
    """A kernel's phases, one after the other.

    faults : number of its first place in the record of faults. places : of the kernel's arguments. sizes :
    the values of ``kernel.sizes``. totals, by_team : of each phase, its iterations, and 1 if threads share
    them, 0 if one runs all; None if they must not be shared.
    """

    kernel: Kernel
    plan: Plan
    faults: int
    places: tuple[Place, ...]
    sizes: tuple[Integer, ...]
    totals: tuple[Integer, ...]
    by_team: tuple[Integer | None, ...]


@dataclass(frozen=True, slots=True)
class Gemm:
    """A product, or a batch of products, in BLAS's terms (see `blas_calls.Call`).

    batch : iterations of each axis of the batch, without those of extent 1. units : matrices from one entry
    of an axis to the next. steps : of the first and second factor and the output, bytes from one matrix to
    the next along each axis.
    sharing : the parts that threads share: "matrices", "rows", "columns" or "".
    panels : extent of the axis along which panels lie, and the bytes from one entry to the next in the
    factor that has this axis and in the output.
    """

    routine: str
    letters: tuple[str, str]
    extents: tuple[Integer, ...]
    leading: tuple[Integer, ...]
    places: tuple[Place, ...]
    alpha: Number | Place
    beta: Number | Place
    batch: tuple[Integer, ...]
    units: tuple[Integer, ...]
    steps: tuple[tuple[Integer, ...], ...]
    count: Integer
    sharing: str
    panels: tuple[Integer, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A native loop (see `nodes.Repeat`); ``often``: whether it looks for signals."""

    var: str
    trips: Integer | None
    body: tuple[Step, ...]
    swaps: tuple[tuple[Buffer, Buffer], ...]
    when: Place | None
    often: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """A native branch on one entry."""

    condition: Place
    then: tuple[Step, ...]
    other: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class RoutineCall:
    """A routine on each item of a batch (see `routines`).

    arguments : integers that a `routines.Function` is called with, in order. batch, units, steps, count : as
    of `Gemm`, with steps for each place; of a `routines.Loop`, without the last axis, over which it runs
    itself. sizes, strides : of a Loop, extents of this axis and of the core axes, and bytes along these.
    """

    routine: Routine
    places: tuple[Place, ...]
    status: Place | None
    arguments: tuple[Integer, ...]
    batch: tuple[Integer, ...]
    units: tuple[Integer, ...]
    steps: tuple[tuple[Integer, ...], ...]
    count: Integer
    sizes: tuple[Integer, ...]
    strides: tuple[Integer, ...]


@dataclass(frozen=True, slots=True)
class StopIf:
    """Leave the program if an entry is not 0, with the failure of this number."""

    condition: Place
    failure: int


Step = Phases | Gemm | RoutineCall | StopIf | Loop | Choice


@dataclass(frozen=True)
class Launches:
    """Steps of a program, and the place of each temporary in the arena, in bytes."""

    steps: tuple[Step, ...]
    arena: Mapping[str, Integer]


def launches(
    program: Program,
    arena: Arena,
    nests: Mapping[str, tuple[Kernel, Plan, int]],
    failures: Sequence[Failure] = (),
) -> Launches:
    """The launches of a verified and planned program.

    nests : each distinct kernel by its text, with its plan, and its first place in the record of faults.
    failures : those of the program's stops.
    """
    places = {b.name: arena.places[b.name] for b in program.buffers if b.name in arena.places}
    return Launches(_Steps(nests, failures).block(program.steps), places)


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Every step, outer ones first."""
    for s in steps:
        yield s
        for body in (s.body,) if isinstance(s, Loop) else (s.then, s.other) if isinstance(s, Choice) else ():
            yield from walk(body)


def moving(steps: tuple[Step, ...]) -> list[str]:
    """Names of the variables of loops around ``steps`` with which places in the steps move, sorted."""
    inside = {s.var for s in walk(steps) if isinstance(s, Loop)}
    return sorted({var for s in walk(steps) for p in _places(s) for var, _ in p.moves} - inside)


def _places(s: Step) -> tuple[Place, ...]:
    if isinstance(s, Phases):
        return s.places
    if isinstance(s, Gemm):
        return (*s.places, *(x for x in (s.alpha, s.beta) if isinstance(x, Place)))
    if isinstance(s, RoutineCall):
        return s.places if s.status is None else (*s.places, s.status)
    if isinstance(s, Choice | StopIf):
        return (s.condition,)
    return () if s.when is None else (s.when,)


# --- of a program -----------------------------------------------------------------------------------


class _Steps:
    """Steps of a program as launches. nests, failures : see `launches`."""

    def __init__(self, nests: Mapping[str, tuple[Kernel, Plan, int]], failures: Sequence[Failure]) -> None:
        self.nests, self.failures = nests, failures

    def block(self, steps: tuple[nodes.Step, ...]) -> tuple[Step, ...]:
        return tuple([launch for s in steps for launch in self.step(s)])

    def step(self, s: nodes.Step) -> tuple[Step, ...]:
        """The launch of a step; none for a step without entries."""
        if isinstance(s, nodes.Nest):
            return (self.phases(s),)
        if isinstance(s, nodes.Product):
            return () if 0 in s.out.shape else (_gemm(s),)
        if isinstance(s, nodes.Call):
            return () if 0 in s.batch else (_routine_call(s),)
        if isinstance(s, nodes.Stop):
            return (StopIf(_place(s.condition), self.failures.index(s.failure)),)
        if isinstance(s, nodes.Repeat):
            when = None if s.when is None else _place(s.when)
            often = s.trips is None or s.trips > OFTEN
            return (Loop(s.var, s.trips, self.block(s.body), s.swaps, when, often),)
        return (Choice(_place(s.condition), self.block(s.then), self.block(s.other)),)

    def phases(self, s: nodes.Nest) -> Phases:
        kernel, plan, start = self.nests[nameless_text(s.kernel)]
        totals = tuple([iterations(phase, {}) for phase in kernel.phases])
        is_shared = tuple([int(is_shared_out(p)) if may_share(p) else None for p in kernel.phases])
        return Phases(kernel, plan, start, tuple(map(_place, s.views)), (), totals, is_shared)


def may_share(phase: Stmt) -> bool:
    """True if threads may share a phase: no two of its iterations write one entry."""
    return isinstance(phase, LoopNest) and phase.mark == "parallel" and not shared(phase)


def is_shared_out(phase: Stmt) -> bool:
    """True if threads share a phase: they may, and it is long."""
    return may_share(phase) and iterations(phase, {}) > 1 and is_worth_threads(phase, cost(phase, {}))


def sharing(s: nodes.Product) -> str:
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


def _place(v: View) -> Place:
    size = v.buffer.dtype.itemsize
    return Place(v.buffer, v.offset * size, tuple([(var, by * size) for var, by in v.moves]), 0 in v.shape)


def _scales(s: nodes.Product) -> tuple[Number | Place, Number | Place]:
    alpha, beta = (_place(x) if isinstance(x, View) else x for x in (s.alpha, s.beta))
    return alpha, beta


def _gemm(s: nodes.Product) -> Gemm:
    call = blas_calls.call(s)
    assert call is not None, "verified"
    size, views = s.out.buffer.dtype.itemsize, (call.first, call.second, call.out)
    axes = [k for k, n in enumerate(s.out.shape[:-2]) if n > 1]
    batch = tuple([s.out.shape[k] for k in axes])
    way = sharing(s)
    axis = -2 if way == "rows" else -1
    factor = call.second if way == "rows" else call.first
    panels = (call.out.shape[axis], factor.strides[axis] * size, call.out.strides[axis] * size)
    return Gemm(
        blas_calls.routine(s.out.buffer.dtype),
        call.letters,
        call.sizes,
        call.leading,
        (_place(call.first), _place(call.second), _place(call.out)),
        *_scales(s),
        batch,
        c_strides(batch),
        tuple([tuple([v.strides[k] * size for k in axes]) for v in views]),
        prod(batch),
        way,
        panels if way in ("rows", "columns") else (0, 0, 0),
    )


def _routine_call(s: nodes.Call) -> RoutineCall:
    """A call of a routine: a `Loop` runs over the last axis of the batch itself."""
    routine, batch = s.routine, s.batch
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    arguments: tuple[int, ...] = ()
    if isinstance(routine, routines.Loop):
        extents = routines.extents_of(routine.cores, [v.shape for v in s.views])
        assert extents is not None, "verified"
        sizes = (batch[-1] if batch else 1, *extents.values())
        strides = tuple([_bytes(v, len(batch) - 1) if batch else 0 for v in s.views])
        for core, v in zip(routine.cores, s.views, strict=True):
            strides += tuple([_bytes(v, k) for k in range(len(v.shape) - len(core), len(v.shape))])
        batch = batch[:-1]
    else:
        arguments = tuple([x for x in routine.arguments if isinstance(x, int)])
    axes = [k for k, n in enumerate(batch) if n > 1]
    items = tuple([batch[k] for k in axes])
    return RoutineCall(
        routine,
        tuple(map(_place, s.views)),
        None if s.status is None else _place(s.status),
        arguments,
        items,
        c_strides(items),
        tuple([tuple([_bytes(v, k) for k in axes]) for v in s.views]),
        prod(items),
        sizes,
        strides,
    )


def _bytes(v: View, axis: int) -> int:
    return v.strides[axis] * v.buffer.dtype.itemsize


# --- other integers ---------------------------------------------------------------------------------


def with_integers(of: Launches, f: Substitution, kernels: Callable[[Phases], Phases]) -> Launches:
    """Launches with ``f(n)`` in place of each integer n of steps and places, in the order of the steps.

    0 and 1 stay, but for the iterations of phases and the flags that say whether threads share them.

    kernels : gives the phases with other integers in the kernel.
    """
    change = _Change(f, kernels)
    steps = change.block(of.steps)
    return Launches(steps, {name: change.integer(n) for name, n in of.arena.items()})


class _Change:
    def __init__(self, f: Substitution, kernels: Callable[[Phases], Phases]) -> None:
        self.f, self.kernels = f, kernels

    def integer(self, n: Integer) -> Integer:
        return self.f(n) if type(n) is int and abs(n) > 1 else n

    def integers(self, numbers: tuple[Integer, ...]) -> tuple[Integer, ...]:
        return tuple([self.integer(n) for n in numbers])

    def place(self, p: Place) -> Place:
        moves = tuple([(var, self.integer(by)) for var, by in p.moves])
        return replace(p, offset=self.integer(p.offset), moves=moves)

    def places(self, places: tuple[Place, ...]) -> tuple[Place, ...]:
        return tuple([self.place(p) for p in places])

    def block(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple([self.step(s) for s in steps])

    def step(self, s: Step) -> Step:
        if isinstance(s, Phases):
            places = self.places(s.places)
            totals = tuple([self.f(n) if type(n) is int else n for n in s.totals])
            flags = tuple([self.f(x) if type(x) is int else x for x in s.by_team])
            return self.kernels(replace(s, places=places, totals=totals, by_team=flags))
        if isinstance(s, Choice):
            return Choice(self.place(s.condition), self.block(s.then), self.block(s.other))
        if isinstance(s, StopIf):
            return replace(s, condition=self.place(s.condition))
        if isinstance(s, RoutineCall):
            return self.routine_call(s)
        if isinstance(s, Loop):
            trips = None if s.trips is None else self.integer(s.trips)
            when = None if s.when is None else self.place(s.when)
            return replace(s, trips=trips, body=self.block(s.body), when=when)
        scales = (self.place(x) if isinstance(x, Place) else x for x in (s.alpha, s.beta))
        alpha, beta = scales
        return replace(
            s,
            extents=self.integers(s.extents),
            leading=self.integers(s.leading),
            places=self.places(s.places),
            alpha=alpha,
            beta=beta,
            batch=self.integers(s.batch),
            units=self.integers(s.units),
            steps=tuple([self.integers(x) for x in s.steps]),
            count=self.integer(s.count),
            panels=self.integers(s.panels),
        )

    def routine_call(self, s: RoutineCall) -> RoutineCall:
        return replace(
            s,
            places=self.places(s.places),
            status=None if s.status is None else self.place(s.status),
            arguments=self.integers(s.arguments),
            batch=self.integers(s.batch),
            units=self.integers(s.units),
            steps=tuple([self.integers(x) for x in s.steps]),
            count=self.integer(s.count),
            sizes=self.integers(s.sizes),
            strides=self.integers(s.strides),
        )


# --- text -------------------------------------------------------------------------------------------


def launches_text(of: Launches, buffers: tuple[Buffer, ...]) -> str:
    """Text of launches without the names of buffers and variables: equal for equal machine code."""
    printer = _Printer()
    lines = [f"{b.role} {printer.name(b.name)}: {b.dtype.name}" for b in buffers]
    lines += printer.block(of.steps, 0)
    lines += [f"{printer.name(name)} at {_text(n)}" for name, n in of.arena.items()]
    return "\n".join((*lines, *(f"#{n}: {text}" for text, n in printer.kernels.items())))


def _text(n: Integer) -> str:
    return f"w{n.number}" if isinstance(n, Word) else str(n)


def _texts(numbers: tuple[Integer, ...]) -> str:
    return f"({', '.join(map(_text, numbers))})"


def plan_text(kernel: Kernel, plan: Plan) -> str:
    """Text of the access checks of a kernel, by the order of its accesses."""
    if not (plan.clamped or plan.tested):
        return ""
    places = [(id(x), k) for p in kernel.phases for x in loads_and_stores(p) for k in range(len(x.indices))]
    return " ".join([f"{int(p in plan.clamped)}{plan.tested.get(p, '')}" for p in places])


class _Printer:
    """Prints steps; buffers, variables and kernels are numbered in their order."""

    def __init__(self) -> None:
        self.kernels: dict[str, int] = {}
        self.names: dict[str, str] = {}
        self.numbers: dict[int, int] = {}

    def name(self, name: str) -> str:
        return self.names.setdefault(name, f"%{len(self.names)}")

    def place(self, p: Place) -> str:
        moves = "".join([f" + {_text(by)} {self.name(var)}" for var, by in p.moves])
        return f"{self.name(p.buffer.name)}[{_text(p.offset)}{moves}{' empty' if p.is_empty else ''}]"

    def places(self, places: tuple[Place, ...]) -> str:
        return ", ".join(map(self.place, places))

    def scale(self, x: Number | Place) -> str:
        return self.place(x) if isinstance(x, Place) else repr(x)

    def kernel(self, s: Phases) -> int:
        number = self.numbers.get(id(s.kernel))
        if number is None:
            text = f"{nameless_text(s.kernel)}\n{plan_text(s.kernel, s.plan)}"
            number = self.numbers[id(s.kernel)] = self.kernels.setdefault(text, len(self.kernels))
        return number

    def block(self, steps: tuple[Step, ...], depth: int) -> list[str]:
        return [line for s in steps for line in self.step(s, depth)]

    def step(self, s: Step, depth: int) -> list[str]:
        pad = "  " * depth
        if isinstance(s, Phases):
            how = " ".join(["-" if x is None else _text(x) for x in s.by_team])
            numbers = f"{s.faults} {_texts(s.sizes)} {_texts(s.totals)} {how}"
            return [f"{pad}#{self.kernel(s)}({self.places(s.places)}) {numbers}"]
        if isinstance(s, Choice):
            head = f"{pad}if {self.place(s.condition)}:"
            return [head, *self.block(s.then, depth + 1), f"{pad}else:", *self.block(s.other, depth + 1)]
        if isinstance(s, Loop):
            trips = "" if s.trips is None else _text(s.trips)
            when = "" if s.when is None else f" while {self.place(s.when)}"
            swaps = [f"{pad}  swap {self.name(a.name)}, {self.name(b.name)}" for a, b in s.swaps]
            head = f"{pad}for {self.name(s.var)} in range({trips}){when} {int(s.often)}:"
            return [head, *self.block(s.body, depth + 1), *swaps]
        if isinstance(s, StopIf):
            return [f"{pad}stop {s.failure} if {self.place(s.condition)}"]
        if isinstance(s, RoutineCall):
            return [pad + self.routine_call(s)]
        batch = f"{_text(s.count)} {_texts(s.batch)} {_texts(s.units)} {''.join(map(_texts, s.steps))}"
        shape = f"{_texts(s.extents)} {_texts(s.leading)} {batch} {s.sharing} {_texts(s.panels)}"
        scales = f"{self.scale(s.alpha)} {self.scale(s.beta)}"
        return [f"{pad}{s.routine} {s.letters} {self.places(s.places)} {scales} {shape}"]

    def routine_call(self, s: RoutineCall) -> str:
        routine: Any = s.routine
        if isinstance(routine, routines.Function):  # its integers are those of the call
            letters = [x if isinstance(x, str | routines.Reference) else "#" for x in routine.arguments]
            routine = routine.symbol, letters, routine.roles, routine.by_reference
        status = "" if s.status is None else f"{self.place(s.status)} = "
        batch = f"{_text(s.count)} {_texts(s.batch)} {_texts(s.units)} {''.join(map(_texts, s.steps))}"
        numbers = f"{_texts(s.arguments)} {_texts(s.sizes)} {_texts(s.strides)}"
        return f"{status}{routine}({self.places(s.places)}) {batch} {numbers}"


__all__ = ["Integer", "Launches", "Word", "launches", "launches_text", "with_integers"]
