"""Lowering by formulas gives what lowering gives, at each size; what it reads of arrays is NumPy's."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import te
from iverson.codegen.launches import integer_arguments
from iverson.codegen.programs.nodes import reshaped_strides
from iverson.core.aval import Aval
from iverson.core.table import TABLE
from iverson.expr.symbolic_numbers import Recording
from iverson.graph.ir.nodes import Equation, Value
from iverson.graph.ir.print import text_and_objects
from iverson.graph.lowering import graph_lowering, lowering_formulas
from iverson.graph.lowering.lowering_formulas import with_numbers
from iverson.graph.native.strided_views import AFFINE, IN_ORDER, view
from tests.conformance.product import EXHAUSTIVE, examples, samples_of
from tests.transforms.test_sizes import MODES, arrays, loss_of, random_program


def _as_lists(facts: Any) -> Any:
    return list(map(_as_lists, facts)) if isinstance(facts, (list, tuple)) else facts


class _Counts:
    """Graphs that were lowered, and of these the ones with symbolic numbers; graphs whose facts formulas
    gave, and those whose facts were written to disk."""

    def __init__(self) -> None:
        self.lowered = self.symbolic = self.by_formulas = self.written = 0

    def all(self) -> tuple[int, ...]:
        return self.lowered, self.symbolic, self.by_formulas, self.written


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> _Counts:
    """Counts of a test."""
    found = _Counts()
    known, steps_of = lowering_formulas._Family.known, graph_lowering._steps
    symbolic_of, write_to = lowering_formulas._lowered, graph_lowering.disk_cache.write

    def facts(*args: Any) -> Any:
        result = known(*args)
        found.by_formulas += result is not None
        return result

    def steps(*args: Any) -> Any:
        found.lowered += 1
        return steps_of(*args)

    def symbolic(*args: Any) -> Any:
        found.symbolic += 1
        return symbolic_of(*args)

    def write(*args: Any) -> None:
        found.written += 1
        write_to(*args)

    monkeypatch.setattr(lowering_formulas, "_lowered", symbolic)
    monkeypatch.setattr(graph_lowering.disk_cache, "write", write)
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
    assert counts.all() == (2, 1, 6, 2)


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
    assert counts.all() == (2, 1, 17, 2)  # one size comes twice


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


def _scaled(by: float) -> Any:
    @te.op(name="scaled_of_one_name")
    def scaled(x: Any) -> Any:
        return te.compute(x.shape, lambda i: by * x[i] / x.shape[0])

    return scaled


@te.op
def _averaged(x: Any) -> Any:
    """An op that asks for a number of Python."""
    return te.compute(x.shape, lambda i: x[i] * (1 / int(x.shape[0])))


_SCALED = _scaled(2.0), _scaled(3.0)
_ROW = np.arange(3.0)


def _terms(xp: Any, x: Any) -> Any:
    """A function in which one number more is another one than before, at each extent beyond 20."""
    result = x
    for k in range(7):
        result = result + (k + 2.5 if k < x.shape[0] - 20 else -k - 2.5)
    return result


#: By name: a function over a namespace, the extents of its vectors, call by call, and the counts afterwards.
#: No call has the extents of an earlier one, so each is traced.
COUNTED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], tuple[int, ...]]] = {
    "formulas take the numbers that have changed": (
        lambda xp, x, y: xp.sum(xp.sin(x)) + xp.sum(xp.cos(y)),
        [(30, 20), (31, 20), (32, 20), (32, 21), (33, 22), (34, 20)],
        (3, 2, 3, 3),
    ),
    "what is closed over is no number": (
        lambda xp, x: xp.sum(xp.reshape(x, (-1, 3)) * xp.asarray(_ROW)),
        [(30,), (33,), (36,), (39,)],
        (2, 1, 2, 2),
    ),
    "ops of users are told apart": (
        lambda xp, x: _SCALED[x.shape[0] % 2](x) if xp is iv else (2.0, 3.0)[x.size % 2] * x / x.size,
        [(30,), (32,), (31,), (33,), (34,), (35,)],
        (4, 2, 2, 4),
    ),
    "a number must be Python's": (
        lambda xp, x: _averaged(x) if xp is iv else x / x.size,
        [(30,), (45,), (60,), (64,), (70,), (81,)],
        (6 + lowering_formulas.ESCAPES, lowering_formulas.ESCAPES, 0, 6),
    ),
    "no code is general enough": (
        _terms,
        [(20 + k,) for k in range(8)],
        (8 + 3, integer_arguments.MOST + 3, 0, 8),
    ),
}


@pytest.mark.filterwarnings("ignore::iverson.errors.CompilationWarning")
@pytest.mark.parametrize("name", COUNTED)
def test_what_is_lowered(counts: _Counts, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering_formulas, "MISSES", 3)
    f, calls, expected = COUNTED[name]
    compiled = iv.jit(lambda *xs: f(iv, *xs))
    for extents in calls:
        xs = [np.arange(float(n)) / n for n in extents]
        np.testing.assert_allclose(compiled(*map(iv.asarray, xs)).numpy(), f(np, *xs), rtol=1e-11)
    assert counts.all() == expected


#: Functions of a (5, 4) array: numbers among extents, operands, and parameters of all kinds, also in bodies.
NUMBERED: dict[str, Callable[[Any], Any]] = {
    "operands": lambda x: x * 2 + x * 0.25 - x * -2,
    "extents": lambda x: iv.reshape(iv.concat([x, x]), (2, 20)),
    "slices": lambda x: x[4:1:-1, ::2] + x[::-2, 1:3],
    "axes": lambda x: iv.sum(iv.flip(x, axis=1), axis=-1),
    "bodies": lambda x: iv.scan(lambda c, t: (c + iv.sum(t) * 0.25, iv.concat([t, t])), 0.0, x),
    "branches": lambda x: iv.cond(iv.sum(x) > 7, lambda x: x * 3, lambda x: x[:, ::-1] * 2.5, x),
    "loops": lambda x: iv.while_loop(lambda x: iv.sum(x) < 9, lambda x: x * 2 + 5, x),
}
_NUMBER = re.compile(r"(?<![\w%@.])-?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+)(?![\w.])")


@pytest.mark.parametrize("name", NUMBERED)
def test_numbers_of_a_graph_are_mapped_everywhere(name: str) -> None:
    """But 0, 1 and -1, and references to values."""
    graph = iv.jit(NUMBERED[name]).graph(iv.zeros((5, 4)))
    text = text_and_objects(graph)[0]

    def mapped(found: re.Match[str]) -> str:
        n = ast.literal_eval(found[0])
        return found[0] if type(n) is int and abs(n) <= 1 else repr(n * 100)

    assert text_and_objects(with_numbers(graph, lambda n: n * 100))[0] == _NUMBER.sub(mapped, text)
    assert _NUMBER.sub(mapped, text) != text
    assert text_and_objects(with_numbers(graph, lambda n: n))[0] == text


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
