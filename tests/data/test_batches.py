"""Minibatches: every row once in a pass, aligned over the tree, in NumPy's slices."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.data import batches


@pytest.mark.parametrize("count", [*range(18), 100])
@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("shuffled", [False, True])
def test_each_row_is_in_one_batch(count, size, shuffled):
    x = np.arange(count * 2.0).reshape(count, 2)
    data = {"x": iv.asarray(x), "y": [np.arange(count)]}
    rng = iv.random.default_rng(0) if shuffled else None
    parts = batches(data, size, rng)
    assert len(parts) == -(-count // size)
    passes = []
    for _ in range(2):
        found = list(parts)
        assert len(found) == len(parts)
        assert all(isinstance(b["x"], iv.Tensor) and b["x"].shape[0] <= size for b in found)
        rows = np.concatenate([b["y"][0].numpy() for b in found]) if found else np.arange(0)
        np.testing.assert_array_equal(np.sort(rows), np.arange(count))
        if found:
            np.testing.assert_array_equal(np.concatenate([b["x"].numpy() for b in found]), x[rows])
        passes.append(rows)
    if count > 15:
        assert (passes[0] == passes[1]).all() != shuffled


def test_the_last_batch():
    x = iv.asarray(np.arange(7.0))
    assert [b.shape for b in batches(x, 3)] == [(3,), (3,), (1,)]
    dropped = batches(x, 3, drop_last=True)
    assert len(dropped) == len(list(dropped)) == 2
    padded = list(batches({"x": x}, 3, pad=True))
    assert [b["x"].shape for b, _ in padded] == [(3,)] * 3
    np.testing.assert_array_equal(padded[-1][0]["x"].numpy(), [6.0, 0.0, 0.0])
    np.testing.assert_array_equal(padded[-1][1].numpy(), [True, False, False])
    assert batches(x, 3).__repr__() == "Batches(3 of up to 3 rows, of 7)"


def test_rows_of_sparse_tensors_and_progress():
    s = iv.asarray(np.diag(np.arange(1.0, 6.0))).to_layout("csr")
    found = list(batches((s, np.arange(5)), 2, progress=True))
    np.testing.assert_array_equal(found[1][0].to_dense().numpy(), np.diag(np.arange(1.0, 6.0))[2:4])


def test_a_compiled_step_is_compiled_once_for_padded_batches():
    step = iv.jit(lambda x, mask: iv.where(mask, x, 0.0).sum())
    total = sum(step(x, mask).item() for x, mask in batches(np.arange(11.0), 4, pad=True))
    assert total == 55.0
    assert step.cache_size == 1


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        (([iv.ones(3), iv.ones(2)], 1), {}, r"\[2, 3\] rows"),
        ((iv.ones(3), 0), {}, "batches: argument 'size': got 0"),
        ((iv.ones(3), 1, 5), {}, "batches: argument 'rng'"),
        ((iv.asarray(1.0), 1), {}, "rank 0"),
        ((["text"], 1), {}, "leaf 0"),
        ((iv.masked_tensor([1.0], [True]), 1), {}, "the entries and the mask"),
        ((iv.ones(3), 1), {"pad": True, "drop_last": True}, "one of them"),
    ],
)
def test_errors(args, options, message):
    with pytest.raises(iv.errors.IversonError, match=message):
        batches(*args, **options)
