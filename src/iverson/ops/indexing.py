"""Indexing: basic keys and their adjoint ``place``, integer arrays and theirs, and assignment.

A basic key is canonical (`iverson.kernels.strided`). Index arrays are checked against the array's
extents before they come here, so that a bad index is an error at the user's call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.entries import FULL, NOTHING, Box, Entries
from iverson.core.op import Abstract, Op, Sample, by_position
from iverson.core.region import Region
from iverson.core.shapes import Shape, broadcast_shapes
from iverson.core.table import F as namespace
from iverson.core.table import define, derived
from iverson.kernels import keys, regions, strided
from iverson.ops.notation import moved, said, stretched_index

LINEAR = ((0,),)


def _read_at(i: tuple[Any, ...], key: Any) -> tuple[Any, ...]:
    """Where ``x[key][i]`` is in x."""
    result, k = [], 0
    for item in key:
        if item is None:
            k += 1
        elif isinstance(item, slice):
            result.append(item.start + item.step * i[k])
            k += 1
        else:
            result.append(item)
    return tuple(result)


def _gathered(T: Any, x: Any, indices: Any, axes: Shape) -> Any:
    shape = _gather_abstract(x, *indices, axes=axes).shape
    lead = len(shape) - (len(x.shape) - len(axes))

    def entry(*i: Any) -> Any:
        at = dict(zip(axes, (n[stretched_index(n.shape, i[:lead])] for n in indices), strict=True))
        rest = iter(i[lead:])
        return T.F.positive(x[tuple(at[k] if k in at else next(rest) for k in range(len(x.shape)))])

    return T.compute(shape, entry)


define(
    Op(
        name="index_basic",
        forward=lambda x, *, key: np.asarray(x[key]),
        abstract=lambda x, *, key: Abstract(keys.key_shape(key, x.shape), x.dtype),
        vjp=(lambda F, g, _y, _x, *, key: F.place(g, key=key, shape=_x.shape),),
        linear_in=LINEAR,
        moves=True,
        image=regions.read,
        te=moved(lambda shape, *, key: keys.key_shape(key, shape), lambda shape, i, *, key: _read_at(i, key)),
        samples=lambda s: [
            Sample((s((4, 5)),), {"key": (2, slice(1, 4, 1))}),
            Sample((s((4, 5)),), {"key": (slice(3, None, -2), None, slice(0, 5, 2))}),
            Sample((s((4,)),), {"key": (slice(0, 0, 1),)}),
            Sample((s((3, 5)),), {"key": (slice(2, None, -1), slice(4, None, -1))}),
        ],
    )
)


define(
    Op(
        name="place",
        forward=strided.place,
        abstract=lambda g, *, key, shape: Abstract(shape, g.dtype),
        vjp=(lambda F, g, _y, _x, *, key, shape: F.index_basic(g, key=key),),
        linear_in=LINEAR,
        moves=True,
        image=regions.placed,
        spreads=True,
        samples=lambda s: [
            Sample((s((3,)),), {"key": (2, slice(1, 4, 1)), "shape": (4, 5)}),
            Sample(
                (s((2, 1, 3)),),
                {"key": (slice(3, None, -2), None, slice(0, 5, 2)), "shape": (4, 5)},
            ),
        ],
    )
)


def _index_put_x(F: Any, g: Any, _y: Any, _x: Any, _v: Any, *, key: Any) -> Any:
    """What is overwritten has no effect; if all is, nothing flows."""
    if keys.is_dense(key) and keys.key_region(key, _x.shape).covers(_x.shape):
        return None
    return F.index_put(g, F.zero((), g.dtype), key=key)


def _index_put_demand(needs: tuple[Entries, ...], _shapes: Any, out: Shape, *, key: Any) -> Entries:
    """For v alone, only the entries it was written to are read."""
    return Box(keys.key_region(key, out)) if needs[0] is NOTHING else FULL


def _index_put_v(F: Any, g: Any, _y: Any, _x: Any, _v: Any, *, key: Any) -> Any:
    return F.sum_to(F.index_basic(g, key=key), _v.shape)


define(
    Op(
        name="index_put",
        forward=strided.index_put,
        abstract=lambda x, v, *, key: Abstract(x.shape, x.dtype),
        vjp=(
            _index_put_x,
            _index_put_v,
        ),
        linear_in=((0, 1),),
        demand=_index_put_demand,
        spreads=True,
        samples=lambda s: [
            Sample((s((4, 5)), s((4, 5))), {"key": (slice(0, 4, 1), slice(0, 5, 1))}),
            Sample((s((4, 5)), s((3,))), {"key": (slice(0, 2, 1), slice(1, 4, 1))}),
            Sample((s((4, 5)), s(())), {"key": (2, 3)}),
        ],
    )
)


def _gather_abstract(x: Any, *indices: Any, axes: Shape) -> Abstract:
    lead = broadcast_shapes("index", *(i.shape for i in indices))
    return Abstract((*lead, *(n for k, n in enumerate(x.shape) if k not in axes)), x.dtype)


@by_position
def _gather_vjp(F: Any, i: int, g: Any, _y: Any, _x: Any, *indices: Any, axes: Shape) -> Any:
    """g added up at the indexed places: as a box from the first to the last of them."""
    if i:
        return None
    arrays = [F.to_numpy(n) for n in indices]
    region = _span(arrays, axes, _x.shape)
    if region.covers(_x.shape):
        return F.scatter_add(g, *indices, axes=axes, shape=_x.shape)
    if not region.size:
        return None
    moved = [n - region.start[k] for n, k in zip(arrays, axes, strict=True)]
    ct = F.scatter_add(g, *moved, axes=axes, shape=region.shape)
    return F.place(ct, key=region.slices, shape=_x.shape)


def _span(indices: list[Any], axes: Shape, shape: Shape) -> Region:
    """The smallest region that holds every indexed place; empty if there is none."""
    start, stop = [0] * len(shape), list(shape)
    for n, k in zip(indices, axes, strict=True):
        start[k], stop[k] = (int(n.min()), int(n.max()) + 1) if n.size else (0, 0)
    return Region(tuple(start), tuple(stop))


_pairs = (np.array([0, 2, 2]), np.array([1, 0, 0]))

define(
    Op(
        name="gather",
        forward=strided.gather,
        abstract=_gather_abstract,
        vjp=_gather_vjp,
        linear_in=LINEAR,
        image=regions.gathered,
        moves=True,
        te=said(lambda T, x, *indices, axes: _gathered(T, x, indices, axes)),
        samples=lambda s: [
            Sample((s((4, 5)), *_pairs), {"axes": (0, 1)}),
            Sample((s((4, 5)), np.array([[0, 3], [3, 1]])), {"axes": (1,)}),
            Sample((s((4, 5)), np.zeros((0,), int)), {"axes": (0,)}),
        ],
    )
)


@by_position
def _scatter_vjp(F: Any, i: int, g: Any, _y: Any, _x: Any, *indices: Any, axes: Shape, shape: Shape) -> Any:
    return None if i else F.gather(g, *indices, axes=axes)


define(
    Op(
        name="scatter_add",
        forward=strided.scatter_add,
        abstract=lambda g, *indices, axes, shape: Abstract(shape, g.dtype),
        vjp=_scatter_vjp,
        linear_in=LINEAR,
        image=regions.scattered,
        moves=True,
        samples=lambda s: [
            Sample((s((3,)), *_pairs), {"axes": (0, 1), "shape": (4, 5)}),
            Sample((s((2, 2, 4)), np.array([[0, 3], [3, 1]])), {"axes": (1,), "shape": (4, 5)}),
        ],
    )
)


@by_position
def _gather_put_vjp(F: Any, i: int, g: Any, _y: Any, x: Any, v: Any, *indices: Any, axes: Shape) -> Any:
    if i == 0:
        return F.gather_put(g, F.zero((), g.dtype), *indices, axes=axes)
    if i == 1:
        # A value overwritten by a later one at the same place has no effect: only the last writer counts.
        return F.sum_to(
            F.where(_last_writers(indices, axes, x.shape), F.gather(g, *indices, axes=axes), 0),
            v.shape,
        )
    return None


def _last_writers(indices: Any, axes: Shape, shape: Shape) -> Any:
    arrays = np.broadcast_arrays(*(namespace.to_numpy(i) for i in indices))
    lead = tuple(shape[k] for k in axes)
    address = np.ravel_multi_index(tuple(arrays), lead).ravel()
    last = np.zeros(address.size, bool)
    _, from_end = np.unique(address[::-1], return_index=True)
    last[address.size - 1 - from_end] = True
    rest = len(shape) - len(axes)
    return last.reshape(arrays[0].shape + (1,) * rest)


define(
    Op(
        name="gather_put",
        forward=strided.gather_put,
        abstract=lambda x, v, *indices, axes: Abstract(x.shape, x.dtype),
        vjp=_gather_put_vjp,
        linear_in=((0, 1),),
        samples=lambda s: [
            Sample((s((4, 5)), s((3,)), *_pairs), {"axes": (0, 1)}),
            Sample((s((4, 5)), s((2, 1)), np.array([3, 1])), {"axes": (0,)}),
        ],
    )
)


@derived
def take_along(x: Any, positions: Any, axis: int) -> Any:
    """x at checked positions along an axis; they broadcast with x on the other axes."""
    index = strided.index_along(x.shape, positions, axis)
    return namespace.gather(x, *index, axes=tuple(range(x.ndim)))
