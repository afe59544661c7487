"""Lookup tables: expensive functions of a few indices are computed once and read at every point.

    Y[t, f] = sum_k x[t + k] cos(f k)
 ->
    Y.table[f, k] = cos(f k);  Y[t, f] = sum_k x[t + k] Y.table[f, k]

Differentiation comes before this rewrite, as the points of a derivative are other ones: in
``dx[a] += g[t, f] cos(f (a - t))`` the function would depend on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iverson.expr.nodes import Expr, postorder
from iverson.te.ir.expressions import Read, Var, extent, substitute, typical, variables
from iverson.te.ir.fresh_names import part
from iverson.te.ir.nodes import Compute, Domain, Program, Statement, recurrence_of
from iverson.te.ir.ragged_axes import bounds_in
from iverson.te.rewrites.inlining import is_dear, is_dear_function

#: How many times as many points a statement has as its table has entries, and how many these are, at most.
SHARED, ENTRIES = 4, 2**20


def tabled(program: Program) -> Program:
    """The program with lookup tables for those statements for which they pay."""
    statements: list[Statement] = []
    for s in program.statements:
        reader, tables = with_tables(s, s.tensor)
        statements += (statement for t in tables for statement in t.statements)
        statements.append(reader)
    return Program(program.inputs, tuple(statements), program.outputs, program.sizes)


def with_tables(s: Statement, tensor: Compute) -> tuple[Statement, list[Compute]]:
    """The statement, which now reads lookup tables, and these tables; unchanged and [] if no table pays.

    tensor : the tensor that the statement writes.
    """
    if recurrence_of(tensor) is not None or not is_dear(s.body):
        return s, []
    tables: dict[Expr, Compute] = {}
    new: dict[Expr, Expr] = {}
    for e in _candidates(s.body):
        axes = [v for v in s.domain.axes if v in set(variables([e]))]
        if _pays(axes, s):
            table_axes: list[Var] = [Var(v.name, 0, extent(v)) for v in axes]
            axis_map: dict[Expr, Expr] = {v: o + v.lo for v, o in zip(axes, table_axes, strict=True)}
            (body,) = substitute([e], axis_map)
            name = part(tensor, "table", len(tables) + 1 if tables else None)
            shape = tuple(map(extent, axes))
            tables[e] = Compute(
                shape, e.dtype, name, [Statement(None, tuple(table_axes), body, Domain(tuple(table_axes)))]
            )
            new[e] = Read(tables[e], tuple(v - v.lo for v in axes))
    if not new:
        return s, []
    return s.mapped(lambda e: substitute([e], new)[0]), list(tables.values())


def _candidates(root: Expr) -> list[Expr]:
    """The largest expensive parts of an expression that read no tensor."""
    reads: dict[Expr, bool] = {}
    dear: dict[Expr, bool] = {}
    for e in postorder([root]):
        reads[e] = isinstance(e, Read) or any(reads[o] for o in e.operands)
        dear[e] = is_dear_function(e) or any(dear[o] for o in e.operands)
    candidates: dict[Expr, None] = {}
    visited: set[Expr] = set()
    pending = [root]
    while pending:
        e = pending.pop()
        if e in visited or not dear[e] or isinstance(e, Read):
            continue
        visited.add(e)
        if reads[e]:
            pending += e.operands
        elif e.dtype.kind in "fc":
            candidates[e] = None
    return list(candidates)


def _pays(axes: Sequence[Var], s: Statement) -> bool:
    """True if a table over these axes has few entries, compared with the points of a statement."""
    if not axes or len(axes) == len(s.domain.axes):
        return False
    if any(isinstance(a.lo, Expr) or a in bounds_in(s.domain)[0] for a in axes):
        return False  # rows of lengths of their own
    entries = prod(typical(extent(a)) for a in axes)
    points = prod(map(typical, s.domain.extents))
    return entries <= ENTRIES and 0 < entries * SHARED <= points
