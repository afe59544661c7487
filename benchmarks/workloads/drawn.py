"""Programs that nobody chose: each is drawn by its number, and measured with its gradients.

A program is a chain of products, elementwise functions, reductions, gathers, sums of segments and recurrences
over matrices of n rows and 32 columns, float32. It is written once, over the names of a library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Workload
from benchmarks.workloads.batches import every_way, transforms_of
from benchmarks.workloads.factorisations import scan_of

PROGRAMS, STEPS, WIDTH, WEIGHTS = 24, 8, 32, 3


def make(n: int, rng: np.random.Generator) -> Inputs:
    weights = rng.standard_normal((WEIGHTS, WIDTH, WIDTH), dtype=np.float32) / WIDTH**0.5
    return {
        "x": rng.standard_normal((n, WIDTH), dtype=np.float32),
        "weights": weights.astype(np.float32),
        "places": rng.integers(0, n, n),
        "segments": np.sort(rng.integers(0, n, n)),
    }


def segment_sum(xp: Any, a: Any, segments: Any) -> Any:
    if xp.__name__ == "torch":
        return xp.zeros_like(a).index_add(0, segments, a)
    if xp.__name__ == "jax.numpy":
        return __import__("jax").ops.segment_sum(a, segments, a.shape[0])
    return xp.segment_sum(a, segments, num_segments=a.shape[0])


def step(xp: Any, kind: int, k: int, a: Any, b: Any, p: Any) -> Any:
    """A matrix of the shape of ``a`` and ``b``, from these."""
    along = "dim" if xp.__name__ == "torch" else "axis"
    if kind == 0:
        return a @ p["weights"][k % WEIGHTS]
    if kind == 1:
        return (xp.tanh(a), xp.sin(a), xp.exp(-a * a), a * xp.tanh(a / 2))[k % 4]
    if kind == 2:
        return (a * b + a, xp.maximum(a, b), a / (1.5 + b * b))[k % 3]
    if kind == 3:
        return a[p["places"]]
    if kind == 4:
        return segment_sum(xp, a, p["segments"])
    if kind == 5:
        powers = xp.exp(xp.tanh(a))
        return powers / xp.sum(powers, **{along: 1})[:, None] if k % 2 else a - xp.mean(a, **{along: 0})
    if kind == 6:
        return scan_of(xp)(lambda h, row: (0.5 * xp.tanh(h) + row, (h,)), a[0], a)[1][0]
    return b @ (a.T @ b) / a.shape[0]


def program(number: int) -> Callable[[Any, Any], Any]:
    """The value of a program and its gradients for x and the weights."""
    plan = np.random.default_rng([number, 35]).integers(0, 1 << 20, (STEPS, 4)).tolist()

    def ready(xp: Any, p: Any) -> Any:
        def loss(x: Any, weights: Any, places: Any, segments: Any) -> Any:
            made, names = [x], {"weights": weights, "places": places, "segments": segments}
            for kind, k, first, second in plan:
                a, b = made[-1 - first % min(len(made), 2)], made[second % len(made)]
                made.append(step(xp, kind % 8, k, a, b, names))
            return xp.mean(xp.tanh(made[-1]) * xp.sin(made[-2]))

        both = transforms_of(xp).grad(loss, (0, 1))
        return both, (p["x"], p["weights"], p["places"], p["segments"])

    return ready


WORKLOADS = tuple(
    Workload(
        name=f"drawn_program_{number}",
        sizes=(64, 512, 4096),
        size_is="rows",
        draw=lambda rng: rng.integers(65, 4000),
        make=make,
        run=every_way(program(number)),
        group="drawn",
    )
    for number in range(PROGRAMS)
)
