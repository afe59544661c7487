"""Prefix sums: sums over all entries up to an index, which differ by one term from step to step.

P[i, j] += x[k, j] where k <= i   ->   S[i, j] = S[i - 1, j] + x[i, j], a step at a time;  P[i, j] += S[i, j]

The terms must not depend on i. Sums of all that is behind an index (k >= i), which the derivatives of prefix
sums are, run from the last step to the first. The work falls from n^2 / 2 terms to n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iverson.expr.nodes import Expr
from iverson.te.ir.expressions import Var, substitute, variables
from iverson.te.ir.fresh_names import part
from iverson.te.ir.index_arithmetic import Constraint, constraints_of, depends_on_data
from iverson.te.ir.nodes import Compute, Domain, Program, Recurrence, Statement, recurrence_of
from iverson.te.rewrites.mixed_radix import simplify_conditions

#: Terms of the longest sum from which steps one after the other take less time than all terms in lanes.
LEAST = 64


@dataclass(frozen=True)
class _Prefix:
    """The sum over ``index`` up to ``step + shift`` at each step; from there on if ``reverse``."""

    step: Var
    index: Var
    shift: int
    reverse: bool


def with_scans(program: Program) -> Program:
    """The program with prefix sums as recurrences."""
    statements: list[Statement] = []
    for s in program.statements:
        prefix = _prefix_of(s)
        if prefix is not None:
            sums = _recurrence(s, prefix)
            statements += sums.statements
            axes: tuple[Var, ...] = tuple([w for w in s.write if isinstance(w, Var)])
            s = replace(s, body=sums[s.write], domain=Domain(axes))
        statements.append(s)
    return Program(program.inputs, tuple(statements), program.outputs, program.sizes)


def _prefix_of(s: Statement) -> _Prefix | None:
    """The prefix sum that a statement is, if its terms do not depend on the index that ends the sum."""
    plain = s.combine == "sum" and s.walk is None and recurrence_of(s.tensor) is None
    if not plain or s.body.dtype != s.tensor.dtype or len(set(s.write)) < len(s.write):
        return None
    if not all(map(_is_fixed, s.domain.axes)) or not all(isinstance(w, Var) for w in s.write):
        return None
    if depends_on_data(s.domain.where):
        return None
    in_body = set(variables([s.body]))
    for step in s.domain.axes:
        if step in in_body or (step.lo, step.hi) != (0, _extent(s, step)):
            continue
        bounds = [c for c in s.domain.where if step in set(variables([c]))]
        constraints = constraints_of(bounds[0]) if len(bounds) == 1 else None
        if constraints is not None and len(constraints) == 1:
            return _sum_along(step, constraints[0], s.write)
    return None


def _sum_along(step: Var, c: Constraint, write: Sequence[Expr]) -> _Prefix | None:
    """The prefix sum that a constraint on two axes says: at each step one term more, and none before."""
    by, axes = c.form.coefficient(step), [v for v, _ in c.form.terms if v is not step]
    if c.equality or len(axes) != 1 or abs(by) != 1 or c.form.coefficient(axes[0]) != -by:
        return None
    (index,) = axes
    if not isinstance(index, Var) or index in set(write):
        return None
    lo, hi, n = index.lo, index.hi, step.hi
    assert isinstance(lo, int)
    assert isinstance(hi, int)
    assert isinstance(n, int)
    shift = by * c.form.const
    starts_with_one = hi <= n + shift if by < 0 else lo >= shift
    return _Prefix(step, index, shift, by < 0) if starts_with_one and min(hi - lo, n) >= LEAST else None


def _is_fixed(v: Var) -> bool:
    return isinstance(v.lo, int) and isinstance(v.hi, int)


def _extent(s: Statement, axis: Var) -> object:
    """Extent of the tensor along the index that an axis writes; None if it writes none."""
    extents = [n for w, n in zip(s.write, s.tensor.shape, strict=True) if w is axis]
    return extents[0] if extents else None


def _recurrence(s: Statement, prefix: _Prefix) -> Compute:
    """The tensor of the sums at each step."""
    step, index, n = prefix.step, prefix.index, prefix.step.hi
    assert isinstance(n, int)
    t = step.ranging(0, n)
    steps = Recurrence(t, prefix.reverse)
    sums = Compute(s.tensor.shape, s.tensor.dtype, part(s.tensor, "prefix"), (), steps)
    write = substitute(s.write, {step: t})
    before = substitute(write, {t: t + 1 if prefix.reverse else t - 1})
    axes: list[Var] = [t, *(w for w in write if isinstance(w, Var) and w is not t)]
    inside = t + 1 < n if prefix.reverse else t >= 1
    carry = replace(s, write=write, body=sums[before], domain=Domain(tuple(axes), (inside,)))
    at: dict[Expr, Expr] = {index: t + prefix.shift}
    plain = [c for c in s.domain.where if step not in set(variables([c]))]
    where = substitute([*plain, index >= index.lo, index < index.hi], at)
    axes = [t, *(v for v in s.domain.axes if v is not step and v is not index)]
    (body,) = substitute([s.body], at)
    term = replace(s, write=write, body=body, domain=Domain(tuple(axes), simplify_conditions(where)))
    steps.define({sums: (carry, term)})
    return sums
