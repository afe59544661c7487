"""Whole training steps of models beyond the multilayer perceptron: forward, backward and update, float32.

- train_convnet: two convolutions, each with ReLU and a 2 x 2 maximum, and a dense layer; a batch of 64
  square images.
- train_transformer: one block, width 128, 4 heads, batch 8, over sequences of n.
- train_graph_attention: one layer of attention over the edges of a graph of n nodes, 8 edges a node, of
  width 32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.workload import Call, Inputs, UnavailableError, Workload

RATE = np.float32(0.01)
WIDTH, HEADS = 128, 4
Loss = Callable[[Any, Sequence[Any], Sequence[Any]], Any]
"""From a library's functions (`library`), the weights and the data to a number."""


@cache
def library(name: str) -> SimpleNamespace:
    """What the models use of a library, under one set of names."""
    return {"iverson": _iverson, "torch": _torch, "bridged": _bridged, "jax": _jax}[name]()


def _iverson() -> SimpleNamespace:
    import iverson as iv
    from iverson import te

    @te.op
    def conv(x: Any, w: Any) -> Any:
        c, i, j = (te.reduce_axis((0, n)) for n in w.shape[1:])
        shape = (x.shape[0], w.shape[0], x.shape[2] - 2, x.shape[3] - 2)
        return te.compute(
            shape, lambda b, f, y, z: te.sum(x[b, c, y + i, z + j] * w[f, c, i, j], axis=[c, i, j])
        )

    @te.op
    def pool(x: Any) -> Any:
        i, j = te.reduce_axis((0, 2)), te.reduce_axis((0, 2))
        shape = (x.shape[0], x.shape[1], x.shape[2] // 2, x.shape[3] // 2)
        return te.compute(shape, lambda b, f, y, z: te.max(x[b, f, 2 * y + i, 2 * z + j], axis=[i, j]))

    return SimpleNamespace(
        conv=conv,
        pool=pool,
        relu=iv.relu,
        gelu=iv.gelu,
        sqrt=iv.sqrt,
        take=lambda x, i: iv.take(x, i, axis=0),
        softmax=lambda x: iv.softmax(x, axis=-1),
        log_softmax=lambda x: iv.log_softmax(x, axis=-1),
        mean=lambda x: iv.mean(x, axis=-1, keepdims=True),
        swap=lambda x, a, b: iv.moveaxis(x, (a, b), (b, a)),
        leaky=lambda x: iv.where(x > 0, x, 0.2 * x),
        segment_softmax=iv.segment_softmax,
        segment_sum=iv.segment_sum,
    )


def _torch() -> SimpleNamespace:
    import torch
    from torch.nn import functional as F

    def segment_sum(x: Any, ids: Any, n: int) -> Any:
        return torch.zeros(n, *x.shape[1:]).index_add(0, ids, x)

    def segment_softmax(x: Any, ids: Any, n: int) -> Any:
        largest = torch.full((n,), -torch.inf).scatter_reduce(0, ids, x.detach(), "amax")
        e = torch.exp(x - largest[ids])
        return e / segment_sum(e, ids, n)[ids]

    return SimpleNamespace(
        conv=F.conv2d,
        pool=lambda x: F.max_pool2d(x, 2),
        relu=torch.relu,
        gelu=F.gelu,
        sqrt=torch.sqrt,
        take=lambda x, i: x[i],
        softmax=lambda x: torch.softmax(x, -1),
        log_softmax=lambda x: torch.log_softmax(x, -1),
        mean=lambda x: x.mean(-1, keepdim=True),
        swap=lambda x, a, b: x.transpose(a, b),
        leaky=lambda x: F.leaky_relu(x, 0.2),
        segment_softmax=segment_softmax,
        segment_sum=segment_sum,
    )


def _bridged() -> SimpleNamespace:
    """Torch's, but for the steps that a model may take from Iverson."""
    import iverson as iv
    from iverson.interop.torch import wrap

    own = library("iverson")
    taken = {name: wrap(getattr(own, name)) for name in ("conv", "pool")}
    taken |= {
        name: wrap(iv.jit(getattr(own, name), static="num_segments"))
        for name in ("segment_softmax", "segment_sum")
    }
    return SimpleNamespace(**{**vars(library("torch")), **taken})


def _jax() -> SimpleNamespace:
    import jax
    from jax import numpy as jnp

    def segment_softmax(x: Any, ids: Any, n: int) -> Any:
        largest = jax.lax.stop_gradient(jax.ops.segment_max(x, ids, n))
        e = jnp.exp(x - largest[ids])
        return e / jax.ops.segment_sum(e, ids, n)[ids]

    return SimpleNamespace(
        conv=lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "VALID"),
        pool=lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
        relu=jax.nn.relu,
        gelu=lambda x: jax.nn.gelu(x, approximate=False),
        sqrt=jnp.sqrt,
        take=lambda x, i: x[i],
        softmax=lambda x: jax.nn.softmax(x, -1),
        log_softmax=lambda x: jax.nn.log_softmax(x, -1),
        mean=lambda x: x.mean(-1, keepdims=True),
        swap=jnp.swapaxes,
        leaky=lambda x: jax.nn.leaky_relu(x, 0.2),
        segment_softmax=segment_softmax,
        segment_sum=jax.ops.segment_sum,
    )


# --- the models: weights are the arrays whose names begin with w, data the others ------------------------


def scaled(rng: np.random.Generator, *shape: int, fan: int = 0) -> np.ndarray:
    return (rng.standard_normal(shape) / (fan or shape[0]) ** 0.5).astype(np.float32)


def one_hot(rng: np.random.Generator, rows: int, classes: int) -> np.ndarray:
    return np.eye(classes, dtype=np.float32)[rng.integers(0, classes, rows)]


def make_images(side: int, rng: np.random.Generator) -> Inputs:
    inner = ((side - 2) // 2 - 2) // 2
    return {
        "w0": scaled(rng, 16, 1, 3, 3, fan=9),
        "w1": scaled(rng, 32, 16, 3, 3, fan=144),
        "w2": scaled(rng, 32 * inner * inner, 10),
        "x": rng.standard_normal((64, 1, side, side), dtype=np.float32),
        "t": one_hot(rng, 64, 10),
    }


def convnet(lib: Any, weights: Sequence[Any], data: Sequence[Any]) -> Any:
    (w0, w1, w2), (x, t) = weights, data
    for w in (w0, w1):
        x = lib.pool(lib.relu(lib.conv(x, w)))
    return -(lib.log_softmax(x.reshape((x.shape[0], -1)) @ w2) * t).sum() / x.shape[0]


def make_sequences(length: int, rng: np.random.Generator) -> Inputs:
    d = WIDTH
    return {
        **{f"w{name}": scaled(rng, d, d) for name in ("q", "k", "v", "o")},
        "wa": scaled(rng, d, 4 * d),
        "wb": scaled(rng, 4 * d, d),
        "wg": np.ones(d, np.float32),
        "wh": np.ones(d, np.float32),
        "x": rng.standard_normal((8, length, d), dtype=np.float32),
        "t": rng.standard_normal((8, length, d), dtype=np.float32),
    }


def transformer(lib: Any, weights: Sequence[Any], data: Sequence[Any]) -> Any:
    (wq, wk, wv, wo, wa, wb, wg, wh), (x, t) = weights, data
    batch, length, d = x.shape

    def norm(x: Any, gain: Any) -> Any:
        centred = x - lib.mean(x)
        return centred / lib.sqrt(lib.mean(centred * centred) + 1e-5) * gain

    def heads(x: Any) -> Any:
        return lib.swap(x.reshape((batch, length, HEADS, d // HEADS)), 1, 2)

    y = norm(x, wg)
    q, k, v = heads(y @ wq), heads(y @ wk), heads(y @ wv)
    p = lib.softmax(q @ lib.swap(k, 2, 3) / (d // HEADS) ** 0.5)
    x = x + lib.swap(p @ v, 1, 2).reshape((batch, length, d)) @ wo
    x = x + lib.gelu(norm(x, wh) @ wa) @ wb
    return ((x - t) ** 2).sum() / (batch * length)


def make_graph(nodes: int, rng: np.random.Generator) -> Inputs:
    return {
        "w": scaled(rng, 32, 32),
        "ws": scaled(rng, 32),
        "wt": scaled(rng, 32),
        "wo": scaled(rng, 32, 10),
        "x": rng.standard_normal((nodes, 32), dtype=np.float32),
        "t": one_hot(rng, nodes, 10),
        "source": rng.integers(0, nodes, 8 * nodes),
        "target": np.sort(rng.integers(0, nodes, 8 * nodes)),
    }


def graph_attention(lib: Any, weights: Sequence[Any], data: Sequence[Any]) -> Any:
    (w, ws, wt, wo), (x, t, source, target) = weights, data
    n = x.shape[0]
    h = x @ w
    scores = lib.leaky(lib.take(h @ ws, source) + lib.take(h @ wt, target))
    p = lib.segment_softmax(scores, target, n)
    out = lib.relu(lib.segment_sum(p[:, None] * lib.take(h, source), target, n)) @ wo
    return -(lib.log_softmax(out) * t).sum() / n


# --- a step of each library, as its users write it ------------------------------------------------------


def parts(inputs: Inputs) -> tuple[list[np.ndarray], list[np.ndarray]]:
    weights = [a for name, a in inputs.items() if name.startswith("w")]
    return weights, [a for name, a in inputs.items() if not name.startswith("w")]


def iverson_step(loss: Loss, *, compiled: bool) -> Callable[[Inputs], Call]:
    def run(inputs: Inputs) -> Call:
        import iverson as iv

        weights, data = ([iv.asarray(a) for a in part] for part in parts(inputs))

        def step(weights: Any, data: Any) -> Any:
            gradients = iv.grad(lambda w: loss(library("iverson"), w, data))(weights)
            return [w - RATE * g for w, g in zip(weights, gradients, strict=True)]

        function = iv.jit(step) if compiled else step
        return lambda: function(weights, data)

    return run


def torch_step(loss: Loss, *, compiled: bool = False, by: str = "torch") -> Callable[[Inputs], Call]:
    def run(inputs: Inputs) -> Call:
        import torch

        weights, data = ([torch.tensor(a) for a in part] for part in parts(inputs))
        for w in weights:
            w.requires_grad_()
        lib = library(by)
        value = loss
        if compiled:
            try:
                value = torch.compile(loss)
                value(lib, weights, data).backward()
            except Exception as error:
                raise UnavailableError(str(error).partition("\n")[0]) from error

        def call() -> Any:
            gradients = torch.autograd.grad(value(lib, weights, data), weights)
            with torch.no_grad():
                return [w - float(RATE) * g for w, g in zip(weights, gradients, strict=True)]

        return call

    return run


def jax_step(loss: Loss) -> Callable[[Inputs], Call]:
    def run(inputs: Inputs) -> Call:
        import jax

        weights, data = ([jax.numpy.asarray(a) for a in part] for part in parts(inputs))

        @jax.jit
        def step(weights: Any, data: Any) -> Any:
            gradients = jax.grad(lambda w: loss(library("jax"), w, data))(weights)
            return [w - RATE * g for w, g in zip(weights, gradients, strict=True)]

        return lambda: jax.block_until_ready(step(weights, data))

    return run


def _workload(
    name: str, loss: Loss, make: Any, sizes: tuple[int, int, int], size_is: str, draw: Any, **more: Any
) -> Workload:
    return Workload(
        name=name,
        sizes=sizes,
        size_is=size_is,
        draw=draw,
        make=make,
        run={
            "iverson": iverson_step(loss, compiled=True),
            "iverson eager": iverson_step(loss, compiled=False),
            "torch": torch_step(loss),
            "torch compile": torch_step(loss, compiled=True),
            "jax jit": jax_step(loss),
        },
        target={"torch": 0.8, "torch compile": 0.8, "jax jit": 0.8},
        **more,
    )


WORKLOADS = (
    _workload(
        "train_convnet",
        convnet,
        make_images,
        (10, 16, 28),
        "pixels a side",
        lambda rng: rng.integers(11, 28),
        kinked=True,
    ),
    _workload(
        "train_transformer",
        transformer,
        make_sequences,
        (64, 128, 256),
        "length",
        lambda rng: rng.integers(40, 200),
    ),
    _workload(
        "train_graph_attention",
        graph_attention,
        make_graph,
        (1_000, 20_000, 100_000),
        "nodes",
        lambda rng: rng.integers(2_000, 40_000),
    ),
)
