"""The Scalar record: every fact of an elementwise function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from iverson.core import dtypes
from iverson.core.protocols import DType, Namespace, NDArray, Value
from iverson.core.python.parameters import positional

Derivative = Callable[..., Any]
#: An operand of a body: an array of NumPy, or a Python number.
Strided: TypeAlias = NDArray | complex
#: Ends of an interval of real numbers, both in it.
Interval = tuple[float, float]

NUMERIC, REAL, FLOATING, INTEGRAL, BOOLEAN, ANY = "iufc", "iuf", "fc", "iub", "b", "iufcb"

#: Domains of test values.
POSITIVE, UNIT = (0.3, 3.0), (-0.9, 0.9)
NOT_BELOW_0: Interval = (0.0, math.inf)
SHARE: Interval = (0.0, 1.0)
TWO: tuple[None, None] = (None, None)


@dataclass(frozen=True, slots=True)
class Slopes:
    """Domain in which the derivatives of a special function hold, to second order, and their accuracy.

    domain : per argument the interval; None for all reals. Outside, derivatives are nan. Where the function
        itself is not a real number they are nan or infinite, as at its poles.
    ulps : the largest error, in units of 2^-52 times what the derivative is and what it changes by if the
        arguments change by as much as they are: what rounding of the arguments alone does.
    size : the largest argument for which this error is kept; beyond, terms that cancel grow with it.
    """

    domain: tuple[Interval | None, ...] = ()
    ulps: float = 32.0
    size: float = 1e8

    def held(self, rule: Derivative) -> Derivative:
        """Wrap a rule so that the derivative is nan outside of the domain, and so are its own derivatives."""
        bounded = [k for k, interval in enumerate(self.domain) if interval is not None]
        if not bounded:
            return rule
        names, starred = positional(rule)
        inputs = {"y" if k < 0 else k for k, name in enumerate(names[1:], -1) if not name.startswith("_")}

        def of(F: Namespace, y: Value, *xs: Value) -> Any:
            inside: Any = True
            for k in bounded:
                low, high = self.domain[k]  # type: ignore[misc]
                for condition in (
                    F.greater_equal(xs[k], low) if low > -math.inf else True,
                    F.less_equal(xs[k], high) if high < math.inf else True,
                ):
                    if condition is not True:
                        inside = condition if inside is True else F.logical_and(inside, condition)
            d = rule(F, y, *xs)
            return d * F.where(inside, 1.0, math.nan).astype(d.dtype)

        of.reads = frozenset(inputs | set(bounded) | (set(range(len(self.domain))) if starred else set()))  # type: ignore[attr-defined]
        return of


@dataclass(frozen=True, slots=True)
class Scalar:
    """One elementwise function.

    name, body : the name in the table and the function on NumPy arrays.
    d : the partial derivative per argument; for a holomorphic function also the complex one.
    kinds : dtype kinds accepted.
    result : "same" (as promoted), "float" (integers become the default float), "bool" or "real".
    linear_in : see the Op record.
    zero_preserving : f(0, ..., 0) = 0.
    vjp, jvp : rules in place of those that follow from ``d``, for functions that are not holomorphic.
    domain : per argument, the interval test values are drawn from; None stands for all reals.
    finite : it is finite wherever its arguments are, but for overflow.
    names : names of the arguments, if they are not the standard's x, or x1 and x2.
    strict : the body itself refuses the dtypes that ``kinds`` leaves out.
    silent : the body raises no floating-point flags.
    calls_ufunc : the body, though no ufunc itself, raises the flags of one.
    convention : the value of ``d`` where there is no derivative.
    complex_ok : True if tests draw complex samples.
    summary : a sentence about the function.
    example : texts of its arguments in an example (the first becomes an array) and of the result's entries.
        A public function follows from a record with one.
    method : True if arrays have it as a method; False if they have it as a property.
    scaled : True if the second operand can be scaled, as in PyTorch: ``alpha``.
    compiled : whether large arrays take a compiled pass, as NumPy has no vector loop for the body; or a
        function of the operands that says so.
    space : the namespace of the public function, where that is not `iverson`; it is no method then.
    orders : how many of the first arguments are orders (of derivatives, of Bessel functions): small whole
        numbers that rules count up and nothing differentiates in.
    loops : ``loops(F, *xs)``, for compiled loops: the function of real numbers by way of others.
    slopes : domain and accuracy of the derivatives; of every special function.
    series : ``series(F, *orders, *xs)``, the body in double precision by way of functions of F, or as a
        sum (`iverson.core.scalars.quadrature.Total`), for given orders.
    """

    name: str
    body: Callable[..., Any]
    d: tuple[Derivative | None, ...] = ()
    kinds: str = NUMERIC
    result: str = "same"
    linear_in: tuple[tuple[int, ...], ...] = ()
    zero_preserving: bool = False
    vjp: tuple[Derivative, ...] = ()
    jvp: tuple[Derivative, ...] = ()
    domain: tuple[tuple[float, float] | None, ...] = (None,)
    finite: bool = False
    names: tuple[str, ...] = ()
    strict: bool = False
    silent: bool = False
    calls_ufunc: bool = False
    convention: str = ""
    complex_ok: bool = False
    summary: str = ""
    example: tuple[str, ...] = ()
    method: bool = True
    scaled: bool = False
    compiled: bool | Callable[..., bool] = False
    space: str = ""
    orders: int = 0
    loops: Callable[..., Any] | None = None
    series: Callable[..., Any] | None = None
    slopes: Slopes | None = None

    def __post_init__(self) -> None:
        if self.slopes is not None:
            rules = tuple(rule and self.slopes.held(rule) for rule in self.d)
            object.__setattr__(self, "d", rules)

    @property
    def raises_flags(self) -> bool:
        """True if the body sets floating-point flags, so that NumPy may warn."""
        return self.calls_ufunc or (isinstance(self.body, np.ufunc) and not self.silent)

    @property
    def arity(self) -> int:
        return len(self.domain)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return self.names or (("x",) if self.arity == 1 else tuple(f"x{k + 1}" for k in range(self.arity)))


def result_dtype(scalar: Scalar, promoted: DType) -> np.dtype[Any]:
    """The dtype of a function's result, given the promoted dtype of its operands."""
    if scalar.result == "float":
        return dtypes.to_inexact(promoted)
    if scalar.result == "bool":
        return dtypes.bool
    if scalar.result == "real":
        return dtypes.real_of(promoted)
    if scalar.result == "realfloat":
        return dtypes.real_of(dtypes.to_inexact(promoted))
    return promoted


Facts = dict[str, Any]
#: Fields of a record that are the same for many functions, to be joined by ``|``.
NO_FACTS: Facts = {}
FLOAT: Facts = {"result": "float"}
REAL_FLOAT: Facts = {"kinds": REAL, "result": "float"}
BOOL: Facts = {"result": "bool"}
ZERO: Facts = {"zero_preserving": True}
COMPLEX: Facts = {"complex_ok": True}
FINITE: Facts = {"finite": True}
COMPILED: Facts = {"compiled": True}
SILENT: Facts = {"silent": True}
STRICT: Facts = {"strict": True}
SCALED: Facts = {"scaled": True}
UFUNC: Facts = {"calls_ufunc": True}
#: A function of real numbers in `iverson.special`, under the name that it has in `scipy.special`.
SCIPY: Facts = REAL_FLOAT | {"space": "special", "method": False, "slopes": Slopes()}


def scalar(
    name: str,
    body: Callable[..., Any],
    d: Derivative | tuple[Derivative | None, ...] = (),
    facts: Facts = NO_FACTS,
    summary: str = "",
    *example: str,
    **fields: Any,
) -> Scalar:
    """The record of a function.

    d : the derivative, or one for each argument.
    facts : fields that are the same for many functions.
    example : texts of the arguments and of the result.
    fields : all other fields.
    """
    rules = d if isinstance(d, tuple) else (d,)
    return Scalar(name, body, rules, **{"summary": summary, "example": example, **facts, **fields})
