"""Every elementwise function, said once: name, NumPy body, partial derivatives, kinds and test domain.

The op table, tensor expressions and code generation all read this table. A derivative is written
against a namespace ``F`` as ``lambda F, y, x: ...`` and gives the partial derivative with respect to one
argument; a parameter with a leading underscore is not read (see `iverson.core.op`). A Python number
stands for a constant derivative, None in place of a rule for "none".

Special functions are those of `iverson.core.special`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.core import dtypes, special

Derivative = Callable[..., Any]

NUMERIC, REAL, FLOATING, INTEGRAL, BOOLEAN, ANY = "iufc", "iuf", "fc", "iub", "b", "iufcb"


@dataclass(frozen=True, slots=True)
class Scalar:
    """One elementwise function.

    name, body : the name in the table and the function on NumPy arrays.
    d : the partial derivative per argument; for a holomorphic function also the complex one.
    kinds : dtype kinds accepted.
    result : "same" (as promoted), "float" (integers become the default float), "bool" or "real".
    linear_in : as in the Op record.
    zero_preserving : f(0, ..., 0) = 0.
    vjp, jvp : rules in place of those that follow from ``d``, for functions that are not holomorphic.
    domain : per argument, the interval test values are drawn from; None stands for all reals.
    convention : what ``d`` says where there is no derivative.
    complex_ok : whether complex samples are drawn in tests.
    """

    name: str
    body: Callable[..., Any]
    d: tuple[Derivative | None, ...] = ()
    kinds: str = NUMERIC
    result: str = "same"
    linear_in: tuple[tuple[int, ...], ...] = ()
    zero_preserving: bool = False
    vjp: tuple[Derivative, ...] = ()
    jvp: tuple[Derivative, ...] = ()
    domain: tuple[tuple[float, float] | None, ...] = (None,)
    convention: str = ""
    complex_ok: bool = False

    @property
    def arity(self) -> int:
        return len(self.domain)


_BITS = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}
_SMALL = 512  # below this, setting up the three passes costs more than the branches


def _where(condition: Any, a: Any, b: Any) -> Any:
    """numpy.where, without its branch per entry where both sides are arrays of one dtype.

    On the bits of the numbers, b ^ (c * (a ^ b)) with c of 0 and 1 is the selection: no rounding, no nan.
    """
    arrays = type(a) is type(b) is type(condition) is np.ndarray
    if not arrays or a.dtype != b.dtype or condition.size < _SMALL or condition.dtype != bool:
        if type(a) is int or type(b) is int:  # NumPy's where wraps those out of range
            a, b = (np.asarray(v, np.result_type(a, b)) for v in (a, b))
        return np.where(condition, a, b)
    bits = _BITS.get(a.dtype.itemsize)
    if bits is None:
        return np.where(condition, a, b)
    other = b.view(bits)
    return (other ^ (a.view(bits) ^ other) * condition.view(np.int8)).view(a.dtype)


def converted(x: Any, dtype: Any) -> Any:
    """x in another dtype.

    What an integer type cannot hold (nan, inf, numbers out of range) becomes what x86-64 and NumPy on it make
    of it: the lowest integer of 32 bits, or of 64 for types of 64, of which narrower types take the low bits.
    For uint32 NumPy's result depends on where in the array an entry is; it goes by way of 64 bits here.
    """
    if dtype == np.uint32 and x.dtype.kind == "f":
        x = x.astype(np.int64)
    return x.astype(dtype, copy=False)


def keep_where(condition: Any, x: Any) -> Any:
    """x where the condition holds, 0 elsewhere (also where x is nan or inf): a product with its bits."""
    bits = _BITS.get(x.dtype.itemsize)
    if bits is None or x.size < _SMALL or condition.dtype != bool:
        return np.where(condition, x, np.zeros((), x.dtype))
    return (x.view(bits) * condition.view(np.int8)).view(x.dtype)


def _pow(a: Any, b: Any) -> Any:
    # NumPy's ufunc has no fast path for the small exponents everybody writes; its operator has.
    if not isinstance(b, (int, float)):
        return np.power(a, b)
    y = a**b
    if b == 0.5 and y.dtype.kind == "f":  # a root, which has a -0, and is nan at -inf
        y = np.where(np.isneginf(a), math.inf, y + 0.0).astype(y.dtype, copy=False)
    return y


def _pow_da(F: Any, _y: Any, a: Any, b: Any) -> Any:
    if isinstance(b, (int, float)):
        return b if b in (0, 1) else b * (a if b == 2 else F.pow(a, b - 1))
    # 0 * a**(-1) at a = 0 is not a derivative: a**0 is constant.
    return F.where(F.equal(b, 0), 0.0, b * F.pow(a, F.where(F.equal(b, 0), 1.0, b - 1)))


def _pow_db(F: Any, y: Any, a: Any, b: Any) -> Any:
    # 0**b is constant for b > 0; for b < 0 it is inf, and so is the derivative.
    constant = F.logical_and(F.equal(a, 0), F.greater_equal(F.real(b) if b.dtype.kind == "c" else b, 0))
    return F.where(constant, 0.0, y * F.log(F.where(constant, 1.0, a)))


def _inverse(F: Any, b: Any) -> Any:
    # A Python number stays one, so that it takes the cotangent's precision.
    return 1 / b if isinstance(b, (int, float)) and b else F.reciprocal(b)


def _gelu_d(F: Any, _y: Any, x: Any) -> Any:
    cdf = 0.5 * F.erfc(x * -math.sqrt(0.5))
    return cdf + x * F.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


def _silu_d(F: Any, _y: Any, x: Any) -> Any:
    s = F.sigmoid(x)
    return s * (1 + x * (1 - s))


def _sign(x: Any) -> Any:
    return np.sign(x)


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, np.zeros((), x.dtype))


def _signbit_copy(F: Any, _y: Any, a: Any, b: Any) -> Any:
    return F.sign(a) * F.copysign(1.0, b)


def _chosen(wins: str, i: int) -> Derivative:
    """The derivative of a maximum or minimum in argument i: all of it where it wins, half at a tie."""

    def rule(F: Any, t: Any, _y: Any, a: Any, b: Any) -> Any:
        own, other = (a, b)[i], (b, a)[i]
        held = F.logical_or(getattr(F, wins)(own, other), F.isnan(own))
        return F.bracket(held, F.where(F.equal(a, b), 0.5 * t, F.nan_at(own, t)), negated=False)

    return rule


def _clipped(i: int) -> Derivative:
    """The derivative of clip in x, or in a bound where that bound is the result; hi wins over lo."""

    def rule(F: Any, t: Any, _y: Any, x: Any, lo: Any, hi: Any) -> Any:
        own = (x, lo, hi)[i]
        if i == 0:
            chosen = F.logical_and(F.greater_equal(x, lo), F.less_equal(x, hi))
        elif i == 1:
            chosen = F.logical_and(F.less(x, lo), F.less_equal(lo, hi))
        else:
            chosen = F.logical_or(F.greater(x, hi), F.greater(lo, hi))
        return F.bracket(F.logical_or(chosen, F.isnan(own)), F.nan_at(own, t), negated=False)

    return rule


def _relu_rule(F: Any, t: Any, _y: Any, x: Any) -> Any:
    return F.bracket(F.less_equal(x, 0), F.nan_at(x, t), negated=True)


def _of_one(rule: Derivative) -> Derivative:
    """The partial derivative, from the rule that selects a cotangent or tangent."""

    def d(F: Any, y: Any, *args: Any) -> Any:
        return rule(F, 1.0, y, *args)

    return d


def _selecting(name: str, body: Derivative, rules: tuple[Derivative, ...], **facts: Any) -> Scalar:
    """A function whose derivative is a choice: rules select, they never multiply with 0 and 1."""
    return Scalar(name, body, tuple(map(_of_one, rules)), REAL, vjp=rules, jvp=rules, **facts)


def _floordiv(a: Any, b: Any) -> Any:
    return np.floor_divide(a, b)


def _atan2_part(sign: float, numerator: int) -> Derivative:
    def rule(F: Any, _y: Any, a: Any, b: Any) -> Any:
        return sign * (a, b)[numerator] / (a * a + b * b)

    return rule


def inverse_length(F: Any, y: Any) -> Any:
    """1 / y, and 0 where the length y is 0: the derivative of a length is taken as 0 there.

    Its own derivative does not exist there, and must not be 0 in silence: it is that of the root of y, inf.
    """
    at_zero = F.equal(y, 0)
    return F.where(at_zero, F.sqrt(y), F.reciprocal(F.where(at_zero, 1.0, y)))


def _hypot_part(which: int) -> Derivative:
    def rule(F: Any, y: Any, a: Any, b: Any) -> Any:
        return (a, b)[which] * inverse_length(F, y)

    return rule


def _unit(F: Any, y: Any, x: Any) -> Any:
    """x / |x| with |x| = y, and 0 at 0."""
    return F.sign(x) if x.dtype.kind != "c" else x * inverse_length(F, y)


def _sign_rule(F: Any, t: Any, y: Any, x: Any) -> Any:
    if x.dtype.kind != "c":
        return None
    size = F.abs(x)
    inverse = F.where(F.equal(size, 0), 0.0, 1 / F.where(F.equal(size, 0), 1.0, size))
    return inverse * (t - y * F.real(F.conj(y) * t))


_LN2, _LN10 = math.log(2), math.log(10)
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
_POSITIVE, _UNIT, _ANYWHERE = (0.3, 3.0), (-0.9, 0.9), None
_TWO: tuple[None, None] = (None, None)

_ARITHMETIC = (
    Scalar(
        "add", np.add, (lambda *_: 1, lambda *_: 1), ANY, linear_in=((0, 1),), domain=_TWO, complex_ok=True
    ),
    Scalar(
        "subtract",
        np.subtract,
        (lambda *_: 1, lambda *_: -1),
        linear_in=((0, 1),),
        domain=_TWO,
        complex_ok=True,
    ),
    Scalar(
        "multiply",
        np.multiply,
        (lambda F, _y, _a, b: b, lambda F, _y, a, _b: a),
        ANY,
        linear_in=((0,), (1,)),
        domain=_TWO,
        complex_ok=True,
    ),
    Scalar(
        "divide",
        np.divide,
        (lambda F, _y, _a, b: _inverse(F, b), lambda F, y, _a, b: -y / b),
        result="float",
        linear_in=((0,),),
        domain=(None, (0.5, 2.0)),
        complex_ok=True,
    ),
    Scalar("negative", np.negative, (lambda *_: -1,), linear_in=((0,),), complex_ok=True),
    Scalar("positive", np.positive, (lambda *_: 1,), linear_in=((0,),), complex_ok=True),
    Scalar("square", np.square, (lambda F, _y, x: 2 * x,), zero_preserving=True, complex_ok=True),
    Scalar(
        "reciprocal",
        np.reciprocal,
        (lambda F, y, _x: -y * y,),
        result="float",
        domain=((0.5, 2.0),),
        complex_ok=True,
    ),
    Scalar(
        "pow",
        _pow,
        (_pow_da, _pow_db),
        domain=((0.5, 2.0), None),
        complex_ok=True,
        convention="at a = 0 the derivative in an exponent b >= 0 is 0; that of a**0 in a is 0",
    ),
    Scalar(
        "sqrt",
        np.sqrt,
        (lambda F, y, _x: 0.5 / y,),
        result="float",
        zero_preserving=True,
        domain=(_POSITIVE,),
        complex_ok=True,
        convention="at 0 the derivative is inf, at complex 0 nan; on the cut, that of the value's side",
    ),
    Scalar("floor_divide", _floordiv, (), REAL, domain=_TWO),
    Scalar(
        "remainder",
        np.remainder,
        (lambda *_: 1, lambda F, _y, a, b: -F.floor_divide(a, b)),
        REAL,
        domain=((0.2, 0.9), (1.0, 2.0)),
        convention="at multiples of b the derivatives are those from above: 1 and -floor_divide(a, b)",
    ),
    Scalar(
        "hypot",
        np.hypot,
        (_hypot_part(0), _hypot_part(1)),
        REAL,
        result="float",
        zero_preserving=True,
        domain=_TWO,
        convention="at (0, 0) the derivatives are 0",
    ),
    _selecting(
        "maximum",
        np.maximum,
        (_chosen("greater_equal", 0), _chosen("greater_equal", 1)),
        zero_preserving=True,
        domain=_TWO,
        convention="equal arguments share the derivative: one half each",
    ),
    _selecting(
        "minimum",
        np.minimum,
        (_chosen("less_equal", 0), _chosen("less_equal", 1)),
        zero_preserving=True,
        domain=_TWO,
        convention="equal arguments share the derivative: one half each",
    ),
    Scalar(
        "abs",
        np.abs,
        result="real",
        zero_preserving=True,
        vjp=(lambda F, g, y, x: g * _unit(F, y, x),),
        jvp=(lambda F, t, y, x: F.real(F.conj(_unit(F, y, x)) * t),),
        complex_ok=True,
        convention="at 0 the derivative is 0",
    ),
    # sign(z) = z / |z|: for real z its derivative is 0, for complex z the part of t orthogonal to z, over
    # |z|.
    Scalar(
        "sign",
        _sign,
        zero_preserving=True,
        vjp=(_sign_rule,),
        jvp=(_sign_rule,),
        complex_ok=True,
        convention="for real x the derivative is 0 everywhere, the jump at 0 included",
    ),
    Scalar(
        "copysign",
        np.copysign,
        (_signbit_copy, None),
        REAL,
        result="float",
        domain=_TWO,
        convention="at a = 0 the derivative is 0",
    ),
    Scalar("nextafter", np.nextafter, (), "f", zero_preserving=True, domain=_TWO),
)


_EXPONENTIAL = (
    Scalar("exp", np.exp, (lambda F, y, _x: y,), result="float", complex_ok=True),
    Scalar("exp2", np.exp2, (lambda F, y, _x: y * _LN2,), "iuf", result="float"),
    Scalar(
        "expm1", np.expm1, (lambda F, y, _x: y + 1,), result="float", zero_preserving=True, complex_ok=True
    ),
    Scalar(
        "log",
        np.log,
        (lambda F, _y, x: F.reciprocal(x),),
        result="float",
        domain=(_POSITIVE,),
        complex_ok=True,
    ),
    Scalar(
        "log1p",
        np.log1p,
        (lambda F, _y, x: F.reciprocal(1 + x),),
        result="float",
        zero_preserving=True,
        domain=((-0.7, 2.0),),
        complex_ok=True,
    ),
    Scalar(
        "log2",
        np.log2,
        (lambda F, _y, x: 1 / (x * _LN2),),
        result="float",
        domain=(_POSITIVE,),
        complex_ok=True,
    ),
    Scalar(
        "log10",
        np.log10,
        (lambda F, _y, x: 1 / (x * _LN10),),
        result="float",
        domain=(_POSITIVE,),
        complex_ok=True,
    ),
    Scalar(
        "logaddexp",
        np.logaddexp,
        (lambda F, _y, a, b: F.sigmoid(a - b), lambda F, _y, a, b: F.sigmoid(b - a)),
        REAL,
        result="float",
        domain=_TWO,
    ),
)

_TRIGONOMETRIC = (
    Scalar(
        "sin", np.sin, (lambda F, _y, x: F.cos(x),), result="float", zero_preserving=True, complex_ok=True
    ),
    Scalar("cos", np.cos, (lambda F, _y, x: -F.sin(x),), result="float", complex_ok=True),
    Scalar(
        "tan",
        np.tan,
        (lambda F, y, _x: 1 + y * y,),
        result="float",
        zero_preserving=True,
        domain=((-1.2, 1.2),),
        complex_ok=True,
    ),
    Scalar(
        "asin",
        np.arcsin,
        (lambda F, _y, x: 1 / F.sqrt(1 - x * x),),
        result="float",
        zero_preserving=True,
        domain=(_UNIT,),
        complex_ok=True,
        convention="at -1 and 1 the derivative is inf",
    ),
    Scalar(
        "acos",
        np.arccos,
        (lambda F, _y, x: -1 / F.sqrt(1 - x * x),),
        result="float",
        domain=(_UNIT,),
        complex_ok=True,
        convention="at -1 and 1 the derivative is -inf",
    ),
    Scalar(
        "atan",
        np.arctan,
        (lambda F, _y, x: 1 / (1 + x * x),),
        result="float",
        zero_preserving=True,
        domain=(_UNIT,),
        complex_ok=True,
    ),
    Scalar(
        "atan2",
        np.arctan2,
        (_atan2_part(1.0, 1), _atan2_part(-1.0, 0)),
        REAL,
        result="float",
        domain=(_POSITIVE, _POSITIVE),
        convention="at (0, 0) the derivatives are nan",
    ),
)

_HYPERBOLIC = (
    Scalar(
        "sinh", np.sinh, (lambda F, _y, x: F.cosh(x),), result="float", zero_preserving=True, complex_ok=True
    ),
    Scalar("cosh", np.cosh, (lambda F, _y, x: F.sinh(x),), result="float", complex_ok=True),
    Scalar(
        "tanh", np.tanh, (lambda F, y, _x: 1 - y * y,), result="float", zero_preserving=True, complex_ok=True
    ),
    Scalar(
        "asinh",
        np.arcsinh,
        (lambda F, _y, x: 1 / F.sqrt(x * x + 1),),
        result="float",
        zero_preserving=True,
        domain=(_UNIT,),
        complex_ok=True,
    ),
    # Two roots, not sqrt(x * x - 1): the branch cut of the product is not that of acosh.
    Scalar(
        "acosh",
        np.arccosh,
        (lambda F, _y, x: 1 / (F.sqrt(x - 1) * F.sqrt(x + 1)),),
        result="float",
        domain=((1.2, 3.0),),
        complex_ok=True,
    ),
    Scalar(
        "atanh",
        np.arctanh,
        (lambda F, _y, x: 1 / (1 - x * x),),
        result="float",
        zero_preserving=True,
        domain=(_UNIT,),
        complex_ok=True,
    ),
)

_NEURAL = (
    Scalar(
        "relu",
        lambda x: np.maximum(x, 0),
        (),
        "iuf",
        zero_preserving=True,
        vjp=(_relu_rule,),
        jvp=(_relu_rule,),
        convention="at 0 the derivative is 0",
    ),
    Scalar("sigmoid", special.sigmoid, (lambda F, y, _x: y * (1 - y),), "iuf", result="float"),
    Scalar("softplus", _softplus, (lambda F, _y, x: F.sigmoid(x),), "f", result="float"),
    Scalar("silu", special.silu, (_silu_d,), "f", zero_preserving=True),
    Scalar("gelu", special.gelu, (_gelu_d,), "f", zero_preserving=True),
    Scalar(
        "erf",
        special.scipy_special("erf"),
        (lambda F, _y, x: _TWO_OVER_SQRT_PI * F.exp(-x * x),),
        "iuf",
        result="float",
        zero_preserving=True,
    ),
    Scalar(
        "erfc",
        special.erfc,
        (lambda F, _y, x: -_TWO_OVER_SQRT_PI * F.exp(-x * x),),
        "iuf",
        result="float",
    ),
    Scalar(
        "lgamma",
        special.lgamma,
        (lambda F, _y, x: F.digamma(x),),
        "iuf",
        result="float",
        domain=(_POSITIVE,),
    ),
    Scalar(
        "digamma",
        special.digamma,
        (lambda F, _y, x: F.polygamma(1, x),),
        "iuf",
        result="float",
        domain=(_POSITIVE,),
    ),
    Scalar(
        "polygamma",
        special.polygamma,
        (None, lambda F, _y, n, x: F.polygamma(n + 1, x)),
        "iuf",
        result="float",
        domain=(_POSITIVE, _POSITIVE),
    ),
)

_ROUNDING = tuple(
    Scalar(name, body, (), kinds, zero_preserving=True)
    for name, body, kinds in (
        ("floor", np.floor, REAL),
        ("ceil", np.ceil, REAL),
        ("trunc", np.trunc, REAL),
        ("round", np.round, NUMERIC),
    )
)

_COMPLEX = (
    Scalar(
        "conj",
        lambda x: np.conj(x) if x.dtype.kind == "c" else x,
        kinds=NUMERIC,
        linear_in=((0,),),
        vjp=(lambda F, g, _y, _x: F.conj(g),),
        complex_ok=True,
    ),
    Scalar(
        "real",
        np.real,
        kinds=NUMERIC,
        result="real",
        linear_in=((0,),),
        vjp=(lambda F, g, _y, _x: g,),
        complex_ok=True,
    ),
    Scalar(
        "imag",
        np.imag,
        kinds=NUMERIC,
        result="real",
        linear_in=((0,),),
        vjp=(lambda F, g, _y, x: g * 1j if x.dtype.kind == "c" else None,),
        complex_ok=True,
    ),
    Scalar(
        "angle",
        np.angle,
        kinds=NUMERIC,
        result="realfloat",
        # d arg z = Im(conj(z) dz) / |z|^2; as a gradient, g i z / |z|^2.
        vjp=(lambda F, g, _y, x: g * 1j * x / F.square(F.abs(x)) if x.dtype.kind == "c" else None,),
        jvp=(
            lambda F, t, _y, x: F.imag(F.conj(x) * t) / F.square(F.abs(x)) if x.dtype.kind == "c" else None,
        ),
        complex_ok=True,
        domain=(_POSITIVE,),
        convention="for real x the derivative is 0; at complex 0 it is nan",
    ),
)

_PREDICATES = (
    *(
        Scalar(name, body, (), kinds, result="bool")
        for name, body, kinds in (
            ("isnan", np.isnan, ANY),
            ("isinf", np.isinf, ANY),
            ("isfinite", np.isfinite, ANY),
            ("signbit", np.signbit, REAL),
            ("logical_not", np.logical_not, ANY),
        )
    ),
    *(
        Scalar(name, body, (), kinds, result="bool", domain=_TWO)
        for name, body, kinds in (
            ("equal", np.equal, ANY),
            ("not_equal", np.not_equal, ANY),
            ("less", np.less, REAL + "b"),
            ("less_equal", np.less_equal, REAL + "b"),
            ("greater", np.greater, REAL + "b"),
            ("greater_equal", np.greater_equal, REAL + "b"),
            ("logical_and", np.logical_and, ANY),
            ("logical_or", np.logical_or, ANY),
            ("logical_xor", np.logical_xor, ANY),
        )
    ),
)

_BITWISE = (
    Scalar("bitwise_invert", np.invert, (), INTEGRAL),
    *(
        Scalar(name, body, (), kinds, domain=_TWO)
        for name, body, kinds in (
            ("bitwise_and", np.bitwise_and, INTEGRAL),
            ("bitwise_or", np.bitwise_or, INTEGRAL),
            ("bitwise_xor", np.bitwise_xor, INTEGRAL),
            ("bitwise_left_shift", np.left_shift, "iu"),
            ("bitwise_right_shift", np.right_shift, "iu"),
        )
    ),
)

_CHOICE = (
    Scalar(
        "where",
        _where,
        vjp=(
            lambda F, g, _y, c, _a, _b: None,
            lambda F, g, _y, c, _a, _b: F.bracket(c, g, negated=False),
            lambda F, g, _y, c, _a, _b: F.bracket(c, g, negated=True),
        ),
        kinds=ANY,
        linear_in=((1, 2),),
        domain=(None, None, None),
        complex_ok=True,
    ),
    _selecting(
        "clip",
        np.clip,
        (_clipped(0), _clipped(1), _clipped(2)),
        domain=(None, (-0.6, -0.4), (0.4, 0.6)),
        convention="at a bound the derivative belongs to x; where min > max it belongs to max",
    ),
)

#: All elementwise functions by name.
SCALARS: dict[str, Scalar] = {
    s.name: s
    for family in (
        _ARITHMETIC,
        _EXPONENTIAL,
        _TRIGONOMETRIC,
        _HYPERBOLIC,
        _NEURAL,
        _ROUNDING,
        _COMPLEX,
        _PREDICATES,
        _BITWISE,
        _CHOICE,
    )
    for s in family
}


def result_dtype(scalar: Scalar, promoted: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a function's result, given the promoted dtype of its operands."""
    if scalar.result == "float":
        return dtypes.to_inexact(promoted)
    if scalar.result == "bool":
        return dtypes.bool
    if scalar.result == "real":
        return dtypes.real_of(promoted)
    if scalar.result == "realfloat":
        return dtypes.real_of(dtypes.to_inexact(promoted))
    return promoted
