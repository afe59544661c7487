"""Equinox's example of a recurrent network (examples/train_rnn): which way does a spiral turn?

| JAX, Equinox, Optax | here |
| --- | --- |
| `class RNN(eqx.Module)` | `@iv.dataclasses.dataclass` |
| `eqx.nn.GRUCell` in `lax.scan` | `iv.nn.GRU`, which scans |
| `eqx.nn.Linear` | `iv.nn.Linear` |
| `jax.vmap(model)(x)` | `iv.vmap(model)(x)` |
| `@eqx.filter_value_and_grad`, `@eqx.filter_jit` | `@iv.value_and_grad`, `@iv.jit` |
| `optax.adam`, `optim.init`, `optim.update`, `eqx.apply_updates` | `iv.optim.adam`, the same methods |
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import iverson as iv
from iverson import nn, optim


@iv.dataclasses.dataclass
class RNN:
    """A recurrent cell over a sequence, and a linear map of its last state to a probability."""

    cell: nn.GRU
    linear: nn.Linear

    def __call__(self, input: Any) -> Any:
        _, hidden = self.cell(input)
        return iv.sigmoid(self.linear(hidden))[0]


def get_data(dataset_size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Spirals, shape (dataset_size, 16, 2); half of them turn the other way and are labelled 1."""
    t = np.linspace(0, 2 * math.pi, 16)
    offset = rng.uniform(0, 2 * math.pi, (dataset_size, 1))
    x1 = np.sin(t + offset) / (1 + t)
    x2 = np.cos(t + offset) / (1 + t)
    y = np.ones(dataset_size)

    half_dataset_size = dataset_size // 2
    x1[:half_dataset_size] *= -1
    y[:half_dataset_size] = 0
    return np.stack([x1, x2], axis=-1), y


@iv.value_and_grad
def compute_loss(model: RNN, x: Any, y: Any) -> Any:
    """The binary cross entropy of a batch."""
    pred_y = iv.vmap(model)(x)
    return -iv.mean(y * iv.log(pred_y) + (1 - y) * iv.log(1 - pred_y))


def run(
    dataset_size: int = 1000,
    batch_size: int = 32,
    learning_rate: float = 3e-3,
    steps: int = 200,
    hidden_size: int = 16,
) -> tuple[list[float], float]:
    """The course of the loss, and the accuracy in the end."""
    rng = iv.random.default_rng(5678)
    xs, ys = get_data(dataset_size, np.random.default_rng(0))
    iter_data = iv.data.batches((xs, ys), batch_size, rng)

    model = RNN(nn.GRU(2, hidden_size, rng=rng), nn.Linear(hidden_size, 1, rng=rng))
    optimizer = optim.adam(learning_rate)
    opt_state = optimizer.init(model)

    @iv.jit
    def make_step(model: RNN, x: Any, y: Any, opt_state: Any) -> Any:
        loss, grads = compute_loss(model, x, y)
        updates, opt_state = optimizer.update(grads, opt_state, model)
        model = optim.apply_updates(model, updates)
        return loss, model, opt_state

    losses: list[float] = []
    while len(losses) < steps:
        for x, y in iter_data:
            loss, model, opt_state = make_step(model, x, y, opt_state)
            losses.append(loss.item())

    pred_ys = iv.vmap(model)(xs)
    return losses, float(iv.mean((pred_ys > 0.5) == ys))


if __name__ == "__main__":
    losses, accuracy = run()
    print(f"loss {losses[-1]}, accuracy {accuracy}")
