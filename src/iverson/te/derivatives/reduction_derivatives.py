"""Derivatives of reductions inside of expressions: what moves one is moved at the points of its axes.

    d sum_k b(k)            = sum_k db(k)
    d max_k b(k)            = db(k*), k* the first position of the largest
    d prod_k b(k)           = sum_k (prod_{j != k} b(j)) db(k), the product of the others by division where
                              that is exact enough, and otherwise from all of them, as where factors are 0
    d fold_k x(k)           = sum_k D[(x before k) * x(k) * (x after k)] dx(k), * the reducer

A fold costs the square of its points, therefore; one over a box is a tree instead
(`iverson.te.language.nonlinear_reductions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from iverson.core import dtypes
from iverson.expr.build import apply, cast, const, select
from iverson.expr.nodes import DType, Expr
from iverson.te.derivatives.expression_derivatives import (
    Guarded,
    Leaf,
    cotangents,
    is_inexact,
    leaves_of,
    tangent,
)
from iverson.te.ir.evaluation_guards import Guards, conjunction
from iverson.te.ir.expressions import (
    Fold,
    Placeholder,
    Read,
    Reduce,
    Scoped,
    Tensor,
    Var,
    reads_of,
    renamed,
    substitute,
)
from iverson.te.ir.index_arithmetic import conjuncts, depends_on_data
from iverson.te.ir.nested_reductions import bounds_of
from iverson.te.ir.nodes import Domain
from iverson.te.ir.ragged_axes import Bounds, bounds_in
from iverson.te.language.nonlinear_reductions import at_extremum


@dataclass(frozen=True)
class Term:
    """A part of a reduction's derivative: the sum of ``factor * d body`` over points of ``axes``.

    factor : None for 1.
    """

    axes: tuple[Var, ...]
    where: tuple[Expr, ...]
    body: Expr
    factor: Expr | None = None


def terms_of(node: Scoped) -> list[Term]:
    """Parts of the derivative of a reduction, over axes that no other expression has."""
    if isinstance(node, Reduce) and node.combine in ("max", "min"):
        bounds, _ = bounds_of(node)
        starts = {v: bounds.get(v, Bounds()).within(v)[0] for v in node.axes}
        return [Term((), (), at_extremum(node, starts))]
    point = renamed(node)
    if isinstance(point, Fold):
        assert isinstance(node, Fold)
        pairs = zip(point.values, _partials(node, point), strict=True)
        return [Term(point.axes, point.where, value, by) for value, by in pairs if by is not None]
    factor = _others(node, point) if point.combine == "prod" else None
    return [Term(point.axes, point.where, point.body, factor)]


def tangent_of_leaf(leaf: Leaf, tangents: Mapping[Tensor, Tensor]) -> Expr | None:
    """Tangent of a read or of a reduction, from those of tensors; None if it is 0."""
    if isinstance(leaf, Read):
        return tangents[leaf.tensor][leaf.indices] if leaf.tensor in tangents else None
    if not any(is_inexact(r) and r.tensor in tangents for r in reads_of([leaf])):
        return None
    total: Expr | None = None
    for term in terms_of(leaf):
        pairs = ((x, tangent_of_leaf(x, tangents)) for x in leaves_of(term.body))
        body_tangent = tangent(term.body, {x: t for x, t in pairs if t is not None})
        if body_tangent is None:
            continue
        body_tangent = body_tangent if term.factor is None else body_tangent * term.factor
        if term.axes:
            body_tangent = Reduce("sum", term.axes, cast(body_tangent, leaf.dtype), term.where)
        total = body_tangent if total is None else total + body_tangent
    return total


@dataclass(frozen=True)
class Share:
    """Cotangent of a read where guards hold, at points of further axes that satisfy conditions."""

    entry: Read
    guards: Guards
    value: Expr
    axes: tuple[Var, ...]
    where: tuple[Expr, ...]


def _joined(shares: Guarded) -> Guarded:
    """The same cotangent, with one value for all conditions on data beside the same conditions on indices.

    A reduction is then computed once for all of them.
    ``{c}: v and {d}: w  ->  {c or d}: select(c, v, 0) + select(d, w, 0)``
    """
    by_indices: dict[Guards, list[tuple[Guards, Expr]]] = {}
    for guards, value in shares.items():
        on_data = Guards(c for c in guards if depends_on_data([c]))
        by_indices.setdefault(guards - on_data, []).append((on_data, value))
    result: Guarded = {}
    for plain, parts in by_indices.items():
        conditions = [conjunction(on_data) for on_data, _ in parts]
        anywhere = reduce(lambda a, b: a | b, conditions)
        values = (
            select(c, value, const(0, value.dtype)) for c, (_, value) in zip(conditions, parts, strict=True)
        )
        if len(parts) == 1:
            ((on_data, result[plain | on_data]),) = parts
        else:
            result[plain | Guards(conjuncts(anywhere))] = reduce(lambda a, b: a + b, values)
    return result


def shares_of_reads(body: Expr, g: Expr) -> Iterator[Share]:
    """Cotangents of the reads in ``body``, also of those in reductions, from the cotangent of its value."""
    for leaf, shares in cotangents(body, g).items():
        for guards, value in (shares if isinstance(leaf, Read) else _joined(shares)).items():
            if isinstance(leaf, Read):
                yield Share(leaf, guards, value, (), ())
                continue
            for term in terms_of(leaf):
                inner = value if term.factor is None else value * _conjugate(term.factor)
                where, on_data = _bounds_and_guards(term)
                around = guards | on_data
                for s in shares_of_reads(term.body, inner):
                    axes = (*term.axes, *s.axes)
                    yield Share(s.entry, around | s.guards, s.value, axes, (*where, *s.where))


def _bounds_and_guards(term: Term) -> tuple[tuple[Expr, ...], Guards]:
    """Conditions of a term that a domain may have, and the others, which depend on data."""
    where = [part for c in term.where for part in conjuncts(c)]
    _, conditions = bounds_in(Domain(term.axes, tuple(where)))
    on_data = Guards(c for c in conditions if depends_on_data([c]))
    return tuple(c for c in where if c not in on_data), on_data


def _others(node: Scoped, point: Reduce) -> Expr:
    """Product of all factors but that at a point."""
    other = renamed(node)
    assert isinstance(other, Reduce)
    at_point = conjunction([a == b for a, b in zip(other.axes, point.axes, strict=True)])
    body = select(at_point, const(1, other.dtype), other.body)
    all_others = Reduce("prod", other.axes, body, other.where)
    if point.dtype.kind != "f":
        return all_others
    smallest, largest = _normal(point.dtype)
    size, factor = apply("abs", node), apply("abs", point.body)
    exact = (size >= smallest) & (size <= largest) & (factor >= smallest)
    return select(exact, node / point.body, all_others)


def _normal(dtype: DType) -> tuple[Expr, Expr]:
    """Smallest and largest numbers of full precision."""
    info = dtypes.finfo(dtype)
    return const(float(info.smallest_normal), dtype), const(float(info.max), dtype)


def _partials(node: Fold, point: Fold) -> list[Expr | None]:
    """Derivative of a fold's number in each number of the element at a point; None for 0."""
    middle = [Placeholder((), v.dtype, f"x{k}") for k, v in enumerate(point.values)]
    before, after = (_part(node, point, later=later) for later in (False, True))
    reducer = node.reducer
    total = reducer.combined(reducer.combined(before, [t[()] for t in middle]), after)[node.number]
    shares = cotangents(total, const(1, total.dtype))  # before and after are reductions, and stay
    values = dict[Expr, Expr](zip((t[()] for t in middle), point.values, strict=True))
    result: list[Expr | None] = []
    for t in middle:
        share: Expr | None = None
        for guards, value in shares.get(Read(t, ()), {}).items():
            value = select(conjunction(guards), value, const(0, value.dtype)) if guards else value
            share = value if share is None else share + value
        result.append(None if share is None else _conjugate(substitute([share], values)[0]))
    return result


def _conjugate(e: Expr) -> Expr:
    return apply("conj", e) if e.dtype.kind == "c" else e


def _part(node: Fold, point: Fold, *, later: bool) -> list[Expr]:
    """Numbers of the combined elements before a point, or of those after it."""
    other = renamed(node)
    where = (*other.where, _before(point.axes, other.axes) if later else _before(other.axes, point.axes))
    return [Fold(node.reducer, k, other.axes, other.values, where) for k in range(len(node.values))]


def _before(a: Sequence[Var], b: Sequence[Var]) -> Expr:
    """Condition that a point comes before another one, row by row."""
    (x, *inner), (y, *other) = a, b
    return (x < y) | ((x == y) & _before(inner, other)) if inner else x < y
