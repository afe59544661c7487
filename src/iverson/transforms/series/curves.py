"""Directions of a Laplacian: one curve each, or one for several that no entry of a value depends on together.

At the input, entry (i, s) is moved along unit vector (i, s) alone. As long as entry i of a value, along
some axis, depends on the directions (i, s) of this i only, one curve for each s carries them all: it is the
sum over i of the curves (i, s), and what depends on i reads the one that it depends on. Entry (i, j) of a
value of pairs depends on the directions of i and of j: two curves for each s, one of which moves i and the
other j; where i is j, the first has both, and the second is zero, so that each direction of an entry is on
one curve. So each product is made on the support of the Jacobian. Which entries depend on which is told by
the relations of ops (`iverson.core.relations`): an op may take the axis to another one, pick positions along
it, or mix the entries along it; then the directions are carried one by one from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from iverson.autograd.accumulate import added
from iverson.core.aval import Aval
from iverson.core.dispatch import make_handle, value_of
from iverson.core.entry_map import Call
from iverson.core.errors import GraphError
from iverson.core.op import Op
from iverson.core.protocols import NDArray, Params, Value
from iverson.core.relations import Indexed, Relation, Same
from iverson.core.shapes import Shape
from iverson.core.table import F
from iverson.kernels.index_keys import canonical_slice
from iverson.layouts import Strided
from iverson.transforms.batching.batch_level import Batch, Batched

#: How many groups of directions there may be whose curves move one block of directions at each entry, those
#: of two, and those of three.
GROUPS = (8, 8, 4)
#: An operand of a call, or its facts.
Operand: TypeAlias = Any
#: Of a factor of a product: the positions of its operands in the call, and its degree in the direction.
Factor: TypeAlias = tuple[Sequence[int], int]
#: A call that is linear in each of some factors.
Linear: TypeAlias = Callable[..., Any]


#: Gives the coefficients of results on lines, all but those of order 0 with an axis of lines, from those of
#: operands.
ByLines: TypeAlias = Callable[[Sequence[Sequence[Operand]]], Sequence[Sequence[Operand]]]


class UncollapsibleError(GraphError):
    """Raised in a rule that applies an op that is not linear to derivatives."""


class Curves(Batch):
    """A batch of curves through one point: what is drawn at random is the same on all of them."""

    __slots__ = ()

    def examples(self) -> None:  # type: ignore[override]
        """None: a function is run once for all curves."""
        return


@dataclass(frozen=True, slots=True)
class Place:
    """A place that tells directions apart: an axis, and the block of directions that a position depends on.

    axis : counted from the last, which is -1.
    blocks : the numbers of the blocks, int64; empty if position i depends on block i. A negative one stands
        for none.
    """

    axis: int
    blocks: bytes = b""

    def numbers(self, extent: int) -> NDArray:
        """The block of each position of the axis."""
        return np.frombuffer(self.blocks, np.int64) if self.blocks else np.arange(extent)

    def along(self, shape: Shape) -> NDArray:
        """The block of each entry of an array of a shape, to which it broadcasts."""
        numbers = self.numbers(shape[self.axis])
        return numbers.reshape(-1, *(1,) * (-1 - self.axis))


#: The places at which a value tells directions apart; a curve of the first place, of the second, ...
Places: TypeAlias = tuple[Place, ...]


class Directions:
    """The directions of a level: all of them, and groups of them by the places that tell them apart.

    count, size : i and s of the directions (i, s) are below these; a single block has (0, 0).
    single : the curve of each direction, i * size + s.
    weights : of the directions; None if all are 1.
    """

    __slots__ = ("_groups", "_unused", "count", "single", "size", "weights")

    def __init__(self, total: int, weights: NDArray | None = None, count: int = 0) -> None:
        self.count = count
        self.size = total // count if count else 0
        self.single = Curves(total)
        self.weights = weights
        numbers = GROUPS if count else ()
        self._unused = [[Curves(k * self.size) for _ in range(n)] for k, n in enumerate(numbers, 1)]
        self._groups: dict[Places, Batch] = {}

    @contextmanager
    def entered(self) -> Iterator[Directions]:
        """A block within the levels of all curves."""
        with ExitStack() as blocks:
            for batch in (self.single, *chain(*self._unused)):
                blocks.enter_context(batch)
            yield self

    def batch_of(self, c: Operand) -> Batch | None:
        """The batch of the curves of a coefficient; None for one that all curves share."""
        value = value_of(c, None)
        if not isinstance(value, Batched) or not value.lead:
            return None
        level: Any = value._level
        return level if level is self.single or level in self._groups.values() else None

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

    def by_lines(self, call: ByLines, operands: Sequence[Sequence[Operand]]) -> list[list[Operand]]:
        """The coefficients of results of a call that is made along the curves, each by itself."""
        return [[*cs, last if last is None else self.summed(last)] for *cs, last in call(operands)]

    def places_of(self, c: Operand) -> Places:
        """The places that tell apart the directions of a coefficient; none if they are carried one by one."""
        batch = self.batch_of(c)
        return next((places for places, b in self._groups.items() if b is batch), ())

    def group(self, places: Places) -> Batch | None:
        """The batch of the curves of some places; None if there are too many of them, or none."""
        if places not in self._groups:
            if not 0 < len(places) <= len(self._unused) or len(places) >= self.count:
                return None
            unused = self._unused[len(places) - 1]
            if not unused:
                return None
            self._groups[places] = unused.pop()
        return self._groups[places]

    def summed(self, c: Value) -> Any:
        """The weighted sum of a coefficient over all directions."""
        batch = self.batch_of(c)
        if batch is None:
            count = self.single.size if self.weights is None else float(np.sum(self.weights))
            return F.multiply(c, count)
        x = value_of(c).held
        if self.weights is not None:
            weights = self._weights(self.places_of(c), x.shape[1:])
            x = F.multiply(x, weights.astype(x.dtype))
        return F.sum(x, axis=(0,), keepdims=False)

    def _weights(self, places: Places, shape: Shape) -> NDArray:
        """The weights as factors of all curves along axis 0."""
        assert self.weights is not None
        if not places:
            return self.weights.reshape(-1, *(1,) * len(shape))
        by_block = self.weights.reshape(self.count, self.size).T
        factors = [by_block[:, place.along(shape)] for place in places]
        rank = max(f.ndim for f in factors)
        factors = [f.reshape(self.size, *(1,) * (rank - f.ndim), *f.shape[1:]) for f in factors]
        extents = np.broadcast_shapes(*(f.shape for f in factors))
        factors = [np.broadcast_to(f, extents) for f in factors]
        return np.concatenate(factors).reshape(-1, *(1,) * (len(shape) + 1 - rank), *extents[1:])

    def one_by_one(self, c: Operand) -> Any:
        """A coefficient with a curve for each direction."""
        places = self.places_of(c)
        if not places:
            return c
        blocks = self._by_place(value_of(c).held, places)
        return self.single.of_examples(_sum([self._apart(x, p) for x, p in zip(blocks, places, strict=True)]))

    def _by_place(self, x: Operand, places: Places) -> list[Any]:
        """The curves along axis 0 of each place."""
        if len(places) == 1:
            return [x]
        starts = range(0, len(places) * self.size, self.size)
        return [F.index_basic(x, key=_leading(k, k + self.size, x.shape[1:])) for k in starts]

    def _apart(self, x: Operand, place: Place) -> Any:
        """The curves of a place as one for each direction: zero where an entry does not depend on it."""
        shape = x.shape[1:]
        numbers = np.arange(self.count).reshape(-1, *(1,) * (len(shape) + 1))
        at = numbers == np.reshape(place.along(shape), (1, 1, *_aligned(place, shape)))
        curves = F.where(at, F.expand_dims(x, axis=(0,)), 0.0)
        return F.reshape(curves, shape=(self.count * self.size, *shape))

    def reduced(self, c: Operand, axes: Shape, shape: Shape) -> Any:
        """The sum of a coefficient over axes, with a curve for each direction; ``shape`` is that of the sum.

        Of an axis that tells directions apart, each has the terms of the positions that depend on it.
        """
        places = self.places_of(c)
        parts = []
        for x, place in zip(self._by_place(value_of(c).held, places), places, strict=True):
            axis = x.ndim + place.axis
            over = tuple([k + 1 for k in axes if k + 1 != axis])
            x = F.sum(x, axis=over, keepdims=True) if over else x
            if axis - 1 not in axes:
                x = self._apart(x, place)
            else:
                x = F.permute_dims(x, axes=(axis, 0, *(k for k in range(1, x.ndim) if k != axis)))
                if place.blocks or x.shape[0] != self.count:
                    x = self._by_block(x, place)
            parts.append(F.reshape(x, shape=(self.single.size, *shape)))
        return self.single.of_examples(_sum(parts))

    def _by_block(self, x: Operand, place: Place) -> Any:
        """The sums over positions along axis 0 that depend on one block."""
        number = place.numbers(x.shape[0])
        at = np.arange(self.count)[:, None] == number
        rows = F.reshape(x, shape=(x.shape[0], math.prod(x.shape[1:])))
        return F.reshape(F.matmul(at.astype(x.dtype), rows), shape=(self.count, *x.shape[1:]))

    def moved(self, c: Operand, places: Places) -> Any:
        """A coefficient whose directions are told apart by other places."""
        batch = self.group(places)
        return c if batch is None or not self.places_of(c) else batch.of_examples(value_of(c).held)

    def spread(self, c: Operand, into: Places) -> Any:
        """A coefficient of the shape of pairs on the curves of more places than its own.

        A direction on which an entry depends in several places is on the curve of the first of them.
        """
        places, lead = self.places_of(c), value_of(c).held
        shape = lead.shape[1:]
        numbers = [place.along(shape) for place in into]
        blocks = dict(zip(places, self._by_place(lead, places), strict=True))
        slots = []
        for k in range(len(into)):
            terms = []
            for j in range(k, len(into)):
                if into[j] in blocks:
                    before = [numbers[i] != numbers[j] for i in range(k)]
                    at: NDArray = reduce(np.logical_and, before, numbers[k] == numbers[j])
                    if np.any(at):
                        x = blocks[into[j]]
                        terms.append(x if np.all(at) else F.where(_with_rank(at, len(shape)), x, 0.0))
            zero = make_handle(np.zeros((self.size, *shape), lead.dtype))
            slots.append(_sum(terms) if terms else zero)
        offsets = tuple(range(0, len(into) * self.size, self.size))
        batch = self.group(into)
        assert batch is not None
        return batch.of_examples(F.concat(*slots, axis=0, offsets=offsets))


def _sum(terms: Sequence[Operand]) -> Any:
    return added(list(terms)) if len(terms) > 1 else terms[0]


def _aligned(place: Place, shape: Shape) -> Shape:
    """The shape of the numbers of a place beside an array of a shape: 1 but for the axis of the place."""
    return tuple([n if k - len(shape) == place.axis else 1 for k, n in enumerate(shape)])


def _with_rank(at: NDArray, rank: int) -> NDArray:
    return at.reshape((1,) * (rank - at.ndim) + at.shape)


def _leading(start: int, stop: int, shape: Shape) -> tuple[slice, ...]:
    """Key of some positions along axis 0 of an array whose other axes are ``shape``."""
    return slice(start, stop, 1), *(canonical_slice(slice(None), n) for n in shape)


def places_of_result(
    op: Op, args: Sequence[Operand], params: Params, places: dict[int, Places], outs: Sequence[Aval]
) -> dict[int, Places]:
    """The places of all results that tell apart what the places of some operands do.

    places : those of operands. An operand of which a place is lost has none.
    """
    inputs = [_fact(a) for a in args]
    images: dict[int, set[Places]] = {k: set() for k in places}
    for number, out in enumerate(outs):
        call = Call(op, inputs, out, params, number)
        for k, axes in places.items():
            relation = op.relation(call, k)
            mapped = [_place_after(relation, place) for place in axes]
            images[k].add(() if None in mapped else tuple([p for p in mapped if p is not None]))
    return {k: p if len(of) == 1 else () for k, of in images.items() for p in of}


def _fact(a: Operand) -> Any:
    if not hasattr(a, "shape"):
        return a
    value = value_of(a, a)
    return value if type(value) is Strided else Aval(a.shape, a.dtype)


def _place_after(relation: Relation, place: Place) -> Place | None:
    """The place of a result that tells apart what a place of the input does."""
    axis = len(relation.into) + place.axis
    if len(relation.terms) != 1:
        return None
    if relation.is_same:
        if relation.out == relation.into:
            return place
        numbers = np.arange(math.prod(relation.into)).reshape(relation.out)
        return _by_numbers(numbers, relation.into, place)
    for factor in relation.terms[0]:
        if factor.into == (axis,) and len(factor.out) == 1:
            (out,) = factor.out
            if isinstance(factor.fact, Same) and relation.out[out] == relation.into[axis]:
                return Place(out - len(relation.out), place.blocks)
            if isinstance(factor.fact, Indexed):
                return _picked(place, relation.into[axis], factor.fact.index.ravel(), out - len(relation.out))
        axes = factor.out, factor.into
        if isinstance(factor.fact, Indexed) and axes == (_all(relation.out), _all(relation.into)):
            return _by_numbers(factor.fact.index.reshape(relation.out), relation.into, place)
    return None


def _picked(place: Place, extent: int, index: NDArray, axis: int) -> Place:
    """The place of positions that are picked along an axis; none of a negative one."""
    numbers = place.numbers(extent)
    blocks = np.where(index < 0, -1, numbers[np.maximum(index, 0)]) if numbers.size else index
    is_each = np.array_equal(blocks, np.arange(extent))
    return Place(axis, b"" if is_each else blocks.astype(np.int64).tobytes())


def _all(shape: Shape) -> Shape:
    """All axes."""
    return tuple(range(len(shape)))


def _by_numbers(numbers: NDArray, into: Shape, place: Place) -> Place | None:
    """The place of a result whose entries are those of some numbers: positions along one axis tell them."""
    if not numbers.size:
        return None
    axis = len(into) + place.axis
    positions = np.where(numbers < 0, -1, np.unravel_index(np.maximum(numbers, 0), into)[axis])
    for k in range(numbers.ndim):
        index = positions.max(axis=tuple([a for a in range(numbers.ndim) if a != k]))
        expected = index.reshape(-1, *(1,) * (numbers.ndim - k - 1))
        if np.all((positions == expected) | (positions < 0)):
            return _picked(place, into[axis], index, k - numbers.ndim)
    return None
