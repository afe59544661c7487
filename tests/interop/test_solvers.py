"""SciPy's solvers: they get exact derivatives, and derivatives of solutions are those of closed forms."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import iverson as iv
from iverson.errors import (
    ArgumentError,
    ConvergenceWarning,
    GradientError,
    GraphError,
    LinearAlgebraError,
    ShapeError,
)
from iverson.interop.scipy import least_squares, minimize, root
from tests.conformance.product import by_turns, some

rng = np.random.default_rng(0)
MATRIX = rng.normal(size=(3, 3)) + 3 * np.eye(3)


def cubic(x: Any, a: Any) -> Any:
    """Zero where x^3 is a."""
    return x * x * x - a


def test_a_solution_has_the_derivatives_of_its_closed_form() -> None:
    a = iv.asarray([[1.5, 8.0]], requires_grad=True)
    for solution in (
        root(cubic, iv.ones((1, 2)), (a,), tol=1e-13).x,
        root(lambda x: cubic(x, a), iv.ones((1, 2)), method="lm", tol=1e-13).x,
    ):
        assert solution.shape == (1, 2)
        np.testing.assert_allclose(solution.detach().numpy(), np.cbrt([[1.5, 8.0]]), rtol=1e-12)
        expected = a ** (1 / 3)
        for _ in range(3):
            solution, expected = (
                iv.autograd.grad(y.sum(), a, create_graph=True) for y in (solution, expected)
            )
            np.testing.assert_allclose(solution.detach().numpy(), expected.detach().numpy(), rtol=1e-10)


def test_gradcheck_passes_through_a_system() -> None:
    def solved(matrix: Any, b: Any) -> Any:
        return root(lambda x: matrix @ iv.tanh(x) + x - b, iv.zeros(3), tol=1e-13).x

    inputs = [iv.asarray(v, requires_grad=True) for v in (MATRIX, rng.normal(size=3))]
    assert iv.testing.gradcheck(solved, inputs)
    assert iv.testing.gradgradcheck(solved, inputs)
    tangent = iv.jvp(lambda b: solved(MATRIX, b), (inputs[1].detach(),), (iv.ones(3),))[1]
    jacobian = iv.jacobian(lambda b: solved(MATRIX, b))(inputs[1].detach())
    np.testing.assert_allclose(tangent.numpy(), jacobian.numpy().sum(1), rtol=1e-12)


METHODS = (
    "Nelder-Mead", "Powell", "CG", "BFGS", "Newton-CG", "L-BFGS-B", "TNC", "SLSQP", "trust-constr", "dogleg",
    "trust-ncg", "trust-exact", "trust-krylov",
)  # fmt: skip


@pytest.mark.parametrize("method", by_turns(METHODS))
@pytest.mark.filterwarnings("ignore:delta_grad == 0.0:UserWarning")
@pytest.mark.filterwarnings("ignore:(invalid value|overflow encountered):RuntimeWarning:scipy")
@pytest.mark.filterwarnings("ignore::iverson.errors.ConvergenceWarning")
def test_every_method_of_minimize_gets_what_it_reads(method: str) -> None:
    weights = iv.asarray([1.0, 2.0, 0.5], requires_grad=True)
    target = np.array([0.5, -1.0, 2.0])

    def loss(x: Any) -> Any:
        return (weights * iv.hypot(x - target, 1.0)).sum() + 0.1 * (x * x).sum()

    found = minimize(loss, np.zeros(3), method=method, tol=1e-10)
    with iv.no_grad():
        np.testing.assert_allclose(iv.grad(loss)(found.x.detach()).numpy(), 0, atol=1e-4)
    # With z = x - t, w z / sqrt(1 + z^2) + 0.2 x = 0.
    x, w = found.x.detach().numpy(), weights.detach().numpy()
    z, root_of = x - target, np.hypot(x - target, 1)
    expected = -z / root_of / (w / root_of**3 + 0.2)
    np.testing.assert_allclose(iv.autograd.grad(found.x.sum(), weights).numpy(), expected, rtol=1e-12)


def test_steps_of_a_solver_are_not_recorded() -> None:
    """What a second derivative costs does not grow with how long the search takes."""
    costs = []
    for start in (1.9, 40.0):
        a = iv.asarray([8.0], requires_grad=True)
        found = root(cubic, [start], (a,))
        with iv.explain.count() as done:
            iv.autograd.grad(found.x.sum(), a)
        costs.append((found.nfev, sum(done.calls.values())))
    assert costs[0][0] < costs[1][0]
    assert costs[0][1] == costs[1][1]


def test_least_squares_with_a_sparse_jacobian() -> None:
    """A spline through noisy points: the derivative of the fit in the points is its hat matrix."""
    n = 40
    y = iv.asarray(np.sin(np.linspace(0, 3, n)), requires_grad=True)

    def residuals(x: Any, scale: Any) -> Any:
        return iv.concat([x - y, scale * (x[2:] - 2 * x[1:-1] + x[:-2])])

    second = np.diff(np.eye(n), 2, axis=0)
    hat = np.linalg.inv(np.eye(n) + 4 * second.T @ second)
    for layout in ("strided", "csr"):
        found = least_squares(
            residuals, np.zeros(n), (2.0,), layout=layout, xtol=1e-12, ftol=1e-14, gtol=1e-12
        )
        assert scipy.sparse.issparse(found.jac) is (layout == "csr")
        np.testing.assert_allclose(found.x.detach().numpy(), hat @ y.detach().numpy(), atol=1e-7)
        row = iv.autograd.grad(found.x[7], y).numpy()
        np.testing.assert_allclose(row, hat[7], atol=1e-12)


def test_residuals_that_stay_are_part_of_the_derivative() -> None:
    t, y = np.linspace(0, 1, 5), np.array([1.0, 0.3, 0.5, 0.1, 0.2])

    def fitted(y: Any) -> Any:
        return least_squares(
            lambda x: x[0] * iv.exp(-x[1] * t) - y, [1.0, 1.0], xtol=1e-14, ftol=1e-14, gtol=1e-14
        ).x

    def by_scipy(y: Any) -> Any:
        model = lambda x: x[0] * np.exp(-x[1] * t) - y
        return scipy.optimize.least_squares(
            model, [1.0, 1.0], method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15
        ).x

    found = iv.jacobian(fitted)(iv.asarray(y)).numpy()
    steps = np.eye(5) * 1e-3
    expected = np.stack([(by_scipy(y + s) - by_scipy(y - s)) / 2e-3 for s in steps], 1)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("form", ["pairs", "bounds"])
def test_what_a_bound_holds_does_not_move(form: str) -> None:
    target = iv.asarray([0.5, 2.0, -3.0], requires_grad=True)
    pairs = [(0.0, 1.0), (None, 1.0), (0.0, None)]
    bounds = pairs if form == "pairs" else scipy.optimize.Bounds([0, -np.inf, 0], [1, 1, np.inf])
    found = minimize(lambda x: ((x - target) ** 2).sum(), np.full(3, 0.7), bounds=bounds)
    np.testing.assert_allclose(found.x.detach().numpy(), [0.5, 1.0, 0.0], atol=1e-8)
    grads = iv.autograd.grad((found.x * np.array([3.0, 5.0, 7.0])).sum(), target)
    np.testing.assert_allclose(grads.numpy(), [3.0, 0.0, 0.0], atol=1e-10)
    found = least_squares(lambda x: x - target, np.full(3, 0.7), bounds=([0, -9, 0], [1, 1, 9]))
    grads = iv.autograd.grad((found.x * np.array([3.0, 5.0, 7.0])).sum(), target)
    np.testing.assert_allclose(grads.numpy(), [3.0, 0.0, 0.0], atol=1e-10)


def test_dtypes_shapes_and_nothing_to_differentiate() -> None:
    found = root(lambda x: x - 2, np.ones((2, 1), "float32"))
    assert (found.x.dtype, found.x.shape, found.x.requires_grad) == (np.dtype("float32"), (2, 1), False)
    assert found.success
    assert minimize(lambda x: (x - 2) ** 2, 1.0).x.shape == ()
    assert root(lambda x: x - 2, [1]).x.dtype == "float64"
    with iv.no_grad():
        a = iv.asarray([8.0], requires_grad=True)
        assert not root(cubic, [1.0], (a,)).x.requires_grad
    constrained = minimize(
        lambda x: (x * x).sum(), np.ones(2), constraints={"type": "eq", "fun": lambda x: x.sum() - 2}
    )
    np.testing.assert_allclose(constrained.x.numpy(), [1.0, 1.0], atol=1e-8)


def test_what_has_no_derivative_is_refused() -> None:
    a = iv.asarray([2.0], requires_grad=True)
    with pytest.warns(ConvergenceWarning, match=r"minimize: the derivative is that of no solution"):
        minimize(lambda x: (iv.cosh(x - a)).sum(), [9.0], method="BFGS", maxiter=1)
    with pytest.raises(GradientError, match="x0"):
        root(lambda x: x - 1, a * 2)
    with pytest.raises(ShapeError, match="got 2 entries; expected 1"):
        root(lambda x: iv.concat([x, x]), [1.0])
    with pytest.raises(ArgumentError, match="constraints"):
        minimize(
            lambda x: ((x - a) ** 2).sum(), [1.0], constraints={"type": "eq", "fun": lambda x: x.sum() - 2}
        )
    with pytest.raises(ArgumentError, match="loss"):
        least_squares(lambda x: x - a, [1.0], loss="soft_l1")
    with pytest.raises(ArgumentError, match="layout"):
        least_squares(lambda x: x - a, [1.0], layout="coo")
    with pytest.raises(GraphError, match="read of the entries"):
        root(lambda x: x - a if x.sum().item() < 9 else x + a, [1.0])
    double = root(lambda x: (x - 1) ** 2 + 0 * a, [1.0]).x
    with pytest.raises(LinearAlgebraError):
        iv.autograd.grad(double.sum(), a)


CASES = {
    "root": lambda a, b: root(lambda x: x**3 + b * x - a, iv.zeros(3), tol=1e-13).x,
    "root, of indices": lambda a, b: (
        root(lambda x: x**3 - b * a[iv.asarray([2, 0, 1])], iv.ones(3), tol=1e-13).x
    ),
    "minimize": lambda a, b: (
        minimize(
            lambda x: ((x - a) ** 2).sum() + b * (x**4).sum(), iv.zeros(3), bounds=[(0, 0.5)] * 3, tol=1e-12
        ).x
    ),
    "least_squares": lambda a, b: (
        least_squares(
            lambda x: iv.concat([x - a, b * x**2]), iv.zeros(3), xtol=1e-14, ftol=1e-14, gtol=1e-14
        ).x
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_solvers_in_compiled_and_mapped_functions_are_those_outside(name):
    """Values, and gradients to second order; of each example by itself."""
    f = CASES[name]
    a, bs = iv.asarray([1.0, 2.0, 5.0]), iv.asarray([1.0, 3.0, 0.5])

    loss = lambda a, b: (f(a, b) ** 2).sum()
    second = lambda a, b: sum((g**2).sum() for g in iv.grad(loss, (0, 1))(a, b))
    close = functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12)
    mapped = lambda g: iv.vmap(g, (None, 0))
    ways = ((iv.jit, bs[1]), (mapped, bs), (lambda g: iv.jit(mapped(g)), bs))
    functions = (f, iv.grad(loss, 0), iv.grad(loss, 1), iv.grad(second, 1))
    for number, g in some(name, enumerate(functions), 2):
        for way, b in some(name, ways, number=number):
            each = iv.stack([g(a, b) for b in b]) if b.ndim else g(a, b)
            close(way(g)(a, b).numpy(), each.numpy())
    close(iv.grad(iv.jit(loss), 0)(a, bs[1]).numpy(), iv.grad(loss, 0)(a, bs[1]).numpy())
    nested = iv.vmap(iv.vmap(f, (None, 0)), (0, None))(iv.stack([a, 2 * a]), bs)
    close(nested[0].numpy(), iv.vmap(f, (None, 0))(a, bs).numpy())


def test_what_a_solver_says_in_a_compiled_function():
    a = iv.asarray([1.0, 2.0])
    found = iv.jit(lambda a: root(lambda x: x**3 - a, 1 + 0 * a).success)(a)
    assert (found.dtype, found.item()) == (np.dtype(bool), True)
    with pytest.warns(ConvergenceWarning, match="minimize: "):
        iv.jit(
            lambda a: minimize(lambda x: iv.cosh(x - a).sum(), iv.ones(2) * 9, method="BFGS", maxiter=1).x
        )(a)
    compiled = iv.jit(lambda a: least_squares(lambda x: x - a, iv.zeros(2), loss="soft_l1").x.sum())
    with pytest.raises(ArgumentError, match="loss"):
        iv.grad(compiled)(a)
    with pytest.raises(GraphError, match="read of the entries"):
        iv.jit(lambda a: root(lambda x: x - a if x.sum().item() < 9 else x + a, iv.zeros(2)).x)(a)


def test_scipys_signatures() -> None:
    target = iv.asarray([1.0, 2.0], requires_grad=True)

    def loss(x: iv.Tensor, a: iv.Tensor) -> iv.Tensor:
        return ((x - a) ** 2).sum()

    seen: list[object] = []
    result = minimize(
        loss,
        iv.zeros(2),
        (target,),
        "BFGS",
        None,
        callback=seen.append,
        options={"maxiter": 50, "gtol": 1e-9},
    )
    np.testing.assert_allclose(iv.autograd.grad(result.x.sum(), target).numpy(), [1.0, 1.0])
    assert seen
    pair = minimize(lambda x, a: (loss(x, a), 2 * (x - a)), iv.zeros(2), (target,), jac=True)
    np.testing.assert_allclose(pair.x.detach().numpy(), [1.0, 2.0], atol=1e-6)
    stopped = minimize(lambda x: (x**4).sum(), iv.ones(2), options={"maxiter": 1}, method="CG")
    assert stopped.nit == 1
    assert root(lambda x: x - 1.0, iv.zeros(1), options={"xtol": 1e-12}).x.item() == 1.0
