"""Functions of pytrees, traced: the graph of one, and how its results are packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from iverson.autograd.mode import recording
from iverson.core.aval import Aval
from iverson.core.dispatch import Operand, alias, rewrap, semantics_of, unwrap, value_of
from iverson.graph.trace import Trace
from iverson.transforms.trees import flatten, unflatten


class TracedFunction:
    """A function, run once on handles without entries.

    graph : what it computes; what it captured of tracked tensors, ``captured``, is its last inputs.
    structure : of its result; ``leaves`` are its leaves, of which tensors are the graph's outputs.
    written : which handles it writes in place; their new values are outputs after the results.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        avals: Sequence[Aval],
        arguments: Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
        results: Callable[[list[Any]], list[Any]] = list,
    ) -> None:
        with Trace(name) as level, recording(True):
            handles = [level.input(a) for a in avals]
            inputs = list(map(alias, handles))
            args, kwargs = arguments(inputs)
            leaves, self.structure = flatten(function(*args, **kwargs))
            self.leaves = results(leaves)
            pairs = enumerate(zip(handles, inputs, strict=True))
            self.written = [k for k, (a, b) in pairs if value_of(a) is not value_of(b)]
            outputs = [unwrap(x) for x in self.leaves if isinstance(x, Operand)]
            self.graph = level.graph([*outputs, *(inputs[k] for k in self.written)])
        self.captured = [x for _, x in level.captured]
        self._read = level.read
        #: Of each leaf, what it means beyond its handle, or what it is where it is no tensor.
        self.leaves = [(semantics_of(x), True) if isinstance(x, Operand) else (x, False) for x in self.leaves]

    def holds(self) -> bool:
        """Whether tensors from outside that it read are what they were."""
        return all(value_of(x) is v for x, v in self._read)

    def packed(self, handles: Iterator[Any]) -> Any:
        """The result, from handles for its tensors."""
        leaves = [rewrap(x, next(handles)) if is_tensor else x for x, is_tensor in self.leaves]
        return unflatten(self.structure, leaves)
