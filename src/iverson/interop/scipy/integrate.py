"""Functions of `scipy.integrate` on tensors and on functions of tensors.

An integral of a function that depends on tracked tensors is differentiated under the integral sign: each
derivative is an integral of its own, which SciPy computes to its tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import iverson as iv
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting, theirs
from iverson.interop.scipy.initial_values import solve_ivp

Function = Callable[..., Any]


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral by trapezoids: `iverson.trapezoid`.

    >>> trapezoid(iv.asarray([1., 2., 3.]))
    iverson.Tensor(4.)
    """
    return iv.trapezoid(y, x, dx=dx, axis=axis)


def simpson(y: ArrayLike, x: ArrayLike | None = None, *, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral by parabolas through three points; the last interval of an even number of points by
    SciPy's correction (Cartwright).

    >>> simpson(iv.asarray([0., 1., 4., 9.])).round(decimals=6)
    iverson.Tensor(9.)
    """
    values = iv.moveaxis(iv.asarray(y), axis, -1)
    n = values.shape[-1]
    points = iv.arange(float(n)) * dx if x is None else iv.asarray(x)
    if points.ndim > 1:
        points = iv.moveaxis(points, axis, -1)
    h = points[..., 1:] - points[..., :-1]
    if n == 2:
        return iv.sum(0.5 * h * (values[..., 1:] + values[..., :-1]), axis=-1)
    last = n - 1 if n % 2 else n - 2
    a, b = h[..., 0:last:2], h[..., 1:last:2]
    first, middle, third = values[..., 0:last:2], values[..., 1:last:2], values[..., 2 : last + 1 : 2]
    total = iv.sum(
        (a + b) / 6 * (first * (2 - b / a) + middle * (a + b) ** 2 / (a * b) + third * (2 - a / b)), axis=-1
    )
    if n % 2 == 0:
        a, b = h[..., -2], h[..., -1]
        total = total + values[..., -1] * (2 * b**2 + 3 * a * b) / (6 * (b + a))
        total = total + values[..., -2] * (b**2 + 3 * a * b) / (6 * a)
        total = total - values[..., -3] * b**3 / (6 * a * (a + b))
    return total


def romb(y: ArrayLike, dx: float = 1.0, axis: int = -1, show: bool = False) -> Tensor:
    """Romberg's integral of 2^k + 1 samples: SciPy's weights, a constant for their number.

    >>> romb(iv.asarray([0., 1., 4.])).round(decimals=6)
    iverson.Tensor(2.666667)
    """
    values = iv.moveaxis(iv.asarray(y), axis, -1)
    weights = theirs("integrate.romb")(np.eye(values.shape[-1]), dx=dx, axis=-1)
    return values @ iv.asarray(weights)


def cumulative_trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: float = 1.0, axis: int = -1, initial: float | None = None
) -> Tensor:
    """The integrals by trapezoids up to each sample.

    >>> cumulative_trapezoid(iv.asarray([1., 2., 3.]))
    iverson.Tensor([1.5, 4. ])
    """
    values = iv.moveaxis(iv.asarray(y), axis, -1)
    steps: Any = dx
    if x is not None:
        points = iv.asarray(x)
        steps = iv.diff(points if points.ndim == 1 else iv.moveaxis(points, axis, -1), axis=-1)
    sums = iv.cumulative_sum(0.5 * steps * (values[..., 1:] + values[..., :-1]), axis=-1)
    if initial is not None:
        sums = iv.concat([iv.zeros_like(sums[..., :1]) + initial, sums], axis=-1)
    return iv.moveaxis(sums, -1, axis)  # type: ignore[no-any-return]


def cumulative_simpson(
    y: ArrayLike, *, dx: float = 1.0, x: None = None, axis: int = -1, initial: float | None = None
) -> Tensor:
    """The integrals by parabolas up to each of equally spaced samples: SciPy's weights, a matrix.

    >>> cumulative_simpson(iv.asarray([0., 1., 4.])).round(decimals=6)
    iverson.Tensor([0.333333, 2.666667])
    """
    values = iv.moveaxis(iv.asarray(y), axis, -1)
    weights = theirs("integrate.cumulative_simpson")(
        np.eye(values.shape[-1]), dx=dx, axis=-1, initial=initial
    )
    return iv.moveaxis(values @ iv.asarray(weights), -1, axis)


def fixed_quad(func: Function, a: float, b: float, args: Setting = (), n: int = 5) -> tuple[Tensor, None]:
    """Gauss's integral of order n: a weighed sum of values at constant nodes.

    >>> fixed_quad(lambda x: x * x, 0.0, 1.0)[0].round(decimals=6)
    iverson.Tensor(0.333333)
    """
    nodes, weights = np.polynomial.legendre.leggauss(n)
    low, high = iv.asarray(a), iv.asarray(b)
    half = 0.5 * (high - low)
    values = iv.asarray(func(half * (iv.asarray(nodes) + 1) + low, *args))
    return half * iv.sum(values * iv.asarray(weights), axis=-1), None


def quad(
    func: Function,
    a: float,
    b: float,
    args: Setting = (),
    *,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    **options: Setting,
) -> tuple[Tensor, float]:
    """The integral of a function of a number, as a tensor, and SciPy's estimate of its error.

    SciPy chooses intervals for the values; the result is the sum of Gauss-Legendre integrals of order 21 over
    intervals that are halved until they agree with SciPy's within tolerances, and so has exact derivatives.
    Infinite ends are mapped to finite ones. Raises ArgumentError for weights and points.

    >>> quad(lambda x: x * x, 0.0, 1.0)[0].round(decimals=6)
    iverson.Tensor(0.333333)
    """
    args = args if isinstance(args, tuple) else (args,)
    if options:
        raise iv.errors.ArgumentError("quad", next(iter(options)), got="one", expected="none, on tensors")

    def number(x: float) -> float:
        with iv.no_grad():
            return float(iv.asarray(func(iv.asarray(x), *args)).detach())

    low, high = (float(iv.asarray(e).detach()) for e in (a, b))
    value, error = theirs("integrate.quad")(number, low, high, epsabs=epsabs, epsrel=epsrel, limit=limit)
    of, first, last = _on_finite(func, args, a, b)
    parts = 1
    while True:
        total = _composite(of, first, last, parts)
        if parts >= 4096 or abs(float(total.detach()) - value) <= max(epsabs, epsrel * abs(value)) + error:
            return total, error
        parts *= 2


def _on_finite(func: Function, args: Setting, a: Setting, b: Setting) -> tuple[Function, Any, Any]:
    """The integrand over finite ends: x = t / (1 - t^2) for two infinite ends, a + t / (1 - t) for one."""
    lower, upper = (float(iv.asarray(e).detach()) for e in (a, b))
    if np.isinf(lower) and np.isinf(upper):
        return lambda t: func(t / (1 - t * t), *args) * (1 + t * t) / (1 - t * t) ** 2, -1.0, 1.0
    if np.isinf(upper):
        return lambda t: func(a + t / (1 - t), *args) / (1 - t) ** 2, 0.0, 1.0
    if np.isinf(lower):
        return lambda t: func(b - t / (1 - t), *args) / (1 - t) ** 2, 0.0, 1.0
    return lambda t: func(t, *args), a, b


def _composite(of: Function, first: Setting, last: Setting, parts: int) -> Tensor:
    """The sum of Gauss-Legendre integrals over equal intervals."""
    nodes, weights = np.polynomial.legendre.leggauss(21)
    shares = ((np.arange(parts)[:, None] + 0.5 * (nodes + 1)) / parts).ravel()
    span = iv.asarray(last) - iv.asarray(first)
    values = iv.vmap(lambda t: iv.asarray(of(t)))(iv.asarray(first) + span * iv.asarray(shares))
    return iv.sum(values * iv.asarray(np.tile(0.5 * weights / parts, parts))) * span


def _ends(value: Setting, *outer: Setting) -> Any:
    return value(*outer) if callable(value) else value


def nquad(
    func: Function, ranges: Sequence[Setting], args: Setting = (), **options: Setting
) -> tuple[Tensor, float]:
    """The integral over several variables, the first the innermost; ranges are pairs or functions of outer
    ones.

    >>> nquad(lambda x, y: x * y, [(0.0, 1.0), (0.0, 2.0)])[0].round(decimals=6)
    iverson.Tensor(1.)
    """

    def over(k: int, outer: tuple[Setting, ...]) -> Tensor:
        low, high = _ends(ranges[k], *outer)
        inner = (lambda x: func(x, *outer, *args)) if k == 0 else (lambda x: over(k - 1, (x, *outer)))
        of, first, last = _on_finite(inner, (), low, high)
        return _composite(of, first, last, 1)

    return over(len(ranges) - 1, ()), 0.0


def dblquad(
    func: Function, a: float, b: float, gfun: Setting, hfun: Setting, args: Setting = (), **_: Setting
) -> tuple[Tensor, float]:
    """The integral of ``func(y, x)`` over x from a to b and y from gfun(x) to hfun(x).

    >>> dblquad(lambda y, x: x * y, 0.0, 1.0, 0.0, 2.0)[0].round(decimals=6)
    iverson.Tensor(1.)
    """
    return nquad(func, [lambda x: (_ends(gfun, x), _ends(hfun, x)), (a, b)], args)


def tplquad(
    func: Function,
    a: float,
    b: float,
    gfun: Setting,
    hfun: Setting,
    qfun: Setting,
    rfun: Setting,
    args: Setting = (),
    **_: Setting,
) -> tuple[Tensor, float]:
    """The integral of ``func(z, y, x)``, z from qfun(x, y) to rfun(x, y), as `dblquad` in the others."""
    inner = lambda y, x: (_ends(qfun, x, y), _ends(rfun, x, y))
    return nquad(func, [inner, lambda x: (_ends(gfun, x), _ends(hfun, x)), (a, b)], args)


def quad_vec(
    f: Function, a: float, b: float, *, args: Setting = (), **options: Setting
) -> tuple[Tensor, float]:
    """The integral of a function with an array for a result, entry by entry as `nquad`.

    >>> quad_vec(lambda x: iv.stack([x, x * x]), 0.0, 1.0)[0].round(decimals=6)
    iverson.Tensor([0.5     , 0.333333])
    """
    of, first, last = _on_finite(f, args, a, b)
    nodes, weights = np.polynomial.legendre.leggauss(21)
    parts = 8
    shares = ((np.arange(parts)[:, None] + 0.5 * (nodes + 1)) / parts).ravel()
    span = iv.asarray(last) - iv.asarray(first)
    values = iv.vmap(lambda t: iv.asarray(of(t)))(iv.asarray(first) + span * iv.asarray(shares))
    return iv.tensordot(iv.asarray(np.tile(0.5 * weights / parts, parts)), values, axes=1) * span, 0.0


def odeint(
    func: Function,
    y0: ArrayLike,
    t: Sequence[float],
    args: Setting = (),
    tfirst: bool = False,
    rtol: float = 1.49012e-8,
    atol: float = 1.49012e-8,
    **options: Setting,
) -> Tensor:
    """The solution of dy/dt = func(y, t) at times, a row each, by `solve_ivp`.

    >>> odeint(lambda y, t: -y, [1.0], [0.0, 1.0]).round(decimals=6)
    iverson.Tensor([[1.      ],
                    [0.367879]])
    """
    times = [float(x) for x in t]
    fun = func if tfirst else (lambda s, y, *extra: func(y, s, *extra))
    y = solve_ivp(
        fun, (times[0], times[-1]), y0, method="LSODA", t_eval=times, args=args, rtol=rtol, atol=atol
    ).y
    return iv.moveaxis(y, -1, 0)  # type: ignore[no-any-return]


__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "dblquad", "fixed_quad", "nquad", "odeint", "quad",
    "quad_vec",
    "romb", "simpson", "solve_ivp", "tplquad", "trapezoid",
]  # fmt: skip
