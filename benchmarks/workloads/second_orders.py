"""Second derivatives of a network in its input, compiled: n points, 6 hidden layers of 256 units, 2 inputs.

- compiled_second_relu, ..._tanh: by two gradients; ..._squared, of the squared output; ..._backward, with the
  gradient of its sum of squares in all weights (for ReLU of the squared output: its own is zero).
- compiled_hessian_tanh: the Hessian of each point; ..._backward, with that gradient.
- compiled_wide_tanh: as compiled_second_tanh, with 512 units and 256 inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Workload
from benchmarks.workloads.batches import every_way, transforms_of


def make_network(points: int, rng: np.random.Generator, inputs: int = 2, hidden: int = 256) -> Inputs:
    widths = (inputs, *(hidden,) * 6, 1)
    weights = {
        f"W{k}": rng.standard_normal((a, b)) * (2 / a) ** 0.5 for k, (a, b) in enumerate(pairwise(widths))
    }
    return {**weights, "x": rng.standard_normal((points, inputs))}


def network(xp: Any, kind: str, squared: bool) -> Callable[..., Any]:
    def f(x: Any, *weights: Any) -> Any:
        for w in weights[:-1]:
            x = x @ w
            x = xp.tanh(x) if kind == "tanh" else xp.maximum(x, 0 * x)
        y = x @ weights[-1]
        return (y**2).sum() if squared else y.sum()

    return f


def by_two_gradients(kind: str, squared: bool, xp: Any, p: Any) -> Any:
    return _second(xp, kind, squared), _arguments(p)


def _second(xp: Any, kind: str, squared: bool) -> Callable[..., Any]:
    grad = transforms_of(xp).grad

    def first(x: Any, *weights: Any) -> Any:
        return grad(network(xp, kind, squared))(x, *weights).sum()

    return grad(first)  # type: ignore[no-any-return]


def hessians(kind: str, xp: Any, p: Any) -> Any:
    return _hessian(xp, kind), _arguments(p)


def _hessian(xp: Any, kind: str) -> Callable[..., Any]:
    t = transforms_of(xp)
    weights = 7
    return t.vmap(t.hessian(network(xp, kind, False)), (0, *(None,) * weights))  # type: ignore[no-any-return]


def with_backward(of: Callable[[Any], Callable[..., Any]], xp: Any, p: Any) -> Any:
    """What ``of`` gives, and the gradient of its sum of squares in all weights."""

    def loss(x: Any, *weights: Any) -> Any:
        return (of(xp)(x, *weights) ** 2).sum()

    arguments = _arguments(p)
    return transforms_of(xp).grad(loss, tuple(range(1, len(arguments)))), arguments


def _arguments(p: Any) -> tuple[Any, ...]:
    *weights, x = p.values()
    return (x, *weights)


def _workload(
    name: str,
    function: Any,
    target: dict[str, float],
    sizes: tuple[int, int, int] = (500, 2000, 10000),
    **more: Any,
) -> Workload:
    return Workload(
        name=f"compiled_{name}",
        sizes=sizes,
        size_is="points",
        draw=lambda rng: rng.integers(sizes[0] // 4, sizes[1]),
        make=partial(make_network, **more),
        run=every_way(function),
        kinked="relu" in name,
        target=target,
    )


RELU = {"jax jit": 1.0}
TANH = {"jax jit": 1.1, "torch": 0.5}

WORKLOADS = (
    _workload("second_relu", partial(by_two_gradients, "relu", False), {**RELU, "torch": 0.3}),
    _workload("second_relu_squared", partial(by_two_gradients, "relu", True), {**RELU, "torch": 0.35}),
    _workload(
        "second_relu_backward",
        partial(with_backward, partial(_second, kind="relu", squared=True)),
        {**RELU, "torch": 0.45},
    ),
    _workload("second_tanh", partial(by_two_gradients, "tanh", False), TANH),
    _workload("second_tanh_squared", partial(by_two_gradients, "tanh", True), TANH),
    _workload(
        "second_tanh_backward", partial(with_backward, partial(_second, kind="tanh", squared=False)), TANH
    ),
    _workload(
        "wide_tanh", partial(by_two_gradients, "tanh", False), TANH, (100, 500, 2000), inputs=256, hidden=512
    ),
    _workload("hessian_tanh", partial(hessians, "tanh"), {"jax jit": 1.0, "torch": 1.0}, (100, 500, 2000)),
    _workload(
        "hessian_tanh_backward",
        partial(with_backward, partial(_hessian, kind="tanh")),
        {"jax jit": 1.0, "torch": 1.0},
        (100, 500, 2000),
    ),
)
