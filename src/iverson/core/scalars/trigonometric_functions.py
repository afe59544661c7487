"""Trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.scalars.scalar_record import (
    COMPILED,
    COMPLEX,
    FINITE,
    FLOAT,
    POSITIVE,
    REAL_FLOAT,
    UNIT,
    ZERO,
    Derivative,
    scalar,
)


def _atan2_part(sign: float, numerator: int) -> Derivative:
    def rule(F: Namespace, _y: Shaped, a: Value, b: Value) -> Any:
        r = F.hypot(a, b)  # the square of which may be out of range
        return sign * ((a, b)[numerator] / r) / r

    return rule


def _tanh(x: NDArray) -> Any:
    """NumPy's; beside a real part that is infinite, the imaginary part is 0 with the sign of x's, as in the
    array API standard."""
    y = np.tanh(x)
    if x.dtype.kind == "c" and (infinite := np.isinf(x.real)).any():
        y = np.array(y)
        y.imag = np.where(infinite, np.copysign(0, x.imag), y.imag)
    return y


def _tanh_d(F: Namespace, _y: Shaped, x: Value) -> Any:
    """1 / cosh(x)^2, which is 1 - tanh(x)^2, but that would cancel where tanh is near 1."""
    return 1 - F.square(F.tanh(x)) if x.dtype.kind == "c" else F.sech2(x)


def sech2(x: NDArray) -> Any:
    """1 / cosh(x)^2 as the square of 2 h / (1 + h^2), h = e^-|x|, which neither overflows nor cancels."""
    h = np.exp(-np.abs(x))
    return np.square(2 * h / (1 + h * h))


# fmt: off
TRIGONOMETRIC = (
    scalar("deg2rad", np.deg2rad, lambda *_: math.pi / 180, REAL_FLOAT, "An angle in degrees, in radians.",
        "[0., 180.]", "[0.        , 3.14159265]", linear_in=((0,),)),
    scalar("rad2deg", np.rad2deg, lambda *_: 180 / math.pi, REAL_FLOAT, "An angle in radians, in degrees.",
        "[0., 3.141592653589793]", "[  0., 180.]", linear_in=((0,),)),
    scalar("sin", np.sin, lambda F, _y, x: F.cos(x), FLOAT | ZERO | COMPLEX | FINITE | COMPILED,
        "The sine of an angle in radians.", "[0., 1.]", "[0.        , 0.84147098]"),
    scalar("cos", np.cos, lambda F, _y, x: -F.sin(x), FLOAT | COMPLEX | FINITE | COMPILED,
        "The cosine of an angle in radians.", "[0., 1.]", "[1.        , 0.54030231]"),
    scalar("tan", np.tan, lambda F, y, _x: 1 + y * y, FLOAT | ZERO | COMPLEX,
        "The tangent of an angle in radians.", "[0., 1.]", "[0.        , 1.55740772]", domain=((-1.2, 1.2),)),
    scalar("asin", np.arcsin, lambda F, _y, x: 1 / F.sqrt((1 - x) * (1 + x)), FLOAT | ZERO | COMPLEX,
        "The angle in [-pi/2, pi/2] whose sine is x.", "[0., 1.]", "[0.        , 1.57079633]", domain=(UNIT,),
        convention="at -1 and 1 the derivative is inf"),
    scalar("acos", np.arccos, lambda F, _y, x: -1 / F.sqrt((1 - x) * (1 + x)), FLOAT | COMPLEX,
        "The angle in [0, pi] whose cosine is x.", "[0., 1.]", "[1.57079633, 0.        ]", domain=(UNIT,),
        convention="at -1 and 1 the derivative is -inf"),
    scalar("atan", np.arctan, lambda F, _y, x: 1 / (1 + x * x), FLOAT | ZERO | COMPLEX,
        "The angle in (-pi/2, pi/2) of tangent x.", "[0., 1.]", "[0.        , 0.78539816]", domain=(UNIT,)),
    scalar("atan2", np.arctan2, (_atan2_part(1.0, 1), _atan2_part(-1.0, 0)), REAL_FLOAT | ZERO,
        "The angle of the point (x2, x1), in (-pi, pi].", "[0., 0.]", "1.", "[0., 0.]",
        domain=(POSITIVE, POSITIVE), convention="at (0, 0) the derivatives are nan"),
)
# fmt: on

# fmt: off
HYPERBOLIC = (
    scalar("sinh", np.sinh, lambda F, _y, x: F.cosh(x), FLOAT | ZERO | COMPLEX, "The hyperbolic sine.",
        "[0., 1.]", "[0.        , 1.17520119]"),
    scalar("cosh", np.cosh, lambda F, _y, x: F.sinh(x), FLOAT | COMPLEX, "The hyperbolic cosine.", "[0., 1.]",
        "[1.        , 1.54308063]"),
    scalar("tanh", _tanh, _tanh_d, FLOAT | ZERO | COMPLEX | FINITE, "The hyperbolic tangent.", "[0., 1.]",
        "[0.        , 0.76159416]"),
    # Without it, each derivative of tanh would be made of cosh and sinh of the one before.
    scalar("sech2", sech2, lambda F, y, x: -2 * (F.tanh(x) * y), FINITE | COMPILED, kinds="f"),
    scalar("asinh", np.arcsinh,
        lambda F, _y, x: 1 / (F.sqrt(x * x + 1) if x.dtype.kind == "c" else F.hypot(x, 1.0)),
        FLOAT | ZERO | COMPLEX, "The inverse of sinh.", "[0., 1.]", "[0.        , 0.88137359]",
        domain=(UNIT,)),
    # Two roots, not sqrt(x * x - 1): the branch cut of the product is not that of acosh.
    scalar("acosh", np.arccosh, lambda F, _y, x: 1 / (F.sqrt(x - 1) * F.sqrt(x + 1)), FLOAT | COMPLEX,
        "The inverse of cosh.", "[1., 2.]", "[0.       , 1.3169579]", domain=((1.2, 3.0),)),
    scalar("atanh", np.arctanh, lambda F, _y, x: 1 / ((1 - x) * (1 + x)), FLOAT | ZERO | COMPLEX,
        "The inverse of tanh.", "[0., 0.5]", "[0.        , 0.54930614]", domain=(UNIT,)),
)
# fmt: on
