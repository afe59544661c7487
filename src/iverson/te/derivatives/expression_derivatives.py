"""Derivatives within one expression: cotangents and tangents of its reads, by the rules of core.scalars.

Guards are kept apart from values: the cotangent that reaches a read is a list of (guards, value). Each pair
becomes a statement whose domain the guards restrict. Complex cotangents are conjugate Wirtinger, as in
PyTorch: g * conj(dy/dx), and the real part where x is real.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iverson.core.scalars import SCALARS, Scalar
from iverson.expr.build import apply, as_expr, cast, const, select
from iverson.expr.nodes import Apply, Cast, Const, DType, Expr, Select, is_number, producers_first
from iverson.te.ir.evaluation_guards import Guards, conjunction
from iverson.te.ir.expressions import Read, Scoped, operands_here
from iverson.te.ir.index_arithmetic import conjuncts, depends_on_data, negation
from iverson.te.ir.scalar_namespace import F

#: Guards under which one node's cotangent is kept apart; beyond that they are merged into Selects.
MAX_GUARDS = 16

Guarded = dict[Guards, Expr]
#: What has a cotangent: reads, and reductions inside of expressions.
Leaf = Read | Scoped


def is_inexact(e: Expr) -> bool:
    """True if an expression can have a cotangent: its dtype is floating or complex."""
    return e.dtype.kind in "fcV"


def cotangents(body: Expr, g: Expr) -> dict[Leaf, Guarded]:
    """Cotangent of each floating read and reduction in ``body``, from the cotangent ``g`` of its value.

    A cotangent is a map from guards (conditions) to values: the sum of each value where its guards hold.
    Reads without a cotangent, and those in reductions, are left out.
    """
    order = producers_first([body], operands_here)
    active: set[Expr] = set()
    for node in order:
        if is_inexact(node) and (
            isinstance(node, (Read, Scoped)) or any(o in active for o in _differentiable_operands(node))
        ):
            active.add(node)
    pending: dict[Expr, Guarded] = {body: {Guards(): cast_cotangent(g, body.dtype)}}
    result: dict[Leaf, Guarded] = {}
    for node in reversed(order):
        cotangent = pending.pop(node, None)
        if not cotangent or node not in active:
            continue
        cotangent = _chosen(cotangent)
        if len(cotangent) > MAX_GUARDS:
            cotangent = _merged(cotangent, node.dtype)
        if isinstance(node, (Read, Scoped)):
            result[node] = cotangent
            continue
        for guards, value in cotangent.items():
            for operand, extra, share in _shares(node, value):
                if operand in active:
                    _accumulate(pending.setdefault(operand, {}), guards | extra, share)
    return result


def leaves_of(body: Expr) -> list[Leaf]:
    """Floating reads and reductions in ``body``, without those in reductions."""
    order = producers_first([body], operands_here)
    return [e for e in order if isinstance(e, (Read, Scoped)) and is_inexact(e)]


def _differentiable_operands(node: Expr) -> tuple[Expr, ...]:
    if isinstance(node, Select):
        return node.then, node.other
    return node.operands


def _accumulate(into: Guarded, guards: Guards, value: Expr) -> None:
    into[guards] = into[guards] + value if guards in into else value


def _chosen(cotangent: Guarded) -> Guarded:
    """The same cotangent, in which values under opposite conditions on data are merged into a select.

    ``{c, d}: v and {not c, d}: w  ->  {d}: select(c, v, w)``: otherwise n consecutive choices on data give
    2 ** n values. Guards on indices are not merged, as they exclude points.
    """
    pending = list(cotangent.items())
    result: Guarded = {}
    while pending:
        guards, value = pending.pop(0)
        for other_guards, other in result.items():
            condition = _opposite(guards - other_guards, other_guards - guards)
            if condition is not None:
                del result[other_guards]
                pending.append((guards & other_guards, select(condition, value, other)))
                break
        else:
            _accumulate(result, guards, value)
    return result


def _opposite(a: Guards, b: Guards) -> Expr | None:
    """Condition on data that holds under guards ``a`` and fails under guards ``b``; None if there is none."""
    for single, opposites in ((a, b), (b, a)):
        if len(single) == 1 and opposites and all(depends_on_data([c]) for c in (*single, *opposites)):
            (c,) = single
            if opposites == Guards(conjuncts(negation(c))):
                return c if single is a else negation(c)
    return None


def _merged(cotangent: Guarded, dtype: DType) -> Guarded:
    total: Expr = const(0, dtype)
    for guards, value in cotangent.items():
        total = total + select(conjunction(guards), value, const(0, dtype))
    return {Guards(): total}


def _shares(node: Expr, g: Expr) -> list[tuple[Expr, Guards, Expr]]:
    """Contributions of a node's cotangent ``g`` to its operands: (operand, additional guards, value)."""
    if isinstance(node, Select):
        c = node.condition
        return [
            (node.then, Guards(conjuncts(c)), g),
            (node.other, Guards(conjuncts(negation(c))), g),
        ]
    if isinstance(node, Cast):
        return [(node.operand, Guards(), cast_cotangent(g, node.operand.dtype))]
    assert isinstance(node, Apply)
    shares = []
    for k, operand in enumerate(node.args):
        carries = is_inexact(operand) and not isinstance(operand, Const)
        share = _share(SCALARS[node.name], k, node, g) if carries else None
        if share is not None and not is_number(share, 0):
            shares.append((operand, Guards(), cast_cotangent(share, operand.dtype)))
    return shares


def _share(scalar: Scalar, k: int, node: Apply, g: Expr) -> Expr | None:
    if scalar.vjp:
        share = scalar.vjp[k](F, g, node, *_arguments(node))
        return None if share is None else as_expr(share)
    d = _partial(scalar, k, node)
    if d is None:
        return None
    if as_expr(d).dtype.kind == "c":
        d = apply("conj", d)
    return apply("multiply", g, d)


def _partial(scalar: Scalar, k: int, node: Apply) -> Any:
    rule = scalar.d[k] if k < len(scalar.d) else None
    return None if rule is None else rule(F, node, *_arguments(node))


def _arguments(node: Apply) -> list[Any]:
    # Rules simplify for Python numbers (the exponent of pow).
    return [a.value if isinstance(a, Const) else a for a in node.args]


def cast_cotangent(g: Expr, dtype: DType) -> Expr:
    """Cotangent ``g`` cast to ``dtype``, that of its primal value; its real part, if only g is complex."""
    if g.dtype.kind == "c" and dtype.kind != "c":
        g = apply("real", g)
    return cast(g, dtype)


def tangent(body: Expr, tangents: Mapping[Expr, Expr]) -> Expr | None:
    """Tangent of ``body``, from the tangents of reads and reductions in it; None if it is 0.

    tangents : by read or reduction; all others have the tangent 0.
    """
    tangent_of: dict[Expr, Expr] = {}
    for node in producers_first([body], operands_here):
        if not is_inexact(node):
            continue
        value: Expr | None = None
        if node in tangents:
            value = tangents[node]
        elif isinstance(node, Select):
            then, other = tangent_of.get(node.then), tangent_of.get(node.other)
            if then is not None or other is not None:
                zero = const(0, node.dtype)
                value = select(node.condition, *(zero if t is None else t for t in (then, other)))
        elif isinstance(node, Cast):
            value = tangent_of.get(node.operand)
        elif isinstance(node, Apply):
            for k, operand in enumerate(node.args):
                t = tangent_of.get(operand)
                share = None if t is None else pushed(SCALARS[node.name], k, node, t)
                if share is not None:
                    value = share if value is None else value + share
        if value is not None and not is_number(value, 0):
            tangent_of[node] = cast_cotangent(value, node.dtype)
    return tangent_of.get(body)


def pushed(scalar: Scalar, k: int, node: Apply, t: Expr) -> Expr | None:
    """The part of the tangent of a function's result that is that of operand k; None for zero."""
    if scalar.jvp:
        share = scalar.jvp[k](F, t, node, *_arguments(node))
        return None if share is None else as_expr(share)
    if not scalar.d and scalar.linear_in:
        return apply(node.name, t)
    d = _partial(scalar, k, node)
    return None if d is None else apply("multiply", t, d)
