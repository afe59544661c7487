"""Executable of a graph: its program, and the conversion of a call's values to those that the program takes.

Sparse values are passed as entries and index arrays (`OnEntries`), values that may be undefined with flags
(`OnDefined`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iverson.core.protocols import LayoutValue
from iverson.core.python.cached import cached_property
from iverson.graph.calls.cotangent_flags import OnFlags, on_flags
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.nodes import Graph, Undefined
from iverson.graph.lowering.graph_lowering import NO_SYMBOLS, NOTHING_DONATED, Library, Lowered, Native, lower
from iverson.graph.lowering.lowering_formulas import LoweringFormulas
from iverson.graph.passes import simplified
from iverson.graph.passes.common_subexpressions import common
from iverson.graph.passes.support_and_demand import entries, is_made, is_of_stored
from iverson.graph.sparse.calling_convention import Given, OnPatterns
from iverson.graph.sparse.sparse_lowering import on_patterns
from iverson.layouts.pattern_symbols import Binding


class _Around:
    """Base of what runs a program: its steps and its source."""

    program: Lowered | OnEntries

    @property
    def steps(self) -> tuple[Native | Library, ...]:
        """Steps of the program."""
        return self.program.steps

    @property
    def source(self) -> str:
        """Source of the program."""
        return self.program.source


@dataclass(frozen=True, eq=False)
class OnEntries(_Around):
    """A program of the entries and index arrays of sparse values, with the methods of `Lowered`."""

    how: OnPatterns
    program: Lowered

    def run(self, values: Sequence[LayoutValue], binding: Binding = NO_SYMBOLS) -> list[Any]:
        """The outputs for values of the inputs; ``binding`` says which patterns symbols are."""
        program_values = self.how.opened(values, binding)
        return self.how.packed(self.program.run(program_values, binding), binding)

    @cached_property
    def reused(self) -> tuple[int, ...]:
        """Positions of inputs whose memory a run writes outputs into."""
        takes = self.how.takes
        return tuple(takes[k].number for k in self.program.reused)  # type: ignore[union-attr]


@dataclass(frozen=True, eq=False)
class OnDefined(_Around):
    """A program of values that may be UNDEFINED, as may be its outputs, with the methods of `Lowered`."""

    how: OnFlags
    program: Lowered | OnEntries
    reused: tuple[int, ...] = ()

    def run(self, values: Sequence[LayoutValue | Undefined], binding: Binding = NO_SYMBOLS) -> list[Any]:
        """See `OnEntries.run`."""
        return self.how.packed(self.program.run(self.how.opened(values), binding))


Executable = Lowered | OnEntries | OnDefined


def executable(
    graph: Graph, donated: Mapping[int, int] = NOTHING_DONATED, sharing: LoweringFormulas | None = None
) -> Executable:
    """The executable of a simplified graph.

    donated, sharing : see `lower`.
    """
    flagged = on_flags(graph)
    if flagged is None:
        return _on_entries(graph, donated, sharing)
    return OnDefined(flagged, _on_entries(flagged.core, NOTHING_DONATED, sharing))


def _on_entries(
    graph: Graph, donated: Mapping[int, int], sharing: LoweringFormulas | None
) -> Lowered | OnEntries:
    how = on_patterns(graph)
    if how is None:
        return lower(graph, donated, sharing)
    at = {t.number: k for k, t in enumerate(how.takes) if type(t) is Given}
    gives = [g if type(g) is int else -1 for g in how.gives]
    inner = {at[k]: gives[n] if n >= 0 else -1 for k, n in donated.items() if k in at}
    # Selections of stored values begin here.
    core = how.core if is_made(how.core) else (simplified if is_of_stored(graph) else entries)(how.core)
    return OnEntries(how, lower(dead_code(common(core)), inner, sharing))


__all__ = ["Executable", "OnEntries", "executable"]
