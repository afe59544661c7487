"""The steps of the program that a graph is compiled to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from iverson.codegen.programs import CompiledProgram
from iverson.codegen.programs.nodes import Branch, Nest, Product, Repeat, Step
from iverson.explain.model import ProgramStep
from iverson.graph.lower import Native, lower
from iverson.graph.nodes import Graph

_WORDS = {Nest: "nests", Product: "products", Repeat: "loops", Branch: "branches"}


def steps_of(graph: Graph) -> tuple[ProgramStep, ...]:
    """Native segments, with how many loop nests, products, loops and branches each has, and library steps."""
    return tuple(
        ProgramStep("native", _contents(step.compiled))
        if isinstance(step, Native)
        else ProgramStep("library", step.equation.op.name)
        for step in lower(graph).steps
    )


def _contents(compiled: CompiledProgram) -> str:
    words = [f"{kind}: {n}" for kind, n in Counter(_kinds(compiled.program.steps)).items()]
    return ", ".join([*words, f"arena: {compiled.arena.bytes:,} bytes"])


def _kinds(steps: Iterable[Step]) -> Iterable[str]:
    for step in steps:
        yield _WORDS[type(step)]
        if isinstance(step, Repeat):
            yield from _kinds(step.body)
        elif isinstance(step, Branch):
            yield from _kinds((*step.then, *step.other))
