"""Recurrences along an axis as native loops: a nest along rows, or one of a line of entries at each place.

s[0] = b[0]; for k: s[k + 1] = a[k + 1] * s[k] + b[k + 1]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from iverson.codegen.nests.nodes import INT64, Declare, Load, Local, Loop, Stmt, Store, Update, Var
from iverson.codegen.programs import Repeat, View, step_builders
from iverson.codegen.programs.nodes import Step
from iverson.core import dtypes
from iverson.expr.build import cast
from iverson.expr.nodes import Apply, Const, Expr
from iverson.graph.ir.nodes import Equation, Value
from iverson.graph.native.buffers import Memory

#: Rows that a nest runs along at once: their lines in a cache are as many as it has of one place.
ROWS = 4


@dataclass(frozen=True)
class Recurrence:
    """``s[k] = step(s[k - 1], operands at k)``, and ``s[0] = first(operands at 0)``."""

    first: Callable[..., Expr]
    step: Callable[..., Expr]


def _apply(name: str, *args: Expr) -> Expr:
    return Apply(name, args, args[0].dtype)


#: By op; each has the parameter ``axis``, and maybe ``reverse``.
RECURRENCES = {
    "cumulative_sum": Recurrence(lambda x: x, lambda s, x: _apply("add", s, x)),
    "cumulative_prod": Recurrence(lambda x: x, lambda s, x: _apply("multiply", s, x)),
    "logcumsumexp": Recurrence(lambda x: x, lambda s, x: _apply("logaddexp", s, x)),
    "linear_recurrence": Recurrence(
        lambda a, b: b, lambda s, a, b: _apply("add", _apply("multiply", a, s), b)
    ),
}


def is_recurrence(equation: Equation) -> bool:
    """True if an equation is one of `RECURRENCES` that loops can carry out."""
    if equation.op.name not in RECURRENCES or any(type(x) is not Value for x in equation.operands):
        return False
    (result,) = equation.results
    if result.dtype.kind == "c" and equation.op.name == "logcumsumexp":  # no loop has a logaddexp of these
        return False
    return 0 not in result.shape and result.dtype.kind in "iufc" and dtypes.is_compiled(result.dtype)


def steps(equation: Equation, operands: list[View], out: View, memory: Memory) -> list[Step]:
    """The steps of a recurrence: `rows` along the last axis, or else `lines`.

    Of a function that is best evaluated in lanes, lines along the last axis are made in a temp, then copied.

    operands : views of the shape of the result, with its axes in their order.
    """
    axis, rank = equation.params["axis"], len(out.shape)
    is_last = axis == rank - 1
    if is_last and (axis == 0 or equation.op.name != "logcumsumexp"):
        return [rows(equation, operands, out)]
    in_lines = out.permuted((axis, *(k for k in range(rank) if k != axis)))
    if not is_last:
        return lines(equation, operands, in_lines, memory.variable())
    temp = memory.temp(out.buffer.dtype, in_lines.shape)
    return [*lines(equation, operands, temp, memory.variable()), step_builders.copy(in_lines, temp)]


def rows(equation: Equation, operands: list[View], out: View) -> Step:
    """A nest along the last axis, several rows at a time, with the last entry of each in a register."""
    rule, dtype = RECURRENCES[equation.op.name], out.buffer.dtype
    *outer, along = step_builders.axes(out.shape)
    views = {f"x{n}": v for n, v in enumerate(operands)}

    def values(place: Expr) -> list[Expr]:
        at = (*step_builders.variables(outer), place)
        return [cast(Load(step_builders.as_buffer(name, v), at), dtype) for name, v in views.items()]

    def store(place: Expr) -> Stmt:
        at = (*step_builders.variables(outer), place)
        return Store(step_builders.as_buffer("out", out), at, Local("last", dtype))

    count, k = out.shape[-1], Var(along.name)
    reverse = equation.params.get("reverse", False)
    first, place = (Const(count - 1), Const(count - 1) - k) if reverse else (Const(0), k)
    step = Update("last", "assign", rule.step(Local("last", dtype), *values(place)))
    body: tuple[Stmt, ...] = (
        Declare("last", dtype, rule.first(*values(first))),
        store(first),
        Loop(along.name, Const(1), Const(count), (step, store(place))),
    )
    phase = Loop("once", Const(0), Const(1), body)
    if outer:
        row, start = outer[-1], Var("block")
        end = start + ROWS
        if out.shape[-2] % ROWS:
            end = Apply("minimum", (end, row.upper), INT64)
        tile = replace(row, lower=start, upper=end).loop(body, "tile", ROWS)
        phase = replace(replace(row, name=start.name).loop((tile,)), step=ROWS)
        for a in reversed(outer[:-1]):
            phase = a.loop((phase,))
        phase = replace(phase, mark="parallel")
    return step_builders.nest("recurrence", [phase], {**views, "out": out}, ("out",))


def lines(equation: Equation, operands: list[View], lines: View, loop: str) -> list[Step]:
    """The steps of a recurrence over lines of entries: the first one, then a loop over the others.

    lines : view of the result with the axis of the recurrence first.
    operands : views of the shape of the result, with its axes in their order.
    loop : name of the loop variable.
    """
    rule, axis = RECURRENCES[equation.op.name], equation.params["axis"]
    count, reverse = lines.shape[0], bool(equation.params.get("reverse", False))
    by = -1 if reverse else 1
    start = count - 1 if reverse else 0

    def line(v: View, along: int, place: int, moves: bool) -> View:
        first = v.permuted((along, *(k for k in range(len(v.shape)) if k != along)))
        step, *strides = first.strides
        at = View(v.buffer, first.shape[1:], tuple(strides), v.offset + place * step, v.moves)
        return at.moved(loop, by * step) if moves else at

    def nest(place: int, moves: bool) -> Step:
        out = line(lines, 0, place, moves)
        at = step_builders.variables(step_builders.axes(out.shape))
        views = {f"x{n}": line(v, axis, place, moves) for n, v in enumerate(operands)}
        dtype = lines.buffer.dtype
        values = [cast(Load(step_builders.as_buffer(name, v), at), dtype) for name, v in views.items()]
        if not moves:
            return step_builders.elementwise(out, rule.first(*values), views)
        views["before"] = line(lines, 0, place - by, moves)
        old = Load(step_builders.as_buffer("before", views["before"]), at)
        return step_builders.elementwise(out, rule.step(old, *values), views)

    first = nest(start, False)
    return [first, Repeat(loop, count - 1, (nest(start + by, True),))] if count > 1 else [first]


__all__ = ["RECURRENCES", "is_recurrence", "steps"]
