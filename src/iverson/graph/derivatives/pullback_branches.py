"""Pullback regions as branches: one graph for cotangents that some calls define and others do not.

    %5, %6 = grad_of[body=...](%1)      ->      %5, %6 = (the body)             where %1 is defined
    %5, %6 = grad_of[body=...](%1)      ->      %4 = defined(%1)                where only the call says
                                                %5, %6 = when[body=...](%4, %1)
    %7 = autograd_add(%5, %6)           ->      %7 = add_n(%5, %6)              of what is defined

Cotangents that are known to be undefined are left out first (`specialize`). Results of a branch are defined
where it is taken, so equations that read them have the same guard, and no condition is tested twice. The
model is PyTorch's lowering of GradOf blocks (``torch/csrc/jit/passes/lower_grad_of.cpp``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from iverson.core.aval import Aval, has_shape
from iverson.core.table import TABLE
from iverson.graph.derivatives.specialization import specialize
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.nodes import UNDEFINED, Equation, Graph, Operand, Value
from iverson.graph.ir.operations import autograd_add, defined, defined_or_zero, grad_of, when
from iverson.graph.ir.regions import opened, substituted


def lower_grad_of(df: Graph, known: Sequence[bool | None], needs: Sequence[bool] | None = None) -> Graph:
    """The pullback with a branch for each region that may have no cotangent.

    Parameters
    ----------
    known : for each of the first inputs, whether it is defined; None where only the call says. The others
        are defined. Undefined inputs are removed.
    needs : for each output, whether it is demanded; default: all.

    Raises ArgumentError as `specialize` does.
    """
    needs = needs or [True] * len(df.outputs)
    graph = specialize(df, [k is not False for k in known], needs)
    input_flags = [k for k in known if k is not False]
    lowering = _Lowering([v for v, k in zip(graph.inputs, input_flags, strict=False) if k is None])
    constants = dict(graph.constants)
    for equation in graph.equations:
        if equation.op is grad_of:
            constants.update(equation.params["body"].constants)
        lowering.equation(equation)
    outputs = substituted(graph.outputs, lowering.known)
    return dead_code(Graph(graph.inputs, tuple(lowering.equations), outputs, tuple(constants.items())))


class _Lowering:
    """The equations of the new graph.

    guards : for each value that may be undefined, the inputs of which one is defined if it is (none for an
        input).
    """

    def __init__(self, unknown: Sequence[Value]) -> None:
        self.equations: list[Equation] = []
        self.known: dict[Value, Operand] = {}
        self.guards: dict[Operand, frozenset[Value]] = {v: frozenset() for v in unknown}
        self._flags: dict[frozenset[Value], Value] = {}

    def equation(self, e: Equation) -> None:
        """Write an equation of the pullback, with operands that are already lowered.

        A region becomes a branch or its body, a sum is written by `sum`, and any other equation stays.
        """
        operands = substituted(e.operands, self.known)
        e = replace(e, operands=operands)
        if e.op is grad_of:
            self.region(e)
        elif e.op is autograd_add:
            self.sum(e)
        else:
            if e.op is defined:
                self._flags[frozenset(operands)] = e.results[0]
            elif e.op is when:
                guard = next(g for g, flag in self._flags.items() if flag is operands[0])
                self.guards.update(dict.fromkeys(e.results, guard))
            self.equations.append(e)

    def sum(self, e: Equation) -> None:
        """Write a sum. It may be undefined if both terms may be; it becomes `add_n` if neither may be.

        Of terms of unknown shape, it stays a sum that may be undefined.
        """
        guarded_terms = [x for x in e.operands if x in self.guards]
        if not guarded_terms and all(map(has_shape, e.operands)):  # else a rule may give nothing yet
            e = replace(e, op=TABLE["add_n"])
        elif len(guarded_terms) == len(e.operands):
            self.guards[e.results[0]] = frozenset().union(*map(self.guard, guarded_terms))
        self.equations.append(e)

    def region(self, e: Equation) -> None:
        """Write the body of a `grad_of` in its place if one of its cotangents is always defined; else a
        `when`.
        """
        count, body = e.params["count"], e.params["body"]
        cotangents = e.operands[:count]
        guarded_cotangents = [x for x in cotangents if x in self.guards]
        if len(guarded_cotangents) < len([x for x in cotangents if x is not UNDEFINED]):
            filled_cotangents = [self.filled(x, v) for x, v in zip(cotangents, body.inputs, strict=False)]
            inside: dict[Value, Operand] = {}
            self.equations += opened(body, [*filled_cotangents, *e.operands[count:]], inside)
            self.known.update(zip(e.results, substituted(body.outputs, inside), strict=True))
            return
        guard: frozenset[Value] = frozenset().union(*map(self.guard, guarded_cotangents))
        flag = self.flag(guard, e)
        self.equations.append(replace(e, op=when, operands=(flag, *e.operands)))
        self.guards.update(dict.fromkeys(e.results, guard))

    def filled(self, x: Operand, like: Value) -> Operand:
        """A cotangent of a region in which another one is always defined: zero if it is undefined."""
        if not has_shape(like) or (x is not UNDEFINED and x not in self.guards):
            return x
        result = Value(Aval(like.shape, like.dtype))
        params = {"shape": like.shape, "dtype": like.dtype}
        self.equations.append(Equation(defined_or_zero, (x,), params, (result,)))
        return result

    def guard(self, x: Value) -> frozenset[Value]:
        """Inputs of the call, one of which is defined if and only if x is."""
        return self.guards[x] or frozenset((x,))

    def flag(self, guard: frozenset[Value], e: Equation) -> Value:
        """Flag that is true if one of the inputs in ``guard`` is defined; computed once for each set of
        inputs.

        e : the equation that the flag is for.
        """
        if guard not in self._flags:
            flag = self._flags[guard] = Value(Aval((), np.dtype(bool)))
            ordered = tuple(v for v in self.guards if v in guard)
            self.equations.append(Equation(defined, ordered, {}, (flag,), e.where))
        return self._flags[guard]
