"""Further functions of `scipy.linalg`: functions of matrices, banded and structured matrices, Riccati
equations.

All are compositions, but for Riccati equations and Schur forms: SciPy finds the solution, and the equation
gives its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

import iverson as iv
from iverson.array_api.conventions.operands import as_real
from iverson.core.aval import Aval
from iverson.core.dispatch import bind
from iverson.core.errors import GradientError, ShapeError
from iverson.core.protocols import NDArray
from iverson.core.shapes import check_choice
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting, theirs
from iverson.interop.scipy.optimize import solution
from iverson.linalg import matrix_exp as expm
from iverson.linalg import norm, solve, svd
from iverson.transforms.python_callbacks import External, external


def _adjoint(x: Tensor) -> Tensor:
    return iv.conj(x).mT


def _of_exponentials(name: str, of: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def call(A: ArrayLike) -> Tensor:
        x = iv.asarray(A)
        result = of(x)
        return result if x.dtype.kind == "c" else iv.real(result)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.linalg.{name}`, by exponentials of matrices."
    return call


cosm = _of_exponentials("cosm", lambda x: 0.5 * (expm(1j * x) + expm(-1j * x)))
sinm = _of_exponentials("sinm", lambda x: -0.5j * (expm(1j * x) - expm(-1j * x)))
tanm = _of_exponentials("tanm", lambda x: solve(cosm(x), sinm(x)))
coshm = _of_exponentials("coshm", lambda x: 0.5 * (expm(x) + expm(-x)))
sinhm = _of_exponentials("sinhm", lambda x: 0.5 * (expm(x) - expm(-x)))
tanhm = _of_exponentials("tanhm", lambda x: solve(coshm(x), sinhm(x)))


def expm_frechet(
    A: ArrayLike,
    E: ArrayLike,
    method: str | None = None,
    compute_expm: bool = True,
    check_finite: bool = True,
) -> Any:
    """The exponential of A and its derivative along E, from the exponential of a block triangular matrix
    (N. J. Higham, Functions of Matrices, 2008, equation 10.43).

    >>> expm_frechet(iv.asarray([[0.]]), iv.asarray([[2.]]))[1]
    iverson.Tensor([[2.]])
    """
    a, e = iv.asarray(A), iv.asarray(E)
    n = a.shape[0]
    rows = [iv.concat([a, e], axis=1), iv.concat([iv.zeros_like(a), a], axis=1)]
    exponential = expm(iv.concat(rows, axis=0))
    slope = exponential[:n, n:]
    return (exponential[:n, :n], slope) if compute_expm else slope


def khatri_rao(a: ArrayLike, b: ArrayLike) -> Tensor:
    """The Kronecker products of columns of two matrices.

    >>> khatri_rao(iv.asarray([[1., 2.]]), iv.asarray([[3., 4.], [5., 6.]]))
    iverson.Tensor([[ 3.,  8.],
                    [ 5., 12.]])
    """
    x, y = iv.asarray(a), iv.asarray(b)
    product = iv.expand_dims(x, axis=1) * iv.expand_dims(y, axis=0)
    return iv.reshape(product, (x.shape[0] * y.shape[0], x.shape[1]))


def orthogonal_procrustes(A: ArrayLike, B: ArrayLike, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """The orthogonal R that makes A @ R nearest to B, and the sum of singular values of A^H B.

    >>> orthogonal_procrustes(iv.asarray([[1.]]), iv.asarray([[-2.]]))
    (iverson.Tensor([[-1.]]), iverson.Tensor(2.))
    """
    u, w, vt = svd(iv.conj(_adjoint(iv.asarray(B)) @ iv.asarray(A)).mT, full_matrices=False)
    return u @ vt, iv.sum(w)


def subspace_angles(A: ArrayLike, B: ArrayLike) -> Tensor:
    """The angles between the spaces of columns of two matrices, decreasing; of small angles by their sines.

    >>> subspace_angles(iv.asarray([[1.], [0.]]), iv.asarray([[1.], [1.]])).round(decimals=6)
    iverson.Tensor([0.785398])
    """
    a, b = (iv.linalg.qr(iv.asarray(x), mode="reduced")[0] for x in (A, B))
    product = _adjoint(a) @ b
    cosines = iv.linalg.svdvals(product)
    if b.shape[1] >= a.shape[1]:
        sines = iv.linalg.svdvals(a - b @ _adjoint(product))
    else:
        sines = iv.linalg.svdvals(b - a @ product)
    by_sines = iv.flip(cosines[: sines.shape[0]])
    small = sines**2 < 0.5
    return iv.where(small, iv.asin(iv.where(small, sines, 0.0)), iv.acos(iv.where(small, 0.0, by_sines)))


def companion(a: ArrayLike) -> Tensor:
    """The matrix whose characteristic polynomial has these coefficients, the highest first.

    >>> companion(iv.asarray([1., -3., 2.]))
    iverson.Tensor([[ 3., -2.],
                    [ 1.,  0.]])
    """
    x = iv.asarray(a)
    n = x.shape[0] - 1
    return iv.concat([iv.expand_dims(-x[1:] / x[0], axis=0), iv.eye(n, dtype=x.dtype)[: n - 1]], axis=0)


def fiedler(a: ArrayLike) -> Tensor:
    """The absolute differences of all pairs.

    >>> fiedler(iv.asarray([1., 3.]))
    iverson.Tensor([[0., 2.],
                    [2., 0.]])
    """
    x = iv.asarray(a)
    return iv.abs(iv.expand_dims(x, axis=1) - x)


def leslie(f: ArrayLike, s: ArrayLike) -> Tensor:
    """The matrix of fecundities in the first row and survival rates below the diagonal.

    >>> leslie(iv.asarray([1., 2.]), iv.asarray([0.5]))
    iverson.Tensor([[1. , 2. ],
                    [0.5, 0. ]])
    """
    first, rates = iv.asarray(f), iv.asarray(s)
    below = iv.concat([iv.diag(rates), iv.zeros((rates.shape[0], 1), dtype=rates.dtype)], axis=1)
    return iv.concat([iv.expand_dims(first, axis=0), below], axis=0)


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Tensor:
    """The matrix whose product with a vector of n entries is its convolution with a.

    >>> convolution_matrix(iv.asarray([1., 2.]), 2)
    iverson.Tensor([[1., 0.],
                    [2., 1.],
                    [0., 2.]])
    """
    x = iv.asarray(a)
    pattern = theirs("linalg.convolution_matrix")(np.arange(1.0, x.shape[0] + 1), n, mode).astype(int)
    return iv.where(pattern > 0, x[np.maximum(pattern - 1, 0)], 0.0)  # type: ignore[no-any-return]


def diagsvd(s: ArrayLike, M: int, N: int) -> Tensor:
    """The matrix of a shape with singular values on its diagonal.

    >>> diagsvd(iv.asarray([2.]), 1, 2)
    iverson.Tensor([[2., 0.]])
    """
    x = iv.asarray(s)
    return iv.pad(iv.diag(x), [(0, M - x.shape[0]), (0, N - x.shape[0])])


def _tridiagonal(d: ArrayLike, e: ArrayLike) -> Tensor:
    off = iv.diag_embed(iv.asarray(e), 1)
    return iv.diag(iv.asarray(d)) + off + off.mT


def _picked(w: Tensor, select: str, select_range: Setting) -> Any:
    if select in ("a", "all"):
        return slice(None)
    if select in ("i", "index"):
        return slice(select_range[0], select_range[1] + 1)
    values = np.asarray(w.detach())
    return np.flatnonzero((values > select_range[0]) & (values <= select_range[1]))


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Setting = None,
    **_: Setting,
) -> Any:
    """Eigenvalues of a symmetric tridiagonal matrix, increasing, and their vectors.

    >>> eigh_tridiagonal(iv.asarray([1., 1.]), iv.asarray([0.5]))[0]
    iverson.Tensor([0.5, 1.5])
    """
    w, v = iv.linalg.eigh(_tridiagonal(d, e))
    at = _picked(w, select, select_range)
    return w[at] if eigvals_only else (w[at], v[:, at])


def eigvalsh_tridiagonal(
    d: ArrayLike, e: ArrayLike, select: str = "a", select_range: Setting = None, **_: Setting
) -> Tensor:
    """The eigenvalues of `eigh_tridiagonal`."""
    w: Tensor = eigh_tridiagonal(d, e, True, select, select_range)
    return w


def _from_bands(bands: ArrayLike, lower: bool) -> Tensor:
    """The Hermitian matrix of stored bands."""
    x = iv.asarray(bands)
    count, n = x.shape
    total = iv.diag(x[0 if lower else count - 1])
    for k in range(1, count):
        side = iv.diag_embed(x[k, : n - k], -k) if lower else iv.diag_embed(x[count - 1 - k, k:], k)
        total = total + side + _adjoint(side)
    return total


def eig_banded(
    a_band: ArrayLike,
    lower: bool = False,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Setting = None,
    **_: Setting,
) -> Any:
    """Eigenvalues of a Hermitian banded matrix, increasing, and their vectors.

    >>> eig_banded(iv.asarray([[1., 1.], [0.5, 0.]]), lower=True)[0]
    iverson.Tensor([0.5, 1.5])
    """
    w, v = iv.linalg.eigh(_from_bands(a_band, lower))
    at = _picked(w, select, select_range)
    return w[at] if eigvals_only else (w[at], v[:, at])


def eigvals_banded(
    a_band: ArrayLike, lower: bool = False, select: str = "a", select_range: Setting = None, **_: Setting
) -> Tensor:
    """The eigenvalues of `eig_banded`."""
    w: Tensor = eig_banded(a_band, lower, True, select, select_range)
    return w


def cholesky_banded(ab: ArrayLike, lower: bool = False, **_: Setting) -> Tensor:
    """The bands of the Cholesky factor of a positive definite banded matrix.

    >>> cholesky_banded(iv.asarray([[4., 4.]]))
    iverson.Tensor([[2., 2.]])
    """
    bands = iv.asarray(ab)
    count = bands.shape[0]
    factor = iv.linalg.cholesky(_from_bands(bands, lower), upper=not lower)
    rows = []
    for k in range(count):
        diagonal = iv.linalg.diagonal(factor, offset=-k if lower else k)
        rows.append(iv.pad(diagonal, [(0, k) if lower else (k, 0)]))
    return iv.stack(rows if lower else rows[::-1])


def cho_solve_banded(cb_and_lower: tuple[ArrayLike, bool], b: ArrayLike, **_: Setting) -> Tensor:
    """x with a @ x = b, from what `cholesky_banded` gives of a.

    >>> cho_solve_banded((iv.asarray([[2., 2.]]), False), iv.asarray([4., 8.]))
    iverson.Tensor([1., 2.])
    """
    bands, lower = iv.asarray(cb_and_lower[0]), cb_and_lower[1]
    count, n = bands.shape
    factor = iv.diag(bands[0 if lower else count - 1])
    for k in range(1, count):
        factor = factor + (
            iv.diag_embed(bands[k, : n - k], -k) if lower else iv.diag_embed(bands[count - 1 - k, k:], k)
        )
    return iv.linalg.cholesky_solve(b, factor, upper=not lower)


def pinvh(
    a: ArrayLike, atol: float | None = None, rtol: float | None = None, lower: bool = True, **_: Setting
) -> Tensor:
    """The pseudoinverse of a Hermitian matrix.

    >>> pinvh(iv.asarray([[2., 0.], [0., 0.]]))
    iverson.Tensor([[0.5, 0. ],
                    [0. , 0. ]])
    """
    return iv.linalg.pinv(iv.asarray(a), rtol=rtol)


def expm_cond(A: ArrayLike, check_finite: bool = True) -> Tensor:
    """The relative condition number of the exponential, in the Frobenius norm.

    >>> expm_cond(iv.asarray([[2.]]))
    iverson.Tensor(2.)
    """
    x = iv.asarray(A)
    jacobian = iv.jacobian(lambda a: iv.reshape(expm(a), (-1,)))(x)
    matrix = iv.reshape(jacobian, (x.size, x.size))
    return norm(matrix, ord=2) * norm(x) / norm(expm(x))  # type: ignore[no-any-return]


def solve_continuous_are(
    a: ArrayLike,
    b: ArrayLike,
    q: ArrayLike,
    r: ArrayLike,
    e: ArrayLike | None = None,
    s: ArrayLike | None = None,
    balanced: bool = True,
) -> Tensor:
    """The stabilising x with e^H x a + a^H x e - (e^H x b + s) r^-1 (b^H x e + s^H) + q = 0.

    Derivatives are of the implicit function theorem. Raises as SciPy where there is no such x.

    >>> one = iv.asarray([[1.0]])
    >>> solve_continuous_are(one, one, one, one).round(decimals=6)
    iverson.Tensor([[2.414214]])
    """

    def parts(x: Tensor, E: Tensor | None, A: Tensor, B: Tensor, R: Tensor) -> tuple[Tensor, ...]:
        first, right = (x, x) if E is None else (_adjoint(E) @ x, x @ E)
        return first @ A + _adjoint(A) @ right, first @ B, _adjoint(B) @ right, R

    return _riccati("solve_continuous_are", (a, b, q, r, e, s), balanced, parts)


def _riccati(
    name: str,
    operands: tuple[ArrayLike | None, ...],
    balanced: bool,
    parts: Callable[..., tuple[Tensor, ...]],
) -> Tensor:
    """The solution x of an equation: linear - (gain + s) weight^-1 (other + s^H) + q = 0.

    name : of SciPy's function. operands : a, b, q, r, e, s. parts : gives the linear part, the gain, the
    other factor and the weight, from x, e, a, b and r.
    """
    xs = [None if x is None else iv.asarray(x) for x in operands]
    numbers = [None if x is None else np.array(x.detach()) for x in xs]
    A, B, Q, R = (iv.asarray(x) for x in xs[:4] if x is not None)
    E, S = xs[4:]

    def condition(x: Setting) -> Any:
        linear, gain, other, weight = parts(x, E, A, B, R)
        if S is not None:
            gain, other = gain + S, other + _adjoint(S)
        return linear - gain @ solve(weight, other) + Q

    return solution(condition, theirs(f"linalg.{name}")(*numbers, balanced=balanced))


def solve_discrete_are(
    a: ArrayLike,
    b: ArrayLike,
    q: ArrayLike,
    r: ArrayLike,
    e: ArrayLike | None = None,
    s: ArrayLike | None = None,
    balanced: bool = True,
) -> Tensor:
    """The stabilising x with a^H x a - e^H x e - (a^H x b + s) (r + b^H x b)^-1 (b^H x a + s^H) + q = 0.

    As `solve_continuous_are`.

    >>> one = iv.asarray([[1.0]])
    >>> solve_discrete_are(one, one, one, one).round(decimals=6)
    iverson.Tensor([[1.618034]])
    """

    def parts(x: Tensor, E: Tensor | None, A: Tensor, B: Tensor, R: Tensor) -> tuple[Tensor, ...]:
        inside = x if E is None else _adjoint(E) @ x @ E
        right = x @ A
        linear = _adjoint(A) @ right - inside
        return linear, _adjoint(A) @ x @ B, _adjoint(B) @ right, R + _adjoint(B) @ x @ B

    return _riccati("solve_discrete_are", (a, b, q, r, e, s), balanced, parts)


# --- triangular forms ---------------------------------------------------------------


def rq(a: ArrayLike, mode: Literal["full", "economic", "r"] = "full") -> Any:
    """r and q with a = r @ q: upper triangular from the right end, and orthonormal rows; r alone for "r".

    By the QR decomposition of the rows and columns in reverse. Raises as `iverson.linalg.qr`.

    >>> abs(rq(iv.asarray([[3., 4.]]), mode="r"))
    iverson.Tensor([[0., 5.]])
    """
    x = iv.flip(iv.asarray(a)).mT
    q, r = iv.linalg.qr(x, mode="reduced" if mode == "economic" else "complete")
    triangle = iv.flip(r.mT)
    return triangle if mode == "r" else (triangle, iv.flip(q.mT))


def signm(A: ArrayLike) -> Tensor:
    """The sign of a square matrix: a @ sqrtm(a @ a)^-1 (N. J. Higham, Functions of Matrices, 2008, 5.1).

    Raises LinearAlgebraError for an eigenvalue on the imaginary axis.

    >>> signm(iv.asarray([[2., 0.], [0., -3.]]))
    iverson.Tensor([[ 1.,  0.],
                    [ 0., -1.]])
    """
    x = iv.asarray(A)
    return x @ iv.linalg.inv(iv.linalg.sqrtm(x @ x))


def schur(
    a: ArrayLike,
    output: Literal["real", "complex"] = "real",
    lwork: int | None = None,
    overwrite_a: bool = False,
    sort: Setting = None,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """t, upper triangular, and a unitary z with a = z @ t @ z^H; the number of eigenvalues that ``sort`` puts
    first, too, if it is given.

    The values are SciPy's. Columns of z may have any phase, and the derivative keeps it: z^H dz is 0 on the
    diagonal. A real form with pairs of complex eigenvalues, whose t has blocks of two, has values alone.

    Raises GradientError for a matrix that tracks gradients and has equal eigenvalues, at which the form has
    no derivative, or such pairs; ShapeError unless it is square.

    Source: with dz = z @ x and e = z^H da z the part of t @ x - x @ t below the diagonal is that of -e; in
    the eigenvectors of t this is a quotient for each entry.

    >>> t, z = schur(iv.asarray([[2., 1.], [0., 3.]]))
    >>> t, abs(z)
    (iverson.Tensor([[2., 1.],
                     [0., 3.]]), iverson.Tensor([[1., 0.],
                     [0., 1.]]))
    """
    check_choice(output, ("real", "complex"), "schur", "output")
    x = as_real(iv.asarray(a), "schur", "a", "fc")
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise ShapeError("schur", "a", got=f"shape {x.shape}", expected="a square matrix")
    dtype = np.dtype(x.dtype if output == "real" else np.result_type(x.dtype, "complex64"))
    results = (*[Aval(x.shape, dtype)] * 2, *([Aval((), np.dtype("int64"))] if sort is not None else []))

    def of_array(x: NDArray) -> tuple[Any, ...]:
        return theirs("linalg.schur")(x, output=output, sort=sort, check_finite=check_finite)  # type: ignore[no-any-return]

    def of_simple(x: NDArray) -> tuple[Any, ...]:
        parts = of_array(x)
        _check_simple(parts[0])
        return parts

    @iv.custom_jvp
    def form(x: Tensor) -> Any:
        return bind(external, (x,), {"of": External(of_array, results)})

    @iv.custom_jvp
    def simple(x: Tensor) -> Any:
        return bind(external, (x,), {"of": External(of_simple, results)})

    @form.defjvp
    @simple.defjvp
    def rule(primals: tuple[Tensor], tangents: tuple[Tensor]) -> tuple[Any, Any]:
        t, z, *number = simple(*primals)
        e = _adjoint(z) @ tangents[0] @ z
        vectors = iv.linalg.eig(t)[1]  # upper triangular, in the order of the diagonal
        vectors = vectors if dtype.kind == "c" else iv.real(vectors)
        gaps = iv.linalg.diagonal(t) - iv.linalg.diagonal(t)[:, None]
        below = iv.tril(iv.ones(t.shape, dtype=bool), k=-1)
        quotients = iv.where(below, solve(vectors, e @ vectors) / iv.where(below, gaps, 1), 0)
        turn = iv.tril(vectors @ quotients @ iv.linalg.inv(vectors), k=-1)
        turn = turn - _adjoint(turn)
        slopes = iv.triu(e + t @ turn - turn @ t), z @ turn
        return (t, z, *number), (*slopes, *map(iv.zeros_like, number))

    return tuple(form(x))


def _check_simple(t: NDArray) -> None:
    """Raise GradientError unless the diagonal of a Schur form has the eigenvalues, each once."""
    w = np.diagonal(t)
    apart = abs(w - w[:, None])
    np.fill_diagonal(apart, np.inf)
    has_pairs = np.tril(t, -1).any()
    if has_pairs or apart.min(initial=np.inf) <= np.finfo(t.dtype).eps * abs(t).max(initial=0.0):
        raise GradientError(
            "schur", "a",
            got="pairs of complex eigenvalues in a real form" if has_pairs else "equal eigenvalues",
            expected="distinct eigenvalues on the diagonal, where the form has a derivative",
            remedy='take output="complex"' if has_pairs else "call detach()",
        )  # fmt: skip


__all__ = [
    "cho_solve_banded", "cholesky_banded", "companion", "convolution_matrix", "coshm", "cosm", "diagsvd",
    "eig_banded", "eigh_tridiagonal", "eigvals_banded", "eigvalsh_tridiagonal", "expm_cond", "expm_frechet",
    "fiedler", "khatri_rao", "leslie", "orthogonal_procrustes", "pinvh", "rq", "schur", "signm", "sinhm",
    "sinm", "solve_continuous_are", "solve_discrete_are", "subspace_angles", "tanhm", "tanm",
]  # fmt: skip
