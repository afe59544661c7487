"""Rules of stored entries, once for eager code and compiled graphs: entries of a result from operands.

Which entries a result stores is found by kernels; graphs ask them (`deferred_patterns`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iverson.core.shapes import Shape
from iverson.layouts import Pattern

#: A sparse or dense value, or a number.
Operand = Any
#: An array, or a value of a graph.
Entries = Any


def elementwise(
    read: Callable[[Operand, Pattern, Shape], Entries | None],
    op: Callable[..., Entries],
    operands: Sequence[Operand],
    pattern: Pattern,
    shape: Shape,
) -> Entries | None:
    """The entries of a result at the pattern that it stores: the op, of the entries of operands there.

    read : gives an operand's entries at the pattern, or None where that takes more than reading them.
    """
    entries = []
    for x in operands:
        one = read(x, pattern, shape)
        if one is None:
            return None
        entries.append(one)
    return op(*entries)


__all__ = ["elementwise"]
