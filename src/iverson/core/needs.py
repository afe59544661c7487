"""Needs: which entries of a cotangent somebody reads. `Need = Nothing | Full | Box | Pattern | Factored`.

Needs are worked out per reverse pass and handed to rules as arguments; nothing here is state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from iverson.core.region import Region


@dataclass(frozen=True, slots=True, eq=False)
class Nothing:
    """Nobody reads this cotangent: it is not computed."""


@dataclass(frozen=True, slots=True, eq=False)
class Full:
    """Every entry is read."""


@dataclass(frozen=True, slots=True)
class Box:
    """Only the entries in a region are read."""

    region: Region


@dataclass(frozen=True, slots=True)
class Pattern:
    """Only the entries stored by a sparse pattern are read. Equal patterns are the same object.

    products : they are read in matrix products alone, so that the cotangent may come as `Factors`.
    """

    pattern: Any
    products: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Factored:
    """Every entry is read, but in matrix products alone: the cotangent may come as `Factors`."""

    products: ClassVar[bool] = True


class Factors:
    """The matrix ``left @ right``, not multiplied out: a cotangent that only products read.

    need : which entries of it are.
    """

    __slots__ = ("left", "need", "right")

    def __init__(self, left: Any, right: Any) -> None:
        self.left = left
        self.right = right
        self.need: Need = FULL

    @property
    def dtype(self) -> Any:
        return np.result_type(self.left.dtype, self.right.dtype)


Need = Nothing | Full | Box | Pattern | Factored
NOTHING = Nothing()
FULL = Full()
FACTORED = Factored()


def in_products(need: Need) -> bool:
    """Whether a cotangent is read in matrix products alone."""
    return getattr(need, "products", False)


def entry_by_entry(need: Need) -> Need:
    """The same entries, however they are read."""
    if type(need) is Pattern:
        return Pattern(need.pattern) if need.products else need
    return FULL if need is FACTORED else need


def union(needs: Iterable[Need]) -> Need:
    """The smallest need that holds all of the given ones.

    >>> union([Box(Region((0,), (2,))), NOTHING, Box(Region((4,), (5,)))])
    Box(region=Region(start=(0,), stop=(5,)))
    """
    result: Need = NOTHING
    for need in needs:
        if result is NOTHING or need == result:
            result = need
        elif isinstance(need, Box) and isinstance(result, Box):
            result = Box(result.region.hull(need.region))
        elif isinstance(need, Pattern) and isinstance(result, Pattern) and need.pattern is result.pattern:
            result = Pattern(need.pattern)
        elif need is not NOTHING:
            return FULL
    return result
