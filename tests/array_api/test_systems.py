"""Systems with factors and structure, functions of matrices: against SciPy and NumPy; derivatives."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import linalg
from iverson.core.errors import ArgumentError, ArgumentTypeError, LinearAlgebraError, ShapeError
from iverson.testing import gradcheck, gradgradcheck
from tests.array_api.common import draw, dtypes_of, same
from tests.array_api.test_linalg import hermitian, square
from tests.conformance.product import EXHAUSTIVE, in_short, some, turn

FLOATING = dtypes_of("fc")
LOOSE = {"float32": 1e-3, "complex64": 1e-3}


def each(function, *arrays):
    """A function of one matrix, or of a matrix and columns, of each of a batch."""
    batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    arrays = [np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]
    return np.stack([function(*(a[k] for a in arrays)) for k in np.ndindex(batch)]).reshape(
        *batch, *arrays[-1].shape[-2:]
    )


@pytest.mark.parametrize("dtype", FLOATING)
def test_functions_of_matrices(dtype):
    tolerance = LOOSE.get(dtype, 1e-9)
    for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (2, 0, 0), (0, 2, 2)):
        x = square(dtype, *shape) / 4
        wide = x.astype(np.result_type(dtype, "float64"))
        for ours, theirs in (
            (linalg.matrix_exp, scipy.linalg.expm),
            (linalg.sqrtm, scipy.linalg.sqrtm),
            (linalg.logm, scipy.linalg.logm),
        ):
            expected = each(theirs, wide) if x.size else wide
            same(ours(x), expected.astype(dtype), tolerance=tolerance)
        if x.size:
            for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"):
                same(linalg.cond(x, p=p), np.real(np.linalg.cond(x, p)), tolerance=tolerance)
        same(linalg.logdet(x @ x), np.log(np.linalg.det(x @ x)).astype(dtype), tolerance=tolerance)
    same(linalg.cond(draw((2, 4, 3), dtype)), np.linalg.cond(draw((2, 4, 3), dtype)), tolerance=tolerance)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("p", [None, 2, -2, 1, -1, np.inf, -np.inf, "fro"])
def test_the_condition_of_a_singular_matrix_is_infinite(p):
    """Among others, in a trace and in a batch; its derivative is nan, those of the others are their own."""
    x = np.stack([np.ones((2, 2)), np.array([[2.0, 1.0], [0.0, 3.0]]), np.zeros((2, 2)), np.diag([2.0, 0.0])])
    which = slice(1, None) if p in (None, 2, -2) else slice(None)  # of ones, rounding has another rank
    wanted = np.linalg.cond(x[which], p)

    def cond(x):
        return linalg.cond(x, p=p)

    for way in (cond, iv.jit(cond), iv.vmap(cond)):
        same(way(iv.asarray(x[which])), wanted)
    slope = iv.grad(lambda x: cond(x).sum())(iv.asarray(x[which])).numpy()
    alone = iv.grad(cond)(iv.asarray(x[1])).numpy()
    np.testing.assert_allclose(slope[len(slope) - 3], alone, rtol=1e-14)
    assert np.isnan(slope[len(slope) - 2]).all()


def test_logarithms_of_determinants_without_a_real_one():
    x = np.stack([np.diag([1.0, -2.0]), np.zeros((2, 2)), np.diag([-1.0, -2.0])])
    same(linalg.logdet(x), [np.nan, -np.inf, np.log(2.0)])
    same(linalg.logdet(x[::2] + 0j), np.log(np.linalg.det(x[::2] + 0j)))


def test_a_function_of_a_real_matrix_is_real_or_an_error():
    turned = np.array([[0.0, -1.0], [1.0, 0.0]])  # eigenvalues i and -i
    same(linalg.sqrtm(turned), scipy.linalg.sqrtm(turned))
    same(linalg.logm(turned), [[0, -np.pi / 2], [np.pi / 2, 0]])
    for function, theirs in ((linalg.sqrtm, scipy.linalg.sqrtm), (linalg.logm, scipy.linalg.logm)):
        below = np.diag([-1.0, 4.0])
        with pytest.raises(LinearAlgebraError, match=rf"{function.__name__}.*is complex.*complex128"):
            function(below)
        same(function(below + 0j), theirs(below + 0j))
        with pytest.raises(LinearAlgebraError, match="singular"):
            function(np.array([[0.0, 1.0], [0.0, 0.0]]))


@pytest.mark.parametrize("dtype", FLOATING)
def test_lu(dtype):
    for shape in (
        (3, 3),
        (5, 2),
        (2, 5),
        (2, 4, 3),
        (2, 3, 4),
        (0, 3),
        (3, 0),
        (0, 2, 2),
        (2, 0, 3),
        (2, 0, 0),
    ):
        x = draw(shape, dtype)
        found, factors = linalg.lu(x), linalg.lu_factor(x)
        assert (factors.LU.shape, factors.permutation.shape) == (x.shape, x.shape[:-1])
        if x.ndim == 2 and x.size:
            same(factors.LU, scipy.linalg.lu_factor(x)[0].astype(dtype), tolerance=LOOSE.get(dtype))
        same(iv.triu(factors.LU)[..., : min(shape[-2:]), :], found.U)
        same(iv.take_along_axis(x, factors.permutation[..., None], axis=-2), (found.P.mT @ x))
        assert found._fields == ("P", "L", "U")
        for ours, theirs in zip(found, scipy.linalg.lu(x), strict=True):
            if x.size:
                same(ours, theirs.astype(dtype), tolerance=LOOSE.get(dtype))
        same(found.P @ found.L @ found.U, x, tolerance=LOOSE.get(dtype))
    for shape in ((3, 3), (2, 3, 3), (0, 0)):
        x = square(dtype, *shape)
        factors = linalg.lu_factor(x)
        if x.ndim == 2 and x.size:
            same(factors.LU, scipy.linalg.lu_factor(x)[0], tolerance=LOOSE.get(dtype))
        n = shape[-1]
        for b in (draw((n,), dtype), draw((n, 2), dtype), draw((2, n, 1), dtype), draw((4, 1, n, 2), dtype)):
            for adjoint in (False, True):
                a = np.conj(np.swapaxes(x, -1, -2)) if adjoint else x
                found = linalg.lu_solve(factors, b, adjoint=adjoint)
                same(found, np.linalg.solve(a, b), tolerance=LOOSE.get(dtype))


@pytest.mark.parametrize("dtype", FLOATING)
def test_triangular_systems(dtype):
    for shape in ((3, 3), (2, 3, 3)):
        a = square(dtype, *shape)
        b = draw((3, 2), dtype)
        for lower in (False, True):
            for unit in (False, True):
                t = (np.tril if lower else np.triu)(a)
                for k in range(3) if unit else ():
                    t[..., k, k] = 1
                turned = {"N": t, "T": np.swapaxes(t, -1, -2), "C": np.conj(np.swapaxes(t, -1, -2))}
                # A diagonal that is taken as 1 is not read.
                held = np.where(np.eye(3, dtype=bool), np.inf, a).astype(dtype) if unit else a
                for trans, of in turned.items():
                    options = {"lower": lower, "trans": trans, "unit_diagonal": unit}
                    found = linalg.solve_triangular(held, b, **options)
                    same(found, np.linalg.solve(of, b), tolerance=LOOSE.get(dtype))
                    if a.ndim == 2:
                        found = iv.solve_triangular(held, b[:, 0], **options)
                        same(found, np.linalg.solve(of, b[:, 0]), tolerance=LOOSE.get(dtype))
                    right = linalg.solve_triangular(held, np.swapaxes(b, 0, 1), left=False, **options)
                    same(right @ of, np.broadcast_to(b.T, right.shape), tolerance=LOOSE.get(dtype))
        x = hermitian(dtype, *shape) + 20 * np.eye(3, dtype=dtype)
        for upper in (False, True):
            factor = linalg.cholesky(x, upper=upper) + (np.tril if upper else np.triu)(
                np.ones((3, 3)), (-1) ** upper
            ).astype(dtype)
            for b in (draw((3,), dtype), draw((3, 2), dtype), draw((4, 1, 3, 1), dtype)):
                found = linalg.cholesky_solve(b, factor, upper=upper)
                same(found, np.linalg.solve(x, b), tolerance=LOOSE.get(dtype))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 5), st.integers(0, 99), st.booleans())
def test_least_squares(m, n, rank, seed, complex_):
    rng = np.random.default_rng(seed)
    rank = min(m, n, rank)
    dtype = "complex128" if complex_ else "float64"
    a = draw((m, rank), dtype, seed) @ draw((rank, n), dtype, seed + 1)
    b = rng.normal(size=(m, 2))
    found = linalg.lstsq(a, b, rtol=1e-10)
    x, _, of, s = np.linalg.lstsq(a, b, rcond=1e-10)
    np.testing.assert_allclose(found.solution.numpy(), x, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.residuals.numpy(), (abs(a @ x - b) ** 2).sum(axis=0), atol=1e-8)
    np.testing.assert_allclose(found.singular_values.numpy(), s, atol=1e-10)
    assert int(found.rank) == of
    same(linalg.lstsq(a, b[:, 0], rtol=1e-10).solution, found.solution[:, 0].numpy(), tolerance=1e-6)


def test_least_squares_are_as_exact_as_lapacks():
    """Where the solution is small next to that of a right-hand side of the same size in general."""
    a = np.vander(np.linspace(0, 1, 20), 9)
    x = np.ones(9)
    errors = [
        np.abs(f(a, a @ x)[0] - x).max()
        for f in (
            lambda a, b: (linalg.lstsq(a, b).solution.numpy(),),
            lambda a, b: np.linalg.lstsq(a, b, rcond=None),
        )
    ]
    assert errors[0] <= 10 * errors[1]


def test_tolerances():
    x = np.diag([4.0, 1.0, 1e-3]) + 0.0
    for options, kept in (
        ({}, 3),
        ({"atol": 0.1}, 2),
        ({"rtol": 0.5}, 1),
        ({"rtol": 0.5, "atol": 1e-9}, 1),
        ({"rtol": 1e-9, "atol": 2.0}, 1),
        ({"atol": 1.0}, 1),
    ):
        inverse = np.diag([0.25, 1.0, 1e3] * (np.arange(3) < kept))
        same(linalg.pinv(x, **options), inverse)
        same(linalg.matrix_rank(x, **options), np.int64(kept))
    two = np.stack([x, 2 * x])
    same(linalg.matrix_rank(two, atol=np.array([1.0, 1.0])), [1, 2])
    same(
        linalg.pinv(two, atol=np.array([1.0, 1.0])),
        np.stack([np.diag([0.25, 0, 0]), np.diag([0.125, 0.5, 0])]),
    )


@pytest.mark.parametrize("dtype", FLOATING)
def test_toeplitz_and_circulant_systems(dtype):
    tolerance = LOOSE.get(dtype, 1e-9)
    for n in (1, 2, 5):
        c, r = draw((n,), dtype), draw((n,), dtype, 1)
        c[0] += 4 * n
        for b in (draw((n,), dtype), draw((n, 2), dtype), draw((2, n, 2), dtype)):
            for row, matrix in ((None, scipy.linalg.toeplitz(c)), (r, scipy.linalg.toeplitz(c, r))):
                found = linalg.solve_toeplitz(c, b, r=row)
                same(found, np.linalg.solve(matrix, b).astype(dtype), tolerance=tolerance)
            expected = np.linalg.solve(scipy.linalg.circulant(c), b).astype(dtype)
            same(linalg.solve_circulant(c, b), expected, tolerance=tolerance)
        two, b = np.stack([c, c * 2]), draw((n, 2), dtype)
        for solve, make in (
            (linalg.solve_toeplitz, scipy.linalg.toeplitz),
            (linalg.solve_circulant, scipy.linalg.circulant),
        ):
            expected = np.stack([np.linalg.solve(make(k), b) for k in two]).astype(dtype)
            same(solve(two, b), expected, tolerance=tolerance)
    assert linalg.solve_toeplitz(np.ones(0), np.ones(0)).shape == (0,)


def test_products_and_blocks():
    xs = [draw(s, seed=k) for k, s in enumerate(((10, 30), (30, 5), (5, 60), (60, 2)))]
    for chain in (xs, xs[:2], [xs[0][0], *xs[1:]], [*xs[:3], xs[3][:, 0]], [xs[0][0], xs[1], xs[1][0]]):
        same(linalg.multi_dot(chain), np.linalg.multi_dot(chain))
    with iv.explain.count() as work:
        linalg.multi_dot(xs)
    assert work.multiply_adds == 30 * 5 * 10 - 30 * 5 * 10 + 5 * 60 * 2 + 30 * 5 * 2 + 10 * 30 * 2
    blocks = [draw((2, 3)), draw((1, 0)), draw((2,)), 7, draw((3, 1), "complex128")]
    same(linalg.block_diag(*blocks), scipy.linalg.block_diag(*blocks))
    sparse = linalg.block_diag(*(iv.to_layout(iv.asarray(b), "csr") for b in (blocks[0], blocks[4])))
    assert sparse.nnz == 9
    assert sparse.layout != "strided"
    same(sparse.to_dense(), scipy.linalg.block_diag(blocks[0], blocks[4]))


A, B = square("float64", 3, 3), draw((3, 2))
CASES = {
    "matrix_exp": (linalg.matrix_exp, A / 4),
    "sqrtm": (linalg.sqrtm, A),
    "logm": (linalg.logm, A + 0.5j * B[:, :1]),
    "cond": (linalg.cond, draw((4, 3))),
    "cond-1": (lambda x: linalg.cond(x, p=1), A),
    "logdet": (linalg.logdet, A + 0.5j * B[:, :1]),
    "multi_dot": (lambda a, b, c: linalg.multi_dot([a, b, c]), A, B, B[0]),
    "block_diag": (linalg.block_diag, A, B),
    "lstsq": (lambda a, b: linalg.lstsq(a, b)[:2], draw((4, 2)), draw((4, 2), seed=1)),
    "lstsq-wide": (lambda a, b: linalg.lstsq(a, b).solution, draw((2, 3)), draw((2,))),
    "lu": (lambda x: linalg.lu(x)[1:], draw((4, 3))),
    "lu-singular": (lambda x: linalg.lu(x)[1:], A * [1, 1, 0]),  # the last pivot is 0
    "lu-factor-wide": (lambda x: linalg.lu_factor(x).LU, draw((2, 3, 5))),
    "lu-factor-tall": (lambda x: linalg.lu_factor(x).LU, draw((4, 2)) + 1j * draw((4, 2), seed=1)),
    "lu-solve": (lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b), A, B),
    "lu-solve-adjoint": (
        lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, adjoint=True),
        A + 0.5j * B[:, :1],
        B + 0j,
    ),
    "cholesky_solve": (lambda a, b: linalg.cholesky_solve(b, a, upper=True), A, B),
    "solve_triangular": (
        lambda a, b: linalg.solve_triangular(a, b, trans="C", left=False, unit_diagonal=True),
        A + 0.5j * B[:, :1],
        B.T + 0j,
    ),
    "solve_toeplitz": (linalg.solve_toeplitz, np.array([5, 1 + 1j, 2j]), B + 0j),
    "solve_toeplitz-row": (lambda c, b, r: linalg.solve_toeplitz(c, b, r=r), A[0], B, A[1]),
    "solve_circulant": (linalg.solve_circulant, A[0], B[:, 0]),
    "pinv-atol": (lambda x, y: linalg.pinv(iv.outer(x, y), atol=1e-6), A[0], A[1]),
}


#: What is not the same to the bit in each call: LAPACK's sums follow how the memory that SciPy takes lies.
NOT_TO_THE_BIT = {"logm": 1e-14}


@pytest.mark.parametrize("name", CASES)
def test_derivatives_and_transforms(name):
    """To second order in both modes; compiled; and of a batch, as of its examples.

    Of every third the second order, and of each one way besides eager mode, by turns."""
    function, *arrays = CASES[name]
    leaves = tuple(iv.asarray(x, requires_grad=True) for x in arrays)
    apart = NOT_TO_THE_BIT.get(name, 0.0)
    assert gradcheck(function, leaves, nondet_tol=apart, **in_short(name))
    if EXHAUSTIVE or turn(name, 3) == 0:
        assert gradgradcheck(
            function, leaves, nondet_tol=apart, **{"fast": True} | in_short(f"{name} twice", 8)
        )
    plain = [iv.asarray(x) for x in arrays]

    def first(*xs):
        found = function(*xs)
        return found[0] if isinstance(found, tuple) else found

    def compiled():
        same(iv.jit(first)(*plain), first(*plain).numpy(), tolerance=1e-9)

    def mapped():
        found = iv.vmap(first)(*(iv.stack([x, x * 1.25]) for x in plain))
        same(found[1], first(*(x * 1.25 for x in plain)).numpy(), tolerance=1e-9)

    def gradient_compiled():
        gradient = iv.grad(lambda *xs: iv.sum(iv.abs(first(*xs)) ** 2), tuple(range(len(plain))))
        for found, other in zip(iv.jit(gradient)(*plain), gradient(*plain), strict=True):
            same(found, other.numpy(), tolerance=1e-8)

    for check in some(f"{name} ways", [compiled, mapped, gradient_compiled]):
        check()


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
def test_sparse_matrices(layout):
    a = np.where(np.abs(A) > 1, A, 0)
    for function in (
        linalg.matrix_exp,
        linalg.logdet,
        linalg.cond,
        lambda x: linalg.lu(x).U,
        lambda x: linalg.lstsq(x, B).solution,
        lambda x: linalg.solve_triangular(x, B, unit_diagonal=True, trans="T"),
        lambda x: linalg.multi_dot([x, x, B]),
        lambda x: linalg.block_diag(x, B),
    ):
        found, expected = [], []
        for results, x in ((found, iv.to_layout(iv.asarray(a), layout)), (expected, iv.asarray(a))):
            x = x.detach().requires_grad_()
            y = function(x)
            results += [y, iv.autograd.grad((y * y).sum(), x)]
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                f.detach().to_dense().numpy(), e.detach().to_dense().numpy(), rtol=1e-9, atol=1e-9
            )


ONE, TWO = np.ones(3), np.ones((2, 3))
ERRORS = [
    (lambda: linalg.matrix_exp(TWO), ShapeError, "matrix_exp.*square"),
    (lambda: linalg.sqrtm(ONE), ShapeError, "sqrtm.*square"),
    (lambda: linalg.logm(np.full((2, 2), np.inf)), LinearAlgebraError, "logm.*finite"),
    (lambda: linalg.logdet(TWO), ShapeError, "logdet.*square"),
    (lambda: linalg.cond(ONE), ShapeError, "cond.*two axes"),
    (lambda: linalg.cond(np.eye(2), p=3), ArgumentError, "cond: argument 'p'"),
    (lambda: linalg.cond(np.ones((0, 0))), ArgumentError, "cond.*entries"),
    (lambda: linalg.multi_dot([ONE]), ArgumentError, "multi_dot.*at least two"),
    (lambda: linalg.multi_dot([TWO, TWO]), ShapeError, r"multi_dot: argument 'arrays\[1\]'.*3 rows"),
    (lambda: linalg.multi_dot([TWO, ONE, ONE]), ShapeError, r"multi_dot: argument 'arrays\[1\]'.*a matrix"),
    (lambda: linalg.block_diag(np.ones((1, 1, 1))), ShapeError, "block_diag.*a matrix"),
    (linalg.block_diag, ArgumentError, "block_diag.*at least one"),
    (lambda: linalg.lu(ONE), ShapeError, "lu.*two axes"),
    (lambda: linalg.lu_factor(ONE), ShapeError, "lu_factor.*two axes"),
    (lambda: linalg.lu_solve(linalg.lu_factor(TWO), ONE), ShapeError, "lu_solve.*square"),
    (lambda: linalg.lu_solve(TWO, ONE), ArgumentTypeError, "lu_solve: argument 'factors'.*lu_factor"),
    (lambda: linalg.lu_solve((TWO, ONE), ONE), ShapeError, "lu_solve: argument 'factors'.*square"),
    (lambda: linalg.lu_solve((np.eye(3), np.arange(2)), ONE), ShapeError, "lu_solve.*permutation"),
    (lambda: linalg.lu_solve(linalg.lu_factor(np.eye(2)), ONE), ShapeError, "lu_solve"),
    (
        lambda: linalg.lu_solve(linalg.lu_factor(np.zeros((2, 2))), np.ones(2)),
        LinearAlgebraError,
        "lu_solve: argument 'factors'",
    ),
    (lambda: linalg.cholesky_solve(ONE, TWO), ShapeError, "cholesky_solve: argument 'factor'.*square"),
    (lambda: linalg.solve_triangular(np.eye(3), ONE, left=False), ShapeError, "solve_triangular.*left"),
    (lambda: linalg.solve_triangular(np.eye(3), ONE, trans="H"), ArgumentError, "solve_triangular.*trans"),
    (lambda: linalg.lstsq(ONE, ONE), ShapeError, "lstsq: argument 'a'.*two axes"),
    (lambda: linalg.lstsq(TWO, ONE), ShapeError, "lstsq: argument 'b'.*2 rows"),
    (
        lambda: linalg.lstsq(np.full((2, 2), np.nan), np.ones(2)),
        LinearAlgebraError,
        "lstsq: argument 'a'.*finite",
    ),
    (lambda: linalg.solve_toeplitz(ONE, TWO), ShapeError, "solve_toeplitz: argument 'b'.*3 rows"),
    (lambda: linalg.solve_toeplitz(ONE, ONE, r=TWO), ShapeError, "solve_toeplitz: argument 'r'"),
    (
        lambda: linalg.solve_toeplitz(np.zeros(2), np.ones(2)),
        LinearAlgebraError,
        "solve_toeplitz.*[Ss]ingular",
    ),
    (lambda: linalg.solve_circulant(ONE, TWO), ShapeError, "solve_circulant"),
]


@pytest.mark.parametrize(("call", "kind", "words"), ERRORS)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_exchanges_of_rows_are_no_order_of_them():
    """What SciPy's lu_factor gives is refused: it would be read as another matrix."""
    a = np.array([[0.0, 1.0, 2.0], [3.0, 1.0, 0.0], [1.0, 5.0, 1.0]])
    with pytest.raises(ArgumentError, match=r"lu_solve.*\[1, 2, 2\].*each number of a row once"):
        linalg.lu_solve(scipy.linalg.lu_factor(a), np.ones(3))
    same(linalg.lu_solve(linalg.lu_factor(a), np.ones(3)), np.linalg.solve(a, np.ones(3)))
