"""Batching of control flow: bodies are batched, and become bodies of the same op.

A value that is the same for all examples remains so, until a body makes it differ. If the predicate of a
branch differs between examples, each branch that some example takes is run for these examples, and `where`
chooses; a loop runs until it has ended for all examples, and an example whose loop has ended keeps its carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from iverson.autograd.mode import recording
from iverson.core.aval import Aval
from iverson.core.counting.cost import PRODUCTS
from iverson.core.dispatch import Handle, value_of
from iverson.core.protocols import Namespace
from iverson.core.table import F
from iverson.graph.control.bodies import interned
from iverson.graph.control.cond_checkpoint import BATCHES, checkpointed, chosen
from iverson.graph.control.scan_loop import scanned
from iverson.graph.control.while_loop import repeated
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import Equation, Graph, Value, values_of
from iverson.graph.ir.operations import draws_of, zero_constant
from iverson.graph.tracing.trace import Trace
from iverson.ops.rules.batching import Examples, padded
from iverson.transforms.batching.batch_level import Batch, Batched

Flags = tuple[bool, ...]


def batched(
    body: Graph, of: Sequence[bool], examples: Examples, force: Sequence[bool] = ()
) -> tuple[Graph, Flags]:
    """Graph of ``body`` on all examples, and for each output, True if it has an axis of examples in front.

    of : for each input, True if it differs from example to example (and has their axis in front).
    examples : gives the number of examples and the batch; random draws that belong to the batch differ
        between examples, too.
    force : for the first outputs, True if the output must have an axis of examples even if it is equal for
        all.
    """
    forced = (*force, *(False,) * (len(body.outputs) - len(force)))
    size, origin = examples.size, examples.level
    draws = tuple([draw.differs_in(origin) for draw in draws_of({"body": body})])
    key = "vmap", tuple(of), size, forced, draws
    return body.once(key, lambda: _batched(body, of, size, origin, forced))


def _batched(body: Graph, of: Sequence[bool], size: int, origin: Batch, forced: Flags) -> tuple[Graph, Flags]:
    """Graph of ``body`` on ``size`` examples, and the flags of its outputs; see `batched`, which caches it.

    forced : for each output, True if it must have an axis of examples.
    """
    with Trace("vmap") as trace, recording(False):
        inputs = [
            trace.input(Aval((size, *v.shape), v.dtype) if has else v.aval)
            for v, has in zip(body.inputs, of, strict=True)
        ]
        with Batch(size, origin) as level:
            operands = [level.of_examples(x) if has else x for x, has in zip(inputs, of, strict=True)]
            pairs = [_held(level, x) for x in interpret(body, operands)]
        flags = tuple([has or force for (_, has), force in zip(pairs, forced, strict=True)])
        outputs = [
            x if has or not flag else _repeated(x, size) for (x, has), flag in zip(pairs, flags, strict=True)
        ]
        return interned(trace.rewritten(outputs)), flags


def _held(level: Batch, x: Handle) -> tuple[Any, bool]:
    """Handle that ``x`` stands for outside of ``level``, and True if it has an axis of examples in front."""
    value = value_of(x)
    if isinstance(value, Batched) and value._level is level:
        return value.held, value.lead == 1
    return x, False


def _repeated(x: Handle, size: int) -> Any:
    return F.broadcast_to(x, shape=(size, *x.shape))


def _each(results: Sequence[Handle], flags: Sequence[bool], size: int) -> tuple[Any, ...]:
    """The ``results``, each with an axis of ``size`` examples in front; ``flags`` says which have one
    already.
    """
    return tuple([x if has else _repeated(x, size) for x, has in zip(results, flags, strict=True)])


def _exchanged(x: Handle) -> Any:
    """Array with axes 0 and 1 of ``x``, the examples and the steps, exchanged."""
    return F.permute_dims(x, axes=(1, 0, *range(2, x.ndim)))


def _scan(
    _F: Namespace,
    examples: Examples,
    *args: Handle,
    body: Graph,
    consts: int,
    carry: int,
    length: int,
    reverse: bool,
) -> tuple[Any, ...]:
    """Batching rule of `scan`: the loop with a body on all examples; carries that may differ get an axis of
    examples.
    """
    size, of = examples.size, list(examples.of)
    batched_body, flags = _settled(body, of, examples, consts, carry)
    operands = [
        _repeated(x, size) if has and not had else x
        for x, has, had in zip(args, of, examples.of, strict=True)
    ]
    first = consts + carry
    xs = [_exchanged(x) if has else x for x, has in zip(operands[first:], of[first:], strict=True)]
    out = scanned(
        [*operands[:first], *xs],
        body=batched_body,
        consts=consts,
        carry=carry,
        length=length,
        reverse=reverse,
    )
    ys = [_exchanged(y) if has else y for y, has in zip(out[carry:], flags[carry:], strict=True)]
    return _each([*out[:carry], *ys], flags, size)


def _settled(body: Graph, of: list[bool], examples: Examples, consts: int, carry: int) -> tuple[Graph, Flags]:
    """Graph of the body of a loop on all examples, and the flags of its outputs (see `batched`).

    The list ``of`` is changed in place: a carry is marked True as soon as it differs between examples in some
    step. The body is batched again until no further carry gets marked.
    """
    while True:
        here = of[consts : consts + carry]
        batched_body, flags = batched(body, of, examples, here)
        if list(flags[:carry]) == here:
            return batched_body, flags
        of[consts : consts + carry] = flags[:carry]


def _cond(
    _F: Namespace, examples: Examples, *args: Handle, on_true: Graph, on_false: Graph
) -> tuple[Any, ...]:
    """Batching rule of `cond`. If the predicate differs between examples, both branches are run and `where`
    chooses.
    """
    size, of = examples.size, examples.of[1:]
    bodies = [batched(body, of, examples) for body in (on_true, on_false)]
    flags = tuple([a or b for a, b in zip(bodies[0][1], bodies[1][1], strict=True)])
    if examples.of[0]:
        flags = (True,) * len(flags)
    on_true, on_false = (batched(body, of, examples, flags)[0] for body in (on_true, on_false))
    if not examples.of[0]:
        return _each(chosen(args, on_true=on_true, on_false=on_false), flags, size)
    takes = args[0], F.logical_not(args[0])
    sides = [
        _for_those(flags, body, args[1:], of, size)
        for flags, body in zip(takes, (on_true, on_false), strict=True)
    ]
    return tuple([_where(args[0], a, b) for a, b in zip(*sides, strict=True)])


def _for_those(
    takes: Handle, body: Graph, args: Sequence[Handle], of: Sequence[bool], size: int
) -> Sequence[Any]:
    """Outputs of a branch for the examples that take it; outputs of other examples are arbitrary.

    takes : for each example, True if it takes the branch.
    of : for each of ``args``, True if it has an axis of examples in front.

    Other examples run the branch with the arguments of the first example that takes it, so that they raise no
    error and end: shapes, and so programs, do not depend on who takes it. The branch is not run if no example
    takes it.
    """
    if not size or all(map(_is_total, body.equations)):
        return interpret(body, args)
    first = F.argmax(F.astype(takes, dtype=_INT), axis=0, keepdims=False)
    rows = F.where(takes, np.arange(size), first)
    operands = [F.gather(x, rows, axes=(0,)) if has else x for x, has in zip(args, of, strict=True)]
    is_taken = F.any(takes, axis=(0,), keepdims=False)
    return chosen([is_taken, *operands], on_true=body, on_false=body.once("zeros", lambda: _zeros(body)))


_INT = np.dtype(np.int64)


def _is_total(equation: Equation) -> bool:
    """Return True if an equation always ends, with no error and no effect, whatever its operands contain."""
    op = equation.op
    moves = op.entry_map.moves and len(values_of(equation.operands)) == 1
    return op.elementwise or moves or op.name in PRODUCTS or "keepdims" in equation.params


def _zeros(body: Graph) -> Graph:
    """Graph with the inputs and outputs of ``body``, whose outputs are all zero."""
    inputs = tuple([Value(v.aval) for v in body.inputs])
    zeros = tuple(map(zero_constant, body.outputs))
    return interned(Graph(inputs, (), tuple(v for v, _ in zeros), zeros))


def _where(flags: Handle, a: Handle, b: Handle) -> Any:
    """Array with the examples of ``a`` for which ``flags`` (one for each example) is True, else those of
    ``b``.
    """
    return F.where(padded(F, flags, a.ndim - 1), a, b)


def _while(
    _F: Namespace, examples: Examples, *args: Handle, condition: Graph, body: Graph, consts: int
) -> tuple[Any, ...]:
    """Batching rule of `while`. If the condition differs between examples, the loop runs until all have
    ended.
    """
    size, of, carry = examples.size, list(examples.of), len(body.outputs)
    batched_body, flags = _settled(body, of, examples, consts, carry)
    batched_condition, (differs,) = batched(condition, of, examples)
    if differs:
        of[consts:] = [True] * carry
        flags = tuple(of[consts:])
        batched_body, batched_condition = _until_all(condition, body, of, examples)
    operands = [
        _repeated(x, size) if has and not had else x
        for x, has, had in zip(args, of, examples.of, strict=True)
    ]
    return _each(
        repeated(operands, condition=batched_condition, body=batched_body, consts=consts), flags, size
    )


def _until_all(condition: Graph, body: Graph, of: Sequence[bool], examples: Examples) -> tuple[Graph, Graph]:
    """Graphs of the body and of the condition of a loop that runs until it has ended for every example.

    In a step, an example for which the loop has ended keeps its carry. All carries have an axis of examples.
    """
    carry = len(body.outputs)
    batched_condition, _ = batched(condition, of, examples, (True,))
    step, _ = batched(body, of, examples, (True,) * carry)
    graphs = []
    for role in ("body", "condition"):
        with Trace("vmap") as trace, recording(False):
            inputs = [trace.input(v.aval) for v in step.inputs]
            (flags,) = interpret(batched_condition, inputs)
            if role == "condition":
                graphs.append(trace.rewritten([F.any(flags, axis=(0,), keepdims=False)]))
            else:
                after = interpret(step, inputs)
                before = inputs[len(inputs) - carry :]
                graphs.append(
                    trace.rewritten([_where(flags, a, b) for a, b in zip(after, before, strict=True)])
                )
    return interned(graphs[0]), interned(graphs[1])


def _checkpoint(_F: Namespace, examples: Examples, *args: Handle, body: Graph) -> tuple[Any, ...]:
    batched_body, flags = batched(body, examples.of, examples)
    return _each(checkpointed(args, body=batched_body), flags, examples.size)


BATCHES.update({"scan": _scan, "cond": _cond, "while": _while, "checkpoint": _checkpoint})
