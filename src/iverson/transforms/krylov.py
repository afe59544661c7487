"""Krylov methods for linear systems and eigenpairs, of matrices and of functions of vectors.

Matrices are handed to ops of the table (`iverson.ops.linear_algebra.krylov_ops`). A `LinearOperator` is known
by its products alone: SciPy iterates with these, and what it finds is differentiated as the solution of an
equation (`iverson.transforms.implicit`), by the same method with the transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, final

import numpy as np

from iverson.array_api.conventions.operands import as_inexact, as_plain, check_entries
from iverson.array_api.entries.creation import asarray, zeros
from iverson.array_api.entries.joining import concat, stack
from iverson.array_api.linear_algebra.contraction import matmul
from iverson.array_api.linear_algebra.decompositions import EighResult
from iverson.array_api.sparse_arrays.factorized import Factorized
from iverson.autograd.mode import recording
from iverson.core import dtypes
from iverson.core.dispatch import Operand, is_tracked
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GradientError,
    ShapeError,
    described,
)
from iverson.core.inputs.arguments import as_function, checked
from iverson.core.protocols import NDArray, Params
from iverson.core.shapes import Shape, as_int, as_shape, check_choice
from iverson.kernels import krylov_solvers
from iverson.kernels.krylov_solvers import Preconditioner
from iverson.ops import F
from iverson.transforms.derivatives import vjp
from iverson.transforms.implicit import implicit

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.tensor import Tensor
    from iverson.handles.typing import ArrayLike, DTypeLike

    #: An inverse that is easy to apply: a name, a matrix, or a function of a vector.
    PreconditionerLike: TypeAlias = (
        ArrayLike
        | Factorized
        | "LinearOperator"
        | Callable[[Tensor], Tensor]
        | Literal["jacobi", "ilu"]
        | None
    )


@final
class LinearOperator:
    """A matrix that is known by its products with vectors.

    Parameters
    ----------
    matvec : a linear function of a vector of n entries, which gives one of m. Solutions differentiate in the
        tracked tensors that it reads.
    shape : (m, n).
    dtype : the dtype of the vectors.

    Of a function that is not linear, nothing here holds; this is not checked. A sparse matrix is better
    handed over itself: its gradient is then computed where it is asked for alone.

    Raises ShapeError unless the shape is that of a matrix.

    >>> from iverson import asarray
    >>> d = asarray([1.0, 2.0], requires_grad=True)
    >>> operator = LinearOperator(lambda v: d * v, (2, 2))
    >>> x = cg(operator, asarray([2.0, 2.0]))
    >>> x.sum().backward(); d.grad                       # -b / d^2
    iverson.Tensor([-2. , -0.5])
    """

    __slots__ = ("_adjoint", "_matvec", "dtype", "shape")

    def __init__(
        self,
        matvec: Callable[[Tensor], Tensor],
        shape: Sequence[SupportsIndex],
        dtype: DTypeLike | None = None,
    ) -> None:
        as_function(matvec, "LinearOperator", "matvec")
        self._matvec = matvec
        self.shape = as_shape(shape, "LinearOperator")
        if len(self.shape) != 2:
            raise ShapeError("LinearOperator", "shape", got=str(self.shape), expected="two extents")
        self.dtype = dtypes.as_dtype("float64" if dtype is None else dtype, "LinearOperator")

    def __matmul__(self, x: Array | ArrayLike) -> Any:
        """The product with a vector, or with each column of a matrix."""
        x = asarray(x)
        if not 1 <= x.ndim <= 2 or x.shape[0] != self.shape[1]:
            raise ShapeError(
                "LinearOperator", "x", got=f"shape {x.shape}", expected=f"{self.shape[1]} entries, or rows"
            )
        if x.ndim == 2:
            return stack([self @ x[:, k] for k in range(x.shape[1])], axis=1)
        y = asarray(self._matvec(x))
        if y.shape != self.shape[:1]:
            raise ShapeError(
                "LinearOperator", "matvec", got=f"shape {y.shape}", expected=f"shape {self.shape[:1]}"
            )
        return y

    @property
    def H(self) -> LinearOperator:
        """The adjoint, by the pullback of ``matvec``."""
        m, n = self.shape
        start = zeros(n, dtype=self.dtype)
        return LinearOperator(lambda w: vjp(self._matvec, start)[1](w)[0], (n, m), self.dtype)

    def __repr__(self) -> str:
        return f"LinearOperator({self.shape}, {self.dtype})"


def _on_numbers(operator: LinearOperator) -> Any:
    """SciPy LinearOperator that multiplies NumPy vectors as ``operator`` multiplies tensors."""
    from scipy.sparse.linalg import LinearOperator as SciPys

    return SciPys(operator.shape, _numbers(lambda v: operator @ v), dtype=operator.dtype)


def _numbers(product: Callable[[Tensor], Tensor]) -> Any:
    def call(v: NDArray) -> Any:
        with recording(False):
            return np.array(product(asarray(np.reshape(v, -1).copy())).detach().numpy())

    return call


def _preconditioner(m: Any, operation: str, shape: Shape) -> Any:
    """Preconditioner ``m`` in the form that kernels take: None, a name, or a `Preconditioner` on NumPy
    vectors.

    shape : the shape of the matrix of the system; raises ShapeError if ``m`` has another.
    """
    if m is None or isinstance(m, str):
        if m is not None:
            check_choice(m, ("jacobi", "ilu"), operation, "M")
        return m
    if isinstance(m, Factorized):
        return Preconditioner(_numbers(m), _numbers(lambda v: m(v.conj(), transposed=True).conj()))
    if not isinstance(m, LinearOperator):
        if callable(m) and not isinstance(m, Operand):
            m = LinearOperator(m, shape)
        elif isinstance(m, Operand | np.ndarray):
            matrix: Any = m
            check_entries(
                operation,
                matrix,
                decides="the preconditioner M",
                remedy="name one ('jacobi', 'ilu'), or make M of what is no argument of the transform",
            )
            preconditioner = as_inexact(as_plain(matrix, operation, "M"), operation, "M").detach()
            m = LinearOperator(lambda v: matmul(preconditioner, v), preconditioner.shape[-2:])
        else:
            raise ArgumentTypeError(
                operation,
                "M",
                got=described(m),
                expected="'jacobi', 'ilu', a matrix, a LinearOperator or a function of a vector",
            )
    if m.shape != shape:
        raise ShapeError(operation, "M", got=f"shape {m.shape}", expected=f"shape {shape}")
    return Preconditioner(_numbers(lambda v: m @ v), _numbers(lambda v: m.H @ v))


def _solved(
    method: str,
    a: ArrayLike | LinearOperator,
    b: ArrayLike,
    x0: ArrayLike | None,
    rtol: float | None,
    atol: float,
    maxiter: SupportsIndex | None,
    m: PreconditionerLike,
) -> Any:
    """Solution x of A x = b by ``method``; for a LinearOperator, only products with A are used.

    method : name of the method; "gmres(k)" keeps k vectors. m : the preconditioner.
    """
    name = method.partition("(")[0]
    a = a if isinstance(a, LinearOperator) else as_inexact(a, name, "a")
    b = as_inexact(as_plain(b, name, "b") if isinstance(a, LinearOperator) else b, name, "b")
    if len(a.shape) < 2 or a.shape[-2] != a.shape[-1]:
        raise ShapeError(name, "a", got=f"shape {a.shape}", expected="square matrices")
    n = a.shape[-1]
    if not b.ndim or b.shape[max(b.ndim - 2, 0)] != n:
        raise ShapeError(
            name,
            "b",
            got=f"shape {b.shape} for a of shape {a.shape}",
            expected=f"shape ({n},) or (..., {n}, k)",
        )
    if name == "minres" and "c" in (a.dtype.kind, b.dtype.kind):
        raise DTypeError(name, got="a complex dtype", expected="real matrices", remedy="use gmres")
    if rtol is None:
        rtol = float(np.finfo(dtypes.result_type(a, b)).eps) ** (2 / 3)
    limit = None if maxiter is None else as_int(maxiter, name, "maxiter")
    if rtol < 0 or atol < 0 or (limit is not None and limit < 1):
        raise ArgumentError(
            name,
            got=f"rtol={rtol}, atol={atol}, maxiter={limit}",
            expected="no tolerance below 0, a step or more",
        )
    options = {
        "method": method, "rtol": float(rtol), "atol": float(atol), "maxiter": limit,
        "m": _preconditioner(m, name, tuple(a.shape[-2:])),
    }  # fmt: skip
    if x0 is not None:
        start = as_inexact(as_plain(x0, name, "x0"), name, "x0")
        if is_tracked(start):
            raise GradientError(
                name,
                "x0",
                got="a tensor that tracks gradients",
                expected="numbers: a solution does not depend on where the search for it starts",
                remedy="call x0.detach()",
            )
        return start + _from_zero(a, b - a @ start, options)
    return _from_zero(a, b, options)


def _from_zero(a: Tensor | LinearOperator, b: Tensor, options: Params) -> Any:
    if not isinstance(a, LinearOperator):
        if b.ndim > 1:
            return F.iterative_solve(a, b, **options)
        solution = F.iterative_solve(a, F.expand_dims(b, axis=(1,)), **options)
        return F.squeeze(solution, axis=(solution.ndim - 1,))
    if b.ndim == 2:
        return stack([_by_products(a, b[:, k], options) for k in range(b.shape[1])], axis=1)
    return _by_products(a, b, options)


def _by_products(a: LinearOperator, b: Tensor, options: Params) -> Any:
    """Solution of A x = b for one vector b and a LinearOperator, which can be differentiated.

    The pullback solves with the transpose of A by the same method.
    """
    if isinstance(options["m"], str):
        raise ArgumentError(
            options["method"].partition("(")[0],
            "M",
            got=repr(options["m"]),
            expected="a function of a vector: a LinearOperator has no entries",
        )

    def find() -> Any:
        right = np.array(b.detach().numpy())[:, None]
        return asarray(krylov_solvers.iterated(_on_numbers(a), right, **options)[:, 0])

    m = options["m"]
    transposed_options = {**options, "m": m.turned if m is not None else None}

    def transposed(product: Callable[[Tensor], Tensor], g: Tensor) -> Any:
        return _by_products(LinearOperator(product, a.shape, a.dtype), g, transposed_options)

    return implicit(lambda x: a @ x - b, find, zeros(b.shape, dtype=b.dtype), transposed)


@checked
def cg(
    a: ArrayLike | LinearOperator,
    b: ArrayLike,
    /,
    x0: ArrayLike | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: PreconditionerLike = None,
) -> Tensor:
    """x with a @ x = b for a Hermitian positive definite matrix, by conjugate gradients.

    Parameters
    ----------
    a : matrices of shape (..., n, n) in any layout, or a `LinearOperator`.
    b : a vector of n entries, or right-hand sides in columns, of shape (..., n, k).
    x0 : where to start, default 0. The search then goes on for what this leaves of b.
    rtol, atol : it ends where the residual is at most ``max(rtol * norm(b), atol)``; rtol is by default
        eps ** (2/3).
    maxiter : after how many steps it stops in any case.
    M : a preconditioner, near the inverse of a: "jacobi" (the diagonal), "ilu" (incomplete LU factors), a
        matrix, a `LinearOperator`, a function of a vector or a `Factorized`. It changes how fast the search
        is and nothing else.

    Returns
    -------
    x, in the shape of b. It differentiates in a and b, in both modes and to any order: a derivative is one
    more solve by the same method, and no step is recorded. Where the gradient is asked for at the stored
    entries of a sparse matrix alone, nothing of the size of the full matrix is made.

    Raises ShapeError, LinearAlgebraError where the search led nowhere; warns with
    `iverson.errors.ConvergenceWarning` where it stopped early. The iterations are SciPy's (M. R. Hestenes and
    E. Stiefel, J. Res. Natl. Bur. Stand. 49, 1952).

    >>> from iverson import asarray
    >>> a = asarray([[4.0, 1.0], [1.0, 3.0]]).to_layout("csr")
    >>> cg(a, asarray([1.0, 2.0]))
    iverson.Tensor([0.09090909, 0.63636364])
    """
    return _solved("cg", a, b, x0, rtol, atol, maxiter, M)  # type: ignore[no-any-return]


@checked
def minres(
    a: ArrayLike | LinearOperator,
    b: ArrayLike,
    /,
    x0: ArrayLike | None = None,
    *,
    rtol: float | None = None,
    maxiter: int | None = None,
    M: PreconditionerLike = None,
) -> Tensor:
    """x with a @ x = b for a symmetric matrix, definite or not, by the minimal residual method.

    Parameters and what it returns are those of `cg`, of real dtypes; ``M`` is symmetric positive definite.
    Raises and warns as `cg`. The iterations are SciPy's (C. C. Paige and M. A. Saunders, SIAM J. Numer. Anal.
    12, 1975).

    >>> from iverson import asarray
    >>> minres(asarray([[0.0, 1.0], [1.0, 0.0]]), asarray([1.0, 2.0])).round(decimals=6)
    iverson.Tensor([2., 1.])
    """
    return _solved("minres", a, b, x0, rtol, 0.0, maxiter, M)  # type: ignore[no-any-return]


@checked
def bicgstab(
    a: ArrayLike | LinearOperator,
    b: ArrayLike,
    /,
    x0: ArrayLike | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: PreconditionerLike = None,
) -> Tensor:
    """x with a @ x = b for a square matrix, by stabilized biconjugate gradients.

    Parameters and what it returns are those of `cg`. Raises and warns as `cg`. The iterations are SciPy's
    (H. A. van der Vorst, SIAM J. Sci. Stat. Comput. 13, 1992).

    >>> from iverson import asarray
    >>> bicgstab(asarray([[2.0, 1.0], [0.0, 1.0]]), asarray([3.0, 1.0])).round(decimals=6)
    iverson.Tensor([1., 1.])
    """
    return _solved("bicgstab", a, b, x0, rtol, atol, maxiter, M)  # type: ignore[no-any-return]


@checked
def gmres(
    a: ArrayLike | LinearOperator,
    b: ArrayLike,
    /,
    x0: ArrayLike | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: PreconditionerLike = None,
) -> Tensor:
    """x with a @ x = b for a square matrix, by the generalized minimal residual method.

    Parameters and what it returns are those of `cg`; ``restart`` is how many vectors are kept, default
    min(20, n), and ``maxiter`` counts restarts. Raises and warns as `cg`. The iterations are SciPy's (Y. Saad
    and M. H. Schultz, SIAM J. Sci. Stat. Comput. 7, 1986).

    >>> from iverson import asarray
    >>> gmres(asarray([[2.0, 1.0], [0.0, 1.0]]), asarray([3.0, 1.0]), M="jacobi").round(decimals=6)
    iverson.Tensor([1., 1.])
    """
    restart_count = None if restart is None else as_int(restart, "gmres", "restart")
    if restart_count is not None and restart_count < 1:
        raise ArgumentError("gmres", "restart", got=str(restart_count), expected="one vector or more")
    method = "gmres" if restart_count is None else f"gmres({restart_count})"
    return _solved(method, a, b, x0, rtol, atol, maxiter, M)  # type: ignore[no-any-return]


@checked
def eigsh(a: ArrayLike | LinearOperator, /, k: SupportsIndex = 6, *, which: str = "LM") -> EighResult:
    """k eigenvalues of Hermitian matrices, increasing, and orthonormal eigenvectors (as columns).

    Parameters
    ----------
    a : matrices of shape (..., n, n) in any layout, taken as (a + a^H) / 2, or a symmetric real
        `LinearOperator`.
    k : how many, at most n.
    which : "LA", "SA" or "LM": the largest, the smallest, or the largest in absolute value.

    Differentiable in a to any order: of each pair by a solve with the matrix shifted by the eigenvalue. Where
    an eigenvalue is there twice the derivatives of its vectors do not exist, and are nan. Raises ShapeError,
    ArgumentError, LinearAlgebraError where the iterations find fewer. These are ARPACK's, by SciPy (R. B.
    Lehoucq, D. C. Sorensen and C. Yang, ARPACK Users' Guide, 1998).

    >>> from iverson import asarray, diag
    >>> eigsh(diag(asarray([1.0, 5.0, 3.0])).to_layout("csr"), 2, which="LA").eigenvalues
    iverson.Tensor([3., 5.])
    """
    return _pairs("eigsh", a, k, which, "lanczos")


@checked
def lobpcg(a: ArrayLike | LinearOperator, /, k: SupportsIndex = 1, *, largest: bool = True) -> EighResult:
    """k largest (or smallest) eigenvalues of Hermitian matrices, increasing, and eigenvectors (as columns).

    As `eigsh`, by the locally optimal block preconditioned conjugate gradient method: for eigenvalues that
    are close to each other. The iterations are SciPy's (A. V. Knyazev, SIAM J. Sci. Comput. 23, 2001).

    >>> from iverson import asarray, diag
    >>> lobpcg(diag(asarray([1.0, 5.0, 3.0])), 1, largest=False).eigenvalues
    iverson.Tensor([1.])
    """
    return _pairs("lobpcg", a, k, "LA" if largest else "SA", "lobpcg")


def _pairs(name: str, a: ArrayLike | LinearOperator, k: SupportsIndex, which: str, method: str) -> EighResult:
    """Eigenvalues, increasing, and eigenvectors of a matrix or a LinearOperator, which must be real.

    name : the public function, for errors. method : the solver.
    """
    check_choice(which, ("LA", "SA", "LM"), name, "which")
    a = a if isinstance(a, LinearOperator) else as_inexact(a, name, "a")
    if len(a.shape) < 2 or a.shape[-2] != a.shape[-1]:
        raise ShapeError(name, "a", got=f"shape {a.shape}", expected="square matrices")
    count = as_int(k, name, "k")
    if not 1 <= count <= a.shape[-1]:
        raise ArgumentError(
            name, "k", got=str(count), expected=f"a number of eigenvalues from 1 to {a.shape[-1]}"
        )
    options: Any = {"k": count, "which": which, "method": method}
    if not isinstance(a, LinearOperator):
        return EighResult(*F.eigsh(a, **options))
    if a.dtype.kind == "c":
        raise DTypeError(name, "a", got=f"a LinearOperator of {a.dtype}", expected="a real one")
    w, v = krylov_solvers.eigenpairs(_on_numbers(a), **options)
    pairs = [_pair_by_products(a, w[i], v[:, i]) for i in range(count)]
    return EighResult(stack([z[-1] for z in pairs]), stack([z[:-1] for z in pairs], axis=1))


def _pair_by_products(a: LinearOperator, w: NDArray, v: NDArray) -> Any:
    """An eigenvector followed by its eigenvalue, in one vector that can be differentiated through.

    It is the solution (v, w) of (A v - w v, (1 - v^T v) / 2) = 0, whose Jacobian is symmetric.
    w, v : the eigenvalue and the eigenvector, as numbers.
    """
    n = a.shape[-1]

    def condition(z: Tensor) -> Any:
        v, w = z[:n], z[n:]
        return concat([a @ v - w * v, 0.5 - 0.5 * F.sum(v * v, axis=(0,), keepdims=True)])

    def transposed(product: Callable[[Tensor], Tensor], g: Tensor) -> Any:
        return minres(LinearOperator(product, (n + 1, n + 1), a.dtype), g)

    pair = np.append(v, w)
    return implicit(condition, lambda: asarray(pair), zeros(n + 1, dtype=a.dtype), transposed)


__all__ = ["LinearOperator", "bicgstab", "cg", "eigsh", "gmres", "lobpcg", "minres"]
