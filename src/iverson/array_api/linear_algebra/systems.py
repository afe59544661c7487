"""Systems of linear equations: by factors, in least squares, with structured matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from iverson.array_api.conventions.operands import as_inexact, by_columns, cast
from iverson.array_api.entries.indexing import positions, take_along_axis
from iverson.array_api.entries.joining import concat
from iverson.array_api.entries.manipulation import expand_dims, flip
from iverson.array_api.linear_algebra.pseudoinverse import matrix_rank, pinv
from iverson.array_api.linear_algebra.triangular import solve_triangular
from iverson.array_api.reduction.reductions import sum as _sum
from iverson.array_api.signals.fft import fft, ifft
from iverson.core import dtypes
from iverson.core.dispatch import has_entries
from iverson.core.errors import ArgumentError, ArgumentTypeError, ShapeError, described, speaking_as
from iverson.core.inputs.arguments import checked
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.tensor import Tensor
    from iverson.handles.typing import A, ArrayLike


class LUResult(NamedTuple):
    """Result of `lu`.

    >>> import iverson as iv
    >>> result = iv.linalg.lu(iv.asarray([[2.0, 1.0], [4.0, 4.0]]))
    >>> result.U
    iverson.Tensor([[ 4.,  4.],
                    [ 0., -1.]])
    """

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactorResult(NamedTuple):
    """Result of `lu_factor`.

    >>> import iverson as iv
    >>> result = iv.linalg.lu_factor(iv.asarray([[2.0, 1.0], [4.0, 4.0]]))
    >>> result.LU
    iverson.Tensor([[ 4. ,  4. ],
                    [ 0.5, -1. ]])
    >>> result.permutation
    iverson.Tensor([1, 0])
    """

    LU: Tensor
    permutation: Tensor


class LstsqResult(NamedTuple):
    """Result of `lstsq`.

    >>> import iverson as iv
    >>> result = iv.linalg.lstsq(iv.asarray([[1.0], [1.0]]), iv.asarray([1.0, 3.0]))
    >>> result.solution
    iverson.Tensor([2.])
    """

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def lu(x: A | ArrayLike, /) -> LUResult:
    """The decomposition x = P @ L @ U with a permutation P, L unit lower triangular, U upper triangular.

    x has shape (..., m, n); with k = min(m, n), P is (..., m, m), L (..., m, k) and U (..., k, n). Rows are
    exchanged so that no entry of L exceeds 1 (partial pivoting). P is constant under differentiation; a
    derivative of L and U that divides by a pivot of 0 is inf or nan. Raises ShapeError for fewer than two
    axes.

    >>> from iverson import asarray
    >>> P, L, U = lu(asarray([[1., 3.], [2., 4.]]))
    >>> L, U
    (iverson.Tensor([[1. , 0. ],
                    [0.5, 1. ]]), iverson.Tensor([[2., 4.],
                    [0., 1.]]))
    """
    lower, upper, rows = F.lu(as_inexact(x, "lu"))
    m = rows.shape[-1]
    permutation = F.equal(F.expand_dims(rows, axis=(rows.ndim - 1,)), np.arange(m)[:, None])
    return LUResult(F.astype(permutation, dtype=lower.dtype), lower, upper)


def lu_factor(x: A | ArrayLike, /) -> LUFactorResult:
    """The factors of `lu` in one array of x's shape (square ones for `lu_solve`), and the order of rows.

    L is below the diagonal, without its ones, U on it and above; ``x[permutation] = L @ U``. Derivatives are
    those of `lu`. Raises ShapeError for fewer than two axes.

    >>> from iverson import asarray
    >>> lu_factor(asarray([[1., 3.], [2., 4.]]))
    LUFactorResult(LU=iverson.Tensor([[2. , 4. ],
                    [0.5, 1. ]]), permutation=iverson.Tensor([1, 0]))
    """
    x = as_inexact(x, "lu_factor")
    with speaking_as("lu_factor"):
        lower, upper, rows = F.lu(x)
    below, above = (_within(part, x.shape) for part in (F.tril(lower, k=-1), upper))
    return LUFactorResult(below + above, rows)


def _within(factor: Array, shape: tuple[int, ...]) -> Any:
    """Matrices of ``shape`` with ``factor`` in the first rows and columns and zeros elsewhere."""
    if factor.shape == shape:
        return factor
    return F.embed(factor, key=tuple(slice(0, n, 1) for n in factor.shape), shape=shape)


@checked
def lu_solve(
    factors: LUFactorResult | tuple[Array | ArrayLike, Array | ArrayLike],
    b: A | ArrayLike,
    /,
    *,
    adjoint: bool = False,
) -> Tensor:
    """x with A @ x = b, from what `lu_factor` returns of A.

    b : a vector, or shape (..., n, k). The axes of batches broadcast.
    adjoint : solve with A^H instead.

    Raises ShapeError, LinearAlgebraError for a singular matrix.

    >>> from iverson import asarray
    >>> lu_solve(lu_factor(asarray([[1., 3.], [2., 4.]])), asarray([4., 6.]))
    iverson.Tensor([1., 1.])
    """
    lu_matrices, rows = _of_square(factors)
    right = as_inexact(b, "lu_solve", "b")

    def solved(b: Tensor) -> Any:
        if not adjoint:
            y = solve_triangular(lu_matrices, _in_order(b, rows), unit_diagonal=True)
            return solve_triangular(lu_matrices, y, lower=False)
        y = solve_triangular(lu_matrices, b, lower=False, trans="C")
        y = solve_triangular(lu_matrices, y, unit_diagonal=True, trans="C")
        return _in_order(y, F.argsort(rows, axis=rows.ndim - 1, descending=False, stable=True))

    _check_rows("lu_solve", right, lu_matrices.shape[-1], f"matrices of shape {lu_matrices.shape}")
    with speaking_as("lu_solve", a="factors"):
        return by_columns(solved, right)


def _of_square(factors: LUFactorResult | tuple[Array | ArrayLike, Array | ArrayLike]) -> tuple[Any, Any]:
    """Array of LU factors and order of rows, from what `lu_factor` returned; raises if they do not fit."""
    if not isinstance(factors, tuple) or len(factors) != 2:
        raise ArgumentTypeError(
            "lu_solve",
            "factors",
            got=described(factors),
            expected="what lu_factor returns: (LU, permutation)",
        )
    lu_matrices = as_inexact(factors[0], "lu_solve", "factors")
    if lu_matrices.ndim < 2 or lu_matrices.shape[-1] != lu_matrices.shape[-2]:
        raise ShapeError("lu_solve", "factors", got=f"shape {lu_matrices.shape}", expected="square matrices")
    rows = positions(factors[1], lu_matrices.shape[-1], "lu_solve", "factors")
    if rows.shape != lu_matrices.shape[:-1]:
        raise ShapeError(
            "lu_solve",
            "factors",
            got=f"a permutation of shape {rows.shape}",
            expected=f"{lu_matrices.shape[:-1]}",
        )
    if has_entries(rows) and (np.sort(numbers := F.to_numpy(rows)) != np.arange(rows.shape[-1])).any():
        raise ArgumentError(
            "lu_solve",
            "factors",
            got=f"{numbers.tolist()} for the order of rows",
            expected="each number of a row once",
            remedy="take the factors of iverson.linalg.lu_factor: SciPy's have exchanges of rows instead",
        )
    return lu_matrices, rows


def _in_order(b: Array, rows: Array) -> Any:
    """Matrices whose row k is row ``rows[k]`` of ``b``."""
    rows = F.expand_dims(rows, axis=(rows.ndim,))
    rank = max(b.ndim, rows.ndim)
    b, rows = (F.expand_dims(x, axis=tuple(range(rank - x.ndim))) if x.ndim < rank else x for x in (b, rows))
    return take_along_axis(b, rows, axis=-2)


@checked
def cholesky_solve(b: A | ArrayLike, factor: A | ArrayLike, /, *, upper: bool = False) -> Tensor:
    """x with A @ x = b, from the factor of A that `cholesky` returns; b is a vector or has shape (..., n, k).

    upper : whether the factor is upper triangular, A = U^H U, and not lower, A = L L^H.

    The other triangle of the factor is not read. Raises ShapeError, LinearAlgebraError for a zero on the
    diagonal.

    >>> from iverson import asarray
    >>> cholesky_solve(asarray([4., 2.]), asarray([[2., 0.], [0., 1.]]))
    iverson.Tensor([1., 2.])
    """
    right: Any = as_inexact(b, "cholesky_solve", "b")
    triangle: Any = as_inexact(factor, "cholesky_solve", "factor")

    def solved(b: Tensor) -> Any:
        y = solve_triangular(triangle, b, lower=not upper, trans="C" if upper else "N")
        return solve_triangular(triangle, y, lower=not upper, trans="N" if upper else "C")

    with speaking_as("cholesky_solve", a="factor"):
        return by_columns(solved, right)


@checked
def lstsq(
    a: A | ArrayLike,
    b: A | ArrayLike,
    /,
    *,
    rtol: A | ArrayLike | None = None,
    rcond: A | ArrayLike | None = None,
) -> LstsqResult:
    """The x of least norm among those that minimise the norm of a @ x - b, column by column.

    Parameters
    ----------
    a : shape (..., m, n).
    b : a vector of m entries, or shape (..., m, k). The axes before the last two broadcast.
    rtol : singular values up to ``rtol`` times the largest count as 0, as in `pinv`.
    rcond : NumPy's name of ``rtol``.

    Returns
    -------
    LstsqResult : ``solution``, of shape (n,) or (..., n, k); ``residuals``, the sums of the squares of
        a @ x - b for each column; ``rank`` and ``singular_values`` of a.

    By the pseudoinverse, whose derivative holds where the rank is locally constant, then one step of
    refinement (A. Bjorck, Numerical Methods for Least Squares Problems, SIAM 1996, section 2.9.2). Raises
    ShapeError where shapes do not fit, LinearAlgebraError for entries of a that are not finite.

    >>> from iverson import asarray
    >>> lstsq(asarray([[1., 0.], [1., 1.], [1., 2.]]), asarray([1., 3., 5.])).solution
    iverson.Tensor([1., 2.])
    """
    lhs, rhs = as_inexact(a, "lstsq", "a"), as_inexact(b, "lstsq", "b")
    common = dtypes.result_type(lhs, rhs)
    matrix, columns = cast(lhs, common), cast(rhs, common)
    rtol = rcond if rtol is None else rtol
    if matrix.ndim < 2:
        raise ShapeError("lstsq", "a", got=f"shape {matrix.shape}", expected="at least two axes")
    if not columns.ndim or columns.shape[max(columns.ndim - 2, 0)] != matrix.shape[-2]:
        raise ShapeError(
            "lstsq",
            "b",
            got=f"shape {columns.shape} for a of shape {matrix.shape}",
            expected=f"{matrix.shape[-2]} rows",
        )
    with speaking_as("lstsq", x="a"):
        inverse = pinv(matrix, rtol=rtol)
        rank: Any = matrix_rank(matrix, rtol=rtol)
        values = F.svdvals(matrix)

    def solved(b: Tensor) -> Any:
        x = F.matmul(inverse, b)
        return x + F.matmul(inverse, b - F.matmul(matrix, x))

    x = by_columns(solved, columns)
    residuals = by_columns(lambda x: F.matmul(matrix, x), x) - columns
    squares = _sum(F.square(F.abs(residuals)), axis=-1 if columns.ndim == 1 else -2)
    return LstsqResult(x, squares, rank, values)


@checked
def solve_toeplitz(c: A | ArrayLike, b: A | ArrayLike, /, *, r: A | ArrayLike | None = None) -> Tensor:
    """x with T @ x = b for a Toeplitz matrix, T[i, j] = c[i - j] for i >= j and r[j - i] above the diagonal.

    Parameters
    ----------
    c : the first columns of matrices, shape (..., n).
    b : a vector of n entries, or shape (..., n, k). The axes of batches broadcast.
    r : the first rows, shape (..., n), of which the first entry is not read; by default the conjugate of c.

    By Levinson's recursion, in n^2 steps (G. H. Golub and C. F. Van Loan, Matrix Computations, section 4.7),
    which asks all leading principal minors to be non-singular; it is less stable than `solve`. Raises
    ShapeError, LinearAlgebraError for a singular minor.

    >>> from iverson import asarray
    >>> solve_toeplitz(asarray([2., 1.]), asarray([3., 3.]))
    iverson.Tensor([1., 1.])
    """
    c, b = as_inexact(c, "solve_toeplitz", "c"), as_inexact(b, "solve_toeplitz", "b")
    first = F.conj(c) if r is None else as_inexact(r, "solve_toeplitz", "r")
    if not c.ndim or first.shape != c.shape:
        raise ShapeError(
            "solve_toeplitz",
            "c" if r is None else "r",
            got=f"shape {first.shape} for c of shape {c.shape}",
            expected="vectors of one length",
        )
    _check_rows("solve_toeplitz", b, c.shape[-1], f"c of shape {c.shape}")
    above = flip(first[..., 1:], axis=-1)
    numbers = expand_dims(concat([above, c], axis=-1), axis=-1)
    with speaking_as("solve_toeplitz"):
        return by_columns(lambda b: F.solve_toeplitz(numbers, b), b)


def solve_circulant(c: A | ArrayLike, b: A | ArrayLike, /) -> Tensor:
    """x with C @ x = b for a circulant matrix, C[i, j] = c[(i - j) % n].

    Parameters
    ----------
    c : the first columns of matrices, shape (..., n).
    b : a vector of n entries, or shape (..., n, k). The axes of batches broadcast.

    The Fourier transform diagonalises C, so that three transforms solve the system (G. H. Golub and C. F. Van
    Loan, Matrix Computations, section 4.8). Of a singular matrix, inf or nan. Raises ShapeError.

    >>> from iverson import asarray
    >>> solve_circulant(asarray([2., 1., 0.]), asarray([3., 3., 3.]))
    iverson.Tensor([1., 1., 1.])
    """
    c, b = as_inexact(c, "solve_circulant", "c"), as_inexact(b, "solve_circulant", "b")
    if not c.ndim or not b.ndim or b.shape[max(b.ndim - 2, 0)] != c.shape[-1]:
        raise ShapeError(
            "solve_circulant",
            "b",
            got=f"shape {b.shape} for c of shape {c.shape}",
            expected="vectors of one length",
        )
    eigenvalues = expand_dims(c, axis=-1)

    def solved(b: Tensor) -> Any:
        with speaking_as("solve_circulant"):
            solution = ifft(fft(b, axis=-2) / fft(eigenvalues, axis=-2), axis=-2)
        return solution if dtypes.kind_of(dtypes.result_type(c, b)) == "c" else F.real(solution)

    return by_columns(solved, b)


def _check_rows(operation: str, b: Array, rows: int, of: str) -> None:
    if not b.ndim or b.shape[max(b.ndim - 2, 0)] != rows:
        raise ShapeError(operation, "b", got=f"shape {b.shape} for {of}", expected=f"{rows} rows")


__all__ = [
    "LUFactorResult", "LUResult", "LstsqResult", "cholesky_solve", "lstsq", "lu", "lu_factor", "lu_solve",
    "solve_circulant", "solve_toeplitz", "solve_triangular",
]  # fmt: skip
