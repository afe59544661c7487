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
    """Source of entries put among zeros: old entry k goes to position ``at[k]`` of ``count`` entries."""

    at: Array
    count: int


#: Where the entries of a converted value come from.
Source = Array | slice | Padded | None
FoundSource = Source | Callable[[], Source]
#: A pattern in another layout, the entries of a value on it, and what finds where these come from.
WithEntries = tuple[Pattern, Array, Callable[[], Source]]


@dataclass(frozen=True, slots=True)
class ByPattern:
    """Function for `Layout.from_coo` of a layout whose patterns can store any entries of a shape that fits.

    arrange : ``arrange(pattern, blocksize)`` gives a pattern in the layout that stores at least the entries
        of another, in which each is stored once, and the `Source` of its entries.
    carry : ``carry(pattern, blocks, entries)`` does the same and moves the entries of a value along, where
        that takes fewer passes than to find their order first; None where it does not.
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
        """Pattern in the layout, kept after the first call, and the `Source` of its entries."""
        if pattern.layout == self.layout and pattern.blocksize == blocks:
            return pattern, None
        target, source = pattern.once(
            ("converted", self.layout, blocks),
            lambda: _with_placements(pattern, *self.arrange(pattern, blocks)),
        )
        return target, source() if callable(source) else source


def converted(pattern: Pattern, layout: str, blocks: Blocks = None) -> tuple[Pattern, Source]:
    """Convert ``pattern``, which stores each entry once, to another layout that can store any entries.

    Returns the new pattern and the `Source` of its entries (None if nothing has changed).
    """
    if pattern.layout == layout and pattern.blocksize == blocks:
        return pattern, None
    arranging = layout_named(layout).from_coo
    assert isinstance(arranging, ByPattern)
    return arranging.converted(pattern, blocks)


def rows(pattern: Pattern) -> tuple[Array, ...]:
    """Entries of a pattern of matrices by rows: the start of each row, and the column of each entry.

    A third array, the position of each of these entries in ``pattern``, follows unless ``pattern.by_rows``.
    For BSR, the arrays are those of blocks. Each entry must be stored once.
    """
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
    """Note the places of the entries of ``pattern`` in ``target`` and the reverse; return the rest.

    target : ``pattern`` in another layout.
    source : the `Source` of the entries of ``target``, or a function that finds it.
    """

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
    """Entries on a converted pattern: ``entries``, those on the pattern before, moved as ``source`` says."""
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
    """A way to read, at one pattern, entries that are stored on another one.

    source : how the entries are reordered before (see `reordered`).
    at : function that gives positions. With ``put``, entry k goes to position ``at()[k]`` of the result; else
        entry k of the result is read at position ``at()[k]``.
    put : see ``at``.
    """

    __slots__ = ("at", "put", "source")

    def __init__(self, source: Source, at: Callable[[], Array | slice], put: bool) -> None:
        self.source = source
        self.at = at
        self.put = put

    def read(self, entries: Array, count: int) -> Array:
        """The entries at the other pattern, which stores ``count`` entries; 0 where ``entries`` has none."""
        if self.source is not None:
            entries = reordered(entries, self.source)
        if not self.put:
            return counting_sorts.taken(entries, self.at())
        out = np.zeros((count, *entries.shape[1:]), entries.dtype)
        out[self.at()] = entries
        return out


def placements(pattern: Pattern) -> ForOthers[Placement]:
    """Table of the placements that read values of other patterns at ``pattern``, by pattern."""
    table: ForOthers[Placement] | None = pattern._facts.get("placements")
    return pattern.once("placements", ForOthers) if table is None else table


def subset(pattern: Pattern, at: Array) -> Pattern:
    """A pattern of at least the entries at the positions ``at``, which increase.

    If it stores just these entries, their places in ``pattern`` are noted (`placements`). A pattern of blocks
    is returned unchanged.
    """
    if at.size == pattern.count or len(pattern.stored_shape) > 1:
        return pattern
    part = pattern.subset(at)
    if part.stored_shape == at.shape and pattern.distinct:
        placements(part)[pattern] = Placement(None, lambda: at, put=False)
        placements(pattern)[part] = Placement(None, lambda: at, put=True)
    return part
