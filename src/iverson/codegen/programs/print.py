"""Printer of programs: readable text, complete enough that equal text means equal programs.

The text is also what caches key on: with the names of buffers and loops numbered, and without the constants'
entries, which are arguments of the machine code.
"""

from __future__ import annotations

from collections.abc import Callable

from iverson.codegen.nests.nodes import Kernel
from iverson.codegen.nests.print import kernel_text, nameless_text
from iverson.codegen.programs.nodes import (
    Branch,
    Call,
    Nest,
    Number,
    Product,
    Program,
    Step,
    Stop,
    View,
    extents,
    walk,
)

Name = Callable[[str], str]


def program_text(program: Program) -> str:
    """The whole program, its kernels at the end."""
    return _text(program, lambda name: name, kernel_text, program.name)


def structure(program: Program) -> str:
    """The text without names: equal for programs that differ in names and constants only."""
    numbers: dict[str, str] = {}

    def name(original: str) -> str:
        return numbers.setdefault(original, f"%{len(numbers)}")

    return _text(program, name, nameless_text, "")


def _text(program: Program, name: Name, kernel: Callable[[Kernel], str], title: str) -> str:
    """Text of a program.

    name : gives the text for the name of a buffer or a variable.
    kernel : gives the text of a kernel.
    """
    kernels: dict[str, int] = {}
    numbers = {
        id(s.kernel): kernels.setdefault(kernel(s.kernel), len(kernels))
        for s in walk(program.steps)
        if isinstance(s, Nest)
    }
    lines = [f"program {title}".rstrip()]
    lines += [
        f"  {b.role} {name(b.name)}: {b.dtype.name}({', '.join(map(str, b.shape))})" for b in program.buffers
    ]
    for s in program.steps:
        lines += _step(s, 1, name, numbers)
    return "\n".join((*lines, *(f"#{n}: {text}" for text, n in kernels.items())))


def _step(s: Step, depth: int, name: Name, kernels: dict[int, int]) -> list[str]:
    """Lines for a step and the steps in it; ``kernels`` has the number of each kernel, by its id."""
    pad = "  " * depth

    def block(steps: tuple[Step, ...]) -> list[str]:
        return [line for item in steps for line in _step(item, depth + 1, name, kernels)]

    if isinstance(s, Nest):
        return [f"{pad}#{kernels[id(s.kernel)]}({', '.join(_view(v, name) for v in s.views)})"]
    if isinstance(s, Product):
        lhs, rhs = (
            f"conj({_view(v, name)})" if c else _view(v, name)
            for v, c in zip((s.left, s.right), s.conjugate, strict=True)
        )
        alpha, beta = _scale(s.alpha, name), _scale(s.beta, name)
        return [f"{pad}{_view(s.out, name)} = {alpha} * {lhs} @ {rhs} + {beta} * out"]
    if isinstance(s, Call):
        status = "" if s.status is None else f"{_view(s.status, name)} = "
        return [f"{pad}{status}{s.routine}({', '.join(_view(v, name) for v in s.views)})"]
    if isinstance(s, Stop):
        return [f"{pad}stop if {_view(s.condition, name)}: {s.failure}"]
    if isinstance(s, Branch):
        other = [f"{pad}else:", *block(s.other)] if s.other else []
        return [f"{pad}if {_view(s.condition, name)}:", *block(s.then), *other]
    trips = "" if s.trips is None else str(s.trips)
    when = "" if s.when is None else f" while {_view(s.when, name)}"
    swaps = [f"{pad}  swap {name(a.name)}, {name(b.name)}" for a, b in s.swaps]
    return [f"{pad}for {name(s.var)} in range({trips}){when}:", *block(s.body), *swaps]


def _scale(x: Number | View, name: Name) -> str:
    return _view(x, name) if isinstance(x, View) else repr(x)


def _view(v: View, name: Name) -> str:
    if v.whole and v.shape == extents(v.buffer):
        return name(v.buffer.name)
    moves = "".join(f" + {by} {name(var)}" for var, by in v.moves)
    return f"{name(v.buffer.name)}[{v.offset}{moves}; {v.shape} by {v.strides}]"


__all__ = ["program_text", "structure"]
