"""Shape functions, which move entries and change none."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from iverson.array_api.conventions.methods import method, variadic_method
from iverson.array_api.conventions.operands import as_operand, as_operands, as_tuple
from iverson.core.dispatch import value_of
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.shapes import (
    Shape,
    as_int,
    as_ints,
    as_shape,
    infer_shape,
    normalize_axes,
    normalize_axis,
    permutation,
)
from iverson.core.shapes import broadcast_shapes as _broadcast_shapes
from iverson.handles.views import moved_part
from iverson.layouts import is_strided
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axes, Axis, ShapeLike


@variadic_method
def reshape(x: A | ArrayLike, /, shape: ShapeLike, *, copy: bool | None = None) -> A:
    """The same entries in another shape, in row-major order; one extent may be -1.

    ``copy=True`` gives new memory, ``copy=False`` raises ArgumentError where memory cannot be shared.
    Raises ShapeError for a shape of another size.

    >>> from iverson import arange
    >>> reshape(arange(4), (2, -1))
    iverson.Tensor([[0, 1],
                    [2, 3]])
    """
    x = as_operand(x, "reshape")
    new_shape = infer_shape(as_ints(shape, "reshape", "shape"), prod(x.shape), "reshape")
    if copy is False and is_strided(value := value_of(x, None)):
        try:
            np.reshape(value, new_shape, copy=False)
        except ValueError:
            raise ArgumentError(
                "reshape", "copy", got="False", expected="True or None: these strides must be copied"
            ) from None
    return F.reshape(F.copy(x), shape=new_shape) if copy else _reshaped(x, new_shape)


def _reshaped(x: Array, shape: Shape) -> Any:
    return moved_part(x, "reshape", {"shape": shape})


def as_vector(x: Array | ArrayLike, operation: str) -> Any:
    """Entries of ``x`` in row-major order as a vector; writes into it go into ``x``."""
    x = as_operand(x, operation)
    return x if x.ndim == 1 else _reshaped(x, (x.size,))


@method
def flatten(x: A | ArrayLike, /) -> A:
    """The entries in row-major order, as a vector of its own: a write into it is none into x, as in NumPy.

    >>> from iverson import asarray
    >>> flatten(asarray([[1., 2.], [3., 4.]]))
    iverson.Tensor([1., 2., 3., 4.])
    """
    x = as_operand(x, "flatten")
    return F.reshape(x, shape=(x.size,))


@method
def ravel(x: A | ArrayLike, /) -> A:
    """The entries in row-major order, as a vector. As with `reshape`, a write into it is one into x.

    >>> from iverson import asarray
    >>> ravel(asarray([[1., 2.], [3., 4.]]))
    iverson.Tensor([1., 2., 3., 4.])
    """
    return as_vector(x, "ravel")


@method
def clone(x: A | ArrayLike, /) -> A:
    """A copy of x. Gradients pass through it.

    >>> from iverson import asarray
    >>> clone(asarray([1., 2.]))
    iverson.Tensor([1., 2.])
    """
    return F.copy(as_operand(x, "clone"))


@variadic_method
def permute_dims(x: A | ArrayLike, /, axes: ShapeLike) -> A:
    """x with its axes in the given order. Raises AxisError unless ``axes`` names each axis once.

    >>> from iverson import zeros
    >>> permute_dims(zeros((1, 2, 3)), (2, 0, -2)).shape
    (3, 1, 2)
    """
    x = as_operand(x, "permute_dims")
    return moved_part(x, "permute_dims", {"axes": permutation(as_tuple(axes), x.ndim, "permute_dims")})


@method
def transpose(x: A | ArrayLike, /, axes: ShapeLike | None = None) -> A:
    """x with its axes in the order ``axes``, by default reversed, as in NumPy.

    PyTorch's, which exchanges two axes, is `permute_dims`, or `matrix_transpose` for the last two. Raises
    AxisError unless ``axes`` names each axis once.

    >>> from iverson import zeros
    >>> transpose(zeros((1, 2, 3))).shape, transpose(zeros((1, 2, 3)), (2, 0, 1)).shape
    ((3, 2, 1), (3, 1, 2))
    """
    x = as_operand(x, "transpose")
    order = range(x.ndim)[::-1] if axes is None else permutation(as_tuple(axes), x.ndim, "transpose")
    return moved_part(x, "permute_dims", {"axes": tuple(order)})


@method
def matrix_transpose(x: A | ArrayLike, /) -> A:
    """The last two axes exchanged. Raises ShapeError for fewer than two axes.

    >>> from iverson import zeros
    >>> matrix_transpose(zeros((4, 2, 3))).shape
    (4, 3, 2)
    """
    x = as_operand(x, "matrix_transpose")
    if x.ndim < 2:
        raise ShapeError("matrix_transpose", "x", got=f"shape {x.shape}", expected="at least two axes")
    return x.mT


@method
def moveaxis(x: A | ArrayLike, source: ShapeLike, destination: ShapeLike, /) -> A:
    """x with the ``source`` axes at the ``destination`` positions, the others in their order.

    Raises AxisError for axes outside x or named twice, ArgumentError where the two differ in number.

    >>> from iverson import zeros
    >>> moveaxis(zeros((1, 2, 3)), 0, -1).shape
    (2, 3, 1)
    """
    x = as_operand(x, "moveaxis")
    axes_of = {}
    for argument, axes in (("source", source), ("destination", destination)):
        numbers = [normalize_axis(a, x.ndim, "moveaxis", argument) for a in as_tuple(axes)]
        normalize_axes(numbers, x.ndim, "moveaxis", argument)
        axes_of[argument] = numbers
    if len(axes_of["source"]) != len(axes_of["destination"]):
        raise ArgumentError(
            "moveaxis",
            "destination",
            got=f"{len(axes_of['destination'])} axes",
            expected=f"{len(axes_of['source'])}, one for each in source",
        )
    order = [k for k in range(x.ndim) if k not in axes_of["source"]]
    for target, axis in sorted(zip(axes_of["destination"], axes_of["source"], strict=True)):
        order.insert(target, axis)
    return moved_part(x, "permute_dims", {"axes": tuple(order)})


@method
def swapaxes(x: A | ArrayLike, axis1: Axis, axis2: Axis, /) -> A:
    """x with two axes exchanged. Raises AxisError for axes outside x.

    >>> from iverson import zeros
    >>> swapaxes(zeros((1, 2, 3)), 0, -1).shape
    (3, 2, 1)
    """
    x = as_operand(x, "swapaxes")
    first, second = (
        normalize_axis(axis, x.ndim, "swapaxes", argument)
        for axis, argument in ((axis1, "axis1"), (axis2, "axis2"))
    )
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return moved_part(x, "permute_dims", {"axes": tuple(order)})


@method
def expand_dims(x: A | ArrayLike, /, axis: ShapeLike = 0) -> A:
    """x with new axes of extent 1 at the given positions of the result (an integer or a tuple).

    Raises AxisError for positions outside the result or named twice.

    >>> from iverson import zeros
    >>> expand_dims(zeros((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    x = as_operand(x, "expand_dims")
    ndim = x.ndim + len(as_tuple(axis))
    axes = normalize_axes(axis, ndim, "expand_dims")
    return moved_part(x, "expand_dims", {"axis": axes})


@method
def squeeze(x: A | ArrayLike, /, axis: Axes = None) -> A:
    """x without the given axes of extent 1 (None: without all of them).

    Raises AxisError for axes outside x, ShapeError for an axis of another extent.

    >>> from iverson import zeros
    >>> squeeze(zeros((1, 2, 1)), 0).shape
    (2, 1)
    """
    x = as_operand(x, "squeeze")
    if axis is None:
        axis = tuple(k for k, n in enumerate(x.shape) if n == 1)
    axes = normalize_axes(axis, x.ndim, "squeeze")
    return moved_part(x, "squeeze", {"axis": axes})


def broadcast_shapes(*shapes: Sequence[SupportsIndex]) -> Shape:
    """The shape that shapes broadcast to; () for none. Raises ShapeError where they do not fit.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return _broadcast_shapes("broadcast_shapes", *(as_shape(s, "broadcast_shapes") for s in shapes))


@variadic_method
def broadcast_to(x: A | ArrayLike, /, shape: ShapeLike) -> A:
    """x repeated along new axes and axes of extent 1; an extent of -1 is that of x.

    Raises ShapeError where x does not fit the shape.

    >>> from iverson import arange
    >>> broadcast_to(arange(2), (2, 2))
    iverson.Tensor([[0, 1],
                    [0, 1]])
    """
    x = as_operand(x, "broadcast_to")
    sizes = as_ints(shape, "broadcast_to", "shape")
    new = len(sizes) - x.ndim  # axes that x has not
    extents = (x.shape[k - new] if k >= new and n == -1 else n for k, n in enumerate(sizes))
    return F.broadcast_to(x, shape=as_shape(tuple(extents), "broadcast_to"))


def broadcast_arrays(*arrays: A | ArrayLike) -> tuple[A, ...]:
    """All arrays broadcast to one shape. Raises ShapeError where they do not fit.

    >>> from iverson import zeros
    >>> [x.shape for x in broadcast_arrays(zeros((2, 1)), zeros(3))]
    [(2, 3), (2, 3)]
    """
    xs = as_operands(arrays, "broadcast_arrays") if arrays else []
    shape = _broadcast_shapes("broadcast_arrays", *(x.shape for x in xs))
    return tuple(F.broadcast_to(x, shape=shape) for x in xs)


@method
def flip(x: A | ArrayLike, /, *, axis: Axes = None) -> A:
    """x with the order of entries reversed along axes (None: all). Raises AxisError.

    >>> from iverson import arange
    >>> flip(arange(3))
    iverson.Tensor([2, 1, 0])
    """
    x = as_operand(x, "flip")
    params = {"axis": normalize_axes(axis, x.ndim, "flip")}
    return moved_part(x, "flip", params)


@method
def roll(x: A | ArrayLike, /, shift: ShapeLike, *, axis: Axes = None) -> A:
    """x with entries moved round by ``shift`` places along axes (None: along the flattened array).

    ``shift`` and ``axis`` are integers or tuples of one length (an integer shift serves all axes).
    Raises AxisError, ArgumentError where lengths differ.

    >>> from iverson import arange
    >>> roll(arange(4), 1)
    iverson.Tensor([3, 0, 1, 2])
    """
    x = as_operand(x, "roll")
    if axis is None:
        shifts = as_int(shift, "roll", "shift")
        flat = F.roll(as_vector(x, "roll"), shift=(shifts,), axis=(0,))
        return F.reshape(flat, shape=x.shape)
    axes = tuple(normalize_axis(a, x.ndim, "roll") for a in as_tuple(axis))
    shifts_by_axis = as_ints(shift, "roll", "shift")
    if len(shifts_by_axis) == 1:
        shifts_by_axis *= len(axes)
    if len(shifts_by_axis) != len(axes):
        raise ArgumentError(
            "roll", "shift", got=f"{len(shifts_by_axis)} of them", expected=f"{len(axes)}, one for each axis"
        )
    total = dict.fromkeys(axes, 0)
    for a, s in zip(axes, shifts_by_axis, strict=True):
        total[a] += s
    return F.roll(x, shift=tuple(total.values()), axis=tuple(total))


@method
def diagonal(x: A | ArrayLike, /, *, offset: SupportsIndex = 0) -> A:
    """The ``offset``-th diagonals of the matrices in the last two axes, as the last axis.

    Raises ShapeError for fewer than two axes.

    >>> from iverson import arange, reshape
    >>> diagonal(reshape(arange(6), (2, 3)), offset=1)
    iverson.Tensor([1, 5])
    """
    x = as_operand(x, "diagonal")
    if x.ndim < 2:
        raise ShapeError("diagonal", "x", got=f"shape {x.shape}", expected="at least two axes")
    return F.diagonal(x, offset=as_int(offset, "diagonal", "offset"))


__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "clone",
    "diagonal",
    "expand_dims",
    "flatten",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "roll",
    "squeeze",
    "swapaxes",
    "transpose",
]
