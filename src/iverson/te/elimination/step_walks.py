"""Walks of one step: the points of a recurrence's statement at one value of the axis of steps.

for t, i, k in 0:T, 0:n, 0:n if t >= 1 and i - 1 <= k <= i + 1
->  at step t:  if t >= 1: for i in 0:n: for k in max(0, i - 1):min(n, i + 2)
"""

from __future__ import annotations

from collections.abc import Sequence

from iverson.expr.build import as_expr, index
from iverson.te.elimination.exact_loops import exact_loops
from iverson.te.ir.evaluation_guards import conjunction
from iverson.te.ir.expressions import Var, variables
from iverson.te.ir.index_arithmetic import Constraint, affine_of
from iverson.te.ir.nodes import For, If, Point, Walk


def walk_of_step(
    axes: Sequence[Var], steps: Sequence[Var], constraints: Sequence[Constraint]
) -> tuple[Walk, ...] | None:
    """Loops over the points of a domain at one value of each axis in ``steps``, which are free in them.

    steps : the axes of steps, outermost first.
    None where isl is not asked, or where an axis of steps has no loop. () where there are no points.
    """
    first = [*steps, *(v for v in axes if v not in steps)]
    loops = exact_loops(first, constraints)
    if loops is None:
        return None
    places = [first.index(v) for v in axes]
    items = [_at_step(item, 0, steps, places) for item in loops]
    return None if None in items else tuple(w for item in items for w in item or ())


def _at_step(item: Walk, depth: int, steps: Sequence[Var], places: Sequence[int]) -> tuple[Walk, ...] | None:
    """A walk with guards in place of its loops over steps; None where a step depends on another axis.

    depth : the number of axes of steps whose loops are guards already.
    """
    if depth == len(steps):
        return (_in_order(item, steps, places),)
    axis = steps[depth]
    if isinstance(item, If):
        below = [_at_step(w, depth, steps, places) for w in item.body]
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
        values = {p.at[depth] for p in _points(item)}
        if len(values) != 1 or not all(set(variables([v])) <= {*steps[:depth]} for v in values):
            return None
        body = (item,)
        conditions += [axis == value for value in values]
    pieces = [_at_step(w, depth + 1, steps, places) for w in body]
    if None in pieces:
        return None
    inner = tuple(w for piece in pieces for w in piece or ())
    return (If(conjunction(conditions), inner),) if conditions else inner


def _points(item: Walk) -> list[Point]:
    return [item] if isinstance(item, Point) else [p for w in item.body for p in _points(w)]


def _in_order(item: Walk, steps: Sequence[Var], places: Sequence[int]) -> Walk:
    """A walk whose points give the axes in another order, the first of them as the axes of steps."""
    if isinstance(item, Point):
        at = (*steps, *item.at[len(steps) :])
        return Point(tuple(at[k] for k in places))
    body = tuple(_in_order(w, steps, places) for w in item.body)
    if isinstance(item, If):
        return If(item.condition, body)
    return For(item.var, item.lower, item.upper, item.step, body)


def over_steps(walk: tuple[Walk, ...], steps: Sequence[Var]) -> tuple[Walk, ...]:
    """Walk over all steps: the loops over them, outermost first, around a walk of one."""
    for axis in reversed(steps):
        assert axis.lo is not None
        assert axis.hi is not None
        walk = (For(axis, as_expr(axis.lo), as_expr(axis.hi), 1, walk),)
    return walk
