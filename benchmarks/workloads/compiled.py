"""Whole functions compiled: training steps, a chain of elementwise functions, one call.

- training_step: forward, backward and update of a classifier with two hidden layers of n units, float32, a
  batch of 64 (up to 64 units) or 128.
- elementwise_chain: ten functions of n entries, float64.
- scalar_call: the same of one entry: what a call costs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.workload import Call, Inputs, Workload
from benchmarks.workloads.batches import every_way

RATE = 0.1


def make_classifier(hidden: int, rng: np.random.Generator) -> Inputs:
    inputs, batch = (64, 64) if hidden <= 64 else (784, 128)
    widths = (inputs, hidden, hidden, 10)
    arrays: dict[str, np.ndarray] = {}
    for k, (a, b) in enumerate(pairwise(widths)):
        arrays[f"W{k}"] = (rng.standard_normal((a, b)) / a**0.5).astype(np.float32)
        arrays[f"b{k}"] = np.zeros(b, np.float32)
    arrays["x"] = rng.standard_normal((batch, inputs), dtype=np.float32)
    arrays["t"] = np.eye(10, dtype=np.float32)[rng.integers(0, 10, batch)]
    return arrays


def classifier_loss(xp: Any) -> Callable[..., Any]:
    def loss(w0: Any, b0: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any, t: Any) -> Any:
        h = xp.maximum(x @ w0 + b0, 0 * b0)
        z = xp.maximum(h @ w1 + b1, 0 * b1) @ w2 + b2
        shifted = z - (z.amax(1) if xp.__name__ == "torch" else z.max(axis=1))[:, None]
        return (xp.log(xp.exp(shifted).sum(axis=1)) - (shifted * t).sum(axis=1)).mean()

    return loss


def training_step(xp: Any, p: Any) -> Any:
    """Returns the updated weights."""
    loss, places = classifier_loss(xp), tuple(range(6))
    if xp.__name__ == "torch":
        both: Any = xp.func.grad(loss, places)
    else:
        module = __import__("jax") if xp.__name__ == "jax.numpy" else xp
        both = module.grad(loss, places)

    def step(*args: Any) -> Any:
        return tuple(w - np.float32(RATE) * g for w, g in zip(args[:6], both(*args), strict=True))

    return step, tuple(p.values())


def torch_step(inputs: Inputs) -> Call:
    """As its users write it: parameters, backward, an optimizer."""
    import torch

    tensors = {name: torch.tensor(array) for name, array in inputs.items()}
    weights = [t.requires_grad_() for name, t in tensors.items() if name not in "xt"]
    loss = classifier_loss(torch)

    def step() -> Any:
        gradients = torch.autograd.grad(loss(*weights, tensors["x"], tensors["t"]), weights)
        with torch.no_grad():
            return [w - RATE * g for w, g in zip(weights, gradients, strict=True)]

    return step


def chain(xp: Any, p: Any) -> Any:
    def f(x: Any) -> Any:
        y = (x * 2 + 1) * x - 3
        return xp.sin(y * x + x * x) * x

    return f, (p["x"],)


WORKLOADS = (
    Workload(
        name="compiled_training_step",
        sizes=(64, 256, 512),
        size_is="hidden",
        draw=lambda rng: rng.integers(65, 400),
        make=make_classifier,
        run={**every_way(training_step), "torch": torch_step},
        target={"jax jit": 0.8, "torch": 0.8},
    ),
    Workload(
        name="compiled_elementwise_chain",
        sizes=(10_000, 1_000_000, 10_000_000),
        size_is="entries",
        draw=lambda rng: rng.integers(20_000, 500_000),
        make=lambda n, rng: {"x": rng.standard_normal(n)},
        run=every_way(chain),
        target={"jax jit": 1.05},
    ),
    Workload(
        name="compiled_scalar_call",
        sizes=(1, 2, 3),
        size_is="entries",
        draw=lambda rng: rng.integers(4, 9),
        make=lambda n, rng: {"x": rng.standard_normal(n)},
        run=every_way(chain),
        target={"jax jit": 1.5},
    ),
)
