"""What compiled functions compute of a gradient, and keep. That it is the function's is in `test_ways`."""

from __future__ import annotations

import numpy as np

import iverson as iv


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


def test_series_of_what_was_joined_are_compiled():
    """A continued fraction of 120 terms, of an operand that is chosen among others, is a deep expression."""

    def f(t):
        return iv.special.i0e(2 * iv.concat([t, t[:2], iv.sin(t)])).sum()

    t = iv.asarray([0.3, -1.2, 2.0])
    found, expected = iv.jit(iv.grad(f))(t), iv.grad(f)(t)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-13)


def test_an_entry_beside_the_whole_of_what_it_is_read_from():
    """Axes that are one loop are one axis of every access, also of those at one place."""

    def f(x, e):
        t = iv.sin(x) @ e
        u = t * t[1, 2] + t
        v = iv.stack([u, iv.cos(u)], axis=1)
        return u, v / v[0, 1, 2], v - v[1, :, :1], v[:, 0] * t[0] + t[1, 0]

    x, e = iv.asarray(np.arange(6.0).reshape(2, 3)), iv.eye(3)
    for found, expected in zip(iv.jit(f)(x, e), f(x, e), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-14, atol=1e-15)
