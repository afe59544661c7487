"""Chunks of long folds: lanes and threads share a reduction by a user's function if it has few results.

T = fold(x[k] for k in 0:n)   ->   T.elements[c] = fold(x[c * m + t] for t in 0:m where c * m + t < n)
                                   T = fold(T.elements[c] for c in 0:512)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from iverson.expr.nodes import Expr
from iverson.te.ir.expressions import Fold, Read, Var, extent, limits, scoped, substitute, variables
from iverson.te.ir.fresh_names import part
from iverson.te.ir.index_arithmetic import depends_on_data
from iverson.te.ir.nodes import Compute, Domain, Statement, recurrence_of

#: Chunks of a fold; elements from which it has some, and results up to which.
CHUNKS, LONG, FEW = 512, 1 << 13, 64


def chunked(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Statements in which long folds with few results are folds of the elements of chunks."""
    for s in statements:
        folds = [e for e in scoped([s.body]) if isinstance(e, Fold) and _is_long(e, s)]
        if not folds or recurrence_of(s.tensor) is not None or depends_on_data(s.domain.where):
            yield s
            continue
        new: dict[Expr, Expr] = {}
        for key in dict.fromkeys((e.reducer, e.axes, e.values, e.where) for e in folds):
            group = [e for e in folds if (e.reducer, e.axes, e.values, e.where) == key]
            chunk = Var("c", 0, CHUNKS, "reduce")
            elements = [_elements(s, group[0].numbered(k)) for k in range(len(group[0].values))]
            yield from (t.statements[0] for t in elements)
            at = (*(v - v.lo for v in s.domain.axes), chunk)
            values = tuple(Read(t, at) for t in elements)
            new |= {e: Fold(e.reducer, e.number, (chunk,), values) for e in group}
        (body,) = substitute([s.body], new)
        yield replace(s, body=body)


def _is_long(e: Fold, s: Statement) -> bool:
    """True if a fold over one axis, for each point of a statement, is worth chunks."""
    v = e.axes[0]
    inside = set(variables([e])) <= set(s.domain.axes)
    numbers = all(isinstance(n, int) for u in (v, *s.domain.axes) for n in (u.lo, u.hi))
    if len(e.axes) > 1 or not inside or not numbers or depends_on_data(e.where) or scoped(e.values):
        return False
    low, high = limits(v)
    return high - low >= LONG and prod(b - a for a, b in map(limits, s.domain.axes)) <= FEW


def _elements(s: Statement, e: Fold) -> Compute:
    """Number of the element of each chunk."""
    (v,) = e.axes
    low, high = limits(v)
    size = -(-(high - low) // CHUNKS)
    axes = tuple(u.ranging(u.lo, u.hi) for u in s.domain.axes)
    chunk, inner = Var("c", 0, CHUNKS), Var(v.name, 0, size, "reduce")
    place = chunk * size + inner + low
    new: dict[Expr, Expr] = dict(zip(s.domain.axes, axes, strict=True))
    values_and_where = substitute((*e.values, *e.where), {**new, v: place})
    values, where = values_and_where[: len(e.values)], values_and_where[len(e.values) :]
    body = Fold(e.reducer, e.number, (inner,), values, (*where, place < high))
    conditions = substitute(s.domain.where, new)
    write = (*(u - u.lo for u in axes), chunk)
    shape = (*map(extent, axes), CHUNKS)
    statement = Statement(None, write, body, Domain((*axes, chunk), conditions), strategy="gather")
    return Compute(shape, e.dtype, part(s.tensor, "elements"), [statement])
