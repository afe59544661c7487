"""Sparse tensors of rank 0: nothing, one entry or several are stored, and all is as of the dense number."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.errors import ShapeError
from iverson.testing import gradcheck, gradgradcheck
from tests.conformance.product import some, without_subsets

pytestmark = pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
STORED = ([], [3.0], [3.0, 4.0])


def number(values: Any) -> Any:
    return iv.sparse_coo_tensor(np.zeros((0, len(values)), int), np.array(values, float), ())


FUNCTIONS = {
    "product": lambda x: x * x,
    "sum": lambda x: x + x * 2 - iv.asarray(1.0),
    "sin": iv.sin,
    "cos": iv.cos,
    "broadcast": lambda x: iv.broadcast_to(x, (2, 3)) * np.arange(3.0),
    "beside a vector": lambda x: x * iv.ones(3) + x,
    "stack": lambda x: iv.stack([x, 2 * x]),
    "expand": lambda x: iv.expand_dims(x, axis=(0, 1)),
    "reshape": lambda x: iv.reshape(x * x, (1, 1)),
    "index": lambda x: x[None] + x[()],
    "reductions": lambda x: iv.sum(x) + iv.max(x) * iv.mean(x),
    "where": lambda x: iv.where(x > 1, x, 0 * x),
    "outer": lambda x: iv.tensordot(x, np.arange(2.0), axes=0),
    "einsum": lambda x: iv.einsum(",i->i", x, np.arange(2.0)),
    "kron": lambda x: iv.kron(x, np.ones((1, 2))),
    "cast": lambda x: iv.astype(x, "complex128") * 1j,
    "to dense": lambda x: x.to_dense() ** 3,
    "sampled": lambda x: iv.sparse_mask(x.to_dense(), number([1.0])),
}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_of_the_dense_number(name: str, stored: list[float]) -> None:
    f, x = FUNCTIONS[name], number(stored)
    expected = f(iv.asarray(float(sum(stored))))
    for way in some(f"{name} {stored}", (f, iv.jit(f))):
        found = way(x)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.to_dense().numpy(), expected.to_dense().numpy())
    leaf = x.requires_grad_()
    checks = [
        lambda: gradcheck(lambda x: f(x).to_dense(), (leaf,)),
        lambda: gradgradcheck(lambda x: f(x * x).to_dense(), (leaf,), **without_subsets(name)),
    ]
    for check in some(f"{name} {stored} derivative", checks):
        assert check()


@pytest.mark.parametrize("stored", STORED)
def test_what_is_stored(stored: list[float]) -> None:
    x = number(stored)
    assert (x.layout, x.shape, x.ndim, x.nnz) == ("coo", (), 0, len(stored))
    assert (x.item(), float(x), bool(x)) == (sum(stored), sum(stored), bool(stored))
    assert iv.coalesce(x).values().tolist() == ([sum(stored)] if stored else [])
    assert pickle.loads(pickle.dumps(x)).item() == x.item()
    again = iv.to_layout(x.to_dense(), "coo")
    assert (again.layout, again.nnz, again.item()) == ("coo", bool(stored), x.item())
    masked = iv.masked_tensor(x)
    assert masked.get_mask().to_dense().item() is bool(stored)
    assert masked.sum().to_tensor(-1.0).item() == (sum(stored) if stored else -1.0)
    leaf = iv.coalesce(x).requires_grad_()
    grad = iv.autograd.grad((leaf * leaf).sum(), leaf)
    assert (grad.layout, grad.item()) == ("coo", 2 * sum(stored))
    values = iv.autograd.grad((leaf.values() ** 2).sum(), leaf)
    assert values.item() == 2 * sum(stored)


def test_what_a_number_cannot_be() -> None:
    for f in (lambda x: iv.to_layout(x, "csr"), iv.to_scipy):
        with pytest.raises(ShapeError):
            f(number([1.0]))
    with pytest.raises(ShapeError, match="dense axes"):
        iv.sparse_coo_tensor(np.zeros((0, 1), int), np.ones((1, 3)), (3,))
