"""Solves with triangular matrices: only one triangle is read, and only it has a gradient.

With ``check`` a zero on the diagonal raises; without it, it gives inf or nan, as the derivative of a
decomposition does where there is none (`docs/conventions.md`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.entries import Entries, Stored
from iverson.core.errors import ShapeError
from iverson.core.op import Op, Sample, Sampler, Wanted, reading
from iverson.core.protocols import Namespace, Shaped, Value
from iverson.core.table import define
from iverson.kernels.sparse import sparse_products
from iverson.ops.rules.batching import Examples, apart, beside
from iverson.ops.rules.entry_maps import Batchwise
from iverson.ops.rules.recurrences import Coefficients, Recurrence, minus


def _abstract(a: Shaped, b: Shaped, *, lower: bool, check: bool) -> Aval:
    if len(a.shape) < 2 or a.shape[-2] != a.shape[-1]:
        raise ShapeError("solve_triangular", "a", got=f"shape {a.shape}", expected="square matrices")
    if len(b.shape) < 2 or b.shape[:-1] != a.shape[:-1]:
        raise ShapeError(
            "solve_triangular",
            "b",
            got=f"shape {b.shape} for a of shape {a.shape}",
            expected=f"shape {a.shape[:-1]} but for the last axis",
        )
    return Aval(b.shape, dtypes.to_inexact(dtypes.result_type(a, b)))


def _triangle(F: Namespace, x: Value, lower: bool) -> Any:
    """The lower triangle of x if ``lower``, else the upper one."""
    return (F.tril if lower else F.triu)(x, k=0)


@reading({0: (0, "y"), 1: (0,)})
def _pullback(
    F: Namespace, wanted: Wanted, g: Value, y: Value, a: Value, _b: Shaped, *, lower: bool, check: bool
) -> list[Any]:
    """Cotangents of the matrix and of the right-hand sides, as in `solve`.

    With T the triangle of A and c = T^-H g, grad b = c; grad A is the triangle of -c x^H.
    """
    c = F.solve_triangular(F.mH(a), g, lower=not lower, check=check)

    def of_matrix(part: Entries) -> Any:
        if isinstance(part, Stored) and part.pattern.ndim == 2:
            return F.matmul_on(-c, F.mH(y), part.pattern)
        return -F.matmul(c, F.mH(y))

    return [c if i else _triangle(F, of_matrix(part), lower) for i, part in wanted.items()]


def _taylor(
    F: Namespace, y: Coefficients, a: Coefficients, b: Coefficients, *, lower: bool, check: bool
) -> Recurrence:
    """Taylor rule of ``solve_triangular``, by the recurrence of `recurrences.solution` for the triangle of
    the matrix.
    """

    def coefficient(k: int) -> Any:
        if k == 0:
            return NotImplemented
        products = a.convolved(y, k, lambda a, y: F.matmul(_triangle(F, a, lower), y))
        right = minus(F, b[k], products)
        return None if right is None else F.solve_triangular(a[0], right, lower=lower, check=check)

    return coefficient


def _batched(F: Namespace, examples: Examples, a: Value, b: Value, *, lower: bool, check: bool) -> Any:
    """The batching of `solve`: one call for all examples if they share a matrix."""
    if examples.alike(0) and a.ndim == 2:
        solutions = F.solve_triangular(a, beside(F, b), lower=lower, check=check)
        return apart(F, solutions, examples.size, b.shape[2])
    return F.solve_triangular(*examples.each(F, (a, b)), lower=lower, check=check)


def _well(s: Sampler) -> Any:
    """A matrix whose triangles are far from singular."""
    return s((3, 3)) + 3 * np.eye(3)


define(
    Op(
        name="solve_triangular",
        forward=sparse_products.solve_triangular,
        abstract=_abstract,
        vjp=_pullback,
        jvp=(
            lambda F, t, y, a, _b, *, lower, check: (
                -F.solve_triangular(a, F.matmul(_triangle(F, t, lower), y), lower=lower, check=check)
            ),
            None,
        ),
        linear_in=((1,),),
        taylor=_taylor,
        entry_map=Batchwise("..,.j->.j"),
        batch=_batched,
        samples=lambda s: [
            Sample((_well(s), s((3, 2))), {"lower": True, "check": True}),
            Sample((_well(s), s((3, 1))), {"lower": False, "check": False}),
            Sample((_well(s) + s((2, 1, 1)), s((2, 3, 2))), {"lower": False, "check": True}),
            Sample((_well(s) + s((4, 1, 1)), s((4, 3, 1))), {"lower": True, "check": False}),
        ],
    )
)
