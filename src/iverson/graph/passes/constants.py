"""What depends on no input is computed now, unless that would keep much more than it saves.

%1 = constant @0
%2 = sin(%1)                ->      %2 = constant @1
%3 = multiply(%0, %2)               %3 = multiply(%0, %2)
"""

from __future__ import annotations

import warnings
from math import prod

from iverson.autograd.mode import no_grad
from iverson.core.dispatch import make_handle, value_of
from iverson.core.errors import IversonError
from iverson.graph.interpret import interpret
from iverson.graph.nodes import Equation, Graph, Value
from iverson.graph.operations import is_pure

#: Results with more entries than this, and than what they are made of, are computed when the program runs.
_SMALL = 4096


def constants(graph: Graph) -> Graph:
    """The graph with the results of constants in their place."""
    known = dict(graph.constants)
    equations: list[Equation] = []
    for equation in graph.equations:
        if not _folds(equation, known):
            equations.append(equation)
            continue
        inputs = tuple(dict.fromkeys(x for x in equation.operands if type(x) is Value))
        alone = Graph(inputs, (equation,), equation.results, ())
        try:
            with no_grad(), warnings.catch_warnings():
                warnings.simplefilter("error")
                made = interpret(alone, [make_handle(known[x]) for x in inputs])
        except (IversonError, Warning):  # it warns or raises where it runs
            equations.append(equation)
            continue
        known.update(zip(equation.results, map(value_of, made), strict=True))
    return Graph(graph.inputs, tuple(equations), graph.outputs, tuple(known.items()))


def _folds(equation: Equation, known: dict[Value, object]) -> bool:
    if not is_pure(equation):
        return False
    read = [x for x in equation.operands if type(x) is Value]
    if any(x not in known for x in read):
        return False
    size = sum(prod(v.shape) for v in equation.results)
    return bool(size <= _SMALL or size <= sum(prod(x.shape) for x in read))
