"""Box kernels of ops that move entries: the entries of the box go to the op's `image` of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from iverson.core.op import Op
from iverson.core.region import Region
from iverson.core.scalars import keep_where
from iverson.core.shapes import Shape
from iverson.kernels import bracket, index_keys, region_images, strided
from iverson.kernels.box import Params, Values, make
from iverson.kernels.kernel_registry import register, zeros_like_result
from iverson.layouts import Box, Zero, is_strided

Array = np.ndarray[Any, Any]


def moving(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register ``body(x, image, *others, **params)``: the result's entries in the image of the box of x."""

    def add(body: Callable[..., Any]) -> Callable[..., Any]:
        register(name, Box)(partial(_moved, body))
        return body

    return add


def _moved(body: Callable[..., Any], op: Op, values: Values, params: Params) -> Any:
    x, *others = values
    if type(x) is not Box or not all(is_strided(v) for v in others):
        return NotImplemented
    region = op.entry_map.image(x.region, x.shape, others, params) if x.region.size else None
    if region is None or not region.size:
        return zeros_like_result(op, values, params)
    return make(op.abstract(*values, **params).shape, region, body(x, region, *others, **params))


#: Of ops that are the op itself on what the box holds: ``params(x, image, **params)``, its parameters there,
#: of anything with the region and shape of a box. None where it is not.
INSIDE: dict[str, Callable[..., Params | None]] = {
    "permute_dims": lambda x, image, **same: same,
    "expand_dims": lambda x, image, **same: same,
    "squeeze": lambda x, image, **same: same,
    "flip": lambda x, image, **same: same,
    "sum": lambda x, image, **same: same,
    "broadcast_to": lambda x, image, *, shape: {"shape": image.shape},
    "index_basic": lambda x, image, *, key: {"key": index_keys.key_within(x.region, key, x.shape)},
    "diag_embed": lambda x, image, *, offset, shape: {"offset": 0, "shape": image.shape},
    "reshape": lambda x, image, *, shape: {"shape": image.shape} if image.size == x.region.size else None,
}


def _inside(op: Op, values: Values, params: Params) -> Any:
    (x,) = values
    region = op.entry_map.image(x.region, x.shape, (), params) if x.region.size else None
    if region is None or not region.size:
        return zeros_like_result(op, values, params)
    own = INSIDE[op.name](x, region, **params)
    if own is None:
        return _leaving_out(_reshaped, op, values, params)
    inner = op.forward(x.inner, **own)
    return make(op.abstract(*values, **params).shape, region, np.asarray(inner))


for _name in INSIDE:
    register(_name, Box)(_inside)


def _leaving_out(body: Callable[..., Any], op: Op, values: Values, params: Params) -> Any:
    """As `_moved`, of an op that reads from around the box: what it reads there is left out, a bracket."""
    found = _moved(body, op, values, params)
    if found is NotImplemented or type(found) is Zero:
        return found
    x = values[0]
    ones = Box(x.shape, x.region, np.ones(x.region.shape, bool))
    there = _moved(body, op, (ones, *values[1:]), params)
    every = np.all(there.inner if type(there) is Box else there)
    return found if every else bracket.made(found, there)


def _rolled(x: Box, _region: Region, *, shift: Shape, axis: Shape) -> Array:
    """Where the box comes to lie across the end of an axis, all of that axis is rolled."""
    start, stop, across = list(x.region.start), list(x.region.stop), {}
    for k, by in zip(axis, shift, strict=True):
        if (start[k] + by) % x.shape[k] + stop[k] - start[k] > x.shape[k]:
            start[k], stop[k], across[k] = 0, x.shape[k], by
    part = x.read(Region(tuple(start), tuple(stop)))
    return np.roll(part, tuple(across.values()), tuple(across)) if across else part


register("roll", Box)(partial(_leaving_out, _rolled))


@moving("tril")
def tril(x: Box, region: Region, *, k: int) -> Array:
    return np.tril(x.read(region), k + region.start[-2] - region.start[-1])


@moving("triu")
def triu(x: Box, region: Region, *, k: int) -> Array:
    return np.triu(x.read(region), k + region.start[-2] - region.start[-1])


@moving("diagonal")
def diagonal(x: Box, region: Region, *, offset: int) -> Array:
    own = region_images.on_diagonal(region, region.shape, offset=offset, shape=x.shape)
    return np.diagonal(x.read(own), 0, -2, -1)


def holding(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As `moving`, of an op that leaves out what it puts nothing into, if ``held``: a bracket."""

    def add(body: Callable[..., Any]) -> Callable[..., Any]:
        register(name, Box)(partial(_holding, body))
        return body

    return add


def _holding(body: Callable[..., Any], op: Op, values: Values, params: Params) -> Any:
    found = _moved(body, op, values, plain := {k: v for k, v in params.items() if k != "held"})
    x = values[0]
    if len(plain) == len(params) or type(x) is not Box or found is NotImplemented or type(found) is Zero:
        return found
    ones = Box(x.shape, x.region, np.ones(x.region.shape, bool))
    return bracket.made(found, _moved(body, op, (ones, *values[1:]), plain))


@holding("embed")
def embed(x: Box, _region: Region, *, key: index_keys.Key, shape: Shape) -> Array:
    embedded = strided.embed(x.inner, index_keys.cut(key, x.region), shape)
    return embedded.inner if type(embedded) is Box else np.asarray(embedded)


def _reshaped(x: Box, region: Region, *, shape: Shape) -> Array:
    """The entries at their places in an image that holds more than the box."""
    inner = np.zeros(region.size, x.dtype)
    at = np.zeros((1,), np.int64)
    for source, target in region_images.groups(x.shape, shape):
        own, image = x.region.permuted(tuple(source)), region.permuted(tuple(target))
        digits = np.unravel_index(
            region_images.addresses(own, tuple(x.shape[k] for k in source)), tuple(shape[k] for k in target)
        )
        places = np.zeros((1,), np.int64)
        for n, a, extent in zip(digits, image.start, image.shape, strict=True):
            places = places * extent + (n - a)
        at = np.add.outer(at * image.size, places).ravel()
    inner[at] = x.inner.ravel()
    return inner.reshape(region.shape)


def _read_at(x: Box, region: Region, *indices: Array, axes: Shape) -> Array:
    """Indices that point out of the box read 0: that is left out."""
    lead = len(region.start) - (len(x.shape) - len(axes))
    own = Region(region.start[:lead], region.stop[:lead])
    inside, clipped = np.ones(own.shape, bool), []
    for n, k in zip(np.broadcast_arrays(*indices), axes, strict=True):
        a, b = x.region.start[k], x.region.stop[k]
        used = n[own.slices]
        inside &= (used >= a) & (used < b)
        clipped.append(np.clip(used, a, b - 1) - a)
    found = np.asarray(strided.gather(x.inner, *clipped, axes=axes))
    if inside.all():
        return found
    inside = inside.reshape(own.shape + (1,) * (found.ndim - lead))
    kept: Array = keep_where(np.broadcast_to(inside, found.shape), found)
    return kept


gather = register("gather", Box)(partial(_leaving_out, _read_at))


@holding("scatter_add")
def scatter_add(x: Box, region: Region, *indices: Array, axes: Shape, shape: Shape) -> Array:
    lead = len(x.shape) - (len(shape) - len(axes))
    own = Region(x.region.start[:lead], x.region.stop[:lead])
    used = [n[own.slices] - region.start[k] for n, k in zip(np.broadcast_arrays(*indices), axes, strict=True)]
    found: Array = strided.scatter_add(x.inner, *used, axes=axes, shape=region.shape)
    return found
