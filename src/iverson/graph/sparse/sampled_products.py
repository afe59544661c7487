"""Sampled products: only the entries of a product that a pattern asks for, of terms that are stored.

    %2 = sampled_product[pattern=p](%0, %1)     ->  %2 = stored_row_samples(%values, ..., %1, %rows, %columns)
    %4 = product_at(%0, %1, %2, %3)             ->  %4 = stored_row_samples(%values, ..., %1, %2, %3)
    %2 = kron_sampled[pattern=p, of=0](%0, %1)  ->  %3 = gather(%0, %places); %2 = sum(multiply(%3, %values))

where %0, or %1, is stored. Rules of `graph.sparse.sparse_lowering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core.entries import NOTHING
from iverson.graph.ir.entry_ops import stored_read, stored_row_samples, stored_samples
from iverson.graph.ir.nodes import Equation, Value
from iverson.graph.sparse.calling_convention import Pairs
from iverson.graph.sparse.lowering_state import Opening, is_stored, pattern_of
from iverson.layouts import CooPattern, Pattern


def sampled_product(o: Opening, e: Equation) -> bool:
    """Entries of a product: of arrays, or of a sparse matrix and an array, row by row of that."""
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
    """Entries of a product with a sparse matrix, at places that are computed: row by row of that."""
    return _of_rows(o, e, list(map(o.given, e.operands[2:])))


def _of_rows(o: Opening, e: Equation, at: Sequence[Any]) -> bool:
    a, b = e.operands[:2]
    if not len(a.shape) == len(b.shape) == len(at) == 2:
        return False
    if is_stored(a):
        q, entries, dense = pattern_of(a), o.open(a), o.given(b)
    else:  # the columns of b are the rows of its transpose
        at = at[::-1]
        q, entries = pattern_of(b).permuted((1, 0)), o.turned(pattern_of(b), o.open(b))
        dense = o.bind("permute_dims", o.given(a), axes=(1, 0))
    blocks = (q.blocksize if q.layout == "bsr" else None) or (1, 1)
    starts, columns, *order = o.rows(q)
    made = o.bind(stored_row_samples, entries, starts, columns, dense, *at, *order, blocks=blocks)
    return o.is_dense(e, made)


def kron_sampled(o: Opening, e: Equation) -> bool:
    """The sums over the entries of one factor, at those of a pattern of the other."""
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
    own = o.bind("expand_dims", o.entries_of(other), axis=(0,))
    products = o.bind("multiply", o.reshaped(terms, (p.count, q.count)), own)
    return o.is_dense(e, o.bind("sum", products, axis=(1,), keepdims=False))


def _place(o: Opening, p: Pattern, q: Pattern, axis: int, of: int) -> Value:
    """Where the product of each entry of p with each of q is along an axis, where p is of factor ``of``."""
    own, others = (o.bind("astype", o.along(x, axis), dtype=np.dtype(np.int64)) for x in (p, q))
    if of == 0:
        own = o.bind("multiply", own, q.shape[axis])
    else:
        others = o.bind("multiply", others, p.shape[axis])
    return o.bind("add", o.bind("expand_dims", own, axis=(1,)), o.bind("expand_dims", others, axis=(0,)))


def every(shape: tuple[int, ...]) -> Pattern:
    """The pattern of every entry of an array."""
    return CooPattern(shape, np.indices(shape).reshape(len(shape), prod(shape)), True)


__all__ = ["every", "kron_sampled", "product_at", "sampled_product"]
