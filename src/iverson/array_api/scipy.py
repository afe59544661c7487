"""SciPy's sparse arrays and ours, on the same buffers where a layout is common to both."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.array_api.arguments import as_operand
from iverson.array_api.sparse import made_on, sparse_coo_tensor, sparse_value, to_layout
from iverson.core.errors import ArgumentTypeError, GradientError, ShapeError
from iverson.layouts import CompressedPattern, Coo


def from_scipy(matrix: Any, /, *, requires_grad: bool = False) -> Any:
    """A SciPy sparse array or matrix as a tensor in the same layout (formats without one become COO).

    Buffers are shared; a compressed matrix with unsorted or repeated indices is brought to order in a copy.
    Raises ArgumentTypeError for anything else.

    >>> import scipy.sparse
    >>> from_scipy(scipy.sparse.csr_array([[0.0, 1.0]]))
    iverson.Tensor([[0., 1.]], layout='csr')
    """
    import scipy.sparse

    if not scipy.sparse.issparse(matrix):
        raise ArgumentTypeError(
            "from_scipy", "matrix", got=f"a {type(matrix).__name__}", expected="a SciPy sparse array"
        )
    if matrix.format not in ("csr", "csc", "bsr"):
        m = matrix.tocoo()
        stacked = np.stack(m.coords if hasattr(m, "coords") else (m.row, m.col))
        return sparse_coo_tensor(stacked, np.asarray(m.data), m.shape, requires_grad=requires_grad)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    blocks = matrix.blocksize if matrix.format == "bsr" else None
    pattern = CompressedPattern(
        matrix.shape, matrix.indptr, matrix.indices, 1 if matrix.format == "csc" else 0, blocks
    )
    return made_on(
        as_operand(np.asarray(matrix.data), "from_scipy"), pattern, None, requires_grad, "from_scipy"
    )


def to_scipy(x: Any, /) -> Any:
    """A matrix in a sparse layout as a SciPy sparse array, on the same buffers (BSC becomes CSC).

    Raises GradientError where x tracks gradients, ShapeError for dense trailing axes and compressed batches.

    >>> to_scipy(sparse_coo_tensor([[0], [1]], [2.0])).format
    'coo'
    """
    import scipy.sparse

    held = sparse_value(x, "to_scipy")
    if x._node is not None:
        raise GradientError(
            "to_scipy", "x", got="a tensor that tracks gradients", remedy="call x.detach() first"
        )
    if held.dense_shape:
        raise ShapeError("to_scipy", "x", got=f"dense axes {held.dense_shape}", expected="none")
    pattern = held.pattern
    if pattern.ndim > 2 and not isinstance(held, Coo):
        raise ShapeError(
            "to_scipy",
            "x",
            got=f"a batch of shape {x.shape}",
            expected="a matrix",
            remedy='index one of the batch, or call to_layout("coo")',
        )
    if isinstance(held, Coo):
        return scipy.sparse.coo_array((held.values, tuple(pattern.indices)), shape=x.shape)
    if pattern.layout == "bsc":
        pattern = (held := to_layout(x, "csc")._value).pattern
    make = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array, "bsr": scipy.sparse.bsr_array}
    return make[pattern.layout]((held.values, pattern.indices, pattern.indptr), shape=x.shape)


__all__ = ["from_scipy", "to_scipy"]
