"""Sums that move back through what is linear: work counted, and drawn programs against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import iverson as iv
from iverson.core.counting import work
from iverson.graph.passes import simplified
from iverson.graph.passes.sum_collapsing import collapsing


def weights(*sizes):
    rng = np.random.default_rng(0)
    pairs = itertools.pairwise(sizes)
    return [iv.asarray(rng.standard_normal(s) / 2) for s in pairs]


def network(ws, activation):
    def f(x):
        for w in ws[:-1]:
            x = activation(x @ w)
        return (x @ ws[-1]).sum()

    return f


def sum_of_second_derivatives(f):
    """A Laplacian as users write it: second derivatives along all unit vectors, mapped, and their sum."""

    def second(x, v):
        return iv.jvp(lambda x: iv.jvp(f, (x,), (v,))[1], (x,), (v,))[1]

    return lambda x: iv.vmap(lambda v: second(x, v))(iv.eye(x.size)).sum()


def multiply_adds(f, *args):
    compiled = iv.jit(f)
    compiled(*args)
    with work.counting() as counted:
        compiled(*args)
    return counted.multiply_adds


@pytest.mark.parametrize("activation", [iv.tanh, iv.sin, iv.nn.silu])
@pytest.mark.parametrize("d", [2, 5])
def test_a_layer_of_mapped_second_derivatives_takes_d_plus_2_rows(activation, d):
    """The value, the derivative along each direction and the sum of second ones, as of `laplacian`."""
    ws, x = weights(d, 8, 8, 1), iv.asarray(np.linspace(-0.5, 0.7, d))
    f = network(ws, activation)
    g = sum_of_second_derivatives(f)
    assert float(iv.jit(g)(x)) == pytest.approx(float(iv.laplacian(f)(x)[1]), rel=1e-10)
    # The derivative of x along unit vectors is a constant; the last layer has sums alone.
    assert multiply_adds(g, x) == d * 8 + (d + 2) * 64 + 8
    assert float(iv.jit(iv.grad(g))(x)[0]) == pytest.approx(float(iv.grad(g)(x)[0]), rel=1e-9)


def test_fourth_derivatives_collapse_too():
    ws, x = weights(3, 8, 8, 1), iv.asarray([0.3, -0.2, 0.5])
    f = network(ws, iv.tanh)

    def fourth(x, v):
        g = f
        for _ in range(4):
            g = lambda x, g=g: iv.jvp(g, (x,), (v,))[1]
        return g(x)

    total = lambda x: iv.vmap(lambda v: fourth(x, v))(iv.eye(3)).sum()
    each = lambda x: iv.vmap(lambda v: fourth(x, v))(iv.eye(3))
    assert float(iv.jit(total)(x)) == pytest.approx(float(each(x).sum()), rel=1e-9)
    assert multiply_adds(total, x) < multiply_adds(each, x)


def test_a_value_that_is_read_elsewhere_stays():
    a, b = iv.ones((4, 3)), iv.ones((3, 5))

    def f(a, b):
        y = a @ b
        return y, y.sum(axis=0)

    assert multiply_adds(f, a, b) == 4 * 3 * 5
    assert multiply_adds(lambda a, b: (a @ b).sum(axis=0), a, b) == 3 * 5


def test_a_report_says_what_collapses_and_where_sums_stop():
    ws, x = weights(3, 8, 8, 1), iv.asarray([0.3, -0.2, 0.5])
    report = iv.explain.report(sum_of_second_derivatives(network(ws, iv.tanh)))(x)
    assert report.avoided["collapsed"].multiply_adds == 2 * 64 + 2 * 8
    text = report.text(steps=True)
    assert "several factors of a product differ along the axis" in text
    a, b = iv.ones((4, 3)), iv.ones((3, 5))

    def f(a, b):
        y = a @ b
        return y, y.sum(axis=0)

    assert "collapsed   a sum stays at (4, 5): the result of matmul is read elsewhere" in (
        iv.explain.report(f)(a, b).text(steps=True)
    )


def program(rng):
    """A drawn chain of ops that are linear in x along an axis, as functions of iverson and of NumPy."""
    shape = [int(n) for n in rng.integers(1, 5, 3)]
    steps = []
    current = list(shape)
    for _ in range(int(rng.integers(2, 8))):
        kind = rng.choice(["matmul", "scale", "add", "where", "permute", "negative", "divide", "batch"])
        if kind in ("matmul", "batch"):
            lead = current[:-2] if kind == "batch" else []
            w = rng.standard_normal((*[int(rng.choice([1, n])) for n in lead], current[-1], 3))
            current[-1] = 3
            steps.append(lambda xp, x, w=w: xp.matmul(x, xp.asarray(w)))
        elif kind == "permute":
            order = tuple(int(k) for k in rng.permutation(3))
            current = [current[k] for k in order]
            steps.append(lambda xp, x, order=order: xp.permute_dims(x, order))
        elif kind == "negative":
            steps.append(lambda xp, x: -x)
        else:
            c = rng.standard_normal([int(rng.choice([1, n])) for n in current[int(rng.integers(0, 3)) :]])
            steps.append(
                {
                    "scale": lambda xp, x, c=c: x * xp.asarray(c),
                    "divide": lambda xp, x, c=c: x / xp.asarray(c),
                    "add": lambda xp, x, c=c: x + xp.asarray(c),
                    "where": lambda xp, x, c=c: xp.where(xp.asarray(c > 0), x, xp.asarray(c)),
                }[str(kind)]
            )
    axes = tuple(int(k) for k in np.flatnonzero(rng.random(3) < 0.6))
    keep = bool(rng.random() < 0.5)

    def f(xp, x):
        for step in steps:
            x = step(xp, x)
        return xp.sum(x, axis=axes, keepdims=keep)

    return f, shape


@pytest.mark.parametrize("seed", range(60))
def test_drawn_linear_programs(seed):
    rng = np.random.default_rng(seed)
    f, shape = program(rng)
    x = rng.standard_normal(shape)
    compiled = iv.jit(lambda x: f(iv, x))
    expected = f(np, x)
    found = compiled(iv.asarray(x)).numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(
        found, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.max(np.abs(expected), initial=0))
    )
    graph = simplified(compiled.graph(iv.asarray(x)))
    assert str(collapsing(graph)) == str(graph)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1), (17, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex128"])
def test_sizes_and_dtypes(shape, dtype):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(shape).astype(dtype), rng.standard_normal((shape[1], 2)).astype(dtype)
    found = iv.jit(lambda a, b: (2 * (a @ b) + 1).sum(axis=0))(iv.asarray(a), iv.asarray(b))
    tolerance = {"float16": 2e-2, "float32": 1e-5, "complex128": 1e-12}[dtype]
    assert str(found.dtype) == dtype
    np.testing.assert_allclose(found.numpy(), (2 * (a @ b) + 1).sum(axis=0), rtol=tolerance, atol=tolerance)
