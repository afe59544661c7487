"""Functions that pass over nan, or replace it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iverson.array_api.arguments import as_inexact, as_operand, as_weak, check_kind
from iverson.array_api.methods import method
from iverson.array_api.reductions import max as _max
from iverson.array_api.reductions import min as _min
from iverson.array_api.reductions import sum as _sum
from iverson.core import dtypes
from iverson.core.arguments import checked
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.tensor.typing import A, ArrayLike, Axes


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
    most = float(dtypes.finfo(x.dtype).max)
    for found, number in ((most, posinf), (-most, neginf)):
        at = F.equal(x, float("inf") if found > 0 else -float("inf"))
        x = F.where(at, found if number is None else as_weak(number, "nan_to_num"), x)
    return F.where(F.isnan(x), as_weak(nan, "nan_to_num", "nan"), x)


def _filled(x: Any, name: str, value: float) -> tuple[Any, Any]:
    """x with nan replaced, and where it was."""
    x = as_operand(x, name)
    check_kind(x, "biuf", name)
    if not dtypes.is_floating(x.dtype):
        return x, None
    absent = F.isnan(x)
    return F.where(absent, value, x), absent


@method
@checked
def nansum(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """The sum over axes (None: all) of the entries that are not nan, 0 without one.

    Raises AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> nansum(asarray([1., float("nan"), 2.]))
    iverson.Tensor(3.)
    """
    return _sum(_filled(x, "nansum", 0.0)[0], axis, keepdims=keepdims)


@method
@checked
def nanmean(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """The mean over axes (None: all) of the entries that are not nan, nan without one.

    Raises AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> nanmean(asarray([1., float("nan"), 2.]))
    iverson.Tensor(1.5)
    """
    filled, absent = _filled(as_inexact(x, "nanmean"), "nanmean", 0.0)
    count = _sum(F.astype(F.logical_not(absent), dtype=filled.dtype), axis, keepdims=keepdims)
    empty = F.equal(count, 0)
    mean = _sum(filled, axis, keepdims=keepdims) / F.where(empty, 1.0, count)
    return F.where(empty, float("nan"), mean)


def _extremum(name: str, x: Any, axis: Any, keepdims: bool, largest: bool) -> Any:
    bound = -float("inf") if largest else float("inf")
    filled, absent = _filled(x, name, bound)
    found = (_max if largest else _min)(filled, axis, keepdims=keepdims)
    if absent is None:
        return found
    none = F.equal(_sum(F.astype(absent, dtype=dtypes.int64) - 1, axis, keepdims=keepdims), 0)
    return F.where(none, float("nan"), found)


@method
@checked
def nanmax(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """The largest over axes (None: all) of the entries that are not nan, nan without one.

    Raises AxisError, DTypeError for complex x, ArgumentError where no entries are.

    >>> from iverson import asarray
    >>> nanmax(asarray([1., float("nan"), 2.]))
    iverson.Tensor(2.)
    """
    return _extremum("nanmax", x, axis, keepdims, True)


@method
@checked
def nanmin(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """The smallest over axes (None: all) of the entries that are not nan, nan without one.

    Raises AxisError, DTypeError for complex x, ArgumentError where no entries are.

    >>> from iverson import asarray
    >>> nanmin(asarray([1., float("nan"), 2.]))
    iverson.Tensor(1.)
    """
    return _extremum("nanmin", x, axis, keepdims, False)


__all__ = ["nan_to_num", "nanmax", "nanmean", "nanmin", "nansum"]
