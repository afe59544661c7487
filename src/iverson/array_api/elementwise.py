"""Elementwise functions: one for each record of `iverson.core.scalars`, with its docstring and method.

Those whose record belongs to a namespace of its own are there (`iverson.special`). Operands broadcast; a
Python scalar takes the dtype of the array it meets. Functions with options, bounds or a condition are written
out. Type checkers read the others in a stub that `tools.stubs` writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

import numpy as np

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import SCALARS as NUMBERS
from iverson.array_api.conventions.operands import as_operand, as_weak, cast, check_kind, in_single, named
from iverson.array_api.entries.indexing import nonzero
from iverson.core import dtypes
from iverson.core.dispatch import NO_PARAMS, _default
from iverson.core.errors import ArgumentError, DTypeError
from iverson.core.scalars import SCALARS, Scalar
from iverson.core.shapes import as_int, check_choice
from iverson.handles import Tensor
from iverson.ops import TABLE, F

if TYPE_CHECKING:
    from iverson.array_api._elementwise import *
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike

_KINDS = {
    "iufc": "a numeric", "iuf": "a real", "fc": "a floating", "iub": "an integer or bool", "iufcb": "any",
    "iu": "an integer", "f": "a real floating", "iufb": "a real or bool",
}  # fmt: skip
_RESULTS = {
    "same": "of the promoted dtype",
    "float": "of a floating dtype: integers become float64",
    "bool": "of dtype bool",
    "real": "of the real part's dtype",
    "realfloat": "of a real floating dtype",
}


def documented(scalar: Scalar) -> str:
    """Docstring of the public function of a record."""
    names = ", ".join(scalar.arguments)
    unary = scalar.arity == 1
    parameters = [f"{names} : {'an array or a number' if unary else 'arrays or numbers that broadcast'}"]
    parameters[0] += f", of {_KINDS[scalar.kinds]} dtype."
    if scalar.scaled:
        parameters.append("alpha : a factor on x2, 1 unless given.")
    shape = "x's shape" if unary else "the common shape"
    errors = "DTypeError for other dtypes" + ("." if unary else ", ShapeError where shapes do not fit.")
    sections = {
        "Parameters": parameters,
        "Returns": [f"An array of {shape}, {_RESULTS[scalar.result]}."],
        "Raises": [errors],
        "Notes": [f"Derivative: {scalar.convention}."] if scalar.convention else [],
        "Examples": [
            ">>> from iverson import asarray",
            f">>> {scalar.name}({', '.join((f'asarray({scalar.example[0]})', *scalar.example[1:-1]))})",
            f"iverson.Tensor({scalar.example[-1]})",
        ],
    }
    texts = ["\n".join((title, "-" * len(title), *lines)) for title, lines in sections.items() if lines]
    return "\n\n".join((scalar.summary, *texts)) + "\n"


def _operands(name: str, x1: Array | ArrayLike, x2: Array | ArrayLike) -> tuple[Any, Any]:
    """Both operands as handles; a Python number is returned as it is if the other operand is an array."""
    if type(x1) in NUMBERS and type(x2) in NUMBERS:
        return as_operand(x1, name, "x1"), as_operand(x2, name, "x2")
    return as_weak(x1, name, "x1"), as_weak(x2, name, "x2")


def _unary(name: str) -> Callable[[Any], Any]:
    op = TABLE[name]

    def function(x: A | ArrayLike, /) -> A:
        return _default[0].bind(op, (x if type(x) is Tensor else as_operand(x, name),), NO_PARAMS)

    return function


def _binary(name: str) -> Callable[[Any, Any], Any]:
    op = TABLE[name]

    def function(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
        if type(x1) is not Tensor or type(x2) is not Tensor:
            x1, x2 = _operands(name, x1, x2)
        return _default[0].bind(op, (x1, x2), NO_PARAMS)

    return function


def _scaled(name: str) -> Callable[..., Any]:
    """Binary function whose second operand may be multiplied by ``alpha`` first.

    name : the name of the op.
    """
    op = TABLE[name]

    def function(x1: A | ArrayLike, x2: A | ArrayLike, /, *, alpha: A | ArrayLike | None = None) -> A:
        if type(x1) is not Tensor or type(x2) is not Tensor:
            x1, x2 = _operands(name, x1, x2)
        if alpha is not None:
            x2 = x2 * as_weak(alpha, name, "alpha")
        return _default[0].bind(op, (x1, x2), NO_PARAMS)

    return function


def _of_record(scalar: Scalar) -> Callable[..., Any]:
    make: Callable[[str], Callable[..., Any]] = (
        _scaled if scalar.scaled else _unary if scalar.arity == 1 else _binary
    )
    function = named(make(scalar.name), scalar.name, documented(scalar))
    return method(function) if scalar.method else function


_FROM_RECORDS = {s.name: _of_record(s) for s in SCALARS.values() if s.example and not s.space}
globals().update(_FROM_RECORDS)


@method
def round(x: A | ArrayLike, /, decimals: SupportsIndex = 0) -> A:
    """The nearest number with so many decimals, 0 for integers; halves go to the even one.

    ``decimals`` may be negative, for tens, hundreds, .... The derivative is 0. Raises DTypeError for bools.

    >>> from iverson import asarray
    >>> round(asarray([0.5, 1.7])), round(asarray([1.26]), decimals=1)
    (iverson.Tensor([0., 2.]), iverson.Tensor([1.3]))
    """
    x, places = as_operand(x, "round"), as_int(decimals, "round", "decimals")
    if not places:
        return F.round(x)
    if not -300 < places < 300:
        raise ArgumentError("round", "decimals", got=str(places), expected="a number between -300 and 300")
    check_kind(x, "iufc", "round")
    if x.dtype.kind in "iu":
        if places > 0:
            return F.positive(x)
        return cast(F.round(x / 10.0**-places) * 10.0**-places, x.dtype)
    # By a power of ten that is a number itself: dividing by it rounds once.
    return (
        F.round(x * 10.0**places) / 10.0**places if places > 0 else F.round(x / 10.0**-places) * 10.0**-places
    )


@method
def gelu(x: A | ArrayLike, /, *, approximate: Literal["none", "tanh"] = "none") -> A:
    """x times the standard normal distribution function of x (Hendrycks and Gimpel, 2016).

    Parameters
    ----------
    x : of a real floating dtype.
    approximate : "tanh" for x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2, within 5e-4 of it.

    Raises DTypeError for other dtypes, ArgumentError for another form.

    >>> from iverson import asarray
    >>> gelu(asarray([0., 1.])), gelu(asarray([1.]), approximate="tanh")
    (iverson.Tensor([0.        , 0.84134475]), iverson.Tensor([0.84119199]))
    """
    check_choice(approximate, ("none", "tanh"), "gelu", "approximate")
    if approximate == "none":
        return F.gelu(as_operand(x, "gelu"))
    x = as_operand(x, "gelu")
    check_kind(x, "f", "gelu")
    return _gelu_by_tanh(x)


@in_single
def _gelu_by_tanh(x: Array) -> Any:
    """Approximation of gelu by tanh: x (1 + tanh(u)) / 2, computed as x sigmoid(2 u), exact for small values.

    From abs(x) = 40 on, the factor is 0 or 1.
    """
    near = F.clip(x, -40.0, 40.0)
    cubic = near * (1.0 + 0.044715 * F.square(near))
    return F.where(x < -40.0, 0.0, x) * F.sigmoid(_TWICE_SQRT_TWO_OVER_PI * cubic)


_TWICE_SQRT_TWO_OVER_PI = 1.5957691216057307


@method
def softplus(x: A | ArrayLike, /, beta: float = 1.0, threshold: float | None = None) -> A:
    """log(1 + exp(beta * x)) / beta, without overflow.

    Parameters
    ----------
    x : of a real floating dtype.
    beta : how sharp the bend is; not 0.
    threshold : where beta * x is above it the result is x itself, with derivative 1. None, unlike PyTorch's
        20, computes the function everywhere.

    Raises DTypeError for other dtypes, ArgumentError for beta of 0 or a nan.

    >>> from iverson import asarray
    >>> softplus(asarray([0., 99.])), softplus(asarray([0., 1.]), beta=2.0, threshold=1.0)
    (iverson.Tensor([ 0.69314718, 99.        ]), iverson.Tensor([0.34657359, 1.        ]))
    """
    x = as_operand(x, "softplus")
    if not (beta < 0 or beta > 0):
        raise ArgumentError("softplus", "beta", got=str(beta), expected="a number other than 0")
    if threshold is not None and math.isnan(threshold):
        raise ArgumentError("softplus", "threshold", got="nan", expected="a number or None")
    if beta == 1 and threshold is None:
        return F.softplus(x)
    check_kind(x, "f", "softplus")
    return _softplus_of(x, float(beta), threshold)


@in_single
def _softplus_of(x: Array, beta: float, threshold: float | None) -> Any:
    steep = beta * x
    if threshold is None:
        return F.softplus(steep) / beta
    linear = steep > float(threshold)
    return F.where(linear, x, F.softplus(F.where(linear, 0.0, steep)) / beta)


@method
def clip(x: A | ArrayLike, /, min: A | ArrayLike | None = None, max: A | ArrayLike | None = None) -> A:
    """x where it lies between ``min`` and ``max``, else the bound it crosses; None is no bound.

    The bounds broadcast with x and are differentiable; at a bound the derivative belongs to x. nan in
    x or a bound gives nan. Raises DTypeError for complex or bool operands.

    >>> from iverson import asarray
    >>> clip(asarray([-1., 0.5, 2.]), 0, 1)
    iverson.Tensor([0. , 0.5, 1. ])
    """
    x = as_weak(x, "clip")
    dtype = getattr(x, "dtype", None)
    if dtype is not None:
        check_kind(x, "iuf", "clip")
    bounds = [
        _no_bound(x, sign) if bound is None else as_weak(bound, "clip", argument)
        for argument, bound, sign in (("min", min, -1), ("max", max, 1))
    ]
    return F.positive(x) if min is None and max is None else F.clip(x, *bounds)


def _no_bound(x: Array | ArrayLike, sign: int) -> Any:
    """Bound of `clip` that bounds nothing: the largest number of the dtype of ``x`` for ``sign`` 1, the least
    for -1.
    """
    dtype = getattr(x, "dtype", None)
    if dtype is None or dtypes.is_floating(dtype):
        return sign * float("inf")
    info = np.iinfo(dtype)
    return int(info.max if sign > 0 else info.min)


@overload
def where(condition: Array | ArrayLike, /) -> tuple[Tensor, ...]: ...


@overload
def where(condition: A | ArrayLike, x1: A | ArrayLike, x2: A | ArrayLike, /) -> A: ...


def where(
    condition: A | ArrayLike, x1: A | ArrayLike | None = None, x2: A | ArrayLike | None = None, /
) -> A | tuple[Tensor, ...]:
    """x1 where the condition holds, else x2. The three broadcast.

    Of a condition alone, the positions where it holds: `nonzero`. What was not chosen has a gradient of 0.
    Raises DTypeError unless the condition is bool, ShapeError where shapes do not fit, ArgumentError for one
    of x1 and x2 without the other.

    >>> from iverson import asarray
    >>> where(asarray([True, False]), asarray([1., 2.]), 0.)
    iverson.Tensor([1., 0.])
    """
    condition = as_weak(condition, "where", "condition")
    dtype = getattr(condition, "dtype", None)
    if (dtype is None and type(condition) is not bool) or (dtype is not None and dtype.kind != "b"):
        raise DTypeError(
            "where",
            "condition",
            got=f"dtype {dtype or type(condition).__name__}",
            expected="bool",
            remedy="compare it with something, e.g. condition != 0",
        )
    if x1 is None and x2 is None:
        return nonzero(condition)
    for argument, x in (("x1", x1), ("x2", x2)):
        if x is None:
            raise ArgumentError("where", argument, got="None", expected="an array, as the other one is given")
    return F.where(condition, as_weak(x1, "where", "x1"), as_weak(x2, "where", "x2"))


if not TYPE_CHECKING:
    __all__ = ["clip", "gelu", "round", "softplus", "where", *_FROM_RECORDS]
