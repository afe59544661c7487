"""Compiles one function of `vecmath` on its own: ``apply(name, x)`` at a given width, with or without fma."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from iverson.codegen.emit import llvm_builder
from iverson.codegen.emit.vecmath import FUNCTIONS
from iverson.codegen.execution import object_code
from iverson.codegen.runtime.target import host

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def text(name: str, elem: str, lanes: int, has_fma: bool) -> str:
    """A loop ``out[i] = f(x[i])`` (or ``f(x[i], y[i])``) over whole vectors."""
    b = llvm_builder.Builder(has_fma=has_fma)
    type = llvm_builder.Type(elem, lanes)
    b.br("loop")
    b.start("loop")
    i = b.emit("phi i64 [0, %body], [%next, %LATCH]", llvm_builder.I64, pure=False)
    phi = len(b.lines) - 1

    def item(array: str) -> llvm_builder.Value:
        return b.emit(f"getelementptr {elem}, ptr %{array}, i64 {i.ref}", llvm_builder.PTR)

    arity = 2 if name == "pow" else 1
    args = [b.load(item(a), type, type.bits // 8) for a in "xy"[:arity]]
    b.store(item("out"), FUNCTIONS[name](b, *args), type.bits // 8)
    b.lines.append(f"  %next = add i64 {i.ref}, {lanes}")
    b.lines[phi] = b.lines[phi].replace("%LATCH", f"%{b.block}")
    b.br_if(b.emit("icmp slt i64 %next, %n", llvm_builder.I1), "loop", "done")
    b.start("done")
    b.do("ret void")
    head = "i64 %n, ptr %x, ptr %y, ptr %out"
    return llvm_builder.module_text(b, [llvm_builder.function_text(b, "apply", None, head)], "nounwind")


@functools.cache
def _library(name: str, elem: str, lanes: int, has_fma: bool) -> object_code.Library:
    code = object_code.to_object(text(name, elem, lanes, has_fma), host())
    return object_code.load(code, ("apply",), _ENTRY)


def apply(
    name: str,
    x: np.ndarray[Any, Any],
    y: np.ndarray[Any, Any] | None = None,
    *,
    lanes: int = 8,
    has_fma: bool = True,
) -> np.ndarray[Any, Any]:
    """``name(x)`` or ``name(x, y)``, entry by entry."""
    size = -(-max(x.size, 1) // lanes) * lanes

    def padded(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.concatenate([a, np.ones(size - a.size, a.dtype)])

    first, out = padded(x), np.empty(size, x.dtype)
    second = first if y is None else padded(y)
    elem = "float" if x.dtype == np.float32 else "double"
    _library(name, elem, lanes, has_fma).functions["apply"](
        size, first.ctypes.data, second.ctypes.data, out.ctypes.data
    )
    return out[: x.size]
