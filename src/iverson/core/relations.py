"""Relations: which entries of an op's result depend on which entries of one of its inputs.

A relation is a union of few products of *facts*, each of which ties some axes of the result to some axes of
the input. Nothing is listed until a relation is composed with rows (`Relation.after`), so that the relation
of a matrix product never has m*k*n pairs. How entries are tied follows from shapes, parameters, index
arrays and patterns of other operands, never from values. Where that cannot be said, every entry is tied to
every entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any, Protocol

import numpy as np

from iverson.core.entries import Box, Entries, Nothing, Stored
from iverson.core.shapes import Shape

Keys = np.ndarray[Any, np.dtype[np.int64]]
#: The keys of some positions.
KeysOf = Callable[[Keys], Keys]
#: A sparse matrix of booleans (`scipy.sparse.csr_array`).
Matrix = Any
#: A pattern, or what stands for one in a trace (`iverson.layouts.Pattern`).
Pattern = Any
#: How many pairs are listed at most.
MOST = 1 << 22


@dataclass(frozen=True, slots=True)
class Ties:
    """Two functions that give keys to positions of the result and of the input: linked keys tie them.

    row_keys, column_keys : functions of row-major positions, of the result and of the input. A position with
        a negative key is tied to nothing.
    extents : the numbers of different keys of the result and of the input.
    links : a matrix with a True for each pair of linked keys; None if equal keys are linked.
    """

    row_keys: KeysOf
    column_keys: KeysOf
    extents: tuple[int, int]
    links: Matrix | None = None


class Fact(Protocol):
    """Ties of positions along some axes of the result to positions along some axes of the input."""

    def ties(self, out: Shape, into: Shape) -> Ties | None:
        """Ties of positions in ``out`` to positions in ``into``; None if there are more than `MOST`.

        out, into : the extents of the axes of the result and of the input that the fact is about.
        """


@dataclass(frozen=True, slots=True)
class Matched:
    """Fact that ties positions whose keys are equal, as digits of an index, or group numbers.

    row_keys, column_keys : the key of each position; None if the position is the key.
    count : the number of keys.
    """

    row_keys: Keys | None
    column_keys: Keys | None
    count: int

    def ties(self, out: Shape, into: Shape) -> Ties | None:
        return Ties(_keys_of(self.row_keys), _keys_of(self.column_keys), (self.count, self.count))


@dataclass(frozen=True, slots=True)
class Same:
    """Fact that ties each position of the result to the same position of the input."""

    def ties(self, out: Shape, into: Shape) -> Ties | None:
        return Ties(_position, _position, (prod(out), prod(into)))


@dataclass(frozen=True, slots=True)
class Every:
    """Fact that ties each position of the result to every position of the input.

    For axes that are reduced, and axes along which an input is broadcast.
    """

    def ties(self, out: Shape, into: Shape) -> Ties | None:
        return Ties(np.zeros_like, np.zeros_like, (1, 1))


@dataclass(frozen=True, slots=True)
class Indexed:
    """Fact that ties position r of the result to position ``index[r]`` of the input; none if negative."""

    index: Keys

    def ties(self, out: Shape, into: Shape) -> Ties | None:
        extent = prod(into)
        return Ties(self.index.ravel().__getitem__, _position, (extent, extent))


@dataclass(frozen=True, slots=True)
class Window:
    """Fact that ties position r to a window of the input: r * stride + low to r * stride + high.

    Both ends are included; positions outside of the input are left out.
    """

    low: int
    high: int
    stride: int = 1

    def ties(self, out: Shape, into: Shape) -> Ties | None:
        count, extent = prod(out), prod(into)
        width = self.high - self.low + 1
        if count * width > MOST:
            return None
        rows = np.repeat(np.arange(count), width)
        columns = (np.arange(count)[:, None] * self.stride + np.arange(self.low, self.high + 1)).ravel()
        inside = (columns >= 0) & (columns < extent)
        return _linked(rows[inside], columns[inside], count, extent)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Fact that ties position r to position r of the input and all before it; ``reverse``: all behind."""

    reverse: bool = False

    def ties(self, out: Shape, into: Shape) -> Ties | None:
        extent = prod(out)
        if extent * (extent + 1) // 2 > MOST:
            return None
        rows, columns = np.tril_indices(extent)
        return _linked(*((columns, rows) if self.reverse else (rows, columns)), extent, extent)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Fact that ties position ``rows[n]`` to position ``columns[n]`` of the input, for each n."""

    rows: Keys
    columns: Keys

    def ties(self, out: Shape, into: Shape) -> Ties | None:
        return None if self.rows.size > MOST else _linked(self.rows, self.columns, prod(out), prod(into))


@dataclass(frozen=True, slots=True)
class Factor:
    """A fact and the axes, ascending, of the result and of the input that it is about."""

    fact: Fact
    out: Shape
    into: Shape


def same(out: int, into: int) -> Factor:
    """Factor that ties equal positions along axis ``out`` of the result and axis ``into`` of the input."""
    return Factor(Same(), (out,), (into,))


@dataclass(frozen=True, slots=True)
class Rows:
    """A sparse row for each entry of an array, or for some of them; the rows of the others are empty.

    matrix : the rows as a matrix of booleans.
    size : the number of entries of the array.
    numbers : row-major numbers, ascending, of the entries to which the rows of ``matrix`` belong; None if
        each entry has a row there.
    """

    matrix: Matrix
    size: int
    numbers: Keys | None = None

    @classmethod
    def of_all(cls, matrix: Matrix) -> Rows:
        """Rows of an array from a matrix with a row for each of its entries."""
        return cls(matrix, matrix.shape[0])

    @classmethod
    def empty(cls, size: int, width: int) -> Rows:
        """Rows of an array of ``size`` entries that are all empty; ``width`` is the number of columns."""
        return cls(no_entries(0, width), size, np.empty(0, np.int64))

    @property
    def whole(self) -> Matrix:
        """Matrix with a row for each entry of the array, empty ones included."""
        if self.numbers is None:
            return self.matrix
        lengths = np.zeros(self.size, np.int64)
        lengths[self.numbers] = np.diff(self.matrix.indptr)
        return listed(_starts(lengths), self.matrix.indices, self.matrix.shape[1])

    def at(self, numbers: Keys) -> Rows:
        """Rows of the entries with the given ``numbers`` alone."""
        places = numbers if self.numbers is None else _places_in(self.numbers, numbers)
        return Rows(_selection(places, self.matrix.shape[0]) @ self.matrix, self.size, numbers)

    def union(self, other: Rows) -> Rows:
        """For each entry, the union of its row here and its row in ``other``."""
        if self.numbers is None or other.numbers is None:
            return Rows.of_all(self.whole + other.whole)
        numbers = np.union1d(self.numbers, other.numbers)
        return Rows(self.at(numbers).matrix + other.at(numbers).matrix, self.size, numbers)


@dataclass(frozen=True, slots=True)
class Relation:
    """The entries of an input that each entry of a result depends on, as a union of ``terms``.

    A term is a product of factors: it ties an entry of the result to an entry of the input if each of its
    factors ties their positions. Each axis is in one factor of each term.

    out, into : the shapes of the result and of the input.
    within : the numbers of some entries of the result, ascending; others depend on nothing. None for all.
    is_same : True if each entry depends on the one with the same row-major number.

    >>> diagonal = Relation.same((2, 2))
    >>> diagonal.matrix().toarray().sum(), Relation.everything((2, 2), (3,)).matrix().sum()
    (np.int64(4), np.int64(12))
    """

    out: Shape
    into: Shape
    terms: tuple[tuple[Factor, ...], ...]
    within: Keys | None = None
    is_same: bool = False

    @classmethod
    def of(cls, out: Shape, into: Shape, *factors: Factor) -> Relation:
        """Relation of one term with these ``factors``; on all other axes, everything is tied."""
        axes = {k for f in factors for k in f.out}, {k for f in factors for k in f.into}
        free = [
            tuple(k for k in range(len(shape)) if k not in tied)
            for shape, tied in zip((out, into), axes, strict=True)
        ]
        every = (Factor(Every(), *free),) if any(free) else ()
        return cls(out, into, ((*factors, *every),))

    @classmethod
    def everything(cls, out: Shape, into: Shape) -> Relation:
        """Relation in which each entry of the result depends on all entries of the input."""
        return cls.of(out, into)

    @classmethod
    def same(cls, out: Shape, into: Shape | None = None) -> Relation:
        """Relation in which each entry depends on the entry with the same row-major number.

        into : shape of the input; by default that of the result.
        """
        into = out if into is None else into
        axes = tuple(range(len(out))), tuple(range(len(into)))
        return cls(out, into, ((Factor(Same(), *axes),),), is_same=True)

    @classmethod
    def indexed(cls, index: Keys, into: Shape) -> Relation:
        """Relation in which entry r depends on the entry with the row-major number ``index[r]``.

        A negative number stands for no entry. The result has the shape of ``index``.
        """
        axes = tuple(range(index.ndim)), tuple(range(len(into)))
        return cls.of(index.shape, into, Factor(Indexed(index), *axes))

    @classmethod
    def listed(cls, out: Shape, into: Shape, matrix: Matrix | None) -> Relation:
        """Relation of the pairs in a boolean matrix: rows are entries of the result, columns of the input.

        If ``matrix`` is None, nothing depends on anything.
        """
        if matrix is None:
            return cls(out, into, ())
        pairs = matrix.tocoo()
        fact = Pairs(pairs.row.astype(np.int64), pairs.col.astype(np.int64))
        return cls.of(out, into, Factor(fact, tuple(range(len(out))), tuple(range(len(into)))))

    @classmethod
    def aligned(cls, out: Shape, into: Shape, *factors: Factor, core: tuple[int, int] = (0, 0)) -> Relation:
        """Relation with equal positions along leading axes, which broadcast, and ``factors`` for others.

        core : the number of axes of the result, and of the input, that do not broadcast.
        """
        if out == into and core == (0, 0):
            return cls.same(out)
        lead, first = len(out) - core[0], len(into) - core[1]
        batch = [
            same(k, k - lead + first)
            for k in range(lead)
            if k - lead + first >= 0 and out[k] == into[k - lead + first]
        ]
        return cls.of(out, into, *batch, *factors)

    def inside(self, numbers: Keys) -> Relation:
        """This relation with no dependence for entries of the result whose numbers are not in ``numbers``."""
        if self.within is not None:
            numbers = np.intersect1d(self.within, numbers, assume_unique=True)
        return replace(self, within=numbers)

    def image(self, numbers: Keys) -> Keys | None:
        """Numbers, ascending, of the entries of the result that depend on input entries ``numbers``.

        If too many pairs would have to be listed, the result is ``within`` (None for all entries), which
        contains them.
        """
        if self.is_same and self.within is None:
            return numbers
        column = listed(np.arange(numbers.size + 1), np.zeros(numbers.size, np.int64), 1)
        rows = self.after(Rows(column, prod(self.into), numbers))
        if rows is None:
            return self.within
        there = np.flatnonzero(np.diff(rows.matrix.indptr))
        return there if rows.numbers is None else rows.numbers[there]

    def after(self, rows: Rows) -> Rows | None:
        """For each entry of the result, the union of the rows of the input entries on which it depends.

        The result is None if more than `MOST` entries would be listed.

        rows : the rows of the entries of the input.
        """
        if self.is_same:
            return rows if self.within is None else rows.at(self.within)
        numbers = self._reached(rows.numbers) if self.within is None else self.within
        parts = []
        for term in self.terms:
            part = self._composed(term, rows, numbers)
            if part is None:
                return None
            parts.append(part)
        size = prod(self.out)
        if not parts:
            return Rows.empty(size, rows.matrix.shape[1])
        return Rows(reduce(lambda a, b: a + b, parts), size, numbers)

    def matrix(self) -> Matrix:
        """Boolean matrix of all pairs, rows for the result, columns for the input.

        Raises MemoryError if there are more than `MOST`.
        """
        size = prod(self.into)
        pairs = self.after(Rows.of_all(one_each(size, size)))
        if pairs is None:
            raise MemoryError(f"a relation of more than {MOST} pairs")
        return pairs.whole

    def _reached(self, numbers: Keys | None) -> Keys | None:
        """Numbers of the entries of the result that depend on input entries ``numbers``, if found easily.

        That holds for one term in which each axis of the result has the positions of an axis of the input
        (axes that are permuted or reduced). Else the result is None: no entry is left out.
        """
        if numbers is None or len(self.terms) != 1:
            return None
        coordinates = np.unravel_index(numbers, self.into) if self.into else ()
        positions = np.zeros((len(self.out), numbers.size), np.int64)
        for f in self.terms[0]:
            if f.out:
                if not isinstance(f.fact, Same):
                    return None
                at = np.ravel_multi_index([coordinates[k] for k in f.into], _extents(self.into, f.into))
                positions[list(f.out)] = np.unravel_index(at, _extents(self.out, f.out))
        return np.unique(np.ravel_multi_index(tuple(positions), self.out)) if self.out else None

    def _composed(self, term: Sequence[Factor], operand: Rows, numbers: Keys | None) -> Matrix | None:
        """Matrix of the rows of the result by one term; None if it would have more than `MOST` entries.

        operand : the rows of the entries of the input.
        numbers : the entries of the result to give a row for; None for all.
        """
        facts = [f.fact for f in term]
        extents = [(_extents(self.out, f.out), _extents(self.into, f.into)) for f in term]
        ties = [_ties_of(fact, *axes) for fact, axes in zip(facts, extents, strict=True)]
        links = _product_of_links(ties)
        if links is None:  # there are none, or too many: then as if all positions were tied
            facts = [f if t.links is None else Every() for f, t in zip(facts, ties, strict=True)]
            ties = [_ties_of(fact, *axes) for fact, axes in zip(facts, extents, strict=True)]
        count = prod(t.extents[1] for t in ties)
        pairs = list(zip(term, ties, strict=True))
        columns = [(f.into, t.column_keys, t.extents[1]) for f, t in pairs]
        column_keys = _joint_keys(columns, self.into, operand.numbers)
        row_keys = _joint_keys([(f.out, t.row_keys, t.extents[0]) for f, t in pairs], self.out, numbers)
        rows: Matrix | None = operand.matrix
        if links is None and 2 * row_keys.size < count:
            column_keys, row_keys, count = _in_use(column_keys, row_keys)
        if not _is_range(column_keys, count):
            rows = _selection(column_keys, count).T.tocsr() @ rows
        if links is not None:
            rows = _limited_product(links, rows)
        if rows is None or _is_range(row_keys, rows.shape[0]):
            return rows
        return _limited_product(_selection(row_keys, rows.shape[0]), rows)


def numbers_of(support: Entries, shape: Shape) -> Keys | None:
    """Row-major numbers of the entries in ``support``, ascending; None if it is every entry, or not known."""
    if isinstance(support, Nothing):
        return np.empty(0, np.int64)
    if isinstance(support, Box):
        axes = [np.arange(*ends) for ends in zip(support.region.start, support.region.stop, strict=True)]
        return np.ravel_multi_index(np.ix_(*axes), shape).ravel() if all(shape) else np.empty(0, np.int64)
    if isinstance(support, Stored) and not support.pattern.is_symbol:
        return numbers_on(support.pattern, shape)
    return None


def numbers_on(pattern: Pattern, shape: Shape) -> Keys:
    """The row-major numbers of the entries that ``pattern`` stores in an array of ``shape``, ascending.

    If the pattern has dense axes, all numbers in each stored slice are listed.
    """
    keys: Keys = np.unique(pattern.keys)
    slices = prod(shape[pattern.ndim :])
    return keys if slices == 1 else (keys[:, None] * slices + np.arange(slices)).ravel()


def _extents(shape: Shape, axes: Shape) -> Shape:
    return tuple(shape[k] for k in axes)


def _ties_of(fact: Fact, out: Shape, into: Shape) -> Ties:
    """The ties of a fact; the ties of all positions to all if the fact would have too many links."""
    ties = fact.ties(out, into)
    return _ties_of(Every(), out, into) if ties is None else ties


def _linked(rows: Keys, columns: Keys, count: int, extent: int) -> Ties:
    """Ties of the pairs (``rows[n]``, ``columns[n]``), where each position is its own key."""
    from scipy.sparse import csr_array

    links = csr_array((np.ones(rows.size, bool), (rows, columns)), shape=(count, extent))
    return Ties(_position, _position, (count, extent), links)


def _keys_of(keys: Keys | None) -> KeysOf:
    """Function that gives the key of each position in ``keys``; without ``keys``, the position itself."""
    return _position if keys is None else keys.ravel().__getitem__


def _position(positions: Keys) -> Keys:
    return positions


def _product_of_links(ties: Iterable[Ties]) -> Matrix | None:
    """Matrix of the links between joint keys: the Kronecker product of the links of all ``ties``.

    An element of ``ties`` without links (equal keys are tied) counts as an identity matrix. The result is
    None if no element has links, or if the product would have more than `MOST` links.
    """
    from scipy.sparse import eye_array, kron

    ties = list(ties)
    if all(t.links is None for t in ties):
        return None
    if prod(t.extents[0] if t.links is None else t.links.nnz for t in ties) > MOST:
        return None
    factors = [
        eye_array(t.extents[0], dtype=bool, format="csr") if t.links is None else t.links for t in ties
    ]
    return reduce(lambda a, b: kron(a, b, format="csr").astype(bool), factors)


def _joint_keys(parts: Sequence[tuple[Shape, KeysOf, int]], shape: Shape, numbers: Keys | None) -> Keys:
    """One key for each entry of an array of ``shape``, made of its keys in all ``parts`` as digits.

    A key is negative if one of its parts is.

    parts : the axes, the function that gives the key of a position along these, and the number of keys.
    numbers : the entries to give a key for; None for all.
    """
    coordinates: Any = np.unravel_index(numbers, shape) if numbers is not None and shape else ()
    joint = np.zeros((1,) * len(shape) if numbers is None else numbers.shape, np.int64)
    missing: Any = None
    for axes, keys, extent in parts:
        extents = _extents(shape, axes)
        if numbers is None:
            part = keys(np.arange(prod(extents)))
            part = part.reshape(tuple(n if k in axes else 1 for k, n in enumerate(shape)))
        else:
            at = tuple(coordinates[k] for k in axes)
            part = keys(np.ravel_multi_index(at, extents) if at else np.zeros_like(numbers))
        joint = joint * extent + part
        if (part < 0).any():
            missing = part < 0 if missing is None else missing | (part < 0)
    if missing is not None:
        joint = np.where(missing, -1, joint)
    return np.broadcast_to(joint, shape).ravel() if numbers is None else joint


def _in_use(column_keys: Keys, row_keys: Keys) -> tuple[Keys, Keys, int]:
    """Number the keys that occur in ``row_keys`` anew, without gaps.

    Returns the new keys of the columns (-1 for a key that no row has), those of the rows, and their number.
    """
    keys, renumbered = np.unique(row_keys, return_inverse=True)
    first = int(np.searchsorted(keys, 0))  # behind the negative ones
    keys, renumbered = keys[first:], renumbered.ravel() - first
    return _places_in(keys, column_keys), renumbered, keys.size


def _places_in(ascending: Keys, keys: Keys) -> Keys:
    """The places of keys in an ascending array; -1 for keys that it does not contain."""
    if not ascending.size:
        return np.full_like(keys, -1)
    places = np.searchsorted(ascending, keys)
    places[places == ascending.size] = 0
    return np.where(ascending[places] == keys, places, -1)


def _is_range(keys: Keys, count: int) -> bool:
    """True if ``keys`` are 0, 1, ... ``count`` - 1."""
    return keys.size == count and bool((keys == np.arange(count)).all())


def listed(starts: Keys, columns: Keys, width: int) -> Matrix:
    """The matrix of booleans whose row r has the columns between ``starts[r]`` and ``starts[r + 1]``."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(columns.size, bool), columns, starts), shape=(starts.size - 1, width))


def one_each(size: int, width: int, first: int = 0) -> Matrix:
    """The matrix of booleans whose row r has column ``first + r`` alone."""
    return listed(np.arange(size + 1), np.arange(first, first + size), width)


def no_entries(size: int, width: int) -> Matrix:
    """The matrix of booleans without entries."""
    return listed(np.zeros(size + 1, np.int64), np.empty(0, np.int64), width)


def _selection(keys: Keys, count: int) -> Matrix:
    """The boolean matrix whose row r has a True in column ``keys[r]``; no entry if the key is negative.

    count : the number of columns.
    """
    there = keys >= 0
    return listed(_starts(there.astype(np.int64)), keys[there], count)


def _starts(lengths: Keys) -> Keys:
    """The start of each row, from the lengths of the rows, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(lengths)])


def _limited_product(a: Matrix, b: Matrix) -> Matrix | None:
    """The product of two boolean matrices; None if more than `MOST` pairs of entries would be multiplied."""
    return None if np.diff(b.indptr)[a.indices].sum() > MOST else a @ b


__all__ = [
    "MOST",
    "Every",
    "Fact",
    "Factor",
    "Indexed",
    "Matched",
    "Pairs",
    "Prefix",
    "Relation",
    "Rows",
    "Same",
    "Window",
    "listed",
    "no_entries",
    "numbers_of",
    "numbers_on",
    "one_each",
    "same",
]
