"""Sparse-sparse products at the entries of a third matrix, by the terms that these have and no others.

out[i, k] = sum over j of a[i, j] b[j, k], for the (i, k) of a pattern: a term is an entry of each of the
three that meet. A walk (`entry_loops.sampled`) goes over the entries of one matrix, V, by lines u, and for
each over line s of another, L, with line u of the third, W, spread out along w; u, s, w are i, j, k in any
order. Its steps are the pairs of entries of V and L that share s; the two orders of u and w differ in which
matrices have to be transposed first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from iverson.core.counting import work
from iverson.core.protocols import DType
from iverson.layouts import CompressedPattern, Pattern, Sparse, counting_sorts
from iverson.layouts.placement import converted, reordered

Array = np.ndarray[Any, Any]
#: Steps and entries from which a compiled walk pays.
WORTHWHILE = 1 << 13
_LAYOUTS = ("csr", "csc")


@dataclass(frozen=True)
class Operand:
    """One of the three matrices: its pattern, the names of its axes, its entries (None for the result)."""

    pattern: Pattern
    axes: str
    entries: Array | None = None

    def has_lines(self, along: str) -> bool:
        """True if the entries are known in lines: CSR, if ``along`` is the first axis, or else CSC."""
        layout = _LAYOUTS[self.axes.index(along)]
        return self.pattern.layout == layout or ("converted", layout, None) in self.pattern._facts

    def lines(self, along: str) -> tuple[CompressedPattern, Any]:
        pattern, source = converted(self.pattern, _LAYOUTS[self.axes.index(along)])
        assert isinstance(pattern, CompressedPattern)
        return pattern, source

    def counts(self, along: str) -> Array:
        """Number of entries of each line along an axis."""
        if self.has_lines(along):
            return np.diff(self.lines(along)[0].indptr)
        axis = self.axes.index(along)
        result: Array = self.pattern.once(("counts", axis), lambda: self._counted(axis))
        return result

    def _counted(self, axis: int) -> Array:
        return np.bincount(self.pattern.coordinates[axis], minlength=self.pattern.shape[axis])


def product_at(a: Sparse, b: Sparse, pattern: Pattern) -> Any:
    """Entries of ``a @ b`` at ``pattern``; NotImplemented if a walk does not pay or is not possible.

    a, b : matrices with entries stored once.
    """
    three = Operand(a.pattern, "ij", a.entries), Operand(b.pattern, "jk", b.entries), Operand(pattern, "ik")
    entries = sum(x.pattern.count for x in three)
    extents = pattern.shape + a.shape
    if a.dtype != b.dtype or a.dtype.kind != "f" or not pattern.distinct:
        return NotImplemented
    if not counting_sorts.worth_counting(entries, *extents):
        return NotImplemented
    steps, walk = chosen(three)
    if steps + entries < WORTHWHILE:
        return NotImplemented
    if work.active.count:
        work.sparse_product(steps)
    return walked(three, walk, a.dtype)


def chosen(three: tuple[Operand, Operand, Operand]) -> tuple[int, str]:
    """Number of steps of the shortest walk, and its axes u, s and w as a string of three letters.

    Among equally short walks, the one that has to transpose the fewest entries is chosen.
    """
    entries = sum(x.pattern.count for x in three)
    steps: dict[str, int] = {}
    for axis in sorted("ijk", key=lambda s: sum(not x.has_lines(s) for x in three if s in x.axes)):
        first, second = (x.counts(axis) for x in three if axis in x.axes)
        steps[axis] = int(np.dot(first.astype(np.int64), second))
        if steps[axis] <= entries:  # counting those of others may take as long
            break
    least = min(steps.values())
    walks = [walk for walk in map("".join, permutations("ijk")) if steps.get(walk[1]) == least]
    return least, min(walks, key=lambda walk: _turned(three, walk))


def _roles(three: tuple[Operand, Operand, Operand], walk: str) -> list[tuple[Operand, str]]:
    """Matrices W, V and L of a walk, each with the axis along which its lines are walked."""
    u, s, w = tuple(walk)
    by_axes = {frozenset(x.axes): x for x in three}
    return [(by_axes[frozenset(axes)], axes[0]) for axes in (u + w, u + s, s + w)]


def _turned(three: tuple[Operand, Operand, Operand], walk: str) -> int:
    return sum(x.pattern.count for x, along in _roles(three, walk) if not x.has_lines(along))


def walked(three: tuple[Operand, Operand, Operand], walk: str, dtype: DType) -> Array:
    """Entries of the result, in the order of its pattern, by the walk with the axes ``walk`` (u, s and w)."""
    from iverson.kernels.sparse import entry_loops

    u, _, w = tuple(walk)
    extent = {name: n for x in three for name, n in zip(x.axes, x.pattern.shape, strict=True)}
    roles = _roles(three, walk)
    lines = [x.lines(along) for x, along in roles]
    index = np.result_type(*(p.indices for p, _ in lines))
    arrays: list[Array] = []
    for (x, _), (pattern, source) in zip(roles, lines, strict=True):
        entries = np.zeros(pattern.count, dtype) if x.entries is None else reordered(x.entries, source)
        starts = (a.astype(index, copy=False) for a in (pattern.indptr, pattern.indices))
        arrays += [*starts, np.ascontiguousarray(entries)]
    result = next(n for n, (x, _) in enumerate(roles) if x.entries is None)
    kernel = entry_loops.sampled(dtype, index, "WVL"[result])
    kernel(*arrays, np.zeros(extent[w], dtype), n=extent[u])
    return _in_order(arrays[3 * result + 2], lines[result][1])


def _in_order(entries: Array, source: Array | slice | None) -> Array:
    """Entries of a result in the order of its own pattern, from ``entries`` in the order of its lines.

    source : for each entry in lines, its position in the pattern; None or a slice if the order is the same.
    """
    if source is None or isinstance(source, slice):
        return entries
    out = np.empty_like(entries)
    out[source] = entries
    return out
