"""Options that other libraries' functions have: values at hard points, in half precision, malformed calls."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import iverson as iv
from iverson import nn
from iverson.autograd import grad
from iverson.core.errors import ArgumentError, AxisError, DTypeError, IndexingError, ShapeError
from tests.array_api.common import draw, same

HARD = np.array([-np.inf, -1e200, -1e10, -40.5, -30.0, -6.0, -1e-300, 0.0, 0.3, 6.0, 50.0, 1e200, np.inf])


def by_mpmath(function, x):
    """The function, its first and second derivative at numbers."""
    with mp.workdps(400):
        found = [[float(d) for d in mp.taylor(function, mp.mpf(float(v)), 2)] for v in x]
    return np.array(found).T * [[1], [1], [2]]


def derivatives(function, x):
    v = iv.asarray(x, requires_grad=True)
    y = function(v)
    (first,) = grad(y.sum(), [v], create_graph=True)
    return [y.detach().numpy(), first.detach().numpy(), grad(first.sum(), v).to_dense().numpy()]


def test_gelu_by_tanh():
    def exact(x):
        return x * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))) / 2

    x = HARD[4:-2]
    for found, expected in zip(
        derivatives(lambda v: iv.gelu(v, approximate="tanh"), x), by_mpmath(exact, x), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=2e-12, atol=1e-280)
    for found, expected in zip(
        derivatives(lambda v: iv.gelu(v, approximate="tanh"), HARD),
        (np.maximum(HARD, 0), HARD > 0, 0 * HARD[2]),
        strict=True,
    ):
        far = np.abs(HARD) > 40
        np.testing.assert_array_equal(found[far], np.broadcast_to(expected, HARD.shape)[far])


@pytest.mark.parametrize("beta", [2.0, -0.5])
def test_softplus_by_beta(beta):
    for found, expected in zip(
        derivatives(lambda v: iv.softplus(v, beta), HARD[4:-2]),
        by_mpmath(lambda x: mp.log1p(mp.exp(beta * x)) / beta, HARD[4:-2]),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-300)
    linear = beta * HARD > 1
    for found, expected in zip(
        derivatives(lambda v: nn.softplus(v, beta, threshold=1.0), HARD), (HARD, 1, 0), strict=True
    ):
        np.testing.assert_array_equal(found[linear], np.broadcast_to(expected, HARD.shape)[linear])
    same(iv.softplus(np.zeros((0, 2)), beta, 1.0), np.zeros((0, 2)))


def test_options_in_half_precision():
    """A composition of ops rounds once."""
    x = draw((200,), low=-6.0, high=6.0).astype(np.float16)
    for function in (
        lambda v: iv.gelu(v, approximate="tanh"),
        lambda v: iv.softplus(v, 3.0, threshold=2.0),
    ):
        exact = function(x.astype(np.float32)).numpy()
        np.testing.assert_array_equal(function(x).numpy(), exact.astype(np.float16))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_options_of_masked_tensors():
    """Unspecified entries take no part; slices that stay do what they do alone."""
    x, there = draw((3, 4)), draw((3, 4), seed=1) > -1
    m = iv.masked_tensor(np.where(there, x, np.nan), there)
    for function in (lambda v: iv.gelu(v, approximate="tanh"), lambda v: iv.softplus(v, 3.0, threshold=0.5)):
        np.testing.assert_array_equal(
            function(m).to_tensor(0.0).numpy(), np.where(there, function(x).numpy(), 0)
        )


SQUARE, AT = np.eye(3), np.array([[0, 1], [2, 2]])
ERRORS = [
    (lambda: iv.gelu(SQUARE, approximate="sigmoid"), ArgumentError, "gelu: argument 'approximate'.*tanh"),
    (lambda: iv.gelu(AT, approximate="tanh"), DTypeError, "gelu"),
    (lambda: iv.softplus(SQUARE, 0.0), ArgumentError, "softplus: argument 'beta': got 0"),
    (lambda: iv.softplus(SQUARE, threshold=np.nan), ArgumentError, "softplus: argument 'threshold'"),
    (lambda: iv.softplus(AT, 2.0), DTypeError, "softplus"),
    (lambda: iv.gather(SQUARE, np.zeros((4, 1), int)), ShapeError, "gather"),
    (lambda: iv.gather(SQUARE, np.full((1, 1), 3)), IndexingError, "gather: argument 'indices'"),
    (lambda: iv.gather(SQUARE, AT, axis=2), AxisError, "gather"),
    (
        lambda: iv.scatter(SQUARE, np.zeros((4, 1), int), 1.0),
        ShapeError,
        "scatter: argument 'indices'.*at mo",
    ),
    (lambda: iv.scatter(SQUARE, AT[0], 1.0), ShapeError, "scatter: argument 'indices'.*2 axes"),
    (lambda: iv.scatter_add(SQUARE, AT, np.ones((3, 0))), ShapeError, "scatter_add: argument 'values'"),
    (lambda: iv.scatter_add(SQUARE, AT, np.ones((1, 2, 2))), ShapeError, "scatter_add: argument 'values'"),
    (lambda: nn.gaussian_nll_loss(SQUARE, SQUARE[0], SQUARE), ShapeError, "gaussian_nll.*'target'.*2 axes"),
    (lambda: nn.gaussian_nll_loss(SQUARE, SQUARE[:2], 1.0), ShapeError, "gaussian_nll_loss"),
    (lambda: nn.gaussian_nll_loss(SQUARE[:2], SQUARE[:2], SQUARE[0]), ShapeError, "gaussian_nll_loss.*'var'"),
    (lambda: nn.gaussian_nll_loss(SQUARE[:1], SQUARE[:1], SQUARE), ShapeError, "gaussian_nll_loss.*'var'"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case):
    call, error, match = ERRORS[case]
    with pytest.raises(error, match=match):
        call()
