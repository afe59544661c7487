"""Regions: equations taken out of a graph into a graph of their own, and put back.

%2 = sin(%0)                  %3 = op[body=graph(%0, %1) {
%3 = multiply(%2, %1)   <->     %2 = sin(%0)
                                %4 = multiply(%2, %1)
                                return (%4) }](%0, %1)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from iverson.core.protocols import LayoutValue
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.nodes import Equation, Graph, Operand, Value, subgraphs, values_of

Held = Callable[[Value, Value, Any], Any]


def closed(
    equations: Sequence[Equation],
    outputs: Sequence[Operand],
    constants: Iterable[tuple[Value, LayoutValue]],
    first: Sequence[Value] = (),
) -> Graph:
    """Graph of ``equations`` that returns ``outputs``, without dead code.

    Its inputs are ``first``, then each other value that the equations or ``outputs`` read, and that is
    neither a result of the equations nor one of ``constants``.
    """
    definitions = {v for e in equations for v in e.results}.union(first)
    constants = tuple(constants)
    definitions.update(v for v, _ in constants)
    reads = dict.fromkeys(
        v
        for v in (*(v for e in equations for v in values_of(e.operands)), *values_of(outputs))
        if v not in definitions
    )
    return dead_code(Graph((*first, *reads), tuple(equations), tuple(outputs), constants))


def opened(graph: Graph, operands: Sequence[Operand], known: dict[Value, Operand]) -> list[Equation]:
    """Copies of the equations of ``graph`` that read ``operands`` in place of its inputs.

    The results of the copies are new Values, so a graph may be copied into one place several times. The dict
    ``known`` is updated: it gets the operand for each input and the new Value for each result. Constants are
    not copied; the caller adds them to its own graph.
    """
    known.update(zip(graph.inputs, operands, strict=True))
    equations = []
    for equation in graph.equations:
        results = tuple([Value(v.aval) for v in equation.results])
        equations.append(replace(equation, operands=substituted(equation.operands, known), results=results))
        known.update(zip(equation.results, results, strict=True))
    return equations


def substituted(operands: Iterable[Operand], known: Mapping[Value, Operand]) -> tuple[Operand, ...]:
    """Return ``operands``, with ``known[x]`` in place of each value x that is a key of ``known``."""
    return tuple([known.get(x, x) if type(x) is Value else x for x in operands])


def rewritten(equation: Equation, known: Mapping[Value, Operand]) -> Equation:
    """Return ``equation`` with ``known[x]`` in place of each operand x that is a key of ``known``.

    The result is ``equation`` itself if it reads none of these values.
    """
    for x in equation.operands:
        if type(x) is Value and x in known:
            return replace(equation, operands=substituted(equation.operands, known))
    return equation


def renamed(
    graph: Graph, now: Callable[[Operand], Operand], param: Callable[[Any], Any], held: Held
) -> Graph:
    """Copy of ``graph`` in which functions replace each operand, parameter and constant.

    now : the new operand for an operand; the same for each call.
    param : the new parameter for a parameter.
    held : the new array of a constant, from its value, its new value and its array.
    """
    equations = tuple(
        replace(
            e,
            operands=tuple(map(now, e.operands)),
            params={k: param(p) for k, p in e.params.items()},
            results=tuple(map(now, e.results)),
        )
        for e in graph.equations
    )
    constants = tuple((w := now(v), held(v, w, x)) for v, x in graph.constants)
    return Graph(tuple(map(now, graph.inputs)), equations, tuple(map(now, graph.outputs)), constants)


def with_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """The graph with ``change(body)`` in place of each graph among its equations' parameters."""
    equations = []
    for e in graph.equations:
        if Graph in map(type, e.params.values()):
            bodies = {name: change(body) for name, body in subgraphs(e)}
            e = replace(e, params={**e.params, **bodies})
        equations.append(e)
    return replace(graph, equations=tuple(equations))


def inline(graph: Graph, names: Collection[str] = ("function",)) -> Graph:
    """Graph in which each equation of an op in ``names`` is replaced by the equations of its ``body``.

    Bodies that are put in place are inlined too, to any depth. Bodies of other ops (of a scan) are left
    alone.
    """
    replacements: dict[Value, Operand] = {}
    equations: list[Equation] = []
    constants = dict(graph.constants)
    for equation in graph.equations:
        if equation.op.name not in names:
            equations.append(rewritten(equation, replacements))
            continue
        operands = substituted(equation.operands, replacements)
        body = inline(equation.params["body"], names)
        constants.update(body.constants)
        inside: dict[Value, Operand] = {}
        equations += opened(body, operands, inside)
        replacements.update(zip(equation.results, substituted(body.outputs, inside), strict=True))
    return Graph(
        graph.inputs, tuple(equations), substituted(graph.outputs, replacements), tuple(constants.items())
    )
