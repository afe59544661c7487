"""Algebras of differential operators: dimensions, and products against NumPy's matrices of pairings."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from iverson.transforms.series.apolar import ApolarAlgebra, algebra_of


def monomials(variables, degree):
    return list(itertools.combinations_with_replacement(range(variables), degree))


def laplacians(d):
    """The square of a Laplacian."""
    return tuple(((i, i, j, j), 1.0 if i == j else 2.0) for i, j in monomials(d, 2))


def drawn(seed, variables, order, count):
    rng = np.random.default_rng(seed)
    every = monomials(variables, order)
    chosen = rng.choice(len(every), min(count, len(every)), replace=False)
    return tuple((every[k], float(rng.standard_normal())) for k in chosen)


OPERATORS = {
    "third derivative": (((0, 0, 0), 1.0),),
    "mixed": (((0, 1), 1.0),),
    "square of a sum": (((0, 0), 1.0), ((0, 1), 2.0), ((1, 1), 1.0)),
    "product of all": (((0, 1, 2, 3), 1.0),),
    "laplacian": tuple(((i, i), 1.0) for i in range(5)),
    **{f"biharmonic {d}": laplacians(d) for d in (1, 2, 4)},
    **{f"drawn {seed}": drawn(seed, 3, 2 + seed % 4, 1 + seed) for seed in range(8)},
}


def pairing(terms, monomial):
    """<P, m>: the operator's value of a monomial at 0."""
    c = dict(terms).get(tuple(sorted(monomial)), 0.0)
    return c * math.prod(math.factorial(n) for n in Counter(monomial).values())


@pytest.mark.parametrize("name", OPERATORS)
def test_dimensions_are_ranks(name):
    terms = OPERATORS[name]
    algebra = ApolarAlgebra(terms)
    variables = 1 + max(max(m) for m, _ in terms)
    for k in range(algebra.order + 1):
        rows, columns = monomials(variables, k), monomials(variables, algebra.order - k)
        matrix = np.array([[pairing(terms, b + m) for m in columns] for b in rows])
        assert algebra.size(k) == np.linalg.matrix_rank(matrix)


def image(algebra, polynomial, degree):
    """The coordinates of a polynomial, by monomial."""
    total = np.zeros(algebra.size(degree))
    for monomial, c in polynomial.items():
        for place, factor in algebra._coordinates[degree].get(monomial, {}).items():
            total[place] += c * factor
    return total


def product(algebra, factors, degrees):
    index, weights = algebra.table(tuple(degrees))
    terms = math.prod(f[i] for f, i in zip(factors, index, strict=True))
    return np.sum(weights * terms, axis=1)


@pytest.mark.parametrize("name", OPERATORS)
def test_products_are_those_of_polynomials(name):
    """All products of two and of three drawn polynomials, in the algebra and multiplied out."""
    algebra = ApolarAlgebra(OPERATORS[name])
    variables = 1 + max(max(m) for m, _ in algebra.terms)
    rng = np.random.default_rng(0)
    for degrees in itertools.chain(
        itertools.product(range(1, algebra.order), repeat=2),
        itertools.product(range(1, algebra.order), repeat=3),
    ):
        if sum(degrees) > algebra.order:
            continue
        polynomials = [{m: rng.standard_normal() for m in monomials(variables, k)} for k in degrees]
        expanded: Counter = Counter()
        for parts in itertools.product(*(p.items() for p in polynomials)):
            expanded[tuple(sorted(itertools.chain(*(m for m, _ in parts))))] += math.prod(c for _, c in parts)
        factors = [image(algebra, p, k) for p, k in zip(polynomials, degrees, strict=True)]
        found, exact = product(algebra, factors, degrees), image(algebra, expanded, sum(degrees))
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)
        if sum(degrees) == algebra.order:
            total = sum(c * pairing(algebra.terms, m) for m, c in expanded.items())
            np.testing.assert_allclose(found, [total], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", OPERATORS)
def test_lines_show_all_coordinates(name):
    """Of a drawn polynomial of each degree, from its values on the lines; and of one of these, the values."""
    algebra = ApolarAlgebra(OPERATORS[name])
    variables = 1 + max(max(m) for m, _ in algebra.terms)
    rng, lines = np.random.default_rng(0), algebra.lines
    slopes = lines.values[1] @ algebra.slopes(variables) if algebra.order > 1 else None
    for k in range(1, algebra.order + 1):
        if slopes is None:
            break
        polynomial = {m: rng.standard_normal() for m in monomials(variables, k)}
        values = sum(c * np.prod(slopes[:, list(m)], axis=1) for m, c in polynomial.items())
        found, exact = lines.coordinates[k - 1] @ values, image(algebra, polynomial, k)
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max(initial=1))
        if k < algebra.order:
            again = lines.coordinates[k - 1] @ (lines.values[k] @ exact)
            np.testing.assert_allclose(again, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max(initial=1))


@pytest.mark.parametrize("d", [1, 2, 4, 8])
def test_a_biharmonic_has_few_lines(d):
    """The axes, and two lines for each pair of them."""
    assert len(algebra_of(laplacians(d)).lines.values[0]) == d * d


@pytest.mark.parametrize("name", OPERATORS)
def test_terms_of_squares_are_counted_once(name):
    algebra = ApolarAlgebra(OPERATORS[name])
    for k in range(1, algebra.order // 2 + 1):
        a = np.random.default_rng(1).standard_normal(algebra.size(k))
        index, weights = algebra.table((k, k), square=True)
        found = np.sum(weights * a[index[0]] * a[index[1]], axis=1)
        np.testing.assert_allclose(found, product(algebra, [a, a], [k, k]), atol=1e-12)
        assert weights.size <= algebra.table((k, k))[1].size


@pytest.mark.parametrize("d", [1, 2, 3, 8, 30])
def test_what_a_biharmonic_carries(d):
    """The value, the gradient, the Hessian, the gradient of the Laplacian, and the result."""
    algebra = ApolarAlgebra(laplacians(d))
    assert [algebra.size(k) for k in range(5)] == [1, d, d * (d + 1) // 2, d, 1]


def test_an_algebra_is_made_once():
    assert algebra_of(laplacians(2)) is algebra_of(laplacians(2))
