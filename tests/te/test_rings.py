"""Memory of recurrences: the last steps alone, where nobody reads earlier ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iverson import te
from iverson.te.ir.interpret import run
from iverson.te.lowering.statement_lowering import lower

from . import corpus_recurrences  # noqa: F401  (enters its kernels)
from .test_corpus import Case


def numbers(code: Any) -> dict[str, tuple[Any, ...]]:
    """Shape of the memory of each tensor, by name."""
    return {b.label: b.shape for b in code.buffers.values()}


def test_an_elimination_takes_two_matrices_and_its_gradient_all_of_them() -> None:
    case = Case("lu")
    code, feed = case.lowered(case.outputs)
    n = case.outputs[0].shape[0]
    assert numbers(code)["s"] == (2, n, n)
    assert max(int(np.prod(shape)) for shape in numbers(code).values()) <= 2 * n * n
    np.testing.assert_allclose(code(*feed)[0], case.values(case.outputs)[0], rtol=1e-12)
    gradient, _ = case.lowered(case.gradients(case.wanted))
    assert numbers(gradient)["s"] == (n, n, n)


def test_a_table_takes_two_rows() -> None:
    case = Case("transducer")
    code, feed = case.lowered(case.outputs)
    steps, places, _ = case.given[0].shape
    assert numbers(code)["a"] == (2, places) != (steps, places)
    np.testing.assert_allclose(code(*feed)[0], case.values(case.outputs)[0], rtol=1e-12)


#: Lags that are read inside, ages of the steps that are read afterwards, and the steps that are stored.
READS = [(1, 0, 2), (1, 1, 2), (2, 0, 3), (3, 2, 4), (1, 3, 4)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("steps", "lag", "age", "kept"), [(n, *r) for n in (1, 3, 9) for r in READS if r[1] < n]
)
def test_rings_are_as_long_as_what_is_read(steps: int, lag: int, age: int, kept: int, reverse: bool) -> None:
    x = te.placeholder((steps, 4), name="x")
    back = -lag if reverse else lag

    def step(s: Any) -> te.Compute:
        return te.compute(x.shape, lambda t, i: te.sin(s[t - back, 3 - i]) + x[t, i])

    s = te.scan(x.shape, step, "s", init=0.5, reverse=reverse)
    last = age if reverse else steps - 1 - age
    y = te.compute((4,), lambda i: s[last, i] * 2.0, "y")
    program = te.program_of([y])
    code = lower(te.eliminate(program))
    value = np.random.default_rng(0).standard_normal(x.shape)
    np.testing.assert_allclose(code(value)[0], run(program, [value])[0], rtol=1e-12)
    assert numbers(code)["s"] == ((kept, 4) if steps >= 2 * kept else (steps, 4))


def test_a_step_from_the_middle_keeps_all() -> None:
    x = te.placeholder((20, 4), name="x")
    s = te.scan(x.shape, lambda s: te.compute(x.shape, lambda t, i: s[t - 1, i] + x[t, i]), "s")
    code = lower(te.eliminate(te.program_of([te.compute((4,), lambda i: s[7, i] * 2.0)])))
    assert numbers(code)["s"] == (20, 4)
    both = lower(te.eliminate(te.program_of([te.compute((4,), lambda i: s[19, i] * 2.0), s])))
    assert numbers(both)["s"] == (20, 4)


def test_rings_serve_all_lengths() -> None:
    @te.op
    def last(x: Any) -> Any:
        s = te.scan(x.shape, lambda s: te.compute(x.shape, lambda t, i: 0.5 * s[t - 1, i] + x[t, i]))
        return te.compute((x.shape[1],), lambda i: s[x.shape[0] - 1, i])

    for n in (1, 2, 5, 9, 30, 17):
        x = np.random.default_rng(n).standard_normal((n, 3))
        weights = 0.5 ** np.arange(n)[::-1]
        np.testing.assert_allclose(np.asarray(last(x)), weights @ x, rtol=1e-12, atol=1e-12)
