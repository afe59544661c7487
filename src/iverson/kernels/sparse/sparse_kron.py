"""Kronecker products of sparse values: an entry for each pair of stored entries, placed without a sort.

In lines (rows of CSR, columns of CSC), line (i, k) of the result holds, for each entry p of line i of a, line
k of b: the place of an entry follows from where these lines start. The places are kept on the patterns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from iverson.core.op import Op
from iverson.core.protocols import DType, LayoutValue, Params
from iverson.core.shapes import Shape
from iverson.kernels.kernel_registry import Values, register
from iverson.kernels.sparse.sparse_operands import is_sparse, read, sparse, sparse_only
from iverson.layouts import Box, CompressedPattern, CooPattern, Pattern, coalesced, to_strided
from iverson.layouts.pattern import coordinates_of, index_dtype
from iverson.layouts.placement import Source, converted
from iverson.layouts.weak_tables import ForOthers

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pattern of a Kronecker product, and the place in it of each product of an entry of a and one of b.

    Entries of a have numbers p, entries of b numbers q.

    counts : the number of entries of a and of b.
    at : the place by p and q, in memory with the longer of the two running fastest; None if the pattern has
        the products in row-major order of (p, q).
    """

    pattern: Pattern
    counts: tuple[int, int]
    at: Array | None

    def put(self, a: Array, b: Array, dtype: DType) -> Array:
        """Products of all pairs of entries of a and b, in the order of the pattern."""
        order: Any = "C" if self.at is None else _fastest(a.size, b.size)
        products = np.multiply(a[:, None], b, order=order, dtype=dtype).ravel(order)
        if self.at is None:
            return products
        out = np.empty(products.size, dtype)
        out[self.at.ravel(order)] = products
        return out

    def taken(self, entries: Array) -> Array:
        """Matrix, by p and q, of ``entries`` that are in the order of the pattern."""
        p, q = self.counts
        return entries.reshape(p, q) if self.at is None else entries[self.at]


def _fastest(first: int, second: int) -> Any:
    """The memory order of pairs in which loops run over the longer side."""
    return "F" if first > second else "C"


@sparse("kron")
def kron(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `kron`: the products of all pairs of stored entries; a strided operand stores all."""
    a, b = (coalesced(sparse_only(v)) if is_sparse(v) else to_strided(v) for v in values)
    p, q = operands(*(getattr(v, "pattern", v.shape) for v in (a, b)))
    kron_pairs = pairs(p, q)
    products = kron_pairs.put(read(a, p, a.shape), read(b, q, b.shape), np.result_type(a.dtype, b.dtype))
    return kron_pairs.pattern.value(products)


def kron_sampled(g: LayoutValue, other: LayoutValue, *, pattern: Pattern, of: int) -> Array:
    """Gradient of a Kronecker product in the factor number ``of``, at the entries of ``pattern``.

    Each entry is the sum, over all entries of the factor ``other``, of g times this factor.

    g : the gradient of the product.
    """
    other = coalesced(sparse_only(other)) if is_sparse(other) else to_strided(other)
    factor = getattr(other, "pattern", other.shape)
    p, q = operands(*((pattern, factor) if of == 0 else (factor, pattern)))
    kron_pairs = pairs(p, q)
    terms = kron_pairs.taken(read(g, kron_pairs.pattern, g.shape))
    other_entries = read(other, (q, p)[of], other.shape)
    sums: Array = terms @ other_entries if of == 0 else other_entries @ terms
    return sums.reshape(pattern.stored_shape)


@register("kron_sampled", Box)
@sparse("kron_sampled")
def kron_sampled_in_layouts(op: Op, values: Values, params: Params) -> Any:
    """See `kron_sampled`."""
    return kron_sampled(*values, **params)


def operands(a: Pattern | Shape, b: Pattern | Shape) -> tuple[Pattern, Pattern]:
    """Patterns of the two operands of a product; for a shape (a strided operand) the pattern of all entries.

    At least one argument is a pattern.
    """
    if isinstance(a, tuple):
        assert isinstance(b, Pattern)
        return _everything(a, b), b
    return a, (_everything(b, a) if isinstance(b, tuple) else b)


def _everything(shape: Shape, beside: Pattern) -> Pattern:
    """Pattern of all entries of an array, in the layout of a product with ``beside``; ``beside`` keeps it."""
    return beside.once(("everything beside", shape), lambda: _all_entries(shape, _layout(beside)))


def _all_entries(shape: Shape, layout: str) -> Pattern:
    keys = np.arange(prod(shape))
    coo = CooPattern(shape, coordinates_of(keys, shape, index_dtype(*shape)), True)
    return converted(coo, layout)[0]


def _layout(pattern: Pattern) -> str:
    """Layout of a Kronecker product whose first sparse operand has ``pattern``: CSR, CSC or COO."""
    plain = type(pattern) is CompressedPattern and pattern.blocks is None and pattern.ndim == 2
    return pattern.layout if plain else "coo"


def pairs(p: Pattern, q: Pattern) -> Pairs:
    """The `Pairs` of two patterns, each of distinct entries; kept while both patterns live."""
    table: ForOthers[Pairs] = p.once("kron", ForOthers)
    result = table.get(q)
    if result is None:
        result = table[q] = _pairs(p, q)
    return result


def _pairs(p: Pattern, q: Pattern) -> Pairs:
    layout = _layout(p)
    shape = tuple(m * n for m, n in zip(p.shape, q.shape, strict=True))
    dtype = np.result_type(p.index_dtype, q.index_dtype, index_dtype(*shape, p.count * q.count))
    if layout == "coo":
        places = [
            np.add.outer(at * extent, within).ravel() for at, extent, within in _coordinates(p, q, dtype)
        ]
        return Pairs(CooPattern(shape, np.stack(places), True), (p.count, q.count), None)
    (a, _), (b, source) = converted(p, layout), converted(q, layout)
    assert isinstance(a, CompressedPattern)
    assert isinstance(b, CompressedPattern)
    return _of_lines(a, b, source, shape, dtype)


def _coordinates(p: Pattern, q: Pattern, dtype: DType) -> Any:
    outer, within = (x.coordinates.astype(dtype, copy=False) for x in (p, q))
    return zip(outer, q.shape, within, strict=True)


def _of_lines(
    a: CompressedPattern, b: CompressedPattern, source: Source, shape: Shape, dtype: DType
) -> Pairs:
    """Pairs of two matrices that are both in lines (rows or columns) along the same axis.

    Entry r of line i of a and entry s of line k of b are entry r n_k + s of line (i, k), where n_k is the
    number of entries of line k of b. Before that line are all pairs of earlier lines of a, and those of line
    i with earlier lines of b.

    source : the order of the entries of b in lines, if that is another than in its own pattern.
    shape, dtype : of the result, and of its indices.
    """
    axis, order = a.axis, _fastest(a.count, b.count)
    starts, lengths = (np.asarray(f, np.int64) for f in (a.indptr, np.diff(a.indptr)))
    of_line = np.repeat(starts[:-1], lengths)
    before, rank, width = of_line * b.count, np.arange(a.count) - of_line, np.repeat(lengths, lengths)
    own_starts, own_lengths = (np.asarray(f, np.int64) for f in (b.indptr, np.diff(b.indptr)))
    at = np.multiply(rank[:, None], own_lengths, order=order)
    at += np.multiply(width[:, None], own_starts[:-1], order=order)
    at += before[:, None]
    lines = np.repeat(np.arange(own_lengths.size), own_lengths)
    at = np.take(at, lines, axis=1) if order == "C" else np.take(at.T, lines, axis=0).T
    at += np.arange(b.count) - own_starts[lines]
    along = 1 - axis
    within = np.add((a.indices.astype(dtype) * dtype.type(b.shape[along]))[:, None], b.indices, order=order)
    indices = np.empty(at.size, dtype)
    indices[at.ravel(order)] = within.ravel(order)
    indptr = np.zeros(lengths.size * own_lengths.size + 1, dtype)
    np.cumsum(np.multiply.outer(lengths, own_lengths).ravel(), out=indptr[1:])
    if isinstance(source, np.ndarray):  # the entries of b stand in another order
        back = np.empty_like(source)
        back[source] = np.arange(source.size)
        at = np.asarray(at[:, back], order=order)
    return Pairs(CompressedPattern(shape, indptr, indices, axis), at.shape, at)


__all__ = ["Pairs", "kron_sampled", "operands", "pairs"]
