"""Interpreter of graphs: evaluates op by op, through `bind`; the oracle of passes and compiled programs.

It computes what the traced function computes: on tracked operands it is recorded, in a trace it is written
down again, as of the same calls of the user, in a batch it is mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iverson.autograd.node import differentiated
from iverson.core.counting import checks
from iverson.core.dispatch import bind, levels, make_handle
from iverson.core.errors import ArgumentError, IversonError
from iverson.graph.ir.nodes import UNDEFINED, Argument, Equation, Graph, Value, is_undefined_on
from iverson.graph.ir.verify import check

#: From an equation, and the handles of values computed so far, to the equation's results.
Evaluate = Callable[[Equation, dict[Value, Any]], Sequence[Any]]


def interpret(graph: Graph, args: Sequence[Argument], each: Evaluate | None = None) -> list[Any]:
    """The outputs, from handles (or UNDEFINED) for the inputs.

    each : evaluates an equation, in place of `evaluated`.

    Raises ArgumentError unless there is one argument for each input, and for a graph that is not well formed.
    """
    if len(args) != len(graph.inputs):
        raise ArgumentError(
            "interpret", "args", got=f"{len(args)} arguments", expected=f"{len(graph.inputs)}, one an input"
        )
    handles: dict[Value, Any] = dict(zip(graph.inputs, args, strict=True))
    handles.update((value, make_handle(array)) for value, array in graph.constants)
    evaluate = each or (located if checks.in_force() else evaluated)
    last = last_reads(graph)
    written_down, before = bool(levels()), differentiated.get()
    try:
        for k, equation in enumerate(graph.equations):
            if written_down:
                differentiated.set(equation.where or before)
            handles.update(zip(equation.results, evaluate(equation, handles), strict=True))
            for value in last.get(k, ()):
                del handles[value]
    except IversonError:
        raise
    except Exception:
        check(graph)  # says what is wrong, if it is the graph
        raise
    finally:
        if written_down:
            differentiated.set(before)
    return [handles.get(x, x) if type(x) is Value else x for x in graph.outputs]


def last_reads(graph: Graph) -> dict[int, list[Value]]:
    """For the number of each equation, the values that no later equation reads; outputs are in no list."""
    last: dict[Value, int] = {}
    for k, equation in enumerate(graph.equations):
        for x in (*equation.results, *equation.operands):
            if type(x) is Value:
                last[x] = k
    outputs = {x for x in graph.outputs if type(x) is Value}
    values_after: dict[int, list[Value]] = {}
    for value, k in last.items():
        if value not in outputs:
            values_after.setdefault(k, []).append(value)
    return values_after


def located(equation: Equation, values: dict[Value, Argument]) -> Sequence[Any]:
    """The results of an equation, of which checks know the user's call."""
    with checks.at(equation.where):
        return evaluated(equation, values)


def evaluated(equation: Equation, known: dict[Value, Argument]) -> Sequence[Any]:
    """The results of an equation; ``known`` has the handles of values computed so far."""
    args = tuple([known[x] if type(x) is Value else x for x in equation.operands])
    op = equation.op
    evaluate = getattr(op, "evaluate", None)
    if evaluate is not None:
        return evaluate(args, **equation.params)  # type: ignore[no-any-return]
    if is_undefined_on(op, args):
        return [UNDEFINED] * len(equation.results)
    out = bind(op, args, dict(equation.params))
    return out if op.multiple else (out,)
