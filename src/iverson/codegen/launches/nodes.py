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

`program_launches` makes them of a program, `program_emission` prints them as LLVM IR, and `integer_arguments`
turns integers into words, so that one machine code serves programs that differ in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from iverson.codegen.execution.routines import Routine
from iverson.codegen.nests.access_checks import Plan
from iverson.codegen.nests.nodes import Buffer, Kernel
from iverson.codegen.nests.print import nameless_text
from iverson.codegen.programs.nodes import Nest, Number
from iverson.expr.symbolic_numbers import lifted


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
    is_shared : True for a Loop whose ``count`` entries threads share.
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
    is_shared: bool = False


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


def nest_key(s: Nest) -> str:
    """Text that is equal for nests with one record of faults: of a kernel, at values of its sizes."""
    text = nameless_text(s.kernel)
    return f"{text}\n{s.values}" if s.sizes else text


def are_shared(of: Launches) -> bool:
    """True if threads take part in any of the launches; of symbolic sizes it is a formula."""
    flags: list[Integer] = []
    for s in walk(of.steps):
        if isinstance(s, Phases):
            flags += [x for x in s.by_team if x is not None]
        elif isinstance(s, Gemm):
            flags.append(int(bool(s.sharing)))
        elif isinstance(s, RoutineCall):
            flags.append(int(s.is_shared))
    return lifted(_any)(*flags)


def _any(*flags: int) -> bool:
    return any(flags)


# --- other integers ---------------------------------------------------------------------------------


def with_integers(of: Launches, f: Substitution, kernels: Callable[[Phases], Phases]) -> Launches:
    """Launches with ``f(n)`` in place of each integer n of steps and places, in the order of the steps.

    0 and 1 stay, but for the iterations of phases and the flags that say whether threads share them.

    kernels : gives the phases with other integers in the kernel.
    """
    change = _Change(f, kernels)
    steps = change.block(of.steps)
    return Launches(steps, {name: f(n) if isinstance(n, int) else n for name, n in of.arena.items()})


class _Change:
    def __init__(self, f: Substitution, kernels: Callable[[Phases], Phases]) -> None:
        self.f, self.kernels = f, kernels

    def integer(self, n: Integer) -> Integer:
        return self.f(n) if isinstance(n, int) and abs(n) > 1 else n

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
            totals = tuple([self.f(n) if isinstance(n, int) else n for n in s.totals])
            flags = tuple([self.f(x) if isinstance(x, int) else x for x in s.by_team])
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
            strides=s.strides if s.is_shared else self.integers(s.strides),
        )


__all__ = [
    "Choice",
    "Gemm",
    "Integer",
    "Launches",
    "Loop",
    "Phases",
    "Place",
    "RoutineCall",
    "Step",
    "StopIf",
    "Substitution",
    "Word",
    "are_shared",
    "moving",
    "nest_key",
    "walk",
    "with_integers",
]
