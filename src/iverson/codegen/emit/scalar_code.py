"""Scalar functions as LLVM IR: one line per name of `iverson.core.scalars`, on values of one dtype.

Elementary functions come from `vecmath`. A few rare ones call the C library lane by lane. Special functions
call SciPy's loops, and those of complex numbers call NumPy's (`ufunc_calls`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from iverson.codegen.emit import half_conversion, llvm_builder, ufunc_calls, vecmath
from iverson.codegen.emit.llvm_builder import Builder, Pair, Value
from iverson.core import dtypes
from iverson.core.scalars import SCALARS
from iverson.core.scalars.exponential_functions import EXP2_HALVES
from iverson.expr.function_facts import COMBINE
from iverson.expr.nodes import DType

Emitter = Callable[..., Value]
#: How often an elementary function stands in a module itself; where it is evaluated further, it is called.
INLINED = 16


def supported(name: str, dtype: DType) -> bool:
    """True if a function on operands of this dtype can be compiled."""
    if dtype.kind not in "biufc" or dtypes.is_half(dtype) or name not in SCALARS:
        return False
    if dtype.kind == "c":
        return name in _COMPLEX
    if dtype.kind == "f":
        return name in _ANY or name in _FLOAT
    if dtype.kind == "b" and name in _BOOL:
        return True
    return name in _ANY or name in _INTEGER


def emit(b: Builder, name: str, dtype: DType, args: tuple[Value, ...]) -> Value:
    """Emit the function ``name`` on operands of ``dtype``, already of one vector width; return the result."""
    if dtype.kind == "c":
        return _COMPLEX[name](b, *args)
    if name in _ANY:
        return _ANY[name](b, dtype, *args)
    if dtype.kind == "f":
        return _FLOAT[name](b, *args)
    if dtype.kind == "b" and name in _BOOL:
        return _BOOL[name](b, *args)
    return _INTEGER[name](b, dtype, *args)


def combine(b: Builder, how: str, dtype: DType, old: Value, new: Value) -> Value:
    """Emit ``old (how)= new``, where ``how`` is a combine such as "sum"; return the new value."""
    if how == "assign":
        return new
    return emit(b, COMBINE[how], dtype, (old, new))


def better(b: Builder, how: str, dtype: DType, best: Value, value: Value) -> tuple[Value, Value]:
    """Two masks for an argmax or argmin: ``value`` is better than ``best``, and ``value`` is as good."""
    unsigned = dtype.kind in "ub"
    wins = value.compare("gt" if how == "argmax" else "lt", best, unsigned=unsigned)
    ties = value.eq(best)
    if dtype.kind == "f":
        new_nan, old_nan = value.ne(value), best.ne(best)
        wins = wins | (new_nan & (old_nan ^ True))
        ties = ties | (new_nan & old_nan)
    return wins, ties


def cast(b: Builder, x: Value, source: DType, target: DType) -> Value:
    """Emit the conversion of ``x`` from one dtype to another, as by `iverson.core.scalars.converted`."""
    to = llvm_builder.as_type(target, x.type.lanes)
    if source == target:
        return x
    if dtypes.is_half(source):
        return cast(b, half_conversion.widened(b, x, source), dtypes.float32, target)
    if dtypes.is_half(target):
        # To float16 from double it is rounded once, as by NumPy; to bfloat16 twice, as by ml_dtypes.
        odd = source == dtypes.float64 and target == dtypes.float16
        single = half_conversion.to_odd(b, x) if odd else cast(b, x, source, dtypes.float32)
        return half_conversion.narrowed(b, single, target)
    if isinstance(x, Pair):
        if target.kind == "b":
            return x.re.ne(0.0) | x.im.ne(0.0)
        part = np.dtype(f"float{4 * source.itemsize}")
        if target.kind == "c":
            return x.map(lambda v: cast(b, v, part, np.dtype(f"float{4 * target.itemsize}")))
        return cast(b, x.re, part, target)
    if target.kind == "c":
        re = cast(b, x, source, np.dtype(f"float{4 * target.itemsize}"))
        return b.pair(re, b.const(0.0, re.type))
    if target.kind == "b":
        return x.ne(0.0 if source.kind == "f" else 0)
    if source.kind == "f":
        if target.kind == "f":
            return b.cast("fpext" if target.itemsize > source.itemsize else "fptrunc", x, to)
        return _to_integer(b, x, target)
    unsigned = source.kind in "ub"
    if target.kind == "f":
        return b.cast("uitofp" if unsigned else "sitofp", x, to)
    if to.bits > x.type.bits:
        return b.cast("zext" if unsigned else "sext", x, to)
    return b.cast("trunc", x, to)


def _to_integer(b: Builder, x: Value, target: DType) -> Value:
    """Convert floats to an integer dtype, by way of a signed integer of 32 or 64 bits.

    A number that does not fit in this integer becomes the lowest one. For uint64, numbers from 2**63 on are
    converted by their distance from 2**63.
    """
    to = llvm_builder.as_type(target, x.type.lanes)
    wide = to.of("i64" if target.itemsize == 8 or target == np.uint32 else "i32")
    if target == np.uint64:
        half = 2.0**63
        upper = x >= half
        low = _truncated(b, b.select(upper, x - half, x), wide)
        return low ^ b.select(upper, b.const(1 << 63, wide), b.const(0, wide))
    number = _truncated(b, x, wide)
    return number if wide == to else b.cast("trunc", number, to)


def _truncated(b: Builder, x: Value, to: llvm_builder.Type) -> Value:
    edge = 2.0 ** (to.bits - 1)
    # In single precision -edge is the last number above -edge - 1; in double there may be fractions between.
    above = x > -edge - 1 if to.bits == 32 and x.type.elem == "double" else x >= -edge
    inside = above & (x < edge)
    integer = b.cast("fptosi", b.select(inside, x, b.const(0.0, x.type)), to)
    return b.select(inside, integer, b.const(-(1 << (to.bits - 1)), to))


# --- helpers ----------------------------------------------------------------------------------------


def _intrinsic(name: str) -> Emitter:
    return lambda b, x: b.intrinsic(name, x)


def _vector(name: str) -> Emitter:
    """Emitter of a function of `vecmath`: inlined up to `INLINED` times in a module, then called."""
    function = vecmath.FUNCTIONS[name]

    def emitter(b: Builder, *args: Value) -> Value:
        symbol = f"iverson_{name}_{args[0].type.suffix}"
        if b.sparing or b.inlined[symbol] >= INLINED:
            return b.outlined(symbol, function, args)
        b.inlined[symbol] += 1
        # No contraction inside: the functions' error terms need each rounding.
        flags, b.flags = b.flags, ""
        try:
            return function(b, *args)
        finally:
            b.flags = flags

    return emitter


def _library(name: str) -> Emitter:
    """Emitter that calls the C library's function for each lane."""

    def emitter(b: Builder, *args: Value) -> Value:
        type = args[0].type
        symbol = name + ("f" if type.elem == "float" else "")
        scalar = type.wide(1)
        result = Value(b, "poison", type)
        for k in range(type.lanes):
            item = b.call(symbol, scalar, [b.lane(a, k) for a in args])
            result = item if type.lanes == 1 else b.with_lane(result, k, item)
        return result

    return emitter


def _compare(how: str) -> Emitter:
    return lambda b, dtype, x, y: x.compare(how, y, unsigned=dtype.kind in "ub")


def _truth(b: Builder, dtype: DType, x: Value) -> Value:
    return cast(b, x, dtype, np.dtype("bool"))


def _logical(op: Callable[[Value, Value], Value]) -> Emitter:
    return lambda b, dtype, x, y: op(_truth(b, dtype, x), _truth(b, dtype, y))


def _extremum(how: str) -> Emitter:
    def emitter(b: Builder, dtype: DType, x: Value, y: Value) -> Value:
        result = b.select(x.compare(how, y, unsigned=dtype.kind in "ub"), x, y)
        # A comparison with nan is false, and gives y: right for y = nan, not for x = nan.
        return b.select(x.ne(x), x, result) if dtype.kind == "f" else result

    return emitter


def _universal(module: str, name: str) -> Emitter:
    """Emitter that calls NumPy's (``"numpy"``) or SciPy's (``"special"``) universal function of that name."""

    def emitter(b: Builder, *args: Value) -> Value:
        letter = "f" if args[0].type.elem == "float" else "d"
        return ufunc_calls.call(b, module, name, f"{letter * len(args)}->{letter}", args)

    emitter.universal = module, name  # type: ignore[attr-defined]
    return emitter


def universal_function(name: str) -> tuple[str, str] | None:
    """Module and name of the universal function that is all of a function of floats; None for others."""
    where: tuple[str, str] | None = getattr(_FLOAT.get(name), "universal", None)
    return where


def _scipy(name: str) -> Emitter:
    return _universal("special", name)


def _in_double(function: Emitter) -> Emitter:
    """Emitter that applies ``function`` to the arguments in double, and rounds the result to their type."""

    def emitter(b: Builder, *args: Value) -> Value:
        operand_type, wide = args[0].type, args[0].type.of("double")
        if operand_type == wide:
            return function(b, *args)
        return b.cast("fptrunc", function(b, *(b.cast("fpext", x, wide) for x in args)), operand_type)

    return emitter


def _digamma(b: Builder, x: Value) -> Value:
    """SciPy's psi; near the poles as psi(1 - x) - pi / tan(pi x), with x - round(x) in the tangent."""
    part = x - b.intrinsic("rint", x)
    near = (x < 0.0) & (b.intrinsic("fabs", part) <= 0.25)
    value = _scipy("psi")(b, b.select(near, 1.0 - x, x))
    angle = part * math.pi
    reflected = value - math.pi * (_vector("cos")(b, angle) / _vector("sin")(b, angle))
    pole = b.select(part.eq(0.0), b.const(math.nan, x.type), reflected)
    return b.select(near, pole, value)


def _zeta(b: Builder, x: Value, q: Value) -> Value:
    return b.select(q.eq(1.0), _scipy("_riemann_zeta")(b, x), _scipy("_zeta")(b, x, q))


def _polygamma(b: Builder, n: Value, x: Value) -> Value:
    """(-1)^(n + 1) n! zeta(n + 1, x), as in SciPy; digamma for n = 0."""
    s = n + 1.0
    odd = b.cast("fptosi", s, s.type.as_int) & 1
    sign = b.select(odd.eq(1), b.const(-1.0, s.type), b.const(1.0, s.type))
    value = sign * _scipy("gamma")(b, s) * _scipy("_zeta")(b, s, x)
    return b.select(n.eq(0.0), _scipy("psi")(b, x), value)


def _spherical_j(b: Builder, n: Value, x: Value) -> Value:
    """SciPy's spherical_jn of abs(x), negated for odd n and negative x."""
    order = b.cast("fptosi", n, n.type.of("i64"))
    value = ufunc_calls.call(b, "special", "_spherical_jn", "ld->d", (order, b.intrinsic("fabs", x)))
    return b.select((order & 1).eq(1) & (x < 0.0), -value, value)


def _exprel_order(b: Builder, k: Value, x: Value) -> Value:
    """k-th derivative of (exp(x) - 1) / x; see `iverson.core.scalars.scipy_functions`."""
    within = b.select(x > 800.0, b.const(800.0, x.type), x)
    value = _scipy("hyp1f1")(b, k + 1.0, k + 2.0, within) / (k + 1.0)
    return b.select(x.eq(-math.inf), b.const(0.0, x.type), value)


def _log1prel_order(b: Builder, k: Value, x: Value) -> Value:
    """k-th derivative of log(1 + x) / x; see `iverson.core.scalars.scipy_functions`.

    For k > 4 and large x, it is computed to the first order of 1 / x.
    """
    limit = b.select(k > 4.0, b.const(1e6, x.type), b.const(64.0, x.type))
    odd = (b.cast("fptosi", k, k.type.as_int) & 1).eq(1)
    sign = b.select(odd, b.const(-1.0, x.type), b.const(1.0, x.type))
    n = k + 1.0
    near = _scipy("hyp2f1")(b, n, n, k + 2.0, -b.select(x > limit, limit, x)) / n
    near = b.select(x < -1.0, b.const(math.nan, x.type), near)
    sums = _scipy("psi")(b, n) + np.euler_gamma - k / (1.0 + x)
    share, short_sum = x / (1.0 + x), b.const(0.0, x.type)
    for j in range(4, 0, -1):
        short_sum = b.select(k < float(j), short_sum, (short_sum + 1 / j) * share)
    sums = b.select(k > 4.0, sums, short_sum)
    far = (_vector("log1p")(b, x) - sums) / _vector("pow")(b, x, n)
    far = b.select(x.eq(math.inf), b.const(0.0, x.type), far)
    return sign * _scipy("gamma")(b, n) * b.select(x > limit, far, near)


_maximum, _minimum = _extremum("gt"), _extremum("lt")


def _sign(b: Builder, dtype: DType, x: Value) -> Value:
    zero, one = b.const(0, x.type), b.const(1, x.type)
    if dtype.kind in "ub":
        return b.select(x.eq(0), zero, one)
    result = b.select(x < 0, b.const(-1, x.type), b.select(x > 0, one, zero))
    return b.select(x.ne(x), x, result) if dtype.kind == "f" else result


def _absolute(b: Builder, dtype: DType, x: Value) -> Value:
    if dtype.kind == "f":
        return b.intrinsic("fabs", x)
    return x if dtype.kind == "u" else b.select(x < 0, b.const(0, x.type) - x, x)


def _floor_quotient(b: Builder, dtype: DType, x: Value, y: Value) -> Value:
    """The quotient rounded down, 0 for a divisor of 0; never a trap."""
    if dtype.kind == "i" and y.const is not None and y.const > 0:
        if _is_power(n := int(y.const)):
            return x.ashr(n.bit_length() - 1)
        q, r = _truncating(b, x, y)
        return b.select(r < 0, q - 1, q)
    return _divided(b, dtype, x, y)[0]


def _floor_remainder(b: Builder, dtype: DType, x: Value, y: Value) -> Value:
    """Remainder of the floored division; 0 for a divisor of 0."""
    if dtype.kind == "i" and y.const is not None and y.const > 0:
        if _is_power(n := int(y.const)):
            return x & (n - 1)
        _, r = _truncating(b, x, y)
        return b.select(r < 0, r + y, r)
    return _divided(b, dtype, x, y)[1]


def _is_power(n: int) -> bool:
    """True if a positive number is a power of two."""
    return n & (n - 1) == 0


def _truncating(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder of signed integers, rounding to 0."""
    q = b.emit(f"sdiv {x.type} {x.ref}, {y.ref}", x.type)
    return q, x - q * y


def _divided(b: Builder, dtype: DType, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder of the floored division; both are 0 for a divisor of 0."""
    zero, one, nothing = y.eq(0), b.const(1, y.type), b.const(0, x.type)
    safe = b.select(zero, one, y)
    if dtype.kind == "u":
        q = b.emit(f"udiv {x.type} {x.ref}, {safe.ref}", x.type)
        r = b.emit(f"urem {x.type} {x.ref}, {safe.ref}", x.type)
    else:
        minus = safe.eq(-1)
        divisor = b.select(minus, one, safe)
        q, r = _truncating(b, x, divisor)
        down = r.ne(0) & ((r ^ safe) < 0)
        q, r = b.select(down, q - 1, q), b.select(down, r + safe, r)
        q, r = b.select(minus, nothing - x, q), b.select(minus, nothing, r)
    return b.select(zero, nothing, q), b.select(zero, nothing, r)


def _remainder_float(b: Builder, x: Value, y: Value) -> Value:
    r = b.emit(f"frem {x.type} {x.ref}, {y.ref}", x.type)
    wrong = r.ne(0.0) & (r < 0.0).compare("ne", y < 0.0)
    return b.select(r.eq(0.0), b.intrinsic("copysign", b.const(0.0, x.type), y), b.select(wrong, r + y, r))


def _floor_divide_float(b: Builder, x: Value, y: Value) -> Value:
    """Quotient rounded down: x less its remainder, by y, which rounding leaves next to an integer.

    Of an infinite operand, or by 0, it is the quotient itself.
    """
    r = b.emit(f"frem {x.type} {x.ref}, {y.ref}", x.type)
    q = (x - r) / y
    down = r.ne(0.0) & (r < 0.0).compare("ne", y < 0.0)
    near = b.intrinsic("rint", b.select(down, q - 1.0, q))
    exact = x / y
    infinite = (b.intrinsic("fabs", x).eq(math.inf)) | (b.intrinsic("fabs", y).eq(math.inf))
    quotient = b.select(near.eq(0.0), b.intrinsic("copysign", near, exact), near)
    return b.select(y.eq(0.0) | infinite, exact, quotient)


def _shift(name: str) -> Emitter:
    def emitter(b: Builder, dtype: DType, x: Value, y: Value) -> Value:
        bits = x.type.bits
        far = y.compare("ge", bits, unsigned=True)
        by = b.select(far, b.const(bits - 1, y.type), y)
        if name == "left":
            return b.select(far, b.const(0, x.type), x << by)
        if dtype.kind == "u":
            return b.select(far, b.const(0, x.type), x.lshr(by))
        return x.ashr(by)

    return emitter


def _logaddexp(b: Builder, x: Value, y: Value) -> Value:
    top = _float_max(b, x, y)
    gap = b.intrinsic("fabs", x - y)
    tail = _vector("log1p")(b, _vector("exp")(b, -gap))
    # Two equal infinities have no gap.
    return b.select(x.eq(y), x + math.log(2), top + tail)


def _float_max(b: Builder, x: Value, y: Value) -> Value:
    return _maximum(b, np.dtype("float64"), x, y)


_ANY: dict[str, Emitter] = {
    "equal": _compare("eq"),
    "not_equal": _compare("ne"),
    "less": _compare("lt"),
    "less_equal": _compare("le"),
    "greater": _compare("gt"),
    "greater_equal": _compare("ge"),
    "logical_and": _logical(lambda x, y: x & y),
    "logical_or": _logical(lambda x, y: x | y),
    "logical_xor": _logical(lambda x, y: x ^ y),
    "logical_not": lambda b, dtype, x: _truth(b, dtype, x) ^ True,
    "maximum": _maximum,
    "minimum": _minimum,
    "clip": lambda b, d, x, lo, hi: _minimum(b, d, _maximum(b, d, x, lo), hi),
    "sign": _sign,
    "abs": _absolute,
    "positive": lambda b, dtype, x: x,
    "conj": lambda b, dtype, x: x,
    "real": lambda b, dtype, x: x,
    "imag": lambda b, dtype, x: b.const(0, x.type),
}

_FLOAT: dict[str, Emitter] = {
    "add": lambda b, x, y: x + y,
    "subtract": lambda b, x, y: x - y,
    "multiply": lambda b, x, y: x * y,
    "divide": lambda b, x, y: x / y,
    "negative": lambda b, x: -x,
    "square": lambda b, x: x * x,
    "reciprocal": lambda b, x: 1.0 / x,
    "rsqrt": lambda b, x: 1.0 / b.intrinsic("sqrt", x),
    "fmod": lambda b, x, y: b.emit(f"frem {x.type} {x.ref}, {y.ref}", x.type),
    "frac": lambda b, x: x - b.intrinsic("trunc", x),
    "deg2rad": lambda b, x: x * (math.pi / 180),
    "rad2deg": lambda b, x: x * (180 / math.pi),
    "sqrt": _intrinsic("sqrt"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "round": _intrinsic("rint"),
    "copysign": lambda b, x, y: b.intrinsic("copysign", x, y),
    "floor_divide": _floor_divide_float,
    "remainder": _remainder_float,
    "isnan": lambda b, x: x.ne(x),
    "isinf": lambda b, x: b.intrinsic("fabs", x).eq(math.inf),
    "isfinite": lambda b, x: b.intrinsic("fabs", x) < math.inf,
    "signbit": lambda b, x: x.bitcast(x.type.as_int.elem) < 0,
    "relu": lambda b, x: _float_max(b, x, b.const(0.0, x.type)),
    "logaddexp": _logaddexp,
    "softplus": lambda b, x: _logaddexp(b, x, b.const(0.0, x.type)),
    **{name: _vector(name) for name in vecmath.FUNCTIONS},
    **{
        name: _library(symbol)
        for name, symbol in {
            "hypot": "hypot", "nextafter": "nextafter", "lgamma": "lgamma",
        }.items()
    },
    **{
        name: _universal("numpy", theirs)
        for name, theirs in {
            "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
            "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
        }.items()
    },
    **{
        name: _scipy(name)
        for name in (
            "betainc", "betaln", "entr", "erfcx", "erfinv", "gammainc", "gammaincc", "i0", "i0e", "i1",
            "i1e", "j0", "j1", "kl_div", "log_ndtr", "logit", "ndtri", "rel_entr", "xlog1py", "xlogy",
            "beta", "binom", "boxcox", "boxcox1p", "cbrt", "cosdg", "cosm1", "exp1", "exp10", "expi",
            "betaincc", "betainccinv", "betaincinv", "gamma", "gammainccinv", "gammaincinv",
            "inv_boxcox", "inv_boxcox1p", "k0", "k0e", "k1", "k1e", "poch", "rgamma",
            "exprel", "sindg", "spence", "tandg", "y0", "y1", "zetac",
        )
    },
    "digamma": _digamma,
    "bessel_i": _in_double(_scipy("iv")),
    "bessel_j": _in_double(_scipy("jv")),
    "spherical_j": _in_double(_spherical_j),
    "exprel_order": _in_double(_exprel_order),
    "log1prel_order": _in_double(_log1prel_order),
    "polygamma": _in_double(_polygamma),
    "zeta": _zeta,
}  # fmt: skip

_INTEGER: dict[str, Emitter] = {
    "add": lambda b, d, x, y: x + y,
    "subtract": lambda b, d, x, y: x - y,
    "multiply": lambda b, d, x, y: x * y,
    "negative": lambda b, d, x: b.const(0, x.type) - x,
    "square": lambda b, d, x: x * x,
    "floor_divide": _floor_quotient,
    "remainder": _floor_remainder,
    "bitwise_and": lambda b, d, x, y: x & y,
    "bitwise_or": lambda b, d, x, y: x | y,
    "bitwise_xor": lambda b, d, x, y: x ^ y,
    "bitwise_invert": lambda b, d, x: x ^ -1,
    "bitwise_left_shift": _shift("left"),
    "bitwise_right_shift": _shift("right"),
    "relu": lambda b, d, x: x if d.kind == "u" else _maximum(b, d, x, b.const(0, x.type)),
    "frac": lambda b, d, x: b.const(0, x.type),
    **{name: (lambda b, d, x: x) for name in ("floor", "ceil", "trunc", "round")},
    "signbit": lambda b, d, x: b.const(False, x.type.of("i1")) if d.kind == "u" else x < 0,
    "isnan": lambda b, d, x: b.const(False, x.type.of("i1")),
    "isinf": lambda b, d, x: b.const(False, x.type.of("i1")),
    "isfinite": lambda b, d, x: b.const(True, x.type.of("i1")),
}

_BOOL: dict[str, Emitter] = {
    "add": lambda b, x, y: x | y,
    "multiply": lambda b, x, y: x & y,
    "maximum": lambda b, x, y: x | y,
    "minimum": lambda b, x, y: x & y,
}


# --- complex numbers --------------------------------------------------------------------------------

_Complex = Callable[..., Value]


def _numpy(name: str) -> Callable[..., Pair]:
    """Emitter that calls NumPy's universal function of that name on complex numbers."""

    def emitter(b: Builder, *args: Pair) -> Pair:
        letter = "F" if args[0].type.elem == "complex64" else "D"
        result = ufunc_calls.call(b, "numpy", name, f"{letter * len(args)}->{letter}", args)
        assert isinstance(result, Pair)
        return result

    return emitter


def _product(b: Builder, x: Pair, y: Pair) -> Value:
    return b.pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def _quotient(b: Builder, x: Pair, y: Pair) -> Value:
    """Quotient by R. Smith's method (Algorithm 116, CACM 5, 1962), as in NumPy.

    For a divisor of 0 each part is divided by 0.
    """
    size, other = b.intrinsic("fabs", y.re), b.intrinsic("fabs", y.im)
    first = size >= other
    large, small = b.select(first, y.re, y.im), b.select(first, y.im, y.re)
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    re = b.select(first, x.re + x.im * ratio, x.re * ratio + x.im) * scale
    im = b.select(first, x.im - x.re * ratio, x.im * ratio - x.re) * scale
    zero = size.eq(0.0) & other.eq(0.0)
    return b.pair(b.select(zero, x.re / size, re), b.select(zero, x.im / size, im))


def _square(b: Builder, x: Pair) -> Value:
    return b.pair(x.re * x.re - x.im * x.im, x.re * x.im + x.im * x.re)


def _exp_of_complex(b: Builder, x: Pair) -> Value:
    """e^x (cos y + i sin y), in lanes; NumPy's values where a part is inf or nan.

    Of a large x, e^x is two factors, as the result may be finite where e^x is not.
    """
    single = x.type.elem == "complex64"
    large = b.intrinsic("fabs", x.re) > (80.0 if single else 700.0)
    first = _vector("exp")(b, b.select(large, x.re * 0.5, x.re))
    second = b.select(large, first, b.const(1.0, x.re.type))
    zero, infinity = b.const(0.0, x.re.type), b.const(math.inf, x.re.type)
    re = _vector("cos")(b, x.im) * first * second
    im = b.select(x.im.eq(0.0), x.im, _vector("sin")(b, x.im) * first * second)
    undirected = _FLOAT["isfinite"](b, x.im) ^ True
    vanishing, growing = x.re.eq(-math.inf) & undirected, x.re.eq(math.inf) & undirected
    re = b.select(vanishing, zero, b.select(growing, infinity, re))
    return b.pair(re, b.select(vanishing, zero, im))


def _expm1_of_complex(b: Builder, x: Pair) -> Value:
    """NumPy's expm1; e^x - 1 for numbers that are not finite."""
    y, e = _numpy("expm1")(b, x), _numpy("exp")(b, x)
    finite = _COMPLEX["isfinite"](b, x)
    return b.select(finite, y, b.pair(e.re - 1.0, e.im))


def _tanh_of_complex(b: Builder, x: Pair) -> Value:
    y = _numpy("tanh")(b, x)
    infinite = b.intrinsic("fabs", x.re).eq(math.inf)
    zero = b.intrinsic("copysign", b.const(0.0, x.im.type), x.im)
    return b.pair(y.re, b.select(infinite, zero, y.im))


def _exp2_of_complex(b: Builder, x: Pair) -> Value:
    """2^x of complex numbers, by the method of `core.scalars.exponential_functions.exp2`."""
    last = b.const(2.0 * EXP2_HALVES[4 if x.type.elem == "complex64" else 8], x.re.type)
    near = b.select(x.re < -last, -last, b.select(x.re > last, last, x.re))
    n = b.intrinsic("rint", b.select(x.re.ne(x.re), b.const(0.0, x.re.type), near))
    half = b.intrinsic("floor", n * 0.5)
    e = _numpy("exp")(b, b.pair((x.re - n) * math.log(2), x.im * math.log(2)))
    first, second = _vector("exp2")(b, half), _vector("exp2")(b, n - half)
    return e.map(lambda part: part * first * second)


def _sigmoid_of_complex(b: Builder, x: Pair) -> Value:
    """1 / (1 + e^-x), or e^x / (1 + e^x) where the real part is negative."""
    negative = x.re < 0.0
    e = _numpy("exp")(b, b.pair(*(b.select(negative, part, -part) for part in (x.re, x.im))))
    one, zero = b.const(1.0, x.re.type), b.const(0.0, x.re.type)
    top = b.pair(b.select(negative, e.re, one), b.select(negative, e.im, zero))
    return _quotient(b, top, b.pair(e.re + 1.0, e.im))


def _silu_of_complex(b: Builder, x: Pair) -> Value:
    near = b.select(x.re < -4000.0, b.const(-4000.0, x.re.type), x.re)
    y = _sigmoid_of_complex(b, x)
    assert isinstance(y, Pair)
    return _product(b, b.pair(near, x.im), y)


def _sinc_of_complex(b: Builder, x: Pair) -> Value:
    """sin(pi x) / (pi x) of complex numbers, and 1 at 0; see `core.scalars.bessel`."""
    nearest = b.intrinsic("rint", x.re)
    sine = _numpy("sin")(b, b.pair((x.re - nearest) * math.pi, x.im * math.pi))
    odd = b.intrinsic("floor", nearest * 0.5).ne(nearest * 0.5)
    zero, one = x.re.eq(0.0) & x.im.eq(0.0), b.const(1.0, x.re.type)
    below = b.pair(b.select(zero, one, x.re * math.pi), x.im * math.pi)
    y = _quotient(b, sine.map(lambda part: b.select(odd, -part, part)), below)
    return b.select(zero, b.pair(one, b.const(0.0, x.re.type)), y)


def _is_true(x: Pair) -> Value:
    return x.re.ne(0.0) | x.im.ne(0.0)


def _either(name: str) -> _Complex:
    return lambda b, x: _FLOAT[name](b, x.re) | _FLOAT[name](b, x.im)


_COMPLEX: dict[str, _Complex] = {
    "add": lambda b, x, y: b.pair(x.re + y.re, x.im + y.im),
    "subtract": lambda b, x, y: b.pair(x.re - y.re, x.im - y.im),
    "multiply": _product,
    "divide": _quotient,
    "reciprocal": lambda b, x: _quotient(b, b.const(1.0, x.type), x),
    "negative": lambda b, x: x.map(lambda part: -part),
    "positive": lambda b, x: x,
    "square": _square,
    "conj": lambda b, x: b.pair(x.re, -x.im),
    "real": lambda b, x: x.re,
    "imag": lambda b, x: x.im,
    "abs": lambda b, x: _library("hypot")(b, x.re, x.im),
    "angle": lambda b, x: _FLOAT["atan2"](b, x.im, x.re),
    "sign": _numpy("sign"),
    "round": lambda b, x: x.map(lambda part: b.intrinsic("rint", part)),
    "equal": lambda b, x, y: x.re.eq(y.re) & x.im.eq(y.im),
    "not_equal": lambda b, x, y: x.re.ne(y.re) | x.im.ne(y.im),
    "logical_not": lambda b, x: _is_true(x) ^ True,
    "logical_and": lambda b, x, y: _is_true(x) & _is_true(y),
    "logical_or": lambda b, x, y: _is_true(x) | _is_true(y),
    "logical_xor": lambda b, x, y: _is_true(x) ^ _is_true(y),
    "isnan": _either("isnan"),
    "isinf": _either("isinf"),
    "isfinite": lambda b, x: _FLOAT["isfinite"](b, x.re) & _FLOAT["isfinite"](b, x.im),
    "rsqrt": lambda b, x: _quotient(b, b.const(1.0, x.type), _numpy("sqrt")(b, x)),
    "exp": _exp_of_complex,
    "exp2": _exp2_of_complex,
    "expm1": _expm1_of_complex,
    "pow": _numpy("power"),
    "sigmoid": _sigmoid_of_complex,
    "silu": _silu_of_complex,
    "sinc": _sinc_of_complex,
    "tanh": _tanh_of_complex,
    **{
        name: _numpy(name)
        for name in ("cos", "cosh", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan")
    },
    **{
        short: _numpy(name)
        for short, name in {
            "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
            "atanh": "arctanh",
        }.items()
    },
}  # fmt: skip
