"""Batches of small matrices as nests: a lane of the processor has a matrix of its own (`matrix_lanes`).

Each step of an algorithm (a column of Cholesky, an elimination) runs for all matrices of a block at once. A
library's routine takes one matrix after the other, and for small ones most of its time is in calls and tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iverson.codegen.nests.nodes import BOOL, INT64, Declare, Let, Local, Loop, Stmt, Update, Var
from iverson.expr.build import const
from iverson.expr.nodes import Apply, Const, Expr, Select
from iverson.graph.native.matrix_lanes import (
    Batch,
    Matrices,
    Number,
    apply,
    conjugate,
    divisor,
    length,
    less_product,
    local,
    named,
    names,
    product,
    quotient,
    select,
    updated,
)

#: Extent of matrices up to which nests are faster; the least number of matrices. Measured, 200 matrices of
#: 32 x 32, microseconds by the nest and by the library, in float64 and in complex128: Cholesky factors 350
#: and 700, 780 and 2600; solves with as many columns 1600 and 4300, 4000 and 8400; triangular ones 600 and
#: 620, 1900 and 2560.
SMALL, MANY = 32, 8
#: Rows or columns whose sums are computed together: each entry that they share is read once.
TOGETHER = 4


def is_small(extent: int, batch: Sequence[int]) -> bool:
    """True if matrices of this extent are treated by nests over the batch."""
    return extent <= SMALL and prod(batch) >= MANY


def _difference(
    name: str, first: Number, factors: tuple[Number, Number], p: Var, start: Expr, stop: Expr
) -> tuple[Stmt, ...]:
    """Statements of a local ``first - sum of products`` for p from ``start`` to ``stop``."""
    value = less_product(local(name, first), *factors)
    declared = tuple(Declare(n, x.dtype, x) for n, x in zip(names(name, first), first, strict=True))
    return *declared, Loop(p.name, start, stop, updated(name, value))


def _together(name: str, start: Expr, stop: Expr, number: Number, body: tuple[Stmt, ...]) -> Loop:
    """Loop with some iterations at a time, of which each has sums in registers."""
    return Loop(name, start, stop, body, mark="tile", factor=TOGETHER // len(number))


def cholesky(batch: Batch, t: Matrices) -> Matrices:
    """Cholesky factors of matrices in their place, of which only the lower triangle counts; their defects.

    For each column k: ``t[k, k] = sqrt(t[k, k] - sum |t[k, p]|^2)``, and below it
    ``t[i, k] = (t[i, k] - sum t[i, p] conj(t[k, p])) / t[k, k]``, sums over p < k. Golub and Van Loan, Matrix
    Computations (2013), section 4.2.
    """
    k, i, p, n, zero = Var("k"), Var("i"), Var("p"), Const(t.rows), Const(0)
    part, row, number, defects = batch.part, conjugate(t[k, p]), batch.number(0), batch.matrices(1, 1, 1)
    root, scale, pivot, defect = (Local(name, part) for name in ("root", "scale", "square", "defect"))
    entry = tuple(apply("multiply", x, scale) for x in local("entry", number))
    below: tuple[Stmt, ...] = (
        *_difference("entry", t[i, k], (t[i, p], row), p, zero, k),
        *t.store(i, k, entry),
    )
    is_positive = Apply("greater", (pivot, const(0, part)), BOOL)
    column: tuple[Stmt, ...] = (
        *_difference("pivot", t[k, k], (t[k, p], row), p, zero, k),
        Let("square", local("pivot", number)[0]),
        *updated("defect", (Select(is_positive, defect, const(1, part)),)),
        Let("root", apply("sqrt", pivot)),
        *t.store(k, k, (root, *number[1:])),
        Let("scale", apply("reciprocal", root)),
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
    own_row = apply("minimum", apply("maximum", at, const(0, INT64)), const(n - 1, INT64))
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
    sign = select(Apply("equal", (place, k), BOOL), pivot, tuple(apply("negative", x) for x in pivot))
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
    starts = zip(("defect", *names("product", number)), (number[0], *batch.number(1)), strict=True)
    ends = defects.store(zero, zero, (defect,))
    if determinant is not None:
        ends += determinant.store(zero, zero, total)
    declared = [Declare(name, batch.part, first) for name, first in starts]
    batch.add(*declared, Loop("k", zero, Const(n), column), *ends)
    return defects


__all__ = ["cholesky", "elimination", "is_small", "substitution"]
