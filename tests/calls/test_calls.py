"""Every public function is right, eagerly as in every mode, and the calls notice faults.

``IVERSON_TEST_ALL=1`` makes every call in every dtype; otherwise a sample, which ``IVERSON_TEST_SEED`` moves.
"""

from __future__ import annotations

import pytest

from tests.calls import faults, modes
from tests.calls.cases import arrays, functions, some
from tests.calls.operands import VIEWS
from tests.calls.table import calls_of
from tests.conformance.product import EXHAUSTIVE, by_turns, each, turn

PARTS = 6
#: How many cases of a function in a run that is not the whole, or of one in how many functions.
EAGER, MAPPED, COMPILED, VIEWED, FAULTY = 2, 4, 30, 1000, 40

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("error::iverson.errors.DetachWarning"),
]
parts = pytest.mark.parametrize("part", range(PARTS))


def part_of(part, share=1):
    return [f for f in by_turns(functions(), share) if turn(f"{f}", PARTS) == part]


def cases_of(part, count, share=1):
    return [case for f in part_of(part, share) for case in some(*f, count)]


@parts
def test_values_are_those_of_numpy_and_scipy(part):
    each(is_right, cases_of(part, EAGER))


def is_right(case):
    args, kwargs = arrays(case)
    modes.right(case[0], args, kwargs, case[1])


@parts
def test_compiled_calls_are_eager_ones(part):
    each(lambda case: modes.compiled(case[0], *arrays(case)), cases_of(part, 1, COMPILED))


def test_compiled_calls_of_views_are_eager_ones():
    drawn = [
        (call, view)
        for f in functions()
        if f[1] not in modes.READS | modes.SORTED
        for call in calls_of(*f)
        for view in VIEWS
    ]
    each(is_viewed, [d for d in drawn if d[0].operands and (EXHAUSTIVE or turn(f"{d[0]}{d[1]}", 1200) == 0)])


def is_viewed(drawn):
    call, view = drawn
    modes.viewed(call, *arrays((call, ("float64",), "")), view)


@parts
def test_batches_are_their_examples(part):
    each(lambda case: modes.mapped(case[0], *arrays(case)), cases_of(part, 1, MAPPED))


@parts
def test_layouts_change_nothing(part):
    each(in_each_layout, cases_of(part, 1, MAPPED))


def in_each_layout(case):
    args, kwargs = arrays(case)
    for layout in sorted({layout for x in modes.arrays_in(args, kwargs) for layout in modes.layouts_of(x)}):
        modes.in_layouts(case[0], args, kwargs, layout)


@parts
def test_a_mask_of_all_entries_changes_nothing(part):
    each(lambda case: modes.masked(case[0], *arrays(case)), cases_of(part, 1, MAPPED))


def test_every_public_function_is_called():
    assert [f for f in functions() if not calls_of(*f)] == []


def test_faults_are_noticed():
    """Of a sample of the functions; `python -m tests.calls faults` spoils all of them."""
    chosen = [f for f in functions("iv", "linalg", "fft", "special") if turn(f"{f} spoiled", FAULTY) == 0]
    table, survivors, _ = faults.survey(chosen, 0 if EXHAUSTIVE else 60)
    total, noticed = (sum(row[k] for row in table.values()) for k in (0, 1))
    assert total > 20
    assert noticed >= 0.95 * total, survivors
