"""Accumulation of cotangents: a running sum at one place, in as little memory as their supports allow.

The first arrival is kept as it is. Strided arrivals after it are added into one buffer that the sum owns.
Arrivals in smaller layouts wait, at most twice the full size together, and are then summed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.autograd.stored_entries import spread
from iverson.core.dispatch import Handle, LevelValue, make_handle, may_select, value_of
from iverson.core.entries import FULL, Box, Stored, join
from iverson.core.region import Region
from iverson.core.table import TABLE, F
from iverson.kernels.index_keys import key_region
from iverson.layouts import Packed, Strided, layout_of, support_of


class Sum:
    """Running sum of cotangents: handles of one shape and dtype.

    recording : True if the pass is recorded: then no term is added in place.
    """

    __slots__ = ("_owned", "_pending", "_pending_bytes", "_recording")

    def __init__(self, first: Handle, recording: bool) -> None:
        self._owned: Any = None
        self._pending = [first]
        self._pending_bytes = 0
        self._recording = recording

    def add(self, handle: Handle) -> None:
        """Add one more cotangent."""
        value = handle._value
        if self._recording or handle._node is not None:
            self._pending.append(handle)
            return
        if self._owned is not None and type(value) is Strided:
            self._owned += value
            return
        self._pending.append(handle)
        self._pending_bytes += sum(b.nbytes for b in layout_of(value).buffers(value))
        full = prod(value.shape) * value.dtype.itemsize
        if type(value) is Strided or self._pending_bytes > 2 * full:
            self._flush()

    def _flush(self) -> None:
        """Add the terms that wait, and start anew from their sum.

        A strided sum is kept as a buffer of its own, to which later strided terms are added in place.
        """
        terms = self._pending if self._owned is None else [make_handle(self._owned), *self._pending]
        total = added(terms)._value
        self._pending = []
        self._pending_bytes = 0
        if type(total) is Strided:
            # Later arrivals are added in place. Beside zeros the sum is the other term itself: not ours.
            self._owned = total.copy() if any(total is term._value for term in terms) else total
        else:
            self._pending = [make_handle(total)]
            self._owned = None

    def total(self) -> Any:
        """The sum as one handle."""
        terms = self._pending if self._owned is None else [make_handle(self._owned), *self._pending]
        return terms[0] if len(terms) == 1 else added(terms)


def added(terms: Sequence[Handle]) -> Any:
    """The sum of ``terms``, cotangents or tangents, without entries that are in none of their supports.

    Such entries are structurally zero in the result. Among boxes these are the entries of the region around
    them that no box has; among patterns beside a box or a selection, all entries outside of the supports.
    """
    supports = [support_of(value_of(x)) for x in terms]
    on_pattern = [isinstance(s, Stored) for s in supports]
    # Of patterns alone, the sum is stored where any of them is, which a trace does not know.
    unknown = not all(on_pattern) or any(isinstance(value_of(x), LevelValue) for x in terms)
    full = [x for x, s in zip(terms, supports, strict=True) if s is FULL]
    selections = all(may_select(x) or type(value_of(x)) is Packed for x in full)
    if any(on_pattern) and unknown and selections and join(supports) is FULL:
        terms = list(map(spread, terms))
    total = F.add_n(*terms)
    regions = [r for r in map(_box_of, terms) if r is not None]
    if len(regions) < len(terms):
        return total
    around = Region.around(regions)
    if around in regions:
        return total
    there = np.zeros(around.shape, bool)
    for region in regions:
        there[region.within(around).slices] = True
    if there.all():
        return total
    if around.covers(total.shape):
        return F.bracket(there, total, negated=False)
    part = F.bracket(there, F.index_basic(total, key=around.slices), negated=False)
    return F.embed(part, key=around.slices, shape=total.shape)


def _box_of(term: Handle) -> Region | None:
    """The region outside of which a cotangent is zero, also in its derivatives; None if no such box is known.

    It is None for a selection too.
    """
    value, node = term._value, term._node
    if type(value) is Strided or may_select(term):
        return None
    support = support_of(value)
    if not isinstance(support, Box):
        return None
    if node is None:
        return support.region
    # What is embedded may be zero in parts for now; what is around it is so in derivatives, too.
    return key_region(node.params["key"], value.shape) if node.op is TABLE["embed"] else None
