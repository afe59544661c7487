"""Verifier of graphs: `check` raises for one that is not well formed; passes can assert their output."""

from __future__ import annotations

from typing import NoReturn

from iverson.core.aval import Aval, has_shape
from iverson.core.errors import ArgumentError, IversonError
from iverson.graph.ir.nodes import (
    UNDEFINED,
    AnyOperand,
    Equation,
    Graph,
    Value,
    is_undefined_on,
    known,
    subgraphs,
)

_NUMBERS = (bool, int, float, complex)


def check(graph: Graph) -> Graph:
    """The graph, if it is well formed; else raises ArgumentError.

    Every value is defined once and before it is read, in its own graph; the results that an op infers (their
    number, shapes and dtypes) are those of the graph; an undefined operand stands only where the op takes
    one.
    """
    defined: set[Value] = set()
    for value in (*graph.inputs, *(v for v, _ in graph.constants)):
        _define(value, defined, "the inputs")
    for equation in graph.equations:
        _check_operands(equation.operands, defined, f"'{equation.op.name}'")
        for _, sub in subgraphs(equation):
            check(sub)
        _check_bodies(equation)
        _check_results(equation)
        for value in equation.results:
            _define(value, defined, f"'{equation.op.name}'")
    _check_operands(graph.outputs, defined, "return")
    return graph


def _define(value: Value, defined: set[Value], by: str) -> None:
    if value in defined:
        _fail(f"a value that {by} define again", "each value once")
    defined.add(value)


def _check_operands(operands: tuple[AnyOperand, ...], defined: set[Value], of: str) -> None:
    for x in operands:
        if type(x) is Value:
            if x not in defined:
                _fail(f"a value that {of} reads before it is defined", "the order of definition")
        elif x is not UNDEFINED and type(x) not in _NUMBERS:
            _fail(f"{x!r} as an operand of {of}", "a value, a number or undefined")


def _check_results(equation: Equation) -> None:
    """Check that the op infers as many results, and of the same shapes and dtypes, as the equation has."""
    op = equation.op
    try:
        expected = _results_of(equation)
    except IversonError:
        raise
    except Exception as error:  # a rule that counts on its operands and parameters
        actual = (
            f"operands and parameters of '{op.name}' that it does not take ({type(error).__name__}: {error})"
        )
        _fail(actual, "those that a trace writes down", error)
    if expected is None:
        return
    if len(expected) != len(equation.results):
        _fail(f"{len(equation.results)} results of '{op.name}'", str(len(expected)))
    for value, aval in zip(equation.results, expected, strict=True):
        if aval is not None and (value.shape, value.dtype) != (aval.shape, aval.dtype):
            _fail(f"a result of '{op.name}' of type {value.aval!r}", repr(aval))


def _results_of(equation: Equation) -> tuple[Aval, ...] | None:
    """Avals that the op infers for its results; None where it infers none."""
    op = equation.op
    if is_undefined_on(op, equation.operands):
        return None
    if UNDEFINED in equation.operands and not getattr(op, "takes_undefined", False):
        _fail(f"an undefined operand of '{op.name}'", "one that is defined")
    if not all(map(has_shape, equation.operands)):
        return None
    avals = op.infer(*map(known, equation.operands), **equation.params)
    return tuple(avals) if op.multiple else (avals,)


#: By op, how many operands come before those that its bodies have as inputs.
_BODIES = {"checkpoint": 0, "cond": 1, "grad_of": 0, "when": 1, "while": 0, "scan": 0}


def _check_bodies(equation: Equation) -> None:
    """Check that the operands that an op passes to its bodies have the types of the bodies' inputs."""
    op = equation.op
    if op.name not in _BODIES:
        return
    operands = equation.operands[_BODIES[op.name] :]
    for name, body in subgraphs(equation):
        if len(operands) != len(body.inputs):
            _fail(
                f"{len(operands)} operands for '{name}' of '{op.name}'", f"{len(body.inputs)}, one an input"
            )
        unsliced = (
            len(operands) if op.name != "scan" else equation.params["consts"] + equation.params["carry"]
        )
        for k, (x, v) in enumerate(zip(operands, body.inputs, strict=True)):
            if type(x) is not Value or not (has_shape(x) and has_shape(v)):
                continue
            shape = x.shape if k < unsliced else x.shape[1:]  # a scan hands over one entry of the others
            if (shape, x.dtype) != (v.shape, v.dtype):
                _fail(f"an operand of '{op.name}' of type {x.aval!r}", f"{v.aval!r}, as '{name}' has it")


def _fail(actual: str, expected: str, cause: Exception | None = None) -> NoReturn:
    raise ArgumentError("graph", got=actual, expected=expected) from cause
