"""Trigonometric functions: sin and cos.

Method: x = n pi/2 + r by Cody and Waite's scheme, then one of two minimax polynomials. With a fused
multiply-add and pi/2 in three doubles (159 bits) the reduction is exact enough for every |x| up to
`LIMIT`: each n * part is subtracted exactly until what is left no longer cancels (J.-M. Muller,
"Elementary Functions", 3rd ed., section 11.2). Floats are reduced in double. Lanes beyond the limit (on a
machine without fused multiply-add, beyond 1/2) take the exact scalar reduction of `argument`; that is the
one branch in this folder.
"""

from __future__ import annotations

from iverson.codegen.emit.llvm_builder import Builder, Value
from iverson.codegen.emit.vecmath.argument import reduce_large
from iverson.codegen.emit.vecmath.coefficients import COS32, COS64, SIN32, SIN64
from iverson.codegen.emit.vecmath.common import absolute, polynomial, round_to_int

#: Beyond this (below 2^20 pi/2) a lane is reduced in integers.
LIMIT = 1.6e6
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
TWO_OVER_PI = 0.6366197723675814


def sin(b: Builder, x: Value) -> Value:
    """The sine of x in radians."""
    return b.select(x.eq(0.0), x, _quadrant(b, x, 0))


def cos(b: Builder, x: Value) -> Value:
    """The cosine of x in radians."""
    return _quadrant(b, x, 1)


def _quadrant(b: Builder, x: Value, shift: int) -> Value:
    """sin(x + shift pi/2)."""
    single = x.type.elem == "float"
    r, bits = _reduce(b, b.cast("fpext", x, x.type.of("double")), 2 if single else 3)
    r = b.cast("fptrunc", r, x.type)
    bits = (b.cast("trunc", bits, x.type.as_int) if single else bits) + shift
    z = r * r
    sine = b.fma(r * z, polynomial(b, z, SIN32 if single else SIN64), r)
    cosine = b.fma(z * z, polynomial(b, z, COS32 if single else COS64), b.fma(z, -0.5, _one(z)))
    value = b.select((bits & 1).ne(0), cosine, sine)
    sign = (bits & 2) << (x.type.bits - 2)
    return (value.bitcast(x.type.as_int.elem) ^ sign).bitcast(x.type.elem)


def _one(z: Value) -> Value:
    return z.b.const(1.0, z.type)


def _reduce(b: Builder, x: Value, parts: int) -> tuple[Value, Value]:
    """r and n (bits) with x = n pi/2 + r, |r| at most pi/4 or a little more.

    parts : number of the constants that pi/2 is the sum of to use.
    """
    n, bits = round_to_int(x * TWO_OVER_PI)
    r = x
    for part in HALF_PI[:parts]:
        r = b.fma(n, -part, r)
    large = absolute(x).compare("ugt", LIMIT if b.has_fma else 0.5)
    cold, join = b.fresh("large"), b.fresh("join")
    slots = (b.slot(r.type), b.slot(bits.type))
    b.put(slots[0], r)
    b.put(slots[1], bits)
    b.br_if_rarely(b.any(large), cold, join)
    b.start(cold)
    for slot, value in zip(slots, reduce_large(b, x, large, r, bits), strict=True):
        b.put(slot, value)
    b.br(join)
    b.start(join)
    return b.get(slots[0], r.type), b.get(slots[1], bits.type)
