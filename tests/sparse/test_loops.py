"""The compiled loops over stored entries, each against SciPy or NumPy; and when they run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

import iverson as iv
from iverson.autograd import grad
from iverson.errors import ArgumentError, IndexingError, ShapeError
from iverson.kernels import strided
from iverson.kernels.sparse import entry_loops, sparse_loops
from iverson.layouts import row_numbers, segment_numbers, segment_starts
from iverson.testing import gradcheck, gradgradcheck
from tests.conformance.product import some
from tests.sparse.common import LAYOUTS, held, holds

KINDS = [("float32", "int32", 3), ("float64", "int64", 16), ("float64", "int32", 37), ("float32", "int64", 1)]


def matrix(dtype, index, shape=(30, 20), density=0.2):
    """A SciPy matrix with empty rows, its indices in a dtype."""
    made = scipy.sparse.csr_array(holds(shape, density, dtype=dtype))
    made.indptr, made.indices = made.indptr.astype(index), made.indices.astype(index)
    return made


def close(found, expected):
    tolerance = 2e-5 if found.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "index", "width"), KINDS)
def test_products(dtype, index, width):
    m, rng = matrix(dtype, index), np.random.default_rng(0)
    a, b = (rng.standard_normal((n, width)).astype(dtype) for n in m.shape)
    close(sparse_loops.rows_times_matrix(m.indptr, m.indices, m.data, b), m @ b)
    rows = np.repeat(np.arange(m.shape[0]), np.diff(m.indptr))
    close(sparse_loops.products_at_entries(m.indptr, m.indices, a, b), (a @ b.T)[rows, m.indices])


@pytest.mark.parametrize(("dtype", "index", "width"), KINDS)
def test_rows_added_at_places(dtype, index, width):
    rng = np.random.default_rng(0)
    ids, g = rng.integers(0, 9, 50).astype(index), rng.standard_normal((50, width)).astype(dtype)
    expected = np.zeros((11, width), dtype)
    np.add.at(expected, ids, g)
    close(sparse_loops.rows_at(ids, g, 11), expected)


@pytest.mark.parametrize("bad", [-1, 11])
def test_a_place_outside_is_an_error_before_anything_is_written(bad):
    with pytest.raises(IndexingError, match="scatter_rows"):
        sparse_loops.rows_at(np.array([0, bad]), np.ones((2, 3)), 11)


@given(counts=st.lists(st.integers(0, 40), min_size=1, max_size=8), seed=st.integers(0, 99))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_segments_of_any_length(dtype, counts, seed):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(counts)])
    x, g = rng.standard_normal((2, starts[-1])).astype(dtype)
    parts = [slice(a, b) for a, b in itertools.pairwise(starts)]
    close(sparse_loops.segment_sum(starts, x), np.array([x[p].sum() for p in parts], dtype))
    y = sparse_loops.segment_softmax(starts, x)
    pulled = sparse_loops.softmax_pullback(starts, y, g)
    for p in parts:
        if p.stop > p.start:
            expected = scipy.special.softmax(x[p])
            close(y[p], expected)
            close(pulled[p], (np.diag(expected) - np.outer(expected, expected)) @ g[p])


@pytest.mark.parametrize("sizes", [(0, 0), (3, 0), (0, 4)])
def test_nothing_stored(sizes):
    starts, x = np.zeros(sizes[0] + 1, np.int64), np.zeros(0)
    np.testing.assert_array_equal(sparse_loops.segment_sum(starts, x), np.zeros(sizes[0]))
    assert sparse_loops.segment_softmax(starts, x).shape == (0,)
    found = sparse_loops.rows_at(np.zeros(0, np.int64), np.zeros((0, 2)), sizes[1])
    np.testing.assert_array_equal(found, np.zeros((sizes[1], 2)))


class Counted:
    """How often each loop over segments ran."""

    def __init__(self, monkeypatch):
        self.runs = dict.fromkeys(("segment_sum", "segment_softmax", "softmax_pullback", "rows_at"), 0)
        for name in self.runs:
            monkeypatch.setattr(sparse_loops, name, self._counting(name, getattr(sparse_loops, name)))

    def _counting(self, name, function):
        def call(*args):
            self.runs[name] += 1
            return function(*args)

        return call


def test_row_softmax_and_its_gradient_are_one_loop_each(monkeypatch):
    monkeypatch.setattr(sparse_loops, "WORTHWHILE_ENTRIES", 0)
    x = holds((12, 9))
    s = held(x, "csr")
    v, g = s.values().requires_grad_(), np.random.default_rng(0).standard_normal(s.nnz)
    counted = Counted(monkeypatch)
    y = iv.segment_softmax(v, s)
    found = grad(y, v, grad_outputs=g).numpy()
    assert counted.runs == {"segment_sum": 0, "segment_softmax": 1, "softmax_pullback": 1, "rows_at": 0}
    whole = np.zeros(x.shape)
    whole[x != 0] = g
    for i in np.flatnonzero((x != 0).any(axis=1)):
        at = x[i] != 0
        p = scipy.special.softmax(x[i][at])
        np.testing.assert_allclose(y.detach().numpy()[s._value.pattern.lines == i], p, rtol=1e-12)
        expected = p * (whole[i][at] - p @ whole[i][at])
        np.testing.assert_allclose(found[s._value.pattern.lines == i], expected, atol=1e-12)


@pytest.mark.parametrize("worthwhile", [0, 1 << 30])
@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x[0] != "b"])
def test_segments_of_a_matrix_differentiate(layout, worthwhile, monkeypatch):
    monkeypatch.setattr(sparse_loops, "WORTHWHILE_ENTRIES", worthwhile)
    s = held(holds((5, 6)), layout)
    v = s.values().requires_grad_()
    for f in some(f"{layout} {worthwhile}", (iv.segment_sum, iv.segment_max, iv.segment_softmax)):
        assert gradcheck(lambda v, f=f: f(v, s)[np.array([0, 2])], (v,))
        assert gradgradcheck(lambda v, f=f: f(v, s)[np.array([0, 2])], (v,))
    sums = np.asarray(scipy.sparse.coo_array(holds((5, 6))).sum(axis=1))
    np.testing.assert_allclose(iv.segment_sum(v, s).detach().numpy(), sums)


def test_segments_out_of_order_are_those_in_order():
    rng = np.random.default_rng(0)
    ids, x = rng.integers(0, 6, 40), rng.standard_normal((40, 3))
    order = np.argsort(ids, kind="stable")
    for f in (iv.segment_sum, iv.segment_max):
        np.testing.assert_allclose(f(x, ids, 7).numpy(), f(x[order], ids[order], 7).numpy(), rtol=1e-12)
    found = iv.segment_softmax(x, ids).numpy()[order]
    np.testing.assert_allclose(found, iv.segment_softmax(x[order], ids[order]).numpy(), rtol=1e-12)


def test_the_rows_of_a_pattern_are_worked_out_once():
    s = held(holds((5, 6)), "csr")
    pattern = s._value.pattern
    rows = row_numbers(pattern)
    assert rows is row_numbers(s.with_values(s.values() * 2)._value.pattern)
    assert segment_starts(rows, 5) is pattern.indptr
    assert segment_starts(row_numbers(held(holds((5, 6)), "csc")._value.pattern), 5) is None


def test_where_segments_start_is_kept_for_numbers_that_nobody_writes_to():
    ids = np.array([0, 0, 2, 3])
    assert segment_starts(ids, 4).tolist() == [0, 2, 2, 3, 4]
    ids[1] = 1
    assert segment_starts(ids, 4).tolist() == [0, 1, 2, 3, 4]
    ids.flags.writeable = False
    kept = segment_starts(ids, 5)
    assert segment_starts(ids, 5) is kept
    assert kept.tolist() == [0, 1, 2, 3, 4, 4]
    known, key = segment_numbers._starts_by_id, id(ids)
    assert key in known
    del ids
    assert key not in known


def test_what_names_no_segments_is_an_error():
    s = held(holds((4, 6)), "csr")
    with pytest.raises(ArgumentError, match=r"segment_sum.*num_segments.*got 7.*expected 4"):
        iv.segment_sum(s.values(), s, 7)
    with pytest.raises(ShapeError, match=r"segment_softmax.*segment_ids.*one number for each slice"):
        iv.segment_softmax(np.ones(s.nnz + 1), s)
    with pytest.raises(ArgumentError, match=r"segment_max.*'bsr'.*to_layout"):
        iv.segment_max(np.ones(3), held(holds((4, 6)), "bsr"))
    with pytest.raises(ShapeError, match=r"segment_sum.*one axis"):
        iv.segment_sum(np.ones(3), np.zeros((3, 1), int))


def test_large_scatters_run_in_a_loop_and_small_ones_need_no_compiler(monkeypatch):
    counted = Counted(monkeypatch)
    ids, g = np.array([3, 1, 3]), np.arange(6.0).reshape(3, 2)
    expected = np.zeros((5, 2))
    np.add.at(expected, ids, g)
    np.testing.assert_array_equal(strided.scatter_add(g, ids, axes=(0,), shape=(5, 2)), expected)
    assert counted.runs["rows_at"] == 0
    monkeypatch.setattr(sparse_loops, "WORTHWHILE_ENTRIES", 0)
    np.testing.assert_array_equal(strided.scatter_add(g, ids, axes=(0,), shape=(5, 2)), expected)
    assert counted.runs["rows_at"] == 1


def test_a_kernel_takes_only_what_its_loops_read():
    assert [b.name for b in entry_loops.segment_softmax("float32", "int32").kernel.buffers] == [
        "rows",
        "x",
        "out",
    ]
    assert [b.name for b in entry_loops.scatter_rows("float32", "int32", 4).kernel.buffers] == [
        "columns",
        "g",
        "out",
    ]
