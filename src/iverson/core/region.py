"""Regions: boxes of index space between two corners. Box layouts and box demands are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from math import prod
from operator import add, ge, sub
from typing import NamedTuple

from iverson.core.shapes import Shape


class Region(NamedTuple):
    """All indices i with ``start[k] <= i[k] < stop[k]`` on every axis k.

    >>> Region((1, 0), (3, 4)).intersect(Region((2, 2), (5, 9)))
    Region(start=(2, 2), stop=(3, 4))
    """

    start: Shape
    stop: Shape

    @staticmethod
    def full(shape: Shape) -> Region:
        """The whole index space of an array."""
        return Region((0,) * len(shape), shape)

    @staticmethod
    def around(regions: Sequence[Region]) -> Region:
        """The smallest region that contains all of ``regions``, none of which may be empty."""
        if len(regions) == 1:
            return regions[0]
        starts, stops = zip(*regions, strict=True)
        return Region(tuple(map(min, *starts)), tuple(map(max, *stops)))

    @property
    def shape(self) -> Shape:
        return tuple(map(max, map(sub, self.stop, self.start), repeat(0)))

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Key that reads this region out of an array: slices of step 1, also for empty regions."""
        return tuple([slice(a, b if b > a else a, 1) for a, b in zip(self.start, self.stop, strict=True)])

    def covers(self, shape: Shape) -> bool:
        """True if this region is all of an array of the given shape."""
        return self.stop == shape and not any(self.start)

    def intersect(self, other: Region) -> Region:
        start = tuple(map(max, self.start, other.start))
        stop = tuple(map(min, self.stop, other.stop))
        return Region(start, tuple(map(max, start, stop)))

    def hull(self, other: Region) -> Region:
        """The smallest region that holds both (an empty one adds nothing)."""
        if any(map(ge, self.start, self.stop)):
            return other
        if any(map(ge, other.start, other.stop)):
            return self
        return Region(tuple(map(min, self.start, other.start)), tuple(map(max, self.stop, other.stop)))

    def shifted(self, by: Iterable[int]) -> Region:
        by = tuple(by)
        return Region(tuple(map(add, self.start, by)), tuple(map(add, self.stop, by)))

    def within(self, outer: Region) -> Region:
        """This region in coordinates that count from the first corner of ``outer``."""
        return Region(tuple(map(sub, self.start, outer.start)), tuple(map(sub, self.stop, outer.start)))

    def permuted(self, axes: Shape) -> Region:
        return Region(tuple(self.start[k] for k in axes), tuple(self.stop[k] for k in axes))

    def on(self, axis: int, start: int, stop: int) -> Region:
        """This region with the interval from ``start`` to ``stop`` along ``axis``, in place of its own."""
        k = axis
        return Region(
            (*self.start[:k], start, *self.start[k + 1 :]), (*self.stop[:k], stop, *self.stop[k + 1 :])
        )

    def along(self, axes: Shape, shape: Shape) -> Region:
        """This region extended along ``axes`` to the whole extent of an array of ``shape``."""
        return Region(
            tuple(0 if k in axes else a for k, a in enumerate(self.start)),
            tuple(n if k in axes else b for k, (b, n) in enumerate(zip(self.stop, shape, strict=True))),
        )

    def projected(self, shape: Shape) -> Region:
        """Region of an operand of ``shape`` that this region of the broadcast result reads."""
        lead = len(self.start) - len(shape)
        if not lead and 1 not in shape:
            return self
        return Region(
            tuple(0 if n == 1 else self.start[lead + k] for k, n in enumerate(shape)),
            tuple(1 if n == 1 else self.stop[lead + k] for k, n in enumerate(shape)),
        )

    def broadcast(self, shape: Shape, to: Shape) -> Region:
        """Region of the result that may be nonzero if an operand of ``shape`` that is zero outside of this
        region is broadcast to the shape ``to``.

        Along an axis of extent 1 that is stretched, this is the whole axis of the result, or nothing.
        """
        lead = len(to) - len(shape)
        start, stop = [0] * lead, list(to[:lead])
        for k, n in enumerate(shape):
            stretched = n == 1 and to[lead + k] != 1
            start.append(0 if stretched else self.start[k])
            stop.append(to[lead + k] * (self.stop[k] - self.start[k]) if stretched else self.stop[k])
        return Region(tuple(start), tuple(stop))
