"""From a definition's body to statements: each reduction inside becomes a stage of its own.

    B[i] = 1 + sum_k(A[i, k])   ->   B.1[i] += A[i, k];  B[i] = 1 + B.1[i]

Guards that hold wherever a reduction's value is used go into its stage, so that it reads no more
than the definition does; a guard on a sum's terms becomes part of the domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iverson.core import dtypes
from iverson.core.errors import ArgumentError
from iverson.expr.build import const, index, is_guarded, select, simplified_with
from iverson.expr.functions import identity
from iverson.expr.nodes import Expr, Select, postorder
from iverson.te.affine import conjuncts, constraints_of, depends_on_data
from iverson.te.expressions import Reduce, Var, extent, reads_of, variables
from iverson.te.nodes import Compute, Domain, Statement
from iverson.te.verify import check_definition
from iverson.te.where import conjunction, guards_of


def define(body: Expr, axes: Sequence[Var], name: str, operation: str) -> Compute:
    """The Compute over ``axes`` (from 0) whose entries are ``body``, with stages for reductions."""
    check_scope([body], axes, operation)
    guards = guards_of(body)
    stages: dict[Expr, Expr] = {}
    made: dict[Expr, Expr] = {}
    for node in postorder([body]):
        made[node] = simplified_with(node, [made[o] for o in node.operands])
        if isinstance(node, Reduce) and node is not body:
            free = [v for v in _free(node) if v.kind != "size"]
            stage_axes = sorted(free, key=lambda v: (v.kind == "reduce", v.serial))
            inner = made[node]
            assert isinstance(inner, Reduce)
            outer = [g for g in guards[node] if set(variables([g])) <= set(free)]
            outer = [g for g in outer if not any(isinstance(n, Reduce) for n in postorder([g]))]
            stage = _compute(inner, stage_axes, f"{name}.{len(stages) + 1}", outer, operation)
            made[node] = stages[node] = stage[tuple(v - v.lo for v in stage_axes)]
    return _compute(made[body], axes, name, [], operation)


def _compute(body: Expr, axes: Sequence[Var], name: str, guards: Sequence[Expr], operation: str) -> Compute:
    statement = _statement(body, tuple(axes), guards)
    shape = tuple(extent(v) for v in axes)
    dtype = dtypes.int64 if statement.position is not None else statement.body.dtype
    made = Compute(shape, dtype, name, (statement,))
    check_definition(made.statements[0], operation)
    return made


def _statement(body: Expr, axes: tuple[Var, ...], guards: Sequence[Expr]) -> Statement:
    combine, inside = "assign", body
    reduced: tuple[Var, ...] = ()
    place: Expr | None = None
    if isinstance(body, Reduce):
        combine, inside, reduced = body.combine, body.body, body.axes
        if combine.startswith("arg"):
            place = position(reduced)
    plain = [g for g in guards if not depends_on_data([g])]
    on_data = [g for g in guards if depends_on_data([g])]
    if on_data:
        neutral = const(identity(combine.removeprefix("arg"), inside.dtype), inside.dtype)
        inside = Select(conjunction(on_data), inside, neutral)
    where = tuple(plain)
    if combine == "sum" or (combine == "assign" and not plain):
        extra, inside = split_guard(inside)
        where += extra
    write = tuple(v - v.lo for v in axes)
    return Statement(None, write, inside, Domain((*axes, *reduced), where), combine, place)


def split_guard(
    body: Expr, takes: Callable[[Expr], bool] = lambda p: constraints_of(p) is not None
) -> tuple[tuple[Expr, ...], Expr]:
    """The index conditions (or others, by ``takes``) under which ``body`` is not 0, and what it is there.

    before -> after: ``select(i < 3 and idx[i] > 0, x, 0) -> (i < 3,), select(idx[i] > 0, x, 0)``.
    """
    if not is_guarded(body):
        return (), body
    assert isinstance(body, Select)
    parts = conjuncts(body.condition)
    plain = tuple(p for p in parts if takes(p))
    rest = [p for p in parts if not takes(p)]
    inner = select(conjunction(rest), body.then, body.other) if rest else body.then
    return plain, inner


def position(axes: Sequence[Var]) -> Expr:
    """The place of a point in the box of ``axes``, row by row, from 0."""
    result: Expr = index(0)
    for v in axes:
        result = result * extent(v) + (v - v.lo)
    return result


def _free(node: Reduce) -> list[Var]:
    free: dict[Expr, dict[Var, None]] = {}
    for n in postorder([node]):
        below: dict[Var, None] = {}
        for o in n.operands:
            below |= free[o]
        if isinstance(n, Var):
            below[n] = None
        if isinstance(n, Reduce):
            for v in n.axes:
                below.pop(v, None)
        free[n] = below
    return list(free[node])


def check_scope(roots: Sequence[Expr], axes: Sequence[Var], operation: str) -> None:
    """Raises ArgumentError for an index used outside the definition or reduction it belongs to."""
    inside = set(axes)
    for root in roots:
        free = _free(root) if isinstance(root, Reduce) else _free_of(root)
        for v in free:
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


def _free_of(root: Expr) -> list[Var]:
    return _free(Reduce("sum", (), root))
