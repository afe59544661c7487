"""Transforms in each other, at random, against JAX: jit, vmap, grad, jvp, scan and cond, three deep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import iverson as iv
from tests.conformance.product import EXHAUSTIVE, SEED
from tests.graph.programs import matrices

jax = pytest.importorskip("jax")

COUNT = 200 if EXHAUSTIVE else 3
DEPTH = 3
Inner = Callable[[Any, Any, Any], Any]


class Library(NamedTuple):
    """Functions that two libraries have under one meaning."""

    np: Any
    jit: Any
    vmap: Any
    grad: Any
    jvp: Any
    cond: Any
    scan: Any
    concat: Any
    cumulative_sum: Any


ours = Library(
    iv,
    lambda f: iv.jit(f, interpret=True),
    iv.vmap,
    iv.grad,
    lambda f, x, t: iv.jvp(f, (x,), (t,))[1],
    iv.cond,
    iv.scan,
    iv.concat,
    iv.cumulative_sum,
)


def theirs() -> Library:
    return Library(
        jax.numpy,
        jax.jit,
        jax.vmap,
        jax.grad,
        lambda f, x, t: jax.jvp(f, (x,), (t,))[1],
        jax.lax.cond,
        jax.lax.scan,
        jax.numpy.concatenate,
        jax.numpy.cumsum,
    )


UNARY = ("sin", "cos", "tanh", "square", "abs", "sign", "floor", "expm1")
BINARY = ("add", "multiply", "subtract", "maximum", "minimum")
#: Ops on two 3x3 matrices: the library, the matrices, and a number that says more.
OPS: tuple[Callable[[Library, Any, Any, int], Any], ...] = (
    lambda L, p, q, k: getattr(L.np, UNARY[k % len(UNARY)])(L.np.tanh(p)),
    lambda L, p, q, k: getattr(L.np, BINARY[k % len(BINARY)])(p, q),
    lambda L, p, q, k: p @ q,
    lambda L, p, q, k: L.np.where(p > q, p * q, q),
    lambda L, p, q, k: L.np.log1p(L.np.abs(p)) / (q * q + 1),
    lambda L, p, q, k: L.np.sqrt(L.np.abs(p) + 0.5) - q.T,
    lambda L, p, q, k: L.np.sum(p, axis=k % 2) + L.np.max(q, axis=1, keepdims=True),
    lambda L, p, q, k: L.cumulative_sum(p, axis=k % 2),
    lambda L, p, q, k: L.np.stack([p, q], axis=k % 3).reshape(6, 3)[k % 4 : k % 4 + 3],
    lambda L, p, q, k: L.concat([p[: k % 3], q[k % 3 :]], axis=0),
    lambda L, p, q, k: L.np.roll(p, 1, axis=k % 2) * L.np.tril(q),
    lambda L, p, q, k: L.np.sort(p, axis=k % 2) - L.np.mean(q, axis=0),
    lambda L, p, q, k: p[np.array([2, 0, 2])] * q[:, np.array([1, 1, 0])],
    lambda L, p, q, k: L.np.linalg.inv(p * 0.1 + L.np.eye(3)) @ q,
    lambda L, p, q, k: L.np.prod(p, axis=0) * q,
)
#: What stands around an inner function of two matrices.
AROUND: tuple[Callable[[Library, Inner, Any, Any, int], Any], ...] = (
    lambda L, f, p, q, k: L.cond(L.np.sum(p) > 0, lambda u, v: f(L, u, v), lambda u, v: u - v * 2, p, q),
    lambda L, f, p, q, k: _scanned(L, f, p, q),
    lambda L, f, p, q, k: L.vmap(lambda u: L.np.sum(f(L, q * u, q) * u, axis=k % 2))(p),
    lambda L, f, p, q, k: L.vmap(lambda u, v: u * v[k % 3] + f(L, p * v, q)[k % 3], in_axes=(0, 1))(p, q),
    lambda L, f, p, q, k: L.grad(lambda u: L.np.sum(L.np.sin(f(L, u, q)) * q))(p),
    lambda L, f, p, q, k: L.jvp(lambda u: f(L, u, q), p, L.np.tanh(q)),
    lambda L, f, p, q, k: L.jit(lambda u: f(L, u, p) * q)(p),
    lambda L, f, p, q, k: L.vmap(L.grad(lambda u, v: L.np.sum(f(L, u, p) * v)), in_axes=(None, 0))(p, q)[
        k % 3
    ],
)


def _scanned(L: Library, f: Inner, p: Any, q: Any) -> Any:
    h, ys = L.scan(lambda h, z: (L.np.tanh(h + f(L, h, q) * z[0]), h * z[1]), p, q)
    return h + L.np.sum(ys, axis=0)


def program(seed: Any, depth: int = DEPTH) -> Inner:
    """A function of two matrices whose transforms hold such functions."""
    rng = np.random.default_rng(seed)
    a, b, c, d, *at = map(int, rng.integers(0, 1 << 20, 8))
    inner = program(int(rng.integers(1 << 30)), depth - 1) if depth > 1 else None

    def run(L: Library, x: Any, y: Any) -> Any:
        f = inner or (lambda L, u, v: L.np.sin(u) * v)
        p = L.np.tanh(OPS[a % len(OPS)](L, x, y, at[0]))
        q = L.np.tanh(AROUND[b % len(AROUND)](L, f, p, (x, y)[at[1] % 2], at[2])) * 1.5
        return OPS[c % len(OPS)](L, q, (x, y, p)[d % 3], at[3])

    return run


#: Ways to transform a function of two matrices; a number from it weighs no two entries alike.
WAYS: tuple[Callable[[Library, Any, Any, Any, Any], Any], ...] = (
    lambda L, f, loss, x, y: L.grad(loss, 1)(x, y),
    lambda L, f, loss, x, y: L.jvp(lambda u: L.grad(loss)(u, y), x, y),
    lambda L, f, loss, x, y: L.vmap(L.grad(loss), in_axes=(0, None))(L.np.stack([x, -y]), y),
    lambda L, f, loss, x, y: L.jit(L.grad(lambda u: L.np.sum(L.grad(loss)(u, y) ** 2)))(x),
)


def results(L: Library, f: Inner, way: int, x: Any, y: Any) -> tuple[Any, Any]:
    """A function, and what it becomes by one of the ways."""
    weights = np.linspace(0.5, 1.5, 9).reshape(3, 3)
    loss = lambda u, v: L.np.sum(f(L, u, v) * weights)
    return f(L, x, y), WAYS[way % len(WAYS)](L, f, loss, x, y)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(SEED * COUNT, SEED * COUNT + COUNT))
def test_transforms_in_each_other(seed: int) -> None:
    library, f, (x, y) = theirs(), program(seed, 1 + seed % DEPTH), matrices(seed)
    # Nearly all of the time is that of XLA: one program, which is not optimised.
    with jax.enable_x64(True):
        lowered = library.jit(lambda x, y: results(library, f, seed, x, y)).lower(x, y)
        expected = lowered.compile({"xla_backend_optimization_level": 0})(x, y)
    found = results(ours, f, seed, iv.asarray(x), iv.asarray(y))
    for a, b in zip(found, map(np.asarray, expected), strict=True):
        assert (a.shape, a.requires_grad) == (b.shape, False)
        scale = np.abs(b[np.isfinite(b)]).max(initial=1e-6)
        np.testing.assert_allclose(np.asarray(a.to_dense()), b, rtol=1e-8, atol=1e-8 * scale, equal_nan=True)
