"""Reductions inside of expressions: their points, for each point of the loops around them.

Their conditions are bounds of their axes where they can be solved for one, also those that read no data:
``sum(x[k] for k where k <= i)`` runs over ``0 <= k < i + 1``.
"""

from __future__ import annotations

from collections.abc import Sequence

from iverson.expr.build import index
from iverson.expr.nodes import Expr
from iverson.te.ir.expressions import Extent, Reduce, Scoped, Var, extent
from iverson.te.ir.index_arithmetic import conjuncts
from iverson.te.ir.nodes import Domain
from iverson.te.ir.ragged_axes import Bounds, bounds_in


def bounds_of(node: Scoped) -> tuple[dict[Var, Bounds], tuple[Expr, ...]]:
    """Bounds of the axes of a reduction, and a tuple of all conditions that are none."""
    where = tuple(part for c in node.where for part in conjuncts(c))
    return bounds_in(Domain(node.axes, where), solve=lambda _: True)


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
