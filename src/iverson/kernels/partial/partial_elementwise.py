"""Elementwise ops, and sums of several terms, of partial values.

An op is computed in the region outside of which its result is zero or is not read. Where the result is zero
because a selection is, the op is computed on all values and its result gets the condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from iverson.core.entries import FULL, Entries
from iverson.core.entries import Box as Boxed
from iverson.core.op import Op
from iverson.core.region import Region
from iverson.core.shapes import Shape, broadcast_shapes
from iverson.core.table import TABLE
from iverson.kernels.partial.partial_moves import end_to_end
from iverson.kernels.partial.partial_values import (
    Namespace,
    Params,
    Value,
    Values,
    everything,
    in_dtype,
    is_partial,
    is_plain,
    placed,
    read,
    region_of,
    region_read,
    stretched,
)
from iverson.layouts import Bracket


def elementwise(N: Namespace, op: Op, values: Values, params: Params, need: Entries = FULL) -> Value:
    """Rule of elementwise ops: the op is computed in a region, where the result may be nonzero and is read.

    The result is NotImplemented if that region is everything and no operand is a selection.
    """
    selects = Bracket in map(type, values)
    if type(need) is not Boxed and not _any_bounds(N, values):
        return _on_entries(N, op, _beside_selections(N, op, values), params) if selects else NotImplemented
    if selects and not all(map(N.is_carried, values)):
        operands = _beside_selections(N, op, values)
        under = _under_conditions(
            N, op, [everything(N, x) if type(x) is Bracket else x for x in operands], params
        )
        return N.bind(op, [N.select(x) for x in operands], params) if under is None else under
    out = N.aval(op, values, params)
    region = result_region(N, op, values, out.shape).intersect(region_read(need, out.shape))
    if region.covers(out.shape) and not selects:
        return NotImplemented
    if not region.size:
        return N.zero(out.shape, out.dtype)
    inner = [read(N, x, region) for x in _beside_selections(N, op, values)]
    return placed(N, out.shape, region, _on_entries(N, op, inner, params))


def _any_bounds(N: Namespace, values: Values) -> bool:
    """True if any operand is in a box, or zero."""
    return any(is_partial(x) or N.is_zero(x) for x in values)


def result_region(N: Namespace, op: Op, values: Values, shape: Shape) -> Region:
    """Region outside of which the result of an elementwise op is zero.

    It follows from `linear_in` and `zero_preserving` of the op: a sum is zero where all terms are, a product
    where any factor is.

    shape : of the result.
    """
    regions = [_broadcast_region(N, x, shape) for x in values]
    groups = list(op.groups(len(values)))
    if op.zero_preserving:
        groups.append(tuple(range(len(values))))
    bounds = (reduce(Region.hull, (regions[k] for k in group)) for group in groups)
    return reduce(Region.intersect, bounds, Region.full(shape))


def _broadcast_region(N: Namespace, x: Value, shape: Shape) -> Region:
    """Region of a result of shape ``shape`` in which the operand ``x``, broadcast, may be nonzero."""
    if not hasattr(x, "shape"):
        return Region.full(shape)
    if N.is_zero(x):  # of rank 0 too, where no region is empty
        return Region((0,) * len(shape), (0,) * len(shape))
    return region_of(x).broadcast(x.shape, shape)


def _beside_selections(N: Namespace, op: Op, values: Values) -> Values:
    """Return ``values``; if the op is a sum of selections and boxes, return them all as selections.

    A box then becomes a selection that leaves out the entries outside of the box. Nothing changes if a term
    is plain: it has a number at every entry.
    """
    kinds = set(map(type, values))
    if (
        Bracket not in kinds
        or kinds == _SELECTIONS
        or tuple(range(len(values))) not in op.groups(len(values))
    ):
        return values
    selections = [N.as_selection(x) for x in values]
    return values if any(map(is_plain, selections)) else selections


_SELECTIONS = {Bracket}


def _on_entries(N: Namespace, op: Op, values: Values, params: Params) -> Value:
    """Result of an op on operands that are in no box; a selection if a selection among them makes it zero."""
    if Bracket in map(type, values):
        under = _under_conditions(N, op, values, params)
        if under is not None:
            return under
    return N.bind(op, [N.select(x) for x in values], params)


def _under_conditions(N: Namespace, op: Op, values: Values, params: Params) -> Value | None:
    """Result of the op on the values of selections, as a selection; None if no operand makes the result zero.

    The result has the conditions of those selections that make it zero. If several operands make it zero only
    together, and their conditions differ, their selections are made first; so are those of all other
    operands.
    """
    count = len(values)
    zeros = {k for k, x in enumerate(values) if type(x) is Bracket or _is_zero(N, x)}
    groups = [group for group in op.groups(count) if zeros.issuperset(group)]
    if op.zero_preserving and len(zeros) == count and not groups:
        groups.append(tuple(range(count)))
    groups = [g for g in dict.fromkeys(groups) if any(type(values[k]) is Bracket for k in g)]
    if not groups:
        return None
    if (choice := _choice(N, op, values)) is not None:
        return choice
    shape = _shape_of(op, values)
    free: set[int] = set()
    terms: list[Bracket] = []
    for group in groups:
        selections = [stretched(N, values[k], shape) for k in group if type(values[k]) is Bracket]
        if all(N.same(selections[0], x) for x in selections[1:]):
            free.update(group)
            terms.append(selections[0])
        else:
            terms.append(_of_any(N, selections))
    is_sum = len(groups[0]) == count
    operands = [x.values if k in free and type(x) is Bracket else N.select(x) for k, x in enumerate(values)]
    out = N.bind(op, operands, params)
    return N.under(out, terms, is_sum and all(x.is_made for x in values if type(x) is Bracket))


def _of_any(N: Namespace, terms: Sequence[Bracket]) -> Bracket:
    """Selection whose condition holds where that of any of ``terms`` holds; only the condition is of use."""
    conditions = [x.without_values() for x in terms]
    condition = N.later(lambda: reduce(N.ops.logical_or, map(N.there, conditions)))
    return Bracket(terms[0].values, condition, is_made=True)


def _shape_of(op: Op, values: Values) -> Shape:
    shapes = {x.shape for x in values if hasattr(x, "shape")}
    return shapes.pop() if len(shapes) == 1 else broadcast_shapes(op.name, *shapes)


def _is_zero(N: Namespace, x: Value) -> bool:
    return not x if type(x) in (int, float) else N.is_zero(x)


def _choice(N: Namespace, op: Op, values: Values) -> Value | None:
    """Plain result of the sum of two selections with opposite conditions, by one `where`; else None."""
    if op.name not in ("add", "add_n") or len(values) != 2 or not all(type(x) is Bracket for x in values):
        return None
    a, b = values
    if a.negated == b.negated or a.shape != b.shape or not N.one_condition(a, b):
        return None
    there, elsewhere = (b, a) if a.negated else (a, b)
    return N.ops.where(there.condition, there.values, elsewhere.values)


def added(N: Namespace, op: Op, values: Values, params: Params, need: Entries = FULL) -> Value:
    """Rule of sums of several terms: the terms are added in the region around them that is read.

    Terms that lie side by side are concatenated instead. The result is NotImplemented if all terms are plain.
    """
    if (total := N.total(values)) is not None:
        return total
    shape = getattr(values[0], "shape", ())
    if any(getattr(x, "shape", None) != shape for x in values):
        return elementwise(N, op, values, params, need)
    bounded = type(need) is Boxed or _any_bounds(N, values)
    if not bounded and len(values) > 1:
        return elementwise(N, op, values, params)
    dtype = N.aval(op, values, params).dtype
    terms = [x for x in values if not N.is_zero(x)]
    need_region = region_read(need, shape)
    regions = [region_of(x).intersect(need_region) for x in terms]
    around = reduce(Region.hull, regions) if terms else need_region
    if not terms or not around.size:
        return N.zero(shape, dtype)
    if around.covers(shape) and len(terms) == len(values) and all(map(is_plain, values)):
        return NotImplemented
    concatenation = _side_by_side(N, terms, regions, around)
    if concatenation is not None:
        return placed(N, shape, around, in_dtype(N, concatenation, dtype))
    parts = _beside_selections(N, TABLE["add_n"], terms)
    inner = [read(N, x, around) for x, region in zip(parts, regions, strict=True) if region.size]
    inner[0] = in_dtype(N, inner[0], dtype, inner[1:])
    return placed(N, shape, around, inner[0] if len(inner) == 1 else _on_entries(N, op, inner, params))


def _side_by_side(N: Namespace, terms: Values, regions: Sequence[Region], around: Region) -> Value | None:
    """Concatenation of the terms, if their regions fill ``around`` without overlap along one axis; else None.

    regions : the region of each term.
    """
    axes = [k for k in range(len(around.start)) if len({(r.start[k], r.stop[k]) for r in regions}) > 1]
    if len(axes) != 1:
        return None
    (axis,) = axes
    order = sorted(range(len(terms)), key=lambda n: regions[n].start[axis])
    stop = around.start[axis]
    for n in order:
        if regions[n].start[axis] != stop:
            return None
        stop = regions[n].stop[axis]
    pieces = [read(N, terms[n], regions[n]) for n in order]
    return end_to_end(N, TABLE["concat"], pieces, {"axis": axis})


__all__ = ["added", "elementwise", "result_region"]
