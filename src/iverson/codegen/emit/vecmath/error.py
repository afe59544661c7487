"""Error functions: erf, erfc, and gelu, x times the normal distribution function, with its derivative.

Method of erf: for |x| < 1, x + x (c - 1 + z P(z)) with z = x^2, c = 2/sqrt(pi); beyond, 1 - exp(-P(|x|))
where P is the minimax polynomial of -log erfc under the weight erfc, so that its error counts only where
erfc does (the form is that of the rational approximations in W. Cody, Math. Comp. 23, 1969, with the
logarithm in place of the quotient).

Method of the others: erfc(a) = exp(-a^2) (1 + P(t)) / (1 + 2a) for a >= 0 with t = (a - K) / (a + K), which
brings all a to [-1, 1) (M. Shepherd and J. Laframboise, Math. Comp. 36, 1981); erfc(-a) = 2 - erfc(a). The
square is kept to twice the precision, as its error is that of the result.
"""

from __future__ import annotations

import math

from iverson.codegen.emit.llvm_builder import Builder, Value
from iverson.codegen.emit.vecmath.coefficients import ERF32, ERF64, ERFC32, ERFC64, TAIL32, TAIL64
from iverson.codegen.emit.vecmath.common import (
    absolute,
    at_most,
    copysign,
    estrin,
    polynomial,
    power_of_two,
    scale,
    two_product,
)
from iverson.codegen.emit.vecmath.exponential import reduce

# 2/sqrt(pi) - 1
C_MINUS_ONE = 0.1283791670955126
#: K of the tail, in single and double precision.
CENTRE = {"float": 2.0, "double": 4.0}
#: Beyond these, erfc is 0.
LAST = {"float": 10.2, "double": 27.3}
#: And, by its absolute value, gelu of a negative number and its derivative.
LAST_OF_GELU = {"float": 15.0, "double": 39.0}


def erf(b: Builder, x: Value) -> Value:
    """The error function."""
    single = x.type.elem == "float"
    a = at_most(b, absolute(x), 4.0 if single else 6.0)
    z = a * a
    inner = b.fma(polynomial(b, z, ERF32 if single else ERF64), z, C_MINUS_ONE)
    near = b.fma(a, inner, a)
    bits, r, q = reduce(b, -polynomial(b, a, ERFC32 if single else ERFC64))
    power = power_of_two(bits, x.type)
    far = b.const(1.0, x.type) - b.fma(power, r + q, power)
    return copysign(b.select(a < 1.0, near, far), x)


def erfc(b: Builder, x: Value) -> Value:
    """1 - erf(x), without cancellation where x is large."""
    a = at_most(b, absolute(x), LAST[x.type.elem])
    high, low = two_product(b, a, a)
    tail = scale(*_tail(b, -high, -low, a))
    return b.select(x < 0.0, b.const(2.0, x.type) - tail, tail)


def gelu(b: Builder, x: Value) -> Value:
    """x erfc(-x / sqrt(2)) / 2; x is multiplied in before a result may become subnormal."""
    a = at_most(b, absolute(x), LAST_OF_GELU[x.type.elem])
    tail, bits = _scaled(_normal(b, a), *_quotient(b, a * math.sqrt(0.5)))
    part = scale(tail * (a * 0.5), bits)
    return b.select(x < 0.0, -part, x - part)


def gelu_derivative(b: Builder, x: Value) -> Value:
    """With g the density, erfc(-x / sqrt(2)) / 2 + x g(x); for x > 0 as 1 less that of -x.

    At -a it is exp(-a^2 / 2) (exp(a^2 / 2) erfc(a / sqrt(2)) / 2 - a / sqrt(2 pi)), of the exponential and
    the quotient that gelu is made of: beside it, it costs a product or two.
    """
    a = at_most(b, absolute(x), LAST_OF_GELU[x.type.elem])
    y, tail = _quotient(b, a * math.sqrt(0.5))
    head = b.fma(a, -1 / math.sqrt(2 * math.pi), y * 0.5)
    part = scale(*_scaled(_normal(b, a), head, tail * 0.5))
    return b.select(x < 0.0, part, b.const(1.0, x.type) - part)


def _normal(b: Builder, a: Value) -> tuple[Value, Value, Value]:
    """exp(-a^2 / 2), as `reduce` gives it."""
    high, low = two_product(b, a, a)
    return reduce(b, high * -0.5, low * -0.5)


def _tail(b: Builder, high: Value, low: Value, a: Value) -> tuple[Value, Value]:
    """y and n with erfc(a) = y 2^n for a >= 0, given -a^2 as the sum of two."""
    return _scaled(reduce(b, high, low), *_quotient(b, a))


def _scaled(power: tuple[Value, Value, Value], y: Value, tail: Value) -> tuple[Value, Value]:
    """z and n with exp(v) (y + tail) = z 2^n, from the results of `reduce` for v."""
    b, (bits, r, q) = y.b, power
    e = r + 1.0
    return b.fma(e, y, b.fma((r - (e - 1.0)) + q, y, tail * e)), bits


def _quotient(b: Builder, a: Value) -> tuple[Value, Value]:
    """exp(a^2) erfc(a) for a >= 0, as the sum of two."""
    k = CENTRE[a.type.elem]
    one = b.const(1.0, a.type)
    inverse = one / (a + k)
    t = (a - k) * inverse
    # One Newton step takes back the errors of the sum and the quotient: a - k - t (a + k) = 0.
    t = b.fma(inverse, b.fma(-t, a, b.fma(t + 1.0, -k, a)), t)
    p = estrin(b, t, TAIL32 if a.type.elem == "float" else TAIL64)
    inverse = one / b.fma(a, 2.0, 1.0)
    y = b.fma(p, inverse, inverse)
    # And again: 1 + p - y (1 + 2 a) = 0.
    return y, b.fma(b.fma(-y, a, 0.5), 2.0, p - y) * inverse
