"""Functions of `scipy.sparse.csgraph` on tensors: SciPy finds the paths and trees, whose weights are added
here.

Paths do not change with small changes of weights, so distances are sums of weights along them; where two
paths are equally long, the derivative is that of the one SciPy found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import iverson as iv
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting, theirs
from iverson.interop.scipy.sparse.linalg import operand


def _weights(csgraph: ArrayLike) -> Tensor:
    return operand(csgraph).to_dense()


def laplacian(
    csgraph: ArrayLike,
    normed: bool = False,
    return_diag: bool = False,
    use_out_degree: bool = False,
    **options: Setting,
) -> Any:
    """The Laplacian of a graph: degrees on the diagonal less the weights.

    >>> laplacian(iv.asarray([[0., 2.], [2., 0.]]))
    iverson.Tensor([[ 2., -2.],
                    [-2.,  2.]])
    """
    w = _weights(csgraph)
    w = w - iv.diag(iv.linalg.diagonal(w))
    degrees = iv.sum(w, axis=1 if use_out_degree else 0)
    scale = degrees
    result = iv.diag(degrees) - w
    if normed:
        isolated = degrees == 0
        scale = iv.where(isolated, 1.0, iv.sqrt(iv.where(isolated, 1.0, degrees)))
        result = iv.diag(iv.where(isolated, 0.0, 1.0)) - w / scale / iv.expand_dims(scale, axis=1)
    return (result, scale) if return_diag else result


def _along(
    weights: Tensor, distances: Setting, predecessors: Setting, sources: Sequence[int], directed: bool
) -> Tensor:
    """Distances as sums of weights along the paths that predecessors describe; row by row one source."""
    matrix, n = np.asarray(weights.detach()), weights.shape[0]
    rows, heads, tails = [], [], []
    for row, source in enumerate(sources):
        for target in range(n):
            node = target
            while node != source and (previous := int(predecessors[row, node])) >= 0:
                forward = (
                    directed
                    or not matrix[node, previous]
                    or 0 < matrix[previous, node] <= matrix[node, previous]
                )
                rows.append(row * n + target)
                heads.append(previous if forward else node)
                tails.append(node if forward else previous)
                node = previous
    steps = weights[np.array(heads, int), np.array(tails, int)]
    sums = iv.segment_sum(steps, iv.asarray(np.array(rows, int)), len(sources) * n)
    reachable = np.isfinite(np.atleast_2d(distances))
    result: Tensor = iv.where(reachable, iv.reshape(sums, (len(sources), n)), np.inf)
    return result


def _paths(name: str) -> Callable[..., Any]:
    def call(
        csgraph: ArrayLike,
        *args: Setting,
        directed: bool = True,
        return_predecessors: bool = False,
        unweighted: bool = False,
        indices: Setting = None,
        **options: Setting,
    ) -> Any:
        weights = _weights(csgraph)
        if indices is not None:
            options["indices"] = indices
        numbers = np.array(weights.detach())
        distances, predecessors = theirs(f"sparse.csgraph.{name}")(
            numbers, *args, directed=directed, return_predecessors=True, unweighted=unweighted, **options
        )[:2]
        sources = range(weights.shape[0]) if indices is None else np.atleast_1d(indices).tolist()
        if unweighted:
            weights = iv.asarray((numbers != 0).astype(float))
        result = _along(weights, distances, np.atleast_2d(predecessors), list(sources), directed)
        result = iv.reshape(result, np.shape(distances))
        return (result, predecessors) if return_predecessors else result

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.sparse.csgraph.{name}`: distances as sums of weights along the shortest paths."
    return call


shortest_path, floyd_warshall, dijkstra = map(_paths, ("shortest_path", "floyd_warshall", "dijkstra"))
bellman_ford, johnson = map(_paths, ("bellman_ford", "johnson"))


def construct_dist_matrix(
    graph: ArrayLike, predecessors: Setting, directed: bool = True, null_value: float = np.inf
) -> Tensor:
    """The distances along the paths of a matrix of predecessors.

    >>> import numpy as np
    >>> construct_dist_matrix(iv.asarray([[0., 2.], [0., 0.]]), np.array([[-9999, 0], [-9999, -9999]]))
    iverson.Tensor([[ 0.,  2.],
                    [inf,  0.]])
    """
    weights, n = _weights(graph), np.shape(predecessors)[0]
    reachable = (np.asarray(predecessors) >= 0) | np.eye(n, dtype=bool)
    distances_along = _along(
        weights, np.where(reachable, 0.0, np.inf), np.asarray(predecessors), range(n), directed
    )
    result: Tensor = iv.where(reachable, distances_along, null_value)
    return result


def _kept(name: str) -> Callable[..., Tensor]:
    """A function that keeps some of the weights: a tree."""

    def call(csgraph: ArrayLike, *args: Setting, **options: Setting) -> Tensor:
        weights = _weights(csgraph)
        edges = theirs(f"sparse.csgraph.{name}")(np.array(weights.detach()), *args, **options).toarray() != 0
        result: Tensor = iv.where(edges, weights, 0.0)
        return result

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.sparse.csgraph.{name}`: the weights of the edges that SciPy keeps, dense."
    return call


minimum_spanning_tree, breadth_first_tree = map(_kept, ("minimum_spanning_tree", "breadth_first_tree"))
depth_first_tree = _kept("depth_first_tree")

__all__ = [
    "bellman_ford", "breadth_first_tree", "construct_dist_matrix", "depth_first_tree", "dijkstra",
    "floyd_warshall",
    "johnson", "laplacian", "minimum_spanning_tree", "shortest_path",
]  # fmt: skip
