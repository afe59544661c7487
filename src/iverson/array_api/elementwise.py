"""Elementwise functions, generated from `iverson.core.scalars` and the op table.

Operands broadcast; a Python scalar takes the dtype of the array it meets. What is said here of each
function is a sentence and an example; its dtypes and conventions come from its record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iverson.array_api.arguments import Function, as_weak, check_kind, named
from iverson.core.dispatch import bind
from iverson.core.errors import DTypeError
from iverson.core.scalars import SCALARS
from iverson.ops import TABLE, F
from iverson.tensor import Tensor

_KINDS = {
    "iufc": "numeric", "iuf": "real", "fc": "floating", "iub": "integers or bool", "iufcb": "any",
    "iu": "integers", "f": "real floating", "iufb": "real or bool",
}  # fmt: skip
_RESULTS = {
    "same": "as promoted",
    "float": "floating (integers become float64)",
    "bool": "bool",
    "real": "that of the real part",
    "realfloat": "real floating",
}


def _described(function: Function, name: str, says: str, call: str, shows: str) -> Function:
    scalar = SCALARS[name]
    facts = f"dtypes: {_KINDS[scalar.kinds]}; result: {_RESULTS[scalar.result]}."
    at = f" Derivative: {scalar.convention}." if scalar.convention else ""
    shape = "The shape is x's" if scalar.arity == 1 else "The operands broadcast"
    return named(
        function,
        name,
        f"""{says}

    {shape}; {facts}{at}
    Raises DTypeError for other dtypes{"" if scalar.arity == 1 else ", ShapeError where shapes do not fit"}.

    >>> from iverson import asarray
    >>> {name}({call})
    iverson.Tensor({shows})
    """,
    )


def _unary(name: str, says: str, x: str, shows: str) -> Callable[[Any], Any]:
    op = TABLE[name]

    def function(x: Any, /) -> Any:
        return bind(op, (x if type(x) is Tensor else as_weak(x, name),))

    return _described(function, name, says, f"asarray({x})", shows)


def _binary(name: str, says: str, x1: str, x2: str, shows: str) -> Callable[[Any, Any], Any]:
    op = TABLE[name]

    def function(x1: Any, x2: Any, /) -> Any:
        if type(x1) is not Tensor:
            x1 = as_weak(x1, name, "x1")
        if type(x2) is not Tensor:
            x2 = as_weak(x2, name, "x2")
        return bind(op, (x1, x2))

    call = f"asarray({x1}), {x2}"
    return _described(function, name, says, call, shows)


def _scaled(name: str, says: str, shows: str) -> Callable[..., Any]:
    """A binary function whose second operand may be scaled, as in PyTorch."""
    op = TABLE[name]

    def function(x1: Any, x2: Any, /, *, alpha: Any = None) -> Any:
        if type(x1) is not Tensor:
            x1 = as_weak(x1, name, "x1")
        if type(x2) is not Tensor:
            x2 = as_weak(x2, name, "x2")
        if alpha is not None:
            x2 = x2 * as_weak(alpha, name, "alpha")
        return bind(op, (x1, x2))

    return _described(function, name, says, "asarray([1., 2.]), 3.", shows)


# fmt: off
add = _scaled("add", "x1 + alpha * x2 (alpha is 1 unless given).", "[4., 5.]")
subtract = _scaled("subtract", "x1 - alpha * x2 (alpha is 1 unless given).", "[-2., -1.]")
multiply = _binary("multiply", "x1 * x2.", "[1., 2.]", "3.", "[3., 6.]")
divide = _binary(
    "divide",
    "x1 / x2; what a sparse x1 does not store is 0 in the result too, also over 0.",
    "[1, 2]",
    "2",
    "[0.5, 1. ]",
)
floor_divide = _binary("floor_divide", "x1 / x2 rounded towards -inf.", "[7, -7]", "2", "[ 3, -4]")
remainder = _binary("remainder", "What is left of x1 / x2, with the sign of x2.", "[7, -7]", "2", "[1, 1]")
pow = _binary("pow", "x1 to the power x2.", "[2., 3.]", "2", "[4., 9.]")
hypot = _binary("hypot", "The length of (x1, x2), without overflow.", "[3.]", "4.", "[5.]")
atan2 = _binary("atan2", "The angle of the point (x2, x1), in (-pi, pi].", "[0., 0.]", "1.", "[0., 0.]")
logaddexp = _binary("logaddexp", "log(exp(x1) + exp(x2)), without overflow.", "[1000.]", "0.", "[1000.]")
maximum = _binary("maximum", "The larger of x1 and x2; nan if either is.", "[1, 5]", "3", "[3, 5]")
minimum = _binary("minimum", "The smaller of x1 and x2; nan if either is.", "[1, 5]", "3", "[1, 3]")
copysign = _binary("copysign", "x1 with the sign of x2.", "[1., 2.]", "-1.", "[-1., -2.]")
nextafter = _binary("nextafter", "The next number after x1 towards x2.", "[0.]", "1.", "[5.e-324]")

equal = _binary("equal", "Whether x1 and x2 are equal.", "[1, 2]", "2", "[False,  True]")
not_equal = _binary("not_equal", "Whether x1 and x2 differ.", "[1, 2]", "2", "[ True, False]")
less = _binary("less", "Whether x1 < x2.", "[1, 2]", "2", "[ True, False]")
less_equal = _binary("less_equal", "Whether x1 <= x2.", "[1, 2]", "2", "[ True,  True]")
greater = _binary("greater", "Whether x1 > x2.", "[1, 2]", "1", "[False,  True]")
greater_equal = _binary("greater_equal", "Whether x1 >= x2.", "[1, 2]", "2", "[False,  True]")
logical_and = _binary("logical_and", "Whether both are nonzero.", "[0, 1]", "True", "[False,  True]")
logical_or = _binary("logical_or", "Whether either is nonzero.", "[0, 1]", "False", "[False,  True]")
logical_xor = _binary("logical_xor", "Whether just one is nonzero.", "[0, 1]", "True", "[ True, False]")
bitwise_and = _binary("bitwise_and", "The bits set in both.", "[5, 6]", "4", "[4, 4]")
bitwise_or = _binary("bitwise_or", "The bits set in either.", "[1, 2]", "4", "[5, 6]")
bitwise_xor = _binary("bitwise_xor", "The bits set in just one.", "[5, 6]", "4", "[1, 2]")
bitwise_left_shift = _binary("bitwise_left_shift", "x1 * 2**x2.", "[1, 2]", "2", "[4, 8]")
bitwise_right_shift = _binary("bitwise_right_shift", "x1 / 2**x2, rounded down.", "[4, 9]", "2", "[1, 2]")

abs = _unary("abs", "The absolute value.", "[-1.5, 2.]", "[1.5, 2. ]")
negative = _unary("negative", "-x.", "[1., -2.]", "[-1.,  2.]")
positive = _unary("positive", "x itself.", "[1., -2.]", "[ 1., -2.]")
sign = _unary("sign", "-1, 0 or 1; x / abs(x) for complex x, 0 at 0.", "[-3., 0., 2.]", "[-1.,  0.,  1.]")
square = _unary("square", "x * x.", "[1., -3.]", "[1., 9.]")
sqrt = _unary("sqrt", "The square root.", "[1., 9.]", "[1., 3.]")
reciprocal = _unary("reciprocal", "1 / x.", "[2., 4.]", "[0.5 , 0.25]")
floor = _unary("floor", "The largest integer not above x.", "[1.5, -1.5]", "[ 1., -2.]")
ceil = _unary("ceil", "The smallest integer not below x.", "[1.5, -1.5]", "[ 2., -1.]")
trunc = _unary("trunc", "x without its fraction.", "[1.5, -1.5]", "[ 1., -1.]")
round = _unary("round", "The nearest integer; halves go to the even one.", "[0.5, 1.7]", "[0., 2.]")

exp = _unary("exp", "e to the power x.", "[0., 1.]", "[1.        , 2.71828183]")
exp2 = _unary("exp2", "2 to the power x.", "[0., 3.]", "[1., 8.]")
expm1 = _unary("expm1", "exp(x) - 1, exact near 0.", "[0., 1e-20]", "[0.e+00, 1.e-20]")
log = _unary("log", "The natural logarithm.", "[1., 10.]", "[0.        , 2.30258509]")
log1p = _unary("log1p", "log(1 + x), exact near 0.", "[0., 1e-20]", "[0.e+00, 1.e-20]")
log2 = _unary("log2", "The logarithm to base 2.", "[1., 8.]", "[0., 3.]")
log10 = _unary("log10", "The logarithm to base 10.", "[1., 100.]", "[0., 2.]")

sin = _unary("sin", "The sine of an angle in radians.", "[0., 1.]", "[0.        , 0.84147098]")
cos = _unary("cos", "The cosine of an angle in radians.", "[0., 1.]", "[1.        , 0.54030231]")
tan = _unary("tan", "The tangent of an angle in radians.", "[0., 1.]", "[0.        , 1.55740772]")
asin = _unary("asin", "The angle in [-pi/2, pi/2] whose sine is x.", "[0., 1.]", "[0.        , 1.57079633]")
acos = _unary("acos", "The angle in [0, pi] whose cosine is x.", "[0., 1.]", "[1.57079633, 0.        ]")
atan = _unary("atan", "The angle in (-pi/2, pi/2) of tangent x.", "[0., 1.]", "[0.        , 0.78539816]")
sinh = _unary("sinh", "The hyperbolic sine.", "[0., 1.]", "[0.        , 1.17520119]")
cosh = _unary("cosh", "The hyperbolic cosine.", "[0., 1.]", "[1.        , 1.54308063]")
tanh = _unary("tanh", "The hyperbolic tangent.", "[0., 1.]", "[0.        , 0.76159416]")
asinh = _unary("asinh", "The inverse of sinh.", "[0., 1.]", "[0.        , 0.88137359]")
acosh = _unary("acosh", "The inverse of cosh.", "[1., 2.]", "[0.       , 1.3169579]")
atanh = _unary("atanh", "The inverse of tanh.", "[0., 0.5]", "[0.        , 0.54930614]")

conj = _unary("conj", "The complex conjugate; real x as it is.", "[1 + 2j]", "[1.-2.j]")
real = _unary("real", "The real part.", "[1 + 2j]", "[1.]")
imag = _unary("imag", "The imaginary part; 0 for real x.", "[1 + 2j]", "[2.]")
angle = _unary("angle", "The argument, in (-pi, pi].", "[1 + 0j, 2j]", "[0.        , 1.57079633]")
isnan = _unary("isnan", "Whether x is not a number.", "[0., float('nan')]", "[False,  True]")
isinf = _unary("isinf", "Whether x is infinite.", "[0., float('inf')]", "[False,  True]")
isfinite = _unary("isfinite", "Whether x is not inf or nan.", "[0., float('inf')]", "[ True, False]")
signbit = _unary("signbit", "Whether the sign bit is set, as it is in -0.0.", "[0., -0.]", "[False,  True]")
logical_not = _unary("logical_not", "Whether x is zero.", "[0, 2]", "[ True, False]")
bitwise_invert = _unary("bitwise_invert", "All bits turned over.", "[0, 1]", "[-1, -2]")

erf = _unary("erf", "The error function.", "[0., 1.]", "[0.        , 0.84270079]")
erfc = _unary("erfc", "1 - erf(x), exact for large x.", "[0., 1.]", "[1.        , 0.15729921]")
lgamma = _unary("lgamma", "The logarithm of abs(gamma(x)).", "[1., 5.]", "[0.        , 3.17805383]")
digamma = _unary("digamma", "The derivative of lgamma.", "[1., 2.]", "[-0.57721566,  0.42278434]")
relu = _unary("relu", "x where it is positive, else 0.", "[-1., 2.]", "[0., 2.]")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)).", "[0., 2.]", "[0.5       , 0.88079708]")
softplus = _unary("softplus", "log(1 + exp(x)), without overflow.", "[0., 99.]", "[ 0.69314718, 99.        ]")
silu = _unary("silu", "x * sigmoid(x).", "[0., 1.]", "[0.        , 0.73105858]")
gelu = _unary("gelu", "x times the standard normal distribution function of x.", "[0., 1.]",
              "[0.        , 0.84134475]")
# fmt: on


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """x where it lies between ``min`` and ``max``, else the bound it crosses; None is no bound.

    The bounds broadcast with x and are differentiable; at a bound the derivative belongs to x. nan in
    x or a bound gives nan. Raises DTypeError for complex or bool operands.

    >>> from iverson import asarray
    >>> clip(asarray([-1., 0.5, 2.]), 0, 1)
    iverson.Tensor([0. , 0.5, 1. ])
    """
    x = as_weak(x, "clip")
    dtype = getattr(x, "dtype", None)
    if dtype is not None:
        check_kind(x, "iuf", "clip")
    bounds = [
        _no_bound(x, sign) if bound is None else as_weak(bound, "clip", argument)
        for argument, bound, sign in (("min", min, -1), ("max", max, 1))
    ]
    return F.positive(x) if min is None and max is None else F.clip(x, *bounds)


def _no_bound(x: Any, sign: int) -> Any:
    dtype = getattr(x, "dtype", None)
    if dtype is None or dtype.kind == "f":
        return sign * float("inf")
    info = np.iinfo(dtype)
    return int(info.max if sign > 0 else info.min)


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """x1 where the condition holds, else x2. The three broadcast.

    What was not chosen has a gradient of 0. Raises DTypeError unless the
    condition is bool, ShapeError where shapes do not fit.

    >>> from iverson import asarray
    >>> where(asarray([True, False]), asarray([1., 2.]), 0.)
    iverson.Tensor([1., 0.])
    """
    condition = as_weak(condition, "where", "condition")
    dtype = getattr(condition, "dtype", None)
    if (dtype is None and type(condition) is not bool) or (dtype is not None and dtype.kind != "b"):
        raise DTypeError(
            "where",
            "condition",
            got=f"dtype {dtype or type(condition).__name__}",
            expected="bool",
            remedy="compare it with something, e.g. condition != 0",
        )
    return F.where(condition, as_weak(x1, "where", "x1"), as_weak(x2, "where", "x2"))
