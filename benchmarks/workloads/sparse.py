"""Sparse operations through layouts and autograd, as a user writes them, against the loops on raw arrays.

The patterns, operands and peers are those of `benchmarks.workloads.te_sparse`. "iverson raw" is its loops,
called on NumPy arrays with nothing between: what layouts and the tape may add to them is the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from benchmarks.workload import Call, Inputs, Workload
from benchmarks.workloads import te_sparse
from benchmarks.workloads.te_sparse import make, with_jax, with_torch

RAW = "iverson raw"
OVER_RAW = 1.15

Given = Mapping[str, Any]


def with_iverson(
    function: Callable[[Given], Any], moving: tuple[str, ...], head: str, inputs: Inputs, *, gradients: bool
) -> Call:
    """The function, and its gradients in the inputs that move for the cotangent ``head``.

    ``pattern`` is a CSR matrix with the workload's entries; other inputs are tensors.
    """
    import iverson as iv
    from iverson.autograd import grad

    given = {name: iv.asarray(a, requires_grad=gradients and name in moving) for name, a in inputs.items()}
    n = len(inputs["a"])
    given["pattern"] = iv.sparse_csr_tensor(inputs["rows"], inputs["columns"], inputs["values"], (n, n))
    wanted = [given[name] for name in moving]

    def call() -> list[Any]:
        out = function(given)
        return [out, *grad(out, wanted, grad_outputs=given[head])] if gradients else [out]

    return call


def spmm(p: Given) -> Any:
    return p["pattern"].with_values(p["values"]) @ p["b"]


def sddmm(p: Given) -> Any:
    import iverson as iv

    return iv.sampled_matmul(p["a"], p["b"].T, p["pattern"]).values()


def softmax(p: Given) -> Any:
    import iverson as iv

    return iv.segment_softmax(p["values"], p["pattern"])


@cache
def scores() -> Any:
    """leaky(s[row] + t[column]) at each entry, as one compiled expression."""
    from iverson import te

    @te.op
    def score(s: Any, t: Any, owner: Any, columns: Any) -> Any:
        def at(p: Any) -> Any:
            raw = s[owner[p]] + t[columns[p]]
            return raw * te.select(raw > 0, 1.0, 0.2)

        return te.compute(owner.shape, at)

    return score


def attention(p: Given) -> Any:
    import iverson as iv

    raw = scores()(p["s"], p["t"], p["owner"], p["columns"])
    return p["pattern"].with_values(iv.segment_softmax(raw, p["pattern"])) @ p["b"]


def scipy_spmm(inputs: Inputs) -> Call:
    import scipy.sparse

    n = len(inputs["a"])
    matrix = scipy.sparse.csr_array((inputs["values"], inputs["columns"], inputs["rows"]), (n, n))
    return lambda: matrix @ inputs["b"]


def pair(
    name: str,
    ours: Callable[[Given], Any],
    raw: Callable[..., Call],
    peers: tuple[Callable[..., Any], Callable[..., Any]],
    moving: tuple[str, ...],
    head: str,
) -> list[Workload]:
    """The forward, and the forward with all gradients."""
    made = []
    for gradients in (False, True):
        run: dict[str, Callable[[Inputs], Call]] = {
            "iverson": lambda x, g=gradients: with_iverson(ours, moving, head, x, gradients=g),
            "torch": lambda x, g=gradients: with_torch(peers[0], x, gradients=g),
            "jax": lambda x, g=gradients: with_jax(peers[1], moving, head, x, gradients=g),
            RAW: lambda x, g=gradients: raw(x, gradients=g),
        }
        target = {RAW: OVER_RAW}
        if name == "sparse_spmm" and not gradients:
            run["scipy"] = scipy_spmm
            target |= dict.fromkeys(("torch", "jax", "scipy"), 1.1)
        made.append(
            Workload(
                name=f"{name}_gradients" if gradients else name,
                sizes=(1000, 5000, 20_000),
                size_is="rows",
                draw=lambda rng: rng.integers(1000, 20_001),
                make=make,
                run=run,
                target=target,
            )
        )
    return made


WORKLOADS = (
    *pair(
        "sparse_spmm",
        spmm,
        te_sparse.spmm,
        (te_sparse.torch_spmm, te_sparse.jax_spmm),
        ("values", "b"),
        "a",
    ),
    *pair(
        "sparse_sddmm",
        sddmm,
        te_sparse.sddmm,
        (te_sparse.torch_sddmm, te_sparse.jax_sddmm),
        ("a", "b"),
        "weights",
    ),
    *pair(
        "sparse_segment_softmax",
        softmax,
        te_sparse.softmax,
        (te_sparse.torch_softmax, te_sparse.jax_softmax),
        ("values",),
        "weights",
    ),
    *pair(
        "sparse_graph_attention",
        attention,
        te_sparse.attention,
        (te_sparse.torch_attention, te_sparse.jax_attention),
        ("s", "t", "b"),
        "a",
    ),
)
