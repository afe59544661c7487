"""Entry sets: sets of entries of a tensor, with one algebra for supports and demands.

    Entries = Nothing | Box(region) | Stored(pattern) | Bracket(condition) | Full

A *support* holds the entries where a value may be nonzero, a *demand* those that are read; of a cotangent,
their `meet` is computed. A demand also says whether only matrix products read it. Sets are computed per
pass and handed on as arguments; nothing here is state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, Self

import numpy as np

from iverson.core import dtypes
from iverson.core.protocols import NDArray, Value
from iverson.core.region import Region
from iverson.core.shapes import Shape


@dataclass(frozen=True, slots=True, eq=False)
class Nothing:
    """No entry: a zero, or a cotangent nobody reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Full:
    """Every entry.

    products : as a demand, they are read in matrix products alone, so that a cotangent may come as `LowRank`.
    """

    products: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """The entries in a region."""

    region: Region


class Places(Protocol):
    """The entries that a sparse value stores: a pattern (`iverson.layouts.pattern.Pattern`)."""

    shape: Shape
    ndim: int
    count: int

    @property
    def coordinates(self) -> NDArray:
        """The index of each stored entry: shape (sparse axes, count)."""

    def met_with(self, other: Self, /) -> Any:
        """The entries that both store."""

    def within(self, region: Region, /) -> Any:
        """The stored entries in a region."""


class Stored:
    """The entries that a sparse pattern stores (with dense trailing axes, all of each slice).

    Equal patterns are the same object. ``products`` is as for `Full`. One is made for every operand that is
    recorded: a frozen dataclass takes four times as long to make.
    """

    __slots__ = ("pattern", "products")

    pattern: Any

    def __init__(self, pattern: Places, products: bool = False) -> None:
        self.pattern = pattern
        self.products = products

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stored) and other.pattern is self.pattern and other.products == self.products

    def __hash__(self) -> int:
        return hash((self.pattern, self.products))

    def __repr__(self) -> str:
        return f"Stored(pattern={self.pattern!r}, products={self.products})"


@dataclass(frozen=True, slots=True, eq=False)
class Bracket:
    """The entries where a boolean array is True (False, if ``negated``): the support of what was selected.

    It bounds no computation: values are computed everywhere, and those outside of the set never read.
    """

    condition: Any
    negated: bool = False

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Bracket) and other.condition is self.condition and other.negated == self.negated
        )

    def __hash__(self) -> int:
        return hash((id(self.condition), self.negated))


class LowRank:
    """The matrix ``left @ right``, kept as its factors: a cotangent that is only read in products.

    need : the entries of it that are read.
    """

    __slots__ = ("left", "need", "right")

    def __init__(self, left: Value, right: Value) -> None:
        self.left: Any = left
        self.right: Any = right
        self.need: Entries = FULL

    @property
    def dtype(self) -> Any:
        return dtypes.result_type(self.left.dtype, self.right.dtype)


Entries = Nothing | Box | Stored | Bracket | Full
NOTHING = Nothing()
FULL = Full()
FACTORED = Full(products=True)


def in_products(demand: Entries) -> bool:
    """True if the entries of a demand are read in matrix products alone."""
    return getattr(demand, "products", False)


def entry_by_entry(demand: Entries) -> Entries:
    """The same entries as a demand that allows any use of them, not only matrix products."""
    if type(demand) is Stored:
        return Stored(demand.pattern) if demand.products else demand
    return FULL if demand is FACTORED else demand


def plain(entries: Entries, shape: Shape) -> Entries:
    """The same entries of an array of ``shape``, with `NOTHING` for an empty box and `FULL` for a box of all.

    >>> plain(Box(Region((0,), (3,))), (3,)) is FULL, plain(Box(Region((1,), (1,))), (3,)) is NOTHING
    (True, True)
    """
    if type(entries) is not Box:
        return entries
    if not entries.region.size:
        return NOTHING
    return FULL if entries.region.covers(shape) else entries


def hull(entries: Entries, shape: Shape) -> Region:
    """The smallest region known to contain the entries; for a pattern or a bracket, the whole ``shape``."""
    if type(entries) is Box:
        return entries.region
    return Region((0,) * len(shape), (0,) * len(shape)) if entries is NOTHING else Region.full(shape)


def meet(a: Entries, b: Entries) -> Entries:
    """The entries that are in both sets, to be read as those of ``a`` are (in products alone, or not).

    Exact, but for these supersets, which cost less than they would save:

    - of a pattern of blocks, blocks that are in part in the other set stay whole;
    - of a pattern with dense trailing axes, slices that are in part in the other set stay whole;
    - of two patterns over different axes, a is kept;
    - of a bracket and a box or pattern, those are kept, of two brackets a: values carry their conditions.

    >>> meet(Box(Region((0,), (3,))), Box(Region((2,), (9,))))
    Box(region=Region(start=(2,), stop=(3,)))
    """
    if type(a) is type(b) is Stored:
        if a.pattern is b.pattern or a.pattern.ndim != b.pattern.ndim:
            return a
        met = a.pattern.met_with(b.pattern)
        return a if met is a.pattern and met.count else _stored(met, a.products)
    if isinstance(b, Full):
        return a
    if isinstance(a, Nothing) or isinstance(b, Nothing):
        return NOTHING
    if isinstance(a, Full):
        return Stored(b.pattern, a.products) if isinstance(b, Stored) else b
    if isinstance(b, Bracket):
        return a
    if isinstance(a, Bracket):
        return Stored(b.pattern) if isinstance(b, Stored) else b
    if isinstance(a, Box):
        return (
            _boxes(a.region, b.region) if isinstance(b, Box) else _stored(b.pattern.within(a.region), False)
        )
    assert isinstance(b, Box)  # of two patterns it was said above
    return _stored(a.pattern.within(b.region), a.products)


def _boxes(a: Region, b: Region) -> Entries:
    """The intersection of two boxes; `NOTHING` if it is empty."""
    region = a.intersect(b)
    return Box(region) if region.size else NOTHING


def _stored(pattern: Places, products: bool) -> Entries:
    """The entries of ``pattern``; `NOTHING` if it stores none."""
    return Stored(pattern, products) if pattern.count else NOTHING


def join(sets: Iterable[Entries]) -> Entries:
    """A set that contains all of ``sets``: for boxes the hull, for sets of different kinds every entry.

    For different patterns it is every entry too: to merge them mostly costs more than it saves.

    >>> join([Box(Region((0,), (2,))), NOTHING, Box(Region((4,), (5,)))])
    Box(region=Region(start=(0,), stop=(5,)))
    """
    result: Entries = NOTHING
    for entries in sets:
        if result is NOTHING or entries == result:
            result = entries
        elif isinstance(entries, Box) and isinstance(result, Box):
            result = Box(result.region.hull(entries.region))
        elif isinstance(entries, Stored) and isinstance(result, Stored) and entries.pattern is result.pattern:
            result = Stored(entries.pattern)
        elif entries is not NOTHING:
            return FULL
    return result


def covers(outer: Entries, inner: Entries, shape: Shape) -> bool:
    """True if ``outer`` is known to contain all of ``inner``, in an array of ``shape``; False if unknown."""
    if type(outer) is Full or inner is NOTHING:
        return True
    if type(outer) is Box:
        inner_region = hull(inner, shape)
        return not inner_region.size or outer.region.intersect(inner_region) == inner_region
    if type(outer) is Stored:
        return type(inner) is Stored and inner.pattern is outer.pattern
    return outer == inner


def size(entries: Entries, shape: Shape) -> int:
    """Number of entries in the set, in an array of ``shape``."""
    if type(entries) is Bracket:
        count = int(np.count_nonzero(entries.condition))
        return prod(shape) - count if entries.negated else count
    if type(entries) is Stored:
        return int(entries.pattern.count) * prod(shape[entries.pattern.ndim :])
    return hull(entries, shape).size
