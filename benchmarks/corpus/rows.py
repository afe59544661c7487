"""What a row of the corpus is: a kernel of `tests.te.corpus`, sizes to measure it at, and its peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.expressions import Op
from benchmarks.workload import Inputs

Drawn = Callable[[np.random.Generator], np.ndarray]
Shapes = Mapping[str, tuple[int, ...] | Drawn]


def row(
    name: str,
    size_is: str,
    sizes: tuple[int, int, int],
    inputs: Callable[[int], Shapes],
    torch: Callable[..., Any],
    jax: Callable[..., Any],
    *,
    least: int = 0,
    **more: Any,
) -> Op:
    """A kernel at sizes; ``inputs`` gives shapes of normal numbers, or what draws others.

    least : the smallest size that may be drawn (default: the smallest of the three).
    """

    def make(n: int, rng: np.random.Generator) -> Inputs:
        return {
            k: s(rng) if callable(s) else rng.standard_normal(s, dtype=np.float32)
            for k, s in inputs(n).items()
        }

    def define(**given: Any) -> Any:
        from tests.te.corpus import KERNELS

        found = KERNELS[name].define(**given)
        return found[0] if isinstance(found, tuple) else found

    return Op(
        name=f"te_{name}",
        sizes=sizes,
        size_is=size_is,
        draw=lambda rng: rng.integers(least or sizes[0], sizes[2] + 1),
        make=make,
        define=define,
        torch=torch,
        jax=jax,
        **more,
    )


def uniform(*shape: int, low: float = 0.0, high: float = 1.0) -> Drawn:
    """Between two bounds."""
    return lambda rng: rng.uniform(low, high, shape).astype(np.float32)


def scaled(by: float, *shape: int) -> Drawn:
    """Normal, times a factor."""
    return lambda rng: rng.standard_normal(shape, dtype=np.float32) * np.float32(by)


def indices(n: int, *shape: int) -> Drawn:
    """Below n."""
    return lambda rng: rng.integers(0, n, shape)


def starts(rows: int, entries: int) -> Drawn:
    """Where each of so many rows of entries starts, and their end."""
    return lambda rng: np.sort(np.concatenate([[0], rng.integers(0, entries, rows - 1), [entries]]))


def either(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """The same composition in both: its first argument is torch or jax.numpy."""

    def with_torch(**given: Any) -> Any:
        import torch

        return function(torch, **given)

    def with_jax(**given: Any) -> Any:
        import jax.numpy as jnp

        return function(jnp, **given)

    return {"torch": with_torch, "jax": with_jax}
