"""Compiled tensor expressions against their interpreter: plain, eliminated, and differentiated."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from iverson.codegen.launches import compile_kernel, compiled_program
from iverson.codegen.nests import nodes
from iverson.codegen.runtime.target import host
from iverson.codegen.schedule import blas_contraction, code_size
from iverson.core.counting import work
from iverson.core.errors import IndexingError, IversonError, ShapeError
from iverson.core.scalars import SCALARS
from iverson.expr.build import apply
from iverson.expr.nodes import Apply, Const, Expr, subexpressions
from iverson.te.derivatives.reverse_mode import differentiate
from iverson.te.elimination.zero_elimination import eliminate
from iverson.te.ir import interpret
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.nodes import Program, program_of
from iverson.te.language import definitions as te
from iverson.te.lowering import lowered_program, statement_lowering
from tests.conformance.product import by_turns, some

F32 = "float32"


def arrays_for(program: Program, seed: int = 0) -> list[Any]:
    g = np.random.default_rng(seed)

    def one(t: Tensor) -> Any:
        if t.dtype.kind in "iu":
            return g.integers(0, 3, t.shape).astype(t.dtype)
        if t.dtype.kind == "c":
            return (g.normal(size=t.shape) + 1j * g.normal(size=t.shape)).astype(t.dtype)
        return g.normal(size=t.shape).astype(t.dtype)

    return [one(t) for t in program.inputs]


def agree(program: Program) -> lowered_program.Lowered:
    """Compare with the interpreter on random inputs."""
    inputs = arrays_for(program)
    compiled = statement_lowering.lower(program)
    want = interpret.run(program, inputs)
    for threads in (1, 2):
        for got, expected in zip(compiled(*inputs, threads=threads), want, strict=True):
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, rtol=3e-4, atol=3e-4)
    return compiled


def conv(stride: int, dilation: int, groups: int = 1) -> Tensor:
    size = 2 * dilation + 1 + stride * 5
    image = te.placeholder((2, 4, size, size), F32, "I")
    kernel = te.placeholder((6, 4 // groups, 3, 3), F32, "W")
    c, y, x = (te.reduce_axis((0, n), v) for n, v in ((4 // groups, "c"), (3, "y"), (3, "x")))

    def entry(n: Any, o: Any, h: Any, w: Any) -> Any:
        channel = (o // (6 // groups)) * (4 // groups) + c
        at = (n, channel, stride * h + dilation * y, stride * w + dilation * x)
        return te.sum(image[at] * kernel[o, c, y, x], axis=(c, y, x))

    return te.compute((2, 6, 6, 6), entry, "O")


def reduction(name: str) -> Tensor:
    a = te.placeholder((5, 37), F32, "A")
    k = te.reduce_axis((0, 37), "k")
    return te.compute((5,), lambda i: getattr(te, name)(a[i, k], axis=k), "R")


def elementwise() -> Tensor:
    a, b = te.placeholder((7, 33), F32, "A"), te.placeholder((33,), F32, "B")
    first = te.compute((7, 33), lambda i, j: apply("tanh", a[i, j] * b[j] + 0.5), "T")
    return te.compute((7, 33), lambda i, j: te.if_then_else(first[i, j] > 0, first[i, j], a[i, j] * 2), "U")


def take() -> Tensor:
    a, index = te.placeholder((3, 19), F32, "A"), te.placeholder((11,), "int32", "index")
    return te.compute((11, 19), lambda e, j: a[index[e], j] * 2.0, "T")


def spread() -> Tensor:
    index, x = te.placeholder((50,), "int64", "index"), te.placeholder((50, 6), F32, "x")
    return te.scatter((3, 6), (50, 6), lambda e, j: ((index[e], j), x[e, j]), "S")


def spread_flat() -> Tensor:
    index, x = te.placeholder((500,), "int64", "index"), te.placeholder((500,), "float64", "x")
    return te.scatter((3,), (500,), lambda e: (index[e], x[e]), "S")


def pad() -> Tensor:
    a = te.placeholder((9, 9), F32, "A")

    def entry(i: Any, j: Any) -> Any:
        inside = (i >= 2) & (i < 11) & (j >= 2) & (j < 11)
        return te.if_then_else(inside, a[te.clamp(i - 2, 0, 9), te.clamp(j - 2, 0, 9)], 0.0)

    return te.compute((13, 13), entry, "P")


def softmax() -> Tensor:
    a = te.placeholder((6, 21), F32, "A")
    k, m = te.reduce_axis((0, 21), "k"), te.reduce_axis((0, 21), "m")
    top = te.compute((6,), lambda i: te.max(a[i, k], axis=k), "top")
    e = te.compute((6, 21), lambda i, j: apply("exp", a[i, j] - top[i]), "e")
    total = te.compute((6,), lambda i: te.sum(e[i, m], axis=m), "total")
    return te.compute((6, 21), lambda i, j: e[i, j] / total[i], "softmax")


def triangle() -> Tensor:
    a = te.placeholder((12, 12), F32, "A")
    k = te.reduce_axis((0, 12), "k")
    return te.compute((12, 12), lambda i, j: te.sum(te.bracket(k <= j) * a[i, k], axis=k), "cumsum")


def shuffle() -> Tensor:
    a = te.placeholder((2, 8, 5, 5), F32, "A")
    return te.compute(
        (2, 2, 10, 10), lambda n, c, h, w: a[n, c * 4 + (h % 2) * 2 + w % 2, h // 2, w // 2], "shuffle"
    )


def diagonal() -> Tensor:
    a = te.placeholder((8, 8), F32, "A")
    return te.compute((8,), lambda i: a[i, i] + a[7 - i, i], "diagonal")


def banded() -> Tensor:
    q, k = te.placeholder((16, 8), F32, "Q"), te.placeholder((22, 8), F32, "K")
    d = te.reduce_axis((0, 8), "d")
    return te.compute((16, 7), lambda i, o: te.sum(q[i, d] * k[i + o, d], axis=d), "band")


def scalar() -> Tensor:
    a = te.placeholder((40, 30), F32, "A")
    i, j = te.reduce_axis((0, 40), "i"), te.reduce_axis((0, 30), "j")
    return te.compute((), lambda: te.sum(apply("square", a[i, j]), axis=(i, j)), "norm")


def empty_sum() -> Tensor:
    """No terms, of a read that all of them would share."""
    a, k = te.placeholder((3, 9), F32, "A"), te.reduce_axis((1, 1), "k")
    return te.compute((3, 9), lambda i, j: te.sum(a[i, j], axis=k), "E")


REDUCTIONS = ("sum", "prod", "max", "min", "argmax", "argmin")
PROGRAMS: dict[str, Callable[[], Tensor]] = {
    **{f"conv s{s} d{d}": (lambda s=s, d=d: conv(s, d)) for s, d in ((1, 1), (2, 1), (1, 2), (3, 3), (2, 3))},
    "grouped conv": lambda: conv(1, 1, 2),
    "elementwise": elementwise,
    "take": take,
    "scatter rows": spread,
    "scatter": spread_flat,
    "pad": pad,
    "softmax": softmax,
    "triangle": triangle,
    "shuffle": shuffle,
    "diagonal": diagonal,
    "banded": banded,
    "scalar": scalar,
    "empty sum": empty_sum,
    **{name: (lambda name=name: reduction(name)) for name in REDUCTIONS},
}  # fmt: skip
SMOOTH = [n for n in PROGRAMS if n not in ("argmax", "argmin", "prod")]


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward(name: str) -> None:
    program = program_of([PROGRAMS[name]()])
    for p in some(name, [program, eliminate(program)]):
        compiled = agree(p)
        assert not any(isinstance(s, lowered_program.Interpreted) for s in compiled.steps)


@pytest.mark.parametrize("name", by_turns(SMOOTH, 3))
def test_gradients(name: str) -> None:
    output = PROGRAMS[name]()
    wanted = [t for t in program_of([output]).inputs if t.dtype.kind == "f"]
    head = te.placeholder(output.shape, output.dtype, "G")
    program = program_of(list(differentiate(output, wanted, head=head)))
    for p in some(name, [program, eliminate(program)]):  # as differentiated, with all its conditions, or not
        agree(p)


def product_program(shapes: Sequence[Sequence[int]], entry: Callable[..., Any]) -> Program:
    a, b = (te.placeholder(tuple(s), F32, n) for s, n in zip(shapes, "AB", strict=True))
    return program_of([entry(a, b)], (a, b))


def test_products_go_to_blas() -> None:
    k = te.reduce_axis((0, 40), "k")

    def plain(a: Any, b: Any) -> Any:
        return te.compute((48, 50), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))

    def turned(a: Any, b: Any) -> Any:
        return te.compute((50, 48), lambda j, i: te.sum(b[j, k] * a[k, i], axis=k))

    def batched(a: Any, b: Any) -> Any:
        return te.compute((48, 3, 50), lambda i, n, j: te.sum(a[n, i, k] * b[k, j, n], axis=k))

    cases = (
        (((48, 40), (40, 50)), plain, (48, 40, 50), 1),
        (((40, 48), (50, 40)), turned, (50, 40, 48), 1),
        (((3, 48, 40), (40, 50, 3)), batched, (48, 40, 50), 3),
    )
    for shapes, entry, product, count in cases:
        program = product_program(shapes, entry)
        compiled = agree(program)
        assert any(isinstance(s, blas_contraction.Product) for s in compiled.steps)
        with work.counting() as counted:
            compiled(*arrays_for(program))
        assert counted.product_shapes == {product: count}


def test_small_products_do_not() -> None:
    k = te.reduce_axis((0, 4), "k")
    program = product_program(
        ((5, 4), (4, 6)),
        lambda a, b: te.compute((5, 6), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k)),
    )
    assert not any(isinstance(s, blas_contraction.Product) for s in agree(program).steps)


def test_elementwise_stages_are_fused() -> None:
    a = te.placeholder((100,), F32, "A")
    t = te.compute((100,), lambda i: apply("exp", a[i]), "T")
    u = te.compute((100,), lambda i: t[i] * 2.0 + 1.0, "U")
    v = te.compute((100,), lambda i: apply("maximum", u[i], 0.0) - a[i], "V")
    compiled = agree(program_of([v]))
    assert len(compiled.buffers) == 2, "no memory for T and U"


def test_scatters_that_are_added_to_something_go_into_the_sum() -> None:
    index, x = te.placeholder((50,), "int64", "index"), te.placeholder((50, 6), F32, "x")
    table = te.placeholder((3, 6), F32, "table")
    added = te.scatter((3, 6), (50, 6), lambda e, j: ((index[e], j), x[e, j]), "S")
    once = te.compute((3, 6), lambda i, j: table[i, j] * 2.0 + added[i, j], "U")
    compiled = agree(eliminate(program_of([once])))
    assert len(compiled.buffers) == 4, "no memory for S"
    twice = te.compute((3, 6), lambda i, j: added[i, j] + added[2 - i, j], "U")
    assert len(agree(eliminate(program_of([twice]))).buffers) == 4, "S is read elsewhere too"
    assert len(agree(eliminate(program_of([once, added]))).buffers) == 5, "S is asked for"


@pytest.mark.parametrize("name", ["max", "min"])
def test_an_extremum_and_its_position_are_found_in_one_pass(name: str) -> None:
    output = reduction(name)
    head = te.placeholder(output.shape, output.dtype, "G")
    gradients = list(differentiate(output, program_of([output]).inputs[:1], head=head))
    compiled = agree(eliminate(program_of([output, *gradients])))
    runs = [s for s in compiled.steps if isinstance(s, lowered_program.Run)]
    passes = [p for run in runs for p in run.kernel.phases if walks(p, "A")]
    assert len(passes) == 1, "the operand is walked once; what is read again is at the positions found"


def walks(phase: nodes.Stmt, name: str) -> bool:
    """Whether a phase reads a buffer at places that loops alone decide, and no position that was found."""
    inside = (e for s in nodes.statements((phase,)) for e in nodes.expressions(s))
    reads = [x for e in inside for x in subexpressions(e) if isinstance(x, nodes.Load)]
    return any(
        x.buffer.label == name
        and not any(isinstance(y, nodes.Load) for k in x.indices for y in subexpressions(k))
        for x in reads
    )


def test_what_does_not_compile_is_interpreted() -> None:
    a = te.placeholder((6,), "float64", "A")
    program = program_of([te.compute((6,), lambda i: apply("i0e_order", 1, a[i]), "derivative")])
    compiled = agree(program)
    assert any(isinstance(s, lowered_program.Interpreted) for s in compiled.steps)


def test_equal_programs_are_compiled_once() -> None:
    first, second = (statement_lowering.lower(program_of([take()])) for _ in range(2))
    assert first.steps is second.steps
    first(np.zeros(11, "int32"), np.zeros((3, 19), "float32"))
    assert len(first.calls()) == 1
    assert first.calls() is second.calls()


def test_arrays_of_the_call_itself_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, checks = statement_lowering.lower(program_of([softmax()])), []
    monkeypatch.setattr(compiled_program, "sizes_of", lambda *given: checks.append(given))
    packed = np.zeros(6 * 21 * 4 + 1, np.uint8)[1:].view(F32).reshape(6, 21)
    packed[:] = np.random.default_rng(0).normal(size=(6, 21))
    assert not packed.flags.aligned
    (got,) = compiled(packed)
    np.testing.assert_allclose(got, interpret.run(compiled.program, [packed])[0], rtol=1e-5)
    assert not checks


@pytest.mark.parametrize("name", ["conv s2 d1", "take", "scatter rows", "pad", "softmax", "triangle"])
def test_passes_compare_expressions_by_identity(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``==`` makes an expression: a pass that asks for its truth (``v in found``) makes many for nothing."""

    def refuse(e: Expr) -> bool:
        raise AssertionError(f"the truth of {e} was asked for")

    output = PROGRAMS[name]()
    inputs = [t for t in program_of([output]).inputs if t.dtype.kind == "f"]
    gradients = differentiate(output, inputs, head=te.placeholder(output.shape, output.dtype, "G"))
    monkeypatch.setattr(Apply, "__bool__", refuse)
    monkeypatch.setattr(Const, "__bool__", refuse)
    statement_lowering.lower(eliminate(program_of([output, *gradients])))


def test_bad_input() -> None:
    program = program_of([take()])
    a, index = arrays_for(program)
    if a.ndim == 1:
        a, index = index, a
    compiled = statement_lowering.lower(program)
    order = {2: a, 1: index}
    index[4] = 3
    with pytest.raises(IndexingError, match="expected indices from 0 to 2"):
        compiled(*(order[len(t.shape)] for t in program.inputs))
    order[1] = index[:5]
    with pytest.raises(ShapeError, match=r"got shape \(5,\); expected shape \(11,\)"):
        compiled(*(order[len(t.shape)] for t in program.inputs))


@pytest.mark.parametrize("shape", [(8,), (4, 8)])
def test_an_axis_in_one_block_has_code_for_its_own_number_of_iterations(shape: tuple[int, ...]) -> None:
    """Not for groups of vectors, and for what is left of these, of any number."""
    x = te.placeholder(shape, name="x")
    program = eliminate(program_of([te.compute(shape, lambda *i: 1 / x[i], "y")]))
    (step,) = statement_lowering.lower(program).steps
    assert isinstance(step, lowered_program.Run)
    assert compile_kernel(step.kernel).typical.text.count("fdiv") <= 2


def test_a_long_body_is_written_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where several vectors at a time gain nothing; sums keep an accumulator for each."""
    lanes = host().vector_bytes // 8

    def functions(vectors: int, *, long: bool) -> int:
        n = vectors * lanes
        x = te.placeholder((n,), "float64", "x")
        body = (lambda i: apply("exp", x[i]) + apply("log", x[i])) if long else (lambda i: apply("exp", x[i]))
        made = statement_lowering.lower(eliminate(program_of([te.compute((n,), body, "y")])))
        (step,) = made.steps
        assert isinstance(step, statement_lowering.Run)
        text = compile_kernel(step.kernel).typical.text
        return text.partition("@iverson_nest_0(")[2].partition("\n}")[0].count("= call")

    monkeypatch.setattr(code_size, "SMALL", 10**6)
    assert functions(1, long=True) == functions(8, long=True)
    assert 2 * functions(1, long=True) == functions(2, long=True)  # nearly no loop
    assert functions(1, long=False) < functions(8, long=False)


def test_functions_are_computed_for_vectors() -> None:
    """Not number by number in the C library, where NumPy has loops or we have our own."""
    outputs = []
    for name, scalar in SCALARS.items():
        given = [te.placeholder((64,), F32, f"x{k}") for k in range(len(scalar.arguments))]
        try:
            outputs.append(
                te.compute((64,), lambda i, name=name, given=given: apply(name, *(x[i] for x in given)))
            )
        except IversonError:  # not of floats
            continue
    assert len(outputs) > 100
    found: set[str] = set()
    for k in range(0, len(outputs), 8):
        for step in statement_lowering.afresh(eliminate(program_of(outputs[k : k + 8]))).steps:
            if isinstance(step, lowered_program.Run):
                found.update(
                    re.findall(
                        r"call (?:float|double) @([a-z]\w*)\(", compile_kernel(step.kernel).typical.text
                    )
                )
    assert {n for n in found if not n.startswith(("iverson", "llvm"))} == {"hypotf", "nextafterf", "lgammaf"}
