"""Arrays that are not NumPy's own type: memory maps, matrices, other subclasses, masks of numpy.ma."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.core.errors import ArgumentTypeError

joblib = pytest.importorskip("joblib", reason="comes with scikit-learn, a peer")


class Tagged(np.ndarray):
    """Any other subclass."""


def mapped(array, folder):
    path = folder / "array.npy"
    np.save(path, array)
    return np.load(path, mmap_mode="r")


@pytest.fixture(params=["memmap", "matrix", "other"])
def foreign(request, tmp_path):
    array = np.arange(1.0, 10.0).reshape(3, 3)
    if request.param == "memmap":
        return mapped(array, tmp_path)
    return array.view(np.matrix if request.param == "matrix" else Tagged)


BINARY = {
    "add": lambda a, b: a + b,
    "divide": lambda a, b: a / b,
    "less": lambda a, b: a < b,
    "matmul": lambda a, b: a @ b,
    "in place": lambda a, b: (a.__imul__(b), a)[1] if isinstance(a, iv.Tensor) else a * b,
    "maximum": iv.maximum,
    "where": lambda a, b: iv.where(a > 2, a, b),
    "einsum": lambda a, b: iv.einsum("ij,jk->ki", a, b),
    "concat": lambda a, b: iv.concat([a, b]),
    "index": lambda a, b: iv.asarray(a)[b.astype(int) % 3 if isinstance(b, np.ndarray) else 0],
}


@pytest.mark.parametrize("name", BINARY)
def test_subclasses_are_their_entries(name, foreign):
    """On either side, beside a tensor, a masked and a sparse one: what NumPy's own type gives."""
    plain = np.asarray(foreign)
    others = [iv.asarray(plain[::-1].copy())]
    if name not in ("where", "index"):
        others.append(iv.masked_tensor(plain.copy(), plain > 3))
        others.append(iv.to_layout(iv.asarray(plain.copy()), "csr") if name == "matmul" else others[0])
    for other in others:
        f = BINARY[name]
        with np.errstate(all="ignore"):
            for found, expected in (
                (f(other, foreign), f(other, plain)),
                (f(foreign, other), f(plain, other)),
            ):
                assert type(found) is type(expected)
                assert repr(found) == repr(expected)


def test_subclasses_come_in_everywhere(foreign):
    plain = np.asarray(foreign)
    made = iv.asarray(foreign)
    assert type(made.numpy()) is np.ndarray
    np.testing.assert_array_equal(made.numpy(), plain)
    x = iv.zeros((3, 3))
    x[1:] = foreign[1:]
    np.testing.assert_array_equal(x.numpy()[1:], plain[1:])
    assert repr(iv.masked_tensor(foreign, foreign > 3)) == repr(iv.masked_tensor(plain, plain > 3))
    leaf = iv.asarray(plain.copy(), requires_grad=True)
    (leaf * foreign).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), plain)
    assert iv.sin(foreign).sum() == iv.sin(plain).sum()


def test_unpickled_memory_maps(tmp_path):
    """joblib replaces the arrays of a large pickle by memory maps."""
    values = np.arange(1.0, 200_001.0)
    strided = iv.asarray(values.reshape(400, 500), requires_grad=True)
    made = [
        strided,
        iv.sparse_coo_tensor(np.arange(values.size)[None], values),
        iv.to_layout(strided.detach(), "csr"),
        iv.to_layout(strided.detach(), "bsc", blocksize=(2, 2)),
        iv.masked_tensor(values, values % 2 == 0),
        iv.masked_tensor(iv.to_layout(strided.detach(), "csr")),
    ]
    path = str(tmp_path / "made.joblib")
    joblib.dump(made, path)
    for x, again in zip(made, joblib.load(path, mmap_mode="r"), strict=True):
        assert type(again) is type(x)
        assert again.layout == x.layout
        assert again.requires_grad == x.requires_grad
        assert ((x + x) * x).sum() == ((again + again) * again).sum()
        assert (x.sum(axis=0) == again.sum(axis=0)).all()


MASKED = np.ma.array([1.0, np.nan, 3.0], mask=[False, True, False])


def test_masks_of_numpy_are_read():
    for data in (MASKED, MASKED.view(np.ma.MaskedArray), np.ma.masked_invalid(MASKED.data)):
        for m in (iv.masked_tensor(data), iv.as_masked_tensor(data)):
            assert m.tolist() == [1.0, None, 3.0]
            assert m.sum().item() == 4.0
    assert iv.masked_tensor(MASKED, [True, True, False]).tolist() == [1.0, None, None]
    assert iv.masked_tensor(np.ma.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert iv.masked_tensor(np.ma.masked).tolist() is None
    hidden = np.ma.array([True, True, False], mask=[True, False, False])
    assert iv.masked_tensor([1.0, 2.0, 3.0], hidden).tolist() == [None, 2.0, None]
    leaf = iv.masked_tensor(MASKED, requires_grad=True)
    (leaf * leaf).sum().backward()
    assert leaf.grad.tolist() == [2.0, None, 6.0]


@pytest.mark.parametrize(
    "use",
    [
        iv.asarray,
        iv.sin,
        lambda a: iv.asarray([a, a]),
        lambda a: iv.add(1.0, a),
        lambda a: iv.ones(3) * a,
        lambda a: iv.ones(3).__imul__(a),
        lambda a: iv.ones((3, 3)) @ a,
        lambda a: iv.masked_tensor(iv.ones(3)) - a,
        lambda a: iv.ones(3)[a.filled(0).astype(int).view(np.ma.MaskedArray)],
        lambda a: iv.ones(3).__setitem__(slice(None), a),
        lambda a: iv.concat([iv.ones(3), a]),
        lambda a: iv.segment_sum(iv.ones(3), np.ma.array([0, 1, 1], mask=[1, 0, 0])),
        lambda a: iv.sparse_coo_tensor(np.ma.array([[0, 1, 2]]), iv.ones(3)),
        lambda a: iv.sparse_coo_tensor([[0, 1, 2]], a),
        lambda a: iv.masked_tensor(iv.ones(3)).to_tensor(a),
    ],
)
def test_masks_of_numpy_are_not_dropped(use):
    with pytest.raises(ArgumentTypeError, match=r"numpy\.ma.*masked_tensor.*filled"):
        use(MASKED)


def test_arrays_that_are_not_aligned_are_copied():
    """In the middle of a message, say: else sums would depend in their last bit on where an array lies."""
    x = np.random.default_rng(0).standard_normal((9, 3))
    memory = np.zeros(x.nbytes + 1, np.uint8)
    shifted = memory[1:].view(np.float64).reshape(x.shape)
    shifted[...] = x
    assert not shifted.flags.aligned
    found = iv.asarray(shifted)
    assert found.numpy().flags.aligned
    np.testing.assert_array_equal(found.numpy(), x)
    assert np.shares_memory(iv.asarray(shifted, copy=False).numpy(), shifted)
