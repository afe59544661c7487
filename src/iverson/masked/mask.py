"""Masks: which entries are specified, and the plain vectors of specified entries that all else works on.

A masked tensor is held as the vector of its specified entries. An entry that is not specified is not in it,
so nothing that stood there can reach a value or a derivative of any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from iverson.core.errors import ArgumentError
from iverson.core.shapes import Shape
from iverson.masked.policies import current
from iverson.ops import F

Array = np.ndarray[Any, Any]


class Mask:
    """Which entries are specified: a boolean array, True where one is, and how many are. Never written to."""

    __slots__ = ("array", "count")

    #: The name of the layout in which what has this mask is held.
    layout = "strided"

    def __init__(self, array: Array) -> None:
        self.array = array
        self.count = int(np.count_nonzero(array))

    @property
    def shape(self) -> Shape:
        return self.array.shape  # type: ignore[no-any-return]

    @property
    def full(self) -> bool:
        """Whether every entry is specified."""
        return self.count == self.array.size

    @property
    def keys(self) -> Array:
        """The row-major address of each specified entry, in the vector's order."""
        return np.flatnonzero(self.array)

    def has(self, other: Mask) -> Array:
        """Which of another mask's entries, in its vector's order, this one of the same shape specifies."""
        found: Array = self.array.reshape(-1)[other.keys]
        return found

    def positions(self, other: Mask) -> Array:
        """Where in this mask's vector the entries of another, which lies within it, are."""
        return (np.cumsum(self.array.reshape(-1)) - 1)[other.keys]

    def kept(self, keep: Array) -> Mask:
        """The mask of only some of the entries: a boolean for each, in the vector's order."""
        array = self.array.copy()
        array[array] = keep
        return Mask(array)

    def lines(self, axes: Shape, keepdims: bool) -> Array:
        """How many entries are specified over axes."""
        return np.asarray(np.sum(self.array, axis=axes, keepdims=keepdims))

    def pack(self, x: Any) -> Any:
        """The specified entries of a plain operand of the mask's shape, as a vector."""
        if self.full:
            return F.reshape(x, shape=(self.count,))
        return F.pack(x, self.array, count=self.count)

    def unpack(self, vector: Any) -> Any:
        """A vector of specified entries put in their places, zero elsewhere: a plain tensor."""
        if self.full:
            return F.reshape(vector, shape=self.shape)
        return F.unpack(vector, self.array, count=self.count)

    def plain(self) -> Any:
        """The mask as the value of a plain tensor."""
        return self.array.copy()

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


def narrowed(vector: Any, own: Mask, mask: Mask) -> Any:
    """The vector's entries that a mask of the same shape, which lies within its own, specifies."""
    if own == mask:
        return vector
    if own.layout == mask.layout == "strided":
        return F.pack(vector, mask.array[own.array], count=mask.count)
    return F.gather(vector, own.positions(mask), axes=(0,))


def common(operation: str, masks: Sequence[Mask], shape: Shape) -> Mask:
    """The mask of a result that needs all its operands: theirs, broadcast and intersected.

    It is held in the layout of the smallest that is not broadcast and not strided, if there is one. Raises
    ArgumentError where masks differ and the policy is "strict".
    """
    first = masks[0]
    if first.shape == shape and all(m == first for m in masks[1:]):
        return first
    wide = [m if m.shape == shape else Mask(np.array(np.broadcast_to(m.array, shape))) for m in masks]
    result = min(wide, key=lambda m: (m.layout == "strided", m.count))
    for m in wide:
        if m is not result:
            keep = m.has(result)
            result = result if keep.all() else result.kept(keep)
    if current() == "strict" and any(m.count != result.count for m in wide):
        raise ArgumentError(
            operation,
            "mask",
            got="operands with different masks",
            expected='equal masks: the policy is "strict"',
            remedy="give both the mask that is meant, or leave the policy",
        )
    return result
