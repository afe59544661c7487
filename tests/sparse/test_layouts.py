"""Sparse layouts themselves: making, checking, converting, printing, pickling."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse

import iverson as iv
from iverson.autograd import grad
from iverson.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GradientError,
    IndexingError,
    ShapeError,
)
from tests.sparse.common import LAYOUTS, blocks_for, checked, held, holds

X = holds()


@pytest.mark.parametrize("to", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_conversion(layout, to):
    s = held(X, layout)
    found = s.to_layout(to, blocksize=blocks_for(to, X.shape))
    np.testing.assert_array_equal(checked(found), X)
    assert found.layout == to
    # The pattern is converted once, and converting back from the same pattern gives the same object.
    again = s.to_layout(to, blocksize=blocks_for(to, X.shape))
    assert again._value.pattern is found._value.pattern


@pytest.mark.parametrize("layout", LAYOUTS)
def test_transposes_are_kept_on_the_pattern(layout):
    s = held(X, layout)
    np.testing.assert_array_equal(checked(s.mT), X.T)
    assert s.mT._value.pattern is s.mT._value.pattern
    assert s.mT.mT._value.pattern is s._value.pattern


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pickle_copy_and_repr(layout):
    s = held(X, layout, requires_grad=True)
    for made in (pickle.loads(pickle.dumps(s)), copy.deepcopy(s), copy.copy(s)):
        np.testing.assert_array_equal(checked(made), X)
        assert made.layout == layout
        assert made.requires_grad
    assert f"layout='{layout}'" in repr(s)


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_index_dtypes_are_kept(index):
    s = iv.sparse_csr_tensor(np.array([0, 1, 2], index), np.array([1, 0], index), [3.0, 4.0])
    assert s.indices().dtype == s.indptr().dtype == np.dtype(index)
    assert (s * 2.0).indices().dtype == np.dtype(index)
    assert (s @ iv.eye(2)).layout == "strided"


def test_coo_sums_repeats_and_knows_when_there_are_none():
    s = iv.sparse_coo_tensor([[0, 1, 0], [1, 0, 1]], [1.0, 2.0, 4.0], (2, 2))
    np.testing.assert_array_equal(checked(s), [[0, 5], [2, 0]])
    with pytest.raises(ArgumentError, match="coalesce"):
        s.values()
    c = s.coalesce()
    np.testing.assert_array_equal(c.values().numpy(), [5, 2])
    assert c.nnz == 2
    assert c.coalesce()._value is c._value


def test_hybrid():
    rows = np.arange(6.0).reshape(2, 3)
    s = iv.sparse_coo_tensor([[3, 0]], rows, (4, 3))
    expected = np.zeros((4, 3))
    expected[[3, 0]] = rows
    for found, wanted in (
        (s, expected),
        (s.mT, expected.T),
        (s * s, expected**2),
        (s + s.to_layout("csr"), 2 * expected),
        (s @ iv.eye(3), expected),
        (iv.eye(4) @ s, expected),
        (s.sum(axis=1), expected.sum(1)),
        (s.sum(axis=0), expected.sum(0)),
        (s[3], expected[3]),
        (s[:, 1], expected[:, 1]),
        (s.reshape(2, 2, 3), expected.reshape(2, 2, 3)),
        (iv.sparse_mask(held(expected, "csc"), s), expected),
    ):
        np.testing.assert_allclose(checked(found), wanted)
    assert (s @ iv.eye(3))._value.pattern is s._value.pattern


def test_values_of_constructors_differentiate():
    v = iv.asarray([1.0, 2.0, 4.0], requires_grad=True)
    w = iv.asarray(np.arange(4.0).reshape(2, 2))
    s = iv.sparse_coo_tensor([[0, 1, 0], [1, 0, 1]], v, (2, 2))
    np.testing.assert_array_equal(grad((s * s * w).sum(), v).numpy(), [10, 8, 10])
    r = iv.sparse_csr_tensor([0, 1, 2], [1, 0], v[:2], requires_grad=True)
    assert r.is_leaf
    np.testing.assert_array_equal(grad((r.values() * 3.0).sum(), r).numpy(), [[0, 3], [3, 0]])


def test_other_values_on_the_same_pattern():
    s = held(X, "csr")
    v = (s.values() * 2.0).requires_grad_()
    found = iv.with_values(s, v)
    assert found._value.pattern is s._value.pattern
    np.testing.assert_array_equal(grad((found * X).sum(), v).numpy(), X[X != 0])


BAD = [
    (ShapeError, "indices", iv.sparse_coo_tensor, ([0, 1], [1.0, 2.0])),
    (DTypeError, "indices", iv.sparse_coo_tensor, ([[0.5]], [1.0])),
    (ShapeError, "values", iv.sparse_coo_tensor, ([[0, 1]], [1.0])),
    (ShapeError, "shape", iv.sparse_coo_tensor, ([[0, 1]], [1.0, 1.0], (2, 2))),
    (IndexingError, "index 5 on axis 1", iv.sparse_coo_tensor, ([[0], [5]], [1.0], (2, 2))),
    (IndexingError, "index -1", iv.sparse_coo_tensor, ([[0], [-1]], [1.0], (2, 2))),
    (ArgumentError, "indptr", iv.sparse_csr_tensor, ([0, 2, 1], [0], [1.0])),
    (ArgumentError, "indptr", iv.sparse_csr_tensor, ([1, 1], [0], [1.0])),
    (ArgumentError, "increasing", iv.sparse_csr_tensor, ([0, 2], [1, 0], [1.0, 2.0])),
    (ArgumentError, "none twice", iv.sparse_csc_tensor, ([0, 2], [1, 1], [1.0, 2.0])),
    (IndexingError, "index 3", iv.sparse_csr_tensor, ([0, 1], [3], [1.0], (1, 3))),
    (ShapeError, "indptr", iv.sparse_csr_tensor, ([0, 1], [0], [1.0], (2, 3))),
    (ShapeError, "values", iv.sparse_csr_tensor, ([0, 1], [0], 1.0)),
    (ShapeError, "dense axes of values", iv.sparse_csr_tensor, ([0, 1], [0], [[1.0]], (1, 1, 2))),
    (ShapeError, "dense axes of values", iv.sparse_csr_tensor, ([0, 1], [0], [[1.0]], (1, 1))),
    (ShapeError, "values", iv.sparse_bsr_tensor, ([0, 1], [0], [1.0])),
    (ShapeError, "divide", iv.sparse_bsr_tensor, ([0, 1], [0], np.ones((1, 2, 2)), (3, 2))),
    (IndexingError, "index 1 on axis 0", iv.sparse_bsc_tensor, ([0, 1], [1], np.ones((1, 2, 2)), (2, 2))),
    (ArgumentTypeError, "sparse", iv.from_scipy, (np.eye(2),)),
    (ArgumentError, "layout", iv.to_layout, (iv.eye(2), "dia")),
    (ArgumentError, "blocksize", iv.to_layout, (iv.eye(2), "bsr")),
    (ShapeError, "matrix", iv.to_layout, (iv.ones(3), "csr")),
    (ShapeError, "blocks", lambda x: iv.to_layout(x, "bsr", blocksize=(2, 7)), (iv.ones((4, 4)),)),
    (ShapeError, "blocks", lambda x: iv.to_layout(x, "bsc", blocksize=(3, 2)), (iv.ones((4, 4)),)),
    (ArgumentTypeError, "to_sparse", iv.sparse_mask, (iv.eye(2), iv.eye(2))),
    (ShapeError, "pattern", iv.sampled_matmul, (iv.eye(2), iv.eye(2), iv.to_sparse(iv.eye(3)))),
    (ShapeError, "rows", iv.sampled_matmul, (iv.eye(2), iv.eye(3), iv.to_sparse(iv.eye(3)))),
    (IndexingError, "embedding", iv.embedding, (np.array([4]), iv.eye(3))),
    (ArgumentError, "below 0", iv.segment_sum, (iv.ones(2), [0, -1])),
    (IndexingError, "segment_ids", iv.segment_sum, (iv.ones(2), [0, 3], 2)),
    (ShapeError, "segment_ids", iv.segment_sum, (iv.ones(2), [0])),
    (DTypeError, "segment_ids", iv.segment_max, (iv.ones(2), [0.0, 1.0])),
    (ShapeError, "values", iv.with_values, (iv.to_sparse(iv.eye(2)), [1.0])),
    (ShapeError, "address", iv.sparse_coo_tensor, ([[0], [1]], [1.0], (2**32, 2**32))),
    (ShapeError, "spsolve", iv.spsolve, (iv.eye(2), iv.ones((2, 2, 2)))),
]


@pytest.mark.parametrize(("error", "words", "function", "args"), BAD)
def test_errors(error, words, function, args):
    with pytest.raises(error, match=words):
        function(*args)


def test_unchecked_indices_are_taken_as_they_are():
    s = iv.sparse_csr_tensor([0, 1], [1], [2.0], (1, 2), check=False)
    np.testing.assert_array_equal(checked(s), [[0, 2]])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scipy_and_back(layout):
    s = held(X, layout)
    m = s.to_scipy()
    np.testing.assert_array_equal(m.toarray(), X)
    back = iv.from_scipy(m)
    np.testing.assert_array_equal(checked(back), X)
    if layout != "bsc":
        assert back.layout == layout
        assert np.shares_memory(m.data, s._value.values)
        assert np.shares_memory(back._value.values, m.data)
    with pytest.raises(GradientError, match="detach"):
        s.requires_grad_().to_scipy()


def test_scipy_forms_without_a_layout_and_out_of_order():
    np.testing.assert_array_equal(checked(iv.from_scipy(scipy.sparse.lil_array(X))), X)
    m = scipy.sparse.csr_array(
        (np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3)
    )
    np.testing.assert_array_equal(checked(iv.from_scipy(m)), [[2, 0, 4]])
    assert m.nnz == 3
