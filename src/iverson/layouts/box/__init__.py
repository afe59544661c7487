"""The box layout: an offset and a smaller tensor; all entries outside the box are zero.

It is the cotangent of basic indexing, split, unstack and concat. In `layouts` it imports `coo`,
`layout_registry` and `zero`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import entries
from iverson.core.protocols import LayoutValue, NDArray
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.layouts.coo import CooPattern, of_nonzeros
from iverson.layouts.layout_registry import Layout, layout_of, register
from iverson.layouts.zero import Zero


class Box:
    """``inner`` placed with its first corner at ``region.start`` in an array of zeros of ``shape``."""

    __slots__ = ("inner", "region", "shape")

    def __init__(self, shape: Shape, region: Region, inner: LayoutValue) -> None:
        self.shape = shape
        self.region = region
        self.inner: Any = inner

    @property
    def dtype(self) -> Any:
        return self.inner.dtype

    def __repr__(self) -> str:
        return f"Box({self.shape}, {self.region}, {self.inner!r})"

    def read(self, region: Region) -> np.ndarray[Any, Any]:
        """The entries of the array at ``region``, as a strided array.

        The result is a view if ``region`` lies inside the box, else new memory with zeros outside of the box.
        """
        common = region.intersect(self.region)
        part: NDArray = self.inner[common.within(self.region).slices]
        if common == region:
            return part
        result = np.zeros(region.shape, self.dtype)
        if common.size:
            result[common.within(region).slices] = part
        return result


def boxed(shape: Shape, region: Region, inner: NDArray) -> Any:
    """A box; `Zero` if the region is empty, the inner array if the region covers the shape."""
    if not region.size:
        return Zero(shape, inner.dtype)
    return inner if region.covers(shape) else Box(shape, region, inner)


def _to_strided(value: Box) -> np.ndarray[Any, Any]:
    return value.read(Region.full(value.shape))


def _check(value: Box) -> None:
    layout_of(value.inner).check(value.inner)
    assert value.inner.shape == value.region.shape
    assert len(value.region.start) == len(value.shape)
    assert all(
        0 <= a <= b <= n for a, b, n in zip(value.region.start, value.region.stop, value.shape, strict=True)
    )


def _to_coo(value: Box) -> Any:
    """The entries that are not 0, at their places in the whole."""
    inner = of_nonzeros(value.inner)
    start = np.array(value.region.start, np.int64)[:, None]
    return CooPattern.of_indices(inner.pattern.indices + start, value.shape).value(inner.entries)


register(
    Layout(
        name="box",
        kind=Box,
        to_strided=_to_strided,
        check=_check,
        support=lambda value: entries.Box(value.region) if value.region.size else entries.NOTHING,
        stored=lambda value: (value.region.slices, value.inner),
        buffers=lambda value: (value.inner,),
        rebuild=lambda value, buffers: Box(value.shape, value.region, buffers[0]),
        to_coo=_to_coo,
        densify_warns=False,
        priority=5,
    )
)
