"""Masks held as the pattern of a sparse layout, so that work grows with the number of specified entries."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core.dispatch import bind, value_of
from iverson.core.protocols import NDArray, Value
from iverson.core.shapes import Shape, reduced_shape
from iverson.handles import spy
from iverson.handles.spy import Picture
from iverson.layouts import CompressedPattern, CooPattern, Pattern, Sparse, to_strided
from iverson.layouts.pattern import addresses, coordinates_of, index_dtype, matches
from iverson.layouts.placement import converted
from iverson.masked.line_buckets import Lines
from iverson.masked.mask import Mask, read_axes, seen_from
from iverson.ops import TABLE, F


class Stored(Mask):
    """Mask of the entries that a pattern stores; the pattern has no repeated entries.

    The vector is in the order of the pattern's values.
    dense : extents of trailing axes along which all entries are specified.
    """

    __slots__ = ("_inner", "dense", "pattern")

    def __init__(self, pattern: Pattern, dense: Shape = ()) -> None:
        self.pattern = pattern
        self.dense = dense
        self._inner = prod(dense)
        self._numbers = None
        self.count = pattern.count * self._inner

    @property
    def layout(self) -> str:  # type: ignore[override]
        return self.pattern.layout

    @property
    def shape(self) -> Shape:
        return self.pattern.shape + self.dense

    @property
    def array(self) -> NDArray:  # type: ignore[override]
        """Boolean array of the mask; it is computed at each access and takes memory for all entries."""
        array = np.zeros(prod(self.shape), bool)
        array[self.keys] = True
        return array.reshape(self.shape)

    @property
    def full(self) -> bool:
        return self.count == prod(self.shape)

    def picture(self) -> Picture:
        return spy.of_pattern(self.pattern)

    @property
    def keys(self) -> NDArray:
        keys = self.pattern.keys
        if not self.dense:
            return keys
        entry_keys: NDArray = (keys[:, None] * self._inner + np.arange(self._inner)).reshape(-1)
        return entry_keys

    def coordinates(self, axes: Sequence[int] | None = None) -> NDArray:
        indices = coordinates_of(self.keys, self.shape) if self.dense else self.pattern.coordinates
        return indices if axes is None else indices[list(axes)]

    def _numbered(self, vector: NDArray) -> Any:
        return self.pattern.value(vector.reshape((self.pattern.count, *self.dense)))

    def has(self, other: Mask) -> NDArray:
        return self.pattern.find(seen_from(self.shape, other) // max(self._inner, 1))[1]

    def positions(self, other: Mask) -> NDArray:
        keys = seen_from(self.shape, other)
        inner = max(self._inner, 1)
        positions: NDArray = self.pattern.find(keys // inner)[0] * inner + keys % inner
        return positions

    def kept(self, keep: NDArray) -> Mask:
        mask = of_coordinates(self.coordinates()[:, keep], self.shape)
        if isinstance(self.pattern, CompressedPattern) and not (self.pattern.blocks or self.dense):
            return Stored(converted(mask.pattern, self.layout)[0])  # the entries are in its order already
        return mask

    def stretched(self, shape: Shape) -> Mask:
        if self.shape == shape:
            return self
        return of_numbers(value_of(bind(TABLE["broadcast_to"], (self.numbers,), {"shape": shape})))[0]

    def over(self, axes: Shape, keepdims: bool) -> tuple[Mask, NDArray]:
        shape = reduced_shape(self.shape, axes, keepdims)
        if len(axes) == len(self.shape):
            single = Mask(np.full(shape, self.count > 0))
            return single, np.full(single.count, self.count)
        lines = self.lines(axes)
        key = ("over", axes, self.dense, keepdims)
        mask: Stored = self.pattern.once(key, lambda: of_keys(lines.keys, shape))
        return mask, lines.lengths

    def lines(self, axes: Shape) -> Lines:
        """Specified entries grouped into lines along ``axes``; cached in the pattern."""
        lines: Lines = self.pattern.once(("lines", axes, self.dense), lambda: self._along(axes))
        return lines

    def _along(self, axes: Shape) -> Lines:
        stays = [k for k in range(len(self.shape)) if k not in axes]
        where, inner = (
            addresses(self.coordinates(along), tuple(self.shape[k] for k in along))
            for along in (stays, list(axes))
        )
        return Lines(where, inner)

    def pack(self, x: Value) -> Any:
        values = F.values_at(x, pattern=self.pattern)
        return values if values.ndim == 1 else F.reshape(values, shape=(self.count,))

    def unpack(self, vector: Value) -> Any:
        shape = self.pattern.stored_shape + self.dense
        return F.from_values(
            F.reshape(vector, shape=shape) if len(shape) > 1 else vector, pattern=self.pattern
        )

    def plain(self) -> Any:
        return self.pattern.value(np.ones((self.pattern.count, *self.dense), bool))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Stored) or self.count != other.count or self.shape != other.shape:
            return False
        return self.pattern is other.pattern or bool(np.array_equal(self.keys, other.keys))

    __hash__ = Mask.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return Stored, (self.pattern, self.dense)


def of_coordinates(indices: NDArray, shape: Shape) -> Stored:
    """Mask of distinct entries, in the order of the columns of ``indices``; each column is the index of an
    entry.
    """
    return Stored(CooPattern(shape, indices.astype(index_dtype(*shape), copy=False), True))


def of_keys(keys: NDArray, shape: Shape) -> Stored:
    """Mask of the entries at the row-major addresses ``keys``, which increase."""
    return Stored(CooPattern.of_keys(keys, shape, index_dtype(*shape)))


def of_numbers(value: Sparse | NDArray) -> tuple[Mask, NDArray]:
    """Mask of the places that entries of `Mask.numbers` have moved to, and these numbers in the order of its
    vector.

    A place that a layout stores although no number moved there (the rest of a block) is not specified.
    """
    if not isinstance(value, Sparse):
        array = to_strided(value)
        return Mask(array > 0), array[array > 0]
    mask: Mask = Stored(value.pattern, value.dense_shape)
    numbers = value.entries.reshape(-1)
    there = numbers > 0
    return (mask, numbers) if there.all() else (mask.kept(there), numbers[there])


def explicit(mask: Mask) -> Stored:
    """Stored mask with the same entries as ``mask``; ``mask`` itself if it is one."""
    return mask if isinstance(mask, Stored) else of_keys(mask.keys, mask.shape)


def united(a: Mask, b: Mask) -> Mask:
    """The mask of the entries that at least one of two masks of one shape specifies."""
    return a if a == b else of_keys(np.union1d(a.keys, b.keys), a.shape)


def joined(a: Stored, b: Stored, shape: Shape) -> Stored:
    """Mask of the entries that both masks specify after broadcasting to ``shape``.

    The work grows with the number of pairs of entries that have equal indices on the axes along which neither
    mask is repeated.
    """
    own_a, own_b = (read_axes(m.shape, shape) for m in (a, b))
    shared_axes = [k for k in own_a if k in own_b]
    extents = tuple(shape[k] for k in shared_axes)
    lead_a, lead_b = (len(shape) - len(m.shape) for m in (a, b))
    i, j = matches(
        addresses(a.coordinates([k - lead_a for k in shared_axes]), extents),
        addresses(b.coordinates([k - lead_b for k in shared_axes]), extents),
    )
    b_axes = [k for k in range(len(shape)) if k not in own_a]
    rows = np.empty((len(shape), i.size), np.int64)
    rows[own_a] = a.coordinates([k - lead_a for k in own_a])[:, i]
    rows[b_axes] = b.coordinates([k - lead_b for k in b_axes])[:, j]
    return of_coordinates(rows, shape)
