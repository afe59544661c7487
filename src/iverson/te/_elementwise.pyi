"""Elementwise functions on tensor expressions. Written by tools/stubs.py from the tables: do not edit."""

from iverson.expr.nodes import Expr

def add(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """x1 + alpha * x2 (alpha is 1 unless given)."""

def subtract(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """x1 - alpha * x2 (alpha is 1 unless given)."""

def multiply(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """x1 * x2."""

def divide(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """x1 / x2; what a sparse x1 does not store is 0 in the result too, also over 0."""

def negative(x: Expr | complex, /) -> Expr:
    """-x."""

def positive(x: Expr | complex, /) -> Expr:
    """x itself."""

def square(x: Expr | complex, /) -> Expr:
    """x * x."""

def reciprocal(x: Expr | complex, /) -> Expr:
    """1 / x."""

def pow(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """x1 to the power x2."""

def sqrt(x: Expr | complex, /) -> Expr:
    """The square root."""

def floor_divide(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """x1 / x2 rounded towards -inf."""

def remainder(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """What is left of x1 / x2, with the sign of x2."""

def hypot(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """The length of (x1, x2), without overflow."""

def abs(x: Expr | complex, /) -> Expr:
    """The absolute value."""

def sign(x: Expr | complex, /) -> Expr:
    """-1, 0 or 1; x / abs(x) for complex x, 0 at 0."""

def copysign(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """x1 with the sign of x2."""

def nextafter(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """The next number after x1 towards x2."""

def exp(x: Expr | complex, /) -> Expr:
    """e to the power x."""

def exp2(x: Expr | complex, /) -> Expr:
    """2 to the power x."""

def expm1(x: Expr | complex, /) -> Expr:
    """exp(x) - 1, exact near 0."""

def log(x: Expr | complex, /) -> Expr:
    """The natural logarithm."""

def log1p(x: Expr | complex, /) -> Expr:
    """log(1 + x), exact near 0."""

def log2(x: Expr | complex, /) -> Expr:
    """The logarithm to base 2."""

def log10(x: Expr | complex, /) -> Expr:
    """The logarithm to base 10."""

def logaddexp(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """log(exp(x1) + exp(x2)), without overflow."""

def sin(x: Expr | complex, /) -> Expr:
    """The sine of an angle in radians."""

def cos(x: Expr | complex, /) -> Expr:
    """The cosine of an angle in radians."""

def tan(x: Expr | complex, /) -> Expr:
    """The tangent of an angle in radians."""

def asin(x: Expr | complex, /) -> Expr:
    """The angle in [-pi/2, pi/2] whose sine is x."""

def acos(x: Expr | complex, /) -> Expr:
    """The angle in [0, pi] whose cosine is x."""

def atan(x: Expr | complex, /) -> Expr:
    """The angle in (-pi/2, pi/2) of tangent x."""

def atan2(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """The angle of the point (x2, x1), in (-pi, pi]."""

def sinh(x: Expr | complex, /) -> Expr:
    """The hyperbolic sine."""

def cosh(x: Expr | complex, /) -> Expr:
    """The hyperbolic cosine."""

def tanh(x: Expr | complex, /) -> Expr:
    """The hyperbolic tangent."""

def asinh(x: Expr | complex, /) -> Expr:
    """The inverse of sinh."""

def acosh(x: Expr | complex, /) -> Expr:
    """The inverse of cosh."""

def atanh(x: Expr | complex, /) -> Expr:
    """The inverse of tanh."""

def sigmoid(x: Expr | complex, /) -> Expr:
    """1 / (1 + exp(-x))."""

def softplus(x: Expr | complex, /) -> Expr:
    """log(1 + exp(x)), without overflow."""

def silu(x: Expr | complex, /) -> Expr:
    """x * sigmoid(x)."""

def gelu(x: Expr | complex, /) -> Expr:
    """x times the standard normal distribution function of x."""

def erf(x: Expr | complex, /) -> Expr:
    """The error function."""

def erfc(x: Expr | complex, /) -> Expr:
    """1 - erf(x), exact for large x."""

def lgamma(x: Expr | complex, /) -> Expr:
    """The logarithm of abs(gamma(x)); next to its zeros at negative x within 1e-15."""

def digamma(x: Expr | complex, /) -> Expr:
    """The derivative of lgamma; next to its zeros at negative x within 1e-15."""

def polygamma(n: Expr | complex, x: Expr | complex, /) -> Expr:
    ...

def floor(x: Expr | complex, /) -> Expr:
    """The largest integer not above x."""

def ceil(x: Expr | complex, /) -> Expr:
    """The smallest integer not below x."""

def trunc(x: Expr | complex, /) -> Expr:
    """x without its fraction."""

def round(x: Expr | complex, /) -> Expr:
    """The nearest integer; halves go to the even one."""

def conj(x: Expr | complex, /) -> Expr:
    """The complex conjugate; real x as it is."""

def real(x: Expr | complex, /) -> Expr:
    """The real part."""

def imag(x: Expr | complex, /) -> Expr:
    """The imaginary part; 0 for real x."""

def angle(x: Expr | complex, /) -> Expr:
    """The argument, in (-pi, pi]."""

def isnan(x: Expr | complex, /) -> Expr:
    """Whether x is not a number."""

def isinf(x: Expr | complex, /) -> Expr:
    """Whether x is infinite."""

def isfinite(x: Expr | complex, /) -> Expr:
    """Whether x is not inf or nan."""

def signbit(x: Expr | complex, /) -> Expr:
    """Whether the sign bit is set, as it is in -0.0."""

def logical_not(x: Expr | complex, /) -> Expr:
    """Whether x is zero."""

def equal(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """Whether x1 and x2 are equal."""

def not_equal(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """Whether x1 and x2 differ."""

def less(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """Whether x1 < x2."""

def less_equal(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """Whether x1 <= x2."""

def greater(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """Whether x1 > x2."""

def greater_equal(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """Whether x1 >= x2."""

def logical_and(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """Whether both are nonzero."""

def logical_or(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """Whether either is nonzero."""

def logical_xor(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """Whether just one is nonzero."""

def bitwise_invert(x: Expr | complex, /) -> Expr:
    """All bits turned over."""

def bitwise_and(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """The bits set in both."""

def bitwise_or(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """The bits set in either."""

def bitwise_xor(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """The bits set in just one."""

def bitwise_left_shift(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """x1 * 2**x2."""

def bitwise_right_shift(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """x1 / 2**x2, rounded down."""

def maximum(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """The larger of x1 and x2; nan if either is."""

def minimum(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """The smaller of x1 and x2; nan if either is."""

def relu(x: Expr | complex, /) -> Expr:
    """x where it is positive, else 0."""

def where(condition: Expr | complex, x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    ...

def clip(x: Expr | complex, min: Expr | complex, max: Expr | complex, /) -> Expr:
    ...

