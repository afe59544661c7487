"""Matrix products of partial values: rows and columns of the regions, and zeros that stay strong across the
contracted axis."""

from __future__ import annotations

from functools import reduce

from iverson.core.entries import FULL, Entries
from iverson.core.entries import Box as Boxed
from iverson.core.op import Op
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.kernels.partial.partial_values import (
    Namespace,
    Params,
    Value,
    Values,
    everything,
    is_partial,
    placed,
    read,
    region_of,
    region_read,
)
from iverson.layouts import Bracket


def product(N: Namespace, op: Op, values: Values, params: Params, need: Entries = FULL) -> Value:
    """Rule of matrix products: only rows and columns in which both factors may be nonzero are multiplied.

    The result is NotImplemented if no factor is a box or a selection and the whole product is read.
    """
    a, b = values
    bounded = type(need) is Boxed or is_partial(a) or is_partial(b)
    if not bounded or not N.is_carried(a) or not N.is_carried(b):
        if Bracket not in (type(a), type(b)):
            return NotImplemented
        a, b = (everything(N, x) if type(x) is Bracket else x for x in values)
        return _multiplied(N, op, a, b, params)
    out = N.aval(op, values, params)
    need_region = region_read(need, out.shape)
    region, of_a, of_b = factors(region_of(a), region_of(b), (a.shape, b.shape), out.shape, need_region)
    if not region.size or not of_a.size:
        return N.zero(out.shape, out.dtype)
    inner = _multiplied(N, op, read(N, a, of_a), read(N, b, of_b), params)
    return placed(N, out.shape, region, inner)


def _multiplied(N: Namespace, op: Op, a: Value, b: Value, params: Params) -> Value:
    """Product of factors in no box; for a selection, a selection that leaves out entries without a term."""
    if type(a) is not Bracket and type(b) is not Bracket:
        return N.bind(op, (a, b), params)
    out, is_made = N.product(op, a, b, params)
    if is_made is None:
        return out
    operands = [x.without_values() if type(x) is Bracket else x for x in (a, b)]
    return Bracket(out, N.later(lambda: _with_terms(N, operands[0], operands[1], out.shape)), is_made=is_made)


def _with_terms(N: Namespace, a: Value, b: Value, shape: Shape) -> Value:
    """Mask of the entries of ``a @ b`` that have a term: a pair of factors of which none is left out.

    shape : of the product.
    """
    pairs = [(x, N.there(x), axis) for x, axis in ((a, -1), (b, -2)) if type(x) is Bracket]
    if len(pairs) == 2 and all(N.varies(there, axis) for _, there, axis in pairs):
        return N.meets(N.everywhere(a), N.everywhere(b))
    lines = []
    for _, there, axis in pairs:
        if N.varies(there, axis):
            there = N.ops.any(there, axis=(there.ndim + axis,), keepdims=True)
        else:
            there = N.once(there, axis)
        lines.append(N.fitted(there, shape))
    return reduce(N.ops.logical_and, lines)


def sampled(N: Namespace, op: Op, values: Values, params: Params, _need: Entries = FULL) -> Value:
    """Rule of `sampled_product`, entries of a matrix product, for factors that are selections.

    An entry is left out if a selection leaves out the whole row, or column, from which the entry is computed.
    """
    pair, at = values[:2], values[2:]
    if Bracket not in map(type, pair) or any(len(x.shape) != 2 for x in pair):
        return NotImplemented
    out = N.bind(op, [N.select(x) for x in values], params)
    selections = {k: x.without_values() for k, x in enumerate(pair) if type(x) is Bracket}

    def there() -> Value:
        lines = []
        for k, x in selections.items():
            line = N.ops.any(N.everywhere(everything(N, x)), axis=(1 - k,), keepdims=False)
            lines.append(N.ops.gather(line, at[k] if at else N.along(params["pattern"], k), axes=(0,)))
        return N.ops.reshape(reduce(N.ops.logical_and, lines), shape=out.shape)

    return Bracket(out, N.later(there), is_made=True)


def factors(
    of_a: Region, of_b: Region, shapes: tuple[Shape, Shape], out: Shape, wanted: Region
) -> tuple[Region, Region, Region]:
    """Region of the product of two boxes, and the regions of both factors that are multiplied for it.

    The first is the part of ``wanted`` in which the product may be nonzero.

    of_a, of_b : the regions in which the factors may be nonzero.
    shapes : of the factors.
    out : the shape of the product.
    """
    inner = max(of_a.start[-1], of_b.start[-2]), min(of_a.stop[-1], of_b.stop[-2])
    rows = max(of_a.start[-2], wanted.start[-2]), min(of_a.stop[-2], wanted.stop[-2])
    columns = max(of_b.start[-1], wanted.start[-1]), min(of_b.stop[-1], wanted.stop[-1])
    batch = Region(wanted.start[:-2], wanted.stop[:-2])
    for region, shape in zip((of_a, of_b), shapes, strict=True):
        lead = Region(region.start[:-2], region.stop[:-2])
        batch = batch.intersect(lead.broadcast(shape[:-2], out[:-2]))

    def matrices(lead: Region, first: tuple[int, int], second: tuple[int, int]) -> Region:
        pairs = (first, second)
        return Region((*lead.start, *(p[0] for p in pairs)), (*lead.stop, *(p[1] for p in pairs)))

    part_a, part_b = (batch.projected(shape[:-2]) for shape in shapes)
    return matrices(batch, rows, columns), matrices(part_a, rows, inner), matrices(part_b, inner, columns)


__all__ = ["factors", "product", "sampled"]
