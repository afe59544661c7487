"""Ragged axes: axes of a domain whose bounds depend on data, ``p[i] <= e < p[i + 1]``.

Such a bound is a condition of the domain that reads tensors; it is solved here for the last of its axes. So a
function that maps a statement's expressions maps its bounds, too. Loops run from bound to bound. That the
bounds are within the axis' own range must follow from the data, and is checked when the program runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.expr.affine import Affine, difference, make
from iverson.expr.build import apply, as_expr, cast
from iverson.expr.function_facts import NEGATED
from iverson.expr.nodes import Apply, Expr, producers_first
from iverson.expr.print import text
from iverson.expr.symbolic_numbers import integer
from iverson.te.ir.evaluation_guards import guards_of
from iverson.te.ir.expressions import Extent, Read, Var, reads_of, substitute, variables
from iverson.te.ir.index_arithmetic import affine_of, depends_on_data, expr_of, interval, same_extent
from iverson.te.ir.nodes import Domain, Statement

Array = np.ndarray[Any, Any]
#: Of a bound that leaves the range of its axis: a tensor it reads, what was got, what is expected.
BadBound = tuple[str, str, str]
#: The range of an axis of which nothing is known.
FAR = 1 << 40


@dataclass(frozen=True)
class Bounds:
    """Bounds of an axis: ``lower <= axis < upper``. None stands for the bound of the axis' own range.

    Several lower bounds are combined by a maximum, several upper bounds by a minimum.
    """

    lower: Expr | None = None
    upper: Expr | None = None

    def within(self, v: Var) -> tuple[Expr, Expr]:
        """Both bounds, with the ends of v's own range in place of None."""
        assert v.hi is not None
        low = as_expr(v.lo) if self.lower is None else self.lower
        return low, as_expr(v.hi) if self.upper is None else self.upper


def is_ragged(s: Statement) -> bool:
    """True if the domain of a statement has conditions on data, which are bounds of axes."""
    return depends_on_data(s.domain.where)


def bounds_in(domain: Domain) -> tuple[dict[Var, Bounds], tuple[Expr, ...]]:
    """Bounds that conditions on data set for axes, and a tuple of all other conditions.

    >>> from iverson.te.language.definitions import placeholder
    >>> p, i, e = placeholder((5,), "int64", "p"), Var("i", 0, 4), Var("e", 0, 9)
    >>> bounds_in(Domain((i, e), (e >= p[i], e < p[i + 1], e < 3 * i)))[0][e]
    Bounds(lower=p[i], upper=p[i + 1])
    """
    bounds: dict[Var, Bounds] = {}
    conditions: list[Expr] = []
    for condition in domain.where:
        solved = bound_by(condition, domain.axes) if depends_on_data([condition]) else None
        if solved is None:
            conditions.append(condition)
            continue
        v, new = solved
        old = bounds.get(v, Bounds())
        lower = _both("maximum", old.lower, new.lower)
        bounds[v] = Bounds(lower, _both("minimum", old.upper, new.upper))
    return bounds, tuple(conditions)


def _both(name: str, a: Expr | None, b: Expr | None) -> Expr | None:
    if a is None or b is None:
        return b if a is None else a
    return apply(name, a, b)


def bound_by(condition: Expr, axes: Sequence[Var]) -> tuple[Var, Bounds] | None:
    """Last axis that a comparison contains, and the bound that it sets for it; None if it is no bound."""
    if not (isinstance(condition, Apply) and condition.name in NEGATED):
        return None
    if condition.name in ("equal", "not_equal") or condition.args[0].dtype.kind not in "iu":
        return None
    a, b = map(affine_of, condition.args)
    form = difference(condition.name, a, b)
    candidates = [v for v in axes if form is not None and v in set(variables([t for t, _ in form.terms]))]
    if form is None or not candidates:
        return None
    v = candidates[-1]
    c = form.coefficient(v)
    remainder = form - make(0, {v: c})
    if abs(c) != 1 or v in variables([t for t, _ in remainder.terms]):
        return None
    if c > 0:  # v + remainder >= 0
        return v, Bounds(lower=expr_of(remainder.scaled(-1)))
    return v, Bounds(upper=expr_of(remainder.shift(1)))


def check_bounds(domain: Domain) -> str:
    """Description of a condition on data that is no valid bound of an axis; "" if all are valid bounds."""
    bounds, conditions = bounds_in(domain)
    wrong = [c for c in conditions if depends_on_data([c])]
    if wrong:
        return f"{wrong[0]!r}, a condition on data that is no bound of an axis"
    for k, v in enumerate(domain.axes):
        ends = [b for b in (bounds[v].lower, bounds[v].upper) if b is not None] if v in bounds else []
        late = [u for u in variables(ends) if u in set(domain.axes[k:])]
        if late:
            return f"a bound of {v.name} that depends on {late[0].name}, an axis after it"
    return ""


def out_of_range(
    v: Var,
    bounds: Bounds,
    points: Mapping[Var, Array],
    ends: Mapping[Expr, Array],
) -> BadBound | None:
    """Description of the first bound that is outside of the range of its axis ``v``; None if all are inside.

    points : the values of the axes before v.
    ends : the values of the bounds at these points.
    """
    assert isinstance(v.lo, int)
    assert isinstance(v.hi, int)
    low, high = bounds.within(v)
    nonempty = ends[low] < ends[high]
    for bound, wrong in ((low, nonempty & (ends[low] < v.lo)), (high, nonempty & (ends[high] > v.hi))):
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            reads = reads_of([bound])
            bound_variables = set(variables([bound]))
            at = ", ".join(f"{u.name} = {int(p[k])}" for u, p in points.items() if u in bound_variables)
            side = "start" if bound is low else "end"
            actual = (
                f"{text(bound)} = {int(ends[bound][k])}{f' at {at}' if at else ''}, the {side} of {v.name}"
            )
            tensor = reads[-1].tensor.name if reads else v.name
            return (
                tensor,
                actual,
                f"{v.name} inside {v.lo}:{v.hi}, the entries that are read or written with it",
            )
    return None


# --- definitions --------------------------------------------------------------------------------------


def has_own_range(v: Var) -> bool:
    """True if the bounds of an axis consist of numbers and sizes, without data or other axes."""
    bounds = [b for b in (v.lo, v.hi) if isinstance(b, Expr)]
    return not depends_on_data(bounds) and all(u.kind == "size" for u in variables(bounds))


def bounded(
    axes: Sequence[Var], roots: Sequence[Expr], targets: Iterable[tuple[Expr, Extent]] = ()
) -> tuple[tuple[Var, ...], tuple[Expr, ...], tuple[Expr, ...]]:
    """Axes with ranges of their own, the roots on these axes, and conditions in place of the former bounds.

    An axis comes after those on which its bounds depend. The range of an axis whose bounds depend on data is
    the largest for which unguarded reads in the roots, and ``targets``, are in bounds. If a bound is outside
    of this range when the program runs, it is an error.

    targets : pairs of an index and the extent of its axis.
    """
    result_axes: list[Var] = []
    where: list[Expr] = []
    new: dict[Expr, Expr] = {}
    uses = list(targets)
    ends = {v: [as_expr(n) for n in (v.lo, v.hi) if n is not None] for v in axes if not has_own_range(v)}
    for root in (*roots, *(b for pair in ends.values() for b in pair)):
        for node, guards in guards_of(root).items():
            if isinstance(node, Read) and not guards:
                uses += zip(node.indices, node.tensor.shape, strict=True)
    for v in producers_first(axes, lambda v: [u for u in variables(ends.get(v, ())) if u in set(axes)]):
        if v not in ends:
            result_axes.append(v)
            continue
        low, high = (cast(b, dtypes.int64) for b in substitute(ends[v], new))
        new_axis = _with_range(v, low, high, uses)
        new[v] = new_axis
        result_axes.append(new_axis)
        where += [] if same_extent(new_axis.lo, low) else [new_axis >= low]
        assert new_axis.hi is not None
        where += [] if same_extent(new_axis.hi, high) else [new_axis < high]
    return tuple(result_axes), substitute(roots, new), tuple(where)


def _with_range(v: Var, low: Expr, high: Expr, uses: Iterable[tuple[Expr, Extent]]) -> Var:
    """Axis like ``v``, with the largest range that its bounds ``low`` and ``high`` and its uses allow.

    Uses do not narrow a bound that is known now: a use beyond it is an error, as without data.

    uses : pairs of an index and the extent of its axis.
    """
    first, last = bound_range = interval(affine_of(low))[0], interval(affine_of(high))[1]
    is_final = [
        not depends_on_data([b]) and abs(n) < inf for b, n in zip((low, high), bound_range, strict=True)
    ]
    sizes: list[Expr] = []
    for e, n in uses:
        form = affine_of(e)
        c = form.coefficient(v)
        remainder = form - make(0, {v: c})
        if not c or v in variables([t for t, _ in remainder.terms]):
            continue
        if isinstance(n, Expr):
            sizes += [n] if c == 1 and remainder == Affine() else []
            first = max(first, 0) if c == 1 and remainder == Affine() else first
            continue
        smallest, largest = interval(remainder)
        # 0 <= c v + remainder < n
        ends = (-largest, n - 1 - smallest) if c > 0 else (smallest - n + 1, largest)
        first = max(first, ends[0] if ends[0] == -inf else -(-ends[0] // abs(c)))
        last = min(last, ends[1] if ends[1] == inf else ends[1] // abs(c) + 1)
    first, last = (n if k else m for k, n, m in zip(is_final, bound_range, (first, last), strict=True))
    lo = integer(first) if first > -inf else -FAR
    hi: Extent = integer(last) if last < inf else sizes[0] if sizes else FAR
    if isinstance(hi, int):
        hi = max(lo, hi)
    return v.ranging(lo, hi)
