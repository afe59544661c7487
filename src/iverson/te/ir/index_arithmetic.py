"""Normal form of index arithmetic: integer combinations of variables and of floors of such combinations.

    affine ::= const + sum of coefficient * atom
    atom   ::= Var | affine // d (an interned expression in this form) | anything else (opaque)

``a % d`` is ``a - d * (a // d)``. The constructor of floors simplifies ``//`` and ``%``. Ranges of index
expressions, and the constraints that guards put on them, are here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, inf
from typing import TypeAlias

from iverson.core import dtypes
from iverson.expr.affine import Affine, difference, keep_form, known_form, linear, make, single
from iverson.expr.build import apply, cast, index
from iverson.expr.function_facts import NEGATED
from iverson.expr.intervals import EVERYTHING, Bound, Interval, of_form, of_function
from iverson.expr.nodes import Apply, Cast, Const, Expr, once, postorder
from iverson.expr.symbolic_numbers import integer, lifted
from iverson.te.ir.expressions import Extent, Read, Var, as_number
from iverson.te.ir.nodes import Compute

#: Cases that a condition is split into at most.
MOST_CASES = 64


def affine_of(root: Expr) -> Affine:
    """Normal form of an integer expression, as an `Affine`; anything but index arithmetic is an opaque atom.

    >>> i = Var("i", 0, 12)
    >>> affine_of((i * 4 + 3) // 4) == affine_of(i)
    True
    >>> affine_of(i % 20) == affine_of(i)
    True
    """
    form = known_form(root)
    if form is None:
        for node in postorder([root]):
            form = known_form(node) or keep_form(node, _affine_of_node(node))
    assert form is not None
    return form


def _affine_of_node(node: Expr) -> Affine:
    """Normal form of a node, from the known normal forms of its operands."""
    if isinstance(node, Const) and node.dtype.kind in "iu":
        return Affine(node.value)
    if isinstance(node, Cast) and node.operand.dtype.kind in "iu":
        return affine_of(node.operand)
    if isinstance(node, Apply) and node.dtype.kind in "iu":
        args = [affine_of(a) for a in node.args]
        form = linear(node.name, args)
        if form is not None:
            return form
        if node.name in ("floor_divide", "remainder") and not args[1].terms and args[1].const > 0:
            d = args[1].const
            quotient = floor(args[0], d)
            return quotient if node.name == "floor_divide" else args[0] - quotient.scaled(d)
        if node.name in ("minimum", "maximum"):
            low, high = interval(args[0] - args[1])
            first = high <= 0 if node.name == "minimum" else low >= 0
            second = low >= 0 if node.name == "minimum" else high <= 0
            if first or second:
                return args[0] if first else args[1]
    return single(node)


def normal_extent(n: Extent) -> Extent:
    """An extent in normal form: an int if it is a number, and one expression for equal forms.

    >>> n = Var("n", 0, None, "size")
    >>> normal_extent(n + 2 - 2) is n, normal_extent(n - n + 3)
    (True, 3)
    """
    return as_number(expr_of(affine_of(n))) if isinstance(n, Expr) else n


def same_extent(a: Extent, b: Extent) -> bool:
    """True if two extents are known to be equal."""
    a, b = normal_extent(a), normal_extent(b)
    return a is b if isinstance(a, Expr) or isinstance(b, Expr) else a == b


def of_one_range(a: Var, b: Var) -> bool:
    """True if two axes are known to have the same values."""
    assert a.hi is not None
    assert b.hi is not None
    return same_extent(a.lo, b.lo) and same_extent(a.hi, b.hi)


def is_range(v: Var, n: Extent) -> bool:
    """True if the values of an axis are 0 to n - 1."""
    return v.hi is not None and same_extent(v.lo, 0) and same_extent(v.hi, n)


def expr_of(form: Affine) -> Expr:
    """The expression of a normal form, positive terms first; equal forms give the same expression."""
    result: Expr | None = None
    for atom, c in sorted(form.terms, key=lambda t: t[1] < 0):
        term = cast(atom, dtypes.int64)
        if abs(c) != 1:
            term = apply("multiply", term, index(abs(c)))
        if result is None:
            result = term if c > 0 else apply("negative", term)
        else:
            result = apply("add" if c > 0 else "subtract", result, term)
    if result is None:
        return index(form.const)
    if form.const:
        name = "add" if form.const > 0 else "subtract"
        result = apply(name, result, index(abs(form.const)))
    return result


def floor(form: Affine, d: int) -> Affine:
    """``form // d`` for d > 0, simplified.

    before -> after, with 0 <= low < g and g dividing d:
    ``(d*x + y) // d -> x + y // d``; ``(g*x + low) // d -> x // (d/g)``; ``low // g -> 0``;
    ``(x // a + y) // b -> (x + a*y) // (a*b)``.
    """
    if d == 1:
        return form
    quotient = make(form.const // d, {a: c // d for a, c in form.terms})
    remainder = make(form.const % d, {a: c % d for a, c in form.terms})
    low, high = interval(remainder)
    if low >= -inf and low // d == high // d and abs(low) != inf and abs(high) != inf:
        return quotient + Affine(integer(low // d))
    for g in _factors(remainder, d):
        small = make(remainder.const % g, {a: c for a, c in remainder.terms if c % g})
        low, high = interval(small)
        if low >= 0 and high < g:
            big = make(remainder.const // g, {a: c // g for a, c in remainder.terms if c % g == 0})
            return quotient + floor(big, d // g)
    inner = _inner_floor(remainder)
    if inner is not None:
        x, a, other = inner
        return quotient + floor(x + other.scaled(a), a * d)
    atom = apply("floor_divide", expr_of(remainder), index(d))
    return quotient + make(0, {atom: 1})


def _factors(form: Affine, d: int) -> list[int]:
    """Divisors of d, above 1, that are common factors of d and some of the coefficients; largest first."""
    factors = {lifted(gcd)(c, d) for _, c in form.terms}
    factors |= {lifted(gcd)(f, g) for f in factors for g in factors}
    return sorted([g for g in factors if g != 1], reverse=True)


def _inner_floor(form: Affine) -> tuple[Affine, int, Affine] | None:
    for atom, c in form.terms:
        parts = floor_parts(atom) if c == 1 else None
        if parts is not None:
            return *parts, form - make(0, {atom: 1})
    return None


def floor_parts(atom: Expr) -> tuple[Affine, int] | None:
    """Pair (x, d) if the atom is ``x // d`` with a positive number d, else None."""
    if isinstance(atom, Apply) and atom.name == "floor_divide":
        x, d = atom.args
        if isinstance(d, Const) and d.value > 0:
            return affine_of(x), d.value
    return None


def is_pure(form: Affine) -> bool:
    """True if all atoms are variables or floors of pure forms: no data, min or max."""
    pending = [a for a, _ in form.terms]
    while pending:
        atom = pending.pop()
        if isinstance(atom, Var):
            continue
        parts = floor_parts(atom)
        if parts is None:
            return False
        pending += [a for a, _ in parts[0].terms]
    return True


def is_linear(form: Affine) -> bool:
    """True if all atoms are variables."""
    return all(isinstance(a, Var) for a, _ in form.terms)


# --- ranges -----------------------------------------------------------------------------------


def interval(form: Affine, ranges: Mapping[Expr, Interval] | None = None) -> Interval:
    """Bounds (both included) of a form, with each variable anywhere in its range; infinite if not known.

    The bounds are sharp for forms in which each variable occurs once.

    ranges : narrower ranges of atoms.
    """

    def of_atom(atom: Expr) -> Interval:
        return _range_of(atom, ranges)

    low, high = of_form(form, of_atom)
    for atom, c in form.terms:
        parts = floor_parts(atom)
        if parts is None or c % parts[1]:
            continue
        # c*(x//d) = -m*d*(x//d), and m*x - m*d*(x//d) = m*(x % d) is within [0, m*(d-1)].
        x, d = parts
        m = -c // d
        remaining_form = form - (x - make(0, {atom: d})).scaled(m)
        if len(remaining_form.terms) >= len(form.terms):
            continue
        a, b = of_form(remaining_form, of_atom)
        low = max(low, a + min(0, m * (d - 1)))
        high = min(high, b + max(0, m * (d - 1)))
    return low, high


def _range_of(atom: Expr, ranges: Mapping[Expr, Interval] | None) -> Interval:
    if ranges and atom in ranges:
        return ranges[atom]
    if isinstance(atom, Var):
        return _least(atom.lo), _greatest(atom.hi)
    if isinstance(atom, Read):
        return _range_of_data(atom)
    return of_function(atom, lambda part: interval(affine_of(part), ranges))


def _range_of_data(read: Read) -> Interval:
    """Bounds of an entry that is read; infinite, unless the tensor has positions that an argmax finds.

    Such a position is one of the values of its axis, or -1 if there may be no point.
    """
    tensor = read.tensor
    if not isinstance(tensor, Compute) or len(tensor.statements) != 1:
        return EVERYTHING
    (statement,) = tensor.statements
    if statement.position is None:
        return EVERYTHING
    low, high = interval(affine_of(statement.position))
    return (-1 if statement.domain.where or high < low else low), high


def _least(lo: Extent) -> Bound:
    return lo if isinstance(lo, int) else interval(affine_of(lo))[0]


def _greatest(hi: Extent | None) -> Bound:
    if hi is None:
        return inf
    return hi - 1 if isinstance(hi, int) else interval(affine_of(hi))[1] - 1


# --- conditions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constraint:
    """``form >= 0``, or ``form == 0``."""

    form: Affine
    equality: bool = False


#: Conjunctions of constraints, of which one holds.
Cases: TypeAlias = "list[list[Constraint]]"


@once
def constraints_of(condition: Expr) -> tuple[Constraint, ...] | None:
    """Constraints on pure forms whose conjunction is ``condition``; None if it is no such conjunction.

    >>> i, j = Var("i", 0, 9), Var("j", 0, 9)
    >>> constraints_of(abs(i - j) <= 1) == constraints_of((i - j <= 1) & (j - i <= 1))
    True
    """
    result: list[Constraint] = []
    for part in conjuncts(condition):
        constraints = _constraints_of_part(part)
        if constraints is None:
            return None
        result += constraints
    return tuple(result)


def conjuncts(condition: Expr) -> list[Expr]:
    """Conditions whose conjunction is ``condition``; negations are pushed inwards."""
    if not (isinstance(condition, Apply) and condition.name in ("logical_and", "logical_not")):
        return [condition]
    pending: list[Expr] = [condition]
    result: list[Expr] = []
    while pending:
        e = pending.pop()
        if isinstance(e, Apply) and e.name == "logical_and":
            pending += [e.args[1], e.args[0]]
            continue
        if isinstance(e, Apply) and e.name == "logical_not":
            opposite = negation(e.args[0])
            if not (isinstance(opposite, Apply) and opposite.name == "logical_not"):
                pending.append(opposite)
                continue
        result.append(e)
    return result


def negation(condition: Expr) -> Expr:
    """Opposite of ``condition``; for a comparison of integers it is a comparison."""
    if isinstance(condition, Const):
        return apply("logical_not", condition)
    if isinstance(condition, Apply):
        if condition.name in NEGATED and condition.args[0].dtype.kind in "iu":
            return apply(NEGATED[condition.name], *condition.args)
        if condition.name in _DUAL:
            parts = [negation(p) for p in flattened(condition, condition.name)]
            result = parts[0]
            for p in parts[1:]:
                result = apply(_DUAL[condition.name], result, p)
            return result
    return apply("logical_not", condition)


_DUAL = {"logical_or": "logical_and", "logical_and": "logical_or"}


def flattened(e: Expr, name: str) -> list[Expr]:
    """Operands of a chain of calls of one associative function ``name``, left to right; not recursive."""
    pending, result = [e], []
    while pending:
        part = pending.pop()
        if isinstance(part, Apply) and part.name == name:
            pending += reversed(part.args)
        else:
            result.append(part)
    return result


@once
def _constraints_of_part(e: Expr) -> tuple[Constraint, ...] | None:
    """Constraints for a comparison of integers, or for a constant; None for all others."""
    if isinstance(e, Const):
        return (Constraint(Affine(0 if e.value else -1)),)
    cases = comparison_cases(e)
    return tuple(cases[0]) if cases is not None and len(cases) == 1 else None


def comparison_cases(e: Expr) -> Cases | None:
    """Lists of constraints, of which one list holds where a comparison of integers does.

    Its sides may have choices of the least or greatest of two; None if they are not affine besides.

    ``abs(x) <= 1  ->  x <= 1 and -x <= 1``
    ``min(x, y) < 3  ->  x < 3 | y < 3``
    """
    if not (isinstance(e, Apply) and e.name in NEGATED) or e.args[0].dtype.kind not in "iu":
        return None
    a, b = affine_of(e.args[0]), affine_of(e.args[1])
    if e.name == "not_equal":  # a > b where a >= b anyway
        low, high = interval(a - b)
        name = "greater" if low >= 0 else "less" if high <= 0 else ""
        return comparison_cases(apply(name, *e.args)) if name else None
    form = difference(e.name, a, b)
    assert form is not None
    if e.name != "equal":
        return _cases_of_choices(form)
    if is_pure(a) and is_pure(b):
        return [[Constraint(form, equality=True)]]
    return joint_cases(map(_cases_of_choices, (form, form.scaled(-1))))


def _cases_of_choices(form: Affine) -> Cases | None:
    """Lists of constraints on pure forms, of which one list holds where ``form >= 0``."""
    if is_pure(form):
        return [[Constraint(form)]]
    for atom, c in form.terms:
        if isinstance(atom, Apply) and atom.name in ("minimum", "maximum", "abs"):
            sides = [affine_of(a) for a in atom.args]
            sides += [sides[0].scaled(-1)] if atom.name == "abs" else []
            parts = [_cases_of_choices(form.without(atom) + side.scaled(c)) for side in sides]
            if (c > 0) == (atom.name == "minimum"):  # the least of the sides decides: all of them hold
                return joint_cases(parts)
            return [case for part in parts for case in part or ()] if None not in parts else None
    return None


def joint_cases(parts: Iterable[Cases | None]) -> Cases | None:
    """The cases in which a case of each part holds; None if they are too many."""
    result: list[list[Constraint]] = [[]]
    for part in parts:
        if part is None or len(result) * len(part) > MOST_CASES:
            return None
        result = [[*p, *q] for p in result for q in part]
    return result


def between(form: Affine, low: float, high: float) -> list[Constraint]:
    """Constraints on pure forms that follow from ``low <= form <= high``; [] if none are known.

    The lower bound of a minimum holds for both of its sides, the upper bound for a side if the other side is
    always above it; conversely for a maximum.
    """
    if is_pure(form):
        constraints = [] if low == -inf else [Constraint(form.shift(-integer(low)))]
        return (
            constraints if high == inf else [*constraints, Constraint(form.scaled(-1).shift(integer(high)))]
        )
    atoms = [(a, c) for a, c in form.terms if isinstance(a, Apply) and a.name in ("minimum", "maximum")]
    if len(form.terms) != 1 or len(atoms) != 1 or abs(atoms[0][1]) != 1:
        return []
    ((atom, c),) = atoms
    low, high = low - form.const, high - form.const
    if c < 0:
        low, high = -high, -low
    result = []
    sides = [affine_of(a) for a in atom.args]
    for side, other in (sides, sides[::-1]):
        smallest, largest = interval(other)
        if atom.name == "minimum":
            result += between(side, low, high if smallest > high else inf)
        else:
            result += between(side, low if largest < low else -inf, high)
    return result


def holds(constraint: Constraint) -> bool | None:
    """True if a constraint holds everywhere, False if it holds nowhere, None if neither is known."""
    low, high = interval(constraint.form)
    if constraint.equality:
        return True if low == high == 0 else False if low > 0 or high < 0 else None
    return True if low >= 0 else False if high < 0 else None


@lru_cache(maxsize=4096)
def condition_of(constraint: Constraint) -> Expr:
    """Constraint as a boolean expression, with positive terms on the left and negative terms on the right."""
    form = constraint.form
    lhs = {a: c for a, c in form.terms if c > 0}
    rhs = {a: -c for a, c in form.terms if c < 0}
    a = expr_of(make(max(form.const, 0), lhs))
    b = expr_of(make(max(-form.const, 0), rhs))
    return apply("equal" if constraint.equality else "greater_equal", a, b)


def bounds_under(
    form: Affine, constraints: Iterable[Constraint], ranges: Mapping[Expr, Interval] | None = None
) -> Interval:
    """Bounds of a form given constraints: interval arithmetic, narrowed by constraints on one atom
    and by constraints on the form itself. Never too narrow; not always sharp.

    ranges : bounds of atoms that follow from the constraints (`narrowed`), if computed before.
    """
    constraints = list(constraints)
    if ranges is None:
        ranges = narrowed((), [c for c in constraints if len(c.form.terms) == 1], rounds=1)
    low, high = interval(form, ranges)
    for c in constraints:
        for sign in (1, -1) if c.equality else (1,):
            g = c.form.scaled(sign)
            remainder = form - g  # form = remainder + g with g >= 0
            low = max(low, interval(remainder, ranges)[0])
            remainder = form + g  # form = remainder - g
            high = min(high, interval(remainder, ranges)[1])
    return low, high


def narrowed(axes: Iterable[Var], constraints: Iterable[Constraint], rounds: int = 8) -> dict[Expr, Interval]:
    """Ranges of the axes and of the atoms in constraints, both ends included, narrowed by the constraints.

    Each round narrows every atom by each constraint, given the ranges of the constraint's other atoms, and
    the argument of each floor by the floor's range; until nothing changes, at most ``rounds`` times. If a
    range becomes empty (low > high), no point satisfies the constraints.
    """
    forms = [c.form.scaled(sign) for c in constraints for sign in ((1, -1) if c.equality else (1,))]
    ranges: dict[Expr, Interval] = {v: (_least(v.lo), _greatest(v.hi)) for v in axes}
    floors: dict[Expr, tuple[Affine, int]] = {}
    pending = [a for form in forms for a, _ in form.terms]
    while pending:
        atom = pending.pop()
        if atom not in ranges:
            ranges[atom] = _range_of(atom, None)
        if atom not in floors and (parts := floor_parts(atom)) is not None:
            floors[atom] = parts
            pending += [a for a, _ in parts[0].terms]
    for _ in range(rounds):
        before = dict(ranges)
        for form in forms:
            _narrow(ranges, form)
        for atom, (x, d) in floors.items():  # d atom <= x < d atom + d
            low, high = ranges[atom]
            if low != -inf:
                _narrow(ranges, x.shift(-d * integer(low)))
            if high != inf:
                _narrow(ranges, x.scaled(-1).shift(d * integer(high) + d - 1))
        if ranges == before or any(low > high for low, high in ranges.values()):
            break
    return ranges


def _narrow(ranges: dict[Expr, Interval], form: Affine) -> None:
    """Narrow the ranges of the atoms of ``form`` in place, so that ``form >= 0`` is possible."""
    for v, k in form.terms:
        largest = interval(form - make(0, {v: k}), ranges)[1]  # k v >= -largest
        if largest in (inf, -inf):
            continue
        low, high = ranges[v]
        ranges[v] = (max(low, -(largest // k)), high) if k > 0 else (low, min(high, largest // -k))


def depends_on_data(roots: Iterable[Expr]) -> bool:
    """True if any of the expressions reads a tensor."""
    return any(isinstance(n, Read) for n in postorder(roots))
