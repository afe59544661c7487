"""Power function: pow, x to the power y.

Method: x^y = exp(y log|x|). In double the logarithm is a double-double: s = f / (2 + f) with its
remainder, log m = s (2 + z (2/3 + z Q(z))) with all but z Q(z) in double-double arithmetic (T. Dekker,
Numer. Math. 18, 1971), so that its relative error is near 2^-64 and that of the result below 2 ulp even
where |y log x| is near 745. In float everything is done in double. Special cases follow C99, F.9.4.4.
"""

from __future__ import annotations

from iverson.codegen.emit.llvm_builder import Builder, Value
from iverson.codegen.emit.vecmath.coefficients import LOGDD
from iverson.codegen.emit.vecmath.common import (
    DOUBLE,
    absolute,
    at_least,
    at_most,
    int_to_float,
    polynomial,
    scale,
    split_exponent,
    two_product,
    two_sum,
)
from iverson.codegen.emit.vecmath.exponential import clamp, exp, reduce
from iverson.codegen.emit.vecmath.logarithm import log

TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def pow(b: Builder, x: Value, y: Value) -> Value:
    """x to the power y."""
    a = absolute(x)
    if x.type.elem == "float":
        double = x.type.of("double")
        # 1^inf: log 1 = 0 times a large number, not times inf.
        exponent = b.cast("fpext", at_most(b, at_least(b, y, -1e30), 1e30), double)
        size = b.cast("fptrunc", exp(b, exponent * log(b, b.cast("fpext", a, double))), x.type)
    else:
        size = _double_pow(b, a, y)
    return _signs(b, x, y, size)


def _double_pow(b: Builder, a: Value, y: Value) -> Value:
    """a^y for a >= 0."""
    high, low = _log(b, a)
    y = at_most(b, at_least(b, y, -1e300), 1e300)
    product, error = two_product(b, y, high)
    error = b.fma(y, low, error)
    # Far beyond overflow the error term may be nan, and does not matter.
    error = b.select(absolute(product) < 800.0, error, b.const(0.0, a.type))
    bits, r, q = reduce(b, clamp(b, product), error)
    return scale((r + q) + 1.0, bits)


def _log(b: Builder, a: Value) -> tuple[Value, Value]:
    """log a in double-double; -inf at 0, inf at inf, nan at nan."""
    bits, m = split_exponent(b, a)
    k = int_to_float(bits, a.type)
    f = m - 1.0
    d = f + 2.0
    s = f / d
    p, p_error = two_product(b, s, d)
    # s d + remainder = f, where d itself was rounded.
    s_low = ((f - p) - p_error - s * (f - (d - 2.0))) / d
    z, z_low = two_product(b, s, s)
    z_low = b.fma(s * 2.0, s_low, z_low)
    q = z * polynomial(b, z, LOGDD)
    u = q + TWO_THIRDS[0]
    u_low = ((b.const(TWO_THIRDS[0], a.type) - u) + q) + TWO_THIRDS[1]
    v, v_low = two_product(b, z, u)
    v_low = v_low + b.fma(z, u_low, z_low * u)
    w = v + 2.0
    w_low = ((b.const(2.0, a.type) - w) + v) + v_low
    h, h_low = two_product(b, s, w)
    h_low = h_low + b.fma(s, w_low, s_low * w)
    total, total_low = two_sum(k * DOUBLE.ln2_hi, h)
    total_low = total_low + b.fma(k, DOUBLE.ln2_lo, h_low)
    high, low = total + total_low, (total - (total + total_low)) + total_low
    finite = a < float("inf")
    high = b.select(finite, high, a)
    high = b.select(a.eq(0.0), b.const(float("-inf"), a.type), high)
    zero = b.const(0.0, a.type)
    return high, b.select(finite, b.select(a.eq(0.0), zero, low), zero)


def _signs(b: Builder, x: Value, y: Value, size: Value) -> Value:
    """x to the power y, from that of abs(x), which is ``size``.

    Adds the sign for negative x, nan for negative x to a fraction, and the cases that are always 1.
    """
    is_integer = b.intrinsic("floor", y).eq(y)
    half = y * 0.5
    odd = is_integer & b.intrinsic("floor", half).ne(half) & absolute(y).compare("lt", float("inf"))
    negative = x.bitcast(x.type.as_int.elem) < 0
    size = b.select(negative & odd, -size, size)
    fraction = (x < 0.0) & (x > float("-inf")) & is_integer.compare("eq", 0)
    size = b.select(fraction, b.const(float("nan"), x.type), size)
    # nan where either is nan (the clamps keep it), but for these two:
    return b.select(y.eq(0.0) | x.eq(1.0), b.const(1.0, x.type), size)
