"""Compiled functions and their derivatives, of any order, are those of the function."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import iverson as iv
from iverson.ops import TABLE
from tests.conformance.product import EXHAUSTIVE, SEED
from tests.graph.programs import as_tuple, calls_of, close, loss_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
#: Ops that read entries to know the shape of what they give, or whether it exists.
READS_ENTRIES = {"pack", "unpack"}
NAMES = tuple(n for n, op in TABLE.items() if op.samples and n not in READS_ENTRIES)


def agree(f, g, args):
    """Two functions that mean the same, where they can be computed at all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = as_tuple(f(*args))
        except (iv.errors.MissingRuleError, iv.errors.LinearAlgebraError) as error:
            with pytest.raises(type(error)):
                g(*args)
            return
        for a, b in zip(as_tuple(g(*args)), expected, strict=True):
            close(a, b)


def second(f, positions):
    """A gradient of the gradient, by way of a function that no entry of it drops out of."""
    return iv.grad(loss_of(iv.grad(f, positions)), positions)


@pytest.mark.parametrize("name", NAMES)
def test_every_op_compiled_and_its_derivatives(name):
    calls = calls_of(name)
    if not EXHAUSTIVE:
        calls = [calls[SEED % len(calls)]]
    for call in calls:
        args = [iv.asarray(a) for a in call.args]
        agree(call.function, iv.jit(call.function), args)
        if not args or not TABLE[name].differentiable:
            continue
        loss, at = loss_of(call.function), tuple(range(len(args)))
        compiled = iv.jit(loss, interpret=not EXHAUSTIVE)  # the gradient in machine code is in test_lower
        agree(iv.grad(loss, at), iv.grad(compiled, at), args)
        agree(lambda *xs: iv.jvp(loss, xs, xs), lambda *xs: iv.jvp(compiled, xs, xs), args)  # noqa: B023
        agree(second(loss, at), second(compiled, at), args)
        if EXHAUSTIVE:
            third = second(loss_of(iv.grad(loss, at)), at)
            agree(third, iv.jit(third), args)


def test_a_gradient_that_nobody_asked_for_is_not_computed():
    """Of an MLP's backward to its input alone, no product for weights; and the variant is kept."""
    rng = np.random.default_rng(0)
    weights = [iv.asarray(rng.normal(size=(8, 8))) for _ in range(4)]

    def mlp(weights, x):
        for w in weights:
            x = iv.relu(x @ w)
        return x.sum()

    f = iv.jit(mlp)
    x = iv.asarray(rng.normal(size=(3, 8)))
    for _ in range(2):
        with iv.explain.count() as count:
            iv.grad(f, 1)(weights, x)
        assert count.products == 8  # four forward, four back


def test_a_compiled_function_in_a_training_loop():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    w = iv.asarray(np.zeros(3), requires_grad=True)
    loss = iv.jit(lambda w, x, y: ((x @ w - y) ** 2).mean())
    optimizer = iv.optim.SGD([w], lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        loss(w, x, y).backward()
        optimizer.step()
    np.testing.assert_allclose(w.detach().numpy(), np.linalg.lstsq(x, y, rcond=None)[0], rtol=1e-6)
    assert loss.cache_size == 1
