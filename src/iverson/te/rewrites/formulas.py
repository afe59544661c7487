"""Formulas: a function that has no machine code of its own is computed as the body of its record is.

    log_cosh(x)   ->   logaddexp(x, -x) - 0.6931471805599453

A body is written in functions of NumPy for arrays. Called on an expression it gives an expression, if all of
these are functions of the table; one that branches on values, or calls anything else, has no formula.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from iverson.codegen.emit.scalar_code import supported
from iverson.codegen.nests.nodes import Local
from iverson.core.protocols import DType
from iverson.core.scalars import SCALARS
from iverson.expr.build import as_expr
from iverson.expr.nodes import Apply, Expr, changed, postorder
from iverson.te.ir.nodes import Program

#: Functions in a formula at most: a longer body is computed faster by its own loop over arrays.
MOST = 64


def with_formulas(program: Program) -> Program:
    """The program with formulas in place of functions that have no machine code."""
    if not any(_needs_formula(e) for s in program.statements for e in postorder(s.roots)):
        return program
    statements = tuple([s.mapped(lambda e: changed(e, _written_out)) for s in program.statements])
    return replace(program, statements=statements, _key=[])


def has_formula(e: Apply) -> bool:
    """True if a function on operands of this dtype is computed by others that have machine code."""
    return _formula(e.name, tuple([x.dtype for x in e.args]), e.dtype) is not None


def _needs_formula(e: Expr) -> bool:
    return isinstance(e, Apply) and not supported(e.name, e.args[0].dtype) and has_formula(e)


def _written_out(e: Expr) -> Expr:
    if not isinstance(e, Apply) or not _needs_formula(e):
        return e
    formula = _formula(e.name, tuple([x.dtype for x in e.args]), e.dtype)
    assert formula is not None
    arguments: dict[Expr, Expr] = dict(zip(_operands(tuple([x.dtype for x in e.args])), e.args, strict=True))
    return changed(formula, lambda x: arguments.get(x, x))


@cache
def _operands(dtypes: tuple[DType, ...]) -> tuple[Expr, ...]:
    """Names for the operands in a formula."""
    return tuple([Local(f"operand {k}", dtype) for k, dtype in enumerate(dtypes)])


@cache
def _formula(name: str, dtypes: tuple[DType, ...], result: DType) -> Expr | None:
    """The body of a function, on operands of these dtypes; None if it gives no expression that compiles."""
    try:
        body = as_expr(SCALARS[name].body(*_operands(dtypes)))
    except Exception:  # a body of arrays alone
        return None
    nodes = [e for e in postorder([body]) if isinstance(e, Apply)]
    compiles = all(supported(e.name, e.args[0].dtype) for e in nodes)
    return body if compiles and body.dtype == result and len(nodes) <= MOST else None


__all__ = ["has_formula", "with_formulas"]
