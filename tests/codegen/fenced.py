"""Arrays between two pages that may not be touched: an access outside them ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def fenced(array: np.ndarray[Any, Any], *, at_end: bool = True) -> np.ndarray[Any, Any]:
    """A copy of a C-contiguous array whose last (or first) byte touches a forbidden page."""
    page = mmap.PAGESIZE
    inner = -(-max(array.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, inner + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for address in (start, start + page + inner):
        assert _libc.mprotect(address, page, 0) == 0
    offset = page + (inner - array.nbytes if at_end else 0)
    copy = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    return copy
