"""The packed layout: the entries at which a boolean mask holds, one after the other; all others are zero.

It is the cotangent of picking entries by a mask, as masked tensors do. In `layouts` it imports
`layout_registry` alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.protocols import NDArray
from iverson.core.shapes import Shape
from iverson.layouts.layout_registry import Layout, layout_of, register


class Packed:
    """``values`` where ``mask`` is True, in C order, in an array of zeros of the mask's shape."""

    __slots__ = ("mask", "values")

    def __init__(self, mask: NDArray, values: NDArray) -> None:
        self.mask = mask
        self.values = values

    @property
    def shape(self) -> Shape:
        return self.mask.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def __repr__(self) -> str:
        return f"Packed({self.mask!r}, {self.values!r})"


def _to_strided(value: Packed) -> np.ndarray[Any, Any]:
    result = np.zeros(value.mask.shape, value.values.dtype)
    result[value.mask] = value.values
    return result


def _check(value: Packed) -> None:
    for buffer in (value.mask, value.values):
        layout_of(buffer).check(buffer)
    assert value.mask.dtype == bool
    assert value.values.shape == (np.count_nonzero(value.mask),)


register(
    Layout(
        name="packed",
        kind=Packed,
        to_strided=_to_strided,
        check=_check,
        stored=lambda value: (value.mask, value.values),
        buffers=lambda value: (value.mask, value.values),
        rebuild=lambda value, buffers: Packed(buffers[0], buffers[1]),
        densify_warns=False,
        priority=25,
    )
)
