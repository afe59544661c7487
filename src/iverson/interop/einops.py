"""Backend of einops: ``import iverson.interop.einops`` makes tensors known to its functions.

einops finds the subclasses of its `AbstractBackend`; this is one. `einops.array_api` needs none of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import iverson as iv
from iverson.core.dispatch import Operand
from iverson.core.protocols import NDArray
from iverson.handles import Tensor

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike

try:
    from einops._backends import AbstractBackend
except ImportError as error:
    raise ImportError("iverson.interop.einops needs einops: pip install einops") from error


#: An object of any type, of which einops asks whether it is a tensor.
T = TypeVar("T")


class Backend(AbstractBackend):
    """Backend of einops for plain, sparse and masked tensors, with gradients.

    >>> import einops
    >>> x = iv.ones((2, 3), requires_grad=True)
    >>> einops.reduce(x, "a b -> b", "sum")
    iverson.Tensor([2., 2., 2.], requires_grad=True)
    """

    framework_name = "iverson"

    def is_appropriate_type(self, tensor: T) -> bool:
        return isinstance(tensor, Operand)

    def from_numpy(self, x: ArrayLike) -> Tensor:
        return iv.asarray(x)

    def to_numpy(self, x: Tensor) -> NDArray:
        return x.numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        return iv.arange(start, stop)

    def reduce(self, x: A, operation: str, axes: Sequence[int]) -> A:
        result: A = getattr(iv, operation)(x, axis=tuple(axes))
        return result

    def transpose(self, x: A, axes: Sequence[int]) -> A:
        return iv.permute_dims(x, tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: list[A]) -> A:
        return iv.stack(tensors)

    def tile(self, x: A, repeats: Sequence[int]) -> A:
        return iv.tile(x, tuple(repeats))

    def concat(self, tensors: list[A], axis: int) -> A:
        return iv.concat(tensors, axis=axis)

    def is_float_type(self, x: Array) -> bool:
        return bool(iv.isdtype(x.dtype, ("real floating", "complex floating")))

    def add_axis(self, x: A, new_position: int) -> A:
        return iv.expand_dims(x, axis=new_position)

    def einsum(self, pattern: str, *x: A) -> A:
        return iv.einsum(pattern, *x)


__all__ = ["Backend"]
