"""Indexing: basic keys and their adjoint ``embed``, integer arrays and theirs, and assignment.

A basic key is canonical (`iverson.kernels.index_keys`). Index arrays are checked against the array's
extents before they come here, so that a bad index is an error at the user's call.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import has_entries, value_of
from iverson.core.entries import FULL, NOTHING, Box, Entries, Stored
from iverson.core.entry_map import Call
from iverson.core.errors import IndexingError
from iverson.core.op import Body, Op, Rule, Sample, by_position
from iverson.core.protocols import Namespace, NDArray, Params, Shaped, Value
from iverson.core.region import Region
from iverson.core.relations import Factor, Matched, Relation
from iverson.core.shapes import Shape, broadcast_shapes
from iverson.core.table import F as namespace
from iverson.core.table import define, derived
from iverson.kernels import index_keys, region_images, strided
from iverson.kernels.index_keys import Key
from iverson.kernels.sparse import sparse_assignments
from iverson.layouts import CooPattern, Pattern, Sparse, is_strided
from iverson.layouts.pattern import index_dtype
from iverson.layouts.pattern_symbols import PatternSymbol
from iverson.ops.rules import loops
from iverson.ops.rules.batching import Examples, batch_params, leading, next_axis, padded
from iverson.ops.rules.entry_maps import Copied, Moved
from iverson.ops.rules.notation import Index, Indexed, Language, Moves, lazy_te, stretched_index

if TYPE_CHECKING:
    from iverson.te import Expr

LINEAR = ((0,),)


def _read_at(i: tuple[Expr, ...], key: Key) -> Index:
    """The index in x of entry i of ``x[key]``."""
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


def _index_basic_vjp(F: Namespace, g: Value, _y: Shaped, _x: Shaped, *, key: Key) -> Any:
    """The cotangent of x: g at the entries that the key reads; other entries are zeros of a selection."""
    options = {} if index_keys.is_dense(key) else {"held": True}
    return F.embed(g, key=key, shape=_x.shape, **options)


def _gathered(T: Language, x: Indexed, indices: Sequence[Indexed], axes: Shape) -> Any:
    shape = _gather_abstract(x, *indices, axes=axes).shape
    lead = len(shape) - (len(x.shape) - len(axes))

    def entry(*i: Expr) -> Any:
        at = dict(zip(axes, (n[stretched_index(n.shape, i[:lead])] for n in indices), strict=True))
        remaining = iter(i[lead:])
        return x[tuple(at[k] if k in at else next(remaining) for k in range(len(x.shape)))]

    return T.compute(shape, entry)


define(
    Op(
        name="index_basic",
        forward=lambda x, *, key: np.asarray(x[key]),
        abstract=lambda x, *, key: Aval(index_keys.key_shape(key, x.shape), x.dtype),
        vjp=(_index_basic_vjp,),
        linear_in=LINEAR,
        entry_map=Moved(region_images.read),
        te=Moves(
            lambda shape, *, key: index_keys.key_shape(key, shape), lambda shape, i, *, key: _read_at(i, key)
        ),
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
        name="embed",
        forward=strided.embed,
        abstract=lambda g, *, key, shape, held=False: Aval(shape, g.dtype),
        vjp=(lambda F, g, _y, _x, *, key, shape, held=False: F.index_basic(g, key=key),),
        linear_in=LINEAR,
        entry_map=Moved(region_images.embedded, partial=True),
        te=lazy_te(loops.embed),
        samples=lambda s: [
            Sample((s((3,)),), {"key": (2, slice(1, 4, 1)), "shape": (4, 5)}),
            Sample(
                (s((2, 1, 3)),),
                {"key": (slice(3, None, -2), None, slice(0, 5, 2)), "shape": (4, 5)},
            ),
        ],
    )
)


def _batched_index_put(F: Namespace, examples: Examples, x: Value, v: Value, *, key: Key) -> Any:
    """The op ``index_put`` for each example; x is repeated if all share it."""
    of_x, of_v = examples.of
    shape = x.shape[1:] if of_x else x.shape
    v = padded(F, v, len(index_keys.key_shape(key, shape))) if of_v else v
    x = x if of_x else examples.repeated(F, x)
    return F.index_put(x, v, **batch_params({"key": key}, examples.size))


def _index_put_x(F: Namespace, g: Value, _y: Shaped, _x: Shaped, _v: Shaped, *, key: Key) -> Any:
    """The cotangent of x: zero at overwritten entries, which have no effect; None if all are overwritten."""
    if index_keys.is_dense(key) and index_keys.key_region(key, _x.shape).covers(_x.shape):
        return None
    return F.overwritten(g, key=key)


class Assigned(Copied):
    """Entry map of ``index_put``: an entry is that of v if the basic key reads it, else that of x."""

    partial = True
    superset = True

    def demand(
        self, _op: Op, demands: Sequence[Entries], _inputs: Sequence[Shaped], out: Shaped, params: Params
    ) -> Entries:
        """The entries that v was written to, if only v is demanded.

        If x is demanded at a pattern over all axes, the result is that pattern, with the written entries if v
        is demanded too and these are few. Else it is every entry.
        """
        x, v = demands
        key, shape = params["key"], out.shape
        if x is NOTHING:
            return Box(index_keys.key_region(key, shape))
        if not isinstance(x, Stored) or x.pattern.ndim != len(shape):
            return FULL
        if v is NOTHING:
            return Stored(x.pattern)
        region = index_keys.key_region(key, shape)
        if isinstance(v, Stored) and v.pattern.shape == index_keys.key_shape(key, shape):
            return Stored(sparse_assignments.places_read(x.pattern, v.pattern, None, key, shape))
        if region.size > max(x.pattern.count, *shape):
            return FULL
        return Stored(sparse_assignments.places_read(x.pattern, None, region, key, shape))


def _index_put_within(
    F: Namespace,
    _rule: Rule,
    wanted: Entries,
    i: int,
    g: Value,
    _y: Shaped,
    _x: Shaped,
    _v: Shaped,
    *,
    key: Key,
) -> Any:
    """Cotangent of x at a pattern: zero at overwritten entries; NotImplemented for other parts."""
    if i or not isinstance(wanted, Stored) or wanted.pattern.ndim != len(_x.shape):
        return NotImplemented
    at = [F.along(wanted.pattern, k) for k in range(len(_x.shape))]
    return _left_standing(F, g, wanted.pattern, sparse_assignments.is_read(at, key, _x.shape))


def _left_standing(F: Namespace, g: Value, pattern: Pattern, overwritten: Value) -> Any:
    """Cotangent of x at a pattern, without the entries in the mask ``overwritten``."""
    untouched = F.reshape(F.logical_not(overwritten), shape=pattern.stored_shape)
    return F.with_entries(F.bracket(untouched, F.entries_at(g, pattern, held=True), negated=False), pattern)


def _index_put_v(F: Namespace, g: Value, _y: Shaped, _x: Shaped, _v: Shaped, *, key: Key) -> Any:
    return F.sum_to(F.index_basic(g, key=key), _v.shape)


define(
    Op(
        name="index_put",
        forward=strided.index_put,
        abstract=lambda x, v, *, key: Aval(x.shape, x.dtype),
        vjp=(
            _index_put_x,
            _index_put_v,
        ),
        linear_in=((0, 1),),
        entry_map=Assigned(),
        vjp_at=_index_put_within,
        batch=_batched_index_put,
        loops=loops.index_put,
        samples=lambda s: [
            Sample((s((4, 5)), s((4, 5))), {"key": (slice(0, 4, 1), slice(0, 5, 1))}),
            Sample((s((4, 5)), s((3,))), {"key": (slice(0, 2, 1), slice(1, 4, 1))}),
            Sample((s((4, 5)), s(())), {"key": (2, 3)}),
        ],
    )
)


def _checked_index(
    x: NDArray, *, extent: int, operation: str, argument: str, least: int | None = None
) -> NDArray:
    """Positions on an axis, negative ones counted from its end; raises IndexingError outside it.

    least : the least position that is allowed; by default ``-extent``.
    """
    least = -extent if least is None else least
    if not x.size:
        return x.astype(np.intp)
    low, high = x.min(), x.max()
    if low < least or high >= extent:
        raise IndexingError(
            operation,
            argument,
            got=f"position {high if high >= extent else low}",
            expected=f"one in [{least}, {extent})",
        )
    return np.where(x < 0, x + extent, x).astype(np.intp)


# What callers do with an index that they can read; of a batch or a trace, it is done where the entries are.
define(
    Op(
        name="checked_index",
        forward=_checked_index,
        abstract=lambda x, **_: Aval(x.shape, dtypes.int64),
        batch=leading,
        samples=lambda s: [
            Sample(
                (np.array([[2, -1, 0], [0, 1, -3]]),), {"extent": 3, "operation": "index", "argument": "key"}
            )
        ],
    )
)


def _gather_abstract(x: Shaped, *indices: Shaped, axes: Shape) -> Aval:
    lead = broadcast_shapes("index", *(i.shape for i in indices))
    return Aval((*lead, *(n for k, n in enumerate(x.shape) if k not in axes)), x.dtype)


# What is indexed by arrays that differ from example to example is indexed by the example's number too. By
# arrays that are the same for all it is indexed on its own axes: they come first, the examples' after them.
def _with_numbers(
    F: Namespace, examples: Examples, indices: Sequence[Value], of: Sequence[bool]
) -> tuple[Value, ...]:
    """The numbers of the examples, and index arrays that broadcast with them, to index a batch.

    of : for each index array, True if it has the axis of the examples.
    """
    rank = max(len(n.shape) - b for n, b in zip(indices, of, strict=True))
    numbers = np.arange(examples.size).reshape((examples.size,) + (1,) * rank)
    return numbers, *(padded(F, n, rank) if b else n for n, b in zip(indices, of, strict=True))


def _turned(F: Namespace, x: Value, start: int, stop: int) -> Any:
    """x with the axis ``start`` moved to position ``stop``."""
    order = [k for k in range(x.ndim) if k != start]
    order.insert(stop, start)
    return F.permute_dims(x, axes=tuple(order)) if start != stop else x


def _lead(indices: Sequence[Shaped]) -> int:
    """Number of axes that the index arrays have together when they are broadcast."""
    return max(len(n.shape) for n in indices)


def _batched_gather(F: Namespace, examples: Examples, x: Value, *indices: Value, axes: Shape) -> Any:
    of_x, *of = examples.of
    if not any(of):
        return _turned(F, F.gather(x, *indices, axes=next_axis(axes)), _lead(indices), 0)
    numbers, *indices = _with_numbers(F, examples, indices, of)  # type: ignore[assignment]
    return (
        F.gather(x, numbers, *indices, axes=(0, *next_axis(axes)))
        if of_x
        else F.gather(x, *indices, axes=axes)
    )


def _batched_scatter_add(
    F: Namespace, examples: Examples, g: Value, *indices: Value, axes: Shape, shape: Shape, **held: bool
) -> Any:
    of_g, *of = examples.of
    g = g if of_g else examples.repeated(F, g)
    axes, shape = next_axis(axes), (examples.size, *shape)
    if not any(of):
        return F.scatter_add(_turned(F, g, 0, _lead(indices)), *indices, axes=axes, shape=shape, **held)
    return F.scatter_add(g, *_with_numbers(F, examples, indices, of), axes=(0, *axes), shape=shape, **held)


def _batched_gather_put(
    F: Namespace, examples: Examples, x: Value, v: Value, *indices: Value, axes: Shape
) -> Any:
    """The op ``gather_put`` for each example; x is repeated if all share it."""
    of_x, of_v, *of = examples.of
    x = x if of_x else examples.repeated(F, x)
    slice_rank = x.ndim - 1 - len(axes)
    axes = next_axis(axes)
    if any(of):
        numbers, *indices = _with_numbers(F, examples, indices, of)  # type: ignore[assignment]
        v = padded(F, v, numbers.ndim - 1 + slice_rank) if of_v else v
        return F.gather_put(x, v, numbers, *indices, axes=(0, *axes))
    if of_v:
        v = _turned(F, padded(F, v, _lead(indices) + slice_rank), 0, _lead(indices))
    elif len(getattr(v, "shape", ())) > slice_rank:
        v = F.expand_dims(v, axis=(v.ndim - slice_rank,))
    return F.gather_put(x, v, *indices, axes=axes)


#: Cotangents of at most this many entries are kept as a box whatever part of it is indexed.
_SMALL = 1 << 12


@by_position
def _gather_vjp(F: Namespace, i: int, g: Value, _y: Shaped, _x: Shaped, *indices: Value, axes: Shape) -> Any:
    """The cotangent of x: g added up at the indexed places. None for the index arrays.

    It is stored at these places alone if they are few, else in a box around them; entries of the box that no
    index names are zeros of a selection.
    """
    if i:
        return None
    if not all(map(has_entries, indices)):
        return F.scatter_add(g, *indices, axes=axes, shape=_x.shape, held=True)
    arrays = [F.to_numpy(n) for n in indices]
    region = _span(arrays, axes, _x.shape)
    if not region.size:
        return None
    # Rows are held by their numbers as cheaply as by a box; what is done with single entries costs more.
    worth = 2 if axes == (0,) else 64
    if region.size > max(_SMALL, worth * g.size) and is_strided(value_of(g)):
        return _stored_at(F, g, _x.shape, list(np.broadcast_arrays(*arrays)), axes)
    if isinstance(value_of(g), Sparse):
        return F.scatter_add(g, *indices, axes=axes, shape=_x.shape, held=True)
    if region.covers(_x.shape):
        return F.scatter_add(g, *indices, axes=axes, shape=_x.shape, held=True)
    shifted = [n - region.start[k] for n, k in zip(arrays, axes, strict=True)]
    ct = F.scatter_add(g, *shifted, axes=axes, shape=region.shape, held=True)
    return F.embed(ct, key=region.slices, shape=_x.shape)


def _stored_at(F: Namespace, g: Value, shape: Shape, indices: list[NDArray], axes: Shape) -> Any:
    """Cotangent in COO: slices of g at the places that ``indices`` name on ``axes``; other axes are dense.

    shape : of the cotangent.
    indices : index arrays of one shape.
    """
    places = np.stack([i.ravel() for i in indices])
    lead = tuple(shape[k] for k in axes)
    pattern = CooPattern(lead, places.astype(index_dtype(*shape)))
    dense_axes = tuple(k for k in range(len(shape)) if k not in axes)
    entries = F.reshape(g, shape=(places.shape[1], *(shape[k] for k in dense_axes)))
    order = tuple(int(k) for k in np.argsort((*axes, *dense_axes)))
    value = F.from_values(entries, pattern=pattern)
    return value if order == tuple(range(len(shape))) else F.permute_dims(value, axes=order)


def _span(indices: list[NDArray], axes: Shape, shape: Shape) -> Region:
    """Smallest region of an array of ``shape`` that contains all indexed places; empty if there are none."""
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
        entry_map=Moved(region_images.gathered),
        te=lazy_te(lambda T, x, *indices, axes: _gathered(T, x, indices, axes)),
        batch=_batched_gather,
        samples=lambda s: [
            Sample((s((4, 5)), *_pairs), {"axes": (0, 1)}),
            Sample((s((4, 5)), np.array([[0, 3], [3, 1]])), {"axes": (1,)}),
            Sample((s((4, 5)), np.zeros((0,), int)), {"axes": (0,)}),
            Sample((s((4, 5)), np.array(2)), {"axes": (0,)}),
        ],
    )
)


@by_position
def _scatter_vjp(
    F: Namespace, i: int, g: Value, _y: Shaped, _x: Shaped, *indices: Value, axes: Shape, **_: bool | Shape
) -> Any:
    return None if i else F.gather(g, *indices, axes=axes)


class Scattered(Moved):
    """Entry map of ``scatter_add``: entries of input 0 are added up at the places that index arrays name."""

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to all entries that are added at the place of the entry of the result."""
        g, *indices = call.inputs
        if not all(is_strided(n) for n in indices):
            return call.everything(i)
        numbers = np.arange(prod(call.out.shape))
        places = strided.gather(numbers.reshape(call.out.shape), *indices, axes=call.params["axes"])
        axes = tuple(range(len(call.out.shape))), tuple(range(len(g.shape)))
        return Relation.of(call.out.shape, g.shape, Factor(Matched(None, places, numbers.size), *axes))


define(
    Op(
        name="scatter_add",
        forward=Body(strided.scatter_add, signals=True),
        abstract=lambda g, *indices, axes, shape, held=False: Aval(shape, g.dtype),
        vjp=_scatter_vjp,
        linear_in=LINEAR,
        entry_map=Scattered(region_images.scattered),
        batch=_batched_scatter_add,
        loops=loops.scatter_add,
        samples=lambda s: [
            Sample((s((3,)), *_pairs), {"axes": (0, 1), "shape": (4, 5)}),
            Sample((s((2, 2, 4)), np.array([[0, 3], [3, 1]])), {"axes": (1,), "shape": (4, 5)}),
            Sample((s((5,)), np.array(2)), {"axes": (0,), "shape": (4, 5)}),
        ],
    )
)


@by_position
def _gather_put_vjp(
    F: Namespace, i: int, g: Value, _y: Shaped, _x: Shaped, _v: Shaped, *indices: Value, axes: Shape
) -> Any:
    """Cotangent of x (``i`` is 0) without overwritten entries, or of v (1) from the entries that it wrote.

    None for the index arrays.
    """
    if i == 0:
        if isinstance(value_of(g), Sparse):  # a mask would be dense
            return F.gather_put(g, F.zero((), g.dtype), *indices, axes=axes)
        return F.bracket(_not_at(F, indices, axes, _x.shape), g, negated=False)
    if i == 1:
        # A value overwritten by a later one at the same place has no effect: only the last writer counts.
        last, cotangent = _last_writers(F, indices, axes, _x.shape), F.gather(g, *indices, axes=axes)
        mask = value_of(last, last)
        all_last = is_strided(mask) and mask.all()
        return F.sum_to(cotangent if all_last else F.bracket(last, cotangent, negated=False), _v.shape)
    return None


def _not_at(F: Namespace, indices: Sequence[Value], axes: Shape, shape: Shape) -> Any:
    """A mask of x: False at the entries that index arrays name, True elsewhere."""
    return F.gather_put(np.ones(shape, bool), np.zeros((), bool), *indices, axes=axes)


def _last_writers(F: Namespace, indices: Sequence[Value], axes: Shape, shape: Shape) -> Any:
    """Mask over the places in the index arrays: True if no later place writes to the same entry.

    The places write their numbers; a place that reads its own number back is the last one.
    """
    lead = broadcast_shapes("index", *(n.shape for n in indices))
    number = np.arange(prod(lead)).reshape(lead)
    extents = tuple(shape[k] for k in axes)
    writers = F.gather_put(np.zeros(extents, int), number, *indices, axes=tuple(range(len(axes))))
    last = F.equal(F.gather(writers, *indices, axes=tuple(range(len(axes)))), number)
    return F.reshape(last, shape=lead + (1,) * (len(shape) - len(axes)))


class AssignedByIndex(Copied):
    """Entry map of ``gather_put``: an entry is that of v if index arrays name it, else that of x."""

    superset = True

    def demand(
        self, _op: Op, demands: Sequence[Entries], _inputs: Sequence[Shaped], out: Shaped, _params: Params
    ) -> Entries:
        """The demanded pattern of x, if it has all axes and only x is demanded; else all entries."""
        x = demands[0]
        only_x = all(need is NOTHING for need in demands[1:])
        all_axes = isinstance(x, Stored) and x.pattern.ndim == len(out.shape)
        return Stored(x.pattern) if only_x and isinstance(x, Stored) and all_axes else FULL


def _gather_put_within(
    F: Namespace,
    _rule: Rule,
    wanted: Entries,
    i: int,
    g: Value,
    _y: Shaped,
    _x: Shaped,
    _v: Shaped,
    *indices: Value,
    axes: Shape,
) -> Any:
    """Cotangent of x at a pattern: zero at overwritten entries; NotImplemented for other parts."""
    if i or not isinstance(wanted, Stored) or wanted.pattern.ndim != len(_x.shape):
        return NotImplemented
    if isinstance(wanted.pattern, PatternSymbol):  # all of it: where entries are is not known
        return NotImplemented
    places = sparse_assignments.places_on(axes, [F.to_numpy(k) for k in indices], _x.shape)
    pattern_places = sparse_assignments.places_on(
        axes, list(wanted.pattern.coordinates[list(axes)]), _x.shape
    )
    return _left_standing(F, g, wanted.pattern, np.isin(pattern_places, places))


define(
    Op(
        name="gather_put",
        forward=strided.gather_put,
        abstract=lambda x, v, *indices, axes: Aval(x.shape, x.dtype),
        vjp=_gather_put_vjp,
        linear_in=((0, 1),),
        entry_map=AssignedByIndex(),
        vjp_at=_gather_put_within,
        batch=_batched_gather_put,
        samples=lambda s: [
            Sample((s((4, 5)), s((3,)), *_pairs), {"axes": (0, 1)}),
            Sample((s((4, 5)), s((2, 1)), np.array([3, 1])), {"axes": (0,)}),
        ],
    )
)


@derived
def take_along(x: Value, positions: NDArray, axis: int) -> Any:
    """Entries of x at ``positions`` along an axis; positions are checked, and broadcast on other axes."""
    index = strided.index_along(x.shape, positions, axis)
    return namespace.gather(x, *index, axes=tuple(range(x.ndim)))
