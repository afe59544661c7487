"""Linear algebra: `iverson.linalg`. Matrices are the last two axes, batches stand before them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex

import numpy as np

from iverson.array_api.conventions.operands import as_inexact, as_operand, by_columns
from iverson.array_api.entries.manipulation import diagonal, matrix_transpose
from iverson.array_api.linear_algebra.contraction import matmul, outer, tensordot, vecdot
from iverson.array_api.linear_algebra.matrix_functions import (
    block_diag,
    cond,
    logdet,
    logm,
    matrix_exp,
    multi_dot,
    sqrtm,
)
from iverson.array_api.linear_algebra.pseudoinverse import matrix_rank, pinv
from iverson.array_api.linear_algebra.systems import (
    LstsqResult,
    LUFactorResult,
    LUResult,
    cholesky_solve,
    lstsq,
    lu,
    lu_factor,
    lu_solve,
    solve_circulant,
    solve_toeplitz,
    solve_triangular,
)
from iverson.array_api.linear_algebra.triangular import hermitian
from iverson.array_api.reduction.norms import matrix_norm, norm, vector_norm
from iverson.array_api.reduction.reductions import sum as _sum
from iverson.array_api.sparse_arrays.factorized import Factorized, factorized
from iverson.array_api.sparse_arrays.sparse_construction import spsolve
from iverson.core.errors import ShapeError, speaking_as
from iverson.core.inputs.arguments import checked
from iverson.core.protocols import NDArray
from iverson.core.shapes import as_int, broadcast_shapes, check_choice, normalize_axis
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.tensor import Tensor
    from iverson.handles.typing import A, ArrayLike, Axis, DTypeLike


class SlogdetResult(NamedTuple):
    """Result of `slogdet`.

    >>> import iverson as iv
    >>> result = iv.linalg.slogdet(iv.asarray([[0.0, 1.0], [1.0, 0.0]]))
    >>> result.sign, result.logabsdet
    (iverson.Tensor(-1.), iverson.Tensor(0.))
    """

    sign: Tensor
    logabsdet: Tensor


class EighResult(NamedTuple):
    """Result of `eigh`.

    >>> import iverson as iv
    >>> result = iv.linalg.eigh(iv.asarray([[2.0, 0.0], [0.0, 3.0]]))
    >>> result.eigenvalues
    iverson.Tensor([2., 3.])
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """Result of `eig`.

    >>> import iverson as iv
    >>> result = iv.linalg.eig(iv.asarray([[2.0, 0.0], [0.0, 3.0]]))
    >>> result.eigenvalues
    iverson.Tensor([2.+0.j, 3.+0.j])
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """Result of `svd`.

    >>> import iverson as iv
    >>> result = iv.linalg.svd(iv.asarray([[2.0, 0.0], [0.0, 3.0]]))
    >>> result.S
    iverson.Tensor([3., 2.])
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


class QRResult(NamedTuple):
    """Result of `qr`.

    >>> import iverson as iv
    >>> result = iv.linalg.qr(iv.asarray([[2.0, 0.0], [0.0, 3.0]]))
    >>> (result.Q @ result.R).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """

    Q: Tensor
    R: Tensor


def inv(x: A | ArrayLike, /) -> A:
    """The inverses of matrices.

    x has shape (..., n, n); integers become float64. Raises ShapeError unless the matrices are square,
    LinearAlgebraError for a singular one.

    >>> from iverson import asarray
    >>> inv(asarray([[2., 0.], [0., 4.]]))[0]
    iverson.Tensor([0.5, 0. ])
    """
    return F.inv(as_inexact(x, "inv"))


def det(x: A | ArrayLike, /) -> A:
    """The determinants of matrices.

    x has shape (..., n, n); integers become float64. Raises ShapeError unless the matrices are square.

    >>> from iverson import asarray
    >>> det(asarray([[2., 0.], [0., 4.]]))
    iverson.Tensor(8.)
    """
    return F.det(as_inexact(x, "det"))


def slogdet(x: A | ArrayLike, /) -> SlogdetResult:
    """The signs and the logarithms of the absolute values of determinants: ``(sign, logabsdet)``.

    For complex x the sign has absolute value 1. Raises ShapeError unless the matrices are square.

    >>> from iverson import eye
    >>> slogdet(-eye(3)).sign
    iverson.Tensor(-1.)
    """
    return SlogdetResult(*F.slogdet(as_inexact(x, "slogdet")))


def solve(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The solution of x1 @ y = x2: x2 is a vector if it has rank 1, else matrices (..., n, k).

    x1 has shape (..., n, n). Raises ShapeError where shapes do not fit, LinearAlgebraError for a
    singular matrix.

    >>> from iverson import asarray
    >>> solve(asarray([[2., 0.], [0., 4.]]), asarray([2., 2.]))
    iverson.Tensor([1. , 0.5])
    """
    a, b = as_inexact(x1, "solve", "x1"), as_inexact(x2, "solve", "x2")
    if b.ndim == 1 and a.ndim > 1 and b.shape != a.shape[-1:]:
        raise ShapeError(
            "solve",
            "x2",
            got=f"shape {b.shape} for x1 of shape {a.shape}",
            expected=f"{a.shape[-1]} entries",
        )
    with speaking_as("solve", a="x1", b="x2"):
        return by_columns(lambda b: F.solve(a, b), b)


@checked
def cholesky(x: A | ArrayLike, /, *, upper: bool = False) -> A:
    """The lower triangular L with x = L L^H (or its conjugate transpose, with ``upper``).

    The matrix is taken as (x + x^H) / 2, so its gradient is Hermitian. Raises ShapeError unless the
    matrices are square, LinearAlgebraError where one is not positive definite.

    >>> from iverson import asarray
    >>> cholesky(asarray([[4., 2.], [2., 2.]]))
    iverson.Tensor([[2., 0.],
                    [1., 1.]])
    """
    lower = F.cholesky(as_inexact(x, "cholesky"))
    return F.mH(lower) if upper else lower


@checked
def eigh(x: A | ArrayLike, /, UPLO: Literal["L", "U"] | None = None) -> EighResult:
    """The eigenvalues, increasing, and orthonormal eigenvectors (as columns) of Hermitian matrices.

    Parameters
    ----------
    x : shape (..., n, n).
    UPLO : the triangle that is read, "L" for the lower or "U" for the upper, and of the diagonal the real
        part; the gradient lies there. None takes the matrix as (x + x^H) / 2, with a Hermitian gradient.

    Where eigenvalues are equal the derivative of the vectors does not exist. Raises ShapeError unless the
    matrices are square, LinearAlgebraError for entries that are read and not finite, ArgumentError for
    another triangle.

    >>> from iverson import asarray
    >>> eigh(asarray([[2., 0.], [0., 1.]])).eigenvalues
    iverson.Tensor([1., 2.])
    """
    return EighResult(*F.eigh(_of_triangle(x, UPLO, "eigh")))


def _of_triangle(x: Array | ArrayLike, triangle: str | None, operation: str) -> Any:
    """Hermitian matrices from one triangle of ``x``, "L" or "U"; ``x`` itself if ``triangle`` is None."""
    x = as_inexact(x, operation)
    if triangle is None:
        return x
    check_choice(triangle, ("L", "U"), operation, "UPLO")
    return hermitian(x, triangle == "L", operation)


@checked
def eigvalsh(x: A | ArrayLike, /, UPLO: Literal["L", "U"] | None = None) -> A:
    """The eigenvalues of `eigh`. Arguments and errors are those of `eigh`.

    >>> from iverson import asarray
    >>> eigvalsh(asarray([[2., 0.], [0., 1.]]))
    iverson.Tensor([1., 2.])
    """
    return F.eigvalsh(_of_triangle(x, UPLO, "eigvalsh"))


def eig(x: A | ArrayLike, /) -> EigResult:
    """The eigenvalues and eigenvectors (as columns of length 1) of square matrices, always complex.

    The order and the phases of the vectors are LAPACK's. Where eigenvalues are equal there is no
    derivative. Raises ShapeError unless the matrices are square.

    >>> from iverson import asarray
    >>> eig(asarray([[0., -1.], [1., 0.]])).eigenvalues
    iverson.Tensor([0.+1.j, 0.-1.j])
    """
    return EigResult(*F.eig(as_inexact(x, "eig")))


def eigvals(x: A | ArrayLike, /) -> A:
    """The eigenvalues of `eig`.

    >>> from iverson import asarray
    >>> eigvals(asarray([[0., -1.], [1., 0.]]))
    iverson.Tensor([0.+1.j, 0.-1.j])
    """
    with speaking_as("eigvals"):
        return F.eig(as_inexact(x, "eigvals"))[0]


@checked
def svd(x: A | ArrayLike, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition x = U @ diag(S) @ Vh, singular values decreasing.

    x has shape (..., m, n); with k = min(m, n), U is (..., m, m) and Vh (..., n, n), or with
    ``full_matrices=False`` (..., m, k) and (..., k, n). Of the columns that only the full matrices have, x
    determines the span alone: a function of it, and of all else, can be differentiated; the backward of one
    that depends on single columns raises GradientError. Raises ShapeError for fewer than two axes,
    LinearAlgebraError for entries that are not finite.

    >>> from iverson import asarray
    >>> svd(asarray([[3., 0.], [0., 4.]])).S
    iverson.Tensor([4., 3.])
    """
    x = as_inexact(x, "svd")
    if full_matrices and x.ndim > 1 and x.shape[-1] != x.shape[-2]:
        u, s, vh, complement = F.svd_full(x)
        if x.shape[-2] > x.shape[-1]:
            return SVDResult(_beside(u, complement, x.ndim - 1), s, vh)
        return SVDResult(u, s, _beside(vh, complement, x.ndim - 2))
    return SVDResult(*F.svd(x))


def svdvals(x: A | ArrayLike, /) -> A:
    """The singular values of `svd`, decreasing.

    >>> from iverson import asarray
    >>> svdvals(asarray([[3., 0.], [0., 4.]]))
    iverson.Tensor([4., 3.])
    """
    return F.svdvals(as_inexact(x, "svdvals"))


@checked
def qr(x: A | ArrayLike, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """The decomposition x = Q @ R with orthonormal columns in Q and R upper triangular.

    With k = min(m, n) the shapes are (..., m, k) and (..., k, n); ``mode="complete"`` makes Q square. Its
    further columns have the derivatives that `svd` says. Raises ArgumentError for another mode, ShapeError
    for fewer than two axes.

    >>> from iverson import eye
    >>> qr(eye(2) * 2).R.shape
    (2, 2)
    """
    check_choice(mode, ("reduced", "complete"), "qr", "mode")
    x = as_inexact(x, "qr")
    if mode == "complete" and x.ndim > 1 and x.shape[-2] > x.shape[-1]:
        q, r, complement = F.qr_complete(x)
        below = np.zeros((*x.shape[:-2], complement.shape[-1], x.shape[-1]), r.dtype)
        return QRResult(_beside(q, complement, x.ndim - 1), _beside(r, below, x.ndim - 2))
    return QRResult(*F.qr(x))


def _beside(a: Array | NDArray, b: Array | NDArray, axis: int) -> Any:
    return F.concat(a, b, axis=axis, offsets=(0, a.shape[axis]))


def matrix_power(x: A | ArrayLike, n: SupportsIndex, /) -> A:
    """The n-th power of square matrices, by repeated squaring; of their inverses for negative n.

    Raises ShapeError unless the matrices are square, LinearAlgebraError where an inverse does not exist.

    >>> from iverson import asarray
    >>> matrix_power(asarray([[1., 1.], [0., 1.]]), 5)
    iverson.Tensor([[1., 5.],
                    [0., 1.]])
    """
    x = as_operand(x, "matrix_power")
    times = as_int(n, "matrix_power", "n")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError("matrix_power", "x", got=f"shape {x.shape}", expected="square matrices")
    if times == 0:
        return F.copy(F.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), shape=x.shape))
    square: Any = x
    if times < 0:
        with speaking_as("matrix_power"):
            square, times = F.inv(as_inexact(x, "matrix_power")), -times
    result: Any = None
    while times:
        if times & 1:
            result = square if result is None else F.matmul(result, square)
        times >>= 1
        if times:
            square = F.matmul(square, square)
    return result


@checked
def trace(x: A | ArrayLike, /, *, offset: SupportsIndex = 0, dtype: DTypeLike | None = None) -> A:
    """The sums of the ``offset``-th diagonals of matrices; ``dtype`` as in `iverson.sum`.

    Raises ShapeError for fewer than two axes.

    >>> from iverson import eye
    >>> trace(eye(3))
    iverson.Tensor(3.)
    """
    return _sum(diagonal(x, offset=offset), -1, dtype=dtype)


@checked
def cross(x1: A | ArrayLike, x2: A | ArrayLike, /, *, axis: Axis = -1) -> A:
    """The vector products of vectors of three entries along an axis; the other axes broadcast.

    Raises ShapeError where the axis does not have extent 3, AxisError.

    >>> from iverson import asarray
    >>> cross(asarray([1., 0., 0.]), asarray([0., 1., 0.]))
    iverson.Tensor([0., 0., 1.])
    """
    x1, x2 = as_operand(x1, "cross", "x1"), as_operand(x2, "cross", "x2")
    shape = broadcast_shapes("cross", x1.shape, x2.shape)
    k = normalize_axis(axis, len(shape), "cross") - len(shape)
    for argument, x in (("x1", x1), ("x2", x2)):
        if x.ndim < -k or x.shape[k] != 3:
            raise ShapeError("cross", argument, got=f"shape {x.shape}", expected=f"extent 3 on axis {axis}")

    def turned(x: Array, by: int) -> Any:
        return F.roll(x, shift=(by,), axis=(x.ndim + k,))

    return F.subtract(turned(x1, -1) * turned(x2, -2), turned(x1, -2) * turned(x2, -1))


__all__ = [
    "EigResult", "EighResult", "Factorized", "LUFactorResult", "LUResult", "LstsqResult", "QRResult",
    "SVDResult", "SlogdetResult", "block_diag", "cholesky", "cholesky_solve", "cond", "cross", "det",
    "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "factorized", "inv", "logdet", "logm", "lstsq", "lu",
    "lu_factor", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "solve_circulant",
    "solve_toeplitz", "solve_triangular", "spsolve", "sqrtm", "svd", "svdvals", "tensordot", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
