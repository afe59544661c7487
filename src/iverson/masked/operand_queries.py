"""Answers about masked operands to questions of other packages: functions registered by type."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.array_api.conventions.operands import addresses_of
from iverson.array_api.reduction.reductions import entry_count
from iverson.core import dtypes
from iverson.core.dispatch import make_handle, zero_filled
from iverson.core.errors import ArgumentError
from iverson.core.inputs.arrays import repeat, tile
from iverson.core.protocols import Value
from iverson.handles.subscripts import as_index
from iverson.masked.mask import Mask
from iverson.masked.sparse_masks import of_coordinates
from iverson.masked.tensor import MaskedTensor
from iverson.masked.traced_masks import Computed
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array


@zero_filled.register
def _zero_filled(x: MaskedTensor) -> Any:
    plain = x._mask.unpack(x._inner)
    return F.to_dense(plain) if x.layout == "strided" else plain


@as_index.register
def _as_index(x: MaskedTensor) -> Any:
    if x.dtype.kind != "b" and not x._mask.full:
        raise ArgumentError(
            "index",
            "key",
            got="an index with unspecified entries",
            expected="positions that are all specified",
            remedy="use to_tensor(fill)",
        )
    return zero_filled(x)


@entry_count.register
def _entry_count(x: MaskedTensor, axes: tuple[int, ...], keepdims: bool) -> MaskedTensor:
    mask, counts = x._mask.over(axes, keepdims)
    real = dtypes.real_of(x.dtype)
    computed = type(x._mask) is Computed
    return MaskedTensor(F.astype(counts, dtype=real) if computed else make_handle(counts.astype(real)), mask)


@addresses_of.register
def _addresses_of(x: MaskedTensor) -> Any:
    return np.arange(x._mask.count) if type(x._mask) is Computed else x._mask.keys


def jacobian_block(rows: Array, columns: Array, block: Value) -> Any:
    """Block of a Jacobian as a masked tensor, if its output or its input is masked; else ``block`` itself.

    rows, columns : the output and the input. block : has the entries of ``rows`` as rows and those of
        ``columns`` as columns, only the specified ones of a masked tensor.
    """
    if not isinstance(rows, MaskedTensor) and not isinstance(columns, MaskedTensor):
        return block
    above, below = (
        x._mask if isinstance(x, MaskedTensor) else Mask(np.ones(x.shape, bool)) for x in (rows, columns)
    )
    if Computed in (type(above), type(below)):  # of which the block has all rows, or all columns
        block = F.reshape(block, shape=(above.count, below.count))
        for axis, m in enumerate((above, below)):
            if type(m) is not Computed:
                lines = F.permute_dims(block, axes=(axis, 1 - axis))
                shape = (block.shape[0], prod(m.shape)) if axis else (prod(m.shape), block.shape[1])
                block = F.scatter_add(lines, m.keys, axes=(axis,), shape=shape)
        row, column = (F.to_dense(m.plain()) for m in (above, below))
        there = F.logical_and(F.reshape(row, shape=rows.shape + (1,) * len(columns.shape)), column)
        mask = Computed(there)
        return MaskedTensor(mask.pack(F.reshape(block, shape=there.shape)), mask)
    vector = F.reshape(block, shape=(above.count * below.count,))
    if above.layout == below.layout == "strided":
        return MaskedTensor(vector, Mask(np.logical_and.outer(above.array, below.array)))
    indices = [
        *(repeat(row, below.count) for row in above.coordinates()),
        *(tile(row, above.count) for row in below.coordinates()),
    ]
    return MaskedTensor(vector, of_coordinates(np.array(indices), (*rows.shape, *columns.shape)))
