"""First values of parameters: their spread is PyTorch's, and draws follow from the seed."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

import iverson as iv
from iverson.errors import ArgumentError, ArgumentTypeError, ShapeError
from iverson.nn import init

SHAPE = (40, 30, 5, 4)
FAN_IN, FAN_OUT = 600, 800
#: name: arguments, and the variance.
SPREADS = {
    "xavier_normal": ((2.0,), 4 * 2 / (FAN_IN + FAN_OUT)),
    "xavier_uniform": ((2.0,), 4 * 2 / (FAN_IN + FAN_OUT)),
    "kaiming_normal": ((0.5, "fan_out"), 2 / (1 + 0.25) / FAN_OUT),
    "kaiming_uniform": ((0.0, "fan_in", "tanh"), (5 / 3) ** 2 / FAN_IN),
}


@pytest.mark.parametrize("name", SPREADS)
def test_spread(name):
    args, variance = SPREADS[name]
    x = getattr(init, name)(iv.random.default_rng(0), SHAPE, *args, dtype="float32", requires_grad=True)
    assert (x.shape, x.dtype, x.requires_grad) == (SHAPE, np.float32, True)
    entries = x.detach().numpy().astype(float)
    assert abs(entries.mean()) < 4 * sqrt(variance / entries.size)
    assert abs(entries.var() / variance - 1) < 4 * sqrt(2 / entries.size)
    if name.endswith("uniform"):
        assert 0.99 < abs(entries).max() / sqrt(3 * variance) <= 1 + 1e-6
    again = getattr(init, name)(iv.random.default_rng(0), SHAPE, *args, dtype="float32")
    np.testing.assert_array_equal(again.numpy(), x.detach().numpy())


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (2, 3, 2), (0, 3)])
def test_orthogonal(shape):
    w = init.orthogonal(iv.random.default_rng(0), shape, 2.0).numpy().reshape(shape[0], np.prod(shape[1:]))
    gram = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-12)


def test_truncated():
    x = init.trunc_normal(iv.random.default_rng(0), (20000,), 1.0, 2.0, 0.0, 2.0).numpy()
    assert 0 <= x.min() < 0.01
    assert 1.99 < x.max() <= 2
    assert abs(x.mean() - 1) < 0.02


def test_eye():
    w = init.eye((2, 3, 3, 3), 2.0)
    x = iv.asarray(np.random.default_rng(0).standard_normal((1, 3, 4, 4)))
    np.testing.assert_array_equal(iv.nn.conv2d(x, w, padding=1).numpy(), 2 * x.numpy()[:, :2])


@pytest.mark.peers
def test_gains_are_those_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        assert init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name))
    assert init.calculate_gain("leaky_relu", 0.3) == pytest.approx(
        torch.nn.init.calculate_gain("leaky_relu", 0.3)
    )
    fans = torch.nn.init._calculate_fan_in_and_fan_out(torch.zeros(SHAPE))
    assert fans == (FAN_IN, FAN_OUT)


def test_errors():
    rng = iv.random.default_rng(0)
    with pytest.raises(ArgumentTypeError, match=r"xavier_normal: argument 'rng'.*default_rng"):
        init.xavier_normal(0, (2, 3))
    with pytest.raises(ShapeError, match=r"kaiming_uniform: argument 'shape': got .3,.*results"):
        init.kaiming_uniform(rng, 3)
    with pytest.raises(ArgumentError, match="nonlinearity': got 'swish'"):
        init.calculate_gain("swish")
    with pytest.raises(ArgumentError, match="a below b"):
        init.trunc_normal(rng, 3, a=1.0, b=1.0)
