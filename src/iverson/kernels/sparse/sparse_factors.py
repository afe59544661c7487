"""LU factors of sparse matrices, cached for later solves with the same values and with the transpose.

A pattern keeps the factors of the last values on it, and knows others that are in use. They serve a value
whose entries are the same numbers, whoever made it, and never one whose buffer was written to: a comparison
passes over the entries once, a solve over the factors, which have at least as many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from iverson.core.counting import work
from iverson.core.errors import LinearAlgebraError
from iverson.core.protocols import DType
from iverson.layouts import Pattern, Sparse

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import SuperLU

Array = np.ndarray[Any, Any]
#: Solves with the matrix, its transpose and its adjoint, as SuperLU calls them.
PLAIN, TRANSPOSED, ADJOINT = "N", "T", "H"


class Factors:
    """LU factors (P A Q = L U) by SuperLU, of a matrix or of a batch on the diagonal of one.

    entries : a copy of the stored entries that were factorised, in the pattern's order.
    """

    __slots__ = ("__weakref__", "entries", "lu")

    def __init__(self, entries: Array, lu: SuperLU) -> None:
        self.entries = entries
        self.lu = lu

    def solve(self, b: Array, how: str) -> Array:
        """Solution x of ``A x = b``, ``A^T x = b`` or ``A^H x = b``, for a matrix of columns b.

        how : `PLAIN`, `TRANSPOSED` or `ADJOINT`.
        """
        if b.dtype.kind == "c" and self.entries.dtype.kind != "c":
            k = b.shape[1]
            parts = self.lu.solve(np.concatenate([b.real, b.imag], axis=1, dtype=self.entries.dtype), how)
            solution = np.empty(b.shape, b.dtype)
            solution.real, solution.imag = parts[:, :k], parts[:, k:]
            return solution
        solved: Array = self.lu.solve(b.astype(self.entries.dtype), how)
        return solved.astype(b.dtype, copy=False)


class _Known:
    """The factors on one pattern: ``last`` keeps the newest alive, ``held`` finds all that are in use."""

    __slots__ = ("held", "last")

    def __init__(self) -> None:
        self.held: WeakSet[Factors] = WeakSet()
        self.last: Factors | None = None

    def find(self, entries: Array) -> Factors | None:
        return next((f for f in tuple(self.held) if _same(f.entries, entries)), None)


def _same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())


def _known(pattern: Pattern) -> _Known:
    table: _Known = pattern.once("factors", _Known)
    return table


def factors_of(
    x: Sparse, dtype: DTypeLike, as_csc: Callable[[], csc_array], operation: str = "solve"
) -> tuple[Factors, str]:
    """Factors that solve with x in the precision of ``dtype``, and the argument ``how`` of `Factors.solve`.

    Factors of the same entries, or of the transpose or adjoint, are used again; otherwise x is factorised.
    Raises LinearAlgebraError for a singular matrix.

    as_csc : gives x as a SciPy matrix in CSC (a batch: along the diagonal). Entries of x are stored once.
    operation : the name of the function, for errors.
    """
    entries = x.entries.astype(_own(x.dtype, dtype), copy=False)
    table, pattern = _known(x.pattern), x.pattern
    factors = table.find(entries)
    if factors is not None:
        return factors, PLAIN
    own_axes = tuple(range(pattern.ndim))
    transposed_table = _known(pattern.permuted((*own_axes[:-2], own_axes[-1], own_axes[-2])))
    if pattern.blocksize:
        entries = np.ascontiguousarray(x.values.swapaxes(1, 2)).reshape(-1).astype(entries.dtype, copy=False)
    for how, candidate in ((TRANSPOSED, entries), (ADJOINT, np.conj(entries))):
        factors = transposed_table.find(candidate)
        if factors is not None:
            return factors, how
    new_factors = Factors(
        np.array(x.entries, entries.dtype), _factorised(as_csc().astype(entries.dtype), operation)
    )
    table.held.add(new_factors)
    table.last = new_factors
    return new_factors, PLAIN


def _own(dtype: DType, result_dtype: DTypeLike) -> Any:
    """Dtype of a matrix in the precision of a result; a real matrix stays real, also for a complex result."""
    precision = np.zeros((), result_dtype).real.dtype
    return np.result_type(precision, np.complex64) if dtype.kind == "c" else precision


def _factorised(matrix: csc_array, operation: str) -> Any:
    """Factors of ``matrix`` by SuperLU, counted as work; raises LinearAlgebraError for a singular matrix.

    operation : the name of the function, for errors.
    """
    from scipy.sparse.linalg import splu

    if work.active.count:
        work.factorised()
    try:
        return splu(matrix)
    except RuntimeError as error:
        raise LinearAlgebraError(
            operation,
            "a",
            got=str(error),
            expected="a matrix with an inverse",
            remedy="look for rows and columns without entries; pinv of to_dense() takes singular ones",
        ) from None
