"""Verdicts of gradcheck on a corpus: no right function may fail and no wrong one pass, in any mode and order.

Every function is checked in one mode and order of its own, drawn by its name (and ``IVERSON_TEST_SEED``);
``IVERSON_TEST_ALL=1`` takes all of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from zlib import crc32

import pytest

from iverson.testing import GradcheckError, gradcheck, gradgradcheck
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns
from tests.testing import right, wrong
from tests.testing.mutations import MUTATIONS

pytestmark = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")


def drawn(name: str, *checks: Any) -> list[Any]:
    """The checks of one function that are run: one of them, or all."""
    return list(checks) if EXHAUSTIVE else [checks[crc32(name.encode(), SEED) % len(checks)]]


def of_right(case: right.Right) -> list[Any]:
    """The checks of a right function: second order, the dearest, is drawn as often as a mode of the first."""
    first = [partial(gradcheck, fast=fast) for fast in (False, True)]
    second = [partial(gradgradcheck, fast=fast) for fast in (False, True)]
    if case.orders == 1:
        return drawn(case.name, *first)
    return drawn(case.name, *first, *(second if EXHAUSTIVE else drawn(case.name[::-1], *second)))


@pytest.mark.parametrize("case", by_turns(right.CORPUS, 3), ids=str)
def test_right(case: right.Right) -> None:
    for check in of_right(case):
        assert check(case.fn, case.inputs, masked=case.masked)


@pytest.mark.parametrize("case", by_turns(wrong.CORPUS), ids=str)
def test_wrong(case: wrong.Wrong) -> None:
    check = gradgradcheck if case.second else gradcheck
    for fast in drawn(case.name, False, True):
        with pytest.raises(GradcheckError):
            check(case.fn, case.inputs, fast=fast, **case.options)


def test_the_corpus_is_large() -> None:
    assert len({str(case) for case in right.CORPUS}) == len(right.CORPUS) >= 150
    names = {str(case) for case in (*wrong.CORPUS, *MUTATIONS)}
    assert len(names) == len(wrong.CORPUS) + len(MUTATIONS) >= 100
