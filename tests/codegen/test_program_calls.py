"""Calls of programs: one foreign call, no memory but the outputs; errors, threads, forks, caches."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from iverson.codegen.launches import compile_program, compiled_program
from iverson.codegen.nests.nodes import INT64, Buffer, Load, Var
from iverson.codegen.programs import (
    Branch,
    Nest,
    Product,
    Program,
    Repeat,
    View,
    blas_calls,
    interpret,
    step_builders,
    whole,
)
from iverson.codegen.programs.buffer_allocation import arena, in_place
from iverson.codegen.programs.nodes import c_strides
from iverson.codegen.programs.verify import verify
from iverson.codegen.runtime import kernel_cache
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, IndexingError, ShapeError
from tests.codegen.nests import F32, F64, c, f

C64, C128, BOOL = np.dtype("complex64"), np.dtype("complex128"), np.dtype("bool")
RNG = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = F64) -> Any:
    a = RNG.normal(size=shape)
    return np.asarray(a + 1j * RNG.normal(size=shape) if dtype.kind == "c" else a, dtype)


def unary(name: str, out: Buffer, x: Buffer) -> Nest:
    at = step_builders.variables(step_builders.axes(whole(out).shape))
    return step_builders.elementwise(
        whole(out), f(name, Load(step_builders.as_buffer("x", whole(x)), at)), {"x": whole(x)}
    )


def chain(n: int = 6, name: str = "chain", size: int = 40) -> Program:
    """y = tanh(tanh(... (x @ w) @ w ...)), and the last state is returned too."""
    x, w = Buffer("x", F64, (size, size)), Buffer("w", F64, (size, size))
    temps = [Buffer(f"t{k}", F64, (size, size), "temp") for k in range(2 * n)]
    y = Buffer("y", F64, (size, size), "out")
    steps: list[Any] = []
    last = x
    for k in range(n):
        steps += [
            Product(whole(temps[2 * k]), whole(last), whole(w)),
            unary("tanh", temps[2 * k + 1], temps[2 * k]),
        ]
        last = temps[2 * k + 1]
    steps.append(unary("negative", y, last))
    return Program(name, (x, w, *temps, y), tuple(steps))


# --- one call, one memory ---------------------------------------------------------------------------


def test_a_call_is_one_foreign_call_and_allocates_its_outputs_alone(monkeypatch: Any) -> None:
    made = compile_program(chain())
    x, w = normal(40, 40), normal(40, 40) / 6
    made(x, w)
    calls = []
    entry = made.library.functions["iverson_program"]
    monkeypatch.setitem(made.__dict__, "_entry", lambda *given: calls.append(entry(*given)))
    tracemalloc.start()
    try:
        (y,) = made.run((x, w))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert calls == [0]
    assert y.nbytes <= peak < y.nbytes + 4000  # small Python objects
    want = x
    for _ in range(6):
        want = np.tanh(want @ w)
    np.testing.assert_allclose(y, -want, rtol=1e-12)


def test_elementwise_steps_write_over_what_dies() -> None:
    """A chain of products and elementwise steps needs two places: what a product reads and writes."""
    program = chain()
    matrix = 40 * 40 * 8
    assert arena(in_place(program)).bytes == 2 * matrix
    assert (
        len(in_place(program).of("temp")) == 5
    )  # a place for each product, that of the last is the output's
    made = compile_program(program)
    assert made.arena.bytes == 2 * matrix


def test_arenas_of_large_programs_are_lent() -> None:
    program = chain(2, size=400)
    made = compile_program(program)
    assert not made.small
    x, w = normal(400, 400), normal(400, 400) / 20
    (y,) = made(x, w)
    # Where terms cancel, the order in which a product sums them shows.
    np.testing.assert_allclose(y, -np.tanh(np.tanh(x @ w) @ w), rtol=1e-10, atol=400 * np.finfo(float).eps)


def test_calls_from_many_threads_have_arenas_of_their_own() -> None:
    made = compile_program(chain())
    inputs = [(normal(40, 40), normal(40, 40) / 6) for _ in range(4)]
    want = [made(*given)[0] for given in inputs]
    same: list[bool] = []

    def work(k: int) -> None:
        same.extend(np.array_equal(made(*inputs[k])[0], want[k]) for _ in range(30))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(same)
    assert len(same) == 120
    assert len(made._frames) <= 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_calls_what_its_parent_compiled() -> None:
    made = compile_program(chain())
    x, w = normal(40, 40), normal(40, 40) / 6
    (want,) = made(x, w)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(made(x, w)[0], want) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_equal_structures_share_code_on_disk_and_in_memory(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("IVERSON_CACHE", str(tmp_path))
    compiled_program.forget()
    first = compile_program(chain(1))
    assert compile_program(chain(1, "other")).library is first.library
    assert len(list(tmp_path.glob("*.o"))) == 1
    compiled_program.forget()
    monkeypatch.setattr(compiled_program.object_code, "to_object", None)  # nothing is compiled again
    again = compile_program(chain(1))
    x, w = normal(40, 40), normal(40, 40)
    np.testing.assert_array_equal(again(x, w)[0], first(x, w)[0])
    assert kernel_cache.folder() == tmp_path


def test_the_blas_is_an_argument_of_the_code() -> None:
    """The same code calls whatever routine the table of its program names."""
    program = chain(1)
    calls = []
    gemm = blas_calls.scipy_table().addresses["dgemm"]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)
    real = kind(gemm)

    def counted(*given: Any) -> None:
        calls.append(ctypes.c_int32.from_address(given[2]).value)
        real(*given)

    own = kind(counted)
    address = ctypes.cast(own, ctypes.c_void_p).value
    made = compile_program(program, table=blas_calls.Table("own", {"dgemm": address or 0}))
    plain = compile_program(program)
    assert made.library is plain.library
    x, w = normal(40, 40), normal(40, 40)
    np.testing.assert_array_equal(made(x, w)[0], plain(x, w)[0])
    assert calls == [40]


# --- products ----------------------------------------------------------------------------------------


def laid(
    name: str, shape: tuple[int, ...], dtype: Any, transposed: bool, role: str = "in"
) -> tuple[Buffer, View]:
    """A buffer for matrices of a shape, and a view of them: transposed or not, with gaps between rows."""
    *batch, m, n = shape
    stored = (*batch, n, m) if transposed else shape
    held = Buffer(name, dtype, (*stored[:-1], stored[-1] + 1), role)
    v = View(held, stored, c_strides(whole(held).shape))
    return held, v.transposed if transposed else v


@pytest.mark.parametrize("dtype", [F32, F64, C64, C128])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1), (2, 0, 3), (0, 2, 3)]
)
def test_products_of_any_layout(dtype: Any, m: int, k: int, n: int) -> None:
    steps: list[Any] = []
    buffers: list[Buffer] = []
    for number, (t, s, u) in enumerate(itertools.product((False, True), repeat=3)):
        a, left = laid(f"a{number}", (2, m, k), dtype, t)
        b, right = laid(f"b{number}", (k, n), dtype, s)
        right = replace(right, shape=(2, k, n), strides=(0, *right.strides))
        o, out = laid(f"o{number}", (2, m, n), dtype, u, "inout")
        conjugate = (dtype.kind == "c" and t, dtype.kind == "c" and s)
        if u:  # what BLAS reads transposed is the other way round
            conjugate = (dtype.kind == "c" and not t, dtype.kind == "c" and not s)
        if min(m, k, n) < 2:
            conjugate = (False, False)
        alpha = 0.5 - 1j if dtype.kind == "c" else 0.5
        steps.append(Product(out, left, right, alpha, 1 if number % 2 else -0.25, conjugate))
        buffers += [a, b, o]
    program = verify(Program("products", tuple(buffers), tuple(steps)))
    arrays = [normal(*whole(b).shape, dtype=dtype) for b in buffers]
    got, want = [a.copy() for a in arrays], [a.copy() for a in arrays]
    compile_program(program)(*got)
    interpret.run(program, want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_small_products_are_nests_and_large_ones_are_not() -> None:
    def step(n: int, *, across: bool = False) -> Any:
        a, b, o = (Buffer(x, F64, (n, n), r) for x, r in (("a", "in"), ("b", "in"), ("o", "out")))
        return step_builders.product(whole(o), whole(a), whole(b).transposed if across else whole(b))

    assert [type(step(n)) for n in (8, 32, 33)] == [Nest, Nest, Product]
    assert [type(step(n, across=True)) for n in (8, 17)] == [Nest, Product]


# --- loops --------------------------------------------------------------------------------------------


def test_a_loop_ends_by_its_condition() -> None:
    """x doubles until it is no longer below 100."""
    x, y = Buffer("x", F64, ()), Buffer("y", F64, (), "out")
    now, new, go = (Buffer(n, d, (), "temp") for n, d in (("now", F64), ("new", F64), ("go", BOOL)))

    def below(b: Buffer) -> Nest:
        load = Load(step_builders.as_buffer("x", whole(b)), ())
        return step_builders.elementwise(whole(go), f("less", load, c(100.0, F64)), {"x": whole(b)})

    twice = f("multiply", Load(step_builders.as_buffer("x", whole(now)), ()), c(2.0, F64))
    body = (step_builders.elementwise(whole(new), twice, {"x": whole(now)}), below(new))
    loop = Repeat("i", None, body, ((now, new),), whole(go))
    steps = (
        step_builders.copy(whole(now), whole(x)),
        below(now),
        loop,
        step_builders.copy(whole(y), whole(now)),
    )
    made = compile_program(Program("doubling", (x, y, now, new, go), steps))
    for start in (3.0, 200.0):
        want = start
        while want < 100:
            want *= 2
        assert made(np.array(start))[0] == want


def gather(n: int) -> Program:
    x, index, y = Buffer("x", F64, (n,)), Buffer("index", INT64, (n,)), Buffer("y", F64, (n,), "out")
    at = Load(step_builders.as_buffer("index", whole(index)), (Var("i0"),))
    value = Load(step_builders.as_buffer("x", whole(x)), (at,))
    return Program(
        "gather",
        (x, index, y),
        (step_builders.elementwise(whole(y), value, {"x": whole(x), "index": whole(index)}),),
    )


def test_an_index_out_of_range_is_an_error_and_the_next_call_is_not() -> None:
    made = compile_program(gather(5))
    x = normal(5)
    with pytest.raises(IndexingError, match=r"index 7 at axis 0 .* expected indices from 0 to 4"):
        made(x, np.array([0, 1, 7, 2, 3]))
    np.testing.assert_array_equal(made(x, np.array([4, 3, 2, 1, 0]))[0], x[::-1])


# --- errors -------------------------------------------------------------------------------------------


def test_arrays_that_do_not_fit_are_named() -> None:
    made = compile_program(chain(1))
    x = normal(40, 40)
    for wrong, error, text in (
        ([x], ArgumentError, "got 1 arrays; expected 2"),
        ([x, [1]], ArgumentTypeError, "'w': got list"),
        ([x, x.astype(F32)], DTypeError, "'w': got float32; expected float64"),
        ([x[:3], x], ShapeError, "'x': got shape .3, 40.; expected .40, 40."),
        ([x.T, x], ArgumentError, "ascontiguousarray"),
    ):
        with pytest.raises(error, match=text):
            made(*wrong)


def written() -> Program:
    a = Buffer("a", F64, (3,), "inout")
    value = f("multiply", Load(Buffer("out", F64, (3,)), (Var("i0"),)), c(2.0, F64))
    step = step_builders.elementwise(whole(a), value, {})
    roles = tuple(replace(b, role="inout") for b in step.kernel.buffers)
    known = {b.name: b for b in roles}
    from iverson.codegen.nests.nodes import with_buffers

    kernel = replace(
        step.kernel, buffers=roles, phases=tuple(with_buffers(p, known) for p in step.kernel.phases)
    )
    x = Buffer("x", F64, (3,))
    return Program("twice", (a, x), (Nest(kernel, step.views),))


def test_what_is_written_has_memory_of_its_own() -> None:
    made = compile_program(written())
    a = normal(3)
    want = 2 * a
    made(a, normal(3))
    np.testing.assert_array_equal(a, want)
    with pytest.raises(ArgumentError, match="'a': got memory shared with 'x'"):
        made(a, a)
    a.flags.writeable = False
    with pytest.raises(ArgumentError, match="'a': got a read-only array"):
        made(a, normal(3))


X, Y, T, U = (Buffer(n, F64, (4, 4), r) for n, r in (("x", "in"), ("y", "out"), ("t", "temp"), ("u", "temp")))
FLAG = Buffer("flag", BOOL, ())
RULES: list[tuple[str, tuple[Any, ...], str]] = [
    (
        "a read before a write",
        (step_builders.copy(whole(Y), whole(T)),),
        "'t': got a read; expected a write before",
    ),
    ("a write of an input", (step_builders.copy(whole(X), whole(X)),), "'x': got a write"),
    ("an output that nobody writes", (), "'y': got no step that writes it"),
    (
        "a view outside",
        (step_builders.copy(whole(Y), View(X, (4, 4), (4, 1), 1)),),
        "'x': got entries 1 to 16; expected 0 to 15",
    ),
    (
        "a move outside",
        (
            Repeat(
                "i", 3, (step_builders.copy(View(Y, (2, 4), (4, 1)).moved("i", 8), View(X, (2, 4), (4, 1))),)
            ),
        ),
        "'y': got entries 0 to 23",
    ),
    (
        "a move without a loop",
        (step_builders.copy(whole(Y), whole(X).moved("i", 0)),),
        "'x': got a move with i; expected a variable",
    ),
    (
        "a product over itself",
        (step_builders.copy(whole(Y), whole(X)), Product(whole(Y), whole(X), whole(Y))),
        "overlaps",
    ),
    (
        "matrices that do not fit",
        (Product(whole(Y), View(X, (4, 2), (4, 1)), whole(X)),),
        "matrices that fit",
    ),
    ("strides", (Product(whole(Y), View(X, (4, 2), (4, 2)), View(X, (2, 4), (4, 1))),), "strides BLAS takes"),
    ("an endless loop", (Repeat("i", None, ()),), "'i': got None iterations"),
    ("a swap of other things", (Repeat("i", 2, (), ((T, X),)),), "expected two temps of one kind"),
    ("a swap of nothing", (Repeat("i", 2, (), ((T, U),)),), "'t': got a swap of what holds nothing"),
    (
        "one branch alone",
        (Branch(whole(FLAG), (step_builders.copy(whole(Y), whole(X)),)),),
        "'y': got no step",
    ),
    (
        "a loop that may not run",
        (Repeat("i", 0, (step_builders.copy(whole(Y), whole(X)),)),),
        "'y': got no step",
    ),
    ("a condition of many", (Branch(whole(X), ()),), "'x': got shape .4, 4.; expected one entry"),
    ("a complex scale", (Product(whole(Y), whole(X), whole(X), 1j),), "'scale': got 1j"),
]


@pytest.mark.parametrize(("steps", "message"), [r[1:] for r in RULES], ids=[r[0] for r in RULES])
def test_a_broken_rule_is_named(steps: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        verify(Program("wrong", (X, Y, T, U, FLAG), steps))


def test_constants_are_those_of_the_buffers() -> None:
    k = Buffer("k", F64, (4, 4), "const")
    program = Program("held", (k, Y), (step_builders.copy(whole(Y), whole(k)),), {"k": normal(4, 4)})
    np.testing.assert_array_equal(compile_program(program)()[0], program.constants["k"])
    with pytest.raises(ArgumentError, match="'constants'"):
        verify(replace(program, constants={"k": normal(4)}))
