"""Term-by-term matrix products: only terms count in which both factors are present.

A zero in place of an absent entry would turn the inf or nan that it is multiplied with into a nan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def by_terms(product: Array, a: Array, b: Array, there_a: Array, there_b: Array) -> Array:
    """Product of matrices, or batches of them, whose absent entries are multiplied with nothing.

    product : ``a @ b``, with zeros for absent entries. Its finite entries are right, and so are those with a
        term from a nan that is present; all others are computed here.
    there_a, there_b : masks of the entries that are present.
    """
    nan = _counts(np.isnan(a) & there_a, there_b) + _counts(there_a, np.isnan(b) & there_b)
    recompute = ~np.isfinite(product) & (nan == 0)
    out = product.copy()
    for *batch, row in np.argwhere(recompute.any(axis=-1)):
        columns = np.flatnonzero(recompute[(*batch, row)])
        at_a, at_b = (tuple(k if n > 1 else 0 for k, n in _aligned(batch, x.shape[:-2])) for x in (a, b))
        lhs, there_lhs = (x[at_a][row, :, None] for x in (a, there_a))
        rhs, there_rhs = (x[at_b][:, columns] for x in (b, there_b))
        there = there_lhs & there_rhs
        terms = np.multiply(lhs, rhs, out=np.zeros(there.shape, product.dtype), where=there)
        out[(*batch, row, columns)] = terms.sum(axis=0)
    return out


def _aligned(batch: Sequence[int], shape: tuple[int, ...]) -> Any:
    """Pairs of an index and an extent, on the batch axes of a factor of batch shape ``shape``.

    batch : the indices on the batch axes of the product.
    """
    return zip(batch[len(batch) - len(shape) :], shape, strict=True)


def _counts(a: Array, b: Array) -> Array:
    """Number of terms with both factors True, for each entry of a product of boolean matrices."""
    counts: Array = np.matmul(a.astype(np.float32), b.astype(np.float32))
    return counts


__all__ = ["by_terms"]
