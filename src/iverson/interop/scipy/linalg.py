"""Linear algebra under the names and with the arguments of `scipy.linalg`, differentiable in every matrix.

Functions that `iverson.linalg` has are those; equations of matrices are one solve whose derivative is the
same solve, and banded systems go through sparse factors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

import iverson as iv
from iverson.array_api.conventions.operands import as_real
from iverson.array_api.linear_algebra.triangular import hermitian
from iverson.core.errors import ArgumentTypeError, ShapeError
from iverson.core.protocols import NDArray
from iverson.core.shapes import as_int, check_choice
from iverson.handles import Tensor
from iverson.interop.scipy import matrix_functions
from iverson.interop.scipy.by_matrix.linear_maps import Setting
from iverson.interop.scipy.matrix_functions import *  # noqa: F403
from iverson.linalg import (
    block_diag,
    det,
    eig,
    eigvals,
    inv,
    logm,
    lu,
    lu_factor,
    norm,
    pinv,
    solve,
    solve_circulant,
    sqrtm,
    svdvals,
)
from iverson.linalg import matrix_exp as expm
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.array_api.linear_algebra.systems import LUFactorResult
    from iverson.handles.typing import ArrayLike


def _matrix(x: ArrayLike, operation: str, argument: str, square: bool = True) -> Tensor:
    matrix: Tensor = F.to_dense(as_real(x, operation, argument, "fc"))
    if matrix.ndim != 2 or (square and matrix.shape[0] != matrix.shape[1]):
        kind = "a square matrix" if square else "a matrix"
        raise ShapeError(operation, argument, got=f"shape {matrix.shape}", expected=kind)
    return matrix


def _vector(x: ArrayLike, operation: str, argument: str) -> Tensor:
    vector: Tensor = F.to_dense(as_real(x, operation, argument, "fc"))
    if vector.ndim != 1:
        raise ShapeError(operation, argument, got=f"shape {vector.shape}", expected="a vector")
    return vector


def _adjoint(x: Tensor) -> Tensor:
    return iv.conj(x).mT


def cholesky(a: ArrayLike, lower: bool = False) -> Tensor:
    """The triangular factor, upper unless ``lower``: a = U^H U or L L^H.

    Raises as `iverson.linalg.cholesky`.

    >>> cholesky(iv.asarray([[4., 2.], [2., 2.]]))
    iverson.Tensor([[2., 1.],
                    [0., 1.]])
    """
    return iv.linalg.cholesky(a, upper=not lower)


def cho_factor(a: ArrayLike, lower: bool = False) -> tuple[Tensor, bool]:
    """Argument of `cho_solve`: the factor of `cholesky`, and ``lower``.

    >>> cho_factor(iv.asarray([[4.]]))
    (iverson.Tensor([[2.]]), False)
    """
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike) -> Tensor:
    """x with a @ x = b, from what `cho_factor` returns of a.

    Raises ArgumentTypeError for anything else, and as `iverson.linalg.cholesky_solve`.

    >>> cho_solve(cho_factor(iv.asarray([[4., 0.], [0., 2.]])), iv.asarray([4., 4.]))
    iverson.Tensor([1., 2.])
    """
    if not isinstance(c_and_lower, tuple) or len(c_and_lower) != 2:
        raise ArgumentTypeError(
            "cho_solve",
            "c_and_lower",
            got=f"a {type(c_and_lower).__name__}",
            expected="what cho_factor returns",
        )
    return iv.linalg.cholesky_solve(b, c_and_lower[0], upper=not c_and_lower[1])


def lu_solve(
    lu_and_piv: LUFactorResult | tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: Literal[0, 1, 2] = 0
) -> Tensor:
    """x with a @ x = b, from what `lu_factor` returns of a; with a^T for ``trans`` 1, a^H for 2.

    The second part of what `lu_factor` returns is an order of rows, not SciPy's list of exchanges. Raises as
    `iverson.linalg.lu_solve`.

    >>> lu_solve(lu_factor(iv.asarray([[1., 3.], [2., 4.]])), iv.asarray([4., 6.]))
    iverson.Tensor([1., 1.])
    """
    check_choice(trans, (0, 1, 2), "lu_solve", "trans")
    if trans == 1:  # conj(a^H conj(b))
        return iv.conj(iv.linalg.lu_solve(lu_and_piv, iv.conj(iv.asarray(b)), adjoint=True))
    return iv.linalg.lu_solve(lu_and_piv, b, adjoint=trans == 2)


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """x with T @ x = b for the upper triangle T of a, or the lower one; T^T for ``trans`` 1 or "T", T^H for 2
    or "C".

    Raises as `iverson.linalg.solve_triangular`.

    >>> solve_triangular(iv.asarray([[2., 1.], [0., 1.]]), iv.asarray([3., 1.]))
    iverson.Tensor([1., 1.])
    """
    check_choice(trans, (0, 1, 2, "N", "T", "C"), "solve_triangular", "trans")
    way: Any = trans if isinstance(trans, str) else "NTC"[trans]
    return iv.linalg.solve_triangular(a, b, lower=lower, trans=way, unit_diagonal=unit_diagonal)


def solve_toeplitz(c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike], b: ArrayLike) -> Tensor:
    """x with T @ x = b for the Toeplitz matrix of a first column, or of a pair of it and the first row.

    Raises as `iverson.linalg.solve_toeplitz`.

    >>> solve_toeplitz((iv.asarray([2., 0.]), iv.asarray([2., 1.])), iv.asarray([3., 2.]))
    iverson.Tensor([1., 1.])
    """
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return iv.linalg.solve_toeplitz(c, b, r=r)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Tensor:
    """The matrix with c[i - j] on and below the diagonal and r[j - i] above; r is the conjugate of c unless
    given, and its first entry is not read.

    Raises ShapeError unless they are vectors.

    >>> toeplitz(iv.asarray([1., 2.]), iv.asarray([1., 3.]))
    iverson.Tensor([[1., 3.],
                    [2., 1.]])
    """
    column = _vector(c, "toeplitz", "c")
    row = iv.conj(column) if r is None else _vector(r, "toeplitz", "r")
    down, right = np.indices((column.shape[0], row.shape[0]))
    return iv.concat([iv.flip(row[1:]), column])[down - right + row.shape[0] - 1]


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Tensor:
    """The matrix with c[i + j] where there is one, else r[i + j - n + 1] for the n entries of c.

    r is 0 unless given, and its first entry is not read. Raises ShapeError unless they are vectors.

    >>> hankel(iv.asarray([1., 2.]), iv.asarray([0., 3.]))
    iverson.Tensor([[1., 2.],
                    [2., 3.]])
    """
    column = _vector(c, "hankel", "c")
    row = iv.zeros_like(column) if r is None else _vector(r, "hankel", "r")
    down, right = np.indices((column.shape[0], row.shape[0]))
    return iv.concat([column, row[1:]])[down + right]


def circulant(c: ArrayLike) -> Tensor:
    """The matrix with c[(i - j) % n].

    Raises ShapeError unless c is a vector.

    >>> circulant(iv.asarray([1., 2.]))
    iverson.Tensor([[1., 2.],
                    [2., 1.]])
    """
    column = _vector(c, "circulant", "c")
    down, right = np.indices((column.shape[0],) * 2)
    return column[(down - right) % max(column.shape[0], 1)]


def fractional_matrix_power(A: ArrayLike, t: float) -> Tensor:
    """The power t of a square matrix: for a whole number by products, else the exponential of t logm(A).

    Raises ShapeError unless the matrix is square, LinearAlgebraError where it has no logarithm.

    >>> fractional_matrix_power(iv.asarray([[4., 0.], [0., 9.]]), 0.5).round(decimals=6)
    iverson.Tensor([[2., 0.],
                    [0., 3.]])
    """
    x = _matrix(A, "fractional_matrix_power", "A")
    return iv.linalg.matrix_power(x, int(t)) if t == int(t) else expm(t * logm(x))


def polar(a: ArrayLike, side: Literal["right", "left"] = "right") -> tuple[Tensor, Tensor]:
    """u and p with a = u @ p, or p @ u for the left side: orthonormal columns (or rows) and a Hermitian p.

    By the square root of the smaller of a^H a and a a^H, so that equal singular values have derivatives, too;
    the price is a relative error of the square of the condition number. Raises ShapeError for what is no
    matrix, LinearAlgebraError for a matrix without full rank.

    >>> polar(iv.asarray([[0., -2.], [3., 0.]]))[1].round(decimals=6)
    iverson.Tensor([[3., 0.],
                    [0., 2.]])
    """
    check_choice(side, ("right", "left"), "polar", "side")
    x = _matrix(a, "polar", "a", square=False)
    if x.shape[0] >= x.shape[1]:
        u = _adjoint(solve(sqrtm(_adjoint(x) @ x), _adjoint(x)))
    else:
        u = solve(sqrtm(x @ _adjoint(x)), x)
    p = _adjoint(u) @ x if side == "right" else x @ _adjoint(u)
    return u, (p + _adjoint(p)) / 2


def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Tensor:
    """x with a @ x + x @ b = q.

    By Schur forms (R. H. Bartels and G. W. Stewart, Comm. ACM 15, 1972); the derivative dx solves the same
    equation for dq - da @ x - x @ db. Raises ShapeError where shapes do not fit.

    >>> solve_sylvester(iv.asarray([[1.]]), iv.asarray([[2.]]), iv.asarray([[6.]]))
    iverson.Tensor([[2.]])
    """
    arguments = {"a": a, "b": b, "q": q}
    xs = [_matrix(x, "solve_sylvester", n, square=n != "q") for n, x in arguments.items()]
    dtype = iv.result_type(*xs)
    x: Tensor = F.solve_sylvester(*(iv.astype(x, dtype) for x in xs))
    return x


def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike) -> Tensor:
    """x with a @ x + x @ a^H = q, as `solve_sylvester`.

    >>> solve_continuous_lyapunov(iv.asarray([[1.]]), iv.asarray([[6.]]))
    iverson.Tensor([[3.]])
    """
    return solve_sylvester(a, _adjoint(_matrix(a, "solve_continuous_lyapunov", "a")), q)


solve_lyapunov = solve_continuous_lyapunov


def solve_discrete_lyapunov(a: ArrayLike, q: ArrayLike) -> Tensor:
    """x with a @ x @ a^H - x + q = 0.

    By b = (a^H - 1) (a^H + 1)^-1, with which it is a continuous equation (as SciPy's "bilinear" method); so
    that -1 may not be an eigenvalue. Raises ShapeError where shapes do not fit, LinearAlgebraError there.

    >>> solve_discrete_lyapunov(iv.asarray([[0.5]]), iv.asarray([[3.]]))
    iverson.Tensor([[4.]])
    """
    x = _adjoint(_matrix(a, "solve_discrete_lyapunov", "a"))
    identity = iv.eye(x.shape[0], dtype=x.dtype)
    inverse = inv(x + identity)
    b = (x - identity) @ inverse
    return solve_sylvester(
        _adjoint(b), b, -2 * (_adjoint(inverse) @ _matrix(q, "solve_discrete_lyapunov", "q") @ inverse)
    )


@overload
def eigh(
    a: ArrayLike, b: ArrayLike | None = None, lower: bool = True, eigvals_only: Literal[False] = False
) -> tuple[Tensor, Tensor]: ...
@overload
def eigh(
    a: ArrayLike, b: ArrayLike | None = None, lower: bool = True, *, eigvals_only: Literal[True]
) -> Tensor: ...
def eigh(
    a: ArrayLike, b: ArrayLike | None = None, lower: bool = True, eigvals_only: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """w, increasing, and v with a @ v = b @ v * w and v^H @ b @ v the identity, which is b unless given.

    Of both Hermitian matrices the lower triangle is read, or the upper one; b is positive definite, and its
    Cholesky factor makes the problem an ordinary one. Raises ShapeError where shapes do not fit,
    LinearAlgebraError for a b that is not positive definite.

    >>> eigh(iv.asarray([[2., 0.], [0., 8.]]), iv.asarray([[1., 0.], [0., 2.]]))[0]
    iverson.Tensor([2., 4.])
    """
    x = _hermitian(a, "eigh", "a", lower)
    if b is None:
        if eigvals_only:
            return iv.linalg.eigvalsh(x)
        w, v = iv.linalg.eigh(x)
        return w, v
    factor = iv.linalg.cholesky(_hermitian(b, "eigh", "b", lower))
    half = iv.linalg.solve_triangular(factor, x, lower=True)
    inner = _adjoint(iv.linalg.solve_triangular(factor, _adjoint(half), lower=True))
    if eigvals_only:
        return iv.linalg.eigvalsh(inner)
    w, v = iv.linalg.eigh(inner)
    return w, iv.linalg.solve_triangular(factor, v, lower=True, trans="C")


def eigvalsh(a: ArrayLike, b: ArrayLike | None = None, lower: bool = True) -> Tensor:
    """The eigenvalues of `eigh`.

    >>> eigvalsh(iv.asarray([[2., 0.], [0., 1.]]))
    iverson.Tensor([1., 2.])
    """
    return eigh(a, b, lower, eigvals_only=True)


def _hermitian(x: ArrayLike, operation: str, argument: str, lower: bool) -> Tensor:
    """Hermitian matrix from one triangle of ``x``, with a real diagonal."""
    matrix: Tensor = hermitian(_matrix(x, operation, argument), lower, operation, argument)
    return matrix


@overload
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: Literal[True] = True
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def svd(a: ArrayLike, full_matrices: bool = True, *, compute_uv: Literal[False]) -> Tensor: ...
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """u, s and vh with a = u @ diag(s) @ vh, or s alone. Raises as `iverson.linalg.svd`.

    >>> svd(iv.asarray([[2., 0.], [0., 3.]]), compute_uv=False)
    iverson.Tensor([3., 2.])
    """
    x = _matrix(a, "svd", "a", square=False)
    if not compute_uv:
        return svdvals(x)
    u, s, vh = iv.linalg.svd(x, full_matrices=full_matrices)
    return u, s, vh


def qr(a: ArrayLike, mode: Literal["full", "economic", "r"] = "full") -> tuple[Tensor, ...]:
    """q and r with a = q @ r; r alone for the mode "r". Raises as `iverson.linalg.qr`.

    >>> abs(qr(iv.asarray([[3.], [4.]]), mode="r")[0][0])
    iverson.Tensor([5.])
    """
    check_choice(mode, ("full", "economic", "r"), "qr", "mode")
    x = _matrix(a, "qr", "a", square=False)
    q, r = iv.linalg.qr(x, mode="reduced" if mode == "economic" else "complete")
    return (r,) if mode == "r" else (q, r)


def lstsq(a: ArrayLike, b: ArrayLike, cond: float | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The least-squares solution, the sums of squares that it leaves, the rank and the singular values.

    As `iverson.linalg.lstsq`, with ``cond`` for ``rtol``.

    >>> lstsq(iv.asarray([[1., 0.], [1., 1.], [1., 2.]]), iv.asarray([1., 3., 5.]))[0].round(decimals=6)
    iverson.Tensor([1., 2.])
    """
    x, residues, rank, s = iv.linalg.lstsq(a, b, rtol=cond)
    return x, residues, rank, s


def null_space(A: ArrayLike, rcond: float | None = None) -> Tensor:
    """Orthonormal columns that span what A maps to 0.

    Singular values up to ``rcond`` times the largest, by default max(m, n) * eps, count as 0. Which basis of
    the space it is follows from A as it is; as A changes with its rank, the basis is the one of the new
    space that is nearest to it (the polar factor of its projection), so that it has derivatives of any order
    although there are no singular vectors with equal values. Entries of A are read: not in a trace.

    >>> null_space(iv.asarray([[1., 0., 0.], [0., 2., 0.]]))
    iverson.Tensor([[0.],
                    [0.],
                    [1.]])
    """
    x = _matrix(A, "null_space", "A", square=False)
    _, vh, rank, rtol = _decomposed(x, rcond)
    inverse = pinv(x, rtol=rtol)
    return _nearest(lambda basis: basis - inverse @ (x @ basis), vh[rank:].conj().T)


def orth(A: ArrayLike, rcond: float | None = None) -> Tensor:
    """Orthonormal columns that span the columns of A; as `null_space` in all else.

    >>> abs(orth(iv.asarray([[2., 4.], [0., 0.]])))
    iverson.Tensor([[1.],
                    [0.]])
    """
    x = _matrix(A, "orth", "A", square=False)
    u, _, rank, rtol = _decomposed(x, rcond)
    inverse = pinv(x, rtol=rtol)
    return _nearest(lambda basis: x @ (inverse @ basis), u[:, :rank])


def _decomposed(x: Tensor, rcond: float | None) -> tuple[NDArray, NDArray, int, float]:
    """Left and right singular vectors of ``x`` as NumPy arrays, its rank, and the relative bound used for the
    rank.
    """
    u, s, vh = np.linalg.svd(x.detach().numpy())
    rtol = float(np.finfo(s.dtype).eps) * max(x.shape) if rcond is None else rcond
    return u, vh, int((s > rtol * s.max(initial=0)).sum()), rtol


def _nearest(project: Callable[[Tensor], Tensor], basis: NDArray) -> Tensor:
    """Orthonormal basis of the range of a projector that is nearest to ``basis``, a basis of the same range.

    ``project`` depends on tracked tensors, ``basis`` is constant; so the result can be differentiated.
    """
    if not basis.size:
        return iv.asarray(basis)
    projected = project(iv.asarray(basis))
    return projected @ inv(sqrtm(_adjoint(projected) @ projected))


def cdf2rdf(w: ArrayLike, v: ArrayLike) -> tuple[Tensor, Tensor]:
    """Complex eigenvalues and vectors of a real matrix as a real matrix with blocks, and real vectors.

    Each pair a + ib, a - ib is the block [[a, b], [-b, a]]. Which eigenvalues are complex is read: not in a
    trace. Raises ShapeError where shapes do not fit or eigenvalues come in no pairs.

    >>> w, v = iv.linalg.eig(iv.asarray([[0., 2.], [-2., 0.]]))
    >>> cdf2rdf(w, v)[0].round(decimals=6)
    iverson.Tensor([[ 0.,  2.],
                    [-2.,  0.]])
    """
    values, vectors = _vector(w, "cdf2rdf", "w"), _matrix(v, "cdf2rdf", "v", square=False)
    n = values.shape[0]
    at = np.flatnonzero(values.detach().numpy().imag)
    if vectors.shape[1] != n or at.size % 2:
        description = f"{at.size} complex ones of {n} for vectors of shape {vectors.shape}"
        raise ShapeError("cdf2rdf", "w", got=description, expected="pairs of conjugates, a column for each")
    first, second = at[::2], at[1::2]
    other = np.zeros((n, n))
    other[first, second] = other[second, first] = 1.0
    turn = np.eye(n, dtype=complex)
    turn[first, first], turn[first, second] = 0.5j, 0.5
    turn[second, first], turn[second, second] = -0.5j, 0.5
    blocks = iv.diag(iv.real(values)) + iv.expand_dims(iv.imag(values), axis=1) * other
    return blocks, iv.real(vectors @ turn)


def _banded(operation: str, entries: list[tuple[int, Tensor]], n: int, b: ArrayLike) -> Tensor:
    """Solution of a banded system with right sides ``b``, by sparse factors.

    entries : pairs of a diagonal's offset above the main one, and its entries.
    """
    right = F.to_dense(as_real(b, operation, "b", "fc"))
    if right.ndim not in (1, 2) or right.shape[0] != n:
        raise ShapeError(operation, "b", got=f"shape {right.shape}", expected=f"{n} rows")
    rows = [np.arange(max(-k, 0), n - max(k, 0)) for k, _ in entries]
    columns = [r + k for r, (k, _) in zip(rows, entries, strict=True)]
    values = iv.concat([v for _, v in entries])
    dtype = iv.result_type(values, right)
    at = np.stack([np.concatenate(rows), np.concatenate(columns)])
    matrix = iv.sparse_coo_tensor(at, iv.astype(values, dtype), (n, n))
    return iv.spsolve(iv.to_layout(iv.coalesce(matrix), "csr"), iv.astype(right, dtype))


def solve_banded(l_and_u: tuple[int, int], ab: ArrayLike, b: ArrayLike) -> Tensor:
    """x with A @ x = b for A[i, j] = ab[u + i - j, j], with l diagonals below the main one and u above.

    Raises ShapeError where shapes do not fit, LinearAlgebraError for a singular matrix.

    >>> solve_banded((1, 0), iv.asarray([[1., 1.], [1., 0.]]), iv.asarray([1., 3.]))
    iverson.Tensor([1., 2.])
    """
    below, above = (as_int(k, "solve_banded", "l_and_u") for k in l_and_u)
    x = _matrix(ab, "solve_banded", "ab", square=False)
    n = x.shape[1]
    if x.shape[0] != below + above + 1:
        raise ShapeError(
            "solve_banded", "ab", got=f"shape {x.shape}", expected=f"{below + above + 1} rows for l_and_u"
        )
    inside = [k for k in range(-below, above + 1) if abs(k) < n]
    return _banded("solve_banded", [(k, x[above - k, max(k, 0) : n + min(k, 0)]) for k in inside], n, b)


def solveh_banded(ab: ArrayLike, b: ArrayLike, lower: bool = False) -> Tensor:
    """x with A @ x = b for the Hermitian positive definite matrix of which ab has the upper diagonals, or the
    lower ones: A[i, j] = ab[u + i - j, j] for i <= j, or ab[i - j, j] for i >= j.

    Raises ShapeError where shapes do not fit, LinearAlgebraError for a singular matrix. That the matrix is
    positive definite is not checked.

    >>> solveh_banded(iv.asarray([[0., 1.], [2., 2.]]), iv.asarray([3., 3.]))
    iverson.Tensor([1., 1.])
    """
    x = _matrix(ab, "solveh_banded", "ab", square=False)
    u, n = x.shape[0] - 1, x.shape[1]
    entries = []
    for k in range(min(u + 1, n)):
        diagonal = x[k, : n - k] if lower else x[u - k, k:]
        if k == 0:  # as LAPACK reads it
            entries.append((0, diagonal if diagonal.dtype.kind == "f" else iv.real(diagonal) + 0j))
        else:
            entries += (
                [(-k, diagonal), (k, iv.conj(diagonal))]
                if lower
                else [(k, diagonal), (-k, iv.conj(diagonal))]
            )
    return _banded("solveh_banded", entries, n, b)


def matmul_toeplitz(
    c_or_cr: Setting, x: ArrayLike, check_finite: bool = False, workers: int | None = None
) -> Tensor:
    """The product of a Toeplitz matrix, of its first column or of a pair of it and the first row.

    >>> matmul_toeplitz(iv.asarray([1., 2.]), iv.asarray([1., 0.]))
    iverson.Tensor([1., 2.])
    """
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return toeplitz(c, r) @ iv.asarray(x)


__all__ = [  # noqa: PLE0604
    "matmul_toeplitz", *matrix_functions.__all__, "block_diag", "cdf2rdf", "cho_factor", "cho_solve",
    "cholesky", "circulant", "det", "eig", "eigh", "eigvals", "eigvalsh", "expm", "fractional_matrix_power",
    "hankel", "inv", "logm", "lstsq", "lu", "lu_factor", "lu_solve", "norm", "null_space", "orth", "pinv",
    "polar", "qr", "solve", "solve_banded", "solve_circulant", "solve_continuous_lyapunov",
    "solve_discrete_lyapunov", "solve_lyapunov", "solve_sylvester", "solve_toeplitz", "solve_triangular",
    "solveh_banded", "sqrtm", "svd", "svdvals", "toeplitz",
]  # fmt: skip
