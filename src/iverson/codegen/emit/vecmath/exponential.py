"""Exponentials: exp, exp2, expm1, and what is made of them: tanh, sech2, sigmoid, silu, sinh, cosh.

Method: x = n ln 2 + r by Cody and Waite's two-part constant ("Software Manual for the Elementary
Functions", 1980, chapter 6); expm1(r) = r + r^2 P(r) with P minimax on |r| <= ln(2)/2; 2^n is built in
the exponent field, in two factors where a result may be subnormal.
"""

from __future__ import annotations

from iverson.codegen.emit.llvm_builder import Builder, Value
from iverson.codegen.emit.vecmath.coefficients import EXP32, EXP64, TANH32, TANH64
from iverson.codegen.emit.vecmath.common import (
    LOG2E,
    absolute,
    at_least,
    at_most,
    copysign,
    estrin,
    format_of,
    power_of_two,
    round_to_int,
    scale,
)


def reduce(b: Builder, x: Value, low: Value | None = None) -> tuple[Value, Value, Value]:
    """n (bits), r and q where x + low = n ln 2 + r and expm1(r) = r + q; |x| must stay below 2^11.

    q also carries what r lost in rounding, so that r + q has nearly twice the precision of r.
    """
    f = format_of(x.type)
    n, bits = round_to_int(x * LOG2E)
    high = b.fma(n, -f.ln2_hi, x)
    r = b.fma(n, -f.ln2_lo, high)
    tail = b.fma(n, -f.ln2_lo, high - r)
    if low is not None:
        total = r + low
        r, tail = total, tail + ((r - total) + low)
    p = estrin(b, r, EXP32 if x.type.elem == "float" else EXP64)
    return bits, r, b.fma(r * r, p, tail)


def clamp(b: Builder, x: Value) -> Value:
    """x brought to where exp is neither 0 nor inf, or just beyond."""
    lo, hi = (-104.5, 89.0) if x.type.elem == "float" else (-746.0, 710.0)
    return at_most(b, at_least(b, x, lo), hi)


def exp(b: Builder, x: Value) -> Value:
    """e^x."""
    bits, r, q = reduce(b, clamp(b, x))
    return scale((r + q) + 1.0, bits)


def exp2(b: Builder, x: Value) -> Value:
    """2^x; x less its nearest integer is exact, so that only one product rounds."""
    lo, hi = (-151.0, 129.0) if x.type.elem == "float" else (-1076.0, 1025.0)
    x = at_most(b, at_least(b, x, lo), hi)
    n, bits = round_to_int(x)
    r = (x - n) * 0.6931471805599453
    e = b.fma(r * r, estrin(b, r, EXP32 if x.type.elem == "float" else EXP64), r)
    return scale(e + 1.0, bits)


def expm1(b: Builder, x: Value) -> Value:
    """e^x - 1 as 2 (2^(n-1) (r + q) + (2^(n-1) - 1/2)), which does not overflow early."""
    f = format_of(x.type)
    lo, hi = (-20.0, 89.0) if f.mantissa == 23 else (-40.0, 710.0)
    bits, r, q = reduce(b, at_most(b, at_least(b, x, lo), hi))
    half = power_of_two(bits - 1, x.type)
    result = b.fma(half, q, b.fma(half, r, half - 0.5)) * 2.0
    return b.select(absolute(x) < 2.0 ** -(f.mantissa + 2), x, result)


def tanh(b: Builder, x: Value) -> Value:
    """x + x z P(z) for |x| < 0.6, z = x^2; beyond, 1 - 2 s, s = 1 / (e^2|x| + 1)."""
    a = absolute(x)
    z = a * a
    near = b.fma(a * z, estrin(b, z, TANH32 if x.type.elem == "float" else TANH64), a)
    t, unit = _logistic(b, a)
    far = b.fma(t, -2.0 * unit, b.const(1.0, x.type))
    return copysign(b.select(a < 0.6, near, far), x)


def sech2(b: Builder, x: Value) -> Value:
    """4 s (1 - s), s = 1 / (e^2|x| + 1): beside tanh, of which it is the derivative, three products."""
    t, unit = _logistic(b, absolute(x))
    return t * b.fma(t, -unit, b.const(1.0, x.type)) * (4.0 * unit)


def _logistic(b: Builder, a: Value) -> tuple[Value, float]:
    """1 / (e^2a + 1) for a >= 0, in a unit in which it is no subnormal number, and the unit."""
    single = a.type.elem == "float"
    bits, r, q = reduce(b, at_most(b, a, 60.0 if single else 380.0) * 2.0)
    down = 64 if single else 128
    power = power_of_two(bits - down, a.type)
    return b.const(1.0, a.type) / (b.fma(power, r + q, power) + 2.0**-down), 2.0**-down


def sigmoid(b: Builder, x: Value) -> Value:
    """1 / (1 + e^-x); for negative x as e^x / (1 + e^x), so that it may be subnormal."""
    _, e, bits = _decay(b, x)
    e = scale(e, bits)
    return _over_one_plus(b, b.select(x < 0.0, e, b.const(1.0, x.type)), e)


def silu(b: Builder, x: Value) -> Value:
    """x sigmoid(x); for negative x it is scaled last, so that it is rounded once where it is subnormal."""
    last, e, bits = _decay(b, x)
    negative = x < 0.0
    part = _over_one_plus(b, b.select(negative, e, b.const(1.0, x.type)), scale(e, bits))
    return scale(at_least(b, x, last) * part, b.select(negative, bits, b.const(0, bits.type)))


def _decay(b: Builder, x: Value) -> tuple[float, Value, Value]:
    """The least x at which x e^x is no zero, and e and n with e 2^n = e^-|x|, alike for x and -x."""
    last = -120.0 if x.type.elem == "float" else -760.0
    bits, r, q = reduce(b, at_least(b, -absolute(x), last))
    return last, (r + q) + 1.0, bits


def _over_one_plus(b: Builder, top: Value, e: Value) -> Value:
    """top / (1 + e) for 0 <= e <= 1."""
    one = b.const(1.0, e.type)
    d = e + 1.0
    # Divide by the exact sum 1 + e: one Newton step takes back the errors of the sum and the quotient.
    inverse = one / d
    y = top * inverse
    rounding_error = e - (d - 1.0)
    if b.has_fma:
        return b.fma(b.fma(-y, rounding_error, b.fma(-y, d, top)), inverse, y)
    return top / d - y * rounding_error * inverse


def sinh(b: Builder, x: Value) -> Value:
    """(E + E / (E + 1)) / 2 with E = expm1(|x|); for large |x| it is e^|x| / 2."""
    a = absolute(x)
    e = expm1(b, at_most(b, a, _LARGE[x.type.elem]))
    return copysign(b.select(a > 20.0, _half_exp(b, a), (e + e / (e + 1.0)) * 0.5), x)


def cosh(b: Builder, x: Value) -> Value:
    """e^|x| / 2 + 1 / (4 (e^|x| / 2))."""
    half = _half_exp(b, absolute(x))
    return half + b.const(0.25, x.type) / half


def _half_exp(b: Builder, a: Value) -> Value:
    """e^a / 2 for a >= 0, which overflows only where that does."""
    bits, r, q = reduce(b, at_most(b, a, _LARGE[a.type.elem]))
    return scale((r + q) + 1.0, bits - 1)


_LARGE = {"float": 90.0, "double": 712.0}
