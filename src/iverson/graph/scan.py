"""`scan`: a loop of a known number of steps, with a carry, over slices of arrays.

    %c, %ys = scan[body=graph(consts, carry, slices) { ... return (carry, slices of ys) },
                   consts=, carry=, length=, reverse=](consts, init, xs)

Its derivative is a scan of the body's derivative, the other way round. What each step of that has to compute
differs: of a loss on ``ys[3]``, steps after that one have no cotangent, it has one of its result alone, and
those before it have one of the carry. Steps of one kind that follow each other are one scan, a step of a kind
of its own is a call of the body, and steps that nothing reaches are not run (`steps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from iverson.autograd.mode import is_grad_enabled, no_grad, recording
from iverson.core.aval import Aval
from iverson.core.dispatch import bind, make_handle, value_of
from iverson.core.entries import NOTHING, Box, Entries
from iverson.core.table import TABLE, F
from iverson.graph.bodies import (
    Derivatives,
    compiled,
    flags,
    hoisted,
    let_be_native,
    reached,
    run,
    zero,
)
from iverson.graph.control import (
    FAMILY,
    ControlOp,
    batch_rule,
    checkpointed,
    define,
    narrowed_inputs,
    wanted_of,
)
from iverson.graph.dead_code import dead_code
from iverson.graph.differentiate import Capture
from iverson.graph.draws import drawn_before
from iverson.graph.interpret import interpret
from iverson.graph.nodes import UNDEFINED, Equation, Graph, Operand, Value
from iverson.graph.operations import bound, drawn, is_absent
from iverson.graph.steps import Part, Run, State, at, cut, follow, joined, slices, state_at
from iverson.graph.trace import Trace
from iverson.kernels.keys import canonical_slice
from iverson.layouts import aligned_empty


def scanned(
    args: Sequence[Any], *, body: Graph, consts: int, carry: int, length: int, reverse: bool
) -> Sequence[Any]:
    """The carry after the last step and the results of all steps, stacked."""
    body, consts, args = _prepared(body, consts, length, args)
    params = {"body": body, "consts": consts, "carry": carry, "length": length, "reverse": reverse}
    tracked = flags(args)
    if any(tracked) and is_grad_enabled():
        made = body.once(("scan", tracked, consts, carry), lambda: _Scan(body, tracked, consts, carry))
        found = bind(made.op, tuple(args), {**params, "body": made.forward})
        return found[: len(body.outputs)]  # type: ignore[no-any-return]
    return bound(scan_op, tuple(args), params)  # type: ignore[no-any-return]


def scanned_in_blocks(
    args: Sequence[Any], *, body: Graph, consts: int, carry: int, length: int, reverse: bool, every: int
) -> Sequence[Any]:
    """As `scanned`, but of the carries every so manieth is kept for a derivative: the steps from there to the
    next are run again."""
    body, consts, args = _prepared(body, consts, length, args)
    call: dict[str, Any] = {"consts": consts, "carry": carry, "reverse": reverse}
    count, rest = divmod(length, every)
    lo, hi = (rest, length) if reverse else (0, length - rest)
    outer = body.once(("blocks", consts, carry, every, reverse), lambda: _block(body, every, call))
    xs = [_in_blocks(cut(x, lo, hi), every) for x in args[consts + carry :]]
    state = args[consts : consts + carry]
    out = scanned([*args[:consts], *state, *xs], body=outer, length=count, **call)
    state, ys = list(out[:carry]), [_of_blocks(y) for y in out[carry:]]
    if not rest:
        return [*state, *ys]
    others = (0, rest) if reverse else (hi, length)
    xs = [cut(x, *others) for x in args[consts + carry :]]
    again = body.once(("block", consts, carry, rest, reverse), lambda: _steps(body, rest, call))
    last = checkpointed([*args[:consts], *state, *xs], body=again)
    whole = [
        joined([(lo, hi, y), (*others, z)], Aval((length, *z.shape[1:]), z.dtype))
        for y, z in zip(ys, last[carry:], strict=True)
    ]
    return [*last[:carry], *whole]


def _block(body: Graph, every: int, call: dict[str, Any]) -> Graph:
    """The body of a scan over blocks of steps: each is computed again for its derivative."""
    inner = _steps(body, every, call)
    with Trace("scan") as level:
        given = [level.input(v.aval) for v in inner.inputs]
        return level.graph(checkpointed(given, body=inner))


def _steps(body: Graph, length: int, call: dict[str, Any]) -> Graph:
    """Some steps of a scan as a graph."""
    fixed = call["consts"] + call["carry"]
    with Trace("scan") as level:
        given = [
            level.input(v.aval if k < fixed else Aval((length, *v.shape), v.dtype))
            for k, v in enumerate(body.inputs)
        ]
        return level.graph(scanned(given, body=body, length=length, **call))


def _in_blocks(x: Any, every: int) -> Any:
    return F.reshape(x, shape=(x.shape[0] // every, every, *x.shape[1:]))


def _of_blocks(x: Any) -> Any:
    return F.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def _prepared(body: Graph, consts: int, length: int, args: Sequence[Any]) -> tuple[Graph, int, list[Any]]:
    """The call with what is the same in all steps computed, and what they draw drawn, before the loop."""
    draws, body = body.once("drawn in steps", lambda: drawn_before(body))
    args = [*args, *(drawn(d.several(length)) for d in draws)]
    first, inside = body.once(("hoisted", consts), lambda: hoisted(body, consts) or (None, body))
    if first is None:
        return body, consts, args
    if compiled(body).native:
        let_be_native([inside])
    made = interpret(first, args[:consts])
    return inside, consts + len(made), [*args[:consts], *made, *args[consts:]]


def _loop(*values: Any, body: Graph, consts: int, carry: int, length: int, reverse: bool) -> tuple[Any, ...]:
    """The kernel: the body's program, step by step."""
    fixed, state = values[:consts], list(values[consts : consts + carry])
    xs = values[consts + carry :]
    stacks = [_Stack(x, length) for x in body.outputs[carry:]]
    for t in reversed(range(length)) if reverse else range(length):
        out = run(body, [*fixed, *state, *[_slice(x, t) for x in xs]])
        state = list(out[:carry])
        for stack, y in zip(stacks, out[carry:], strict=True):
            stack.put(t, y)
    return (*state, *(s.stacked(reverse) for s in stacks))


def _slice(x: Any, t: int) -> Any:
    if type(x) is np.ndarray:
        return np.asarray(x[t])
    return value_of(
        F.index_basic(make_handle(x), key=(t, *(canonical_slice(slice(None), n) for n in x.shape[1:])))
    )


class _Stack:
    """The results of one kind of all steps: in one array as long as they are strided."""

    def __init__(self, like: Any, length: int) -> None:
        self.like, self.length = like, length
        self.array: Any = None
        self.values: list[Any] = []

    def put(self, t: int, y: Any) -> None:
        if self.array is None and not self.values and type(y) is np.ndarray:
            self.array = aligned_empty((self.length, *self.like.shape), self.like.dtype)
            self.written: list[int] = []
        if self.array is not None:
            if type(y) is np.ndarray:
                self.array[t] = y
                self.written.append(t)
                return
            self.values = [self.array[k, ...] for k in self.written]  # also of rank 0 arrays, not numbers
            self.array = None
        self.values.append(y)

    def stacked(self, reverse: bool) -> Any:
        if self.array is not None:
            return self.array
        if not self.length:
            return aligned_empty((0, *self.like.shape), self.like.dtype)
        values = self.values[::-1] if reverse else self.values
        with no_grad():
            return value_of(F.stack(*map(make_handle, values), axis=0))


def _abstract(*_: Any, body: Graph, consts: int, carry: int, length: int, reverse: bool) -> tuple[Aval, ...]:
    found = [Aval(x.shape, x.dtype) for x in body.outputs[:carry]]
    return (*found, *(Aval((length, *x.shape), x.dtype) for x in body.outputs[carry:]))


def _narrow(equation: Equation, read: set[Value]) -> Equation:
    """A carry stays if it is read at the end, or by what stays."""
    params = dict(equation.params)
    body, consts, carry = params["body"], params["consts"], params["carry"]
    stays = {k for k, v in enumerate(equation.results) if v in read}
    while True:
        inner = dead_code(replace(body, outputs=tuple(body.outputs[k] for k in sorted(stays))))
        inputs = set(narrowed_inputs(inner))
        more = {k - consts for k in inputs if consts <= k < consts + carry}
        if more <= stays:
            break
        stays |= more
    at = sorted(stays)
    taken = [
        k
        for k in range(len(body.inputs))
        if (k - consts in stays if consts <= k < consts + carry else k in inputs)
    ]
    params.update(
        body=replace(inner, inputs=tuple(body.inputs[k] for k in taken)),
        consts=sum(k < consts for k in taken),
        carry=sum(k < carry for k in at),
    )
    return replace(
        equation,
        operands=tuple(equation.operands[k] for k in taken),
        params=params,
        results=tuple(equation.results[k] for k in at),
    )


def _shorten(equation: Equation, where: Sequence[Entries]) -> list[Equation] | None:
    """A loop without the steps after the last one whose result is read, if nothing reads the last carry.

    %c, %ys = scan[length=16](%h, %xs)             %1 = index_basic[key=(slice(0, 4, 1),)](%xs)
    %y = index_basic[key=(3,)](%ys)         ->     %c, %2 = scan[length=4](%h, %1)
                                                   %ys = embed[key=(slice(0, 4, 1),)](%2)
                                                   %y = index_basic[key=(3,)](%ys)
    """
    carry, length = equation.params["carry"], equation.params["length"]
    read = [need for need in where if need is not NOTHING]
    if any(need is not NOTHING for need in where[:carry]) or not all(isinstance(n, Box) for n in read):
        return None
    regions = [need.region for need in read if isinstance(need, Box)]
    lo, hi = min(r.start[0] for r in regions), max(r.stop[0] for r in regions)
    lo, hi = (lo, length) if equation.params["reverse"] else (0, hi)
    if (lo, hi) == (0, length):
        return None
    first = equation.params["consts"] + carry
    made: list[Equation] = []
    operands = list(equation.operands[:first])
    for x in equation.operands[first:]:
        operands.append(Value(Aval((hi - lo, *x.shape[1:]), x.dtype)))
        key = {"key": slices(lo, hi, x.shape)}
        made.append(Equation(TABLE["index_basic"], (x,), key, (operands[-1],), equation.where))
    ys = equation.results[carry:]
    parts = tuple([Value(Aval((hi - lo, *y.shape[1:]), y.dtype)) for y in ys])
    results = (*equation.results[:carry], *parts)
    params = {**equation.params, "length": hi - lo}
    made.append(replace(equation, operands=tuple(operands), params=params, results=results))
    for y, part in zip(ys, parts, strict=True):
        key = {"key": slices(lo, hi, y.shape), "shape": y.shape}
        made.append(Equation(TABLE["embed"], (part,), key, (y,), equation.where))
    return made


scan_op = define(
    ControlOp(
        name="scan",
        batch=batch_rule("scan"),
        family=FAMILY,
        forward=_loop,
        abstract=_abstract,
        multiple=True,
        evaluate=scanned,
        narrow=_narrow,
        shorten=_shorten,
    )
)


class _Scan:
    """A scan of which some operands are tracked: the op that keeps what derivatives read, and these.

    Results of `forward` are the carry, the results of steps, then of each step as far as the pullback reads
    them: the carry it was given, the carry it gave, and its residuals. In the body that is differentiated,
    both carries are results of the step; so a cotangent of what was kept is one of a result.
    """

    def __init__(self, body: Graph, tracked: Sequence[bool], consts: int, carry: int) -> None:
        self.consts, self.carry, self.body = consts, carry, body
        self.requires = self._closure(body, tracked)
        given = body.inputs[consts : consts + carry]
        self.base = replace(body, outputs=(*body.outputs, *given, *body.outputs[:carry]))
        self.derivatives = Derivatives(self.base, self.requires)
        outputs = self.derivatives.forward.outputs
        self.whole = len(self.base.outputs)
        first: dict[Operand, int] = {}
        for k in range(carry, len(outputs)):
            first.setdefault(outputs[k], k)
        reads, own = self.derivatives.reads, len(body.outputs)
        #: The outputs of the derivatives' forward that are kept, by number.
        self.kept = [
            k for k, x in enumerate(outputs) if k < own or k >= self.whole or (x in reads and first[x] == k)
        ]
        self.place = {k: n for n, k in enumerate(self.kept)}
        #: Where a value that is an output of a step is kept.
        self.stacked = {x: self.place[k] for x, k in first.items() if k in self.place}
        f = self.derivatives.forward
        self.forward = replace(f, outputs=tuple(outputs[k] for k in self.kept))
        self.op = replace(
            scan_op,
            joint=self.pull,
            joint_jvp=self.push,
            kept=tuple(n >= carry and outputs[k] in reads for n, k in enumerate(self.kept)),
        )

    def _closure(self, body: Graph, tracked: Sequence[bool]) -> list[bool]:
        """The inputs that are tracked in some step."""
        found = list(tracked)
        while True:
            out = reached(body, found)[: self.carry]
            again = list(found)
            for k, has in enumerate(out):
                again[self.consts + k] |= has
            if again == found:
                return found
            found = again

    def carry_like(self, k: int) -> Value:
        """The carry of a number."""
        return self.body.inputs[self.consts + k]

    def again(self, node: Any, x: Value) -> Any:
        """Stacked values that were not kept, of another run."""
        body = replace(self.base, outputs=(*self.base.outputs[: self.carry], x))
        return scanned(node.inputs(), **{**node.params, "body": body})[-1]

    def body_of(self, step: _Variant, stacked: Sequence[bool]) -> Graph:
        """The body of a scan over steps of one kind, in which sums are carries."""
        key = "body", step.graph.inputs, step.graph.outputs, step.seeds, step.outputs, tuple(stacked)
        return self.derivatives.once(key, lambda: _body(step, stacked, self))  # type: ignore[no-any-return]

    def _plain(self, k: int) -> Aval:
        x = self.derivatives.forward.outputs[k]
        return Aval(x.shape, x.dtype)

    # -- reverse -------------------------------------------------------------------------------------

    def pull(self, demands: Sequence[Any], node: Any, g: Sequence[Any]) -> list[Any]:
        """Cotangents of the operands."""
        call = _Linear(self, node, backwards=True)
        carry, consts = self.carry, self.consts
        of_carry = range(consts, consts + carry)
        wanted = wanted_of(demands)
        always = tuple(k for k in wanted if k not in of_carry)
        call.given(
            {k: x for k, x in enumerate(g[:carry]) if not is_absent(x)},
            {self.kept[n]: x for n, x in enumerate(g) if n >= carry and not is_absent(x)},
        )
        recording = is_grad_enabled()

        def asked(state: State) -> tuple[int, ...]:
            return tuple(sorted({*always, *(consts + k for k in state)}))

        def read_after(state: State, _: int) -> State:
            """The carries of which the cotangent after a step is read for that before it."""
            seeds = [k for k in range(len(self.derivatives.forward.outputs)) if k < carry or k in self.place]
            avals = [None] * len(self.derivatives.forward.outputs)
            for k in seeds:
                avals[k] = self._plain(k)  # type: ignore[call-overload]
            graph, _captures = self.derivatives.pullback(avals, asked(state), recording)
            read = set(narrowed_inputs(graph))
            return frozenset(k for n, k in enumerate(seeds) if k < carry and n in read)

        start = frozenset(k - consts for k in wanted if k in of_carry)
        reads = follow(call.length, (), start, read_after)
        call.marks.update(call.length - r.lo for r in reads)

        def variant(state: State, k: int) -> _Variant:
            order = asked(state_at(reads, call.length - 1 - k))
            avals: list[Aval | None] = [None] * len(self.derivatives.forward.outputs)
            seeds = [("carry", k) for k in sorted(state)]
            for _, j in seeds:
                avals[j] = self._plain(j)
            for j, part in sorted(call.parts_at(k).items()):
                avals[j] = part.aval
                seeds.append(("stacked", j))
            graph, captures = self.derivatives.pullback(avals, order, recording)
            kinds = [
                ("carry", j - consts) if j in of_carry else ("sum" if j < consts else "stacked", j)
                for j in order
            ]
            return _Variant(graph, captures, seeds, kinds)

        call.run(variant)
        found: list[Any] = [None] * len(demands)
        for k in wanted:
            if k in of_carry:
                found[k] = call.carries.get(k - consts)
            else:
                found[k] = call.sums.get(k) if k < consts else call.joined(k, node.args[k])
        return found

    # -- forward -------------------------------------------------------------------------------------

    def push(self, tangents: Sequence[Any], node: Any) -> list[Any]:
        """Tangents of the results."""
        call = _Linear(self, node, backwards=False)
        carry, consts = self.carry, self.consts
        given = {k: t for k, t in enumerate(tangents) if t is not None}
        call.given(
            {k - consts: t for k, t in given.items() if consts <= k < consts + carry},
            {k: t for k, t in given.items() if k >= consts + carry},
        )
        call.fixed = {k: t for k, t in given.items() if k < consts}
        recording = is_grad_enabled()

        def variant(state: State, k: int) -> _Variant:
            seeds = [("fixed", j) for j in call.fixed]
            seeds += [("carry", j) for j in sorted(state)]
            seeds += [("stacked", j) for j in sorted(call.parts_at(k))]
            at = {j + consts if kind == "carry" else j for kind, j in seeds}
            has = [j in at for j in range(len(self.requires))]
            graph, captures = self.derivatives.pushforward(has, recording)
            kinds = [
                ("carry", j) if j < carry else ("stacked" if j in self.place else "", j)
                for j in range(len(graph.outputs))
            ]
            return _Variant(graph, captures, seeds, kinds)

        call.run(variant)
        return [
            call.carries.get(k) if n < carry else call.joined(k, node.out[n]) for n, k in enumerate(self.kept)
        ]


#: What an input or output of a step of a derivative is: "fixed", the same in all steps; "carry"; "stacked";
#: "sum", added up over the steps; and its number.
Slot = tuple[str, int]


class _Variant:
    """A step of a derivative, as a graph, with what its first inputs and its outputs are."""

    __slots__ = ("captures", "graph", "outputs", "seeds")

    def __init__(
        self, graph: Graph, captures: Sequence[Capture], seeds: Sequence[Slot], outputs: Sequence[Slot]
    ) -> None:
        self.captures = tuple(captures)
        self.seeds = tuple(seeds)
        at = [k for k, x in enumerate(graph.outputs) if x is not UNDEFINED and outputs[k][0]]
        self.outputs = tuple(outputs[k] for k in at)
        self.graph = replace(graph, outputs=tuple(graph.outputs[k] for k in at))

    def carries(self) -> State:
        """The carries that are defined after the step."""
        return frozenset(k for kind, k in self.outputs if kind == "carry")


class _Linear:
    """A derivative of one scan, in the making: a loop over its steps, first to last or the other way round.

    Positions are those of stacked arrays; a step of this loop is at position k, or counted from the end.
    """

    def __init__(self, scan: _Scan, node: Any, *, backwards: bool) -> None:
        self.scan, self.node = scan, node
        self.length: int = node.params["length"]
        self.reverse = node.params["reverse"] != backwards
        self.inputs, self.results = node.inputs(), node.results()
        self.carries: dict[int, Any] = {}
        self.fixed: dict[int, Any] = {}
        self.sums: dict[int, Any] = {}
        self.pieces: dict[int, list[tuple[int, int, Any]]] = {}
        self.parts: dict[int, Part] = {}
        self.marks: set[int] = set()

    def given(self, carries: dict[int, Any], stacked: dict[int, Any]) -> None:
        """What the loop starts from."""
        self.carries = carries
        self.parts = {k: Part(x) for k, x in stacked.items()}
        self.marks = {b for p in self.parts.values() for b in self.positions(p.lo, p.hi)}

    def positions(self, lo: int, hi: int) -> tuple[int, int]:
        """The positions of some steps, and the steps at some positions."""
        return (self.length - hi, self.length - lo) if self.reverse else (lo, hi)

    def parts_at(self, step: int) -> dict[int, Part]:
        """The stacked values that are defined in a step."""
        k, _ = self.positions(step, step + 1)
        return {j: p for j, p in self.parts.items() if p.lo <= k < p.hi}

    def run(self, variant: Any) -> None:
        """All steps; ``variant(state, k)`` is step k with these carries defined."""
        runs = follow(
            self.length,
            self.marks,
            frozenset(self.carries),
            lambda state, k: variant(state, k).carries(),
        )
        for r in runs:
            step = variant(r.state, r.lo)
            if not step.seeds or not step.outputs:
                self.carries = {}
            elif r.hi - r.lo == 1:
                self._one(step, r.lo)
            else:
                self._several(step, r)

    def _one(self, step: _Variant, k: int) -> None:
        position, _ = self.positions(k, k + 1)
        args = [self._seed(slot, lambda x: at(x, position)) for slot in step.seeds]
        for capture in step.captures:
            is_stacked, x = self._captured(capture)
            args.append(at(x, position) if is_stacked else x)
        self.carries = {}
        for (kind, j), x in zip(step.outputs, interpret(step.graph, args), strict=True):
            if kind == "carry":
                self.carries[j] = x
            elif kind == "sum":
                self.sums[j] = F.add(self.sums[j], x) if j in self.sums else x
            else:
                whole = F.expand_dims(x, axis=(0,))
                self.pieces.setdefault(j, []).append((position, position + 1, whole))

    def _several(self, step: _Variant, r: Run) -> None:
        lo, hi = self.positions(r.lo, r.hi)
        captured = [self._captured(c) for c in step.captures]
        carried = [s for s in step.seeds if s[0] == "carry"]
        summed = [s for s in step.outputs if s[0] == "sum"]
        stacked = [s for s in step.outputs if s[0] == "stacked"]
        body = self.scan.body_of(step, [is_stacked for is_stacked, _ in captured])
        likes = dict(zip(step.outputs, step.graph.outputs, strict=True))
        init = [self.carries[k] if k in self.carries else zero(self.scan.carry_like(k)) for _, k in carried]
        init += [self.sums[k] if k in self.sums else zero(likes["sum", k]) for _, k in summed]
        fixed = [self.fixed[k] for kind, k in step.seeds if kind == "fixed"]
        fixed += [x for is_stacked, x in captured if not is_stacked]
        xs = [cut(self.parts[k].handle, lo, hi) for kind, k in step.seeds if kind == "stacked"]
        xs += [cut(x, lo, hi) for is_stacked, x in captured if is_stacked]
        out = list(
            scanned(
                [*fixed, *init, *xs],
                body=body,
                consts=len(fixed),
                carry=len(init),
                length=hi - lo,
                reverse=self.reverse,
            )
        )
        self.carries = {k: out.pop(0) for _, k in carried}
        self.sums.update({k: out.pop(0) for _, k in summed})
        for _, k in stacked:
            self.pieces.setdefault(k, []).append((lo, hi, out.pop(0)))

    def _seed(self, slot: Slot, part: Any) -> Any:
        kind, k = slot
        if kind == "fixed":
            return self.fixed[k]
        if kind == "stacked":
            return part(self.parts[k].handle)
        return self.carries[k] if k in self.carries else zero(self.scan.carry_like(k))

    def _captured(self, capture: Capture) -> tuple[bool, Any]:
        """Whether what a step reads is stacked, and it."""
        scan, (kind, k) = self.scan, capture
        if kind == "input" and not scan.consts <= k < scan.consts + scan.carry:
            return k >= scan.consts, self.inputs[k]
        f = scan.derivatives.forward
        x = f.inputs[k] if kind == "input" else f.outputs[k]
        place = scan.stacked.get(x)
        return True, scan.again(self.node, x) if place is None else self.results[place]

    def joined(self, k: int, like: Any) -> Any:
        """A stacked result, or None."""
        return joined(self.pieces[k], like) if k in self.pieces else None


def _body(step: _Variant, stacked: Sequence[bool], scan: _Scan) -> Graph:
    with Trace("scan") as level, recording(False):
        given = [level.handle(v) for v in step.graph.inputs]
        sums = [level.input(Aval(x.shape, x.dtype)) for (kind, _), x in _slots(step) if kind == "sum"]
        out = dict(zip(step.outputs, interpret(step.graph, given), strict=True))
        carried = [s for s in step.seeds if s[0] == "carry"]
        outputs = [out[s] if s in out else zero(scan.carry_like(s[1])) for s in carried]
        outputs += [F.add(x, y) for x, (s, y) in zip(sums, _of_kind(out, "sum"), strict=True)]
        outputs += [x for _, x in _of_kind(out, "stacked")]
        graph = level.graph(outputs)
    kinds = [kind for kind, _ in step.seeds] + ["stacked" if s else "fixed" for s in stacked]
    order = [
        v for kind in ("fixed", "carry") for k, v in zip(kinds, step.graph.inputs, strict=True) if k == kind
    ]
    inputs = (
        *order,
        *graph.inputs,
        *(v for k, v in zip(kinds, step.graph.inputs, strict=True) if k == "stacked"),
    )
    return replace(graph, inputs=inputs)


def _slots(step: _Variant) -> list[tuple[Slot, Any]]:
    return list(zip(step.outputs, step.graph.outputs, strict=True))


def _of_kind(out: dict[Slot, Any], kind: str) -> list[tuple[Slot, Any]]:
    return [(s, x) for s, x in out.items() if s[0] == kind]
