"""Symbolic numbers: what is computed and decided with them is what numbers of Python give at other values."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iverson.expr.symbolic_numbers import (
    SPREAD,
    EscapedNumber,
    Recording,
    SymbolicNumber,
    integer,
    is_infinite,
    is_symbolic,
    lifted,
    maximum,
    minimum,
    near,
    pinned,
    plain,
    real,
    typical,
)

Program = Callable[..., list[Any]]
COMPUTED = (
    operator.add,
    operator.sub,
    operator.mul,
    lambda a, b: a // (abs(b) + 1),
    lambda a, b: a % (abs(b) + 1),
    lambda a, b: a / (abs(b) + 2),
    min,
    max,
    lambda a, b: a if a < b else -b,
    lambda a, b: a + 1 if a == b else a - b,
    lambda a, b: sum([a, b, a]),
    lambda a, b: a * a if a >= 3 and not b else abs(a),
    lambda a, b: math.prod((a, 2, b)),
    lambda a, b: lifted(math.gcd)(integer(a), integer(b)),
)


def program(plan: list[tuple[int, int, int]]) -> Program:
    """A program of three numbers: each step takes two of those that are there."""

    def run(*inputs: Any) -> list[Any]:
        made: list[Any] = [*inputs, 0, 1, 16, 3]
        for k, first, second in plan:
            a, b = made[first % len(made)], made[second % len(made)]
            made.append(integer(COMPUTED[k % len(COMPUTED)](a, b)) % 10007)
        return made[7:]

    return run


@settings(deadline=None, max_examples=400)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)), max_size=12),
    st.tuples(*[st.integers(0, 60)] * 3),
    st.lists(st.tuples(*[st.integers(0, 60)] * 3), max_size=6),
)
def test_formulas_give_what_the_program_gives_or_nothing(
    plan: list[tuple[int, int, int]], sample: tuple[int, ...], others: list[tuple[int, ...]]
) -> None:
    run = program(plan)
    recording = Recording()
    formulas = recording.formulas(run(*map(recording.number, sample)))
    assert formulas.at(sample) == run(*sample)
    for inputs in others:
        assert formulas.at(inputs) in (None, run(*inputs))


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_judges_costs_serves_the_numbers_that_are_near(n: int, m: int) -> None:
    recording = Recording()
    x, y = recording.number(n), recording.number(3)
    seen = typical(x * x + 4)
    assert type(seen) is int
    assert seen == n * n + 4
    formulas = recording.formulas([x + y])
    is_near = n == m or (min(n, m) > 0 and max(n, m) <= SPREAD * min(n, m))
    assert formulas.at([m, 10**9]) == ([m + 10**9] if is_near else None)  # no cost was judged by y
    assert typical(m) == m


@pytest.mark.parametrize(
    ("x", "y", "truth"),
    [
        (SPREAD, 1, True),
        (1, SPREAD, True),
        (SPREAD + 1, 1, False),
        (1, SPREAD + 1, False),
        (0, 0, True),
        (0, 1, False),
        (1, 0, False),
        (-3, -3, True),
        (-3, -2, False),
        (-2, 3, False),
        (0.5, 4.0, True),
    ],
)
def test_numbers_are_near(x: float, y: float, truth: bool) -> None:
    assert near(x, y) == truth


def test_symbolic_numbers_beside_others() -> None:
    """What is no number is unequal and has no order, and no path condition follows from that."""
    recording = Recording()
    n, x = recording.number(1), recording.number(0.5)
    assert (n == None, n != "1", n == (1,)) == (False, True, False)  # noqa: E711
    with pytest.raises(TypeError):
        n < "1"  # noqa: B015
    assert not recording.formulas([n]).conditions
    assert n
    assert not recording.number(0)
    assert (is_symbolic(n), is_symbolic(x), is_symbolic(1), is_symbolic(None)) == (True, True, False, False)
    assert integer(n).node == n.node
    assert real(x).node == x.node
    assert plain(real(n)) == 1.0
    assert type(plain(real(n))) is float
    assert plain(integer(x)) == 0


@given(st.lists(st.integers(-9, 9), min_size=1), st.lists(st.integers(-9, 9), min_size=1))
def test_the_least_and_the_largest_decide_nothing(first: list[int], second: list[int]) -> None:
    second = (second * len(first))[: len(first)]
    recording = Recording()
    numbers = list(map(recording.number, first))
    formulas = recording.formulas([minimum(*numbers, 3), maximum(0, *numbers), minimum(*numbers, math.inf)])
    assert not formulas.conditions
    assert formulas.at(second) == [min(*second, 3), max(0, *second), min(second)]


def test_a_path_without_decisions_serves_all_numbers() -> None:
    recording = Recording()
    n, m = recording.number(347), recording.number(16)
    formulas = recording.formulas([n * m * 4, -(-n // 64), (n - 1) * m, n / 2, 7])
    assert not formulas.conditions
    assert formulas.at([5, 3]) == [60, 1, 12, 2.5, 7]


def test_a_decision_holds_where_it_would_be_the_same() -> None:
    recording = Recording()
    n = recording.number(347)
    formulas = recording.formulas([(n + 63) // 64 if n > 64 else 1])
    assert formulas.at([400]) == [7]
    assert formulas.at([64]) is None
    assert Recording().formulas([3, "text"]).at([]) == [3, "text"]


def test_neutral_operands_make_no_new_formula() -> None:
    recording = Recording()
    n, x = recording.number(12), recording.number(0.5)
    assert all(repr(y) == repr(n) for y in (n + 0, 0 + n, n - 0, n * 1, 1 * n, n // 1))
    assert repr(n * 3) == repr(3 * n)
    assert repr(0 - n) != repr(n)
    assert repr(x + 0) != repr(x)  # of -0.0 it is not the same
    assert not recording.conditions


@pytest.mark.parametrize(
    "use",
    [
        range,
        int,
        float,
        complex,
        math.sqrt,
        np.zeros,
        np.arange,
        lambda n: [1, 2, 3][n],
        lambda n: "ab" * n,
        lambda n: np.asarray([n], np.int64),
        lambda n: np.float64(2.0) ** np.asarray(n, np.int64),
        lambda n: struct.pack("<q", n),
        lambda n: slice(0, n).indices(5),
        round,
    ],
)
def test_a_use_as_a_number_of_python_is_refused(use: Callable[[Any], Any]) -> None:
    with pytest.raises((EscapedNumber, TypeError, struct.error)):
        use(Recording().number(2))


def test_they_are_numbers_to_isinstance_alone() -> None:
    recording = Recording()
    n, x = recording.number(3), recording.number(0.25)
    assert isinstance(n, int)
    assert isinstance(x, float)
    assert not isinstance(n, float)
    assert type(n) is SymbolicNumber
    assert (plain(n), plain(x), plain(7)) == (3, 0.25, 7)
    assert repr(n) != repr(Recording().number(3))
    assert np.prod((n, 4), dtype=object).value == 12
    assert (np.int64(5) * n).value == 15


def test_pinned_numbers_are_path_conditions() -> None:
    recording = Recording()
    n, m = recording.number(3), recording.number(5)
    formulas = recording.formulas([[1, 2, 3, 4][pinned(n)] + m])
    assert formulas.at([3, 6]) == [10]
    assert formulas.at([2, 6]) is None
    assert pinned(8) == 8


def test_functions_of_numbers_are_carried_out_again() -> None:
    recording = Recording()
    n = recording.number(10)
    root = lifted(math.sqrt)(real(n))
    assert lifted(math.sqrt)(4.0) == 2.0
    formulas = recording.formulas([root, lifted(lambda *xs: sorted(xs))(3, n, 1)])
    assert formulas.at([16]) == [4.0, [1, 3, 16]]
    assert formulas.at([-1]) is None  # there is no such number
    assert not is_infinite(n)
    assert is_infinite(math.inf)


def test_numbers_of_two_recordings_do_not_meet() -> None:
    with pytest.raises(EscapedNumber, match="another recording"):
        Recording().number(2) + Recording().number(3)
