"""Work of a lowered program: points and bytes, counted step by step, for the kernel report and tests of cost.

A fused loop counts once, however many statements are in it, and an array that it reads for several of them
is read once: so the counts are those of the code that runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iverson.codegen.schedule.blas_contraction import Product
from iverson.codegen.schedule.visit_counts import size_of, visits
from iverson.core.protocols import NDArray
from iverson.te.ir.expressions import typical
from iverson.te.lowering.lowered_program import Fill, Interpreted, Lowered, Run, SomeProduct


@dataclass(frozen=True)
class Work:
    """Counts of work.

    points : runs of the innermost bodies of loops.
    bytes : of the buffers that steps read and write.
    """

    points: int = 0
    bytes: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.points + other.points, self.bytes + other.bytes)


def work(code: Lowered, *inputs: NDArray) -> Work:
    """Points and bytes of all steps of a program, at its sizes.

    inputs : arrays in the order of the program's inputs, for loops whose bounds are read from them.
    """
    sizes = code.values
    names = [code.buffers[t].name for t in code.program.inputs]
    arrays = dict(zip(names, inputs, strict=False))
    buffers = {b.name: b for b in (*code.buffers.values(), *code.scratch)}
    total = Work()
    for step in code.steps:
        if isinstance(step, Fill):
            total += Work(0, size_of(buffers[step.name], sizes))
        elif isinstance(step, Run):
            for phase in step.kernel.phases:
                total += Work(*visits(phase, sizes, arrays))
        elif isinstance(step, Interpreted):
            total += _interpreted(step)
        else:
            product = step.at(sizes) if isinstance(step, SomeProduct) else step
            total += _product(product)
    return total


def _product(p: Product) -> Work:
    out, lhs, rhs = (prod(s.stop - s.start for s in box) for box in p.boxes)
    entries = lhs + rhs + out * (1 if p.fresh else 2)
    return Work(prod(n for group in p.extents for n in group), entries * p.out.dtype.itemsize)


def _interpreted(step: Interpreted) -> Work:
    total = Work()
    for s in step.statements:
        tensors = [s.tensor, *dict.fromkeys(r.tensor for r in s.reads)]
        traffic = sum(prod(map(typical, t.shape)) * t.dtype.itemsize for t in tensors)
        total += Work(prod(map(typical, s.domain.extents)), traffic)
    return total
