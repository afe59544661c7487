"""Partial values of graphs: the namespace in which the pass `support_and_demand` runs the rules.

Values are handles of the pass's trace. Conditions have as many axes as their values, with extent 1 on those
along which they do not vary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, bind, make_handle, value_of
from iverson.core.entries import NOTHING
from iverson.core.op import Op
from iverson.core.protocols import LayoutValue
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.core.table import TABLE, F
from iverson.graph.passes.products import without_absent_terms
from iverson.graph.tracing.trace import Traced
from iverson.kernels.partial.partial_values import (
    Array,
    Namespace,
    Params,
    Value,
    Values,
    inner_of,
    read,
)
from iverson.layouts import Box, Bracket, Pattern, Strided, Zero, to_strided

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class GraphNamespace(Namespace):
    """Operations on values of the trace of the pass."""

    ops = F

    def bind(self, op: Op, values: Values, params: Params) -> Value:
        operands = tuple(map(self.plain, values))
        if op is TABLE["values_at"]:
            return F.entries_at(*operands, **params)
        return bind(op, operands, dict(params))

    def aval(self, op: Op, values: Values, params: Params) -> Any:
        avals = (Aval(x.shape, x.dtype) if hasattr(x, "shape") else x for x in values)
        return op.abstract(*avals, **params)

    def constant(self, array: Value) -> Value:
        return make_handle(to_strided(array))

    def true(self, shape: Shape) -> Value:
        return F.broadcast_to(make_handle(np.ones((1,) * len(shape), bool)), shape=shape)

    def zero(self, shape: Shape, dtype: DTypeLike) -> Value:
        return make_handle(Zero(shape, dtype))

    def zeros(self, shape: Shape, dtype: DTypeLike) -> Value:
        return self.zero(shape, dtype)

    def is_zero(self, x: Value) -> bool:
        value = value_of(x, x)
        return type(value) is Zero or (isinstance(value, Traced) and value.value.aval.support is NOTHING)

    def cut(self, x: Value, region: Region) -> Value:
        part = region.projected(x.shape)
        if self.is_zero(x):
            return self.zero(part.shape, x.dtype)
        return x if part.covers(x.shape) else F.index_basic(x, key=part.slices)

    def embedded(self, x: Value, region: Region, shape: Shape) -> Value:
        return F.embed(x, key=region.slices, shape=shape)

    def select(self, x: Value) -> Value:
        """The handle of the selection with its condition applied; anything but a selection as it is.

        It is computed once and kept in ``x``. A selection that is a permutation of another one permutes the
        handle of that.
        """
        if type(x) is not Bracket or x.is_made:
            return x if type(x) is not Bracket else x.values
        if type(x.values) is Box:
            x.values = Box(x.shape, x.values.region, self.select(inner_of(x)))
        elif x.turned is not None:
            before, axes = x.turned
            x.values = F.permute_dims(self.select(before), axes=axes)
        else:
            values, none = x.values, False if x.dtype == np.bool_ else 0
            x.values = F.where(x.condition, *((none, values) if x.negated else (values, none)))
        x.is_made = True
        return x.values

    def plain(self, x: Value) -> Value:
        x = self.select(x)
        return read(self, x, Region.full(x.shape)) if type(x) is Box else x

    def one_condition(self, a: Bracket, b: Bracket) -> bool:
        return _of_trace(a.condition) is _of_trace(b.condition)

    def varies(self, condition: Value, axis: int) -> bool:
        return condition.shape[axis] != 1  # type: ignore[no-any-return]

    def once(self, condition: Value, _axis: int) -> Value:
        return condition

    def meets(self, a: Value, b: Value) -> Value:
        """Mask of the rows of ``a`` and the columns of ``b`` that hold any entry.

        It may hold at more pairs than needed: an exact mask would cost one more product.
        """
        rows, columns = (F.any(x, axis=(x.ndim + k,), keepdims=True) for x, k in ((a, -1), (b, -2)))
        return F.logical_and(rows, columns)

    def fitted(self, condition: Value, shape: Shape) -> Value:
        missing = len(shape) - len(condition.shape)
        return F.expand_dims(condition, axis=tuple(range(missing))) if missing else condition

    def later(self, condition: Callable[[], Value]) -> Any:
        return condition()

    def indices(self, arrays: Values) -> Sequence[Array] | None:
        index_arrays = [value_of(n, n) for n in arrays]
        return index_arrays if all(type(n) is Strided for n in index_arrays) else None

    def along(self, pattern: Pattern, axis: int) -> Value:
        return F.along(pattern, axis)

    def product(self, op: Op, a: Value, b: Value, params: Params) -> tuple[Value, bool | None]:
        """The product of the selected factors; if it is not finite, the sum of the terms that are held.

        Also returns what `without_absent_terms` says of it.
        """
        return without_absent_terms(self, op, a, b, params)

    def apart(self, x: Bracket) -> Bracket:
        """A copy of the selection ``x`` that is not traced back to an `embed` any more.

        So when the pass runs again, it finds no place that these values were put in.
        """
        there = value_of(x.condition)
        condition = x.condition if isinstance(there, Traced) else make_handle(to_strided(there))
        values, condition = (F.to_dense(v) for v in (x.values, condition))
        return Bracket(values, condition, x.negated, is_made=x.is_made)


def _of_trace(x: Handle | LayoutValue) -> Any:
    """The value of the trace in a handle; handles of the same value are the same."""
    value = value_of(x, x)
    return value.value if isinstance(value, Traced) else value


GRAPHS = GraphNamespace()

__all__ = ["GRAPHS", "GraphNamespace"]
