"""Calls of NumPy's and SciPy's universal functions from machine code.

A universal function is an object of a documented C structure (NumPy's C API, ``PyUFuncObject``): for each
signature it holds the address of a loop over strided arrays, which needs no GIL, and of that loop's data.
Machine code calls these on the lanes of a vector, so that its results are those of the function, bit for bit.
It names them by symbols, to which `address` gives addresses when code is loaded: code on disk holds none.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from iverson.codegen.emit.llvm_builder import F32, F64, I64, PTR, Builder, Pair, Type, Value

#: Where functions are looked up, by the name that symbols have for it.
_MODULES = {"special": "scipy.special._ufuncs", "numpy": "numpy"}
#: The scalar type of each letter that signatures are made of.
_TYPES = {"f": F32, "d": F64, "l": I64, "F": Type("complex64"), "D": Type("complex128")}
_SYMBOL = re.compile(rb"iverson\.(loop|data)\.(\w+)\.(\w+)\.(\w+)\.(\w)\b")


class _Structure(ctypes.Structure):
    """What follows an object's head."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("nin", "nout", "nargs", "identity")),
        *((name, ctypes.POINTER(ctypes.c_void_p)) for name in ("functions", "data")),
        ("ntypes", ctypes.c_int),
    )


def call(b: Builder, module: str, name: str, signature: str, args: Sequence[Value]) -> Value:
    """``name(*args)`` of a module's universal function by its loop of a signature (``"dd->d"``), all lanes at
    once; a vector of the signature's result."""
    given, made = signature.split("->")
    lanes = args[0].type.lanes
    types = [*(a.type for a in args), _TYPES[made].wide(lanes)]
    assert [t.elem for t in types] == [_TYPES[c].elem for c in given + made], f"{name} of {types}"
    slots = [b.slot(_in_memory(t)) for t in types]
    for slot, a in zip(slots, args, strict=False):
        b.put(slot, b.interleaved(a) if isinstance(a, Pair) else a)
    table = b.slot(Type("ptr", len(slots)))
    for k, slot in enumerate(slots):
        at = b.emit(f"getelementptr ptr, ptr {table.ref}, i64 {k}", PTR)
        b.store(at, slot, 8)
    counts = _numbers(b, [lanes])
    steps = _numbers(b, [t.bits // 8 for t in types])
    loop, data = (f"iverson.{kind}.{module}.{name}.{given}.{made}" for kind in ("loop", "data"))
    b.declarations[loop] = f"declare void @{loop}(ptr, ptr, ptr, ptr)"
    b.declarations[data] = f"@{data} = external global i8"
    b.do(f"call void @{loop}(ptr {table.ref}, ptr {counts}, ptr {steps}, ptr @{data})")
    found = b.get(slots[-1], _in_memory(types[-1]))
    return b.parted(found) if types[-1].is_complex else found


def _in_memory(type: Type) -> Type:
    """What lies in memory for lanes of a type."""
    return type.part.wide(2 * type.lanes) if type.is_complex else type


def _numbers(b: Builder, values: Sequence[int]) -> str:
    """The address of integers in the module."""
    name = f"@iverson_integers_{'_'.join(map(str, values))}"
    items = ", ".join(f"i64 {n}" for n in values)
    b.functions.setdefault(
        name, f"{name} = private unnamed_addr constant [{len(values)} x i64] [{items}], align 8"
    )
    return name


def symbols(code: bytes) -> set[str]:
    """Those that an object uses."""
    return {found[0].decode() for found in _SYMBOL.finditer(code)}


@functools.cache
def address(symbol: str) -> int | None:
    """Of what a symbol names, if it is one of these."""
    found = _SYMBOL.fullmatch(symbol.encode())
    if found is None:
        return None
    kind, module, name, given, made = (part.decode() for part in found.groups())
    function: Any = getattr(importlib.import_module(_MODULES[module]), name)
    assert isinstance(function, np.ufunc)
    held = _Structure.from_address(id(function) + object.__basicsize__)
    k = function.types.index(f"{given}->{made}")
    loop: int | None = held.functions[k]
    return loop if kind == "loop" else held.data[k] or loop


__all__ = ["address", "call", "symbols"]
