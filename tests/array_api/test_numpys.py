"""Functions that NumPy and PyTorch have and the standard has not: values, gradients, levels of a table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iverson as iv
from iverson.errors import ArgumentError, ArgumentTypeError, AxisError, DTypeError, IndexingError, ShapeError
from iverson.testing import gradcheck
from tests.array_api.common import draw, same
from tests.conformance.product import by_turns

X, Y = draw((4, 5)), draw((4, 5), seed=1)
V, W = draw((5,)), draw((3,), seed=2)
GAPS = np.where(draw((4, 5), seed=3) > 1, np.nan, X)
GAPS[1] = np.nan
HOLES = GAPS.copy()
HOLES[0], HOLES[:, 0] = X[0], X[:, 0]
MASK = X > 0
AT = np.array([[0, 1, 1, 3, 0], [2, 2, 2, 2, 2]])
TWICE = np.array([1, 0, 3, 2, 4, 1])
Q = np.array([0.0, 0.2, 0.5, 1.0])


def carried(x, limit=9):
    """Along each row the last entry that is there, at most so far back."""
    rows = [
        [next((v for v in row[k::-1][: limit + 1] if v == v), np.nan) for k in range(len(row))] for row in x
    ]
    return np.array(rows)


def added(x, v):
    y = x.copy()
    np.add.at(y, ([2, 2, 0],), v)
    return y


def scattered(x, v, at=AT):
    y = x.copy()
    np.add.at(y, (at, np.arange(at.shape[1])), v)
    return y


def placed(x, v, at=AT):
    y = x.copy()
    np.put_along_axis(y, at, v, 0)
    return y


def few_placed(x, v):
    """In the first column alone."""
    return np.hstack([placed(x[:, :1], v[:, :1], AT[:, :1]), x[:, 1:]])


def in_bins(x, w):
    return np.histogram(x, 4, weights=w)[0]


#: By name: ours, NumPy's, and what both take.
CASES = {
    "clone": (iv.clone, np.copy, [X]),
    "convolve": (iv.convolve, np.convolve, [V, W]),
    "convolve-same": (
        lambda a, v: iv.convolve(v, a, mode="same"),
        lambda a, v: np.convolve(v, a, "same"),
        [V, W],
    ),
    "convolve-valid": (
        lambda a, v: iv.convolve(a, v, mode="valid"),
        lambda a, v: np.convolve(a, v, "valid"),
        [V, W],
    ),
    "corrcoef": (iv.corrcoef, np.corrcoef, [X]),
    "cov": (iv.cov, np.cov, [X]),
    "cov-weights": (
        lambda x, y, a: iv.cov(x, y, rowvar=False, fweights=TWICE[:4] % 3, aweights=abs(a)),
        lambda x, y, a: np.cov(x, y, rowvar=False, fweights=TWICE[:4] % 3, aweights=abs(a)),
        [X, Y[:, :2].copy(), V[:4] + 3],
    ),
    "corrcoef-two": (iv.corrcoef, np.corrcoef, [X, Y[:2]]),
    "cov-row": (iv.cov, np.cov, [X[:1]]),
    "corrcoef-row": (iv.corrcoef, np.corrcoef, [X[:1]]),
    "cov-vector": (lambda x: iv.cov(x, correction=0), lambda x: np.cov(x, ddof=0), [V]),
    "cummax": (lambda x: iv.cummax(x, axis=1), lambda x: np.maximum.accumulate(x, 1), [X]),
    "cummin": (lambda x: iv.cummin(x, axis=0), lambda x: np.minimum.accumulate(x, 0), [X]),
    "ffill": (iv.ffill, carried, [HOLES]),
    "ffill-columns": (lambda x: iv.ffill(x, 0), lambda x: carried(x.T).T, [HOLES]),
    "bfill": (
        lambda x: iv.nan_to_num(iv.bfill(x[:, ::-1], limit=2)),
        lambda x: np.nan_to_num(carried(x, 2)[:, ::-1]),
        [HOLES],
    ),
    "flatten": (iv.flatten, np.ravel, [X]),
    "ravel": (iv.ravel, np.ravel, [X]),
    "gather": (lambda x: iv.gather(x, AT, axis=0), lambda x: np.take_along_axis(x, AT, 0), [X]),
    "gather-few": (
        lambda x: iv.gather(x, AT[:, :3], axis=0),
        lambda x: np.take_along_axis(x[:, :3], AT[:, :3], 0),
        [X],
    ),
    "scatter-few": (lambda x, v: iv.scatter(x, AT[:, :1], v, axis=0), few_placed, [X, Y[:2, :3]]),
    "scatter_add-few": (
        lambda x, v: iv.scatter_add(x.T, AT[:, :4].T, v, axis=-1).T,
        lambda x, v: np.hstack([scattered(x[:, :4], v.T[:2, :4], AT[:, :4]), x[:, 4:]]),
        [X, Y[:, :3]],
    ),
    "index_add": (lambda x, v: iv.index_add(x, np.array([2, 2, 0]), v), added, [X, Y[:3]]),
    "index_add-columns": (
        lambda x, v: iv.index_add(x, np.array([2, 2, 0]), v.T, axis=-1),
        lambda x, v: added(x.T, v).T,
        [X, Y[:3, :1].repeat(X.shape[0], 1)],
    ),
    "scatter_add": (lambda x, v: iv.scatter_add(x, AT, v, axis=0), scattered, [X, Y[:2]]),
    "at-add": (lambda x, v: x.at[np.array([2, 2, 0])].add(v), added, [X, Y[:3]]),
    "at-add-slice": (
        lambda x, v: x.at[1:, ::2].add(v),
        lambda x, v: x + np.pad(v, ((1, 0), (0, 0)))[:, [0, 1, 1, 1, 2]] * [1, 0, 1, 0, 1],
        [X, Y[:3, :3]],
    ),
    "at-set": (lambda x, v: x.at[1:3].set(v), lambda x, v: np.concatenate([x[:1], v, x[3:]]), [X, Y[:2]]),
    "at-get": (lambda x: x.at[1].get(), lambda x: x[1], [X]),
    "interp": (
        iv.interp,
        np.interp,
        [draw((2, 3), low=-1.0, high=6.0), np.array([0.0, 1.0, 1.5, 4.0]), Y[0, :4]],
    ),
    "kthvalue": (lambda x: iv.kthvalue(x, 2, axis=0).values, lambda x: np.sort(x, 0)[1], [X]),
    "logcumsumexp": (lambda x: iv.logcumsumexp(x, axis=0), lambda x: np.logaddexp.accumulate(x, 0), [X]),
    "masked_fill": (lambda x, v: iv.masked_fill(x, MASK, v), lambda x, v: np.where(MASK, v, x), [X, V[:1]]),
    "median": (lambda x: iv.median(x, axis=0), lambda x: np.median(x, 0), [X]),
    "median-all": (lambda x: iv.median(x, keepdims=True), lambda x: np.median(x, keepdims=True), [X]),
    "array_split": (
        lambda x: iv.concat(iv.array_split(x, 3, axis=1)[::-1], axis=1),
        lambda x: np.concatenate(np.array_split(x, 3, 1)[::-1], 1),
        [X],
    ),
    "broadcast_to-kept": (lambda x: iv.broadcast_to(x, (2, -1, -1)), lambda x: np.stack([x, x]), [X]),
    "histogram": (lambda w: iv.histogram(X, 4, weights=w).hist, lambda w: in_bins(X, w), [Y]),
    "histogram-edges": (
        lambda w: iv.histogram(X, Q.astype(w.dtype), weights=w, density=True).hist,
        lambda w: np.histogram(X, Q, weights=w, density=True)[0],
        [Y + 3],
    ),
    "linspace": (lambda a, b: iv.linspace(a, b, 4), lambda a, b: np.linspace(a, b, 4), [X, V]),
    "linspace-axis": (
        lambda a: iv.linspace(0.5, a, 3, endpoint=False, axis=-1),
        lambda a: np.linspace(0.5, a, 3, False, axis=-1),
        [X],
    ),
    "pad-negative": (
        lambda x: iv.pad(x, ((-1, 2), (1, -3))),
        lambda x: np.pad(x[1:, :2], ((0, 2), (1, 0))),
        [X],
    ),
    "pad-negative-reflect": (
        lambda x: iv.pad(x, ((-1, 2), (1, -3)), "reflect"),
        lambda x: np.pad(x, ((0, 2), (1, 0)), "reflect")[1:, :-3],
        [X],
    ),
    "scatter": (lambda x, v: iv.scatter(x, AT, v, axis=0), placed, [X, Y[:2]]),
    "swapaxes": (lambda x: iv.swapaxes(x, 0, -1), lambda x: np.swapaxes(x, 0, -1), [draw((2, 3, 4))]),
    "unique_values-axis": (
        lambda x: iv.unique_values(x[:, TWICE], axis=1),
        lambda x: np.unique(x, axis=1),
        [X],
    ),
    "nan_to_num": (lambda x: iv.nan_to_num(x, nan=7.0), lambda x: np.nan_to_num(x, nan=7.0), [GAPS]),
    "nanargmax": (lambda x: iv.nanargmax(x, axis=0), lambda x: np.nanargmax(x, 0), [GAPS[:2, 1:3]]),
    "nanargmin": (iv.nanargmin, np.nanargmin, [GAPS]),
    "nancumprod": (lambda x: iv.nancumprod(x, axis=0), lambda x: np.nancumprod(x, 0), [GAPS]),
    "nancumsum": (iv.nancumsum, np.nancumsum, [GAPS]),
    "nanmax": (lambda x: iv.nanmax(x, axis=0), lambda x: np.nanmax(x, 0), [GAPS]),
    "nanmean": (lambda x: iv.nanmean(x, axis=0), lambda x: np.nanmean(x, 0), [GAPS]),
    "nanmedian": (lambda x: iv.nanmedian(x, axis=1), lambda x: np.nanmedian(x, 1), [GAPS]),
    "nanmin": (lambda x: iv.nanmin(x, axis=1), lambda x: np.nanmin(x, 1), [GAPS]),
    "nanprod": (lambda x: iv.nanprod(x, axis=1), lambda x: np.nanprod(x, 1), [GAPS]),
    "nanpercentile": (
        lambda x: iv.nanpercentile(x, 100 * Q, axis=0),
        lambda x: np.nanpercentile(x, 100 * Q, 0),
        [GAPS],
    ),
    "nanquantile": (lambda x: iv.nanquantile(x, Q, axis=0), lambda x: np.nanquantile(x, Q, 0), [GAPS]),
    "nanstd": (lambda x: iv.nanstd(x, axis=0, ddof=1), lambda x: np.nanstd(x, 0, ddof=1), [GAPS]),
    "nansum": (lambda x: iv.nansum(x, axis=1), lambda x: np.nansum(x, 1), [GAPS]),
    "nanvar": (
        lambda x: iv.nanvar(x, correction=1, keepdims=True),
        lambda x: np.nanvar(x, ddof=1, keepdims=True),
        [GAPS],
    ),
    "percentile": (lambda x: iv.percentile(x, 100 * Q, axis=1), lambda x: np.percentile(x, 100 * Q, 1), [X]),
    "quantile": (lambda x: iv.quantile(x, Q, axis=1), lambda x: np.quantile(x, Q, 1), [X]),
    "quantile-axes": (
        lambda x: iv.quantile(x, 0.3, axis=(0, 2), keepdims=True),
        lambda x: np.quantile(x, 0.3, (0, 2), keepdims=True),
        [draw((2, 3, 4))],
    ),
    "quantile-q": (lambda x, q: iv.quantile(x, q, axis=0), lambda x, q: np.quantile(x, q, 0), [X, Q[1:2]]),
    "transpose": (
        lambda x: iv.transpose(x, (1, 0)) + iv.transpose(x[:4, :4]).sum(),
        lambda x: x.T + x[:4, :4].sum(),
        [X],
    ),
    "rot90": (lambda x: iv.rot90(x, 3), lambda x: np.rot90(x, 3), [X]),
    "rot90-axes": (lambda x: iv.rot90(x, axes=(2, 0)), lambda x: np.rot90(x, axes=(2, 0)), [draw((2, 3, 4))]),
    "topk": (lambda x: iv.topk(x, 2, axis=0).values, lambda x: -np.sort(-x, 0)[:2], [X]),
    "topk-smallest": (lambda x: iv.topk(x, 3, largest=False).values, lambda x: np.sort(x)[:, :3], [X]),
    "trapezoid": (
        lambda y, x: iv.trapezoid(y, x, axis=0),
        lambda y, x: np.trapezoid(y, x, axis=0),
        [X, V[:4]],
    ),
    "trapezoid-dx": (lambda y: iv.trapezoid(y, dx=0.5), lambda y: np.trapezoid(y, dx=0.5), [X]),
    "pad-symmetric": (lambda x: iv.pad(x, 2, "symmetric"), lambda x: np.pad(x, 2, "symmetric"), [X]),
    "diag-matrix": (lambda x: iv.diag(x, k=1), lambda x: np.diag(x, 1), [X]),
    "round": (lambda x: iv.round(x, decimals=1) + x, lambda x: np.round(x, 1) + x, [X]),
    "bincount": (
        lambda w: iv.bincount(AT[0], weights=w, minlength=6),
        lambda w: np.bincount(AT[0], w, 6),
        [V],
    ),
}
#: Where what is chosen, or nan, stands in the way of differences.
NO_GRADIENTS = {"nan_to_num", *(name for name in CASES if name.startswith("nan"))}
#: What depends on the values of its entries, and is not compiled.
EAGER = {"unique_values-axis"}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    ours, theirs, xs = CASES[name]
    for dtype in ("float64", "float32"):
        given = [x.astype(dtype) for x in xs]
        expected = np.asarray(theirs(*given))
        same(ours(*map(iv.asarray, given)), expected, dtype=dtype if expected.dtype.kind == "f" else None)
    if name not in NO_GRADIENTS:
        assert gradcheck(ours, tuple(iv.asarray(x, requires_grad=True) for x in xs))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::iverson.errors.BatchWarning")
@pytest.mark.parametrize("name", by_turns((name for name in CASES if name not in EAGER), 3))
def test_compiled_and_batched(name):
    """What a compiled function and a batch give is what the function gives, and its gradient too."""
    ours, _, xs = CASES[name]
    given = list(map(iv.asarray, xs))
    expected = ours(*given).numpy()

    def total(*xs):
        return (ours(*xs) ** 2).sum()

    slopes = iv.grad(total, argnums=tuple(range(len(xs))))
    wanted = [g.to_dense().numpy() for g in slopes(*given)]
    value, gradient = iv.jit(lambda *xs: (ours(*xs), slopes(*xs)))(*given)
    np.testing.assert_allclose(value.numpy(), expected, rtol=1e-12)
    for found, g in zip(gradient, wanted, strict=True):
        np.testing.assert_allclose(found.to_dense().numpy(), g, rtol=1e-12, atol=1e-14)
    twice = [iv.stack([x, x[..., ::-1] if name != "interp" else x]) for x in given]
    batched = iv.vmap(ours)(*twice).numpy()
    np.testing.assert_allclose(batched[0], expected, rtol=1e-12)
    np.testing.assert_allclose(batched[1], ours(*(x[1] for x in twice)).numpy(), rtol=1e-12)


def test_comparisons():
    x = np.array([1.0, np.nan, np.inf, -np.inf, 1e-9, 2.0, np.inf])
    y = np.array([1.0 + 1e-6, np.nan, np.inf, np.inf, 0.0, 2.1, 1.0])
    for options in ({}, {"equal_nan": True}, {"rtol": 0.1}, {"atol": 0.0}):
        same(iv.isclose(x, y, **options), np.isclose(x, y, **options))
        same(iv.allclose(x[:1], y[:1], **options), np.asarray(np.allclose(x[:1], y[:1], **options)))
        same(iv.allclose(x, y, **options), np.asarray(False))
    same(iv.isclose(np.array([1, 2]), 2), [False, True])
    same(iv.argwhere(MASK), np.argwhere(MASK))


def test_of_integers():
    n = np.array([[3, 1, 2], [5, 5, 0]])
    for ours, theirs in (
        (lambda x: iv.cummax(x, axis=1), lambda x: np.maximum.accumulate(x, 1)),
        (iv.nansum, np.sum),
        (iv.nanmax, np.max),
        (lambda x: iv.topk(x, 2).values, lambda x: -np.sort(-x)[:, :2]),
        (lambda x: iv.topk(x, 2).indices, lambda x: np.argsort(-x, kind="stable")[:, :2]),
        (iv.median, np.median),
        (lambda x: iv.bincount(iv.flatten(x)), lambda x: np.bincount(x.ravel())),
        (lambda x: iv.convolve(x[0], x[1]), lambda x: np.convolve(x[0], x[1])),
        (lambda x: iv.round(x, decimals=-1), lambda x: np.round(x, -1)),
        (iv.nan_to_num, np.nan_to_num),
    ):
        same(ours(iv.asarray(n)), np.asarray(theirs(n)))


def test_nan_and_infinity():
    x = np.array([1.0, 3.0, np.nan, 5.0])
    same(iv.cummax(x), np.maximum.accumulate(x))
    same(iv.cummin(x), np.minimum.accumulate(x))
    for function in (iv.median, lambda v: iv.quantile(v, 0.5)):
        assert np.isnan(function(x).numpy())
    same(iv.median(np.array([np.inf, 1.0, np.inf])), np.inf)
    same(iv.quantile(np.array([1.0, 2.0]), np.array([-0.1, 1.1])), [np.nan, np.nan])
    same(
        iv.nan_to_num(np.array([np.inf, -np.inf, np.nan])), np.nan_to_num(np.array([np.inf, -np.inf, np.nan]))
    )
    same(iv.logcumsumexp(np.array([-np.inf, -np.inf, 1e4, -1e4])), [-np.inf, -np.inf, 1e4, 1e4])
    v = iv.asarray(np.array([-np.inf, 0.0, 1e4]), requires_grad=True)
    same(iv.autograd.grad(iv.logcumsumexp(v).sum(), v), [0.0, 1.0, 1.0])
    g = iv.asarray(GAPS, requires_grad=True)
    same(iv.autograd.grad(iv.nanmean(g), g), np.where(np.isnan(GAPS), 0, 1 / np.isfinite(GAPS).sum()))
    same(iv.autograd.grad(iv.nansum(g), g), np.where(np.isnan(GAPS), 0.0, 1.0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_nan_does_not_count():
    """Derivatives are those of the entries that are not nan, alone."""
    row = np.array([1.0, np.nan, 4.0, 2.0, np.nan])
    there = ~np.isnan(row)
    for skips, plain in (
        (iv.nansum, iv.sum),
        (iv.nanmean, iv.mean),
        (iv.nanprod, iv.prod),
        (iv.nanmax, iv.max),
        (iv.nanmin, iv.min),
        (lambda x: iv.nanvar(x, correction=1), lambda x: iv.var(x, correction=1)),
        (iv.nanstd, iv.std),
        (iv.nanmedian, iv.median),
        (lambda x: iv.nanquantile(x, 0.3), lambda x: iv.quantile(x, 0.3)),
        (lambda x: iv.nancumsum(x)[-1], iv.sum),
        (lambda x: iv.nancumprod(x)[-1], iv.prod),
    ):
        for order, derivative in ((1, iv.grad), (2, iv.hessian)):
            found = derivative(lambda x, f=skips: f(x) ** 2)(iv.asarray(row)).to_dense().numpy()
            wanted = derivative(lambda x, f=plain: f(x) ** 2)(iv.asarray(row[there])).to_dense().numpy()
            np.testing.assert_allclose(found[np.ix_(*[there] * order)], wanted, rtol=1e-12, atol=1e-13)
            assert not found[~there].any()


def test_positions_without_nan():
    rows = np.array([[np.nan, -np.inf, -np.inf], [np.nan, 2.0, 1.0], [np.inf, np.nan, np.inf], [np.nan] * 3])
    same(iv.nanargmax(rows, axis=1), [1, 1, 0, 0])
    same(iv.nanargmin(rows, axis=1), [1, 2, 0, 0])
    same(iv.nanargmax(rows[1:3], keepdims=True), np.array([[3]]))
    same(iv.nanargmin(np.array([3, 1, 2])), np.int64(1))
    constant = iv.asarray(np.array([2.0, np.nan, 2.0]), requires_grad=True)
    same(iv.autograd.grad(iv.nanstd(constant), constant), [0.0, 0.0, 0.0])


def test_histograms():
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=50), rng.integers(0, 9, (4, 5)), np.array([1.5, 1.5]), np.zeros(0)):
        for options in ({}, {"bins": 3}, {"range": (-1.0, 4.0)}, {"range": (2.0, 2.0), "bins": 4}):
            found, expected = iv.histogram(iv.asarray(x), **options), np.histogram(x, **options)
            same(found.bin_edges, expected[1])
            np.testing.assert_array_equal(found.hist.numpy(), expected[0])
        edges = np.array([-1.0, 0.0, 0.5, 4.0])
        same(iv.histogram(iv.asarray(x), edges).hist, np.histogram(x, edges)[0])
    counts = iv.histogram(iv.asarray([np.nan, 1.0, 9.0]), 2, range=(0.0, 2.0)).hist
    same(counts, [0, 1])


def test_distinct_slices():
    n = np.array([[1, 0, 1], [2, 2, 2], [1, 0, 1]])
    for axis in (0, 1, -1):
        values, first, inverse, counts = np.unique(n, True, True, True, axis=axis)
        found = iv.unique_all(iv.asarray(n), axis=axis)
        same(found.values, values)
        same(found.indices, first)
        same(found.inverse_indices, inverse.reshape(-1))
        same(found.counts, counts)
        same(iv.unique_counts(n, axis=axis).counts, counts)
        same(iv.take(iv.unique_inverse(n, axis=axis).values, found.inverse_indices, axis=axis), n)


@pytest.mark.parametrize("nan", [True, False])
def test_unique_as_numpys(nan):
    x = np.array([[2.0, np.nan, 1.0], [np.nan, 2.0, 7.0]])
    for axis in (None, 0, 1):
        for flags in itertools.product([False, True], repeat=3):
            found = iv.unique(iv.asarray(x), *flags, axis, equal_nan=nan)
            expected = np.unique(x, *flags, axis, equal_nan=nan)
            assert type(found) is tuple if any(flags) else isinstance(found, iv.Tensor)
            pairs = zip(found, expected, strict=True) if any(flags) else [(found, expected)]
            for got, want in pairs:
                same(got, want)
            if not any(flags):
                same(np.unique(iv.asarray(x), axis=axis, equal_nan=nan), expected)
    leaf = iv.asarray([3.0, 1.0, 3.0], requires_grad=True)
    values = iv.unique(leaf)
    assert iv.autograd.grad((values * iv.asarray([10.0, 1.0])).sum(), leaf).tolist() == [1.0, 10.0, 0.0]


def test_positions_of_a_condition():
    same(iv.where(iv.asarray(MASK)), np.where(MASK))
    same(iv.broadcast_to(V, (2, -1)), np.stack([V, V]))
    assert iv.broadcast_to(iv.ones((0, 3)), (2, -1, 3)).shape == (2, 0, 3)


def test_errors():
    x = iv.asarray(X)
    for error, words, call in (
        (DTypeError, "masked_fill: argument 'mask'", lambda: iv.masked_fill(x, x, 0.0)),
        (ShapeError, "scatter_add: argument 'indices'", lambda: iv.scatter_add(x, np.array([0]), x)),
        (IndexingError, "index_add: argument 'indices'", lambda: iv.index_add(x, np.array([9]), x[:1])),
        (
            DTypeError,
            "index_add: argument 'values'",
            lambda: iv.index_add(iv.asarray([1]), np.array([0]), V[:1]),
        ),
        (ArgumentError, "topk: argument 'k'", lambda: iv.topk(x, 9)),
        (ArgumentError, "kthvalue: argument 'k'", lambda: iv.kthvalue(x, 0)),
        (ArgumentError, "quantile: argument 'x'", lambda: iv.quantile(x[:0], 0.5, axis=0)),
        (ArgumentError, "bincount: argument 'x'", lambda: iv.bincount(np.array([-1]))),
        (ShapeError, "bincount: argument 'weights'", lambda: iv.bincount(np.array([1]), weights=V)),
        (ShapeError, "interp: argument 'fp'", lambda: iv.interp(x, V, W)),
        (ShapeError, "convolve: argument 'v'", lambda: iv.convolve(V, x)),
        (ShapeError, "rot90: argument 'axes'", lambda: iv.rot90(x, axes=(0, 0))),
        (ShapeError, r"rot90: argument 'axes': got \(0,\)", lambda: iv.rot90(x, axes=(0,))),
        (ArgumentTypeError, "rot90: argument 'axes': got ''", lambda: iv.rot90(x, axes="")),
        (ShapeError, "cov: argument 'x'", lambda: iv.cov(iv.ones((2, 2, 2)))),
        (ArgumentError, "where: argument 'x2'", lambda: iv.where(x > 0, x)),
        (ShapeError, "broadcast_to: argument 'shape'", lambda: iv.broadcast_to(x, (-1, 4, 5))),
        (ShapeError, "pad: argument 'pad_width'", lambda: iv.pad(x, ((-3, -2), (0, 0)))),
        (ArgumentError, "array_split: argument 'sections'", lambda: iv.array_split(x, 0)),
        (ShapeError, "scatter: argument 'indices'", lambda: iv.scatter(x, np.array([0]), x)),
        (ShapeError, "linspace", lambda: iv.linspace(x, V[:2], 3)),
        (AxisError, "linspace: argument 'axis'", lambda: iv.linspace(x, 1.0, 3, axis=3)),
        (ArgumentError, "histogram: argument 'bins'", lambda: iv.histogram(x, 0)),
        (ArgumentError, "histogram: argument 'bins'", lambda: iv.histogram(x, np.array([1.0, 0.0]))),
        (ArgumentError, "histogram: argument 'range'", lambda: iv.histogram(x, range=(2.0, 1.0))),
        (ShapeError, "histogram: argument 'weights'", lambda: iv.histogram(x, weights=V)),
        (DTypeError, "histogram", lambda: iv.histogram(x * 1j)),
        (AxisError, "unique_values: argument 'axis'", lambda: iv.unique_values(x, axis=2)),
        (ShapeError, "trapezoid: argument 'x'", lambda: iv.trapezoid(x, x[:2])),
    ):
        with pytest.raises(error, match=words):
            call()


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_gradients_of_convolutions_take_as_many_products(mode, monkeypatch):
    """n m products each, though one of the gradients has only m entries."""
    products = []
    plain = np.convolve

    def counted(a, v, mode="full"):
        n, m = max(a.size, v.size), min(a.size, v.size)
        products.append(n * m if mode == "full" else (n - m + 1) * m)
        return plain(a, v, mode)

    monkeypatch.setattr(np, "convolve", counted)
    a, v = (iv.asarray(np.cos(np.arange(n)), requires_grad=True) for n in (1000, 10))
    y = iv.convolve(a, v, mode=mode)
    first = iv.autograd.grad((y * y).sum(), [a, v], create_graph=True)
    iv.autograd.grad((first[0].sum() + first[1].sum()) ** 2, [a, v])
    assert len(products) == 9
    assert max(products) <= 1010 * 10


@given(st.data())
def test_parts_of_orders_are_those_of_the_whole(data):
    """Ties in their first order, nan as the largest, on any axis and in every real dtype."""
    dtype = data.draw(st.sampled_from(["float64", "float32", "float16", "int8", "uint8", "int64", "bool"]))
    n, lead = data.draw(st.integers(9, 60)), data.draw(st.sampled_from([(), (3,), (2, 0), (2, 3)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    x = (rng.integers(-9, 9, (*lead, n)) * data.draw(st.sampled_from([1, 1, 20]))).astype(dtype)
    if x.dtype.kind == "f" and data.draw(st.booleans()):
        x[rng.random(x.shape) < 0.1] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, -0.0]))
    axis = data.draw(st.integers(0, len(lead)))
    x = np.moveaxis(x, -1, axis)
    count = data.draw(st.integers(1, 1 + n // 8))
    for largest in (False, True):
        whole = iv.argsort(iv.asarray(x), axis=axis, descending=largest).numpy()
        expected = np.take(whole, np.arange(count), axis=axis)
        found = iv.topk(iv.asarray(x), count, axis=axis, largest=largest)
        np.testing.assert_array_equal(found.indices.numpy(), expected, strict=True)
        np.testing.assert_array_equal(
            found.values.numpy(), np.take_along_axis(x, expected, axis), strict=True
        )
    last = iv.kthvalue(iv.asarray(x), count, axis=axis)
    expected = np.take(iv.argsort(iv.asarray(x), axis=axis).numpy(), count - 1, axis=axis)
    np.testing.assert_array_equal(last.indices.numpy(), expected, strict=True)
