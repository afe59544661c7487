"""Parts that are read of what is computed from stored entries: as of the whole, for the work of the part."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse

import iverson as iv
from iverson.graph.lowering.graph_lowering import Native
from iverson.layouts.pattern_symbols import capacity
from tests.conformance.product import by_turns, paired, some
from tests.graph.ways import interpreted

RNG = np.random.default_rng(8)
N = 40
S = scipy.sparse.random(N, N, density=0.2, random_state=3, format="csr")
X = RNG.normal(size=(N, N))
I, J = np.array([3, 0, 39, 7, 3]), np.array([5, 1, 12, 39, 5])

LAYOUTS = ("csr", "coo", "csc")

#: What is read of a matrix, and how many entries that is.
KEYS = {
    "rows": (np.s_[:2], 2 * N),
    "a row": (np.s_[3], N),
    "columns": (np.s_[:, 5:8], 3 * N),
    "steps back": (np.s_[9:1:-4, ::20], 4),
    "an entry": (np.s_[3, 4], 1),
    "entries": ((I, J), 5),
}
#: Computed from a sparse and a dense matrix.
VALUES = {
    "a product of entries": lambda s, x: (x * s).to_dense(),
    "a chain": lambda s, x: iv.sin(2 * s * x / 3).to_dense() * x,
    "by a row": lambda s, x: (s * x[0]).to_dense(),
    "a sum": lambda s, x: (s * x + iv.abs(s)).to_dense(),
    "a quotient": lambda s, x: (s / (x * x + 1)).to_dense(),
    "read twice": lambda s, x: sum(y[::step] for y in [(s * x).to_dense()] for step in (1, -1)),
}


def sparse(layout):
    return iv.from_scipy(S).to_layout(layout)


@pytest.mark.parametrize(("value", "key"), paired(VALUES, KEYS, 3))
def test_what_is_read_is_what_is_computed(value, key):
    layout = LAYOUTS[(list(VALUES).index(value) + list(KEYS).index(key)) % 3]
    s, x, (at, count) = sparse(layout), iv.asarray(X), KEYS[key]
    f = lambda s, x: VALUES[value](s, x)[at]
    expected = f(s, x).to_dense().numpy()
    constant = lambda x: f(s, x)
    for g, args in some(value + key, [(f, (s, x)), (constant, (x,))]):
        compiled = iv.jit(g)
        np.testing.assert_allclose(compiled(*args).to_dense().numpy(), expected, rtol=1e-13)
        if value != "read twice":
            with iv.explain.count() as done:
                compiled(*args)
            assert sum(done.elementwise.values()) <= 8 * count
    for _, (after_a_pass,) in interpreted(f, [s, x]):
        np.testing.assert_allclose(after_a_pass.to_dense().numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lines_of_products_and_sums(layout):
    s, x = sparse(layout), iv.asarray(X)
    stored = [capacity(n) for n in np.count_nonzero(S.toarray(), axis=1)]  # of patterns that are not known
    cases = {
        "rows": (lambda s, x: (s @ x)[:2], sum(stored[:2]) * N),
        "a row": (lambda s, x: (s @ x)[1], stored[1] * N),
        "columns": (lambda s, x: (s @ x)[:, 3:5], 2 * capacity(S.nnz)),
        "rows of the other": (lambda s, x: (x @ s)[:2], 2 * capacity(S.nnz)),
        "sums of rows": (lambda s, x: (s * x).sum(axis=1)[:2], 0),
        "sums of columns": (lambda s, x: (s * x).sum(axis=0)[5], 0),
        "kept": (lambda s, x: (s * x).sum(axis=0, keepdims=True)[0, 2:9:3], 0),
    }
    for f, multiply_adds in cases.values():
        expected = f(s, x).to_dense().numpy()
        for g, args in ((f, (s, x)), (lambda x, f=f: f(s, x), (x,))):
            compiled = iv.jit(g)
            np.testing.assert_allclose(compiled(*args).to_dense().numpy(), expected, rtol=1e-12, atol=1e-14)
            with iv.explain.count() as done:
                compiled(*args)
            assert done.multiply_adds <= multiply_adds


def twice(s, x, i, j):
    y = s @ x
    return y[i, j] * y[j, i]


#: Reads of products at index arrays, and how many entries of the product these are.
READ_OF_PRODUCTS = {
    "entries": (lambda s, x, i, j: (s @ x)[i, j], 5),
    "entries of the other": (lambda s, x, i, j: (x @ s)[i, j], 5),
    "entries of a turned one": (lambda s, x, i, j: (s.T @ x)[-1 - i, j], 5),
    "rows": (lambda s, x, i, j: (s @ x)[i], 5 * N),
    "columns": (lambda s, x, i, j: (s @ x)[:, j], 5 * N),
    "rows of the other": (lambda s, x, i, j: (x @ s)[i], 5 * N),
    "columns of the other": (lambda s, x, i, j: (x @ s)[:, j], 5 * N),
    "entries, twice": (twice, 10),
}


@pytest.mark.parametrize("name", by_turns(READ_OF_PRODUCTS))
def test_entries_of_products_at_index_arrays(name):
    """Known and computed indices: the multiply-adds are those of what is read, reported and done; values and
    gradients; an index out of range is the error of an eager call."""
    f, count = READ_OF_PRODUCTS[name]
    most = count * max(np.count_nonzero(S.toarray(), axis=k).max() for k in (0, 1))
    x, i, j = iv.asarray(X), iv.asarray(I), iv.asarray(J)
    at_known = lambda s, x: f(s, x, I, J)
    gradients = iv.grad(lambda s, x: (f(s, x, i, j) ** 2).sum(), (0, 1))
    for layout in some(name, LAYOUTS):
        s = sparse(layout)
        expected = f(s, x, i, j).numpy()
        ways = [(f, (s, x, i, j)), (at_known, (s, x)), (partial(at_known, s), (x,))]
        for g, args in some(f"{name} ways", ways):
            compiled = iv.jit(g)
            np.testing.assert_allclose(compiled(*args).numpy(), expected, rtol=1e-12)
            assert iv.explain.report(g)(*args).done.multiply_adds <= most < S.nnz * N
            with iv.explain.count() as done:
                compiled(*args)
            assert done.multiply_adds <= most
            if args[0] is s:
                (entry,) = compiled._entries.values()
                assert all(isinstance(step, Native) for step in entry.compiled._program.steps)
        for a, b in zip(iv.jit(gradients)(s, x), gradients(s, x), strict=True):
            np.testing.assert_allclose(a.to_dense().numpy(), b.to_dense().numpy(), rtol=1e-11, atol=1e-13)
        for _, (after_a_pass,) in interpreted(f, [s, x, i, j]):
            np.testing.assert_allclose(after_a_pass.to_dense().numpy(), expected, rtol=1e-12)
    with pytest.raises(IndexError, match="index"):
        iv.jit(f)(s, x, i + N, j + N)


@pytest.mark.parametrize("at", [np.s_[:2], np.s_[3, 4], (I, J), np.s_[:, :9]])
def test_zeros_stay_strong(at):
    """What stands where a factor stores nothing is not multiplied: also where single entries are read."""
    x = np.where(S.toarray() != 0, X, np.inf)
    for f in (lambda s, x: (x * s).to_dense()[at], lambda s, x: (s / (x - x)).to_dense()[at]):
        with np.errstate(all="ignore"):
            expected = f(sparse("csr"), iv.asarray(x)).numpy()
            np.testing.assert_array_equal(iv.jit(f)(sparse("csr"), x).numpy(), expected)


def test_gradients_of_parts():
    """Of what is read, in both factors, to second order."""
    s, x = sparse("csr"), iv.asarray(X)
    for key, (at, _) in KEYS.items():
        f = lambda s, x, at=at: (iv.sin((x * s).to_dense()[at]) ** 2).sum()
        g = lambda s, x, f=f: (iv.grad(lambda x: f(s, x))(x) ** 2).sum()
        for h, k in some(key, [(f, 0), (g, 1), (f, 1), (g, 0)]):
            expected = iv.grad(h, argnums=k)(s, x).to_dense().numpy()
            found = iv.jit(iv.grad(h, argnums=k))(s, x).to_dense().numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
