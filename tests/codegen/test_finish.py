"""Results of reductions finished in registers: when that is done, and that it changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.codegen.nests.nodes import Store, statements
from iverson.te.elimination.zero_elimination import eliminate
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.nodes import program_of
from iverson.te.ir.scalar_namespace import F
from iverson.te.language import definitions as te
from iverson.te.lowering import lowered_program, statement_lowering
from tests.codegen.test_lower import agree
from tests.conformance.product import EXHAUSTIVE

X = te.placeholder((6, 40), "float32", "X")
B = te.placeholder((6,), "float32", "B")
D = te.placeholder((40, 9), "float32", "D")


def rows(x: Tensor = X) -> Tensor:
    k = te.reduce_axis((0, x.shape[1]))
    return te.compute((x.shape[0],), lambda i: te.sum(x[i, k] * x[i, k], axis=k), "R")


def largest(x: Tensor = X) -> Tensor:
    k = te.reduce_axis((0, x.shape[1]))
    return te.compute((x.shape[0],), lambda i: te.max(x[i, k], axis=k), "R")


def table() -> Tensor:
    k = te.reduce_axis((0, 40))
    return te.compute((6, 9), lambda i, j: te.sum(F.abs(X[i, k] - D[k, j]), axis=k), "R")


def each(r: Tensor, f: Callable[..., Any]) -> Tensor:
    return te.compute(r.shape, lambda *i: f(r[i], *i), "U")


FINISHED = {
    "root": lambda: [each(rows(), lambda r, i: F.sqrt(r))],
    "shifted": lambda: [each(rows(), lambda r, i: F.tanh(r + B[i]))],
    "read twice": lambda: [each(rows(), lambda r, i: r * F.exp(-r) + r)],
    "chosen": lambda: [each(largest(), lambda r, i: te.select(r > B[i], r, 0.5 * r))],
    "twice": lambda: [each(each(rows(), lambda r, i: F.sqrt(r)), lambda u, i: u / (1 + u))],
    "matrix": lambda: [each(table(), lambda r, i, j: F.exp(-r) * B[i])],
    "index": lambda: [each(rows(), lambda r, i: r * i)],
    "next to another": lambda: [each(rows(), lambda r, i: F.sqrt(r)), largest()],
}


def reversed_too() -> list[Tensor]:
    r = rows()
    return [te.compute((6,), lambda i: r[5 - i] - r[i], "U")]


def of_two() -> list[Tensor]:
    r = rows()
    return [each(r, lambda x, i: F.sqrt(x)), each(r, lambda x, i: x + 1)]


def kept() -> list[Tensor]:
    r = rows()
    return [r, each(r, lambda x, i: F.sqrt(x))]


def spread() -> list[Tensor]:
    r = rows()
    return [te.compute((6, 40), lambda i, j: X[i, j] / r[i], "U")]


def padded() -> list[Tensor]:
    r = rows()
    return [te.compute((9,), lambda i: te.select(i < 6, r[te.clamp(i, 0, 5)], 1.0), "U")]


def padded_with_zeros() -> list[Tensor]:
    x = te.placeholder((6,), "float32", "x")
    y = te.compute((5,), lambda i: x[i + 1], "Y")
    return [te.compute((6,), lambda i: te.bracket(i < 5) * y[i], "U")]


STORED = {
    "padded": padded,
    "reversed": reversed_too,
    "read by two": of_two,
    "an output": kept,
    "spread": spread,
}


def buffers_stored(outputs: list[Tensor]) -> set[str]:
    made = statement_lowering.lower(program_of(outputs))
    found = set()
    for step in made.steps:
        if isinstance(step, lowered_program.Run):
            found |= {s.buffer.name for s in statements(step.kernel.phases) if isinstance(s, Store)}
    return found


@pytest.mark.parametrize("name", FINISHED)
def test_the_result_of_a_reduction_never_reaches_memory(name: str) -> None:
    outputs = FINISHED[name]()
    assert len(buffers_stored(outputs)) == len(outputs)
    agree(program_of(outputs))


@pytest.mark.parametrize("name", STORED)
def test_it_is_stored_where_it_is_read_in_other_ways(name: str) -> None:
    outputs = STORED[name]()
    assert len(buffers_stored(outputs)) > 1
    agree(program_of(outputs))


def test_a_result_in_a_larger_tensor_leaves_the_rest_of_it_zero() -> None:
    agree(eliminate(program_of(padded_with_zeros())))


def scaled(name: str) -> Callable[..., Any]:
    return lambda r, *_: getattr(F, name)(0.01 * r)


@settings(max_examples=150 if EXHAUSTIVE else 9, deadline=None)
@given(
    n=st.integers(1, 70),
    m=st.integers(1, 70),
    names=st.lists(st.sampled_from(("sqrt", "tanh", "exp", "sigmoid")), max_size=3),
)
def test_chains_of_any_size(n: int, m: int, names: list[str]) -> None:
    x = te.placeholder((n, m), "float64", "X")
    u = rows(x)
    for name in names:
        u = each(u, scaled(name))
    agree(program_of([u]))


def test_a_value_too_large_for_a_nest_is_computed_from_memory() -> None:
    u = rows()

    def grown(r: Any, i: Any) -> Any:
        for _ in range(120):
            r = F.sqrt(r + 1) + F.tanh(r)
        return r

    assert len(buffers_stored([each(u, grown)])) == 2
    agree(program_of([each(u, grown)]))


STEPS = (
    lambda r, i, j, x, b: F.tanh(r),
    lambda r, i, j, x, b: r + b[j],
    lambda r, i, j, x, b: te.select(r > 0, r, 0.2 * r),
    lambda r, i, j, x, b: F.exp(-F.abs(r)) * x[i, 0],
    lambda r, i, j, x, b: r * i + j,
)
SUMS = (
    lambda i, j, k, x, y: te.sum(F.abs(x[i, k] - y[k, j]), axis=k),
    lambda i, j, k, x, y: te.max(x[i, k] * y[k, j], axis=k),
    lambda i, j, k, x, y: te.sum(te.select((i + k + j) % 2 == 0, x[i, k] * y[k, j], 0.0), axis=k),
)
EXTENTS = st.sampled_from((1, 2, 5, 17, 33))


@settings(max_examples=400 if EXHAUSTIVE else 8, deadline=None)
@given(
    shape=st.tuples(EXTENTS, EXTENTS, EXTENTS),
    reduction=st.sampled_from(SUMS),
    steps=st.lists(st.sampled_from(STEPS), max_size=3),
    extra=st.sets(st.sampled_from(("stage", "turned", "rows"))),
)
def test_random_programs(shape: Any, reduction: Any, steps: Any, extra: Any) -> None:
    """Chains after a reduction, whose stages others may read too; guarded reductions of a single point."""
    n, m, inner = shape
    x, y, b = (
        te.placeholder(s, "float64", t) for s, t in (((n, inner), "X"), ((inner, m), "Y"), ((m,), "B"))
    )
    k = te.reduce_axis((0, inner))
    stages = [te.compute((n, m), lambda i, j: reduction(i, j, k, x, y), "R")]
    for step in steps:
        stages.append(chained(stages[-1], step, x, b))
    last, middle = stages[-1], stages[len(stages) // 2]
    outputs = [last]
    if "stage" in extra and middle is not last:
        outputs.append(middle)
    if "turned" in extra:
        outputs.append(te.compute((n, m), lambda i, j: middle[n - 1 - i, j] + middle[i, j], "V"))
    if "rows" in extra:
        q = te.reduce_axis((0, m))
        outputs.append(te.compute((n,), lambda i: te.sum(last[i, q], axis=q), "W"))
    agree(program_of(outputs))


def chained(r: Tensor, step: Any, x: Tensor, b: Tensor) -> Tensor:
    return te.compute(r.shape, lambda i, j: step(r[i, j], i, j, x, b), "U")


def test_a_guarded_reduction_of_one_point_gives_zero_where_the_guard_fails() -> None:
    k = te.reduce_axis((0, 1))
    x = te.placeholder((4,), "float64", "X")
    r = te.compute((4,), lambda i: te.sum(te.select((i + k) % 2 == 0, x[i], 0.0), axis=k), "R")
    made = statement_lowering.lower(program_of([r]))
    values = np.array([1.0, 2.0, 3.0, 4.0])
    for _ in range(3):
        np.full(4, np.nan)  # what memory held before must not show
        np.testing.assert_array_equal(made(values)[0], [1.0, 0.0, 3.0, 0.0])


@pytest.mark.parametrize("n", [1, 2, 5, 8, 17])
@pytest.mark.parametrize("move", ["roll", "flip", "concat"])
def test_what_is_stored_in_parts_is_finished_in_each_of_them(move: str, n: int) -> None:
    """Cotangents of parts, chosen twice: each part has values of its own."""
    x, w = np.linspace(0.3, 2.1, n), np.arange(1.0, n + 1)
    moved: dict[str, tuple[Any, Any]] = {
        "roll": (lambda v: iv.roll(v, 1), np.roll(w, -1)),
        "flip": (iv.flip, w[::-1]),
        "concat": (lambda v: iv.concat([v[n // 2 :], v[: n // 2]]), np.roll(w, n // 2)),
    }
    go, back = moved[move]
    f = lambda v: (w * go(iv.minimum(iv.maximum(v, 0.9), 1.7))).sum()
    expected = np.where((x > 0.9) & (x < 1.7), back, 0.0)
    for g in (iv.grad(f), iv.grad(iv.jit(f)), iv.jit(iv.grad(f))):
        np.testing.assert_allclose(np.asarray(g(iv.asarray(x))), expected)
