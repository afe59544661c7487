"""Printer of graphs: text that `iverson.graph.parse` reads back."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from iverson.core.aval import Aval, has_shape
from iverson.core.entries import FULL, NOTHING, Box, Bracket, Stored
from iverson.core.op import Op
from iverson.core.protocols import LayoutValue
from iverson.graph.ir.nodes import UNDEFINED, AnyOperand, Equation, Graph, Value
from iverson.graph.ir.operations import is_of_the_library
from iverson.layouts import Pattern

_PLAIN = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
_WRITTEN = (bool, int, float, complex, str, type(None))


def show(graph: Graph, *, types: bool = True) -> str:
    """The text of a graph; without ``types`` (which can't be parsed) only inputs have theirs.

    Ops of users are those that have the name now; in `text_and_objects` they are objects besides.
    """
    return Printer(types, named=True).graph(graph, "")


# Below this module nothing can write a graph, and nodes know no texts.
Graph.__str__ = show  # type: ignore[assignment,method-assign]


def numbers(graph: Graph) -> set[int]:
    """The numbers that occur anywhere in a graph's text: in names of values, extents and parameters."""
    return set(map(int, re.findall(r"\d+", text_and_objects(graph)[0])))


def text_and_objects(graph: Graph) -> tuple[str, list[Any]]:
    """The text of a graph and the objects for ``@k`` in it: the arguments of `parse`."""
    printer = Printer(True)
    return printer.graph(graph, ""), printer.objects


def type_text(aval: Aval, refer: Callable[[Pattern], str] = repr) -> str:
    """The type of a value: dtype, extents, and the support unless it is everything.

    >>> type_text(Aval((2, 3), np.dtype("float64")))
    'float64[2, 3]'
    """
    shape = ", ".join(map(str, aval.shape)) if has_shape(aval) else repr(aval.shape)
    support = aval.support
    if support is FULL:
        return f"{_dtype_text(aval.dtype)}[{shape}]"
    if support is NOTHING:
        kind = "nothing"
    elif isinstance(support, Box):
        kind = f"box {support.region.start} {support.region.stop}"
    elif isinstance(support, Stored):
        kind = f"stored {refer(support.pattern)}"
    else:
        assert isinstance(support, Bracket)
        kind = "bracket"
    return f"{_dtype_text(aval.dtype)}[{shape}] {kind}"


#: NumPy takes several calls for the name of a dtype.
_dtype_text = cache(str)


class Printer:
    """Numbers values as they are defined, and objects as they are met.

    named : whether the text has the name alone for an op of users, although several may have that name.
    """

    def __init__(self, types: bool, named: bool = False) -> None:
        self.types, self.named = types, named
        self.names: dict[Value, str] = {}
        self.objects: list[Any] = []
        self.places: dict[int, int] = {}
        self._numbers = count()

    def graph(self, graph: Graph, indent: str) -> str:
        inputs = ", ".join(self._defined(v, typed=True) for v in graph.inputs)
        lines = [f"graph({inputs}) {{"]
        lines += [
            f"{indent}  {self._defined(v, typed=True)} = constant {self.constant(array)}"
            for v, array in graph.constants
        ]
        lines += [f"{indent}  {self.equation(e, indent + '  ')}" for e in graph.equations]
        lines.append(f"{indent}  return ({', '.join(map(self.operand, graph.outputs))})")
        return "\n".join([*lines, f"{indent}}}"])

    def equation(self, equation: Equation, indent: str) -> str:
        operands = ", ".join(map(self.operand, equation.operands))
        params = ", ".join(f"{k}={self.param(v, indent)}" for k, v in sorted(equation.params.items()))
        results = ", ".join(self._defined(v, typed=self.types) for v in equation.results)
        return f"{results} = {self.op(equation.op)}{f'[{params}]' if params else ''}({operands})"

    def constant(self, array: LayoutValue) -> str:
        """The text of the array of a constant."""
        return self._reference(array)

    def op(self, op: Op) -> str:
        """Text of an op: its name, and a reference after it if the name does not identify the op."""
        name = op.name if _PLAIN.fullmatch(op.name) else repr(op.name)
        return name if self.named or is_of_the_library(op) else name + self._reference(op)

    def operand(self, x: AnyOperand) -> str:
        if type(x) is Value:
            return self.names[x]
        return "undefined" if x is UNDEFINED else self.param(x, "")

    def param(self, x: Any, indent: str) -> str:
        """A parameter as a Python expression, a graph or a reference."""
        if isinstance(x, Graph):
            return self.graph(x, indent)
        if type(x) is tuple or type(x) is list:
            inner = ", ".join(self.param(part, indent) for part in x)
            if type(x) is list:
                return f"[{inner}]"
            return f"({inner},)" if len(x) == 1 else f"({inner})"
        if isinstance(x, slice):
            return f"slice({x.start}, {x.stop}, {x.step})"
        if x is Ellipsis:
            return "..."
        if isinstance(x, np.dtype):
            return f"dtype('{x}')"
        return repr(x) if x.__class__ in _WRITTEN else self._reference(x)

    def _reference(self, x: Any) -> str:
        if id(x) not in self.places:
            self.places[id(x)] = len(self.objects)
            self.objects.append(x)
        return f"@{self.places[id(x)]}"

    def _defined(self, value: Value, *, typed: bool) -> str:
        """A value where it is defined; one that is an operand outside and an input inside has one name."""
        name = self.names.get(value) or f"%{next(self._numbers)}"
        self.names[value] = name
        return f"{name}: {type_text(value.aval, self._reference)}" if typed else name
