"""Stages: each reduction inside a definition's body becomes a statement of its own.

    B[i] = 1 + sum_k(A[i, k])   ->   B.1[i] += A[i, k];  B[i] = 1 + B.1[i]

A reduction for each point of axes of which one bounds another stays in the body (`iverson.te.ir.nodes`): as a
tensor it would be a box of which few entries are needed. A fold stays too, as its numbers are found together.

Guards that hold wherever a reduction's value is used go into its stage, so that it reads no more
than the definition does; a guard on a sum's terms becomes part of the domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iverson.core import dtypes
from iverson.core.errors import ArgumentError
from iverson.expr.build import const, is_guarded, select, simplified_with
from iverson.expr.function_facts import identity
from iverson.expr.nodes import Expr, Select, postorder
from iverson.te.ir.evaluation_guards import conjunction, guards_of
from iverson.te.ir.expressions import Fold, Reduce, Scoped, Var, extent, reads_of, renamed, scoped, variables
from iverson.te.ir.index_arithmetic import conjuncts, constraints_of, depends_on_data
from iverson.te.ir.nested_reductions import position
from iverson.te.ir.nodes import Compute, Domain, Statement
from iverson.te.ir.ragged_axes import FAR, bounds_in
from iverson.te.ir.supports import met, strong
from iverson.te.ir.verify import check_definition


def define(body: Expr, axes: Sequence[Var], name: str, operation: str) -> Compute:
    """Compute over ``axes`` (from 0) whose entries are ``body``; reductions inside are tensors of their own.

    operation : the name of the operation, for errors.
    """
    check_scope([body], axes, operation)
    return _compute(staged(body, name, operation, whole=True), axes, name, [], operation)


def staged(body: Expr, name: str, operation: str, where: Sequence[Expr] = (), *, whole: bool = False) -> Expr:
    """Expression in which each reduction for the points of a box is a read of a new tensor.

    name : new tensors are named ``name.1``, ``name.2`` and so on.
    where : conditions of the domain in which the expression is evaluated.
    whole : True to keep a reduction that is the whole expression.
    """
    guards = guards_of(body)
    reductions = scoped([body])
    conditions = [c for n in reductions for c in n.where] + list(where)
    results: dict[Expr, Expr] = {}
    count = 0
    for node in postorder([body]):
        results[node] = simplified_with(node, [results[o] for o in node.operands])
        if isinstance(node, Scoped) and not (whole and node is body):
            free = [v for v in variables([node]) if v.kind != "size"]
            stage_axes = sorted(free, key=lambda v: (v.kind == "reduce", v.serial))
            inner = results[node]
            assert isinstance(inner, Scoped)
            if isinstance(node, Fold) or not _is_box(stage_axes, conditions):
                results[node] = renamed(_nested(inner))
                continue
            outer = [g for g in guards[node] if set(variables([g])) <= set(free)]
            outer = [g for g in outer if not scoped([g])]
            count += 1
            stage = _compute(inner, stage_axes, f"{name}.{count}", outer, operation)
            results[node] = stage[tuple(v - v.lo for v in stage_axes)]
    return results[body]


def _is_box(axes: Sequence[Var], conditions: Sequence[Expr]) -> bool:
    """True if a tensor with these axes has an entry for each point at which it is needed, and hardly more.

    conditions : the bounds of ragged axes.
    """
    for condition in conditions:
        tied = [v for v in variables([condition]) if v in axes]
        ragged = depends_on_data([condition]) and len(tied) > 1
        if ragged or any(v.lo == -FAR or v.hi == FAR for v in tied):
            return False
    return True


def _nested(node: Scoped) -> Scoped:
    """A reduction that stays in an expression, over the points at which its terms are not zero."""
    if isinstance(node, Fold) or node.combine != "sum":
        return node
    extra, body = split_guard(node.body)
    return Reduce(node.combine, node.axes, body, met((*node.where, *extra), body, node.combine))


def _compute(body: Expr, axes: Sequence[Var], name: str, guards: Sequence[Expr], operation: str) -> Compute:
    statement = _statement(body, tuple(axes), guards, operation)
    shape = tuple(extent(v) for v in axes)
    dtype = dtypes.int64 if statement.position is not None else statement.body.dtype
    tensor = Compute(shape, dtype, name, (statement,))
    check_definition(tensor.statements[0], operation)
    return tensor


def _position_from(
    axes: tuple[Var, ...], reduced: tuple[Var, ...], conditions: tuple[Expr, ...], operation: str
) -> Expr:
    """Position of a point in the box of the reduced axes, counted from the start of a ragged axis.

    axes, conditions : the other axes, and the conditions of the domain.
    """
    bounds, _ = bounds_in(Domain((*axes, *reduced), conditions))
    first = reduced[0]
    if any(v in bounds for v in reduced[1:]):
        raise ArgumentError(
            operation,
            "axis",
            got=f"a position along {', '.join(v.name for v in reduced)}, of which a later one is ragged",
            expected="the ragged axis first, or alone",
        )
    if first not in bounds:
        return position(reduced)
    return position(reduced, bounds[first].within(first)[0])


def _statement(body: Expr, axes: tuple[Var, ...], guards: Sequence[Expr], operation: str) -> Statement:
    """Statement that assigns ``body`` to the entries on ``axes``, or combines it, if it is a reduction.

    guards : conditions under which the value is needed.
    """
    combine, inside = "assign", body
    reduced: tuple[Var, ...] = ()
    conditions: tuple[Expr, ...] = ()
    place: Expr | None = None
    if isinstance(body, Reduce):
        combine, inside, reduced, conditions = body.combine, body.body, body.axes, body.where
        if combine.startswith("arg"):
            place = _position_from(axes, reduced, conditions, operation)
    plain = [g for g in guards if not depends_on_data([g])]
    on_data = [g for g in guards if depends_on_data([g])]
    if on_data:
        neutral = const(identity(combine.removeprefix("arg"), inside.dtype), inside.dtype)
        inside = Select(conjunction(on_data), inside, neutral)
    where = (*plain, *conditions)
    if combine == "sum" or (combine == "assign" and not plain):
        extra, inside = split_guard(inside)
        where += extra
    inside = strong(inside)
    where = met(where, inside, combine)
    write = tuple(v - v.lo for v in axes)
    return Statement(None, write, inside, Domain((*axes, *reduced), where), combine, place)


def _on_indices(condition: Expr) -> bool:
    """True if a condition is a conjunction of constraints on indices and reads no data."""
    return not depends_on_data([condition]) and constraints_of(condition) is not None


def split_guard(body: Expr, takes: Callable[[Expr], bool] = _on_indices) -> tuple[tuple[Expr, ...], Expr]:
    """Conditions on indices outside of which ``body`` is 0, and its value where they hold.

    takes : chooses the conditions that are split off.

    before -> after: ``select(i < 3 and idx[i] > 0, x, 0) -> (i < 3,), select(idx[i] > 0, x, 0)``.
    """
    if not is_guarded(body):
        return (), body
    assert isinstance(body, Select)
    parts = conjuncts(body.condition)
    plain = tuple(p for p in parts if takes(p))
    remaining = [p for p in parts if not takes(p)]
    inner = select(conjunction(remaining), body.then, body.other) if remaining else body.then
    return plain, inner


def check_scope(roots: Sequence[Expr], axes: Sequence[Var], operation: str) -> None:
    """Raise ArgumentError for an index used outside of the definition or reduction to which it belongs."""
    inside = set(axes)
    for root in roots:
        for v in variables([root]):
            if v.kind == "size" or v in inside:
                continue
            reads = [r for r in reads_of([root]) if v in variables([r])]
            where = f" (in {reads[0]!r})" if reads else ""
            if v.kind == "reduce":
                raise ArgumentError(
                    operation,
                    got=f"reduction axis {v.name} outside a reduction over it{where}",
                    expected="it inside te.sum(..., axis) or another reduction over it",
                )
            raise ArgumentError(
                operation,
                got=f"index {v.name} of another definition{where}",
                expected=f"indices {[a.name for a in axes]}",
            )
