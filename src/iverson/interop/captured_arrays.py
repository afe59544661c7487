"""Arrays of a host library that a wrapped function reads without being passed them, as further inputs.

A function is run until it reads such an array, and run again with the array among its inputs: derivatives,
batches and traces of the host then reach it as they reach an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import iverson as iv
from iverson.core.dispatch import levels
from iverson.core.errors import GradientError
from iverson.core.inputs.foreign_arrays import reading
from iverson.graph.tracing.trace import Trace
from iverson.interop.array_checks import closed_over

HostArray = TypeVar("HostArray")
Result = TypeVar("Result")


class _NewCapture(BaseException):
    """Signal that ends a run which reads an array that is not among the inputs yet."""


class Captures(Generic[HostArray]):
    """Arrays that a function reads from its surroundings, in the order in which it reads them.

    kind : the class of the host's arrays.
    constant : the tensor of an array that the host neither differentiates, maps nor traces; else None.
    """

    def __init__(
        self, kind: type[HostArray] | tuple[type, ...], constant: Callable[[HostArray], iv.Tensor | None]
    ) -> None:
        self.kind = kind
        self.constant = constant
        self.arrays: list[HostArray] = []

    def complete(self, attempt: Callable[[], Result]) -> Result:
        """Result of ``attempt``, which is run until all arrays that it reads are captured."""
        while True:
            try:
                return attempt()
            except _NewCapture:
                continue

    def run(
        self, function: Callable[[], Result], tensors: Sequence[iv.Tensor], *, closed: bool = False
    ) -> Result:
        """Result of ``function``, for which ``tensors`` are the values of the captured arrays.

        closed : True if no array may be captured any more.

        Raises GradientError for another array if ``closed``, and for one that is read in a trace of a function
        that `jit` keeps: its graph would hold the entries of this call.
        """
        depth = len(levels())

        def tensor_of(value: object) -> iv.Tensor | None:
            if not isinstance(value, self.kind):
                return None
            for array, tensor in zip(self.arrays, tensors, strict=True):
                if array is value:
                    return tensor
            tensor = self.constant(value)
            if tensor is not None:
                return tensor
            if closed or any(isinstance(level, Trace) for level in levels()[depth:]):
                raise _captured_late()
            self.arrays.append(value)
            raise _NewCapture

        with reading(tensor_of):
            return function()


def _captured_late() -> GradientError:
    error = closed_over()
    return GradientError(
        error.operation,
        error.argument,
        got="an array of the host library that it differentiates, maps or traces, and that is no argument",
        expected=error.expected,
        remedy="pass it as an argument",
    )


__all__ = ["Captures"]
