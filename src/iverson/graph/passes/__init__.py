"""What is done to a graph before it runs.

Each pass keeps what the graph computes, and changes nothing when it is run again on its result.
"""

from __future__ import annotations

from collections.abc import Callable

from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.nodes import Graph
from iverson.graph.ir.regions import inline
from iverson.graph.passes.algebraic_simplification import algebra
from iverson.graph.passes.common_subexpressions import common
from iverson.graph.passes.constant_folding import constants
from iverson.graph.passes.demand_analysis import demands
from iverson.graph.passes.half_precision import halves
from iverson.graph.passes.mask_indices import packing
from iverson.graph.passes.matrix_chains import contraction
from iverson.graph.passes.placement_sinking import placing
from iverson.graph.passes.product_merging import folding
from iverson.graph.passes.slice_pushdown import reading
from iverson.graph.passes.support_and_demand import entries, is_of_stored

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
