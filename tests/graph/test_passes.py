"""What passes make of graphs. That each keeps what a graph computes is in `test_ways`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iverson as iv
from iverson.core.aval import aval_of
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import subgraphs
from iverson.graph.ir.parse import parse
from iverson.graph.ir.print import show
from iverson.graph.ir.verify import check
from iverson.graph.passes import simplified
from iverson.graph.passes.algebraic_simplification import algebra
from iverson.graph.passes.common_subexpressions import common
from iverson.graph.passes.demand_analysis import demands
from iverson.graph.tracing.trace import trace_flat
from tests.graph.part_programs import key_of
from tests.graph.programs import close, loss_of, matrices, random_program
from tests.tools.entered import entered_by


def graph_of(f, *args):
    graph, _, _ = trace_flat(lambda *h: (f(*h), None), [aval_of(a) for a in args])
    return check(graph)


def gradient(program):
    return lambda x, y: [*program(x, y)[:1], *iv.grad(loss_of(program), (0, 1))(x, y)]


@given(seed=st.integers(0, 10**6))
def test_programs_of_graphs_do_no_more_than_the_functions(seed):
    args = [iv.asarray(a) for a in matrices(seed)]
    f = gradient(random_program(seed))
    graph = simplified(graph_of(f, *args))
    with iv.explain.count() as eager:
        f(*args)
    with iv.explain.count() as compiled:
        interpret(graph, args)
    assert compiled.products <= eager.products


def simple(text):
    return [e.op.name for e in simplified(parse(text)).equations]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("%1: float64[2, 3] = identity(%0)", "return (%0)"),
        ("%1: float64[2, 3] = multiply(%0, 1)", "return (%0)"),
        ("%1: float64[2, 3] = multiply(1.0, %0)", "return (%0)"),
        ("%1: float64[2, 3] = divide(%0, 1)", "return (%0)"),
        ("%9: float64[2, 3] = negative(%0)\n  %1: float64[2, 3] = negative(%9)", "return (%0)"),
        (
            (
                "%9: float64[3, 2] = permute_dims[axes=(1, 0)](%0)"
                "%1: float64[2, 3] = permute_dims[axes=(1, 0)](%9)"
            ),
            "return (%0)",
        ),
        (
            "%9: float64[6] = reshape[shape=(6,)](%0)\n  %1: float64[2, 3] = reshape[shape=(2, 3)](%9)",
            "return (%0)",
        ),
        (
            (
                "%9: float64[2, 2, 3] = stack[axis=0](%0, %0)\n"
                "  %1: float64[2, 3] = index_basic[key=(1, slice(0, 2, 1), slice(0, 3, 1))](%9)"
            ),
            "return (%0)",
        ),
        (
            (
                "%9: float64[4, 3] = concat[axis=0, offsets=(0, 2)](%0, %0)\n"
                "  %1: float64[2, 3] = index_basic[key=(slice(2, 4, 1), slice(0, 3, 1))](%9)"
            ),
            "return (%0)",
        ),
        ("%1: float64[2, 3] = add(%0, 0)", "add(%0, 0)"),  # of -0.0 it is 0.0
        ("%1: float64[2, 3] = multiply(%0, 0)", "multiply(%0, 0)"),  # of inf it is nan
        ("%1: float64[2, 3] = multiply(%0, 2)", "multiply(%0, 2)"),
        ("%1: float64[3] = sum[axis=(0,), keepdims=False](%0)", "sum"),
    ],
)
def test_algebra(before, after):
    kept = before.split("%1: ")[1].split(" = ")[0]
    assert kept
    text = f"graph(%0: float64[2, 3]) {{\n  {before}\n  return (%1)\n}}"
    assert after in show(dead_code(algebra(algebra(check(parse(text))))))


@given(seed=st.integers(0, 10**6))
def test_what_is_read_of_joined_operands(seed):
    """By any key: what NumPy reads, and of one operand alone where that is all."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), np.arange(6).reshape(2, 3)]
    joined, ours = ((np.stack, iv.stack), (np.concat, iv.concat))[rng.integers(2)]
    axis = int(rng.integers(2 + (ours is iv.stack)))
    key = key_of(rng, joined(arrays, axis=axis).shape)
    graph = graph_of(lambda *given: [ours(given, axis=axis)[key]], *arrays)
    simpler = dead_code(algebra(graph))
    (found,) = interpret(check(simpler), list(map(iv.asarray, arrays)))
    np.testing.assert_array_equal(found.numpy(), joined(arrays, axis=axis)[key])
    origin = joined([np.full_like(a, k) for k, a in enumerate(arrays)], axis=axis)[key]
    alone = origin.size and (origin == origin.flat[0]).all() and origin.flat[0] < 2  # the third is converted
    assert (not {"stack", "concat"} & {e.op.name for e in simpler.equations}) == bool(alone)


def test_nothing_changes_dtype_or_shape():
    x = np.ones((2, 1), np.float32)
    for f in (
        lambda x: x * np.ones((2, 3)),
        lambda x: x * np.ones((2, 1)),
        lambda x: iv.astype(x, iv.float64),
    ):
        graph = graph_of(lambda x, f=f: [f(x)], x)
        close(interpret(simplified(graph), [iv.asarray(x)])[0], f(iv.asarray(x)))


def test_what_is_computed_twice_is_computed_once():
    graph = graph_of(lambda x: [iv.sin(x) * iv.sin(x) + x.sum(axis=0) * x.sum(axis=1)], np.ones((3, 3)))
    names = [e.op.name for e in common(graph).equations]
    assert names.count("sin") == 1
    assert names.count("sum") == 2  # along different axes
    graph = graph_of(lambda x: [x + np.ones(3), x * np.ones(3), x * np.zeros(3)], np.ones(3))
    assert len(common(graph).constants) == 2


def test_steps_that_nobody_reads_are_not_made():
    """A recurrence read after a third of its steps, also through a reshape and a sum."""

    def f(h, x):
        steps = []
        for k in range(12):
            h = iv.tanh(h @ x + k)
            steps.append(h)
        all_of_them = iv.stack(steps)
        return [all_of_them[3], all_of_them.reshape(6, 2, 3, 3)[1, 1].sum()]

    graph = graph_of(f, *matrices(0))
    assert len([e for e in graph.equations if e.op.name == "matmul"]) == 12
    cut = dead_code(demands(graph))
    assert len([e for e in cut.equations if e.op.name == "matmul"]) == 4


def test_what_draws_inside_of_a_loop_is_not_folded():
    bits = iv.random.default_rng(0)

    def f(x):
        return [iv.scan(lambda h, _: (h + bits.normal(), None), iv.asarray(0.0), None, length=3)[0] + x * 0]

    graph = simplified(graph_of(f, np.ones(())))
    a, b = (interpret(graph, [iv.asarray(1.0)])[0].item() for _ in range(2))
    assert a != b


def test_passes_enter_few_functions_for_each_equation():
    """A process whose programs are on disk traces and runs the passes: their time is that of these calls.

    That conditions of products are carried takes some of them.
    """

    def step(x, *weights):
        h = iv.relu(x @ weights[0] + weights[1])
        z = h @ weights[2] + weights[3]
        return -iv.sum(iv.log_softmax(z, axis=1)[:, 0])

    shapes = ((8, 6), (6, 5), (5,), (5, 4), (4,))
    args = [iv.asarray(np.ones(shape)) for shape in shapes]
    graph = graph_of(iv.grad(step, (1, 2, 3, 4)), *args)
    bodies = [body for e in simplified(graph).equations for _, body in subgraphs(e)]  # products made again
    count = sum(len(g.equations) for g in (graph, *bodies))
    assert entered_by(lambda: simplified(graph)) <= 195 * count
