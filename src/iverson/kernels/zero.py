"""Zero kernels: operands in the zero layout that the zero rule alone does not annihilate."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.op import Op
from iverson.core.protocols import Params
from iverson.core.scalars import keep_where
from iverson.kernels.kernel_registry import Values, in_dtype, register, zeros_like_result
from iverson.layouts import Zero, is_strided


@register("add", Zero)
@register("subtract", Zero)
def add(op: Op, values: Values, params: Params) -> Any:
    """Kernel of ``zero + x`` and ``x - zero``: x itself, and of ``zero - x``: 0 - x.

    x is broadcast and cast to the result.
    """
    position = 1 if type(values[0]) is Zero else 0
    x = values[position]
    result = zeros_like_result(op, values, params)
    if getattr(x, "shape", None) != result.shape or x.dtype != result.dtype:
        if not is_strided(x) and not np.isscalar(x):
            return NotImplemented
        x = np.broadcast_to(np.asarray(x, result.dtype), result.shape)
    if position == 0 or op.name == "add":
        return x
    # 0 - x, not -x: they differ in the sign of zeros, which decides on which side of a branch cut one is.
    return np.subtract(np.zeros((), result.dtype), x) if is_strided(x) else NotImplemented


@register("where", Zero)
def where(op: Op, values: Values, params: Params) -> Any:
    """Kernel of ``where(c, x, zero)`` and ``where(c, zero, x)``: x where the condition chooses it, else 0.

    It is never a product: an inf or nan that is not chosen has no effect.
    """
    condition, a, b = values
    if not is_strided(condition):
        return NotImplemented
    x = a if type(b) is Zero else b
    if not is_strided(x) and not np.isscalar(x):
        return NotImplemented
    zero = b if type(b) is Zero else a
    mask = condition if zero is b else np.logical_not(condition)
    plain = is_strided(x) and x.shape == condition.shape and x.dtype == zero.dtype
    if plain and zero.shape == ():
        return keep_where(mask, x)
    result = zeros_like_result(op, values, params)
    out = keep_where(mask, np.asarray(x, result.dtype))
    return out if out.shape == result.shape else np.broadcast_to(out, result.shape).copy()


@register("add_n", Zero)
def add_n(op: Op, values: Values, params: Params) -> Any:
    """Kernel of sums with zero terms: these are dropped, but their dtypes count for the result's."""
    terms = tuple(v for v in values if type(v) is not Zero)
    if len(terms) > 1 and any(not is_strided(v) for v in terms):
        return NotImplemented
    dtype = np.result_type(*(v.dtype for v in values))
    return in_dtype(terms[0] if len(terms) == 1 else op.forward(*terms), dtype)
