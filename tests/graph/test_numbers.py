"""Python numbers in compiled functions are numbers: 0 annihilates no inf and no nan, and has its sign."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan])
NUMBERS = (0.0, -0.0, 1.0, 0, float("inf"), float("nan"))
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "copysign", "atan2")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_functions_of_numbers(dtype):
    """Every binary function of a special entry and a number on either side is that of eager code."""
    x = iv.asarray(SPECIAL[:5].astype(dtype) if dtype == "int64" else SPECIAL.astype(dtype))

    def with_numbers(x):
        found = {}
        for name in BINARY:
            for number in NUMBERS:
                found[name, repr(number), "right"] = getattr(iv, name)(x, number)
                found[name, repr(number), "left"] = getattr(iv, name)(number, x)
        found["both"] = x * 0.0 + 0.0
        return found

    expected = with_numbers(x)
    for f in (iv.jit(with_numbers), iv.jit(with_numbers, interpret=True)):
        for key, found in f(x).items():
            a, b = found.numpy(), expected[key].numpy()
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-14, err_msg=str(key))
            if a.dtype.kind == "f":
                known = ~np.isnan(a)
                np.testing.assert_array_equal(np.signbit(a[known]), np.signbit(b[known]), err_msg=str(key))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_factor_of_zero_is_a_number_in_derivatives_too():
    x = iv.asarray(SPECIAL)
    for f in (lambda x: (x * 0.0 * x).sum(), lambda x: ((0.0 * x + 1) * x).sum()):
        np.testing.assert_array_equal(iv.jit(iv.grad(f))(x).numpy(), iv.grad(f)(x).numpy())
