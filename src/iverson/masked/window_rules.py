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
from iverson.core.protocols import NDArray, Params, Value
from iverson.core.shapes import Shape
from iverson.masked.policies import policy
from iverson.ops import F

Args = tuple[Any, ...]


def _places(shape: Shape, size: Shape, stride: Shape, dilation: Shape) -> Shape:
    """Number of windows along each axis that lie inside of an array of ``shape``."""
    return tuple(
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(shape, size, stride, dilation, strict=True)
    )


def _at(places: Shape, size: Shape, stride: Shape, dilation: Shape) -> list[NDArray]:
    """Indices of the entries of all windows, one array for each axis; they broadcast to (*places, *size)."""
    n = len(places)
    indices = []
    for axis, (p, k, s, d) in enumerate(zip(places, size, stride, dilation, strict=True)):
        shape = [1] * (2 * n)
        shape[axis], shape[n + axis] = p, k
        indices.append((s * np.arange(p)[:, None] + d * np.arange(k)).reshape(shape))
    return indices


def _windows(x: Value, size: Shape, stride: Shape, dilation: Shape) -> Any:
    """Windows over the last axes of ``x``, an array of shape (*places, *size, *lead) for x of (*lead,
    *spatial).
    """
    n = len(size)
    lead, spatial = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    at = _at(_places(spatial, size, stride, dilation), size, stride, dilation)
    return F.gather(x, *np.broadcast_arrays(*at), axes=tuple(range(len(lead), x.ndim)))


def _last_first(x: Value, count: int) -> Any:
    """Array with the last ``count`` axes of ``x`` moved before the others."""
    split = x.ndim - count
    return F.permute_dims(x, axes=(*range(split, x.ndim), *range(split)))


def sum_pool(_op: Op, args: Args, params: Params) -> Any:
    """Rule of sum_pool: sums over the specified entries of each window."""
    n = len(params["size"])
    windows = _windows(*args, **params)
    return _last_first(F.sum(windows, axis=tuple(range(n, 2 * n)), keepdims=False), windows.ndim - 2 * n)


def max_pool(_op: Op, args: Args, params: Params) -> Any:
    """Rule of max_pool: the largest specified entry of each window, the first one of several."""
    n = len(params["size"])
    windows = _windows(*args, **params)
    places, lead = windows.shape[:n], windows.shape[2 * n :]
    flat = F.reshape(windows, shape=(prod(places), prod(params["size"]), *lead))
    largest = take_along_axis(flat, F.argmax(flat, axis=1, keepdims=True), axis=1)
    return _last_first(F.reshape(largest, shape=(*places, *lead)), len(lead))


def max_places(_op: Op, args: Args, _params: Params) -> Any:
    """Rule of max_places: for each row of ``table``, the position of the largest specified entry that it
    lists.

    ``table`` has positions on the last axis of x; of several largest entries, the first is taken.
    """
    x, table = args
    candidates = F.gather(x, table, axes=(1,))
    numbers = F.broadcast_to(F.expand_dims(table, axis=(2,)), shape=candidates.shape)
    largest = take_along_axis(numbers, F.argmax(candidates, axis=1, keepdims=True), axis=1)
    return F.permute_dims(F.squeeze(largest, axis=(1,)), axes=(1, 0))


def unfold(_op: Op, args: Args, params: Params) -> Any:
    """Rule of unfold: entries are copied into windows, specified or not."""
    n = len(params["size"])
    windows = _windows(*args, **params)
    return F.permute_dims(windows, axes=(*range(2 * n, windows.ndim), *range(n, 2 * n), *range(n)))


def fold(_op: Op, args: Args, params: Params) -> Any:
    """Rule of fold: sums of the specified entries of the windows at their places; 0 at a place in no
    window.
    """
    (x,) = args
    n = len(params["spatial"])
    size, places = x.shape[1 : 1 + n], x.shape[1 + n :]
    windows = F.permute_dims(x, axes=(*range(1 + n, 1 + 2 * n), *range(1, 1 + n), 0))
    return _added(windows, places, size, **params)


def _added(windows: Value, places: Shape, size: Shape, spatial: Shape, stride: Shape, dilation: Shape) -> Any:
    """Sums of windows of shape (*places, *size, *lead) at their places, an array of shape (*lead,
    *spatial).
    """
    n = len(spatial)
    at, lead = np.broadcast_arrays(*_at(places, size, stride, dilation)), windows.shape[2 * n :]
    sums = F.scatter_add(windows, *at, axes=tuple(range(n)), shape=(*spatial, *lead))
    covered = np.zeros(spatial, bool)
    covered[tuple(at)] = True
    return zeros_beyond(_last_first(sums, len(lead)), covered)


def zeros_beyond(x: Value, covered: NDArray) -> Any:
    """Array ``x`` with 0 where ``covered``, a boolean array for its last axes, is False.

    If a line of ``x`` over these axes has no specified entry, its zeros are unspecified, too.
    """
    if covered.all():
        return x
    axes = tuple(range(x.ndim - covered.ndim, x.ndim))
    zeros = zeros_like(F.sum(x, axis=axes, keepdims=True))
    with policy("intersect"):
        return F.where(covered, x, zeros)


def convolution(_op: Op, args: Args, params: Params) -> Any:
    """Rule of convolution: a product counts if both factors are specified; a sum without products is
    unspecified.
    """
    x, w = args
    n = len(params["stride"])
    lead = x.ndim - n - 1  # a batch, or a batch and groups
    size = w.shape[lead + 1 :]
    windows = _windows(x, size, **params)  # (*places, *size, *lead, channels)
    places = windows.shape[:n]
    order = (*range(2 * n, windows.ndim - 1), *range(n), windows.ndim - 1, *range(n, 2 * n))
    rows = F.reshape(
        F.permute_dims(windows, axes=order), shape=(*x.shape[:lead], prod(places), x.shape[lead] * prod(size))
    )
    filters = F.reshape(w, shape=(*w.shape[:lead], w.shape[lead] * prod(size)))
    y = F.matmul(rows, _transposed(filters))
    return F.reshape(_transposed(y), shape=(*x.shape[:lead], w.shape[lead - 1], *places))


def transposed_convolution(_op: Op, args: Args, params: Params) -> Any:
    """Rule of transposed_convolution: products count as in `convolution`; 0 at a place that no filter
    reaches.
    """
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


def _transposed(x: Value) -> Any:
    return F.permute_dims(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
