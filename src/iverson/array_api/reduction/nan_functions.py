"""Functions that skip nan, or replace it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import as_inexact, as_operand, as_weak, cast, check_kind
from iverson.array_api.entries.manipulation import squeeze
from iverson.array_api.reduction.norms import vector_norm
from iverson.array_api.reduction.order_statistics import quantiles
from iverson.array_api.reduction.reductions import argmax as _argmax
from iverson.array_api.reduction.reductions import argmin as _argmin
from iverson.array_api.reduction.reductions import cumulative_prod as _cumulative_prod
from iverson.array_api.reduction.reductions import cumulative_sum as _cumulative_sum
from iverson.array_api.reduction.reductions import max as _max
from iverson.array_api.reduction.reductions import min as _min
from iverson.array_api.reduction.reductions import prod as _prod
from iverson.array_api.reduction.reductions import sum as _sum
from iverson.core import dtypes
from iverson.core.shapes import normalize_axes
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axes, Axis, DTypeLike, QuantileMethod


@method
def nan_to_num(
    x: A | ArrayLike, /, *, nan: complex = 0.0, posinf: float | None = None, neginf: float | None = None
) -> A:
    """x with nan, inf and -inf replaced by numbers; None stands for the largest of x's dtype, or the lowest.

    What was replaced has a gradient of 0. Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> nan_to_num(asarray([1., float("nan"), float("inf")]), posinf=9.0)
    iverson.Tensor([1., 0., 9.])
    """
    x = as_operand(x, "nan_to_num")
    check_kind(x, "biuf", "nan_to_num")
    if not dtypes.is_floating(x.dtype):
        return F.positive(x) if x.dtype.kind != "b" else F.copy(x)
    largest = float(dtypes.finfo(x.dtype).max)
    for default, number in ((largest, posinf), (-largest, neginf)):
        at = F.equal(x, float("inf") if default > 0 else -float("inf"))
        x = F.where(at, default if number is None else as_weak(number, "nan_to_num"), x)
    return F.where(F.isnan(x), as_weak(nan, "nan_to_num", "nan"), x)


def _filled(x: Array | ArrayLike, name: str, value: float) -> tuple[Any, Any]:
    """Array ``x`` with nan replaced by ``value``, and a mask that is True where ``x`` had nan.

    The mask is None for a dtype without nan.
    """
    x = as_operand(x, name)
    check_kind(x, "biuf", name)
    if not dtypes.is_floating(x.dtype):
        return x, None
    absent = F.isnan(x)
    return F.where(absent, value, x), absent


@method
def nansum(
    x: A | ArrayLike, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
) -> A:
    """The sum over axes (None: all) of the entries that are not nan, 0 without one.

    ``dtype`` is as for `sum`. Raises AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> nansum(asarray([1., float("nan"), 2.]))
    iverson.Tensor(3.)
    """
    return _sum(_filled(x, "nansum", 0.0)[0], axis, dtype=dtype, keepdims=keepdims)


@method
def nanprod(
    x: A | ArrayLike, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
) -> A:
    """The product over axes (None: all) of the entries that are not nan, 1 without one.

    ``dtype`` is as for `prod`. Raises AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> nanprod(asarray([3., float("nan"), 2.]))
    iverson.Tensor(6.)
    """
    return _prod(_filled(x, "nanprod", 1.0)[0], axis, dtype=dtype, keepdims=keepdims)


@method
def nancumsum(x: A | ArrayLike, /, axis: Axis | None = None, *, dtype: DTypeLike | None = None) -> A:
    """The sums of the entries so far along an axis (None: of x with one axis), of those that are not nan.

    Raises AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> nancumsum(asarray([1., float("nan"), 2.]))
    iverson.Tensor([1., 1., 3.])
    """
    return _running(_cumulative_sum, x, "nancumsum", 0.0, axis, dtype)


@method
def nancumprod(x: A | ArrayLike, /, axis: Axis | None = None, *, dtype: DTypeLike | None = None) -> A:
    """The products of the entries so far along an axis (None: of x with one axis), of those that are not nan.

    Raises AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> nancumprod(asarray([3., float("nan"), 2.]))
    iverson.Tensor([3., 3., 6.])
    """
    return _running(_cumulative_prod, x, "nancumprod", 1.0, axis, dtype)


def _running(
    scan: Callable[..., Array],
    x: Array | ArrayLike,
    name: str,
    value: float,
    axis: Axis | None,
    dtype: DTypeLike | None,
) -> Any:
    terms, _ = _filled(x, name, value)
    if axis is None:
        terms, axis = F.reshape(terms, shape=(terms.size,)), 0
    return scan(terms, axis=axis, dtype=dtype)


def _counted(x: Array | ArrayLike, name: str, axis: Axes, keepdims: bool) -> tuple[Any, Any, Any]:
    """Array ``x`` with nan replaced by 0, the mask of nan, and the number of entries over the axes that are
    not nan.
    """
    entries, absent = _filled(as_inexact(x, name), name, 0.0)
    count = _sum(F.astype(F.logical_not(absent), dtype=entries.dtype), axis, keepdims=keepdims)
    return entries, absent, count


def _of_dtype(x: Array | ArrayLike, dtype: DTypeLike | None, name: str) -> Any:
    return x if dtype is None else cast(as_operand(x, name), dtypes.as_dtype(dtype, name))


def _over(total: Array, count: Array) -> Any:
    """Quotient total / count, which is nan where ``count`` is not positive."""
    empty = F.less_equal(count, 0)
    return F.where(empty, float("nan"), total / F.where(empty, 1.0, count))


@method
def nanmean(
    x: A | ArrayLike, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
) -> A:
    """The mean over axes (None: all) of the entries that are not nan, nan without one.

    ``dtype`` is that of the result; by default x's, float64 of integers. Raises AxisError, DTypeError for
    complex x.

    >>> from iverson import asarray
    >>> nanmean(asarray([1., float("nan"), 2.]))
    iverson.Tensor(1.5)
    """
    entries, _, count = _counted(_of_dtype(x, dtype, "nanmean"), "nanmean", axis, keepdims)
    return _over(_sum(entries, axis, keepdims=keepdims), count)


@method
def nanvar(
    x: A | ArrayLike,
    /,
    axis: Axes = None,
    *,
    dtype: DTypeLike | None = None,
    correction: float = 0.0,
    ddof: float | None = None,
    keepdims: bool = False,
) -> A:
    """The variance over axes (None: all) of the n entries that are not nan: sums over n - correction.

    nan where that is not positive. ``ddof`` is NumPy's name of ``correction``, ``dtype`` that of the result,
    by default x's, float64 of integers. Raises AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> nanvar(asarray([1., float("nan"), 3.]))
    iverson.Tensor(1.)
    """
    entries = _of_dtype(x, dtype, "nanvar")
    distances, count = _distances(entries, "nanvar", axis, correction if ddof is None else ddof)
    variance = _over(_sum(F.square(distances), axis, keepdims=True), count)
    return variance if keepdims else squeeze(variance, normalize_axes(axis, variance.ndim, "nanvar"))


def _distances(x: Array | ArrayLike, name: str, axis: Axes, correction: float) -> tuple[Any, Any]:
    """Distances from the mean over the axes, 0 for nan, and a number for each mean.

    The number is that of the entries that are not nan, less the correction.
    """
    entries, absent, count = _counted(x, name, axis, True)
    mean = _sum(entries, axis, keepdims=True) / F.where(F.equal(count, 0), 1.0, count)
    return F.where(absent, 0.0, entries - mean), count - correction


@method
def nanstd(
    x: A | ArrayLike,
    /,
    axis: Axes = None,
    *,
    dtype: DTypeLike | None = None,
    correction: float = 0.0,
    ddof: float | None = None,
    keepdims: bool = False,
) -> A:
    """The standard deviation over axes (None: all) of the entries that are not nan: the root of `nanvar`.

    Where that is 0, so is the derivative. Arguments and errors are those of `nanvar`.

    >>> from iverson import asarray
    >>> nanstd(asarray([1., float("nan"), 3.]))
    iverson.Tensor(1.)
    """
    entries = _of_dtype(x, dtype, "nanstd")
    distances, count = _distances(entries, "nanstd", axis, correction if ddof is None else ddof)
    length = vector_norm(distances, axis=axis, keepdims=True)
    deviation = _over(length, F.sqrt(F.maximum(count, 0.0)))
    return deviation if keepdims else squeeze(deviation, normalize_axes(axis, deviation.ndim, "nanstd"))


@method
def nanquantile(
    x: A | ArrayLike,
    /,
    q: Array | ArrayLike,
    axis: Axes = None,
    *,
    method: QuantileMethod = "linear",
    weights: Array | ArrayLike | None = None,
    keepdims: bool = False,
) -> A:
    """The quantiles of the entries that are not nan over axes (None: all), nan without one.

    Arguments and errors are those of `quantile`.

    >>> from iverson import asarray
    >>> nanquantile(asarray([3., 1., float("nan"), 2.]), 0.25)
    iverson.Tensor(1.5)
    """
    return quantiles(x, q, axis, keepdims, "nanquantile", method, weights, pass_over_nan=True)


@method
def nanpercentile(
    x: A | ArrayLike,
    /,
    q: Array | ArrayLike,
    axis: Axes = None,
    *,
    method: QuantileMethod = "linear",
    weights: Array | ArrayLike | None = None,
    keepdims: bool = False,
) -> A:
    """The percentiles of the entries that are not nan over axes (None: all), nan without one.

    q is in percent, from 0 to 100. Other arguments and errors are those of `quantile`.

    >>> from iverson import asarray
    >>> nanpercentile(asarray([3., 1., float("nan"), 2.]), 25)
    iverson.Tensor(1.5)
    """
    return quantiles(x, q, axis, keepdims, "nanpercentile", method, weights, pass_over_nan=True, whole=100.0)


@method
def nanmedian(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """The middle entry in order of those that are not nan over axes (None: all), or the mean of two.

    Errors are those of `median`.

    >>> from iverson import asarray
    >>> nanmedian(asarray([3., 1., float("nan"), 10.]))
    iverson.Tensor(3.)
    """
    return quantiles(x, 0.5, axis, keepdims, "nanmedian", pass_over_nan=True)


def _extremum(name: str, x: Array | ArrayLike, axis: Axes, keepdims: bool, largest: bool) -> Any:
    """Largest or smallest entry over axes that is not nan; nan if all are."""
    bound = -float("inf") if largest else float("inf")
    entries, absent = _filled(x, name, bound)
    extremum = (_max if largest else _min)(entries, axis, keepdims=keepdims)
    if absent is None:
        return extremum
    none = F.equal(_sum(F.astype(absent, dtype=dtypes.int64) - 1, axis, keepdims=keepdims), 0)
    return F.where(none, float("nan"), extremum)


@method
def nanmax(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """The largest over axes (None: all) of the entries that are not nan, nan without one.

    Raises AxisError, DTypeError for complex x, ArgumentError where no entries are.

    >>> from iverson import asarray
    >>> nanmax(asarray([1., float("nan"), 2.]))
    iverson.Tensor(2.)
    """
    return _extremum("nanmax", x, axis, keepdims, True)


@method
def nanmin(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """The smallest over axes (None: all) of the entries that are not nan, nan without one.

    Raises AxisError, DTypeError for complex x, ArgumentError where no entries are.

    >>> from iverson import asarray
    >>> nanmin(asarray([1., float("nan"), 2.]))
    iverson.Tensor(1.)
    """
    return _extremum("nanmin", x, axis, keepdims, False)


def _position(name: str, x: Array | ArrayLike, axis: Axis | None, keepdims: bool, largest: bool) -> Any:
    """Position of the largest or smallest entry that is not nan; 0 if all are."""
    bound = -float("inf") if largest else float("inf")
    entries, absent = _filled(x, name, bound)
    place = (_argmax if largest else _argmin)(entries, axis, keepdims=keepdims)
    if absent is None:
        return place
    # Where no entry is beyond what stands for nan, all others are equal to it.
    extremum = (_max if largest else _min)(entries, axis, keepdims=keepdims)
    first = _argmax(F.astype(F.logical_not(absent), dtype=dtypes.int8), axis, keepdims=keepdims)
    return F.where(F.equal(extremum, bound), first, place)


@method
def nanargmax(x: A | ArrayLike, /, axis: Axis | None = None, *, keepdims: bool = False) -> A:
    """The position along an axis (None: in the flattened array) of the first largest that is not nan.

    Where all are nan it is 0. Raises AxisError, DTypeError for complex x, ArgumentError where no entries are.

    >>> from iverson import asarray
    >>> nanargmax(asarray([1., float("nan"), 2.]))
    iverson.Tensor(2)
    """
    return _position("nanargmax", x, axis, keepdims, True)


@method
def nanargmin(x: A | ArrayLike, /, axis: Axis | None = None, *, keepdims: bool = False) -> A:
    """The position along an axis (None: in the flattened array) of the first smallest that is not nan.

    Where all are nan it is 0. Raises AxisError, DTypeError for complex x, ArgumentError where no entries are.

    >>> from iverson import asarray
    >>> nanargmin(asarray([float("nan"), 1., 2.]))
    iverson.Tensor(1)
    """
    return _position("nanargmin", x, axis, keepdims, False)


__all__ = [
    "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian",
    "nanmin", "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
]  # fmt: skip
