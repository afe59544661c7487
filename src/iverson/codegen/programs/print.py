"""Printer of programs: readable text, complete enough that equal text means equal programs."""

from __future__ import annotations

from iverson.codegen.nests.print import kernel_text
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


def program_text(program: Program) -> str:
    """The whole program, its kernels at the end."""
    kernels: dict[str, int] = {}
    numbers = {
        id(s.kernel): kernels.setdefault(kernel_text(s.kernel), len(kernels))
        for s in walk(program.steps)
        if isinstance(s, Nest)
    }
    lines = [f"program {program.name}".rstrip()]
    lines += [f"  {b.role} {b.name}: {b.dtype.name}({', '.join(map(str, b.shape))})" for b in program.buffers]
    for s in program.steps:
        lines += _step(s, 1, numbers)
    return "\n".join((*lines, *(f"#{n}: {text}" for text, n in kernels.items())))


def _step(s: Step, depth: int, kernels: dict[int, int]) -> list[str]:
    """Lines for a step and the steps in it; ``kernels`` has the number of each kernel, by its id."""
    pad = "  " * depth

    def block(steps: tuple[Step, ...]) -> list[str]:
        return [line for item in steps for line in _step(item, depth + 1, kernels)]

    if isinstance(s, Nest):
        values = [f"{name}={n}" for name, n in s.values.items()]
        return [f"{pad}#{kernels[id(s.kernel)]}({', '.join([*map(_view, s.views), *values])})"]
    if isinstance(s, Product):
        lhs, rhs = (
            f"conj({_view(v)})" if c else _view(v)
            for v, c in zip((s.left, s.right), s.conjugate, strict=True)
        )
        alpha, beta = _scale(s.alpha), _scale(s.beta)
        return [f"{pad}{_view(s.out)} = {alpha} * {lhs} @ {rhs} + {beta} * out"]
    if isinstance(s, Call):
        status = "" if s.status is None else f"{_view(s.status)} = "
        return [f"{pad}{status}{s.routine}({', '.join(map(_view, s.views))})"]
    if isinstance(s, Stop):
        return [f"{pad}stop if {_view(s.condition)}: {s.failure}"]
    if isinstance(s, Branch):
        other = [f"{pad}else:", *block(s.other)] if s.other else []
        return [f"{pad}if {_view(s.condition)}:", *block(s.then), *other]
    trips = "" if s.trips is None else str(s.trips)
    when = "" if s.when is None else f" while {_view(s.when)}"
    swaps = [f"{pad}  swap {a.name}, {b.name}" for a, b in s.swaps]
    return [f"{pad}for {s.var} in range({trips}){when}:", *block(s.body), *swaps]


def _scale(x: Number | View) -> str:
    return _view(x) if isinstance(x, View) else repr(x)


def _view(v: View) -> str:
    if v.whole and v.shape == extents(v.buffer):
        return v.buffer.name
    moves = "".join(f" + {by} {var}" for var, by in v.moves)
    return f"{v.buffer.name}[{v.offset}{moves}; {v.shape} by {v.strides}]"


__all__ = ["program_text"]
