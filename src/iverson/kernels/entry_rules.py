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
    """Entries of the result of ``op`` at ``places``, which are the entries that the result stores.

    read : gives an operand's entries at the places, or None if they cannot simply be read. The result is then
        None too.
    """
    entries = []
    for x in operands:
        operand_entries = read(x, places, shape)
        if operand_entries is None:
            return None
        entries.append(operand_entries)
    return op(*entries)


class StoredMatrices(ABC):
    """Operations of `product` and `product_at`, on stored (sparse) and dense matrices or batches of them."""

    @abstractmethod
    def times(self, s: Operand, x: Entries) -> Entries:
        """Dense product of the stored matrices ``s`` with the dense matrices ``x``."""

    @abstractmethod
    def times_at(self, s: Operand, x: Entries, places: Places) -> Entries:
        """Entries at ``places`` of the product of a stored matrix ``s`` with a dense matrix ``x``."""

    @abstractmethod
    def turned(self, s: Operand) -> Operand:
        """Transposes of the stored matrices ``s``."""

    @abstractmethod
    def transposed(self, x: Entries) -> Entries:
        """Transposes of the dense matrices ``x``."""

    @abstractmethod
    def turned_places(self, places: Places) -> Places:
        """Places of the same entries in the transposed matrix."""


def product(N: StoredMatrices, s: Operand, x: Entries, is_first: bool) -> Entries:
    """Product of stored and dense matrices: ``s @ x`` if ``is_first``, else ``x @ s``."""
    if is_first:
        return N.times(s, x)
    return N.transposed(N.times(N.turned(s), N.transposed(x)))


def product_at(N: StoredMatrices, s: Operand, x: Entries, places: Places, is_first: bool) -> Entries:
    """Entries at ``places`` of a stored-dense product: ``s @ x`` if ``is_first``, else ``x @ s``."""
    if is_first:
        return N.times_at(s, x, places)
    return N.times_at(N.turned(s), N.transposed(x), N.turned_places(places))


__all__ = ["StoredMatrices", "elementwise", "product", "product_at"]
