"""Dear functions of a few indices are computed once, in the definition and in its derivatives."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.codegen.nests.nodes import expressions, statements
from iverson.codegen.schedule.row_tiling import parts
from iverson.codegen.schedule.visit_counts import visits
from iverson.expr.nodes import Apply, subexpressions
from iverson.te.ir import interpret
from iverson.te.lowering.lowered_program import Lowered, Run
from iverson.te.lowering.statement_lowering import lower

rng = np.random.default_rng(0)
FRAMES, BINS, WINDOW, HOP = 20, 9, 32, 8
DEAR = {"cos", "sin", "exp", "log"}


def code(*outputs: te.Tensor) -> Lowered:
    return lower(te.eliminate(te.program_of(outputs)))


def evaluated(made: Lowered) -> int:
    """At how many points dear functions are computed."""
    phases = [p for step in made.steps if isinstance(step, Run) for p in step.kernel.phases]
    total = 0
    for phase in (own for p in phases for own in ([x for x, _ in parts(p)] or [p])):
        found = [x for s in statements((phase,)) for e in expressions(s) for x in subexpressions(e)]
        if any(isinstance(x, Apply) and x.name in DEAR for x in found):
            total += visits(phase, {})[0]
    return total


def spectrum(dtype: str = "float64") -> tuple[te.Tensor, te.Tensor]:
    x = te.placeholder((WINDOW + HOP * (FRAMES - 1),), dtype, "x")
    k = te.reduce_axis(WINDOW, "k")

    def entry(t: Any, f: Any) -> Any:
        return te.sum(x[HOP * t + k] * te.cos(2 * math.pi * f * k / WINDOW), k)

    return x, te.compute((FRAMES, BINS), entry, "y")


WAVES = np.cos(2 * math.pi * np.arange(BINS)[:, None] * np.arange(WINDOW) / WINDOW)


def test_a_spectrum_takes_one_cosine_for_each_weight() -> None:
    x, y = spectrum()
    (dx,) = te.differentiate(y, [x], te.placeholder(y.shape, y.dtype, "head"))
    forward, backward = code(y), code(dx)
    assert evaluated(forward) == evaluated(backward) == BINS * WINDOW
    given, g = rng.normal(size=WAVES.shape[1] + HOP * (FRAMES - 1)), rng.normal(size=(FRAMES, BINS))
    frames = np.lib.stride_tricks.sliding_window_view(given, WINDOW)[::HOP]
    np.testing.assert_allclose(forward(given)[0], frames @ WAVES.T, rtol=1e-12, atol=1e-12)
    expected = np.zeros_like(given)
    for t in range(FRAMES):
        expected[HOP * t : HOP * t + WINDOW] += g[t] @ WAVES
    np.testing.assert_allclose(backward(g)[0], expected, rtol=1e-12, atol=1e-12)


def test_a_definition_and_its_gradient_share_a_table() -> None:
    x, y = spectrum()
    (dx,) = te.differentiate(y, [x], te.placeholder(y.shape, y.dtype, "head"))
    program = te.eliminate(te.program_of([y, dx]))
    assert [t.name for t in program.temporaries] == ["y.table"]
    assert "y.table = ..." in te.explain(program)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tables_have_the_precision_of_what_they_stand_for(dtype: str) -> None:
    y = spectrum(dtype)[1]
    program = te.program_of([y])
    given = rng.normal(size=WINDOW + HOP * (FRAMES - 1)).astype(dtype)
    (expected,) = interpret.run(program, [given])
    (found,) = lower(te.eliminate(program))(given)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12 if dtype == "float64" else 1e-5, atol=1e-5)


def test_windows_that_do_not_begin_at_zero() -> None:
    """A Gaussian over offsets from -3 to 3, applied at every pixel."""
    n = 20
    x = te.placeholder((n + 6, n + 6), name="x")
    r, s = te.reduce_axis((-3, 4), "r"), te.reduce_axis((-3, 4), "s")

    def entry(i: Any, j: Any) -> Any:
        return te.sum(x[i + r + 3, j + s + 3] ** 2 * te.exp(-0.1 * (r * r + s * s)), (r, s))

    y = te.compute((n, n), entry, "y")
    (dx,) = te.differentiate(y, [x], te.placeholder((n, n), name="head"))
    forward, backward = code(y), code(dx)
    assert evaluated(forward) == evaluated(backward) == 49
    given, g = rng.normal(size=(n + 6, n + 6)), rng.normal(size=(n, n))
    offsets = np.arange(-3, 4)
    weights = np.exp(-0.1 * (offsets[:, None] ** 2 + offsets**2))
    windows = np.lib.stride_tricks.sliding_window_view(given**2, (7, 7))
    np.testing.assert_allclose(forward(given)[0], np.einsum("ijrs,rs->ij", windows, weights), rtol=1e-12)
    expected = np.zeros_like(given)
    for i in range(7):
        for j in range(7):
            expected[i : i + n, j : j + n] += weights[i, j] * g
    arrays = {"x": given, "head": g}
    (found,) = backward(*(arrays[t.name] for t in backward.program.inputs))
    np.testing.assert_allclose(found, 2 * given * expected, rtol=1e-12)


def test_ops_of_any_shape() -> None:
    @te.op
    def transform(x: Any) -> Any:
        n, m = x.shape
        k = te.reduce_axis(m, "k")
        return te.compute((n, m), lambda t, f: te.sum(x[t, k] * te.cos(math.pi * f * (k + 0.5) / m), k))

    for n, m in ((9, 6), (11, 7), (30, 5), (9, 1), (3, 2)):
        x = iv.asarray(rng.normal(size=(n, m)))
        basis = np.cos(math.pi * np.arange(m)[:, None] * (np.arange(m) + 0.5) / m)
        np.testing.assert_allclose(transform(x).numpy(), x.numpy() @ basis.T, atol=1e-12)
        g = iv.grad(lambda x: (transform(x) ** 2).sum())
        expected = 2 * x.numpy() @ basis.T @ basis
        np.testing.assert_allclose(g(x).numpy(), expected, atol=1e-11)
        np.testing.assert_allclose(iv.jvp(g, (x,), (x,))[1].numpy(), expected, atol=1e-11)


def test_what_guards_leave_out_is_not_read() -> None:
    """log(0) stands in a table, nobody reads it, and nothing is warned of."""
    x = te.placeholder((50, 8), name="x")
    k = te.reduce_axis(8, "k")
    y = te.compute((50,), lambda i: te.sum(te.select(k > 0, x[i, k] * te.log(k * 1.0), 0.0), k), "y")
    given = rng.normal(size=(50, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = code(y)(given)
    np.testing.assert_allclose(found, given[:, 1:] @ np.log(np.arange(1.0, 8)), rtol=1e-12)


def tables(*outputs: te.Tensor) -> list[str]:
    program = te.eliminate(te.program_of(outputs))
    return [t.name for t in program.temporaries if t.name.endswith(".table")]


def test_where_there_is_no_table() -> None:
    x, p = te.placeholder((40, 30), name="x"), te.placeholder((41,), "int64", "p")
    k = te.reduce_axis(30, "k")
    each = te.compute((40, 30), lambda i, j: x[i, j] * te.cos(1.0 * i * j), "each")
    cheap = te.compute((40,), lambda i: te.sum(x[i, k] * (k / 30), k), "cheap")
    of_data = te.compute((40,), lambda i: te.sum(te.cos(x[i, k]), k), "of_data")
    assert tables(each, cheap, of_data) == []
    v = te.placeholder((100,), name="v")

    def row(i: Any) -> Any:
        q = te.reduce_axis((p[i], p[i + 1]), "q")
        return te.sum(v[q] * te.cos(1.0 * q), q)

    assert tables(te.compute((40,), row, "ragged")) == []
    assert tables(te.compute((2, 30), lambda i, j: x[i, j] * te.cos(1.0 * j), "twice")) == []
    assert tables(te.compute((40, 30), lambda i, j: x[i, j] * te.cos(1.0 * j), "often")) == ["often.table"]
