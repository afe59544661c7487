"""Partial derivatives by interpolation: a mixed derivative as a weighted sum of derivatives along directions.

The derivative of order k along v is the sum of k! / b! v^b d^b over |b| = k. So that the sum of w_v times
these is d^a, the weights w of integer directions v solve a linear system, which is solved in fractions
(Griewank, Utke and Walther, Evaluating higher derivative tensors by forward propagation of univariate
Taylor series, Mathematics of Computation 69, 2000).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from math import factorial, gcd, prod

#: Exponents of a partial derivative, one for each variable.
MultiIndex = tuple[int, ...]


def compositions(total: int, parts: int) -> Iterator[MultiIndex]:
    """All multi-indices of an order, for so many variables."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for following in compositions(total - first, parts - 1):
            yield (first, *following)


@cache
def weights_of(index: MultiIndex) -> tuple[tuple[MultiIndex, Fraction], ...]:
    """Directions and weights for one partial derivative, whose exponents are all above 0.

    >>> weights_of((1, 1))
    (((1, 0), Fraction(-1, 2)), ((1, 1), Fraction(1, 2)), ((0, 1), Fraction(-1, 2)))
    """
    order = sum(index)
    indices = list(compositions(order, len(index)))
    rows = [
        [Fraction(factorial(order) * _power(v, b), prod(map(factorial, b))) for v in indices] for b in indices
    ]
    solution = _solved(rows, [Fraction(b == index) for b in indices])
    sums: dict[MultiIndex, Fraction] = {}
    for v, w in zip(indices, solution, strict=True):
        divisor = gcd(*v)
        primitive = tuple([n // divisor for n in v])
        sums[primitive] = sums.get(primitive, Fraction()) + w * divisor**order
    return tuple([(v, w) for v, w in sums.items() if w])


def directions_of(terms: Mapping[MultiIndex, float]) -> dict[MultiIndex, float]:
    """Directions and their weights for a sum of partial derivatives of one order, by multi-index."""
    sums: dict[MultiIndex, float] = {}
    for index, factor in terms.items():
        variables = [k for k, n in enumerate(index) if n]
        for v, w in weights_of(tuple([index[k] for k in variables])):
            direction = [0] * len(index)
            for k, n in zip(variables, v, strict=True):
                direction[k] = n
            key = tuple(direction)
            sums[key] = sums.get(key, 0.0) + factor * float(w)
    return {v: w for v, w in sums.items() if w}


def _power(base: MultiIndex, exponents: MultiIndex) -> int:
    return prod(n**k for n, k in zip(base, exponents, strict=True))


def _solved(rows: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """The solution of a linear system, by elimination."""
    n = len(rows)
    table = [[*row, b] for row, b in zip(rows, right, strict=True)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if table[i][k])
        table[k], table[pivot] = table[pivot], table[k]
        inverse = 1 / table[k][k]
        table[k] = [x * inverse for x in table[k]]
        for i in range(n):
            if i != k and (factor := table[i][k]):
                table[i] = [x - factor * y for x, y in zip(table[i], table[k], strict=True)]
    return [row[n] for row in table]
