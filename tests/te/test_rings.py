"""Memory of recurrences: the last steps alone, where nobody reads earlier ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from iverson import te
from iverson.te.ir.interpret import run
from iverson.te.lowering.statement_lowering import lower

from . import corpus_recurrences  # noqa: F401  (enters its kernels)
from .corpus import KERNELS
from .test_corpus import Case


def numbers(code: Any) -> dict[str, tuple[Any, ...]]:
    """Shape of the memory of each tensor, by name."""
    return {b.label: b.shape for b in code.buffers.values()}


def entries(code: Any) -> int:
    """Numbers in the memory of a program; tensors may share it."""
    return sum(int(np.prod(shape)) for shape in {b.name: b.shape for b in code.buffers.values()}.values())


def test_an_elimination_takes_two_matrices() -> None:
    case = Case("lu")
    code, feed = case.lowered(case.outputs)
    n = case.outputs[0].shape[0]
    assert numbers(code)["s"] == (2, n, n)
    assert max(int(np.prod(shape)) for shape in numbers(code).values()) <= 2 * n * n
    np.testing.assert_allclose(code(*feed)[0], case.values(case.outputs)[0], rtol=1e-12)


def test_a_gradient_of_an_elimination_takes_matrices() -> None:
    """Of earlier steps, an adjoint reads the row and the column of the pivot alone."""
    x, head = te.placeholder((256, 256), name="x"), te.placeholder((256, 256), name="head")
    lu = KERNELS["lu"].define(x)
    (gradient,) = te.differentiate(lu, x, head)
    code = lower(te.eliminate(te.program_of([lu, gradient])))
    assert entries(code) <= 12 * 256**2
    assert numbers(code)["s"] == numbers(code)["dlu/ds"] == (2, 256, 256)


#: Steps, and the indices that are read of each of them after all: the slices that are stored, or nothing.
SLICES: dict[str, tuple[Callable[[Any, Any, Any], Any], int]] = {
    "column": (lambda s, t, i: s[t, i, t], 1),
    "column ahead": (lambda s, t, i: te.select(t + 1 < 12, s[t, i, te.clamp(t + 1, 0, 11)], 0.0), 1),
    "column behind": (lambda s, t, i: te.select(t >= 1, s[t, i, te.clamp(t - 1, 0, 11)], 0.25), 1),
    "row": (lambda s, t, i: s[t, t, i], 1),
    "row and column": (lambda s, t, i: s[t, t, i] * s[t, i, t] + s[11, i, 2], 2),
    "row of the step before": (lambda s, t, i: te.select(t >= 1, s[te.maximum(t - 1, 0), t, i], 0.5), 1),
    "what is no slice": (lambda s, t, i: s[t, t, i] + s[t, 3, i], 0),
    "a slice by twice the step": (lambda s, t, i: s[t, i, te.minimum(2 * t, 11)], 0),
}


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SLICES)
def test_slices_of_earlier_steps_are_stored(name: str, reverse: bool, dtype: str) -> None:
    read, count = SLICES[name]
    if name == "row and column" and reverse:
        count = 3  # step 11 is the first one then: of it, the entries (i, 2) are a slice
    x, back, n = te.placeholder((12, 12), dtype, "x"), -1 if reverse else 1, 12

    def step(s: Any) -> te.Compute:
        return te.compute((n, n, n), lambda t, i, j: te.sin(s[t - back, j, i]) * 0.5 + x[i, j], dtype=dtype)

    s = te.scan((n, n, n), step, "s", init=0.5, reverse=reverse, dtype=dtype)
    y = te.compute((n, n), lambda t, i: read(s, t, i) * 2.0, "y")
    program = te.program_of([y, *te.differentiate(y, x, te.placeholder((n, n), dtype, "head"))])
    rng = np.random.default_rng(0)
    feed = [rng.standard_normal(p.shape).astype(dtype) for p in program.inputs]
    found, expected = lower(te.eliminate(program))(*feed), run(program, feed)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11 if dtype != "float32" else 1e-4, atol=1e-5)
    code = lower(te.eliminate(te.program_of([y])))
    np.testing.assert_allclose(code(feed[0])[0], expected[0], rtol=1e-4 if dtype == "float32" else 1e-11)
    slices = [b for b in code.buffers.values() if b.label == "s.slice"]
    assert len(slices) == count
    assert numbers(code)["s"] == ((2, n, n) if count else (n, n, n))


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
