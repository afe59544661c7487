"""What a gradient may cost, and that it is right, on kernels of the literature (`corpus`)."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from benchmarks.corpus import worker
from benchmarks.corpus.cells import WORKLOADS, Cell
from benchmarks.harness import Effort, measure
from iverson import te
from iverson.codegen.launches import compiled_kernel
from iverson.codegen.nests.nodes import Load, Loop, expressions, statements
from iverson.codegen.nests.task import motion
from iverson.expr.nodes import subexpressions
from iverson.te.ir.interpret import run
from iverson.te.lowering.lowered_program import Lowered, Run
from iverson.te.lowering.program_work import Work, work
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import EXHAUSTIVE, by_turns, some, turn

from . import corpus_papers, corpus_recurrences, corpus_scenes  # noqa: F401  (they enter their kernels)
from .corpus import KERNELS, sampled

#: A gradient of all inputs visits at most so many points for each of the forward, and moves so many bytes.
POINTS, BYTES = 4, 6
#: Bytes of those that may move more, and why.
EXCUSED = {
    "group_products": (7, "a forward of one pass has no chains of factors, whose links the gradient stores"),
    "soft_silhouette": (
        11,
        "a forward of one pass has no tree of products, whose levels the gradient stores",
    ),
}


class Case:
    """A kernel with heads for its outputs."""

    def __init__(self, name: str) -> None:
        self.given, self.outputs, values = KERNELS[name].built()
        self.heads = [te.placeholder(t.shape, t.dtype, f"head{k}") for k, t in enumerate(self.outputs)]
        self.wanted = [t for t in self.given if t.dtype.kind == "f"]
        self.feed: dict[te.Tensor, Any] = dict(zip(self.given, values.values(), strict=True))
        rng = np.random.default_rng(1)
        self.feed |= {h: rng.standard_normal(h.shape) for h in self.heads}

    def gradients(self, wanted: Any) -> list[te.Tensor]:
        return list(te.differentiate(list(self.outputs), list(wanted), self.heads))

    def work(self, tensors: Any) -> Work:
        code, feed = self.lowered(tensors)
        return work(code, *feed)

    def lowered(self, tensors: Any) -> tuple[Lowered, list[Any]]:
        """The code, and the arrays it takes. Equal programs have one code, which knows other placeholders."""
        program = te.program_of(tensors)
        return lower(te.eliminate(program)), [self.feed[t] for t in program.inputs]

    def values(self, tensors: Any, **moved: Any) -> tuple[Any, ...]:
        """By the interpreter."""
        program = te.program_of(tensors)
        return run(program, [moved.get(t.name, self.feed[t]) for t in program.inputs])


def test_there_are_many() -> None:
    assert len(KERNELS) >= 80
    assert len(EXCUSED) <= 3


@pytest.mark.parametrize("name", by_turns(KERNELS, 2, 1))
def test_gradients_are_cheap_and_asking_for_less_costs_no_more(name: str) -> None:
    case = Case(name)
    forward = case.work(case.outputs)
    most = len(case.wanted) if len(case.wanted) <= 3 and (EXHAUSTIVE or turn(name, 6) == 0) else 2
    parts = [s for n in range(1, most) for s in combinations(case.wanted, n) if len(s) < len(case.wanted)]
    if not EXHAUSTIVE and parts and most == 2:  # one of the inputs, of every second kernel
        parts = some(name, parts)[: turn(f"{name} in part", 2)]
    found: dict[frozenset[te.Tensor], Work] = {}
    for wanted in (*parts, tuple(case.wanted)):
        own = found[frozenset(wanted)] = case.work(case.gradients(wanted))
        for part, less in found.items():
            if part < set(wanted):
                assert less.points <= own.points
                assert less.bytes <= own.bytes
    everything = found[frozenset(case.wanted)]
    assert everything.points <= POINTS * forward.points
    assert everything.bytes <= EXCUSED.get(name, (BYTES, ""))[0] * forward.bytes


@pytest.mark.parametrize("name", by_turns(KERNELS, 6))
def test_gradients_are_right(name: str) -> None:
    """Compiled ones against tangents, and these against differences; values against the interpreter's."""
    case = Case(name)
    rng = np.random.default_rng(2)
    v = {t.name: rng.standard_normal(t.shape) for t in case.wanted}
    code, feed = case.lowered([*case.outputs, *case.gradients(case.wanted)])
    made = code(*feed, threads=2)
    outputs, gradients = made[: len(case.outputs)], made[len(case.outputs) :]
    for a, b in zip(outputs, case.values(case.outputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    pulled = sum((g * v[t.name]).sum() for t, g in zip(case.wanted, gradients, strict=True))
    tangents = {t: te.placeholder(t.shape, t.dtype, f"{t.name}.t") for t in case.wanted}
    case.feed |= {p: v[t.name] for t, p in tangents.items()}
    heads = [case.feed[h] for h in case.heads]
    along = case.values([te.jvp(y, tangents) for y in case.outputs])
    pushed = sum((h * t).sum() for h, t in zip(heads, along, strict=True))
    np.testing.assert_allclose(pulled, pushed, rtol=1e-9, atol=1e-9)
    step = 1e-6
    ahead, behind = (
        case.values(case.outputs, **{t.name: case.feed[t] + s * v[t.name] for t in case.wanted})
        for s in (step, -step)
    )
    differences = [(h * (a - b)).sum() / (2 * step) for h, a, b in zip(heads, ahead, behind, strict=True)]
    np.testing.assert_allclose(pushed, sum(differences), rtol=2e-5, atol=2e-5)


def test_the_lanes_of_a_sampler_s_gradient_are_those_of_its_places() -> None:
    """What is read once for an entry weighs little beside what is read for each channel, far apart."""
    x, grid = te.placeholder((32, 64, 64), "float32", "x"), te.placeholder((64, 64, 2), "float32", "grid")
    made = te.compute((32, 64, 64), lambda c, i, j: sampled(x, c, grid[i, j, 0], grid[i, j, 1]))
    head = te.placeholder(made.shape, "float32", "head")
    code = lower(te.eliminate(te.program_of(list(te.differentiate(made, grid, head)))))
    (kernel,) = (s.kernel for s in code.steps if isinstance(s, Run))
    (lanes,) = {s.var for s in statements(kernel.phases) if isinstance(s, Loop) and s.mark == "vector"}
    loads = {
        x for p in kernel.phases for s in statements((p,)) for e in expressions(s) for x in subexpressions(e)
    }
    heads = [e for e in loads if isinstance(e, Load) and e.buffer.label == "head"]
    assert all(motion(e, lanes) == 1 for e in heads)
    assert heads


@pytest.mark.peers
@pytest.mark.parametrize("name", [n for n in WORKLOADS if n.endswith("_gradients")])
def test_peers_of_the_corpus_compute_the_same(name: str) -> None:
    """What `python -m benchmarks --corpus` sets against each other, with gradients and not timed."""
    workload = WORKLOADS[name]
    quick = replace(workload, run={p: r for p, r in workload.run.items() if p in ("iverson", "torch", "jax")})
    found = measure(quick, workload.sizes[0], 0, Effort(rounds=0, warm_up=0.0))["status"]
    assert found == dict.fromkeys(quick.run, "ok")


def test_a_worker_measures_a_cell_and_forgets_what_it_compiled() -> None:
    """As each process of the benchmark does, which asks the package to forget by name."""
    size = WORKLOADS["te_softmax"].sizes[0]
    row = worker.run(Cell("te_softmax", size, 1, ()), 0, 0, {}, quick=True)
    assert (row["workload"], row["size"]) == ("te_softmax", size)
    assert row["seconds"]["iverson"]
    assert not compiled_kernel._kernels
