"""The COO layout: an index per stored entry, in any order; with dense trailing axes it stores slices (rows).

An entry stored twice is the sum of both (not *coalesced*). Sums of cotangents and embedding gradients are
stored so. In `layouts` it imports `pattern`, `placement`, `counting_sorts` and `layout_registry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from iverson.core.entries import Stored
from iverson.core.inputs.arrays import repeat, tile
from iverson.core.shapes import Shape
from iverson.layouts import counting_sorts
from iverson.layouts.layout_registry import Layout, register
from iverson.layouts.pattern import (
    Array,
    Pattern,
    Sparse,
    check,
    coordinates_of,
    index_dtype,
    read_only,
    stored,
    to_strided,
)
from iverson.layouts.placement import ByPattern

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class CooPattern(Pattern):
    """``indices`` of shape (sparse axes, count); ``distinct`` says that no column occurs twice.

    Leave ``distinct`` out where it is not known: it is found out when first asked for.
    """

    __slots__ = ("_distinct", "_source", "indices")
    layout = "coo"

    def __init__(self, shape: Shape, indices: Array, distinct: bool | None = None) -> None:
        super().__init__(shape, indices.shape[1:])
        # Each axis' indices in a row, as loops want them; never a subclass (an unpickled memory map, say).
        self.indices = read_only(np.ascontiguousarray(indices))
        self._distinct = distinct
        self._source: Any = None

    @staticmethod
    def of_keys(keys: Array, shape: Shape, dtype: DTypeLike = np.int64) -> CooPattern:
        """Pattern of entries at the increasing row-major addresses ``keys``; ``dtype`` is of the indices."""
        pattern = CooPattern(shape, coordinates_of(keys, shape, dtype), True)
        pattern._facts |= {"keys": keys, "sorted": (keys, slice(None))}
        return pattern

    @staticmethod
    def of_indices(indices: Sequence[Array], shape: Shape) -> CooPattern:
        """Pattern of entries at ``indices``, one array for each axis; no entry may occur twice."""
        rows = np.array(indices, index_dtype(*shape)).reshape(len(shape), -1)
        return CooPattern(shape, rows, True)

    @property
    def index_dtype(self) -> Any:
        return self.indices.dtype

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (self.indices,)

    @property
    def distinct(self) -> bool:
        if self._distinct is None:
            keys = self.sorted[0]
            self._distinct = not keys.size or bool((keys[1:] != keys[:-1]).all())
        return self._distinct

    @property
    def is_known_distinct(self) -> bool:
        """True if entries are already known to be distinct; unlike `distinct`, it does not compare them."""
        return bool(self._distinct)

    @property
    def coalesced(self) -> bool:
        """True if entries are distinct and in row-major order."""
        return self.distinct and isinstance(self.sorted[1], slice)

    @property
    def by_rows(self) -> bool:
        return self.coalesced

    def of_entries(self, dense: Shape) -> CooPattern:
        if not dense:
            return self
        pattern: CooPattern = self.once(("of entries", dense), lambda: self._of_entries(dense))
        return pattern

    def _of_entries(self, dense: Shape) -> CooPattern:
        shape = (*self.shape, *dense)
        within = np.indices(dense).reshape(len(dense), -1)
        rows = [*repeat(self.indices, within.shape[1], axis=1), *tile(within, self.count)]
        indices = np.array(rows, np.result_type(self.index_dtype, index_dtype(*shape)))
        return CooPattern(shape, indices.reshape(len(shape), -1), self._distinct)

    def _coordinates(self) -> Array:
        return self.indices

    def lines_along(self, axis: int) -> tuple[Array, Array, Array | slice] | None:
        if self.ndim != 2:
            return None
        lines: tuple[Array, Array, Array | slice] | None
        lines = self.once(("lines", axis), lambda: self._lines_along(axis))
        return lines

    def _lines_along(self, axis: int) -> tuple[Array, Array, Array | slice] | None:
        """See `Pattern.lines_along`; None if comparing entries takes less work than counting them by line."""
        across, along = self.indices[axis], self.indices[1 - axis]
        n, m = self.shape[axis], self.shape[1 - axis]
        if not counting_sorts.worth_counting(self.count, n, m):
            return None
        if axis == 0 and isinstance(self._facts.get("sorted", (None, None))[1], slice):
            return counting_sorts.starts_of(across, n), along, slice(None)
        before, after = across[:-1], across[1:]
        line_ends = before < after
        if bool((line_ends | ((before == after) & (along[:-1] <= along[1:]))).all()):
            return counting_sorts.starts_at(across, line_ends, n), along, slice(None)
        return counting_sorts.compressed(n, m, across, along)

    def coalescing(self) -> tuple[CooPattern, Array]:
        """Coalesced pattern, and the position in `sorted` at which each of its addresses starts."""
        result: tuple[CooPattern, Array] = self.once("coalescing", self._coalescing)
        return result

    def _coalescing(self) -> tuple[CooPattern, Array]:
        keys = self.sorted[0]
        first = np.ones(keys.size, bool)
        first[1:] = keys[1:] != keys[:-1]
        starts = np.flatnonzero(first)
        return CooPattern.of_keys(keys[starts], self.shape, self.index_dtype), starts

    def subset(self, at: Array) -> CooPattern:
        return CooPattern(self.shape, self.indices[:, at], self._distinct or None)

    def permuted(self, axes: Shape) -> CooPattern:
        if axes == tuple(range(self.ndim)):
            return self
        if self._source is not None and self._source[1] == axes:
            source = self._source[0]()
            if source is not None:
                return source  # type: ignore[no-any-return]
        pattern: CooPattern = self.once(("permuted", axes), lambda: self._permuted(axes))
        return pattern

    def _permuted(self, axes: Shape) -> CooPattern:
        shape = tuple(self.shape[k] for k in axes)
        pattern = CooPattern(shape, self.indices[list(axes)], self._distinct)
        pattern._source = ref(self), tuple(int(k) for k in np.argsort(axes))
        return pattern

    def __reduce__(self) -> tuple[Any, ...]:
        return self._pickled(self.shape, self.indices, self._distinct)

    def check(self) -> None:
        assert self.indices.ndim == 2
        assert self.indices.dtype in (np.int32, np.int64)
        assert len(self.indices) == self.ndim
        assert self.indices.flags.c_contiguous
        for row, extent in zip(self.indices, self.shape, strict=True):
            assert not row.size or 0 <= row.min() <= row.max() < extent
        if self._distinct:
            assert np.unique(self.keys).size == self.count


class Coo(Sparse):
    """Values of shape (count, *dense trailing axes) on a `CooPattern`."""

    __slots__ = ()


CooPattern.kind = Coo


def coalesced(value: Sparse, ordered: bool = False) -> Any:
    """Sparse value of the same entries in which each is stored once: values of repeats are summed.

    A value that has no repeats is returned unchanged.

    ordered : also require entries in row-major order if the value is in COO.
    """
    pattern = value.pattern
    if pattern.coalesced if ordered and type(value) is Coo else pattern.distinct:
        return value
    merged, starts = pattern.coalescing()
    return merged.value(counting_sorts.sums_of_runs(value.entries, pattern.sorted[1], starts))


def distinct(pattern: Any) -> Any:
    """Pattern of the same entries, each stored once; ``pattern`` itself if none is stored twice."""
    return pattern if pattern.distinct else pattern.coalescing()[0]


def of_nonzeros(x: Array, sparse_axes: int | None = None) -> Coo:
    """Convert an array to a COO value of its nonzero entries.

    sparse_axes : number of leading axes that are sparse (by default all). A slice over the axes behind them
        is stored if it contains a nonzero entry.
    """
    k = x.ndim if sparse_axes is None else sparse_axes
    occupied = x != 0
    if not k:
        values = x.reshape(1)[: int(occupied)]
        return Coo(CooPattern((), np.zeros((0, values.size), index_dtype()), True), values)
    if k < x.ndim:
        occupied = occupied.any(axis=tuple(range(k, x.ndim)))
    indices = np.nonzero(occupied)
    return Coo(CooPattern.of_indices(indices, x.shape[:k]), x[indices])


register(
    Layout(
        name="coo",
        kind=Coo,
        to_strided=to_strided,
        check=check,
        support=lambda value: Stored(
            value.pattern if value.pattern.distinct else value.pattern.coalescing()[0]
        ),
        stored=lambda value: stored(coalesced(value)),
        # A pattern is immutable and shared: it is nobody's own memory.
        buffers=lambda value: (value.values,),
        structure=lambda value: value.pattern.arrays,
        rebuild=lambda value, buffers: Coo(value.pattern, buffers[0]),
        to_coo=lambda value: value,
        from_coo=ByPattern(
            "coo", lambda pattern, blocks: (CooPattern(pattern.shape, pattern.coordinates, True), None)
        ),
        dense_axes=True,
        priority=20,
    )
)
