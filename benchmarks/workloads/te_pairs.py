"""Tensor expressions against compositions of array operations: points, sequences and edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.expressions import Op, pair
from benchmarks.workload import Inputs
from benchmarks.workloads.te_images import TARGET, normal

# --- banded attention ------------------------------------------------------------

HEADS, WIDTH, REACH = 8, 64, 32


def banded_attention() -> Op:
    """8 heads of width 64; each place attends to those at most 32 away."""

    def define(q: Any, k: Any, v: Any) -> Any:
        from iverson import te

        n = q.shape[1]
        bands = (HEADS, n, 2 * REACH + 1)
        d, w, top = te.reduce_axis((0, WIDTH), "d"), te.reduce_axis((0, bands[2]), "w"), -1e30

        def near(i: Any, w: Any) -> Any:
            return (i + w - REACH >= 0) & (i + w - REACH < n)

        def score(h: Any, i: Any, w: Any) -> Any:
            product = te.if_then_else(near(i, w), q[h, i, d] * k[h, i + w - REACH, d], 0)
            return te.sum(product, axis=d)

        s = te.compute(bands, score, "scores")
        scaled = lambda h, i, w: te.if_then_else(near(i, w), s[h, i, w] * WIDTH**-0.5, top)
        most = te.compute(bands[:2], lambda h, i: te.max(scaled(h, i, w), axis=w), "most")
        power = te.compute(
            bands,
            lambda h, i, w: te.if_then_else(near(i, w), te.F.exp(s[h, i, w] * WIDTH**-0.5 - most[h, i]), 0),
            "power",
        )
        total = te.compute(bands[:2], lambda h, i: te.sum(power[h, i, w], axis=w), "total")

        def entry(h: Any, i: Any, e: Any) -> Any:
            term = te.if_then_else(near(i, w), power[h, i, w] * v[h, i + w - REACH, e], 0)
            return te.sum(term, axis=w)

        mixed = te.compute(q.shape, entry, "mixed")
        return te.compute(q.shape, lambda h, i, e: mixed[h, i, e] / total[h, i], "attention")

    def with_torch(q: Any, k: Any, v: Any) -> Any:
        import torch

        place = torch.arange(q.shape[1])
        near = (place[:, None] - place[None, :]).abs() <= REACH
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=near)

    def with_jax(q: Any, k: Any, v: Any) -> Any:
        import jax
        import jax.numpy as jnp

        place = jnp.arange(q.shape[1])
        near = jnp.abs(place[:, None] - place[None, :]) <= REACH
        scores = jnp.where(near, jnp.einsum("hid,hjd->hij", q, k) * WIDTH**-0.5, -1e30)
        return jnp.einsum("hij,hjd->hid", jax.nn.softmax(scores, axis=-1), v)

    return Op(
        name="te_banded_attention",
        sizes=(256, 512, 1024),
        size_is="length",
        draw=lambda rng: rng.integers(200, 1025),
        make=lambda n, rng: {name: normal(rng, HEADS, n, WIDTH) for name in "qkv"},
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=TARGET,
        group="composite",
    )


# --- point clouds ----------------------------------------------------------------


def rbf() -> Op:
    """y_i = sum_j exp(-|x_i - z_j|^2 / 2) v_j for n x n points in space."""

    def define(x: Any, z: Any, v: Any) -> Any:
        from iverson import te

        n = x.shape[0]
        j = te.reduce_axis((0, n), "j")

        def entry(i: Any) -> Any:
            square = sum((x[i, d] - z[j, d]) * (x[i, d] - z[j, d]) for d in range(3))
            return te.sum(te.F.exp(-0.5 * square) * v[j], axis=j)

        return te.compute((n,), entry, "y")

    def with_torch(x: Any, z: Any, v: Any) -> Any:
        import torch

        square = (x * x).sum(1)[:, None] + (z * z).sum(1) - 2 * x @ z.T
        return torch.exp(-0.5 * square) @ v

    def with_jax(x: Any, z: Any, v: Any) -> Any:
        import jax.numpy as jnp

        square = (x * x).sum(1)[:, None] + (z * z).sum(1) - 2 * x @ z.T
        return jnp.exp(-0.5 * square) @ v

    return Op(
        name="te_rbf",
        sizes=(512, 1024, 2048),
        size_is="points",
        draw=lambda rng: rng.integers(300, 2049),
        make=lambda n, rng: {"x": normal(rng, n, 3), "z": normal(rng, n, 3), "v": normal(rng, n)},
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=TARGET,
        group="composite",
    )


def chamfer() -> Op:
    """Squared distances from each point of a cloud to the nearest of the other, both ways."""

    def define(x: Any, z: Any) -> Any:
        from iverson import te

        n = x.shape[0]
        i, j = te.reduce_axis((0, n), "i"), te.reduce_axis((0, n), "j")

        def square(i: Any, j: Any) -> Any:
            return sum((x[i, d] - z[j, d]) * (x[i, d] - z[j, d]) for d in range(3))

        there = te.compute((n,), lambda a: te.min(square(a, j), axis=j), "there")
        back = te.compute((n,), lambda b: te.min(square(i, b), axis=i), "back")
        return te.compute((n,), lambda a: there[a] + back[a], "chamfer")

    def with_torch(x: Any, z: Any) -> Any:
        square = (x * x).sum(1)[:, None] + (z * z).sum(1) - 2 * x @ z.T
        return square.amin(1) + square.amin(0)

    def with_jax(x: Any, z: Any) -> Any:
        square = (x * x).sum(1)[:, None] + (z * z).sum(1) - 2 * x @ z.T
        return square.min(1) + square.min(0)

    return Op(
        name="te_chamfer",
        sizes=(512, 1024, 2048),
        size_is="points",
        draw=lambda rng: rng.integers(300, 2049),
        make=lambda n, rng: {"x": normal(rng, n, 3), "z": normal(rng, n, 3)},
        define=define,
        torch=with_torch,
        jax=with_jax,
        kinked=True,
        target=TARGET,
        group="composite",
    )


# --- edges -----------------------------------------------------------------------


def message_passing() -> Op:
    """Rows of width 32 gathered along edges, weighted, and summed at the other end."""

    def make(edges: int, rng: np.random.Generator) -> Inputs:
        nodes = edges // 10
        return {
            "x": normal(rng, nodes, 32),
            "weight": normal(rng, edges),
            "source": rng.integers(0, nodes, edges),
            "target": rng.integers(0, nodes, edges),
        }

    def define(x: Any, weight: Any, source: Any, target: Any) -> Any:
        from iverson import te

        return te.scatter(
            x.shape,
            (weight.shape[0], 32),
            lambda e, f: ((target[e], f), weight[e] * x[source[e], f]),
            "passed",
        )

    def with_torch(x: Any, weight: Any, source: Any, target: Any) -> Any:
        import torch

        return torch.zeros_like(x).index_add(0, target, weight[:, None] * x[source])

    def with_jax(x: Any, weight: Any, source: Any, target: Any) -> Any:
        import jax.numpy as jnp

        return jnp.zeros_like(x).at[target].add(weight[:, None] * x[source])

    return Op(
        name="te_message_passing",
        sizes=(20_000, 60_000, 200_000),
        size_is="edges",
        draw=lambda rng: rng.integers(10_000, 200_001),
        make=make,
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=TARGET,
        group="composite",
    )


OPS = (banded_attention(), rbf(), chamfer(), message_passing())
WORKLOADS = tuple(workload for op in OPS for workload in pair(op))
