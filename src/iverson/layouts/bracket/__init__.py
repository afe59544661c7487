"""The bracket layout: values where a condition holds (an Iverson bracket); all other entries are zero.

It is the cotangent or tangent of a selection (`where`, `relu`, `clip`, overwritten entries), which is not
made yet. A value where the condition does not hold is never read: an inf or nan computed there reaches
nothing. Only derivatives are in this layout; a result that leaves a pass is selected first. In `layouts` it
imports `box`, `packed`, `zero` and `layout_registry`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core import entries
from iverson.core.protocols import LayoutValue, NDArray
from iverson.core.scalars import keep_where
from iverson.core.shapes import Shape
from iverson.layouts.box import Box
from iverson.layouts.layout_registry import Layout, layout_of, register
from iverson.layouts.packed import Packed
from iverson.layouts.zero import Zero

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Once:
    """A function without arguments, called once; then its result is kept and the function forgotten."""

    __slots__ = ("_function", "_result")

    def __init__(self, function: Callable[[], LayoutValue]) -> None:
        self._function: Callable[[], LayoutValue] | None = function

    def __call__(self) -> LayoutValue:
        if self._function is not None:
            self._result = self._function()
            self._function = None
        return self._result


class Bracket:
    """``values`` where ``condition`` is True (where it is False, if ``negated``), and zero elsewhere.

    Both are strided, or both are boxes of one region: outside of that everything is zero. With ``negated``
    the two sides of a selection share one condition, so that their sum is known to need a single select.

    is_made : whether the selection has been made. True: ``values`` are 0 where the condition does not hold.
        None: they are 0 or not finite there. False: they may be anything there. If not False, the condition
        may be a function that computes it, called when it is needed.
    turned : another selection, and the order of its axes that gives this one (in the box that both are in).
        The selected values of this one are a view of those of the other.

    In compiled graphs, values and conditions are values of the graph, and a condition has extent 1 along axes
    on which it does not vary (`iverson.kernels.partial`).
    """

    __slots__ = ("_condition", "is_made", "negated", "turned", "values")

    may_select = True

    def __init__(
        self,
        values: LayoutValue,
        condition: LayoutValue | Callable[[], LayoutValue],
        negated: bool = False,
        *,
        is_made: bool | None = False,
    ) -> None:
        self.values: Any = values
        self._condition: Any = (
            Once(condition) if callable(condition) and type(condition) is not Once else condition
        )
        self.negated = negated
        self.is_made = is_made
        self.turned: tuple[Bracket, Shape] | None = None

    def without_values(self) -> Bracket:
        """A selection with the same condition and `Zero` values.

        It is kept for a later use of the condition, so that the values (a cotangent) need not stay in memory.
        """
        x = self.values
        zero: Any = Zero(x.region.shape if type(x) is Box else x.shape, x.dtype)
        zero = Box(x.shape, x.region, zero) if type(x) is Box else zero
        return Bracket(zero, self._condition, self.negated)

    def of(self, values: LayoutValue, is_made: bool | None) -> Bracket:
        """Selection of other ``values`` under the same condition, which is not computed if it is not yet."""
        return Bracket(values, self._condition, self.negated, is_made=is_made)

    def mapped(self, values: LayoutValue, move: Callable[..., LayoutValue]) -> Bracket:
        """Selection of ``values`` under the condition ``move(condition)``.

        The result has the ``negated`` and ``is_made`` of this one. If the condition is not computed yet,
        ``move`` is called only when the new condition is read.

        values : the moved values; ``move`` is not applied to them.
        """
        if not self.is_lazy:
            return Bracket(values, move(self.condition), self.negated, is_made=self.is_made)
        bare = self.without_values()
        return Bracket(values, lambda: move(bare.condition), self.negated, is_made=self.is_made)

    @property
    def condition(self) -> Any:
        """Mask at which values are kept (are zero, if ``negated``); computed when first read."""
        if callable(self._condition):
            self._condition = self._condition()
        if isinstance(self._condition, np.generic):  # of rank 0, as NumPy computes them
            self._condition = np.asarray(self._condition)
        return self._condition

    @property
    def is_lazy(self) -> bool:
        """True if the condition is not computed yet: nobody has asked for it."""
        return callable(self._condition)

    def waits_for(self, other: Bracket) -> bool:
        """True if the condition is not computed yet and ``other`` has the same condition."""
        return callable(self._condition) and self._condition is other._condition

    if TYPE_CHECKING:

        @property
        def shape(self) -> Shape: ...

        @property
        def dtype(self) -> Any: ...

    else:  # read without entering a Python function: rules ask for them several times each
        shape = property(attrgetter("values.shape"))
        dtype = property(attrgetter("values.dtype"))

    def __repr__(self) -> str:
        return f"Bracket({self.values!r}, {'not ' * self.negated}{self.condition!r})"


def of_packed(value: LayoutValue) -> Any:
    """Convert a `Packed` value to a strided `Bracket` under its mask; return any other value unchanged."""
    return (
        Bracket(layout_of(value).to_strided(value), value.mask, is_made=True)
        if type(value) is Packed
        else value
    )


def as_selection(value: LayoutValue) -> Any:
    """Convert a `Packed` or `Box` value to a `Bracket` whose selection is made; other values are unchanged.

    The condition of a box is True at all entries inside the box.
    """
    if type(value) is not Box:
        return of_packed(value)
    return Bracket(value, Box(value.shape, value.region, np.ones(value.region.shape, bool)), is_made=True)


def held(value: Bracket) -> Any:
    """Mask of the entries at which ``value`` keeps its values: the condition, inverted if ``negated``.

    The result is a boolean array, or a box of one if the condition is a box.
    """
    condition = value.condition
    if not value.negated:
        return condition
    if type(condition) is Box:
        return Box(condition.shape, condition.region, ~condition.inner)
    return by_line(np.logical_not, condition)


def by_line(f: Callable[..., ArrayLike], *conditions: NDArray) -> np.ndarray[Any, Any]:
    """Elementwise function of arrays of one shape, computed once along axes where all are constant.

    An array is constant along an axis of stride 0; the result is then broadcast along this axis.
    """
    if 0 not in conditions[0].strides:
        return np.asarray(f(*conditions))
    shape = conditions[0].shape
    is_constant = [not any(c.strides[k] for c in conditions) and n > 1 for k, n in enumerate(shape)]
    if not any(is_constant):
        return np.asarray(f(*conditions))
    once = tuple(slice(1) if s else slice(None) for s in is_constant)
    return np.broadcast_to(f(*(c[once] for c in conditions)), shape)


def select(value: LayoutValue) -> Any:
    """Values of a `Bracket` with zeros where its condition does not hold: strided, or a box.

    The values are selected in place of those of ``value``, at most once, and ``is_made`` becomes True. Any
    other value is returned unchanged.
    """
    if type(value) is not Bracket:
        return value
    if value.is_made is None and is_finite(getattr(value.values, "inner", value.values)):
        value.is_made = True
    if not value.is_made:  # nobody reads what is replaced: it is made once
        values = value.values
        inner = values.inner if type(values) is Box else values
        if value.turned is not None:
            before, axes = value.turned
            inner, value.turned = select(before).transpose(axes), None
        else:
            condition = held(value)
            inner = keep_where(condition.inner if type(condition) is Box else condition, inner)
        value.values = Box(values.shape, values.region, inner) if type(values) is Box else inner
        value.is_made = True
    return value.values


def is_finite(x: NDArray) -> bool:
    """True only if all entries are finite; False too if their squares overflow in this one pass."""
    return math.isfinite(np.vdot(x, x).real)


def _to_strided(value: Bracket) -> np.ndarray[Any, Any]:
    selected = select(value)
    return layout_of(selected).to_strided(selected)


def _check(value: Bracket) -> None:
    assert type(value.values) is type(value.condition)
    assert type(value.values) is not Zero  # nothing is selected of it
    assert value.condition.dtype == bool
    assert value.condition.shape == value.shape
    for part in (value.values, value.condition):
        layout_of(part).check(part)
    if type(value.values) is Box:
        assert value.values.region == value.condition.region


def _stored(value: Bracket) -> tuple[Any, np.ndarray[Any, Any]]:
    """Boolean mask of the entries that the condition keeps, and the values at these entries."""
    condition, values = (layout_of(part).to_strided(part) for part in (held(value), value.values))
    return condition, values[condition]


def _support(value: Bracket) -> entries.Entries:
    if type(value.values) is Box:
        return entries.Box(value.values.region)
    return entries.Bracket(value.condition, value.negated)


def _buffers(value: Bracket) -> tuple[np.ndarray[Any, Any], ...]:
    parts = (value.values, value.condition)
    return tuple(b for part in parts for b in layout_of(part).buffers(part))


def _rebuild(value: Bracket, buffers: tuple[NDArray, ...]) -> Bracket:
    values, condition = (
        layout_of(part).rebuild(part, (buffer,))
        for part, buffer in zip((value.values, value.condition), buffers, strict=True)
    )
    return Bracket(values, condition, value.negated)


register(
    Layout(
        name="bracket",
        kind=Bracket,
        to_strided=_to_strided,
        check=_check,
        support=_support,
        stored=_stored,
        buffers=_buffers,
        rebuild=_rebuild,
        densify_warns=False,
        priority=30,
    )
)
