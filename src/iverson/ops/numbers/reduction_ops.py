"""Reductions over axes, a normalised tuple; extrema, which choose an entry, are in `iverson.ops.moves`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import LevelValue, value_of
from iverson.core.entries import FULL, Box, Entries, Stored, size
from iverson.core.entry_map import Call, Facts
from iverson.core.errors import DensifyWarning
from iverson.core.op import Op, Rule, Sample, Sampler
from iverson.core.protocols import Namespace, NDArray, Params, Shaped, Value
from iverson.core.python.caller import warn
from iverson.core.relations import Relation
from iverson.core.scalars import inverse_length
from iverson.core.shapes import Shape, reduced_shape
from iverson.core.table import F as namespace
from iverson.core.table import define, derived
from iverson.kernels import region_images, strided
from iverson.kernels.sparse import sparse_reductions
from iverson.layouts import CooPattern, Pattern, Sparse, distinct
from iverson.ops.rules import loops
from iverson.ops.rules.entry_maps import REDUCED, Moved, Reduced, moved
from iverson.ops.rules.notation import reduction

LINEAR = ((0,),)


@derived
def expand_reduced(g: Value, shape: Shape, axis: Shape, keepdims: bool) -> Any:
    """g with the reduced axes put back, broadcast to the shape before the reduction."""
    if not keepdims and 0 < len(axis) < len(shape):  # one entry needs no axes to be stretched
        g = namespace.expand_dims(g, axis=axis)
    return namespace.broadcast_to(g, shape=shape)


@derived
def keep_reduced(y: Value, axis: Shape, keepdims: bool) -> Any:
    """y, the result of a reduction, with the reduced axes as extents of 1."""
    return y if keepdims or not axis else namespace.expand_dims(y, axis=axis)


def abstract_reduced(x: Shaped, *, axis: Shape, keepdims: bool) -> Aval:
    """Aval of a reduction whose result has the operand's dtype."""
    return Aval(reduced_shape(x.shape, axis, keepdims), x.dtype)


def _samples(draw: Callable[[Sampler, Shape], NDArray]) -> Any:
    """Function that gives test calls of a reduction, with arrays from ``draw``."""

    def samples(s: Sampler) -> list[Sample]:
        return [
            Sample((draw(s, (2, 3)),), {"axis": (0, 1), "keepdims": False}),
            Sample((draw(s, (2, 3, 2)),), {"axis": (1,), "keepdims": True}),
            Sample((draw(s, (3, 2)),), {"axis": (), "keepdims": False}),
            Sample((draw(s, ()),), {"axis": (), "keepdims": False}),
        ]

    return samples


#: Samples of normal numbers, and of numbers of which no two are close.
_normal = _samples(lambda s, shape: s(shape))
of_distinct = _samples(lambda s, shape: s.distinct(shape))


class Summed(Moved, Reduced):
    """Entry map of ``sum``: entries of input 0 are added up along axes."""

    moves = indexed = False

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the line that is reduced to the entry."""
        return Reduced.relation(self, call, i)

    def moved(
        self, op: Op, demands: Sequence[Entries], inputs: Facts, out: Shaped, params: Params
    ) -> Entries:
        """Sums of the lines through a demanded pattern, if these are few; else all entries."""
        need = demands[0]
        if isinstance(need, Stored) and prod(out.shape) > size(need, inputs[0].shape):
            return moved(op, demands, inputs, out, params)
        return FULL


def is_sparse(x: Value) -> bool:
    """True if a handle's value is in a sparse layout."""
    return isinstance(value_of(x, None), Sparse)


def is_stored(x: Value) -> bool:
    """True for a handle of a value in a sparse layout, or of a value of a level that stands for one."""
    value = value_of(x)
    return value.is_sparse if isinstance(value, LevelValue) else isinstance(value, Sparse)


def pattern_of_entries(x: Value) -> Pattern | None:
    """Pattern of a sparse value, if it stores single entries, with each once; else None."""
    pattern = value_of(x).pattern if is_stored(x) else None
    return None if pattern is None or pattern.ndim != x.ndim else distinct(pattern)


def at_entries(
    F: Namespace, g: Value, pattern: Pattern, axis: Shape, keepdims: bool, dense: Shape = ()
) -> Any:
    """For each entry of a pattern, the entry of g, an array reduced over ``axis``, that belongs to its line.

    dense : extents of the dense axes along which a pattern of slices stores entries.
    """
    if prod(g.shape) <= 4 * pattern.count:  # what lines it does not store is told entry by entry
        g = F.spread(g)
    if keepdims:
        g = F.squeeze(g, axis=axis)
    outer = [k for k in range(pattern.ndim) if k not in axis]
    shape, lead = pattern.stored_shape + dense, 0
    if outer:
        g, lead = F.gather(g, *(F.along(pattern, k) for k in outer), axes=tuple(range(len(outer)))), 1
    over = tuple(lead + k - pattern.ndim for k in axis if k >= pattern.ndim)
    if over:
        g = F.expand_dims(g, axis=over)
    if not outer:
        return F.broadcast_to(g, shape=shape)
    if over:
        g = F.broadcast_to(g, shape=(pattern.count, *dense))
    return F.reshape(g, shape=shape)


def _sum_within(
    F: Namespace,
    _rule: Rule,
    wanted: Box | Stored,
    _i: int,
    g: Value,
    _y: Shaped,
    _x: Shaped,
    *,
    axis: Shape,
    keepdims: bool,
) -> Any:
    """The cotangent at a pattern: each entry takes that of the sum it went into, and nothing is broadcast.

    The result is NotImplemented for a box.
    """
    if not isinstance(wanted, Stored) or not axis:
        return NotImplemented
    pattern = wanted.pattern
    dense = _x.shape[pattern.ndim :]
    return F.with_entries(at_entries(F, g, pattern, axis, keepdims, dense), pattern)


# The second is of cotangents that are stored: where no entry of a line is, its sum is left out.
for _name in ("sum", "sum_of_stored"):
    define(
        Op(
            name=_name,
            forward=lambda x, *, axis, keepdims: np.add.reduce(
                x, axis=axis, dtype=x.dtype, keepdims=keepdims
            ),
            abstract=abstract_reduced,
            vjp=(lambda F, g, _y, _x, *, axis, keepdims: F.expand_reduced(g, _x.shape, axis, keepdims),),
            linear_in=LINEAR,
            entry_map=Summed(region_images.summed),
            vjp_at=_sum_within,
            te=reduction("sum"),
            samples=_normal,
        )
    )


def _prod_vjp(F: Namespace, g: Value, _y: Shaped, x: Value, *, axis: Shape, keepdims: bool) -> Any:
    """Cotangent of x: g times the product of the other entries of the line.

    For a sparse x it is computed on lines with few zeros alone, if that suffices.
    """
    length = int(np.prod([x.shape[k] for k in axis]))
    if is_sparse(x) and length > 1:
        # Recorded, it is differentiated where x is zero now: each order reads lines with one more zero.
        zeros = ORDERS if F.is_recorded(x) else 1
        if zeros < length:
            return _prod_vjp_of_sparse(F, g, x, axis, length, zeros)
        warn(
            f"prod: the gradient of a sparse tensor of shape {x.shape} is dense where it is "
            f"differentiated again (create_graph=True) along lines of at most {ORDERS} entries, as its "
            "derivatives read every 0; take it without create_graph, or reduce masked_tensor(x) if entries "
            "that are not stored are not meant",
            DensifyWarning,
        )
        x = F.to_dense(x)
    return F.expand_reduced(g, x.shape, axis, keepdims) * F.conj(_others(F, x, axis))


#: The order up to which derivatives of a product of sparse entries are exact.
ORDERS = 8


def _prod_vjp_of_sparse(F: Namespace, g: Value, x: Value, axis: Shape, length: int, zeros: int) -> Any:
    """Cotangent of a sparse x, computed only on lines that store all but at most ``zeros`` of their entries.

    The derivative is 0 on lines with two zeros, and that of order n on lines with n + 1. So at most ``zeros``
    + 1 times as many entries are computed as are stored. None if there are no such lines.

    length : the number of entries of a line.
    """
    x = F.coalesce(x)
    order = tuple(k for k in range(x.ndim) if k not in axis) + axis
    moved_shape = tuple(x.shape[k] for k in order)
    count = int(np.prod(moved_shape)) // length
    flat = F.reshape(F.permute_dims(x, axes=order), shape=(count, length))
    flat = F.to_layout(flat, layout="coo", blocksize=None, dense_dim=0)
    lines = sparse_reductions.lines_of(F.pattern_of(flat), (1,))
    ids = lines.ids[lines.counts >= length - zeros]
    if not ids.size:
        return None
    other_products = F.conj(_others(F, F.to_dense(F.gather(flat, ids, axes=(0,))), (1,)))
    g = F.expand_dims(F.to_dense(F.gather(F.reshape(g, shape=(count,)), ids, axes=(0,))), axis=(1,))
    cotangent = F.from_values(g * other_products, pattern=CooPattern((count,), ids[None], True))
    return F.permute_dims(
        F.reshape(cotangent, shape=moved_shape), axes=tuple(int(k) for k in np.argsort(order))
    )


def _others(F: Namespace, x: Value, axis: Shape) -> Any:
    """For each entry, the product of the other entries of its line; exact also where some are 0.

    Products from the left and from the right of each entry, by two cumulative products.
    """
    if not axis:
        return np.ones(x.shape, x.dtype)
    keep = tuple(k for k in range(x.ndim) if k not in axis)
    order = keep + axis
    lead = tuple(x.shape[k] for k in keep)
    flat = F.reshape(F.permute_dims(x, axes=order), shape=(*lead, int(np.prod([x.shape[k] for k in axis]))))
    last = flat.ndim - 1
    before = F.shifted_cumulative_prod(flat, last)
    after = F.flip(F.shifted_cumulative_prod(F.flip(flat, axis=(last,)), last), axis=(last,))
    product = F.reshape(before * after, shape=tuple(x.shape[k] for k in order))
    return F.permute_dims(product, axes=tuple(int(k) for k in np.argsort(order)))


@derived
def shifted_cumulative_prod(x: Value, axis: int) -> Any:
    """For each entry, the product of all entries before it along the axis; 1 for the first."""
    n = x.shape[axis]
    if n == 0:
        return x
    ahead = tuple(slice(0, n - 1, 1) if k == axis else slice(0, m, 1) for k, m in enumerate(x.shape))
    unit = np.ones(tuple(1 if k == axis else m for k, m in enumerate(x.shape)), x.dtype)
    if n == 1:
        return namespace.astype(unit, dtype=x.dtype)
    products = namespace.index_basic(namespace.cumulative_prod(x, axis=axis), key=ahead)
    return namespace.concat(unit, products, axis=axis, offsets=(0, 1))


define(
    Op(
        name="prod",
        forward=lambda x, *, axis, keepdims: np.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype),
        abstract=abstract_reduced,
        vjp=(_prod_vjp,),
        jvp=(
            lambda F, t, _y, x, *, axis, keepdims: F.sum(
                t * _others(F, x, axis), axis=axis, keepdims=keepdims
            ),
        ),
        te=reduction("prod"),
        entry_map=REDUCED,
        samples=lambda s: [
            *_normal(s),
            Sample((s((4,)) * (np.arange(4) > 1),), {"axis": (0,), "keepdims": False}),
        ],
    )
)


def _logsumexp_vjp(F: Namespace, g: Value, y: Value, x: Value, *, axis: Shape, keepdims: bool) -> Any:
    return F.expand_reduced(g, x.shape, axis, keepdims) * F.conj(_weights(F, y, x, axis, keepdims))


def _weights(F: Namespace, y: Value, x: Value, axis: Shape, keepdims: bool) -> Any:
    """exp(x - y), the softmax weights from the logsumexp y of lines; 0 for a line of -inf."""
    y = F.keep_reduced(y, axis, keepdims)
    return F.exp(x - F.where(F.equal(y, -np.inf), 0.0, y))


def _logsumexp_within(
    F: Namespace,
    _rule: Rule,
    wanted: Box | Stored,
    _i: int,
    g: Value,
    y: Value,
    x: Value,
    *,
    axis: Shape,
    keepdims: bool,
) -> Any:
    """The cotangent at a pattern, with the softmax weights of its entries alone; NotImplemented for a box."""
    if not isinstance(wanted, Stored) or not axis or wanted.pattern.ndim != x.ndim:
        return NotImplemented
    pattern = wanted.pattern
    weights = F.conj(weights_at(F, y, x, pattern, axis, keepdims))
    return F.with_entries(at_entries(F, g, pattern, axis, keepdims) * weights, pattern)


def weights_at(F: Namespace, y: Value, x: Value, pattern: Pattern, axis: Shape, keepdims: bool) -> Any:
    """The softmax weights of x at the entries of a pattern, from the logsumexp y of lines."""
    lines = at_entries(F, F.where(F.equal(y, -np.inf), 0.0, y), pattern, axis, keepdims)
    return F.exp(F.entries_at(x, pattern) - lines)


def _logsumexp_jvp(F: Namespace, t: Value, y: Value, x: Value, *, axis: Shape, keepdims: bool) -> Any:
    pattern = pattern_of_entries(t) if axis else None
    if pattern is None:
        t = t * _weights(F, y, x, axis, keepdims)
    else:
        weights = weights_at(F, y, x, pattern, axis, keepdims)
        t = F.with_entries(F.entries_at(t, pattern) * weights, pattern)
    return F.sum(t, axis=axis, keepdims=keepdims)


define(
    Op(
        name="logsumexp",
        forward=strided.logsumexp,
        abstract=abstract_reduced,
        vjp=(_logsumexp_vjp,),
        jvp=(_logsumexp_jvp,),
        entry_map=REDUCED,
        vjp_at=_logsumexp_within,
        loops=loops.logsumexp,
        samples=_normal,
    )
)


def _norm(x: NDArray, *, axis: Shape, keepdims: bool) -> Any:
    squares = np.square(x.real) + np.square(x.imag) if x.dtype.kind == "c" else np.square(x)
    return np.sqrt(np.sum(squares, axis=axis, keepdims=keepdims))


def _direction(F: Namespace, y: Value, x: Value, axis: Shape, keepdims: bool) -> Any:
    """x / y, and 0 where the norm y is 0."""
    return x * inverse_length(F, F.keep_reduced(y, axis, keepdims))


define(
    Op(
        name="norm",
        forward=_norm,
        abstract=lambda x, *, axis, keepdims: Aval(
            reduced_shape(x.shape, axis, keepdims), dtypes.real_of(dtypes.to_inexact(x.dtype))
        ),
        vjp=(
            lambda F, g, y, x, *, axis, keepdims: (
                F.keep_reduced(g, axis, keepdims) * _direction(F, y, x, axis, keepdims)
            ),
        ),
        jvp=(
            lambda F, t, y, x, *, axis, keepdims: F.sum(
                F.real(F.conj(_direction(F, y, x, axis, keepdims)) * t), axis=axis, keepdims=keepdims
            ),
        ),
        entry_map=REDUCED,
        loops=loops.norm,
        samples=_normal,
        convention="at 0 the derivative is 0",
    )
)


def _deviation(x: NDArray, *, axis: Shape, keepdims: bool, squared: bool) -> Any:
    apart = np.abs(x - np.mean(x, axis=axis, keepdims=True)) if axis else np.zeros_like(np.abs(x))
    sum_of_squares = np.sum(np.square(apart), axis=axis, keepdims=keepdims)
    return sum_of_squares if squared else np.sqrt(sum_of_squares)


def _line_means(F: Namespace, x: Value, axis: Shape) -> Any:
    """The mean of each line, with the reduced axes as extents of 1."""
    count = int(np.prod([x.shape[k] for k in axis]))
    return F.sum(x, axis=axis, keepdims=True) * (1 / max(count, 1))


def _deviation_weight(F: Namespace, g: Value, y: Value, squared: bool) -> Any:
    """Factor of the distances from the mean in the derivative of the deviation."""
    return 2 * g if squared else g * inverse_length(F, y)


def _deviation_vjp(
    F: Namespace, g: Value, y: Value, x: Value, *, axis: Shape, keepdims: bool, squared: bool
) -> Any:
    weight = F.keep_reduced(_deviation_weight(F, g, y, squared), axis, keepdims)
    return weight * F.subtract(x, _line_means(F, x, axis))


def _deviation_within(
    F: Namespace,
    _rule: Rule,
    wanted: Box | Stored,
    _i: int,
    g: Value,
    y: Value,
    x: Value,
    *,
    axis: Shape,
    keepdims: bool,
    squared: bool,
) -> Any:
    """Cotangent at a pattern, from the distances of its entries from the mean; NotImplemented for a box."""
    if not isinstance(wanted, Stored) or wanted.pattern.ndim != x.ndim or not axis:
        return NotImplemented
    pattern = wanted.pattern
    mean = at_entries(F, F.to_dense(_line_means(F, x, axis)), pattern, axis, True)
    apart = F.subtract(F.values_at(x, pattern=pattern), mean)
    weight = at_entries(F, _deviation_weight(F, g, y, squared), pattern, axis, keepdims)
    return F.from_values(weight * apart, pattern=pattern)


def _deviation_jvp(
    F: Namespace, t: Value, y: Value, x: Value, *, axis: Shape, keepdims: bool, squared: bool
) -> Any:
    mean = _line_means(F, x, axis)
    if is_sparse(x):
        # The mean times t, over all entries, is the mean times the sum of t.
        dot = F.sum(F.conj(x) * t, axis=axis, keepdims=True)
        tangent = F.real(F.subtract(dot, F.conj(mean) * F.sum(t, axis=axis, keepdims=True)))
        tangent = tangent if keepdims or not axis else F.squeeze(tangent, axis=axis)
    else:
        tangent = F.sum(F.real(F.conj(F.subtract(x, mean)) * t), axis=axis, keepdims=keepdims)
    return _deviation_weight(F, tangent, y, squared)


# The sum of d = x - mean(x) over a line is 0: what the mean adds to the derivative of sum |d|^2 vanishes.
define(
    Op(
        name="deviation",
        forward=_deviation,
        abstract=lambda x, *, axis, keepdims, squared: Aval(
            reduced_shape(x.shape, axis, keepdims), dtypes.real_of(dtypes.to_inexact(x.dtype))
        ),
        vjp=(_deviation_vjp,),
        jvp=(_deviation_jvp,),
        vjp_at=_deviation_within,
        entry_map=REDUCED,
        loops=loops.deviation,
        samples=lambda s: [
            Sample((s((2, 3)),), {"axis": (0, 1), "keepdims": False, "squared": True}),
            Sample((s((2, 3, 2)),), {"axis": (1,), "keepdims": True, "squared": False}),
            Sample((s((3, 2)),), {"axis": (0,), "keepdims": False, "squared": False}),
            Sample((s((3, 2)),), {"axis": (), "keepdims": False, "squared": True}),
        ],
        convention="where all entries are equal the derivative is 0",
    )
)

_TESTS: dict[str, Callable[..., Any]] = {"all": np.all, "any": np.any}
for _name, _body in _TESTS.items():
    define(
        Op(
            name=_name,
            forward=lambda x, *, axis, keepdims, body=_body: body(x, axis=axis, keepdims=keepdims),
            abstract=lambda x, *, axis, keepdims: Aval(reduced_shape(x.shape, axis, keepdims), dtypes.bool),
            loops=loops.truth("min" if _name == "all" else "max"),
            samples=_normal,
        )
    )
