"""Rules of stored entries, once for eager code and compiled graphs: entries of a result from operands.

Which entries a result stores is found by kernels; graphs ask them (`deferred_patterns`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from iverson.core.shapes import Shape

#: A sparse, packed or dense value, or a number.
Operand = Any
#: Where entries are: a pattern, or a mask.
Places = Any
#: An array, or a value of a graph.
Entries = Any


def elementwise(
    read: Callable[[Operand, Places, Shape], Entries | None],
    op: Callable[..., Entries],
    operands: Sequence[Operand],
    places: Places,
    shape: Shape,
) -> Entries | None:
    """The entries of a result at the places that it stores: the op, of the entries of operands there.

    read : gives an operand's entries at the places, or None where that takes more than reading them.
    """
    entries = []
    for x in operands:
        operand_entries = read(x, places, shape)
        if operand_entries is None:
            return None
        entries.append(operand_entries)
    return op(*entries)


class StoredMatrices(ABC):
    """Products with stored matrices, or batches of them, by their rows."""

    @abstractmethod
    def times(self, s: Operand, x: Entries) -> Entries:
        """Stored matrices times dense ones."""

    @abstractmethod
    def times_at(self, s: Operand, x: Entries, places: Places) -> Entries:
        """Some entries of the product of a stored matrix with a dense one."""

    @abstractmethod
    def turned(self, s: Operand) -> Operand:
        """Stored matrices, transposed."""

    @abstractmethod
    def transposed(self, x: Entries) -> Entries:
        """Dense matrices, transposed."""

    @abstractmethod
    def turned_places(self, places: Places) -> Places:
        """Places in the transposed matrix."""


def product(N: StoredMatrices, s: Operand, x: Entries, is_first: bool) -> Entries:
    """The product of stored and dense matrices; the stored ones are the first factor or the second."""
    if is_first:
        return N.times(s, x)
    return N.transposed(N.times(N.turned(s), N.transposed(x)))


def product_at(N: StoredMatrices, s: Operand, x: Entries, places: Places, is_first: bool) -> Entries:
    """Some entries of such a product."""
    if is_first:
        return N.times_at(s, x, places)
    return N.times_at(N.turned(s), N.transposed(x), N.turned_places(places))


__all__ = ["StoredMatrices", "elementwise", "product", "product_at"]
