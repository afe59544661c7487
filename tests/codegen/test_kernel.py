"""Compiled loop nests against their interpreter, between fences: loops, marks, reductions, addresses."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from iverson.codegen.launches import compile_kernel
from iverson.codegen.nests.access_checks import plan
from iverson.codegen.nests.nodes import (
    INT64,
    Buffer,
    Declare,
    If,
    Kernel,
    Let,
    Local,
    Loop,
    Size,
    Store,
    Update,
    UpdateArg,
)
from iverson.core.dtypes import as_dtype
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    IndexingError,
    ShapeError,
)
from iverson.expr.function_facts import identity
from iverson.expr.nodes import Cast, Expr, Select
from tests.codegen.nests import F32, F64, I32, add, c, check, f, i, j, k, ld, mul, p

RNG = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = F32) -> Any:
    return RNG.normal(size=shape).astype(dtype)


def chain(dtype: Any, factor: int = 2, outer: str = "parallel") -> Kernel:
    """out = tanh(a * b + 1/2), and its sum over rows."""
    a, b = Buffer("a", dtype, ("n", "m")), Buffer("b", dtype, ("m",))
    out, total = Buffer("out", dtype, ("n", "m"), "out"), Buffer("total", dtype, ("n",), "out")
    value = f("tanh", add(mul(ld(a, i, j), ld(b, j)), c(0.5, dtype)))
    inner = (
        Let("t", value),
        Store(out, (i, j), Local("t", dtype)),
        Update("acc", "sum", Local("t", dtype)),
    )
    body = (
        Declare("acc", dtype, c(0.0, dtype)),
        Loop("j", c(0), Size("m"), inner, mark="vector", factor=factor),
        Store(total, (i,), Local("acc", dtype)),
    )
    return Kernel("chain", (a, b, out, total), (Loop("i", c(0), Size("n"), body, mark=outer),), ("n", "m"))


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (3, 16), (4, 67), (5, 200), (0, 4), (4, 0)])
def test_vector_loops_of_any_length(n: int, m: int, dtype: Any) -> None:
    arrays = {"a": normal(n, m, dtype=dtype), "b": normal(m, dtype=dtype)}
    arrays |= {"out": np.zeros((n, m), dtype), "total": np.zeros(n, dtype)}
    for factor in (1, 3):
        check(chain(dtype, factor), arrays)


@pytest.mark.parametrize("combine", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", [F32, F64, I32, np.dtype("uint8")])
def test_reductions_over_vector_loops(combine: str, dtype: Any) -> None:
    a, out = Buffer("a", dtype, (3, "m")), Buffer("out", dtype, (3,), "out")
    body = (
        Declare("acc", dtype, c(identity(combine, dtype), dtype)),
        Loop("j", c(0), Size("m"), (Update("acc", combine, ld(a, i, j)),), mark="vector", factor=2),
        Store(out, (i,), Local("acc", dtype)),
    )
    kernel = Kernel("reduce", (a, out), (Loop("i", c(0), c(3), body),), ("m",))
    for m in (0, 1, 15, 100):
        data = (
            (RNG.normal(size=(3, m)) * 3).astype(dtype)
            if dtype.kind == "f"
            else RNG.integers(0, 9, (3, m)).astype(dtype)
        )
        check(kernel, {"a": data, "out": np.zeros(3, dtype)}, rtol=1e-4)


@pytest.mark.parametrize("combine", ["max", "min"])
def test_extrema_let_nan_through(combine: str) -> None:
    a, out = Buffer("a", F32, (40,)), Buffer("out", F32, (1,), "out")
    body = (
        Declare("acc", F32, c(identity(combine, F32), F32)),
        Loop("j", c(0), c(40), (Update("acc", combine, ld(a, j)),), mark="vector"),
        Store(out, (c(0),), Local("acc", F32)),
    )
    kernel = Kernel("nan", (a, out), (Loop("i", c(0), c(1), body),))
    for at in (0, 7, 39):
        data = normal(40)
        data[at] = np.nan
        check(kernel, {"a": data, "out": np.zeros(1, F32)})


@pytest.mark.parametrize("combine", ["argmax", "argmin"])
@pytest.mark.parametrize("mark", ["", "vector"])
def test_positions_of_extrema(combine: str, mark: str) -> None:
    a, out = Buffer("a", F32, (4, "m")), Buffer("out", INT64, (4,), "out")
    best = UpdateArg("best", "at", combine, ld(a, i, j), j)
    body = (
        Declare("best", F32, c(identity(combine, F32), F32)),
        Declare("at", INT64, c(2**63 - 1)),
        Loop("j", c(0), Size("m"), (best,), mark=mark, factor=2),
        Store(out, (i,), Local("at", INT64)),
    )
    kernel = Kernel("arg", (a, out), (Loop("i", c(0), c(4), body),), ("m",))
    for m in (0, 1, 5, 70):
        data = RNG.integers(0, 4, (4, m)).astype(F32)
        data[1, m // 2 :] = np.nan
        data[2] = np.inf if combine == "argmin" else -np.inf
        check(kernel, {"a": data, "out": np.zeros(4, INT64)})


def matmul(n: int, m: int, inner: int, tile: int, factor: int) -> Kernel:
    a, b = Buffer("a", F32, (n, inner)), Buffer("b", F32, (inner, m))
    out = Buffer("out", F32, (n, m), "out")
    product = (
        Declare("acc", F32, c(0.0, F32)),
        Loop("k", c(0), c(inner), (Update("acc", "sum", mul(ld(a, i, k), ld(b, k, j))),)),
        Store(out, (i, j), Local("acc", F32)),
    )
    columns = Loop("j", c(0), c(m), product, mark="vector", factor=factor)
    return Kernel("matmul", (a, b, out), (Loop("i", c(0), c(n), (columns,), mark="tile", factor=tile),))


@pytest.mark.parametrize("shape", [(8, 32, 5), (7, 33, 3), (3, 100, 1), (1, 1, 4), (5, 16, 0)])
def test_register_tiles(shape: tuple[int, int, int]) -> None:
    n, m, inner = shape
    for tile, factor in ((4, 2), (1, 1), (3, 4)):
        arrays = {"a": normal(n, inner), "b": normal(inner, m), "out": np.zeros((n, m), F32)}
        check(matmul(n, m, inner, tile, factor), arrays)


def test_tiles_of_symbolic_extent() -> None:
    a, out = Buffer("a", F64, ("n",)), Buffer("out", F64, ("n",), "out")
    body = (Store(out, (i,), f("exp", ld(a, i))),)
    kernel = Kernel("tiled", (a, out), (Loop("i", c(0), Size("n"), body, mark="tile", factor=4),), ("n",))
    for n in (0, 1, 3, 4, 9):
        check(kernel, {"a": normal(n, dtype=F64), "out": np.zeros(n)})


@pytest.mark.parametrize(
    ("source", "target"),
    [
        *(("int64", t) for t in ("int32", "uint16", "int8", "bool", "float32")),
        *(("int32", t) for t in ("int16", "uint8")),
        *(("float64", t) for t in ("int32", "float32", "float16")),
        *(("float32", t) for t in ("int16", "bfloat16")),
        ("int16", "int8"),
    ],
)
def test_numbers_cut_to_fewer_bits_end_where_their_array_does(source: str, target: str) -> None:
    """Rows of a number more than whole vectors, of a length that is known, or is once loops are unrolled."""
    if target == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x = Buffer("x", np.dtype(source), (4, 70))
    outs = [Buffer(f"out{n}", as_dtype(target), (n,), "out") for n in (1, 3, 9, 17, 25, 33, 49, 65)]
    rows = Buffer("rows", as_dtype(target), (3, 17), "inout")

    def row(at: Expr, out: Buffer, index: tuple[Expr, ...], end: Expr) -> Loop:
        return Loop("j", c(0), end, (Store(out, index, Cast(ld(x, at, j), out.dtype)),), mark="vector")

    longer = Loop("i", c(0), c(3), (row(i, rows, (i, j), add(mul(i, c(8)), c(1))),))
    phases = [row(c(k % 4), out, (j,), c(out.shape[0])) for k, out in enumerate(outs)]
    kernel = Kernel("cut", (x, rows, *outs), (*phases, longer))
    arrays = {b.name: np.zeros(b.shape, b.dtype) for b in kernel.arguments}
    check(kernel, arrays | {"x": RNG.integers(0, 100, x.shape).astype(x.dtype)})


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_strided_reads(stride: int) -> None:
    a, out = Buffer("a", F32, ("m",)), Buffer("out", F32, ("n",), "out")
    body = (Store(out, (i,), add(ld(a, mul(i, c(stride))), ld(a, add(mul(i, c(stride)), c(stride - 1))))),)
    kernel = Kernel(
        "strided", (a, out), (Loop("i", c(0), Size("n"), body, mark="vector", factor=2),), ("m", "n")
    )
    for n in (1, 16, 61):
        check(kernel, {"a": normal(n * stride), "out": np.zeros(n, F32)})


def test_backward_reads_and_gathers() -> None:
    a, index = Buffer("a", F32, ("n",)), Buffer("index", I32, ("n",))
    out = Buffer("out", F32, ("n",), "out")
    back = f("subtract", f("subtract", Size("n"), c(1)), i)
    body = (Store(out, (i,), add(ld(a, back), ld(a, ld(index, i)))),)
    kernel = Kernel("mixed", (a, index, out), (Loop("i", c(0), Size("n"), body, mark="vector"),), ("n",))
    for n in (1, 40):
        arrays = {"a": normal(n), "index": RNG.integers(0, n, n).astype(I32), "out": np.zeros(n, F32)}
        check(kernel, arrays)


@pytest.mark.parametrize("mark", ["", "vector", "tile"])
def test_guarded_reads_stay_inside(mark: str) -> None:
    a, out = Buffer("a", F32, (50,)), Buffer("out", F32, (50,), "out")
    at = f("subtract", i, c(3))
    other = add(i, c(5))
    low = Select(f("greater_equal", at, c(0)), ld(a, at), c(-1.0, F32))
    high = Select(f("less", other, c(50)), ld(a, other), c(-2.0, F32))
    body = (Store(out, (i,), add(low, high)),)
    kernel = Kernel("pad", (a, out), (Loop("i", c(0), c(50), body, mark=mark, factor=2),))
    check(kernel, {"a": normal(50), "out": np.zeros(50, F32)})


@pytest.mark.parametrize("m", [1, 15, 16, 17, 70])
def test_reads_held_between_bounds(m: int) -> None:
    a, out = Buffer("a", F32, ("m",)), Buffer("out", F32, ("m",), "out")
    top = f("subtract", Size("m"), c(1))
    left = f("maximum", f("subtract", i, c(2)), c(0))
    right = f("minimum", f("maximum", add(i, c(3)), c(0)), top)
    body = (Store(out, (i,), add(ld(a, left), mul(ld(a, right), c(2.0, F32)))),)
    for factor in (1, 2):
        loop = Loop("i", c(0), Size("m"), body, mark="vector", factor=factor)
        check(Kernel("edges", (a, out), (loop,), ("m",)), {"a": normal(m), "out": np.zeros(m, F32)})


def test_reads_guarded_by_data_are_clamped() -> None:
    a, index = Buffer("a", F32, (9,)), Buffer("index", I32, ("n",))
    out = Buffer("out", F32, ("n",), "out")
    at = Cast(ld(index, i), INT64)
    known = f("not_equal", ld(index, i), c(-1, I32))
    body = (Store(out, (i,), Select(known, ld(a, at), c(0.0, F32))),)
    for mark in ("", "vector"):
        kernel = Kernel("maybe", (a, index, out), (Loop("i", c(0), Size("n"), body, mark=mark),), ("n",))
        index_values = np.array([0, -1, 8, -1, 3] * 9, I32)
        compiled = check(kernel, {"a": normal(9), "index": index_values, "out": np.zeros(45, F32)})
        assert plan(kernel).clamped
        wild = np.where(np.arange(45) == 17, 10**9, -1).astype(I32)
        with pytest.raises(
            IndexingError, match=r"got index 1000000000 at axis 0 of a\[int64\(index\[i\]\)\]"
        ):
            compiled(normal(9), wild, np.zeros(45, F32))


def test_conditions_that_differ_between_lanes() -> None:
    a, out = Buffer("a", F32, ("n",)), Buffer("out", F32, ("n",), "inout")
    body = (
        Declare("acc", F32, c(1.0, F32)),
        If(
            f("greater", ld(a, i), c(0.0, F32)),
            (
                Loop("k", c(0), c(3), (Update("acc", "sum", ld(a, i)),)),
                Store(out, (i,), Local("acc", F32), "sum"),
            ),
        ),
    )
    for mark in ("", "vector", "tile"):
        loop = Loop("i", c(0), Size("n"), body, mark=mark, factor=2)
        check(Kernel("if", (a, out), (loop,), ("n",)), {"a": normal(53), "out": normal(53)})


@pytest.mark.parametrize("threads", [1, 3])
def test_shared_sums_from_several_threads(threads: int) -> None:
    index, a = Buffer("index", I32, ("n",)), Buffer("a", F64, ("n",))
    out = Buffer("out", F64, (5,), "inout")
    body = (Store(out, (Cast(ld(index, i), INT64),), ld(a, i), "sum", shared=True),)
    kernel = Kernel("scatter", (index, a, out), (Loop("i", c(0), Size("n"), body, mark="parallel"),), ("n",))
    arrays = {"index": RNG.integers(0, 5, 5000).astype(I32), "a": normal(5000, dtype=F64), "out": np.ones(5)}
    check(kernel, arrays, threads=threads)


def spmm() -> Kernel:
    rows, columns = Buffer("rows", I32, ("r",)), Buffer("columns", I32, ("z",))
    values, b = Buffer("values", F32, ("z",)), Buffer("b", F32, ("m", 20))
    out = Buffer("out", F32, ("n", 20), "out")
    term = mul(ld(values, p), ld(b, ld(columns, p), j))
    entries = Loop(
        "p",
        Cast(ld(rows, i), INT64),
        Cast(ld(rows, add(i, c(1))), INT64),
        (Update("acc", "sum", term),),
    )
    body = (Declare("acc", F32, c(0.0, F32)), entries, Store(out, (i, j), Local("acc", F32)))
    columns_loop = Loop("j", c(0), c(20), body, mark="vector", factor=2)
    phase = Loop("i", c(0), Size("n"), (columns_loop,), mark="parallel")
    return Kernel("spmm", (rows, columns, values, b, out), (phase,), ("r", "z", "m", "n"))


def spmm_arrays() -> dict[str, Any]:
    return {
        "rows": np.array([0, 2, 2, 5], I32),
        "columns": np.array([0, 3, 1, 2, 3], I32),
        "values": normal(5),
        "b": normal(4, 20),
        "out": np.zeros((3, 20), F32),
    }


def test_loops_over_stored_entries() -> None:
    check(spmm(), spmm_arrays(), threads=2)


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [("columns", 1, 4), ("columns", 0, -1), ("rows", 3, 6), ("rows", 0, -2), ("rows", 1, 2**31 - 1)],
)
def test_bad_indices_raise(name: str, at: int, value: int) -> None:
    arrays = spmm_arrays()
    arrays[name][at] = value
    with pytest.raises(IndexingError, match=r"spmm.*expected indices from 0 to"):
        compile_kernel(spmm())(*arrays.values())


def test_entries_that_no_iteration_reads_may_be_anything() -> None:
    arrays = spmm_arrays()
    check(spmm(), arrays)
    arrays["rows"][-1] = 4
    arrays["columns"][-1] = 99
    check(spmm(), arrays, threads=2)


def test_a_size_by_keyword_is_checked_too() -> None:
    rows, out = Buffer("rows", I32, ("r",)), Buffer("out", I32, ("r",), "out")
    body = (Store(out, (i,), ld(rows, i)),)
    kernel = compile_kernel(Kernel("long", (rows, out), (Loop("i", c(0), Size("n"), body),), ("r", "n")))
    with pytest.raises(
        IndexingError, match=r"got index 5 at axis 0 of out\[i\]; expected indices from 0 to 4"
    ):
        kernel(np.zeros(5, I32), np.zeros(5, I32), n=10)
    with pytest.raises(ArgumentError, match="argument 'n': got no value"):
        kernel(np.zeros(5, I32), np.zeros(5, I32))


def test_arguments_are_checked() -> None:
    kernel = compile_kernel(chain(F32))
    good = [normal(3, 4), normal(4), np.zeros((3, 4), F32), np.zeros(3, F32)]

    def call(at: int, value: Any) -> None:
        kernel(*[value if n == at else a for n, a in enumerate(good)])

    kernel(*good)
    with pytest.raises(ShapeError, match=r"argument 'b': got shape \(5,\); expected \(4,\)"):
        call(1, normal(5))
    with pytest.raises(ShapeError, match="rank 1; expected rank 2"):
        call(0, normal(4))
    with pytest.raises(DTypeError, match="got float64; expected float32"):
        call(1, normal(4, dtype=F64))
    with pytest.raises(ArgumentError, match="C-contiguous"):
        call(0, normal(4, 3).T)
    with pytest.raises(ArgumentTypeError, match="got list"):
        call(1, [1.0] * 4)
    with pytest.raises(ArgumentError, match="memory shared with 'a'"):
        call(2, good[0])
    frozen = np.zeros(3, F32)
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        call(3, frozen)
    with pytest.raises(ArgumentError, match="got 3 arrays; expected 4"):
        kernel(*good[:3])


def test_rules_are_enforced() -> None:
    a, out = Buffer("a", F32, (4,)), Buffer("out", F32, (4,), "out")

    def refuse(body: Any, match: str) -> None:
        with pytest.raises(ArgumentError, match=match):
            compile_kernel(Kernel("bad", (a, out), (Loop("i", c(0), c(4), body, mark="vector"),)))

    refuse((Store(a, (i,), ld(out, i)),), "a store")
    refuse((Store(out, (i, i), ld(a, i)),), "2 indices")
    refuse((Store(out, (i,), c(1.0, F64)),), "dtype float64")
    refuse((Store(out, (i,), ld(a, j)),), "argument 'j'")
    refuse((Store(out, (i,), f("gammainc_order", ld(a, i))),), "gammainc_order")
    refuse((Loop("j", c(0), c(2), (), mark="parallel"),), "parallel inside a loop")


def test_calls_from_many_threads_at_once() -> None:
    kernel = compile_kernel(chain(F32))
    a, b = normal(200, 300), normal(300)
    want = np.tanh(a * b + np.float32(0.5))
    failures: list[object] = []

    def work() -> None:
        out, total = np.zeros_like(a), np.zeros(200, F32)
        for _ in range(5):
            kernel(a, b, out, total, threads=3)
            if not np.allclose(out, want, atol=1e-5):
                failures.append(out)

    workers = [threading.Thread(target=work) for _ in range(6)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not failures


def test_what_people_can_look_at() -> None:
    kernel = compile_kernel(chain(F32))
    assert "for i in range(0, n):  # parallel" in kernel.source
    assert "define" in kernel.typical.llvm
    assert "iverson_nest_0" in kernel.typical.asm
