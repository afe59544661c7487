"""Reductions and scans. ``axis`` is None (all axes), an integer or a tuple of integers.

Integers and bools are added up and multiplied in 64 bits; means and variances of them are float64.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from math import prod as product
from typing import Any

import numpy as np

from iverson.array_api.arguments import Function, as_inexact, as_operand, cast, check_kind, named
from iverson.core import dtypes
from iverson.core.arguments import checked
from iverson.core.dispatch import Wrapper
from iverson.core.errors import ArgumentError, ArgumentTypeError, AxisError
from iverson.core.shapes import Shape, normalize_axes, normalize_axis
from iverson.layouts import Sparse
from iverson.ops import F

_WIDE = {"b": dtypes.int64, "i": dtypes.int64, "u": dtypes.uint64}


def _accumulator(x: Any, dtype: Any, operation: str) -> Any:
    """x in the dtype in which its entries are added up or multiplied."""
    if dtype is not None:
        return cast(x, dtypes.as_dtype(dtype, operation))
    return cast(x, _WIDE.get(x.dtype.kind, x.dtype))


def _described(function: Function, name: str, says: str, more: str, example: str) -> Function:
    return named(
        function,
        name,
        f"""{says}

    ``keepdims`` keeps the reduced axes with extent 1. {more}
    Raises AxisError for an axis outside x.

    >>> from iverson import asarray
    >>> {example}
    """,
    )


def _fold(name: str, says: str, example: str) -> Callable[..., Any]:
    op = getattr(F, name)

    def function(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
        x = _accumulator(as_operand(x, name), dtype, name)
        return op(x, axis=normalize_axes(axis, x.ndim, name), keepdims=builtins.bool(keepdims))

    more = "``dtype`` is that of the result; by default x's, 64 bits wide for integers and bools."
    return _described(function, name, says, more, example)


def _reduction(
    name: str, says: str, more: str, example: str, prepare: Callable[[Any, str], Any] = as_operand
) -> Callable[..., Any]:
    op = getattr(F, name)

    def function(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
        x = prepare(x, name)
        return op(x, axis=normalize_axes(axis, x.ndim, name), keepdims=builtins.bool(keepdims))

    return _described(function, name, says, more, example)


def _ordered(x: Any, operation: str) -> Any:
    x = as_operand(x, operation)
    check_kind(x, "iuf", operation)
    return x


def _real(x: Any, operation: str) -> Any:
    x = as_inexact(x, operation)
    check_kind(x, "f", operation, remedy="take abs or real first")
    return x


sum = _fold("sum", "The sum over axes.", "sum(asarray([1., 2.]))\n    iverson.Tensor(3.)")
prod = _fold("prod", "The product over axes.", "prod(asarray([2., 3.]))\n    iverson.Tensor(6.)")
max = _reduction(
    "max",
    "The largest entry over axes; nan if there is one.",
    "Equal extrema share the derivative evenly. x is real and not empty (ArgumentError).",
    "max(asarray([1., 5., 3.]))\n    iverson.Tensor(5.)",
    _ordered,
)
min = _reduction(
    "min",
    "The smallest entry over axes; nan if there is one.",
    "Equal extrema share the derivative evenly. x is real and not empty (ArgumentError).",
    "min(asarray([1., 5., 3.]))\n    iverson.Tensor(1.)",
    _ordered,
)
all = _reduction(
    "all",
    "Whether all entries over axes are nonzero; True where there are none.",
    "The result is bool.",
    "all(asarray([[True, False], [True, True]]), axis=1)\n    iverson.Tensor([False,  True])",
)
any = _reduction(
    "any",
    "Whether any entry over axes is nonzero; False where there is none.",
    "The result is bool.",
    "any(asarray([[True, False], [False, False]]), axis=1)\n    iverson.Tensor([ True, False])",
)
logsumexp = _reduction(
    "logsumexp",
    "log(sum(exp(x))) over axes, without overflow; -inf where there is no entry.",
    "Integers become float64; complex x is a DTypeError.",
    "logsumexp(asarray([1000., 1000.]))\n    iverson.Tensor(1000.69314718)",
    _real,
)


def _arg(name: str, says: str, shows: str) -> Callable[..., Any]:
    op = getattr(F, name)

    def function(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
        x = as_operand(x, name)
        check_kind(x, "biuf", name)
        k = None if axis is None else normalize_axis(axis, x.ndim, name)
        if (product(x.shape) if k is None else x.shape[k]) == 0:
            raise ArgumentError(name, "x", got=f"shape {x.shape}", expected="entries to choose from")
        return op(x, axis=k, keepdims=builtins.bool(keepdims))

    more = (
        "``axis`` is one axis, or None for the position in the flattened array. The result is int64. "
        "x is real and not empty (ArgumentError)."
    )
    example = f"{name}(asarray([1., 5., 3.]))\n    iverson.Tensor({shows})"
    return _described(function, name, says, more, example)


argmax = _arg("argmax", "The position of the largest entry (the first of equal ones).", "1")
argmin = _arg("argmin", "The position of the smallest entry (the first of equal ones).", "0")


@checked
def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many entries over axes are nonzero, as int64. Raises AxisError for an axis outside x.

    >>> from iverson import asarray
    >>> count_nonzero(asarray([0, 1, 2]))
    iverson.Tensor(2)
    """
    x = as_operand(x, "count_nonzero")
    axes = normalize_axes(axis, x.ndim, "count_nonzero")
    return sum(F.not_equal(x, 0), axes, keepdims=keepdims)


def _floating(x: Any, dtype: Any, operation: str) -> Any:
    if dtype is not None:
        x = cast(as_operand(x, operation), dtypes.as_dtype(dtype, operation))
        check_kind(x, "fc", operation, "dtype")
    return as_inexact(x, operation)


@checked
def mean(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    """The mean over axes; nan where there is no entry. Integers become float64.

    Raises AxisError for an axis outside x, DTypeError for a ``dtype`` that is not floating.

    >>> from iverson import asarray
    >>> mean(asarray([[1, 2], [3, 4]]), axis=0)
    iverson.Tensor([2., 3.])
    """
    x = _floating(x, dtype, "mean")
    axes = normalize_axes(axis, x.ndim, "mean")
    count = _entries(x, axes, builtins.bool(keepdims))
    return _averaged(F.sum(x, axis=axes, keepdims=builtins.bool(keepdims)), count)


def _entries(x: Any, axes: Shape, keepdims: bool) -> Any:
    """How many entries there are over axes: a number, or where some do not exist an operand."""
    return x._counts(axes, keepdims) if isinstance(x, Wrapper) else product(x.shape[k] for k in axes)


def _averaged(total: Any, count: Any) -> Any:
    if isinstance(count, Wrapper):
        return F.divide(total, F.where(F.greater(count, 0), count, float("nan")))
    return F.divide(total, count) if count > 0 else F.multiply(total, float("nan"))


def _is_sparse(x: Any) -> builtins.bool:
    return isinstance(getattr(x, "_value", None), Sparse)


def _centred(x: Any, axis: Any, correction: float, keepdims: bool, operation: str) -> tuple[Any, Any, Any]:
    """Distances from the mean (a sparse x itself), the axes, and how many entries they are averaged over."""
    x = as_inexact(x, operation)
    axes = normalize_axes(axis, x.ndim, operation)
    if not isinstance(correction, (int, float)):
        raise ArgumentTypeError(
            operation, "correction", got=f"a {type(correction).__name__}", expected="a real number"
        )
    count = _entries(x, axes, builtins.bool(keepdims)) - correction
    if _is_sparse(x):  # the distances would be dense
        return x, axes, count
    centre = mean(x, axes, keepdims=True)
    if isinstance(centre, Wrapper):
        centre = centre._without_meaning()
    return F.subtract(x, centre), axes, count


@checked
def var(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance over axes: the sum of squared distances from the mean over (count - correction).

    Real also for complex x; nan where there are not more entries than ``correction``. Raises AxisError
    for an axis outside x.

    >>> from iverson import asarray
    >>> var(asarray([1., 2., 3.]), correction=1)
    iverson.Tensor(1.)
    """
    x, axes, count = _centred(x, axis, correction, keepdims, "var")
    if _is_sparse(x):
        return _averaged(F.deviation(x, axis=axes, keepdims=builtins.bool(keepdims), squared=True), count)
    squares = F.square(x) if x.dtype.kind != "c" else F.real(F.multiply(x, F.conj(x)))
    return _averaged(F.sum(squares, axis=axes, keepdims=builtins.bool(keepdims)), count)


@checked
def std(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The square root of `var`; where that is 0, so is the derivative.

    >>> from iverson import asarray
    >>> std(asarray([1., 2., 3.]), correction=1)
    iverson.Tensor(1.)
    """
    x, axes, count = _centred(x, axis, correction, keepdims, "std")
    if _is_sparse(x):
        length = F.deviation(x, axis=axes, keepdims=builtins.bool(keepdims), squared=False)
    else:
        length = F.norm(x, axis=axes, keepdims=builtins.bool(keepdims))
    root = F.sqrt(F.maximum(count, 0.0)) if isinstance(count, Wrapper) else builtins.max(count, 0.0) ** 0.5
    return _averaged(length, root)


def _scan(name: str, says: str, start: int, shows: str) -> Callable[..., Any]:
    op = getattr(F, name)

    def function(x: Any, /, axis: Any = None, *, dtype: Any = None, include_initial: bool = False) -> Any:
        x = _accumulator(as_operand(x, name), dtype, name)
        if axis is None and x.ndim != 1:
            raise AxisError(name, "axis", got=f"None for shape {x.shape}", expected="one axis")
        k = normalize_axis(0 if axis is None else axis, x.ndim, name)
        result = op(x, axis=k)
        if not include_initial:
            return result
        return F.concat(_initial(x, k, start), result, axis=k, offsets=(0, 1))

    return named(
        function,
        name,
        f"""{says}

    ``axis`` may be left out for vectors. ``include_initial`` puts a {start} before the first entry;
    ``dtype`` is that of the result, by default x's, 64 bits wide for integers and bools. Raises AxisError.

    >>> from iverson import asarray
    >>> {name}(asarray([1., 2., 3.]), include_initial=True)
    iverson.Tensor({shows})
    """,
    )


def _initial(x: Any, axis: int, value: int) -> Any:
    return np.full(tuple(1 if k == axis else n for k, n in enumerate(x.shape)), value, x.dtype)


cumulative_sum = _scan("cumulative_sum", "Sums of the entries so far along an axis.", 0, "[0., 1., 3., 6.]")
cumulative_prod = _scan(
    "cumulative_prod", "Products of the entries so far along an axis.", 1, "[1., 1., 2., 6.]"
)
