"""Calls of the compiled loops over stored entries: products with matrices, and sums and softmax by segment.

The loops themselves are in `entry_loops`, which is imported at their first use. The code generator checks the
indices on every call. Nothing here knows of layouts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.protocols import DType

Array = np.ndarray[Any, Any]
#: Below this many products, the compiled loop is not worth its tens of milliseconds of compiling. Measured
#: without compiling (`make calibrate`): 1.3e5 to 5e5.
WORTHWHILE = 1 << 18
#: Below this many, waking threads takes longer than it saves: a tenth of a millisecond. Measured
#: (`make calibrate`): 1e6 to 4e6.
WORTH_THREADS = 1 << 22
#: The same as `WORTHWHILE` for entries of segments, each of which costs several passes in NumPy. Measured for
#: a softmax (`make calibrate`): 1.6e4 to 6.6e4.
WORTHWHILE_ENTRIES = 1 << 14


def compiled_for(count: int, width: int, *dtypes: DType) -> bool:
    """True if a product of ``count`` stored entries with rows of ``width`` should use the compiled loop."""
    return count * width >= WORTHWHILE and dtypes[0].kind == "f" and all(d == dtypes[0] for d in dtypes)


def compiled_for_product(count: int, width: int, *dtypes: DType) -> bool:
    """True if a sparse-dense product should use the compiled loop: for a single column only if it is large.

    For a vector, SciPy's loop is as fast on one thread. See `compiled_for`.
    """
    return compiled_for(count, width, *dtypes) and (width > 1 or count >= WORTH_THREADS)


def compiled_for_segments(*arrays: Array) -> bool:
    """True if sums and softmax over segments of these vectors should use the compiled loops."""
    first = arrays[0]
    alike = all(a.ndim == 1 and a.dtype == first.dtype for a in arrays)
    return first.size >= WORTHWHILE_ENTRIES and first.dtype.kind == "f" and alike


def compiled_for_rows(g: Array) -> bool:
    """True if adding the rows of ``g`` at given places should use the compiled loop."""
    return g.size >= WORTHWHILE_ENTRIES and g.dtype.kind == "f"


def _threads(products: int) -> int | None:
    return None if products >= WORTH_THREADS else 1


def rows_times_matrix(indptr: Array, indices: Array, values: Array, b: Array) -> Array:
    """Product of a CSR matrix and b: ``out[i, j]`` sums ``values[p] * b[indices[p], j]`` in row i."""
    from iverson.kernels.sparse import entry_loops

    out = np.empty((indptr.size - 1, b.shape[1]), values.dtype)
    kernel = entry_loops.spmm(values.dtype, indptr.dtype, b.shape[1])
    arrays = indptr, indices, np.ascontiguousarray(values), np.ascontiguousarray(b), out
    kernel(*arrays, threads=_threads(indices.size * b.shape[1]))
    return out


def products_at_entries(indptr: Array, indices: Array, a: Array, b: Array) -> Array:
    """Entries of ``a @ b.T`` at a CSR pattern.

    For an entry p in row i, ``out[p]`` is the dot product of row i of a and row ``indices[p]`` of b.
    """
    from iverson.kernels.sparse import entry_loops

    out = np.empty(indices.size, a.dtype)
    kernel = entry_loops.sddmm(a.dtype, indptr.dtype, a.shape[1])
    arrays = indptr, indices, np.ascontiguousarray(a), np.ascontiguousarray(b), out
    kernel(*arrays, threads=_threads(indices.size * a.shape[1]))
    return out


def rows_at(ids: Array, g: Array, rows: int) -> Array:
    """Matrix of ``rows`` rows whose row i is the sum of the rows ``g[p]`` with ``ids[p] == i``."""
    from iverson.kernels.sparse import entry_loops

    out = np.zeros((rows, g.shape[1]), g.dtype)
    entry_loops.scatter_rows(g.dtype, ids.dtype, g.shape[1])(ids, np.ascontiguousarray(g), out)
    return out


def segment_sum(starts: Array, x: Array) -> Array:
    """Sum of x over each segment: ``out[i]`` is the sum of ``x[starts[i]:starts[i + 1]]``."""
    from iverson.kernels.sparse import entry_loops

    out = np.empty(starts.size - 1, x.dtype)
    entry_loops.segment_sum(x.dtype, starts.dtype)(starts, np.ascontiguousarray(x), out)
    return out


def segment_softmax(starts: Array, x: Array) -> Array:
    """Softmax of x over each segment ``x[starts[i]:starts[i + 1]]``."""
    from iverson.kernels.sparse import entry_loops

    out = np.empty_like(x)
    entry_loops.segment_softmax(x.dtype, starts.dtype)(
        starts, np.ascontiguousarray(x), out, n=starts.size - 1
    )
    return out


def softmax_pullback(starts: Array, y: Array, g: Array) -> Array:
    """Gradient of `segment_softmax`: ``y (g - s)``, with s the sum of ``y g`` over the entry's segment."""
    from iverson.kernels.sparse import entry_loops

    out = np.empty_like(y)
    kernel = entry_loops.softmax_pullback(y.dtype, starts.dtype)
    kernel(starts, np.ascontiguousarray(y), np.ascontiguousarray(g), out, n=starts.size - 1)
    return out
