"""Integers as arguments: kernels with words compute what they did, and programs that differ in words run one
code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from iverson.codegen.execution.verify import verify
from iverson.codegen.launches import compile_kernel, compile_program, integer_arguments
from iverson.codegen.launches.compiled_program import planned
from iverson.codegen.launches.integer_arguments import (
    CodeSharing,
    NoGeneralCode,
    SymbolicSharing,
    kernel_with,
)
from iverson.codegen.launches.nodes import Phases, Word
from iverson.codegen.launches.print import launches_text, plan_text
from iverson.codegen.nests import interpret, phase_cost
from iverson.codegen.nests.access_checks import plan
from iverson.codegen.nests.loop_facts import constant_extent
from iverson.codegen.nests.nodes import (
    Buffer,
    If,
    Kernel,
    Loop,
    Size,
    Store,
    Var,
    buffers_of,
    expressions,
    shape_at,
    statements,
)
from iverson.codegen.nests.print import nameless_text, phase_text
from iverson.codegen.nests.task import Axis, Task
from iverson.codegen.programs import Program, Repeat, step_builders, thread_sharing, whole
from iverson.codegen.schedule.exact_walks import boxed
from iverson.codegen.schedule.row_tiling import by_rows, with_rows
from iverson.core.errors import IndexingError
from iverson.expr.nodes import postorder
from iverson.expr.symbolic_numbers import Recording, plain
from tests.codegen.nests import F64, add, c, f, ld
from tests.codegen.test_plan import PLANS


@pytest.fixture(autouse=True)
def everything_is_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of any length are in blocks for threads."""
    monkeypatch.setattr(phase_cost, "WORTH_THREADS", 0.0)
    monkeypatch.setattr(thread_sharing, "WORTH_THREADS", 0)


# --- kernels ----------------------------------------------------------------------------------------

I0, I1 = Var("i0"), Var("i1")


def _x(*shape: int) -> Buffer:
    return Buffer("x", F64, shape)


def _out(*shape: int) -> Buffer:
    return Buffer("out", F64, shape, "out")


def _kernel(*phases: Any) -> Kernel:
    views = {name: whole(Buffer(name, F64, ())) for name in ("x", "out", "sums")}
    return step_builders.nest("test", phases, views, ("out", "sums")).kernel


def _phases(out: Buffer, value: Any, shape: tuple[int, ...], combine: str = "assign") -> Any:
    over = step_builders.axes(shape)
    at = step_builders.variables(over)[: len(out.shape)]
    return boxed(Task(out, at, value, over, combine=combine, fresh=True))


def _rows(n: int) -> Kernel:
    """Rows less their sums, in two phases over blocks of rows; the sums are on the stack."""
    x, sums = ld(_x(n, 6), I0, I1), Buffer("sums", F64, (n,), "out")
    phases = [
        *_phases(sums, x, (n, 6), "sum"),
        *_phases(_out(n, 6), f("subtract", x, ld(sums, I0)), (n, 6)),
    ]
    return with_rows(_kernel(*by_rows(phases)), {"sums"})


def _loop(n: int, *body: Any, step: int = 1, mark: str = "", var: str = "i0") -> Loop:
    return Loop(var, c(0), c(n), body, step, mark)


def _parts_of_blocks(n: int) -> Kernel:
    """A loop in blocks that leaves out the last entry of each."""
    block = Var("i0_0")
    end = f("minimum", add(block, c(7)), c(n))
    store = Store(_out(n), (I0,), ld(_x(n), I0))
    return _kernel(_loop(n, Loop("i0", block, end, (store,)), step=8, mark="parallel", var="i0_0"))


def _steps(n: int) -> Kernel:
    """A loop that is written out if it is short."""
    mark = "unroll" if n < 9 else ""
    store = Store(_out(n, 2), (I0, I1), f("multiply", ld(_x(n, 2), I0, I1), c(0.5, F64)))
    inner = If(f("less", I0, c(n)), (_loop(2, store, mark="unroll", var="i1"),))
    return _kernel(_loop(n, inner, mark=mark))


#: By name: the kernel of an extent, and the extents at which it has one text but for words.
KERNELS: dict[str, tuple[Callable[[int], Kernel], tuple[int, ...]]] = {
    "a vector": (
        lambda n: _kernel(*_phases(_out(n), f("tanh", ld(_x(n), I0)), (n,))),
        (8, 64, 128, 129, 5000),
    ),
    "from the second entry": (
        lambda n: _kernel(*boxed(Task(_out(n + 3), (I0,), ld(_x(n + 2), I0), (Axis("i0", c(1), c(n + 1)),)))),
        (9, 64, 128, 129),
    ),
    "a matrix and its transpose": (
        lambda n: _kernel(*_phases(_out(n, n), add(ld(_x(n, n), I0, I1), ld(_x(n, n), I1, I0)), (n, n))),
        (16, 32, 37),
    ),
    "two long rows": (
        lambda n: _kernel(*_phases(_out(2, n), f("tanh", ld(_x(2, n), I0, I1)), (2, n))),
        (16, 100, 129),
    ),
    "rows in parts": (_rows, (128, 129, 136)),
    "a loop that may be written out": (_steps, (2, 8, 100)),
    "every second entry": (
        lambda n: _kernel(_loop(n, Store(_out(n), (I0,), ld(_x(n), I0)), step=2)),
        (9, 12),
    ),
    "part of each block": (_parts_of_blocks, (9, 12)),
    "one entry, if it is positive": (
        lambda n: _kernel(
            If(
                f("greater", ld(_x(n), c(0)), c(0.0, F64)),
                (Store(_out(n), (c(0),), ld(_x(n), c(0))),),
            )
        ),
        (9, 12),
    ),
    "constants": (
        lambda n: _kernel(
            *_phases(
                _out(n),
                add(f("multiply", ld(_x(n), I0), c(n / 7, F64)), f("pow", ld(_x(n), I0), c(2.0, F64))),
                (n,),
            )
        ),
        (70, 90),
    ),
    "powers": (
        lambda n: _kernel(
            *_phases(
                _out(n),
                add(
                    f("pow", c(n / 7, F64), ld(_x(n), I0)),
                    f("pow", ld(_x(n), I0), f("multiply", ld(_x(n), I0), c(n / 9, F64))),
                ),
                (n,),
            )
        ),
        (70, 90),
    ),
    "strides": (
        lambda n: _kernel(
            *_phases(_out(n), ld(Buffer("x", F64, (n, 3), "in", (1, n)), I0, c(2)), (n,))
        ),
        (70, 90),
    ),
}  # fmt: skip


def _phases_of(kernel: Kernel) -> Phases:
    return Phases(kernel, plan(kernel), 0, (), (), (), ())


def _with_words(kernel: Kernel) -> tuple[Phases, dict[str, int]]:
    """A kernel with all words, and their values."""
    values: list[int] = []

    def word(n: int) -> Word:
        values.append(n)
        return Word(len(values) - 1)

    new = kernel_with(_phases_of(kernel), word)
    return new, {n: values[w.number] for n, w in zip(new.kernel.sizes, new.sizes, strict=True)}  # type: ignore[union-attr]


def _run(kernel: Kernel, sizes: dict[str, int]) -> Any:
    """What the arguments hold after a run, on numbers that depend on their shapes; None for a bad index."""
    arrays = {}
    for k, b in enumerate(kernel.arguments):
        shape = shape_at(b, sizes)
        numbers = np.cos(np.arange(float(np.prod(shape))) + k).reshape(shape)
        arrays[b.name] = numbers.astype(b.dtype) if b.dtype.kind == "f" else np.argsort(numbers) % 4
        arrays[b.name] = arrays[b.name].astype(b.dtype)
    try:
        interpret.run(kernel, arrays, sizes)
    except IndexingError:
        return None
    return arrays


def _of_plan(name: str) -> Kernel:
    kernel = PLANS[name][0]
    used = {b.name for phase in range(len(kernel.phases)) for b in buffers_of(kernel, phase)}
    return replace(kernel, buffers=tuple(b for b in kernel.buffers if b.name in used))


#: Kernels, by name: at small extents, as they are interpreted.
CASES: dict[str, Callable[[], Kernel]] = {
    f"{name}, {n}": partial(make, n)
    for name, (make, extents) in KERNELS.items()
    for n in (1, 2, *extents)
    if n < 200
} | {name: partial(_of_plan, name) for name in PLANS if "size" not in name and "another" not in name}


@pytest.mark.parametrize("name", CASES)
def test_kernels_with_words_compute_what_they_did(name: str) -> None:
    """With the same indices tested. Words are all integers but 0, 1 and -1, and but for those that decide
    what code is made."""
    before = CASES[name]()
    new, sizes = _with_words(before)
    verify(new.kernel)
    found, expected = _run(new.kernel, sizes), _run(before, {})
    assert (found is None) == (expected is None)
    for array in expected or ():
        np.testing.assert_array_equal(found[array], expected[array])
    assert plan_text(new.kernel, new.plan) == plan_text(before, plan(before))
    integers = set(_sizes(new.kernel, "i"))
    assert not {-1, 0, 1} & {n for name, n in sizes.items() if name in integers}
    assert {b.name: b.shape[1:] for b in new.kernel.buffers if b.role == "row"} == {
        b.name: b.shape[1:] for b in before.buffers if b.role == "row"
    }
    for s in statements(new.kernel.phases):
        assert not isinstance(s, Loop) or s.mark != "unroll" or constant_extent(s) is not None
    plain = kernel_with(_phases_of(before), lambda n: n).kernel
    for k, phase in enumerate(before.phases):
        in_blocks = isinstance(phase, Loop) and phase.mark == "parallel" and phase.step > 1
        assert in_blocks or phase_text(plain, k) == phase_text(before, k)


def _sizes(kernel: Kernel, kind: str) -> Iterator[str]:
    """Names of sizes of a kind of dtypes, and of extents and strides."""
    for s in statements(kernel.phases):
        for e in postorder(expressions(s)):
            if isinstance(e, Size) and e.dtype.kind == kind:
                yield e.name
    for b in kernel.buffers if kind == "i" else ():
        yield from (n for n in (*b.shape, *(b.strides or ())) if isinstance(n, str))


def _text(kernel: Kernel) -> str:
    new, _ = _with_words(kernel)
    return f"{nameless_text(new.kernel)}\n{plan_text(new.kernel, new.plan)}"


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_many_extents_have_one_text(name: str) -> None:
    make, extents = KERNELS[name]
    texts = {_text(make(n)) for n in extents}
    assert len(texts) == 1, "\n".join(texts)


def test_exponents_are_no_words() -> None:
    def power(k: float) -> Kernel:
        return _kernel(*_phases(_out(9), f("pow", ld(_x(9), I0), c(k, F64)), (9,)))

    assert _text(power(2.0)) != _text(power(3.0))


# --- programs ---------------------------------------------------------------------------------------


def _program(*extents: int, by: float = 0.5, trips: tuple[int, ...] = ()) -> Program:
    """y = by * x + 3 + k * x, for vector k of each extent; native loops add the last x to its y again."""
    buffers: list[Buffer] = []
    steps: list[Any] = []
    for k, n in enumerate(extents):
        x, y = Buffer(f"x{k}", F64, (n,), "in"), Buffer(f"y{k}", F64, (n,), "out")
        entry = ld(step_builders.as_buffer("x", whole(x)), I0)
        value = add(f("multiply", entry, c(by, F64)), c(3.0, F64))
        for _ in range(k):
            value = add(value, entry)
        steps.append(step_builders.elementwise(whole(y), value, {"x": whole(x)}))
        buffers += [x, y]
    for k, n in enumerate(trips or extents[-1:]):
        added = step_builders.elementwise(whole(y), entry, {"x": whole(x)}, "sum")
        steps.append(Repeat(f"t{k}", n, (added,)))
    return Program("program", tuple(buffers), tuple(steps))


def _expected(arrays: list[Any], by: float = 0.5) -> list[Any]:
    results = [x * by + 3 + k * x for k, x in enumerate(arrays)]
    results[-1] = results[-1] + len(arrays[-1]) * arrays[-1]
    return results


#: By name: extents of programs, call by call (or with a number), and how many codes there are after each.
SHARED: dict[str, list[tuple[tuple[Any, ...], int]]] = {
    "the second is general": [((30, 20), 1), ((31, 20), 2), ((32, 20), 2), ((30, 20), 2)],
    "the first again": [((30, 20), 1), ((30, 20), 1), ((31, 20), 2)],
    "what was equal in both": [((30, 20), 1), ((31, 20), 2), ((31, 21), 3), ((44, 55), 3), ((45, 20), 3)],
    "what was alike in both": [((30, 30), 1), ((40, 40), 2), ((50, 60), 3), ((70, 70), 3), ((80, 90), 3)],
    "numbers": [((30, 0.5), 1), ((30, 0.25), 2), ((30, 0.0), 2), ((30, -0.0), 2), ((31, 7.0), 3)],
    "no more than the most": [
        ((30, 40, 0.5), 1),
        ((31, 40, 0.5), 2),
        ((31, 42, 0.5), 3),
        ((31, 42, 0.25), 4),
        ((51, 62, 0.5), 4),
        ((30, 40, 0.5), 4),
    ],
}  # fmt: skip


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("name", SHARED)
def test_programs_that_differ_in_words_run_one_code(
    name: str, always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integer_arguments, "MOST", 2)
    sharing = CodeSharing(always=always)
    for arguments, codes in SHARED[name]:
        extents, by = ([x for x in arguments if type(x) is kind] for kind in (int, float))
        program = _program(*extents, by=(*by, 0.5)[0])
        arrays = [np.cos(np.arange(float(n))) for n in extents]
        found = compile_program(program, sharing=sharing)(*arrays)
        for a, b in zip(found, _expected(arrays, *by), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
        assert len(sharing.keys) == (1 if always else codes)
        assert sharing.is_full == (codes > 3 and not always)


def test_sizes_of_a_kernel_are_words() -> None:
    x, y = Buffer("x", F64, ("n",)), Buffer("y", F64, ("n",), "out")
    kernel = Kernel("sized", (x, y), (Loop("i0", c(0), Size("n"), (Store(y, (I0,), ld(x, I0)),)),), ("n",))
    compiled = compile_kernel(kernel)
    for n in (1, 5, 100):
        numbers, out = np.arange(float(n)), np.zeros(n)
        compiled(numbers, out)
        np.testing.assert_array_equal(out, numbers)
    assert len({compiled.at({"n": n}).key for n in (1, 5, 100)}) == 1


def _symbolic(sharing: CodeSharing, n: int, **how: Any) -> tuple[Recording, tuple[int, ...], str]:
    """What a program of symbolic extent passes, with its recording, and the text of its code."""
    recording = Recording()
    launches = planned(_program(recording.number(n), 20, **how))
    of, buffers = launches.launches, launches.program.buffers
    key, words, calls = SymbolicSharing(sharing).code(of, buffers, lambda text: text)
    assert launches_text(calls, buffers) == key
    assert key in sharing.keys
    return recording, words, key


def test_symbolic_numbers_are_words_by_formulas() -> None:
    """What formulas give at another extent is what a program of that extent passes; other integers of steps
    are words of their own, though some are equal."""
    sharing = CodeSharing()
    found = [_symbolic(sharing, n, trips=(5, t)) for n, t in ((30, 5), (40, 6), (50, 5))]
    assert len(sharing.keys) == 1
    formulas = [recording.formulas(words) for recording, words, _ in found]
    passed = [list(map(plain, words)) for _, words, _ in found]
    assert formulas[0].at([50]) == passed[2]
    assert formulas[0].at([40]) != passed[1]
    assert formulas[0].at([4000]) is None


def test_symbolic_numbers_get_no_code_beyond_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer_arguments, "MOST", 1)
    sharing = CodeSharing()
    _, _, key = _symbolic(sharing, 30)
    assert not sharing.is_full
    with pytest.raises(NoGeneralCode):
        _symbolic(sharing, 30, by=0.25)
    assert sharing.is_full
    assert _symbolic(sharing, 40)[2] == key
