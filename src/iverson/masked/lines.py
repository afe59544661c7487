"""Rules of ops that go along axes: reductions, scans, softmax and orders.

The entries are put in place with a neutral one where nothing is specified, and the specified ones of the
result are packed again. The table that names these rules is in `iverson.masked.rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iverson.core.dispatch import alias, bind, make_handle
from iverson.core.op import Abstract, Op
from iverson.masked.mask import Mask
from iverson.masked.stored import Stored
from iverson.masked.tensor import MaskedTensor
from iverson.ops import F

Args = tuple[Any, ...]
Params = dict[str, Any]


def _extreme(dtype: Any, largest: bool) -> Any:
    if dtype.kind == "b":
        return largest
    if dtype.kind == "f":
        return np.inf if largest else -np.inf
    info = np.iinfo(dtype)
    return int(info.max if largest else info.min)


#: What leaves a reduction as it is: an entry put where nothing is specified.
NEUTRAL: dict[str, Callable[[Any], Any]] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "norm": lambda dtype: 0,
    "all": lambda dtype: 1,
    "any": lambda dtype: 0,
    "logsumexp": lambda dtype: -np.inf,
    "max": lambda dtype: _extreme(dtype, False),
    "min": lambda dtype: _extreme(dtype, True),
    "argmax": lambda dtype: _extreme(dtype, False),
    "argmin": lambda dtype: _extreme(dtype, True),
    "cumulative_sum": lambda dtype: 0,
    "cumulative_prod": lambda dtype: 1,
}


def _filled(x: MaskedTensor, fill: Any) -> Any:
    """The entries in place, and ``fill`` (a scalar or an array) where none is specified."""
    plain = x._mask.unpack(x._held)
    if x._mask.full or (np.ndim(fill) == 0 and fill == 0):
        return plain
    if np.ndim(fill) == 0 and x.dtype.kind == "b":
        fill = bool(fill)
    return F.where(x._mask.array, plain, fill)


def reduction(op: Op, args: Args, params: Params) -> Any:
    """Over the specified entries; unspecified where there is none."""
    (x,) = args
    axis, keepdims = params["axis"], params["keepdims"]
    mask = Mask(np.asarray(x._mask.lines(axis, keepdims) > 0))
    if not mask.count:
        ones = Abstract((1,) * x.ndim, x.dtype)
        return MaskedTensor(_cast(x._held, op.abstract(ones, **params).dtype), mask)
    if len(axis) == x.ndim:
        out = bind(op, (x._held,), {"axis": (0,), "keepdims": True})
        return MaskedTensor(out, mask)
    if op.name == "sum" and isinstance(x._mask, Stored):
        return MaskedTensor(_sum_of_lines(x, x._mask, mask, params), mask)
    fill = NEUTRAL[op.name](x.dtype)
    out = bind(op, (_filled(x, fill),), params)
    if op.name in ("max", "min") and x.dtype.kind == "f" and not x._mask.full:
        out = _without_ties(x, out, fill, mask, params)
    return MaskedTensor(mask.pack(out), mask)


def _sum_of_lines(x: MaskedTensor, own: Stored, mask: Mask, params: Params) -> Any:
    """Sums of the stored entries alone, by where they are on the axes that stay."""
    rest = [k for k in range(x.ndim) if k not in params["axis"]]
    shape = tuple(x.shape[k] for k in rest)
    out = F.scatter_add(x._held, *own.coordinates(rest), axes=tuple(range(len(rest))), shape=shape)
    return mask.pack(F.reshape(out, shape=mask.shape))


def _cast(held: Any, dtype: Any) -> Any:
    if held.dtype.kind == "c" and dtype.kind != "c":
        held = F.real(held)
    return alias(held) if held.dtype == dtype else F.astype(held, dtype=dtype)


def _without_ties(x: MaskedTensor, out: Any, fill: float, mask: Mask, params: Params) -> Any:
    """Extrema that are infinite like the filling, as sums of their share of the specified entries alone.

    Equal extrema share the derivative, and the filling must have no part of it.
    """
    tied = (F.to_numpy(out) == fill) & mask.array
    if not tied.any():
        return out
    axis, keepdims = params["axis"], params["keepdims"]
    attained = x._mask.array & (F.to_numpy(x._mask.unpack(x._held)) == fill)
    count = np.maximum(attained.sum(axis=axis, keepdims=True), 1)
    share = np.broadcast_to(np.asarray(1 / count, x.dtype), x.shape)
    own = MaskedTensor(x._held, x._mask)
    terms = F.where(attained, own._without_meaning(), 0.0) * share
    return F.where(tied, F.sum(terms, axis=axis, keepdims=keepdims), out)


def search(op: Op, args: Args, params: Params) -> Any:
    """The position, among all entries, of the extremum of the specified ones."""
    (x,) = args
    axis, keepdims = params["axis"], params["keepdims"]
    values = F.to_numpy(_filled(x, NEUTRAL[op.name](x.dtype)))
    there = x._mask.array
    if axis is None:
        values, there = values.reshape(-1), there.reshape(-1)
    k = 0 if axis is None else axis
    found = op.forward(values, axis=k, keepdims=True)
    # The filling comes first only where all specified entries are equal to it.
    specified = np.take_along_axis(there, found, k)
    found = np.where(specified, found, np.argmax(there, axis=k, keepdims=True))
    mask = np.any(there, axis=k, keepdims=True)
    if axis is None:
        shape: tuple[int, ...] = (1,) * x.ndim if keepdims else ()
    else:
        shape = tuple(n for j, n in enumerate(found.shape) if keepdims or j != k)
    own = Mask(mask.reshape(shape))
    return MaskedTensor(make_handle(found.reshape(shape)[own.array]), own)


def scan(op: Op, args: Args, params: Params) -> Any:
    """Running totals of the specified entries; the mask stays."""
    (x,) = args
    out = bind(op, (_filled(x, NEUTRAL[op.name](x.dtype)),), params)
    return MaskedTensor(x._mask.pack(out), x._mask)


def softmax(op: Op, args: Args, params: Params) -> Any:
    """Over the specified entries of each line; the mask stays."""
    (x,) = args
    nothing = ~np.any(x._mask.array, axis=params["axis"], keepdims=True)
    fill = np.broadcast_to(np.where(nothing, 0.0, -np.inf).astype(x.dtype), x.shape)
    out = bind(op, (_filled(x, fill),), params)
    return MaskedTensor(x._mask.pack(out), x._mask)


# -- order -----------------------------------------------------------------------------------------------


def _order(x: MaskedTensor, axis: int, descending: bool, stable: bool) -> Any:
    """Positions that sort each line, those of unspecified entries last."""
    values = F.to_numpy(x._mask.unpack(x._held))
    order = F.to_numpy(F.argsort(values, axis=axis, descending=descending, stable=stable))
    absent = ~np.take_along_axis(x._mask.array, order, axis)
    return np.take_along_axis(order, np.argsort(absent, axis=axis, stable=True), axis)


def argsort(op: Op, args: Args, params: Params) -> Any:
    """A plain tensor: every entry has a place in the order, the unspecified ones at the end."""
    return make_handle(_order(args[0], **params))


def sort(op: Op, args: Args, params: Params) -> Any:
    """The specified entries of each line in order, then the unspecified ones."""
    (x,) = args
    return F.take_along(x, _order(x, stable=True, **params), params["axis"])


def searchsorted(op: Op, args: Args, params: Params) -> Any:
    """Places among the specified entries of the sorted vector."""
    x, v = args
    if isinstance(x, MaskedTensor):
        x = x._held
    if not isinstance(v, MaskedTensor):
        return bind(op, (x, v), params)
    return MaskedTensor(bind(op, (x, v._held), params), v._mask)
