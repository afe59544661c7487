"""Undefined cotangents as zeros with flags: the branches that `lower_grad_of` writes, as programs take them.

    %4 = defined(%0, %1)               ->      %4 = logical_or(%flag0, %flag1)
    %5, %6 = when[body=...](%4, %0)    ->      %5, %6 = cond[on_true=body, on_false=zeros](%4, %0)
    %7 = autograd_add(%5, %1)          ->      %7 = add_n(%5, %1)
    %8 = defined_or_zero(%0)           ->      %0

A value that may be undefined has a flag that says whether it is defined; if not, it is zeros, which only sums
read. Flags are inputs of the new graph, after its own, and outputs of it for outputs that may be undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from iverson.core.aval import Aval, has_shape
from iverson.core.op import Op
from iverson.core.protocols import LayoutValue
from iverson.core.table import TABLE
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.nodes import UNDEFINED, Equation, Graph, Operand, Undefined, Value
from iverson.graph.ir.operations import autograd_add, defined, defined_or_zero, op_named, when, zero_constant
from iverson.graph.ir.regions import substituted
from iverson.layouts import Zero

FLAG = Aval((), np.dtype(bool))


@dataclass(frozen=True, eq=False)
class OnFlags:
    """A graph in which all is defined, the core, and the conversion of calls of the original graph to it.

    optional : inputs that may be undefined, by number. core : has a flag for each of them after its inputs.
    gives : each output of the graph: UNDEFINED, or two numbers of outputs of the core, its value and the
        flag that says whether it is defined (None: it is).
    """

    core: Graph
    optional: tuple[int, ...]
    gives: tuple[Any, ...]

    def opened(self, values: Sequence[LayoutValue | Undefined]) -> list[Any]:
        """Values for the core's inputs, from those for the graph's."""
        defined_values = [
            Zero(v.shape, v.dtype) if x is UNDEFINED else x
            for x, v in zip(values, self.core.inputs, strict=False)
        ]
        return [*defined_values, *(np.asarray(values[k] is not UNDEFINED) for k in self.optional)]

    def packed(self, made: Sequence[LayoutValue]) -> list[Any]:
        """The graph's outputs, from the core's."""
        return [
            made[g[0]] if g is not UNDEFINED and (g[1] is None or made[g[1]]) else UNDEFINED
            for g in self.gives
        ]


def on_flags(graph: Graph) -> OnFlags | None:
    """The graph on values and flags; None for one in which all is defined, or of unknown shapes."""
    if not any(e.op.name in RULES for e in graph.equations):
        return None
    has_shapes = all(map(has_shape, (*graph.inputs, *(v for e in graph.equations for v in e.results))))
    return _Flagging(graph).run() if has_shapes else None


@dataclass(eq=False)
class _Flagging:
    """The equations of the new graph.

    now : operands in place of values. flags : for each value that may be undefined, the flag that is true
        if it is defined.
    """

    graph: Graph
    equations: list[Equation] = field(default_factory=list)
    now: dict[Value, Operand] = field(default_factory=dict)
    flags: dict[Operand, Value] = field(default_factory=dict)
    where: Any = None

    def run(self) -> OnFlags:
        """Write the core, by the rule of each equation, and return it with the conversion of calls to it."""
        g = self.graph
        self.constants = dict(g.constants)
        rule_operands = {x for e in g.equations if e.op.name in RULES for x in e.operands}
        optional = tuple([k for k, v in enumerate(g.inputs) if v in rule_operands or v in g.outputs])
        self.flags.update((g.inputs[k], Value(FLAG)) for k in optional)
        inputs = (*g.inputs, *self.flags.values())
        for e in g.equations:
            self.where = e.where
            operands = substituted(e.operands, self.now)
            RULES.get(e.op.name, _Flagging.keep)(self, replace(e, operands=operands))
        gives: list[Any] = []
        outputs: list[Operand] = []
        for x in substituted(g.outputs, self.now):
            if x is UNDEFINED:
                gives.append(UNDEFINED)
                continue
            parts = [x, *([self.flags[x]] if x in self.flags else [])]
            gives.append((len(outputs), len(outputs) + 1 if parts[1:] else None))
            outputs += parts
        core = Graph(inputs, tuple(self.equations), tuple(outputs), tuple(self.constants.items()))
        return OnFlags(dead_code(core), optional, tuple(gives))

    def add(self, op: Op, operands: Sequence[Operand], aval: Aval) -> Value:
        result = Value(aval)
        self.equations.append(Equation(op, tuple(operands), {}, (result,), self.where))
        return result

    def zero(self, like: Value) -> Value:
        value, zeros = zero_constant(like)
        self.constants[value] = zeros
        return value

    def any_of(self, operands: Sequence[Operand]) -> Value | None:
        """Flag that is true if one of some operands is defined; None if one of them always is."""
        terms = [x for x in operands if x is not UNDEFINED]
        if any(x not in self.flags for x in terms):
            return None
        result, *flags = dict.fromkeys(self.flags[x] for x in terms)
        for flag in flags:
            result = self.add(TABLE["logical_or"], (result, flag), FLAG)
        return result

    # --- rules ------------------------------------------------------------------------------------

    def keep(self, e: Equation) -> None:
        self.equations.append(e)

    def defined(self, e: Equation) -> None:
        flag = self.any_of(e.operands)
        if flag is None:
            flag = Value(FLAG)
            self.constants[flag] = np.asarray(True)
        self.now[e.results[0]] = flag

    def filled(self, e: Equation) -> None:
        (x,) = e.operands
        self.now[e.results[0]] = self.zero(e.results[0]) if x is UNDEFINED else x

    def sum(self, e: Equation) -> None:
        terms = [x for x in e.operands if x is not UNDEFINED]
        if len(terms) < 2:
            self.now[e.results[0]] = terms[0] if terms else UNDEFINED
            return
        flag = self.any_of(terms)
        result = self.now[e.results[0]] = self.add(TABLE["add_n"], terms, e.results[0].aval)
        if flag is not None:
            self.flags[result] = flag

    def branch(self, e: Equation) -> None:
        """Write a `cond` in place of a `when`: its false branch returns zeros.

        Outputs that the body leaves UNDEFINED stay so; the flag of all others is that of the `when`.
        """
        body, flag = e.params["body"], e.operands[0]
        pairs = zip(e.operands[1:], body.inputs, strict=True)
        operands = [self.zero(v) if x is UNDEFINED else x for x, v in pairs]
        at = [k for k, x in enumerate(body.outputs) if x is not UNDEFINED]
        self.now.update((v, UNDEFINED) for k, v in enumerate(e.results) if k not in at)
        if not at:
            return
        true_body = replace(body, outputs=tuple(body.outputs[k] for k in at))
        zeros = [zero_constant(x) for x in true_body.outputs]
        inputs = tuple(Value(v.aval) for v in body.inputs)
        false_body = Graph(inputs, (), tuple(v for v, _ in zeros), tuple(zeros))
        results = tuple(e.results[k] for k in at)
        params = {"on_true": true_body, "on_false": false_body}
        self.equations.append(Equation(op_named("cond"), (flag, *operands), params, results, e.where))
        self.flags.update((v, flag) for v in results)


#: By the name of the op; other equations read defined values.
RULES: dict[str, Callable[[_Flagging, Equation], None]] = {
    autograd_add.name: _Flagging.sum,
    defined.name: _Flagging.defined,
    defined_or_zero.name: _Flagging.filled,
    when.name: _Flagging.branch,
}


__all__ = ["OnFlags", "on_flags"]
