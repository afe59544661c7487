"""Pieces of a stage: statements that each define some entries, as a function of the entry's indices.

T[i, i + r] = f(i, r) for i in 0:n, r in 0:3   ->   T[a, b] = f(a, b - a) where 0 <= b - a < 3
"""

from __future__ import annotations

from collections.abc import Sequence

from iverson.expr.affine import make
from iverson.expr.build import const, select
from iverson.expr.nodes import Expr
from iverson.te.ir.evaluation_guards import conjunction
from iverson.te.ir.expressions import Var, substitute
from iverson.te.ir.index_arithmetic import (
    affine_of,
    constraints_of,
    depends_on_data,
    expr_of,
    holds,
    is_linear,
    negation,
)
from iverson.te.ir.integer_sets import is_empty
from iverson.te.ir.nodes import Domain, Statement, recurrence_of

#: Pieces of a stage that is inlined, at most.
MOST_PIECES = 4


def is_piece(s: Statement) -> bool:
    """True if a statement defines some entries of its tensor, each at the one point that its indices give."""
    plain = s.combine in ("assign", "sum") and not depends_on_data([*s.domain.where, *s.write])
    if not plain or s.body.dtype != s.tensor.dtype or recurrence_of(s.tensor) is not None:
        return False
    return _solved(s, [Var(f"a{k}", 0, n) for k, n in enumerate(s.tensor.shape)]) is not None


def piece_at(s: Statement, indices: Sequence[Expr], domain: Domain) -> Expr:
    """Value that a piece adds to the entry at ``indices``, which are read at the points of a domain."""
    solution = _solved(s, indices)
    assert solution is not None
    values, conditions = solution
    body, *where = substitute([s.body, *s.domain.where], values)
    zero = const(0, body.dtype)
    remaining = []
    for c in (*where, *conditions):
        constraints = constraints_of(c)
        truths = [None] if constraints is None else [holds(x) for x in constraints]
        if False in truths or s.walk == ():
            return zero
        if not all(truths) and not is_empty(domain.axes, [*domain.where, negation(c)]):
            remaining.append(c)
    if remaining and is_empty(domain.axes, [*domain.where, *remaining]):
        return zero
    return select(conjunction(remaining), body, zero) if remaining else body


def _solved(s: Statement, indices: Sequence[Expr]) -> tuple[dict[Expr, Expr], list[Expr]] | None:
    """The axes in terms of the indices of an entry, and the conditions under which it is written."""
    fresh: dict[Expr, Expr] = {v: v.ranging(v.lo, v.hi) for v in s.domain.axes}  # readers may have these axes
    values: dict[Expr, Expr] = {}
    conditions: list[Expr] = []
    for w, e in zip(substitute(s.write, fresh), indices, strict=True):
        form = affine_of(w)
        if not is_linear(form):
            return None
        open_axes = [v for v in fresh.values() if form.coefficient(v) and v not in values]
        if not open_axes:
            conditions.append(substitute([w], values)[0] == e)
            continue
        if len(open_axes) > 1:
            return None
        (v,) = open_axes
        by = form.coefficient(v)
        (remainder,) = substitute([expr_of(form - make(0, {v: by}))], values)
        value = expr_of((affine_of(e) - affine_of(remainder)).scaled(1 if by > 0 else -1))
        if abs(by) > 1:
            conditions.append(value % abs(by) == 0)
        values[v] = value // abs(by)
    if len(values) < len(fresh):
        return None
    for old, new in fresh.items():
        assert isinstance(old, Var)
        assert old.hi is not None
        conditions += [values[new] >= old.lo, values[new] < old.hi]
    return {old: values[new] for old, new in fresh.items()}, conditions
