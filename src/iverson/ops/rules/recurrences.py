"""Taylor rules: coefficients of results from recurrences, where rules of forward mode would cost more.

A rule is ``taylor(F, y, *inputs, **params)``: it returns a function that gives coefficient k of the result
from those below, or NotImplemented if the coefficients are to follow from forward mode after all. See
`iverson.transforms.series.series_level`; the recurrences are in Griewank and Walther, Evaluating Derivatives
(2nd edition, 2008), chapter 13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from iverson.core.protocols import Namespace, Value

#: A coefficient, and a parameter of a call.
Coefficient: TypeAlias = Value | None
Parameter: TypeAlias = Any
#: A product of two coefficients.
Binary: TypeAlias = Callable[[Any, Any], Any]
#: Coefficient k of a result; None where it is zero.
Recurrence = Callable[[int], Any]


class Coefficients(Protocol):
    """A Taylor series; item k is its coefficient of order k.

    is_line : True along one curve; of several, coefficients of the highest order are sums.
    has_lines : True if coefficients above 0 are those of several lines, each a curve by itself.
    top_order : the highest order of coefficients that do not wait for others of the result; 0 if they do.
    """

    @property
    def is_line(self) -> bool: ...

    @property
    def has_lines(self) -> bool: ...

    @property
    def top_order(self) -> int: ...

    def __getitem__(self, k: int, /) -> Any:
        """Coefficient k; None where it is zero and k is not 0. Coefficient 0 may be a number, no array."""

    def convolved(
        self, other: Coefficients, k: int, product: Binary, weight: Callable[[int], float] | None = None
    ) -> Any:
        """The sum of weight(j) product(self[j], other[k - j]) over j from 1 to k; None for zero."""

    def slope_power(self, k: int) -> Any:
        """Coefficient 1 to the power k, as a part of coefficient k."""

    def power(self, exponent: int, k: int) -> Any:
        """Coefficient k of the series to the power ``exponent``, a whole number above 0, by products."""


def minus(F: Namespace, a: Coefficient, b: Coefficient) -> Any:
    """The difference a - b, in which None stands for zero; None if both are None."""
    if b is None:
        return a
    return F.negative(b) if a is None else F.subtract(a, b)


def divide(F: Namespace, y: Coefficients, a: Coefficients, b: Coefficients) -> Recurrence:
    """Recurrence of y = a / b: y_k = (a_k - sum of b_j y_{k-j} over j > 0) / b_0."""

    def coefficient(k: int) -> Any:
        if k == 0:
            return NotImplemented
        numerator = minus(F, a[k], b.convolved(y, k, F.multiply))
        return None if numerator is None else F.divide(numerator, b[0])

    return coefficient


def reciprocal(F: Namespace, y: Coefficients, x: Coefficients) -> Recurrence:
    """Recurrence of y = 1 / x: y_k = -y_0 times the sum of x_j y_{k-j} over j > 0."""

    def coefficient(k: int) -> Any:
        if k == 0:
            return NotImplemented
        total = x.convolved(y, k, F.multiply)
        return None if total is None else F.negative(F.multiply(total, y[0]))

    return coefficient


#: Whole exponents up to this one are products.
_LARGE = 1 << 12


def power(F: Namespace, y: Coefficients, a: Coefficients, b: Coefficients) -> Any:
    """Recurrence of y = a^r for a number r = b_0; NotImplemented for exponents that are arrays.

    If r is whole and positive, the coefficients are those of products. Else y' a = r a' y gives y_k = sum of
    ((r + 1) j / k - 1) a_j y_{k-j} over j > 0, divided by a_0. Where a_0 is zero, y_k is what nested
    derivatives give: 0 or inf, as the power a_0^(r - k) is.
    """
    r = b[0]
    if not isinstance(r, int | float) or isinstance(r, bool):
        return NotImplemented
    if r == int(r) and 0 < r <= _LARGE:

        def by_products(k: int) -> Any:
            return NotImplemented if k == 0 else a.power(int(r), k)

        return by_products
    if r == 0:
        return lambda k: None if k else NotImplemented

    def coefficient(k: int) -> Any:
        if k == 0:
            return NotImplemented
        total = weighted(F, a, y, k, float(r))
        if total is None:
            return None
        first = a[0]
        at_zero = F.equal(first, 0)
        usual = F.divide(total, F.where(at_zero, 1.0, first))
        return F.where(at_zero, _at_zero(F, a, float(r), k), usual)

    return coefficient


def weighted(F: Namespace, a: Coefficients, y: Coefficients, k: int, r: float) -> Any:
    """The sum of ((r + 1) j / k - 1) a_j y_{k-j} over j from 1 to k; None for zero."""
    return a.convolved(y, k, F.multiply, lambda j: (r + 1) * j / k - 1)


def _at_zero(F: Namespace, a: Coefficients, r: float, k: int) -> Any:
    """Coefficient k of (a_0 + a_1 t)^r where a_0 is zero: binomial(r, k) a_0^(r - k) a_1^k."""
    first = a[0]
    if a[1] is None:
        return F.multiply(first, 0.0)
    binomial = 1.0
    for j in range(k):
        binomial *= (r - j) / (j + 1)
    return F.multiply(F.multiply(F.pow(first, r - k), binomial), a.slope_power(k))


def solution(call: Callable[..., Value]) -> Callable[..., Recurrence]:
    """Taylor rule of an op that gives x with A x = b, where ``call(F, a, b, **params)`` calls the op.

    x_k solves A_0 x_k = b_k - sum of A_j x_{k-j} over j > 0.
    """

    def taylor(
        F: Namespace, y: Coefficients, a: Coefficients, b: Coefficients, **params: Parameter
    ) -> Recurrence:
        def coefficient(k: int) -> Any:
            if k == 0:
                return NotImplemented
            right = minus(F, b[k], a.convolved(y, k, F.matmul))
            return None if right is None else call(F, a[0], right, **params)

        return coefficient

    return taylor
