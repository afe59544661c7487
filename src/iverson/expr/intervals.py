"""Interval arithmetic: bounds of an integer expression from the bounds of its leaves.

The bounds of leaves and affine forms come from the levels above: `te.ir.index_arithmetic` knows the ranges of
variables, `codegen.nests.integer_bounds` the loops around a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

import numpy as np

from iverson.expr.affine import Affine
from iverson.expr.nodes import Apply, Const, DType, Expr, Select
from iverson.expr.symbolic_numbers import is_infinite, maximum, minimum

Bound = float  # an integer, or plus or minus infinity
#: The smallest and the largest value; of something that has none, the first is the larger one.
Interval = tuple[Bound, Bound]
EVERYTHING: Interval = (-inf, inf)


def of_form(form: Affine, of_atom: Callable[[Expr], Interval]) -> Interval:
    """Interval of the values of ``form`` if each atom takes any value in its interval, ``of_atom(atom)``."""
    low = high = float(form.const) if abs(form.const) > 2**53 else form.const
    for atom, c in form.terms:
        a, b = of_atom(atom)
        low += c * (a if c > 0 else b)
        high += c * (b if c > 0 else a)
    return low, high


def of_function(e: Expr, of_part: Callable[[Expr], Interval]) -> Interval:
    """Interval of an integer expression that is not affine, from the intervals of its parts.

    `EVERYTHING` for a function that has no rule here.

    of_part : function that gives the interval of an operand.

    >>> from iverson.core import dtypes
    >>> i, three = Const(0, dtypes.int64), Const(3)
    >>> of_function(Apply("floor_divide", (i, three), dtypes.int64), {i: (4, 7), three: (3, 3)}.__getitem__)
    (1, 2)
    """
    if isinstance(e, Select):
        return hull([of_part(e.then), of_part(e.other)])
    if not isinstance(e, Apply):
        return EVERYTHING
    parts = [of_part(a) for a in e.args]
    if e.name in ("minimum", "maximum"):
        choose = minimum if e.name == "minimum" else maximum
        return choose(*(low for low, _ in parts)), choose(*(high for _, high in parts))
    if e.name == "bitwise_and":
        limits = [a.value for a in e.args if isinstance(a, Const) and a.value >= 0]
        return (0, min(limits)) if limits else EVERYTHING
    if e.name == "multiply":
        bounds = [(x, y) for x in parts[0] for y in parts[1]]
        ends = [] if any(is_infinite(x) or is_infinite(y) for x, y in bounds) else [x * y for x, y in bounds]
        return (min(ends), max(ends)) if ends else EVERYTHING
    if e.name in ("floor_divide", "remainder"):
        (low, high), (d, d_high) = parts
        if not 0 < d == d_high:
            return EVERYTHING
        first, last = _quotient(low, d), _quotient(high, d)
        if e.name == "floor_divide":
            return first, last
        return (low % d, high % d) if first == last and not is_infinite(first) else (0, d - 1)
    return EVERYTHING


def _quotient(x: Bound, d: Bound) -> Bound:
    return x if is_infinite(x) else x // d


def of_dtype(dtype: DType) -> Interval:
    """Interval of a value of ``dtype`` that is read from memory.

    The limits of the dtype for integers of 1 or 2 bytes, from 0 to infinity for other unsigned integers, and
    `EVERYTHING` else.
    """
    if dtype.kind in "iu" and dtype.itemsize < 4:
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    return (0, inf) if dtype.kind == "u" else EVERYTHING


def hull(intervals: Iterable[Interval]) -> Interval:
    """The smallest interval that contains all of the intervals."""
    lows, highs = zip(*intervals, strict=True)
    return min(lows), max(highs)
