"""Guarded boxes: a walk over a whole box with guards, where that runs faster than exact loops.

Loops over a box have constant extents, so that they can be tiled, unrolled and vectorised, and a guard is a
mask; bounds that depend on other axes allow less. A box pays where few of the points visited fail a guard.
Sums of one value into nearly every entry of a tensor are merged here into one statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from math import prod

from iverson.expr.build import const, index, select
from iverson.expr.nodes import Const, Expr, same
from iverson.te.elimination.extremum_positions import covers_all
from iverson.te.elimination.point_counts import MAX_COUNTED, domain_size
from iverson.te.ir.evaluation_guards import conjunction
from iverson.te.ir.expressions import Extent, Var, substitute, tied_together, typical, variables
from iverson.te.ir.index_arithmetic import depends_on_data, negation, of_one_range, same_extent
from iverson.te.ir.integer_sets import is_empty
from iverson.te.ir.nodes import Domain, Statement, recurrence_of, step_axes
from iverson.te.rewrites.inlining import is_product
from iverson.te.rewrites.mixed_radix import simplify_conditions, simplify_indices

#: Points of the box for each point of the domain, at most.
MOST = 1.25
#: Statements merged into one, at most.
MERGED = 12


def as_box(s: Statement) -> Statement:
    """The statement over its guarded box, if it is a gather whose domain nearly fills the box.

    Also any statement of a recurrence: its nests for the conditions of a step are those of boxes.
    """
    if s.walk is not None and recurrence_of(s.tensor) is not None:
        nearly_all = filling(s.domain) * MOST >= 1
        return replace(s, walk=None, domain=_needed(s.domain)) if nearly_all else s
    if not s.walk or s.strategy != "gather" or s.combine not in ("sum", "prod", "max", "min"):
        return s
    if not all(_fits(w, n) for w, n in zip(s.write, s.tensor.shape, strict=True)):
        return s  # only the guards keep the writes inside
    return replace(s, walk=None, domain=_needed(s.domain)) if filling(s.domain) * MOST >= 1 else s


def _needed(domain: Domain) -> Domain:
    """The domain without conditions that follow from the others: each condition costs a mask."""
    conditions = domain.where
    for c in domain.where if len(conditions) > 1 else ():
        remaining = tuple(x for x in conditions if x is not c)
        if is_empty(domain.axes, (*remaining, negation(c))):
            conditions = remaining
    return replace(domain, where=conditions)


def _fits(index: Expr, n: Extent) -> bool:
    if isinstance(index, Const):
        return True
    if not (isinstance(index, Var) and isinstance(index.lo, int) and isinstance(index.hi, int)):
        return False
    return isinstance(n, int) and index.lo >= 0 and index.hi <= n


def filling(domain: Domain) -> float:
    """Share of the points of the box that are in the domain, a number from 0 to 1.

    It is 0 if the points are too many to count, or depend on data. Symbolic sizes have their typical values.
    """
    if depends_on_data(domain.where):
        return 0.0
    domain = _typical(domain)
    share = 1.0
    for tied, conditions in tied_together(domain.where, lambda c: [c]):
        part = Domain(tuple(v for v in domain.axes if v in tied), tuple(conditions))
        box = prod(n for n in part.extents if isinstance(n, int))
        count = None if box > MAX_COUNTED // 8 else domain_size(part)
        if count is None or not box:
            return 0.0
        share *= count / box
    return share


def _typical(domain: Domain) -> Domain:
    """The domain at typical values of its sizes."""
    sizes = [v for v in variables([*domain.where, *_bounds(domain)]) if v.kind == "size"]
    if not sizes:
        return domain
    axes: dict[Expr, Var] = {}
    for v in domain.axes:
        assert v.hi is not None
        axes[v] = v.ranging(typical(v.lo), typical(v.hi))
    values: dict[Expr, Expr] = {v: index(v.typical) for v in sizes}
    return Domain(tuple(axes.values()), substitute(domain.where, {**values, **axes}))


def _bounds(domain: Domain) -> list[Expr]:
    return [n for v in domain.axes for n in (v.lo, v.hi) if isinstance(n, Expr)]


def merged(statements: Sequence[Statement]) -> list[Statement]:
    """Statements in which those that each add a value to nearly every entry of a tensor are merged into one.

    ``T[i] += f(i) for 0 < i; T[i] += g(i)  ->  T[i] += select(0 < i, f(i), 0) + g(i)``: one pass over
    memory for all of them, which covers the tensor, so that it need not be filled with zeros before.
    """
    result: list[Statement] = []
    for _, group in groupby(statements, key=lambda s: id(s.tensor)):
        remaining = _rejoined(list(group))
        fit = [s for s in remaining if _adds_to_each(s)]
        if 0 < len(fit) <= MERGED and (len(fit) > 1 or fit[0].domain.where):
            result.append(_sum_of(fit))
            remaining = [s for s in remaining if not any(s is f for f in fit)]
        result += _over_one_domain(_totals_of_one_box(remaining))
    return result


def _rejoined(statements: Sequence[Statement]) -> list[Statement]:
    """The statements, with pieces of one that together nearly fill a box in one statement over this box.

    ``T[i] += f(i) for i < 13; T[i] += f(i) for i > 13  ->  T[i] += f(i) for i < 13 or i > 13``
    """
    result: list[Statement] = []
    for s in statements:
        for k, earlier in enumerate(result if s.walk and s.strategy == "gather" else ()):
            joint = _joint(earlier, s) if earlier.walk else None
            if joint is not None and filling(joint.domain) * MOST >= 1:
                result[k] = joint
                break
        else:
            result.append(s)
    return result


def _joint(a: Statement, b: Statement) -> Statement | None:
    """Statement over the points of two pieces, which add the same value; None if they are no such pieces."""
    pair = a.domain.axes, b.domain.axes
    if a.combine != "sum" or a.strategy != b.strategy or not all(map(of_one_range, *pair)):
        return None
    if len(pair[0]) != len(pair[1]) or recurrence_of(a.tensor) is not None:
        return None
    if not all(_fits(w, n) for w, n in zip(a.write, a.tensor.shape, strict=True)):
        return None
    new = dict[Expr, Expr](zip(*reversed(pair), strict=True))
    if not all(same(substitute(e, new), of_a) for e, of_a in ((b.write, a.write), ((b.body,), (a.body,)))):
        return None
    first, second = conjunction(a.domain.where), conjunction(substitute(b.domain.where, new))
    if not is_empty(a.domain.axes, (first, second)):
        return None  # two terms that are equal are no pieces of one
    return replace(a, domain=Domain(a.domain.axes, (first | second,)), walk=None)


def whole_first(statements: Sequence[Statement]) -> list[Statement]:
    """Statements in which a sum that writes every entry of its tensor comes before the tensor's other sums.

    The tensor then need not be filled with zeros:
    ``T[...] = 0; T[f(p)] += g(p); T[i] += h(i)  ->  T[i] = h(i); T[f(p)] += g(p)``.
    """
    result: list[Statement] = []
    for _, group in groupby(statements, key=lambda s: id(s.tensor)):
        members = list(group)
        if recurrence_of(members[0].tensor) is None and all(s.combine == "sum" for s in members):
            first = next((k for k, s in enumerate(members) if covers_all(s)), 0)
            members.insert(0, members.pop(first))
        result += members
    return result


def _totals_of_one_box(statements: Sequence[Statement]) -> list[Statement]:
    """The statements, with those that add up the same axes for the same entries merged into one statement.

    ``T[i] += f(i, k); T[i] += g(i, k) if 0 < i  ->  T[i] += f(i, k) + select(0 < i, g(i, k), 0)``.
    Products for which there is faster code stay apart.
    """
    result: list[Statement] = []
    for s in map(as_box, statements):
        for k, earlier in enumerate(result if _is_total(s) else ()):
            if not _is_total(earlier) or is_product(s) or is_product(earlier):
                continue
            total = _in_body(earlier)
            body = _over_axes_of(total, _in_body(s))
            if body is not None:
                result[k] = replace(total, body=total.body + body)
                break
        else:
            result.append(s)
    return result


def _is_total(s: Statement) -> bool:
    """True if a statement, outside of recurrences, adds up a box for each entry, output axes first."""
    output_axes = s.domain.axes[: len(s.write)]
    if not same(s.write, output_axes) or len(s.domain.axes) == len(s.write):
        return False
    plain = s.combine == "sum" and s.strategy == "gather" and s.walk is None
    return plain and not depends_on_data(s.domain.where) and recurrence_of(s.tensor) is None


def _in_body(s: Statement) -> Statement:
    """The statement with its conditions in its body."""
    if not s.domain.where:
        return s
    body = select(conjunction(s.domain.where), s.body, const(0, s.body.dtype))
    return replace(s, body=body, domain=Domain(s.domain.axes))


def _over_one_domain(statements: Sequence[Statement]) -> list[Statement]:
    """The statements, with those that add one value each to the same entries merged into one statement.

    ``T[i] += f(i) for i in 0:8; T[i] += g(i) for i in 0:8  ->  T[i] += f(i) + g(i) for i in 0:8``
    """
    result: list[Statement] = []
    number: list[int] = []
    for s in statements:
        for k, earlier in enumerate(result if _adds_once(s) else ()):
            body = _over_axes_of(earlier, s) if number[k] < MERGED and _adds_once(earlier) else None
            if body is not None:
                result[k], number[k] = replace(earlier, body=earlier.body + body), number[k] + 1
                break
        else:
            result.append(s)
            number.append(1)
    return result


def _adds_once(s: Statement) -> bool:
    """True if a statement, outside of recurrences, adds to each entry at one point at most."""
    if s.combine != "sum" or s.walk == () or recurrence_of(s.tensor) is not None:
        return False
    return s.strategy == "injective" or (s.strategy == "gather" and {*s.domain.axes} <= {*s.write})


def _over_axes_of(earlier: Statement, s: Statement) -> Expr | None:
    """Body of ``s`` over the axes of ``earlier``; None if both do not visit the same points and entries."""
    earlier_axes, axes = earlier.domain.axes, s.domain.axes
    alike = len(earlier_axes) == len(axes) and all(map(of_one_range, earlier_axes, axes))
    if not alike or s.strategy != earlier.strategy:
        return None
    new = dict[Expr, Expr](zip(axes, earlier_axes, strict=True))
    if not same(substitute(s.write, new), earlier.write):
        return None
    if {*substitute(s.domain.where, new)} != {*earlier.domain.where}:
        return None
    return substitute([s.body], new)[0]


def _adds_to_each(s: Statement) -> bool:
    """True if the indices that a statement writes are its axes, and it writes nearly every entry.

    For a recurrence the entries are not counted: its guards are evaluated at all points of a step anyway.
    """
    axes, shape = s.domain.axes, s.tensor.shape
    writes_axes = len(s.write) == len(axes) and all(w is v for w, v in zip(s.write, axes, strict=True))
    if s.combine not in ("sum", "assign") or not writes_axes or s.walk == () or s.strategy == "scatter":
        return False
    if recurrence_of(s.tensor) is not None:
        fills_some = s.walk is None or filling(s.domain) * MERGED >= 1
        return s.strategy == "gather" and s.combine == "sum" and fills_some
    box, entries = (prod(map(typical, ns)) for ns in (s.domain.extents, shape))
    return box * filling(s.domain) * MOST >= entries > 0


def _sum_of(group: Sequence[Statement]) -> Statement:
    """One statement that adds the values of all statements in ``group``; guards become selects."""
    first = group[0]
    steps = step_axes(first.tensor)
    axes = tuple(
        v if v in steps else v.ranging(0, n)
        for v, n in zip(first.domain.axes, first.tensor.shape, strict=True)
    )
    total: Expr | None = None
    for s in group:
        axis_map: dict[Expr, Expr] = dict(zip(s.domain.axes, axes, strict=True))
        value, *where = simplify_indices(substitute([s.body, *s.domain.where], axis_map))
        for v, old in zip(axes, s.domain.axes, strict=True):
            assert old.hi is not None
            assert v.hi is not None
            where += [] if same_extent(old.lo, 0) else [v >= old.lo]
            where += [] if same_extent(old.hi, v.hi) else [v < old.hi]
        for on_data in (True, False):  # whose reads the others keep inside
            if conditions := [c for c in simplify_conditions(where) if depends_on_data([c]) is on_data]:
                value = select(conjunction(conditions), value, const(0, value.dtype))
        total = value if total is None else total + value
    assert total is not None
    return replace(first, write=axes, body=total, domain=Domain(axes), walk=None)
