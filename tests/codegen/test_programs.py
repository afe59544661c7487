"""Programs: compiled against the interpreter, memory that is never shared by what lives together."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from iverson.codegen.nests.nodes import Buffer
from iverson.codegen.programs import (
    Nest,
    Product,
    View,
    compile_program,
    compiled_program,
    interpret,
    program_emission,
    step_builders,
    whole,
)
from iverson.codegen.programs.buffer_allocation import arena, in_place
from iverson.codegen.programs.nodes import Program, extents
from iverson.codegen.programs.print import program_text, structure
from iverson.codegen.programs.verify import verify
from iverson.core.errors import IndexingError
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


def compiled(program: Program, given: list[Any]) -> Any:
    arrays = [a.copy() for a in given]
    made = compile_program(program)
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
        patch.setattr(compiled_program, "structure", lambda p: f"{structure(p)} by {steps}")
        found = compiled(program, arrays)
    rtol = 1e-3 if arrays[0].dtype == np.float32 else 1e-9
    assert_alike(found, interpreted(program, arrays), rtol)


@settings(max_examples=examples(60), phases=PHASES)
@given(st.data())
def test_temporaries_in_one_arena_are_as_good_as_memory_of_their_own(data: Any) -> None:
    """Whatever two buffers share, neither is alive while the other is written: results are the same."""
    program = data.draw(programs())
    note(program_text(program))
    arrays = data.draw(arguments(program))
    moved = verify(in_place(program))
    where = arena(moved)
    memory = np.full(where.bytes, 255, np.uint8)
    places = {}
    for b in moved.of("temp"):
        if b.name in where.places:
            start, bytes = where.places[b.name], int(np.prod(extents(b))) * b.dtype.itemsize
            assert start % 64 == 0
            places[b.name] = memory[start : start + bytes].view(b.dtype).reshape(extents(b))
    assert_alike(interpreted(moved, arrays, places), interpreted(program, arrays), 1e-12)
    assert in_place(moved).steps == moved.steps


@settings(max_examples=10)
@given(st.data())
def test_the_text_of_a_program_is_its_structure(data: Any) -> None:
    program = data.draw(programs())
    text = program_text(program)
    assert all(b.name in text for b in program.buffers)
    assert structure(program) == structure(renamed(program))


def renamed(program: Program) -> Program:
    from dataclasses import replace

    from iverson.codegen.programs.nodes import Repeat, mapped

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
