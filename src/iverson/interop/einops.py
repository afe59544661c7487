"""Backend of einops: ``import iverson.interop.einops`` makes tensors known to its functions.

einops finds the subclasses of its `AbstractBackend`; this is one. `einops.array_api` needs none of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import iverson as iv
from iverson.core.dispatch import Operand

try:
    from einops._backends import AbstractBackend
except ImportError as error:
    raise ImportError("iverson.interop.einops needs einops: pip install einops") from error


class Backend(AbstractBackend):
    """Backend of einops for plain, sparse and masked tensors, with gradients.

    >>> import einops
    >>> x = iv.ones((2, 3), requires_grad=True)
    >>> einops.reduce(x, "a b -> b", "sum")
    iverson.Tensor([2., 2., 2.], requires_grad=True)
    """

    framework_name = "iverson"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Operand)

    def from_numpy(self, x: Any) -> Any:
        return iv.asarray(x)

    def to_numpy(self, x: Any) -> Any:
        return x.numpy()

    def arange(self, start: int, stop: int) -> Any:
        return iv.arange(start, stop)

    def reduce(self, x: Any, operation: str, axes: Sequence[int]) -> Any:
        return getattr(iv, operation)(x, axis=tuple(axes))

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        return iv.permute_dims(x, tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
        return iv.stack(tensors)

    def tile(self, x: Any, repeats: Sequence[int]) -> Any:
        return iv.tile(x, tuple(repeats))

    def concat(self, tensors: list[Any], axis: int) -> Any:
        return iv.concat(tensors, axis=axis)

    def is_float_type(self, x: Any) -> bool:
        return bool(iv.isdtype(x.dtype, ("real floating", "complex floating")))

    def add_axis(self, x: Any, new_position: int) -> Any:
        return iv.expand_dims(x, axis=new_position)

    def einsum(self, pattern: str, *x: Any) -> Any:
        return iv.einsum(pattern, *x)


__all__ = ["Backend"]
