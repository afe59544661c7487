"""Programs with loops that Python runs, which compilers see written out, and a loss over many rows.

- sinkhorn: 20 scalings of the rows and columns of n x n, with the gradient in the costs (Cuturi, 2013).
- wavelet_lifting: 5 levels of a lifting scheme on n points, with the gradient.
- sliced_wasserstein: the distance of n points from n others, along 32 directions in 16 dimensions, with the
  gradient in the points.
- logistic_regression: the loss of n rows of 20 features, with the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Workload
from benchmarks.workloads.batches import every_way, transforms_of

SCALINGS, LEVELS, FEATURES, DIRECTIONS, DIMENSIONS = 20, 5, 20, 32, 16


def make_costs(n: int, rng: np.random.Generator) -> Inputs:
    return {"costs": rng.random((n, n))}


def sinkhorn(xp: Any, costs: Any) -> Any:
    kernel = xp.exp(-5.0 * costs)
    u = kernel.sum(-1) * 0 + 1
    v = u
    for _ in range(SCALINGS):
        v = 1 / (kernel.T @ u)
        u = 1 / (kernel @ v)
    return (u[:, None] * kernel * costs * v[None, :]).sum()


def make_signal(n: int, rng: np.random.Generator) -> Inputs:
    return {"x": rng.standard_normal(n)}


def wavelet_lifting(xp: Any, x: Any) -> Any:
    total = 0.0
    for _ in range(LEVELS):
        even, odd = x[0::2], x[1::2]
        detail = odd - 0.5 * (even + xp.concat([even[1:], even[-1:]]))
        x = even + 0.25 * (detail + xp.concat([detail[:1], detail[:-1]]))
        total = total + xp.abs(detail).sum()
    return total + (x * x).sum()


def make_clouds(n: int, rng: np.random.Generator) -> Inputs:
    return {
        "x": rng.standard_normal((n, DIMENSIONS)),
        "y": rng.standard_normal((n, DIMENSIONS)),
        "directions": rng.standard_normal((DIMENSIONS, DIRECTIONS)),
    }


def sliced_wasserstein(xp: Any, x: Any, y: Any, directions: Any) -> Any:
    def along(points: Any) -> Any:
        projected = points @ directions
        return xp.sort(projected, 0).values if xp.__name__ == "torch" else xp.sort(projected, axis=0)

    return ((along(x) - along(y)) ** 2).mean()


def make_rows(n: int, rng: np.random.Generator) -> Inputs:
    return {
        "w": rng.standard_normal(FEATURES),
        "x": rng.standard_normal((n, FEATURES)),
        "t": (rng.random(n) > 0.5).astype(float),
    }


def logistic_regression(xp: Any, w: Any, x: Any, t: Any) -> Any:
    z = x @ w
    return (xp.log1p(xp.exp(-xp.abs(z))) + xp.where(z > 0, z * (1 - t), -z * t)).mean()


def gradient(loss: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """The gradient of a loss in its first argument, beside an array library."""

    def function(xp: Any, p: Any) -> Any:
        return transforms_of(xp).grad(lambda *args: loss(xp, *args)), tuple(p.values())

    return function


def _workload(loss: Callable[..., Any], make: Any, sizes: tuple[int, int, int], size_is: str) -> Workload:
    return Workload(
        name=loss.__name__,
        sizes=sizes,
        size_is=size_is,
        draw=lambda rng: 64 * rng.integers(sizes[0] // 64, sizes[-1] // 64 + 1),
        make=make,
        run=every_way(gradient(loss)),
        target={"jax jit": 1.0, "torch": 1.0},
    )


WORKLOADS = (
    _workload(sinkhorn, make_costs, (64, 128, 448), "points"),
    _workload(wavelet_lifting, make_signal, (4096, 32_768, 262_144), "points"),
    _workload(sliced_wasserstein, make_clouds, (256, 512, 2048), "points"),
    _workload(logistic_regression, make_rows, (1024, 20_032, 200_000), "rows"),
)
