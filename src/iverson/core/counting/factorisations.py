"""Multiply-adds of factorisations and solves of full matrices: leading terms, in one table.

From Golub and Van Loan, Matrix Computations, 4th edition (2013), whose flops are two a multiply-add:
triangular systems n^2 (section 3.1), LU 2n^3/3 (3.2), Cholesky n^3/3 (4.2), Householder QR 2n^2 (m - n/3) and
as many for the thin Q (5.1, 5.2), the QR algorithm 25n^3 (7.5) and its symmetric form 9n^3, or 4n^3/3 without
vectors (8.3), the singular value decomposition of Golub and Reinsch (figure 8.6.1), Levinson's recursion for
a Toeplitz matrix that is not symmetric 8n^2 (4.7). From Higham, Functions of Matrices (2008): the exponential
by a rational function of degree 13, without squarings, six products and a solve (algorithm 10.20), the square
root 85n^3/3 (algorithm 6.3), the logarithm 25n^3, those of the Schur form it begins with (algorithm 11.9).
The code that runs may take a different multiple of these; it grows with the sizes in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from iverson.core.entries import FULL
from iverson.core.entry_map import Facts

if TYPE_CHECKING:
    from fractions import Fraction


def _ratio(a: int, b: int) -> Fraction:
    from fractions import Fraction  # only what counts work asks for one

    return Fraction(a, b)


def _lu(n: int, *_: int) -> Fraction:
    return _ratio(n**3, 3)


def _lu_of(rows: int, columns: int) -> Fraction:
    """Multiply-adds of the LU decomposition of a matrix of any shape."""
    k = min(rows, columns)
    return rows * columns * k - _ratio((rows + columns) * k**2, 2) + _ratio(k**3, 3)


def _solve(n: int, _: int, __: int, columns: int) -> Fraction:
    return _lu(n) + n**2 * columns


def _qr(rows: int, columns: int) -> Fraction:
    """Multiply-adds for R and min(rows, columns) columns of Q."""
    return _triangle(rows, columns) + _first_columns(rows, min(rows, columns))


def _qr_complete(rows: int, columns: int) -> Fraction:
    """Multiply-adds for R and a square Q.

    Q is made by reflections of an identity, the first of which changes its last column alone.
    """
    k = min(rows, columns)
    return _triangle(rows, columns) + 2 * rows * (rows - k) * k + _ratio(2 * k**3, 3)


def _triangle(rows: int, columns: int) -> Fraction:
    """Multiply-adds for R alone: min(rows, columns) reflections, each of what is below and to the right."""
    k = min(rows, columns)
    return rows * columns * k * 2 - (rows + columns) * k**2 + _ratio(2 * k**3, 3)


def _first_columns(rows: int, k: int) -> Fraction:
    return rows * k**2 - _ratio(k**3, 3)


def _svd(rows: int, columns: int) -> int:
    m, n = max(rows, columns), min(rows, columns)
    return 7 * m * n**2 + 4 * n**3


def _svd_full(rows: int, columns: int) -> Fraction:
    m, n = max(rows, columns), min(rows, columns)
    return 2 * m**2 * n + 4 * m * n**2 + _ratio(9 * n**3, 2)


def _svdvals(rows: int, columns: int) -> Fraction:
    m, n = max(rows, columns), min(rows, columns)
    return 2 * m * n**2 - _ratio(2 * n**3, 3)


#: By op, from the last two sizes of each operand, of one matrix.
FACTORISATIONS: dict[str, Callable[..., Fraction | int]] = {
    "solve": _solve,
    "solve_triangular": lambda n, _, __, columns: _ratio(n**2 * columns, 2),
    "inv": lambda n, _: n**3,
    "det": _lu,
    "slogdet": _lu,
    "cholesky": lambda n, _: _ratio(n**3, 6),
    "lu": _lu_of,
    "matrix_exp": lambda n, _: _ratio(22 * n**3, 3),
    "sqrtm": lambda n, _: _ratio(85 * n**3, 6),
    "logm": lambda n, _: _ratio(25 * n**3, 2),
    "solve_toeplitz": lambda _, __, n, columns: 4 * n**2 * columns,
    "solve_sylvester": lambda n, _, m, *__: _ratio(25 * (n**3 + m**3), 2) + n * m * (n + m),
    "qr": _qr,
    "qr_complete": _qr_complete,
    "eigh": lambda n, _: _ratio(9 * n**3, 2),
    "eigvalsh": lambda n, _: _ratio(2 * n**3, 3),
    "eigen_spectral": lambda n, *_: _ratio(9 * n**3, 2) + n**3,
    "eig": lambda n, _: _ratio(25 * n**3, 2),
    "svd": _svd,
    "svd_full": _svd_full,
    "svdvals": _svdvals,
    "singular_spectral": lambda rows, columns, *_: _svd(rows, columns) + rows * columns * min(rows, columns),
    "pinv": lambda rows, columns: _svd(rows, columns) + rows * columns * min(rows, columns),
    "adjugate": lambda n, _: _svd(n, n) + n**3,
    "adjugate_derivative": lambda n, *_: _svd(n, n) + 4 * n**3,
}


def multiply_adds(name: str, operands: Facts) -> int:
    """Number of multiply-adds of the factorisation or solve ``name``, for all matrices of its batch.

    It is 0 for other ops, and if an operand is not stored in full.

    operands : the Aval of each.

    >>> from iverson.core.aval import Aval
    >>> multiply_adds("cholesky", [Aval((2, 12, 12), np.dtype(float))])
    576
    """
    rule = FACTORISATIONS.get(name)
    if rule is None or any(x.support is not FULL for x in operands):
        return 0
    batch = prod(np.broadcast_shapes(*(x.shape[:-2] for x in operands)))
    return batch * int(rule(*(n for x in operands for n in x.shape[-2:])))
