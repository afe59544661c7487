"""Random multi-stage programs: gradients by the interpreter against one product at a time.

The oracle differentiates the interpreter's forward values by complex steps, along random directions: exact to
rounding, and it knows nothing of statements, guards or walks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from iverson import te
from iverson.expr.nodes import Expr
from iverson.te.ir.expressions import Tensor, Var
from iverson.te.ir.interpret import run
from tests.conformance.product import EXHAUSTIVE

F = te.F
N = 4


@st.composite
def programs(draw: Any) -> tuple[te.Placeholder, te.Placeholder, te.Compute]:
    """(X, index data, output), of analytic functions so that complex steps apply."""
    X = te.placeholder((N, N), "complex128", "X")
    at = te.placeholder((N,), "int64", "at")
    tensors: list[Tensor] = [X]

    def position(axes: list[Var]) -> Expr:
        v = draw(st.sampled_from(axes))
        w = draw(st.sampled_from(axes))
        return draw(
            st.sampled_from(
                [v, v, N - 1 - v, (v + 1) % N, v // 2, (v + w) % N, at[v], te.clamp(v + w - 2, 0, N - 1)]
            )
        )

    def guard(axes: list[Var]) -> Expr:
        v, w = draw(st.sampled_from(axes)), draw(st.sampled_from(axes))
        return draw(st.sampled_from([v <= w, v != 2, (v == 0) | (w > 1), v + w < 5, at[v] > 1, v % 2 == 0]))

    def term(axes: list[Var], depth: int) -> Expr:
        kind = draw(st.sampled_from(["read", "read", "sum", "product", "guard", "function"]))
        if depth == 0 or kind == "read":
            source = draw(st.sampled_from(tensors))
            return source[position(axes), position(axes)]
        if kind == "sum":
            return term(axes, depth - 1) + term(axes, depth - 1) * draw(st.sampled_from([1.0, -0.5]))
        if kind == "product":
            return term(axes, depth - 1) * term(axes, depth - 1)
        if kind == "guard":
            return te.select(guard(axes), term(axes, depth - 1), draw(st.sampled_from([0.0, 0.25])))
        return draw(st.sampled_from([F.sin, F.exp, F.square]))(term(axes, depth - 1) * 0.5)

    def entry(i: Var, j: Var) -> Expr:
        reduce = draw(st.sampled_from(["", "", "sum", "prod", "both"]))
        k = te.reduce_axis((draw(st.sampled_from([0, 1])), N), "k")
        if reduce in ("sum", "prod"):
            return getattr(te, reduce)(term([i, j, k], 2) * 0.5, k)
        if reduce == "both":
            return te.select(guard([i, j]), te.sum(term([i, j, k], 1), k), 0) + term([i, j], 1)
        return term([i, j], 2)

    def point(i: Var, j: Var) -> tuple[Any, Expr]:
        return (position([i, j]), draw(st.sampled_from([j, position([i, j])]))), term([i, j], 2) * 0.5

    for n in range(draw(st.integers(1, 3))):
        how = draw(st.sampled_from(["", "", "sum", "prod"]))
        if how:
            tensors += [te.scatter((N, N), (N, N), point, f"T{n}", how)]
        else:
            tensors += [te.compute((N, N), entry, f"T{n}")]
    output = tensors[-1]
    assert isinstance(output, te.Compute)
    return X, at, output


@settings(deadline=None, max_examples=800 if EXHAUSTIVE else 15)
@given(programs(), st.integers(0, 2**31))
def test_gradients_of_random_programs(
    made: tuple[te.Placeholder, te.Placeholder, te.Compute], seed: int
) -> None:
    X, at, output = made
    rng = np.random.default_rng(seed)
    x, rows = rng.uniform(-1, 1, (N, N)) + 0j, rng.integers(0, N, N)
    g, t = rng.uniform(-1, 1, (N, N)), rng.uniform(-1, 1, (N, N))
    head = te.placeholder((N, N), "complex128", "H")
    tangent = te.placeholder((N, N), "complex128", "t")

    def results(tensors: list[Tensor], at_x: Any, eliminated: bool = False) -> list[Any]:
        program = te.program_of(tensors)
        feed = {X: at_x, at: rows, head: g, tangent: t}
        program = te.eliminate(program) if eliminated else program
        return list(run(program, [feed[p] for p in program.inputs]))

    gradient = te.differentiate(output, X, head)[0]
    found, pushed = results([gradient, te.jvp(output, {X: tangent})], x, eliminated=True)
    step = 1e-30
    scale = 1 + np.abs(found).max()
    for direction in (t, rng.uniform(-1, 1, (N, N)), rng.integers(0, 2, (N, N))):
        moved = results([output], x + 1j * step * direction)[0].imag / step
        np.testing.assert_allclose(
            (found.real * direction).sum() / scale, (g * moved).sum() / scale, atol=1e-11
        )
        if direction is t:
            np.testing.assert_allclose(pushed.real, moved, rtol=1e-10, atol=1e-10 * (1 + np.abs(moved).max()))
    again = te.differentiate(gradient, X, tangent)[0]
    plain, walked = results([again], x)[0], results([again], x, eliminated=True)[0]
    np.testing.assert_allclose(walked, plain, atol=1e-9 * (1 + np.abs(plain).max()))
