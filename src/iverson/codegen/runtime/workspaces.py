"""Workspaces: temporary arrays of a call, kept for the next: fresh memory costs a page fault for every 4 KiB.

The entries of a workspace are arbitrary. Arrays that a caller gets to keep are not made here; `announce` has
the C library keep the memory of those that are freed (`docs/decisions/0118`).
"""

from __future__ import annotations

from collections import OrderedDict
from math import prod
from typing import Any

import numpy as np

from iverson.core.protocols import DType
from iverson.core.python import locks

Array = np.ndarray[Any, Any]
Key = tuple[tuple[int, ...], np.dtype[Any]]
#: Bytes kept at most; the arrays not used for longest go first.
KEEP = 256 * 2**20

#: Bytes from which the C library maps memory by itself at first, and up to which it may learn not to.
MAPPED, LEARNT = 2**17, 2**25 - 2**16

_spare: OrderedDict[Key, list[Array]] = OrderedDict()
_lock = locks.lock()


def take(shape: tuple[int, ...], dtype: DType) -> Array:
    """An array that nobody else has until it is given back (or dropped)."""
    with _lock:
        arrays = _spare.get((shape, dtype))
        if arrays:
            return arrays.pop()
    return np.empty(shape, dtype)


def give_back(arrays: list[Array]) -> None:
    """Keep arrays that were taken; the caller uses them no more."""
    with _lock:
        for a in arrays:
            key = (a.shape, a.dtype)
            _spare.setdefault(key, []).append(a)
            _spare.move_to_end(key)
        while _spare and held() > KEEP:
            _, oldest = next(iter(_spare.items()))
            if oldest:
                oldest.pop()
            else:
                _spare.popitem(last=False)


def announce(size: int) -> None:
    """Have the C library keep about so many bytes of arrays that are freed, for arrays that come next.

    glibc maps an array above a threshold by itself, gives it back when it is freed, and then takes its size
    as the threshold: up to twice as much free memory stays with the process (mallopt(3), M_MMAP_THRESHOLD).
    Arrays freed together are more than any one of them, so they are announced as one, which is never touched.
    Other allocators learn nothing from it.
    """
    if size >= MAPPED:
        np.empty(min(size, LEARNT), np.uint8)


def held() -> int:
    """Bytes kept at present."""
    return sum(prod(shape) * dtype.itemsize * len(a) for (shape, dtype), a in _spare.items())


def forget() -> None:
    """Free all that is kept."""
    with _lock:
        _spare.clear()
