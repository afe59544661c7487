"""Bounds of integer expressions: the extremes of affine forms over loop variables, sizes and atoms.

An index is an affine form over loop variables, sizes and whatever else is an atom (loads, quotients). Its
extremes follow by putting in the bounds of the loops, innermost first, so that what cancels symbolically
cancels here. `access_checks` draws the conclusions for accesses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

from iverson.codegen.nests.nodes import INT64, Load, Local, Loop, Size, Var
from iverson.expr.affine import LINEAR, Affine, keep_form, known_form, linear, make, single
from iverson.expr.intervals import Bound, Interval, of_dtype, of_form, of_function
from iverson.expr.nodes import Apply, Cast, Const, Expr
from iverson.expr.symbolic_numbers import integer, maximum, minimum

#: What is known at a call: intervals of sizes by name, and of index buffers' entries by ``"[name]"``.
Ranges = Mapping[str, Interval]


@dataclass(frozen=True)
class Scope:
    """Context of a statement: loops around it, guards and whether they hold, and the values of names."""

    loops: tuple[Loop, ...] = ()
    guards: tuple[tuple[Expr, bool], ...] = ()
    lets: Mapping[str, Expr] = field(default_factory=dict)


def extremes(form: Affine, scope: Scope, ranges: Ranges) -> Interval:
    """Lower and upper bound of the values of ``form`` in ``scope``; infinite if no bound is known."""
    low = _bound(form, scope, ranges, len(scope.loops), upper=False)
    high = _bound(form, scope, ranges, len(scope.loops), upper=True)
    return low, high


def loop_extremes(loop: Loop, scope: Scope) -> Interval:
    """Least value of a loop's lower bound and greatest value of its upper bound, in the loops of ``scope``.

    They are infinite if they are not known.
    """
    lows = [
        _bound(c, scope, {}, len(scope.loops), upper=False) for c in _candidates(loop.lower, scope, "maximum")
    ]
    highs = [
        _bound(c, scope, {}, len(scope.loops), upper=True) for c in _candidates(loop.upper, scope, "minimum")
    ]
    return max(lows), min(highs)


# --- forms ------------------------------------------------------------------------------------------


def affine(e: Expr, scope: Scope) -> Affine:
    """Affine form of an integer expression.

    Names that have a value in ``scope`` are replaced by it; a part that is not linear becomes an atom.
    """
    if scope.lets:
        return _form(e, scope)
    return known_form(e) or keep_form(e, _form(e, scope))


def _form(e: Expr, scope: Scope) -> Affine:
    """Affine form of an integer expression, as of `affine`, but always computed anew."""
    if isinstance(e, Const):
        return Affine(integer(e.value))
    if isinstance(e, Local) and e.name in scope.lets:
        return affine(scope.lets[e.name], scope)
    if isinstance(e, Cast) and e.dtype == INT64 and e.operand.dtype.kind in "iu":
        # The same number: what int64 can't hold (of uint64) is below 0 and outside every buffer.
        return affine(e.operand, scope) if e.operand.dtype.itemsize < 8 else single(e)
    form = None
    if isinstance(e, Apply) and e.name in LINEAR:
        form = linear(e.name, [affine(a, scope) for a in e.args])
    return single(e) if form is None else form


def non_negative(form: Affine, scope: Scope, ranges: Ranges) -> bool:
    return _bound(form, scope, ranges, len(scope.loops), upper=False) >= 0


def never(scope: Scope, ranges: Ranges) -> bool:
    """True if a loop around the statement is known to be empty."""
    for k, loop in enumerate(scope.loops):
        around = replace(scope, loops=scope.loops[:k])
        length = affine(loop.upper, around) - affine(loop.lower, around)
        if _bound(length, around, ranges, k, upper=True) <= 0:
            return True
    return False


def _bound(form: Affine, scope: Scope, ranges: Ranges, depth: int, *, upper: bool) -> Bound:
    """Upper bound (``upper``) or lower bound of ``form``; infinite if none is known.

    The variables of the outermost ``depth`` loops of ``scope`` are replaced by bounds, the innermost of them
    first.
    """
    form = _without_quotients(form, scope)
    while depth:
        depth -= 1
        loop = scope.loops[depth]
        term = next((t for t in form.terms if isinstance(t[0], Var) and t[0].name == loop.var), None)
        if term is None:
            continue
        c, remaining_form = term[1], form.without(term[0])
        at_top = (c > 0) == upper
        side = loop.upper if at_top else loop.lower
        bounds = []
        for candidate in _candidates(side, scope, "minimum" if at_top else "maximum"):
            value = _last(candidate, loop, scope) if at_top else candidate
            bounds.append(_bound(remaining_form + value.scaled(c), scope, ranges, depth, upper=upper))
        return minimum(*bounds) if upper else maximum(*bounds)
    return of_form(form, lambda e: _interval(e, scope, ranges))[upper]


def _last(end: Affine, loop: Loop, scope: Scope) -> Affine:
    """Form of the last value that the variable of ``loop`` takes if the loop stops before ``end``.

    If the number of iterations is not constant, this is ``end - 1``, which a step may not reach.
    """
    start = affine(loop.lower, scope)
    length = end - start
    if length.terms:
        return end.shift(-1)
    return start.shift((length.const - 1) // loop.step * loop.step)


def _candidates(e: Expr, scope: Scope, choice: str) -> list[Affine]:
    """Affine forms that are each a valid bound in place of the bound ``e`` of a loop.

    The variable stays below each operand of a minimum that is the upper bound, and is at least each operand
    of a maximum that is the lower bound. At most 4 forms are given for a choice or a sum.

    choice : "minimum" if ``e`` is an upper bound, "maximum" if it is a lower one.
    """
    if isinstance(e, Local) and e.name in scope.lets:
        return _candidates(scope.lets[e.name], scope, choice)
    if isinstance(e, Apply) and e.name == choice:
        return [c for a in e.args for c in _candidates(a, scope, choice)][:4]
    if isinstance(e, Apply) and e.name in ("add", "subtract"):
        sign = 1 if e.name == "add" else -1
        first = _candidates(e.args[0], scope, choice)
        second = _candidates(e.args[1], scope, choice if sign > 0 else _OPPOSITE[choice])
        return [x + y.scaled(sign) for x in first for y in second][:4]
    return [affine(e, scope)]


_OPPOSITE = {"minimum": "maximum", "maximum": "minimum"}


def _without_quotients(form: Affine, scope: Scope) -> Affine:
    """``form`` with terms ``c (x // d)``, where d divides c, written as ``(c / d) (x - x % d)``.

    The terms of x may then cancel with others.
    """
    for e, c in form.terms:
        if not (isinstance(e, Apply) and e.name == "floor_divide" and isinstance(e.args[1], Const)):
            continue
        d = integer(e.args[1].value)
        if d <= 0 or c % d:
            continue
        multiple = affine(e.args[0], scope) - single(Apply("remainder", e.args, INT64))
        return _without_quotients(form.without(e) + multiple.scaled(c // d), scope)
    return form


def _interval(e: Expr, scope: Scope, ranges: Ranges) -> Interval:
    """Interval of an atom of an affine form.

    That of a size or a load is in ``ranges``, or follows from the dtype; that of another expression follows
    from the intervals of its operands.
    """
    if isinstance(e, Size):
        return ranges.get(e.name, (0, inf))
    if isinstance(e, Load):
        return ranges.get(f"[{e.buffer.name}]") or of_dtype(e.dtype)
    return of_function(e, lambda part: extremes(affine(part, scope), scope, ranges))


# --- back to expressions ----------------------------------------------------------------------------


def from_affine(form: Affine) -> Expr:
    """An affine form as an expression."""
    total: Expr | None = None
    for e, c in form.terms:
        part = e if c == 1 else Apply("multiply", (e, Const(c)), INT64)
        total = part if total is None else Apply("add", (total, part), INT64)
    if total is None:
        return Const(form.const)
    return total if form.const == 0 else Apply("add", (total, Const(form.const)), INT64)


def without_division(e: Expr) -> Expr:
    """``e`` without exact divisions: ``(d x + c) // d  ->  x + c // d`` and ``(d x + c) % d  ->  c % d``.

    This holds for all subexpressions. A difference that is constant, such as ``d x + c - d x``, becomes a
    number.
    """
    e = e.rebuilt([without_division(o) for o in e.operands])
    if e.dtype.kind == "i" and isinstance(e, Apply) and e.name == "subtract":
        difference = affine(e, Scope())
        return e if difference.terms else Const(difference.const, e.dtype)
    if e.dtype.kind != "i" or not isinstance(e, Apply) or e.name not in ("floor_divide", "remainder"):
        return e
    if not isinstance(e.args[1], Const):
        return e
    d, form = integer(e.args[1].value), affine(e.args[0], Scope())
    if d <= 0 or any(c % d for _, c in form.terms):
        return e
    if e.name == "remainder":
        return Const(form.const % d)
    return from_affine(make(form.const // d, {a: c // d for a, c in form.terms}))
