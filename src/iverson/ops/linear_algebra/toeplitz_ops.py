"""Solves with Toeplitz matrices, which have one number along each diagonal.

A matrix is given as a column of 2 n - 1 numbers, that of the upper right corner first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.errors import ShapeError
from iverson.core.op import Op, Sample, Sampler
from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.shapes import broadcast_shapes
from iverson.core.table import define
from iverson.ops.linear_algebra.decomposition_ops import _lapack
from iverson.ops.rules.batching import Examples, by_matrix
from iverson.ops.rules.entry_maps import Batchwise
from iverson.ops.rules.recurrences import Coefficients, Recurrence, minus


def _solve(d: NDArray, b: NDArray) -> NDArray:
    """Solve by Levinson's recursion."""
    from scipy.linalg import solve_toeplitz

    batch = np.broadcast_shapes(d.shape[:-2], b.shape[:-2])
    out = np.empty((*batch, *b.shape[-2:]), dtypes.to_inexact(dtypes.result_type(d, b)))
    d, b, n = np.broadcast_to(d, (*batch, *d.shape[-2:])), np.broadcast_to(b, out.shape), b.shape[-2]
    for k in np.ndindex(batch) if out.size else ():
        numbers = d[k][:, 0]
        out[k] = solve_toeplitz((numbers[n - 1 :], numbers[n - 1 :: -1]), b[k], check_finite=False)
    return out


def _abstract(d: Shaped, b: Shaped) -> Aval:
    if b.ndim < 2 or d.shape[-2] != max(2 * b.shape[-2] - 1, 0):
        raise ShapeError(
            "solve_toeplitz",
            "b",
            got=f"shape {b.shape}",
            expected=f"{(d.shape[-2] + 1) // 2} rows",
        )
    batch = broadcast_shapes("solve_toeplitz", d.shape[:-2], b.shape[:-2])
    return Aval((*batch, *b.shape[-2:]), dtypes.to_inexact(dtypes.result_type(d, b)))


def _diagonals(n: int) -> NDArray:
    """Matrix of positions, in the list of 2 n - 1 numbers, of the number at each entry of the matrix."""
    return n - 1 + np.arange(n)[:, None] - np.arange(n)


def _matrix(F: Namespace, d: Value) -> Any:
    """The Toeplitz matrices that the numbers in ``d`` define."""
    n, lead = (d.shape[-2] + 1) // 2, d.ndim - 2
    matrices = F.gather(F.squeeze(d, axis=(lead + 1,)), _diagonals(n), axes=(lead,))
    return F.permute_dims(matrices, axes=(*range(2, lead + 2), 0, 1))


def _along_diagonals(F: Namespace, x: Value, shape: tuple[int, ...]) -> Any:
    """Sum of x along each diagonal, the transpose of `_matrix`; summed to ``shape``, that of the numbers."""
    lead = x.ndim - 2
    first = F.permute_dims(x, axes=(lead, lead + 1, *range(lead)))
    sums = F.scatter_add(first, _diagonals(x.shape[-1]), axes=(lead,), shape=(*x.shape[:-2], shape[-2]))
    return F.sum_to(F.expand_dims(sums, axis=(lead + 1,)), shape)


# T x = b as in `solve`; T^H has the conjugate numbers in the other order.
def _cotangent(F: Namespace, g: Value, d: Value) -> Any:
    return F.solve_toeplitz(F.conj(F.flip(d, axis=(d.ndim - 2,))), g)


def _taylor(F: Namespace, y: Coefficients, d: Coefficients, b: Coefficients) -> Recurrence:
    """Taylor rule of ``solve_toeplitz``, by the recurrence of `recurrences.solution`."""

    def coefficient(k: int) -> Any:
        if k == 0:
            return NotImplemented
        products = d.convolved(y, k, lambda d, y: F.matmul(_matrix(F, d), y))
        right = minus(F, b[k], products)
        return None if right is None else F.solve_toeplitz(d[0], right)

    return coefficient


def _batched(F: Namespace, examples: Examples, d: Value, b: Value) -> Any:
    return by_matrix(F, examples, F.solve_toeplitz, d, b)


define(
    Op(
        name="solve_toeplitz",
        forward=_lapack("solve_toeplitz", _solve, "c"),
        abstract=_abstract,
        vjp=(
            lambda F, g, y, d, _b: _along_diagonals(F, -F.matmul(_cotangent(F, g, d), F.mH(y)), d.shape),
            lambda F, g, _y, d, _b: F.sum_to(_cotangent(F, g, d), _b.shape),
        ),
        jvp=(lambda F, t, y, d, _b: -F.solve_toeplitz(d, F.matmul(_matrix(F, t), y)), None),
        linear_in=((1,),),
        taylor=_taylor,
        entry_map=Batchwise("..,.j->.j"),
        batch=_batched,
        samples=lambda s: [
            Sample((_dominant(s, 3), s((3, 2)))),
            Sample((_dominant(s, 2), s((2, 2, 1)))),
            Sample((_dominant(s, 3, 2), s((3, 1)))),
        ],
    )
)


def _dominant(s: Sampler, n: int, *batch: int) -> Any:
    """Random numbers of n x n Toeplitz matrices whose main diagonal is the largest."""
    d = s((*batch, 2 * n - 1, 1))
    d[..., n - 1, :] += 4
    return d
