"""What derivatives of compiled functions read is kept: nothing that a call computed is computed again."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.core.aval import aval_of
from iverson.core.counting import work
from iverson.graph.derivatives.differentiation import differentiate
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import UNDEFINED
from iverson.graph.tracing.trace import trace_flat
from tests.conformance.product import EXHAUSTIVE, some
from tests.graph.fitting import as_real
from tests.graph.programs import as_tuple
from tests.graph.table_programs import AROUND, called, sampled_calls, table_program
from tests.graph.test_on_patterns import W, X, dense, drawn, smooth, while_below


def twice(f):
    return iv.grad(lambda *args: sum((y.to_dense() ** 2).sum() for y in iv.grad(f, (0, 1))(*args)), (0, 1))


def along(f):
    return lambda s, x, w: iv.jvp(lambda x: f(s, x, w), (x,), (x,))[1]


#: By name: a function whose derivatives read what is neither an operand nor a result, and which derivatives.
KEPT = {
    "entries": (lambda s, x, w: (iv.sin(iv.sin(s)) @ x).sum(), (iv.grad, twice, along)),
    "computed values": (
        lambda s, x, w: (iv.tanh(s.with_values(iv.sin(s.values() * 2)) @ x) ** 2).sum(),
        (iv.grad, twice, along),
    ),
    "transposed": (lambda s, x, w: smooth(s, iv.sin(x.mT).mT, w), (iv.grad, twice, along)),
    "a part": (lambda s, x, w: (iv.sin(s)[:2] @ iv.cos(x) @ w)[:1].sum(), (iv.grad, twice, along)),
    "a loop": (lambda s, x, w: while_below(s, iv.sin(x)) @ w, (along,)),
}


@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize("name", KEPT)
def test_derivatives_compute_what_eager_ones_do(name):
    """Each op as often, values that are put on patterns aside."""
    f, derivatives = KEPT[name]
    given = drawn("csr"), iv.asarray(X), iv.asarray(W)
    for derivative in derivatives:
        counts, found = [], []
        for g in (derivative(f), derivative(iv.jit(f, interpret=True))):
            g(*given)
            with work.counting() as counted:
                found.append(g(*given))
            counts.append({op: counted.calls[op] for op in ("sin", "cos", "tanh", "matmul")})
        assert counts[0] == counts[1]
        for a, b in zip(*map(dense, found), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def without_cotangents(f, args):
    """Of what is kept for the pullback of a function, by number: what moves with the arguments, and moves the
    pullback, and yet is given no cotangent: differentiated again, the pullback would lose it."""
    graph, captured, _ = trace_flat(lambda *h: (list(as_tuple(f(*h))), None), list(map(aval_of, args)))
    given = [*args, *captured]
    gradient = differentiate(graph, [k < len(args) for k in range(len(given))])
    real, outputs = gradient.f_real_outputs, gradient.f.outputs
    apart = [k for k in range(real, len(outputs)) if k not in gradient.df_input_vjps]
    apart = [k for k in apart if outputs[k].dtype.kind in "fc" and ("output", k) in gradient.captures]
    if not apart:
        return []

    def kept(*args):
        found = interpret(gradient.f, [*args, *captured])
        return tuple(found[k] for k in apart)

    tangents = iv.jvp(kept, tuple(args), tuple(a * 0.5 + 1 for a in args))[1]
    values = interpret(gradient.f, given)
    seeds = [values[k] * 0.5 + 1 if k < real else UNDEFINED for k in gradient.df_input_vjps]

    def pullback(x, n):
        own = [given[k] if kind == "input" else x if k == n else values[k] for kind, k in gradient.captures]
        found = interpret(gradient.df, [*seeds, *own])
        return tuple(as_real(y.to_dense() * 1.0) for y in found if y is not UNDEFINED)

    moved = {
        n: iv.jvp(lambda x, n=n: pullback(x, n), (values[n],), (t,))[1]
        for n, t in zip(apart, tangents, strict=True)
    }
    return [n for n, found in moved.items() if any(np.nan_to_num(y.numpy()).any() for y in found)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
class TestEachKeptValueHasACotangent:
    """A pullback reads it, and depends on the arguments through it."""

    @pytest.mark.parametrize("selects", [False, True])
    def test_values_of_a_pattern_taken_from_what_is_multiplied_as_well(self, selects):
        """What is kept for a matrix is the entries that it was made of, here entries of the argument."""
        s = iv.asarray(np.array([[1.0, 0, 2, 0], [0, 0, 3, 0], [4, 0, 0, 5]])).to_layout("csr")
        places = np.arange(5) % 4
        y = iv.asarray([0.3, -0.2, 0.7, 0.9])

        def f(y):
            values = iv.where(y > 0, y, 0.0) if selects else y
            return (s.with_values(iv.take(values, places)) @ y * iv.asarray([0.5, 1.0, 1.5])).sum()

        one = 0 if selects else 0.5
        expected = [[1.0, 0, 0, 3], [0, 0, one, 0], [0, one, 2, 0], [3, 0, 0, 0]]
        for g in (f, iv.jit(f, interpret=True), iv.jit(f)):
            np.testing.assert_allclose(iv.hessian(g)(y).numpy(), expected, rtol=1e-12)
        assert without_cotangents(f, [y]) == []

    @pytest.mark.parametrize("kind", AROUND)
    def test_of_constructs(self, kind):
        rng = np.random.default_rng(len(kind))
        args = [iv.asarray(rng.normal(size=shape)) for shape in ((3, 2), (4,))]
        for name in some(kind, ("sin", "where", "matmul")):
            for call in sampled_calls(name)[:1]:
                for how in range(12 if EXHAUSTIVE else 2):

                    def f(p, q, call=call, how=how):
                        x = AROUND[kind](called(call, how), p, q, how) * 1.0
                        return x, AROUND[kind](called(call, how), q, q, how) * x.sum()

                    assert without_cotangents(f, args) == []

    @pytest.mark.parametrize("block", range(40 if EXHAUSTIVE else 1))
    def test_of_random_programs(self, block):
        for seed in range(7_300_000 + 25 * block, 7_300_000 + 25 * (block + 1)):
            program, arrays = table_program(seed)
            assert without_cotangents(program, list(map(iv.asarray, arrays))) == [], seed
