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

def rsqrt(x: Expr | complex, /) -> Expr:
    """1 / sqrt(x)."""

def floor_divide(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """x1 / x2 rounded towards -inf."""

def remainder(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """What is left of x1 / x2, with the sign of x2."""

def fmod(x1: Expr | complex, x2: Expr | complex, /) -> Expr:
    """What is left of x1 / x2, with the sign of x1, as in C."""

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

def deg2rad(x: Expr | complex, /) -> Expr:
    """An angle in degrees, in radians."""

def rad2deg(x: Expr | complex, /) -> Expr:
    """An angle in radians, in degrees."""

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

def sech2(x: Expr | complex, /) -> Expr:
    ...

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

def gelu_derivative(x: Expr | complex, /) -> Expr:
    ...

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

def erfinv(x: Expr | complex, /) -> Expr:
    """The inverse of erf, on [-1, 1]."""

def erfcx(x: Expr | complex, /) -> Expr:
    """exp(x**2) * erfc(x), which does not vanish for large x."""

def erfcx_order(n: Expr | complex, x: Expr | complex, /) -> Expr:
    ...

def ndtr(x: Expr | complex, /) -> Expr:
    """The distribution function of the standard normal distribution."""

def ndtri(x: Expr | complex, /) -> Expr:
    """The inverse of ndtr, on [0, 1]."""

def log_ndtr(x: Expr | complex, /) -> Expr:
    """The logarithm of ndtr, exact where that vanishes."""

def logit(x: Expr | complex, /) -> Expr:
    """log(x / (1 - x)), the inverse of the logistic function."""

def xlogy(x: Expr | complex, y: Expr | complex, /) -> Expr:
    """x * log(y), and 0 where x is 0."""

def xlog1py(x: Expr | complex, y: Expr | complex, /) -> Expr:
    """x * log(1 + y), and 0 where x is 0."""

def entr(x: Expr | complex, /) -> Expr:
    """-x * log(x), 0 at 0 and -inf below."""

def rel_entr(x: Expr | complex, y: Expr | complex, /) -> Expr:
    """x * log(x / y), 0 where x is 0 and y is not below; inf elsewhere."""

def kl_div(x: Expr | complex, y: Expr | complex, /) -> Expr:
    """x * log(x / y) - x + y, y where x is 0; inf where x or y is negative."""

def i0(x: Expr | complex, /) -> Expr:
    """The modified Bessel function of the first kind of order 0."""

def i0e(x: Expr | complex, /) -> Expr:
    """exp(-abs(x)) * i0(x)."""

def i1(x: Expr | complex, /) -> Expr:
    """The modified Bessel function of the first kind of order 1."""

def i1e(x: Expr | complex, /) -> Expr:
    """exp(-abs(x)) * i1(x)."""

def j0(x: Expr | complex, /) -> Expr:
    """The Bessel function of the first kind of order 0."""

def j1(x: Expr | complex, /) -> Expr:
    """The Bessel function of the first kind of order 1."""

def sinc(x: Expr | complex, /) -> Expr:
    """sin(pi * x) / (pi * x), 1 at 0."""

def bessel_i(n: Expr | complex, x: Expr | complex, /) -> Expr:
    ...

def bessel_j(n: Expr | complex, x: Expr | complex, /) -> Expr:
    ...

def spherical_j(n: Expr | complex, x: Expr | complex, /) -> Expr:
    ...

def i0e_order(n: Expr | complex, x: Expr | complex, /) -> Expr:
    ...

def gammainc(a: Expr | complex, x: Expr | complex, /) -> Expr:
    """The regularized lower incomplete gamma function P(a, x)."""

def gammaincc(a: Expr | complex, x: Expr | complex, /) -> Expr:
    """The regularized upper incomplete gamma function 1 - P(a, x)."""

def gammainc_order(m: Expr | complex, a: Expr | complex, x: Expr | complex, /) -> Expr:
    ...

def betaln(a: Expr | complex, b: Expr | complex, /) -> Expr:
    """The logarithm of abs(B(a, b)), the beta function."""

def psi_step_order(n: Expr | complex, a: Expr | complex, b: Expr | complex, /) -> Expr:
    ...

def betainc(a: Expr | complex, b: Expr | complex, x: Expr | complex, /) -> Expr:
    """The regularized incomplete beta function I_x(a, b)."""

def betaincc(a: Expr | complex, b: Expr | complex, x: Expr | complex, /) -> Expr:
    """The complement 1 - I_x(a, b) of the regularized incomplete beta function."""

def betainc_order(m: Expr | complex, n: Expr | complex, a: Expr | complex, b: Expr | complex, x: Expr | complex, /) -> Expr:
    ...

def gammaincinv(a: Expr | complex, p: Expr | complex, /) -> Expr:
    """The x with gammainc(a, x) = p."""

def betaincinv(a: Expr | complex, b: Expr | complex, p: Expr | complex, /) -> Expr:
    """The x with betainc(a, b, x) = p."""

def gammainccinv(a: Expr | complex, p: Expr | complex, /) -> Expr:
    """The x with gammaincc(a, x) = p, exact for small p."""

def betainccinv(a: Expr | complex, b: Expr | complex, p: Expr | complex, /) -> Expr:
    """The x with betaincc(a, b, x) = p, exact for small p."""

def zeta(x: Expr | complex, q: Expr | complex, /) -> Expr:
    ...

def zeta_order(m: Expr | complex, x: Expr | complex, q: Expr | complex, /) -> Expr:
    ...

def cbrt(x: Expr | complex, /) -> Expr:
    """The real cube root."""

def exp10(x: Expr | complex, /) -> Expr:
    """10**x."""

def exprel(x: Expr | complex, /) -> Expr:
    """(exp(x) - 1) / x, 1 at 0."""

def exprel_order(k: Expr | complex, x: Expr | complex, /) -> Expr:
    ...

def log1prel_order(k: Expr | complex, x: Expr | complex, /) -> Expr:
    ...

def k0e_order(k: Expr | complex, x: Expr | complex, /) -> Expr:
    ...

def cosm1(x: Expr | complex, /) -> Expr:
    """cos(x) - 1."""

def sindg(x: Expr | complex, /) -> Expr:
    """The sine of an angle in degrees."""

def cosdg(x: Expr | complex, /) -> Expr:
    """The cosine of an angle in degrees."""

def tandg(x: Expr | complex, /) -> Expr:
    """The tangent of an angle in degrees."""

def boxcox(x: Expr | complex, lmbda: Expr | complex, /) -> Expr:
    """The Box-Cox transformation (x**lmbda - 1) / lmbda, log(x) for lmbda = 0."""

def boxcox1p(x: Expr | complex, lmbda: Expr | complex, /) -> Expr:
    """The Box-Cox transformation of 1 + x."""

def inv_boxcox(y: Expr | complex, lmbda: Expr | complex, /) -> Expr:
    """The inverse of the Box-Cox transformation in its first argument."""

def inv_boxcox1p(y: Expr | complex, lmbda: Expr | complex, /) -> Expr:
    """The inverse of `boxcox1p` in its first argument."""

def gamma(x: Expr | complex, /) -> Expr:
    """The gamma function."""

def rgamma(x: Expr | complex, /) -> Expr:
    """1 / gamma(x)."""

def loggamma(x: Expr | complex, /) -> Expr:
    """The principal branch of the logarithm of the gamma function: nan for x < 0."""

def beta(a: Expr | complex, b: Expr | complex, /) -> Expr:
    """The beta function gamma(a) gamma(b) / gamma(a + b)."""

def binom(n: Expr | complex, k: Expr | complex, /) -> Expr:
    """The binomial coefficient, of real n and k too."""

def poch(z: Expr | complex, m: Expr | complex, /) -> Expr:
    """The Pochhammer symbol gamma(z + m) / gamma(z)."""

def zetac(x: Expr | complex, /) -> Expr:
    """Riemann's zeta function less 1."""

def exp1(x: Expr | complex, /) -> Expr:
    """The exponential integral E1."""

def expi(x: Expr | complex, /) -> Expr:
    """The exponential integral Ei."""

def spence(x: Expr | complex, /) -> Expr:
    """Spence's function, the integral of log(t) / (1 - t) from 1 to x."""

def k0(x: Expr | complex, /) -> Expr:
    """The modified Bessel function of the second kind of order 0."""

def k1(x: Expr | complex, /) -> Expr:
    """The modified Bessel function of the second kind of order 1."""

def k0e(x: Expr | complex, /) -> Expr:
    """exp(x) * k0(x)."""

def k1e(x: Expr | complex, /) -> Expr:
    """exp(x) * k1(x)."""

def y0(x: Expr | complex, /) -> Expr:
    """The Bessel function of the second kind of order 0."""

def y1(x: Expr | complex, /) -> Expr:
    """The Bessel function of the second kind of order 1."""

def floor(x: Expr | complex, /) -> Expr:
    """The largest integer not above x."""

def ceil(x: Expr | complex, /) -> Expr:
    """The smallest integer not below x."""

def trunc(x: Expr | complex, /) -> Expr:
    """x without its fraction."""

def round(x: Expr | complex, /) -> Expr:
    """The nearest integer; halves go to the even one."""

def frac(x: Expr | complex, /) -> Expr:
    """x less its whole part, with the sign of x."""

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

