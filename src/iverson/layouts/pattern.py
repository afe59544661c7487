"""Patterns: which entries a sparse tensor stores. A sparse value is a pattern and an array of values.

A pattern is immutable, shared by reference and equal only to itself. All that follows from it (coordinates,
sort orders, its transpose, other layouts of it) is computed once and kept on it. Nothing here multiplies.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary, ref

import numpy as np

from iverson.core.errors import ShapeError
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.layouts import counting_sorts

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Array = np.ndarray[Any, Any]
T = TypeVar("T")


class Pattern(ABC):
    """The stored entries of the sparse axes of a tensor: their shape, and a coordinate per entry.

    ``count`` entries are stored, as an array of ``stored_shape`` (blocks have more axes than one). Entry n
    of the flattened values is at ``coordinates[:, n]``.
    """

    __slots__ = ("__weakref__", "_facts", "count", "ndim", "part_of", "shape", "stored_shape")
    layout: str
    #: Whether it stands for patterns that are not known yet.
    is_symbol = False
    #: The type of values on patterns of this layout.
    kind: type[Sparse]

    def __init__(self, shape: Shape, stored_shape: Shape) -> None:
        if prod(shape) >= 2**63:
            raise ShapeError(
                "sparse tensor",
                "shape",
                got=str(shape),
                expected="fewer than 2**63 entries, so that each has an address",
            )
        self.shape = shape
        self.ndim = len(shape)
        self.stored_shape = stored_shape
        #: How many entries are stored.
        self.count = prod(stored_shape)
        self._facts: dict[Any, Any] = {}
        #: Patterns of which it was made as a part, as cotangents are read and chosen, and where in these.
        self.part_of: tuple[tuple[ref[Pattern], Array], ...] = ()

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The fact that is kept on the pattern under ``key``; ``make`` computes it at the first call."""
        fact: T | None = self._facts.get(key)
        if fact is None:
            fact = self._facts.setdefault(key, make())  # of two threads, the first one's stands
        return fact

    def _pickled(self, *args: Any) -> tuple[Any, ...]:
        """The result of ``__reduce__`` for a pattern; ``args`` are the arguments of its class.

        The pattern gets a name with it, so that it is the same object again where the pickle is read twice.
        """
        name = self.once("name", lambda: _named(self))
        return _restored, (name, type(self), args)

    @property
    def blocksize(self) -> tuple[int, int] | None:
        return None

    @property
    @abstractmethod
    def index_dtype(self) -> Any:
        """int32 or int64."""

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that say where entries are."""
        return ()

    @property
    def distinct(self) -> bool:
        """True if no entry is stored twice."""
        return True

    @abstractmethod
    def _coordinates(self) -> Array: ...

    @property
    def coordinates(self) -> Array:
        """The index of each stored entry: shape (sparse axes, count)."""
        result: Array = self.once("coordinates", self._coordinates)
        return result

    def along(self, axis: int) -> Array:
        """The index of each stored entry along an axis."""
        indices: Array = self.coordinates[axis]
        return indices

    def index_array(self, axis: int) -> Array:
        """Same indices as `along`, contiguous, and the same array at each call, for programs that read it."""
        indices: Array = self.once(("index array", axis), lambda: np.ascontiguousarray(self.along(axis)))
        return indices

    @property
    def keys(self) -> Array:
        """The row-major address of each stored entry."""
        result: Array = self.once("keys", lambda: addresses(self.coordinates, self.shape))
        return result

    @property
    def sorted(self) -> tuple[Array, Array | slice]:
        """Addresses in increasing order, and the position of the entry of each (a slice if in order)."""
        result: tuple[Array, Array | slice] = self.once("sorted", self._sorted)
        return result

    def _sorted(self) -> tuple[Array, Array | slice]:
        """Result of `sorted`, from the rows of a matrix if known, else by a sort of the addresses."""
        lines = self.lines_along(0)
        if lines is not None:
            order = lines[2]
            return self.keys if isinstance(order, slice) else self.keys[order], order
        keys = self.keys
        if not keys.size or bool((keys[1:] >= keys[:-1]).all()):
            return keys, slice(None)
        return counting_sorts.in_order(keys)

    def lines_along(self, axis: int) -> tuple[Array, Array, Array | slice] | None:
        """Entries of a matrix as compressed rows (``axis`` 0) or columns (1); None if they must be sorted.

        Returns the start of each line, the index of each entry in its line, and the position of each of these
        entries in the pattern.
        """
        return None

    def find(self, keys: Array) -> tuple[Array, Array]:
        """Look up entries by their row-major addresses ``keys``.

        Returns the position of each, and a mask that is False where the entry is not stored: the position
        means nothing there. The pattern must store each entry once.
        """
        stored_keys, order = self.sorted
        at = np.searchsorted(stored_keys, keys)
        at[at == stored_keys.size] = 0
        there = stored_keys[at] == keys if stored_keys.size else np.zeros(keys.shape, bool)
        return (at if isinstance(order, slice) else order[at] if stored_keys.size else at), there

    def subset(self, at: Array) -> Pattern:
        """A pattern that contains at least the entries at the positions ``at``, which increase.

        It may be the pattern itself. In a pattern of blocks, the positions are those of blocks.
        """
        return self

    @property
    def by_rows(self) -> bool:
        """True if entries, or blocks, of matrices follow each other by rows, and within these by columns."""
        return False

    def of_entries(self, dense: Shape) -> Pattern:
        """The pattern of single entries, if each stored entry is a slice with the extents ``dense``.

        These extents become sparse axes, behind those of the pattern. With no extents, the result is the
        pattern.
        """
        assert not dense, "a layout whose entries are numbers"
        return self

    def within(self, region: Region) -> Pattern:
        """A pattern that contains at least the entries of this one in ``region``.

        ``region`` may have more axes than the pattern: those behind the sparse axes are ignored.
        """
        if region.covers((*self.shape, *region.stop[self.ndim :])):
            return self
        start, stop = (np.array(c[: self.ndim])[:, None] for c in (region.start, region.stop))
        inside = (self.coordinates >= start) & (self.coordinates < stop)
        return self._where(np.logical_and.reduce(inside, axis=0))

    def met_with(self, other: Pattern) -> Pattern:
        """Pattern of at least the entries that this pattern and ``other``, of the same shape, both store."""
        placement = self._facts.get("placements", {}).get(other)
        if placement is not None:  # one of them is part of the other
            return other if placement.put else self
        return self._where(other.find(self.keys)[1])

    def _where(self, mask: Array) -> Pattern:
        """Part with the entries where ``mask`` is True, one value per entry; blocks stay whole."""
        by_position = mask.reshape(self.stored_shape)
        return self.part(np.flatnonzero(by_position.any(axis=tuple(range(1, by_position.ndim)))))

    def part(self, at: Array) -> Pattern:
        """Same pattern as `subset`; the result remembers, in ``part_of``, the patterns that it is a part of.

        If ``at`` contains all positions, the result is the pattern itself.
        """
        if at.size == self.stored_shape[0]:
            return self
        pattern = self.subset(at)
        if pattern is not self:
            pattern.part_of = (ref(self), at), *((source, places[at]) for source, places in self.part_of)
        return pattern

    def whole(self) -> Pattern:
        """A new pattern of the same entries that is no part of another pattern (``part_of`` is empty)."""
        return self.subset(np.arange(self.stored_shape[0]))

    def places_in(self, whole: Pattern) -> Array | None:
        """Position in ``whole`` of each entry, if the pattern was made as a `part` of it; else None."""
        return next((at for of, at in self.part_of if of() is whole), None)

    def value(self, entries: Array) -> Any:
        """Sparse value with the stored entries ``entries``: shape (count, *dense trailing axes)."""
        return self.kind(self, entries.reshape(self.stored_shape + entries.shape[1:]))

    @abstractmethod
    def permuted(self, axes: Shape) -> Pattern:
        """The pattern with its axes permuted.

        Each call gives the same object, and the inverse permutation gives this pattern back.
        """

    @abstractmethod
    def check(self) -> None:
        """Assert the layout's invariants."""


#: Patterns that were pickled here, or came in a pickle, by a name that no other process gives. So one that
#: comes twice, or comes back, is the same object, and tensors that shared a pattern share it where they
#: arrive.
_by_name: WeakValueDictionary[tuple[bytes, int], Pattern] = WeakValueDictionary()
_numbers = count()
_process = [os.urandom(16)]
os.register_at_fork(after_in_child=lambda: _process.__setitem__(0, os.urandom(16)))


def _named(pattern: Pattern) -> tuple[bytes, int]:
    """A new name for ``pattern``, under which `_restored` finds it again."""
    name = _process[0], next(_numbers)
    _by_name[name] = pattern
    return name


def _restored(name: tuple[bytes, int], kind: type[Pattern], args: tuple[Any, ...]) -> Pattern:
    """Pattern of the pickle with this ``name``: the live object, else a new ``kind(*args)``."""
    pattern = _by_name.get(name)
    if pattern is None:
        pattern = _by_name.setdefault(name, kind(*args))
        pattern.once("name", lambda: name)
    return pattern


class Sparse:
    """A pattern and the values on it: shape ``pattern.stored_shape``, then dense trailing axes.

    there : function that gives the condition of a selection whose values were stored, at all entries of the
        tensor: where the condition is False the value is zero to any order of derivative. None if there is no
        such selection: an entry that is not stored is then a zero like any other.
    """

    __slots__ = ("dense_shape", "dtype", "pattern", "shape", "there", "values")

    def __init__(self, pattern: Pattern, values: Array) -> None:
        self.pattern: Any = pattern
        self.there: Callable[[], Array] | None = None
        self.values = np.asarray(values)  # never a subclass: an unpickled memory map, say
        self.dtype = values.dtype
        #: The extents of the dense trailing axes.
        self.dense_shape: Shape = values.shape[len(pattern.stored_shape) :]
        self.shape: Shape = pattern.shape + self.dense_shape

    @property
    def entries(self) -> Array:
        """The values as an array of shape (count, *dense trailing axes), in which a block is no unit."""
        return self.values.reshape((self.pattern.count, *self.dense_shape))

    def made(self) -> Sparse:
        """Same value without the condition ``there``: entries not stored are zeros like any other."""
        return self if self.there is None else type(self)(self.pattern, self.values)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.pattern, self.values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape}, {self.pattern.count} stored, {self.dtype})"


def frozen(indices: Array) -> Array:
    """Indices in memory that nobody can write to: ``indices`` if this holds already, else a read-only copy.

    Loops over stored entries trust a pattern's indices, which were checked when it was made.
    """
    owner: Any = indices
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    return indices if owner is None else read_only(np.array(indices, order="C"))


def read_only(indices: Array) -> Array:
    """Make ``indices`` read-only in place, and return the same array."""
    indices.flags.writeable = False
    return indices


def addresses(coordinates: Array, shape: Shape) -> Array:
    """Row-major address of each entry; ``coordinates`` has a row for each axis."""
    if not len(coordinates):
        return np.zeros(coordinates.shape[1], np.int64)
    keys: Array = coordinates[0].astype(np.int64)
    for extent, row in zip(shape[1:], coordinates[1:], strict=True):
        keys *= extent
        keys += row
    return keys


def coordinates_of(keys: Array, shape: Shape, dtype: DTypeLike = np.int64) -> Array:
    """Coordinates of row-major addresses, a row for each axis: the inverse of `addresses`."""
    coordinates: Array = np.empty((len(shape), keys.size), dtype)
    for k in range(len(shape) - 1, 0, -1):
        quotients = keys // max(shape[k], 1)
        # A product takes the remainder in less time than another division.
        coordinates[k] = keys - quotients * shape[k]
        keys = quotients
    if shape:
        coordinates[0] = keys
    return coordinates


def matches(a: Array, b: Array) -> tuple[Array, Array]:
    """All pairs of equal keys: their positions in ``a``, increasing, and for each the position in ``b``."""
    keys, order = counting_sorts.in_order(b)
    first = np.searchsorted(keys, a, side="left")
    counts = np.searchsorted(keys, a, side="right") - first
    positions = np.repeat(np.arange(a.size), counts)
    skipped = np.repeat(first - np.cumsum(counts) + counts, counts)
    return positions, order[np.arange(positions.size) + skipped]


def to_strided(value: Sparse) -> Array:
    """Strided array of a sparse value; entries stored twice are summed."""
    pattern = value.pattern
    rows = pattern.lines_along(0) if pattern.layout == "csr" else None
    if rows is not None and not value.dense_shape:
        extents = rows[0].size - 1, value.shape[-1]
        return counting_sorts.spread(extents, rows[0], rows[1], value.values).reshape(value.shape)
    if not pattern.distinct:
        return counting_sorts.added_rows(prod(pattern.shape), pattern.keys, value.entries).reshape(
            value.shape
        )
    out = np.zeros(value.shape, value.dtype)
    out.reshape((prod(pattern.shape), *value.dense_shape))[pattern.keys] = value.entries
    return out


def stored(value: Sparse) -> tuple[tuple[Array, ...], Array]:
    """Indices of the entries along the sparse axes, and the entries.

    The pattern must store each entry once.
    """
    return tuple(value.pattern.coordinates), value.entries


def check(value: Sparse) -> None:
    """Assert that values fit their pattern, and the pattern's own invariants."""
    pattern = value.pattern
    assert type(value) is pattern.kind
    assert type(value.values) is np.ndarray
    assert value.values.shape[: len(pattern.stored_shape)] == pattern.stored_shape
    pattern.check()


def index_dtype(*extents: int) -> Any:
    """int32 where it can hold the given extents, else int64."""
    return np.dtype(np.int32 if max(extents, default=0) < 2**31 else np.int64)
