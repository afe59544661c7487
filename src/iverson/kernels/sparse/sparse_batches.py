"""Products of batches of sparse matrices, each as one product of two matrices
(`iverson.layouts.block_diagonal`).

The caller passes the product of two matrices as a function.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from iverson.core.shapes import Shape, broadcast_shapes
from iverson.kernels.sparse.sparse_operands import broadcast, is_sparse
from iverson.layouts import CompressedPattern, Pattern, Sparse
from iverson.layouts.block_diagonal import diagonal, from_diagonal, stacked

Array = np.ndarray[Any, Any]


def on_diagonal(x: Sparse) -> Any:
    """Matrices of a batch along the diagonal of a single matrix."""
    return diagonal(x.pattern).value(x.entries)


def below_each_other(x: Sparse | Array) -> Any:
    """Matrices of a batch, sparse or strided, as a single matrix of shape (batch * rows, columns)."""
    if is_sparse(x):
        return stacked(x.pattern).value(x.entries)
    return x.reshape(prod(x.shape[:-1]), x.shape[-1])


def times(s: Sparse, b: Array, product: Callable[[Sparse, Array], Array], *, stack: bool = True) -> Array:
    """Products of batches of sparse and of strided matrices, by one product of two matrices.

    Along axes of the batch that s has, its matrices stand on a diagonal; along all other axes, the matrices
    of b stand beside each other. If b is a single matrix, the matrices of s stand below each other instead.

    product : the product of a sparse matrix with a strided one.
    stack : whether ``product`` may be called with matrices below each other.
    """
    if len(s.shape) == b.ndim == 2:
        return product(s, b)
    n, (m, width) = s.shape[-2], b.shape[-2:]
    batch = broadcast_shapes("matmul", s.shape[:-2], b.shape[:-2])
    s_batch = (1,) * (len(batch) - len(s.shape) + 2) + s.shape[:-2]
    beside = [k for k, extent in enumerate(s_batch) if extent != batch[k]]
    if stack and prod(b.shape[:-2]) == 1 and not beside:
        return product(below_each_other(s), b.reshape(m, width)).reshape(*batch, n, width)
    shared_axes = [k for k in range(len(batch)) if k not in beside]
    order = (*shared_axes, len(batch), *beside, len(batch) + 1)
    transposed = np.broadcast_to(b, (*batch, m, width)).transpose(order)
    lead, trailing = transposed.shape[: len(shared_axes)], transposed.shape[len(shared_axes) + 1 :]
    flat = product(on_diagonal(s), transposed.reshape(prod(lead) * m, prod(trailing)))
    return flat.reshape(*lead, n, *trailing).transpose(np.argsort(order))


def between(a: Sparse, b: Sparse, product: Callable[[Sparse, Sparse], Sparse]) -> Any:
    """Products of a batch of sparse matrices with another, in CSR, by one product of matrices on diagonals.

    product : the product of two sparse matrices.
    """
    if len(a.shape) == len(b.shape) == 2:
        return product(a, b)
    batch = broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])
    a, b = (broadcast(x, (*batch, *x.shape[-2:])) for x in (a, b))
    flat = product(on_diagonal(a), on_diagonal(b))
    pattern = flat.pattern
    assert isinstance(pattern, CompressedPattern)
    return from_diagonal(pattern, (*batch, a.shape[-2], b.shape[-1])).value(flat.entries)


def flattened(
    a: Sparse | Array, b: Sparse | Array, pattern: Pattern, turned: Callable[[Sparse | Array], Sparse | Array]
) -> tuple[Any, Any, Pattern]:
    """Two matrices and a pattern, for one product in place of the products of the batches ``a`` and ``b``.

    The product of the two matrices, at the new pattern, has the same entries as ``a @ b`` at ``pattern``. The
    matrices of ``a`` stand below each other, those of ``b`` beside each other, and the patterns on a
    diagonal; if ``b`` is a single matrix, the patterns stand below each other instead.

    turned : the transpose of a factor.
    """
    batch = pattern.shape[:-2]
    if prod(b.shape[:-2]) == 1:
        return below_each_other(_stretched(a, batch)), below_each_other(b), stacked(pattern)
    a, b = below_each_other(_stretched(a, batch)), below_each_other(turned(_stretched(b, batch)))
    return a, turned(b), diagonal(pattern)


def _stretched(x: Sparse | Array, batch: Shape) -> Any:
    shape = (*batch, *x.shape[-2:])
    return broadcast(x, shape) if is_sparse(x) else np.broadcast_to(x, shape)
