"""Derivatives of products over points that data sort into entries: exact at zeros, to any order.

The oracle is what a product is: its derivative in some of its factors is the product of the others.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import te
from iverson.core.errors import GradientError
from iverson.te.lowering.program_work import work
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import EXHAUSTIVE


@te.op
def multiplied(x: te.Tensor, at: te.Tensor, *, n: int) -> te.Tensor:
    return te.scatter((n,), x.shape, lambda e: (at[e], x[e]), combine="prod")


def of_others(x: Any, at: Any, n: int, order: int) -> Any:
    """The derivative of the entries in `order` factors, at each choice of these."""
    found = np.zeros((n, *[len(x)] * order))
    for chosen in product(range(len(x)), repeat=order):
        for entry in range(n):
            if len(set(chosen)) == order and all(at[k] == entry for k in chosen):
                found[(entry, *chosen)] = np.prod(
                    [x[k] for k in np.flatnonzero(at == entry) if k not in chosen]
                )
    return found


@settings(deadline=None, max_examples=60 if EXHAUSTIVE else 2)
@given(st.data())
def test_derivatives_are_products_of_the_others(data: Any) -> None:
    """Of the first three orders, with none, one and several zeros among the factors of an entry."""
    n, count = 3, data.draw(st.sampled_from([1, 2, 6]))
    numbers = st.sampled_from([0.0, 0.0, 1.0, -2.0, 0.5, 3.0])
    x = np.array(data.draw(st.lists(numbers, min_size=count, max_size=count)))
    at = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=count, max_size=count)))

    def entries(x: Any) -> Any:
        return multiplied(x, at, n=n)

    f = entries
    for order in range(4):
        np.testing.assert_array_equal(np.asarray(f(x)), of_others(x, at, n, order))
        if EXHAUSTIVE or order < 3:
            np.testing.assert_array_equal(np.asarray(iv.jit(f)(x)), of_others(x, at, n, order))
        f = iv.jacobian(f)
    t = np.arange(1.0, count + 1)
    _, pushed = iv.jvp(entries, (x,), (t,))
    np.testing.assert_array_equal(np.asarray(pushed), of_others(x, at, n, 1) @ t)


def test_factors_that_nearly_vanish_are_no_zeros() -> None:
    """Nothing is divided: neither the product nor that of the others need be a number that is left."""
    x, at = np.array([1e-200, 3e-200]), np.zeros(2, int)
    gradient = iv.grad(lambda x: multiplied(x, at, n=1).sum())(x)
    np.testing.assert_array_equal(np.asarray(gradient), [3e-200, 1e-200])


@te.op
def rows(x: te.Tensor, at: te.Tensor) -> te.Tensor:
    """Rows of columns, of those where a condition on indices holds."""
    n, m = x.shape
    return te.scatter(
        (4, m), (n, m), lambda e, j: ((at[e], j), te.select(e < n - 1, te.sin(x[e, j]), 1.0)), combine="prod"
    )


def test_columns_are_lanes_of_one_chain() -> None:
    """Values, gradients and those of batches, against a loop; the work is in proportion to the points."""
    rng = np.random.default_rng(0)
    x, at = rng.standard_normal((9, 5)), rng.integers(0, 4, 9)
    x[3, 2] = x[5, 2] = 0.0

    def expected(x: Any) -> Any:
        made = np.ones((4, 5), complex)
        np.multiply.at(made, at[:-1], np.sin(x[:-1]))
        return made

    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        moved = x + 0j
        moved[place] += 1e-30j
        gradient[place] = expected(moved).imag.sum() / 1e-30
    np.testing.assert_allclose(np.asarray(rows(x, at)), expected(x + 0j).real, rtol=1e-14)
    total = iv.grad(lambda x: rows(x, at).sum())
    for found in (total(x), iv.jit(total)(x), iv.vmap(total)(x[None])[0], iv.vmap(iv.jit(total))(x[None])[0]):
        np.testing.assert_allclose(np.asarray(found), gradient, atol=1e-14)
    batch = iv.vmap(lambda x, at: iv.grad(lambda x: rows(x, at).sum())(x))(
        np.stack([x, x]), np.stack([at, at])
    )
    np.testing.assert_allclose(np.asarray(batch), [gradient, gradient], atol=1e-14)


@pytest.mark.parametrize("n", [50, 400])
def test_the_work_is_in_proportion_to_the_points(n: int) -> None:
    x, at, h = (
        te.placeholder((n,), name="x"),
        te.placeholder((n,), "int64", "at"),
        te.placeholder((n,), name="h"),
    )
    made = te.scatter((n,), (n,), lambda e: (at[e], x[e]), combine="prod")
    program = te.program_of(list(te.differentiate(made, x, h)))
    feed = {"x": np.ones(n), "at": np.arange(n), "h": np.ones(n)}
    found = work(lower(te.eliminate(program)), *(feed[t.name] for t in program.inputs))
    assert found.points <= 7 * n
    assert found.bytes <= 6 * (4 * 8 * n)  # six times what the product itself moves


def test_what_has_no_derivative_says_what_has() -> None:
    @te.op
    def ragged(x: te.Tensor, p: te.Tensor) -> te.Tensor:
        points = (p.shape[0] - 1, lambda i: (p[i], p[i + 1]))
        return te.scatter((p.shape[0] - 1,), points, lambda i, e: (i * 1 % 5, x[e]), combine="prod")

    p = np.array([0, 2, 3])
    np.testing.assert_array_equal(np.asarray(ragged(np.array([2.0, 3.0, 5.0]), p)), [6.0, 5.0])
    with pytest.raises(GradientError, match=r"'ragged'.*of ragged rows.*scatter the row of each entry first"):
        iv.grad(lambda x: ragged(x, p).sum())(np.ones(3))


def test_steps_without_a_tangent() -> None:
    """Of members of a scan that only floor and the like read an input through."""

    @te.op
    def stepped(x: te.Tensor) -> te.Tensor:
        return te.scan(x.shape, lambda s: te.compute(x.shape, lambda t: te.floor(x[t]) * 2))

    x = np.array([1.5, -0.5])
    value, pushed = iv.jvp(stepped, (x,), (x,))
    np.testing.assert_array_equal(np.asarray(value), [2.0, -2.0])
    np.testing.assert_array_equal(np.asarray(pushed), [0.0, 0.0])


@pytest.mark.peers
def test_against_peers() -> None:
    """PyTorch's products of entries with duplicates and zeros; JAX's, whose entries are written once."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    rng = np.random.default_rng(1)
    x, at = rng.standard_normal(20), rng.integers(0, 6, 20)
    x[[1, 4, 5]] = 0.0
    h = rng.standard_normal(6)
    theirs = torch.tensor(x, requires_grad=True)
    made = torch.ones(6, dtype=torch.float64).scatter_reduce(0, torch.tensor(at), theirs, "prod")
    (made * torch.tensor(h)).sum().backward()
    found = iv.grad(lambda x: (multiplied(x, at, n=6) * h).sum())(x)
    np.testing.assert_allclose(np.asarray(found), theirs.grad.numpy(), rtol=1e-12, atol=1e-13)
    once = rng.permutation(20)
    g = rng.standard_normal(20)

    def of_jax(x: Any) -> Any:
        return (jax.numpy.ones(20).at[once].multiply(x, unique_indices=True) * g).sum()

    found = iv.grad(lambda x: (multiplied(x, once, n=20) * g).sum())(x)
    with jax.enable_x64(True):
        expected = np.asarray(jax.grad(of_jax)(x))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=1e-13)
