"""Partial values of the pass `support_and_demand`: a selection that is not made yet, or a part of a value.

All other values are handles of the pass's trace. `Held` is for this pass what a bracket is among layouts, and
`Part` what a box is. The rules of ops for them are in `carried`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import make_handle, value_of
from iverson.core.entries import NOTHING, Box
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.core.table import F
from iverson.graph.tracing.trace import Traced
from iverson.layouts import Zero, support_of, to_strided


@dataclass(frozen=True, slots=True)
class Held:
    """A selection not yet made: values, and where they are held (are not, if ``negated``).

    condition : of as many axes as the values, with extent 1 on those along which it does not vary.
    made : whether values are 0 where they are not held, so that there is nothing to select.
    turned : the selection of which this is one with its axes in another order, and that order. Made, it is a
        view of what that is made.
    """

    values: Any
    condition: Any
    negated: bool
    made: bool = False
    turned: tuple[Held, tuple[int, ...]] | None = None

    @property
    def shape(self) -> Shape:
        return self.values.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def selected(self) -> Any:
        """The selection made."""
        if self.made:
            return self.values
        if self.turned is not None:
            before, axes = self.turned
            return F.permute_dims(before.selected(), axes=axes)
        none = False if self.values.dtype == np.bool_ else 0
        return F.where(self.condition, *((none, self.values) if self.negated else (self.values, none)))

    def there(self) -> Any:
        """Where values are held."""
        return F.logical_not(self.condition) if self.negated else self.condition

    def everywhere(self) -> Any:
        """The same for each entry."""
        there = self.there()
        return there if there.shape == self.shape else F.broadcast_to(there, shape=self.shape)

    def same(self, other: Held) -> bool:
        """Whether both are held under one condition."""
        return self.negated == other.negated and of_trace(self.condition) is of_trace(other.condition)

    def stretched(self, shape: Shape) -> Held:
        """Broadcast to a shape."""
        values, condition = self.values, self.condition
        if values.shape != shape:
            values = F.broadcast_to(values, shape=shape)
        if missing := len(shape) - len(condition.shape):
            condition = F.expand_dims(condition, axis=tuple(range(missing)))
        return Held(values, condition, self.negated, self.made)

    def cut(self, region: Region) -> Held:
        """What is in a region."""
        if region.covers(self.shape):
            return self
        return Held(cut(self.values, region), cut(self.condition, region), self.negated, self.made)


@dataclass(frozen=True, slots=True)
class Part:
    """What is in a region of a value: outside of it, entries are zero or nobody reads them.

    inner : a handle, or `Held`.
    """

    shape: Shape
    region: Region
    inner: Any

    @property
    def dtype(self) -> Any:
        return self.inner.dtype

    def placed(self, x: Any, shape: Shape, region: Region) -> Any:
        """x in a region of zeros."""
        return x if region.covers(shape) else F.embed(x, key=region.slices, shape=shape)

    def made(self) -> Any:
        """All entries."""
        return self.placed(selected(self.inner), self.shape, self.region)

    def held(self) -> Held:
        """As a selection of all entries, those in the region."""
        inner = self.inner
        there = inner.everywhere() if isinstance(inner, Held) else make_handle(np.ones(inner.shape, bool))
        values = inner.values if isinstance(inner, Held) else inner
        values, there = (self.placed(x, self.shape, self.region) for x in (values, there))
        return Held(values, there, False)

    def apart(self) -> Held:
        """As `held`, of values that are seen as a part no more: a second pass finds none."""
        whole = self.held()
        made = not isinstance(self.inner, Held) or self.inner.made
        there = value_of(whole.condition)
        there = whole.condition if isinstance(there, Traced) else make_handle(to_strided(there))
        values, there = (F.to_dense(v) for v in (whole.values, there))
        return Held(values, there, False, made)

    def read(self, region: Region) -> Any:
        """The entries of another region, with zeros for those that are not here."""
        common = region.intersect(self.region)
        if not common.size:
            return zero(region.shape, self.dtype)
        part = read(self.inner, common.within(self.region))
        if common == region:
            return part
        wider = Part(region.shape, common.within(region), part)
        return wider.held() if isinstance(part, Held) else wider.made()


def cut(x: Any, region: Region) -> Any:
    """A handle in a region of an array that it is broadcast to."""
    own = region.projected(x.shape)
    if is_zero(x):
        return zero(own.shape, x.dtype)
    return x if own.covers(x.shape) else F.index_basic(x, key=own.slices)


def read(x: Any, region: Region) -> Any:
    """A handle, a number, a `Held` or a `Part` in a region of an array that it is broadcast to."""
    if not hasattr(x, "shape"):
        return x
    if isinstance(x, Part):
        return x.read(region.projected(x.shape))
    return x.cut(region) if isinstance(x, Held) else cut(x, region)


def part(shape: Shape, region: Region, inner: Any) -> Any:
    """Entries of a region, as what they are: all of a value, or a part of it."""
    if is_zero(inner.values if isinstance(inner, Held) else inner):
        return zero(shape, inner.dtype)
    return inner if region.covers(shape) else Part(shape, region, inner)


def selected(x: Any) -> Any:
    """All entries of a value, its selection made."""
    if isinstance(x, Part):
        return x.made()
    return x.selected() if isinstance(x, Held) else x


def zero(shape: Shape, dtype: Any) -> Any:
    """A handle of a value that is structurally zero."""
    return make_handle(Zero(shape, dtype))


def is_zero(x: Any) -> bool:
    """Whether a value is structurally zero."""
    held = value_of(x, x)
    return type(held) is Zero or (isinstance(held, Traced) and held.value.aval.support is NOTHING)


def of_trace(x: Any) -> Any:
    """What tells handles apart: the value of the trace that they hold."""
    held = value_of(x, x)
    return held.value if isinstance(held, Traced) else held


def region_of(x: Any) -> Region:
    """Where a value may be nonzero."""
    return x.region if isinstance(x, Part) else Region.full(x.shape)


def known(x: Any) -> Any:
    """What an op's ``infer`` gets of a value; a number as it is."""
    if isinstance(x, Part):
        return Aval(x.shape, x.dtype, Box(x.region))
    if isinstance(x, Held):
        return Aval(x.shape, x.dtype)
    return Aval(x.shape, x.dtype, support_of(value_of(x, x))) if hasattr(x, "shape") else x
