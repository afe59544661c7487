"""A physics-informed network: the Laplacian of each point by its Hessian, compiled, and SciPy's L-BFGS.

-(u_xx + u_yy) = f in the unit square, u = 0 on its boundary, with f such that u = sin(pi x) sin(pi y).
(M. Raissi, P. Perdikaris and G. E. Karniadakis, J. Comput. Phys. 378, 2019.)
"""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.interop.scipy import minimize

WIDTH = 12
SHAPES = [(2, WIDTH), (WIDTH,), (WIDTH, WIDTH), (WIDTH,), (WIDTH,)]
SIZES = [int(np.prod(s)) for s in SHAPES]


def network(flat, point):
    """A value for a point; zero on the boundary by its first factor."""
    ends = np.cumsum(SIZES)[:-1].tolist()
    w1, b1, w2, b2, w3 = (
        flat[a:b].reshape(shape) for a, b, shape in zip([0, *ends], [*ends, sum(SIZES)], SHAPES, strict=True)
    )
    hidden = iv.tanh(iv.tanh(point @ w1 + b1) @ w2 + b2)
    return (point * (1 - point)).prod() * (hidden @ w3)


def laplacian(flat, point):
    return iv.linalg.trace(iv.hessian(network, 1)(flat, point))


def source(points):
    return 2 * np.pi**2 * np.sin(np.pi * points).prod(axis=1)


@iv.jit
def objective(flat, points, f):
    residual = iv.vmap(laplacian, (None, 0))(flat, points) + f
    return (residual**2).mean()


def start():
    rng = np.random.default_rng(0)
    return np.concatenate(
        [rng.standard_normal(n) / np.sqrt(s[0]) for s, n in zip(SHAPES, SIZES, strict=True)]
    )


def test_the_laplacian_of_each_point_is_that_of_differences():
    flat, h = start(), 1e-3
    points = np.random.default_rng(1).uniform(0.1, 0.9, (5, 2))
    value = iv.vmap(network, (None, 0))
    at = [value(flat, points + h * np.array(d)).numpy() for d in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))]
    found = iv.vmap(laplacian, (None, 0))(iv.asarray(flat), iv.asarray(points))
    np.testing.assert_allclose(found.numpy(), (sum(at[1:]) - 4 * at[0]) / h**2, rtol=1e-4, atol=1e-5)


def test_lbfgs_solves_the_equation():
    points = np.random.default_rng(2).random((64, 2))
    given = iv.asarray(points), iv.asarray(source(points))

    found = minimize(objective, start(), given, method="L-BFGS-B", maxiter=250)
    elsewhere = np.stack(np.meshgrid(*[np.linspace(0, 1, 9)] * 2), axis=-1).reshape(-1, 2)
    u = iv.vmap(network, (None, 0))(found.x, iv.asarray(elsewhere)).numpy()
    assert np.abs(u - np.sin(np.pi * elsewhere).prod(axis=1)).max() < 5e-3


def test_third_derivatives_agree_with_differences():
    """The gradient of a loss on second derivatives, along a direction."""
    points = np.random.default_rng(3).random((64, 2))
    flat, direction, h = start(), np.random.default_rng(4).standard_normal(sum(SIZES)), 1e-5
    given = iv.asarray(points), iv.asarray(source(points))
    slope = iv.grad(objective)(iv.asarray(flat), *given).numpy() @ direction
    ahead, behind = (objective(iv.asarray(flat + s * h * direction), *given).item() for s in (1, -1))
    assert slope == pytest.approx((ahead - behind) / (2 * h), rel=1e-6)
