"""Levers: results stay what they are, and what is asked for is done where it can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iverson import te
from iverson.codegen.nests.nodes import Loop, statements
from iverson.codegen.schedule.parallel_scatter import sharing
from iverson.te.ir.interpret import run
from iverson.te.ir.nodes import Compute, tensors_below
from iverson.te.lowering.lowered_program import Run
from iverson.te.lowering.statement_lowering import lower
from iverson.te.rewrites.inlining import inline
from tests.conformance.product import some

from .corpus import KERNELS

X, W = te.placeholder((48, 40), name="x"), te.placeholder((40, 36), name="w")


def stages(*made: te.Tensor) -> list[str]:
    program = te.eliminate(made)
    return [s.tensor.name for s in inline(program) if s.tensor not in program.outputs]


def loops(*made: te.Tensor) -> list[Loop]:
    steps = lower(te.eliminate(made)).steps
    phases = [p for s in steps if isinstance(s, Run) for p in s.kernel.phases]
    return [s for s in statements(tuple(phases)) if isinstance(s, Loop)]


def marks(name: str, *made: te.Tensor) -> set[str]:
    return {s.mark for s in loops(*made) if s.label == name}


@pytest.mark.parametrize(
    "name",
    some(
        "levers",
        [
            "attention",
            "lstm_cell",
            "bilateral_splat",
            "transposed_gather",
            "soft_dtw",
            "csr_product",
            "max_pool",
        ],
        3,
    ),
)
def test_levers_change_no_result(name: str) -> None:
    """On any of the tensors, adjoints, summands and axes, drawn."""
    rng = np.random.default_rng(0)
    given, outputs, values = KERNELS[name].built()
    heads = [te.placeholder(t.shape, t.dtype, f"head{k}") for k, t in enumerate(outputs)]
    result = te.differentiate(list(outputs), [t for t in given if t.dtype.kind == "f"], heads)
    feed: dict[te.Tensor, Any] = dict(zip(given, values.values(), strict=True))
    feed |= {h: rng.standard_normal(h.shape) for h in heads}
    program = te.program_of([*outputs, *result])
    wanted, key = run(program, [feed[t] for t in program.inputs]), program.key()
    for t in (
        *tensors_below(program.outputs),
        *(s for d in result.adjoint_summands.values() for s in d.values()),
    ):
        if isinstance(t, Compute):
            rng.choice([te.keep, te.recompute, lambda t: t])(t)
            for v in t.axes:
                rng.choice([te.parallel, te.unroll, lambda v: v])(v)
    levers = te.program_of([*outputs, *result])
    assert levers.key() != key
    found = lower(te.eliminate(levers))(*(feed[t] for t in levers.inputs))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11)


def test_what_is_kept_or_recomputed_is_so_against_the_count() -> None:
    cheap = te.compute((48, 40), lambda i, j: X[i, j] + 1, "cheap")
    one = te.compute((48, 40), lambda i, j: cheap[i, j] * 2)
    assert stages(one) == []
    assert te.keep(cheap) is cheap
    assert stages(one) == ["cheap"]
    dear = te.compute((48,), lambda i: te.exp(X[i, 0]), "dear")
    many = te.compute((48, 40), lambda i, j: dear[i] * X[i, j])
    assert stages(many) == ["dear"]
    te.recompute(dear)
    assert stages(many) == []
    k = te.reduce_axis(40)
    total = te.recompute(te.compute((48,), lambda i: te.sum(X[i, k], k), "total"))
    assert stages(te.compute((48, 40), lambda i, j: total[i] * X[i, j])) == ["total"]


def test_adjoints_and_their_summands_have_levers() -> None:
    y = te.compute((48, 40), lambda i, j: X[i, j] * 2, "y")
    one = te.compute((48, 40), lambda i, j: te.sin(y[i, j]), "one")
    two = te.compute((48, 40), lambda i, j: y[i, 39 - j] * y[i, j], "two")
    both = te.compute((48, 40), lambda i, j: one[i, j] + two[i, j])
    result = te.differentiate(both, X, te.placeholder((48, 40), name="head"))
    assert result.adjoints[one].name not in stages(*result)
    assert not any("by two" in name for name in stages(*result))
    te.keep(result.adjoints[one])
    te.keep(result.adjoint_summands[two][y])
    assert {result.adjoints[one].name, result.adjoint_summands[two][y].name} <= set(stages(*result))


def test_threads_and_written_loops_are_those_that_are_asked_for() -> None:
    k = te.reduce_axis(40, "k")
    made = te.compute((48, 6), lambda i, j: te.sum(X[i, k] * W[k, j] * X[i, j], k))
    i, j, _ = made.axes
    assert marks("i", made) != {"parallel"}
    for axis in (i, j):
        te.parallel(axis)
        assert "parallel" in marks(axis.name, made)
        axis.lever = ""
    te.unroll(k)
    assert marks("k", made) == {"unroll"}
    te.unroll(j)
    assert marks("j", made) == {"unroll"}
    phase = loops(te.compute((3, 4), lambda i, j: X[te.parallel(i), j] + 1))[0]
    assert (phase.mark, phase.factor) == ("parallel", 2)
    assert "one thread" not in sharing(phase)
    inside = te.compute((48,), lambda i: te.sum(te.bracket(k <= i) * X[i, k], k))
    assert "unroll" not in marks("k", inside)


def test_levers_hold_in_bound_and_batched_programs_and_ops() -> None:
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    kept = te.keep(te.compute((n,), lambda i: x[te.parallel(i)] + 1, "kept"))
    (made,) = te.bind([te.compute((n,), lambda i: kept[i] * 2)], {n: 40})
    assert stages(made) == ["kept"]
    assert any(s.factor == 2 for s in loops(made))

    @te.op
    def kept_within(x: Any) -> Any:
        inner = te.keep(te.compute(x.shape, lambda i: te.exp(x[te.unroll(i)])))
        return te.compute(x.shape, lambda i: inner[i] * x[i])

    import iverson as iv

    for batch in ((), (3,)):
        values = np.random.default_rng(0).standard_normal((*batch, 5))
        function = (
            iv.vmap(iv.grad(lambda x: kept_within(x).sum()))
            if batch
            else iv.grad(lambda x: kept_within(x).sum())
        )
        found = function(iv.asarray(values)).numpy()
        np.testing.assert_allclose(found, np.exp(values) * (1 + values), rtol=1e-13)


def test_what_has_no_lever_is_an_error_that_names_it() -> None:
    from iverson.core.errors import ArgumentTypeError

    for lever, wrong in ((te.keep, X), (te.recompute, 3), (te.parallel, X), (te.unroll, te.var("n"))):
        with pytest.raises(ArgumentTypeError, match=rf"te\.{lever.__name__} \(test_levers\.py"):
            lever(wrong)
