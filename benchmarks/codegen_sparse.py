"""Loops over stored entries on raw index arrays: SpMM with both gradients, SDDMM, segment softmax.

20,000 x 20,000 with 400,000 random entries, 64 columns, as in the issue. Peer: torch's CSR operations.

python -m benchmarks.codegen_sparse
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch

from benchmarks.codegen_timing import compare, header
from iverson.codegen.kernel import CompiledKernel, compile_kernel
from iverson.codegen.nodes import (
    INT64,
    Buffer,
    Call,
    Cast,
    Const,
    Declare,
    Expr,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Size,
    Stmt,
    Store,
    Update,
    Var,
)

F32, I32 = np.dtype("float32"), np.dtype("int32")
N, ENTRIES, WIDTH, HALF = 20_000, 400_000, 64, 32
SIZES = ("r", "z", "n", "m")

ROWS, COLUMNS = Buffer("rows", I32, ("r",)), Buffer("columns", I32, ("z",))
VALUES, B = Buffer("values", F32, ("z",)), Buffer("b", F32, ("m", WIDTH))
A = Buffer("a", F32, ("n", WIDTH))
I, J, P = Var("i"), Var("j"), Var("p")
COLUMN = Cast(Load(COLUMNS, (P,)), INT64)


def mul(x: Expr, y: Expr) -> Expr:
    return Call("multiply", (x, y), F32)


def entries(*body: Stmt, mark: str = "") -> Loop:
    """A loop over the entries of row i."""
    first, last = (Cast(Load(ROWS, (at,)), INT64) for at in (I, Call("add", (I, Const(1)), INT64)))
    return Loop("p", first, last, body, mark=mark)


def zero() -> Declare:
    return Declare("acc", F32, Const(0.0, F32))


def by_rows(name: str, buffers: tuple[Buffer, ...], body: tuple[Stmt, ...]) -> CompiledKernel:
    phase = Loop("i", Const(0), Size("n"), body, mark="parallel")
    return compile_kernel(Kernel(name, buffers, (phase,), SIZES))


def spmm() -> CompiledKernel:
    """out[i, j] = sum over p in row i of values[p] b[column p, j]."""
    out = Buffer("out", F32, ("n", WIDTH), "out")
    term = mul(Load(VALUES, (P,)), Load(B, (COLUMN, J)))
    inner = (zero(), entries(Update("acc", "sum", term)), Store(out, (I, J), Local("acc", F32)))
    columns = Loop("j", Const(0), Const(WIDTH), inner, mark="vector", factor=4)
    return by_rows("spmm", (ROWS, COLUMNS, VALUES, B, out), (columns,))


def sddmm() -> CompiledKernel:
    """out[p] = sum over j of a[row p, j] b[column p, j]: also SpMM's gradient to its values."""
    out = Buffer("out", F32, ("z",), "out")
    term = mul(Load(A, (I, J)), Load(B, (COLUMN, J)))
    along = Loop("j", Const(0), Const(WIDTH), (Update("acc", "sum", term),), mark="vector", factor=4)
    body = entries(zero(), along, Store(out, (P,), Local("acc", F32)))
    return by_rows("sddmm", (ROWS, COLUMNS, A, B, out), (body,))


def transposed() -> CompiledKernel:
    """out[column p, j] += values[p] a[row p, j]: each thread has columns of its own, so none collide."""
    out = Buffer("out", F32, ("m", WIDTH), "inout")
    term = mul(Load(VALUES, (P,)), Load(A, (I, J)))
    first = Var("first")
    block = Loop(
        "j",
        first,
        Call("add", (first, Const(HALF)), INT64),
        (Store(out, (COLUMN, J), term, "sum"),),
        mark="vector",
        factor=2,
    )
    rows = Loop("i", Const(0), Size("n"), (entries(block),))
    phase = Loop("first", Const(0), Const(WIDTH), (rows,), step=HALF, mark="parallel")
    buffers = (ROWS, COLUMNS, VALUES, A, out)
    return compile_kernel(Kernel("transposed", buffers, (phase,), SIZES))


def softmax() -> CompiledKernel:
    """out[p] = exp(values[p] - m) / s with m, s the maximum and the sum over the row of p."""
    out = Buffer("out", F32, ("z",), "out")
    value, top, total = Load(VALUES, (P,)), Local("top", F32), Local("total", F32)
    power = Call("exp", (Call("subtract", (value, top), F32),), F32)
    body: tuple[Stmt, ...] = (
        Declare("highest", F32, Const(-np.inf, F32)),
        entries(Update("highest", "max", value), mark="vector"),
        Let("top", Local("highest", F32)),
        Declare("sum", F32, Const(0.0, F32)),
        entries(Let("e", power), Update("sum", "sum", Local("e", F32)), mark="vector"),
        Let("total", Local("sum", F32)),
        entries(Store(out, (P,), Call("divide", (power, total), F32)), mark="vector"),
    )
    return by_rows("softmax", (ROWS, VALUES, out), body)


def main() -> None:
    header()
    g = np.random.default_rng(0)
    s: Any = scipy.sparse.random(N, N, ENTRIES / N / N, "csr", F32, rng=g)
    rows, columns, values = s.indptr.astype(I32), s.indices.astype(I32), s.data
    a, b = (g.normal(size=(N, WIDTH)).astype(F32) for _ in range(2))
    out, back, flat = np.empty_like(a), np.empty_like(b), np.empty_like(values)
    forward, sample, turned, soft = spmm(), sddmm(), transposed(), softmax()
    x, y = torch.from_numpy(b).requires_grad_(), torch.from_numpy(a)
    sparse = torch.sparse_csr_tensor(*map(torch.from_numpy, (rows, columns, values)), (N, N))
    sparse.requires_grad_()

    def run_forward() -> None:
        forward(rows, columns, values, b, out, n=N)

    def run_sampled() -> None:
        sample(rows, columns, a, b, flat)

    def run_turned() -> None:
        back.fill(0)
        turned(rows, columns, values, a, back, n=N, m=N)

    def run_both() -> None:
        run_forward()
        run_sampled()
        run_turned()

    def torch_both() -> None:
        torch.autograd.grad(sparse @ x, [sparse, x], y)

    run_both()
    soft(rows, values, flat, n=N, m=N)
    assert np.allclose(out, s @ b, atol=1e-3)
    assert np.allclose(back, s.T @ a, atol=1e-3)
    fixed, wide = sparse.detach(), x.detach()
    zeros = torch.sparse_csr_tensor(*map(torch.from_numpy, (rows, columns, 0 * values)), (N, N))
    compare("SpMM", {"iverson": run_forward, "torch": lambda: fixed @ wide})
    compare("SpMM, both gradients", {"iverson": run_both, "torch": torch_both})
    right = wide.T.contiguous()
    compare(
        "SDDMM",
        {"iverson": run_sampled, "torch": lambda: torch.sparse.sampled_addmm(zeros, y, right)},
        rounds=7,
    )
    compare("transposed SpMM", {"iverson": run_turned, "scipy": lambda: s.T @ a})
    owner = torch.repeat_interleave(torch.arange(N), torch.from_numpy(np.diff(rows)).long())
    scores = torch.from_numpy(values)

    def torch_softmax() -> Any:
        top = torch.full((N,), -torch.inf).scatter_reduce(0, owner, scores, "amax")
        e = torch.exp(scores - top[owner])
        return e / torch.zeros(N).index_add(0, owner, e)[owner]

    compare(
        "segment softmax",
        {"iverson": lambda: soft(rows, values, flat, n=N, m=N), "torch": torch_softmax},
    )


if __name__ == "__main__":
    main()
