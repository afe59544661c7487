"""Masked rules of ops over windows of the last axes: pooling, convolution, unfold and fold.

Entries are gathered window by window, and what is made of a window is a reduction or a product of matrices,
whose rules know which entries exist. The ops are of `iverson.nn`; the table that names these rules is in
`iverson.masked.rules`.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from iverson.array_api.entries.creation import zeros_like
from iverson.array_api.entries.indexing import take_along_axis
from iverson.core.op import Op
from iverson.core.shapes import Shape
from iverson.masked.mask import Array
from iverson.masked.policies import policy
from iverson.ops import F

Args = tuple[Any, ...]
Params = dict[str, Any]


def _places(shape: Shape, size: Shape, stride: Shape, dilation: Shape) -> Shape:
    """How many windows lie inside of each axis."""
    return tuple(
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(shape, size, stride, dilation, strict=True)
    )


def _at(places: Shape, size: Shape, stride: Shape, dilation: Shape) -> list[Array]:
    """Where the entries of windows are, on each axis: arrays that broadcast to (*places, *size)."""
    n = len(places)
    found = []
    for axis, (p, k, s, d) in enumerate(zip(places, size, stride, dilation, strict=True)):
        shape = [1] * (2 * n)
        shape[axis], shape[n + axis] = p, k
        found.append((s * np.arange(p)[:, None] + d * np.arange(k)).reshape(shape))
    return found


def _windows(x: Any, size: Shape, stride: Shape, dilation: Shape) -> Any:
    """The windows of the last axes of x (*lead, *spatial): of shape (*places, *size, *lead)."""
    n = len(size)
    lead, spatial = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    at = _at(_places(spatial, size, stride, dilation), size, stride, dilation)
    return F.gather(x, *np.broadcast_arrays(*at), axes=tuple(range(len(lead), x.ndim)))


def _last_first(x: Any, count: int) -> Any:
    """x with its last axes, so many of them, before the others."""
    split = x.ndim - count
    return F.permute_dims(x, axes=(*range(split, x.ndim), *range(split)))


def sum_pool(_op: Op, args: Args, params: Params) -> Any:
    """Over the specified entries of each window."""
    n = len(params["size"])
    found = _windows(*args, **params)
    return _last_first(F.sum(found, axis=tuple(range(n, 2 * n)), keepdims=False), found.ndim - 2 * n)


def max_pool(_op: Op, args: Args, params: Params) -> Any:
    """The first of the largest specified entries of each window."""
    n = len(params["size"])
    found = _windows(*args, **params)
    places, lead = found.shape[:n], found.shape[2 * n :]
    flat = F.reshape(found, shape=(prod(places), prod(params["size"]), *lead))
    largest = take_along_axis(flat, F.argmax(flat, axis=1, keepdims=True), axis=1)
    return _last_first(F.reshape(largest, shape=(*places, *lead)), len(lead))


def max_places(_op: Op, args: Args, _params: Params) -> Any:
    """Which entry of a line is the first of the largest specified ones that a row of the table names."""
    x, table = args
    found = F.gather(x, table, axes=(1,))
    numbers = F.broadcast_to(F.expand_dims(table, axis=(2,)), shape=found.shape)
    largest = take_along_axis(numbers, F.argmax(found, axis=1, keepdims=True), axis=1)
    return F.permute_dims(F.squeeze(largest, axis=(1,)), axes=(1, 0))


def unfold(_op: Op, args: Args, params: Params) -> Any:
    """Entries move and take with them whether they are specified."""
    n = len(params["size"])
    found = _windows(*args, **params)
    return F.permute_dims(found, axes=(*range(2 * n, found.ndim), *range(n, 2 * n), *range(n)))


def fold(_op: Op, args: Args, params: Params) -> Any:
    """The sums of the specified entries at their places; 0 where no window is."""
    (x,) = args
    n = len(params["spatial"])
    size, places = x.shape[1 : 1 + n], x.shape[1 + n :]
    windows = F.permute_dims(x, axes=(*range(1 + n, 1 + 2 * n), *range(1, 1 + n), 0))
    return _added(windows, places, size, **params)


def _added(windows: Any, places: Shape, size: Shape, spatial: Shape, stride: Shape, dilation: Shape) -> Any:
    """Windows (*places, *size, *lead) added at their places: of shape (*lead, *spatial)."""
    n = len(spatial)
    at, lead = np.broadcast_arrays(*_at(places, size, stride, dilation)), windows.shape[2 * n :]
    found = F.scatter_add(windows, *at, axes=tuple(range(n)), shape=(*spatial, *lead))
    reached = np.zeros(spatial, bool)
    reached[tuple(at)] = True
    return zeros_beyond(_last_first(found, len(lead)), reached)


def zeros_beyond(x: Any, reached: Array) -> Any:
    """x where something was added (``reached``, on its last axes), 0 elsewhere: if it has an entry at all."""
    if reached.all():
        return x
    axes = tuple(range(x.ndim - reached.ndim, x.ndim))
    zeros = zeros_like(F.sum(x, axis=axes, keepdims=True))
    with policy("intersect"):
        return F.where(reached, x, zeros)


def convolution(_op: Op, args: Args, params: Params) -> Any:
    """A product counts where both factors are specified; a result is where one of its products counts."""
    x, w = args
    n = len(params["stride"])
    lead = x.ndim - n - 1  # a batch, or a batch and groups
    size = w.shape[lead + 1 :]
    found = _windows(x, size, **params)  # (*places, *size, *lead, channels)
    places = found.shape[:n]
    order = (*range(2 * n, found.ndim - 1), *range(n), found.ndim - 1, *range(n, 2 * n))
    rows = F.reshape(
        F.permute_dims(found, axes=order), shape=(*x.shape[:lead], prod(places), x.shape[lead] * prod(size))
    )
    filters = F.reshape(w, shape=(*w.shape[:lead], w.shape[lead] * prod(size)))
    y = F.matmul(rows, _transposed(filters))
    return F.reshape(_transposed(y), shape=(*x.shape[:lead], w.shape[lead - 1], *places))


def transposed_convolution(_op: Op, args: Args, params: Params) -> Any:
    """As a convolution; 0 where no filter is added."""
    x, w = args
    n = len(params["stride"])
    lead = x.ndim - n - 1
    places, size, channels = x.shape[lead + 1 :], w.shape[lead + 1 :], w.shape[lead]
    rows = _transposed(F.reshape(x, shape=(*x.shape[: lead + 1], prod(places))))
    filters = F.conj(w) if w.dtype.kind == "c" else w
    filters = F.reshape(filters, shape=(*w.shape[:lead], channels * prod(size)))
    y = F.reshape(F.matmul(rows, filters), shape=(*x.shape[:lead], *places, channels, *size))
    order = (*range(lead, lead + n), *range(lead + n + 1, y.ndim), *range(lead), lead + n)
    return _added(F.permute_dims(y, axes=order), places, size, **params)


def _transposed(x: Any) -> Any:
    return F.permute_dims(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
