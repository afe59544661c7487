"""Users' operations on a matrix of 10^5 x 10^5 (`operations`): what they make is counted in bytes."""

from __future__ import annotations

import tracemalloc
import warnings
from functools import cache
from typing import Any

import pytest

import iverson as iv
from iverson import explain
from iverson.autograd import grad
from tests.sparse.operations import DENSE, SMALL, Others, matrix, others

#: Of 75 GiB: some vectors of 10^5 entries, and some hundred bytes for each stored entry.
SMALL_BYTES = 48 << 20


@cache
def operands() -> tuple[Any, Others]:
    return matrix(0), others()


def peak_of(f: Any) -> tuple[int, int]:
    """The most memory that was held at a time, and what the results of ops took in all."""
    tracemalloc.start()
    try:
        with explain.count() as work, warnings.catch_warnings():
            warnings.simplefilter("error", iv.errors.DensifyWarning)
            f()
        return tracemalloc.get_traced_memory()[1], max(work.bytes.values(), default=0)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", SMALL)
def test_stays_small(name):
    """The result, and gradients in the stored values of functions of all of it: of cotangents on its pattern,
    and of those that are the same number everywhere; the latter to second order."""
    s, o = operands()
    values = s.values().requires_grad_()

    def run() -> None:
        y = SMALL[name](iv.with_values(s, values), o)
        if getattr(y, "requires_grad", False):
            assert grad((abs(y) ** 2).sum(), values).shape == values.shape
            g = grad(y.sum(), values, create_graph=True)
            assert g.shape == values.shape
            if g.requires_grad:
                assert grad((g * g).sum(), values).shape == values.shape

    assert max(peak_of(run)) < SMALL_BYTES


@pytest.mark.parametrize("name", DENSE)
def test_dense_by_definition_warns_before_anything_is_made(name):
    s, o = operands()

    def run() -> None:
        with pytest.raises(iv.errors.DensifyWarning, match="100000"):
            DENSE[name](s, o)

    assert max(peak_of(run)) < SMALL_BYTES


def test_the_table_is_as_long_as_users_need():
    assert len(SMALL) + len(DENSE) >= 145
