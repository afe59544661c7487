"""Gradients as graphs: their text, undefined cotangents, needs, and agreement with the eager engine."""

from __future__ import annotations

import itertools
import os
import pathlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.autograd import grad
from iverson.autograd.engine import reverse
from iverson.core.aval import Aval, UnknownShape, aval_of
from iverson.core.counting import work
from iverson.core.dispatch import slot_of, value_of
from iverson.core.entries import FULL, Bracket
from iverson.core.errors import ArgumentError
from iverson.graph.calls.compiled_ops import Compiled
from iverson.graph.derivatives.differentiation import differentiate
from iverson.graph.derivatives.pullback_branches import lower_grad_of
from iverson.graph.derivatives.specialization import specialize
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import UNDEFINED
from iverson.graph.ir.operations import is_absent
from iverson.graph.ir.parse import parse
from iverson.graph.ir.print import show, text_and_objects
from iverson.graph.ir.verify import check
from iverson.graph.lowering.graph_lowering import Native
from iverson.graph.passes import simplified
from iverson.graph.tracing.trace import trace_flat
from iverson.layouts import support_of
from tests.autograd.test_guards import OF_TWO, W
from tests.autograd.test_guards import cotangents as held_in_parts
from tests.conformance.product import EXHAUSTIVE
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


CASES = {
    "product and sum": (product_and_sum, None),
    "three results, one input": (three_results, [True, False]),
}


#: What is known of a cotangent: that it is defined, that it is not, or nothing until the call.
WORDS = {True: "defined", False: "undefined", None: "perhaps"}
TEXTS = pathlib.Path(__file__).with_name("gradients.txt")


def gradient_of(name, *avals):
    f, requires_grad = CASES[name]
    return differentiate(graph_of(f, *avals), requires_grad)


def texts():
    """The gradients of the examples, specialised, lowered, and of unknown shape, by what is said of them."""
    for name in CASES:
        df = gradient_of(name, VECTOR, VECTOR).df
        yield name, df
        for known in itertools.product(WORDS, repeat=2):
            pattern = f"{name}, {' and '.join(WORDS[k] for k in known)}"
            if None not in known:
                yield pattern, specialize(df, known, [True] * len(df.outputs))
            lowered = lower_grad_of(df, known)
            yield f"{pattern}, lowered", lowered
            assert show(lower_grad_of(lowered, [k for k in known if k is not False])) == show(lowered)
        unknown = [Aval(UnknownShape(), np.dtype("float64")) for _ in range(2)]
        yield f"{name}, of unknown shape", gradient_of(name, *unknown).df


def test_the_texts_of_gradients():
    """``IVERSON_UPDATE=1`` writes them down as they are now."""
    found = {}
    for name, graph in texts():
        text, objects = text_and_objects(check(graph))
        assert show(parse(text, objects)) == text
        found[name] = text
    if os.environ.get("IVERSON_UPDATE"):
        TEXTS.write_text("".join(f"# {name}\n{text}\n\n" for name, text in found.items()))
    parts = TEXTS.read_text().split("# ")[1:]
    expected = dict(part.rstrip("\n").split("\n", 1) for part in parts)
    assert found == expected


@pytest.mark.parametrize("name", CASES)
def test_what_a_gradient_says_of_itself(name):
    f, requires_grad = CASES[name]
    gradient = gradient_of(name, VECTOR, VECTOR)
    check(gradient.f)
    assert gradient.f_real_outputs == len(f(1.0, 2.0))
    assert gradient.df_input_vjps == ((0, 1) if requires_grad is None else (1, 2))
    assert gradient.df_output_vjps == ((0, 1) if requires_grad is None else (0,))


def regions(graph):
    return [e.params.get("name", e.op.name) for e in graph.equations]


def test_specialized():
    df = gradient_of("product and sum", VECTOR, VECTOR).df
    only_b = specialize(df, [True, False], [False, True])
    assert len(only_b.equations[0].results) == 1
    for f, count in ((product_and_sum, 2), (lambda a, b: [iv.relu(a)], 1)):
        df = differentiate(graph_of(f, VECTOR, VECTOR), [True, False]).df
        nothing = specialize(df, [False] * count, [True])
        assert nothing.outputs == (UNDEFINED,)
        assert not nothing.equations


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


#: One in so many patterns of cotangents is tried of a program, other ones of the next.
TURNS = 1 if EXHAUSTIVE else 3


@settings(max_examples=500 if EXHAUSTIVE else 17)
@given(seed=st.integers(0, 10**6))
@example(seed=1804)  # a sum of nothing and a zero
def test_every_pattern_of_cotangents_and_needs_agrees_with_the_engine(seed):
    program, arrays = random_program(seed, 5), matrices(seed)
    args = [iv.asarray(a) for a in arrays]
    gradient = differentiate(graph_of(program, *map(aval_of, arrays)))
    rng = np.random.default_rng(seed)
    real = [k for k in gradient.df_input_vjps if k < gradient.f_real_outputs]
    cotangents = [iv.asarray(rng.normal(size=(3, 3))) for _ in range(gradient.f_real_outputs)]
    extra = [False] * (len(gradient.df_input_vjps) - len(real))  # nothing arrives for residuals
    for given_ in [*itertools.product([False, True], repeat=len(real))][seed % TURNS :: TURNS]:
        defined = [*given_, *extra]
        of_outputs = [k in real and given_[real.index(k)] for k in range(gradient.f_real_outputs)]
        cts = [*(cotangents[k] for k in real), *([None] * len(extra))]
        any_of = [ct if d else UNDEFINED for ct, d in zip(cts, defined, strict=True)]
        whole, _ = run_df(gradient, gradient.df, args, any_of)
        for needs in itertools.product([False, True], repeat=len(gradient.df_output_vjps)):
            expected, eager_work = eager(program, arrays, cotangents, of_outputs, needs)
            some = [ct for ct, d in zip(cts, defined, strict=True) if d]
            df, unknown = gradient.df, [None] * len(defined)
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


@pytest.mark.parametrize("seed", range(5))
def test_lowered_gradients_are_one_program_for_all_patterns_of_cotangents(seed):
    """Undefined results are those of the interpreter, and a region that has no cotangent is not run."""
    program, arrays = random_program(seed, 5), matrices(seed)
    args = [iv.asarray(a) for a in arrays]
    gradient = differentiate(graph_of(program, *map(aval_of, arrays)))
    outputs = interpret(gradient.f, args)
    captured = [args[k] if kind == "input" else outputs[k] for kind, k in gradient.captures]
    unknown = [None] * len(gradient.df_input_vjps)
    df = check(lower_grad_of(gradient.df, unknown))
    compiled = Compiled(df, "df")
    rng = np.random.default_rng(seed)
    cotangents = [iv.asarray(rng.normal(size=v.shape)) for v in df.inputs[: len(unknown)]]
    for given_ in itertools.product([False, True], repeat=len(unknown)):
        some = [ct if d else UNDEFINED for ct, d in zip(cotangents, given_, strict=True)]
        with work.counting() as interpreted:
            expected = interpret(df, [*some, *captured])
        with work.counting() as counted:
            found = compiled([*some, *captured])
        assert counted.multiply_adds <= interpreted.multiply_adds
        for a, e in zip(found, expected, strict=True):
            assert (a is UNDEFINED) == (e is UNDEFINED)
            if a is not UNDEFINED:
                close(a, e)
    assert all(isinstance(step, Native) for step in compiled._program.steps)


def test_lowered_gradients_run_in_traces_and_are_differentiated():
    a, b = matrices(3)
    gradient = differentiate(graph_of(product_and_sum, aval_of(a), aval_of(b)))
    df = Compiled(lower_grad_of(gradient.df, [None] * 2), "df")
    outputs = interpret(gradient.f, [iv.asarray(a), iv.asarray(b)])

    def pulled(ct, a, b):
        captured = [(a, b)[k] if kind == "input" else outputs[k] for kind, k in gradient.captures]
        return sum((x * x).sum() for x in df([ct, UNDEFINED, *captured]) if x is not UNDEFINED)

    args = list(map(iv.asarray, (a * 2, a, b)))
    for made in (iv.grad(pulled, (0, 1)), iv.jit(iv.grad(pulled, (0, 1)))):
        ct, d_a = made(*args)
        close(ct, iv.asarray(2 * args[0].numpy() * (b**2 + a**2)))
        close(d_a, iv.asarray(8 * a**3))


@pytest.mark.parametrize("name", OF_TWO)
def test_zeros_of_an_input_do_not_last(name):
    """As in eager code: what is zero in an input is not cut out of a gradient, nor out of its derivative."""
    for _, s in held_in_parts():
        given = s.detach(), iv.asarray(np.arange(1.0, 10.0).reshape(3, 3) / 5)
        graph = graph_of(
            lambda *x: [OF_TWO[name](*x)], *(Aval(x.shape, x.dtype, support_of(value_of(x))) for x in given)
        )
        gradient, args = differentiate(graph), [x.detach().requires_grad_() for x in given]
        outputs = interpret(gradient.f, args)
        captured = [args[k] if kind == "input" else outputs[k] for kind, k in gradient.captures]
        residuals = [UNDEFINED] * (len(gradient.df_input_vjps) - 1)
        found = interpret(gradient.df, [W, *residuals, *captured])
        dense = [iv.asarray(x.to_dense().numpy(), requires_grad=True) for x in given]
        expected = grad([OF_TWO[name](*dense)], dense, [W], create_graph=True)
        for a, b in zip(found, expected, strict=True):
            close(a.detach(), b.detach())
            for x, y in zip(second(a, args), second(b, dense), strict=True):
                close(x, y)


def second(first, args):
    """The gradients of a gradient, no entries of which weigh the same."""
    return grad([iv.sum(first * (2 * W - 1))], args)


def test_what_leaves_is_selected_or_undefined():
    df = differentiate(graph_of(lambda a, b: [iv.relu(a)], VECTOR, VECTOR)).df
    first, other = df.outputs
    assert other is UNDEFINED
    assert not isinstance(first.aval.support, Bracket)


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


@pytest.mark.parametrize("way", [lambda f: iv.jit(iv.grad(f)), lambda f: iv.grad(iv.jit(f)), iv.grad])
@pytest.mark.parametrize("index", [np.array(1), np.array(1, "uint8")])
def test_an_index_of_rank_0_is_captured(way, index):
    """What rules compute of it is a number for NumPy."""
    x = np.arange(6.0).reshape(3, 2)
    found = way(lambda a: (a[index][:1] ** 2).sum())(iv.asarray(x))
    np.testing.assert_array_equal(found.numpy(), [[0, 0], [4, 0], [0, 0]])


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
