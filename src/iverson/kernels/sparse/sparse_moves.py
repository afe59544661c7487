"""Sparse kernels that move, select, join or sum stored entries, by their coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any
from weakref import ref

import numpy as np

from iverson.core.op import Op
from iverson.core.protocols import Params
from iverson.core.shapes import Shape, reduced_shape
from iverson.kernels.index_keys import Key, reads_everything
from iverson.kernels.kernel_registry import Values, register, zeros_like_result
from iverson.kernels.sparse import sparse_slices
from iverson.kernels.sparse.sparse_operands import broadcast, is_sparse, moved, read, sparse, sparse_only
from iverson.layouts import (
    Bracket,
    CompressedPattern,
    CooPattern,
    Pattern,
    Sparse,
    Zero,
    coalesced,
    counting_sorts,
    is_strided,
    to_strided,
)
from iverson.layouts.conversion import like, with_sparse_axes
from iverson.layouts.pattern import addresses, coordinates_of, index_dtype, matches
from iverson.layouts.placement import reordered, subset

Array = np.ndarray[Any, Any]

#: Results of no more lines than this are strided also where most lines have no entry.
FEW_LINES = 1 << 20


@register("to_dense", object)
def to_dense(op: Op, values: Values, params: Params) -> Any:
    return to_strided(values[0])


@sparse("permute_dims")
def permute_dims(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `permute_dims`: the pattern is transposed, and only blocks are copied.

    If a dense axis moves before a sparse one, all axes become sparse first.
    """
    x, axes = values[0], params["axes"]
    if axes == tuple(range(len(axes))):
        return x
    k = x.pattern.ndim
    if axes == (1, 0) and type(x.pattern) is CompressedPattern and not x.pattern.blocks:
        transposed = x.pattern.permuted(axes)
        return transposed.kind(transposed, x.values)
    if any(a >= k for a in axes[:k]):
        x = sparse_only(x)
        k = x.pattern.ndim
    pattern = x.pattern.permuted(axes[:k])
    if pattern.layout == "coo":
        entries = x.entries.transpose((0, *(a - k + 1 for a in axes[k:])))
        return like(pattern.value(entries), x.pattern)
    lead = len(pattern.stored_shape)
    dense = tuple(a - k + lead for a in axes[k:])
    if pattern.blocksize and pattern is not x.pattern:
        return pattern.kind(pattern, np.ascontiguousarray(x.values.transpose((0, 2, 1, *dense))))
    return pattern.kind(pattern, x.values.transpose((*range(lead), *dense)))


@sparse("reshape")
def reshape(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `reshape`: each entry keeps its row-major address, from which its new coordinates follow.

    Dense trailing axes stay dense if they are not reshaped.
    """
    x, shape = values[0], params["shape"]
    if shape == x.shape:
        return x
    dense = x.dense_shape
    lead = len(shape) - len(dense)
    if dense and (lead < 1 or shape[lead:] != dense):
        x = sparse_only(x)
        lead = len(shape)
    if dense or not shape or x.pattern.blocksize or not x.pattern.distinct:
        return moved(x, shape, coordinates_of(x.pattern.keys, shape[:lead], _index_dtype(x, shape)))
    source = x.pattern._facts.get(("reshaped from", shape), lambda: None)()
    if source is not None:
        return source.value(x.entries)
    pattern, order = x.pattern.once(("reshaped", shape), lambda: _reshaped(x, shape))
    return pattern.value(reordered(x.entries, order))


def _reshaped(x: Sparse, shape: Shape) -> tuple[Pattern, Array | None]:
    """Pattern of x reshaped to ``shape``, and the order of x's entries on it; None if the order is the same.

    In the latter case the new pattern notes x's pattern, for a reshape back.
    """
    if x.pattern.layout in ("csr", "coo") and isinstance(x.pattern.sorted[1], slice):  # row after row
        coo = CooPattern.of_keys(x.pattern.keys, shape, _index_dtype(x, shape))
        pattern = like(coo.value(x.entries), x.pattern).pattern
        pattern._facts["reshaped from", x.shape] = ref(x.pattern)
        return pattern, None
    positions = np.arange(x.pattern.count)
    indices = coordinates_of(x.pattern.keys, shape, _index_dtype(x, shape))
    value = moved(x.pattern.value(positions), shape, indices)
    if not np.array_equal(value.entries, positions):
        return value.pattern, value.entries
    value.pattern._facts["reshaped from", x.shape] = ref(x.pattern)
    return value.pattern, None


def _index_dtype(x: Sparse, shape: Shape) -> Any:
    """The index dtype of x, or int64 where a shape asks for that."""
    return np.result_type(x.pattern.index_dtype, index_dtype(*shape))


@sparse("broadcast_to")
def broadcast_to(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `broadcast_to`: entries are repeated.

    A value that stores more than half of its entries becomes a strided view, which repeats nothing.
    """
    x, shape = values[0], params["shape"]
    if x.shape != shape and 2 * x.pattern.count > prod(x.pattern.shape):
        return np.broadcast_to(to_strided(x), shape)
    return broadcast(x, shape)


@sparse("expand_dims")
def expand_dims(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `expand_dims`: a new axis among sparse axes is sparse, one among dense axes is dense."""
    x, axis = values[0], params["axis"]
    shape = zeros_like_result(op, values, params).shape
    k = x.pattern.ndim
    old = [a for a in range(len(shape)) if a not in axis]
    sparse_axes = old[k - 1] + 1 if k else len(shape)
    indices = x.pattern.coordinates
    if sparse_axes > k:
        indices = np.zeros((sparse_axes, x.pattern.count), x.pattern.index_dtype)
        indices[old[:k]] = x.pattern.coordinates
    return moved(x, shape, indices, x.entries.reshape((x.pattern.count, *shape[sparse_axes:])))


@sparse("squeeze")
def squeeze(op: Op, values: Values, params: Params) -> Any:
    x, axis = values[0], params["axis"]
    shape = zeros_like_result(op, values, params).shape
    keep = [a for a in range(x.pattern.ndim) if a not in axis]
    entries = x.entries.reshape((x.pattern.count, *shape[len(keep) :]))
    indices = x.pattern.coordinates
    return moved(x, shape, indices if len(keep) == x.pattern.ndim else indices[keep], entries)


@sparse("flip")
def flip(op: Op, values: Values, params: Params) -> Any:
    x, axis = values[0], params["axis"]
    k = x.pattern.ndim
    indices = x.pattern.coordinates
    sparse_axes = [a for a in axis if a < k]
    if sparse_axes:
        indices = indices.copy()
    for a in sparse_axes:
        indices[a] = x.shape[a] - 1 - indices[a]
    entries = np.flip(x.entries, tuple(a - k + 1 for a in axis if a >= k))
    return moved(x, x.shape, indices, entries)


@sparse("roll")
def roll(op: Op, values: Values, params: Params) -> Any:
    x = values[0]
    k, entries = x.pattern.ndim, x.entries
    indices = x.pattern.coordinates
    if any(a < k for a in params["axis"]):
        indices = indices.copy()
    for shift, a in zip(params["shift"], params["axis"], strict=True):
        if a < k:
            indices[a] = (indices[a].astype(np.int64) + shift) % max(x.shape[a], 1)
        else:
            entries = np.roll(entries, shift, a - k + 1)
    return moved(x, x.shape, indices, entries)


@sparse("tril", "triu")
def triangle(op: Op, values: Values, params: Params) -> Any:
    x = sparse_only(values[0])
    rows, columns = x.pattern.coordinates[-2:]
    across = columns - rows
    return _chosen(x, across <= params["k"] if op.name == "tril" else across >= params["k"])


def _chosen(x: Sparse, keep: Array) -> Any:
    """Value of the entries of x at which the mask ``keep`` is True, on a part of x's pattern.

    The layout is another one if the pattern's own layout cannot store these entries alone.
    """
    at = np.flatnonzero(keep)
    pattern = subset(x.pattern, at)
    if pattern.stored_shape == at.shape:
        return pattern.value(x.entries[at])
    return moved(x, x.shape, x.pattern.coordinates[:, keep], x.entries[keep])


@sparse("diagonal")
def diagonal(op: Op, values: Values, params: Params) -> Any:
    x = sparse_only(values[0])
    if sparse_slices.plain(x):
        return sparse_slices.diagonal(x, params["offset"])
    shape = zeros_like_result(op, values, params).shape
    rows, columns = x.pattern.coordinates[-2:]
    keep = np.flatnonzero(columns - rows == params["offset"])
    along = (rows if params["offset"] >= 0 else columns)[keep]
    indices = np.concatenate([x.pattern.coordinates[:-2, keep], along[None]])
    return moved(x, shape, indices, x.entries[keep])


@sparse("diag_embed")
def diag_embed(op: Op, values: Values, params: Params) -> Any:
    x = sparse_only(values[0])
    pattern = sparse_slices.embedded(x.pattern, params["offset"], params["shape"])
    return like(pattern.value(x.entries), x.pattern)


@sparse("sum")
def sum(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `sum`: stored entries are added up.

    The result is strided if no sparse axis remains, or if rows or columns of a compressed matrix are summed;
    but it stays sparse if there are very many lines and most of them have no entry.
    """
    x, axis, keepdims = values[0], params["axis"], params["keepdims"]
    if not axis:
        return x
    shape = reduced_shape(x.shape, axis, keepdims)
    k = x.pattern.ndim
    if (
        len(axis) == 1
        and sparse_slices.plain(x)
        and x.shape[1 - axis[0]] <= max(FEW_LINES, 4 * x.pattern.count)
    ):
        return _line_sums(x, [1 - axis[0]], x.values).reshape(shape)
    entries = x.entries
    dense = tuple(a - k + 1 for a in axis if a >= k)
    if dense:
        entries = np.add.reduce(entries, axis=dense, dtype=x.dtype, keepdims=keepdims)
    keep = [a for a in range(k) if a not in axis]
    if not keep:
        return np.add.reduce(entries, axis=0, dtype=x.dtype).reshape(shape)
    compressed = not isinstance(x.pattern, CooPattern) and not {k - 2, k - 1}.issubset(keep)
    if compressed and prod(x.shape[a] for a in keep) <= max(FEW_LINES, 4 * x.pattern.count):
        return _line_sums(x, keep, entries).reshape(shape)
    indices = x.pattern.coordinates
    if len(keep) == k:
        return moved(x, shape, indices, entries)
    if keepdims:
        indices = indices.copy()
        indices[[a for a in range(k) if a in axis]] = 0
    else:
        indices = indices[keep]
    return coalesced(moved(x, shape, indices, entries, distinct=False))


@sparse("sum_of_stored")
def sum_of_stored(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `sum_of_stored`: the sum of a cotangent as a selection, without lines that store no entry."""
    (x,), axis = values, params["axis"]
    total = sum(op, values, params)
    line_axes = tuple(k for k in range(x.pattern.ndim) if k not in axis)
    if not is_strided(total) or x.dense_shape or not line_axes:
        return total
    there = lines_with_entries(x.pattern, line_axes)
    return total if there is None else Bracket(total, there.reshape(total.shape), is_made=True)


def lines_with_entries(pattern: Pattern, axes: Shape) -> Array | None:
    """Mask of the lines that store an entry; None if all do.

    axes : the axes that number the lines; a line runs along all other axes.
    """

    def mask() -> Array | None:
        there = np.zeros([pattern.shape[k] for k in axes], bool)
        there[tuple(pattern.coordinates[list(axes)])] = True
        return None if there.all() else there

    return pattern.once(("lines with entries", axes), mask)


def _line_sums(x: Sparse, axes: list[int], entries: Array) -> Array:
    """Sums of ``entries`` (on x's pattern) for each index on the sparse axes ``axes``, as a flat array."""
    if len(axes) == 1 and entries.ndim == 1 and sparse_slices.is_plain(x.pattern):
        pattern, across = x.pattern, axes[0] != x.pattern.axis
        n, m = pattern.shape if pattern.axis == 0 else pattern.shape[::-1]
        return counting_sorts.line_sums(n, m, pattern.indptr, pattern.indices, entries, across=across)
    extents = tuple(x.shape[a] for a in axes)
    lines = (
        x.pattern.coordinates[axes[0]] if len(axes) == 1 else addresses(x.pattern.coordinates[axes], extents)
    )
    if entries.ndim > 1:
        return counting_sorts.added_rows(prod(extents), lines, entries)
    if x.dtype.kind == "f":
        return np.bincount(lines, entries, prod(extents)).astype(x.dtype)
    out = np.zeros(prod(extents), x.dtype)
    np.add.at(out, lines, entries)
    return out


@sparse("index_basic")
def index_basic(op: Op, values: Values, params: Params) -> Any:
    """Kernel of ``x[key]``: the stored entries that the key reads, at their new places."""
    x = values[0]
    if reads_everything(params["key"], x.shape):
        return x
    part = sparse_slices.cut(x, params["key"])
    if part is not NotImplemented:
        return part
    shape = zeros_like_result(op, values, params).shape
    k, axis = x.pattern.ndim, 0
    if reads_everything(params["key"][:k], x.shape[:k]):
        return moved(x, shape, x.pattern.coordinates, x.entries[(slice(None), *params["key"][k:])])
    keep = np.ones(x.pattern.count, bool)
    rows: list[Array | None] = []
    inner: list[Any] = [slice(None)]
    for item in params["key"]:
        if item is None:
            (rows if axis < k else inner).append(None)
            continue
        if axis >= k:
            inner.append(item)
        elif isinstance(item, slice):
            at = x.pattern.coordinates[axis].astype(np.int64)
            span = range(*item.indices(x.shape[axis]))
            position, remainder = np.divmod(at - span.start, span.step)
            keep &= (remainder == 0) & (position >= 0) & (position < len(span))
            rows.append(position)
        else:
            keep &= x.pattern.coordinates[axis] == item
        axis += 1
    zeros = np.zeros(int(keep.sum()), x.pattern.index_dtype)
    indices = [zeros if row is None else row[keep].astype(zeros.dtype) for row in rows]
    stacked = np.stack(indices) if indices else np.zeros((0, zeros.size), zeros.dtype)
    if keep.all():
        return _placed(x, shape, stacked, inner)
    return _placed(x, shape, stacked, inner, keep)


def _placed(
    x: Sparse,
    shape: Shape,
    indices: Array,
    inner: list[Array | slice | int],
    keep: Array | slice = slice(None),
) -> Any:
    return moved(x, shape, indices, x.entries[keep][tuple(inner)])


@sparse("embed")
def embed(op: Op, values: Values, params: Params) -> Any:
    """Kernel of the adjoint of ``x[key]``: entries are put back at the places that the key reads."""
    return embedded(values[0], params["key"], params["shape"])


def embedded(g: Sparse, key: Key, shape: Shape) -> Any:
    """Value of shape ``shape`` with the entries of g at the places that ``key`` reads."""
    part = sparse_slices.embed(g, key, shape)
    if part is not NotImplemented:
        return part
    g = sparse_only(g)
    rows, axis, source_axis = [], 0, 0
    indices = g.pattern.coordinates.astype(_index_dtype(g, shape), copy=False)
    for item in key:
        if item is None:
            source_axis += 1
            continue
        if isinstance(item, slice):
            span = range(*item.indices(shape[axis]))
            rows.append(indices[source_axis] * span.step + span.start)
            source_axis += 1
        else:
            rows.append(np.full(g.pattern.count, item, indices.dtype))
        axis += 1
    return moved(g, shape, np.stack(rows))


@sparse("gather")
def gather(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `gather`: strided if the indices are on all sparse axes, else a sparse value of slices."""
    x, *indices = values
    axes = params["axes"]
    if not is_sparse(x) or any(not is_strided(i) for i in indices):
        return NotImplemented
    x = coalesced(with_sparse_axes(x, max(axes, default=0) + 1))
    k = x.pattern.ndim
    at: Sequence[Array] = indices
    if len({i.shape for i in indices}) > 1:
        at = np.broadcast_arrays(*indices)
    if axes == tuple(range(k)):
        if sparse_slices.plain(x):
            return sparse_slices.entries_at(x, [i.ravel() for i in at]).reshape(at[0].shape)
        pattern = CooPattern(x.pattern.shape, np.stack([i.ravel() for i in at]))
        return read(x, pattern, x.shape).reshape(at[0].shape + x.dense_shape)
    if len(at) == 1 and at[0].ndim == 1 and sparse_slices.is_plain(x.pattern):
        return sparse_slices.lines(x, at[0], axes[0])
    return _selected(x, at, axes) if at and at[0].ndim else NotImplemented


def _selected(x: Sparse, at: Sequence[Array], axes: Shape) -> Any:
    """Slices of x at index arrays of one shape on the axes ``axes``; the axes of the arrays come first."""
    lead = at[0].shape
    extents = tuple(x.shape[k] for k in axes)
    keys = addresses(np.stack([i.ravel() for i in at]), extents)
    position, source = matches(keys, addresses(x.pattern.coordinates[list(axes)], extents))
    remaining = np.delete(x.pattern.coordinates, axes, axis=0)[:, source]
    indices = np.concatenate([coordinates_of(position, lead, remaining.dtype), remaining])
    shape = (*lead, *(n for a, n in enumerate(x.shape) if a not in axes))
    return moved(x, shape, indices, x.entries[source])


@sparse("scatter_add")
def scatter_add(op: Op, values: Values, params: Params) -> Any:
    """Kernel of the adjoint of `gather` along one axis: stored slices are put back at their places.

    Slices that are put at the same place are stored twice, not added.
    """
    g, *indices = values
    axes, shape = params["axes"], params["shape"]
    if not is_sparse(g) or len(axes) != 1 or not is_strided(indices[0]) or indices[0].ndim != 1:
        return NotImplemented
    if sparse_slices.is_plain(g.pattern):
        result = sparse_slices.put_lines(g, indices[0], axes[0], shape, params.get("held", False))
        if result is not NotImplemented:
            return result
    g = with_sparse_axes(g, axes[0] + 1)
    dtype = _index_dtype(g, shape)
    first, *rows = g.pattern.coordinates
    rows.insert(axes[0], indices[0][first].astype(dtype))
    return moved(g, shape, np.stack(rows).astype(dtype, copy=False), distinct=False)


@sparse("concat")
def concat(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `concat` for sparse values and zeros: all stored entries, shifted to their places."""
    if not all(is_sparse(v) or type(v) is Zero for v in values):
        return NotImplemented
    axis = params["axis"]
    if all(map(is_sparse, values)):
        result = zeros_like_result(op, values, params)
        beside = sparse_slices.concat(list(values), axis, result.shape, result.dtype)
        if beside is not NotImplemented:
            return beside
    return _joined(op, values, params, lambda rows, k: _shifted(rows, axis, params["offsets"][k]), axis + 1)


def _shifted(rows: Array, axis: int, by: int) -> Array:
    rows = rows.copy()
    rows[axis] += by
    return rows


@sparse("stack")
def stack(op: Op, values: Values, params: Params) -> Any:
    if not all(is_sparse(v) or type(v) is Zero for v in values):
        return NotImplemented
    axis = params["axis"]
    return _joined(op, values, params, lambda rows, k: np.insert(rows, axis, k, axis=0), axis)


def _joined(
    op: Op, values: Values, params: Params, place_rows: Callable[[Array, int], Array], axes: int
) -> Any:
    """Sparse value of the entries of all operands, in the layout of the first sparse one.

    place_rows : gives the new coordinates of operand k, from its coordinates and k.
    axes : the least number of sparse axes of each operand before it is placed.
    """
    result = zeros_like_result(op, values, params)
    k = max([axes, *(v.pattern.ndim for v in values if is_sparse(v))])
    parts = [(n, with_sparse_axes(v, k)) for n, v in enumerate(values) if is_sparse(v)]
    indices = np.concatenate(
        [place_rows(v.pattern.coordinates.astype(np.int64), n) for n, v in parts], axis=1
    )
    entries = np.concatenate([v.entries for _, v in parts]).astype(result.dtype, copy=False)
    model = parts[0][1].pattern
    distinct = all(v.pattern.distinct for _, v in parts)
    fitting = indices.astype(_index_dtype(parts[0][1], result.shape))
    pattern = CooPattern(result.shape[: len(indices)], fitting, distinct or None)
    return like(pattern.value(entries), model)
