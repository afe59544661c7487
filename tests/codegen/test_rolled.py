"""Runs of steps as loops: the interpreter says that they do the same, and counting that there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from iverson.codegen.launches import compile_program
from iverson.codegen.nests.nodes import Buffer, Load, Loop, statements
from iverson.codegen.programs import Nest, Program, View, interpret, step_builders, whole
from iverson.codegen.programs.loop_rolling import FEW, rolled
from iverson.codegen.programs.print import program_text
from iverson.codegen.programs.verify import verify
from iverson.core.errors import ArgumentError
from iverson.expr.nodes import Apply
from tests.conformance.product import examples

DTYPE, LENGTH = np.dtype("float64"), 60
X, Y = (Buffer(name, DTYPE, (LENGTH,), role) for name, role in (("x", "in"), ("y", "out")))


def square(out: View, x: View, combine: str = "assign") -> Nest:
    """out (combine)= x * x."""
    load = Load(step_builders.as_buffer("x", x), step_builders.variables(step_builders.axes(out.shape)))
    return step_builders.elementwise(out, Apply("multiply", (load, load), DTYPE), {"x": x}, combine)


def part(b: Buffer, start: int, length: int, step: int) -> View:
    return View(b, (length,), (step,), start)


@st.composite
def programs(draw: Any) -> Program:
    """Runs of steps between x, y and temps: at places that lie evenly or not, apart or not."""
    steps: list[Any] = [square(whole(Y), whole(X))]
    temps: list[Buffer] = []
    for _ in range(draw(st.integers(1, 3))):
        count, length, step = draw(st.integers(2, 8)), draw(st.integers(1, 5)), draw(st.integers(1, 2))
        combine = draw(st.sampled_from(("assign", "sum")))
        kind = draw(st.sampled_from(("y", "temps", "known temps")))
        kind = "temps" if kind == "known temps" and len(temps) < count else kind
        source = draw(st.sampled_from((X, Y)))
        starts = [draw(st.integers(0, 20)), draw(st.integers(0, 20))]
        by = [draw(st.integers(-6, 6)), draw(st.sampled_from((0, 1, 5, 7, 10, -5)))]
        crooked = draw(st.integers(-8, count - 1))
        new = [Buffer(f"t{len(temps) + k}", DTYPE, (length,), "temp") for k in range(count)]
        for k in range(count):
            at = [s + k * b + (k == crooked) for s, b in zip(starts, by, strict=True)]
            x, y = part(source, at[0], length, step), part(Y, at[1], length, step)
            if kind == "temps":
                steps.append(square(whole(new[k]), x))
                continue
            if kind == "known temps":
                x = whole(temps[-1 - k])
                y = part(Y, at[1], x.shape[0], step)
            steps.append(square(y, x, combine))
        temps += new if kind == "temps" else []
    return Program("random", (X, Y, *temps), tuple(steps))


@settings(max_examples=examples(90), deadline=None)
@given(programs())
def test_a_loop_does_what_its_steps_do(program: Program) -> None:
    try:
        verify(program)
    except ArgumentError:  # steps outside of a buffer, or that write what they read
        assume(False)
    found = verify(rolled(program))
    note(f"{program_text(program)}\n\n{program_text(found)}")
    x = np.random.default_rng(0).normal(size=LENGTH)
    want = interpret.run(program, [x])
    np.testing.assert_array_equal(interpret.run(found, [x]), want)
    assert rolled(found).steps == found.steps


def test_a_run_is_one_loop_that_threads_may_share() -> None:
    """Rows of an array, by way of temps: two nests, whose iterations are the rows, and one temp."""
    n = 10
    temps = [Buffer(f"t{k}", DTYPE, (6,), "temp") for k in range(n)]
    first = [square(whole(t), part(X, 6 * k, 6, 1)) for k, t in enumerate(temps)]
    second = [square(part(Y, LENGTH - 6 - 6 * k, 6, 1), whole(t)) for k, t in enumerate(temps)]
    program = Program("rows", (X, Y, *temps), (*first, *second))
    found = rolled(verify(program))
    assert len(found.steps) == 2
    assert [b.shape for b in found.of("temp")] == [(n, 6)]
    for s in found.steps:
        (phase,) = s.kernel.phases
        assert isinstance(phase, Loop)
        assert phase.mark == "parallel"
        assert [x.mark for x in statements(phase.body) if isinstance(x, Loop)].count("parallel") == 0
    x = np.random.default_rng(0).normal(size=LENGTH)
    (y,) = compile_program(program)(x)
    np.testing.assert_array_equal(y.reshape(n, 6), np.square(np.square(x.reshape(n, 6)))[::-1])


def test_what_waits_for_the_step_before_is_no_loop() -> None:
    """y[k + 1] = y[k]^2, and sums in one place."""
    chain = [square(part(Y, k + 1, 1, 1), part(Y, k, 1, 1)) for k in range(2 * FEW)]
    sums = [square(part(Y, 0, 4, 1), part(X, 4 * k, 4, 1), "sum") for k in range(2 * FEW)]
    program = verify(Program("waits", (X, Y), (square(whole(Y), whole(X)), *chain, *sums)))
    assert rolled(program) is program
