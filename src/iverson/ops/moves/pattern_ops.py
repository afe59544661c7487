"""Ops between tensors and the values stored on a pattern, and between layouts.

``from_values`` and ``values_at`` are each other's adjoint; a pattern is a constant of both. An op that needs
only the values on a pattern demands only that pattern of everything before it
(`iverson.core.entries.Stored`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import levels, value_of
from iverson.core.entries import Box, Entries, Stored
from iverson.core.entry_map import Call, EntryMap
from iverson.core.errors import ShapeError
from iverson.core.op import Op, Rule, Sample
from iverson.core.protocols import Namespace, Params, Shaped, Value
from iverson.core.relations import Factor, Matched, Relation, numbers_on, same
from iverson.core.shapes import Shape, broadcast_shapes, check_choice
from iverson.core.table import F as namespace
from iverson.core.table import define, derived
from iverson.kernels.sparse import sparse_conversion, sparse_products
from iverson.layouts import (
    CooPattern,
    Pattern,
    Sparse,
    can_hold,
    distinct,
    from_strided,
    layout_named,
    row_numbers,
    sparse_layouts,
)
from iverson.layouts.block_diagonal import entries_of_slices, in_layout, of_all
from iverson.layouts.pattern import addresses
from iverson.layouts.pattern_symbols import PatternSymbol, follows
from iverson.layouts.placement import ByPattern
from iverson.ops.rules.batching import Examples, leading
from iverson.ops.rules.entry_maps import ELEMENTWISE, Entrywise
from iverson.ops.rules.notation import over

LINEAR = ((0,),)


@derived
def pattern_of(x: Value) -> Any:
    """The pattern on which a sparse tensor stores its entries."""
    return value_of(x).pattern


@derived
def along(pattern: Pattern, axis: int) -> Any:
    """The index of each stored entry of a pattern along an axis, as an array.

    For a pattern that is known only when a program runs, it is a handle of a level that has the pattern.
    """
    if not isinstance(pattern, PatternSymbol):
        return pattern.along(axis) if axis or pattern.ndim != 2 else row_numbers(pattern)
    for level in reversed(levels()):
        index = level.index_array(pattern, axis)
        if index is not None:
            return index
    return pattern.along(axis)  # which says that it is not known


def _values_shape(shape: Shape, pattern: Pattern) -> Shape:
    """Shape of the values on a pattern, for a tensor of ``shape``: the stored shape, then the dense axes."""
    return pattern.stored_shape + tuple(shape[pattern.ndim :])


def _from_values_abstract(values: Shaped, *, pattern: Pattern) -> Aval:
    lead = len(pattern.stored_shape)
    if values.shape[:lead] != pattern.stored_shape:
        raise ShapeError(
            "from_values",
            "values",
            got=f"shape {values.shape}",
            expected=f"{pattern.stored_shape} as first axes, one value per stored entry",
        )
    return Aval(pattern.shape + tuple(values.shape[lead:]), values.dtype)


def _values_at_abstract(x: Shaped, *, pattern: Pattern, held: bool = False) -> Aval:
    if tuple(x.shape[: pattern.ndim]) != pattern.shape:
        raise ShapeError(
            "values_at",
            "x",
            got=f"shape {x.shape}",
            expected=f"{pattern.shape} as first axes, the shape of the pattern",
        )
    return Aval(_values_shape(x.shape, pattern), x.dtype)


def _sparse_for(shape: Shape, dense: Shape = ()) -> list[tuple[str, Any]]:
    """Names of the sparse layouts that can hold a tensor, each with a blocksize (or None), for tests.

    shape, dense : the extents of its sparse axes, and of dense axes behind them.
    """
    fitting = [layout for layout in sparse_layouts() if layout.dense_axes or not dense]
    choices = [(layout.name, (2, 3) if layout.blocked else None) for layout in fitting]
    return [(name, blocks) for name, blocks in choices if can_hold(name, shape, blocks)]


def _patterns() -> list[Pattern]:
    """Patterns for tests: one of each layout, one in COO with repeats, and batches in two layouts."""
    array = np.zeros((4, 6))
    array[[0, 0, 1, 3], [1, 4, 0, 5]] = 1
    repeats = CooPattern((3, 4), np.array([[0, 2, 0, 1], [1, 3, 1, 0]], np.int32))
    patterns = [from_strided(array, name, blocks).pattern for name, blocks in _sparse_for(array.shape)]
    batch = np.stack([array[:, :2], array[:, 4:], array[:, 2:4]])
    batches = [from_strided(batch, "csr").pattern, from_strided(batch, "bsc", (2, 1)).pattern]
    return [*patterns, repeats, *batches]


class OnPattern(EntryMap):
    """Entry map of ``from_values``: the result has the values at the pattern, and is zero elsewhere."""

    partial = stored = True

    def demand(
        self, _op: Op, _demands: Sequence[Entries], _inputs: Sequence[Shaped], _out: Shaped, params: Params
    ) -> Entries:
        """The pattern, with each entry once."""
        pattern = params["pattern"]
        return Stored(pattern if pattern.distinct else distinct(pattern))

    def relation(self, call: Call, _i: int) -> Relation:
        """Relation to the values that are stored at the entry, one or several."""
        return at_keys(call.out.shape, call.inputs[0].shape, call.params["pattern"], transposed=False)


class AtPattern(EntryMap):
    """Entry map of ``values_at``: the result has the entries of the tensor at the pattern."""

    def relation(self, call: Call, _i: int) -> Relation:
        """Relation to the entry of the tensor that the value is of."""
        return at_keys(call.inputs[0].shape, call.out.shape, call.params["pattern"], transposed=True)


def at_keys(shape: Shape, values: Shape, pattern: Pattern, *, transposed: bool) -> Relation:
    """Relation between the entries of a tensor of ``shape`` and its ``values`` on a pattern.

    Places along dense trailing axes are the same.

    values : the shape of the values.
    transposed : True if the values are the result; False if the tensor is.
    """
    if pattern.is_symbol:
        return Relation.everything(*((values, shape) if transposed else (shape, values)))
    axes, lead = tuple(range(pattern.ndim)), tuple(range(len(pattern.stored_shape)))
    count = prod(pattern.shape)
    dense = [(len(axes) + k, len(lead) + k) for k in range(len(shape) - len(axes))]
    if transposed:
        at_pattern = Factor(Matched(pattern.keys, None, count), lead, axes)
        return Relation.of(values, shape, at_pattern, *(same(j, k) for k, j in dense))
    at_pattern = Factor(Matched(None, pattern.keys, count), axes, lead)
    relation = Relation.of(shape, values, at_pattern, *itertools.starmap(same, dense))
    return relation.inside(numbers_on(pattern, shape))


class Sampled(EntryMap):
    """Entry map of a matrix product at a pattern: an entry depends on a row of a and a column of b."""

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the row of a, or column of b, in the matrix of the batch that the entry belongs to."""
        pattern, into = call.params["pattern"], call.inputs[i].shape
        if pattern.is_symbol:
            return call.everything(i)
        free = len(into) - 2 + i  # the axis of rows of a, of columns of b
        axes = (*range(len(into) - 2), free)
        extents = tuple(into[k] for k in axes)
        places = pattern.coordinates[[pattern.ndim - len(into) + k for k in axes]]
        places = np.where(np.array(extents)[:, None] == 1, 0, places)  # of a batch of one, that
        fact = Matched(addresses(places, extents), None, prod(extents))
        return Relation.of(call.out.shape, into, Factor(fact, tuple(range(len(call.out.shape))), axes))


# A batch on one pattern: the pattern of all examples, one after the other.
def _batched_from_values(F: Namespace, examples: Examples, values: Value, *, pattern: Pattern) -> Any:
    batch_pattern, order = in_layout(of_all(pattern, examples.size), pattern)
    dense = values.shape[1 + len(pattern.stored_shape) :]
    values = F.reshape(values, shape=(examples.size * pattern.count, *dense))
    if order is not None:
        values = F.gather(values, order, axes=(0,))
    return F.from_values(F.reshape(values, shape=batch_pattern.stored_shape + dense), pattern=batch_pattern)


def _batched_values_at(F: Namespace, examples: Examples, x: Value, *, pattern: Pattern, **held: bool) -> Any:
    values = F.values_at(x, pattern=of_all(pattern, examples.size), **held)
    return F.reshape(values, shape=(examples.size, *_values_shape(x.shape[1:], pattern)))


def _batched_sampled_product(
    F: Namespace, examples: Examples, a: Value, b: Value, *, pattern: Pattern
) -> Any:
    rank = len(pattern.shape)
    values = F.sampled_product(*examples.aligned(F, (a, b), rank), pattern=of_all(pattern, examples.size))
    return F.reshape(values, shape=(examples.size, *pattern.stored_shape))


_dense_result = lambda F, y: F.to_dense(y)

define(
    Op(
        name="from_values",
        forward=sparse_conversion.from_values,
        abstract=_from_values_abstract,
        vjp=(lambda F, g, _y, _v, *, pattern: F.entries_at(g, pattern, held=True),),
        linear_in=LINEAR,
        entry_map=OnPattern(),
        batch=_batched_from_values,
        samples=lambda s: [
            *(
                Sample((s((*p.stored_shape, *dense)),), {"pattern": p}, _dense_result)
                for dense in ((), (2,))
                for p in _patterns()
            ),
            Sample((s((2, 3)),), {"pattern": CooPattern((4,), np.array([[1, 3]]))}, _dense_result),
        ],
    )
)

define(
    Op(
        name="values_at",
        forward=sparse_conversion.values_at,
        abstract=_values_at_abstract,
        vjp=(lambda F, g, _y, _x, *, pattern, **_: F.with_entries(g, pattern),),
        linear_in=LINEAR,
        entry_map=AtPattern(),
        batch=_batched_values_at,
        samples=lambda s: [
            *(Sample((s((*p.shape, *dense)),), {"pattern": p}) for dense in ((), (2,)) for p in _patterns()),
            Sample((s((4, 3)),), {"pattern": CooPattern((4,), np.array([[1, 3, 1]]))}),
        ],
    )
)


@derived
def at_values(x: Value, f: Callable[[Value], Value]) -> Any:
    """f of the stored entries of a sparse x, on its pattern; f of all entries of a strided x.

    f : must be 0 at 0, like its derivatives.
    """
    if not isinstance(value_of(x, None), Sparse):
        return f(x)
    x = namespace.coalesce(x)
    pattern = pattern_of(x)
    return namespace.with_entries(f(namespace.entries_at(x, pattern)), pattern)


@derived
def on_pattern(x: Value, pattern: Pattern) -> Any:
    """Sparse tensor on ``pattern`` with the entries of x there."""
    pattern = distinct(pattern)
    return namespace.with_entries(namespace.entries_at(x, pattern), pattern)


def _sampled_abstract(a: Shaped, b: Shaped, *, pattern: Pattern) -> Aval:
    """Aval of a product at a pattern; raises ShapeError if the shapes do not fit."""
    for name, x in (("a", a), ("b", b)):
        if len(x.shape) < 2:
            raise ShapeError("sampled_matmul", name, got=f"shape {x.shape}", expected="at least two axes")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            "sampled_matmul",
            "b",
            got=f"shape {b.shape} for a of shape {a.shape}",
            expected=f"{a.shape[-1]} rows, as a has columns",
        )
    batch = broadcast_shapes("sampled_matmul", a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    pattern_shape = pattern.shape
    if (
        pattern_shape[-2:] != shape[-2:]
        or broadcast_shapes("sampled_matmul", batch, pattern_shape[:-2]) != pattern_shape[:-2]
    ):
        raise ShapeError(
            "sampled_matmul",
            "pattern",
            got=f"shape {pattern_shape}",
            expected=f"{shape}, the shape of the product",
        )
    return Aval(pattern.stored_shape, dtypes.result_type(a, b))


@derived
def matmul_on(a: Value, b: Value, pattern: Pattern) -> Any:
    """Sparse product a @ b on a pattern of distinct entries, computed only at these entries.

    ``a`` and ``b`` are broadcast to the batch of the pattern. If the pattern stores rows or matrices (slices
    over dense axes), these are computed as a whole.
    """
    if pattern.ndim < max(a.ndim, b.ndim):
        return _slices_of_product(namespace, a, b, pattern)
    return namespace.with_entries(namespace.sampled_product(a, b, pattern=pattern), pattern)


def _slices_of_product(F: Namespace, a: Value, b: Value, pattern: Pattern) -> Any:
    """The result of `matmul_on` for a pattern of entire rows, or of entire matrices, of the product."""
    batch = broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])

    def at(x: Value) -> Any:
        shape = batch + x.shape[-2:]
        return F.entries_at(x if x.shape == shape else F.broadcast_to(x, shape=shape), pattern)

    if pattern.ndim <= len(batch):
        return F.with_entries(F.matmul(*(x if x.ndim == 2 else at(x) for x in (a, b))), pattern)
    if b.ndim == 2:
        return F.with_entries(F.matmul(at(a), b), pattern)
    dense = b.shape[-1:]  # of rows by matrices of their own, the entries
    entries = F.sampled_product(a, b, pattern=entries_of_slices(pattern, dense))
    return F.with_entries(F.reshape(entries, shape=pattern.stored_shape + dense), pattern)


def _sampled_within(
    F: Namespace,
    _rule: Rule,
    wanted: Box | Stored,
    i: int,
    g: Value,
    _y: Shaped,
    a: Value,
    b: Value,
    *,
    pattern: Pattern,
) -> Any:
    """The cotangent of factor ``i`` at a pattern; NotImplemented if it cannot be computed there."""
    x = (a, b)[i]
    if not isinstance(wanted, Stored) or len(x.shape) != max(wanted.pattern.ndim, 2):
        return NotImplemented
    if x.shape[:-2] != pattern.shape[:-2]:  # broadcast to the batch: its cotangent is a sum over that
        return NotImplemented
    cotangent = F.from_values(g, pattern=pattern)
    return F.matmul_on(*((cotangent, F.mH(b)) if i == 0 else (F.mH(a), cotangent)), wanted.pattern)


# out[p] = sum_k a[i_p, k] b[k, j_p]: with G = g on the pattern, grad a = G b^H and grad b = a^H G.
define(
    Op(
        name="sampled_product",
        forward=sparse_products.sampled_product,
        abstract=_sampled_abstract,
        vjp=(
            lambda F, g, _y, _a, b, *, pattern: F.sum_to(
                F.matmul(F.from_values(g, pattern=pattern), F.mH(b)), _a.shape
            ),
            lambda F, g, _y, a, _b, *, pattern: F.sum_to(
                F.matmul(F.mH(a), F.from_values(g, pattern=pattern)), _b.shape
            ),
        ),
        linear_in=((0,), (1,)),
        entry_map=Sampled(),
        vjp_at=_sampled_within,
        batch=_batched_sampled_product,
        samples=lambda s: [
            *(
                Sample((s((*p.shape[:-1], 2)), s((*p.shape[:-2], 2, p.shape[-1]))), {"pattern": p})
                for p in _patterns()
            ),
            *(
                Sample((s((p.shape[-2], 2)), s((*p.shape[:-2], 2, p.shape[-1]))), {"pattern": p})
                for p in _patterns()[-2:]
            ),
            *(Sample((s((3, 4, 2)), s((1, 2, 2))), {"pattern": p}) for p in _patterns()[-2:]),
        ],
    )
)


def check_fits(
    shape: Shape, layout: str, blocksize: tuple[int, int] | None, operation: str, argument: str
) -> None:
    """Raises ShapeError for a shape that a layout cannot hold."""
    expected = layout_named(layout).unfit(shape, blocksize)
    if expected:
        blocks = f", blocks {blocksize}" if blocksize else ""
        description = f"shape {shape} for layout '{layout}'{blocks}"
        raise ShapeError(operation, argument, got=description, expected=expected)


def _layout_abstract(x: Shaped, *, layout: str, blocksize: tuple[int, int] | None, dense_dim: int) -> Aval:
    check_fits(x.shape[: len(x.shape) - dense_dim], layout, blocksize, "to_layout", "x")
    return Aval(x.shape, x.dtype)


class Converted(Entrywise):
    """Entry map of ``to_layout``: the same entries in another layout."""

    converts = True

    def demand(
        self, _op: Op, demands: Sequence[Entries], _inputs: Sequence[Shaped], out: Shaped, params: Params
    ) -> Entries:
        """The demanded pattern converted to the new layout, on which the result of a sparse tensor is stored.

        It stays as it is if the new layout may be unable to hold it.
        """
        need, conversion = demands[0], layout_named(params["layout"]).from_coo
        if not isinstance(need, Stored) or need.pattern.ndim != len(out.shape) - params["dense_dim"]:
            return need
        if not isinstance(conversion, ByPattern):
            return need
        target = params["layout"], params["blocksize"]
        if target == (need.pattern.layout, need.pattern.blocksize):
            return need
        pattern = follows(
            ("converted", *target), lambda p: conversion.converted(p, target[1])[0], need.pattern
        )
        assert pattern is not None
        return Stored(pattern)


define(
    Op(
        name="to_layout",
        forward=sparse_conversion.to_layout,
        abstract=_layout_abstract,
        vjp=(lambda F, g, _y, _x, *, layout, blocksize, dense_dim: g,),
        jvp=(lambda F, t, _y, _x, *, layout, blocksize, dense_dim: t,),
        entry_map=Converted(),
        batch=leading,
        samples=lambda s: [
            Sample(
                (s((4, 6, *dense)),),
                {"layout": name, "blocksize": blocks, "dense_dim": len(dense)},
                _dense_result,
            )
            for dense in ((), (2,))
            for name, blocks in (*_sparse_for((4, 6), dense), *([] if dense else [("strided", None)]))
        ],
    )
)

define(
    Op(
        name="coalesce",
        forward=lambda x: x,
        abstract=lambda x: Aval(x.shape, x.dtype),
        vjp=(lambda F, g, _y, _x: g,),
        linear_in=LINEAR,
        entry_map=ELEMENTWISE,
        batch=leading,
        loops=lambda T, aval, x: over(T, aval, lambda v: v, x),
        samples=lambda s: [Sample((s((2, 3)),))],
    )
)


def check_layout(layout: str, operation: str, *, blocked: bool = True) -> None:
    """Raise ArgumentError for a layout that users cannot ask for.

    blocked : False to refuse layouts of blocks too.
    """
    names = [sparse_layout.name for sparse_layout in sparse_layouts() if blocked or not sparse_layout.blocked]
    check_choice(layout, ("strided", *names), operation, "layout")


__all__ = ["check_fits", "check_layout", "distinct"]
