"""Functions of tensors as steps of another library's program, closed under what that asks of a step.

A step has a pushforward, which is linear in the tangents; that has a transpose, the pullback, which is linear
in the cotangents and whose transpose is the pushforward again; and each of them can be mapped over an axis.
All results are steps, so that a library which has rules for derivatives, transposes and batches needs one
rule for each. Which tangents and cotangents are zero is part of a step: nothing is computed for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import iverson as iv
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle
from iverson.core.errors import ArgumentError, GraphError
from iverson.core.python.cached import cached_property
from iverson.graph.tracing.trace import trace_flat
from iverson.interop.array_checks import closed_over

Flat = Callable[..., list[iv.Tensor]]


@dataclass(frozen=True)
class Step:
    """A function of lists of tensors.

    function : takes and returns tensors.
    operands, results : shapes and dtypes.
    """

    function: Flat
    operands: tuple[Aval, ...]
    results: tuple[Aval, ...]

    #: How many of the last operands it is linear in.
    linear = 0

    def run(self, *tensors: iv.Tensor) -> list[iv.Tensor]:
        """Results of the step for ``tensors``, one for each operand."""
        return self.function(*tensors)


class TracedStep:
    """A function of lists of tensors whose results are known from its first run, or from a trace.

    remedy : what to do, in an error, about a function that reads entries and cannot be traced.
    """

    linear = 0

    def __init__(self, function: Flat, operands: tuple[Aval, ...], remedy: str) -> None:
        self.function, self.operands, self.remedy = function, operands, remedy

    @cached_property
    def results(self) -> tuple[Aval, ...]:
        """Shapes and dtypes of the results; raises ArgumentError if the function reads entries."""
        return traced_results(self.function, self.operands, self.remedy)

    def run(self, *tensors: iv.Tensor) -> list[iv.Tensor]:
        """Results of the step for ``tensors``, one for each operand."""
        outputs = self.function(*tensors)
        self.results = avals_of(outputs)
        return outputs


def avals_of(tensors: Sequence[Handle]) -> tuple[Aval, ...]:
    """Shapes and dtypes of ``tensors``."""
    return tuple(Aval(x.shape, np.dtype(x.dtype)) for x in tensors)


@dataclass(frozen=True)
class _Derivative:
    """Pushforward or pullback of ``step`` between its operands ``at`` and its results ``of``."""

    step: AnyStep
    at: tuple[int, ...]
    of: tuple[int, ...]

    def _parts(self, tensors: Sequence[iv.Tensor]) -> tuple[Flat, list[iv.Tensor], Sequence[iv.Tensor]]:
        """Step as a function of the operands ``at`` alone, these operands, and the seeds."""
        count = len(self.step.operands)
        primals, seeds = list(tensors[:count]), tensors[count:]

        def restricted(*variables: iv.Tensor) -> list[iv.Tensor]:
            arguments = list(primals)
            for k, x in zip(self.at, variables, strict=True):
                arguments[k] = x
            outputs = self.step.run(*arguments)
            return [outputs[k] for k in self.of]

        return restricted, [primals[k] for k in self.at], seeds


class Pushforward(_Derivative):
    """Tangents of the results ``of``, from the operands of ``step`` and tangents of those ``at``."""

    @property
    def operands(self) -> tuple[Aval, ...]:
        return (*self.step.operands, *(self.step.operands[k] for k in self.at))

    @property
    def results(self) -> tuple[Aval, ...]:
        return tuple(self.step.results[k] for k in self.of)

    @property
    def linear(self) -> int:
        return len(self.at)

    def run(self, *tensors: iv.Tensor) -> list[iv.Tensor]:
        """Results of the step for ``tensors``, one for each operand."""
        function, primals, tangents = self._parts(tensors)
        return list(iv.jvp(function, tuple(primals), tuple(tangents))[1])


class Pullback(_Derivative):
    """Cotangents of the operands ``at``, from the operands of ``step`` and cotangents of the results ``of``.

    The pairing is Re(sum(conj(a) * b)).
    """

    @property
    def operands(self) -> tuple[Aval, ...]:
        return (*self.step.operands, *(self.step.results[k] for k in self.of))

    @property
    def results(self) -> tuple[Aval, ...]:
        return tuple(self.step.operands[k] for k in self.at)

    @property
    def linear(self) -> int:
        return len(self.of)

    def run(self, *tensors: iv.Tensor) -> list[iv.Tensor]:
        """Results of the step for ``tensors``, one for each operand."""
        function, primals, cotangents = self._parts(tensors)
        return list(iv.vjp(function, *primals)[1](list(cotangents)))


@dataclass(frozen=True)
class Mapped:
    """A step mapped over a first axis of all results and of those operands that have ``axes`` 0, not None."""

    step: AnyStep
    size: int
    axes: tuple[int | None, ...]

    @property
    def operands(self) -> tuple[Aval, ...]:
        pairs = zip(self.step.operands, self.axes, strict=True)
        return tuple(a if n is None else _longer(a, self.size) for a, n in pairs)

    @property
    def results(self) -> tuple[Aval, ...]:
        return tuple(_longer(a, self.size) for a in self.step.results)

    @property
    def linear(self) -> int:
        return self.step.linear

    def run(self, *tensors: iv.Tensor) -> list[iv.Tensor]:
        """Results of the step for ``tensors``, one for each operand."""
        if not self.size:
            return [iv.zeros(a.shape, dtype=a.dtype) for a in self.results]
        return list(iv.vmap(self.step.run, in_axes=self.axes)(*tensors))


AnyStep = Step | TracedStep | Pushforward | Pullback | Mapped


def _longer(aval: Aval, size: int) -> Aval:
    return Aval((size, *aval.shape), aval.dtype)


def differentiable(avals: Sequence[Aval]) -> tuple[int, ...]:
    """Positions of what has a derivative: of floating dtypes."""
    return tuple(k for k, a in enumerate(avals) if a.dtype.kind in "fc" or a.dtype.name == "bfloat16")


def pushforward(step: AnyStep, at: Sequence[int]) -> tuple[AnyStep, int]:
    """Derivative of ``step`` along its operands ``at``, and how many operands of ``step`` precede the
    tangents.

    Its results are tangents of the `differentiable` results. In operands in which ``step`` is linear, it is
    the step itself.
    """
    count = len(step.operands)
    first = count - step.linear
    if at[0] >= first:
        return _narrowed(step, [k - first for k in at]), first
    return Pushforward(step, tuple(at), differentiable(step.results)), count


def pullback(step: AnyStep, at: Sequence[int], of: Sequence[int]) -> tuple[AnyStep, int]:
    """Cotangents of the operands ``at`` of ``step``, from those of its results ``of``, and how many
    operands of ``step`` precede these.

    For operands in which ``step`` is linear, it is the transpose.
    """
    count = len(step.operands)
    first = count - step.linear
    if at[0] >= first:
        return transpose(step, [k - first for k in at], of), first
    return Pullback(step, tuple(at), tuple(of)), count


def _narrowed(step: AnyStep, at: Sequence[int]) -> AnyStep:
    """Linear step without those of its linear operands that are not ``at``: these are zero."""
    if isinstance(step, Mapped):
        axes = (*step.axes[: len(step.axes) - step.linear], *[0] * len(at))
        return Mapped(_narrowed(step.step, at), step.size, axes)
    if isinstance(step, Pushforward):
        return Pushforward(step.step, tuple(step.at[k] for k in at), step.of)
    assert isinstance(step, Pullback), "only derivatives are linear"
    return Pullback(step.step, step.at, tuple(step.of[k] for k in at))


def transpose(step: AnyStep, at: Sequence[int], of: Sequence[int]) -> AnyStep:
    """Transpose of a step that is linear in its last operands, under Re(sum(conj(a) * b)).

    at : among the linear operands, those for which it gives cotangents.
    of : among the results, those that have cotangents, which take the place of the linear operands.
    """
    if isinstance(step, Mapped):
        axes = (*step.axes[: len(step.axes) - step.linear], *[0] * len(of))
        return Mapped(transpose(step.step, at, of), step.size, axes)
    if isinstance(step, Pushforward):
        return Pullback(step.step, tuple(step.at[k] for k in at), tuple(step.of[k] for k in of))
    assert isinstance(step, Pullback), "only derivatives are linear"
    return Pushforward(step.step, tuple(step.at[k] for k in of), tuple(step.of[k] for k in at))


def traced_results(function: Flat, operands: Sequence[Aval], remedy: str) -> tuple[Aval, ...]:
    """Shapes and dtypes of a function's results, found by a trace.

    Raises ArgumentError with the ``remedy`` for a function that reads entries, GradientError for one whose
    result depends on a tensor that tracks gradients and is no argument.
    """

    def outputs(*tensors: iv.Tensor) -> tuple[list[Handle], tuple[Aval, ...]]:
        results: list[Handle] = list(function(*tensors))
        return results, avals_of(results)

    try:
        _, captured, avals = trace_flat(outputs, operands, "wrap")
    except GraphError as error:
        raise ArgumentError(
            "wrap",
            "function",
            got=f"one that reads entries ({error})",
            expected="one whose results have shapes that are known without entries",
            remedy=remedy,
        ) from error
    if captured:
        raise closed_over()
    return avals
