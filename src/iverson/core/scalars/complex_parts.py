"""Rounding, and the parts of complex numbers."""

from __future__ import annotations

import numpy as np

from iverson.core.scalars.scalar_record import NUMERIC, POSITIVE, REAL, Scalar

ROUNDING = (
    Scalar(
        "floor",
        np.floor,
        kinds=REAL,
        zero_preserving=True,
        summary="The largest integer not above x.",
        example=("[1.5, -1.5]", "[ 1., -2.]"),
    ),
    Scalar(
        "ceil",
        np.ceil,
        kinds=REAL,
        zero_preserving=True,
        summary="The smallest integer not below x.",
        example=("[1.5, -1.5]", "[ 2., -1.]"),
    ),
    Scalar(
        "trunc",
        np.trunc,
        kinds=REAL,
        zero_preserving=True,
        summary="x without its fraction.",
        example=("[1.5, -1.5]", "[ 1., -1.]"),
    ),
    Scalar(
        "round",
        np.round,
        kinds=NUMERIC,
        zero_preserving=True,
        summary="The nearest integer; halves go to the even one.",
    ),
    Scalar(
        "frac",
        lambda x: x - np.trunc(x),
        (lambda *_: 1,),
        kinds=REAL,
        zero_preserving=True,
        convention="at whole numbers the derivative is 1",
        summary="x less its whole part, with the sign of x.",
        example=("[1.5, -1.25]", "[ 0.5 , -0.25]"),
    ),
)

COMPLEX = (
    Scalar(
        "conj",
        lambda x: np.conj(x) if x.dtype.kind == "c" else x,
        kinds=NUMERIC,
        linear_in=((0,),),
        vjp=(lambda F, g, _y, _x: F.conj(g),),
        complex_ok=True,
        summary="The complex conjugate; real x as it is.",
        example=("[1 + 2j]", "[1.-2.j]"),
        silent=True,
        finite=True,
    ),
    Scalar(
        "real",
        np.real,
        kinds=NUMERIC,
        result="real",
        linear_in=((0,),),
        vjp=(lambda F, g, _y, _x: g,),
        complex_ok=True,
        summary="The real part.",
        example=("[1 + 2j]", "[1.]"),
        method=False,
        silent=True,
        finite=True,
    ),
    Scalar(
        "imag",
        np.imag,
        kinds=NUMERIC,
        result="real",
        linear_in=((0,),),
        vjp=(lambda F, g, _y, x: g * 1j if x.dtype.kind == "c" else None,),
        complex_ok=True,
        summary="The imaginary part; 0 for real x.",
        example=("[1 + 2j]", "[2.]"),
        method=False,
        silent=True,
        finite=True,
    ),
    Scalar(
        "angle",
        np.angle,
        kinds=NUMERIC,
        result="realfloat",
        # d arg z = Im(conj(z) dz) / |z|^2; as a gradient, g i z / |z|^2.
        vjp=(lambda F, g, _y, x: g * 1j * x / F.square(F.abs(x)) if x.dtype.kind == "c" else None,),
        jvp=(
            lambda F, t, _y, x: F.imag(F.conj(x) * t) / F.square(F.abs(x)) if x.dtype.kind == "c" else None,
        ),
        complex_ok=True,
        domain=(POSITIVE,),
        convention="for real x the derivative is 0; at complex 0 it is nan",
        loops=lambda F, x: F.atan2(F.imag(x), F.real(x)),
        summary="The argument, in (-pi, pi].",
        example=("[1 + 0j, 2j]", "[0.        , 1.57079633]"),
        zero_preserving=True,
    ),
)
