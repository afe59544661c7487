"""Sparse LU factors, computed once to solve with many right-hand sides: `iverson.linalg.factorized`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from iverson.array_api.conventions.operands import as_inexact, by_columns
from iverson.array_api.sparse_arrays.sparse_construction import sparse_value
from iverson.core.dispatch import value_of
from iverson.core.errors import ShapeError
from iverson.kernels.sparse.sparse_products import factors_for
from iverson.layouts import coalesced
from iverson.layouts.conversion import with_sparse_axes
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.tensor import Tensor
    from iverson.handles.typing import A, ArrayLike


@final
class Factorized:
    """A sparse matrix A with its LU factors, made by `factorized`; calling it with b gives x with A x = b.

    matrix : A itself. Gradients of a solution flow into it, and into b.

    >>> import iverson as iv
    >>> matrix = iv.asarray([[2.0, 0.0], [0.0, 4.0]]).to_layout("csr")
    >>> solve = iv.linalg.factorized(matrix)
    >>> solve(iv.asarray([2.0, 2.0]))
    iverson.Tensor([1. , 0.5])
    """

    __slots__ = ("_factors", "matrix")

    def __init__(self, matrix: Tensor, factors: Any) -> None:
        self.matrix = matrix
        self._factors = factors  # a pattern keeps no more than its last ones alive

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix."""
        return tuple(self.matrix.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the matrix."""
        return self.matrix.dtype

    def __call__(self, b: A | ArrayLike, /, *, transposed: bool = False) -> Any:
        """x with A @ x = b, or with ``transposed`` A^T @ x = b.

        b is a vector of n entries, or has shape (..., n, k): k right-hand sides in columns, and any batch of
        them. Where A is a batch, its axes and those of b broadcast. The result has the shape of b, in
        the promoted dtype; one of more precision than A's takes factors of its own. Raises ShapeError.

        >>> from iverson import asarray
        >>> solve = factorized(asarray([[2.0, 0.0], [1.0, 1.0]]).to_layout("csr"))
        >>> solve(asarray([2.0, 3.0])), solve(asarray([2.0, 3.0]), transposed=True)
        (iverson.Tensor([1., 2.]), iverson.Tensor([-0.5,  3. ]))
        """
        a, right = self.matrix, as_inexact(b, "factorized", "b")
        n = a.shape[-1]
        if not right.ndim or right.shape[max(right.ndim - 2, 0)] != n:
            raise ShapeError(
                "factorized",
                "b",
                got=f"shape {right.shape} for a matrix of shape {a.shape}",
                expected=f"shape ({n},) or (..., {n}, k)",
            )
        a = F.mT(a) if transposed else a
        return by_columns(lambda b: F.solve(a, b), right)

    def __repr__(self) -> str:
        return f"Factorized({self.shape}, {self.matrix.nnz} stored, {self.dtype})"


def factorized(a: ArrayLike, /) -> Factorized:
    """The LU factors of a sparse square matrix, or of each of a batch: a function that solves with it.

    a : a tensor in a sparse layout, of shape (..., n, n). It is factorised once, here, by SuperLU (X. Li, ACM
        Trans. Math. Softw. 31, 2005) with a column ordering that keeps fill-in low.

    Solves, gradients of them in the values of ``a`` and in b, and derivatives of those use these factors; the
    gradient takes one solve with the transpose. Raises ArgumentTypeError for other layouts, ShapeError unless
    matrices are square, LinearAlgebraError for a singular one.

    `spsolve` finds factors again by the values of its matrix: this function is for holding on to them, and to
    have a singular matrix refused early.

    >>> from iverson import asarray
    >>> solve = factorized(asarray([[2.0, 0.0], [1.0, 1.0]]).to_layout("csr"))
    >>> solve(asarray([[2.0, 4.0], [3.0, 3.0]]))
    iverson.Tensor([[1., 2.],
                    [2., 1.]])
    """
    sparse_value(a, "factorized", "a")
    a = as_inexact(a, "factorized", "a")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError("factorized", "a", got=f"shape {a.shape}", expected="square matrices")
    value = coalesced(with_sparse_axes(value_of(a), a.ndim))
    return Factorized(a, factors_for(value, a.dtype, "factorized")[0])


__all__ = ["Factorized", "factorized"]
