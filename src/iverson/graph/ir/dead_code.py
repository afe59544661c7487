"""Dead-code elimination: removes equations whose results nobody reads.

    %1 = sin(%0)
    %2 = cos(%0)        ->      %2 = cos(%0)
    return (%2)                 return (%2)

Unread constants go too; inputs stay, since callers pass them by position. An op that runs graphs and has
several results says itself how to give fewer (``narrow``). What has an effect, as a print, stays, and what
runs a graph with one.
"""

from __future__ import annotations

from dataclasses import replace

from iverson.graph.ir.nodes import Equation, Graph, Value, subgraphs, values_of


def dead_code(graph: Graph) -> Graph:
    """The graph without the equations and constants that nothing reads."""
    live = set(values_of(graph.outputs))
    equations: list[Equation] = []
    for equation in reversed(graph.equations):
        if not live.isdisjoint(equation.results) or has_effect(equation):
            narrow = getattr(equation.op, "narrow", None)
            equations.append(equation if narrow is None else narrow(equation, live))
            live.update([x for x in equations[-1].operands if type(x) is Value])
    constants = tuple((v, array) for v, array in graph.constants if v in live)
    return Graph(graph.inputs, tuple(reversed(equations)), graph.outputs, constants)


def without_effects(graph: Graph) -> Graph:
    """The graph without effects of its own: for another run of what has had them."""
    equations = tuple(e for e in graph.equations if not getattr(e.op, "effect", False))
    return graph if len(equations) == len(graph.equations) else replace(graph, equations=equations)


def has_effect(equation: Equation) -> bool:
    """True if an equation, its graphs included, does something besides its results."""
    if getattr(equation.op, "effect", False):
        return True
    return any(has_effect(e) for _, graph in subgraphs(equation) for e in graph.equations)
