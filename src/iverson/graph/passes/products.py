"""Matrix products of selections: their zeros stay strong across the contracted axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, bind, value_of
from iverson.core.op import Op
from iverson.core.table import F
from iverson.graph.ir.nodes import Equation, Graph, values_of
from iverson.graph.ir.operations import mended
from iverson.graph.ir.regions import closed, opened, rewritten
from iverson.graph.tracing.trace import Trace, trace_flat
from iverson.kernels.partial.partial_values import Namespace, Params, Value
from iverson.layouts import Bracket


def without_absent_terms(
    N: Namespace, op: Op, a: Value, b: Value, params: Params
) -> tuple[Value, bool | None]:
    """The product of the selected factors, with a branch that repairs it if it is not finite.

    Also returns True if the product is zero where it has no terms, and False if whole rows of ``a`` or
    columns of ``b`` are left out: then they are left out of the product, too, and are not tested.
    """
    lhs, rhs = N.select(a), N.select(b)
    out = N.bind(op, (lhs, rhs), params)
    present = [_varying(N, x, axis) for x, axis in ((a, -1), (b, -2))]
    if any(there is not None for there in present):
        out = _mended(out, lhs, rhs, present)
    pairs = zip((a, b), present, strict=True)
    return out, not any(type(x) is Bracket and there is None for x, there in pairs)


def _mended(out: Handle, a: Handle, b: Handle, masks: Sequence[Handle | None]) -> Any:
    """The product ``out`` by the op `mended`: it is computed again by terms if a test finds an inf or nan.

    The test is on the smallest of ``out`` and the factors without a mask.

    masks : of a and of b, where they are held; None if that is everywhere. The second computation makes masks
        again from what their conditions compare.
    """
    level: Any = value_of(out)._level
    with level.region() as equations:
        product = level.operand(_by_terms(a, b, masks))
    replacements: dict[Any, Any] = {}
    before = opened(Graph((), tuple(_conditions(equations, level.equations)), (), ()), (), replacements)
    body = [rewritten(e, replacements) for e in equations]
    retry = closed([*before, *body], [product], level.constants)
    across = [x for x, k in ((a, masks[0]), (b, masks[1])) if k is None]
    looked_at = min([out, *across], key=lambda x: prod(x.shape))
    looked_at = _unmoved(level, looked_at)
    finite, _, _ = trace_flat(_is_finite, [Aval(looked_at.shape, looked_at.dtype)], "is_finite")
    operands = (out, looked_at, *map(level.handle, retry.inputs))
    return bind(mended, operands, {"finite": finite, "again": retry})


def _by_terms(a: Handle, b: Handle, there: Sequence[Handle | None]) -> Any:
    """The product as a sum of the terms whose factors are both held.

    there : the masks of ``a`` and ``b``; None if all is held.
    """
    of_a, of_b = (
        None if x is None else F.expand_dims(x, axis=(axis,))
        for x, axis in zip(there, (len(a.shape), len(b.shape) - 2), strict=True)
    )
    terms = F.multiply(F.expand_dims(a, axis=(a.ndim,)), F.expand_dims(b, axis=(b.ndim - 2,)))
    mask = of_b if of_a is None else of_a if of_b is None else F.logical_and(of_a, of_b)
    return F.sum(F.where(mask, terms, 0), axis=(terms.ndim - 2,), keepdims=False)


def _unmoved(level: Trace, x: Handle) -> Any:
    """Value with the same entries before they were transposed or reshaped: testing it copies nothing."""
    value = level.operand(x)
    for e in reversed(level.equations):
        if value in e.results and e.op.name in ("permute_dims", "reshape"):
            value = e.operands[0]
    return level.handle(value)


def _is_finite(x: Handle) -> tuple[list[Any], None]:
    return [F.isfinite(F.sum(x, axis=tuple(range(len(x.shape))), keepdims=False))], None


def _conditions(equations: Sequence[Equation], before: Sequence[Equation]) -> list[Equation]:
    """Equations of ``before`` that compute the conditions which ``equations`` read.

    A condition on lines is read as it is: it is small, and what its entries compare would live on for it.
    """
    reads = {x for e in equations for x in values_of(e.operands)}
    conditions = []
    for e in reversed(before):
        if not reads.isdisjoint(e.results) and e.results[0].dtype == bool and e.op.name not in ("any", "all"):
            conditions.append(e)
            reads.update(values_of(e.operands))
    return conditions[::-1]


def _varying(N: Namespace, x: Value, axis: int) -> Value | None:
    """Mask of a selected factor; None for one without a mask, or if it is constant along the axis."""
    return N.there(x) if type(x) is Bracket and N.varies(x.condition, axis) else None


__all__ = ["without_absent_terms"]
