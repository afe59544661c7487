"""Running extrema and logarithmic sums along an axis, and the convolution of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.op import Op, Sample
from iverson.core.table import define
from iverson.kernels.keys import canonical_slice
from iverson.ops.batching import Examples
from iverson.ops.entry_maps import SCANNED


def _cumulative_argmax(x: Any, *, axis: int, largest: bool) -> Any:
    """Where the first of the extrema so far is; nan is an extremum that nothing beats."""
    lines = np.moveaxis(x, axis, -1)
    if not lines.shape[-1]:
        return np.zeros(x.shape, np.int64)
    running = (np.maximum if largest else np.minimum).accumulate(lines, axis=-1)
    before, now = running[..., :-1], running[..., 1:]
    new = np.zeros(lines.shape, bool)
    new[..., 1:] = (before != now) & ~np.isnan(before)
    found = np.maximum.accumulate(np.where(new, np.arange(lines.shape[-1]), 0), axis=-1)
    return np.moveaxis(found, -1, axis)


define(
    Op(
        name="cumulative_argmax",
        forward=_cumulative_argmax,
        abstract=lambda x, *, axis, largest: Aval(x.shape, dtypes.int64),
        samples=lambda s: [
            Sample((s.distinct((2, 3)),), {"axis": 1, "largest": True}),
            Sample((s.distinct((3,)),), {"axis": 0, "largest": False}),
        ],
        exceptions={"complex": "complex numbers have no order"},
    )
)


def _factors(F: Any, y: Any, x: Any, axis: int) -> tuple[Any, Any]:
    """The derivative d of exp(y[k]) = exp(y[k-1]) + exp(x[k]) is d[k] = a d[k-1] + b dx[k]: b and a.

    b is exp(x[k] - y[k]) and a exp(y[k-1] - y[k]), of which the first is not read. What is -inf so far has no
    derivative.
    """
    y = F.where(F.equal(y, -float("inf")), 0.0, y)
    falls = F.shifted(y - F.shifted(y, axis, 1), axis, -1)
    return F.exp(x - y), F.exp(falls)


def _logcumsumexp_vjp(F: Any, g: Any, y: Any, x: Any, *, axis: int) -> Any:
    own, kept = _factors(F, y, x, axis)
    return own * F.linear_recurrence(F.shifted(kept, axis, 1), g, axis=axis, reverse=True)


def _logcumsumexp_jvp(F: Any, t: Any, y: Any, x: Any, *, axis: int) -> Any:
    own, kept = _factors(F, y, x, axis)
    return F.linear_recurrence(kept, own * t, axis=axis, reverse=False)


define(
    Op(
        name="logcumsumexp",
        forward=lambda x, *, axis: np.logaddexp.accumulate(x, axis=axis),
        abstract=lambda x, *, axis: Aval(x.shape, x.dtype),
        vjp=(_logcumsumexp_vjp,),
        jvp=(_logcumsumexp_jvp,),
        entry_map=SCANNED,
        samples=lambda s: [Sample((s((4,)),), {"axis": 0}), Sample((s((2, 3)),), {"axis": 1})],
        exceptions={"complex": "the maximum that keeps it from overflowing has no meaning there"},
    )
)


def _correlated(F: Any, g: Any, other: Any, count: int) -> Any:
    """The sum of g[i + k] conj(other[k]) over k, for the first ``count`` i."""
    start = other.shape[0] - 1
    whole = F.linear_convolution(g, F.flip(F.conj(other), axis=(0,)))
    return F.index_basic(whole, key=(slice(start, start + count, 1),))


def _batched_convolution(F: Any, examples: Examples, *args: Any) -> Any:
    """The longer one through windows as wide as the shorter, examples last."""
    b, a = sorted(examples.each(F, args), key=lambda x: x.shape[1])
    size, n, m = examples.size, a.shape[1], b.shape[1]
    places = canonical_slice(slice(None), size), slice(m - 1, m - 1 + n, 1)
    longer = F.embed(a, key=places, shape=(size, n + 2 * (m - 1)))
    at = np.arange(n + m - 1)[:, None] + np.arange(m)[::-1]
    terms = F.gather(longer, at, axes=(1,)) * F.permute_dims(b, axes=(1, 0))
    return F.permute_dims(F.sum(terms, axis=(1,), keepdims=False), axes=(1, 0))


define(
    Op(
        name="linear_convolution",
        forward=np.convolve,
        abstract=lambda a, b: Aval((a.shape[0] + b.shape[0] - 1,), dtypes.result_type(a, b)),
        vjp=(
            lambda F, g, _y, _a, b: _correlated(F, g, b, _a.shape[0]),
            lambda F, g, _y, a, _b: _correlated(F, g, a, _b.shape[0]),
        ),
        linear_in=((0,), (1,)),
        batch=_batched_convolution,
        samples=lambda s: [Sample((s((4,)), s((3,)))), Sample((s((2,)), s((5,))))],
    )
)
