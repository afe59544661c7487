"""Shapes and axes as users write them, checked and normalised to the one form that ops expect.

An op's ``axis`` is a tuple of distinct non-negative integers in increasing order. Every form that a user may
write (None, negative, a single integer) becomes that here, or an error that says what was wrong.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any, SupportsIndex

if TYPE_CHECKING:
    import numpy as np

from iverson.core.errors import ArgumentError, ArgumentTypeError, AxisError, ShapeError, described

Shape = tuple[int, ...]

#: NumPy's limit.
MAX_RANK = 64


def as_int(value: Any, operation: str, argument: str) -> int:
    """An integer argument; raises ArgumentTypeError for anything that is not one."""
    if type(value) is int:
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(operation, argument, got=described(value), expected="an integer") from None


_INT = frozenset((int,))


def as_ints(
    values: SupportsIndex | Sequence[SupportsIndex], operation: str, argument: str
) -> tuple[int, ...]:
    """A tuple of integers, from an integer or a list or tuple of them."""
    items: Any = values if isinstance(values, (list, tuple)) else (values,)
    if type(items) is tuple and _INT.issuperset(map(type, items)):
        return items
    return tuple([as_int(n, operation, argument) for n in items])


#: Sequences that are no numbers one after the other.
_TEXT = (str, bytes, bytearray)


def each(axis: SupportsIndex | Iterable[SupportsIndex]) -> Sequence[Any]:
    """The items of a sequence; for anything else, and for text, a tuple of this one item."""
    return axis if isinstance(axis, Sequence) and type(axis) not in _TEXT else (axis,)


def as_shape(shape: SupportsIndex | Iterable[SupportsIndex], operation: str) -> Shape:
    """A shape argument (an integer or a sequence of them) as a tuple of non-negative integers."""
    if type(shape) is tuple and _INT.issuperset(map(type, shape)):
        result: Shape = shape
    else:
        items: Iterable[Any] = (shape,)
        if isinstance(shape, Iterable) and type(shape) not in _TEXT and getattr(shape, "ndim", None) != 0:
            items = shape
        result = tuple(as_int(n, operation, "shape") for n in items)
    if result and min(result) < 0:
        raise ShapeError(operation, "shape", got=str(result), expected="non-negative extents")
    if len(result) > MAX_RANK:
        raise ShapeError(operation, "shape", got=f"{len(result)} axes", expected=f"at most {MAX_RANK}")
    return result


def normalize_axis(axis: SupportsIndex, ndim: int, operation: str, argument: str = "axis") -> int:
    """One axis as a non-negative integer below ``ndim``; raises AxisError outside it."""
    result = axis if type(axis) is int else as_int(axis, operation, argument)
    if not -ndim <= result < ndim:
        raise AxisError(
            operation,
            argument,
            got=str(axis),
            expected=f"an integer in [{-ndim}, {ndim})" if ndim else "no axis: the array has rank 0",
        )
    return result + ndim if result < 0 else result


def normalize_axes(
    axis: SupportsIndex | Iterable[SupportsIndex] | None, ndim: int, operation: str, argument: str = "axis"
) -> Shape:
    """None (all axes), an integer or a sequence, as increasing distinct non-negative axes."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (normalize_axis(axis, ndim, operation, argument),)
    result = sorted(normalize_axis(a, ndim, operation, argument) for a in each(axis))
    if len(set(result)) != len(result):
        raise AxisError(operation, argument, got=str(axis), expected="each axis once")
    return tuple(result)


def broadcast_shapes(operation: str, *shapes: Shape) -> Shape:
    """The shape that the given ones broadcast to; raises ShapeError naming all of them.

    >>> broadcast_shapes("add", (3, 1), (4,))
    (3, 4)
    """
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for k in range(-rank, 0):
        extents = {s[k] for s in shapes if len(s) >= -k and s[k] != 1}
        if len(extents) > 1:
            raise ShapeError(
                operation,
                got="shapes " + ", ".join(map(str, shapes)),
                expected=f"extents that are equal or 1 on axis {k}, not {sorted(extents)}",
                remedy="reshape, expand_dims or broadcast_to one of them",
            )
        result.append(extents.pop() if extents else 1)
    return tuple(result)


def concat_offsets(extents: Sequence[int]) -> Shape:
    """Start of each of several extents that lie side by side.

    >>> concat_offsets([2, 3, 1])
    (0, 2, 5)
    """
    return (0, *accumulate(extents[:-1]))


def reduced_shape(shape: Shape, axis: Shape, keepdims: bool) -> Shape:
    """Shape that remains after a reduction over ``axis``."""
    if keepdims:
        return tuple(1 if k in axis else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axis)


def infer_shape(shape: Shape, size: int, operation: str) -> Shape:
    """A target shape with at most one -1 filled in, checked to hold ``size`` entries."""
    unknown = shape.count(-1)
    known_size = -prod(shape) if unknown else prod(shape)
    if unknown > 1 or min(shape, default=0) < -1:
        raise ShapeError(
            operation, "shape", got=str(shape), expected="non-negative extents and at most one -1"
        )
    if unknown and known_size and size % known_size == 0:
        at = shape.index(-1)
        return (*shape[:at], size // known_size, *shape[at + 1 :])
    if unknown or known_size != size:
        raise ShapeError(operation, "shape", got=str(shape), expected=f"a shape that holds {size} entries")
    return shape


def permutation(axes: Sequence[SupportsIndex], ndim: int, operation: str) -> Shape:
    """A full permutation of the axes; raises AxisError if it is not one."""
    result = tuple(normalize_axis(a, ndim, operation, "axes") for a in axes)
    if sorted(result) != list(range(ndim)):
        raise AxisError(operation, "axes", got=str(tuple(axes)), expected=f"each of {ndim} axes once")
    return result


def check_storable(
    shape: Shape, dtype: np.dtype[np.generic], operation: str, argument: str = "shape"
) -> Shape:
    """Return ``shape``; raise ShapeError if a strided array of it would have 2**63 bytes or more."""
    if prod(max(n, 1) for n in shape) * dtype.itemsize >= 2**63:  # NumPy refuses empty ones too
        raise ShapeError(
            operation,
            argument,
            got=f"shape {shape}",
            expected="an array of fewer than 2**63 bytes",
            remedy="use a sparse tensor, which stores what is not 0",
        )
    return shape


def check_choice(value: Any, choices: Sequence[Hashable], operation: str, argument: str) -> None:
    """Raises ArgumentError unless ``value`` is one of ``choices``."""
    try:
        is_choice = value in frozenset(choices)  # by hash: arrays compare entry by entry
    except TypeError:
        is_choice = False
    if not is_choice:
        raise ArgumentError(operation, argument, got=described(value), expected=f"one of {tuple(choices)}")
