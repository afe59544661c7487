"""Calling convention of graphs on sparse values: a call passes entries and index arrays.

The graph that takes these (`OnPatterns.core`) knows no patterns: whatever it reads of one is an input. The
classes here say how a call computes such an input; `graph.sparse.lowering_state` says which inputs there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from iverson.core.protocols import LayoutValue, NDArray, Params
from iverson.core.table import TABLE
from iverson.graph.ir.nodes import UNDEFINED, Graph
from iverson.graph.lowering.padding import padded, trimmed
from iverson.kernels.kernel_registry import run, run_in_layouts
from iverson.kernels.sparse.sparse_operands import read
from iverson.kernels.sparse.sparse_reductions import lines_of
from iverson.layouts import Pattern, Sparse, is_strided
from iverson.layouts.pattern import addresses
from iverson.layouts.pattern_symbols import Binding, PatternSymbol, actual, kept
from iverson.layouts.placement import rows


@dataclass(frozen=True, slots=True)
class Given:
    """An input of the core that is the graph's input of this number."""

    number: int


@dataclass(frozen=True, slots=True)
class Entries:
    """An input of the core that holds the entries at a pattern of one of the graph's."""

    number: int
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Along:
    """An input of the core that holds the index of each entry of a pattern along an axis."""

    pattern: Pattern
    axis: int


@dataclass(frozen=True, slots=True)
class Rows:
    """An input of the core that says where a pattern's rows start (part 0), in which column each of its
    entries or blocks is (1), or which of the entries these are (2), as of `layouts.placement.rows`."""

    pattern: Pattern
    part: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        p = self.pattern
        lines = prod(p.shape[:-1])
        if p.layout != "bsr" or p.blocksize is None:
            return (lines + 1,) if self.part == 0 else (p.count,)
        return (lines // p.blocksize[0] + 1,) if self.part == 0 else p.stored_shape[:1]


@dataclass(frozen=True, slots=True)
class Valid:
    """An input of the core that says which of so many entries (or blocks) are a pattern's own."""

    pattern: PatternSymbol
    extent: int


@dataclass(frozen=True, slots=True)
class Gaps:
    """An input of the core: for each line of a pattern's array, the first place that is not stored.

    It is the line's length if the whole line is stored.

    axis : the axes along which the lines are.
    count : number of lines.
    """

    pattern: Pattern
    axis: tuple[int, ...]
    count: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return (self.count,)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Patterns that the array follows from."""
        return (self.pattern,)

    def of(self, binding: Binding) -> Any:
        """The array, for a call."""
        pattern = actual(self.pattern, binding)
        return pattern.once(("gaps", self.axis), lambda: self._of(pattern))

    def _of(self, pattern: Pattern) -> Any:
        lines = lines_of(pattern, self.axis)
        gaps = np.zeros(self.count, np.int64)
        gaps[lines.ids] = lines.gaps
        return gaps


@dataclass(frozen=True, slots=True)
class Into:
    """An input of the core: for each entry of ``at``, the number of the entry of ``into`` to add it to.

    Both are patterns. The sum is over all axes of ``at`` but ``kept``; ``into`` has an entry for each of
    them.
    """

    at: Pattern
    into: Pattern
    kept: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return (self.at.count,)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Patterns that the array follows from."""
        return self.at, self.into

    def of(self, binding: Binding) -> Any:
        """The array, for a call."""
        at, into = actual(self.at, binding), actual(self.into, binding)

        def found() -> Any:
            keys = addresses(at.coordinates[list(self.kept)], tuple(at.shape[k] for k in self.kept))
            return padded(into.find(keys)[0], 0, self.at.count)

        return kept(("into", self.kept, self.at.count), (at, into), found)


@dataclass(frozen=True, slots=True)
class Pairs:
    """An input of the core that says, for each entry of one pattern and each of another, which entry of a
    third is at their place in the Kronecker product of the first and the second; -1 for none.

    turned : whether the second pattern is the first factor.
    """

    at: Pattern
    other: Pattern
    of_product: Pattern
    turned: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return (self.at.count * self.other.count,)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Patterns that the array follows from."""
        return self.at, self.other, self.of_product

    def of(self, binding: Binding) -> Any:
        """The array, for a call."""
        p, q, g = (actual(x, binding) for x in self.patterns)

        def found() -> Any:
            inner = p.shape if self.turned else q.shape
            coordinates = [x.coordinates.astype(np.int64) for x in (p, q)]
            scaled = coordinates[self.turned]
            scaled *= np.array(inner)[:, None]
            places = np.add(coordinates[0][:, :, None], coordinates[1][:, None, :]).reshape(len(inner), -1)
            at, there = g.find(addresses(places, g.shape))
            return np.where(there, at, -1)

        return kept(("pairs", self.turned), (p, q, g), found)


@dataclass(frozen=True, slots=True)
class Move:
    """An op that puts each entry of stored operands to a place of its own in the result.

    key : identifies the op, its parameters and the operands that it does not move.
    values : ``values(which, patterns)`` gives the result, where the operand of that number holds the
        number of each of its entries, from 1, and the others nothing that changes it.
    moved : numbers of the operands. jointly : whether the result is the sum of the results for each operand;
        if not, their product.
    """

    key: Any
    values: Callable[[int, Sequence[Pattern]], Any] = field(compare=False)
    moved: tuple[int, ...]
    jointly: bool


@dataclass(frozen=True, slots=True)
class Places:
    """An input of the core: for each entry of the pattern ``at``, the number of an entry of ``of[which]``.

    It is the entry at the same place, or, with ``move``, the one that the op moves to this place. It is -1 if
    there is none.

    dense : extents of the axes behind the pattern's own, if slices are stored.
    """

    at: Pattern
    of: tuple[Pattern, ...]
    which: int = 0
    move: Move | None = None
    dense: tuple[int, ...] = ()

    def found(self, binding: Binding) -> Any:
        """The array, for a call."""
        at, *of = (actual(p, binding) for p in (self.at, *self.of))
        extent = self.at.count
        key = "places", extent, self.which, self.move and self.move.key, self.dense
        return kept(key, (at, *of), lambda: padded(self._found(at, of), 0, extent, -1))

    def _found(self, at: Pattern, of: Sequence[Pattern]) -> Any:
        if self.move is None:
            numbers = read(numbered(of[self.which], self.dense), at, at.shape)
        else:
            value = self.move.values(self.which, of)
            numbers = read(value, at, value.shape)
        return np.asarray(numbers, np.int64).reshape(at.count) - 1


def numbered(pattern: Pattern, dense: Sequence[int] = ()) -> Any:
    """A value that holds the number of each of its entries, from 1, with ``dense`` axes behind."""
    count = pattern.count
    return pattern.value(np.arange(1, count * prod(dense) + 1).reshape((count, *dense)))


@dataclass(frozen=True, slots=True)
class Beyond:
    """An input or output of this number that has an axis of a pattern's entries; in the core, padding follows
    them. ``extent`` includes the padding."""

    number: int
    axis: int
    pattern: PatternSymbol
    extent: int

    def count(self, binding: Binding) -> int:
        """The extent without the padding."""
        return self.pattern.at(binding).stored_shape[0] * (self.extent // self.pattern.stored_shape[0])


@dataclass(frozen=True, slots=True)
class Packed:
    """An output of the graph: the core's output of this number, as entries on a pattern."""

    number: int
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Converted:
    """An output of the graph: the core's output of this number, converted by `to_layout`."""

    number: int
    params: Params


@dataclass(frozen=True, eq=False)
class OnPatterns:
    """A graph without sparse values, and how a call of the one it was made of becomes a call of it.

    takes : how a call computes each input of the core. gives : the form of each output of the graph: the
    number of an output of the core, `Packed`, `Converted`, `Beyond`, or UNDEFINED.
    """

    core: Graph
    takes: tuple[Take, ...]
    gives: tuple[Any, ...]

    def opened(self, values: Sequence[LayoutValue], binding: Binding) -> list[Any]:
        """Values for the core's inputs, from those for the graph's."""
        return [_taken(t, values, binding) for t in self.takes]

    def packed(self, made: Sequence[NDArray], binding: Binding) -> list[Any]:
        """The graph's outputs, from the core's."""
        outputs: list[Any] = []
        for g in self.gives:
            if type(g) is Packed:
                pattern = actual(g.pattern, binding)
                outputs.append(pattern.value(trimmed(made[g.number], 0, pattern.count)))
            elif type(g) is Converted:
                outputs.append(TABLE["to_layout"].forward(made[g.number], **g.params))
            elif type(g) is Beyond:
                outputs.append(trimmed(made[g.number], g.axis, g.count(binding)))
            else:
                outputs.append(UNDEFINED if g is UNDEFINED else made[g])
        return outputs


def _taken(take: Take, values: Sequence[LayoutValue], binding: Binding) -> Any:
    """Value for one input of the core, from the ``values`` and the ``binding`` of a call."""
    if type(take) is Given:
        return values[take.number]
    if type(take) is Beyond:
        return padded(values[take.number], take.axis, take.extent)
    if type(take) is Places:
        return take.found(binding)
    if type(take) is Gaps or type(take) is Into or type(take) is Pairs:
        return take.of(binding)
    symbol: Any = take.pattern  # type: ignore[union-attr]
    pattern, count = actual(symbol, binding), symbol.count
    if type(take) is Along:
        axis = take.axis
        if pattern.count == count:
            return pattern.index_array(axis)
        key = "index array", axis, count
        return pattern.once(key, lambda: padded(pattern.index_array(axis), 0, count))
    if type(take) is Rows:
        return pattern.once(("by rows", take.part, take.shape), lambda: _by_rows(pattern, take))
    if type(take) is Valid:
        n = pattern.count * take.extent // symbol.count
        return pattern.once(("valid", n, take.extent), lambda: np.arange(take.extent) < n)
    return padded(entries_of(values[take.number], pattern), 0, count)  # type: ignore[union-attr]


def _by_rows(pattern: Pattern, take: Rows) -> Any:
    parts = rows(pattern)
    if take.part == len(parts):  # in order, as others that the program is for need not be
        parts = (*parts, np.arange(pattern.count, dtype=pattern.index_dtype))
    return padded(parts[take.part], 0, *take.shape)


def entries_of(value: LayoutValue, pattern: Pattern) -> Any:
    """The entries of a value at a pattern: (count, *dense axes)."""
    if isinstance(value, Sparse) and value.pattern is pattern:
        return value.entries
    op, params = TABLE["values_at"], {"pattern": pattern}
    entries = op.forward(value, **params) if is_strided(value) else run_in_layouts(op, (value,), params)
    shape = (pattern.count, *entries.shape[len(pattern.stored_shape) :])
    return run(TABLE["reshape"], (entries,), {"shape": shape})  # it may be a selection


Take = Given | Entries | Along | Rows | Gaps | Into | Pairs | Places | Valid | Beyond
