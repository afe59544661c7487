"""Distances of `scipy.spatial.distance`: one formula a metric, for two points, all pairs, and two sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.errors import ArgumentError
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting


def _norm(d: Tensor, p: float) -> Tensor:
    return iv.linalg.vector_norm(d, ord=p, axis=-1)


def _sum(x: Tensor) -> Tensor:
    return iv.sum(x, axis=-1)


def _cosine(u: Tensor, v: Tensor) -> Tensor:
    return 1 - _sum(u * v) / (_norm(u, 2) * _norm(v, 2))


def _centred(u: Tensor) -> Tensor:
    return u - iv.mean(u, axis=-1, keepdims=True)


def _jensen_shannon(u: Tensor, v: Tensor) -> Tensor:
    p, q = u / iv.sum(u, axis=-1, keepdims=True), v / iv.sum(v, axis=-1, keepdims=True)
    m = 0.5 * (p + q)
    return iv.sqrt(0.5 * _sum(iv.special.rel_entr(p, m) + iv.special.rel_entr(q, m)))


#: By name, a metric of vectors along the last axis; further arguments are those of SciPy.
_METRICS: dict[str, Callable[..., Any]] = {
    "braycurtis": lambda u, v: _sum(iv.abs(u - v)) / _sum(iv.abs(u + v)),
    "canberra": lambda u, v: _sum(iv.where(u == v, 0.0, iv.abs(u - v) / (iv.abs(u) + iv.abs(v)))),
    "chebyshev": lambda u, v: iv.max(iv.abs(u - v), axis=-1),
    "cityblock": lambda u, v: _norm(u - v, 1),
    "correlation": lambda u, v: _cosine(_centred(u), _centred(v)),
    "cosine": _cosine,
    "euclidean": lambda u, v: _norm(u - v, 2),
    "jensenshannon": _jensen_shannon,
    "mahalanobis": lambda u, v, VI: iv.sqrt(_sum(((u - v) @ iv.asarray(VI)) * (u - v))),
    "minkowski": lambda u, v, p=2: _norm(u - v, p),
    "seuclidean": lambda u, v, V: iv.sqrt(_sum((u - v) ** 2 / iv.asarray(V))),
    "sqeuclidean": lambda u, v: _sum((u - v) ** 2),
}


def _metric(name: str) -> Callable[..., Tensor]:
    def call(u: ArrayLike, v: ArrayLike, *args: ArrayLike, **options: ArrayLike) -> Tensor:
        result: Tensor = _METRICS[name](iv.asarray(u), iv.asarray(v), *args, **options)
        return result

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.spatial.distance.{name}` of two vectors, or of vectors along last axes."
    return call


braycurtis, canberra, chebyshev, cityblock = map(
    _metric, ("braycurtis", "canberra", "chebyshev", "cityblock")
)
correlation, cosine, euclidean = map(_metric, ("correlation", "cosine", "euclidean"))
jensenshannon, mahalanobis, minkowski = map(_metric, ("jensenshannon", "mahalanobis", "minkowski"))
seuclidean, sqeuclidean = map(_metric, ("seuclidean", "sqeuclidean"))


def _chosen(operation: str, metric: str | Callable[..., Setting]) -> Callable[..., Any]:
    if callable(metric):
        return iv.vmap(metric)
    if metric not in _METRICS:
        raise ArgumentError(
            operation, "metric", got=repr(metric), expected=f"one of {', '.join(_METRICS)}, or a function"
        )
    return _METRICS[metric]


def cdist(
    XA: ArrayLike, XB: ArrayLike, metric: str | Callable[..., Setting] = "euclidean", **options: ArrayLike
) -> Tensor:
    """The distance of each row of one matrix from each row of another.

    Raises ArgumentError for a metric that is not differentiated here.

    >>> cdist(iv.asarray([[0., 0.]]), iv.asarray([[3., 4.], [1., 0.]]), "cityblock")
    iverson.Tensor([[7., 1.]])
    """
    a, b = iv.asarray(XA), iv.asarray(XB)
    m, n = a.shape[0], b.shape[0]
    rows, columns = iv.repeat(a, n, axis=0), iv.tile(b, (m, 1))
    return iv.reshape(_chosen("cdist", metric)(rows, columns, **options), (m, n))  # type: ignore[no-any-return]


def pdist(X: ArrayLike, metric: str | Callable[..., Setting] = "euclidean", **options: ArrayLike) -> Tensor:
    """The distances of all pairs of rows, those of the first row first.

    Raises as `cdist`.

    >>> pdist(iv.asarray([[0., 0.], [3., 4.], [0., 1.]])).round(decimals=6)
    iverson.Tensor([5.      , 1.      , 4.242641])
    """
    x = iv.asarray(X)
    first, second = iv.triu_indices(x.shape[0], 1)
    distances: Tensor = _chosen("pdist", metric)(x[first], x[second], **options)
    return distances


def squareform(X: ArrayLike, force: str = "no", checks: bool = True) -> Tensor:
    """The symmetric matrix of the distances that `pdist` gives, or these of the matrix.

    >>> squareform(iv.asarray([5., 1., 4.]))
    iverson.Tensor([[0., 5., 1.],
                    [5., 0., 4.],
                    [1., 4., 0.]])
    """
    x = iv.asarray(X)
    if x.ndim == 2:
        first, second = iv.triu_indices(x.shape[0], 1)
        return x[first, second]
    n = round((1 + (1 + 8 * x.shape[0]) ** 0.5) / 2)
    row, column = np.triu_indices(n, 1)
    upper = iv.reshape(iv.scatter_add(iv.zeros(n * n, dtype=x.dtype), row * n + column, x), (n, n))
    return upper + upper.mT


def directed_hausdorff(u: ArrayLike, v: ArrayLike, rng: int = 0) -> tuple[Tensor, int, int]:
    """The largest distance of a row of u from the nearest row of v, and the numbers of both rows.

    >>> directed_hausdorff(iv.asarray([[0.], [3.]]), iv.asarray([[1.]]))
    (iverson.Tensor(2.), 1, 0)
    """
    distances = cdist(u, v)
    nearest = iv.min(distances, axis=1)
    row = int(iv.argmax(nearest.detach()))
    return nearest[row], row, int(iv.argmin(distances.detach()[row]))


__all__ = [*_METRICS, "cdist", "directed_hausdorff", "pdist", "squareform"]  # noqa: PLE0604
