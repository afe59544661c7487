"""Products that are folded into one, and chains of them in the order that costs least."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iverson as iv
from iverson import tree
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.print import show
from iverson.graph.ir.verify import check
from iverson.graph.passes import simplified
from iverson.graph.passes.matrix_chains import cheapest, multiply_adds
from iverson.graph.passes.product_merging import folding
from tests.graph.programs import close

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(6, 5)), RNG.normal(size=(5, 4))
X, Y = RNG.normal(size=(5, 7)), RNG.normal(size=(5, 7))
BATCH = RNG.normal(size=(3, 5))
CUBE = RNG.normal(size=(3, 6, 5))
U, V = RNG.normal(size=(9, 1)), RNG.normal(size=(1, 8))

#: Functions, their arguments, the products that they make and the most multiply-adds.
FOLDED = {
    "a shared left factor": (lambda a, x, y: a @ x + a @ y, (A, X, Y), 1, 6 * 5 * 7),
    "a shared right factor": (lambda x, y, b: x.mT @ b + y.mT @ b, (X, Y, B), 1, 7 * 5 * 4),
    "among other terms": (
        lambda a, x, y: a @ x + iv.sin(a @ (x * y)) + a @ y,
        (A, X, Y),
        2,
        2 * 6 * 5 * 7,
    ),
    "what is read twice is not folded": (lambda a, x, y: (a @ x + a @ y) * (a @ x), (A, X, Y), 2, 420),
    "factors that are products of a shared factor": (
        lambda a, x, y, c: a @ (x @ c) + a @ (y @ c),
        (A, X, Y, X.T),
        2,
        5 * 7 * 5 + 6 * 5 * 5,
    ),
    "a gradient of a sum": (iv.grad(lambda a, b: (a @ b).sum()), (A, B), 1, 4 * 5),
    "thin factors side by side": (
        lambda u, v, x, y, m: u @ v + (x @ y).mT + m + iv.sin(u) @ v,
        (U, V, V.T, U.T, U @ V),
        1,
        2 * 9 * 8,
    ),
    "as many side by side as the sum has entries": (
        lambda *uv: reduce(iv.add, [u @ v for u, v in zip(uv[::2], uv[1::2], strict=True)]),
        [RNG.normal(size=shape) for _ in range(6) for shape in (U.shape, V.shape)],
        2,
        6 * 9 * 8,
    ),
    "the gradient of a matrix that is used many times": (
        iv.grad(lambda m, x: iv.sum(1 / (m @ (1 / (m.mT @ (1 / (m @ x))))))),
        (U @ V + 9.0, V[0]),
        3 + 2 + 1,
        9 * 8 * 8,
    ),
    "columns that repeat": (lambda a, x: a @ iv.broadcast_to(x[:, :1], (5, 9)), (A, X), 1, 6 * 5),
    "a batch of vectors": (iv.vmap(lambda a, x: a @ x, (None, 0)), (A, BATCH), 1, 3 * 6 * 5),
    "a batch with a shared matrix": (lambda c, b: c @ b, (CUBE, B), 1, 3 * 6 * 5 * 4),
    "a chain": (lambda a, b, x: a @ b @ x, (X, X.T, BATCH[:1].T), 2, 2 * 5 * 7),
    "a chain through a transpose": (lambda a, b, x: (a @ b).mT @ x, (X, X.T, BATCH[:1].T), 2, 2 * 5 * 7),
}


@pytest.mark.parametrize("name", FOLDED)
def test_folded(name):
    f, arrays, products, multiply_adds = FOLDED[name]
    args = list(map(iv.asarray, arrays))
    compiled = iv.jit(f)
    with iv.explain.count() as work:
        found = compiled(*args)
    assert (work.products, work.multiply_adds) == (products, multiply_adds)
    close(found, f(*args))
    graph = simplified(compiled.graph(*args))
    assert show(folding(graph)) == show(check(graph))


def orders(low, high):
    """All ways to multiply factors."""
    if high - low == 1:
        yield low
    for k in range(low + 1, high):
        for left in orders(low, k):
            for right in orders(k, high):
                yield left, right


@given(extents=st.lists(st.integers(1, 12), min_size=3, max_size=7))
def test_the_cheapest_order(extents):
    """Held against all orders."""
    shapes = list(pairwise(extents))
    order, cost = cheapest(shapes)
    assert (
        cost == multiply_adds(order, shapes) == min(multiply_adds(o, shapes) for o in orders(0, len(shapes)))
    )


@given(seed=st.integers(0, 10**6), count=st.integers(2, 6))
def test_random_chains(seed, count):
    """In random order, with transposes between: the same result, by as few multiply-adds as there are."""
    rng = np.random.default_rng(seed)
    extents = rng.integers(1, 9, count + 1).tolist()
    arrays = [rng.normal(size=shape) for shape in pairwise(extents)]
    whole = list(orders(0, count))
    order = whole[rng.integers(len(whole))]

    def multiplied(order, args):
        if isinstance(order, int):
            return args[order]
        left, right = (multiplied(x, args) for x in order)
        return (right.mT @ left.mT).mT if rng.integers(2) else left @ right

    args = list(map(iv.asarray, arrays))
    graph = iv.jit(lambda *args: multiplied(order, args)).graph(*args)
    with iv.explain.count() as work:
        (found,) = interpret(simplified(graph), args)
    assert work.multiply_adds == cheapest([a.shape for a in arrays])[1]
    np.testing.assert_allclose(found.numpy(), np.linalg.multi_dot(arrays), rtol=1e-9, atol=1e-12)


@given(data=st.data())
def test_random_sums_of_products(data):
    """What is folded has nothing left to fold, makes no more products, and the same sum."""
    factors = [RNG.normal(size=(3, 3)) for _ in range(4)]
    chain = st.lists(st.integers(0, 3), min_size=1, max_size=4)
    sums = data.draw(st.lists(st.lists(chain, min_size=1, max_size=4), min_size=1, max_size=3))

    def product(args, chain):
        first, *rest = reversed(chain)
        found = args[first]
        for k in rest:
            found = args[k] @ found
        return found

    def f(*args):
        found = [sum((product(args, chain) for chain in chains), start=0.0) for chains in sums]
        return sum((args[n % 4] @ x for n, x in enumerate(found)), start=0.0), *found[1:]

    args = list(map(iv.asarray, factors))
    graph = iv.jit(f).graph(*args)
    once = folding(graph)
    assert show(folding(check(once))) == show(once)
    assert sum(e.op.name == "matmul" for e in once.equations) <= sum(
        e.op.name == "matmul" for e in graph.equations
    )
    for found, expected in zip(interpret(once, args), f(*args), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)


@given(data=st.data())
def test_random_sums_of_thin_products(data):
    """Also of transposed ones and of zeros, beside other terms: NumPy's sum."""
    m, n = data.draw(st.tuples(*[st.integers(0, 24)] * 2))
    kind = data.draw(st.sampled_from(["float32", "float64", "complex128"]))
    widths = data.draw(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=7))
    rng = np.random.default_rng(m * 25 + n)

    def drawn(*shape):
        x = rng.normal(size=shape)
        return (x + 1j * rng.normal(size=shape) if kind == "complex128" else x).astype(kind)

    arrays = [drawn(m, n)]
    for k, is_moved in widths:
        arrays += [drawn(n, k), drawn(k, m)] if is_moved else [drawn(m, k), drawn(k, n)]

    def f(other, *factors):
        total = other
        for (_, is_moved), a, b in zip(widths, factors[::2], factors[1::2], strict=True):
            total = total + ((a @ b).T if is_moved else a @ b)
        return total

    actual = iv.jit(f)(*map(iv.asarray, arrays))
    tolerance = 1e-4 if kind == "float32" else 1e-10
    np.testing.assert_allclose(actual.numpy(), f(*arrays), rtol=tolerance, atol=tolerance)


#: A matrix and a vector, as users multiply them; ``h`` is the matrix by columns.
VECTORS = {
    "m @ v": lambda m, h, v, w: m @ v,
    "m.mT @ w": lambda m, h, v, w: m.mT @ w,
    "w @ m": lambda m, h, v, w: w @ m,
    "h @ v": lambda m, h, v, w: h.mT @ v,
    "columns of one": lambda m, h, v, w: m @ iv.expand_dims(v, axis=1),
    "added to a vector": lambda m, h, v, w: iv.exp(v) + w @ m - v,
    "of a batch": lambda m, h, v, w: iv.stack([m, 2 * m]) @ iv.expand_dims(v, axis=1),
    "of a part": lambda m, h, v, w: w[1:] @ m[1:, :-1],
    "gradients": lambda m, h, v, w: iv.grad(lambda m, v: iv.sum(iv.abs(m @ v)), argnums=(0, 1))(m, v),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(7, 9), (8, 8), (9, 1030), (23, 2050), (40, 2), (2, 40), (257, 31)])
def test_products_with_vectors_are_nests(shape, dtype):
    """OpenBLAS's product of matrices takes up to ten times as long; results are NumPy's."""
    rows, columns = shape
    drawn = [RNG.normal(size=n) + 1j * RNG.normal(size=n) for n in (shape, (columns, rows), columns, rows)]
    args = [iv.asarray((x if dtype == "complex128" else x.real).astype(dtype)) for x in drawn]
    for f in VECTORS.values():
        for found, expected in zip(*(tree.leaves(x) for x in (iv.jit(f)(*args), f(*args))), strict=True):
            np.testing.assert_allclose(
                np.asarray(found), np.asarray(expected), rtol=2e-4, atol=2e-4 if dtype == "float32" else 1e-9
            )
