"""Masked rules of ops along axes: reductions, scans, softmax and sorting.

The entries are put in place with a neutral one where nothing is specified, and the specified ones of the
result are packed again; entries in a list are first put in small matrices (`iverson.masked.line_buckets`).
The table that names these rules is in `iverson.masked.rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iverson.array_api.entries.indexing import take_along_axis
from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import alias, bind, has_entries, make_handle, zero_filled
from iverson.core.op import Op, Rule
from iverson.core.protocols import DType, NDArray, Params, Value
from iverson.handles import Tensor
from iverson.layouts import CooPattern
from iverson.layouts.conversion import like
from iverson.masked.line_buckets import Lines
from iverson.masked.mask import Mask, taken
from iverson.masked.sparse_masks import Stored, of_numbers
from iverson.masked.tensor import MaskedTensor
from iverson.masked.traced_masks import Computed, mask_of
from iverson.ops import F

Args = tuple[Any, ...]


def extreme(dtype: DType, largest: bool) -> float:
    """Largest value of ``dtype`` if ``largest`` is True, else the smallest; infinities for floating
    dtypes.
    """
    if dtype.kind == "b":
        return largest
    if dtypes.is_floating(dtype):
        return np.inf if largest else -np.inf
    info = np.iinfo(dtype)
    return int(info.max if largest else info.min)


#: What leaves a reduction as it is: an entry put where nothing is specified.
NEUTRAL: dict[str, Callable[[DType], float]] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "norm": lambda dtype: 0,
    "all": lambda dtype: 1,
    "any": lambda dtype: 0,
    "logsumexp": lambda dtype: -np.inf,
    "max": lambda dtype: extreme(dtype, False),
    "min": lambda dtype: extreme(dtype, True),
    "argmax": lambda dtype: extreme(dtype, False),
    "argmin": lambda dtype: extreme(dtype, True),
    "cumulative_sum": lambda dtype: 0,
    "cumulative_prod": lambda dtype: 1,
    "logcumsumexp": lambda dtype: -np.inf,
}


def _filled(x: MaskedTensor, fill: NDArray | Tensor | float) -> Any:
    """Plain tensor with the specified entries of ``x`` in place, and ``fill`` (a scalar or an array)
    elsewhere.
    """
    plain = x._mask.unpack(x._inner)
    if x._mask.full or (np.ndim(fill) == 0 and fill == 0):
        return plain
    if np.ndim(fill) == 0 and x.dtype.kind == "b":
        fill = bool(fill)
    return F.where(x._mask.array, plain, fill)


def reduction(op: Op, args: Args, params: Params) -> Any:
    """Rule of reductions: the op over the specified entries; a result over no entry is unspecified."""
    (x,) = args
    axis, keepdims = params["axis"], params["keepdims"]
    mask, _ = x._mask.over(axis, keepdims)
    if not mask.count:
        abstract = Aval((1,) * x.ndim, x.dtype)
        return MaskedTensor(_cast(x._inner, op.abstract(abstract, **params).dtype), mask)
    if len(axis) == x.ndim and type(x._mask) is not Computed:
        out = bind(op, (x._inner,), {"axis": (0,), "keepdims": True})
        return MaskedTensor(out, mask)
    if isinstance(x._mask, Stored):
        return MaskedTensor(_over_lines(op, x, x._mask.lines(axis)), mask)
    fill = NEUTRAL[op.name](x.dtype)
    out = bind(op, (_filled(x, fill),), params)
    if op.name in ("max", "min") and dtypes.is_floating(x.dtype) and not x._mask.full:
        out = _without_ties(x, out, fill, mask, params)
    return MaskedTensor(mask.pack(out), mask)


def _over_lines(op: Op, x: MaskedTensor, lines: Lines) -> Any:
    """Vector of the reduction ``op`` over each line of a sparse-backed ``x``, in the order of the lines."""
    if op.name == "sum":
        return F.scatter_add(x._inner, lines.line, axes=(0,), shape=lines.keys.shape)
    parts = [part._inner for part in _by_bucket(reduction, op, x, lines, {"axis": (1,), "keepdims": False})]
    return taken(parts, np.argsort(lines.bucketed))


def _by_bucket(rule: Rule, op: Op, x: MaskedTensor, lines: Lines, params: Params) -> list[Any]:
    """Results of ``rule``, one for each bucket of ``lines``.

    A bucket is a matrix with a line in each row: ``params`` must name axis 1.
    """
    vector = taken([x._inner], lines.order)
    single = len(lines.buckets) == 1
    return [
        rule(
            op,
            (
                MaskedTensor(
                    vector if single else F.index_basic(vector, key=(slice(b.start, b.stop, 1),)), b.mask
                ),
            ),
            params,
        )
        for b in lines.buckets
    ]


def _along(rule: Rule, op: Op, x: MaskedTensor, axis: int) -> Any:
    """Result of ``rule``, one that keeps the mask, along ``axis`` of a sparse-backed ``x``.

    The rule is applied to buckets of the lines, so that the work grows with the number of specified entries.
    """
    lines = x._mask.lines((axis,))  # type: ignore[attr-defined]
    if not lines.buckets:
        return MaskedTensor(alias(x._inner), x._mask)
    parts = [part._inner for part in _by_bucket(rule, op, x, lines, {"axis": 1})]
    return MaskedTensor(taken(parts, np.argsort(lines.order)), x._mask)


def _cast(vector: Value, dtype: DType) -> Any:
    if vector.dtype.kind == "c" and dtype.kind != "c":
        vector = F.real(vector)
    return alias(vector) if vector.dtype == dtype else F.astype(vector, dtype=dtype)


def _without_ties(x: MaskedTensor, out: Value, fill: float, mask: Mask, params: Params) -> Any:
    """Result ``out`` of max or min, with extrema that equal the infinite ``fill`` computed from specified
    entries alone.

    Equal extrema share the derivative, and entries that only fill unspecified places must get no part of it.
    mask : the mask of the result.
    """
    if has_entries(out) and not ((F.to_numpy(out) == fill) & mask.array).any():
        return out
    axis, keepdims = params["axis"], params["keepdims"]
    values = zero_filled(MaskedTensor(x._inner, x._mask))
    extremal = F.logical_and(F.equal(values, fill), x._mask.array)
    count = F.sum(F.astype(extremal, dtype=x.dtype), axis=axis, keepdims=True)
    terms = F.where(extremal, values, 0.0) * F.reciprocal(F.maximum(count, 1.0))
    tied = F.logical_and(F.equal(out, fill), mask.array)
    return F.where(tied, F.sum(terms, axis=axis, keepdims=keepdims), out)


def search(op: Op, args: Args, params: Params) -> Any:
    """Rule of argmax and argmin: the position of the extremum of the specified entries, counted among all
    entries.
    """
    (x,) = args
    axis, keepdims = params["axis"], params["keepdims"]
    axes = tuple(range(x.ndim)) if axis is None else (axis,)
    mask, _ = x._mask.over(axes, keepdims)
    if isinstance(x._mask, Stored):
        lines = x._mask.lines(axes)
        parts = _by_bucket(search, op, x, lines, {"axis": 1, "keepdims": False})
        if not parts:
            return MaskedTensor(make_handle(np.zeros(0, np.int64)), mask)
        ranks = taken([part._inner for part in parts], np.argsort(lines.bucketed))
        return MaskedTensor(_read(lines.inner, lines.at(ranks)), mask)
    values, there, k = _filled(x, NEUTRAL[op.name](x.dtype)), x._mask.array, axis
    if axis is None:
        values, there, k = F.reshape(values, shape=(x.size,)), there.reshape(-1), 0
    place = bind(op, (values,), {"axis": k, "keepdims": True})
    # The filling comes first only where all specified entries are equal to it.
    specified = F.take_along(there, place, k)
    xp = x._mask.namespace
    first = xp.argmax(xp.astype(there, xp.int8), axis=k, keepdims=True)
    place = F.where(specified, place, first)
    return MaskedTensor(mask.pack(F.reshape(place, shape=mask.shape)), mask)


def scan(op: Op, args: Args, params: Params) -> Any:
    """Rule of cumulative sums and products: running totals of the specified entries. The mask stays."""
    (x,) = args
    if isinstance(x._mask, Stored):
        return _along(scan, op, x, params["axis"])
    out = bind(op, (_filled(x, NEUTRAL[op.name](x.dtype)),), params)
    return MaskedTensor(x._mask.pack(out), x._mask)


def running(op: Op, args: Args, params: Params) -> Any:
    """Rule of cumulative_argmax: positions of the extrema of the specified entries up to each. The mask
    stays.

    Positions are counted among all entries.
    """
    (x,), axis = args, params["axis"]
    if isinstance(x._mask, Stored):
        lines = x._mask.lines((axis,))
        places = _on_lines(lines, _by_bucket(running, op, x, lines, {**params, "axis": 1}))
        return MaskedTensor(taken([places], np.argsort(lines.order)), x._mask)
    # The specified entries of each line, before the others: what fills these is no extremum then.
    xp = x._mask.namespace
    first = xp.argsort(_absent(x), axis=axis, stable=True)
    values = F.take_along(x._mask.unpack(x._inner), first, axis)
    places = take_along_axis(first, bind(op, (values,), params), axis=axis)
    places = F.take_along(places, xp.argsort(first, axis=axis), axis)
    return MaskedTensor(x._mask.pack(places), x._mask)


def _absent(x: MaskedTensor) -> Any:
    """Array with 1 where ``x`` is unspecified and 0 elsewhere, in the array namespace of the mask."""
    xp = x._mask.namespace
    return xp.astype(xp.logical_not(x._mask.array), xp.int8)


def softmax(op: Op, args: Args, params: Params) -> Any:
    """Rule of softmax and log_softmax: over the specified entries of each line. The mask stays."""
    (x,) = args
    if isinstance(x._mask, Stored):
        if op.name == "softmax":
            lines = x._mask.lines((params["axis"],))
            return MaskedTensor(F.segment_softmax(x._inner, lines.line, count=lines.keys.size), x._mask)
        return _along(softmax, op, x, params["axis"])
    xp = x._mask.namespace
    nothing = xp.logical_not(xp.any(x._mask.array, axis=params["axis"], keepdims=True))
    fill = xp.broadcast_to(xp.where(nothing, *np.array([0.0, -np.inf], x.dtype)), x.shape)
    out = bind(op, (_filled(x, fill),), params)
    return MaskedTensor(x._mask.pack(out), x._mask)


# -- order -----------------------------------------------------------------------------------------------


def _order(x: MaskedTensor, axis: int, descending: bool, stable: bool) -> tuple[Any, Mask]:
    """Positions that sort each line with unspecified entries last, and the mask of the sorted tensor."""
    order = F.argsort(x._mask.unpack(x._inner), axis=axis, descending=descending, stable=stable)
    absent = _absent(x)
    last = F.argsort(F.take_along(absent, order, axis), axis=axis, descending=False, stable=True)
    return F.take_along(order, last, axis), mask_of(x._mask.namespace.sort(absent, axis=axis) == 0)


def argsort(op: Op, args: Args, params: Params) -> Any:
    """Rule of argsort: the positions from which the entries of `sort` come, with the mask that
    `sort` gives.
    """
    (x,) = args
    if not isinstance(x._mask, Stored):
        order, mask = _order(x, **params)
        return MaskedTensor(mask.pack(order), mask)
    lines = x._mask.lines((params["axis"],))
    parts = _by_bucket(argsort, op, x, lines, {**params, "axis": 1})
    return _on_ranks(x, lines, params["axis"], _on_lines(lines, parts))


def _on_lines(lines: Lines, parts: list[MaskedTensor]) -> Any:
    """Positions along the axis of the entries that ``parts`` name by their ranks among the entries of their
    line.

    The result is in bucketed order. parts : a result of argsort, for example, for each bucket.
    """
    if not parts:
        return make_handle(np.zeros(0, np.int64))
    # The first entry of a line in bucketed order is where its own rank is 0.
    first = np.arange(lines.ranks.size) - lines.ranks
    ranks = taken([part._inner for part in parts], np.arange(first.size))
    return F.gather(make_handle(lines.inner[lines.order]), ranks + first, axes=(0,))


def sort(op: Op, args: Args, params: Params) -> Any:
    """Rule of sort: the specified entries of each line in order, followed by the unspecified ones."""
    (x,) = args
    axis = params["axis"]
    if not isinstance(x._mask, Stored):
        order, mask = _order(x, stable=True, **params)
        return MaskedTensor(mask.pack(F.take_along(x._mask.unpack(x._inner), order, axis)), mask)
    lines = x._mask.lines((axis,))
    parts = [part._inner for part in _by_bucket(sort, op, x, lines, {**params, "axis": 1})]
    return _on_ranks(x, lines, axis, taken(parts, np.arange(x._mask.count)) if parts else x._inner)


def _read(array: NDArray, at: Value) -> Any:
    """Entries of ``array`` at the positions ``at``, which may be a value of a trace."""
    return F.gather(array, at, axes=(0,))


def _on_ranks(x: MaskedTensor, lines: Lines, axis: int, vector: Value) -> Any:
    """Masked tensor of the shape of ``x`` in which the entries of each line come first along ``axis``.

    vector : the entries, in bucketed order.
    """
    other_axes = [k for k in range(x.ndim) if k != axis]
    indices = np.empty((x.ndim, lines.ranks.size), np.int64)
    indices[other_axes] = x._mask.coordinates(other_axes)[:, lines.order]
    indices[axis] = lines.ranks
    value = CooPattern(x.shape, indices, True).value(np.arange(1, lines.ranks.size + 1))
    mask, numbers = of_numbers(like(value, x._mask.pattern))  # type: ignore[attr-defined]
    return MaskedTensor(taken([vector], numbers - 1), mask)


def searchsorted(op: Op, args: Args, params: Params) -> Any:
    """Rule of searchsorted: positions among the specified entries of the sorted vector, for the specified
    queries.
    """
    x, v = args
    if isinstance(x, MaskedTensor):
        x = taken([x._inner], np.argsort(x._mask.keys, kind="stable"))
    if not isinstance(v, MaskedTensor):
        return bind(op, (x, v), params)
    return MaskedTensor(bind(op, (x, v._inner), params), v._mask)
