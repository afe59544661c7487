"""Programs: compiled against the interpreter, memory that is never shared by what lives together."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from iverson.codegen.launches import compile_program, compiled_program, program_emission
from iverson.codegen.launches.integer_arguments import CodeSharing
from iverson.codegen.launches.print import launches_text
from iverson.codegen.nests.nodes import Buffer, Load
from iverson.codegen.nests.task import Task
from iverson.codegen.programs import Branch, Nest, Product, Repeat, View, interpret, step_builders, whole
from iverson.codegen.programs.buffer_allocation import arena, in_place, overwritten
from iverson.codegen.programs.nodes import Program, extents, uses, writes
from iverson.codegen.programs.print import program_text
from iverson.codegen.programs.verify import verify
from iverson.codegen.schedule.exact_walks import boxed
from iverson.core.errors import IndexingError
from tests.codegen.nests import f
from tests.codegen.random_programs import arguments, programs
from tests.conformance.product import examples

#: Compiled programs take too long to be made small.
PHASES = (Phase.explicit, Phase.generate)


def interpreted(program: Program, given: list[Any], places: Any = None) -> Any:
    """The outputs and what the arguments hold afterwards; None for an index out of range."""
    arrays = [a.copy() for a in given]
    try:
        outputs = interpret.run(program, arrays, places)
    except IndexingError:
        return None
    return [*outputs, *arrays]


def compiled(program: Program, given: list[Any], sharing: CodeSharing | None = None) -> Any:
    arrays = [a.copy() for a in given]
    made = compile_program(program, sharing=sharing)
    try:
        outputs = made(*arrays)
    except IndexingError:
        return None
    return [*outputs, *arrays]


def assert_alike(got: Any, want: Any, rtol: float) -> None:
    assert (got is None) == (want is None)
    for a, b in zip(got or (), want or (), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * 10, equal_nan=False)


@settings(max_examples=examples(25), phases=PHASES)
@given(st.data())
def test_compiled_programs_are_the_interpreted_ones(data: Any) -> None:
    program = verify(data.draw(programs()))
    note(program_text(program))
    arrays = data.draw(arguments(program))
    want = interpreted(program, arrays)
    rtol = 1e-3 if arrays[0].dtype == np.float32 else 1e-9
    assert_alike(compiled(program, arrays), want, rtol)


@settings(max_examples=examples(25), phases=PHASES)
@given(st.data())
def test_programs_with_all_integers_as_arguments_are_the_interpreted_ones(data: Any) -> None:
    """What decides the code stays in it; every other integer of nests, products and loops is passed."""
    program = verify(data.draw(programs()))
    note(program_text(program))
    arrays = data.draw(arguments(program))
    rtol = 1e-3 if arrays[0].dtype == np.float32 else 1e-9
    assert_alike(compiled(program, arrays, CodeSharing(always=True)), interpreted(program, arrays), rtol)


@settings(max_examples=examples(15), phases=PHASES)
@given(st.data())
def test_programs_in_several_functions_are_the_interpreted_ones(data: Any) -> None:
    """Parts of a loop's body know its variable and what is exchanged; a bad index ends them all."""
    program = verify(data.draw(programs()))
    note(program_text(program))
    arrays = data.draw(arguments(program))
    steps = data.draw(st.integers(1, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_emission, "PART", steps)
        patch.setattr(compiled_program, "launches_text", lambda *x: f"{launches_text(*x)} by {steps}")
        found = compiled(program, arrays)
    rtol = 1e-3 if arrays[0].dtype == np.float32 else 1e-9
    assert_alike(found, interpreted(program, arrays), rtol)


@settings(max_examples=examples(120), phases=PHASES)
@given(st.data())
def test_temporaries_in_one_arena_are_as_good_as_memory_of_their_own(data: Any) -> None:
    """Whatever two buffers share, neither is alive while the other is written: results are the same."""
    program = data.draw(programs())
    note(program_text(program))
    arrays = data.draw(arguments(program))
    moved = verify(in_place(program))
    assert_alike(in_one_arena(moved, arrays), interpreted(program, arrays), 1e-12)
    assert in_place(moved).steps == moved.steps


def in_one_arena(program: Program, arrays: list[Any]) -> Any:
    """What a program gives whose temporaries are in one array."""
    where = arena(program)
    memory = np.full(where.bytes, 255, np.uint8)
    places = {}
    for b in program.of("temp"):
        if b.name in where.places:
            start, bytes = where.places[b.name], int(np.prod(extents(b))) * b.dtype.itemsize
            assert start % 64 == 0
            places[b.name] = memory[start : start + bytes].view(b.dtype).reshape(extents(b))
    return interpreted(program, arrays, places)


@settings(max_examples=examples(90), phases=PHASES)
@given(st.data())
def test_outputs_in_the_memory_of_inputs_are_as_good_as_arrays_of_their_own(data: Any) -> None:
    program = data.draw(programs())
    note(program_text(program))
    pairs = [(a, b) for a in program.of("in") for b in program.of("out") if a.shape == b.shape]
    moved, names = overwritten(program, data.draw(st.permutations(pairs)))
    arrays = data.draw(arguments(program))
    want, got = interpreted(program, arrays), interpreted(verify(moved), arrays)
    assert (want is None) == (got is None)
    if want is not None:
        found = {b.name: a for b, a in zip(moved.of("out") + moved.of("in", "inout"), got, strict=True)}
        outputs = [found[names.get(b.name, b.name)] for b in program.of("out")]
        assert_alike(outputs, want[: len(outputs)], 1e-12)


P, Q, Y, Z, T = (
    Buffer(name, np.dtype(np.float64), (3, 3), role)
    for name, role in [("p", "in"), ("q", "out"), ("y", "in"), ("z", "out"), ("t", "temp")]
)


def mapped_to(out: Buffer | View, *sources: Buffer | View, combine: str = "assign") -> Nest:
    """A nest that gives an output the sum of some views, entry by entry."""
    views = {f"v{k}": v if isinstance(v, View) else whole(v) for k, v in enumerate(sources)}
    at = step_builders.variables(step_builders.axes((3, 3)))
    loads = [Load(step_builders.as_buffer(name, v), at) for name, v in views.items()]
    target = out if isinstance(out, View) else whole(out)
    return step_builders.elementwise(target, reduce(partial(f, "add"), loads), views, combine)


def turned_to(out: Buffer, source: Buffer) -> Nest:
    """A nest that gives an output the transpose of a matrix, whose entries it reads in that order itself."""
    over = step_builders.axes((3, 3))
    at = step_builders.variables(over)
    value = Load(step_builders.as_buffer("v", whole(source)), at[::-1])
    return step_builders.elementwise(whole(out), f("square", value), {"v": whole(source)})


def both_of(first: Buffer, second: Buffer, source: Buffer) -> Nest:
    """A nest that makes two matrices."""
    over, views = step_builders.axes((3, 3)), {"v": whole(source), "a": whole(first), "b": whole(second)}
    at = step_builders.variables(over)
    value = f("square", Load(step_builders.as_buffer("v", views["v"]), at))
    phases = [
        phase
        for name in "ab"
        for phase in boxed(Task(step_builders.as_buffer(name, views[name]), at, value, over, fresh=True))
    ]
    return step_builders.nest("both", phases, views, ("a", "b"))


#: Steps, which of the outputs q and z are made in p, and the order of the steps that are left.
OVERWRITTEN = {
    "entry by entry": ([mapped_to(Q, P, Y), mapped_to(Z, Y)], "q", [0, 1]),
    "in another order": ([mapped_to(Q, whole(P).transposed), mapped_to(Z, Y)], "z", [0, 1]),
    "in two orders": ([mapped_to(Q, P, whole(P).transposed), mapped_to(Z, Y)], "z", [0, 1]),
    "in another order of the kernel": ([turned_to(Q, P), mapped_to(Z, Y)], "z", [0, 1]),
    "twice": ([mapped_to(Q, P, P), mapped_to(Z, Y)], "z", [0, 1]),
    "and added to": (
        [mapped_to(Q, P, Y), mapped_to(Q, Y, combine="sum"), mapped_to(Z, Y)],
        "q",
        [0, 1, 2],
    ),
    "beside what is read before": ([both_of(Q, T, Y), mapped_to(Z, T, P)], "z", [0, 1]),
    "a copy": ([mapped_to(Q, P), mapped_to(Z, Y)], "q", [1]),
    "of nothing of it": ([mapped_to(Q, Y), mapped_to(Z, Y)], "q", [0, 1]),
    "read afterwards": ([mapped_to(Q, Y), mapped_to(Z, P)], "q", [1, 0]),
    "read afterwards, in a product": ([Product(whole(Q), whole(Y), whole(Y)), mapped_to(Z, P)], "q", [1, 0]),
    "of what is read afterwards": ([mapped_to(Q, P, Y), mapped_to(Z, P, Y)], "q", [1, 0]),
    "in a loop before it is read": ([Repeat("i", 2, (mapped_to(Q, Y),)), mapped_to(Z, P, Y)], "z", [0, 1]),
    "with a result that is read": ([mapped_to(Q, Y), mapped_to(Z, P, Q)], "z", [0, 1]),
    "with a result that is added to": (
        [mapped_to(Q, Y), mapped_to(Z, P, Y), mapped_to(Q, Y, combine="sum")],
        "z",
        [0, 1, 2],
    ),
    "of what changes": (
        [mapped_to(T, Y), mapped_to(Q, T), mapped_to(T, P), mapped_to(Z, T)],
        "z",
        [0, 1, 2, 3],
    ),
    "of what is read only": (
        [mapped_to(T, Y), mapped_to(Q, T), mapped_to(Z, T, P)],
        "q",
        [0, 2, 1],
    ),
    "in a product": ([Product(whole(Q), whole(P), whole(Y)), mapped_to(Z, Y)], "z", [0, 1]),
    "as a sum": ([mapped_to(Q, Y), mapped_to(Q, P, combine="sum"), mapped_to(Z, Y)], "z", [0, 1, 2]),
    "in a loop": (
        [Repeat("i", 2, (mapped_to(Q, P),)), mapped_to(Z, Y)],
        "z",
        [0, 1],
    ),
}


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_which_outputs_are_made_in_the_memory_of_an_input(name: str) -> None:
    steps, taken, order = OVERWRITTEN[name]
    program = verify(Program("given", (P, Q, Y, Z, T), tuple(steps)))
    moved, names = overwritten(program, [(P, Q), (P, Z)])
    assert names == {taken: "p"}
    assert [b.name for b in moved.buffers] == [b for b in "pqyzt" if b != taken]
    assert [b.role for b in moved.buffers if b.name == "p"] == ["inout"]
    outs = [{b.name for b in writes(s)} for s in moved.steps]
    assert outs == [{b.name.replace(taken, "p") for b in writes(steps[k])} for k in order]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(3, 3)) for _ in "py"]
    want, got = interpreted(program, arrays), interpreted(verify(moved), arrays)
    assert_alike([got[1], got[0]] if taken == "q" else got[:2], want[:2], 1e-15)


def test_an_output_without_entries_stays() -> None:
    empty = [replace(b, shape=(0,)) for b in (P, Q)]
    program = Program("empty", tuple(empty), ())
    assert overwritten(program, [(empty[0], empty[1])]) == (program, {})


R, S, N = (
    Buffer(name, np.dtype(np.float64), (3, 3), role)
    for name, role in [("r", "inout"), ("s", "temp"), ("n", "temp")]
)
PAIR = Buffer("pair", np.dtype(np.float64), (2, 3, 3), "temp")
MADE = Product(whole(T), whole(P), whole(Y))


def part(number: int) -> View:
    """One of the matrices of a pair."""
    return View(PAIR, (3, 3), (3, 1), 9 * number)


#: Steps, and the temporaries that are left.
WRITTEN_OVER = {
    "entry by entry": ([MADE, mapped_to(Z, T, Y)], ""),
    "one after the other": ([MADE, mapped_to(S, T, Y), mapped_to(N, S, P), mapped_to(Z, N)], ""),
    "between products": ([MADE, mapped_to(S, T, Y), Product(whole(Z), whole(S), whole(Y))], "s"),
    "read again": ([MADE, mapped_to(S, T, Y), Product(whole(Z), whole(S), whole(T))], "st"),
    "in another order": ([MADE, turned_to(Z, T)], "t"),
    "twice": ([MADE, mapped_to(Z, T, T)], "t"),
    "of a transpose": ([MADE, mapped_to(Z, whole(T).transposed, Y)], "t"),
    "an argument": ([mapped_to(S, P, Y), Product(whole(Z), whole(S), whole(Y))], "s"),
    "into what was read": ([mapped_to(Z, Y), MADE, mapped_to(R, Z, Y), mapped_to(Z, T, Y)], "t"),
    "into an argument": ([MADE, mapped_to(Z, R, Y), mapped_to(R, T, Y)], "t"),
    "into a part": (
        [
            MADE,
            step_builders.copy(part(1), whole(Y)),
            mapped_to(part(0), T, Y),
            mapped_to(Z, part(1), part(0)),
        ],
        "pairt",
    ),
    "a part": (
        [
            step_builders.copy(part(0), whole(P)),
            step_builders.copy(part(1), whole(Y)),
            mapped_to(R, part(1)),
            mapped_to(Z, part(0), Y),
        ],
        "pair",
    ),
    "exchanged by a loop": (
        [
            Product(whole(S), whole(P), whole(P)),
            Repeat("i", 3, (Product(whole(N), whole(S), whole(Y)),), ((S, N),)),
            mapped_to(Z, S, Y),
        ],
        "ns",
    ),
    "into what a loop exchanges": (
        [
            Product(whole(S), whole(P), whole(P)),
            Repeat(
                "i",
                3,
                (
                    Product(whole(T), whole(S), whole(S)),
                    mapped_to(N, T, Y),
                    mapped_to(R, S, combine="sum"),
                ),
                ((S, N),),
            ),
            Product(whole(Z), whole(S), whole(Y)),
        ],
        "nst",
    ),
}


@pytest.mark.parametrize("name", WRITTEN_OVER)
def test_which_temporaries_are_written_over(name: str) -> None:
    steps, left = WRITTEN_OVER[name]
    if "r" not in {b.name for s in steps for b in writes(s)}:
        steps = [*steps, mapped_to(R, Y)]
    used = {*uses(tuple(steps)), Z, R}
    buffers = tuple(b for b in (P, Y, R, Z, T, S, N, PAIR) if b in used)
    program = verify(Program("given", buffers, tuple(steps)))
    moved = verify(in_place(program))
    assert "".join(sorted(b.name for b in moved.of("temp"))) == left
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(3, 3)) for b in buffers if b.role in ("in", "inout")]
    assert_alike(in_one_arena(moved, arrays), interpreted(program, arrays), 1e-12)


def chain_of(*links: tuple[int, ...]) -> list[Product]:
    """A product for each number, of those that it names, or of arguments."""
    made = [Buffer(f"link{k}", np.dtype(np.float64), (3, 3), "temp") for k in range(len(links))]
    sources = [[whole(made[n]) for n in at] or [whole(P)] for at in links]
    return [Product(whole(b), at[0], at[-1]) for b, at in zip(made, sources, strict=True)]


@pytest.mark.parametrize(
    ("links", "places"),
    [
        ([()], 1),
        ([(), (0,)], 2),  # what is read is there while the result is written
        ([(), (0,), (1,), (2,)], 2),
        ([(), (), (0, 1), (2,)], 3),
        ([(), (), (), (1,), (3,), (0, 2), (4, 5)], 4),
    ],
)
def test_places_are_taken_again_when_nobody_reads_them(links: Any, places: int) -> None:
    """Each in one that fits exactly: 72 bytes, in lines of 64."""
    steps = chain_of(*links)
    last = Product(whole(Z), steps[-1].out, whole(P))
    program = verify(Program("chain", (P, Z, *(s.out.buffer for s in steps)), (*steps, last)))
    assert arena(program).bytes == 128 * places
    arrays = [np.random.default_rng(0).normal(size=(3, 3))]
    assert_alike(in_one_arena(program, arrays), interpreted(program, arrays), 1e-12)


@pytest.mark.parametrize("nested", [False, True])
def test_what_an_iteration_leaves_for_the_next_one_stays(nested: bool) -> None:
    """Rows that are written one by one, the first of them read in each iteration; others are temporary."""
    rows = Buffer("rows", np.dtype(np.float64), (3, 3, 3), "temp")
    one = View(rows, (3, 3), (3, 1), 0, (("i", 9),))
    first = View(rows, (3, 3), (3, 1))
    write = (step_builders.copy(one, whole(S)), mapped_to(Z, first, combine="sum"))
    before = (MADE, Product(whole(S), whole(T), whole(Y)), mapped_to(P2, T, S))
    inner = (Repeat("j", 1, write),) if nested else write
    steps = (mapped_to(Z, Y), mapped_to(P2, P), Repeat("i", 3, (*before, *inner)))
    program = verify(Program("rows", (P, Y, Z, P2, T, S, rows), steps))
    arrays = [np.random.default_rng(k).normal(size=(3, 3)) for k in range(2)]
    assert_alike(in_one_arena(program, arrays), interpreted(program, arrays), 1e-12)


P2 = Buffer("p2", np.dtype(np.float64), (3, 3), "out")
CHAINS: dict[str, Any] = {
    "as it is": lambda steps: steps,
    "in a loop": lambda steps: (Repeat("i", 2, steps),),
    "in a loop in a loop": lambda steps: (Repeat("j", 2, (Repeat("i", 2, steps),)),),
    "on one side": lambda steps: (Branch(whole(FLAG), steps, (mapped_to(T, Y),)),),
    "on the other side": lambda steps: (Branch(whole(FLAG), (mapped_to(T, Y),), steps),),
    "behind a loop": lambda steps: (Repeat("i", 2, (mapped_to(T, Y),)), *steps),
    "behind a branch": lambda steps: (Branch(whole(FLAG), (mapped_to(T, Y),), ()), *steps),
}
FLAG = Buffer("flag", np.dtype(bool), (), "in")


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_takes_one_place(name: str) -> None:
    """A product, functions of it entry by entry, and a product of those: 72 bytes, in lines of 64."""
    links = [Buffer(f"link{k}", np.dtype(np.float64), (3, 3), "temp") for k in range(4)]
    chain = (
        Product(whole(links[0]), whole(P), whole(Y)),
        *(mapped_to(b, a, Y) for a, b in pairwise(links)),
        Product(whole(Z), whole(links[-1]), whole(Y)),
    )
    steps = (*CHAINS[name](chain), mapped_to(Z, Y))
    program = verify(Program("chain", (P, Y, Z, T, FLAG, *links), steps))
    moved = verify(in_place(program))
    assert sum(b.name.startswith("link") for b in moved.of("temp")) == 1
    assert arena(moved).bytes == 128
    one = replace(links[0], shape=())
    view = View(one, (3, 3), (0, 0))
    scalar = (step_builders.copy(whole(one), View(P, (), ())), mapped_to(Z, view))
    assert arena(verify(Program("scalar", (P, Z, one), scalar))).bytes == 64


@settings(max_examples=10)
@given(st.data())
def test_the_text_of_a_program_is_its_structure(data: Any) -> None:
    program = data.draw(programs())
    text = program_text(program)
    assert all(b.name in text for b in program.buffers)
    assert code_text(program) == code_text(renamed(program))


def code_text(program: Program) -> str:
    """The text that the machine code of a program is kept by."""
    return compiled_program.planned(program).text


def renamed(program: Program) -> Program:
    from iverson.codegen.programs.nodes import mapped

    names = {b: replace(b, name=f"other_{b.name}") for b in program.buffers}

    def swap(s: Any) -> Any:
        if isinstance(s, Repeat):
            pairs = tuple((names[a], names[b]) for a, b in s.swaps)
            return replace(s, swaps=pairs, body=tuple(map(swap, s.body)))
        if hasattr(s, "then"):
            return replace(s, then=tuple(map(swap, s.then)), other=tuple(map(swap, s.other)))
        return s

    steps = tuple(swap(mapped(s, lambda v: replace(v, buffer=names[v.buffer]))) for s in program.steps)
    constants = {names[b].name: program.constants[b.name] for b in program.of("const")}
    return Program("renamed", tuple(names.values()), steps, constants)


#: Rows, inner extents and columns of products, and whether a factor is copied so that BLAS reads it in order:
#: of small ones, if its entries are read often.
SIZES = {
    (64, 60, 48): True,
    (100, 10, 64): True,
    (40, 60, 48): False,
    (64, 40, 1): False,
    (128, 96, 72): False,
}


def test_small_products_with_one_transposed_factor_are_made_after_a_copy() -> None:
    buffers, steps, copies = [], [], {}

    def new(shape: tuple[int, ...], role: str) -> Buffer:
        buffers.append(Buffer(f"b{len(buffers)}", np.dtype(np.float32), shape, role))
        return buffers[-1]

    def lying(shape: tuple[int, ...], by_rows: bool, role: str) -> View:
        return whole(new(shape, role)) if by_rows else whole(new(shape[::-1], role)).transposed

    for (m, k, n), orders in product(SIZES, product((True, False), repeat=3)):
        shapes = ((m, n), (m, k), (k, n)) if orders[0] else ((n, m), (n, k), (k, m))
        roles = ("inout", "in", "in")
        out, left, right = (lying(*x) for x in zip(shapes, orders, roles, strict=True))
        made = step_builders.turned(Product(out, left, right), lambda dtype, shape: whole(new(shape, "temp")))
        steps += made
        copies[m, k, n, orders] = sum(isinstance(s, Nest) for s in made)
    slow = {(True, True, False), (False, True, False)}  # of both orders of the result, the same call of BLAS
    assert copies == {
        (*s, o): int(SIZES[s] and o in slow) for s in SIZES for o in product((True, False), repeat=3)
    }
    program = verify(Program("products", tuple(buffers), tuple(steps)))
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(extents(b)).astype(b.dtype) for b in buffers if b.role != "temp"]
    assert_alike(compiled(program, given), interpreted(program, given), 1e-3)


def test_what_one_loop_makes_stays_for_all_iterations_of_another() -> None:
    """A matrix that is read in each iteration, beside one that each iteration makes behind that."""
    read = (mapped_to(Z, T, combine="sum"), Product(whole(S), whole(P), whole(Y)), mapped_to(P2, S))
    steps = (mapped_to(Z, Y), mapped_to(P2, Y), Repeat("i", 2, (mapped_to(T, P),)), Repeat("j", 2, read))
    program = verify(Program("loops", (P, Y, Z, P2, T, S), steps))
    arrays = [np.random.default_rng(k).normal(size=(3, 3)) for k in range(2)]
    assert_alike(in_one_arena(program, arrays), interpreted(program, arrays), 1e-12)
