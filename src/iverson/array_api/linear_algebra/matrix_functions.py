"""Matrix functions: exponential, root, logarithm, condition number; chains of products, block diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from iverson.array_api.conventions.operands import as_inexact, as_operands, in_common
from iverson.array_api.entries.joining import concat
from iverson.array_api.linear_algebra.contraction import matmul
from iverson.array_api.reduction.norms import MATRIX_ORDERS, matrix_norm
from iverson.array_api.signals.array_padding import pad as _pad
from iverson.core import dtypes
from iverson.core.errors import ArgumentError, ShapeError, speaking_as
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import check_choice
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.tensor import Tensor
    from iverson.handles.typing import A, ArrayLike, Order


def matrix_exp(x: A | ArrayLike, /) -> A:
    """The exponentials of square matrices, the sums of x^k / k!.

    x has shape (..., n, n). By scaling and squaring (A. H. Al-Mohy and N. J. Higham, SIAM J. Matrix Anal.
    Appl. 31, 2009); a derivative is a block of the exponential of a matrix twice as large. Raises ShapeError
    unless the matrices are square, LinearAlgebraError for entries that are not finite.

    >>> from iverson import asarray
    >>> matrix_exp(asarray([[0., 1.], [0., 0.]]))
    iverson.Tensor([[1., 1.],
                    [0., 1.]])
    """
    return F.matrix_exp(as_inexact(x, "matrix_exp"))


def sqrtm(x: A | ArrayLike, /) -> A:
    """The principal square roots of square matrices: y @ y = x, no eigenvalue of y with a negative real part.

    x has shape (..., n, n). By the Schur form (N. J. Higham, Functions of Matrices, SIAM 2008, section 6.2).
    The root of a real matrix is real; LinearAlgebraError where it is not (convert x to a complex dtype) or
    where there is none, in the derivative at a singular matrix too. Raises ShapeError unless the matrices are
    square.

    >>> from iverson import asarray
    >>> sqrtm(asarray([[4., 0.], [0., 9.]]))
    iverson.Tensor([[2., 0.],
                    [0., 3.]])
    """
    return F.sqrtm(as_inexact(x, "sqrtm"))


def logm(x: A | ArrayLike, /) -> A:
    """The principal logarithms of square matrices: y with matrix_exp(y) = x.

    x has shape (..., n, n); the eigenvalues of y have imaginary parts between -pi and pi. By inverse scaling
    and squaring (A. H. Al-Mohy and N. J. Higham, SIAM J. Sci. Comput. 34, 2012). The logarithm of a real
    matrix is real; LinearAlgebraError where it is not (convert x to a complex dtype) and for a singular
    matrix. Raises ShapeError unless the matrices are square.

    >>> from iverson import asarray, eye
    >>> logm(eye(2))
    iverson.Tensor([[0., 0.],
                    [0., 0.]])
    """
    return F.logm(as_inexact(x, "logm"))


@checked
def cond(x: A | ArrayLike, /, *, p: Order | None = None) -> A:
    """The condition numbers of matrices: the norm of x times that of its inverse.

    ``p`` is an order of `matrix_norm`. None and 2 take the largest singular value by the smallest, -2 the
    smallest by the largest; these know matrices that are not square, too. The number of a singular matrix is
    inf, and its derivative nan; with p=-2 it is 0, and inf of zeros alone. Raises ShapeError, ArgumentError
    for another order.

    >>> from iverson import asarray
    >>> cond(asarray([[2., 0.], [0., 4.]])), cond(asarray([[2., 0.], [0., 4.]]), p=1)
    (iverson.Tensor(2.), iverson.Tensor(2.))
    """
    x = as_inexact(x, "cond")
    if x.ndim < 2:
        raise ShapeError("cond", "x", got=f"shape {x.shape}", expected="at least two axes")
    check_choice(p, (None, *MATRIX_ORDERS), "cond", "p")
    with speaking_as("cond"):
        if p not in (None, 2, -2):
            singular, size = F.equal(F.slogdet(x)[0], 0), matrix_norm(x, ord=p)
            there = F.reshape(singular, shape=(*singular.shape, 1, 1))
            inverse = F.inv(F.where(there, np.eye(x.shape[-1], dtype=x.dtype), x))
            return F.where(singular, _infinite(x), size * matrix_norm(inverse, ord=p))
        s = F.svdvals(x)
    if not s.shape[-1]:
        raise ArgumentError("cond", "x", got=f"shape {x.shape}", expected="matrices with entries")
    largest, smallest = (f(s, axis=(s.ndim - 1,), keepdims=False) for f in (F.max, F.min))
    above, below = (smallest, largest) if p == -2 else (largest, smallest)
    zero = F.equal(largest, 0)
    return F.where(zero, _infinite(x), above) / F.where(zero, 1.0, below)


def _infinite(x: Array) -> Any:
    """Value inf for each matrix of ``x``, whose derivative in all entries is nan."""
    return np.inf * F.exp(0.0 * F.sum(F.abs(x), axis=(x.ndim - 2, x.ndim - 1), keepdims=False))


def logdet(x: A | ArrayLike, /) -> A:
    """The logarithms of determinants: of real matrices nan where it is negative, -inf where it is 0.

    x has shape (..., n, n). For complex x the imaginary part is the angle of the determinant. `slogdet` has
    the sign apart. Raises ShapeError unless the matrices are square.

    >>> from iverson import eye
    >>> logdet(eye(3))
    iverson.Tensor(0.)
    """
    x = as_inexact(x, "logdet")
    with speaking_as("logdet"):
        sign, size = F.slogdet(x)
    if dtypes.kind_of(x.dtype) == "c":
        return size + 1j * F.angle(sign)
    return F.where(F.less(sign, 0), float("nan"), size)


def multi_dot(arrays: Sequence[A | ArrayLike] | A, /) -> A:
    """The product of two or more matrices, in the order with the fewest multiplications.

    The first and the last may be vectors, a row and a column; their axis is not in the result. By dynamic
    programming (T. H. Cormen et al., Introduction to Algorithms, section 15.2). Raises ShapeError where
    extents do not fit, ArgumentError for fewer than two arrays.

    >>> from iverson import ones
    >>> multi_dot([ones((2, 3)), ones((3, 4)), ones(4)])
    iverson.Tensor([12., 12.])
    """
    from iverson.graph.passes.matrix_chains import cheapest

    xs = as_operands(arrays, "multi_dot")
    if len(xs) < 2:
        raise ArgumentError("multi_dot", "arrays", got="one array", expected="at least two")
    ends = (0, len(xs) - 1)
    for k, x in enumerate(xs):
        if x.ndim != 2 and not (x.ndim == 1 and k in ends):
            raise ShapeError("multi_dot", f"arrays[{k}]", got=f"shape {x.shape}", expected="a matrix")
    vectors = [x.ndim == 1 for x in xs]
    sizes = [
        (1, *x.shape) if v and not k else (*x.shape, 1) if v else x.shape
        for k, (x, v) in enumerate(zip(xs, vectors, strict=True))
    ]
    for k, (before, after) in enumerate(pairwise(sizes)):
        if before[1] != after[0]:
            raise ShapeError(
                "multi_dot", f"arrays[{k + 1}]", got=f"shape {xs[k + 1].shape}", expected=f"{before[1]} rows"
            )
    return in_common(xs, lambda xs: _product(cheapest(sizes)[0], xs))


#: The number of a factor, or the orders of both sides of a product.
Grouping: TypeAlias = "int | tuple[Grouping, Grouping]"


def _product(order: Grouping, xs: Sequence[Array]) -> Any:
    """Product of matrices in the order of a nested pair of numbers of factors."""
    return xs[order] if isinstance(order, int) else matmul(*(_product(part, xs) for part in order))


def block_diag(*arrays: A | ArrayLike) -> Tensor:
    """The matrix with the given ones along its diagonal and zeros elsewhere.

    A vector counts as one row, a number as a matrix of one entry; dtypes are promoted. Of sparse matrices
    the result is sparse. Raises ShapeError for more than two axes, ArgumentError for no arrays.

    >>> from iverson import asarray
    >>> block_diag(asarray([[1., 2.]]), 3.)
    iverson.Tensor([[1., 2., 0.],
                    [0., 0., 3.]])
    """
    xs = as_operands(arrays, "block_diag")
    for k, x in enumerate(xs):
        if x.ndim > 2:
            raise ShapeError("block_diag", f"arrays[{k}]", got=f"shape {x.shape}", expected="a matrix")
    xs = [x if x.ndim == 2 else F.reshape(x, shape=(1, x.size)) for x in xs]
    width, start, rows = sum(x.shape[1] for x in xs), 0, []
    for x in xs:
        rows.append(_pad(x, ((0, 0), (start, width - start - x.shape[1]))))
        start += x.shape[1]
    return concat(rows)


__all__ = ["block_diag", "cond", "logdet", "logm", "matrix_exp", "multi_dot", "sqrtm"]
