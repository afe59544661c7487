"""Sparse reductions that are not sums of entries: the zeros that are not stored count too.

The entries that go into one result are a *line*. Work follows the stored entries; the result of a line
without any is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.errors import DensifyWarning
from iverson.core.inputs.arrays import repeat, tile
from iverson.core.op import Op
from iverson.core.protocols import Params
from iverson.core.python.caller import warn
from iverson.core.shapes import Shape
from iverson.kernels import line_rules
from iverson.kernels.array_ops import ArrayOps
from iverson.kernels.kernel_registry import Values, zeros_like_result
from iverson.kernels.line_rules import RULES, StoredLines, share_of_each, shares
from iverson.kernels.sparse.merging import union
from iverson.kernels.sparse.sparse_moves import FEW_LINES
from iverson.kernels.sparse.sparse_operands import read, sparse, sparse_only
from iverson.layouts import CooPattern, Pattern, Sparse, coalesced, counting_sorts, is_strided, to_strided
from iverson.layouts.pattern import addresses, coordinates_of

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]


@dataclass(frozen=True)
class Lines:
    """The stored entries of a pattern, ordered by the line that they are in, then by their position in it.

    order : the entries in this order.
    ids, starts, counts : for each line that stores an entry, its row-major address, the first of its entries
        (in order), and their number.
    position : the place of each entry (in order) in its line.
    axes, extents : the axes that number the lines, and the extents of these axes.
    length : the number of entries of a line, stored or not.
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
        """A mask of the lines that store all of their entries."""
        is_full: Array = self.counts == self.length
        return is_full

    def reduced(self, ufunc: np.ufunc, entries: Array) -> Array:
        """Result of ``ufunc`` on the entries of each line; ``entries`` are in order."""
        if not self.ids.size:
            return entries[:0]
        return np.asarray(ufunc.reduceat(entries, self.starts))

    def repeated(self, by_line: Array) -> Array:
        """Value of its line, for each entry in order."""
        values: Array = np.repeat(by_line, self.counts)
        return values

    @property
    def gaps(self) -> Array:
        """First place of each line that is not stored; the number of its entries if there is none."""
        rank = np.arange(self.position.size) - self.repeated(self.starts)
        return self.reduced(np.minimum, np.where(self.position != rank, rank, self.repeated(self.counts)))


def lines_of(pattern: Pattern, axis: Shape) -> Lines:
    """Lines along the axes ``axis`` of a pattern that stores entries once; the pattern keeps them."""
    lines: Lines = pattern.once(("lines", axis), lambda: _lines_of(pattern, axis))
    return lines


def _lines_of(pattern: Pattern, axis: Shape) -> Lines:
    line_axes = tuple(k for k in range(pattern.ndim) if k not in axis)
    extents = tuple(pattern.shape[k] for k in line_axes)
    length = prod(pattern.shape[k] for k in axis)
    compressed = pattern.lines_along(line_axes[0]) if pattern.ndim == 2 and len(line_axes) == 1 else None
    if compressed is not None:
        indptr, position, order = compressed
        counts = np.diff(indptr)
        ids = np.flatnonzero(counts)
        return Lines(order, ids, indptr[ids], counts[ids], position, line_axes, extents, length)
    keys = addresses(pattern.coordinates[[*line_axes, *axis]], (*extents, *(pattern.shape[k] for k in axis)))
    return _of_keys(keys, length, line_axes, extents)


def _of_keys(keys: Array, length: int, axes: Shape, extents: Shape) -> Lines:
    """Lines of length ``length``, from a key for each entry.

    The key is the address of the entry's line times the length, plus its place in the line.

    axes, extents : as in `Lines`.
    """
    order: Array | slice = slice(None)
    if (keys[1:] < keys[:-1]).any():
        keys, order = counting_sorts.in_order(keys)
    line, position = np.divmod(keys, max(length, 1))
    first = np.ones(line.size, bool)
    first[1:] = line[1:] != line[:-1]
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, line.size))
    return Lines(order, line[starts], starts, counts, position, axes, extents, length)


def _prepared(x: Sparse, axis: Shape) -> tuple[Lines, Array]:
    """Lines of x along the axes ``axis``, and x's entries in the order of these lines."""
    x = coalesced(sparse_only(x))
    lines = lines_of(x.pattern, axis)
    return lines, x.entries[lines.order]


def _by_line(x: Sparse, lines: Lines, results: Array, shape: Shape, empty: float) -> Any:
    """Value of shape ``shape`` with a result for each line, and ``empty`` for lines that store no entry.

    results : for the lines that store an entry. The value is strided, unless most of very many lines are 0.
    """
    count = prod(lines.extents)
    if empty or count <= max(FEW_LINES, 4 * lines.ids.size):
        out = np.full(count, empty, results.dtype) if empty else np.zeros(count, results.dtype)
        out[lines.ids] = results
        return out.reshape(shape)
    pattern = CooPattern.of_keys(lines.ids, shape, np.int64)  # extents of 1 leave addresses as they are
    return pattern.value(results)


N = ArrayOps()


class LinesOfEntries(StoredLines):
    """The lines of `Lines`, for the rules of reductions; entries are arrays in the order of the lines.

    dtype : of the numbers of entries (``number``).
    full : the number of entries of each line, if they are not all of the same length.
    """

    N = N

    def __init__(self, lines: Lines, dtype: DType, full: Array | None = None) -> None:
        self._lines = lines
        self.length, self.position = lines.length, lines.position
        self.full = float(lines.length) if full is None else full
        self.number = lines.counts.astype(dtype)

    @property
    def gap(self) -> Array:
        """First place of each line that is not stored; its length if there is none."""
        return self._lines.gaps

    def summed(self, entries: Array) -> Array:
        """The sum of each line's entries."""
        return self._lines.reduced(np.add, entries)

    def combined(self, entries: Array, kind: str) -> Array:
        """The product, the largest or the least of each line's entries."""
        return self._lines.reduced(_COMBINED[kind], entries).astype(entries.dtype, copy=False)

    def each(self, of_lines: Array) -> Array:
        """For each entry, the value of its line."""
        return self._lines.repeated(of_lines)


_COMBINED = {"max": np.maximum, "min": np.minimum, "prod": np.multiply}


def _in_real(dtype: DType) -> DType:
    """Real dtype for numbers of entries that are combined with values of ``dtype``."""
    return dtype if dtype.kind == "f" else dtypes.real_of(dtypes.to_inexact(dtype))


@sparse(*RULES)
def of_lines(op: Op, values: Values, params: Params) -> Any:
    """Kernel of the reductions in `RULES`, by the rules that compiled graphs use too."""
    x, along = values[0], params["axis"]
    axis = tuple(range(len(x.shape))) if along is None else (along,) if isinstance(along, int) else along
    _, rule, empty = RULES[op.name]
    result = zeros_like_result(op, values, params)
    if not axis and op.name in ("max", "min", "prod"):
        return x
    if op.name == "logsumexp" and x.dtype.kind == "c":  # its largest entry is that of the largest real part
        return NotImplemented
    if 0 in x.shape:
        return op.forward(np.zeros(x.shape, x.dtype), **params)
    lines, entries = _prepared(x, axis)
    line_results = rule(LinesOfEntries(lines, _in_real(x.dtype)), entries, params).astype(
        result.dtype, copy=False
    )
    return _by_line(x, lines, line_results, result.shape, 0 if empty is None else empty(lines.length))


@sparse("cross_entropy")
def cross_entropy(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `cross_entropy`, by the rule that compiled graphs use too.

    The loss of an example that stores no score is the logarithm of the number of classes.
    """
    x, classes = values
    if not is_strided(classes) or x.dtype.kind != "f":
        return NotImplemented
    axis = params["axis"]
    lines, entries = _prepared(x, (axis,))
    numbers = np.arange(x.shape[axis])[classes].ravel()
    losses = np.full(numbers.size, np.log(lines.length), x.dtype)
    losses[lines.ids] = line_rules.losses(LinesOfEntries(lines, x.dtype), entries, numbers[lines.ids])
    loss = line_rules.over_examples(N, losses, params["reduction"])
    return np.reshape(loss, zeros_like_result(op, values, params).shape).astype(x.dtype, copy=False)


@sparse("segment_max")
def segment_max(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `segment_max`: entries that are not stored are zeros; -inf for a segment without slices."""
    x, ids = values
    if not is_strided(ids) or x.dtype.kind != "f":
        return NotImplemented
    x, shape = coalesced(sparse_only(x)), (params["count"], *x.shape[1:])
    first, *other_coordinates = x.pattern.coordinates
    lines = _of_keys(
        addresses(np.stack([ids[first], *other_coordinates]), shape), 1, tuple(range(len(shape))), shape
    )
    sizes = np.bincount(ids, minlength=shape[0])
    out = np.zeros(shape, x.dtype)
    out[sizes == 0] = -np.inf
    of = LinesOfEntries(lines, x.dtype, full=sizes[lines.ids // prod(shape[1:])])
    out.reshape(-1)[lines.ids] = of.extreme(x.entries[lines.order], largest=True)
    return out


@sparse("extremum_shares")
def extremum_shares(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `extremum_shares`: 1/n for the n entries that attain the extremum of their line, else 0.

    A line in which zeros that are not stored attain it is stored as a whole. If these lines are too many, the
    result is dense, with a warning.
    """
    x, axis = coalesced(sparse_only(values[0])), params["axis"]
    lines, top, of_lines = _shares(x, axis, params["largest"])
    count = prod(lines.extents)
    if (count - lines.ids.size) * lines.length > WHOLE_LINES * x.pattern.count:
        return _dense_shares(op, x, params)
    of_zeros = np.ones(count, bool)
    of_zeros[lines.ids] = (top == 0) & ~lines.full
    zero_lines = np.flatnonzero(of_zeros)
    if not zero_lines.size:
        return x.pattern.value(_of_entries(x, lines, top, of_lines))
    if zero_lines.size * lines.length > WHOLE_LINES * x.pattern.count:
        return _dense_shares(op, x, params)
    place = np.empty((x.pattern.ndim, zero_lines.size * lines.length), np.int64)
    place[list(lines.axes)] = coordinates_of(repeat(zero_lines, lines.length), lines.extents)
    along = tuple(x.shape[k] for k in axis)
    place[list(axis)] = coordinates_of(tile(np.arange(lines.length), zero_lines.size), along)
    zero_pattern = CooPattern(x.shape, place, True)
    pattern = union([x.pattern, zero_pattern], x.pattern)
    return pattern.value(_at(x, lines, top, of_lines, pattern))


#: How many times the stored entries lines may have that are stored as a whole.
WHOLE_LINES = 8


def _dense_shares(op: Op, x: Sparse, params: Params) -> Array:
    """Warn that the gradient of an extremum is dense, and compute it on a strided copy of x."""
    warn(
        f"{'max' if params['largest'] else 'min'}: the gradient of a sparse tensor of shape {x.shape} is "
        "dense by definition: in many lines the extremum is a 0 that is not stored, and each has a share "
        "of it; reduce masked_tensor(x) if those entries are not meant",
        DensifyWarning,
    )
    result: Array = op.forward(to_strided(x), **params)
    return result


@sparse("extremum_shares_at")
def extremum_shares_at(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `extremum_shares_at`: the values of `extremum_shares` at the entries of a pattern."""
    x, axis, pattern = coalesced(sparse_only(values[0])), params["axis"], params["pattern"]
    lines, top, of_lines = _shares(x, axis, params["largest"])
    return _at(x, lines, top, of_lines, pattern).reshape(pattern.stored_shape)


def _shares(x: Sparse, axis: Shape, largest: bool) -> tuple[Lines, Array, Array]:
    """Lines that store an entry; for each its extremum, and the share of an entry that attains it."""
    lines = lines_of(x.pattern, axis)
    return lines, *shares(LinesOfEntries(lines, x.dtype), x.entries[lines.order], largest)


def _of_entries(x: Sparse, lines: Lines, top: Array, share: Array) -> Array:
    """Share of each stored entry of x in the extremum of its line.

    top, share : for each line, its extremum, and the share of an entry that attains it.
    """
    out = np.empty(x.pattern.count, x.dtype)
    out[lines.order] = share_of_each(N, x.entries[lines.order], *map(lines.repeated, (top, share)))
    return out


def _at(x: Sparse, lines: Lines, top: Array, share: Array, pattern: Pattern) -> Array:
    """Shares in the extremum at the entries of ``pattern``, also of zeros that x does not store.

    In lines without stored entries, all entries have a share. For ``top`` and ``share`` see `_of_entries`.
    """
    number = addresses(pattern.coordinates[list(lines.axes)], lines.extents)
    line = np.searchsorted(lines.ids, number)
    line[line == lines.ids.size] = 0
    there = lines.ids[line] == number if lines.ids.size else np.zeros(number.shape, bool)
    tops, parts = np.zeros(number.shape, x.dtype), np.full(number.shape, 1 / max(lines.length, 1), x.dtype)
    tops[there], parts[there] = top[line[there]], share[line[there]]
    out: Array = share_of_each(N, read(x, pattern, x.shape), tops, parts)
    return out


__all__ = ["Lines", "lines_of"]
