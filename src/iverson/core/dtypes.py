"""Dtypes and their promotion: those of the array API standard, as NumPy dtypes, and two of half precision.

Python scalars are weak: they take the dtype of the array they meet, within its kind. Integer arrays
meeting floating ones, which the standard leaves open, follow NumPy.

float16 and bfloat16 are dtypes of storage: computation with them is in float32
(`iverson.kernels.kernel_registry`). bfloat16 comes from the package ml_dtypes, an optional one, imported when
bfloat16 is first asked for. NumPy knows little of it: its ``kind`` is "V", for which `kind_of` says "f", and
NumPy's own promotion has no rule for it, for which there is `result_type`.
"""

from __future__ import annotations

import builtins
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from iverson.core.errors import ArgumentError, DTypeError, NameMissingError, described
from iverson.core.protocols import DType, Shaped

bool = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = np.dtype("float16"), np.dtype("float32"), np.dtype("float64")
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
REAL_FLOATING = (float16, float32, float64)
COMPLEX_FLOATING = (complex64, complex128)
#: All but bfloat16, which is not there before it is asked for (`is_known`).
ALL = (bool, *SIGNED, *UNSIGNED, *REAL_FLOATING, *COMPLEX_FLOATING)

#: Those that the array API standard names.
STANDARD = tuple(d for d in ALL if d != float16)

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

_TO_FLOAT: dict[str, DType] = {"b": default_float, "i": default_float, "u": default_float}
_REAL_OF: dict[Any, DType] = {complex64: float32, complex128: float64}
_COMPLEX_OF: dict[Any, DType] = {float16: complex64, float32: complex64, float64: complex128}

#: What errors say of dtypes that Iverson does not have.
EXPECTED = "bool, an integer, float16/32/64, bfloat16 or complex64/128"
#: NumPy's kinds of dtypes that carry gradients. "V" is bfloat16's: no other void dtype is in a tensor.
INEXACT = "fcV"
_BFLOAT16 = "bfloat16"

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    bfloat16: DType


def as_dtype(dtype: DTypeLike, operation: str = "dtype") -> DType:
    """The dtype a user named, checked to be one Iverson has.

    Raises DTypeError for anything else (object, strings, ...).

    >>> as_dtype("float32")
    dtype('float32')
    """
    if isinstance(dtype, str) and dtype == _BFLOAT16:
        return load_bfloat16()
    try:
        if isinstance(getattr(dtype, "shape", None), tuple) and not isinstance(dtype, np.dtype):
            raise TypeError("an array has a dtype, and is none")  # NumPy takes any object with a dtype for it
        result: DType = np.dtype(dtype)
    except Exception as error:  # NumPy reads strings as formats: TypeError, ValueError, SyntaxError, ...
        raise DTypeError(
            operation,
            "dtype",
            got=described(dtype),
            expected="a dtype",
            remedy="use e.g. iverson.float64",
        ) from error
    if not is_known(result):
        raise DTypeError(
            operation,
            "dtype",
            got=str(result),
            expected=EXPECTED,
            remedy="convert the data first, e.g. with numpy.asarray(x, dtype='float32')",
        )
    return result


def load_bfloat16() -> DType:
    """The dtype bfloat16. Raises NameMissingError where the package that has it is not installed."""
    try:
        package = import_module("ml_dtypes")
    except ImportError:
        raise NameMissingError(
            _BFLOAT16,
            got="no package ml_dtypes",
            expected="that package, which has the dtype",
            remedy="install it, e.g. with pip install 'iverson[bfloat16]', or use iverson.float16",
        ) from None
    dtype: DType = np.dtype(package.bfloat16)
    return dtype


def is_known(dtype: DType) -> builtins.bool:
    """True if Iverson has this dtype."""
    return dtype in ALL or is_bfloat16(dtype)


def is_compiled(dtype: DType) -> builtins.bool:
    """True if compiled loops can have values of this dtype."""
    return kind_of(dtype) in "biufc"


def is_bfloat16(dtype: DType) -> builtins.bool:
    """True if a dtype is bfloat16, which exists only if its package is loaded."""
    char: str = dtype.char
    return char == "E" and dtype.name == _BFLOAT16


def is_half(dtype: DType) -> builtins.bool:
    """True if a dtype is float16 or bfloat16: a dtype of storage, whose values are computed in float32."""
    return dtype.char in "eE"


def widened(dtype: DType) -> DType:
    """The dtype in which values of a dtype are computed with: float32 for half precision, else itself.

    >>> widened(float16), widened(float64)
    (dtype('float32'), dtype('float64'))
    """
    return float32 if dtype.char in "eE" else dtype


def kind_of(dtype: DType) -> str:
    """The kind of a dtype, one of "b", "i", "u", "f" and "c"."""
    return "f" if dtype.kind == "V" else dtype.kind


def is_inexact(dtype: DType) -> builtins.bool:
    """True if values of this dtype can carry gradients: real or complex floating."""
    return dtype.kind in INEXACT


def is_floating(dtype: DType) -> builtins.bool:
    """True if a dtype is real floating."""
    return dtype.kind in "fV"


def to_inexact(dtype: DType) -> DType:
    """The dtype itself if real or complex floating, the default float if integer or bool."""
    return _TO_FLOAT.get(dtype.kind, dtype)


def real_of(dtype: DType) -> DType:
    """The dtype of a complex dtype's parts; other dtypes are returned as they are."""
    return _REAL_OF.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """The complex dtype whose parts have this real floating dtype; of half precision, complex64."""
    return _COMPLEX_OF.get(widened(dtype), dtype)


def finfo(dtype: DType) -> Any:
    """The limits of a floating dtype, as `numpy.finfo` has them."""
    return import_module("ml_dtypes").finfo(dtype) if is_bfloat16(dtype) else np.finfo(dtype)


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> builtins.bool:
    """True if ``dtype`` is of ``kind``: a dtype, a kind's name in the standard, or a tuple of them.

    Raises ArgumentError for a kind the standard does not name.

    >>> isdtype(float32, "real floating"), isdtype(int8, ("bool", "integral"))
    (True, True)
    """
    dtype = as_dtype(dtype, "isdtype")
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return dtype in _KINDS[kind] or (is_bfloat16(dtype) and float16 in _KINDS[kind])
    if isinstance(kind, str) and kind not in np.sctypeDict and kind != _BFLOAT16:
        raise ArgumentError("isdtype", "kind", got=repr(kind), expected=f"a dtype or one of {sorted(_KINDS)}")
    return builtins.bool(dtype == as_dtype(kind, "isdtype"))


def named(x: Shaped | DTypeLike | complex) -> Any:
    """The dtype of an array; anything else is returned unchanged.

    A type is returned itself, because NumPy's scalar types have a ``dtype`` too.
    """
    return x if isinstance(x, type) else getattr(x, "dtype", x)


def result_type(*operands: Shaped | DTypeLike | complex) -> DType:
    """The dtype that arrays, dtypes and (weak) Python scalars promote to together.

    >>> result_type(float32, 2.0), result_type(int8, uint8)
    (dtype('float32'), dtype('int16'))
    """
    items = list(map(named, operands))
    first = items[0] if items else None
    if isinstance(first, np.dtype) and is_known(first) and items.count(first) == len(items):
        return first
    try:
        if any(map(_names_bfloat16, items)):
            return _with_bfloat16(items)
        return as_dtype(np.result_type(*items), "result_type")
    except (TypeError, ValueError) as error:
        if isinstance(error, DTypeError):
            raise
        raise DTypeError(
            "result_type", got=", ".join(map(repr, items)) or "nothing", expected="arrays, dtypes or scalars"
        ) from error


def _names_bfloat16(item: DTypeLike | complex) -> builtins.bool:
    """True if ``item`` is the dtype bfloat16 or its name."""
    return item == _BFLOAT16 if isinstance(item, str) else builtins.bool(getattr(item, "kind", "") == "V")


def _with_bfloat16(items: list[Any]) -> DType:
    """Promoted dtype of bfloat16 with others: as for float16, with bfloat16 for a result float16.

    If float16 itself is among the others, bfloat16 promotes as float32 does.
    """
    bfloat16_dtype = load_bfloat16()
    operands = [d if type(d) in (builtins.bool, int, float, complex) else as_dtype(d) for d in items]
    other_operands = [d for d in operands if not isinstance(d, np.dtype) or d != bfloat16_dtype]
    if any(isinstance(d, np.dtype) and d == float16 for d in other_operands):
        return result_type(float32, *other_operands)
    promoted = result_type(float16, *other_operands)
    return bfloat16_dtype if promoted == float16 else promoted


def can_cast(
    source: Shaped | DTypeLike, target: DTypeLike, casting: Literal["safe", "same_kind"] = "safe"
) -> builtins.bool:
    """True if ``source`` promotes to ``target`` without loss of kind or range.

    >>> can_cast(int8, int16), can_cast(float64, float32)
    (True, False)
    """
    of, to = as_dtype(named(source), "can_cast"), as_dtype(target, "can_cast")
    if of != to and is_half(of) and is_half(to):
        return casting == "same_kind"
    of, to = (float16 if is_bfloat16(d) else d for d in (of, to))
    return np.can_cast(of, to, casting)


__all__ = [
    "bool",
    "complex64",
    "complex128",
    "float16",
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


def __getattr__(name: str) -> Any:
    if name == _BFLOAT16:
        return load_bfloat16()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
