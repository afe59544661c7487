"""Loop bodies of a program written out as often as their work is worth (`codegen.schedule.code_size`)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from iverson.codegen.programs.nodes import Branch, Nest, Program, Repeat, Step
from iverson.codegen.schedule.code_size import in_proportion
from iverson.expr.symbolic_numbers import is_symbolic


def of_worth(program: Program) -> Program:
    """The program with code as long as its work is worth: a nest runs in each iteration of its loops."""
    return replace(program, steps=_steps(program.steps, 1))


def _steps(steps: tuple[Step, ...], times: float) -> tuple[Step, ...]:
    """The steps, which run so often in a call."""
    new_steps: list[Step] = []
    for s in steps:
        if isinstance(s, Nest):
            phases = tuple(in_proportion(p, times) for p in s.kernel.phases)
            s = replace(s, kernel=replace(s.kernel, phases=phases))
        elif isinstance(s, Repeat):
            trips = inf if s.trips is None or is_symbolic(s.trips) else s.trips
            s = replace(s, body=_steps(s.body, times * trips))
        elif isinstance(s, Branch):
            s = replace(s, then=_steps(s.then, times), other=_steps(s.other, times))
        new_steps.append(s)
    return tuple(new_steps)


__all__ = ["of_worth"]
