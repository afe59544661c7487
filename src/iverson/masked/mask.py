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
    """Set of the specified entries of an array. It is never changed.

    The specified entries are kept in a vector; masks say to which place each entry of the vector belongs.
    array : boolean array, True at each specified entry.
    count : the number of specified entries.
    """

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
        """Row-major address of each specified entry, in the order of the vector."""
        return np.flatnonzero(self.array)

    def coordinates(self, axes: Sequence[int] | None = None) -> NDArray:
        """Indices of the specified entries, one column for each, in the order of the vector.

        axes : the axes whose indices are returned, one row for each; by default all.
        """
        indices = np.nonzero(self.array) if self.shape else ()
        rows = indices if axes is None else [indices[k] for k in axes]
        return np.array(rows, np.int64).reshape(len(rows), self.count)

    @property
    def numbers(self) -> Any:
        """Value of a plain tensor with 1, 2, ... at the specified entries, in the order of the vector, and 0
        elsewhere.

        An op that moves entries is applied to these numbers: the places they arrive at are the new mask.
        """
        if self._numbers is None:
            self._numbers = self._numbered(np.arange(1, self.count + 1))
        return self._numbers

    def _numbered(self, vector: NDArray) -> Any:
        numbers = np.zeros(self.shape, np.int64)
        numbers[self.array] = vector
        return numbers

    def has(self, other: Mask) -> NDArray:
        """Boolean for each entry that ``other`` specifies: True if this mask, broadcast to its shape,
        specifies it too.
        """
        specified: NDArray = self.array.reshape(-1)[seen_from(self.shape, other)]
        return specified

    def positions(self, other: Mask) -> NDArray:
        """Position, in the vector of this mask, of each entry that ``other`` specifies.

        The position is meaningful only where `has` is True.
        """
        return (np.cumsum(self.array.reshape(-1)) - 1)[seen_from(self.shape, other)]

    def kept(self, keep: NDArray) -> Mask:
        """Mask of the entries for which ``keep`` is True.

        keep : a boolean for each specified entry, in the order of the vector.
        """
        array = self.array.copy()
        array[array] = keep
        return Mask(array)

    def within(self, outer: Mask, vector: Value) -> tuple[Any, Mask]:
        """The ``vector`` and the mask of a tensor whose entries are the specified entries of ``outer``.

        This mask is over the vector of ``outer``; both results are converted to the shape of ``outer``.
        """
        return outer.of_kept(self, vector), outer.kept(self.array)

    def of_kept(self, inner: Mask, vector: Value) -> Any:
        """Vector of the entries that ``inner`` specifies; ``inner`` is a mask over the vector of this mask.

        vector : the entries that ``inner`` specifies, as `inner` packs them.
        """
        return vector

    def stretched(self, shape: Shape) -> Mask:
        """The mask broadcast to a shape."""
        return self if self.shape == shape else Mask(np.array(np.broadcast_to(self.array, shape)))

    def stacked(self, stretched: Mask) -> NDArray:
        """Positions of the entries of ``stretched`` in copies of this mask's vector, one copy after the
        other.

        stretched : this mask, broadcast along a new first axis.
        """
        positions: NDArray = stretched.coordinates([0])[0] * self.count + self.positions(stretched)
        return positions

    def over(self, axes: Shape, keepdims: bool) -> tuple[Mask, NDArray]:
        """Mask of a reduction over ``axes``, and for each of its specified entries the number of entries it
        reduces.
        """
        counts = np.asarray(np.sum(self.array, axis=axes, keepdims=keepdims))
        mask = Mask(counts > 0)
        return mask, counts[mask.array]

    def pack(self, x: Value) -> Any:
        """Vector of the specified entries of ``x``, a plain operand that has the mask's shape."""
        if self.full:
            return F.reshape(x, shape=(self.count,))
        return F.pack(x, self.array, count=self.count)

    def unpack(self, vector: Value) -> Any:
        """Plain tensor with the entries of ``vector`` in their places and zeros elsewhere."""
        if self.full:
            return F.reshape(vector, shape=self.shape)
        return F.unpack(vector, self.array, count=self.count)

    def plain(self) -> Any:
        """Boolean value of a plain tensor, True at the specified entries, in the layout of the mask."""
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
    """Entries at ``positions`` of the concatenated ``vectors``, in a new handle."""
    offsets = np.cumsum([0, *(v.shape[0] for v in vectors)]).tolist()
    vector = vectors[0]
    if len(vectors) > 1:
        vector = F.concat(*vectors, axis=0, offsets=tuple(offsets[:-1]))
    if positions.size == offsets[-1] and np.array_equal(positions, np.arange(positions.size)):
        return alias(vector) if isinstance(vector, Handle) else make_handle(vector)
    return F.gather(vector, positions, axes=(0,))


def seen_from(shape: Shape, mask: Mask) -> NDArray:
    """Row-major address, in an array of ``shape``, that each entry specified by ``mask`` reads.

    The shape broadcasts to that of the mask.
    """
    if shape == mask.shape:
        return mask.keys
    axes = read_axes(shape, mask.shape)
    return addresses(mask.coordinates(axes), tuple(mask.shape[k] for k in axes))


def read_axes(shape: Shape, target: Shape) -> list[int]:
    """List of the axes of ``target`` along which an array of ``shape`` is not repeated when it is broadcast
    to it.
    """
    lead = len(target) - len(shape)
    return [k for k in range(lead, len(target)) if shape[k - lead] != 1 or target[k] == 1]
