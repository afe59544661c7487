"""Krylov solvers: solutions and eigenpairs by SciPy's iterative methods, on full and sparse matrices.

SciPy reads a matrix by its products with vectors alone, so a function of vectors serves as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from iverson.core.errors import ConvergenceWarning, DTypeError, LinearAlgebraError
from iverson.core.op import Op
from iverson.core.protocols import DType, Params
from iverson.core.python.caller import warn
from iverson.kernels.kernel_registry import Values
from iverson.kernels.sparse.sparse_operands import is_sparse, sparse, sparse_only
from iverson.kernels.sparse.sparse_products import solved, to_scipy
from iverson.layouts import coalesced, is_strided, to_strided

if TYPE_CHECKING:
    from scipy.sparse import sparray
    from scipy.sparse.linalg import LinearOperator

Array = np.ndarray[Any, Any]
Apply = Callable[[Array], Array]
#: A matrix as SciPy takes it.
Matrix: TypeAlias = "Array | sparray | LinearOperator"


@dataclass(frozen=True, eq=False, slots=True)
class Preconditioner:
    """A linear map near the inverse of a matrix, and the adjoint map: functions of vectors."""

    apply: Apply
    adjoint: Apply

    @property
    def turned(self) -> Preconditioner:
        """Preconditioner of the adjoint matrix."""
        return Preconditioner(self.adjoint, self.apply)


def preconditioned(
    matrix: Matrix, m: Preconditioner | Literal["jacobi", "ilu"] | None, operation: str, dtype: DType
) -> Any:
    """SciPy operator for the argument ``M`` of its solvers of ``matrix``; None if ``m`` is None.

    m : "jacobi" for the inverse of the diagonal, "ilu" for incomplete LU factors, or a map of vectors.
    operation : the name of the function, for errors.
    dtype : of the solution. Raises DTypeError if that is real and ``m`` gives complex vectors.
    """
    from scipy.sparse.linalg import LinearOperator, spilu

    if m is None:
        return None
    if m == "jacobi":
        diagonal = np.asarray(matrix.diagonal())
        if not diagonal.all():
            raise LinearAlgebraError(
                operation,
                "M",
                got="a diagonal with zeros",
                expected="none for M='jacobi'",
                remedy="try 'ilu'",
            )
        apply: Apply = lambda v: v.reshape(-1) / diagonal
    elif m == "ilu":
        from scipy.sparse import csc_array

        try:
            apply = spilu(csc_array(matrix, dtype=dtype)).solve
        except RuntimeError as error:
            raise LinearAlgebraError(
                operation, "M", got=str(error), expected="a matrix with incomplete factors"
            ) from None
    else:

        def apply(v: Array) -> Array:
            vector: Array = m.apply(v)
            if vector.dtype.kind == "c" and dtype.kind != "c":
                raise DTypeError(
                    operation,
                    "M",
                    got=f"one that gives vectors of dtype {vector.dtype}",
                    expected=f"real vectors, as the solution is of dtype {dtype}",
                    remedy="make a or b complex, or take the real part",
                )
            return vector

    return LinearOperator(matrix.shape, apply, dtype=matrix.dtype)


def iterated(
    matrix: Matrix,
    b: Array,
    *,
    method: str,
    rtol: float,
    atol: float,
    maxiter: int | None,
    m: Preconditioner | Literal["jacobi", "ilu"] | None,
) -> Array:
    """Solution x of ``matrix @ x = b``, for one matrix (or SciPy operator), column by column of ``b``.

    method : "cg", "minres", "bicgstab", or "gmres" with the number of vectors that it keeps: "gmres(20)".
    """
    from scipy.sparse import linalg

    name, _, restart = method.partition("(")
    options: dict[str, Any] = {"rtol": rtol, "maxiter": maxiter}
    if name != "minres":
        options["atol"] = atol
    if name == "gmres":
        options["restart"] = int(restart[:-1]) if restart else None
    b = b.astype(np.result_type(matrix.dtype, b.dtype), copy=False)
    options["M"] = preconditioned(matrix, m, name, b.dtype)
    x = np.zeros_like(b)
    for k in range(b.shape[1]):
        with np.errstate(all="ignore"):  # what diverges is seen by its residual
            solution, _ = getattr(linalg, name)(matrix, b[:, k], **options)
            tolerance = max(rtol * float(np.linalg.norm(b[:, k])), atol)
        _check(name, matrix, b[:, k], solution, tolerance)
        x[:, k] = solution
    return x


def _check(method: str, matrix: Matrix, b: Array, x: Array, tolerance: float) -> None:
    """Warn if the iterations stopped early; raise LinearAlgebraError if ``x`` is no better than zero.

    The latter is usual for a singular matrix. The reports of SciPy's functions are not enough: for a singular
    matrix gmres may report a solution.
    """
    with np.errstate(all="ignore"):
        residual_norm, b_norm = float(np.linalg.norm(b - matrix @ x)), float(np.linalg.norm(b))
    if residual_norm <= 10 * tolerance + 100 * float(np.finfo(x.dtype).eps) * b_norm:
        return
    if not residual_norm <= b_norm:
        raise LinearAlgebraError(
            method,
            "a",
            got=f"a residual of norm {residual_norm:.1e} for b of norm {b_norm:.1e}",
            expected="a matrix with an inverse, of the kind that the method is for",
            remedy="try gmres with M='ilu', or spsolve",
        )
    warn(f"{method}: stopped where the residual is {residual_norm / b_norm:.1e} of b", ConvergenceWarning)


def iterative_solve(a: Array, b: Array, *, method: str, **options: Any) -> Array:
    """Body of the op `iterative_solve` on strided operands: solutions of ``a @ x = b``, also of batches."""
    dtype = np.result_type(a, b, np.float32)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    b = np.broadcast_to(b, (*batch, *b.shape[-2:])).astype(dtype, copy=False)
    x = np.empty(b.shape, dtype)
    for k in np.ndindex(*batch):
        x[k] = iterated(a[k], b[k], method=method, **options)
    return x


@sparse("iterative_solve")
def of_sparse(op: Op, values: Values, params: Params) -> Any:
    """The iterative solve with a sparse matrix."""
    return solved(op, values, params, lambda _: lambda s, b: iterated(to_scipy(s), b, **params))


# --- eigenpairs ---------------------------------------------------------------------------------------


def hermitian_part(a: Matrix) -> Any:
    """(A + A^H) / 2 of an array or a SciPy matrix, along the last two axes."""
    adjoint = a.conj().swapaxes(-1, -2) if is_strided(a) else a.conj().T
    return (a + adjoint) * 0.5


def eigenpairs(matrix: Matrix, *, k: int, which: str, method: str) -> tuple[Array, Array]:
    """k eigenvalues, increasing, and eigenvectors of one Hermitian matrix (or SciPy operator).

    which : "LA", "SA" or "LM", the largest, the smallest or the largest in absolute value.
    method : "lanczos" (ARPACK's) or "lobpcg"; both start from the same vectors in every call. Where k is not
        small next to the matrix, neither works, and all eigenvalues are found.
    """
    from scipy.sparse import linalg

    n, rng = matrix.shape[0], np.random.default_rng(0)
    if n < 5 * k:
        w, v = np.linalg.eigh(matrix @ np.eye(n))
        far = {"LA": w, "SA": -w, "LM": np.abs(w)}[which]
        order = np.sort(np.argsort(far)[n - k :])
        return w[order], v[:, order]
    dtype = np.dtype(matrix.dtype)
    try:
        if method == "lobpcg":
            start = rng.standard_normal((n, k)).astype(dtype)
            tol = 100 * float(np.finfo(dtype).eps)
            w, v = linalg.lobpcg(matrix, start, largest=which == "LA", tol=tol, maxiter=20 * n + 200)
        else:
            start = rng.standard_normal(n).astype(dtype)
            w, v = linalg.eigsh(matrix, k, which=which, v0=start)
    except linalg.ArpackError as error:
        raise LinearAlgebraError(
            "eigsh", "a", got=str(error), expected="a matrix of which Lanczos steps find these eigenvalues"
        ) from None
    order = np.argsort(w)
    return w[order], v[:, order]


def eigsh(a: Array, **options: Any) -> tuple[Array, Array]:
    """Body of the op `eigsh` on strided operands: eigenvalues and eigenvectors of each matrix of a batch."""
    a = hermitian_part(a)
    pairs = [eigenpairs(a[i], **options) for i in np.ndindex(*a.shape[:-2])]
    real, k = a.real.dtype, options["k"]
    w = np.empty((len(pairs), k), real)
    v = np.empty((len(pairs), a.shape[-1], k), a.dtype)
    for i, (values, vectors) in enumerate(pairs):
        w[i], v[i] = values, vectors
    return w.reshape(*a.shape[:-2], k), v.reshape(*a.shape[:-1], k)


@sparse("eigsh")
def eigsh_of_sparse(_op: Op, values: Values, params: Params) -> Any:
    """The eigenpairs of one sparse matrix."""
    (a,) = values
    if len(a.shape) != 2:
        return NotImplemented
    matrix = to_scipy(coalesced(sparse_only(a)))
    return eigenpairs(hermitian_part(matrix.astype(np.result_type(matrix.dtype, np.float32))), **params)


def bordered_solve(a: Array, w: Array, v: Array, g: Array, h: Array) -> tuple[Array, Array]:
    """Body of the op `bordered_solve` on strided operands: x and m, where column j of x and m[j] solve
    ``(a - w[j]) x - v[:, j] m = g[:, j]`` and ``-v[:, j]^H x = h[j]``.

    The result is nan in columns for which this system is singular.
    """
    a, dtype = hermitian_part(a), np.result_type(a, v, g, h)
    n, k = v.shape[-2:]
    bordered = np.zeros((*v.shape[:-2], k, n + 1, n + 1), dtype)
    columns = v.swapaxes(-1, -2)
    bordered[..., :n, :n] = a[..., None, :, :] - w[..., None, None] * np.eye(n)
    bordered[..., :n, n] = -columns
    bordered[..., n, :n] = -columns.conj()
    rhs = np.concatenate([g.swapaxes(-1, -2), h[..., None]], -1)[..., None]
    try:
        solutions = np.linalg.solve(bordered, rhs)[..., 0]
    except np.linalg.LinAlgError:  # an eigenvalue that is there twice
        solutions = np.full(rhs.shape[:-1], np.nan, dtype)
    x = np.ascontiguousarray(solutions[..., :n].swapaxes(-1, -2))
    return _without_noise(x, g, h, np.linalg.norm(a, axis=(-2, -1))), np.ascontiguousarray(solutions[..., n])


def _without_noise(x: Array, g: Array, h: Array, size: Array | np.floating[Any]) -> Array:
    """Solution ``x`` with nan in the columns of a system that is singular up to rounding.

    Such a column is so large that the system divided by no more than a few eps of the norm of the matrix.

    size : the norm of the matrix, or of each matrix of a batch.
    """
    size = np.asarray(size)[..., None]
    limit = 4 * x.shape[-2] * float(np.finfo(x.dtype).eps) * size
    x_norm, rhs_norm = np.linalg.norm(x, axis=-2), np.linalg.norm(g, axis=-2) + np.abs(h) * size
    return np.where(((x_norm * limit >= rhs_norm) & (x_norm > 0))[..., None, :], np.nan, x)


@sparse("bordered_solve")
def bordered_of_sparse(op: Op, values: Values, params: Params) -> Any:
    """Kernel of the op `bordered_solve` for one sparse matrix, by SuperLU."""
    import scipy.sparse
    from scipy.sparse.linalg import splu

    a = values[0]
    if not is_sparse(a) or len(a.shape) != 2:
        return NotImplemented
    w, v, g, h = map(to_strided, values[1:])
    matrix = hermitian_part(to_scipy(coalesced(sparse_only(a))))
    n, k = v.shape
    dtype = np.result_type(matrix.dtype, v, g, h)
    x, m = np.full((n, k), np.nan, dtype), np.full(k, np.nan, dtype)
    for i in range(k):
        column = v[:, i : i + 1]
        shifted = matrix - w[i] * scipy.sparse.eye_array(n)
        bordered = scipy.sparse.block_array([[shifted, -column], [-column.conj().T, None]], format="csc")
        try:
            solution = splu(bordered.astype(dtype)).solve(np.append(g[:, i], h[i]).astype(dtype))
        except RuntimeError:  # an eigenvalue that is there twice
            continue
        x[:, i], m[i] = solution[:n], solution[n]
    return _without_noise(x, g, h, np.linalg.norm(matrix.data)), m


__all__ = [
    "Preconditioner",
    "bordered_solve",
    "eigenpairs",
    "eigsh",
    "hermitian_part",
    "iterated",
    "iterative_solve",
]
