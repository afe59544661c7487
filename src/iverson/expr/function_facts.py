"""Facts of functions by name: opposites, costs, and the combine and identity of reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.protocols import DType

#: Each comparison, and its opposite.
NEGATED = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
    "equal": "not_equal",
    "not_equal": "equal",
}
#: What a combine does with an old value and a new one; the terms may come in any order.
COMBINE = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
#: How a combine is written.
ASSIGN = {"assign": "=", "sum": "+=", "prod": "*=", "max": "max=", "min": "min="}
#: Functions that are an instruction or two; others are taken to cost some ten.
LIGHT = frozenset(
    ("add", "subtract", "multiply", "negative", "square", "maximum", "minimum", "abs", "relu",
     "logical_and", "logical_or", *NEGATED)
)  # fmt: skip

#: Functions that are a few instructions, though some of these are slow; others take tens.
FEW = frozenset(
    ("divide", "reciprocal", "sqrt", "rsqrt", "power", "floor_divide", "remainder", "floor", "ceil", "trunc",
     "round", "frac", "sign", "copysign", "clip", "isnan", "isinf", "isfinite", "signbit", "logical_not",
     "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "bitwise_left_shift",
     "bitwise_right_shift", "deg2rad", "rad2deg", "astype", "real", "imag", "conj")
)  # fmt: skip


def identity(combine: str, dtype: DType) -> Any:
    """Value from which the reduction ``combine`` starts, of ``dtype``.

    0 for "assign" and "sum", 1 for "prod", the lowest value for "max" and "argmax", else the highest value.

    >>> identity("prod", np.dtype("int64")), identity("argmax", np.dtype("float32"))
    (1, -inf)
    """
    if combine in ("assign", "sum", "prod"):
        return dtype.type(combine == "prod").item()
    lowest = combine in ("max", "argmax")
    if dtypes.is_floating(dtype):
        return -np.inf if lowest else np.inf
    if dtype.kind == "b":
        return not lowest
    limits = np.iinfo(dtype)
    return limits.min if lowest else limits.max
