"""Native calls for the steps of a lowered program: loop nests, fills and products are steps of one program.

Temporaries have places in its arena, and long loops are shared by threads that wait in native code
(`iverson.codegen.programs`). What the interpreter does stands between two programs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from iverson.codegen.launches import CompiledProgram, compile_program
from iverson.codegen.launches.integer_arguments import CodeSharing
from iverson.codegen.nests.nodes import (
    Buffer,
    Kernel,
    Load,
    Loop,
    Size,
    Store,
    Var,
    buffers_of,
    shape_at,
    statements,
    with_buffers,
)
from iverson.codegen.programs import Nest, Product, Program, View, blas_calls, step_builders
from iverson.codegen.programs.nodes import Step, c_strides, whole
from iverson.codegen.schedule import blas_contraction
from iverson.core.counting import work
from iverson.core.protocols import DType
from iverson.expr.nodes import Const

Array = np.ndarray[Any, Any]
#: Makes a temp of the program: of this name, dtype and shape.
Temp = Callable[[str, DType, tuple[int, ...]], Buffer]


@dataclass(frozen=True, eq=False)
class NativeCall:
    """A program of steps as machine code, which takes the arrays ``reads`` and makes the arrays ``makes``.

    products : rows, inner, columns and batch of the matrix products of a call, which are counted as work.
    """

    compiled: CompiledProgram
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    products: tuple[tuple[int, int, int, int], ...]

    def run(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Outputs for arrays that fit; IndexingError if an index that is used is outside its buffer."""
        for sizes in self.products:
            work.product(*sizes)
        return self.compiled.run(arrays)


def native_call(
    steps: Sequence[Any],
    buffers: Mapping[str, Buffer],
    roles: Mapping[str, str],
    values: Mapping[str, int],
    sharing: CodeSharing | None,
    threads: int | None,
) -> NativeCall:
    """Lowered steps as one native call.

    buffers : all that the steps touch, by name, of constant shapes. roles : of those that live longer than
    the call. values : of the sizes in kernels. sharing, threads : as of `compile_program`.
    """
    program_buffers = [replace(buffers[name], role=role) for name, role in roles.items()]
    places = {b.name: whole(b) for b in program_buffers}

    def temp(name: str, dtype: DType, shape: tuple[int, ...]) -> Buffer:
        program_buffers.append(Buffer(name, dtype, shape, "temp"))
        return program_buffers[-1]

    program_steps = Steps(buffers, places, temp, values).run(steps)
    program = Program("te", tuple(program_buffers), tuple(program_steps))
    products = [tuple(prod(e) for e in s.extents) for s in steps if isinstance(s, blas_contraction.Product)]
    return NativeCall(
        compile_program(program, sharing=sharing, threads=threads),
        tuple([b.name for b in program.of("in", "inout")]),
        tuple([b.name for b in program.of("out")]),
        tuple([(rows, inner, columns, batch) for batch, rows, inner, columns in products]),
    )


class Steps:
    """Translation of lowered steps to steps of one program, a nest for each phase.

    buffers : the buffers of the steps, by name.
    places : views of the buffers that exist already, by name.
    temp : makes a temporary buffer of the program.
    values : of the sizes in kernels.
    """

    def __init__(
        self,
        buffers: Mapping[str, Buffer],
        places: dict[str, View],
        temp: Temp,
        values: Mapping[str, int] | None = None,
    ) -> None:
        self.buffers, self.places, self.temp = buffers, places, temp
        self.values = values or {}
        self.touched: set[str] = set()
        self.steps: list[Step] = []

    def run(self, steps: Sequence[Any]) -> list[Step]:
        """Steps of the program."""
        for step in steps:
            if hasattr(step, "kernel"):
                for k in range(len(step.kernel.phases)):
                    self.phase(step.kernel, k)
            elif isinstance(step, blas_contraction.Product):
                self.product(step)
            else:
                self.fill(self.buffers[step.name], step.value)
        return self.steps

    def view(self, b: Buffer) -> View:
        """View of a buffer's memory, in the buffer's shape."""
        shape = shape_at(b, self.values)
        if b.name not in self.places:
            self.places[b.name] = whole(self.temp(b.name, b.dtype, shape))
        v = self.places[b.name]
        return v if v.shape == shape else replace(v, shape=shape, strides=c_strides(shape))

    def fill(self, b: Buffer, value: float) -> None:
        self.touched.add(b.name)
        view, number = self.view(b), Const(np.dtype(b.dtype).type(value).item(), b.dtype)
        if not self.values:
            self.steps.append(step_builders.elementwise(view, number, {}))
            return
        flat = Buffer("out", b.dtype, ("z",), "out")
        loop = Loop("i", Const(0), Size("z"), (Store(flat, (Var("i"),), number),), mark="vector")
        count = prod(view.shape)
        line = replace(view, shape=(count,), strides=(1,))
        self.steps.append(Nest(Kernel("fill", (flat,), (loop,), ("z",)), (line,), (count,)))

    def product(self, p: blas_contraction.Product) -> None:
        """Add a product of BLAS, with copies of arrays whose memory order BLAS does not take."""
        views = [_part(self.view(b), x) for b, x in zip((p.out, p.left, p.right), p.boxes, strict=True)]
        groups = p.out_axes, p.left_axes, p.right_axes
        self.touched.add(p.out.name)
        matrices = [_matrices(v, axes) for v, axes in zip(views, groups, strict=True)]
        out, lhs, rhs = matrices
        if out is not None and lhs is not None and rhs is not None:
            step = step_builders.product(out, lhs, rhs, beta=0 if p.fresh else 1)
            if not isinstance(step, Product) or blas_calls.call(step) is not None:
                self.steps.append(step)
                return
        in_order = [_in_order(v, axes) for v, axes in zip(views, groups, strict=True)]
        names = [f"{p.out.name}.{kind}{len(self.steps)}" for kind in ("product", "left", "right")]
        copies = [whole(self.temp(n, v.buffer.dtype, v.shape)) for n, v in zip(names, in_order, strict=True)]
        batch, rows, inner, columns = (prod(e) for e in p.extents)
        lead = (batch,) if batch != 1 else ()
        shapes = [(*lead, *x) for x in ((rows, columns), (rows, inner), (inner, columns))]
        out, lhs, rhs = (
            replace(v, shape=x, strides=c_strides(x)) for v, x in zip(copies, shapes, strict=True)
        )
        result, at = step_builders.as_buffer("x", copies[0]), step_builders.axes(copies[0].shape)
        combine = "assign" if p.fresh else "sum"
        self.steps += [
            *(step_builders.copy(v, of) for v, of in zip(copies[1:], in_order[1:], strict=True)),
            step_builders.product(out, lhs, rhs),
            step_builders.elementwise(
                in_order[0], Load(result, step_builders.variables(at)), {"x": copies[0]}, combine
            ),
        ]

    def phase(self, kernel: Kernel, k: int) -> None:
        """Add a nest for a phase. A buffer that no step wrote before is an output of the nest alone.

        The nest reads nothing from such a buffer that it has not written.
        """
        stores = {s.buffer.name for s in statements((kernel.phases[k],)) if isinstance(s, Store)}
        fresh = stores - self.touched
        self.touched |= stores
        key = f"nest {k} {sorted(fresh)}"
        if key not in kernel.once:  # for all sizes
            kernel.once[key] = _nest_kernel(kernel, k, stores, fresh)
        nest: Kernel = kernel.once[key]
        values = tuple([self.values[name] for name in nest.sizes])
        self.steps.append(Nest(nest, tuple(map(self.view, nest.arguments)), values))


def _nest_kernel(kernel: Kernel, k: int, stores: Collection[str], fresh: Collection[str]) -> Kernel:
    """Kernel of one phase.

    stores, fresh : names of the buffers that it writes, and of those among them that hold nothing before.
    """
    final = {}
    for b in buffers_of(kernel, k):
        role = "out" if b.name in fresh else "inout" if b.name in stores else "in"
        # What is planned for any size keeps memory for the rows at hand.
        final[b.name] = b if kernel.sizes and b.role == "row" else replace(b, role=role)
    return Kernel("te", tuple(final.values()), (with_buffers(kernel.phases[k], final),), kernel.sizes)


def _in_order(v: View, groups: tuple[tuple[int, ...], ...]) -> View:
    """View with its axes in the order of the groups."""
    order = [a for group in groups for a in group]
    return replace(v, shape=tuple([v.shape[a] for a in order]), strides=tuple([v.strides[a] for a in order]))


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
