"""Specialisation of a pullback to a pattern of undefined cotangents and of demanded results.

    df(%0, %1):                                 df(%1), where %0 is undefined:
      %2 = grad_of[name='mul', ...](%0, %3)
      %4 = grad_of[name='sin', ...](%1, %5)       %4 = grad_of[name='sin', ...](%1, %5)
      %6 = autograd_add(%2, %4)           ->
      return (%6)                                 return (%4)

A result that no defined cotangent reaches is undefined; equations that no demanded result reads are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iverson.core.errors import ArgumentError
from iverson.core.op import Op
from iverson.core.protocols import Params
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.nodes import UNDEFINED, Equation, Graph, Operand, Value, is_undefined_on
from iverson.graph.ir.operations import autograd_add, grad_of
from iverson.graph.ir.regions import substituted


def specialize(df: Graph, defined: Sequence[bool], needs: Sequence[bool]) -> Graph:
    """The graph for a pattern of undefined cotangents, with the demanded outputs alone.

    Parameters
    ----------
    defined : for each of the first inputs, whether it is defined; the others are. Undefined inputs are
        removed.
    needs : for each output, whether it is demanded. Outputs that are not are removed.

    Raises ArgumentError where there are more of ``defined`` than inputs, or not one of ``needs`` for each
    output.
    """
    if len(defined) > len(df.inputs) or len(needs) != len(df.outputs):
        raise ArgumentError(
            "specialize",
            got=f"{len(defined)} cotangents and {len(needs)} needs",
            expected=f"at most {len(df.inputs)} and exactly {len(df.outputs)}",
        )
    replacements: dict[Value, Operand] = {
        v: UNDEFINED for v, is_defined in zip(df.inputs, defined, strict=False) if not is_defined
    }
    equations: list[Equation] = []
    for equation in df.equations:
        operands = substituted(equation.operands, replacements)
        if equation.op is autograd_add and UNDEFINED in operands:
            a, b = operands
            replacements[equation.results[0]] = b if a is UNDEFINED else a
        elif is_undefined_on(equation.op, operands) or _is_absent(equation.op, operands, equation.params):
            replacements.update(dict.fromkeys(equation.results, UNDEFINED))
        else:
            equations.append(replace(equation, operands=operands))
    outputs = substituted([x for x, need in zip(df.outputs, needs, strict=True) if need], replacements)
    inputs = tuple(v for v in df.inputs if v not in replacements)
    return dead_code(Graph(inputs, tuple(equations), outputs, df.constants))


def _is_absent(op: Op, operands: Sequence[Operand], params: Params) -> bool:
    return op is grad_of and all(x is UNDEFINED for x in operands[: params["count"]])
