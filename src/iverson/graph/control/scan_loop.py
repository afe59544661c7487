"""`scan`: a loop with a known number of steps and a carry, over slices of arrays.

    %c, %ys = scan[body=graph(consts, carry, slices) { ... return (carry, slices of ys) },
                   consts=, carry=, length=, reverse=](consts, init, xs)

Its derivative is a scan of the body's derivative, in the other direction. Steps of that differ in what they
compute: of a loss on ``ys[3]``, later steps have no cotangent, this step has the cotangent of its result
alone, and earlier steps have one of the carry. Consecutive steps of one kind are one scan, a single step of
its own kind is a call of the body, and steps that no cotangent reaches are not run (`scan_derivative`,
`step_runs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from iverson.autograd.mode import is_grad_enabled, recording
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, make_handle, value_of
from iverson.core.entries import NOTHING, Box, Entries
from iverson.core.protocols import LayoutValue, Shaped
from iverson.core.table import TABLE, F
from iverson.graph.control.bodies import compiled, flags, hoisted, let_be_native, run
from iverson.graph.control.cond_checkpoint import ControlOp, batch_rule, checkpointed, define, narrowed_inputs
from iverson.graph.control.loop_programs import programs_of_loop
from iverson.graph.control.scan_derivative import Scan
from iverson.graph.control.step_runs import cut, joined, slices
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.graph_maps import LoopMap
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import Argument, Equation, Graph, Value
from iverson.graph.ir.operations import bound
from iverson.graph.tracing.random_draws import drawn_before
from iverson.graph.tracing.trace import Trace
from iverson.kernels.index_keys import canonical_slice
from iverson.layouts import Strided, aligned_empty, are_strided


def scanned(
    args: Sequence[Argument], *, body: Graph, consts: int, carry: int, length: int, reverse: bool
) -> Sequence[Any]:
    """The carry after the last step and the results of all steps, stacked."""
    body, consts, args = _prepared(body, consts, length, args)
    params = {"body": body, "consts": consts, "carry": carry, "length": length, "reverse": reverse}
    tracked_flags = flags(args)
    if any(tracked_flags) and is_grad_enabled():
        scan = body.once(
            ("scan", tracked_flags, consts, carry), lambda: Scan(body, tracked_flags, consts, carry)
        )
        results = bound(scan.op, tuple(args), {**params, "body": scan.forward})
        return results[: len(body.outputs)]  # type: ignore[no-any-return]
    return bound(scan_op, tuple(args), params)  # type: ignore[no-any-return]


def scanned_in_blocks(
    args: Sequence[Argument], *, body: Graph, consts: int, carry: int, length: int, reverse: bool, every: int
) -> Sequence[Any]:
    """Run a scan as `scanned` does, but keep only the carry of each ``every`` steps for a derivative, which
    runs the steps between two of them again."""
    body, consts, args = _prepared(body, consts, length, args)
    call: dict[str, Any] = {"consts": consts, "carry": carry, "reverse": reverse}
    count, remainder = divmod(length, every)
    lo, hi = (remainder, length) if reverse else (0, length - remainder)
    outer = body.once(("blocks", consts, carry, every, reverse), lambda: _block(body, every, call))
    xs = [_in_blocks(cut(x, lo, hi), every) for x in args[consts + carry :]]
    state = args[consts : consts + carry]
    out = scanned([*args[:consts], *state, *xs], body=outer, length=count, **call)
    state, ys = list(out[:carry]), [_of_blocks(y) for y in out[carry:]]
    if not remainder:
        return [*state, *ys]
    remainder_range = (0, remainder) if reverse else (hi, length)
    xs = [cut(x, *remainder_range) for x in args[consts + carry :]]
    remainder_body = body.once(
        ("block", consts, carry, remainder, reverse), lambda: _steps(body, remainder, call)
    )
    last = checkpointed([*args[:consts], *state, *xs], body=remainder_body)
    stacks = [
        joined([(lo, hi, y), (*remainder_range, z)], Aval((length, *z.shape[1:]), z.dtype))
        for y, z in zip(ys, last[carry:], strict=True)
    ]
    return [*last[:carry], *stacks]


def _block(body: Graph, every: int, call: dict[str, Any]) -> Graph:
    """The body of a scan over blocks of ``every`` steps: a block is computed again for its derivative.

    call : the other parameters of the scan.
    """
    inner = _steps(body, every, call)
    with Trace("scan") as level:
        inputs = [level.input(v.aval) for v in inner.inputs]
        return level.rewritten(checkpointed(inputs, body=inner))


def _steps(body: Graph, length: int, call: dict[str, Any]) -> Graph:
    """Graph that runs a scan of ``length`` steps of ``body``; its inputs are the operands of the scan.

    call : the other parameters of the scan.
    """
    fixed = call["consts"] + call["carry"]
    with Trace("scan") as level:
        inputs = [
            level.input(v.aval if k < fixed else Aval((length, *v.shape), v.dtype))
            for k, v in enumerate(body.inputs)
        ]
        return level.rewritten(scanned(inputs, body=body, length=length, **call))


def _in_blocks(x: Handle, every: int) -> Any:
    return F.reshape(x, shape=(x.shape[0] // every, every, *x.shape[1:]))


def _of_blocks(x: Handle) -> Any:
    return F.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def _prepared(
    body: Graph, consts: int, length: int, args: Sequence[Argument]
) -> tuple[Graph, int, list[Any]]:
    """Evaluate what can be before the loop; returns body, number of constants and operands of the new call.

    Random draws of all steps become stacked operands, and equations that all steps share become constants.
    """
    draws, body = body.once("drawn in steps", lambda: drawn_before(body))
    args = [*args, *(d.several(length)() for d in draws)]
    first, inside = body.once(("hoisted", consts), lambda: hoisted(body, consts) or (None, body))
    if first is None:
        return body, consts, args
    if compiled(body).native:
        let_be_native([inside])
    hoisted_values = interpret(first, args[:consts])
    return inside, consts + len(hoisted_values), [*args[:consts], *hoisted_values, *args[consts:]]


def _loop(
    *values: LayoutValue, body: Graph, consts: int, carry: int, length: int, reverse: bool
) -> tuple[Any, ...]:
    """Kernel of `scan`: runs the body step by step; returns the last carry and the stacked results.

    What remains runs as a program, if that is due, from the step on before which all values are strided.
    """
    fixed, state = values[:consts], list(values[consts : consts + carry])
    xs = values[consts + carry :]
    stacks = [_Stack(x, length, reverse) for x in body.outputs[carry:]]
    call: dict[str, Any] = {"consts": consts, "carry": carry, "reverse": reverse}
    programs = programs_of_loop([body], length) if length and are_strided((*fixed, *xs)) else None
    for k in range(length):
        lo, hi = (0, length - k) if reverse else (k, length)
        if programs is not None and are_strided(state):
            steps, graph = hi - lo, partial(_steps, body, hi - lo, call)
            remaining = [np.asarray(x[lo:hi]) for x in xs if type(x) is Strided]
            out = programs.run("scan", [*fixed, *state, *remaining], (steps, *call.values()), graph)
            if out is not None:
                state = list(out[:carry])
                for stack, rows in zip(stacks, out[carry:], strict=True):
                    stack.put_rows(lo, rows)
                break
        t = hi - 1 if reverse else lo
        out = run(body, [*fixed, *state, *[_slice(x, t) for x in xs]])
        state = list(out[:carry])
        for stack, y in zip(stacks, out[carry:], strict=True):
            stack.put(t, y)
    return (*state, *(s.stacked() for s in stacks))


def _slice(x: LayoutValue, t: int) -> Any:
    if type(x) is Strided:
        return np.asarray(x[t])
    return value_of(
        F.index_basic(make_handle(x), key=(t, *(canonical_slice(slice(None), n) for n in x.shape[1:])))
    )


class _Stack:
    """One result of all steps, stacked: in one array as long as it is strided."""

    def __init__(self, like: Shaped, length: int, reverse: bool) -> None:
        self.like, self.length, self.reverse = like, length, reverse
        self.array: Any = None
        self.values: list[Any] = []

    def put(self, t: int, y: LayoutValue) -> None:
        if self.array is None and not self.values and type(y) is Strided:
            self.array = aligned_empty((self.length, *self.like.shape), self.like.dtype)
            self.written: list[int] = []
        if self.array is not None:
            if type(y) is Strided:
                self.array[t] = y
                self.written.append(t)
                return
            self.values = [self.array[k, ...] for k in self.written]  # also of rank 0 arrays, not numbers
            self.array = None
        self.values.append(y)

    def put_rows(self, lo: int, rows: LayoutValue) -> None:
        """Put the results of all steps that remain, from ``lo`` on."""
        if self.length == rows.shape[0]:
            self.array = rows
        elif self.array is not None and type(rows) is Strided:
            self.array[lo : lo + rows.shape[0]] = rows
        else:
            steps = range(rows.shape[0])
            for k in reversed(steps) if self.reverse else steps:
                self.put(lo + k, _slice(rows, k))

    def stacked(self) -> Any:
        if self.array is not None:
            return self.array
        if not self.length:
            return aligned_empty((0, *self.like.shape), self.like.dtype)
        values = self.values[::-1] if self.reverse else self.values
        with recording(False):
            return value_of(F.stack(*map(make_handle, values), axis=0))


def _abstract(
    *_: Shaped | complex, body: Graph, consts: int, carry: int, length: int, reverse: bool
) -> tuple[Aval, ...]:
    carry_avals = [Aval(x.shape, x.dtype) for x in body.outputs[:carry]]
    return (*carry_avals, *(Aval((length, *x.shape), x.dtype) for x in body.outputs[carry:]))


def _narrow(equation: Equation, read: set[Value]) -> Equation:
    """`ControlOp.narrow` of `scan`: without the results, carries and operands that nothing needs.

    A carry stays if its result is in ``read``, or if an output that stays reads it.
    """
    params = dict(equation.params)
    body, consts, carry = params["body"], params["consts"], params["carry"]
    stays = {k for k, v in enumerate(equation.results) if v in read}
    while True:
        inner = dead_code(replace(body, outputs=tuple(body.outputs[k] for k in sorted(stays))))
        inputs = set(narrowed_inputs(inner))
        body_carries = {k - consts for k in inputs if consts <= k < consts + carry}
        if body_carries <= stays:
            break
        stays |= body_carries
    at = sorted(stays)
    positions = [
        k
        for k in range(len(body.inputs))
        if (k - consts in stays if consts <= k < consts + carry else k in inputs)
    ]
    params.update(
        body=replace(inner, inputs=tuple(body.inputs[k] for k in positions)),
        consts=sum(k < consts for k in positions),
        carry=sum(k < carry for k in at),
    )
    return replace(
        equation,
        operands=tuple(equation.operands[k] for k in positions),
        params=params,
        results=tuple(equation.results[k] for k in at),
    )


def _shorten(equation: Equation, where: Sequence[Entries]) -> list[Equation] | None:
    """Equations of a scan without the steps after the last one whose result is demanded.

    None if the last carry is demanded, if the demands are not boxes, or if all steps have to run.

    where : the demanded entries of each result.

        %c, %ys = scan[length=16](%h, %xs)             %1 = index_basic[key=(slice(0, 4, 1),)](%xs)
        %y = index_basic[key=(3,)](%ys)         ->     %c, %2 = scan[length=4](%h, %1)
                                                       %ys = embed[key=(slice(0, 4, 1),)](%2)
                                                       %y = index_basic[key=(3,)](%ys)
    """
    carry, length = equation.params["carry"], equation.params["length"]
    demands = [need for need in where if need is not NOTHING]
    if any(need is not NOTHING for need in where[:carry]) or not all(isinstance(n, Box) for n in demands):
        return None
    regions = [need.region for need in demands if isinstance(need, Box)]
    lo, hi = min(r.start[0] for r in regions), max(r.stop[0] for r in regions)
    lo, hi = (lo, length) if equation.params["reverse"] else (0, hi)
    if (lo, hi) == (0, length):
        return None
    first = equation.params["consts"] + carry
    equations: list[Equation] = []
    operands = list(equation.operands[:first])
    for x in equation.operands[first:]:
        operands.append(Value(Aval((hi - lo, *x.shape[1:]), x.dtype)))
        key = {"key": slices(lo, hi, x.shape)}
        equations.append(Equation(TABLE["index_basic"], (x,), key, (operands[-1],), equation.where))
    ys = equation.results[carry:]
    parts = tuple([Value(Aval((hi - lo, *y.shape[1:]), y.dtype)) for y in ys])
    results = (*equation.results[:carry], *parts)
    params = {**equation.params, "length": hi - lo}
    equations.append(replace(equation, operands=tuple(operands), params=params, results=results))
    for y, part in zip(ys, parts, strict=True):
        key = {"key": slices(lo, hi, y.shape), "shape": y.shape}
        equations.append(Equation(TABLE["embed"], (part,), key, (y,), equation.where))
    return equations


scan_op = define(
    ControlOp(
        name="scan",
        batch=batch_rule("scan"),
        forward=_loop,
        abstract=_abstract,
        entry_map=LoopMap(),
        multiple=True,
        evaluate=scanned,
        narrow=_narrow,
        shorten=_shorten,
    )
)
