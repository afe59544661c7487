"""The normal form of index arithmetic keeps values, and its ranges hold; digits and injectivity."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from iverson.expr.build import apply, index
from iverson.expr.nodes import Expr
from iverson.expr.print import text
from iverson.te.ir.convex_pieces import disjoint, index_cases
from iverson.te.ir.expressions import Placeholder, Var
from iverson.te.ir.index_arithmetic import affine_of, bounds_under, constraints_of, expr_of, interval
from iverson.te.ir.integer_sets import is_empty
from iverson.te.ir.interpret import scalar
from iverson.te.ir.nodes import Compute, Domain, Statement
from iverson.te.language.injectivity import is_injective
from iverson.te.rewrites.mixed_radix import normalize
from tests.conformance.product import examples

AXES = (Var("i", 0, 5), Var("j", -2, 4), Var("k", 1, 8))
POINTS = [dict(zip(AXES, p, strict=True)) for p in product(range(5), range(-2, 4), range(1, 8))]


def expressions(choices: bool = False) -> st.SearchStrategy[Expr]:
    leaves = st.sampled_from(AXES) | st.integers(-9, 9).map(index)
    small = st.integers(1, 7)

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        grown = (
            st.tuples(inner, inner).map(lambda t: t[0] + t[1])
            | st.tuples(inner, inner).map(lambda t: t[0] - t[1])
            | st.tuples(inner, st.integers(-6, 6)).map(lambda t: t[0] * t[1])
            | st.tuples(inner, small).map(lambda t: t[0] // t[1])
            | st.tuples(inner, small).map(lambda t: t[0] % t[1])
        )
        if choices:
            pick = st.sampled_from(["minimum", "maximum"])
            grown |= st.tuples(pick, inner, inner).map(lambda t: apply(*t))
        return grown

    return st.recursive(leaves, grow, max_leaves=7)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(expressions(), st.sampled_from(["less", "equal", "greater_equal"]), expressions()),
        max_size=4,
    )
)
def test_domains_are_empty_where_no_point_satisfies_all_conditions(
    parts: list[tuple[Expr, str, Expr]],
) -> None:
    conditions = [apply(name, a, b) for a, name, b in parts]
    expected = not any(all(scalar(c, p) for c in conditions) for p in POINTS)
    assert is_empty(AXES, conditions) in (expected, None)


@settings(deadline=None)
@given(expressions(choices=True))
def test_normal_form_keeps_values_and_ranges_hold(e: Expr) -> None:
    form = affine_of(e)
    normal = expr_of(form)
    low, high = interval(form)
    values = [scalar(e, p) for p in POINTS]
    assert [scalar(normal, p) for p in POINTS] == values
    assert low <= min(values)
    assert max(values) <= high
    assert affine_of(normal) == form


@settings(deadline=None)
@given(expressions(), st.lists(expressions(), max_size=3))
def test_bounds_under_guards_hold(e: Expr, guards: list[Expr]) -> None:
    conditions = [g >= 0 for g in guards]
    constraints = [c for g in conditions for c in constraints_of(g) or ()]
    low, high = bounds_under(affine_of(e), constraints)
    for p in POINTS:
        if all(scalar(c, p) for c in conditions):
            assert low <= scalar(e, p) <= high


@settings(deadline=None)
@given(st.lists(expressions(), min_size=1, max_size=3))
def test_injective_is_never_wrong(write: list[Expr]) -> None:
    if is_injective(write, AXES):
        seen = {tuple(scalar(e, p) for e in write) for p in POINTS}
        assert len(seen) == len(POINTS)


def test_injective_is_often_right() -> None:
    i, j, k = Var("i", 0, 4), Var("j", 0, 3), Var("k", 0, 5)
    assert is_injective([i * 15 + j * 5 + k], [i, j, k])
    assert is_injective([i + j, j], [i, j])
    assert is_injective([k // 2, k % 2], [k])
    assert not is_injective([i + j], [i, j])
    assert not is_injective([i // 2], [i])
    assert is_injective([i + j], [i, j], constraints_of(i == j) or ())


@pytest.mark.parametrize(
    ("expression", "normal"),
    [
        (lambda i, j: (i * 4 + j) // 4, "i"),
        (lambda i, j: (i * 4 + j) % 4, "j"),
        (lambda i, j: (i * 8 + j) // 12, "i * 2 // 3"),
        (lambda i, j: (i * 12 + j * 3 + 2) // 6, "i * 2 + j // 2"),
        (lambda i, j: (i // 2 + 3) // 5, "(i + 6) // 10"),
        (lambda i, j: i % 12, "i"),
        (lambda i, j: apply("minimum", i, j + 20), "i"),
    ],
)
def test_simplifications(expression: object, normal: str) -> None:
    i, j = Var("i", 0, 12), Var("j", 0, 4)
    assert text(expr_of(affine_of(expression(i, j)))) == normal  # type: ignore[operator]


@settings(deadline=None)
@given(expressions(), expressions())
def test_digits_keep_the_points(f: Expr, h: Expr) -> None:
    """Splitting axes into digits visits the same (index, value) pairs as often."""
    low, high = interval(affine_of(f))
    x = Placeholder((1,), np.dtype("float64"), "x")
    place = f - int(low)
    statement = Statement(None, (place,), x[index(0)], Domain(AXES, (h >= 0,)), "sum")
    out = Compute((int(high - low) + 1,), x.dtype, "out", (statement,))
    before, after = out.statements[0], normalize(out.statements[0])
    assert _histogram(before) == _histogram(after)


def _histogram(s: Statement) -> dict[int, int]:
    counts: dict[int, int] = {}
    axes = s.domain.axes
    for p in product(*(range(int(v.lo), int(v.hi or 0)) for v in axes)):  # type: ignore[arg-type]
        at = dict(zip(axes, p, strict=True))
        if all(scalar(c, at) for c in s.domain.where):
            key = scalar(s.write[0], at)
            counts[key] = counts.get(key, 0) + 1
    return counts


@settings(deadline=None, max_examples=examples(40))
@given(st.data())
def test_pieces_are_disjoint_and_complete(data: st.DataObject) -> None:
    def comparison() -> Expr:
        e, name = data.draw(expressions()), data.draw(st.sampled_from(["less", "not_equal", "equal"]))
        return apply(name, e, index(data.draw(st.integers(-3, 3))))

    a, b, c = comparison(), comparison(), comparison()
    condition = data.draw(st.sampled_from([(a | b) & ~(c & a), a | b, ~(a & b) & c]))
    pieces = disjoint([condition])
    assume(pieces is not None)
    for p in POINTS:
        held = sum(all(scalar(q, p) for q in piece) for piece in pieces)
        assert held == bool(scalar(condition, p))


@settings(deadline=None)
@given(expressions(choices=True), expressions(choices=True))
def test_index_cases_cover_everything_once(e: Expr, f: Expr) -> None:
    cases = index_cases([e, f])
    for p in POINTS:
        found = [w for conditions, w in cases if all(scalar(c, p) for c in conditions)]
        assert len(found) == 1
        assert [scalar(w, p) for w in found[0]] == [scalar(e, p), scalar(f, p)]
