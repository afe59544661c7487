"""Arithmetic, powers, roots, lengths and signs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.scalars.scalar_record import (
    ANY,
    COMPILED,
    COMPLEX,
    FINITE,
    FLOAT,
    NO_FACTS,
    POSITIVE,
    REAL,
    REAL_FLOAT,
    SCALED,
    SILENT,
    STRICT,
    TWO,
    UFUNC,
    ZERO,
    Strided,
    scalar,
)


def _pow(a: Any, b: Strided) -> Any:
    """Body of `pow`, with fast paths for the exponents 3, 4 and 0.5 as Python numbers."""
    # NumPy's ufunc has no fast path for the small exponents everybody writes; its operator has.
    if not isinstance(b, (int, float)):
        return np.power(a, b)
    if b in (3, 4) and isinstance(a, np.ndarray) and a.dtype.kind in "fc":  # NumPy calls libm for each entry
        square = np.square(a)
        return square * (a if b == 3 else square)
    y = a**b
    if b == 0.5 and y.dtype.kind == "f":  # a root, which has a -0, and is nan at -inf
        y = np.where(np.isneginf(a), math.inf, y + 0.0).astype(y.dtype, copy=False)
    return y


def _is_slow(_a: Shaped, b: Shaped | complex) -> bool:
    return not isinstance(b, (int, float)) or b not in (-1, 0, 0.5, 1, 2, 3, 4)


def _pow_da(F: Namespace, _y: Shaped, a: Value, b: Value | float) -> Any:
    if isinstance(b, (int, float)):
        return b if b in (0, 1) else b * (a if b == 2 else F.pow(a, b - 1))
    # 0 * a**(-1) at a = 0 is not a derivative: a**0 is constant. The derivative of 0 in b, which is 1 / a, is
    # that of a root there: inf. At b = 1 it is 1 + log(a): -inf.
    zero_power = F.logical_and(F.equal(b, 0), F.logical_not(F.isfinite(F.reciprocal(a))))
    slope = b * F.pow(F.where(zero_power, 1.0, a), b - 1)
    linear = F.logical_and(F.equal(a, 0), F.equal(b, 1))
    return F.where(zero_power, _root(F, zero_power, b), slope - _root(F, linear, b - 1))


def _pow_db(F: Namespace, y: Value, a: Value, b: Value) -> Any:
    # 0**b is constant for b > 0; for b < 0 it is inf, and so is the derivative. That in a of a**b log(a) is
    # -inf for 0 < b <= 1, inf for b = 0.
    real = F.real(b) if b.dtype.kind == "c" else b
    constant = F.logical_and(F.equal(a, 0), F.greater_equal(real, 0))
    zero_power, steep = F.equal(b, 0), F.logical_and(F.greater(real, 0), F.less_equal(real, 1))
    flat = _root(F, F.logical_and(constant, zero_power), a) - _root(F, F.logical_and(constant, steep), a)
    return F.where(constant, flat, y * F.log(F.where(constant, 1.0, a)))


def _root(F: Namespace, there: Value, x: Value) -> Any:
    """A value that is 0, with the derivative inf, where ``there`` holds, and constant 0 elsewhere.

    x : an argument that is 0 where ``there`` holds.
    """
    return F.where(there, F.sqrt(F.where(there, x, 1.0)), 0.0)


def _inverse(F: Namespace, b: Value | float) -> Any:
    # A Python number stays one, so that it takes the cotangent's precision.
    return 1 / b if isinstance(b, (int, float)) and b else F.reciprocal(b)


def _signbit_copy(F: Namespace, _y: Shaped, a: Value, b: Value) -> Any:
    return F.sign(a) * F.copysign(1.0, b)


def inverse_length(F: Namespace, y: Value) -> Any:
    """1 / y, and 0 where the length y is 0: the derivative of a length is taken as 0 there.

    Its own derivative does not exist there, and must not be 0 in silence: it is that of the root of y, inf.
    """
    at_zero = F.equal(y, 0)
    return F.where(at_zero, F.sqrt(y), F.reciprocal(F.where(at_zero, 1.0, y)))


def _unit(F: Namespace, y: Value, x: Value) -> Any:
    """x / |x|, and 0 at 0; ``y`` is |x|."""
    return F.sign(x) if x.dtype.kind != "c" else x * inverse_length(F, y)


def _sign_rule(F: Namespace, t: Value, y: Value, x: Value) -> Any:
    if x.dtype.kind != "c":
        return None
    size = F.abs(x)
    inverse = F.where(F.equal(size, 0), 0.0, 1 / F.where(F.equal(size, 0), 1.0, size))
    return inverse * (t - y * F.real(F.conj(y) * t))


def _infinite(x: Strided) -> Any:
    return np.isinf(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else False


def _floordiv(a: Any, b: Any) -> Any:
    """NumPy's floor_divide, but the quotient where an operand is infinite, as in the array API standard.

    inf // 2 is inf and 1 // -inf is -0, where Python has nan and -1.
    """
    dtype = (
        np.result_type(a, b) if float in (type(a), type(b)) else (a if isinstance(a, np.ndarray) else b).dtype
    )
    if dtype.kind == "f":  # in which a number may be infinite that is finite in double precision
        a, b = (x if isinstance(x, np.ndarray) else np.asarray(x, dtype) for x in (a, b))
    infinite = np.logical_or(_infinite(a), _infinite(b))
    if not infinite.any():
        return np.floor_divide(a, b)
    # Each of the two is computed where it is not wanted too: of ones, which raise no flag.
    finite = np.floor_divide(*(np.where(infinite, 1, x) for x in (a, b)))
    quotient = np.divide(*(np.where(infinite, x, 1) for x in (a, b)))
    return np.where(infinite, quotient, finite)


def _sign(x: NDArray) -> Any:
    return np.sign(x)


# fmt: off
ARITHMETIC = (
    scalar("add", np.add, (lambda *_: 1, lambda *_: 1), COMPLEX | FINITE | SCALED,
        "x1 + alpha * x2 (alpha is 1 unless given).", "[1., 2.]", "3.", "[4., 5.]", kinds=ANY,
        linear_in=((0, 1),), domain=TWO),
    scalar("subtract", np.subtract, (lambda *_: 1, lambda *_: -1), COMPLEX | FINITE | STRICT | SCALED,
        "x1 - alpha * x2 (alpha is 1 unless given).", "[1., 2.]", "3.", "[-2., -1.]", linear_in=((0, 1),),
        domain=TWO),
    scalar("multiply", np.multiply, (lambda F, _y, _a, b: b, lambda F, _y, a, _b: a), COMPLEX | FINITE,
        "x1 * x2.", "[1., 2.]", "3.", "[3., 6.]", kinds=ANY, linear_in=((0,), (1,)), domain=TWO),
    scalar("divide", np.divide, (lambda F, _y, _a, b: _inverse(F, b), lambda F, y, _a, b: -y / b),
        FLOAT | COMPLEX, "x1 / x2; what a sparse x1 does not store is 0 in the result too, also over 0.",
        "[1, 2]", "2", "[0.5, 1. ]", linear_in=((0,),), domain=(None, (0.5, 2.0))),
    scalar("negative", np.negative, lambda *_: -1, COMPLEX | FINITE | SILENT | STRICT, "-x.", "[1., -2.]",
        "[-1.,  2.]", linear_in=((0,),)),
    scalar("positive", np.positive, lambda *_: 1, COMPLEX | FINITE | SILENT | STRICT, "x itself.",
        "[1., -2.]", "[ 1., -2.]", linear_in=((0,),)),
    scalar("square", np.square, lambda F, _y, x: 2 * x, ZERO | COMPLEX | FINITE, "x * x.", "[1., -3.]",
        "[1., 9.]"),
    scalar("reciprocal", np.reciprocal, lambda F, y, _x: -y * y, FLOAT | COMPLEX, "1 / x.", "[2., 4.]",
        "[0.5 , 0.25]", domain=((0.5, 2.0),)),
    scalar("pow", _pow, (_pow_da, _pow_db), COMPLEX | UFUNC, "x1 to the power x2.", "[2., 3.]", "2",
        "[4., 9.]", domain=((0.5, 2.0), None),
        convention="at a = 0 the derivative in an exponent b >= 0 is 0; that of a**0 in a is 0",
        compiled=_is_slow),
    scalar("sqrt", np.sqrt, lambda F, y, _x: 0.5 / y, FLOAT | ZERO | COMPLEX, "The square root.", "[1., 9.]",
        "[1., 3.]", domain=(POSITIVE,),
        convention="at 0 the derivative is inf, at complex 0 nan; on the cut, that of the value's side"),
    scalar("rsqrt", lambda x: 1 / np.sqrt(x), lambda F, y, x: -0.5 * y / x, FLOAT | COMPLEX, "1 / sqrt(x).",
        "[1., 4.]", "[1. , 0.5]", domain=(POSITIVE,)),
    scalar("floor_divide", _floordiv, (), COMPILED | UFUNC, "x1 / x2 rounded towards -inf.", "[7, -7]", "2",
        "[ 3, -4]", kinds=REAL, domain=TWO),
    scalar("remainder", np.remainder, (lambda *_: 1, lambda F, _y, a, b: -F.floor_divide(a, b)), COMPILED,
        "What is left of x1 / x2, with the sign of x2.", "[7, -7]", "2", "[1, 1]", kinds=REAL,
        domain=((0.2, 0.9), (1.0, 2.0)),
        convention="at multiples of b the derivatives are those from above: 1 and -floor_divide(a, b)"),
    scalar("fmod", np.fmod, (lambda *_: 1, lambda F, _y, a, b: -F.trunc(a / b)), NO_FACTS,
        "What is left of x1 / x2, with the sign of x1, as in C.", "[7., -7.]", "2.", "[ 1., -1.]", kinds=REAL,
        domain=((0.2, 0.9), (1.0, 2.0)),
        convention="at multiples of b the derivatives are those on the side away from 0: 1 and "
        "-trunc(a / b)"),
    scalar("hypot", np.hypot,
        (lambda F, y, a, _b: a * inverse_length(F, y), lambda F, y, _a, b: b * inverse_length(F, y)),
        REAL_FLOAT | ZERO | COMPILED,
        "The length of (x1, x2), without overflow.", "[3.]", "4.", "[5.]", domain=TWO,
        convention="at (0, 0) the derivatives are 0"),
    scalar("abs", np.abs, (), ZERO | COMPLEX | FINITE, "The absolute value.", "[-1.5, 2.]", "[1.5, 2. ]",
        result="real", vjp=(lambda F, g, y, x: g * _unit(F, y, x),),
        jvp=(lambda F, t, y, x: F.real(F.conj(_unit(F, y, x)) * t),), convention="at 0 the derivative is 0"),
    # sign(z) = z / |z|: for real z its derivative is 0, for complex z the part of t orthogonal to z, over
    # |z|.
    scalar("sign", _sign, (), ZERO | COMPLEX | FINITE | STRICT,
        "-1, 0 or 1; x / abs(x) for complex x, 0 at 0.", "[-3., 0., 2.]", "[-1.,  0.,  1.]",
        vjp=(_sign_rule,), jvp=(_sign_rule,),
        convention="for real x the derivative is 0 everywhere, the jump at 0 included"),
    scalar("copysign", np.copysign, (_signbit_copy, None), REAL_FLOAT | ZERO, "x1 with the sign of x2.",
        "[1., 2.]", "-1.", "[-1., -2.]", domain=TWO, convention="at a = 0 the derivative is 0"),
    scalar("nextafter", np.nextafter, (), ZERO, "The next number after x1 towards x2.", "[0.]", "1.",
        "[5.e-324]", kinds="f", domain=TWO),
)
# fmt: on
