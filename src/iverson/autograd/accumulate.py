"""Adding up the cotangents that arrive at one place, in as little memory as their supports allow.

The first arrival is kept as it is. Strided arrivals after it are added into one buffer that is ours. Arrivals
in smaller layouts wait, at most twice the full size together, and are then summed at once.
"""

from __future__ import annotations

from math import prod
from typing import Any

from iverson.core.dispatch import make_handle
from iverson.core.table import F
from iverson.layouts import Strided, layout_of


class Sum:
    """A running sum of handles of one shape and dtype."""

    __slots__ = ("_owned", "_pending", "_pending_bytes", "_recording")

    def __init__(self, first: Any, recording: bool) -> None:
        self._owned: Any = None
        self._pending = [first]
        self._pending_bytes = 0
        self._recording = recording

    def add(self, handle: Any) -> None:
        """Add one more cotangent."""
        value = handle._value
        if self._recording or handle._node is not None:
            self._pending.append(handle)
            return
        if self._owned is not None and type(value) is Strided:
            self._owned += value
            return
        self._pending.append(handle)
        self._pending_bytes += sum(b.nbytes for b in layout_of(value).buffers(value))
        full = prod(value.shape) * value.dtype.itemsize
        if type(value) is Strided or self._pending_bytes > 2 * full:
            self._flush()

    def _flush(self) -> None:
        terms = self._pending if self._owned is None else [make_handle(self._owned), *self._pending]
        total = F.add_n(*terms)._value
        self._pending = []
        self._pending_bytes = 0
        if type(total) is Strided:
            # Later arrivals are added in place. Beside zeros the sum is the other term itself: not ours.
            self._owned = total.copy() if any(total is term._value for term in terms) else total
        else:
            self._pending = [make_handle(total)]
            self._owned = None

    def total(self) -> Any:
        """The sum as one handle."""
        terms = self._pending if self._owned is None else [make_handle(self._owned), *self._pending]
        return terms[0] if len(terms) == 1 else F.add_n(*terms)
