"""Iterations that may write the same entries: every way of keeping them safe, against the interpreters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import te
from iverson.codegen.launches import compile_kernel
from iverson.codegen.nests.nodes import INT64, Buffer, If, Kernel, Loop, Size, Store
from iverson.codegen.schedule import parallel_scatter
from iverson.core.errors import IndexingError
from iverson.te.ir import interpret
from iverson.te.ir.nodes import Program, program_of
from iverson.te.lowering.lowered_program import Lowered, Run
from iverson.te.lowering.statement_lowering import afresh
from tests.codegen.nests import F64, add, c, check, f, i, k, ld, mul

WAYS = ("alone", "private", "owned")
COMBINES = ("sum", "prod", "max", "min")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One way taken wherever it is possible, whatever the sizes."""
    name: str = request.param
    taken(name, monkeypatch)
    return name


def taken(way: str, monkeypatch: pytest.MonkeyPatch) -> list[parallel_scatter.Choice]:
    found: list[parallel_scatter.Choice] = []
    choose = parallel_scatter.choose

    def chosen(costs: Any) -> parallel_scatter.Choice:
        plain = choose(costs)
        found.append(parallel_scatter.Choice(way if way in plain.costs else "alone", plain.costs))
        return found[-1]

    monkeypatch.setattr(parallel_scatter, "choose", chosen)
    return found


def segments(count: int, entries: int, dtype: str, combine: str, width: int = 0) -> Program:
    """``S[index[e]] (combine)= x[e]``, of rows where there is a width."""
    tail = (width,) if width else ()
    index = te.placeholder((count,), "int32", "index")
    x = te.placeholder((count, *tail), dtype, "x")
    return program_of(
        [
            te.scatter(
                (entries, *tail),
                (count, *tail),
                lambda e, *j: ((index[e], *j), x[(e, *j)] * 2),
                "S",
                combine,
            )
        ],
        (index, x),
    )


def compare(program: Program, *inputs: Any, threads: int = 3) -> Lowered:
    compiled = afresh(program)
    (want,) = interpret.run(program, inputs)
    (got,) = compiled(*inputs, threads=threads)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(got, want)
    return compiled


def phase_of(compiled: Lowered) -> Loop:
    """The parallel loop of a program that has one."""
    (phase,) = [p for s in compiled.steps if isinstance(s, Run) for p in s.kernel.phases]
    assert isinstance(phase, Loop)
    return phase


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_every_way_gives_what_the_interpreter_gives(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([0, 1, 7, 60]))
    entries = data.draw(st.sampled_from([1, 3, 50]))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int64", "int32"]))
    combine = data.draw(st.sampled_from(COMBINES))
    width = data.draw(st.sampled_from([0, 1, 5]))
    threads = data.draw(st.integers(2, 4))
    at = data.draw(st.lists(st.integers(0, entries - 1), min_size=count, max_size=count))
    rng = np.random.default_rng(len(at))
    values = rng.integers(-3, 4, (count, width) if width else count)
    program = segments(count, entries, dtype, combine, width)
    for name in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            taken(name, patch)
            compare(program, np.array(at, np.int32), values.astype(dtype), threads=threads)


def test_the_way_asked_for_is_taken(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = taken(way, monkeypatch)
    index, x = np.arange(40, dtype=np.int32) % 3, np.arange(40.0)
    compare(segments(40, 3, "float64", "sum"), index, x)
    assert [choice.way for choice in found] == [way]


@pytest.mark.parametrize("combine", COMBINES)
def test_nan_reaches_its_entry_only(way: str, combine: str) -> None:
    index, x = np.array([2, 0, 2, 1], np.int32), np.array([1.0, 2.0, np.nan, 4.0])
    compare(segments(4, 3, "float64", combine), index, x)


def test_an_owner_takes_the_terms_of_an_entry_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    index, x = rng.integers(0, 5, 400).astype(np.int32), rng.normal(size=400).astype("float32")
    program = segments(400, 5, "float32", "sum")
    want = np.zeros(5, "float32")
    np.add.at(want, index, x * 2)
    for name in ("alone", "owned"):
        with monkeypatch.context() as patch:
            taken(name, patch)
            compiled = afresh(program)
            for threads in (2, 3, 5):
                np.testing.assert_array_equal(compiled(index, x, threads=threads)[0], want)


def test_private_copies_are_combined_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    index, x = rng.integers(0, 5, 5000).astype(np.int32), rng.normal(size=5000).astype("float32")
    compiled = afresh(segments(5000, 5, "float32", "sum"))
    taken("private", monkeypatch)
    parts = [slice(5000 * k // 3, 5000 * (k + 1) // 3) for k in range(3)]
    want = np.zeros(5, "float32")
    for part in parts:
        copy = np.zeros(5, "float32")
        np.add.at(copy, index[part], x[part] * 2)
        want += copy
    for _ in range(20):
        np.testing.assert_array_equal(compiled(index, x, threads=3)[0], want)


def test_addresses_that_two_loops_make_are_owned_write_by_write(way: str) -> None:
    index = te.placeholder((9, 4), "int64", "index")
    x = te.placeholder((9, 4), "float64", "x")
    program = program_of([te.scatter((6,), (9, 4), lambda e, j: (index[e, j], x[e, j]), "S")], (index, x))
    rng = np.random.default_rng(1)
    compiled = compare(program, rng.integers(0, 6, (9, 4)), rng.normal(size=(9, 4)))
    assert parallel_scatter.key(phase_of(compiled)) is None


def test_loops_that_begin_anywhere(way: str) -> None:
    index, a = Buffer("index", INT64, ("n",)), Buffer("a", F64, ("n",))
    out = Buffer("out", F64, (5,), "inout")
    body = (Store(out, (ld(index, i),), mul(ld(a, i), ld(a, i)), "sum", shared=True),)
    loop = Loop("i", c(3), add(Size("n"), c(-2)), body, mark="parallel")
    arrays = {
        "index": np.random.default_rng(2).integers(0, 5, 71),
        "a": np.arange(71.0),
        "out": np.ones(5),
    }
    check(Kernel("part", (index, a, out), (loop,), ("n",)), arrays, threads=3)


def test_where_a_guard_fails_an_index_may_be_anything(way: str) -> None:
    n = 71
    index, more = Buffer("index", INT64, (n,)), Buffer("more", INT64, (5,))
    a, out = Buffer("a", F64, (n,)), Buffer("out", F64, (5,), "inout")
    store = Store(out, (ld(more, ld(index, i)),), ld(a, i), "sum", shared=True)
    body = (If(f("greater", ld(a, i), c(0.0, F64)), (store,)),)
    rng = np.random.default_rng(3)
    arrays: dict[str, Any] = {"a": rng.normal(size=n), "more": rng.permutation(5), "out": np.ones(5)}
    arrays["index"] = np.where(arrays["a"] > 0, rng.integers(0, 5, n), rng.choice([-1, 5, 2**60], n))
    kernel = Kernel("wild", (index, more, a, out), (Loop("i", c(0), c(n), body, mark="parallel"),))
    check(kernel, arrays, threads=3)
    arrays["index"][int(np.argmax(arrays["a"]))] = 7
    with pytest.raises(IndexingError, match=r"got index 7 at axis 0 of more\[index\["):
        compile_kernel(kernel)(*(arrays[b.name].copy() for b in kernel.buffers), threads=3)


def test_a_wrong_index_is_found(way: str) -> None:
    compiled = afresh(segments(40, 3, "float64", "sum"))
    for wrong in (-1, 3):
        index = np.zeros(40, np.int32)
        index[17] = wrong
        with pytest.raises(IndexingError, match="expected indices from 0 to 2"):
            compiled(index, np.ones(40), threads=2)


@pytest.mark.parametrize(
    ("count", "combine", "entries", "alone", "way"),
    [
        (100_000, "sum", 100, 3e5, "private"),
        (50_000, "max", 20_000_000, 1e7, "owned"),
        (50_000, "sum", 20_000_000, 1e7, "owned"),
        (50_000, "sum", 20_000_000, 1e5, "alone"),
    ],
)
def test_sizes_decide(count: int, combine: str, entries: int, alone: float, way: str) -> None:
    phase = phase_of(afresh(segments(40, 3, "float64", combine, 7)))
    long = Loop(phase.var, c(0), c(count), phase.body, mark="parallel")
    choice = parallel_scatter.choose(parallel_scatter.estimates(long, alone, entries, count, {}, 2))
    assert choice.way == way
    assert min(choice.costs.values()) == choice.costs[way]


@pytest.mark.parametrize(
    ("count", "entries", "width", "said"),
    [(40, 3, 0, "one thread"), (10**6, 3, 0, "private, "), (10**5, 3, 32, "entries of its own")],
)
def test_explain_says_which_way(
    count: int, entries: int, width: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_scatter, "available", lambda: 2)
    text = te.explain(segments(count, entries, "float32", "sum", width).outputs)
    (line,) = [x for x in text.splitlines() if "strategy" in x]
    assert line.startswith("  strategy  scatter: the address depends on data; ")
    assert said in line


def test_what_iterations_write_besides_is_written_once(way: str) -> None:
    """An iteration has one owner; where only its writes could have, other writes forbid it."""
    n = 40
    index, a = Buffer("index", INT64, (n, 2)), Buffer("a", F64, (n,), "inout")
    out = Buffer("out", F64, (5,), "inout")
    rng = np.random.default_rng(5)
    more = Store(a, (i,), c(1.0, F64), "sum")
    inner = Loop("k", c(0), c(2), (Store(out, (ld(index, i, k),), c(2.0, F64), "sum", shared=True),))
    for body in ((Store(out, (ld(index, i, c(0)),), c(2.0, F64), "sum", shared=True), more), (inner, more)):
        kernel = Kernel("both", (index, a, out), (Loop("i", c(0), c(n), body, mark="parallel"),))
        arrays = {"index": rng.integers(0, 5, (n, 2)), "a": np.zeros(n), "out": np.ones(5)}
        check(kernel, arrays, threads=3)


def test_programs_of_graphs_share_scatters(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_scatter, "is_worth_threads", lambda *_: True)
    monkeypatch.setattr(parallel_scatter, "available", lambda: 3)
    rng = np.random.default_rng(6)
    x, at = rng.normal(size=(50, 3)), rng.integers(0, 7, 50)
    found = iv.jit(lambda x: iv.segment_sum(x, at, num_segments=7) * 2.0)(iv.asarray(x))
    expected = np.zeros((7, 3))
    np.add.at(expected, at, x)
    np.testing.assert_allclose(np.asarray(found), 2 * expected, rtol=1e-12)
