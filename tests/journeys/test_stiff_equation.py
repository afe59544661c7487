"""An implicit solver for a stiff equation with a sparse Jacobian, and the gradient in a parameter.

Reaction and diffusion on a line, u_t = d u_xx + u (1 - u) (R. A. Fisher, 1937), by the midpoint rule.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import iverson as iv

N, STEPS, TIME = 60, 40, 2.0
X = np.linspace(0, 1, N)
START = np.exp(-50 * (X - 0.3) ** 2)


def rate(u, d):
    """du/dt, with no flow through the ends."""
    padded = iv.concat([u[:1], u, u[-1:]])
    return d * N**2 * (padded[2:] - 2 * u + padded[:-2]) + u * (1 - u)


def residual(new, old, d):
    return new - old - TIME / STEPS * rate((new + old) / 2, d)


jacobian = iv.jit(iv.jacobian(residual, layout="csr"))


def advance(old, d):
    """Newton's method without recording, then one step of it that is recorded.

    At the solution that step changes no value, and has the derivative of the implicit function theorem.
    """
    with iv.no_grad():
        new = old.detach()
        for _ in range(20):
            matrix = jacobian(new, old.detach(), d.detach())
            change = iv.spsolve(matrix, residual(new, old.detach(), d.detach()))
            new = new - change
            if abs(change).max().item() < 1e-12:
                break
        else:
            raise RuntimeError("Newton's method did not converge")
        matrix = jacobian(new, old.detach(), d.detach())
    return new - iv.spsolve(matrix, residual(new, old, d))


def solve(d, start=START):
    u = iv.asarray(start)
    for _ in range(STEPS):
        u = advance(u, d)
    return u


def reference(d):
    """SciPy's solver at tight tolerances."""

    def f(_, u):
        padded = np.concatenate([u[:1], u, u[-1:]])
        return d * N**2 * (padded[2:] - 2 * u + padded[:-2]) + u * (1 - u)

    return solve_ivp(f, (0, TIME), START, method="Radau", rtol=1e-9, atol=1e-11).y[:, -1]


def test_the_jacobian_is_tridiagonal_and_takes_three_passes():
    u, d = iv.asarray(START), iv.asarray(0.01)
    found = iv.jacobian(residual)(u, u, d)
    rows, columns = np.nonzero(found.numpy())
    assert np.abs(rows - columns).max() == 1
    assert found.to_layout("csr").nnz == 3 * N - 2
    with iv.explain.count() as one:
        iv.vjp(residual, u, u, d)[1](u)
    with iv.explain.count() as all_columns:
        iv.jacobian(residual)(u, u, d)
    assert sum(all_columns.calls.values()) < 4 * sum(one.calls.values()) + 40


def test_the_solution_and_its_gradient_agree_with_scipy():
    d = iv.asarray(0.01, requires_grad=True)
    u = solve(d)
    np.testing.assert_allclose(u.detach().numpy(), reference(0.01), atol=2e-4)
    u.mean().backward()
    h = 1e-4
    expected = (reference(0.01 + h).mean() - reference(0.01 - h).mean()) / (2 * h)
    assert d.grad.item() == pytest.approx(expected, rel=2e-3)


def test_a_parameter_is_found_again():
    """Newton's method on the distance to a solution that was computed with another one."""
    target = reference(0.02)
    d = iv.asarray(0.01)
    for _ in range(4):
        u, slope = iv.jvp(solve, (d,), (iv.asarray(1.0),))
        misfit = u - target
        d = d - (misfit @ slope) / (slope @ slope)
    assert d.item() == pytest.approx(0.02, rel=1e-3)


def test_scipys_integrator_is_differentiated_as_it_is():
    """The same by `interop.scipy.solve_ivp`, which chooses its steps and knows which entries are zero."""
    from iverson.interop import scipy

    d = iv.asarray(0.01, requires_grad=True)
    u = scipy.solve_ivp(
        lambda t, u: rate(u, d), (0, TIME), START, "Radau", [TIME], layout="csr", rtol=1e-5, atol=1e-7
    ).y[:, 0]
    np.testing.assert_allclose(u.detach().numpy(), reference(0.01), atol=1e-4)
    u.mean().backward()
    h = 1e-4
    expected = (reference(0.01 + h).mean() - reference(0.01 - h).mean()) / (2 * h)
    assert d.grad.item() == pytest.approx(expected, rel=1e-4)
