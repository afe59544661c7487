"""Initial value problems: SciPy gets exact Jacobians, and solutions have the derivatives of closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate

import iverson as iv
from iverson.errors import ArgumentError, ConvergenceWarning, GradientError, ShapeError
from iverson.interop.scipy import solve_ivp

rng = np.random.default_rng(0)
TIGHT, LOOSER = {"rtol": 1e-8, "atol": 1e-10}, {"rtol": 1e-6, "atol": 1e-8}
TIMES = [0.0, 0.7, 2.0]


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"])
def test_every_method_has_the_derivatives_of_the_closed_form(method: str) -> None:
    """Of y' = -a y + b t: as a function of a, b and y(0), to second order."""
    a, b = (iv.asarray(v, requires_grad=True) for v in (0.5, 2.0))
    start = iv.asarray([[1.0, -2.0]], requires_grad=True)
    tolerances = LOOSER if method == "RK23" else TIGHT  # takes many steps
    found = solve_ivp(lambda t, y: b * t - a * y, (0.0, 2.0), start, method, TIMES, **tolerances)
    assert found.success
    assert found.y.shape == (1, 2, 3)
    t = iv.asarray(TIMES)
    expected = (start[..., None] + b / a**2) * iv.exp(-a * t) + b * t / a - b / a**2
    np.testing.assert_allclose(found.y.detach().numpy(), expected.detach().numpy(), rtol=3e-6)
    weights = rng.normal(size=(1, 2, 3))
    firsts = [
        iv.autograd.grad((y * weights).sum(), [a, b, start], create_graph=True) for y in (found.y, expected)
    ]
    seconds = [iv.autograd.grad(sum((g * g).sum() for g in gs), [a, b, start]) for gs in firsts]
    for ours, theirs in (firsts, seconds):
        for g, h in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(g.detach().numpy(), h.detach().numpy(), rtol=2e-5, atol=1e-7)


def test_a_sparse_jacobian_is_handed_over_and_made_of_few_passes() -> None:
    """Of a chain of 30: each solver's step is by sparse factors, and a gradient stores the band alone."""
    n = 30
    seen: list[Any] = []
    rate = iv.asarray(0.3, requires_grad=True)

    def fun(_t: Any, y: Any) -> Any:
        padded = iv.concat([y[:1], y, y[-1:]])
        return rate * (padded[2:] - 2 * y + padded[:-2])

    original = scipy.integrate.solve_ivp

    def spied(*args: Any, **kwargs: Any) -> Any:
        jac = kwargs["jac"]
        kwargs["jac"] = lambda t, y: seen.append(jac(t, y)) or seen[-1]
        return original(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scipy.integrate, "solve_ivp", spied)
        found = solve_ivp(fun, (0, 1), np.eye(n)[4], "Radau", [1.0], layout="csr", rtol=1e-6, atol=1e-9)
    assert seen
    assert all(j.nnz == 3 * n - 2 for j in seen)
    slope = iv.autograd.grad(found.y[4, 0], rate)

    def other(r: float) -> Any:
        matrix = np.diag(np.full(n, -2.0)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
        matrix[0, 0] = matrix[-1, -1] = -1
        return scipy.linalg.expm(r * matrix)[4, 4]

    assert found.y[4, 0].item() == pytest.approx(other(0.3), rel=1e-5)
    assert slope.item() == pytest.approx((other(0.301) - other(0.299)) / 0.002, rel=1e-4)


def test_backwards_in_time_forward_mode_and_nothing_to_differentiate() -> None:
    def end(a: Any) -> Any:
        return solve_ivp(lambda t, y: a * y, (1.0, 0.0), [1.0], args=(), **TIGHT).y[0, -1]

    value, slope = iv.jvp(end, (iv.asarray(0.5),), (iv.asarray(1.0),))
    assert value.item() == pytest.approx(np.exp(-0.5), rel=1e-6)
    assert slope.item() == pytest.approx(-np.exp(-0.5), rel=1e-6)
    plain = solve_ivp(lambda t, y, k: k * y, (0, 1), np.ones(2, "float32"), args=(2.0,), dense_output=True)
    assert (plain.y.dtype, plain.y.requires_grad) == (np.dtype("float32"), False)
    assert plain.sol(0.5).shape == (2,)


def test_what_has_no_derivative_is_refused() -> None:
    a = iv.asarray(0.5, requires_grad=True)

    def fun(_t: Any, y: Any) -> Any:
        return a * y

    with pytest.raises(GradientError, match="t_span"):
        solve_ivp(fun, (0.0, a), [1.0])
    with pytest.raises(ArgumentError, match="dense_output"):
        solve_ivp(fun, (0, 1), [1.0], dense_output=True)
    with pytest.raises(ArgumentError, match="events"):
        solve_ivp(fun, (0, 1), [1.0], events=lambda t, y: y[0])
    with pytest.raises(ArgumentError, match="layout"):
        solve_ivp(fun, (0, 1), [1.0], layout="coo")
    with pytest.raises(ShapeError, match="got 2 entries; expected 1"):
        solve_ivp(lambda t, y: iv.concat([y, y]), (0, 1), [1.0])
    with pytest.warns(ConvergenceWarning, match="no solution"):
        solve_ivp(lambda t, y: a * y * y, (0, 10), [1.0], rtol=1e-3)
