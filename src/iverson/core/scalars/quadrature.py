"""Functions of whole orders, and derivatives without a closed form as integrals over a half line.

Bodies of arrays and of compiled loops come from one text. The integrals are by the double exponential
formula.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb, prod
from typing import Any, Protocol, SupportsInt

import numpy as np

from iverson.core import dtypes
from iverson.core.protocols import Namespace, NDArray
from iverson.core.scalars.scalar_record import Strided
from iverson.core.scalars.special_functions import digamma, lgamma, polygamma, scipy_special


class _Arrays:
    """Namespace ``F`` of the functions that series are made of, on NumPy arrays."""

    exp, expm1, log, log1p, sqrt, abs = np.exp, np.expm1, np.log, np.log1p, np.sqrt, np.abs
    where, maximum, minimum, isinf = np.where, np.maximum, np.minimum, np.isinf
    round, floor, sin = np.rint, np.floor, np.sin
    digamma, lgamma, polygamma = staticmethod(digamma), staticmethod(lgamma), staticmethod(polygamma)
    betaln, erfcx, i0e = (staticmethod(scipy_special(name)) for name in ("betaln", "erfcx", "i0e"))


class Double(Protocol):  # noqa: PLW1641
    """A value in a series, in double precision: an array of NumPy, or an expression of compiled loops."""

    def __neg__(self) -> Double: ...
    def __add__(self, other: Double | float, /) -> Double: ...
    def __radd__(self, other: Double | float, /) -> Double: ...
    def __sub__(self, other: Double | float, /) -> Double: ...
    def __rsub__(self, other: Double | float, /) -> Double: ...
    def __mul__(self, other: Double | float, /) -> Double: ...
    def __rmul__(self, other: Double | float, /) -> Double: ...
    def __truediv__(self, other: Double | float, /) -> Double: ...
    def __rtruediv__(self, other: Double | float, /) -> Double: ...
    def __pow__(self, other: Double | float, /) -> Double: ...
    def __eq__(self, other: object, /) -> Any: ...
    def __lt__(self, other: Double | float, /) -> Any: ...
    def __le__(self, other: Double | float, /) -> Any: ...
    def __gt__(self, other: Double | float, /) -> Any: ...
    def __ge__(self, other: Double | float, /) -> Any: ...


@dataclass(frozen=True)
class Total:
    """The value ``finish(sum of term(k, *given) over k < count, *given)``, not computed yet.

    given : arguments that do not depend on k. k is a number, or an expression of double precision.
    """

    count: int
    given: tuple[Any, ...]
    term: Callable[..., Any]
    finish: Callable[..., Any]


#: How many terms of entries are worked out at once: NumPy's calls cost as much as a thousand entries.
AT_ONCE = 1 << 13


def total_of(f: Total) -> Any:
    """The value of ``f`` on NumPy arrays; terms are computed some `AT_ONCE` entries at a time."""
    shape = np.broadcast_shapes(*map(np.shape, f.given))
    step = max(1, AT_ONCE // max(1, prod(shape)))
    total: Any = 0.0
    for first in range(0, f.count, step):
        k = np.arange(first, min(first + step, f.count), dtype=np.float64)
        total = total + np.sum(f.term(k.reshape(-1, *(1,) * len(shape)), *f.given), axis=0)
    return f.finish(total, *f.given)


#: The step of the trapezoidal rule, its first node, and how many there are.
STEP, FIRST, NODES = 1 / 16, -4.5, 168


def half_line(
    F: Namespace,
    integrand: Callable[..., Double],
    scale: Double,
    arguments: tuple[Double, ...],
    finish: Callable[..., Double],
) -> Total:
    """The value ``finish(integral, *arguments)``, for the integral from 0 to infinity of an integrand in z.

    By H. Takahasi, M. Mori: Double exponential formulas for numerical integration, Publ. RIMS 9 (1974), with
    the map for integrands that fall as exp(-z), z = exp(t - exp(-t)). It is exact to rounding for integrands
    that are smooth on the scale, and for powers and logarithms at 0.

    integrand : ``integrand(z, *arguments)``, which falls exponentially.
    scale : the length in z over which it falls.
    """

    def term(k: Double, scale: Double, *arguments: Double) -> Any:
        t = FIRST + k * STEP
        inner = F.exp(-t)
        z = F.exp(t - inner)
        return STEP * z * (1 + inner) * integrand(z * scale, *arguments)

    return Total(
        NODES, (scale, *arguments), term, lambda total, scale, *arguments: finish(total * scale, *arguments)
    )


def of_exponential(order: tuple[int, int], slopes: Callable[[int, int], Double]) -> Any:
    """A mixed derivative of exp(f(a, b)), divided by exp(f).

    By the recurrence of the complete Bell polynomials: the derivative of exp(f) in a is f_a exp(f), whose
    further derivatives follow from the product rule.

    order : how often in a, and in b.
    slopes : ``slopes(j, k)`` is the derivative of f, j-th in a and k-th in b.
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


def whole(n: SupportsInt) -> int:
    """The order given to a rule, a number or a constant expression, as an int."""
    return int(getattr(n, "value", n))


def by_orders(count: int, function: Callable[..., Double | Total]) -> Callable[..., Any]:
    """A body for arrays whose first ``count`` arguments are orders: whole numbers, or arrays of them.

    function : takes a namespace, the orders as ints, and the other arguments as arrays of double precision.
    """

    def body(*args: Strided) -> Any:
        result = function(_Arrays, *args)
        return total_of(result) if isinstance(result, Total) else result

    return _by_orders(count, body)


def _by_orders(count: int, body: Callable[..., NDArray]) -> Callable[..., Any]:
    """Function of arrays that calls ``body`` for each combination of orders, on the entries that have it."""

    def of(*args: Strided) -> Any:
        dtype = dtypes.to_inexact(np.result_type(*args))
        orders, xs = args[:count], [np.asarray(x, np.float64) for x in args[count:]]
        shape = np.broadcast_shapes(*(np.shape(x) for x in args))
        result = np.empty(shape, dtype)
        with np.errstate(all="ignore"):
            for combination, mask in _alike(orders, shape):
                if mask is None:
                    result[...] = body(*combination, *xs)
                else:
                    result[mask] = body(*combination, *(np.broadcast_to(x, shape)[mask] for x in xs))
        return result

    return of


def _alike(orders: tuple[Strided, ...], shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Each combination of orders that occurs, with the mask of its entries; None for all entries."""
    if all(np.size(n) == 1 for n in orders):
        yield tuple(int(np.asarray(n).item()) for n in orders), None
        return
    rows = np.stack([np.broadcast_to(n, shape) for n in orders])
    for combination in np.unique(rows.reshape(len(orders), -1), axis=1).T:
        at = np.all(rows == combination.reshape(-1, *(1,) * len(shape)), axis=0)
        yield tuple(map(int, combination)), at
