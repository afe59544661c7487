"""Products, solves, segments and embeddings against SciPy and dense oracles."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import iverson as iv
from iverson.autograd import grad
from iverson.errors import LinearAlgebraError
from iverson.testing import gradcheck, gradgradcheck
from tests.sparse.common import LAYOUTS, checked, held, holds

ANY = ("strided", *LAYOUTS)


def operand(x, layout):
    return iv.asarray(x) if layout == "strided" else held(x, layout)


@pytest.mark.parametrize("of_b", ANY)
@pytest.mark.parametrize("of_a", ANY)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64", "bool"])
def test_every_pair_of_layouts(of_a, of_b, dtype):
    a, b = (np.round(4 * holds(shape, seed=k)).astype(dtype) for k, shape in enumerate([(4, 6), (6, 2)]))
    found = operand(a, of_a) @ operand(b, of_b)
    expected = (scipy.sparse.csr_array(a) @ scipy.sparse.csc_array(b)).toarray()
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_allclose(checked(found), expected, rtol=1e-6)
    assert (found.layout == "strided") == ("strided" in (of_a, of_b))


def dominant(n=5):
    return holds((n, n)) + 3 * np.eye(n)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_spsolve(layout):
    a, rng = dominant(), np.random.default_rng(0)
    for b in (rng.standard_normal(5), rng.standard_normal((5, 2))):
        found = iv.spsolve(held(a, layout), b)
        np.testing.assert_allclose(checked(found), np.linalg.solve(a, b), rtol=1e-12)
    s = held(a, layout)
    v, pattern = s.values().requires_grad_(), s._value.pattern
    t = iv.asarray(b, requires_grad=True)

    def f(v, b):
        return iv.spsolve(iv.ops.F.from_values(v, pattern=pattern), b)

    assert gradcheck(f, (v, t))
    assert gradgradcheck(f, (v, t))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("layout", ANY)
def test_triangular_solve(layout, lower):
    a, b = dominant(), np.random.default_rng(0).standard_normal((5, 2))
    triangle = np.tril(a) if lower else np.triu(a)
    for right in (b, b[:, 0]):
        found = iv.solve_triangular(operand(a, layout), right, lower=lower)
        np.testing.assert_allclose(checked(found), np.linalg.solve(triangle, right), rtol=1e-12)
    with pytest.raises(LinearAlgebraError, match="diagonal"):
        iv.solve_triangular(operand(np.diag([1.0, 0.0]), layout), iv.ones(2), lower=lower)


def test_a_singular_matrix_is_refused():
    with pytest.raises(LinearAlgebraError, match="solve"):
        iv.spsolve(held(np.diag([1.0, 0.0]), "csr"), iv.ones(2))


def test_the_gradient_of_a_solve_in_values_is_sampled():
    s = held(dominant(), "csr")
    v = s.values().requires_grad_()
    with iv.explain.count() as work:
        x = iv.spsolve(iv.ops.F.from_values(v, pattern=s._value.pattern), iv.ones(5))
        grad(x.sum(), v)
    assert work.calls["sampled_product"] == 1
    assert work.calls["solve"] == 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sampled_matmul(layout):
    rng = np.random.default_rng(1)
    a, b = (iv.asarray(rng.standard_normal(shape), requires_grad=True) for shape in ((4, 3), (3, 6)))
    mask = held(holds(), layout)
    found = iv.sampled_matmul(a, b, mask)
    assert found._value.pattern is mask._value.pattern
    full = a.detach().numpy() @ b.detach().numpy()
    np.testing.assert_allclose(checked(found.detach())[holds() != 0], full[holds() != 0], rtol=1e-12)
    assert gradcheck(lambda a, b: iv.sampled_matmul(a, b, mask).values(), (a, b))
    assert gradgradcheck(lambda a, b: iv.sampled_matmul(a, b, mask).values(), (a, b))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradcheck_perturbs_every_entry_of_a_sparse_input(layout):
    b = np.random.default_rng(1).standard_normal((6, 2))
    assert gradcheck(lambda s: (s * s) @ b, (held(holds(), layout, True),))


def test_embedding_has_a_gradient_of_rows():
    table = iv.asarray(np.arange(12.0).reshape(6, 2), requires_grad=True)
    ids = np.array([[1, 4], [1, -1]])
    rows = iv.embedding(ids, table)
    np.testing.assert_array_equal(rows.detach().numpy(), table.detach().numpy()[ids])
    g = grad((rows * rows).sum(), table)
    assert g.layout == "coo"
    assert g._value.entries.shape == (4, 2)
    expected = np.zeros((6, 2))
    np.add.at(expected, ids, 2 * table.detach().numpy()[ids])
    np.testing.assert_array_equal(checked(g), expected)
    np.testing.assert_array_equal(g.coalesce().indices().numpy(), [[1, 4, 5]])
    total = grad((rows * rows).sum() + iv.embedding(np.array([0]), table).sum(), table)
    assert total.layout == "coo"
    assert gradgradcheck(lambda t: iv.embedding(ids, t) ** 2, (table,))


def test_segments():
    x = iv.asarray(np.array([[1.0, 5.0], [2.0, 1.0], [4.0, -1.0]]), requires_grad=True)
    ids = np.array([2, 0, 2])
    np.testing.assert_array_equal(iv.segment_sum(x, ids).detach().numpy(), [[2, 1], [0, 0], [5, 4]])
    np.testing.assert_array_equal(
        iv.segment_max(x, ids, 4).detach().numpy(), [[2, 1], [-np.inf] * 2, [4, 5], [-np.inf] * 2]
    )
    y = iv.segment_softmax(x, ids).detach().numpy()
    np.testing.assert_allclose(y[[0, 2]].sum(0), 1)
    np.testing.assert_allclose(y[1], 1)
    for f in (iv.segment_sum, iv.segment_softmax):
        assert gradcheck(lambda x, f=f: f(x, ids), (x,))
        assert gradgradcheck(lambda x, f=f: f(x, ids), (x,))


def test_softmax_of_the_rows_of_a_sparse_matrix():
    s = held(holds(), "csr")
    pattern = s._value.pattern
    y = iv.segment_softmax(s.values(), pattern.lines, s.shape[0])
    z = iv.sparse_csr_tensor(s.indptr(), s.indices(), y, s.shape)
    occupied = (holds() != 0).any(axis=1)
    np.testing.assert_allclose(checked(z.sum(axis=1)), occupied)


def test_power_of_a_small_matrix_in_every_layout():
    """matmul(matmul(x, x), x) at [[0, 1], [2, 3]] with (0, 0) not stored: the derivative is the dense one."""
    x = np.arange(4.0).reshape(2, 2)
    dense = iv.asarray(x, requires_grad=True)
    w = np.array([[1.0, -2.0], [3.0, 0.5]])
    expected = grad((((dense @ dense) @ dense) * w).sum(), dense).numpy()
    for layout in LAYOUTS:
        s = iv.asarray(x).to_layout(layout, blocksize=(1, 1) if layout[0] == "b" else None).requires_grad_()
        assert s.nnz == 3
        found = grad(((s @ s) @ s * w).sum(), s)
        np.testing.assert_allclose(checked(found), expected)
        assert gradcheck(lambda s: (s @ s) @ s, (s,))


def test_a_masked_tensor_names_its_pattern():
    s = iv.sparse_csr_tensor([0, 1, 3], [1, 0, 2], [1.0, 0.0, 3.0])
    a, b = iv.asarray(np.arange(4.0).reshape(2, 2)), iv.asarray(np.arange(6.0).reshape(2, 3))
    for f in (lambda p: iv.sampled_matmul(a, b, p), lambda p: iv.sparse_mask(b, p)):
        ours, theirs = f(iv.masked_tensor(s)), f(s)
        assert ours._value.pattern is theirs._value.pattern is s._value.pattern
        np.testing.assert_array_equal(ours.to_dense().numpy(), theirs.to_dense().numpy())


def test_a_product_sampled_by_columns_moves_no_entry(monkeypatch):
    """It is the transposed product, sampled by rows: of a matrix by columns nothing is turned."""
    monkeypatch.setattr("iverson.kernels.sparse.sparse_loops.WORTHWHILE", 0)
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((5, 3)), rng.standard_normal((3, 7))
    pattern = iv.asarray(np.where(rng.random((5, 7)) < 0.5, 1.0, 0)).to_layout("csc")._value.pattern
    found = iv.ops.F.sampled_product(a, b, pattern=pattern).numpy()
    np.testing.assert_allclose(found, (a @ b)[tuple(pattern.coordinates)], rtol=1e-14)
    assert "turned" not in pattern._facts
    assert ("converted", "csr", None) not in pattern._facts
