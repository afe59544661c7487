"""Rounding, and the parts of complex numbers."""

from __future__ import annotations

import numpy as np

from iverson.core.scalars.scalar_record import COMPLEX, FINITE, NUMERIC, POSITIVE, REAL, SILENT, ZERO, scalar

# fmt: off
ROUNDING = (
    scalar("floor", np.floor, (), ZERO, "The largest integer not above x.", "[1.5, -1.5]", "[ 1., -2.]",
        kinds=REAL),
    scalar("ceil", np.ceil, (), ZERO, "The smallest integer not below x.", "[1.5, -1.5]", "[ 2., -1.]",
        kinds=REAL),
    scalar("trunc", np.trunc, (), ZERO, "x without its fraction.", "[1.5, -1.5]", "[ 1., -1.]", kinds=REAL),
    scalar("round", np.round, (), ZERO, "The nearest integer; halves go to the even one.", kinds=NUMERIC),
    scalar("frac", lambda x: x - np.trunc(x), lambda *_: 1, ZERO,
        "x less its whole part, with the sign of x.", "[1.5, -1.25]", "[ 0.5 , -0.25]", kinds=REAL,
        convention="at whole numbers the derivative is 1"),
)
# fmt: on

# fmt: off
PARTS = (
    scalar("conj", lambda x: np.conj(x) if x.dtype.kind == "c" else x, (), COMPLEX | FINITE | SILENT,
        "The complex conjugate; real x as it is.", "[1 + 2j]", "[1.-2.j]", kinds=NUMERIC, linear_in=((0,),),
        vjp=(lambda F, g, _y, _x: F.conj(g),)),
    scalar("real", np.real, (), COMPLEX | FINITE | SILENT, "The real part.", "[1 + 2j]", "[1.]",
        kinds=NUMERIC, result="real", linear_in=((0,),), vjp=(lambda F, g, _y, _x: g,), method=False),
    scalar("imag", np.imag, (), COMPLEX | FINITE | SILENT, "The imaginary part; 0 for real x.", "[1 + 2j]",
        "[2.]", kinds=NUMERIC, result="real", linear_in=((0,),),
        vjp=(lambda F, g, _y, _x: g * 1j if _x.dtype.kind == "c" else None,), method=False),
    # d arg z = Im(conj(z) dz) / |z|^2; as a gradient, g i z / |z|^2.
    scalar("angle", np.angle, (), ZERO | COMPLEX, "The argument, in (-pi, pi].", "[1 + 0j, 2j]",
        "[0.        , 1.57079633]", kinds=NUMERIC, result="realfloat",
        vjp=(lambda F, g, _y, x: g * 1j * x / F.square(F.abs(x)) if x.dtype.kind == "c" else None,),
        jvp=(lambda F, t, _, x: F.imag(F.conj(x) * t) / F.square(F.abs(x)) if x.dtype.kind == "c" else None,),
        domain=(POSITIVE,), convention="for real x the derivative is 0; at complex 0 it is nan",
        loops=lambda F, x: F.atan2(F.imag(x), F.real(x))),
)
# fmt: on
