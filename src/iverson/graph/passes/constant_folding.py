"""Constant folding: equations that depend on no input are computed once, unless their results are large.

%1 = constant @0
%2 = sin(%1)                ->      %2 = constant @1
%3 = multiply(%0, %2)               %3 = multiply(%0, %2)

A result is large if it has many entries, and more than its operands together. A Python number 0.0 that is a
factor or a term becomes a constant too: tensor expressions take a number 0 for a structural zero, which
annihilates inf and nan and has no sign.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import prod

import numpy as np

from iverson.autograd.mode import recording
from iverson.core.aval import aval_of
from iverson.core.dispatch import make_handle, value_of
from iverson.core.errors import IversonError
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import Equation, Graph, Operand, Value
from iverson.graph.ir.operations import is_pure
from iverson.graph.ir.pattern_binding import names_symbols

#: Results with more entries than this, and than what they are made of, are computed when the program runs.
_SMALL = 4096


def constants(graph: Graph) -> Graph:
    """The graph with the results of constants in their place."""
    known = dict(graph.constants)
    equations: list[Equation] = []
    for equation in graph.equations:
        equation = _without_zeros(equation, known)
        if not _folds(equation, known):
            equations.append(equation)
            continue
        inputs = tuple(dict.fromkeys(x for x in equation.operands if type(x) is Value))
        alone = Graph(inputs, (equation,), equation.results, ())
        try:
            with recording(False), warnings.catch_warnings():
                warnings.simplefilter("error")
                made = interpret(alone, [make_handle(known[x]) for x in inputs])
        except (IversonError, Warning):  # it warns or raises where it runs
            equations.append(equation)
            continue
        known.update(zip(equation.results, map(value_of, made), strict=True))
    return Graph(graph.inputs, tuple(equations), graph.outputs, tuple(known.items()))


def _without_zeros(e: Equation, known: dict[Value, object]) -> Equation:
    """An equation with constants for the numbers 0 that are a factor or a term of floats."""
    dtype = e.results[0].dtype if e.results else None
    if e.op.name not in ("multiply", "add", "subtract") or dtype is None or dtype.kind not in "fc":
        return e
    operands: list[Operand] = []
    before = len(known)
    for x in e.operands:
        if isinstance(x, int | float | complex) and x == 0:
            zero = np.asarray(x, dtype)
            x = Value(aval_of(zero))
            known[x] = zero
        operands.append(x)
    return e if len(known) == before else replace(e, operands=tuple(operands))


def _folds(equation: Equation, known: dict[Value, object]) -> bool:
    if not is_pure(equation) or names_symbols(equation):
        return False
    read = [x for x in equation.operands if type(x) is Value]
    if any(x not in known for x in read):
        return False
    size = sum(prod(v.shape) for v in equation.results)
    return bool(size <= _SMALL or size <= sum(prod(x.shape) for x in read))
