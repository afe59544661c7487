"""Binsparse: sparse and dense tensors in HDF5, zarr and NumPy's archives, as other libraries read them.

The format is the Binary Sparse Format Specification, version 0.1
(https://graphblas.org/binsparse-specification/): a descriptor in JSON and named arrays, in a group of a file.
Files are read and written by the package ``binsparse``, its reference implementation; what it leaves to its
callers (indices in range and in order, types as declared, triangles stored for a whole) is checked here.

>>> import iverson as iv, os, tempfile
>>> from iverson.interop import binsparse
>>> path = os.path.join(tempfile.mkdtemp(), "graph.h5")
>>> binsparse.write(path, iv.eye(2, layout="csr"))
>>> binsparse.read(path)
iverson.Tensor([[1., 0.],
                [0., 1.]], layout='csr')
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from zipfile import BadZipFile

import numpy as np

import iverson as iv
from iverson.array_api.sparse_arrays.sparse_construction import sparse_value
from iverson.core import dtypes
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    IndexingError,
    ShapeError,
    speaking_as,
)
from iverson.core.protocols import NDArray, Params
from iverson.core.shapes import as_shape
from iverson.interop.array_checks import leaving
from iverson.saving import replacing

if TYPE_CHECKING:
    import h5py
    import numpy.typing as npt
    import zarr

try:
    import binsparse
except ImportError as error:
    raise ImportError("iverson.interop.binsparse needs its package: pip install binsparse") from error

if TYPE_CHECKING:
    #: Where a tensor is: a file, a group of one that is open, or the members of an archive.
    Place: TypeAlias = str | os.PathLike[str] | h5py.Group | zarr.Group | MutableMapping[str, npt.ArrayLike]
    #: A level: its kind, how many axes it has, the indices, and the starts of its lines if it has several.
    Part: TypeAlias = tuple[str, int, Sequence[NDArray], *tuple[NDArray, ...]]

_LINES = {"csr": binsparse.CSRMatrix, "csc": binsparse.CSCMatrix}
#: What the other triangle holds of an entry v below, or above, the diagonal (section "Structure").
_MIRRORED: dict[str, Any] = {
    "symmetric": np.positive,
    "hermitian": np.conj,
    "skew_symmetric": np.negative,
}


def write(where: Place, x: iv.Tensor, /) -> None:
    """Write a tensor to a file, or into a group of one that is open.

    Parameters
    ----------
    where : a path that ends in ``.h5``, ``.hdf5``, ``.zarr`` or ``.npz``, of a file that is made anew, and
        stays what it was if that fails; a group of h5py or zarr, whose arrays of the same names are replaced;
        or a dict, that takes the members of an archive.
    x : a tensor, by its layout: strided as ``DVEC`` or ``DMATR``, COO as ``CVEC`` or ``COOR`` (each entry
        once, sorted), CSR and CSC as what they are. More axes, batches of matrices and dense trailing axes
        are levels of a ``custom`` format.

    Raises ArgumentTypeError for what is no tensor, masked ones included, GradientError where x tracks
    gradients, DTypeError for float16 and bfloat16 and ArgumentError for blocks, COO of rank 0 and layouts of
    users, which the format lacks.

    >>> import iverson as iv
    >>> held = {}
    >>> write(held, iv.sparse_coo_tensor([[3, 1]], [1.0, 2.0], (5,)))
    >>> held["indices_0"].tolist(), held["values"].tolist()
    ([1, 3], [2.0, 1.0])
    """
    description = _described(leaving(x, "write"))
    if isinstance(where, (str, os.PathLike)):
        with replacing(Path(os.fsdecode(where))) as new:
            try:
                binsparse.save_binsparse(description, new)
            except ValueError as error:
                raise _unsuited("write", str(error)) from None
    else:
        description.serialize(_container(where, "write"))


def read(where: Place, /, *, requires_grad: bool = False) -> iv.Tensor:
    """The tensor in a file, or in a group of one that is open.

    ``where`` is as for `write`. Compressed rows and columns (with batches and dense axes) come as CSR and
    CSC, dense levels as strided, all else (coordinates, doubly compressed rows, other levels) as COO. Of a
    symmetric, skew-symmetric or Hermitian matrix of which a triangle is stored the other one is made. All
    arrays are copied. With requires_grad the tensor is a leaf.

    Raises ArgumentError for what is no such description, for one whose arrays are missing, or not as declared
    or ordered, and for a fill value other than 0; IndexingError for indices outside the shape, ShapeError for
    shapes that arrays do not fit; ArgumentTypeError for other places.

    >>> import numpy as np
    >>> read({
    ...     "binsparse": np.asarray(
    ...         '{"binsparse": {"version": "0.1", "format": "CVEC", "shape": [4],'
    ...         '"number_of_stored_values": 2,'
    ...         '"data_types": {"indices_0": "int64", "values": "iso[int8]"}}}'
    ...     ),
    ...     "indices_0": np.asarray([0, 2]), "values": np.asarray([7], np.int8)})
    iverson.Tensor([7, 0, 7, 0], dtype=int8, layout='coo')
    """
    with _opened(where) as container:
        try:
            parsed = binsparse.BinsparseTensor.parse(container, alias=False, copy=True)
            structure = container.read_header().get("structure")
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            reason = error.args[0] if isinstance(error, KeyError) and error.args else error
            raise ArgumentError(
                "read",
                "where",
                got=str(reason),
                expected="a tensor as the binsparse specification describes one",
            ) from None
    with speaking_as("read"):
        if parsed.fill and (parsed.fill_value != 0):
            raise _wrong(f"fill value {parsed.fill_value}", "0: entries that are not stored are 0")
        tensor = _tensor(parsed)
        if structure is not None:
            tensor = _whole(tensor, structure)
        return tensor.detach().requires_grad_() if requires_grad else tensor


# --- what a tensor is in the format -----------------------------------------------------------------


def _described(x: iv.Tensor) -> binsparse.BinsparseTensor:
    """Tensor as an object of the package ``binsparse``; raises if the format has no such dtype or layout."""
    if x.dtype not in dtypes.STANDARD:
        raise DTypeError(
            "write", "x", got=f"dtype {x.dtype}", expected="one of the format", remedy="convert it to float32"
        )
    if x.layout == "strided":
        values = np.ascontiguousarray(x.numpy()).reshape(-1)
        if x.ndim in (1, 2):
            kind = (binsparse.DVECVector, binsparse.DMATRMatrix)[x.ndim - 1]
            return kind(x.shape, values.size, values=values)
        return _custom(x.shape, _levels(("dense", x.ndim, ()), values))
    if x.layout == "coo" and sparse_value(x, "write").pattern.ndim:
        value = sparse_value(x.coalesce(), "write")
        indices, values = tuple(map(np.ascontiguousarray, value.pattern.indices)), value.values
        if x.ndim == 1:
            return binsparse.CVECVector(x.shape, len(values), indices_0=indices[0], values=values)
        if x.ndim == len(indices) == 2:
            return binsparse.COORMatrix(x.shape, len(values), None, None, *indices, values)
        return _custom(
            x.shape, _levels(("sparse", len(indices), indices), ("dense", values.ndim - 1, ()), values)
        )
    if x.layout not in _LINES:
        raise ArgumentError(
            "write",
            "x",
            got=f"rank {x.ndim} in layout {x.layout!r}",
            expected="strided, COO of rank 1 or more, CSR or CSC: the format has no other",
            remedy=f'call x.to_layout("{"csr" if x.ndim > 1 else "strided"}")',
        )
    value = sparse_value(x, "write")
    starts, indices, values, rank = (
        value.pattern.indptr,
        value.pattern.indices,
        value.values,
        value.pattern.ndim,
    )
    if x.ndim == 2:
        return _LINES[x.layout](x.shape, len(values), None, None, starts, indices, values)
    axes = [*range(rank - 2), rank - 1, rank - 2, *range(rank, x.ndim)] if x.layout == "csc" else None
    lines = ("dense", rank - 1, ()), ("sparse", 1, (indices,), starts), ("dense", values.ndim - 1, ())
    return _custom(x.shape, _levels(*lines, values), axes)


def _levels(*parts: Part | NDArray) -> binsparse.BinsparseLevel:
    """Nested levels of a custom tensor, from parts: the outermost first, the values last.

    parts : for each level, its kind, its number of axes, its index arrays and, if compressed, its starts. A
        dense part without axes is left out.
    """
    *outer, values = parts
    level: Any = binsparse.ElementLevel(np.ascontiguousarray(values).reshape(-1))
    for kind, rank, indices, *starts in reversed(outer):
        if kind == "sparse":
            level = binsparse.SparseLevel(rank, level, indices, *starts)
        elif rank:
            level = binsparse.DenseLevel(rank, level)
    return level


def _custom(
    shape: tuple[int, ...], level: binsparse.BinsparseLevel, axes: list[int] | None = None
) -> binsparse.CustomTensor:
    *_, element = _walk(level)
    return binsparse.CustomTensor(
        shape, element.values.size, level=level, transpose=None if axes is None else tuple(axes)
    )


def _walk(level: binsparse.BinsparseLevel | None) -> Iterator[binsparse.BinsparseLevel]:
    while level is not None:
        yield level
        level = getattr(level, "level", None)


# --- what is read -----------------------------------------------------------------------------------


def _tensor(parsed: binsparse.BinsparseTensor) -> iv.Tensor:
    """Tensor of a parsed file. The file's arrays are decoded but may have wrong sizes or orders: this is
    checked here.
    """
    shape = as_shape(parsed.shape, "read")
    *levels, element = _walk(parsed.level)
    axes = parsed.transpose or tuple(range(len(shape)))
    level_shape = tuple(shape[axis] for axis in axes)  # the extents in the order of levels
    values, dense = element.values, 0
    while levels and isinstance(levels[-1], binsparse.DenseLevel):
        dense += levels.pop().rank
    lead = len(level_shape) - dense
    back = tuple(int(k) for k in np.argsort(axes))
    if not levels:
        return iv.permute_dims(
            iv.asarray(_sized(values, "values", prod(level_shape)).reshape(level_shape)), back
        )
    kinds = [type(level) for level in levels]
    lines = kinds[-1:] == [binsparse.SparseLevel] and kinds[:-1] and set(kinds[:-1]) == {binsparse.DenseLevel}
    if lines and levels[-1].rank == 1 and axes[lead:] == tuple(range(lead, len(axes))):
        for make, order in (
            (iv.sparse_csr_tensor, (*range(lead),)),
            (iv.sparse_csc_tensor, (*range(lead - 2), lead - 1, lead - 2)),
        ):
            if axes[:lead] == order:
                (indices,) = levels[-1].indices
                starts = _sized(levels[-1].pointers_to_next, "pointers", prod(level_shape[: lead - 1]) + 1)
                values = _sized(values, "values", indices.size * prod(level_shape[lead:]))
                return make(_index(starts), _index(indices), values.reshape(-1, *level_shape[lead:]), shape)
    rows = _coordinates(levels, level_shape)
    values = _sized(values, "values", rows.shape[1] * prod(level_shape[lead:])).reshape(
        -1, *level_shape[lead:]
    )
    tensor = iv.sparse_coo_tensor(rows, values, level_shape)
    return tensor if axes == tuple(range(len(axes))) else iv.permute_dims(tensor, back)


def _coordinates(levels: list[binsparse.BinsparseLevel], level_shape: tuple[int, ...]) -> NDArray:
    """Indices of the entries of the last level, a row for each axis of the levels; raises if arrays do not
    fit.

    level_shape : the extents of the tensor in the order of the levels.
    """
    rows, count, depth = np.zeros((0, 1), np.int64), 1, 0
    for k, level in enumerate(levels):
        extents = level_shape[depth : depth + level.rank]
        if isinstance(level, binsparse.DenseLevel):
            size = prod(extents)
            if 0 not in level_shape:  # a shape must not ask for memory that no array in the file bears out
                _bounded(levels[k:], count * size)
            inner = np.indices(extents).reshape(level.rank, size)
            rows = np.concatenate([np.repeat(rows, size, axis=1), np.tile(inner, count)])
            count *= size
        else:
            indices = [_index(row) for row in level.indices]
            total = indices[0].size
            for axis, row in enumerate(indices, depth):
                _in_range(_sized(row, f"indices_{axis}", total), level_shape[axis], axis)
            starts = np.asarray([0, total])
            if depth:
                starts = _index(_sized(level.pointers_to_next, f"pointers_to_{depth}", count + 1))
            counts = np.diff(starts)
            if starts[0] != 0 or starts[-1] != total or (counts < 0).any():
                raise _wrong(
                    f"pointers_to_{depth} from {starts[0]} to {starts[-1]}", f"0 to {total}, never decreasing"
                )
            parent = np.repeat(np.arange(count), counts)
            _check_order(np.stack([parent, *indices]), depth)
            rows = np.concatenate([rows[:, parent], np.stack(indices)])
            count = total
        depth += level.rank
    return rows


def _in_range(row: NDArray, extent: int, axis: int) -> None:
    if row.size and (row.min() < 0 or row.max() >= extent):
        bad = row.min() if row.min() < 0 else row.max()
        raise IndexingError(
            "read",
            f"indices_{axis}",
            got=f"index {bad} on axis {axis} as stored",
            expected=f"one in [0, {extent})",
        )


def _bounded(levels: list[binsparse.BinsparseLevel], count: int) -> None:
    """Raise ShapeError if the next sparse level has too few starts for ``count`` lines.

    So a shape in a file cannot ask for memory beyond that of the file's arrays.
    """
    starts = next(other.pointers_to_next for other in levels if isinstance(other, binsparse.SparseLevel))
    if count >= starts.size:
        raise ShapeError(
            "read", "pointers", got=f"shape {starts.shape}", expected=f"at least {count + 1} entries"
        )


def _check_order(rows: NDArray, depth: int) -> None:
    """Raise ArgumentError unless the columns of ``rows`` increase, in lexicographic order.

    depth : the number of axes of outer levels, for the message.
    """
    rises = np.zeros(max(rows.shape[1] - 1, 0), bool)
    for row in rows[::-1]:
        step = np.diff(row)
        rises = (step > 0) | ((step == 0) & rises)
    wrong = np.flatnonzero(~rises)
    if wrong.size:
        before, after = (tuple(map(int, rows[1:, k])) for k in (wrong[0], wrong[0] + 1))
        raise _wrong(f"{before} before {after} in indices_{depth}", "increasing indices, none twice")


def _whole(x: iv.Tensor, structure: str) -> iv.Tensor:
    """Full matrix from ``x``, which has one triangle of it.

    structure : name of the kind of matrix and of the stored triangle, such as "symmetric_lower".
    """
    kind, _, side = str(structure).rpartition("_")
    if kind not in _MIRRORED or side not in ("lower", "upper"):
        raise _wrong(f"structure {structure!r}", f"one of {', '.join(_MIRRORED)} with _lower or _upper")
    if x.layout == "strided" or x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise _wrong(
            f"structure {structure!r} of shape {x.shape} in layout {x.layout!r}", "a sparse square matrix"
        )
    value = sparse_value(x.to_layout("coo"), "read")
    (rows, columns), values = value.pattern.indices, value.values
    if (rows < columns if side == "lower" else rows > columns).any():
        raise _wrong(f"entries outside of the {side} triangle", f"none: the structure is {structure!r}")
    off = rows != columns
    all_rows, all_columns = np.append(rows, columns[off]), np.append(columns, rows[off])
    all_values = np.append(values, _MIRRORED[kind](values[off]))
    return iv.sparse_coo_tensor([all_rows, all_columns], all_values, x.shape).coalesce().to_layout(x.layout)


def _index(array: NDArray) -> NDArray:
    if array.dtype.kind not in "iu":
        raise DTypeError("read", "indices", got=f"dtype {array.dtype}", expected="integers")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise _wrong(f"index {array.max()}", "indices inside the shape")
    return array.astype(np.int64) if array.dtype not in (np.int32, np.int64) else array


def _sized(array: NDArray, name: str, size: int) -> NDArray:
    if array.shape != (size,):
        raise ShapeError("read", name, got=f"shape {array.shape}", expected=f"({size},)")
    return array


def _wrong(content: str, expected: str) -> ArgumentError:
    return ArgumentError("read", "where", got=content, expected=expected)


# --- places -----------------------------------------------------------------------------------------


class _Checked(binsparse.BinsparseContainer):  # type: ignore[misc, unused-ignore]
    """Container that raises ValueError if an array does not have the dtype that the header declares.

    The package would cast such an array.
    """

    def __init__(self, container: binsparse.BinsparseContainer) -> None:
        super().__init__()
        self._container = container

    def _read_header(self) -> dict[str, Any]:
        header: dict[str, Any] = dict(self._container._read_header())
        if header.get("version") == "0.1":  # as the specification and the implementation in C have it
            header["version"] = binsparse.BINSPARSE_VERSION
        return header

    def _read_buffer(self, key: str) -> NDArray:
        buffer: NDArray = self._container._read_buffer(key)
        declared = self._read_header()["data_types"][key].rpartition("[")[2].rstrip("]")
        names = {"bint8": ("uint8", "int8", "bool")}.get(declared, (declared,))
        if buffer.ndim != 1 or buffer.dtype.name not in names:
            raise ValueError(
                f"{key!r} has dtype {buffer.dtype} and {buffer.ndim} axes, declared as one of {declared}"
            )
        return buffer

    def _write_header(self, value: Params) -> None:
        self._container._write_header(value)

    def _write_buffer(self, key: str, value: NDArray) -> None:
        self._container._write_buffer(key, value)


def _container(where: Place, operation: str) -> binsparse.BinsparseContainer:
    if isinstance(where, MutableMapping) and not hasattr(where, "attrs"):
        return binsparse.NPZBinsparseContainer(where)
    if hasattr(where, "attrs") and hasattr(where, "create_array"):
        return binsparse.ZarrBinsparseContainer(where)
    if hasattr(where, "attrs") and hasattr(where, "create_dataset"):
        return binsparse.HDF5BinsparseContainer(where)
    raise _unsuited(operation, f"a {type(where).__name__}")


def _unsuited(operation: str, description: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        operation,
        "where",
        got=description,
        expected="a path that ends in .h5, .hdf5, .zarr or .npz, a group of h5py or zarr, or a dict",
    )


@contextmanager
def _opened(where: Place) -> Iterator[binsparse.BinsparseContainer]:
    """Container that the package `binsparse` reads from; its file is open until the context ends."""
    if not isinstance(where, (str, os.PathLike)):
        yield _Checked(_container(where, "read"))
        return
    suffix = os.path.splitext(os.fspath(where))[1].lower()
    if suffix == ".npz":
        try:
            members = np.load(where, allow_pickle=False)
        except (ValueError, EOFError, BadZipFile) as error:
            raise _wrong(f"{os.fspath(where)!r}: {error}", "an archive of NumPy's") from None
        with members:
            yield _Checked(binsparse.NPZBinsparseContainer(members))
    elif suffix in (".h5", ".hdf5"):
        import h5py

        with h5py.File(where, "r") as file:
            yield _Checked(binsparse.HDF5BinsparseContainer(file))
    elif suffix == ".zarr":
        import zarr

        yield _Checked(binsparse.ZarrBinsparseContainer(zarr.open_group(where, mode="r")))
    else:
        raise _unsuited("read", f"a path that ends in {suffix!r}")


__all__ = ["read", "write"]
