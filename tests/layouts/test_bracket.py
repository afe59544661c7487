"""Selections not yet made: an op gives what it gives of the selected arrays, and holds no more entries.

What is not selected is inf or nan here, and reaches nothing. All that is selected is positive, so the entries
of a result that are not 0 are those it has to hold.
"""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import iverson as iv
from iverson.core import entries
from iverson.core.region import Region
from iverson.core.scalars import keep_where
from iverson.kernels.kernel_registry import run
from iverson.kernels.partial.array_namespace import ARRAYS
from iverson.layouts import (
    Box,
    Bracket,
    CooPattern,
    Packed,
    Sparse,
    Zero,
    from_strided,
    layout_of,
    support_of,
    to_strided,
)
from iverson.layouts.bracket import held, select
from iverson.ops import TABLE

SHAPE = (3, 4)


class _Drawn:
    """Random operands: brackets in every form, and what else may stand beside them."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.g = np.random.default_rng(seed)
        #: Conditions drawn before, some of which are drawn again: the same array, or the same view of one.
        self.known: dict[tuple[int, ...], list[Any]] = {}

    def values(self, shape: tuple[int, ...]) -> Any:
        return self.g.uniform(1, 2, shape)

    def region(self, shape: tuple[int, ...]) -> Region:
        corners = [sorted(self.r.sample(range(n + 1), 2)) for n in shape]
        return Region(tuple(a for a, _ in corners), tuple(b for _, b in corners))

    def condition(self, shape: tuple[int, ...]) -> Any:
        """Of all entries, or the same along some axes; one that was drawn before, or a new view of it."""
        known = self.known.setdefault(shape, [])
        if known and self.r.random() < 0.5:
            found = self.r.choice(known)
            return found if self.r.random() < 0.5 else found.view()
        own = tuple(1 if self.r.random() < 0.3 else n for n in shape)
        known.append(np.broadcast_to(self.g.random(own) < 0.6, shape))
        return known[-1]

    def bracket(self, shape: tuple[int, ...] = SHAPE, dtype: str = "float64") -> Bracket:
        negated = self.r.random() < 0.4
        if self.r.random() < 0.3 and 0 not in shape:
            region = self.region(shape)
            inner = self.condition(region.shape)
            return Bracket(
                Box(shape, region, self._planted(inner ^ negated)), Box(shape, region, inner), negated
            )
        condition = self.condition(shape)
        return Bracket(self._planted(condition ^ negated).astype(dtype), condition, negated)

    def _planted(self, chosen: Any) -> Any:
        """Values with inf and nan wherever they are not selected."""
        return np.where(chosen, self.values(chosen.shape), self.r.choice([np.inf, np.nan]))

    def operand(self, shape: tuple[int, ...] = SHAPE) -> Any:
        kind = self.r.randrange(8)
        if kind < 4:
            return self.bracket(shape)
        if kind == 4:
            region = self.region(shape)
            return Box(shape, region, self.values(region.shape))
        return Zero(shape, np.dtype("float64")) if kind == 5 else self.values(shape)

    def some(self, count: int, shape: tuple[int, ...] = SHAPE) -> list[Any]:
        """Operands of which at least one is a bracket."""
        found = [self.operand(shape) for _ in range(count)]
        found[self.r.randrange(count)] = self.bracket(shape)
        return found

    def at(self, low: int, high: int, shape: tuple[int, ...]) -> Any:
        return self.g.integers(low, high, shape)

    def call(self, name: str) -> tuple[list[Any], dict[str, Any]]:
        """Operands and parameters of an op."""
        r, x = self.r, self.bracket()
        if name in ("add", "multiply", "maximum", "subtract"):
            wide = r.choice([SHAPE, (2, *SHAPE), (4,)])
            pair = [self.operand(wide) if wide != SHAPE else self.operand(), x]
            return pair if r.random() < 0.5 else pair[::-1], {}
        if name == "divide":
            return [x, self.values(SHAPE)], {}
        if name == "add_n":
            return self.some(r.randrange(2, 5)), {}
        if name == "sum":
            return [x], {"axis": r.choice([(0,), (1,), (0, 1)]), "keepdims": r.random() < 0.5}
        if name == "matmul":
            a, b = self.operand((3, 4)), self.operand((4, 2))
            sides = [self.bracket((3, 4)), b] if r.random() < 0.5 else [a, self.bracket((4, 2))]
            return sides, {}
        if name == "permute_dims":
            return [x], {"axes": r.choice([(1, 0), (0, 1)])}
        if name == "broadcast_to":
            return [x], {"shape": (2, *SHAPE)}
        if name == "reshape":
            return [x], {"shape": r.choice([(12,), (2, 6), (4, 3), (3, 2, 2)])}
        if name == "flip":
            return [x], {"axis": r.choice([(0,), (1,), (0, 1)])}
        if name in ("concat", "stack"):
            operands = self.some(3)
            if r.random() < 0.3:
                entries = iv.asarray(self.values(SHAPE) * self.condition(SHAPE))
                operands[1] = iv.to_layout(entries, "csr")._value
            return operands, {"axis": 1, "offsets": (0, 4, 8)} if name == "concat" else {
                "axis": r.randrange(3)
            }
        if name == "index_basic":
            return [x], {"key": (slice(1, 3, 1), r.choice([2, slice(0, 4, 2)]))}
        if name == "gather":
            rows = self.at(0, 3, (5,))
            if r.random() < 0.3:  # indices may be selected too; what is not would lie outside
                chosen = self.condition((5,))
                rows = Bracket(np.where(chosen, rows, 9), chosen)
            return [x, rows, self.at(0, 4, (5,))], {"axes": (0, 1)}
        if name == "scatter_add":
            where = [self.at(0, 2, (3, 4)), self.at(0, 3, (3, 4))]
            return [x, *where], {"axes": (0, 1), "shape": (2, 3)}
        if name == "bracket":
            condition = self.condition(r.choice([SHAPE, (4,), (1, 4)]))
            mask = self.condition(SHAPE)
            sparse = iv.to_layout(iv.asarray(self.values(SHAPE) * mask), "csr")._value
            kept = r.choice([x, self.operand(), sparse, Packed(mask, self.values((int(mask.sum()),)))])
            if r.random() < 0.3:  # of a condition that is in a layout itself, or of fewer entries
                region = self.region(SHAPE)
                held = Box(SHAPE, region, self.condition(region.shape))
                condition, kept = r.choice([(held, x), (held, 2.0), (mask, self.bracket((4,)))])
            return [condition, kept], {"negated": r.random() < 0.5}
        return [x], {}


def _plain(x: Any) -> Any:
    if type(x) is Bracket:
        return to_strided(select(x))
    return np.asarray(x) if isinstance(x, np.ndarray | np.generic) else to_strided(x)


#: Ops that may give 0 of positive operands, or hold what they compute of all entries.
LOOSE = {"exp", "maximum", "subtract", "cumulative_sum"}
NAMES = (
    "negative square sqrt exp abs add multiply maximum subtract divide add_n sum matmul permute_dims "
    "broadcast_to reshape flip concat stack index_basic gather scatter_add bracket"
)


@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")  # sparse beside strided
@pytest.mark.parametrize("name", NAMES.split())
def test_ops_on_selections(name: str) -> None:
    op = TABLE[name]
    kept = 0
    for seed in range(40):
        drawn = _Drawn(seed)
        values, params = drawn.call(name)
        if all(isinstance(v, np.ndarray) for v in values):
            continue
        before = [_plain(v).copy() if hasattr(v, "shape") else v for v in values]
        with np.errstate(all="ignore"):
            found = run(op, tuple(values), params)
            wanted = op.forward(*before, **params)
        wanted = _plain(wanted)
        layout_of(found).check(found)
        np.testing.assert_allclose(_plain(found), wanted, rtol=1e-14, err_msg=str(seed))
        for value, old in zip(values, before, strict=True):
            np.testing.assert_array_equal(_plain(value) if hasattr(value, "shape") else value, old)
        if name in LOOSE:
            continue
        kept += type(found) is Bracket
        there = _there(found)
        fits = name != "bracket" or (isinstance(values[0], np.ndarray) and values[1].shape == SHAPE)
        if name == "matmul" or not fits:  # whole rows and columns only; selected first
            assert there[wanted != 0].all()
        else:
            np.testing.assert_array_equal(there, wanted != 0, err_msg=str(seed))
        if name == "bracket" and fits and not isinstance(values[1], Bracket | np.ndarray | Zero):
            layout = type(values[1])
            assert type(found) in ((Bracket, Zero) if layout is Box else (layout,)), seed
    assert kept > 3 or name in LOOSE


def _there(found: Any) -> Any:
    """Which entries a value holds."""
    if type(found) is Bracket:
        return to_strided(held(found))
    if isinstance(found, np.ndarray):
        return found != 0
    return _plain(found) != 0


def test_sides_of_one_selection_are_joined_by_one_select() -> None:
    r = np.random.default_rng(0)
    a, b = r.uniform(1, 2, (2, *SHAPE))
    base = r.random(SHAPE) < 0.5
    views = {
        "itself": (base, base, True),
        "a view": (base[:], base[:], True),
        "the same rows": (np.broadcast_to(base[0], SHAPE), np.broadcast_to(base[0], SHAPE), True),
        "another array": (base, base.copy(), False),
        "another view": (base.repeat(2, 0)[::2], base.repeat(2, 0)[::2], False),
    }
    stack = np.concatenate([base, base])
    views |= {
        "other rows": (stack[:3], stack[3:], False),
        "other strides": (stack[::2], stack[:3], False),
    }
    for name, (p, q, one) in views.items():
        both = run(TABLE["add"], (Bracket(a, p), Bracket(b, q, True)), {})
        assert (type(both) is np.ndarray) is one, name
        np.testing.assert_array_equal(_plain(both), np.where(p, a, 0) + np.where(q, 0, b))
        same = run(TABLE["add"], (Bracket(a, p, True), Bracket(b, q, True)), {})
        assert (same.condition is p) is one, name
        assert same.negated is one
    row = run(TABLE["add"], (Bracket(a[:1], base[:1]), Bracket(b, base, True)), {})
    np.testing.assert_array_equal(_plain(row), np.where(base[:1], a[:1], 0) + np.where(base, 0, b))
    region = Region((1, 0), (3, 4))
    part = Box(SHAPE, region, base[1:])
    sides = (Bracket(Box(SHAPE, region, x[1:]), part, negated) for x, negated in ((a, False), (b, True)))
    boxed = run(TABLE["add"], tuple(sides), {})
    np.testing.assert_array_equal(_plain(boxed)[1:], np.where(base, a, b)[1:])
    assert type(boxed) is Box
    assert boxed.region == region
    mixed = run(TABLE["add"], (Bracket(a, base), Bracket(b.astype("float32"), base, True)), {})
    assert mixed.dtype == np.float64


def test_supports_of_selections() -> None:
    condition = np.array([True, False, True])
    strided = Bracket(np.ones(3), condition)
    assert support_of(strided) == entries.Bracket(condition, False)
    region = Region((1,), (3,))
    boxed = Bracket(Box((3,), region, np.ones(2)), Box((3,), region, condition[:2]))
    assert support_of(boxed) == entries.Box(region)
    for value in (strided, boxed):
        layout = layout_of(value)
        again = layout.rebuild(value, tuple(2 * b if b.dtype != bool else b for b in layout.buffers(value)))
        np.testing.assert_array_equal(_plain(again), 2 * _plain(value))
        where, values = layout.stored(value)
        np.testing.assert_array_equal(_plain(value)[where], keep_where(np.ones(values.shape, bool), values))


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("lines", [(False, True), (True, False), (True, True), (False, False)])
def test_rows_and_columns_left_out_of_a_product_stay_left_out(
    lines: tuple[bool, bool], negated: bool
) -> None:
    drawn = _Drawn(1)
    there = (np.array([True, False, True])[:, None], np.array([False, True, True]))
    factors, held_there = [], np.ones((3, 3), bool)
    for own, shape, by_line in zip(there, ((3, 4), (4, 3)), lines, strict=True):
        factors.append(drawn.values(shape))
        if by_line:
            planted = drawn._planted(np.broadcast_to(own, shape))
            factors[-1] = Bracket(planted, np.broadcast_to(own ^ negated, shape), negated)
            held_there = held_there & own
    found = run(TABLE["matmul"], tuple(factors), {})
    np.testing.assert_allclose(_plain(found), _plain(factors[0]) @ _plain(factors[1]), rtol=1e-14)
    np.testing.assert_array_equal(_there(found), held_there)
    assert (type(found) is Bracket) is any(lines)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_what_is_left_out_as_a_whole_is_not_multiplied(n: int) -> None:
    """Slices of the contracted axis that one factor leaves out may be anything in the other."""
    drawn, kept = _Drawn(2), np.arange(n) % 2 == 1
    shapes = (2, n), (n, 3)
    a, b = (drawn.values(shape) for shape in shapes)
    a[:, ~kept], b[~kept] = np.inf, np.nan
    wanted = a[:, kept] @ b[kept]
    held_a = Bracket(a, np.broadcast_to(kept, (2, n)))
    held_b = Bracket(b, np.broadcast_to(kept[:, None], (n, 3)))
    for factors in ((held_a, held_b), (held_a, b), (a, held_b)):
        with np.errstate(all="ignore"):
            found = run(TABLE["matmul"], factors, {})
        np.testing.assert_allclose(_plain(found), wanted, rtol=1e-14)
        np.testing.assert_array_equal(to_strided(held(found)), np.full((2, 3), kept.any()))
    rows = Bracket(np.ones((2, n)), np.broadcast_to(np.array([[True], [False]]), (2, n)))
    found = run(TABLE["matmul"], (rows, np.ones((n, 3))), {})
    np.testing.assert_array_equal(_plain(found), [[n] * 3, [0] * 3])
    np.testing.assert_array_equal(to_strided(held(found)), [[n > 0] * 3, [False] * 3])


@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_inf_across_from_what_is_not_stored_is_not_multiplied(layout: str) -> None:
    """As SciPy has it; what is left out is nan here."""
    stored, chosen = np.array([[1.0, 0, 2], [0, 3, 0]]), np.array([[1, 1], [1, 0], [0, 1]], bool)
    values = np.where(chosen, [[np.inf, 2], [np.inf, 0], [0, 5]], np.nan)
    wanted = sp.csr_array(stored) @ np.where(chosen, values, 0)
    s = from_strided(stored, layout)
    found = run(TABLE["matmul"], (s, Bracket(values, chosen)), {})
    np.testing.assert_array_equal(_plain(found), wanted)
    turned = run(TABLE["permute_dims"], (s,), {"axes": (1, 0)})
    found = run(TABLE["matmul"], (Bracket(values.T, chosen.T), turned), {})
    np.testing.assert_array_equal(_plain(found), wanted.T)


@pytest.mark.parametrize("sides", [(True, False), (False, True), (True, True)])
def test_entries_of_a_product_are_held_where_anything_of_their_lines_is(sides: tuple[bool, bool]) -> None:
    drawn, at = _Drawn(3), np.array([[0, 0, 1, 2, 2], [0, 3, 1, 2, 3]])
    there = [drawn.g.random(shape) < 0.4 for shape in ((3, 2), (2, 4))]
    factors = [
        Bracket(drawn._planted(c), c) if select_it else drawn.values(c.shape)
        for c, select_it in zip(there, sides, strict=True)
    ]
    found = run(TABLE["sampled_product"], tuple(factors), {"pattern": CooPattern((3, 4), at, True)})
    a, b = map(_plain, factors)
    np.testing.assert_allclose(_plain(found), (a @ b)[*at], rtol=1e-14)
    lines = there[0].any(1)[at[0]] | (not sides[0]), there[1].any(0)[at[1]] | (not sides[1])
    np.testing.assert_array_equal(to_strided(held(found)), lines[0] & lines[1])


STORED = {
    "coo": lambda x: from_strided(x, "coo"),
    "csr": lambda x: from_strided(x, "csr"),
    "csc": lambda x: from_strided(x, "csc"),
    "bsr": lambda x: from_strided(x, "bsr", (2, 2)),
    "coo twice": lambda x: CooPattern(
        x.shape, np.concatenate([np.stack(np.nonzero(x))] * 2, axis=1), False
    ).value(np.concatenate([x[x != 0]] * 2) / 2),
    "coo with dense axes": lambda x: from_strided(x, "coo", sparse_axes=1),
    "packed": lambda x: Packed(x != 0, x[x != 0]),
}


@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("layout", STORED)
def test_a_selection_among_stored_entries(layout: str, negated: bool) -> None:
    """These alone are stored where the layout can say so; and a selection of that, and of all of it."""
    drawn = _Drawn(4)
    stored = drawn.values((4, 4)) * (drawn.g.random((4, 4)) < 0.6)
    x, kept = STORED[layout](stored), np.ones((4, 4), bool)
    sparse = from_strided(1.0 * (drawn.g.random((4, 4)) < 0.5), "csr")
    line = drawn.g.random(4) < 0.7
    for condition in (np.full((4, 4), not negated), drawn.g.random((4, 4)) < 0.7, sparse, line):
        chosen = np.broadcast_to((to_strided(condition) != 0) ^ negated, (4, 4))
        kept = kept & chosen
        x = run(TABLE["bracket"], (condition, x), {"negated": negated})
        np.testing.assert_allclose(_plain(x), np.where(kept, stored, 0), rtol=1e-15)
        if layout != "packed":
            np.testing.assert_array_equal(to_strided(held(ARRAYS.as_selection(x))), kept)
        if layout in ("coo", "csr", "csc", "packed"):
            assert type(x) is type(STORED[layout](stored))
        if layout in ("coo", "csr", "csc", "bsr"):
            assert isinstance(x, Sparse)
            blocks = stored.reshape(2, 2, 2, 2).any((1, 3)).repeat(2, 0).repeat(2, 1)
            there = blocks if layout == "bsr" else stored != 0
            assert kept.all() or x.pattern.count == np.count_nonzero(kept & there)
        made = run(TABLE["selected"], (x,), {})
        np.testing.assert_array_equal(_plain(made), _plain(x))
        assert getattr(made, "there", None) is None
    chosen = (to_strided(sparse) != 0) ^ negated
    for value in (STORED["csr"](stored[:1]), stored, Box((4, 4), Region((1, 1), (3, 4)), stored[1:3, 1:])):
        found = run(TABLE["bracket"], (sparse, value), {"negated": negated})
        np.testing.assert_array_equal(_plain(found), np.where(chosen, to_strided(value), 0))


def test_the_condition_of_a_sum_is_found_when_it_is_asked_for() -> None:
    x = Bracket(np.ones(SHAPE), np.eye(*SHAPE) > 0)
    found = run(TABLE["sum"], (x,), {"axis": (1,), "keepdims": False})
    np.testing.assert_array_equal(select(found), np.ones(3))
    assert callable(found._condition)
    np.testing.assert_array_equal(found.condition, [True] * 3)
    assert not callable(found._condition)


def test_entries_that_a_kernel_left_out_are_selected_too() -> None:
    """Of a selection under the condition of another one, which is made already."""
    p, q = np.array([True, False, True]), np.array([True, True, False])
    left_out = Bracket(np.array([1.0, np.nan, 3.0]), p)
    found = ARRAYS.under(left_out, [Bracket(np.ones(3), q)], True)
    np.testing.assert_array_equal(_plain(found), [1, 0, 0])
    np.testing.assert_array_equal(_there(found), p & q)


def test_conditions_that_repeat_stay_one_line() -> None:
    """What is the same along an axis is computed and kept once along it."""
    row = np.broadcast_to(np.array([True, False, True, True]), (1000, 4))
    column = np.broadcast_to((np.arange(1000) % 2 == 0)[:, None], (1000, 4))
    x = Bracket(np.ones((1000, 4)), row)
    for found, size in (
        (held(Bracket(x.values, row, True)), 4),
        (run(TABLE["multiply"], (x, Bracket(x.values, row, True)), {}).condition, 4),
        (run(TABLE["permute_dims"], (x,), {"axes": (1, 0)}).condition, 4),
        (run(TABLE["multiply"], (x, Bracket(x.values, column)), {}).condition, 4000),
        (held(Bracket(np.ones((1, 4)), row[:1], True)), 4),
    ):
        own = [n for n, step in zip(found.shape, found.strides, strict=True) if step]
        assert int(np.prod(own)) == size


@pytest.mark.parametrize(
    ("key", "layout"),
    [
        ((slice(0, 1, 1), slice(0, 4, 1)), Box),
        ((slice(0, 3, 1), slice(0, 4, 1)), Zero),
        ((slice(1, 3, 1), slice(1, 3, 1)), Zero),
        ((slice(1, 3, 1), slice(0, 2, 1)), Bracket),
        ((slice(0, 3, 2), slice(0, 4, 1)), Bracket),
        ((1, slice(0, 4, 1)), Bracket),
        ((2, 2), Bracket),
    ],
)
def test_what_is_left_of_a_box_after_a_write(key: Any, layout: type) -> None:
    x = Box(SHAPE, Region((1, 1), (3, 3)), np.arange(1.0, 5.0).reshape(2, 2))
    for value in (x, iv.to_layout(iv.asarray(to_strided(x)), "csr")._value):
        found = run(TABLE["overwritten"], (value,), {"key": key})
        assert found is not value
        wanted = to_strided(x).copy()
        wanted[key] = 0
        np.testing.assert_array_equal(_plain(found), wanted)
        if value is x:
            assert type(found) is layout
            np.testing.assert_array_equal(_there(found), wanted != 0)
        else:
            assert found.pattern.count >= np.count_nonzero(wanted)


def test_sums_of_what_holds_nothing_and_of_other_layouts() -> None:
    region = Region((1, 2), (1, 4))
    nothing = Bracket(Box(SHAPE, region, np.ones((0, 2))), Box(SHAPE, region, np.ones((0, 2), bool)))
    found = run(TABLE["sum"], (nothing,), {"axis": (0,), "keepdims": False})
    np.testing.assert_array_equal(_plain(found), np.zeros(4))
    whole = Region((0, 0), SHAPE)
    assert type(run(TABLE["bracket"], (nothing.condition.read(whole), nothing), {"negated": True})) is Zero
    at = Bracket(np.zeros(3, int), np.ones(3, bool))
    params = {"axes": (0,), "shape": (3, 4)}
    for x in (np.ones(SHAPE), Bracket(np.ones(SHAPE), np.ones(SHAPE, bool))):
        np.testing.assert_array_equal(_plain(run(TABLE["scatter_add"], (x, at), params))[0], np.full(4, 3.0))


def test_a_condition_waits_through_many_ops() -> None:
    x = Bracket(np.ones(3), lambda: np.array([True, False, True]), is_made=True)
    for _ in range(2000):
        x = run(TABLE["multiply"], (x, np.full(3, 1.0)), {})
    np.testing.assert_array_equal(held(x), [True, False, True])


def test_a_box_is_put_in_steps_within_its_region() -> None:
    """What a key steps over is left out, and nothing of the size of the whole is made for that."""
    box = Box((1000, 1000), Region((3, 3), (23, 23)), np.ones((20, 20)))
    key, shape = (slice(0, 1999, 2), slice(0, 1000, 1)), (2000, 1000)
    tracemalloc.start()
    found = run(TABLE["embed"], (box,), {"key": key, "shape": shape, "held": True})
    there = held(found)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e5
    assert found.values.region == Region((6, 3), (45, 23))
    np.testing.assert_array_equal(there.inner[::2], True)
    np.testing.assert_array_equal(there.inner[1::2], False)
