"""Sorting ops. The order itself is piecewise constant; the gathering by it is differentiable."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.op import Op, Sample
from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.table import define
from iverson.ops.rules.batching import Examples, one_by_one
from iverson.ops.rules.entry_maps import ALONG


def _argsort(x: NDArray, *, axis: int, descending: bool, stable: bool) -> Any:
    """NumPy's argsort, also in descending order, in which equal entries keep their order."""
    if not descending:
        return np.argsort(x, axis=axis, stable=stable)
    # Sorting the reversed array and reversing the result keeps equal entries in their first order.
    order = np.flip(np.argsort(np.flip(x, axis), axis=axis, stable=stable), axis)
    return x.shape[axis] - 1 - order


define(
    Op(
        name="argsort",
        forward=_argsort,
        abstract=lambda x, *, axis, descending, stable: Aval(x.shape, dtypes.int64),
        samples=lambda s: [
            Sample((s.distinct((2, 3)),), {"axis": 1, "descending": False, "stable": True}),
            Sample((s.distinct((3,)),), {"axis": 0, "descending": True, "stable": True}),
        ],
    )
)


def _argtop(x: NDArray, *, axis: int, count: int, descending: bool) -> Any:
    """Positions of the first ``count`` entries of a stable order, found without sorting everything."""
    lines = np.moveaxis(x, axis, -1)
    if lines.dtype.kind not in "biuf" or (lines.dtype.kind == "f" and np.isnan(lines).any()):
        return np.take(_argsort(x, axis=axis, descending=descending, stable=True), np.arange(count), axis)
    if descending:
        lines = -lines if lines.dtype.kind == "f" else ~lines
    last = np.partition(lines, count - 1, axis=-1)[..., count - 1 : count]
    mask = lines <= last
    if np.count_nonzero(mask) > last.size * count:  # of equal entries the first
        before, ties = lines < last, lines == last
        missing = count - np.count_nonzero(before, axis=-1, keepdims=True)
        mask = before | (ties & (np.cumsum(ties, axis=-1) <= missing))
    shape = (*lines.shape[:-1], count)
    at = np.nonzero(mask)[-1].reshape(shape)
    order = np.argsort(lines[mask].reshape(shape), axis=-1, stable=True)
    return np.moveaxis(np.take_along_axis(at, order, axis=-1), -1, axis)


def _argtop_abstract(x: Shaped, *, axis: int, count: int, descending: bool) -> Aval:
    return Aval((*x.shape[:axis], count, *x.shape[axis + 1 :]), dtypes.int64)


define(
    Op(
        name="argtop",
        forward=_argtop,
        abstract=_argtop_abstract,
        samples=lambda s: [
            Sample((s.distinct((2, 3)),), {"axis": 1, "count": 2, "descending": False}),
            Sample((s.distinct((4, 2)),), {"axis": 0, "count": 1, "descending": True}),
        ],
    )
)


def _batched_search(F: Namespace, examples: Examples, x: Value, v: Value, *, side: str) -> Any:
    """Search in the one array that all examples share, or for each example in its own."""
    return (F.searchsorted if examples.alike(0) else partial(one_by_one, F, examples))(x, v, side=side)


define(
    Op(
        name="searchsorted",
        forward=lambda x, v, *, side: np.searchsorted(x, v, side=side),
        abstract=lambda x, v, *, side: Aval(v.shape, dtypes.int64),
        batch=_batched_search,
        samples=lambda s: [Sample((np.sort(s((4,))), s((2, 3))), {"side": "left"})],
    )
)


def _sort(x: NDArray, *, axis: int, descending: bool) -> NDArray:
    # Zeros of both signs are equal: only a stable sort leaves them in their order.
    signs = x.dtype.kind == "f" and bool(np.any(np.signbit(x) & (x == 0)))
    kind: Any = "stable" if signs else None
    if descending:
        return np.flip(np.sort(np.flip(x, axis), axis, kind=kind), axis)
    return np.sort(x, axis, kind=kind)


def _order(F: Namespace, x: Value, axis: int, descending: bool) -> Any:
    """The stable order that sorts x along ``axis``."""
    return F.argsort(x, axis=axis, descending=descending, stable=True)


def _sort_vjp(F: Namespace, g: Value, _y: Shaped, x: Value, *, axis: int, descending: bool) -> Any:
    # The transpose of a permutation is its inverse: a gathering too. Equal entries keep their order.
    return F.take_along(g, _order(F, _order(F, x, axis, descending), axis, False), axis)


define(
    Op(
        name="sort",
        forward=_sort,
        abstract=lambda x, *, axis, descending: Aval(x.shape, x.dtype),
        vjp=(_sort_vjp,),
        jvp=(lambda F, t, _y, x, *, axis, descending: F.take_along(t, _order(F, x, axis, descending), axis),),
        entry_map=ALONG,
        samples=lambda s: [
            Sample((s.distinct((2, 3)),), {"axis": 1, "descending": False}),
            Sample((s.distinct((3, 2)),), {"axis": 0, "descending": True}),
        ],
    )
)
