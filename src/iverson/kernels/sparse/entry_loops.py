"""Compiled loops over the stored entries of rows; `sparse_loops` calls them.

They are in index notation where that is as fast, and elsewhere nests of the code generator's IR
(`docs/decisions/0100` says what keeps these).

``i`` runs over rows (or segments), ``p`` over the entries of row i, ``j`` over the columns of a dense operand
in lanes. Each loop is compiled per dtype, index dtype and width at its first use, and knows of no layouts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson import te
from iverson.codegen.launches import CompiledKernel, compile_kernel
from iverson.codegen.nests.nodes import (
    BOOL,
    INT64,
    Buffer,
    Declare,
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
    expressions,
    statements,
)
from iverson.expr.nodes import Apply, Cast, Const, Expr, Select, subexpressions
from iverson.te.lowering.lowered_program import Run
from iverson.te.lowering.statement_lowering import lower

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

I, J, P = Var("i"), Var("j"), Var("p")


class Rows:
    """Builder of loop nests over the stored entries of rows: buffers, expressions, loops and the kernel.

    dtype, index : the dtypes of entries and of indices.
    width : the number of columns of dense operands.
    """

    def __init__(self, dtype: DTypeLike, index: DTypeLike, width: int = 1) -> None:
        self.dtype, self.width = np.dtype(dtype), width
        self.rows = Buffer("rows", np.dtype(index), ("r",))
        self.columns = Buffer("columns", np.dtype(index), ("z",))
        self.column = _int64(Load(self.columns, (P,)))

    def along_entries(self, name: str, role: str = "in") -> Buffer:
        return Buffer(name, self.dtype, ("z",), role)

    def by_row(self, name: str, role: str = "in") -> Buffer:
        return Buffer(name, self.dtype, ("n", self.width), role)

    def by_column(self, name: str, role: str = "in") -> Buffer:
        return Buffer(name, self.dtype, ("m", self.width), role)

    def number(self, value: float) -> Const:
        return Const(value, self.dtype)

    def f(self, name: str, *args: Expr) -> Expr:
        return Apply(name, args, self.dtype)

    def mul(self, x: Expr, y: Expr) -> Expr:
        return self.f("multiply", x, y)

    def zero(self, name: str = "acc") -> Declare:
        return Declare(name, self.dtype, self.number(0.0))

    def total(self, name: str = "acc") -> Local:
        return Local(name, self.dtype)

    def entries(self, *body: Stmt, mark: str = "") -> Loop:
        """A loop over the entries of row i."""
        first, last = (_int64(Load(self.rows, (at,))) for at in (I, Apply("add", (I, Const(1)), INT64)))
        return Loop("p", first, last, body, mark=mark)

    def across(self, *body: Stmt) -> Loop:
        """A loop over the dense columns, in lanes."""
        return Loop("j", Const(0), Const(self.width), body, mark="vector", factor=4)

    def each(self, *body: Stmt) -> Loop:
        """A loop over the rows, in threads."""
        return Loop("i", Const(0), Size("n"), body, mark="parallel")

    def normalised(self, score: Expr, out: Buffer) -> tuple[Stmt, ...]:
        """Statements for the softmax of row i: ``out[p] = exp(score - m) / s``.

        m and s are the maximum of the scores and the sum of the exponentials over the row.
        """
        power = Load(out, (P,))
        return (
            Declare("highest", self.dtype, self.number(-np.inf)),
            self.entries(Let("score", score), Store(out, (P,), self.total("score")), mark="vector"),
            self.entries(Update("highest", "max", power), mark="vector"),
            Let("top", self.total("highest")),
            self.zero("whole"),
            self.entries(
                Let("e", self.f("exp", self.f("subtract", power, self.total("top")))),
                Store(out, (P,), self.total("e")),
                Update("whole", "sum", self.total("e")),
                mark="vector",
            ),
            Let("share", self.f("divide", self.number(1.0), self.total("whole"))),
            self.entries(Store(out, (P,), self.mul(power, self.total("share"))), mark="vector"),
        )

    def compiled(self, name: str, buffers: tuple[Buffer, ...], *phases: Stmt) -> CompiledKernel:
        """Compiled kernel with the statements ``phases``.

        Its arguments are the row starts and the column indices, each if the statements read them, then
        ``buffers``.
        """
        nodes = [e for s in statements(phases) for x in expressions(s) for e in subexpressions(x)]
        buffers_read = {e.buffer for e in nodes if isinstance(e, Load)}
        row_buffers = tuple(b for b in (self.rows, self.columns) if b in buffers_read)
        sizes = {e.name for e in nodes if isinstance(e, Size)}
        sizes |= {n for b in (*row_buffers, *buffers) for n in b.shape if isinstance(n, str)}
        return compile_kernel(Kernel(name, (*row_buffers, *buffers), phases, tuple(sorted(sizes))))


def _int64(load: Load) -> Expr:
    return load if load.dtype == INT64 else Cast(load, INT64)


# --- products -------------------------------------------------------------------------------------


def _in_notation(name: str, definition: te.Compute, *inputs: te.Placeholder) -> CompiledKernel:
    """Compiled kernel of a definition in index notation: it takes arrays for ``inputs`` and the result."""
    lowered_program = lower(te.eliminate(te.program_of([definition], inputs)))
    (step,) = lowered_program.steps
    assert isinstance(step, Run)
    order = [
        lowered_program.buffers[t].name
        for t in (*lowered_program.program.inputs, *lowered_program.program.outputs)
    ]
    buffers = {b.name: b for b in step.kernel.buffers}
    return compile_kernel(replace(step.kernel, name=name, buffers=tuple([buffers[b] for b in order])))


def _starts(index: DTypeLike) -> te.Placeholder:
    """Placeholder for the start of each row, followed by the end of the last row."""
    return te.placeholder((te.var("starts"),), index, "rows")


@cache
def spmm(dtype: DTypeLike, index: DTypeLike, width: int) -> CompiledKernel:
    """out[i, j] = sum over p of values[p] b[column p, j]."""
    rows, entry_count = _starts(index), te.var("stored")
    columns, values = (
        te.placeholder((entry_count,), index, "columns"),
        te.placeholder((entry_count,), dtype, "values"),
    )
    b = te.placeholder((te.var("m"), width), dtype, "b")

    def entry(i: Expr, j: Expr) -> Any:
        p = te.reduce_axis((rows[i], rows[i + 1]))
        return te.sum(values[p] * b[columns[p], j], p)

    definition = te.compute((rows.shape[0] - 1, width), entry, "out")
    return _in_notation("spmm", definition, rows, columns, values, b)


@cache
def sddmm(dtype: DTypeLike, index: DTypeLike, width: int) -> CompiledKernel:
    """out[p] = sum over j of a[row p, j] b[column p, j]; also the gradient of `spmm` in its values."""
    of = Rows(dtype, index, width)
    a, b, out = of.by_row("a"), of.by_column("b"), of.along_entries("out", "out")
    term = of.mul(Load(a, (I, J)), Load(b, (of.column, J)))
    body = of.entries(of.zero(), of.across(Update("acc", "sum", term)), Store(out, (P,), of.total()))
    return of.compiled("sddmm", (a, b, out), of.each(body))


@cache
def scatter_rows(dtype: DTypeLike, index: DTypeLike, width: int) -> CompiledKernel:
    """out[column p, j] += g[p, j], one p after the other; ``out`` starts at 0."""
    of = Rows(dtype, index, width)
    g, out = Buffer("g", of.dtype, ("z", width)), of.by_column("out", "inout")
    body = Store(out, (of.column, J), Load(g, (P, J)), "sum")
    loop = Loop("p", Const(0), Size("z"), (of.across(body),))
    return of.compiled("scatter_rows", (g, out), loop)


class Lines:
    """A sparse matrix that a nest walks line by line: where each line starts, indices within it, values."""

    def __init__(self, name: str, dtype: DTypeLike, index: DTypeLike, role: str = "in") -> None:
        self.name = name
        self.starts = Buffer(f"{name}_starts", np.dtype(index), (f"{name}_lines",))
        self.along = Buffer(f"{name}_along", np.dtype(index), (f"{name}_count",))
        self.values = Buffer(name, np.dtype(dtype), (f"{name}_count",), role)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return self.starts, self.along, self.values

    @property
    def sizes(self) -> tuple[str, ...]:
        return f"{self.name}_lines", f"{self.name}_count"

    @property
    def at(self) -> Var:
        return Var(f"at_{self.name}")

    @property
    def index(self) -> Expr:
        """The index of the entry that the walk is at."""
        return _int64(Load(self.along, (self.at,)))

    @property
    def value(self) -> Expr:
        return Load(self.values, (self.at,))

    def walk(self, line: Expr, *body: Stmt) -> Loop:
        """A loop over the entries of a line."""
        ends = (line, Apply("add", (line, Const(1)), INT64))
        first, last = (_int64(Load(self.starts, (end,))) for end in ends)
        return Loop(self.at.name, first, last, body)


@cache
def sampled(dtype: DTypeLike, index: DTypeLike, result: str) -> CompiledKernel:
    """Kernel that computes one of three sparse matrices W, V, L from the others; ``result`` names it.

    The result is computed at its stored entries only. W[i, k] = sum over j of V[i, j] L[j, k], V[i, j] = sum
    over k of W[i, k] L[j, k] and L[j, k] = sum over i of V[i, j] W[i, k] are the same walk: over the entries
    of V by i, and for each over line j of L. ``work`` contains line i of W. Arguments: starts, indices and
    values of W, V, L, then ``work``, zeros for each k; a result L starts at 0.
    """
    roles = dict.fromkeys("WVL", "in") | {result: "inout" if result == "L" else "out"}
    w, v, l = (Lines(name, dtype, index, role) for name, role in roles.items())
    work = Buffer("work", np.dtype(dtype), ("extent",), "inout")
    zero = Const(0.0, np.dtype(dtype))

    def held(along: Lines) -> Load:
        return Load(work, (along.index,))

    def mul(x: Expr, y: Expr) -> Expr:
        return Apply("multiply", (x, y), np.dtype(dtype))

    def spread(value: Expr, along: Lines, combine: str = "assign") -> Store:
        return Store(work, (along.index,), value, combine)

    body: tuple[Stmt, ...]
    if result == "V":
        dot = l.walk(v.index, Update("acc", "sum", mul(held(l), l.value)))
        total = Store(v.values, (v.at,), Local("acc", np.dtype(dtype)))
        body = w.walk(I, spread(w.value, w)), v.walk(I, Declare("acc", np.dtype(dtype), zero), dot, total)
    elif result == "L":
        term = mul(Local("factor", np.dtype(dtype)), held(l))
        terms = l.walk(v.index, Store(l.values, (l.at,), term, "sum"))
        body = w.walk(I, spread(w.value, w)), v.walk(I, Let("factor", v.value), terms)
    else:
        term = mul(Local("factor", np.dtype(dtype)), l.value)
        sums = v.walk(I, Let("factor", v.value), l.walk(v.index, spread(term, l, "sum")))
        body = sums, w.walk(I, Store(w.values, (w.at,), held(w)))
    # What a sum reached beside W's entries is cleared too.
    cleared = v.walk(I, l.walk(v.index, spread(zero, l))) if result == "W" else w.walk(I, spread(zero, w))
    buffers = (*w.buffers, *v.buffers, *l.buffers, work)
    loop = Loop("i", Const(0), Size("n"), (*body, cleared))
    sizes = (*w.sizes, *v.sizes, *l.sizes, "n", "extent")
    return compile_kernel(Kernel(f"sampled_{result}", buffers, (loop,), sizes))


# --- merges ---------------------------------------------------------------------------------------


@cache
def on_union(name: str, dtype: DTypeLike) -> CompiledKernel:
    """out[p] = f(x at p, y at p) of two vectors that are spread out over the union of their places.

    code : for each place 1, 2 or 3: x has a number there, y has, both have. An absent number is 0.

    There are no branches, as it is unpredictable which of the two vectors comes next. Each step reads the
    next number of both (the last one, at the end), also if it is not of this place.
    """
    dtype = np.dtype(dtype)
    code, out = Buffer("code", np.dtype(np.int8), ("n",)), Buffer("out", dtype, ("n",), "out")
    before: list[Stmt] = [Let("here", _int64(Load(code, (P,))))]
    after: list[Stmt] = []
    operands: list[Expr] = []
    for v, bit in (("x", 1), ("y", 2)):
        at = Local(f"at_{v}", INT64)
        last = Apply("subtract", (Size(f"{v}_count"), Const(1)), INT64)
        there = Load(Buffer(v, dtype, (f"{v}_count",)), (Apply("minimum", (at, last), INT64),))
        masked = Apply("bitwise_and", (Local("here", INT64), Const(bit)), INT64)
        is_stored = Apply("not_equal", (masked, Const(0)), BOOL)
        before.append(Let(f"next_{v}", there))
        operands.append(Select(is_stored, Local(f"next_{v}", dtype), Const(0.0, dtype)))
        after.append(Update(at.name, "sum", Cast(is_stored, INT64)))
    store = Store(out, (P,), Apply(name, tuple(operands), dtype))
    loop = Loop("p", Const(0), Size("n"), (*before, store, *after))
    counters = (Declare(f"at_{v}", INT64, Const(0)) for v in "xy")
    once = Loop("once", Const(0), Const(1), (*counters, loop))
    buffers = code, *(Buffer(v, dtype, (f"{v}_count",)) for v in "xy"), out
    return compile_kernel(Kernel(f"{name}_on_union", buffers, (once,), ("n", "x_count", "y_count")))


# --- segments -------------------------------------------------------------------------------------


@cache
def segment_sum(dtype: DTypeLike, index: DTypeLike) -> CompiledKernel:
    """out[i] = sum over the entries p of row i of x[p]."""
    rows, x = _starts(index), te.placeholder((te.var("stored"),), dtype, "x")

    def entry(i: Expr) -> Any:
        p = te.reduce_axis((rows[i], rows[i + 1]))
        return te.sum(x[p], p)

    return _in_notation("segment_sum", te.compute((rows.shape[0] - 1,), entry, "out"), rows, x)


@cache
def segment_softmax(dtype: DTypeLike, index: DTypeLike) -> CompiledKernel:
    """out[p] = softmax of x over the entries of each row, shifted by the row's maximum."""
    of = Rows(dtype, index)
    x, out = of.along_entries("x"), of.along_entries("out", "out")
    return of.compiled("segment_softmax", (x, out), of.each(*of.normalised(Load(x, (P,)), out)))


@cache
def softmax_pullback(dtype: DTypeLike, index: DTypeLike) -> CompiledKernel:
    """out[p] = y[p] (g[p] - sum over the row of y g)."""
    of = Rows(dtype, index)
    y, g, out = of.along_entries("y"), of.along_entries("g"), of.along_entries("out", "out")
    terms = of.entries(Update("acc", "sum", of.mul(Load(y, (P,)), Load(g, (P,)))), mark="vector")
    entry = of.mul(Load(y, (P,)), of.f("subtract", Load(g, (P,)), of.total("mean")))
    body = (of.zero(), terms, Let("mean", of.total()), of.entries(Store(out, (P,), entry), mark="vector"))
    return of.compiled("softmax_pullback", (y, g, out), of.each(*body))
