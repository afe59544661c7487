"""Working out needs: one walk from the requested inputs to find, per node, what is demanded of it.

Needs are worked out afresh for every pass and nothing on a node changes, so that passes over one graph from
many threads are independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iverson.autograd.node import Node
from iverson.core.needs import FULL, NOTHING, Need, union

Slot = tuple[Node, int]


class Needs:
    """For each node on a path from a target: the needs of its arguments and of its results' cotangents."""

    __slots__ = ("of_args", "of_results")

    def __init__(self) -> None:
        self.of_args: dict[Node, tuple[Need, ...]] = {}
        self.of_results: dict[Node, Any] = {}

    def result(self, node: Node, index: int) -> Need:
        """The need of the cotangent of one result."""
        found: Need | tuple[Need, ...] = self.of_results.get(node, NOTHING)
        return found[index] if isinstance(found, tuple) else found


def find_needs(order: list[Node], targets: Mapping[Slot, Need]) -> Needs:
    """Needs of all nodes in ``order`` (oldest first), given what is demanded of the targets.

    A node's result is needed where it is a target, and where the op says that the needs of its inputs
    reach (`Op.demand`, by default everywhere).
    """
    needs = Needs()
    results = needs.of_results
    requested: dict[Node, dict[int, Need]] = {}
    for (node, index), need in targets.items():
        requested.setdefault(node, {})[index] = need
    for node in order:
        found = False
        whole = True
        of_args: list[Need] = []
        for parent, index in zip(node.parents, node.indices, strict=True):
            own: Any = NOTHING if parent is None else results.get(parent, NOTHING)
            if type(own) is tuple:
                own = own[index]
            if own is not NOTHING:
                found = True
                whole = whole and own is FULL
            of_args.append(own)
        own = NOTHING
        if found:
            needs.of_args[node] = tuple(of_args)
            own = _demanded(node, needs.of_args[node], whole)
        if node in requested:
            own = _merged(node, own, requested[node])
        if own is not NOTHING:
            results[node] = own
    return needs


def _demanded(node: Node, of_args: tuple[Need, ...], whole: bool) -> Any:
    """What the op reads of its results' cotangents to serve the needs of its arguments."""
    assert node.op is not None
    demand = node.op.demand
    if demand is None or (whole and not node.op.spreads):
        return FULL
    shapes = tuple([held[0] if type(held) is tuple else getattr(held, "shape", ()) for held in node.args])
    return demand(of_args, shapes, node.result_shape(0), **node.params)


def _merged(node: Node, own: Any, requested: dict[int, Need]) -> Any:
    if not node.multiple:
        return union([own, requested[0]])
    of_results = own if type(own) is tuple else (own,) * len(node.out)
    return tuple(union([n, requested.get(k, NOTHING)]) for k, n in enumerate(of_results))
