"""Conversions to and from float16 and bfloat16 in machine code: bit for bit those of NumPy and ml_dtypes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from iverson.codegen.launches import compile_kernel
from iverson.codegen.nests import interpret, nodes
from iverson.codegen.runtime.target import host
from iverson.core import dtypes
from iverson.core.scalars import converted
from iverson.expr.nodes import Cast, Const

pytest.importorskip("ml_dtypes")

HALVES = ("float16", "bfloat16")
OTHERS = ("float32", "float64", "int64", "bool")
#: With the processor's own instructions, and without.
TARGETS = {"own": host(), "integers": replace(host(), has_half=False)}


@cache
def conversion(source: Any, target: Any) -> nodes.Kernel:
    """``out[p] = astype(x[p])``, in vectors with a rest."""
    x, out = nodes.Buffer("x", source, ("z",), "in"), nodes.Buffer("out", target, ("z",), "out")
    p = nodes.Var("p")
    body = nodes.Store(out, (p,), Cast(nodes.Load(x, (p,)), target))
    loop = nodes.Loop("p", Const(0), nodes.Size("z"), (body,), mark="vector", factor=2)
    return nodes.Kernel(f"from_{source}_to_{target}", (x, out), (loop,), ("z",))


def compiled(x: Any, target: Any, machine: Any) -> Any:
    out = np.empty(x.size, target)
    compile_kernel(conversion(x.dtype, out.dtype), target=machine).run((x, out), {"z": x.size})
    return out


def patterns(dtype: Any) -> Any:
    """Numbers of every bit pattern of 16 bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def hard_numbers(dtype: Any) -> Any:
    """Numbers to be rounded: those of half precision, halfway between two, and a little off; random bits."""
    if dtype.kind in "biu":
        drawn = np.random.default_rng(0).integers(-300, 70000, 5000)
        return np.concatenate([drawn, np.arange(-20, 20)]).astype(dtype)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        exact = np.concatenate([patterns(dtypes.as_dtype(d)).astype(dtype) for d in HALVES])
        halfway = (exact[:-1] + exact[1:]) / 2
        near = [np.nextafter(halfway, dtype.type(to)) for to in (-np.inf, np.inf)]
        bits = rng.integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32).astype(dtype)
        scaled = rng.standard_normal(1 << 16) * 10.0 ** rng.uniform(-9, 6, 1 << 16)
        return np.concatenate([exact, halfway, *near, bits, scaled.astype(dtype)])


def same_bits(found: Any, expected: Any, *, payload: bool = True) -> None:
    """Equal bits; of nan, at least the sign."""
    nan = np.isnan(expected.astype("float32")) if dtypes.is_inexact(expected.dtype) else np.zeros(1, bool)
    bits = f"u{expected.dtype.itemsize}"
    f, e = found.view(bits), expected.view(bits)
    np.testing.assert_array_equal(nan, np.isnan(found.astype("float32")) if nan.any() else nan)
    differ = (f != e) & ~nan
    assert not differ.any(), (found[differ][:5], expected[differ][:5])
    top = 8 * expected.dtype.itemsize - 1
    if nan.any():
        np.testing.assert_array_equal(f[nan] >> top, e[nan] >> top)
        if payload:
            np.testing.assert_array_equal(f[nan], e[nan])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("half", HALVES)
def test_all_numbers_of_half_precision_are_widened_as_by_numpy(half, machine):
    x = patterns(dtypes.as_dtype(half))
    for name in OTHERS:
        target = np.dtype(name)
        found = compiled(x, target, TARGETS[machine])
        expected = converted(x, target)
        # The instruction makes signalling nans quiet; so do ml_dtypes and double.
        same_bits(found, expected, payload=machine == "integers" and name == "float32")
    back = compiled(compiled(x, np.float32, TARGETS[machine]), x.dtype, TARGETS[machine])
    same_bits(back, x, payload=False)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("half", HALVES)
def test_numbers_are_rounded_to_half_precision_as_by_numpy(half, machine):
    target = dtypes.as_dtype(half)
    for name in OTHERS:
        x = hard_numbers(np.dtype(name))
        payload = name == "float32" and (machine == "integers" or half == "bfloat16")
        same_bits(compiled(x, target, TARGETS[machine]), converted(x, target), payload=payload)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("half", HALVES)
def test_one_half_becomes_the_other_and_the_interpreter_agrees(half):
    x = patterns(dtypes.as_dtype(half))
    other = dtypes.as_dtype(next(h for h in HALVES if h != half))
    same_bits(compiled(x, other, host()), x.astype(np.float32).astype(other), payload=False)
    few = x[::997].copy()
    for target in (other, np.dtype("float32"), np.dtype("int8")):
        out = np.empty(few.size, target)
        interpret.run(conversion(few.dtype, target), {"x": few, "out": out})
        same_bits(compiled(few, target, host()), out, payload=False)
