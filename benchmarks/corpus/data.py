"""Reads and writes at places that data says."""

from __future__ import annotations

from typing import Any

from benchmarks.corpus.rows import either, indices, row, starts, uniform


def embedding_bag(table: Any, at: Any, weight: Any) -> Any:
    import torch

    return torch.nn.functional.embedding_bag(at, table, mode="sum", per_sample_weights=weight)


def jax_embedding_bag(table: Any, at: Any, weight: Any) -> Any:
    import jax.numpy as jnp

    return jnp.einsum("bki,bk->bi", table[at], weight)


def _owners(p: Any) -> Any:
    import torch

    return torch.repeat_interleave(torch.arange(len(p) - 1), p[1:] - p[:-1])


def _jax_owners(p: Any, entries: int) -> Any:
    import jax.numpy as jnp

    return jnp.repeat(jnp.arange(len(p) - 1), p[1:] - p[:-1], total_repeat_length=entries)


def csr_product(p: Any, c: Any, v: Any, b: Any) -> Any:
    """The matrix's own gradient would be dense: with gradients, the rows are gathered and added up."""
    import torch

    n = len(p) - 1
    if v.requires_grad:
        return torch.zeros(n, b.shape[1]).index_add(0, _owners(p), v[:, None] * b[c])
    return torch.sparse_csr_tensor(p, c, v, (n, len(b))) @ b


def jax_csr_product(p: Any, c: Any, v: Any, b: Any) -> Any:
    import jax

    n = len(p) - 1
    owners = _jax_owners(p, len(v))
    return jax.ops.segment_sum(v[:, None] * b[c], owners, n, indices_are_sorted=True)


def row_softmax(p: Any, x: Any) -> Any:
    import torch

    n, owners, e = len(p) - 1, _owners(p), x.exp()
    total = torch.zeros(n).index_add(0, owners, e)
    return torch.zeros(n).index_add(0, owners, e / total[owners] * x)


def jax_row_softmax(p: Any, x: Any) -> Any:
    import jax

    n, owners, e = len(p) - 1, _jax_owners(p, len(x)), jax.numpy.exp(x)
    total = jax.ops.segment_sum(e, owners, n, indices_are_sorted=True)
    return jax.ops.segment_sum(e / total[owners] * x, owners, n, indices_are_sorted=True)


def histogram(x: Any, weight: Any) -> Any:
    import torch

    at = (x * 64).long()
    if weight.requires_grad:
        return torch.zeros(64).index_add(0, at, weight) + 0 * x.sum()
    return torch.bincount(at, weight, 64)


def jax_histogram(x: Any, weight: Any) -> Any:
    import jax.numpy as jnp

    return jnp.zeros(64, weight.dtype).at[(x * 64).astype("int32")].add(weight)


OPS = (
    row(
        "embedding_bag",
        "bags",
        (32, 256, 2048),
        lambda n: {"table": (5000, 64), "at": indices(5000, n, 16), "weight": (n, 16)},
        embedding_bag,
        jax_embedding_bag,
    ),
    row(
        "csr_product",
        "rows",
        (500, 2000, 10_000),
        lambda n: {"p": starts(n, 20 * n), "c": indices(n, 20 * n), "v": (20 * n,), "b": (n, 32)},
        csr_product,
        jax_csr_product,
    ),
    row(
        "row_softmax",
        "rows",
        (500, 2000, 10_000),
        lambda n: {"p": starts(n, 20 * n), "x": (20 * n,)},
        row_softmax,
        jax_row_softmax,
    ),
    row(
        "soft_histogram",
        "entries",
        (1000, 10_000, 50_000),
        lambda n: {"x": (n,), "centre": (32,)},
        **either(lambda xp, x, centre: xp.exp(-2 * (x[None] - centre[:, None]) ** 2).sum(1)),
    ),
    row(
        "histogram",
        "entries",
        (1000, 30_000, 300_000),
        lambda n: {"x": uniform(n, high=0.999), "weight": (n,)},
        histogram,
        jax_histogram,
    ),
)
