"""Derivatives of a scan: one scan of the body's derivative for each run of steps that compute the same.

`step_runs` finds the runs, from the cotangents and demands of each step. The body's derivative is specialised
to those (`Variant`), and `Linear` carries out each run as one scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.node import Node
from iverson.autograd.stored_entries import spread
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle
from iverson.core.entries import Entries
from iverson.core.protocols import Shaped
from iverson.core.table import F
from iverson.graph.control.bodies import Derivatives, reached, zero
from iverson.graph.control.cond_checkpoint import ControlOp, narrowed_inputs, wanted_of
from iverson.graph.control.forms import arriving_aval, converted, form_of, taken_by
from iverson.graph.control.step_runs import Part, Run, State, at, cut, follow, joined, state_at
from iverson.graph.derivatives.differentiation import Capture
from iverson.graph.ir.derivative_interface import (
    WHOLE,
    Crossing,
    crossing_of,
    leaving_of,
)
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import UNDEFINED, Graph, Operand, Value
from iverson.graph.ir.operations import OPERATIONS, is_absent
from iverson.graph.tracing.trace import Trace

T = TypeVar("T")


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

        def asked(state: Iterable[int]) -> tuple[int, ...]:
            return tuple(sorted({*always, *(consts + k for k in state)}))

        def read_after(state: State, _: int) -> State:
            """Carries whose cotangents after a step are read to compute those in ``state`` before it."""
            seeds = [k for k in range(len(self.derivatives.forward.outputs)) if k < carry or k in self.place]
            avals = [None] * len(self.derivatives.forward.outputs)
            for k in seeds:
                avals[k] = self._plain(k)  # type: ignore[call-overload]
            graph = self.derivatives.pullback(avals, asked(state), recording, (), ())[0]
            read_inputs = set(narrowed_inputs(graph))
            return dict.fromkeys([k for n, k in enumerate(seeds) if k < carry and n in read_inputs], WHOLE)

        start = dict.fromkeys([k - consts for k in input_numbers if k in of_carry], WHOLE)
        reads = follow(call.length, (), start, read_after)
        call.marks.update(call.length - r.lo for r in reads)

        def variant(state: State, k: int) -> Variant:
            """Pullback of one step; ``state`` says which carries have a cotangent after it.

            k : number of the step in the backward loop.
            """
            order = asked(state_at(reads, call.length - 1 - k))
            avals: list[Aval | None] = [None] * len(self.derivatives.forward.outputs)
            seeds = call.seeds(state, k)
            for kind, j, form in seeds:
                avals[j] = arriving_aval(self._plain(j), form) if kind == "carry" else call.parts[j].aval
            arriving = [WHOLE] * len(avals)
            for _, j, form in seeds:
                arriving[j] = form
            leaving_inputs = [j for j in order if j in leaving]
            graph, captures, crossings = self.derivatives.pullback(
                avals, order, recording, arriving, leaving_inputs
            )
            slots: list[Slot] = [
                ("carry", j - consts) if j in of_carry else ("sum" if j < consts else "stacked", j)
                for j in order
            ]
            return Variant(graph, captures, seeds, slots, crossings)

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
            seeds = call.seeds(state, k)
            avals: list[Aval | None] = [None] * len(self.requires)
            arriving = [WHOLE] * len(avals)
            for kind, j, form in seeds:
                n = j + consts if kind == "carry" else j
                arriving[n] = form
                like = self.body.inputs[n]
                avals[n] = call.parts[j].aval if kind == "stacked" else arriving_aval(like, form)
            graph, captures, crossings = self.derivatives.pushforward(avals, recording, arriving)
            slots = [
                ("carry", j) if j < carry else ("stacked" if j in self.place else "", j)
                for j in range(len(crossings))
            ]
            return Variant(graph, captures, seeds, slots, crossings)

        call.run(variant)
        return [
            call.carries.get(k) if n < carry else call.joined(k, node.out[n]) for n, k in enumerate(self.kept)
        ]


#: Kind and number of what goes into or comes out of a step of a derivative. Its kind is "fixed" (the same in
#: all steps), "carry", "stacked" or "sum" (added up over the steps); "" for what nobody reads.
Slot = tuple[str, int]
#: A slot, and the form in which its value crosses: as one array, or as two for a selection.
Port = tuple[str, int, Crossing]


class Variant:
    """A step of a derivative: its graph, whose inputs are ``seeds`` and then ``captures``."""

    __slots__ = ("captures", "graph", "outputs", "seeds")

    def __init__(
        self,
        graph: Graph,
        captures: Sequence[Capture],
        seeds: Sequence[Port],
        slots: Sequence[Slot],
        crossings: Sequence[Crossing],
    ) -> None:
        self.captures, self.seeds = tuple(captures), tuple(seeds)
        parts = iter(graph.outputs)
        self.outputs: tuple[Port, ...] = ()
        outputs: list[Operand] = []
        for (kind, k), crossing in zip(slots, crossings, strict=True):
            of_port = crossing.taken_from(parts)
            if kind and of_port[0] is not UNDEFINED:
                self.outputs = (*self.outputs, (kind, k, crossing))
                outputs += of_port
        self.graph = replace(graph, outputs=tuple(outputs))

    def carries(self) -> State:
        """The carries that are defined after the step, with their forms."""
        return {k: crossing for _, k, crossing in _of_kind(self.outputs, "carry")}


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

    def seeds(self, state: State, step: int) -> list[Port]:
        """The inputs of a step before which the carries have this state."""
        ports = [("fixed", j, form_of(x)) for j, x in self.fixed.items()]
        ports += [("carry", j, state[j]) for j in sorted(state)]
        parts = sorted(self.parts_at(step).items())
        return ports + [("stacked", j, crossing_of(part.handle, boxes=False)) for j, part in parts]

    def run(self, variant: Callable[[State, int], Variant]) -> None:
        """Run all steps, and leave their results in ``carries``, ``sums`` and ``pieces``.

        variant : ``variant(state, k)`` is step k, if the carries before it have this state.
        """
        runs = follow(
            self.length,
            self.marks,
            {k: form_of(x) for k, x in self.carries.items()},
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
        args = [x for port in step.seeds for x in self._seed(port, lambda x: at(x, position))]
        for capture in step.captures:
            is_stacked, x = self._captured(capture)
            args.append(at(x, position) if is_stacked else x)
        parts = iter(interpret(step.graph, args))
        self.carries = {}
        for kind, j, crossing in step.outputs:
            x = crossing.together(crossing.taken_from(parts))
            if kind == "stacked":
                self.pieces.setdefault(j, []).append((position, position + 1, F.expand_dims(x, axis=(0,))))
            else:
                self._take(kind, j, x)

    def _take(self, kind: str, k: int, x: Handle) -> None:
        """Take what steps have left in a carry or a sum."""
        if kind == "carry":
            self.carries[k] = x
        else:
            self.sums[k] = F.add(self.sums[k], x) if k in self.sums else x

    def _several(self, step: Variant, r: Run) -> None:
        """Run the steps of ``r``, which all are like ``step``, as one scan."""
        lo, hi = self.positions(r.lo, r.hi)
        captured = [self._captured(c) for c in step.captures]
        carries, sums = _of_kind(step.seeds, "carry"), _of_kind(step.outputs, "sum")
        seed = {port: self._seed(port, lambda x: cut(x, lo, hi)) for port in step.seeds}
        init = [x for port in carries for x in seed[port]]
        init += [
            zero(x)
            for port, parts in _by_port(step.outputs, step.graph.outputs)
            if port in sums
            for x in parts
        ]
        fixed = [x for port in _of_kind(step.seeds, "fixed") for x in seed[port]]
        fixed += [x for is_stacked, x in captured if not is_stacked]
        xs = [x for port in _of_kind(step.seeds, "stacked") for x in seed[port]]
        xs += [cut(x, lo, hi) for is_stacked, x in captured if is_stacked]
        out = iter(
            _op().evaluate(
                [*fixed, *init, *xs],
                body=self.scan.body_of(step, [is_stacked for is_stacked, _ in captured]),
                consts=len(fixed),
                carry=len(init),
                length=hi - lo,
                reverse=self.reverse,
            )
        )
        self.carries = {}
        for kind, k, crossing in (*carries, *sums):
            self._take(kind, k, crossing.together(crossing.taken_from(out)))
        for _, k, crossing in _of_kind(step.outputs, "stacked"):
            form = crossing.stacked(hi - lo)
            self.pieces.setdefault(k, []).append((lo, hi, form.together(form.taken_from(out))))

    def _seed(self, port: Port, part: Callable[[Handle], Handle]) -> list[Any]:
        """The handles that go into one or several steps for a seed: a fixed value, the present value of a
        carry, or that part of a stacked value which ``part`` takes.
        """
        kind, k, crossing = port
        if kind == "fixed":
            x = self.fixed[k]
        elif kind == "stacked":
            x = part(self.parts[k].handle)
        else:
            return taken_by(crossing, self.carries.get(k, zero(self.scan.carry_like(k))))
        return crossing.apart(x)

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
        out = interpret(step.graph, [level.handle(v) for v in step.graph.inputs])
        parts = {(kind, k): (c, x) for (kind, k, c), x in _by_port(step.outputs, out)}
        outputs: list[Handle] = []
        for kind, k, form in _of_kind(step.seeds, "carry"):
            outputs += converted(form, *parts.get((kind, k), (WHOLE, [UNDEFINED])), scan.carry_like(k))
        for kind, k, crossing in _of_kind(step.outputs, "sum"):
            x = parts[kind, k][1]
            before = [level.input(Aval(y.shape, y.dtype)) for y in x]
            outputs.append(F.add(before[0], F.where(x[1], x[0], 0) if crossing.selects else x[0]))
            outputs += [F.logical_or(*pair) for pair in zip(before[1:], x[1:], strict=True)]
        outputs += [x for kind, k, _ in _of_kind(step.outputs, "stacked") for x in parts[kind, k][1]]
        graph = level.rewritten(outputs)
    kinds = [kind for kind, _, crossing in step.seeds for _ in range(crossing.count)]
    kinds += ["stacked" if s else "fixed" for s in stacked]
    of_kind = {
        kind: [v for k, v in zip(kinds, step.graph.inputs, strict=True) if k == kind]
        for kind in ("fixed", "carry", "stacked")
    }
    return replace(graph, inputs=(*of_kind["fixed"], *of_kind["carry"], *graph.inputs, *of_kind["stacked"]))


def _by_port(ports: Sequence[Port], values: Iterable[T]) -> list[tuple[Port, list[T]]]:
    """Each port with its values."""
    iterator = iter(values)
    return [(port, port[2].taken_from(iterator)) for port in ports]


def _of_kind(ports: Iterable[Port], kind: str) -> list[Port]:
    return [port for port in ports if port[0] == kind]


def _op() -> ControlOp:
    """The op `scan`, which `scan_loop` defines."""
    return cast(ControlOp, OPERATIONS["scan"])
