"""Masked rules of segment ops, in which index arrays name for each entry the entry of the result it goes to.

The table that names these rules is in `iverson.masked.rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import bind
from iverson.core.op import Op
from iverson.core.protocols import NDArray, Params, Value
from iverson.core.shapes import Shape
from iverson.layouts.pattern import addresses
from iverson.masked.axis_rules import extreme
from iverson.masked.mask import Mask
from iverson.masked.move_rules import routed
from iverson.masked.sparse_masks import Stored, of_keys
from iverson.masked.tensor import MaskedTensor
from iverson.masked.traced_masks import added, any_computed
from iverson.ops import F

Args = tuple[Any, ...]


def _targets(entries: Mask, indices: Sequence[Value], axes: Shape, shape: Shape) -> tuple[Mask, NDArray]:
    """Mask of the places in the result that entries go to, and for each entry the number of its place in that
    mask.

    entries : the mask of the entries; their first axes are those of the index arrays.
    indices : index arrays with the place along ``axes`` of an array of ``shape``.
    """
    at = np.broadcast_arrays(*(F.to_numpy(i) for i in indices))
    target, _ = routed(entries.coordinates(), at, axes, len(shape))
    keys, number = np.unique(addresses(target, shape), return_inverse=True)
    mask: Mask = of_keys(keys, shape)
    return mask if isinstance(entries, Stored) else Mask(mask.array), number.reshape(-1)


def scatter_add(op: Op, args: Args, params: Params) -> Any:
    """Rule of scatter_add: sums of the specified entries; a result to which none is added is unspecified."""
    x, *indices = args
    if any_computed(args):
        return added(op, args, params, F.zero((), x.dtype))
    op.abstract(Aval(x.shape, x.dtype), *indices, **params)
    mask, number = _targets(x._mask, indices, params["axes"], params["shape"])
    return MaskedTensor(bind(op, (x._inner, number), {"axes": (0,), "shape": (mask.count,)}), mask)


def folded(op: Op, args: Args, params: Params) -> Any:
    """Rule of segment_max: over the specified entries of each segment; unspecified for a segment
    without any.
    """
    x, ids = args
    if any_computed(args):
        return added(op, args, params, extreme(x.dtype, False))
    shape = op.abstract(Aval(x.shape, x.dtype), ids, **params).shape
    mask, number = _targets(x._mask, (ids,), (0,), shape)
    return MaskedTensor(bind(op, (x._inner, number), {"count": mask.count}), mask)


def softmax(op: Op, args: Args, params: Params) -> Any:
    """Rule of segment_softmax: over the specified entries of each segment. The mask stays."""
    x, ids = args
    op.abstract(Aval(x.shape, x.dtype), ids, **params)
    if any_computed(args):
        there = x._mask.array
        counts = F.scatter_add(
            F.astype(there, dtype=np.dtype(np.int64)), ids, axes=(0,), shape=(params["count"], *x.shape[1:])
        )
        occupied = F.gather(F.greater(counts, 0), ids, axes=(0,))
        entries = F.where(F.logical_or(there, F.logical_not(occupied)), x._mask.unpack(x._inner), -np.inf)
        return MaskedTensor(x._mask.pack(bind(op, (entries, ids), params)), x._mask)
    mask, number = _targets(x._mask, (ids,), (0,), (params["count"], *x.shape[1:]))
    return MaskedTensor(bind(op, (x._inner, number), {"count": mask.count}), x._mask)
