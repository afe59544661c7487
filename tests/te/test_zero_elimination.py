"""Points visited are exactly the nonzero terms, counted by brute force, and values do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.accesses import CASES, Case, gradients
from iverson import te
from iverson.te.ir.interpret import Visits, run
from iverson.te.ir.verify import check, unproven_reads, unproven_writes
from iverson.te.lowering.explanation import counts
from iverson.te.lowering.statement_lowering import lower


def _feed(program: te.Program) -> list[object]:
    rng = np.random.default_rng(0)
    return [
        rng.integers(0, 20, t.shape) if t.dtype.kind == "i" else rng.integers(-4, 5, t.shape) * 1.0
        for t in program.inputs
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_points_are_nonzero_terms(case: Case) -> None:
    program, wanted = gradients(case)
    found = te.eliminate(program)
    check(program)
    check(found)
    visits: list[Visits] = []
    feed = _feed(program)
    for a, b in zip(run(program, feed), run(found, feed, visits), strict=True):
        np.testing.assert_array_equal(a, b)
    points = sum(v.points for v in visits if v.statement.tensor in wanted)
    assert points == case.brute()
    if case.listed is not None:
        assert points == case.listed
    visited = [counts(v.statement).visited for v in visits if v.statement.tensor in wanted]
    assert sum(n for n in visited if n is not None) == points
    for v in visits:
        if v.statement.strategy != "gather":
            assert v.idle == 0
        else:  # guards over the outputs alone
            assert v.idle <= int(np.prod(v.statement.tensor.shape))


@pytest.mark.parametrize(("stride", "window"), [(1, 1152), (2, 288)])
def test_the_saved_argument_reads_each_window_once(stride: int, window: int) -> None:
    program, wanted = gradients(next(c for c in CASES if c.name == f"max pool K3 s{stride}"))
    (saved,) = (s for s in program.statements if s.tensor not in wanted)
    assert saved.combine == "argmax"
    assert counts(saved).visited == window


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_only_indices_from_data_are_left_to_check(case: Case) -> None:
    program, _ = gradients(case)
    for s in te.eliminate(program).statements:
        unproven = len(unproven_reads(s)) + len(unproven_writes(s))
        assert unproven == (1 if case.name.startswith("take") else 0)  # the other is a remainder


def test_strategies() -> None:
    chosen = {}
    for case in CASES:
        program, wanted = gradients(case)
        chosen[case.name] = {s.strategy for s in te.eliminate(program).statements if s.tensor in wanted}
    assert chosen["conv2d K3 s2 d1"] == {"gather"}
    assert chosen["take 100 of 4x5"] == chosen["max pool K3 s1"] == {"scatter"}
    assert chosen["6a + 10b + 15c"] == {"scatter"}
    assert chosen["reshape-transpose-reshape"] == {"injective"}


HUGE = 10**12


@pytest.mark.parametrize(
    "condition",
    [
        lambda i, k: (k > 5) & (k < 8),
        lambda i, k: (k > HUGE // 10) & (k < HUGE // 10 + 3),
        lambda i, k: (k == 5) | (k == HUGE - 1),
        lambda i, k: (k * 3 == 21) | (k * 2 == 8),
        lambda i, k: k % (HUGE // 2) == 7,
        lambda i, k: k // 2 == 7,
        lambda i, k: (k >= i + 10**10) & (k < i + 10**10 + 2),
        lambda i, k: (k == i) | (k == HUGE - i - 1),
        lambda i, k: (i * k % 5 < 5) & (k >= 7) & (k < 9),
    ],
)
def test_two_points_of_a_huge_box_are_two(condition: Any) -> None:
    x, k = te.placeholder((3,), name="x"), te.reduce_axis((0, HUGE), "k")
    out = te.compute((3,), lambda i: te.sum(te.select(condition(i, k), x[i] * (k + 1), 0.0), k))
    program = te.eliminate(out)
    check(program)
    assert sum(counts(s).visited or HUGE for s in program.statements) == 6
    assert sum(counts(s).terms or HUGE for s in program.statements) == 6
    expected = [sum(p + 1 for p in points) for points in _points(condition)]
    np.testing.assert_array_equal(lower(program)(np.ones(3))[0], expected)


def _points(condition: Any) -> list[list[int]]:
    """For each i, the k near the places that the conditions name that satisfy one of them."""
    near = [0, HUGE // 10, HUGE // 2, HUGE - 16, 10**10]
    return [[k for n in near for k in range(n, n + 16) if condition(i, k)] for i in range(3)]


def test_explain_counts_no_more_than_it_can_hold() -> None:
    x, k = te.placeholder((3,), name="x"), te.reduce_axis((0, HUGE), "k")
    assert "many nonzero terms" in te.explain(
        te.compute((3,), lambda i: te.sum(te.select(k > i, x[i], 0.0), k))
    )
