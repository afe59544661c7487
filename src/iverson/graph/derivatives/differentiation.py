"""Differentiation of graphs: pullbacks and pushforwards, written by running the rules of ops in a trace.

A graph is run once on variables of a trace, so that the eager engine has its nodes; the rules of the nodes
run in that trace, which writes them down. `differentiate` writes each pullback into a `grad_of` region, which
is skipped as a whole where its cotangents are undefined: one graph serves every pattern of cotangents.
`Recorded.pullback` writes the pass that the engine plans for one pattern of cotangents and their supports.

The models are the automatic differentiation of PyTorch's TorchScript
(``torch/csrc/jit/runtime/autodiff.cpp``: linear blocks, AutogradAdd, captures and their cotangents) and Radul
et al., You Only Linearize Once (2023).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.autograd import engine, forward, plan
from iverson.autograd.api import variable
from iverson.autograd.demand_propagation import Slot, find_needs
from iverson.autograd.mode import recording
from iverson.autograd.node import Node, Where, differentiated, reachable
from iverson.autograd.record import selected
from iverson.core import dtypes
from iverson.core.aval import Aval, has_shape
from iverson.core.dispatch import Handle, is_tracked, make_handle, slot_of, value_of
from iverson.core.entries import FULL, Entries, Stored
from iverson.core.errors import ArgumentError, MissingRuleError
from iverson.core.float_warnings import silent
from iverson.core.op import Op
from iverson.core.table import pinned_rules
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.derivative_interface import WHOLE, Crossing, Found, let_leave, taken_apart
from iverson.graph.ir.dtype_inference import pullback
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import UNDEFINED, Equation, Graph, Operand, Value, values_of
from iverson.graph.ir.operations import autograd_add, grad_of, is_of_the_library
from iverson.graph.ir.pattern_binding import symbol_of, unknown
from iverson.graph.ir.regions import closed
from iverson.graph.tracing.captured_state import OutsideCells
from iverson.graph.tracing.trace import Trace, Traced
from iverson.layouts import Zero

#: Source of a value that a derivative reads: an input or an output of the function, by number, or
#: "outside", a tensor that a rule of a user reads from around it.
Capture = tuple[str, Any]
#: A derivative as it is written down: its equations, first inputs and outputs, and the forms of these.
_Written = tuple[list[Equation], list[Value], list[Operand], list[Crossing]]


def captured(captures: Sequence[Capture], inputs: Sequence[Any], outputs: Any) -> list[Any]:
    """Values for ``captures``: items of ``inputs`` and ``outputs``, or tensors from outside."""
    of = {"input": inputs, "output": outputs}
    return [of[kind][k] if kind in of else k for kind, k in captures]


@dataclass(frozen=True, slots=True)
class Gradient:
    """A function and its pullback, as graphs.

    f : the function. Its outputs are those of the function that was differentiated, then the values that
        ``df`` reads besides inputs (residuals).
    df : from cotangents and captured values to cotangents of inputs. Any of the cotangents may be undefined;
        an output that depends on no defined one is undefined.
    f_real_outputs : number of outputs of the function that was differentiated.
    captures : the values that the inputs of ``df`` after its cotangents stand for.
    df_input_vjps : the outputs of ``f`` whose cotangents are the first inputs of ``df``: real ones, and
        residuals, whose cotangents are undefined unless a recorded pullback is itself differentiated.
    df_output_vjps : the inputs of ``f`` whose cotangents ``df`` gives.
    """

    f: Graph
    df: Graph
    f_real_outputs: int
    captures: tuple[Capture, ...]
    df_input_vjps: tuple[int, ...]
    df_output_vjps: tuple[int, ...]


class Recorded:
    """A graph that was run on variables of a trace, from whose nodes its derivatives are written down.

    requires_grad : for each input, whether it is a variable.
    keep : whether derivatives read outputs and residuals. If not, they compute these again from the inputs.
    """

    def __init__(self, graph: Graph, requires_grad: Sequence[bool], *, keep: bool = True) -> None:
        self.level = Trace("differentiate")
        self.level.cells = OutsideCells(self.level)
        #: The rules in force where the function was called: values that they read were kept.
        self.rules = pinned_rules()
        with self.level, recording(True):
            handles = [self.level.input(v.aval) for v in graph.inputs]
            self.variables = [
                variable(value_of(x)) if is_variable else x
                for x, is_variable in zip(handles, requires_grad, strict=True)
            ]
            self.outputs = interpret(graph, self.variables)
            self.primal = self.level.rewritten(self.outputs)
        #: By position, the inputs that are variables.
        self.wanted = tuple([k for k, is_variable in enumerate(requires_grad) if is_variable])
        self._keep = keep
        self._reads: list[Value] | None = None if keep else []
        #: For values that are read and may be selections, the equations that take them apart, and the
        #: one that restores them: selections are no residuals.
        self._apart: dict[Value, tuple[list[Equation], Equation]] = {}

    # -- one pattern ---------------------------------------------------------------------------------

    def reads(self) -> list[Value]:
        """The values of the function that the pullback of all outputs to all variables reads: inputs and
        results of equations.

        Where it has no pullback, the values that its pushforward reads.
        """
        if self._reads is None and not all(map(has_shape, self.primal.inputs)):
            self._reads = self._held()
        if self._reads is None:
            avals = [Aval(x.shape, x.dtype) if is_tracked(x) else None for x in self.outputs]
            try:
                equations, _, outputs, _ = self._pulled(avals, self.wanted, recording=True)
            except MissingRuleError:
                tangents = self.of_inputs([k in self.wanted for k in range(len(self.variables))])
                equations, _, outputs, _ = self._pushed(tangents, True)
            equations = list(dead_code(Graph((), tuple(equations), tuple(outputs))).equations)
            defined_values = {v for e in self.primal.equations for v in e.results}.union(self.primal.inputs)
            read_values = dict.fromkeys(v for e in equations for v in values_of(e.operands))
            self._reads = self._as_kept(
                [v for v in self._kept((*read_values, *values_of(outputs))) if v in defined_values]
            )
        return self._reads

    def _as_kept(self, values: Sequence[Value]) -> list[Value]:
        """Return ``values``, in which each selection is replaced by its values and its condition.

        Outputs of the function are not replaced. The equations that split and restore a selection are stored
        in ``_apart``.
        """
        selecting = Found(self.primal.equations, self.primal.constants).selections
        selecting.difference_update(values_of(self.primal.outputs))
        read_values: list[Value] = []
        for v in values:
            if v not in selecting:
                read_values.append(v)
            else:
                parts, apart, restore = taken_apart(v)
                self._apart[v] = apart, restore
                read_values += parts
        return read_values

    def _kept(self, values: Iterable[Value]) -> list[Value]:
        """The values to keep so that ``values`` can be read.

        For a sparse value that an equation makes without a copy, this is the array of its entries; for any
        other value, the value itself.
        """
        makers = {e.results[0]: e for e in self.primal.equations if _is_free(e)}
        sources: dict[Value, None] = {}
        for v in values:
            while v in makers:
                v = makers[v].operands[0]
            sources[v] = None
        return list(sources)

    def _held(self) -> list[Value]:
        """All traced arguments and results of the recorded nodes.

        They are kept if shapes are unknown: then it is not known which of them rules will read.
        """
        node_values = [x for node in self.order() if node.op for x in (*node.args, *_out(node))]
        return list(dict.fromkeys(x.value for x in node_values if isinstance(x, Traced)))

    def residuals(self) -> list[Value]:
        """The values of `reads` that are neither inputs nor outputs, in the order of their definitions."""
        read_values = set(self.reads()) - set(values_of(self.primal.outputs))
        return [v for e in self._forward() for v in e.results if v in read_values]

    def _forward(self) -> Iterator[Equation]:
        """The equations of the function, and those that take selections among residuals apart."""
        for e in self.primal.equations:
            yield e
            for v in e.results:
                yield from self._apart.get(v, ((), None))[0]

    def forward(self) -> Graph:
        """The function with its residuals as further outputs."""
        p, residuals = self.primal, self.residuals()
        return Graph(p.inputs, tuple(self._forward()), (*p.outputs, *residuals), p.constants)

    def pullback(
        self,
        cotangents: Sequence[Aval | None],
        wanted: Sequence[int],
        *,
        recording: bool,
        arriving: Sequence[Crossing] = (),
        leaving: Container[int] = (),
    ) -> tuple[Graph, tuple[Capture, ...], list[Crossing]]:
        """The graph from cotangents of `forward`'s outputs to those of the wanted inputs, its captures, and
        the forms in which its outputs cross.

        cotangents : the aval of each, None for one that is undefined.
        recording : whether it may be differentiated: then it relies on zeros of constants only.
        arriving : forms in which cotangents cross; the condition of a selection comes after its values.
        leaving : inputs whose cotangents may be selections and boxes; in others, selections are carried out.
        """
        equations, seeds, outputs, crossings = self._pulled(
            cotangents, wanted, recording=recording, arriving=arriving, leaving=leaving
        )
        return *self.closed(equations, seeds, outputs), crossings

    def of_inputs(self, given: Sequence[bool]) -> list[Aval | None]:
        """Avals of the tangents of inputs; None for an input that has none."""
        return [Aval(x.shape, x.dtype) if has else None for x, has in zip(self.variables, given, strict=True)]

    def pushforward(
        self,
        tangents: Sequence[Aval | None],
        *,
        recording: bool,
        arriving: Sequence[Crossing] = (),
        leaving: bool = False,
    ) -> tuple[Graph, tuple[Capture, ...], list[Crossing]]:
        """The graph from tangents of inputs to those of `forward`'s outputs; parameters as of `pullback`."""
        equations, seeds, outputs, crossings = self._pushed(tangents, recording, arriving, leaving)
        return *self.closed(equations, seeds, outputs), crossings

    def _pushed(
        self,
        tangents: Sequence[Aval | None],
        recording: bool,
        arriving: Sequence[Crossing] = (),
        leaving: bool = False,
    ) -> _Written:
        """Write the pushforward down; see `pushforward` for the arguments."""
        with self.rules, self.level, self.level.region() as equations:
            seeds, starts = self._seeds(tangents, arriving)
            seed_tangents = {slot_of(self.variables[k]): x for k, x in starts.items()}
            slots = self.slots()
            pushed = forward.push(
                [s for s in slots if s], seed_tangents, create_graph=recording, select=not leaving
            )
            outputs = [pushed.get(s) if s else None for s in slots]
            return (
                equations,
                seeds,
                *self._leaving(outputs, range(len(outputs)) if leaving else (), equations, seeds),
            )

    def _pulled(
        self,
        cotangents: Sequence[Aval | None],
        input_numbers: Sequence[int],
        *,
        recording: bool,
        arriving: Sequence[Crossing] = (),
        leaving: Container[int] = (),
    ) -> _Written:
        """Write the pullback to the inputs ``input_numbers`` down; see `pullback` for the other arguments."""
        slots = self.slots()
        with self.rules, self.level, self.level.region() as equations:
            seeds, starts = self._seeds(cotangents, arriving)
            seed_cotangents = [
                (slot, starts[k]) for k, slot in enumerate(slots) if slot is not None and k in starts
            ]
            input_slots = [slot_of(self.variables[k]) for k in input_numbers]
            at = [n for n, k in enumerate(input_numbers) if k in leaving]
            demands = dict.fromkeys(input_slots, FULL)
            with let_leave(input_slots[n][0] for n in at):
                pulled = engine.reverse(seed_cotangents, demands, create_graph=recording, select=False)
            outputs = list(map(pulled.get, input_slots))
            return equations, seeds, *self._leaving(outputs, at, equations, seeds)

    def _seeds(
        self, avals: Sequence[Aval | None], arriving: Sequence[Crossing]
    ) -> tuple[list[Value], dict[int, Any]]:
        """Inputs for the defined cotangents or tangents, and handles of these by position."""
        seeds: list[Value] = []
        handles: dict[int, Any] = {}
        for k, a in enumerate(avals):
            if a is not None:
                crossing = arriving[k] if arriving else WHOLE
                parts = [Value(a), *[Value(Aval(a.shape, np.dtype(bool)))] * crossing.selects]
                handles[k] = crossing.together(list(map(self.level.handle, parts)))
                seeds += parts
        return seeds, handles

    def _leaving(
        self,
        handles: Sequence[Handle | None],
        at: Container[int],
        equations: Sequence[Equation],
        seeds: Iterable[Value],
    ) -> tuple[list[Operand], list[Crossing]]:
        """Outputs of a derivative, for ``handles`` of cotangents or tangents, and their forms.

        None among ``handles`` stands for one that is undefined. Those at the positions ``at`` may be
        selections and boxes; in others, selections are carried out.

        seeds : inputs of the derivative. A box among them is not tracked, in the calls that it is for.
        """
        analysis: Found | None = None
        outputs: list[Operand] = []
        crossings = [WHOLE] * len(handles)
        for k, x in enumerate(handles):
            if x is None:
                outputs.append(UNDEFINED)
            elif k in at:
                if analysis is None:
                    boxed = (v for v in seeds if not isinstance(v.aval.support, Stored))
                    every = (*self.primal.equations, *equations)
                    analysis = Found(every, self.level.constants, boxed)
                crossings[k] = analysis.crossing(self.level.operand(x))
                outputs += map(self.level.operand, crossings[k].apart(x))
            else:
                outputs.append(self.level.operand(selected(x)))
        return outputs, crossings

    def slots(self) -> list[Slot | None]:
        """For each output of `forward`, the node and result that made it; None if it is not tracked."""
        slots: list[Slot | None] = [slot_of(x) if is_tracked(x) else None for x in self.outputs]
        if self._reads:
            makers = self._made()
            slots += [makers.get(v) for v in self.residuals()]
        return slots

    def order(self) -> list[Node]:
        """The nodes between the variables and the outputs, oldest first."""
        floor = min((slot_of(self.variables[k])[0].number for k in self.wanted), default=0)
        return reachable([slot_of(x)[0] for x in self.outputs if is_tracked(x)], floor)

    def _made(self) -> dict[Value, Slot]:
        """For each value that a recorded node reads or makes, the node and result number that made it.

        A value that stands for another one has the same: the entries that a sparse value is made of without a
        copy, and the values of a selection that is taken apart.
        """
        makers: dict[Value, Slot] = {}
        for node in self.order():
            for value, parent, index in zip(node.args, node.parents, node.indices, strict=True):
                if isinstance(value, Traced) and parent is not None:
                    makers[value.value] = parent, index
            for k, value in enumerate(node.out if node.multiple else (node.out,)):
                if isinstance(value, Traced):
                    makers[value.value] = node, k
        for e in reversed(self.primal.equations):
            if _is_free(e) and e.results[0] in makers:
                node = makers[e.results[0]][0]
                parent = node.parents[0] if node.op is e.op else None
                if parent is not None:
                    makers.setdefault(e.operands[0], (parent, node.indices[0]))
        for v, (apart, _) in self._apart.items():
            if v in makers:
                makers[apart[0].results[0]] = makers[v]
        return makers

    def _on_roots(self, equations: Sequence[Equation], captured: Sequence[Value]) -> set[Value]:
        """Inputs of the function that a derivative has to capture so that its pattern symbols get patterns.

        These are inputs stored on a symbol that ``equations`` need and that no value of ``captured``
        determines.
        """
        symbols = unknown(Graph((), tuple(equations), ()), captured)
        return {v for v in reversed(self.primal.inputs) if symbol_of(v) in symbols}

    def closed(
        self, equations: Sequence[Equation], seeds: Sequence[Value], outputs: Sequence[Operand]
    ) -> tuple[Graph, tuple[Capture, ...]]:
        """Graph of a derivative whose ``equations`` read values of the function, and its captures.

        Its inputs are the seeds, then the values that it reads. Values that are neither inputs nor in `reads`
        are computed again in the graph: callers keep no other outputs.

        seeds : the cotangents or tangents that are inputs.
        """
        p = self.primal
        equations = dead_code(Graph((), tuple(equations), tuple(outputs), ())).equations
        read_values = set(self.reads()) if self._keep else ()
        of_input: dict[Value, Capture] = {v: ("input", k) for k, v in enumerate(p.inputs)}
        of_output: dict[Operand, Capture] = {
            v: ("output", k) for k, v in enumerate((*p.outputs, *self.residuals())) if v in read_values
        }
        captures = {**of_output, **of_input, **{v: ("outside", x) for v, x in self.level.captured}}
        demand = set(values_of(outputs)).union(*(values_of(e.operands) for e in equations))
        recomputation: list[Equation] = []
        for equation in reversed(p.equations):
            missing = [v for v in equation.results if v in demand and v not in captures]
            apart = [self._apart[v][1] for v in missing if v in self._apart]
            for e in apart if len(apart) == len(missing) else [equation]:
                recomputation.append(e)
                demand.update(values_of(e.operands))
        # An equation that is run again may also have results that are kept.
        results = {v for e in recomputation for v in e.results}
        demand |= self._on_roots(
            [*recomputation, *equations], [v for v in captures if v in demand and v not in results]
        )
        captured = [v for v in captures if v in demand and v not in results]
        captured.sort(key=lambda v: captures[v] if v in of_input or v in of_output else ("outside", 0))
        graph = Graph(
            (*seeds, *captured),
            (*reversed(recomputation), *equations),
            tuple(outputs),
            tuple(self.level.constants),
        )
        return dead_code(graph), tuple(captures[v] for v in captured)


def _is_free(e: Equation) -> bool:
    """True if an equation makes a sparse value of arrays that other values hold, without a copy."""
    return e.op.name in ("from_values", "permute_dims") and isinstance(e.results[0].aval.support, Stored)


def differentiate(graph: Graph, requires_grad: Sequence[bool] | None = None) -> Gradient:
    """The pullback of a graph, for every pattern of cotangents.

    Parameters
    ----------
    requires_grad : for each input, whether to differentiate in it; default: if it has a floating dtype.

    Raises ArgumentError unless ``requires_grad`` has one entry for each input.
    """
    if requires_grad is None:
        requires_grad = [dtypes.is_inexact(v.dtype) for v in graph.inputs]
    if len(requires_grad) != len(graph.inputs):
        raise ArgumentError(
            "differentiate",
            "requires_grad",
            got=f"{len(requires_grad)} entries",
            expected=f"{len(graph.inputs)}, one an input",
        )
    recorded = Recorded(graph, requires_grad)
    residuals = recorded.residuals()
    slots = recorded.slots()
    outputs = [*recorded.outputs, *map(recorded.level.handle, residuals)]
    seeds = {k: Value(Aval(outputs[k].shape, outputs[k].dtype)) for k, s in enumerate(slots) if s is not None}
    cotangents: dict[Slot, list[Operand]] = {}
    for k, seed in seeds.items():
        cotangents.setdefault(slots[k], []).append(seed)  # type: ignore[arg-type]
    with recorded.level, recorded.level.region() as equations, recording(False):
        _walk(recorded, cotangents)
        input_slots = [slot_of(recorded.variables[k]) for k in recorded.wanted]
        totals = [_total(recorded.level, cotangents.get(s, [])) for s in input_slots]
        input_cotangents = [_selected(recorded.level, x) for x in totals]
    df, captures = recorded.closed(equations, list(seeds.values()), input_cotangents)
    return Gradient(recorded.forward(), df, len(recorded.outputs), captures, tuple(seeds), recorded.wanted)


@silent
def _walk(recorded: Recorded, cotangents: dict[Slot, list[Operand]]) -> None:
    """Write the pullback of each node into a region, latest node first.

    cotangents : for each result of a node, the terms of its cotangent; changed in place. The terms of a node
        are removed when it is reached; those of the variables are left at the end.
    """
    order = recorded.order()
    targets = {slot_of(recorded.variables[k]): FULL for k in recorded.wanted}
    needs = find_needs(order, targets, recording=True)
    for node in reversed(order):
        demands = needs.of_args.get(node)
        if node.op is None or demands is None:
            continue
        count = len(node.out) if node.multiple else 1
        totals = [_total(recorded.level, cotangents.pop((node, k), [])) for k in range(count)]
        if any(x is not UNDEFINED for x in totals):
            for k, ct in _pulled_back(recorded.level, node, demands, totals):
                parent = node.parents[k]
                assert parent is not None
                cotangents.setdefault((parent, node.indices[k]), []).append(ct)


def _pulled_back(
    level: Trace, node: Node, demands: tuple[Entries, ...], totals: Sequence[Operand]
) -> list[tuple[int, Value]]:
    """Write a `grad_of` region with the rules of ``node``; returns (argument number, cotangent) pairs.

    totals : the cotangent of each result of ``node``, or UNDEFINED.
    """
    before = differentiated.get()
    with level.region() as body:
        rules = _written if all(map(has_shape, (*node.args, *_out(node)))) else _postponed
        try:
            differentiated.set(node.where or before)
            cotangents = rules(level, node, demands, totals)
        finally:
            differentiated.set(before)
    assert node.op is not None
    results = region(level, grad_of, node.op.name, body, totals, [x for _, x in cotangents], node.where)
    return [(k, v) for (k, _), v in zip(cotangents, results, strict=True)]


def region(
    level: Trace,
    op: Op,
    name: str,
    body: Sequence[Equation],
    cotangents: Sequence[Operand],
    outputs: Sequence[Operand],
    where: Where | None,
    flag: Sequence[Operand] = (),
) -> tuple[Value, ...]:
    """Write an equation whose body has the equations ``body`` of a pullback, and return its results.

    op : `grad_of`, or `when` with its flag.
    name : the name of the op that the pullback is of.
    cotangents : those that the body reads; its first inputs, without UNDEFINED ones.
    outputs : operands that the body returns.
    flag : the flag of a `when`, which comes before all operands; empty for `grad_of`.
    """
    defined_cotangents = values_of(cotangents)
    graph = closed(body, outputs, level.constants, defined_cotangents)
    results = tuple([Value(x.aval) for x in outputs])
    if results:
        params = {"name": name, "count": len(defined_cotangents), "body": graph}
        level.equations.append(Equation(op, (*flag, *graph.inputs), params, results, where))
    return results


def _written(
    level: Trace, node: Node, demands: tuple[Entries, ...], totals: Sequence[Operand]
) -> list[tuple[int, Operand]]:
    """Write the rules of ``node`` as equations; returns (argument number, cotangent) pairs.

    totals : the cotangent of each result of ``node``, or UNDEFINED.
    """
    handles = [
        make_handle(Zero(node.result(k).shape, node.result(k).dtype)) if x is UNDEFINED else level.handle(x)
        for k, x in enumerate(totals)
    ]
    pulled = engine._cotangents(node, tuple(handles) if node.multiple else handles[0], demands, True)
    return [(k, level.operand(engine._multiplied(ct))) for k, ct in pulled]


def _postponed(
    level: Trace, node: Node, demands: tuple[Entries, ...], totals: Sequence[Operand]
) -> list[tuple[int, Operand]]:
    """Write one `pullback` equation, which runs the rules of ``node`` once shapes are known.

    The arguments and the returned pairs are those of `_written`.
    """
    op = node.op
    assert op is not None
    positions = tuple([k for step in plan.pullback(op, demands).steps for k in step.positions])
    if not positions:
        return []
    saves = op.saves(tuple([k in positions for k in range(len(node.args))]))[1]
    result_flags = saves if type(saves) is tuple else (saves,) * len(totals)
    out = [level.operand(y) if r else UNDEFINED for y, r in zip(_results(node), result_flags, strict=True)]
    operands = (*totals, *out, *map(level.operand, node.inputs()))
    cotangents = tuple([Value(Aval(node.args[k].shape, node.args[k].dtype)) for k in positions])
    of = op.name if is_of_the_library(op) else op
    params = {"of": of, "results": len(totals), "wanted": positions, **node.params}
    level.equations.append(Equation(pullback, operands, params, cotangents, node.where))
    return list(zip(positions, cotangents, strict=True))


def _out(node: Node) -> tuple[Any, ...]:
    return node.out if node.multiple else (node.out,)


def _results(node: Node) -> tuple[Any, ...]:
    """The results of a node as handles, or as Avals where they are not kept."""
    results = node.results()
    return results if node.multiple else (results,)


def _total(level: Trace, terms: Sequence[Operand]) -> Operand:
    """The sum of the cotangents of one value, by `autograd_add`; UNDEFINED if there are none."""
    total: Operand = terms[0] if terms else UNDEFINED
    for term in terms[1:]:
        result = Value(autograd_add.abstract(total.aval, term.aval))
        level.equations.append(Equation(autograd_add, (total, term), {}, (result,)))
        total = result
    return total


def _selected(level: Trace, x: Operand) -> Operand:
    """A cotangent with its selection, if it is one, carried out."""
    return x if x is UNDEFINED else level.operand(selected(level.handle(x)))
