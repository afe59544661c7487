"""Gradients as graphs: their text, undefined cotangents, needs, and agreement with the eager engine."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iverson as iv
from iverson.autograd.engine import reverse
from iverson.core.aval import Aval, aval_of
from iverson.core.dispatch import slot_of
from iverson.core.entries import FULL
from iverson.core.errors import ArgumentError
from iverson.graph.differentiate import differentiate
from iverson.graph.interpret import interpret
from iverson.graph.lower_grad_of import lower_grad_of
from iverson.graph.nodes import UNDEFINED
from iverson.graph.operations import is_absent
from iverson.graph.parse import parse
from iverson.graph.passes import simplified
from iverson.graph.print import show, text_and_objects
from iverson.graph.specialize import specialize
from iverson.graph.trace import trace_flat
from iverson.graph.verify import check
from tests.graph.programs import close, matrices, random_program

VECTOR = Aval((2,), np.dtype("float64"))


def graph_of(f, *avals):
    return check(trace_flat(lambda *h: (list(f(*h)), None), avals)[0])


def product_and_sum(a, b):
    """The intermediate t is a result: it may also receive a cotangent from outside."""
    t = a * b
    return t, t * a + b


def three_results(a, b):
    d = b * b + b
    u = d + a
    return d, u * a + b, u


GOLDEN = {
    "product and sum": """\
graph(%0: float64[2], %1: float64[2], %2: float64[2], %3: float64[2], %4: float64[2]) {
  %5: float64[2], %6: float64[2] = grad_of[body=graph(%1: float64[2]) {
    return (%1, %1)
  }, count=1, name='add'](%1)
  %9: float64[2], %10: float64[2] = grad_of[body=graph(%5: float64[2], %2: float64[2], %4: float64[2]) {
    %7: float64[2] = multiply(%5, %2)
    %8: float64[2] = multiply(%5, %4)
    return (%7, %8)
  }, count=1, name='multiply'](%5, %2, %4)
  %11: float64[2] = autograd_add(%0, %9)
  %14: float64[2], %15: float64[2] = grad_of[body=graph(%11: float64[2], %3: float64[2], %2: float64[2]) {
    %12: float64[2] = multiply(%11, %3)
    %13: float64[2] = multiply(%11, %2)
    return (%12, %13)
  }, count=1, name='multiply'](%11, %3, %2)
  %16: float64[2] = autograd_add(%10, %14)
  %17: float64[2] = autograd_add(%6, %15)
  return (%16, %17)
}""",
    "three results, one input": """\
graph(%0: float64[2], %1: float64[2], %2: float64[2], %3: float64[2]) {
  %4: float64[2] = grad_of[body=graph(%0: float64[2]) {
    return (%0)
  }, count=1, name='add'](%0)
  %7: float64[2], %8: float64[2] = grad_of[body=graph(%4: float64[2], %2: float64[2], %3: float64[2]) {
    %5: float64[2] = multiply(%4, %2)
    %6: float64[2] = multiply(%4, %3)
    return (%5, %6)
  }, count=1, name='multiply'](%4, %2, %3)
  %9: float64[2] = autograd_add(%1, %7)
  %10: float64[2] = grad_of[body=graph(%9: float64[2]) {
    return (%9)
  }, count=1, name='add'](%9)
  %11: float64[2] = autograd_add(%8, %10)
  return (%11)
}""",
}
CASES = {
    "product and sum": (product_and_sum, None),
    "three results, one input": (three_results, [True, False]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_text_of_a_gradient(name):
    f, requires_grad = CASES[name]
    gradient = differentiate(graph_of(f, VECTOR, VECTOR), requires_grad)
    check(gradient.f)
    assert show(check(gradient.df)) == GOLDEN[name]
    text, objects = text_and_objects(gradient.df)
    assert show(parse(text, objects)) == text
    assert gradient.f_real_outputs == len(f(1.0, 2.0))
    assert gradient.df_input_vjps == ((0, 1) if requires_grad is None else (1, 2))
    assert gradient.df_output_vjps == ((0, 1) if requires_grad is None else (0,))


def regions(graph):
    return [e.params.get("name", e.op.name) for e in graph.equations]


def test_specialized_text():
    df = differentiate(graph_of(product_and_sum, VECTOR, VECTOR)).df
    assert regions(df) == ["add", "multiply", "autograd_add", "multiply", "autograd_add", "autograd_add"]
    of_sum = specialize(df, [False, True], [True, True])
    assert regions(of_sum) == ["add", "multiply", "multiply", "autograd_add", "autograd_add"]
    assert regions(specialize(df, [True, False], [True, True])) == ["multiply"]
    only_b = specialize(df, [True, False], [False, True])
    assert len(only_b.equations[0].results) == 1
    nothing = specialize(df, [False, False], [True, True])
    assert nothing.outputs == (UNDEFINED, UNDEFINED)
    assert not nothing.equations
    selected = differentiate(graph_of(lambda a, b: [iv.relu(a)], VECTOR, VECTOR), [True, False]).df
    assert regions(selected) == ["relu", "selected"]
    nothing = specialize(selected, [False], [True])
    assert nothing.outputs == (UNDEFINED,)
    assert not nothing.equations
    df = differentiate(graph_of(three_results, VECTOR, VECTOR), [True, False]).df
    assert regions(specialize(df, [True, False], [True])) == ["add", "multiply", "add", "autograd_add"]
    assert regions(specialize(df, [False, True], [True])) == ["add"]


#: What is left after `lower_grad_of`, by which cotangents are known to be defined (None: the call says).
LOWERED = {
    ("product and sum", None, None): [
        "defined", "when add", "when multiply", "autograd_add", "defined", "when multiply",
        "autograd_add", "autograd_add",
    ],
    ("product and sum", True, True): [
        "multiply", "multiply", "add_n", "multiply", "multiply", "add_n", "add_n",
    ],
    ("product and sum", True, False): ["multiply", "multiply"],
    ("product and sum", False, True): ["multiply", "multiply", "multiply", "multiply", "add_n", "add_n"],
    ("product and sum", None, True): [
        "multiply", "multiply", "autograd_add", "multiply", "multiply", "add_n", "add_n",
    ],
    ("product and sum", True, None): [
        "defined", "when add", "when multiply", "autograd_add", "multiply", "multiply",
        "autograd_add", "autograd_add",
    ],
    ("product and sum", None, False): ["defined", "when multiply"],
    ("three results, one input", None, None): [
        "defined", "when add", "when multiply", "autograd_add", "defined", "when add", "autograd_add",
    ],
    ("three results, one input", True, True): ["multiply", "multiply", "add_n", "add_n"],
    ("three results, one input", False, True): [],
}  # fmt: skip


@pytest.mark.parametrize("case", LOWERED)
def test_lowered_text(case):
    name, *known = case
    f, requires_grad = CASES[name]
    gradient = differentiate(graph_of(f, VECTOR, VECTOR), requires_grad)
    lowered = check(lower_grad_of(gradient.df, known))
    assert regions_and_ops(lowered) == LOWERED[case]
    text, objects = text_and_objects(lowered)
    assert show(parse(text, objects)) == text
    again = lower_grad_of(lowered, [k for k in known if k is not False])
    assert show(again) == show(lowered)


def regions_and_ops(graph):
    return [" ".join(dict.fromkeys((e.op.name, e.params.get("name", e.op.name)))) for e in graph.equations]


def run_df(gradient, df, args, cotangents):
    """The results of a pullback on the values of a call and the cotangents it takes; and its work."""
    outputs = interpret(gradient.f, args)
    captured = [args[k] if kind == "input" else outputs[k] for kind, k in gradient.captures]
    with iv.explain.count() as work:
        found = interpret(df, [*cotangents, *captured])
    return found, work


def eager(program, args, cotangents, defined, needs):
    """Which cotangents of the inputs the engine gives, by the same pattern; None for undefined ones."""
    variables = [iv.asarray(a, requires_grad=True) for a in args]
    outputs = program(*variables)
    seeds = [
        (slot_of(o), ct)
        for o, ct, d in zip(outputs, cotangents, defined, strict=True)
        if d and o.requires_grad
    ]
    wanted = {slot_of(v): FULL for v, need in zip(variables, needs, strict=True) if need}
    with iv.explain.count() as work:
        found = reverse(seeds, wanted, create_graph=False)
    return [found.get(slot_of(v)) for v, need in zip(variables, needs, strict=True) if need], work


@given(seed=st.integers(0, 10**6))
def test_every_pattern_of_cotangents_and_needs_agrees_with_the_engine(seed):
    program, arrays = random_program(seed, 5), matrices(seed)
    args = [iv.asarray(a) for a in arrays]
    gradient = differentiate(graph_of(program, *map(aval_of, arrays)))
    rng = np.random.default_rng(seed)
    real = [k for k in gradient.df_input_vjps if k < gradient.f_real_outputs]
    cotangents = [iv.asarray(rng.normal(size=(3, 3))) for _ in range(gradient.f_real_outputs)]
    extra = [False] * (len(gradient.df_input_vjps) - len(real))  # nothing arrives for residuals
    for given_ in itertools.product([False, True], repeat=len(real)):
        defined = [*given_, *extra]
        of_outputs = [k in real and given_[real.index(k)] for k in range(gradient.f_real_outputs)]
        cts = [*(cotangents[k] for k in real), *([None] * len(extra))]
        for needs in itertools.product([False, True], repeat=len(gradient.df_output_vjps)):
            expected, eager_work = eager(program, arrays, cotangents, of_outputs, needs)
            some = [ct for ct, d in zip(cts, defined, strict=True) if d]
            any_of = [ct if d else UNDEFINED for ct, d in zip(cts, defined, strict=True)]
            df, unknown = gradient.df, [None] * len(defined)
            whole, _ = run_df(gradient, df, args, any_of)
            ways = [[x for x, need in zip(whole, needs, strict=True) if need]]
            ways.append(run_df(gradient, check(specialize(df, defined, needs)), args, some)[0])
            ways.append(run_df(gradient, check(lower_grad_of(df, unknown, needs)), args, any_of)[0])
            half = [d if k % 2 else None for k, d in enumerate(defined)]
            given_half = [ct for ct, k in zip(any_of, half, strict=True) if k is not False]
            ways.append(run_df(gradient, check(lower_grad_of(df, half, needs)), args, given_half)[0])
            compiled = simplified(check(lower_grad_of(df, defined, needs)))
            found, work = run_df(gradient, compiled, args, some)
            assert work.products <= eager_work.products
            assert work.multiply_adds <= eager_work.multiply_adds
            for results in (*ways, found):
                for a, e in zip(results, expected, strict=True):
                    assert (a is UNDEFINED or is_absent(a)) == (e is None)
                    if e is not None:
                        close(a, e)


def test_an_op_without_a_derivative_off_the_path():
    f = graph_of(lambda a, b: [a * iv.floor(b), iv.argmax(b)], VECTOR, VECTOR)
    gradient = differentiate(f, [True, False])
    assert regions(gradient.df) == ["multiply"]


def test_a_gradient_of_a_gradient():
    """grad_of and autograd_add run as they stand, and are differentiated again."""
    x, y = matrices(3)
    f = graph_of(lambda a, b: [(iv.sin(a) * b).sum()], aval_of(x), aval_of(y))
    gradient = differentiate(f)

    def first(a, b):
        outputs = interpret(gradient.f, [a, b])
        captured = [(a, b)[k] if kind == "input" else outputs[k] for kind, k in gradient.captures]
        return interpret(
            gradient.df, [iv.ones(()), *[UNDEFINED] * (len(gradient.df_input_vjps) - 1), *captured]
        )

    second = iv.grad(lambda a, b: (first(a, b)[0] ** 2).sum() + first(a, b)[1].sum())
    exact = -np.sin(2 * x) * y**2 + np.cos(x)
    np.testing.assert_allclose(second(iv.asarray(x), iv.asarray(y)).numpy(), exact)


def test_errors():
    f = graph_of(lambda a: [a * 2], VECTOR)
    with pytest.raises(ArgumentError, match="requires_grad"):
        differentiate(f, [True, True])
    df = differentiate(f).df
    with pytest.raises(ArgumentError, match="specialize"):
        specialize(df, [True], [True, True])
    with pytest.raises(ArgumentError, match="specialize"):
        specialize(df, [True] * (len(df.inputs) + 1), [True])
    assert specialize(df, [True] * len(df.inputs), [True]).inputs == df.inputs
