"""Patterns that are known only when a program runs: symbols, equal where the patterns are.

A symbol stands for any pattern of a layout, shape and number of entries. What follows from these is known of
it, and what else follows from a pattern is another symbol (its transpose), found in the pattern itself when a
call says which that is (`Binding`). Where entries are can't be read: `PatternRead` says that it was tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn
from weakref import ref

import numpy as np

from iverson.core.caller import is_of_users
from iverson.core.errors import GraphError
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.layouts.compressed import CompressedPattern
from iverson.layouts.coo import CooPattern
from iverson.layouts.pattern import Array, Pattern

#: Which pattern each symbol is, in a call.
Binding = dict["PatternSymbol", Pattern]


class PatternRead(GraphError):
    """Something needs to know where the entries of a pattern are that is not known yet."""

    def __init__(self) -> None:
        super().__init__(
            "trace",
            got="a read of where the entries of a sparse operand are",
            expected="what is the same for all patterns of its layout, shape and number of entries",
            remedy="close over the operand, whose pattern is then a constant",
        )


def _compared(how: Callable[..., Any]) -> Any:
    def compare(self: int, *other: Any) -> Any:
        if is_of_users():
            raise PatternRead
        return how(self, *other)

    return compare


def _unchanged(pattern: Pattern) -> Pattern:
    return pattern


class StandIn(int):
    """A number of entries that stands for any: who is not of the package can compute with it, but not compare
    it, since a trace goes one way."""

    __slots__ = ()

    __lt__, __le__, __gt__, __ge__ = map(_compared, (int.__lt__, int.__le__, int.__gt__, int.__ge__))
    __eq__, __ne__ = map(_compared, (int.__eq__, int.__ne__))
    __hash__, __bool__ = map(_compared, (int.__hash__, int.__bool__))

    def __mul__(self, other: Any) -> Any:
        found = int.__mul__(self, other)
        return StandIn(found) if type(found) is int else found

    __rmul__ = __mul__


class PatternSymbol(Pattern):
    """A pattern of which all is known but where its entries are.

    model : a pattern of the same layout and shape that stores nothing, of which symbols learn their layout.
    count : how many entries are stored, or blocks.
    capacity : whether that many is at most how many entries there are.
    by_rows : as of patterns; what follows from another symbol is so where its layout says it.
    how : of one that follows from another symbol, how: from that one's pattern to its own, and back.
    """

    __slots__ = ("_back", "_by_rows", "_how", "_source", "capacity", "kind", "layout", "model")

    def __init__(
        self,
        model: Any,
        count: int,
        source: PatternSymbol | None = None,
        how: tuple[Callable[[Any], Pattern], Callable[[Any], Pattern]] | None = None,
        *,
        capacity: bool = False,
        by_rows: bool = False,
    ) -> None:
        super().__init__(model.shape, (count, *model.stored_shape[1:]))
        self.model = model
        self.layout, self.kind = model.layout, model.kind
        self._how: Callable[[Any], Pattern]
        self._back: Callable[[Any], Pattern]
        self._how, self._back = how or (_unchanged, _unchanged)
        self.capacity = capacity
        self._by_rows = by_rows
        #: What it follows from: a part of that, or kept as long as that is.
        self._source: Any = None if source is None else ref(source)

    def at(self, binding: Binding) -> Pattern:
        """The pattern that it stands for."""
        found = binding.get(self)
        if found is None:
            source = None if self._source is None else self._source()
            assert source is not None, "a symbol that no input has"
            found = binding[self] = self._how(source.at(binding))
        return found

    def with_capacity(self, count: int) -> PatternSymbol:
        """A new symbol for patterns like its own that store at most so many entries, or blocks."""
        return PatternSymbol(self.model, count, capacity=True, by_rows=self._by_rows)

    @property
    def root(self) -> PatternSymbol:
        """The symbol that it follows from in the end."""
        source = None if self._source is None else self._source()
        return self if source is None else source.root

    def bind(self, pattern: Pattern, binding: Binding) -> None:
        """Say which pattern it stands for, and so which those that it follows from do."""
        binding[self] = pattern
        source = None if self._source is None else self._source()
        if source is not None and source not in binding:
            source.bind(self._back(pattern), binding)

    @property
    def extents(self) -> tuple[int, int]:
        """How many entries, or blocks, are stored, and how many entries."""
        return self.stored_shape[0], self.count

    @property
    def blocksize(self) -> tuple[int, int] | None:
        return self.model.blocksize  # type: ignore[no-any-return]

    @property
    def index_dtype(self) -> Any:
        return self.model.index_dtype

    @property
    def distinct(self) -> bool:
        return True

    @property
    def by_rows(self) -> bool:
        return self._by_rows or (self.layout != "coo" and self.model.by_rows)

    def permuted(self, axes: Shape) -> Pattern:
        """As `Pattern.permuted`."""
        if axes == tuple(range(self.ndim)):
            return self
        back = tuple(int(k) for k in np.argsort(axes))
        known = self._facts.get(("back", axes))
        if known is not None and (source := known()) is not None:
            return source  # type: ignore[no-any-return]

        def make() -> PatternSymbol:
            turned = self.model.permuted(axes)
            how = lambda p: p.permuted(axes), lambda p: p.permuted(back)
            made = PatternSymbol(turned, self.stored_shape[0], self, how, capacity=self.capacity)
            made._facts["back", back] = ref(self)
            return made

        found: Pattern = self.once(("permuted", axes), make)
        return found

    def within(self, region: Region) -> Pattern:
        """As `Pattern.within`."""
        return self if region.covers((*self.shape, *region.stop[self.ndim :])) else self._unknown()

    def met_with(self, other: Pattern) -> Pattern:
        """As `Pattern.met_with`."""
        return self if other is self else self._unknown()

    def _unknown(self, *_: Any) -> NoReturn:
        raise PatternRead

    arrays = property(_unknown)
    coordinates = property(_unknown)
    keys = property(_unknown)
    sorted = property(_unknown)
    indices = property(_unknown)
    indptr = property(_unknown)
    _coordinates = along = index_array = lines_along = find = subset = check = _unknown  # type: ignore[assignment]

    def coalescing(self) -> tuple[Pattern, Array]:
        """Its entries are distinct."""
        raise PatternRead

    def __reduce__(self) -> NoReturn:
        raise TypeError("a symbol stands for a pattern of one process")


def symbol_for(pattern: Pattern, count: int | None = None) -> PatternSymbol | None:
    """A new symbol for patterns like one, with so many entries or blocks (by default as many); None for
    patterns that have no symbols."""
    count = pattern.stored_shape[0] if count is None else count
    if type(pattern) is CooPattern:
        nowhere = np.zeros((pattern.ndim, 0), pattern.index_dtype)
        return PatternSymbol(CooPattern(pattern.shape, nowhere, True), count, by_rows=pattern.by_rows)
    if type(pattern) is CompressedPattern:
        starts = np.zeros(pattern.indptr.size, pattern.index_dtype)
        empty = np.zeros(0, pattern.index_dtype)
        model = CompressedPattern(pattern.shape, starts, empty, pattern.axis, pattern.blocks)
        return PatternSymbol(model, count)
    return None


def actual(pattern: Pattern, binding: Binding) -> Pattern:
    """The pattern itself, or what a symbol stands for."""
    return pattern.at(binding) if isinstance(pattern, PatternSymbol) else pattern


def bound(params: Any, binding: Binding) -> dict[str, Any]:
    """Parameters of an op with patterns in place of symbols."""
    return {k: v.at(binding) if isinstance(v, PatternSymbol) else v for k, v in params.items()}


def kind_key(pattern: Pattern) -> Any:
    """What patterns have in common for which symbols differ in the number of entries alone."""
    own = pattern.layout, pattern.shape, pattern.index_dtype, pattern.stored_shape[1:]
    return type(pattern), *own, pattern.by_rows


__all__ = ["Binding", "PatternRead", "PatternSymbol", "actual", "bound", "kind_key", "symbol_for"]
