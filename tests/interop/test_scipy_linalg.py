"""Linear algebra under SciPy's names: its values, and derivatives to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import iverson as iv
from iverson.errors import ArgumentError, ArgumentTypeError, GradientError, LinearAlgebraError, ShapeError
from iverson.interop.scipy import linalg
from iverson.testing import gradcheck, gradgradcheck
from tests.conformance.product import EXHAUSTIVE, some, turn, without_subsets

rng = np.random.default_rng(0)
A, B = rng.normal(size=(3, 3)) + 3 * np.eye(3), rng.normal(size=(2, 2)) + 2 * np.eye(2)
Q, V, W = rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=3)
P = A @ A.T
BANDS = rng.normal(size=(4, 5)) + 4 * (np.arange(4) == 2)[:, None]
HALF = np.array([[0, 0, 0.3, 0.2, 0.4], [0, 0.5, -0.7, 0.6, 0.1], [3, 4, 3.5, 5, 4.0]])
TALL = rng.normal(size=(5, 2))

#: By name, a function of the module `linalg` (ours or SciPy's) and of arrays.
CALLS: dict[str, Any] = {
    "cholesky": (lambda m, a: m.cholesky(a @ a.T), A),
    "cholesky lower": (lambda m, a: m.cholesky(a @ a.T, lower=True), A),
    "cho_solve": (lambda m, a, b: m.cho_solve(m.cho_factor(a @ a.T), b), A, Q),
    "cho_solve lower": (lambda m, a, b: m.cho_solve(m.cho_factor(a @ a.T, True), b), A, V),
    "lu_solve": (lambda m, a, b: m.lu_solve(m.lu_factor(a), b), A, Q),
    "lu_solve transposed": (lambda m, a, b: m.lu_solve(m.lu_factor(a), b, 1), A + 1j * A.T, Q + 0j),
    "lu_solve adjoint": (lambda m, a, b: m.lu_solve(m.lu_factor(a), b, 2), A + 1j * A.T, Q + 0j),
    "solve_triangular": (lambda m, a, b: m.solve_triangular(a, b), A, Q),
    "solve_triangular adjoint": (lambda m, a, b: m.solve_triangular(a, b, "C", True, True), A, V),
    "solve_toeplitz": (lambda m, c, r, b: m.solve_toeplitz((c, r), b), A[0] + [5, 0, 0], A[1], V),
    "toeplitz": (lambda m, c, r: m.toeplitz(c, r), V, A[0, :2]),
    "toeplitz hermitian": (lambda m, c: m.toeplitz(c), V + 1j * W),
    "circulant": (lambda m, c: m.circulant(c), V),
    "fractional_matrix_power": (lambda m, a: m.fractional_matrix_power(a @ a.T, 0.3), A),
    "fractional_matrix_power whole": (lambda m, a: m.fractional_matrix_power(a, -2), A),
    "polar": (lambda m, a: m.polar(a)[1], TALL),
    "polar unitary": (lambda m, a: m.polar(a)[0], TALL),
    "polar left": (lambda m, a: m.polar(a, "left")[1], TALL.T),
    "polar wide": (lambda m, a: m.polar(a)[0], TALL.T + 1j * TALL[::-1].T),
    "polar of a rotation": (lambda m, a: m.polar(a)[0], np.array([[0.6, -0.8], [0.8, 0.6]])),
    "solve_sylvester": (lambda m, a, b, q: m.solve_sylvester(a, b, q), A, B, Q),
    "solve_sylvester complex": (lambda m, a, b, q: m.solve_sylvester(a, b, q), A + 1j * A.T, B + 0j, Q + 0j),
    "solve_continuous_lyapunov": (lambda m, a, q: m.solve_continuous_lyapunov(a, q), A, P),
    "solve_discrete_lyapunov": (
        lambda m, a, q: m.solve_discrete_lyapunov(a, q), A / 9 + 0.1j * P / 9, P + 0j
    ),
    "hankel": (lambda m, c, r: m.hankel(c, r), V, Q.T[0]),
    "hankel square": (lambda m, c: m.hankel(c), V),
    "eigh": (lambda m, a: m.eigh(a)[0], A + 1j * A.T),
    "eigh vectors": (lambda m, a: abs(m.eigh(a, lower=False)[1]), A + 1j * A.T),
    "eigh of two": (lambda m, a, b: m.eigh(a, b @ b.T)[0], A, A.T),
    "eigh vectors of two": (lambda m, a, b: abs(m.eigh(a, b @ b.T)[1]), A, A.T),
    "eigvalsh": (lambda m, a, b: m.eigvalsh(a, b @ b.T, lower=False), A, A.T),
    "schur": (lambda m, a: m.schur(a)[0], P @ np.diag([1.0, 2.0, 5.0])),
    "schur unitary": (lambda m, a: m.schur(a)[1], P @ np.diag([1.0, 2.0, 5.0])),
    "schur sorted": (lambda m, a: m.schur(a, sort=lambda x, *y: x > 9)[0], P @ np.diag([1.0, 2.0, 5.0])),
    "schur of a real matrix": (lambda m, a: abs(m.schur(a, "complex")[0]), A - 4 * np.eye(3)[::-1]),
    "schur complex": (lambda m, a: abs(m.schur(a)[1]), A + 1j * A.T),
    "rq": (lambda m, a: m.rq(a)[0], A),
    "rq of rows": (lambda m, a: m.rq(a, mode="economic")[1], TALL.T + 1j * TALL[::-1].T),
    "signm": (lambda m, a: m.signm(a @ np.diag([1.0, -2.0, 3.0])), A),
    "svd": (lambda m, a: m.svd(a, compute_uv=False), TALL),
    "svd vectors": (lambda m, a: abs(m.svd(a, full_matrices=False)[0]), TALL),
    "qr": (lambda m, a: abs(m.qr(a, mode="r")[0][:2]), TALL),
    "qr economic": (lambda m, a: abs(m.qr(a, mode="economic")[0]), TALL),
    "lstsq": (lambda m, a, b: m.lstsq(a, b)[0], TALL, BANDS[0]),
    "solve_banded": (lambda m, ab, b: m.solve_banded((1, 2), ab, b), BANDS, BANDS[0]),
    "solve_banded matrix": (lambda m, ab, b: m.solve_banded((2, 1), ab, b), BANDS[::-1].copy(), BANDS.T),
    "solveh_banded": (lambda m, ab, b: m.solveh_banded(ab, b), HALF, BANDS[0]),
    "solveh_banded lower": (
        lambda m, ab, b: m.solveh_banded(ab, b, lower=True),
        (HALF + 1j * HALF * (np.arange(3) < 2)[:, None])[::-1, ::-1].copy(),
        BANDS[0] + 0j,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_values_are_scipys_and_derivatives_to_second_order(name: str) -> None:
    f, *given = CALLS[name]
    expected = f(scipy.linalg, *given)
    leaves = tuple(iv.asarray(x, requires_grad=True) for x in given)

    def ours(*xs: Any) -> Any:
        return f(linalg, *xs)

    np.testing.assert_allclose(ours(*leaves).detach().numpy(), expected, rtol=1e-11, atol=1e-12)
    which = turn(f"{name} derivatives", 4)  # first derivatives of half of them, second ones of a quarter
    if EXHAUSTIVE or which > 1:
        assert gradcheck(ours, leaves, **without_subsets(name))
    if EXHAUSTIVE or which == 1:
        assert gradgradcheck(ours, leaves, fast=True)
    *plain, last = (x.detach() for x in leaves)
    compiled = lambda: iv.jit(ours)(*plain, last)
    mapped = lambda: iv.vmap(lambda x: ours(*plain, x))(iv.stack([last, last * 1.1]))[0]
    for way in some(f"{name} ways", [compiled, mapped]):
        np.testing.assert_allclose(way().numpy(), expected, rtol=1e-11, atol=1e-12)


LOW = Q @ rng.normal(size=(2, 4))
SPACES: dict[str, Any] = {
    "null_space": (lambda m, a: m.null_space(a), LOW),
    "null_space complex": (lambda m, a: m.null_space(a), Q.T + 1j * rng.normal(size=(2, 3))),
    "orth": (lambda m, a: m.orth(a), TALL),
    "orth rcond": (lambda m, a: m.orth(a, 0.5), np.diag([4.0, 3.0, 1.0])[:, ::-1] @ np.diag([1, -1, 1.0])),
}


@pytest.mark.parametrize("name", SPACES)
def test_bases_are_scipys_and_move_as_little_as_they_can(name: str) -> None:
    f, a = SPACES[name]
    expected = f(scipy.linalg, a)
    x = iv.asarray(a)
    found = f(linalg, x)
    np.testing.assert_allclose(
        found.numpy() @ found.numpy().conj().T, expected @ expected.conj().T, atol=1e-12
    )
    np.testing.assert_allclose(found.numpy().conj().T @ found.numpy(), np.eye(expected.shape[1]), atol=1e-12)

    # Along changes that keep the rank: of rows and of columns.
    left, right = (rng.normal(size=(n, n)) / 9 for n in a.shape)

    def moved(s: Any) -> Any:
        return (np.eye(len(left)) + s * left) @ a @ (np.eye(len(right)) + s * right)

    def projector(s: Any) -> Any:
        basis = f(linalg, moved(s))
        return basis @ iv.conj(basis).mT

    if "rcond" not in name:  # there the space is that of none of its neighbours
        s = iv.asarray(0.0, requires_grad=True)
        assert gradcheck(projector, (s,))
        assert gradgradcheck(projector, (s,))
    basis, tangent = iv.jvp(lambda s: f(linalg, moved(s)), (iv.asarray(0.0),), (iv.asarray(1.0),))
    np.testing.assert_allclose((iv.conj(basis).mT @ tangent).numpy(), 0, atol=1e-12)
    assert abs(tangent.numpy()).max() > 1e-3


def test_a_space_of_nothing() -> None:
    assert linalg.null_space(A).shape == (3, 0)
    assert linalg.orth(np.zeros((3, 2))).shape == (3, 0)
    np.testing.assert_allclose(abs(linalg.null_space(np.zeros((2, 2))).numpy()), np.eye(2))


def test_complex_eigenvalues_as_blocks() -> None:
    a = np.array([[1.0, 2, 0.3], [-2, 1, 0.1], [0.2, -0.1, 4]])
    w, v = scipy.linalg.eig(a)
    blocks, vectors = linalg.cdf2rdf(w, v)
    for found, expected in zip((blocks, vectors), scipy.linalg.cdf2rdf(w, v), strict=True):
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-13)
    np.testing.assert_allclose((a @ vectors.numpy()), (vectors @ blocks).numpy(), atol=1e-12)
    leaf = iv.asarray(a, requires_grad=True)
    assert gradcheck(lambda a: linalg.cdf2rdf(*linalg.eig(a))[0], (leaf,))
    assert gradgradcheck(lambda a: linalg.cdf2rdf(*linalg.eig(a))[0], (leaf,), fast=True)


def test_the_rest_are_those_of_iverson() -> None:
    for name in (
        "block_diag",
        "det",
        "eig",
        "eigvals",
        "norm",
        "inv",
        "logm",
        "lu",
        "pinv",
        "solve",
        "solve_circulant",
        "sqrtm",
        "svdvals",
    ):
        assert getattr(linalg, name) is getattr(iv.linalg, name)
    assert linalg.expm is iv.linalg.matrix_exp


def test_an_equation_of_matrices_costs_one_for_each_derivative(monkeypatch: Any) -> None:
    calls: list[int] = []
    theirs = scipy.linalg.solve_sylvester

    def counted(*xs: Any) -> Any:
        calls.append(1)
        return theirs(*xs)

    monkeypatch.setattr(scipy.linalg, "solve_sylvester", counted)
    leaves = [iv.asarray(x, requires_grad=True) for x in (A, B, Q)]
    loss = linalg.solve_sylvester(*leaves).sum()
    assert len(calls) == 1
    iv.autograd.grad(loss, leaves)
    assert len(calls) == 2  # the three gradients share it


TURN = np.array([[0.0, -1.0], [1.0, 0.0]])


def test_what_is_refused() -> None:
    wrong: Any = "up"
    for call, kind, match in (
        (lambda: linalg.solve_sylvester(A, B, Q.T), ShapeError, "solve_sylvester"),
        (lambda: linalg.solve_sylvester(Q, B, Q), ShapeError, "a square matrix"),
        (lambda: linalg.solve_sylvester(A, -A, A), LinearAlgebraError, "solve_sylvester"),
        (lambda: linalg.solve_banded((1, 1), BANDS, V), ShapeError, "3 rows"),
        (lambda: linalg.solve_banded((1, 2), BANDS, V), ShapeError, "5 rows"),
        (lambda: linalg.polar(A, wrong), ArgumentError, "side"),
        (lambda: linalg.cho_solve(wrong, V), ArgumentTypeError, "cho_factor"),
        (lambda: linalg.toeplitz(A), ShapeError, "a vector"),
        (lambda: linalg.cdf2rdf(V + 1j, A), ShapeError, "cdf2rdf: argument 'w'"),
        (lambda: linalg.qr(A, wrong), ArgumentError, "mode"),
        (lambda: linalg.eigh(A, -P), LinearAlgebraError, "cholesky"),
        (lambda: linalg.solve_triangular(A, V, 3), ArgumentError, "trans"),
        (lambda: linalg.schur(Q), ShapeError, "a square matrix"),
        (lambda: linalg.schur(A, wrong), ArgumentError, "output"),
        (lambda: iv.grad(lambda a: linalg.schur(a)[0].sum())(iv.eye(3)), GradientError, "equal eigenvalues"),
        (
            lambda: iv.jit(iv.grad(lambda a: linalg.schur(a)[0].sum()))(TURN),
            GradientError,
            'output="complex"',
        ),
    ):
        with pytest.raises(kind, match=match):
            call()
