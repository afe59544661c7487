"""Entry maps of ops said in index notation, against what a nan in an entry of an input reaches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import te
from iverson.autograd import grad
from iverson.core.aval import Aval
from iverson.core.counting import work
from iverson.core.entries import NOTHING, Box, hull, plain
from iverson.core.entry_map import Call
from iverson.core.region import Region
from iverson.expr.nodes import Expr
from iverson.layouts import support_of
from iverson.te.ir.expressions import Tensor, Var
from iverson.te.ir.interpret import run
from iverson.te.ir.nodes import Compute, Program
from iverson.te.ops.index_maps import IndexMaps, ProgramMaps
from tests.conformance.product import examples
from tests.layouts.test_box import regions

FLOAT = np.dtype("float64")


@st.composite
def alone(draw: Any) -> tuple[list[te.Placeholder], Compute]:
    """An op in which each index of a read follows from one axis: the smallest region can be known."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    read: list[Any] = []

    def index(v: Var, n: int) -> tuple[Expr, int]:
        """An index, and how far it reaches."""
        c = draw(st.integers(0, 2))
        below = te.clamp(v - c, 0, n - 1), n
        whole = [(v, n), (v + c, n + c), (n - 1 - v, n), (2 * v + c, 2 * n + c), below]
        digits = [(v // 2, n), ((v + c) // 3, n + 1), ((v + c) % n, n), (v % 2, 2), (2 - (v + c) % 3, 3)]
        return draw(st.sampled_from(whole + digits))

    def body(*axes: Var) -> Expr:
        order = draw(st.permutations(axes))
        reduced = [v for v in order if draw(st.booleans())] if draw(st.booleans()) else []
        stand_ins = {v: te.reduce_axis((0, v.hi)) for v in reduced}
        at = [stand_ins.get(v, v) for v in order]
        pairs = [index(v, int(v.hi)) for v in at]  # type: ignore[arg-type]
        x = te.placeholder(tuple(n for _, n in pairs), name="x")
        read.append(x)
        value: Expr = x[tuple(e for e, _ in pairs)]
        if draw(st.booleans()):
            v = draw(st.sampled_from(at))
            value = te.select(draw(st.sampled_from([v >= 1, v < 2, v != 0, (v > 0) & (v < 3)])), value, 1.0)
        combine = draw(st.sampled_from([te.sum, te.prod, te.max]))
        return combine(value, axis=list(stand_ins.values())) if stand_ins else te.F.sin(value)

    return read, te.compute(tuple(shape), body, "y")


@st.composite
def tangled(draw: Any) -> tuple[list[te.Placeholder], Compute]:
    """Several stages, indices of several axes and of data, guards, reductions and scatters."""
    n = draw(st.integers(2, 4))
    x, z = te.placeholder((n, n), name="x"), te.placeholder((n,), name="z")
    at = te.placeholder((n,), "int64", "at")
    tensors: list[Tensor] = [x, z]

    def position(axes: Any) -> Expr:
        v, w = draw(st.sampled_from(axes)), draw(st.sampled_from(axes))
        forms = [v, v, n - 1 - v, (v + w) % n, v // 2, at[v], te.clamp(v + w - 1, 0, n - 1), (2 * v + w) // 3]
        return draw(st.sampled_from(forms))

    def value(axes: Any) -> Expr:
        t = draw(st.sampled_from(tensors))
        v, w = draw(st.sampled_from(axes)), draw(st.sampled_from(axes))
        guards = [v <= w, v != 1, (v == 0) | (w > 1), v + w < n, at[v] > 1, v % 2 == 0]
        read = t[tuple(position(axes) for _ in t.shape)]
        return te.select(draw(st.sampled_from(guards)), read, 0.5) if draw(st.booleans()) else read

    for k in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            r = te.reduce_axis((draw(st.integers(0, 1)), n))
            tensors.append(
                te.compute((n, n), lambda i, j, r=r: te.sum(value([i, j, r]) * value([i, r]), r), f"t{k}")
            )
        else:
            tensors.append(
                te.scatter((n, n), (n, n), lambda i, j: ((position([i, j]), j), value([i, j])), f"t{k}")
            )
    assert isinstance(tensors[-1], Compute)
    return [x, z, at], tensors[-1]


def dependence(program: Program, x: te.Placeholder, feed: dict[Any, Any]) -> Any:
    """For each entry of x, which entries of the result are nan where it is."""
    found = []
    for entry in np.ndindex(*x.shape):  # type: ignore[arg-type]
        changed = feed[x].copy()
        changed[entry] = np.nan
        (y,) = run(program, [changed if t is x else feed[t] for t in program.inputs])
        found.append(np.isnan(y))
    return np.asarray(found).reshape(*x.shape, *y.shape)  # type: ignore[arg-type]


def smallest(entries: Any) -> Any:
    """The smallest region that holds the entries, as a demand or support."""
    at = np.argwhere(entries).T
    if not entries.any():
        return NOTHING
    region = Region(tuple(int(n.min()) for n in at), tuple(int(n.max()) + 1 for n in at))
    return plain(Box(region), entries.shape)


def check(found: Any, entries: Any, *, exactly: bool) -> None:
    expected = smallest(entries)
    if exactly:
        assert found == expected
    elif expected is not NOTHING:
        outer, inner = hull(found, entries.shape), hull(expected, entries.shape)
        assert outer.intersect(inner) == inner


def check_both_ways(inputs: list[te.Placeholder], y: Compute, data: Any, *, exactly: bool) -> None:
    program = te.program_of([y])
    inputs = [x for x in inputs if x in program.inputs]
    rng = np.random.default_rng(0)
    feed = {
        x: rng.integers(0, x.shape[0], x.shape) if x.dtype.kind == "i" else rng.uniform(1, 2, x.shape)
        for x in inputs
    }
    entry_map = IndexMaps(lambda *_: ProgramMaps(program, tuple(inputs)))
    avals = [Aval(x.shape, x.dtype) for x in inputs]  # type: ignore[arg-type]
    out = Aval(y.shape, y.dtype)  # type: ignore[arg-type]
    op: Any = type("Single", (), {"multiple": False})
    own = data.draw(regions(y.shape))
    for k, x in enumerate(inputs):
        if x.dtype.kind == "i":
            continue
        reaches = dependence(program, x, feed)
        known = [feed[t] if t.dtype.kind == "i" else aval for t, aval in zip(inputs, avals, strict=True)]
        for operands in (avals, known):  # index arrays that are not known, and that are
            relation = entry_map.relation(Call(op, operands, out, {}), k)
            tied = relation.matrix().toarray().reshape(*out.shape, *x.shape)  # type: ignore[misc]
            at = np.moveaxis(reaches, range(x.ndim), range(-x.ndim, 0))
            assert not (at & ~tied).any()
            if exactly:
                np.testing.assert_array_equal(tied, at)
        region = data.draw(regions(x.shape))
        demands = [plain(Box(region), x.shape) if j == k else NOTHING for j in range(len(inputs))]  # type: ignore[arg-type]
        found = entry_map.demand(op, demands, avals, out, {})
        there = reaches[region.slices].reshape(-1, *out.shape).any(axis=0)
        check(found, there, exactly=exactly)
        back = entry_map.support(op, plain(Box(own), out.shape), k, avals, out, {})
        check(back, reaches[(..., *own.slices)].any(axis=tuple(range(-len(out.shape), 0))), exactly=exactly)


@settings(deadline=None, max_examples=examples(100))
@given(alone(), st.data())
def test_the_smallest_region_where_an_axis_gives_an_index(made: Any, data: Any) -> None:
    check_both_ways(*made, data, exactly=True)


@settings(deadline=None, max_examples=examples(100))
@given(tangled(), st.data())
def test_a_region_that_holds_what_depends(made: Any, data: Any) -> None:
    check_both_ways(*made, data, exactly=False)


@pytest.fixture
def blurred_rows() -> Any:
    """Means of three rows each, below a first row that depends on nothing."""

    @te.op
    def blurred(x: Any) -> Any:
        n, m = x.shape
        mean = te.compute((n - 2, m), lambda i, j: (x[i, j] + x[i + 1, j] + x[i + 2, j]) / 3)
        return te.compute(
            (n - 1, m),
            lambda i, j: te.select(i > 0, te.F.tanh(mean[te.clamp(i - 1, 0, n - 3), j]), 1.0),
        )

    return blurred


def test_the_engine_computes_only_what_is_read_through_an_op_of_users(blurred_rows: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = (iv.asarray(rng.standard_normal(s), requires_grad=True) for s in ((8, 3), (3, 4)))
    y = blurred_rows(x @ w)
    with work.counting() as done:
        of_one = grad(y[3].sum(), x)
    assert support_of(of_one._value) == Box(Region((2, 0), (5, 3)))
    assert set(done.product_shapes) == {(3, 4, 3)}
    third = iv.asarray(np.where(np.arange(7) == 3, 1.0, 0.0)[:, None])
    expected = grad((blurred_rows(x @ w) * third).sum(), x)
    np.testing.assert_allclose(of_one.to_dense().numpy(), expected.numpy(), rtol=1e-14)


def test_a_demand_of_some_rows_goes_through_an_op_of_users(blurred_rows: Any) -> None:
    rng = np.random.default_rng(1)
    first, rest = (iv.asarray(rng.standard_normal(s), requires_grad=True) for s in ((2, 3), (6, 3)))
    w = iv.asarray(rng.standard_normal((3, 5)))
    loss = (blurred_rows(iv.concat([first, rest])) @ w).sum()
    with work.counting() as done:
        found = grad(loss, first)
    assert set(done.product_shapes) == {(2, 5, 3)}  # rows 1 and 2 of the result, which read rows 0 and 1
    np.testing.assert_allclose(found.numpy(), grad(loss, [first, rest])[0].numpy(), rtol=1e-14)


def test_what_depends_on_nothing_has_no_cotangent(blurred_rows: Any) -> None:
    x = iv.asarray(np.ones((4, 2)), requires_grad=True)
    assert grad(blurred_rows(x)[0].sum(), x).layout == "zero"
