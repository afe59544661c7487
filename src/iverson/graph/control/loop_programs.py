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
from iverson.layouts import Zero, are_strided, to_strided

#: What a loop runs op by op before it is compiled, which takes about as long: equations, and steps besides.
#: Measured: 0.2 s, and 5 ms for each equation of a step, against 15 microseconds for running one.
PATIENCE = 10_000, 300
#: Programs of a loop that are kept, for other numbers of steps.
_PROGRAMS = 8


class _Steps:
    """Steps of a loop that ran op by op, and the programs of the whole loop.

    equations : number of equations that ran, in all calls of loops with this body.
    """

    def __init__(self) -> None:
        self.equations = 0
        self.sharing = LoweringFormulas()
        self.programs: RecentItems[Hashable, Compiled] = RecentItems(_PROGRAMS)


def run_as_program(
    name: str,
    graphs: Sequence[Graph],
    values: Sequence[LayoutValue],
    steps: int,
    key: Hashable,
    make: Callable[[], Graph],
) -> Sequence[Any] | None:
    """The outputs of a loop in eager code that has ``steps`` more steps; None if these are to run op by op.

    It is compiled as soon as its steps, of all calls, have cost about as much as this does: what is paid is
    at most twice the least that could be (Karlin et al., 1988, on renting and buying).

    graphs : those that a step runs. key : hashable; what the graph of the loop depends on besides these.
    make : returns the graph of the loop, with inputs for ``values``.
    """
    if compiled(graphs[0]).native or not compiles_loops.get() or checks.in_force():
        return None
    history = graphs[0].once(("steps", *map(id, graphs[1:])), _Steps)
    equations = sum(len(g.equations) for g in graphs)
    history.equations += steps * equations
    if history.equations < PATIENCE[0] + PATIENCE[1] * equations:
        return None
    values = [to_strided(x) if type(x) is Zero else x for x in values]  # where sums begin
    if not are_strided(values):
        return None
    program = history.programs.find(key)
    if program is None:
        with recording(False):
            program = history.programs.keep(key, Compiled(make(), name, sharing=history.sharing))
        program.reason = "a loop of many steps"
    return program.run([*values])


__all__ = ["run_as_program"]
