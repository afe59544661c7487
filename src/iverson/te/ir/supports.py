"""Supports of tensors: the conditions on the indices of an entry under which it may be nonzero.

A domain meets the supports of what its body reads (`met`), so zeros of one stage are left out by the stages
that read it, by their derivatives and by the loops of all of them. A support may be larger than the set of
nonzero entries: conditions on data are left out, and so is what isl is not asked.

    D[i, j] = select(i == j, A[i], 0)       the support of D is  i == j
    Y[i] += D[i, k] * x[k] for i, k    ->   Y[i] += D[i, k] * x[k] for i, k where i == k
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from math import copysign

from iverson.core import dtypes
from iverson.core.scalars import SCALARS
from iverson.expr.affine import Affine, make
from iverson.expr.build import apply, as_expr, const, select, simplified_with
from iverson.expr.nodes import Apply, Cast, Const, Expr, Select, once, postorder
from iverson.te.ir.convex_pieces import disjoint, index_cases
from iverson.te.ir.evaluation_guards import conjunction, guards_of
from iverson.te.ir.expressions import Extent, Read, Reduce, Var, substitute, variables
from iverson.te.ir.index_arithmetic import (
    Constraint,
    affine_of,
    condition_of,
    conjuncts,
    constraints_of,
    depends_on_data,
    holds,
    is_pure,
    negation,
)
from iverson.te.ir.integer_sets import alternatives, is_empty, projection
from iverson.te.ir.nodes import Compute, Domain, Recurrence, Statement, recurrence_of

#: Convex pieces that a support has at most; beyond that it is everything.
MOST_PIECES = 8
#: Convex pieces of a condition, at most, that stays as it is written: each may be a simpler expression.
MOST_AS_WRITTEN = 3

EVERYWHERE: Expr = const(True, dtypes.bool)
NOWHERE: Expr = const(False, dtypes.bool)


def met(where: Sequence[Expr], body: Expr, combine: str) -> tuple[Expr, ...]:
    """The conditions of a domain, met with those under which ``body`` is not a structural zero.

    Only terms of sums and entries that are assigned may be left out: an entry that is not written is 0.
    """
    conditions = tuple(where)
    if combine not in ("sum", "assign"):
        return conditions
    condition = nonzero(body, conditions)
    if condition is EVERYWHERE:
        return conditions
    constraints_before = {c for e in conditions for part in conjuncts(e) for c in constraints_of(part) or ()}
    parts_before = {part for e in conditions for part in conjuncts(e)}
    new = []
    for part in conjuncts(condition):
        constraints = constraints_of(part)
        implied = constraints is not None and all(c in constraints_before or _holds(c) for c in constraints)
        if implied or part in parts_before:
            continue
        new.append(part)
    return (*conditions, *new)


def strong(body: Expr) -> Expr:
    """The expression with a choice of 0 around reads of entries that data put outside of a support.

    Loops cannot leave these terms out. The zero is then structural, as where the stage is computed in place:
    an inf or nan beside it does not matter.

    ``Z[at[i]] * y where the support of Z is a < 3  ->  select(at[i] < 3, Z[at[i]] * y, 0)``
    """
    order = postorder([body])
    outside: dict[Expr, Expr] = {}
    for e in order:
        if isinstance(e, Read) and isinstance(e.tensor, Compute) and e.dtype.kind in "fcV":
            axes, condition = support(e.tensor)
            if condition is EVERYWHERE or not depends_on_data(e.indices):
                continue
            (at,) = substitute([condition], dict[Expr, Expr](zip(axes, e.indices, strict=True)))
            outside[e] = conjunction(c for c in conjuncts(at) if depends_on_data([c]))
    if not outside:
        return body
    guards = guards_of(body)
    results: dict[Expr, Expr] = {}
    for e in order:
        result = simplified_with(e, [results[o] for o in e.operands])
        if e in outside and not all(c in guards[e] for c in conjuncts(outside[e])):
            result = select(outside[e], result, const(0, e.dtype))
        results[e] = result
    return results[body]


def met_again(s: Statement) -> Statement:
    """The statement with its domain met with supports of what it reads that were not known before."""
    return replace(s, domain=Domain(s.domain.axes, met(s.domain.where, s.body, s.combine)))


def meet_members(recurrence: Recurrence) -> None:
    """Meet the domains of a recurrence's members, which are defined by now, with each other's supports."""
    for t in recurrence.members:
        t.define(map(met_again, t.statements))


def nonzero(body: Expr, where: Sequence[Expr] = ()) -> Expr:
    """The condition on indices under which an expression may be nonzero; `EVERYWHERE` where none is known.

    where : conditions of the domain in which it is evaluated.

    >>> from iverson.te.language import definitions as te
    >>> A, i, j = te.placeholder((4, 4), name="A"), Var("i", 0, 4), Var("j", 0, 4)
    >>> nonzero(te.select(i == j, A[i, j], 0.0) * A[j, i])
    i == j
    >>> D = te.compute((4, 4), lambda i, j: te.select(i == j, A[i, j], 0.0), "D")
    >>> nonzero(D[i, j + 1] * A[j, i])
    i == j + 1
    """
    order = postorder([body])
    if not any(
        isinstance(e, Select) or (isinstance(e, Read) and isinstance(e.tensor, Compute)) for e in order
    ):
        return NOWHERE if is_zero(body) else EVERYWHERE
    guards = guards_of(body, where)
    conditions: dict[Expr, Expr] = {}
    for e in order:
        conditions[e] = _of_read(e, guards[e]) if isinstance(e, Read) else _nonzero_node(e, conditions)
    return conditions[body]


def support(tensor: Compute) -> tuple[tuple[Var, ...], Expr]:
    """Indices of a tensor, and the condition on them under which an entry may be nonzero.

    The tensor keeps the answer. Members of a recurrence may be nonzero everywhere until they are defined.
    """
    if tensor.support is None:
        axes = tuple(Var(f"a{k}", 0, n) for k, n in enumerate(tensor.shape))
        tensor.support = axes, _union(_entries(s, axes) for s in _added(tensor))
    return tensor.support


def _added(tensor: Compute) -> tuple[Statement | None, ...]:
    """The statements of a tensor if each of them adds entries to zeros; else (None,)."""
    adds = all(s.combine in ("sum", "assign") for s in tensor.statements)
    is_defined = recurrence_of(tensor) is None or bool(tensor.statements)
    return tensor.statements if adds and is_defined else (None,)


# --- expressions ------------------------------------------------------------------------------------


def is_zero(e: Expr) -> bool:
    """True for the constant 0. A negative zero is a value, which an entry that is left out has not."""
    if not isinstance(e, Const) or e.value != 0:
        return False
    value = complex(e.value)
    return copysign(1, value.real) > 0 and copysign(1, value.imag) > 0


def _nonzero_node(e: Expr, below: dict[Expr, Expr]) -> Expr:
    """The condition of a node, given those of its operands."""
    if isinstance(e, Const):
        return NOWHERE if is_zero(e) else EVERYWHERE
    if isinstance(e, Cast):
        return below[e.operand]
    if isinstance(e, Select):
        c, then, other = e.condition, below[e.then], below[e.other]
        if then is other:
            return then
        return _either(_both(_on_indices(c), then), _both(_on_indices(negation(c)), other))
    if isinstance(e, Reduce) and e.combine == "sum":
        axes = set(e.axes)
        parts = [c for c in conjuncts(below[e.body]) if c is NOWHERE or not axes & set(variables([c]))]
        return reduce(_both, parts, EVERYWHERE)
    if isinstance(e, Apply) and e.dtype.kind != "b":
        scalar = SCALARS[e.name]
        together = ((*range(len(e.args)),),) if scalar.zero_preserving else ()
        groups = (reduce(_either, (below[e.args[k]] for k in ks)) for ks in (*scalar.linear_in, *together))
        return reduce(_both, groups, EVERYWHERE)  # it is 0 where all arguments of a group are
    return EVERYWHERE


def _of_read(entry: Read, guards: Iterable[Expr]) -> Expr:
    """The condition under which an entry that is read under ``guards`` may be nonzero."""
    if not isinstance(entry.tensor, Compute):
        return EVERYWHERE
    axes, condition = support(entry.tensor)
    if condition is EVERYWHERE or condition is NOWHERE:
        return condition
    cases = index_cases(entry.indices)
    if len(cases) > 1:  # those that the guards allow
        plain = [c for c in guards if not depends_on_data([c])]
        inside = variables([*plain, *entry.indices])
        cases = [
            c for c in cases if not is_empty(tuple(v for v in inside if v.hi is not None), [*plain, *c[0]])
        ]
        if len(cases) == 1:
            cases = [((), cases[0][1])]
    result = NOWHERE
    for choice, indices in cases:
        (at,) = substitute([condition], dict[Expr, Expr](zip(axes, indices, strict=True)))
        parts = map(_on_indices, (*choice, *conjuncts(at)))
        result = _either(result, reduce(_both, parts, EVERYWHERE))
    return result


def _on_indices(condition: Expr) -> Expr:
    """A condition that loops can follow: affine, and of few convex pieces; else `EVERYWHERE`."""
    simpler = _simpler(condition)
    return condition if simpler is None else simpler


@once
def _simpler(condition: Expr) -> Expr | None:
    """The condition in place of one that loops cannot follow, or that is too long; None if it stays."""
    if isinstance(condition, Const):
        return EVERYWHERE if condition.value else NOWHERE
    if depends_on_data([condition]):
        plain = [c for c in conjuncts(condition) if not depends_on_data([c])]
        return reduce(_both, map(_on_indices, plain), EVERYWHERE)
    constraints = constraints_of(condition)
    if constraints is not None:
        truths = [holds(c) for c in constraints]
        return NOWHERE if False in truths else EVERYWHERE if all(truths) else None
    pieces = disjoint([condition])
    simpler: Expr | None = None
    if pieces is None or len(pieces) > MOST_AS_WRITTEN:
        simpler = _coalesced(condition)
        pieces = disjoint([simpler])
    if pieces is None or len(pieces) > MOST_PIECES:
        return EVERYWHERE
    return None if simpler is condition else simpler


def _coalesced(condition: Expr) -> Expr:
    """The condition as one on a union of few sets, if isl is asked: ``i < 3 | i == 3 -> i < 4``."""
    cases = alternatives(condition)
    if cases is None:
        return condition
    axes = tuple(v for v in variables([condition]) if v.kind != "size")
    box = [c for v in axes for c in _range(v.lo, v.hi, v)]
    result = projection(axes, (), cases, box)
    return condition if result is None else result


def _both(a: Expr, b: Expr) -> Expr:
    """The conjunction, each part once."""
    if a is NOWHERE or b is NOWHERE:
        return NOWHERE
    parts = dict.fromkeys([*conjuncts(a), *conjuncts(b)])
    parts.pop(EVERYWHERE, None)
    return reduce(lambda p, q: apply("logical_and", p, q), parts) if parts else EVERYWHERE


def _either(a: Expr, b: Expr) -> Expr:
    """The disjunction; `EVERYWHERE` beyond `MOST_PIECES`, and where sizes decide what it leaves out."""
    if a is EVERYWHERE or b is EVERYWHERE:
        return EVERYWHERE
    if a is NOWHERE or b is NOWHERE:
        return b if a is NOWHERE else a
    for p, q in ((a, b), (b, a)):
        if {*conjuncts(p)} <= {*conjuncts(q)}:
            return p
    either = _on_indices(apply("logical_or", a, b))
    axes = tuple(variables([either]))
    if any(v.kind == "size" for v in axes) or is_empty(axes, conjuncts(negation(either))):
        return EVERYWHERE
    return either


def _union(conditions: Iterable[Expr]) -> Expr:
    result = NOWHERE
    for c in conditions:
        result = _either(result, c)
        if result is EVERYWHERE:
            break
    return result


# --- statements -------------------------------------------------------------------------------------


def _entries(s: Statement | None, axes: Sequence[Var]) -> Expr:
    """The condition on ``axes`` under which a statement adds to the entry with these indices."""
    if s is not None and any(
        isinstance(v.lo, int) and isinstance(v.hi, int) and v.lo >= v.hi for v in s.domain.axes
    ):
        return NOWHERE
    if s is None or _fills(s, axes):
        return EVERYWHERE
    pieces = [
        (write, constraints) for case, write in index_cases(s.write) for constraints in _pieces(s, case)
    ]
    return _union(_image(s, write, axes, constraints) for write, constraints in pieces)


def _fills(s: Statement, axes: Sequence[Var]) -> bool:
    """True for a statement that writes each entry of a box, at its own indices and without conditions."""
    ranges = [(v.lo, v.hi) for v in s.write if isinstance(v, Var) and any(v is a for a in s.domain.axes)]
    is_plain = not s.domain.where and len({*s.write}) == len(ranges) == len(axes)
    return is_plain and all(
        type(hi) is int and (lo, hi) == (a.lo, a.hi) and hi > 0
        for (lo, hi), a in zip(ranges, axes, strict=True)
    )


def _pieces(s: Statement, conditions: Sequence[Expr]) -> list[list[Constraint]]:
    """Conjunctions of constraints of which one holds where a statement has points that satisfy conditions."""
    pieces: list[list[Constraint]] = [[]]
    for condition in (*s.domain.where, *conditions):
        choices = None if depends_on_data([condition]) else alternatives(condition)
        if choices is not None and len(choices) * len(pieces) <= MOST_PIECES:
            pieces = [[*p, *q] for p in pieces for q in choices]
    return pieces


def _image(
    s: Statement, write: Sequence[Expr], axes: Sequence[Var], constraints: Sequence[Constraint]
) -> Expr:
    """The condition on ``axes`` under which a statement writes there at a point that satisfies constraints.

    write : its indices, without choices.
    """
    inside = [*constraints, *(c for v in s.domain.axes for c in _range(v.lo, v.hi, v))]
    solved: dict[Expr, Expr] = {}
    for a, w in zip(axes, write, strict=True):
        form = affine_of(w)
        if not is_pure(form):
            continue  # data say where: anywhere
        own_axes = [v for v in s.domain.axes if form == make(form.const, {v: 1}) and v not in solved]
        if own_axes:
            solved[own_axes[0]] = a - form.const
        else:
            inside.append(Constraint(form - affine_of(a), equality=True))
    inside = [c for old in inside for c in _with(old, solved)]
    if any(holds(c) is False for c in inside):
        return NOWHERE
    box = [c for a in axes for c in _range(a.lo, a.hi, a)]
    ranges = set(box)
    open_ = [c for c in dict.fromkeys(inside) if c not in ranges and not _holds(c)]
    bound = [v for v in s.domain.axes if v not in solved]
    tied = set(bound) & set(variables([t for c in open_ for t, _ in c.form.terms]))
    condition: Expr | None = None
    if tied:
        names = [v for v in bound if v in tied]
        tied_constraints = [*open_, *(c for v in names for c in _range(v.lo, v.hi, v))]
        condition = projection(axes, names, [tied_constraints], box)
    if condition is None:  # a superset where isl is not asked
        plain = [condition_of(c) for c in open_ if not tied & set(variables([t for t, _ in c.form.terms]))]
        return NOWHERE if len(plain) > 1 and is_empty(axes, plain) else reduce(_both, plain, EVERYWHERE)
    parts = map(_normal, conjuncts(condition))
    return reduce(_both, map(_on_indices, parts), EVERYWHERE)


def _with(c: Constraint, new: dict[Expr, Expr]) -> list[Constraint]:
    """A constraint with expressions in place of axes."""
    if not any(x in new for atom, _ in c.form.terms for x in (atom, *postorder(atom.operands))):
        return [c]
    constraints = constraints_of(substitute([condition_of(c)], new)[0])
    assert constraints is not None, "axes put in place of axes leave constraints"
    return [*constraints]


def _range(lo: Extent, hi: Extent | None, v: Expr) -> list[Constraint]:
    """Constraints that hold an index between its bounds."""
    assert hi is not None
    form = affine_of(v)
    low, high = (affine_of(as_expr(n)) for n in (lo, hi))
    return [Constraint(bound) for bound in (form - low, high - form + Affine(-1)) if is_pure(bound)]


def _holds(c: Constraint) -> bool:
    """True if a constraint holds everywhere."""
    return holds(c) is True


def _normal(condition: Expr) -> Expr:
    """A condition in normal form, if it is affine."""
    constraints = constraints_of(condition)
    return condition if constraints is None else reduce(_both, map(condition_of, constraints), EVERYWHERE)
