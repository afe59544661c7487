"""Pattern placement: where the entries of one pattern are in another, be it another layout of it or a part.

Placements are kept on the patterns. How a layout arranges entries is defined in the folder of the layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.layouts import counting_sorts
from iverson.layouts.layout_registry import Blocks, layout_named
from iverson.layouts.pattern import Array, Pattern, Sparse
from iverson.layouts.weak_tables import ForOthers


@dataclass(frozen=True, slots=True)
class Padded:
    """Of entries that are put into blocks: the position of each among ``count``, of which others are 0."""

    at: Array
    count: int


#: Where the entries of a converted value come from.
Source = Array | slice | Padded | None
FoundSource = Source | Callable[[], Source]
#: A pattern in another layout, the entries of a value on it, and what finds where these come from.
WithEntries = tuple[Pattern, Array, Callable[[], Source]]


@dataclass(frozen=True, slots=True)
class ByPattern:
    """`Layout.from_coo` of a layout on patterns that holds any entries of a shape that fits it.

    arrange : ``arrange(pattern, blocksize)`` gives a pattern in the layout that stores at least the entries
        of another, in which each is stored once, and where its own come from.
    carry : ``carry(pattern, blocks, entries)`` arranges the entries of a value with its pattern, where that
        takes fewer passes than to find their order first; None where it does not.
    """

    layout: str
    arrange: Callable[[Pattern, Blocks], tuple[Pattern, Source]]
    carry: Callable[[Pattern, Blocks, Array], WithEntries | None] = lambda pattern, blocks, entries: None

    def __call__(self, value: Sparse, blocks: Blocks) -> Any:
        pattern = value.pattern
        key = "converted", self.layout, blocks
        if (
            key not in pattern._facts
            and (arrangement := self.carry(pattern, blocks, value.entries)) is not None
        ):
            target, entries, source = arrangement
            pattern.once(key, lambda: _with_placements(pattern, target, source))
            return target.value(entries)
        target, order = self.converted(pattern, blocks)
        return target.value(reordered(value.entries, order))

    def converted(self, pattern: Pattern, blocks: Blocks) -> tuple[Pattern, Source]:
        """A pattern in the layout, made at the first call, and where its entries come from."""
        if pattern.layout == self.layout and pattern.blocksize == blocks:
            return pattern, None
        target, source = pattern.once(
            ("converted", self.layout, blocks),
            lambda: _with_placements(pattern, *self.arrange(pattern, blocks)),
        )
        return target, source() if callable(source) else source


def converted(pattern: Pattern, layout: str, blocks: Blocks = None) -> tuple[Pattern, Source]:
    """A distinct pattern in another layout, which holds any entries, and where its entries come from."""
    if pattern.layout == layout and pattern.blocksize == blocks:
        return pattern, None
    arranging = layout_named(layout).from_coo
    assert isinstance(arranging, ByPattern)
    return arranging.converted(pattern, blocks)


def rows(pattern: Pattern) -> tuple[Array, ...]:
    """Entries of a distinct pattern of matrices by rows: where each row starts, in which column each entry is
    and, unless they are stored so, which entries these are. Lines of blocks are left as they are."""
    result: tuple[Array, ...] = pattern.once("by rows", lambda: _rows(pattern))
    return result


def _rows(pattern: Pattern) -> tuple[Array, ...]:
    target: Any
    target, source = (pattern, None) if pattern.layout == "bsr" else converted(pattern, "csr")
    assert not isinstance(source, Padded)  # rows hold any entries
    parts = [target.indptr, target.indices]
    if not pattern.by_rows:
        every = np.arange(pattern.count)
        parts.append(every if source is None else every[source] if isinstance(source, slice) else source)
    return tuple(x.astype(pattern.index_dtype, copy=False) for x in parts)


def _with_placements(pattern: Pattern, target: Pattern, source: FoundSource) -> tuple[Pattern, FoundSource]:
    """Note the places of a pattern's entries in a converted one: a `Source`, or a function that finds one."""

    def at() -> Any:
        order = source() if callable(source) else source
        if isinstance(order, Padded):
            return order.at
        return slice(None) if order is None else order

    is_padded = target.count != pattern.count
    placements(target)[pattern] = Placement(None, at, put=is_padded)
    placements(pattern)[target] = Placement(None, at, put=not is_padded)
    return target, source


def reordered(entries: Array, source: Source) -> Array:
    """Stored entries in the order of a converted pattern."""
    if source is None:
        return entries
    if isinstance(source, slice):
        return entries[source]
    if isinstance(source, Padded):
        out = np.zeros((source.count, *entries.shape[1:]), entries.dtype)
        out[source.at] = entries
        return out
    return counting_sorts.taken(entries, source)


class Placement:
    """A way to read entries on one pattern at another: take them at the positions ``at``, or put them there.

    source : the order, of the entries as they are stored, in which they are taken first.
    at : gives positions among the entries there if ``put``, else among those read.
    """

    __slots__ = ("at", "put", "source")

    def __init__(self, source: Source, at: Callable[[], Array | slice], put: bool) -> None:
        self.source = source
        self.at = at
        self.put = put

    def read(self, entries: Array, count: int) -> Array:
        """The entries at the other pattern, which stores ``count``; 0 where there is none."""
        if self.source is not None:
            entries = reordered(entries, self.source)
        if not self.put:
            return counting_sorts.taken(entries, self.at())
        out = np.zeros((count, *entries.shape[1:]), entries.dtype)
        out[self.at()] = entries
        return out


def placements(pattern: Pattern) -> ForOthers[Placement]:
    """The known placements at this pattern, by the patterns whose values they read."""
    table: ForOthers[Placement] | None = pattern._facts.get("placements")
    return pattern.once("placements", ForOthers) if table is None else table


def subset(pattern: Pattern, at: Array) -> Pattern:
    """A pattern of at least the entries at increasing positions; if of those alone, where they are from is
    kept."""
    if at.size == pattern.count or len(pattern.stored_shape) > 1:
        return pattern
    part = pattern.subset(at)
    if part.stored_shape == at.shape and pattern.distinct:
        placements(part)[pattern] = Placement(None, lambda: at, put=False)
        placements(pattern)[part] = Placement(None, lambda: at, put=True)
    return part
