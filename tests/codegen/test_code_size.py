"""Code size: loop bodies are written out as often as their work is worth, which changes no result."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.compile_times import derivatives
from iverson import te
from iverson.codegen.nests.nodes import Loop, Stmt, statements
from iverson.codegen.schedule import code_size
from iverson.codegen.schedule.code_size import in_proportion
from iverson.te.lowering.lowered_program import Run
from iverson.te.lowering.statement_lowering import afresh
from tests.conformance.product import by_turns
from tests.te.corpus import KERNELS


def _convolution(rows: int) -> Stmt:
    """A phase of two reduced axes, of which a register tile is written out."""
    x, w = te.placeholder((rows, 2, 30), name="x"), te.placeholder((6, 2, 8), name="w")
    c, k = te.reduce_axis(2), te.reduce_axis(8)
    y = te.compute((rows, 6, 22), lambda b, f, i: te.sum(x[b, c, i + k] * w[f, c, k], (c, k)))
    (step,) = afresh(te.eliminate(te.program_of([y]))).steps
    assert isinstance(step, Run)
    (phase,) = step.kernel.phases
    return phase


def _marks(phase: Stmt) -> list[str]:
    return [s.mark for s in statements((phase,)) if isinstance(s, Loop)]


def test_what_seldom_runs_is_not_written_out() -> None:
    short, long = _convolution(1), _convolution(4096)
    assert _marks(long).count("unroll") == _marks(short).count("unroll") > 0
    assert in_proportion(long, 1) == long
    assert "unroll" not in _marks(in_proportion(short, 1))


def test_loops_around_count() -> None:
    """A step that runs often, or nobody knows how often, is as it would be alone with so much work."""
    short = _convolution(1)
    assert in_proportion(short, 4096) == short
    assert in_proportion(short, float("inf")) == short


def test_what_a_user_asks_for_stays() -> None:
    x, k = te.placeholder((5, 7), name="x"), te.unroll(te.reduce_axis(7))
    y = te.compute((5,), lambda i: te.sum(x[i, k] * x[i, k] * x[i, k] * x[i, k], k))
    (step,) = afresh(te.eliminate(te.program_of([y]))).steps
    assert isinstance(step, Run)
    (phase,) = step.kernel.phases
    assert "unroll" in _marks(in_proportion(phase, 1))


@pytest.mark.parametrize("name", by_turns(KERNELS, 9))
def test_results_stay_the_same_to_the_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    program = te.program_of(derivatives(name, 1)())
    given = KERNELS[name].built()[2]
    arrays = [given.get(t.name, rng.standard_normal(t.shape)) for t in program.inputs]
    walked = te.eliminate(program)
    less = afresh(walked)(*arrays)
    monkeypatch.setattr(code_size, "SMALL", 10**9)
    for x, y in zip(less, afresh(walked)(*arrays), strict=True):
        np.testing.assert_array_equal(x, y)
