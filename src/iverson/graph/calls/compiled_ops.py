"""Compiled graphs as ops: each graph is one op, whose derivatives are compiled graphs too.

On untracked inputs a compiled graph runs its program. If an input is tracked, the call is one node, of an op
made for the tracked inputs: its forward also gives what backward reads, and its backward picks a variant of
the pullback, for the cotangents that are defined and the inputs whose cotangents are demanded in this call. A
variant is made when it is first asked for and kept. It is a compiled graph itself, so derivatives of any
order are compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar

from iverson.autograd.joint_ops import JointOp
from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.node import Node
from iverson.autograd.stored_entries import spread
from iverson.codegen.launches.integer_arguments import MOST
from iverson.core.aval import Aval
from iverson.core.counting import checks, work
from iverson.core.dispatch import (
    Handle,
    bind,
    is_tracked,
    level_of,
    make_handle,
    make_handles,
    value_of,
)
from iverson.core.entries import FULL, NOTHING, Box, Entries, Stored
from iverson.core.errors import CompilationWarning
from iverson.core.op import Op
from iverson.core.protocols import LayoutValue, Params
from iverson.core.python.cached import cached_property
from iverson.core.python.caller import warn
from iverson.graph.calls import compilation_log
from iverson.graph.calls.executable import Executable, executable
from iverson.graph.derivatives.differentiation import Capture, Recorded, captured
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.derivative_interface import WHOLE, crossing_of, leaving_of
from iverson.graph.ir.graph_maps import GraphMap
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import UNDEFINED, Argument, Graph, Undefined
from iverson.graph.ir.operations import is_absent
from iverson.graph.ir.pattern_binding import binding_of, bounds, inputs_on_symbols
from iverson.graph.ir.print import numbers
from iverson.graph.lowering.graph_lowering import NOTHING_DONATED, Lowered, Native
from iverson.graph.lowering.lowering_formulas import LoweringFormulas
from iverson.graph.lowering.padding import on_binding
from iverson.graph.passes import simplified
from iverson.graph.passes.common_subexpressions import common
from iverson.graph.passes.demand_analysis import demands
from iverson.kernels.kernel_registry import Values, register
from iverson.layouts import Sparse, are_strided, holds_alone, support_of, to_strided
from iverson.layouts.pattern_symbols import (
    Binding,
    Counts,
    PatternRead,
    PatternSymbol,
    actual,
    capacity,
    examples,
    symbol_for,
    widened,
)

#: Number of entries that a fitted graph always has room for.
LEAST = 1 << 12
#: Number of patterns (or capacities) for which graphs made for each are cached.
_PATTERNS = 8
#: False where loops run op by op, however many steps they have: in the interpreter, as an oracle.
compiles_loops: ContextVar[bool] = ContextVar("iverson_compiles_loops", default=True)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _CompiledOp(JointOp):
    """The op of a compiled graph.

    kept : for each result, True if a derivative reads it, so that the node saves it.
    """

    FAMILY: ClassVar[str] = "compiled"
    kept: tuple[bool, ...]

    def _find_saves(self, tracked: tuple[bool, ...]) -> tuple[tuple[bool, ...], Any]:
        return (True,) * len(tracked), self.kept


class Compiled:
    """A graph to be called on handles.

    graph : as it is differentiated; its program is of the simplified graph.
    name : its name in errors and reports.
    native : whether it runs as a program; if not, op by op.
    donated : positions of inputs whose memory a call may write outputs into, each with the position of the
        output that should be there, or -1 for any. Memory that another object uses is copied first.
    sharing : codes that graphs of other sizes and numbers share.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        *,
        native: bool = True,
        donated: Mapping[int, int] = NOTHING_DONATED,
        sharing: LoweringFormulas | None = None,
    ) -> None:
        self.graph = graph
        self.name = name
        self.native = native
        self.donated = donated
        self.sharing = sharing
        #: Why it is compiled, for `compilation_log`.
        self.reason = "sparse operands with another number of stored entries"
        self._program: Executable | None = None
        self._is_defined = all(x is not UNDEFINED for x in graph.outputs)
        self._ops: dict[tuple[bool, ...], _Differentiable] = {}
        self._at: dict[Any, Compiled] = {}
        self._fitted: dict[Any, Compiled] = {}
        #: True if it was made for the numbers of entries of its calls (`_fitting`).
        self._fits = False

    def __call__(self, handles: Sequence[Argument]) -> list[Any]:
        """Call the graph on one handle for each input; returns one handle for each output.

        An output that is not defined is returned as UNDEFINED. An input may be UNDEFINED if the graph tests
        whether it is defined (`lower_grad_of`).
        """
        values = list(map(value_of, handles, handles))
        if not are_strided(values):
            present = [x for x in handles if x is not UNDEFINED]
            partly = len(present) < len(handles) and is_grad_enabled() and any(map(is_tracked, present))
            if partly or level_of(values) is not None:
                return interpret(self._actual(values), handles)
            if len(present) < len(handles):
                return [x if x is UNDEFINED else make_handle(x) for x in self.run(values)]
        tracked_flags = tuple(map(is_tracked, handles))
        if True in tracked_flags and is_grad_enabled():
            if not self._on_symbols:
                return self.differentiable(tracked_flags)(handles)
            binding = binding_of(self.graph, values)
            if (other := self._fitting(binding)) is not self:
                return other(handles)
            try:
                with examples(binding):
                    return self.differentiable(tracked_flags)(handles)
            except PatternRead:
                return self.at(values)(handles)
        results = self.run(values, handles)
        if not self._is_defined:
            return [x if x is UNDEFINED else make_handle(x) for x in results]
        return make_handles(results)

    def run(
        self, values: Sequence[LayoutValue | Undefined], handles: Sequence[Argument] = ()
    ) -> Sequence[Any]:
        """Outputs of the graph for ``values`` of its inputs, as values; nothing is recorded.

        The program computes them, or the interpreter op by op unless ``native``. A donated input whose memory
        another object uses is copied first; its copy replaces it in ``values``, which must be a list then.

        handles : the handles of ``values``, needed only if inputs are donated.
        """
        if not self.native or (work.active.count and checks.in_force()):
            token = compiles_loops.set(False)
            try:
                return self.op_by_op(values)
            finally:
                compiles_loops.reset(token)
        if not self._on_symbols:
            return self._executable().run(self._owned(values, handles))
        binding = binding_of(self.graph, values)
        if (other := self._fitting(binding)) is not self:
            return other.run(values, handles)
        try:
            with examples(binding):
                program = self._executable()
        except PatternRead:
            return self.at(values).run(values, handles)
        return program.run(self._owned(values, handles), binding)

    def op_by_op(self, values: Sequence[LayoutValue | Undefined]) -> Sequence[Any]:
        """Outputs of the graph for ``values`` of its inputs, as values, by the interpreter."""
        with recording(False):
            arguments = [x if isinstance(x, Undefined) else make_handle(x) for x in values]
            graph = self._actual(values)
            graph = graph.once("each once", lambda: dead_code(common(graph)))
            return [value_of(x, x) for x in interpret(graph, arguments)]

    @cached_property
    def _on_symbols(self) -> bool:
        return bool(inputs_on_symbols(self.graph))

    def _executable(self) -> Executable:
        if self._program is None:
            start, codes = perf_counter(), set(self.sharing.keys if self.sharing else ())
            self._program = executable(simplified(self.graph), self.donated, self.sharing)
            if self.sharing is None or self.sharing.keys - codes or not codes:
                seconds = perf_counter() - start
                compilation_log.note(self.name, self.reason, len(self.graph.equations), seconds)
            if self.sharing is not None and self.sharing.is_full and not self.sharing.has_warned:
                self.sharing.has_warned = True
                warn(
                    f"{self.name}: compiled again, after {MOST} codes for any sizes ({self.reason}); "
                    "pad what changes to few sizes",
                    CompilationWarning,
                )
        return self._program

    @property
    def code(self) -> Any:
        """Keys of the machine code of a graph that shares it with other sizes; else the object itself."""
        steps = () if self._program is None else self._program.steps
        native = [s.compiled for s in steps if isinstance(s, Native)]
        return tuple([x.key for x in native]) if any(x.calling.words for x in native) else self

    @property
    def lowered(self) -> Lowered | None:
        """The lowered graph, if it was called and runs on the values of its inputs as they are."""
        return self._program if self.native and isinstance(self._program, Lowered) else None

    def _owned(self, values: Sequence[LayoutValue | Undefined], handles: Sequence[Argument]) -> Sequence[Any]:
        """Return ``values``, with a copy in place of each donated value whose memory another object uses.

        The replacement is in place. Without ``handles`` nothing is copied.
        """
        assert self._program is not None
        if handles and self._program.reused:
            _own(values, handles, self._program.reused)
        return values

    def _fitting(self, binding: Binding) -> Compiled:
        """This graph compiled with a capacity that fits the numbers of entries of one call.

        Capacities are of the patterns that follow from the patterns of inputs. The result is this object if
        each capacity has room for the entries and is at most four times as large (or at most `LEAST`); else
        another Compiled, cached by its capacities.

        binding : the pattern of each symbol in this call.
        """
        if self._fits:
            return self
        symbols = bounds(self.graph)
        counts = {s: s.at(binding).stored_shape[0] for s in symbols if s.follows and s.known_from is None}
        if all(n <= s.stored_shape[0] <= max(4 * n, LEAST) for s, n in counts.items()):
            return self
        key = tuple([capacity(n) for n in counts.values()])
        if key not in self._fitted:
            fresh_counts = Counts(numbers(self.graph))
            # A symbol with `known_from` follows from the new symbol of that.
            wider: Binding = {s: s for s in binding if s.known_from is None}
            wider |= widened(counts, fresh_counts)
            graph = on_binding(self.graph, wider)
            compiled = self.of(graph)
            compiled._fits = True
            self._fitted[key] = compiled
            while len(self._fitted) > _PATTERNS:
                self._fitted.pop(next(iter(self._fitted)), None)
        return self._fitted[key]

    def _actual(self, values: Sequence[LayoutValue | Undefined]) -> Graph:
        """The graph, with the patterns that ``values`` of its inputs have in place of its pattern symbols."""
        if not inputs_on_symbols(self.graph):
            return self.graph
        return on_binding(self.graph, binding_of(self.graph, values))

    def at(self, values: Sequence[LayoutValue | Undefined]) -> Compiled:
        """This graph compiled separately for the patterns of ``values``; cached.

        It is for graphs that need to know the patterns themselves. If a pattern symbol has a capacity, the
        result serves all patterns with the same numbers of stored entries. If not, it serves exactly these
        patterns.
        """
        binding = binding_of(self.graph, values)
        bounded = any(s.capacity for s in binding)
        key = tuple([p.stored_shape[0] for p in binding.values()]) if bounded else tuple(binding.values())
        compiled = self._at.get(key)
        if compiled is None:
            new_binding = {s: symbol_for(p) or p for s, p in binding.items()} if bounded else binding
            with examples({s: binding[r] for r, s in new_binding.items() if isinstance(s, PatternSymbol)}):
                graph = on_binding(self.graph, new_binding)
            compiled = self._at[key] = self.of(graph)
            while len(self._at) > _PATTERNS:
                self._at.pop(next(iter(self._at)), None)
        return compiled

    def of(self, graph: Graph) -> Compiled:
        """Another graph, compiled in the same way."""
        return Compiled(graph, self.name, native=self.native, donated=self.donated, sharing=self.sharing)

    def differentiable(self, tracked: tuple[bool, ...]) -> _Differentiable:
        """The graph as an op that is differentiated in the inputs with True in ``tracked``; cached."""
        derivative = self._ops.get(tracked)
        if derivative is None:
            derivative = self._ops.setdefault(tracked, _Differentiable(self, tracked))
        return derivative


def _own(values: Any, handles: Sequence[Any], reused: Sequence[int]) -> None:
    """Make the values at the positions ``reused`` safe to write over, by changes to the list ``values``.

    Each of them becomes an array: its own memory if the handle at that position is the only user of it, and a
    copy if not.
    """
    uses = Counter(map(id, values))
    for k in reused:
        is_shared = uses[id(values[k])] > 1
        values[k] = None  # it, and a name here, would be owners
        alone = not is_shared and holds_alone(handles[k])
        array = to_strided(value_of(handles[k]))
        values[k] = array if alone and array.flags.carray else array.copy()
        del array


class _Differentiable:
    """A compiled graph with respect to some of its inputs: the op, and the variants of its derivatives.

    The graph that is differentiated computes what its outputs depend on, and no more: else steps of a loop
    that no output reads would run for their residuals.
    """

    def __init__(self, compiled: Compiled, requires_grad: tuple[bool, ...]) -> None:
        graph, name = dead_code(demands(dead_code(compiled.graph))), compiled.name
        self.recorded = Recorded(graph, requires_grad)
        reads = self.recorded.reads()
        self.name = name
        self.graph = self.recorded.forward()
        self.real = len(graph.outputs)
        self.given = [k for k, x in enumerate(self.graph.outputs) if x is not UNDEFINED]
        self._how: Any = {"native": compiled.native, "sharing": compiled.sharing}
        forward = Compiled(self.graph, name, **self._how)
        forward.reason = "it is differentiated: what derivatives read is a result, too"
        defined_graph = replace(self.graph, outputs=tuple([self.graph.outputs[k] for k in self.given]))
        self._variants: dict[Any, tuple[Compiled, tuple[Capture, ...]]] = {}
        self.op = _CompiledOp(
            name=name,
            forward=lambda *values: tuple(x for x in forward.run(values) if x is not UNDEFINED),
            abstract=lambda *_: tuple([self.graph.outputs[k].aval for k in self.given]),
            joint=self._pull,
            joint_jvp=self._push,
            entry_map=GraphMap(lambda _: ([defined_graph], 0)),
            multiple=True,
            selects=False,
            kept=tuple(self.graph.outputs[k] in reads for k in self.given),
        )

    def __call__(self, handles: Sequence[Argument]) -> list[Any]:
        outputs: list[Any] = [UNDEFINED] * self.real
        for k, x in zip(self.given, bind(self.op, tuple(handles)), strict=True):
            if k < self.real:
                outputs[k] = x
        return outputs

    def _pull(self, demands: Sequence[Entries], node: Node, g: Sequence[Handle]) -> list[Any]:
        """Pullback rule of the op: for each input, its cotangent, or None if it is not demanded or undefined.

        A cotangent that goes to another op may be a selection (values with a condition); in all others, the
        condition has been applied.
        """
        input_numbers = tuple([k for k, need in enumerate(demands) if need is not NOTHING])
        cotangents: list[Any] = [None] * len(self.graph.outputs)
        for k, x in zip(self.given, g, strict=True):
            cotangents[k] = None if is_absent(x) else x
        pulled = self._derivative("pull", cotangents, (input_numbers, leaving_of(node, input_numbers)), node)
        input_cotangents: list[Any] = [None] * len(demands)
        for k, ct in zip(input_numbers, pulled, strict=True):
            input_cotangents[k] = ct
        return input_cotangents

    def _push(self, tangents: Sequence[Handle | None], node: Node) -> list[Any]:
        """Pushforward rule of the op: tangents of its results; None for one that is undefined."""
        pushed = self._derivative("push", tangents, (), node)
        return [pushed[k] for k in self.given]

    def _derivative(self, mode: str, seeds: Sequence[Handle | None], request: Any, node: Node) -> list[Any]:
        """Run the variant of a derivative for these ``seeds``; None in the result for one that is undefined.

        mode : "pull" gives cotangents of inputs, "push" gives tangents of all outputs.
        seeds : cotangents of all outputs, or tangents of all inputs; None for one that is undefined.
        request : for "pull", the numbers of the demanded inputs, and those whose cotangents may be
            selections.
        """
        recording = is_grad_enabled()
        boxes = not inputs_on_symbols(self.graph)  # what of a pattern is in a box depends on the pattern
        supports = self._patterns(self.graph.outputs if mode == "pull" else self.graph.inputs, seeds, node)
        seeds = [x if x is None or on else spread(x) for x, on in zip(seeds, supports, strict=True)]
        arriving = tuple([WHOLE if x is None else crossing_of(x, boxes=boxes) for x in seeds])
        all_parts = [[] if x is None else c.apart(x) for x, c in zip(seeds, arriving, strict=True)]
        avals = tuple(
            [
                _aval(parts[0], recording, boxes, pattern) if parts else None
                for parts, pattern in zip(all_parts, supports, strict=True)
            ]
        )
        write: Any
        if mode == "pull":
            input_numbers, leaving = request
            write = lambda: self.recorded.pullback(
                avals, input_numbers, recording=recording, arriving=arriving, leaving=leaving
            )
        else:
            write = lambda: self.recorded.pushforward(
                avals, recording=recording, arriving=arriving, leaving=True
            )
        key = mode, avals, arriving, request, recording
        variant, captures, crossings = self._variant(key, node, write)
        outputs = iter(variant([x for parts in all_parts for x in parts] + self._captured(captures, node)))
        groups = [(c, c.taken_from(outputs)) for c in crossings]
        return [None if parts[0] is UNDEFINED else c.together(parts) for c, parts in groups]

    def _patterns(self, values: Sequence[Any], seeds: Sequence[Handle | None], node: Node) -> list[Any]:
        """Support of each seed that is stored on the pattern of the value that it belongs to; else None.

        values : the values in the graph that the seeds are cotangents or tangents of.
        """
        supports: list[Any] = [None] * len(seeds)
        binding: Binding | None = None
        for k, (v, x) in enumerate(zip(values, seeds, strict=True)):
            value = None if x is None else value_of(x)
            support = v.aval.support if isinstance(value, Sparse) else None
            if isinstance(value, Sparse) and isinstance(support, Stored):
                if binding is None:
                    binding = binding_of(self.graph, list(map(value_of, node.inputs())))
                if actual(support.pattern, binding) is value.pattern:
                    supports[k] = support
        return supports

    def _variant(self, key: tuple[str, *tuple[Hashable, ...]], node: Node, make: Callable[[], Any]) -> Any:
        """A compiled derivative, with what ``make`` gives besides its graph: captures and crossings.

        It is cached by ``key``, whose first item is its mode; ``make`` writes it if it is not there yet.
        """
        variant = self._variants.get(key)
        if variant is None:
            context: Any = nullcontext()
            if inputs_on_symbols(self.graph):
                values = list(map(value_of, node.inputs()))
                context = examples(binding_of(self.graph, values))
            with context:  # rules of users run here: under no lock
                graph, *interface = make()
            variant = self._variants.setdefault(key, (self._compiled(graph, key[0]), *interface))
        return variant

    def _compiled(self, graph: Graph, mode: str) -> Compiled:
        compiled = Compiled(graph, f"{self.name}, {mode}", **self._how)
        compiled.reason = "a derivative of other inputs, or of other results, than before"
        return compiled

    def _captured(self, captures: Sequence[Capture], node: Node) -> list[Any]:
        """Handles of the values of this call that a variant reads."""
        results = node.results()
        return captured(captures, node.inputs(), {k: results[n] for n, k in enumerate(self.given)})


def _aval(x: Handle, recording: bool, boxes: bool, on_pattern: Entries | None) -> Aval:
    """Aval that a variant relies on for a cotangent or tangent ``x``: with its support, or with full support.

    The support is kept if it is ``on_pattern`` or a box. The box of a tracked ``x`` is dropped if the call is
    recorded, since in another call ``x`` may not be zero outside of it.

    boxes : whether boxes are looked for at all.
    on_pattern : the support of ``x`` if it is stored on the pattern of its value, else None.
    """
    if recording and is_tracked(x):
        return Aval(x.shape, x.dtype)
    support = on_pattern or (support_of(value_of(x)) if boxes else FULL)
    return Aval(x.shape, x.dtype, support if on_pattern or isinstance(support, Box) else FULL)


@register(_CompiledOp.FAMILY, object)
def _run(op: Op, values: Values, _params: Params) -> Any:
    """A compiled graph takes values in any layout."""
    return op.forward(*values)
