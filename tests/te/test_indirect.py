"""Programs whose indices depend on data: an error exactly where an index that is read is outside.

Each runs compiled and interpreted, with its gradients to second order and its tangent. Their data hold
entries that no valid read uses and that no buffer has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from iverson import te
from iverson.core.errors import IndexingError
from iverson.expr.nodes import Expr
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.interpret import run
from iverson.te.ir.verify import check
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import by_turns

F = te.F
I64 = "int64"
rng = np.random.default_rng(3)

X, V = te.placeholder((8,), name="X"), te.placeholder((4,), name="V")
I, J = te.placeholder((4,), I64, "I"), te.placeholder((4,), I64, "J")
VALUES = {X: rng.random(8), V: np.array([0.5, 3.2, 1.1, 7.9])}
IMAGE, WHERE = te.placeholder((5, 6), name="image"), te.placeholder((4, 4, 2), name="where")


@dataclass(frozen=True)
class Case:
    """A program, what to differentiate it in, and data."""

    output: te.Compute
    inputs: tuple[Tensor, ...]
    data: dict[Tensor, Any]


def integer(*values: int) -> Any:
    return np.array(values, np.int64)


def whole(x: Expr) -> Expr:
    return F.floor(x).astype(I64)


def sampled(y: Expr, x: Expr) -> Expr:
    """The image between pixels, 0 outside of it."""
    total: Any = 0.0
    for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1)):
        row, column = whole(y) + dy, whole(x) + dx
        weight = (1 - F.abs(y - row.astype("float64"))) * (1 - F.abs(x - column.astype("float64")))
        inside = (row >= 0) & (row < 5) & (column >= 0) & (column < 6)
        total = total + te.select(inside, IMAGE[row, column] * weight, 0.0)
    return total


def rows_of_csr() -> Case:
    starts, columns = te.placeholder((5,), I64, "starts"), te.placeholder((7,), I64, "columns")
    values, B = te.placeholder((7,), name="values"), te.placeholder((6, 2), name="B")
    e = te.reduce_axis((0, 4), "e")

    def entry(i: Any, j: Any) -> Expr:
        at = starts[i] + e
        return te.sum(te.select(e < starts[i + 1] - starts[i], values[at] * B[columns[at], j], 0.0), e)

    data = {starts: integer(0, 3, 3, 4, 6), columns: integer(0, 3, 5, 2, 1, 4, 99)}
    data |= {values: rng.random(7), B: rng.random((6, 2))}
    return Case(te.compute((4, 2), entry), (values, B), data)


def deformable_convolution() -> Case:
    offsets, K = te.placeholder((2, 2, 2, 3, 3), name="offsets"), te.placeholder((2, 2), name="K")
    r, s = te.reduce_axis((0, 2), "r"), te.reduce_axis((0, 2), "s")

    def entry(i: Any, j: Any) -> Expr:
        y = (i + r).astype("float64") + offsets[r, s, 0, i, j]
        return te.sum(K[r, s] * sampled(y, (j + s).astype("float64") + offsets[r, s, 1, i, j]), [r, s])

    data = {IMAGE: rng.random((5, 6)), K: rng.random((2, 2)), offsets: rng.uniform(-2, 2, (2, 2, 2, 3, 3))}
    return Case(te.compute((3, 3), entry), (IMAGE, K, offsets), data)


def guarded_terms() -> Case:
    W, at = te.placeholder((4, 3), name="W"), te.placeholder((4, 3), I64, "at")
    k = te.reduce_axis((0, 3), "k")
    output = te.compute((4,), lambda i: te.sum(te.select(W[i, k] > 0.5, X[at[i, k]] * W[i, k], 0.0), k))
    few = np.eye(4, 3, dtype=bool)
    return Case(output, (X, W), {**VALUES, W: np.where(few, 0.9, 0.2), at: np.where(few, 3, 99)})


def vector(f: Callable[[Any], Any], i: Any, j: Any, *inputs: Tensor) -> Case:
    return Case(te.compute((4,), f), inputs, {**VALUES, I: i, J: j})


ANY = integer(0, 0, 0, 0)
CASES = {
    "two buffers": lambda: vector(
        lambda i: X[I[i] + J[i]] ** 2, integer(7, 0, 3, 2), integer(0, 7, -3, 5), X
    ),
    "low bits": lambda: vector(lambda i: X[F.bitwise_and(I[i], 7)] ** 2, integer(-1, 99, 3, 2), ANY, X),
    "from floats": lambda: vector(lambda i: X[whole(V[i])] * V[i], ANY, ANY, X, V),
    "a choice": lambda: vector(
        lambda i: X[te.select(V[i] > 1, I[i], 0)] * V[i], integer(77, 0, 3, 2), ANY, X, V
    ),
    "guarded by data": lambda: vector(
        lambda i: te.select(V[i] > 1, X[I[i]] * V[i], -9.0), integer(77, 0, 3, 2), ANY, X, V
    ),
    "scatter": lambda: Case(
        te.scatter((8,), (4,), lambda e: (I[e] + J[e], V[e] ** 2)),
        (V,),
        {**VALUES, I: integer(7, 0, 3, 2), J: integer(0, 7, -3, 5)},
    ),
    "guarded terms": guarded_terms,
    "rows of CSR": rows_of_csr,
    "spatial transformer": lambda: Case(
        te.compute((4, 4), lambda i, j: sampled(WHERE[i, j, 0], WHERE[i, j, 1])),
        (IMAGE, WHERE),
        {IMAGE: rng.random((5, 6)), WHERE: rng.uniform(-2, 8, (4, 4, 2))},
    ),
    "deformable convolution": deformable_convolution,
}


@pytest.mark.parametrize("name", by_turns(CASES))
def test_indirect_programs_and_their_derivatives(name: str) -> None:
    case = CASES[name]()
    x, H = case.inputs[0], te.placeholder(case.output.shape, name="H")
    t = te.placeholder(x.shape, name="t")
    gradients = list(te.differentiate(case.output, case.inputs, H))
    second = te.differentiate(gradients[0], x, t)
    program = te.program_of([case.output, *gradients, *second, te.jvp(case.output, {x: t})])
    data = {**case.data, H: rng.standard_normal(H.shape), t: rng.standard_normal(t.shape)}
    feed = [data[p] for p in program.inputs]
    eliminated = te.eliminate(program)
    check(eliminated)
    for found, expected in zip(lower(eliminated)(*feed), run(program, feed), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


K = te.reduce_axis((0, 4), "k")
WRONG: dict[str, tuple[Callable[[], te.Compute], Any, Any, int]] = {
    # program, I, J, the index that is wrong
    "where the guard holds": (
        lambda: te.compute((4,), lambda i: te.select(V[i] > 1, X[I[i]], -9.0)),
        integer(77, 0, 8, 2), ANY, 8,
    ),
    "a sum of two": (
        lambda: te.compute((4,), lambda i: X[I[i] + J[i]]), integer(7, 0, 3, 2), integer(0, 7, -4, 5), -1,
    ),
    "made of floats": (lambda: te.compute((4,), lambda i: X[whole(V[i] + 1)]), ANY, ANY, 8),
    "computed": (
        lambda: te.compute((4,), lambda i: X[te.sum(te.select(i >= K, I[K], 0), K)]),
        integer(4, 3, 0, 2), ANY, 9,
    ),
    "a scatter": (
        lambda: te.scatter((8,), (4,), lambda e: (I[e] + J[e], V[e])),
        integer(7, 0, 3, 2), integer(1, 7, -3, 5), 8,
    ),
    "in a sum": (
        lambda: te.compute((4,), lambda i: te.sum(te.select(V[K] > 7, X[I[K] + i], 0.0), K)),
        integer(99, 0, 0, 5), ANY, 8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_index_that_is_used_and_wrong_is_named(name: str) -> None:
    make, i, j, index = WRONG[name]
    program = te.eliminate(make())
    data = {**VALUES, I: i, J: j}
    feed = [data[p] for p in program.inputs]
    with pytest.raises(IndexingError):
        run(program, feed)
    for threads in (1, 3):
        with pytest.raises(IndexingError, match=f"index {index} "):
            lower(program)(*feed, threads=threads)
