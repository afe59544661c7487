"""Parts shared by the functions of this package: formats, polynomials, splitting off the exponent, two-sums.

Everything works on float and double, on scalars and on vectors of any width, and has no branches but
for the one documented in `trigonometric`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iverson.codegen.emit.llvm_builder import Builder, Type, Value

# The high part of ln 2 has 21 (float: 9) bits, so that its products with exponents are exact.
LOG2E = 1.4426950408889634


@dataclass(frozen=True)
class Format:
    """The facts about a binary floating format that the algorithms need."""

    mantissa: int  # stored bits
    bias: int
    ln2_hi: float
    ln2_lo: float
    min_normal: float
    sqrt_half_bits: int

    @property
    def magic(self) -> float:
        """Adding this rounds a small number to an integer, held in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa


FLOAT = Format(23, 127, 0.693359375, -0.00021219444005469058, 2.0**-126, 0x3F3504F3)
DOUBLE = Format(52, 1023, 0.6931471805598903, 5.497923018708371e-14, 2.0**-1022, 0x3FE6A09E667F3BCD)


def format_of(type: Type) -> Format:
    return FLOAT if type.elem == "float" else DOUBLE


def polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule, constant term first."""
    result = b.const(coefficients[-1], x.type)
    for c in coefficients[-2::-1]:
        result = b.fma(result, x, c)
    return result


def estrin(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """Estrin's scheme: as many products as Horner's plus log n, in log n dependent steps."""
    terms = [b.const(c, x.type) for c in coefficients]
    power = x
    while len(terms) > 1:
        pairs = [b.fma(terms[k + 1], power, terms[k]) for k in range(0, len(terms) - 1, 2)]
        terms = pairs + ([terms[-1]] if len(terms) % 2 else [])
        if len(terms) > 1:
            power = power * power
    return terms[0]


def round_to_int(x: Value) -> tuple[Value, Value]:
    """The nearest integer as a float and as bits; |x| must be below 2^22 (float) or 2^51 (double)."""
    f = format_of(x.type)
    t = x + f.magic
    bits = t.bitcast(x.type.as_int.elem) - x.b.const(f.magic, x.type).bitcast(x.type.as_int.elem)
    return t - f.magic, bits


def int_to_float(k: Value, type: Type) -> Value:
    """A small integer (below 2^22) as a float, without a conversion instruction."""
    magic = format_of(type).magic
    return (k + k.b.const(magic, type).bitcast(k.type.elem)).bitcast(type.elem) - magic


def power_of_two(k: Value, type: Type) -> Value:
    """2^k for k in the range of normal numbers."""
    f = format_of(type)
    return ((k + f.bias) << f.mantissa).bitcast(type.elem)


def scale(x: Value, k: Value) -> Value:
    """x * 2^k in two steps, so that results may be subnormal or overflow."""
    half = k.ashr(1)
    return x * power_of_two(half, x.type) * power_of_two(k - half, x.type)


def split_exponent(b: Builder, x: Value) -> tuple[Value, Value]:
    """k and m with x = 2^k m and m in [sqrt(1/2), sqrt(2)); x must be positive and finite."""
    f = format_of(x.type)
    up = f.mantissa + 2
    tiny = x < f.min_normal
    bits = b.select(tiny, x * 2.0**up, x).bitcast(x.type.as_int.elem)
    k = (bits - f.sqrt_half_bits).ashr(f.mantissa)
    m = (bits - (k << f.mantissa)).bitcast(x.type.elem)
    zero = b.const(0, k.type)
    return k - b.select(tiny, b.const(up, k.type), zero), m


def absolute(x: Value) -> Value:
    return x.b.intrinsic("fabs", x)


def copysign(x: Value, sign: Value) -> Value:
    return x.b.intrinsic("copysign", x, sign)


def at_most(b: Builder, x: Value, bound: float) -> Value:
    """min(x, bound), and nan for nan."""
    limit = b.const(bound, x.type)
    return b.select(x > limit, limit, x)


def at_least(b: Builder, x: Value, bound: float) -> Value:
    """max(x, bound), and nan for nan."""
    limit = b.const(bound, x.type)
    return b.select(x < limit, limit, x)


def two_sum(a: Value, c: Value) -> tuple[Value, Value]:
    """a + c as a rounded sum and its error (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    s = a + c
    t = s - a
    return s, (a - (s - t)) + (c - t)


def two_product(b: Builder, a: Value, c: Value) -> tuple[Value, Value]:
    """a * c as a rounded product and its error (by fma, else by Dekker's splitting)."""
    p = a * c
    if b.has_fma:
        return p, b.fma(a, c, -p)
    factor = 2.0 ** ((format_of(a.type).mantissa + 2) // 2) + 1

    def halves(x: Value) -> tuple[Value, Value]:
        t = x * factor
        high = t - (t - x)
        return high, x - high

    (ah, al), (ch, cl) = halves(a), halves(c)
    return p, ((ah * ch - p) + ah * cl + al * ch) + al * cl
