"""Directions of a Laplacian: one curve each, or one for several that no entry of a value depends on together.

At the input, entry (i, s) is moved along unit vector (i, s) alone. As long as entry i of a value, along
some axis, depends on the directions (i, s) of this i only, one curve for each s carries them all: it is the
sum over i of the curves (i, s), and what depends on i reads the one that it depends on. So each product is
made on the support of the Jacobian. Which entries depend on which is told by the relations of ops
(`iverson.core.relations`): an op may take the axis to another one, or mix the entries along it; then the
directions are carried one by one from there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import value_of
from iverson.core.entry_map import Call
from iverson.core.errors import GraphError
from iverson.core.op import Op
from iverson.core.protocols import NDArray, Params, Value
from iverson.core.relations import Indexed, Relation, Same
from iverson.core.shapes import Shape
from iverson.core.table import F
from iverson.layouts import Strided
from iverson.transforms.batching.batch_level import Batch, Batched

#: Axes from the last one at which values may be told apart.
MOST_AXES = 6
#: An operand of a call, or its facts.
Operand: TypeAlias = Any
#: Of a factor of a product: the positions of its operands in the call, and its degree in the direction.
Factor: TypeAlias = tuple[Sequence[int], int]
#: A call that is linear in each of some factors.
Linear: TypeAlias = Callable[..., Any]


class UncollapsibleError(GraphError):
    """Raised in a rule that applies an op that is not linear to derivatives."""


class Curves(Batch):
    """A batch of curves through one point: what is drawn at random is the same on all of them."""

    __slots__ = ()

    def examples(self) -> None:  # type: ignore[override]
        """None: a function is run once for all curves."""
        return


class Directions:
    """The directions of a level: all of them, and the groups of them by the axis that tells them apart.

    count, size : i and s of the directions (i, s) are below these; a single axis has (0, 0).
    single : the curve of each direction, i * size + s.
    groups : by axis, counted from the last, which is -1, the curve of each s.
    weights : of the directions; None if all are 1.
    """

    __slots__ = ("count", "groups", "single", "size", "weights")

    def __init__(self, total: int, weights: NDArray | None = None, count: int = 0) -> None:
        self.count = count
        self.size = total // count if count else 0
        self.single = Curves(total)
        self.weights = weights
        axes = range(-1, -1 - MOST_AXES, -1) if count else ()
        self.groups: dict[int, Batch] = {axis: Curves(self.size) for axis in axes}

    @contextmanager
    def entered(self) -> Iterator[Directions]:
        """A block within the levels of all curves."""
        with ExitStack() as blocks:
            for batch in (self.single, *self.groups.values()):
                blocks.enter_context(batch)
            yield self

    def batch_of(self, c: Operand) -> Batch | None:
        """The batch of the curves of a coefficient; None for one that all curves share."""
        value = value_of(c, None)
        if not isinstance(value, Batched) or not value.lead:
            return None
        level: Any = value._level
        return level if level is self.single or level in self.groups.values() else None

    @property
    def key(self) -> Hashable:
        """Key of the directions, where each has its curve."""
        return self.single.size, None if self.weights is None else self.weights.tobytes()

    def anew(self) -> Directions:
        """The same directions with a curve for each, with levels of their own."""
        return Directions(self.single.size, self.weights)

    def batch(self, degree: int) -> Batch | None:
        """The batch of the curves of a coefficient; None for the value."""
        return self.single if degree else None

    def product(self, order: int, call: Linear, args: Sequence[Operand], factors: Sequence[Factor]) -> Any:
        """The result of a call that is linear in each factor, summed if it becomes of the highest order."""
        out = call(*args)
        degrees = [degree for _, degree in factors]
        if sum(degrees) != order or order in degrees:
            return out
        return tuple(map(self.summed, out)) if isinstance(out, tuple) else self.summed(out)

    def axis_of(self, c: Operand) -> int | None:
        """The axis that tells apart the directions of a coefficient; None if they are carried one by one."""
        batch = self.batch_of(c)
        return next((axis for axis, b in self.groups.items() if b is batch), None)

    def summed(self, c: Value) -> Any:
        """The weighted sum of a coefficient over all directions."""
        batch = self.batch_of(c)
        if batch is None:
            count = self.single.size if self.weights is None else float(np.sum(self.weights))
            return F.multiply(c, count)
        x = value_of(c).held
        if self.weights is not None:
            weights = self._weights(self.axis_of(c), x.ndim - 1)
            x = F.multiply(x, weights.astype(x.dtype))
        return F.sum(x, axis=(0,), keepdims=False)

    def _weights(self, axis: int | None, rank: int) -> NDArray:
        """The weights as factors of all curves along axis 0."""
        assert self.weights is not None
        if axis is None:
            return self.weights.reshape(-1, *(1,) * rank)
        shape = [self.size, *(1,) * rank]
        shape[axis] = self.count
        return self.weights.reshape(self.count, self.size).T.reshape(shape)

    def one_by_one(self, c: Operand) -> Any:
        """A coefficient with a curve for each direction."""
        axis = self.axis_of(c)
        if axis is None:
            return c
        x = value_of(c).held
        rank = x.ndim - 1
        shape = [self.count, 1, *(1,) * rank]
        shape[axis] = self.count
        at = np.eye(self.count, dtype=bool).reshape(shape)
        curves = F.where(at, F.expand_dims(x, axis=(0,)), 0.0)
        return self.single.of_examples(F.reshape(curves, shape=(self.count * self.size, *x.shape[1:])))

    def reduced(self, c: Operand, axes: Shape, shape: Shape) -> Any:
        """The sum of a coefficient over axes, with a curve for each direction; ``shape`` is that of the sum.

        Of the axis that tells the directions apart, each has one term.
        """
        x = value_of(c).held
        axis = x.ndim + (self.axis_of(c) or 0)
        over = tuple([k + 1 for k in axes if k + 1 != axis])
        x = F.sum(x, axis=over, keepdims=True) if over else x
        x = F.permute_dims(x, axes=(axis, 0, *(k for k in range(1, x.ndim) if k != axis)))
        return self.single.of_examples(F.reshape(x, shape=(self.single.size, *shape)))

    def moved(self, c: Operand, axis: int) -> Any:
        """A coefficient whose directions are told apart by another axis."""
        return c if self.axis_of(c) in (None, axis) else self.groups[axis].of_examples(value_of(c).held)


def axis_of_result(
    op: Op, args: Sequence[Operand], params: Params, axes: dict[int, int], outs: Sequence[Aval]
) -> int | None:
    """The axis of all results, from the last, along which each entry depends on the same entry of operands.

    axes : of some operands, the axis that is asked about. None if there is no such axis.
    """
    inputs = [_fact(a) for a in args]
    places = set()
    for number, out in enumerate(outs):
        call = Call(op, inputs, out, params, number)
        for k, axis in axes.items():
            place = _axis_of(op.relation(call, k), len(inputs[k].shape) + axis)
            places.add(None if place is None else place - len(out.shape))
    (place, *further) = places
    return None if further or place is None or place < -MOST_AXES else place


def _fact(a: Operand) -> Any:
    if not hasattr(a, "shape"):
        return a
    value = value_of(a, a)
    return value if type(value) is Strided else Aval(a.shape, a.dtype)


def _axis_of(relation: Relation, axis: int) -> int | None:
    """The axis of a result that is the same as one of the input."""
    if len(relation.terms) != 1:
        return None
    if relation.is_same:
        if relation.out == relation.into:
            return axis
        numbers = np.arange(np.prod(relation.into, dtype=np.int64)).reshape(relation.out)
        return _by_numbers(numbers, relation.into, axis)
    for factor in relation.terms[0]:
        if factor.into == (axis,) and len(factor.out) == 1 and isinstance(factor.fact, Same):
            return factor.out[0] if relation.out[factor.out[0]] == relation.into[axis] else None
        axes = factor.out, factor.into
        if isinstance(factor.fact, Indexed) and axes == (_all(relation.out), _all(relation.into)):
            return _by_numbers(factor.fact.index, relation.into, axis)
    return None


def _all(shape: Shape) -> Shape:
    """All axes."""
    return tuple(range(len(shape)))


def _by_numbers(numbers: NDArray, into: Shape, axis: int) -> int | None:
    """The axis of a result of which position i is from position i along an axis of the input."""
    if not numbers.size:
        return None
    positions = np.unravel_index(np.maximum(numbers, 0), into)[axis]
    for k, extent in enumerate(numbers.shape):
        if extent == into[axis]:
            expected = np.arange(extent).reshape(-1, *(1,) * (numbers.ndim - k - 1))
            if np.all((positions == expected) | (numbers < 0)):
                return k
    return None
