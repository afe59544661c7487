"""Functions of `scipy.sparse.linalg` on tensors in any layout, and on SciPy's sparse matrices beside tensors.

Solvers are those of `iverson.linalg`; where SciPy has many iterative methods for one solution, whose
derivative is the same, each is a direct solve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

import iverson as iv
from iverson.core.errors import ArgumentError
from iverson.core.shapes import check_choice
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting, theirs


def operand(x: Setting) -> Tensor:
    """A tensor of a matrix: of SciPy's sparse ones in their layout."""
    return iv.from_scipy(x) if scipy.sparse.issparse(x) else iv.asarray(x)


def _solution(A: ArrayLike, b: ArrayLike) -> Tensor:
    a, right = operand(A), operand(b)
    solved: Tensor = iv.linalg.solve(a, right) if a.layout == "strided" else iv.spsolve(a, right)
    return solved


def spsolve(A: ArrayLike, b: ArrayLike, permc_spec: str | None = None, use_umfpack: bool = True) -> Tensor:
    """x with A @ x = b, for a sparse or dense matrix. Raises as `iverson.spsolve`.

    >>> spsolve(scipy.sparse.csr_array([[2., 0.], [0., 4.]]), iv.asarray([2., 2.]))
    iverson.Tensor([1. , 0.5])
    """
    return _solution(A, b)


def spsolve_triangular(
    A: ArrayLike,
    b: ArrayLike,
    lower: bool = True,
    overwrite_A: bool = False,
    overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """x with A @ x = b, for a triangular matrix.

    >>> spsolve_triangular(scipy.sparse.csr_array([[2., 0.], [2., 4.]]), iv.asarray([2., 2.]))
    iverson.Tensor([1., 0.])
    """
    return iv.linalg.solve_triangular(operand(A).to_dense(), b, lower=lower, unit_diagonal=unit_diagonal)


def _iterative(name: str, extra: int = 0) -> Callable[..., tuple[Any, ...]]:
    """A solver that iterates, by factors: SciPy's arguments are taken, and tolerances are met by far."""

    def call(A: ArrayLike, b: ArrayLike, x0: ArrayLike | None = None, **options: Setting) -> tuple[Any, ...]:
        return _solution(A, b), 0

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.sparse.linalg.{name}`: x with A @ x = b, by factors, and 0 for success."
    return call


bicg, bicgstab, cg, cgs = map(_iterative, ("bicg", "bicgstab", "cg", "cgs"))
gcrotmk, gmres, lgmres = map(_iterative, ("gcrotmk", "gmres", "lgmres"))
minres, qmr, tfqmr = map(_iterative, ("minres", "qmr", "tfqmr"))


class Factors:
    """Factors of a sparse matrix, SciPy's own, whose ``solve`` takes tensors, too."""

    def __init__(self, matrix: Setting, theirs: Setting) -> None:
        self._matrix, self._theirs = matrix, theirs

    def solve(self, rhs: ArrayLike, trans: str = "N") -> Any:
        """x with A @ x = rhs, A^T for "T" and A^H for "H"."""
        if not isinstance(rhs, Tensor):
            return self._theirs.solve(rhs, trans)
        a = operand(self._matrix)
        return _solution(a if trans == "N" else a.mT if trans == "T" else iv.conj(a).mT, rhs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)


def _factors(name: str) -> Callable[..., Factors]:
    def call(A: ArrayLike, **options: Setting) -> Factors:
        matrix = scipy.sparse.csc_array(np.array(A.detach()) if isinstance(A, Tensor) else A)
        return Factors(A, theirs(f"sparse.linalg.{name}")(matrix, **options))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.sparse.linalg.{name}`, whose ``solve`` takes tensors, too: by the matrix itself."
    call.of_arrays = True  # type: ignore[attr-defined]
    return call


splu, spilu = map(_factors, ("splu", "spilu"))


def factorized(A: ArrayLike) -> Callable[[ArrayLike], Tensor]:
    """Function that solves A @ x = b for x.

    >>> factorized(scipy.sparse.csc_array([[2., 0.], [0., 4.]]))(iv.asarray([2., 2.]))
    iverson.Tensor([1. , 0.5])
    """
    return splu(A).solve


factorized.of_arrays = True  # type: ignore[attr-defined]


def expm(A: ArrayLike) -> Tensor:
    """The exponential of a square matrix.

    >>> expm(iv.asarray([[0., 1.], [0., 0.]]))
    iverson.Tensor([[1., 1.],
                    [0., 1.]])
    """
    return iv.linalg.matrix_exp(operand(A).to_dense())


def expm_multiply(A: ArrayLike, B: ArrayLike, **options: Setting) -> Tensor:
    """The exponential of A times B.

    >>> expm_multiply(iv.asarray([[0., 1.], [0., 0.]]), iv.asarray([1., 2.]))
    iverson.Tensor([3., 2.])
    """
    return expm(A) @ operand(B)


def inv(A: ArrayLike) -> Tensor:
    """The inverse of a square matrix, dense.

    >>> inv(iv.asarray([[2., 0.], [0., 4.]]))
    iverson.Tensor([[0.5 , 0.  ],
                    [0.  , 0.25]])
    """
    return iv.linalg.inv(operand(A).to_dense())


def matrix_power(A: ArrayLike, power: int) -> Tensor:
    """A whole power of a square matrix.

    >>> matrix_power(iv.asarray([[1., 1.], [0., 1.]]), 3)
    iverson.Tensor([[1., 3.],
                    [0., 1.]])
    """
    return iv.linalg.matrix_power(operand(A).to_dense(), power)


def norm(x: ArrayLike, ord: Setting = None, axis: Setting = None) -> Tensor:
    """A norm of a matrix, as `iverson.linalg.norm`.

    >>> norm(iv.asarray([[3., 0.], [0., 4.]]))
    iverson.Tensor(5.)
    """
    return iv.linalg.norm(operand(x).to_dense(), ord=ord, axis=axis)


def onenormest(A: ArrayLike, **options: Setting) -> Tensor:
    """The 1-norm of a matrix, exactly.

    >>> onenormest(iv.asarray([[3., 0.], [0., 4.]]))
    iverson.Tensor(4.)
    """
    return iv.linalg.norm(operand(A).to_dense(), ord=1)


_ORDERS: dict[str, Callable[[Any], Any]] = {
    "LM": lambda w: -np.abs(w), "SM": np.abs, "LA": lambda w: -w, "SA": lambda w: w,
    "LR": lambda w: -w.real, "SR": lambda w: w.real,
}  # fmt: skip


def _picked(values: Tensor, k: int, choice: str) -> np.ndarray[Any, Any]:
    return np.argsort(_ORDERS[choice](np.asarray(values.detach())), kind="stable")[:k]


def _choice(operation: str, M: None, options: dict[str, Setting], choices: str) -> str:
    """The argument ``which`` of a function of SciPy; raises ArgumentError for others than the choices, and
    for a generalised problem."""
    if M is not None:
        raise ArgumentError(
            operation, "M", got="a matrix", expected="None: the problem is an ordinary one here"
        )
    choice: str = options.get("which", "LM")
    check_choice(choice, tuple(choices.split()), operation, "which")
    return choice


def eigsh(
    A: ArrayLike,
    k: int = 6,
    M: None = None,
    sigma: float | None = None,
    *,
    return_eigenvectors: bool = True,
    **options: Setting,
) -> Any:
    """k eigenvalues of a Hermitian matrix and their vectors, increasing, by a dense decomposition.

    >>> eigsh(iv.asarray([[2., 0.], [0., 3.]]), k=1)[0]
    iverson.Tensor([3.])
    """
    w, v = iv.linalg.eigh(operand(A).to_dense())
    choice = _choice("eigsh", M, options, "LM SM LA SA")
    near = w if sigma is None else -1 / iv.abs(w - sigma)
    at = np.sort(_picked(near, k, choice if sigma is None else "LM"))
    return (w[at], v[:, at]) if return_eigenvectors else w[at]


def eigs(
    A: ArrayLike,
    k: int = 6,
    M: None = None,
    sigma: complex | None = None,
    *,
    return_eigenvectors: bool = True,
    **options: Setting,
) -> Any:
    """k eigenvalues of a square matrix and their vectors, by a dense decomposition.

    >>> eigs(iv.asarray([[2., 0.], [0., 3.]]), k=1)[0]
    iverson.Tensor([3.+0.j])
    """
    w, v = iv.linalg.eig(operand(A).to_dense())
    choice = _choice("eigs", M, options, "LM SM LR SR")
    at = _picked(w if sigma is None else 1 / (w - sigma), k, choice)
    return (w[at], v[:, at]) if return_eigenvectors else w[at]


def svds(A: ArrayLike, k: int = 6, *, return_singular_vectors: bool = True, **options: Setting) -> Any:
    """The k largest singular values, or the smallest with "SM", increasing, and their vectors.

    >>> svds(iv.asarray([[2., 0.], [0., 3.]]), k=1)[1]
    iverson.Tensor([3.])
    """
    u, s, vh = iv.linalg.svd(operand(A).to_dense(), full_matrices=False)
    largest = _choice("svds", None, options, "LM SM") == "LM"
    at = np.arange(k)[::-1] if largest else np.arange(s.shape[0] - 1, s.shape[0] - 1 - k, -1)
    return (u[:, at], s[at], vh[at]) if return_singular_vectors else s[at]


def aslinearoperator(A: ArrayLike) -> Tensor:
    """The matrix itself: a tensor is its own operator.

    >>> aslinearoperator(scipy.sparse.csr_array([[2.]])) @ iv.asarray([3.])
    iverson.Tensor([6.])
    """
    return operand(A)


__all__ = [
    "aslinearoperator", "bicg", "bicgstab", "cg", "cgs", "eigs", "eigsh", "expm", "expm_multiply",
    "factorized",
    "gcrotmk", "gmres", "inv", "lgmres", "matrix_power", "minres", "norm", "onenormest", "qmr", "spilu",
    "splu", "spsolve",
    "spsolve_triangular", "svds", "tfqmr",
]  # fmt: skip
