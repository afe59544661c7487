"""The packed layout: its kernels compute at the mask's entries, and at no other."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.handles import Tensor
from iverson.layouts import Packed, layout_of, to_strided
from iverson.ops import F

MASK = np.array([[True, False, True], [False, False, True]])
DENSE = np.array([[1.0, 0.0, -2.0], [0.0, 0.0, 4.0]])


def packed():
    return Tensor(Packed(MASK, DENSE[MASK]))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: -x,
        lambda x: x * iv.asarray([1.0, 2.0, 3.0]),
        lambda x: 2.0 * x,
        lambda x: x * x,
        lambda x: x + x,
        lambda x: F.add_n(x, x, F.zero((2, 3), x.dtype)),
        lambda x: iv.sqrt(abs(x)),
        lambda x: F.astype(x, dtype=np.dtype("float32")),
    ],
)
def test_zero_stays_zero_and_packed(f):
    found, expected = f(packed()), f(iv.asarray(DENSE))
    layout_of(found._value).check(found._value)
    assert found.layout == "packed"
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("f", [lambda x: x + 1.0, lambda x: x * iv.ones((2, 2, 3)), iv.cos])
def test_anything_else_densifies(f):
    np.testing.assert_array_equal(f(packed()).numpy(), f(iv.asarray(DENSE)).numpy())


def test_a_zero_is_never_multiplied():
    poison = iv.asarray(np.where(MASK, 1.0, np.nan))
    np.testing.assert_array_equal((packed() * poison).numpy(), DENSE)


def test_packing_what_is_packed_shares_its_buffer():
    x = packed()
    assert F.pack(x, MASK.copy(), count=3)._value is x._value.values
    other = ~MASK
    np.testing.assert_array_equal(F.pack(x, other, count=3).numpy(), to_strided(x._value)[other])


def test_errors():
    with pytest.raises(iv.errors.ShapeError, match="pack"):
        F.pack(iv.ones(2), MASK, count=3)
