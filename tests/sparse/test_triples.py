"""Products of sparse matrices sampled at a third: every walk against SciPy, and how many steps it takes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.autograd import grad
from iverson.kernels.sparse import sampled_sparse_products
from iverson.kernels.sparse.sampled_sparse_products import Operand
from iverson.layouts import CooPattern, from_strided
from tests.sparse.common import LAYOUTS, held

WALKS = ["".join(w) for w in permutations("ijk")]
PLAIN = [x for x in LAYOUTS if x[0] != "b"]


def power_law(shape, density, rng):
    """A matrix whose first rows and columns hold most of its entries."""
    weights = np.multiply.outer(*((1.0 + np.arange(n)) ** -0.7 for n in shape))
    kept = rng.random(shape) * weights.mean() < density * weights if weights.size else weights > 0
    return rng.standard_normal(shape) * kept


def terms(a, b, shared):
    """The pairs of entries of two matrices of 0 and 1 that share an index along an axis of each."""
    return int(a.sum(axis=1 - shared[0]) @ b.sum(axis=1 - shared[1]))


@settings(max_examples=30)
@given(
    extents=st.tuples(*[st.integers(0, 30)] * 3),
    densities=st.tuples(*[st.sampled_from([0.0, 0.05, 0.3, 1.0])] * 3),
    layouts=st.tuples(*[st.sampled_from(PLAIN)] * 3),
    seed=st.integers(0, 99),
)
def test_every_walk_gives_the_product_and_the_shortest_is_chosen(extents, densities, layouts, seed):
    rng = np.random.default_rng(seed)
    n, m, k = extents
    dense = [power_law(s, d, rng) for s, d in zip([(n, m), (m, k), (n, k)], densities, strict=True)]
    a, b, out = (from_strided(x, layout) for x, layout in zip(dense, layouts, strict=True))
    three = (
        Operand(a.pattern, "ij", a.entries),
        Operand(b.pattern, "jk", b.entries),
        Operand(out.pattern, "ik"),
    )
    product = scipy.sparse.csr_array(dense[0]) @ scipy.sparse.csr_array(dense[1])
    expected = product.toarray()[tuple(out.pattern.coordinates)]
    for walk in WALKS:
        found = sampled_sparse_products.walked(three, walk, a.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    held_at = [(x != 0).astype(int) for x in dense]
    steps = [
        terms(held_at[0], held_at[2], (0, 0)),
        terms(held_at[0], held_at[1], (1, 0)),
        terms(held_at[1], held_at[2], (1, 1)),
    ]
    entries = sum(x.sum() for x in held_at)
    found, walk = sampled_sparse_products.chosen(three)
    assert found == steps["ijk".index(walk[1])]
    assert found <= max(min(steps), entries)


@pytest.mark.parametrize("worthwhile", [0, 1 << 40])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_samples_of_a_product_are_those_of_the_dense_one(layout, worthwhile, monkeypatch):
    """Compiled or not, of batches and of other dtypes too."""
    monkeypatch.setattr(sampled_sparse_products, "WORTHWHILE", worthwhile)
    rng = np.random.default_rng(0)
    for shape in ((4, 6), (2, 4, 6)):
        x = rng.standard_normal(shape) * (rng.random(shape) < 0.4)
        square = (*shape[:-1], 4)
        mask = held((rng.random(square) < 0.6).astype(float), "csr")
        for dtype in ("float64", "float32", "complex128"):
            s, t = held(x.astype(dtype), layout), held(np.swapaxes(x, -1, -2).astype(dtype), "csr")
            found = iv.sampled_matmul(s, t, mask).to_dense().numpy()
            expected = np.where(mask.to_dense().numpy() != 0, x @ np.swapaxes(x, -1, -2), 0)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_pattern_with_repeats_is_sampled(monkeypatch):
    monkeypatch.setattr(sampled_sparse_products, "WORTHWHILE", 0)
    x = power_law((5, 5), 0.5, np.random.default_rng(0))
    repeats = CooPattern((5, 5), np.array([[0, 2, 0, 1], [1, 3, 1, 0]]))
    found = iv.ops.F.sampled_product(held(x, "csr"), held(x, "csr"), pattern=repeats)
    np.testing.assert_allclose(found.numpy(), (x @ x)[tuple(repeats.indices)])


@pytest.mark.parametrize("spread", ["even", "power law"])
def test_the_gradient_of_a_product_has_the_terms_of_the_product(spread, monkeypatch):
    """Each cotangent takes the steps of the product itself, not those of a product that is sampled after."""
    rng = np.random.default_rng(0)
    n = 400
    even = lambda: rng.random((n, n)) * (rng.random((n, n)) < 0.02)
    x, y = (even() if spread == "even" else power_law((n, n), 0.02, rng) for _ in "ab")
    steps = []
    plain = sampled_sparse_products.walked

    def counted(three, walk, dtype):
        steps.append(sampled_sparse_products.chosen(three)[0])
        return plain(three, walk, dtype)

    monkeypatch.setattr(sampled_sparse_products, "walked", counted)
    a, b = held(x, "csr", True), held(y, "csr", True)
    v, w = a.values(), b.values()
    out = iv.ops.F.from_values(v, pattern=a._value.pattern) @ iv.ops.F.from_values(
        w, pattern=b._value.pattern
    )
    found = grad(out, [v, w], grad_outputs=out.detach())
    assert steps == [terms(x != 0, y != 0, (1, 0))] * 2
    g = x @ y
    for got, pattern, full in zip(found, (a, b), (g @ y.T, x.T @ g), strict=True):
        np.testing.assert_allclose(
            got.numpy(), full[tuple(pattern._value.pattern.coordinates)], rtol=1e-9, atol=1e-9
        )
