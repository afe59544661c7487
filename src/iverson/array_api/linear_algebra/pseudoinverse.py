"""Pseudoinverse and rank of matrices, in which small singular values count as 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.array_api.conventions.data_types import finfo
from iverson.array_api.conventions.operands import as_inexact, as_weak
from iverson.array_api.reduction.reductions import sum as _sum
from iverson.core.errors import ShapeError, speaking_as
from iverson.core.inputs.arguments import checked
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike


@checked
def pinv(x: A | ArrayLike, /, *, rtol: A | ArrayLike | None = None, atol: A | ArrayLike | None = None) -> A:
    """The Moore-Penrose inverse, of shape (..., n, m) for x of shape (..., m, n).

    Singular values up to ``atol``, or up to ``rtol`` times the largest, count as 0: numbers, or one for each
    matrix. By default ``rtol`` is max(m, n) * eps, or 0 where only ``atol`` is given. The
    derivative holds where the rank is locally constant (G. H. Golub and V. Pereyra, SIAM J. Numer. Anal.
    10, 1973). Raises ShapeError for fewer than two axes.

    >>> from iverson import asarray
    >>> pinv(asarray([[2., 0.], [0., 0.]]))
    iverson.Tensor([[0.5, 0. ],
                    [0. , 0. ]])
    """
    x = as_inexact(x, "pinv")
    relative, absolute = _tolerances(x, rtol, atol, "pinv")
    return F.pinv(x, rtol=relative, atol=absolute)


def _tolerances(
    x: Array, rtol: Array | ArrayLike | None, atol: Array | ArrayLike | None, operation: str
) -> tuple[Any, Any]:
    """Relative and absolute tolerance as NumPy arrays: one number, or one for each matrix.

    If both are None, they are max(m, n) * eps and 0; otherwise one that is None is 0.
    """
    if x.ndim < 2:
        raise ShapeError(operation, "x", got=f"shape {x.shape}", expected="at least two axes")
    tolerances = [
        np.asarray(0.0 if tolerance is None else F.to_numpy(as_weak(tolerance, operation, argument)))
        for tolerance, argument in ((rtol, "rtol"), (atol, "atol"))
    ]
    if rtol is None and atol is None:
        tolerances[0] = np.asarray(max(x.shape[-2:]) * finfo(x).eps)
    return tolerances[0], tolerances[1]


@checked
def matrix_rank(
    x: A | ArrayLike, /, *, rtol: A | ArrayLike | None = None, atol: A | ArrayLike | None = None
) -> A:
    """Number of singular values that exceed the tolerances of `pinv`, as int64.

    >>> from iverson import ones
    >>> matrix_rank(ones((3, 3)))
    iverson.Tensor(1)
    """
    x = as_inexact(x, "matrix_rank")
    relative, absolute = _tolerances(x, rtol, atol, "matrix_rank")
    with speaking_as("matrix_rank"):
        s = F.svdvals(x)
    if not s.shape[-1]:
        return _sum(F.not_equal(s, 0), -1)
    largest = F.max(s, axis=(s.ndim - 1,), keepdims=True)
    return _sum(F.greater(s, F.maximum(largest * relative[..., None], absolute[..., None])), -1)


__all__ = ["matrix_rank", "pinv"]
