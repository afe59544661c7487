"""Loops over stored entries that the library does not have, as nests on raw CSR arrays.

The pieces are those of the library's own nests (`iverson.kernels.sparse.entry_loops`). Sums into columns of
the pattern collide, so there each thread takes a block of the dense columns for itself.
"""

from __future__ import annotations

import numpy as np

from iverson.codegen.launches import CompiledKernel
from iverson.codegen.nests.nodes import INT64, Buffer, Let, Load, Loop, Size, Stmt, Store, Update, Var
from iverson.expr.nodes import Apply, Const, Expr, Select
from iverson.kernels.sparse.entry_loops import I, J, P, Rows

F32, I32 = np.dtype("float32"), np.dtype("int32")
WIDTH, HALF = 64, 32
SLOPE = 0.2
"""Of the leaky rectifier in graph attention."""

OF = Rows(F32, I32, WIDTH)


def blocks_loop(body: Stmt) -> Loop:
    """Each thread runs all rows for its own block of the dense columns."""
    first = Var("first")
    block = Loop("j", first, Apply("add", (first, Const(HALF)), INT64), (body,), mark="vector", factor=2)
    rows = Loop("i", Const(0), Size("n"), (OF.entries(block),))
    return Loop("first", Const(0), Const(WIDTH), (rows,), step=HALF, mark="parallel")


def transposed() -> CompiledKernel:
    """out[column p, j] += values[p] a[row p, j]; ``out`` starts at 0."""
    values, a, out = OF.along_entries("values"), OF.by_row("a"), OF.by_column("out", "inout")
    body = Store(out, (OF.column, J), OF.mul(Load(values, (P,)), Load(a, (I, J))), "sum")
    return OF.compiled("transposed", (values, a, out), blocks_loop(body))


def attention_score(s: Buffer, t: Buffer) -> tuple[Expr, Expr]:
    """s[row] + t[column], and what the leaky rectifier makes of it."""
    raw = OF.f("add", Load(s, (I,)), Load(t, (OF.column,)))
    positive = Apply("greater", (raw, OF.number(0)), np.dtype("bool"))
    return raw, Select(positive, raw, OF.mul(OF.number(SLOPE), raw))


def attention() -> CompiledKernel:
    """out[i] = sum over p of softmax(leaky(s[i] + t[column p])) h[column p]; ``weights`` is saved."""
    s, t = Buffer("s", F32, ("n",)), Buffer("t", F32, ("m",))
    h, weights, out = OF.by_column("h"), OF.along_entries("weights", "out"), OF.by_row("out", "out")
    term = OF.mul(Load(weights, (P,)), Load(h, (OF.column, J)))
    mixed = OF.across(OF.zero(), OF.entries(Update("acc", "sum", term)), Store(out, (I, J), OF.total()))
    body = (*OF.normalised(attention_score(s, t)[1], weights), mixed)
    return OF.compiled("attention", (s, t, h, weights, out), OF.each(*body))


def attention_pullback() -> CompiledKernel:
    """Gradients of `attention` in s, t and h; those of t and h start at 0."""
    s, t = Buffer("s", F32, ("n",)), Buffer("t", F32, ("m",))
    h, weights, g = OF.by_column("h"), OF.along_entries("weights"), OF.by_row("g")
    ds, dt = Buffer("ds", F32, ("n",), "out"), Buffer("dt", F32, ("m",), "inout")
    dh, share = OF.by_column("dh", "inout"), OF.along_entries("share", "out")
    raw, _ = attention_score(s, t)
    slope = Select(Apply("greater", (raw, OF.number(0)), np.dtype("bool")), OF.number(1), OF.number(SLOPE))
    w, d = Load(weights, (P,)), Load(share, (P,))
    rows = OF.each(
        OF.zero("mean"),
        OF.entries(
            OF.zero(),
            OF.across(Update("acc", "sum", OF.mul(Load(g, (I, J)), Load(h, (OF.column, J))))),
            Store(share, (P,), OF.total()),
            Update("mean", "sum", OF.mul(w, OF.total())),
        ),
        Let("center", OF.total("mean")),
        OF.zero("own"),
        OF.entries(
            Let("d", OF.mul(slope, OF.mul(w, OF.f("subtract", d, OF.total("center"))))),
            Store(share, (P,), OF.total("d")),
            Update("own", "sum", OF.total("d")),
            mark="vector",
        ),
        Store(ds, (I,), OF.total("own")),
    )
    sources = Loop("i", Const(0), Size("n"), (OF.entries(Store(dt, (OF.column,), d, "sum")),))
    heads = blocks_loop(Store(dh, (OF.column, J), OF.mul(w, Load(g, (I, J))), "sum"))
    buffers = (s, t, h, weights, g, ds, dt, dh, share)
    return OF.compiled("attention_pullback", buffers, rows, sources, heads)
