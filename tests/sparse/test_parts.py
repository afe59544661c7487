"""Lines and boxes of matrices, cut out and put back: as NumPy does it, of the entries that are stored."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from iverson.kernels.sparse import sparse_slices
from iverson.kernels.sparse.merging import read_at
from iverson.layouts import CooPattern, Sparse, from_strided, layout_of, to_strided
from iverson.layouts.placement import placements

SHAPES = (4, 5), (5, 4), (1, 6), (0, 3), (3, 0)


def matrices() -> Any:
    """Matrices with some entries stored, in both layouts: of numbers, and of slices over dense axes."""
    for seed, (shape, layout) in enumerate(itertools.product(SHAPES, ("csr", "csc"))):
        rng = np.random.default_rng(seed)
        for share, slices in itertools.product((0.0, 0.4, 1.0), ((), (2,), (2, 1))):
            stored = rng.random(shape) < share
            pattern = from_strided(stored, layout).pattern
            x = pattern.value(rng.uniform(1, 2, (pattern.count, *slices)))
            yield to_strided(x), x, rng


def over(x: Any) -> tuple[slice, ...]:
    """The part of a key that reads all of the dense axes."""
    return tuple(slice(0, n, 1) for n in x.dense_shape)


def others() -> Any:
    """What is not one matrix in CSR or CSC."""
    rng = np.random.default_rng(0)
    yield from_strided(rng.random((4, 4)), "coo")
    yield from_strided(rng.random((4, 4)), "bsr", (2, 2))
    yield from_strided(rng.random((2, 4, 4)), "csr")


def boxes(shape: tuple[int, int], rng: Any) -> Any:
    yield tuple(slice(0, n, 1) for n in shape)
    for k in range(2):  # some lines, whole; and, on the other axis, all but one
        yield tuple(slice(1 if (a == k and n > 1) else 0, n, 1) for a, n in enumerate(shape))
        yield tuple(slice(0, n - 1 if (a == k and n > 1) else n, 1) for a, n in enumerate(shape))
    for _ in range(4):
        corners = [sorted(rng.integers(0, n + 1, 2).tolist()) for n in shape]
        yield tuple(slice(a, b, 1) for a, b in corners)


def same(found: Any, wanted: Any) -> None:
    """The entries, each that is not 0 stored, and no other."""
    layout_of(found).check(found)
    np.testing.assert_array_equal(to_strided(found), wanted)
    if isinstance(found, Sparse):
        dense = tuple(range(found.pattern.ndim, wanted.ndim))
        assert found.pattern.count == np.count_nonzero((wanted != 0).any(axis=dense))
        assert found.pattern.distinct


def test_boxes_are_cut_out_and_put_back():
    for dense, x, rng in matrices():
        for box in boxes(x.pattern.shape, rng):
            key = (*box, *over(x))
            wanted = dense[key]
            found = sparse_slices.cut(x, key)
            same(found, wanted)
            assert found.pattern.layout == x.pattern.layout
            assert (found is x) is (wanted.shape == dense.shape)
            back = np.zeros_like(dense)
            back[key] = wanted
            put = sparse_slices.embed(found, key, x.shape)
            same(put, back)
            assert put.pattern.layout == x.pattern.layout
            for other in ((*box, *over(x)[:-1], slice(0, 1, 2)), (*box, *over(x), None)) if over(x) else ():
                assert sparse_slices.cut(x, other) is NotImplemented
                assert sparse_slices.embed(found, other, x.shape) is NotImplemented


def test_one_whole_line_is_cut_out():
    for dense, x, _ in matrices():
        axis = x.pattern.axis
        for k in range(x.shape[axis]):
            across = slice(0, x.shape[1 - axis], 1)
            lead = (k, across) if axis == 0 else (across, k)
            key = (*lead, *over(x))
            found = sparse_slices.cut(x, key)
            same(found, dense[key])
            assert sparse_slices.cut(x, key).pattern is found.pattern
            assert sparse_slices.cut(x, (*lead[::-1], *over(x))) is NotImplemented or x.shape[0] == x.shape[1]
            back = np.zeros_like(dense)
            back[key] = dense[key]
            put = sparse_slices.embed(found, key, x.shape)
            same(put, back)
            # Where a line's entries are in its matrix is known, both ways.
            for value, at in ((put, x.pattern), (x, put.pattern)):
                assert value.pattern in placements(at)
                np.testing.assert_array_equal(read_at(value, at), to_strided(value)[tuple(at.coordinates)])
            elsewhere = tuple(item if item == across else x.shape[axis] - 1 - k for item in lead) + over(x)
            moved = sparse_slices.embed(found, elsewhere, x.shape)
            same(moved, np.flip(back, axis))
            np.testing.assert_array_equal(
                read_at(moved, x.pattern), to_strided(moved)[tuple(x.pattern.coordinates)]
            )
            some = tuple(slice(0, item.stop, 2) if item == across else item for item in lead)
            for other in (lead[:1], (None, *lead), some, (across, across)):
                assert sparse_slices.embed(found, (*other, *over(x)), x.shape) is NotImplemented
            assert sparse_slices.embed(found, key, (9, 9, *x.dense_shape)) is NotImplemented
            same_entries = from_strided(np.ones(found.pattern.shape), "coo").pattern
            other = same_entries.value(np.ones((same_entries.count, *x.dense_shape)))
            assert sparse_slices.embed(other, key, x.shape) is NotImplemented


def test_other_keys_and_layouts_are_left_to_others():
    x = from_strided(np.ones((4, 4)), "csr")
    whole, some, steps = slice(0, 4, 1), slice(1, 3, 1), slice(0, 4, 2)
    for key in (
        (1, some),
        (whole, 1),
        (1, 1),
        (some,),
        (steps, whole),
        (whole, steps),
        (None, some, some),
        (1,),
    ):
        assert sparse_slices.cut(x, key) is NotImplemented
        if key != (1, some):
            assert sparse_slices.embed(x, key, (4, 4)) is NotImplemented
    box = (some, some)
    for other in others():
        assert sparse_slices.cut(other, box) is NotImplemented
        assert sparse_slices.embed(other, box, (6, 6)) is NotImplemented
        assert sparse_slices.concat([other, other], 0, (8, 4), other.dtype) is NotImplemented
    assert sparse_slices.embed(from_strided(np.ones((2, 2)), "csr"), box, (1, 4, 4)) is NotImplemented


@pytest.mark.parametrize("axis", [0, 1])
def test_matrices_are_put_beside_each_other(axis):
    known = list(matrices())
    for (a, x, _), (b, y, _) in itertools.product(known, known):
        if x.dense_shape != y.dense_shape:
            assert sparse_slices.concat([x, y], axis, a.shape, np.dtype("float64")) is NotImplemented
            continue
        if a.shape[1 - axis] != b.shape[1 - axis]:
            continue
        if x.dense_shape:
            assert sparse_slices.concat([x, y], 2, a.shape, np.dtype("float64")) is NotImplemented
        wanted = np.concatenate([a, b], axis=axis)
        found = sparse_slices.concat([x, y], axis, wanted.shape, np.dtype("float64"))
        assert (found is NotImplemented) is (x is y or x.pattern.layout != y.pattern.layout)
        if found is not NotImplemented:
            same(found, wanted)
            assert found.pattern.layout == x.pattern.layout


@pytest.mark.parametrize("axis", [0, 1])
def test_lines_are_taken_in_any_order_and_added_back(axis):
    put = 0
    for dense, x, rng in matrices():
        n = dense.shape[axis]
        for count in (0, 1, 3, 9) if n else (0,):
            for chosen in (rng.integers(0, n, count) if n else np.zeros(0, int), np.arange(n)[:count]):
                found = sparse_slices.lines(x, chosen, axis)
                same(found, np.moveaxis(dense.take(chosen, axis=axis), axis, 0))
                assert found.pattern.axis == (axis != x.pattern.axis)
                g = found.pattern.value(np.arange(1.0, found.values.size + 1).reshape(found.values.shape))
                back = sparse_slices.put_lines(g, chosen, axis, x.shape)
                if back is NotImplemented:
                    continue
                put += 1
                sums = np.zeros_like(dense)
                np.add.at(np.moveaxis(sums, axis, 0), chosen, to_strided(g))
                np.testing.assert_array_equal(to_strided(back), sums)
                assert back.pattern.count == x.pattern.count
                others = (chosen, axis, (9, 9)), (chosen, 1 - axis, x.shape), (chosen, axis, (*x.shape, 1))
                for no in ((chosen + 1, axis, x.shape), *others):
                    if len(chosen) or no[0] is chosen:
                        assert sparse_slices.put_lines(g, *no) is NotImplemented
                whole = from_strided(np.ones(found.pattern.shape), "csr")
                assert sparse_slices.put_lines(whole, chosen, axis, x.shape) is NotImplemented
                found.pattern.lines_of = (lambda: None, *found.pattern.lines_of[1:])  # it is there no more
                assert sparse_slices.put_lines(g, chosen, axis, x.shape) is NotImplemented
    assert put > 10


def test_diagonals_and_single_entries():
    for dense, x, rng in matrices():
        for offset in range(-5, 6):
            wanted = np.moveaxis(np.diagonal(dense, offset), -1, 0)
            if wanted.size or offset == 0:
                same(sparse_slices.diagonal(x, offset), wanted)
        if x.dense_shape:
            continue
        at = [rng.integers(0, n, 7) if dense.size else np.zeros(0, int) for n in dense.shape]
        np.testing.assert_array_equal(sparse_slices.entries_at(x, at), dense[tuple(at)])


def test_diagonals_are_put_back():
    """Of matrices they were taken from, it is known where they are; elsewhere, it is found."""
    for _, x, _ in matrices():
        shape = x.pattern.shape
        for offset in (*range(1 - shape[0], shape[1]), 0):
            taken = sparse_slices.diagonal(x, offset)
            wider = shape[0] + 1, shape[1] + 1
            fits = (
                taken.shape[0] + max(-offset - 1, 0) <= shape[0]
                and taken.shape[0] + max(offset + 1, 0) <= shape[1]
            )
            for moved, extents in ((0, shape), (0, wider), (1, wider), *([(1, shape)] if fits else [])):
                made = sparse_slices.embedded(taken.pattern, offset + moved, extents)
                value = made.value(taken.values)
                wanted = np.zeros((*extents, *x.dense_shape))
                own = np.arange(taken.shape[0])
                wanted[own + max(-offset - moved, 0), own + max(offset + moved, 0)] = to_strided(taken)
                same(value, wanted)
                assert made is sparse_slices.embedded(taken.pattern, offset + moved, extents)
                is_put_back = not moved and extents == shape
                assert (made in placements(x.pattern)) is is_put_back
                if is_put_back:
                    assert value.pattern.index_dtype == x.pattern.index_dtype
                    np.testing.assert_array_equal(
                        read_at(value, x.pattern), wanted[tuple(x.pattern.coordinates)]
                    )


def test_diagonals_of_batches_are_put_in_place():
    """Of a pattern with further axes, and of one on which an entry is stored twice."""
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((2, 3)) < 0.6, rng.random((2, 3)), 0.0)
    for x in (
        from_strided(dense, "coo"),
        CooPattern((2, 3), np.array([[1, 0, 1], [2, 2, 2]])).value(np.ones(3)),
    ):
        for offset in (-2, 0, 1):
            n = 3 + abs(offset)
            made = sparse_slices.embedded(x.pattern, offset, (2, n, n))
            assert made.distinct is x.pattern.distinct
            wanted = np.zeros((2, n, n))
            k = np.arange(3)
            wanted[:, k + max(-offset, 0), k + max(offset, 0)] = to_strided(x)
            np.testing.assert_array_equal(to_strided(made.value(x.values)), wanted)
