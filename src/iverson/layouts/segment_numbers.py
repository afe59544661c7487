"""Segment numbers: the segment of each slice along the first axis, as an array of integers.

The rows of a sparse matrix are segments of its stored entries. What follows from an array of numbers that
cannot be written to is computed once.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from iverson.layouts.compressed import CompressedPattern
from iverson.layouts.pattern import Array, Pattern, frozen

#: By the identity of an array that lives: it, a number of segments, and where these start.
_starts_by_id: dict[int, tuple[ref[Any], int, Array | None]] = {}


def row_numbers(pattern: Pattern) -> Array:
    """The row (index along the first axis) of each stored entry, as the same read-only array at each call."""
    rows: Array = pattern.once("rows", lambda: _rows(pattern))
    return rows


def _rows(pattern: Pattern) -> Array:
    if isinstance(pattern, CompressedPattern) and pattern.layout == "csr":
        rows = frozen(pattern.lines)
        _remember(rows, pattern.shape[0], pattern.indptr)
        return rows
    return frozen(np.ascontiguousarray(pattern.coordinates[0]))


def starts(ids: Array, count: int) -> Array | None:
    """The start of each of ``count`` segments, then the number of slices; None if ``ids`` are unsorted.

    The result is remembered as long as ``ids`` lives, if ``ids`` is read-only.

    ids : the segment of each slice.
    """
    cached = _starts_by_id.get(id(ids))
    if cached is not None and cached[0]() is ids and cached[1] == count:
        return cached[2]
    offsets = None if (ids[1:] < ids[:-1]).any() else _starts(ids, count)
    if not ids.flags.writeable:
        _remember(ids, count, offsets)
    return offsets


def _remember(ids: Array, count: int, offsets: Array | None) -> None:
    """Keep ``offsets``, the result of `starts` for ``ids`` and ``count``, until ``ids`` is deleted."""
    key = id(ids)
    _starts_by_id[key] = (ref(ids, lambda _: _starts_by_id.pop(key, None)), count, offsets)


def _starts(ids: Array, count: int) -> Array:
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(ids, minlength=count), out=offsets[1:])
    return offsets
