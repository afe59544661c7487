"""Python loops over time in compiled functions: what nobody reads of them is not computed.

- compiled_lstm: the gradient in the inputs of an LSTM of 16 steps whose loss reads step 3, forward included.
- compiled_slices: the gradient of a sum over t of a function of x[t], with n steps.
"""

from __future__ import annotations

from typing import Any

from benchmarks.workload import Workload
from benchmarks.workloads.batches import every_way, transforms_of
from benchmarks.workloads.lstm_backward import READ, STEPS
from benchmarks.workloads.lstm_backward import make as make_lstm


def lstm(xp: Any, p: Any) -> Any:
    sigmoid = xp.sigmoid if hasattr(xp, "sigmoid") else __import__("jax").nn.sigmoid

    def loss(x: Any, h: Any, c: Any, W: Any, U: Any, b: Any) -> Any:
        hs, n = [], h.shape[1]
        for t in range(STEPS):
            z = x[t] @ W + h @ U + b
            i, f, o = (sigmoid(z[:, k * n : (k + 1) * n]) for k in range(3))
            c = f * c + i * xp.tanh(z[:, 3 * n :])
            h = o * xp.tanh(c)
            hs.append(h)
        return xp.stack(hs)[READ].sum()

    return transforms_of(xp).grad(loss), tuple(p[name] for name in "xhcWUb")


def slices(xp: Any, p: Any) -> Any:
    def loss(x: Any) -> Any:
        total = 0.0
        for t in range(x.shape[0]):
            total = total + (xp.tanh(x[t]) * x[t]).sum()
        return total

    return transforms_of(xp).grad(loss), (p["x"],)


WORKLOADS = (
    Workload(
        name="compiled_lstm",
        sizes=(64, 128, 256),
        size_is="hidden",
        draw=lambda rng: rng.integers(32, 257),
        make=make_lstm,
        run=every_way(lstm),
        target={"torch": 0.5, "jax jit": 0.5},
    ),
    Workload(
        name="compiled_slices",
        sizes=(32, 64, 128),
        size_is="steps",
        draw=lambda rng: rng.integers(20, 100),
        make=lambda n, rng: {"x": rng.standard_normal((n, 20_000))},
        run=every_way(slices),
        target={"torch": 0.05, "jax jit": 0.05},
    ),
)
