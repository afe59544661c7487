"""Triangular systems of linear equations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from iverson.array_api.conventions.operands import as_operand, by_columns
from iverson.core.errors import ShapeError
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import broadcast_shapes, check_choice
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.tensor import Tensor
    from iverson.handles.typing import ArrayLike


@checked
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    /,
    *,
    lower: bool = True,
    trans: Literal["N", "T", "C"] = "N",
    left: bool = True,
    unit_diagonal: bool = False,
) -> Tensor:
    """x with T @ x = b, for the lower or upper triangle T of a matrix in any layout; b a vector or a matrix.

    a : shape (..., n, n).
    b : a vector, or shape (..., n, k). The axes before the last two broadcast.
    trans : "T" or "C" solves with the transpose of T or its conjugate.
    left : False solves x @ T = b, for b of shape (..., k, n).
    unit_diagonal : the diagonal is not read, but taken as 1.

    What is not read has a gradient of 0. Raises ShapeError, ArgumentError for another ``trans``,
    LinearAlgebraError for a zero on the diagonal.

    >>> from iverson import asarray
    >>> solve_triangular(asarray([[2.0, 9.0], [1.0, 1.0]]), asarray([2.0, 3.0]))
    iverson.Tensor([1., 2.])
    """
    a, b = as_operand(a, "solve_triangular", "a"), as_operand(b, "solve_triangular", "b")
    check_choice(trans, ("N", "T", "C"), "solve_triangular", "trans")
    if not left and b.ndim < 2:
        raise ShapeError(
            "solve_triangular", "b", got=f"shape {b.shape}", expected="matrices, with left=False"
        )
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError("solve_triangular", "a", got=f"shape {a.shape}", expected="square matrices")
    if unit_diagonal:
        a = _with_unit_diagonal(a, lower)
    if (trans != "N") == left:  # x T = b is T^T x^T = b^T
        a, lower = F.mT(a), not lower
    a = F.conj(a) if trans == "C" else a
    if not left:
        return F.mT(_solved(a, F.mT(b), lower))
    return by_columns(lambda b: _solved(a, b, lower), b)


def _with_unit_diagonal(a: Array, lower: bool) -> Any:
    """Triangle of ``a`` with ones on the diagonal."""
    strict = F.tril(a, k=-1) if lower else F.triu(a, k=1)
    return strict + F.diag(np.ones(a.shape[:-1], a.dtype))


def _solved(a: Any, b: Any, lower: bool) -> Any:
    if a.ndim > 2 or b.ndim > 2:
        batch = broadcast_shapes("solve_triangular", a.shape[:-2], b.shape[:-2])
        a, b = (
            x if x.shape[:-2] == batch else F.broadcast_to(x, shape=(*batch, *x.shape[-2:])) for x in (a, b)
        )
    return F.solve_triangular(a, b, lower=lower, check=True)


def hermitian(x: Array, lower: bool, operation: str, argument: str = "x") -> Any:
    """Hermitian matrices from the lower or upper triangle of ``x``; the real part of the diagonal is
    taken.
    """
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(operation, argument, got=f"shape {x.shape}", expected="square matrices")
    half = F.tril(x, k=-1) if lower else F.triu(x, k=1)
    diagonal = F.diagonal(x, offset=0)
    return half + F.mH(half) + F.diag(F.real(diagonal) if x.dtype.kind == "c" else diagonal)


__all__ = ["solve_triangular"]
