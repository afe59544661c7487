"""Exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iverson.core.protocols import NDArray
from iverson.core.scalars.scalar_record import (
    COMPILED,
    COMPLEX,
    FINITE,
    FLOAT,
    POSITIVE,
    REAL_FLOAT,
    TWO,
    ZERO,
    scalar,
)

_LN2, _LN10 = math.log(2), math.log(10)


def _expm1(x: NDArray) -> Any:
    """NumPy's expm1; for complex numbers that are not finite exp(x) - 1, as in the array API standard."""
    y = np.expm1(x)
    if x.dtype.kind != "c" or (finite := np.isfinite(x)).all():
        return y
    with np.errstate(invalid="ignore"):
        e = np.array(np.exp(x))  # of a complex number less 1, NumPy loses what is infinite
    e.real -= 1
    return np.where(finite, y, e)


def exp2(x: NDArray) -> Any:
    """2^x; of complex x exp((x - n) log 2) 2^n, n the whole number nearest to the real part.

    So the rounding of x log 2 is that of a small number. 2^n is two factors, of which none overflows.
    Parts are multiplied one by one: a product of complex numbers has 0 * inf in it.
    """
    if x.dtype.kind != "c":
        return np.exp2(x)
    bound = 2 * EXP2_HALVES[x.real.dtype.itemsize]
    n = np.rint(np.nan_to_num(np.clip(x.real, -bound, bound)))
    y = np.array(x)
    with np.errstate(under="ignore"):
        y.real = (x.real - n) * y.real.dtype.type(_LN2)
        y.imag *= y.real.dtype.type(_LN2)
        y = np.array(np.exp(y))
        for power in (np.floor(n / 2), n - np.floor(n / 2)):
            y.real *= np.exp2(power)
            y.imag *= np.exp2(power)
    return y[()]


#: Exponents, by the size of a float in bytes, of a factor that is in range; twice them are not.
EXP2_HALVES = {4: 100, 8: 1000}

# fmt: off
EXPONENTIAL = (
    scalar("exp", np.exp, lambda F, y, _x: y, FLOAT | COMPLEX | FINITE, "e to the power x.", "[0., 1.]",
        "[1.        , 2.71828183]"),
    scalar("exp2", exp2, lambda F, y, _x: y * _LN2, FLOAT | COMPLEX, "2 to the power x.", "[0., 3.]",
        "[1., 8.]"),
    # y + 1 would cancel
    scalar("expm1", _expm1, lambda F, _y, x: F.exp(x), FLOAT | ZERO | COMPLEX | FINITE,
        "exp(x) - 1, exact near 0.", "[0., 1e-20]", "[0.e+00, 1.e-20]"),
    scalar("log", np.log, lambda F, _y, x: F.reciprocal(x), FLOAT | COMPLEX, "The natural logarithm.",
        "[1., 10.]", "[0.        , 2.30258509]", domain=(POSITIVE,)),
    scalar("log1p", np.log1p, lambda F, _y, x: F.reciprocal(1 + x), FLOAT | ZERO | COMPLEX,
        "log(1 + x), exact near 0.", "[0., 1e-20]", "[0.e+00, 1.e-20]", domain=((-0.7, 2.0),)),
    scalar("log2", np.log2, lambda F, _y, x: 1 / (x * _LN2), FLOAT | COMPLEX, "The logarithm to base 2.",
        "[1., 8.]", "[0., 3.]", domain=(POSITIVE,)),
    scalar("log10", np.log10, lambda F, _y, x: 1 / (x * _LN10), FLOAT | COMPLEX, "The logarithm to base 10.",
        "[1., 100.]", "[0., 2.]", domain=(POSITIVE,)),
    scalar("logaddexp", np.logaddexp,
        (lambda F, _y, a, b: F.sigmoid(a - b), lambda F, _y, a, b: F.sigmoid(b - a)), REAL_FLOAT | COMPILED,
        "log(exp(x1) + exp(x2)), without overflow.", "[1000.]", "0.", "[1000.]", domain=TWO),
)
# fmt: on
