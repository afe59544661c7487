"""The dtypes Iverson has, and how they promote: the array API standard's, held as NumPy dtypes.

Python scalars are weak: they take the dtype of the array they meet, within its kind. Integer arrays
meeting floating ones, which the standard leaves open, follow NumPy.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from iverson.core.errors import ArgumentError, DTypeError, described

bool = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float32, float64 = np.dtype("float32"), np.dtype("float64")
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
REAL_FLOATING = (float32, float64)
COMPLEX_FLOATING = (complex64, complex128)
ALL = (bool, *SIGNED, *UNSIGNED, *REAL_FLOATING, *COMPLEX_FLOATING)

default_float = float64
default_complex = complex128
default_int = int64

_KINDS = {
    "bool": (bool,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": REAL_FLOATING,
    "complex floating": COMPLEX_FLOATING,
    "numeric": SIGNED + UNSIGNED + REAL_FLOATING + COMPLEX_FLOATING,
}

_TO_FLOAT: dict[str, np.dtype[Any]] = {"b": default_float, "i": default_float, "u": default_float}
_REAL_OF: dict[Any, np.dtype[Any]] = {complex64: float32, complex128: float64}
_COMPLEX_OF: dict[Any, np.dtype[Any]] = {float32: complex64, float64: complex128}


def as_dtype(dtype: Any, operation: str = "dtype") -> np.dtype[Any]:
    """The dtype a user named, checked to be one Iverson has.

    Raises DTypeError for anything else (float16, object, strings, ...).

    >>> as_dtype("float32")
    dtype('float32')
    """
    try:
        if isinstance(getattr(dtype, "shape", None), tuple) and not isinstance(dtype, np.dtype):
            raise TypeError("an array has a dtype, and is none")  # NumPy takes any object with a dtype for it
        found: np.dtype[Any] = np.dtype(dtype)
    except Exception as error:  # NumPy reads strings as formats: TypeError, ValueError, SyntaxError, ...
        raise DTypeError(
            operation,
            "dtype",
            got=described(dtype),
            expected="a dtype",
            remedy="use e.g. iverson.float64",
        ) from error
    if found not in ALL:
        raise DTypeError(
            operation,
            "dtype",
            got=str(found),
            expected="bool, an integer, float32/64 or complex64/128",
            remedy="convert the data first, e.g. with numpy.asarray(x, dtype='float32')",
        )
    return found


def is_inexact(dtype: np.dtype[Any]) -> Any:
    """Whether values of this dtype can carry gradients: real or complex floating."""
    return dtype.kind in "fc"


def to_inexact(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype itself if floating, the default float if integer or bool."""
    return _TO_FLOAT.get(dtype.kind, dtype)


def real_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a complex dtype's parts; other dtypes are returned as they are."""
    return _REAL_OF.get(dtype, dtype)


def complex_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex dtype whose parts have this real floating dtype."""
    return _COMPLEX_OF.get(dtype, dtype)


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether ``dtype`` is of ``kind``: a dtype, a kind's name in the standard, or a tuple of them.

    Raises ArgumentError for a kind the standard does not name.

    >>> isdtype(float32, "real floating"), isdtype(int8, ("bool", "integral"))
    (True, True)
    """
    dtype = as_dtype(dtype, "isdtype")
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return dtype in _KINDS[kind]
    if isinstance(kind, str) and kind not in np.sctypeDict:
        raise ArgumentError("isdtype", "kind", got=repr(kind), expected=f"a dtype or one of {sorted(_KINDS)}")
    return builtins.bool(dtype == as_dtype(kind, "isdtype"))


def named(x: Any) -> Any:
    """The dtype of an array, or what names a dtype itself (NumPy's scalar types have a ``dtype`` too)."""
    return x if isinstance(x, type) else getattr(x, "dtype", x)


def result_type(*operands: Any) -> np.dtype[Any]:
    """The dtype that arrays, dtypes and (weak) Python scalars promote to together.

    >>> result_type(float32, 2.0), result_type(int8, uint8)
    (dtype('float32'), dtype('int16'))
    """
    items = list(map(named, operands))
    first = items[0] if items else None
    if isinstance(first, np.dtype) and first in ALL and items.count(first) == len(items):
        return first
    try:
        return as_dtype(np.result_type(*items), "result_type")
    except (TypeError, ValueError) as error:
        if isinstance(error, DTypeError):
            raise
        raise DTypeError(
            "result_type", got=", ".join(map(repr, items)) or "nothing", expected="arrays, dtypes or scalars"
        ) from error


def can_cast(source: Any, target: Any) -> builtins.bool:
    """Whether ``source`` promotes to ``target`` without loss of kind or range.

    >>> can_cast(int8, int16), can_cast(float64, float32)
    (True, False)
    """
    return np.can_cast(as_dtype(named(source), "can_cast"), as_dtype(target, "can_cast"))


__all__ = [
    "bool",
    "complex64",
    "complex128",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
