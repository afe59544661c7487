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
from iverson.graph.passes.rewriting import WRITTEN, After, Match, Rewriting, rule


def _computes_in_half(e: Equation) -> bool:
    op = e.op
    half_operands = [x for x in e.operands if type(x) is Value and dtypes.is_half(x.dtype)]
    if (
        not half_operands
        or UNDEFINED in e.operands
        or isinstance(op, GraphOp | JointOp)
        or op is TABLE["astype"]
    ):
        return False
    alike = {x.dtype for x in e.operands if type(x) is Value and dtypes.is_inexact(x.dtype)}
    return not (op.entry_map.moves and not op.signals and len(alike) == 1)


def _has_halves(graph: Graph) -> bool:
    values = [
        *graph.inputs,
        *(v for v, _ in graph.constants),
        *(v for e in graph.equations for v in e.results),
    ]
    return any(dtypes.is_half(v.dtype) for v in values)


def _widened(m: Match) -> After:
    """Write the equation in float32, with conversions around it; None if it computes in no half precision."""
    e, writer = m.equation, m.writer
    if not _computes_in_half(e):
        return None

    def single(x: Operand) -> Operand:
        if type(x) is not Value or not dtypes.is_half(x.dtype):
            return x
        wide = _wide(x)
        writer.keep(_cast(x, wide, e))
        return wide

    operands = tuple(map(single, e.operands))
    results = {v: _wide(v) for v in e.results if dtypes.is_half(v.dtype)}
    writer.keep(replace(e, operands=operands, results=tuple([results.get(v, v) for v in e.results])))
    for v, wide in results.items():
        writer.keep(_cast(wide, v, e))
    return WRITTEN


def _wide(x: Value) -> Value:
    return Value(Aval(x.shape, dtypes.widened(x.dtype), x.aval.support))


def _cast(x: Value, to: Value, e: Equation) -> Equation:
    return Equation(TABLE["astype"], (x,), {"dtype": to.dtype}, (to,), e.where)


halves = Rewriting("halves", rule("op(*xs) -> astype(op(*astype(xs)))", _widened), where=_has_halves)


__all__ = ["halves"]
