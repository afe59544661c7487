"""Mixed-radix digits: axes that are divided by constants are split, so that ``//`` and ``%`` vanish.

    for v in 0:12: A[v // 4, v % 4]   ->   for v1 in 0:3: for v0 in 0:4: A[v1, v0]

An axis that is divided is split into its digits, the smallest radix first, and every expression is
brought to the normal form of `iverson.te.ir.index_arithmetic`. The floors that remain are of several axes
whose radices do not nest. isl sees a statement only after this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from iverson.expr.affine import Affine
from iverson.expr.build import index, simplified_with
from iverson.expr.nodes import Apply, Cast, Const, Expr, Select, postorder
from iverson.expr.symbolic_numbers import integer
from iverson.te.ir.evaluation_guards import conjunction
from iverson.te.ir.expressions import Read, Var, limits, replacing, substitute
from iverson.te.ir.index_arithmetic import (
    Constraint,
    affine_of,
    condition_of,
    conjuncts,
    constraints_of,
    expr_of,
    floor_parts,
    holds,
    narrowed,
)
from iverson.te.ir.nodes import Domain, Statement

#: How many axes a statement may have after splitting; more are left undivided.
MAX_AXES = 16


def normalize(statement: Statement) -> Statement:
    """The statement with divided axes split into digits and index arithmetic in normal form.

    Conditions that always hold are dropped from the domain.
    """
    current = simplified(statement)
    while len(current.domain.axes) < MAX_AXES:
        division = _divided_axis(current)
        if division is None:
            break
        current = simplified(_split(current, *division))
    return current


def simplified(statement: Statement) -> Statement:
    """The statement with all index arithmetic in normal form."""
    axes, where = statement.domain.axes, statement.domain.where
    write = tuple(expr_of(affine_of(e)) for e in statement.write)
    place = statement.position
    place = None if place is None else expr_of(affine_of(place))
    (body,) = simplify_indices([statement.body])
    conditions = simplify_conditions(where)
    return replace(
        statement, write=write, body=body, position=place, domain=Domain(axes, conditions), walk=None
    )


def where_they_hold(statement: Statement) -> Statement:
    """The statement with its body simplified by those conditions that bound a single axis.

    Loops can prove such conditions as well.

    ``A[max(i, 0)] where i >= 0  ->  A[i] where i >= 0``, for i from -1 on
    """
    axes = statement.domain.axes
    plain = (c for e in statement.domain.where for c in constraints_of(e) or () if not c.equality)
    constraints = [c for c in plain if len(c.form.terms) == 1 and isinstance(c.form.terms[0][0], Var)]
    ranges = narrowed(axes, constraints) if constraints else {}
    within: dict[Expr, Expr] = {}
    for v in axes if ranges else ():
        low, high = ranges[v]
        bounded = isinstance(v.lo, int) and isinstance(v.hi, int) and low <= high
        if bounded and (integer(low), integer(high) + 1) != limits(v):
            within[v] = v.ranging(integer(low), integer(high) + 1)
    if not within:
        return statement
    roots = simplify_indices(substitute([statement.body], within))
    (body,) = substitute(roots, {new: old for old, new in within.items()})
    return replace(statement, body=body)


def simplify_indices(roots: Sequence[Expr]) -> tuple[Expr, ...]:
    """The roots with the indices of all reads, and conditions on indices, in normal form."""
    new: dict[Expr, Expr] = {}
    for node in postorder(roots):
        result = simplified_with(node, [new[o] for o in node.operands])
        if isinstance(result, Read):
            result = Read(result.tensor, tuple(expr_of(affine_of(i)) for i in result.indices))
        elif isinstance(result, Select):
            c = simplify_condition(result.condition)
            result = simplified_with(result, (c, result.then, result.other))
        elif isinstance(result, Cast) and result.operand.dtype.kind == "i":
            result = simplified_with(result, (expr_of(affine_of(result.operand)),))
        new[node] = result
    return tuple(new[r] for r in roots)


def simplify_condition(condition: Expr) -> Expr:
    """The condition with its index comparisons in normal form, without parts that are always true."""
    parts = []
    for part in conjuncts(condition):
        constraints = constraints_of(part)
        parts.append(part if constraints is None else _as_condition(constraints))
    return conjunction(parts)


def simplify_conditions(where: Iterable[Expr]) -> tuple[Expr, ...]:
    """The conjuncts of several conditions, each once, without those that are always true."""
    conditions: dict[Expr, None] = {}
    for condition in where:
        for part in conjuncts(simplify_condition(condition)):
            if not (isinstance(part, Const) and part.value):
                conditions[part] = None
    return tuple(conditions)


def _as_condition(constraints: Sequence[Constraint]) -> Expr:
    result = []
    for c in constraints:
        truth = holds(c)
        if truth is not True:
            result.append(condition_of(c) if truth is None else index(0) == index(1))
    return conjunction(result)


def _divided_axis(statement: Statement) -> tuple[Var, int, int] | None:
    """Axis, offset and radix of a floor ``(axis + offset) // radix`` in the statement; None if there is none.

    The smallest radix comes first; among equal ones, the offset that the write has.
    """
    axes = {v for v in statement.domain.axes if isinstance(v.lo, int) and isinstance(v.hi, int)}
    candidates: list[tuple[int, bool, int, int, Var]] = []
    write_nodes = set(postorder(statement.write))
    for node in postorder(statement.roots):
        parts = floor_parts(node) if isinstance(node, Apply) else None
        if parts is None:
            continue
        form, radix = parts
        if len(form.terms) == 1 and form.terms[0][1] == 1 and form.terms[0][0] in axes:
            axis = form.terms[0][0]
            assert isinstance(axis, Var)
            lo, hi = limits(axis)
            if hi - lo <= radix and node not in write_nodes:
                continue  # two values at most: nothing to gain
            candidates.append((radix, node not in write_nodes, form.const, axis.serial, axis))
    if not candidates:
        return None
    radix, _, offset, _, axis = min(candidates, key=lambda f: f[:4])
    return axis, offset, radix


def _split(statement: Statement, axis: Var, offset: int, radix: int) -> Statement:
    """The statement with two axes in place of ``axis``: ``(axis + offset) // radix`` and the remainder."""
    lo, hi = limits(axis)
    high = axis.ranging((lo + offset) // radix, (hi - 1 + offset) // radix + 1, f"{axis.name}1")
    low = axis.ranging(0, radix, f"{axis.name}0")
    value = expr_of(Affine(-offset) + affine_of(high * radix + low))
    new: dict[Expr, Expr] = {axis: value}
    axes: list[Var] = []
    for v in statement.domain.axes:
        axes += [high, low] if v is axis else [v]
    ranges: list[Expr] = []
    if (lo + offset) % radix:
        ranges.append(value >= lo)
    if (hi + offset) % radix:
        ranges.append(value < hi)
    result = statement.mapped(replacing(new), tuple(axes))
    return replace(result, domain=Domain(tuple(axes), (*result.domain.where, *ranges)))
