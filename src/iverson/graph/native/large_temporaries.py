"""Large temporaries: tensor expressions that need them are left to their op, which runs block by block.

    %3 = te.f.vjp.0(%0, %1, %2)        (%3, %4) = te.f.vjp.0.1(%0, %1, %2)
    %4 = te.f.vjp.1(%0, %1, %2)   ->

A program computes a temporary as a whole. So an expression whose temporaries would take far more memory than
its operands and results (`iverson.te.rewrites.axis_blocks`) is a library step. Gradients of one op that a
trace has taken apart are one op again, since each would compute the same blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from iverson.core.op import frozen
from iverson.core.python.exact_keys import exact
from iverson.graph.ir.nodes import Equation, Graph, Value
from iverson.te.ops.operator import Expression, expression_of
from iverson.te.rewrites.axis_blocks import is_large


def runs_in_blocks(e: Equation) -> bool:
    """True if an equation is an op of a user's index notation whose temporaries are large."""
    expression = expression_of(e.op)
    if expression is None or any(type(x) is not Value for x in e.operands):
        return False
    return is_large(expression.compiled(e.operands, dict(e.params)).program)


def gradients_together(graph: Graph) -> Graph:
    """The graph with one equation for the gradients of one op that would each run in blocks."""
    groups: dict[Any, list[Equation]] = {}
    for e in graph.equations:
        expression = expression_of(e.op)
        if expression is not None and expression.gradient is not None and not expression.multiple:
            of, _, defined = expression.gradient
            groups.setdefault((of, defined, exact(e.operands), frozen(e.params)), []).append(e)
    new: dict[Equation, Equation | None] = {}
    for (of, defined, *_), group in groups.items():
        if len(group) > 1 and runs_in_blocks(group[0]):
            joint = _together(of, defined, group)
            new |= dict.fromkeys(group) | {group[0]: joint}
    if not new:
        return graph
    equations = [new.get(e, e) for e in graph.equations]
    return replace(graph, equations=tuple([e for e in equations if e is not None]))


def _together(of: Expression, defined: tuple[int, ...], group: Sequence[Equation]) -> Equation:
    """One equation that computes the gradients of all equations in ``group``, and has their results."""
    results: dict[int, Value] = {}
    for e in group:
        expression = expression_of(e.op)
        assert expression is not None
        assert expression.gradient is not None
        ((i,), (y,)) = expression.gradient[1], e.results
        results[i] = y
    numbers = tuple(sorted(results))
    return replace(
        group[0], op=of.gradients(numbers, defined).op, results=tuple([results[i] for i in numbers])
    )


__all__ = ["gradients_together", "runs_in_blocks"]
