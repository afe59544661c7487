"""Conversion kernels: between tensors and the values stored on a pattern, and between layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.op import Op
from iverson.core.protocols import Params
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.kernels.kernel_registry import Values, register
from iverson.kernels.sparse.sparse_operands import read, sparse
from iverson.kernels.sparse.sparse_slices import is_plain
from iverson.layouts import (
    Box,
    Bracket,
    CompressedPattern,
    CooPattern,
    Pattern,
    Sparse,
    Zero,
    boxed,
    coalesced,
    convert,
    counting_sorts,
)
from iverson.layouts.layout_registry import Blocks
from iverson.layouts.pattern import matches
from iverson.layouts.pattern_symbols import kept

Array = np.ndarray[Any, Any]


def from_values(values: Array, *, pattern: Pattern) -> Any:
    """Sparse value with the numbers ``values`` on ``pattern``."""
    return pattern.kind(pattern, values)


def values_at(x: Array, *, pattern: Pattern, held: bool = False) -> Array:
    """The entries of an array at a pattern, in the shape of its values.

    held : whether the entries of a sparse value are a selection, which leaves out those that are not stored.
    """
    at = pattern.coordinates
    if not len(at):
        return np.full(pattern.stored_shape, x)
    entries = x.take(at[0], axis=0) if len(at) == 1 else x[tuple(at)]  # slices: `counting_sorts.taken`
    return np.asarray(entries.reshape(pattern.stored_shape + entries.shape[1:]))


@sparse("values_at")
def values_of_sparse(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `values_at` for a sparse value: its entries at a pattern, 0 where it stores none.

    With the parameter ``held`` the result is a selection that leaves these zeros out. Entries that x leaves
    out, because it stores a selection, are left out in any case.
    """
    (x,), pattern, source = values, params["pattern"], values[0].pattern
    if source is pattern:
        return x.values
    is_held, dense = params.get("held", False), x.dense_shape
    at = pattern.places_in(source)
    if at is not None:
        return x.values.take(at, axis=0)
    at = source.places_in(pattern)
    if at is not None and (is_held or x.there is None):
        return _placed(x.values, at, (*pattern.stored_shape, *dense), is_held)
    entries, there = _entries_at(x, pattern), None
    if is_held:
        there = kept(("there", dense), (source, pattern), lambda: _there(source, dense, pattern))
    elif x.there is not None:
        there = values_at(x.there(), pattern=pattern)
    return entries if there is None else Bracket(entries, there, is_made=True)


def _there(source: Pattern, dense: Shape, pattern: Pattern) -> Array | None:
    """Mask of the entries of ``pattern`` that ``source`` stores; None if it stores all of them.

    dense : the extents of dense trailing axes, for patterns with a different number of sparse axes.
    """
    there = _entries_at(source.value(np.ones((source.count, *dense), bool)), pattern)
    return None if there.all() else there


def _entries_at(x: Sparse, pattern: Pattern) -> Array:
    """Entries of x at another pattern, in the shape of that pattern's values; 0 where x stores none."""
    source = x.pattern
    if type(source) is CooPattern and source.ndim == 2 and not source.is_known_distinct and is_plain(pattern):
        return _added(x, pattern)
    if source.ndim > pattern.ndim:  # its trailing axes are dense in the result: of the size of the values
        return _slices(coalesced(x), pattern)
    entries = read(x, pattern, x.shape)
    return np.asarray(entries.reshape(pattern.stored_shape + entries.shape[1:]))


def _added(x: Sparse, pattern: CompressedPattern) -> Array:
    """Entries at a CSR or CSC pattern of a COO value, without a sort; repeated entries are added."""
    at = pattern.find_coordinates(x.pattern.indices)
    is_stored = at >= 0
    if not is_stored.all():
        at, entries = at[is_stored], x.entries[is_stored]
    else:
        entries = x.entries
    return counting_sorts.added_rows(pattern.count, at, entries)


def _placed(values: Array, at: Array, shape: Shape, is_held: bool) -> Any:
    """Array of shape ``shape`` with ``values`` at the increasing positions ``at`` of its first axis, else 0.

    If ``is_held`` is True, the result is a selection that leaves out the zeros.
    """
    if not is_held:
        out = np.zeros(shape, values.dtype)
        out[at] = values
        return out
    if not at.size:
        return Zero(shape, values.dtype)
    first, last = int(at[0]), int(at[-1]) + 1
    zeros = (0,) * (len(shape) - 1)
    region = Region((first, *zeros), (last, *shape[1:]))
    inner, there = np.zeros(region.shape, values.dtype), np.zeros(region.shape, bool)
    inner[at - first], there[at - first] = values, True
    return Bracket(boxed(shape, region, inner), boxed(shape, region, there), is_made=True)


def _slices(x: Sparse, pattern: Pattern) -> Array:
    """Entries of x, which has more sparse axes than ``pattern``, as dense slices at the pattern."""
    k = pattern.ndim
    dense = x.shape[k : x.pattern.ndim]
    out = np.zeros((pattern.count, *dense, *x.dense_shape), x.dtype)
    inner = np.zeros(x.pattern.count, np.int64)
    lead = np.zeros(x.pattern.count, np.int64)
    for a, row in enumerate(x.pattern.coordinates):
        if a < k:
            lead = lead * x.shape[a] + row
        else:
            inner = inner * x.shape[a] + row
    place, at = matches(pattern.keys, lead)
    flat = out.reshape((pattern.count, -1, *x.dense_shape)) if out.size else out
    if out.size:
        flat[place, inner[at]] = x.entries[at]
    return out.reshape(pattern.stored_shape + out.shape[1:])


@register("values_at", Box)
def values_of_box(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `values_at` for a box: a selection that leaves out the entries outside of the box."""
    x, pattern = values[0], params["pattern"]
    inside = Box(x.shape, x.region, np.ones(x.region.shape, bool))
    out, there = (read(v, pattern, x.shape) for v in (x, inside))
    shape = pattern.stored_shape + out.shape[1:]
    return Bracket(out.reshape(shape), there.reshape(shape), is_made=True)


def to_layout(x: Array, *, layout: str, blocksize: Blocks, dense_dim: int) -> Any:
    """Sparse value, in the layout ``layout``, of an array's nonzero entries, or blocks or slices with one."""
    return convert(x, layout, blocksize, dense_dim)


@register("to_layout", object)
def any_to_layout(op: Op, values: Values, params: Params) -> Any:
    """A value converted to another layout; never made dense on the way."""
    return convert(values[0], **params)


@sparse("coalesce")
def coalesce(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `coalesce`: repeated entries are added, and entries are in row-major order."""
    return coalesced(values[0], ordered=True)
