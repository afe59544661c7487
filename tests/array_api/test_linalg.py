"""`iverson.linalg` against NumPy: systems, decompositions, norms; errors."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iverson as iv
from iverson import linalg
from iverson.autograd import grad
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    GradientError,
    LinearAlgebraError,
    ShapeError,
)
from iverson.ops import F
from tests.array_api.common import draw, dtypes_of, same

NUMERIC = ("int32", "float32", "float64", "complex64", "complex128")
FLOATING = dtypes_of("fc")


def square(dtype, *shape, seed=0):
    return (draw(shape, dtype, seed) + 4 * np.eye(shape[-1])).astype(dtype)


def hermitian(dtype, *shape):
    x = draw(shape, dtype)
    return (x + np.conj(np.swapaxes(x, -1, -2)) + np.diag(np.arange(shape[-1]) * 8)).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATING)
def test_systems(dtype):
    for shape in ((3, 3), (2, 3, 3), (1, 1), (0, 0), (0, 2, 2)):
        a = square(dtype, *shape)
        n = shape[-1]
        same(linalg.inv(a), np.linalg.inv(a), tolerance=1e-4 if dtype in ("float32", "complex64") else 1e-10)
        same(linalg.det(a), np.linalg.det(a), tolerance=1e-4 if dtype in ("float32", "complex64") else 1e-10)
        found = linalg.slogdet(a)
        same(tuple(found), tuple(np.linalg.slogdet(a)), tolerance=1e-5)
        assert found._fields == ("sign", "logabsdet")
        for b in (
            draw((n,), dtype),
            draw((n, 2), dtype),
            draw((2, n, 1), dtype) if shape[0] != 0 else draw((n, 2), dtype),
        ):
            same(linalg.solve(a, b), np.linalg.solve(a, b), tolerance=1e-4)
    same(linalg.inv(np.array([[2, 0], [0, 4]])), [[0.5, 0], [0, 0.25]])
    same(linalg.solve(np.array([[2, 0], [0, 4]]), np.array([2, 2], "float32")), [1, 0.5])


def rebuilt(found, x):
    np.testing.assert_allclose(
        found.numpy(), x, rtol=1e-4, atol=1e-4 if x.dtype in (np.float32, np.complex64) else 1e-10
    )
    assert found.dtype == x.dtype


@pytest.mark.parametrize("dtype", FLOATING)
def test_decompositions(dtype):
    real = np.zeros((), dtype).real.dtype
    for shape in ((3, 3), (2, 3, 3)):
        x = hermitian(dtype, *shape)
        w, v = linalg.eigh(x)
        assert w.dtype == linalg.eigvalsh(x).dtype == real
        same(w, np.linalg.eigvalsh(x), tolerance=1e-4)
        same(linalg.eigvalsh(iv.asarray(x, requires_grad=True)), np.linalg.eigvalsh(x), tolerance=1e-4)
        same(linalg.eigvalsh(x), np.linalg.eigvalsh(x), tolerance=1e-4)
        rebuilt((v * w[..., None, :]) @ iv.conj(v).mT, x)
        y = x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(3, dtype=dtype)
        lower = linalg.cholesky(y)
        same(lower, np.linalg.cholesky(y), tolerance=1e-3)
        same(
            linalg.cholesky(y, upper=True),
            np.conj(np.swapaxes(np.linalg.cholesky(y), -1, -2)),
            tolerance=1e-3,
        )
        z = square(dtype, *shape)
        w, v = linalg.eig(z)
        assert w.dtype == v.dtype == linalg.eigvals(z).dtype == np.result_type(dtype, "complex64")
        rebuilt(linalg.eig(z).eigenvectors * w[..., None, :], (z @ v.numpy()))
        same(linalg.eigvals(z), w.numpy())
    for shape in ((3, 3), (4, 2), (2, 2, 4), (0, 3)):
        x = draw(shape, dtype)
        u, s, vh = linalg.svd(x, full_matrices=False)
        same(s, np.linalg.svd(x, compute_uv=False), tolerance=1e-4)
        same(linalg.svdvals(x), np.linalg.svd(x, compute_uv=False), tolerance=1e-4)
        assert s.dtype == real
        rebuilt((u * s[..., None, :]) @ vh, x)
        full = linalg.svd(x)
        for a, b in zip(full, np.linalg.svd(x), strict=True):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
        q, r = linalg.qr(x)
        rebuilt(q @ r, x)
        for a, b in zip(linalg.qr(x, mode="complete"), np.linalg.qr(x, "complete"), strict=True):
            assert a.shape == b.shape
        rebuilt(linalg.qr(x, mode="complete").Q @ linalg.qr(x, mode="complete").R, x)
        same(
            linalg.pinv(x),
            np.linalg.pinv(x, rtol=None) if x.size else np.zeros((3, 0), dtype),
            tolerance=1e-3,
        )
    assert linalg.svd(np.ones((2, 2)))._fields == ("U", "S", "Vh")
    assert linalg.qr(np.ones((2, 2)))._fields == ("Q", "R")


def test_rank_and_power():
    x = np.array([[1.0, 2.0], [2.0, 4.0]])
    same(linalg.matrix_rank(x), np.int64(1))
    same(linalg.matrix_rank(np.stack([x, np.eye(2)])), [1, 2])
    same(linalg.matrix_rank(np.ones((3, 0))), np.int64(0))
    same(linalg.matrix_rank(np.eye(2) * [1, 1e-3], rtol=0.1), np.int64(1))
    two = np.stack([x, np.eye(2) * [1, 1e-3]])
    for rtol in (np.array([1e-9, 0.1]), np.array(1e-9)):
        same(linalg.matrix_rank(two, rtol=rtol), np.linalg.matrix_rank(two, rtol=rtol))
        same(linalg.pinv(two, rtol=rtol), np.linalg.pinv(two, rtol=rtol))
    same(linalg.pinv(x, rtol=1e-3), np.linalg.pinv(x, rtol=1e-3))
    for dtype in NUMERIC:
        x = square(dtype, 2, 3, 3)
        for n in (0, 1, 2, 5) if dtype == "int32" else (0, 1, 2, 5, -1, -3):
            expected = np.linalg.matrix_power(x, n)
            same(linalg.matrix_power(x, n), expected, tolerance=1e-3)
    same(linalg.matrix_power(np.eye(2, dtype=int) * 2, -1), np.eye(2) / 2)


@pytest.mark.parametrize("dtype", NUMERIC)
def test_trace_diagonal_cross(dtype):
    x = draw((2, 3, 4), dtype)
    wide = np.dtype("int64") if dtype == "int32" else np.dtype(dtype)
    for offset in (0, 1, -2):
        same(linalg.trace(x, offset=offset), np.trace(x, offset, -2, -1).astype(wide))
        same(linalg.diagonal(x, offset=offset), np.diagonal(x, offset, -2, -1))
    same(linalg.trace(x, dtype="complex128"), np.trace(x, 0, -2, -1, dtype="complex128"))
    same(linalg.matrix_transpose(x), np.swapaxes(x, 1, 2))
    a, b = draw((2, 3), dtype), draw((4, 1, 3), dtype, 1)
    same(linalg.cross(a, b), np.cross(a, b))
    same(linalg.cross(a.T, a.T[:, :1], axis=0), np.cross(a.T, a.T[:, :1], axis=0))
    same(linalg.outer(a[0], a[1]), np.outer(a[0], a[1]))
    same(linalg.vecdot(a, a), np.vecdot(a, a))
    same(linalg.tensordot(x, x, axes=((0, 1), (0, 1))), np.tensordot(x, x, ((0, 1), (0, 1))))


@pytest.mark.parametrize("dtype", NUMERIC)
@pytest.mark.parametrize("ord", [0, 1, 2, 3, 0.5, -1, -2, np.inf, -np.inf, 2.5])
def test_vector_norm(dtype, ord):
    x = draw((2, 3, 4), dtype)
    x[x == 0] = 1
    size = np.abs(x).astype(np.result_type(np.abs(x), "float32") if x.dtype.kind != "i" else float)
    if ord == 0:
        x[0, 0], size[0, 0] = 0, 0
    for axis in (None, 0, -1, (0, 2)):
        if ord == 0:
            expected = np.count_nonzero(size, axis)
        elif np.isinf(ord):
            expected = (np.max if ord > 0 else np.min)(size, axis)
        else:
            expected = np.sum(size**ord, axis) ** (1 / ord)
        expected = np.asarray(expected, size.dtype)
        same(linalg.vector_norm(x, axis=axis, ord=ord), expected, tolerance=1e-4)
        assert linalg.vector_norm(x, axis=axis, ord=ord, keepdims=True).ndim == 3
    same(linalg.norm(x[0, 1], ord=ord), linalg.vector_norm(x[0, 1], ord=ord).numpy())


@pytest.mark.parametrize("dtype", NUMERIC)
@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norm(dtype, ord):
    x = draw((2, 3, 4), dtype)
    for keepdims in (False, True):
        for axes, call in (((-2, -1), linalg.matrix_norm), ((0, -1), partial(linalg.norm, axis=(0, -1)))):
            expected = np.linalg.norm(x, ord, axes, keepdims)
            same(call(x, ord=ord, keepdims=keepdims), expected, tolerance=1e-4)


@pytest.mark.parametrize("dtype", NUMERIC)
def test_norm_without_order(dtype):
    x = draw((2, 3, 4), dtype)
    same(linalg.norm(x), np.asarray(np.linalg.norm(x)), tolerance=1e-4)
    for axis in (1, (0, 1)):
        same(linalg.norm(x, axis=axis), np.sqrt(np.sum(np.abs(x) ** 2.0, axis)), tolerance=1e-4)


def test_norms_of_nothing():
    same(linalg.vector_norm(np.zeros((0,))), 0.0)
    same(linalg.matrix_norm(np.zeros((0, 2)), ord="nuc"), 0.0)


@settings(max_examples=30, deadline=None)
@given(hnp.array_shapes(min_dims=2, max_dims=3, max_side=4), st.integers(0, 99))
def test_pinv_solves(shape, seed):
    x = draw(shape, seed=seed)
    p = linalg.pinv(x)
    np.testing.assert_allclose((iv.asarray(x) @ p @ x).numpy(), x, rtol=1e-6, atol=1e-6)


#: Functions of all singular values or eigenvalues alike have a derivative where values repeat, or are 0.
ALIKE = {
    "sum of squares": (lambda w: (w * w).sum(), lambda x: 2 * x),
    "trace": (lambda w: w.sum(), lambda x: np.eye(*x.shape)),
    "sum of cubes": (lambda w: (w**3).sum(), lambda x: 3 * x @ x),
}


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("values", [(2.0, 2.0, 2.0), (1.0, 1.0, 3.0), (0.0, 0.0, 5.0)])
def test_functions_of_repeated_values(name, values):
    function, derivative = ALIKE[name]
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    for basis in (np.eye(3), q):
        x = (basis * values) @ basis.T
        expected = derivative(x)
        direction = np.arange(9.0).reshape(3, 3)
        of_values = [linalg.eigvalsh, F.eigvalsh]
        if min(values) > 0 or name == "sum of squares":  # a sum of absolute values has a kink at 0
            of_values += [linalg.svdvals, F.svdvals]
        for spectrum in of_values:
            t = iv.asarray(x, requires_grad=True)
            np.testing.assert_allclose(grad(function(spectrum(t)), t).numpy(), expected, atol=1e-12)
            pushed = iv.jvp(lambda z, s=spectrum: function(s(z)), (iv.asarray(x),), (iv.asarray(direction),))[
                1
            ]
            np.testing.assert_allclose(pushed.numpy(), (expected * direction).sum(), atol=1e-10)


def of_single_columns(decompose, k, *shape):
    x = iv.asarray(draw(shape), requires_grad=True)
    return grad(decompose(x)[k].sum(), x)


def test_inf_and_nan_end_in_every_function_and_its_backward():
    """In a process of its own: where LAPACK does not end, no exception ends it either."""
    command = [sys.executable, "-m", "tests.array_api.hard_entries"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"does not end: {(error.stdout or b'').decode().splitlines()[-1:]}")
    assert done.returncode == 0, f"{done.stdout.splitlines()[-1:]}\n{done.stderr}"


ONE, TWO = np.ones(3), np.ones((2, 3))
ERRORS = [
    (lambda: linalg.inv(TWO), ShapeError, "inv.*square"),
    (lambda: linalg.inv(np.zeros((2, 2))), LinearAlgebraError, "inv.*Singular"),
    (lambda: linalg.det(ONE), ShapeError, "det.*square"),
    (lambda: linalg.slogdet(TWO), ShapeError, "slogdet.*square"),
    (lambda: linalg.solve(np.eye(2), ONE), ShapeError, "solve: argument 'x2'.*2 entries"),
    (lambda: linalg.solve(np.zeros((2, 2)), np.ones(2)), LinearAlgebraError, "solve.*Singular"),
    (lambda: linalg.cholesky(-np.eye(2)), LinearAlgebraError, "cholesky.*positive definite"),
    (lambda: linalg.eigh(TWO), ShapeError, "eigh.*square"),
    (lambda: linalg.eig(TWO), ShapeError, "eig.*square"),
    (lambda: linalg.svd(ONE), ShapeError, "svd.*two axes"),
    (lambda: of_single_columns(linalg.svd, 0, 4, 2), GradientError, "backward of svd.*the space they span"),
    (lambda: of_single_columns(linalg.svd, 2, 2, 4), GradientError, "backward of svd.*the space they span"),
    (
        lambda: of_single_columns(partial(linalg.qr, mode="complete"), 0, 4, 2),
        GradientError,
        "backward of qr.*the space they span",
    ),
    (lambda: linalg.qr(TWO, mode="r"), ArgumentError, "qr: argument 'mode'"),
    (lambda: linalg.pinv(ONE), ShapeError, "pinv"),
    (lambda: linalg.matrix_rank(ONE), ShapeError, "matrix_rank"),
    (lambda: linalg.matrix_power(TWO, 2), ShapeError, "matrix_power.*square"),
    (lambda: linalg.matrix_power(np.eye(2), 0.5), ArgumentTypeError, "an integer"),
    (lambda: linalg.trace(ONE), ShapeError, "two axes"),
    (lambda: linalg.cross(np.ones(2), np.ones(2)), ShapeError, "extent 3"),
    (lambda: linalg.vector_norm(ONE, ord="fro"), ArgumentError, "a real number"),
    (lambda: linalg.vector_norm(np.ones((0,)), ord=np.inf), ArgumentError, "entries"),
    (lambda: linalg.matrix_norm(TWO, ord=3), ArgumentError, "matrix_norm: argument 'ord'"),
    (lambda: linalg.matrix_norm(ONE), ShapeError, "two axes"),
    (lambda: linalg.norm(np.ones((2, 2, 2)), ord=2), ShapeError, "one axis or two"),
]


@pytest.mark.parametrize(("call", "kind", "words"), ERRORS)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
