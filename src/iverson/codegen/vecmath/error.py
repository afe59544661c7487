"""erf.

Method: for |x| < 1, x + x (c - 1 + z P(z)) with z = x^2, c = 2/sqrt(pi); beyond, 1 - exp(-P(|x|)) where P
is the minimax polynomial of -log erfc under the weight erfc, so that its error counts only where erfc does
(the form is that of the rational approximations in W. Cody, Math. Comp. 23, 1969, with the logarithm in
place of the quotient).
"""

from __future__ import annotations

from iverson.codegen.ir import Builder, Value
from iverson.codegen.vecmath.coefficients import ERF32, ERF64, ERFC32, ERFC64
from iverson.codegen.vecmath.common import absolute, at_most, copysign, polynomial, power_of_two
from iverson.codegen.vecmath.exponential import reduce

# 2/sqrt(pi) - 1
C_MINUS_ONE = 0.1283791670955126


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
