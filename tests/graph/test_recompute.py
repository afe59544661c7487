"""What is computed again where it is read: the same results, in fewer bytes, counted."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.codegen.programs.nodes import Nest
from iverson.core.aval import aval_of
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import Graph, values_of
from iverson.graph.ir.verify import check
from iverson.graph.lowering import program_segments
from iverson.graph.lowering.graph_lowering import Native, lower
from iverson.graph.lowering.rematerialisation import CHEAP, recompute, size
from iverson.graph.passes import simplified
from iverson.graph.tracing.trace import trace_flat
from iverson.ops import TABLE
from tests.conformance.product import examples
from tests.graph.programs import close, loss_of, matrices, random_program


def rounds_of(graph):
    """Equations by how many products come before them, products by themselves."""
    level, groups = {}, {}
    for e in graph.equations:
        number = max((level[x] for x in values_of(e.operands) if x in level), default=0)
        fixed = is_product(e)
        groups.setdefault((number, fixed), []).append(e)
        level.update(dict.fromkeys(e.results, number + fixed))
    return [group for _, group in sorted(groups.items())]


def is_product(e):
    return e.op.name == "matmul"


def again(graph, rounds):
    found, copies = recompute(rounds, is_product, values_of(graph.outputs), lambda v: v)
    equations = tuple(e for group in found for e in group)
    return Graph(graph.inputs, equations, graph.outputs, graph.constants), found, copies


def moved(rounds, outputs):
    """Bytes that rounds write for later ones and hold, and read of what they did not make."""
    made = {v: k for k, group in enumerate(rounds) for e in group for v in e.results}
    reads = [
        {x for e in group for x in values_of(e.operands) if made.get(x) != k}
        for k, group in enumerate(rounds)
    ]
    written = (set().union(*reads) & made.keys()) | set(values_of(outputs))
    return 2 * sum(map(size, written)) + sum(size(x) for read in reads for x in read)


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**6))
def test_random_gradients_are_the_same_in_fewer_bytes(seed):
    args = [iv.asarray(a) for a in matrices(seed)]
    gradient = iv.grad(loss_of(random_program(seed)), (0, 1))
    graph, _, _ = trace_flat(lambda *h: (list(gradient(*h)), None), list(map(aval_of, args)))
    graph = simplified(graph)
    rounds = rounds_of(graph)
    made, found, copies = again(graph, rounds)
    for a, b in zip(interpret(check(made), args), interpret(graph, args), strict=True):
        close(a, b)
    assert moved(found, graph.outputs) <= moved(rounds, graph.outputs)
    assert {e.op.name for e in copies} <= CHEAP
    *_, twice = again(made, found)
    assert not twice


def test_cheap_ops_are_elementwise_ops_of_the_table():
    assert all(TABLE[name].elementwise for name in CHEAP - {"add_n"})


def nests(f, *args):
    """Bytes that each nest of a compiled function reads and writes, and those of the arena."""
    found, arena = [], 0
    for step in lower(simplified(iv.jit(f).graph(*args))).steps:
        assert isinstance(step, Native)
        plan = step.compiled.plan()
        arena += plan.arena.bytes
        found += [
            sum(prod(v.shape) * v.buffer.dtype.itemsize for v in s.views)
            for s in plan.program.steps
            if isinstance(s, Nest)
        ]
    return found, arena


def test_what_a_layer_moves():
    """A layer of maximum(h, 0 h) reads h and the cotangent again, and no masks; of tanh, its value too."""
    rng = np.random.default_rng(0)
    x, w = iv.asarray(rng.normal(size=(64, 32))), [iv.asarray(rng.normal(size=(32, 32))) for _ in range(4)]
    entry = 64 * 32 * 8

    def network(activation):
        def f(x, w):
            for v in w:
                x = activation(x @ v)
            return x.sum()

        return iv.value_and_grad(f)

    looked_at = 4 * (32 * 32 * 8 + 1)  # whether each weight is finite
    kinked, held = nests(network(lambda h: iv.maximum(h, 0 * h)), x, w)
    assert sum(kinked) - looked_at <= 25 * entry  # 3 and 2 a layer; the sum, and the masks of the last
    smooth, held = nests(network(iv.tanh), x, w)
    assert sum(smooth) <= 15 * entry
    assert held <= 5 * entry


def test_stages_that_read_each_other_are_one_loop():
    """Values that several results are made of stay in registers, however costly they are."""

    def f(x):
        a = iv.exp(x) * iv.sin(x) + 1
        b = iv.log(a * a + 1) * a
        c = iv.sqrt(b * b + a * a + 1) + b
        return [a * b * c, a + b / c, iv.tanh(a - c) * b]

    x = np.random.default_rng(0).normal(size=(40, 50))
    found, arena = nests(f, iv.asarray(x))
    assert sum(found) <= 4.01 * x.nbytes
    assert arena <= 128
    for a, b in zip(iv.jit(f)(iv.asarray(x)), f(iv.asarray(x)), strict=True):
        close(a, b)


def test_reports_list_what_is_computed_again():
    x = iv.asarray(np.linspace(-1, 1, 64 * 32).reshape(64, 32))
    w = iv.asarray(np.linspace(-1, 1, 32 * 32).reshape(32, 32))

    def f(x):
        for _ in range(3):
            x = iv.maximum(x @ w, 0.5 * x)
        return x.sum()

    text = str(iv.explain.report(iv.jit(iv.grad(f)))(x))
    (line,) = (line for line in text.splitlines() if "recomputed" in line)
    assert re.search(r"recomputed: \d+ values, [\d,]+ entries \(\w", line)
    linear = str(iv.explain.report(iv.jit(iv.grad(lambda x: (x @ w).sum())))(x))
    assert "recomputed" not in linear


def test_loops_of_a_second_derivative():
    """Of maximum(h, 0 h), all that a layer does between its products is one loop forward and one back."""
    rng = np.random.default_rng(0)
    x, w = iv.asarray(rng.normal(size=(64, 32))), [iv.asarray(rng.normal(size=(32, 32))) for _ in range(4)]

    def first(x, w):
        def f(x):
            for v in w:
                h = x @ v
                x = iv.maximum(h, 0 * h)
            return (x**2).sum()

        return iv.grad(f)(x).sum()

    found, arena = nests(iv.grad(first), x, w)
    large = [b for b in found if b >= 64 * 32 * 8]
    assert len(large) <= 3 * 4 + 1
    assert arena <= 12 * 64 * 32 * 8


def test_what_is_seen_through_strides_is_counted(monkeypatch):
    """A Hessian of each point reads values of a layer along a further axis: nothing costs more than kept."""
    rng = np.random.default_rng(0)
    x, w = (
        iv.asarray(rng.normal(size=(20, 2))),
        [iv.asarray(rng.normal(size=s)) for s in ((2, 16), (16, 16), (16, 16), (16, 1))],
    )

    def f(x):
        for v in w:
            x = iv.tanh(x @ v)
        return x.sum()

    hessians = iv.vmap(iv.hessian(f))
    found, arena = nests(hessians, x)
    monkeypatch.setattr(program_segments, "recompute", lambda rounds, *_: (rounds, []))
    kept, room = nests(hessians, x)
    assert sum(found) <= sum(kept)
    assert arena <= room


#: Functions of a matrix, and how often functions of tens of instructions stand in their program.
DEAR = {
    "a loss and its gradient": (
        iv.value_and_grad(lambda x: iv.sum(iv.tanh(x) ** 2)),
        {"tanh": 1, "sech2": 1},
    ),
    "cross entropy": (
        iv.value_and_grad(
            lambda x: iv.sum(iv.log(iv.sum(iv.exp(x - iv.max(x, axis=1, keepdims=True)), axis=1)))
        ),
        {"exp": 1, "log": 1},
    ),
    "sums by rows and by columns": (
        lambda x: (iv.sum(iv.sin(x), axis=0), iv.sum(iv.sin(x), axis=1)),
        {"sin": 1},
    ),
}


@pytest.mark.parametrize("name", DEAR)
def test_functions_of_many_instructions_are_computed_once(name):
    f, expected = DEAR[name]
    x = iv.asarray(np.random.default_rng(0).normal(size=(30, 20)))
    (step,) = lower(simplified(iv.jit(f).graph(x))).steps
    source = step.compiled.source
    assert {n: len(re.findall(rf"\b{n}\(", source)) for n in expected} == expected
