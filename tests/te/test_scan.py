"""Scans: drawn recurrences and their derivatives against loops in Python, known ones against libraries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import te
from iverson.codegen.execution import object_code
from iverson.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from iverson.te.ir.expressions import Var
from iverson.te.ir.index_arithmetic import affine_of
from iverson.te.ir.interpret import run
from iverson.te.ir.nodes import Compute, Domain, Recurrence, Statement
from iverson.te.ir.verify import check
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import EXHAUSTIVE

from .oracles import check_derivatives

rng = np.random.default_rng(0)


# --- drawn recurrences, said once for expressions and for numbers ------------------------------------


class Recurrences:
    """States of one or two, each entry of which is made of earlier ones, of x and of a.

    >>> # s[t, i] = 0.5 * sin(r[t - 2, (i + 1) % m]) + max(s[t - 1, k] * a[k] over k) + x[t, i]
    """

    def __init__(self, draw: Callable[..., Any]) -> None:
        self.one = lambda *options: draw(st.sampled_from(options))
        self.steps, self.width = self.one(1, 2, 5, 6), self.one(1, 3)
        self.states, self.reverse = self.one(1, 2), self.one(False, True)
        self.init = self.one(0.0, 0.75, "first")
        self.terms = [[self.term() for _ in range(self.one(1, 2))] for _ in range(self.states)]
        self.shared = self.one(False, True)

    def term(self) -> Callable[..., Any]:
        which, lag = self.one(*range(self.states)), self.one(1, 1, 2, 3)
        kind, shift = self.one("plain", "sin", "times", "guard", "sum", "max", "prod"), self.one(0, 1)

        def value(F: Any, read: Any, x: Any, a: Any, t: Any, i: Any) -> Any:
            before = t + lag if self.reverse else t - lag
            at = (i + shift) % self.width
            s = read(which, before, at)
            if kind == "plain":
                return s * 0.5
            if kind == "sin":
                return F.sin(s) * a[i]
            if kind == "times":
                return s * x[t, i] * 0.5
            if kind == "guard":
                return F.select(t >= 2, s, x[t, at])
            return F.reduce(
                kind, lambda k: read(which, before, k) * 0.3 + a[k] * (0.2 if kind == "sum" else 0.5)
            )

        return value

    def step(self, n: int, F: Any, read: Any, x: Any, a: Any, t: Any, i: Any) -> Any:
        total = x[t, i]
        for term in self.terms[n]:
            total = total + term(F, read, x, a, t, i)
        return total

    # as expressions

    def built(self, x: Any, a: Any, first: Any) -> tuple[Any, ...]:
        shape = x.shape
        self_ = self

        class F:
            sin, select = staticmethod(te.sin), staticmethod(te.select)

            @staticmethod
            def reduce(kind: str, body: Any) -> Any:
                k = te.reduce_axis(self_.width)
                return getattr(te, kind)(body(k), k)

        def states(*given: Any) -> Any:
            def read(n: int, t: Any, i: Any) -> Any:
                return given[n][t, i]

            made = []
            for n in range(self.states):
                if self.shared and n == 0:  # a tensor between the states, of the same steps
                    between = te.compute(shape, lambda t, i: self.step(0, F, read, x, a, t, i) * 2.0)
                    made.append(te.compute(shape, lambda t, i, b=between: b[t, i] * 0.5))
                else:
                    made.append(te.compute(shape, lambda t, i, n=n: self.step(n, F, read, x, a, t, i)))
            return tuple(made) if self.states > 1 else made[0]

        init = first if self.init == "first" else self.init
        shapes = [shape] * self.states if self.states > 1 else shape
        found = te.scan(shapes, states, init=init, reverse=self.reverse)
        return found if self.states > 1 else (found,)

    def gradient_of_one(self, steps: Any) -> te.Program:
        """In all inputs, of the first state."""
        inputs = placeholders(steps, self.width)
        first = self.built(*inputs)[0]
        head = te.placeholder(first.shape, name="h")
        return te.program_of(te.differentiate(first, inputs, head), (*inputs, head))

    # as loops

    def computed(self, x: Any, a: Any, first: Any) -> list[Any]:
        found = [np.full((self.steps, self.width), np.nan) for _ in range(self.states)]

        def read(n: int, t: int, i: int) -> Any:
            if 0 <= t < self.steps:
                return found[n][t, i]
            return first[i] if self.init == "first" else self.init

        class F:
            sin, select = math.sin, staticmethod(lambda c, p, q: p if c else q)

            @staticmethod
            def reduce(kind: str, body: Any) -> Any:
                each = [body(k) for k in range(self.width)]
                return {"sum": sum, "max": max, "prod": math.prod}[kind](each)

        order = range(self.steps)
        for t in reversed(order) if self.reverse else order:
            for n in range(self.states):
                for i in range(self.width):
                    found[n][t, i] = self.step(n, F, read, x, a, t, i)
        return found


def placeholders(steps: Any, width: Any) -> list[Any]:
    shapes = {"x": (steps, width), "a": (width,), "first": (width,)}
    return [te.placeholder(s, name=n) for n, s in shapes.items()]


def values(steps: int, width: int) -> list[Any]:
    rng = np.random.default_rng(steps + 10 * width)
    return [rng.standard_normal(s) for s in ((steps, width), width, width)]


@given(st.data())
@settings(max_examples=200 if EXHAUSTIVE else 5, deadline=None)
def test_values_and_derivatives_of_drawn_recurrences(data: Any) -> None:
    case = Recurrences(data.draw)
    inputs = placeholders(case.steps, case.width)
    outputs = case.built(*inputs)
    given_ = values(case.steps, case.width)
    expected = case.computed(*given_)
    program = te.program_of(outputs, inputs)
    check(program)
    eliminated = te.eliminate(program)
    check(eliminated)
    for found in (run(program, given_), run(eliminated, given_), lower(eliminated)(*given_)):
        for y, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-12, atol=1e-12)

    # a tangent by differences of the loops; the gradient as its transpose; both compiled
    heads = [te.placeholder(y.shape, name=f"h{k}") for k, y in enumerate(outputs)]
    tangents = [te.placeholder(x.shape, name=f"t_{x.name}") for x in inputs]
    pairs = dict(zip(inputs, tangents, strict=True))
    pushed = te.program_of([te.jvp(y, pairs) for y in outputs], (*inputs, *tangents))
    pulled = te.program_of(te.differentiate(list(outputs), inputs, heads), (*inputs, *heads))
    for p in (pushed, pulled):
        check(te.eliminate(p))
    dx = [np.cos(3 * x) for x in given_]
    g = [np.cos(5 * y) for y in expected]
    dy = lower(te.eliminate(pushed))(*given_, *dx)
    gx = lower(te.eliminate(pulled))(*given_, *g)
    for found, compiled in ((run(pushed, [*given_, *dx]), dy), (run(pulled, [*given_, *g]), gx)):
        for one, other in zip(found, compiled, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    step = 1e-6
    ends = [case.computed(*(x + s * d for x, d in zip(given_, dx, strict=True))) for s in (step, -step)]
    for y, plus, minus in zip(dy, *ends, strict=True):
        np.testing.assert_allclose(y, (plus - minus) / (2 * step), rtol=2e-6, atol=2e-7)
    ours = sum(float((a * b).sum()) for a, b in zip(gx, dx, strict=True))
    theirs = sum(float((a * b).sum()) for a, b in zip(g, dy, strict=True))
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-10)

    # code for any number of steps; of one cotangent, so that those of other states start with what reads them
    alone, some = (case.gradient_of_one(n) for n in (case.steps, te.var("steps")))
    forward = te.program_of(case.built(*some.inputs[:3]), some.inputs[:3])
    arrays = [*given_, g[0]]
    for p, reference in ((forward, expected), (some, run(alone, arrays))):
        code = lower(te.eliminate(p))
        found = code.at(dict.fromkeys(code.program.sizes, case.steps))(*arrays[: len(p.inputs)])
        for one, other in zip(found, reference, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_second_derivatives() -> None:
    x, a, first = placeholders(4, 2)
    k = te.reduce_axis(2)
    y = te.scan(
        x.shape,
        lambda s: te.compute(
            x.shape, lambda t, i: te.sum(te.sin(s[t - 1, k]) * a[k], k) * x[t, i] + s[t - 2, i] * s[t - 1, i]
        ),
        init=first,
    )
    check_derivatives(y, [x, a, first], dict(zip((x, a, first), values(4, 2), strict=True)))


# --- known recurrences --------------------------------------------------------------------------------


def iir(x: Any, b: Any, a: Any) -> Any:
    """scipy.signal.lfilter of second order, a[0] = 1: what is before the first sample is 0."""
    (n,), (taps,) = x.shape, b.shape
    j = te.reduce_axis(taps)
    fed = te.compute((n,), lambda t: te.sum(te.select(t >= j, b[j] * x[te.clamp(t - j, 0, n - 1)], 0.0), j))
    return te.scan((n,), lambda y: te.compute((n,), lambda t: fed[t] - a[1] * y[t - 1] - a[2] * y[t - 2]))


def edit_distance(same: Any) -> Any:
    """Levenshtein by antidiagonals: entry (d, i) is the distance of i and d - i letters."""
    n, m = same.shape

    def cell(d: Any) -> Any:
        def entry(t: Any, i: Any) -> Any:
            j = t - i
            change = (
                d[t - 2, te.clamp(i - 1, 0, n)]
                + 1.0
                - same[te.clamp(i - 1, 0, n - 1), te.clamp(j - 1, 0, m - 1)]
            )
            skip = te.minimum(d[t - 1, te.clamp(i - 1, 0, n)], d[t - 1, i]) + 1.0
            inner = te.minimum(change, skip)
            return te.select((i == 0) | (j == 0), 1.0 * t, te.select((j > 0) & (j <= m), inner, 1e9))

        return te.compute((n + m + 1, n + 1), entry)

    table = te.scan((n + m + 1, n + 1), cell)
    return te.compute((), lambda: table[n + m, n])


def test_a_filter_is_that_of_scipy() -> None:
    op = te.op(iir, name="scan_iir")
    x, b, a = rng.standard_normal(50), rng.standard_normal(3), np.array([1.0, -0.5, 0.3])
    np.testing.assert_allclose(np.asarray(op(x, b, a)), scipy.signal.lfilter(b, a, x), atol=1e-12)
    tracked = [iv.asarray(v, requires_grad=True) for v in (x[:7], b, a)]
    assert iv.testing.gradcheck(op, tracked)


def test_an_edit_distance() -> None:
    def distance(p: str, q: str) -> int:
        row = list(range(len(q) + 1))
        for i, c in enumerate(p, 1):
            row, old = [i], row
            for j, d in enumerate(q, 1):
                row.append(min(old[j] + 1, row[-1] + 1, old[j - 1] + (c != d)))
        return row[-1]

    op = te.op(edit_distance, name="scan_edit_distance")
    for p, q in (("kitten", "sitting"), ("abc", "x"), ("flaw", "lawn")):
        same = np.array([[float(c == d) for d in q] for c in p])
        assert float(op(same).item()) == distance(p, q)


def test_sums_take_linear_work_and_memory_of_a_step() -> None:
    n = 100
    x = te.placeholder((n,), name="x")
    total = te.scan((n,), lambda s: te.compute((n,), lambda t: s[t - 1] + x[t]))
    gradient = te.differentiate(total, x, te.placeholder((n,), name="h"))[0]
    for tensor in (total, gradient):
        visits: list[Any] = []
        program = te.eliminate(tensor)
        run(program, [rng.standard_normal(n) for _ in program.inputs], visits)
        assert sum(v.points for v in visits) <= 3 * n
    found = lower(te.eliminate(total))(np.arange(1.0, n + 1))[0]
    np.testing.assert_array_equal(found, np.cumsum(np.arange(1.0, n + 1)))


def test_integers_and_single_precision() -> None:
    def counted(x: Any) -> Any:
        return te.scan(x.shape, lambda s: te.compute(x.shape, lambda t: s[t - 1] + x[t]), dtype=x.dtype)

    op = te.op(counted, name="scan_counted")
    for dtype in ("int64", "int32", "float32"):
        x = rng.integers(-9, 9, 20).astype(dtype)
        found = np.asarray(op(x))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.cumsum(x, dtype=dtype))


def test_complex_numbers() -> None:
    def rotated(x: Any, a: Any) -> Any:
        return te.scan(
            x.shape, lambda s: te.compute(x.shape, lambda t: s[t - 1] * a[0] + x[t]), dtype=x.dtype
        )

    op = te.op(rotated, name="scan_rotated")
    x, a = (rng.standard_normal(n) + 1j * rng.standard_normal(n) for n in (6, 1))
    expected = scipy.signal.lfilter([1], [1, -a[0]], x)
    np.testing.assert_allclose(np.asarray(op(x, a)), expected, atol=1e-12)
    assert iv.testing.gradcheck(op, [iv.asarray(v, requires_grad=True) for v in (x, a)])


@pytest.mark.parametrize("steps", [0, 1])
def test_few_steps(steps: int) -> None:
    def smooth(x: Any) -> Any:
        return te.scan(
            x.shape, lambda s: te.compute(x.shape, lambda t, i: s[t - 1, i] * 0.5 + x[t, i]), init=2.0
        )

    op = te.op(smooth, name="scan_smooth")
    x = iv.asarray(rng.standard_normal((steps, 3)))
    np.testing.assert_array_equal(np.asarray(op(x)), np.asarray(x) + 1.0)
    np.testing.assert_array_equal(np.asarray(iv.grad(lambda x: op(x).sum())(x)), np.ones((steps, 3)))


# --- among the rest -----------------------------------------------------------------------------------


def gated(x: Any, w: Any, first: Any) -> Any:
    """A recurrent layer: products of the state in every step."""
    (n, _), m = x.shape, w.shape[0]
    k = te.reduce_axis(m)
    return te.scan(
        (n, m),
        lambda h: te.compute((n, m), lambda t, i: te.tanh(te.sum(h[t - 1, k] * w[k, i], k) + x[t, i])),
        init=first,
    )


def looped(x: Any, w: Any, first: Any) -> Any:
    """The same op by op."""
    found, h = [], first
    for t in range(x.shape[0]):
        h = iv.tanh(h @ w + x[t])
        found.append(h)
    return iv.stack(found)


def arguments(n: int = 5, m: int = 3) -> list[Any]:
    return [rng.standard_normal(s) * 0.5 for s in ((n, m), (m, m), (m,))]


def test_every_way_of_running() -> None:
    op = te.op(gated, name="scan_gated")
    given_ = arguments()
    many = [np.stack([a, a * 0.5]) for a in given_]

    def loss(f: Any) -> Any:
        return lambda *args: (f(*args) ** 2).sum()

    gradient, expected = (iv.grad(loss(f), argnums=(0, 1, 2)) for f in (op, looped))
    for way in (gradient, iv.jit(gradient), iv.grad(iv.jit(loss(op)), argnums=(0, 1, 2))):
        for a, b in zip(way(*given_), expected(*given_), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-12)
    for found, other in ((iv.vmap(op)(*many), iv.vmap(looped)(*many)),):
        np.testing.assert_allclose(np.asarray(found), np.asarray(other), rtol=1e-12)
    shared = iv.vmap(gradient, (0, None, None))(many[0], *given_[1:])
    single = [gradient(x, *given_[1:]) for x in many[0]]
    for k, a in enumerate(shared):
        np.testing.assert_allclose(np.asarray(a), np.stack([np.asarray(s[k]) for s in single]), rtol=1e-10)
    hessians = [
        np.asarray(iv.hessian(lambda x, f=f: loss(f)(x, *given_[1:]))(given_[0])) for f in (op, looped)
    ]
    np.testing.assert_allclose(*hessians, rtol=1e-9, atol=1e-11)


def test_a_program_with_a_scan_serves_all_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    plain = object_code.to_object
    monkeypatch.setenv("IVERSON_CACHE", "off")
    monkeypatch.setattr(object_code, "to_object", lambda text, m: (made.append(text), plain(text, m))[1])
    op = te.op(gated, name="scan_gated_lengths")
    first = None
    for n in (4, 9, 5, 12, 7):
        given_ = [iv.asarray(a, requires_grad=True) for a in arguments(n)]
        np.testing.assert_allclose(
            np.asarray(op(*given_).detach()), np.asarray(looped(*given_).detach()), rtol=1e-12
        )
        found = iv.autograd.grad(op(*given_).sum(), given_)
        for a, b in zip(found, iv.autograd.grad(looped(*given_).sum(), given_), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-12)
        first = first or len(made)
    assert len(made) <= 3 * first


def kalman(z: Any, f: Any, q: Any, h: Any, r: Any) -> Any:
    """Means of a state of several numbers, observed by h with a variance r; tensors between two states."""
    (n,), d = z.shape, f.shape[0]
    a = te.reduce_axis(d)

    def step(m: Any, p: Any) -> Any:
        mean = te.compute((n, d), lambda t, i: te.sum(f[i, a] * m[t - 1, a], a))
        half = te.compute((n, d, d), lambda t, i, j: te.sum(f[i, a] * p[t - 1, a, j], a))
        spread = te.compute((n, d, d), lambda t, i, j: te.sum(half[t, i, a] * f[j, a], a) + q[i, j])
        seen = te.compute((n, d), lambda t, i: te.sum(spread[t, i, a] * h[a], a))
        total = te.compute((n,), lambda t: te.sum(seen[t, a] * h[a], a) + r[0])
        error = te.compute((n,), lambda t: z[t] - te.sum(h[a] * mean[t, a], a))
        moved = te.compute((n, d), lambda t, i: mean[t, i] + seen[t, i] / total[t] * error[t])
        less = te.compute((n, d, d), lambda t, i, j: spread[t, i, j] - seen[t, i] * seen[t, j] / total[t])
        return moved, less

    return te.scan([(n, d), (n, d, d)], step, init=[0.0, 1.0])[0]


def kalman_by_loops(z: Any, f: Any, q: Any, h: Any, r: Any) -> Any:
    m, p, found = np.zeros(len(f), f.dtype), np.ones_like(f), []
    for x in z:
        m, p = f @ m, f @ p @ f.T + q
        gain = p @ h / (h @ p @ h + r[0])
        m, p = m + gain * (x - h @ m), p - np.outer(gain, p @ h)
        found.append(m)
    return np.stack(found)


def test_states_of_several_dtypes() -> None:
    """The best path through states: scores, and where each came from, which a scan backwards follows."""

    @te.op(results=2)
    def forward(scores, moves):
        n, m = scores.shape
        k, l = te.reduce_axis(m), te.reduce_axis(m)

        def step(best, _before):
            found = te.compute(
                (n, m),
                lambda t, j: (
                    scores[t, j] + te.select(t == 0, 0.0, te.max(best[t - 1, k] + moves[k, j], axis=k))
                ),
            )
            return found, te.compute((n, m), lambda t, j: te.argmax(best[t - 1, l] + moves[l, j], axis=l))

        return te.scan([(n, m), (n, m)], step, dtype=["float64", "int64"])

    @te.op
    def back(best, before):
        n, m = best.shape
        k = te.reduce_axis(m)
        last = te.compute((), lambda: te.argmax(best[n - 1, k], axis=k))

        def step(path):
            def at(t):
                from_next = before[te.minimum(t + 1, n - 1), te.clamp(path[t + 1], 0, m - 1)]
                return te.select(t == n - 1, last[()], from_next)

            return te.compute((n,), at)

        return te.scan((n,), step, dtype="int64", reverse=True)

    scores, moves = rng.normal(size=(7, 4)), rng.normal(size=(4, 4))
    paths = list(itertools.product(range(4), repeat=7))

    def worth(p):
        return sum(scores[range(7), p]) + sum(moves[a, b] for a, b in itertools.pairwise(p))

    best = max(paths, key=worth)
    ours = forward(scores, moves)
    assert tuple(back(*ours).numpy()) == best
    np.testing.assert_allclose(ours[0].numpy()[-1].max(), worth(best))
    slopes = iv.grad(lambda s: forward(s, moves)[0][-1, best[-1]])(scores)
    np.testing.assert_array_equal(slopes.numpy(), np.eye(4)[list(best)])


def test_a_filter_of_several_numbers_for_several_lengths() -> None:
    """In code for any length, too, cotangents start at zero where only a later step adds to them."""
    op = te.op(kalman, name="scan_kalman")
    for n in (4, 7, 6):
        z = np.random.default_rng(n).standard_normal(n)
        model = [np.array([[1.0, 0.5], [-0.1, 0.9]]), 0.3 * np.eye(2), np.array([1.0, 0.2]), np.array([0.5])]
        np.testing.assert_allclose(op(z, *model).numpy(), kalman_by_loops(z, *model), rtol=1e-12)
        found = iv.grad(lambda *given: (op(*given) ** 2).sum(), argnums=(0, 1, 2, 3, 4))(z, *model)
        for k, g in enumerate(found):
            for at in np.ndindex(g.shape):
                moved = [x.astype(complex) for x in (z, *model)]
                moved[k][at] += 1e-20j
                expected = (kalman_by_loops(*moved) ** 2).sum().imag / 1e-20
                np.testing.assert_allclose(float(g[at].item()), expected, rtol=1e-10, atol=1e-12)


def test_a_scan_of_a_scan() -> None:
    def twice(x: Any) -> Any:
        def sums(y: Any) -> Any:
            return te.scan(x.shape, lambda s: te.compute(x.shape, lambda t: s[t - 1] + y[t]))

        return sums(sums(x))

    op = te.op(twice, name="scan_of_scan")
    x = rng.standard_normal(7)
    np.testing.assert_allclose(np.asarray(op(x)), np.cumsum(np.cumsum(x)), atol=1e-12)
    assert iv.testing.gradcheck(op, [iv.asarray(x, requires_grad=True)])


# --- texts and errors -----------------------------------------------------------------------------------


def test_the_text_of_a_scan() -> None:
    x = te.placeholder((5, 3), name="x")
    s = te.scan(x.shape, lambda s: te.compute(x.shape, lambda t, i: s[t + 1, i] + x[t, i]), "y", reverse=True)
    assert te.program_text(te.program_of([s])).splitlines()[2:] == [
        "for t in 0:5, step by step, downwards:",
        "    for i in 0:3:",
        "        y[t, i] = select(t + 1 < 5, y[t + 1, i], 0.0) + x[t, i]",
    ]
    assert "a step at a time" in te.explain(s)


def steps_of(read: Callable[..., Any], **options: Any) -> Any:
    x = te.placeholder((4, 3), name="x")
    return te.scan(x.shape, lambda s: te.compute(x.shape, lambda t, i: read(s, t, i) + x[t, i]), **options)


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "its own step": (
        lambda: steps_of(lambda s, t, i: s[t, i]),
        ArgumentError,
        "an earlier step, such as t - 1",
    ),
    "a later step": (lambda: steps_of(lambda s, t, i: s[t + 1, i]), ArgumentError, "an earlier step"),
    "an earlier one, reversed": (
        lambda: steps_of(lambda s, t, i: s[t - 1, i], reverse=True),
        ArgumentError,
        r"a later step, such as t \+ 1",
    ),
    "another axis": (lambda: steps_of(lambda s, t, i: s[i, i]), ArgumentError, "steps"),
    "a stride": (lambda: steps_of(lambda s, t, i: s[t // 2, i]), ArgumentError, "minus a number"),
    "a fixed step": (lambda: steps_of(lambda s, t, i: s[0, i]), ArgumentError, "minus a number"),
    "two indices": (lambda: steps_of(lambda s, t, i: s[t - 1]), IndexError, "2, one per axis"),
    "not a tensor": (lambda: te.scan((3,), lambda s: 1.0), ArgumentTypeError, "a te.compute for each"),
    "not a function": (lambda: te.scan((3,), 1.0), ArgumentTypeError, "fscan"),
    "another shape": (
        lambda: te.scan((3,), lambda s: te.compute((4,), lambda t: 1.0 * t)),
        ShapeError,
        r"shape \(3,\)",
    ),
    "another dtype": (
        lambda: te.scan((3,), lambda s: te.compute((3,), lambda t: t)),
        DTypeError,
        "float64, that of the state",
    ),
    "a short init": (
        lambda: steps_of(lambda s, t, i: s[t - 1, i], init=te.placeholder((2,))),
        ShapeError,
        "without its steps",
    ),
    "inits for other states": (
        lambda: te.scan([(3,), (3,)], lambda a, b: (a, b), init=[0.0]),
        ArgumentError,
        "2, one per state",
    ),
    "dtypes for other states": (
        lambda: te.scan([(3,), (3,)], lambda a, b: (a, b), dtype=["float64"] * 3),
        ArgumentError,
        "'dtype': got 3 values; expected 2",
    ),
    "steps that differ": (
        lambda: te.scan([(3,), (4,)], lambda a, b: (a, b)),
        ShapeError,
        "as many for all",
    ),
    "no steps": (lambda: te.scan((), lambda s: s), ShapeError, "the steps as first axis"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_scan_is_refused(name: str) -> None:
    call, kind, message = WRONG[name]
    with pytest.raises(kind, match=message):
        call()


def test_steps_are_counted_from_what_is_written() -> None:
    """The statement that a passing reference of `verify` refuses: a read of a step that is not made yet."""
    t = Var("t", 0, 4)
    recurrence = Recurrence(t, False)
    made = Compute((4,), np.dtype("float64"), "s", (), recurrence)
    body = te.select(t < 3, made[te.clamp(t + 1, 0, 3)], 0.0)
    recurrence.define({made: [Statement(None, (t,), body, Domain((t,)))]})
    assert affine_of(t + 1).const == 1
    with pytest.raises(ArgumentError, match="an earlier step"):
        check(te.program_of([made]))


def test_selections_of_a_scan_are_strong() -> None:
    """Cotangents and tangents that relu leaves out meet no infinite factor, in any step."""
    op = te.op(
        lambda x: te.scan(x.shape, lambda s: te.compute(x.shape, lambda t: s[t - 1] + te.sqrt(x[t]))),
        name="scan_of_roots",
    )
    x = np.array([0.0, 1.0, 2.0, 0.0])
    total = np.asarray(iv.grad(lambda x: iv.relu(op(x) - 1.5).sum())(x))
    np.testing.assert_allclose(total, [np.inf, 1.0, 1 / np.sqrt(2), np.inf])
    first = np.asarray(iv.grad(lambda x: iv.relu(1.5 - op(x)).sum())(x))  # 0 and 1: the first two steps
    np.testing.assert_allclose(first, [-np.inf, -0.5, 0.0, 0.0])
    pushed = iv.jvp(lambda x: op(iv.relu(x)).sum(), (x,), (np.ones(4),))[1]
    np.testing.assert_allclose(float(pushed.item()), 1.5 + np.sqrt(0.5))


# --- against torch ---------------------------------------------------------------------------------------


def ctc(logp: Any, labels: Any) -> Any:
    """The CTC loss of one example: ``labels`` with blanks (0) around them (Graves et al., 2006)."""
    (steps, _), (n,) = logp.shape, labels.shape
    far = -1e30

    def paths(alpha: Any) -> Any:
        def entry(t: Any, s: Any) -> Any:
            own = logp[t, labels[s]]
            two = te.clamp(s - 2, 0, n - 1)
            other = (labels[s] != 0) & (labels[s] != labels[two]) & (s >= 2)
            stay = alpha[t - 1, s]
            one = te.select(s >= 1, alpha[t - 1, te.clamp(s - 1, 0, n - 1)], far)
            skip = te.select(other, alpha[t - 1, two], far)
            most = te.maximum(te.maximum(stay, one), skip)
            total = most + te.log(te.exp(stay - most) + te.exp(one - most) + te.exp(skip - most))
            return own + te.select(t == 0, te.select(s <= 1, 0.0, far), total)

        return te.compute((steps, n), entry)

    alpha = te.scan((steps, n), paths, init=far)
    ends = [alpha[steps - 1, n - 1], alpha[steps - 1, n - 2]]
    return te.compute((), lambda: -(te.maximum(*ends) + te.log1p(te.exp(-te.abs(ends[0] - ends[1])))))


@pytest.mark.peers
def test_ctc_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    op = te.op(ctc, name="scan_ctc")
    for target in ([1, 2, 3], [2, 2, 1], [4]):
        x = np.random.default_rng(1).standard_normal((9, 5))
        labels = np.array([0, *(k for t in target for k in (t, 0))])
        found = iv.value_and_grad(lambda x, at=labels: op(iv.log_softmax(x, axis=1), at))(x)
        given = torch.tensor(x, requires_grad=True)
        loss = torch.nn.functional.ctc_loss(
            given.log_softmax(1)[:, None], torch.tensor([target]), (9,), (len(target),), reduction="sum"
        )
        loss.backward()
        np.testing.assert_allclose(float(found[0].item()), loss.item(), rtol=1e-10)
        np.testing.assert_allclose(np.asarray(found[1]), given.grad.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("order", ["bound first", "data first", "nested"])
def test_a_guard_that_reads_stays_inside_of_the_bounds_around_it(order):
    """Also where the reverse step reads it from the entry that is written: gate[s + 2] for s + 2 < n."""
    rows, n = 3, 5
    gate = np.array([1, 0, 1, 1, 0])

    @te.op
    def gated_walk(x, gate):
        def step(a, t, s):
            before = te.exp(a[t - 1, te.clamp(s - 2, 0, n - 1)])
            inside, chosen = s >= 2, gate[te.clamp(s - 1, 0, n - 1)] > 0
            if order == "nested":
                return te.select(inside, te.select(gate[s - 2] > 0, te.select(chosen, before, 0.0), 0.0), 0.0)
            return te.select(inside & chosen if order == "bound first" else chosen & inside, before, 0.0)

        return te.scan((rows, n), lambda a: te.compute((rows, n), lambda t, s: x[t, s] + step(a, t, s)))

    def by_loops(x):
        a = np.zeros((rows, n), x.dtype)
        for t, s in np.ndindex(rows, n):
            held = s >= 2 and gate[s - 1] > 0 and (order != "nested" or gate[s - 2] > 0)
            a[t, s] = x[t, s] + (np.exp(a[t - 1, s - 2] if t else 0.0) if held else 0.0)
        return a

    x = np.random.default_rng(3).normal(size=(rows, n)) / 3
    np.testing.assert_allclose(gated_walk(iv.asarray(x), gate).numpy(), by_loops(x), rtol=1e-12)
    weights = np.arange(15.0).reshape(rows, n)
    found = iv.grad(lambda x: (gated_walk(x, gate) * weights).sum())(iv.asarray(x))
    steps = np.eye(15).reshape(15, rows, n) * 1e-20j
    expected = [(by_loops(x + h) * weights).sum().imag / 1e-20 for h in steps]
    np.testing.assert_allclose(found.numpy().ravel(), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_state_is_in_the_dtype_of_what_is_read(dtype: str) -> None:
    """A number that it starts with does not make it wider; nor does one state another."""

    @te.op(results=2)
    def running(x: Any, w: Any) -> Any:
        def step(s: Any, v: Any) -> Any:
            speed = te.compute(x.shape, lambda t: 0.5 * v[t - 1] + x[t])
            return te.compute(x.shape, lambda t: s[t - 1] + speed[t] * w[0]), speed

        return te.scan([x.shape, x.shape], step, init=1.0)

    x, w = np.array([1.0, -2.0, 0.5], dtype), np.array([2.0], dtype)
    s, v = running(x, w)
    assert s.dtype == v.dtype == np.dtype(dtype)
    assert v.tolist() == [1.5, -1.25, -0.125]
    assert s.tolist() == [4.0, 1.5, 1.25]
    g = iv.grad(lambda x: running(x, w)[0].sum())(iv.asarray(x))
    assert g.dtype == np.dtype(dtype)
    wide = te.op(
        lambda x, y: te.scan(x.shape, lambda s: te.compute(x.shape, lambda t: s[t - 1] + x[t] * y[t]))
    )
    assert wide(x, np.ones(3)).dtype == np.float64
    assert (
        te.op(lambda x: te.scan(x.shape, lambda s: te.compute(x.shape, lambda t: s[t - 1] + 1.0)))(x).dtype
        == "float64"
    )


@pytest.mark.parametrize("dtype", ["float64", "complex128", "int64"])
def test_products_over_ragged_rows_in_a_scan(dtype: str) -> None:
    """Of a row, of an empty one, and of factors that read the state; derivatives are those of torch."""
    p, v = np.array([0, 2, 2, 5]), np.arange(1, 6).astype(dtype)

    def define(p: te.Tensor, v: te.Tensor) -> te.Compute:
        def entry(s: Any, t: Any) -> Any:
            e = te.reduce_axis((p[t], p[t + 1]), "e")
            return s[t - 1] + te.prod(v[e] - s[t - 1], e)

        return te.scan((3,), lambda s: te.compute((3,), lambda t: entry(s, t)), init=1, dtype=v.dtype)

    s, expected = v.dtype.type(1), []
    for first, last in itertools.pairwise(p):
        s = s + np.prod(v[first:last] - s)
        expected.append(s)
    op = te.op(define)
    for f in (op, iv.jit(op), lambda p, v: iv.vmap(lambda v: op(p, v))(v[None])[0]):
        np.testing.assert_array_equal(f(p, iv.asarray(v)), expected)
    if dtype != "int64":
        torch = pytest.importorskip("torch")

        def theirs(v: Any) -> Any:
            s, total = torch.ones((), dtype=v.dtype), 0
            for first, last in itertools.pairwise(p):
                s = s + torch.prod(v[first:last] - s)
                total = total + s.abs()
            return total

        u = v + v.dtype.type(0.25 if dtype == "float64" else 0.25 + 0.5j)
        u[1] = 1.0 + (u[0] - 1.0) * 0.0  # the second factor of the first row is 0
        tu = torch.tensor(u, requires_grad=True)
        (expected_gradient,) = torch.autograd.grad(theirs(tu), tu)
        f = lambda v: iv.abs(op(p, v)).sum()
        for gradient in (iv.grad(f), iv.jit(iv.grad(f)), iv.grad(iv.jit(f))):
            np.testing.assert_allclose(gradient(iv.asarray(u)), expected_gradient.numpy(), atol=1e-12)
