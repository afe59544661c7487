"""`while_loop`: a loop whose number of steps depends on entries.

    %c = while[condition=graph(consts, carry) { ... return (flag) },
               body=graph(consts, carry) { ... return (carry) }, consts=](consts, init)

In forward mode its tangents are carried along. It has no pullback: the number of steps, and so of residuals,
is not known before it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.node import Node
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle
from iverson.core.entries import Entries
from iverson.core.errors import MissingRuleError
from iverson.core.protocols import LayoutValue
from iverson.graph.control.bodies import Derivatives, flags, reached, run, zero
from iverson.graph.control.cond_checkpoint import ControlOp, avals_of, batch_rule, define, narrowed_inputs
from iverson.graph.control.loop_programs import run_as_program
from iverson.graph.derivatives.differentiation import captured
from iverson.graph.ir.dead_code import dead_code, without_effects
from iverson.graph.ir.graph_maps import LoopMap
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import UNDEFINED, Argument, Equation, Graph, Value
from iverson.graph.ir.operations import bound
from iverson.graph.tracing.captured_state import aval_of
from iverson.graph.tracing.trace import Trace
from iverson.layouts import to_strided


def repeated(args: Sequence[Argument], *, condition: Graph, body: Graph, consts: int) -> Sequence[Any]:
    """The first carry for which the condition is False."""
    op = while_op
    tracked_flags = flags(args)
    if any(tracked_flags) and is_grad_enabled():
        key = "while", id(condition), tracked_flags, consts
        op = body.once(key, lambda: _While(condition, body, tracked_flags, consts)).op
    return bound(op, tuple(args), {"condition": condition, "body": body, "consts": consts})  # type: ignore[no-any-return]


def _loop(*values: LayoutValue, condition: Graph, body: Graph, consts: int) -> tuple[Any, ...]:
    fixed, state = values[:consts], values[consts:]
    graphs, make = [body, condition], lambda: _graph(condition, body, consts)
    while (out := run_as_program("while_loop", graphs, [*fixed, *state], 1, consts, make)) is None:
        if not to_strided(run(condition, [*fixed, *state])[0]).item():
            return tuple(state)
        state = tuple(run(body, [*fixed, *state]))
    return tuple(out)


def _graph(condition: Graph, body: Graph, consts: int) -> Graph:
    """Graph of a loop, whose inputs are those of its body."""
    with Trace("while_loop") as level:
        inputs = [level.input(v.aval) for v in body.inputs]
        return level.rewritten(repeated(inputs, condition=condition, body=body, consts=consts))


def _narrow(equation: Equation, read: set[Value]) -> Equation:
    """`ControlOp.narrow` of `while`: without the results, carries and operands that nothing needs.

    A carry stays if its result is in ``read``, or if the condition or an output that stays reads it.
    """
    condition, body, consts = (equation.params[n] for n in ("condition", "body", "consts"))
    condition_inputs = set(narrowed_inputs(condition))
    stays = {k for k, v in enumerate(equation.results) if v in read}
    while True:
        inner = dead_code(replace(body, outputs=tuple(body.outputs[k] for k in sorted(stays))))
        inputs = condition_inputs.union(narrowed_inputs(inner))
        body_carries = {k - consts for k in inputs if k >= consts}
        if body_carries <= stays:
            break
        stays |= body_carries
    positions = [k for k in range(len(body.inputs)) if (k - consts in stays if k >= consts else k in inputs)]
    params = {
        "condition": replace(condition, inputs=tuple(condition.inputs[k] for k in positions)),
        "body": replace(inner, inputs=tuple(body.inputs[k] for k in positions)),
        "consts": sum(k < consts for k in positions),
    }
    return replace(
        equation,
        operands=tuple(equation.operands[k] for k in positions),
        params=params,
        results=tuple(equation.results[k] for k in sorted(stays)),
    )


while_op = define(
    ControlOp(
        name="while",
        batch=batch_rule("while"),
        forward=_loop,
        abstract=lambda *_, condition, body, consts: avals_of(body),
        entry_map=LoopMap(),
        multiple=True,
        evaluate=repeated,
        narrow=_narrow,
    )
)


class _While:
    """The derivative of a loop in its tracked operands: a loop with tangents in its carry."""

    def __init__(self, condition: Graph, body: Graph, starts: Sequence[bool], consts: int) -> None:
        self.condition, self.body, self.consts = condition, body, consts
        requires = self._settled(starts)
        self.derivatives = Derivatives(body, requires)
        self.op = replace(while_op, joint=self.pull, joint_jvp=self.push, kept=(False,) * len(body.outputs))

    def _settled(self, starts: Sequence[bool]) -> list[bool]:
        """For each input, True if it depends on one in ``starts`` after any number of steps."""
        mask = list(starts)
        while True:
            out = reached(self.body, mask)
            next_mask = [
                *mask[: self.consts],
                *(a | b for a, b in zip(mask[self.consts :], out, strict=True)),
            ]
            if next_mask == mask:
                return mask
            mask = next_mask

    def pull(self, _demands: Sequence[Entries], _node: Node, _g: Sequence[Handle]) -> Any:
        raise MissingRuleError(
            "while_loop",
            got="a gradient through a loop whose number of steps depends on entries",
            expected="forward mode: iverson.jvp",
            remedy="say max_steps, or use iverson.scan, or iverson.fori_loop between Python integers",
        )

    def push(self, tangents: Sequence[Handle | None], node: Node) -> list[Any]:
        """Tangents of the results, from one more run of the loop, with tangents in its carry.

        None for the tangent of a carry that depends on no tangent.
        """
        consts = self.consts
        has = tuple(self._settled([t is not None for t in tangents]))
        key = "with tangents", has, is_grad_enabled()
        condition, body, outside = self.derivatives.once(
            key, lambda: self._with_tangents(has, is_grad_enabled())
        )
        moving = [k for k, has_tangent in enumerate(has) if has_tangent]
        inputs = node.inputs()
        seeds = [zero(inputs[k]) if tangents[k] is None else tangents[k] for k in moving]
        fixed = [t for k, t in zip(moving, seeds, strict=True) if k < consts]
        carry_tangents = [t for k, t in zip(moving, seeds, strict=True) if k >= consts]
        fixed = [*inputs[:consts], *fixed, *outside]
        args = [*fixed, *inputs[consts:], *carry_tangents]
        out = repeated(args, condition=condition, body=body, consts=len(fixed))
        out_tangents: list[Any] = [None] * len(self.body.outputs)
        for k, t in zip([k for k in moving if k >= consts], out[len(out_tangents) :], strict=True):
            out_tangents[k - consts] = t
        return out_tangents

    def _with_tangents(self, has: Sequence[bool], recorded: bool) -> tuple[Graph, Graph, list[Any]]:
        """Condition and body of the loop that computes tangents too, and the tensors from outside.

        Both graphs have the inputs (consts, tangents of consts, tensors from outside that rules read, carry,
        tangents of the carry).

        has : for each input of the body, whether it has a tangent.
        recorded : whether the derivative may be differentiated itself.
        """
        graph, captures, _ = self.derivatives.pushforward(has, recorded)
        f, consts = self.derivatives.forward, self.consts
        moving = [k for k, has_tangent in enumerate(has) if has_tangent]
        with Trace("while_loop") as level, recording(False):
            inputs = [level.input(v.aval) for v in f.inputs]
            seeds = {k: level.input(Aval(f.inputs[k].shape, f.inputs[k].dtype)) for k in moving}
            out = interpret(without_effects(f), inputs)
            outside = [x for kind, x in captures if kind == "outside"]
            around = iter([level.input(aval_of(x)) for x in outside])
            reads = [(kind, next(around) if kind == "outside" else k) for kind, k in captures]
            pushed = interpret(graph, [*seeds.values(), *captured(reads, inputs, out)])
            tangents = [pushed[k - consts] for k in moving if k >= consts]
            likes = [f.inputs[k] for k in moving if k >= consts]
            tangents = [zero(v) if t is UNDEFINED else t for t, v in zip(tangents, likes, strict=True)]
            body = level.rewritten([*out[: len(self.body.outputs)], *tangents])
        order = [
            *range(consts),
            *(len(f.inputs) + n for n, k in enumerate(moving) if k < consts),
            *range(len(f.inputs) + len(moving), len(f.inputs) + len(moving) + len(outside)),
            *range(consts, len(f.inputs)),
            *(len(f.inputs) + n for n, k in enumerate(moving) if k >= consts),
        ]
        body = replace(body, inputs=tuple(body.inputs[k] for k in order))
        iterator = iter(self.condition.inputs)
        condition_inputs = [
            next(iterator) if k < len(f.inputs) else Value(v.aval)
            for k, v in zip(order, body.inputs, strict=True)
        ]
        return replace(self.condition, inputs=tuple(condition_inputs)), body, outside
