"""Which stages are stored and which are computed where they are read; which are one, as they are equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from iverson import te
from iverson.codegen.schedule.blas_contraction import Product
from iverson.te.ir.interpret import run
from iverson.te.lowering.program_work import work
from iverson.te.lowering.statement_lowering import lower
from iverson.te.rewrites.common_tensors import shared
from iverson.te.rewrites.inlining import inline

from .corpus import KERNELS

X, W, V = (te.placeholder(s, name=n) for n, s in (("x", (48, 40)), ("w", (40, 36)), ("v", (48,))))
K = te.reduce_axis(40, "k")
SCALE = te.compute((48,), lambda i: V[i] + 1, "scale")


def product_of(stage: te.Tensor) -> te.Tensor:
    return te.compute((48, 36), lambda i, j: te.sum(stage[i, K] * W[K, j], K))


def stage(f: Callable[..., Any]) -> te.Tensor:
    return te.compute((48, 40), f, "stage")


def window(t: te.Tensor, n: int) -> te.Tensor:
    r = te.reduce_axis(n)
    return te.compute((48, 41 - n), lambda i, j: te.sum(t[i, j + r], r))


def read_by(count: int) -> list[te.Tensor]:
    t = stage(lambda i, j: (X[i, j] + V[i]) * 2)
    return [te.compute((48, 40), lambda i, j, n=n: te.exp(t[i, j] * n)) for n in range(count)]


#: By name: what is computed, and which stages are stored.
CASES: dict[str, tuple[Any, list[str]]] = {
    "a factor of a product": (product_of(stage(lambda i, j: te.maximum(X[i, j] + V[i], 0.0))), ["stage"]),
    "a copy that is a factor": (product_of(stage(lambda i, j: X[i, j])), []),
    "read in a window of two": (window(stage(lambda i, j: X[i, j] * V[i]), 2), []),
    "read in a window of nine": (window(stage(lambda i, j: X[i, j] * V[i]), 9), ["stage"]),
    "read at each row, of few entries": (
        window(stage(lambda i, j: X[i, j] + SCALE[i]), 9),
        ["stage"],
    ),
    "dear, and read once": (
        te.compute((40, 48), lambda j, i: stage(lambda i, j: te.exp(X[i, j]))[i, j] + 1),
        [],
    ),
    "dear, and read twice": (window(stage(lambda i, j: te.exp(X[i, j])), 2), ["stage"]),
    "read by two": (read_by(2), []),
    "read by seven": (read_by(7), ["stage"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_stage_is_stored_where_that_costs_less_than_computing_it_again(name: str) -> None:
    made, expected = CASES[name]
    program = te.eliminate(made)
    found = [s.tensor.name for s in inline(program) if s.tensor not in program.outputs]
    assert found == expected
    if "factor" in name:
        assert any(isinstance(s, Product) for s in lower(program).steps)
    feed = [np.random.default_rng(0).standard_normal(t.shape) for t in program.inputs]
    for a, b in zip(lower(program)(*feed), run(te.program_of(program.outputs), feed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["attention", "gru_cell", "layer_norm", "soft_dtw"])
def test_what_gradients_made_apart_have_in_common_is_computed_once(name: str) -> None:
    """They cost what they do if they are made together, also where the definition is built for each."""
    given, outputs, values = KERNELS[name].built()
    heads = [te.placeholder(t.shape, t.dtype, "head") for t in outputs]
    wanted = [t for t in given if t.dtype.kind == "f"]

    def built() -> list[te.Tensor]:
        made = KERNELS[name].define(*given)
        return list(made) if isinstance(made, tuple) else [made]

    together = te.program_of(list(te.differentiate(built(), wanted, heads)))
    apart = te.program_of([te.differentiate(built(), [t], heads)[0] for t in wanted])
    assert len(wanted) == 1 or len(apart.statements) > len(together.statements)
    assert len(shared(apart).statements) == len(shared(together).statements)
    assert work(lower(te.eliminate(apart))) == work(lower(te.eliminate(together)))
    feed = dict(zip(given, values.values(), strict=True))
    feed |= {h: np.random.default_rng(0).standard_normal(h.shape) for h in heads}
    results = [run(p, [feed[t] for t in p.inputs]) for p in (together, apart, shared(apart))]
    for a, b, c in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_tensors_that_read_other_tensors_or_sizes_or_are_outputs_stay() -> None:
    n, m = te.var("n"), te.var("n")
    first = [te.compute((3,), lambda i, t=t: t[i] * 2) for t in (te.placeholder((3,)), te.placeholder((3,)))]
    sized = [te.compute((3,), lambda i, s=s: i * s) for s in (n, m)]
    for pair in (first, sized):
        program = te.program_of([te.compute((3,), lambda i, p=pair: p[0][i] + p[1][i])])
        assert len(shared(program).statements) == 3
    x = te.placeholder((3,))
    equal = [te.compute((3,), lambda i: te.exp(x[i])) for _ in range(3)]
    assert len(shared(te.program_of(equal)).statements) == 3
    both = te.compute((3,), lambda i: equal[1][i] + equal[2][i])
    assert len(shared(te.program_of([equal[0], both])).statements) == 2
