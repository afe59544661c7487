"""Elimination keeps meaning on random accesses, always has a fallback, and never hangs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.accesses import CASES, gradients
from iverson import te
from iverson.expr.build import apply, index
from iverson.expr.nodes import Expr
from iverson.te.ir import integer_sets
from iverson.te.ir.expressions import Var
from iverson.te.ir.index_arithmetic import affine_of, interval
from iverson.te.ir.interpret import Visits, run
from iverson.te.ir.nodes import Compute, Domain, Statement
from iverson.te.ir.verify import check
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import EXHAUSTIVE


@st.composite
def scatters(draw: Any, extent: int = 5) -> Compute:
    """``out[f(p)] += p`` for random quasi-affine f and guards."""
    axes = tuple(Var(f"v{k}", 0, draw(st.integers(1, extent))) for k in range(draw(st.integers(1, 4))))
    coefficient, radix = st.integers(-4, 7), st.integers(1, 5)

    def term() -> Expr:
        v = draw(st.sampled_from(axes))
        kind = draw(st.sampled_from("aaadmx"))
        if kind == "d":
            v = (v * draw(st.integers(1, 3)) + draw(st.integers(0, 3))) // draw(radix)
        elif kind == "m":
            v = (v + draw(st.integers(0, 3))) % draw(radix)
        elif kind == "x":
            v = apply("minimum", v, index(draw(st.integers(0, 3))))
        return v * draw(coefficient)

    def form() -> Expr:
        result: Expr = index(draw(st.integers(-3, 3)))
        for _ in range(draw(st.integers(1, 3))):
            result = result + term()
        return result

    def condition() -> Expr:
        name = draw(st.sampled_from(["less", "greater_equal", "equal", "not_equal"]))
        found = apply(name, form(), index(draw(st.integers(-3, 6))))
        return ~found if draw(st.booleans()) else found

    where = [condition() for _ in range(draw(st.integers(0, 2)))]
    if draw(st.integers(0, 4)) == 0:
        where.append(condition() | condition())
    write, shape = [], []
    for _ in range(draw(st.integers(1, 3))):
        f = form()
        low, high = interval(affine_of(f))
        write.append(f - int(low))
        shape.append(int(high - low) + 1)
    body: Expr = index(1)
    for v in axes:
        body = body * 7 + v
    dtype = np.dtype("float64")
    statement = Statement(None, tuple(write), body.astype(dtype), Domain(axes, tuple(where)), "sum")
    return Compute(tuple(shape), dtype, "out", (statement,))


def _agree(out: Compute) -> te.Program:
    program = te.program_of([out])
    found = te.eliminate(program)
    check(found)
    before: list[Visits] = []
    after: list[Visits] = []
    (a,), (b,) = run(program, [], before), run(found, [], after)
    np.testing.assert_array_equal(a, b)
    assert sum(v.points for v in before) == sum(v.points for v in after)
    for v in after:
        if v.statement.walk is not None and v.statement.strategy != "gather":
            guards_left = "guards are left" in v.statement.reason
            assert v.idle == 0 or guards_left or v.points == 0
    return found


@settings(deadline=None, max_examples=3000 if EXHAUSTIVE else 50)
@given(scatters())
def test_random_accesses(out: Compute) -> None:
    _agree(out)


def test_loops_visit_every_point_of_a_domain_with_two_strides() -> None:
    u, v, w = (Var(name, 0, extent) for name, extent in zip("uvw", (2, 5, 1), strict=True))
    write = (v // 2 * 4, v * -1 + (v + 2) % 4 + u * 3 + 2)
    body = (u * 7 + v + w + 1).astype(np.dtype("float64"))
    statement = Statement(None, write, body, Domain((u, v, w), ()), "sum")
    _agree(Compute((9, 8), np.dtype("float64"), "out", (statement,)))


@settings(deadline=None, max_examples=600 if EXHAUSTIVE else 40)
@given(scatters())
def test_fallback_without_isl(out: Compute) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integer_sets, "MAX_DIMENSIONS", 0)
        found = _agree(out)
    for s in found.statements:  # conditions that always hold need no isl
        assert s.walk in (None, ()) or not s.domain.where or "too much" not in s.reason


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_fallback_of_every_case(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Walking the forward domain, guarded, gives the same numbers and runs at the same points."""
    monkeypatch.setattr(integer_sets, "MAX_DIMENSIONS", 0)
    program, wanted = gradients(case)
    found = te.eliminate(program)
    rng = np.random.default_rng(1)
    feed = [
        rng.integers(0, 20, t.shape) if t.dtype.kind == "i" else rng.integers(-4, 5, t.shape) * 1.0
        for t in program.inputs
    ]
    visits: list[Visits] = []
    for a, b in zip(run(program, feed), run(found, feed, visits), strict=True):
        np.testing.assert_array_equal(a, b)
    assert sum(v.points for v in visits if v.statement.tensor in wanted) == case.brute()


def test_accesses_that_keep_isl_busy_for_minutes_are_not_asked() -> None:
    X = te.placeholder((3000, 3000), name="X")
    v = [te.reduce_axis((0, 6 + n), f"k{n}") for n in range(5)]
    out = te.compute(
        (7, 11),
        lambda i, j: te.sum(
            X[6 * i + 10 * v[0] + 15 * v[1] + 21 * v[2], 35 * j + 14 * v[3] + 77 * v[4] + v[0]], v
        ),
        "out",
    )
    start = time.perf_counter()
    (s,) = te.eliminate(te.differentiate(out, X, te.placeholder((7, 11)))[0]).statements
    assert time.perf_counter() - start < 5
    assert s.strategy == "scatter"
    assert "too much to ask isl" in s.reason


def test_empty_domains_make_zeros() -> None:
    A = te.placeholder((4,), name="A")
    out = te.compute((4,), lambda i: te.bracket(i > 7) * A[i], "out")
    (s,) = te.eliminate(out).statements
    assert s.walk == ()
    np.testing.assert_array_equal(run(te.eliminate(out), [np.ones(4)])[0], np.zeros(4))
    A2 = te.placeholder((0, 3), name="A2")
    gradient = te.differentiate(te.compute((0, 3), lambda i, j: A2[i, j] * 2), A2)[0]
    assert run(te.eliminate(gradient), [])[0].shape == (0, 3, 0, 3)


def test_a_kronecker_delta_selects() -> None:
    """A bracket of an equality is a lookup, not a loop."""
    A, q = te.placeholder((50,), name="A"), te.reduce_axis((0, 50), "q")
    out = te.compute((20,), lambda i: te.sum(te.bracket(q == 2 * i + 3) * A[q], q), "out")
    program = te.eliminate(out)
    visits: list[Visits] = []
    (found,) = run(program, [np.arange(50.0)], visits)
    np.testing.assert_array_equal(found, np.arange(20) * 2.0 + 3)
    assert (visits[0].points, visits[0].idle) == (20, 0)


EXPLAINED = """\
dY/dX += ...
  domain    { [a0, o] : 0 <= a0 < 9 and 0 <= o < 4 and a0 >= o * 2 and o * 2 + 2 >= a0 }
  points    12 visited, 12 nonzero terms
  strategy  gather: exact loops, outputs first
    for a0 in 0:9:
        for o in maximum(0, (a0 + 1) // 2 - 1):minimum(3, a0 // 2) + 1:
            dY/dX[a0] += H[o] * W[a0 - o * 2]"""


def test_explain() -> None:
    X, W = te.placeholder((9,), name="X"), te.placeholder((3,), name="W")
    r = te.reduce_axis((0, 3), "r")
    Y = te.compute((4,), lambda o: te.sum(X[2 * o + r] * W[r], r), "Y")
    gradient = te.differentiate(Y, X, te.placeholder((4,), name="H"))
    assert te.explain(gradient).startswith(EXPLAINED + "\nkernel 1: dY/dX, filled\n")
    assert te.program_text(te.eliminate(gradient[0])).splitlines()[-1].endswith("H[o] * W[a0 - o * 2]")
    unbound = te.compute((te.var("n"),), lambda i: i * 2.0, "unbound")
    assert "many visited, many nonzero terms\n  strategy  gather: the write is axes" in te.explain(unbound)
    strided = te.scatter((te.var("n"),), (4,), lambda i: (2 * i, 1.0), "strided")
    assert "sizes are not bound yet" in te.explain(strided)


def test_an_address_that_depends_on_data_keeps_its_choices() -> None:
    """Clamps beside an index that is read are no cases of their own: one statement, in the primal's order."""
    at, x = te.placeholder((9,), "int64", "at"), te.placeholder((9, 9), name="x")
    spread = te.scatter(
        (4, 5), (9, 9), lambda i, j: ((te.clamp(at[i] + 1, 0, 3), te.clamp((j - 2) // 2, 0, 4)), x[i, j]), "S"
    )
    program = te.eliminate(spread)
    (statement,) = program.statements
    assert (statement.strategy, statement.walk) == ("scatter", None)
    rng = np.random.default_rng(3)
    feed = [rng.integers(-2, 6, 9), rng.normal(size=(9, 9))]
    want = np.zeros((4, 5))
    rows, columns = np.clip(feed[0] + 1, 0, 3), np.clip((np.arange(9) - 2) // 2, 0, 4)
    np.add.at(want, (rows[:, None], columns[None, :]), feed[1])
    for found in (run(program, feed), lower(program)(*feed)):
        np.testing.assert_allclose(found[0], want)


def test_a_case_without_points_writes_nothing() -> None:
    """Where a choice in an index leaves no point of the box, it may be outside of what is written."""
    Y, H = te.placeholder((1,), name="Y"), te.placeholder((3, 6), name="H")

    def entry(i: te.Expr, j: te.Expr) -> te.Expr:
        at = te.maximum(j + 2 * i + 1, 2)
        return te.select((j >= 1) & (at >= 0) & (at < 1), Y[at], 0.5)

    (gradient,) = te.differentiate(te.compute((3, 6), entry), Y, H)
    program = te.eliminate(gradient)
    assert len(program.statements) == 1
    np.testing.assert_array_equal(lower(program)(*(np.ones(t.shape) for t in program.inputs))[0], [0.0])
