"""Point counts: how many points a domain has and a walk visits, by enumeration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from iverson.te.ir.expressions import Var
from iverson.te.ir.index_arithmetic import constraints_of, depends_on_data, narrowed
from iverson.te.ir.interpret import evaluate, scalar
from iverson.te.ir.nodes import Domain, If, Point, Walk

#: Points counted at most; beyond that the count is left out.
MAX_COUNTED = 4_000_000


def domain_size(domain: Domain) -> int | None:
    """Number of points of a domain, counted one by one.

    Candidates are the points of the box, with each axis narrowed by single conditions. The result is None for
    more than `MAX_COUNTED` candidates, and if bounds are symbolic or a condition depends on data.
    """
    if not all(isinstance(n, int) for v in domain.axes for n in (v.lo, v.hi)):
        return None
    if depends_on_data(domain.where):
        return None
    constraints = [c for e in domain.where for c in constraints_of(e) or ()]
    bounds = narrowed(domain.axes, constraints)
    ranges = [range(int(low), int(high) + 1) for low, high in (bounds[v] for v in domain.axes)]
    total = prod(len(r) for r in ranges)
    if not domain.where or not total:
        return total
    if total > MAX_COUNTED:
        return None
    grid = [g.reshape(-1) for g in np.meshgrid(*map(np.asarray, ranges), indexing="ij")]
    values = evaluate(domain.where, dict(zip(domain.axes, grid, strict=True)), total, {})
    return int(np.logical_and.reduce([values[c] for c in domain.where]).sum())


def walk_size(walk: tuple[Walk, ...], outputs: Sequence[Var] = ()) -> int | None:
    """Number of times a walk reaches its innermost level; None beyond `MAX_COUNTED` loop iterations.

    A guard that fails counts once, unless it is outside of all loops but those over ``outputs``.
    """
    budget, free = [MAX_COUNTED], frozenset(outputs)
    count = sum(_size(item, {}, budget, free) for item in walk)
    return count if budget[0] > 0 else None


def _size(item: Walk, at: Mapping[Var, int], budget: list[int], free: frozenset[Var]) -> int:
    """Number of points and failed guards of a walk's item, where outer loops have the values ``at``.

    budget : its entry is lowered by the number of loop iterations; counting stops at 0.
    free : variables of loops over outputs, as in `walk_size`.
    """
    if isinstance(item, Point):
        return 1
    if isinstance(item, If):
        if scalar(item.condition, at):
            return sum(_size(b, at, budget, free) for b in item.body)
        return 0 if at.keys() <= free else 1
    span = range(scalar(item.lower, at), scalar(item.upper, at), item.step)
    if all(isinstance(b, Point) for b in item.body):
        budget[0] -= 1
        return len(span) * len(item.body)
    total = 0
    for value in span:
        budget[0] -= 1
        if budget[0] <= 0:
            return total
        total += sum(_size(b, {**at, item.var: value}, budget, free) for b in item.body)
    return total
