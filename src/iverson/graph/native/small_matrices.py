"""Batches of small matrices as nests: a lane of the processor has a matrix of its own.

Matrices are copied so that the batch is their last axis, and each step of an algorithm (a column of Cholesky,
an elimination) runs for as many matrices at once as a vector has lanes. A library's routine takes one matrix
after the other, and for small ones most of its time is in calls and tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from iverson.codegen.nests.nodes import (
    BOOL,
    INT64,
    Declare,
    Let,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Update,
    Var,
)
from iverson.codegen.programs import View, step_builders
from iverson.codegen.programs.nodes import Step, c_strides
from iverson.expr.build import const
from iverson.expr.nodes import Apply, Const, DType, Expr, Select

#: Extents of matrices, and of triangular systems, up to which nests are faster; the least number of matrices.
#: Measured, 200 matrices in float64, microseconds by the nest and by the library: inverses of 32 x 32 2225
#: and 3144, Cholesky factors 905 and 935, triangular solves of 16 x 16 58 and 56, of 24 x 24 131 and 79.
SMALL, SMALL_TRIANGLE, MANY = 32, 16, 8


def is_small(extent: int, batch: Sequence[int], dtype: DType, limit: int = SMALL) -> bool:
    """True if real matrices of this extent, ``limit`` at most, are treated by nests over the batch."""
    return extent <= limit and prod(batch) >= MANY and dtype.kind == "f"


def in_lanes(buffer: View, batch: Sequence[int], rows: int, columns: int) -> View:
    """All of a buffer of matrices whose batch is its last axis, as matrices with the batch first."""
    count = prod(batch)
    strides = (*c_strides(tuple(batch)), columns * count, count)
    return replace(buffer, shape=(*batch, rows, columns), strides=strides)


class Lanes:
    """Nest over a batch that is the last axis of its buffers, in lanes.

    views : the buffers by name, of shape (rows, columns, batch).
    """

    def __init__(self, dtype: DType, views: dict[str, View]) -> None:
        self.dtype, self.views = dtype, views
        self.lane = Var("lane")

    def read(self, name: str, i: Expr, j: Expr) -> Expr:
        return Load(step_builders.as_buffer(name, self.views[name]), (i, j, self.lane))

    def write(self, name: str, i: Expr, j: Expr, value: Expr) -> Stmt:
        return Store(step_builders.as_buffer(name, self.views[name]), (i, j, self.lane), value)

    def apply(self, function: str, *args: Expr) -> Expr:
        return Apply(function, args, self.dtype)

    def local(self, name: str) -> Expr:
        return Local(name, self.dtype)

    def less(
        self, name: str, first: Expr, products: Expr, p: Var, start: Expr, stop: Expr
    ) -> tuple[Stmt, ...]:
        """Statements of a local ``first - sum of products`` for p from ``start`` to ``stop``."""
        update = Update(name, "assign", self.apply("subtract", self.local(name), products))
        return Declare(name, self.dtype, first), Loop(p.name, start, stop, (update,))

    def step(self, name: str, body: tuple[Stmt, ...], fresh: Sequence[str] = ("row",)) -> Step:
        count = next(iter(self.views.values())).shape[-1]
        phase = Loop("lane", Const(0), Const(count), body, mark="vector", factor=1)
        return step_builders.nest(name, [phase], self.views, ("row", *fresh))


def cholesky(t: View) -> Step:
    """Cholesky factors of matrices in their place, of which only the lower triangle counts.

    For each column k: ``t[k, k] = sqrt(t[k, k] - sum t[k, p]^2)``, and below it
    ``t[i, k] = (t[i, k] - sum t[i, p] t[k, p]) / t[k, k]``, sums over p < k. Golub and Van Loan, Matrix
    Computations (2013), section 4.2.
    """
    lanes = Lanes(t.buffer.dtype, {"t": t})
    k, i, p, n = Var("k"), Var("i"), Var("p"), Const(t.shape[0])
    squares = lanes.apply("multiply", lanes.read("t", k, p), lanes.read("t", k, p))
    products = lanes.apply("multiply", lanes.read("t", i, p), lanes.read("t", k, p))
    below: tuple[Stmt, ...] = (
        *lanes.less("entry", lanes.read("t", i, k), products, p, Const(0), k),
        lanes.write("t", i, k, lanes.apply("multiply", lanes.local("entry"), lanes.local("scale"))),
    )
    column: tuple[Stmt, ...] = (
        *lanes.less("pivot", lanes.read("t", k, k), squares, p, Const(0), k),
        Let("root", lanes.apply("sqrt", lanes.local("pivot"))),
        lanes.write("t", k, k, lanes.local("root")),
        Let("scale", lanes.apply("divide", const(1.0, lanes.dtype), lanes.local("root"))),
        Loop("i", k + 1, n, below),
    )
    return lanes.step("cholesky", (Loop("k", Const(0), n, column),))


def substitution(t: View, x: View, *, lower: bool) -> Step:
    """Solutions of triangular systems in the place of their right-hand sides ``x``.

    Row after row: ``x[i] = (x[i] - sum t[i, p] x[p]) / t[i, i]``, over the rows p that are solved.
    """
    lanes = Lanes(t.buffer.dtype, {"t": t, "x": x})
    n, m, p, c = t.shape[0], Var("m"), Var("p"), Var("c")
    i: Expr = m if lower else Const(n - 1) - m
    start, stop = (Const(0), i) if lower else (i + 1, Const(n))
    products = lanes.apply("multiply", lanes.read("t", i, p), lanes.read("x", p, c))
    column: tuple[Stmt, ...] = (
        *lanes.less("entry", lanes.read("x", i, c), products, p, start, stop),
        lanes.write("x", i, c, lanes.apply("divide", lanes.local("entry"), lanes.read("t", i, i))),
    )
    rows = Loop("c", Const(0), Const(x.shape[1]), column)
    return lanes.step("substitution", (Loop("m", Const(0), Const(n), (rows,)),))


def elimination(t: View, x: View | None, row: View, sign: View | None = None) -> Step:
    """Elimination with partial pivoting, in place: U in ``t``, and what becomes of right-hand sides ``x``.

    A lane takes the row of its own pivot; the row that was in its place goes to where the pivot was. Below a
    pivot that is 0 all entries are: nothing is eliminated. Golub and Van Loan (2013), section 3.4.

    row : memory for a row of t and of x. sign : gets the sign of the permutation.
    """
    views = {"t": t, "row": row} | ({} if x is None else {"x": x}) | ({} if sign is None else {"sign": sign})
    lanes = Lanes(t.buffer.dtype, views)
    n, k, i, j, at, pivot = t.shape[0], Var("k"), Var("i"), Var("j"), Local("at", INT64), lanes.local("pivot")
    zero = const(0.0, lanes.dtype)
    size = lanes.apply("abs", lanes.read("t", i, k))
    better = Apply("greater", (lanes.local("size"), lanes.local("best")), BOOL)
    search: tuple[Stmt, ...] = (
        Let("size", size),
        Let("better", better),
        Update("at", "assign", Select(Local("better", BOOL), i, at)),
        Update("best", "assign", Select(Local("better", BOOL), lanes.local("size"), lanes.local("best"))),
    )
    own_row = Apply("minimum", (Apply("maximum", (at, const(0, INT64)), INT64), const(n - 1, INT64)), INT64)
    parts = [("t", k, n, 0)] + ([] if x is None else [("x", Const(0), x.shape[1], n)])
    is_moved = Local("moved", BOOL)

    def exchange(name: str, start: Expr, stop: int, first: int) -> Stmt:
        body = (
            Let("pivotal", lanes.read(name, own_row, j)),
            lanes.write("row", Const(0), j + first, lanes.read(name, k, j)),
            lanes.write(name, k, j, lanes.local("pivotal")),
        )
        return Loop("j", start, Const(stop), body)

    def reduce(name: str, start: Expr, stop: int, first: int) -> Stmt:
        old = Select(is_moved, lanes.read("row", Const(0), j + first), lanes.read(name, i, j))
        product = lanes.apply("multiply", lanes.local("factor"), lanes.read(name, k, j))
        return Loop(
            "j", start, Const(stop), (lanes.write(name, i, j, lanes.apply("subtract", old, product)),)
        )

    head = Select(is_moved, lanes.read("row", Const(0), k), lanes.read("t", i, k))
    quotient = Select(
        Apply("equal", (pivot, zero), BOOL), zero, lanes.apply("divide", lanes.local("head"), pivot)
    )
    below: tuple[Stmt, ...] = (
        Let("moved", Apply("equal", (at, i), BOOL)),
        Let("head", head),
        Let("factor", quotient),
        *(reduce(name, k + 1 if name == "t" else start, stop, first) for name, start, stop, first in parts),
    )
    new_parity = Select(
        Apply("equal", (at, k), BOOL),
        lanes.local("parity"),
        Apply("negative", (lanes.local("parity"),), lanes.dtype),
    )
    column: tuple[Stmt, ...] = (
        Declare("at", INT64, k),
        Declare("best", lanes.dtype, lanes.apply("abs", lanes.read("t", k, k))),
        Loop("i", k + 1, Const(n), search),
        *(exchange(*part) for part in parts),
        *(() if sign is None else (Update("parity", "assign", new_parity),)),
        Let("pivot", lanes.read("t", k, k)),
        Loop("i", k + 1, Const(n), below),
    )
    columns = Loop("k", Const(0), Const(n), column)
    if sign is None:
        return lanes.step("elimination", (columns,))
    parity = Declare("parity", lanes.dtype, const(1.0, lanes.dtype))
    result = lanes.write("sign", Const(0), Const(0), lanes.local("parity"))
    return lanes.step("elimination", (parity, columns, result), fresh=("sign",))


def multiplied(pivots: View, out: View) -> Step:
    """Products of the pivots of each matrix, times what ``out`` has of it."""
    k, lane = Var("k"), Var("lane")
    entry = Load(step_builders.as_buffer("pivots", pivots), (k, lane))
    at: tuple[Expr, ...] = (Const(0), Const(0), lane)
    buffer = step_builders.as_buffer("out", out)
    body: tuple[Stmt, ...] = (
        Declare("product", out.buffer.dtype, Load(buffer, at)),
        Loop("k", Const(0), Const(pivots.shape[0]), (Update("product", "prod", entry),)),
        Store(buffer, at, Local("product", out.buffer.dtype)),
    )
    phase = Loop("lane", Const(0), Const(pivots.shape[1]), body, mark="vector", factor=1)
    return step_builders.nest("determinants", [phase], {"pivots": pivots, "out": out})


__all__ = ["cholesky", "elimination", "in_lanes", "is_small", "multiplied", "substitution"]
