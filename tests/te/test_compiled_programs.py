"""Random programs compiled and interpreted (`programs`), and some that random ones hardly meet."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iverson import te
from iverson.codegen.execution import object_code
from iverson.codegen.launches import compile_kernel
from iverson.codegen.nests.nodes import Kernel
from iverson.codegen.nests.print import kernel_text
from iverson.te.ir.interpret import run
from iverson.te.lowering.lowered_program import Run
from iverson.te.lowering.statement_lowering import lower
from tests.codegen.fenced import fenced
from tests.conformance.product import EXHAUSTIVE, SEED
from tests.tools.entered import entered_by

from .programs import hold, hold_all

#: Programs held, and in one test.
COUNT, CHUNK = (20_000, 100) if EXHAUSTIVE else (300, 20)


@pytest.mark.parametrize("first", range(SEED, SEED + COUNT, CHUNK))
def test_compiled_as_interpreted(first: int) -> None:
    hold_all(range(first, first + CHUNK))


@pytest.mark.parametrize(
    ("seed", "how"),
    [
        (300_210, "symbolic"),
        (500_127, "symbolic"),
        (601_960, "held"),
        (502_784, "held"),
        (700_244, "held"),
        (4_000_266, "held"),
        (3007, "held"),
    ],
)
def test_seldom_programs(seed: int, how: str) -> None:
    """Lanes that share an entry; guards on sizes, of a number, of a named value; equal terms."""
    assert hold(seed) == how


@given(n=st.integers(1, 6), m=st.integers(1, 8), by=st.integers(-2, 2), summed=st.booleans())
def test_a_stage_read_in_part_of_a_longer_one(n: int, m: int, by: int, summed: bool) -> None:
    """What pads a stage, or cuts it, covers all of its own entries, however both are walked."""
    x = te.placeholder((n, 3), name="x")
    j = te.reduce_axis(3, "j")
    first = te.compute((n,), lambda i: te.sum(x[i, j], axis=j) if summed else x[i, 1] * 2.0)
    second = te.compute(
        (m,), lambda i: te.F.bracket(te.F.logical_and(i + by >= 0, i + by < n), first[i + by])
    )
    program = te.eliminate(te.program_of([second]))
    data = np.arange(3.0 * n).reshape(n, 3) + 1
    own = data.sum(axis=1) if summed else 2 * data[:, 1]
    at = np.arange(m) + by
    inside = (at >= 0) & (at < n)
    expected = np.where(inside, own[np.where(inside, at, 0)], 0.0)
    for found in (run(program, [data]), lower(program)(data)):
        np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("rows", [1, 3, 4])
def test_scatters_read_in_part_by_a_sum(rows: int) -> None:
    """What a scatter writes beside the part that is read is no error."""
    at = [te.placeholder((4,), "int64", f"at{k}") for k in range(2)]
    v = [te.placeholder((4,), name=f"v{k}") for k in range(2)]
    a, b = (te.scatter((4,), (4,), lambda e, k=k: ((at[k][e],), v[k][e])) for k in range(2))
    part = te.compute((rows,), lambda i: a[i] + b[i])
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 4, 4), rng.integers(0, 4, 4), *rng.normal(size=(2, 4))]
    expected = np.zeros(4)
    for k in range(2):
        np.add.at(expected, given[k], given[2 + k])
    program = te.program_of([part], [*at, *v])
    for found in (run(program, given), lower(te.eliminate(program))(*given)):
        np.testing.assert_allclose(found[0], expected[:rows], rtol=1e-14)


def test_an_axis_without_values_writes_nothing() -> None:
    """Where another axis, that is walked first, leaves the result."""
    x = te.placeholder((1,), name="x")
    beyond = te.scatter((1,), (3, 0), lambda j, i: ((j,), 0.0 * x[0]))
    np.testing.assert_array_equal(lower(te.eliminate(te.program_of([beyond], [x])))(np.ones(1))[0], [0.0])


def test_a_row_without_terms_writes_nowhere() -> None:
    """Where it would write is read from data: nobody asked for that."""
    starts, at = te.placeholder((3,), "int64", "starts"), te.placeholder((2,), "int64", "at")
    x, y = te.placeholder((4,), name="x"), te.placeholder((3,), name="y")

    def entry(i: Any) -> Any:
        e = te.reduce_axis((starts[i], starts[i + 1]))
        return te.sum(x[e] * y[at[i]], e)

    head = te.placeholder((2,), name="head")
    (made,) = te.differentiate(te.compute((2,), entry), y, head)
    program = te.program_of([made], [starts, at, x, head])
    given = [np.array([0, 0, 4]), np.array([-1, 2]), np.arange(4.0), np.array([1.0, 2.0])]
    for found in (run(program, given), lower(te.eliminate(program))(*given)):
        np.testing.assert_array_equal(found[0], [0.0, 0.0, 12.0])


def test_the_text_of_a_kernel_does_not_grow_with_paths() -> None:
    x = te.placeholder((9,), name="x")

    def chain(levels: int) -> te.Compute:
        def entry(i: Any) -> Any:
            e = x[i]
            for _ in range(levels):
                e = te.sin(e) * e + te.cos(e)
            return e

        return te.compute((9,), entry)

    short, long = (
        sum(len(kernel_text(s.kernel)) for s in lower(te.eliminate(chain(n))).steps if isinstance(s, Run))
        for n in (8, 16)
    )
    assert long < 3 * short


def chain(stages: int) -> te.Program:
    """So many stages, each of the one before, with the gradient."""
    x, head = te.placeholder((64,), name="x"), te.placeholder((64,), name="head")
    t: te.Tensor = x
    for _ in range(stages):
        t = te.compute((64,), lambda i, t=t: te.sin(t[i]) + 0.5 * t[te.clamp(i - 1, 0, 63)])
    return te.program_of([t, *te.differentiate(t, x, head)], [x, head])


def length_of_nests(kernel: Kernel) -> int:
    """Lines of the functions of a kernel's phases."""
    text = compile_kernel(kernel).typical.text
    found = re.findall(r"^define internal void @iverson_nest_\d+\(.*?^}", text, re.MULTILINE | re.DOTALL)
    assert found
    return sum(x.count("\n") for x in found)


def test_stages_that_do_the_same_are_one_function() -> None:
    """What LLVM is given does not grow with their number, and they compute what they did."""
    made = [lower(te.eliminate(chain(n))) for n in (5, 15)]
    kernels = [[s.kernel for s in m.steps if isinstance(s, Run)] for m in made]
    short, long = (sum(map(length_of_nests, found)) for found in kernels)
    assert long == short
    assert [sum(len(k.phases) for k in found) for found in kernels] == [14, 44]
    given = np.random.default_rng(0).normal(size=(2, 64))
    for found, expected in zip(made[1](*given), run(chain(15), given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_functions_that_are_evaluated_often_are_called() -> None:
    """Code does not grow by a function's length with each place, and computes the same."""
    x = te.placeholder((21,), name="x")

    def powers(n: int) -> te.Tensor:
        return te.compute((21,), lambda i: sum((te.exp(x[i] * (0.01 * k)) for k in range(1, n)), x[i]))

    def length(t: te.Tensor) -> int:
        steps = lower(te.eliminate(te.program_of([t]))).steps
        return sum(length_of_nests(s.kernel) for s in steps if isinstance(s, Run))

    one, few, more, many = (length(powers(n)) for n in (3, 6, 36, 66))
    assert 2 * (many - more) / 30 < (few - one) / 3
    data = np.linspace(-2, 2, 21)
    expected = data + sum(np.exp(data * (0.01 * k)) for k in range(1, 40))
    np.testing.assert_allclose(
        lower(te.eliminate(te.program_of([powers(40)])))(data)[0], expected, rtol=1e-14
    )


def test_what_a_condition_says_of_an_axis_is_put_to_use() -> None:
    """The derivative of entries read before the first, which are none, reads what is there without clamps."""
    x, head = te.placeholder((20, 20), name="x"), te.placeholder((20, 20), name="head")
    before = te.compute(
        (20, 20), lambda i, j: te.select((j > 0) & (i + j < 20), x[i, te.maximum(j - 1, 0)] ** 3, 0.0)
    )
    made = te.eliminate(te.program_of(te.differentiate(before, x, head)))
    assert not any("maximum" in repr(i) for s in made.statements for r in s.reads for i in r.indices)


def test_compiling_a_chain_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in calls of Python functions, from the definition to machine code: each stage adds the same."""
    monkeypatch.setenv("IVERSON_CACHE", "off")

    def compiled(stages: int) -> None:
        assert lower(te.eliminate(chain(stages))).calls()

    compiled(3)  # imports, isl's answers
    n = [entered_by(lambda stages=stages: compiled(stages)) for stages in (10, 20, 40)]
    assert n[2] - n[1] <= 2.1 * (n[1] - n[0])


def test_choices_inside_choices_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What both sides of choices share is written once: code grows with the expression, not its paths."""
    made: list[int] = []
    plain = object_code.to_object
    monkeypatch.setenv("IVERSON_CACHE", "off")
    monkeypatch.setattr(object_code, "to_object", lambda text, m: (made.append(len(text)), plain(text, m))[1])
    x = te.placeholder((9,), name="x")
    at = te.placeholder((9,), "int64", "at")

    def nested(levels: int) -> te.Compute:
        def entry(i: Any) -> Any:
            e = x[i]
            for k in range(levels):
                near = te.select((i > k) & (at[i] > k), x[i - k] * e, e + 1.0)
                e = te.select(x[i] > k, near * e * 0.5, near - e)
            return e

        return te.compute((9,), entry)

    given = np.linspace(-1, 6, 9), np.arange(9)[::-1].copy()
    for levels in (4, 8):
        found = lower(te.eliminate(te.program_of([nested(levels)], [x, at])))(*given)[0]
        e = given[0]
        for k in range(levels):
            there = (np.arange(9) > k) & (given[1] > k)
            near = np.where(there, given[0][np.arange(9) - k] * e, e + 1)
            e = np.where(given[0] > k, near * e * 0.5, near - e)
        np.testing.assert_allclose(found, e, rtol=1e-12)
    assert made[1] < 3 * made[0]


@pytest.mark.parametrize(("rows", "columns"), [(4, 1), (5, 2), (3, 4)])
@pytest.mark.parametrize("at_end", [False, True])
def test_lanes_that_agree_on_an_entry_but_not_on_its_indices(rows, columns, at_end):
    """Along i the row and the column move and the place in memory stays: off the matrix it is not read."""
    n, m = te.var("n"), te.var("m")
    X, H = te.placeholder((rows, columns), name="X"), te.placeholder((n, m), name="H")
    at = te.placeholder((4,), "int64", name="at")

    def point(i: Any, j: Any) -> Any:
        r, c = i + 1 - j, -columns * i + 1 + 2 * j
        entry = te.select((r >= 0) & (r < rows) & (c >= 0) & (c < columns), X[r, c], 0.0)
        return te.clamp(at[j % 4], 0, 15), H[i, j] * te.cos(entry)

    T = te.scatter((16,), (n, m), point, "T")
    rng = np.random.default_rng(0)
    given = {
        X: rng.standard_normal((rows, columns)),
        H: rng.standard_normal((9, 17)),
        at: np.array([1, -1, 0, 4]),
    }
    of = {p.name: a for p, a in given.items()}
    lowered = lower(te.eliminate(te.program_of([T])))
    own = lowered.at(dict(zip(lowered.program.sizes, (9, 17), strict=True)))
    (found,) = own(*(fenced(of[p.name], at_end=at_end) for p in lowered.program.inputs), threads=1)
    r, c = np.mgrid[:9, :17]
    r, c = r + 1 - c, -columns * r + 1 + 2 * c
    there = (r >= 0) & (r < rows) & (c >= 0) & (c < columns)
    terms = given[H] * np.cos(np.where(there, given[X][r * there, c * there], 0.0))
    expected = np.zeros(16)
    np.add.at(expected, np.broadcast_to(np.clip(given[at], 0, 15)[np.arange(17) % 4], (9, 17)), terms)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
