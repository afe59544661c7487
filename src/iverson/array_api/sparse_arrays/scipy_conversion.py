"""Exchange with SciPy's sparse arrays, on the same buffers where a layout is common to both."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from iverson.array_api.conventions.methods import tensor_method
from iverson.array_api.conventions.operands import as_operand
from iverson.array_api.sparse_arrays.patterns import coo_pattern, scipy_structure
from iverson.array_api.sparse_arrays.sparse_construction import made_on, sparse_value, to_layout
from iverson.core.dispatch import is_tracked, value_of
from iverson.core.errors import ArgumentTypeError, GradientError, ShapeError
from iverson.core.inputs.arguments import checked
from iverson.handles import Tensor
from iverson.layouts import CompressedPattern, Coo, read_only


class ScipyMatrix(Protocol):
    """A sparse array or matrix of SciPy; each format has more attributes of its own."""

    @property
    def format(self) -> str:
        """The name of the format."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""

    def tocoo(self) -> Any:
        """The same entries as coordinates and values."""


@checked
def from_scipy(matrix: ScipyMatrix, /, *, requires_grad: bool = False) -> Tensor:
    """A SciPy sparse array or matrix as a tensor in the same layout (formats without one become COO).

    The values are shared; indices are checked and copied, as whoever holds the matrix can write them. A
    compressed matrix with unsorted or repeated indices is brought to order in a copy. Raises
    ArgumentTypeError for anything else, IndexingError, ArgumentError and ShapeError for indices that are not
    those of a matrix of its shape, which SciPy does not check.

    >>> import scipy.sparse
    >>> from_scipy(scipy.sparse.csr_array([[0.0, 1.0]]))
    iverson.Tensor([[0., 1.]], layout='csr')
    """
    import scipy.sparse

    if not scipy.sparse.issparse(matrix):
        raise ArgumentTypeError(
            "from_scipy", "matrix", got=f"a {type(matrix).__name__}", expected="a SciPy sparse array"
        )
    source: Any = matrix
    if source.format not in ("csr", "csc", "bsr") or source.ndim != 2:
        coordinates = source.indices[None] if source.format == "csr" else _coordinates(source)
        data = source.data if source.format in ("csr", "coo") else source.tocoo().data
        pattern: Any = coo_pattern(coordinates, data.shape, source.shape, True, "from_scipy")
    else:
        starts, indices, ordered = scipy_structure(source, "from_scipy")
        data = source.data[: indices.size]
        if not ordered:
            ordered_matrix = type(source)((data.copy(), indices.copy(), starts.copy()), shape=source.shape)
            ordered_matrix.sum_duplicates()
            starts, indices, data = ordered_matrix.indptr, ordered_matrix.indices, ordered_matrix.data
        blocks = source.blocksize if source.format == "bsr" else None
        pattern = CompressedPattern(source.shape, starts, indices, 1 if source.format == "csc" else 0, blocks)
    return made_on(as_operand(np.asarray(data), "from_scipy"), pattern, None, requires_grad, "from_scipy")


def _coordinates(matrix: ScipyMatrix) -> Any:
    m = matrix.tocoo()
    return np.stack(m.coords if hasattr(m, "coords") else (m.row, m.col))


@tensor_method
def to_scipy(x: Tensor, /) -> Any:
    """A matrix in a sparse layout as a SciPy sparse array (in CSC where SciPy has no such layout).

    It is on the same buffers, which are read-only: take a ``copy()`` to change entries or indices in place.
    Raises GradientError where x tracks gradients, ShapeError for dense trailing axes and compressed batches.

    >>> from iverson import sparse_coo_tensor
    >>> to_scipy(sparse_coo_tensor([[0], [1]], [2.0])).format
    'coo'
    """
    import scipy.sparse

    value = sparse_value(x, "to_scipy")
    if is_tracked(x):
        raise GradientError(
            "to_scipy", "x", got="a tensor that tracks gradients", remedy="call x.detach() first"
        )
    if value.dense_shape or not x.shape:
        obstacle = f"dense axes {value.dense_shape}" if x.shape else "rank 0"
        raise ShapeError("to_scipy", "x", got=obstacle, expected="sparse axes alone", remedy="call to_dense")
    x._note_left()
    pattern = value.pattern
    if pattern.ndim > 2 and not isinstance(value, Coo):
        raise ShapeError(
            "to_scipy",
            "x",
            got=f"a batch of shape {x.shape}",
            expected="a matrix",
            remedy='index one of the batch, or call to_layout("coo")',
        )
    if isinstance(value, Coo):
        return scipy.sparse.coo_array(
            (read_only(value.values), tuple(map(read_only, pattern.indices))), shape=x.shape
        )
    make = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array, "bsr": scipy.sparse.bsr_array}
    if pattern.layout not in make:
        pattern = (value := value_of(to_layout(x, "csc"))).pattern
    buffers = tuple(map(read_only, (value.values, pattern.indices, pattern.indptr)))
    return make[pattern.layout](buffers, shape=x.shape)


__all__ = ["from_scipy", "to_scipy"]
