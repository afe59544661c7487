"""The matrix product on the last two axes, with batches before them, and its cotangents for partial demands.

A demand that is a box is computed from rows and columns, one that is a pattern as a product sampled there. A
cotangent that only products read stays in the form of two factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from math import prod
from typing import TYPE_CHECKING, Any

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import is_tracked, value_of
from iverson.core.entries import (
    FACTORED,
    FULL,
    NOTHING,
    Box,
    Entries,
    LowRank,
    Stored,
    hull,
    in_products,
    join,
    plain,
)
from iverson.core.entry_map import Call, EntryMap
from iverson.core.errors import ShapeError
from iverson.core.op import Body, Op, Rule, Sample
from iverson.core.protocols import Namespace, Params, Shaped, Value
from iverson.core.region import Region
from iverson.core.relations import Factor, Pairs, Relation, same
from iverson.core.shapes import Shape, broadcast_shapes
from iverson.core.table import define
from iverson.kernels import strided
from iverson.kernels.sparse import merging, sparse_products
from iverson.layouts import Pattern, support_of, support_pattern
from iverson.layouts.pattern import addresses
from iverson.ops.rules.batching import Examples, by_matrix
from iverson.ops.rules.entry_maps import relation_by_letters
from iverson.ops.rules.notation import Indexed, Language, lazy_te, stretched_index

if TYPE_CHECKING:
    from iverson.te import Expr


def _abstract(a: Shaped, b: Shaped) -> Aval:
    """Aval of a @ b; raises ShapeError if the shapes do not fit."""
    for name, x in (("a", a), ("b", b)):
        if x.ndim < 2:
            raise ShapeError("matmul", name, got=f"shape {x.shape}", expected="at least two axes")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            "matmul",
            "b",
            got=f"shape {b.shape} for a of shape {a.shape}",
            expected=f"{a.shape[-1]} rows, as a has columns",
            remedy="transpose one of them",
        )
    batch = broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])
    return Aval((*batch, a.shape[-2], b.shape[-1]), dtypes.result_type(a, b))


def cut(F: Namespace, x: Value, region: Region) -> Any:
    """The part of x in ``region``; x itself if that is all of it."""
    return x if region.covers(x.shape) else F.index_basic(x, key=region.slices)


def _within(
    F: Namespace, _rule: Rule, wanted: Entries, i: int, g: Value | LowRank, y: Value, a: Value, b: Value
) -> Any:
    """The part ``wanted`` of the cotangent of factor ``i``; NotImplemented if only the whole can be computed.

    For a box, rows of a's cotangent need those rows of g, and its columns need those rows of b. Likewise for
    b.
    """
    if isinstance(wanted, Stored) and not wanted.products:
        return product_at(F, wanted.pattern, i, g, y, a, b)
    if in_products(wanted):
        return _factors(F, i, g, y, a, b)
    x = (a, b)[i]
    if not isinstance(wanted, Box) or x.shape[:-2] != y.shape[:-2]:
        return NotImplemented
    assert not isinstance(g, LowRank)  # products alone read that, and no box
    region = wanted.region
    batch = Region(region.start[:-2], region.stop[:-2])
    rows, columns = (region.start[-2], region.stop[-2]), (region.start[-1], region.stop[-1])

    def part(z: Value, first: tuple[int, int], second: tuple[int, int]) -> Any:
        z_batch = batch.projected(z.shape[:-2])
        return cut(F, z, Region((*z_batch.start, first[0], second[0]), (*z_batch.stop, first[1], second[1])))

    if i == 0:
        ct = F.matmul(part(g, rows, (0, g.shape[-1])), F.mH(part(b, columns, (0, b.shape[-1]))))
    else:
        ct = F.matmul(F.mH(part(a, (0, a.shape[-2]), rows)), part(g, (0, g.shape[-2]), columns))
    return F.embed(ct, key=region.slices, shape=x.shape)


def product_at(
    F: Namespace, pattern: Pattern, i: int, g: Value | LowRank, y: Value, a: Value, b: Value
) -> Any:
    """The cotangent of factor ``i`` (0: a, 1: b) at a pattern; NotImplemented if it cannot be computed there.

    Axes along which the factor was broadcast are joined with the contracted axis: the product sums over both.
    """
    x_shape = (a, b)[i].shape
    if len(x_shape) != max(pattern.ndim, 2):  # slices, as they are multiplied
        if x_shape[:-2] != y.shape[:-2] or isinstance(g, LowRank):
            return NotImplemented
        return F.matmul_on(*((g, F.mH(b)) if i == 0 else (F.mH(a), g)), pattern)
    if isinstance(g, LowRank):
        factors = _factors(F, i, g, y, a, b)
        return F.matmul_on(factors.left, factors.right, pattern)
    other = (b, a)[i]
    if len(y.shape) > 2:
        g, other = (_beside(F, z, (a, b)[i], y, -1 - i) for z in (g, other))
    return F.matmul_on(*((g, F.mH(other)) if i == 0 else (F.mH(other), g)), pattern)


def _beside(F: Namespace, z: Value, x: Shaped, y: Shaped, axis: int) -> Any:
    """z with some axes of the batch joined to one of its last two axes: those that x was broadcast along.

    y : the product, whose batch axes count.
    axis : -1 or -2, the axis of the matrices that they are joined to.
    """
    batch, x_batch = y.shape[:-2], x.shape[:-2]
    lead = len(batch) - len(x_batch)
    over = [k for k, extent in enumerate(batch) if k < lead or x_batch[k - lead] != extent]
    if not over:
        return z
    shape = (1,) * (y.ndim - z.ndim) + z.shape
    batch_axes = [k for k in range(len(batch)) if k not in over]
    last = [len(batch), len(batch) + 1]
    last[axis:axis] = over
    first = tuple(1 if k in over else shape[k] for k in range(lead, len(batch)))
    matrix = [shape[-2], shape[-1]]
    matrix[axis] *= prod(shape[k] for k in over)
    aligned = z if z.shape == shape else F.reshape(z, shape=shape)
    return F.reshape(F.permute_dims(aligned, axes=(*batch_axes, *last)), shape=(*first, *matrix))


#: The cotangent of a product of fewer entries costs less whole than finding where it is read.
SMALL = 1 << 16


class Contracted(EntryMap):
    """Entry map of the matrix product: entry (i, j) depends on row i of a and column j of b.

    If a factor is on a pattern, only its stored entries count.
    """

    products = factored = True

    def demand(
        self, _op: Op, demands: Sequence[Entries], inputs: Sequence[Shaped], out: Shaped, _: Params
    ) -> Entries:
        """Entries of the product that depend on demanded entries of a factor.

        For demanded rows of a alone, or columns of b alone, these are the same rows or columns.
        """
        shape = out.shape
        supports = list(map(getattr, inputs, repeat("support"), repeat(FULL)))
        slices = [
            _slices(k, demands, supports, inputs, shape) for k, d in enumerate(demands) if d is not NOTHING
        ]
        if slices and slices[0] is not None and all(p is slices[0] for p in slices):
            return Stored(slices[0])
        kinds = {*map(type, demands), *map(type, supports)}
        if Stored in kinds and prod(shape) >= SMALL:
            met = _met(demands, {k: s.pattern for k, s in enumerate(supports) if type(s) is Stored}, shape)
            if met is not None:
                return met
        if Box not in kinds:
            return FULL if prod(shape) else NOTHING
        return join(_reached(need, k, inputs, shape) for k, need in enumerate(demands) if need is not NOTHING)

    def support(
        self, _op: Op, where: Entries, i: int, inputs: Sequence[Shaped], out: Shaped, _params: Params
    ) -> Entries:
        """Entries of factor ``i`` that entries in ``where`` depend on: rows of a, or columns of b, of a box.

        Along the contracted axis, it is the range in which the other factor may be nonzero.
        """
        x, other = inputs[i], getattr(inputs[1 - i], "support", FULL)
        bounded = isinstance(where, Box) or isinstance(other, Box)
        if where is NOTHING or not bounded or x.shape[:-2] != out.shape[:-2]:
            return where if where is NOTHING else FULL
        region = hull(where, out.shape)
        start, stop = list(region.start), list(region.stop)
        summed = -1 - i
        other_region = hull(other, inputs[1 - i].shape)
        start[summed], stop[summed] = other_region.start[-2 + i], other_region.stop[-2 + i]
        return plain(Box(Region(tuple(start), tuple(stop))), x.shape)

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to row i of a, or column j of b; with a sparse other factor, to what meets it."""
        into, other, out = call.inputs[i].shape, call.inputs[1 - i], call.out.shape
        support, batch = getattr(other, "support", FULL), out[:-2]
        pattern = support.pattern if isinstance(support, Stored) and not support.pattern.is_symbol else None
        if pattern is None or other.shape != pattern.shape or not batch == into[:-2] == other.shape[:-2]:
            return relation_by_letters(out, into, *(("i.", "i."), (".j", ".j"))[i])
        # A stored entry (k, j) of b ties entry j of a row of the result to entry k of that row of a; an entry
        # (i, k) of a, entry i of a column to entry k of that column of b.
        first = len(batch)
        free, tied = (first, first + 1) if i == 0 else (first + 1, first)
        coordinates, at = pattern.coordinates, list(range(first))
        rows = addresses(coordinates[[*at, tied]], (*batch, out[tied]))
        columns = addresses(coordinates[[*at, free]], (*batch, into[tied]))
        axes = (*at, tied)
        return Relation.of(out, into, Factor(Pairs(rows, columns), axes, axes), same(free, free))


def _slices(
    k: int, needs: Sequence[Entries], supports: Sequence[Entries], inputs: Sequence[Shaped], out: Shape
) -> Any:
    """The pattern of the rows, or matrices, of the result that depend on demanded entries of factor ``k``.

    The demand, or the support of the other factor, must consist of slices over dense axes; else the result is
    None.
    """
    for i, entries in ((k, needs[k]), (1 - k, supports[1 - k])):
        if isinstance(entries, Stored):
            shape, p = inputs[i].shape, entries.pattern
            if len(shape) == len(out) and p.ndim < len(out) - i and shape[: p.ndim] == out[: p.ndim]:
                return p
    return None


def _met(needs: Sequence[Entries], patterns: dict[int, Pattern], out: Shape) -> Entries | None:
    """Entries of the product that depend on demanded entries of the factors, if all of these are on patterns.

    A demanded entry counts where the other factor stores an entry that it is multiplied with. The result is
    None if there is no sparse result worth using. If the other factor has no lasting pattern, the result may
    be `FACTORED`: all of the cotangent is read, but only in products.

    patterns : the pattern of each factor that is on one.
    out : the shape of the product.
    """
    met = []
    for k, need in enumerate(needs):
        if need is not NOTHING:
            p = patterns.get(1 - k)
            if not (isinstance(need, Stored) and p is not None and need.pattern.ndim == p.ndim == len(out)):
                products = all(n is NOTHING or n is FACTORED or isinstance(n, Stored) for n in needs)
                return FACTORED if products and len(out) == 2 else None
            met.append((need.pattern, p) if k == 0 else (p, need.pattern))
    products_of = [sparse_products.product_pattern(p, q) for p, q in met]
    pattern = merging.union(products_of, products_of[0])
    return Stored(pattern, products=len(out) == 2) if 2 * pattern.count < prod(out) else None


def _reached(need: Entries, i: int, inputs: Sequence[Shaped], out: Shape) -> Entries:
    """Box of the product that depends on demanded entries of factor ``i``: whole rows for a, columns for b.

    The boxes of both factors bound it.
    """
    region = Region.full(out)
    for entries, k in ((need, i), (getattr(inputs[1 - i], "support", FULL), 1 - i)):
        if isinstance(entries, Box):
            region = region.intersect(_lines(entries.region, inputs[k].shape, out, -2 + k))
    return plain(Box(region), out)


def _lines(box: Region, shape: Shape, out: Shape, axis: int) -> Region:
    """The box of rows (``axis`` -2) or columns (-1) of the result that depend on the box ``box`` of a factor.

    shape, out : of the factor and of the result.
    """
    (*first, _, _), (*last, _, _) = box
    batch = Region(tuple(first), tuple(last)).broadcast(shape[:-2], out[:-2])
    low, high = [*batch.start, 0, 0], [*batch.stop, *out[-2:]]
    low[axis], high[axis] = box.start[axis], box.stop[axis]
    return Region(tuple(low), tuple(high))


def _factors(F: Namespace, i: int, g: Value | LowRank, _y: Shaped, a: Value, b: Value) -> Any:
    """Cotangent of factor ``i`` as a `LowRank`, if that is smaller; else NotImplemented."""
    if isinstance(g, LowRank):
        if i == 0:
            return LowRank(g.left, F.matmul(g.right, F.mH(b)))
        return LowRank(F.matmul(F.mH(a), g.left), g.right)
    lhs, rhs = (g, F.mH(b)) if i == 0 else (F.mH(a), g)
    (m, k), n = lhs.shape, rhs.shape[1]
    return LowRank(lhs, rhs) if k * (m + n) < m * n else NotImplemented


def _vjp_a(F: Namespace, g: Value, _y: Shaped, _a: Shaped, b: Value) -> Any:
    ct = F.matmul(g, F.mH(b))
    return ct if ct.shape == _a.shape else F.sum_to(ct, _a.shape)


def _vjp_b(F: Namespace, g: Value, _y: Shaped, a: Value, _b: Shaped) -> Any:
    pattern = next((p for x in (a, g) if (p := _rows_of(F, x)) is not None), None)
    if pattern is not None and len(_b.shape) == 2:
        g, a = (_rows_at(F, x, pattern) for x in (g, a))
    elif len(a.shape) > 2 == len(_b.shape):
        g, a = _all_rows(F, g, a)
    ct = F.matmul(F.mH(a), g)
    return ct if ct.shape == _b.shape else F.sum_to(ct, _b.shape)


def _rows_of(F: Namespace, x: Value) -> Any:
    """The pattern of the rows of ``x`` that are stored.

    None if single entries, or all, are stored, and if ``x`` is differentiated: then all entries count.
    """
    pattern = None if F.is_recorded(x) else support_pattern(value_of(x))
    return pattern if pattern is not None and pattern.ndim < len(x.shape) else None


def _rows_at(F: Namespace, x: Value, pattern: Pattern) -> Any:
    """Matrix of the rows of ``x`` in the slices that a pattern stores, one below the other."""
    dense = x.shape[pattern.ndim :]
    return F.reshape(F.entries_at(x, pattern), shape=(pattern.count * prod(dense[:-1]), dense[-1]))


def _all_rows(F: Namespace, g: Value, a: Value) -> tuple[Any, Any]:
    """Rows of all matrices of ``g`` and of ``a`` as one matrix each, so that one product sums over the batch.

    Rows outside of the support of ``g`` are left out.
    """
    region = hull(support_of(value_of(g)), g.shape) if not is_tracked(g) else Region.full(g.shape)
    if not region.covers(g.shape):
        rows = Region.full(g.shape[:-1]).intersect(Region(region.start[:-1], region.stop[:-1]))
        g, a = (cut(F, x, Region((*rows.start, 0), (*rows.stop, x.shape[-1]))) for x in (g, a))
    count = prod(g.shape[:-1])
    return F.reshape(g, shape=(count, g.shape[-1])), F.reshape(a, shape=(count, a.shape[-1]))


def _product(T: Language, a: Indexed, b: Indexed) -> Any:
    k = T.reduce_axis((0, a.shape[-1]))
    shape = _abstract(a, b).shape

    def entry(*i: Expr) -> Any:
        *batch, row, column = i
        a_batch = stretched_index(a.shape[:-2], tuple(batch))
        b_batch = stretched_index(b.shape[:-2], tuple(batch))
        term = a[(*a_batch, row, k)] * b[(*b_batch, k, column)]
        return T.sum(term, axis=k, dtype=term.dtype)

    return T.compute(shape, entry)


def _batched(F: Namespace, examples: Examples, a: Value, b: Value) -> Any:
    """One product for all examples if they share a matrix; `strided.matmul` takes the rows of all at once."""
    return by_matrix(F, examples, F.matmul, a, b)


define(
    Op(
        name="matmul",
        forward=Body(strided.matmul, trapping=strided.trapping_matmul),
        abstract=_abstract,
        vjp=(_vjp_a, _vjp_b),
        linear_in=((0,), (1,)),
        entry_map=Contracted(),
        vjp_at=_within,
        te=lazy_te(_product),
        batch=_batched,
        samples=lambda s: [
            Sample((s((2, 3)), s((3, 4)))),
            Sample((s((2, 1, 2, 3)), s((5, 3, 1)))),
            Sample((s((2, 3)), s((4, 3, 2)))),
            Sample((s((2, 4, 3)), s((3, 2)))),
            Sample((s((2, 0)), s((0, 3)))),
        ],
    )
)
