"""What `te.explain` says of kernels, stages and levers, beside what runs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.codegen.runtime.machine_peak import Peak
from iverson.core.errors import ArgumentTypeError
from iverson.te.lowering import kernel_report
from iverson.te.lowering.program_work import Work, work
from iverson.te.lowering.statement_lowering import lower
from iverson.te.rewrites import axis_blocks

from .corpus import KERNELS

#: 10 GFLOP/s and 10 GB/s by two threads, so that texts do not depend on the machine.
PEAK = Peak(10e9, 10e9, 2)


@pytest.fixture(autouse=True)
def _known_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_report, "peak", lambda: PEAK)


def said(*made: te.Tensor) -> list[str]:
    return [x.strip() for x in te.explain(made).splitlines()]


@pytest.mark.parametrize(
    "name", ["conv2d", "attention", "lstm_cell", "triangular_product", "spatial_transformer"]
)
def test_the_work_that_is_said_is_the_work_of_what_runs(name: str) -> None:
    _, outputs, _ = KERNELS[name].built()
    found = [re.match(r"work +(\d+) points, (\d+) bytes, (\d+) flops", x) for x in said(*outputs)]
    counted = [tuple(map(int, m.groups())) for m in found if m]
    total = work(lower(te.eliminate(outputs)))
    assert Work(sum(c[0] for c in counted), sum(c[1] for c in counted)) == total
    assert sum(c[2] for c in counted) > 0
    times = [
        re.match(r"expected +(\S+) us, at peak (\S+) us \(10 GFLOP/s, 10 GB/s\)", x) for x in said(*outputs)
    ]
    expected = [(float(m[1]), float(m[2])) for m in times if m]
    assert len(expected) == len(counted)
    assert all(best <= seconds for seconds, best in expected)


def flops_of(body: Any, **how: Any) -> int:
    x, k = te.placeholder((8, 40), "float64", "x"), te.reduce_axis(40)
    (line,) = (t for t in said(te.compute((8,), lambda i: te.sum(body(x[i, k]), k))) if "flops" in t)
    return int(line.split()[-2])


def test_operations_are_counted() -> None:
    assert flops_of(lambda x: x) == 320
    assert flops_of(lambda x: x * x + 1) == 960
    assert flops_of(te.exp) == 320 * 11


def test_a_kernel_far_from_peak_is_warned_of_with_the_reason() -> None:
    x = te.placeholder((400, 400), name="x")
    at = te.placeholder((400,), "int64", "at")
    good = te.compute((400, 400), lambda i, j: x[i, j] * 2 + 1)
    assert not any("warning" in t for t in said(good))
    gathers = te.compute((400, 400), lambda i, j: x[at[i], at[j]] * x[at[j], i] * x[at[j], at[i]])
    serial = te.scan((400,), lambda s: te.compute((400,), lambda t: te.tanh(s[t - 1] * 2)), init=0.0)
    for made, reason in ((gathers, "entry by entry"), (serial, "an entry at a time along t")):
        (line,) = (t for t in said(made) if t.startswith("warning"))
        assert re.match(r"warning +\d+% of peak: ", line)
        assert reason in line
    interpreted = te.compute((4,), lambda i: te.ndtr(x[i, 0]))
    assert any("carried out by the interpreter" in t for t in said(interpreted))


def test_stages_and_levers_are_accounted_for() -> None:
    x, k = te.placeholder((48, 40), name="x"), te.reduce_axis(40, "k")
    total = te.compute((48,), lambda i: te.sum(x[i, k], k), "total")
    moved = te.compute((48, 40), lambda i, j: x[i, j] - 1, "moved")
    made = te.compute((48, 40), lambda i, j: moved[i, j] * total[i], "made")
    text = said(made)
    assert "stage total: kept: sum over k" in text
    assert "stage moved: recomputed: costs 3840 for all that read it, 26880 computed once and stored" in text
    te.keep(moved)
    te.parallel(made.axes[1])
    text = said(made)
    assert "stage moved: kept: te.keep" in text
    assert (
        "lever te.parallel(j): not done, as no outermost loop over it writes entries of its own" not in text
    )
    assert any(re.fullmatch(r"threads +\d, over j: te.parallel", t) for t in text)
    te.parallel(k)
    assert any(t.startswith("lever te.parallel(k): not done") for t in said(made))


def test_what_falls_back_is_said() -> None:
    for _ in range(2):  # the second time its code is known, of another size
        strided = te.scatter((te.var("n"),), (4,), lambda i: (2 * i, 1.0), "strided")
        te.explain(strided)
    assert any(t.startswith("fallback strided: ") for t in said(strided))


def test_what_runs_in_blocks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    x = te.placeholder((50,), name="x")
    k = te.reduce_axis(50, "k")
    W = te.compute((50, 50), lambda i, j: te.exp(x[i] * x[j]), "W")
    T = te.compute((50,), lambda i: te.sum(W[i, k] / W[k, i], k), "T")
    U = te.compute((50,), lambda i: te.sum(W[i, k], k) * te.max(W[i, k], k), "U")
    monkeypatch.setattr(axis_blocks, "LARGE", 1 << 12)
    monkeypatch.setattr(axis_blocks, "BLOCK", 1 << 12)
    assert "blocks    as an op, 5 places of i at a time, of 50" in te.explain(U)
    assert "blocks" not in te.explain(T), "rows and columns"


def test_an_op_is_explained_at_a_call_and_the_gradients_that_its_arguments_ask_for() -> None:
    @te.op
    def scaled(x: Any, w: Any, *, by: float) -> Any:
        k = te.reduce_axis(x.shape[0], "k")
        return te.compute(w.shape, lambda i: te.sum(x[k], k) * w[i] * by)

    x, w, n = iv.ones(4), iv.ones(3, requires_grad=True), iv.arange(4)
    text = te.explain(scaled, x, w, by=2.0)
    forward, backward = text.split("gradients of te.scaled in w\n")
    assert forward.startswith("te.scaled\n")
    assert "dscaled/dw" in backward
    assert "dscaled/dx" not in text
    assert "gradients of te.scaled in x, w\n" in te.explain(scaled, iv.ones(4, requires_grad=True), w, by=2.0)
    assert "gradients" not in te.explain(scaled, n, iv.ones(3), by=2.0)
    with pytest.raises(ArgumentTypeError, match=r"te.scaled: .*missing 1 required positional argument: 'w'"):
        te.explain(scaled, x, by=2.0)
    tensor = te.compute((3,), lambda i: i * 2)
    for of in ((np.sin, x), (np.sin,), (tensor, 3)):
        with pytest.raises(ArgumentTypeError, match=r"'result'.* a function that te.op made"):
            te.explain(*of)


def test_points_of_boxes_are_said_beside_those_of_the_program() -> None:
    """A box is run where nearly all of it counts: of a statement, and of the pieces of one together."""
    A, k = te.placeholder((30, 30), name="A"), te.reduce_axis(30, "k")
    band = said(te.compute((30,), lambda i: te.sum(te.bracket(k <= i + 25) * A[i, k], k)))
    assert "points    890 visited, 890 nonzero terms; run as a box of 900, whose loops are faster" in band
    assert "program   890 points visited by statements, 900 by kernels" in band
    pieces = said(te.compute((30,), lambda i: te.sum(te.bracket(k != i) * A[i, k], k)))
    assert "program   870 points visited by statements, 900 by kernels" in pieces
    exact = said(te.compute((30, 30), lambda i, j: te.bracket(j <= i) * A[i, j]))
    assert "points    465 visited, 465 nonzero terms" in exact
    assert "program   465 points visited by statements, 465 by kernels" in exact
