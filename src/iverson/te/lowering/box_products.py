"""Products over a part of their box: BLAS multiplies boxes inside of the domain, loops add what is left.

    T[i, j] += A[i, k] * B[k, j] for k <= i   ->   T[i, j] += A[i, k] * B[k, j] for i // b * b <= k <= i
                                                   T[u:v, :] += A[u:v, s:t] @ B[s:t, :]   for a few boxes

The domain is cut into cubes of b points along each tied axis. Cubes that are inside of it are put together by
halving the box, as in a recursive triangular product; no zero is multiplied, so zeros stay strong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from iverson.codegen.nests.task import Task
from iverson.codegen.schedule.blas_contraction import Product, product
from iverson.expr.affine import Affine
from iverson.expr.build import index
from iverson.expr.nodes import Expr
from iverson.te.elimination.zero_elimination import constraints_in, plan
from iverson.te.ir.expressions import Var, limits
from iverson.te.ir.index_arithmetic import Constraint, affine_of, interval, is_linear
from iverson.te.ir.nodes import Domain, Statement

#: Multiply-adds in boxes from which BLAS gains more than the calls cost. Measured (two threads at 2.5 GHz): a
#: triangle times a square takes 1.0 of the loops' time at n = 160, 0.6 at 256 and 0.3 at 1024.
WORTH_BOXES = 1 << 20
#: Edge of a cube: a share of the axis, between these.
SHARE, FINEST, COARSEST = 16, 32, 128
#: Boxes of one product, at most.
MOST_BOXES = 256

#: Range of values of each tied axis.
Box = dict[Var, tuple[int, int]]


@dataclass(frozen=True)
class BoxProducts:
    """A product in parts: statements for the points outside of all boxes, and a product for each box."""

    outside: tuple[Statement, ...]
    products: tuple[Product, ...]


def without_conditions(s: Statement) -> Statement:
    """The statement over its whole box."""
    return replace(s, walk=None, domain=Domain(s.domain.axes))


def in_boxes(s: Statement, box_task: Task) -> BoxProducts | None:
    """A statement as products of boxes and the loops outside of these; None where BLAS gains too little.

    box_task : the task of `without_conditions`.
    """
    constraints = constraints_in(s.domain)
    if not constraints or s.combine != "sum" or product(box_task) is None:
        return None
    if any(c.equality or not is_linear(c.form) for c in constraints):
        return None
    tied = {v for c in constraints for v, _ in c.form.terms if isinstance(v, Var)}
    edges = {v: _edge(v) for v in s.domain.axes if v in tied}
    box = {v: limits(v) for v in edges}
    free = prod(n for v, n in zip(s.domain.axes, s.domain.extents, strict=True) if v not in tied)
    boxes = [b for b in _inside(box, edges, constraints) if _size(b)]
    gain = free * sum(map(_size, boxes))
    if gain < WORTH_BOXES or len(boxes) > MOST_BOXES:
        return None
    outside = tuple(plan(r) for r in _outside(s, edges, constraints))
    if any(r.walk is None for r in outside):
        return None
    names = {v: a.name for v, a in zip(s.domain.axes, box_task.axes, strict=True)}
    box_task = replace(box_task, fresh=False)
    parts = [product(box_task, any_size=True, box={names[v]: r for v, r in b.items()}) for b in boxes]
    return BoxProducts(tuple(r for r in outside if r.walk), tuple(p for p in parts if p is not None))


def _edge(v: Var) -> int:
    """Edge of a cube along an axis, a power of two."""
    low, high = limits(v)
    share = 1 << max((high - low) // SHARE - 1, 1).bit_length()
    return min(max(share, FINEST), COARSEST)


def _size(box: Box) -> int:
    return prod(max(high - low, 0) for low, high in box.values())


def _inside(box: Box, edges: Mapping[Var, int], constraints: Sequence[Constraint]) -> Iterator[Box]:
    """Boxes of whole cubes that are inside of the domain and are all such cubes of ``box``."""
    lows = [_least(c.form, box, edges) for c in constraints]
    if any(_least(c.form.scaled(-1), box, edges) > 0 for c in constraints):
        return
    if all(low >= 0 for low in lows):
        yield box
        return
    v = max(box, key=lambda v: (box[v][1] - box[v][0]) / edges[v])
    low, high = box[v]
    cubes = (high - 1) // edges[v] - low // edges[v] + 1
    if cubes <= 1:
        return
    middle = (low // edges[v] + (cubes + 1) // 2) * edges[v]
    yield from _inside({**box, v: (low, middle)}, edges, constraints)
    yield from _inside({**box, v: (middle, high)}, edges, constraints)


def _least(form: Affine, box: Box, edges: Mapping[Var, int]) -> int:
    """Smallest value of a form in the cubes that a box touches."""
    total = form.const
    for v, c in form.terms:
        assert isinstance(v, Var)
        (low, high), edge = box[v], edges[v]
        total += c * (low // edge * edge if c > 0 else (high - 1) // edge * edge + edge - 1)
    return total


def _outside(
    s: Statement, edges: Mapping[Var, int], constraints: Sequence[Constraint]
) -> Iterator[Statement]:
    """Statements over the points whose cube is not inside of the domain, each with a convex domain."""
    before: list[Expr] = []
    for c in constraints:
        least = _least_here(c.form, edges)
        if interval(affine_of(least))[0] >= 0:
            continue
        where = (*s.domain.where, *before, least < 0)
        yield replace(s, walk=None, strategy="", reason="", domain=Domain(s.domain.axes, where))
        before.append(least >= 0)


def _least_here(form: Affine, edges: Mapping[Var, int]) -> Expr:
    """Smallest value of a form in the cube of a point, as an expression of its axes."""
    total: Expr = index(form.const)
    for v, c in form.terms:
        assert isinstance(v, Var)
        corner = v // edges[v] * edges[v]
        total = total + (corner if c > 0 else corner + (edges[v] - 1)) * c
    return total
