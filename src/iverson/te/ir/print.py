"""Printer of the statement IR: programs and walks as readable pseudo-code, for which there is no parser."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import indent

from iverson.core.errors import ArgumentTypeError, described
from iverson.expr.function_facts import ASSIGN
from iverson.expr.nodes import Expr
from iverson.expr.print import text
from iverson.te.ir.expressions import Tensor, Var, variables
from iverson.te.ir.fresh_names import distinct
from iverson.te.ir.nodes import (
    For,
    If,
    Point,
    Program,
    Recurrence,
    Statement,
    Walk,
    loops_of,
    step_axes,
)
from iverson.te.ir.ragged_axes import bounds_in


def program_text(program: Program) -> str:
    """A program: its tensors, then its statements with their loops.

    >>> import numpy as np
    >>> from iverson.te.language import definitions as te
    >>> from iverson.te.ir.nodes import program_of
    >>> A = te.placeholder((3,), "float64", "A")
    >>> B = te.compute((3,), lambda i: A[i] * 2, "B")
    >>> print(program_text(program_of([B])))
    input A: float64[3]
    output B: float64[3]
    for i in 0:3:
        B[i] = A[i] * 2.0
    """
    if not isinstance(program, Program):
        raise ArgumentTypeError(
            "te.program_text", "program", got=described(program), expected="a program of te.program_of"
        )
    lines = [f"input {signature(t)}" for t in program.inputs]
    lines += [f"temporary {signature(t)}" for t in program.temporaries]
    lines += [f"output {signature(t)}" for t in program.outputs]
    around: tuple[Recurrence, ...] = ()
    for s in program.statements:
        loops = loops_of(s.tensor)
        for depth, r in enumerate(loops):
            if around[: depth + 1] != loops[: depth + 1]:
                order = ", downwards" if r.reverse else ""
                head = f"for {r.axis.name} in {r.axis.lo}:{r.axis.hi}, step by step{order}:"
                lines.append(indent(head, "    " * depth))
        around = loops
        lines.append(indent(statement_text(s), "    " * len(loops)))
    return "\n".join(lines)


def signature(tensor: Tensor) -> str:
    """Text of a tensor's name, dtype and shape."""
    return f"{tensor.name}: {tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def statement_text(statement: Statement) -> str:
    """Text of a statement with its loops; in a recurrence, without the loop over steps."""
    names = names_of(statement)
    if statement.walk is not None:
        return "\n".join(_walk_lines(statement.walk, statement, names))
    steps = step_axes(statement.tensor)
    axes = [v for v in statement.domain.axes if v not in steps]
    bounds, where = bounds_in(statement.domain)
    lines = []
    for depth, v in enumerate(axes):
        low, high = bounds[v].within(v) if v in bounds else (v.lo, v.hi)
        ends = ":".join(text(n, names) if isinstance(n, Expr) else str(n) for n in (low, high))
        lines.append(f"{'    ' * depth}for {names[v]} in {ends}:")
    depth = len(axes)
    for condition in where:
        lines.append(f"{'    ' * depth}if {text(condition, names)}:")
        depth += 1
    lines.append("    " * depth + action_text(statement, names))
    return "\n".join(lines)


def action_text(statement: Statement, names: dict[Expr, str]) -> str:
    """Text of a statement's action at one point."""
    target = f"{statement.tensor.name}[{', '.join(text(e, names) for e in statement.write)}]"
    body = text(statement.body, names)
    if statement.position is not None:
        return f"{target} {statement.combine}= ({body}, {text(statement.position, names)})"
    return f"{target} {ASSIGN[statement.combine]} {body}"


def domain_text(statement: Statement) -> str:
    """Text of a statement's domain, in the notation of a set."""
    names = names_of(statement)
    ranges = [f"{v.lo} <= {names[v]} < {v.hi}" for v in statement.domain.axes]
    conditions = [text(c, names) for c in statement.domain.where]
    points = ", ".join(names[v] for v in statement.domain.axes)
    return f"{{ [{points}] : {' and '.join(ranges + conditions)} }}"


def names_of(statement: Statement) -> dict[Expr, str]:
    """A distinct name for each variable of a statement and its walk."""
    symbols = [*statement.domain.axes, *variables(statement.roots)]
    symbols += list(_loop_variables(statement.walk or ()))
    return distinct_names(symbols)


def distinct_names(symbols: Iterable[Var]) -> dict[Expr, str]:
    """The name of each variable, with a number where an earlier variable has the same name."""
    names: dict[Expr, str] = {}
    used_names: set[str] = set()
    for v in symbols:
        if v not in names:
            names[v] = distinct(v.name, used_names)
            used_names.add(names[v])
    return names


def _loop_variables(walk: tuple[Walk, ...]) -> Iterable[Var]:
    pending = list(reversed(walk))
    while pending:
        item = pending.pop()
        if isinstance(item, For):
            yield item.var
        if not isinstance(item, Point):
            pending.extend(reversed(item.body))


def _walk_lines(
    walk: tuple[Walk, ...], statement: Statement, names: dict[Expr, str], depth: int = 0
) -> list[str]:
    """Lines of text for a walk of a statement, indented by ``depth`` levels."""
    pad, lines = "    " * depth, []
    for item in walk:
        if isinstance(item, Point):
            axes = statement.domain.axes
            assignments = [(v, e) for v, e in zip(axes, item.at, strict=True) if v is not e]
            if assignments:
                lines.append(pad + "; ".join(f"{names[v]} = {text(e, names)}" for v, e in assignments))
            lines.append(pad + action_text(statement, names))
            continue
        if isinstance(item, If):
            lines.append(f"{pad}if {text(item.condition, names)}:")
        else:
            step = f":{item.step}" if item.step != 1 else ""
            bounds = f"{text(item.lower, names)}:{text(item.upper, names)}{step}"
            lines.append(f"{pad}for {names[item.var]} in {bounds}:")
        lines += _walk_lines(item.body, statement, names, depth + 1)
    return lines
