"""Every elementwise function of the table, at every point that is hard for some of them.

The functions run four ways on the same points: eager, by the interpreter of tensor expressions, compiled in
vectors and compiled entry by entry. The points hold zeros, poles, branch points, limits of the formats and
all pairs of a few of them; the oracles are mpmath, Python's integers and C's mathematics.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.codegen.nests import nodes
from iverson.core.errors import ArgumentError, DTypeError
from iverson.core.scalars import SCALARS, Scalar
from iverson.ops import F
from iverson.te.elimination.nest_translation import compiles
from iverson.te.ir import interpret
from iverson.te.lowering import statement_lowering
from iverson.te.lowering.lowered_program import Run
from tests.conformance.product import EXHAUSTIVE, some, turn

Array = np.ndarray[Any, Any]

FLOATS = ("float32", "float64")
INTEGERS = ("int8", "uint64")
DTYPES = (*FLOATS, *INTEGERS, "bool")
NAMES = sorted(set(SCALARS) - {"where"})


def SCIPYS(s: Scalar) -> bool:
    """Special functions that have no code of their own: they run in SciPy."""
    return s.space == "special" or s.orders > 0 or s.name == "zeta"


#: Functions that round once or not at all: all ways give the same bits.
EXACT = {
    "add", "subtract", "multiply", "divide", "negative", "positive", "square", "reciprocal", "sqrt",
    "floor_divide", "remainder", "maximum", "minimum", "abs", "sign", "copysign", "nextafter", "relu",
    "floor", "ceil", "trunc", "round", "fmod", "frac", "conj", "real", "imag", "clip",
}  # fmt: skip
#: Units in the last place that an oracle may differ by from eager code, and eager from compiled code.
ULPS, APART = 4, 6
#: Which of 0 and -0 is the larger is not said, by IEEE 754 or NumPy.
EITHER_ZERO = {"maximum", "minimum", "clip", "relu"}
#: Sums of terms, of this size, that cancel next to zeros at negative x: there the error is one of the terms.
CANCELS = {"lgamma": 1.0, "digamma": 4.0, "gelu_derivative": 0.25}


def unary_points(dtype: Any) -> Array:
    """Zeros, poles and branch points of any function, with their neighbours; both ends of each format."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [0, 1, 2, 3, 5, 7, 8, 20, 31, 32, 63, 64, 100, info.max // 2]
        ends = [info.min, info.min + 1, info.max - 1, info.max]
        return np.array(sorted({v for n in near for v in (n, -n) if info.min <= v} | set(ends)), dtype)
    limits = np.finfo(dtype)
    values = np.array([
        0.0, limits.smallest_subnormal, 0.37 * limits.tiny, limits.tiny, limits.eps, limits.max, math.inf,
        math.nan, math.sqrt(limits.tiny), math.sqrt(limits.max), 1e-20, 1e-10, 1e-8, 1e-5, 1e-3, 0.1, 0.25,
        0.5, 1, 1.5, 2, 2.5, 3, 7.3, 10, 12.5, 37, 100, math.log(2), math.pi, math.pi / 2, math.pi / 4,
        math.e, 5.9, 9.2, 20.5, 26.5, 27.2, 88.72, 89.5, 103.5, 104.5, 709.5, 710.5, 744.5, 745.3, 127, 128,
        150, 1023.5, 1074, 1075, 1e5, 1e22, 1e30, 2.0**23, 2.0**24, 2.0**53, 1.4616321449683622,
        2.4570247382208006,
    ])  # fmt: skip
    with np.errstate(all="ignore"):
        both = np.concatenate([values, -values]).astype(dtype)
        edges = both[np.isin(np.abs(both), (0.5, 1, 1.5, 2, 2.5, 3))]
        beside = [np.nextafter(edges, dtype.type(to)) for to in (-math.inf, math.inf)]
    return np.unique(np.concatenate([both, *beside]).view(f"u{dtype.itemsize}")).view(dtype)


def few_points(dtype: Any) -> Array:
    """Points whose pairs are all tried."""
    if dtype.kind != "f":
        return unary_points(dtype)
    limits = np.finfo(dtype)
    ends = [limits.smallest_subnormal, limits.tiny, limits.max, math.inf]
    sizes = [0.0, *ends, 1e-3, 0.1, 0.5, 1, 2, 2.5, 3, 7.3, 1e5]
    return np.array([*sizes, *(-v for v in sizes), math.nan], dtype)


@functools.cache
def points(dtype_name: str) -> dict[int, tuple[Array, ...]]:
    """By the number of arguments, the arguments: vectors of one length."""
    dtype = np.dtype(dtype_name)
    few = few_points(dtype)
    pairs = [g.reshape(-1) for g in np.meshgrid(few, few, indexing="ij")]
    count = max(len(pairs[0]), len(unary_points(dtype)))
    rng = np.random.default_rng(1)
    triples = [few[rng.integers(0, len(few), count)] for _ in range(3)]
    whole = {1: (unary_points(dtype),), 2: tuple(pairs)}
    whole |= {n: (*triples, *triples[:2])[:n] for n in (3, 5)}
    return {n: tuple(np.resize(a, count) for a in arrays) for n, arrays in whole.items()}


def arguments(s: Scalar, dtype: str) -> tuple[Array, ...]:
    args = points(dtype)[s.arity]
    if s.name == "pow" and dtype in INTEGERS:  # no integers to negative integers
        return args[0], args[1] % np.array(7, dtype)
    return (*(np.full_like(x, 2) for x in args[: s.orders]), *args[s.orders :])


@functools.cache
def eager(dtype: str) -> dict[str, Array]:
    """Every function that takes the dtype, eager."""
    with np.errstate(all="ignore"):
        return {
            name: getattr(F, name)(*map(iv.asarray, arguments(SCALARS[name], dtype))).numpy()
            for name in NAMES
            if np.dtype(dtype).kind in SCALARS[name].kinds
        }


@functools.cache
def program(dtype: str, share: int = 1) -> tuple[te.ir.nodes.Program, tuple[Array, ...], list[str]]:
    """One program of all those functions, or of one in ``share``; its inputs; the names of its outputs."""
    inputs: dict[int, te.Placeholder] = {}
    arrays: list[Array] = []
    outputs: list[te.Compute] = []

    def read(array: Array) -> te.Placeholder:
        if id(array) not in inputs:
            inputs[id(array)] = te.placeholder(array.shape, dtype, f"x{len(arrays)}")
            arrays.append(array)
        return inputs[id(array)]

    names = [n for n in eager(dtype) if EXHAUSTIVE or turn(f"{n} {dtype}", share) == 0]
    for name in names:
        xs = [read(a) for a in arguments(SCALARS[name], dtype)]
        outputs.append(
            te.compute(xs[0].shape, lambda i, name=name, xs=xs: getattr(te.F, name)(*(x[i] for x in xs)))
        )
    return te.program_of(outputs, tuple(inputs.values())), tuple(arrays), names


def interpreted(dtype: str) -> dict[str, Array]:
    made, arrays, names = program(dtype)
    return dict(zip(names, interpret.run(made, arrays), strict=True))


def vectors(dtype: str) -> dict[str, Array]:
    made, arrays, names = program(dtype)
    return dict(zip(names, statement_lowering.run(made, arrays), strict=True))


def one_by_one(dtype: str) -> dict[str, Array]:
    """The same kernels without vectors, of every third function."""
    made, arrays, names = program(dtype, 3)
    lowered = statement_lowering.lower(made)

    def plain(s: nodes.Stmt) -> nodes.Stmt:
        return (
            replace(s, body=tuple(map(plain, s.body)), mark="", factor=1) if isinstance(s, nodes.Loop) else s
        )

    steps = [
        Run(kernel)
        if isinstance(step, Run)
        and (kernel := replace(step.kernel, phases=tuple(map(plain, step.kernel.phases))))
        else step
        for step in lowered.steps
    ]
    return dict(zip(names, replace(lowered, steps=tuple(steps))(*arrays), strict=True))


WAYS: dict[str, Callable[[str], dict[str, Array]]] = {
    "interpreted": interpreted,
    "vectors": vectors,
    "one by one": one_by_one,
}


def ulps(got: Array, want: Array) -> Array:
    """|got - want| in units in the last place of ``want``; inf where only one is special."""
    if want.dtype.kind != "f":
        return np.where(got == want, 0.0, np.inf)
    with np.errstate(all="ignore"):
        unit = np.spacing(np.maximum(np.abs(want), np.finfo(want.dtype).tiny)).astype(np.longdouble)
        error = np.abs(got.astype(np.longdouble) - want) / unit
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0.0, np.where(np.isfinite(got) & np.isfinite(want), error, np.inf)).astype(float)


def assert_close(label: str, got: Array, want: Array, args: tuple[Array, ...], limit: float) -> None:
    """``label`` begins with the function's name."""
    name = label.replace("(", " ").split()[0]
    assert got.dtype == want.dtype, label
    error = ulps(got, want)
    if want.dtype.kind == "f" and name not in EITHER_ZERO:
        error = np.where((np.signbit(got) != np.signbit(want)) & (want == want), np.inf, error)
    if name in CANCELS:
        with np.errstate(all="ignore"):
            near = np.abs(got - want) < CANCELS[name] * np.finfo(want.dtype).eps
        error = np.where((args[0] < 0) & near, 0.0, error)
    worst = int(np.argmax(error))
    at = tuple(a[worst] for a in args)
    assert error[worst] <= limit, f"{label} at {at}: {got[worst]!r}, not {want[worst]!r}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_ways_agree(dtype: str) -> None:
    """Interpreted, and compiled in vectors or entry by entry, by turns."""
    for way in ("interpreted", *some("ways", ["vectors", "one by one"], number=DTYPES.index(dtype))):
        found = WAYS[way](dtype)
        for name, values in found.items():
            limit = 0 if name in EXACT or way == "interpreted" else APART
            want = eager(dtype)[name]
            assert_close(f"{name} {way}", values, want, arguments(SCALARS[name], dtype), limit)


def test_what_can_be_compiled_is() -> None:
    made, _, names = program("float64")
    left = {name for name, s in zip(names, made.statements, strict=True) if not compiles(s)}
    assert left == {s.name for s in SCALARS.values() if s.loops or s.series}  # written in other functions


# --- oracles ----------------------------------------------------------------------------------------


def _lgamma(m: Any) -> Any:
    import mpmath as mp

    return mp.log(abs(mp.gamma(m))) if abs(m) < 1e5 else mp.loggamma(m).real


def exact_unary() -> dict[str, Callable[[Any], Any]]:
    """Functions of an mpmath number; what is not real, or no number, stands for nan."""
    import mpmath as mp

    trigonometric = "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"
    names = f"sqrt exp expm1 log log1p log10 erf erfc digamma {trigonometric}"
    return {
        **{name: getattr(mp, name) for name in names.split()},
        "exp2": lambda m: mp.mpf(2) ** m,
        "log2": lambda m: mp.log(m) / mp.log(2),
        "reciprocal": lambda m: 1 / m,
        "rsqrt": lambda m: 1 / mp.sqrt(m),
        "deg2rad": lambda m: m * mp.pi / 180,
        "rad2deg": lambda m: m * 180 / mp.pi,
        "square": lambda m: m * m,
        "sigmoid": lambda m: 1 / (1 + mp.exp(-m)),
        "silu": lambda m: m / (1 + mp.exp(-m)),
        "softplus": lambda m: mp.log1p(mp.exp(m)),
        "gelu": lambda m: m * mp.erfc(-m / mp.sqrt(2)) / 2,
        "lgamma": _lgamma,
    }


def exact(function: Callable[[Any], Any], x: float) -> float | None:
    """The double nearest to a function's value; None where mpmath does not say."""
    import mpmath as mp

    with mp.workprec(1400 if abs(x) > 1e10 else 250):
        try:
            value = function(mp.mpf(x))
        except (ValueError, ZeroDivisionError):
            return None
        if isinstance(value, mp.mpc):
            return float(value.real) if value.imag == 0 else math.nan
        return float(value)


#: Of these mpmath takes for ever beyond some size, where they are 0, infinite or as their argument.
GROWS = {"exp", "expm1", "exp2", "sinh", "cosh", "sigmoid", "silu", "softplus", "erf", "erfc", "gelu"}
GROWS |= {"lgamma", "tanh"}


@pytest.mark.parametrize("name", sorted(exact_unary()))
def test_eager_against_mpmath(name: str) -> None:
    x = unary_points(np.dtype("float64"))
    x = x[np.isfinite(x) & (np.abs(x) < (2e3 if name in GROWS else 1e31))]
    want = [exact(exact_unary()[name], v) for v in x.tolist()]
    said = np.array([w is not None for w in want])
    assert said.mean() > 0.8
    with np.errstate(all="ignore"):
        got = getattr(F, name)(iv.asarray(x)).numpy()
        single = getattr(F, name)(iv.asarray(x.astype(np.float32))).numpy()
        double = getattr(F, name)(iv.asarray(x.astype(np.float32).astype(np.float64))).numpy()
    values = np.array([w for w in want if w is not None])
    signless = np.where(values == 0, np.copysign(values, got[said]), values)  # mpmath has one zero
    assert_close(name, got[said], signless, (x[said],), ULPS)
    with np.errstate(all="ignore"):
        assert_close(name, single, double.astype(np.float32), (x.astype(np.float32),), ULPS)


def _wrapped(value: int, dtype: Any) -> int:
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def _shifted(left: bool) -> Callable[[int, int, int], int]:
    return lambda a, b, bits: (a << b if left else a >> b) if 0 <= b < bits else (0 if left or a >= 0 else -1)


#: On Python's integers (the third argument is the number of bits); results are taken modulo 2^bits.
ON_INTEGERS: dict[str, Callable[..., int]] = {
    "add": lambda a, b, _: a + b,
    "subtract": lambda a, b, _: a - b,
    "multiply": lambda a, b, _: a * b,
    "floor_divide": lambda a, b, _: a // b if b else 0,
    "remainder": lambda a, b, _: a % b if b else 0,
    "pow": lambda a, b, _: a**b,
    "maximum": lambda a, b, _: max(a, b),
    "minimum": lambda a, b, _: min(a, b),
    "bitwise_and": lambda a, b, _: a & b,
    "bitwise_or": lambda a, b, _: a | b,
    "bitwise_xor": lambda a, b, _: a ^ b,
    "bitwise_left_shift": _shifted(True),
    "bitwise_right_shift": _shifted(False),
    "negative": lambda a, _: -a,
    "abs": lambda a, _: abs(a),
    "square": lambda a, _: a * a,
    "sign": lambda a, _: (a > 0) - (a < 0),
    "bitwise_invert": lambda a, _: ~a,
    "relu": lambda a, _: max(a, 0),
    "clip": lambda x, lo, hi, _: min(max(x, lo), hi),
}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_against_pythons(dtype: str) -> None:
    d = np.dtype(dtype)
    for name, exact_value in ON_INTEGERS.items():
        args = arguments(SCALARS[name], dtype)
        rows = zip(*(a.tolist() for a in args), strict=True)
        want = [_wrapped(exact_value(*row, 8 * d.itemsize), d) for row in rows]
        assert_close(name, eager(dtype)[name], np.array(want, d), args, 0)


def _floor_divide(a: float, b: float) -> float:
    """Python's, but where an operand is infinite the quotient, as in the array API standard."""
    return a / b if math.isinf(a) or math.isinf(b) else a // b


ON_FLOATS: dict[str, Callable[[float, float], float]] = {
    "floor_divide": _floor_divide,
    "remainder": operator.mod,
    "fmod": math.fmod,
    "pow": math.pow,
    "atan2": math.atan2,
    "hypot": math.hypot,
    "copysign": math.copysign,
    "nextafter": math.nextafter,
}


@pytest.mark.parametrize("name", ON_FLOATS)
def test_two_floats_against_the_c_library(name: str) -> None:
    args = arguments(SCALARS[name], "float64")
    got = eager("float64")[name]
    for a, b, found in zip(*(x.tolist() for x in args), got.tolist(), strict=True):
        try:
            want = ON_FLOATS[name](a, b)
        except (ValueError, ZeroDivisionError, OverflowError):
            continue  # Python raises where IEEE 754 gives nan or inf
        assert ulps(np.array([found]), np.array([want]))[0] <= ULPS, (name, a, b, found, want)


# --- casts and numbers ------------------------------------------------------------------------------


def cast_exactly(v: float, dtype: Any) -> int:
    """Truncated to 32 or 64 bits, the lowest of which stands for all that does not fit; then the low bits."""
    bits = 64 if dtype.itemsize == 8 or dtype == np.uint32 else 32
    if dtype == np.uint64 and v >= 2.0**63:
        return int(v) if v < 2.0**64 else 0
    inside = v == v and abs(v) != math.inf and -(1 << (bits - 1)) <= int(v) < 1 << (bits - 1)
    return _wrapped(int(v) if inside else -(1 << (bits - 1)), dtype)


@pytest.mark.parametrize("source", FLOATS)
def test_casts_to_integers(source: str) -> None:
    edges = [2.0**n + d for n in (7, 8, 15, 16, 31, 32, 52, 63, 64, 70) for d in (-1, -0.5, 0, 0.5, 1, 300)]
    values = np.array([math.nan, math.inf, 0.0, 0.5, 1.7, 300.7, *edges])
    values = np.concatenate([values, -values]).astype(source)
    targets = [np.dtype(k + str(n)) for k in ("int", "uint") for n in (8, 16, 32, 64)]
    X = te.placeholder(values.shape, source, "X")
    made = te.program_of([te.compute(X.shape, lambda i, d=d: X[i].astype(d)) for d in targets], (X,))
    with np.errstate(all="ignore"):
        ways = {
            "eager": [iv.astype(iv.asarray(values), d).numpy() for d in targets],
            "interpreted": interpret.run(made, [values]),
            "compiled": statement_lowering.run(made, [values]),
            "alone": [
                statement_lowering.run(_cast_of_one(source, d), [values[k : k + 1]])[0]
                for d in targets
                for k in (0, 1)
            ],
        }
    for k, d in enumerate(targets):
        want = np.array([cast_exactly(v, d) for v in values.tolist()], d)
        for way in ("eager", "interpreted", "compiled"):
            np.testing.assert_array_equal(ways[way][k], want, err_msg=f"{way} to {d}")
        np.testing.assert_array_equal(np.concatenate(ways["alone"][2 * k : 2 * k + 2]), want[:2])


@functools.cache
def _cast_of_one(source: str, target: Any) -> te.ir.nodes.Program:
    X = te.placeholder((1,), source, "X")
    return te.program_of([te.compute((1,), lambda i: X[i].astype(target))])


NUMBERS = (0, 1, -1, 2, 300, -300, 2**70, 0.5, -0.0, 0.1, 1e300, math.inf, math.nan, True)
BINARY = [n for n in NAMES if SCALARS[n].arity == 2 and not SCIPYS(SCALARS[n])]


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8", "int64"])
def test_python_numbers(dtype: str) -> None:
    """In and out of the range of the other operand: the same results, and errors in the same cases."""
    x = few_points(np.dtype(dtype))
    X = te.placeholder(x.shape, dtype, "X")
    cases: list[tuple[str, Array, te.Compute]] = []
    for name in BINARY:
        for number in NUMBERS:
            for swap in (False, True):
                label = f"{name}({number}, x)" if swap else f"{name}(x, {number})"
                drawn = EXHAUSTIVE or turn(f"{label} {dtype}", 3) == 0
                if not drawn or _differs(name, number, swap, dtype):
                    continue
                function = _with(name, number, swap)
                want = _value_or_error(lambda f=function: f(F, iv.asarray(x)))
                made = _value_or_error(lambda f=function: te.compute(X.shape, lambda i: f(te.F, X[i])))
                assert isinstance(want, type) == isinstance(made, type), label
                if not isinstance(want, type):
                    cases.append((label, want.numpy(), made))
    found = interpret.run(te.program_of([c[2] for c in cases], (X,)), [x])
    for (label, want, _), got in zip(cases, found, strict=True):
        # x**2 and its like are products when eager.
        assert_close(label, got, want, (x,), APART if label.startswith("pow(") else 0)
    # Code is made of a number alike in all functions: those that are quickly compiled will do.
    some = [c for c in cases if c[0].startswith(("maximum(", "divide(", "less(", "bitwise_and("))]
    found = statement_lowering.run(te.program_of([c[2] for c in some], (X,)), [x])
    for (label, want, _), got in zip(some, found, strict=True):
        assert_close(label, got, want, (x,), 0)


def _with(name: str, number: Any, swap: bool) -> Callable[[Any, Any], Any]:
    return lambda space, v: getattr(space, name)(*((number, v) if swap else (v, number)))


def _differs(name: str, number: Any, swap: bool, dtype: str) -> bool:
    """What tensor expressions do differently with numbers.

    A factor 0 is a strong zero and a term 0 is left out: 0 * inf is 0, and -0 + 0 is -0. Integers are not
    divided by a constant 0. NumPy takes no huge integer for a truth value.
    """
    if name in ("multiply", "add", "subtract"):
        return bool(number == 0)
    if name.startswith("logical"):
        return type(number) is int and number > 2**63
    if name == "nextafter":  # promotes here, and is for floats only when eager
        return dtype != "float32"
    if name == "pow":  # whether an integer's exponent is negative is known when it runs
        return isinstance(number, int) and dtype.startswith("int")
    by_zero = not swap and type(number) is int and number == 0 and dtype != "float32"
    return name in ("floor_divide", "remainder") and by_zero


def _value_or_error(function: Callable[[], Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return function()
    except (ArgumentError, DTypeError) as error:
        return type(error)
