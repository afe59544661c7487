"""Buckets of lines: listed entries of a sparse mask as a few small matrices, for ops along an axis.

Lines whose numbers of entries are between two powers of two make a matrix with a mask that is at least half
full. So an op along an axis is that op on a few small masked matrices, with work that grows with the number
of entries, however long or uneven the lines are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.core.protocols import NDArray, Value
from iverson.core.python.cached import cached_property
from iverson.masked.mask import Mask
from iverson.ops import F


@dataclass(frozen=True, slots=True)
class Bucket:
    """Lines of similar length as the rows of a masked matrix.

    mask : the mask of the matrix. start, stop : the range of its entries in bucketed order.
    """

    mask: Mask
    start: int
    stop: int


class Lines:
    """Entries of a mask, grouped into lines: entries of one line differ only in their indices on the reduced
    axes.

    keys : for each line with entries, its row-major address on the axes that stay.
    lengths : the number of entries of each line.
    line : for each entry, the number of its line.
    inner : for each entry, its row-major address on the other axes, within the line.
    """

    def __init__(self, where: NDArray, inner: NDArray) -> None:
        self.inner = inner
        self._order = np.lexsort((inner, where))
        sorted_ = where[self._order]
        first = np.ones(sorted_.size, bool)
        first[1:] = sorted_[1:] != sorted_[:-1]
        self._starts = np.flatnonzero(first)
        self.keys: NDArray = sorted_[self._starts]
        self.lengths: NDArray = np.diff(self._starts, append=sorted_.size)
        self.line = np.empty(sorted_.size, np.intp)
        self.line[self._order] = np.cumsum(first) - 1

    @cached_property
    def bucketed(self) -> NDArray:
        """Numbers of the lines, sorted by bucket."""
        lines: NDArray = np.argsort(np.ceil(np.log2(self.lengths)), kind="stable")
        return lines

    @cached_property
    def order(self) -> NDArray:
        """Numbers of the entries in bucketed order: sorted by bucket, then by line, then by address in the
        line.
        """
        lengths = self.lengths[self.bucketed]
        skipped = np.repeat(self._starts[self.bucketed] - np.cumsum(lengths) + lengths, lengths)
        entries: NDArray = self._order[np.arange(skipped.size) + skipped]
        return entries

    @cached_property
    def ranks(self) -> NDArray:
        """Number of entries before each entry on its line; the entries are in bucketed order."""
        lengths = self.lengths[self.bucketed]
        positions: NDArray = np.arange(self.line.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return positions

    @cached_property
    def buckets(self) -> list[Bucket]:
        """List of the buckets, those with the shortest lines first."""
        lengths = self.lengths[self.bucketed]
        ends = np.append(np.flatnonzero(np.diff(np.ceil(np.log2(lengths)))) + 1, lengths.size)
        buckets, line, entry = [], 0, 0
        for end in ends.tolist() if lengths.size else []:
            mask = Mask(np.arange(lengths[line:end].max()) < lengths[line:end, None])
            buckets.append(Bucket(mask, entry, entry + mask.count))
            line, entry = end, entry + mask.count
        return buckets

    def at(self, ranks: Value) -> Any:
        """Number of the entry that has a given rank on each line, as a handle.

        ranks : for each line, in the order of ``keys``, a position among the line's entries.
        """
        return F.gather(self._order, F.add(ranks, self._starts), axes=(0,))
