"""The compressed layouts of matrices: CSR, CSC, and BSR, BSC, which store blocks. One family of patterns.

Lines (rows in CSR, columns in CSC, lines of blocks in BSR and BSC) follow each other; ``indptr`` says where
each starts, ``indices`` where in its line an entry or block is: increasing, none twice. With axes before the
last two, the lines of one matrix follow those of another: each may store as many entries as it has. As in
COO, an entry may be a slice over dense trailing axes of the tensor.

Import rule: in `layouts` it imports `pattern`, `coo`, `placement`, `counting_sorts` and `layout_registry`.

- `arrange`: any pattern as a compressed one, and the records of these layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any
from weakref import ref

import numpy as np

from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.layouts import counting_sorts
from iverson.layouts.coo import CooPattern
from iverson.layouts.pattern import Array, Pattern, Sparse, coordinates_of, read_only


class CompressedPattern(Pattern):
    """Pattern with ``indptr``, the start of each line, and ``indices``, the place of each entry in its line.

    shape : (*batch, rows, columns); the lines of all matrices are numbered through.
    axis : 0 if lines are rows, 1 if lines are columns.
    blocks : the shape of the blocks, or None for single entries.
    """

    __slots__ = (
        "_lines_of_transposed",
        "_source",
        "axis",
        "blocks",
        "indices",
        "indptr",
        "kind",
        "layout",
        "lines_of",
    )

    def __init__(
        self, shape: Shape, indptr: Array, indices: Array, axis: int, blocks: tuple[int, int] | None = None
    ) -> None:
        super().__init__(shape, (indices.size, *(blocks or ())))
        # Never a subclass: an unpickled memory map, say.
        self.indptr, self.indices = read_only(np.asarray(indptr)), read_only(np.asarray(indices))
        self.axis = axis
        self.blocks = blocks
        self.layout = NAMES[axis, blocks is not None]
        self.kind = KINDS[self.layout]
        self._source: Any = None
        #: Of lines taken out of another pattern: that one, which lines, along which axis, and a function that
        #: finds where the entries are there.
        self.lines_of: tuple[ref[Pattern], Array, int, Callable[[], Array]] | None = None
        self._lines_of_transposed: Any = None

    @property
    def blocksize(self) -> tuple[int, int] | None:
        return self.blocks

    @property
    def index_dtype(self) -> Any:
        return self.indices.dtype

    @property
    def by_rows(self) -> bool:
        return self.axis == 0

    @property
    def arrays(self) -> tuple[Array, ...]:
        return self.indptr, self.indices

    @property
    def grid(self) -> tuple[int, int]:
        """Number of rows and number of columns of one matrix, counted in blocks if there are any."""
        r, c = self.blocks or (1, 1)
        return self.shape[-2] // r, self.shape[-1] // c

    @property
    def lines(self) -> Array:
        """Number of the line that each stored entry (or block) is in; numbered through in a batch."""
        numbers: Array = self.once("lines", self._lines)
        return numbers

    def _lines(self) -> Array:
        return counting_sorts.lines_of(self.indptr, np.empty_like(self.indices))

    def _coordinates(self) -> Array:
        """Index of each stored entry along each axis: shape (axes, count), blocks in C order."""
        if self.ndim == 2 and self.blocks is None:
            coordinates = np.empty((2, self.count), self.index_dtype)
            counting_sorts.lines_of(self.indptr, coordinates[self.axis])
            coordinates[1 - self.axis] = self.indices
            return coordinates
        batch, lines = self.shape[:-2], self.lines
        first: list[Array] = []
        if batch:
            matrix, lines = np.divmod(lines, max(self.grid[self.axis], 1))
            first = [*coordinates_of(matrix, batch, self.index_dtype)]
        rows, columns = (lines, self.indices) if self.axis == 0 else (self.indices, lines)
        if self.blocks is None:
            return np.stack([*first, rows, columns])
        r, c = self.blocks
        rows = rows[:, None, None] * r + np.arange(r, dtype=self.index_dtype)[:, None]
        columns = columns[:, None, None] * c + np.arange(c, dtype=self.index_dtype)
        parts = [*(k[:, None, None] for k in first), rows, columns]
        return np.stack([np.broadcast_to(k, self.stored_shape).ravel() for k in parts])

    def along(self, axis: int) -> Array:
        """See `Pattern.along`; indices that are stored for each entry need no coordinates."""
        if self.blocks is not None or self.ndim != 2 or axis == self.axis:
            return super().along(axis)
        return self.indices

    def subset(self, at: Array) -> CompressedPattern:
        if 8 * at.size > self.indices.size:
            indptr = counting_sorts.starts_of(self.lines[at], self.indptr.size - 1)
        else:  # few: the line of each entry is not worth finding out
            indptr = np.searchsorted(at, self.indptr).astype(self.index_dtype)
        return CompressedPattern(self.shape, indptr, self.indices[at], self.axis, self.blocks)

    def within(self, region: Region) -> Pattern:
        """See `Pattern.within`; lines outside of the region are not read."""
        if self.ndim > 2:
            return super().within(region)
        sides = self.blocks or (1, 1)
        (first, last), (low, high) = (
            (region.start[k] // sides[k], -(-region.stop[k] // sides[k])) for k in (self.axis, 1 - self.axis)
        )
        at = np.arange(self.indptr[first], self.indptr[max(first, last)])
        if low > 0 or high < self.grid[1 - self.axis]:
            across = self.indices[at]
            at = at[(across >= low) & (across < high)]
        return self.part(at)

    def lines_along(self, axis: int) -> tuple[Array, Array, Array | slice] | None:
        if self.blocks or (self.ndim != 2 and axis != self.axis):
            return None
        if axis == self.axis:
            return self.indptr, self.indices, slice(None)
        lines: tuple[Array, Array, Array] = self.once("turned", lambda: self._turned(axis))
        return lines

    def _turned(self, axis: int) -> tuple[Array, Array, Array]:
        """Lines along the other ``axis``: starts, indices, and the position of each entry here."""
        conversion = self._facts.get(("converted", NAMES[axis, False], None))
        if conversion is not None:  # found with the entries of a value
            pattern, source = conversion
            return pattern.indptr, pattern.indices, source() if callable(source) else source
        n, m = self.grid[self.axis], self.grid[axis]
        return counting_sorts.turned(n, m, self.indptr, self.indices, np.arange(self.count))

    def find(self, keys: Array) -> tuple[Array, Array]:
        """See `Pattern.find`. Many keys are looked up in their lines, in one pass over all entries."""
        if self.blocks or self.ndim != 2 or 8 * keys.size < self.count:
            return super().find(keys)
        at = self.find_coordinates(np.divmod(keys, max(self.shape[1], 1)))
        there = at >= 0
        at[~there] = 0
        return at, there

    def find_coordinates(self, at: Sequence[Array]) -> Array:
        """Positions of the entries at the given rows ``at[0]`` and columns ``at[1]``; -1 if not stored.

        The pattern must be of one matrix, of single entries.
        """
        n, m = self.grid[self.axis], self.grid[1 - self.axis]
        return counting_sorts.places(n, m, self.indptr, self.indices, at[self.axis], at[1 - self.axis])

    @property
    def in_coo(self) -> CooPattern:
        """The same entries in the same order, in COO."""
        coo: CooPattern = self.once("coo", lambda: CooPattern(self.shape, self.coordinates, True))
        return coo

    def of_entries(self, dense: Shape) -> Pattern:
        """See `Pattern.of_entries`; the result is in COO, or this pattern if ``dense`` is empty."""
        return self.in_coo.of_entries(dense) if dense else self

    def permuted(self, axes: Shape) -> Pattern:
        """See `Pattern.permuted`; compressed where rows and columns change places, else in COO."""
        identity = tuple(range(self.ndim))
        if axes == identity:
            return self
        if axes != (*identity[:-2], identity[-1], identity[-2]):
            return self.in_coo.permuted(axes)
        source = None if self._source is None else self._source()
        transposed: Pattern = self.once("transposed", self._transposed) if source is None else source
        return transposed

    def _transposed(self) -> CompressedPattern:
        blocks = self.blocks[::-1] if self.blocks else None
        *batch, rows, columns = self.shape
        result = CompressedPattern((*batch, columns, rows), self.indptr, self.indices, 1 - self.axis, blocks)
        result._source = ref(self)
        result.lines_of, result._lines_of_transposed = self._lines_of_transposed, self.lines_of
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return self._pickled(self.shape, self.indptr, self.indices, self.axis, self.blocks)

    def check(self) -> None:
        """See `Pattern.check`."""
        grid = self.grid
        assert self.shape[-2:] == tuple(n * b for n, b in zip(grid, self.blocks or (1, 1), strict=True))
        assert self.indptr.dtype == self.indices.dtype
        assert self.indices.dtype in (np.int32, np.int64)
        assert self.indptr.shape == (prod(self.shape[:-2]) * grid[self.axis] + 1,)
        assert self.indptr[0] == 0
        assert self.indptr[-1] == self.indices.size
        assert (np.diff(self.indptr) >= 0).all()
        if self.indices.size:
            assert 0 <= self.indices.min() <= self.indices.max() < grid[1 - self.axis]
            same_line = self.lines[1:] == self.lines[:-1]
            assert (np.diff(self.indices)[same_line] > 0).all()


class Csr(Sparse):
    """Rows of entries."""

    __slots__ = ()


class Csc(Sparse):
    """Columns of entries."""

    __slots__ = ()


class Bsr(Sparse):
    """Rows of blocks."""

    __slots__ = ()


class Bsc(Sparse):
    """Columns of blocks."""

    __slots__ = ()


#: By the axis along which lines are, and whether they hold blocks.
NAMES = {(0, False): "csr", (1, False): "csc", (0, True): "bsr", (1, True): "bsc"}
KINDS: dict[str, type[Sparse]] = {"csr": Csr, "csc": Csc, "bsr": Bsr, "bsc": Bsc}
