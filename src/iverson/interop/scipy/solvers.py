"""SciPy's solvers on functions of tensors: exact derivatives go in, derivatives of the solution come out.

`root`, `minimize` and `least_squares` hand SciPy the gradients, Jacobians and products with the Hessian that
its methods ask for. Where the function depends on tensors that track gradients, as arguments or by its
closure, so does the solution: by the implicit function theorem, in both modes and to any order, and no step
of a solver is recorded. `solve_ivp` is in `iverson.interop.scipy.initial_values`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.caller import warn
from iverson.core.dispatch import has_entries, is_tracked
from iverson.core.errors import ArgumentError, ConvergenceWarning, GradientError, GraphError, ShapeError
from iverson.core.shapes import check_choice
from iverson.interop.scipy.initial_values import solve_ivp
from iverson.transforms.implicit import implicit

Function = Callable[..., Any]

#: Methods of `scipy.optimize.minimize` by what they read besides the gradient.
_VALUES = ("nelder-mead", "powell", "cobyla", "cobyqa")
_PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
_HESSIANS = ("dogleg", "trust-exact")


def root(
    fun: Function,
    x0: Any,
    args: Sequence[Any] = (),
    method: str = "hybr",
    tol: float | None = None,
    **options: Any,
) -> Any:
    """Where a function is zero, by `scipy.optimize.root` with the exact Jacobian.

    Parameters
    ----------
    fun : ``fun(x, *args)`` takes a real tensor of the shape of ``x0`` and gives one of as many entries.
    x0 : where to start, of any shape.
    args : further arguments.
    method, tol : as in SciPy.
    options : of the method.

    Returns
    -------
    SciPy's result; ``x`` is a tensor of the shape of ``x0``, which tracks gradients where ``fun`` depends on
    tensors that do.

    Raises
    ------
    ShapeError : unless the function gives as many entries as it takes.
    GraphError : where the solution is differentiated and the Python code of ``fun``, which is traced, reads
        entries.
    LinearAlgebraError : at the derivative, where the Jacobian is singular at the solution.

    Warns with `iverson.errors.ConvergenceWarning` where a solution that is differentiated was not found.

    >>> a = iv.asarray(2.0, requires_grad=True)
    >>> x = root(lambda x: x * x - a, iv.ones(1)).x
    >>> iv.autograd.grad(x.sum(), a)   # 1 / (2 sqrt(a))
    iverson.Tensor(0.35355339)
    """
    import scipy.optimize

    start = _start(x0, "root")
    call = _on_vectors(fun, args, start)
    with iv.no_grad():
        entries = call(_vector(start)).size
    if entries != start.size:
        raise ShapeError("root", "fun", got=f"{entries} entries", expected=f"{start.size}, as many as x0 has")
    found = scipy.optimize.root(
        _numbers(call, "root"),
        _vector(start).numpy(),
        method=method,
        tol=tol,
        options=options,
        jac=_numbers(iv.jacobian(call), "root"),
    )
    return _with_solution(found, call, start, "root")


def minimize(
    fun: Function,
    x0: Any,
    args: Sequence[Any] = (),
    method: str | None = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    **options: Any,
) -> Any:
    """Where a real function is least, by `scipy.optimize.minimize` with exact derivatives.

    Parameters
    ----------
    fun : ``fun(x, *args)`` takes a real tensor of the shape of ``x0`` and gives a number.
    x0 : where to start, of any shape.
    args : further arguments.
    method, bounds, constraints, tol : as in SciPy. Each method gets what it reads: gradients, products with
        the Hessian ("Newton-CG", "trust-ncg", "trust-krylov", "trust-constr") or the Hessian ("dogleg",
        "trust-exact").
    options : of the method.

    Returns
    -------
    SciPy's result; ``x`` is a tensor of the shape of ``x0``, which tracks gradients where ``fun`` depends on
    tensors that do. What a bound holds does not move.

    Raises
    ------
    ArgumentError : where a solution under ``constraints`` is differentiated.
    GraphError : where the solution is differentiated and the Python code of ``fun``, which is traced, reads
        entries.
    LinearAlgebraError : at the derivative, where the Hessian is singular at the solution.

    Warns with `iverson.errors.ConvergenceWarning` where a solution that is differentiated was not found.

    >>> target = iv.asarray([1.0, 2.0], requires_grad=True)
    >>> x = minimize(lambda x: ((x - target) ** 2).sum(), iv.zeros(2)).x
    >>> iv.autograd.grad(x.sum(), target).numpy().round(6)
    array([1., 1.])
    """
    import scipy.optimize

    start = _start(x0, "minimize")
    call = _on_vectors(fun, args, start)

    def value(x: Any) -> Any:
        return iv.reshape(call(x), ())

    reads = (method or "").lower()
    given: dict[str, Any] = {}
    if reads in _VALUES:
        given["fun"] = _numbers(value, "minimize")
    else:
        given.update(fun=_numbers(iv.value_and_grad(value), "minimize"), jac=True)
    if reads in _PRODUCTS:
        given["hessp"] = _numbers(lambda x, v: iv.hvp(value, (x,), (v,))[1][0], "minimize")
    elif reads in _HESSIANS:
        given["hess"] = _numbers(iv.hessian(value), "minimize")
    found = scipy.optimize.minimize(
        x0=_vector(start).numpy(),
        method=method,
        bounds=bounds,
        constraints=constraints,
        tol=tol,
        options=options,
        **given,
    )
    free = _free(found.x, bounds) if bounds is not None else None
    return _with_solution(found, iv.grad(value), start, "minimize", free, bool(constraints))


def least_squares(
    fun: Function,
    x0: Any,
    args: Sequence[Any] = (),
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    layout: str = "strided",
    **options: Any,
) -> Any:
    """Where the sum of the squares of residuals is least, by `scipy.optimize.least_squares`.

    Parameters
    ----------
    fun : ``fun(x, *args)`` takes a real tensor of the shape of ``x0`` and gives the residuals.
    x0 : where to start, of any shape.
    args : further arguments.
    bounds, method : as in SciPy.
    layout : of the Jacobian that SciPy gets: with "csr", entries that are known to be zero are not stored
        (`iverson.jacobian`), and its steps are by `lsmr`.
    options : other arguments of SciPy's function; ``loss`` is "linear" where the solution is differentiated.

    Returns
    -------
    As for `minimize`. Derivatives of the solution are exact, of residuals that are not zero, too.

    Raises and warns as `minimize`; ArgumentError for another ``loss`` where the solution is differentiated.

    >>> y = iv.asarray([1.0, 3.0, 5.0], requires_grad=True)
    >>> x = least_squares(lambda x: x[0] + x[1] * iv.arange(3.0) - y, iv.zeros(2)).x
    >>> iv.autograd.grad(x[1], y).numpy().round(6)
    array([-0.5, -0. ,  0.5])
    """
    import scipy.optimize

    check_choice(layout, ("strided", "csr"), "least_squares", "layout")
    start = _start(x0, "least_squares")
    call = _on_vectors(fun, args, start)
    found = scipy.optimize.least_squares(
        _numbers(call, "least_squares"),
        _vector(start).numpy(),
        jac=_numbers(iv.jacobian(call, layout=layout), "least_squares"),  # type: ignore[arg-type]
        bounds=bounds,
        method=method,
        **options,
    )
    half = iv.grad(lambda x: iv.square(call(x)).sum() * 0.5)
    free = np.broadcast_to(found.active_mask == 0, found.x.shape)
    return _with_solution(
        found, half, start, "least_squares", free, options.get("loss", "linear") != "linear"
    )


# --- between tensors of any shape and SciPy's vectors ------------------------------


def _start(x0: Any, operation: str) -> Any:
    start = iv.asarray(x0)
    if not has_entries(start):
        raise _traced(operation)
    if is_tracked(start):
        raise GradientError(
            operation,
            "x0",
            got="a tensor that tracks gradients",
            expected="numbers: a solution does not depend on where the search for it starts",
            remedy="call x0.detach()",
        )
    return start if start.dtype.kind == "f" else iv.astype(start, "float64")


def _vector(x: Any) -> Any:
    return iv.astype(iv.reshape(x, (-1,)), "float64")


def _on_vectors(fun: Function, args: Sequence[Any], start: Any) -> Function:
    """The function of the entries of x, as a vector."""

    def call(x: Any) -> Any:
        found = fun(iv.reshape(iv.astype(x, start.dtype), start.shape), *args)
        return iv.reshape(iv.asarray(found), (-1,))

    return call


def _numbers(function: Function, operation: str) -> Function:
    """The function on SciPy's side: of NumPy arrays, which records nothing."""

    def call(*vectors: Any) -> Any:
        with iv.no_grad():
            found = function(*map(iv.asarray, vectors))
        made = found if isinstance(found, tuple) else (found,)
        if not all(map(has_entries, made)):
            raise _traced(operation)
        parts = [_number(x.detach()) for x in made]
        return tuple(parts) if isinstance(found, tuple) else parts[0]

    return call


def _traced(operation: str) -> GraphError:
    return GraphError(
        operation,
        got="a function of what is traced, or of a batch",
        expected="one of tensors with entries: SciPy reads them in each step",
        remedy="call it outside of jit and vmap; inside, take the steps in iverson.while_loop",
    )


def _number(x: Any) -> Any:
    if x.layout == "csr":
        return x.to_scipy()
    return x.item() if x.ndim == 0 else np.array(x.numpy())


def _free(x: Any, bounds: Any) -> Any:
    """Which entries no bound holds."""
    if hasattr(bounds, "lb"):
        lower, upper = bounds.lb, bounds.ub
    else:
        pairs = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds]
        lower, upper = np.array(pairs, float).reshape(-1, 2).T
    return (x > lower) & (x < upper)


# --- solutions --------------------------------------------------------------------


def _with_solution(
    found: Any, condition: Function, start: Any, operation: str, free: Any = None, refused: bool = False
) -> Any:
    """SciPy's result with its ``x`` as a tensor, where the condition is zero."""
    x = iv.asarray(found.x)

    def held(x: Any) -> Any:
        return condition(x) if free is None or free.all() else iv.where(free, condition(x), x - found.x)

    solution = implicit(held, lambda: iv.asarray(x, copy=True), x)
    if is_tracked(solution):
        if refused:
            raise ArgumentError(
                operation,
                "constraints" if operation == "minimize" else "loss",
                got="one, for a function of tensors that track gradients",
                expected="none: the derivative of such a solution is not known here",
                remedy="call detach() on what the function depends on",
            )
        if not found.success:
            warn(f"{operation}: the derivative is that of no solution: {found.message}", ConvergenceWarning)
    found.x = iv.reshape(iv.astype(solution, start.dtype), start.shape)
    return found


__all__ = ["least_squares", "minimize", "root", "solve_ivp"]
