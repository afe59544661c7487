"""Layered graph drawing: the places of nodes and the paths of edges of a directed acyclic graph.

After Sugiyama, Tagawa and Toda, Methods for Visual Understanding of Hierarchical System Structures (1981):
nodes in layers, so that edges go down; edges across several layers through a point in each; the order within
layers by medians of neighbours; then places, nearest to the neighbours' mean, that keep order and distances.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

Point = tuple[float, float]
Edge = tuple[int, int]

_SWEEPS = 12
#: The width of an edge.
_POINT = 2.0
#: Between neighbours in a layer, and between layers.
GAP, ROOM = 24.0, 44.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """Centre of each node, the points of each edge, and the width and height of the whole drawing."""

    centres: tuple[Point, ...]
    routes: dict[Edge, tuple[Point, ...]]
    width: float
    height: float


def drawing(sizes: Sequence[tuple[float, float]], edges: Iterable[Edge]) -> Drawing:
    """Drawing of a graph: positions of its nodes and paths of its edges.

    Raises ValueError if edges form a cycle.
    sizes : width and height of each node; nodes are named by their position here.
    edges : pairs of a node and a node below it.
    """
    edges = list(dict.fromkeys(edges))
    layer = _layers(len(sizes), edges)
    chains = _chains(layer, edges, len(sizes))
    widths = [w for w, _ in sizes] + [_POINT] * (len(layer) - len(sizes))
    links = [pair for chain in chains.values() for pair in pairwise(chain)]
    above, below = _neighbours(len(layer), links)
    order = _ordered(layer, above, below)
    x = _across(order, widths, above, below)
    tops, heights = _down(order, sizes)
    origin = min((x[k] - widths[k] / 2 for k in range(len(layer))), default=0.0) - GAP
    centres = tuple((x[k] - origin, tops[layer[k]] + heights[layer[k]] / 2) for k in range(len(layer)))
    routes = {edge: _route(chain, centres, tops, heights, layer, sizes) for edge, chain in chains.items()}
    width = max((c[0] + w / 2 for c, w in zip(centres, widths, strict=True)), default=0.0) + GAP
    return Drawing(centres[: len(sizes)], routes, width, (tops[-1] + heights[-1] if tops else 0.0) + GAP)


def _layers(count: int, edges: Sequence[Edge]) -> list[int]:
    """Layer of each node: below all its sources; a node without sources is directly above its
    highest target.
    """
    sources, targets = _neighbours(count, edges)
    waiting = [len(s) for s in sources]
    ready = [k for k in range(count) if not waiting[k]]
    layer = [0] * count
    for k in ready:  # which grows
        for t in targets[k]:
            layer[t] = max(layer[t], layer[k] + 1)
            waiting[t] -= 1
            if not waiting[t]:
                ready.append(t)
    if len(ready) < count:
        raise ValueError("drawing: edges go round in a circle")
    for k in range(count):
        if not sources[k] and targets[k]:
            layer[k] = min(layer[t] for t in targets[k]) - 1
    return layer


def _chains(layer: list[int], edges: Sequence[Edge], count: int) -> dict[Edge, list[int]]:
    """Map from each edge to a chain of nodes with one in each layer from its first to its last node.

    The nodes in between are new points of the drawing, numbered from ``count`` on; their layers are appended
    to ``layer``.
    """
    chains = {}
    for a, b in edges:
        between = range(layer[a] + 1, layer[b])
        chains[a, b] = [a, *range(len(layer), len(layer) + len(between)), b]
        layer.extend(between)
    return chains


def _neighbours(count: int, links: Iterable[Edge]) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in links:
        above[b].append(a)
        below[a].append(b)
    return above, below


def _ordered(layer: Sequence[int], above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    """Nodes of each layer from left to right: of several sweeps by medians, the order with the fewest
    crossings.
    """
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for k, depth in enumerate(layer):
        rows[depth].append(k)
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(_SWEEPS):
        rows = [list(row) for row in rows]
        downwards = sweep % 2 == 0
        place = {k: n for row in rows for n, k in enumerate(row)}
        for row in rows[:: 1 if downwards else -1]:
            beside = above if downwards else below
            medians = {k: median(place[j] for j in beside[k]) if beside[k] else place[k] for k in row}
            row.sort(key=medians.__getitem__)
            place.update((k, n) for n, k in enumerate(row))
        if (crossings := _crossings(rows, below)) < fewest:
            best, fewest = rows, crossings
    return best


def _crossings(rows: list[list[int]], below: list[list[int]]) -> int:
    """Number of pairs of links that cross.

    These are inversions of the lower ends, taken in the order of the upper ends.
    """
    total = 0
    for row, under in pairwise(rows):
        place = {k: n for n, k in enumerate(under)}
        tree = [0] * (len(under) + 1)  # of counts, after Fenwick
        count = 0
        for k in row:
            ends = sorted(place[j] for j in below[k])
            for end in ends:
                at, before = end + 1, 0
                while at:
                    before += tree[at]
                    at -= at & -at
                total += count - before
            for end in ends:
                at = end + 1
                while at <= len(under):
                    tree[at] += 1
                    at += at & -at
            count += len(ends)
    return total


def _across(
    order: list[list[int]], widths: Sequence[float], above: list[list[int]], below: list[list[int]]
) -> list[float]:
    """Horizontal centre of each node, from sweeps down and up, and then sweeps by both sides at once.

    A node without sources follows its targets: it has no influence on their positions. Links between two
    points of one edge weigh more than others, so that the edge runs straight.
    """
    x = [0.0] * len(widths)
    pulling = [[j for j in beside if above[j]] or beside for beside in above]
    sides = [_weighed(beside, widths) for beside in (pulling, below)]
    combined = [up + down for up, down in zip(*sides, strict=True)]
    for row in order:
        _settle(row, widths, x, [0.0] * len(row))
    for sweep in range(2 * _SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        links = combined if sweep >= _SWEEPS else sides[sweep % 2]
        for row in order[::step]:
            _settle(row, widths, x, [_pulled(x, links[k], x[k]) for k in row])
    return x


def _weighed(beside: list[list[int]], widths: Sequence[float]) -> list[list[tuple[int, float]]]:
    """Neighbours of each node, with the weights of the links: 4 between two points of an edge, else 1."""
    return [
        [(j, 4.0 if widths[j] <= _POINT >= widths[k] else 1.0) for j in neighbours]
        for k, neighbours in enumerate(beside)
    ]


def _pulled(x: Sequence[float], links: Sequence[tuple[int, float]], default: float) -> float:
    total = sum(weight for _, weight in links)
    return sum(x[j] * weight for j, weight in links) / total if links else default


def _settle(row: Sequence[int], widths: Sequence[float], x: list[float], targets: Sequence[float]) -> None:
    """Set in ``x`` the centres of the nodes of one layer, as near as possible to ``targets`` in least
    squares.

    Order and distances are kept. After the distances are subtracted, positions may only increase: neighbours
    whose positions would decrease are pooled at their mean.
    """
    offsets = [0.0]
    for a, b in pairwise(row):
        offsets.append(offsets[-1] + (widths[a] + widths[b]) / 2 + GAP)
    pools: list[tuple[float, int]] = []
    for want, offset in zip(targets, offsets, strict=True):
        pool = (want - offset, 1)
        while pools and pools[-1][0] >= pool[0]:
            value, n = pools.pop()
            pool = ((value * n + pool[0] * pool[1]) / (n + pool[1]), n + pool[1])
        pools.append(pool)
    settled = [value for value, n in pools for _ in range(n)]
    for k, value, offset in zip(row, settled, offsets, strict=False):
        x[k] = value + offset


def _down(order: list[list[int]], sizes: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Top and height of each layer, as two lists."""
    heights = [max((sizes[k][1] for k in row if k < len(sizes)), default=0.0) for row in order]
    tops = [GAP]
    for height in heights[:-1]:
        tops.append(tops[-1] + height + ROOM)
    return tops[: len(heights)], heights


def _route(
    chain: Sequence[int],
    centres: Sequence[Point],
    tops: Sequence[float],
    heights: Sequence[float],
    layer: Sequence[int],
    sizes: Sequence[tuple[float, float]],
) -> tuple[Point, ...]:
    """Points of an edge from the bottom of its first node to the top of its last; it is vertical inside of
    layers.

    chain : the nodes of the edge, one for each layer.
    """
    first, *between, last = chain
    points = [(centres[first][0], centres[first][1] + sizes[first][1] / 2)]
    for k in between:
        top = tops[layer[k]]
        points += [(centres[k][0], top), (centres[k][0], top + heights[layer[k]])]
    points.append((centres[last][0], centres[last][1] - sizes[last][1] / 2))
    return tuple(points)
