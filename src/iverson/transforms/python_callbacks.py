"""Callbacks to Python as steps of graphs, called with the entries of their operands when a graph runs.

    %2, %3 = external[of=@0](%0, %1)

The code is not looked into, so that it has no derivative of its own: a `Function` around it gives one.
In a batch it is called example by example. An `Effect` has no results, and is run for what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.autograd.mode import recording
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, Level, bind, level_of, levels, seen_from, value_of
from iverson.core.op import Op
from iverson.core.protocols import Namespace, NDArray, Value
from iverson.core.table import F
from iverson.graph.ir.operations import GraphOp
from iverson.handles import Tensor
from iverson.layouts import to_strided
from iverson.ops.rules.batching import Examples


@dataclass(frozen=True, eq=False)
class External:
    """Python function of NumPy arrays that an op calls; it returns a tuple of arrays.

    avals : shape and dtype of each result, for one example.
    size : the number of examples along the first axis of all operands and results; None if there is no such
        axis.
    """

    function: Callable[..., Sequence[Any]]
    avals: tuple[Aval, ...]
    size: int | None = None

    def __call__(self, *arrays: NDArray) -> tuple[Any, ...]:
        """Results of the function as arrays of the shapes and dtypes in ``avals``; example by example in a
        batch.
        """
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
        """Shapes and dtypes of the results, with the axis of examples if there is one."""
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


@dataclass(frozen=True, eq=False)
class Effect:
    """A function of arrays without a result, called with the entries of its operands when a graph runs.

    sizes : the numbers of examples, along the first axes of all operands; the function is called for each.
    """

    function: Callable[..., None]
    sizes: tuple[int, ...] = ()

    def __call__(self, *arrays: NDArray) -> None:
        """Call the function, outside of all traces and batches."""
        for place in np.ndindex(*self.sizes):
            Context().run(self.function, *(x[place] for x in arrays))

    def over(self, size: int) -> Effect:
        """The same for each of some examples."""
        return Effect(self.function, (size, *self.sizes))


def _done(args: Sequence[Handle], *, of: Effect) -> tuple[()]:
    values = [value_of(x, x) for x in args]
    level = level_of(values) if values else _trace()
    if level is not None:
        level.bind(effect_op, seen_from(level, args, values), {"of": of})
    else:
        of(*map(to_strided, values))
    return ()


def _trace() -> Level | None:
    """The innermost trace, if there is one: what writes down an effect that has no operand."""
    return next((level for level in reversed(levels()) if level.examples() is None), None)


def _done_for_each(F: Namespace, examples: Examples, *args: Handle, of: Effect) -> tuple[()]:
    _done(examples.each(F, args), of=of.over(examples.size))
    return ()


#: An effect as a step of graphs: it has no result, and is never left out.
effect_op = GraphOp(
    name="effect",
    forward=None,
    abstract=lambda *_, of: (),
    multiple=True,
    evaluate=_done,
    takes_undefined=False,
    pure=False,
    effect=True,
    batch=_done_for_each,
)


def do(function: Callable[..., None], handles: Sequence[Tensor]) -> None:
    """Call a function with the entries of some tensors: now, or in each run of the trace that is made now.

    In a batch it is called for each example.
    """
    operands: list[Any] = [x.to_dense() for x in handles]
    of = Effect(function)
    stack = list(levels())
    while stack:
        level = stack.pop()
        size = level.examples()
        if size is None:
            with level.innermost():
                level.bind(effect_op, tuple(operands), {"of": of})
            return
        if any(getattr(value_of(x), "_level", None) is level for x in operands):
            operands, of = _of_all(level, operands, size), of.over(size)
    with recording(False):
        _done(operands, of=of)


def _of_all(level: Level, operands: Sequence[Handle], size: int) -> list[Any]:
    """Operands of a batch with the examples along their first axis."""
    pairs = [level.outside(x) for x in operands]  # type: ignore[attr-defined]  # of a batch
    return [x if lead else F.broadcast_to(x, shape=(size, *x.shape)) for x, lead in pairs]


__all__ = ["Effect", "External", "do", "external"]
