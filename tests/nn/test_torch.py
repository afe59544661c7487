"""Values, first and second derivatives of `iverson.nn` against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson import nn
from iverson.autograd import grad
from tests.nn.cases import CASES

torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning"),
]


def weighted(y, lib):
    w = np.cos(np.arange(int(np.prod(tuple(y.shape))))).reshape(tuple(y.shape))
    return (y * (iv.asarray(w) if lib is iv else torch.from_numpy(w))).sum()


def finite(y, lib):
    """What of a result is finite: an empty segment has the extremum inf."""
    return lib.where(lib.isfinite(y), y, 0.0 if lib is iv else torch.zeros((), dtype=y.dtype))


@pytest.mark.parametrize("name", CASES)
def test_against_torch(name):
    case = CASES[name]
    xs = [iv.asarray(a, requires_grad=True) for a in case.arrays]
    ts = [torch.tensor(a, requires_grad=True) for a in case.arrays]
    y, t = case.ours(*xs), case.theirs(torch.nn.functional, *ts)
    assert (y.shape, str(y.dtype)) == (tuple(t.shape), str(t.dtype).removeprefix("torch."))
    close(y, t, case.rtol)
    again = case.order == 2
    total, other = weighted(finite(y, iv), iv), weighted(finite(t, torch), torch)
    first = grad(total, xs, create_graph=again)
    theirs = torch.autograd.grad(other, ts, create_graph=again, allow_unused=True)
    known = [k for k, g in enumerate(theirs) if g is not None]
    for k in known:
        close(first[k].to_dense(), theirs[k], case.rtol)
    if not again:
        return
    target = sum(weighted(first[k].to_dense() ** 2, iv) for k in known)
    other = sum(weighted(theirs[k] ** 2, torch) for k in known)
    inputs = [ts[k] for k in known]
    linear = not other.requires_grad
    theirs = [None] * len(known) if linear else torch.autograd.grad(other, inputs, allow_unused=True)
    for k, b in zip(known, theirs, strict=True):
        a = grad(target, xs[k]).to_dense()
        close(a, torch.zeros(a.shape, dtype=torch.float64) if b is None else b, case.rtol)


def close(ours, theirs, rtol=1e-9):
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(force=True), rtol=rtol, atol=1e-11
    )


def test_one_hot():
    x = np.array([[0, 2], [1, 2]])
    found = nn.one_hot(x, 4)
    np.testing.assert_array_equal(found.numpy(), torch.nn.functional.one_hot(torch.tensor(x), 4).numpy())
    assert found.dtype == np.int64


def test_running_moments():
    x = np.random.default_rng(0).standard_normal((4, 3, 2))
    ours, theirs = (
        (iv.zeros(3), iv.ones(3)),
        (torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)),
    )
    step = iv.jit(lambda x: nn.batch_norm(x, *ours, training=True, momentum=0.3))
    for _ in range(3):
        step(iv.asarray(x))
        torch.nn.functional.batch_norm(torch.tensor(x), *theirs, training=True, momentum=0.3)
        x = x * 1.5 + 0.2
    for a, b in zip(ours, theirs, strict=True):
        close(a, b)
