"""Steps on partial gradients: each entry moves as if it were alone and saw only the steps that touch it."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import optim
from iverson.autograd import grad
from iverson.core.errors import ArgumentError, ShapeError
from tests.optim.test_optimizers import CASES, make

SHAPE = (4, 3, 2)
SIZE = 24


def rows(rng, dtype):
    """Rows with repeats: COO with dense trailing axes, as an embedding's gradient."""
    at = rng.integers(0, 4, 3)
    values = numbers(rng, (3, 3, 2), dtype)
    dense = np.zeros(SHAPE, dtype)
    np.add.at(dense, at, values)
    touched = np.zeros(SHAPE, bool)
    touched[at] = True
    return iv.sparse_coo_tensor(at[None], values, SHAPE), dense, touched


def entries(rng, dtype):
    at = rng.integers(0, (4, 3, 2), (5, 3)).T
    values = numbers(rng, (5,), dtype)
    dense = np.zeros(SHAPE, dtype)
    np.add.at(dense, tuple(at), values)
    touched = np.zeros(SHAPE, bool)
    touched[tuple(at)] = True
    return iv.sparse_coo_tensor(at, values, SHAPE), dense, touched


def box(rng, dtype):
    key = [slice(*sorted(rng.integers(0, n + 1, 2))) for n in SHAPE]
    key = tuple(key[: rng.integers(1, 4)])
    values = numbers(rng, np.empty(SHAPE)[key].shape, dtype)
    dense, touched = np.zeros(SHAPE, dtype), np.zeros(SHAPE, bool)
    dense[key], touched[key] = values, True
    x = iv.zeros(SHAPE, dtype=dtype, requires_grad=True)
    return grad(x[key], x, iv.asarray(values)), dense, touched


def everything(rng, dtype):
    dense = numbers(rng, SHAPE, dtype)
    return iv.asarray(dense), dense, np.ones(SHAPE, bool)


def nothing(rng, dtype):
    x, y = (iv.zeros(SHAPE, dtype=dtype, requires_grad=True) for _ in range(2))
    return grad(y, x, iv.ones(SHAPE, dtype=dtype)), np.zeros(SHAPE, dtype), np.zeros(SHAPE, bool)


def masked(layout):
    def make_gradient(rng, dtype):
        touched = rng.random(SHAPE) < 0.4
        dense = np.where(touched, numbers(rng, SHAPE, dtype), 0)
        unread = np.where(touched, dense, np.nan)
        if layout == "strided":
            return iv.masked_tensor(unread, touched), dense, touched
        at = np.argwhere(touched).T
        order = rng.permutation(at.shape[1])
        return (
            iv.masked_tensor(iv.sparse_coo_tensor(at[:, order], dense[touched][order], SHAPE)),
            dense,
            touched,
        )

    return make_gradient


def picked(rng, dtype):
    """The gradient of a plain parameter in what a mask specifies of it."""
    touched = rng.random(SHAPE) < 0.4
    dense = np.where(touched, numbers(rng, SHAPE, dtype), 0)
    x = iv.zeros(SHAPE, dtype=dtype, requires_grad=True)
    m = iv.masked_tensor(x, touched)
    return grad(m, x, iv.masked_tensor(dense, touched)), dense, touched


def numbers(rng, shape, dtype):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


PARTIAL = {
    "rows": rows,
    "entries": entries,
    "box": box,
    "everything": everything,
    "nothing": nothing,
    "masked strided": masked("strided"),
    "masked coo": masked("coo"),
    "picked by a mask": picked,
}


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=12, deadline=None)
@given(kinds=st.lists(st.sampled_from(sorted(PARTIAL)), min_size=1, max_size=6), seed=st.integers(0, 999))
def test_each_entry_moves_as_a_parameter_of_its_own(name, dtype, kinds, seed):
    rng = np.random.default_rng(seed)
    start = numbers(rng, SHAPE, dtype)
    whole = iv.asarray(start, copy=True, requires_grad=True)
    alone = [iv.asarray(x, copy=True, requires_grad=True) for x in start.reshape(-1)]
    of_whole, of_alone = make(name, [whole]), [make(name, [x]) for x in alone]
    for kind in kinds:
        gradient, dense, touched = PARTIAL[kind](rng, dtype)
        of_whole.step([gradient])
        for k in np.flatnonzero(touched):
            of_alone[k].step([iv.asarray(dense.reshape(-1)[k])])
    expected = np.array([x.detach().numpy() for x in alone]).reshape(SHAPE)
    np.testing.assert_allclose(whole.detach().numpy(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", [(), (5,), (40_000,)])
def test_masks_and_lists_over_one_axis_or_none(name, shape):
    """Lists longer than a piece too."""
    rng = np.random.default_rng(0)
    start, g, mask = rng.standard_normal(shape), rng.standard_normal(shape), rng.random(shape) < 0.6
    gradients = [iv.masked_tensor(np.where(mask, g, np.nan), mask)]
    x = iv.zeros(shape, requires_grad=True)
    gradients.append(grad(iv.masked_tensor(x, mask), x, gradients[0]))
    if shape:
        (at,) = np.nonzero(mask)
        gradients.append(iv.sparse_coo_tensor(at[None, ::-1], g[mask][::-1], shape))
    expected = iv.asarray(start, copy=True, requires_grad=True)
    make(name, [expected]).step([iv.asarray(g)])
    for gradient in gradients:
        p = iv.asarray(start, copy=True, requires_grad=True)
        make(name, [p]).step([gradient])
        moved = np.where(mask, expected.detach().numpy(), start)
        # Entries are of order 1 before a step, and may be almost 0 after it.
        np.testing.assert_allclose(p.detach().numpy(), moved, rtol=1e-14, atol=1e-16)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("name", ["sgd", "adagrad"])
def test_rows_against_torch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    kind, options = {"sgd": ("SGD", {"lr": 0.1}), "adagrad": ("Adagrad", {"lr": 0.1})}[name]
    rng = np.random.default_rng(0)
    start = rng.standard_normal((6, 3))
    ours, theirs = iv.asarray(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    a, b = getattr(optim, kind)([ours], **options), getattr(torch.optim, kind)([theirs], **options)
    for _ in range(5):
        at, values = rng.integers(0, 6, 4), rng.standard_normal((4, 3))
        a.step([iv.sparse_coo_tensor(at[None], values, (6, 3))])
        theirs.grad = torch.sparse_coo_tensor(at[None], values, (6, 3))
        b.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_rows_touched_at_every_step_move_as_in_torch_sparse_adam():
    """Where every step touches a row, its own number of steps is the number of steps."""
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    start = np.random.default_rng(0).standard_normal((6, 3))
    ours, theirs = iv.asarray(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    a, b = optim.Adam([ours], lr=0.1, eps=1e-99), torch.optim.SparseAdam([theirs], lr=0.1, eps=1e-99)
    for k in range(5):
        values = np.full((3, 3), k - 1.5)
        a.step([iv.sparse_coo_tensor([[4, 1, 4]], values, (6, 3))])
        theirs.grad = torch.sparse_coo_tensor([[4, 1, 4]], values, (6, 3))
        b.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_a_masked_parameter_moves_at_its_specified_entries(name):
    data, mask = np.array([[1.0, np.nan], [3.0, -4.0]]), np.array([[True, False], [True, True]])
    m = iv.masked_tensor(data, mask, requires_grad=True)
    vector = iv.asarray(data[mask], requires_grad=True)
    opt, plain = make(name, {"m": m}), make(name, [vector])
    for _ in range(3):
        opt.zero_grad()
        (m * m).sum().backward()
        assert isinstance(m.grad, iv.MaskedTensor)
        opt.step()
        plain.step([2 * vector.detach()])
    np.testing.assert_array_equal(m.detach().to_tensor(0).numpy()[mask], vector.detach().numpy())
    opt.step({"m": iv.masked_tensor(np.where(mask, 1.0, np.nan), mask)})
    with pytest.raises(ShapeError, match="got shape"):
        opt.step([iv.ones(3)])


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_a_sparse_parameter_moves_within_what_it_stores(layout):
    dense = np.array([[0.0, 1, 0, 2], [3, 0, 4, 0]])
    blocks = (1, 2) if layout[0] == "b" else None
    s = iv.to_layout(iv.asarray(dense), layout, blocksize=blocks).detach().requires_grad_()
    opt = optim.Adagrad([s], lr=0.1)
    reference = iv.asarray(dense, copy=True, requires_grad=True)
    other = optim.Adagrad([reference], lr=0.1)
    for _ in range(2):
        opt.zero_grad()
        (s * s).sum().backward()
        assert s.grad.layout == layout
        opt.step()
        other.step([2 * reference.detach()])
    assert s.layout == layout
    np.testing.assert_array_equal(s.detach().to_dense().numpy(), reference.detach().numpy())
    few = iv.sparse_coo_tensor([[1, 1], [0, 0]], [1.0, 1.0], (2, 4))
    before = s.detach().to_dense().numpy()
    optim.SGD([s], lr=1.0).step([few])
    np.testing.assert_array_equal((s.detach().to_dense().numpy() - before)[1, 0], -2.0)
    assert np.count_nonzero(s.detach().to_dense().numpy() != before) == 1


def test_a_sparse_parameter_refuses_what_it_does_not_store():
    s = iv.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2), requires_grad=True)
    opt = optim.SGD([s], lr=0.1)
    with pytest.raises(ArgumentError, match=r"not sparse, for a parameter.*to_dense"):
        opt.step([iv.ones((2, 2))])
    with pytest.raises(ArgumentError, match=r"gradients\[0\].*1 entries that the parameter does not store"):
        opt.step([iv.sparse_coo_tensor([[0, 0], [0, 1]], [1.0, 1.0], (2, 2))])
    np.testing.assert_array_equal(s.detach().values().numpy(), [1.0, 2.0])


def test_nothing_moves_when_one_gradient_of_several_does_not_fit():
    a, b = iv.asarray([1.0], requires_grad=True), iv.asarray([1.0], requires_grad=True)
    with pytest.raises(ShapeError):
        optim.SGD([a, b], lr=0.1).step([iv.ones(1), iv.ones(2)])
    assert a.item() == 1.0


@pytest.mark.parametrize("name", CASES)
def test_a_step_on_rows_takes_the_memory_of_rows(name):
    """After the first step, which makes the state, no array of the table's size is made again."""
    table = iv.asarray(np.zeros((20_000, 16)), copy=True, requires_grad=True)
    opt = make(name, [table])
    peaks = []
    address = None
    for k in range(4):
        indices = iv.asarray(np.array([5, 19_999, 5, 7 + k]))
        iv.embedding(indices, table).square().sum().backward()
        assert table.grad.layout == "coo"
        tracemalloc.start()
        opt.step()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        opt.zero_grad()
        if address is not None:
            assert table.detach().numpy().ctypes.data == address
        address = table.detach().numpy().ctypes.data
    assert max(peaks[1:]) < 50_000 < table.nbytes
    assert all(a >= b for a, b in pairwise(peaks[:2]))


def test_state_of_a_partial_step_survives_a_state_dict():
    def run(again):
        p = iv.asarray(np.ones((4, 2)), copy=True, requires_grad=True)
        opt = optim.Adam([p], lr=0.1)
        opt.step([iv.sparse_coo_tensor([[1]], [[1.0, 2.0]], (4, 2))])
        if again:
            fresh = optim.Adam([p], lr=0.1)
            fresh.load_state_dict(opt.state_dict())
            opt = fresh
        opt.step([iv.ones((4, 2))])
        return p.detach().numpy()

    np.testing.assert_array_equal(run(True), run(False))
