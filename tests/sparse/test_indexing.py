"""Index arrays, masks and positions of sparse tensors: work that grows with the stored entries."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv

RNG = np.random.default_rng(2)
DENSE = np.where(RNG.random((4, 3, 5)) < 0.4, RNG.standard_normal((4, 3, 5)), 0.0)
KEYS = {
    "a grid of rows": ([[0, 3], [3, 1]],),
    "a grid of columns": (slice(None), [[2, 0], [1, 1]]),
    "two axes": ([0, 3, 0], [2, 1, 2]),
    "two axes apart": ([[0], [3]], slice(None), [4, 1]),
    "broadcast": ([[0], [2]], [0, 1, 2]),
    "none": (np.zeros((0,), int), np.zeros((0,), int)),
    "all axes": ([3, 0], [1, 1], [4, 0]),
}


@pytest.mark.parametrize("name", KEYS)
def test_index_arrays(name):
    """Values and gradients are NumPy's; slices stay sparse."""
    key = KEYS[name]
    s = iv.to_sparse(iv.asarray(DENSE)).requires_grad_()
    x = s[key]
    expected = DENSE[key]
    np.testing.assert_array_equal(x.detach().numpy(), expected)
    assert x.layout == ("strided" if name == "all axes" else "coo")
    weights = RNG.standard_normal(expected.shape)
    g = iv.autograd.grad((x * iv.asarray(weights)).sum(), s)
    wanted = np.zeros(DENSE.shape)
    np.add.at(wanted, key, weights)
    np.testing.assert_allclose(g.numpy(), wanted)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_masks_and_positions(layout):
    n = 100_000
    rows, columns = np.array([5, 0, n - 1]), np.array([7, n - 1, 3])
    s = iv.sparse_coo_tensor(np.stack([rows, columns]), [1.0, -2.0, 3.0], (n, n)).to_layout(layout)
    assert [x.tolist() for x in iv.nonzero(s)] == [[0, 5, n - 1], [n - 1, 7, 3]]
    positive = iv.with_values(s, s.values() > 0)
    assert [x.tolist() for x in iv.nonzero(positive)] == [[5, n - 1], [7, 3]]
    assert s[positive].tolist() == [1.0, 3.0]
    with pytest.raises(iv.errors.IndexingError, match="mask"):
        s[:5][positive]


def test_positions_of_entries_that_are_stored_twice():
    s = iv.sparse_coo_tensor([[2, 0, 2]], [1.0, 5.0, -1.0], (4,))
    assert iv.nonzero(s)[0].tolist() == [0]
    rows = iv.sparse_coo_tensor([[2, 0]], [[1.0, 0.0], [0.0, 3.0]], (4, 2))
    assert [x.tolist() for x in iv.nonzero(rows)] == [[0, 2], [1, 0]]
