"""Steps of the compiled program of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from math import prod

from iverson.codegen.programs.nodes import Branch, Call, Nest, Product, Repeat, Step, Stop
from iverson.core.counting.notes import Called
from iverson.core.dispatch import is_tracked
from iverson.core.dtypes import is_inexact
from iverson.core.entries import Stored
from iverson.explain.model import ProgramStep
from iverson.graph.calls.compiled_ops import Compiled
from iverson.graph.calls.executable import executable
from iverson.graph.ir.nodes import UNDEFINED, Graph, Value
from iverson.graph.ir.pattern_binding import symbol_of
from iverson.graph.lowering.graph_lowering import Native
from iverson.graph.passes import simplified

_WORDS = {
    Nest: "nests",
    Product: "products",
    Repeat: "loops",
    Branch: "branches",
    Call: "routines",
    Stop: "checks",
}


def steps_of(graph: Graph, depth: int = 0) -> tuple[ProgramStep, ...]:
    """Steps of the compiled program of ``graph``: native segments and library calls, in order.

    A native segment names its numbers of loop nests, products, loops and branches. A library step is followed
    by the steps of the graphs that it runs, at a greater depth.
    """
    steps = []
    for step in executable(graph).steps:
        if isinstance(step, Native):
            steps.append(ProgramStep("native", _contents(step), depth))
            continue
        steps.append(ProgramStep("library", step.equation.op.name, depth))
        for body in step.equation.params.values():
            if isinstance(body, Graph):
                steps += steps_of(simplified(body), depth + 1)
    return tuple(steps)


def called_programs(calls: Iterable[Called]) -> tuple[ProgramStep, ...]:
    """Steps of the programs of the compiled functions that were called, forward and, if differentiated,
    backward.

    Equal programs are listed once, with the number of calls.
    """
    counts: dict[tuple[ProgramStep, ...], int] = {}
    for call in calls:
        traced, handles = call.function.traced_for_kind(*call.args, **call.kwargs)
        flags = (*call.tracked, *map(is_tracked, handles[len(call.tracked) :]))
        name = getattr(call.function, "__name__", "a function")
        for title, graph in _graphs(Compiled(traced, name), flags):
            if any(_is_on_pattern(v) for v in traced.inputs[: len(call.tracked)]):
                title = f"{title}, traced for each pattern of its sparse arguments"
            program = ProgramStep("program", title), *steps_of(simplified(graph), 1)
            counts[program] = counts.get(program, 0) + 1
    return tuple(
        step if step.depth or times == 1 else replace(step, what=f"{step.what}, {times} calls")
        for program, times in counts.items()
        for step in program
    )


def _is_on_pattern(v: Value) -> bool:
    """Return True if the trace is valid for one pattern of the input ``v`` only: another one is
    traced again.
    """
    return isinstance(v.aval.support, Stored) and symbol_of(v) is None


def _graphs(compiled: Compiled, flags: tuple[bool, ...]) -> Iterable[tuple[str, Graph]]:
    """Titles and graphs that a call runs: one graph, or forward and backward if an input is differentiated.

    flags : for each input, True if it is tracked.
    """
    if True not in flags:
        return [(compiled.name, compiled.graph)]
    forward = compiled.differentiable(flags)
    avals = [None if x is UNDEFINED else x.aval for x in forward.graph.outputs]
    cotangents = [a if k < forward.real else None for k, a in enumerate(avals)]
    cotangents = [a if a is not None and is_inexact(a.dtype) else None for a in cotangents]
    positions = [k for k, has in enumerate(flags) if has]
    back, *_ = forward.recorded.pullback(cotangents, positions, recording=False)
    return [(f"{compiled.name}, forward", forward.graph), (f"{compiled.name}, backward", back)]


def _contents(step: Native) -> str:
    compiled = step.compiled
    words = [f"{kind}: {n}" for kind, n in Counter(_kinds(compiled.program.steps)).items()]
    return ", ".join([*words, f"arena: {compiled.arena.bytes:,} bytes", *_recomputed(step)])


def _recomputed(step: Native) -> list[str]:
    """List with one line about values that are recomputed at each read instead of stored; empty if there are
    none.
    """
    equations = [e for e, _ in step.again()]
    if not equations:
        return []
    entries = sum(prod(v.shape) for e in equations for v in e.results)
    ops = ", ".join(dict.fromkeys(e.op.name for e in equations))
    return [f"recomputed: {len(equations)} values, {entries:,} entries ({ops})"]


def _kinds(steps: Iterable[Step]) -> Iterable[str]:
    for step in steps:
        yield _WORDS[type(step)]
        if isinstance(step, Repeat):
            yield from _kinds(step.body)
        elif isinstance(step, Branch):
            yield from _kinds((*step.then, *step.other))
