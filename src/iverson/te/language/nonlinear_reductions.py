"""Reductions other than sums (products and extrema), rewritten into statements that can be differentiated.

B[o] = prod_k b(o, k)   a balanced tree of pairwise products: T0[o, k] = b(o, k) and
                        T1[o, m] = T0[o, 2m] * T0[o, 2m + 1], ..., so that zeros among the factors
                        need no care, to any order, at the cost of one product per factor;
                        a fold of elements of several numbers is such a tree too, one tensor for each number
                        where the axis starts at data, the product stays inside of a value, with the
                        derivative of `iverson.te.derivatives.reduction_derivatives`
B[o] = max_k b(o, k)    B[o] = b(o, arg[o]) with arg[o] the saved position of the first largest
B[f(p)] max= b(p)       B[f(p)] += [first[f(p)] = p] b(p) with first[f(p)] min= p where b(p) = B[f(p)]
B[f(p)] *= b(p)         the points that write an entry are a chain, each with the product so far, and the last
                        one's is the entry: P[p] = P[before[p]] * b(p), B[o] = P[last[o]]. Point by point,
                        before[p] = last[f(p)] and then last[f(p)] max= p; zeros need no care here either
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from iverson.core import dtypes
from iverson.core.errors import ArgumentError, GradientError
from iverson.expr.build import apply, const, index, select
from iverson.expr.function_facts import identity
from iverson.expr.nodes import Expr, Select, same
from iverson.te.ir.evaluation_guards import conjunction, guards_of
from iverson.te.ir.expressions import (
    Fold,
    Read,
    Reduce,
    Reducer,
    Var,
    extent,
    renamed,
    replacing,
    scoped,
    substitute,
    variables,
)
from iverson.te.ir.fresh_names import part
from iverson.te.ir.index_arithmetic import depends_on_data, same_extent
from iverson.te.ir.nested_reductions import position
from iverson.te.ir.nodes import Compute, Domain, Recurrence, Statement
from iverson.te.ir.ragged_axes import FAR, bounds_in, is_ragged
from iverson.te.ir.supports import met

#: Numbers of two elements, combined.
Combine = Callable[[Sequence[Expr], Sequence[Expr]], list[Expr]]
#: What differentiation does where there is no derivative; tests hold it to this.
CONVENTIONS = {
    "max, min": "the derivative belongs to the first of equal values, in the order of the axes' box",
    "max, min of nan": "the derivative belongs to the first nan, and is nan",
    "prod": "exact at zeros, to any order",
    "maximum, minimum, abs, ...": "as in iverson.core.scalars",
    "select": "the derivative is that of the side chosen; the condition is constant",
    "floor, //, integers": "no derivative",
    "complex": "conjugate Wirtinger: g * conj(dy/dx); the real part where x is real",
}


def linear_statements(tensor: Compute) -> tuple[Statement, ...]:
    """Statements with combine "sum" or "assign" that define the same tensor, for differentiation.

    They may read new tensors (the tree of a product, the saved position of a maximum). The result is the same
    at each call, so that the new tensors are shared. It is () for a reduction without derivatives (integers).
    """
    adds = all(s.combine in ("sum", "assign") for s in tensor.statements)
    if adds and (tensor.recurrence is not None or not any(map(_folds, tensor.statements))):
        return tensor.statements
    if tensor.linear is None and adds:
        tensor.linear = tuple(_with_trees(tensor, s) for s in tensor.statements)
    elif tensor.linear is None:
        (statement,) = tensor.statements
        tensor.linear = _rewritten(tensor, statement)
    return tensor.linear


def _folds(s: Statement) -> bool:
    return any(isinstance(e, Fold) for e in scoped([s.body]))


def _rewritten(tensor: Compute, s: Statement) -> tuple[Statement, ...]:
    if tensor.dtype.kind not in "fcV":
        return ()
    if s.combine == "prod":
        return ((_of_product if _is_gather(s) else _of_scattered_product)(tensor, s),)
    return (_of_extremum(tensor, s) if _is_gather(s) else _of_scattered(tensor, s),)


def _is_gather(s: Statement) -> bool:
    """True if the indices that a statement writes are the first axes of its domain, counted from 0."""
    expected_write = tuple(v - v.lo for v in s.domain.axes[: len(s.write)])
    return same(s.write, expected_write)


def _reduced_axes(statement: Statement) -> tuple[list[Var], list[Var]]:
    """Output axes and reduction axes of a statement for which `_is_gather` is True."""
    axes = statement.domain.axes
    count = len(statement.write)
    return list(axes[:count]), list(axes[count:])


def unravelled(place: Expr, axes: Sequence[Var]) -> dict[Expr, Expr]:
    """Value of each axis at position ``place`` in their box, row by row: the inverse of `stages.position`.

    Raises ArgumentError for an extent that is no number.
    """
    result: dict[Expr, Expr] = {}
    stride = 1
    for k, v in reversed(list(enumerate(axes))):
        n = extent(v)
        if not isinstance(n, int) or not isinstance(v.lo, int):
            raise ArgumentError(
                "te.differentiate",
                got=f"a product or extremum over {v.name} of extent {n}",
                expected="constant extents",
                remedy="bind the sizes first: te.bind(tensors, {n: 5})",
            )
        digit = place // stride
        if k:
            digit = digit % n
        result[v] = digit + v.lo
        stride *= n
    return result


def _of_extremum(tensor: Compute, s: Statement) -> Statement:
    """Statement that reads a maximum or minimum at its position, which a new tensor saves."""
    output_axes, reduced = _reduced_axes(s)
    combine = "argmax" if s.combine == "max" else "argmin"
    saved = replace(s, out=None, combine=combine, position=position(reduced))
    arg = Compute(tensor.shape, dtypes.int64, part(tensor, combine), (saved,))
    place: Expr = Read(arg, s.write)
    inside = set(output_axes)
    where = tuple(c for c in s.domain.where if inside.issuperset(variables([c])))
    if len(where) == len(s.domain.where):
        (body,) = substitute([s.body], unravelled(place, reduced))
        body = _marked(body)
    else:  # there may be no point at all, and then the position is -1
        at = unravelled(apply("maximum", place, index(0)), reduced)
        (body,) = substitute([s.body], at)
        body = Select(place >= 0, _marked(body), const(0, body.dtype))
    return Statement(None, s.write, body, Domain(tuple(output_axes), where), "sum")


def at_extremum(node: Reduce, starts: Mapping[Var, Expr]) -> Expr:
    """Term of a maximum or minimum at its position; 0 if there is none.

    starts : the first value of each axis, from which positions count.
    """
    place: Expr = Reduce(f"arg{node.combine}", node.axes, node.body, node.where)
    first = node.axes[0]
    at = unravelled(apply("maximum", place, index(0)), node.axes)
    at[first] = at[first] - first.lo + starts[first]
    (body,) = substitute([node.body], at)
    return select(place >= 0, _marked(body), const(0, body.dtype))


def _marked(body: Expr) -> Expr:
    """Expression with the value of ``body``, whose derivative is nan where that value is nan."""
    return body * select(apply("isnan", body), const(float("nan"), body.dtype), const(1, body.dtype))


def _of_scattered(tensor: Compute, s: Statement) -> Statement:
    """Statement for a scattered extremum: the first point that attains it adds its value, others add 0."""
    place = position(s.domain.axes)
    attains = (s.body == tensor[s.write]) | (s.body != s.body)  # a nan is the extremum wherever it stands
    never = const(identity("min", dtypes.int64), dtypes.int64)
    earliest = Statement(None, s.write, Select(attains, place, never), s.domain, "min")
    first = Compute(tensor.shape, dtypes.int64, part(tensor, "first"), (earliest,))
    body = Select(first[s.write] == place, _marked(s.body), const(0, tensor.dtype))
    return Statement(None, s.write, body, s.domain, "sum")


def _starts_by_data(s: Statement) -> bool:
    """True if the lower bound of a reduction axis depends on data."""
    bounds, _ = bounds_in(s.domain)
    return any(v in bounds and bounds[v].lower is not None for v in _reduced_axes(s)[1])


def _nested(s: Statement) -> Statement:
    """Statement that reads a reduction inside of its value, in place of a reduction."""
    output_axes, reduced = _reduced_axes(s)
    outside = set(output_axes)
    where = tuple(c for c in s.domain.where if outside.issuperset(variables([c])))
    inside = tuple(c for c in s.domain.where if not outside.issuperset(variables([c])))
    body: Expr = renamed(Reduce(s.combine, tuple(reduced), s.body, inside))
    if where:  # an entry without factors is 1
        body, where = select(conjunction(where), body, const(identity(s.combine, body.dtype), body.dtype)), ()
    return Statement(None, s.write, body, Domain(tuple(output_axes), where), "sum")


def _of_product(tensor: Compute, s: Statement) -> Statement:
    """Statement that reads the root of a tree of pairwise products, whose levels are new tensors."""
    if _starts_by_data(s):
        return _nested(s)
    output_axes, reduced = _reduced_axes(s)
    multiplied: Combine = lambda a, b: [apply("multiply", a[0], b[0])]
    reduction = [s.body], [const(1, tensor.dtype)], multiplied
    (product,) = _tree(tensor, "factors", s.write, output_axes, reduced, s.domain.where, *reduction)
    return Statement(None, s.write, product, Domain(tuple(output_axes)), "sum")


def _tree(
    tensor: Compute,
    name: str,
    entry: tuple[Expr, ...],
    output_axes: Sequence[Var],
    reduced: Sequence[Var],
    where: Sequence[Expr],
    element: Sequence[Expr],
    identity: Sequence[Expr],
    combine: Combine,
) -> list[Expr]:
    """Numbers of the combined elements, read from the root of a balanced tree whose levels are new tensors.

    entry : indices of an element's tree, on ``output_axes``.
    reduced, where : the axes over which elements are combined, and the conditions under which one is.
    """
    count = _points(reduced)
    if count == 0:
        return list(identity)
    extents = tuple(map(extent, output_axes))
    m = Var("m", 0, count)
    *numbers, condition = substitute([*element, conjunction(where)], unravelled(m, reduced))
    numbers = [select(condition, x, unit) for x, unit in zip(numbers, identity, strict=True)]
    width = 1
    while True:
        axes = (*output_axes, m)
        level = [
            Compute(
                (*extents, count),
                x.dtype,
                part(tensor, name, None if width == 1 else width),
                [Statement(None, (*entry, m), x, Domain(axes, met((), x, "assign")), "assign")],
            )
            for x in numbers
        ]
        if count == 1:
            return [Read(t, (*entry, index(0))) for t in level]
        half = (count + 1) // 2
        m = Var("m", 0, half)
        first: list[Expr] = [Read(t, (*entry, m * 2)) for t in level]
        second: list[Expr] = [Read(t, (*entry, m * 2 + 1)) for t in level]
        if count % 2:
            second = [select(m < half - 1, x, unit) for x, unit in zip(second, identity, strict=True)]
        numbers, count, width = combine(first, second), half, width * 2


def _with_trees(tensor: Compute, s: Statement) -> Statement:
    """Statement in which each fold over a box is read from a tree of its elements."""
    guards = guards_of(s.body)
    roots: dict[Expr, Expr] = {}
    for e in scoped([s.body]):
        if not isinstance(e, Fold) or e in roots or not _is_boxed(e, s):
            continue
        axes = sorted((v for v in variables([e]) if v.kind != "size"), key=lambda v: v.serial)
        around = [c for c in s.domain.where if set(variables([c])) <= set(axes)]
        where = (*around, *(c for c in guards[e] if set(variables([c])) <= set(axes)), *e.where)
        rule = e.reducer
        combine: Combine = partial(_combined, rule)
        entry = tuple(v - v.lo for v in axes)
        element = e.values, rule.identities, combine
        numbers = _tree(tensor, "elements", entry, axes, e.axes, where, *element)
        roots |= {e.numbered(k): x for k, x in enumerate(numbers)}
    (body,) = substitute([s.body], roots)
    return replace(s, body=body) if roots else s


def _combined(rule: Reducer, a: Sequence[Expr], b: Sequence[Expr]) -> list[Expr]:
    return list(rule.combined(a, b))


def _is_boxed(e: Fold, s: Statement) -> bool:
    """True if a fold is one for each point of a box of a statement's axes, and over a box."""
    free = set(variables([e]))
    bounds, _ = bounds_in(s.domain)
    ranged = [*e.axes, *(v for v in free if v.kind != "size")]
    is_box = all(
        isinstance(v.lo, int) and isinstance(v.hi, int) and v.lo > -FAR and v.hi < FAR for v in ranged
    )
    inside = {v for v in free if v.kind != "size"} <= set(s.domain.axes) - set(bounds)
    apart = all(set(variables([c])) <= free or not set(variables([c])) & free for c in s.domain.where)
    return is_box and inside and apart and not depends_on_data(e.where)


def _of_scattered_product(tensor: Compute, s: Statement) -> Statement:
    """Statement for a scattered product, which reads the last product of a chain for each entry.

    A recurrence computes the chains. It has the axes of `_lanes` as they are, and one axis for all others.
    """
    if is_ragged(s) or tensor.recurrence is not None:
        raise GradientError(
            "te.differentiate",
            tensor.name,
            got="a scatter with combine='prod' "
            + ("of ragged rows" if is_ragged(s) else "inside of te.scan"),
            expected="one over axes that start and end at numbers, outside of te.scan",
            remedy="scatter the row of each entry first, te.scatter(shape, points, lambda i, e: (e, i)), and "
            "the product over entries then"
            if is_ragged(s)
            else "",
        )
    lanes = _lanes(tensor, s)
    points = [v for v in s.domain.axes if v not in lanes]
    count, unit = _points(points), const(1, tensor.dtype)
    axes = tuple(Var(f"i{k}", 0, n) for k, n in enumerate(tensor.shape))
    if count == 0:
        return Statement(None, axes, unit, Domain(axes), "sum")
    t = Var("p", 0, count)
    new = replacing(unravelled(t, points))
    entry_dims = [k for k in range(tensor.ndim) if k not in lanes.values()]
    entry, where = tuple(new(s.write[k]) for k in entry_dims), tuple(map(new, s.domain.where))
    order = Recurrence(t, False)
    before = Compute((count,), dtypes.int64, part(tensor, "before"), (), order)
    last = Compute(tuple(tensor.shape[k] for k in entry_dims), dtypes.int64, part(tensor, "last"), (), order)
    extents = (count, *(tensor.shape[k] for k in lanes.values()))
    product = Compute(extents, tensor.dtype, part(tensor, "products"), (), order)

    def upto(point: Expr, at: Sequence[Expr]) -> Expr:
        """The product of a chain's factors up to a point, or 1 where there is no point."""
        clamped = apply("minimum", apply("maximum", point, index(0)), index(count - 1))
        return select(point >= 0, Read(product, (clamped, *at)), unit)

    at = tuple(s.write[k] for k in lanes.values())
    earlier = upto(Read(before, (t,)), at) if count > 1 else unit
    body = apply("multiply", earlier, new(s.body))
    order.define(
        {
            before: [Statement(None, (t,), Read(last, entry), Domain((t,), where), "assign")],
            last: [Statement(None, entry, t, Domain((t,), where), "max")],
            product: [Statement(None, (t, *at), body, Domain((t, *lanes), where), "assign")],
        },
        totals=(last,),
    )
    result = upto(Read(last, tuple(axes[k] for k in entry_dims)), [axes[k] for k in lanes.values()])
    return Statement(None, axes, result, Domain(axes), "sum")


def _lanes(tensor: Compute, s: Statement) -> dict[Var, int]:
    """Axes that are one write index, over its whole extent, with the number of this index.

    Nothing else in the write or the conditions depends on such an axis.
    """
    lanes: dict[Var, int] = {}
    for v in s.domain.axes:
        at = [k for k, w in enumerate(s.write) if v in variables([w])]
        is_index = len(at) == 1 and same((s.write[at[0]],), (v - v.lo,)) and v.hi is not None
        if is_index and same_extent(extent(v), tensor.shape[at[0]]) and v not in variables(s.domain.where):
            lanes[v] = at[0]
    return lanes


def _points(axes: Sequence[Var]) -> int:
    """Number of points of a box. Raises ArgumentError for extents that are no numbers."""
    unravelled(index(0), axes)
    return prod(n for v in axes if isinstance(n := extent(v), int))
