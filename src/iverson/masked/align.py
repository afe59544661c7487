"""Mask alignment: the common mask of several operands, and the entries of an operand at it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core.errors import ArgumentError, GraphError
from iverson.core.protocols import Value
from iverson.core.shapes import Shape, broadcast_shapes
from iverson.masked.mask import Mask, read_axes
from iverson.masked.policies import current
from iverson.masked.sparse_masks import Stored, explicit, joined
from iverson.masked.tensor import MaskedTensor
from iverson.masked.traced_masks import Computed
from iverson.ops import F


def narrowed(vector: Value, vector_mask: Mask, mask: Mask) -> Any:
    """Entries of ``vector``, whose mask is ``vector_mask``, at the entries that ``mask`` specifies, in its
    order.

    ``vector_mask`` broadcasts to the shape of ``mask`` and specifies there at least the same entries.
    """
    if vector_mask == mask:
        return vector
    if Computed in (type(vector_mask), type(mask)):
        return mask.pack(F.broadcast_to(vector_mask.unpack(vector), shape=mask.shape))
    if vector_mask.layout == mask.layout == "strided" and vector_mask.shape == mask.shape:
        return F.pack(vector, mask.array[vector_mask.array], count=mask.count)
    return F.gather(vector, vector_mask.positions(mask), axes=(0,))


def entries_at(x: Value | complex, mask: Mask) -> Any:
    """Vector of the entries of ``x`` at the places that ``mask`` specifies; the shape of ``x`` broadcasts to
    that of ``mask``.

    The entries that a masked ``x`` does not specify are 0. A scalar is returned as it is, to be broadcast
    later.
    """
    if not hasattr(x, "shape") or isinstance(x, complex):
        return x
    if isinstance(x, MaskedTensor):
        return _held_at(x, mask)
    if not x.ndim:
        return x
    if x.shape == mask.shape:
        return mask.pack(x)
    if not isinstance(mask, Stored):
        return mask.pack(F.broadcast_to(x, shape=mask.shape))
    axes, lead = read_axes(x.shape, mask.shape), len(mask.shape) - x.ndim
    nowhere = np.zeros(mask.count, np.intp)
    where = [mask.coordinates([k])[0] if k in axes else nowhere for k in range(lead, len(mask.shape))]
    return F.gather(x, *where, axes=tuple(range(x.ndim)))


def _held_at(x: MaskedTensor, mask: Mask) -> Any:
    """Vector of the entries of a MaskedTensor at the places that ``mask`` specifies, 0 where ``x``
    has none.
    """
    if x._mask == mask:
        return x._inner
    if x.layout == mask.layout == "strided" and x.shape != mask.shape:
        return mask.pack(F.broadcast_to(x._mask.unpack(x._inner), shape=mask.shape))
    if Computed in (type(x._mask), type(mask)):
        return narrowed(x._inner, x._mask, mask)
    there = x._mask.has(mask)
    if there.all():
        return narrowed(x._inner, x._mask, mask)
    padded = F.concat(x._inner, np.zeros(1, x.dtype), axis=0, offsets=(0, x._mask.count))
    return F.gather(padded, np.where(there, x._mask.positions(mask), x._mask.count), axes=(0,))


def common(operation: str, masks: Sequence[Mask], shape: Shape, strict: bool | None = None) -> Mask:
    """Mask of a result that exists only where all operands exist: ``masks`` broadcast to ``shape`` and
    intersected.

    It has the layout of the smallest of ``masks`` that is not broadcast and not strided, if there is one.
    Raises ArgumentError if masks differ and the policy is "strict".
    strict : True or False to override the policy.
    """
    first = masks[0]
    if first.shape == shape and all(m == first for m in masks[1:]):
        return first
    result = first
    for m in masks[1:]:
        result = _intersection(result, m)
    result = result.stretched(shape)
    strict = current() == "strict" if strict is None else strict
    if strict and type(result) is Computed:
        raise GraphError(
            operation,
            "mask",
            got="a mask that is computed in the function",
            expected='masks that are known to be equal: the policy is "strict"',
            remedy="leave the policy, or compute the mask once and give it to both operands",
        )
    if strict and any(m.count * prod(shape) != result.count * prod(m.shape) for m in masks):
        raise ArgumentError(
            operation,
            "mask",
            got="operands with different masks",
            expected='equal masks: the policy is "strict"',
            remedy="give both the mask that is meant, or leave the policy",
        )
    return result


def _intersection(a: Mask, b: Mask) -> Mask:
    """Mask of the entries that both masks specify, in the shape to which the two broadcast."""
    shape = broadcast_shapes("mask", a.shape, b.shape)
    if Computed in (type(a), type(b)):
        return Computed(F.logical_and(a.array, b.array))
    if a.layout == b.layout == "strided":
        return Mask(np.logical_and(a.array, b.array))
    candidates = [m for m in (a, b) if m.shape == shape]
    if not candidates:
        return joined(explicit(a), explicit(b), shape)
    result = min(candidates, key=lambda m: (m.layout == "strided", m.count))
    keep = (b if result is a else a).has(result)
    return result if keep.all() else result.kept(keep)
