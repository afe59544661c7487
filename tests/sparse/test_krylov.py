"""Krylov methods: solutions, eigenpairs and their derivatives are those of full matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import grad
from iverson.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConvergenceWarning,
    DTypeError,
    GradientError,
    LinearAlgebraError,
    ShapeError,
)
from iverson.linalg import LinearOperator, bicgstab, cg, eigsh, factorized, gmres, lobpcg, minres
from tests.sparse.common import holds

N = 8
METHODS = {"bicgstab": bicgstab, "cg": cg, "gmres": gmres, "minres": minres}
TIGHT = {"rtol": 1e-14}
rng = np.random.default_rng(0)
HALF = holds((N, N)) * rng.standard_normal((N, N))
#: Symmetric and positive definite: what every method takes.
MATRIX = HALF + HALF.T + 8 * np.eye(N)
B = rng.standard_normal((N, 2))


def sparse(layout: str = "csr") -> Any:
    return iv.to_layout(iv.asarray(MATRIX), layout, blocksize=(2, 2) if layout[0] == "b" else None)


def weighed(found: Any) -> Any:
    return (found * found).sum() + found.sum()


def both_orders(f: Any, inputs: list[Any]) -> list[Any]:
    first = grad(weighed(f(*inputs)), inputs, create_graph=True)
    return [*first, *grad(sum((g * g).sum() for g in first), inputs)]


def assert_as(found: list[Any], expected: list[Any]) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("m", [None, "jacobi", "ilu"])
def test_a_solution_has_the_derivatives_of_the_direct_one(name: str, m: str | None) -> None:
    """In the stored values alone: neither the full matrix nor its inverse is made."""
    method = METHODS[name]
    layout = {None: "coo", "jacobi": "csr", "ilu": "bsc"}[m]
    s = sparse(layout)
    v, b = s.values().detach().requires_grad_(), iv.asarray(B, requires_grad=True)
    M = None if m == "ilu" and name == "minres" else m
    found = both_orders(lambda v, b: method(s.with_values(v), b, M=M, **TIGHT), [v, b])
    assert_as(found, both_orders(lambda v, b: iv.spsolve(s.with_values(v), b), [v, b]))


@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"minres"}))
@pytest.mark.parametrize("m", [None, "jacobi", "ilu"])
def test_a_real_matrix_and_complex_numbers(name: str, m: str | None) -> None:
    """Each part is solved for."""
    a, b = iv.to_layout(iv.asarray(MATRIX), "csr"), B[:, 0]
    found, real = (METHODS[name](a, iv.asarray(x), M=m, **TIGHT).numpy() for x in (b * (2.0 - 1.0j), b))
    np.testing.assert_allclose(found, real * (2.0 - 1.0j), rtol=1e-8)


def operator(a: Any) -> LinearOperator:
    return LinearOperator(lambda x: a @ x, (N, N))


@pytest.mark.parametrize("name", METHODS)
def test_functions_of_vectors_are_matrices(name: str) -> None:
    """An operator's solution, its derivatives of two orders in both modes, and what else speeds it up."""
    method = METHODS[name]
    a, b = (iv.asarray(x, requires_grad=True) for x in (MATRIX, B[:, 0]))
    expected = both_orders(iv.linalg.solve, [a, b])
    assert_as(both_orders(lambda a, b: method(operator(a), b, **TIGHT), [a, b]), expected)
    turn = iv.asarray(rng.standard_normal((N, N)))
    tangents = [
        iv.jvp(f, (a.detach(),), (turn,))[1]
        for f in (lambda a: method(operator(a), B, **TIGHT), lambda a: iv.linalg.solve(a, B))
    ]
    assert_as(tangents[:1], tangents[1:])
    near = iv.asarray(np.diag(1 / np.diag(MATRIX)))
    for M in (near, operator(near), lambda v: near @ v, factorized(sparse())):
        found = method(operator(a.detach()), b, np.ones(N), M=M, **TIGHT)
        np.testing.assert_allclose(found.detach(), np.linalg.solve(MATRIX, B[:, 0]), rtol=1e-10)


def test_nothing_of_the_size_of_the_full_matrix_is_made() -> None:
    n = 5000
    at = np.arange(n)
    places = np.concatenate([[at, at], [at[1:], at[:-1]], [at[:-1], at[1:]]], axis=1)
    values = np.concatenate([[9.0], np.full(n - 1, 4.0), np.full(2 * n - 2, -1.0)])
    s = iv.sparse_coo_tensor(places, values, (n, n)).to_layout("csr")
    v = s.values().detach().requires_grad_()
    with iv.explain.count() as work:
        (of_solution,) = grad(cg(s.with_values(v), iv.ones(n), M="jacobi").sum(), [v])
        (of_value,) = grad(eigsh(s.with_values(v), 1, which="LA").eigenvalues.sum(), [v])
    assert of_solution.shape == of_value.shape == v.shape
    assert sum(work.bytes.values()) < 200 * n * 8
    np.testing.assert_allclose(of_value[0], 0.96, rtol=1e-8)  # v decays by 5 from entry to entry: 1 - 5^-2


@pytest.mark.parametrize("held", ["csr", "strided", "operator"])
@pytest.mark.parametrize("which", ["LA", "SA", "LM"])
def test_eigenpairs_have_the_derivatives_of_the_full_decomposition(held: str, which: str) -> None:
    values = iv.asarray(HALF, requires_grad=True)

    def function(x: Any, find: Any) -> Any:
        w, v = find((x + x.mT) / 2 + iv.asarray(np.diag(np.arange(N) * 2.0)))
        return iv.concat([w, (v @ v.mT).reshape(-1)])

    def full(a: Any) -> Any:
        w, v = iv.linalg.eigh(a)
        far = np.argsort({"LA": 1, "SA": -1, "LM": 1}[which] * np.asarray(w.detach()))
        at = np.sort(np.argsort(abs(w.detach().numpy()))[-1:] if which == "LM" else far[-1:])
        return iv.take(w, iv.asarray(at), axis=0), iv.take(v, iv.asarray(at), axis=1)

    def few(a: Any) -> Any:
        if held == "operator":
            return eigsh(operator(a), 1, which=which)
        return eigsh(a.to_layout("csr") if held == "csr" else a, 1, which=which)

    found = both_orders(lambda x: function(x, few), [values])
    assert_as(found, both_orders(lambda x: function(x, full), [values]))


def test_lobpcg_finds_what_eigsh_does() -> None:
    for largest in (True, False):
        found = lobpcg(sparse(), 1, largest=largest)
        w, v = eigsh(sparse(), 1, which="LA" if largest else "SA")
        np.testing.assert_allclose(found.eigenvalues, w, rtol=1e-8)
        np.testing.assert_allclose(abs(found.eigenvectors), abs(v), atol=1e-5)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_the_determinant_of_a_sparse_matrix(layout: str) -> None:
    """By the factors that serve solves; its gradient is computed where it is read alone."""
    a = rng.standard_normal((N, N)) * holds((N, N)) + 3 * np.eye(N)[::-1]
    s = iv.asarray(a).to_layout(layout)
    v = s.values().detach().requires_grad_()
    x = iv.asarray(a, requires_grad=True)
    with iv.explain.count() as work:
        sign, log = iv.linalg.slogdet(s.with_values(v))
        (first,) = grad(log, [v], create_graph=True)
    assert work.factorisations == 1
    (second,) = grad((first * first).sum(), [v])
    np.testing.assert_allclose([sign.item(), log.item()], np.linalg.slogdet(a))
    (whole,) = grad(iv.linalg.slogdet(x).logabsdet, [x], create_graph=True)
    at = (
        s.coalesce().to_layout("coo").indices().numpy()
        if layout != "csc"
        else np.array(np.nonzero(a.T))[::-1]
    )
    np.testing.assert_allclose(first.detach(), whole.detach().numpy()[tuple(at)], rtol=1e-10)
    read = iv.take(whole.reshape(-1), iv.asarray(at[0] * N + at[1]), axis=0)
    (expected,) = grad((read * read).sum(), [x])
    np.testing.assert_allclose(second, expected.numpy()[tuple(at)], rtol=1e-9)


def test_what_is_refused() -> None:
    s, b = sparse(), iv.asarray(B[:, 0])
    singular = iv.asarray(np.diag([0.0, 1.0, 2.0]))
    for error, pattern, call in (
        (ShapeError, "square", lambda: cg(iv.ones((2, 3)), iv.ones(2))),
        (ShapeError, r"cg: argument 'b'", lambda: cg(s, iv.ones(3))),
        (ShapeError, r"'M'", lambda: cg(s, b, M=iv.ones((3, 3)))),
        (ShapeError, "two extents", lambda: LinearOperator(lambda v: v, (3,))),
        (ShapeError, "matvec", lambda: LinearOperator(lambda v: v[:1], (2, 2)) @ iv.ones(2)),
        (ArgumentError, "jacobi", lambda: cg(s, b, M="multigrid")),
        (ArgumentError, "no entries", lambda: cg(operator(s), b, M="ilu")),
        (ArgumentError, "tolerance", lambda: cg(s, b, rtol=-1.0)),
        (ArgumentError, "from 1 to 8", lambda: eigsh(s, 9)),
        (ArgumentTypeError, "'M'", lambda: cg(s, b, M=3)),
        (DTypeError, "gmres", lambda: minres(s * (1 + 0j), b)),
        (GradientError, "x0", lambda: cg(s, b, iv.ones(N, requires_grad=True))),
        (LinearAlgebraError, "zeros", lambda: cg(singular, iv.ones(3), M="jacobi")),
    ):
        with pytest.raises(error, match=pattern):
            call()
    with pytest.warns(ConvergenceWarning, match="stopped where the residual"):
        gmres(s, b, maxiter=1, restart=1)


def test_masked_arguments_are_refused_by_name():
    """A preconditioner, a first guess, and the right side of an operator, are numbers."""
    matrix, ones = iv.eye(3, layout="csr"), iv.ones(3)
    masked = iv.masked_tensor(ones, [True, True, False])
    operator = iv.linalg.LinearOperator(lambda v: 2 * v, (3, 3))
    for argument, call in {
        "b": lambda: iv.linalg.cg(operator, masked),
        "x0": lambda: iv.linalg.cg(matrix, ones, masked),
        "M": lambda: iv.linalg.cg(matrix, ones, M=iv.masked_tensor(iv.eye(3), np.eye(3) > 0)),
    }.items():
        with pytest.raises(iv.errors.ArgumentTypeError, match=rf"^cg: argument '{argument}': got a MaskedT"):
            call()


@pytest.mark.parametrize("name", METHODS)
def test_complex_numbers_meet_real_ones(name):
    """A preconditioner does not change the dtype of a solution; a matrix that is complex does."""
    method, b, inverse = METHODS[name], iv.asarray(B[:, 0]), iv.linalg.inv(iv.asarray(MATRIX))
    held = iv.asarray(MATRIX)
    systems = {"csr": sparse(), "strided": held, "operator": operator(held)}
    for a in systems.values():
        for m in (inverse * (1 + 0.1j), lambda v: (1 + 0.1j) * v):
            with pytest.raises(
                DTypeError, match=rf"^{name}: argument 'M': got one that gives vectors of dtype c"
            ):
                method(a, b, M=m)
    if name != "minres":
        turned = held + 0.1j * (iv.triu(held) - iv.tril(held))
        expected = np.linalg.solve(turned.numpy(), B[:, 0])
        for a in (
            turned,
            turned.to_layout("csr"),
            LinearOperator(lambda v: turned @ v, (N, N), "complex128"),
        ):
            for m in (None, inverse, inverse * (1 + 0j)):
                np.testing.assert_allclose(method(a, b, M=m, **TIGHT).numpy(), expected, rtol=1e-10)
