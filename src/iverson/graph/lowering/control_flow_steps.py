"""Loops and branches as steps of a program: a graph that an equation runs becomes a block of native steps.

    %c, %ys = scan[body=..., length=T](consts, init, xs)
      ->  c = init; repeat T times with t: (next, ys[t]) = body(consts, c, xs[t]); exchange c and next
    %c = while[condition=..., body=...](consts, init)
      ->  c = init; flag = condition(consts, c)
          repeat while flag: next = body(consts, c); flag = condition(consts, next); exchange c and next
    %y = cond[on_true=..., on_false=...](flag, operands)
      ->  if flag: y = on_true(operands), else: y = on_false(operands)
    %y = mended[finite=..., again=...](first, x, operands)
      ->  y = first; if not finite(x): y = again(operands)
    %y = checkpoint[body=...](operands)
      ->  y = body(operands)

Slices of ``xs`` and ``ys`` are views that move with t, so that nothing is copied: a step computes its slice
of ``ys`` in place. A body is lowered once, so the cost of compiling does not depend on the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from iverson.codegen.nests.nodes import Buffer
from iverson.codegen.programs import Branch, Repeat, View, blas_calls
from iverson.codegen.programs.nodes import Step
from iverson.graph.ir.nodes import Equation, Operand, Value
from iverson.graph.native.buffers import Memory, Times
from iverson.graph.native.step_kinds import Body, body_of


class Around(Protocol):
    """The block of steps that an equation is part of."""

    memory: Memory
    times: Times
    flags: dict[Any, View]
    steps: list[Step]

    def view_of(self, v: Value) -> View: ...

    def compact(self, v: Value) -> View: ...

    def copy(self, out: View, v: Value) -> None: ...

    def made(self, v: Value) -> View: ...

    def is_made(self, v: Value, place: View) -> None: ...

    def inside(
        self, body: Body, given: Sequence[View], into: Sequence[View], times: Times, consts: int = 0
    ) -> tuple[Step, ...]: ...


def steps(at: Around, e: Equation) -> None:
    """Add the steps of an equation that runs graphs."""
    BLOCKS[e.op.name](at, e)


def _body(e: Equation, name: str) -> Body:
    body = body_of(e.params[name])
    assert body is not None, "an equation that is no block"
    return body


def _scan(at: Around, e: Equation) -> None:
    """Add the loop of a `scan`.

    Views of ``xs`` and ``ys`` move with the step, and the two buffers of each carry swap after it.
    """
    body, length, reverse = _body(e, "body"), e.params["length"], e.params["reverse"]
    consts, carry = e.params["consts"], e.params["carry"]
    first = consts + carry
    var = at.memory.variable()
    const_views = _given(at, e.operands[:consts], body)
    state = _started(at, e.operands[consts:first])
    ys = [_slice(at.made(v), var, length, reverse) for v in e.results[carry:]]
    xs = [_slice(_stacked(at, x), var, length, reverse) for x in e.operands[first:]]
    after = [at.memory.temp(c.buffer.dtype, c.shape) for c in state]
    times = replace(at.times, each=at.times.each * length)
    inner = at.inside(body, [*const_views, *state, *xs], [*after, *ys], times, consts)
    at.steps.append(Repeat(var, length, inner, _swaps(state, after)))
    _finished(at, e.results[:carry], state)


def _while(at: Around, e: Equation) -> None:
    """Add the loop of a `while`, whose body also computes the condition for the next step."""
    body, condition, consts = _body(e, "body"), _body(e, "condition"), e.params["consts"]
    const_views = _given(at, e.operands[:consts], body, condition)
    state = _started(at, e.operands[consts:])
    after = [at.memory.temp(c.buffer.dtype, c.shape) for c in state]
    flag = at.memory.temp(condition.graph.outputs[0].dtype, ())
    at.steps += at.inside(condition, [*const_views, *state], [flag], at.times)
    times, count = at.memory.counted()
    inner = (
        count,
        *at.inside(body, [*const_views, *state], after, times, consts),
        *at.inside(condition, [*const_views, *after], [flag], times),
    )
    at.steps.append(Repeat(at.memory.variable(), None, inner, _swaps(state, after), flag))
    _finished(at, e.results, state)


def _cond(at: Around, e: Equation) -> None:
    sides = [_body(e, "on_true"), _body(e, "on_false")]
    flag, *operands = e.operands
    views = _given(at, operands, *sides)
    into = [at.made(v) for v in e.results]
    bodies = []
    for side in sides:
        times, count = at.memory.counted()
        bodies.append((count, *at.inside(side, views, into, times)))
    at.steps.append(Branch(at.view_of(flag), *bodies))


def mended(at: Around, e: Equation, out: View) -> None:
    """Add the steps that compute a product again in its place if it is not finite.

    Operands of the second computation are copied only in the branch that needs them.

    e : an equation of `mended`: the product, the value that is tested, and operands for the second
        computation.
    out : view of the product.
    """
    finite, retry_body = _body(e, "finite"), _body(e, "again")
    (looked_at,) = _given(at, e.operands[1:2], finite)
    flag = at.flags.get((looked_at, id(finite)))
    if flag is None:
        flag = at.memory.temp(np.dtype(bool), ())
        at.steps += at.inside(finite, [looked_at], [flag], at.times)
        if looked_at.buffer.role in ("in", "const"):  # what others hold changes
            at.flags[looked_at, id(finite)] = flag
    before, at.steps = at.steps, []
    views = _given(at, e.operands[2:], retry_body)
    never = replace(at.times, each=0)  # work is counted as if all is finite
    retry = (*at.steps, *at.inside(retry_body, views, [out], never))
    at.steps = [*before, Branch(flag, (), retry)]


def _checkpoint(at: Around, e: Equation) -> None:
    body = _body(e, "body")
    views = _given(at, e.operands, body)
    into = [at.made(v) for v in e.results]
    at.steps += at.inside(body, views, into, at.times)


BLOCKS: dict[str, Callable[[Around, Equation], None]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "checkpoint": _checkpoint,
}


# --- what goes in and out ---------------------------------------------------------------------------


def _given(at: Around, operands: Sequence[Operand], *bodies: Body) -> list[View]:
    """Views of ``operands`` for the inputs of ``bodies``.

    An operand that is not contiguous is copied, unless it is a matrix that only products of BLAS read.
    """
    views = []
    for k, x in enumerate(operands):
        place = at.view_of(x)
        lies_well = place.contiguous or all(_is_factor(b, b.graph.inputs[k], place) for b in bodies)
        views.append(place if lies_well else at.compact(x))
    return views


def _is_factor(body: Body, v: Value, place: View) -> bool:
    """True if only products of BLAS read the input ``v``, and BLAS takes the matrix ``place`` as it lies."""
    readers = [e for e in body.graph.equations if v in e.operands]
    return (
        len(place.shape) == 2
        and blas_calls.matrix(place) is not None
        and v not in body.graph.outputs
        and all(body.kinds.of(e) == "product" for e in readers)
    )


def _started(at: Around, operands: Sequence[Operand]) -> list[View]:
    """Temps with copies of the values that a loop starts with."""
    state = [at.memory.temp(x.dtype, x.shape) for x in operands]
    for place, x in zip(state, operands, strict=True):
        at.copy(place, x)
    return state


def _finished(at: Around, results: Sequence[Value], state: Sequence[View]) -> None:
    for v, place in zip(results, state, strict=True):
        at.is_made(v, place)


def _swaps(state: Sequence[View], after: Sequence[View]) -> tuple[tuple[Buffer, Buffer], ...]:
    return tuple((a.buffer, b.buffer) for a, b in zip(state, after, strict=True))


def _stacked(at: Around, x: Value) -> View:
    """View of a value whose slices along the first axis lie in order each, of a copy if need be."""
    place = at.view_of(x)
    return place if _slice(place, "", 1, False).contiguous else at.compact(x)


def _slice(v: View, var: str, length: int, reverse: bool) -> View:
    """View of the slice along the first axis that a step reads or writes.

    var : the loop variable with which the view moves.
    length : number of steps.
    """
    by = v.strides[0]
    start = v.offset + (length - 1) * by if reverse else v.offset
    return replace(v, shape=v.shape[1:], strides=v.strides[1:], offset=start).moved(
        var, -by if reverse else by
    )


__all__ = ["Around", "mended", "steps"]
