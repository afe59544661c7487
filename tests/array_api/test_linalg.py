"""Linear algebra against NumPy: matmul and its kin, decompositions, norms; errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iverson as iv
from iverson import linalg
from iverson.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    GradientError,
    LinearAlgebraError,
    ShapeError,
)
from iverson.explain import count
from tests.array_api.common import draw, dtypes_of, same

COVERED = {"einsum", "matmul", "outer", "tensordot", "vecdot"}
COVERED_LINALG = {*linalg.__all__}
NUMERIC = ("int32", "float32", "float64", "complex64", "complex128")
FLOATING = dtypes_of("fc")


def square(dtype, *shape, seed=0):
    return (draw(shape, dtype, seed) + 4 * np.eye(shape[-1])).astype(dtype)


def hermitian(dtype, *shape):
    x = draw(shape, dtype)
    return (x + np.conj(np.swapaxes(x, -1, -2)) + np.diag(np.arange(shape[-1]) * 8)).astype(dtype)


@pytest.mark.parametrize("dtype", NUMERIC)
def test_matmul(dtype):
    for a, b in [((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((4, 2, 3), (3, 2)), ((5, 1, 2, 3), (4, 3, 2)),
                 ((2, 0), (0, 3)), ((0, 2), (2, 3)), ((4, 2, 3), (3,)), ((0, 2, 3), (3, 2))]:  # fmt: skip
        x, y = draw(a, dtype), draw(b, dtype, 1)
        for call in (
            iv.matmul,
            linalg.matmul,
            lambda p, q: iv.asarray(p) @ q,
            lambda p, q: iv.asarray(p).matmul(q),
        ):
            same(call(x, y), np.matmul(x, y))


@pytest.mark.parametrize("dtype", NUMERIC)
def test_tensordot(dtype):
    x, y = draw((2, 3, 4), dtype), draw((3, 4, 2), dtype, 1)
    for axes in (2, 1, 0) if x.shape[-1] == 4 else ():
        other = y if axes == 2 else draw((4, 2), dtype) if axes == 1 else draw((2,), dtype)
        first = np.swapaxes(x, 0, 0)
        if axes == 2:
            same(iv.tensordot(first, other, axes=2), np.tensordot(first, other, 2))
        else:
            same(iv.tensordot(first, other, axes=axes), np.tensordot(first, other, axes))
    for axes in (((1,), (0,)), ((1, 2), (0, 1)), ((-1, 0), (1, -1)), (0, 2)):
        same(iv.tensordot(x, y, axes=axes), np.tensordot(x, y, axes))
    same(iv.asarray(x).tensordot(y, axes=2), np.tensordot(x, y))


@pytest.mark.parametrize("dtype", NUMERIC)
def test_vecdot_and_outer(dtype):
    x, y = draw((2, 3), dtype), draw((4, 1, 3), dtype, 1)
    same(iv.vecdot(x, y), np.vecdot(x, y))
    same(iv.vecdot(x, x, axis=-2), np.vecdot(x, x, axis=-2))
    same(iv.vecdot(x, x, axis=0), np.vecdot(x, x, axis=0))
    same(iv.asarray(x).vecdot(x[0]), np.vecdot(x, x[0]))
    same(iv.outer(x[0], y[0, 0]), np.outer(x[0], y[0, 0]))
    assert iv.vecdot(np.ones((2, 0)), np.ones((2, 0))).shape == (2,)


SUBSCRIPTS = {
    "ij,jk->ik": [(2, 3), (3, 4)], "ij,jk": [(2, 3), (3, 4)], "ij->ji": [(2, 3)], "ba": [(2, 3)], "ii->i": [(3, 3)],
    "ii": [(3, 3)], "iij->j": [(2, 2, 3)], "i,i->": [(3,), (3,)], "i,j->ij": [(3,), (2,)], "ij,ij->ij": [(2, 3), (2, 3)],
    "ij,ij->": [(2, 3), (2, 3)], "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)], "bi,bi->b": [(2, 3), (2, 3)], "ij->": [(2, 3)],
    "ij,kl->": [(2, 3), (4, 2)], "...ij,...jk->...ik": [(5, 2, 3), (3, 4)], "...i->...": [(2, 3)], "i...,i...": [(2, 3), (2, 3)],
    "ij,jk,kl->il": [(2, 3), (3, 4), (4, 2)], "a,ab,b->": [(2,), (2, 3), (3,)], "ab,bc,cd,de->ae": [(2, 3), (3, 4), (4, 3), (3, 2)],
    "abc,cd,b->da": [(2, 3, 4), (4, 5), (3,)], "...a,...a->...": [(2, 1, 3), (4, 3)], "ij,j->ij": [(2, 3), (3,)],
    "ij,ij->i": [(2, 1), (2, 3)], "iji->j": [(2, 3, 2)], "ij,jj->i": [(2, 3), (3, 3)], "a,a,a->a": [(3,), (3,), (3,)],
    "->": [()], ",i->i": [(), (3,)], " i j , j k -> i k ": [(2, 3), (3, 4)], "ij,jk->ki": [(0, 3), (3, 2)], "ij,jk->ik ": [(2, 0), (0, 3)],
    "bqhd,bkhd->bhqk": [(2, 3, 2, 4), (2, 5, 2, 4)], "...,...": [(2, 3), (3,)], "aab,b": [(2, 2, 3), (3,)],
}  # fmt: skip


@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
def test_einsum(subscripts):
    for dtype in NUMERIC:
        xs = [draw(shape, dtype, k) for k, shape in enumerate(SUBSCRIPTS[subscripts])]
        same(iv.einsum(subscripts, *map(iv.asarray, xs)), np.einsum(subscripts, *xs))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_einsum(data):
    extents = {label: data.draw(st.integers(1, 3)) for label in "abcd"}
    terms = data.draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=4))
    used = sorted(set("".join(terms)))
    output = "".join(data.draw(st.permutations(used))[: data.draw(st.integers(0, len(used)))])
    subscripts = ",".join(terms) + "->" + output
    xs = [draw(tuple(extents[c] for c in term), seed=k) for k, term in enumerate(terms)]
    same(iv.einsum(subscripts, *xs), np.einsum(subscripts, *xs), tolerance=1e-9)


def test_einsum_takes_few_products():
    x, y = draw((4, 2, 3)), draw((4, 3, 5))
    with count() as work:
        iv.einsum("bij,bjk->bik", x, y)
    assert work.products == 4
    with count() as work:
        iv.einsum("bij,bjk->ik", x, y)
    assert work.products == 1
    with count() as work:
        iv.einsum("ij,kj->ik", draw((50, 2)), draw((60, 2)))
        iv.tensordot(draw((2, 3, 4)), draw((3, 4, 2)))
    assert work.products == 2
    with count() as work:
        iv.einsum("i,j->ij", draw((3,)), draw((2,)))
    assert work.products == 0


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
def test_norms(dtype):
    x = draw((2, 3, 4), dtype)
    for ord in (0, 1, 2, 3, 0.5, -1, -2, np.inf, -np.inf, 2.5):
        for axis in (None, 0, -1, (0, 2)):
            size = np.abs(x).astype(np.abs(x).dtype if np.abs(x).dtype.kind == "f" else float)
            axes = tuple(range(3)) if axis is None else axis
            if x.dtype.kind == "i" and ord < 0 and not size.all():
                size = size + 1
                x = np.where(x == 0, 1, x)
                size = np.abs(x).astype(float)
            expected = {
                0: lambda s=size, a=axes: np.sum(s != 0, a).astype(s.dtype),
                np.inf: lambda s=size, a=axes: np.max(s, a),
                -np.inf: lambda s=size, a=axes: np.min(s, a),
            }.get(ord, lambda s=size, a=axes, p=ord: np.sum(s**p, a) ** (1 / p))()
            same(linalg.vector_norm(x, axis=axis, ord=ord), expected, size.dtype, tolerance=1e-4)
            assert linalg.vector_norm(x, axis=axis, ord=ord, keepdims=True).ndim == 3
    for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        for keepdims in (False, True):
            expected = np.linalg.norm(x, ord, (-2, -1), keepdims).astype(size.dtype)
            same(linalg.matrix_norm(x, ord=ord, keepdims=keepdims), expected, tolerance=1e-4)
            expected = np.linalg.norm(x, ord, (0, -1), keepdims).astype(size.dtype)
            same(linalg.norm(x, ord=ord, axis=(0, -1), keepdims=keepdims), expected, tolerance=1e-4)
    same(linalg.norm(x), np.linalg.norm(x).astype(size.dtype), tolerance=1e-4)
    same(linalg.norm(x, axis=1), np.linalg.norm(x, axis=1).astype(size.dtype), tolerance=1e-4)
    same(linalg.norm(x[0, 0], ord=1), np.linalg.norm(x[0, 0], 1).astype(size.dtype), tolerance=1e-4)
    assert float(linalg.vector_norm(np.zeros((0,)))) == 0.0
    assert float(linalg.matrix_norm(np.zeros((0, 2)), ord="nuc")) == 0.0


@settings(max_examples=30, deadline=None)
@given(hnp.array_shapes(min_dims=2, max_dims=3, max_side=4), st.integers(0, 99))
def test_pinv_solves(shape, seed):
    x = draw(shape, seed=seed)
    p = linalg.pinv(x)
    np.testing.assert_allclose((iv.asarray(x) @ p @ x).numpy(), x, rtol=1e-6, atol=1e-6)


ONE, TWO = np.ones(3), np.ones((2, 3))
ERRORS = [
    (lambda: iv.matmul(TWO, TWO), ShapeError, r"matmul.*\(2, 3\) for a of shape \(2, 3\)"),
    (lambda: iv.matmul(TWO, 2.0), ShapeError, "rank 0"),
    (lambda: iv.matmul(TWO, [1.0]), ArgumentTypeError, "matmul: argument 'x2': got a list"),
    (lambda: iv.matmul(np.ones((2, 2, 3)), np.ones((3, 3, 2))), ShapeError, "matmul.*shapes"),
    (lambda: iv.tensordot(TWO, TWO, axes=3), ArgumentError, "at most 2 axes"),
    (lambda: iv.tensordot(TWO, TWO, axes=((0,), (1,))), ShapeError, "got extent 3 on axis 1; expected 2"),
    (lambda: iv.tensordot(TWO, TWO, axes=((0, 1), (1,))), ArgumentError, "as many axes"),
    (lambda: iv.tensordot(TWO, TWO, axes=((5,), (1,))), AxisError, "tensordot"),
    (lambda: iv.vecdot(TWO, np.ones(2)), ShapeError, "vecdot: argument 'x2'"),
    (lambda: iv.vecdot(TWO, ONE, axis=-2), AxisError, "vecdot"),
    (lambda: iv.outer(TWO, ONE), ShapeError, "outer: argument 'x1'"),
    (lambda: iv.einsum("ij,jk->ik", TWO), ArgumentError, "2 terms .*one for each of 1 operands"),
    (lambda: iv.einsum("ij", ONE), ArgumentError, "'ij' for an operand of rank 1"),
    (lambda: iv.einsum("i->ij", ONE), ArgumentError, "result 'ij'"),
    (lambda: iv.einsum("i->ii", ONE), ArgumentError, "at most once"),
    (lambda: iv.einsum("i1->i", TWO), ArgumentError, "letters and at most one ellipsis"),
    (lambda: iv.einsum("ij,jk->ik", TWO, TWO), ShapeError, r"operands\[1\].*extent 2 for label 'j'; expected 3"),
    (lambda: iv.einsum(TWO, "ij"), ArgumentError, "a string such as"),
    (lambda: iv.einsum("i,i", ONE, [1.0]), ArgumentTypeError, r"operands\[1\]"),
    (lambda: linalg.inv(TWO), ShapeError, "inv.*square"),
    (lambda: linalg.inv(np.zeros((2, 2))), LinearAlgebraError, "inv.*Singular"),
    (lambda: linalg.det(ONE), ShapeError, "det.*square"),
    (lambda: linalg.slogdet(TWO), ShapeError, "slogdet.*square"),
    (lambda: linalg.solve(np.eye(2), ONE), ShapeError, "solve: argument 'b'.*2 rows"),
    (lambda: linalg.solve(np.zeros((2, 2)), np.ones(2)), LinearAlgebraError, "solve.*Singular"),
    (lambda: linalg.cholesky(-np.eye(2)), LinearAlgebraError, "cholesky.*positive definite"),
    (lambda: linalg.eigh(TWO), ShapeError, "eigh.*square"),
    (lambda: linalg.eig(TWO), ShapeError, "eig.*square"),
    (lambda: linalg.svd(ONE), ShapeError, "svd.*two axes"),
    (lambda: linalg.svd(iv.ones((2, 3), requires_grad=True)), GradientError, "pass full_matrices=False"),
    (lambda: linalg.qr(iv.ones((3, 2), requires_grad=True), mode="complete"), GradientError, "mode='reduced'"),
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
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "words"), ERRORS)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
