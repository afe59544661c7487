"""Segments: to which of some groups each of a row of slices belongs. What follows from it is found once.

The rows of a sparse matrix are such groups of its stored entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.layouts.compressed import CompressedPattern
from iverson.layouts.pattern import Array, Pattern


class Segments:
    """Slice k is in segment ``ids[k]``, at least 0 and below ``count``. Immutable, equal only to itself."""

    __slots__ = ("_starts", "count", "ids")

    def __init__(self, ids: Array, count: int, starts: Array | None = None) -> None:
        self.ids = ids
        self.count = count
        self._starts: Array | bool | None = False if starts is None else starts

    @staticmethod
    def rows(pattern: Pattern) -> Segments:
        """The rows of a pattern's stored entries, the same object each time."""
        found: Segments = pattern.once("segments", lambda: _rows(pattern))
        return found

    @property
    def starts(self) -> Array | None:
        """Where each segment starts, then the number of slices; None where they are not in order."""
        if isinstance(self._starts, bool):
            self._starts = _starts(self.ids, self.count)
        return self._starts

    def __reduce__(self) -> tuple[Any, ...]:
        return Segments, (self.ids, self.count)


def _rows(pattern: Pattern) -> Segments:
    if isinstance(pattern, CompressedPattern) and pattern.layout == "csr":
        return Segments(pattern.lines, pattern.shape[0], pattern.indptr)
    return Segments(pattern.coordinates[0], pattern.shape[0])


def _starts(ids: Array, count: int) -> Array | None:
    if (ids[1:] < ids[:-1]).any():
        return None
    found = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(ids, minlength=count), out=found[1:])
    return found
