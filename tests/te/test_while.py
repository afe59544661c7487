"""`te.while_`: values and gradients against loops in Python, the steps that are run, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import cg as scipy_cg

import iverson as iv
from iverson import te
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from iverson.te.lowering.lowered_program import Run
from iverson.te.lowering.statement_lowering import lower

STEPS = 30


@te.op
def root(a: Any) -> Any:
    n = (STEPS, a.shape[0])
    return te.while_(
        n,
        lambda s: te.compute(n, lambda t, i: te.abs(s[t - 1, i] ** 2 - a[i]) > 1e-13 * a[i]),
        lambda s: te.compute(n, lambda t, i: 0.5 * (s[t - 1, i] + a[i] / s[t - 1, i])),
        init=a,
    )


def conjugate_gradients(a: Any, b: Any, steps: int = STEPS) -> Any:
    """Hestenes and Stiefel, 1952."""
    n = b.shape[0]
    shape = (steps, n)
    k, j, l, m = (te.reduce_axis(n) for _ in range(4))

    def far(x: Any, r: Any, p: Any) -> Any:
        return te.compute((steps,), lambda t: te.sum(r[t - 1, k] ** 2, k) > 1e-20)

    def body(x: Any, r: Any, p: Any) -> Any:
        image = te.compute(shape, lambda t, i: te.sum(a[i, k] * p[t - 1, k], k))
        square = te.compute((steps,), lambda t: te.sum(r[t - 1, j] ** 2, j))
        length = te.compute((steps,), lambda t: square[t] / te.sum(p[t - 1, l] * image[t, l], l))
        rest = te.compute(shape, lambda t, i: r[t - 1, i] - length[t] * image[t, i])
        turn = te.compute((steps,), lambda t: te.sum(rest[t, m] ** 2, m) / square[t])
        return (
            te.compute(shape, lambda t, i: x[t - 1, i] + length[t] * p[t - 1, i]),
            rest,
            te.compute(shape, lambda t, i: rest[t, i] + turn[t] * p[t - 1, i]),
        )

    return te.while_([shape] * 3, far, body, init=[0.0, b, b])[0]


def system(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((n, n))
    return a @ a.T + n * np.eye(n), rng.standard_normal(n)


def test_each_entry_ends_by_itself() -> None:
    a = np.array([2.0, 4.0, 1e6, 0.3])
    np.testing.assert_allclose(np.asarray(root(a)), np.sqrt(a), rtol=1e-12)
    gradient = iv.grad(lambda a: iv.sum(root(a)))
    for found in (gradient(iv.asarray(a)), iv.jit(gradient)(iv.asarray(a))):
        np.testing.assert_allclose(np.asarray(found), 0.5 / np.sqrt(a), rtol=1e-8)
    tangent = iv.jvp(root, (iv.asarray(a),), (iv.asarray(np.ones(4)),))[1]
    np.testing.assert_allclose(np.asarray(tangent), 0.5 / np.sqrt(a), rtol=1e-8)
    batch = np.stack([a, 2 * a])
    np.testing.assert_allclose(np.asarray(iv.vmap(root)(iv.asarray(batch))), np.sqrt(batch), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_one_condition_ends_the_loop(n: int) -> None:
    a, b = system(n)
    op = te.op(conjugate_gradients)
    expected, _ = scipy_cg(a, b, rtol=1e-14, atol=0)
    x = np.asarray(op(a, b))
    np.testing.assert_allclose(x, expected, rtol=1e-10)
    head = np.random.default_rng(1).standard_normal(n)
    of_a, of_b = iv.grad(lambda a, b: iv.sum(op(a, b) * head), argnums=(0, 1))(iv.asarray(a), iv.asarray(b))
    adjoint = np.linalg.solve(a, head)
    np.testing.assert_allclose(np.asarray(of_b), adjoint, rtol=1e-8, atol=1e-10)
    symmetric = np.asarray(of_a) + np.asarray(of_a).T  # the method is for symmetric matrices
    outer = np.outer(adjoint, x)
    np.testing.assert_allclose(symmetric, -outer - outer.T, rtol=1e-4, atol=1e-7)


def test_the_number_of_steps_is_that_of_a_loop_in_python() -> None:
    """Of Collatz' sequences (integers), and the gradient of a product over as many steps."""

    @te.op(results=2)
    def steps(n: Any, w: Any) -> Any:
        shape = (200, n.shape[0])

        def body(k: Any, count: Any, total: Any) -> Any:
            number = te.compute(
                shape, lambda t, i: te.select(k[t - 1, i] % 2 == 0, k[t - 1, i] // 2, 3 * k[t - 1, i] + 1)
            )
            more = te.compute(shape, lambda t, i: count[t - 1, i] + 1)
            return number, more, te.compute(shape, lambda t, i: total[t - 1, i] * w[i])

        def open_(k: Any, count: Any, total: Any) -> Any:
            return te.compute(shape, lambda t, i: k[t - 1, i] != 1)

        _, count, total = te.while_(
            [shape] * 3, open_, body, init=[n, 0, 1.0], dtype=["int64", "int64", None]
        )
        return count, total

    numbers, w = np.array([1, 6, 7, 27]), np.array([0.9, 1.1, 0.8, 1.01])
    expected = []
    for k in numbers.tolist():
        count = 0
        while k != 1:
            k, count = (k // 2 if k % 2 == 0 else 3 * k + 1), count + 1
        expected.append(count)
    count, total = steps(numbers, w)
    np.testing.assert_array_equal(np.asarray(count), expected)
    np.testing.assert_allclose(np.asarray(total), w ** np.array(expected), rtol=1e-12)
    gradient = np.asarray(iv.grad(lambda w: iv.sum(steps(numbers, w)[1]))(iv.asarray(w)))
    np.testing.assert_allclose(gradient, np.array(expected) * w ** (np.array(expected) - 1.0), rtol=1e-10)


def test_steps_that_are_not_taken_cost_no_sums() -> None:
    """The loop over a matrix is under the condition of its step, and states are rings of two steps."""
    a, b = te.placeholder((6, 6), name="a"), te.placeholder((6,), name="b")
    code = lower(te.eliminate(te.program_of([conjugate_gradients(a, b)])))
    lines = code.source.splitlines()
    matrix = next(k for k, line in enumerate(lines) if "[i0, i1]" in line and "acc" in line)
    condition = next(line for line in reversed(lines[:matrix]) if line.lstrip().startswith("if"))
    assert "not" not in condition
    assert "step" in condition
    assert all(
        extent <= 6 for s in code.steps if isinstance(s, Run) for t in s.kernel.buffers for extent in t.shape
    )


def test_no_steps_leave_the_state_as_it_begins() -> None:
    a = np.array([4.0, 9.0])

    def never(steps: int) -> Any:
        n = (steps, 2)

        @te.op
        def run(a: Any) -> Any:
            return te.while_(
                n,
                lambda s: te.compute((steps,), lambda t: s[t - 1, 0] < 0),
                lambda s: te.compute(n, lambda t, i: te.log(s[t - 1, i] - 100)),
                init=a,
            )

        return run

    for steps in (0, 1, 5):
        np.testing.assert_array_equal(np.asarray(never(steps)(a)), a)
        run = never(steps)
        gradient = np.asarray(iv.grad(lambda a, run=run: iv.sum(run(a) ** 2))(iv.asarray(a)))
        np.testing.assert_array_equal(gradient, 2 * a)


def test_what_is_wrong_is_said() -> None:
    a = te.placeholder((3,), name="a")
    n = (5, 3)
    body = lambda s: te.compute(n, lambda t, i: s[t - 1, i])
    with pytest.raises(ArgumentTypeError, match=r"te\.compute of bools"):
        te.while_(n, lambda s: s[0, 0] > 1, body, init=a)
    with pytest.raises(DTypeError, match="expected bools"):
        te.while_(n, lambda s: te.compute((5,), lambda t: s[t - 1, 0]), body, init=a)
    with pytest.raises(ShapeError, match="one for each step"):
        te.while_(n, lambda s: te.compute((3,), lambda i: a[i] > 0), body, init=a)
    holds = lambda s: te.compute((5,), lambda t: s[t - 1, 0] > 0)
    with pytest.raises(ShapeError, match="shape"):
        te.while_(n, holds, lambda s: te.compute((5,), lambda t: s[t - 1, 0]), init=a)
    with pytest.raises(ArgumentTypeError, match="fscan"):
        te.while_(n, holds, lambda s: None, init=a)
    with pytest.raises(ArgumentError, match="an earlier step"):
        te.while_(n, holds, lambda s: te.compute(n, lambda t, i: s[t, i]), init=a)
    with pytest.raises(ArgumentTypeError, match="condition"):
        te.while_(n, 3, body, init=a)
