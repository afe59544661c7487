"""Lowering of a graph to programs: everything between two library steps is one native call.

An equation is one of these (`graph.native.step_kinds`), in this order:

- a loop or a branch, all of whose steps can be native, as a block of steps (`control_flow_steps`); so is a
  product that is computed again without the terms that a selection leaves out (`mended`);
- a view: its result is another value seen through strides (`strided_views`);
- a product of matrices, by BLAS;
- a recurrence along an axis, a native loop (`recurrence_loops`); sorting along one (`sort_loops`);
- a decomposition, a solve or a Fourier transform, by the routine that its kernel calls (`library_calls`);
- a write at places that an index array names, or the check of such an array (`indexed_writes`);
- a product of stored entries with a dense matrix, row by row (`sparse_row_products`);
- a tensor expression (`equation_expressions`), lowered together with its neighbours (`expression_fusion`);
- a *library step*: the op's own kernel, called from Python on handles (a product of two
  sparse matrices, index notation that runs in blocks: `large_temporaries`). Library steps cut the graph into
  segments, as few as the order of the values allows.

Values of a native segment are dense: a known support is a bound, and the entries outside of it are zeros.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from iverson.codegen.launches import CompiledProgram, compile_program
from iverson.codegen.launches.compiled_program import Calling, Planned, compiled_before
from iverson.codegen.launches.integer_arguments import CodeSharing, SymbolicSharing
from iverson.core.counting import work
from iverson.core.dispatch import Handle, bind, make_handle, value_of
from iverson.core.errors import (
    ArgumentError,
    IndexingError,
    IversonError,
    LinearAlgebraError,
    ShapeError,
)
from iverson.core.protocols import LayoutValue, NDArray, Params
from iverson.core.python.cached import cached_property
from iverson.core.table import TABLE
from iverson.expr.symbolic_numbers import EscapedNumber
from iverson.graph.ir.entry_ops import STORED_OPS, stored_on, stored_work
from iverson.graph.ir.nodes import UNDEFINED, Argument, Equation, Graph, Value
from iverson.graph.ir.pattern_binding import inputs_on_symbols, named, symbol_of, unknown
from iverson.graph.lowering import disk_cache
from iverson.graph.lowering.lowering_formulas import Facts, LoweringFormulas
from iverson.graph.lowering.padding import on_binding, padded, trimmed
from iverson.graph.lowering.program_segments import Segment, arrays_of
from iverson.graph.native.buffers import COUNTER, Times
from iverson.graph.native.large_temporaries import gradients_together
from iverson.graph.native.layout_assignment import in_order_of_reads, matmul_moved
from iverson.graph.native.step_kinds import PRODUCTS, Kinds
from iverson.kernels.kernel_registry import run_in_layouts
from iverson.layouts import Sparse, are_strided, to_strided
from iverson.layouts.pattern_symbols import Binding, PatternRead, PatternSymbol, bound, kept

Array = np.ndarray[Any, Any]
#: Bytes of an array that lowering made and that is kept on disk, at most.
SMALL = 4096
NOTHING_DONATED: Mapping[int, int] = {}
NO_SYMBOLS: Binding = {}


@dataclass(frozen=True, eq=False)
class Native:
    """A segment in machine code.

    constants : the arrays that it holds, in order: constants of the graph, and arrays that lowering made.
    equations : returns its outputs, and its equations, each with the number of its runs.
    again : returns equations that run once more, where that costs less than to keep their results.
    reused : outputs that it makes in the memory of an input, each with the number of the input.
    """

    compiled: CompiledProgram
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: tuple[Any, ...]
    equations: Callable[[], tuple[Sequence[Value], Sequence[tuple[Equation, Times]]]]
    again: Callable[[], Sequence[tuple[Equation, Times]]]
    reused: tuple[tuple[Value, int], ...] = ()

    def report(self, made: Sequence[NDArray]) -> None:
        """Count the work of a run that made these outputs: the work of its equations."""
        outputs, equations = self.equations()
        values = dict(zip(outputs, made, strict=True))
        for e, times in equations:
            for _ in range(times.of(values)):
                _report(e)


def _report(e: Equation) -> None:
    name = "matmul" if e.op is matmul_moved else e.op.name
    work.op(name, e.op.elementwise, 0, sum(prod(v.shape) for v in e.results))
    if e.op in STORED_OPS:
        work.sparse_product(stored_work(e))
    if e.op.name in PRODUCTS:
        (*batch, rows, inner), (*other, _, columns) = e.operands[0].shape, e.operands[1].shape
        if not other and prod(batch):
            work.product(rows * prod(batch), inner, columns)
        else:
            work.product(rows, inner, columns, prod(np.broadcast_shapes(batch, other)))


@dataclass(frozen=True, eq=False)
class Library:
    """An equation carried out by its op's kernels."""

    equation: Equation


@dataclass(frozen=True, eq=False)
class Lowered:
    """A compiled graph: ``lowered(arrays)`` gives the outputs, UNDEFINED for those that are.

    steps : native segments and library steps, in order.
    reused : positions of inputs whose memory a run writes outputs into: it must be the caller's alone.
    """

    graph: Graph
    steps: tuple[Native | Library, ...]
    reused: tuple[int, ...] = ()

    def __call__(self, values: Sequence[LayoutValue]) -> Sequence[Any]:
        """The outputs (values of layouts, strided for what native segments make) for values of the inputs.

        Raises ArgumentError or ShapeError for values that do not fit, IndexingError for an index out of
        range.
        """
        if len(values) != len(self.graph.inputs):
            expected = f"{len(self.graph.inputs)}, one an input"
            raise ArgumentError("lower", got=f"{len(values)} values", expected=expected)
        for v, value in zip(self.graph.inputs, values, strict=True):
            if (value.shape, value.dtype) != (v.shape, v.dtype):
                raise ShapeError("lower", got=f"{value.dtype}{value.shape}", expected=f"{v.dtype}{v.shape}")
        return self.run(values)

    def run(self, values: Sequence[LayoutValue], binding: Binding = NO_SYMBOLS) -> Sequence[Any]:
        """The outputs for values that fit; ``binding`` has the pattern of each symbol."""
        try:
            return self._run(values, binding)
        except (IndexingError, LinearAlgebraError) as error:
            raise _in_words(error, self.graph, values, binding) from None

    def _run(self, values: Sequence[LayoutValue], binding: Binding) -> Sequence[Any]:
        """Run step by step; ``environment`` has the value of each Value so far."""
        if self._direct is not None:
            return self._run_directly(self._direct, values)
        environment: dict[Value, Any] = dict(self.graph.constants)
        environment.update(zip(self.graph.inputs, values, strict=True))
        for step in self.steps:
            if isinstance(step, Native):
                arrays = _arrays([environment[v] for v in step.inputs], step)
                outputs = step.compiled.run(arrays)
                environment.update(zip(step.outputs, outputs, strict=True))
                environment.update((out, arrays[k]) for out, k in step.reused)
                if work.active.count:
                    step.report(outputs)
            else:
                results = _carried_out(step.equation, environment, binding)
                environment.update(zip(step.equation.results, results, strict=True))
        return [environment[x] if type(x) is Value else x for x in self.graph.outputs]

    @cached_property
    def _direct(self) -> Direct | None:
        """The one program that is all of the graph, and the order of its values; None for other graphs."""
        (step, *remaining) = self.steps or (None,)
        return None if remaining or not isinstance(step, Native) else _direct(self.graph, step)

    @property
    def direct(self) -> Direct | None:
        """The one program that is all of the graph; None for other graphs."""
        return self._direct

    def run_directly(self, arrays: tuple[Array, ...]) -> Sequence[Any]:
        """Outputs of the one program (`direct`) for arrays in its order; it owns those that it writes."""
        assert self._direct is not None
        try:
            outputs = self._direct.step.compiled.run(arrays)
        except IndexingError as error:
            order = dict(zip(self._direct.inputs, arrays, strict=True))
            values = [order.get(k) for k in range(len(self.graph.inputs))]
            raise _in_words(error, self.graph, values, NO_SYMBOLS) from None  # type: ignore[arg-type]
        if work.active.count:
            self._direct.step.report(outputs)
        return outputs

    def _run_directly(self, how: Direct, values: Sequence[LayoutValue]) -> Sequence[Any]:
        arrays = _arrays(values if how.in_order else [values[k] for k in how.inputs], how.step)
        outputs = how.step.compiled.run(arrays)
        if work.active.count:
            how.step.report(outputs)
        if how.made_in_order:
            return outputs
        return [outputs[k] if k >= 0 else arrays[~k] for k in how.outputs]

    @property
    def source(self) -> str:
        """The programs as text, and the names of library steps."""
        return "\n".join(
            s.compiled.source if isinstance(s, Native) else f"library {s.equation.op.name}"
            for s in self.steps
        )


@dataclass(frozen=True, eq=False)
class Direct:
    """A program that is all of a graph.

    inputs : numbers of the graph's inputs that it takes.
    outputs : for each output of the graph, the number of an output of the program, or the complement of the
        number of the program's input whose memory it is in.
    in_order : whether it takes all inputs of the graph in their order.
    made_in_order : whether its outputs are those of the graph in their order.
    """

    step: Native
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    in_order: bool
    made_in_order: bool


def _direct(graph: Graph, step: Native) -> Direct | None:
    at = {v: k for k, v in enumerate(graph.inputs)}
    positions = {v: k for k, v in enumerate(step.outputs)} | {v: ~k for v, k in step.reused}
    if any(v not in at for v in step.inputs) or any(
        type(x) is not Value or x not in positions for x in graph.outputs
    ):
        return None
    inputs, outputs = tuple(at[v] for v in step.inputs), tuple(positions[x] for x in graph.outputs)
    in_order = inputs == tuple(range(len(graph.inputs)))
    return Direct(step, inputs, outputs, in_order, outputs == tuple(range(len(step.outputs))))


def _arrays(values: Sequence[LayoutValue], step: Native) -> tuple[Array, ...]:
    """The arrays that a step takes; arrays that it overwrites are contiguous and writable."""
    arrays = tuple(values if are_strided(values) else map(to_strided, values))
    if not step.reused:
        return arrays
    over = {k for _, k in step.reused}
    return tuple(
        [np.require(x, requirements=("C", "A", "W")) if k in over else x for k, x in enumerate(arrays)]
    )


def _carried_out(
    equation: Equation, environment: dict[Value, LayoutValue], binding: Binding
) -> Sequence[Any]:
    """Results of a library step, as values: UNDEFINED, or a value on the pattern that the graph has for it.

    environment : the values of all operands.
    """
    args = [_handle(environment[x]) if type(x) is Value else x for x in equation.operands]
    pattern = equation.params.get("pattern")
    if isinstance(pattern, PatternSymbol) and pattern.capacity and equation.op is not stored_on:
        return _at_capacity(equation, args, pattern, binding)
    evaluate = getattr(equation.op, "evaluate", None)
    if evaluate is not None:
        results = evaluate(args, **_bound(equation.params, binding, args))
    else:
        out = bind(equation.op, tuple(args), _bound(equation.params, binding, args))
        results = out if equation.op.multiple else (out,)
    return [
        x if x is UNDEFINED else _as_said(value_of(x, x), v, binding)
        for x, v in zip(results, equation.results, strict=True)
    ]


def _as_said(value: LayoutValue, v: Value, binding: Binding) -> Any:
    """Convert ``value`` to the pattern of the symbol that ``v`` is stored on, if it is on another pattern.

    An eager kernel may return another pattern than the graph says.
    """
    symbol = symbol_of(v)
    if symbol is None or not isinstance(value, Sparse) or value.pattern is (pattern := symbol.at(binding)):
        return value
    entries = run_in_layouts(TABLE["values_at"], (value,), {"pattern": pattern})
    return pattern.kind(pattern, to_strided(entries))


def _bound(params: Params, binding: Binding, args: Sequence[Argument] = ()) -> dict[str, Any]:
    """Parameters of an op with patterns in place of symbols.

    Symbols in bodies are replaced too, unless the operands of the body already determine their patterns.

    args : operands of the op; the last ones are the inputs of its bodies.
    """
    result = bound(params, binding)
    for name, body in params.items() if binding else ():
        if isinstance(body, Graph):
            result[name] = _body_on(body, binding, args)
    return result


def _body_on(body: Graph, binding: Binding, args: Sequence[Argument]) -> Graph:
    """The body with patterns in place of symbols, or the body itself if its operands determine all patterns.

    It is also returned as it is if ``binding`` lacks a symbol: a loop's own operands then say the pattern.
    """
    symbols = body.once("symbols", lambda: tuple(dict.fromkeys(named(body))))
    try:
        patterns = [s.at(binding) for s in symbols]
    except PatternRead:  # those of a loop's carry, which its own operands say
        return body
    operands = args[-len(body.inputs) :]
    of = {k: getattr(value_of(x, x), "pattern", None) for k, x in enumerate(operands)}
    on_patterns = {of.get(k) is s.at(binding) for k, s in inputs_on_symbols(body)}
    if on_patterns <= {True} and not body.once("unknown", lambda: (unknown(body),))[0]:
        return body
    return kept(("body", body), patterns, lambda: on_binding(body, binding))


def _in_words(
    error: IversonError, graph: Graph, values: Sequence[LayoutValue], binding: Binding
) -> IversonError:
    """Error of the op at fault, in place of the ``error`` that machine code raised.

    The op is found by running the graph op by op; ``error`` is returned if no op raises one of its class.
    """
    environment: dict[Value, Any] = {**dict(graph.constants), **dict(zip(graph.inputs, values, strict=True))}
    try:
        for e in graph.equations:
            environment.update(zip(e.results, _carried_out(e, environment, binding), strict=True))
    except type(error) as op_error:
        return op_error
    except IversonError:  # what ran as one program has no eager form
        pass
    return error


def _at_capacity(
    equation: Equation, args: list[Argument], symbol: PatternSymbol, binding: Binding
) -> Sequence[Any]:
    """Results of `from_values` and of ops that give entries at a pattern, for a symbol with a capacity.

    Entries that a program computed have padding up to the capacity: it is cut off before `from_values`.
    Entries that other ops give are padded.
    """
    pattern = symbol.at(binding)
    value = value_of(args[0])
    if equation.op.name == "from_values":
        return [pattern.kind(pattern, trimmed(value, 0, pattern.stored_shape[0]))]
    entries = value_of(bind(equation.op, tuple(args), {"pattern": pattern}))
    return [padded(entries, 0, symbol.stored_shape[0])]


def _handle(value: LayoutValue | Handle) -> Any:
    return value if isinstance(value, Handle) else make_handle(value)


# --- segments ---------------------------------------------------------------------------------------


def lower(
    graph: Graph, donated: Mapping[int, int] = NOTHING_DONATED, sharing: LoweringFormulas | None = None
) -> Lowered:
    """Compile a graph, from memory or disk where one of the same text was compiled before.

    donated : positions of inputs whose memory outputs may be made in, each with the position of the output
    that should be, or -1 for any.
    sharing : codes that graphs of other sizes and numbers share.
    """
    key = disk_cache.key_of(graph, donated, sharing is not None and sharing.always)
    original, graph = graph, gradients_together(in_order_of_reads(graph))
    steps = None if key is None else _kept(graph, donated, disk_cache.read(key))
    if steps is None and sharing is not None and key is not None:
        facts_of, write = partial(_facts_of, donated=donated), partial(disk_cache.write, key)
        facts = sharing.facts(original, tuple(donated.items()), facts_of, write)
        steps = _kept(graph, donated, facts)
    if steps is None:
        steps = _steps(graph, donated, sharing)
        if key is not None and (facts := _facts(graph, steps)) is not None:
            disk_cache.write(key, facts)
    elif sharing is not None:
        sharing.keys.update(s.compiled.key for s in steps if isinstance(s, Native))
    for step in steps:
        if isinstance(step, Library):
            getattr(step.equation.op, "prepare", _nothing)(step.equation.params)
    over = {s.inputs[k] for s in steps if isinstance(s, Native) for _, k in s.reused}
    return Lowered(graph, steps, tuple(k for k, v in enumerate(graph.inputs) if v in over))


def _facts_of(graph: Graph, sharing: SymbolicSharing, donated: Mapping[int, int]) -> list[Any]:
    """Facts of a graph with symbolic numbers. Raises EscapedNumber where lowering makes large arrays."""
    graph = gradients_together(in_order_of_reads(graph))
    facts = _facts(graph, _steps(graph, donated, sharing))
    if facts is None:
        raise EscapedNumber("an array of the graph's sizes is made")
    return facts


def _facts(graph: Graph, steps: tuple[Native | Library, ...]) -> list[Any] | None:
    """Facts from which `_kept` makes the steps: numbers of equations and values (-1 for counters), and how
    programs are called. None where a program holds large arrays that lowering made."""
    values = {v: n for n, v in enumerate(disk_cache.numbered(graph))}
    equations = {id(e): n for n, e in enumerate(graph.equations)}
    facts: list[Any] = []
    for s in steps:
        if isinstance(s, Library):
            facts.append([equations[id(s.equation)]])
        elif any(type(x) is not Value and x.nbytes > SMALL for x in s.constants):
            return None
        else:
            numbers = [[values.get(v, -1) for v in group] for group in (s.inputs, s.outputs)]
            constants = [values[x] if type(x) is Value else disk_cache.as_json(x) for x in s.constants]
            over = [[values[v], k] for v, k in s.reused]
            facts.append([s.compiled.key, s.compiled.calling.as_json(), over, *numbers, constants])
    return facts


def _kept(graph: Graph, donated: Mapping[int, int], facts: Any) -> tuple[Native | Library, ...] | None:
    """The steps that facts describe; None if there are no facts, or the code of a step is not kept."""
    values = disk_cache.numbered(graph)
    constant_arrays = arrays_of(graph)
    steps: list[Native | Library] = []
    for n, fact in enumerate(facts or ()):
        if len(fact) == 1:
            steps.append(Library(graph.equations[fact[0]]))
            continue
        key, calling, over, *numbers, constant_facts = fact
        inputs, outputs = (
            tuple([values[k] if k >= 0 else Value(COUNTER) for k in group]) for group in numbers
        )
        constants = tuple(
            [values[x] if isinstance(x, int) else disk_cache.from_json(x) for x in constant_facts]
        )
        arrays: list[Any] = [constant_arrays[x] if type(x) is Value else x for x in constants]
        remake = _Again(graph, n, donated)
        compiled = compiled_before(Calling.from_json(calling), key, remake.plan, arrays)
        if compiled is None:
            return None
        reused = tuple((values[v], k) for v, k in over)
        steps.append(Native(compiled, inputs, outputs, constants, remake.equations, remake.again, reused))
    return None if facts is None else tuple(steps)


@dataclass(frozen=True, eq=False)
class _Again:
    """A native step of a graph, lowered again when its plan or its equations are asked for."""

    graph: Graph
    number: int
    donated: Mapping[int, int]

    @cached_property
    def step(self) -> Native:
        step = _steps(self.graph, self.donated)[self.number]
        assert isinstance(step, Native)
        return step

    def plan(self) -> Planned:
        return self.step.compiled.plan()

    def equations(self) -> tuple[Sequence[Value], Sequence[tuple[Equation, Times]]]:
        return self.step.equations()

    def again(self) -> Sequence[tuple[Equation, Times]]:
        return self.step.again()


def _steps(
    graph: Graph, donated: Mapping[int, int], sharing: CodeSharing | SymbolicSharing | None = None
) -> tuple[Native | Library, ...]:
    """The steps of a graph: segments as few as the order of the values allows."""
    constants = arrays_of(graph)
    kinds = Kinds(graph)
    pairs = _donations(graph, donated, kinds)
    available: set[Value] = {*graph.inputs, *(v for v, _ in graph.constants)}
    pending = list(graph.equations)
    steps: list[Native | Library] = []
    while pending:
        native: list[Equation] = []
        later_equations: list[Equation] = []
        inside = set(available)
        for e in pending:
            ready = all(x in inside for x in e.operands if type(x) is Value)
            if ready and kinds.of(e) != "library":
                native.append(e)
                inside.update(e.results)
            else:
                later_equations.append(e)
        if native:
            later = {x for e in later_equations for x in e.operands if type(x) is Value}
            later |= {x for x in graph.outputs if type(x) is Value}
            outputs = tuple(v for e in native for v in e.results if v in later)
            if outputs:
                free = [(a, b) for a, b in pairs if a not in later]
                segment = Segment(native, kinds.of, outputs, constants, donated=free)
                steps.append(_native(segment, sharing))
            available |= {v for e in native for v in e.results}
        pending = []
        for e in later_equations:
            if kinds.of(e) == "library" and all(x in available for x in e.operands if type(x) is Value):
                steps.append(Library(e))
                available.update(e.results)
            else:
                pending.append(e)
    return tuple(steps)


def _native(segment: Segment, sharing: CodeSharing | SymbolicSharing | None) -> Native:
    """Compile a segment to a native step."""
    compiled = compile_program(segment.program(), sharing=sharing)
    of_graph = {id(x): v for v, x in reversed(list(segment.constants.items()))}
    constants = tuple([of_graph.get(id(x), x) for x in segment.memory.held.values()])
    outputs, equations, repeats = (
        tuple(segment.outputs),
        tuple(segment.memory.done),
        tuple(segment.memory.again),
    )
    return Native(
        compiled,
        tuple(segment.inputs),
        outputs,
        constants,
        lambda: (outputs, equations),
        lambda: repeats,
        tuple((out, segment.inputs.index(v)) for out, v in segment.reused.items()),
    )


def _donations(graph: Graph, donated: Mapping[int, int], kinds: Kinds) -> list[tuple[Value, Value]]:
    """Donated inputs, each with an output of its shape and dtype, the one that should be first.

    What a library step reads may live on in a view that it returns, and an output may be an input itself.
    """
    steps = [e for e in graph.equations if kinds.of(e) == "library"]
    fixed = {x for e in steps for x in e.operands} | set(graph.outputs) if donated else set()
    alike: defaultdict[Any, list[Value]] = defaultdict(list)
    for x in graph.outputs if donated else ():
        if type(x) is Value:
            alike[x.shape, x.dtype].append(x)
    first: list[tuple[Value, Value]] = []
    second: list[tuple[Value, Value]] = []
    for k, n in donated.items():
        v = graph.inputs[k]
        if v in fixed:
            continue
        if n < 0:
            second += [(v, x) for x in alike[v.shape, v.dtype]]
        elif type(x := graph.outputs[n]) is Value and (x.shape, x.dtype) == (v.shape, v.dtype):
            first.append((v, x))
    return first + second


def _nothing(_: Params | Facts) -> None:
    """Do nothing: the `prepare` of a library step whose op has none, or what keeps facts without a key."""


__all__ = ["Library", "Lowered", "Native", "lower"]
