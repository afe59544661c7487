"""An op in index notation inside a PyTorch model: a convolution whose weights depend on the place.

Trained by an optimizer of torch, beside the same model in torch alone.
"""

from __future__ import annotations

import pytest

import iverson as iv
from iverson import te

torch = pytest.importorskip("torch", reason="the model is one of PyTorch")
pytestmark = pytest.mark.peers


@te.op
def local_filter(x, w):
    """y[b, i] = sum over k of w[i, k] x[b, i + k]."""
    k = te.reduce_axis((0, w.shape[1]))
    return te.compute((x.shape[0], w.shape[0]), lambda b, i: te.sum(w[i, k] * x[b, i + k], axis=k))


def in_torch(x, w):
    return (x.unfold(1, w.shape[1], 1) * w).sum(2)


@pytest.fixture(scope="module")
def ours():
    from iverson.interop.torch import wrap

    return wrap(local_filter)


def trained(op, seed=0):
    """The losses of some steps of a model with the op between two layers."""
    torch.manual_seed(seed)
    first, last = (torch.nn.Linear(*s, dtype=torch.float64) for s in ((10, 12), (8, 1)))
    w = torch.nn.Parameter(torch.randn(8, 5, dtype=torch.float64) / 5)
    adam = torch.optim.Adam([*first.parameters(), *last.parameters(), w], lr=0.02)
    x = torch.randn(32, 10, dtype=torch.float64)
    y = torch.sin(x).sum(1, keepdim=True)
    losses = []
    for _ in range(40):
        adam.zero_grad()
        loss = ((last(torch.tanh(op(torch.tanh(first(x)), w))) - y) ** 2).mean()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


def test_the_model_trains_as_in_torch_alone(ours):
    losses = trained(ours)
    assert losses == pytest.approx(trained(in_torch), rel=1e-9)
    assert losses[-1] < 0.3 * losses[0]


def test_torch_finds_first_and_second_derivatives_right(ours):
    x, w = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((2, 6), (4, 3)))
    assert torch.autograd.gradcheck(ours, (x, w))
    assert torch.autograd.gradgradcheck(ours, (x, w))


def test_the_op_is_the_same_without_torch(ours):
    x, w = torch.randn(2, 6, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    alone = local_filter(iv.from_dlpack(x), iv.from_dlpack(w))
    torch.testing.assert_close(torch.from_dlpack(alone), ours(x, w))
