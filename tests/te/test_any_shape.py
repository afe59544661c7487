"""One program for all shapes of an op: as the program of each shape, made a few times at most."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import te
from iverson.codegen.execution import object_code
from iverson.errors import IndexingError
from iverson.te.ir.expressions import at_sizes
from iverson.te.ir.index_arithmetic import normal_extent, same_extent
from iverson.te.ir.interpret import run
from iverson.te.language.definitions import bind
from iverson.te.lowering import shape_polymorphism

from . import shapes

SHAPES = 200 if os.environ.get("IVERSON_TEST_ALL") else 10


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is compiled, without the cache on disk."""
    made: list[str] = []
    plain = object_code.to_object
    monkeypatch.setenv("IVERSON_CACHE", "off")
    monkeypatch.setattr(object_code, "to_object", lambda text, m: (made.append(text), plain(text, m))[1])
    return made


def three_stages(x: Any, w: Any, b: Any) -> Any:
    (n, k), m = x.shape, w.shape[1]
    r, q = te.reduce_axis(k), te.reduce_axis(m)
    h = te.compute((n, m), lambda i, j: te.sum(x[i, r] * w[r, j], r))
    z = te.compute((n, m), lambda i, j: te.F.tanh(h[i, j] + b[j]))
    return te.compute((n - 2,), lambda i: te.sum(z[i, q] * z[i + 2, q], q))


def test_a_three_stage_op_and_its_gradients_on_many_shapes(compiled: list[str]) -> None:
    op = te.op(three_stages, name="three_stages")
    rng = np.random.default_rng(0)
    kernels = None
    for _ in range(SHAPES):
        n, k, m = map(int, rng.integers(3, 30, 3))
        x, w, b = rng.normal(size=(n, k)), rng.normal(size=(k, m)), rng.normal(size=m)
        given = [iv.asarray(a, requires_grad=True) for a in (x, w, b)]
        y = op(*given)
        gradients = iv.autograd.grad(y.sum(), given)
        z = np.tanh(x @ w + b)
        np.testing.assert_allclose(np.asarray(y.detach()), (z[:-2] * z[2:]).sum(1), atol=1e-12)
        g = np.zeros_like(z)
        g[:-2] += z[2:]
        g[2:] += z[:-2]
        g *= 1 - z * z
        for found, expected in zip(gradients, (g @ w.T, x.T @ g, g.sum(0)), strict=True):
            np.testing.assert_allclose(np.asarray(found), expected, atol=1e-10)
        kernels = kernels or len(compiled)
    assert len(compiled) <= 3 * kernels


# --- as the program of each shape -------------------------------------------------------------------


class Definitions:
    """Definitions of a matrix and an index array, for any extents."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self.one = lambda *options: draw(st.sampled_from(options))
        self.steps = [self.step() for _ in range(self.one(1, 2))]

    def step(self) -> Callable[..., Any]:
        by, flipped, how = self.one(0, 1, 2), self.one(False, True), self.one("sum", "sum", "max", "prod")
        number = self.one(1.0, -0.5)

        def shifted(t: Any, at: Any) -> Any:
            n, m = t.shape
            row = (lambda i: n - 1 - i) if flipped else (lambda i: i + by)
            return te.compute((n - by, m), lambda i, j: te.F.sin(t[row(i), j]) * number + t[i, j])

        def centred(t: Any, at: Any) -> Any:
            r = te.reduce_axis(t.shape[1])
            s = te.compute(t.shape[:1], lambda i: getattr(te, how)(t[i, r], r))
            return te.compute(t.shape, lambda i, j: t[i, j] - s[i] * number)

        def gathered(t: Any, at: Any) -> Any:
            return te.compute((at.shape[0], t.shape[1]), lambda e, j: t[at[e], j] * number)

        def scattered(t: Any, at: Any) -> Any:
            domain = (at.shape[0], t.shape[1])
            found = te.scatter(t.shape, domain, lambda e, j: ((at[e], j), t[at[e], j] * number))
            return te.compute(t.shape, lambda i, j: found[i, j] + t[i, j])

        def product(t: Any, at: Any) -> Any:
            r = te.reduce_axis((by, t.shape[0]))
            return te.compute((t.shape[1], t.shape[1]), lambda i, j: te.sum(t[r, i] * t[r, j] * 0.1, r))

        def windowed(t: Any, at: Any) -> Any:
            r = te.reduce_axis(2 + by)
            return te.compute(
                (t.shape[0] - 1 - by, t.shape[1]), lambda i, j: te.sum(te.F.sin(t[i + r, j]) * (r + 1), r)
            )

        def padded(t: Any, at: Any) -> Any:
            n, m = t.shape
            return te.compute((n, m + by), lambda i, j: te.select(j < m, t[i, te.clamp(j, 0, m - 1)], 0.0))

        def guarded(t: Any, at: Any) -> Any:
            return te.compute(t.shape, lambda i, j: te.select(j <= i + by, t[i, j], 0.0))

        def asking(t: Any, at: Any) -> Any:
            n, m = t.shape
            if n in (4, m):
                return te.compute((m, n), lambda i, j: t[j, i])
            return te.compute((n, m), lambda i, j: t[i, m - 1 - j])

        return self.one(shifted, windowed, centred, gathered, scattered, product, padded, guarded, asking)

    def __call__(self, x: Any, at: Any) -> Any:
        t = x
        for step in self.steps:
            t = step(t, at)
        return t


@settings(deadline=None, max_examples=3 if SHAPES < 200 else 400)
@given(st.data(), st.integers(0, 2**31))
def test_any_shape_as_each_shape(data: st.DataObject, seed: int) -> None:
    define = Definitions(data.draw)
    op = te.op(define.__call__, name="any_shape_as_each_shape")
    rng = np.random.default_rng(seed)
    for n, m, k in ((7, 11, 5), (8, 9, 7), (9, 9, 10)):
        x, at = rng.uniform(-1, 1, (n, m)), rng.integers(0, 3, k)
        X, A = te.placeholder((n, m), name="X"), te.placeholder((k,), "int64", "at")
        output = define(X, A)
        head = rng.uniform(-1, 1, output.shape)
        H = te.placeholder(output.shape, name="H")
        program = te.program_of([output, *te.differentiate(output, [X], H)], [X, A, H])
        y, dx = run(program, [x, at, head])
        given = iv.asarray(x, requires_grad=True)
        found = op(given, at)
        np.testing.assert_allclose(np.asarray(found.detach()), y, rtol=1e-9, atol=1e-9)
        (gradient,) = iv.autograd.grad(found, [given], [iv.asarray(head)])
        np.testing.assert_allclose(np.asarray(gradient), dx, rtol=1e-9, atol=1e-9)


def test_the_adjoint_of_a_window_has_one_kernel(compiled: list[str]) -> None:
    """Guards that leave out only the edge are masks, whatever the size; each shape is still exact."""

    @te.op(name="smoothed")
    def smoothed(x: Any, w: Any) -> Any:
        (n, m), (k, q) = x.shape, w.shape
        r, s = te.reduce_axis(k), te.reduce_axis(q)
        return te.compute((n - k + 1, m - q + 1), lambda i, j: te.sum(x[i + r, j + s] * w[r, s], [r, s]))

    w = np.arange(6.0).reshape(3, 2)
    kernels = []
    for n, m in ((20, 31), (25, 22), (40, 17), (4, 3), (3, 2)):
        x = iv.asarray(np.ones((n, m)), requires_grad=True)
        y = smoothed(x, w)
        (gradient,) = iv.autograd.grad(y.sum(), [x])
        expected = np.zeros((n, m))
        for r in range(3):
            for s in range(2):
                expected[r : n - 2 + r, s : m - 1 + s] += w[r, s]
        np.testing.assert_allclose(np.asarray(gradient), expected)
        kernels.append(len(compiled))
    assert kernels[0] > 0
    assert kernels[1:] == [2 * kernels[0]] * 4


def test_guards_that_leave_an_end_of_a_range_that_may_be_empty() -> None:
    """The first or last value of a range is no value of it where the range has none."""

    def summed(x: Any, t: Any, where: Any) -> Any:
        return te.compute((3,), lambda i: te.sum(te.bracket(where) * x[t] * (i + 1.0), t))

    @te.op(name="second")
    def second(x: Any) -> Any:
        t = te.reduce_axis((1, x.shape[0]))
        return summed(x, t, t < 2)

    @te.op(name="third_last")
    def third_last(x: Any) -> Any:
        t = te.reduce_axis(x.shape[0] - 2)
        return summed(x, t, t >= x.shape[0] - 3)

    for n in (5, 6, 7, 2, 3, 1):
        x, by = np.arange(1.0, n + 1), np.arange(1.0, 4)
        np.testing.assert_array_equal(np.asarray(second(x)), x[1:2].sum() * by)
        if n > 1:
            np.testing.assert_array_equal(np.asarray(third_last(x)), x[n - 3 : n - 2].sum() * by * (n > 2))


def test_errors_are_those_of_the_shape() -> None:
    @te.op(name="reads_fifth")
    def fifth(x: Any, at: Any) -> Any:
        return te.compute(x.shape, lambda i: x[i] + x[4] + x[at[0]])

    for n in (5, 6, 7):
        np.testing.assert_array_equal(
            np.asarray(fifth(np.arange(float(n)), np.array([1]))), np.arange(n) + 5.0
        )
    with pytest.raises(IndexingError, match="axis 0"):
        fifth(np.ones(4), np.array([1]))
    for n in (8, 9):
        with pytest.raises(IndexingError, match="at"):
            fifth(np.ones(n), np.array([n]))
    assert np.asarray(fifth(np.ones(12), np.array([11]))).shape == (12,)


def test_no_entries_and_one() -> None:
    @te.op(name="rows_summed")
    def total(x: Any) -> Any:
        k = te.reduce_axis(x.shape[1])
        return te.compute(x.shape[:1], lambda i: te.sum(x[i, k], k))

    for shape in [(4, 3), (5, 6), (0, 3), (3, 0), (1, 1), (1, 7), (9, 1), (0, 0)]:
        np.testing.assert_array_equal(np.asarray(total(np.ones(shape))), np.full(shape[0], shape[1]))


# --- sizes ------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(1, 30), min_size=3, max_size=3), min_size=2, max_size=5))
def test_sizes_give_the_last_shape(seen: list[list[int]]) -> None:
    own, sizes = shape_polymorphism._as_sizes([tuple(s) for s in seen])
    values = {v: v.typical for v in sizes}
    assert [at_sizes(n, values) if not isinstance(n, int) else n for n in own] == seen[-1]
    for s in seen:  # and all others, with other values
        at = {v: n for v, n in zip(own, s, strict=True) if v in values}
        assert [at_sizes(n, at) if not isinstance(n, int) else n for n in own] == s


def test_sizes_are_bound_in_names_that_statements_share() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n - 1,), lambda i: A[i] * A[i + 1], "B")
    H = te.placeholder((n - 1,), name="H")
    (gradient,) = te.differentiate(B, [A], H)
    own = [te.placeholder((k,), name="x") for k in (5, 4)]
    again = te.compute((4,), lambda i: own[0][i] * own[0][i + 1], "B")
    (expected,) = te.differentiate(again, [own[0]], own[1])
    assert te.program_of(bind([gradient], {n: 5})).key() == te.program_of([expected]).key()


def test_extents_in_normal_form() -> None:
    n = te.var("n")
    assert same_extent(n + 2 - 2, n)
    assert not same_extent(n + 1, n)
    assert normal_extent(n - n + 3) == 3


def test_an_operand_of_one_entry_is_read_at_a_place_that_is_known() -> None:
    """Then fewer operands are read than by the code for all shapes, or in another order."""

    @te.op(name="looked_up")
    def looked_up(x: Any, at: Any, y: Any) -> Any:
        n = x.shape[0]
        return te.compute(at.shape, lambda e: x[at[e] % n] * y[e] + x[n - 1])

    for n in (3, 5, 1, 4, 1):
        x, at, y = np.arange(1.0, n + 1), np.array([2, 0, 9]), np.array([1.0, 10.0, 100.0])
        expected = x[at % n] * y + x[-1]
        np.testing.assert_allclose(looked_up(x, at, y).numpy(), expected)
        g = iv.grad(lambda x, at=at, y=y: (looked_up(x, at, y) * y).sum())(iv.asarray(x))
        gradient = np.bincount(at % n, y * y, n)
        gradient[-1] += y.sum()
        np.testing.assert_allclose(g.numpy(), gradient)


def test_conditions_on_the_step_may_be_on_sizes() -> None:
    @te.op(name="stepped")
    def stepped(x: Any, y: Any) -> Any:
        n, m = y.shape[0], x.shape[0]

        def step(s: Any) -> Any:
            def entry(t: Any) -> Any:
                early = te.select(t < n, s[t - 1] * 0.5, 0.0)
                return early + te.select(t >= n - 2, x[t], te.select(t == 1, 1.0, 0.0))

            return te.compute((m,), entry)

        return te.scan((m,), step)

    for n in (3, 5, 2, 9):
        x, s, expected = np.arange(1.0, 8.0), 0.0, []
        for t in range(7):
            s = (s * 0.5 if t < n else 0.0) + (x[t] if t >= n - 2 else float(t == 1))
            expected.append(s)
        np.testing.assert_allclose(stepped(x, np.zeros(n)).numpy(), expected)


@pytest.mark.parametrize("seed", range(1, 2) if SHAPES < 200 else range(200))
def test_random_ops_give_on_several_shapes_what_they_give_on_each(seed: int) -> None:
    shapes.hold(seed)
