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
from iverson.core.protocols import Namespace as Ops
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

    A selection (`Bracket`) *holds* the entries at which its condition is true, and leaves out all others. A
    condition is a value of booleans.

    ops : the ops on plain values, by name.
    """

    ops: Ops

    @abstractmethod
    def bind(self, op: Op, values: Values, params: Params) -> Value:
        """Result of ``op`` on values of which none is a selection."""

    @abstractmethod
    def aval(self, op: Op, values: Values, params: Params) -> Any:
        """An object with the shape and dtype of the result of ``op``."""

    @abstractmethod
    def constant(self, array: Value) -> Value:
        """An array, or a box of an array, as a value of this namespace."""

    @abstractmethod
    def true(self, shape: Shape) -> Value:
        """A condition that holds everywhere."""

    @abstractmethod
    def zero(self, shape: Shape, dtype: DTypeLike) -> Value:
        """The value of this shape and dtype that is structurally zero: it has no entries in memory."""

    @abstractmethod
    def zeros(self, shape: Shape, dtype: DTypeLike) -> Value:
        """A plain value of this shape and dtype, whose entries are numbers 0."""

    @abstractmethod
    def is_zero(self, x: Value) -> bool:
        """True if a value is structurally zero."""

    @abstractmethod
    def cut(self, x: Value, region: Region) -> Value:
        """Part in ``region`` of the plain value ``x``, if ``x`` is broadcast to the array of the region."""

    @abstractmethod
    def embedded(self, x: Value, region: Region, shape: Shape) -> Value:
        """A plain value of shape ``shape`` with ``x`` in ``region``, which is not everything, and else 0."""

    @abstractmethod
    def select(self, x: Value) -> Value:
        """Value ``x`` with 0 at the entries that it leaves out, if it is a selection. A box stays a box."""

    @abstractmethod
    def plain(self, x: Value) -> Value:
        """All entries of ``x`` as a plain value: 0 outside of its box and where a selection leaves out."""

    @abstractmethod
    def one_condition(self, a: Bracket, b: Bracket) -> bool:
        """True if two selections are known to have one condition; each may negate it or not."""

    @abstractmethod
    def varies(self, condition: Value, axis: int) -> bool:
        """True if ``condition`` may vary along ``axis``, -1 or -2."""

    @abstractmethod
    def once(self, condition: Value, axis: int) -> Value:
        """``condition``, which does not vary along ``axis`` (-1 or -2), with extent 1 on this axis."""

    @abstractmethod
    def meets(self, a: Value, b: Value) -> Value:
        """Mask of the pairs (i, k) for which ``a[i, j]`` and ``b[j, k]`` are, or may be, true at some j."""

    @abstractmethod
    def fitted(self, condition: Value, shape: Shape) -> Value:
        """Condition of a selection of shape ``shape``, from a condition that broadcasts to this shape."""

    @abstractmethod
    def later(self, condition: Callable[[], Value]) -> Any:
        """Result of ``condition``; or the function itself, if the namespace computes conditions on demand."""

    def every(self, _condition: Value) -> bool:
        """True if ``condition`` is known to be true everywhere."""
        return False

    @abstractmethod
    def indices(self, arrays: Values) -> Sequence[Array] | None:
        """Entries of index arrays; None if they are not known."""

    @abstractmethod
    def along(self, pattern: Pattern, axis: int) -> Value:
        """Index that each entry of ``pattern`` has on ``axis``."""

    def is_carried(self, _x: Value) -> bool:
        """True if rules can take ``x``: a partial or plain value, a zero, or a number."""
        return True

    def total(self, _terms: Values) -> Value | None:
        """Sum of the terms, if the namespace has its own way to add plain values and boxes; else None."""
        return None

    @abstractmethod
    def product(self, op: Op, a: Value, b: Value, params: Params) -> tuple[Value, bool | None]:
        """Product of matrices without the terms of which a selection leaves out a factor, and a flag.

        The flag is `is_made` of the product as a selection: whether the product is 0 where it has no terms.
        It is None if the product is no selection.
        """

    def around(self, op: Op, x: Value, wanted: Region, params: Params, image: Region) -> Value:
        """Result of ``op`` on the region ``wanted`` of ``x``, in ``image``; a selection.

        The region is wider than the box of ``x``: entries outside of the box are left out.
        """
        out = through(self, op, (self.apart(read(self, self.as_selection(x), wanted)),), params)
        return out if out.shape == image.shape else read(self, out, image)

    def apart(self, x: Bracket) -> Bracket:
        """Selection that this namespace no longer treats as the selection of a box."""
        return x

    def as_selection(self, x: Value) -> Value:
        """Box ``x`` as a selection that holds the entries of the box; any other value is itself."""
        if type(x) is not Box:
            return x
        return Bracket(x, Box(x.shape, x.region, self.true(x.region.shape)), is_made=True)

    def same(self, a: Bracket, b: Bracket) -> bool:
        """True if two selections are known to hold the same entries."""
        return a.negated == b.negated and self.one_condition(a, b)

    def there(self, x: Bracket) -> Value:
        """Condition that is true at the entries that the selection holds: negated if ``x.negated``."""
        return self.ops.logical_not(x.condition) if x.negated else x.condition

    def everywhere(self, x: Bracket) -> Value:
        """Condition of a selection in no box, as `there` gives it, with the shape of the selection."""
        there = self.there(x)
        return there if there.shape == x.shape else self.ops.broadcast_to(there, shape=x.shape)

    def under(self, values: Value, terms: Sequence[Bracket], is_made: bool | None) -> Value:
        """Selection of ``values`` under the conditions of all selections ``terms``.

        is_made : whether ``values`` are 0 already where a condition does not hold, as in `Bracket`.
        """
        if not is_made and all(t.is_lazy and t.is_made is not False for t in terms):
            is_made = None
        first, *remaining = selections = terms if is_made is False else [t.without_values() for t in terms]
        if all(self.same(first, t) for t in remaining):
            return first.of(values, is_made)
        return self.held(values, lambda: reduce(self.ops.logical_and, map(self.there, selections)), is_made)

    def held(self, values: Value, there: Callable[[], Value], is_made: bool | None) -> Bracket:
        """Selection of ``values`` under the condition that ``there`` returns.

        The condition is computed at once if ``is_made`` is False; otherwise it may be computed on demand.
        """
        return Bracket(values, there() if is_made is False else self.later(there), is_made=is_made)

    def moved(self, x: Bracket, values: Value, move: Callable[[Value], Value]) -> Bracket:
        """Selection of ``values``, the moved values of ``x``, under the condition of ``x``, moved too.

        move : moves a condition in the same way.
        """
        condition = x.without_values()
        return self.held(values, lambda: move(self.everywhere(condition)), x.is_made)


def is_partial(x: Value) -> bool:
    """True if a value is a box, or a selection in one."""
    return type(x) is Box or (type(x) is Bracket and type(x.values) is Box)


def is_plain(x: Value) -> bool:
    """True if a value is neither a box nor a selection."""
    return type(x) is not Bracket and type(x) is not Box


def region_of(x: Value) -> Region:
    """Region of the box that ``x`` is in; the region of all entries if ``x`` is in no box."""
    if type(x) is Bracket:
        x = x.values
    return x.region if type(x) is Box else Region.full(x.shape)


def region_read(need: Entries, shape: Shape) -> Region:
    """Region that contains the entries ``need`` of a result of shape ``shape``.

    For a `Box`, the result is the region of this box; for `NOTHING`, an empty region. For all other sets of
    entries, also a sparse pattern or the condition of a selection, the result is the region of all entries.
    """
    return hull(plain(need, shape), shape)


def inner_of(x: Value) -> Value:
    """Part of ``x`` in its box: a plain value, or a selection of one. A value in no box is itself."""
    if type(x) is Box:
        return x.inner
    if type(x) is Bracket and type(x.values) is Box:
        inner = x.mapped(x.values.inner, lambda condition: condition.inner)
        inner.turned = x.turned
        return inner
    return x


def placed(N: Namespace, shape: Shape, region: Region, inner: Value) -> Value:
    """Value of shape ``shape`` with ``inner`` in ``region``, else 0: a box, unless the region is all."""
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
    """Part of ``x`` that is in ``region`` after ``x`` is broadcast to the array of the region.

    The part is plain, a selection, or zero, and is not broadcast itself. A number is returned unchanged.
    """
    return part_of(N, x, region.projected(x.shape)) if hasattr(x, "shape") else x


def part_of(N: Namespace, x: Value, wanted: Region) -> Value:
    """Part of ``x`` in its region ``wanted``: plain, a selection, or zero; never a box."""
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
    """Value of shape ``shape`` with ``x`` in ``region``, else 0; a selection leaves these zeros out."""
    if type(x) is not Bracket:
        return N.embedded(x, region, shape)
    return N.moved(x, N.embedded(x.values, region, shape), lambda there: N.embedded(there, region, shape))


def everything(N: Namespace, x: Value) -> Value:
    """All entries of ``x`` as a value in no box: plain, or a selection."""
    return read(N, x, Region.full(x.shape)) if is_partial(x) else x


def in_dtype(N: Namespace, x: Value, dtype: DTypeLike, others: Values = ()) -> Value:
    """A value cast to the dtype of a result, unless the value or one of ``others`` has that dtype."""
    if dtype in [y.dtype for y in (x, *others)]:
        return x
    if type(x) is Bracket:
        return x.of(N.ops.astype(x.values, dtype=dtype), x.is_made)
    return N.ops.astype(x, dtype=dtype)


def through(N: Namespace, op: Op, values: Values, params: Params) -> Value:
    """Result of an op that moves entries of its first operand, which is in no box.

    If this operand is a selection, its condition is moved by the same op, and the result is a selection.
    """
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
    """Selection ``x`` of a plain value, broadcast to ``shape``."""
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
