"""Options that other libraries' functions have: values at hard points, in half precision, malformed calls."""

from __future__ import annotations

import warnings
from typing import get_args

import mpmath as mp
import numpy as np
import pytest

import iverson as iv
from iverson import nn
from iverson.autograd import grad
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    DTypeError,
    IndexingError,
    ShapeError,
)
from iverson.handles.typing import QuantileMethod
from iverson.testing import gradcheck
from tests.array_api.common import draw, same
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns

HARD = np.array([-np.inf, -1e200, -1e10, -40.5, -30.0, -6.0, -1e-300, 0.0, 0.3, 6.0, 50.0, 1e200, np.inf])


def by_mpmath(function, x):
    """The function, its first and second derivative at numbers."""
    with mp.workdps(400):
        found = [[float(d) for d in mp.taylor(function, mp.mpf(float(v)), 2)] for v in x]
    return np.array(found).T * [[1], [1], [2]]


def derivatives(function, x):
    v = iv.asarray(x, requires_grad=True)
    y = function(v)
    (first,) = grad(y.sum(), [v], create_graph=True)
    return [y.detach().numpy(), first.detach().numpy(), grad(first.sum(), v).to_dense().numpy()]


def test_gelu_by_tanh():
    def exact(x):
        return x * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))) / 2

    x = HARD[4:-2]
    for found, expected in zip(
        derivatives(lambda v: iv.gelu(v, approximate="tanh"), x), by_mpmath(exact, x), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=2e-12, atol=1e-280)
    for found, expected in zip(
        derivatives(lambda v: iv.gelu(v, approximate="tanh"), HARD),
        (np.maximum(HARD, 0), HARD > 0, 0 * HARD[2]),
        strict=True,
    ):
        far = np.abs(HARD) > 40
        np.testing.assert_array_equal(found[far], np.broadcast_to(expected, HARD.shape)[far])


@pytest.mark.parametrize("beta", [2.0, -0.5])
def test_softplus_by_beta(beta):
    for found, expected in zip(
        derivatives(lambda v: iv.softplus(v, beta), HARD[4:-2]),
        by_mpmath(lambda x: mp.log1p(mp.exp(beta * x)) / beta, HARD[4:-2]),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-300)
    linear = beta * HARD > 1
    for found, expected in zip(
        derivatives(lambda v: nn.softplus(v, beta, threshold=1.0), HARD), (HARD, 1, 0), strict=True
    ):
        np.testing.assert_array_equal(found[linear], np.broadcast_to(expected, HARD.shape)[linear])
    same(iv.softplus(np.zeros((0, 2)), beta, 1.0), np.zeros((0, 2)))


def test_options_in_half_precision():
    """A composition of ops rounds once."""
    x = draw((200,), low=-6.0, high=6.0).astype(np.float16)
    for function in (
        lambda v: iv.gelu(v, approximate="tanh"),
        lambda v: iv.softplus(v, 3.0, threshold=2.0),
    ):
        exact = function(x.astype(np.float32)).numpy()
        np.testing.assert_array_equal(function(x).numpy(), exact.astype(np.float16))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_options_of_masked_tensors():
    """Unspecified entries take no part; slices that stay do what they do alone."""
    x, there = draw((3, 4)), draw((3, 4), seed=1) > -1
    m = iv.masked_tensor(np.where(there, x, np.nan), there)
    for function in (lambda v: iv.gelu(v, approximate="tanh"), lambda v: iv.softplus(v, 3.0, threshold=0.5)):
        np.testing.assert_array_equal(
            function(m).to_tensor(0.0).numpy(), np.where(there, function(x).numpy(), 0)
        )


METHODS = get_args(QuantileMethod)


def numpys(name, *args, **options):
    """NumPy's quantile; between a number and an infinity it has 0 * inf."""
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return getattr(np, name)(*args, **options)


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_quantiles(method):
    """Every place of every method, ties, nan and infinities included, on lines of 1 to 17 entries."""
    rng = np.random.default_rng(0)
    for n in (*range(1, 7), 17):
        x = rng.standard_normal((4, n))
        x[1], x[2, rng.integers(n)] = np.round(x[1]), np.nan
        k = np.arange(n + 1)
        q = np.clip(np.concatenate([k / n, (k + 0.5) / n, rng.random(4), [0.1, 0.9]]), 0, 1)
        for name in ("quantile", "nanquantile"):
            same(getattr(iv, name)(x, q, axis=1, method=method), numpys(name, x, q, axis=1, method=method))
        same(iv.quantile(x[0], 0.3, method=method), numpys("quantile", x[0], 0.3, method=method))
    far = np.array([np.inf, 1.0, -np.inf, np.inf, 2.0, 2.0])
    found, expected = iv.quantile(far, q, method=method).numpy(), numpys("quantile", far, q, method=method)
    np.testing.assert_allclose(found[~np.isnan(expected)], expected[~np.isnan(expected)])
    same(iv.quantile(x[:1], np.array([-0.1, 1.1, np.nan]), method=method), [np.nan] * 3)


def test_quantiles_by_weights():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 9):
        x, w = rng.standard_normal((3, n)), rng.integers(0, 3, (3, n)).astype(float)
        w[:, -1], x[1, 0] = 1, np.nan
        q = np.linspace(0, 1, 11)
        options = {"axis": 1, "method": "inverted_cdf"}
        for name in ("quantile", "nanquantile"):
            for x_, w_ in ((x, w), (np.round(x), w * 0.1)):
                expected = numpys(name, x_, q, weights=w_, **options)
                same(getattr(iv, name)(x_, q, weights=w_, **options), expected)
        same(iv.quantile(x, q, weights=w[0], **options), numpys("quantile", x, q, weights=w[0], **options))
        options["axis"] = None
        same(
            iv.quantile(x[:1], q, weights=w[:1], **options),
            numpys("quantile", x[:1], q, weights=w[:1], **options),
        )


def by_methods(x, q, weights, methods=METHODS):
    found = [iv.quantile(x, q, axis=1, method=method) for method in methods]
    return iv.stack([*found, iv.quantile(x, q, axis=1, method="inverted_cdf", weights=weights)])


def test_quantiles_under_transforms():
    """What is perturbed, and compiled, are methods by turns, and weights."""
    x, q, w = draw((3, 5)), np.array([0.13, 0.47, 0.91]), np.abs(draw((3, 5), seed=1))
    leaves = tuple(iv.asarray(v, requires_grad=True) for v in (x, q))
    chosen = by_turns(METHODS, 5)
    assert gradcheck(lambda x, q: by_methods(x, q, w, chosen), leaves, fast=True)
    twice = iv.vmap(by_methods)(*(iv.asarray(np.stack([v, v])) for v in (x, q, w)))
    same(twice[1], by_methods(x, q, w).numpy())
    methods = METHODS if EXHAUSTIVE else (METHODS[(SEED + 4) % 13],)

    def slope(x, q, w):
        return iv.grad(lambda x: (by_methods(x, q, w, methods) ** 2).sum())(x).to_dense()

    same(iv.jit(slope)(*map(iv.asarray, (x, q, w))), slope(iv.asarray(x), q, w).numpy())


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_of_what_is_specified(method):
    x, there = draw((3, 6)), draw((3, 6), seed=1) > -1
    m = iv.masked_tensor(x, there)
    for q in (0.0, 0.3, 0.5, 1.0):
        found = iv.quantile(m, q, axis=1, method=method).to_tensor(np.nan)
        same(found, numpys("nanquantile", np.where(there, x, np.nan), q, axis=1, method=method))


def test_places_of_quantiles_are_in_double_precision():
    """Of half precision, the count of entries too."""
    x = np.arange(5000.0)
    for dtype in (np.float32, np.float16):
        for method in METHODS:
            found = iv.quantile(x.astype(dtype), 0.7, method=method)
            same(found, np.quantile(x.astype(dtype).astype(float), 0.7, method=method).astype(dtype))


SQUARE, AT = np.eye(3), np.array([[0, 1], [2, 2]])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_covariances_by_weights(dtype):
    for n, m in ((3, 5), (1, 4), (2, 2)):
        x, y = draw((n, m), dtype), draw((2, m), seed=1)
        f, a = np.arange(m) % 3 + (n == 1), np.abs(draw((m,), seed=2))
        for weights in ({}, {"fweights": f}, {"aweights": a}, {"fweights": f, "aweights": a}):
            for norm in ({}, {"bias": True}, {"ddof": 0}, {"bias": True, "ddof": 1}):
                options = weights | norm
                same(iv.cov(x, **options), np.cov(x, **options))
                same(iv.cov(x, y, **options), np.cov(x, y, **options))
        same(iv.cov(x.T, rowvar=False), np.cov(x.T, rowvar=False))
        same(iv.corrcoef(x.T, y.T, rowvar=False), np.corrcoef(x.T, y.T, rowvar=False))
    for narrow in ("float32", "float16"):
        low = x.real.astype(narrow)
        same(iv.cov(low, fweights=f), np.cov(low.astype(float), fweights=f).astype(narrow), tolerance=2e-3)


def test_covariances_of_what_is_specified():
    """An observation that counts twice is one that is there twice."""
    x, there, f = draw((3, 9)), draw((3, 9), seed=1) > -1, np.array([1, 2, 1, 0, 3, 1, 1, 2, 1])
    again = np.repeat(np.arange(9), f)
    found = iv.cov(iv.masked_tensor(x, there), fweights=f).to_tensor(np.nan)
    same(found, iv.cov(iv.masked_tensor(x[:, again], there[:, again])).to_tensor(np.nan).numpy())
    a, whole = np.abs(x[0]), iv.masked_tensor(x, np.ones((3, 9), bool))
    options = {"fweights": f, "aweights": a, "bias": True}
    same(iv.cov(whole, **options).to_tensor(0.0), np.cov(x, **options))


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_one_triangle_of_a_matrix(triangle, dtype):
    """The other one is not read, and has no part of a derivative."""
    for shape in ((3, 3), (2, 4, 4), (0, 0), (0, 2, 2), (1, 1)):
        x = draw(shape, dtype)
        other = np.tril(np.ones(shape), -1) if triangle == "U" else np.triu(np.ones(shape), 1)
        held = np.where(other, np.nan, x).astype(dtype)
        w, v = np.linalg.eigh(x, UPLO=triangle)
        found = iv.linalg.eigh(held, UPLO=triangle)
        same(found.eigenvalues, w, tolerance=1e-4 if dtype == "float32" else None)
        same(iv.abs(found.eigenvectors), np.abs(v), tolerance=1e-3 if dtype == "float32" else None)
        same(iv.linalg.eigvalsh(held, triangle), w, tolerance=1e-4 if dtype == "float32" else None)
    if dtype == "float32":
        return
    x = draw((3, 3), dtype)

    def parts(x):
        w, v = iv.linalg.eigh(x, UPLO=triangle)
        return w, iv.abs(v), iv.linalg.eigvalsh(x, UPLO=triangle)

    leaf = iv.asarray(x, requires_grad=True)
    assert gradcheck(parts, (leaf,), fast=True)
    slope = grad((iv.linalg.eigvalsh(leaf, triangle) ** 3).sum(), leaf).to_dense().numpy()
    assert not (slope[np.tril_indices(3, -1)] if triangle == "U" else slope[np.triu_indices(3, 1)]).any()
    total = iv.grad(lambda x: (iv.linalg.eigvalsh(x, UPLO=triangle) ** 3).sum())
    same(iv.jit(total)(iv.asarray(x)).to_dense(), slope)
    same(iv.vmap(total)(iv.asarray(np.stack([x, x])))[1].to_dense(), slope)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_positions_of_running_extrema(name):
    accumulate = np.maximum.accumulate if name == "cummax" else np.minimum.accumulate
    x = np.round(draw((3, 7), low=-3.0, high=3.0))
    x[1, 4], x[2, 0] = np.nan, np.inf
    for v in (x, x[:, :0], x[0, :1], x.astype(np.int32) if not np.isnan(x).any() else draw((2, 5), "int64")):
        for axis in range(v.ndim):
            expected = accumulate(v, axis)
            found = getattr(iv, name)(v, axis, return_indices=True)
            same(found.values, expected)
            lines, now = (np.moveaxis(u, axis, -1) for u in (v, expected))
            lines, now = lines[..., None, :], now[..., None]
            alike = (lines == now) | (np.isnan(lines) & np.isnan(now))
            first = alike.argmax(axis=-1) if v.size else np.zeros(now.shape[:-1], int)
            same(found.indices, np.moveaxis(first, -1, axis))
    same(
        iv.jit(lambda v: getattr(iv, name)(v, 1, return_indices=True).indices)(iv.asarray(x)),
        getattr(iv, name)(x, 1, return_indices=True).indices.numpy(),
    )
    m = iv.masked_tensor(x, x != 1)
    held = getattr(m, name)(axis=1, return_indices=True)
    np.testing.assert_array_equal(iv.asarray(held.indices.mask()).numpy(), x != 1)
    same(held.values.to_tensor(0.0), getattr(iv, name)(m, 1).to_tensor(0.0).numpy())


@pytest.mark.parametrize("d", [1, 2, 3])
def test_places_of_pooled_entries(d):
    """They name the entries, in batches and compiled; none of them is of the padding."""
    x = np.round(draw((2, 2, *(5, 4, 3)[:d])))
    x[0, 0] = -np.inf
    for function in (
        lambda v: getattr(nn, f"max_pool{d}d")(v, 3, 2, 1, return_indices=True),
        lambda v: getattr(nn, f"adaptive_max_pool{d}d")(v, 2, return_indices=True),
        lambda v: getattr(nn, f"adaptive_max_pool{d}d")(v, (5, 4, 3)[:d], return_indices=True),
    ):
        values, at = function(x)
        assert values.shape == at.shape
        lines = x.reshape(2, 2, -1)
        same(values, np.take_along_axis(lines, at.numpy().reshape(2, 2, -1), 2).reshape(at.shape))
        for found in (iv.jit(function)(iv.asarray(x)), iv.vmap(function)(iv.asarray(x))):
            same(found[0], values.numpy())
            same(found[1], at.numpy())
    same(getattr(nn, f"max_pool{d}d")(x, 3, 2, 1), function_values(d, x))


def function_values(d, x):
    return getattr(nn, f"max_pool{d}d")(x, 3, 2, 1, return_indices=True).values.numpy()


TABLE = draw((5, 3))
ROWS = (
    np.array([0, 2, 2, -1]),
    np.array([[1, 0], [2, 2]]),
    np.array(2),
    np.zeros((0, 2), int),
    np.array([2]),
)


@pytest.mark.parametrize("rows", ROWS, ids=lambda rows: str(rows.shape))
def test_a_row_of_an_embedding_that_is_constant(rows):
    for padding_idx in (2, -3):
        leaf = iv.asarray(TABLE, requires_grad=True)
        y = nn.embedding(rows, leaf, padding_idx)
        same(y, TABLE[rows])
        found = grad((y * y).sum(), leaf)
        counts = np.bincount(rows.ravel() % 5, minlength=5) * (np.arange(5) != 2)
        same(found.to_dense(), 2 * TABLE * counts[:, None])
        held = counts.any() or not rows.size
        assert found.layout == ("coo" if held else "zero")
        assert not held or 2 not in found.indices().numpy()

        def total(table, rows, padding_idx=padding_idx):
            return (nn.embedding(rows, table, padding_idx=padding_idx) ** 2).sum()

        arguments = iv.asarray(TABLE), iv.asarray(rows)
        same(iv.jit(iv.grad(total))(*arguments).to_dense(), found.to_dense().numpy())
        same(
            iv.hessian(total)(*arguments).to_dense().sum(axis=(2, 3)),
            2 * np.repeat(counts, 3).reshape(5, 3) * 1.0,
        )
        batched = iv.vmap(lambda r, p=padding_idx: nn.embedding(r, TABLE, p))
        same(batched(iv.asarray(np.stack([rows, rows])))[1], TABLE[rows])


def test_rows_of_an_embedding_with_a_largest_norm():
    """The table stays; the derivative is that of what is returned."""
    table = np.vstack([TABLE, np.zeros((1, 3))])
    for order in (1.0, 2.0, 3.0, np.inf):
        for largest in (0.0, 0.7, 1e9):
            norms = np.linalg.norm(table, order, axis=1, keepdims=True)
            expected = np.where(
                norms > largest, table * (largest / np.where(norms > largest, norms + 1e-7, 1)), table
            )
            for rows in (*ROWS, np.array([5, 5])):
                same(nn.embedding(rows, table, max_norm=largest, norm_type=order), expected[rows])
    leaf = iv.asarray(table, requires_grad=True)
    assert gradcheck(lambda w: nn.embedding(ROWS[1], w, max_norm=0.7, norm_type=3.0), (leaf,), fast=True)
    total = iv.grad(lambda w: (nn.embedding(np.array([5, 0, 0]), w, max_norm=0.7) ** 3).sum())
    same(iv.jit(total)(iv.asarray(table)).to_dense(), total(iv.asarray(table)).to_dense().numpy())
    same(nn.embedding(np.array([1]), TABLE[:, 0], max_norm=0.0), [0.0])


COMPLEX = np.array(
    [0, 1e-200j, 1e-160 + 1e-170j, 1e-8 + 1e-8j, 1e-3, 0.1 + 0.2j, 0.69 + 0.1j, 0.71, 1 + 1e-9j, 7, -3.2 + 4j]
)


def sinc_by_mpmath(z, order):
    """The derivative of an order, by the power series."""
    with mp.workdps(100):
        z = mp.mpc(complex(z))
        terms = (
            (-1) ** m
            * mp.pi ** (2 * m)
            * mp.ff(2 * m, order)
            * z ** (2 * m - order)
            / mp.factorial(2 * m + 1)
            for m in range((order + 1) // 2, 90)
        )
        return complex(mp.fsum(terms))


def test_sinc_of_complex_numbers():
    """Its derivatives too, next to 0 and where the formula changes."""
    v = iv.asarray(COMPLEX, requires_grad=True)
    y = iv.special.sinc(v)
    for order in range(4):
        expected = np.array([sinc_by_mpmath(z, order) for z in COMPLEX])
        expected[9] = expected[9] if order else 0  # exactly 0 at whole numbers
        np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-13, atol=1e-300)
        y = iv.conj(grad(iv.real(y).sum(), [v], create_graph=True)[0])
    z = draw((2, 3), "complex128")
    same(iv.jit(iv.special.sinc)(iv.asarray(z)), np.sinc(z))
    same(iv.special.sinc(z.astype("complex64")), np.sinc(z.astype("complex64")))


def test_logcumsumexp_of_complex_numbers():
    """The principal logarithm, where sums cancel, overflow or are of very different sizes."""
    rng = np.random.default_rng(0)
    for scale, n in ((1, 1), (1, 17), (30, 5), (300, 40)):
        x = scale * (rng.standard_normal(n) + 1j * rng.standard_normal(n))
        with mp.workdps(300):
            sums = [mp.fsum(mp.exp(mp.mpc(complex(v))) for v in x[: k + 1]) for k in range(n)]
            expected = np.array([complex(mp.log(s)) for s in sums])
        same(iv.logcumsumexp(x), expected)
        same(
            iv.logcumsumexp(x.astype("complex64") / scale).astype("complex128"),
            iv.logcumsumexp(x.astype("complex64").astype("complex128") / scale).numpy(),
            tolerance=1e-5,
        )
    same(iv.logcumsumexp(np.array([0, 1j - 40])), [0, np.exp(1j - 40)])
    same(iv.logcumsumexp(np.array([-np.inf, -800 + 1j, 1e4, -np.inf])), [-np.inf, -800 + 1j, 1e4, 1e4])
    x = draw((3, 4), "complex128")
    for axis in (0, 1):
        same(
            np.moveaxis(iv.logcumsumexp(x, axis).numpy(), axis, 0)[-1:][0] * iv.ones(1),
            iv.logsumexp(x, axis=axis).numpy(),
        )
        leaf = iv.asarray(x, requires_grad=True)
        assert gradcheck(lambda v, k=axis: iv.logcumsumexp(v, k), (leaf,), fast=True)
    slope = iv.grad(lambda v: (iv.logcumsumexp(v, 1) ** 2).sum().real)
    same(iv.jit(slope)(iv.asarray(x)), slope(iv.asarray(x)).numpy())
    same(iv.vmap(slope)(iv.asarray(np.stack([x, x])))[1], slope(iv.asarray(x)).numpy())
    there = draw((3, 4), seed=1) > -1
    held = iv.logcumsumexp(iv.masked_tensor(x, there), 1).to_tensor(0.0).numpy()
    for row, at, found in zip(x, there, held, strict=True):
        same(iv.logcumsumexp(row[at]), found[at])
    assert iv.logcumsumexp(np.zeros((2, 0), complex)).shape == (2, 0)


@pytest.mark.parametrize("kind", [float, complex])
def test_what_is_minus_infinity_has_no_part_of_logcumsumexp(kind):
    """Also where what follows is so small that the inverse of its exponential overflows."""
    v = iv.asarray(np.array([-np.inf, -np.inf, -800, 1], kind), requires_grad=True)
    same(grad(iv.real(iv.logcumsumexp(v)).sum(), v), np.array([0, 0, 1, 1], kind))


def weighted(weights, x=None):
    return iv.quantile(SQUARE if x is None else x, 0.5, method="inverted_cdf", weights=weights)


ERRORS = [
    (lambda: iv.gelu(SQUARE, approximate="sigmoid"), ArgumentError, "gelu: argument 'approximate'.*tanh"),
    (lambda: iv.gelu(AT, approximate="tanh"), DTypeError, "gelu"),
    (lambda: iv.softplus(SQUARE, 0.0), ArgumentError, "softplus: argument 'beta': got 0"),
    (lambda: iv.softplus(SQUARE, threshold=np.nan), ArgumentError, "softplus: argument 'threshold'"),
    (lambda: iv.softplus(AT, 2.0), DTypeError, "softplus"),
    (lambda: iv.gather(SQUARE, np.zeros((4, 1), int)), ShapeError, "gather"),
    (lambda: iv.gather(SQUARE, np.full((1, 1), 3)), IndexingError, "gather: argument 'indices'"),
    (lambda: iv.gather(SQUARE, AT, axis=2), AxisError, "gather"),
    (
        lambda: iv.scatter(SQUARE, np.zeros((4, 1), int), 1.0),
        ShapeError,
        "scatter: argument 'indices'.*at mo",
    ),
    (lambda: iv.scatter(SQUARE, AT[0], 1.0), ShapeError, "scatter: argument 'indices'.*2 axes"),
    (lambda: iv.scatter_add(SQUARE, AT, np.ones((3, 0))), ShapeError, "scatter_add: argument 'values'"),
    (lambda: iv.scatter_add(SQUARE, AT, np.ones((1, 2, 2))), ShapeError, "scatter_add: argument 'values'"),
    (lambda: iv.quantile(SQUARE, 0.5, method="cubic"), ArgumentError, "quantile: argument 'method'.*hazen"),
    (lambda: iv.quantile(SQUARE, 0.5, weights=SQUARE), ArgumentError, "quantile.*'weights'.*inverted_cdf"),
    (lambda: weighted(-SQUARE), ArgumentError, "quantile: argument 'weights'.*at least 0"),
    (lambda: weighted(SQUARE + np.inf), ArgumentError, "quantile: argument 'weights'.*finite"),
    (lambda: weighted(SQUARE * 0), ArgumentError, "quantile: argument 'weights'"),
    (lambda: weighted(SQUARE[0]), ShapeError, "quantile: argument 'weights'.*3, 3"),
    (lambda: weighted(SQUARE, iv.masked_tensor(SQUARE, SQUARE > 0)), ArgumentTypeError, "quantile"),
    (lambda: iv.cov(SQUARE, fweights=SQUARE[0]), DTypeError, "cov: argument 'fweights'.*integer"),
    (lambda: iv.cov(SQUARE, aweights=-SQUARE[0]), ArgumentError, "cov: argument 'aweights'.*at least 0"),
    (lambda: iv.cov(SQUARE, fweights=AT[0]), ShapeError, "cov: argument 'fweights'.*3,"),
    (lambda: iv.cov(SQUARE, SQUARE[:, :2]), ShapeError, "cov: argument 'y'.*3, as x has"),
    (lambda: iv.corrcoef(SQUARE, SQUARE[:, :2]), ShapeError, "corrcoef: argument 'y'.*3, as x has"),
    (lambda: iv.linalg.eigh(SQUARE, UPLO="l"), ArgumentError, "eigh: argument 'UPLO'.*'L'"),
    (lambda: iv.linalg.eigvalsh(SQUARE[:2], UPLO="L"), ShapeError, "eigvalsh.*square"),
    (lambda: nn.embedding(AT, SQUARE, padding_idx=3), IndexingError, "embedding: argument 'padding_idx'.*3"),
    (
        lambda: nn.embedding(AT, SQUARE, padding_idx=0.5),
        ArgumentTypeError,
        "embedding: argument 'padding_idx'",
    ),
    (lambda: nn.embedding(AT, SQUARE, max_norm=-1.0), ArgumentError, "embedding: argument 'max_norm'"),
    (
        lambda: nn.embedding_bag(AT, SQUARE, padding_idx=3),
        IndexingError,
        "embedding_bag: argument 'padding_idx'",
    ),
    (lambda: nn.gaussian_nll_loss(SQUARE, SQUARE[0], SQUARE), ShapeError, "gaussian_nll.*'target'.*2 axes"),
    (lambda: nn.gaussian_nll_loss(SQUARE, SQUARE[:2], 1.0), ShapeError, "gaussian_nll_loss"),
    (lambda: nn.gaussian_nll_loss(SQUARE[:2], SQUARE[:2], SQUARE[0]), ShapeError, "gaussian_nll_loss.*'var'"),
    (lambda: nn.gaussian_nll_loss(SQUARE[:1], SQUARE[:1], SQUARE), ShapeError, "gaussian_nll_loss.*'var'"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case):
    call, error, match = ERRORS[case]
    with pytest.raises(error, match=match):
        call()
