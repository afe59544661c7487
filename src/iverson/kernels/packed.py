"""Packed kernels: compute on the entries where the mask is True, never on the others.

So an inf or nan where a mask is False is not multiplied with a zero: strong zeros
(docs/design/semantics.md, 4).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from iverson.core.op import Op
from iverson.core.protocols import NDArray, Params
from iverson.core.shapes import Shape
from iverson.kernels import entry_rules
from iverson.kernels.kernel_registry import Values, register, zeros_like_result
from iverson.layouts import Box, Packed, Sparse, Zero, is_strided, to_strided


def same_mask(a: Packed, b: Packed) -> bool:
    """True if two packed values have the same mask."""
    return a.mask is b.mask or (a.mask.shape == b.mask.shape and bool(np.array_equal(a.mask, b.mask)))


def _at(value: Any, mask: NDArray, shape: Shape) -> Any:
    """Entries of an operand at the places where ``mask`` is True; a number if it is the same everywhere.

    shape : the shape of the result and of ``mask``, to which the operand is broadcast.
    """
    if type(value) is Packed:
        return value.values
    if type(value) is Zero:
        return np.zeros((), value.dtype)
    if not getattr(value, "shape", ()):
        return value
    value = to_strided(value)  # of the mask's size, which is held
    return (value if value.shape == shape else np.broadcast_to(value, shape))[mask]


@register("elementwise", Packed)
@register("add_n", Packed)
def elementwise(op: Op, values: Values, params: Params) -> Any:
    """Kernel of an elementwise op, or a sum, if the result is zero wherever the packed operands are zero.

    The result is computed at the entries that all packed operands store, which must have one mask. The kernel
    returns NotImplemented for all other operands; next to sparse values or boxes the result is a selection.
    """
    if any(isinstance(v, Sparse | Box) for v in values):
        return NotImplemented
    at = [k for k, v in enumerate(values) if type(v) is Packed]
    first = values[at[0]]
    zeros = {k for k, v in enumerate(values) if type(v) in (Packed, Zero)}
    everything = tuple(range(len(values)))
    annihilating = [*op.groups(len(values)), *((everything,) if op.zero_preserving else ())]
    if not any(group and zeros.issuperset(group) for group in annihilating):
        return NotImplemented
    if any(not same_mask(first, values[k]) for k in at[1:]):
        return NotImplemented
    if zeros_like_result(op, values, params).shape != first.shape:
        return NotImplemented
    body = partial(op.forward, **params)
    out = np.asarray(entry_rules.elementwise(_at, body, values, first.mask, first.shape))
    return Packed(first.mask, np.broadcast_to(out, first.values.shape))


@register("pack", Packed)
def pack(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `pack`: the stored entries unchanged, if ``mask`` is the mask of the packed value itself."""
    x, mask = values
    if type(x) is not Packed or not is_strided(mask) or not same_mask(x, Packed(mask, x.values)):
        return NotImplemented
    return x.values


@register("unpack", Packed)
def unpack(_op: Op, values: Values, _params: Params) -> Any:
    """Kernel of `unpack`: a packed value of the shape of ``mask``, with x where ``mask`` is True."""
    x, mask = values
    if not is_strided(mask) or type(x) is not Packed:
        return NotImplemented
    inside = np.zeros(mask.shape, bool)
    inside[mask] = x.mask
    return Packed(inside, x.values)
