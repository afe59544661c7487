"""Costs of derivative rules: each is run in a trace of its own, whose equations are added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iverson.autograd import engine
from iverson.autograd.mode import recording
from iverson.autograd.node import Node, leaf, make_node
from iverson.core.aval import Aval
from iverson.core.counting import cost
from iverson.core.counting.cost import Cost
from iverson.core.dispatch import value_of
from iverson.core.dtypes import is_inexact
from iverson.core.entries import FULL, NOTHING, Bracket, Entries
from iverson.core.errors import IversonError
from iverson.core.op import frozen
from iverson.graph.ir.nodes import Equation, Graph, Value
from iverson.graph.tracing.trace import Trace
from iverson.layouts import layouts_by_type, support_of


class RuleCosts:
    """Costs of rules, computed once for equal calls."""

    def __init__(self) -> None:
        self._known: dict[Any, Cost] = {}

    def of(self, node: Node, k: int, part: Entries = FULL, beside: Sequence[int] = ()) -> Cost:
        """Cost of the cotangent of argument ``k`` of a node, from a dense cotangent of the node's result.

        part : the entries of the cotangent that are computed, by default all.
        beside : arguments whose cotangents are computed too; work shared with them is not counted.

        A rule that cannot be traced has no cost.
        """
        if part is NOTHING:
            return Cost()
        demands: dict[int, Entries] = dict.fromkeys(beside, FULL)
        total = self._of_all(node, {**demands, k: part})
        return total.beyond(self._of_all(node, demands)) if beside else total

    def _of_all(self, node: Node, demands: dict[int, Entries]) -> Cost:
        key = node.op, frozenset(demands.items()), tuple(map(_known, node.args)), frozen(node.params)
        try:
            result = self._known.get(key)
        except TypeError:  # a parameter without a hash
            return _cost(node, demands)
        if result is None:
            result = self._known[key] = _cost(node, demands)
        return result


def _cost(node: Node, demand_of: dict[int, Entries]) -> Cost:
    """Cost of the cotangents that ``demand_of`` asks for, by argument numbers; no cost if the rule cannot be
    traced.
    """
    demands = tuple(demand_of.get(i, NOTHING) for i in range(len(node.args)))
    level = Trace("rule")
    try:
        with recording(False), level:
            pulled = engine._cotangents(_in(level, node), _cotangent(level, node), demands, False)
            for _, ct in pulled:
                engine._multiplied(ct)
    except IversonError:
        return Cost()
    return sum(map(of_equation, level.equations), Cost())


def of_equation(equation: Equation, *, dense: bool = False) -> Cost:
    """Cost of an equation by the types of its operands and results, or by their shapes alone if ``dense``.

    An equation that runs one graph costs the sum of the graph's equations, times its ``length``. One that
    runs several (a branch, a loop with a condition) has no cost, since the number of runs is not known.
    """
    bodies = [p for p in equation.params.values() if isinstance(p, Graph)]
    if bodies:  # of several, a branch is not known, nor how often a loop runs
        once = sum((of_equation(e, dense=dense) for e in bodies[0].equations), Cost())
        return once * equation.params.get("length", 1) if len(bodies) == 1 else Cost()
    operands = [x.aval if type(x) is Value else x for x in equation.operands]
    results = [v.aval for v in equation.results]
    return cost.of(equation.op, operands, results, equation.params, dense=dense)


def _known(operand: Any) -> Any:
    """Key of an operand for costs: shape, dtype and support of an array; the type of another value."""
    if isinstance(operand, Aval):
        return operand.shape, operand.dtype, _lasting(operand.support)
    if type(operand) in layouts_by_type:
        return operand.shape, operand.dtype, _lasting(support_of(operand))
    return type(operand)


def _lasting(support: Entries) -> Entries:
    return FULL if isinstance(support, Bracket) else support


def _in(level: Trace, node: Node) -> Node:
    """Copy of ``node`` with inputs of the trace ``level`` in place of its floating operands and results."""

    def traced(operand: Any) -> Any:
        if not hasattr(operand, "dtype") or not is_inexact(operand.dtype):
            return operand
        support = operand.support if isinstance(operand, Aval) else support_of(operand)
        return value_of(level.input(Aval(operand.shape, operand.dtype, _lasting(support))))

    args = tuple(map(traced, node.args))
    parents = tuple([leaf(a.shape, a.dtype) if hasattr(a, "dtype") else None for a in args])
    out = tuple(map(traced, node.out)) if node.multiple else traced(node.out)
    return make_node(node.op, args, node.params, parents, (0,) * len(args), out, None)


def _cotangent(level: Trace, node: Node) -> Any:
    count = len(node.out) if node.multiple else 1
    values = tuple([level.input(node.result(k)) for k in range(count)])
    return values if node.multiple else values[0]
