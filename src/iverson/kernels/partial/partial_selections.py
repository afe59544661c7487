"""Rules that begin and end selections: the op `bracket`, entries that are overwritten, and masks."""

from __future__ import annotations

import numpy as np

from iverson.core.entries import FULL, Entries
from iverson.core.op import Op
from iverson.core.table import TABLE
from iverson.kernels import index_keys
from iverson.kernels.partial.partial_moves import moved
from iverson.kernels.partial.partial_values import (
    Namespace,
    Params,
    Value,
    Values,
    everything,
    inner_of,
    is_partial,
    placed,
    read,
    region_of,
)
from iverson.layouts import Bracket


def bracket(N: Namespace, op: Op, values: Values, params: Params, _need: Entries = FULL) -> Value:
    """Rule of `bracket`: a selection of a plain value or of a box, or a selection within another one."""
    condition, x = values
    shape = getattr(x, "shape", None)
    if getattr(condition, "shape", ()) != shape:
        out = N.aval(op, values, params)
        if shape is None:
            x = N.constant(np.asarray(x, out.dtype))
        if x.shape != out.shape:
            stretched = moved(N, TABLE["broadcast_to"], (x,), {"shape": out.shape})
            x = N.ops.broadcast_to(x, shape=out.shape) if stretched is NotImplemented else stretched
    negated = params["negated"]
    if not is_partial(x):
        return _among(N, Bracket(x, N.fitted(N.plain(condition), x.shape), negated), x)
    region, inner = region_of(x), inner_of(x)
    mask = N.fitted(N.plain(read(N, condition, region)), region.shape)
    return placed(N, x.shape, region, _among(N, Bracket(inner, mask, negated), inner))


def _among(N: Namespace, selection: Bracket, x: Value) -> Value:
    """Values of ``x`` under the condition of ``selection``; if ``x`` is a selection, under both conditions.

    x : a value of the same shape, in no box.
    """
    if type(x) is not Bracket:
        return N.under(x, [selection], False)
    if x.is_lazy and x.is_made is not False:  # a select costs less than the condition
        values = N.select(Bracket(N.select(x), selection.condition, selection.negated))
        return N.under(values, [x, selection], True)
    return N.under(x.values, [x, selection], False)


def overwritten(N: Namespace, _op: Op, values: Values, params: Params, _need: Entries = FULL) -> Value:
    """Rule of `overwritten`: a selection that leaves out the entries that an assignment overwrites."""
    (x,) = values
    key, region, inner = params["key"], region_of(x), inner_of(x)
    if index_keys.region_through_key(region, key, x.shape) is None:
        # Another value: the op is not the identity, though here it changes nothing.
        return placed(
            N,
            x.shape,
            region,
            N.under(inner.values, [inner], inner.is_made) if type(inner) is Bracket else inner,
        )
    remains = np.ones(region.shape, bool)
    remains[index_keys.key_within(region, key, x.shape)] = False
    if not remains.any():
        return N.zero(x.shape, x.dtype)
    return placed(N, x.shape, region, _among(N, Bracket(inner, N.constant(remains)), inner))


def packed(N: Namespace, op: Op, values: Values, params: Params, _need: Entries = FULL) -> Value:
    """Rule of `pack` and `values_at`: entries of a selection that a mask or pattern picks, as a selection.

    Zeros that the op itself fills in are not left out. The result is NotImplemented for a plain value.
    """
    x, *masks = values[0], *map(N.plain, values[1:])
    x = everything(N, N.as_selection(x))
    if type(x) is not Bracket:
        return NotImplemented

    def move(there: Value) -> Value:
        return N.ops.logical_not(N.bind(op, (N.ops.logical_not(there), *masks), params))

    return N.moved(x, N.bind(op, (x.values, *masks), params), move)


def unpacked(N: Namespace, op: Op, values: Values, params: Params, _need: Entries = FULL) -> Value:
    """Rule of `unpack`: entries at the places where a mask is True, as a selection without other places.

    Entries that are left out before remain so. If the parameter ``held`` is False, a plain operand gives
    NotImplemented.
    """
    x, mask = values[0], N.plain(values[1])
    x = everything(N, N.as_selection(x))

    def put(entries: Value) -> Value:
        return N.plain(N.bind(op, (entries, mask), {**params, "held": False}))

    if type(x) is Bracket:
        return N.moved(x, put(x.values), put)
    return N.held(put(x), lambda: mask, True) if params.get("held", True) else NotImplemented


__all__ = ["bracket", "overwritten", "packed", "unpacked"]
