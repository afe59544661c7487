"""Reductions inside of expressions: their points, for each point of the loops around them.

Their conditions are bounds of their axes where they can be solved for one, also those that read no data:
``sum(x[k] for k where k <= i)`` runs over ``0 <= k < i + 1``.
"""

from __future__ import annotations

from collections.abc import Sequence

from iverson.expr.build import apply, index
from iverson.expr.nodes import Expr
from iverson.te.ir.expressions import Extent, Reduce, Scoped, Var, extent
from iverson.te.ir.index_arithmetic import conjuncts
from iverson.te.ir.nodes import Domain
from iverson.te.ir.ragged_axes import Bounds, bound_by, bounds_in


def bounds_of(node: Scoped) -> tuple[dict[Var, Bounds], tuple[Expr, ...]]:
    """Bounds of the axes of a reduction, and a tuple of all conditions that are none."""
    where = tuple(part for c in node.where for part in conjuncts(c))
    bounds, plain = bounds_in(Domain(node.axes, where))
    conditions: list[Expr] = []
    for c in plain:
        solved = bound_by(c, node.axes)
        if solved is None:
            conditions.append(c)
            continue
        v, new = solved
        low, high = bounds.get(v, Bounds()).within(v)
        if new.lower is not None:
            low = apply("maximum", low, new.lower)
        if new.upper is not None:
            high = apply("minimum", high, new.upper)
        bounds[v] = Bounds(low, high)
    return bounds, tuple(conditions)


def position_of(node: Reduce) -> Expr:
    """Position of a point of an argmax or argmin, counted from the start of its first axis."""
    bounds, _ = bounds_of(node)
    first = node.axes[0]
    return position(node.axes, bounds.get(first, Bounds()).within(first)[0])


def position(axes: Sequence[Var], start: Extent | None = None) -> Expr:
    """Position of a point in the box of ``axes``, row by row.

    start : the value of the first axis that counts as 0; by default its lower bound.
    """
    result: Expr = index(0)
    for k, v in enumerate(axes):
        result = result * extent(v) + (v - (v.lo if k or start is None else start))
    return result
