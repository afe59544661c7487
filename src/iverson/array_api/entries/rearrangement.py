"""Functions of NumPy and PyTorch that join, cut and number entries, by the functions of the other modules."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import (
    as_operand,
    as_operands,
    as_plain,
    as_tuple,
    cast,
    check_kind,
)
from iverson.array_api.entries.creation import asarray, zeros
from iverson.array_api.entries.indexing import nonzero, take, take_along_axis
from iverson.array_api.entries.joining import concat
from iverson.array_api.entries.manipulation import broadcast_to, expand_dims, moveaxis, ravel
from iverson.array_api.entries.searching import argsort, isin, unique_values
from iverson.core import dtypes
from iverson.core.dispatch import has_entries, unwrap
from iverson.core.errors import ArgumentError, IndexingError, ShapeError
from iverson.core.inputs.arguments import as_sequence, checked
from iverson.core.shapes import as_int, as_shape, check_storable, normalize_axis
from iverson.handles import Tensor
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axis, ShapeLike

    #: Positions along an axis: one, several, or a range.
    Positions: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | slice


def _at_least(x: A | ArrayLike, rank: int, name: str) -> A:
    x = as_operand(x, name)
    missing = rank - x.ndim
    return expand_dims(x, tuple(range(missing))) if missing > 0 else x


@method
def atleast_1d(x: A | ArrayLike, /) -> A:
    """x, with an axis of extent 1 if it has none.

    >>> atleast_1d(3.0)
    iverson.Tensor([3.])
    """
    return _at_least(x, 1, "atleast_1d")


@method
def atleast_2d(x: A | ArrayLike, /) -> A:
    """x, with axes of extent 1 in front until there are two.

    >>> from iverson import asarray
    >>> atleast_2d(asarray([1, 2]))
    iverson.Tensor([[1, 2]])
    """
    return _at_least(x, 2, "atleast_2d")


@method
def atleast_3d(x: A | ArrayLike, /) -> A:
    """x with at least three axes: a vector is the second of them, and a matrix the first two, as in NumPy.

    >>> from iverson import zeros
    >>> atleast_3d(zeros(4)).shape, atleast_3d(zeros((4, 5))).shape
    ((1, 4, 1), (4, 5, 1))
    """
    x = as_operand(x, "atleast_3d")
    axes = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}.get(x.ndim, ())
    return expand_dims(x, axes) if axes else x


def hstack(arrays: Sequence[A | ArrayLike], /) -> A:
    """Arrays beside each other: along the second axis, or of vectors along the first.

    Raises ShapeError where shapes do not fit, ArgumentError for no arrays.

    >>> from iverson import asarray
    >>> hstack([asarray([1, 2]), asarray([3])])
    iverson.Tensor([1, 2, 3])
    """
    xs = [atleast_1d(x) for x in as_operands(arrays, "hstack")]
    return concat(xs, axis=min(xs[0].ndim - 1, 1))


def vstack(arrays: Sequence[A | ArrayLike], /) -> A:
    """Arrays below each other: along the first axis, where a vector is a row.

    Raises ShapeError where shapes do not fit, ArgumentError for no arrays.

    >>> from iverson import asarray
    >>> vstack([asarray([1, 2]), asarray([3, 4])])
    iverson.Tensor([[1, 2],
                    [3, 4]])
    """
    return concat([atleast_2d(x) for x in as_operands(arrays, "vstack")], axis=0)


def dstack(arrays: Sequence[A | ArrayLike], /) -> A:
    """Arrays behind each other: along the third axis; see `atleast_3d`.

    Raises ShapeError where shapes do not fit, ArgumentError for no arrays.

    >>> from iverson import zeros
    >>> dstack([zeros((2, 3)), zeros((2, 3))]).shape
    (2, 3, 2)
    """
    return concat([atleast_3d(x) for x in as_operands(arrays, "dstack")], axis=2)


def column_stack(arrays: Sequence[A | ArrayLike], /) -> A:
    """Vectors as the columns of a matrix; matrices beside each other.

    Raises ShapeError where shapes do not fit, ArgumentError for no arrays.

    >>> from iverson import asarray
    >>> column_stack([asarray([1, 2]), asarray([3, 4])])
    iverson.Tensor([[1, 3],
                    [2, 4]])
    """
    xs = [atleast_1d(x) for x in as_operands(arrays, "column_stack")]
    return concat([expand_dims(x, 1) if x.ndim == 1 else x for x in xs], axis=1)


@checked
def append(array: A | ArrayLike, values: A | ArrayLike, /, axis: Axis | None = None) -> A:
    """An array with values after it along an axis; None: both as vectors.

    Raises ShapeError where shapes do not fit, AxisError.

    >>> from iverson import asarray
    >>> append(asarray([[1, 2]]), asarray([3]))
    iverson.Tensor([1, 2, 3])
    """
    x, values = as_operand(array, "append", "array"), as_operand(values, "append", "values")
    if axis is None:
        return concat([ravel(x), ravel(values)], axis=0)
    return concat([x, values], axis=axis)


def _along(x: A | ArrayLike, axis: Axis | None, name: str) -> tuple[A, int]:
    """An array and the number of an axis; None stands for the axis of all entries as a vector."""
    x = as_operand(x, name)
    return (ravel(x), 0) if axis is None else (x, normalize_axis(axis, x.ndim, name))


@checked
def insert(
    array: A | ArrayLike, index: SupportsIndex, values: A | ArrayLike, /, axis: Axis | None = None
) -> A:
    """An array with values before a position along an axis; None: of all entries as a vector.

    Parameters
    ----------
    array : an array. dtypes are promoted.
    index : a position, from the end if it is negative.
    values : an array that broadcasts to the other axes. Its axes are those without ``axis``; with as many
        as the array has, the first of them is ``axis``.
    axis : along which axis.

    Raises IndexingError for a position outside it, ShapeError where shapes do not fit, AxisError.

    >>> from iverson import asarray
    >>> insert(asarray([1, 2, 3]), 1, 9)
    iverson.Tensor([1, 9, 2, 3])
    """
    x, k = _along(array, axis, "insert")
    rows = as_operand(values, "insert", "values")
    if rows.ndim > x.ndim:
        raise ShapeError("insert", "values", got=f"shape {rows.shape}", expected=f"at most {x.ndim} axes")
    rows = moveaxis(_at_least(rows, x.ndim, "insert"), 0, k)
    shape = tuple(rows.shape[k] if axis == k else n for axis, n in enumerate(x.shape))
    place, extent = as_int(index, "insert", "index"), x.shape[k]
    if not -extent <= place <= extent:
        raise IndexingError("insert", "index", got=str(place), expected=f"one in [{-extent}, {extent}]")
    place += extent * (place < 0)
    before, after = np.arange(place), np.arange(place, extent)
    rows = broadcast_to(rows, shape)
    parts: Any = [take(x, before, axis=k), rows, take(x, after, axis=k)]
    return concat(parts, axis=k)


@checked
def delete(array: A | ArrayLike, index: Positions, /, axis: Axis | None = None) -> A:
    """An array without some positions along an axis; None: of all entries as a vector.

    Parameters
    ----------
    array : an array.
    index : an integer, several, or a slice.
    axis : along which axis.

    Raises IndexingError for a position outside it, AxisError.

    >>> from iverson import asarray
    >>> delete(asarray([1, 2, 3, 4]), [0, -1])
    iverson.Tensor([2, 3])
    """
    x, k = _along(array, axis, "delete")
    keep = np.ones(x.shape[k], bool)
    places: list[int] | slice = (
        index if isinstance(index, slice) else [as_int(n, "delete", "index") for n in as_tuple(index)]
    )
    try:
        keep[places] = False
    except IndexError as error:
        raise IndexingError(
            "delete", "index", got=str(index), expected=f"positions in an axis of extent {x.shape[k]}"
        ) from error
    return take(x, np.flatnonzero(keep), axis=k)


@method
def flatnonzero(x: A | ArrayLike, /) -> Tensor:
    """The numbers, in row-major order, of the entries that are not zero. Raises GraphError in a trace.

    >>> from iverson import asarray
    >>> flatnonzero(asarray([[0, 3], [4, 0]]))
    iverson.Tensor([1, 2])
    """
    return nonzero(ravel(as_operand(x, "flatnonzero")))[0]


def _corners(name: str, n: SupportsIndex, k: SupportsIndex, m: SupportsIndex | None) -> tuple[Tensor, Tensor]:
    rows, offset = as_int(n, name, "n"), as_int(k, name, "k")
    columns = rows if m is None else as_int(m, name, "m")
    if rows < 0 or columns < 0:
        raise ArgumentError(name, "n", got=f"{rows} and {columns}", expected="extents of at least 0")
    check_storable((rows, columns), dtypes.int64, name, "n")
    i, j = getattr(np, name)(rows, max(-rows, min(offset, columns)), columns)
    return asarray(i), asarray(j)


def tril_indices(
    n: SupportsIndex, k: SupportsIndex = 0, m: SupportsIndex | None = None, /
) -> tuple[Tensor, Tensor]:
    """Row and column numbers of the entries on and below diagonal k of an n by m matrix (m: n).

    >>> tril_indices(2)
    (iverson.Tensor([0, 1, 1]), iverson.Tensor([0, 0, 1]))
    """
    return _corners("tril_indices", n, k, m)


def triu_indices(
    n: SupportsIndex, k: SupportsIndex = 0, m: SupportsIndex | None = None, /
) -> tuple[Tensor, Tensor]:
    """Row and column numbers of the entries on and above diagonal k of an n by m matrix (m: n).

    >>> triu_indices(2)
    (iverson.Tensor([0, 0, 1]), iverson.Tensor([0, 1, 1]))
    """
    return _corners("triu_indices", n, k, m)


def unravel_index(indices: Tensor | ArrayLike, shape: ShapeLike, /) -> tuple[Tensor, ...]:
    """The index along each axis of a shape, from numbers of entries in row-major order.

    Raises DTypeError for numbers that are not integers, IndexingError for one outside the shape.

    >>> from iverson import asarray
    >>> unravel_index(asarray([4, 5]), (2, 3))
    (iverson.Tensor([1, 1]), iverson.Tensor([1, 2]))
    """
    numbers = _integers(indices, "unravel_index", "indices")
    extents = as_shape(shape, "unravel_index")
    _check_inside(numbers, prod(extents), "unravel_index", "indices")
    places = []
    for k, extent in enumerate(extents):
        step = prod(extents[k + 1 :])
        places.append((numbers // max(step, 1)) % max(extent, 1))
    return tuple(places)


def ravel_multi_index(multi_index: Sequence[Tensor | ArrayLike], dims: ShapeLike, /) -> Tensor:
    """The number of each entry in row-major order, from its index along each axis of a shape.

    Raises ArgumentError unless there are as many indices as axes, DTypeError, IndexingError.

    >>> from iverson import asarray
    >>> ravel_multi_index((asarray([1, 1]), asarray([1, 2])), (2, 3))
    iverson.Tensor([4, 5])
    """
    extents = as_shape(dims, "ravel_multi_index")
    indices = as_sequence(multi_index, "ravel_multi_index", "multi_index")
    parts = [_integers(i, "ravel_multi_index", "multi_index") for i in indices]
    if len(parts) != len(extents) or not parts:
        raise ArgumentError(
            "ravel_multi_index", "multi_index", got=f"{len(parts)} arrays", expected=f"{max(len(extents), 1)}"
        )
    total: Tensor = parts[0] * 0
    for part, extent in zip(parts, extents, strict=True):
        _check_inside(part, extent, "ravel_multi_index", "multi_index")
        total = total * extent + part
    return total


def _integers(x: Tensor | ArrayLike, name: str, argument: str) -> Tensor:
    numbers = as_plain(x, name, argument)
    check_kind(numbers, "iu", name, argument)
    return F.astype(numbers, dtype=np.dtype(np.int64))


def _check_inside(numbers: Tensor, extent: int, name: str, argument: str) -> None:
    if has_entries(unwrap(numbers)) and numbers.size:
        entries = F.to_numpy(numbers)
        if entries.min() < 0 or entries.max() >= extent:
            raise IndexingError(
                name,
                argument,
                got=f"{entries.min()} to {entries.max()}",
                expected=f"numbers in [0, {extent})",
            )


@method
def fill_diagonal(x: A | ArrayLike, value: A | ArrayLike, /) -> A:
    """A copy of matrices (the last two axes) with a value on their diagonals; x itself stays as it is.

    Raises ShapeError for less than two axes.

    >>> from iverson import zeros
    >>> fill_diagonal(zeros((2, 2)), 3.0)
    iverson.Tensor([[3., 0.],
                    [0., 3.]])
    """
    x = as_plain(x, "fill_diagonal")
    if x.ndim < 2:
        raise ShapeError("fill_diagonal", "x", got=f"shape {x.shape}", expected="at least two axes")
    on_diagonal = np.eye(x.shape[-2], x.shape[-1]) != 0
    result = F.where(on_diagonal, as_plain(value, "fill_diagonal", "value"), x)
    return F.astype(result, dtype=x.dtype)


@method
def diag_embed(x: A | ArrayLike, /, offset: SupportsIndex = 0) -> A:
    """Matrices with the last axis of x on diagonal ``offset``, and zeros elsewhere.

    Raises ShapeError for an array without axes.

    >>> from iverson import asarray
    >>> diag_embed(asarray([1., 2.]))
    iverson.Tensor([[1., 0.],
                    [0., 2.]])
    """
    x, k = as_operand(x, "diag_embed"), as_int(offset, "diag_embed", "offset")
    if not x.ndim:
        raise ShapeError("diag_embed", "x", got="shape ()", expected="at least one axis")
    count = x.shape[-1]
    extent = count + abs(k)
    rows = np.clip(np.arange(extent) - max(-k, 0), 0, max(count - 1, 0))
    if not count:
        return zeros((*x.shape[:-1], extent, extent), dtype=x.dtype)  # type: ignore[return-value]
    spread = expand_dims(take(x, rows, axis=-1), -1)
    return F.astype(F.where(np.eye(extent, k=k) != 0, spread, 0), dtype=x.dtype)


def _in_common(name: str, x1: A | ArrayLike, x2: A | ArrayLike) -> tuple[A, A]:
    """Two operands in their common dtype."""
    a, b = as_operand(x1, name, "x1"), as_operand(x2, name, "x2")
    dtype = dtypes.result_type(a, b)
    return cast(a, dtype), cast(b, dtype)


@method
def union1d(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The values of two arrays, each once and in order. Raises GraphError in a trace.

    >>> from iverson import asarray
    >>> union1d(asarray([3, 1]), asarray([1, 2]))
    iverson.Tensor([1, 2, 3])
    """
    values: Any = append(x1, x2)
    return unique_values(values)  # type: ignore[return-value]


@method
def intersect1d(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The values that are in both of two arrays, each once and in order. Raises GraphError in a trace.

    >>> from iverson import asarray
    >>> intersect1d(asarray([3, 1]), asarray([1, 2]))
    iverson.Tensor([1])
    """
    x1, x2 = _in_common("intersect1d", x1, x2)
    values = unique_values(x1)
    return values[isin(values, x2)]  # type: ignore[return-value]


@method
def setdiff1d(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The values of an array that are not in another, each once and in order. Raises GraphError in a trace.

    >>> from iverson import asarray
    >>> setdiff1d(asarray([3, 1, 1]), asarray([1, 2]))
    iverson.Tensor([3])
    """
    x1, x2 = _in_common("setdiff1d", x1, x2)
    values = unique_values(x1)
    return values[isin(values, x2, invert=True)]  # type: ignore[return-value]


def lexsort(keys: Sequence[Array | ArrayLike], /) -> Tensor:
    """The order of rows that sorts by the last key, then by the one before it, and so on.

    Parameters
    ----------
    keys : arrays of one shape, sorted along the last axis.

    Raises ShapeError for keys of different shapes or without axes, ArgumentError for none.

    >>> from iverson import asarray
    >>> lexsort([asarray([2, 1, 0]), asarray([5, 4, 5])])
    iverson.Tensor([1, 2, 0])
    """
    columns = [as_plain(key, "lexsort", "keys") for key in as_operands(keys, "lexsort", "keys")]
    shapes = {tuple(column.shape) for column in columns}
    if len(shapes) > 1 or () in shapes:
        raise ShapeError("lexsort", "keys", got=f"shapes {sorted(shapes)}", expected="one shape with an axis")
    order = argsort(columns[0], axis=-1)
    for column in columns[1:]:
        order = take_along_axis(order, argsort(take_along_axis(column, order, axis=-1), axis=-1), axis=-1)
    return order


__all__ = [
    "append",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "column_stack",
    "delete",
    "diag_embed",
    "dstack",
    "fill_diagonal",
    "flatnonzero",
    "hstack",
    "insert",
    "intersect1d",
    "lexsort",
    "ravel_multi_index",
    "setdiff1d",
    "tril_indices",
    "triu_indices",
    "union1d",
    "unravel_index",
    "vstack",
]
