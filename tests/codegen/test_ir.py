"""The builder of LLVM's IR: what it does not write, as it is a number or there already."""

from __future__ import annotations

import operator
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iverson import te
from iverson.codegen.emit.llvm_builder import I1, I64, PTR, Builder, Type, Value
from iverson.codegen.launches import compile_kernel
from iverson.te.lowering.lowered_program import Run
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import paired, some
from tests.te.corpus import KERNELS

NAMES = ("add", "sub", "mul", "and", "or", "xor")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def _applied(name: str, a: Value, c: Value) -> Value:
    symbols = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
    symbols |= {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
    return symbols[name](a, c)


@given(name=st.sampled_from(NAMES), x=st.integers(-(2**63), 2**63 - 1), y=st.integers(-(2**63), 2**63 - 1))
def test_numbers_wrap_as_numpy_s(name: str, x: int, y: int) -> None:
    b = Builder()
    found = _applied(name, b.const(x, I64), b.const(y, I64))
    function = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}.get(name, name)
    function = {"sub": "subtract", "mul": "multiply"}.get(function, function)
    with np.errstate(over="ignore"):
        expected = int(getattr(np, function)(np.int64(x), np.int64(y)))
    assert found.ref == str(expected)
    assert b.lines == []


@pytest.mark.parametrize("how", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("type", ["int32", "uint32"])
def test_numbers_are_compared_as_numpy_s(how: str, type: str) -> None:
    names = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"}
    names |= {"gt": "greater", "ge": "greater_equal"}
    b = Builder()
    numbers = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], "uint32").view(type)
    for x in numbers:
        for y in numbers:
            values = (b.const(int(v), Type("i32", 4)) for v in (x, y))
            found = next(values).compare(how, next(values), unsigned=type == "uint32")
            assert found.const == bool(getattr(np, names[how])(x, y))
    assert b.lines == []


def _floats(width: int) -> st.SearchStrategy[float]:
    return st.floats(width=width)  # type: ignore[arg-type]


@given(data=st.data(), name=st.sampled_from(NAMES[:3]), width=st.sampled_from([32, 64]))
def test_floats_are_rounded_and_compared_as_numpy_s(data: st.DataObject, name: str, width: int) -> None:
    x, y = data.draw(_floats(width)), data.draw(_floats(width))
    b, type = Builder(), Type("float" if width == 32 else "double")
    assert b.const(1e300, type).compare("gt", b.const(3e38, type)).const  # inf, or a larger number
    a, c = np.dtype(f"float{width}").type((x, y))
    found = _applied(name, b.const(x, type), b.const(y, type))
    with np.errstate(all="ignore"):
        expected = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name](a, c)
    np.testing.assert_equal(np.float64(found.const), np.float64(expected))
    for how, compared in (("eq", a == c), ("ne", a != c), ("lt", a < c), ("le", a <= c), ("gt", a > c)):
        assert b.const(x, type).compare(how, b.const(y, type)).const == bool(compared)
    assert b.intrinsic("fabs", b.const(-1.5, type)).const == 1.5
    assert b.lines == []


@given(x=st.integers(-(2**63), 2**63 - 1), width=st.sampled_from([32, 64]))
def test_integers_become_floats_as_numpy_s(x: int, width: int) -> None:
    b = Builder()
    found = b.cast("sitofp", b.const(x, I64), Type("float" if width == 32 else "double"))
    assert found.const is None or Builder().const(found.const, found.type).ref == found.ref
    if found.const is not None:
        assert np.dtype(f"float{width}").type(found.const) == np.array(x).astype(f"float{width}")


@pytest.mark.parametrize(
    "name", some("known", ["bicubic_resize", "conv2d", "max_pool", "bilinear_resize", "softmax"], 2)
)
def test_nothing_is_written_that_is_known(name: str) -> None:
    """No branch on a number, no sum or product or comparison of two."""
    given_, outputs, _ = KERNELS[name].built()
    heads = [te.placeholder(t.shape, t.dtype, f"head{k}") for k, t in enumerate(outputs)]
    wanted = [t for t in given_ if t.dtype.kind == "f"]
    made = lower(te.eliminate(te.program_of([*outputs, *te.differentiate(list(outputs), wanted, heads)])))
    number = r"(?:-?\d+|0x[0-9A-F]{16}|true|false)"
    sums = rf"= f?(?:add|sub|mul) (?:contract )?\S+ {number}, {number}$"
    known = re.compile(rf"br i1 {number},|{sums}|fcmp \w+ \S+ {number}, {number}$")
    for step in made.steps:
        if isinstance(step, Run):
            lines = compile_kernel(step.kernel).typical.text.splitlines()
            assert [x for x in lines if known.search(x)] == []


def test_operands_are_results() -> None:
    b = Builder()
    x, yes, p = Value(b, "%x", I64), Value(b, "%y", I1), Value(b, "%p", PTR)
    zero, one = b.const(0, I64), b.const(1, I64)
    for same in (x + 0, zero + x, x - 0, x * 1, one * x, x & -1, x | 0, x ^ 0, x << 0):
        assert same is x
    for nothing in (x * 0, zero * x, x & 0):
        assert nothing.const == 0
    assert (yes & True) is yes
    assert (yes & False).const is False
    assert b.select(b.const(True, I1), x, zero) is x
    assert b.element(p, I64, 0) is p
    assert b.lines == []
    assert (zero - x).const is None
    assert (yes ^ True).const is None
    assert len(b.lines) == 2


@pytest.mark.parametrize(
    ("divisor", "dtype"), paired([-128, -3, -1, 1, 2, 3, 7, 8, 64, 100, 127], INTEGERS, 3)
)
def test_integers_divided_by_a_number(dtype: str, divisor: int) -> None:
    """By powers of two these are shifts; the oracle is NumPy."""
    info = np.iinfo(dtype)
    if divisor < info.min:
        return
    near = [info.min, info.min + 1, info.max - 1, info.max, *range(max(info.min, -9), 10)]
    data = np.array(near, dtype)
    x = te.placeholder(data.shape, dtype, "x")
    made = [te.compute(x.shape, lambda i, f=f: f(x[i], divisor)) for f in (te.floor_divide, te.remainder)]
    found = lower(te.eliminate(te.program_of(made)))(data)
    with np.errstate(all="ignore"):
        expected = [f(data, np.asarray(divisor, dtype)) for f in (np.floor_divide, np.remainder)]
    for mine, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, right)


def test_a_division_by_a_power_of_two_is_an_instruction() -> None:
    x = te.placeholder((64,), "int64", "x")
    for f, expected in ((te.floor_divide, "ashr"), (te.remainder, "and")):
        T = te.compute((64,), lambda i, f=f: f(x[i], 8))
        (run,) = lower(te.eliminate(te.program_of([T]))).steps
        lines = compile_kernel(run.kernel).typical.text.split("\n")
        assert sum(f" = {expected} <" in line for line in lines) > 0
        assert not any(" sdiv " in line or " select " in line for line in lines)
