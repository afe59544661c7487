"""One native call for a whole lowered program, as a small program takes less time than a call of each step.

Its loop nests, fills and products are steps of a program (`iverson.codegen.programs`): temporaries have
places in an arena, and long loops are shared by threads that wait in native code. These steps keep a call of
their own: those of sizes that a call gives, very long scatters, which threads share by looking at where they
write (`docs/decisions/0014`), and what is interpreted (`docs/decisions/0106`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from iverson.codegen.launches import CompiledProgram, compile_program
from iverson.codegen.nests.nodes import (
    Buffer,
    Kernel,
    Load,
    Stmt,
    Store,
    expressions,
    statements,
    with_buffers,
)
from iverson.codegen.nests.phase_cost import cost, is_worth_threads
from iverson.codegen.programs import Nest, Product, Program, View, blas_calls, step_builders
from iverson.codegen.programs.nodes import Step, c_strides, extents, whole
from iverson.codegen.schedule import blas_contraction
from iverson.codegen.schedule.parallel_scatter import shared
from iverson.core.counting import work
from iverson.core.protocols import DType
from iverson.expr.nodes import Const, subexpressions

Array = np.ndarray[Any, Any]
#: How many times longer than other loops a scatter is that threads share: called alone, it is looked at
#: first, keys are sorted or copies made and combined, and Python's threads start, which takes some 200 us.
LONG = 100
#: Makes a temp of the program: of this name, dtype and shape.
Temp = Callable[[str, DType, tuple[int, ...]], Buffer]


class OneCall:
    """A program of steps as machine code; ``run`` takes arrays that fit, and returns the outputs.

    It raises IndexingError if an index that is used is outside its buffer.

    products : rows, inner, columns and batch of the matrix products of a call, which are counted as work.
    """

    def __init__(self, compiled: CompiledProgram, products: Sequence[tuple[int, int, int, int]]) -> None:
        self.compiled, self.products = compiled, products
        self.run = self._counted if products else compiled.run

    def _counted(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        for sizes in self.products:
            work.product(*sizes)
        return self.compiled.run(arrays)


def one_call(
    steps: Sequence[Any], inputs: Sequence[Buffer], outputs: Sequence[Buffer], internals: Sequence[Buffer]
) -> OneCall | None:
    """Lowered steps as one native call; None if a call for each step is better.

    inputs, outputs, internals : the buffers, all of constant shapes; internals live for a call.
    """
    names = [b.name for b in (*inputs, *outputs)]
    if len(set(names)) < len(names) or not all(map(_is_short, steps)):
        return None
    program_buffers = [*(replace(b, role="in") for b in inputs), *(replace(b, role="out") for b in outputs)]
    places = {b.name: whole(b) for b in program_buffers}

    def temp(name: str, dtype: DType, shape: tuple[int, ...]) -> Buffer:
        program_buffers.append(Buffer(name, dtype, shape, "temp"))
        return program_buffers[-1]

    buffer_of = {b.name: b for b in (*inputs, *outputs, *internals)}
    program_steps = Steps(buffer_of, places, temp).run(steps)
    if program_steps is None:
        return None
    products = [tuple(prod(e) for e in s.extents) for s in steps if isinstance(s, blas_contraction.Product)]
    program = Program("te", tuple(program_buffers), tuple(program_steps))
    sizes = [(rows, inner, columns, batch) for batch, rows, inner, columns in products]
    return OneCall(compile_program(program), sizes)


def _is_short(step: Any) -> bool:
    """True if a step loses nothing as a part of a program: no sizes, and no phase that gains alone."""
    kernel: Kernel | None = getattr(step, "kernel", None)
    if kernel is None:
        return isinstance(step, blas_contraction.Product) or hasattr(step, "value")
    return not kernel.sizes and not any(map(_gains_alone, kernel.phases))


def _gains_alone(phase: Stmt) -> bool:
    """True if a phase is long, and threads can share it only if it is called by itself."""
    return bool(shared(phase)) and is_worth_threads(phase, cost(phase, {}) / LONG)


class Steps:
    """Translation of lowered steps to steps of one program, a nest for each phase.

    buffers : the buffers of the steps, by name.
    places : views of the buffers that exist already, by name.
    temp : makes a temporary buffer of the program.
    """

    def __init__(self, buffers: Mapping[str, Buffer], places: dict[str, View], temp: Temp) -> None:
        self.buffers, self.places, self.temp = buffers, places, temp
        self.touched: set[str] = set()
        self.steps: list[Step] = []

    def run(self, steps: Sequence[Any]) -> list[Step] | None:
        """Steps of the program; None if a step cannot be one of them."""
        for step in steps:
            if hasattr(step, "kernel"):
                for phase in step.kernel.phases:
                    self.phase(phase)
            elif isinstance(step, blas_contraction.Product):
                if not self.product(step):
                    return None
            elif hasattr(step, "value"):
                self.fill(self.buffers[step.name], step.value)
            else:
                return None
        return self.steps

    def view(self, b: Buffer) -> View:
        """View of a buffer's memory, in the buffer's shape."""
        if b.name not in self.places:
            self.places[b.name] = whole(self.temp(b.name, b.dtype, extents(b)))
        v, shape = self.places[b.name], extents(b)
        return v if v.shape == shape else replace(v, shape=shape, strides=c_strides(shape))

    def fill(self, b: Buffer, value: float) -> None:
        self.touched.add(b.name)
        self.steps.append(
            step_builders.elementwise(self.view(b), Const(np.dtype(b.dtype).type(value).item(), b.dtype), {})
        )

    def product(self, p: blas_contraction.Product) -> bool:
        """Add a product of BLAS; False if BLAS does not take the arrays in their memory order, else True."""
        out_box, left_box, right_box = p.boxes
        out = _matrices(_part(self.view(p.out), out_box), p.out_axes)
        lhs = _matrices(_part(self.view(p.left), left_box), p.left_axes)
        rhs = _matrices(_part(self.view(p.right), right_box), p.right_axes)
        if out is None or lhs is None or rhs is None:
            return False
        step = step_builders.product(out, lhs, rhs, beta=0 if p.fresh else 1)
        if isinstance(step, Product) and blas_calls.call(step) is None:
            return False
        self.touched.add(p.out.name)
        self.steps.append(step)
        return True

    def phase(self, phase: Stmt) -> None:
        """Add a nest for a phase. A buffer that no step wrote before is an output of the nest alone.

        The nest reads nothing from such a buffer that it has not written.
        """
        stores: dict[str, Buffer] = {}
        loads: dict[str, Buffer] = {}
        for s in statements((phase,)):
            if isinstance(s, Store):
                stores[s.buffer.name] = s.buffer
            for e in expressions(s):
                loads |= {x.buffer.name: x.buffer for x in subexpressions(e) if isinstance(x, Load)}
        fresh = stores.keys() - self.touched
        self.touched |= stores.keys()
        final = {}
        for name, b in (loads | stores).items():
            role = "out" if name in fresh else "inout" if name in stores else "in"
            final[name] = replace(b, role=role)
        kernel = Kernel("te", tuple(final.values()), (with_buffers(phase, final),))
        self.steps.append(Nest(kernel, tuple(self.view(b) for b in final.values())))


def _part(v: View, box: tuple[slice, ...]) -> View:
    """View of the entries in a box."""
    offset = v.offset + sum(s.start * stride for s, stride in zip(box, v.strides, strict=True))
    return replace(v, shape=tuple(s.stop - s.start for s in box), offset=offset)


def _matrices(v: View, groups: tuple[tuple[int, ...], ...]) -> View | None:
    """View with one axis for each group of axes; None if the axes of a group have no common stride.

    The first group is the batch: if it is empty or of extent 1, it has no axis.
    """
    shape: list[int] = []
    strides: list[int] = []
    for k, group in enumerate(groups):
        axes = [a for a in group if v.shape[a] != 1]
        for a, b in pairwise(axes):
            if v.strides[a] != v.shape[b] * v.strides[b]:
                return None
        if k or axes:  # no batch, no axis
            shape.append(prod(v.shape[a] for a in axes))
            strides.append(v.strides[axes[-1]] if axes else 1)
    return replace(v, shape=tuple(shape), strides=tuple(strides))
