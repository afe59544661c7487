"""The backward pass of an LSTM whose loss reads step 3 of 16: twelve steps get no gradient.

Timed is the gradient to the inputs alone; the graph is built beforehand. The parameters track
gradients, as in training, but nobody asks for theirs. The initial state is a constant.
"""

from __future__ import annotations

import numpy as np

from benchmarks.workload import Call, Inputs, Workload

STEPS, READ, BATCH = 16, 3, 32


def make(hidden: int, rng: np.random.Generator) -> Inputs:
    shapes = {
        "x": (STEPS, BATCH, hidden),
        "h": (BATCH, hidden),
        "c": (BATCH, hidden),
        "W": (hidden, 4 * hidden),
        "U": (hidden, 4 * hidden),
        "b": (4 * hidden,),
    }
    scale = {"W": hidden**-0.5, "U": hidden**-0.5}
    return {
        name: np.float32(scale.get(name, 1)) * rng.standard_normal(shape, dtype=np.float32)
        for name, shape in shapes.items()
    }


def with_iverson(inputs: Inputs) -> Call:
    import iverson as iv
    from iverson.autograd import grad

    x, W, U, b = (iv.asarray(inputs[name], requires_grad=True) for name in "xWUb")
    h, c = iv.asarray(inputs["h"]), iv.asarray(inputs["c"])
    n = h.shape[1]
    hs = []
    for t in range(STEPS):
        z = x[t] @ W + h @ U + b
        i, f, o = (iv.sigmoid(z[:, k * n : (k + 1) * n]) for k in range(3))
        c = f * c + i * iv.tanh(z[:, 3 * n :])
        h = o * iv.tanh(c)
        hs.append(h)
    loss = iv.stack(hs)[READ].sum()
    return lambda: grad(loss, [x])


def with_torch(inputs: Inputs) -> Call:
    import torch
    from torch.autograd import grad

    x, W, U, b = (torch.tensor(inputs[name], requires_grad=True) for name in "xWUb")
    h, c = torch.tensor(inputs["h"]), torch.tensor(inputs["c"])
    hs = []
    for t in range(STEPS):
        z = x[t] @ W + h @ U + b
        i, f, o, g = z.chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        hs.append(h)
    loss = torch.stack(hs)[READ].sum()
    return lambda: grad(loss, [x], retain_graph=True)


WORKLOADS = (
    Workload(
        name="lstm_backward",
        sizes=(64, 128, 256),
        size_is="hidden",
        draw=lambda rng: rng.integers(32, 257),
        make=make,
        run={"iverson": with_iverson, "torch": with_torch},
        target={"torch": 0.5},
    ),
)
