"""Polymorphism in numbers: one program for calls that differ in Python numbers or in constant arrays.

A function is traced for each value of its Python numbers, since it may branch on them. Where two traces are
the same but for numbers and entries of constants, those that differ become inputs of a general program,
and numbers that are equal in both are one input. Every later trace that is the same but for these runs that
program, which compiles nothing.

A general program computes in the same precision as a special one. Its results may differ in the last bits:
of `x ** 2` compiled code makes a product, of `x ** n` a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy as np

from iverson.core.dispatch import make_handle
from iverson.core.protocols import LayoutValue
from iverson.graph.calls.compiled_ops import Compiled
from iverson.graph.ir.graph_templates import Input, Template, with_inputs
from iverson.graph.ir.nodes import Graph
from iverson.graph.ir.pattern_binding import binding_of, inputs_on_symbols, on_actual
from iverson.layouts.pattern_symbols import PatternRead, PatternSymbol, examples

#: The most general programs of a function for arguments of a kind.
MOST = 3
#: The number of traces of a kind that are looked at, the last ones.
_SPECIAL = 4


@dataclass(frozen=True, eq=False)
class General:
    """Program that takes some numbers and arrays of a trace as inputs, so that it serves many traces.

    template : the template of the trace from which the program was made.
    at : for each number of this trace that is an input, the position of the number that represents it:
        numbers that are always equal share an input.
    arrays : positions of the arrays that are inputs.
    inputs : the position and dtype of each number that the program takes.
    """

    template: Template
    compiled: Compiled
    at: Mapping[int, int]
    arrays: frozenset[int]
    inputs: list[Input]

    def serves(self, template: Template) -> bool:
        """True if a trace differs from this one only in values that are inputs here."""
        if not self.template.is_like(template):
            return False
        numbers, arrays = self.template.differences(template)
        exact = template.exact
        return (
            numbers <= self.at.keys()
            and arrays <= self.arrays
            and all(exact[k] == exact[first] for k, first in self.at.items())
            and _rounded(template, self.inputs) is not None
        )

    def handles(self, template: Template) -> list[Any]:
        """Handles of the numbers and arrays that follow the arguments as inputs, with the values that
        ``template`` has.
        """
        numbers = _rounded(template, self.inputs) or ()
        return [make_handle(x) for x in (*numbers, *(template.arrays[k] for k in sorted(self.arrays)))]


def _rounded(template: Template, inputs: Sequence[Input]) -> list[np.ndarray[Any, Any]] | None:
    """Arrays with the numbers of a trace that are inputs, in their dtypes; None if one overflows its
    dtype.
    """
    try:
        with np.errstate(over="ignore"):
            return [np.asarray(template.numbers[k], dtype) for k, dtype in inputs]
    except OverflowError:
        return None


class AnyNumber:
    """General programs for arguments of one kind, and the last special programs, as long as others keep
    these.

    A special program is compiled for the numbers of one trace.
    is_full : True if a trace had to be compiled because there were already `MOST` general programs.
    """

    def __init__(self) -> None:
        self.programs: list[General] = []
        self.is_full = False
        self._special: list[ref[Compiled]] = []
        #: The inputs of the first trace that are on pattern symbols, and these.
        self._symbols: Sequence[tuple[int, PatternSymbol]] = ()

    def serving(self, compiled: Compiled, values: Sequence[LayoutValue]) -> tuple[Compiled, list[Any]] | None:
        """General program that runs a trace, and handles of its further inputs; None if the trace must be
        compiled itself.

        compiled : the program of the trace, which was not run yet. values : the values of its inputs.
        """
        special = [x for where in self._special if (x := where()) is not None]
        self._special = [*map(ref, special), ref(compiled)][-_SPECIAL:]
        if not special and not self.programs:
            self._symbols = inputs_on_symbols(compiled.graph)
            return None
        graph = self._on_first_symbols(compiled.graph, values)
        template = Template(graph)
        for program in self.programs:
            if program.compiled.donated == compiled.donated and program.serves(template):
                return program.compiled, program.handles(template)
        traces = [Template(self._on_first_symbols(x.graph, values)) for x in special]
        other = next(
            (t for t in (*(p.template for p in self.programs), *traces) if t.is_like(template)), None
        )
        if other is None:
            return None
        self.is_full = len(self.programs) >= MOST
        general = None if self.is_full else self._general(compiled, graph, template, other)
        if general is None:
            return None
        inside = general.handles(template)
        template.forget(general.arrays)
        self.programs = [*self.programs, general]
        return general.compiled, inside

    def _on_first_symbols(self, graph: Graph, values: Sequence[LayoutValue]) -> Graph:
        """Graph with the pattern symbols of the first trace in place of its own, so that the two can be
        compared.

        ``graph`` is returned unchanged if the symbols of the two are not of the same kinds.
        """
        symbols = inputs_on_symbols(graph)
        kinds = [
            [(k, s.layout, s.shape, s.extents, s.capacity) for k, s in x] for x in (symbols, self._symbols)
        ]
        if kinds[0] != kinds[1] or symbols == self._symbols:
            return graph
        first = {t: s for (_, s), (_, t) in zip(symbols, self._symbols, strict=True)}
        patterns = binding_of(graph, values)
        try:
            with examples({t: patterns[s] for t, s in first.items()}):
                return on_actual(graph, {s: t for t, s in first.items()})
        except PatternRead:
            return graph

    def _general(
        self, compiled: Compiled, graph: Graph, template: Template, other: Template
    ) -> General | None:
        """General program for two traces that are alike, with all values that differ between them as inputs.

        It serves also the traces of an earlier program that ``other`` is the template of. The result is None
        if the values cannot be inputs.
        graph : the graph of the new trace. template : the template of ``graph``. other : that of the other
            trace.
        """
        numbers, arrays = template.differences(other)
        apart: Mapping[int, int] = {}
        for program in self.programs:
            if program.template is other:
                apart = program.at
                numbers, arrays = numbers | apart.keys(), arrays | program.arrays
        equal: defaultdict[Any, list[int]] = defaultdict(list)
        for k in sorted(numbers):
            equal[template.exact[k], other.exact[k], apart.get(k)].append(k)
        at = {k: group[0] for group in equal.values() for k in group}
        parts = with_inputs(graph, at, sorted(arrays))
        if parts is None:
            return None
        with_numbers, inputs = parts
        if _rounded(template, inputs) is None:
            return None
        general = compiled.of(with_numbers)
        general.reason = "numbers differ from those of another call: they are inputs now"
        return General(template, general, at, frozenset(arrays), inputs)


__all__ = ["MOST", "AnyNumber", "General"]
