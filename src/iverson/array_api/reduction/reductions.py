"""Reductions and scans. ``axis`` is None (all axes), an integer or a tuple of integers.

Integers and bools are added up and multiplied in 64 bits; means and variances of them are float64.
"""

from __future__ import annotations

import builtins
from functools import singledispatch
from math import prod as product
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import as_inexact, as_operand, cast, check_kind, in_single
from iverson.core import dtypes
from iverson.core.dispatch import Wrapper, value_of, zero_filled
from iverson.core.errors import ArgumentError, ArgumentTypeError, AxisError
from iverson.core.shapes import Shape, normalize_axes, normalize_axis
from iverson.layouts import Sparse
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axes, Axis, DTypeLike

_WIDE = {"b": dtypes.int64, "i": dtypes.int64, "u": dtypes.uint64}


def _accumulator(x: Array, dtype: DTypeLike | None, operation: str) -> Any:
    """Array ``x`` in the dtype for adding up or multiplying: ``dtype``, or by default 64 bits wide for
    integers and bools.
    """
    if dtype is not None:
        return cast(x, dtypes.as_dtype(dtype, operation))
    wide = _WIDE.get(x.dtype.kind)
    return x if wide is None else cast(x, wide)


def _reduced(name: str, x: Array, axis: Axes, keepdims: builtins.bool) -> Any:
    """Result of the reduction op ``name`` over axes of ``x``."""
    return getattr(F, name)(x, axis=normalize_axes(axis, x.ndim, name), keepdims=builtins.bool(keepdims))


def _ordered(x: Array | ArrayLike, operation: str) -> Any:
    x = as_operand(x, operation)
    check_kind(x, "iuf", operation)
    return x


@method
def sum(
    x: A | ArrayLike, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
) -> A:
    """The sum over axes.

    ``keepdims`` keeps the reduced axes with extent 1. ``dtype`` is that of the result; by default x's, 64
    bits wide for integers and bools. Raises AxisError for an axis outside x.

    >>> from iverson import asarray
    >>> sum(asarray([1., 2.]))
    iverson.Tensor(3.)
    """
    return _reduced("sum", _accumulator(as_operand(x, "sum"), dtype, "sum"), axis, keepdims)


@method
def prod(
    x: A | ArrayLike, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
) -> A:
    """The product over axes.

    ``keepdims`` keeps the reduced axes with extent 1. ``dtype`` is that of the result; by default x's, 64
    bits wide for integers and bools. Raises AxisError for an axis outside x.

    >>> from iverson import asarray
    >>> prod(asarray([2., 3.]))
    iverson.Tensor(6.)
    """
    return _reduced("prod", _accumulator(as_operand(x, "prod"), dtype, "prod"), axis, keepdims)


@method
def max(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """The largest entry over axes; nan if there is one.

    ``keepdims`` keeps the reduced axes with extent 1. Equal extrema share the derivative evenly. x is real
    and not empty (ArgumentError). Raises AxisError for an axis outside x.

    >>> from iverson import asarray
    >>> max(asarray([1., 5., 3.]))
    iverson.Tensor(5.)
    """
    return _reduced("max", _ordered(x, "max"), axis, keepdims)


@method
def min(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """The smallest entry over axes; nan if there is one.

    ``keepdims`` keeps the reduced axes with extent 1. Equal extrema share the derivative evenly. x is real
    and not empty (ArgumentError). Raises AxisError for an axis outside x.

    >>> from iverson import asarray
    >>> min(asarray([1., 5., 3.]))
    iverson.Tensor(1.)
    """
    return _reduced("min", _ordered(x, "min"), axis, keepdims)


@method
def all(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """True where all entries over axes are nonzero, or where there are none.

    ``keepdims`` keeps the reduced axes with extent 1. The result is bool. Raises AxisError for an axis
    outside x.

    >>> from iverson import asarray
    >>> all(asarray([[True, False], [True, True]]), axis=1)
    iverson.Tensor([False,  True])
    """
    return _reduced("all", as_operand(x, "all"), axis, keepdims)


@method
def any(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """True where any entry over axes is nonzero; False where there are no entries.

    ``keepdims`` keeps the reduced axes with extent 1. The result is bool. Raises AxisError for an axis
    outside x.

    >>> from iverson import asarray
    >>> any(asarray([[True, False], [False, False]]), axis=1)
    iverson.Tensor([ True, False])
    """
    return _reduced("any", as_operand(x, "any"), axis, keepdims)


@method
def logsumexp(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """log(sum(exp(x))) over axes, without overflow; -inf where there is no entry.

    ``keepdims`` keeps the reduced axes with extent 1. Integers become float64; of complex x it is the
    principal logarithm. Raises AxisError for an axis outside x.

    >>> from iverson import asarray
    >>> logsumexp(asarray([1000., 1000.]))
    iverson.Tensor(1000.69314718)
    """
    return _reduced("logsumexp", as_inexact(x, "logsumexp"), axis, keepdims)


def _position(name: str, x: Array | ArrayLike, axis: Axis | None, keepdims: builtins.bool) -> Any:
    """Position of an extremum along ``axis``, by the op ``name``: "argmax" or "argmin"."""
    x = as_operand(x, name)
    check_kind(x, "biuf", name)
    k = None if axis is None else normalize_axis(axis, x.ndim, name)
    if (product(x.shape) if k is None else x.shape[k]) == 0:
        raise ArgumentError(name, "x", got=f"shape {x.shape}", expected="entries to choose from")
    return getattr(F, name)(x, axis=k, keepdims=builtins.bool(keepdims))


@method
def argmax(x: A | ArrayLike, /, axis: Axis | None = None, *, keepdims: bool = False) -> A:
    """The position of the largest entry (the first of equal ones).

    ``axis`` is one axis, or None for the position in the flattened array; ``keepdims`` keeps the reduced axes
    with extent 1. The result is int64. x is real and not empty (ArgumentError). Raises AxisError for an axis
    outside x.

    >>> from iverson import asarray
    >>> argmax(asarray([1., 5., 3.]))
    iverson.Tensor(1)
    """
    return _position("argmax", x, axis, keepdims)


@method
def argmin(x: A | ArrayLike, /, axis: Axis | None = None, *, keepdims: bool = False) -> A:
    """The position of the smallest entry (the first of equal ones).

    ``axis`` is one axis, or None for the position in the flattened array; ``keepdims`` keeps the reduced axes
    with extent 1. The result is int64. x is real and not empty (ArgumentError). Raises AxisError for an axis
    outside x.

    >>> from iverson import asarray
    >>> argmin(asarray([1., 5., 3.]))
    iverson.Tensor(0)
    """
    return _position("argmin", x, axis, keepdims)


@method
def count_nonzero(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """Number of nonzero entries over axes, as int64. Raises AxisError for an axis outside x.

    >>> from iverson import asarray
    >>> count_nonzero(asarray([0, 1, 2]))
    iverson.Tensor(2)
    """
    x = as_operand(x, "count_nonzero")
    axes = normalize_axes(axis, x.ndim, "count_nonzero")
    return sum(F.not_equal(x, 0), axes, keepdims=keepdims)


def _floating(x: Any, dtype: DTypeLike | None, operation: str) -> Any:
    if dtype is not None:
        x = cast(as_operand(x, operation), dtypes.as_dtype(dtype, operation))
        check_kind(x, "fc", operation, "dtype")
    return as_inexact(x, operation)


@method
@in_single
def mean(
    x: A | ArrayLike, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
) -> A:
    """The mean over axes; nan where there is no entry. Integers become float64.

    Raises AxisError for an axis outside x, DTypeError for a ``dtype`` that is not floating.

    >>> from iverson import asarray
    >>> mean(asarray([[1, 2], [3, 4]]), axis=0)
    iverson.Tensor([2., 3.])
    """
    entries = _floating(x, dtype, "mean")
    axes = normalize_axes(axis, entries.ndim, "mean")
    count = entry_count(entries, axes, builtins.bool(keepdims))
    return _averaged(F.sum(entries, axis=axes, keepdims=builtins.bool(keepdims)), count)


@singledispatch
def entry_count(x: Array, axes: Shape, keepdims: bool) -> Any:
    """Number of entries over axes: an integer, or a masked tensor if some entries do not exist.

    Types of operands with such entries register functions of their own.
    """
    return product([x.shape[k] for k in axes])


def _averaged(total: Array, count: Wrapper | float) -> Any:
    if type(count) is not int and isinstance(count, Wrapper):
        return F.divide(total, F.where(F.greater(count, 0), count, float("nan")))
    if count > 0:
        return F.divide(total, count)
    return F.multiply(F.to_dense(total), float("nan"))  # structural zeros would stay so


def _is_sparse(x: Array | ArrayLike) -> builtins.bool:
    return isinstance(value_of(x, None), Sparse)


def _centred(
    x: Array | ArrayLike, axis: Axes, correction: float, keepdims: bool, operation: str
) -> tuple[Any, Any, Any]:
    """Distances from the mean, the normalised axes, and the number of entries less the correction.

    For a sparse ``x`` the first item is ``x`` itself, since distances would be dense.
    """
    x = as_inexact(x, operation)
    axes = normalize_axes(axis, x.ndim, operation)
    if not isinstance(correction, (int, float)):
        raise ArgumentTypeError(
            operation, "correction", got=f"a {type(correction).__name__}", expected="a real number"
        )
    count = entry_count(x, axes, builtins.bool(keepdims)) - correction
    if _is_sparse(x):  # the distances would be dense
        return x, axes, count
    centre = mean(x, axes, keepdims=True)
    return F.subtract(x, zero_filled(centre)), axes, count


@method
@in_single
def var(x: A | ArrayLike, /, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> A:
    """The variance over axes: the sum of squared distances from the mean over (count - correction).

    Real also for complex x; nan where there are not more entries than ``correction``. Raises AxisError
    for an axis outside x.

    >>> from iverson import asarray
    >>> var(asarray([1., 2., 3.]), correction=1)
    iverson.Tensor(1.)
    """
    distances, axes, count = _centred(x, axis, correction, keepdims, "var")
    if _is_sparse(distances):
        options = {"axis": axes, "keepdims": builtins.bool(keepdims), "squared": True}
        return _averaged(F.deviation(distances, **options), count)
    complex_valued = distances.dtype.kind == "c"
    squares = F.real(distances * F.conj(distances)) if complex_valued else F.square(distances)
    return _averaged(F.sum(squares, axis=axes, keepdims=builtins.bool(keepdims)), count)


@method
@in_single
def std(x: A | ArrayLike, /, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> A:
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


def _scan(name: str, x: Any, axis: Axis | None, dtype: DTypeLike | None, initial: int | None) -> Any:
    """Result of the cumulative op ``name`` along an axis; with ``initial``, this number is put before the
    first entry.
    """
    x = _accumulator(as_operand(x, name), dtype, name)
    if axis is None and x.ndim != 1:
        raise AxisError(name, "axis", got=f"None for shape {x.shape}", expected="one axis")
    k = normalize_axis(0 if axis is None else axis, x.ndim, name)
    result = getattr(F, name)(x, axis=k)
    if initial is None:
        return result
    before = np.full(tuple(1 if axis == k else n for axis, n in enumerate(x.shape)), initial, x.dtype)
    return F.concat(before, result, axis=k, offsets=(0, 1))


@method
def cumulative_sum(
    x: A | ArrayLike,
    /,
    axis: Axis | None = None,
    *,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> A:
    """Sums of the entries so far along an axis.

    ``axis`` may be left out for vectors. ``include_initial`` puts a 0 before the first entry;
    ``dtype`` is that of the result, by default x's, 64 bits wide for integers and bools. Raises AxisError.

    >>> from iverson import asarray
    >>> cumulative_sum(asarray([1., 2., 3.]), include_initial=True)
    iverson.Tensor([0., 1., 3., 6.])
    """
    return _scan("cumulative_sum", x, axis, dtype, 0 if include_initial else None)


@method
def cumulative_prod(
    x: A | ArrayLike,
    /,
    axis: Axis | None = None,
    *,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> A:
    """Products of the entries so far along an axis.

    ``axis`` may be left out for vectors. ``include_initial`` puts a 1 before the first entry;
    ``dtype`` is that of the result, by default x's, 64 bits wide for integers and bools. Raises AxisError.

    >>> from iverson import asarray
    >>> cumulative_prod(asarray([1., 2., 3.]), include_initial=True)
    iverson.Tensor([1., 1., 2., 6.])
    """
    return _scan("cumulative_prod", x, axis, dtype, 1 if include_initial else None)


__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "logsumexp",
    "max", "mean", "min", "prod", "std", "sum", "var",
]  # fmt: skip
