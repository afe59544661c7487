"""`cond` and `checkpoint`: a branch, and a function that is computed again for its derivative.

The base of all ops that run graphs is here too (`ControlOp`); loops are in `scan_loop` and `while_loop`. The
graphs are parameters of the op and closed, so that a call is one equation, its gradient is one too, and so on
to any order. A call enters through the op's `evaluate`: where an operand is tracked it binds an op made for
the tracked operands, whose further results are what its derivative reads.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from iverson.autograd.joint_ops import JointOp
from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.node import Node
from iverson.core.aval import Aval
from iverson.core.dispatch import Draw, Handle, has_entries, value_of
from iverson.core.entries import NOTHING, Entries
from iverson.core.errors import GraphError
from iverson.core.op import Op, Rule
from iverson.core.protocols import LayoutValue, Namespace, Params, Shaped
from iverson.graph.control.bodies import Derivatives, Variant, defined, flags, let_be_native, run
from iverson.graph.control.forms import converted, taken_in
from iverson.graph.derivatives.differentiation import captured
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.derivative_interface import WHOLE, Crossing, given_out, leaving_of
from iverson.graph.ir.graph_maps import GraphMap
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import UNDEFINED, Argument, Equation, Graph, Value, values_of
from iverson.graph.ir.operations import OPERATIONS, bound, is_absent, zero_constant
from iverson.graph.tracing.random_draws import drawn_before, draws_inside
from iverson.graph.tracing.trace import Trace
from iverson.kernels.kernel_registry import Values, register
from iverson.layouts import to_strided

T = TypeVar("T")

#: By op, how it is carried out on a batch (`Op.batch`): rules that make bodies of batches stand above graphs.
BATCHES: dict[str, Rule] = {}


def batch_rule(name: str) -> Rule:
    """The batch rule of an op by its name, which is looked up in `BATCHES` when it runs."""

    def rule(F: Namespace, examples: Any, *args: Handle, **params: Any) -> Any:
        return BATCHES[name](F, examples, *args, **params)

    return rule


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ControlOp(JointOp):
    """An op that runs graphs.

    evaluate : ``evaluate(args, **params)``: its results, recorded where an argument is tracked.
    narrow : ``narrow(equation, read)``: the equation without results that are not read.
    shorten : ``shorten(equation, demands)``: equations that do less, with the same results where they are
        demanded; None where there are none.
    kept : of an op made for tracked operands, for each result, whether its derivative reads it.
    """

    FAMILY: ClassVar[str] = "control"
    evaluate: Rule
    narrow: Rule
    shorten: Rule | None = None
    joint: Any = None
    joint_jvp: Any = None
    kept: tuple[bool, ...] | None = None

    def prepare(self, params: Params) -> None:
        """Let the graphs among the parameters run as programs: the op is a step of one."""
        let_be_native(p for p in params.values() if isinstance(p, Graph))

    def _find_saves(self, tracked: tuple[bool, ...]) -> tuple[tuple[bool, ...], Any]:
        return (True,) * len(tracked), self.kept if self.kept is not None else False


def define(op: ControlOp) -> ControlOp:
    """Register ``op`` by its name among the ops of graphs (`OPERATIONS`), and return it."""
    OPERATIONS[op.name] = op
    return op


@register(ControlOp.FAMILY, object)
def _run(op: Op, values: Values, params: Params) -> Any:
    return op.forward(*values, **params)


def avals_of(body: Graph) -> tuple[Aval, ...]:
    """Avals of the outputs of a body: their shapes and dtypes."""
    return tuple([Aval(x.shape, x.dtype) for x in body.outputs])


def wanted_of(demands: Sequence[Entries]) -> tuple[int, ...]:
    """Positions of the inputs whose cotangents are demanded."""
    return tuple([k for k, need in enumerate(demands) if need is not NOTHING])


def narrowed_inputs(body: Graph) -> list[int]:
    """Positions of the inputs of ``body`` that its equations or its outputs read."""
    reads = set(values_of(body.outputs)).union(*(values_of(e.operands) for e in body.equations))
    return [k for k, v in enumerate(body.inputs) if v in reads]


# --- checkpoint ---------------------------------------------------------------------------------------


def checkpointed(args: Sequence[Argument], *, body: Graph) -> Sequence[Any]:
    """The outputs of a body; only its inputs are kept for a derivative, which runs the body again."""
    op = checkpoint_op
    draws, body = body.once("drawn", lambda: _drawn_before(body))
    args = [*args, *(draw() for draw in draws)]
    tracked_flags = flags(args)
    if any(tracked_flags) and is_grad_enabled():
        op = body.once(("checkpoint", tracked_flags), lambda: _Checkpoint(body, tracked_flags).op)
    return bound(op, tuple(args), {"body": body})  # type: ignore[no-any-return]


def _drawn_before(body: Graph) -> tuple[tuple[Draw, ...], Graph]:
    """See `drawn_before`; raises GraphError for draws whose number is unknown."""
    draws, body = drawn_before(body)
    if any(map(draws_inside, body.equations)):
        raise GraphError(
            "checkpoint",
            got="random draws inside of a while_loop that is to run again",
            expected="the same numbers in both runs",
            remedy="use iverson.scan or iverson.fori_loop, or draw before it and pass what was drawn",
        )
    return draws, body


def _narrow_checkpoint(equation: Equation, read: set[Value]) -> Equation:
    at = [k for k, v in enumerate(equation.results) if v in read]
    body: Graph = equation.params["body"]
    body = dead_code(replace(body, outputs=tuple(body.outputs[k] for k in at)))
    inputs = narrowed_inputs(body)
    return replace(
        equation,
        operands=tuple(equation.operands[k] for k in inputs),
        params={"body": replace(body, inputs=tuple(body.inputs[k] for k in inputs))},
        results=tuple(equation.results[k] for k in at),
    )


checkpoint_op = define(
    ControlOp(
        name="checkpoint",
        batch=batch_rule("checkpoint"),
        forward=lambda *values, body: tuple(run(body, values)),
        abstract=lambda *_, body: avals_of(body),
        entry_map=GraphMap(lambda params: ([params["body"]], 0)),
        multiple=True,
        evaluate=checkpointed,
        narrow=_narrow_checkpoint,
    )
)


class _Checkpoint:
    """The derivatives of a checkpointed body in its tracked inputs: checkpointed bodies themselves."""

    def __init__(self, body: Graph, requires: Sequence[bool]) -> None:
        self.derivatives = Derivatives(body, requires, keep=False)
        self.op = replace(
            checkpoint_op,
            joint=self.pull,
            joint_jvp=self.push,
            selects=False,
            kept=(False,) * len(body.outputs),
        )

    def pull(self, demands: Sequence[Entries], node: Node, g: Sequence[Handle | None]) -> list[Any]:
        cotangents: list[Any] = [None] * len(demands)
        g = [None if is_absent(x) else x for x in g]
        input_numbers, (avals, arriving, parts) = wanted_of(demands), taken_in(g)
        leaving = leaving_of(node, input_numbers)
        variant = self.derivatives.pullback(avals, input_numbers, is_grad_enabled(), arriving, leaving)
        for k, ct in zip(input_numbers, self._outputs(variant, parts, node), strict=True):
            cotangents[k] = ct
        return cotangents

    def push(self, tangents: Sequence[Handle | None], node: Node) -> list[Any]:
        avals, arriving, parts = taken_in(tangents)
        variant = self.derivatives.pushforward(avals, is_grad_enabled(), arriving)
        return self._outputs(variant, parts, node)

    def _outputs(self, variant: Variant, seeds: list[Handle], node: Node) -> list[Any]:
        graph, captures, crossings = variant
        at, body = graph.once("defined", lambda: defined(graph))
        inputs = node.inputs()
        outputs: list[Any] = [None] * len(graph.outputs)
        args = [*seeds, *captured(captures, inputs, ())]
        for k, x in zip(at, checkpointed(args, body=body) if at else (), strict=True):
            outputs[k] = x
        return given_out(crossings, outputs)


# --- cond ---------------------------------------------------------------------------------------------


def chosen(args: Sequence[Argument], *, on_true: Graph, on_false: Graph) -> Sequence[Any]:
    """Outputs of `cond`: those of ``on_true`` if the first of ``args`` is true, else those of ``on_false``.

    The other ``args`` are the inputs of both bodies.
    """
    op = cond_op
    tracked_flags = flags(args[1:])
    if any(tracked_flags) and is_grad_enabled():
        cond: _Cond = on_true.once(
            ("cond", id(on_false), tracked_flags), lambda: _Cond(on_true, on_false, tracked_flags)
        )
        results = bound(cond.op, tuple(args), cond.params)
        return results[: cond.count]  # type: ignore[no-any-return]
    return bound(op, tuple(args), {"on_true": on_true, "on_false": on_false})  # type: ignore[no-any-return]


def _chosen_run(pred: LayoutValue, *values: LayoutValue, on_true: Graph, on_false: Graph) -> tuple[Any, ...]:
    return tuple(run(on_true if to_strided(pred).item() else on_false, values))


def _narrow_cond(equation: Equation, read: set[Value]) -> Equation:
    """`ControlOp.narrow` of `cond`: without the results and operands that nothing needs."""
    at = [k for k, v in enumerate(equation.results) if v in read]
    names = ("on_true", "on_false")
    bodies: list[Graph] = [equation.params[n] for n in names]
    bodies = [dead_code(replace(b, outputs=tuple(b.outputs[k] for k in at))) for b in bodies]
    inputs = sorted(set(narrowed_inputs(bodies[0])).union(narrowed_inputs(bodies[1])))
    bodies = [replace(b, inputs=tuple(b.inputs[k] for k in inputs)) for b in bodies]
    return replace(
        equation,
        operands=(equation.operands[0], *(equation.operands[k + 1] for k in inputs)),
        params=dict(zip(names, bodies, strict=True)),
        results=tuple(equation.results[k] for k in at),
    )


cond_op = define(
    ControlOp(
        name="cond",
        batch=batch_rule("cond"),
        forward=_chosen_run,
        abstract=lambda *_, on_true, on_false: avals_of(on_true),
        entry_map=GraphMap(lambda params: ([params["on_true"], params["on_false"]], 1)),
        multiple=True,
        evaluate=chosen,
        narrow=_narrow_cond,
    )
)


class _Cond:
    """The op `cond` for given tracked operands, and its derivatives.

    Both bodies return the residuals of both as further outputs; those of the body that is not run are zeros.
    """

    def __init__(self, on_true: Graph, on_false: Graph, requires: Sequence[bool]) -> None:
        self.on_false = on_false  # keeps it alive: it is found by its identity
        self.count = len(on_true.outputs)
        self.sides = [Derivatives(body, requires) for body in (on_true, on_false)]
        residuals = [side.forward.outputs[self.count :] for side in self.sides]
        #: Number of the result at which the residuals of each side start.
        self.starts = (self.count, self.count + len(residuals[0]))
        bodies = []
        for n, side in enumerate(self.sides):
            zeros = [zero_constant(x) for x in residuals[1 - n]]
            residual_outputs = (
                (*residuals[0], *(v for v, _ in zeros)) if n == 0 else (*(v for v, _ in zeros), *residuals[1])
            )
            f = side.forward
            outputs = (*f.outputs[: self.count], *residual_outputs)
            bodies.append(Graph(f.inputs, f.equations, outputs, (*f.constants, *zeros)))
        self.params = {"on_true": bodies[0], "on_false": bodies[1]}
        reads = set().union(*(side.reads for side in self.sides))
        saves = [
            any(b.outputs[k] in reads for b in bodies) or k >= self.count
            for k in range(len(bodies[0].outputs))
        ]
        self.op = replace(cond_op, joint=self.pull, joint_jvp=self.push, selects=False, kept=tuple(saves))

    def pull(self, demands: Sequence[Entries], node: Node, g: Sequence[Handle]) -> list[Any]:
        """Cotangents of the operands; None for one that is not demanded or undefined.

        If the condition has a known value, only the pullback of the side that was run is run. In a trace, the
        pullbacks of both sides are put into a `cond`.
        """
        input_numbers, recording = wanted_of(demands[1:]), is_grad_enabled()
        pred = node.inputs()[0]
        branch = 1 - int(to_strided(value_of(pred)).item()) if has_entries(pred) else None
        leaving = tuple([k - 1 for k in leaving_of(node, [k + 1 for k in input_numbers])])
        of_sides: list[Any] = []
        for n, side in enumerate(self.sides):
            cts = [None if is_absent(x) else x for x in (*g[: self.count], *self._residuals(n, g))]
            if branch in (None, n):  # the other one may have no derivative
                avals, arriving, parts = taken_in(cts)
                variant = side.pullback(avals, input_numbers, recording, arriving, leaving)
                of_sides.append((variant, parts))
        cotangents: list[Any] = [None] * len(demands)
        at = [n for n, k in enumerate(input_numbers) if k in leaving]
        outputs = (
            self._outputs(of_sides, node, at) if branch is None else self._of_side(branch, of_sides[0], node)
        )
        for k, ct in zip(input_numbers, outputs, strict=True):
            cotangents[k + 1] = ct
        return cotangents

    def _of_side(self, n: int, of_side: tuple[Variant, list[Handle]], node: Node) -> list[Any]:
        """Cotangents from the pullback of side n; None for those that are undefined."""
        variant, seeds = of_side
        outputs = interpret(variant[0], self._operands(n, variant, seeds, node))
        return given_out(variant[2], [None if x is UNDEFINED else x for x in outputs])

    def _operands(self, n: int, variant: Variant, seeds: list[Handle], node: Node) -> list[Any]:
        """Operands of the derivative of side n: cotangents or tangents, and what it captures."""
        results = node.results()
        outputs = [*results[: self.count], *self._residuals(n, results)]
        return [*seeds, *captured(variant[1], node.inputs()[1:], outputs)]

    def push(self, tangents: Sequence[Handle | None], node: Node) -> list[Any]:
        avals, arriving, parts = taken_in(tangents[1:])
        variants = [self._pushed(n, avals, is_grad_enabled(), arriving) for n in (0, 1)]
        return self._outputs([(variant, parts) for variant in variants], node, range(len(node.out)))

    def _pushed(
        self, side: int, avals: Sequence[Aval | None], recording: bool, arriving: Sequence[Crossing]
    ) -> Variant:
        """Pushforward of ``side``, cached: tangents of its outputs, then of the residuals of both sides.

        Tangents of the residuals of the other side are UNDEFINED.

        avals : for each input of the bodies, the aval of its tangent, or None.
        """
        derivatives = self.sides[side]
        graph, captures, crossings = derivatives.pushforward(avals, recording, arriving)
        first = sum(c.count for c in crossings[: self.count])
        outputs, residuals = graph.outputs[:first], graph.outputs[first:]
        none = (UNDEFINED,) * (len(self.sides[1 - side].forward.outputs) - self.count)
        residual_outputs = (*residuals, *none) if side == 0 else (*none, *residuals)
        padding = [WHOLE] * len(none)
        of_rest = [*crossings[self.count :], *padding] if side == 0 else [*padding, *crossings[self.count :]]
        key = "pushed", tuple(avals), recording, tuple(arriving)
        return derivatives.once(
            key,
            lambda: (
                replace(graph, outputs=(*outputs, *residual_outputs)),
                captures,
                [*crossings[: self.count], *of_rest],
            ),
        )

    def _residuals(self, side: int, of_results: Sequence[T]) -> Sequence[T]:
        """Items of ``of_results`` that belong to residuals of ``side``; it has one item for each result."""
        start = self.starts[side]
        return of_results[start : start + len(self.sides[side].forward.outputs) - self.count]

    def _outputs(
        self, of_sides: list[tuple[Variant, list[Handle]]], node: Node, leaving: Sequence[int]
    ) -> list[Any]:
        """Outputs of the derivative of the side that was run; None for those undefined on both sides.

        An output that is undefined on one side only is zero there; if its number is in ``leaving``, it is a
        selection without entries there.

        of_sides : for each side, its derivative, and the cotangents or tangents that it is called on.
        leaving : numbers of the outputs that go to another op, and so may be selections.
        """
        variants = [variant for variant, _ in of_sides]
        key = "alike", *(id(graph) for graph, *_ in variants), tuple(leaving)
        _, graphs, forms = self.sides[0].once(key, lambda: (variants, *_alike(variants, leaving)))
        operands = [self._operands(n, variant, seeds, node) for n, (variant, seeds) in enumerate(of_sides)]
        bodies = self.sides[0].once(
            ("bodies", *map(id, graphs)), lambda: (graphs, _joined(graphs, operands))
        )[1]
        args = [node.inputs()[0], *operands[0], *operands[1]]
        out = iter(chosen(args, on_true=bodies[0], on_false=bodies[1]) if graphs[0].outputs else ())
        return [None if form is None else form.together(form.taken_from(out)) for form in forms]


def _alike(variants: Sequence[Variant], leaving: Container[int]) -> tuple[list[Graph], list[Crossing | None]]:
    """The graphs of the two ``variants``, changed to return their outputs in the same forms, and these forms.

    The form is None for an output that is undefined on both sides; the graphs do not return it. An output
    that is defined on one side only is zero on the other; one in ``leaving`` is a selection then, as is one
    that is in different boxes.
    """
    outputs = [iter(graph.outputs) for graph, *_ in variants]
    forms: list[Crossing | None] = []
    likes: list[Shaped] = []
    for n, crossings in enumerate(zip(*(side_crossings for *_, side_crossings in variants), strict=True)):
        of_sides = [(c, c.taken_from(side)) for c, side in zip(crossings, outputs, strict=True)]
        defined = [(c, parts[0]) for c, parts in of_sides if parts[0] is not UNDEFINED]
        forms.append(None)
        if defined:
            form, x = defined[0]
            one_region = all(c.region == form.region for c, _ in defined)
            selects = any(c.selects for c, _ in defined) or (n in leaving and len(defined) == 1)
            shape = x.shape if form.region is None else form.shape
            likes.append(Aval(shape, x.dtype))
            forms[-1] = replace(form, selects=selects) if one_region else Crossing(selects=True)
    return [_in_forms(graph, crossings, forms, likes) for graph, _, crossings in variants], forms


def _in_forms(
    graph: Graph, crossings: Sequence[Crossing], forms: Sequence[Crossing | None], likes: Iterable[Shaped]
) -> Graph:
    """The graph, changed to return its outputs in ``forms``; None for one that it does not return.

    crossings : the forms in which it returns them. likes : avals of those that it is to return.
    """
    with Trace("cond") as level, recording(False):
        out = iter(interpret(graph, [level.handle(v) for v in graph.inputs]))
        of_outputs = [(form, c, c.taken_from(out)) for form, c in zip(forms, crossings, strict=True)]
        iterator = iter(likes)
        outputs = [
            x for form, c, parts in of_outputs if form for x in converted(form, c, parts, next(iterator))
        ]
        return replace(level.rewritten(outputs), inputs=graph.inputs)


def _joined(graphs: Sequence[Graph], operands: Sequence[Sequence[Handle]]) -> list[Graph]:
    """Two graphs as bodies that have the inputs of both."""
    new_inputs = [tuple(Value(Aval(x.shape, x.dtype)) for x in side_operands) for side_operands in operands]
    first, second = graphs
    return [
        replace(first, inputs=(*first.inputs, *new_inputs[1])),
        replace(second, inputs=(*new_inputs[0], *second.inputs)),
    ]


__all__ = ["ControlOp", "checkpointed", "chosen", "cond_op", "define"]
