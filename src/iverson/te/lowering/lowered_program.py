"""Lowered programs: the steps over buffers that statements are lowered to, and their execution on arrays.

Steps are phases of loop nests, matrix products given to BLAS, fills, and, for what does not compile (a few
derivatives of special functions), the interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.codegen.execution.kernel import CompiledKernel, compile_kernel
from iverson.codegen.nests import nodes
from iverson.codegen.nests.integer_bounds import Scope, affine
from iverson.codegen.nests.nodes import Buffer, Kernel
from iverson.codegen.nests.task import Task
from iverson.codegen.runtime import workspaces
from iverson.codegen.schedule import blas_contraction
from iverson.core.errors import ArgumentError, IndexingError, ShapeError
from iverson.core.float_warnings import at_user_line
from iverson.core.python.cached import cached_property
from iverson.expr.nodes import Const, Expr, changed
from iverson.te.elimination.nest_translation import Sizes
from iverson.te.ir import interpret
from iverson.te.ir.expressions import Tensor, Var
from iverson.te.ir.nodes import Program, Statement, recurrence_of, tensors_of
from iverson.te.lowering import index_errors
from iverson.te.lowering.native_call import OneCall, one_call

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Fill:
    """Step that sets all entries of the array ``name`` to ``value``, at which a reduction starts."""

    name: str
    value: Any
    label: str = ""


@dataclass(frozen=True, eq=False)
class Run:
    """Step that runs a kernel on the arrays with the names of its buffers."""

    kernel: Kernel

    @cached_property
    def compiled(self) -> CompiledKernel:
        """Machine code of the kernel, compiled at its first use; within a larger program it is not needed."""
        return compile_kernel(self.kernel)


@dataclass(frozen=True, eq=False)
class Interpreted:
    """Step in which the interpreter runs a statement, or the statements of a recurrence."""

    statements: tuple[Statement, ...]

    @at_user_line
    def run(self, values: dict[Tensor, Array]) -> None:
        """Run the statements on the arrays of their tensors, in place."""
        recurrence = recurrence_of(self.statements[0].tensor)
        if recurrence is not None:
            interpret.run_steps(recurrence, self.statements, values)
        else:
            for s in self.statements:
                interpret.run_statement(s, values)


@dataclass(frozen=True, eq=False)
class SomeProduct:
    """Step for a matrix product whose extents are only known at a call."""

    task: Task

    def at(self, sizes: Mapping[str, int]) -> blas_contraction.Product:
        """Product of BLAS for these values of the sizes."""
        product = blas_contraction.product(task_at(self.task, sizes), any_size=True)
        assert product is not None, "what is a product at some sizes is one at all"
        return product


Step = Fill | Run | Interpreted | blas_contraction.Product | SomeProduct


@dataclass(frozen=True, eq=False)
class Lowered:
    """A compiled program: ``lowered(*inputs)`` gives the outputs as new arrays.

    source : all its loop nests and products as pseudo-code.
    scratch : arrays that live for a call and stand for no tensor.
    sizes : the program's sizes that are not bound, with their names in kernels; `at` binds them.
    values : the bound values of these sizes.
    said : an equal program whose names are used in messages, if it is not ``program``.
    """

    program: Program
    steps: tuple[Step, ...]
    buffers: dict[Tensor, Buffer]
    scratch: tuple[Buffer, ...] = ()
    sizes: Sizes = field(default_factory=Sizes)
    values: Mapping[str, int] = field(default_factory=dict)
    said: Program | None = None
    _once: dict[str, OneCall | None] = field(default_factory=dict)

    def said_as(self, program: Program) -> Lowered:
        """The same code, with the names of ``program``, which is equal but for names, in messages."""
        return self if program is self.program else replace(self, said=program)

    def at(self, sizes: Mapping[Var, int]) -> Lowered:
        """The same code for calls on arrays of these sizes."""
        values = self.sizes.at(sizes)
        buffers = {t: _buffer_at(b, values) for t, b in self.buffers.items()}
        steps = tuple(s.at(values) if isinstance(s, SomeProduct) else s for s in self.steps)
        scratch = tuple(_buffer_at(b, values) for b in self.scratch)
        return replace(self, steps=steps, buffers=buffers, scratch=scratch, values=values, _once={})

    def __call__(
        self,
        *inputs: ArrayLike,
        threads: int | None = None,
        operation: str = "te",
        names: Sequence[str] | None = None,
    ) -> tuple[Array, ...]:
        """Outputs for arrays in the order of ``program.inputs``.

        operation, names : names of the call and of its inputs in messages (default: as in ``program``).
        Raises ShapeError if an array does not fit and IndexingError for an index out of range.
        """
        return self.run(self._inputs(inputs), threads, operation, names)

    def run(
        self,
        arrays: tuple[Array, ...],
        threads: int | None = None,
        operation: str = "te",
        names: Sequence[str] | None = None,
    ) -> tuple[Array, ...]:
        """Outputs as of `__call__`; the arrays must have the shapes and dtypes of the inputs."""
        try:
            if threads is None and (single_call := self.whole) is not None:
                return single_call.run(arrays)
            return self._by_steps(arrays, threads)
        except IndexingError as error:
            program = self.said or self.program
            values: dict[Tensor, Array] = dict(zip(program.inputs, arrays, strict=True))
            numbered_sizes = Sizes(program.sizes)  # numbered as they were
            sizes = {v: self.values[name] for v, name in numbered_sizes.names.items()}
            raise index_errors.of_definition(
                error, program, values, sizes, self._called(), operation, names
            ) from None

    def _called(self) -> dict[str, dict[str, None]]:
        """For each buffer, by name, the names of the tensors that it holds one after the other.

        They are the keys of a dictionary, in order.
        """
        program = self.said or self.program
        counterpart = dict(zip(tensors_of(self.program), tensors_of(program), strict=False))
        tensor_names: dict[str, dict[str, None]] = {}
        for t, b in self.buffers.items():
            tensor_names.setdefault(b.name, {})[counterpart.get(t, t).name] = None
        return tensor_names

    @cached_property
    def whole(self) -> OneCall | None:
        """The program as one native call, shared by equal programs; None if calls of its steps are better."""
        if "whole" not in self._once:
            self._once["whole"] = self._as_one_call()
        return self._once["whole"]

    def _as_one_call(self) -> OneCall | None:
        outputs = [self.buffers[t] for t in self.program.outputs]
        inputs = [self.buffers[t] for t in self.program.inputs]
        external_names = {b.name for b in (*inputs, *outputs)}
        internal_buffers = {
            b.name: b for b in (*self.buffers.values(), *self.scratch) if b.name not in external_names
        }
        return one_call(self.steps, inputs, outputs, tuple(internal_buffers.values()))

    def _by_steps(self, inputs: tuple[Array, ...], threads: int | None) -> tuple[Array, ...]:
        """Outputs, computed by a call for each step."""
        dense = [a if a.flags.c_contiguous and a.flags.aligned else np.array(a, order="C") for a in inputs]
        arrays = {self.buffers[t].name: a for t, a in zip(self.program.inputs, dense, strict=True)}
        values: dict[Tensor, Array] = {}
        output_names = {self.buffers[t].name for t in self.program.outputs}
        passing: list[Array] = []
        for tensor, b in self.buffers.items():
            if b.name in self._rows:
                continue
            if b.name not in arrays and b.name in output_names:
                arrays[b.name] = np.empty(_shape(b), b.dtype)
            elif b.name not in arrays:
                arrays[b.name] = workspaces.take(_shape(b), b.dtype)
                passing.append(arrays[b.name])
            values[tensor] = arrays[b.name]
        for b in self.scratch:
            if b.name in self._rows:
                continue
            arrays[b.name] = workspaces.take(_shape(b), b.dtype)
            passing.append(arrays[b.name])
        for step in self.steps:
            self._run(step, arrays, values, threads)
        workspaces.give_back(passing)
        return tuple(values[t] for t in self.program.outputs)

    def _run(
        self, step: Step, arrays: dict[str, Array], values: dict[Tensor, Array], threads: int | None
    ) -> None:
        if isinstance(step, Fill):
            arrays[step.name][...] = step.value
        elif isinstance(step, Run):
            step.compiled.run([arrays[b.name] for b in step.kernel.arguments], self.values, threads)
        elif isinstance(step, blas_contraction.Product):
            step.run(arrays)
        elif isinstance(step, SomeProduct):
            step.at(self.values).run(arrays)
        else:
            step.run(values)

    @property
    def source(self) -> str:
        return "\n".join(_step_text(s) for s in self.steps)

    def _inputs(self, inputs: Sequence[ArrayLike]) -> tuple[Array, ...]:
        """Inputs as arrays of the right dtypes; an error is raised for a wrong number or shape."""
        if len(inputs) != len(self._taken):
            raise ArgumentError("te", got=f"{len(inputs)} inputs", expected=str(len(self._taken)))
        arrays: list[Any] = list(inputs)
        for k, (shape, dtype) in enumerate(self._taken):
            array = arrays[k]
            if type(array) is not np.ndarray or array.dtype != dtype:
                array = arrays[k] = np.asarray(array, dtype)
            if array.shape != shape:
                name = self.program.inputs[k].name
                raise ShapeError("te", name, got=f"shape {array.shape}", expected=f"shape {shape}")
        return tuple(arrays)

    @cached_property
    def _rows(self) -> frozenset[str]:
        """Names of buffers with memory for the current rows only."""
        buffers = (b for s in self.steps if isinstance(s, Run) for b in s.kernel.buffers)
        return frozenset(b.name for b in buffers if b.role == "row")

    @cached_property
    def _taken(self) -> tuple[tuple[tuple[int, ...], Any], ...]:
        """Shape and dtype of each input."""
        return tuple([(_shape(b), b.dtype) for b in map(self.buffers.__getitem__, self.program.inputs)])


def _shape(b: Buffer) -> tuple[int, ...]:
    return tuple(n for n in b.shape if isinstance(n, int))


def _buffer_at(b: Buffer, sizes: Mapping[str, int]) -> Buffer:
    """A buffer with the extents it has at these sizes."""
    return replace(b, shape=tuple(sizes[n] if isinstance(n, str) else n for n in b.shape))


def task_at(task: Task, sizes: Mapping[str, int]) -> Task:
    """The task with the values of ``sizes`` in place of sizes."""

    def at(e: Expr) -> Expr:
        if isinstance(e, nodes.Size):
            return Const(sizes[e.name])
        return nodes.Load(_buffer_at(e.buffer, sizes), e.indices) if isinstance(e, nodes.Load) else e

    def number(e: Expr) -> Expr:
        form = affine(changed(e, at), Scope())
        return e if form.terms else Const(form.const)

    axes = tuple(replace(a, lower=number(a.lower), upper=number(a.upper)) for a in task.axes)
    return replace(task, out=_buffer_at(task.out, sizes), value=changed(task.value, at), axes=axes)


def touched_by(step: Step, buffers: Mapping[Tensor, Buffer]) -> set[str]:
    """Names of the buffers that a step reads or writes."""
    if isinstance(step, Fill):
        return {step.name}
    if isinstance(step, Run):
        return {b.name for b in step.kernel.buffers}
    if isinstance(step, Interpreted):
        tensors = {t for s in step.statements for t in (s.tensor, *(r.tensor for r in s.reads))}
        return {buffers[t].name for t in tensors}
    if isinstance(step, SomeProduct):
        return {step.task.out.name, *(x.buffer.name for x in step.task.loads)}
    return {step.out.name, step.left.name, step.right.name}


def _step_text(step: Step) -> str:
    if isinstance(step, Fill):
        return f"{step.name}[...] = {step.value}"
    if isinstance(step, Run):
        return step.compiled.source
    if isinstance(step, SomeProduct):
        return f"{step.task.out.name} = ... @ ...  # BLAS"
    if isinstance(step, blas_contraction.Product):
        how = (
            f"BLAS, {step.extents} from {step.starts}"
            if any(map(any, step.starts))
            else f"BLAS, {step.extents}"
        )
        return f"{step.out.name} {'=' if step.fresh else '+='} {step.left.name} @ {step.right.name}  # {how}"
    return f"interpret {', '.join(dict.fromkeys(s.tensor.name for s in step.statements))}"
