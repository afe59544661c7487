"""Working out needs: one walk from the requested inputs to find, per node, what is demanded of it.

Needs are worked out afresh for every pass and nothing on a node changes, so that passes over one graph from
many threads are independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from iverson.autograd.node import Node
from iverson.core.entries import FULL, NOTHING, Box, Entries, Stored, entry_by_entry, hull, join, plain
from iverson.core.op import Op
from iverson.kernels.registry import run_in_layouts
from iverson.kernels.stretched import stretched
from iverson.layouts import Zero, layouts_by_type, support_pattern
from iverson.layouts.merging import union

Slot = tuple[Node, int]


class Needs:
    """For each node on a path from a target: the needs of its arguments and of its results' cotangents."""

    __slots__ = ("of_args", "of_results")

    def __init__(self) -> None:
        self.of_args: dict[Node, list[Entries]] = {}
        self.of_results: dict[Node | None, Any] = {}

    def result(self, node: Node, index: int) -> Entries:
        """The need of the cotangent of one result."""
        found: Entries | tuple[Entries, ...] = self.of_results.get(node, NOTHING)
        return found[index] if isinstance(found, tuple) else found


def find_needs(order: list[Node], targets: Mapping[Slot, Entries], recording: bool = False) -> Needs:
    """Needs of all nodes in ``order`` (oldest first), given what is demanded of the targets.

    A node's result is needed where it is a target, and where the op says that the needs of its inputs
    reach (`Op.demand`, by default everywhere). While recording, only the zeros of constants are counted on.
    """
    needs = Needs()
    results, known = needs.of_results, needs.of_results.get
    requested: dict[Node, dict[int, Entries]] = {}
    for (node, index), need in targets.items():
        requested.setdefault(node, {})[index] = need
    for node in order:
        of_args: list[Any] = [known(parent, NOTHING) for parent in node.parents]
        unneeded, full = of_args.count(NOTHING), of_args.count(FULL)
        own: Any = NOTHING
        if unneeded < len(of_args):
            whole = unneeded + full == len(of_args)
            if not whole:
                of_args = [
                    n[i] if type(n) is tuple else n for n, i in zip(of_args, node.indices, strict=True)
                ]
                if node.op is not None and node.op.factors is None:
                    of_args = list(map(entry_by_entry, of_args))
                unneeded = of_args.count(NOTHING)
            if unneeded < len(of_args):
                needs.of_args[node] = of_args
                own = _demanded(node, of_args, whole, recording)
        if node in requested:
            own = _merged(node, own, requested[node])
        if own is not NOTHING:
            results[node] = own
    return needs


#: What arguments are held as that have no pattern (a pair stands for a value that was not kept).
_PLAIN = frozenset((tuple, np.ndarray, int, float, complex, bool, type(None)))


def _demanded(node: Node, of_args: list[Entries], whole: bool, recording: bool) -> Any:
    """What the op reads of its results' cotangents to serve the needs of its arguments."""
    op = node.op
    assert op is not None
    demand = op.demand
    if (op.elementwise and op.linear_in) or op.reach is not None:
        bound = None if _PLAIN.issuperset(map(type, node.args)) else _bounded(node, op, of_args, recording)
        if bound is not None:
            return bound
    if op.image is not None and (type(of_args[0]) is Box or (op.spreads and of_args[0] is FULL)):
        return _image(node, op, of_args[0])
    if op.moves and not whole and any(isinstance(n, Stored) for n in of_args):
        return _moved(node, op, of_args)
    if demand is None or (whole and not op.spreads):
        return FULL
    shapes = tuple(map(node.arg_shape, range(len(node.args))))
    return demand(tuple(of_args), shapes, node.result_shape(0), **node.params)


def _image(node: Node, op: Op, need: Entries) -> Entries:
    """Where the entries in a box of an op that moves entries go."""
    others, shape = node.args[1:], node.arg_shape(0)
    region = hull(need, shape)
    image = op.image(region, shape, *others, **node.params) if region.size else None  # type: ignore[misc]
    return NOTHING if image is None else plain(Box(image), node.result_shape(0))


def _bounded(node: Node, op: Op, of_args: list[Entries], recording: bool) -> Entries | None:
    """Where the result can depend on the arguments needed, given what other arguments are zero outside of.

    An argument that is tracked may be differentiated later where it is zero now: in a pass that is recorded,
    its zeros do not last.
    """
    patterns: dict[int, Any] = {}
    lasting: dict[int, Any] = {}
    for k, held in enumerate(node.args):
        if type(held) in layouts_by_type and (pattern := support_pattern(held)) is not None:
            patterns[k] = pattern
            if not recording or node.parents[k] is None:
                lasting[k] = pattern
    if op.reach is None:
        return _factors(node, op, of_args, lasting) if lasting else None
    found: Entries | None = None
    if patterns:
        found = op.reach(tuple(of_args), lasting, node.result_shape(0), **node.params)
    return found


def _factors(node: Node, op: Op, of_args: list[Entries], patterns: dict[int, Any]) -> Entries | None:
    """Where the result of an elementwise op can depend on the arguments needed: on a sparse factor's pattern.

    The op is zero where one of its groups is (`Op.linear_in`), whatever the other arguments are.
    """
    out = node.result_shape(0)
    bounds: list[Any] = []
    for k, need in enumerate(of_args):
        if need is NOTHING:
            continue
        others = [g[0] for g in op.groups(len(of_args)) if k not in g and len(g) == 1 and g[0] in patterns]
        own = node.arg_shape(k)
        if isinstance(need, Stored):
            factors = [patterns[j] for j in others if patterns[j].ndim == len(node.arg_shape(j))]
            found = need.pattern if own == out else stretched(need.pattern, own, out, factors)
        else:
            of_others = (stretched(patterns[j], node.arg_shape(j), out) for j in others)
            found = next((p for p in of_others if p is not None), None)
        if found is None:
            return None
        bounds.append(found)
    if any(p.ndim != bounds[0].ndim for p in bounds):
        return None
    whole = union(bounds, bounds[0])
    return Stored(whole) if len(set(bounds)) == 1 or 2 * whole.count < prod(whole.shape) else None


def _moved(node: Node, op: Op, of_args: list[Entries]) -> Entries:
    """Where the entries needed of an op that moves entries go: found by moving a value on their pattern."""
    values: list[Any] = []
    linear = {k for group in op.groups(len(of_args)) for k in group}
    for k, (held, need) in enumerate(zip(node.args, of_args, strict=True)):
        if isinstance(need, Stored):
            shape = held[0] if type(held) is tuple else held.shape
            stored = (need.pattern.count, *shape[need.pattern.ndim :])
            values.append(need.pattern.value(np.ones(stored, bool)))
        elif need is not NOTHING:
            return FULL
        else:
            values.append(
                Zero(*(held if type(held) is tuple else (held.shape, held.dtype))) if k in linear else held
            )
    found = run_in_layouts(op, tuple(values), node.params)
    pattern = support_pattern(found) if type(found) in layouts_by_type else None
    return FULL if pattern is None else Stored(pattern)


def _merged(node: Node, own: Any, requested: dict[int, Entries]) -> Any:
    if not node.multiple:
        return join([own, requested[0]])
    of_results = own if type(own) is tuple else (own,) * len(node.out)
    return tuple(join([n, requested.get(k, NOTHING)]) for k, n in enumerate(of_results))
