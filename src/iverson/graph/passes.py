"""What is done to a graph before it runs: passes in order, each of which keeps what the graph computes."""

from __future__ import annotations

from iverson.graph.dead_code import dead_code
from iverson.graph.nodes import Graph


def simplified(graph: Graph) -> Graph:
    """The graph after all passes."""
    for run in (dead_code,):
        graph = run(graph)
    return graph
