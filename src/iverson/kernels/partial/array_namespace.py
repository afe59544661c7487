"""Partial values of arrays: the namespace in which eager kernels run the rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import compress, count
from math import prod
from operator import attrgetter, ne
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.op import Op
from iverson.core.region import Region
from iverson.core.scalars import keep_where
from iverson.core.shapes import Shape
from iverson.kernels import region_images
from iverson.kernels.array_ops import ArrayOps
from iverson.kernels.kernel_registry import run
from iverson.kernels.partial.partial_values import (
    Array,
    Namespace,
    Params,
    Value,
    Values,
    inner_of,
    region_of,
)
from iverson.kernels.sparse.sparse_operands import read as read_at_pattern
from iverson.kernels.terms import by_terms
from iverson.layouts import (
    Box,
    Bracket,
    CooPattern,
    Pattern,
    Sparse,
    Zero,
    boxed,
    counting_sorts,
    is_strided,
    select,
    to_strided,
)
from iverson.layouts.bracket import as_selection, by_line, held, is_finite
from iverson.layouts.pattern import addresses

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class _Ops(ArrayOps):
    """Conditions are combined once along axes on which none varies."""

    logical_and, logical_or, logical_not = (
        staticmethod(partial(by_line, f)) for f in (np.logical_and, np.logical_or, np.logical_not)
    )


class ArrayNamespace(Namespace):
    """The namespace of eager kernels: its plain values are arrays, and values of sparse layouts may occur."""

    ops = _Ops()

    def bind(self, op: Op, values: Values, params: Params) -> Value:
        if _PLAIN.issuperset(map(type, values)):
            out = op.forward(*values, **params)
        else:  # of rank 0, NumPy computes numbers
            operands = tuple([np.asarray(v) if isinstance(v, np.generic) else v for v in values])
            out = run(op, operands, dict(params))
        return np.asarray(out) if isinstance(out, np.generic) else out

    def aval(self, op: Op, values: Values, params: Params) -> Any:
        if len(values) == 1:
            return op.abstract(*values, **params)
        return op.abstract(*[Aval(x.shape, x.dtype) if hasattr(x, "shape") else x for x in values], **params)

    def constant(self, array: Value) -> Value:
        return array

    def true(self, shape: Shape) -> Value:
        return np.broadcast_to(np.True_, shape)

    def zero(self, shape: Shape, dtype: DTypeLike) -> Value:
        return Zero(shape, dtype)

    def zeros(self, shape: Shape, dtype: DTypeLike) -> Value:
        return np.zeros(shape, dtype)

    def is_zero(self, x: Value) -> bool:
        return type(x) is Zero

    def cut(self, x: Value, region: Region) -> Value:
        x_region = region.projected(x.shape)
        if isinstance(x, Sparse):
            return _read_sparse(x, x_region)
        return x if x_region.covers(x.shape) else x[x_region.slices]

    def embedded(self, x: Value, region: Region, shape: Shape) -> Value:
        out = np.zeros(shape, x.dtype)
        if type(x) is not Zero:
            out[region.slices] = x
        return out

    def select(self, x: Value) -> Value:
        return select(x)

    def plain(self, x: Value) -> Value:
        if is_strided(x):
            return x
        return to_strided(select(x)) if hasattr(x, "shape") else np.asarray(x)

    def one_condition(self, a: Bracket, b: Bracket) -> bool:
        """True if the conditions are one array, or the same view of one; computes no condition."""
        if a.is_lazy or b.is_lazy:
            return a.waits_for(b)
        p, q = a.condition, b.condition
        if p is q:
            return True
        return bool(p.shape == q.shape and p.strides == q.strides and p.ctypes.data == q.ctypes.data)

    def varies(self, condition: Value, axis: int) -> bool:
        return bool(condition.strides[axis] or not condition.shape[axis])

    def once(self, condition: Value, axis: int) -> Value:
        return condition[..., :1] if axis == -1 else condition[..., :1, :]

    def meets(self, a: Value, b: Value) -> Value:
        return np.matmul(a.astype(np.float32), b.astype(np.float32)) > 0

    def fitted(self, condition: Value, shape: Shape) -> Value:
        condition = np.asarray(condition, bool)
        return condition if condition.shape == shape else np.broadcast_to(condition, shape)

    def there(self, x: Bracket) -> Value:
        return held(x)

    def later(self, condition: Callable[[], Value]) -> Any:
        return condition

    def every(self, condition: Value) -> bool:
        return bool(condition.all())

    def indices(self, arrays: Values) -> Sequence[Array] | None:
        return arrays

    def along(self, pattern: Pattern, axis: int) -> Value:
        return pattern.along(axis)

    def is_carried(self, x: Value) -> bool:
        return is_strided(x) or type(x) in _CARRIED or not hasattr(x, "shape")

    def as_selection(self, x: Value) -> Value:
        """A box, or packed entries, as a selection that is made; other values are returned unchanged.

        A sparse value that stores a selection becomes a selection of a strided array.
        """
        if isinstance(x, Sparse):
            return x if x.there is None else Bracket(to_strided(x), x.there(), is_made=True)
        return as_selection(x)

    def total(self, terms: Values) -> Value | None:
        """Sum of arrays, boxes and zeros of one shape, accumulated in one buffer; None for all other terms.

        The sum is a box if all terms are boxes or zeros.
        """
        if not _SUMMED.issuperset(map(type, terms)):
            return None
        shape, dtypes = terms[0].shape, [x.dtype for x in terms]
        if any(x.shape != shape for x in terms):
            return None
        dtype = dtypes[0] if dtypes.count(dtypes[0]) == len(dtypes) else np.result_type(*dtypes)
        arrays = [x for x in terms if is_strided(x)]
        boxes = [x for x in terms if type(x) is Box and x.inner.size]
        if not arrays and not boxes:
            return Zero(shape, dtype)
        if not arrays and (adjacent := _joined(boxes)) is not None:
            region, inner = adjacent
            return boxed(shape, region, inner.astype(dtype, copy=False))
        if arrays:
            region = Region.full(shape)
            total = arrays[0].astype(dtype)
            for array in arrays[1:]:
                total += array
        else:
            region = Region.around([box.region for box in boxes])
            total = np.zeros(region.shape, dtype)
        corner = region.start
        for box in boxes:
            within = zip(box.region.start, box.region.stop, corner, strict=True)
            total[tuple([slice(a - c, b - c) for a, b, c in within])] += box.inner
        return boxed(shape, region, total)

    def product(self, op: Op, a: Value, b: Value, params: Params) -> tuple[Value, bool | None]:
        """Product of the values of two selections, and True; or None in place of True, if it is not strided.

        If a product is not finite, its terms are added one by one, without the terms that a selection leaves
        out: an inf or nan may have met a zero that stands for an entry that is left out.
        """
        factors = select(a), select(b)
        with np.errstate(invalid="ignore"):  # of inf and nan across from what is left out
            out = self.bind(op, factors, params)
        # One pass; where only the squares overflow, it costs a closer look.
        if is_strided(out) and not is_finite(out):
            lhs, rhs = map(to_strided, factors)
            out = by_terms(out, lhs, rhs, self._present(a), self._present(b))
        return out, True if is_strided(out) else None

    def _present(self, x: Value) -> Array:
        """Mask of the entries of a factor that are stored and that no selection leaves out."""
        if isinstance(x, Sparse):
            return to_strided(x.pattern.value(np.ones(x.entries.shape, bool)))
        return np.broadcast_to(self.there(x) if type(x) is Bracket else np.True_, x.shape)

    def around(self, op: Op, x: Value, wanted: Region, params: Params, image: Region) -> Value:
        """Result of an op in the image of a box; for `reshape`, each entry is moved to its new place."""
        if op.name != "reshape":
            return super().around(op, x, wanted, params, image)
        inner, shapes, region = inner_of(self.as_selection(x)), (x.shape, params["shape"]), region_of(x)

        def move(entries: Array) -> Array:
            return _reshaped(entries, region, shapes, image)

        return self.moved(inner, move(inner.values), move)

    def under(self, values: Value, terms: Sequence[Bracket], is_made: bool | None) -> Value:
        """``values`` under the conditions of the selections ``terms``, as one selection.

        Some kernels give sparse values: then the result is a sparse value that stores only the entries that
        are not left out (`stored_selection`).
        """
        if type(values) is Zero:
            return values
        if type(values) is Bracket:  # a kernel left entries out by itself
            terms, values, is_made = [values, *terms], values.values, False
        if not isinstance(values, Sparse):
            return super().under(values, terms, is_made)
        conditions = [t.without_values() for t in terms]

        def there() -> Array:
            return reduce(np.logical_and, (to_strided(self.there(t)) for t in conditions))

        parts = (read_at_pattern(to_strided(self.there(t)), values.pattern, values.shape) for t in conditions)
        return stored_selection(reduce(np.logical_and, parts), values, there)


_CARRIED = frozenset((Box, Bracket, Zero))
_SUMMED = frozenset((Box, Zero, np.ndarray))
_PLAIN = frozenset((np.ndarray, int, float, complex, bool))


def _reshaped(inner: Array, region: Region, shapes: tuple[Shape, Shape], image: Region) -> Array:
    """Array of the shape of ``image``: the entries of ``region`` at their places after a reshape, else 0.

    inner : the entries in ``region``.
    shapes : the shapes of the whole array before and after the reshape.
    """
    old, new = shapes
    at = np.zeros((1,), np.int64)
    for source, target in region_images.groups(old, new):
        source_part, target_part = region.permuted(tuple(source)), image.permuted(tuple(target))
        numbers = region_images.addresses(source_part, tuple(old[k] for k in source))
        places = np.zeros((1,), np.int64)
        digits = np.unravel_index(numbers, tuple(new[k] for k in target))
        for n, start, extent in zip(digits, target_part.start, target_part.shape, strict=True):
            places = places * extent + (n - start)
        at = np.add.outer(at * target_part.size, places).ravel()
    out = np.zeros(image.size, inner.dtype)
    out[at] = inner.ravel()
    return out.reshape(image.shape)


def _joined(boxes: list[Box]) -> tuple[Region, Array] | None:
    """Region and entries of the sum of boxes that follow one another along one axis without a gap.

    The entries of the boxes are concatenated. The result is None if the boxes do not lie like this.
    """
    boxes = sorted(boxes, key=_start)
    start, stop = boxes[0].region
    last = boxes[-1].region
    axis = next(compress(count(), map(ne, start, last.start)), None)
    if axis is None:
        return None
    for box in boxes[1:]:
        after = box.region
        if after.start != (*start[:axis], stop[axis], *start[axis + 1 :]) or (
            after.stop != (*stop[:axis], after.stop[axis], *stop[axis + 1 :])
        ):
            return None
        stop = after.stop
    return Region(start, stop), np.concatenate(list(map(_inner, boxes)), axis)


_start, _inner = attrgetter("region.start"), attrgetter("inner")


def _read_sparse(value: Sparse, region: Region) -> Array:
    """The entries of a sparse operand in a region, strided: no other is made explicit."""
    k = value.pattern.ndim
    at = value.pattern.coordinates
    start, stop = (np.array(corner[:k])[:, None] for corner in (region.start, region.stop))
    inside = ((at >= start) & (at < stop)).all(axis=0)
    keys = addresses(at[:, inside] - start, region.shape[:k])
    out = counting_sorts.added_rows(prod(region.shape[:k]), keys, value.entries[inside])
    out = out.reshape(*region.shape[:k], *value.dense_shape)
    result: Array = out[(slice(None),) * k + region.slices[k:]]
    return result


def stored_selection(kept: Array, x: Sparse, there: Callable[[], Array]) -> Any:
    """Selection among the stored entries of ``x``: a sparse value that stores only the selected ones.

    If the layout, or COO for blocks, cannot store them alone, it is a `Bracket` of a strided array.

    kept : for each stored entry, whether it is selected.
    there : gives the condition at all entries of the array: an entry that is not stored may be selected too,
        as a zero like any other.
    """
    pattern, before, condition = x.pattern, x.there, there
    if before is not None:
        there = lambda: np.logical_and(condition(), before())
    result = None
    if kept.all():
        result = pattern.value(x.entries)  # not x itself: that says that the op is the identity
    elif kept.size == pattern.count and pattern.distinct:
        at = np.flatnonzero(kept)
        if len(pattern.stored_shape) == 1 and (part := pattern.part(at)).count == at.size:
            result = part.value(x.entries[at])
        elif pattern.blocksize:  # of blocks, parts are no blocks
            result = CooPattern(pattern.shape, pattern.coordinates[:, at], True).value(x.entries[at])
    if result is None:
        return Bracket(to_strided(pattern.value(keep_where(kept, x.entries))), there(), is_made=True)
    result.there = there
    return result


ARRAYS = ArrayNamespace()

__all__ = ["ARRAYS", "ArrayNamespace", "stored_selection"]
