"""Recurrences along an axis as native loops: at each place along it, one nest computes a line of entries.

s[0] = b[0]; for k: s[k + 1] = a[k + 1] * s[k] + b[k + 1]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from iverson.codegen.nests.nodes import Load
from iverson.codegen.programs import Repeat, View, step_builders
from iverson.codegen.programs.nodes import Step
from iverson.core import dtypes
from iverson.expr.build import cast
from iverson.expr.nodes import Apply, Expr
from iverson.graph.ir.nodes import Equation, Value


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


def steps(equation: Equation, operands: list[View], lines: View, loop: str) -> list[Step]:
    """The steps of a recurrence: the first line of entries, then a loop over the others.

    lines : view of the result with the axis of the recurrence first.
    operands : views of the shape of the result, with its axes in their order.
    loop : name of the loop variable.
    """
    rule, axis = RECURRENCES[equation.op.name], equation.params["axis"]
    count, reverse = lines.shape[0], bool(equation.params.get("reverse", False))
    by = -1 if reverse else 1
    start = count - 1 if reverse else 0

    def line(v: View, along: int, place: int, moves: bool) -> View:
        remaining_axes = [k for k in range(len(v.shape)) if k != along]
        shape = tuple(v.shape[k] for k in remaining_axes)
        start = v.offset + place * v.strides[along]
        at = replace(v, shape=shape, strides=tuple(v.strides[k] for k in remaining_axes), offset=start)
        return at.moved(loop, by * v.strides[along]) if moves else at

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
