"""Calls of wrapped functions: which arrays of the host library go in, and what comes out.

Arrays that a function reads from its surroundings are inputs, too: it is run until it reads one, and run
again with that among its inputs. Derivatives, batches and traces of the host then reach it as they reach an
argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import iverson as iv
from iverson.core.dispatch import levels
from iverson.core.errors import GradientError
from iverson.core.inputs.foreign_arrays import reading
from iverson.graph.tracing.trace import Trace
from iverson.interop.array_checks import returned
from iverson.transforms.trees import Function, flatten, unflatten

Result = TypeVar("Result")

#: The tensor of an array of the host, or None.
Constant = Callable[..., "iv.Tensor | None"]

#: Stands for a tensor in a result.
_RESULT = object()


class _NewCapture(BaseException):
    """Signal that ends a run which reads an array that is not among the inputs yet."""


class WrappedCall:
    """A call of a wrapped function.

    function : takes and returns pytrees of tensors.
    kinds : the classes of the arrays among the arguments that stand for tensors.
    captured : those of arrays from outside that may have to be inputs.
    constant : the tensor of an array that the host neither differentiates, maps nor traces; else None.
    is_result : True for what is a tensor in a result; anything else is handed over as it is.
    arrays : the inputs: arguments, and what was captured.
    """

    def __init__(
        self,
        function: Function,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        *,
        kinds: tuple[type, ...],
        captured: type,
        constant: Constant,
        is_result: Callable[[object], bool],
    ) -> None:
        self.function = function
        self.leaves, self.structure = flatten((tuple(args), dict(kwargs)))
        self.at = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, kinds)]
        self.arrays = [self.leaves[k] for k in self.at]
        self.captured, self.constant, self.is_result = captured, constant, is_result
        self.form: Any = None
        self._outputs: list[Any] = []
        #: True if no further array may become an input.
        self.closed = False

    def complete(self, attempt: Callable[[], Result]) -> Result:
        """Result of ``attempt``, which is run until all arrays that it reads are inputs."""
        while True:
            try:
                return attempt()
            except _NewCapture:
                continue

    def flat(self, *tensors: iv.Tensor) -> list[iv.Tensor]:
        """Tensors of the result, for one tensor for each of `arrays`.

        Raises GradientError for an array from outside that can't become an input: in a trace of a function
        that `jit` keeps, whose graph would hold the entries of this call, where the call is `closed`, and
        for one that the function computes by functions of the host.
        """
        return [returned(x) for x in self.outputs(tensors) if self.is_result(x)]

    def outputs(self, tensors: Sequence[iv.Tensor]) -> list[Any]:
        """Leaves of the result, as the function returned them; see `flat`."""
        depth, arguments, count = len(levels()), list(self.leaves), len(self.at)
        for k, x in zip(self.at, tensors, strict=False):
            arguments[k] = x
        args, kwargs = unflatten(self.structure, arguments)
        visited: set[int] = set()

        def tensor_of(value: Result) -> iv.Tensor | None:
            if not isinstance(value, self.captured):
                return None
            position = next((k for k, array in enumerate(self.arrays[count:]) if array is value), None)
            if position is None and (constant := self.constant(value)) is not None:
                return constant
            in_trace = any(isinstance(level, Trace) for level in levels()[depth:])
            if position is not None and not in_trace:
                visited.add(position)
                return tensors[count + position]
            # A run that does not read what the last one read computes it, with functions of the host.
            if self.closed or in_trace or len(visited) < len(self.arrays) - count:
                raise GradientError(
                    "wrap",
                    "function",
                    got="an array that the host differentiates, maps or traces, and that is no argument",
                    expected="a function of its arguments: no gradient would reach that array",
                    remedy="pass it as an argument",
                )
            self.arrays.append(value)
            raise _NewCapture

        with reading(tensor_of):
            leaves, self.form = flatten(self.function(*args, **kwargs))
        self._outputs = [_RESULT if self.is_result(x) else x for x in leaves]
        return leaves

    def rebuilt(self, results: Sequence[Result]) -> Any:
        """Result of the call, of the form of the last run, with ``results`` instead of its tensors."""
        parts = iter(results)
        return unflatten(self.form, [next(parts) if x is _RESULT else x for x in self._outputs])


__all__ = ["WrappedCall"]
