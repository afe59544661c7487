"""Loops in eager code: op by op at first, and as a program once that has cost as much as compiling."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from iverson.autograd.mode import recording
from iverson.core.counting import checks
from iverson.core.protocols import LayoutValue
from iverson.core.python.recent_items import RecentItems
from iverson.graph.calls.compiled_ops import Compiled, compiles_loops
from iverson.graph.control.bodies import compiled
from iverson.graph.ir.nodes import Graph
from iverson.graph.lowering.lowering_formulas import LoweringFormulas
from iverson.layouts import are_strided

#: What a loop runs op by op before it is compiled, which takes about as long: equations, and steps besides.
#: Measured: 0.2 s, and 5 ms for each equation of a step, against 15 microseconds for running one.
PATIENCE = 10_000, 300
#: Programs of a loop that are kept, for other numbers of steps.
_PROGRAMS = 8


class LoopPrograms:
    """Programs of a loop, each for the rest of its steps.

    equations : number of equations that its steps ran op by op, in all calls of loops with this body.
    """

    def __init__(self) -> None:
        self.equations = 0
        self._sharing = LoweringFormulas()
        self._programs: RecentItems[Hashable, Compiled] = RecentItems(_PROGRAMS)

    def run(
        self, name: str, values: Sequence[LayoutValue], key: Hashable, make: Callable[[], Graph]
    ) -> Sequence[Any] | None:
        """The outputs of the loop from these values of its inputs; None unless all are strided.

        A value that is zero outside of a box is so only until a step has filled it.

        key : hashable; what the graph of the loop depends on besides its body. make : returns this graph.
        """
        if not are_strided(values):
            return None
        program = self._programs.find(key)
        if program is None:
            with recording(False):
                program = self._programs.keep(key, Compiled(make(), name, sharing=self._sharing))
            program.reason = "a loop of many steps"
        return program.run([*values])


def programs_of_loop(graphs: Sequence[Graph], steps: int) -> LoopPrograms | None:
    """The programs of a loop in eager code that has ``steps`` more steps; None if these are to run op by op.

    It is compiled as soon as its steps, of all calls, have cost about as much as this does: what is paid is
    at most twice the least that could be (Karlin et al., 1988, on renting and buying).

    graphs : those that a step runs.
    """
    if compiled(graphs[0]).native or not compiles_loops.get() or checks.in_force():
        return None
    programs = graphs[0].once(("programs", *map(id, graphs[1:])), LoopPrograms)
    equations = sum(len(g.equations) for g in graphs)
    programs.equations += steps * equations
    return programs if programs.equations >= PATIENCE[0] + PATIENCE[1] * equations else None


__all__ = ["LoopPrograms", "programs_of_loop"]
