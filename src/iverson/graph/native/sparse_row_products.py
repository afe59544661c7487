"""Products of sparse with dense matrices as native loops: row by row, in threads, with columns in lanes.

out[i, j] = sum over p in starts[i] <= p < starts[i + 1] of values[p] b[columns[p], j]

A row of the result is written once, by the thread that has its row, so nothing is added up in memory. If the
entries are blocks, p goes over the blocks of a line, and each row of the blocks is a row of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iverson.codegen.nests.nodes import INT64, Declare, Load, Local, Loop, Stmt, Store, Update, Var
from iverson.codegen.programs import View, step_builders
from iverson.codegen.programs.nodes import Step
from iverson.expr.build import cast, const
from iverson.expr.nodes import Apply, Const, Expr
from iverson.graph.ir.entry_ops import stored_product
from iverson.graph.ir.nodes import Equation, values_of

#: How many vectors of columns a row is summed in at once.
_VECTORS = 4
#: Entries from which threads share a product with one column: it reads memory and does little else. Measured
#: (`make calibrate`, two threads at 2.5 GHz): idle, below 2.6e5; busy with other work, 2.6e5 to 5.2e5.
_MANY = 1 << 18


def is_rows(equation: Equation) -> bool:
    """True if an equation is a `stored_product` of values that have entries."""
    values = (*values_of(equation.operands), *equation.results)
    return equation.op is stored_product and all(0 not in v.shape for v in values)


def steps(equation: Equation, operands: Sequence[View], out: View) -> list[Step]:
    """The one step that computes the product. The columns of the dense matrix must be next to each other."""
    return [_Rows(operands, out, **equation.params).step()]


class _Rows:
    """The pieces of the loop: views by the names that they have in it, and where it is."""

    def __init__(
        self, operands: Sequence[View], out: View, *, shape: Sequence[int], blocks: tuple[int, int]
    ) -> None:
        names = ("values", "starts", "columns", "b", "order")
        self.views = dict(zip(names, operands, strict=False)) | {"out": out}
        (self.height, self.width), self.shape = blocks, shape
        self.dtype = out.buffer.dtype
        *self.batch, self.count = (n for n in out.shape[:-1])
        self.over = [Var(f"e{k}") for k in range(len(self.batch))]

    def load(self, name: str, *at: Expr) -> Expr:
        return Load(step_builders.as_buffer(name, self.views[name]), at)

    def step(self) -> Step:
        """The loops over matrices, lines, rows of a line, and columns."""
        line, j = Var("i"), Var("j")
        row = Var("r") if self.height > 1 else const(0, INT64)
        at = _sum(_times(line, self.height), row) if self.height > 1 else line
        store = Store(
            step_builders.as_buffer("out", self.views["out"]), (*self.over, at, j), Local("acc", self.dtype)
        )
        zero = Declare("acc", self.dtype, Const(self.dtype.type(0).item(), self.dtype))
        columns = self.views["out"].shape[-1]
        mark = "vector" if columns > 1 else ""
        statements = (zero, self.entries(line, row, j), store)
        body: tuple[Stmt, ...] = (
            Loop("j", Const(0), Const(columns), statements, mark=mark, factor=_VECTORS if mark else 1),
        )
        if self.height > 1:
            body = (Loop("r", Const(0), Const(self.height), body),)
        extents = [*self.batch, self.count // self.height]
        names = [*(v.name for v in self.over), "i"]
        alone = columns == 1 and prod(self.views["values"].shape) < _MANY
        outermost = next((k for k, n in enumerate(extents) if n > 1), 0)
        for k in reversed(range(len(extents))):
            mark = "parallel" if k == outermost == 0 and not alone else ""
            body = (Loop(names[k], Const(0), Const(extents[k]), body, mark=mark),)
        return step_builders.nest("rows", body, self.views, ("out",))

    def entries(self, line: Expr, row: Expr, j: Expr) -> Stmt:
        """Loop that adds the terms of entry (line and ``row`` in it, column ``j``) to the local ``acc``."""
        flat_line = line
        if len(self.shape) > 1:  # the lines of all matrices follow each other
            for k, v in enumerate(self.over):
                flat_line = _sum(_times(v, prod(self.shape[k + 1 :]) // self.height), flat_line)
        entry_count = self.views["columns"].shape[0]
        first, last = (
            cast(self.load("starts", x), INT64) for x in (flat_line, _sum(flat_line, const(1, INT64)))
        )
        # Where rows start was checked when the pattern was made: the bounds tell the loop so.
        first = Apply("maximum", (first, const(0, INT64)), INT64)
        last = Apply("minimum", (last, const(entry_count, INT64)), INT64)
        p, c = Var("p"), Var("c")
        place: Expr = p
        column = cast(self.load("columns", p), INT64)
        if self.height * self.width > 1:
            place = _sum(_times(_sum(_times(p, self.height), row), self.width), c)
            column = _sum(_times(column, self.width), c)
        if "order" in self.views:
            place = cast(self.load("order", place), INT64)
        factors = self.load("values", place), self.load("b", *self.over, column, j)
        term = Apply("multiply", tuple(cast(x, self.dtype) for x in factors), self.dtype)
        body: tuple[Stmt, ...] = (Update("acc", "sum", term),)
        if self.height * self.width > 1:
            body = (Loop("c", Const(0), Const(self.width), body),)
        return Loop("p", first, last, body)


def _sum(a: Expr, b: Expr) -> Expr:
    return Apply("add", (a, b), INT64)


def _times(a: Expr, n: int) -> Expr:
    return a if n == 1 else Apply("multiply", (a, const(n, INT64)), INT64)


__all__ = ["is_rows", "steps"]
