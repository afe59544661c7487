"""Relations of ops: facts against their definition, and every linear op of the table against its columns."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iverson.core import relations
from iverson.core.aval import Aval
from iverson.core.entries import FULL, NOTHING, Box, Stored
from iverson.core.entry_map import Call
from iverson.core.region import Region
from iverson.core.relations import (
    Every,
    Factor,
    Indexed,
    Matched,
    Pairs,
    Prefix,
    Relation,
    Rows,
    Same,
    Window,
    listed,
    no_entries,
    numbers_of,
    same,
)
from iverson.layouts import from_strided
from iverson.layouts.pattern_symbols import PatternSymbol
from iverson.ops import TABLE
from tests.conformance.product import dtypes_of, floating, samples_of
from tests.conformance.test_entry_maps import known, results

#: Linear ops whose relation holds more than their columns show, and why.
LOOSER = {
    "fftn": "an entry along its axes may be weighted with 0",
    "ifftn": "an entry along its axes may be weighted with 0",
    "rfft": "an entry along its axes may be weighted with 0",
    "irfft": "an entry along its axes may be weighted with 0",
    "solve_triangular": "which triangle is read is not said",
    "where": "conditions are values",
    "bracket": "conditions are values",
    "selected": "conditions are values",
    "imag": "of a real number it is 0",
    "kron_sampled": "any entry may depend on any other",
}
LINEAR = [name for name, op in TABLE.items() if op.linear_in and op.samples]


def columns(op: Any, args: list[Any], params: Any, k: int) -> list[Any]:
    """For each result, which entries are not 0 where input k is a unit vector: a column for each."""
    (group,) = [g for g in op.groups(len(args)) if k in g]
    found = []
    for place in np.ndindex(args[k].shape):
        own = [np.zeros_like(x) if j in group else x for j, x in enumerate(args)]
        own[k][place] = 1
        found.append([y.ravel() != 0 for y in results(op, own, params)])
    return [np.array(each).T for each in zip(*found, strict=True)]


@pytest.mark.parametrize(("name", "dtype"), [(name, d) for name in LINEAR for d in dtypes_of(TABLE[name])])
def test_a_linear_op_relates_entries_as_its_columns_do(name: str, dtype: str) -> None:
    op = TABLE[name]
    for sample in samples_of(op, dtype):
        args = [np.asarray(a) if not hasattr(a, "shape") else a for a in sample.args]
        linear = {j for g in op.groups(len(args)) for j in g}
        for k in floating(sample):
            if k not in linear or not args[k].size:
                continue
            for j, expected in enumerate(columns(op, args, sample.params, k)):
                y = results(op, args, sample.params)[j]
                relation = op.relation(Call(op, known(args), Aval(y.shape, y.dtype), sample.params, j), k)
                found = relation.matrix().toarray()
                assert not (expected & ~found).any()
                if name not in LOOSER:
                    np.testing.assert_array_equal(found, expected)


FACTORS = [
    ("multiply", ((4, 5), (4, 5))),
    ("multiply", ((4, 5), (5,))),
    ("matmul", ((4, 5), (5, 3))),
    ("matmul", ((3, 4), (4, 5))),
    ("matmul", ((2, 4, 5), (2, 5, 3))),
    ("matmul", ((2, 4, 5), (5, 3))),
    ("matmul", ((4, 5), (2, 5, 3))),
    ("kron", ((4, 5), (2, 3))),
]


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "box"])
@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize(("name", "shapes"), FACTORS)
def test_zeros_of_a_factor_are_zeros_of_the_relation(name: str, shapes: Any, k: int, layout: str) -> None:
    rng = np.random.default_rng(0)
    op = TABLE[name]
    for density in (0.0, 0.3):
        args = [rng.normal(size=s) for s in shapes]
        factor = args[1 - k] * (rng.uniform(size=shapes[1 - k]) < density)
        if layout == "box":
            factor = np.zeros(shapes[1 - k])
            factor[..., 1:3] = rng.normal(size=factor[..., 1:3].shape)
            held = Aval(
                factor.shape,
                factor.dtype,
                Box(Region((0,) * (factor.ndim - 1) + (1,), (*factor.shape[:-1], 3))),
            )
        elif factor.ndim == 1 and layout != "coo":
            continue
        else:
            value = from_strided(factor, layout)
            held = Aval(factor.shape, factor.dtype, Stored(value.pattern))
        args[1 - k] = factor
        (expected,) = columns(op, args, {}, k)
        inputs = [held if j != k else Aval(x.shape, x.dtype) for j, x in enumerate(args)]
        out = op.abstract(*inputs)
        found = op.relation(Call(op, inputs, out, {}), k).matrix().toarray()
        assert not (expected & ~found).any()
        broadcast = name == "matmul" and shapes[0][:-2] != shapes[1][:-2]
        if not broadcast and not (layout == "box" and name != "multiply"):
            np.testing.assert_array_equal(found, expected)


extents = st.sampled_from([3, 2, 4] * 5 + [1, 0])


@st.composite
def facts(draw: Any) -> tuple[Any, int, int, Any]:
    """A fact about one axis, the extents of the axis, and what it says, entry by entry."""
    m, n = draw(extents), draw(extents)
    kind = draw(st.sampled_from(["same", "every", "matched", "indexed", "window", "prefix", "pairs"]))
    rows, cols = np.arange(m)[:, None], np.arange(n)
    if kind == "same":
        return Same(), m, m, rows == np.arange(m)
    if kind == "every":
        return Every(), m, n, np.ones((m, n), bool)
    if kind == "matched":
        left, right = (
            np.array(draw(st.lists(st.integers(-1, 2), min_size=k, max_size=k)), int) for k in (m, n)
        )
        return Matched(left, right, 3), m, n, (left[:, None] == right) & (left[:, None] >= 0)
    if kind == "indexed":
        index = np.array(draw(st.lists(st.integers(-1, n - 1), min_size=m, max_size=m)), int)
        return Indexed(index), m, n, index[:, None] == cols
    if kind == "window":
        low, stride = draw(st.integers(-3, 3)), draw(st.integers(1, 2))
        high = low + draw(st.integers(0, 3))
        return Window(low, high, stride), m, n, (cols >= rows * stride + low) & (cols <= rows * stride + high)
    if kind == "prefix":
        reverse = draw(st.booleans())
        own = np.arange(m)
        return Prefix(reverse), m, m, (own >= rows) if reverse else (own <= rows)
    return pairs(np.array(draw(st.lists(st.booleans(), min_size=m * n, max_size=m * n)), bool).reshape(m, n))


def pairs(there: Any) -> tuple[Any, int, int, Any]:
    """The fact that a matrix of booleans says."""
    return Pairs(*np.nonzero(there)), *there.shape, there


def product(rng: Any, made: Any, turned: list[int]) -> tuple[Relation, Any]:
    """The relation of facts in any order, each about an axis of the result and one of the input, and its
    entries."""
    out = tuple(m for _, m, _, _ in made)
    into = tuple(made[turned.index(k)][2] for k in range(len(made)))
    factors = [Factor(fact, (k,), (turned[k],)) for k, (fact, *_) in enumerate(made)]
    expected = np.ones((*out, *into), bool)
    for k, (_, m, n, there) in enumerate(made):
        shape = [1] * (2 * len(made))
        shape[k], shape[len(made) + turned[k]] = m, n
        expected &= there.reshape(shape)
    return Relation.of(out, into, *rng.permutation(factors)), expected.reshape(
        int(np.prod(out)), int(np.prod(into))
    )


def of_booleans(rows: Any) -> Any:
    """A matrix of booleans as one that stores what is true."""
    return listed(np.append(0, np.cumsum(rows.sum(1))), np.nonzero(rows)[1], rows.shape[1])


@settings(max_examples=100)
@given(
    st.lists(facts(), max_size=3),
    st.randoms(use_true_random=False),
    st.sampled_from([1, 2, 3, 0]),
    st.integers(0, 2),
    st.integers(1, 30),
)
def test_a_relation_is_the_union_of_products_of_facts(
    made: Any, random: Any, terms: int, times: int, most: int
) -> None:
    """Facts about axes in any order: entries are tied where all facts of a term say so.

    For some entries of the result, one after the other, and for a few of the input. Under a limit, more are
    tied, or nothing is said.
    """
    rng = np.random.default_rng(random.getrandbits(32))
    turned = random.sample(range(len(made)), len(made))  # the input's axis for each of the result
    relation, flat = product(rng, made, turned)
    for _ in range(1, terms):
        other, there = product(rng, [pairs(rng.uniform(size=f[1:3]) < 0.5) for f in made], turned)
        relation, flat = replace(relation, terms=relation.terms + other.terms), flat | there
    if not terms:
        relation, flat = replace(relation, terms=()), np.zeros_like(flat)
    for _ in range(times):
        numbers = np.flatnonzero(rng.uniform(size=flat.shape[0]) < 0.7)
        relation, flat = relation.inside(numbers), flat & np.isin(np.arange(flat.shape[0]), numbers)[:, None]
    np.testing.assert_array_equal(relation.matrix().toarray(), flat)
    rows = rng.uniform(size=(flat.shape[1], rng.integers(1, 6))) < 0.3
    numbers = np.flatnonzero(rows.any(1))
    some = Rows(of_booleans(rows)[numbers], flat.shape[1], numbers)
    union = flat.astype(int) @ rows > 0
    image = np.flatnonzero(flat[:, numbers].any(1))
    np.testing.assert_array_equal(relation.image(numbers), image)
    for operand in (Rows.of_all(of_booleans(rows)), some):
        found = relation.after(operand)
        assert found is not None
        np.testing.assert_array_equal(found.whole.toarray(), union)
        for other in (operand, some):  # unions of rows, of all entries or of some
            if flat.shape[0] == flat.shape[1]:
                np.testing.assert_array_equal(found.union(other).whole.toarray(), union | rows)
    if terms == 1 and not times and made and all(type(fact) is Same for fact, *_ in made):
        np.testing.assert_array_equal(relation.after(some).numbers, image)  # others have no rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relations, "MOST", most)
        found = relation.after(some)
        assert found is None or not (union & ~found.whole.toarray()).any()
        reached = relation.image(numbers)
        assert reached is None or np.isin(image, reached).all()


@given(
    st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=3),
    st.integers(0, 3),
    st.lists(st.integers(1, 2), max_size=2),
    st.lists(st.integers(1, 3), max_size=2),
)
def test_leading_axes_are_aligned_as_numpy_broadcasts_them(
    lead: Any, first: int, left: Any, right: Any
) -> None:
    """Axes behind them are free."""
    out = tuple(n for n, _ in lead)
    into = tuple(n if stays else 1 for n, stays in lead)[first:]
    number = np.broadcast_to(np.arange(np.prod(into, dtype=int)).reshape(into), out).ravel()
    expected = np.kron(number[:, None] == np.arange(np.prod(into)), np.ones(list(map(prod, (left, right)))))
    relation = Relation.aligned((*out, *left), (*into, *right), core=(len(left), len(right)))
    np.testing.assert_array_equal(relation.matrix().toarray(), expected)


def test_rows_of_equal_entries_are_not_copied() -> None:
    rows, numbers, two = Rows.of_all(of_booleans(np.eye(6, 4) > 0)), np.array([1, 3, 5]), np.array([1, 2])
    assert rows.size == 6
    for relation in (Relation.same((2, 3), (6,)), Relation.aligned((2, 3), (2, 3))):
        assert relation.after(rows) is rows
        assert relation.image(numbers) is numbers
        inside = relation.inside(two)
        np.testing.assert_array_equal(inside.image(numbers), [1])
        np.testing.assert_array_equal(inside.matrix().toarray(), np.diag(np.isin(np.arange(6), two)))
    assert Relation.aligned((2, 3), (2, 3), core=(1, 1)).after(rows).matrix.nnz == 3 * 3 + 3 * 1


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (2, 0)])
def test_rows_of_a_few_entries_give_rows_to_those_that_they_reach(axes: tuple[int, ...]) -> None:
    """Axes that are permuted and reduced: nothing is listed for other entries of the result."""
    shape = (3, 4, 5)
    numbers = np.array([7, 8, 31])
    relation = Relation.of(tuple(shape[k] for k in axes), shape, *(same(i, k) for i, k in enumerate(axes)))
    found = relation.after(Rows(of_booleans(np.ones((3, 1), bool)), 60, numbers))
    at = np.unravel_index(numbers, shape)
    reached = np.ravel_multi_index([at[k] for k in axes], relation.out)
    np.testing.assert_array_equal(found.numbers, np.unique(reached))


@pytest.mark.parametrize("count", range(5))
def test_the_first_rows_are_taken(count: int) -> None:
    rows = np.tri(4, count, dtype=bool)
    found = Relation.indexed(np.arange(count), (4,)).after(Rows.of_all(of_booleans(rows)))
    np.testing.assert_array_equal(found.whole.toarray(), rows[:count])


SIX = Pairs(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 2, 0]))
LIMITS = [
    ("window", (4,), (4,), [Window(-1, 1)], 12),
    ("prefix", (4,), (4,), [Prefix()], 10),
    ("suffix", (4,), (4,), [Prefix(reverse=True)], 10),
    ("pairs", (3,), (3,), [SIX], 6),
    ("pairs of equal positions", (2, 3), (2, 3), [Same(), SIX], 12),
    ("pairs of pairs", (3, 3), (3, 3), [SIX, SIX], 36),
]


@pytest.mark.parametrize(
    ("out", "into", "said", "links"), [row[1:] for row in LIMITS], ids=[r[0] for r in LIMITS]
)
def test_links_beyond_a_limit_tie_everything(
    out: Any, into: Any, said: Any, links: int, monkeypatch: Any
) -> None:
    """Up to it, each is listed; then positions along these axes depend on all, and other axes stay tied."""
    relation = Relation.of(out, into, *(Factor(fact, (k,), (k,)) for k, fact in enumerate(said)))
    expected = relation.matrix().toarray()[:, :1]
    looser = [fact if type(fact) is Same else Every() for fact in said]
    all_tied = Relation.of(out, into, *(Factor(fact, (k,), (k,)) for k, fact in enumerate(looser)))
    first = of_booleans(np.eye(prod(into), 1) > 0)
    for most, column in ((links, expected), (links - 1, all_tied.matrix().toarray()[:, :1])):
        monkeypatch.setattr(relations, "MOST", most)
        np.testing.assert_array_equal(relation.after(Rows.of_all(first)).whole.toarray(), column)


def test_nothing_is_said_where_rows_would_list_too_many(monkeypatch: Any) -> None:
    relation = Relation.of((3,), (3,), Factor(SIX, (0,), (0,)))
    rows = of_booleans(np.ones((3, 2), bool))
    for most, none in ((12, False), (11, True)):
        monkeypatch.setattr(relations, "MOST", most)
        assert (relation.after(Rows.of_all(rows)) is None) is none
    everything = Relation.everything((3,), (3,))
    for most in (9, 3):
        monkeypatch.setattr(relations, "MOST", most)
        np.testing.assert_array_equal(everything.image(np.array([1])), np.arange(3))
    monkeypatch.setattr(relations, "MOST", 2)
    assert everything.image(np.array([1])) is None
    assert everything.inside(np.array([0, 2])).image(np.array([1])).tolist() == [0, 2]
    with pytest.raises(MemoryError, match="a relation of more than 2 pairs"):
        everything.matrix()


def test_a_relation_of_no_matrix_ties_nothing() -> None:
    nothing = Rows.empty(6, 4)
    assert nothing.numbers is not None
    assert nothing.numbers.size == nothing.matrix.shape[0] == 0
    for matrix in (Relation.listed((2, 3), (4,), None).matrix(), nothing.whole, no_entries(6, 4)):
        np.testing.assert_array_equal(matrix.toarray(), np.zeros((6, 4)))
    for matrix, count in ((None, 0), (of_booleans(np.eye(6, 4) > 0), 4)):
        assert Relation.listed((2, 3), (4,), matrix).matrix().nnz == count


@pytest.mark.parametrize("shape", [(3, 4), (4, 5, 2), (2, 0)])
def test_numbers_of_a_support(shape: tuple[int, ...]) -> None:
    """Row-major, with all entries of dense slices; not known of everything and of symbols."""
    mask = np.zeros(shape, bool)
    assert numbers_of(NOTHING, shape).size == 0
    assert numbers_of(FULL, shape) is None
    mask[1:, :3] = True
    box = Box(Region((1, 0, *(0 for _ in shape[2:])), (shape[0], min(3, shape[1]), *shape[2:])))
    np.testing.assert_array_equal(numbers_of(box, shape), np.flatnonzero(mask))
    matrix = from_strided(np.ones(shape[:2]) * (np.indices(shape[:2]).sum(0) % 2), "csr").pattern
    mask = np.ones(shape, bool) & (np.indices(shape)[:2].sum(0) % 2 == 1)
    np.testing.assert_array_equal(numbers_of(Stored(matrix), shape), np.flatnonzero(mask))
    assert numbers_of(Stored(PatternSymbol(matrix, 3)), shape) is None


def test_a_relation_lists_nothing_before_it_is_composed() -> None:
    """A product of matrices of 2000 rows and columns has 8e9 pairs: each row takes the union of 2000 rows."""
    n = 2000
    a, b = Aval((n, n), np.dtype("float64")), Aval((n, n), np.dtype("float64"))
    relation = TABLE["matmul"].relation(Call(TABLE["matmul"], [a, b], a, {}), 1)
    one = listed(np.append(0, np.cumsum(np.arange(n * n) < n)), np.arange(n), n)
    found = relation.after(Rows.of_all(one))
    assert found.matrix.nnz == n * n
    assert relation.after(Rows.of_all(listed(np.arange(n * n + 1), np.arange(n * n), n * n))) is None
