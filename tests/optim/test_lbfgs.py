"""L-BFGS: PyTorch's iterates without a line search, minima with one, on parameters of any layout."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson import optim
from iverson.errors import ArgumentError, DTypeError, GraphError


def valley(p, q):
    """Rosenbrock's function of neighbours, with a minimum of 0 at ones."""
    return ((1 - p[:-1]) ** 2).sum() + 10 * ((p[1:] - p[:-1] ** 2) ** 2).sum() + ((q - 1) ** 2).sum()


def minimised(lib, opt, params, loss, steps):
    def closure():
        opt.zero_grad()
        value = loss(*params)
        value.backward()
        return value.detach()

    return [opt.step(closure).item() for _ in range(steps)]


@pytest.mark.peers
@pytest.mark.parametrize(
    "options", [{"lr": 0.05, "max_iter": 7}, {"lr": 0.1, "max_iter": 30, "history_size": 3}]
)
def test_against_torch(options):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    starts = np.linspace(-1, 0.5, 4), np.array([[0.2, 2.0]])
    ours = [iv.asarray(a, copy=True, requires_grad=True) for a in starts]
    theirs = [torch.tensor(a, requires_grad=True) for a in starts]
    a = minimised(iv, optim.LBFGS(ours, **options), ours, valley, 3)
    b = minimised(torch, torch.optim.LBFGS(theirs, **options), theirs, valley, 3)
    np.testing.assert_allclose(a, b, rtol=1e-6)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-6)


def test_a_minimum_with_a_line_search():
    params = [iv.asarray(a, requires_grad=True) for a in (np.linspace(-1, 0.5, 6), np.array([[0.2, 2.0]]))]
    opt = optim.LBFGS({"p": params[0], "q": params[1]}, line_search_fn="strong_wolfe")
    losses = minimised(iv, opt, params, valley, 8)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 1e-9
    np.testing.assert_allclose(params[0].detach().numpy(), 1, atol=1e-4)


def test_sparse_and_masked_parameters():
    """Linear regression: the entries that are stored, or exist, reach its solution; others stay."""
    s = iv.sparse_coo_tensor([[0, 1], [2, 0]], [0.0, 0.0], (2, 3), requires_grad=True)
    m = iv.masked_tensor(iv.asarray([0.0, iv.nan, 0.0]), [True, False, True], requires_grad=True)

    def loss(s, m):
        return ((s.values() - iv.asarray([1.0, 2.0])) ** 2).sum() + ((m - 3.0) ** 2).sum().to_tensor(0)

    minimised(iv, optim.LBFGS([s, m], line_search_fn="strong_wolfe"), [s, m], loss, 2)
    np.testing.assert_allclose(s.detach().to_dense().numpy(), [[0, 0, 1], [2, 0, 0]], atol=1e-7)
    np.testing.assert_allclose(m.detach().to_tensor(-1).numpy(), [3, -1, 3], atol=1e-7)


def test_a_state_goes_on(tmp_path):
    def run(saved):
        p = iv.asarray(np.linspace(-1, 0.5, 4), copy=True, requires_grad=True)
        q = iv.asarray([0.2], requires_grad=True)
        opt = optim.LBFGS([p, q], lr=0.1, max_iter=4)
        minimised(iv, opt, [p, q], valley, 2)
        if saved:
            iv.save(tmp_path / "state.npz", opt.state_dict())
            opt = optim.LBFGS([p, q], lr=0.1, max_iter=4)
            opt.load_state_dict(iv.load(tmp_path / "state.npz"))
        minimised(iv, opt, [p, q], valley, 2)
        return p.detach().numpy()

    np.testing.assert_array_equal(run(True), run(False))


def test_errors():
    p = iv.ones(2, requires_grad=True)
    with pytest.raises(ArgumentError, match="'history_size': got 0"):
        optim.LBFGS([p], history_size=0)
    with pytest.raises(ArgumentError, match="'line_search_fn': got 'armijo'"):
        optim.LBFGS([p], line_search_fn="armijo")
    with pytest.raises(DTypeError, match="real parameters"):
        optim.LBFGS([iv.ones(2, dtype="complex128", requires_grad=True)])
    opt = optim.LBFGS([p])
    with pytest.raises(GraphError, match="compile the closure"):
        iv.jit(lambda: opt.step(p.sum))()
