"""Checks of the bridges to array libraries and files: tensors that leave, and arrays that come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iverson.core import dtypes
from iverson.core.dispatch import Wrapper, is_tracked
from iverson.core.errors import ArgumentTypeError, DTypeError, GradientError, described
from iverson.core.protocols import DType, NDArray
from iverson.handles import Tensor, asarray

if TYPE_CHECKING:
    import torch

    from iverson.handles.array import Array
    from iverson.handles.typing import ArrayLike


def leaving(x: Array, operation: str) -> Tensor:
    """The tensor ``x``, checked before it is given to another library.

    Raises ArgumentTypeError if ``x`` is not a Tensor, GradientError if it tracks gradients.
    """
    if not isinstance(x, Tensor):
        masked = isinstance(x, Wrapper)
        remedy = "fill what is masked: x.to_tensor(0.0)" if masked else "call iverson.asarray first"
        raise ArgumentTypeError(operation, "x", got=described(x), expected="a Tensor", remedy=remedy)
    if is_tracked(x):
        raise GradientError(
            operation,
            "x",
            got="a tensor that tracks gradients",
            remedy="call x.detach() first, or have a whole function differentiated: wrap(f)",
        )
    return x


def supported(array: NDArray | None, dtype: DType | torch.dtype, operation: str) -> NDArray:
    """The ``array``, if Iverson has its dtype; raises DTypeError otherwise, and if ``array`` is None.

    dtype : the dtype of the other library, for the message.
    """
    if array is None or not dtypes.is_known(array.dtype):
        raise DTypeError(
            operation,
            "x",
            got=f"dtype {dtype}",
            expected=dtypes.EXPECTED,
            remedy="convert it to float32 first",
        )
    return array


def closed_over() -> GradientError:
    """GradientError for a wrapped function whose result depends on tracked tensors that are not its
    arguments.

    The error is returned, not raised.
    """
    return GradientError(
        "wrap",
        "function",
        got="a result that depends on a tensor that tracks gradients and is no argument",
        expected="a function of its arguments: no gradient would reach that tensor",
        remedy="pass it as an argument, or call detach() on it",
    )


def returned(x: Array | ArrayLike) -> Tensor:
    """Result of a wrapped function as a Tensor; raises ArgumentTypeError if it is masked."""
    if isinstance(x, Wrapper):
        raise ArgumentTypeError(
            "wrap", "function", got="a masked tensor", expected="tensors", remedy="return x.to_tensor(0.0)"
        )
    return asarray(x)
