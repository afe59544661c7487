"""Eager = interpreted = after each pass = compiled = mapped: in value and derivatives, to the third order.

Each op of the table by itself, and random programs over the table. ``IVERSON_TEST_ALL=1`` takes all samples
and orders, in machine code, and 10,000 programs: their values in machine code, their derivatives by turns,
every fifth time in machine code. A run of the tests draws some ops and programs, mostly carried out op by op.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.ops import TABLE
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns
from tests.graph.programs import as_tuple
from tests.graph.table_programs import names, sampled_calls, table_program
from tests.graph.ways import all_ways_agree

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
#: Programs to a test, and how many tests of them there are.
BLOCK, BLOCKS = (25, 400) if EXHAUSTIVE else (1, 3)
#: Which derivatives, by turns.
ORDERS = ((1,), (1,), (2,), (1, 2), (3,)) if EXHAUSTIVE else ((0, 1), (0,), (1,), (0, 1), (2,))
#: Programs in which defects were found, and the orders at which they were.
SELDOM = {
    900042: (1, 2),
    1000007: (2,),
    1000017: (2,),
    1000032: (2,),
    1000039: (2,),
    1000119: (2,),
    1000122: (2,),
}


def subset(seed: int, count: int) -> tuple[int, ...]:
    """Which of some arguments have examples: one at least, by turns."""
    number = 1 + seed % ((1 << count) - 1) if count else 0
    return tuple(k for k in range(count) if number >> k & 1)


@pytest.mark.parametrize("name", by_turns(names(), 4, 1))
def test_every_op(name: str) -> None:
    calls = sampled_calls(name)
    turn = SEED + len(name)
    for call in calls if EXHAUSTIVE else [calls[turn % len(calls)]]:
        differentiable = TABLE[name].differentiable and call.args
        orders = (0, 1, 2, 3) if EXHAUSTIVE else (0, (1, 1, 2, 1, 2, 3)[turn % 6])
        which = subset(turn + call.number, len(call.args))
        all_ways_agree(
            lambda *a, f=call.function: as_tuple(f(*a)),
            call.args,
            orders if differentiable else (0,),
            which,
            EXHAUSTIVE,
        )


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("name", ["eigh", "qr", "slogdet", "svd"])
def test_results_of_which_a_derivative_reads_some(name: str, turn: int) -> None:
    """In a branch, derivatives make again what was not kept of an op's results, and are given what was."""

    def program(x: Any, p: Any) -> Any:
        def inside(x: Any) -> Any:
            return getattr(iv.linalg, name)(x @ x.mT + 0.1 * iv.eye(3))[turn]

        return iv.cond(p > 0, inside, lambda x: 3 * inside(x), x)

    rng = np.random.default_rng(0)
    all_ways_agree(program, [rng.standard_normal((3, 4)), np.ones(())], (0, 1), (0,), False)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_programs(block: int) -> None:
    for number in range(BLOCK):
        seed = (SEED * BLOCKS + block) * BLOCK + number
        orders = ORDERS[seed % len(ORDERS)]
        if EXHAUSTIVE:
            _agree(seed, (0,), True)
        _agree(seed, orders, seed // len(ORDERS) % 5 == 0 if EXHAUSTIVE else orders == (0,))


@pytest.mark.parametrize("seed", SELDOM if EXHAUSTIVE else list(SELDOM)[SEED % 3 :: 3])
def test_programs_in_which_defects_were_found(seed: int) -> None:
    _agree(seed, SELDOM[seed], EXHAUSTIVE)


def _agree(seed: int, orders: tuple[int, ...], native: bool) -> None:
    program, arrays = table_program(seed)
    try:
        all_ways_agree(program, arrays, orders, subset(seed, len(arrays)), native)
    except Exception as error:
        error.add_note(f"in program {seed}: {program.__doc__}")
        raise
