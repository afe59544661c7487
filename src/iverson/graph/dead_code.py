"""Equations whose results nobody reads.

    %1 = sin(%0)
    %2 = cos(%0)        ->      %2 = cos(%0)
    return (%2)                 return (%2)

Unread constants go too; inputs stay, since callers give them by position. Of a pullback that gives several
results, those that are read stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from iverson.graph.nodes import Equation, Graph, Value, values_of


def dead_code(graph: Graph) -> Graph:
    """The graph without what is not read."""
    read = set(values_of(graph.outputs))
    kept: list[Equation] = []
    for equation in reversed(graph.equations):
        if not read.isdisjoint(equation.results):
            kept.append(equation if equation.op.name != "grad_of" else _narrowed(equation, read))
            read.update(values_of(kept[-1].operands))
    constants = tuple((v, array) for v, array in graph.constants if v in read)
    return Graph(graph.inputs, tuple(reversed(kept)), graph.outputs, constants)


def _narrowed(equation: Equation, read: set[Value]) -> Equation:
    """A pullback of which only the results that are read are computed, from what they need."""
    params: dict[str, Any] = dict(equation.params)
    at = [k for k, v in enumerate(equation.results) if v in read]
    body: Graph = params["body"]
    count = params["count"]
    body = dead_code(replace(body, outputs=tuple(body.outputs[k] for k in at)))
    used = set(values_of(body.outputs)).union(*(values_of(e.operands) for e in body.equations))
    inputs = [k for k, v in enumerate(body.inputs) if k < count or v in used]
    params["body"] = replace(body, inputs=tuple(body.inputs[k] for k in inputs))
    operands = tuple(equation.operands[k] for k in inputs)
    return replace(equation, operands=operands, params=params, results=tuple(equation.results[k] for k in at))
