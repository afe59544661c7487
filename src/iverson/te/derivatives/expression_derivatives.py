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
from iverson.expr.nodes import Apply, Cast, Const, DType, Expr, Select, is_number, postorder
from iverson.te.ir.evaluation_guards import Guards, conjunction
from iverson.te.ir.expressions import Read
from iverson.te.ir.index_arithmetic import conjuncts, depends_on_data, negation
from iverson.te.ir.scalar_namespace import F

#: Guards under which one node's cotangent is kept apart; beyond that they are merged into Selects.
MAX_GUARDS = 16

Guarded = dict[Guards, Expr]


def is_inexact(e: Expr) -> bool:
    """Whether an expression can carry a cotangent."""
    return e.dtype.kind in "fcV"


def cotangents(body: Expr, g: Expr) -> dict[Read, Guarded]:
    """The cotangent of every floating read in ``body``, given the cotangent ``g`` of its value.

    The cotangent of a read is the sum over its guards of the value where the guards hold.
    """
    order = postorder([body])
    active: set[Expr] = set()
    for node in order:
        if is_inexact(node) and (
            isinstance(node, Read) or any(o in active for o in _differentiable_operands(node))
        ):
            active.add(node)
    pending: dict[Expr, Guarded] = {body: {Guards(): cast_cotangent(g, body.dtype)}}
    result: dict[Read, Guarded] = {}
    for node in reversed(order):
        found = pending.pop(node, None)
        if not found or node not in active:
            continue
        found = _chosen(found)
        if len(found) > MAX_GUARDS:
            found = _merged(found, node.dtype)
        if isinstance(node, Read):
            result[node] = found
            continue
        for guards, value in found.items():
            for operand, extra, share in _shares(node, value):
                if operand in active:
                    _accumulate(pending.setdefault(operand, {}), guards | extra, share)
    return result


def _differentiable_operands(node: Expr) -> tuple[Expr, ...]:
    if isinstance(node, Select):
        return node.then, node.other
    return node.operands


def _accumulate(into: Guarded, guards: Guards, value: Expr) -> None:
    into[guards] = into[guards] + value if guards in into else value


def _chosen(found: Guarded) -> Guarded:
    """With what comes where data decide one way and what comes where they decide the other as one choice.

    ``{c, d}: v and {not c, d}: w  ->  {d}: select(c, v, w)``: else what reaches a node through n choices on
    data, one after another, is 2 ** n values. Guards on indices stay apart, as they leave out points.
    """
    left = list(found.items())
    made: Guarded = {}
    while left:
        guards, value = left.pop(0)
        for others, other in made.items():
            held = _opposite(guards - others, others - guards)
            if held is not None:
                del made[others]
                left.append((guards & others, select(held, value, other)))
                break
        else:
            _accumulate(made, guards, value)
    return made


def _opposite(a: Guards, b: Guards) -> Expr | None:
    """The condition that holds where ``a`` do and not where ``b`` do, if one of them always does, by data."""
    for one, others in ((a, b), (b, a)):
        if len(one) == 1 and others and all(depends_on_data([c]) for c in (*one, *others)):
            (c,) = one
            if others == Guards(conjuncts(negation(c))):
                return c if one is a else negation(c)
    return None


def _merged(found: Guarded, dtype: DType) -> Guarded:
    total: Expr = const(0, dtype)
    for guards, value in found.items():
        total = total + select(conjunction(guards), value, const(0, dtype))
    return {Guards(): total}


def _shares(node: Expr, g: Expr) -> list[tuple[Expr, Guards, Expr]]:
    """What each operand of a node gets of its cotangent: (operand, extra guards, value)."""
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
    """A cotangent in the dtype of what it belongs to: the real part where that is real."""
    if g.dtype.kind == "c" and dtype.kind != "c":
        g = apply("real", g)
    return cast(g, dtype)


def tangent(body: Expr, tangents: Mapping[Expr, Expr]) -> Expr | None:
    """The tangent of ``body`` given tangents of some of its reads; None where it is 0."""
    made: dict[Expr, Expr] = {}
    for node in postorder([body]):
        if not is_inexact(node):
            continue
        found: Expr | None = None
        if node in tangents:
            found = tangents[node]
        elif isinstance(node, Select):
            then, other = made.get(node.then), made.get(node.other)
            if then is not None or other is not None:
                zero = const(0, node.dtype)
                found = select(node.condition, *(zero if t is None else t for t in (then, other)))
        elif isinstance(node, Cast):
            found = made.get(node.operand)
        elif isinstance(node, Apply):
            for k, operand in enumerate(node.args):
                t = made.get(operand)
                share = None if t is None else _push(SCALARS[node.name], k, node, t)
                if share is not None:
                    found = share if found is None else found + share
        if found is not None and not is_number(found, 0):
            made[node] = cast_cotangent(found, node.dtype)
    return made.get(body)


def _push(scalar: Scalar, k: int, node: Apply, t: Expr) -> Expr | None:
    if scalar.jvp:
        share = scalar.jvp[k](F, t, node, *_arguments(node))
        return None if share is None else as_expr(share)
    if not scalar.d and scalar.linear_in:
        return apply(node.name, t)
    d = _partial(scalar, k, node)
    return None if d is None else apply("multiply", t, d)
