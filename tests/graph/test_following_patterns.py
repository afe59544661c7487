"""Patterns that follow from those of a call (unions, rows, diagonals): found when a program runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.graph.lowering.graph_lowering import Native
from iverson.transforms.pytree_tracing import TracedFunction
from tests.conformance.product import EXHAUSTIVE, by_turns

pytestmark = pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
X = iv.asarray(np.random.default_rng(1).standard_normal((6, 6)))

#: On a pattern that is known when a function is traced.
KNOWN = iv.asarray(np.eye(6, k=1) + 2 * np.eye(6, k=-3)).to_layout("csr")

#: Of matrices of one shape, one of that shape on a pattern of its own: the ops that programs are drawn from.
STEPS = {
    "add": lambda s, t: s + t,
    "subtract": lambda s, t: s - 2 * t,
    "multiply": lambda s, t: s * t,
    "maximum": iv.maximum,
    "sum of three": lambda s, t: s + t + s.mT,
    "transposed": lambda s, _: s.mT * 2,
    "rows moved": lambda s, _: iv.roll(s, 2, axis=0),
    "flipped": lambda s, _: iv.flip(s, axis=1),
    "triangle": lambda s, _: iv.tril(s, k=1),
    "parts joined": lambda s, t: iv.concat([s[1:4], t[:3]]),
    "columns joined": lambda s, t: iv.concat([s[:, ::2], t[:, 3:]], axis=1),
    "diagonal": lambda s, t: t * iv.diagonal(s),
    "reshaped": lambda s, _: iv.reshape(iv.reshape(s, (4, 9)), (6, 6)),
    "rows chosen": lambda s, _: iv.take(s, iv.asarray([5, 0, 0, 2, 1, 3]), axis=0),
    "a row for all": lambda s, t: s * t[1] + t[0:1],
    "entry by entry": lambda s, _: iv.sin(s),
    "stacked": lambda s, t: iv.stack([s, t])[1] + s,
}
#: What ends a program: a number's parts are read, entries, products, lines.
ENDS = {
    "itself": lambda s: s,
    "product": lambda s: s @ X,
    "lines": lambda s: s.sum(axis=0),
    "entries": lambda s: s.to_dense() * X,
    "pairs": lambda s: iv.kron(s, s[:2, :2]).sum(axis=1),
}
#: Numbers of entries of the calls of a program, of its two operands.
COUNTS = ((12, 8), (12, 8), (5, 12), (0, 7), (1, 1), (36, 20), (0, 0))


def drawn(rng, layout, count):
    """At so many places, in COO in no order, with entries stored twice where there are several."""
    at = rng.permutation(36)[:count]
    if layout == "coo" and count > 4:
        at = rng.permutation(np.concatenate([at[2:], at[2:4]]))
    index = np.divmod(at, 6)
    s = iv.sparse_coo_tensor(index, rng.standard_normal(at.size), (6, 6))
    return s if layout == "coo" else s.to_layout(layout, blocksize=(2, 3) if layout == "bsr" else None)


def program(names, end):
    def f(s, t):
        for name in names:
            s, t = STEPS[name](s, t), s
        return ENDS[end](s)

    return f


def first(f):
    return iv.grad(lambda s, t: (f(s, t).to_dense() ** 3).sum(), (0, 1))


def second(f):
    g = first(f)
    return iv.grad(lambda s, t: sum((x.to_dense() ** 2).sum() for x in g(s, t)), 0)


def dense(x):
    return [np.asarray(y.to_dense().numpy()) for y in (x if isinstance(x, tuple) else (x,))]


def agree(found, expected):
    for a, b in zip(dense(found), dense(expected), strict=True):
        scale = max(np.abs(b).max(initial=0), 1)
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12 * scale)


@pytest.fixture(scope="module")
def traces():
    """How many times functions were traced."""
    counted = []
    plain = TracedFunction._trace
    TracedFunction._trace = lambda *args: counted.append(1) or plain(*args)
    yield counted
    TracedFunction._trace = plain


def check(f, layout, seed, traces, counts=COUNTS):
    """Eager = interpreted = compiled over changing patterns, all steps native, and traced for the first call
    alone: once for its numbers of entries and once for any."""
    rng, compiled, oracle = np.random.default_rng(seed), iv.jit(f), iv.jit(f, interpret=True)
    for k, pair in enumerate(counts):
        s, t = (drawn(rng, layout, n) for n in pair)
        traces.clear()
        found = compiled(s, t)
        assert len(traces) == (0 if k else 2)
        expected = f(s, t)
        agree(found, expected)
        if 1 < k < 4:
            agree(oracle(s, t), expected)
    assert {s for e in compiled._entries.values() for s in steps(e.compiled)} == {"native"}


def steps(compiled):
    """The steps of what ran: "native", or a library op's name."""
    each = [compiled, *compiled._fitted.values()]
    made = [s for c in each if c._program is not None for s in c._program.steps]
    return ["native" if isinstance(s, Native) else s.equation.op.name for s in made]


@pytest.mark.parametrize("name", by_turns(STEPS))
def test_ops_that_make_patterns_are_native_and_traced_once_for_all_patterns(name, traces):
    k = list(STEPS).index(name)
    layout, end = ("csr", "coo", "csc")[k % 3], list(ENDS)[k % len(ENDS)]
    check(program([name], end), layout, k, traces)


@given(
    st.lists(st.sampled_from(list(STEPS)), min_size=2, max_size=3),
    st.sampled_from(list(ENDS)),
    st.sampled_from(["csr", "coo", "bsr"]),
    st.sampled_from([None, first, second]),
    st.integers(0, 99),
)
@settings(max_examples=50 if EXHAUSTIVE else 2, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_programs_agree_with_eager_calls_over_changing_patterns(traces, names, end, layout, derived, seed):
    f = program(names, end)
    check(f if derived is None else derived(f), layout, seed, traces, COUNTS[1:6])


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_patterns_that_follow_from_a_constant_too(layout):
    """Of which one may store nothing, so that the other is what follows, whose indices are narrower."""

    def program(s, t):
        return (KNOWN + s) + iv.maximum(KNOWN, t)

    for f in (program, first(program)):
        rng, compiled = np.random.default_rng(3), iv.jit(f)
        for pair in COUNTS:
            s, t = (drawn(rng, layout, n) for n in pair)
            agree(compiled(s, t), f(s, t))


def test_a_cotangent_of_ones_is_stored_on_any_pattern(traces):
    compiled = iv.jit(iv.grad(lambda s: (s * s * 2).sum()))
    for k in range(3):
        s = drawn(np.random.default_rng(k), "csr", 8)
        traces.clear()
        agree(compiled(s), 4 * s)
        assert len(traces) == (0 if k else 2)
