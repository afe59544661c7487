"""Sparse reductions that are not sums of entries: the zeros that are not stored count too.

The entries that go into one result are a *line*. Work follows the stored entries; the result of a line
without any is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from iverson.core.errors import DensifyWarning
from iverson.core.inputs.arrays import repeat, tile
from iverson.core.op import Op
from iverson.core.python.caller import warn
from iverson.core.shapes import Shape
from iverson.kernels.kernel_registry import zeros_like_result
from iverson.kernels.sparse.merging import union
from iverson.kernels.sparse.sparse_moves import FEW_LINES
from iverson.kernels.sparse.sparse_operands import sparse, sparse_only
from iverson.layouts import CooPattern, Pattern, Sparse, coalesced, counting_sorts, to_strided
from iverson.layouts.pattern import addresses, coordinates_of

Values = tuple[Any, ...]
Params = dict[str, Any]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Lines:
    """The stored entries of a pattern by the line they are in, then by their position in it.

    order : the entries in this order; ``starts`` and ``counts`` are those of the lines that store any.
    ids : the row-major addresses of these lines; ``position`` of each entry (in order) in its line.
    extents, axes : of the lines, and the axes that they are numbered by; ``length`` : of each line.
    """

    order: Array | slice
    ids: Array
    starts: Array
    counts: Array
    position: Array
    axes: Shape
    extents: Shape
    length: int

    @property
    def full(self) -> Array:
        """Which of the lines store all of their entries."""
        found: Array = self.counts == self.length
        return found

    def reduced(self, ufunc: Any, entries: Array) -> Array:
        """Entries, in order, combined by line."""
        if not self.ids.size:
            return entries[:0]
        return np.asarray(ufunc.reduceat(entries, self.starts))

    def repeated(self, by_line: Array) -> Array:
        """For each entry, in order, what its line has."""
        found: Array = np.repeat(by_line, self.counts)
        return found


def lines_of(pattern: Pattern, axis: Shape) -> Lines:
    """The lines along axes of a pattern of distinct entries."""
    found: Lines = pattern.once(("lines", axis), lambda: _lines_of(pattern, axis))
    return found


def _lines_of(pattern: Pattern, axis: Shape) -> Lines:
    kept = tuple(k for k in range(pattern.ndim) if k not in axis)
    extents = tuple(pattern.shape[k] for k in kept)
    length = prod(pattern.shape[k] for k in axis)
    compressed = pattern.lines_along(kept[0]) if pattern.ndim == 2 and len(kept) == 1 else None
    if compressed is not None:
        indptr, position, order = compressed
        counts = np.diff(indptr)
        ids = np.flatnonzero(counts)
        return Lines(order, ids, indptr[ids], counts[ids], position, kept, extents, length)
    keys = addresses(pattern.coordinates[[*kept, *axis]], (*extents, *(pattern.shape[k] for k in axis)))
    order = slice(None)
    if (keys[1:] < keys[:-1]).any():
        keys, order = counting_sorts.in_order(keys)
    line, position = np.divmod(keys, max(length, 1))
    first = np.ones(line.size, bool)
    first[1:] = line[1:] != line[:-1]
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, line.size))
    return Lines(order, line[starts], starts, counts, position, kept, extents, length)


def _prepared(x: Sparse, axis: Shape) -> tuple[Lines, Array]:
    """The lines of a value along axes, and its entries in their order."""
    x = coalesced(sparse_only(x))
    lines = lines_of(x.pattern, axis)
    return lines, x.entries[lines.order]


def _by_line(x: Sparse, lines: Lines, found: Array, shape: Shape) -> Any:
    """A result per line, 0 for lines without entries: strided, unless most of very many lines are so."""
    count = prod(lines.extents)
    if count <= max(FEW_LINES, 4 * lines.ids.size):
        out = np.zeros(count, found.dtype)
        out[lines.ids] = found
        return out.reshape(shape)
    made = CooPattern.of_keys(lines.ids, shape, np.int64)  # extents of 1 leave addresses as they are
    return made.value(found)


def _with_zeros(lines: Lines, found: Array, ufunc: Any) -> Array:
    """Extrema of the stored entries, and of a zero where a line does not store all."""
    return np.where(lines.full, found, ufunc(found, np.zeros((), found.dtype)))


EXTREMA = {"max": np.maximum, "min": np.minimum, "argmax": np.maximum, "argmin": np.minimum}


def _is_empty(x: Sparse, axis: Shape) -> bool:
    """Whether lines have no entry at all, stored or not: their result need not be 0."""
    return not prod(x.shape[k] for k in axis)


@sparse("max", "min")
def extremum(op: Op, values: Values, params: Params) -> Any:
    x, axis = values[0], params["axis"]
    shape = zeros_like_result(op, values, params).shape
    if not axis:
        return x
    lines, entries = _prepared(x, axis)
    ufunc = EXTREMA[op.name]
    return _by_line(x, lines, _with_zeros(lines, lines.reduced(ufunc, entries), ufunc), shape)


@sparse("extremum_shares")
def extremum_shares(op: Op, values: Values, params: Params) -> Any:
    """The shares of the stored entries, and of all entries of lines in which zeros that are not stored have
    one: a few such lines are stored, more are dense by definition."""
    x, axis = coalesced(sparse_only(values[0])), params["axis"]
    lines, tied, share = _shares(x, axis, np.maximum if params["largest"] else np.minimum)
    count = prod(lines.extents)
    if (count - lines.ids.size) * lines.length > WHOLE_LINES * x.pattern.count:
        return _dense_shares(op, x, params)
    of_zeros = np.ones(count, bool)
    of_zeros[lines.ids] = tied & ~lines.full
    whole = np.flatnonzero(of_zeros)
    if not whole.size:
        return x.pattern.value(share)
    if whole.size * lines.length > WHOLE_LINES * x.pattern.count:
        return _dense_shares(op, x, params)
    place = np.empty((x.pattern.ndim, whole.size * lines.length), np.int64)
    place[list(lines.axes)] = coordinates_of(repeat(whole, lines.length), lines.extents)
    along = tuple(x.shape[k] for k in axis)
    place[list(axis)] = coordinates_of(tile(np.arange(lines.length), whole.size), along)
    added = CooPattern(x.shape, place, True)
    pattern = union([x.pattern, added], x.pattern)
    return pattern.value(_at(x, lines, tied, share, params, pattern))


#: How many times the stored entries lines may have that are stored as a whole.
WHOLE_LINES = 8


def _dense_shares(op: Op, x: Sparse, params: Params) -> Array:
    warn(
        f"{'max' if params['largest'] else 'min'}: the gradient of a sparse tensor of shape {x.shape} is "
        "dense by definition: in many lines the extremum is a 0 that is not stored, and each has a share "
        "of it; reduce masked_tensor(x) if those entries are not meant",
        DensifyWarning,
    )
    found: Array = op.forward(to_strided(x), **params)
    return found


@sparse("extremum_shares_at")
def extremum_shares_at(op: Op, values: Values, params: Params) -> Any:
    """The shares at the entries of a pattern."""
    x, axis, pattern = coalesced(sparse_only(values[0])), params["axis"], params["pattern"]
    lines, tied, share = _shares(x, axis, np.maximum if params["largest"] else np.minimum)
    return _at(x, lines, tied, share, params, pattern).reshape(pattern.stored_shape)


def _at(x: Sparse, lines: Lines, tied: Array, share: Array, params: Params, pattern: Pattern) -> Array:
    """The shares at the entries of a pattern, from those of the stored entries."""
    at, there = x.pattern.find(pattern.keys)
    out = share[at] if share.size else np.zeros(pattern.count, x.dtype)
    missing = np.flatnonzero(~there)
    if missing.size:
        wanted = addresses(pattern.coordinates[list(lines.axes)][:, missing], lines.extents)
        out[missing] = _share_of_zeros(x, lines, tied, wanted)
    return out


def _shares(x: Sparse, axis: Shape, ufunc: Any) -> tuple[Lines, Array, Array]:
    """Which lines have the extremum 0, and each stored entry's share of its line's extremum."""
    lines = lines_of(x.pattern, axis)
    entries = x.entries[lines.order]
    found = _with_zeros(lines, lines.reduced(ufunc, entries), ufunc)
    attained = entries == lines.repeated(found)
    count = lines.reduced(np.add, attained.astype(np.int64)) + (found == 0) * (lines.length - lines.counts)
    share = np.where(np.isnan(entries), np.nan, attained / lines.repeated(np.maximum(count, 1)))
    out = np.empty(x.pattern.count, x.dtype)
    out[lines.order] = share
    return lines, found == 0, out


def _share_of_zeros(x: Sparse, lines: Lines, tied: Array, wanted: Array) -> Array:
    """The share of a zero that is not stored, in lines of the given addresses."""
    entries = x.entries[lines.order]
    zeros = lines.reduced(np.add, (entries == 0).astype(np.int64)) + lines.length - lines.counts
    by_line = np.where(tied, 1 / np.maximum(zeros, 1), 0)
    at = np.searchsorted(lines.ids, wanted)
    at[at == lines.ids.size] = 0
    held = lines.ids[at] == wanted if lines.ids.size else np.zeros(wanted.shape, bool)
    return np.where(held, by_line[at] if lines.ids.size else 0, 1 / max(lines.length, 1)).astype(x.dtype)


@sparse("argmax", "argmin")
def position_of_extremum(op: Op, values: Values, params: Params) -> Any:
    """The first place of the extremum: that of a stored entry, or the first place not stored if it is 0."""
    x, along = values[0], params["axis"]
    axis = tuple(range(len(x.shape))) if along is None else (along,)
    shape = zeros_like_result(op, values, params).shape
    lines, entries = _prepared(x, axis)
    ufunc = EXTREMA[op.name]
    found = _with_zeros(lines, lines.reduced(ufunc, entries), ufunc)
    each = lines.repeated(found)
    attained = (entries == each) | (np.isnan(entries) & np.isnan(each))
    place = lines.reduced(np.minimum, np.where(attained, lines.position, lines.length))
    rank = np.arange(entries.size) - lines.repeated(lines.starts)
    gap = lines.reduced(np.minimum, np.where(lines.position != rank, rank, lines.repeated(lines.counts)))
    zero = (found == 0) & ~lines.full
    return _by_line(x, lines, np.where(zero, np.minimum(place, gap), place).astype(np.int64), shape)


@sparse("any", "all")
def test(op: Op, values: Values, params: Params) -> Any:
    x, axis = values[0], params["axis"]
    shape = zeros_like_result(op, values, params).shape
    if _is_empty(x, axis):
        return np.full(shape, op.name == "all")
    lines, entries = _prepared(x, axis)
    if op.name == "any":
        return _by_line(x, lines, lines.reduced(np.logical_or, entries != 0), shape)
    return _by_line(x, lines, lines.reduced(np.logical_and, entries != 0) & lines.full, shape)


@sparse("prod")
def product(op: Op, values: Values, params: Params) -> Any:
    """0 for lines that do not store all of their entries: a structural zero annihilates."""
    x, axis = values[0], params["axis"]
    shape = zeros_like_result(op, values, params).shape
    if not axis:
        return x
    if _is_empty(x, axis):
        return np.ones(shape, x.dtype)
    lines, entries = _prepared(x, axis)
    found = lines.reduced(np.multiply, entries).astype(x.dtype, copy=False)
    return _by_line(x, lines, np.where(lines.full, found, np.zeros((), x.dtype)), shape)


@sparse("norm")
def norm(op: Op, values: Values, params: Params) -> Any:
    x, axis = values[0], params["axis"]
    result = zeros_like_result(op, values, params)
    lines, entries = _prepared(x, axis)
    squares = np.square(entries.real) + np.square(entries.imag) if x.dtype.kind == "c" else np.square(entries)
    found = np.sqrt(lines.reduced(np.add, squares.astype(result.dtype, copy=False)))
    return _by_line(x, lines, found, result.shape)


@sparse("deviation")
def deviation(op: Op, values: Values, params: Params) -> Any:
    """The squared distances of stored entries from the mean, and its square for each other entry."""
    x, axis = values[0], params["axis"]
    result = zeros_like_result(op, values, params)
    lines, entries = _prepared(x, axis)
    mean = lines.reduced(np.add, entries) / lines.length
    apart = np.square(np.abs(entries - lines.repeated(mean)))
    found = lines.reduced(np.add, apart) + (lines.length - lines.counts) * np.square(np.abs(mean))
    found = found if params["squared"] else np.sqrt(found)
    return _by_line(x, lines, found.astype(result.dtype, copy=False), result.shape)


__all__ = ["Lines", "lines_of"]
