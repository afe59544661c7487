"""Compiled bodies of ops (`loops` of a record): tensor expressions with intermediate results.

Each takes the tensor-expression language, the aval of the result, the operands (a tensor, or a number as
it is) and the op's parameters. `embed`, `diag_embed` and `add_n` are the `te` of their ops, and take no aval.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod
from typing import TYPE_CHECKING, Any

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.protocols import Shaped
from iverson.core.scalars.quadrature import Total
from iverson.core.shapes import Shape
from iverson.kernels.index_keys import Key, key_shape
from iverson.ops.rules.notation import (
    Index,
    Indexed,
    Language,
    TensorOperand,
    over,
    read,
    reduction,
    stretched_index,
)

if TYPE_CHECKING:
    from iverson.expr.nodes import Expr

Loops = Callable[..., Any]


# --- entry by entry ---------------------------------------------------------------------------------


def elementwise(function: Loops) -> Loops:
    """Function that builds loops, as a tensor expression, of ``function(F, *entries)``; operands
    broadcast.
    """
    return lambda T, aval, *xs: over(T, aval, partial(function, T.F), *xs)


def series(function: Loops, orders: int) -> Loops:
    """Function that builds loops of ``function(F, *orders, *entries)`` in double precision.

    If ``function`` gives a `Total`, they are a sum over its terms. There are no loops (None) if orders are
    arrays.

    orders : the number of first operands that are orders.
    """

    def build(T: Language, aval: Aval, *operands: Any) -> Any:
        """The tensor expression of the result; None if an order is an array."""
        if any(hasattr(n, "shape") for n in operands[:orders]):
            return None
        order_values = [int(n) for n in operands[:orders]]

        def at(i: Index) -> Any:
            xs = (T.F.astype(read(x, i), dtypes.float64) for x in operands[orders:])
            return function(T.F, *order_values, *xs)

        first = at((0,) * len(aval.shape))
        if not isinstance(first, Total):
            return T.compute(aval.shape, lambda *i: at(i), dtype=aval.dtype)
        inputs = [T.compute(aval.shape, lambda *i, k=k: at(i).given[k]) for k in range(len(first.given))]

        def total(*i: Expr) -> Any:
            k = T.reduce_axis((0, first.count))
            return T.sum(first.term(T.F.astype(k, dtypes.float64), *(x[i] for x in inputs)), axis=k)

        return over(T, aval, first.finish, T.compute(aval.shape, total), *inputs)

    return build


def same(T: Language, aval: Aval, x: TensorOperand) -> Any:
    return over(T, aval, lambda v: v, x)


def astype(T: Language, aval: Aval, x: TensorOperand, *, dtype: Indexed) -> Any:
    return over(T, aval, lambda v: T.F.astype(v, dtype), x)


def bracket(T: Language, aval: Aval, condition: TensorOperand, x: TensorOperand, *, negated: bool) -> Any:
    return over(T, aval, lambda c, v: T.F.bracket(c, v, negated=negated), condition, x)


def add_n(T: Language, *xs: Indexed) -> Any:
    return T.compute(xs[0].shape, lambda *i: reduce(operator.add, [x[i] for x in xs]))


# --- softmax and what is made of it -----------------------------------------------------------------


def _reduced(kind: str, x: Indexed, axis: Shape) -> Any:
    """Reduction of the given kind ("max", "sum") that keeps its axes with extent 1."""
    return reduction(kind)(x, axis=axis, keepdims=True)


def _exponentials(T: Language, x: Indexed, axis: Shape) -> tuple[Any, Any, Any]:
    """Three tensors: x minus its maximum along the axes, exp of that, and the sum of exp along the axes."""
    top = _reduced("max", x, axis)
    shifted = over(T, x, lambda v, m: v - m, x, top)
    powers = over(T, x, lambda v, m: T.F.exp(v - m), x, top)
    return shifted, powers, _reduced("sum", powers, axis)


def softmax(T: Language, aval: Aval, x: Indexed, *, axis: int) -> Any:
    _, powers, total = _exponentials(T, x, (axis,))
    return over(T, aval, lambda p, s: p / s, powers, total)


def log_softmax(T: Language, aval: Aval, x: Indexed, *, axis: int) -> Any:
    shifted, _, total = _exponentials(T, x, (axis,))
    return over(T, aval, lambda v, s: v - T.F.log(s), shifted, total)


def logsumexp(T: Language, aval: Aval, x: Indexed, *, axis: Shape, keepdims: bool) -> Any:
    size = T.compute(x.shape, lambda *i: T.F.real(x[i])) if x.dtype.kind == "c" else x
    top = _reduced("max", size, axis)
    shift = over(T, top, lambda m: T.F.where(T.F.isfinite(m), m, 0.0), top)
    total = _reduced("sum", over(T, x, lambda v, m: T.F.exp(v - m), x, shift), axis)
    result = over(T, total, lambda s, m: T.F.log(s) + m, total, shift)
    places = [k for k in range(len(x.shape)) if k not in axis]
    if keepdims:
        return result
    return T.compute(aval.shape, lambda *i: result[_put_back(i, places, len(x.shape))])


def _put_back(i: Index, places: Sequence[int], rank: int) -> tuple[Any, ...]:
    """The index in an array whose reduced axes have extent 1, from an index without these.

    places : the axes that are not reduced.
    """
    at = dict(zip(places, i, strict=True))
    return tuple(at.get(k, 0) for k in range(rank))


def softmax_error(T: Language, aval: Aval, x: Indexed, classes: Indexed, *, axis: int) -> Any:
    _, powers, total = _exponentials(T, x, (axis,))

    def entry(*i: Expr) -> Any:
        label = read(classes, i)
        p = powers[i] / read(total, i)
        return T.F.where(T.F.equal(label, i[axis]), p - 1.0, p)

    return T.compute(aval.shape, entry, dtype=aval.dtype)


def cross_entropy(T: Language, aval: Aval, x: Indexed, classes: Indexed, *, axis: int, reduction: str) -> Any:
    """Losses by way of the exponentials, per example or summed up as ``reduction`` says."""
    shifted, _, total = _exponentials(T, x, (axis,))
    rank = len(x.shape)
    shape = tuple(1 if k == axis else n for k, n in enumerate(x.shape))

    def loss(*i: Expr) -> Any:
        at = tuple(classes[i] if k == axis else i[k] for k in range(rank))
        return T.F.log(total[i]) - shifted[at]

    losses = T.compute(shape, loss, dtype=aval.dtype)
    if reduction == "none":
        places = [k for k in range(rank) if k != axis]
        return T.compute(aval.shape, lambda *i: losses[_put_back(i, places, rank)])
    axes = [T.reduce_axis((0, n)) for n in shape]
    count = max(prod(shape), 1) if reduction == "mean" else 1
    summed = T.compute((), lambda: T.sum(losses[tuple(axes)], axis=axes))
    return T.compute((), lambda: summed[()] / count, dtype=aval.dtype)


# --- entries that are put somewhere -----------------------------------------------------------------


def _within(T: Language, i: Index, key: Key, extents: Shape) -> tuple[list[Any], tuple[Any, ...]]:
    """Conditions under which a basic key reads entry ``i`` of an array, and its index in the result.

    extents : the shape of the key's result.
    """
    inside: list[Any] = []
    at: list[Any] = []
    axis = iter(i)
    for item in key:
        if item is None:
            at.append(0)
        elif isinstance(item, slice):
            index = next(axis)
            steps = index - item.start if item.step > 0 else item.start - index
            place = steps // abs(item.step)
            inside += [steps >= 0, place < extents[len(at)]]
            if abs(item.step) != 1:
                inside.append(T.F.equal(steps % abs(item.step), 0))
            at.append(place)
        else:
            inside.append(T.F.equal(next(axis), item))
    return inside, tuple(at)


def _all_of(T: Language, conditions: Sequence[Expr]) -> Any:
    """The conjunction of the conditions."""
    condition = conditions[0]
    for c in conditions[1:]:
        condition = T.F.logical_and(condition, c)
    return condition


def _is_basic(key: Key) -> bool:
    """True if all items of the key are None, integers or slices."""
    return all(item is None or isinstance(item, int | slice) for item in key)


def embed(T: Language, g: Indexed, *, key: Key, shape: Shape, held: bool = False) -> Any:
    """Zeros, with g at the entries that a basic key reads."""

    def entry(*i: Expr) -> Any:
        inside, at = _within(T, i, key, g.shape)
        return T.F.bracket(_all_of(T, inside), g[at]) if inside else g[at]

    return T.compute(shape, entry)


def index_put(T: Language, aval: Aval, x: Indexed, v: TensorOperand, *, key: Key) -> Any:
    """x, with v at the entries that a basic key reads; None for other keys."""
    if not _is_basic(key):
        return None
    extents = key_shape(key, aval.shape)

    def entry(*i: Expr) -> Any:
        inside, at = _within(T, i, key, extents)
        new = T.F.astype(read(v, at), aval.dtype)
        return T.select(_all_of(T, inside), new, x[i]) if inside else new

    return T.compute(aval.shape, entry)


def overwritten(T: Language, aval: Aval, x: Indexed, *, key: Key) -> Any:
    """x, with zeros at the entries that a basic key reads; None for other keys."""
    if not _is_basic(key):
        return None
    extents = key_shape(key, aval.shape)

    def entry(*i: Expr) -> Any:
        inside, _ = _within(T, i, key, extents)
        return T.F.bracket(_all_of(T, inside), x[i], negated=True) if inside else 0

    return T.compute(aval.shape, entry, dtype=aval.dtype)


def diag_embed(T: Language, x: Indexed, *, offset: int, shape: Shape) -> Any:
    """Zeros, with x on the diagonal ``offset``."""
    first = max(-offset, 0)

    def entry(*i: Expr) -> Any:
        *batch, row, column = i
        k = row - first
        inside = [T.F.equal(column, row + offset), k >= 0, k < x.shape[-1]]
        return T.F.bracket(_all_of(T, inside), x[(*batch, T.clamp(k, 0, x.shape[-1] - 1))])

    return T.compute(shape, entry)


def scatter_add(
    T: Language, _aval: Shaped, g: Indexed, *indices: Indexed, axes: Shape, shape: Shape, held: bool = False
) -> Any:
    """Array of ``shape`` with the slices of g added at the places that index arrays name on ``axes``."""
    lead = len(g.shape) - (len(shape) - len(axes))

    def point(*i: Expr) -> Any:
        at = dict(zip(axes, (n[stretched_index(n.shape, i[:lead])] for n in indices), strict=True))
        remaining = iter(i[lead:])
        return tuple(at[k] if k in at else next(remaining) for k in range(len(shape))), g[i]

    return T.scatter(shape, g.shape, point)


def linear_convolution(T: Language, aval: Aval, a: Indexed, b: Indexed, *, mode: str) -> Any:
    """Sum of short[k] long[i - k] over k; with ``mode`` "valid", only where all of short overlaps long."""
    short, long = sorted((a, b), key=lambda x: x.shape[0])
    count = long.shape[0]
    first = 0 if mode == "full" else short.shape[0] - 1

    def entry(i: Expr) -> Any:
        i = i + first
        k = T.reduce_axis((0, short.shape[0]))
        x, y = (T.F.astype(v, aval.dtype) for v in (short[k], long[T.clamp(i - k, 0, count - 1)]))
        return T.sum(T.F.bracket(_all_of(T, [i >= k, i - k < count]), x * y), axis=k)

    return T.compute(aval.shape, entry)


# --- reductions -------------------------------------------------------------------------------------


def truth(kind: str) -> Loops:
    """Function that builds loops of `all` (``kind`` "min") or `any` ("max").

    The result is True if the least, or the largest, truth value is True.
    """

    def build(T: Language, _aval: Shaped, x: Indexed, *, axis: Shape, keepdims: bool) -> Any:
        true = over(T, Aval(x.shape, dtypes.bool), lambda v: v != 0, x)
        return reduction(kind)(true, axis=axis, keepdims=keepdims)

    return build


def _size(T: Language, v: Expr) -> Any:
    """The square of an entry's absolute value."""
    return T.F.square(T.F.real(v)) + T.F.square(T.F.imag(v)) if v.dtype.kind == "c" else T.F.square(v)


def norm(T: Language, aval: Aval, x: Indexed, *, axis: Shape, keepdims: bool) -> Any:
    def square(v: Expr) -> Any:
        return _size(T, v if v.dtype.kind == "c" else T.F.astype(v, aval.dtype))

    squares = over(T, Aval(x.shape, aval.dtype), square, x)
    return over(T, aval, T.F.sqrt, reduction("sum")(squares, axis=axis, keepdims=keepdims))


def deviation(T: Language, aval: Aval, x: Indexed, *, axis: Shape, keepdims: bool, squared: bool) -> Any:
    if x.dtype.kind not in "fc":
        return None
    if not axis:
        return over(T, aval, lambda: 0)
    count = prod(x.shape[k] for k in axis)
    total = _reduced("sum", x, axis)
    mean = over(T, Aval(total.shape, x.dtype), lambda s: s / count, total)
    squares = over(T, Aval(x.shape, aval.dtype), lambda v, m: _size(T, v - m), x, mean)
    sum_of_squares = reduction("sum")(squares, axis=axis, keepdims=keepdims)
    return sum_of_squares if squared else over(T, aval, T.F.sqrt, sum_of_squares)


def extremum_shares(T: Language, aval: Aval, x: Indexed, *, axis: Shape, largest: bool) -> Any:
    """1/n at the n entries of each line that attain its extremum, nan at those that are nan, 0 elsewhere."""
    top = _reduced("max" if largest else "min", x, axis)
    extremal = over(T, aval, lambda v, m: T.F.astype(T.F.equal(v, m), aval.dtype), x, top)
    count = _reduced("sum", extremal, axis)

    def share(v: Expr, a: Expr, n: Expr) -> Any:
        return T.F.where(T.F.isnan(v), v, a / T.F.maximum(n, 1.0))

    return over(T, aval, share, x, extremal, count)


def extremum(kind: str) -> Loops:
    """Function that builds loops of "argmax" or "argmin": the position of the extremum."""

    def build(T: Language, aval: Aval, x: Indexed, *, axis: int | None, keepdims: bool) -> Any:
        if x.dtype.kind == "c":
            return None
        if axis is None:
            x, axis = _flat(T, x), 0
        k = T.reduce_axis((0, x.shape[axis]))
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        positions = T.compute(shape, lambda *i: getattr(T, kind)(x[(*i[:axis], k, *i[axis:])], axis=k))
        if not keepdims:
            return positions
        places = [n for n in range(len(aval.shape)) if n != axis] if shape else []
        return T.compute(aval.shape, lambda *i: positions[tuple(i[n] for n in places)])

    return build


def _flat(T: Language, x: Indexed) -> Any:
    """The entries of x as a vector, in row-major order."""

    def entry(i: Expr) -> Any:
        at = [i // prod(x.shape[k + 1 :]) % n for k, n in enumerate(x.shape)]
        return x[tuple(at)]

    return T.compute((prod(x.shape),), entry)


# --- segments ---------------------------------------------------------------------------------------


def segment_max(T: Language, _aval: Shaped, x: Indexed, ids: Indexed, *, count: int) -> Any:
    return _combined(T, "max", x, ids, count)


def _combined(T: Language, kind: str, x: Indexed, ids: Indexed, count: int) -> Any:
    """For each of ``count`` segments, its slices combined by ``kind`` ("max", "sum")."""

    def point(e: Expr, *rest: Expr) -> Any:
        return (ids[e], *rest), x[(e, *rest)]

    return T.scatter((count, *x.shape[1:]), x.shape, point, combine=kind)


def _repeated(T: Language, aval: Aval, x: Indexed, ids: Indexed) -> Any:
    """For each slice, the slice of x that belongs to its segment."""
    return T.compute(aval.shape, lambda e, *rest: x[(ids[e], *rest)])


def segment_softmax(T: Language, aval: Aval, x: Indexed, ids: Indexed, *, count: int) -> Any:
    top = _repeated(T, aval, _combined(T, "max", x, ids, count), ids)
    powers = over(T, aval, lambda v, m: T.F.exp(v - m), x, top)
    total = _repeated(T, aval, _combined(T, "sum", powers, ids, count), ids)
    return over(T, aval, lambda p, s: p / s, powers, total)


def softmax_pullback(T: Language, aval: Aval, g: Indexed, y: Indexed, ids: Indexed, *, count: int) -> Any:
    weighted = over(T, aval, lambda a, b: a * b, y, g)
    total = _repeated(T, aval, _combined(T, "sum", weighted, ids, count), ids)
    return over(T, aval, lambda a, b, s: b * (a - s), g, y, total)
