"""A layout from outside that is on no pattern: some diagonals of a matrix. It has a record and no kernels.

Users ask for it by name; it converts from and to every other layout, differentiates, prints and pickles. What
has no kernel for it makes it dense, and says so.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import grad
from iverson.core.errors import DensifyWarning, ShapeError
from iverson.layouts import Layout, layouts_by_type, register, sparse_layouts, to_strided


class Diagonals:
    """``bands[d]`` holds diagonal ``offsets[d]`` by row, zeros where that has no entry."""

    __slots__ = ("bands", "offsets", "shape")

    def __init__(self, shape: tuple[int, ...], offsets: Any, bands: Any) -> None:
        self.shape, self.offsets, self.bands = shape, offsets, bands

    @property
    def dtype(self) -> Any:
        return self.bands.dtype

    def places(self) -> tuple[Any, Any]:
        """The rows and columns of the bands; columns outside of the matrix are no entries."""
        rows = np.arange(self.shape[0])
        return np.broadcast_to(rows, self.bands.shape), rows + self.offsets[:, None]

    def inside(self) -> Any:
        columns = self.places()[1]
        return (columns >= 0) & (columns < self.shape[1])


def stored(x: Diagonals) -> Any:
    inside = x.inside()
    return tuple(i[inside] for i in x.places()), x.bands[inside]


def dense(x: Diagonals) -> Any:
    out = np.zeros(x.shape, x.dtype)
    index, entries = stored(x)
    out[index] = entries
    return out


def from_coo(x: Any, blocksize: Any) -> Diagonals:
    rows, columns = x.pattern.coordinates
    offsets, at = np.unique(columns.astype(np.int64) - rows, return_inverse=True)
    bands = np.zeros((offsets.size, x.shape[0]), x.dtype)
    bands[at, rows] = x.entries
    return Diagonals(x.shape, offsets, bands)


def check(x: Diagonals) -> None:
    assert x.bands.shape == (x.offsets.size, x.shape[0])
    assert (np.diff(x.offsets) > 0).all()
    assert not x.bands[~x.inside()].any()


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(
        Layout(
            name="diagonals",
            kind=Diagonals,
            to_strided=dense,
            check=check,
            stored=stored,
            buffers=lambda x: (x.bands,),
            rebuild=lambda x, buffers: Diagonals(x.shape, x.offsets, buffers[0]),
            from_coo=from_coo,
            unfit=lambda shape, blocksize: "" if len(shape) == 2 else "a matrix",
        )
    )
    yield
    del layouts_by_type[Diagonals]


X = np.diag([1.0, 2, 3, 4]) + np.diag([5.0, 0, 6], 1) - np.diag([7.0], 3)
NAMES = [layout.name for layout in sparse_layouts()]


@pytest.mark.parametrize("layout", ["strided", "diagonals", *NAMES])
def test_it_converts_from_every_layout_and_back(layout):
    blocks = (2, 4) if layout[0] == "b" else None
    x = iv.asarray(X, requires_grad=True)
    held = x.to_layout(layout, blocksize=blocks)
    found = held.to_layout("diagonals")
    again = found.to_layout(layout, blocksize=blocks)
    assert (found.layout, again.layout) == ("diagonals", layout)
    for made in (found, again, found.to_dense(), found.to_layout("diagonals"), iv.to_sparse(found)):
        value = made.detach()._value
        layouts_by_type[type(value)].check(value)
        np.testing.assert_array_equal(to_strided(value), X)
    with pytest.warns(DensifyWarning, match="no kernel for layout 'diagonals'"):
        g = grad((found * found).sum() + (again * X).sum(), x)
    np.testing.assert_array_equal(to_strided(g._value), 3 * X)


def test_it_is_made_printed_pickled_and_masked():
    x = iv.eye(4, 6, k=2, layout="diagonals")
    assert x._value.offsets.tolist() == [2]
    assert "layout='diagonals'" in repr(x)
    again = pickle.loads(pickle.dumps(x))
    assert again.layout == "diagonals"
    np.testing.assert_array_equal(again.to_dense().numpy(), np.eye(4, 6, k=2))
    m = iv.masked_tensor(X, X != 0)
    np.testing.assert_array_equal(m.to_layout("diagonals").to_tensor(0).to_dense().numpy(), X)
    with pytest.raises(ShapeError, match=r"to_layout.*'diagonals'.*a matrix"):
        iv.zeros((2, 2, 2)).to_layout("diagonals")
