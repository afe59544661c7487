"""Derivatives of a scan: one scan of the body's derivative for each run of steps that compute the same.

`step_runs` finds the runs, from the cotangents and demands of each step. The body's derivative is specialised
to those (`Variant`), and `Linear` carries out each run as one scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.node import Node
from iverson.autograd.stored_entries import spread
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, bind, make_handle
from iverson.core.entries import Entries
from iverson.core.protocols import Shaped
from iverson.core.table import F
from iverson.graph.control.bodies import Derivatives, reached, zero
from iverson.graph.control.cond_checkpoint import ControlOp, narrowed_inputs, wanted_of
from iverson.graph.control.step_runs import Part, Run, State, at, cut, follow, joined, state_at
from iverson.graph.derivatives.differentiation import Capture
from iverson.graph.ir.derivative_interface import (
    WHOLE,
    Crossing,
    crossing_of,
    leaving_of,
    values_held,
    where_held,
)
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import UNDEFINED, Graph, Operand, Value
from iverson.graph.ir.operations import OPERATIONS, is_absent
from iverson.graph.tracing.trace import Trace


class Scan:
    """A scan with tracked operands: the op that keeps what derivatives read, and the derivatives.

    Results of `forward` are the carry, the results of steps, and then, as far as the pullback reads them, the
    carry before each step, the carry after it, and its residuals. In the body that is differentiated, both
    carries are results of the step; so a cotangent of a kept value is one of a result.
    """

    def __init__(self, body: Graph, tracked: Sequence[bool], consts: int, carry: int) -> None:
        self.consts, self.carry, self.body = consts, carry, body
        self.requires = self._closure(body, tracked)
        carry_inputs = body.inputs[consts : consts + carry]
        self.base = replace(body, outputs=(*body.outputs, *carry_inputs, *body.outputs[:carry]))
        self.derivatives = Derivatives(self.base, self.requires)
        outputs = self.derivatives.forward.outputs
        self.whole = len(self.base.outputs)
        first: dict[Operand, int] = {}
        for k in range(carry, len(outputs)):
            first.setdefault(outputs[k], k)
        reads, output_count = self.derivatives.reads, len(body.outputs)
        #: The outputs of the derivatives' forward that are kept, by number.
        self.kept = [
            k
            for k, x in enumerate(outputs)
            if k < output_count or k >= self.whole or (x in reads and first[x] == k)
        ]
        self.place = {k: n for n, k in enumerate(self.kept)}
        #: For each value that is an output of a step and is kept, the number of its stacked result.
        self.stacked = {x: self.place[k] for x, k in first.items() if k in self.place}
        f = self.derivatives.forward
        self.forward = replace(f, outputs=tuple(outputs[k] for k in self.kept))
        self.op = replace(
            _op(),
            joint=self.pull,
            joint_jvp=self.push,
            selects=False,
            kept=tuple(n >= carry and outputs[k] in reads for n, k in enumerate(self.kept)),
        )

    def _closure(self, body: Graph, starts: Sequence[bool]) -> list[bool]:
        """For each input, True if it is tracked in some step.

        starts : for each input, whether it is tracked before the first step.
        """
        mask = list(starts)
        while True:
            out = reached(body, mask)[: self.carry]
            next_mask = list(mask)
            for k, has in enumerate(out):
                next_mask[self.consts + k] |= has
            if next_mask == mask:
                return mask
            mask = next_mask

    def carry_like(self, k: int) -> Value:
        """Input k of the carry, in the body."""
        return self.body.inputs[self.consts + k]

    def again(self, node: Node, x: Value) -> Any:
        """Values of ``x`` in all steps, stacked, for an ``x`` that was not kept: the scan is run again."""
        f = self.derivatives.forward
        body = replace(f, outputs=(*f.outputs[: self.carry], x))
        return _op().evaluate(node.inputs(), **{**node.params, "body": body})[-1]

    def body_of(self, step: Variant, stacked: Sequence[bool]) -> Graph:
        """The body of a scan that runs ``step`` repeatedly, cached; sums over the steps are in its carry too.

        stacked : for each value that ``step`` captures, whether it is stacked (has one slice for each step).
        """
        key = "body", step.graph.inputs, step.graph.outputs, step.seeds, step.outputs, tuple(stacked)
        return self.derivatives.once(key, lambda: _body(step, stacked, self))

    def _plain(self, k: int) -> Aval:
        x = self.derivatives.forward.outputs[k]
        return Aval(x.shape, x.dtype)

    # -- reverse -------------------------------------------------------------------------------------

    def pull(self, demands: Sequence[Entries], node: Node, g: Sequence[Handle]) -> list[Any]:
        """Cotangents of the operands; None for one that is not demanded or undefined."""
        call = Linear(self, node, backwards=True)
        carry, consts = self.carry, self.consts
        of_carry = range(consts, consts + carry)
        input_numbers = wanted_of(demands)
        leaving = {*leaving_of(node, input_numbers), *of_carry}
        always = tuple(k for k in input_numbers if k not in of_carry)
        call.given(
            {k: x for k, x in enumerate(g[:carry]) if not is_absent(x)},
            {self.kept[n]: x for n, x in enumerate(g) if n >= carry and not is_absent(x)},
        )
        recording = is_grad_enabled()

        def asked(state: State) -> tuple[int, ...]:
            return tuple(sorted({*always, *(consts + k for k in state)}))

        def read_after(state: State, _: int) -> State:
            """Carries whose cotangents after a step are read to compute those in ``state`` before it."""
            seeds = [k for k in range(len(self.derivatives.forward.outputs)) if k < carry or k in self.place]
            avals = [None] * len(self.derivatives.forward.outputs)
            for k in seeds:
                avals[k] = self._plain(k)  # type: ignore[call-overload]
            graph = self.derivatives.pullback(avals, asked(state), recording, (), ())[0]
            read_inputs = set(narrowed_inputs(graph))
            return frozenset(k for n, k in enumerate(seeds) if k < carry and n in read_inputs)

        start = frozenset(k - consts for k in input_numbers if k in of_carry)
        reads = follow(call.length, (), start, read_after)
        call.marks.update(call.length - r.lo for r in reads)

        def variant(state: State, k: int) -> Variant:
            """Pullback of one step; ``state`` says which carries have a cotangent after it.

            k : number of the step in the backward loop.
            """
            order = asked(state_at(reads, call.length - 1 - k))
            avals: list[Aval | None] = [None] * len(self.derivatives.forward.outputs)
            seeds = [("carry", j, _selects(state, j)) for j in _carries(state)]
            for j in _carries(state):
                avals[j] = self._plain(j)
            for j, part in sorted(call.parts_at(k).items()):
                avals[j] = part.aval
                seeds.append(("stacked", j, selects(part.handle)))
            arriving = [WHOLE] * len(avals)
            for _, j, is_selection in seeds:
                arriving[j] = Crossing(selects=is_selection)
            leaving_inputs = [j for j in order if j in leaving]
            graph, captures, crossings = self.derivatives.pullback(
                avals, order, recording, arriving, leaving_inputs
            )
            kinds: list[Slot] = [
                ("carry", j - consts) if j in of_carry else ("sum" if j < consts else "stacked", j)
                for j in order
            ]
            return Variant(graph, captures, seeds, kinds, crossings)

        call.run(variant)
        cotangents: list[Any] = [None] * len(demands)
        for k in input_numbers:
            if k in of_carry:
                cotangents[k] = call.carries.get(k - consts)
            else:
                cotangents[k] = call.sums.get(k) if k < consts else call.joined(k, node.args[k])
        return cotangents

    # -- forward -------------------------------------------------------------------------------------

    def push(self, tangents: Sequence[Handle | None], node: Node) -> list[Any]:
        """Tangents of the results; None for one that is undefined."""
        call = Linear(self, node, backwards=False)
        carry, consts = self.carry, self.consts
        defined_tangents = {k: t for k, t in enumerate(tangents) if t is not None}
        call.given(
            {k - consts: t for k, t in defined_tangents.items() if consts <= k < consts + carry},
            {k: t for k, t in defined_tangents.items() if k >= consts + carry},
            {k: t for k, t in defined_tangents.items() if k < consts},
        )
        recording = is_grad_enabled()

        def variant(state: State, k: int) -> Variant:
            """Pushforward of step ``k``; ``state`` says which carries have a tangent before it."""
            seeds = [("fixed", j, selects(x)) for j, x in call.fixed.items()]
            seeds += [("carry", j, _selects(state, j)) for j in _carries(state)]
            seeds += [("stacked", j, selects(part.handle)) for j, part in sorted(call.parts_at(k).items())]
            at = {j + consts if kind == "carry" else j: is_selection for kind, j, is_selection in seeds}
            has = [j in at for j in range(len(self.requires))]
            arriving = [Crossing(selects=at.get(j, False)) for j in range(len(self.requires))]
            graph, captures, crossings = self.derivatives.pushforward(has, recording, arriving, leaving=True)
            kinds = [
                ("carry", j) if j < carry else ("stacked" if j in self.place else "", j)
                for j in range(len(crossings))
            ]
            return Variant(graph, captures, seeds, kinds, crossings)

        call.run(variant)
        return [
            call.carries.get(k) if n < carry else call.joined(k, node.out[n]) for n, k in enumerate(self.kept)
        ]


#: Kind and number of an input or output of a step of a derivative. Its kind is "fixed" (the same in all
#: steps), "carry", "stacked" or "sum" (added up over the steps). A selection
#: (`graph.ir.derivative_interface`) has two slots: that of its values, then that of its condition, whose kind
#: ends in " held".
Slot = tuple[str, int]


def selects(x: Handle) -> bool:
    """True if a handle may hold a selection."""
    return crossing_of(x, boxes=False).selects


def _state(slots: Iterable[Slot]) -> State:
    """The state of some slots: numbers k of defined carries, and -1 - k for carries that are selections."""
    numbers = {"carry": lambda k: k, "carry held": lambda k: -1 - k}
    return frozenset(numbers[kind](k) for kind, k in slots if kind in numbers)


def _carries(state: State) -> list[int]:
    return sorted(k for k in state if k >= 0)


def _selects(state: State, k: int) -> bool:
    return -1 - k in state


def _apart(slots: Iterable[tuple[str, int, bool]]) -> list[Slot]:
    """Slots for ``slots`` of the form (kind, number, True for a selection): two for a selection, else one."""
    return [
        slot
        for kind, k, is_selection in slots
        for slot in ((kind, k), (f"{kind} held", k))[: 1 + is_selection]
    ]


class Variant:
    """A step of a derivative: its graph, with the slots of its first inputs and of its outputs."""

    __slots__ = ("captures", "graph", "outputs", "seeds")

    def __init__(
        self,
        graph: Graph,
        captures: Sequence[Capture],
        seeds: Iterable[tuple[str, int, bool]],
        kinds: Sequence[Slot],
        crossings: Sequence[Crossing],
    ) -> None:
        self.captures = tuple(captures)
        self.seeds = tuple(_apart(seeds))
        outputs = _apart((*slot, c.selects) for slot, c in zip(kinds, crossings, strict=True))
        at = [k for k, x in enumerate(graph.outputs) if x is not UNDEFINED and outputs[k][0] in _KINDS]
        self.outputs = tuple(outputs[k] for k in at)
        self.graph = replace(graph, outputs=tuple(graph.outputs[k] for k in at))

    def carries(self) -> State:
        """Set with the number k of each carry k that is defined after the step.

        If carry k is a selection (values with a condition), the set contains the number -1 - k too.
        """
        return _state(self.outputs)


_KINDS = frozenset(f"{kind}{suffix}" for kind in ("carry", "sum", "stacked") for suffix in ("", " held"))


class Linear:
    """A derivative of one scan, in the making: a loop over its steps, forwards or backwards.

    Positions are along the first axis of stacked arrays; step k is at position k, or at k from the end. The
    attributes hold cotangents of a pullback, or tangents of a pushforward:

    carries : by number of the carry, the value after the steps that have run.
    fixed : by number of the input, values that are the same in all steps.
    sums : by number of the input, sums over the steps that have run.
    pieces : by number of the result, its parts so far: (first position, last position + 1, handle).
    parts : by number, the stacked values that steps read.
    marks : steps at which a part begins or ends.
    """

    def __init__(self, scan: Scan, node: Node, *, backwards: bool) -> None:
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

    def given(
        self, carries: dict[int, Handle], stacked: dict[int, Handle], fixed: dict[int, Handle] | None = None
    ) -> None:
        """Set the carries and stacked values that the loop starts with, and values fixed in all steps."""
        self.carries, stacked, self.fixed = (
            {k: spread(x) for k, x in handles.items()} for handles in (carries, stacked, fixed or {})
        )
        self.parts = {k: Part(x) for k, x in stacked.items()}
        self.marks = {b for p in self.parts.values() for b in self.positions(p.lo, p.hi)}

    def positions(self, lo: int, hi: int) -> tuple[int, int]:
        """The range of positions of a range of steps, or the range of steps at a range of positions."""
        return (self.length - hi, self.length - lo) if self.reverse else (lo, hi)

    def parts_at(self, step: int) -> dict[int, Part]:
        """The stacked values that are defined in a step."""
        k, _ = self.positions(step, step + 1)
        return {j: p for j, p in self.parts.items() if p.lo <= k < p.hi}

    def run(self, variant: Callable[[State, int], Variant]) -> None:
        """Run all steps, and leave their results in ``carries``, ``sums`` and ``pieces``.

        variant : ``variant(state, k)`` is step k, if the carries before it have this state.
        """
        runs = follow(
            self.length,
            self.marks,
            _state(_apart(("carry", k, selects(x)) for k, x in self.carries.items())),
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

    def _one(self, step: Variant, k: int) -> None:
        """Run step ``k`` alone, as equations outside of any loop."""
        position, _ = self.positions(k, k + 1)
        args = [self._seed(slot, lambda x: at(x, position)) for slot in step.seeds]
        for capture in step.captures:
            is_stacked, x = self._captured(capture)
            args.append(at(x, position) if is_stacked else x)
        self.carries = {}
        values = _together(dict(zip(step.outputs, interpret(step.graph, args), strict=True)))
        for (kind, j), x in values.items():
            if kind == "carry":
                self.carries[j] = x
            elif kind == "sum":
                self._add(j, x)
            else:
                stacked_value = F.expand_dims(x, axis=(0,))
                self.pieces.setdefault(j, []).append((position, position + 1, stacked_value))

    def _add(self, k: int, x: Handle) -> None:
        self.sums[k] = F.add(self.sums[k], x) if k in self.sums else x

    def _several(self, step: Variant, r: Run) -> None:
        """Run the steps of ``r``, which all are like ``step``, as one scan."""
        lo, hi = self.positions(r.lo, r.hi)
        captured = [self._captured(c) for c in step.captures]
        carry_slots = _of_kind(step.seeds, "carry")
        sum_slots = _of_kind(step.outputs, "sum")
        stacked_slots = _of_kind(step.outputs, "stacked")
        body = self.scan.body_of(step, [is_stacked for is_stacked, _ in captured])
        likes = dict(zip(step.outputs, step.graph.outputs, strict=True))
        init = [self._seed(s, lambda x: x) for s in carry_slots]
        init += [zero(likes[s]) for s in sum_slots]
        fixed = [self._seed(s, lambda x: x) for s in _of_kind(step.seeds, "fixed")]
        fixed += [x for is_stacked, x in captured if not is_stacked]
        xs = [self._seed(s, lambda x: cut(x, lo, hi)) for s in _of_kind(step.seeds, "stacked")]
        xs += [cut(x, lo, hi) for is_stacked, x in captured if is_stacked]
        out = list(
            _op().evaluate(
                [*fixed, *init, *xs],
                body=body,
                consts=len(fixed),
                carry=len(init),
                length=hi - lo,
                reverse=self.reverse,
            )
        )
        values = _together(dict(zip([*carry_slots, *sum_slots, *stacked_slots], out, strict=True)))
        self.carries = {}
        for (kind, k), x in values.items():
            if kind == "carry":
                self.carries[k] = x
            elif kind == "sum":
                self._add(k, x)
            else:
                self.pieces.setdefault(k, []).append((lo, hi, x))

    def _seed(self, slot: Slot, part: Callable[[Handle], Handle]) -> Any:
        """Choose the handle that goes into the input ``slot`` of one or several steps of the derivative.

        A "fixed" slot gets the whole fixed value, a "stacked" slot gets the result of ``part``, and a
        "carry" slot gets the present value of the carry, or a zero if the carry has none. If this value is
        a selection (values with a condition), a slot whose kind ends in " held" gets the condition, and
        others the values.

        part : function that takes the slices for these steps out of a stacked value.
        """
        kind, k = slot
        if kind.startswith("fixed"):
            x = self.fixed[k]
        elif kind.startswith("stacked"):
            x = part(self.parts[k].handle)
        else:
            x = self.carries[k] if k in self.carries else zero(self.scan.carry_like(k))
        if kind.endswith("held"):
            return bind(where_held, (x,))
        return bind(values_held, (x,)) if selects(x) else x

    def _captured(self, capture: Capture) -> tuple[bool, Any]:
        """For a value that a step captures: True if it is stacked over the steps, and its handle."""
        scan, (kind, k) = self.scan, capture
        if kind == "outside":
            return False, k
        if kind == "input" and not scan.consts <= k < scan.consts + scan.carry:
            return k >= scan.consts, self.inputs[k]
        f = scan.derivatives.forward
        x = f.inputs[k] if kind == "input" else f.outputs[k]
        place = scan.stacked.get(x)
        result = None if place is None else self.results[place]  # the rule of another direction may read less
        return True, scan.again(self.node, x) if result is None or isinstance(result, Aval) else result

    def joined(self, k: int, like: Shaped) -> Any:
        """Stacked result k, from its pieces; None if there are none."""
        return joined(self.pieces[k], like) if k in self.pieces else None


def _body(step: Variant, stacked: Sequence[bool], scan: Scan) -> Graph:
    """Write the body of a scan over ``step``: inputs and outputs of its graph in the order that `scan` has.

    The order of inputs is fixed values, carries, sums, stacked values; outputs are carries, sums, stacked
    values. See `Scan.body_of`.
    """
    with Trace("scan") as level, recording(False):
        handles = [level.handle(v) for v in step.graph.inputs]
        out = dict(zip(step.outputs, interpret(step.graph, handles), strict=True))
        outputs = [out[s] if s in out else _missing(s, out, scan) for s in _of_kind(step.seeds, "carry")]
        for s in _of_kind(out, "sum"):
            x = level.input(Aval(out[s].shape, out[s].dtype))
            there = out.get((f"{s[0]} held", s[1]))
            y = out[s] if there is None else F.where(there, out[s], 0)
            outputs.append(F.logical_or(x, y) if s[0] == "sum held" else F.add(x, y))
        outputs += [out[s] for s in _of_kind(out, "stacked")]
        graph = level.rewritten(outputs)
    kinds = [kind for kind, _ in step.seeds] + ["stacked" if s else "fixed" for s in stacked]
    order = [
        v
        for kind in ("fixed", "carry")
        for k, v in zip(kinds, step.graph.inputs, strict=True)
        if k.startswith(kind)
    ]
    inputs = (
        *order,
        *graph.inputs,
        *(v for k, v in zip(kinds, step.graph.inputs, strict=True) if k.startswith("stacked")),
    )
    return replace(graph, inputs=inputs)


def _missing(slot: Slot, out: dict[Slot, Handle], scan: Scan) -> Any:
    """A carry that a step does not compute: a zero; or its condition, which is true where values are held."""
    kind, k = slot
    like = scan.carry_like(k)
    if kind == "carry":
        return zero(like)
    return make_handle(np.broadcast_to(np.bool_(("carry", k) in out), like.shape))


def _together(out: dict[Slot, Handle]) -> dict[Slot, Any]:
    """Values by their slots; a selection is put together from its values and its condition."""
    values = {}
    for (kind, k), x in out.items():
        if not kind.endswith("held"):
            there = out.get((f"{kind} held", k))
            values[kind, k] = x if there is None else F.bracket(there, x, negated=False)
    return values


def _of_kind(slots: Iterable[Slot], kind: str) -> list[Slot]:
    return [s for s in slots if s[0] in (kind, f"{kind} held")]


def _op() -> ControlOp:
    """The op `scan`, which `scan_loop` defines."""
    return cast(ControlOp, OPERATIONS["scan"])
