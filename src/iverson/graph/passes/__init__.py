"""What is done to a graph before it runs.

Each pass keeps what the graph computes, and changes nothing when it is run again on its result.
"""

from __future__ import annotations

from collections.abc import Callable

from iverson.graph.dead_code import dead_code
from iverson.graph.nodes import Graph
from iverson.graph.passes.algebra import algebra
from iverson.graph.passes.common import common
from iverson.graph.passes.constants import constants
from iverson.graph.passes.contraction import contraction
from iverson.graph.passes.demands import demands
from iverson.graph.passes.entries import entries, is_of_stored
from iverson.graph.passes.folding import folding
from iverson.graph.passes.halves import halves
from iverson.graph.passes.packing import packing
from iverson.graph.passes.placing import placing
from iverson.graph.passes.reading import reading
from iverson.graph.regions import inline

Pass = Callable[[Graph], Graph]
#: In the order in which they run.
PASSES: tuple[Pass, ...] = (
    inline,
    dead_code,
    demands,
    dead_code,
    entries,
    reading,
    dead_code,
    halves,
    packing,
    algebra,
    constants,
    algebra,
    common,
    placing,
    folding,
    contraction,
    algebra,
    dead_code,
)


def simplified(graph: Graph) -> Graph:
    """The graph after all passes; one in which selections begin among what is stored waits for some of them
    until its patterns are opened."""
    for run in PASSES:
        if run is entries and is_of_stored(graph):
            break
        graph = run(graph)
    return graph
