"""Recurrences as tensor expressions against scans and loops: sums, a recurrent layer, an alignment."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.expressions import Op, pair
from benchmarks.workload import Inputs
from benchmarks.workloads.te_images import TARGET, normal

# --- sums ------------------------------------------------------------------------


def prefix_sums() -> Op:
    """Sums of the entries so far, of 16 columns."""

    def define(x: Any) -> Any:
        from iverson import te

        def step(s: Any) -> Any:
            return te.compute(x.shape, lambda t, i: s[t - 1, i] + x[t, i])

        return te.scan(x.shape, step, dtype=x.dtype)

    def with_torch(x: Any) -> Any:
        return x.cumsum(0)

    def with_jax(x: Any) -> Any:
        return x.cumsum(0)

    return Op(
        name="te_prefix_sums",
        sizes=(1024, 16_384, 65_536),
        size_is="steps",
        draw=lambda rng: rng.integers(1000, 65_537),
        make=lambda n, rng: {"x": normal(rng, n, 16)},
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=TARGET,
        group="composite",
    )


# --- a recurrent layer -----------------------------------------------------------

UNITS = 64


def gates(xp: Any, z: Any, c: Any) -> tuple[Any, Any]:
    """The state after a step of an LSTM from its four preactivations."""

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + xp.exp(-x))

    n = UNITS
    i, f, g, o = (z[..., k * n : (k + 1) * n] for k in range(4))
    c = sigmoid(f) * c + sigmoid(i) * xp.tanh(g)
    return sigmoid(o) * xp.tanh(c), c


def lstm() -> Op:
    """An LSTM of 64 units over one sequence of 64 features: all states."""

    def make(steps: int, rng: np.random.Generator) -> Inputs:
        shapes = {"x": (steps, UNITS), "w": (UNITS, 4 * UNITS), "u": (UNITS, 4 * UNITS)}
        scales = {"x": 1.0, "w": UNITS**-0.5, "u": UNITS**-0.5}
        return {name: normal(rng, *s) * np.float32(scales[name]) for name, s in shapes.items()}

    def define(x: Any, w: Any, u: Any) -> Any:
        from iverson import te

        steps, n = x.shape[0], UNITS
        j, k = te.reduce_axis(n, "j"), te.reduce_axis(n, "k")
        fed = te.compute((steps, 4 * n), lambda t, i: te.sum(x[t, j] * w[j, i], j), "fed")

        def sigmoid(v: Any) -> Any:
            return 1 / (1 + te.exp(-v))

        def step(h: Any, c: Any) -> Any:
            z = te.compute(fed.shape, lambda t, i: fed[t, i] + te.sum(h[t - 1, k] * u[k, i], k), "z")
            new = te.compute(
                c.shape,
                lambda t, i: sigmoid(z[t, i + n]) * c[t - 1, i] + sigmoid(z[t, i]) * te.tanh(z[t, i + 2 * n]),
            )
            out = te.compute(h.shape, lambda t, i: sigmoid(z[t, i + 3 * n]) * te.tanh(new[t, i]))
            return out, new

        return te.scan([(steps, n), (steps, n)], step, dtype=x.dtype)[0]

    def with_torch(x: Any, w: Any, u: Any) -> Any:
        import torch

        fed, found = x @ w, []
        h = c = torch.zeros(UNITS)
        for z in fed:
            h, c = gates(torch, z + h @ u, c)
            found.append(h)
        return torch.stack(found)

    def with_jax(x: Any, w: Any, u: Any) -> Any:
        import jax
        import jax.numpy as jnp

        def step(state: Any, z: Any) -> Any:
            h, c = gates(jnp, z + state[0] @ u, state[1])
            return (h, c), h

        zero = jnp.zeros(UNITS, x.dtype)
        return jax.lax.scan(step, (zero, zero), x @ w)[1]

    return Op(
        name="te_lstm",
        sizes=(32, 64, 128),
        size_is="steps",
        draw=lambda rng: rng.integers(30, 129),
        make=make,
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=TARGET,
        group="composite",
        unrolled=True,
    )


# --- an alignment ----------------------------------------------------------------

FAR = 1e6


def soft_dtw() -> Op:
    """The cost of aligning two sequences of n steps, softly (Cuturi and Blondel, 2017), by diagonals."""

    def define(cost: Any) -> Any:
        from iverson import te

        n = cost.shape[0]

        def step(r: Any) -> Any:
            def entry(t: Any, i: Any) -> Any:
                j = t - i
                left = r[t - 1, i]
                up, across = (te.select(i > 0, r[t - by, te.clamp(i - 1, 0, n - 1)], FAR) for by in (1, 2))
                least = te.minimum(te.minimum(left, up), across)
                soft = least - te.log(te.exp(least - left) + te.exp(least - up) + te.exp(least - across))
                before = te.select(t == 0, 0.0, soft)
                return te.select((j >= 0) & (j < n), cost[i, te.clamp(j, 0, n - 1)] + before, FAR)

            return te.compute(r.shape, entry, dtype=cost.dtype)

        table = te.scan((2 * n - 1, n), step, init=FAR, dtype=cost.dtype)
        return te.compute((1,), lambda _: table[2 * n - 2, n - 1])

    def diagonals(xp: Any, cost: Any) -> tuple[Any, Any]:
        """By diagonal and row: the costs, and whether there is such an entry."""
        n = cost.shape[0]
        i = xp.arange(n)[None]
        j = xp.arange(2 * n - 1)[:, None] - i
        return cost[i, xp.clip(j, 0, n - 1)], (j >= 0) & (j < n)

    def after(xp: Any, one: Any, two: Any, cost: Any, there: Any, first: Any) -> Any:
        up, across = (xp.concatenate([first, r[:-1]]) for r in (one, two))
        least = xp.minimum(xp.minimum(one, up), across)
        soft = least - xp.log(xp.exp(least - one) + xp.exp(least - up) + xp.exp(least - across))
        return xp.where(there, cost + soft, FAR)

    def with_torch(cost: Any) -> Any:
        import torch

        costs, there = diagonals(torch, cost)
        n, first = cost.shape[0], torch.full((1,), FAR)
        two = torch.full((n,), FAR)
        one = torch.where(there[0], costs[0], FAR)
        for c, t in zip(costs[1:], there[1:], strict=True):
            one, two = after(torch, one, two, c, t, first), one
        return one[n - 1 :]

    def with_jax(cost: Any) -> Any:
        import jax
        import jax.numpy as jnp

        costs, there = diagonals(jnp, cost)
        n, first = cost.shape[0], jnp.full((1,), FAR, cost.dtype)

        def step(state: Any, given: Any) -> Any:
            return (after(jnp, *state, *given, first), state[0]), None

        start = jnp.where(there[0], costs[0], FAR), jnp.full((n,), FAR, cost.dtype)
        (one, _), _ = jax.lax.scan(step, start, (costs[1:], there[1:]))
        return one[n - 1 :]

    return Op(
        name="te_soft_dtw",
        sizes=(32, 64, 128),
        size_is="steps",
        draw=lambda rng: rng.integers(30, 129),
        make=lambda n, rng: {"cost": np.abs(normal(rng, n, n))},
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=TARGET,
        group="composite",
        unrolled=True,
    )


OPS = (prefix_sums(), lstm(), soft_dtw())
WORKLOADS = tuple(workload for op in OPS for workload in pair(op))
