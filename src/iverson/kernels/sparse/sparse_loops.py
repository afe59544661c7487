"""Calls of the compiled loops over stored entries: products with matrices, and sums and softmax by segment.

The loops themselves are in `entry_loops`, which is imported at their first use. The code generator checks the
indices on every call. Nothing here knows of layouts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.protocols import DType

Array = np.ndarray[Any, Any]
#: Below this many products, the compiled loop is not worth its tens of milliseconds of compiling.
WORTHWHILE = 1 << 18
#: Below this many, waking threads takes longer than it saves: a tenth of a millisecond, measured.
WORTH_THREADS = 1 << 22
#: The same as `WORTHWHILE` for entries of segments, each of which costs several passes in NumPy.
WORTHWHILE_ENTRIES = 1 << 14


def compiled_for(count: int, width: int, *dtypes: DType) -> bool:
    """True if a product of ``count`` entries with rows of ``width`` takes the compiled loop."""
    return count * width >= WORTHWHILE and dtypes[0].kind == "f" and all(d == dtypes[0] for d in dtypes)


def compiled_for_product(count: int, width: int, *dtypes: DType) -> bool:
    """See `compiled_for`; for products alone: SciPy's loop for a vector is as fast on one thread."""
    return compiled_for(count, width, *dtypes) and (width > 1 or count >= WORTH_THREADS)


def compiled_for_segments(*arrays: Array) -> bool:
    """True if vectors of entries take the compiled loop over segments."""
    first = arrays[0]
    alike = all(a.ndim == 1 and a.dtype == first.dtype for a in arrays)
    return first.size >= WORTHWHILE_ENTRIES and first.dtype.kind == "f" and alike


def compiled_for_rows(g: Array) -> bool:
    """True if the addition of rows at given places takes the compiled loop."""
    return g.size >= WORTHWHILE_ENTRIES and g.dtype.kind == "f"


def _threads(products: int) -> int | None:
    return None if products >= WORTH_THREADS else 1


def rows_times_matrix(indptr: Array, indices: Array, values: Array, b: Array) -> Array:
    """out[i, j] = sum over p of values[p] b[indices[p], j]."""
    from iverson.kernels.sparse import entry_loops

    out = np.empty((indptr.size - 1, b.shape[1]), values.dtype)
    kernel = entry_loops.spmm(values.dtype, indptr.dtype, b.shape[1])
    arrays = indptr, indices, np.ascontiguousarray(values), np.ascontiguousarray(b), out
    kernel(*arrays, threads=_threads(indices.size * b.shape[1]))
    return out


def products_at_entries(indptr: Array, indices: Array, a: Array, b: Array) -> Array:
    """out[p] = sum over j of a[row p, j] b[indices[p], j]; a and b hold rows."""
    from iverson.kernels.sparse import entry_loops

    out = np.empty(indices.size, a.dtype)
    kernel = entry_loops.sddmm(a.dtype, indptr.dtype, a.shape[1])
    arrays = indptr, indices, np.ascontiguousarray(a), np.ascontiguousarray(b), out
    kernel(*arrays, threads=_threads(indices.size * a.shape[1]))
    return out


def rows_at(ids: Array, g: Array, rows: int) -> Array:
    """out[i] = the sum of the g[p] with ids[p] = i, for rows i of a matrix."""
    from iverson.kernels.sparse import entry_loops

    out = np.zeros((rows, g.shape[1]), g.dtype)
    entry_loops.scatter_rows(g.dtype, ids.dtype, g.shape[1])(ids, np.ascontiguousarray(g), out)
    return out


def segment_sum(starts: Array, x: Array) -> Array:
    """out[i] = the sum of x[starts[i]:starts[i + 1]]."""
    from iverson.kernels.sparse import entry_loops

    out = np.empty(starts.size - 1, x.dtype)
    entry_loops.segment_sum(x.dtype, starts.dtype)(starts, np.ascontiguousarray(x), out)
    return out


def segment_softmax(starts: Array, x: Array) -> Array:
    """exp(x) over the sum of that over x[starts[i]:starts[i + 1]]."""
    from iverson.kernels.sparse import entry_loops

    out = np.empty_like(x)
    entry_loops.segment_softmax(x.dtype, starts.dtype)(
        starts, np.ascontiguousarray(x), out, n=starts.size - 1
    )
    return out


def softmax_pullback(starts: Array, y: Array, g: Array) -> Array:
    """y (g - sum of y g over the segment)."""
    from iverson.kernels.sparse import entry_loops

    out = np.empty_like(y)
    kernel = entry_loops.softmax_pullback(y.dtype, starts.dtype)
    kernel(starts, np.ascontiguousarray(y), np.ascontiguousarray(g), out, n=starts.size - 1)
    return out
