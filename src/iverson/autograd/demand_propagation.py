"""Demand propagation: one walk from the requested inputs finds, per node, the demand on its cotangents.

Needs are computed afresh for every pass and nothing on a node changes, so that passes over one graph from
many threads are independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from iverson.autograd import plan
from iverson.autograd.node import Node
from iverson.core.aval import Aval
from iverson.core.dispatch import Level, LevelValue, levels
from iverson.core.entries import FULL, NOTHING, Entries, Stored, join
from iverson.layouts import Sparse, Strided

Slot = tuple[Node, int]
Demands = tuple[Entries, ...]


class Needs:
    """Demands of a pass, for each node on a path from an output to a target.

    of_args : for each node, the entries that are read of the cotangent of each argument.
    of_results : for each node, the entries that are read of the cotangent of its result; a tuple for several.
    """

    __slots__ = ("of_args", "of_results")

    of_args: dict[Node, Demands]
    of_results: dict[Node | None, Any]

    def result(self, node: Node, index: int) -> Entries:
        """The entries that are read of the cotangent of result ``index`` of ``node``."""
        need: Entries | Demands = self.of_results.get(node, NOTHING)
        return need[index] if isinstance(need, tuple) else need


def find_needs(order: list[Node], targets: Mapping[Slot, Entries], recording: bool = False) -> Needs:
    """Demands of all nodes in ``order`` (oldest first), from the demands on the targets.

    Of the cotangent of a node's result, those entries are read that are demanded if it is a target, and those
    that the demands of its inputs reach (`iverson.autograd.plan.demanded`).

    recording : True if the pass is recorded: then only the zeros of constants count as zeros.
    """
    needs = Needs()
    of_args = needs.of_args = {}
    results = needs.of_results = {}
    need_of = results.get
    requested: dict[Node, dict[int, Entries]] = {}
    for (node, index), need in targets.items():
        if node.op is None:  # the oldest are first: what a pass goes by in reverse
            results[node] = need
        else:
            requested.setdefault(node, {})[index] = need
    needed_nodes = results.keys()
    for node in order:
        node_need: Any = NOTHING
        parents = node.parents
        if not needed_nodes.isdisjoint(parents):
            demands: Demands = tuple(map(need_of, parents, _NOTHINGS))
            is_read = True
            if tuple in map(type, demands):  # of parents with several results
                demands = tuple(map(_of, demands, node.indices))
                is_read = any(need is not NOTHING for need in demands)
            if is_read:
                of_args[node] = demands
                usual_demand, node_need = node.reads
                for need in demands:
                    if (
                        need is not usual_demand
                        and need is not NOTHING
                        and (type(usual_demand) is not Stored or need != usual_demand)
                    ):
                        node_need = _demanded(node, demands, recording)
                        break
        if requested and node in requested:
            of_node = requested[node]
            node_need = (
                of_node[0]
                if node_need is NOTHING and not node.multiple
                else _merged(node, node_need, of_node)
            )
        if node_need is not NOTHING:
            results[node] = node_need
    return needs


_NOTHINGS = repeat(NOTHING)


def _of(need: Any, index: int) -> Entries:
    """The demand on result ``index`` of a node, from the demand on all its results."""
    return need[index] if type(need) is tuple else need  # type: ignore[no-any-return]


def _demanded(node: Node, demands: Demands, recording: bool) -> Any:
    """Entries of the cotangent of a node's result that are read, from the demands on its arguments."""
    op: Any = node.op
    return plan.demanded(op, demands, known_inputs(node, recording), node.out, node.params)


#: What is known of all entries that last: an Aval, or the value itself.
_AVALS = frozenset((Aval, np.ndarray, int, float, complex, bool))


def are_differentiated(within: Sequence[Level]) -> bool:
    """True if a derivative of an op recorded in these levels may read entries off its operand's pattern."""
    return any(level.is_differentiated for level in within)


def known_inputs(node: Node, recording: bool) -> list[Any]:
    """Arguments of a node for the functions of `iverson.autograd.plan`: as Avals, numbers or strided arrays.

    An Aval has the support of an argument only if that support lasts.

    recording : True if the pass is recorded: the support of an argument with a node does not last then.
    """
    within = levels()
    is_differentiated = bool(within) and are_differentiated(within)
    if not (recording or is_differentiated) and _AVALS.issuperset(map(type, node.args)):
        return list(node.args)
    facts = []
    for operand, parent in zip(node.args, node.parents, strict=True):
        may_change = (recording and parent is not None) or (
            is_differentiated and isinstance(operand, Aval | LevelValue)
        )
        if parent is not None and not recording and isinstance(operand, Sparse):
            of = parent.out  # what its own node knows of it
            if type(of) is Aval and getattr(of.support, "pattern", None) is operand.pattern:
                facts.append(of)
                continue
        is_known = (
            operand.support is FULL or not may_change if type(operand) is Aval else type(operand) is Strided
        )
        facts.append(operand if is_known else plan.lasting(operand, may_change=may_change))
    return facts


def _merged(node: Node, need: Any, requested: dict[int, Entries]) -> Any:
    """The union of the demand on a node's result(s) and the demands on its results that are targets."""
    if not node.multiple:
        return join([need, requested[0]])
    of_results = need if type(need) is tuple else (need,) * len(node.out)
    return tuple(join([n, requested.get(k, NOTHING)]) for k, n in enumerate(of_results))
