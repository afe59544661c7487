"""Needs: which entries of a cotangent somebody reads. `Need = Nothing | Full | Box | Pattern`.

Needs are worked out per reverse pass and handed to rules as arguments; nothing here is state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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
    """Only the entries stored by a sparse pattern are read. Equal patterns are the same object."""

    pattern: Any


Need = Nothing | Full | Box | Pattern
NOTHING = Nothing()
FULL = Full()


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
        elif need is not NOTHING:
            return FULL
    return result
