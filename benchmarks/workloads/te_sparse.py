"""Loops over stored entries of random CSR patterns, 20 a row, against the peers' sparse operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.workload import GRADIENT_BUDGET, OURS_FORWARD, Call, Inputs, Workload

PER_ROW, WIDTH = 20, 64


def make(n: int, rng: np.random.Generator) -> Inputs:
    """An n x n pattern with 20 n entries, and dense operands for all of the workloads."""
    at = rng.choice(n * n, PER_ROW * n, replace=False) if n < 2000 else rng.integers(0, n * n, PER_ROW * n)
    at = np.unique(at)
    rows, columns = at // n, at % n
    normal = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
    return {
        "rows": np.searchsorted(rows, np.arange(n + 1)).astype(np.int32),
        "columns": columns.astype(np.int32),
        "owner": rows.astype(np.int32),
        "values": normal(at.size),
        "weights": normal(at.size),
        "a": normal(n, WIDTH),
        "b": normal(n, WIDTH),
        "s": normal(n),
        "t": normal(n),
    }


# --- ours ------------------------------------------------------------------------


def spmm(inputs: Inputs, *, gradients: bool) -> Call:
    from benchmarks.nests import transposed
    from iverson.kernels.sparse import entry_loops

    rows, columns, values, a, b = (inputs[k] for k in ("rows", "columns", "values", "a", "b"))
    kind = values.dtype, rows.dtype, b.shape[1]
    forward, sample, turn = entry_loops.spmm(*kind), entry_loops.sddmm(*kind), transposed()
    n = {"n": len(a), "m": len(b)}

    def call() -> list[np.ndarray]:
        out = np.empty_like(a)
        forward(rows, columns, values, b, out)
        if not gradients:
            return [out]
        dv, db = np.empty_like(values), np.zeros_like(b)
        sample(rows, columns, a, b, dv, **n)
        turn(rows, columns, values, a, db, **n)
        return [out, dv, db]

    return call


def sddmm(inputs: Inputs, *, gradients: bool) -> Call:
    from benchmarks.nests import transposed
    from iverson.kernels.sparse import entry_loops

    rows, columns, g, a, b = (inputs[k] for k in ("rows", "columns", "weights", "a", "b"))
    kind = g.dtype, rows.dtype, b.shape[1]
    forward, product, turn = entry_loops.sddmm(*kind), entry_loops.spmm(*kind), transposed()
    n = {"n": len(a), "m": len(b)}

    def call() -> list[np.ndarray]:
        out = np.empty_like(g)
        forward(rows, columns, a, b, out, **n)
        if not gradients:
            return [out]
        da, db = np.empty_like(a), np.zeros_like(b)
        product(rows, columns, g, b, da)
        turn(rows, columns, g, a, db, **n)
        return [out, da, db]

    return call


def softmax(inputs: Inputs, *, gradients: bool) -> Call:
    from iverson.kernels.sparse import entry_loops

    rows, values, g = (inputs[k] for k in ("rows", "values", "weights"))
    kind, n = (values.dtype, rows.dtype), len(rows) - 1
    forward, pullback = entry_loops.segment_softmax(*kind), entry_loops.softmax_pullback(*kind)

    def call() -> list[np.ndarray]:
        out = np.empty_like(values)
        forward(rows, values, out, n=n)
        if not gradients:
            return [out]
        dv = np.empty_like(values)
        pullback(rows, out, g, dv, n=n)
        return [out, dv]

    return call


def attention(inputs: Inputs, *, gradients: bool) -> Call:
    from benchmarks import nests

    rows, columns, s, t, g, h = (inputs[k] for k in ("rows", "columns", "s", "t", "a", "b"))
    forward, pullback = nests.attention(), nests.attention_pullback()
    n = {"n": len(s), "m": len(t)}

    def call() -> list[np.ndarray]:
        out, weights = np.empty_like(g), np.empty(len(columns), np.float32)
        forward(rows, columns, s, t, h, weights, out, **n)
        if not gradients:
            return [out]
        ds, dt, dh, share = np.empty_like(s), np.zeros_like(t), np.zeros_like(h), np.empty_like(weights)
        pullback(rows, columns, s, t, h, weights, g, ds, dt, dh, share, **n)
        return [out, ds, dt, dh]

    return call


# --- peers -----------------------------------------------------------------------


def torch_spmm(p: Mapping[str, Any], *, gradients: bool) -> Any:
    """The gradients by hand: autograd's, in the values, is a dense n x n matrix."""
    import torch

    n = len(p["a"])
    matrix = torch.sparse_csr_tensor(p["rows"], p["columns"], p["values"], (n, n))
    zeros = torch.sparse_csr_tensor(p["rows"], p["columns"], torch.zeros_like(p["values"]), (n, n))

    def call() -> Any:
        out = matrix @ p["b"]
        if not gradients:
            return [out]
        dm = torch.sparse.sampled_addmm(zeros, p["a"], p["b"].T)
        return [out, dm.values(), matrix.transpose(0, 1) @ p["a"]]

    return call


def torch_sddmm(p: Mapping[str, Any], *, gradients: bool) -> Any:
    """The forward is `sampled_addmm`; its gradients are two products with the pattern."""
    import torch

    n = len(p["a"])
    pattern = torch.sparse_csr_tensor(p["rows"], p["columns"], torch.zeros_like(p["values"]), (n, n))
    g = torch.sparse_csr_tensor(p["rows"], p["columns"], p["weights"], (n, n))
    right = p["b"].T.contiguous()

    def call() -> Any:
        out = torch.sparse.sampled_addmm(pattern, p["a"], right).values()
        return [out, g @ p["b"], g.transpose(0, 1) @ p["a"]] if gradients else [out]

    return call


def torch_segments(values: Any, owner: Any, n: int) -> Any:
    import torch

    top = torch.full((n,), -torch.inf).scatter_reduce(0, owner, values, "amax")
    e = torch.exp(values - top.detach()[owner])
    return e / torch.zeros(n).index_add(0, owner, e)[owner]


def torch_softmax(p: Mapping[str, Any], *, gradients: bool) -> Any:
    import torch

    owner, values = p["owner"].long(), p["values"].requires_grad_(gradients)

    def call() -> Any:
        out = torch_segments(values, owner, len(p["a"]))
        return [out, *torch.autograd.grad(out, [values], p["weights"])] if gradients else [out]

    return call


def torch_attention(p: Mapping[str, Any], *, gradients: bool) -> Any:
    import torch

    owner, columns, n = p["owner"].long(), p["columns"].long(), len(p["a"])
    s, t, h = (p[k].requires_grad_(gradients) for k in ("s", "t", "b"))

    def call() -> Any:
        scores = torch.nn.functional.leaky_relu(s[owner] + t[columns], 0.2)
        weights = torch_segments(scores, owner, n)
        out = torch.zeros_like(h).index_add(0, owner, weights[:, None] * h[columns])
        return [out, *torch.autograd.grad(out, [s, t, h], p["a"])] if gradients else [out]

    return call


def jax_segments(values: Any, owner: Any, n: int) -> Any:
    import jax

    known = {"num_segments": n, "indices_are_sorted": True}
    top = jax.lax.stop_gradient(jax.ops.segment_max(values, owner, **known))
    e = jax.numpy.exp(values - top[owner])
    return e / jax.ops.segment_sum(e, owner, **known)[owner]


def jax_spmm(p: Mapping[str, Any], values: Any, b: Any) -> Any:
    import jax

    n = len(p["a"])
    terms = values[:, None] * b[p["columns"]]
    return jax.ops.segment_sum(terms, p["owner"], num_segments=n, indices_are_sorted=True)


def jax_sddmm(p: Mapping[str, Any], a: Any, b: Any) -> Any:
    return (a[p["owner"]] * b[p["columns"]]).sum(1)


def jax_softmax(p: Mapping[str, Any], values: Any) -> Any:
    return jax_segments(values, p["owner"], len(p["a"]))


def jax_attention(p: Mapping[str, Any], s: Any, t: Any, b: Any) -> Any:
    import jax

    scores = jax.nn.leaky_relu(s[p["owner"]] + t[p["columns"]], 0.2)
    return jax_spmm(p, jax_softmax(p, scores), b)


# --- workloads -------------------------------------------------------------------


def with_torch(function: Callable[..., Any], inputs: Inputs, *, gradients: bool) -> Call:
    import torch

    call = function({name: torch.tensor(a) for name, a in inputs.items()}, gradients=gradients)
    return call if gradients else torch.no_grad()(call)


def with_jax(
    function: Callable[..., Any], moving: tuple[str, ...], head: str, inputs: Inputs, *, gradients: bool
) -> Call:
    import jax

    given = {name: jax.numpy.asarray(a) for name, a in inputs.items()}

    @jax.jit
    def program(p: dict[str, Any]) -> Any:
        out, pull = jax.vjp(lambda *m: function(p, *m), *(p[name] for name in moving))
        return [out, *pull(p[head])] if gradients else [out]

    return lambda: jax.block_until_ready(program(given))


def pair(
    name: str,
    ours: Callable[..., Call],
    peers: tuple[Callable[..., Any], Callable[..., Any]],
    moving: tuple[str, ...],
    head: str,
    target: dict[str, float],
) -> list[Workload]:
    """The forward, and the forward with all gradients."""
    made = []
    for gradients in (False, True):
        run: dict[str, Callable[[Inputs], Call]] = {
            "iverson": lambda x, g=gradients: ours(x, gradients=g),
            "torch": lambda x, g=gradients: with_torch(peers[0], x, gradients=g),
            "jax": lambda x, g=gradients: with_jax(peers[1], moving, head, x, gradients=g),
        }
        goal, part = dict(target), frozenset[str]()
        if gradients:
            run[OURS_FORWARD] = lambda x: ours(x, gradients=False)
            goal[OURS_FORWARD] = 1 + GRADIENT_BUDGET
            part = frozenset((OURS_FORWARD,))
        made.append(
            Workload(
                name=f"{name}_gradients" if gradients else name,
                sizes=(1000, 5000, 20_000),
                size_is="rows",
                draw=lambda rng: rng.integers(1000, 20_001),
                make=make,
                run=run,
                part=part,
                target=goal,
            )
        )
    return made


WORKLOADS = (
    *pair("te_spmm", spmm, (torch_spmm, jax_spmm), ("values", "b"), "a", {"torch": 0.5}),
    *pair("te_sddmm", sddmm, (torch_sddmm, jax_sddmm), ("a", "b"), "weights", {"torch": 0.2}),
    *pair("te_segment_softmax", softmax, (torch_softmax, jax_softmax), ("values",), "weights", {"jax": 0.5}),
    *pair(
        "te_graph_attention",
        attention,
        (torch_attention, jax_attention),
        ("s", "t", "b"),
        "a",
        {"torch": 0.1, "jax": 0.1},
    ),
)
