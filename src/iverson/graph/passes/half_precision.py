"""Half precision: equations on float16 or bfloat16 compute in float32 and round their results.

                                        %1: float32 = astype[float32](%0)
    %1: float16 = sin(%0: float16)  ->  %2: float32 = sin(%1)
                                        %3: float16 = astype[float16](%2)

Eager code does the same (`iverson.kernels.kernel_registry`) and rounds at the same places, so that a compiled
function gives what the function gives. In loops a conversion is an instruction or a few. Ops that take half
precision as it is stored stay as they are: those that move entries, conversions, and ops that run graphs.
"""

from __future__ import annotations

from dataclasses import replace

from iverson.autograd.joint_ops import JointOp
from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.table import TABLE
from iverson.graph.ir.nodes import UNDEFINED, Equation, Graph, Operand, Value
from iverson.graph.ir.operations import GraphOp


def halves(graph: Graph) -> Graph:
    """The graph in which only what stores has values of half precision."""
    if not any(dtypes.is_half(v.dtype) for v in _values(graph)):
        return graph
    equations: list[Equation] = []
    for e in graph.equations:
        equations += _widened(e) if _computes_in_half(e) else (e,)
    return replace(graph, equations=tuple(equations))


def _values(graph: Graph) -> list[Value]:
    return [*graph.inputs, *(v for v, _ in graph.constants), *(v for e in graph.equations for v in e.results)]


def _computes_in_half(e: Equation) -> bool:
    op = e.op
    given = [x for x in e.operands if type(x) is Value and dtypes.is_half(x.dtype)]
    if not given or UNDEFINED in e.operands or isinstance(op, GraphOp | JointOp) or op is TABLE["astype"]:
        return False
    alike = {x.dtype for x in e.operands if type(x) is Value and dtypes.is_inexact(x.dtype)}
    return not (op.entry_map.moves and not op.signals and len(alike) == 1)


def _widened(e: Equation) -> list[Equation]:
    before: list[Equation] = []
    after: list[Equation] = []

    def single(x: Operand) -> Operand:
        if type(x) is not Value or not dtypes.is_half(x.dtype):
            return x
        before.append(_cast(x, _wide(x), e))
        return before[-1].results[0]

    def rounded(x: Value) -> Value:
        if not dtypes.is_half(x.dtype):
            return x
        wide = _wide(x)
        after.append(_cast(wide, x, e))
        return wide

    operands, results = tuple(map(single, e.operands)), tuple(map(rounded, e.results))
    return [*before, replace(e, operands=operands, results=results), *after]


def _wide(x: Value) -> Value:
    return Value(Aval(x.shape, dtypes.widened(x.dtype), x.aval.support))


def _cast(x: Value, to: Value, e: Equation) -> Equation:
    return Equation(TABLE["astype"], (x,), {"dtype": to.dtype}, (to,), e.where)


__all__ = ["halves"]
