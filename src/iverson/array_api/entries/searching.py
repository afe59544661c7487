"""Sorting, searching and sets. Orders are piecewise constant: derivatives go through the values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import (
    addresses_of,
    as_operand,
    as_plain,
    as_weak,
    check_entries,
    check_kind,
)
from iverson.array_api.entries.indexing import flat_take, positions
from iverson.array_api.entries.joining import take_positions
from iverson.array_api.entries.manipulation import as_vector
from iverson.core import dtypes
from iverson.core.dispatch import Handle, Wrapper, has_entries, rewrap, unwrap, value_of, zero_filled
from iverson.core.errors import ArgumentError, ShapeError, speaking_as
from iverson.core.protocols import DType, NDArray
from iverson.core.shapes import check_choice, normalize_axis
from iverson.handles import Tensor
from iverson.layouts import to_strided
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axis


@method
def sort(x: A | ArrayLike, /, *, axis: Axis = -1, descending: bool = False, stable: bool = True) -> A:
    """The entries in increasing (or decreasing) order along an axis; nan counts as the largest.

    Raises AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> sort(asarray([3., 1., 2.]), descending=True)
    iverson.Tensor([3., 2., 1.])
    """
    x = as_operand(x, "sort")
    check_kind(x, "biuf", "sort")
    k = normalize_axis(axis, x.ndim, "sort")
    return F.sort(x, axis=k, descending=bool(descending))


@method
def argsort(x: A | ArrayLike, /, *, axis: Axis = -1, descending: bool = False, stable: bool = True) -> A:
    """The positions that sort x along an axis, as int64; equal entries keep their order if ``stable``.

    Of a MaskedTensor, they are those of the specified entries; at the end, where `sort` gives unspecified
    ones, there is no position. Raises AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> argsort(asarray([3., 1., 2.]))
    iverson.Tensor([1, 2, 0])
    """
    x = as_operand(x, "argsort")
    check_kind(x, "biuf", "argsort")
    k = normalize_axis(axis, x.ndim, "argsort")
    return F.argsort(x, axis=k, descending=bool(descending), stable=bool(stable))


@method
def searchsorted(
    x1: A | ArrayLike,
    x2: A | ArrayLike,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: ArrayLike | None = None,
) -> A:
    """Positions at which the entries of x2 go into the sorted vector x1 so that it stays sorted, as int64.

    ``side`` is "left" (before equal entries) or "right" (after them); ``sorter`` holds positions that
    sort x1. Raises ShapeError unless x1 is a vector, ArgumentError for another side, IndexingError.

    >>> from iverson import asarray
    >>> searchsorted(asarray([1., 2., 3.]), asarray([0., 2., 9.]))
    iverson.Tensor([0, 1, 3])
    """
    x1 = as_operand(x1, "searchsorted", "x1")
    x2 = as_operand(x2, "searchsorted", "x2")
    for argument, x in (("x1", x1), ("x2", x2)):
        check_kind(x, "biuf", "searchsorted", argument)
    check_choice(side, ("left", "right"), "searchsorted", "side")
    if x1.ndim != 1:
        raise ShapeError("searchsorted", "x1", got=f"shape {x1.shape}", expected="a vector")
    if sorter is not None:
        x1 = flat_take(x1, positions(sorter, x1.size, "searchsorted", "sorter"), "searchsorted")
    return F.searchsorted(x1, x2, side=side)


def _explicit(x: Array | NDArray, operation: str) -> np.ndarray[Any, Any]:
    """All entries as a NumPy array; warns with DensifyWarning if many of them are not stored."""
    return to_strided(value_of(x), operation, quiet=False) if isinstance(x, Handle) else np.asarray(x)


@method
def isin(x1: A | ArrayLike, x2: A | ArrayLike, /, *, invert: bool = False) -> A:
    """Mask of the entries of x1 that equal some entry of x2 (or, with ``invert``, none), as bool.

    Unspecified entries of x1 are unspecified in the result; those of x2 equal nothing.

    >>> from iverson import asarray
    >>> isin(asarray([1, 2, 3]), asarray([3, 1]))
    iverson.Tensor([ True, False,  True])
    """
    xs = [as_weak(x, "isin", argument) for argument, x in (("x1", x1), ("x2", x2))]
    if not any(hasattr(x, "dtype") for x in xs):
        raise ArgumentError("isin", got="two Python scalars", expected="at least one array")
    common = dtypes.result_type(*xs)
    if not all(has_entries(unwrap(x)) for x in xs):
        return rewrap(xs[0], _is_in(xs[0], xs[1], common, bool(invert)))
    a, b = (_explicit(unwrap(x), "isin") if hasattr(x, "dtype") else np.asarray(x, common) for x in xs)
    return rewrap(xs[0], Tensor(np.asarray(np.isin(a, b, invert=bool(invert)))))


#: Of as many entries or fewer, each is compared. Measured in compiled functions (`make calibrate`): sorting
#: and searching takes 1.7 times as long for 256, and as long for 512.
FEW = 256


def _is_in(x1: Array | complex, x2: Array | complex, common: DType, invert: bool) -> Any:
    """Result of `isin` by comparisons of traced or batched values: a plain tensor of bools.

    common : the dtype to compare in.
    """
    masked: Any = x2 if isinstance(x2, Wrapper) else None
    there = None if masked is None else as_vector(masked.get_mask(), "isin")
    line = as_vector(_dense(x2, common), "isin")
    x = _dense(unwrap(x1), common)
    if there is None and line.size > FEW and common.kind in "biuf":
        line = F.sort(line, axis=0, descending=False)
        at = F.minimum(F.searchsorted(line, x, side="left"), line.size - 1)
        mask = F.equal(F.gather(line, at, axes=(0,)), x)
    else:
        mask = F.equal(F.expand_dims(x, axis=(x.ndim,)), line)
        mask = mask if there is None else F.logical_and(mask, there)
        mask = F.any(mask, axis=(x.ndim,), keepdims=False)
    return F.logical_not(mask) if invert else mask


def _dense(x: Array | complex, common: DType) -> Any:
    """Dense entries of an operand in the dtype ``common``, with zeros for entries that do not exist."""
    x = F.to_dense(zero_filled(x)) if hasattr(x, "dtype") else Tensor(np.asarray(x, common))
    return x if x.dtype == common else F.astype(x, dtype=common)


class UniqueAll(NamedTuple):
    """Result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Any  # of the kind of x
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Any  # of the kind of x


@method
def unique_all(x: Array | ArrayLike, /, *, axis: Axis | None = None) -> UniqueAll:
    """The distinct (specified) entries of the flattened array in increasing order, and all about them.

    With ``axis``, the distinct slices along it, in the order of their entries: ``indices``,
    ``inverse_indices`` and ``counts`` are then of positions on the axis. Raises AxisError.

    The fields are ``values`` (which differentiate), ``indices`` of their first occurrences in the
    flattened array, ``inverse_indices`` of x's shape that rebuild x from the values, and ``counts``.
    Each nan is distinct.

    >>> from iverson import asarray
    >>> unique_all(asarray([2, 1, 2])).inverse_indices
    iverson.Tensor([1, 0, 1])
    """
    return _unique(x, axis, False)


def _unique(x: Array | ArrayLike, axis: Axis | None, equal_nan: bool) -> UniqueAll:
    """Distinct entries of ``x``, or its distinct slices along ``axis``, with the fields of `unique_all`.

    equal_nan : True to take all nan as one.
    """
    x = as_operand(x, "unique_all")
    _check_known(x, "unique_all")
    if axis is not None:
        return _unique_slices(x, axis)
    entries, addresses = _entries(x, "unique_all")
    _, first, inverse, counts = np.unique(
        _explicit(entries, "unique_all"),
        return_index=True,
        return_inverse=True,
        return_counts=True,
        equal_nan=equal_nan,
    )
    values = F.gather(entries, first, axes=(0,))
    if addresses is None:
        return UniqueAll(values, Tensor(first), Tensor(inverse.reshape(x.shape)), Tensor(counts))
    numbers = np.argsort(addresses, kind="stable")  # the entries were taken in this order
    ordered_inverse = np.empty_like(inverse)
    ordered_inverse[numbers] = inverse
    return UniqueAll(
        values, Tensor(addresses[numbers][first]), rewrap(x, Tensor(ordered_inverse)), Tensor(counts)
    )


def _check_known(x: Array | ArrayLike, operation: str) -> None:
    check_entries(
        operation,
        x,
        decides="how many distinct ones there are",
        remedy="sort them, or compare them by isin; or call it outside of the transform",
    )


@method
def unique(
    x: Array | ArrayLike,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Axis | None = None,
    *,
    equal_nan: bool = True,
) -> Tensor | tuple[Any, ...]:
    """The distinct (specified) entries in increasing order, or slices along ``axis``, under NumPy's name.

    Alone, or in a tuple before what the flags ask for, in their order: the fields of `unique_all`, where it
    is said what they are. ``equal_nan`` takes all nan as one; of slices, those with nan are distinct. Raises
    AxisError.

    >>> from iverson import asarray
    >>> unique(asarray([2, 1, 2]), return_counts=True)
    (iverson.Tensor([1, 2]), iverson.Tensor([1, 2]))
    """
    with speaking_as("unique"):
        results = _unique(as_operand(x, "unique"), axis, equal_nan)
    flagged = zip((True, return_index, return_inverse, return_counts), results, strict=True)
    parts = tuple(part for is_requested, part in flagged if is_requested)
    return parts if len(parts) > 1 else parts[0]


def _unique_slices(array: Array, axis: Axis) -> UniqueAll:
    x = as_plain(array, "unique_all")
    k = normalize_axis(axis, x.ndim, "unique_all")
    _, first, inverse, counts = np.unique(
        _explicit(x, "unique_all"), return_index=True, return_inverse=True, return_counts=True, axis=k
    )
    fields = (Tensor(part) for part in (first, inverse.reshape(-1), counts))
    return UniqueAll(take_positions(x, first, k), *fields)


def _entries(x: Array | ArrayLike, operation: str) -> tuple[Any, Any]:
    """Entries of ``x`` that exist, as a vector in row-major order, and their addresses.

    The addresses are None if all entries exist; otherwise they are in the order in which the handle has its
    entries, which may be another.
    """
    x = as_operand(x, operation)
    addresses = addresses_of(x)
    if addresses is None:
        return as_vector(x, operation), None
    return F.gather(unwrap(x), np.argsort(addresses, kind="stable"), axes=(0,)), addresses


@method
def unique_counts(x: Array | ArrayLike, /, *, axis: Axis | None = None) -> UniqueCounts:
    """The distinct entries of the flattened array in increasing order, and how often each occurs.

    With ``axis``, the distinct slices along it.

    >>> from iverson import asarray
    >>> unique_counts(asarray([2, 1, 2])).counts
    iverson.Tensor([1, 2])
    """
    with speaking_as("unique_counts"):
        result = unique_all(as_operand(x, "unique_counts"), axis=axis)
    return UniqueCounts(result.values, result.counts)


@method
def unique_inverse(x: Array | ArrayLike, /, *, axis: Axis | None = None) -> UniqueInverse:
    """The distinct entries of the flattened array in increasing order, and where each entry of x is there.

    With ``axis``, the distinct slices along it, and where each slice is there.

    >>> from iverson import asarray
    >>> unique_inverse(asarray([2, 1, 2])).inverse_indices
    iverson.Tensor([1, 0, 1])
    """
    with speaking_as("unique_inverse"):
        result = unique_all(as_operand(x, "unique_inverse"), axis=axis)
    return UniqueInverse(result.values, result.inverse_indices)


@method
def unique_values(x: Array | ArrayLike, /, *, axis: Axis | None = None) -> Tensor:
    """The distinct entries of the flattened array in increasing order; each nan is distinct.

    With ``axis``, the distinct slices along it.

    >>> from iverson import asarray
    >>> unique_values(asarray([2, 1, 2]))
    iverson.Tensor([1, 2])
    """
    _check_known(x, "unique_values")
    if axis is not None:
        with speaking_as("unique_values"):
            return _unique_slices(as_operand(x, "unique_values"), axis).values
    entries, _ = _entries(x, "unique_values")
    _, first = np.unique(_explicit(entries, "unique_values"), return_index=True, equal_nan=False)
    return F.gather(entries, first, axes=(0,))


__all__ = [
    "argsort", "isin", "searchsorted", "sort", "unique", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
]  # fmt: skip
