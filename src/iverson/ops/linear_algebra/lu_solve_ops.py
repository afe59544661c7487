"""Solves with one matrix factored once: LAPACK's getrf and getrs, as loops need them.

A loop whose steps solve with one matrix factors it before the first (`iverson.graph.control.bodies`). The
factors are a means: derivatives are those of the solve in its matrix and right-hand side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.errors import LinearAlgebraError, ShapeError
from iverson.core.op import Op, Sample, Sampler, Wanted, reading
from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.table import define
from iverson.ops.rules.batching import Examples, apart, beside, leading
from iverson.ops.rules.entry_maps import Batchwise

PIVOT = np.dtype(np.int32)


def _getrf(a: NDArray) -> tuple[NDArray, NDArray]:
    """Factors L and U of each matrix, by columns in one array, and the exchanges of rows, counted from 1."""
    from scipy.linalg.lapack import get_lapack_funcs

    factors, pivots = np.empty(a.shape, dtypes.to_inexact(a.dtype)), np.empty(a.shape[:-1], PIVOT)
    routine = get_lapack_funcs("getrf", dtype=factors.dtype)
    for k in np.ndindex(a.shape[:-2]) if a.size else ():
        columns, exchanges, _ = routine(a[k])
        factors[k], pivots[k] = columns.T, exchanges + 1
    return factors, pivots


def _getrf_abstract(a: Shaped) -> tuple[Aval, Aval]:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError("getrf", "a", got=f"shape {a.shape}", expected="square matrices")
    return Aval(a.shape, dtypes.to_inexact(a.dtype)), Aval(a.shape[:-1], PIVOT)


def _getrs(a: NDArray, b: NDArray, factors: NDArray, pivots: NDArray, *, adjoint: bool) -> NDArray:
    """Solution of A x = b, or of A^H x = b, from the factors of A."""
    from scipy.linalg.lapack import get_lapack_funcs

    x = np.empty(b.shape, dtypes.to_inexact(dtypes.result_type(a, b)))
    if not x.size:
        return x
    if not np.diagonal(factors, 0, -2, -1).all():
        raise LinearAlgebraError("solve", "a", got="Singular matrix", expected="a matrix it can decompose")
    routine = get_lapack_funcs("getrs", dtype=x.dtype)
    for k in np.ndindex(b.shape[:-2]):
        x[k], _ = routine(factors[k].T, pivots[k] - 1, b[k], trans=2 * adjoint)
    return x


def _getrs_abstract(a: Shaped, b: Shaped, factors: Shaped, pivots: Shaped, *, adjoint: bool) -> Aval:
    if b.ndim < 2 or b.shape[:-1] != a.shape[:-1]:
        raise ShapeError(
            "getrs", "b", got=f"shape {b.shape}", expected=f"shape {a.shape[:-1]} but for the last axis"
        )
    return Aval(b.shape, dtypes.to_inexact(dtypes.result_type(a, b)))


# A dx = db - dA x. With c = A^-H g: grad b = c, grad A = -c x^H. Of the adjoint solve A^H x = b: c = A^-1 g,
# grad A = -x c^H.
@reading({0: ("y", 0, 2, 3), 1: (0, 2, 3)})
def _pullback(
    F: Namespace,
    wanted: Wanted,
    g: Value,
    y: Value,
    a: Value,
    _b: Shaped,
    factors: Value,
    pivots: Value,
    *,
    adjoint: bool,
) -> list[Any]:
    c = F.getrs(a, g, factors, pivots, adjoint=not adjoint)
    left, right = (y, c) if adjoint else (c, y)
    return [c if i else -F.matmul(left, F.mH(right)) for i in wanted]


def _of_matrix(
    F: Namespace,
    t: Value,
    y: Value,
    a: Value,
    _b: Shaped,
    factors: Value,
    pivots: Value,
    *,
    adjoint: bool,
) -> Any:
    """Tangent of the solution from that of the matrix."""
    product = F.matmul(F.mH(t) if adjoint else t, y)
    return -F.getrs(a, product, factors, pivots, adjoint=adjoint)


def _batched(
    F: Namespace, examples: Examples, a: Value, b: Value, factors: Value, pivots: Value, *, adjoint: bool
) -> Any:
    """One call for all examples: if they share a matrix, their right-hand sides are columns of one."""
    if a.ndim == 2 and all(examples.alike(k) for k in (0, 2, 3)):
        solutions = F.getrs(a, beside(F, b), factors, pivots, adjoint=adjoint)
        return apart(F, solutions, examples.size, b.shape[2])
    return F.getrs(*examples.each(F, (a, b, factors, pivots)), adjoint=adjoint)


def _samples(s: Sampler) -> list[Sample]:
    def sample(*shape: int, columns: int, adjoint: bool) -> Sample:
        a = s(shape) + 3 * np.eye(shape[-1])
        return Sample((a, s((*shape[:-1], columns)), *_getrf(a)), {"adjoint": adjoint})

    return [
        sample(3, 3, columns=2, adjoint=False),
        sample(3, 3, columns=1, adjoint=True),
        sample(2, 2, 2, columns=1, adjoint=False),
    ]


define(
    Op(
        name="getrf",
        forward=_getrf,
        abstract=_getrf_abstract,
        entry_map=Batchwise("..->..,."),
        multiple=True,
        batch=leading,
        samples=lambda s: [
            Sample((s((3, 3)) + 3 * np.eye(3),)),
            Sample((s((2, 2, 2)) + 3 * np.eye(2),)),
        ],
    )
)

define(
    Op(
        name="getrs",
        forward=_getrs,
        abstract=_getrs_abstract,
        vjp=_pullback,
        jvp=(_of_matrix, None, None, None),
        linear_in=((1,),),
        entry_map=Batchwise("..,.j,..,.->.j"),
        batch=_batched,
        samples=_samples,
    )
)
