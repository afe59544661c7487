"""Work is counted in every layout: the entries that results hold, their bytes, those of their places."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson import explain
from iverson.autograd import grad
from iverson.core.region import Region
from iverson.layouts import Box, Packed, Zero
from tests.sparse.common import LAYOUTS, held, holds

X = holds()
BLOCK = {"bsr": 6, "bsc": 6}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes_of_values_and_of_new_places(layout):
    s = held(X, layout)
    with explain.count() as work:
        scaled = s * 2.0  # on the pattern of s
    assert dict(work.entries) == {"multiply": s.nnz}
    assert dict(work.bytes) == {"multiply": 8 * s.nnz}
    with explain.count() as work:
        scaled[:, ::2]  # rows may be views
    (entries,), (found,) = work.entries.values(), work.bytes.values()
    assert found >= 8 * entries + 4 * entries // BLOCK.get(layout, 1)  # with an index each
    with explain.count() as work:
        again = iv.with_values(s, s.values().numpy())
        again.reshape((4, 6))
        again.mT.mT
    # Transposed blocks are copied, and coordinates of COO are not those of the operand, there and back.
    copied = {"bsr": 2 * 8 * s.nnz, "bsc": 2 * 8 * s.nnz, "coo": 2 * s.indices().numpy().nbytes}
    assert work.total_bytes == work.bytes["permute_dims"] == copied.get(layout, 0)


def test_bytes_of_a_gradient_are_those_of_what_it_holds():
    """Products with a sparse matrix are not the only ones whose work is seen: everything it holds is."""
    s = held(X, "csr", True)
    with explain.count() as work:
        grad((s * s).sum(), s)
    assert work.entries["add_n"] + work.entries["multiply"] >= 2 * s.nnz
    assert 0 < work.total_bytes < 8 * 40 * s.nnz
    dense = 8 * X.size
    with explain.count() as work:
        s.to_dense()
    assert work.bytes["to_dense"] == dense
    assert work.entries["to_dense"] == X.size


@pytest.mark.parametrize(
    ("value", "entries"),
    [
        (Box((4, 6), Region((1, 2), (3, 4)), np.ones((2, 2))), 4),
        (Packed(X != 0, X[X != 0]), np.count_nonzero(X)),
        (Zero((4, 6), np.dtype("float64")), 0),
    ],
    ids=["box", "packed", "zero"],
)
def test_other_layouts(value, entries):
    with explain.count() as work:
        iv.ops.F.negative(iv.Tensor(value))
    assert dict(work.entries) == {"negative": entries}
    assert work.total_bytes == 8 * entries


def test_a_view_is_no_new_memory_and_a_view_of_new_memory_is():
    x = iv.ones((4, 6))
    with explain.count() as work:
        x[1:].reshape((18,)).reshape((3, 6)).mT
    assert work.total_bytes == 0
    with explain.count() as work:
        iv.take(x, np.array([0, 1]), axis=1)
    assert work.total_bytes == 8 * 8
