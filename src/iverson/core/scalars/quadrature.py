"""Integrals over a half line by the double exponential formula, for derivatives that have no closed form."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from math import comb
from typing import Any

import numpy as np

from iverson.core import dtypes


@functools.cache
def _nodes() -> tuple[tuple[float, float], ...]:
    """Nodes and weights of the trapezoidal rule for z = exp(t - exp(-t))."""
    step = 1 / 16
    t = np.arange(-4.5, 6.0, step)
    z = np.exp(t - np.exp(-t))
    return tuple(zip(z.tolist(), (step * z * (1 + np.exp(-t))).tolist(), strict=True))


def half_line(integrand: Callable[[Any], Any], scale: Any) -> Any:
    """The integral from 0 to infinity of a function that falls exponentially on the given scale.

    By H. Takahasi, M. Mori: Double exponential formulas for numerical integration, Publ. RIMS 9 (1974), with
    the map for integrands that fall as exp(-z). It is exact to rounding for what is smooth on the scale, and
    for powers and logarithms at 0.
    """
    total: Any = 0.0
    for z, weight in _nodes():
        total = total + weight * integrand(z * scale)
    return total * scale


def of_exponential(order: tuple[int, int], slopes: Callable[[int, int], Any]) -> Any:
    """A mixed derivative of exp(f(a, b)) divided by exp(f), where ``slopes(j, k)`` are those of f.

    The complete Bell polynomials, by their recurrence: of exp(f), the derivative in a is f_a exp(f), whose
    further derivatives are by the rule for products.
    """
    m, n = order
    if m + n == 0:
        return 1.0
    if m == 0:
        return of_exponential((n, 0), lambda j, k: slopes(k, j))
    terms = [
        comb(m - 1, j) * comb(n, k) * slopes(j + 1, k) * of_exponential((m - 1 - j, n - k), slopes)
        for j in range(m)
        for k in range(n + 1)
    ]
    return functools.reduce(lambda a, b: a + b, terms)


def whole(n: Any) -> int:
    """The order that a rule is given, a number or a constant expression."""
    return int(getattr(n, "value", n))


def by_orders(count: int, body: Callable[..., Any]) -> Callable[..., Any]:
    """A body whose first ``count`` arguments are orders of derivatives: whole numbers, or arrays of them.

    ``body`` takes them as integers, and the other arguments as arrays of double precision.
    """

    def of(*args: Any) -> Any:
        dtype = dtypes.to_inexact(np.result_type(*args))
        orders, xs = args[:count], [np.asarray(x, np.float64) for x in args[count:]]
        shape = np.broadcast_shapes(*(np.shape(x) for x in args))
        found = np.empty(shape, dtype)
        with np.errstate(all="ignore"):
            for which, chosen in _alike(orders, shape):
                if chosen is None:
                    found[...] = body(*which, *xs)
                else:
                    found[chosen] = body(*which, *(np.broadcast_to(x, shape)[chosen] for x in xs))
        return found

    return of


def _alike(orders: tuple[Any, ...], shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The combinations of orders that occur, and where each does; None for everywhere."""
    if all(np.size(n) == 1 for n in orders):
        yield tuple(int(np.asarray(n).item()) for n in orders), None
        return
    rows = np.stack([np.broadcast_to(n, shape) for n in orders])
    for which in np.unique(rows.reshape(len(orders), -1), axis=1).T:
        at = np.all(rows == which.reshape(-1, *(1,) * len(shape)), axis=0)
        yield tuple(map(int, which)), at
