"""BLAS calls of programs: addresses of the routines, and how a view of matrices is passed to them.

The pointers are SciPy's, which hands them out for this purpose (`scipy.linalg.cython_blas`): they take 32-bit
integers by reference, and matrices in Fortran's order. Another BLAS is another table.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from iverson.codegen.programs.nodes import Product, View, is_zero
from iverson.codegen.runtime import library_functions
from iverson.codegen.runtime.blas_threads import OneThread, one_thread
from iverson.core.protocols import DType

#: BLAS's letter for each dtype it knows.
LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


@dataclass(frozen=True)
class Table:
    """A BLAS: its name, the address of each routine, and what keeps it on one thread.

    alone : a context in which it is; None where it cannot be told.
    """

    name: str
    addresses: dict[str, int]
    alone: OneThread | None = None


@functools.cache
def scipy_table() -> Table:
    """The BLAS that SciPy is linked with."""
    names = [letter + "gemm" for letter in LETTERS.values()]
    addresses = {n: library_functions.scipy_function("cython_blas", n) for n in names}
    return Table("scipy", addresses, one_thread(library_functions.scipy_module("cython_blas")))


def routine(dtype: DType) -> str:
    """Name of the BLAS routine for products of this dtype, such as "dgemm"."""
    return LETTERS[dtype.name] + "gemm"


@dataclass(frozen=True)
class Matrix:
    """A matrix as BLAS takes one: by rows if its rows are contiguous, else by columns.

    leading : entries from one row (or column) to the next.
    """

    by_rows: bool
    leading: int


def matrix(v: View, *, by_rows: bool | None = None) -> Matrix | None:
    """Memory order of a view's last two axes; None if BLAS cannot take it.

    by_rows : the order that is required; None for either.
    """
    (rows, columns), (row, column) = v.shape[-2:], v.strides[-2:]
    if by_rows is not False and (columns <= 1 or column == 1) and (rows <= 1 or row >= max(columns, 1)):
        return Matrix(True, row if rows > 1 else max(columns, 1))
    if by_rows is not True and (rows <= 1 or row == 1) and (columns <= 1 or column >= max(rows, 1)):
        return Matrix(False, column if columns > 1 else max(rows, 1))
    return None


@dataclass(frozen=True)
class Call:
    """A product in BLAS's terms: the factors in its order, each with a letter, and the three sizes.

    leading : entries between rows or columns of the first and second factor and of the output.
    """

    first: View
    second: View
    out: View
    letters: tuple[str, str]
    sizes: tuple[int, int, int]
    leading: tuple[int, int, int]


def call(s: Product) -> Call | None:
    """The routine's arguments; None where the matrices do not lie as BLAS needs them.

    Derivation: a matrix by rows is its transpose in Fortran's order. So where out lies by
    rows, the call computes ``out^T = rhs^T lhs^T``, in which a factor by rows is not transposed.
    """
    out, lhs, rhs, conjugate = s.out, s.left, s.right, s.conjugate
    if matrix(out, by_rows=True) is None:
        out, lhs, rhs = out.transposed, rhs.transposed, lhs.transposed
        conjugate = conjugate[::-1]
    into = matrix(out, by_rows=True)
    # A conjugated factor must be transposed; of a matrix with one row or column both are true.
    factors = [matrix(v, by_rows=False if c else None) for v, c in ((rhs, conjugate[1]), (lhs, conjugate[0]))]
    if into is None or factors[0] is None or factors[1] is None:
        return None
    rows, columns = out.shape[-2:]
    return Call(
        rhs,
        lhs,
        out,
        (_letter(factors[0], conjugate[1]), _letter(factors[1], conjugate[0])),
        (columns, rows, lhs.shape[-1]),
        (factors[0].leading, factors[1].leading, into.leading),
    )


def _letter(m: Matrix, conjugated: bool) -> str:
    return "C" if conjugated else "N" if m.by_rows else "T"


__all__ = ["LETTERS", "Call", "OneThread", "Table", "call", "is_zero", "matrix", "routine", "scipy_table"]
