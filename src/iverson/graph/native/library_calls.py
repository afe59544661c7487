"""Decompositions, solves and Fourier transforms as native steps: calls of the routines that kernels call too.

    %x = solve(%a, %b)   ->   x, status = linalg.solve(a, b); stop if status: "Singular matrix"

The routines are loops of NumPy's universal functions, on views with any strides, so results are those of the
op's own kernel; and triangular solves of BLAS. What a kernel does before and after (the Hermitian part, a
test for inf and nan, the triangle R) is a nest here. A loop whose steps solve with the same matrix factors it
once, before the first step (`factors`, `solution`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.linalg import _umath_linalg

from iverson.codegen.emit import scalar_code
from iverson.codegen.execution.routines import Failure, Function, Loop, Reference
from iverson.codegen.nests.nodes import BOOL
from iverson.codegen.programs import View, step_builders
from iverson.codegen.programs.nodes import Call, Step, Stop
from iverson.codegen.runtime import library_functions
from iverson.core import dtypes
from iverson.core.protocols import DType
from iverson.expr.build import cast, const
from iverson.expr.nodes import Apply, Expr, Select
from iverson.graph.ir.nodes import Equation, Value
from iverson.graph.native import small_matrices
from iverson.graph.native.buffers import Memory
from iverson.graph.native.fourier_calls import TRANSFORMS
from iverson.graph.native.matrix_lanes import Batch
from iverson.graph.native.routine_steps import NUMPY, STATUS, Calls, letter, spread

#: BLAS's letters.
BLAS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
#: Routines that earlier versions of NumPy have under other names.
NEW_ROUTINES = {
    "svd": "svd_s",
    "svd_full": "svd_f",
    "svdvals": "svd",
    "qr": "qr_r_raw",
    "qr_complete": "qr_r_raw",
}
DECOMPOSES = "a matrix it can decompose"


def is_call(equation: Equation) -> bool:
    """True if an equation is one of `CALLS`, of values with entries and in a dtype that LAPACK has."""
    if equation.op.name not in CALLS or not library_functions.HAS_TABLES:
        return False
    if not hasattr(_umath_linalg, NEW_ROUTINES.get(equation.op.name, "solve")):
        return False
    values = [*equation.operands, *equation.results]
    if any(type(v) is not Value or 0 in v.shape for v in values):
        return False
    inexact = [v for v in equation.results if dtypes.is_inexact(v.dtype)]
    return all(v.dtype.name in NUMPY for v in inexact) and all(
        v.dtype.kind in "biu" or v.dtype.name in NUMPY for v in equation.operands
    )


def steps(equation: Equation, operands: Sequence[View], outs: Sequence[View], memory: Memory) -> list[Step]:
    """The steps that make the results in ``outs``."""
    calls = Calls(memory)
    CALLS[equation.op.name](calls, operands, outs, **equation.params)
    return calls.steps


@dataclass(frozen=True)
class Factors:
    """L and U of matrices, by columns in one array, and the exchanges of rows, as LAPACK counts them."""

    lu: View
    pivots: View


def _symmetrized(calls: Calls, x: View, dtype: DType) -> View:
    """(x + x^H) / 2, in ``dtype``."""
    x = calls.in_dtype(x, dtype)
    half = const(0.5, dtypes.real_of(dtype))

    def value(_: Sequence[Expr], x: Expr, y: Expr) -> Expr:
        other = Apply("conj", (y,), dtype) if dtype.kind == "c" else y
        return Apply("multiply", (cast(half, dtype), Apply("add", (x, other), dtype)), dtype)

    return calls.nest(calls.temp(dtype, x.shape), value, x=x, y=x.transposed)


# --- solves and decompositions ----------------------------------------------------------------------


def _solve(calls: Calls, operands: Sequence[View], outs: Sequence[View]) -> None:
    (x,) = outs
    batch, dtype = x.shape[:-2], x.buffer.dtype
    failure = Failure("solve", "a", "Singular matrix", DECOMPOSES)
    if small_matrices.is_small(max(x.shape[-2:]), batch):
        _small_solve(calls, operands[0], operands[1], x, failure)
        return
    a, b = (spread(calls.in_dtype(v, dtype), batch, 2) for v in operands)
    calls.loop("linalg", "solve", "mm,mn->mn", (a, b, x), failure)


def _plain(name: str, cores: str, problem: str = "") -> Callable[..., None]:
    """Steps of an op that is one universal function of a matrix.

    problem : what its failure says; empty if it has none.
    """

    def call(calls: Calls, operands: Sequence[View], outs: Sequence[View]) -> None:
        x = calls.in_dtype(operands[0], outs[0].buffer.dtype)
        calls.loop(
            "linalg", name, cores, (x, *outs), Failure(name, "x", problem, DECOMPOSES) if problem else None
        )

    return call


def _cholesky(calls: Calls, operands: Sequence[View], outs: Sequence[View]) -> None:
    (y,) = outs
    *batch, _, n = y.shape
    failure = Failure("cholesky", "x", "Matrix is not positive definite", DECOMPOSES)
    if small_matrices.is_small(n, batch):
        _small_cholesky(calls, operands[0], y, failure)
        return
    x = _symmetrized(calls, operands[0], y.buffer.dtype)
    calls.loop("linalg", "cholesky_lo", "mm->mm", (x, y), failure)


#: Entries from which the loop of a universal function is called once, and not on the lanes of a nest.
ENTRIES = 64


def universal(e: Equation) -> Loop | None:
    """Loop of the universal function that is all of an equation on values of one shape; None for others."""
    where = scalar_code.universal_function(e.op.name)
    v, operands = e.results[0], e.operands
    if where is None or not e.op.elementwise or v.dtype.name not in ("float32", "float64"):
        return None
    if prod(v.shape) < ENTRIES or any(type(x) is not Value for x in operands):
        return None
    if any((x.shape, x.dtype) != (v.shape, v.dtype) for x in operands):
        return None
    code, roles = letter(v.dtype), (*["in"] * len(operands), "out")
    return Loop(*where, f"{code * len(operands)}->{code}", ("",) * len(roles), roles)


def on_entries(loop: Loop, views: Sequence[View]) -> Call:
    """Call of an elementwise function on the entries of views in order."""
    return Call(loop, tuple(replace(v, shape=(prod(v.shape),), strides=(1,)) for v in views))


def _small_cholesky(calls: Calls, x: View, y: View, failure: Failure) -> None:
    batch = Batch(calls, y.buffer.dtype, y.shape[:-2])
    matrices = batch.symmetrized(x)
    defects = small_matrices.cholesky(batch, matrices)
    batch.write(matrices, y, triangle=True)
    batch.end(defects, failure)


def _small_solve(calls: Calls, a: View, b: View | None, x: View, failure: Failure) -> None:
    """Solutions with small matrices; their inverses where there is no ``b``."""
    batch = Batch(calls, x.buffer.dtype, x.shape[:-2])
    matrices = batch.copy(a)
    sides = batch.identity(a.shape[-1]) if b is None else batch.copy(b)
    defects = small_matrices.elimination(batch, matrices, sides)
    small_matrices.substitution(batch, matrices, sides, lower=False)
    batch.write(sides, x)
    batch.end(defects, failure)


def _small_triangular(calls: Calls, a: View, b: View, x: View, *, lower: bool) -> None:
    batch = Batch(calls, x.buffer.dtype, x.shape[:-2])
    sides = batch.copy(b)
    small_matrices.substitution(batch, batch.copy(a), sides, lower=lower)
    batch.write(sides, x)
    batch.end()


def _det(calls: Calls, operands: Sequence[View], outs: Sequence[View]) -> None:
    (a,), (y,) = operands, outs
    if not small_matrices.is_small(a.shape[-1], a.shape[:-2]):
        _plain("det", "mm->")(calls, operands, outs)
        return
    batch = Batch(calls, y.buffer.dtype, y.shape)
    determinant = batch.matrices(1, 1)
    small_matrices.elimination(batch, batch.copy(a), None, determinant)
    batch.write(determinant, replace(y, shape=(*y.shape, 1, 1), strides=(*y.strides, 1, 1)))
    batch.end()


def _inv(calls: Calls, operands: Sequence[View], outs: Sequence[View]) -> None:
    (a,), (y,) = operands, outs
    failure = Failure("inv", "x", "Singular matrix", DECOMPOSES)
    if small_matrices.is_small(a.shape[-1], a.shape[:-2]):
        _small_solve(calls, a, None, y, failure)
    else:
        _plain("inv", "mm->mm", failure.problem)(calls, operands, outs)


def _hermitian(name: str, routine: str, cores: str) -> Callable[..., None]:
    def call(calls: Calls, operands: Sequence[View], outs: Sequence[View]) -> None:
        (x,) = operands
        dtype = dtypes.to_inexact(x.buffer.dtype)
        calls.finite(name, x)
        failure = Failure(name, "x", "Eigenvalues did not converge", DECOMPOSES)
        calls.loop("linalg", routine, cores, (_symmetrized(calls, x, dtype), *outs), failure)

    return call


def _singular(name: str, routine: str, cores: str) -> Callable[..., None]:
    def call(calls: Calls, operands: Sequence[View], outs: Sequence[View]) -> None:
        (x,) = operands
        calls.finite(name, x)
        failure = Failure(name, "x", "SVD did not converge", DECOMPOSES)
        x = calls.in_dtype(x, dtypes.to_inexact(x.buffer.dtype))
        calls.loop("linalg", routine, cores, (x, *outs), failure)

    return call


def _svd_full(calls: Calls, operands: Sequence[View], outs: Sequence[View]) -> None:
    """U and V^H with all columns and rows: the first ones are results, the others are the basis."""
    (x,), (u, s, vh, basis) = operands, outs
    *batch, m, n = x.shape
    whole_u, whole_vh = calls.temp(u, (*batch, m, m)), calls.temp(u, (*batch, n, n))
    _singular("svd_full", "svd_f", "mn->mm,p,nn")(calls, operands, (whole_u, s, whole_vh))
    k = min(m, n)
    calls.steps.append(step_builders.copy(u, _part(whole_u, -1, 0, k)))
    calls.steps.append(step_builders.copy(vh, _part(whole_vh, -2, 0, k)))
    further = _part(whole_u, -1, k, m) if m > n else _part(whole_vh, -2, k, n)
    if 0 not in further.shape:
        calls.steps.append(step_builders.copy(basis, further))


def _part(v: View, axis: int, start: int, stop: int) -> View:
    """The entries of a view from ``start`` to ``stop`` along an axis, counted from the last."""
    shape = list(v.shape)
    shape[axis] = stop - start
    return replace(v, shape=tuple(shape), offset=v.offset + start * v.strides[axis])


def _qr(calls: Calls, operands: Sequence[View], outs: Sequence[View]) -> None:
    """Q and R, and the other columns of Q if they are asked for, from Householder reflections.

    The routines exist in double precision alone, as NumPy has them.
    """
    (x,), (q, r, *basis) = operands, outs
    *batch, m, n = x.shape
    k, dtype = min(m, n), np.dtype(complex if r.buffer.dtype.kind == "c" else float)
    reflections, scales = calls.temp(dtype, x.shape), calls.temp(dtype, (*batch, k))
    calls.nest(reflections, lambda _, x: cast(x, dtype), x=x)
    calls.loop("linalg", "qr_r_raw", "!mn->p", (reflections, scales))
    top = _part(reflections, -2, 0, k)
    zero = const(0, r.buffer.dtype)

    def triangle(at: Sequence[Expr], x: Expr) -> Expr:
        return Select(Apply("less_equal", (at[-2], at[-1]), BOOL), _rounded(x, r), zero)

    calls.nest(r, triangle, x=top)
    columns = m if basis else k
    full_q = q if q.buffer.dtype == dtype and not basis else calls.temp(dtype, (*batch, m, columns))
    if basis:
        calls.loop("linalg", "qr_complete", "mn,n->mm", (reflections, scales, full_q))
    else:
        calls.loop("linalg", "qr_reduced", "mn,k->mk", (reflections, scales, full_q))
    for out, start, stop in ((q, 0, k), *((b, k, m) for b in basis)):
        if out is not full_q and 0 not in out.shape:
            calls.nest(out, lambda _, x, out=out: _rounded(x, out), x=_part(full_q, -1, start, stop))


def _rounded(x: Expr, out: View) -> Expr:
    return cast(x, out.buffer.dtype)


def _diagonal_zero(calls: Calls, a: View, failure: Failure) -> None:
    """Stop if a diagonal entry of a matrix is 0."""
    *batch, n, _ = a.shape
    diagonal = replace(a, shape=(*batch, n), strides=(*a.strides[:-2], a.strides[-2] + a.strides[-1]))
    zero = const(0, a.buffer.dtype)
    flag = calls.anywhere(diagonal.shape, lambda d: Apply("equal", (d, zero), BOOL), d=diagonal)
    calls.steps.append(Stop(flag, failure))


def factors(a: View, dtype: DType, memory: Memory) -> tuple[list[Step], Factors]:
    """Steps that factor matrices, for solves in a loop with the same ones, and their factors.

    A singular matrix fails where it is solved with.
    """
    calls, batch, n = Calls(memory), a.shape[:-2], a.shape[-1]
    lu, pivots, info = (
        calls.temp(d, s) for d, s in ((dtype, a.shape), (STATUS, a.shape[:-1]), (STATUS, batch))
    )
    calls.nest(lu, lambda _, x: cast(x, dtype), x=a.transposed)
    symbol = library_functions.lapack(BLAS[dtype.name] + "getrf")
    arguments = (n, n, Reference(0), n, Reference(1), Reference(2))
    routine = Function(symbol, arguments, ("mm", "m", ""), ("inout", "out", "out"))
    calls.steps.append(Call(routine, (lu, pivots, info)))
    return calls.steps, Factors(lu, pivots)


def solution(by: Factors, b: View, x: View, memory: Memory) -> list[Step]:
    """Steps of a solve with factored matrices: for one column, in the place of the result."""
    calls, dtype, (*batch, n, columns) = Calls(memory), x.buffer.dtype, x.shape
    _diagonal_zero(calls, by.lu, Failure("solve", "a", "Singular matrix", DECOMPOSES))
    lead = tuple(batch)
    lu, pivots, b = spread(by.lu, lead, 2), spread(by.pivots, lead, 1), spread(b, lead, 2)
    if columns == 1:
        by_columns = replace(x.transposed, strides=(*x.strides[:-2], n, 1))
    else:
        by_columns = calls.temp(dtype, (*batch, columns, n))
    calls.nest(by_columns.transposed, lambda _, b: cast(b, dtype), b=b)
    places = (Reference(0), n, Reference(1), Reference(2), n, Reference(3))
    symbol = library_functions.lapack(BLAS[dtype.name] + "getrs")
    roles = ("in", "in", "inout", "out")
    routine = Function(symbol, ("N", n, columns, *places), ("mm", "m", "nm", ""), roles)
    calls.steps.append(Call(routine, (lu, pivots, by_columns, calls.temp(STATUS, lead))))
    if columns > 1:
        calls.steps.append(step_builders.copy(x, by_columns.transposed))
    return calls.steps


def _solve_triangular(
    calls: Calls, operands: Sequence[View], outs: Sequence[View], *, lower: bool, check: bool
) -> None:
    """Steps of a triangular solve, by BLAS in the memory of the result.

    BLAS takes matrices by columns, so that it solves ``x^T T^T = b^T``; a matrix that lies by columns is
    transposed there. A vector is a solve of its own, which costs less.
    """
    (a, b), (x,) = operands, outs
    dtype, (*batch, n, columns) = x.buffer.dtype, x.shape
    a, b = calls.in_dtype(a, dtype), calls.in_dtype(b, dtype)
    if check:
        failure = Failure("solve_triangular", "a", "0 on the diagonal", "a matrix that is not singular")
        _diagonal_zero(calls, a, failure)
    if small_matrices.is_small(max(n, columns), batch):
        _small_triangular(calls, a, b, x, lower=lower)
        return
    by_rows = _in_order(a)
    if not by_rows and not _in_order(a.transposed):
        a, by_rows = calls.nest(calls.temp(dtype, a.shape), lambda _, x: x, x=a), True
    matrix = a if by_rows else a.transposed
    calls.steps.append(step_builders.copy(x, b))
    prefix, upper = BLAS[dtype.name], "U" if lower == by_rows else "L"
    if columns == 1:
        vector = replace(x, shape=x.shape[:-1], strides=x.strides[:-1])
        transposition = "T" if by_rows else "N"
        arguments: tuple[Any, ...] = (upper, transposition, "N", n, Reference(0), n, Reference(1), 1)
        routine = Function(library_functions.blas(prefix + "trsv"), arguments, ("mm", "m"), ("in", "inout"))
        calls.steps.append(Call(routine, (matrix, vector)))
        return
    scale = calls.memory.hold(np.ones((), dtype))
    arguments = (
        *("R", upper, "N" if by_rows else "T", "N", columns, n),
        *(Reference(2), Reference(0), n, Reference(1), columns),
    )
    routine = Function(
        library_functions.blas(prefix + "trsm"), arguments, ("mm", "mn", ""), ("in", "inout", "in")
    )
    calls.steps.append(Call(routine, (matrix, x, spread(scale, tuple(batch), 0))))


def _in_order(v: View) -> bool:
    """True if the matrices of a batch lie in C order each."""
    rows, columns = v.shape[-2:]
    return (columns == 1 or v.strides[-1] == 1) and (rows == 1 or v.strides[-2] == columns)


CALLS: dict[str, Callable[..., None]] = {
    "solve": _solve,
    "inv": _inv,
    "det": _det,
    "slogdet": _plain("slogdet", "mm->,"),
    "cholesky": _cholesky,
    "eigh": _hermitian("eigh", "eigh_lo", "mm->m,mm"),
    "eigvalsh": _hermitian("eigvalsh", "eigvalsh_lo", "mm->m"),
    "svd": _singular("svd", "svd_s", "mn->mp,p,pn"),
    "svd_full": _svd_full,
    "svdvals": _singular("svdvals", "svd", "mn->p"),
    "qr": _qr,
    "qr_complete": _qr,
    "solve_triangular": _solve_triangular,
    **TRANSFORMS,
}

__all__ = ["CALLS", "Factors", "factors", "is_call", "on_entries", "solution", "steps", "universal"]
