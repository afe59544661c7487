"""Merges, turns and cuts of patterns: against sets and dense arrays; what they sort and search: nothing."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.autograd import grad
from iverson.kernels.sparse import merging, sparse_elementwise
from iverson.kernels.sparse.merging import intersection, read_at, union
from iverson.layouts import (
    CompressedPattern,
    CooPattern,
    coalesced,
    convert,
    counting_sorts,
    from_strided,
    layout_of,
    to_strided,
)
from iverson.layouts.pattern import addresses
from iverson.layouts.pattern_parts import part
from tests.conformance.product import examples

LAYOUTS = ("coo", "csr", "csc", "bsr", "shuffled coo")


def stored_on(dense: np.ndarray, layout: str, rng: np.random.Generator) -> Any:
    """A sparse value with the nonzero entries of an array; of COO also in no order."""
    value = from_strided(dense, layout.rsplit(maxsplit=1)[-1], (2, 2) if layout == "bsr" else None)
    if layout != "shuffled coo":
        return value
    order = rng.permutation(value.pattern.count)
    return CooPattern(value.shape, value.pattern.indices[:, order], True).value(value.entries[order])


def addresses_of(pattern: Any) -> set[int]:
    return set(addresses(pattern.coordinates, pattern.shape).tolist())


@pytest.mark.parametrize("density", [0.0, 0.2, 0.9])
def test_unions_and_intersections_are_those_of_sets(density):
    rng = np.random.default_rng(round(10 * density))
    for first, second in itertools.product(LAYOUTS, LAYOUTS):
        dense = [rng.standard_normal((6, 8)) * (rng.random((6, 8)) < d) for d in (0.3, density)]
        a, b = (stored_on(x, layout, rng) for x, layout in zip(dense, (first, second), strict=True))
        sets = [addresses_of(x.pattern) for x in (a, b)]
        for of, expected in ((union, sets[0] | sets[1]), (intersection, sets[0] & sets[1])):
            found = of([a.pattern, b.pattern], a.pattern)
            found.check()
            assert found.layout == a.pattern.layout
            if first != "bsr":  # whose blocks hold more
                assert addresses_of(found) == expected
            assert found is of([a.pattern, b.pattern], a.pattern)
            for x in (a, b):
                at_found = read_at(x, found)
                np.testing.assert_array_equal(at_found, to_strided(x)[tuple(found.coordinates)])
                back = read_at(found.value(at_found), x.pattern)
                kept = to_strided(found.value(at_found))[tuple(x.pattern.coordinates)]
                np.testing.assert_array_equal(back, kept)
            # What is known of patterns serves their transposes, if their entries are in the same order.
            turned = of([x.pattern.permuted((1, 0)) for x in (a, b)], from_strided(np.eye(2), "coo").pattern)
            for x in (a, b):
                at_turned = read_at(x, turned.permuted((1, 0)))
                np.testing.assert_array_equal(at_turned, to_strided(x).T[tuple(turned.coordinates)])
        other = convert(a, second.rsplit(maxsplit=1)[-1], (2, 2) if second == "bsr" else None)
        turned = other.pattern.permuted((1, 0))
        across = iv.Tensor(a).T._value
        np.testing.assert_array_equal(read_at(across, turned), dense[0].T[tuple(turned.coordinates)])


def test_values_of_any_rank_are_read_at_a_pattern():
    rng = np.random.default_rng(0)
    for shape in ((40,), (3, 4, 5)):
        dense = rng.standard_normal((2, *shape)) * (rng.random((2, *shape)) < 0.5)
        a, b = (from_strided(x, "coo") for x in dense)
        for x, y in ((a, b), (b, a)):
            np.testing.assert_array_equal(read_at(x, y.pattern), to_strided(x)[tuple(y.pattern.coordinates)])
        assert np.shares_memory(read_at(a, a.pattern), a.entries)


NUMPY: dict[str, Any] = {name: getattr(np, name) for name in ("add", "subtract", "multiply", "maximum")}
#: What may be made of one or two values.
MADE: dict[str, Any] = {
    "union": lambda a, b: on_both(union, a, b),
    "intersection": lambda a, b: on_both(intersection, a, b),
    "transpose": lambda a, b: a.T,
    **{
        f"to {x}": lambda a, b, x=x: a.to_layout(x, blocksize=(2, 3) if x == "bsr" else None)
        for x in LAYOUTS[:4]
    },
    **{name: getattr(iv, name) for name in NUMPY},
}


def on_both(of: Any, a: Any, b: Any) -> Any:
    """The first of two values where the union or intersection of their patterns stores it."""
    pattern = of([a._value.pattern, b._value.pattern], a._value.pattern)
    return iv.Tensor(pattern.value(read_at(a._value, pattern)))


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 10**6),
    layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 3),
    dtypes=st.tuples(*[st.sampled_from(["float64", "float64", "float32", "complex128", "int64"])] * 3),
    densities=st.tuples(*[st.sampled_from([0.0, 0.3, 0.3, 1.0])] * 3),
    steps=st.lists(
        st.tuples(st.sampled_from(list(MADE)), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=6
    ),
)
@example(  # of a union and one of its two, what is known last is not from their merge
    seed=0,
    layouts=("csr", "csr", "csr"),
    dtypes=("float64", "float64", "float64"),
    densities=(0.3, 0.3, 0.3),
    steps=[("add", 0, 1), ("multiply", 3, 0), ("add", 0, 1), ("add", 1, 0)],
)
def test_whatever_is_known_of_patterns_values_are_read_right(seed, layouts, dtypes, densities, steps):
    """Merged, turned and converted again and again, every value is read right at every pattern."""
    rng = np.random.default_rng(seed)
    arrays = [
        np.where(rng.random((6, 6)) < d, rng.integers(1, 9, (6, 6)), 0).astype(dtype)
        for d, dtype in zip(densities, dtypes, strict=True)
    ]
    made = [iv.Tensor(stored_on(x, layout, rng)) for x, layout in zip(arrays, layouts, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "WORTHWHILE", 0)
        for name, i, j in steps:
            a, b = i % len(made), j % len(made)
            if name == "maximum" and "c" in (made[a].dtype.kind, made[b].dtype.kind):
                continue
            made.append(MADE[name](made[a], made[b]))
            if name in NUMPY:
                arrays.append(NUMPY[name](arrays[a], arrays[b]))
            elif name == "intersection":
                at = tuple(made[-1]._value.pattern.coordinates)
                arrays.append(np.zeros_like(arrays[a]))
                arrays[-1][at] = arrays[a][at]
            else:
                arrays.append(arrays[a].T if name == "transpose" else arrays[a])
            assert made[-1].dtype == arrays[-1].dtype
            np.testing.assert_array_equal(to_strided(made[-1]._value), arrays[-1])
        for x, array in zip(made, arrays, strict=True):
            for y in made:
                at = y._value.pattern
                np.testing.assert_array_equal(read_at(x._value, at), array[tuple(at.coordinates)])


def test_a_pattern_within_another_is_their_union():
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((5, 5))
    whole, part = from_strided(dense, "csr").pattern, from_strided(np.tril(dense), "csr").pattern
    assert union([whole, part], whole) is union([part, whole], part) is whole
    assert intersection([whole, part], whole) is part
    same = from_strided(dense, "csr").pattern
    assert union([whole, same], same) is whole
    by_columns = from_strided(np.triu(dense), "csc").pattern
    assert intersection([whole, by_columns], whole).layout == "csr"
    coo = from_strided(dense, "coo").pattern
    assert union([coo, part], part).layout == "csr"


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_is_known_of_patterns_keeps_none_of_them(order, first):
    dense = np.random.default_rng(0).standard_normal((5, 5))
    patterns = [from_strided(x, "csr").pattern for x in (dense, np.tril(dense))]
    for of in (union, intersection):
        of([patterns[k] for k in order], patterns[0])
    gc.disable()
    try:
        for _ in range(2):
            left = weakref.ref(patterns.pop(first if len(patterns) == 2 else 0))
            assert left() is None
    finally:
        gc.enable()


def test_a_pattern_may_ask_for_an_entry_twice():
    value = from_strided(np.eye(3)[:1], "csr")
    repeats = CooPattern((1, 3), np.array([[0, 0, 0], [0, 1, 0]]))
    np.testing.assert_array_equal(read_at(value, repeats), [1, 0, 1])
    nothing = from_strided(np.zeros((1, 3)), "csr")
    np.testing.assert_array_equal(read_at(nothing, repeats), [0, 0, 0])


def test_unions_of_huge_shapes():
    shape = (2**40, 3)
    a = CooPattern(shape, np.array([[5, 2**39], [0, 2]]), True)
    b = CooPattern(shape, np.array([[2**39, 7], [1, 2]]), True)
    assert union([a, b], a).count == 4
    assert sorted(addresses_of(union([a, b], a))) == sorted(addresses_of(a) | addresses_of(b))


@pytest.mark.parametrize("bound", [1, 7, 2**20, 2**62])
def test_keys_are_put_in_order(bound):
    """As a stable sort puts them: few and many bits, so that a key fits beside its position or does not."""
    rng = np.random.default_rng(0)
    for count in (0, 1, 2, 1000):
        keys = rng.integers(0, bound, count)
        found, order = counting_sorts.in_order(keys)
        np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
        np.testing.assert_array_equal(found, keys[order])


@pytest.mark.parametrize("count", [1, 3, 4, 100])
def test_keys_that_just_fit_beside_their_position(count):
    largest = 1 << (63 - count.bit_length())
    for bound in (largest - 1, largest, 2 * largest - 1, 2 * largest):
        keys = np.full(count, min(bound, 2**63 - 1))
        keys[count // 2 :] = 1
        found, order = counting_sorts.in_order(keys)
        np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
        np.testing.assert_array_equal(found, keys[order])


def test_entries_are_taken_by_positions_and_slices():
    rows = np.arange(12.0).reshape(4, 3)
    for entries in (rows, rows[:, 0].copy(), rows.reshape(2, 2, 3)):
        for at in (np.array([1, 0, 1]), slice(0, 2), slice(None, None, -1)):
            np.testing.assert_array_equal(counting_sorts.taken(entries, at), entries[at])


def test_a_union_holds_no_more_memory_than_it_needs():
    starts, all_of_them = np.array([0, 100]), np.arange(100)
    for indices, copied in ((all_of_them, True), (all_of_them + 100, False)):
        found = counting_sorts.merged(1, 200, (starts, all_of_them), (starts, indices))[1]
        assert (found.base is None) is copied
        assert found.size == np.union1d(all_of_them, indices).size


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64", "bool"])
@pytest.mark.parametrize("dense", [(), (2,), (3,), (2, 2), (0,)])
def test_repeats_are_summed(dtype, dense):
    """As `numpy.add.at` adds them: few and many, in order and not, rows of numbers and single ones."""
    rng = np.random.default_rng(0)
    for count, extent in ((40, 6), (40, 4000), (0, 3), (1, 3)):
        for ids in (rng.integers(0, extent, count), np.sort(rng.integers(0, extent, count))):
            values = (rng.standard_normal((count, *dense)) * 9).astype(dtype)
            repeats = CooPattern((extent,), ids[None]).value(values)
            value = coalesced(repeats)
            expected = np.zeros((extent, *dense), dtype)
            np.add.at(expected, ids, values)
            np.testing.assert_allclose(to_strided(value), expected, rtol=1e-5)
            np.testing.assert_allclose(to_strided(repeats), expected, rtol=1e-5)
            assert value.pattern.count == np.unique(ids).size


def test_summing_repeated_rows_makes_no_copy_of_them():
    ids, rows = np.arange(1000) % 10, np.ones((1000, 500))
    pattern = CooPattern((10,), ids[None])
    assert not pattern.distinct
    counting_sorts.loops()  # SciPy is imported before memory is counted
    tracemalloc.start()
    value = coalesced(pattern.value(rows))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes / 4
    np.testing.assert_array_equal(value.entries, np.full((10, 500), 100.0))


@pytest.mark.parametrize("name", ["add", "subtract", "maximum", "minimum"])
def test_a_union_in_one_pass_is_that_of_dense_arrays(name, monkeypatch):
    """The compiled pass and its gradients, from and to every layout that stores single entries."""
    monkeypatch.setattr(merging, "WORTHWHILE", 0)
    plain, passes = merging.in_one_pass, []

    def noted(*args: Any) -> Any:
        found = plain(*args)
        passes.append(found is not None)
        return found

    monkeypatch.setattr(sparse_elementwise, "in_one_pass", noted)
    rng = np.random.default_rng(0)
    f, layouts = getattr(iv, name), ("coo", "csr", "csc", "shuffled coo")
    for first, second in itertools.product(layouts, layouts):
        dense = [rng.standard_normal((6, 8)) * (rng.random((6, 8)) < 0.4) for _ in "ab"]
        values = [stored_on(x, layout, rng) for x, layout in zip(dense, (first, second), strict=True)]
        leaves = [iv.asarray(v.values, requires_grad=True) for v in values]
        given = [iv.ops.F.from_values(v, pattern=x.pattern) for v, x in zip(leaves, values, strict=True)]
        passes.clear()
        out = f(*given)
        assert passes == [True]
        np.testing.assert_array_equal(out.detach().to_dense().numpy(), getattr(np, name)(*dense))
        weight = rng.standard_normal((6, 8))
        found = grad((out * weight).sum(), leaves)
        arrays = [iv.asarray(x, requires_grad=True) for x in dense]
        expected = grad((f(*arrays) * weight).sum(), arrays)
        for g, e, x in zip(found, expected, values, strict=True):
            np.testing.assert_allclose(g.numpy(), e.numpy()[tuple(x.pattern.coordinates)], atol=1e-12)


@pytest.mark.parametrize("first", [0, 1])
def test_a_union_that_meets_its_parts_again_is_read_right(first, monkeypatch):
    """Where a part is in a union is found anew then, and fits no more what is known of the other part."""
    monkeypatch.setattr(merging, "WORTHWHILE", 0)
    rng = np.random.default_rng(0)
    dense = [rng.standard_normal((6, 8)) * (rng.random((6, 8)) < 0.4) for _ in "ab"]
    a, b = (iv.Tensor(stored_on(x, "csr", rng)) for x in dense)
    for again, swapped in itertools.product(((a, b)[first], (a, b)[1 - first]), (False, True)):
        both = (again, a - b) if swapped else (a - b, again)
        assert (both[0] - both[1])._value.pattern is (a - b)._value.pattern
        np.testing.assert_array_equal((a - b).to_dense().numpy(), dense[0] - dense[1])
        np.testing.assert_array_equal((b - a).to_dense().numpy(), dense[1] - dense[0])
        for x, array in zip((a, b), dense, strict=True):
            for y in (a, b):
                at = y._value.pattern
                np.testing.assert_array_equal(read_at(x._value, at), array[tuple(at.coordinates)])
    rows = [iv.sparse_coo_tensor([at], rng.standard_normal((3, 2)), (7, 2)) for at in ([0, 3, 5], [1, 3, 6])]
    total = sum(x.to_dense().numpy() for x in rows)
    np.testing.assert_array_equal((rows[0] + rows[1]).to_dense().numpy(), total)
    blocks = [iv.asarray(x).to_layout("bsr", blocksize=(2, 2)) for x in dense]
    for _ in range(2):  # then it is known where they are in the union, and not by a code
        np.testing.assert_array_equal((blocks[0] + blocks[1]).to_dense().numpy(), dense[0] + dense[1])
    mixed = a + iv.Tensor(stored_on(dense[1].astype("float32"), "csr", rng))
    assert mixed.dtype == np.dtype("float64")
    np.testing.assert_array_equal(mixed.to_dense().numpy(), dense[0] + dense[1].astype("float32"))


def test_what_is_not_finite_warns_in_a_union_as_in_numpy(monkeypatch):
    monkeypatch.setattr(merging, "WORTHWHILE", 0)
    huge = np.array([[1e308, 0, np.inf], [np.nan, 1, 0]])
    other = np.array([[1e308, 2, -np.inf], [0, 0, 0]])
    a, b = (iv.asarray(x).to_layout("csr") for x in (huge, other))
    with pytest.warns(RuntimeWarning, match="overflow|invalid") as seen:
        found = (a + b).to_dense().numpy()
    assert {str(w.message).split()[0] for w in seen} == {"overflow", "invalid"}
    np.testing.assert_array_equal(found, [[np.inf, 2, np.nan], [np.nan, 1, 0]])


# --- nothing is sorted or searched ------------------------------------------------------------------


def csr(n: int, seed: int) -> tuple[Any, Any]:
    """A matrix on a pattern of which nothing is known, and its tracked values."""
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, n * n, 5 * n))
    starts = np.searchsorted(keys, np.arange(n + 1) * n).astype(np.int32)
    pattern = CompressedPattern((n, n), starts, (keys % n).astype(np.int32), 0)
    values = iv.asarray(rng.standard_normal(keys.size), requires_grad=True)
    return iv.ops.F.from_values(values, pattern=pattern), values


ORDERED: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": iv.maximum,
    "three terms": lambda a, b: a + b + a.T,
    "where a sum and a product meet": lambda a, b: (a + b) * a,
    "transpose": lambda a, b: a.T.to_layout("csr"),
    "csc": lambda a, b: a.to_layout("csc") * 2,
    "coo": lambda a, b: a.to_layout("coo") * 2,
    "coo and back": lambda a, b: a.to_layout("coo").to_layout("csr"),
    "turned coo": lambda a, b: a.to_layout("coo").T.to_layout("csr"),
    "rows": lambda a, b: a[3:20],
    "box": lambda a, b: a[3:20, 5:30],
    "columns": lambda a, b: a[:, 5:30],
    "row": lambda a, b: a[3] * 2,
    "some rows": lambda a, b: a[np.array([5, 2, 2, 40])] * 2,
    "some columns": lambda a, b: a[:, np.array([5, 2, 2, 40])] * 2,
    "entries": lambda a, b: a[np.arange(60), (7 * np.arange(60)) % 60],
    "few entries, some twice": lambda a, b: a[np.arange(120) % 100, (7 * np.arange(120)) % 100],
    "triangle": lambda a, b: iv.tril(a) * 2,
    "rows joined": lambda a, b: iv.concat([a, b]),
    "columns joined": lambda a, b: iv.concat([a, b], axis=1),
    "joined and cut": lambda a, b: iv.concat([a, b])[2:70],
}
#: In gradients of these, entries of a pattern are still searched for in another.
SEARCHED = {"where a sum and a product meet"}
#: Their cotangents store a few of many entries: the start of each line is searched for among these.
A_FEW = {"some rows", "some columns"}
SORTS = ("argsort", "lexsort", "sort", "union1d", "intersect1d", "searchsorted")


@pytest.mark.parametrize("name", ORDERED)
def test_entries_in_order_are_not_sorted(name, monkeypatch):
    """Forward and gradient: entries given to a sort or a search, which SciPy's operators need none of."""
    given = []
    for function in SORTS:
        plain = getattr(np, function)

        def counted(*args: Any, _plain: Any = plain, _name: str = function, **kwargs: Any) -> Any:
            given.append((_name, np.size(args[_name in ("searchsorted", "union1d", "intersect1d")])))
            return _plain(*args, **kwargs)

        monkeypatch.setattr(np, function, counted)

    def in_order(keys: Any, _plain: Any = counting_sorts.in_order) -> Any:
        given.append(("in_order", keys.size))
        return _plain(keys)

    monkeypatch.setattr(counting_sorts, "in_order", in_order)
    n = 100
    (a, x), (b, y) = csr(n, 0), csr(n, 1)
    given.clear()
    out = ORDERED[name](a, b)
    assert [(f, k) for f, k in given if k > 8] == []
    found = grad(out, [x, y], grad_outputs=out.detach(), unused="zero")
    if name not in SEARCHED:
        starts = [("searchsorted", n + 1)] if name in A_FEW else []
        assert [(f, k) for f, k in given if k > 8] == starts
    dense_a, dense_b = (iv.asarray(m.detach().to_dense(), requires_grad=True) for m in (a, b))
    dense = ORDERED[name](dense_a, dense_b)
    np.testing.assert_allclose(out.detach().to_dense().numpy(), dense.detach().to_dense().numpy())
    expected = grad(dense, [dense_a, dense_b], grad_outputs=dense.detach(), unused="zero")
    for m, g, e in zip((a, b), found, expected, strict=True):
        at = tuple(m._value.pattern.coordinates)
        np.testing.assert_allclose(g.to_dense().numpy(), e.to_dense().numpy()[at], rtol=1e-12, atol=1e-12)


def test_indexed_entries_are_added_where_they_are_read(monkeypatch):
    """The gradient of few entries, some of them twice, is not put in order first to be read at a pattern."""
    rows, columns = np.arange(120) % 100, (7 * np.arange(120)) % 100
    monkeypatch.setattr(CooPattern, "_coalescing", None)
    for layout in ("csr", "csc"):
        a, x = csr(100, 0)
        weight = np.linspace(1, 2, 120)
        found = grad((a.to_layout(layout)[rows, columns] * weight).sum(), x).numpy()
        dense = np.zeros((100, 100))
        np.add.at(dense, (rows, columns), weight)
        np.testing.assert_allclose(found, dense[tuple(a._value.pattern.coordinates)], rtol=1e-15)


def test_lines_are_chosen_once():
    """The lines chosen from a pattern are on one pattern while that lives, which a gradient reads in turn."""
    chosen = np.array([5, 2, 2, 40])
    for read in (lambda a: a[chosen], lambda a: a[:, chosen]):
        for layout in ("csr", "csc"):
            a = csr(60, 0)[0].to_layout(layout)
            y = read(a)
            again = read(a * 2)
            assert again._value.pattern is y._value.pattern
            np.testing.assert_array_equal(again._value.values, 2 * y._value.values)
            assert a[chosen[::-1]]._value.pattern is not y._value.pattern


def test_the_gradient_of_summed_repeats_is_taken_not_searched(monkeypatch):
    """Each entry of a pattern with repeats knows which of the coalesced ones it went into."""
    rng = np.random.default_rng(0)
    pattern = CooPattern((5, 7), rng.integers(0, 5, (2, 40)))
    values = iv.asarray(rng.standard_normal(40), requires_grad=True)
    out = iv.ops.F.from_values(values, pattern=pattern).coalesce()
    weight = rng.standard_normal((5, 7))
    monkeypatch.setattr(CooPattern, "find", None)
    found = grad((out * weight).sum(), values).numpy()
    np.testing.assert_array_equal(found, weight[tuple(pattern.indices)])


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("axis", [0, 1])
def test_lines_chosen_again_and_again_are_those_of_the_dense_matrix(layout, axis):
    """Few lines and many, with repeats, across the layout and along it: the first time and later."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((30, 40)) * (rng.random((30, 40)) < 0.2)
    value = stored_on(dense, layout, rng)
    for count in (3, 3, 0, 60):
        chosen = rng.integers(0, dense.shape[axis], count)
        leaf = iv.asarray(value.values, requires_grad=True)
        x = iv.ops.F.from_values(leaf, pattern=value.pattern)
        found = iv.take(x, iv.asarray(chosen), axis=axis)
        np.testing.assert_array_equal(found.detach().to_dense().numpy(), dense.take(chosen, axis=axis))
        weight = rng.standard_normal(found.shape)
        g = grad((found * weight).sum(), leaf, unused="zero").to_dense().numpy()
        expected = np.zeros(dense.shape)
        np.add.at(expected, (chosen,) if axis == 0 else (slice(None), chosen), weight)
        np.testing.assert_allclose(g, expected[tuple(value.pattern.coordinates)], atol=1e-12)


def test_entries_that_are_carried_come_from_where_is_found_later():
    """Values move with the indices of a first conversion or part; their order is found when asked for."""
    rng = np.random.default_rng(8)
    x = from_strided(np.where(rng.random((7, 9)) < 0.4, rng.standard_normal((7, 9)), 0), "csr")
    other = x.pattern.value(rng.standard_normal(x.pattern.count))
    parts = {
        "csc": lambda v: convert(v, "csc"),
        "box": lambda v: part(v, ((1, 6), (2, 8))),
        "rows": lambda v: part(v, ((2, 5), (0, 9))),
        "blocks": lambda v: convert(from_strided(to_strided(v)[:6], "csr"), "bsr", (2, 3)),
    }
    for name, take in parts.items():
        first, second = take(x), take(other)
        where = {"csc": np.s_[:, :], "box": np.s_[1:6, 2:8], "rows": np.s_[2:5], "blocks": np.s_[:6]}[name]
        for made, source in ((first, x), (second, other)):
            layout_of(made).check(made)
            np.testing.assert_array_equal(to_strided(made), to_strided(source)[where])
        if name != "blocks":
            assert second.pattern is first.pattern
            np.testing.assert_array_equal(read_at(x, first.pattern), first.entries)
            back = read_at(first, x.pattern)
            np.testing.assert_array_equal(back[back != 0], x.entries[back != 0])
            assert np.count_nonzero(back) == first.pattern.count


def test_reshaped_and_back_is_the_same_pattern():
    """Row by row, entries stay in order: nothing is looked for on the way back, forward or in a gradient."""
    dense = np.where(np.random.default_rng(1).random((6, 8)) < 0.4, 1.5, 0)
    for layout in ("csr", "csc", "coo", "bsr"):
        s = iv.asarray(dense).to_layout(layout, blocksize=(2, 2) if layout == "bsr" else None)
        v = s.values().detach().requires_grad_()
        x = iv.ops.F.from_values(v, pattern=s._value.pattern)
        turned = x.reshape((12, 4))
        assert layout == "bsr" or turned._value.pattern is x.reshape((12, 4))._value.pattern
        back = turned.reshape((6, 8))
        np.testing.assert_array_equal(to_strided(back.detach()._value), dense)
        assert layout not in ("csr", "coo") or back._value.pattern is x._value.pattern
        np.testing.assert_array_equal(grad((turned * turned).sum(), v).numpy(), 2 * v.detach().numpy())
        weights = np.arange(48.0).reshape(12, 4)
        at = tuple(s._value.pattern.coordinates)
        expected = weights.reshape(6, 8)[at].reshape(v.shape)
        np.testing.assert_array_equal(grad((turned * weights).sum(), v).numpy(), expected)
