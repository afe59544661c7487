"""Shape inference: gives shapes to a graph that was traced without them, and runs rules that waited for them.

    graph(%0: float64[*]) {                         graph(%0: float64[2]) {
      %1: float64[*] = sin(%0)              ->        %1: float64[2] = sin(%0)
      %3: ... = grad_of[body=... pullback ...](...)   %3: ... = grad_of[body=... the rules ...](...)

Each equation is written again on values of known shape; in a pullback region, a `pullback` that waited
becomes the equations of its rules. Regions, sums and undefined values stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from iverson.autograd.mode import recording
from iverson.autograd.record import selected
from iverson.core.aval import Aval
from iverson.core.errors import ArgumentError
from iverson.graph.derivatives.differentiation import Gradient, captured, region
from iverson.graph.derivatives.specialization import specialize
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.interpret import evaluated, interpret
from iverson.graph.ir.nodes import UNDEFINED, Argument, Equation, Graph, Operand, Value, values_of
from iverson.graph.ir.operations import autograd_add, defined, defined_or_zero, grad_of, when
from iverson.graph.tracing.captured_state import aval_of
from iverson.graph.tracing.trace import Trace


def with_shapes(graph: Graph, avals: Sequence[Aval]) -> Graph:
    """The graph on inputs with these shapes, dtypes and supports.

    Raises ArgumentError unless there is one aval for each input, and as ops do where shapes do not fit.
    """
    if len(avals) != len(graph.inputs):
        raise ArgumentError(
            "with_shapes", "avals", got=f"{len(avals)} of them", expected=f"{len(graph.inputs)}, one an input"
        )
    level = Trace("with_shapes")

    def each(e: Equation, handles: dict[Value, Argument]) -> Sequence[Any]:
        if e.op not in _KEPT:
            return evaluated(e, handles)
        arguments = [handles[x] if type(x) is Value else x for x in e.operands]
        operands = [level.operand(x) for x in arguments]
        if e.op is grad_of or e.op is when:
            results = pulled(e, arguments, operands)
        else:
            results = _again(level, e, operands)
        return [x if x is UNDEFINED else level.handle(x) for x in results]

    def pulled(e: Equation, arguments: Sequence[Argument], operands: Sequence[Operand]) -> Sequence[Operand]:
        """Write a region again on new operands; its results, or UNDEFINED for those without a cotangent."""
        first, count, name = int(e.op is when), e.params["count"], e.params["name"]
        cotangents = operands[first : first + count]
        if not values_of(cotangents):
            return [UNDEFINED] * len(e.results)
        with level.region() as body:
            outputs = [level.operand(x) for x in interpret(e.params["body"], arguments[first:], each)]
        defined_outputs = [x for x in outputs if x is not UNDEFINED]
        results = iter(
            region(level, e.op, name, body, cotangents, defined_outputs, e.where, operands[:first])
        )
        return [x if x is UNDEFINED else next(results) for x in outputs]

    with level, recording(False):
        outputs = interpret(graph, [level.input(a) for a in avals], each)
        return dead_code(level.rewritten([x if x is UNDEFINED else selected(x) for x in outputs]))


#: Ops that stay as they are, since a call may leave cotangents undefined.
_KEPT = (grad_of, when, autograd_add, defined, defined_or_zero)


def _again(level: Trace, e: Equation, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Write an equation with one result again, with new avals; returns a sequence with this result.

    Nothing is written if an undefined operand decides the result: then it is the other operand, or UNDEFINED.
    """
    if e.op is autograd_add and UNDEFINED in operands:
        a, b = operands
        return [b if a is UNDEFINED else a]
    if e.op is defined_or_zero and operands[0] is UNDEFINED:
        return [UNDEFINED]
    aval = e.op.abstract(*(x.aval if type(x) is Value else x for x in operands), **e.params)
    level.equations.append(Equation(e.op, tuple(operands), e.params, (Value(aval),), e.where))
    return level.equations[-1].results


def gradient_with_shapes(gradient: Gradient, avals: Sequence[Aval]) -> Gradient:
    """The gradient on inputs with these avals, as `differentiate` makes it for such inputs.

    Values that waiting pullbacks captured, and that no rule reads, are captured no more.
    """
    f = with_shapes(gradient.f, avals)
    output_numbers: set[int] = set(range(gradient.f_real_outputs))
    while True:  # a residual that is kept may get a cotangent, of which a rule may read others
        vjps = [k for k in gradient.df_input_vjps if k in output_numbers]
        slots = [k in output_numbers for k in gradient.df_input_vjps]
        df = specialize(gradient.df, slots, [True] * len(gradient.df.outputs))
        reads = captured(gradient.captures, f.inputs, f.outputs)
        df_avals = [f.outputs[k].aval for k in vjps]
        df_avals += [x.aval if type(x) is Value else aval_of(x) for x in reads]
        df = with_shapes(df, df_avals)
        read_values = set(values_of(df.outputs)).union(*(values_of(e.operands) for e in df.equations))
        inputs = zip(gradient.captures, df.inputs[len(vjps) :], strict=True)
        captures = [(c, v) for c, v in inputs if v in read_values]
        extra_outputs = {k for (kind, k), _ in captures if kind == "output"} - output_numbers
        if not extra_outputs:
            break
        output_numbers |= extra_outputs
    number = {k: n for n, k in enumerate(sorted(output_numbers))}
    return Gradient(
        dead_code(replace(f, outputs=tuple([f.outputs[k] for k in number]))),
        replace(df, inputs=(*df.inputs[: len(vjps)], *(v for _, v in captures))),
        gradient.f_real_outputs,
        tuple([(kind, number[k] if kind == "output" else k) for (kind, k), _ in captures]),
        tuple([number[k] for k in vjps]),
        gradient.df_output_vjps,
    )
