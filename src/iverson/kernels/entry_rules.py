"""Rules of stored entries, once for eager code and compiled graphs: entries of a result from operands.

Which entries a result stores is found by kernels; graphs ask them (`deferred_patterns`).
"""

from __future__ import annotations

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
        one = read(x, places, shape)
        if one is None:
            return None
        entries.append(one)
    return op(*entries)


__all__ = ["elementwise"]
