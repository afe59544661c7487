"""Trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iverson.core.protocols import Namespace, Shaped
from iverson.core.scalars.scalar_record import POSITIVE, REAL, UNIT, Derivative, Scalar


def _atan2_part(sign: float, numerator: int) -> Derivative:
    def rule(F: Namespace, _y: Shaped, a: Any, b: Any) -> Any:
        r = F.hypot(a, b)  # the square of which may be out of range
        return sign * ((a, b)[numerator] / r) / r

    return rule


def _tanh(x: Any) -> Any:
    """NumPy's; beside a real part that is infinite, the imaginary part is 0 with the sign of x's, as in the
    array API standard."""
    y = np.tanh(x)
    if x.dtype.kind == "c" and (infinite := np.isinf(x.real)).any():
        y = np.array(y)
        y.imag = np.where(infinite, np.copysign(0, x.imag), y.imag)
    return y


def _tanh_d(F: Namespace, _y: Shaped, x: Any) -> Any:
    """1 / cosh(x)^2, which is 1 - tanh(x)^2, but that would cancel where tanh is near 1."""
    return 1 - F.square(F.tanh(x)) if x.dtype.kind == "c" else F.sech2(x)


def sech2(x: Any) -> Any:
    """1 / cosh(x)^2 as the square of 2 h / (1 + h^2), h = e^-|x|, which neither overflows nor cancels."""
    h = np.exp(-np.abs(x))
    return np.square(2 * h / (1 + h * h))


TRIGONOMETRIC = (
    Scalar(
        "deg2rad",
        np.deg2rad,
        (lambda *_: math.pi / 180,),
        REAL,
        result="float",
        linear_in=((0,),),
        summary="An angle in degrees, in radians.",
        example=("[0., 180.]", "[0.        , 3.14159265]"),
    ),
    Scalar(
        "rad2deg",
        np.rad2deg,
        (lambda *_: 180 / math.pi,),
        REAL,
        result="float",
        linear_in=((0,),),
        summary="An angle in radians, in degrees.",
        example=("[0., 3.141592653589793]", "[  0., 180.]"),
    ),
    Scalar(
        "sin",
        np.sin,
        (lambda F, _y, x: F.cos(x),),
        result="float",
        zero_preserving=True,
        complex_ok=True,
        summary="The sine of an angle in radians.",
        compiled=True,
        example=("[0., 1.]", "[0.        , 0.84147098]"),
        finite=True,
    ),
    Scalar(
        "cos",
        np.cos,
        (lambda F, _y, x: -F.sin(x),),
        result="float",
        complex_ok=True,
        summary="The cosine of an angle in radians.",
        compiled=True,
        example=("[0., 1.]", "[1.        , 0.54030231]"),
        finite=True,
    ),
    Scalar(
        "tan",
        np.tan,
        (lambda F, y, _x: 1 + y * y,),
        result="float",
        zero_preserving=True,
        domain=((-1.2, 1.2),),
        complex_ok=True,
        summary="The tangent of an angle in radians.",
        example=("[0., 1.]", "[0.        , 1.55740772]"),
    ),
    Scalar(
        "asin",
        np.arcsin,
        (lambda F, _y, x: 1 / F.sqrt((1 - x) * (1 + x)),),
        result="float",
        zero_preserving=True,
        domain=(UNIT,),
        complex_ok=True,
        convention="at -1 and 1 the derivative is inf",
        summary="The angle in [-pi/2, pi/2] whose sine is x.",
        example=("[0., 1.]", "[0.        , 1.57079633]"),
    ),
    Scalar(
        "acos",
        np.arccos,
        (lambda F, _y, x: -1 / F.sqrt((1 - x) * (1 + x)),),
        result="float",
        domain=(UNIT,),
        complex_ok=True,
        convention="at -1 and 1 the derivative is -inf",
        summary="The angle in [0, pi] whose cosine is x.",
        example=("[0., 1.]", "[1.57079633, 0.        ]"),
    ),
    Scalar(
        "atan",
        np.arctan,
        (lambda F, _y, x: 1 / (1 + x * x),),
        result="float",
        zero_preserving=True,
        domain=(UNIT,),
        complex_ok=True,
        summary="The angle in (-pi/2, pi/2) of tangent x.",
        example=("[0., 1.]", "[0.        , 0.78539816]"),
    ),
    Scalar(
        "atan2",
        np.arctan2,
        (_atan2_part(1.0, 1), _atan2_part(-1.0, 0)),
        REAL,
        result="float",
        domain=(POSITIVE, POSITIVE),
        convention="at (0, 0) the derivatives are nan",
        summary="The angle of the point (x2, x1), in (-pi, pi].",
        example=("[0., 0.]", "1.", "[0., 0.]"),
        zero_preserving=True,
    ),
)

HYPERBOLIC = (
    Scalar(
        "sinh",
        np.sinh,
        (lambda F, _y, x: F.cosh(x),),
        result="float",
        zero_preserving=True,
        complex_ok=True,
        summary="The hyperbolic sine.",
        example=("[0., 1.]", "[0.        , 1.17520119]"),
    ),
    Scalar(
        "cosh",
        np.cosh,
        (lambda F, _y, x: F.sinh(x),),
        result="float",
        complex_ok=True,
        summary="The hyperbolic cosine.",
        example=("[0., 1.]", "[1.        , 1.54308063]"),
    ),
    Scalar(
        "tanh",
        _tanh,
        (_tanh_d,),
        result="float",
        zero_preserving=True,
        complex_ok=True,
        summary="The hyperbolic tangent.",
        example=("[0., 1.]", "[0.        , 0.76159416]"),
        finite=True,
    ),
    # Without it, each derivative of tanh would be made of cosh and sinh of the one before.
    Scalar(
        "sech2",
        sech2,
        (lambda F, y, x: -2 * (F.tanh(x) * y),),
        "f",
        compiled=True,
        finite=True,
    ),
    Scalar(
        "asinh",
        np.arcsinh,
        (lambda F, _y, x: 1 / (F.sqrt(x * x + 1) if x.dtype.kind == "c" else F.hypot(x, 1.0)),),
        result="float",
        zero_preserving=True,
        domain=(UNIT,),
        complex_ok=True,
        summary="The inverse of sinh.",
        example=("[0., 1.]", "[0.        , 0.88137359]"),
    ),
    # Two roots, not sqrt(x * x - 1): the branch cut of the product is not that of acosh.
    Scalar(
        "acosh",
        np.arccosh,
        (lambda F, _y, x: 1 / (F.sqrt(x - 1) * F.sqrt(x + 1)),),
        result="float",
        domain=((1.2, 3.0),),
        complex_ok=True,
        summary="The inverse of cosh.",
        example=("[1., 2.]", "[0.       , 1.3169579]"),
    ),
    Scalar(
        "atanh",
        np.arctanh,
        (lambda F, _y, x: 1 / ((1 - x) * (1 + x)),),
        result="float",
        zero_preserving=True,
        domain=(UNIT,),
        complex_ok=True,
        summary="The inverse of tanh.",
        example=("[0., 0.5]", "[0.        , 0.54930614]"),
    ),
)
