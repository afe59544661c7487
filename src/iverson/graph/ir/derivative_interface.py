"""Interface of a derivative's graph: cotangents and tangents enter and leave it, and their zeros stay strong.

Inputs and outputs of a graph are dense arrays. In one, a zero that a selection or a box stands for would be
a number, and the rule on the other side would multiply it with an inf. So a selection crosses as two arrays,
its values and the condition under which they are held, and a box crosses as its contents.

    %3 = bracket(%c, %2)                %3 = bracket(%c, %2)
    return (%3)                  ->     %4 = values_held(%3)
                                        %5 = where_held(%3)
                                        return (%4, %5)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from iverson.autograd.node import Node
from iverson.core import entries
from iverson.core.aval import Aval, has_shape
from iverson.core.dispatch import Handle, LevelValue, bind, is_tracked, may_select, slot_of, value_of
from iverson.core.entries import FULL, NOTHING
from iverson.core.op import Body, Op
from iverson.core.protocols import LayoutValue, Params
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.core.table import TABLE, F, derived
from iverson.graph.ir.nodes import Equation, Value, values_of
from iverson.kernels.kernel_registry import register
from iverson.layouts import Box, Bracket, Packed, Sparse, Zero, support_of, to_strided
from iverson.layouts.bracket import held
from iverson.ops.numbers.selection_ops import TAKEN_APART, begins, scatters_boxes
from iverson.ops.rules import loops
from iverson.ops.rules.entry_maps import Elementwise

T = TypeVar("T")

#: The values of a selection that is not made yet; for any other value, its entries. Values must not be read
#: where the selection does not hold them.
values_held = Op(
    name="values_held",
    forward=Body(lambda x: x, signals=False),
    abstract=lambda x: Aval(x.shape, x.dtype),
    vjp=(lambda F, g, _y, _x: g,),
    jvp=(lambda F, t, _y, _x: t,),  # as it is held: of what nobody reads, the derivative is not read either
    linear_in=((0,),),
    entry_map=Elementwise(computed=False),
    loops=loops.same,
)


def _everywhere(x: LayoutValue) -> Any:
    return np.broadcast_to(np.True_, np.shape(x))


#: Condition under which a selection holds values; for any other value, true everywhere.
where_held = Op(
    name="where_held",
    forward=Body(_everywhere, signals=False),
    abstract=lambda x: Aval(x.shape, np.dtype(bool)),
    entry_map=Elementwise(computed=False),
    loops=lambda T, aval, x: T.compute(aval.shape, lambda *i: T.F.equal(0, 0)),
)


@register("values_held", Bracket)
@register("values_held", Packed)
@register("values_held", Sparse)
def _values(_op: Op, values: tuple[Bracket | Packed | Sparse], _params: Params) -> Any:
    (x,) = values
    return to_strided(x.values) if type(x) is Bracket else to_strided(x) if type(x) is Packed else x


@register("where_held", Zero)
def _nowhere(_op: Op, values: tuple[Zero], _params: Params) -> Any:
    return np.broadcast_to(np.False_, values[0].shape)


@register("where_held", Box)
def _in_box(_op: Op, values: tuple[Box], _params: Params) -> Any:
    (x,) = values
    return to_strided(Box(x.shape, x.region, np.ones(x.region.shape, bool)))


@register("where_held", Bracket)
@register("where_held", Packed)
def _held(_op: Op, values: tuple[Bracket | Packed], _params: Params) -> Any:
    (x,) = values
    return to_strided(held(x)) if isinstance(x, Bracket) else x.mask


@register("where_held", Sparse)
def _held_of_stored(_op: Op, values: tuple[Sparse], _params: Params) -> Any:
    (x,) = values
    return _everywhere(x) if x.there is None else x.there()


@derived
def held_apart(x: Handle) -> tuple[Any, Any]:
    """The values of ``x``, and the condition under which it holds them: true everywhere unless it is a
    selection.
    """
    return bind(values_held, (x,)), bind(where_held, (x,))


@dataclass(frozen=True, slots=True)
class Crossing:
    """Form in which a value crosses the interface: its entries in a region, or all, and maybe a condition.

    shape : the shape of the value, if it has a region.
    region : the region outside of which it is zero, if only its entries there cross.
    selects : whether a condition crosses beside it, which says where it holds values.
    """

    shape: Shape = ()
    region: Region | None = None
    selects: bool = False

    def apart(self, x: Handle) -> list[Any]:
        """The handles that cross for a value."""
        if self.region is not None:
            x = F.index_basic(x, key=self.region.slices)
        return [*held_apart(x)] if self.selects else [x]

    def together(self, parts: Sequence[Handle]) -> Any:
        """The value, from the handles that crossed for it."""
        x = F.bracket(parts[1], parts[0], negated=False) if self.selects else parts[0]
        return x if self.region is None else F.embed(x, key=self.region.slices, shape=self.shape)

    def taken_from(self, parts: Iterator[T]) -> list[T]:
        """The next of ``parts``: those of this value."""
        return [next(parts) for _ in range(self.count)]

    def stacked(self, n: int) -> Crossing:
        """The form of ``n`` such values, stacked along a new first axis."""
        if self.region is None:
            return self
        start, stop = self.region
        return Crossing((n, *self.shape), Region((0, *start), (n, *stop)), self.selects)

    @property
    def count(self) -> int:
        """Number of arrays that cross."""
        return 1 + self.selects


#: The form of a value that crosses with all of its entries.
WHOLE = Crossing()

#: The variables of a derivative that is being written down whose cotangents leave its graph as they are.
_leaving: ContextVar[frozenset[Node]] = ContextVar("leaving", default=frozenset())


@contextmanager
def let_leave(variables: Iterable[Node]) -> Iterator[None]:
    """A block in which cotangents of these variables go on to the ops around the graph."""
    token = _leaving.set(frozenset(variables))
    try:
        yield
    finally:
        _leaving.reset(token)


def leaving_of(node: Node, wanted: Sequence[int]) -> tuple[int, ...]:
    """Numbers in ``wanted`` of the arguments whose cotangents go to another op, and so may be selections.

    Such an argument is the result of an op, or a variable that `let_leave` declares: the cotangent of such a
    variable goes to an op outside of the graph that is being written.
    """
    variables = _leaving.get()
    parents = [(k, node.parents[k]) for k in wanted]
    return tuple([k for k, p in parents if p is not None and (p.op is not None or p in variables)])


class Found:
    """Results of equations that may be selections not yet made, and those that are boxes to any order.

    A value is a box to any order if derivatives of any order may rely on its zeros outside of the box. That
    is so if these zeros come from constants and results of `embed` alone. What follows from a variable that
    is a box may be zero only in this call.

    selections : the values that may be selections.
    constants : values with their arrays.
    placed : the values that are boxes to any order; as an argument, those known to be so besides constants.
    """

    def __init__(
        self,
        equations: Iterable[Equation],
        constants: Collection[tuple[Value, LayoutValue]],
        placed: Iterable[Value] = (),
    ) -> None:
        self.selections = {v for v, array in constants if type(array) in (Bracket, Packed)}
        self.placed = {*placed, *(v for v, _ in constants)}
        for e in equations:
            if e.op.name in TAKEN_APART:
                continue
            zeros = [v for v in values_of(e.operands) if v.aval.support is not FULL]
            if e.op is TABLE["embed"] or (zeros and self.placed.issuperset(zeros)):
                self.placed.update(e.results)
            if begins(e.op, e.params) or self._carries(e):
                self.selections.update(e.results)

    def _carries(self, e: Equation) -> bool:
        """True if the results may be selections because an operand is one, or is a box whose entries move to
        places that only a run knows: to no box."""
        operands = values_of(e.operands)
        if self.selections.isdisjoint(operands):
            boxes = [v for v in operands if v.aval.support is not FULL]
            known = all(isinstance(v.aval.support, entries.Box) for v in e.results)
            return scatters_boxes(e.op) and not known and not self.placed.isdisjoint(boxes)
        if not e.op.elementwise:
            return True
        zero = self.selections.union(v for v in operands if v.aval.support is NOTHING)
        zeros = {k for k, x in enumerate(e.operands) if type(x) is Value and x in zero}
        groups = e.op.groups(len(e.operands))
        return any(map(zeros.issuperset, groups)) or (e.op.zero_preserving and len(zeros) == len(e.operands))

    def crossing(self, x: Value) -> Crossing:
        """Form in which a value leaves the graph: of a box, the entries inside it alone."""
        box = isinstance(x.aval.support, entries.Box)
        if (box and x not in self.placed) or not has_shape(x):
            return WHOLE
        selects = x in self.selections
        region = x.aval.support.region if box else None  # type: ignore[union-attr]
        return Crossing(x.shape if box else (), region, selects)


def crossing_of(x: Handle, *, boxes: bool) -> Crossing:
    """Form in which the value of a handle enters a graph.

    It is `WHOLE` (the handle itself enters) for an untracked box that is no selection.

    boxes : whether the entries inside a box may cross alone.
    """
    value = value_of(x)
    if type(value) is np.ndarray or not has_shape(x):
        return WHOLE
    support = support_of(value)
    selects = type(value) is Packed or may_select(x) or _is_stored_selection(value)
    box = (
        boxes
        and isinstance(support, entries.Box)
        and (_is_put_in_place(x) or (selects and not is_tracked(x)))
    )
    region = support.region if box else None  # type: ignore[union-attr]
    return Crossing(x.shape if box else (), region, selects)


def _is_stored_selection(value: LayoutValue) -> bool:
    """True if a value is a stored selection, or a batch of such."""
    while isinstance(value, LevelValue):
        value = value_of(getattr(value, "held", None), None)
    return getattr(value, "there", None) is not None


def given_out(crossings: Iterable[Crossing], parts: Iterable[Handle | None]) -> list[Any]:
    """The values whose parts left a body in these forms; None for one whose parts are None."""
    handles = iter(parts)
    groups: list[tuple[Crossing, list[Any]]] = [(c, c.taken_from(handles)) for c in crossings]
    return [None if group[0] is None else c.together(group) for c, group in groups]


def _is_put_in_place(x: Handle) -> bool:
    """True if ``x`` is tracked and its zeros come from `embed` and constants alone (a box to any order,
    `Found`).
    """
    if not is_tracked(x):
        return False
    pending, visited = [slot_of(x)[0]], set()
    while pending:
        node = pending.pop()
        if node in visited or node.op is TABLE["embed"]:
            continue
        visited.add(node)
        zeros = [k for k, a in enumerate(node.args) if _known(a) is not FULL]
        if node.op is None or not zeros:
            return False
        pending += [node.parents[k] for k in zeros if node.parents[k] is not None]
    return True


def _known(x: LayoutValue | complex) -> Any:
    """The support of an argument, from the value or aval that a node keeps of it."""
    return x.support if isinstance(x, Aval) else support_of(x) if hasattr(x, "shape") else FULL


def taken_apart(x: Value) -> tuple[list[Value], list[Equation], Equation]:
    """Split the selection ``x`` into two new Values: its values and its condition.

    Returns these two, the equations that compute them from ``x``, and the equation that restores ``x``.
    """
    support = x.aval.support if isinstance(x.aval.support, entries.Stored) else FULL
    values, there = Value(Aval(x.shape, x.dtype, support)), Value(Aval(x.shape, np.dtype(bool)))
    apart = [Equation(values_held, (x,), {}, (values,)), Equation(where_held, (x,), {}, (there,))]
    restore = Equation(TABLE["bracket"], (there, values), {"negated": False}, (x,))
    return [values, there], apart, restore
