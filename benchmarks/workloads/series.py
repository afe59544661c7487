"""Derivatives of high order, and operators of differential equations, of networks on 64 points.

- jet: all derivatives to an order along one direction, of a tanh network; also by nested gradients.
- laplacian: of a network of silu in 3, 30 and 120 variables. laplacian_particles: of features of each of n
  particles in 3 dimensions. laplacian_training: the gradient of its square in the parameters.
- biharmonic: of a network of tanh; also by nested Laplacians.

``folx`` is timed where it is installed (it needs jaxtyping).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Call, Inputs, UnavailableError, Workload

POINTS, WIDTH = 64, 64
#: The layers of each network.
LAYERS = ("W0", "W1", "W2")


def weights(rng: np.random.Generator, first: int) -> dict[str, np.ndarray]:
    shapes = ((first, WIDTH), (WIDTH, WIDTH), (WIDTH, 1))
    return {name: rng.standard_normal(s) / s[0] ** 0.5 for name, s in zip(LAYERS, shapes, strict=True)}


def make_order(order: int, rng: np.random.Generator) -> Inputs:
    return {"x": rng.standard_normal((POINTS, 4)), "order": np.array(order), **weights(rng, 4)}


def make_points(d: int, rng: np.random.Generator) -> Inputs:
    return {"x": rng.standard_normal((POINTS, d)), **weights(rng, d)}


def make_particles(n: int, rng: np.random.Generator) -> Inputs:
    return {"x": rng.standard_normal((POINTS, n, 3)), **weights(rng, 3)}


def network(activation: Callable[[Any], Any], p: Any) -> Callable[[Any], Any]:
    """The sum of the outputs, for one point, or of one of many particles."""

    def f(x: Any) -> Any:
        for name in LAYERS[:-1]:
            x = activation(x @ p[name])
        return (x @ p[LAYERS[-1]]).sum()

    return f


def parameters(library: Any, inputs: Inputs) -> dict[str, Any]:
    return {name: library.asarray(inputs[name]) for name in LAYERS}


def iverson_jet(inputs: Inputs) -> Call:
    import iverson as iv

    p, x, order = parameters(iv, inputs), iv.asarray(inputs["x"]), int(inputs["order"])
    f = iv.jit(lambda p, x: iv.derivatives(network(iv.tanh, p), order, direction=iv.ones(x.shape))(x)[order])
    return lambda: f(p, x)


def iverson_nested(inputs: Inputs) -> Call:
    import iverson as iv

    p, x, order = parameters(iv, inputs), iv.asarray(inputs["x"]), int(inputs["order"])
    if order > 6:
        raise UnavailableError("nested gradients of so high an order take minutes to compile")

    def along(p: Any, x: Any) -> Any:
        f = lambda t: network(iv.tanh, p)(x + t)
        for _ in range(order):
            f = iv.grad(f)
        return f(iv.asarray(0.0))

    f = iv.jit(along)
    return lambda: f(p, x)


def jax_jet(inputs: Inputs) -> Call:
    import jax
    import jax.numpy as jnp
    from jax.experimental.jet import jet

    p, x, order = parameters(jnp, inputs), jnp.asarray(inputs["x"]), int(inputs["order"])

    @jax.jit
    def along(p: Any, x: Any) -> Any:
        series = [jnp.ones(x.shape), *[jnp.zeros(x.shape)] * (order - 1)]
        _, terms = jet(network(jnp.tanh, p), (x,), (series,), factorial_scaled=False)
        return terms[-1] * math.factorial(order)

    return lambda: along(p, x)


def iverson_laplacian(inputs: Inputs) -> Call:
    import iverson as iv

    p, x = parameters(iv, inputs), iv.asarray(inputs["x"])
    f = iv.jit(lambda p, x: iv.vmap(iv.laplacian(network(iv.nn.silu, p)))(x)[1])
    return lambda: f(p, x)


def iverson_hessian(inputs: Inputs) -> Call:
    import iverson as iv

    p, x = parameters(iv, inputs), iv.asarray(inputs["x"])

    def trace(p: Any, x: Any) -> Any:
        hessian = iv.hessian(network(iv.nn.silu, p))(x)
        return iv.linalg.trace(iv.reshape(hessian, (x.size, x.size)))

    f = iv.jit(iv.vmap(trace, (None, 0)))
    return lambda: f(p, x)


def jax_hessian(inputs: Inputs) -> Call:
    import jax
    import jax.numpy as jnp

    p, x = parameters(jnp, inputs), jnp.asarray(inputs["x"])

    def trace(p: Any, x: Any) -> Any:
        hessian = jax.hessian(network(jax.nn.silu, p))(x)
        return jnp.trace(hessian.reshape(x.size, x.size))

    f = jax.jit(jax.vmap(trace, (None, 0)))
    return lambda: f(p, x)


def folx_laplacian(sparsity: int) -> Callable[[Inputs], Call]:
    def run(inputs: Inputs) -> Call:
        import folx
        import jax
        import jax.numpy as jnp

        p, x = parameters(jnp, inputs), jnp.asarray(inputs["x"])

        def laplacian(p: Any, x: Any) -> Any:
            f = folx.forward_laplacian(network(jax.nn.silu, p), sparsity_threshold=sparsity)
            return f(x).laplacian

        f = jax.jit(jax.vmap(laplacian, (None, 0)))
        return lambda: f(p, x)

    return run


def torch_hessian(inputs: Inputs) -> Call:
    import torch

    p, x = parameters(torch, inputs), torch.asarray(inputs["x"])

    def trace(x: Any) -> Any:
        hessian = torch.func.hessian(network(torch.nn.functional.silu, p))(x)
        return hessian.reshape(x.numel(), x.numel()).diagonal().sum()

    f = torch.func.vmap(trace)
    return lambda: f(x)


def iverson_training(inputs: Inputs) -> Call:
    import iverson as iv

    p, x = parameters(iv, inputs), iv.asarray(inputs["x"])
    loss = lambda p, x: (iv.vmap(iv.laplacian(network(iv.nn.silu, p)))(x)[1] ** 2).mean()
    f = iv.jit(iv.grad(loss))
    return lambda: list(f(p, x).values())


def folx_training(inputs: Inputs) -> Call:
    import folx
    import jax
    import jax.numpy as jnp

    p, x = parameters(jnp, inputs), jnp.asarray(inputs["x"])

    def loss(p: Any, x: Any) -> Any:
        each = lambda x: folx.forward_laplacian(network(jax.nn.silu, p))(x).laplacian
        return (jax.vmap(each)(x) ** 2).mean()

    f = jax.jit(jax.grad(loss))
    return lambda: list(f(p, x).values())


def jax_training(inputs: Inputs) -> Call:
    import jax
    import jax.numpy as jnp

    p, x = parameters(jnp, inputs), jnp.asarray(inputs["x"])

    def loss(p: Any, x: Any) -> Any:
        each = lambda x: jnp.trace(jax.hessian(network(jax.nn.silu, p))(x))
        return (jax.vmap(each)(x) ** 2).mean()

    f = jax.jit(jax.grad(loss))
    return lambda: list(f(p, x).values())


def iverson_biharmonic(inputs: Inputs) -> Call:
    import iverson as iv

    p, x = parameters(iv, inputs), iv.asarray(inputs["x"])
    f = iv.jit(lambda p, x: iv.vmap(iv.biharmonic(network(iv.tanh, p)))(x))
    return lambda: f(p, x)


def iverson_laplacians(inputs: Inputs) -> Call:
    import iverson as iv

    def twice(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: iv.laplacian(lambda x: iv.laplacian(f)(x)[1])(x)[1]

    p, x = parameters(iv, inputs), iv.asarray(inputs["x"])
    f = iv.jit(lambda p, x: iv.vmap(twice(network(iv.tanh, p)))(x))
    return lambda: f(p, x)


def jax_biharmonic(inputs: Inputs) -> Call:
    import jax
    import jax.numpy as jnp

    p, x = parameters(jnp, inputs), jnp.asarray(inputs["x"])
    trace = lambda f: lambda x: jnp.trace(jax.hessian(f)(x))
    f = jax.jit(lambda p, x: jax.vmap(trace(trace(network(jnp.tanh, p))))(x))
    return lambda: f(p, x)


WORKLOADS = (
    Workload(
        name="jet",
        sizes=(2, 4, 6, 8),
        size_is="order",
        draw=lambda rng: rng.integers(3, 8),
        make=make_order,
        run={"iverson": iverson_jet, "iverson nested": iverson_nested, "jax": jax_jet},
        part=frozenset({"iverson nested"}),
        target={"jax": 1.0},
    ),
    Workload(
        name="laplacian",
        sizes=(3, 30, 120),
        size_is="variables",
        draw=lambda rng: rng.integers(2, 60),
        make=make_points,
        run={
            "iverson": iverson_laplacian,
            "jax": jax_hessian,
            "torch": torch_hessian,
            "folx": folx_laplacian(0),
        },
        target={"jax": 0.5, "torch": 0.5, "folx": 0.8},
    ),
    Workload(
        name="laplacian_particles",
        sizes=(5, 10, 20),
        size_is="particles",
        draw=lambda rng: rng.integers(4, 24),
        make=make_particles,
        run={
            "iverson": iverson_laplacian,
            "iverson hessian": iverson_hessian,
            "jax": jax_hessian,
            "folx": folx_laplacian(6),
        },
        part=frozenset({"iverson hessian"}),
        target={"jax": 0.5, "folx": 0.8},
    ),
    Workload(
        name="laplacian_training",
        sizes=(3, 10, 30),
        size_is="variables",
        draw=lambda rng: rng.integers(2, 20),
        make=make_points,
        run={"iverson": iverson_training, "jax": jax_training, "folx": folx_training},
        target={"folx": 1.0},
    ),
    Workload(
        name="biharmonic",
        sizes=(2, 4, 8),
        size_is="variables",
        draw=lambda rng: rng.integers(2, 8),
        make=make_points,
        run={"iverson": iverson_biharmonic, "iverson nested": iverson_laplacians, "jax": jax_biharmonic},
        part=frozenset({"iverson nested"}),
        target={"jax": 0.5, "iverson nested": 0.7},
    ),
)
