"""Initial value problems, by SciPy's integrators with exact Jacobians; the solutions are differentiated.

`iverson.interop.scipy.solve_ivp` is the public name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import iverson as iv
from iverson.core.dispatch import is_tracked
from iverson.core.errors import ArgumentError, ConvergenceWarning, GradientError, ShapeError
from iverson.core.protocols import NDArray
from iverson.core.python.caller import warn
from iverson.core.shapes import check_choice
from iverson.handles import Tensor
from iverson.transforms.implicit import implicit

if TYPE_CHECKING:
    import numpy.typing as npt
    from scipy.optimize import OptimizeResult
    from scipy.sparse import sparray

    from iverson.handles.typing import Data

Function = Callable[..., Any]
#: A further argument of a function, of any type.
T = TypeVar("T")

#: Methods that read the Jacobian.
_IMPLICIT = ("Radau", "BDF", "LSODA")
#: The Radau IIA collocation of three stages (Hairer and Wanner, Solving ODEs II, 2nd ed. 1996, section IV.5):
#: its nodes, and its weights, which integrate quadratic polynomials to each node exactly.
_NODES = np.array([(4 - 6**0.5) / 10, (4 + 6**0.5) / 10, 1.0])
_WEIGHTS = np.linalg.solve(
    np.vander(_NODES, 3, increasing=True).T, (_NODES[:, None] ** np.arange(1, 4) / np.arange(1, 4)).T
).T
_ITERATIONS, _CLOSE = 12, 1e-11
#: Into how many parts a step may be cut.
_PARTS = 32


def solve_ivp(
    fun: Function,
    t_span: Sequence[float],
    y0: Data,
    method: str = "RK45",
    t_eval: npt.ArrayLike | None = None,
    args: Sequence[T] = (),
    layout: str = "strided",
    **options: Any,
) -> OptimizeResult:
    """An initial value problem dy/dt = fun(t, y), by `scipy.integrate.solve_ivp` with the exact Jacobian.

    Parameters
    ----------
    fun : ``fun(t, y, *args)`` takes a number and a real tensor of the shape of ``y0``, and gives one of it.
    t_span : the first time and the last.
    y0 : the values at the first time, of any shape.
    method, t_eval : as in SciPy; "Radau", "BDF" and "LSODA" get the Jacobian.
    args : further arguments.
    layout : of the Jacobian that "Radau" and "BDF" get: with "csr", entries that are known to be zero are not
        stored, and the steps are solved by sparse factors.
    options : of SciPy's function: ``rtol``, ``atol``, ``max_step``, ...

    Returns
    -------
    SciPy's result; ``y`` is a tensor of shape (*y0.shape, times). It tracks gradients where ``y0`` does, or
    ``fun`` depends on tensors that do, as arguments or by its closure.

    Notes
    -----
    The solution that is differentiated is that of Radau IIA collocation, of order 5, at the times that
    SciPy's method stepped to and those of ``t_eval`` (E. Hairer and G. Wanner, Solving Ordinary Differential
    Equations II, section IV.8). Found by Newton's method from SciPy's solution, it differs from that by the
    error of the method, and its derivatives are exact to any order, by the implicit function theorem; steps
    that a method of higher order took are halved until that holds. The times are constants. ``fun`` is
    carried out at all of them at once (`iverson.vmap`), and the equations are solved by sparse factors.

    Raises
    ------
    ShapeError : unless ``fun`` gives as many entries as it takes.
    GradientError : where ``t_span`` or ``t_eval`` track gradients.
    ArgumentError : where a solution with ``events`` or ``dense_output`` is differentiated.

    Warns with `iverson.errors.ConvergenceWarning` where a solution that is differentiated was not found.

    >>> rate = iv.asarray(0.5, requires_grad=True)
    >>> y = solve_ivp(lambda t, y: -rate * y, (0.0, 2.0), [1.0], t_eval=[2.0], rtol=1e-8).y
    >>> round(iv.autograd.grad(y.sum(), rate).item(), 5)   # -2 exp(-1)
    -0.73576
    """
    import scipy.integrate

    check_choice(layout, ("strided", "csr"), "solve_ivp", "layout")
    for times, name in ((t_span, "t_span"), (t_eval, "t_eval")):
        if any(is_tracked(t) for t in (times, *(times if isinstance(times, (list, tuple)) else ()))):
            raise GradientError(
                "solve_ivp",
                name,
                got="times that track gradients",
                expected="numbers",
                remedy="call detach(), or scale the time inside of fun",
            )
    start = iv.asarray(y0)
    start = start if start.dtype.kind == "f" else iv.astype(start, "float64")

    def call(t: Tensor, y: Tensor) -> Tensor:
        result = iv.asarray(fun(t, iv.reshape(iv.astype(y, start.dtype), start.shape), *args))
        if result.size != start.size:
            raise ShapeError(
                "solve_ivp", "fun", got=f"{result.size} entries", expected=f"{start.size}, as many as y0 has"
            )
        return iv.astype(iv.reshape(result, (-1,)), "float64")

    first = iv.astype(iv.reshape(start, (-1,)), "float64")
    is_differentiated = is_tracked(start) or is_tracked(call(iv.asarray(float(t_span[0])), first.detach()))
    if is_differentiated:
        refused = [name for name in ("events", "dense_output") if options.get(name)]
        if refused:
            raise ArgumentError(
                "solve_ivp",
                refused[0],
                got="one, for a solution that is differentiated",
                expected="none: what it gives has no derivative here",
                remedy="call detach() on what the solution depends on",
            )
        options["dense_output"] = True
    if method in _IMPLICIT:
        sparse = layout == "csr" and method != "LSODA"
        jacobian_layout: Any = "csr" if sparse else "strided"
        options["jac"] = _numbers(lambda t, y: iv.jacobian(lambda y: call(t, y), layout=jacobian_layout)(y))
    result = scipy.integrate.solve_ivp(
        _numbers(call),
        tuple(map(float, t_span)),
        first.detach().numpy(),
        method=method,
        t_eval=t_eval,
        **options,
    )
    values = iv.asarray(np.array(result.y))
    if is_differentiated:
        if result.success:
            values = _differentiated(
                result, call, first, options.get("rtol", 1e-3), options.get("atol", 1e-6)
            )
        else:
            warn(f"solve_ivp: the derivative is that of no solution: {result.message}", ConvergenceWarning)
        result.sol = None
    result.y = iv.reshape(iv.astype(values, start.dtype), (*start.shape, result.t.size))
    return result


def _numbers(function: Function) -> Function:
    """Function for SciPy that calls ``function`` on numbers and NumPy arrays, and records nothing."""

    def call(t: float, y: NDArray) -> float | NDArray | sparray:
        with iv.no_grad():
            value = function(iv.asarray(t), iv.asarray(y)).detach()
        return value.to_scipy() if value.layout == "csr" else np.array(value.numpy())

    return call


def _differentiated(
    result: OptimizeResult, call: Function, first: Tensor, rtol: float, atol: npt.ArrayLike
) -> Tensor:
    """Solution at the times of SciPy's result, one column for each time, as a tensor that can be
    differentiated.

    It is found by collocation on SciPy's steps, which are halved until the solution agrees with SciPy's
    within tolerances.
    call : the right side of the equation. first : the initial value.
    """
    mesh = np.unique(np.concatenate([result.sol.ts, result.t]))
    if result.sol.ts[0] > result.sol.ts[-1]:
        mesh = mesh[::-1]
    if mesh.size == 1:  # no time passes
        return iv.expand_dims(first, axis=1)
    stepped, parts = result.sol(mesh).T, 1
    while True:
        condition, guess = _collocation(mesh, call, first, result.sol)
        solution = _newton(condition, guess)
        ends = np.reshape(solution.numpy(), (mesh.size - 1, 3, -1))[parts - 1 :: parts, 2]
        close = np.abs(ends - stepped[1:]) <= 10 * (atol + rtol * np.abs(stepped[1:]))
        if parts == _PARTS or np.all(close):
            break
        mesh = np.append(np.stack([mesh[:-1], (mesh[:-1] + mesh[1:]) / 2], axis=1).ravel(), mesh[-1])
        parts *= 2
    stages = implicit(condition, lambda: iv.asarray(solution, copy=True), guess, layout="csr")
    path: Tensor = iv.concat([iv.reshape(first, (1, -1)), iv.reshape(stages, (-1, 3, first.size))[:, 2]])
    where = [int(np.flatnonzero(mesh == t)[0]) for t in result.t]
    return iv.take(path, np.array(where), axis=0).mT


def _collocation(mesh: NDArray, call: Function, first: Tensor, guess: Function) -> tuple[Function, Tensor]:
    """Function whose zero gives the stages of all steps, as one vector, and a first guess of this zero.

    mesh : the times between steps. guess : gives approximate solutions at times.
    """
    steps = np.diff(mesh)
    nodes = mesh[:-1, None] + steps[:, None] * _NODES
    count, n = steps.size, first.size
    times, sizes = iv.asarray(nodes.ravel()), steps[:, None, None] * _WEIGHTS[None]

    def condition(flat: Tensor) -> Tensor:
        """Y[k, i] = y[k] + h[k] sum_j a[i, j] f(t[k, j], Y[k, j]), where y[k + 1] = Y[k, 2]."""
        stages: Tensor = iv.reshape(flat, (count, 3, n))
        rates: Tensor = iv.reshape(iv.vmap(call)(times, iv.reshape(stages, (3 * count, n))), (count, 3, n))
        before = iv.concat([iv.reshape(first, (1, 1, n)), stages[:-1, 2:]])
        # One term for each stage: which entries depend on which is seen from that, not from a product.
        increments = sum(iv.asarray(sizes[:, :, j : j + 1]) * rates[:, j : j + 1] for j in range(3))
        return iv.reshape(stages - before - increments, (-1,))

    return condition, iv.asarray(np.ascontiguousarray(guess(nodes.ravel()).T).ravel())


def _newton(condition: Function, x: Tensor) -> Tensor:
    """Zero of ``condition`` near ``x``, by Newton's method with a sparse Jacobian.

    If it does not converge, a warning is given and the last iterate is returned.
    """
    with iv.no_grad():
        jacobian = iv.jacobian(condition, layout="csr")
        for _ in range(_ITERATIONS):
            change = iv.spsolve(jacobian(x), condition(x))
            x = x - change
            if iv.max(iv.abs(change)).item() <= _CLOSE * (1 + iv.max(iv.abs(x)).item()):
                return x
    warn(
        "solve_ivp: the derivative is that of no solution: Newton's method stopped short", ConvergenceWarning
    )
    return x


__all__ = ["solve_ivp"]
