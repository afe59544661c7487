"""Ops that move entries, and sums over axes or at places, of partial values.

The entries of a box go to the op's image of the box. Conditions of selections move along with their values;
a sum is held where any of its terms is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.entries import FULL, Entries, hull, plain
from iverson.core.entries import Box as Boxed
from iverson.core.op import Op
from iverson.core.region import Region
from iverson.core.shapes import Shape, concat_offsets
from iverson.kernels import index_keys, region_images
from iverson.kernels.partial.partial_values import (
    Namespace,
    Params,
    Value,
    Values,
    everything,
    in_dtype,
    inner_of,
    is_partial,
    is_plain,
    placed,
    read,
    region_of,
    region_read,
    through,
)
from iverson.layouts import Bracket

#: Where an op reads of a box, and its parameters there; None for the parameters of the identity.
Inside = tuple[Region, Params | None]


def _same(region: Region, _shape: Shape, _image: Region, **params: Any) -> Inside:
    return region, params


def _broadcast(region: Region, _shape: Shape, image: Region, **_: Any) -> Inside:
    return region, {"shape": image.shape}


def _reshaped(region: Region, _shape: Shape, image: Region, **_: Any) -> Inside | None:
    return (region, {"shape": image.shape}) if image.size == region.size else None


def _diagonals(region: Region, _shape: Shape, image: Region, *, offset: int, shape: Shape) -> Inside:
    return region, {"offset": 0, "shape": image.shape}


def _on_diagonal(_region: Region, shape: Shape, image: Region, *, offset: int) -> Inside:
    return region_images.on_diagonal(image, image.shape, offset=offset, shape=shape), {"offset": 0}


def _triangle(_region: Region, _shape: Shape, image: Region, *, k: int) -> Inside:
    return image, {"k": k + image.start[-2] - image.start[-1]}


def _indexed(region: Region, shape: Shape, _image: Region, *, key: index_keys.Key) -> Inside:
    return region, {"key": index_keys.key_within(region, key, shape)}


def _rolled(region: Region, shape: Shape, _image: Region, *, shift: Shape, axis: Shape) -> Inside:
    """Region of the box that `roll` reads, and the shifts that remain there.

    On an axis on which the rolled box crosses the end, the whole axis is read and rolled. On all other axes
    the box only moves, and nothing has to be rolled.
    """
    across = {}
    for k, by in zip(axis, shift, strict=True):
        if (region.start[k] + by) % shape[k] + region.stop[k] - region.start[k] > shape[k]:
            region, across[k] = region.on(k, 0, shape[k]), by
    params = {"shift": tuple(across.values()), "axis": tuple(across)}
    return region, params if across else None


#: Of ops that are the op itself on a part of what they are given: ``f(region, shape, image, **params)``.
INSIDE: dict[str, Callable[..., Inside | None]] = {
    "broadcast_to": _broadcast,
    "diag_embed": _diagonals,
    "diagonal": _on_diagonal,
    "expand_dims": _same,
    "flip": _same,
    "index_basic": _indexed,
    "permute_dims": _same,
    "reshape": _reshaped,
    "roll": _rolled,
    "squeeze": _same,
    "tril": _triangle,
    "triu": _triangle,
}


def moved(N: Namespace, op: Op, values: Values, params: Params, _need: Entries = FULL) -> Value:
    """Rule of ops that move the entries of one operand: the entries of a box go to the op's image of the box.

    The condition of a selection moves with its values. The result is NotImplemented for a plain operand.
    """
    (x,) = values
    if not is_partial(x):
        return through(N, op, values, params) if type(x) is Bracket else NotImplemented
    out, region = N.aval(op, values, params), region_of(x)
    image = op.entry_map.image(region, x.shape, (), params) if region.size else None
    if image is None or not image.size:
        return N.zero(out.shape, out.dtype)
    inside = INSIDE.get(op.name)
    restriction = inside(region, x.shape, image, **params) if inside is not None else None
    source_region, within = restriction or (Region.full(x.shape), params)
    if source_region is region:
        inner = inner_of(x)
    elif region.intersect(source_region) == source_region:
        inner = read(N, x, source_region)
    else:
        return placed(N, out.shape, image, N.around(op, x, source_region, within or {}, image))
    return placed(N, out.shape, image, inner if within is None else through(N, op, (inner,), within))


def summed(N: Namespace, op: Op, values: Values, params: Params, need: Entries = FULL) -> Value:
    """Rule of sums over axes: only entries that count for a part of the result that is read are added up.

    The sum of a selection is a selection: an entry is left out if the selection leaves out all of its terms.
    """
    (x,) = values
    if type(need) is not Boxed and not is_partial(x):
        return _added_up(N, op, x, params) if type(x) is Bracket else NotImplemented
    out = N.aval(op, values, params)
    region = region_of(x)
    if type(need) is Boxed:
        lines = op.entry_map.support(op, plain(need, out.shape), 0, [Aval(x.shape, x.dtype)], out, params)
        region = region.intersect(hull(lines, x.shape))
    if not region.size:
        return N.zero(out.shape, out.dtype)
    image = op.entry_map.image(region, x.shape, (), params)
    return placed(N, out.shape, image, _added_up(N, op, read(N, x, region), params))


def _added_up(N: Namespace, op: Op, x: Value, params: Params) -> Value:
    if type(x) is not Bracket:
        return N.bind(op, (x,), params)
    condition = x.without_values()
    there = N.later(lambda: N.ops.any(N.there(condition), **params))
    return Bracket(N.bind(op, (N.select(x),), params), there, is_made=True)


def running_sum(N: Namespace, op: Op, values: Values, params: Params, _need: Entries = FULL) -> Value:
    """Rule of running sums along an axis. A selection's result begins at its first entry that counts.

    Entries before that are left out.
    """
    (x,) = values
    if type(x) is not Bracket and not is_partial(x):
        return NotImplemented
    image = hull(op.infer(Aval(x.shape, x.dtype, Boxed(region_of(x))), **params).support, x.shape)
    inner = read(N, x, image)
    return placed(
        N,
        x.shape,
        image,
        _counted(N, op, inner, (), params) if type(x) is Bracket else N.bind(op, (inner,), params),
    )


def _counted(N: Namespace, op: Op, x: Value, indices: Values, params: Params) -> Value:
    """Selection with the result of a sum ``op`` on ``x``; it leaves out entries without any term.

    To find these entries, the op is applied to ones, and to zeros at the entries that ``x`` leaves out.

    x : a value in no box.
    indices : the further operands of the op.
    """
    selection = x.without_values() if type(x) is Bracket else None
    shape = x.shape

    def there() -> Value:
        mask = N.true(shape) if selection is None else N.everywhere(selection)
        return N.ops.greater(
            N.bind(op, (N.ops.astype(mask, dtype=np.dtype(np.float32)), *indices), params), 0
        )

    return Bracket(N.bind(op, (N.select(x), *indices), params), N.later(there), is_made=True)


def scattered(N: Namespace, op: Op, values: Values, params: Params, _need: Entries = FULL) -> Value:
    """Rule of `scatter_add`: entries added up at places that index arrays give.

    The result is a selection if the operand is one, or if the parameter ``held`` is given: it leaves out the
    entries to which nothing is added.
    """
    x, *indices = values[0], *map(N.plain, values[1:])
    place = {k: v for k, v in params.items() if k != "held"}
    selects = len(place) < len(params) or type(x) is Bracket
    arrays = N.indices(indices) if is_partial(x) else None
    if arrays is None:
        return (
            _counted(N, op, everything(N, N.as_selection(x)), indices, place) if selects else NotImplemented
        )
    axes, shape = params["axes"], params["shape"]
    region = region_of(x)
    image = op.entry_map.image(region, x.shape, arrays, place) if region.size else None
    if image is None or not image.size:
        return N.zero(shape, x.dtype)
    lead = len(x.shape) - (len(shape) - len(axes))
    within = Region(region.start[:lead], region.stop[:lead]).slices
    arrays_at = np.broadcast_arrays(*arrays)
    at = [N.constant(np.asarray(n[within] - image.start[k])) for n, k in zip(arrays_at, axes, strict=True)]
    place["shape"] = image.shape
    inner = inner_of(x)
    return placed(
        N, shape, image, _counted(N, op, inner, at, place) if selects else N.bind(op, (inner, *at), place)
    )


def gathered(N: Namespace, op: Op, values: Values, params: Params, _need: Entries = FULL) -> Value:
    """Rule of reads at index arrays. Entries read from outside of a box are left out: then, a selection."""
    x, *indices = values[0], *map(N.plain, values[1:])
    if not is_partial(x):
        return through(N, op, (x, *indices), params) if type(x) is Bracket else NotImplemented
    axes, shape = params["axes"], N.aval(op, values, params).shape
    region, arrays = region_of(x), N.indices(indices)
    lead = len(shape) - len(x.shape) + len(axes)
    image: Region | None
    if not region.size:
        image = None
    elif arrays is not None:
        image = op.entry_map.image(region, x.shape, arrays, params)
    else:  # wherever they point
        remainder = region.permuted(tuple(k for k in range(len(x.shape)) if k not in axes))
        image = Region((*(0,) * lead, *remainder.start), (*shape[:lead], *remainder.stop))
    if image is None or not image.size:
        return N.zero(shape, x.dtype)
    if arrays is not None:
        within = Region(image.start[:lead], image.stop[:lead]).slices
        indices = [N.constant(np.asarray(n[within])) for n in np.broadcast_arrays(*arrays)]
    inside: list[Value] = []
    for j, (n, k) in enumerate(zip(indices, axes, strict=True)):
        low, high = region.start[k], region.stop[k]
        if (low, high) != (0, x.shape[k]):
            inside += [N.ops.greater_equal(n, low), N.ops.less(n, high)]
            indices[j] = N.ops.subtract(N.ops.minimum(N.ops.maximum(n, low), high - 1), low)
    out = through(N, op, (inner_of(x), *indices), params)
    if inside and not N.every(there := reduce(N.ops.logical_and, inside)):
        entries = out.values if type(out) is Bracket else out
        bound = Bracket(entries, N.fitted(_with_axes(N, there, lead, len(shape)), entries.shape))
        out = N.under(entries, [out, bound] if type(out) is Bracket else [bound], False)
    return placed(N, shape, image, out)


def _with_axes(N: Namespace, x: Value, lead: int, rank: int) -> Value:
    """Condition ``x`` with new axes of extent 1: in front up to rank ``lead``, then behind up to ``rank``."""
    missing = (*range(lead - len(x.shape)), *range(lead, rank))
    return N.ops.expand_dims(x, axis=missing) if missing else x


def embedded(N: Namespace, op: Op, values: Values, params: Params, _need: Entries = FULL) -> Value:
    """Rule of `embed`, the adjoint of ``x[key]``: the result is a box, the region that the key reads.

    With the parameter ``held``, entries that the steps of slices skip are left out: the result is a
    selection.
    """
    (x,) = values
    key, shape = params["key"], params["shape"]
    if is_partial(x):
        if not region_of(x).size:
            return N.zero(shape, x.dtype)
        key, x = index_keys.cut(key, region_of(x)), inner_of(x)
    region = index_keys.key_region(key, shape)
    if not region.size:
        return N.zero(shape, x.dtype)
    if index_keys.is_dense(key):
        return placed(N, shape, region, _in_shape(N, x, region.shape))
    place = {"key": key, "shape": shape}
    out = through(N, op, (x,), place)
    if params.get("held", False) and type(x) is not Bracket:
        there = N.later(lambda: N.constant(op.forward(np.ones(x.shape, bool), **place)))
        out = Bracket(out, there, is_made=True)
    return placed(N, shape, region, read(N, out, region))


def _in_shape(N: Namespace, x: Value, shape: Shape) -> Value:
    if x.shape == shape:
        return x
    if type(x) is not Bracket:
        return N.ops.reshape(x, shape=shape)
    return N.moved(x, N.ops.reshape(x.values, shape=shape), lambda there: N.ops.reshape(there, shape=shape))


def joined(N: Namespace, op: Op, values: Values, params: Params, need: Entries = FULL) -> Value:
    """Rule of `concat` and `stack`: operands are joined in the region that may be nonzero and is read.

    The result is NotImplemented if that region is everything and all operands are plain.
    """
    if not all(map(N.is_carried, values)):
        return NotImplemented
    out = N.aval(op, values, params)
    places: Any = op.entry_map
    need_region = region_read(need, out.shape)
    spans = [places.image_of(Region.full(x.shape), k, params) for k, x in enumerate(values)]
    regions = [
        (places.image_of(region_of(x), k, params) if is_partial(x) else span).intersect(need_region)
        for k, (x, span) in enumerate(zip(values, spans, strict=True))
    ]
    read_of = [k for k, x in enumerate(values) if regions[k].size and not N.is_zero(x)]
    if not read_of:
        return N.zero(out.shape, out.dtype)
    around = reduce(Region.hull, (regions[k] for k in read_of))
    if around.covers(out.shape) and all(map(is_plain, values)):
        return NotImplemented
    selects = Bracket in map(type, values)
    pieces = []
    for k in range(read_of[0], read_of[-1] + 1):
        x, source_region = values[k], places.origin(spans[k].intersect(around), k, params)
        if selects:
            x = N.as_selection(x)  # what is outside of a box is not held
        pieces.append(read(N, x, source_region))
    pieces[0] = in_dtype(N, pieces[0], out.dtype, pieces[1:])
    if len(pieces) == 1:
        return placed(N, out.shape, around, _in_shape(N, pieces[0], around.shape))
    return placed(N, out.shape, around, end_to_end(N, op, pieces, params))


def end_to_end(N: Namespace, op: Op, pieces: Values, params: Params) -> Value:
    """Concatenation, or stack, of operands that are in no box; a selection if any operand is one."""
    if op.name == "concat":
        offsets = concat_offsets([x.shape[params["axis"]] for x in pieces])
        params = {"axis": params["axis"], "offsets": offsets}
    entries = [N.zeros(x.shape, x.dtype) if N.is_zero(x) else x for x in pieces]
    out = N.bind(op, [x.values if type(x) is Bracket else x for x in entries], params)
    if Bracket not in map(type, pieces):
        return out
    conditions = [_everywhere(N, x) for x in pieces]

    def there() -> Value:
        return N.bind(op, [condition() for condition in conditions], params)

    made_flags = [x.is_made for x in pieces if type(x) is Bracket]
    return N.held(out, there, False if False in made_flags else None if None in made_flags else True)


def _everywhere(N: Namespace, x: Value) -> Callable[[], Value]:
    """Function that returns a mask of the entries of ``x`` that are not left out; it holds no values."""
    if type(x) is Bracket:
        return partial(N.everywhere, x.without_values())
    return partial(N.zeros, x.shape, np.dtype(bool)) if N.is_zero(x) else partial(N.true, x.shape)


__all__ = [
    "INSIDE",
    "embedded",
    "end_to_end",
    "gathered",
    "joined",
    "moved",
    "running_sum",
    "scattered",
    "summed",
]
