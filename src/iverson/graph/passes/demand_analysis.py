"""Demand analysis: finds the entries of each value that later equations read; unread operands become zero.

    %3 = stack(%0, %1, %2)                      %3 = stack(zero, %1, zero)
    %4 = index_basic[key=(1,)](%3)      ->      %4 = index_basic[key=(1,)](%3)

Demands go backwards: the entries of each operand that the demanded entries of the results depend on, by the
op's entry map (`iverson.core.entry_map`). An operand of which nothing is demanded is zero; the equation that
computed it is dead then. A loop is shortened by its own rule (`iverson.graph.control.scan_loop`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from iverson.autograd.mode import recording
from iverson.core.aval import Aval, has_shape
from iverson.core.dispatch import value_of
from iverson.core.entries import FULL, NOTHING, Box, Bracket, Entries, Nothing, join, meet, plain
from iverson.core.entry_map import ANY
from iverson.core.protocols import DType
from iverson.core.shapes import Shape
from iverson.core.table import F
from iverson.graph.ir.dead_code import has_effect
from iverson.graph.ir.nodes import Equation, Graph, Operand, Value
from iverson.graph.tracing.trace import Trace
from iverson.layouts import Zero, support_of


def supports_of(graph: Graph) -> dict[Value, Entries]:
    """Support of each value, outside of which it is zero; a missing value has that of its aval."""
    supports: dict[Value, Entries] = {}
    for e in graph.equations:
        if not e.op.multiple and _may_bound(e, supports):
            (v,) = e.results
            operands = [_bounded(x, supports) if type(x) is Value else x for x in e.operands]
            support = e.op.infer(*operands, **e.params).support
            supports[v] = support if isinstance(support, Box | Nothing) else v.aval.support
    return supports


def _may_bound(e: Equation, supports: dict[Value, Entries]) -> bool:
    if e.op.entry_map.partial:
        return True
    for x in e.operands:
        if type(x) is Value and isinstance(supports.get(x, x.aval.support), Box | Nothing):
            return True
    return False


def _bounded(x: Value, supports: dict[Value, Entries]) -> Aval:
    """Aval of a value with its support; a selection counts as full, as it bounds no computation."""
    support = supports.get(x, x.aval.support)
    return Aval(x.shape, x.dtype, FULL if isinstance(support, Bracket) else support)


def demanded(graph: Graph) -> tuple[list[Equation], dict[Value, Entries], dict[Value, Entries]]:
    """Three things: the equations, the demand of each value, and the support of each value (`supports_of`).

    Loops among the equations are shortened to what is read of them. Nothing is read of a value that has no
    demand.
    """
    supports = supports_of(graph)
    demand_of: dict[Value, Entries] = {x: FULL for x in graph.outputs if type(x) is Value}
    waiting, equations = list(graph.equations), []  # from the last one on
    while waiting:
        equation = waiting.pop()
        where = [met(demand_of.get(v, NOTHING), v, supports.get(v, v.aval.support)) for v in equation.results]
        shorter = _shorter(equation, where)
        if shorter is not None:  # what is read before a loop follows from its steps that are left
            waiting += shorter
            continue
        equations.append(equation)
        needs = _of_operands(equation, where, supports)
        for x, need in zip(equation.operands, needs, strict=True):
            if type(x) is Value:
                demand_of[x] = need if x not in demand_of else join([demand_of[x], need])
    return equations[::-1], demand_of, supports


def _shorter(equation: Equation, where: list[Entries]) -> list[Equation] | None:
    shorten = getattr(equation.op, "shorten", None)
    if shorten is None or all(n is NOTHING for n in where) or has_effect(equation):
        return None
    return shorten(equation, where)  # type: ignore[no-any-return]


def met(need: Entries, v: Value, support: Entries) -> Entries:
    """Demanded entries of a value, cut to its support where that is a box or nothing."""
    return plain(meet(need, support), v.shape) if isinstance(support, Box | Nothing) else need


def _of_operands(equation: Equation, where: list[Entries], supports: dict[Value, Entries]) -> list[Entries]:
    """Demand on each operand: the entries that the demanded entries of the results depend on.

    It is FULL for numbers.

    where : the demand of each result.
    """
    operands, (first, *remaining) = equation.operands, where or [NOTHING]
    if first is NOTHING and all(need is NOTHING for need in remaining):
        return [FULL if has_effect(equation) else NOTHING] * len(operands)
    op = equation.op
    if op.multiple or op.entry_map is ANY:
        return [FULL] * len(operands)
    if op.entry_map.moves and not callable(op.vjp) and type(operands[0]) is Value:
        return [plain(_moved_back(equation, first), operands[0].shape)]
    avals = [_bounded(x, supports) if type(x) is Value else x for x in operands]
    if first is FULL and Box not in [type(getattr(a, "support", FULL)) for a in avals]:
        return [FULL] * len(operands)
    out = equation.results[0].aval
    needs: list[Entries] = []
    for i, a in enumerate(avals):
        is_value = type(operands[i]) is Value
        support = op.entry_map.support(op, first, i, avals, out, equation.params) if is_value else FULL
        needs.append(plain(support, a.shape) if is_value else FULL)
    return needs


def _moved_back(equation: Equation, where: Entries) -> Entries:
    """Demand on the operand of an op that moves entries: its pullback moves the result's demand back."""
    rule: Any = equation.op.vjp[0]  # type: ignore[index]
    (out,) = equation.results
    with Trace("demands") as level, recording(False):
        g = level.handle(Value(Aval(out.shape, out.dtype, where)))
        (x,) = map(level.handle, equation.operands)
        ct = value_of(rule(F, g, out.aval, x, **equation.params))
    support = support_of(ct)
    return FULL if isinstance(support, Bracket) else support


def demands(graph: Graph) -> Graph:
    """The graph with zeros for operands of which nothing is read.

    A value computed from zeros may be zero too, and leave its operands unread: so this repeats until there
    are no more zeros.
    """
    result = _with_zeros(graph)
    while len(result.constants) > len(graph.constants):
        graph, result = result, _with_zeros(result)
    return result


def _with_zeros(graph: Graph) -> Graph:
    """The graph with zeros for operands of which nothing is read, found in one walk over the graph."""
    zeros: dict[Any, Value] = {}
    known_zero = {v for v, constant in graph.constants if type(constant) is Zero}
    short, demand_of, supports = demanded(graph)
    equations: list[Equation] = []

    def unread(x: Value, need: Entries) -> bool:
        """True if a value has entries, and none of those in its support is demanded."""
        return met(need, x, supports.get(x, x.aval.support)) is NOTHING and not (
            has_shape(x) and 0 in x.shape
        )

    for equation in short:
        where = [demand_of.get(v, NOTHING) for v in equation.results]
        operands: tuple[Operand, ...] = equation.operands
        if any(need is not FULL and need is not NOTHING for need in where):
            needs = _of_operands(equation, where, supports)
            operands = tuple(
                [
                    _zero(x, zeros) if type(x) is Value and x not in known_zero and unread(x, need) else x
                    for x, need in zip(operands, needs, strict=True)
                ]
            )
            equation = replace(equation, operands=operands)
        equations.append(equation)
    new_constants = tuple((v, Zero(v.shape, v.dtype)) for v in zeros.values())
    return Graph(graph.inputs, tuple(equations), graph.outputs, (*graph.constants, *new_constants))


def _zero(x: Value, zeros: dict[tuple[Shape, DType], Value]) -> Value:
    """A constant in the zero layout in place of a value."""
    key = x.shape, x.dtype
    if key not in zeros:
        zeros[key] = Value(Aval(x.shape, x.dtype, NOTHING))
    return zeros[key]
