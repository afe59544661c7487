"""One factorisation per value of a sparse matrix: counted; and what `factorized` gives, against NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import grad
from iverson.core.errors import ArgumentTypeError, LinearAlgebraError, ShapeError
from iverson.linalg import factorized
from iverson.ops import F
from iverson.testing import gradcheck, gradgradcheck
from tests.sparse.common import holds

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")


def matrix(n=6, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    a = holds((n, n)) + 4 * np.eye(n)
    a = a + 1j * rng.standard_normal((n, n)) * (a != 0) if dtype[0] == "c" else a
    return a.astype(dtype)


def sparse(a, layout):
    return iv.to_layout(iv.asarray(a), layout, blocksize=(2, 2) if layout[0] == "b" else None)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_one_factorisation_serves_solves_and_gradients(layout, dtype):
    """Twice the same matrix, on another value with the same entries too, and backward to second order."""
    a, rng = matrix(dtype=dtype), np.random.default_rng(1)
    s = sparse(a, layout)
    v = s.values().requires_grad_()
    b = iv.asarray(rng.standard_normal((6, 2)).astype(dtype), requires_grad=True)
    with iv.explain.count() as work:
        x = iv.spsolve(F.from_values(v, pattern=s._value.pattern), b)
        again = iv.spsolve(s.with_values(iv.asarray(v.detach().numpy().copy())), b)
        first = grad(
            (x.conj() * x).real.sum() if dtype[0] == "c" else (x * x).sum(), [v, b], create_graph=True
        )
        grad(sum((abs(g) ** 2).sum() for g in first), [v, b])
    assert work.calls["solve"] > 4
    assert work.factorisations == 1
    np.testing.assert_array_equal(x.detach().numpy(), again.detach().numpy())
    np.testing.assert_allclose(x.detach().numpy(), np.linalg.solve(a, b.detach().numpy()), rtol=1e-10)


def test_other_values_are_factorised_anew():
    s = sparse(matrix(), "csr")
    b = np.ones(6)
    with iv.explain.count() as work:
        iv.spsolve(s, b)
        doubled = s.with_values(s.values() * 2)
        np.testing.assert_allclose(iv.spsolve(doubled, b).numpy(), iv.spsolve(s, b).numpy() / 2)
    assert work.factorisations == 3  # the pattern kept the last one only


def test_a_buffer_that_was_written_to_is_factorised_anew():
    values = matrix()[np.nonzero(matrix())]
    s = iv.sparse_coo_tensor(np.array(np.nonzero(matrix())), values.copy(), (6, 6))
    before = iv.spsolve(s, np.ones(6)).numpy()
    s._value.values[...] *= 2
    np.testing.assert_allclose(iv.spsolve(s, np.ones(6)).numpy(), before / 2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_factorized_solves_as_numpy(layout):
    rng = np.random.default_rng(2)
    for dtype, of_b in product(("float32", "float64", "complex128"), ("float64", "complex128")):
        a = matrix(dtype=dtype)
        with iv.explain.count() as work:
            solve = factorized(sparse(a, layout))
            for shape in ((6,), (6, 3), (2, 6, 1), (3, 2, 6, 2)):
                b = rng.standard_normal(shape).astype(of_b)
                for transposed in (False, True):
                    found = solve(b, transposed=transposed)
                    full = a.T if transposed else a
                    column = b[:, None] if b.ndim == 1 else b
                    expected = np.linalg.solve(full, column).reshape(shape)
                    assert found.dtype == np.result_type(dtype, of_b)
                    np.testing.assert_allclose(
                        found.numpy(), expected, rtol=1e-4 if dtype == "float32" else 1e-9
                    )
        assert work.factorisations == (2 if dtype == "float32" else 1)


def test_factors_that_are_held_outlive_others_on_their_pattern():
    s = sparse(matrix(), "csr")
    solve = factorized(s)
    with iv.explain.count() as work:
        iv.spsolve(s.with_values(s.values() * 2), np.ones(6))
        solve(np.ones(6)), iv.spsolve(s, np.ones(6))
    assert work.factorisations == 1


def test_factorized_differentiates():
    s = sparse(matrix(), "csr")
    pattern, rng = s._value.pattern, np.random.default_rng(3)
    v = s.values().requires_grad_()
    for shape in ((6,), (2, 6, 2)):
        b = iv.asarray(rng.standard_normal(shape), requires_grad=True)
        for transposed in (False, True):

            def f(v, b, transposed=transposed):
                return factorized(F.from_values(v, pattern=pattern))(b, transposed=transposed)

            assert gradcheck(f, (v, b))
            assert gradgradcheck(f, (v, b))


def test_batches_of_matrices():
    a = np.stack([matrix(), 2 * matrix()])
    solve = factorized(iv.asarray(a).to_layout("csr"))
    b = np.random.default_rng(0).standard_normal((2, 6, 3))
    np.testing.assert_allclose(solve(b).numpy(), np.linalg.solve(a, b))
    assert "Factorized((2, 6, 6)" in repr(solve)


@pytest.mark.parametrize(
    ("error", "says", "call"),
    [
        (
            LinearAlgebraError,
            "factorized: argument 'a'",
            lambda: factorized(sparse(np.diag([1.0, 0.0]), "csr")),
        ),
        (
            LinearAlgebraError,
            "solve: argument 'a'",
            lambda: iv.spsolve(sparse(np.diag([1.0, 0.0]), "csr"), np.ones(2)),
        ),
        (ShapeError, "square", lambda: factorized(sparse(np.ones((2, 3)), "csr"))),
        (ArgumentTypeError, "to_sparse", lambda: factorized(iv.eye(3))),
        (ShapeError, "argument 'b'", lambda: factorized(sparse(np.eye(2), "csr"))(np.ones(3))),
        (ShapeError, "argument 'b'", lambda: factorized(sparse(np.eye(2), "csr"))(1.0)),
    ],
)
def test_errors(error, says, call):
    with pytest.raises(error, match=says):
        call()
