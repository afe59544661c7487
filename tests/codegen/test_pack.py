"""Operands copied with another axis last: when that is done, and that it changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iverson.codegen.launches import compile_kernel
from iverson.codegen.nests.nodes import Buffer, Kernel, Load, Stmt, Store, Var, statements, with_buffers
from iverson.codegen.nests.task import Axis, Task
from iverson.codegen.schedule import operand_packing
from iverson.core.python.recent_items import RecentItems
from iverson.expr.nodes import Apply, Const
from iverson.te.derivatives.reverse_mode import differentiate
from iverson.te.elimination.zero_elimination import eliminate
from iverson.te.ir.nodes import program_of
from iverson.te.language import definitions as te
from iverson.te.lowering import statement_lowering
from tests.codegen.nests import F32, add, c, ld, mul
from tests.codegen.test_lower import PROGRAMS, SMOOTH, agree, conv
from tests.conformance.product import EXHAUSTIVE, SEED, some


def products(f: int, k: int, w: int, stride: int) -> Task:
    """``O[f, k] += G[f, w] * X[k, stride w]``: w runs through both operands, k through neither."""
    names = dict(zip("fkw", (f, k, w), strict=True))
    axes = tuple(Axis(n, Const(0), Const(extent)) for n, extent in names.items())
    fv, kv, wv = (Var(n) for n in "fkw")
    g, x = Buffer("G", F32, (f, w)), Buffer("X", F32, (k, stride * w))
    value = mul(ld(g, fv, wv), ld(x, kv, mul(wv, c(stride))))
    return Task(Buffer("O", F32, (f, k), "out"), (fv, kv), value, axes, combine="sum", fresh=True)


def stores(phase: Stmt) -> list[Store]:
    return [s for s in statements((phase,)) if isinstance(s, Store)]


def test_the_operand_that_costs_less_to_copy_is_copied() -> None:
    (phase,), task = operand_packing.packed(products(64, 64, 5000, 3))
    (copy,) = stores(phase)
    assert copy.buffer.shape == (5000, 64)
    assert copy.indices == (Var("p1"), Var("p0"))
    assert copy.value == Load(Buffer("G", F32, (64, 5000)), (Var("p0"), Var("p1")))
    (read,) = [x for x in task.loads if x.buffer == copy.buffer]
    assert read.indices == (Var("w"), Var("f"))
    assert len(task.loads) == 2


@pytest.mark.parametrize(
    "task",
    [
        products(64, 64, 100, 3),  # too little work
        products(2, 64, 50_000, 3),  # each entry is read twice
    ],
)
def test_what_would_not_pay_is_left_alone(task: Task) -> None:
    assert operand_packing.packed(task) == ([], task)


def test_only_a_plain_move_along_an_axis_is_turned_around() -> None:
    task = products(64, 64, 5000, 1)
    (_, x) = task.loads
    for index in (
        add(Var("k"), Var("w")),  # the last dimension moves with k too
        Apply("floor_divide", (Var("k"), c(2)), Var("k").dtype),
        mul(Var("k"), c(2)),
    ):
        read = Load(x.buffer, (index, add(Var("w"), Var("k"))))
        moved = Task(task.out, task.write, mul(task.loads[0], read), task.axes, combine="sum", fresh=True)
        phases, _ = operand_packing.packed(moved)
        assert all(s.buffer.name != "X_by0" for p in phases for s in stores(p))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies made wherever they bring anything, however little work there is, if there is any."""
    monkeypatch.setattr(operand_packing, "WORTH", 1)
    monkeypatch.setattr(operand_packing, "COPIED", 0.0)
    monkeypatch.setattr(operand_packing, "GAIN", 100.0)
    monkeypatch.setattr(statement_lowering, "_lowered", RecentItems(64))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", PROGRAMS)
def test_forward(name: str) -> None:
    program = program_of([PROGRAMS[name]()])
    for p in some(f"{name} packed", [program, eliminate(program)]):
        agree(p)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", SMOOTH if EXHAUSTIVE else SMOOTH[SEED % 4 :: 4])
def test_gradients(name: str) -> None:
    output = PROGRAMS[name]()
    wanted = [t for t in program_of([output]).inputs if t.dtype.kind == "f"]
    head = te.placeholder(output.shape, output.dtype, "G")
    agree(eliminate(program_of(list(differentiate(output, wanted, head=head)))))


@pytest.mark.usefixtures("always")
def test_copies_take_no_tensor_and_each_is_made_once() -> None:
    compiled = agree(eliminate(program_of([conv(1, 1)])))
    made: list[Any] = [b.name for b in compiled.scratch]
    assert len(made) == len(set(made)) > 0
    assert not {b.name for b in compiled.buffers.values()} & set(made)


@pytest.mark.parametrize(("shape", "d"), [((5, 70), 0), ((3, 40, 7), 1), ((2, 3, 33, 5), 0), ((1, 1), 0)])
def test_a_copy_holds_every_entry(shape: tuple[int, ...], d: int) -> None:
    source = Buffer("source", F32, shape)
    phase = operand_packing._copying(source, d)
    (store,) = stores(phase)
    order = [k for k in range(len(shape)) if k != d] + [d]
    out = Buffer(store.buffer.name, F32, tuple(shape[k] for k in order), "out")
    kernel = Kernel("copy", (source, out), (with_buffers(phase, {"source": source, out.name: out}),))
    values = np.random.default_rng(0).normal(size=shape).astype(F32)
    result = np.zeros(out.shape, F32)
    compile_kernel(kernel)(values, result, threads=2)
    np.testing.assert_array_equal(result, values.transpose(order))
