"""Verifier of the statement IR: `check` raises where a statement or a program is not well formed.

Every pass can assert its output with it. The checks of a user's definition are here too: reads and writes
inside their tensors, variables inside their scope, constant strides.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from iverson.core.errors import ArgumentError, IndexingError
from iverson.expr.affine import Affine, make
from iverson.expr.build import as_expr
from iverson.expr.nodes import Apply, Cast, Const, Expr, Select, postorder
from iverson.expr.print import text
from iverson.te.ir.evaluation_guards import Guards, statement_guards
from iverson.te.ir.expressions import Extent, Fold, Read, Reduce, Tensor, Var, variables
from iverson.te.ir.index_arithmetic import (
    Constraint,
    affine_of,
    bounds_under,
    constraints_of,
    depends_on_data,
    is_pure,
)
from iverson.te.ir.integer_sets import is_empty
from iverson.te.ir.nodes import (
    COMBINES,
    Compute,
    If,
    Point,
    Program,
    Statement,
    Walk,
    loops_of,
    recurrence_of,
    step_axes,
    step_index,
)
from iverson.te.ir.ragged_axes import check_bounds


def check(program: Program) -> None:
    """Raise an IversonError if the program breaks a rule of the grammar or its meaning.

    Order (a tensor is complete before it is read), scope, dtypes, ranks, and one statement
    per tensor unless it is a sum.
    """
    complete: set[Tensor] = set(program.inputs)
    open_: dict[Tensor, str] = {}
    for s in program.statements:
        for node in postorder(s.roots):
            check_node(node)
            if isinstance(node, Read) and not _in_one(node.tensor, s.tensor):
                if node.tensor is s.out or (node.tensor not in complete and node.tensor not in open_):
                    _fail(s, f"a read of {node.tensor.name} before it is complete", "program order")
                if node.tensor in open_:
                    complete.add(node.tensor)
        if s.tensor in complete:
            _fail(s, f"a write of {s.tensor.name} after it was read", "program order")
        if s.tensor in open_ and not s.combine == open_[s.tensor] == "sum":
            _fail(s, f"{s.combine} after {open_[s.tensor]}", "one statement per tensor, or sums")
        open_[s.tensor] = s.combine
        check_statement(s)
        check_step(s)
    for t in program.outputs:
        undefined = not isinstance(t, Compute) and t not in complete
        if undefined or (isinstance(t, Compute) and t.statements and t not in complete | set(open_)):
            raise ArgumentError("te.verify", t.name, got="no definition", expected="an output")


def check_statement(s: Statement) -> None:
    """Raise an error unless the combine, scope, rank, dtype, bounds and walk of a statement are valid."""
    if s.combine not in COMBINES:
        _fail(s, f"combine {s.combine!r}", f"one of {COMBINES}")
    if (s.position is not None) != s.combine.startswith("arg"):
        _fail(s, f"combine {s.combine} and position {s.position}", "a position for argmax, argmin")
    if len(s.write) != s.tensor.ndim:
        _fail(s, f"{len(s.write)} write indices", f"{s.tensor.ndim}")
    if s.position is None and s.body.dtype != s.tensor.dtype:
        _fail(s, f"a body of {s.body.dtype}", f"{s.tensor.dtype}, the tensor's dtype")
    inside = set(s.domain.axes)
    for v in variables(s.roots):
        if v not in inside and v.kind != "size":
            _fail(s, f"index {v.name}", f"one of the domain's axes {s.domain.axes}")
    wrong = check_bounds(s.domain)
    if wrong:
        _fail(s, wrong, "a Select in the body, or a bound that depends on axes before")
    if s.walk is not None:
        check_walk(s, s.walk)


def _in_one(a: Tensor, b: Tensor) -> bool:
    """True if two tensors are members of one recurrence."""
    return recurrence_of(a) is not None and recurrence_of(a) is recurrence_of(b)


def check_step(s: Statement) -> None:
    """Raise an error unless a recurrence's statement writes its own step and reads earlier steps or members.

    Steps that data determine, and totals, which have no steps, are not checked (`nodes`, "Meaning").
    """
    ahead = False
    for r in loops_of(s.tensor):
        index = step_index(s.tensor, r)
        by_data = index is not None and depends_on_data([s.write[index]])
        writes_own_step = index is None or s.write[index] is r.axis or by_data
        if r.axis not in set(s.domain.axes) or not writes_own_step:
            _fail(s, f"a write at {s.write}", f"{r.axis.name} as index {index}")
        ahead = ahead or by_data
    for node in postorder(s.roots):
        member = node.tensor if isinstance(node, Read) and _in_one(s.tensor, node.tensor) else None
        if isinstance(node, Read) and isinstance(member, Compute) and not _is_earlier(node, member, s, ahead):
            _fail(s, f"a read of {text(node)}", "what an earlier step or member made")


def _is_earlier(entry: Read, tensor: Compute, s: Statement, ahead: bool) -> bool:
    """True unless ``entry`` certainly reads a later step of ``tensor`` than the one at which ``s`` runs.

    ahead : True if the statement writes to entries of later steps.
    """
    loops = [r for r in loops_of(tensor) if r in loops_of(s.tensor)]
    for r in loops:
        place = step_index(tensor, r)
        if place is None or depends_on_data([entry.indices[place]]):
            return True
        ago = affine_of(r.axis) - affine_of(entry.indices[place])
        before = -ago.const if r.reverse else ago.const
        if ago.terms or before < 0:
            return False
        if before > 0:
            return True
    order = {t: k for k, t in enumerate(loops[0].members)}  # slices that a lowering adds come last
    return order.get(tensor, len(order)) < order.get(s.tensor, len(order)) + ahead


def check_walk(s: Statement, walk: tuple[Walk, ...]) -> None:
    """A statement's walk: variables inside their loops, a value for each axis at every point."""
    around = frozenset(step_axes(s.out))
    pending: list[tuple[Walk, frozenset[Var]]] = [(item, around) for item in walk]
    while pending:
        item, bound = pending.pop()
        if isinstance(item, Point):
            roots: tuple[Expr, ...] = item.at
            if len(item.at) != len(s.domain.axes):
                _fail(s, f"a point of {len(item.at)} axes", f"{len(s.domain.axes)}")
        elif isinstance(item, If):
            roots = (item.condition,)
            pending += [(below, bound) for below in item.body]
        else:
            roots = (item.lower, item.upper)
            if item.step < 1:
                _fail(s, f"a loop of step {item.step}", "a positive step")
            if item.var in bound:
                _fail(s, f"{item.var.name} inside its loop", "a variable of each loop")
            pending += [(below, bound | {item.var}) for below in item.body]
        for v in variables(roots):
            if v not in bound:
                _fail(s, f"{v.name} outside its loop", "loop variables inside their loops")


def check_node(node: Expr) -> None:
    """Raise an error unless a node has operands of one dtype, and int64 indices, one for each axis."""
    wrong = ""
    if isinstance(node, Apply):
        dtypes = {a.dtype for a in node.args}
        wrong = "operands of several dtypes" if len(dtypes) > 1 else ""
    elif isinstance(node, Select):
        if node.condition.dtype.kind != "b" or node.then.dtype != node.other.dtype:
            wrong = "a Select whose sides differ in dtype"
    elif isinstance(node, Read):
        if len(node.indices) != node.tensor.ndim:
            wrong = f"{len(node.indices)} indices for {node.tensor}"
        if any(i.dtype != np.int64 for i in node.indices):
            wrong = "an index that is not int64"
    elif isinstance(node, Reduce):
        if node.combine not in COMBINES[1:]:
            wrong = f"a reduction with combine {node.combine!r}"
    elif isinstance(node, Fold):
        if [v.dtype for v in node.values] != [e.dtype for e in node.reducer.results]:
            wrong = "an element of other dtypes than the reducer's"
    elif not isinstance(node, (Const, Var, Cast)):
        wrong = f"a node of type {type(node).__name__}"
    if wrong:
        raise ArgumentError("te.verify", got=f"{wrong}: {text(node)}", expected="the grammar")


def _fail(s: Statement, actual: str, expected: str) -> None:
    raise ArgumentError("te.verify", s.tensor.name, got=actual, expected=expected)


# --- definitions ------------------------------------------------------------------------------


def check_definition(statement: Statement, operation: str) -> None:
    """Raise an error if a user's statement is invalid; it names ``operation`` (with the user's line).

    Raises IndexingError for an index provably outside its tensor and ArgumentError for an index
    with a stride or divisor that is not constant.
    """
    guards = statement_guards(statement)
    for node in guards:
        if isinstance(node, Read):
            for axis, e in enumerate(node.indices):
                _check_strides(e, node, operation)
                _check_range(statement, e, node, node.tensor, axis, guards[node], operation)
    where = Guards(statement.domain.where)
    for axis, e in enumerate(statement.write):
        _check_range(statement, e, None, statement.tensor, axis, where, operation)


def _check_range(
    statement: Statement,
    e: Expr,
    read: Read | None,
    tensor: Tensor,
    axis: int,
    guards: Guards,
    operation: str,
) -> None:
    """Raise IndexingError if the index ``e`` on an axis of ``tensor`` is provably outside at some point.

    read : the read with this index; None for the statement's write.
    """
    n = tensor.shape[axis]
    if inside(e, n, guards) or depends_on_data([e]) or _is_symbolic(statement, e, n):
        return
    if is_empty(statement.scope, [*guards, outside_of(e, n)]) is not False:
        return
    low, high = bounds_under(affine_of(e), _constraints(guards))
    place = text(read) if read is not None else f"a write to {tensor.name}"
    raise IndexingError(
        operation,
        tensor.name,
        got=f"index {text(e)} in [{low}, {high}] on axis {axis} of {place}",
        expected=f"an index in [0, {n})",
        remedy="shrink the range, or guard the read with te.select(condition, ..., 0)",
    )


def outside_of(e: Expr, n: Extent) -> Expr:
    """Condition that the index ``e`` is outside of an axis of extent ``n``."""
    return (e < 0) | (e >= as_expr(n))


def inside(e: Expr, n: Extent, guards: Iterable[Expr]) -> bool:
    """True if an index is provably inside an axis of extent ``n`` where the guards hold."""
    form = affine_of(e)
    constraints = _constraints(guards)
    if isinstance(n, int):
        low, high = bounds_under(form, constraints)
        return low >= 0 and high < n
    room = affine_of(n) - form
    most = max(bounds_under(room, constraints)[0], _room(room, constraints))
    return bounds_under(form, constraints)[0] >= 0 and most > 0


def _room(form: Affine, constraints: list[Constraint]) -> float:
    # The last value of an axis over range(lo, n) is n - 1: put it in place of the variable.
    for atom, c in form.terms:
        if isinstance(atom, Var) and c < 0 and isinstance(atom.hi, Expr):
            last = affine_of(atom.hi) - Affine(1)
            form = form + (last - make(0, {atom: 1})).scaled(c)
    return bounds_under(form, constraints)[0]


def _constraints(guards: Iterable[Expr]) -> list[Constraint]:
    return [c for g in guards for c in constraints_of(g) or ()]


def _is_symbolic(statement: Statement, e: Expr, n: Extent) -> bool:
    ranges = [b for v in statement.scope for b in (v.lo, v.hi)]
    return not isinstance(n, int) or any(isinstance(b, Expr) for b in ranges)


def _check_strides(e: Expr, read: Read, operation: str) -> None:
    """Raise ArgumentError if the index ``e`` of a read has a stride or divisor that is not constant."""
    for node in postorder([e]):
        if not isinstance(node, Apply) or depends_on_data([node]):
            continue
        constant = [not variables([a]) for a in node.args]
        product = node.name == "multiply" and not any(constant)
        division = node.name in ("floor_divide", "remainder") and not constant[1]
        if product or division:
            raise ArgumentError(
                operation,
                read.tensor.name,
                got=f"{text(node)} in {text(read)}, a stride or divisor that is not constant",
                expected="constants as strides and divisors",
                remedy="make it a Python int (define the tensor anew for each value)",
            )


def unproven_reads(statement: Statement) -> list[tuple[Read, int]]:
    """Pairs (read, axis) whose index is not proven to be inside; these are checked when the program runs.

    A lowering checks them wherever the read is evaluated (where its Selects choose it).
    """
    guards = statement_guards(statement)
    return [
        (node, axis)
        for node in guards
        if isinstance(node, Read)
        for axis, e in enumerate(node.indices)
        if not _proven(statement, e, node.tensor.shape[axis], guards[node])
    ]


def unproven_writes(statement: Statement) -> list[int]:
    """Axes on which the index of the write is not proven to be inside; they are checked at run time."""
    where = Guards(statement.domain.where)
    return [
        axis
        for axis, e in enumerate(statement.write)
        if not _proven(statement, e, statement.tensor.shape[axis], where)
    ]


def _proven(statement: Statement, e: Expr, n: Extent, guards: Guards) -> bool:
    if inside(e, n, guards):
        return True
    if not is_pure(affine_of(e)) or _is_symbolic(statement, e, n):
        return False
    return bool(is_empty(statement.scope, [*guards, outside_of(e, n)]))
