"""Printer of launches, without names of buffers and variables: equal text means equal machine code."""

from __future__ import annotations

from typing import Any

from iverson.codegen.execution import routines
from iverson.codegen.launches.nodes import (
    Choice,
    Integer,
    Launches,
    Loop,
    Phases,
    Place,
    RoutineCall,
    Step,
    StopIf,
    Word,
)
from iverson.codegen.nests.access_checks import Plan
from iverson.codegen.nests.nodes import Buffer, Kernel, loads_and_stores
from iverson.codegen.nests.print import nameless_text
from iverson.codegen.programs.nodes import Number


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
        numbers = f"{_texts(s.arguments)} {_texts(s.sizes)} {_texts(s.strides)} {int(s.is_shared)}"
        return f"{status}{routine}({self.places(s.places)}) {batch} {numbers}"


__all__ = ["launches_text"]
