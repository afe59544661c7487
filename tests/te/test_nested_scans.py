"""Recurrences along several axes, and scans inside of scans: against loops in Python and complex steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.core.errors import ArgumentError, ShapeError

Array = np.ndarray[Any, Any]


def hold(define: Any, oracle: Callable[..., Array], *values: Array, all_modes: bool = True) -> None:
    """Value and gradient of an op are those of analytic loops in Python; so are tangents, products with the
    Hessian, and gradients under jit and vmap, in ``all_modes``.
    """
    op = te.op(define)
    rng = np.random.default_rng(3)
    expected = oracle(*values)
    np.testing.assert_allclose(np.asarray(op(*values)), expected, rtol=1e-12, atol=1e-13)
    head = rng.standard_normal(expected.shape)
    moves = [rng.standard_normal(v.shape) for v in values]

    def loss(*args: Any) -> Any:
        return iv.sum(op(*args) * head)

    places = tuple(range(len(values)))
    given = [iv.asarray(v) for v in values]
    tangents = [iv.asarray(v) for v in moves]
    moved = oracle(*(v + 1e-30j * m for v, m in zip(values, moves, strict=True))).imag / 1e-30
    along = float((moved * head).sum())
    gradient = iv.grad(loss, argnums=places)
    for found in (gradient(*given), *([iv.jit(gradient)(*given)] if all_modes else [])):
        pulled = sum((np.asarray(g) * m).sum() for g, m in zip(found, moves, strict=True))
        np.testing.assert_allclose(pulled, along, rtol=1e-10, atol=1e-12)
    if not all_modes:
        return
    pushed = iv.jvp(op, tuple(given), tuple(tangents))[1]
    np.testing.assert_allclose(np.asarray(pushed), moved, rtol=1e-10, atol=1e-12)
    _, second = iv.jvp(gradient, tuple(given), tuple(tangents))
    step = 1e-5
    ahead, behind = (
        gradient(*(iv.asarray(v + s * m) for v, m in zip(values, moves, strict=True))) for s in (step, -step)
    )
    for h, a, b in zip(second, ahead, behind, strict=True):
        np.testing.assert_allclose(
            np.asarray(h), (np.asarray(a) - np.asarray(b)) / (2 * step), rtol=1e-6, atol=1e-7
        )
    batch = [iv.asarray(np.stack([v, v + 0.1])) for v in values]
    both = iv.vmap(gradient)(*batch)
    for g, single in zip(both, gradient(*(iv.asarray(v + 0.1) for v in values)), strict=True):
        np.testing.assert_allclose(np.asarray(g)[1], np.asarray(single), rtol=1e-12, atol=1e-13)


SHAPES = [(0, 3), (3, 0), (1, 1), (4, 1), (5, 7)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reverse", [False, True])
def test_neighbours_above_beside_and_across(shape: tuple[int, int], reverse: bool) -> None:
    back = -1 if reverse else 1

    def table(x: Any, w: Any) -> Any:
        def step(s: Any) -> Any:
            def entry(i: Any, j: Any) -> Any:
                across = s[i - back, j - back] * w[0] + s[i - back, j + back] * w[1]
                return te.sin(across + s[i - back, j] * x[i, j]) + s[i, j - back] * w[2] + x[i, j]

            return te.compute(x.shape, entry)

        return te.scan(x.shape, step, init=0.25, reverse=reverse, axis=(0, 1))

    def loops(x: Array, w: Array) -> Array:
        n, m = x.shape
        s = np.full((n + 2, m + 2), 0.25, np.result_type(x, w))
        order = (range(n), range(m))
        for i in reversed(order[0]) if reverse else order[0]:
            for j in reversed(order[1]) if reverse else order[1]:
                p, q = i + 1, j + 1
                across = s[p - back, q - back] * w[0] + s[p - back, q + back] * w[1]
                s[p, q] = np.sin(across + s[p - back, q] * x[i, j]) + s[p, q - back] * w[2] + x[i, j]
        return s[1:-1, 1:-1]

    rng = np.random.default_rng(0)
    hold(table, loops, rng.standard_normal(shape), rng.standard_normal(3), all_modes=shape == (5, 7))


@pytest.mark.parametrize("shape", [(1, 1), (4, 5)])
def test_sums_over_rows_before_are_made_for_a_row_at_once(shape: tuple[int, int]) -> None:
    n, m = shape

    def rows(x: Any, w: Any) -> Any:
        k = te.reduce_axis(m)

        def step(s: Any) -> Any:
            before = te.compute(shape, lambda i, j: te.sum(s[i - 1, k] * w[k, j], k))
            return te.compute(shape, lambda i, j: te.tanh(before[i, j] + s[i, j - 1]) + x[i, j])

        return te.scan(shape, step, axis=(0, 1))

    def loops(x: Array, w: Array) -> Array:
        s = np.zeros((n + 1, m + 1), np.result_type(x, w))
        for i in range(n):
            before = s[i, 1:] @ w
            for j in range(m):
                s[i + 1, j + 1] = np.tanh(before[j] + s[i + 1, j]) + x[i, j]
        return s[1:, 1:]

    rng = np.random.default_rng(0)
    hold(rows, loops, rng.standard_normal(shape), rng.standard_normal((m, m)), all_modes=shape == (4, 5))
    x, w = te.placeholder(shape, name="x"), te.placeholder((m, m), name="w")
    text = te.program_text(te.program_of([rows(x, w)]))
    if shape == (4, 5):
        assert "    for j in 0:5:\n        for k" in text.replace("k0", "k"), text


@pytest.mark.parametrize("sweeps", [0, 1, 3])
def test_sweeps_of_gauss_and_seidel_are_along_three_axes(sweeps: int) -> None:
    shape = (sweeps, 4, 5)

    def solved(f: Any, start: Any) -> Any:
        def step(u: Any) -> Any:
            def entry(t: Any, i: Any, j: Any) -> Any:
                new = u[t, i - 1, j] + u[t, i, j - 1]
                old = u[t - 1, te.clamp(i + 1, 0, 3), j] + u[t - 1, i, te.clamp(j + 1, 0, 4)]
                return 0.25 * (new + old + f[i, j]) + 0.1 * te.sin(u[t - 1, i, j])

            return te.compute(shape, entry)

        return te.scan(
            shape,
            step,
            init=lambda t, i, j: te.select((t < 0) & (i >= 0) & (j >= 0), start[i, j], 0.0),
            axis=(0, 1, 2),
        )

    def loops(f: Array, start: Array) -> Array:
        u, all_sweeps = start.astype(np.result_type(f, start)), []
        for _ in range(sweeps):
            before = u.copy()
            for i in range(4):
                for j in range(5):
                    new = (u[i - 1, j] if i else 0) + (u[i, j - 1] if j else 0)
                    old = before[min(i + 1, 3), j] + before[i, min(j + 1, 4)]
                    u[i, j] = 0.25 * (new + old + f[i, j]) + 0.1 * np.sin(before[i, j])
            all_sweeps.append(u.copy())
        return np.array(all_sweeps).reshape(shape)

    rng = np.random.default_rng(0)
    hold(solved, loops, rng.standard_normal((4, 5)), rng.standard_normal((4, 5)), all_modes=False)


def test_affine_gaps_are_three_states() -> None:
    """Gotoh, 1982, with a smooth maximum."""

    def score(x: Any) -> Any:
        n, m = x.shape

        def soft(*parts: Any) -> Any:
            return te.log(sum((te.exp(p) for p in parts), start=0.0))

        def step(h: Any, e: Any, f: Any) -> Any:
            across = te.compute((n, m), lambda i, j: soft(h[i, j - 1] - 2.0, e[i, j - 1] - 0.5))
            down = te.compute((n, m), lambda i, j: soft(h[i - 1, j] - 2.0, f[i - 1, j] - 0.5))
            best = te.compute((n, m), lambda i, j: soft(h[i - 1, j - 1] + x[i, j], across[i, j], down[i, j]))
            return best, across, down

        h, _, _ = te.scan([(n, m)] * 3, step, init=[0.0, -1.0, -1.0], axis=(0, 1))
        return h

    def loops(x: Array) -> Array:
        n, m = x.shape
        h, e, f = (np.full((n + 1, m + 1), v, x.dtype) for v in (0.0, -1.0, -1.0))
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                e[i, j] = np.log(np.exp(h[i, j - 1] - 2) + np.exp(e[i, j - 1] - 0.5))
                f[i, j] = np.log(np.exp(h[i - 1, j] - 2) + np.exp(f[i - 1, j] - 0.5))
                h[i, j] = np.log(
                    np.exp(h[i - 1, j - 1] + x[i - 1, j - 1]) + np.exp(e[i, j]) + np.exp(f[i, j])
                )
        return h[1:, 1:]

    hold(score, loops, np.random.default_rng(0).standard_normal((4, 6)), all_modes=False)


@pytest.mark.parametrize("shape", [(0, 2), (1, 1), (4, 3)])
def test_a_scan_in_a_step_reads_the_state_around_it(shape: tuple[int, int]) -> None:
    steps, inner = shape

    def nested(x: Any, w: Any) -> Any:
        def step(s: Any) -> Any:
            def inside(q: Any) -> Any:
                return te.compute(shape, lambda t, u: te.sin(q[t, u - 1] * w[u] + s[t - 1] * x[t, u]))

            q = te.scan(shape, inside, axis=1, init=0.1)
            k = te.reduce_axis(inner)
            total = te.compute((steps,), lambda t: te.sum(q[t, k] * w[k], k))
            return te.compute((steps,), lambda t: q[t, inner - 1] + 0.3 * total[t] * s[t - 1])

        return te.scan((steps,), step, init=0.3)

    def loops(x: Array, w: Array) -> Array:
        s, states = 0.3, []
        for row in x:
            q, total = 0.1, 0.0
            for u in range(inner):
                q = np.sin(q * w[u] + s * row[u])
                total = total + q * w[u]
            s = q + 0.3 * total * s
            states.append(s)
        return np.array(states, np.result_type(x, w))

    rng = np.random.default_rng(0)
    hold(nested, loops, rng.standard_normal(shape), rng.standard_normal(inner), all_modes=shape == (4, 3))


def test_two_scans_in_a_step_follow_each_other_in_either_direction() -> None:
    """Smoothing forwards and backwards in each step, with a vector in each place."""
    shape = (3, 5, 2)

    def smoothed(x: Any, a: Any) -> Any:
        def step(s: Any) -> Any:
            def ahead(p: Any) -> Any:
                return te.compute(
                    shape, lambda t, u, i: a[i] * p[t, u - 1, i] + te.tanh(s[t - 1, u, i]) + x[t, i]
                )

            def behind(q: Any) -> Any:
                return te.compute(
                    shape, lambda t, u, i: a[i] * q[t, u + 1, i] * forwards[t, 0, 1 - i] + forwards[t, u, i]
                )

            forwards = te.scan(shape, ahead, axis=1)
            return te.scan(shape, behind, axis=1, reverse=True)

        return te.scan(shape, step, init=0.2)

    def loops(x: Array, a: Array) -> Array:
        steps, length, n = shape
        dtype = np.result_type(x, a)
        s, states = np.full((length, n), 0.2, dtype), []
        for t in range(steps):
            p, q = np.zeros((length + 1, n), dtype), np.zeros((length + 1, n), dtype)
            for u in range(length):
                p[u] = a * (p[u - 1] if u else 0) + np.tanh(s[u]) + x[t]
            for u in reversed(range(length)):
                q[u] = a * q[u + 1] * p[0, ::-1] + p[u]
            s = q[:length]
            states.append(s)
        return np.array(states)

    rng = np.random.default_rng(0)
    hold(smoothed, loops, rng.standard_normal((3, 2)), rng.uniform(0.1, 0.5, 2), all_modes=False)


def test_steps_may_be_along_any_axis() -> None:
    @te.op
    def sums(x: Any) -> Any:
        return te.scan(x.shape, lambda s: te.compute(x.shape, lambda i, t: s[i, t - 1] + x[i, t]), axis=1)

    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(np.asarray(sums(x)), np.cumsum(x, 1))


def test_edit_distance_of_words() -> None:
    @te.op
    def distance(a: Any, b: Any) -> Any:
        n, m = a.shape[0], b.shape[0]

        def step(d: Any) -> Any:
            def entry(i: Any, j: Any) -> Any:
                near = te.minimum(d[i - 1, j], d[i, j - 1]) + 1
                return te.minimum(near, d[i - 1, j - 1] + te.select(a[i] == b[j], 0, 1))

            return te.compute((n, m), entry)

        init = lambda i, j: te.maximum(i, j) + 1
        return te.scan((n, m), step, init=init, dtype="int64", axis=(0, 1))

    words = [b"kitten", b"sitting", b"saturday", b"sunday", b"a"]
    for a in words:
        for b in words:
            d = np.asarray(distance(np.frombuffer(a, "uint8"), np.frombuffer(b, "uint8")))
            expected = np.add.outer(np.arange(len(a) + 1), np.arange(len(b) + 1))
            for i, p in enumerate(a, 1):
                for j, q in enumerate(b, 1):
                    near = min(expected[i - 1, j], expected[i, j - 1]) + 1
                    expected[i, j] = min(near, expected[i - 1, j - 1] + (p != q))
            np.testing.assert_array_equal(d, expected[1:, 1:])


def test_steps_that_are_not_earlier_are_refused() -> None:
    x = te.placeholder((4, 5), name="x")

    def scan(entry: Any, **how: Any) -> Any:
        return te.scan(
            (4, 5), lambda s: te.compute((4, 5), lambda i, j: entry(s, i, j) + x[i, j]), "s", **how
        )

    with pytest.raises(ArgumentError, match=r"axis=\(0, 1\)"):
        scan(lambda s, i, j: s[i, j - 1])
    for entry in (lambda s, i, j: s[i, j], lambda s, i, j: s[i, j + 1], lambda s, i, _: s[i, 4]):
        with pytest.raises(ArgumentError, match="a read of s"):
            scan(entry, axis=(0, 1))
    with pytest.raises(ArgumentError, match="an earlier step"):
        scan(lambda s, i, j: s[i + 1, j - 1], axis=(0, 1))
    for axis in ((), (0, 0), (-1,)):
        with pytest.raises(ArgumentError, match="one axis, or several different ones"):
            scan(lambda s, i, j: s[i - 1, j], axis=axis)
    with pytest.raises(ShapeError, match="the steps as axis 2"):
        scan(lambda s, i, j: s[i - 1, j], axis=2)


def test_a_loop_inside_that_needs_its_own_result_is_refused() -> None:
    def step(s: Any) -> Any:
        k = te.reduce_axis(5)
        row = te.compute((4, 5), lambda i, j: s[i, j - 1])
        total = te.compute((4,), lambda i: te.sum(row[i, k], k))
        return te.compute((4, 5), lambda i, j: row[i, j] + total[i])

    with pytest.raises(ArgumentError, match="steps that its own loop makes"):
        te.scan((4, 5), step, "s", axis=(0, 1))
