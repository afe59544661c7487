"""Which walk elimination chooses for each kind of statement and why, and how many points it visits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iverson import te
from iverson.core.errors import ArgumentError
from iverson.expr.build import as_expr, const, index, select
from iverson.expr.nodes import Expr
from iverson.te.elimination.exact_loops import exact_loops
from iverson.te.elimination.zero_elimination import is_chosen
from iverson.te.ir.expressions import Var
from iverson.te.ir.index_arithmetic import constraints_of
from iverson.te.ir.interpret import run, scalar
from iverson.te.ir.nodes import (
    Compute,
    Domain,
    For,
    If,
    Program,
    Recurrence,
    Statement,
    Walk,
    program_of,
)
from iverson.te.ir.print import program_text
from iverson.te.ir.verify import check
from iverson.te.lowering.explanation import counts
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import examples, some

FLOAT = np.dtype("float64")
AT, STARTS = te.placeholder((4,), "int64", "at"), te.placeholder((5,), "int64", "starts")
GIVEN = {"at": np.array([3, 3, 0, 1]), "starts": np.array([0, 2, 2, 5, 9])}
N, M = te.var("n"), te.var("m")
OWN = "gather: the write is axes themselves"
MOST = "gather: outputs first, over a box of which nearly all counts"
BOUNDED = "scatter: bounds depend on data, in the order of the definition"
STEP = "gather: a step at a time"
WAITING = "scatter: sizes are not bound yet"
FIRST = "gather: exact loops, outputs first"
ONCE = "injective: every element is written at most once"
LEFT = "; some guards are left in the loops"
MUCH = "; its own box, guarded: too much to ask isl"


def _where(condition: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda value, *axes: select(condition(*axes), value, const(0, FLOAT))


def _made(
    extents: tuple[Any, ...],
    write: Callable[..., tuple[Any, ...]],
    shape: tuple[Any, ...],
    where: Callable[..., tuple[Expr, ...]] = lambda *axes: (),
    body: Callable[..., Expr] = lambda value, *axes: value,
    combine: str = "sum",
    place: Callable[..., Expr] | None = None,
    steps: bool = False,
) -> Compute:
    """``out[write(p)] (combine)= body(a number that names p, p)`` for p in a box, where ``where`` holds.

    extents : numbers, or where axes start and end. steps : whether the first axis is that of a recurrence.
    """
    ranges = [n if isinstance(n, tuple) else (0, n) for n in extents]
    axes = tuple(Var(name, *ends, "axis") for name, ends in zip("ijk", ranges, strict=False))
    number = index(1)
    for v in axes:
        number = number * 7 + v
    value = body(number.astype(FLOAT), *axes)
    to = tuple(map(as_expr, write(*axes)))
    at = None if place is None else place(*axes)
    statement = Statement(None, to, value, Domain(axes, where(*axes)), combine, at)
    recurrence = Recurrence(axes[0], False) if steps else None
    out = Compute(shape, FLOAT if at is None else np.dtype("int64"), "out", (statement,), recurrence)
    if recurrence is not None:
        recurrence.define({out: [statement]})
    return out


def _rows(i: Expr, e: Expr, *rest: Expr) -> tuple[Expr, ...]:
    return (e >= STARTS[i], e < STARTS[i + 1])


#: name: what makes it, and per statement of the result: strategy and reason, points visited, the
#: box of axes and how many conditions are left, how the values combine.
WALKS: dict[str, tuple[Compute, list[str]]] = {
    "own axes, shifted": (
        _made((3, 4, 2), lambda i, j, k: (j + 1, i + 2), (6, 6)),
        [
            OWN + ": 24 of j 1:5, i 2:5, k 0:2, sum, box",
        ],
    ),
    "own axes in order, with a radix": (
        _made((12, 3), lambda i, j: (i,), (12,), body=lambda b, i, j: b * (i // 4).astype(FLOAT)),
        [
            OWN + ": 36 of i 0:12, j 0:3, sum, box",
        ],
    ),
    "own axes, a triangle": (
        _made((4, 4), lambda i, j: (i,), (4,), lambda i, j: (j <= i,)),
        [
            OWN + ": 10 of i 0:4, j 0:4 where 1, sum, loops",
        ],
    ),
    "own axes, some outputs": (
        _made((6, 4), lambda i, j: (i,), (6,), lambda i, j: (i % 3 != 1,)),
        [
            FIRST + ": 8 of a0 0:6, i1 0:2, j 0:4 where 3, sum, loops",
            FIRST + ": 8 of a0 0:6, i1 0:2, j 0:4 where 3, sum, loops",
        ],
    ),
    "own axes, a guard inside": (
        _made((5, 4, 4), lambda i, j, k: (i,), (5,), lambda i, j, k: (i * 2 > j, (i + j) % 3 < 2)),
        [
            OWN + LEFT + ": 39 of i 0:5, j 0:4, k 0:4 where 2, sum, loops",
        ],
    ),
    "own axes, a guard over outputs": (
        _made((5, 4, 4), lambda i, j, k: (i, j), (5, 4), lambda i, j, k: (i * 2 > j, (i + j) % 3 < 2)),
        [
            OWN + ": 36 of i 0:5, j 0:4, k 0:4 where 2, sum, loops",
        ],
    ),
    "an axis twice": (
        _made((4,), lambda i: (i, i), (4, 4)),
        [
            ONCE + ": 4 of i 0:4, sum, box",
        ],
    ),
    "an axis twice, summed": (
        _made((4, 2), lambda i, j: (i, i), (4, 4)),
        [
            FIRST + ": 8 of a0 0:4, a1 0:4, j 0:2 where 1, sum, loops",
        ],
    ),
    "twice an axis": (
        _made((4, 3), lambda i, j: (2 * i,), (8,), lambda i, j: (j <= i,)),
        [
            FIRST + ": 9 of a0 0:7, j 0:3 where 2, sum, loops",
        ],
    ),
    "one place": (
        _made((4,), lambda i: (2,), (5,)),
        [
            FIRST + ": 4 of a0 2:3, i 0:4, sum, loops",
        ],
    ),
    "backwards": (
        _made((4, 3), lambda i, j: (7 - i - j,), (9,)),
        [
            FIRST + ": 12 of a0 2:8, j 0:3 where 2, sum, loops",
        ],
    ),
    "backwards by two": (
        _made((4, 3), lambda i, j: (14 - 2 * i - 2 * j,), (16,)),
        [
            FIRST + ": 12 of a0 4:15, j 0:3 where 3, sum, loops",
        ],
    ),
    "a window": (
        _made((4, 3), lambda i, j: (2 * i + j + 1,), (16,)),
        [
            FIRST + ": 12 of a0 1:10, i 0:4 where 2, sum, loops",
        ],
    ),
    "a window, a guard over outputs": (
        _made((5, 4, 4), lambda i, j, k: (i + j,), (9,), lambda i, j, k: (i * 2 > j, (i + j) % 3 < 2)),
        [
            FIRST + ": 36 of a0 0:8, j 0:4, k 0:4 where 4, sum, loops",
        ],
    ),
    "a window, beyond which nothing is": (
        _made((4, 3), lambda i, j: (2 * i + j + 1,), (6,), lambda i, j: (2 * i + j < 5,)),
        [
            FIRST + ": 7 of a0 1:6, i 0:4 where 2, sum, loops",
        ],
    ),
    "the second index of what solved the first": (
        _made((3, 3, 3), lambda i, j, k: (i + 2 * j + k, i - k + 2), (9, 5)),
        [
            FIRST + ": 27 of a0 0:9, a1 0:5, k 0:3 where 5, sum, loops",
        ],
    ),
    "the second index beside a floor": (
        _made((3, 3, 4), lambda i, j, k: (2 * i + 3 * j + 2 * k, i + j), (30, 9)),
        [
            FIRST + ": 36 of a0 0:17, a1 0:5, j 0:3 where 5, sum, loops",
        ],
    ),
    "a floor of the axis to solve for": (
        _made((4, 3, 2), lambda i, j, k: (2 * i + 3 * j, i + j), (30, 9)),
        [
            FIRST + ": 24 of a0 0:13, a1 0:6, j 0:3, k 0:2 where 4, sum, loops",
        ],
    ),
    "a window, half of it": (
        _made((4, 4), lambda i, j: (2 * i + j,), (10,), body=_where(lambda i, j: (j == 1) | (j == 3))),
        [
            FIRST + ": 16 of a0 0:10, i 0:4 where 2, sum, loops",
        ],
    ),
    "floors of the same axis": (
        _made((4, 3, 2), lambda i, j, k: (2 * i + 2 * j, i + j + k), (30, 9)),
        [
            FIRST + ": 24 of a0 0:11, a1 0:7, j 0:3 where 5, sum, loops",
        ],
    ),
    "radices that do not nest": (
        _made((12, 3), lambda i, j: (i // 2 + i // 3 + j,), (16,), lambda i, j: (j <= i,)),
        [
            "scatter: radices in the write do not nest: 33 of i1 0:6, i0 0:2, j 0:3 where 1, sum, loops",
        ],
    ),
    "a quotient without a rest": (
        _made((8, 3), lambda i, j: ((i + 2 - j) // 2,), (6,), lambda i, j: ((i + 2 - j) % 2 == 0, i + j < 9)),
        [
            FIRST + ": 12 of a0 0:5, j 0:3 where 3, sum, loops",
        ],
    ),
    "a quotient without a rest beside an axis": (
        _made(
            (9, 3, 2),
            lambda i, j, k: ((9 - i + j) // 3 + 2 * k, j),
            (9, 3),
            lambda i, j, k: ((i - j) % 3 == 0,),
        ),
        [
            FIRST + ": 18 of a0 1:6, a1 0:3, k 0:2 where 2, sum, loops",
        ],
    ),
    "two quotients without a rest": (
        _made(
            (8, 8, 4),
            lambda i, j, k: ((i - k + 3) // 2, (j + k) // 3),
            (6, 4),
            lambda i, j, k: ((i + k) % 2 == 1, (j + k) % 3 == 0),
        ),
        [
            FIRST + ": 44 of a0 0:6, a1 0:4, k 0:4 where 4, sum, loops",
        ],
    ),
    "a quotient with a rest": (
        _made((8, 3), lambda i, j: ((i + 2 - j) // 2,), (6,), lambda i, j: ((i + 2 - j) % 3 == 0,)),
        [
            "scatter: radices in the write do not nest: 8 of i 0:8, j 0:3 where 1, sum, loops",
        ],
    ),
    "a quotient, of other numbers modulo its divisor": (
        _made((8, 9), lambda i, j: ((9 - i + j) // 3,), (7,), lambda i, j: ((i - j) % 3 == 1,)),
        ["gather: exact loops, outputs first: 24 of a0 0:6, i 0:8 where 2, sum, loops"],
    ),
    "a quotient, of the same numbers modulo its divisor": (
        _made((8, 9), lambda i, j: ((9 + i - j) // 3,), (7,), lambda i, j: ((i - j) % 3 == 1,)),
        ["gather: exact loops, outputs first: 24 of a0 0:6, i 0:8 where 2, sum, loops"],
    ),
    "a quotient, twice of which is an axis": (
        _made((8, 5, 4), lambda i, j, k: ((j + k) // 2,), (4,), lambda i, j, k: (j + k == 2 * i,)),
        ["gather: exact loops, outputs first: 10 of a0 0:4, i 0:8, k 0:4 where 3, sum, loops"],
    ),
    "a quotient of a quotient": (
        _made((9, 5), lambda i, j: ((i // 2 + j) // 2,), (5,), lambda i, j: ((i // 2 + j) % 2 == 1,)),
        ["gather: exact loops, outputs first: 22 of a0 0:4, i1 0:5, i0 0:2 where 3, sum, loops"],
    ),
    "a quotient by 64": (
        _made((140, 3), lambda i, j: ((i + 2 - j) // 64,), (3,), lambda i, j: ((i + 2 - j) % 64 == 0,)),
        ["gather: exact loops, outputs first: 7 of a0 0:3, j 0:3 where 1, sum, loops"],
    ),
    "a quotient by 65": (
        _made((140, 3), lambda i, j: ((i + 2 - j) // 65,), (3,), lambda i, j: ((i + 2 - j) % 65 == 0,)),
        ["scatter: radices in the write do not nest" + LEFT + ": 131 of i 0:140, j 0:3 where 1, sum, loops"],
    ),
    "radices, too much for isl": (
        _made(
            (5, 4, 4),
            lambda i, j, k: (i // 2 + i // 3 + j,),
            (16,),
            lambda i, j, k: ((2 * i + 3 * j) % 5 == 1, i // 2 == j),
        ),
        [
            "scatter: radices in the write do not nest"
            + MUCH
            + ": 96 of i1 0:3, i0 0:2, j 0:4, k 0:4 where 3, sum, box",
        ],
    ),
    "outputs first, too much for isl": (
        _made(
            (5, 4, 4),
            lambda i, j, k: (i + j,),
            (16,),
            lambda i, j, k: ((2 * i + 3 * j) % 5 == 1, i // 2 == j),
        ),
        [
            "scatter: outputs first is too much to ask isl"
            + MUCH
            + ": 96 of i1 0:3, i0 0:2, j 0:4, k 0:4 where 3, sum, box",
        ],
    ),
    "no exact loops outputs first": (
        _made(
            (5, 4, 4),
            lambda i, j, k: (i + j,),
            (16,),
            lambda i, j, k: ((i + k) % 2 == 0, (j + 2 * k) % 3 == 1),
        ),
        [
            "scatter: no exact loops over the outputs first"
            + LEFT
            + ": 20 of i 0:5, j 0:4, k 0:4 where 2, sum, loops",
        ],
    ),
    "once, a guard inside": (
        _made((5, 4, 4), lambda i, j, k: (i + j,), (16,), lambda i, j, k: ((i + j) % 3 < 2, j * 3 == k + i)),
        [
            ONCE + LEFT + ": 7 of i 0:5, j 0:4, k 0:4 where 2, sum, loops",
        ],
    ),
    "an index that is not affine": (
        _made((4, 4, 9), lambda i, j, k: (i * j,), (10,), lambda i, j, k: (k >= 2, k < 4, i > 0)),
        [
            "scatter: the index is not affine: 32 of i 0:4, j 0:4, k 2:4 where 1, sum, box",
        ],
    ),
    "an index that is not affine, all": (
        _made((4, 4), lambda i, j: (i * j,), (10,)),
        [
            "scatter: the index is not affine: 16 of i 0:4, j 0:4, sum, box",
        ],
    ),
    "nothing left to narrow": (
        _made((4, 4), lambda i, j: (i * j,), (10,), lambda i, j: (i * j % 3 < 2,)),
        [
            "scatter: the guards are not affine: 16 of i 0:4, j 0:4 where 1, sum, box",
        ],
    ),
    "guards that are not affine": (
        _made((4, 9), lambda i, j: (i,), (4,), lambda i, j: (i * j % 5 < 1, j < 3, i < 2)),
        [
            "scatter: the guards are not affine: 12 of i 0:4, j 0:3 where 2, sum, box",
        ],
    ),
    "where the greatest is": (
        _made(
            (4, 9),
            lambda i, j: (i,),
            (4,),
            lambda i, j: (i * j % 5 < 2, j > 1, j < 5),
            combine="argmax",
            place=lambda i, j: j,
        ),
        [
            "scatter: the guards are not affine: 12 of i 0:4, j 2:5 where 1, argmax, box",
        ],
    ),
    "an empty range beside what is not affine": (
        _made((4, 9), lambda i, j: (i,), (4,), lambda i, j: (i * j % 5 < 1, j > i + 7)),
        [
            "scatter: the guards are not affine: 4 of i 0:4, j 8:9 where 2, sum, box",
        ],
    ),
    "by data": (
        _made((4, 8), lambda i, j: (AT[i], j // 2 % 2), (9, 2)),
        [
            "scatter: the address depends on data: 32 of i 0:4, j 0:8, sum, box",
        ],
    ),
    "by data, guarded": (
        _made((4, 4), lambda i, j: (AT[i],), (9,), lambda i, j: (j <= i,)),
        [
            "scatter: the address depends on data: 10 of i 0:4, j 0:4 where 1, sum, loops",
        ],
    ),
    "by data, always": (
        _made((4, 4), lambda i, j: (AT[i],), (9,), lambda i, j: (j <= 4,)),
        [
            "scatter: the address depends on data: 16 of i 0:4, j 0:4, sum, box",
        ],
    ),
    "once": (
        _made((3, 4), lambda i, j: (i * 4 + j,), (12,), lambda i, j: (j <= i,)),
        [
            ONCE + ": 6 of i 0:3, j 0:4 where 1, sum, loops",
        ],
    ),
    "choices": (
        _made((5, 2), lambda i, j: (te.minimum(i, 2),), (5,)),
        [
            OWN + ": 6 of i 0:5, j 0:2 where 1, sum, loops",
            FIRST + ": 4 of a0 2:3, i 0:5, j 0:2 where 1, sum, loops",
        ],
    ),
    "assigned by cases": (
        _made((5,), lambda i: (i, te.minimum(i, 2)), (5, 5), combine="assign"),
        [
            ONCE + ": 3 of i 0:5 where 1, sum, loops",
            ONCE + ": 2 of i 0:5 where 1, sum, loops",
        ],
    ),
    "assigned under a condition": (
        _made((5,), lambda i: (i,), (5,), body=_where(lambda i: i < 3), combine="assign"),
        [
            OWN + ": 3 of i 0:5 where 1, assign, loops",
        ],
    ),
    "assigned but for one": (
        _made((5,), lambda i: (i,), (5,), body=_where(lambda i: i != 3), combine="assign"),
        [
            OWN + ": 5 of i 0:5, assign, box",
        ],
    ),
    "greatest under a condition": (
        _made(
            (3, 5),
            lambda i, j: (i,),
            (3,),
            body=lambda b, i, j: select(j < 3, -b, const(0, FLOAT)),
            combine="max",
        ),
        [
            OWN + ": 15 of i 0:3, j 0:5, max, box",
        ],
    ),
    "few of many": (
        _made((3, 5), lambda i, j: (i,), (3,), body=_where(lambda i, j: (j == 1) | (j == 4))),
        [
            OWN + ": 3 of i 0:3, j 0:5 where 1, sum, loops",
            OWN + ": 3 of i 0:3, j 0:5 where 1, sum, loops",
        ],
    ),
    "half of all": (
        _made((3, 4), lambda i, j: (i,), (3,), body=_where(lambda i, j: (j == 1) | (j == 3))),
        [
            OWN + ": 12 of i 0:3, j 0:4, sum, box",
        ],
    ),
    "unequal to data": (
        _made((3, 4), lambda i, j: (i,), (3,), body=_where(lambda i, j: AT[j] != 3)),
        [
            OWN + ": 12 of i 0:3, j 0:4, sum, box",
        ],
    ),
    "few, not affine": (
        _made((3, 5), lambda i, j: (i,), (3,), body=_where(lambda i, j: (j * j % 7 < 1) | (j * j % 7 > 5))),
        [
            OWN + ": 15 of i 0:3, j 0:5, sum, box",
        ],
    ),
    "nothing": (
        _made((4, 4), lambda i, j: (i,), (4,), lambda i, j: (i > j, j > i, i + j != 3)),
        [
            OWN + ": 0 of i 0:4, j 0:4 where 3, sum, loops",
        ],
    ),
    "nothing at once": (
        _made((4, 4), lambda i, j: (i,), (4,), lambda i, j: (i > 9,)),
        [
            "scatter: no point satisfies the guards: 0 of i 0:4, j 0:4 where 1, sum, loops",
        ],
    ),
    "rows of entries": (
        _made((4, 9), lambda i, e: (i,), (4,), _rows),
        [OWN + ": None of i 0:4, j 0:9 where 2, sum, box"],
    ),
    "rows of entries, shifted, turned": (
        _made((4, 9, 2), lambda i, e, k: (k, i + 1), (2, 6), _rows),
        [OWN + ": None of k 0:2, i 1:5, j 0:9 where 2, sum, box"],
    ),
    "entries": (
        _made((4, 9), lambda i, e: (e,), (9,), _rows),
        [BOUNDED + ": None of i 0:4, j 0:9 where 2, sum, box"],
    ),
    "rows and entries": (
        _made((4, 9), lambda i, e: (i, e), (4, 9), _rows),
        [BOUNDED + ": None of i 0:4, j 0:9 where 2, sum, box"],
    ),
    "some entries": (
        _made((9,), lambda e: (e,), (9,), lambda e: (e >= STARTS[2], e < STARTS[3])),
        [BOUNDED + ": None of i 0:9 where 2, sum, box"],
    ),
    "rows by data": (
        _made((4, 9), lambda i, e: (AT[i],), (4,), _rows),
        [BOUNDED + ": None of i 0:4, j 0:9 where 2, sum, box"],
    ),
    "rows at twice their number": (
        _made((4, 9), lambda i, e: (2 * i,), (7,), _rows),
        [BOUNDED + ": None of i 0:4, j 0:9 where 2, sum, box"],
    ),
    "no rows": (
        _made(((4, 4), 9), lambda i, e: (i,), (4,), _rows),
        ["scatter: an axis has no values: None of i 4:4, j 0:9 where 2, sum, loops"],
    ),
    "steps": (
        _made((3, 4), lambda i, j: (i, j), (3, 4), combine="assign", steps=True),
        [STEP + ": 12 of i 0:3, j 0:4, assign, box"],
    ),
    "steps, guarded": (
        _made((3, 4), lambda i, j: (i, j + 1), (3, 6), lambda i, j: (j <= i,), steps=True),
        [STEP + ": 6 of i 0:3, j 1:5 where 1, sum, loops"],
    ),
    "steps, at twice an axis": (
        _made((3, 4), lambda i, j: (i, 2 * j), (3, 8), steps=True),
        ["scatter: a step at a time: 12 of i 0:3, j 0:4, sum, box"],
    ),
    "steps, by data": (
        _made((3, 4), lambda i, j: (i, te.maximum(AT[j], 2)), (3, 4), steps=True),
        ["scatter: a step at a time: 12 of i 0:3, j 0:4, sum, box"],
    ),
    "steps, one choice": (
        _made((3, 4), lambda i, j: (i, te.maximum(j - 1, 0)), (3, 4), lambda i, j: (j > 0,), steps=True),
        [STEP + ": 9 of i 0:3, j -1:3 where 1, sum, loops"],
    ),
    "steps, by data and one choice": (
        _made(
            (3, 4),
            lambda i, j: (i, AT[j], te.maximum(j - 1, 0)),
            (3, 4, 4),
            lambda i, j: (j > 0,),
            steps=True,
        ),
        ["scatter: a step at a time: 9 of i 0:3, j 0:4 where 1, sum, loops"],
    ),
    "steps, two choices": (
        _made((3, 4), lambda i, j: (i, te.maximum(j - 1, 0)), (3, 4), lambda i, j: (j >= i,), steps=True),
        [
            "gather: a step at a time: 8 of i 0:3, j -1:3 where 2, sum, loops",
            "scatter: a step at a time: 1 of i 0:3, j 0:4 where 2, sum, loops",
        ],
    ),
    "steps, no choice": (
        _made((3, 4), lambda i, j: (i, te.maximum(j - 1, 0)), (3, 4), lambda i, j: (j > 4,), steps=True),
        [": no point satisfies the guards: 0 of i 0:3, j 0:4 where 1, sum, loops"],
    ),
}

#: The same for extents that are not bound, and whether the walks are those of all sizes.
OF_ALL_SIZES: dict[str, tuple[Compute, list[str], bool]] = {
    "own axes": (_made((N, 3), lambda i, j: (i,), (N,)), [OWN + ": None of i 0:n, j 0:3, sum, box"], True),
    "own axes, shifted": (
        _made((N, M), lambda i, j: (i + 1,), (N + 1,)),
        [OWN + ": None of i 1:n + 1, j 0:m, sum, box"],
        True,
    ),
    "the first": (
        _made((N, M), lambda i, j: (i,), (N,), lambda i, j: (j < 1,)),
        [OWN + ": None of i 0:n, j 0:1, sum, box"],
        True,
    ),
    "the last": (
        _made((N, M), lambda i, j: (i,), (N,), lambda i, j: (j >= M - 1,)),
        [OWN + ": None of i 0:n, j m - 1:m, sum, box"],
        True,
    ),
    "the first of some": (
        _made((N, (2, M + 2)), lambda i, j: (i,), (N,), lambda i, j: (j <= 2,)),
        [OWN + ": None of i 0:n, j 2:3, sum, box"],
        True,
    ),
    "the first, not of all sizes": (
        _made((N, (1, M)), lambda i, j: (i,), (N,), lambda i, j: (j <= 1,)),
        [WAITING + ": None of i 0:n, j 1:m where 1, sum, box"],
        False,
    ),
    "the last, not of all sizes": (
        _made((N, (1, M)), lambda i, j: (i,), (N,), lambda i, j: (j >= M - 1,)),
        [WAITING + ": None of i 0:n, j 1:m where 1, sum, box"],
        False,
    ),
    "the first, of a difference": (
        _made((N, (0, 2 * M - N)), lambda i, j: (i,), (N,), lambda i, j: (j < 1,)),
        [WAITING + ": None of i 0:n, j 0:2 * m - n where 1, sum, box"],
        False,
    ),
    "the first and the last": (
        _made((N, M), lambda i, j: (i,), (N,), lambda i, j: (j < 1, j >= M - 1)),
        [WAITING + ": None of i 0:n, j 0:m where 2, sum, box"],
        False,
    ),
    "the first, of both": (
        _made((N, M), lambda i, j: (i,), (N,), lambda i, j: (j < 1, i >= N - 1)),
        [OWN + ": None of i n - 1:n, j 0:1, sum, box"],
        True,
    ),
    "the first and more": (
        _made((N, M), lambda i, j: (i,), (N,), lambda i, j: (j < 1, i < 3)),
        [WAITING + ": None of i 0:n, j 0:m where 2, sum, box"],
        False,
    ),
    "the last, written": (
        _made((N, M), lambda i, j: (i, j), (N, M), lambda i, j: (j >= M - 1,)),
        [OWN + ": None of i 0:n, j m - 1:m, sum, box"],
        True,
    ),
    "the first two": (
        _made((N, M), lambda i, j: (i,), (N,), lambda i, j: (j < 2,)),
        [WAITING + ": None of i 0:n, j 0:m where 1, sum, box"],
        False,
    ),
    "all but the first": (
        _made((N, M), lambda i, j: (i,), (N,), lambda i, j: (j >= 1,)),
        [MOST + ": None of i 0:n, j 0:m where 1, sum, box"],
        True,
    ),
    "a triangle": (
        _made((N, M), lambda i, j: (i,), (N,), lambda i, j: (j <= i,)),
        [WAITING + ": None of i 0:n, j 0:m where 1, sum, box"],
        False,
    ),
    "a window": (
        _made((N, 3), lambda i, j: (i + j,), (N + 2,)),
        [MOST + ": None of a0 0:n + 2, j 0:3 where 2, sum, box"],
        True,
    ),
    "a window as large": (
        _made((N, M), lambda i, j: (i + j,), (N + M - 1,)),
        [WAITING + ": None of i 0:n, j 0:m, sum, box"],
        False,
    ),
    "a window by steps of two": (
        _made((N, 3), lambda i, j: (2 * i + j,), (2 * N + 1,)),
        [WAITING + ": None of i 0:n, j 0:3, sum, box"],
        False,
    ),
    "a part of a window": (
        _made((N, 3), lambda i, j: (i + j,), (N,), lambda i, j: (i + j < N,)),
        [MOST + ": None of a0 0:n, j 0:3 where 3, sum, box"],
        True,
    ),
    "a window, shifted": (
        _made((N, 3), lambda i, j: (i + j + 1,), (N + 3,)),
        [MOST + ": None of a0 0:n + 3, j 0:3 where 2, sum, box"],
        True,
    ),
    "greatest of a window": (
        _made((N, 3), lambda i, j: (i + j,), (N + 2,), combine="max"),
        [WAITING + ": None of i 0:n, j 0:3, max, box"],
        False,
    ),
    "greatest, guarded": (
        _made((N, 3), lambda i, j: (i,), (N,), lambda i, j: (i + j < N,), combine="max"),
        [MOST + ": None of i 0:n, j 0:3 where 1, max, box"],
        True,
    ),
    "by data": (
        _made((N, 3), lambda i, j: (AT[i % 4],), (9,)),
        ["scatter: the address depends on data: None of i 0:n, j 0:3, sum, box"],
        True,
    ),
    "by data, guarded": (
        _made((N, 3), lambda i, j: (AT[i % 4],), (9,), lambda i, j: (j <= i,)),
        [WAITING + ": None of i 0:n, j 0:3 where 1, sum, box"],
        False,
    ),
    "by data, the first": (
        _made((N, 3), lambda i, j: (AT[i % 4],), (9,), lambda i, j: (i < 1,)),
        ["scatter: the address depends on data: 3 of i 0:1, j 0:3, sum, box"],
        True,
    ),
    "a product of axes": (
        _made((N, 3), lambda i, j: (i * j,), (2 * N,)),
        [WAITING + ": None of i 0:n, j 0:3, sum, box"],
        False,
    ),
    "a product of axes, of one": (
        _made((N, 1), lambda i, j: (i * j,), (N,)),
        [WAITING + ": None of i 0:n, j 0:1, sum, box"],
        False,
    ),
    "a quotient": (
        _made((N, 3), lambda i, j: (i // 2,), (N,)),
        [WAITING + ": None of i 0:n, j 0:3, sum, box"],
        False,
    ),
    "guards that are not affine": (
        _made((N, 3), lambda i, j: (i,), (N,), lambda i, j: (i * j < 2 * N,)),
        [WAITING + ": None of i 0:n, j 0:3 where 1, sum, box"],
        False,
    ),
    "from a size on": (
        _made(((N, 9), 3), lambda i, j: (i,), (9,)),
        [OWN + ": None of i n:9, j 0:3, sum, box"],
        True,
    ),
    "the first of a half": (
        _made((N, (0, M // 2)), lambda i, j: (i,), (N,), lambda i, j: (j < 1,)),
        [WAITING + ": None of i 0:n, j 0:m // 2 where 1, sum, box"],
        False,
    ),
    "a window of halves": (
        _made((N, 3), lambda i, j: (i + j // 2,), (N + 1,)),
        [MOST + ": None of a0 0:n + 1, j 0:3 where 2, sum, box"],
        True,
    ),
    "a window by a product": (
        _made((N, 3, 2), lambda i, j, k: (i + j * k,), (N + 2,)),
        [WAITING + ": None of i 0:n, j 0:3, k 0:2, sum, box"],
        False,
    ),
    "one place": (
        _made((N, 3), lambda i, j: (2,), (5,)),
        [WAITING + ": None of i 0:n, j 0:3, sum, box"],
        False,
    ),
    "all of one": (
        _made((N, 3), lambda i, j: (0,), (1,)),
        [MOST + ": None of a0 0:1, i 0:n, j 0:3, sum, box"],
        True,
    ),
    "own axes, shifted, all but the first": (
        _made((N, M), lambda i, j: (i + 1,), (N + 1,), lambda i, j: (j >= 1,)),
        [WAITING + ": None of i 0:n, j 0:m where 1, sum, box"],
        False,
    ),
    "a window of numbers": (
        _made((N, 4, 2), lambda i, j, k: (j + k,), (5,)),
        [MOST + ": None of a0 0:5, i 0:n, k 0:2 where 2, sum, box"],
        True,
    ),
    "a window of numbers in more": (
        _made((N, 4, 2), lambda i, j, k: (j + k,), (8,)),
        [WAITING + ": None of i 0:n, j 0:4, k 0:2, sum, box"],
        False,
    ),
    "a product of axes, in one": (
        _made((N, 1), lambda i, j: (i * j,), (1,)),
        [WAITING + ": None of i 0:n, j 0:1, sum, box"],
        False,
    ),
    "a quotient in one": (
        _made((N, 2), lambda i, j: ((i - j + 1) // (N + 1),), (1,)),
        [WAITING + ": None of i 0:n, j 0:2, sum, box"],
        False,
    ),
    "a quotient of numbers": (
        _made((N, 4), lambda i, j: (j // 2,), (2,)),
        [WAITING + ": None of i 0:n, j 0:4, sum, box"],
        False,
    ),
    "no values": (
        _made((N, (3, 3)), lambda i, j: (i,), (N,)),
        ["scatter: an axis has no values: 0 of i 0:n, j 3:3, sum, loops"],
        False,
    ),
}


def _lines(program: Program) -> list[str]:
    found = []
    for s in program.statements:
        axes = ", ".join(f"{v.name} {v.lo}:{v.hi}" for v in s.domain.axes)
        held = f" where {len(s.domain.where)}" if s.domain.where else ""
        how = f"{s.combine}, {'box' if s.walk is None else 'loops'}"
        found.append(f"{s.strategy}: {s.reason}: {counts(s).visited} of {axes}{held}, {how}")
    return found


@pytest.mark.parametrize("name", WALKS)
def test_walks(name: str) -> None:
    out, expected = WALKS[name]
    program = program_of([out])
    found = te.eliminate(program)
    assert _lines(found) == expected
    assert is_chosen(found)
    own = {(v.name, v.lo, v.hi): v for s in out.statements for v in s.domain.axes}
    for s in found.statements:  # statements over one box stay alike
        assert all(own.get((v.name, v.lo, v.hi), v) is v for v in s.domain.axes)
    again = te.eliminate(found)
    assert (_lines(again), program_text(again)) == (expected, program_text(found))
    feed = [GIVEN[t.name] for t in program.inputs]
    for p in (found, again):
        check(p)
        np.testing.assert_array_equal(run(p, feed)[0], run(program, feed)[0])


@pytest.mark.parametrize("name", OF_ALL_SIZES)
def test_walks_of_all_sizes(name: str) -> None:
    out, expected, chosen = OF_ALL_SIZES[name]
    program = program_of([out])
    found = te.eliminate(program)
    check(found)
    assert (_lines(found), is_chosen(found)) == (expected, chosen)
    again = Compute(out.shape, out.dtype, "again", found.statements)
    code = lower(found)
    feed = [GIVEN[t.name] for t in program.inputs]
    for n, m in some(name, ((1, 1), (2, 1), (3, 5), (6, 4)), 2):
        sizes = {v: {N: n, M: m}[v] for v in program.sizes}
        (want,) = run(program_of(te.bind([out], sizes)), feed)
        np.testing.assert_array_equal(run(te.eliminate(te.bind([again], sizes)), feed)[0], want)
        np.testing.assert_array_equal(code.at(sizes)(*feed)[0], want)


def test_sizes_that_are_not_bound_wait() -> None:
    n = te.var("n")
    k = te.reduce_axis((0, n), "k")
    (s,) = te.eliminate(te.compute((n,), lambda i: te.sum(te.bracket(k > i + 2) * 2.0, k))).statements
    assert (s.strategy, s.reason, s.walk) == ("scatter", "sizes are not bound yet", None)
    assert [v.hi for v in s.domain.axes] == [n, n]


def test_only_sums_take_several_statements() -> None:
    (s,) = _made((3,), lambda i: (i,), (3,)).statements
    for combine in ("assign", "max"):
        twice = Compute((3,), FLOAT, "twice", tuple(replace(s, combine=combine) for _ in range(2)))
        with pytest.raises(ArgumentError, match="one statement per tensor, or sums"):
            check(program_of([twice]))


def _visited(walk: Sequence[Walk], at: dict[Var, int]) -> Iterator[tuple[int, ...]]:
    for item in walk:
        if isinstance(item, For):
            for k in range(scalar(item.lower, at), scalar(item.upper, at), item.step):
                yield from _visited(item.body, {**at, item.var: k})
        elif isinstance(item, If):
            yield from _visited(item.body, at) if scalar(item.condition, at) else ()
        else:
            yield tuple(scalar(e, at) for e in item.at)


@given(st.data())
@settings(max_examples=examples(60))
def test_exact_loops_visit_each_point_once_wherever_axes_start(data: Any) -> None:
    """Axes that start below 0 and above it, under conditions with coefficients and floors, by enumeration."""
    ranges = data.draw(st.lists(st.tuples(st.integers(-4, 3), st.integers(1, 5)), min_size=1, max_size=3))
    axes = [Var(f"v{k}", lo, lo + n) for k, (lo, n) in enumerate(ranges)]
    whole = st.integers(-3, 3)
    conditions = []
    for _ in range(data.draw(st.integers(1, 3))):
        form = as_expr(data.draw(whole))
        for v in axes:
            x = v // data.draw(st.integers(2, 3)) if data.draw(st.integers(0, 3)) == 0 else v
            form = form + x * data.draw(whole)
        conditions.append(form >= 0 if data.draw(st.integers(0, 3)) else form == 0)
    constraints = [c for e in conditions for c in constraints_of(e) or ()]
    box = itertools.product(*(range(lo, lo + n) for lo, n in ranges))
    expected = [p for p in box if all(scalar(e, dict(zip(axes, p, strict=True))) for e in conditions)]
    found = exact_loops(axes, constraints)
    assert found is not None
    assert sorted(_visited(found, {})) == expected
