"""Fused phases, buffers kept between calls, and strided stores: by structure and by what they compute."""

import numpy as np
import pytest

from iverson.codegen.execution.verify import verify
from iverson.codegen.launches import compile_kernel
from iverson.codegen.nests.interpret import run
from iverson.codegen.nests.nodes import (
    INT64,
    Buffer,
    Declare,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Store,
    Update,
    Var,
    statements,
)
from iverson.codegen.runtime import workspaces
from iverson.codegen.schedule.loop_fusion import fuse, joined, without
from iverson.core.errors import ArgumentError
from iverson.expr.nodes import Apply, Const

F32 = np.dtype("float32")
A, B, C = (Buffer(n, F32, (8,), "inout") for n in "abc")
I, J = Var("i"), Var("j")


def each(*body):
    return Loop("i", Const(0), Const(8), body, mark="parallel")


def copy(to, what, how="assign", at=I):
    return each(Store(to, (at,), Load(what, (I,)), how))


def row_sum(to, what):
    inner = Loop("j", Const(0), Const(8), (Update("acc", "sum", Load(what, (J,))),))
    return each(
        Declare("acc", F32, Const(0.0, F32)),
        inner,
        Store(to, (I,), Apply("add", (Local("acc", F32), Load(what, (I,))), F32)),
    )


def test_two_reductions_over_the_same_loops_become_one_with_names_of_their_own():
    both = joined(row_sum(B, A), row_sum(C, A))
    loops = [s for s in statements((both,)) if isinstance(s, Loop)]
    assert [x.var for x in loops] == ["i", "j"]
    assert [s.name for s in statements((both,)) if isinstance(s, Declare)] == ["acc", "acc_1"]
    kernel = Kernel("k", (A, B, C), (both,))
    a = np.arange(8, dtype=F32)
    b, c = np.zeros(8, F32), np.zeros(8, F32)
    compile_kernel(kernel)(a, b, c)
    np.testing.assert_array_equal(b, 28 + a)
    np.testing.assert_array_equal(c, b)


def test_a_name_is_bound_once():
    """Whatever binds it, and whatever it is of."""
    value = Const(1.0, F32)
    a, let = Store(A, (I,), Local("t", F32)), Let("t", value)
    nests = {
        "i": each(Let("i", value), copy(B, A).body[0]),
        "a": each(Let("a", value), copy(B, A).body[0]),
        "t": each(let, Loop("j", Const(0), Const(2), (Declare("t", F32, value), a))),
        "acc": each(Declare("acc", F32, value), Let("acc", value)),
        "n": each(Let("n", value)),
        "j": each(Loop("j", Const(0), Const(2), row_sum(B, A).body)),
    }
    for name, nest in nests.items():
        with pytest.raises(ArgumentError, match=f"'{name}': got a name in use"):
            verify(Kernel("k", (A, B, C), (nest,), ("n",)))
    with pytest.raises(ArgumentError, match="'i': got a name in use"):
        verify(Kernel("k", (A, B, C), (each(copy(B, A)),)))
    apart = each(Loop("j", Const(0), Const(2), (let, a)), let, a)
    verify(Kernel("k", (A, B, C), (apart, each(let, a))))
    with pytest.raises(ArgumentError, match="'t': got a use"):
        verify(Kernel("k", (A, B, C), (each(Loop("j", Const(0), Const(2), (let,)), a),)))


def test_phases_that_depend_on_each_other_or_share_no_read_stay_apart():
    other = Load(B, (Apply("subtract", (Const(7), I), INT64),))
    assert joined(copy(B, A), each(Store(C, (I,), other))) is None
    half = Apply("floor_divide", (I, Const(2)), INT64)  # made twice: the second is what all read
    assert joined(copy(B, A, at=half), each(Store(C, (I,), Load(B, (half,))))) is None
    assert joined(copy(B, A, "sum"), copy(C, B)) is None
    assert joined(copy(B, A), each(Store(A, (I,), Load(B, (I,))))) is None  # written and read
    assert joined(copy(B, A), each(Store(C, (I,), Const(1.0, F32)))) is None
    shifted = Loop("i", Const(0), Const(7), copy(C, A).body, mark="parallel")
    assert joined(copy(B, A), shifted) is None


def test_what_is_read_in_the_iteration_that_makes_it_stays_in_a_register():
    both = joined(copy(B, A), copy(C, B))
    kernel = Kernel("k", (A, B, C), (both,))
    a, b, c = np.arange(8, dtype=F32), np.zeros(8, F32), np.zeros(8, F32)
    compile_kernel(kernel)(a, b, c)
    np.testing.assert_array_equal(b, a)
    np.testing.assert_array_equal(c, a)
    alone = without(both, {"b"})
    assert [s.buffer.name for s in statements((alone,)) if isinstance(s, Store)] == ["c"]
    compile_kernel(Kernel("k", (A, C), (alone,)))(a, d := np.zeros(8, F32))
    np.testing.assert_array_equal(d, a)
    assert joined(copy(B, A), row_sum(C, B)) is None  # which reads all of it


def test_stores_to_one_buffer_are_fused_only_in_step():
    assert joined(copy(B, A), copy(B, A, "sum")) is not None
    behind = Apply("subtract", (Const(7), I), INT64)
    assert joined(copy(B, A), copy(B, A, "sum", behind)) is None


def test_a_sum_does_not_pass_the_assignment_it_adds_to():
    first, begin, add = copy(C, A), copy(B, A, at=Apply("subtract", (Const(7), I), INT64)), copy(B, A, "sum")
    assert fuse([begin], add) == [begin, add]
    after, joint = fuse([first, begin], add)  # where the first comes later instead
    assert after is begin
    assert [s.buffer for s in statements((joint,)) if isinstance(s, Store)] == [C, B]


def test_arrays_come_back_from_the_workspace_up_to_its_limit(monkeypatch):
    workspaces.forget()
    one = workspaces.take((4, 5), F32)
    other = workspaces.take((4, 5), F32)
    assert other is not one
    workspaces.give_back([one])
    assert workspaces.held() == one.nbytes
    assert workspaces.take((4, 5), F32) is one
    monkeypatch.setattr(workspaces, "KEEP", 100)
    workspaces.give_back([one, other])
    assert workspaces.held() <= 100
    workspaces.forget()


def test_strided_stores_touch_only_their_entries():
    for step in (2, 3, 4, 5):
        a, out = Buffer("a", F32, (37,)), Buffer("out", F32, (37 * step,), "inout")
        at = Apply("add", (Apply("multiply", (I, Const(step)), INT64), Const(step - 1)), INT64)
        for how in ("assign", "sum"):
            body = (Store(out, (at,), Load(a, (I,)), how),)
            kernel = Kernel("k", (a, out), (Loop("i", Const(0), Const(37), body, mark="vector", factor=2),))
            x = np.arange(37, dtype=F32)
            got, expected = np.full(37 * step, 5, F32), np.full(37 * step, 5, F32)
            compile_kernel(kernel)(x, got)
            run(kernel, {"a": x, "out": expected})
            np.testing.assert_array_equal(got, expected)


def test_emission_of_nested_indices_stays_small():
    index = Apply("minimum", (Apply("maximum", (I, Const(0)), INT64), Const(7)), INT64)
    a, out = Buffer("a", F32, (8,)), Buffer("out", F32, (64,), "out")
    index = Apply("floor_divide", (index, Const(2)), INT64)
    for _ in range(10):
        index = Apply("floor_divide", (Apply("add", (index, Const(1)), INT64), Const(3)), INT64)
    body = (Store(out, (I,), Load(a, (index,))),)
    kernel = Kernel("k", (a, out), (Loop("i", Const(0), Const(64), body, mark="vector"),))
    assert len(compile_kernel(kernel).typical.text) < 200_000


def guarded(condition, *body):
    return Loop("i", Const(0), Const(8), (If(condition, body),), mark="parallel")


def test_sums_under_different_guards_are_one_nest():
    late, later = (Apply("greater_equal", (I, Const(n)), np.dtype("bool")) for n in (2, 4))
    first, second = (guarded(c, Store(b, (I,), Load(A, (I,)), "sum")) for c, b in ((late, B), (later, C)))
    (joint,) = fuse([first], second)
    assert [type(s) for s in joint.body] == [If, If]
    values = {"a": np.arange(8, dtype=F32), "b": np.ones(8, F32), "c": np.ones(8, F32)}
    run(Kernel("k", (A, B, C), (joint,)), values)
    np.testing.assert_array_equal(values["b"], 1 + np.arange(8) * (np.arange(8) >= 2))
    np.testing.assert_array_equal(values["c"], 1 + np.arange(8) * (np.arange(8) >= 4))


def test_sums_into_one_buffer_meet_in_lanes_that_own_an_index():
    table, at = Buffer("table", F32, (8, 8), "inout"), Buffer("at", np.dtype("int64"), (8, 2))

    def scatter(k):
        body = (Store(table, (Load(at, (I, Const(k))), J), Load(A, (I,)), "sum", True),)
        return Loop(
            "i", Const(0), Const(8), (Loop("j", Const(0), Const(8), body, mark="vector"),), mark="parallel"
        )

    assert len(fuse([scatter(0)], scatter(1))) == 1
