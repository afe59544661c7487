"""The strided layout: every entry is stored. Its value type is `numpy.ndarray` itself.

In `layouts` it imports `layout_registry` alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from iverson.core.dispatch import Handle, Plain, plain, value_of
from iverson.core.protocols import LayoutValue, NDArray
from iverson.core.shapes import Shape
from iverson.layouts.layout_registry import Layout, register

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

#: The type of its values. Subclasses (memory maps, matrices) are not: they become it on the way in.
Strided = np.ndarray

ALIGNMENT = 64


def aligned_empty(shape: Shape, dtype: DTypeLike) -> np.ndarray[Any, Any]:
    """Uninitialised C-contiguous array that is 64-byte aligned, so that other libraries can share it."""
    dtype = np.dtype(dtype)
    size = prod(shape) * dtype.itemsize
    buffer = np.empty(size + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    result: np.ndarray[Any, Any] = buffer[start : start + size].view(dtype).reshape(shape)
    return result


def aligned_zeros(shape: Shape, dtype: DTypeLike) -> np.ndarray[Any, Any]:
    """Zeros in memory aligned as by `aligned_empty`."""
    result = aligned_empty(shape, dtype)
    result.fill(0)
    return result


def read_only(array: NDArray) -> np.ndarray[Any, Any]:
    """Read-only view of ``array``, for users of a buffer whose content others may need."""
    view = array.view()
    view.flags.writeable = False
    return view


def is_strided(value: Any) -> TypeGuard[np.ndarray[Any, Any]]:
    """True if a value is in the strided layout."""
    return type(value) is np.ndarray


def are_strided(values: Iterable[LayoutValue]) -> TypeGuard[Iterable[NDArray]]:
    """True if all values are in the strided layout."""
    return set(map(type, values)) <= _TYPE


def strided_operands(args: Iterable[object]) -> Plain | None:
    """Result of `plain` for operands that are all handles of strided values; None if one of them is not."""
    return plain(args, np.ndarray)


_TYPE = {np.ndarray}


def _references(array: NDArray) -> int:
    return sys.getrefcount(array)


def _references_of_one_owner() -> int:
    owner = [np.empty(0)]
    array = owner[0]
    return _references(array)


#: What a count taken one call deep gives for an array with one owner besides the caller's local name.
#: Interpreters count a running call's references differently (3.14 borrows where 3.11 counts): measured.
_ONE_OWNER = _references_of_one_owner()


def has_one_owner(array: NDArray) -> bool:
    """True if nothing refers to the array except one owner and one local name of the caller."""
    return sys.getrefcount(array) <= _ONE_OWNER


def holds_alone(x: Handle) -> bool:
    """True if only this handle can read its strided buffer, so that an operation may write to it.

    An aligned array is the only view of a raw buffer: then no other object may refer to that buffer either.
    """
    array: Any = value_of(x, None)
    if type(array) is not np.ndarray or not array.flags.writeable or not has_one_owner(array):
        return False
    base: Any = array.base
    if base is None:
        return array.flags.owndata
    return type(base) is np.ndarray and base.base is None and base.flags.owndata and has_one_owner(base)


def _check(value: NDArray) -> None:
    assert type(value) is np.ndarray
    assert value.dtype.isnative


register(
    Layout(
        name="strided",
        kind=np.ndarray,
        to_strided=lambda value: value,
        check=_check,
        buffers=lambda value: (value,),
        rebuild=lambda value, buffers: buffers[0],
        densify_warns=False,
        priority=-1,
    )
)
