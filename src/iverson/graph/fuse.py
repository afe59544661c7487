"""Equations as loop nests: a group of tensor expressions, lowered together, so that chains of them become one
loop.

h = x + b; y = relu(h); s = sum(y)   ->   one nest, in which h is a register
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from iverson.codegen.nodes import Buffer, Kernel, Load, Stmt, Store, expressions, statements, with_buffers
from iverson.codegen.programs import build
from iverson.codegen.programs.nodes import Nest, Step, View, whole
from iverson.expr.nodes import Const, subexpressions
from iverson.te.eliminate import eliminate
from iverson.te.lower import Fill, Lowered, Run, nests
from iverson.te.nodes import program_of

#: Makes a temp of the program: of this name, dtype and shape.
Temp = Callable[[str, Any, tuple[int, ...]], Buffer]


def steps_of(outputs: Sequence[tuple[Any, View]], inputs: dict[Any, View], temp: Temp) -> list[Step]:
    """Steps that make tensors and store each in a view.

    inputs : where the placeholders that they read are.
    """
    program = eliminate(program_of([t for t, _ in outputs]))
    lowered = nests(program)
    places = {lowered.buffers[t].name: v for t, v in inputs.items() if t in lowered.buffers}
    places |= {lowered.buffers[t].name: v for t, v in outputs}
    return _Steps(lowered, places, temp).run()


class _Steps:
    """The nests of a lowered program, one for each phase."""

    def __init__(self, lowered: Lowered, places: dict[str, View], temp: Temp) -> None:
        self.lowered, self.places, self.temp = lowered, places, temp
        self.touched: set[str] = set()
        self.steps: list[Step] = []

    def run(self) -> list[Step]:
        known = {b.name: b for b in (*self.lowered.buffers.values(), *self.lowered.scratch)}
        for step in self.lowered.steps:
            if isinstance(step, Fill):
                self.fill(known[step.name], step.value)
            else:
                assert isinstance(step, Run), "an expression that does not compile"
                for phase in step.kernel.phases:
                    self.phase(phase)
        return self.steps

    def view(self, b: Buffer) -> View:
        if b.name not in self.places:
            shape = tuple(n for n in b.shape if isinstance(n, int))
            self.places[b.name] = whole(self.temp(b.name, b.dtype, shape))
        return self.places[b.name]

    def fill(self, b: Buffer, value: Any) -> None:
        self.touched.add(b.name)
        self.steps.append(
            build.elementwise(self.view(b), Const(np.dtype(b.dtype).type(value).item(), b.dtype), {})
        )

    def phase(self, phase: Stmt) -> None:
        """A nest; what it is the first to touch, and does not read, it makes."""
        stored: dict[str, Buffer] = {}
        loaded: dict[str, Buffer] = {}
        combined: set[str] = set()
        for s in statements((phase,)):
            if isinstance(s, Store):
                stored[s.buffer.name] = s.buffer
                combined |= {s.buffer.name} if s.combine != "assign" else set()
            for e in expressions(s):
                loaded |= {x.buffer.name: x.buffer for x in subexpressions(e) if isinstance(x, Load)}
        fresh = stored.keys() - loaded.keys() - combined - self.touched
        self.touched |= stored.keys()
        final = {}
        for name, b in (loaded | stored).items():
            role = "out" if name in fresh else "inout" if name in stored else "in"
            final[name] = replace(b, role=role)
        kernel = Kernel("te", tuple(final.values()), (with_buffers(phase, final),))
        self.steps.append(Nest(kernel, tuple(self.view(b) for b in final.values())))


__all__ = ["Temp", "steps_of"]
