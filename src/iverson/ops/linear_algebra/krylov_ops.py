"""Krylov ops: solves and a few eigenpairs of large matrices; derivatives are those of the exact result.

No step is recorded: a solution is differentiated by one more solution with the adjoint matrix, by the same
method, and eigenpairs by solutions with the matrix shifted by the eigenvalue.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.entries import Box, Entries, Stored
from iverson.core.op import Op, Rule, Sample, Wanted, reading
from iverson.core.protocols import Namespace, Shaped, Value
from iverson.core.table import define
from iverson.kernels import krylov_solvers
from iverson.kernels.krylov_solvers import Preconditioner
from iverson.layouts import Pattern
from iverson.ops.linear_algebra.decomposition_ops import (
    _eigh_gauge,
    _hermitian,
    _hermitian_samples,
    _square,
    _well,
    solution,
    solution_abstract,
)
from iverson.ops.rules.batching import leading
from iverson.ops.rules.entry_maps import Batchwise


def _solve(
    F: Namespace,
    a: Value,
    b: Value,
    *,
    adjoint: bool = False,
    m: str | Preconditioner | None = None,
    **params: str | float | None,
) -> Any:
    preconditioner = m.turned if adjoint and isinstance(m, Preconditioner) else m
    return F.iterative_solve(a, b, m=preconditioner, **params)


_EXACT = {"rtol": 1e-14, "atol": 0.0, "maxiter": None}

define(
    Op(
        name="iterative_solve",
        forward=krylov_solvers.iterative_solve,
        abstract=partial(solution_abstract, "iterative_solve"),
        **solution(_solve),
        entry_map=Batchwise("..,.j->.j"),
        samples=lambda s: [
            Sample((_well(s, 3, 3), s((3, 2))), {"method": "gmres(3)", "m": None, **_EXACT}),
            Sample((_well(s, 2, 3, 3), s((3, 1))), {"method": "gmres", "m": "jacobi", **_EXACT}),
        ],
    )
)


def _eigsh_abstract(x: Shaped, *, k: int, **_: str) -> tuple[Aval, Aval]:
    _square("eigsh", x)
    dtype = dtypes.to_inexact(x.dtype)
    return Aval((*x.shape[:-2], k), dtypes.real_of(dtype)), Aval((*x.shape[:-1], k), dtype)


def _column_factors(F: Namespace, g: tuple[Value, Value], y: tuple[Value, Value], x: Value) -> Any:
    """C such that the cotangent of the matrix A is the Hermitian part of C V^H."""
    # A dv - w dv - v dw = -dA v with v^H dv = 0 is K (dv, dw) = (-dA v, 0), K Hermitian (`bordered_solve`).
    # Its solution with (0, gw) on the right is -v gw.
    (gw, gv), (w, v) = g, y
    solved = F.bordered_solve(x, w, v, gv, F.zero(w.shape, v.dtype))[0]
    return v * F.expand_dims(gw, axis=(gw.ndim - 1,)) - solved


def _eigsh_vjp(F: Namespace, g: tuple[Value, Value], y: tuple[Value, Value], x: Value, **_: int | str) -> Any:
    return _hermitian(F, F.matmul(_column_factors(F, g, y, x), F.mH(y[1])))


def _eigsh_within(
    F: Namespace,
    _rule: Rule,
    wanted: Box | Stored,
    _i: int,
    g: tuple[Value, Value],
    y: tuple[Value, Value],
    x: Value,
    **_: int | str,
) -> Any:
    """The cotangent of x at a pattern of single entries; NotImplemented for other parts."""
    if not isinstance(wanted, Stored) or wanted.pattern.ndim != 2:
        return NotImplemented
    c, v = _column_factors(F, g, y, x), y[1]
    return _hermitian_at(F, c, v, wanted.pattern)


def _hermitian_at(F: Namespace, c: Value, v: Value, pattern: Pattern) -> Any:
    """The Hermitian part of C V^H at a pattern."""
    return 0.5 * (F.matmul_on(c, F.mH(v), pattern) + F.matmul_on(v, F.mH(c), pattern))


def _eigsh_jvp(F: Namespace, t: Value, y: tuple[Value, Value], x: Value, **_: int | str) -> Any:
    w, v = y
    product = F.matmul(_hermitian(F, t), v)
    dw = F.real(F.sum(F.conj(v) * product, axis=(v.ndim - 2,), keepdims=False))
    return dw, F.bordered_solve(x, w, v, -product, F.zero(w.shape, v.dtype))[0]


define(
    Op(
        name="eigsh",
        forward=krylov_solvers.eigsh,
        abstract=_eigsh_abstract,
        vjp=(_eigsh_vjp,),
        jvp=(_eigsh_jvp,),
        vjp_at=_eigsh_within,
        entry_map=Batchwise("..->.,.."),
        multiple=True,
        batch=leading,
        samples=lambda s: [
            Sample(sample.args, {"k": 1, "which": end, "method": "lanczos"}, post=_eigh_gauge)
            for sample, end in zip(_hermitian_samples(s), ("LA", "SA"), strict=True)
        ],
        convention="eigenvalues that are there twice: nan; the matrix is taken as Hermitian part",
    )
)


def _bordered_abstract(a: Shaped, w: Shaped, v: Shaped, g: Shaped, h: Shaped) -> tuple[Aval, Aval]:
    _square("bordered_solve", a, "a")
    dtype = dtypes.to_inexact(dtypes.result_type(a, v, g, h))
    return Aval(v.shape, dtype), Aval(w.shape, dtype)


def _row(F: Namespace, x: Value) -> Any:
    """Numbers, one for each column, as a row that multiplies the columns."""
    return F.expand_dims(x, axis=(x.ndim - 1,))


def _dots(F: Namespace, a: Value, b: Value) -> Any:
    """Inner products a^H b of corresponding columns."""
    return F.sum(F.conj(a) * b, axis=(a.ndim - 2,), keepdims=False)


def _again(F: Namespace, a: Value, w: Value, v: Value, g: Value, h: Value) -> Any:
    """Solution of the same bordered system with the right-hand sides g and h."""
    return F.bordered_solve(a, w, v, g, h)


@reading({0: (0, 1, 2, "y"), 1: (0, 1, 2, "y"), 2: (0, 1, 2, "y"), 3: (0, 1, 2), 4: (0, 1, 2)})
def _bordered_pullback(
    F: Namespace,
    wanted: Wanted,
    g: tuple[Value, Value],
    y: tuple[Value, Value],
    a: Value,
    w: Value,
    v: Value,
    _g: Shaped,
    _h: Shaped,
) -> list[Any]:
    """Cotangents of the operands at the positions in ``wanted``, from one more bordered solution."""
    (x, m), (c, d) = y, F.bordered_solve(a, w, v, *g)

    def of_matrix(part: Entries) -> Any:
        if isinstance(part, Stored) and part.pattern.ndim == 2:
            return -_hermitian_at(F, c, x, part.pattern)
        return -_hermitian(F, F.matmul(c, F.mH(x)))

    rules = (
        of_matrix,
        lambda _: F.real(_dots(F, x, c)),
        lambda _: c * _row(F, F.conj(m)) + x * _row(F, F.conj(d)),
        lambda _: c,
        lambda _: d,
    )
    return [rules[i](part) for i, part in wanted.items()]


# x[:, i] and m[i] with (A - w[i]) x - v m = g and -v^H x = h in each column i: K_i is Hermitian for real w.
# With (c, d) = K^-1 (gx, gm): grad g = c, grad h = d, and -dK (x, m) gives the others.
define(
    Op(
        name="bordered_solve",
        forward=krylov_solvers.bordered_solve,
        abstract=_bordered_abstract,
        vjp=_bordered_pullback,
        jvp=(
            lambda F, t, y, a, w, v, _g, _h: _again(
                F, a, w, v, -F.matmul(_hermitian(F, t), y[0]), F.zero(w.shape, v.dtype)
            ),
            lambda F, t, y, a, w, v, _g, _h: _again(F, a, w, v, y[0] * _row(F, t), F.zero(w.shape, v.dtype)),
            lambda F, t, y, a, w, v, _g, _h: _again(F, a, w, v, t * _row(F, y[1]), _dots(F, t, y[0])),
            None,
            None,
        ),
        linear_in=((3, 4),),
        entry_map=Batchwise("..,j,.j,.j,j->.j,j"),
        multiple=True,
        batch=leading,
        samples=lambda s: [
            Sample((_well(s, 3, 3), np.array([0.3, 0.7]), s((3, 2)), s((3, 2)), s((2,)))),
        ],
    )
)
