"""Loops over stored entries on raw CSR arrays, as nests of the code generator's IR.

`out[i]` runs over rows, `p` over the entries of row i, `j` over the columns of a dense operand. Sums into
columns of the pattern collide, so there each thread takes a block of j for itself.
"""

from __future__ import annotations

import numpy as np

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
    Select,
    Size,
    Stmt,
    Store,
    Update,
    Var,
)

F32, I32 = np.dtype("float32"), np.dtype("int32")
WIDTH, HALF = 64, 32
SLOPE = 0.2
"""Of the leaky rectifier in graph attention."""

ROWS, COLUMNS = Buffer("rows", I32, ("r",)), Buffer("columns", I32, ("z",))
I, J, P = Var("i"), Var("j"), Var("p")
COLUMN = Cast(Load(COLUMNS, (P,)), INT64)


def along_entries(name: str, role: str = "in") -> Buffer:
    return Buffer(name, F32, ("z",), role)


def by_row(name: str, role: str = "in") -> Buffer:
    return Buffer(name, F32, ("n", WIDTH), role)


def by_column(name: str, role: str = "in") -> Buffer:
    return Buffer(name, F32, ("m", WIDTH), role)


def number(value: float) -> Const:
    return Const(value, F32)


def f(name: str, *args: Expr) -> Expr:
    return Call(name, args, F32)


def mul(x: Expr, y: Expr) -> Expr:
    return f("multiply", x, y)


def entries(*body: Stmt, mark: str = "") -> Loop:
    """A loop over the entries of row i."""
    first, last = (Cast(Load(ROWS, (at,)), INT64) for at in (I, Call("add", (I, Const(1)), INT64)))
    return Loop("p", first, last, body, mark=mark)


def across(*body: Stmt) -> Loop:
    """A loop over the dense columns, in lanes."""
    return Loop("j", Const(0), Const(WIDTH), body, mark="vector", factor=4)


def zero(name: str = "acc") -> Declare:
    return Declare(name, F32, number(0))


def total(name: str = "acc") -> Local:
    return Local(name, F32)


def rows_loop(*body: Stmt) -> Loop:
    return Loop("i", Const(0), Size("n"), body, mark="parallel")


def blocks_loop(body: Stmt, *before: Stmt) -> Loop:
    """Each thread runs all rows for its own block of the dense columns."""
    first = Var("first")
    block = Loop("j", first, Call("add", (first, Const(HALF)), INT64), (body,), mark="vector", factor=2)
    rows = Loop("i", Const(0), Size("n"), (entries(*before, block),))
    return Loop("first", Const(0), Const(WIDTH), (rows,), step=HALF, mark="parallel")


def compiled(name: str, buffers: tuple[Buffer, ...], *phases: Stmt) -> CompiledKernel:
    return compile_kernel(Kernel(name, (ROWS, COLUMNS, *buffers), phases, ("r", "z", "n", "m")))


# --- products --------------------------------------------------------------------


def spmm() -> CompiledKernel:
    """out[i, j] = sum over p of values[p] b[column p, j]."""
    values, b, out = along_entries("values"), by_column("b"), by_row("out", "out")
    term = mul(Load(values, (P,)), Load(b, (COLUMN, J)))
    body = across(zero(), entries(Update("acc", "sum", term)), Store(out, (I, J), total()))
    return compiled("spmm", (values, b, out), rows_loop(body))


def sddmm() -> CompiledKernel:
    """out[p] = sum over j of a[row p, j] b[column p, j]; also the gradient of SpMM in its values."""
    a, b, out = by_row("a"), by_column("b"), along_entries("out", "out")
    term = mul(Load(a, (I, J)), Load(b, (COLUMN, J)))
    body = entries(zero(), across(Update("acc", "sum", term)), Store(out, (P,), total()))
    return compiled("sddmm", (a, b, out), rows_loop(body))


def transposed() -> CompiledKernel:
    """out[column p, j] += values[p] a[row p, j]; ``out`` starts at 0."""
    values, a, out = along_entries("values"), by_row("a"), by_column("out", "inout")
    body = Store(out, (COLUMN, J), mul(Load(values, (P,)), Load(a, (I, J))), "sum")
    return compiled("transposed", (values, a, out), blocks_loop(body))


# --- softmax over the entries of a row -------------------------------------------


def normalised(score: Expr, out: Buffer) -> tuple[Stmt, ...]:
    """out[p] = exp(score - m) / s with m, s the maximum and the sum over the row."""
    power = Load(out, (P,))
    return (
        Declare("highest", F32, number(-np.inf)),
        entries(Let("score", score), Store(out, (P,), total("score")), mark="vector"),
        entries(Update("highest", "max", power), mark="vector"),
        Let("top", total("highest")),
        zero("sum"),
        entries(
            Let("e", f("exp", f("subtract", power, total("top")))),
            Store(out, (P,), total("e")),
            Update("sum", "sum", total("e")),
            mark="vector",
        ),
        Let("scale", f("divide", number(1), total("sum"))),
        entries(Store(out, (P,), mul(power, total("scale"))), mark="vector"),
    )


def softmax() -> CompiledKernel:
    values, out = along_entries("values"), along_entries("out", "out")
    return compiled("softmax", (values, out), rows_loop(*normalised(Load(values, (P,)), out)))


def softmax_pullback() -> CompiledKernel:
    """d values[p] = y[p] (g[p] - sum over the row of y g)."""
    y, g, out = along_entries("y"), along_entries("g"), along_entries("out", "out")
    each = mul(Load(y, (P,)), f("subtract", Load(g, (P,)), total("mean")))
    body = (
        zero(),
        entries(Update("acc", "sum", mul(Load(y, (P,)), Load(g, (P,)))), mark="vector"),
        Let("mean", total()),
        entries(Store(out, (P,), each), mark="vector"),
    )
    return compiled("softmax_pullback", (y, g, out), rows_loop(*body))


# --- graph attention -------------------------------------------------------------


def attention_score(s: Buffer, t: Buffer) -> tuple[Expr, Expr]:
    """s[row] + t[column], and what the leaky rectifier makes of it."""
    raw = f("add", Load(s, (I,)), Load(t, (COLUMN,)))
    positive = Call("greater", (raw, number(0)), np.dtype("bool"))
    return raw, Select(positive, raw, mul(number(SLOPE), raw))


def attention() -> CompiledKernel:
    """out[i] = sum over p of softmax(leaky(s[i] + t[column p])) h[column p]; ``weights`` is saved."""
    s, t = Buffer("s", F32, ("n",)), Buffer("t", F32, ("m",))
    h, weights, out = by_column("h"), along_entries("weights", "out"), by_row("out", "out")
    term = mul(Load(weights, (P,)), Load(h, (COLUMN, J)))
    mixed = across(zero(), entries(Update("acc", "sum", term)), Store(out, (I, J), total()))
    body = (*normalised(attention_score(s, t)[1], weights), mixed)
    return compiled("attention", (s, t, h, weights, out), rows_loop(*body))


def attention_pullback() -> CompiledKernel:
    """Gradients of `attention` in s, t and h; those of t and h start at 0."""
    s, t = Buffer("s", F32, ("n",)), Buffer("t", F32, ("m",))
    h, weights, g = by_column("h"), along_entries("weights"), by_row("g")
    ds, dt = Buffer("ds", F32, ("n",), "out"), Buffer("dt", F32, ("m",), "inout")
    dh, share = by_column("dh", "inout"), Buffer("share", F32, ("z",), "out")
    raw, _ = attention_score(s, t)
    slope = Select(Call("greater", (raw, number(0)), np.dtype("bool")), number(1), number(SLOPE))
    w, d = Load(weights, (P,)), Load(share, (P,))
    rows = rows_loop(
        zero("mean"),
        entries(
            zero(),
            across(Update("acc", "sum", mul(Load(g, (I, J)), Load(h, (COLUMN, J))))),
            Store(share, (P,), total()),
            Update("mean", "sum", mul(w, total())),
        ),
        Let("center", total("mean")),
        zero("own"),
        entries(
            Let("d", mul(slope, mul(w, f("subtract", d, total("center"))))),
            Store(share, (P,), total("d")),
            Update("own", "sum", total("d")),
            mark="vector",
        ),
        Store(ds, (I,), total("own")),
    )
    sources = Loop("i", Const(0), Size("n"), (entries(Store(dt, (COLUMN,), d, "sum")),))
    heads = blocks_loop(Store(dh, (COLUMN, J), mul(w, Load(g, (I, J))), "sum"))
    buffers = (s, t, h, weights, g, ds, dt, dh, share)
    return compiled("attention_pullback", buffers, rows, sources, heads)
