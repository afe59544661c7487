"""Random draws of bodies, made before a body runs, so that it gives the same however often it runs.

checkpoint[body=(x): %1 = random(); ...](x)    ->   %2 = random()
                                                    checkpoint[body=(x, %1): ...](x, %2)
scan[body=(c, x): %1 = random(); ...](c, xs)   ->   %2 = random(), of all steps
                                                    scan[body=(c, x, %1): ...](c, xs, %2)
"""

from __future__ import annotations

from dataclasses import replace

from iverson.core.aval import Aval
from iverson.core.dispatch import Draw
from iverson.graph.ir.nodes import Equation, Graph, Value, subgraphs
from iverson.graph.ir.operations import random

SIDES = ("on_true", "on_false")


def drawn_before(body: Graph) -> tuple[tuple[Draw, ...], Graph]:
    """Draws of a body, both sides of a branch included, and the body with their results as its last inputs.

    Draws inside of loops are not taken out: only loops with an unknown number of draws have some.
    """
    draws: list[Draw] = []
    inputs: list[Value] = []
    equations: list[Equation] = []
    for e in body.equations:
        if e.op is random:
            draws.append(e.params["draw"])
            inputs.append(e.results[0])
            continue
        if e.op.name == "cond" and draws_inside(e):
            e, branch_draws = _branch(e)
            draws += branch_draws
            inputs += e.operands[len(e.operands) - len(branch_draws) :]
        equations.append(e)
    if not draws:
        return (), body
    return tuple(draws), Graph((*body.inputs, *inputs), tuple(equations), body.outputs, body.constants)


def _branch(e: Equation) -> tuple[Equation, list[Draw]]:
    """A branch whose sides both take the draws of either side as their last operands, and these draws."""
    sides = [drawn_before(e.params[name]) for name in SIDES]
    draws = [d for side_draws, _ in sides for d in side_draws]
    count, first = len(e.operands) - 1, len(sides[0][0])
    fresh = [[Value(Aval(d.shape, d.dtype)) for d in draws] for _ in range(3)]
    (true_body, false_body), params = (side for _, side in sides), dict(e.params)
    draw_inputs = true_body.inputs[count:], false_body.inputs[count:]
    params["on_true"] = replace(
        true_body, inputs=(*true_body.inputs[:count], *draw_inputs[0], *fresh[0][first:])
    )
    params["on_false"] = replace(
        false_body, inputs=(*false_body.inputs[:count], *fresh[1][:first], *draw_inputs[1])
    )
    return replace(e, operands=(*e.operands, *fresh[2]), params=params), draws


def draws_inside(e: Equation) -> bool:
    """True if a graph of an equation draws."""
    return any(e.op is random or draws_inside(e) for _, graph in subgraphs(e) for e in graph.equations)


__all__ = ["drawn_before", "draws_inside"]
