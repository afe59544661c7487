"""Lowering by formulas gives what lowering gives, at each size; what it reads of arrays is NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.codegen.programs.nodes import reshaped_strides
from iverson.core.aval import Aval
from iverson.core.table import TABLE
from iverson.expr.symbolic_numbers import Recording
from iverson.graph.ir.nodes import Equation, Value
from iverson.graph.lowering import graph_lowering, lowering_formulas
from iverson.graph.lowering.lowering_formulas import with_numbers
from iverson.graph.native.strided_views import AFFINE, IN_ORDER, view
from tests.conformance.product import EXHAUSTIVE, examples, samples_of
from tests.transforms.test_sizes import MODES, arrays, loss_of, random_program


def _as_lists(facts: Any) -> Any:
    return list(map(_as_lists, facts)) if isinstance(facts, (list, tuple)) else facts


class _Counts:
    """Graphs that were lowered, and those whose facts formulas gave."""

    def __init__(self) -> None:
        self.lowered = self.by_formulas = 0


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> _Counts:
    """Counts of a test."""
    found = _Counts()
    known, steps_of = lowering_formulas._Family.known, graph_lowering._steps

    def facts(*args: Any) -> Any:
        result = known(*args)
        found.by_formulas += result is not None
        return result

    def steps(*args: Any) -> Any:
        found.lowered += 1
        return steps_of(*args)

    monkeypatch.setattr(lowering_formulas._Family, "known", facts)
    monkeypatch.setattr(graph_lowering, "_steps", steps)
    monkeypatch.setattr(graph_lowering.disk_cache, "read", lambda key: None)
    return found


@pytest.fixture
def strict(counts: _Counts, monkeypatch: pytest.MonkeyPatch) -> _Counts:
    """Counts of a test, in which facts by formulas are held against those of lowering at the graph's numbers.

    What judges costs is a path condition here: else the two may be judged by other numbers.
    """
    facts_of = lowering_formulas.LoweringFormulas.facts

    def facts(self: Any, graph: Any, how: Any, lower: Any, keep: Any) -> Any:
        before = counts.by_formulas
        result = facts_of(self, graph, how, lower, keep)
        if counts.by_formulas > before:
            key, numbers = lowering_formulas._key_of(graph, how)
            changing = next(x.changing for x in self._graphs[key].formulas if x.at(numbers) is not None)
            count = counts.lowered
            own = lowering_formulas._lowered(graph, numbers, changing, lower, self)
            counts.lowered = count
            assert _as_lists(result) == _as_lists(own.at(numbers))
        return result

    monkeypatch.setattr(Recording, "judge", lambda self, x: x)
    monkeypatch.setattr(lowering_formulas.LoweringFormulas, "facts", facts)
    return counts


@pytest.mark.parametrize("mode", ["values", *MODES])
@pytest.mark.parametrize("seed", range(examples(1) * (20 if EXHAUSTIVE else 1)))
def test_facts_by_formulas_are_those_of_lowering(strict: _Counts, mode: str, seed: int) -> None:
    rng = np.random.default_rng((seed, len(mode)))
    program = random_program(int(rng.integers(1 << 20)), steps=4)
    function: Callable[..., Any] = (
        iv.jit(lambda *args: program(iv, *args))
        if mode == "values"
        else MODES[mode](loss_of(program), iv.jit)
    )
    with np.errstate(all="ignore"):
        for _ in range(30 if EXHAUSTIVE else 5):
            n, m = (int(k) for k in rng.integers(2, 300, 2))
            function(*map(iv.asarray, arrays(n, m, seed)))


def test_a_new_size_is_not_lowered(counts: _Counts) -> None:
    rng = np.random.default_rng(0)

    def loss(w: Any, x: Any, target: Any) -> Any:
        return iv.mean((iv.tanh(x @ w) - target) ** 2) + 0.5 / x.shape[0]

    step = iv.jit(iv.value_and_grad(loss))
    w = iv.asarray(rng.standard_normal((16, 24)))
    for n in (347, 212, 490, 128, 201, 333, 407, 99):
        x, target = rng.standard_normal((n, 16)), rng.standard_normal((n, 24))
        value, gradient = step(w, iv.asarray(x), iv.asarray(target))
        y = np.tanh(x @ w.numpy())
        np.testing.assert_allclose(value.numpy(), ((y - target) ** 2).mean() + 0.5 / n, rtol=1e-12)
        expected = x.T @ (2 * (y - target) / y.size * (1 - y * y))
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-9, atol=1e-13)
    assert (counts.lowered, counts.by_formulas) == (2, 6)


def test_twenty_graphs_of_all_sizes(counts: _Counts) -> None:
    rng = np.random.default_rng(0)

    def loss(w: Any, x: Any, to: Any, of: Any) -> Any:
        n = x.shape[0]
        h = iv.tanh(iv.segment_sum((x @ w)[of], to, num_segments=n) / n)
        return iv.sum(h * h)

    step = iv.jit(iv.value_and_grad(loss))
    w = iv.asarray(rng.standard_normal((16, 8)))
    for n in rng.integers(50, 400, 20).tolist():
        to, of = np.sort(rng.integers(0, n, 4 * n)), rng.integers(0, n, 4 * n)
        x = rng.standard_normal((n, 16))
        value, _ = step(w, iv.asarray(x), iv.asarray(to), iv.asarray(of))
        summed = np.zeros((n, 8))
        np.add.at(summed, to, (x @ w.numpy())[of])
        np.testing.assert_allclose(value.numpy(), (np.tanh(summed / n) ** 2).sum(), rtol=1e-10)
    assert (counts.lowered, counts.by_formulas) == (2, 17)  # one size comes twice


def test_an_extent_that_is_another_one_is_a_family_of_its_own() -> None:
    """Where n is m by chance, nothing is taken from programs of other n and m."""
    function = iv.jit(lambda x, y: iv.sum(x) + iv.sum(y[: x.shape[0]]))
    for n, m in (
        (30, 70),
        (40, 90),
        (41, 77),
        (50, 50),
        (50, 2),
        (2, 50),
        (1, 60),
        (0, 60),
        (60, 0),
        (33, 44),
    ):
        x, y = np.arange(1.0, n + 1), np.arange(1.0, m + 1)
        found = function(iv.asarray(x), iv.asarray(y))
        np.testing.assert_allclose(found.numpy(), x.sum() + y[:n].sum(), rtol=1e-13)


def test_numbers_that_must_be_pythons_are_lowered_each_time() -> None:
    """The transform's length decides its factors; results are right without formulas."""
    function = iv.jit(lambda x: iv.sum(iv.real(iv.fft.fft(x)) ** 2))
    for n in (30, 45, 60, 64, 70, 81, 30):
        x = np.random.default_rng(n).standard_normal(n)
        np.testing.assert_allclose(
            function(iv.asarray(x)).numpy(), (np.fft.fft(x).real ** 2).sum(), rtol=1e-11
        )


def test_numbers_of_a_graph_are_mapped_everywhere() -> None:
    function = iv.jit(lambda x: iv.scan(lambda c, t: (c + iv.sum(t) * 0.25, iv.concat([t, t])), 0.0, x))
    graph = function.graph(iv.zeros((5, 3)))
    text = str(with_numbers(graph, lambda n: n * 100 if type(n) is int else n))
    assert "600" in text
    assert "float64[500, 300]" in text
    assert "length=500" in text
    assert "0.25" in text
    assert str(with_numbers(graph, lambda n: n)) == str(graph)


# --- strides ----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=400)
@given(st.data())
def test_strides_of_a_reshape_are_numpys(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), max_size=4)))
    array = np.zeros([n * data.draw(st.sampled_from([1, 2])) for n in shape], np.int8)
    array = array[tuple(slice(0, n) if data.draw(st.booleans()) else slice(None, None, -1) for n in shape)]
    array = array[tuple(slice(0, n) for n in shape)]
    array = array.transpose(data.draw(st.permutations(range(array.ndim))))
    rest, new = array.size, []
    for _ in range(data.draw(st.integers(0, 3))):
        new.append(data.draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0])))
        rest //= new[-1]
    new = data.draw(st.permutations([*new, rest]))
    try:
        expected = array.reshape(new, copy=False).strides
    except ValueError:
        expected = None
    found = reshaped_strides(array.shape, array.strides, tuple(new))
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert all(n == 1 or a == b for n, a, b in zip(new, found, expected, strict=True))


@pytest.mark.parametrize("name", sorted(AFFINE | IN_ORDER))
def test_views_are_numpys(name: str) -> None:
    """Offset and strides of a view are those of the op's result on an array that lies like its operand."""
    op = TABLE[name]
    assert op.forward is not None
    seen = 0
    for sample in samples_of(op, "float64"):
        x = sample.args[0]
        aval = Aval(x.shape, x.dtype)
        out = op.abstract(aval, **sample.params)
        equation = Equation(op, (Value(aval),), sample.params, (Value(out),))
        found = view(equation, {})
        expected = op.forward(x, **sample.params)
        if expected.size == 0:
            assert found is None
            continue
        assert found is not None
        step = x.itemsize
        seen_by_strides = np.lib.stride_tricks.as_strided(
            x.reshape(-1)[found.offset :], found.shape, [s * step for s in found.strides]
        )
        np.testing.assert_array_equal(seen_by_strides, expected)
        seen += 1
    assert seen
