"""Counts of what phases do, against running them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iverson.codegen.nests import interpret
from iverson.codegen.nests.nodes import Buffer, If, Kernel, Load, Loop, Stmt, Store, Var
from iverson.codegen.schedule.visit_counts import visits
from iverson.expr.build import apply
from iverson.expr.nodes import Apply, Const

FLOAT = np.dtype("float64")
A, B = Buffer("A", FLOAT, (40,), "inout"), Buffer("B", FLOAT, (8, 5), "in")
I, J = Var("i"), Var("j")


def nest(first: int, last: int, step: int, lag: int, least: int) -> Stmt:
    """for i in first:last by step: if i >= least: for j in 0:min(i, 5) by 1: A[i * 4 + lag] += B[i, j]"""
    upper = apply("minimum", I, Const(5))
    add = Store(A, (I * 4 + lag,), Load(B, (I, J)), "sum")
    inner = Loop("j", Const(0), upper, (add,))
    return Loop("i", Const(first), Const(last), (If(least <= I, (inner,)),), step)


@given(st.integers(0, 7), st.integers(0, 8), st.integers(1, 3), st.integers(0, 3), st.integers(0, 8))
def test_points_and_bytes_are_those_of_a_run(first: int, last: int, step: int, lag: int, least: int) -> None:
    phase = nest(first, last, step, lag, least)
    entered = [i for i in range(first, last, step) if i >= least]
    points, moved = visits(phase, {})
    memory = {"A": np.zeros(40), "B": np.ones((8, 5))}
    interpret.run(Kernel("k", (A, B), (phase,)), memory)
    assert points == memory["A"].sum() == sum(min(i, 5) for i in entered)
    written = np.count_nonzero(memory["A"])
    read = {(i, j) for i in entered for j in range(min(i, 5))}
    assert moved >= 8 * (2 * written + len(read))
    tried = len(range(first, last, step))
    assert moved <= 8 * (2 * tried + min(40, tried * max([min(i, 5) for i in entered], default=0)))


def test_an_index_that_depends_on_data_may_be_any() -> None:
    at = Buffer("at", np.dtype("int64"), (3,), "in")
    body: Any = Store(A, (Load(at, (I,)),), Const(1.0, FLOAT), "sum")
    assert visits(Loop("i", Const(0), Const(3), (body,)), {}) == (3, 8 * (2 * 40 + 3))
    assert isinstance(I * 4, Apply)
