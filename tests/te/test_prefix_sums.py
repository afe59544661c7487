"""Prefix sums written as sums over all earlier indices: recurrences, with the values of NumPy's sums."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.te.ir.nodes import recurrence_of
from iverson.te.rewrites.prefix_sums import LEAST

BOUNDS = {
    "up to": lambda i, k: k <= i,
    "before": lambda i, k: k < i,
    "from": lambda i, k: k >= i,
    "behind": lambda i, k: k > i,
    "late": lambda i, k: k + 3 <= i,
    "early": lambda i, k: k <= i + 2,
    "turned": lambda i, k: i - 5 <= k,
}
SIZES = [0, 17, LEAST, 300]


def sums(bound, weight=None):
    @te.op
    def f(x):
        n, m = x.shape
        k = te.reduce_axis(n, "k")
        factor = (lambda k: 1.0) if weight is None else weight
        return te.compute(
            (n, m), lambda i, j: te.sum(te.bracket(bound(i, k)) * (factor(k) * x[k, j]), axis=k)
        )

    return f


def matrix(bound, n):
    i, k = np.arange(n)[:, None], np.arange(n)[None]
    return bound(i, k).astype(float)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", BOUNDS)
def test_values_and_derivatives_are_those_of_products(name, n):
    bound, a = BOUNDS[name], matrix(BOUNDS[name], n)
    rng = np.random.default_rng(n)
    x, v = rng.normal(size=(2, n, 3))
    f = sums(bound)

    def loss(x):
        return iv.sum(f(x) ** 2)

    y, expected = f(iv.asarray(x)), 2 * a.T @ (a @ x)
    np.testing.assert_allclose(y.numpy(), a @ x, atol=1e-10)
    gradient = iv.grad(loss)
    for g in (gradient, iv.jit(gradient), iv.grad(iv.jit(loss))):
        np.testing.assert_allclose(g(iv.asarray(x)).numpy(), expected, atol=1e-8)
    _, t = iv.jvp(f, (iv.asarray(x),), (iv.asarray(v),))
    np.testing.assert_allclose(t.numpy(), a @ v, atol=1e-10)
    _, h = iv.jvp(gradient, (iv.asarray(x),), (iv.asarray(v),))
    np.testing.assert_allclose(h.numpy(), 2 * a.T @ (a @ v), atol=1e-8)
    batch = iv.vmap(f)(iv.asarray(np.stack([x, v])))
    np.testing.assert_allclose(batch.numpy(), np.stack([a @ x, a @ v]), atol=1e-10)


def test_terms_may_depend_on_their_own_index():
    n = 200
    x = np.random.default_rng(0).normal(size=(n, 2))
    f = sums(lambda i, k: k <= i, lambda k: te.F.sqrt(k + 1.0))
    np.testing.assert_allclose(
        f(iv.asarray(x)).numpy(), np.cumsum(np.sqrt(np.arange(n) + 1.0)[:, None] * x, 0)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64", "float16"])
def test_dtypes(dtype):
    n = 150
    x = (10 * np.random.default_rng(0).normal(size=(n, 2))).astype(dtype)
    y = sums(lambda i, k: k <= i)(iv.asarray(x)) if dtype != "int64" else of_integers()(iv.asarray(x))
    tolerance = {"float32": 1e-4, "float16": 1e-2}.get(dtype, 1e-10)
    expected = np.cumsum(x.astype("complex128"), 0)
    np.testing.assert_allclose(y.numpy().astype("complex128"), expected, rtol=tolerance, atol=300 * tolerance)


def of_integers():
    @te.op
    def f(x):
        n, m = x.shape
        k = te.reduce_axis(n, "k")
        return te.compute((n, m), lambda i, j: te.sum(te.if_then_else(k <= i, x[k, j], 0), axis=k))

    return f


def test_work_grows_with_the_length():
    for n, other in itertools.pairwise([100, 200, 400]):
        assert points(other) <= 2.1 * points(n)


def points(n):
    x, k = te.placeholder((n, 4), name="x"), te.reduce_axis(n, "k")
    s = te.compute((n, 4), lambda i, j: te.sum(te.bracket(k <= i) * x[k, j], axis=k), "s")
    gradient = te.differentiate(s, [x], head=te.placeholder((n, 4), name="h"))
    lines = [line for t in (s, gradient) for line in te.explain(t).splitlines()]
    visited = [int(line.split()[1]) for line in lines if line.startswith("  points ")]
    assert len(visited) == 6  # of each statement; the program's line sums them
    assert all(v <= 4 * n for v in visited)
    return sum(visited)


def test_other_sums_stay_what_they_are():
    n = 100
    a = te.placeholder((n, n), name="a")
    k = te.reduce_axis(n, "k")
    lower = te.compute((n,), lambda i: te.sum(te.bracket(k <= i) * a[i, k], axis=k), "lower")
    band = te.compute((n,), lambda i: te.sum(te.bracket((k <= i) & (k > i - 3)) * a[0, k], axis=k), "band")
    every = te.compute((n,), lambda i: te.sum(te.bracket(2 * k <= i) * a[0, k], axis=k), "every")
    for t in (lower, band, every):
        assert all(recurrence_of(s.tensor) is None for s in te.eliminate(t).statements)


def test_sums_over_more_axes_and_along_the_last():
    n = 90
    x = np.random.default_rng(0).normal(size=(5, n, 3))

    @te.op
    def f(x):
        b, n, m = x.shape
        k, r = te.reduce_axis(n, "k"), te.reduce_axis(m, "r")
        return te.compute((b, n), lambda q, i: te.sum(te.bracket(k <= i) * x[q, k, r], axis=(k, r)))

    np.testing.assert_allclose(f(iv.asarray(x)).numpy(), np.cumsum(x.sum(-1), 1), atol=1e-10)
    g = iv.grad(lambda x: iv.sum(f(x) ** 2))(iv.asarray(x)).numpy()
    tail = np.cumsum((2 * np.cumsum(x.sum(-1), 1))[:, ::-1], 1)[:, ::-1]
    np.testing.assert_allclose(g, np.repeat(tail[:, :, None], 3, 2), atol=1e-8)
