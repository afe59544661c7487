"""Products against SciPy in its own formats and PyTorch's sparse tensors, in every pair of layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import iverson as iv
from iverson.autograd import grad
from tests.sparse.common import LAYOUTS, blocks_for, checked, held, holds

ANY = ("strided", *LAYOUTS)
A, B = holds((4, 6)), holds((6, 2), seed=1)


def of_scipy(x: Any, layout: str) -> Any:
    """The array in SciPy's format of that name, CSC for BSC."""
    if layout == "strided":
        return x
    made = scipy.sparse.coo_array(x)
    return (
        made.tobsr(blocks_for("bsr", x.shape))
        if layout == "bsr"
        else made.asformat(layout.replace("bsc", "csc"))
    )


def dense(x: Any) -> Any:
    return x.toarray() if scipy.sparse.issparse(x) else np.asarray(x)


def ours(x: Any, layout: str) -> Any:
    return iv.asarray(x) if layout == "strided" else held(x, layout)


@pytest.mark.parametrize("of_b", ANY)
@pytest.mark.parametrize("of_a", ANY)
def test_scipy(of_a, of_b):
    a, b, p, q = ours(A, of_a), ours(B, of_b), of_scipy(A, of_a), of_scipy(B, of_b)
    v, w = np.arange(6.0), np.arange(4.0)
    for found, wanted in (
        (a @ b, p @ q),
        (b.mT @ a.mT, q.T @ p.T),
        (a @ v, p @ v),
        (w @ a, p.T @ w),
        ((a @ b) @ (a @ b).mT, (p @ q) @ (p @ q).T),
    ):
        np.testing.assert_allclose(checked(found), dense(wanted), rtol=1e-13, atol=1e-13)
    c, d = ours(holds(seed=2), of_b), of_scipy(holds(seed=2), of_b)
    if "strided" not in (of_a, of_b):
        np.testing.assert_allclose(checked(a + c), dense(p + d), rtol=1e-13)
        np.testing.assert_allclose(checked(a - c), dense(p - d), rtol=1e-13)
        np.testing.assert_allclose(checked(a * c), dense(p * d), rtol=1e-13)


def in_torch(torch: Any, x: Any, layout: str, grad: bool = False) -> Any:
    made = torch.from_numpy(x.copy())
    if layout == "coo":
        made = made.to_sparse()
    elif layout in ("csr", "csc"):
        made = getattr(made, f"to_sparse_{layout}")()
    elif layout != "strided":
        made = getattr(made, f"to_sparse_{layout}")(blocks_for(layout, x.shape[-2:]))
    return made.requires_grad_(grad)


def product(torch: Any, a: Any, b: Any, of_a: str, of_b: str) -> Any:
    """PyTorch's product in these layouts; in CSR where it has none for them."""
    for first, second in (
        (of_a, of_b),
        ("csr" if of_a != "strided" else of_a, "csr" if of_b != "strided" else of_b),
    ):
        try:
            found = in_torch(torch, a, first) @ in_torch(torch, b, second)
        except RuntimeError:
            continue
        return found.to_dense().numpy()
    raise AssertionError("PyTorch has no product to hold this against")


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:Sparse.*beta state:UserWarning")
@pytest.mark.parametrize("of_b", ANY)
@pytest.mark.parametrize("of_a", ANY)
def test_torch(of_a, of_b):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    wanted = product(torch, A, B, of_a, of_b)
    np.testing.assert_allclose(checked(ours(A, of_a) @ ours(B, of_b)), wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:Sparse.*beta state:UserWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sampled_products_and_batches_of_torch(layout):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 3)), rng.standard_normal((3, 6))
    mask = np.where(A != 0, 1.0, 0.0)
    wanted = torch.sparse.sampled_addmm(
        in_torch(torch, mask, "csr"), torch.from_numpy(a), torch.from_numpy(b), beta=0
    )
    found = iv.sampled_matmul(a, b, held(A, layout))
    np.testing.assert_allclose(checked(found)[A != 0], wanted.to_dense().numpy()[A != 0], rtol=1e-13)
    x = np.stack([A, np.roll(A, 1, axis=1), 0 * A])
    right = rng.standard_normal((3, 6, 2))
    p = in_torch(torch, x, "coo", True)
    q = torch.from_numpy(right).requires_grad_()
    wanted = torch.bmm(p, q)
    s = iv.asarray(x).to_layout(layout, blocksize=blocks_for(layout, A.shape)).requires_grad_()
    r = iv.asarray(right, requires_grad=True)
    found = s @ r
    np.testing.assert_allclose(checked(found.detach()), wanted.detach().numpy(), rtol=1e-13, atol=1e-13)
    weights = rng.standard_normal(found.shape)
    (expected,) = torch.autograd.grad(wanted, q, torch.from_numpy(weights))
    np.testing.assert_allclose(checked(grad((found * weights).sum(), r)), expected.numpy(), atol=1e-13)
    # The gradient of the batch itself, over all entries, is that of PyTorch's strided product.
    t = torch.from_numpy(x).requires_grad_()
    (expected,) = torch.autograd.grad(t @ q.detach(), t, torch.from_numpy(weights))
    np.testing.assert_allclose(checked(grad((s @ right * weights).sum(), s)), expected.numpy(), atol=1e-13)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:Sparse.*beta state:UserWarning")
@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_the_batches_of_torch(layout):
    """Its buffers go into our constructors as they are, and come back by one reshape."""
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
    x = (
        np.stack([A, np.roll(A, 1, axis=0)])
        if layout in ("csc", "bsc")
        else np.stack([A, np.roll(A, 1, axis=1)])
    )
    if layout[0] == "b":
        x = np.stack([A, -2 * A])
    theirs = in_torch(torch, x, layout)
    rows = layout in ("csr", "bsr")
    starts = theirs.crow_indices() if rows else theirs.ccol_indices()
    inner = theirs.col_indices() if rows else theirs.row_indices()
    made = getattr(iv, f"sparse_{layout}_tensor")(
        starts.numpy(), inner.numpy(), theirs.values().numpy(), x.shape
    )
    np.testing.assert_array_equal(checked(made), x)
    np.testing.assert_array_equal(
        made.values().numpy().reshape(theirs.values().shape), theirs.values().numpy()
    )
