"""Functions of `scipy.optimize` on functions of tensors: SciPy searches, and the solution is differentiated.

`minimize`, `root` and `least_squares` are in `iverson.interop.scipy.solvers`; the others are said by the
condition that their solution meets, from which its derivatives follow (`iverson.transforms.implicit`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.dispatch import is_tracked
from iverson.core.errors import GradientError
from iverson.core.protocols import NDArray
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike, Data
from iverson.interop.scipy.by_matrix.linear_maps import Setting, theirs
from iverson.interop.scipy.solvers import least_squares, minimize, root
from iverson.transforms.implicit import implicit

Function = Callable[..., Any]


def _numbers(fun: Function, args: Sequence[Setting]) -> Function:
    """The function on numbers and arrays of NumPy, for SciPy."""

    def call(x: Setting, *_: Setting) -> Any:
        with iv.no_grad():
            value = np.asarray(iv.asarray(fun(iv.asarray(x), *args)).detach())
        return value.item() if value.ndim == 0 else np.array(value)

    return call


def solution(condition: Function, x: Setting) -> Tensor:
    """The number or array x as a tensor that meets the condition, and depends on what that depends on."""
    entries = np.array(x, float)
    shape = entries.shape

    def of_vector(v: Tensor) -> Tensor:
        return iv.reshape(iv.asarray(condition(iv.reshape(v, shape))), (-1,))

    start = iv.asarray(entries.ravel())
    if is_tracked(of_vector(start)):
        _check_met(of_vector, start)
    return iv.reshape(implicit(of_vector, lambda: iv.asarray(start, copy=True), start), shape)  # type: ignore[no-any-return]


def _check_met(condition: Function, x: Tensor) -> None:
    """Raise GradientError unless x is near a solution: a step of Newton's method would hardly move it."""
    with iv.no_grad():
        step = iv.linalg.lstsq(iv.jacobian(condition)(x), condition(x))[0]
        moves = float(iv.max(iv.abs(step))) > 1e-3 * (1 + float(iv.max(iv.abs(x))))
    if moves:
        raise GradientError(
            "scipy.optimize",
            got="what meets no condition of a solution: it is at a bound, or the search stopped short",
            expected="a solution inside of the bounds, of which there are derivatives",
            remedy="narrow tolerances, or call detach() on what the function depends on",
        )


def _slope(fun: Function, args: Sequence[Setting]) -> Function:
    return iv.grad(lambda x: iv.reshape(fun(x, *args), ()))


def _withsolution(result: Setting, condition: Function) -> Any:
    """SciPy's result, with ``x`` or ``root`` as a tensor that meets the condition."""
    name = "root" if "root" in result else "x"
    result[name] = solution(condition, result[name])
    return result


# --- zeros --------------------------------------------------------------------------


def _zero(name: str) -> Function:
    def call(f: Function, *where: Setting, args: Setting = (), **options: Setting) -> Any:
        args = args if isinstance(args, tuple) else (args,)
        outcome = theirs(f"optimize.{name}")(_numbers(f, args), *where, **options)
        if isinstance(outcome, tuple):
            return (solution(lambda x: f(x, *args), outcome[0]), *outcome[1:])
        return solution(lambda x: f(x, *args), outcome)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.optimize.{name}`; the zero tracks what the function depends on."
    return call


bisect, brenth, brentq, ridder, toms748 = map(_zero, ("bisect", "brenth", "brentq", "ridder", "toms748"))
anderson, broyden1, broyden2 = map(_zero, ("anderson", "broyden1", "broyden2"))
diagbroyden, newton_krylov = map(_zero, ("diagbroyden", "newton_krylov"))
excitingmixing, linearmixing = map(_zero, ("excitingmixing", "linearmixing"))


def newton(
    func: Function,
    x0: Data,
    fprime: Function | None = None,
    args: Setting = (),
    *extra: Setting,
    **options: Setting,
) -> Any:
    """`scipy.optimize.newton`; the zero tracks what the function depends on.

    >>> round(newton(lambda x: x * x - 2.0, 1.0).item(), 6)
    1.414214
    """
    args = args if isinstance(args, tuple) else (args,)
    slope = None if fprime is None else _numbers(fprime, args)
    outcome = theirs("optimize.newton")(
        _numbers(func, args), np.asarray(iv.asarray(x0).detach()), slope, (), *extra, **options
    )
    return solution(lambda x: func(x, *args), outcome)


def root_scalar(
    f: Function, args: Setting = (), method: str | None = None, bracket: Setting = None, **options: Setting
) -> Any:
    """`scipy.optimize.root_scalar`; ``root`` tracks what the function depends on.

    >>> round(root_scalar(lambda x: x * x - 2.0, bracket=(0.0, 2.0)).root.item(), 6)
    1.414214
    """
    args = args if isinstance(args, tuple) else (args,)
    for name in ("fprime", "fprime2"):
        if callable(options.get(name)):
            options[name] = _numbers(options[name], args)
    result = theirs("optimize.root_scalar")(_numbers(f, args), method=method, bracket=bracket, **options)
    return _withsolution(result, lambda x: f(x, *args))


def fsolve(
    func: Function,
    x0: Data,
    args: Setting = (),
    fprime: Function | None = None,
    full_output: bool = False,
    *_: Setting,
    xtol: float = 1.49012e-8,
    **options: Setting,
) -> Any:
    """`scipy.optimize.fsolve`: the zero of `root`."""
    result = root(func, x0, args if isinstance(args, tuple) else (args,), tol=xtol, **options)
    return (result.x, result, result.status, result.message) if full_output else result.x


def fixed_point(func: Function, x0: Data, args: Setting = (), **options: Setting) -> Tensor:
    """`scipy.optimize.fixed_point`: x with func(x) = x.

    >>> round(fixed_point(lambda x: 0.5 * x + 1.0, 1.0).item(), 6)
    2.0
    """
    args = args if isinstance(args, tuple) else (args,)
    outcome = theirs("optimize.fixed_point")(
        _numbers(func, args), np.asarray(iv.asarray(x0).detach()), **options
    )
    return solution(lambda x: x - func(x, *args), outcome)


# --- minima -------------------------------------------------------------------------


def _minimum(name: str) -> Function:
    """A function that gives a minimum, or a result with it."""

    def call(func: Function, *where: Setting, args: Setting = (), **options: Setting) -> Any:
        args = args if isinstance(args, tuple) else (args,)
        minimizer = dict(options.get("minimizer_kwargs") or {})
        args = minimizer.pop("args", args)
        if "minimizer_kwargs" in options:
            options["minimizer_kwargs"] = minimizer
        slope = _slope(func, args)
        if options.pop("approx_grad", False):
            options["fprime"] = lambda x, *_: slope(iv.asarray(x))
        options = {k: _numbers(v, args) if callable(v) else v for k, v in options.items()}
        where = tuple(_numbers(w, args) if callable(w) else w for w in where)
        outcome = theirs(f"optimize.{name}")(_numbers(func, args), *where, **options)
        if hasattr(outcome, "keys"):
            return _withsolution(outcome, slope)
        if isinstance(outcome, tuple):
            return (solution(slope, outcome[0]), *outcome[1:])
        return solution(slope, outcome)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.optimize.{name}`; the minimum tracks what the function depends on."
    return call


brent, golden, fminbound, minimize_scalar = map(_minimum, ("brent", "golden", "fminbound", "minimize_scalar"))
fmin, fmin_bfgs, fmin_cg, fmin_powell = map(_minimum, ("fmin", "fmin_bfgs", "fmin_cg", "fmin_powell"))
fmin_cobyla, fmin_l_bfgs_b, fmin_ncg = map(_minimum, ("fmin_cobyla", "fmin_l_bfgs_b", "fmin_ncg"))
fmin_slsqp, fmin_tnc = map(_minimum, ("fmin_slsqp", "fmin_tnc"))
basinhopping, differential_evolution = map(_minimum, ("basinhopping", "differential_evolution"))
dual_annealing, shgo = map(_minimum, ("dual_annealing", "shgo"))


# --- least squares, programs --------------------------------------------------------


def leastsq(func: Function, x0: Data, args: Setting = (), **options: Setting) -> tuple[Tensor, int]:
    """`scipy.optimize.leastsq`: the solution of `least_squares` and 1, 2, 3 or 4 for success."""
    result = least_squares(func, x0, args if isinstance(args, tuple) else (args,), method="lm")
    return result.x, result.status


def curve_fit(
    f: Function, xdata: ArrayLike, ydata: ArrayLike, p0: Data | None = None, **options: Setting
) -> Any:
    """`scipy.optimize.curve_fit` without weights: the parameters and their covariance.

    >>> x = iv.asarray([0.0, 1.0, 2.0])
    >>> curve_fit(lambda x, a, b: a + b * x, x, iv.asarray([1.0, 3.0, 5.0]))[0].round(decimals=6)
    iverson.Tensor([1., 2.])
    """
    x, y = iv.asarray(xdata), iv.asarray(ydata)
    count = f.__code__.co_argcount - 1
    start = np.ones(count) if p0 is None else p0

    def residuals(p: Tensor) -> Any:
        return f(x, *(p[k] for k in range(p.shape[0]))) - y

    solution = least_squares(residuals, start, method="lm", xtol=1e-12, ftol=1e-12, gtol=1e-12).x
    jacobian = iv.jacobian(residuals)(solution)
    excess = y.size - count
    scale = iv.sum(residuals(solution) ** 2) / excess if excess > 0 else np.inf
    return solution, iv.linalg.inv(jacobian.mT @ jacobian) * scale


def _on_free(a: Tensor, b: Tensor, x: NDArray, free: NDArray) -> Tensor:
    """The least-squares solution with the entries that are not free held at those of x."""
    at = np.flatnonzero(free)
    extra = b - a @ iv.asarray(np.where(free, 0.0, x))
    part = iv.linalg.lstsq(a[:, at], extra)[0]
    return iv.scatter_add(iv.asarray(np.where(free, 0.0, x)), at, part)


def nnls(A: ArrayLike, b: ArrayLike, **options: Setting) -> tuple[Tensor, Tensor]:
    """`scipy.optimize.nnls`: the solution, whose zeros stay, and the norm of the residual.

    >>> nnls(iv.asarray([[1., 0.], [0., 1.]]), iv.asarray([1., -1.]))[0]
    iverson.Tensor([1., 0.])
    """
    a, right = iv.asarray(A), iv.asarray(b)
    outcome = theirs("optimize.nnls")(np.array(a.detach()), np.array(right.detach()), **options)[0]
    x = _on_free(a, right, outcome, outcome > 0)
    return x, iv.linalg.vector_norm(a @ x - right)


def lsq_linear(A: ArrayLike, b: ArrayLike, bounds: Setting = (-np.inf, np.inf), **options: Setting) -> Any:
    """`scipy.optimize.lsq_linear`: in its result, ``x`` tracks A and b; entries at a bound stay there."""
    a, right = iv.asarray(A), iv.asarray(b)
    result = theirs("optimize.lsq_linear")(
        np.array(a.detach()), np.array(right.detach()), bounds=bounds, **options
    )
    result.x = _on_free(a, right, result.x, result.active_mask == 0)
    result.fun = a @ result.x - right
    result.cost = 0.5 * iv.sum(result.fun**2)
    return result


def isotonic_regression(y: ArrayLike, *, weights: ArrayLike | None = None, increasing: bool = True) -> Any:
    """`scipy.optimize.isotonic_regression`: means over the blocks that SciPy finds."""
    values = iv.asarray(y)
    w = iv.ones_like(values) if weights is None else iv.asarray(weights)
    result = theirs("optimize.isotonic_regression")(
        np.array(values.detach()), weights=np.array(w.detach()), increasing=increasing
    )
    block = np.repeat(np.arange(result.blocks.size - 1), np.diff(result.blocks))
    count = result.blocks.size - 1
    result.weights = iv.segment_sum(w, block, count)
    result.x = (iv.segment_sum(w * values, block, count) / result.weights)[block]
    return result


def linprog(c: ArrayLike, *args: Setting, **options: Setting) -> Any:
    """`scipy.optimize.linprog`: in its result, ``fun`` tracks c; the solution is a corner, which stays."""
    costs = iv.asarray(c)
    result = theirs("optimize.linprog")(np.array(costs.detach()), *args, **options)
    result.fun = costs @ iv.asarray(result.x)
    return result


def milp(c: ArrayLike, **options: Setting) -> Any:
    """`scipy.optimize.milp`: in its result, ``fun`` tracks c."""
    costs = iv.asarray(c)
    result = theirs("optimize.milp")(np.array(costs.detach()), **options)
    result.fun = costs @ iv.asarray(result.x)
    return result


def approx_fprime(xk: ArrayLike, f: Function, epsilon: ArrayLike | None = None, *args: Setting) -> Tensor:
    """The gradient or the Jacobian of f, exactly.

    >>> approx_fprime(iv.asarray([1., 2.]), lambda x: (x * x).sum())
    iverson.Tensor([2., 4.])
    """
    x = iv.asarray(xk)
    scalar = iv.asarray(f(x, *args)).ndim == 0
    slope: Tensor = (iv.grad if scalar else iv.jacobian)(lambda x: f(x, *args))(x)
    return slope


__all__ = [
    "anderson", "approx_fprime", "basinhopping", "bisect", "brent", "brenth", "brentq", "broyden1",
    "broyden2",
    "curve_fit", "diagbroyden", "differential_evolution", "dual_annealing", "excitingmixing", "fixed_point",
    "fmin",
    "fmin_bfgs", "fmin_cg", "fmin_cobyla", "fmin_l_bfgs_b", "fmin_ncg", "fmin_powell", "fmin_slsqp",
    "fmin_tnc",
    "fminbound", "fsolve", "golden", "isotonic_regression", "least_squares", "leastsq", "linearmixing",
    "linprog",
    "lsq_linear", "milp", "minimize", "minimize_scalar", "newton", "newton_krylov", "nnls", "ridder", "root",
    "root_scalar", "shgo", "toms748",
]  # fmt: skip
