"""Functions of NumPy and SciPy that machine code calls, by symbols to which `address` gives addresses.

SciPy hands out pointers to LAPACK and BLAS for this purpose (`scipy.linalg.cython_lapack`, `cython_blas`).
NumPy's C API, whose tables are stable within a major version, has the sorts and extrema of each dtype and the
floating-point status by which its linear algebra tells that it failed. All of them run without the GIL.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import re
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from iverson.core.protocols import DType

_SYMBOL = re.compile(rb"iverson\.(lapack|blas|sort|argsort|extremum|status)\.(\w+)")
#: Whether the offsets below are those of NumPy's tables: its ABI fixes them for version 2.
HAS_TABLES = np.__version__.startswith("2.")
#: Positions in NumPy's tables: functions of a descriptor; those that clear and read the status.
_FUNCTIONS_OF, _STATUS = 365, {"clear": 27, "read": 28}
#: Words before the sorts in ``PyArray_ArrFuncs``, and the kinds of sorts in their order there.
_BEFORE_SORTS, SORTS = 33, ("quicksort", "heapsort", "stable")
_EXTREMA = {"argmax": 26, "argmin": 46}
#: Dtypes of which NumPy's functions are used for extrema.
NUMBERS = ("float32", "float64", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
#: The bit of NumPy's status that says that a routine failed.
INVALID = 8

_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))


def lapack(name: str) -> str:
    """Symbol of a routine of LAPACK, such as "dgetrf"."""
    return f"iverson.lapack.{name}"


def blas(name: str) -> str:
    """Symbol of a routine of BLAS, such as "dtrsm"."""
    return f"iverson.blas.{name}"


def sort(dtype: DType, kind: str, *, order: bool) -> str:
    """Symbol of NumPy's sort of a dtype, in place; with ``order``, of its sort of positions."""
    return f"iverson.{'argsort' if order else 'sort'}.{kind}_{dtype.name}"


def extremum(dtype: DType, name: str) -> str:
    """Symbol of NumPy's "argmax" or "argmin" of a dtype."""
    return f"iverson.extremum.{name}_{dtype.name}"


CLEAR, READ = "iverson.status.clear", "iverson.status.read"


def symbols(code: bytes) -> set[str]:
    """Symbols of these functions that object code uses."""
    return {occurrence[0].decode() for occurrence in _SYMBOL.finditer(code)}


@functools.cache
def address(symbol: str) -> int | None:
    """Address of the function that a symbol names; None for other symbols."""
    parts = _SYMBOL.fullmatch(symbol.encode())
    if parts is None:
        return None
    library, name = (part.decode() for part in parts.groups())
    if library in ("lapack", "blas"):
        return scipy_function(f"cython_{library}", name)
    if library == "status":
        return int(_table("_UFUNC_API")[_STATUS[name]])
    kind, dtype = name.split("_")
    if library == "extremum":
        at = _EXTREMA[kind]
    else:
        at = _BEFORE_SORTS + SORTS.index(kind) + len(SORTS) * (library == "argsort")
    get_functions = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(_table("_ARRAY_API")[_FUNCTIONS_OF])
    function: int | None = (ctypes.c_void_p * (at + 1)).from_address(get_functions(np.dtype(dtype)))[at]
    return function


def _table(name: str) -> Any:
    """One of the tables of NumPy's C API, as an array of addresses."""
    capsule = getattr(importlib.import_module("numpy._core._multiarray_umath"), name)
    return (ctypes.c_void_p * (_FUNCTIONS_OF + 1)).from_address(_pointer_of(capsule, _name_of(capsule)))


def scipy_function(module: str, name: str) -> int:
    """Address of a routine that a module of `scipy.linalg` hands out."""
    capsule = scipy_module(module).__pyx_capi__[name]
    return int(_pointer_of(capsule, _name_of(capsule)))


@functools.cache
def scipy_module(name: str) -> Any:
    """Module `name` of `scipy.linalg`, loaded from its file.

    So `scipy.linalg`, which takes 0.3 s, is not imported, unless the module has no file of its own.
    """
    package = find_spec("scipy")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("iverson needs SciPy for its BLAS and LAPACK")
    folder, full_name = Path(package.origin).parent / "linalg", f"scipy.linalg.{name}"
    file = next((f for x in EXTENSION_SUFFIXES if (f := folder / f"{name}{x}").is_file()), None)
    spec = None if file is None else spec_from_file_location(full_name, file)
    if spec is None or spec.loader is None:
        return importlib.import_module(full_name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


__all__ = [
    "CLEAR",
    "HAS_TABLES",
    "INVALID",
    "NUMBERS",
    "READ",
    "SORTS",
    "address",
    "blas",
    "extremum",
    "lapack",
    "scipy_function",
    "scipy_module",
    "sort",
    "symbols",
]
