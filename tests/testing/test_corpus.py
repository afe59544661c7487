"""Verdicts of gradcheck on a corpus: no right function may fail, no wrong one may pass, in either mode."""

from __future__ import annotations

import pytest

from iverson.testing import GradcheckError, gradcheck, gradgradcheck
from tests.testing import right, wrong
from tests.testing.mutations import MUTATIONS

pytestmark = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")


@pytest.mark.parametrize("number", range(len(right.CORPUS)), ids=map(str, right.CORPUS))
def test_right(number: int) -> None:
    case = right.CORPUS[number]
    for fast in (False, True):
        assert gradcheck(case.fn, case.inputs, fast=fast, masked=case.masked)
    if case.orders > 1:
        assert gradgradcheck(case.fn, case.inputs, fast=bool(number % 2), masked=case.masked)


@pytest.mark.parametrize("case", wrong.CORPUS, ids=str)
def test_wrong(case: wrong.Wrong) -> None:
    check = gradgradcheck if case.second else gradcheck
    for fast in (False, True):
        with pytest.raises(GradcheckError):
            check(case.fn, case.inputs, fast=fast, **case.options)


def test_the_corpus_is_large() -> None:
    assert len({str(case) for case in right.CORPUS}) == len(right.CORPUS) >= 150
    names = {str(case) for case in (*wrong.CORPUS, *MUTATIONS)}
    assert len(names) == len(wrong.CORPUS) + len(MUTATIONS) >= 100
