"""Constant folding: equations that depend on no input are computed once, unless their results are large.

A result is large if it has many entries, and more than its operands together. An array that is a factor and
has one number everywhere becomes this number, which is no read of memory. A Python number 0.0 that is a
factor or a term becomes a constant too: tensor expressions take a number 0 for a structural zero, which
annihilates inf and nan and has no sign.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from iverson.autograd.mode import recording
from iverson.core.dispatch import make_handle, value_of
from iverson.core.errors import IversonError
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import Equation, Graph, Value, known
from iverson.graph.ir.operations import is_pure
from iverson.graph.ir.pattern_binding import names_symbols
from iverson.graph.passes.rewriting import WRITTEN, After, Match, Rewriting, Writer, rule
from iverson.layouts import is_strided

#: Results with more entries than this, and than what they are made of, are computed when the program runs.
_SMALL = 4096


def _computed(m: Match) -> After:
    """The results as constants, computed now."""
    e, constant_of = m.equation, m.writer.constants
    if not _folds(e, m.writer):
        return None
    inputs = tuple(dict.fromkeys(x for x in e.operands if type(x) is Value))
    try:
        with recording(False), warnings.catch_warnings():
            warnings.simplefilter("error")
            results = interpret(
                Graph(inputs, (e,), e.results, ()), [make_handle(constant_of[x]) for x in inputs]
            )
    except (IversonError, Warning):  # it warns or raises where it runs
        return None
    constant_of.update(zip(e.results, map(value_of, results), strict=True))
    return WRITTEN


def _folds(e: Equation, writer: Writer) -> bool:
    if not is_pure(e) or names_symbols(e):
        return False
    values = [x for x in e.operands if type(x) is Value]
    if any(x not in writer.constants for x in values):
        return False
    size = sum(prod(v.shape) for v in e.results)
    return bool(size <= _SMALL or size <= sum(prod(x.shape) for x in values))


def _with_array(m: Match) -> After:
    """The equation with arrays in place of numbers 0 that are a factor or a term of floats."""
    e = m.equation
    dtype = e.results[0].dtype
    numbers = [type(x) is not Value and isinstance(x, int | float | complex) and x == 0 for x in e.operands]
    if dtype.kind not in "fc" or not any(numbers):
        return None
    operands = [
        m.writer.constant(np.asarray(x, dtype)) if is_zero else x
        for x, is_zero in zip(e.operands, numbers, strict=True)
    ]
    return replace(e, operands=tuple(operands))


def _with_number(m: Match) -> After:
    """A product with a number in place of an array of floats that has it everywhere, if it is not 0."""
    e, constant_of = m.equation, m.writer.constants
    if constant_of.keys().isdisjoint(e.operands):
        return _with_array(m)
    (result,) = e.results
    for k, x in enumerate(e.operands):
        array: Any = constant_of.get(x) if type(x) is Value else None
        if not is_strided(array) or array.dtype.kind != "f" or array.size < 2:
            continue
        first, operands = array.flat[0].item(), list(e.operands)
        if first and (array == first).all():
            operands[k] = first
            facts = e.op.infer(*map(known, operands), **e.params)
            if (facts.shape, facts.dtype) == (result.shape, result.dtype):
                return replace(e, operands=tuple(operands))
    return _with_array(m)


constants = Rewriting(
    "constants",
    rule("multiply(*xs) -> multiply(*factors)", _with_number),
    rule("add(*xs) -> add(*arrays)", _with_array),
    rule("subtract(*xs) -> subtract(*arrays)", _with_array),
    rule("op(*xs) -> constant", _computed),
)


__all__ = ["constants"]
