"""SciPy's solvers on functions of tensors: exact derivatives go in, derivatives of the solution come out.

`root`, `minimize` and `least_squares` hand SciPy the gradients, Jacobians and products with the Hessian that
its methods ask for. Where the function depends on tensors that track gradients, as arguments or by its
closure, so does the solution: by the implicit function theorem, in both modes and to any order, and no step
of a solver is recorded. In a function that is compiled or mapped, a solver is a step of its own that returns
to Python, once for each example; what it finds has ``x`` and ``success`` alone. `solve_ivp` is in
`iverson.interop.scipy.initial_values`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import iverson as iv
from iverson.core.dispatch import has_entries, is_tracked
from iverson.core.errors import ArgumentError, ConvergenceWarning, GradientError, ShapeError
from iverson.core.protocols import NDArray
from iverson.core.python.caller import warn
from iverson.core.shapes import check_choice
from iverson.handles import Tensor
from iverson.interop.scipy.by_matrix.linear_maps import Setting
from iverson.interop.scipy.initial_values import T, solve_ivp
from iverson.transforms.implicit import implicit, implicit_in_trace

if TYPE_CHECKING:
    import numpy.typing as npt
    from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, OptimizeResult
    from scipy.sparse import sparray

    from iverson.handles.typing import Data

    #: The bounds of an entry; None for no bound.
    Pair: TypeAlias = tuple[float | None, float | None]
    #: A constraint, as SciPy takes it.
    Constraint: TypeAlias = (
        LinearConstraint
        | NonlinearConstraint
        | Mapping[str, str | Callable[..., npt.ArrayLike] | Sequence[float]]
    )
    #: A result on SciPy's side.
    Number: TypeAlias = float | NDArray | sparray

Function = Callable[..., Any]

#: Methods of `scipy.optimize.minimize` by what they read besides the gradient.
_VALUES = ("nelder-mead", "powell", "cobyla", "cobyqa")
_PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
_HESSIANS = ("dogleg", "trust-exact")


def root(
    fun: Function,
    x0: Data,
    args: Sequence[T] = (),
    method: str = "hybr",
    jac: Callable[..., Setting] | bool | None = None,
    tol: float | None = None,
    callback: Callable[..., Setting] | None = None,
    options: Mapping[str, Setting] | None = None,
    **further: Setting,
) -> OptimizeResult:
    """Zero of a function, by `scipy.optimize.root` with the exact Jacobian.

    Parameters
    ----------
    fun : ``fun(x, *args)`` takes a real tensor of the shape of ``x0`` and gives one of as many entries.
    x0 : where to start, of any shape.
    args : further arguments.
    method, tol, callback, options : as in SciPy; what is given by further names is an option, too.
    jac : True if ``fun`` gives a pair with the Jacobian, which is not read; nor is a function: it is exact as
        it is.

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
    call = _on_vectors(_values_of(fun, jac), args, start)
    settings = {**(options or {}), **further}
    with iv.no_grad():
        entries = call(_vector(start)).size
    if entries != start.size:
        raise ShapeError("root", "fun", got=f"{entries} entries", expected=f"{start.size}, as many as x0 has")

    def solve(call: Function, start: NDArray) -> OptimizeResult:
        return scipy.optimize.root(
            _numbers(call),
            start,
            method=method,
            tol=tol,
            callback=callback,
            options=settings,
            jac=_numbers(iv.jacobian(call)),
        )

    return _solved(solve, call, lambda call: call, start, "root")


def minimize(
    fun: Function,
    x0: Data,
    args: Sequence[T] = (),
    method: str | None = None,
    jac: Callable[..., Setting] | bool | None = None,
    hess: Callable[..., Setting] | None = None,
    hessp: Callable[..., Setting] | None = None,
    bounds: Bounds | Sequence[Pair] | NDArray | None = None,
    constraints: Constraint | Sequence[Constraint] = (),
    tol: float | None = None,
    callback: Callable[..., Setting] | None = None,
    options: Mapping[str, Setting] | None = None,
    **further: Setting,
) -> OptimizeResult:
    """Minimum of a real function, by `scipy.optimize.minimize` with exact derivatives.

    Parameters
    ----------
    fun : ``fun(x, *args)`` takes a real tensor of the shape of ``x0`` and gives a number.
    x0 : where to start, of any shape.
    args : further arguments.
    method, bounds, constraints, tol : as in SciPy. Each method gets what it reads: gradients, products with
        the Hessian ("Newton-CG", "trust-ncg", "trust-krylov", "trust-constr") or the Hessian ("dogleg",
        "trust-exact").
    jac, hess, hessp : True for ``jac`` if ``fun`` gives a pair with the gradient, which is not read; nor are
        functions: derivatives are exact as they are.
    callback, options : as in SciPy; what is given by further names is an option of the method, too.

    Returns
    -------
    SciPy's result; ``x`` is a tensor of the shape of ``x0``, which tracks gradients where ``fun`` depends on
    tensors that do. An entry at a bound does not move.

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
    call = _on_vectors(_values_of(fun, jac), args, start)
    settings = {**(options or {}), **further}
    reads = (method or "").lower()

    def gradient(call: Function) -> Function:
        return iv.grad(lambda x: iv.reshape(call(x), ()))

    def solve(call: Function, start: NDArray) -> OptimizeResult:
        def value(x: Tensor) -> Tensor:
            result: Tensor = iv.reshape(call(x), ())
            return result

        arguments: dict[str, Any] = {}
        if reads in _VALUES:
            arguments["fun"] = _numbers(value)
        else:
            arguments.update(fun=_numbers(iv.value_and_grad(value)), jac=True)
        if reads in _PRODUCTS:
            arguments["hessp"] = _numbers(lambda x, v: iv.hvp(value, (x,), (v,))[1][0])
        elif reads in _HESSIANS:
            arguments["hess"] = _numbers(iv.hessian(value))
        return scipy.optimize.minimize(
            x0=start,
            method=method,
            bounds=bounds,
            constraints=constraints,
            tol=tol,
            callback=callback,
            options=settings,
            **arguments,
        )

    def free(result: OptimizeResult) -> NDArray | None:
        return None if bounds is None else _free(result.x, bounds)

    return _solved(solve, call, gradient, start, "minimize", free, bool(constraints))


def least_squares(
    fun: Function,
    x0: Data,
    args: Sequence[T] = (),
    bounds: Bounds | tuple[npt.ArrayLike, npt.ArrayLike] = (-np.inf, np.inf),
    method: str = "trf",
    layout: str = "strided",
    **options: Setting,
) -> OptimizeResult:
    """Minimum of the sum of squares of residuals, by `scipy.optimize.least_squares`.

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
    options.pop("jac", None)  # it is exact
    by_name = options.pop("kwargs", None)
    if by_name:
        fun = partial(fun, **by_name)
    call = _on_vectors(fun, args, start)

    def gradient(call: Function) -> Function:
        return iv.grad(lambda x: iv.square(call(x)).sum() * 0.5)

    def solve(call: Function, start: NDArray) -> OptimizeResult:
        return scipy.optimize.least_squares(
            _numbers(call),
            start,
            jac=_numbers(iv.jacobian(call, layout=layout)),  # type: ignore[call-overload]
            bounds=bounds,
            method=method,
            **options,
        )

    def free(result: OptimizeResult) -> NDArray | None:
        return np.broadcast_to(result.active_mask == 0, result.x.shape)

    refused = options.get("loss", "linear") != "linear"
    return _solved(solve, call, gradient, start, "least_squares", free, refused)


# --- between tensors of any shape and SciPy's vectors ------------------------------


def _start(x0: Data, operation: str) -> Tensor:
    start = iv.asarray(x0)
    if is_tracked(start):
        raise GradientError(
            operation,
            "x0",
            got="a tensor that tracks gradients",
            expected="numbers: a solution does not depend on where the search for it starts",
            remedy="call x0.detach()",
        )
    return start if start.dtype.kind == "f" else iv.astype(start, "float64")


def _values_of(fun: Function, jac: Callable[..., Setting] | bool | None) -> Function:
    """The function without the derivative that it gives besides, where ``jac`` is True."""
    return (lambda *xs: fun(*xs)[0]) if jac is True else fun


def _vector(x: Tensor) -> Tensor:
    return iv.astype(iv.reshape(x, (-1,)), "float64")


def _on_vectors(fun: Function, args: Sequence[T], start: Tensor) -> Function:
    """Function ``fun`` with the entries of its argument and of its result as vectors.

    start : a tensor of the shape and dtype that ``fun`` expects. args : further arguments of ``fun``.
    """

    def call(x: Tensor) -> Tensor:
        value = fun(iv.reshape(iv.astype(x, start.dtype), start.shape), *args)
        return iv.reshape(iv.asarray(value), (-1,))

    return call


class _Traced(Exception):
    """The result of a function has no entries: it depends on a traced value or on a batch."""


def _numbers(function: Function) -> Function:
    """Function for SciPy that calls ``function`` on NumPy arrays and records nothing.

    It raises `_Traced` if the result depends on a trace or a batch, so that it has no numbers.
    """

    def call(*vectors: NDArray) -> Number | tuple[Number, ...]:
        with iv.no_grad():
            result = function(*map(iv.asarray, vectors))
        values = result if isinstance(result, tuple) else (result,)
        if not all(map(has_entries, values)):
            raise _Traced
        parts = [_number(x.detach()) for x in values]
        return tuple(parts) if isinstance(result, tuple) else parts[0]

    return call


def _number(x: Tensor) -> Number:
    if x.layout == "csr":
        return x.to_scipy()
    return x.item() if x.ndim == 0 else np.array(x.numpy())


def _free(x: NDArray, bounds: Bounds | Sequence[Pair] | NDArray) -> NDArray:
    """Boolean array that is True for the entries of ``x`` strictly between their bounds."""
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        lower, upper = bounds.lb, bounds.ub
    else:
        pairs = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds]
        lower, upper = np.array(pairs, float).reshape(-1, 2).T
    inside: NDArray = (x > lower) & (x < upper)
    return inside


# --- solutions --------------------------------------------------------------------


def _solved(
    solve: Callable[[Function, NDArray], OptimizeResult],
    function: Function,
    condition_of: Callable[[Function], Function],
    start: Tensor,
    operation: str,
    free: Callable[[OptimizeResult], NDArray | None] = lambda _: None,
    refused: bool = False,
) -> OptimizeResult:
    """SciPy's result with ``x`` as a tensor that can be differentiated, also in a trace or a batch.

    solve : SciPy's solver; it gets the function and the entries of the start.
    condition_of : makes of a function the condition that is zero at the solution.
    free : gives for SciPy's result a boolean array, True for entries that are not at a bound; None for all.
    refused : True if the solution has no known derivative: a tracked one raises ArgumentError.
    """
    if has_entries(start):
        try:
            result = solve(function, _vector(start).numpy())
        except _Traced:
            pass
        else:
            return _with_solution(result, condition_of(function), start, operation, free(result), refused)
    from scipy.optimize import OptimizeResult

    def parts(function: Function, start: NDArray) -> tuple[NDArray, bool, NDArray]:
        result = solve(function, start)
        if not result.success:
            warn(f"{operation}: {result.message}", ConvergenceWarning)
        mask = free(result)
        return result.x, result.success, np.ones(result.x.shape, bool) if mask is None else mask

    x, success = implicit_in_trace(
        function,
        condition_of,
        parts,
        _vector(start),
        operation,
        (lambda: _refuse(operation)) if refused else None,
    )
    return OptimizeResult(x=iv.reshape(iv.astype(x, start.dtype), start.shape), success=success)


def _refuse(operation: str) -> None:
    raise ArgumentError(
        operation,
        "constraints" if operation == "minimize" else "loss",
        got="one, for a function of tensors that track gradients",
        expected="none: the derivative of such a solution is not known here",
        remedy="call detach() on what the function depends on",
    )


def _with_solution(
    result: OptimizeResult,
    condition: Function,
    start: Tensor,
    operation: str,
    free: NDArray | None,
    refused: bool,
) -> OptimizeResult:
    """SciPy's result, changed in place: its ``x`` becomes a tensor that can be differentiated.

    condition : is zero at the solution. free : True for entries that are not at a bound; None for all.
    refused : True if the solution has no known derivative: a tracked one raises ArgumentError.
    """
    x = iv.asarray(result.x)

    def held(x: Tensor) -> Tensor:
        value: Tensor = condition(x)
        return value if free is None or free.all() else iv.where(free, value, x - result.x)

    solution = implicit(held, lambda: iv.asarray(x, copy=True), x)
    if is_tracked(solution):
        if refused:
            _refuse(operation)
        if not result.success:
            warn(f"{operation}: the derivative is that of no solution: {result.message}", ConvergenceWarning)
    result.x = iv.reshape(iv.astype(solution, start.dtype), start.shape)
    return result


__all__ = ["least_squares", "minimize", "root", "solve_ivp"]
