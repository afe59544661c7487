"""Callbacks to Python as steps of graphs, called with the entries of their operands when a graph runs.

    %2, %3 = external[of=@0](%0, %1)

The code is not looked into, so that it has no derivative of its own: a `Function` around it gives one.
In a batch it is called example by example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import bind
from iverson.core.op import Op
from iverson.core.protocols import Namespace, NDArray, Value
from iverson.layouts import to_strided
from iverson.ops.rules.batching import Examples


@dataclass(frozen=True, eq=False)
class External:
    """A function of arrays that gives a tuple of arrays, of which this is known.

    size : the number of examples, along the first axis of all operands and results; None for one.
    """

    function: Callable[..., Sequence[Any]]
    avals: tuple[Aval, ...]
    size: int | None = None

    def __call__(self, *arrays: NDArray) -> tuple[Any, ...]:
        """The results, checked."""
        if self.size is not None:
            rows = [self.one(*(x[k] for x in arrays)) for k in range(self.size)]
            return tuple(map(np.stack, zip(*rows, strict=True)))
        return self.one(*arrays)

    def one(self, *arrays: NDArray) -> tuple[Any, ...]:
        """The results for one example, computed outside of all traces and batches."""
        results = Context().run(self.function, *arrays)
        return tuple(
            np.asarray(x, a.dtype).reshape(a.shape) for x, a in zip(results, self.avals, strict=True)
        )

    def known(self) -> tuple[Aval, ...]:
        """Avals of the results."""
        if self.size is None:
            return self.avals
        return tuple([Aval((self.size, *a.shape), a.dtype) for a in self.avals])


def _batched(F: Namespace, examples: Examples, *args: Value, of: External) -> Any:
    if of.size is None:
        return bind(external, tuple(examples.each(F, args)), {"of": _over(of, examples.size)})
    # of several batches: one axis for all of them
    args = tuple(F.reshape(x, shape=(-1, *x.shape[2:])) for x in examples.each(F, args))
    results = bind(external, args, {"of": _over(of, examples.size * of.size)})
    return tuple(F.reshape(x, shape=(examples.size, of.size, *x.shape[1:])) for x in results)


def _over(of: External, size: int) -> External:
    return External(of.function, of.avals, size)


external = Op(
    name="external",
    forward=lambda *values, of: of(*map(to_strided, values)),
    abstract=lambda *_, of: of.known(),
    multiple=True,
    batch=_batched,
)

__all__ = ["External", "external"]
