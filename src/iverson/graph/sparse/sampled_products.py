"""Sampled products: only the entries of a product that a pattern asks for, of terms that are stored.

    %2 = sampled_product[pattern=p](%0, %1)     ->  %2 = stored_row_samples(%values, ..., %1, %rows, %columns)
    %4 = product_at(%0, %1, %2, %3)             ->  %4 = stored_row_samples(%values, ..., %1, %2, %3)
    %2 = kron_sampled[pattern=p, of=0](%0, %1)  ->  %3 = gather(%0, %places); %2 = sum(multiply(%3, %values))

where %0, or %1, is stored. Rules of `graph.sparse.sparse_lowering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from iverson.core.entries import NOTHING
from iverson.graph.ir.entry_ops import stored_product, stored_read, stored_row_samples, stored_samples
from iverson.graph.ir.nodes import Equation, Value
from iverson.graph.sparse.calling_convention import Pairs
from iverson.graph.sparse.lowering_state import Opening, is_stored, pattern_of
from iverson.kernels import entry_rules
from iverson.layouts import CooPattern, Pattern

#: A pattern, and the entries on it.
OnPattern = tuple[Pattern, Value]


class Matrices(entry_rules.StoredMatrices):
    """Products of matrices, stored as entries on patterns, with values of a graph."""

    def __init__(self, o: Opening) -> None:
        self.o = o

    def times(self, s: OnPattern, x: Value) -> Value:
        """The product with a dense value, by the op `stored_product`."""
        (p, entries), o = s, self.o
        starts, columns, *order = o.rows(p)
        shape = p.shape[:-1]
        return o.bind(stored_product, entries, starts, columns, x, *order, shape=shape, blocks=_blocks(p))

    def times_at(self, s: OnPattern, x: Value, places: Sequence[Value]) -> Value:
        """Entries of the product at places, by the op `stored_row_samples`."""
        (p, entries), o = s, self.o
        starts, columns, *order = o.rows(p)
        return o.bind(stored_row_samples, entries, starts, columns, x, *places, *order, blocks=_blocks(p))

    def turned(self, s: OnPattern) -> OnPattern:
        """The transposed matrix, on the transposed pattern."""
        p, entries = s
        return p.permuted(_turned(p.ndim)), self.o.turned(p, entries)

    def transposed(self, x: Value) -> Value:
        """A dense value with its last two axes in the other order."""
        return self.o.bind("permute_dims", x, axes=_turned(len(x.shape)))

    def turned_places(self, places: Sequence[Value]) -> Sequence[Value]:
        """Columns, then rows."""
        return places[::-1]


def _blocks(p: Pattern) -> tuple[int, int]:
    return (p.blocksize if p.layout == "bsr" else None) or (1, 1)


def _turned(ndim: int) -> tuple[int, ...]:
    """The axes with the last two in the other order."""
    return (*range(ndim - 2), ndim - 1, ndim - 2)


def sampled_product(o: Opening, e: Equation) -> bool:
    """Rule of `sampled_product`: entries of a product of arrays, or of a sparse matrix and an array.

    False for operands to which it does not apply.
    """
    a, b = e.operands
    p = e.params["pattern"]
    if (is_stored(a) and is_stored(b)) or NOTHING in (a.aval.support, b.aval.support):
        return False
    if is_stored(a) or is_stored(b):
        return _of_rows(o, e, o.places(p))
    if any(n not in (1, m) for x in (a, b) for n, m in zip(x.shape[-3::-1], p.shape[-3::-1], strict=False)):
        return False
    return o.is_dense(e, o.bind(stored_samples, o.given(a), o.given(b), *o.places(p)))


def product_at(o: Opening, e: Equation) -> bool:
    """Rule of `product_at`: entries, at computed places, of a product with a sparse matrix.

    False if the matrices or places are in batches.
    """
    return _of_rows(o, e, list(map(o.given, e.operands[2:])))


def _of_rows(o: Opening, e: Equation, at: Sequence[Value]) -> bool:
    a, b = e.operands[:2]
    if not len(a.shape) == len(b.shape) == len(at) == 2:
        return False
    s, x = (a, b) if is_stored(a) else (b, a)
    matrix = pattern_of(s), o.open(s)
    return o.is_dense(e, entry_rules.product_at(Matrices(o), matrix, o.given(x), at, s is a))


def kron_sampled(o: Opening, e: Equation) -> bool:
    """Rule of `kron_sampled`: for each entry of the pattern, the sum over the entries of the other factor.

    False for operands to which it does not apply.
    """
    (g, other), p, of = e.operands, e.params["pattern"], e.params["of"]
    if NOTHING in (g.aval.support, other.aval.support) or p.ndim != len(g.shape):
        return False
    if any(
        is_stored(x) and (pattern_of(x).ndim, pattern_of(x).distinct) != (p.ndim, True) for x in (g, other)
    ):
        return False
    q: Pattern = pattern_of(other) if is_stored(other) else every(other.shape)
    if is_stored(g):
        terms = o.bind(stored_read, o.open(g), o.take(Pairs(p, q, pattern_of(g), of == 1)), flat=False)
    else:
        at = [_place(o, p, q, k, of) for k in range(p.ndim)]
        terms = o.bind("gather", o.given(g), *at, axes=tuple(range(p.ndim)))
    factor = o.bind("expand_dims", o.entries_of(other), axis=(0,))
    products = o.bind("multiply", o.reshaped(terms, (p.count, q.count)), factor)
    return o.is_dense(e, o.bind("sum", products, axis=(1,), keepdims=False))


def _place(o: Opening, p: Pattern, q: Pattern, axis: int, of: int) -> Value:
    """Index along ``axis`` in a Kronecker product, for each entry of ``p`` with each entry of ``q``.

    of : the number of the factor that ``p`` is of: 0 or 1.
    """
    p_index, q_index = (o.bind("astype", o.along(x, axis), dtype=np.dtype(np.int64)) for x in (p, q))
    if of == 0:
        p_index = o.bind("multiply", p_index, q.shape[axis])
    else:
        q_index = o.bind("multiply", q_index, p.shape[axis])
    return o.bind("add", o.bind("expand_dims", p_index, axis=(1,)), o.bind("expand_dims", q_index, axis=(0,)))


def every(shape: tuple[int, ...]) -> Pattern:
    """The pattern of every entry of an array."""
    return CooPattern(shape, np.indices(shape).reshape(len(shape), prod(shape)), True)


__all__ = ["every", "kron_sampled", "product_at", "sampled_product"]
