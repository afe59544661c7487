"""Functions of dtypes: conversion, promotion, limits. The dtypes themselves are in `iverson.core.dtypes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import as_operand, check_device
from iverson.core import dtypes
from iverson.core.dtypes import isdtype, result_type
from iverson.core.errors import DTypeError
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.array_api.conventions.limits import FloatInfo, IntInfo
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Device, DTypeLike


def _named(type: DTypeLike, operation: str) -> Any:
    return dtypes.as_dtype(dtypes.named(type), operation)


@method
def astype(x: A | ArrayLike, /, dtype: DTypeLike, *, copy: bool = True, device: Device = None) -> A:
    """x with its entries converted to ``dtype``; a new tensor unless ``copy=False`` and nothing changes.

    Floats are cut towards zero when they become integers. Raises DTypeError for complex to real.

    >>> import iverson as iv
    >>> astype(iv.asarray([1.5, -1.5]), iv.int32)
    iverson.Tensor([ 1, -1], dtype=int32)
    """
    check_device(device, "astype")
    x = as_operand(x, "astype")
    target = dtypes.as_dtype(dtype, "astype")
    if x.dtype == target:
        return F.copy(x) if copy else x
    if x.dtype.kind == "c" and target.kind not in "cb":
        raise DTypeError(
            "astype",
            "dtype",
            got=f"{target} for entries of {x.dtype}",
            expected="a complex dtype",
            remedy="take real, imag or abs first",
        )
    return F.astype(x, dtype=target)


def can_cast(from_: Array | DTypeLike, to: DTypeLike, /) -> bool:
    """True if a dtype (or the dtype of an array) promotes to another without loss of kind or range.

    >>> import iverson as iv
    >>> can_cast(iv.int8, iv.int16), can_cast(iv.float64, iv.float32)
    (True, False)
    """
    return dtypes.can_cast(from_, to)


def finfo(type: Array | DTypeLike, /) -> FloatInfo:
    """The limits of a floating dtype, or of an array's: bits, eps, max, min, smallest_normal, dtype.

    Raises DTypeError for other dtypes.

    >>> finfo("float32").bits
    32
    """
    from iverson.array_api.conventions.limits import FloatInfo

    dtype = _named(type, "finfo")
    if not dtypes.is_inexact(dtype):
        raise DTypeError("finfo", "type", got=str(dtype), expected="a floating dtype", remedy="use iinfo")
    info = dtypes.finfo(dtype)
    return FloatInfo(
        bits=info.bits,
        eps=float(info.eps),
        max=float(info.max),
        min=float(info.min),
        smallest_normal=float(info.smallest_normal),
        dtype=dtypes.real_of(dtype),
    )


def iinfo(type: Array | DTypeLike, /) -> IntInfo:
    """The limits of an integer dtype, or of an array's: bits, max, min, dtype.

    Raises DTypeError for other dtypes.

    >>> iinfo("int8").max
    127
    """
    from iverson.array_api.conventions.limits import IntInfo

    dtype = _named(type, "iinfo")
    if dtype.kind not in "iu":
        raise DTypeError("iinfo", "type", got=str(dtype), expected="an integer dtype", remedy="use finfo")
    info = np.iinfo(dtype)
    return IntInfo(info.bits, int(info.max), int(info.min), dtype)


__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]
