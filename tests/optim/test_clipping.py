"""Bounds on gradients: PyTorch's numbers, in the layouts that gradients have."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson import optim
from iverson.errors import ArgumentError, ArgumentTypeError, GradientError

SIZE = 10**6


def leaves():
    """Parameters whose gradients are dense, rows with repeats, a box, a pattern of a huge matrix, masked."""
    rng = np.random.default_rng(0)
    dense, rows, box = (iv.asarray(rng.standard_normal((5, 3)), requires_grad=True) for _ in range(3))
    at = np.array([[0, SIZE - 1], [7, 3]])
    pattern = iv.sparse_coo_tensor(at, rng.standard_normal(2), (SIZE, SIZE), requires_grad=True)
    mask = np.array([True, False, True])
    masked = iv.masked_tensor(np.where(mask, rng.standard_normal(3), np.nan), mask, requires_grad=True)
    unused = iv.ones(2, requires_grad=True)
    loss = (dense**3).sum() + (iv.embedding(np.array([1, 3, 1]), rows) ** 2).sum() + (box[1:2] ** 2).sum()
    loss = loss + (pattern * pattern).sum() + (masked**2).sum().to_tensor(0)
    loss.backward()
    held = {"dense": dense, "rows": rows, "box": box, "pattern": pattern, "masked": masked, "unused": unused}
    return held, {k: entries(p.grad) for k, p in held.items() if p.grad is not None}


def entries(g):
    """The entries of a gradient that are stored, or exist, each once."""
    if isinstance(g, iv.MaskedTensor):
        return g.to_tensor(0).numpy()
    if g.layout == "coo" and g.shape[0] == SIZE:
        return g.coalesce().values().numpy()
    return g.to_dense().numpy()


@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, float("inf")])
def test_the_norm_is_that_of_all(order):
    held, before = leaves()
    layouts = {k: p.grad.layout for k, p in held.items() if p.grad is not None}
    wanted = np.linalg.norm(np.concatenate([g.ravel() for g in before.values()]), order)
    found = optim.clip_grad_norm_(held, 0.5, order)
    np.testing.assert_allclose(found.item(), wanted, rtol=1e-12)
    for k, g in before.items():
        assert held[k].grad.layout == layouts[k]
        np.testing.assert_allclose(entries(held[k].grad), g * (0.5 / (wanted + 1e-6)), rtol=1e-12)
    assert held["unused"].grad is None
    optim.clip_grad_norm_(held.values(), 1e9, order)
    for k, g in before.items():
        np.testing.assert_allclose(entries(held[k].grad), g * (0.5 / (wanted + 1e-6)), rtol=1e-12)


def test_values():
    held, before = leaves()
    optim.clip_grad_value_((p for p in held.values()), 0.5)
    for k, g in before.items():
        np.testing.assert_allclose(entries(held[k].grad), np.clip(g, -0.5, 0.5), rtol=1e-14)


@pytest.mark.peers
@pytest.mark.parametrize("order", [2.0, float("inf")])
def test_against_torch(order):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in ((3, 2), (4,))]
    ours = [iv.asarray(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    for p, t, a in zip(ours, theirs, arrays, strict=True):
        p.grad, t.grad = iv.asarray(a**2), torch.tensor(a**2)
    a = optim.clip_grad_norm_(ours, 1.5, order)
    b = torch.nn.utils.clip_grad_norm_(theirs, 1.5, order)
    assert a.item() == pytest.approx(b.item(), rel=1e-12)
    for p, t in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), t.grad.numpy(), rtol=1e-12)


def test_a_compiled_step_clips():
    def trained(compiled):
        p = iv.asarray([3.0, 4.0], requires_grad=True)
        opt = optim.SGD([p], lr=1.0)

        def step():
            opt.zero_grad()
            (p * p).sum().backward()
            optim.clip_grad_norm_([p], 1.0)
            opt.step()
            opt.zero_grad()

        run = iv.jit(step) if compiled else step
        for _ in range(3):
            run()
        return p.detach().numpy()

    np.testing.assert_allclose(trained(True), trained(False), rtol=1e-14)


def test_errors():
    p = iv.ones(1, requires_grad=True)
    p.grad = iv.asarray([np.nan])
    with pytest.raises(
        GradientError, match="clip_grad_norm_: argument 'params': got gradients whose norm is nan"
    ):
        optim.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    with pytest.raises(ArgumentError, match="'max_norm': got -1"):
        optim.clip_grad_norm_(p, -1.0)
    with pytest.raises(ArgumentTypeError, match="got leaf 0: 3"):
        optim.clip_grad_value_([3], 1.0)
