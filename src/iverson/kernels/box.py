"""Box kernels that compute: they work inside the box and never touch the entries outside of it."""

from __future__ import annotations

from functools import reduce
from itertools import compress, count
from math import prod
from operator import attrgetter, ne
from typing import Any

import numpy as np

from iverson.core.entries import NOTHING, hull
from iverson.core.op import Op
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.kernels.kernel_registry import register, zeros_like_result
from iverson.layouts import Box, Sparse, Zero, counting_sorts, is_strided, support_of
from iverson.layouts.pattern import addresses

Values = tuple[Any, ...]
Params = dict[str, Any]


def make(shape: Shape, region: Region, inner: Any) -> Any:
    """A box, or what it really is: zero where it is empty, strided where it is everything."""
    if not region.size:
        return Zero(shape, inner.dtype)
    return inner if region.covers(shape) else Box(shape, region, inner)


def read(value: Any, region: Region) -> Any:
    """The strided entries of an operand inside a region of the broadcast result."""
    if not hasattr(value, "shape"):  # a Python scalar
        return value
    own = region.projected(value.shape)
    if type(value) is Zero:
        return np.zeros(own.shape, value.dtype)
    if isinstance(value, Sparse):
        return _read_sparse(value, own)
    return value.read(own) if type(value) is Box else value[own.slices]


def _read_sparse(value: Sparse, region: Region) -> np.ndarray[Any, Any]:
    """The entries of a sparse operand in a region, strided: no other is made explicit."""
    k = value.pattern.ndim
    at = value.pattern.coordinates
    start, stop = (np.array(corner[:k])[:, None] for corner in (region.start, region.stop))
    inside = ((at >= start) & (at < stop)).all(axis=0)
    keys = addresses(at[:, inside] - start, region.shape[:k])
    out = counting_sorts.added_rows(prod(region.shape[:k]), keys, value.entries[inside])
    out = out.reshape(*region.shape[:k], *value.dense_shape)
    found: np.ndarray[Any, Any] = out[(slice(None),) * k + region.slices[k:]]
    return found


def _known(values: Values) -> bool:
    return all(is_strided(v) or type(v) in (Box, Zero) or not hasattr(v, "shape") for v in values)


def _region(value: Any, shape: Shape) -> Region:
    """Where an operand may be nonzero, in the index space of the broadcast result."""
    if not hasattr(value, "shape"):  # a Python scalar
        return Region.full(shape)
    if support_of(value) is NOTHING:  # of rank 0 too, where no region is empty
        return Region((0,) * len(shape), (0,) * len(shape))
    return _own(value).broadcast(value.shape, shape)


def _own(value: Any) -> Region:
    """Where an operand may be nonzero."""
    return hull(support_of(value), value.shape)


def result_region(op: Op, values: Values, shape: Shape) -> Region:
    """Outside of which region an elementwise result is zero, from ``linear_in`` and ``zero_preserving``.

    A sum is zero where all terms are; a product where any factor is.
    """
    regions = [_region(v, shape) for v in values]
    groups = list(op.groups(len(values)))
    if op.zero_preserving:
        groups.append(tuple(range(len(values))))
    bounds = (reduce(Region.hull, (regions[k] for k in group)) for group in groups)
    return reduce(Region.intersect, bounds, Region.full(shape))


@register("elementwise", Box)
@register("elementwise", Zero)
def elementwise(op: Op, values: Values, params: Params) -> Any:
    """f computed only in the region outside of which it is known to be zero."""
    if not all(isinstance(v, Sparse) or _known((v,)) for v in values):
        return NotImplemented
    shape = zeros_like_result(op, values, params).shape
    region = result_region(op, values, shape)
    if region.covers(shape):
        return NotImplemented
    inner = op.forward(*(read(v, region) for v in values), **params)
    return make(shape, region, np.asarray(inner))


@register("add", Box)
def add(op: Op, values: Values, params: Params) -> Any:
    """A box and anything: the general rule, but never a dense sum of two boxes."""
    same = len({getattr(v, "shape", None) for v in values}) == 1
    return add_n(op, values, params) if same else elementwise(op, values, params)


@register("add_n", Box)
def add_n(op: Op, values: Values, params: Params) -> Any:
    """All terms, of one shape, accumulated into one buffer: of the hull of their boxes, if all are boxes."""
    if not _known(values):
        return NotImplemented
    shape, dtypes = values[0].shape, [v.dtype for v in values]
    dtype = dtypes[0] if dtypes.count(dtypes[0]) == len(dtypes) else np.result_type(*dtypes)
    arrays = [v for v in values if is_strided(v)]
    boxes = [v for v in values if type(v) is Box and v.inner.size]
    if not arrays and not boxes:
        return Zero(shape, dtype)
    if not arrays and (joined := _joined(boxes)) is not None:
        region, inner = joined
        return make(shape, region, inner.astype(dtype, copy=False))
    if arrays:
        region = Region.full(shape)
        total = arrays[0].astype(dtype)
        for array in arrays[1:]:
            total += array
    else:
        region = Region.around([box.region for box in boxes])
        total = np.zeros(region.shape, dtype)
    corner = region.start
    for box in boxes:
        within = zip(box.region.start, box.region.stop, corner, strict=True)
        total[tuple([slice(a - c, b - c) for a, b, c in within])] += box.inner
    return make(shape, region, total)


def _joined(boxes: list[Box]) -> tuple[Region, Any] | None:
    """The sum of boxes that follow one another along an axis without a gap: their entries side by side.

    None where they do not.
    """
    boxes = sorted(boxes, key=_start)
    start, stop = boxes[0].region
    last = boxes[-1].region
    axis = next(compress(count(), map(ne, start, last.start)), None)
    if axis is None:
        return None
    for box in boxes[1:]:
        after = box.region
        if after.start != (*start[:axis], stop[axis], *start[axis + 1 :]) or (
            after.stop != (*stop[:axis], after.stop[axis], *stop[axis + 1 :])
        ):
            return None
        stop = after.stop
    return Region(start, stop), np.concatenate(list(map(_inner, boxes)), axis)


_start, _inner = attrgetter("region.start"), attrgetter("inner")


@register("concat", Box)
@register("concat", Zero)
def concat(op: Op, values: Values, params: Params) -> Any:
    """Operands placed side by side: the result's box is the hull of theirs."""
    if not _known(values):
        return NotImplemented
    result, axis = zeros_like_result(op, values, params), params["axis"]
    parts = []
    for value, offset in zip(values, params["offsets"], strict=True):
        own = _own(value)
        if own.size:
            by = tuple(offset if k == axis else 0 for k in range(len(result.shape)))
            parts.append((own.shifted(by), read(value, own)))
    return _assemble(result, parts)


@register("stack", Box)
@register("stack", Zero)
def stack(op: Op, values: Values, params: Params) -> Any:
    """As concat, along a new axis."""
    if not _known(values):
        return NotImplemented
    result, axis = zeros_like_result(op, values, params), params["axis"]
    parts = []
    for k, value in enumerate(values):
        own = _own(value)
        if support_of(value) is not NOTHING:
            region = Region(
                (*own.start[:axis], k, *own.start[axis:]),
                (*own.stop[:axis], k + 1, *own.stop[axis:]),
            )
            parts.append((region, np.expand_dims(read(value, own), axis)))
    return _assemble(result, parts)


def _assemble(result: Zero, parts: list[tuple[Region, Any]]) -> Any:
    if not parts:
        return result
    region = reduce(Region.hull, (r for r, _ in parts))
    if len(parts) == 1:
        return make(result.shape, region, parts[0][1].astype(result.dtype, copy=False))
    if (joined := _joined([Box(result.shape, *part) for part in parts])) is not None:
        return make(result.shape, region, joined[1].astype(result.dtype, copy=False))
    inner = np.zeros(region.shape, result.dtype)
    for own, part in parts:
        inner[own.within(region).slices] = part
    return make(result.shape, region, inner)


@register("matmul", Box)
def matmul(op: Op, values: Values, params: Params) -> Any:
    """Rows of a and columns of b outside their boxes give zero; so does the contracted axis."""
    if not _known(values):
        return NotImplemented
    a, b = values
    result = zeros_like_result(op, values, params)
    region, of_a, of_b = factors(_own(a), _own(b), (a.shape, b.shape), result.shape)
    if not region.size or not of_a.size:
        return Zero(result.shape, result.dtype)
    return make(result.shape, region, op.forward(read(a, of_a), read(b, of_b), **params))


def factors(
    of_a: Region, of_b: Region, shapes: tuple[Shape, Shape], out: Shape, wanted: Region | None = None
) -> tuple[Region, Region, Region]:
    """Where a product of boxes may be nonzero and is ``wanted``, and the parts of both that make it."""
    wanted = wanted or Region.full(out)
    inner = max(of_a.start[-1], of_b.start[-2]), min(of_a.stop[-1], of_b.stop[-2])
    rows = max(of_a.start[-2], wanted.start[-2]), min(of_a.stop[-2], wanted.stop[-2])
    columns = max(of_b.start[-1], wanted.start[-1]), min(of_b.stop[-1], wanted.stop[-1])
    batch = Region(wanted.start[:-2], wanted.stop[:-2])
    for own, shape in zip((of_a, of_b), shapes, strict=True):
        lead = Region(own.start[:-2], own.stop[:-2])
        batch = batch.intersect(lead.broadcast(shape[:-2], out[:-2]))

    def matrices(lead: Region, first: tuple[int, int], second: tuple[int, int]) -> Region:
        pairs = (first, second)
        return Region((*lead.start, *(p[0] for p in pairs)), (*lead.stop, *(p[1] for p in pairs)))

    part_a, part_b = (batch.projected(shape[:-2]) for shape in shapes)
    return matrices(batch, rows, columns), matrices(part_a, rows, inner), matrices(part_b, inner, columns)
