"""Spy plots, of the entries of a tensor that may be nonzero or that exist: for `x.spy()` and notebooks.

A picture is a grid of at most `SIDE` x `SIDE` cells, and is made of at most `MOST` entries: of a large
pattern, one from each of as many stretches of equal length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.entries import Box, Entries, Full, Nothing, Stored
from iverson.core.shapes import Shape
from iverson.layouts.pattern import addresses

if TYPE_CHECKING:
    from pathlib import Path

    from iverson.layouts import Pattern

Array = np.ndarray[Any, Any]

SIDE = 48
MOST = 2**14
#: Shades of a cell by how much of it is filled, as characters and as opacities.
_SHADES, _OPACITIES = " .:*#", (0.0, 0.35, 0.55, 0.75, 1.0)
#: Pixels of a cell, of one of a small picture, and of a small picture.
_PIXELS, _LARGEST, _SMALL = 4, 16, 96


@dataclass(frozen=True, eq=False)
class Picture:
    """A grid of cells, each with the share of its entries that is there: notebooks draw it.

    ``print(picture)`` draws it with characters.

    Attributes
    ----------
    shape : of the tensor. Axes before the last are the rows of the picture, one after the other.
    cells : the shares, between 0 and 1.
    """

    shape: Shape
    cells: Array

    @property
    def svg(self) -> str:
        """The picture as one ``svg`` element, in the colour of the text around it."""
        rows, columns = self.cells.shape
        height, width = max(rows, 1), max(columns, 1)
        pixels = max(_PIXELS, min(_LARGEST, _SMALL // max(height, width)))
        size = f'width="{width * pixels}" height="{height * pixels}" viewBox="0 0 {width} {height}"'
        shades = self._shades()
        parts = [
            f'<svg {size} role="img" style="border:1px solid" fill="currentColor">',
            f"<title>entries of a tensor of shape {self.shape}</title>",
        ]
        for shade, opacity in enumerate(_OPACITIES):
            path = "".join(_runs(shades == shade)) if shade else ""
            if path:
                parts.append(f'<path opacity="{opacity}" d="{path}"/>')
        return "".join([*parts, "</svg>"])

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the picture into an SVG file, whose path it returns."""
        from pathlib import Path

        where = Path(path)
        namespace = '<svg xmlns="http://www.w3.org/2000/svg"'
        where.write_text(self.svg.replace("<svg", namespace, 1), encoding="utf-8")
        return where

    def _shades(self) -> Array:
        """Shade of each cell: 0 if it is empty, else 1 to 4 by the quarter of its share, so that 4 is above
        3/4.
        """
        shades: Array = np.ceil(np.clip(self.cells, 0, 1) * (len(_OPACITIES) - 1)).astype(int)
        return shades

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        edge = f"+{'-' * self.cells.shape[1]}+"
        lines = ["|" + "".join(_SHADES[k] for k in row) + "|" for row in self._shades()]
        return "\n".join([edge, *lines, edge])


def _runs(where: Array) -> list[str]:
    """SVG path commands for the cells that are True: a rectangle for each run of them in a row."""
    rectangles = []
    for y, row in enumerate(where.tolist()):
        x = 0
        for is_filled, run in groupby(row):
            length = len(list(run))
            if is_filled:
                rectangles.append(f"M{x},{y}h{length}v1h-{length}z")
            x += length
    return rectangles


def of_entries(entries: Entries, shape: Shape) -> Picture | None:
    """Picture of a support, of a tensor of ``shape``; None if the support does not say where entries are
    zero.
    """
    if isinstance(entries, Nothing):
        return Picture(shape, np.zeros([-(-n // _step(n)) for n in _matrix(shape)]))
    if isinstance(entries, Full):
        return Picture(shape, np.ones([-(-n // _step(n)) for n in _matrix(shape)]))
    if isinstance(entries, Box):
        return _of_box(entries.region.start, entries.region.stop, shape)
    if isinstance(entries, Stored):
        return of_pattern(entries.pattern)
    return None


def of_pattern(pattern: Pattern) -> Picture:
    """Picture of the entries that a pattern stores, over the axes of the pattern; dense trailing axes are
    left out.
    """
    every = -(-pattern.count // MOST)
    sample = pattern
    if every > 1:  # at random within its stretch: equal distances would meet a regular pattern in its rhythm
        first = np.arange(0, pattern.stored_shape[0] - every + 1, every)
        sample = pattern.subset(first + np.random.default_rng(0).integers(0, every, first.size))
    shape = pattern.shape
    coordinates = sample.coordinates
    columns = coordinates[-1] if shape else np.zeros(coordinates.shape[1], np.int64)
    rows = addresses(coordinates[:-1], shape[:-1]) if len(shape) > 1 else np.zeros(columns.size, np.int64)
    weight = pattern.count / sample.count if sample.count else 1.0
    return Picture(shape, _binned(rows, columns, _matrix(shape), weight))


def of_array(there: Array) -> Picture:
    """Picture of the entries at which a boolean array is True; of a large array, a regular sample is
    drawn.
    """
    rows, columns = _matrix(there.shape)
    every = [max(1, _step(n) * SIDE**2 // MOST) for n in (rows, columns)]
    sample = there.reshape(rows, columns)[:: every[0], :: every[1]]
    at = np.nonzero(sample)
    shares = _binned(at[0] * every[0], at[1] * every[1], (rows, columns), float(prod(every)))
    return Picture(there.shape, shares)


def _of_box(start: Sequence[int], stop: Sequence[int], shape: Shape) -> Picture:
    """Picture of the box from ``start`` to ``stop`` in a tensor of ``shape``.

    The share of a cell is the product of the shares along its rows and its columns.
    """
    if not shape:
        return Picture(shape, np.ones((1, 1)))
    rows, columns = _matrix(shape)
    first = np.arange(0, rows, max(1, rows // MOST))
    at = np.unravel_index(first, shape[:-1]) if len(shape) > 1 else ()
    inside = np.ones(first.size, bool)
    for k, index in enumerate(at):
        inside &= (index >= start[k]) & (index < stop[k])
    last = np.arange(0, columns, max(1, columns // MOST))
    along = (last >= start[-1]) & (last < stop[-1])
    shares = []
    for index, there, extent in ((first, inside, rows), (last, along, columns)):
        cells = index // _step(extent)
        count = np.bincount(cells, minlength=-(-extent // _step(extent)))
        shares.append(np.bincount(cells, weights=there, minlength=count.size) / np.maximum(count, 1))
    return Picture(shape, np.outer(*shares))


def _matrix(shape: Shape) -> tuple[int, int]:
    """Number of rows and columns of a picture: the axes before the last make the rows."""
    return prod(shape[:-1]), shape[-1] if shape else 1


def _step(extent: int) -> int:
    """Number of rows (or columns) of the tensor that one cell of the picture covers."""
    return max(1, -(-extent // SIDE))


def _binned(rows: Array, columns: Array, extents: tuple[int, int], weight: float) -> Array:
    """Share of each cell that is covered by sampled entries.

    rows, columns : positions of the samples. weight : the number of entries that each sample stands for.
    """
    steps = [_step(n) for n in extents]
    height, width = (-(-n // step) for n, step in zip(extents, steps, strict=True))
    cells = rows // steps[0] * width + columns // steps[1]
    counts = np.bincount(cells, minlength=height * width).reshape(height, width)
    sides = zip(extents, steps, (height, width), strict=True)
    sizes = np.outer(*(np.minimum(step, n - step * np.arange(k)) for n, step, k in sides))
    return np.minimum(counts * weight / sizes, 1.0)
