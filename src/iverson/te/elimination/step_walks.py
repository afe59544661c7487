"""Walks of one step: the points of a recurrence's statement at one value of the axis of steps.

for t, i, k in 0:T, 0:n, 0:n if t >= 1 and i - 1 <= k <= i + 1
->  at step t:  if t >= 1: for i in 0:n: for k in max(0, i - 1):min(n, i + 2)
"""

from __future__ import annotations

from collections.abc import Sequence

from iverson.expr.build import as_expr, index
from iverson.expr.nodes import Const
from iverson.te.elimination.exact_loops import exact_loops
from iverson.te.ir.evaluation_guards import conjunction
from iverson.te.ir.expressions import Var
from iverson.te.ir.index_arithmetic import Constraint, affine_of
from iverson.te.ir.nodes import For, If, Point, Walk


def walk_of_step(
    axes: Sequence[Var], axis: Var, constraints: Sequence[Constraint]
) -> tuple[Walk, ...] | None:
    """Loops over the points of a domain at one value of ``axis``, which is free in them.

    None where isl is not asked, or where the axis has no loop of its own. () where there are no points.
    """
    first = [axis, *(v for v in axes if v is not axis)]
    loops = exact_loops(first, constraints)
    if loops is None:
        return None
    places = [first.index(v) for v in axes]
    items = [_at_step(item, axis, places) for item in loops]
    return None if None in items else tuple(w for item in items for w in item or ())


def _at_step(item: Walk, axis: Var, places: Sequence[int]) -> tuple[Walk, ...] | None:
    """A walk with guards in place of its loop over steps; None where a step depends on another axis."""
    if isinstance(item, If):
        below = [_at_step(w, axis, places) for w in item.body]
        if None in below:
            return None
        return (If(item.condition, tuple(w for b in below for w in b or ())),)
    conditions = []
    if isinstance(item, For) and item.var is axis:
        body = item.body
        assert axis.hi is not None
        if affine_of(item.lower) != affine_of(as_expr(axis.lo)):
            conditions.append(axis >= item.lower)
        if affine_of(item.upper) != affine_of(as_expr(axis.hi)):
            conditions.append(axis < item.upper)
        if item.step > 1:
            conditions.append((axis - item.lower) % item.step == index(0))
    else:  # of a single step
        steps = {p.at[0] for p in _points(item)}
        if len(steps) != 1 or not all(isinstance(step, Const) for step in steps):
            return None
        body = (item,)
        conditions += [axis == step for step in steps]
    inner = tuple(_in_order(w, axis, places) for w in body)
    return (If(conjunction(conditions), inner),) if conditions else inner


def _points(item: Walk) -> list[Point]:
    return [item] if isinstance(item, Point) else [p for w in item.body for p in _points(w)]


def _in_order(item: Walk, axis: Var, places: Sequence[int]) -> Walk:
    """A walk whose points give the axes in another order, the first of them as the axis of steps."""
    if isinstance(item, Point):
        at = (axis, *item.at[1:])
        return Point(tuple(at[k] for k in places))
    body = tuple(_in_order(w, axis, places) for w in item.body)
    if isinstance(item, If):
        return If(item.condition, body)
    return For(item.var, item.lower, item.upper, item.step, body)


def over_steps(walk: tuple[Walk, ...], axis: Var) -> tuple[Walk, ...]:
    """Walk over all steps: the loop over them around a walk of one."""
    assert axis.lo is not None
    assert axis.hi is not None
    lower, upper = as_expr(axis.lo), as_expr(axis.hi)
    return (For(axis, lower, upper, 1, walk),)
