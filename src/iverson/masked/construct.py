"""Constructors of masked tensors: `masked_tensor` and `as_masked_tensor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from iverson.array_api.sparse_arrays.sparse_construction import pattern_held
from iverson.core.dispatch import Handle, Wrapper, alias, has_entries, value_of
from iverson.core.errors import DTypeError, ShapeError
from iverson.core.inputs.arguments import checked
from iverson.core.inputs.missing_entries import filled, is_missing, missing
from iverson.handles import asarray
from iverson.handles.convert import leaves
from iverson.handles.subscripts import as_index
from iverson.kernels.deferred_patterns import origin_of, stored_by
from iverson.layouts import Pattern, Sparse, coalesced
from iverson.masked.align import common, narrowed
from iverson.masked.mask import Mask
from iverson.masked.sparse_masks import Stored
from iverson.masked.tensor import MaskedTensor, fits
from iverson.masked.traced_masks import Computed
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import Data as Numbers

    #: What a masked tensor is made of; lists may have None among their entries.
    Data: TypeAlias = Numbers | Sequence[Any]


@checked
def masked_tensor(data: Data, mask: Numbers | None = None, *, requires_grad: bool = False) -> MaskedTensor:
    """A MaskedTensor: ``data`` where ``mask`` is True, unspecified elsewhere.

    Parameters
    ----------
    data : a Tensor, a NumPy array, a scalar or nested lists of numbers; or a MaskedTensor or an array of
        `numpy.ma` or `torch.masked` (detached), to be masked further. None, and what pandas and Arrow say
        is missing (NA), is unspecified.
    mask : bools that broadcast to data's shape; where the mask is itself a MaskedTensor, what it leaves
        unspecified is too. None specifies all entries, of a sparse tensor those it stores. The pattern of a
        sparse mask is shared, and work on the result grows with its size. It may be computed in a function
        that is compiled or mapped; then the result is in place, and its number of entries is not known there.
    requires_grad : make the result a new leaf of the graph. Otherwise it depends on ``data`` as any result
        does, at the specified entries.

    Raises DTypeError unless the mask is bool, ShapeError where it does not fit.

    >>> import iverson as iv
    >>> m = masked_tensor(iv.asarray([1., iv.nan, 3.]), [True, False, True])
    >>> m * 2, m.sum()
    (iverson.MaskedTensor([2., --, 6.]), iverson.MaskedTensor(4.))
    """
    if isinstance(data, np.ma.MaskedArray):
        data = masked_tensor(np.ma.getdata(data), ~np.ma.getmaskarray(data))
    elif type(data).__module__.startswith("torch.masked"):
        theirs: Any = data
        data = masked_tensor(theirs.get_data().detach().numpy(), theirs.get_mask().numpy())
    elif not isinstance(data, (Handle, Wrapper)):
        data = _of_missing(data)
    operand: Any = data if isinstance(data, MaskedTensor) else asarray(data)
    pattern = _stored_by(operand) if mask is None or has_entries(data) else origin_of(operand)
    if isinstance(pattern, Pattern) and not pattern.distinct:
        operand = F.coalesce(operand)
    specified = _mask_of(operand, mask)
    if isinstance(operand, MaskedTensor):
        specified = common("masked_tensor", [operand._mask, specified], operand.shape)
        result = MaskedTensor(alias(narrowed(operand._inner, operand._mask, specified)), specified)
    else:
        result = MaskedTensor(specified.pack(operand), specified)
    return result.detach().requires_grad_() if requires_grad else result


@checked
def as_masked_tensor(data: Data, mask: Numbers | None = None) -> MaskedTensor:
    """The result of `masked_tensor`; a MaskedTensor without a new mask is returned as it is.

    >>> as_masked_tensor([1., 2.], [False, True])
    iverson.MaskedTensor([--, 2.])
    """
    return data if mask is None and isinstance(data, MaskedTensor) else masked_tensor(data, mask)


def _of_missing(data: Data) -> Data:
    """Masked tensor of the present entries of ``data``; ``data`` itself if no entry is missing.

    Missing entries are those that the source marks (None, masks of NumPy, missing values of a data frame).
    """
    absent = missing(data)
    if absent is not None:
        return masked_tensor(filled(data), ~absent)
    has_missing = isinstance(data, (list, tuple)) and any(map(is_missing, leaves(data)))
    if not has_missing and getattr(data, "dtype", None) != np.dtype(object):
        return data
    cells = np.array(data, dtype=object)
    absent = np.fromiter(map(is_missing, cells.flat), bool, cells.size).reshape(cells.shape)
    if not absent.any():
        return data
    present = cells[~absent]
    cells[absent] = present[0] if present.size else 0.0
    return masked_tensor(cells.tolist(), ~absent)


def _stored_by(data: Array) -> Pattern | None:
    """Pattern of a sparse tensor, also in a trace or in a batch; None for other tensors."""
    if isinstance(data, Wrapper) or stored_by(data) is None:
        return None
    pattern: Pattern = pattern_held(data, "masked_tensor", "data")
    return pattern


def _mask_of(data: Array, mask: Numbers | None) -> Mask:
    """Mask from the user's argument ``mask``; if it is None, the mask of all entries, or of the stored ones
    of sparse data.
    """
    if mask is None:
        pattern = _stored_by(data)
        if pattern is None:
            return Mask(np.ones(data.shape, bool))
        return Stored(pattern, data.shape[pattern.ndim :])
    if not isinstance(mask, (Handle, Wrapper)) and (
        isinstance(mask, np.ma.MaskedArray) or missing(mask) is not None
    ):
        mask = masked_tensor(mask)
    bools = mask if isinstance(mask, (Handle, Wrapper)) else asarray(mask)
    if bools.dtype.kind != "b":
        raise DTypeError(
            "masked_tensor", "mask", got=f"dtype {bools.dtype}", expected="bool", remedy="compare it with 0"
        )
    bools = as_index(bools)
    if not fits(bools.shape, data.shape):
        raise ShapeError(
            "masked_tensor",
            "mask",
            got=f"shape {bools.shape} for data of shape {data.shape}",
            expected="a shape that broadcasts to that of the data",
        )
    if isinstance(value_of(bools), Sparse) and bools.shape == data.shape:
        value = coalesced(value_of(bools))
        result = Stored(value.pattern, value.dense_shape)
        true = value.entries.reshape(-1)
        return result if true.all() else result.kept(true)
    if not has_entries(bools):
        return Computed(F.broadcast_to(F.to_dense(bools), shape=data.shape))
    return Mask(np.array(np.broadcast_to(F.to_numpy(bools), data.shape)))


__all__ = ["MaskedTensor", "as_masked_tensor", "masked_tensor"]
