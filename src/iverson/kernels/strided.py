"""Strided kernels: bodies on NumPy arrays that take more than one NumPy call."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np

from iverson.core.counting import work
from iverson.core.float_warnings import trapping
from iverson.core.shapes import Shape
from iverson.kernels import compiled_elementwise
from iverson.kernels.index_keys import Key, key_region
from iverson.kernels.sparse import sparse_loops
from iverson.layouts import Box, Bracket, Zero, counting_sorts, segment_starts

Array = np.ndarray[Any, Any]


def broadcast_to(x: Array, *, shape: Shape) -> Array:
    """View of x, read-only, broadcast to ``shape``: like `numpy.broadcast_to`, but faster."""
    if type(x) is not np.ndarray or not x.flags.c_contiguous:
        return np.broadcast_to(x, shape)
    if x.shape == shape:
        return x
    lead = len(shape) - x.ndim
    if lead < 0 or not x.size:
        return np.broadcast_to(x, shape)
    strides = [0] * lead
    for step, n, m in zip(x.strides, x.shape, shape[lead:], strict=True):
        if n not in (m, 1):
            return np.broadcast_to(x, shape)
        strides.append(0 if n != m else step)
    view: Array = np.ndarray(shape, x.dtype, x, 0, strides)
    view.flags.writeable = False
    return view


def embed(g: Array, key: Key, shape: Shape, held: bool = False) -> Any:
    """Adjoint of ``x[key]``: a box of the region that the key reads, with g at the entries that it reads.

    held : entries of the box that the steps of the key skip are left out (a bracket), and not zeros.
    """
    if not g.size:
        return Zero(shape, g.dtype)
    region = key_region(key, shape)
    if _SLICES.issuperset(map(type, key)):
        steps, inner = list(map(_step, key)), g.view()
    else:
        steps = [i.step if type(i) is slice else 1 for i in key if i is not None]
        inner = g[tuple([0 if i is None else _ALL if type(i) is slice else None for i in key])]
    dense = steps.count(1) == len(steps)
    if not dense:
        spaced = np.zeros(region.shape, g.dtype)
        spaced[tuple([slice(None, None, step) for step in steps])] = inner
        inner = spaced
    result = inner if region.covers(shape) else Box(shape, region, inner)
    if dense or not held:
        return result
    return Bracket(result, lambda: embed(np.ones(g.shape, bool), key, shape), is_made=True)


_ALL, _SLICES, _step = slice(None), frozenset((slice,)), attrgetter("step")


def bracket(condition: Array, x: Array, *, negated: bool) -> Bracket:
    """Selection of x where ``condition`` is True (False, if ``negated``)."""
    condition, x = np.asarray(condition, bool), np.asarray(x)
    if x.shape != condition.shape:
        condition, x = np.broadcast_arrays(condition, x)
    return Bracket(x, condition, negated)


def overwritten(x: Array, *, key: Key) -> Bracket:
    """Selection of x that leaves out the entries that ``key`` reads."""
    mask = np.ones(x.shape, bool)
    mask[key] = False
    return Bracket(x, mask)


def index_put(x: Array, v: Array, key: Key) -> Array:
    """A copy of x with ``x[key] = v``."""
    result = np.array(x)
    result[key] = v
    return result


def gather(x: Array, *indices: Array, axes: Shape) -> Array:
    """x at integer index arrays on some axes; the indexed axes come first in the result."""
    if axes == (0,):
        return np.asarray(x.take(indices[0], axis=0))
    return np.moveaxis(x, axes, range(len(axes)))[indices]


def scatter_add(g: Array, *indices: Array, axes: Shape, shape: Shape, held: bool = False) -> Any:
    """Adjoint of `gather`: g added into zeros of shape ``shape``; terms for the same place are summed.

    Many terms are added in a compiled loop, fewer in SciPy's.

    held : entries to which nothing is added are left out (a bracket), and not zeros.
    """
    if held:
        sums = scatter_add(g, *indices, axes=axes, shape=shape)
        return Bracket(sums, lambda: _read_at(indices, axes, shape), is_made=True)
    if len(shape) == 1 == len(indices) and g.ndim == 1 and sparse_loops.compiled_for_segments(g):
        starts = segment_starts(indices[0], shape[0])
        if starts is not None:
            return sparse_loops.segment_sum(starts, g)
    lead = tuple(shape[k] for k in axes)
    remaining_shape = tuple(n for k, n in enumerate(shape) if k not in axes)
    rows, width = prod(lead), prod(remaining_shape)
    if not indices or not g.size:
        result = np.zeros((rows, width), g.dtype)
    else:
        addresses = _linear(indices, lead)
        terms = g.reshape(addresses.size, width)
        if sparse_loops.compiled_for_rows(terms):
            result = sparse_loops.rows_at(addresses, terms, rows)
        else:
            result = counting_sorts.added_rows(rows, addresses, terms)
    return np.moveaxis(result.reshape(lead + remaining_shape), range(len(axes)), axes)


def _read_at(indices: tuple[Array, ...], axes: Shape, shape: Shape) -> Array:
    """Mask of shape ``shape`` of the entries that index arrays on ``axes`` read."""
    there = np.zeros(shape, bool)
    np.moveaxis(there, axes, range(len(axes)))[indices] = True
    return there


def _linear(indices: tuple[Array, ...], extents: Shape) -> Array:
    """Row-major addresses from index arrays, which are in bounds."""
    if len(indices) == 1:
        return indices[0].ravel()
    return np.ravel_multi_index(np.broadcast_arrays(*indices), extents).ravel()


def _product(
    multiply: Callable[[Array, Array], Array], of_entries: Callable[[Array, Array], Array]
) -> Callable[[Array, Array], Array]:
    """Return a function for products of matrices, or batches of them.

    multiply : the matrix product.
    of_entries : the product by broadcasting, used for a batch of columns times rows.
    """

    def matmul(a: Array, b: Array) -> Array:
        """Product of matrices or batches of them, counted as work.

        A batch times a single matrix is one product, of all rows at once. A batch of columns times rows is
        multiplied entry by entry.
        """
        if b.ndim == 2 and a.ndim > 2 and a.size:
            return matmul(a.reshape(-1, a.shape[-1]), b).reshape((*a.shape[:-1], b.shape[-1]))
        outer = a.shape[-1] == 1 == b.shape[-2] and max(a.ndim, b.ndim) > 2
        if outer:  # in the order of the result
            a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        out: Array = (of_entries if outer else multiply)(a, b)
        if work.active.count:
            batch = prod(out.shape[:-2])
            work.product(a.shape[-2], a.shape[-1], b.shape[-1], batch)
        return out

    return matmul


matmul = _product(np.matmul, compiled_elementwise.outer(np.multiply))
trapping_matmul = _product(trapping(np.matmul), compiled_elementwise.outer(trapping(np.multiply)))


def linear_recurrence(a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    """Recurrence ``s[k] = a[k] * s[k - 1] + b[k]`` along an axis, with s[-1] = 0.

    reverse : the recurrence runs from the end of the axis: s[k + 1] in place of s[k - 1].
    """
    a, b = np.broadcast_arrays(a, b)
    shape = b.shape
    lines = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    return _recurrence(a.reshape(lines), b.reshape(lines), reverse).reshape(shape)


def _step_by_step(a: Array, b: Array, reverse: bool) -> Array:
    s = np.empty(b.shape, np.result_type(a, b))
    order = range(s.shape[1] - 1, -1, -1) if reverse else range(s.shape[1])
    before: int | None = None
    for k in order:
        s[:, k] = b[:, k] if before is None else a[:, k] * s[:, before] + b[:, k]
        before = k
    return s


_recurrence = compiled_elementwise.recurrence(_step_by_step)


#: Up to how many bytes a row is short, from how many rows on that counts.
_SHORT_ROW, _MANY_ROWS = 128, 32


def extremum(ufunc: np.ufunc, x: Array, *, axis: Shape | int | None, keepdims: bool) -> Array:
    """Maximum or minimum along axes, by ``ufunc``; many short rows are transposed first.

    NumPy enters its loop once per row: for rows of a few entries, that is most of the time.
    """
    n = x.shape[-1] if x.ndim else 0
    last = x.ndim - 1
    if axis in (last, (last,)) and 0 < n * x.itemsize <= _SHORT_ROW and x.size >= n * _MANY_ROWS:
        columns = np.ascontiguousarray(x.reshape(-1, n).T)
        out = ufunc.reduce(columns, axis=0).reshape((*x.shape[:-1], 1) if keepdims else x.shape[:-1])
    else:
        out = ufunc.reduce(x, axis=axis, keepdims=keepdims)
    return np.asarray(out)


def logsumexp(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    """Logarithm of the sum of exp(x), without overflow; -inf if all entries are -inf.

    x is shifted by its largest entry, a complex x by its largest real part.
    """
    top = np.max(x.real, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0).astype(x.dtype)
    with np.errstate(divide="ignore"):
        out: Array = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift
    return out if keepdims else np.squeeze(out, axis)


def softmax(x: Array, *, axis: int) -> Array:
    """Softmax along an axis: exp(x) / sum(exp(x)), shifted by the maximum."""
    if not x.size:
        return x.copy()
    out: Array = x - extremum(np.maximum, x, axis=axis, keepdims=True)
    np.exp(out, out=out)
    out /= np.add.reduce(out, axis=axis, keepdims=True)
    return out


def log_softmax(x: Array, *, axis: int) -> Array:
    """x - logsumexp(x) along an axis."""
    if not x.size:
        return x.copy()
    shifted: Array = x - extremum(np.maximum, x, axis=axis, keepdims=True)
    shifted -= np.log(np.add.reduce(np.exp(shifted), axis=axis, keepdims=True))
    return shifted


def diag_embed(x: Array, *, offset: int, shape: Shape) -> Array:
    """Adjoint of `diagonal`: zero matrices (``shape`` has all axes) with the last axis of x on a diagonal."""
    out = np.zeros(shape, x.dtype)
    rows = np.arange(x.shape[-1]) + max(-offset, 0)
    out[..., rows, rows + offset] = x
    return out


def add_n(*xs: Array) -> Array:
    """The sum of arrays of one shape, in one buffer."""
    total = np.array(xs[0], dtype=np.result_type(*xs))
    for x in xs[1:]:
        total += x
    return total


def gather_put(x: Array, v: Array | complex, *indices: Array, axes: Shape) -> Array:
    """A copy of x with v at integer index arrays on some axes; a later writer of a place wins."""
    result = np.array(x)
    np.moveaxis(result, axes, range(len(axes)))[indices] = v
    return result


def index_along(shape: Shape, positions: Array, axis: int) -> tuple[Any, ...]:
    """Index that reads entry ``positions`` of one axis, for each combination of indices on all other axes.

    shape : of the array to read.
    """
    last = len(shape) - 1
    places = [np.arange(n).reshape((n,) + (1,) * (last - k)) for k, n in enumerate(shape) if k != axis]
    places.insert(axis, positions)
    return tuple(places)
