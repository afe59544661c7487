"""float16 and bfloat16 in tensors: made, converted, promoted, saved, handed over, refused.

What each op does with them is in tests/conformance/test_half.py.
"""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import linalg, nn, optim
from iverson.core import dtypes
from iverson.errors import DTypeError
from iverson.testing import gradcheck, gradgradcheck

ml_dtypes = pytest.importorskip("ml_dtypes")

HALVES = ("float16", "bfloat16")
half = pytest.mark.parametrize("dtype", HALVES)


def test_the_dtypes_are_those_of_numpy_and_ml_dtypes():
    assert iv.float16 == np.float16
    assert iv.bfloat16 == ml_dtypes.bfloat16
    for d in HALVES:
        assert iv.isdtype(d, "real floating")
        assert iv.isdtype(d, "numeric")
        assert not iv.isdtype(d, ("integral", "complex floating"))
        info, expected = iv.finfo(d), ml_dtypes.finfo(d)
        for name in ("bits", "eps", "max", "min", "smallest_normal", "dtype"):
            assert getattr(info, name) == getattr(expected, name)


def test_without_the_package_there_is_no_bfloat16_and_an_error_says_so():
    code = """
        import sys
        sys.modules["ml_dtypes"] = None
        import iverson as iv
        assert not hasattr(iv, "bfloat16")
        print((iv.ones(2, dtype="float16") * 2).dtype)
        iv.ones(2, dtype="bfloat16")
    """
    ran = subprocess.run([sys.executable, "-c", dedent(code)], check=False, capture_output=True, text=True)
    assert ran.stdout == "float16\n", ran.stderr
    assert "pip install 'iverson[bfloat16]'" in ran.stderr


def test_promotion_is_numpys_and_of_both_halves_float32():
    """bfloat16 as float16, for which NumPy has the rules."""
    for name in [str(d) for d in dtypes.ALL] + [True, 2, 2.0, 2j]:
        expected = np.result_type(np.float16, np.dtype(name) if isinstance(name, str) else name)
        assert iv.result_type("float16", name) == expected
        if name == "float16":
            expected = iv.float32
        assert iv.result_type(iv.bfloat16, name) == ("bfloat16" if expected == np.float16 else expected)
        assert iv.result_type(name, iv.ones(1, dtype="bfloat16")) == iv.result_type("bfloat16", name)
    known = [*map(str, dtypes.ALL), "bfloat16"]
    for a, b in itertools.product(known, known):
        assert iv.can_cast(a, b) == (iv.result_type(a, b) == b), (a, b)
        x, y = iv.ones(2, dtype=a), iv.ones(2, dtype=b)
        assert iv.where(x == y, x, y).dtype == iv.result_type(a, b)


@half
def test_tensors_are_made_converted_and_printed(dtype):
    x = iv.asarray([[1.5, 2.0, -0.25]], dtype=dtype)
    made = iv.zeros(2, dtype=dtype), iv.full(2, 1.5, dtype=dtype), iv.eye(2, dtype=dtype), iv.ones_like(x)
    made = (*made, iv.arange(3, dtype=dtype), iv.linspace(0, 1, 3, dtype=dtype), iv.empty(1, dtype=dtype))
    assert {str(m.dtype) for m in made} == {dtype}
    assert repr(x) == f"iverson.Tensor([[ 1.5 ,  2.  , -0.25]], dtype={dtype})"
    assert x.tolist() == [[1.5, 2.0, -0.25]]
    assert (float(x[0, 0]), f"{x[0, 0]:.2f}") == (1.5, "1.50")
    for other in ("float16", "bfloat16", "float32", "float64", "complex64", "int8", "int64", "bool"):
        expected = np.asarray([[1.5, 2.0, -0.25]]).astype(other)
        found = x.astype(other)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected)
        np.testing.assert_array_equal(
            iv.asarray(expected).astype("float64").astype(dtype), expected.astype(dtype)
        ) if other not in ("complex64",) else None
    assert (x.sum(dtype="float32").dtype, x.mean().dtype) == (iv.float32, iv.asarray(0, dtype=dtype).dtype)


@half
def test_sums_and_products_are_added_up_in_single_precision(dtype):
    """Of 5000 ones, added up in half precision, are 2048 or 256."""
    ones, exact = iv.ones(5000, dtype=dtype), np.asarray(5000.0).astype(dtype)
    assert ones.sum() == exact
    assert iv.cumulative_sum(ones)[-1] == exact
    assert ones @ ones == exact
    assert iv.einsum("i,i->", ones, ones) == exact
    assert nn.linear(ones[None], ones[None])[0, 0] == exact
    assert iv.to_layout(ones[None], "csr").sum() == exact
    assert iv.masked_tensor(ones, ones > 0).sum().to_tensor(0.0) == exact
    large = iv.full(5000, 100.0, dtype=dtype)
    assert linalg.vector_norm(large) == np.asarray(np.sqrt(5000.0) * 100).astype(dtype)
    assert large.mean() == 100


@half
def test_in_place_and_indexed_writes_round_once(dtype):
    x = iv.ones((2, 2), dtype=dtype)
    x += 1
    x *= np.float32(1.5)
    x[0] = 5.0
    x[1, 0] = iv.asarray(2.5)
    assert x.tolist() == [[5.0, 5.0], [2.5, 3.0]]
    assert str(x.dtype) == dtype
    with pytest.raises(DTypeError, match="in-place"):
        x *= 1j


@half
def test_gradients_have_the_dtype_of_the_tensor(dtype):
    p = iv.asarray([1.0, 2.0], dtype=dtype, requires_grad=True)
    w = iv.asarray([3.0, 4.0], dtype="float64", requires_grad=True)
    (iv.exp(p) * w).sum().backward()
    assert (str(p.grad.dtype), w.grad.dtype) == (dtype, iv.float64)
    np.testing.assert_array_equal(
        p.grad.numpy(), (np.exp([1, 2], dtype="f4").astype(dtype) * w.detach().numpy()).astype(dtype)
    )
    cube = lambda x: (x * x * x).sum()
    for f, shape in ((iv.grad(cube), (2,)), (iv.hessian(cube), (2, 2)), (iv.jit(iv.grad(cube)), (2,))):
        assert (f(p).shape, str(f(p).dtype)) == (shape, dtype)
    assert str(iv.jvp(cube, (p,), (p,))[1].dtype) == dtype
    assert str(iv.vmap(iv.exp)(p).dtype) == dtype


@half
def test_gradcheck_refuses_half_precision(dtype):
    p = iv.asarray([1.0, 2.0], dtype=dtype, requires_grad=True)
    for check in (gradcheck, gradgradcheck):
        with pytest.raises(DTypeError, match=rf"{check.__name__}.*inputs\[0\].*{dtype}.*float64"):
            check(iv.sin, (p,))


@half
def test_layouts_masks_and_files_keep_it(dtype, tmp_path):
    dense = iv.asarray([[1.5, 0.0, 3.0], [0.0, 0.0, -1.0]], dtype=dtype)
    held = {name: dense.to_layout(name) for name in ("coo", "csr", "csc")}
    held["masked"] = iv.masked_tensor(dense, dense > 0)
    held["dense"] = dense
    iv.save(tmp_path / "x.npz", held)
    again = iv.load(tmp_path / "x.npz")
    for name, x in held.items():
        for y in (x, again[name], pickle.loads(pickle.dumps(x)), x * 2 / 2, x + x - x):
            assert str(y.dtype) == dtype
            shown = (y.to_tensor(0.0) if name == "masked" else y.to_dense()).numpy()
            np.testing.assert_array_equal(shown, np.where(dense > 0, dense, 0) if name == "masked" else dense)
    assert str((held["csr"] @ dense.T).dtype) == dtype


@half
@pytest.mark.parametrize("layout", ["strided", "coo"])
def test_optimizers_step_in_single_precision_and_keep_their_state_in_half(dtype, layout):
    """As PyTorch and Optax keep it, in the dtype of the parameter."""
    start = iv.asarray([1.0, 2.0, 3.0], dtype=dtype).to_layout(layout)
    for make in (optim.SGD, optim.Adam, optim.RMSprop, optim.Adagrad):
        p, q = (start.astype(d).requires_grad_() for d in (dtype, "float32"))
        steps = make([p], lr=0.25), make([q], lr=0.25)
        for x, step in zip((p, q), steps, strict=True):
            (x * x).sum().backward()
            step.step()
        assert str(p.dtype) == dtype
        np.testing.assert_array_equal(
            p.detach().to_dense().numpy(), q.detach().astype(dtype).to_dense().numpy()
        )
        kept = (steps[0].state_dict()["states"][0] or {}).values()
        assert {str(v.dtype) for v in kept if v.dtype.kind != "i"} <= {dtype}


@half
def test_what_leaves_for_other_libraries(dtype):
    x = iv.asarray([1.5, 2.0], dtype=dtype)
    assert np.asarray(x).dtype == x.numpy().dtype == x.dtype
    if dtype == "float16":
        assert np.from_dlpack(x).dtype == x.dtype
        assert iv.from_dlpack(x).dtype == x.dtype
    else:
        with pytest.raises(BufferError, match=r"bfloat16.*astype\(iverson.float32\)"):
            np.from_dlpack(x)


@half
def test_random_numbers_are_single_ones_rounded(dtype):
    for name in ("random", "normal", "exponential"):
        found, wide = (getattr(iv.random.default_rng(0), name)(size=50, dtype=d) for d in (dtype, "float32"))
        np.testing.assert_array_equal(found.numpy(), wide.numpy().astype(dtype))


@half
def test_matrices_are_not_factorised(dtype):
    x = iv.eye(2, dtype=dtype)
    for f in (linalg.inv, linalg.svd, linalg.eigh, linalg.det, linalg.qr, linalg.cholesky, linalg.pinv):
        with pytest.raises(DTypeError, match=rf"{dtype}.*astype\(iverson.float32\)"):
            f(x)


@pytest.mark.peers
def test_torch_agrees_on_dtypes_sums_and_gradients() -> None:
    torch: Any = pytest.importorskip("torch")
    from iverson.interop.torch import from_torch, to_torch

    rng = np.random.default_rng(0)
    for dtype in HALVES:
        x = torch.tensor(rng.standard_normal((40, 30)), dtype=getattr(torch, dtype), requires_grad=True)
        own = from_torch(x.detach(), requires_grad=True)
        assert torch.equal(to_torch(own.detach()), x.detach())
        for f, g in (
            (lambda v: (v @ v.T).sum(1), lambda v: (v @ v.T).sum(axis=1)),
            (lambda v: (v * 0.1).exp(), lambda v: iv.exp(v * 0.1)),
            (lambda v: torch.softmax(v, 1), lambda v: nn.softmax(v, -1)),
            (lambda v: v.std(0), lambda v: iv.std(v, axis=0, correction=1)),
        ):
            eps = float(iv.finfo(dtype).eps)
            ours, theirs = g(own), f(x)
            assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
            np.testing.assert_allclose(
                ours.detach().astype("float32").numpy(),
                theirs.detach().float().numpy(),
                rtol=4 * eps,
                atol=4 * eps,
            )
