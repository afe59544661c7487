"""Masks: the specified entries of an array, and their places in the plain vector that ops work on.

A masked tensor is held as the vector of its specified entries. An entry that is not specified is not in it,
so nothing that stood there can reach a value or a derivative of any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from iverson.core.dispatch import Handle, alias, make_handle
from iverson.core.protocols import NDArray, Value
from iverson.core.shapes import Shape
from iverson.handles import spy
from iverson.handles.spy import Picture
from iverson.layouts.pattern import addresses
from iverson.ops import F


class Mask:
    """The specified entries of an array: a boolean array, True at each, and their count. Never written to."""

    __slots__ = ("_numbers", "array", "count")

    #: The name of the layout in which what has this mask is held.
    layout = "strided"

    def __init__(self, array: NDArray) -> None:
        self.array: NDArray = np.asarray(array)
        self.count = int(np.count_nonzero(array))
        self._numbers: Any = None

    @property
    def shape(self) -> Shape:
        return self.array.shape  # type: ignore[no-any-return]

    @property
    def namespace(self) -> Any:
        """The functions of the mask's array, named as in the array API standard."""
        return self.array.__array_namespace__()

    @property
    def full(self) -> bool:
        """True if every entry is specified."""
        return self.count == self.array.size

    @property
    def keys(self) -> NDArray:
        """The row-major address of each specified entry, in the vector's order."""
        return np.flatnonzero(self.array)

    def coordinates(self, axes: Sequence[int] | None = None) -> NDArray:
        """The indices of the entries in the vector's order, one column each: on all axes, or on some."""
        indices = np.nonzero(self.array) if self.shape else ()
        rows = indices if axes is None else [indices[k] for k in axes]
        return np.array(rows, np.int64).reshape(len(rows), self.count)

    @property
    def numbers(self) -> Any:
        """1, 2, ... at the entries, in the vector's order, and 0 elsewhere: the value of a plain tensor.

        Where these go under an op that moves entries, the entries go too.
        """
        if self._numbers is None:
            self._numbers = self._numbered(np.arange(1, self.count + 1))
        return self._numbers

    def _numbered(self, vector: NDArray) -> Any:
        numbers = np.zeros(self.shape, np.int64)
        numbers[self.array] = vector
        return numbers

    def has(self, other: Mask) -> NDArray:
        """For each entry of another mask, to whose shape this one broadcasts: True if specified here."""
        specified: NDArray = self.array.reshape(-1)[seen_from(self.shape, other)]
        return specified

    def positions(self, other: Mask) -> NDArray:
        """For each entry of another mask, its position in this mask's vector: for those that `has` finds."""
        return (np.cumsum(self.array.reshape(-1)) - 1)[seen_from(self.shape, other)]

    def kept(self, keep: NDArray) -> Mask:
        """The mask of the entries for which ``keep`` is True: a boolean for each, in the vector's order."""
        array = self.array.copy()
        array[array] = keep
        return Mask(array)

    def within(self, outer: Mask, vector: Value) -> tuple[Any, Mask]:
        """The vector and the mask in ``outer``'s shape, if this is a mask of the entries of ``outer``."""
        return outer.of_kept(self, vector), outer.kept(self.array)

    def of_kept(self, inner: Mask, vector: Value) -> Any:
        """The vector of the entries that ``inner``, a mask of this mask's entries, specifies."""
        return vector

    def stretched(self, shape: Shape) -> Mask:
        """The mask broadcast to a shape."""
        return self if self.shape == shape else Mask(np.array(np.broadcast_to(self.array, shape)))

    def stacked(self, stretched: Mask) -> NDArray:
        """Positions of the entries of ``stretched`` in copies of this mask's vector, one after the other.

        ``stretched`` is this mask, broadcast along a new first axis.
        """
        positions: NDArray = stretched.coordinates([0])[0] * self.count + self.positions(stretched)
        return positions

    def over(self, axes: Shape, keepdims: bool) -> tuple[Mask, NDArray]:
        """The mask of a reduction over axes, and the number of entries that each of its entries reduces."""
        counts = np.asarray(np.sum(self.array, axis=axes, keepdims=keepdims))
        mask = Mask(counts > 0)
        return mask, counts[mask.array]

    def pack(self, x: Value) -> Any:
        """The specified entries of a plain operand of the mask's shape, as a vector."""
        if self.full:
            return F.reshape(x, shape=(self.count,))
        return F.pack(x, self.array, count=self.count)

    def unpack(self, vector: Value) -> Any:
        """A vector of specified entries put in their places, zero elsewhere: a plain tensor."""
        if self.full:
            return F.reshape(vector, shape=self.shape)
        return F.unpack(vector, self.array, count=self.count)

    def plain(self) -> Any:
        """The mask as the value of a plain tensor."""
        return self.array.copy()

    def picture(self) -> Picture:
        """A picture of the specified entries."""
        return spy.of_array(self.array)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            type(other) is type(self) is Mask
            and self.count == other.count
            and self.shape == other.shape
            and bool(np.array_equal(self.array, other.array))
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.count))

    def __reduce__(self) -> tuple[Any, ...]:
        return Mask, (self.array,)

    def __repr__(self) -> str:
        return f"Mask(shape={self.shape}, specified={self.count})"


class Masked(Protocol):
    """A masked array as masks see it: the vector of the specified entries, and the mask."""

    _inner: Any
    _mask: Mask


def taken(vectors: Sequence[Value], positions: NDArray) -> Any:
    """The entries at some positions of vectors, one after the other: a new handle."""
    offsets = np.cumsum([0, *(v.shape[0] for v in vectors)]).tolist()
    vector = vectors[0]
    if len(vectors) > 1:
        vector = F.concat(*vectors, axis=0, offsets=tuple(offsets[:-1]))
    if positions.size == offsets[-1] and np.array_equal(positions, np.arange(positions.size)):
        return alias(vector) if isinstance(vector, Handle) else make_handle(vector)
    return F.gather(vector, positions, axes=(0,))


def seen_from(shape: Shape, mask: Mask) -> NDArray:
    """For each entry of a mask, its address in an array whose shape broadcasts to the mask's shape."""
    if shape == mask.shape:
        return mask.keys
    axes = read_axes(shape, mask.shape)
    return addresses(mask.coordinates(axes), tuple(mask.shape[k] for k in axes))


def read_axes(shape: Shape, target: Shape) -> list[int]:
    """The axes of ``target`` along which a shape that broadcasts to it is not stretched."""
    lead = len(target) - len(shape)
    return [k for k in range(lead, len(target)) if shape[k - lead] != 1 or target[k] == 1]
