"""Scans: cumulative ops along an axis, linear recurrences, and the convolution of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.entry_map import Call, EntryMap
from iverson.core.op import Op, Sample, Sampler, Wanted, reading
from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.relations import Factor, Relation, Window
from iverson.core.shapes import broadcast_shapes
from iverson.core.table import F as namespace
from iverson.core.table import define, derived
from iverson.kernels import strided
from iverson.kernels.index_keys import canonical_slice
from iverson.ops.rules import loops
from iverson.ops.rules.batching import Examples
from iverson.ops.rules.entry_maps import SCANNED
from iverson.ops.rules.notation import Indexed, Language, lazy_te
from iverson.ops.rules.recurrences import Coefficients, Recurrence

if TYPE_CHECKING:
    from iverson.expr.nodes import Expr

LINEAR = ((0,),)


def _scan_samples(s: Sampler) -> list[Sample]:
    return [
        Sample((s((4,)),), {"axis": 0}),
        Sample((s((2, 3)),), {"axis": 1}),
        Sample((s((2, 0)),), {"axis": 1}),
    ]


def _scanned(T: Language, x: Indexed, axis: int) -> Any:
    def entry(*i: Expr) -> Any:
        k = T.reduce_axis((0, x.shape[axis]))
        return T.sum(T.select(k <= i[axis], x[(*i[:axis], k, *i[axis + 1 :])], 0), axis=k)

    return T.compute(x.shape, entry)


define(
    Op(
        name="cumulative_sum",
        forward=lambda x, *, axis: np.cumsum(x, axis, dtype=x.dtype),
        abstract=lambda x, *, axis: Aval(x.shape, x.dtype),
        vjp=(
            lambda F, g, _y, _x, *, axis: F.flip(
                F.cumulative_sum(F.flip(g, axis=(axis,)), axis=axis), axis=(axis,)
            ),
        ),
        linear_in=LINEAR,
        te=lazy_te(lambda T, x, *, axis: _scanned(T, x, axis)),
        entry_map=SCANNED,
        samples=_scan_samples,
    )
)


def _cumulative_prod_vjp(F: Namespace, g: Value, _y: Shaped, x: Value, *, axis: int) -> Any:
    # With L[i] the product of the entries before i, dL/dx[i] = L[i] * S[i], where
    # S[i] = sum over k >= i of g[k] * prod(x[i+1..k]) obeys S[i] = g[i] + x[i+1] * S[i+1].
    if not x.shape[axis]:
        return g
    ahead = F.conj(_next_entries(F, x, axis))
    return F.conj(F.shifted_cumulative_prod(x, axis)) * F.linear_recurrence(ahead, g, axis=axis, reverse=True)


def _next_entries(F: Namespace, x: Value, axis: int, step: int = 1) -> Any:
    """x shifted along the axis: entry i is x[i + step]; those beyond the end wrap around."""
    return F.roll(x, shift=(-step,), axis=(axis,))


def _cumulative_prod_jvp(F: Namespace, t: Value, _y: Shaped, x: Value, *, axis: int) -> Any:
    # y[k] = y[k-1] * x[k], so dy[k] = x[k] * dy[k-1] + y[k-1] * t[k].
    return F.linear_recurrence(x, F.shifted_cumulative_prod(x, axis) * t, axis=axis, reverse=False)


define(
    Op(
        name="cumulative_prod",
        forward=lambda x, *, axis: np.cumprod(x, axis, dtype=x.dtype),
        abstract=lambda x, *, axis: Aval(x.shape, x.dtype),
        vjp=(_cumulative_prod_vjp,),
        jvp=(_cumulative_prod_jvp,),
        entry_map=SCANNED,
        samples=lambda s: [
            *_scan_samples(s),
            Sample((s((4,)) * (np.arange(4) != 1),), {"axis": 0}),
        ],
    )
)


@reading({0: (0, "y"), 1: (0,)})
def _recurrence_pullback(
    F: Namespace, wanted: Wanted, g: Value, y: Value, a: Value, _b: Shaped, *, axis: int, reverse: bool
) -> list[Any]:
    """Cotangents of a and b, from the reverse recurrence r[k] = g[k] + conj(a[k+1]) r[k+1]."""
    ahead = F.conj(_next_entries(F, a, axis, -1 if reverse else 1))
    r = F.linear_recurrence(ahead, g, axis=axis, reverse=not reverse)
    return [r if i else r * F.conj(F.shifted(y, axis, 1 if reverse else -1)) for i in wanted]


@derived
def shifted(x: Value, axis: int, step: int) -> Any:
    """x shifted along the axis: entry i is x[i + step] (``step`` is 1 or -1), and 0 beyond the ends."""
    n = x.shape[axis]
    if n == 0:
        return x
    source = slice(1, n, 1) if step > 0 else slice(0, n - 1, 1)
    target = slice(0, n - 1, 1) if step > 0 else slice(1, n, 1)

    def key(part: slice) -> tuple[slice, ...]:
        return tuple(part if k == axis else slice(0, m, 1) for k, m in enumerate(x.shape))

    return namespace.embed(namespace.index_basic(x, key=key(source)), key=key(target), shape=x.shape)


def _recurrence_taylor(
    F: Namespace, y: Coefficients, a: Coefficients, b: Coefficients, *, axis: int, reverse: bool
) -> Recurrence:
    """Taylor rule of ``linear_recurrence``, y = a shift(y) + b.

    y_k is the linear recurrence of a_0 and b_k + sum of a_j shift(y_{k-j}) over j > 0.
    """

    def coefficient(k: int) -> Any:
        if k == 0:
            return NotImplemented
        step = 1 if reverse else -1
        products = a.convolved(y, k, lambda a, y: a * F.shifted(y, axis, step))
        terms = [x for x in (b[k], products) if x is not None]
        if not terms:
            return None
        term = terms[0] if len(terms) == 1 else F.add(*terms)
        return F.linear_recurrence(a[0], term, axis=axis, reverse=reverse)

    return coefficient


define(
    Op(
        name="linear_recurrence",
        forward=strided.linear_recurrence,
        abstract=lambda a, b, *, axis, reverse: Aval(
            broadcast_shapes("linear_recurrence", a.shape, b.shape), dtypes.result_type(a, b)
        ),
        vjp=_recurrence_pullback,
        jvp=(
            lambda F, t, y, a, _b, *, axis, reverse: F.linear_recurrence(
                a, t * F.shifted(y, axis, 1 if reverse else -1), axis=axis, reverse=reverse
            ),
            None,
        ),
        linear_in=((1,),),
        taylor=_recurrence_taylor,
        entry_map=SCANNED,
        samples=lambda s: [
            Sample((s((4,)), s((4,))), {"axis": 0, "reverse": False}),
            Sample((s((2, 3)), s((2, 3))), {"axis": 1, "reverse": True}),
            Sample((s((1, 2)), s((1, 2))), {"axis": 0, "reverse": False}),
        ],
    )
)


def _cumulative_argmax(x: NDArray, *, axis: int, largest: bool) -> Any:
    """For each entry, the position of the first extremum among the entries up to it; a nan counts as one."""
    lines = np.moveaxis(x, axis, -1)
    if not lines.shape[-1]:
        return np.zeros(x.shape, np.int64)
    running = (np.maximum if largest else np.minimum).accumulate(lines, axis=-1)
    before, now = running[..., :-1], running[..., 1:]
    new = np.zeros(lines.shape, bool)
    new[..., 1:] = (before != now) & ~np.isnan(before)
    positions = np.maximum.accumulate(np.where(new, np.arange(lines.shape[-1]), 0), axis=-1)
    return np.moveaxis(positions, -1, axis)


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


def _log1p(x: NDArray) -> Any:
    """log(1 + x) of complex numbers, accurate both where 1 + x is near 1 and where it is near 0."""
    real, imag = x.real, x.imag
    size = np.hypot(1 + real, imag)
    small = size < 0.5
    near = 0.5 * np.log1p(np.where(small, 0, real * (2 + real) + imag * imag))
    with np.errstate(divide="ignore"):
        return np.where(small, np.log(size), near) + 1j * np.arctan2(imag, 1 + real)


def _ratio(a: NDArray, b: NDArray) -> Any:
    """exp(a - b) of complex numbers; equal infinite real parts cancel, 0 where a's real part is -inf."""
    none = np.isneginf(a.real)
    equal = a.real == b.real
    real = np.where(equal, 0, np.where(equal, 0, a.real) - np.where(equal, 0, b.real))
    return np.where(none, 0, np.exp(np.where(none, 0, real + 1j * (a.imag - b.imag))))


def _logcumsumexp(x: NDArray, *, axis: int) -> Any:
    """Logarithm of the cumulative sum of exp(x), along ``axis``.

    For complex numbers, the sum is kept relative to the entry with the largest real part so far, as
    exp(entry) (1 + r): r is the sum of the other exponentials over that one. Where x[k] is the largest, r[k]
    = (r[k-1] + 1) * ratio.
    """
    if x.dtype.kind != "c" or not x.size:
        return np.logaddexp.accumulate(x, axis=axis) if x.size else x.copy()
    lines = np.moveaxis(x, axis, -1)
    at = _cumulative_argmax(lines.real, axis=-1, largest=True)
    top = np.take_along_axis(lines, at, -1)
    new = at == np.arange(lines.shape[-1])
    before = np.concatenate([np.full_like(top[..., :1], -np.inf), top[..., :-1]], axis=-1)
    step = _ratio(np.where(new, before, lines), np.where(new, lines, top))
    r = strided.linear_recurrence(np.where(new, step, 1), step, axis=lines.ndim - 1, reverse=False)
    y = top + _log1p(r)
    angle = np.where(np.abs(y.imag) > np.pi, np.arctan2(np.sin(y.imag), np.cos(y.imag)), y.imag)
    angle = np.where(np.isneginf(top.real), 0, angle)
    return np.moveaxis(y.real + 1j * angle, -1, axis).astype(x.dtype, copy=False)


def _factors(F: Namespace, y: Value, x: Value, axis: int) -> tuple[Any, Any]:
    """The factors b and a of the derivative d of logcumsumexp: d[k] = a[k] d[k-1] + b[k] dx[k].

    b is exp(x[k] - y[k]) and a is exp(y[k-1] - y[k]), whose first entry is not read. Where y is -inf there is
    no derivative.
    """
    none = F.equal(y, -float("inf"))
    y = F.where(none, 0.0, y)
    falls = F.shifted(y - F.shifted(y, axis, 1), axis, -1)
    nothing_before = F.not_equal(F.shifted(F.where(none, 1.0, 0.0), axis, -1), 0.0)
    return F.exp(x - y), F.where(nothing_before, 0.0, F.exp(F.where(nothing_before, 0.0, falls)))


def _logcumsumexp_vjp(F: Namespace, g: Value, y: Value, x: Value, *, axis: int) -> Any:
    b, a = _factors(F, y, x, axis)
    ahead = F.conj(F.shifted(a, axis, 1))
    return F.conj(b) * F.linear_recurrence(ahead, g, axis=axis, reverse=True)


def _logcumsumexp_jvp(F: Namespace, t: Value, y: Value, x: Value, *, axis: int) -> Any:
    b, a = _factors(F, y, x, axis)
    return F.linear_recurrence(a, b * t, axis=axis, reverse=False)


define(
    Op(
        name="logcumsumexp",
        forward=_logcumsumexp,
        abstract=lambda x, *, axis: Aval(x.shape, x.dtype),
        vjp=(_logcumsumexp_vjp,),
        jvp=(_logcumsumexp_jvp,),
        entry_map=SCANNED,
        samples=lambda s: [Sample((s((4,)),), {"axis": 0}), Sample((s((2, 3)),), {"axis": 1})],
    )
)


# Full: y[i] = sum_k a[i - k] b[k]. Valid, of a at least as long as b, which has m entries:
# y[i] = sum_k a[i + m - 1 - k] b[k]. Each is the adjoint of the other in a. An adjoint has entries
# where they are read, and takes as many products as the convolution.
def _convolution_da(F: Namespace, g: Value, _y: Shaped, _a: Shaped, b: Value, *, mode: str) -> Any:
    other = F.flip(F.conj(b), axis=(0,))
    return F.linear_convolution(g, other, mode="valid" if mode == "full" else "full")


def _convolution_db(F: Namespace, g: Value, _y: Shaped, a: Value, _b: Shaped, *, mode: str) -> Any:
    if mode == "full":
        return F.linear_convolution(g, F.flip(F.conj(a), axis=(0,)), mode="valid")
    return F.flip(F.linear_convolution(F.conj(a), F.flip(g, axis=(0,)), mode="valid"), axis=(0,))


class Convolved(EntryMap):
    """Entry map of the convolution: entry i has the terms a[j] b[k] in which j + k is i (plus a constant)."""

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the entries that are in one of the terms."""
        shape, other = call.inputs[i].shape, call.inputs[1 - i].shape[0]
        first = 0 if call.params["mode"] == "full" else min(shape[0], other) - 1
        window = Window(first - (other - 1), first)
        return Relation.of(call.out.shape, shape, Factor(window, (0,), (0,)))


def _batched_convolution(F: Namespace, examples: Examples, *args: Value, mode: str) -> Any:
    """The convolution of each example: products of the shorter operand with windows of the longer one."""
    b, a = sorted(examples.each(F, args), key=lambda x: x.shape[1])
    size, n, m = examples.size, a.shape[1], b.shape[1]
    if mode == "full":
        places = canonical_slice(slice(None), size), slice(m - 1, m - 1 + n, 1)
        n += 2 * (m - 1)
        a = F.embed(a, key=places, shape=(size, n))
    at = np.arange(n - m + 1)[:, None] + np.arange(m)[::-1]
    terms = F.gather(a, at, axes=(1,)) * F.permute_dims(b, axes=(1, 0))
    return F.permute_dims(F.sum(terms, axis=(1,), keepdims=False), axes=(1, 0))


define(
    Op(
        name="linear_convolution",
        forward=lambda a, b, *, mode: np.convolve(a, b, mode),
        abstract=lambda a, b, *, mode: Aval(
            (a.shape[0] + (b.shape[0] - 1 if mode == "full" else 1 - b.shape[0]),), dtypes.result_type(a, b)
        ),
        vjp=(_convolution_da, _convolution_db),
        linear_in=((0,), (1,)),
        entry_map=Convolved(),
        batch=_batched_convolution,
        loops=loops.linear_convolution,
        samples=lambda s: [
            Sample((s((4,)), s((3,))), {"mode": "full"}),
            Sample((s((2,)), s((5,))), {"mode": "full"}),
            Sample((s((5,)), s((2,))), {"mode": "valid"}),
            Sample((s((3,)), s((3,))), {"mode": "valid"}),
        ],
    )
)
