"""Half precision as LLVM IR: float16 and bfloat16 are 16 bits at rest, and float where anything is computed.

In a register as in memory a number of half precision is its bits, an ``i16``; casts alone know what they
mean. Rounding is to the nearest, halves to even, as in NumPy and ml_dtypes. bfloat16 is the upper half of a
float. float16 is converted by instructions where the machine has them, which make signalling nans quiet; else
by F. Giesen's integer arithmetic ("float_to_half_fast3_rtne", 2016) with NumPy's treatment of nan.
"""

from __future__ import annotations

import numpy as np

from iverson.codegen.emit.llvm_builder import Builder, Value, as_type, literal
from iverson.core import dtypes
from iverson.expr.nodes import DType, Number

_BITS = np.dtype("int16")


def bits_of(value: Number, dtype: DType) -> int:
    """The bits of a number, rounded to a dtype of half precision."""
    with np.errstate(all="ignore"):
        return int(np.asarray(value).astype(dtype).view(_BITS))


def widened(b: Builder, x: Value, dtype: DType) -> Value:
    """Floats that are equal to half precision numbers; exact.

    x : bits of numbers of ``dtype``, a dtype of half precision.
    """
    if dtypes.is_bfloat16(dtype):
        return (b.cast("zext", x, x.type.of("i32")) << 16).bitcast("float")
    if b.has_half:
        return b.cast("fpext", x.bitcast("half"), x.type.of("float"))
    bits = b.cast("zext", x, x.type.of("i32"))
    size = (bits & 0x7FFF) << 13
    # 2**112 brings the exponent from float16's bias to float's, and makes denormals normal.
    scaled = (size.bitcast("float") * 2.0**112).bitcast("i32")
    special = (bits & 0x7C00).eq(0x7C00)
    magnitude = b.select(special, size | 0x7F800000, scaled)
    return (magnitude | ((bits & 0x8000) << 16)).bitcast("float")


def narrowed(b: Builder, x: Value, dtype: DType) -> Value:
    """Bits of the numbers of ``dtype``, a dtype of half precision, that are nearest to the floats ``x``."""
    to = x.type.of("i16")
    if dtypes.is_bfloat16(dtype):
        bits = x.bitcast("i32")
        upper = bits.lshr(16)
        rounded = (bits + ((upper & 1) + 0x7FFF)).lshr(16)
        return b.cast("trunc", b.select(x.ne(x), (upper & 0x8000) | 0x7FC0, rounded), to)
    if b.has_half:
        return b.cast("fptrunc", x, x.type.of("half")).bitcast("i16")
    bits = x.bitcast("i32")
    size = bits & 0x7FFFFFFF
    # Among floats of the size of 0.5, the last bit is that of float16's denormals: adding rounds to it.
    small = (size.bitcast("float") + 0.5).bitcast("i32") - 0x3F000000
    normal = (size + (size.lshr(13) & 1) + (0xFFF - (112 << 23))).lshr(13)
    payload = size.lshr(13) & 0x3FF
    nan = b.select(payload.eq(0), b.const(1, payload.type), payload) | 0x7C00
    magnitude = b.select(size < 113 << 23, small, normal)
    magnitude = b.select(size < 143 << 23, magnitude, b.const(0x7C00, magnitude.type))
    magnitude = b.select(size > 255 << 23, nan, magnitude)
    return b.cast("trunc", magnitude | (bits.lshr(16) & 0x8000), to)


def to_odd(b: Builder, x: Value) -> Value:
    """A double as a float cut towards zero, its last bit set where that was not exact.

    What is rounded from it to fewer bits is as if rounded from the double (S. Boldo, G. Melquiond, 2008).
    """
    near = b.cast("fptrunc", x, x.type.of("float"))
    back = b.cast("fpext", near, x.type)
    wide, bits = b.intrinsic("fabs", x), near.bitcast("i32")
    size = b.intrinsic("fabs", back)
    cut = b.select(size > wide, bits - 1, bits)
    inexact = (size > wide) | (size < wide)
    return b.select(inexact, cut | 1, bits).bitcast("float")


def constant(b: Builder, value: Number, dtype: DType, lanes: int = 1) -> Value:
    """Constant of half precision, as its bits: an ``i16`` in each lane."""
    type = as_type(dtype, lanes)
    bits = bits_of(value, dtype)
    return Value(b, literal(bits, type), type, bits)


__all__ = ["constant", "narrowed", "to_odd", "widened"]
