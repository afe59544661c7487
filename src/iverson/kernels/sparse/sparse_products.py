"""Sparse matrix products: with dense matrices, with sparse ones, sampled at a pattern; and solves.

Sparse-sparse products and factorisations are SciPy's. A product with a dense matrix runs over rows of
stored entries, compiled where it is large; structure that another layout or the transpose needs is kept on
the pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core import dtypes
from iverson.core.counting import work
from iverson.core.errors import LinearAlgebraError
from iverson.core.op import Op
from iverson.core.protocols import Params
from iverson.kernels import entry_rules
from iverson.kernels.kernel_registry import Values, register, zeros_like_result
from iverson.kernels.sparse import sampled_sparse_products, sparse_batches, sparse_loops
from iverson.kernels.sparse.sparse_factors import ADJOINT, Factors, factors_of
from iverson.kernels.sparse.sparse_operands import broadcast, is_sparse, sparse, sparse_only
from iverson.layouts import (
    Box,
    CompressedPattern,
    CooPattern,
    Pattern,
    Sparse,
    coalesced,
    counting_sorts,
    is_strided,
    to_strided,
)
from iverson.layouts.block_diagonal import diagonal
from iverson.layouts.conversion import like
from iverson.layouts.pattern import index_dtype
from iverson.layouts.placement import Padded, converted, reordered
from iverson.layouts.weak_tables import ForOthers

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
    from scipy.sparse import csr_array

Array = np.ndarray[Any, Any]
_CHUNK = 1 << 16


def to_scipy(x: Sparse, layout: str = "csr") -> Any:
    """SciPy sparse array in CSR or CSC; it uses x's own buffers if x has this layout."""
    pattern, source = converted_csr(x, layout)
    # SciPy's checks of the structure are made once per pattern; each call gets its own array on it.
    matrix = copy(pattern.once("scipy", lambda: _structure(pattern, layout)))
    matrix.data = np.ascontiguousarray(reordered(coalesced(x).entries, source))
    return matrix


def _structure(pattern: CompressedPattern, layout: str) -> Any:
    import scipy.sparse

    make = scipy.sparse.csr_array if layout == "csr" else scipy.sparse.csc_array
    matrix = make((np.zeros(pattern.count, np.int8), pattern.indices, pattern.indptr), shape=pattern.shape)
    matrix.has_canonical_format = True
    return matrix


def converted_csr(x: Sparse, layout: str = "csr") -> tuple[CompressedPattern, Any]:
    """Pattern of x in ``layout``, and the order of x's entries on it (None if they are in order already)."""
    if x.pattern.layout == layout:  # most are, and a call costs as much as a small product
        return x.pattern, None
    pattern, source = converted(coalesced(x).pattern, layout)
    assert isinstance(pattern, CompressedPattern)
    return pattern, source


@sparse("matmul")
def matmul(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `matmul`: sparse times sparse is sparse, a product with a dense factor is dense.

    A batch of matrices is multiplied as one matrix. If the sparse matrix has a dense axis, the result can be
    sparse also for a dense factor.
    """
    sparse_a, sparse_b = isinstance(values[0], Sparse), isinstance(values[1], Sparse)
    a: Any = values[0] if sparse_a or is_strided(values[0]) else to_strided(values[0])
    b: Any = values[1] if sparse_b or is_strided(values[1]) else to_strided(values[1])
    if len(a.shape) == len(b.shape) == 2 and a.dtype == b.dtype and a.shape[1] == b.shape[0]:
        dtype = a.dtype
    else:
        dtype = zeros_like_result(op, values, params).dtype
    if sparse_a and sparse_b:
        a, b = sparse_only(a), sparse_only(b)
        return like(_sparse_times(a, b, dtype), a.pattern)
    if sparse_b:
        if b.dense_shape and len(b.shape) == 2:
            b = coalesced(b)
            _report(b.entries.size * prod(a.shape[:-1]))
            return (a[..., b.pattern.indices[0]] @ b.entries).astype(dtype, copy=False)
        return entry_rules.product(MATRICES, sparse_only(b), a, False)
    if a.dense_shape and b.ndim == 2:
        _report(a.entries.size * b.shape[1])
        return a.pattern.value((a.entries @ b).astype(dtype, copy=False))
    return entry_rules.product(MATRICES, a if len(a.shape) == a.pattern.ndim else sparse_only(a), b, True)


def _report(multiply_adds: int) -> None:
    if work.active.count:
        work.sparse_product(multiply_adds)


def _sparse_times(a: Sparse, b: Sparse, dtype: DTypeLike) -> Any:
    """Product of sparse matrices, or batches of them, in CSR and in the dtype ``dtype``."""

    def product(a: Sparse, b: Sparse) -> Any:
        if a.shape[1] > 4 * (a.pattern.count + b.pattern.count) + 1024:
            a, b = _meeting(coalesced(a), coalesced(b))
        lhs, rhs = to_scipy(a), to_scipy(b)
        if work.active.count:
            work.sparse_product(int(np.diff(rhs.indptr)[lhs.indices].sum(dtype=np.int64)))
        starts, columns, entries = _csr_product(lhs, rhs)
        pattern = CompressedPattern((lhs.shape[0], rhs.shape[1]), starts, columns, 0)
        return pattern.value(entries.astype(dtype, copy=False))

    return sparse_batches.between(a, b, product)


def _csr_product(lhs: csr_array, rhs: csr_array) -> tuple[Array, Array, Array]:
    """Row starts, columns and entries of the product of two SciPy matrices in CSR; columns are in order.

    SciPy's loop leaves out entries whose terms add up to 0. Here they are stored: which entries a product has
    follows from patterns, as it does for all other ops.
    """
    loops, (m, n) = counting_sorts.loops(), (lhs.shape[0], rhs.shape[1])
    structure = lhs.indptr, lhs.indices, rhs.indptr, rhs.indices
    dtype = np.result_type(*structure)
    capacity = loops.csr_matmat_maxnnz(m, n, *(x.astype(dtype, copy=False) for x in structure))
    dtype = np.promote_types(dtype, index_dtype(capacity))
    starts, columns, *rhs_structure = (x.astype(dtype, copy=False) for x in structure)

    def product(a: Array, b: Array) -> tuple[Array, Array, Array]:
        result = np.empty(m + 1, dtype), np.empty(capacity, dtype), np.empty(capacity, np.result_type(a, b))
        loops.csr_matmat(m, n, starts, columns, a, *rhs_structure, b, *result)
        result = result[0], result[1][: result[0][-1]], result[2][: result[0][-1]]
        loops.csr_sort_indices(m, *result)
        return result

    nonzeros = product(lhs.data, rhs.data)
    if nonzeros[1].size == capacity:
        return nonzeros
    structural = product(*(np.ones(x.data.size, np.float32) for x in (lhs, rhs)))
    entries = np.zeros(capacity, nonzeros[2].dtype)
    lines = (np.repeat(np.arange(m), np.diff(x[0])) for x in (structural, nonzeros))
    all_keys, nonzero_keys = (rows * n + x[1] for rows, x in zip(lines, (structural, nonzeros), strict=True))
    entries[np.searchsorted(all_keys, nonzero_keys)] = nonzeros[2]
    return structural[0], structural[1], entries


def _meeting(a: Sparse, b: Sparse) -> tuple[Any, Any]:
    """Smaller matrices with the same product: columns of a and rows of b for which the row of b is not empty.

    The extent that they share may be far larger than the number of entries.
    """
    (rows, across), (along, columns) = a.pattern.coordinates, b.pattern.coordinates
    occupied, numbers = np.unique(along, return_inverse=True)
    at = np.searchsorted(occupied, across)
    at[at == occupied.size] = 0
    positions = np.flatnonzero(occupied[at] == across) if occupied.size else np.zeros(0, np.int64)
    lhs = CooPattern.of_indices((rows[positions], at[positions]), (a.shape[0], occupied.size))
    rhs = CooPattern.of_indices((numbers, columns), (occupied.size, b.shape[1]))
    return lhs.value(a.entries[positions]), rhs.value(b.entries)


def product_pattern(p: Pattern, q: Pattern) -> Pattern:
    """The pattern of a product of matrices with patterns p and q; kept on p for as long as q lives."""
    products: ForOthers[Pattern] = p.once("products", ForOthers)
    pattern = products.get(q)
    if pattern is None:
        a, b = (x.value(np.ones(x.count, np.float32)) for x in (p, q))
        pattern = products[q] = _sparse_times(a, b, np.dtype(np.float32)).pattern
    return pattern


def _turned(x: Sparse) -> Any:
    k = len(x.shape)
    pattern = x.pattern.permuted((*range(k - 2), k - 1, k - 2))
    if pattern.blocksize:
        return pattern.kind(pattern, np.ascontiguousarray(x.values.swapaxes(1, 2)))
    return pattern.value(x.entries)


def _transposed(x: Sparse | Array) -> Any:
    return _turned(x) if is_sparse(x) else np.swapaxes(x, -1, -2)


class _Matrices(entry_rules.StoredMatrices):
    """The operations of `entry_rules` on sparse values and arrays."""

    def times(self, s: Sparse, b: Array) -> Array:
        """Product of sparse and strided matrices by rows: in a compiled loop if it pays, else in SciPy's."""
        if not len(s.shape) == b.ndim == 2:
            return sparse_batches.times(s, b, self.times)
        width, count = b.shape[1], s.pattern.count
        pays = count * width >= sparse_loops.WORTHWHILE and sparse_loops.compiled_for_product(
            count, width, s.dtype, b.dtype
        )
        if not pays and s.dtype == b.dtype and type(s.pattern) is CooPattern and _is_first(s.pattern):
            return _times_unsorted(s, b)
        if not s.pattern.distinct:
            s = coalesced(s)
        if work.active.count:
            _report(s.pattern.count * width)
        if pays and _worth_turning(s.pattern, width):
            pattern, source = converted_csr(s)
            return sparse_loops.rows_times_matrix(
                pattern.indptr, pattern.indices, reordered(s.entries, source), b
            )
        layout = "csc" if s.pattern.layout == "csc" else "csr"
        if s.dtype != b.dtype:
            return np.asarray(to_scipy(s, layout) @ b).astype(dtypes.result_type(s, b), copy=False)
        # What SciPy's operator comes down to, without what is around it: for a small product that is most.
        pattern, source = converted_csr(s, layout)
        out = np.zeros((s.shape[0], width), b.dtype)
        entries = s.values if source is None else reordered(s.entries, source)
        entries, right = np.ascontiguousarray(entries), b.ravel()
        of_vector = width == 1  # a loop of its own: the one for several columns starts another for each entry
        loop = getattr(counting_sorts.loops(), f"{layout}_matvec" if of_vector else f"{layout}_matvecs")
        extents = s.shape if of_vector else (*s.shape, width)
        loop(*extents, pattern.indptr, pattern.indices, entries, right, out.ravel())
        return out

    def times_at(self, s: Sparse, b: Array, places: Pattern) -> Array:
        """Entries of ``s @ b`` at ``places``: sums over the stored entries of each row of s."""
        return _row_sums(s, b.swapaxes(0, 1), places)

    def turned(self, s: Sparse) -> Any:
        """Transpose of s; the pattern keeps its own transpose."""
        return _turned(s)

    def transposed(self, x: Array) -> Array:
        """Transpose of x: a view."""
        return np.swapaxes(x, -1, -2)

    def turned_places(self, places: Pattern) -> Pattern:
        """Transpose of the pattern ``places``."""
        return places.permuted((1, 0))


MATRICES = _Matrices()


def _is_first(pattern: CooPattern) -> bool:
    """True at the first call with a pattern for which no conversion to CSR is kept; the call is noted.

    The second product converts the pattern, and then walks a line at a time.
    """
    return ("converted", "csr", None) not in pattern._facts and not _is_again(pattern, "multiplied")


def _is_again(pattern: Pattern, fact: str) -> bool:
    """Note ``fact`` on the pattern, and return True if it was there before."""
    is_repeat = fact in pattern._facts
    pattern._facts[fact] = True
    return is_repeat


def _times_unsorted(s: Sparse, b: Array) -> Array:
    """Product of a COO matrix and b, entry by entry as stored: repeated entries need not be added first."""
    (rows, columns), width = s.pattern.indices, b.shape[1]
    if work.active.count:
        _report(s.pattern.count * width)
    out = np.zeros((s.shape[0], width), b.dtype)
    entries, right = np.ascontiguousarray(s.values), b.ravel()
    if width == 1:
        counting_sorts.loops().coo_matvec(entries.size, rows, columns, entries, right, out.ravel())
    else:
        counting_sorts.loops().coo_matmat_dense(
            entries.size, width, rows, columns, entries, right, out.ravel()
        )
    return out


#: Columns from which taking the values in another order, at each product, costs less than it saves. Measured
#: for 2.6e5 entries as processor time (`make calibrate` measures time): 16 to 32; threads share walks over
#: rows alone.
_WIDE = 8


def _worth_turning(pattern: Pattern, width: int) -> bool:
    """True if a product should walk rows, for which a pattern in CSC has to be converted.

    The conversion costs about as much as a product. A pattern in CSC is converted at the second call for it,
    if b has enough columns (``width``).
    """
    return pattern.layout != "csc" or (width >= _WIDE and _is_again(pattern, "multiplied by columns"))


def sampled_product(a: Array, b: Array, *, pattern: Pattern) -> Array:
    """Entries of ``a @ b`` at ``pattern``, in the shape of its values; never the whole product."""
    if pattern.ndim > 2:
        a, b, flat = sparse_batches.flattened(a, b, pattern, _transposed)
        return sampled_product(a, b, pattern=flat).reshape(pattern.stored_shape)
    compiled = sparse_loops.compiled_for(pattern.count, a.shape[1], a.dtype, b.dtype) and pattern.distinct
    if compiled and pattern.layout == "csc":
        # The transposed product at the transposed pattern: no entry is moved.
        return sampled_product(b.swapaxes(0, 1), a.swapaxes(0, 1), pattern=pattern.permuted((1, 0)))
    if work.active.count:
        work.sparse_product(pattern.count * a.shape[1])
    rows = b.swapaxes(0, 1)
    if compiled:
        csr, source = converted(pattern, "csr")
        assert isinstance(csr, CompressedPattern)
        assert not isinstance(source, Padded)  # rows hold any entries
        entries = sparse_loops.products_at_entries(csr.indptr, csr.indices, a, rows)
        if source is None:
            return entries.reshape(pattern.stored_shape)
        out = np.empty_like(entries)
        out[source] = entries
        return out.reshape(pattern.stored_shape)
    first, second = pattern.coordinates
    out = np.empty(pattern.count, a.dtype if a.dtype == b.dtype else np.result_type(a, b))
    step = max(_CHUNK // max(a.shape[1], 1), 1)
    for k in range(0, pattern.count, step):
        part = slice(k, k + step)
        if a.shape[1] == 1:
            np.multiply(a[:, 0][first[part]], rows[:, 0][second[part]], out=out[part])
        else:
            factors = counting_sorts.taken(a, first[part]), counting_sorts.taken(rows, second[part])
            np.einsum("pj,pj->p", *factors, out=out[part])
    return out.reshape(pattern.stored_shape)


@sparse("sampled_product")
@register("sampled_product", Box)
def sampled_sparse(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `sampled_product` for sparse factors: only the terms of stored entries are computed.

    A box is made strided.
    """
    a: Any
    b: Any
    a, b = (sparse_only(x) if is_sparse(x) else to_strided(x) for x in values)
    full_pattern = pattern = params["pattern"]
    if is_sparse(a) and is_sparse(b):
        return _read_product(a, b, pattern).reshape(pattern.stored_shape)
    if pattern.ndim > 2:
        a, b, pattern = sparse_batches.flattened(a, b, pattern, _transposed)
    if is_sparse(a) or is_sparse(b):
        s, x = (a, b) if is_sparse(a) else (b, a)
        entries = entry_rules.product_at(MATRICES, s, x, pattern, s is a)
        if s is b and pattern.blocksize:
            entries = entries.reshape(pattern.permuted((1, 0)).stored_shape).swapaxes(1, 2)
    else:
        entries = sampled_product(a, b, pattern=pattern)
    return np.ascontiguousarray(entries).reshape(full_pattern.stored_shape)


def _read_product(a: Sparse, b: Sparse, pattern: Pattern) -> Array:
    """Entries of the product of two batches of sparse matrices, at ``pattern``."""
    batch = pattern.shape[:-2]
    a, b = (coalesced(sparse_batches.on_diagonal(broadcast(x, (*batch, *x.shape[-2:])))) for x in (a, b))
    flat_pattern = diagonal(pattern)
    entries = sampled_sparse_products.product_at(a, b, flat_pattern)
    return _rows_read(a, b, flat_pattern) if entries is NotImplemented else entries


def _rows_read(a: Sparse, b: Sparse, pattern: Pattern) -> Array:
    """Entries of ``a @ b`` at ``pattern``, read from SciPy's sparse products of a chunk of rows at a time."""
    lhs, rhs = to_scipy(a), to_scipy(b)
    m, n = pattern.shape
    out = np.zeros(pattern.count, np.result_type(a.dtype, b.dtype))
    keys, order = pattern.sorted
    # A chunk of rows ends before it has more than so many terms.
    ends = np.concatenate([[0], np.cumsum(np.diff(rhs.indptr)[lhs.indices], dtype=np.int64)])[lhs.indptr]
    row = 0
    while row < m:
        stop = max(int(np.searchsorted(ends, ends[row] + (_CHUNK << 2), "right")) - 1, row + 1)
        first, last = np.searchsorted(keys, np.array([row, stop], np.int64) * n)
        if first < last:
            _report(int(ends[stop] - ends[row]))
            part = (lhs if stop - row == m else lhs[row:stop]) @ rhs
            at = slice(first, last) if isinstance(order, slice) else order[first:last]
            out[at] = _read_csr(part, keys[first:last] - row * n)
        row = stop
    return out


def _read_csr(m: csr_array, keys: Array) -> Array:
    """The entries of a SciPy CSR array at row-major addresses."""
    if m.shape[0] * m.shape[1] <= max(_CHUNK, 4 * m.nnz):
        entries: Array = m.toarray().reshape(-1)[keys]
        return entries
    m.sort_indices()
    at, there = CompressedPattern(m.shape, m.indptr, m.indices, 0).find(keys)
    return np.where(there, m.data[at], 0) if m.nnz else np.zeros(keys.size, m.dtype)


def _row_sums(s: Sparse, rows: Array, pattern: Pattern) -> Array:
    """out[p] = sum over entries (i, k) of s in row i = row of p, of s[i, k] rows[column of p, k]."""
    csr, source = converted_csr(s)
    values = reordered(coalesced(s).entries, source)
    first, second = pattern.coordinates
    out = np.zeros(pattern.count, np.result_type(s.dtype, rows.dtype))
    if work.active.count:
        _report(int(np.diff(csr.indptr)[first].sum(dtype=np.int64)))
    for k in range(0, pattern.count, _CHUNK):
        i, j = first[k : k + _CHUNK], second[k : k + _CHUNK]
        start, counts = csr.indptr[i].astype(np.int64), (csr.indptr[i + 1] - csr.indptr[i]).astype(np.int64)
        place = np.repeat(np.arange(i.size), counts)
        at = np.arange(place.size) + np.repeat(start - np.cumsum(counts) + counts, counts)
        np.add.at(out[k : k + _CHUNK], place, values[at] * rows[j[place], csr.indices[at]])
    return out


def solved(
    op: Op, values: Values, params: Params, each: Callable[[Sparse], Callable[[Sparse, Array], Array]]
) -> Any:
    """Solution x of ``a @ x = b`` for a sparse a; a batch is one matrix with the batch on its diagonal.

    each : from a without repeated entries, gives a function that solves for one matrix and strided columns.
    """
    a, b = values
    if not is_sparse(a):
        return NotImplemented
    result = zeros_like_result(op, values, params)
    if not prod(result.shape):
        return np.zeros(result.shape, result.dtype)
    rhs = to_strided(b).astype(result.dtype, copy=False)
    a = coalesced(sparse_only(a))
    return sparse_batches.times(a, rhs, each(a), stack=False)


@sparse("solve")
def solve(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `solve`, by SuperLU: its factors serve later solves, also with the transpose."""

    def each(a: Sparse) -> Callable[..., Any]:
        factors, how = factors_for(a, zeros_like_result(op, values, params).dtype)
        return lambda _, b: factors.solve(b, how)

    return solved(op, values, params, each)


@sparse("slogdet")
def slogdet(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `slogdet`: sign and logarithm of the determinant, from the LU factors that solves use.

    The sign is 0 and the logarithm -inf for a singular matrix.
    """
    (a,) = values
    if len(a.shape) != 2:
        return NotImplemented
    dtype = dtypes.to_inexact(a.dtype)
    if not a.shape[-1]:
        return np.ones((), dtype), np.zeros((), dtypes.real_of(dtype))
    a = coalesced(sparse_only(a))
    try:
        factors, how = factors_for(a, dtype, "slogdet")
    except LinearAlgebraError:
        return np.zeros((), dtype), np.asarray(-np.inf, dtypes.real_of(dtype))
    lu = factors.lu
    pivots = lu.U.diagonal()
    sign = np.prod(pivots / np.abs(pivots)) * _parity(lu.perm_r) * _parity(lu.perm_c)
    sign = np.conj(sign) if how == ADJOINT else sign
    log = np.log(np.abs(pivots)).sum()
    return np.asarray(sign, dtype), np.asarray(log, dtypes.real_of(dtype))


def _parity(order: Array) -> int:
    """1 for an even permutation, -1 for an odd one."""
    import scipy.sparse
    from scipy.sparse.csgraph import connected_components

    n = order.size
    cycles = connected_components(
        scipy.sparse.csr_array((np.ones(n), order, np.arange(n + 1)), shape=(n, n)), directed=False
    )[0]
    return 1 - 2 * int((n - cycles) % 2)


def factors_for(a: Sparse, dtype: DTypeLike, operation: str = "solve") -> tuple[Factors, str]:
    """Factors of a matrix or a batch for a solve in ``dtype``, and ``how`` to call `Factors.solve`."""
    return factors_of(a, dtype, lambda: to_scipy(sparse_batches.on_diagonal(a), "csc"), operation)


def solve_triangular(a: Array, b: Array, *, lower: bool, check: bool) -> Array:
    """Solution x of ``T x = b``, where T is the lower or upper triangle of a, for each matrix of a batch.

    BLAS divides by the diagonal unchecked; with ``check``, a zero there raises LinearAlgebraError. BLAS takes
    matrices by columns, so that it solves ``x^T T^T = b^T``.
    """
    x = np.empty(b.shape, dtypes.to_inexact(dtypes.result_type(a, b)))
    if not b.size:
        return x
    diagonal = np.diagonal(a, 0, -2, -1)
    if check and not diagonal.all():
        raise _singular(f"0 in diagonal entry {int(np.nonzero(diagonal == 0)[-1].min())}")
    if prod(b.shape[:-2]) > a.shape[-1]:
        return _substituted(a, b, x, lower)
    from scipy.linalg.blas import get_blas_funcs

    trsm = get_blas_funcs("trsm", dtype=x.dtype)
    for k in np.ndindex(b.shape[:-2]):
        x[k] = trsm(1.0, a[k].T, b[k].T, side=1, lower=not lower).T
    return x


def _substituted(a: Array, b: Array, x: Array, lower: bool) -> Array:
    """Triangular solve of many small matrices, into x: row after row, each for all matrices at once."""
    n = a.shape[-1]
    for i in range(n) if lower else reversed(range(n)):
        solved_rows = slice(0, i) if lower else slice(i + 1, n)
        sums = (a[..., i : i + 1, solved_rows] @ x[..., solved_rows, :])[..., 0, :]
        x[..., i, :] = (b[..., i, :] - sums) / a[..., i, i, None]
    return x


@sparse("solve_triangular")
def solve_sparse_triangular(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `solve_triangular` for one sparse matrix: SciPy substitutes along its stored entries."""
    a, b = values
    result = zeros_like_result(op, values, params)
    if not is_sparse(a) or len(result.shape) != 2:
        return NotImplemented
    rhs = np.ascontiguousarray(to_strided(b), result.dtype)
    if not rhs.size:
        return np.zeros(result.shape, result.dtype)
    import scipy.sparse
    from scipy.sparse.linalg import spsolve_triangular

    a = coalesced(sparse_only(a))
    matrix = to_scipy(a).astype(result.dtype, copy=False)
    triangle = matrix
    if not _is_triangular(a.pattern, params["lower"]):
        triangle = (scipy.sparse.tril if params["lower"] else scipy.sparse.triu)(matrix, format="csr")
    try:
        return np.asarray(spsolve_triangular(triangle, rhs, lower=params["lower"]))
    except np.linalg.LinAlgError as error:
        if not params["check"]:
            return solve_triangular(to_strided(a), rhs, **params)
        raise _singular(str(error)) from None


def _is_triangular(pattern: Pattern, lower: bool) -> bool:
    """True if all entries of a pattern lie in the lower (else the upper) triangle."""

    def found() -> bool:
        rows, columns = pattern.coordinates
        return bool((columns <= rows if lower else columns >= rows).all())

    return bool(pattern.once(("triangular", lower), found))


def _singular(reason: str) -> LinearAlgebraError:
    return LinearAlgebraError(
        "solve_triangular", "a", got=reason, expected="a diagonal without zeros", remedy="add to the diagonal"
    )


__all__ = ["factors_for", "sampled_product", "solve_triangular", "to_scipy"]
