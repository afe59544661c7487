"""Products and solves with sparse matrices by every way they may take: the values are those of dense arrays,
the terms that are reported those that stored entries have, and the way is the one that its size pays for."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

import iverson as iv
from iverson.errors import DensifyWarning, LinearAlgebraError, ShapeError
from iverson.explain import count
from iverson.kernels.sparse import sampled_sparse_products, sparse_loops, sparse_products
from iverson.layouts import CooPattern, coalesced, to_strided
from tests.conformance.product import paired
from tests.sparse.common import LAYOUTS, checked, held, holds

F = iv.ops.F
A, B = holds((4, 6)), np.random.default_rng(1).standard_normal((6, 9))
DTYPES = [
    ("float64", "float64"),
    ("float32", "float32"),
    ("float32", "float64"),
    ("float64", "float32"),
    ("complex64", "float64"),
    ("int64", "int64"),
    ("int32", "float64"),
    ("bool", "bool"),
]


def as_dtype(x, dtype):
    return np.round(4 * x).astype(dtype) if np.dtype(dtype).kind in "ib" else x.astype(dtype)


def close(found, expected, dtype=None):
    dtype = expected.dtype if dtype is None else dtype
    assert found.dtype == dtype
    tolerance = 1e-5 if np.dtype(dtype).char in "fF" else 1e-12
    np.testing.assert_allclose(checked(found), expected, rtol=tolerance, atol=tolerance)


@pytest.fixture
def compiled(monkeypatch):
    """Notes which compiled loops run."""
    ran = []
    for name in ("rows_times_matrix", "products_at_entries"):
        plain = getattr(sparse_loops, name)
        monkeypatch.setattr(
            sparse_loops, name, lambda *a, plain=plain, name=name: ran.append(name) or plain(*a)
        )
    return ran


@pytest.mark.parametrize("worthwhile", [0, 1 << 40])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_with_a_dense_matrix(layout, worthwhile, monkeypatch, compiled):
    """Rows are walked by compiled loops where that pays; columns are turned into rows the second time."""
    monkeypatch.setattr(sparse_loops, "WORTHWHILE", worthwhile)
    for (p, q), width in itertools.product(DTYPES, (1, 7, 8)):
        a, b = as_dtype(A, p), as_dtype(B[:, :width], q)
        pays = not worthwhile and p == q and a.dtype.kind == "f" and width > 1
        for f, expected in ((lambda s, b: s @ b, a @ b), (lambda s, b: b.T @ s.T, (a @ b).T)):
            s = held(a, layout)  # of which nothing is known yet
            for turns in (layout != "csc", layout != "csc" or width >= 8):
                compiled.clear()
                with count() as work:
                    close(f(s, iv.asarray(b)), expected)
                assert work.sparse_multiply_adds == s._value.pattern.count * width
                assert compiled == ["rows_times_matrix"] * (pays and turns)
    box = F.embed(iv.asarray(B[1:4]), key=(slice(1, 4, 1), slice(0, 9, 1)), shape=(6, 9))
    close(held(A, layout) @ box, A[:, 1:4] @ B[1:4])
    close(box.T @ held(A.T, layout), B[1:4].T @ A.T[1:4])


def repeated(x):
    """An array in COO that stores two halves of each entry."""
    rows, columns = x.nonzero()
    half = (x / 2 if x.dtype.kind in "fc" else x // 2).astype(x.dtype)
    entries = np.concatenate(
        [half[rows, columns], (x ^ half if x.dtype == bool else x - half)[rows, columns]]
    )
    return iv.sparse_coo_tensor([[*rows, *rows], [*columns, *columns]], entries, x.shape)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_with_a_sparse_matrix(layout):
    for (p, q), other in itertools.product(DTYPES, [*LAYOUTS, "repeats"]):
        a, b = as_dtype(A, p), as_dtype(holds((6, 3), seed=3), q)
        s, t = held(a, layout), held(b, other) if other in LAYOUTS else repeated(b)
        with count() as work:
            found = s @ t
        close(found, a @ b)
        patterns = [coalesced(x._value).pattern for x in (s, t)]
        stored = [to_strided(p.value(np.ones(p.count))) for p in patterns]
        assert work.sparse_multiply_adds == stored[0].sum(axis=0) @ stored[1].sum(axis=1)


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64"])
def test_terms_that_cancel_leave_a_zero_stored(dtype):
    """Which entries a product stores follows from patterns, not from what is stored."""
    a, b = np.array([[1, 1, 0], [0, 1, 2], [0, 0, 0]]), np.array([[3, 0, 1], [-3, 0, 1], [0, 4, 0]])
    s, t = (held(x.astype(dtype), "csr") for x in (a, b))
    found = s @ t
    close(found, (a @ b).astype(dtype))
    at = (np.abs(a) @ np.abs(b)).nonzero()
    np.testing.assert_array_equal(found._value.pattern.coordinates, at)
    np.testing.assert_array_equal(found._value.entries, (a @ b)[at])


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_columns_that_meet_no_row_cost_nothing(layout):
    """Of a contracted axis of far more columns than entries, work follows the entries."""
    n, rng = 1 << 20, np.random.default_rng(0)
    at = np.array([5, 99, 1000, n - 1])
    few = [iv.sparse_coo_tensor([[0, 1, 1, 2], at], rng.standard_normal(4), (3, n))]
    for rows in (at[[0, 1, 3]], at[:1], at[:0], np.array([6, 7])):
        columns = np.arange(rows.size) % 2
        few.append(iv.sparse_coo_tensor([rows, columns], rng.standard_normal(rows.size), (n, 2)))
    s, *others = few
    dense = [to_strided(x._value) for x in few]
    for t, b in zip(others, dense[1:], strict=True):
        if layout == "coo":
            tracemalloc.start()
            found = s @ t
            assert tracemalloc.get_traced_memory()[1] < n
            tracemalloc.stop()
        else:
            found = s.to_layout(layout) @ t.to_layout(layout)
        close(found, dense[0] @ b)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_patterns_of_products(layout):
    """What a product may store, in CSR; found once for two patterns."""
    b = holds((6, 3), seed=3)
    p, q = (held(x, layout)._value.pattern for x in (A, b))
    found = sparse_products.product_pattern(p, q)
    assert found.layout == "csr"
    assert found is sparse_products.product_pattern(p, q)
    product, one, other = (to_strided(x.value(np.ones(x.count))) for x in (found, p, q))
    np.testing.assert_array_equal(product != 0, one @ other != 0)


def test_rows_of_numbers_stay_stored():
    """A matrix that stores some rows, whole: times a matrix it stores these rows of the product."""
    rows, rng = np.array([[1, 3, 1]]), np.random.default_rng(0)
    s = iv.sparse_coo_tensor(rows, rng.standard_normal((3, 6)), (4, 6))
    dense = s.to_dense().numpy()
    for b in (B, B.astype("float32")):
        with count() as work:
            found = s @ iv.asarray(b)
        close(found, dense @ b)
        assert found.layout == "coo"
        assert found._value.pattern is s._value.pattern
        assert work.sparse_multiply_adds == 3 * 6 * 9
    for left in (rng.standard_normal((2, 4)), rng.standard_normal((5, 2, 4))):
        with count() as work:
            close(iv.asarray(left) @ s, left @ dense)
        assert work.sparse_multiply_adds == 2 * left.size // 4 * 6
    cubes = iv.sparse_coo_tensor(rows, rng.standard_normal((3, 2, 6)), (4, 2, 6))
    close(cubes @ iv.asarray(B), cubes.to_dense().numpy() @ B)
    assert (cubes @ iv.asarray(B))._value.pattern is cubes._value.pattern
    batch = rng.standard_normal((3, 6, 2))
    close(s @ iv.asarray(batch), dense @ batch)
    right = rng.standard_normal((4, 3, 2))
    close(iv.asarray(right) @ cubes, right @ cubes.to_dense().numpy())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shapes_that_do_not_fit(layout):
    s = held(A, layout)
    batch = held(np.stack([A, A, A, A]), layout)
    for a, b in (
        (s, A),
        (A, s),
        (s, s),
        (batch, np.ones((4, 5, 2))),
        (batch, batch),
        (batch, np.ones((3, 6, 2))),
    ):
        with pytest.raises(ShapeError, match="matmul"):
            iv.asarray(a) @ iv.asarray(b)


@pytest.mark.parametrize(
    ("layout", "worthwhile", "chunk"),
    [
        (layout, *sizes)
        for layout, sizes in paired(
            [*LAYOUTS, "repeats"], itertools.product([0, 1 << 40], [1, 7, 1 << 16]), 2
        )
    ],
)
def test_sampled_at_a_pattern(layout, worthwhile, chunk, monkeypatch, compiled):
    """Of dense and sparse factors in every mixture, also of patterns that ask for an entry twice."""
    monkeypatch.setattr(sparse_loops, "WORTHWHILE", worthwhile)
    monkeypatch.setattr(sampled_sparse_products, "WORTHWHILE", 1 << 40)
    monkeypatch.setattr(sparse_products, "_CHUNK", chunk)
    if layout == "repeats":
        pattern = CooPattern((4, 8), np.array([[3, 0, 3, 2, 0], [7, 1, 7, 0, 2]]))
    else:
        pattern = held(holds((4, 8), seed=5), layout)._value.pattern
    rows, columns = pattern.coordinates
    b = holds((6, 8), seed=7)
    for p, q in (
        ("float64", "float64"),
        ("float32", "float32"),
        ("float64", "complex64"),
        ("int64", "int64"),
    ):
        x, y = as_dtype(A, p), as_dtype(b, q)
        expected = (x @ y)[rows, columns].reshape(pattern.stored_shape)
        stored_x, stored_y = (np.asarray(v != 0, int) for v in (x, y))
        ways = {
            "dense": (x, y, pattern.count * 6),
            "sparse first": (held(x, "csc"), y, stored_x.sum(axis=1)[rows].sum()),
            "sparse second": (x, held(y, "coo"), stored_y.sum(axis=0)[columns].sum()),
            "one entry": (x[:, :1], y[:1], pattern.count),
        }
        for name, (first, second, terms) in ways.items():
            compiled.clear()
            with count() as work:
                found = F.sampled_product(iv.asarray(first), iv.asarray(second), pattern=pattern)
            full = (
                expected if name != "one entry" else (x[:, :1] @ y[:1])[rows, columns].reshape(expected.shape)
            )
            close(found, full)
            assert work.sparse_multiply_adds == terms
            pays = not worthwhile and p == q and p[0] == "f" and name in ("dense", "one entry")
            assert compiled == ["products_at_entries"] * (pays and layout != "repeats")
        for other in ("csr", "coo"):
            with count() as work:
                close(F.sampled_product(held(x, "csr"), held(y, other), pattern=pattern), expected)
            terms = stored_x.sum(axis=0) * stored_y.sum(axis=1)
            assert work.sparse_multiply_adds <= terms.sum()
            assert chunk < 8 or work.sparse_multiply_adds == terms.sum()
        row = CooPattern((1, 8), np.array([[0, 0], [7, 2]]))
        found = F.sampled_product(held(x[:1], "csr"), held(y, "csr"), pattern=row)
        close(found, (x[:1] @ y)[0, [7, 2]])
    nothing = held(np.zeros((4, 6)), "csr")
    assert not F.sampled_product(nothing, held(b, "csr"), pattern=pattern).to_dense().numpy().any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_sampled_at_a_pattern(layout):
    """Of dense and sparse factors, of a batch each and of one matrix for all."""
    rng = np.random.default_rng(0)
    a, b = (np.where(rng.random(s) < 0.5, rng.standard_normal(s), 0) for s in ((2, 4, 6), (2, 6, 8)))
    blocks = (2, 2) if layout[0] == "b" else None
    at = iv.asarray((rng.random((2, 4, 8)) < 0.4).astype(float)).to_layout(layout, blocksize=blocks)
    pattern = at._value.pattern
    for x, y in ((a, b), (a, b[:1]), (a[:1], b), (a, b[0]), (a[0], b)):
        expected = (x @ y)[tuple(pattern.coordinates)].reshape(pattern.stored_shape)
        for first, second in itertools.product(*((iv.asarray(v), held_as(v, "csr")) for v in (x, y))):
            close(F.sampled_product(first, second, pattern=pattern), expected)


def held_as(x, layout):
    return iv.asarray(x).to_layout(layout)


@pytest.mark.parametrize("layout", [*LAYOUTS, "strided"])
def test_solves(layout):
    """Of matrices and right hand sides of every layout; and where there is nothing to solve."""
    a = holds((5, 5)) + 3 * np.eye(5)
    right = holds((5, 2), seed=2)
    given = held(a, layout) if layout != "strided" else iv.asarray(a)
    for other in ("strided", *LAYOUTS):
        b = held(right, other) if other != "strided" else iv.asarray(right)
        close(iv.linalg.solve(given, b), np.linalg.solve(a, right))
        for lower in (False, True):
            triangle = np.tril(a) if lower else np.triu(a)
            close(iv.solve_triangular(given, b, lower=lower), np.linalg.solve(triangle, right))
        for of in (np.tril, np.triu):  # a triangle, or the other one: the diagonal alone
            part = held(of(a), layout) if layout != "strided" else iv.asarray(of(a))
            close(iv.solve_triangular(part, b), np.linalg.solve(np.tril(of(a)), right))
    for empty in (np.zeros((5, 0)), np.zeros((5, 0), "float32")):
        for solve in (iv.linalg.solve, iv.solve_triangular):
            close(solve(given, empty), np.zeros((5, 0)))
    none = held(np.zeros((0, 0)), layout) if layout in ("coo", "csr", "csc") else iv.zeros((0, 0))
    for solve in (iv.linalg.solve, iv.solve_triangular):
        close(solve(none, np.zeros((0, 3))), np.zeros((0, 3)))


@pytest.mark.parametrize(("layout", "dtype"), paired(LAYOUTS, ["float64", "float32", "complex128", "int64"]))
def test_signs_and_logs_of_determinants(layout, dtype):
    """Of rows and columns in every order of four, where transposes share factors, of batches, of nothing."""
    whole = as_dtype(holds((4, 4), seed=5) + 3 * np.eye(4), dtype)
    if dtype == "complex128":
        whole = whole * np.exp(1j * np.arange(4))
    for order in itertools.permutations(range(4)):
        a = whole[list(order)]
        for x in (a, a.T, a.conj().T):
            _same_slogdet(held(x, layout), x)
    s, x = held(whole, layout), np.stack([whole, whole.T, 0 * whole])
    for turned in (s, s.mT, iv.conj(s.mT), s):
        _same_slogdet(turned, np.asarray(turned.to_dense()))
    with pytest.warns(DensifyWarning, match="slogdet"):
        _same_slogdet(held(x, layout), x)
    if layout in ("coo", "csr", "csc"):
        _same_slogdet(held(whole[:0, :0], layout), whole[:0, :0])


def _same_slogdet(s, a):
    sign, log = iv.linalg.slogdet(s)
    for found, expected in zip((sign, log), np.linalg.slogdet(a), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", [*LAYOUTS, "strided"])
def test_triangles_of_batches_and_of_zeros_on_the_diagonal(layout):
    rng = np.random.default_rng(0)
    for shape in ((2, 3, 3), (7, 3, 3), (2, 4, 2, 2)):  # few large ones, and many small ones
        a, b = rng.standard_normal(shape) + 3 * np.eye(shape[-1]), rng.standard_normal((*shape[:-1], 1))
        if layout != "strided":  # there are no sparse solves of a batch
            given = iv.asarray(a).to_layout(layout if layout[0] == "c" else "csr")
            with pytest.warns(DensifyWarning, match="solve_triangular"):
                close(iv.solve_triangular(given, b), np.linalg.solve(np.tril(a), b))
            continue
        for lower in (False, True):
            triangle = np.tril(a) if lower else np.triu(a)
            close(iv.solve_triangular(iv.asarray(a), b, lower=lower), np.linalg.solve(triangle, b))
    singular = np.diag([2.0, 0.0])
    given = held(singular, layout) if layout != "strided" else iv.asarray(singular)
    with pytest.raises(LinearAlgebraError, match="diagonal" if layout != "strided" else "entry 1;"):
        F.solve_triangular(given, iv.ones((2, 1)), lower=True, check=True)
    with np.errstate(all="ignore"):
        found = F.solve_triangular(given, iv.ones((2, 1)), lower=True, check=False)
    np.testing.assert_array_equal(found.numpy(), [[0.5], [np.inf]])


def test_the_first_product_on_coordinates_sorts_nothing():
    """Entries are taken as they are stored, repeats too; the second product makes rows of them."""
    rows, columns = np.array([[2, 0, 2, 0], [1, 2, 1, 0]])
    dense = np.zeros((3, 3))
    np.add.at(dense, (rows, columns), [1.0, 2.0, 3.0, 4.0])
    for b in (np.arange(3.0)[:, None], np.arange(6.0).reshape(3, 2)):
        pattern = CooPattern((3, 3), np.stack([rows, columns]))
        s = iv.ops.F.from_values(np.array([1.0, 2.0, 3.0, 4.0]), pattern=pattern)
        for known in (set(), {"sorted", "coalescing"}):
            np.testing.assert_array_equal((s @ b).numpy(), dense @ b)
            assert known <= set(pattern._facts)
            assert known or not {"sorted", "coalescing"} & set(pattern._facts)
        pattern = CooPattern((3, 3), np.array([[2, 0], [1, 2]]), True)
        s = iv.ops.F.from_values(np.array([1.0, 2.0]), pattern=pattern)
        assert (s.to_layout("csr") @ b).shape == (s @ b).shape
        assert "multiplied" not in pattern._facts  # there are rows already
