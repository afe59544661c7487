"""A derivative of a derivative that is zero: a ReLU network's gradient differentiated in x.

The network is piecewise linear, so d(gx)/dx is structurally zero. Timed: the network, gx with its
graph, and the gradient of gx.sum(). The parameters track gradients, as in training, but nobody
asks for theirs.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from benchmarks.workload import Call, Inputs, Workload

WIDTHS = (64, *[256] * 6, 1)
LAYERS = range(len(WIDTHS) - 1)


def make(batch: int, rng: np.random.Generator) -> Inputs:
    inputs = {"x": rng.standard_normal((batch, WIDTHS[0]), dtype=np.float32)}
    for i, (fan_in, fan_out) in enumerate(pairwise(WIDTHS)):
        scale = np.float32((2 / fan_in) ** 0.5)
        inputs[f"W{i}"] = scale * rng.standard_normal((fan_in, fan_out), dtype=np.float32)
        inputs[f"b{i}"] = np.float32(0.1) * rng.standard_normal(fan_out, dtype=np.float32)
    return inputs


def with_iverson(inputs: Inputs) -> Call:
    import iverson as iv
    from iverson.autograd import grad

    p = {name: iv.asarray(array, requires_grad=True) for name, array in inputs.items()}
    x = p["x"]

    def both() -> tuple[iv.Tensor, iv.Tensor]:
        y = x
        for i in LAYERS:
            y = y @ p[f"W{i}"] + p[f"b{i}"]
            if i != LAYERS[-1]:
                y = iv.relu(y)
        (gx,) = grad(y.sum(), [x], create_graph=True)
        (ggx,) = grad(gx.sum(), [x])
        return gx, ggx

    return both


def with_torch(inputs: Inputs) -> Call:
    import torch
    from torch.autograd import grad

    p = {name: torch.tensor(array, requires_grad=True) for name, array in inputs.items()}
    x = p["x"]

    def both() -> tuple[torch.Tensor, torch.Tensor]:
        y = x
        for i in LAYERS:
            y = torch.addmm(p[f"b{i}"], y, p[f"W{i}"])
            if i != LAYERS[-1]:
                y = y.relu()
        (gx,) = grad(y.sum(), [x], create_graph=True)
        (ggx,) = grad(gx.sum(), [x], materialize_grads=True)
        return gx, ggx

    return both


WORKLOADS = (
    Workload(
        name="second_derivative",
        sizes=(1000, 4000, 10_000),
        size_is="batch",
        draw=lambda rng: rng.integers(500, 10_001),
        make=make,
        run={"iverson": with_iverson, "torch": with_torch},
        kinked=True,
        target={"torch": 0.5},
    ),
)
