"""The zero layout: an empty support. Shape and dtype, no storage.

It is a gradient that never arrived, and the constant that annihilates its products. In `layouts` it imports
`coo`, `pattern` and `layout_registry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.entries import NOTHING
from iverson.core.shapes import Shape
from iverson.layouts.coo import CooPattern
from iverson.layouts.layout_registry import Layout, register
from iverson.layouts.pattern import index_dtype

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class Zero:
    """An array of structural zeros.

    stored : the pattern that the array would have if its zeros were numbers, or the origin of that pattern
        (`iverson.kernels.deferred_patterns`): for a product of a sparse tensor and a zero, the pattern of the
        sparse tensor. None if it would not be sparse.
    """

    __slots__ = ("dtype", "shape", "stored")

    def __init__(self, shape: Shape, dtype: DTypeLike, stored: Any = None) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.stored = stored

    def __repr__(self) -> str:
        return f"Zero({self.shape}, {self.dtype})"


def _check(value: Zero) -> None:
    assert isinstance(value.shape, tuple)
    assert all(n >= 0 for n in value.shape)


def _to_coo(value: Zero) -> Any:
    pattern = CooPattern.of_keys(np.zeros(0, np.int64), value.shape, index_dtype(*value.shape))
    return pattern.value(np.zeros(0, value.dtype))


register(
    Layout(
        name="zero",
        kind=Zero,
        to_strided=lambda value: np.zeros(value.shape, value.dtype),
        check=_check,
        support=lambda value: NOTHING,
        buffers=lambda value: (),
        rebuild=lambda value, buffers: Zero(value.shape, value.dtype, value.stored),
        to_coo=_to_coo,
        densify_warns=False,
        priority=0,
    )
)
