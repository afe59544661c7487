"""Derivatives of many: per-sample gradients, a Hessian and a Jacobian, by `vmap` and what is made of it.

- per_sample_gradients: of the loss of a 64-64-10 tanh network, one gradient of all weights for each sample.
- hessian: of a function of n inputs that couples all of them, sum(log(cosh(A x))) + sum(x^4).
- stencil_jacobian: of one step of a reaction and diffusion on a line of n points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Call, Inputs, Workload

WIDTHS = (64, 64, 10)


def make_samples(batch: int, rng: np.random.Generator) -> Inputs:
    a, b, c = WIDTHS
    return {
        "W0": rng.standard_normal((a, b)) / 8,
        "W1": rng.standard_normal((b, c)) / 8,
        "x": rng.standard_normal((batch, a)),
        "t": np.eye(c)[rng.integers(0, c, batch)],
    }


def loss(xp: Any) -> Callable[..., Any]:
    """The cross entropy of one sample, in a library that has these functions."""

    def f(w0: Any, w1: Any, x: Any, t: Any) -> Any:
        z = xp.tanh(x @ w0) @ w1
        return xp.log(xp.exp(z).sum()) - (z * t).sum()

    return f


def make_vector(n: int, rng: np.random.Generator) -> Inputs:
    return {"A": rng.standard_normal((n, n)) / n**0.5, "x": rng.standard_normal(n)}


def coupled(xp: Any, a: Any) -> Callable[[Any], Any]:
    return lambda x: xp.log(xp.cosh(a @ x)).sum() + (x**4).sum()


def stencil(xp: Any) -> Callable[[Any], Any]:
    def step(u: Any) -> Any:
        inner = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]) + 0.01 * xp.tanh(u[1:-1])
        return inner * u[1:-1]

    return step


def iverson_of(
    function: Callable[[Any, Any], Callable[..., Any]], compiled: bool
) -> Callable[[Inputs], Call]:
    def run(inputs: Inputs) -> Call:
        import iverson as iv

        p = {name: iv.asarray(array) for name, array in inputs.items()}
        f, args = function(iv, p)
        f = iv.jit(f) if compiled else f
        return lambda: f(*args)

    return run


def torch_of(function: Callable[[Any, Any], Callable[..., Any]]) -> Callable[[Inputs], Call]:
    def run(inputs: Inputs) -> Call:
        import torch

        f, args = function(torch, {name: torch.tensor(array) for name, array in inputs.items()})
        return lambda: f(*args)

    return run


def jax_of(function: Callable[[Any, Any], Callable[..., Any]]) -> Callable[[Inputs], Call]:
    def run(inputs: Inputs) -> Call:
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        f, args = function(jnp, {name: jnp.asarray(array) for name, array in inputs.items()})
        f = jax.jit(f)
        return lambda: jax.block_until_ready(f(*args))

    return run


def every_way(function: Callable[[Any, Any], Callable[..., Any]]) -> dict[str, Callable[[Inputs], Call]]:
    """What is measured of a function that is compiled: that, and what it is compared with."""
    return {
        "iverson": iverson_of(function, compiled=True),
        "iverson eager": iverson_of(function, compiled=False),
        "torch": torch_of(function),
        "jax jit": jax_of(function),
    }


def transforms_of(xp: Any) -> Any:
    """The module with ``vmap``, ``grad`` and so on beside an array library."""
    if xp.__name__ == "torch":
        return xp.func
    if xp.__name__ == "jax.numpy":
        import jax

        return jax
    return xp


def per_sample(xp: Any, p: Any) -> Any:
    t = transforms_of(xp)
    g = t.grad(loss(xp), (0, 1))
    return t.vmap(g, (None, None, 0, 0)), (p["W0"], p["W1"], p["x"], p["t"])


def hessian(xp: Any, p: Any) -> Any:
    return transforms_of(xp).hessian(coupled(xp, p["A"])), (p["x"],)


def jacobian(xp: Any, p: Any) -> Any:
    t = transforms_of(xp)
    return (t.jacobian if hasattr(t, "jacobian") else t.jacrev)(stencil(xp)), (p["x"],)


def _workload(name: str, function: Any, make: Any, sizes: tuple[int, int, int], size_is: str) -> Workload:
    return Workload(
        name=name,
        sizes=sizes,
        size_is=size_is,
        draw=lambda rng: rng.integers(sizes[0], sizes[-1] + 1),
        make=make,
        run={
            "iverson": iverson_of(function, compiled=False),
            "iverson jit": iverson_of(function, compiled=True),
            "torch func": torch_of(function),
            "jax jit": jax_of(function),
        },
        target={"torch func": 1.0},
    )


WORKLOADS = (
    _workload("per_sample_gradients", per_sample, make_samples, (32, 256, 512), "samples"),
    _workload("hessian", hessian, make_vector, (50, 200, 400), "inputs"),
    _workload("stencil_jacobian", jacobian, make_vector, (50, 200, 400), "points"),
)
