"""sin and cos.

Method: x = n pi/2 + r by Cody and Waite's scheme, then one of two minimax polynomials. With a fused
multiply-add and pi/2 in three doubles (159 bits) the reduction is exact enough for every |x| up to
`LIMIT`: each n * part is subtracted exactly until what is left no longer cancels (J.-M. Muller,
"Elementary Functions", 3rd ed., section 11.2). Floats are reduced in double. Lanes beyond the limit, and
all lanes on a machine without fused multiply-add, take a scalar loop over the C library's sin and cos,
which reduce arguments of any size; it is the one branch in this folder.
"""

from __future__ import annotations

from iverson.codegen.ir import F64, Builder, Value, function_text
from iverson.codegen.vecmath.coefficients import COS32, COS64, SIN32, SIN64
from iverson.codegen.vecmath.common import absolute, polynomial, round_to_int

#: Beyond this (below 2^20 pi/2) a lane takes the scalar path.
LIMIT = 1.6e6
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
TWO_OVER_PI = 0.6366197723675814


def sin(b: Builder, x: Value) -> Value:
    """The sine of x in radians."""
    result = _large(b, x, _quadrant(b, x, 0), "sin") if b.has_fma else _scalar(b, x, "sin")
    return b.select(x.eq(0.0), x, result)


def cos(b: Builder, x: Value) -> Value:
    """The cosine of x in radians."""
    return _large(b, x, _quadrant(b, x, 1), "cos") if b.has_fma else _scalar(b, x, "cos")


def _quadrant(b: Builder, x: Value, shift: int) -> Value:
    """sin(x + shift pi/2) for |x| <= LIMIT."""
    wide = b.cast("fpext", x, x.type.of("double"))
    n, bits = round_to_int(wide * TWO_OVER_PI)
    r = wide
    for part in HALF_PI if x.type.elem == "double" else HALF_PI[:2]:
        r = b.fma(n, -part, r)
    single = x.type.elem == "float"
    r = b.cast("fptrunc", r, x.type)
    bits = b.cast("trunc", bits, x.type.as_int) if single else bits
    bits = bits + shift
    z = r * r
    sine = b.fma(r * z, polynomial(b, z, SIN32 if single else SIN64), r)
    cosine = b.fma(z * z, polynomial(b, z, COS32 if single else COS64), _one_minus_half(b, z))
    odd = (bits & 1).ne(0)
    value = b.select(odd, cosine, sine)
    sign = (bits & 2) << (x.type.bits - 2)
    return (value.bitcast(x.type.as_int.elem) ^ sign).bitcast(x.type.elem)


def _one_minus_half(b: Builder, z: Value) -> Value:
    return b.fma(z, -0.5, b.const(1.0, z.type))


def _large(b: Builder, x: Value, result: Value, name: str) -> Value:
    """``result``, with the lanes beyond LIMIT replaced where there are any."""
    large = absolute(x) > LIMIT
    cold, join = b.fresh("large"), b.fresh("join")
    slot = b.slot(x.type)
    b.put(slot, result)
    b.br_if_rarely(b.any(large), cold, join)
    b.start(cold)
    b.put(slot, b.select(large, _scalar(b, x, name), result))
    b.br(join)
    b.start(join)
    return b.get(slot, x.type)


def _scalar(b: Builder, x: Value, name: str) -> Value:
    """The C library's function, lane by lane (floats in double)."""
    function = f"iverson_{name}_{x.type.suffix}"
    if function not in b.functions:
        c = b.nested()
        argument = Value(c, "%x", x.type)
        out = Value(c, "poison", x.type)
        for k in range(x.type.lanes):
            wide = c.cast("fpext", c.lane(argument, k), F64)
            item = c.cast("fptrunc", c.call(name, F64, (wide,)), x.type.wide(1))
            out = item if x.type.lanes == 1 else c.with_lane(out, k, item)
        c.do(f"ret {x.type} {out.ref}")
        b.functions[function] = function_text(c, function, x.type, f"{x.type} %x")
    return b.emit(f"call {x.type} @{function}({x.type} {x.ref})", x.type)
