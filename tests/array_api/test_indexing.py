"""Taking, sorting, searching and sets against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iverson as iv
from iverson.core.errors import ArgumentError, AxisError, DTypeError, IndexingError, ShapeError
from tests.array_api.common import draw, dtypes_of, same
from tests.conformance.product import examples


@pytest.mark.parametrize("dtype", dtypes_of("biufc"))
def test_take(dtype):
    x = draw((3, 4), dtype)
    for indices in (
        np.array([2, 0, -1]),
        np.array([], int),
        np.array(1),
        np.array([[0, 1], [2, -3]], "int8"),
    ):
        for axis in (0, 1, -1):
            same(iv.take(iv.asarray(x), iv.asarray(indices), axis=axis), np.take(x, indices, axis))
    same(iv.take(x[0], np.array([3, 3])), np.take(x[0], [3, 3]))
    same(iv.asarray(x).take(iv.asarray([1]), axis=1), np.take(x, [1], 1))


def test_take_along_axis():
    for dtype in dtypes_of("biufc"):
        x = draw((3, 4, 2), dtype)
        for axis in (0, 1, -1):
            indices = np.argsort(np.abs(x), axis=axis)
            same(
                iv.take_along_axis(iv.asarray(x), iv.asarray(indices), axis=axis),
                np.take_along_axis(x, indices, axis),
            )
    x = draw((3, 4))
    same(
        iv.take_along_axis(x, np.array([[1], [0], [-1]])),
        np.take_along_axis(x, np.array([[1], [0], [-1]]), 1),
    )
    same(iv.take_along_axis(x, np.array([[1, 2]])), x[:, [1, 2]])
    same(iv.take_along_axis(x[:1], np.array([[1], [2]]), axis=1), x[0][[[1], [2]]])
    same(iv.asarray(x).take_along_axis(np.zeros((0, 4), int), axis=0), np.zeros((0, 4)))


def test_nonzero():
    for dtype in dtypes_of("biufc"):
        for shape in ((5,), (3, 4), (0, 2)):
            x = draw(shape, dtype) * np.asarray(draw(shape, "bool", 2), dtype)
            same(iv.nonzero(iv.asarray(x)), np.nonzero(x))
    same(iv.asarray([0, 2]).nonzero(), np.nonzero(np.array([0, 2])))


@pytest.mark.parametrize("dtype", dtypes_of("biuf"))
def test_sort(dtype):
    for shape, axis in (((7,), -1), ((3, 4), 0), ((3, 4), -1), ((2, 0), 1), ((0, 2), 1)):
        x = draw(shape, dtype)
        for descending in (False, True):
            expected = np.flip(np.sort(x, axis), axis) if descending else np.sort(x, axis)
            same(iv.sort(iv.asarray(x), axis=axis, descending=descending), expected)
            order = iv.argsort(x, axis=axis, descending=descending)
            assert order.dtype == iv.int64
            same(iv.take_along_axis(x, order, axis=axis), expected)
            same(iv.asarray(x).sort(axis=axis, descending=descending), expected)


def test_equal_entries_keep_their_order():
    x = np.array([2, 1, 2, 1, 2])
    same(iv.argsort(x), [1, 3, 0, 2, 4])
    same(iv.argsort(x, descending=True), [0, 2, 4, 1, 3])
    same(iv.sort(np.array([np.nan, 1.0, 2.0]), descending=True), [np.nan, 2.0, 1.0])
    for n in (2, 17, 83):  # zeros of both signs are equal
        x = np.random.default_rng(n).choice([0.0, -0.0, 1.0, -1.0], n)
        for descending in (False, True):
            expected = np.signbit(x[np.argsort(-x if descending else x, stable=True)])
            for mode in (lambda f: f, iv.jit, lambda f: lambda v: iv.vmap(f)(iv.stack([v, v]))[1]):
                found = mode(lambda x, d=descending: iv.sort(x, descending=d))(iv.asarray(x))
                np.testing.assert_array_equal(np.signbit(found.numpy()), expected)


def test_searchsorted():
    a = np.sort(draw((6,)))
    for side in ("left", "right"):
        for v in (draw((2, 3)), a, np.array(0.5), np.zeros((0,))):
            same(iv.searchsorted(iv.asarray(a), iv.asarray(v), side=side), np.searchsorted(a, v, side))
    shuffled = draw((6,), seed=4)
    order = np.argsort(shuffled)
    same(iv.searchsorted(shuffled, a, sorter=order), np.searchsorted(shuffled, a, sorter=order))
    same(iv.asarray(a).searchsorted(0.0), np.searchsorted(a, 0.0))


@pytest.mark.parametrize("dtype", dtypes_of("biufc"))
def test_sets(dtype):
    for shape in ((9,), (3, 3), (), (0,)):
        x = np.round(draw(shape, dtype)) if np.dtype(dtype).kind in "fc" else draw(shape, dtype)
        values, first, inverse, counts = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True
        )
        inverse = inverse.reshape(shape)
        found = iv.unique_all(iv.asarray(x))
        same(tuple(found), (values, first, inverse, counts))
        assert found._fields == ("values", "indices", "inverse_indices", "counts")
        same(tuple(iv.unique_counts(x)), (values, counts))
        same(tuple(iv.unique_inverse(x)), (values, inverse))
        same(iv.unique_values(x), values)
        same(iv.isin(x, values[:2]), np.isin(x, values[:2]))
        same(iv.isin(x, values[:2], invert=True), np.isin(x, values[:2], invert=True))


def test_each_nan_is_distinct():
    x = np.array([np.nan, 1.0, np.nan])
    same(iv.unique_values(x), [1.0, np.nan, np.nan])
    same(iv.unique_counts(x).counts, [1, 1, 1])


def test_isin_with_scalars():
    same(iv.isin(iv.asarray([1, 2]), 2), [False, True])
    same(iv.isin(2, iv.asarray([1, 2])), np.array(True))
    with pytest.raises(ArgumentError, match="isin"):
        iv.isin(1, 2)


@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_gather_anything(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    n = shape[axis]
    x = draw(shape)
    flat = data.draw(
        hnp.arrays(np.int64, hnp.array_shapes(min_dims=0, max_dims=2), elements=st.integers(-n, n - 1))
    )
    same(iv.take(x, flat, axis=axis), np.take(x, flat, axis))
    along = data.draw(hnp.arrays(np.int64, shape, elements=st.integers(-n, n - 1)))
    same(iv.take_along_axis(x, along, axis=axis), np.take_along_axis(x, along, axis))


ERRORS = [
    (lambda x: iv.take(x, iv.asarray([0])), ShapeError, "take: argument 'axis': got None for shape"),
    (
        lambda x: iv.take(x, iv.asarray([3]), axis=1),
        IndexingError,
        r"take.*got position 3; expected one in \[-3, 3\)",
    ),
    (lambda x: iv.take(x, iv.asarray([-4]), axis=1), IndexingError, "got position -4"),
    (lambda x: iv.take(x, iv.asarray([0.0]), axis=1), DTypeError, "expected integers"),
    (lambda x: iv.take(x, iv.asarray([True]), axis=1), DTypeError, r"use x\[mask\]"),
    (lambda x: iv.take(x, iv.asarray([0]), axis=2), AxisError, "take"),
    (lambda x: iv.take_along_axis(x, iv.asarray([0])), ShapeError, "expected 2 axes"),
    (lambda x: iv.take_along_axis(x, iv.asarray([[0], [0], [0]])), ShapeError, "take_along_axis"),
    (lambda x: iv.take_along_axis(x, iv.asarray([[9], [0]])), IndexingError, "position 9"),
    (lambda x: iv.nonzero(x[0, 0]), ShapeError, "rank 0"),
    (lambda x: iv.sort(iv.astype(x, complex)), DTypeError, "sort"),
    (lambda x: iv.sort(x[0, 0]), AxisError, "rank 0"),
    (lambda x: iv.argsort(x, axis=5), AxisError, "argsort"),
    (lambda x: iv.searchsorted(x, x), ShapeError, "searchsorted: argument 'x1'"),
    (lambda x: iv.searchsorted(x[0], x, side="middle"), ArgumentError, "'left', 'right'"),
    (lambda x: iv.searchsorted(x[0], x, sorter=iv.asarray([7, 0, 1])), IndexingError, "position 7"),
]


@pytest.mark.parametrize(("call", "kind", "words"), ERRORS)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call(iv.ones((2, 3)))
