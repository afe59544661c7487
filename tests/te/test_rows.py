"""Phases over the same rows as one loop over blocks of rows: which are, and that the bits stay the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.codegen.execution.verify import verify
from iverson.codegen.launches import compiled_program
from iverson.codegen.nests import interpret
from iverson.codegen.nests.nodes import INT64, Loop, Stmt, Store, rewritten, statements, with_buffers
from iverson.codegen.programs.nodes import Nest
from iverson.codegen.programs.thread_sharing import is_shared_out
from iverson.codegen.runtime import workspaces
from iverson.codegen.schedule.row_tiling import by_rows, parts
from iverson.expr.nodes import Apply, Const
from iverson.graph.lowering.graph_lowering import Native
from iverson.graph.lowering.graph_lowering import lower as graph_lower
from iverson.graph.passes import simplified
from iverson.te.lowering import statement_lowering
from iverson.te.lowering.lowered_program import Lowered, Run
from iverson.te.lowering.native_call import NativeCall
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import by_turns

from .corpus import KERNELS


def code(*outputs: te.Tensor) -> Lowered:
    return lower(te.eliminate(te.program_of(outputs)))


def phases(made: Lowered) -> list[Stmt]:
    return [p for s in made.steps if isinstance(s, Run) for p in s.kernel.phases]


def loops(made: Lowered) -> list[int]:
    """Of each phase, how many were made one."""
    return [max(len(parts(p)), 1) for p in phases(made)]


def apart(monkeypatch: pytest.MonkeyPatch, *outputs: te.Tensor) -> Lowered:
    """The code without loops over rows."""
    with monkeypatch.context() as m:
        m.setattr(statement_lowering, "by_rows", list)
        statement_lowering.forget()
        made = code(*outputs)
    statement_lowering.forget()
    return made


def softmax(x: te.Tensor) -> te.Tensor:
    n, m = x.shape
    k = te.reduce_axis(m)
    top = te.compute((n,), lambda i: te.max(x[i, k], k), "top")
    e = te.compute((n, m), lambda i, j: te.exp(x[i, j] - top[i]), "e")
    total = te.compute((n,), lambda i: te.sum(e[i, k], k), "total")
    return te.compute((n, m), lambda i, j: e[i, j] / total[i], "softmax")


def test_threads_have_one_loop_of_a_softmax_to_share() -> None:
    made = code(softmax(te.placeholder((900, 256), "float32", "x")))
    assert loops(made) == [4]
    assert [is_shared_out(p, {}) for p in phases(made)] == [True]


@pytest.mark.parametrize("n", [1, 2, 7, 300, 301])
def test_gradients_of_a_softmax_are_one_loop_with_the_same_bits(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = te.placeholder((n, 37), "float32", "x")
    y = softmax(x)
    head = te.placeholder(y.shape, "float32", "head")
    results = [y, *te.differentiate(y, [x], head)]
    rng = np.random.default_rng(n)
    given = [rng.normal(size=(n, 37)).astype("float32") for _ in range(2)]
    made, before = code(*results), apart(monkeypatch, *results)
    assert n < 300 or (loops(made) == [7] and loops(before) == [1] * 7)
    for threads in (None, 1, 2):
        for a, b in zip(made(*given, threads=threads), before(*given, threads=1), strict=True):
            np.testing.assert_array_equal(a.view("uint32"), b.view("uint32"))


@pytest.mark.parametrize("name", by_turns(KERNELS, 6, 1))
def test_bits_of_the_corpus(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, outputs, values = KERNELS[name].built()
    heads = [te.placeholder(t.shape, t.dtype, f"head{k}") for k, t in enumerate(outputs)]
    wanted = [t for t in given if t.dtype.kind == "f"]
    results = [*outputs, *te.differentiate(list(outputs), wanted, heads)]
    made, before = code(*results), apart(monkeypatch, *results)
    if loops(made) == loops(before):
        return
    rng = np.random.default_rng(0)
    feed = dict(zip(given, values.values(), strict=True)) | {h: rng.normal(size=h.shape) for h in heads}
    arrays = [np.asarray(feed[t], t.dtype) for t in te.program_of(results).inputs]
    for a, b in zip(made(*arrays), before(*arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_as_interpreted() -> None:
    """The loops as they are written, by the interpreter."""
    x = te.placeholder((21, 5), name="x")
    made = code(softmax(x))
    assert loops(made) == [4]
    (step,) = made.steps
    assert isinstance(step, Run)
    given = np.random.default_rng(0).normal(size=(21, 5))
    arrays = {b.name: np.zeros([int(n) for n in b.shape]) for b in step.kernel.buffers}
    arrays[made.buffers[x].name][...] = given
    interpret.run(step.kernel, arrays)
    out = made.buffers[made.program.outputs[0]].name
    np.testing.assert_allclose(arrays[out], made(given)[0], rtol=1e-14)


def test_rows_that_read_others_stay_apart() -> None:
    x = te.placeholder((40, 40), name="x")
    k = te.reduce_axis(40)
    total = te.compute((40,), lambda i: te.sum(x[i, k], k), "total")

    def follows(f: Any) -> list[int]:
        return loops(code(total, te.compute((40, 40), f)))

    assert follows(lambda i, j: te.exp(x[i, j] - total[i])) == [2]
    assert follows(lambda i, j: te.exp(x[i, j] - total[j])) == [1, 1]
    assert follows(lambda i, j: te.exp(x[i, j] - total[39 - i])) == [1, 1]
    assert follows(lambda i, j: te.exp(x[i, j] - total[te.maximum(i - 1, 0)])) == [1, 1]
    shorter = te.compute((39, 40), lambda i, j: te.exp(x[i, j] - total[i]))
    assert loops(code(total, shorter)) == [1, 1]  # other rows
    other = te.placeholder((40, 40), name="other")
    apart = te.compute((40,), lambda i: te.sum(other[i, k], k), "apart")
    assert loops(code(total, apart)) == [1, 1]  # nothing in common
    column = te.compute((40,), lambda j: te.sum(x[k, j], k), "column")
    assert loops(code(total, column)) == [1, 1]


def test_what_every_row_reads_stays_in_cache() -> None:
    """A table that rows read anywhere: a small one is there for each, a large one would be read anew."""
    found = []
    for entries in (1000, 100_000):
        x, table = te.placeholder((100, 8), name="x"), te.placeholder((entries,), name="table")
        at = te.placeholder((100, 30), "int64", "at")
        k = te.reduce_axis(8)
        total = te.compute((100,), lambda i, x=x, k=k: te.sum(x[i, k], k), "total")
        sums = te.compute((100, 30), lambda i, j, t=total, v=table, at=at: v[at[i, j]] + t[i], "sums")
        found.append(loops(code(total, sums)))
    assert found == [[2], [1, 1]]


def test_threads_do_not_become_fewer() -> None:
    """A register tile of four rows leaves two blocks of eight rows: the other phases keep their loops.

    Phases that are too short for threads have none to lose.
    """
    found = {}
    for n, m in ((8, 64), (8, 8192), (80, 64), (80, 8192)):
        x, w = te.placeholder((n, m), name="x"), te.placeholder((m,), name="w")
        k = te.reduce_axis(m)
        top = te.compute((n,), lambda i, x=x, k=k: te.max(te.exp(x[i, k]), k), "top")
        tiled = te.compute((n,), lambda i, x=x, w=w, k=k, t=top: te.sum(x[i, k] * w[k] * t[i], k), "tiled")
        made = code(tiled)
        marks = [s.mark for p in phases(made) for s in statements((p,)) if isinstance(s, Loop)]
        assert "tile" in marks
        found[n, m] = loops(made)
    assert found == {(8, 64): [2], (8, 8192): [1, 1], (80, 64): [2], (80, 8192): [2]}


def test_a_phase_between_that_is_independent_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = te.placeholder((40, 8), name="x"), te.placeholder((300,), name="y")
    k = te.reduce_axis(8)
    total = te.compute((40,), lambda i: te.sum(x[i, k], k), "total")
    between = te.compute((300,), lambda i: te.exp(y[i]), "between")
    last = te.compute((40, 8), lambda i, j: te.exp(x[i, j] - total[i]), "last")
    given = phases(apart(monkeypatch, total, between, last))
    assert len(given) == 3
    found = by_rows(given)
    assert [sum(isinstance(s, Store) for s in statements((p,))) for p in found] == [2, 1]


def test_compiled_functions_go_by_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two products one loop, in which the softmax is made in place."""
    rng = np.random.default_rng(0)
    x, w = iv.asarray(rng.normal(size=(70, 33))), iv.asarray(rng.normal(size=(33, 33)))

    def f(x: Any, w: Any) -> Any:
        y = iv.nn.softmax(x @ w, axis=1)
        return y, iv.mean(y * x, axis=1), x.T @ y

    def made() -> tuple[list[Any], list[int]]:
        compiled_program.forget()
        function = iv.jit(f)
        values = [y.numpy() for y in function(x, w)]
        (step,) = graph_lower(simplified(function.graph(x, w))).steps
        assert isinstance(step, Native)
        nests = [s for s in step.compiled.program.steps if isinstance(s, Nest)]
        return values, [max(len(parts(p)), 1) for s in nests for p in s.kernel.phases]

    rows, loops_of_rows = made()
    monkeypatch.setattr(compiled_program, "by_rows", lambda program: program)
    others, loops_apart = made()
    assert (loops_of_rows, loops_apart) == ([5], [1] * 5)
    for a, b in zip(rows, others, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("columns", "rows"), [(16, 8), (1024, 4)])
def test_said_by_explain(columns: int, rows: int) -> None:
    """Where rows are work for threads, 16 blocks are left for these."""
    text = te.explain(softmax(te.placeholder((64, columns), "float32", "x")))
    assert f"rows      4 loops, {rows} rows of i at a time" in text
    assert text.count("\nkernel ") == 1


def held(made: Lowered) -> set[str]:
    """Buffers of which there are the rows at hand, those of vectors aside."""
    own = (b for s in made.steps if isinstance(s, Run) for b in s.kernel.buffers)
    return {b.label for b in own if b.role == "row" and len(b.shape) > 1}


def softmax_and_gradient(shape: tuple[int, int]) -> list[te.Tensor]:
    x = te.placeholder(shape, "float32", "x")
    y = softmax(x)
    return [y, *te.differentiate(y, [x], te.placeholder(y.shape, "float32", "head"))]


def test_of_temporaries_there_are_the_rows_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exponentials of a million entries and their adjoint: 8 KiB of each, not 4 MiB."""
    made = code(*softmax_and_gradient((4096, 256)))
    assert held(made) == {"e", "dsoftmax/de"}
    taken: list[int] = []
    take = workspaces.take

    def counted(shape: tuple[int, ...], dtype: Any) -> Any:
        found = take(shape, dtype)
        taken.append(found.nbytes)
        return found

    monkeypatch.setattr(workspaces, "take", counted)
    given = [np.ones((4096, 256), "float32")] * 2
    made(*given, threads=1)
    assert sum(taken) == 0
    (call,) = made.calls(1)
    assert isinstance(call, NativeCall)
    assert call.compiled.calling.arena < 256


def test_long_rows_are_whole_arrays() -> None:
    """There is stack for one temporary of 1,000 entries a row, and for none of 4,000."""
    assert held(code(*softmax_and_gradient((400, 1000)))) == {"e", "dsoftmax/de"}
    assert held(code(*softmax_and_gradient((400, 1500)))) in ({"e"}, {"dsoftmax/de"})
    assert held(code(*softmax_and_gradient((400, 4000)))) == set()


def test_temporaries_that_others_touch_are_whole_arrays() -> None:
    x, w = te.placeholder((300, 40), name="x"), te.placeholder((40, 40), name="w")
    k = te.reduce_axis(40)
    total = te.compute((300,), lambda i: te.sum(x[i, k], k), "total")
    e = te.compute((300, 40), lambda i, j: te.exp(x[i, j] - total[i]), "e")
    s = te.compute((300,), lambda i: te.sum(te.sin(e[i, k]), k), "s")
    assert held(code(s)) == set()  # the exponentials are values, in no array
    product = te.compute((300, 40), lambda i, j: te.sum(e[i, k] * w[k, j], k), "product")
    assert held(code(s, product)) == set()  # BLAS reads them
    assert held(code(s, e)) == set()  # the caller does


@pytest.mark.parametrize("threads", [None, 1, 2])
def test_an_index_outside_a_row_at_hand(threads: int | None) -> None:
    """Of what is read at an index from data, in a row of which there are no others."""
    x, at = te.placeholder((300, 40), name="x"), te.placeholder((300,), "int64", "at")
    k = te.reduce_axis(40)
    total = te.compute((300,), lambda i: te.sum(x[i, k], k), "total")
    e = te.keep(te.compute((300, 40), lambda i, j: te.exp(x[i, j] - total[i]), "e"))
    s = te.compute((300,), lambda i: te.sum(e[i, k], k), "s")
    picked = te.compute((300,), lambda i: e[i, at[i]] / s[i], "picked")
    made = code(picked)
    assert held(made) == {"e"}
    rng = np.random.default_rng(0)
    given, places = rng.normal(size=(300, 40)), rng.integers(0, 40, 300)
    exps = np.exp(given - given.sum(1, keepdims=True))
    wanted = exps[np.arange(300), places] / exps.sum(1)
    np.testing.assert_allclose(made(places, given, threads=threads)[0], wanted)
    places[171] = 40
    with pytest.raises(iv.errors.IndexingError, match=r"index 40 .*e\["):
        made(places, given, threads=threads)


def test_a_row_that_another_one_touches_is_refused() -> None:
    x = te.placeholder((40, 8), name="x")
    made = code(softmax(x))
    (step,) = made.steps
    assert isinstance(step, Run)
    verify(step.kernel)
    buffers = {b.name: replace(b, role="row" if b.role == "inout" else b.role) for b in step.kernel.buffers}
    kernel = replace(step.kernel, buffers=tuple(buffers.values()))
    verify(replace(kernel, phases=tuple(with_buffers(p, buffers) for p in kernel.phases)))

    def turned(s: Stmt) -> Stmt:
        last = isinstance(s, Store) and len(s.indices) == 2
        return (
            replace(s, indices=(Apply("subtract", (Const(39), s.indices[0]), INT64), s.indices[1]))
            if last
            else s
        )

    phases = tuple(rewritten(with_buffers(p, buffers), turned) for p in kernel.phases)
    with pytest.raises(iv.errors.ArgumentError, match="rows of"):
        verify(replace(kernel, phases=phases))
