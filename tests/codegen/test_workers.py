"""The team of workers: every iteration once, whoever calls and however often; forks, stops, sleep."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from iverson.codegen.execution.native_workers import TEAM, Team
from iverson.codegen.launches import compile_program, compiled_program, product_emission
from iverson.codegen.nests import phase_cost
from iverson.codegen.nests.nodes import Buffer
from iverson.codegen.programs import (
    Product,
    Program,
    blas_calls,
    interpret,
    step_builders,
    thread_sharing,
    whole,
)
from iverson.codegen.programs.nodes import View
from iverson.codegen.runtime import blas_threads
from tests.codegen.nests import F64, c
from tests.codegen.random_programs import arguments, programs
from tests.codegen.test_programs import assert_alike, compiled, interpreted
from tests.tools.caches import clear_functions


@pytest.fixture(autouse=True)
def everything_is_shared_out(monkeypatch: Any) -> Iterator[None]:
    """Loops of any length go to the team, in code that other tests do not meet."""
    monkeypatch.setenv("IVERSON_CACHE", "off")
    monkeypatch.setattr(phase_cost, "WORTH_THREADS", 0.0)
    for name, value in {"WORTH_THREADS": 0, "PANEL": 1}.items():
        monkeypatch.setattr(thread_sharing, name, value)
    monkeypatch.setattr(product_emission, "TILE", 4)
    compiled_program.forget()
    TEAM.start(3)
    yield
    compiled_program.forget()


def counter(rows: int = 37) -> Program:
    """x += 1, thrice."""
    x = Buffer("x", F64, (rows, 5), "inout")
    step = step_builders.elementwise(whole(x), c(1.0, F64), {}, "sum")
    return Program("counter", (x,), (step, step, step))


def test_every_iteration_runs_once_in_calls_from_many_threads() -> None:
    made = compile_program(counter())
    assert made.calling.shared_out
    arrays = [np.zeros((37, 5)) for _ in range(4)]

    def work(x: Any) -> None:
        for _ in range(300):
            made(x)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for x in arrays:
        np.testing.assert_array_equal(x, 900.0)


def test_code_of_the_workers_is_kept_by_the_team() -> None:
    """Workers are in it, and programs call it, whatever else keeps or drops it."""
    made, x = compile_program(counter()), np.zeros((37, 5))
    made(x)
    clear_functions()
    gc.collect()
    made(x)
    np.testing.assert_array_equal(x, 6.0)


def test_workers_that_sleep_are_woken() -> None:
    made = compile_program(counter(2000))
    x = np.zeros((2000, 5))
    for n in range(1, 6):
        deadline = time.monotonic() + 5
        while TEAM.words[32] < len(TEAM.members) and time.monotonic() < deadline:
            time.sleep(0.001)
        assert TEAM.words[32] == len(TEAM.members)  # all of them sleep
        made(x)
        assert (x == 3.0 * n).all()


@settings(max_examples=8, phases=(Phase.generate,))
@given(st.data())
def test_programs_shared_out_are_the_interpreted_ones(data: Any) -> None:
    program = data.draw(programs())
    arrays = data.draw(arguments(program))
    want = interpreted(program, arrays)
    assert_alike(compiled(program, arrays), want, 1e-3 if arrays[0].dtype == np.float32 else 1e-9)


#: By what is shared out: the batch, and the rows and columns of its matrices.
SHARED = {
    "rows": ((), 37, 9),
    "columns": ((), 5, 30),
    "rows of some": ((3,), 21, 20),
    "matrices": ((2, 5), 6, 7),
    "fewer than threads": ((), 2, 1),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_products_shared_out_are_products(dtype: str) -> None:
    rng, buffers, steps, wanted, arrays = np.random.default_rng(0), [], [], [], []

    def array(name: str, role: Any, *shape: int) -> Any:
        buffers.append(Buffer(name, np.dtype(dtype), shape, role))
        made = rng.standard_normal(shape)
        arrays.append((made + 1j * rng.standard_normal(shape) if dtype[0] == "c" else made).astype(dtype))
        return whole(buffers[-1]), arrays[-1]

    for n, (batch, rows, columns) in enumerate(SHARED.values()):
        for turned in range(4):
            name = f"{n}_{turned}"
            left, a = array(f"a{name}", "in", *batch, *((8, rows) if turned & 1 else (rows, 8)))
            right, b = array(f"b{name}", "in", *((columns, 8) if turned & 2 else (8, columns)))
            left, a = (left.transposed, a.swapaxes(-1, -2)) if turned & 1 else (left, a)
            right, b = (right.transposed, b.T) if turned & 2 else (right, b)
            out, o = array(f"o{name}", "inout", *batch, rows, columns)
            strides = (*(0 for _ in batch), *right.strides)
            right = View(right.buffer, (*batch, *right.shape), strides)
            steps.append(Product(out, left, right, 2, turned / 2))
            wanted.append((len(arrays) - 1, 2 * (a @ b) + turned / 2 * o))
    made = compile_program(Program("products", tuple(buffers), tuple(steps)))
    assert made.calling.shared_products
    before = threads_of_blas()
    made(*arrays)
    assert threads_of_blas() == before
    for k, want in wanted:
        np.testing.assert_allclose(arrays[k], want, rtol=1e-3 if dtype == "float32" else 1e-12)


def threads_of_blas() -> int:
    alone = blas_calls.scipy_table().alone
    assert alone is not None
    return alone._get()


def test_a_blas_is_on_one_thread_until_all_calls_have_ended() -> None:
    said = [7]
    alone = blas_threads.OneThread(lambda: said[-1], said.append)
    with alone:
        with alone:
            assert said == [7, 1]
        assert said == [7, 1]
    assert said == [7, 1, 7]


def test_a_blas_that_cannot_be_told_has_its_products_whole() -> None:
    a, o = Buffer("a", F64, (64, 64), "in"), Buffer("o", F64, (64, 64), "inout")
    program = Program("product", (a, o), (Product(whole(o), whole(a), whole(a)),))
    table = blas_calls.Table("scipy", blas_calls.scipy_table().addresses)
    x, y = np.random.default_rng(0).standard_normal((2, 64, 64))
    compile_program(program, table=table)(x, y)
    np.testing.assert_allclose(y, x @ x)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_a_team_of_its_own() -> None:
    made = compile_program(counter())
    x = np.zeros((37, 5))
    made(x)
    child = os.fork()
    if child == 0:
        alone = not TEAM.started and not TEAM.members
        made(x)
        os._exit(0 if alone and TEAM.started and (x == 6).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert TEAM.started


def test_a_team_stops_and_starts_again() -> None:
    team = Team()
    team.start(3)
    assert [t.is_alive() for t in team.members] == [True, True]
    members = list(team.members)
    team.stop()
    assert not any(t.is_alive() for t in members)
    team.start(2)
    team.stop()
    team.stop()


def test_long_loops_alone_are_shared_out(monkeypatch: Any) -> None:
    monkeypatch.undo()
    assert not compile_program(counter()).calling.shared_out
    assert compile_program(counter(400_000)).calling.shared_out
    for n, is_shared in ((64, False), (128, True)):
        a, o = Buffer("a", F64, (n, n), "in"), Buffer("o", F64, (n, n), "out")
        program = Program("product", (a, o), (Product(whole(o), whole(a), whole(a)),))
        assert compile_program(program).layout.shared_products is is_shared
    x = np.zeros((37, 5))
    interpret.run(counter(), [x])
    assert (x == 3).all()
