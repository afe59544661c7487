"""Batches of small matrices as nests: a lane of the processor has a matrix of its own.

Matrices are copied to blocks of as many as a vector has lanes: first the entries [0, 0] of all of a block,
then their entries [0, 1]. All that is done with a block is one iteration of one loop, so that it
stays in cache from the operands to the results. Each step of an algorithm (a column of Cholesky, an
elimination) runs for all matrices of the block at once. Complex entries have their real parts
apart from the imaginary ones, so that a product is four multiply-adds without a shuffle. A library's routine
takes one matrix after the other, and for small ones most of its time is in calls and tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from iverson.codegen.execution.routines import Failure
from iverson.codegen.nests.nodes import (
    BOOL,
    INT64,
    Buffer,
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
from iverson.codegen.programs.nodes import Stop
from iverson.codegen.runtime.target import host
from iverson.core import dtypes
from iverson.expr.build import cast, const
from iverson.expr.nodes import Apply, Const, DType, Expr, Select
from iverson.graph.native.routine_steps import Calls, spread

#: Extent of matrices up to which nests are faster; the least number of matrices. Measured, 200 matrices of
#: 32 x 32, microseconds by the nest and by the library, in float64 and in complex128: Cholesky factors 350
#: and 700, 780 and 2600; solves with as many columns 1600 and 4300, 4000 and 8400; triangular ones 600 and
#: 620, 1900 and 2560.
SMALL, MANY = 32, 8
#: Rows or columns whose sums are computed together: each entry that they share is read once.
TOGETHER = 4
#: The parts of a number: real and imaginary, or the number itself.
Number = tuple[Expr, ...]


def is_small(extent: int, batch: Sequence[int]) -> bool:
    """True if matrices of this extent are treated by nests over the batch."""
    return extent <= SMALL and prod(batch) >= MANY


class Batch:
    """The nest over the blocks of a batch, in the making.

    dtype : that of the matrices. batch : the axes before theirs.
    """

    def __init__(self, calls: Calls, dtype: DType, batch: Sequence[int]) -> None:
        self.calls, self.dtype, self.batch, self.count = calls, dtype, tuple(batch), prod(batch)
        self.part, self.parts = dtypes.real_of(dtype), 2 if dtype.kind == "c" else 1
        self.lanes = host().vector_bytes // self.part.itemsize
        self.blocks = -(-self.count // self.lanes)
        self.views: dict[str, View] = {}
        self.body: list[Stmt] = []
        self.fresh: list[str] = []

    def matrices(self, rows: int, columns: int, parts: int | None = None) -> Matrices:
        """New matrices in lanes."""
        shape = (self.blocks, rows, columns, parts or self.parts, self.lanes)
        name = self._name(self.calls.temp(self.part, shape), fresh=True)
        return Matrices(step_builders.as_buffer(name, self.views[name]))

    def number(self, value: int) -> Number:
        """A real number as parts."""
        return tuple(const(value if k == 0 else 0, self.part) for k in range(self.parts))

    def copy(self, x: View) -> Matrices:
        """Copy of an operand to the lanes; those for which there is no matrix have the last one again."""
        m = self.matrices(*x.shape[-2:])
        self._entries(m, self._split(self._operand(x)(Var("i"), Var("j"))), Const(m.columns))
        return m

    def symmetrized(self, x: View) -> Matrices:
        """Copy of the lower triangles of (x + x^H) / 2 to the lanes."""
        m, i, j = self.matrices(*x.shape[-2:]), Var("i"), Var("j")
        entry, half = self._operand(x), const(0.5, self.part)
        pairs = zip(self._split(entry(i, j)), conjugate(self._split(entry(j, i))), strict=True)
        self._entries(m, tuple(_apply("multiply", half, _apply("add", *pair)) for pair in pairs), i + 1)
        return m

    def identity(self, n: int) -> Matrices:
        """The identity matrix in all lanes."""
        m, is_diagonal = self.matrices(n, n), Apply("equal", (Var("i"), Var("j")), BOOL)
        self._entries(m, select(is_diagonal, self.number(1), self.number(0)), Const(n))
        return m

    def add(self, *body: Stmt) -> None:
        """Add statements for each lane."""
        self.body.append(Loop(LANE.name, Const(0), Const(self.lanes), body, mark="vector"))

    def write(self, m: Matrices, y: View, *, triangle: bool = False) -> None:
        """Copy matrices to a result; with ``triangle``, zeros above their diagonals.

        The parts of a number that is not finite may both be nan.
        """
        flat = y.reshaped((self.count, m.rows, m.columns))
        assert flat is not None, "results are in C order"
        name = self._name(flat, fresh=True)
        i, j = Var("i"), Var("j")
        value, *imaginary = (cast(part, self.dtype) for part in m[i, j])
        for part in imaginary:
            value = _apply("add", value, _apply("multiply", const(1j, self.dtype), part))
        if triangle:
            is_below = Apply("less_equal", (j, i), BOOL)
            value = Select(is_below, value, const(0, self.dtype))
        at = BLOCK * self.lanes + LANE, i, j
        store = Store(step_builders.as_buffer(name, flat), at, value)
        rows = Loop("i", Const(0), Const(m.rows), (Loop("j", Const(0), Const(m.columns), (store,)),))
        remaining = const(self.count, INT64) - BLOCK * self.lanes
        end = _apply("minimum", const(self.lanes, INT64), remaining)
        self.body.append(Loop(LANE.name, Const(0), end, (rows,)))

    def end(self, defects: Matrices | None = None, failure: Failure | None = None) -> None:
        """Add the nest to the steps; stop after it if a matrix has a defect."""
        phase = Loop(BLOCK.name, Const(0), Const(self.blocks), tuple(self.body), mark="parallel")
        self.calls.steps.append(step_builders.nest("small_matrices", [phase], self.views, self.fresh))
        if defects is not None and failure is not None:
            view = self.views[defects.buffer.name]
            flag = self.calls.anywhere(
                view.shape, lambda d: Apply("greater", (d, const(0, d.dtype)), BOOL), d=view
            )
            self.calls.steps.append(Stop(flag, failure))

    def _operand(self, x: View) -> Callable[[Expr, Expr], Expr]:
        """Function of two indices: the entry of the lane's matrix of an operand."""
        flat = _flat(self.calls, spread(x, self.batch, 2), self.count)
        buffer = step_builders.as_buffer(self._name(flat), flat)
        at = _apply("minimum", BLOCK * self.lanes + LANE, const(self.count - 1, INT64))
        return lambda i, j: cast(Load(buffer, (at, i, j)), self.dtype)

    def _split(self, x: Expr) -> Number:
        return (x,) if self.parts == 1 else tuple(Apply(p, (x,), self.part) for p in ("real", "imag"))

    def _entries(self, m: Matrices, entry: Number, columns: Expr) -> None:
        i, j = Var("i"), Var("j")
        body = (*named("entry", entry), *m.store(i, j, local("entry", entry)))
        lanes = Loop(LANE.name, Const(0), Const(self.lanes), body, mark="vector")
        self.body.append(Loop("i", Const(0), Const(m.rows), (Loop("j", Const(0), columns, (lanes,)),)))

    def _name(self, view: View, *, fresh: bool = False) -> str:
        name = f"m{len(self.views)}"
        self.views[name] = view
        self.fresh += [name] if fresh else []
        return name


@dataclass(frozen=True)
class Matrices:
    """Matrices in lanes: memory of shape (blocks, rows, columns, parts, lanes), in real numbers."""

    buffer: Buffer

    @property
    def rows(self) -> int:
        return self.buffer.shape[1]  # type: ignore[return-value]

    @property
    def columns(self) -> int:
        return self.buffer.shape[2]  # type: ignore[return-value]

    def __getitem__(self, at: tuple[Expr, Expr]) -> Number:
        """An entry of the lane's matrix."""
        return tuple(Load(self.buffer, (BLOCK, *at, Const(k), LANE)) for k in range(self.buffer.shape[3]))  # type: ignore[arg-type]

    def store(self, i: Expr, j: Expr, value: Number) -> tuple[Stmt, ...]:
        """Statements that store entry [i, j] of the lane's matrix."""
        return tuple(Store(self.buffer, (BLOCK, i, j, Const(k), LANE), x) for k, x in enumerate(value))


BLOCK, LANE = Var("block"), Var("lane")


def _flat(calls: Calls, x: View, count: int) -> View:
    """The matrices of a batch one after the other, in their own memory where its strides can say it."""
    shape = (count, *x.shape[-2:])
    flat = x.reshaped(shape)
    if flat is None:
        flat = calls.nest(calls.temp(x, x.shape), lambda _, x: x, x=x).reshaped(shape)
        assert flat is not None
    return flat


def _difference(
    name: str, first: Number, factors: tuple[Number, Number], p: Var, start: Expr, stop: Expr
) -> tuple[Stmt, ...]:
    """Statements of a local ``first - sum of products`` for p from ``start`` to ``stop``."""
    names, value = _names(name, first), less_product(local(name, first), *factors)
    declared = tuple(Declare(n, x.dtype, x) for n, x in zip(names, first, strict=True))
    return *declared, Loop(p.name, start, stop, updated(name, value))


def _together(name: str, start: Expr, stop: Expr, number: Number, body: tuple[Stmt, ...]) -> Loop:
    """Loop with some iterations at a time, of which each has sums in registers."""
    return Loop(name, start, stop, body, mark="tile", factor=TOGETHER // len(number))


# --- numbers in parts -------------------------------------------------------------------------------


def _apply(function: str, *args: Expr) -> Expr:
    return Apply(function, args, args[0].dtype)


def _names(name: str, number: Number) -> tuple[str, ...]:
    return (name,) if len(number) == 1 else (f"{name}_re", f"{name}_im")


def local(name: str, like: Number) -> Number:
    """The number of this name, of as many parts as another one."""
    return tuple(Local(n, x.dtype) for n, x in zip(_names(name, like), like, strict=True))


def named(name: str, value: Number) -> tuple[Stmt, ...]:
    """Statements that give a number a name."""
    return tuple(Let(n, x) for n, x in zip(_names(name, value), value, strict=True))


def updated(name: str, value: Number) -> tuple[Stmt, ...]:
    """Statements that give the declared number of this name another value."""
    return tuple(Update(n, "assign", x) for n, x in zip(_names(name, value), value, strict=True))


def select(condition: Expr, a: Number, b: Number) -> Number:
    """``a`` where a condition holds, else ``b``."""
    return tuple(Select(condition, x, y) for x, y in zip(a, b, strict=True))


def less_product(total: Number, a: Number, b: Number) -> Number:
    """``total - a b``, each part by as many multiply-adds as there are parts."""
    re = _apply("subtract", total[0], _apply("multiply", a[0], b[0]))
    if len(a) == 1:
        return (re,)
    im = _apply("subtract", total[1], _apply("multiply", a[0], b[1]))
    return (
        _apply("add", re, _apply("multiply", a[1], b[1])),
        _apply("subtract", im, _apply("multiply", a[1], b[0])),
    )


def product(a: Number, b: Number) -> Number:
    """``a b``."""
    if len(a) == 1:
        return (_apply("multiply", a[0], b[0]),)
    (x, y), (u, v) = a, b
    re = _apply("subtract", _apply("multiply", x, u), _apply("multiply", y, v))
    return re, _apply("add", _apply("multiply", x, v), _apply("multiply", y, u))


def conjugate(a: Number) -> Number:
    """The complex conjugate."""
    return (a[0], *(_apply("negative", x) for x in a[1:]))


def reciprocal(a: Number) -> Number:
    """``1 / a``, of complex numbers by parts over the larger of them, so that no square overflows."""
    if len(a) == 1:
        return (_apply("reciprocal", a[0]),)
    size = _apply("maximum", *(_apply("abs", x) for x in a))
    x, y = (_apply("divide", part, size) for part in a)
    below = _apply("multiply", size, _apply("add", _apply("square", x), _apply("square", y)))
    return _apply("divide", x, below), _apply("divide", _apply("negative", y), below)


def divisor(a: Number) -> tuple[Stmt, ...]:
    """Statements with which `quotient` divides by ``a``: its reciprocal.

    Numbers below the least normal one are shifted first, as their reciprocals are infinite.
    """
    info = np.finfo(a[0].dtype)
    is_tiny = Apply("less", (length(a), const(float(info.tiny), a[0].dtype)), BOOL)
    shift = Local("shift", a[0].dtype)
    shifted = tuple(_apply("multiply", x, shift) for x in a)
    steps = const(2.0**info.nmant, shift.dtype), const(1.0, shift.dtype)
    return Let("shift", Select(is_tiny, *steps)), *named("scale", reciprocal(shifted))


def quotient(a: Number) -> Number:
    """``a`` by the `divisor`."""
    shifted = tuple(_apply("multiply", x, Local("shift", x.dtype)) for x in a)
    return product(shifted, local("scale", a))


def length(a: Number) -> Expr:
    """The size of a number; of a complex one |re| + |im|, as LAPACK compares pivots."""
    sizes = [_apply("abs", x) for x in a]
    return sizes[0] if len(sizes) == 1 else _apply("add", *sizes)


# --- algorithms -------------------------------------------------------------------------------------


def cholesky(batch: Batch, t: Matrices) -> Matrices:
    """Cholesky factors of matrices in their place, of which only the lower triangle counts; their defects.

    For each column k: ``t[k, k] = sqrt(t[k, k] - sum |t[k, p]|^2)``, and below it
    ``t[i, k] = (t[i, k] - sum t[i, p] conj(t[k, p])) / t[k, k]``, sums over p < k. Golub and Van Loan, Matrix
    Computations (2013), section 4.2.
    """
    k, i, p, n, zero = Var("k"), Var("i"), Var("p"), Const(t.rows), Const(0)
    part, row, number, defects = batch.part, conjugate(t[k, p]), batch.number(0), batch.matrices(1, 1, 1)
    root, scale, pivot, defect = (Local(name, part) for name in ("root", "scale", "square", "defect"))
    entry = tuple(_apply("multiply", x, scale) for x in local("entry", number))
    below: tuple[Stmt, ...] = (
        *_difference("entry", t[i, k], (t[i, p], row), p, zero, k),
        *t.store(i, k, entry),
    )
    is_positive = Apply("greater", (pivot, const(0, part)), BOOL)
    column: tuple[Stmt, ...] = (
        *_difference("pivot", t[k, k], (t[k, p], row), p, zero, k),
        Let("square", local("pivot", number)[0]),
        *updated("defect", (Select(is_positive, defect, const(1, part)),)),
        Let("root", _apply("sqrt", pivot)),
        *t.store(k, k, (root, *number[1:])),
        Let("scale", _apply("reciprocal", root)),
        _together("i", k + 1, n, number, below),
    )
    start, end = Declare("defect", part, const(0, part)), defects.store(zero, zero, (defect,))
    batch.add(start, Loop("k", zero, n, column), *end)
    return defects


def substitution(batch: Batch, t: Matrices, x: Matrices, *, lower: bool) -> None:
    """Solutions of triangular systems in the place of their right-hand sides ``x``.

    Row after row: ``x[i] = (x[i] - sum t[i, p] x[p]) / t[i, i]``, over the rows p that are solved.
    """
    n, m, p, c, number = t.rows, Var("m"), Var("p"), Var("c"), batch.number(0)
    i: Expr = m if lower else Const(n - 1) - m
    start, stop = (Const(0), i) if lower else (i + 1, Const(n))
    column = (
        *_difference("entry", x[i, c], (t[i, p], x[p, c]), p, start, stop),
        *x.store(i, c, quotient(local("entry", number))),
    )
    columns = _together("c", Const(0), Const(x.columns), number, column)
    batch.add(Loop("m", Const(0), Const(n), (*divisor(t[i, i]), columns)))


def elimination(
    batch: Batch, t: Matrices, x: Matrices | None, determinant: Matrices | None = None
) -> Matrices:
    """Elimination with partial pivoting, in place: U in ``t``, and what becomes of right-hand sides ``x``.

    A lane takes the row of its own pivot; the row that was in its place goes to where the pivot was. Below a
    pivot that is 0 all entries are: nothing is eliminated, and the matrix has a defect. Golub and Van Loan
    (2013), section 3.4.

    determinant : gets the product of the pivots with the sign of the permutation.
    """
    n, k, i, j, zero, number = t.rows, Var("k"), Var("i"), Var("j"), Const(0), batch.number(0)
    row, defects = batch.matrices(1, n + (0 if x is None else x.columns)), batch.matrices(1, 1, 1)
    at, place, better = Local("at", INT64), Local("place", INT64), Local("better", BOOL)
    best, size, defect = (Local(name, batch.part) for name in ("best", "size", "defect"))
    head, factor, pivot, signed, total = (
        local(name, number) for name in ("head", "factor", "pivot", "signed", "product")
    )
    search: tuple[Stmt, ...] = (
        Let("size", length(t[i, k])),
        Let("better", Apply("greater", (size, best), BOOL)),
        Update("at", "assign", Select(better, i, at)),
        Update("best", "assign", Select(better, size, best)),
    )
    own_row = _apply("minimum", _apply("maximum", at, const(0, INT64)), const(n - 1, INT64))
    # Of t the columns behind the pivot, of x all; where they begin in the row.
    operands: list[tuple[Matrices, Expr, int]] = [(t, k, 0)] + ([] if x is None else [(x, zero, n)])

    def exchange(m: Matrices, start: Expr, first: int) -> Stmt:
        body = (
            *named("pivotal", m[own_row, j]),
            *row.store(zero, j + first, m[k, j]),
            *m.store(k, j, local("pivotal", number)),
        )
        return Loop("j", start, Const(m.columns), body)

    def reduce(m: Matrices, start: Expr, first: int) -> Stmt:
        old = select(Local("moved", BOOL), row[zero, j + first], m[i, j])
        difference = less_product(old, factor, m[k, j])
        body = (*named("difference", difference), *m.store(i, j, local("difference", number)))
        return Loop("j", k + 1 if m is t else start, Const(m.columns), body)

    below: tuple[Stmt, ...] = (
        Let("moved", Apply("equal", (place, i), BOOL)),
        *named("head", select(Local("moved", BOOL), row[zero, k], t[i, k])),
        *named("factor", select(Local("defective", BOOL), number, quotient(head))),
        *(reduce(*o) for o in operands),
    )
    zeros = [Apply("equal", (part, const(0, batch.part)), BOOL) for part in pivot]
    is_zero = zeros[0] if len(zeros) == 1 else Apply("logical_and", tuple(zeros), BOOL)
    sign = select(Apply("equal", (place, k), BOOL), pivot, tuple(_apply("negative", x) for x in pivot))
    column: tuple[Stmt, ...] = (
        Declare("at", INT64, k),
        Declare("best", batch.part, length(t[k, k])),
        Loop("i", k + 1, Const(n), search),
        Let("place", at),
        *(exchange(*o) for o in operands),
        *named("pivot", t[k, k]),
        *named("signed", sign),
        *named("next", product(total, signed)),
        *updated("product", local("next", number)),
        Let("defective", is_zero),
        *updated("defect", (Select(Local("defective", BOOL), const(1, batch.part), defect),)),
        *divisor(pivot),
        _together("i", k + 1, Const(n), number, below),
    )
    starts = zip(("defect", *_names("product", number)), (number[0], *batch.number(1)), strict=True)
    ends = defects.store(zero, zero, (defect,))
    if determinant is not None:
        ends += determinant.store(zero, zero, total)
    declared = [Declare(name, batch.part, first) for name, first in starts]
    batch.add(*declared, Loop("k", zero, Const(n), column), *ends)
    return defects


__all__ = ["Batch", "cholesky", "elimination", "is_small", "substitution"]
