"""One training step of a small classifier: 64-128-64-10, ReLU, SGD with momentum.

The inputs have the shape and range of scikit-learn's digits; the labels are random.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from benchmarks.workload import Call, Inputs, Workload

WIDTHS = (64, 128, 64, 10)
LR, MOMENTUM = 0.01, 0.9


def make(batch: int, rng: np.random.Generator) -> Inputs:
    inputs = {
        "x": rng.integers(0, 17, (batch, WIDTHS[0])).astype(np.float32) / 16,
        "labels": rng.integers(0, WIDTHS[-1], batch),
    }
    for i, (fan_in, fan_out) in enumerate(pairwise(WIDTHS)):
        scale = np.float32((2 / fan_in) ** 0.5)
        inputs[f"W{i}"] = scale * rng.standard_normal((fan_in, fan_out), dtype=np.float32)
        inputs[f"b{i}"] = np.zeros(fan_out, np.float32)
    return inputs


def parameter_names() -> list[str]:
    return [f"{kind}{i}" for i in range(len(WIDTHS) - 1) for kind in "Wb"]


def with_iverson(inputs: Inputs) -> Call:
    import iverson as iv
    from iverson.optim import SGD

    x, labels = iv.asarray(inputs["x"]), iv.asarray(inputs["labels"])
    parameters = [iv.asarray(inputs[n].copy(), requires_grad=True) for n in parameter_names()]
    optimizer = SGD(parameters, lr=LR, momentum=MOMENTUM)

    def step() -> list[iv.Tensor]:
        W0, b0, W1, b1, W2, b2 = parameters
        h = iv.relu(x @ W0 + b0)
        h = iv.relu(h @ W1 + b1)
        loss = iv.cross_entropy(h @ W2 + b2, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return [loss, *parameters]

    return step


def with_torch(inputs: Inputs) -> Call:
    import torch
    from torch.nn.functional import cross_entropy

    x, labels = torch.tensor(inputs["x"]), torch.tensor(inputs["labels"])
    parameters = [torch.tensor(inputs[n], requires_grad=True) for n in parameter_names()]
    optimizer = torch.optim.SGD(parameters, lr=LR, momentum=MOMENTUM)

    def step() -> list[torch.Tensor]:
        W0, b0, W1, b1, W2, b2 = parameters
        h = torch.addmm(b0, x, W0).relu()
        h = torch.addmm(b1, h, W1).relu()
        loss = cross_entropy(torch.addmm(b2, h, W2), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return [loss, *parameters]

    return step


WORKLOADS = (
    Workload(
        name="digits_step",
        sizes=(64, 128, 256),
        size_is="batch",
        draw=lambda rng: rng.integers(32, 513),
        make=make,
        run={"iverson": with_iverson, "torch": with_torch},
        target={"torch": 1.0},
    ),
)
