"""The compressed layouts of matrices: CSR, CSC, and BSR, BSC, which store blocks. One family of patterns.

Lines (rows in CSR, columns in CSC, lines of blocks in BSR and BSC) follow each other; ``indptr`` says where
each starts, ``indices`` where in its line an entry or block is: increasing, none twice.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from iverson.core.shapes import Shape
from iverson.layouts.pattern import Array, Pattern, Sparse, check, stored, to_strided
from iverson.layouts.registry import Layout, register


class CompressedPattern(Pattern):
    """``indptr`` over lines, ``indices`` within them; ``axis`` 0 compresses rows, 1 columns.

    blocks : the shape of the blocks, or None for single entries.
    """

    __slots__ = ("_source", "axis", "blocks", "indices", "indptr")

    def __init__(
        self, shape: Shape, indptr: Array, indices: Array, axis: int, blocks: tuple[int, int] | None = None
    ) -> None:
        super().__init__(shape, (indices.size, *(blocks or ())))
        self.indptr = indptr
        self.indices = indices
        self.axis = axis
        self.blocks = blocks
        self._source: Any = None

    @property
    def layout(self) -> str:  # type: ignore[override]
        return _NAMES[self.axis, self.blocks is not None]

    @property
    def kind(self) -> type[Sparse]:  # type: ignore[override]
        return KINDS[self.layout]

    @property
    def blocksize(self) -> tuple[int, int] | None:
        return self.blocks

    @property
    def index_dtype(self) -> Any:
        return self.indices.dtype

    @property
    def lines(self) -> Array:
        """The line that each entry or block is in."""
        found: Array = self.once(
            "lines",
            lambda: np.repeat(np.arange(self.indptr.size - 1, dtype=self.index_dtype), np.diff(self.indptr)),
        )
        return found

    def _coordinates(self) -> Array:
        first, second = (self.lines, self.indices) if self.axis == 0 else (self.indices, self.lines)
        if self.blocks is None:
            return np.stack([first, second])
        r, c = self.blocks
        rows = first[:, None, None] * r + np.arange(r, dtype=self.index_dtype)[:, None]
        columns = second[:, None, None] * c + np.arange(c, dtype=self.index_dtype)
        whole = self.stored_shape
        return np.stack([np.broadcast_to(rows, whole).ravel(), np.broadcast_to(columns, whole).ravel()])

    def permuted(self, axes: Shape) -> CompressedPattern:
        if axes == (0, 1):
            return self
        source = None if self._source is None else self._source()
        if source is not None:
            return source  # type: ignore[no-any-return]
        found: CompressedPattern = self.once("transposed", self._transposed)
        return found

    def _transposed(self) -> CompressedPattern:
        blocks = self.blocks[::-1] if self.blocks else None
        made = CompressedPattern(self.shape[::-1], self.indptr, self.indices, 1 - self.axis, blocks)
        made._source = ref(self)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return CompressedPattern, (self.shape, self.indptr, self.indices, self.axis, self.blocks)

    def check(self) -> None:
        sizes = [n // b for n, b in zip(self.shape, self.blocks or (1, 1), strict=True)]
        assert self.shape == tuple(n * b for n, b in zip(sizes, self.blocks or (1, 1), strict=True))
        assert self.indptr.dtype == self.indices.dtype
        assert self.indices.dtype in (np.int32, np.int64)
        assert self.indptr.shape == (sizes[self.axis] + 1,)
        assert self.indptr[0] == 0
        assert self.indptr[-1] == self.indices.size
        assert (np.diff(self.indptr) >= 0).all()
        if self.indices.size:
            assert 0 <= self.indices.min() <= self.indices.max() < sizes[1 - self.axis]
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


_NAMES = {(0, False): "csr", (1, False): "csc", (0, True): "bsr", (1, True): "bsc"}
KINDS: dict[str, type[Sparse]] = {"csr": Csr, "csc": Csc, "bsr": Bsr, "bsc": Bsc}


def _register(name: str, kind: type[Sparse]) -> None:
    register(
        Layout(
            name=name,
            kind=kind,
            to_strided=to_strided,
            check=check,
            region=lambda value: None,
            pattern=lambda value: value.pattern,
            stored=stored,
            buffers=lambda value: (value.values,),
            rebuild=lambda value, buffers: kind(value.pattern, buffers[0]),
            priority=21,
        )
    )


for _name, _kind in KINDS.items():
    _register(_name, _kind)
