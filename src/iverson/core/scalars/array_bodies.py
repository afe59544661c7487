"""Bodies of conversions and selections, where NumPy's own are slower or differ between machines."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.protocols import DType, NDArray

_BITS: dict[int, DType] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}
#: Entries below which three passes cost more to start than branches. Measured for `where` on conditions that
#: differ from call to call (`make calibrate`): 512 to 1024.
_SMALL = 1 << 10


def where(condition: Any, a: Any, b: Any) -> Any:
    """numpy.where, without its branch per entry where both sides are arrays of one dtype.

    On the bits of the numbers, b ^ (c * (a ^ b)) with c of 0 and 1 is the selection: no rounding, no nan.
    """
    arrays = type(a) is type(b) is type(condition) is np.ndarray
    if not arrays or a.dtype != b.dtype or condition.size < _SMALL or condition.dtype != bool:
        if type(a) is int or type(b) is int:  # NumPy's where wraps those out of range
            a, b = (np.asarray(v, np.result_type(a, b)) for v in (a, b))
        return np.where(condition, a, b)
    bits = _BITS.get(a.dtype.itemsize)
    if bits is None:
        return np.where(condition, a, b)
    other = b.view(bits)
    return (other ^ (a.view(bits) ^ other) * condition.view(np.int8)).view(a.dtype)


def converted(x: NDArray, dtype: DType) -> Any:
    """``x`` cast to ``dtype``, with the same results on all machines.

    Values that an integer type cannot represent (nan, inf, numbers out of range) become what x86-64 and NumPy
    on it make of them: the lowest integer of 32 bits, or of 64 for types of 64, of which narrower types take
    the low bits. For uint32 NumPy's result depends on where in the array an entry is; the cast goes through
    int64 here.
    """
    if dtypes.is_half(x.dtype) and dtype.kind not in "fV":
        x = x.astype(np.float32)
    if dtype == np.uint32 and x.dtype.kind == "f":
        x = x.astype(np.int64)
    return x.astype(dtype, copy=False)


def keep_where(condition: NDArray, x: Any) -> Any:
    """x where the condition holds, 0 elsewhere (also where x is nan or inf): a product with its bits."""
    bits = _BITS.get(x.dtype.itemsize)
    if bits is None or x.size < _SMALL or condition.dtype != bool:
        return np.where(condition, x, np.zeros((), x.dtype))
    return (x.view(bits) * condition.view(np.int8)).view(x.dtype)
