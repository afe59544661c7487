"""Templates of graphs: the text of a graph without the numbers in it, which may become inputs.

    %2 = multiply(0.1, %1)      ->      %2 = multiply(#float, %1)       numbers: 0.1
    %3 = constant @0            ->      %3 = constant #array            arrays: that one

Two graphs with equal templates compute the same of other numbers. `with_inputs` makes the graph that takes
some of them as inputs. Numbers that decide what code is generated stay in the text: whole exponents, of
which code makes products.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import Draw
from iverson.core.errors import IversonError
from iverson.graph.ir.nodes import Equation, Graph, Operand, Value, known, subgraphs
from iverson.graph.ir.print import Printer
from iverson.layouts import Strided, Zero

#: Arrays are compared by their entries up to so many.
_SMALL = 1 << 16
_NUMBERS = (int, float)
_REAL = {np.dtype("float32"), np.dtype("float64")}
#: By op that runs bodies, the position of the operand that is the first input of each.
_BODIES = {"scan": 0, "while": 0, "checkpoint": 0, "cond": 1}

Number = int | float
DType = np.dtype[Any]
#: A number that is an input: its position, and the dtype that it is rounded to.
Input = tuple[int, DType]
#: An object that a graph's text refers to: an array, a pattern, an op.
Named = Any


class Template:
    """A graph, taken apart: ``text``, the ``objects`` that it names, ``numbers`` and strided ``arrays``."""

    def __init__(self, graph: Graph) -> None:
        printer = _Printer()
        self.text = printer.graph(graph, "")
        self.objects, self.numbers, self.arrays = printer.objects, printer.numbers, printer.arrays
        #: The numbers, as text that is equal for the same ones alone: 0.0 is not -0.0.
        self.exact = list(map(repr, self.numbers))

    def forget(self, arrays: Iterable[int]) -> None:
        """Drop the arrays at these positions, to free their memory.

        Each then differs from the array at this position of any template that still has it.
        """
        for k in arrays:
            self.arrays[k] = None

    def is_like(self, other: Template) -> bool:
        """True if two templates differ in numbers and entries of arrays only."""
        pairs = zip(self.objects, other.objects, strict=False)
        return (
            self.text == other.text
            and len(self.objects) == len(other.objects)
            and all(is_same(a, b) for a, b in pairs)
        )

    def differences(self, other: Template) -> tuple[set[int], set[int]]:
        """Positions of numbers and of arrays that differ from those of a template that is like this one."""
        numbers = {k for k, (a, b) in enumerate(zip(self.exact, other.exact, strict=True)) if a != b}
        arrays = {
            k for k, (a, b) in enumerate(zip(self.arrays, other.arrays, strict=True)) if not is_same(a, b)
        }
        return numbers, arrays


class _Printer(Printer):
    """Prints the text of a template, and collects the numbers and arrays for which it has placeholders.

    A number that may be an input is printed as ``#float`` or ``#int``, an array of the outermost graph as
    ``#array``. Numbers in bodies of `_BODIES` count too, since these bodies may get further inputs.
    """

    def __init__(self) -> None:
        super().__init__(True)
        self.numbers: list[Number] = []
        self.arrays: list[Any] = []
        self._depth = 0
        #: True for the operands of an equation whose numbers are left out.
        self._open = False
        #: True in bodies that have the inputs that they have.
        self._closed = False

    def graph(self, graph: Graph, indent: str) -> str:
        before, self._open = self._open, False
        self._depth += 1
        text = super().graph(graph, indent)
        self._depth -= 1
        self._open = before
        return text

    def equation(self, equation: Equation, indent: str) -> str:
        before = self._open, self._closed
        self._open = is_open(equation) and not self._closed
        self._closed |= equation.op.name not in _BODIES
        text = super().equation(equation, indent)
        self._open, self._closed = before
        return text

    def operand(self, x: Operand) -> str:
        if not self._open or type(x) not in _NUMBERS:
            return super().operand(x)
        self.numbers.append(x)
        return f"#{type(x).__name__}"

    def constant(self, array: Named) -> str:
        if self._depth > 1 or type(array) is not Strided:
            return super().constant(array)
        self.arrays.append(array)
        return "#array"


def is_same(a: Named, b: Named) -> bool:
    """Compare two objects that graphs name: True for one object, and for arrays of the same entries.

    >>> is_same(np.zeros(3), np.zeros(3)), is_same(np.zeros(3), -np.zeros(3))
    (True, False)
    """
    if a is b:
        return True
    if type(a) is Strided and type(b) is Strided:
        alike = (a.shape, a.dtype) == (b.shape, b.dtype) and a.size <= _SMALL
        return alike and a.tobytes() == b.tobytes()
    if type(a) is Draw and type(b) is Draw:
        return a.is_like(b)
    if type(a) is Zero and type(b) is Zero:
        return (a.shape, a.dtype) == (b.shape, b.dtype)
    return False


def is_open(equation: Equation) -> bool:
    """True where an equation's numbers may be inputs: other ones leave its code as it is."""
    exponent: Any = equation.operands[-1] if equation.op.name == "pow" else None
    is_whole = type(exponent) is int or (type(exponent) is float and exponent.is_integer())
    return equation.op.elementwise and not is_whole


def with_inputs(
    graph: Graph, numbers: Mapping[int, int], arrays: Sequence[int]
) -> tuple[Graph, list[Input]] | None:
    """The graph with some of its numbers and arrays as inputs, behind those that it has: numbers first.

    numbers : for each position in `Template.numbers` that becomes an input, the position that names this
        input. Numbers that are always equal have the same input.
    arrays : positions of `Template.arrays`.

    Returns the graph, and the position and dtype of each number that is an input. None where a number is part
    of what is computed: of a dtype, or of where the result is zero.
    """
    opening = _Opening(numbers)
    inner = opening.graph(graph)
    if inner is None:
        return None
    strided = [v for v, array in graph.constants if type(array) is Strided]
    outer = [strided[k] for k in arrays]
    inputs = (*graph.inputs, *opening.inputs.values(), *outer)
    constants = [c for c in graph.constants if c[0] not in outer]
    return Graph(inputs, inner.equations, graph.outputs, tuple(constants)), list(opening.inputs)


class _Opening:
    """Puts inputs in place of numbers, one graph after the other in the order of the text.

    numbers : as of `with_inputs`. inputs : of the graph that is open, by position and dtype.
    """

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers
        self._positions = count()
        self.inputs: dict[Input, Value] = {}

    def graph(self, graph: Graph) -> Graph | None:
        """The graph with equations that read new inputs in place of numbers; None if a number cannot be an
        input.

        The new inputs are in ``inputs``; the caller adds them to the graph that is returned.
        """
        equations = []
        for e in graph.equations:
            equation = self._equation(e)
            if equation is None:
                return None
            equations.append(equation)
        return Graph(graph.inputs, tuple(equations), graph.outputs, graph.constants)

    def _equation(self, e: Equation) -> Equation | None:
        """The equation with inputs in place of its numbers, also in its bodies; None if a number cannot be an
        input.
        """
        literals = [k for k, x in enumerate(e.operands) if type(x) in _NUMBERS] if is_open(e) else []
        at = {k: n for k in literals if (n := next(self._positions)) in self._numbers}
        if at:
            dtype = _computed_in(e)
            if dtype is None:
                return None
            values = {k: self._input(self._numbers[n], dtype) for k, n in at.items()}
            e = replace(e, operands=tuple([values.get(k, x) for k, x in enumerate(e.operands)]))
            return e if _keeps_results(e) else None
        return self._with_bodies(e) if e.op.name in _BODIES else e

    def _with_bodies(self, e: Equation) -> Equation | None:
        """The equation with further inputs in front of those of its bodies, for the numbers in them.

        None if a number in a body cannot be an input.
        """
        before, bodies = self.inputs, {}
        every: dict[Input, Value] = {}
        for name, body in sorted(subgraphs(e)):
            self.inputs = {}
            inner = self.graph(body)
            if inner is None:
                return None
            bodies[name] = inner, self.inputs
            every |= self.inputs
        self.inputs = before
        if not every:
            return e
        params = dict(e.params)
        for name, (inner, inputs) in bodies.items():
            first = tuple([inputs.get(key) or Value(v.aval) for key, v in every.items()])
            params[name] = replace(inner, inputs=(*first, *inner.inputs))
        if "consts" in params:
            params["consts"] += len(every)
        at = _BODIES[e.op.name]
        operands = (*e.operands[:at], *(self._input(*key) for key in every), *e.operands[at:])
        return replace(e, operands=operands, params=params)

    def _input(self, position: int, dtype: DType) -> Value:
        key = position, dtype
        return self.inputs.setdefault(key, Value(Aval((), dtype)))


def _computed_in(e: Equation) -> DType | None:
    """The dtype that an equation's numbers are rounded to: float32, float64, integers; None for others."""
    values: Iterator[Value] = (x for x in (*e.operands, *e.results) if type(x) is Value)
    all_dtypes = {v.dtype for v in values if v.dtype.kind != "b"}
    inexact = {dtype for dtype in all_dtypes if dtypes.is_inexact(dtype)}
    if inexact:
        return next(iter(inexact)) if len(inexact) == 1 and inexact <= _REAL else None
    of_integers = all(type(x) is not float for x in e.operands)
    return next(iter(all_dtypes)) if len(all_dtypes) == 1 and of_integers else None


def _keeps_results(e: Equation) -> bool:
    """True where an equation's results have the shapes, dtypes and supports that they had with numbers."""
    try:
        result = e.op.infer(*map(known, e.operands), **e.params)
    except (IversonError, TypeError, ValueError):
        return False
    avals = result if e.op.multiple else (result,)
    facts = [(a.shape, a.dtype, a.support) for a in avals]
    return facts == [(v.shape, v.dtype, v.aval.support) for v in e.results]


__all__ = ["Input", "Number", "Template", "is_same", "with_inputs"]
