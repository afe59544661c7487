"""Apolar algebra of a differential operator: the part of a Taylor series that the operator's value shows.

Along x + v, coefficient k of a function is a homogeneous polynomial of degree k in v. An operator P(d) of
order K reads the coefficient of order K alone, as a number <P, y_K>; of a polynomial b of lower degree k it
can only see the numbers <P, b m> for the monomials m of degree K - k. So polynomials are added and multiplied
modulo those that P annihilates (Macaulay's inverse systems). In degree k the dimension of this algebra is the
rank of the catalecticant matrix <P, b m>: of a Laplacian in d variables 1, d, 1; of its square
1, d, d (d + 1) / 2, d, 1. Nothing smaller determines <P, y_K> for all products (Iarrobino and Kanev, Power
Sums, Gorenstein Algebras, and Determinantal Loci, 1999, chapter 1).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TypeAlias

import numpy as np

from iverson.core.protocols import NDArray

#: The numbers of the variables of a product, in order.
Monomial: TypeAlias = tuple[int, ...]
#: The variables in which a line moves, each with its slope, a whole number.
Direction: TypeAlias = tuple[tuple[int, int], ...]
#: By place in a basis, the coordinates that are not 0.
Coordinates: TypeAlias = Mapping[int, float]
#: A monomial with its coefficient; or a product of basis elements, by their places, with its factor.
Term: TypeAlias = tuple[Monomial, float]

#: Relative size below which a number is taken for a rounding error.
_TINY = 1e-12


class ApolarAlgebra:
    """Polynomials modulo those that an operator annihilates, in a basis of monomials for each degree.

    terms : of the operator, with the coefficient of each monomial, all of one order.
    order : of the operator, the highest degree; the basis of that degree is so that the coordinate is <P, b>.
    """

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        self.order = len(terms[0][0])
        self._bases: list[dict[Monomial, int]] = []
        self._coordinates: list[Mapping[Monomial, Coordinates]] = []
        for degree in range(self.order):
            basis, coordinates = _quotient(_catalecticant(terms, degree))
            self._bases.append(basis)
            self._coordinates.append(coordinates)
        self._coordinates.append({a: {0: _paired(a, c)} for a, c in terms})
        self._lines: Lines | None = None
        self._tables: dict[tuple[tuple[int, ...], bool], tuple[NDArray, NDArray]] = {}

    def size(self, degree: int) -> int:
        """The dimension in a degree."""
        return len(self._bases[degree]) if degree < self.order else 1

    def slopes(self, count: int) -> NDArray:
        """The coordinates of each of so many variables, of shape (dimension of degree 1, count)."""
        slopes = np.zeros((self.size(1), count))
        for (variable,), coordinates in self._coordinates[1].items():
            for place, factor in coordinates.items():
                slopes[place, variable] = factor
        return slopes

    @property
    def lines(self) -> Lines:
        """Directions whose powers have the operator as a sum, made once."""
        if self._lines is None:
            self._lines = self._on_lines()
        return self._lines

    def _on_lines(self) -> Lines:
        """The lines: <P, q> is a sum of a_j q(v_j), so <P, q m> are sums too, which give coordinates of q."""
        weights = _sum_of_powers(self.terms)
        values = [_values(self._bases[k], list(weights)) for k in range(self.order)]
        scale = np.array(list(weights.values()))
        coordinates = []
        for k in range(1, self.order):
            pairing = np.array(
                [[self._paired(b, m) for b in self._bases[k]] for m in self._bases[self.order - k]]
            )
            coordinates.append(np.linalg.solve(pairing, values[self.order - k].T * scale))
        return Lines(tuple(values), (*coordinates, scale[None]))

    def _paired(self, b: Monomial, m: Monomial) -> float:
        """<P, b m>."""
        return self._coordinates[self.order].get(tuple(sorted((*b, *m))), {}).get(0, 0.0)

    def table(self, degrees: tuple[int, ...], square: bool = False) -> tuple[NDArray, NDArray]:
        """The products of basis elements of some degrees, as index and factors.

        index : of shape (number of factors, dimension of the product, n), the places of the factors in their
            bases, for the n terms of each coordinate of the product.
        factors : of shape (dimension of the product, n).
        square : True for two equal factors: terms that differ in order are one.
        """
        key = degrees, square
        if key not in self._tables:
            self._tables[key] = self._table(degrees, square)
        return self._tables[key]

    def _table(self, degrees: tuple[int, ...], square: bool) -> tuple[NDArray, NDArray]:
        total = sum(degrees)
        rows: list[dict[Monomial, float]] = [{} for _ in range(self.size(total))]
        for monomial, coordinates in self._coordinates[total].items():
            for parts in self._splits(monomial, degrees):
                key = tuple(sorted(parts)) if square else parts
                for place, factor in coordinates.items():
                    rows[place][key] = rows[place].get(key, 0.0) + factor
        length = max(map(len, rows))
        sums = [_of_length(list(row.items()), length) for row in rows]
        index = np.array([[parts for parts, _ in row] for row in sums], np.int64)
        return np.moveaxis(index, -1, 0), np.array([[factor for _, factor in row] for row in sums])

    def _splits(self, monomial: Monomial, degrees: Sequence[int]) -> Iterator[Monomial]:
        """The ways to write a monomial as a product of basis elements: their places."""
        degree, *factors = degrees
        for divisor, quotient in _divisors(monomial, degree):
            place = self._bases[degree].get(divisor)
            if place is None:
                continue
            if not factors:
                yield (place,)
                continue
            for parts in self._splits(quotient, factors):
                yield (place, *parts)


@dataclass(frozen=True)
class Lines:
    """Lines along which functions show an algebra's coordinates.

    values : by degree below the order, of each basis element on each line, of shape (lines, dimension).
    coordinates : by degree from 1 to the order, those of a polynomial from its values, (dimension, lines).
    """

    values: tuple[NDArray, ...]
    coordinates: tuple[NDArray, ...]


def _sum_of_powers(terms: Sequence[Term]) -> dict[Direction, float]:
    """Weights a of directions v so that <P, q> is the sum of a q(v), for all q of the order of P.

    Each term is such a sum in its own variables, of few directions with small whole entries.
    """
    weights: dict[Direction, float] = {}
    for monomial, c in terms:
        variables = sorted(set(monomial))
        exponents = tuple([monomial.count(v) for v in variables])
        for vector, weight in _of_monomial(exponents):
            direction = tuple([(v, n) for v, n in zip(variables, vector, strict=True) if n])
            weights[direction] = weights.get(direction, 0.0) + weight * _paired(monomial, c)
    return {v: a for v, a in weights.items() if a}


@lru_cache(256)
def _of_monomial(exponents: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], float], ...]:
    """Directions v and weights a with which a monomial's coefficient in any q is the sum of a q(v)."""
    from scipy.linalg import qr

    order, count = sum(exponents), len(exponents)
    powers = np.array([e for e in product(range(order + 1), repeat=count) if sum(e) == order])
    for largest in range(1, order + 1):
        entries = range(-largest, largest + 1)
        vectors = np.array([v for v in product(entries, repeat=count) if _is_first(v)])
        values = np.prod(vectors[:, None, :] ** powers, axis=-1, dtype=float).T
        target = (powers == exponents).all(axis=1).astype(float)
        upper, pivots = qr(values, mode="r", pivoting=True)
        sizes = np.abs(np.diagonal(upper))
        columns = np.sort(pivots[: int(np.sum(sizes > _TINY * sizes[0]))])
        weights = np.linalg.lstsq(values[:, columns], target, rcond=None)[0]
        if np.abs(values[:, columns] @ weights - target).max() < 1e-10:
            pairs = zip(vectors[columns].tolist(), weights.tolist(), strict=True)
            return tuple([(tuple(v), a) for v, a in pairs if abs(a) > _TINY])
    raise AssertionError(exponents)


def _is_first(vector: Sequence[int]) -> bool:
    """True for one of the whole vectors of each line."""
    leading = next((n for n in vector if n), 0)
    return leading > 0 and math.gcd(*vector) == 1


def _values(basis: Mapping[Monomial, int], directions: Sequence[Direction]) -> NDArray:
    """The values of monomials at directions, of shape (directions, monomials)."""
    entries = [dict(d) for d in directions]
    return np.array([[math.prod(d.get(v, 0) for v in m) for m in basis] for d in entries], float)


@lru_cache(64)
def algebra_of(terms: tuple[Term, ...]) -> ApolarAlgebra:
    """The algebra of an operator, made once."""
    return ApolarAlgebra(terms)


def _of_length(terms: list[Term], length: int) -> list[Term]:
    """A sum of so many terms: the last one is divided into equal parts."""
    *head, (parts, factor) = terms
    count = length - len(head)
    return [*head, *[(parts, factor / count)] * count]


def _paired(monomial: Monomial, coefficient: float) -> float:
    """<P, m> for a term of P with a monomial m: c d^a x^a = c a!."""
    return coefficient * math.prod(math.factorial(n) for n in Counter(monomial).values())


def _divisors(monomial: Monomial, degree: int) -> Iterator[tuple[Monomial, Monomial]]:
    """The divisors of a monomial of some degree, each with the quotient."""
    powers = sorted(Counter(monomial).items())
    for exponents in product(*(range(n + 1) for _, n in powers)):
        if sum(exponents) == degree:
            pairs = list(zip(powers, exponents, strict=True))
            divisor = tuple([v for (v, _), k in pairs for _ in range(k)])
            yield divisor, tuple([v for (v, n), k in pairs for _ in range(n - k)])


def _catalecticant(terms: Sequence[Term], degree: int) -> dict[Monomial, dict[Monomial, float]]:
    """The numbers <P, b m> that are not 0, by monomials b of a degree and their complements m."""
    rows: dict[Monomial, dict[Monomial, float]] = {}
    for monomial, c in terms:
        for divisor, quotient in _divisors(monomial, degree):
            rows.setdefault(divisor, {})[quotient] = _paired(monomial, c)
    return rows


def _quotient(
    rows: Mapping[Monomial, Mapping[Monomial, float]],
) -> tuple[dict[Monomial, int], dict[Monomial, Coordinates]]:
    """A basis of monomials, and the coordinates of each: its row as a sum of the rows of the basis.

    The basis is chosen by a QR decomposition with pivoting, in each of the blocks that the matrix falls into.
    """
    from scipy.sparse import csgraph, csr_array

    columns = {m: k for k, m in enumerate({m: None for row in rows.values() for m in row})}
    monomials = list(rows)
    at = [(i, columns[m], c) for i, row in enumerate(rows.values()) for m, c in row.items()]
    row, column, data = map(np.array, zip(*at, strict=True))
    matrix = csr_array((data, (row, column)), (len(rows), len(columns)))
    edges = csr_array((np.ones(len(data)), (row, len(rows) + column)), (sum(matrix.shape),) * 2)
    _, labels = csgraph.connected_components(edges, directed=False)
    order = np.argsort(labels[: len(rows)], kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    basis: dict[Monomial, int] = {}
    result: dict[Monomial, Coordinates] = {}
    for block in np.split(order, starts[1:]):
        part = matrix[block]
        dense = part[:, np.unique(part.indices)].toarray()
        pivots, coordinates = _independent(dense)
        size = len(basis)
        basis.update({monomials[block[p]]: size + n for n, p in enumerate(pivots)})
        for b, factors in zip(block, coordinates, strict=True):
            result[monomials[b]] = {size + n: float(f) for n, f in enumerate(factors) if f}
    return basis, result


def _independent(rows: NDArray) -> tuple[NDArray, NDArray]:
    """Independent rows of a matrix, and all of its rows by these: rows = coordinates @ rows[pivots]."""
    from scipy.linalg import qr, solve_triangular

    upper, pivots = qr(rows.T, mode="r", pivoting=True)
    sizes = np.abs(np.diagonal(upper))
    rank = int(np.sum(sizes > _TINY * sizes[0]))
    factors = solve_triangular(upper[:rank, :rank], upper[:rank]).T
    factors[np.abs(factors) < _TINY] = 0
    coordinates = np.empty_like(factors)
    coordinates[pivots] = factors
    coordinates[pivots[:rank]] = np.eye(rank)
    return pivots[:rank], coordinates
