"""Passes: rewrites of a graph that keep what it computes with less work; `simplified` runs them in order.

Each pass changes nothing when it is run again on its result. Dead-code elimination and inlining, which run
among them, are in `graph.ir`.

Of its siblings this package may import `ir` and `tracing`.

- `demand_analysis`: the entries of each value that later equations read; operands that nobody reads are zero.
- `support_and_demand`: each value computed only where it may be nonzero and is read.
- `graph_namespace`: the namespace in which `support_and_demand` runs the rules of partial values.
- `graph_rules`: rules of `support_and_demand` that only graphs need.
- `products`: matrix products of selections, repaired where they are not finite.
- `slice_pushdown`: slices of computed sparse values, computed from slices of the operands.
- `half_precision`: float16 and bfloat16 computed in float32 and rounded.
- `mask_indices`: entries that a mask picks or puts back, as gathers at index arrays.
- `algebraic_simplification`: identities such as x * 1, x + 0, transposes of transposes.
- `constant_folding`: equations that depend on no input, computed once.
- `common_subexpressions`: equal equations computed once, also carries and scans.
- `sum_collapsing`: sums over an axis, moved back through what is linear.
- `placement_sinking`: terms of a sum at one place, added before they are placed.
- `product_merging`: several matrix products as one.
- `matrix_chains`: chains of matrix products in the order with the fewest multiply-adds.
- `rewriting`: rules ``before -> after``, of which seven passes are tables, and the writer of a graph.
"""

from __future__ import annotations

from collections.abc import Callable

from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.nodes import Graph
from iverson.graph.ir.regions import inline, with_bodies
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
from iverson.graph.passes.sum_collapsing import collapsing
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
    dead_code,
    collapsing,
    placing,
    folding,
    contraction,
    algebra,
    dead_code,
)


def simplified(graph: Graph) -> Graph:
    """The graph after all passes, which then run on the bodies of its loops, branches and checkpoints.

    If a selection begins at stored entries, the passes from `entries` on are left out: they run on the graph
    on entries and index arrays that sparse lowering makes.
    """
    for run in PASSES:
        if run is entries and is_of_stored(graph):
            break
        graph = run(graph)
    return with_bodies(graph, simplified_body)


def simplified_body(body: Graph) -> Graph:
    """A body after all passes, which run on it once."""

    def make() -> Graph:
        result = simplified(body)
        return result.once("simplified", lambda: result)

    return body.once("simplified", make)
