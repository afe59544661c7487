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
_MODULES = {
    "special": "scipy.special._ufuncs",
    "numpy": "numpy",
    "linalg": "numpy.linalg._umath_linalg",
    "fft": "numpy.fft._pocketfft_umath",
}
#: The scalar type of each letter that signatures are made of.
_TYPES = {"f": F32, "d": F64, "l": I64, "F": Type("complex64"), "D": Type("complex128")}
_SYMBOL = re.compile(rb"iverson\.(loop|data)\.(\w+)\.(\w+)\.(\w+)\.(\w+)\b")


class _Structure(ctypes.Structure):
    """Fields of a NumPy universal function after the head of the Python object."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("nin", "nout", "nargs", "identity")),
        *((name, ctypes.POINTER(ctypes.c_void_p)) for name in ("functions", "data")),
        ("ntypes", ctypes.c_int),
    )


def call(b: Builder, module: str, name: str, signature: str, args: Sequence[Value]) -> Value:
    """Emit a call of a universal function on all lanes at once, and return its result.

    module : a key of `_MODULES`.
    signature : that of the loop to call, such as ``"dd->d"``.
    """
    operand_letters, result_letter = signature.split("->")
    lanes = args[0].type.lanes
    types = [*(a.type for a in args), _TYPES[result_letter].wide(lanes)]
    assert [t.elem for t in types] == [_TYPES[c].elem for c in operand_letters + result_letter], (
        f"{name} of {types}"
    )
    slots = [b.slot(_in_memory(t)) for t in types]
    for slot, a in zip(slots, args, strict=False):
        b.put(slot, b.interleaved(a) if isinstance(a, Pair) else a)
    table = b.slot(Type("ptr", len(slots)))
    for k, slot in enumerate(slots):
        at = b.emit(f"getelementptr ptr, ptr {table.ref}, i64 {k}", PTR)
        b.store(at, slot, 8)
    counts = numbers(b, [lanes])
    steps = numbers(b, [t.bits // 8 for t in types])
    call_loop(b, module, name, signature, table, counts, steps)
    result = b.get(slots[-1], _in_memory(types[-1]))
    return b.parted(result) if types[-1].is_complex else result


def call_loop(
    b: Builder, module: str, name: str, signature: str, table: Value, counts: str, steps: str
) -> None:
    """Emit the call of a loop of a universal function.

    table : address of those of its operands. counts, steps : symbols of its sizes and strides (`numbers`).
    """
    letters = signature.replace("->", ".")
    loop, data = (f"iverson.{kind}.{module}.{name}.{letters}" for kind in ("loop", "data"))
    b.declarations[loop] = f"declare void @{loop}(ptr, ptr, ptr, ptr)"
    b.declarations[data] = f"@{data} = external global i8"
    b.do(f"call void @{loop}(ptr {table.ref}, ptr {counts}, ptr {steps}, ptr @{data})")


def function_of(module: str, name: str) -> np.ufunc:
    """The universal function that symbols name."""
    function: Any = getattr(importlib.import_module(_MODULES[module]), name)
    assert isinstance(function, np.ufunc)
    return function


def _in_memory(type: Type) -> Type:
    """Type in memory of lanes of a type: a complex lane takes two real ones."""
    return type.part.wide(2 * type.lanes) if type.is_complex else type


def numbers(b: Builder, values: Sequence[int]) -> str:
    """Symbol of a constant array of these integers, which the module gets unless it has it."""
    name = f"@iverson_integers_{'_'.join(str(n).replace('-', 'm') for n in values)}"
    items = ", ".join(f"i64 {n}" for n in values)
    b.functions.setdefault(
        name, f"{name} = private unnamed_addr constant [{len(values)} x i64] [{items}], align 8"
    )
    return name


def symbols(code: bytes) -> set[str]:
    """Symbols of universal functions that object code uses."""
    return {occurrence[0].decode() for occurrence in _SYMBOL.finditer(code)}


@functools.cache
def address(symbol: str) -> int | None:
    """Address of the loop or the data of a universal function that a symbol names; None for other symbols."""
    parts = _SYMBOL.fullmatch(symbol.encode())
    if parts is None:
        return None
    kind, module, name, operand_letters, result_letter = (part.decode() for part in parts.groups())
    function = function_of(module, name)
    structure = _Structure.from_address(id(function) + object.__basicsize__)
    k = function.types.index(f"{operand_letters}->{result_letter}")
    loop: int | None = structure.functions[k]
    return loop if kind == "loop" else (structure.data and structure.data[k]) or loop


__all__ = ["address", "call", "call_loop", "function_of", "numbers", "symbols"]
