"""Batching rules: how an op is carried out on a batch of examples at once.

A rule is ``rule(F, examples, *args, **params)``: an operand that differs from example to example has them
along its first axis, and so has the result. An op's record has a rule (``batch``) only where none follows
from its other facts: that the op is elementwise, or, by the names of parameters, which of them count axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import bind, make_handle
from iverson.core.op import Op, Rule
from iverson.core.protocols import Namespace, Params, Shaped, Value
from iverson.core.shapes import Shape
from iverson.kernels.index_keys import canonical_slice

#: The operands of a call: handles, arrays or numbers.
Operands: TypeAlias = Sequence[Any]


class Examples(NamedTuple):
    """A call of an op on ``size`` examples.

    of : for each operand, True if it has the examples along axis 0; False if all examples share it.
    level : the level that the examples belong to.
    """

    op: Op
    size: int
    of: tuple[bool, ...]
    level: Any = None

    def call(self, *args: Shaped | complex, **params: Any) -> Any:
        """The result of the op on operands that have an axis for the examples where it expects one."""
        return bind(self.op, args, params)

    def aligned(self, F: Namespace, args: Operands, rank: int | None = None) -> list[Any]:
        """Operands that broadcast as those of one example do.

        Axes of extent 1 are inserted behind the axis of the examples, up to ``rank``, the rank of the largest
        operand of one example.
        """
        ranks = [len(getattr(a, "shape", ())) - b for a, b in zip(args, self.of, strict=True)]
        rank = max(ranks) if rank is None else rank
        if ranks.count(rank) == len(ranks):
            return list(args)
        of = zip(args, self.of, ranks, strict=True)
        return [padded(F, a, rank) if b and n < rank else a for a, b, n in of]

    def each(self, F: Namespace, args: Operands) -> list[Any]:
        """All operands with the axis of the examples; operands that all examples share are repeated."""
        if False not in self.of:
            return list(args)
        return [a if b else self.repeated(F, a) for a, b in zip(args, self.of, strict=True)]

    def repeated(self, F: Namespace, x: Shaped | complex) -> Any:
        """An operand that all examples share, repeated along a new first axis."""
        x = x if hasattr(x, "shape") else np.asarray(x)
        return F.broadcast_to(x, shape=(self.size, *x.shape))

    def alike(self, *positions: int) -> bool:
        """True if the operands at these positions are the same for all examples."""
        return not any(map(self.of.__getitem__, positions))


def padded(F: Namespace, x: Shaped, rank: int) -> Any:
    """x with axes of extent 1 behind the axis of the examples, so that an example has ``rank`` axes."""
    return x if x.ndim > rank else F.expand_dims(x, axis=tuple(range(1, rank + 2 - x.ndim)))


def rule_of(op: Op, params: Params) -> Rule | None:
    """The batching rule of an op for a call with these parameters; None if there is none."""
    if op.batch is not None:
        return op.batch
    if op.entry_map.elementwise:
        return broadcasting
    return with_axes if not _SHIFTS.keys().isdisjoint(params) else None


def broadcasting(F: Namespace, examples: Examples, *args: Shaped | complex, **params: Any) -> Any:
    """Batching rule of elementwise ops: the operands of one example broadcast against each other."""
    return bind(examples.op, tuple(examples.aligned(F, args)) if len(args) > 1 else args, params)


def leading(F: Namespace, examples: Examples, *args: Shaped | complex, **params: Any) -> Any:
    """Batching rule of an op on the last axes: the axis of the examples is one more axis before these."""
    return examples.call(*examples.each(F, args), **params)


def with_axes(F: Namespace, examples: Examples, *args: Shaped | complex, **params: Any) -> Any:
    """Batching rule of an op whose parameters count axes: they count the axis of the examples too."""
    operands = args if len(args) == 1 else examples.each(F, args)
    return bind(examples.op, tuple(operands), batch_params(params, examples.size))


def next_axis(axis: int | Shape, _size: int = 0) -> Any:
    """Axes of one example as axes of the batch: each number plus 1."""
    return axis + 1 if isinstance(axis, int) else tuple(map((1).__add__, axis))


#: By its name in the table, what a parameter that counts axes is for the batch.
_SHIFTS: dict[str, Any] = {
    "axis": next_axis,
    "axes": next_axis,
    "shape": lambda shape, size: (size, *shape),
    "key": lambda key, size: (canonical_slice(slice(None), size), *key),
}


def batch_params(params: Params, size: int) -> dict[str, Any]:
    """Parameters for a call on the batch: axes, shapes and keys of one example get one more axis."""
    shifted = dict(params)
    for name, value in params.items():
        if name in _SHIFTS:
            shifted[name] = _SHIFTS[name](value, size)
    return shifted


def behind_first(
    F: Namespace, examples: Examples, *args: Shaped | complex, alike: int = 0, **params: Any
) -> Any:
    """Batching rule of an op along the first axis: the examples are put on the second axis.

    alike : the number of last operands, which all examples share.
    """
    count = len(args) - alike
    transposed = [F.permute_dims(x, axes=_exchanged(x.ndim)) for x in examples.each(F, args)[:count]]
    out = examples.call(*transposed, *args[count:], **params)
    return F.permute_dims(out, axes=_exchanged(out.ndim))


def _exchanged(ndim: int) -> Shape:
    """The permutation that exchanges the first two axes."""
    return (1, 0, *range(2, ndim))


def beside(F: Namespace, x: Value) -> Any:
    """One matrix with the columns of all matrices of a batch beside each other."""
    count, rows, columns = x.shape
    return F.reshape(F.permute_dims(x, axes=(1, 0, 2)), shape=(rows, count * columns))


def apart(F: Namespace, x: Value, size: int, columns: int) -> Any:
    """Batch of ``size`` matrices, of ``columns`` columns, from one matrix with all columns (see `beside`)."""
    matrices = F.reshape(x, shape=(x.shape[0], size, columns))
    return F.permute_dims(matrices, axes=(1, 0, 2))


def by_matrix(
    F: Namespace, examples: Examples, call: Callable[[Value, Value], Value], a: Value, b: Value
) -> Any:
    """Results of ``call(a, b)`` for each example; one call, with all columns of b, if all share a."""
    if examples.alike(0) and a.ndim == 2 and b.ndim == 3:
        return apart(F, call(a, beside(F, b)), examples.size, b.shape[2])
    return call(*examples.aligned(F, (a, b)))


def one_by_one(F: Namespace, examples: Examples, *args: Shaped | complex, **params: Any) -> Any:
    """The op applied to one example at a time, and the results stacked."""
    if not examples.size:
        return _none(examples, args, params)
    results = [examples.call(*_at(F, k, examples, args), **params) for k in range(examples.size)]
    if isinstance(results[0], tuple):
        return tuple(F.stack(*parts, axis=0) for parts in zip(*results, strict=True))
    return F.stack(*results, axis=0)


def _none(examples: Examples, args: Operands, params: Params) -> Any:
    """Empty results, for a batch without examples."""
    of = [Aval(a.shape[1:], a.dtype) if b else a for a, b in zip(args, examples.of, strict=True)]
    avals = examples.op.infer(*of, **params)
    results = [
        make_handle(np.zeros((0, *x.shape), x.dtype)) for x in (avals if examples.op.multiple else (avals,))
    ]
    return tuple(results) if examples.op.multiple else results[0]


def _at(F: Namespace, k: int, examples: Examples, args: Operands) -> list[Any]:
    """The operands of example ``k``."""
    return [
        F.index_basic(a, key=(k, *(canonical_slice(slice(None), n) for n in a.shape[1:]))) if b else a
        for a, b in zip(args, examples.of, strict=True)
    ]


__all__ = [
    "Examples",
    "apart",
    "batch_params",
    "behind_first",
    "beside",
    "leading",
    "next_axis",
    "one_by_one",
    "padded",
    "rule_of",
]
