"""Builder of steps that call routines: copies in a dtype, flags, loops of universal functions, failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from iverson.codegen.execution.routines import Failure, Loop
from iverson.codegen.nests.nodes import BOOL, Load
from iverson.codegen.nests.task import Task
from iverson.codegen.programs import View, step_builders
from iverson.codegen.programs.nodes import Call, Step, Stop
from iverson.codegen.schedule.exact_walks import boxed
from iverson.core.protocols import DType
from iverson.expr.build import cast
from iverson.expr.nodes import Apply, Expr
from iverson.graph.native.buffers import Memory

#: NumPy's letters of the dtypes that its linear algebra has.
NUMPY = {"float32": "f", "float64": "d", "complex64": "F", "complex128": "D"}
STATUS = np.dtype(np.int32)
FINITE = "finite entries"


class Calls:
    """Steps in the making."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.steps: list[Step] = []

    def temp(self, like: View | DType, shape: tuple[int, ...]) -> View:
        """A new temporary in the dtype of a view."""
        return self.memory.temp(like.buffer.dtype if isinstance(like, View) else like, shape)

    def nest(self, out: View, value: Callable[..., Expr], **views: View) -> View:
        """Add ``out[i] = value(i, entry of each view at i)``; return ``out``."""
        at = step_builders.variables(step_builders.axes(out.shape))
        loads = {name: Load(step_builders.as_buffer(name, v), at) for name, v in views.items()}
        self.steps.append(step_builders.elementwise(out, value(at, **loads), views))
        return out

    def in_dtype(self, x: View, dtype: DType) -> View:
        """The view itself, or that of a copy in ``dtype``."""
        if x.buffer.dtype == dtype:
            return x
        return self.nest(self.temp(dtype, x.shape), lambda _, x: cast(x, dtype), x=x)

    def anywhere(self, shape: tuple[int, ...], condition: Callable[..., Expr], **views: View) -> View:
        """View of a flag: whether a condition holds for an entry of the views."""
        out, over = self.memory.temp(BOOL, ()), step_builders.axes(shape)
        at = step_builders.variables(over)
        loads = [Load(step_builders.as_buffer(name, v), at) for name, v in views.items()]
        task = Task(
            step_builders.as_buffer("out", out), (), condition(*loads), over, combine="max", fresh=True
        )
        self.steps.append(step_builders.nest("any", boxed(task), {**views, "out": out}, ("out",)))
        return out

    def loop(
        self, module: str, name: str, cores: str, views: Sequence[View], failure: Failure | None = None
    ) -> None:
        """Add the call of a universal function's loop.

        cores : core axes of inputs and outputs, as "mm,mn->mn"; an input after a ``!`` is written too.
        """
        inputs, outputs = (part.split(",") for part in cores.split("->"))
        letters = [letter(v.buffer.dtype) for v in views]
        signature = "".join(letters[: len(inputs)]) + "->" + "".join(letters[len(inputs) :])
        roles = ["inout" if x.startswith("!") else "in" for x in inputs] + ["out"] * len(outputs)
        routine = Loop(module, name, signature, tuple(x.strip("!") for x in inputs + outputs), tuple(roles))
        status = None if failure is None else self.memory.temp(STATUS, ())
        self.steps.append(Call(routine, tuple(views), status))
        if status is not None and failure is not None:
            self.steps.append(Stop(status, failure))

    def finite(self, name: str, x: View) -> None:
        """Stop if an entry of ``x`` is inf or nan: LAPACK's iterations may then never end."""
        flag = self.anywhere(x.shape, lambda x: logical_not(Apply("isfinite", (x,), BOOL)), x=x)
        remedy = "find them with isfinite"
        self.steps.append(Stop(flag, Failure(name, "x", "inf or nan", FINITE, remedy)))


def letter(dtype: DType) -> str:
    """NumPy's letter of a dtype."""
    return NUMPY[dtype.name]


def logical_not(x: Expr) -> Expr:
    """Condition that a condition does not hold."""
    return Apply("logical_not", (x,), BOOL)


def spread(v: View, batch: tuple[int, ...], rank: int) -> View:
    """A view with these batch axes before its last ``rank`` axes, repeated where its own have extent 1."""
    lead = len(v.shape) - rank
    missing = len(batch) - lead
    steps = [0] * missing + [
        0 if n == 1 else s for n, s in zip(v.shape[:lead], v.strides[:lead], strict=True)
    ]
    return replace(v, shape=(*batch, *v.shape[lead:]), strides=(*steps, *v.strides[lead:]))


__all__ = ["NUMPY", "STATUS", "Calls", "letter", "logical_not", "spread"]
