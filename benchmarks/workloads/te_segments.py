"""Scatters as tensor expressions: the largest entry of each segment, and updates of the rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.expressions import Op, pair
from benchmarks.workload import Inputs

PER_SEGMENT, WIDTH = 20, 64


def segment_max() -> Op:
    """Segments of 20 entries on average, in order and none of them empty."""

    def make(n: int, rng: np.random.Generator) -> Inputs:
        more = rng.integers(0, n, (PER_SEGMENT - 1) * n)
        owner = np.sort(np.concatenate([np.arange(n), more])).astype(np.int32)
        return {"values": rng.standard_normal(owner.size, dtype=np.float32), "owner": owner}

    def define(values: Any, owner: Any) -> Any:
        from iverson import te

        count = owner.shape[0]
        return te.scatter(
            (count // PER_SEGMENT,), (count,), lambda e: (owner[e], values[e]), "top", combine="max"
        )

    def with_torch(values: Any, owner: Any) -> Any:
        start = values.detach().new_full((owner.numel() // PER_SEGMENT,), -np.inf)
        return start.scatter_reduce(0, owner.long(), values, "amax")

    def with_jax(values: Any, owner: Any) -> Any:
        import jax

        return jax.ops.segment_max(values, owner, owner.size // PER_SEGMENT, indices_are_sorted=True)

    return Op(
        name="te_segment_max",
        sizes=(1000, 5000, 20_000),
        size_is="segments",
        draw=lambda rng: rng.integers(1000, 20_001),
        make=make,
        define=define,
        torch=with_torch,
        jax=with_jax,
        target={"torch": 1.0, "jax": 1.0},
    )


def row_update() -> Op:
    """As many updates as the table has rows, at random rows: repeated ones are added up."""

    def make(n: int, rng: np.random.Generator) -> Inputs:
        normal = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
        return {"x": normal(n, WIDTH), "rows": rng.integers(0, n, n), "update": normal(n, WIDTH)}

    def define(x: Any, rows: Any, update: Any) -> Any:
        from iverson import te

        added = te.scatter(x.shape, update.shape, lambda e, j: ((rows[e], j), update[e, j]), "added")
        return te.compute(x.shape, lambda i, j: x[i, j] + added[i, j], "updated")

    def with_torch(x: Any, rows: Any, update: Any) -> Any:
        return x.index_add(0, rows, update)

    def with_jax(x: Any, rows: Any, update: Any) -> Any:
        return x.at[rows].add(update)

    return Op(
        name="te_row_update",
        sizes=(2000, 20_000, 100_000),
        size_is="rows",
        draw=lambda rng: rng.integers(1000, 100_001),
        make=make,
        define=define,
        torch=with_torch,
        jax=with_jax,
        target={"torch": 1.0, "jax": 1.0},
    )


OPS = (segment_max(), row_update())
WORKLOADS = tuple(workload for op in OPS for workload in pair(op))
