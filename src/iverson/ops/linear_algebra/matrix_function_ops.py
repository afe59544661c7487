"""Functions of square matrices: exponential, square root, logarithm; and Sylvester's equation.

Values are SciPy's. The derivative of each is a corner of the function itself of a block triangular matrix:
f([[A, E], [0, A]]) = [[f(A), L(A, E)], [0, f(A)]] with the Frechet derivative L, whose adjoint is L(A^H, .)
(N. J. Higham, Functions of Matrices, SIAM 2008, theorems 3.6 and 3.9). So derivatives of any order follow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.errors import LinearAlgebraError, ShapeError
from iverson.core.op import Op, Sample, Sampler, Wanted, reading
from iverson.core.protocols import DType, Namespace, NDArray, Shaped, Value
from iverson.core.region import Region
from iverson.core.table import define
from iverson.ops.linear_algebra.decomposition_ops import _lapack, _square, _well
from iverson.ops.linear_algebra.product_ops import cut
from iverson.ops.rules.batching import leading
from iverson.ops.rules.entry_maps import Batchwise
from iverson.ops.rules.recurrences import Coefficients, Recurrence, minus


def _abstract(name: str, x: Shaped) -> Aval:
    _square(name, x)
    return Aval(x.shape, dtypes.to_inexact(x.dtype))


def _frechet(F: Namespace, f: Callable[[Value], Value], x: Value, t: Value) -> Any:
    """The derivative of the matrix function ``f`` at x in the direction t, from f of one block matrix."""
    n, lead = x.shape[-1], (0,) * (x.ndim - 2)
    beside = {"axis": x.ndim - 1, "offsets": (0, n)}
    above, below = F.concat(x, t, **beside), F.concat(F.zero(x.shape, x.dtype), x, **beside)
    blocks = f(F.concat(above, below, axis=x.ndim - 2, offsets=(0, n)))
    return cut(F, blocks, Region((*lead, 0, n), (*x.shape[:-1], 2 * n)))


def _exponential(x: NDArray) -> NDArray:
    from scipy.linalg import expm

    return np.asarray(expm(x), dtype=dtypes.to_inexact(x.dtype))


def _one_by_one(name: str, x: NDArray) -> NDArray:
    """SciPy's function ``name`` of each matrix of a batch, in x's dtype; raises if a matrix has none."""
    import scipy.linalg

    function = getattr(scipy.linalg, name)
    out = np.empty(x.shape, dtypes.to_inexact(x.dtype))
    for k in np.ndindex(x.shape[:-2]) if x.size else ():
        with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
            warnings.simplefilter("always")
            result = np.asarray(function(x[k]))
        if not np.isfinite(result).all() or any("exactly singular" in str(w.message) for w in caught):
            raise _without(name, "a singular matrix", "one with this function", "")
        out[k] = result if out.dtype.kind == "c" else _real(name, result, out.dtype)
    return out


def _real(name: str, result: NDArray, dtype: DType) -> NDArray:
    """The real part of ``result``, the function of a real matrix; raises unless it is real to rounding."""
    rounding = 1e3 * len(result) * np.finfo(dtype).eps * np.abs(result).max()
    if np.abs(result.imag).max() > rounding:
        raise _without(
            name,
            "a real matrix whose result is complex",
            "no eigenvalues below 0",
            "convert it with astype(iverson.complex128)",
        )
    return result.real


def _without(name: str, description: str, expected: str, remedy: str) -> LinearAlgebraError:
    """The error for a matrix that has no such function."""
    return LinearAlgebraError(name, "x", got=description, expected=expected, remedy=remedy)


def _define(
    name: str, body: Callable[[NDArray], NDArray], samples: Callable[[Sampler], list[Sample]]
) -> None:
    """Define the op of a matrix function with its derivatives."""

    def function(F: Namespace, x: Value) -> Any:
        return getattr(F, name)(x)

    define(
        Op(
            name=name,
            forward=_lapack(name, body, finite=True),
            abstract=partial(_abstract, name),
            vjp=(lambda F, g, _y, x: _frechet(F, partial(function, F), F.mH(x), g),),
            jvp=(lambda F, t, _y, x: _frechet(F, partial(function, F), x, t),),
            entry_map=Batchwise("..->.."),
            batch=leading,
            samples=samples,
        )
    )


_define("matrix_exp", _exponential, lambda s: [Sample((s((3, 3)),)), Sample((s((2, 2, 2)),))])
for _name in ("sqrtm", "logm"):
    _define(
        _name,
        partial(_one_by_one, _name),
        lambda s: [Sample((_well(s, 3, 3) / 3,)), Sample((_well(s, 2, 2, 2) / 3,))],
    )


def _sylvester(a: NDArray, b: NDArray, c: NDArray) -> NDArray:
    import scipy.linalg

    out = np.empty(c.shape, c.dtype)
    for k in np.ndindex(c.shape[:-2]) if c.size else ():
        solution = scipy.linalg.solve_sylvester(a[k], b[k], c[k])
        size = (np.abs(a[k]).max() + np.abs(b[k]).max()) * np.abs(solution).max()
        if not size * np.finfo(out.dtype).eps <= 0.1 * np.abs(c[k]).max():  # LAPACK moves them apart
            raise np.linalg.LinAlgError("an eigenvalue that a and -b have in common")
        out[k] = solution
    return out


def _sylvester_abstract(a: Shaped, b: Shaped, c: Shaped) -> Aval:
    for argument, x in (("a", a), ("b", b)):
        _square("solve_sylvester", x, argument)
    if c.shape != (*a.shape[:-1], b.shape[-1]) or a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(
            "solve_sylvester",
            "q",
            got=f"shape {c.shape} for matrices of shapes {a.shape} and {b.shape}",
            expected=f"{a.shape[-1]} rows and {b.shape[-1]} columns",
        )
    return Aval(c.shape, dtypes.to_inexact(c.dtype))


@reading({0: (0, 1, "y"), 1: (0, 1, "y"), 2: (0, 1)})
def _sylvester_pullback(
    F: Namespace, wanted: Wanted, g: Value, y: Value, a: Value, b: Value, _c: Shaped
) -> list[Any]:
    """All cotangents, from one solution of the adjoint equation."""
    solution = F.solve_sylvester(F.mH(a), F.mH(b), g)
    parts = (lambda: -F.matmul(solution, F.mH(y)), lambda: -F.matmul(F.mH(y), solution), lambda: solution)
    return [parts[i]() for i in wanted]


# A dX + dX B = dC - dA X - X dB.
def _sylvester_taylor(
    F: Namespace, y: Coefficients, a: Coefficients, b: Coefficients, c: Coefficients
) -> Recurrence:
    """Taylor rule of ``solve_sylvester``; see `recurrences`.

    X_k solves A_0 X_k + X_k B_0 = C_k - sum of A_j X_{k-j} + X_{k-j} B_j over j > 0.
    """

    def coefficient(k: int) -> Any:
        if k == 0:
            return NotImplemented
        right = minus(F, c[k], a.convolved(y, k, F.matmul))
        right = minus(F, right, b.convolved(y, k, lambda b, y: F.matmul(y, b)))
        return None if right is None else F.solve_sylvester(a[0], b[0], right)

    return coefficient


define(
    Op(
        name="solve_sylvester",
        forward=_lapack("solve_sylvester", _sylvester, "a"),
        abstract=_sylvester_abstract,
        vjp=_sylvester_pullback,
        jvp=(
            lambda F, t, y, a, b, _c: -F.solve_sylvester(a, b, F.matmul(t, y)),
            lambda F, t, y, a, b, _c: -F.solve_sylvester(a, b, F.matmul(y, t)),
            None,
        ),
        linear_in=((2,),),
        taylor=_sylvester_taylor,
        entry_map=Batchwise("..,..,..->.."),
        batch=leading,
        samples=lambda s: [
            Sample((_well(s, 3, 3), _well(s, 2, 2), s((3, 2)))),
            Sample((_well(s, 2, 2, 2), _well(s, 2, 3, 3), s((2, 2, 3)))),
        ],
    )
)
