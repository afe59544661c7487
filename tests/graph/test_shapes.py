"""Graphs of values whose shapes are not known: traced, differentiated, given shapes later, run."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.core.aval import Aval, UnknownShape, aval_of
from iverson.errors import ArgumentError, DTypeError, GraphError
from iverson.graph.derivatives.differentiation import differentiate
from iverson.graph.derivatives.pullback_branches import lower_grad_of
from iverson.graph.derivatives.shape_inference import gradient_with_shapes, with_shapes
from iverson.graph.derivatives.specialization import specialize
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.nodes import UNDEFINED
from iverson.graph.ir.operations import is_absent
from iverson.graph.ir.parse import parse
from iverson.graph.ir.print import show, text_and_objects
from iverson.graph.ir.verify import check
from iverson.graph.tracing.trace import trace_flat
from tests.graph.programs import close, matrices, random_program
from tests.graph.test_differentiate import eager, run_df


def unknown(*ranks):
    return [Aval(UnknownShape(rank), np.dtype("float64")) for rank in ranks]


def traced(f, avals):
    return check(trace_flat(lambda *h: (list(f(*h)), None), avals)[0])


def without_shapes(graph):
    """The graph of the same text in which no value has a shape."""
    text, objects = text_and_objects(graph)
    return check(
        parse(re.sub(r"(float64|bool)\[[\d, ]*\]( bracket| box \(.*?\) \(.*?\))?", r"\1[*]", text), objects)
    )


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_shapes_that_are_given_later_change_nothing(seed):
    """Differentiated and then given shapes, a graph is what it is given shapes and then differentiated."""
    program, arrays = random_program(seed, 5), matrices(seed)
    avals = list(map(aval_of, arrays))
    graph = dead_code(traced(program, avals))
    bare = without_shapes(graph)
    assert "[*]" in show(bare)
    assert not re.search(r"float64\[\d", show(bare))
    assert show(with_shapes(bare, avals)) == show(graph)
    gradient, expected = differentiate(bare), differentiate(graph)
    assert not re.search(r"float64\[\d|shape=|zeros", show(check(gradient.df)))
    found = gradient_with_shapes(gradient, avals)
    assert show(check(found.f)) == show(expected.f)
    assert show(check(found.df)) == show(expected.df)
    for name in ("f_real_outputs", "captures", "df_input_vjps", "df_output_vjps"):
        assert getattr(found, name) == getattr(expected, name)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_a_gradient_without_shapes_agrees_with_the_engine(seed, data):
    """As it stands, specialised and lowered before there are shapes, and these with shapes."""
    program, arrays = random_program(seed, 5), matrices(seed)
    args = [iv.asarray(a) for a in arrays]
    gradient = differentiate(without_shapes(traced(program, list(map(aval_of, arrays)))))
    count = gradient.f_real_outputs
    draw = st.lists(st.booleans(), min_size=count, max_size=count)
    of_outputs, needs = data.draw(draw), data.draw(st.tuples(st.booleans(), st.booleans()))
    needs = needs[: len(gradient.df_output_vjps)]
    rng = np.random.default_rng(seed)
    cotangents = [iv.asarray(rng.normal(size=(3, 3))) for _ in range(count)]
    expected, _ = eager(program, arrays, cotangents, of_outputs, needs)
    defined = [k < count and of_outputs[k] for k in gradient.df_input_vjps]
    given_ = [cotangents[k] for k, d in zip(gradient.df_input_vjps, defined, strict=True) if d]
    any_of = [cotangents[k] if d else UNDEFINED for k, d in zip(gradient.df_input_vjps, defined, strict=True)]
    avals = avals_of_inputs(gradient, list(map(aval_of, arrays)))
    for df, cts in (
        (specialize(gradient.df, defined, needs), given_),
        (lower_grad_of(gradient.df, [None] * len(defined), needs), any_of),
        (lower_grad_of(gradient.df, defined, needs), given_),
    ):
        for graph in (check(df), check(with_shapes(df, [avals[v] for v in df.inputs]))):
            found, _ = run_df(gradient, graph, args, cts)
            for a, e in zip(found, expected, strict=True):
                assert (a is UNDEFINED or is_absent(a)) == (e is None)
                if e is not None:
                    close(a, e)


def avals_of_inputs(gradient, avals):
    """What is known of each input of the pullback where it is known of those of the function."""
    f = with_shapes(gradient.f, avals)
    captured = [(f.inputs if kind == "input" else f.outputs)[k] for kind, k in gradient.captures]
    given_ = [*(f.outputs[k] for k in gradient.df_input_vjps), *captured]
    return {v: x.aval for v, x in zip(gradient.df.inputs, given_, strict=True)}


def layer(x, w, b):
    h = iv.tanh(x @ w + b)
    return [iv.sum(h * h, axis=0), h.T @ x]


def test_a_function_is_traced_without_shapes():
    graph = traced(layer, unknown(2, 2, 1))
    assert "float64[?, ?] = matmul" in show(graph)
    text, objects = text_and_objects(graph)
    assert show(parse(text, objects)) == text
    rng = np.random.default_rng(0)
    gradient = differentiate(graph)
    for rows in (4, 7):  # one graph for all shapes
        arrays = [rng.normal(size=s) for s in ((rows, 3), (3, 5), (5,))]
        shaped = gradient_with_shapes(gradient, list(map(aval_of, arrays)))
        cts = [rng.normal(size=5), rng.normal(size=(5, 3))]
        found, _ = run_df(
            shaped,
            shaped.df,
            list(map(iv.asarray, arrays)),
            [*map(iv.asarray, cts), *[UNDEFINED] * (len(shaped.df_input_vjps) - 2)],
        )
        _, pull = iv.vjp(lambda *a: tuple(layer(*a)), *map(iv.asarray, arrays))
        for a, e in zip(found, pull(tuple(map(iv.asarray, cts))), strict=True):
            close(a, e)


def test_what_depends_on_shapes_says_so():
    for f, ranks in (
        (lambda x: [x.T], [None]),
        (lambda x: [x[0]], [2]),
        (lambda x: [iv.zeros(x.shape)], [1]),
        (lambda x: [iv.grad(lambda y: y * 2)(x)], [2]),
    ):
        with pytest.raises(GraphError, match=r"shape.*test_shapes\.py"):
            traced(f, unknown(*ranks))
    with pytest.raises(DTypeError):
        trace_flat(lambda x: ([iv.bitwise_invert(x)], None), unknown(2))
    graph = traced(lambda x, y: [x @ y], unknown(2, 2))
    with pytest.raises(ArgumentError, match="with_shapes"):
        with_shapes(graph, [])
    square = [Aval((2, 3), np.dtype("float64"))] * 2
    with pytest.raises(iv.errors.ShapeError, match="matmul"):
        with_shapes(graph, square)
