"""Object headers: where NumPy arrays hold their address and flags, and where tuples hold their items.

Compiled code reads them itself: to get an array's address from NumPy takes half a microsecond.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from iverson.core.protocols import NDArray


@functools.cache
def data_offset() -> int:
    """Offset in bytes of the data pointer in a NumPy array's object."""
    probe = np.empty(1)
    words = (ctypes.c_int64 * 8).from_address(id(probe))
    return 8 * list(words).index(probe.ctypes.data)


@functools.cache
def flags_offset() -> int:
    """Offset in bytes of the flags in a NumPy array's object."""
    probes = np.empty((2, 2)), np.empty((2, 2))[:, ::2], np.empty((2, 2)).T
    words = [list((ctypes.c_int32 * 20).from_address(id(x))) for x in probes]
    flags = [x.flags.num for x in probes]
    return 4 * next(k for k in range(20) if [w[k] for w in words] == flags)


@functools.cache
def items_offset() -> int:
    """Offset in bytes of the items' addresses in a tuple's object."""
    probe = object(), object()
    words = (ctypes.c_int64 * (tuple.__basicsize__ // 8 + 2)).from_address(id(probe))
    return 8 * list(words).index(id(probe[0]))


def address(array: NDArray) -> int:
    """Address of the first entry of an array."""
    return _word(id(array) + data_offset()).value


_word = ctypes.c_int64.from_address
