"""The algebra of supports and demands, against sets of index tuples held as boolean arrays."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iverson.core.entries import (
    FACTORED,
    FULL,
    NOTHING,
    Box,
    Bracket,
    Entries,
    Full,
    Nothing,
    Stored,
    covers,
    entry_by_entry,
    hull,
    in_products,
    join,
    meet,
    plain,
    size,
)
from iverson.core.region import Region
from iverson.layouts import from_strided, sparse_layouts, to_strided

Mask = np.ndarray[Any, Any]


def mask_of(entries: Entries, shape: tuple[int, ...]) -> Mask:
    """Where the entries of a set are."""
    out = np.zeros(shape, bool)
    if isinstance(entries, Full):
        out[...] = True
    elif isinstance(entries, Box):
        out[entries.region.slices] = True
    elif isinstance(entries, Stored):
        out[tuple(entries.pattern.coordinates)] = True
    elif isinstance(entries, Bracket):
        out[...] = entries.condition != entries.negated
    else:
        assert isinstance(entries, Nothing)
    return out


@st.composite
def regions(draw: Any, shape: tuple[int, ...]) -> Region:
    corners = [sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
    return Region(tuple(a for a, _ in corners), tuple(b for _, b in corners))


@st.composite
def entries_of(draw: Any, shape: tuple[int, ...]) -> Entries:
    kind = draw(st.sampled_from(["nothing", "full", "in products", "box", "stored", "bracket"]))
    if kind == "box":
        return Box(draw(regions(shape)))
    if kind == "stored":
        layout = draw(st.sampled_from([own.name for own in sparse_layouts()]))
        held = np.array(draw(st.lists(st.booleans(), min_size=12, max_size=12)), float)[: shape[0] * shape[1]]
        blocks = (shape[0] // 2, 1) if layout[0] == "b" else None
        pattern = from_strided(held.reshape(shape[:2]), layout, blocks).pattern
        if layout == "coo" and len(shape) == 3 and draw(st.booleans()):
            pattern = from_strided(np.stack([held.reshape(shape[:2]), np.ones(shape[:2])], 2), "coo").pattern
        return Stored(pattern, products=draw(st.booleans()))
    if kind == "bracket":
        held = np.array(draw(st.lists(st.booleans(), min_size=24, max_size=24)))[: prod(shape)]
        return Bracket(held.reshape(shape), draw(st.booleans()))
    return {"nothing": NOTHING, "full": FULL, "in products": FACTORED}[kind]


SHAPES = st.sampled_from([(4, 3), (2, 1), (4, 3, 2)])


@st.composite
def several(draw: Any, count: int) -> tuple[Any, ...]:
    shape = draw(SHAPES)
    return (shape, *(draw(entries_of(shape)) for _ in range(count)))


def is_exact(*sets: Entries) -> bool:
    """Whether no set is of blocks, of slices, or a bracket: then `meet` is exact."""
    return not any(
        isinstance(e, Bracket)
        or (isinstance(e, Stored) and (e.pattern.blocksize is not None or e.pattern.ndim != 2))
        for e in sets
    )


@given(several(2))
def test_meet_holds_what_both_hold_and_nothing_outside_either(case):
    shape, a, b = case
    met, exact = mask_of(meet(a, b), shape), mask_of(a, shape) & mask_of(b, shape)
    assert (met >= exact).all()
    assert (met <= mask_of(a, shape) | mask_of(b, shape)).all()
    if is_exact(a, b) and len(shape) == 2:
        assert (met == exact).all()
        assert (mask_of(meet(b, a), shape) == exact).all()


@given(several(2))
def test_meet_is_read_as_its_first_set(case):
    _, a, b = case
    met = meet(a, b)
    if isinstance(met, Stored | Full):
        assert met.products == getattr(a, "products", False)


@given(several(3))
def test_meet_is_associative_up_to_supersets(case):
    shape, a, b, c = case
    exact = mask_of(a, shape) & mask_of(b, shape) & mask_of(c, shape)
    for met in (meet(meet(a, b), c), meet(a, meet(b, c))):
        assert (mask_of(met, shape) >= exact).all()
        if is_exact(a, b, c) and len(shape) == 2:
            assert (mask_of(met, shape) == exact).all()


@given(several(3))
def test_join_holds_all_and_is_the_same_in_any_order(case):
    shape, *sets = case
    masks = [mask_of(e, shape) for e in sets]
    joined = mask_of(join(sets), shape)
    assert (joined >= np.logical_or.reduce(masks)).all()
    for order in itertools.permutations(sets):
        assert (mask_of(join(order), shape) >= np.logical_or.reduce(masks)).all()
    for e, mask in zip(sets, masks, strict=True):
        assert (mask_of(join([e, e]), shape) == mask).all()
        assert (mask_of(join([NOTHING, e, NOTHING]), shape) == mask).all()
        assert join([e, FULL]) is FULL or e is NOTHING


@given(several(2))
def test_covers_is_never_wrong(case):
    shape, a, b = case
    if covers(a, b, shape):
        assert (mask_of(a, shape) >= mask_of(b, shape)).all()
    assert covers(a, a, shape)
    assert covers(a, NOTHING, shape)
    assert covers(FULL, a, shape)
    joined = join([a, b])
    assert covers(joined, a, shape) or isinstance(a, Stored | Full | Bracket)


@given(several(1))
def test_size_hull_and_plain_names(case):
    shape, a = case
    mask = mask_of(a, shape)
    assert size(a, shape) == mask.sum()
    inside = np.zeros(shape, bool)
    inside[hull(a, shape).slices] = True
    assert (inside >= mask).all()
    named = plain(a, shape)
    assert (mask_of(named, shape) == mask).all()
    if isinstance(a, Box):
        assert (named is NOTHING) == (not mask.any())
        assert (named is FULL) == bool(mask.all() and mask.any())


@given(several(1))
def test_entries_read_one_by_one_are_the_same_entries(case):
    shape, a = case
    single = entry_by_entry(a)
    assert not in_products(single)
    assert in_products(a) == (single is not a)
    assert (mask_of(single, shape) == mask_of(a, shape)).all()


HELD = np.array([[1.0, 0, 2], [0, 0, 3], [4, 5, 0], [0, 0, 0]])
P, Q = (Stored(from_strided(x, "csr").pattern) for x in (HELD, np.flip(HELD)))
TOP, LOW = Box(Region((0, 0), (2, 3))), Box(Region((2, 0), (4, 3)))

C = Bracket(HELD > 1)

#: The meet of two sets, for every pair of kinds: its kind and how many entries it has.
MEETS = [
    (NOTHING, NOTHING, Nothing, 0),
    (NOTHING, FULL, Nothing, 0),
    (NOTHING, TOP, Nothing, 0),
    (NOTHING, P, Nothing, 0),
    (FULL, NOTHING, Nothing, 0),
    (FULL, FULL, Full, 12),
    (FULL, TOP, Box, 6),
    (FULL, P, Stored, 5),
    (TOP, NOTHING, Nothing, 0),
    (TOP, FULL, Box, 6),
    (TOP, LOW, Nothing, 0),
    (TOP, Box(Region((1, 1), (4, 3))), Box, 2),
    (TOP, P, Stored, 3),
    (P, NOTHING, Nothing, 0),
    (P, FULL, Stored, 5),
    (P, LOW, Stored, 2),
    (P, Box(Region((3, 0), (4, 3))), Nothing, 0),
    (P, P, Stored, 5),
    (P, Q, Stored, 2),
    (NOTHING, C, Nothing, 0),
    (FULL, C, Bracket, 4),
    (TOP, C, Box, 6),
    (P, C, Stored, 5),
    (C, NOTHING, Nothing, 0),
    (C, FULL, Bracket, 4),
    (C, TOP, Box, 6),
    (C, P, Stored, 5),
    (C, Bracket(C.condition, True), Bracket, 4),
]


@pytest.mark.parametrize(("a", "b", "kind", "count"), MEETS)
def test_every_pair_of_kinds(a, b, kind, count):
    met = meet(a, b)
    assert type(met) is kind
    assert size(met, HELD.shape) == count


def test_the_table_has_every_pair_of_kinds():
    kinds = {Nothing, Full, Box, Stored, Bracket}
    assert {(type(a), type(b)) for a, b, _, _ in MEETS} == set(itertools.product(kinds, kinds))


SETS = [NOTHING, FULL, TOP, LOW, P, Stored(P.pattern, True), Q, C, Bracket(C.condition, True)]
SETS += [Bracket(C.condition.copy()), Box(Region((0, 0), (1, 1))), Box(Region((0, 0), (4, 3)))]


def test_what_only_products_read_stays_so():
    product = Stored(P.pattern, True)
    sets = [*SETS, FACTORED]
    assert [in_products(e) for e in sets] == [e in (product, FACTORED) for e in sets]
    assert in_products(join([product, product]))
    assert in_products(meet(product, TOP))
    assert not in_products(join([P, product]))
    assert not in_products(meet(TOP, product))


def test_empty_boxes():
    assert hull(NOTHING, (2, 3)) == Region((0, 0), (0, 0))
    for empty in (Region((1, 2), (1, 3)), Region((4, 3), (4, 3))):
        assert covers(TOP, Box(empty), HELD.shape)
        assert plain(Box(empty), HELD.shape) is NOTHING


def test_covering_and_joining_every_pair():
    for (i, a), (j, b) in itertools.product(enumerate(SETS), repeat=2):
        one, other = mask_of(a, HELD.shape), mask_of(b, HELD.shape)
        assert (mask_of(join([a, b]), HELD.shape) >= one | other).all()
        if isinstance(a, Stored | Bracket) and b is not NOTHING:
            same = isinstance(b, Stored) and isinstance(a, Stored) and a.pattern is b.pattern
            assert covers(a, b, HELD.shape) == (same or i == j)
        elif isinstance(b, Stored | Bracket):  # of what is not a box, every entry is taken to be there
            assert covers(a, b, HELD.shape) == one.all()
        else:
            assert covers(a, b, HELD.shape) == (one >= other).all()


def test_patterns_over_different_axes_do_not_meet():
    over_all = Stored(from_strided(np.ones((4, 3, 2)), "coo").pattern)
    assert meet(P, over_all) is P
    assert meet(over_all, P) is over_all


@pytest.mark.parametrize("layout", [own.name for own in sparse_layouts()])
def test_a_part_of_a_pattern_knows_its_places(layout):
    held = np.array([[1.0, 0, 2, 0], [0, 0, 3, 4], [4, 5, 0, 0], [0, 0, 0, 6]])
    pattern = from_strided(held, layout, (1, 2) if layout[0] == "b" else None).pattern
    part = pattern.within(Region((1, 1), (3, 4)))
    part.check()
    assert part.layout == layout
    at = part.places_in(pattern)
    values = np.arange(pattern.count, dtype=float).reshape(pattern.stored_shape)
    whole, some = (p.value(v.reshape(p.count)) for p, v in ((pattern, values), (part, values[at])))
    inside = to_strided(some) != 0
    assert inside[1:3, 1:].sum() == (held[1:3, 1:] != 0).sum()
    np.testing.assert_array_equal(to_strided(some)[inside], to_strided(whole)[inside])
    assert pattern.within(Region((0, 0), (4, 4))) is pattern


def test_a_box_of_nothing_lies_within_any_other():
    for start in range(6):
        assert covers(Box(Region((2,), (4,))), Box(Region((start,), (start,))), (5,))
