"""Injectivity test: proves that no two points of a domain have the same index.

Then each element that is written has one writer.
The index is read as a space of known integer combinations of atoms (variables and floors). A combination
whose coefficients form a mixed radix determines its digits. Where all axes are determined, the index is
injective. Sound, not complete: False means "not proven".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import inf, lcm

from iverson.expr.affine import Affine, make
from iverson.expr.nodes import Expr
from iverson.te.ir.expressions import Var, extent
from iverson.te.ir.index_arithmetic import Constraint, affine_of, floor_parts, interval, is_pure

Row = dict[Expr, Fraction]


def is_injective(write: Sequence[Expr], axes: Iterable[Var], constraints: Iterable[Constraint] = ()) -> bool:
    """True if ``write`` provably differs between any two points that satisfy the constraints.

    >>> i, j = Var("i", 0, 4), Var("j", 0, 5)
    >>> is_injective([i * 5 + j], [i, j]), is_injective([i * 4 + j], [i, j])
    (True, False)
    """
    axes = tuple(axes)
    determined: set[Expr] = {v for v in axes if extent(v) == 1}
    unknowns = [v for v in axes if v not in determined]
    forms = [f for f in map(affine_of, write) if is_pure(f)]
    forms += [c.form for c in constraints if c.equality and is_pure(c.form)]
    rows = [{a: Fraction(c) for a, c in f.terms} for f in forms]
    while not all(v in determined for v in unknowns):
        before = len(determined)
        rows = _reduced([_without(r, determined) for r in rows])
        for row in (*rows, *_integer_rows(forms, determined)):
            determined.update(_digits(row))
        if len(determined) == before:
            return False
    return True


def _without(row: Row, determined: set[Expr]) -> Row:
    return {a: c for a, c in row.items() if not _is_known(a, determined)}


def _is_known(atom: Expr, determined: set[Expr]) -> bool:
    if atom in determined:
        return True
    parts = floor_parts(atom)
    return parts is not None and all(_is_known(a, determined) for a, _ in parts[0].terms)


def _integer_rows(forms: Iterable[Affine], determined: set[Expr]) -> list[Row]:
    return [_without({a: Fraction(c) for a, c in f.terms}, determined) for f in forms]


def _digits(row: Row) -> list[Expr]:
    """The atoms of a row whose value determines them: each coefficient exceeds the range of smaller terms.

    Otherwise the result is [].
    """
    scale = lcm(*(c.denominator for c in row.values())) if row else 1
    terms = sorted(((abs(int(c * scale)), a) for a, c in row.items()), key=lambda t: t[0])
    below: float = 0
    for c, atom in terms:
        if c <= below:
            return []
        low, high = interval(make(0, {atom: 1}))
        if high - low == inf:
            return []
        below += c * (high - low)
    return [a for _, a in terms]


def _reduced(rows: list[Row]) -> list[Row]:
    """Row echelon form over the rationals, fully reduced."""
    result: list[Row] = []
    pending = [r for r in rows if r]
    while pending:
        row = pending.pop()
        pivot = _pivot(row)
        row = {a: c / row[pivot] for a, c in row.items()}
        pending = [r for r in (_cleared(r, row, pivot) for r in pending) if r]
        result = [_cleared(r, row, pivot) for r in result] + [row]
    return result


def _pivot(row: Row) -> Expr:
    return max(row, key=lambda a: not isinstance(a, Var))  # floors are eliminated first


def _cleared(row: Row, by: Row, pivot: Expr) -> Row:
    factor = row.get(pivot)
    if not factor:
        return row
    result = dict(row)
    for a, c in by.items():
        value = result.get(a, Fraction(0)) - factor * c
        if value:
            result[a] = value
        else:
            result.pop(a, None)
    return result
