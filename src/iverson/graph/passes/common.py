"""Equations that compute the same are computed once.

    %1 = sin(%0)
    %2 = sin(%0)                ->      %1 = sin(%0)
    %3 = multiply(%1, %2)               %3 = multiply(%1, %1)

The same op with the same parameters on the same operands is the same, unless it draws random numbers or runs
code of the user's. Constants that hold the same entries are one.
"""

from __future__ import annotations

from typing import Any

from iverson.core.op import frozen
from iverson.graph.nodes import Equation, Graph, Operand, Value
from iverson.graph.operations import is_pure
from iverson.graph.regions import rewritten, substituted
from iverson.layouts import Strided

#: Constants with more entries are compared by identity alone.
_SMALL = 4096


def common(graph: Graph) -> Graph:
    """The graph in which nothing is computed twice."""
    known: dict[Value, Operand] = {}
    seen: dict[Any, tuple[Value, ...]] = {}
    constants = []
    for value, held in graph.constants:
        key = _constant_key(held)
        if key in seen:
            known[value] = seen[key][0]
        else:
            seen[key] = (value,)
            constants.append((value, held))
    equations: list[Equation] = []
    for equation in graph.equations:
        made = rewritten(equation, known)
        key = _key(made)
        if key is None or key not in seen:
            equations.append(made)
            if key is not None:
                seen[key] = made.results
        else:
            known.update(zip(equation.results, seen[key], strict=True))
    return Graph(graph.inputs, tuple(equations), substituted(graph.outputs, known), tuple(constants))


def _key(equation: Equation) -> Any:
    """What tells equations apart; None for one that is not pure, or whose parameters can't be compared."""
    if not is_pure(equation):
        return None
    operands = tuple(x if type(x) is Value else (type(x), repr(x)) for x in equation.operands)
    key = equation.op, operands, frozen(equation.params)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _constant_key(held: Any) -> Any:
    if type(held) is Strided and held.size <= _SMALL:
        return held.shape, held.dtype, held.tobytes()
    return id(held)
