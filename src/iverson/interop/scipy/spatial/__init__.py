"""Functions of `scipy.spatial` on tensors.

Import rule: packages of lower layers; of the modules below, each imports only those listed before it.

- `distance`: distances of points.
"""

from __future__ import annotations

import iverson as iv
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.spatial import distance


def minkowski_distance_p(x: ArrayLike, y: ArrayLike, p: float = 2.0) -> Tensor:
    """The p-th power of `minkowski_distance`; the largest difference for p = inf.

    >>> minkowski_distance_p(iv.asarray([0., 0.]), iv.asarray([3., 4.]))
    iverson.Tensor(25.)
    """
    difference = iv.abs(iv.asarray(y) - iv.asarray(x))
    return iv.max(difference, axis=-1) if p == float("inf") else iv.sum(iv.pow(difference, p), axis=-1)


def minkowski_distance(x: ArrayLike, y: ArrayLike, p: float = 2.0) -> Tensor:
    """The norm of order p of differences along the last axis.

    >>> minkowski_distance(iv.asarray([0., 0.]), iv.asarray([3., 4.]))
    iverson.Tensor(5.)
    """
    return iv.linalg.vector_norm(iv.asarray(y) - iv.asarray(x), ord=p, axis=-1)


def distance_matrix(x: ArrayLike, y: ArrayLike, p: float = 2.0, threshold: int = 1000000) -> Tensor:
    """The distance of order p of each row of x from each row of y.

    >>> distance_matrix(iv.asarray([[0., 0.]]), iv.asarray([[3., 4.]]))
    iverson.Tensor([[5.]])
    """
    return iv.cdist(x, y, p=p)


def geometric_slerp(start: ArrayLike, end: ArrayLike, t: ArrayLike, tol: float = 1e-7) -> Tensor:
    """Points on the great circle from one unit vector to another, at shares t of the angle.

    >>> geometric_slerp(iv.asarray([1., 0.]), iv.asarray([0., 1.]), 0.5).round(decimals=6)
    iverson.Tensor([0.707107, 0.707107])
    """
    a, b, share = iv.asarray(start), iv.asarray(end), iv.asarray(t)
    angle = iv.atan2(iv.linalg.vector_norm(b - iv.sum(a * b) * a), iv.sum(a * b))
    weight = iv.expand_dims(share, axis=-1)
    return (iv.sin((1 - weight) * angle) * a + iv.sin(weight * angle) * b) / iv.sin(angle)


def procrustes(data1: ArrayLike, data2: ArrayLike) -> tuple[Tensor, Tensor, Tensor]:
    """Two sets of points, centred and of norm 1, the second turned and scaled onto the first, and what
    differs.

    >>> square = iv.asarray([[0., 0.], [1., 0.], [1., 1.], [0., 1.]])
    >>> abs(procrustes(square, 2 * square + 1)[2]).round(decimals=6)
    iverson.Tensor(0.)
    """

    def standard(x: ArrayLike) -> Tensor:
        centred = iv.asarray(x) - iv.mean(iv.asarray(x), axis=0)
        return centred / iv.linalg.vector_norm(centred)

    a, b = standard(data1), standard(data2)
    u, w, vt = iv.linalg.svd((b.mT @ a).mT, full_matrices=False)
    b = (b @ (u @ vt).mT) * iv.sum(w)
    return a, b, iv.sum((a - b) ** 2)


__all__ = [
    "distance", "distance_matrix", "geometric_slerp", "minkowski_distance", "minkowski_distance_p",
    "procrustes",
]  # fmt: skip
