"""Masks that are the pattern of a sparse layout: work on the specified entries grows with their number."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from iverson.core.shapes import Shape, reduced_shape
from iverson.layouts import CooPattern, Pattern
from iverson.layouts.pattern import coordinates_of, index_dtype
from iverson.masked.mask import Array, Mask
from iverson.ops import F


class Stored(Mask):
    """What a pattern of distinct entries stores is specified, with all of the dense trailing axes.

    The vector is in the order of the pattern's values.
    """

    __slots__ = ("_array", "_inner", "dense", "pattern")

    def __init__(self, pattern: Pattern, dense: Shape = ()) -> None:
        self.pattern = pattern
        self.dense = dense
        self._inner = prod(dense)
        self._array: Any = None
        self.count = pattern.count * self._inner

    @property
    def layout(self) -> str:  # type: ignore[override]
        return self.pattern.layout

    @property
    def shape(self) -> Shape:
        return self.pattern.shape + self.dense

    @property
    def array(self) -> Array:  # type: ignore[override]
        """The mask with every entry explicit."""
        if self._array is None:
            array = np.zeros(prod(self.shape), bool)
            array[self.keys] = True
            self._array = array.reshape(self.shape)
        found: Array = self._array
        return found

    @property
    def full(self) -> bool:
        return self.count == prod(self.shape)

    @property
    def keys(self) -> Array:
        keys = self.pattern.keys
        if not self.dense:
            return keys
        whole: Array = (keys[:, None] * self._inner + np.arange(self._inner)).reshape(-1)
        return whole

    def has(self, other: Mask) -> Array:
        return self.pattern.find(other.keys // max(self._inner, 1))[1]

    def positions(self, other: Mask) -> Array:
        keys = other.keys
        inner = max(self._inner, 1)
        found: Array = self.pattern.find(keys // inner)[0] * inner + keys % inner
        return found

    def kept(self, keep: Array) -> Mask:
        indices = coordinates_of(self.keys[keep], self.shape, index_dtype(*self.shape))
        return Stored(CooPattern(self.shape, indices, True))

    def lines(self, axes: Shape, keepdims: bool) -> Array:
        rest = [k for k in range(len(self.shape)) if k not in axes]
        counts = np.zeros(tuple(self.shape[k] for k in rest), np.int64)
        np.add.at(counts, self.coordinates(rest), 1 if rest else self.count)
        found: Array = counts.reshape(reduced_shape(self.shape, axes, keepdims))
        return found

    def coordinates(self, axes: list[int]) -> tuple[Array, ...]:
        """The indices of the entries on some axes, in the vector's order."""
        if not self.dense:
            return tuple(self.pattern.coordinates[k] for k in axes)
        return tuple(coordinates_of(self.keys, self.shape)[axes])

    def pack(self, x: Any) -> Any:
        values = F.values_at(x, pattern=self.pattern)
        return values if values.ndim == 1 else F.reshape(values, shape=(self.count,))

    def unpack(self, vector: Any) -> Any:
        whole = self.pattern.stored_shape + self.dense
        return F.from_values(
            F.reshape(vector, shape=whole) if len(whole) > 1 else vector, pattern=self.pattern
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
