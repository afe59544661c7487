"""Writer of a graph in which some equations are replaced, shared by passes on products, sums and slices."""

from __future__ import annotations

from collections import Counter
from typing import Any

from iverson.core.aval import Aval
from iverson.graph.ir.nodes import Equation, Graph, Operand, Value, known, values_of
from iverson.graph.ir.operations import op_named


class Writer:
    """The equations and constants of a graph in the making.

    made : the equation of each value.
    reads : how often each value is read in the graph before.
    """

    def __init__(self, graph: Graph) -> None:
        self.equations: list[Equation] = []
        self.constants: dict[Value, Any] = dict(graph.constants)
        self.made: dict[Value, Equation] = {}
        self.reads = Counter(x for e in graph.equations for x in values_of(e.operands))
        self.reads.update(values_of(graph.outputs))

    def keep(self, equation: Equation) -> None:
        """An equation as it is."""
        self.equations.append(equation)
        self.made.update(dict.fromkeys(equation.results, equation))

    def constant(self, array: Any) -> Value:
        """A new constant."""
        value = Value(Aval(array.shape, array.dtype))
        self.constants[value] = array
        return value

    def graph(self, before: Graph) -> Graph:
        """The graph with these equations and constants."""
        return Graph(before.inputs, tuple(self.equations), before.outputs, tuple(self.constants.items()))

    def write(
        self, name: str, *operands: Operand, where: Any, result: Value | None = None, **params: Any
    ) -> Value:
        """A new equation; its result is a new value unless one is given."""
        op = op_named(name)
        if result is None:
            result = Value(op.infer(*map(known, operands), **params))
        self.keep(Equation(op, operands, params, (result,), where))
        return result

    def by(self, x: Operand, name: str, *, alone: bool = False) -> Equation | None:
        """The equation of a value, if it is of that op (and the value is read once, if ``alone``)."""
        found = self.made.get(x) if type(x) is Value else None
        if found is None or found.op.name != name or (alone and self.reads[x] != 1):
            return None
        return found
