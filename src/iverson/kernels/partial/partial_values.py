"""Partial values: boxes and selections over a namespace, and the parts of them in a region.

`Box` and `Bracket` (`iverson.layouts`) hold arrays, or values of a graph; a `Namespace` knows which. A value
that is not partial is *plain*. Rules of ops on partial values are written once, against a namespace.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.entries import Entries, hull, plain
from iverson.core.op import Op
from iverson.core.protocols import Params
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.kernels.index_keys import reads_everything
from iverson.layouts import Box, Bracket, Pattern

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

#: An array, a value of a graph or a number; or the first two in part.
Value = Any
Values = Sequence[Value]
Array = np.ndarray[Any, Any]


class Namespace(ABC):
    """The operations that rules of partial values are written with: on arrays, or on values of a graph.

    ops : the ops on plain values, by name.
    """

    ops: Any

    @abstractmethod
    def bind(self, op: Op, values: Values, params: Params) -> Value:
        """An op on values without selections."""

    @abstractmethod
    def aval(self, op: Op, values: Values, params: Params) -> Any:
        """An object with the shape and dtype of a result."""

    @abstractmethod
    def constant(self, array: Value) -> Value:
        """An array, or a box of one, as a value."""

    @abstractmethod
    def true(self, shape: Shape) -> Value:
        """A condition that holds everywhere."""

    @abstractmethod
    def zero(self, shape: Shape, dtype: DTypeLike) -> Value:
        """The value that is structurally zero."""

    @abstractmethod
    def zeros(self, shape: Shape, dtype: DTypeLike) -> Value:
        """A plain value of zeros."""

    @abstractmethod
    def is_zero(self, x: Value) -> bool:
        """True if a value is structurally zero."""

    @abstractmethod
    def cut(self, x: Value, region: Region) -> Value:
        """A plain value in a region of an array that it broadcasts to."""

    @abstractmethod
    def embedded(self, x: Value, region: Region, shape: Shape) -> Value:
        """A plain value in a region of zeros, which is not all."""

    @abstractmethod
    def select(self, x: Value) -> Value:
        """The selection made, in its box; any other value is itself."""

    @abstractmethod
    def plain(self, x: Value) -> Value:
        """All entries of a value, its selection made."""

    @abstractmethod
    def one_condition(self, a: Bracket, b: Bracket) -> bool:
        """True if two selections are known to share one condition, negated or not."""

    @abstractmethod
    def varies(self, condition: Value, axis: int) -> bool:
        """True if a condition may vary along an axis, which is counted from the last one."""

    @abstractmethod
    def once(self, condition: Value, axis: int) -> Value:
        """A condition that does not vary along an axis, with extent 1 on it."""

    @abstractmethod
    def meets(self, a: Value, b: Value) -> Value:
        """A mask of the pairs of a row of ``a`` and a column of ``b`` that both (may) hold at one index."""

    @abstractmethod
    def fitted(self, condition: Value, shape: Shape) -> Value:
        """A condition that broadcasts to a shape, for values of that shape."""

    @abstractmethod
    def later(self, condition: Callable[[], Value]) -> Any:
        """A condition that is computed now, or a function that computes it when it is needed."""

    def every(self, _condition: Value) -> bool:
        """True if a condition is known to hold everywhere."""
        return False

    @abstractmethod
    def indices(self, arrays: Values) -> Sequence[Array] | None:
        """Index arrays, if their entries are known."""

    @abstractmethod
    def along(self, pattern: Pattern, axis: int) -> Value:
        """The index of each entry of a pattern on an axis."""

    def is_carried(self, _x: Value) -> bool:
        """True if rules take a value as it is: partial, plain, zero, or a number."""
        return True

    def total(self, _terms: Values) -> Value | None:
        """The sum of plain values and boxes of one shape, if there is a way of its own for it."""
        return None

    @abstractmethod
    def product(self, op: Op, a: Value, b: Value, params: Params) -> tuple[Value, bool | None]:
        """A product of matrices in which terms of which a factor is left out take no part.

        And whether it is zero wherever it has no terms; None for a product that is no selection.
        """

    def around(self, op: Op, x: Value, wanted: Region, params: Params, image: Region) -> Value:
        """An op's result in the image of a box, read from a wider region; entries around it are left out."""
        out = through(self, op, (self.apart(read(self, self.as_selection(x), wanted)),), params)
        return out if out.shape == image.shape else read(self, out, image)

    def apart(self, x: Bracket) -> Bracket:
        """A selection that is seen as one in a box no more."""
        return x

    def as_selection(self, x: Value) -> Value:
        """A box as a selection; any other value is itself."""
        if type(x) is not Box:
            return x
        return Bracket(x, Box(x.shape, x.region, self.true(x.region.shape)), is_made=True)

    def same(self, a: Bracket, b: Bracket) -> bool:
        """True if two selections are known to hold the same entries."""
        return a.negated == b.negated and self.one_condition(a, b)

    def there(self, x: Bracket) -> Value:
        """The condition under which a selection holds values, with negation applied."""
        return self.ops.logical_not(x.condition) if x.negated else x.condition

    def everywhere(self, x: Bracket) -> Value:
        """The condition under which a selection in no box holds values, for each entry."""
        there = self.there(x)
        return there if there.shape == x.shape else self.ops.broadcast_to(there, shape=x.shape)

    def under(self, values: Value, terms: Sequence[Bracket], is_made: bool | None) -> Value:
        """Values under the conditions of several selections."""
        if not is_made and all(t.is_lazy and t.is_made is not False for t in terms):
            is_made = None
        first, *remaining = selections = terms if is_made is False else [t.without_values() for t in terms]
        if all(self.same(first, t) for t in remaining):
            return first.of(values, is_made)
        return self.held(values, lambda: reduce(self.ops.logical_and, map(self.there, selections)), is_made)

    def held(self, values: Value, there: Callable[[], Value], is_made: bool | None) -> Bracket:
        """Values where a condition holds; if no selection is to be made, it may be computed later."""
        return Bracket(values, there() if is_made is False else self.later(there), is_made=is_made)

    def moved(self, x: Bracket, values: Value, move: Callable[[Value], Value]) -> Bracket:
        """Values that were moved, and their condition, as it is for each entry, moved along."""
        condition = x.without_values()
        return self.held(values, lambda: move(self.everywhere(condition)), x.is_made)


def is_partial(x: Value) -> bool:
    """True if a value is a box, or a selection in one."""
    return type(x) is Box or (type(x) is Bracket and type(x.values) is Box)


def is_plain(x: Value) -> bool:
    """True if a value is neither a box nor a selection: every entry counts."""
    return type(x) is not Bracket and type(x) is not Box


def region_of(x: Value) -> Region:
    """The region that a value is in: all, where it is not in a box."""
    if type(x) is Bracket:
        x = x.values
    return x.region if type(x) is Box else Region.full(x.shape)


def region_read(need: Entries, shape: Shape) -> Region:
    """The region that is read of a result."""
    return hull(plain(need, shape), shape)


def inner_of(x: Value) -> Value:
    """The part of a value in its region: plain, or a selection of a plain value."""
    if type(x) is Box:
        return x.inner
    if type(x) is Bracket and type(x.values) is Box:
        inner = x.mapped(x.values.inner, lambda condition: condition.inner)
        inner.turned = x.turned
        return inner
    return x


def placed(N: Namespace, shape: Shape, region: Region, inner: Value) -> Value:
    """A value of the full shape from its part in a region; zero elsewhere."""
    values = inner.values if type(inner) is Bracket else inner
    if not region.size or N.is_zero(values):
        return N.zero(shape, values.dtype)
    if region.covers(shape):
        return inner
    if type(inner) is Bracket:
        result = inner.mapped(Box(shape, region, values), lambda c: Box(shape, region, c))
        result.turned = inner.turned
        return result
    return Box(shape, region, inner)


def read(N: Namespace, x: Value, region: Region) -> Value:
    """A value in a region of an array that it broadcasts to: plain, or a selection; numbers as they are."""
    return part_of(N, x, region.projected(x.shape)) if hasattr(x, "shape") else x


def part_of(N: Namespace, x: Value, wanted: Region) -> Value:
    """A value in a region of it: plain, a selection, or zero."""
    if N.is_zero(x):
        return N.zero(wanted.shape, x.dtype)
    x_region = region_of(x)
    if x_region == wanted and is_partial(x):
        return inner_of(x)
    common = x_region.intersect(wanted)
    if not common.size:
        return N.zero(wanted.shape, x.dtype)
    inner = _cut(N, inner_of(x), common.within(x_region))
    return inner if common == wanted else _embedded(N, inner, common.within(wanted), wanted.shape)


def _cut(N: Namespace, x: Value, region: Region) -> Value:
    if type(x) is not Bracket:
        return N.cut(x, region)
    if region.covers(x.shape):
        return x
    return x.mapped(N.cut(x.values, region), lambda condition: N.cut(condition, region))


def _embedded(N: Namespace, x: Value, region: Region, shape: Shape) -> Value:
    """A plain value, or a selection, in a region of zeros: of a selection, these are left out."""
    if type(x) is not Bracket:
        return N.embedded(x, region, shape)
    return N.moved(x, N.embedded(x.values, region, shape), lambda there: N.embedded(there, region, shape))


def everything(N: Namespace, x: Value) -> Value:
    """A value in no box: plain, or a selection."""
    return read(N, x, Region.full(x.shape)) if is_partial(x) else x


def in_dtype(N: Namespace, x: Value, dtype: DTypeLike, others: Values = ()) -> Value:
    """A value cast to the dtype of a result, unless the value or one of ``others`` has that dtype."""
    if dtype in [y.dtype for y in (x, *others)]:
        return x
    if type(x) is Bracket:
        return x.of(N.ops.astype(x.values, dtype=dtype), x.is_made)
    return N.ops.astype(x, dtype=dtype)


def through(N: Namespace, op: Op, values: Values, params: Params) -> Value:
    """An op that moves entries of its first operand, which is in no box: its condition moves along."""
    x, *arguments = values
    if op.name == "index_basic" and reads_everything(params["key"], x.shape):
        return x
    if type(x) is not Bracket:
        return N.bind(op, values, params)
    if op.name == "broadcast_to":
        return stretched(N, x, params["shape"])
    out = N.bind(op, (x.values, *arguments), params)
    if op.name == "permute_dims":
        transposed = x.mapped(out, lambda condition: N.bind(op, (condition,), params))
        transposed.turned = None if x.is_made else (x, tuple(params["axes"]))
        return transposed
    return N.moved(x, out, lambda there: N.bind(op, (there, *arguments), params))


def stretched(N: Namespace, x: Bracket, shape: Shape) -> Bracket:
    """A selection of plain values, broadcast."""
    if x.shape == shape:
        return x
    return x.mapped(N.ops.broadcast_to(x.values, shape=shape), lambda c: N.fitted(c, shape))


__all__ = [
    "Array",
    "Namespace",
    "Params",
    "Value",
    "Values",
    "everything",
    "in_dtype",
    "inner_of",
    "is_partial",
    "is_plain",
    "part_of",
    "placed",
    "read",
    "region_of",
    "region_read",
    "stretched",
    "through",
]
