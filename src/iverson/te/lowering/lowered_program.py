"""Lowered programs: the steps over buffers that statements are lowered to, and their execution on arrays.

Steps are phases of loop nests, matrix products given to BLAS, fills, and, for what does not compile (a few
derivatives of special functions), the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.codegen.launches.integer_arguments import CodeSharing
from iverson.codegen.nests import nodes
from iverson.codegen.nests.integer_bounds import Scope, affine
from iverson.codegen.nests.nodes import Buffer, Kernel
from iverson.codegen.nests.print import kernel_text
from iverson.codegen.nests.task import Task
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
from iverson.te.lowering.native_call import NativeCall, native_call

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Array = np.ndarray[Any, Any]
#: For how many sizes a program with sizes keeps what is planned for them.
KEPT = 256


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
    _calls: dict[int | None, tuple[NativeCall | Interpreted, ...]] = field(default_factory=dict)
    _bound: dict[Any, Lowered] = field(default_factory=dict)
    _sharing: CodeSharing = field(default_factory=lambda: CodeSharing(always=True))

    def said_as(self, program: Program) -> Lowered:
        """The same code, with the names of ``program``, which is equal but for names, in messages."""
        return self if program is self.program else replace(self, said=program)

    def at(self, sizes: Mapping[Var, int]) -> Lowered:
        """The same code for calls on arrays of these sizes."""
        values = self.sizes.at(sizes)
        key = tuple(values.items())
        code = self._bound.get(key)
        if code is None:
            code = self._bound[key] = self._at(values)
            for first in list(self._bound)[:-KEPT]:
                self._bound.pop(first, None)
        return code.said_as(self.said or self.program)  # equal programs share the bound codes

    def _at(self, values: Mapping[str, int]) -> Lowered:
        buffers = {t: _buffer_at(b, values) for t, b in self.buffers.items()}
        steps = tuple(s.at(values) if isinstance(s, SomeProduct) else s for s in self.steps)
        scratch = tuple(_buffer_at(b, values) for b in self.scratch)
        return replace(
            self, steps=steps, buffers=buffers, scratch=scratch, values=values, said=None, _calls={}
        )

    def __call__(
        self,
        *inputs: ArrayLike,
        threads: int | None = None,
        operation: str = "te",
        names: Sequence[str] | None = None,
    ) -> tuple[Array, ...]:
        """Outputs for arrays in the order of ``program.inputs``.

        threads : 1 to run on this one, more to share all that may be shared (default: what is worth it).
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
            calls = self._calls.get(threads) or self.calls(threads)
            first = calls[0] if self._is_whole else None
            if isinstance(first, NativeCall) and not first.products:
                return first.compiled.run(arrays)
            return self._by_calls(calls, arrays)
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

    def calls(self, threads: int | None = None) -> tuple[NativeCall | Interpreted, ...]:
        """The calls that carry out the steps, shared by equal programs: one where nothing is interpreted.

        threads : as of `__call__`.
        """
        if threads not in self._calls:
            self._calls[threads] = tuple(self._compiled(threads))
        return self._calls[threads]

    def _compiled(self, threads: int | None) -> Iterator[NativeCall | Interpreted]:
        buffers = {b.name: b for b in (*self.scratch, *self.buffers.values())}
        sharing = self._sharing if self.values else None
        groups = [
            (native, tuple(steps))
            for native, steps in groupby(self.steps, lambda s: not isinstance(s, Interpreted))
        ]
        lasting = dict.fromkeys(self.buffers[t].name for t in self.program.outputs)
        roles = {self.buffers[t].name: "in" for t in self.program.inputs}
        for k, (native, steps) in enumerate(groups):
            if not native:
                yield from steps  # type: ignore[misc]
                continue
            later = {n for _, group in groups[k + 1 :] for s in group for n in touched_by(s, self.buffers)}
            here = {n for s in steps for n in touched_by(s, self.buffers)}
            # No step touches an output without entries.
            outs = {n for n in (*lasting, *later) if n in here or n not in later} - roles.keys()
            results = {n: "out" for n in (*lasting, *sorted(later)) if n in outs}
            yield native_call(steps, buffers, roles | results, self.values, sharing, threads)
            roles |= dict.fromkeys(results, "inout")

    @cached_property
    def _is_whole(self) -> bool:
        """True if one native call makes the outputs, in their order."""
        names = [self.buffers[t].name for t in self.program.outputs]
        inputs = {self.buffers[t].name for t in self.program.inputs}
        is_native = bool(self.steps) and not any(isinstance(s, Interpreted) for s in self.steps)
        return is_native and len({*names}) == len(names) and inputs.isdisjoint(names)

    def _by_calls(
        self, calls: Sequence[NativeCall | Interpreted], inputs: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        """Outputs, computed by one call after the other."""
        arrays = {self.buffers[t].name: a for t, a in zip(self.program.inputs, inputs, strict=True)}
        for call in calls:
            if isinstance(call, Interpreted):
                call.run({t: arrays[b.name] for t, b in self.buffers.items() if b.name in arrays})
            else:
                results = call.run(tuple([arrays[n] for n in call.reads]))
                arrays |= zip(call.makes, results, strict=True)
        return tuple([arrays[self.buffers[t].name] for t in self.program.outputs])

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
        return kernel_text(step.kernel)
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
