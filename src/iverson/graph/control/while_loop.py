"""`while_loop`: a loop whose number of steps depends on entries.

    %c = while[condition=graph(consts, carry) { ... return (flag) },
               body=graph(consts, carry) { ... return (carry) }, consts=](consts, init)

In forward mode its tangents are carried along. It has no pullback: the number of steps, and so of residuals,
is not known before it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.node import Node
from iverson.autograd.stored_entries import spread
from iverson.core.dispatch import Handle
from iverson.core.entries import Entries
from iverson.core.errors import MissingRuleError
from iverson.core.protocols import LayoutValue
from iverson.graph.control.bodies import Derivatives, flags, reached, run, zero
from iverson.graph.control.bodies import Variant as Derivative
from iverson.graph.control.cond_checkpoint import ControlOp, avals_of, batch_rule, define, narrowed_inputs
from iverson.graph.control.forms import arriving_aval, converted, form_of
from iverson.graph.control.loop_programs import programs_of_loop
from iverson.graph.control.step_runs import State, settled
from iverson.graph.derivatives.differentiation import captured
from iverson.graph.ir.dead_code import dead_code, without_effects
from iverson.graph.ir.derivative_interface import WHOLE
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
    make = partial(_graph, condition, body, consts)
    while True:
        programs = programs_of_loop([body, condition], 1)
        out = None if programs is None else programs.run("while_loop", [*fixed, *state], consts, make)
        if out is not None:
            return tuple(out)
        if not to_strided(run(condition, [*fixed, *state])[0]).item():
            return tuple(state)
        state = tuple(run(body, [*fixed, *state]))


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
        consts, recorded = self.consts, is_grad_enabled()
        tangents = [None if t is None else spread(t) for t in tangents]
        start = {k: form_of(t) for k, t in enumerate(tangents) if t is not None}
        selecting = {k for k, form in start.items() if form.selects}
        state = settled(start, lambda state: self._after(state, recorded), selecting)
        key = "with tangents", tuple(sorted(state.items())), recorded
        condition, body, outside = self.derivatives.once(key, lambda: self._with_tangents(state, recorded))
        inputs, moving = node.inputs(), sorted(state)
        seeds = {k: state[k].apart(zero(inputs[k]) if (t := tangents[k]) is None else t) for k in moving}
        fixed = [*inputs[:consts], *(x for k in moving if k < consts for x in seeds[k]), *outside]
        args = [*fixed, *inputs[consts:], *(x for k in moving if k >= consts for x in seeds[k])]
        out = iter(
            repeated(args, condition=condition, body=body, consts=len(fixed))[len(self.body.outputs) :]
        )
        out_tangents: list[Any] = [None] * len(self.body.outputs)
        for k in moving:
            if k >= consts:
                out_tangents[k - consts] = state[k].together(state[k].taken_from(out))
        return out_tangents

    def _pushed(self, state: State, recorded: bool) -> Derivative:
        """The pushforward of a step before which tangents, by number of the input, have these forms."""
        count = len(self.body.inputs)
        avals = [arriving_aval(v, state[k]) if k in state else None for k, v in enumerate(self.body.inputs)]
        arriving = [state.get(k, WHOLE) for k in range(count)]
        return self.derivatives.pushforward(avals, recorded, arriving)

    def _after(self, state: State, recorded: bool) -> State:
        """The state after a step."""
        graph, _, crossings = self._pushed(state, recorded)
        outputs = iter(graph.outputs)
        forms = [(k, c, c.taken_from(outputs)) for k, c in enumerate(crossings[: len(self.body.outputs)])]
        after = {k + self.consts: c for k, c, parts in forms if parts[0] is not UNDEFINED}
        return {**{k: c for k, c in state.items() if k < self.consts}, **after}

    def _with_tangents(self, state: State, recorded: bool) -> tuple[Graph, Graph, list[Any]]:
        """Condition and body of the loop that computes tangents too, and the tensors from outside.

        Both graphs have the inputs (consts, tangents of consts, tensors from outside that rules read, carry,
        tangents of the carry).

        state : the forms of the tangents in each step, by number of the input of the body.
        recorded : whether the derivative may be differentiated itself.
        """
        graph, captures, crossings = self._pushed(state, recorded)
        f, consts, count = self.derivatives.forward, self.consts, len(self.body.outputs)
        outside = [x for kind, x in captures if kind == "outside"]
        values = iter(graph.inputs)
        likes = {k: state[k].taken_from(values) for k in sorted(state)}
        with Trace("while_loop") as level, recording(False):
            fixed = [level.input(v.aval) for v in f.inputs[:consts]]
            seeds = [level.input(v.aval) for k in likes if k < consts for v in likes[k]]
            around = [level.input(aval_of(x)) for x in outside]
            carry = [level.input(v.aval) for v in f.inputs[consts:]]
            carried_seeds = [level.input(v.aval) for k in likes if k >= consts for v in likes[k]]
            out = interpret(without_effects(f), [*fixed, *carry])
            of_outside = iter(around)
            reads = [(kind, next(of_outside) if kind == "outside" else k) for kind, k in captures]
            args = [*seeds, *carried_seeds, *captured(reads, [*fixed, *carry], out)]
            parts = iter(interpret(graph, args))
            pushed = [(c, c.taken_from(parts)) for c in crossings[:count]]
            tangents = [
                x for k in likes if k >= consts for x in converted(state[k], *pushed[k - consts], f.inputs[k])
            ]
            body = level.rewritten([*out[:count], *tangents])
        new = [Value(v.aval) for v in body.inputs]
        new[:consts] = self.condition.inputs[:consts]
        at = consts + len(seeds) + len(around)
        new[at : at + len(carry)] = self.condition.inputs[consts:]
        return replace(self.condition, inputs=tuple(new)), body, outside
