"""Loop carries in place: the step that computes the next value of a carry writes over the last one.

    for t: ...; y = f(x, ...); swap x, y   ->   for t: ...; x = f(x, ...)

It may if each entry of x is read only to make the entry of y at its place, or if x is not read from there on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from iverson.codegen.nests.nodes import Buffer
from iverson.codegen.programs.in_place_kernels import is_pointwise, over
from iverson.codegen.programs.nodes import (
    Branch,
    Nest,
    Product,
    Program,
    Repeat,
    Step,
    View,
    is_zero,
    mapped,
    uses,
    walk,
    writes,
)


def in_one_place(program: Program) -> Program:
    """The program with carries of loops updated in place where they can be: it has fewer swaps."""
    if not any(isinstance(s, Repeat) and s.swaps for s in walk(program.steps)):
        return program
    return _Carries(program).run()


class _Carries:
    """Rewriting of a program's loops so that carries are updated in place.

    merged : buffers that are no longer needed.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.use_counts = uses(program.steps)
        loops = [s for s in walk(program.steps) if isinstance(s, Repeat)]
        self.exchanged = Counter(b for s in loops for pair in s.swaps for b in pair)
        self.merged: set[Buffer] = set()

    def run(self) -> Program:
        steps = self.block(self.program.steps)
        buffers = tuple(b for b in self.program.buffers if b not in self.merged)
        return replace(self.program, buffers=buffers, steps=steps)

    def block(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        new_steps: list[Step] = []
        for s in steps:
            if isinstance(s, Branch):
                s = replace(s, then=self.block(s.then), other=self.block(s.other))
            elif isinstance(s, Repeat):
                s = self.repeat(replace(s, body=self.block(s.body)))
            new_steps.append(s)
        return tuple(new_steps)

    def repeat(self, s: Repeat) -> Repeat:
        """The loop without the swaps of those carries whose next value can be written over the last one."""
        body, swaps = s.body, []
        body_counts = uses(body)
        condition = None if s.when is None else s.when.buffer
        for x, y in s.swaps:
            is_private = (
                body_counts[y] + 1 == self.use_counts[y] and self.exchanged[x] == self.exchanged[y] == 1
            )
            new_body = _over_last(body, x, y) if is_private and condition not in (x, y) else None
            if new_body is None:
                swaps.append((x, y))
            else:
                body = new_body
                self.merged.add(y)
        return replace(s, body=body, swaps=tuple(swaps))


def _over_last(body: tuple[Step, ...], x: Buffer, y: Buffer) -> tuple[Step, ...] | None:
    """Steps of a loop with ``x`` in place of ``y``, where y is the next value of the carry x.

    None if x is read after y is begun, or if y is not made whole by one step.
    """
    at = next((k for k, s in enumerate(body) if uses((s,))[y]), None)
    if at is None or uses(body[at + 1 :])[x] or any(x in writes(s) for s in body[:at]):
        return None
    step = body[at]
    if isinstance(step, Nest):
        new_step: Step | None = _nest(step, x, y)
    elif isinstance(step, Product) and is_zero(step.beta) and step.out.whole and uses((step,))[y] == 1:
        new_step = None if uses((step,))[x] else step
    else:
        new_step = None
    if new_step is None:
        return None

    def instead(v: View) -> View:
        return replace(v, buffer=x) if v.buffer == y else v

    return (*body[:at], *(mapped(s, instead) for s in (new_step, *body[at + 1 :])))


def _nest(s: Nest, x: Buffer, y: Buffer) -> Nest | None:
    """The step that makes y whole, with one view of both if it reads x; None if it cannot write over x."""
    views = dict(zip(s.kernel.buffers, s.views, strict=True))
    outs = [b for b, v in views.items() if v.buffer == y]
    olds = [b for b, v in views.items() if v.buffer == x]
    if len(outs) != 1 or outs[0].role != "out" or not views[outs[0]].whole:
        return None
    if not olds:
        return s
    out, old = outs[0], olds[0]
    alike = (old.shape, old.dtype, old.role) == (out.shape, out.dtype, "in") and views[old].whole
    if len(olds) > 1 or not alike or not is_pointwise(s.kernel, old.name, out.name):
        return None
    return Nest(over(s.kernel, old, out), tuple(v for b, v in views.items() if b is not old))


__all__ = ["in_one_place"]
