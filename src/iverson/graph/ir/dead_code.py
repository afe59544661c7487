"""Dead-code elimination: removes equations whose results nobody reads.

    %1 = sin(%0)
    %2 = cos(%0)        ->      %2 = cos(%0)
    return (%2)                 return (%2)

Unread constants go too; inputs stay, since callers pass them by position. An op that runs graphs and has
several results says itself how to give fewer (``narrow``).
"""

from __future__ import annotations

from iverson.graph.ir.nodes import Equation, Graph, Value, values_of


def dead_code(graph: Graph) -> Graph:
    """The graph without the equations and constants that nothing reads."""
    live = set(values_of(graph.outputs))
    equations: list[Equation] = []
    for equation in reversed(graph.equations):
        if not live.isdisjoint(equation.results):
            narrow = getattr(equation.op, "narrow", None)
            equations.append(equation if narrow is None else narrow(equation, live))
            live.update([x for x in equations[-1].operands if type(x) is Value])
    constants = tuple((v, array) for v, array in graph.constants if v in live)
    return Graph(graph.inputs, tuple(reversed(equations)), graph.outputs, constants)
