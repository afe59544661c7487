"""Packed kernels: compute on the entries where the mask is True, never on the others.

So an inf or nan where a mask is False is not multiplied with a zero: strong zeros
(docs/design/semantics.md, 4).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.op import Op
from iverson.kernels.kernel_registry import in_dtype, register, zeros_like_result
from iverson.layouts import Box, Packed, Sparse, Zero, is_strided, to_strided

Values = tuple[Any, ...]
Params = dict[str, Any]


def same_mask(a: Packed, b: Packed) -> bool:
    """Whether two packed values have the same entries."""
    return a.mask is b.mask or (a.mask.shape == b.mask.shape and bool(np.array_equal(a.mask, b.mask)))


def _at(value: Any, mask: Any) -> Any:
    """The entries of an operand where a mask of the result's shape holds."""
    if type(value) is Packed:
        return value.values
    if type(value) is Zero:
        return np.zeros((), value.dtype)
    if not getattr(value, "shape", ()):
        return value
    value = to_strided(value)  # of the mask's size, which is held
    return (value if value.shape == mask.shape else np.broadcast_to(value, mask.shape))[mask]


@register("elementwise", Packed)
def elementwise(op: Op, values: Values, params: Params) -> Any:
    """The result is zero where all packed operands are: then it is computed at their common entries alone.

    Beside zeros of other layouts it is a selection.
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
    out = np.asarray(op.forward(*(_at(v, first.mask) for v in values), **params))
    return Packed(first.mask, np.broadcast_to(out, first.values.shape))


@register("add_n", Packed)
def add_n(op: Op, values: Values, params: Params) -> Any:
    """Terms with the same entries stay packed."""
    terms = [v for v in values if type(v) is not Zero]
    if any(type(v) is not Packed or not same_mask(terms[0], v) for v in terms):
        return NotImplemented
    total = Packed(terms[0].mask, op.forward(*(v.values for v in terms)))
    return in_dtype(total, np.result_type(*(v.dtype for v in values)))


@register("pack", Packed)
def pack(op: Op, values: Values, params: Params) -> Any:
    """The entries as they are held, where they are asked for by the mask they are held by."""
    x, mask = values
    if type(x) is not Packed or not is_strided(mask) or not same_mask(x, Packed(mask, x.values)):
        return NotImplemented
    return x.values


@register("unpack", Packed)
def unpack(_op: Op, values: Values, _params: Params) -> Any:
    """Packed entries put back where a mask holds."""
    x, mask = values
    if not is_strided(mask) or type(x) is not Packed:
        return NotImplemented
    inside = np.zeros(mask.shape, bool)
    inside[mask] = x.mask
    return Packed(inside, x.values)
