"""Peak memory of gradients, eager and compiled, beside the bytes that are live: each value from its making
to its last use, in the order in which the function was traced."""

from __future__ import annotations

import gc
import tracemalloc
from math import prod

import numpy as np
import pytest

import iverson as iv
from iverson.graph.ir.nodes import values_of
from iverson.graph.lowering.graph_lowering import Native, lower
from iverson.graph.passes import simplified

#: Ops whose result lies in the memory of their operand.
VIEWS = frozenset(("reshape", "permute_dims", "matrix_transpose", "index_basic", "expand_dims", "squeeze"))


def nbytes(v):
    return prod(v.shape) * v.dtype.itemsize


def most_live(graph):
    """The largest number of bytes of values that are live at one time, without the graph's inputs."""
    root, last = {}, {}
    for k, e in enumerate(graph.equations):
        operands = values_of(e.operands)
        if e.op.name in VIEWS:
            root |= dict.fromkeys(e.results, root.get(operands[0], operands[0]))
        last |= {root.get(x, x): k for x in operands}
    last |= {root.get(v, v): len(graph.equations) for v in values_of(graph.outputs)}
    now = most = 0
    ends = [0] * (len(graph.equations) + 1)
    for k, e in enumerate(graph.equations):
        for v in e.results:
            if v not in root:
                now += nbytes(v)
                ends[last.get(v, k)] += nbytes(v)
        most = max(most, now)
        now -= ends[k]
    return most


def eager_peak(f, *args):
    """Bytes allocated at most during a call, of which NumPy tells `tracemalloc`."""
    f(*args)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        f(*args)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
        gc.enable()


def compiled_peak(graph):
    """Bytes of the arenas and results of a compiled graph."""
    steps = lower(graph).steps
    assert all(isinstance(s, Native) for s in steps)
    return sum(s.compiled.plan().arena.bytes for s in steps) + sum(map(nbytes, values_of(graph.outputs)))


def deep(weights, x):
    for w in weights:
        x = iv.nn.relu(x @ w)
    return iv.mean(x * x)


def transformer(blocks, x):
    for q, k, v, o, a, b in blocks:
        scores = iv.nn.softmax((x @ q) @ iv.matrix_transpose(x @ k), axis=-1)
        x = x + (scores @ (x @ v)) @ o
        x = x + iv.nn.relu(x @ a) @ b
    return iv.sum(x * x)


def lstm(weights, x):
    w, u = weights
    n = u.shape[0]

    def step(carry, x_t):
        h, s = carry
        gates = x_t @ w + h @ u
        i, f, o, z = (gates[:, k * n : (k + 1) * n] for k in range(4))
        s = iv.nn.sigmoid(f) * s + iv.nn.sigmoid(i) * iv.tanh(z)
        h = iv.nn.sigmoid(o) * iv.tanh(s)
        return (h, s), h

    start = iv.zeros((x.shape[1], n), dtype=x.dtype)
    _, states = iv.scan(step, (start, start), x)
    return iv.sum(states * states)


def draw(*shape):
    x = np.random.default_rng(len(shape)).standard_normal(shape) / np.sqrt(shape[-1])
    return iv.asarray(x.astype(np.float32))


CASES = {
    "deep": (deep, [draw(64, 64) for _ in range(12)], draw(256, 64)),
    "transformer": (transformer, [[draw(64, 64) for _ in range(6)] for _ in range(2)], draw(4, 64, 64)),
    "lstm": (lstm, (draw(64, 256), draw(64, 256)), draw(12, 64, 64)),
}


@pytest.mark.parametrize("name", CASES)
def test_peak_is_at_most_a_quarter_above_what_is_live(name):
    f, weights, x = CASES[name]
    gradient = iv.value_and_grad(f)
    graph = simplified(iv.jit(gradient).graph(weights, x))
    live = most_live(graph)
    assert eager_peak(gradient, weights, x) <= 1.25 * live
    assert compiled_peak(graph) <= 1.25 * live


def test_deep_network_keeps_one_array_for_each_layer():
    """The results of layers, the gradients, and three arrays for the cotangents at work."""
    f, weights, x = CASES["deep"]
    layer, gradients = nbytes(x), sum(map(nbytes, weights))
    assert eager_peak(iv.value_and_grad(f), weights, x) <= (len(weights) + 3) * layer + gradients / 2
    graph = simplified(iv.jit(iv.value_and_grad(f)).graph(weights, x))
    assert compiled_peak(graph) <= (len(weights) + 4) * layer + gradients


def sgd_step(params, state, x):
    loss, gradients = iv.value_and_grad(deep)(params, x)
    return loss, [w - 0.1 * g for w, g in zip(params, gradients, strict=True)], state


def adam_step(params, state, x):
    loss, gradients = iv.value_and_grad(deep)(params, x)
    updates, state = ADAM.update(gradients, state, params)
    return loss, iv.optim.apply_updates(params, updates), state


ADAM = iv.optim.adam(1e-3)


@pytest.mark.parametrize("step", [sgd_step, adam_step])
def test_steps_in_place_keep_the_results_of_layers_alone(step):
    """Beside these there are two cotangents, and parts of a layer that are computed again."""
    _, weights, x = CASES["deep"]
    graph = simplified(iv.jit(step).graph(weights, ADAM.init(weights), x))
    (native,) = lower(graph, donated=dict.fromkeys(range(len(graph.inputs) - 1), -1)).steps
    bytes_of_steps = native.compiled.plan().arena.bytes
    assert bytes_of_steps <= (len(weights) + 4) * nbytes(x) + nbytes(weights[0])


def test_products_computed_again_read_what_is_of_their_layer():
    """What a layer compares is not read for the layers before it: it lives as long as its own gradient."""
    f, weights, x = CASES["deep"]
    graph = simplified(iv.jit(iv.value_and_grad(f)).graph(weights, x))
    repairs = [e for e in graph.equations if e.op.name == "mended"]
    assert len(repairs) == 2 * len(weights) - 1
    for e in repairs:
        assert len(set(values_of(e.operands))) <= 6
        assert len(e.params["again"].equations) <= 12
