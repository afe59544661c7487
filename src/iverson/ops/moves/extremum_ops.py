"""Extrema over axes, their positions, and the shares of the derivative among ties."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.entries import Entries, Stored
from iverson.core.errors import ArgumentError, DTypeError
from iverson.core.op import Op, Rule, Sample
from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.shapes import Shape, reduced_shape
from iverson.core.table import define
from iverson.kernels import strided
from iverson.kernels.sparse import sparse_conversion
from iverson.layouts import CooPattern, Pattern
from iverson.layouts.block_diagonal import of_all
from iverson.ops.numbers.reduction_ops import (
    abstract_reduced,
    at_entries,
    is_stored,
    of_distinct,
    pattern_of_entries,
)
from iverson.ops.rules import loops
from iverson.ops.rules.batching import Examples, next_axis
from iverson.ops.rules.entry_maps import REDUCED
from iverson.ops.rules.notation import reduction

LINEAR = ((0,),)


def _check_extremum(name: str) -> Rule:
    """Abstract of the reduction ``name``, which refuses complex, boolean and empty arrays."""

    def abstract(x: Shaped, *, axis: Shape, keepdims: bool) -> Aval:
        if x.dtype.kind in "bc":
            raise DTypeError(name, "x", got=f"dtype {x.dtype}", expected="a real numeric dtype")
        if any(x.shape[k] == 0 for k in axis):
            raise ArgumentError(
                name, "x", got=f"shape {x.shape}", expected="at least one entry to choose from"
            )
        return abstract_reduced(x, axis=axis, keepdims=keepdims)

    return abstract


def _share_of_ties(F: Namespace, y: Value, x: Value, axis: Shape, keepdims: bool) -> Any:
    """Mask of the entries that attain the extremum, and the share of each: 1/n for n ties, nan for a nan."""
    y = F.keep_reduced(y, axis, keepdims)
    ties = F.logical_or(F.equal(x, y), F.isnan(x))
    count = F.sum(F.astype(ties, dtype=x.dtype), axis=axis, keepdims=True)
    return ties, F.where(F.isnan(y), math.nan, F.reciprocal(count))


def _extremum_vjp(
    F: Namespace, g: Value, y: Value, x: Value, *, axis: Shape, keepdims: bool, largest: bool = True
) -> Any:
    if is_stored(x) and axis:
        share = F.extremum_shares(x, axis=axis, largest=largest)
        return _shared_out(F, F.keep_reduced(g, axis, keepdims), share)
    ties, share = _share_of_ties(F, y, x, axis, keepdims)
    g = F.broadcast_to(F.keep_reduced(g, axis, keepdims) * share, shape=x.shape)
    return F.bracket(ties, g, negated=False)


def _shared_out(F: Namespace, g: Value, share: Value) -> Any:
    """g times ``share``, as a selection: an entry of share 0 takes no part, also where g is inf or nan."""
    return F.bracket(F.not_equal(share, 0), g * share, negated=False)


def _extremum_within(
    F: Namespace,
    _rule: Rule,
    wanted: Entries,
    _i: int,
    g: Value,
    _y: Shaped,
    x: Value,
    *,
    axis: Shape,
    keepdims: bool,
    largest: bool = True,
) -> Any:
    """The cotangent at a pattern: that of the extremum of each entry's line, times the share of the entry.

    The result is NotImplemented unless x is sparse and the pattern has all axes.
    """
    if not (isinstance(wanted, Stored) and is_stored(x) and axis) or wanted.pattern.ndim != x.ndim:
        return NotImplemented
    pattern = wanted.pattern
    share = F.extremum_shares_at(x, axis=axis, largest=largest, pattern=pattern)
    return F.from_values(_shared_out(F, at_entries(F, g, pattern, axis, keepdims), share), pattern=pattern)


def _extremum_jvp(
    F: Namespace, t: Value, y: Value, x: Value, *, axis: Shape, keepdims: bool, largest: bool = True
) -> Any:
    pattern = pattern_of_entries(t) if is_stored(x) and axis else None
    if pattern is not None:
        share = F.extremum_shares_at(x, axis=axis, largest=largest, pattern=pattern)
        t = F.from_values(_shared_out(F, F.values_at(t, pattern=pattern), share), pattern=pattern)
        return F.sum(t, axis=axis, keepdims=keepdims)
    ties, share = _share_of_ties(F, y, x, axis, keepdims)
    share = share if keepdims or not axis else F.squeeze(share, axis=axis)
    return F.sum(F.bracket(ties, t, negated=False), axis=axis, keepdims=keepdims) * share


def _dense_shares(x: NDArray, *, axis: Shape, largest: bool) -> NDArray:
    """1/n at the n entries of each line that attain its extremum, nan at those that are nan, 0 elsewhere."""
    ties = x == (np.max if largest else np.min)(x, axis=axis, keepdims=True)
    share = ties / np.maximum(np.sum(ties, axis=axis, keepdims=True), 1)
    return np.asarray(np.where(np.isnan(x), np.nan, share), x.dtype)


def _shares_at(x: NDArray, *, axis: Shape, largest: bool, pattern: Pattern) -> Any:
    return sparse_conversion.values_at(_dense_shares(x, axis=axis, largest=largest), pattern=pattern)


def _batched_shares(
    F: Namespace, examples: Examples, x: Value, *, axis: Shape, largest: bool, pattern: Pattern
) -> Any:
    batch_pattern = of_all(pattern, examples.size)
    shares = F.extremum_shares_at(x, axis=next_axis(axis), largest=largest, pattern=batch_pattern)
    return F.reshape(shares, shape=(examples.size, *pattern.stored_shape))


_AT = np.array([[0, 0, 1, 1], [2, 0, 1, 2]])
_TIED = np.array([[0.0, -1.0, 0.0], [2.0, 2.0, 0.0]])

define(
    Op(
        name="extremum_shares",
        forward=_dense_shares,
        abstract=lambda x, *, axis, largest: Aval(x.shape, x.dtype),
        loops=loops.extremum_shares,
        samples=lambda s: [
            Sample((s.distinct((2, 3)),), {"axis": (1,), "largest": True}),
            Sample((_TIED.astype(s.dtype),), {"axis": (0, 1), "largest": False}),
        ],
        exceptions={"complex": "complex numbers have no order"},
    )
)

define(
    Op(
        name="extremum_shares_at",
        forward=_shares_at,
        abstract=lambda x, *, axis, largest, pattern: Aval(pattern.stored_shape, x.dtype),
        batch=_batched_shares,
        samples=lambda s: [
            Sample(
                (_TIED.astype(s.dtype),),
                {"axis": axis, "largest": largest, "pattern": CooPattern((2, 3), _AT, True)},
            )
            for axis in ((0,), (1,), (0, 1))
            for largest in (False, True)
        ],
        exceptions={"complex": "complex numbers have no order"},
    )
)


for _name, _ufunc in {"max": np.maximum, "min": np.minimum}.items():
    define(
        Op(
            name=_name,
            forward=partial(strided.extremum, _ufunc),
            abstract=_check_extremum(_name),
            te=reduction(_name),
            vjp=(partial(_extremum_vjp, largest=_name == "max"),),
            jvp=(partial(_extremum_jvp, largest=_name == "max"),),
            vjp_at=partial(_extremum_within, largest=_name == "max"),
            entry_map=REDUCED,
            samples=of_distinct,
            exceptions={"complex": "complex numbers have no order"},
            convention="equal extrema share the derivative evenly",
        )
    )


def _batched_search(F: Namespace, examples: Examples, x: Value, *, axis: int | None, keepdims: bool) -> Any:
    """The positions of the extrema of each example; with no ``axis``, those in all entries of the example."""
    if axis is not None:
        return examples.call(x, axis=axis + 1, keepdims=keepdims)
    shape = x.shape[1:]
    positions = examples.call(F.reshape(x, shape=(examples.size, prod(shape))), axis=1, keepdims=False)
    return F.reshape(positions, shape=(examples.size, *(1,) * len(shape))) if keepdims else positions


_SEARCHES: dict[str, Callable[..., Any]] = {"argmax": np.argmax, "argmin": np.argmin}
for _name, _body in _SEARCHES.items():
    define(
        Op(
            name=_name,
            forward=lambda x, *, axis, keepdims, body=_body: body(x, axis=axis, keepdims=keepdims),
            abstract=lambda x, *, axis, keepdims: Aval(
                reduced_shape(x.shape, tuple(range(x.ndim)) if axis is None else (axis,), keepdims),
                dtypes.int64,
            ),
            batch=_batched_search,
            loops=loops.extremum(_name),
            samples=lambda s: [
                Sample((s.distinct((2, 3)),), {"axis": 1, "keepdims": False}),
                Sample((s.distinct((2, 3)),), {"axis": None, "keepdims": True}),
            ],
        )
    )
