"""Logarithms: log, log1p, log2, log10.

Method: x = 2^k m with m in [sqrt(1/2), sqrt(2)); with f = m - 1 and s = f / (2 + f), log m =
log((1 + s) / (1 - s)) = 2 s + s z P(z), z = s^2, P minimax; since 2 s = f - s f this is f - s (f - z P),
whose rounding errors stay small next to f (W. Cody and W. Waite 1980, chapter 5; the last form as in
fdlibm's description of its log).
"""

from __future__ import annotations

import math

from iverson.codegen.emit.llvm_builder import Builder, Type, Value
from iverson.codegen.emit.vecmath.coefficients import LOG32, LOG64
from iverson.codegen.emit.vecmath.common import (
    absolute,
    format_of,
    int_to_float,
    polynomial,
    power_of_two,
    split_exponent,
)


def _core(b: Builder, f: Value) -> Value:
    """f - log(1 + f), small next to f."""
    s = f / (f + 2.0)
    z = s * s
    return s * (f - z * polynomial(b, z, LOG32 if f.type.elem == "float" else LOG64))


def _specials(b: Builder, x: Value, result: Value, pole: float) -> Value:
    """``result`` of a logarithm with its special cases: -inf at the pole, nan below, x for inf and nan."""
    result = b.select(x < float("inf"), result, x)
    result = b.select(x.eq(pole), b.const(float("-inf"), x.type), result)
    return b.select(x < pole, b.const(float("nan"), x.type), result)


def log(b: Builder, x: Value) -> Value:
    """The natural logarithm: k ln2 + f - (f - log(1 + f))."""
    form = format_of(x.type)
    bits, m = split_exponent(b, x)
    k = int_to_float(bits, x.type)
    f = m - 1.0
    result = b.fma(k, form.ln2_hi, f - b.fma(k, -form.ln2_lo, _core(b, f)))
    return _specials(b, x, result, 0.0)


def log1p(b: Builder, x: Value) -> Value:
    """log(1 + x), corrected for the rounding of 1 + x; where that sum stays near 1, f is x itself."""
    form = format_of(x.type)
    u = x + 1.0
    bits, m = split_exponent(b, u)
    k = int_to_float(bits, x.type)
    error = b.select(x > 1.0, b.const(1.0, x.type) - (u - x), x - (u - 1.0))
    near = bits.eq(0)
    # 2^-k, out of range only where the error is nothing next to u.
    inverse = power_of_two(_within(b, -bits, form.bias - 1), x.type)
    error = b.select(near, b.const(0.0, x.type), error * inverse)
    f = b.select(near, x, m - 1.0)
    correction = error / (f + 1.0)
    result = b.fma(k, form.ln2_hi, f - (b.fma(k, -form.ln2_lo, _core(b, f)) - correction))
    result = b.select(absolute(x) < 2.0 ** -(form.mantissa + 2), x, result)
    return _specials(b, x, result, -1.0)


def _within(b: Builder, k: Value, bound: int) -> Value:
    low, high = b.const(-bound, k.type), b.const(bound, k.type)
    k = b.select(k < low, low, k)
    return b.select(k > high, high, k)


def log2(b: Builder, x: Value) -> Value:
    """k + log(m) / ln 2, exact at powers of two."""
    return _other_base(b, x, (1.0, 0.0), (1.4426950408889634, 2.0355273740931033e-17))


def log10(b: Builder, x: Value) -> Value:
    """k log10(2) + log(m) / ln 10."""
    per_k = (0.3010299956639812, -2.8037281277851704e-18)
    return _other_base(b, x, per_k, (0.4342944819032518, 1.098319650216765e-17))


def _other_base(b: Builder, x: Value, per_k: tuple[float, float], per_log: tuple[float, float]) -> Value:
    """k per_k + log(m) per_log, each factor given as a double and its error."""
    (k_hi, k_lo), (hi, lo) = (_split(x.type, *pair) for pair in (per_k, per_log))
    bits, m = split_exponent(b, x)
    k = int_to_float(bits, x.type)
    f = m - 1.0
    log_m = f - _core(b, f)
    low = b.fma(k, k_lo, log_m * lo)
    return _specials(b, x, b.fma(k, k_hi, b.fma(log_m, hi, low)), 0.0)


def _split(type: Type, value: float, error: float) -> tuple[float, float]:
    """A constant as one of the type's numbers and the rest; the float part times 2^8 is exact."""
    if type.elem == "double":
        return value, error
    high = math.floor(value * 2**15) / 2**15
    return high, value - high
