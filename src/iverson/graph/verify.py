"""What a well-formed graph is; every pass can assert its output with `check`."""

from __future__ import annotations

from typing import Any

from iverson.core.aval import Aval, has_shape
from iverson.core.errors import ArgumentError
from iverson.graph.nodes import UNDEFINED, Equation, Graph, Value, is_undefined_on, known, subgraphs

_NUMBERS = (bool, int, float, complex)


def check(graph: Graph) -> Graph:
    """The graph, if it is well formed; else raises ArgumentError.

    Every value is defined once and before it is read, in its own graph; what an op says of its results (their
    number, shapes and dtypes) is what the graph has; an operand that is undefined stands where the op takes
    one.
    """
    defined: set[Value] = set()
    for value in (*graph.inputs, *(v for v, _ in graph.constants)):
        _define(value, defined, "the inputs")
    for equation in graph.equations:
        _check_operands(equation.operands, defined, f"'{equation.op.name}'")
        for _, sub in subgraphs(equation):
            check(sub)
        _check_results(equation)
        for value in equation.results:
            _define(value, defined, f"'{equation.op.name}'")
    _check_operands(graph.outputs, defined, "return")
    return graph


def _define(value: Value, defined: set[Value], by: str) -> None:
    if value in defined:
        _fail(f"a value that {by} define again", "each value once")
    defined.add(value)


def _check_operands(operands: tuple[Any, ...], defined: set[Value], of: str) -> None:
    for x in operands:
        if type(x) is Value:
            if x not in defined:
                _fail(f"a value that {of} reads before it is defined", "the order of definition")
        elif x is not UNDEFINED and type(x) not in _NUMBERS:
            _fail(f"{x!r} as an operand of {of}", "a value, a number or undefined")


def _check_results(equation: Equation) -> None:
    op = equation.op
    if is_undefined_on(op, equation.operands):
        return
    if UNDEFINED in equation.operands and not getattr(op, "takes_undefined", False):
        _fail(f"an undefined operand of '{op.name}'", "one that is defined")
    if not all(map(has_shape, equation.operands)):
        return
    found = op.infer(*map(known, equation.operands), **equation.params)
    expected: tuple[Aval, ...] = found if op.multiple else (found,)
    if len(expected) != len(equation.results):
        _fail(f"{len(equation.results)} results of '{op.name}'", str(len(expected)))
    for value, aval in zip(equation.results, expected, strict=True):
        if aval is not None and (value.shape, value.dtype) != (aval.shape, aval.dtype):
            _fail(f"a result of '{op.name}' of type {value.aval!r}", repr(aval))


def _fail(got: str, expected: str) -> None:
    raise ArgumentError("graph", got=got, expected=expected)
