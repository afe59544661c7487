"""Which memory is shared, and that a write reaches exactly what the documentation says it reaches."""

from __future__ import annotations

import copy
import operator
import warnings

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import iverson as iv
from iverson import optim
from iverson.autograd import backward, grad, no_grad
from iverson.core.errors import ArgumentError, ViewWarning

PARTS = {
    "part": (lambda x: x[..., 1:], lambda a: a[..., 1:]),
    "row": (lambda x: x[0], lambda a: a[0]),
    "reversed": (lambda x: x[..., ::-1], lambda a: a[..., ::-1]),
    "entries": (lambda x: x[..., [0, 0]], lambda a: a[..., [0, 0]]),
    "flat": (lambda x: x.reshape(-1), lambda a: a.reshape(-1)),
    "detached": (lambda x: x.detach(), lambda a: a),
    "itself": (lambda x: x, lambda a: a),
    "positive": (operator.pos, lambda a: a),
    "asarray": (iv.asarray, lambda a: a),
    "copied": (copy.copy, lambda a: a),
    "deeply": (copy.deepcopy, lambda a: a),
    "real": (lambda x: x.real, lambda a: a),
    "wide": (lambda x: iv.broadcast_to(x, (2, *x.shape)), lambda a: np.broadcast_to(a, (2, *a.shape))),
}


def _assigned(x, index):
    y = 1 * x
    y[index] = 5.0
    return y


INDEXED = {
    "rows": lambda x, i: x[i],
    "a tensor": lambda x, i: x[iv.asarray(i)],
    "entries": lambda x, i: x[i, 0],
    "columns of the transpose": lambda x, i: x.T[:, i],
    "mesh": lambda x, i: x[i[:, None], [0, 1]],
    "assigned": _assigned,
    "take": lambda x, i: iv.take(x, i, axis=0),
    "take_along_axis": lambda x, i: iv.take_along_axis(x, i[:, None], axis=0),
    "embedding": lambda x, i: iv.embedding(i, x),
    "segment_sum": lambda x, i: iv.segment_sum(x, i, 3),
    "repeat": lambda x, i: iv.repeat(x, i, axis=0),
}


class OldConsumer:
    """Takes DLPack as before there was a flag for read-only memory."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__()

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


EXPORTS = {
    "numpy": lambda x: x.numpy(),
    "asarray": np.asarray,
    "array": np.array,
    "other dtype": lambda x: np.asarray(x, np.float32),
    "dlpack": np.from_dlpack,
    "dlpack copy": lambda x: np.from_dlpack(x, copy=True),
    "old dlpack": lambda x: np.from_dlpack(OldConsumer(x)),
}

names = st.integers(0, 63)
numbers = st.integers(-9, 9).map(float)


class Sharing(RuleBasedStateMachine):
    """Tensors are values: each is held beside a NumPy array that shares nothing with any other."""

    def __init__(self):
        super().__init__()
        self.tensors, self.given, self.exports, self.losses = [], [], [], []

    @initialize()
    def start(self):
        self.add(iv.zeros((2, 3)), np.zeros((2, 3)))

    def add(self, x, expected):
        self.tensors.append((x, np.array(expected)))
        del self.tensors[:-8]

    def pick(self, k):
        return k % len(self.tensors)

    @rule(held=st.booleans(), view=st.booleans())
    def array(self, held, view):
        n = np.arange(12.0).reshape(2, 6)
        n = n[:, ::2] if view else n[:, :3].copy()
        self.add(iv.asarray(n), n)
        if held:
            self.given.append((n, n.copy()))

    @rule(k=names, name=st.sampled_from(sorted(PARTS)))
    def part(self, k, name):
        x, expected = self.tensors[self.pick(k)]
        if x.ndim and x.size and x.ndim < 4:
            made, model = PARTS[name]
            found = made(x)
            if found is not x:
                self.add(found, model(expected))

    @rule(k=names, v=numbers)
    def assign(self, k, v):
        x, expected = self.tensors[self.pick(k)]
        if x.ndim:
            x[..., -1:] = v
            expected[..., -1:] = v

    @rule(k=names, other=names)
    def assign_tensor(self, k, other):
        x, expected = self.tensors[self.pick(k)]
        value, model = self.tensors[self.pick(other)]
        if x.shape == value.shape:
            x[...] = value
            expected[...] = model.copy()

    @rule(k=names, v=numbers)
    def add_in_place(self, k, v):
        k = self.pick(k)
        x, expected = self.tensors[k]
        x += v
        expected += v

    @rule(k=names, name=st.sampled_from(sorted(EXPORTS)))
    def export(self, k, name):
        x, expected = self.tensors[self.pick(k)]
        if not x.requires_grad:
            found = EXPORTS[name](x)
            self.exports.append((found, found.copy()))
            np.testing.assert_array_equal(found, expected)
            del self.exports[:-8]

    @rule(k=names, v=numbers)
    def write_export(self, k, v):
        """What left and can be written to is the user's own."""
        if self.exports:
            array, expected = self.exports[k % len(self.exports)]
            if array.flags.writeable:
                array[...] = v
                expected[...] = v

    @rule(k=names)
    def record(self, k):
        """What is recorded with a value keeps that value."""
        x, expected = self.tensors[self.pick(k)]
        w = iv.ones(x.shape, requires_grad=True)
        self.losses.append((w, (w * x.detach()).sum(), expected.copy()))
        del self.losses[:-4]

    @rule(k=names, ours=st.booleans())
    def gradients(self, k, ours):
        """Two gradients that are the seed itself, and the user's seed."""
        _, expected = self.tensors[self.pick(k)]
        a, b = (iv.zeros(expected.shape, requires_grad=True) for _ in range(2))
        seed = iv.asarray(expected.copy()) if ours else expected.copy()
        backward(a + b, seed)
        for g in (a.grad, b.grad):
            self.add(g, expected)
        if ours:
            self.add(seed, expected)
        else:
            self.exports.append((seed, expected.copy()))

    @rule(k=names)
    def step(self, k):
        """A step of an optimizer on a parameter that shares memory."""
        x, expected = self.tensors[self.pick(k)]
        p = x.detach().requires_grad_()
        optim.SGD([p], lr=1.0).step([iv.ones(x.shape)])
        self.add(p.detach(), expected - 1.0)

    @invariant()
    def values_are_as_written(self):
        for x, expected in self.tensors:
            np.testing.assert_array_equal(x.detach().numpy(), expected)
        for array, expected in self.given + self.exports:
            np.testing.assert_array_equal(array, expected)

    def teardown(self):
        for w, loss, expected in self.losses:
            np.testing.assert_array_equal(iv.autograd.grad(loss, w).numpy(), expected)


Sharing.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
test_writes_reach_what_they_name = Sharing.TestCase


def test_what_an_array_and_its_tensor_share():
    n = np.arange(4.0)
    x = iv.asarray(n)
    part, copied = x[1:], iv.asarray(n, copy=True)
    n[1] = 7.0  # into the array: seen, by parts too
    assert (x[1].item(), part[0].item(), copied[1].item()) == (7.0, 7.0, 1.0)
    x[0] = 5.0  # into the tensor: never, and from then on they share nothing
    assert n[0] == 0.0
    n[2] = 9.0
    assert (x[2].item(), part[1].item()) == (2.0, 2.0)
    for other in (
        iv.asarray(n, dtype="float32"),
        iv.asarray(n.astype(">f8")),
        iv.asarray(list(n)),
        iv.asarray(n.astype(bool)),
    ):
        assert not np.may_share_memory(other.numpy(), n)
    # A parameter on the user's memory: a step is a write into the tensor.
    p = iv.asarray(n).requires_grad_()
    optim.SGD([p], lr=1.0).step([iv.ones(4)])
    assert n.tolist() == [0.0, 7.0, 9.0, 3.0]


def test_transforms_read_arrays_once():
    n = np.array([1.0, 2.0])
    value, pull = iv.vjp(lambda x: x * x, n)
    seed = np.ones(2)
    (g,) = pull(seed)
    seed[:] = n[:] = 0.0
    assert value.tolist() == [1.0, 4.0]
    assert g.tolist() == pull(np.ones(2))[0].tolist() == [2.0, 4.0]


def test_what_leaves_cannot_be_written_or_is_a_copy():
    x = iv.zeros((3, 3))
    s = x.to_sparse()
    m = iv.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,)).reshape(1, 3)
    assert not x.numpy().flags.writeable
    assert not s.numpy().flags.writeable
    assert np.array(x).flags.writeable
    assert np.shares_memory(np.from_dlpack(x), x.numpy())
    shared = x[1:]
    assert not np.shares_memory(np.from_dlpack(x), x.numpy())
    assert np.shares_memory(np.from_dlpack(shared, copy=False), x.numpy())
    assert not np.from_dlpack(shared, copy=False).flags.writeable
    with pytest.raises(ArgumentError, match="copy"):
        np.from_dlpack(x[::-1], copy=False)
    with pytest.raises(ArgumentError, match="copy"):
        np.asarray(s, copy=False)
    for layout in ("coo", "csr", "csc"):
        scipy = iv.to_scipy(m.to_layout(layout))
        parts = [scipy.data, *(scipy.coords if layout == "coo" else (scipy.indices, scipy.indptr))]
        assert not any(part.flags.writeable for part in parts if part.size)
        assert (scipy @ np.ones(3)).sum() == 3.0


@pytest.mark.parametrize("wrong", [1, 2**62])
@pytest.mark.parametrize("name", INDEXED)
def test_whoever_writes_into_an_index_later_changes_no_gradient(name, wrong):
    """Not to another place, nor to one that does not exist: indices are checked once, and then trusted."""
    function, index = INDEXED[name], np.array([0, 0, 2])
    x = iv.asarray(np.arange(1.0, 7.0).reshape(3, 2), requires_grad=True)
    expected = grad((function(x, index.copy()) ** 2).sum(), x).to_dense()
    y = function(x, index)
    index[:] = wrong
    np.testing.assert_array_equal(grad((y**2).sum(), x).to_dense(), expected)


@pytest.mark.peers
def test_a_peer_that_writes_reaches_no_gradient():
    torch = pytest.importorskip("torch", reason="PyTorch is a peer")
    a, b = iv.zeros(3, requires_grad=True), iv.zeros(3, requires_grad=True)
    seed = iv.ones(3)
    backward(a + b, seed)
    torch.from_dlpack(a.grad)[:] = 0.0
    assert a.grad.tolist() == b.grad.tolist() == seed.tolist() == [1.0] * 3


def test_a_write_into_a_temporary_warns_at_the_users_line():
    y, tracked = iv.zeros((2, 3)), iv.ones((2, 3), requires_grad=True) * 2
    masked = iv.masked_tensor(iv.zeros((2, 3)), np.eye(2, 3, dtype=bool))
    sparse = iv.eye(3).to_sparse()
    n = np.zeros(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y.flatten()[0] = 5.0
        iv.reshape(y, (3, 2), copy=True)[0, 0] = 5.0
        (y + 1)[0, 0] = 5.0
        y.detach()[0, 0] = 5.0
        y[[0, 1]][0] = 5.0
        y[y == 0][0] = 5.0
        tracked.detach()[0, 1] = 5.0
        masked.get_data()[0, 0] = 5.0
        sparse.values()[0] = 5.0
        iv.asarray(n)[0] = 5.0
    assert [w.category for w in caught] == [ViewWarning] * 10
    assert {w.filename for w in caught} == {__file__}
    assert len({w.lineno for w in caught}) == 10
    assert "write y[[0, 1], 2] = 5" in str(caught[0].message)
    assert not y.numpy().any()
    assert not n.any()


def test_a_write_that_somebody_can_read_does_not_warn():
    class Model:
        def __init__(self):
            self.w = iv.zeros((2, 3))

    model, listed, y = Model(), [iv.zeros((2, 3))], iv.zeros((2, 3))
    model.w[0] = 1.0
    model.w[0] += 1.0
    listed[0][0] = 1.0
    y[0] += 1.0
    y[0, 1] = 5.0
    r = y[0]
    r[1] = 7.0
    row = y[1]
    row += 1.0
    operator.setitem(y, (0, 0), 3.0)
    y.__setitem__((0, 0), 3.0)
    w = iv.zeros(2, requires_grad=True)
    (w * 2.0).sum().backward()
    w.grad[0] = 0.0
    with no_grad():
        w[0] = 1.0
    m = iv.masked_tensor([1.0, 2.0], [True, True])
    m[0] = 3.0
    m[0] += 1.0
    w.register_hook(lambda g: operator.setitem(g, 0, 1.0))
    (w * 2.0).sum().backward()
    assert (model.w[0, 0].item(), listed[0][0, 0].item(), r[1].item()) == (2.0, 1.0, 7.0)
    assert y.tolist() == [[3.0, 7.0, 1.0], [1.0] * 3]
    assert w.grad.tolist() == [2.0, 4.0]
