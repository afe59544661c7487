"""Argument checks of `iverson.nn`: real arrays, shapes that fit, one number for each spatial axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

from iverson.array_api.conventions.operands import as_inexact, check_kind
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.shapes import Shape, as_int, broadcast_shapes
from iverson.masked import MaskedTensor, masked_tensor
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike

#: A number for all spatial axes, or one for each.
Extents: TypeAlias = SupportsIndex | Sequence[SupportsIndex]


def real(x: A | ArrayLike, operation: str, argument: str = "x") -> A:
    """A real floating operand: integers become the default float. Raises DTypeError for complex numbers."""
    x = as_inexact(x, operation, argument)
    check_kind(x, "f", operation, argument)
    return x


def pair(operation: str, x: A | ArrayLike, target: A | ArrayLike) -> tuple[A, A]:
    """Prediction ``x`` and ``target`` as real arrays; raises ShapeError unless they have the same shape."""
    x, target = real(x, operation), real(target, operation, "target")
    if x.shape != target.shape:
        raise ShapeError(
            operation,
            "target",
            got=f"shape {target.shape} for x of shape {x.shape}",
            expected="the same shape",
            remedy="reshape or broadcast_to one of them",
        )
    return x, target


def alike(operation: str, **arguments: Array | ArrayLike) -> tuple[Any, ...]:
    """Real arrays from the arguments, in their order; raises ShapeError unless their shapes broadcast."""
    arrays = tuple(real(x, operation, argument) for argument, x in arguments.items())
    broadcast_shapes(operation, *(x.shape for x in arrays))
    return arrays


def together(*xs: Array) -> tuple[Any, ...]:
    """Operands with the intersection of their masks, broadcast to one shape; unchanged if none is masked."""
    masks = [x.get_mask() for x in xs if isinstance(x, MaskedTensor)]
    if not masks:
        return xs
    shape = broadcast_shapes("broadcast_to", *(x.shape for x in xs))
    return tuple(reduce(masked_tensor, masks, F.broadcast_to(x, shape=shape)) for x in xs)


def extents(value: Extents, count: int, operation: str, argument: str, least: int = 1) -> Shape:
    """Tuple of ``count`` integers, from one integer for all axes or one for each.

    Raises ArgumentError for an integer below ``least`` or another number of them.
    """
    items = tuple(value) if isinstance(value, (list, tuple)) else (value,) * count
    numbers = tuple(as_int(n, operation, argument) for n in items)
    if len(numbers) != count or any(not least <= n < 2**31 for n in numbers):
        raise ArgumentError(
            operation,
            argument,
            got=str(value),
            expected=f"an integer of at least {least}, or {count} of them, one for each spatial axis",
        )
    return numbers
