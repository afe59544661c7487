"""Masked tensors of sparse ones: the stored pattern is the mask, and work grows with it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import iverson as iv
from iverson.testing import gradcheck, gradgradcheck
from tests.conformance.product import EXHAUSTIVE, without_subsets
from tests.masked.oracle import assert_same

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
DENSE = np.array([[0.0, 1.5, 0.0, 0.0], [2.0, 0.0, 0.7, 0.0], [0.0, 0.0, 0.0, 0.0], [0.4, 3.0, 0.0, 0.0]])
OTHER = np.array([[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0], [0.0, 4.0, 0.0, 0.0], [5.0, 6.0, 0.0, 0.0]])


def sparse(values, layout, **options):
    blocks = {"blocksize": (1, 1)} if layout[0] == "b" else {}
    made = iv.to_layout(iv.asarray(values), layout, **blocks)
    return made.requires_grad_() if options.get("requires_grad") else made


def stored(layout, values=DENSE, requires_grad=False):
    return iv.masked_tensor(sparse(values, layout), requires_grad=requires_grad)


def expected(values=DENSE):
    return np.ma.MaskedArray(values, values == 0)


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


def test_the_pattern_is_shared(layout):
    s = sparse(DENSE, layout)
    m = iv.masked_tensor(s)
    assert m.layout == layout
    assert m.sqrt()._mask.pattern is m.get_mask()._value.pattern is s._value.pattern
    assert m.get_data().layout == layout
    assert_same(m.sqrt() * 2 + 1, np.sqrt(expected()) * 2 + 1)
    assert f"layout={layout!r}" in repr(m)
    assert "--" in repr(m)
    assert pickle.loads(pickle.dumps(m)).tolist() == m.tolist()


def test_a_stored_zero_is_specified():
    m = iv.masked_tensor(iv.sparse_coo_tensor([[0, 2]], [0.0, 3.0], (3,)))
    assert m.tolist() == [0.0, None, 3.0]
    twice = iv.masked_tensor(iv.sparse_coo_tensor([[0, 2, 0]], [1.0, 3.0, 1.0], (3,)))
    assert twice.tolist() == [2.0, None, 3.0]


def test_to_tensor(layout):
    m = stored(layout)
    plain = m.to_tensor(0)
    assert plain.layout == layout
    np.testing.assert_array_equal(plain.numpy(), DENSE)
    np.testing.assert_array_equal(m.to_tensor(7.0).numpy(), np.where(DENSE == 0, 7.0, DENSE))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_sums(layout, axis):
    assert_same(stored(layout).sum(axis=axis), expected().sum(axis=axis))
    assert_same(stored(layout).mean(axis=axis, keepdims=True), expected().mean(axis=axis, keepdims=True))


def test_whole_reductions(layout):
    m = stored(layout)
    for name in ("max", "min", "prod", "std"):
        assert_same(getattr(m, name)(), getattr(expected(), name)())


def test_masks_meet(layout):
    m = stored(layout)
    for other in LAYOUTS:
        n = stored(other, OTHER)
        assert_same(m + n, expected() + expected(OTHER))
        assert (m + n).layout != "strided"
        if layout == other and layout in ("coo", "csr", "csc"):
            assert (m + n).layout == layout
    dense_mask = OTHER != 0
    assert_same(m * iv.masked_tensor(OTHER, dense_mask), expected() * expected(OTHER))
    assert_same(m * iv.asarray(OTHER), expected() * OTHER)
    assert_same(m - iv.ones((1, 4)), expected() - 1)
    row = iv.masked_tensor([[1.0, 2.0, 3.0, 4.0]], [[True, False, True, True]])
    assert_same(m * row, expected() * np.ma.MaskedArray([[1.0, 2.0, 3.0, 4.0]], [[0, 1, 0, 0]]))


def test_products(layout):
    m = stored(layout)
    there = (DENSE != 0).astype(int)
    assert_same(m.T, expected().T)
    assert_same(m @ m.T, np.ma.MaskedArray(DENSE @ DENSE.T, there @ there.T == 0))
    w = np.arange(8.0).reshape(4, 2)
    rows = np.repeat(there.any(axis=1)[:, None], 2, axis=1)
    assert_same(m @ iv.asarray(w), np.ma.MaskedArray(DENSE @ w, ~rows))


def test_masks_given_in_sparse_layouts(layout):
    chosen = sparse(OTHER, layout) if layout == "coo" else sparse(DENSE, layout)
    mask = iv.masked_tensor(chosen).get_mask()
    values = np.where(mask.numpy(), np.arange(16.0).reshape(4, 4), np.nan)
    m = iv.masked_tensor(values, mask)
    assert m.layout == layout
    assert_same(m, np.ma.MaskedArray(values, ~mask.numpy()))
    # Data may be stored elsewhere: an entry is specified where the mask says so.
    assert_same(iv.masked_tensor(sparse(OTHER, "csr"), mask), np.ma.MaskedArray(OTHER, ~mask.numpy()))


def test_dense_trailing_axes():
    s = iv.sparse_coo_tensor([[2, 0]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    m = iv.masked_tensor(s)
    assert m.tolist() == [[3.0, 4.0], [None, None], [1.0, 2.0]]
    assert (m * 2).sum(axis=1).tolist() == [14.0, None, 6.0]
    assert m.to_tensor(0).layout == "coo"
    n = iv.masked_tensor(np.ones((3, 2)), [[True, False], [True, True], [False, True]])
    assert (m + n).tolist() == [[4.0, None], [None, None], [None, 3.0]]
    m.requires_grad_()
    assert gradcheck(lambda m: ((m * n) ** 2, m.sum(axis=0)), (m,))


@pytest.mark.parametrize(
    "f",
    [
        lambda m: iv.log(m) * m,
        lambda m: m.sum(axis=0) ** 2,
        lambda m: m @ m.T @ m,
        lambda m: (m * iv.asarray(OTHER)).to_tensor(0),
        lambda m: m.softmax(axis=1),
        lambda m: m.max(axis=0),
        lambda m: m[1] * m[0, 1],
        lambda m: m * stored("coo", OTHER),
        lambda m: m.mean(axis=1),
    ],
)
def test_gradients(layout, f):
    m = stored(layout, requires_grad=True)
    assert gradcheck(f, (m,), **without_subsets(layout))
    assert gradgradcheck(f, (m,), **without_subsets(layout))
    g = iv.autograd.grad(sum(x.sum() for x in [f(m)]), m)
    assert isinstance(g, iv.MaskedTensor)
    assert g.layout == layout
    assert g._mask.pattern is m._mask.pattern


def test_a_plain_parameter_and_the_values(layout):
    s = sparse(DENSE, layout, requires_grad=True)
    w = iv.asarray([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    (iv.masked_tensor(s) * w).sum().backward()
    assert s.grad.layout == layout
    np.testing.assert_array_equal(s.grad.numpy(), np.where(DENSE == 0, 0, w.detach().numpy()))
    np.testing.assert_array_equal(w.grad.numpy(), DENSE.sum(axis=0))


def test_jacobians_are_in_the_order_of_the_entries(layout):
    m = stored(layout)
    found = iv.jacobian(lambda m: m * m)(m)
    mask = DENSE != 0
    diagonal = np.diag(2 * DENSE.reshape(-1)).reshape(4, 4, 4, 4)
    both = mask[:, :, None, None] & mask
    assert_same(found, np.ma.MaskedArray(diagonal, ~both))


def test_both_semantics_of_a_cubed_matrix(layout):
    """The two Jacobians of PyTorch's pull request 95405, at [[0, 1], [2, 3]]."""
    x = sparse(np.array([[0.0, 1.0], [2.0, 3.0]]), layout, requires_grad=True)

    def foo(x):
        return iv.matmul(iv.matmul(x, x), x)

    for fast in (False, True) if EXHAUSTIVE else (LAYOUTS.index(layout) % 2 == 1,):
        assert gradcheck(foo, (x,), masked=True, fast=fast)
        assert gradgradcheck(foo, (x,), masked=True, fast=fast)
    m = iv.masked_tensor(x.detach())
    found = iv.jacobian(foo)(m).to_tensor(0).to_dense().numpy().reshape(4, 4)
    full = iv.jacobian(foo)(iv.asarray(x.detach().numpy())).numpy().reshape(4, 4).copy()
    full[:, 0] = 0
    np.testing.assert_allclose(found, full)


@pytest.mark.parametrize("layout", ["strided", "coo", "csr"])
def test_adagrad_by_masks(layout):
    """Issue 4: the update as its formula says it, for gradients in any layout."""
    param = iv.astype(iv.arange(8), "float32").reshape(2, 4)
    given = np.zeros((2, 4), np.float32)
    given[0, 2], given[1, 0], given[1, 2] = 3, 4, 5
    masked_grad = iv.masked_tensor(given, given != 0) if layout == "strided" else stored(layout, given)
    state_sum = iv.full((2, 4), 0.5, dtype="float32")
    eps, clr = 1e-10, 0.1
    untouched = given == 0
    for expected_ in ([1.9027, 3.9015, 5.9010], [1.8329, 3.8314, 5.8306]):
        state_sum = state_sum + masked_grad.pow(2).to_tensor(0)
        std = iv.masked_tensor(state_sum, masked_grad.mask())
        std = std.sqrt().add(eps)
        param = param.add((masked_grad / std).to_tensor(0), alpha=-clr)
        assert std.layout == layout
        assert param.dtype == iv.float32
        np.testing.assert_allclose(param.numpy()[~untouched], expected_, atol=6e-5)
        np.testing.assert_array_equal(param.numpy()[untouched], np.arange(8.0).reshape(2, 4)[untouched])


def test_an_empty_last_column():
    """Issue 4: sqrt of a CSR matrix whose last column stores nothing."""
    s = iv.sparse_csr_tensor([0, 1, 2], [0, 1], [4.0, 9.0], (2, 3))
    assert iv.masked_tensor(s).sqrt().tolist() == [[2.0, None, None], [None, 3.0, None]]


def test_large_ones():
    n = 100_000
    s = iv.sparse_coo_tensor(np.array([[0, n - 1], [5, n - 1]]), [1.0, 2.0], (n, n))
    m = iv.masked_tensor(s, requires_grad=True)
    (m.sin() * m + m.T).sum().backward()
    assert m.grad._inner.shape == (2,)
    assert repr(m) == (
        f"iverson.MaskedTensor(shape=({n}, {n}), specified=2, layout='coo', requires_grad=True)"
    )
    assert m.sum(axis=0).get_mask().numpy().sum() == 2
