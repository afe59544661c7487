"""Broadcast patterns: where the entries of a pattern go when its array is broadcast to a shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core.shapes import Shape
from iverson.core.table import TABLE
from iverson.kernels.kernel_registry import run_in_layouts
from iverson.kernels.sparse.sparse_operands import broadcast
from iverson.layouts import Pattern
from iverson.layouts.pattern_symbols import PatternSymbol, follows
from iverson.layouts.weak_tables import ForOthers


def extent(pattern: Pattern, own: Shape, out: Shape) -> int:
    """Number of entries of a pattern of an array's first axes, after the array is broadcast.

    own, out : the shape of the array before and after it is broadcast.
    """
    dense = len(own) - pattern.ndim
    return pattern.count * prod(out[: len(out) - dense]) // max(prod(pattern.shape), 1)


def stretched(pattern: Pattern, own: Shape, out: Shape, factors: Sequence[Pattern] = ()) -> Pattern | None:
    """Pattern of an array after it is broadcast to ``out``; None if it would store most entries.

    If there is a factor, only entries that the factor, broadcast too, stores are in the result. Equal
    arguments give the same object. The result is a symbol if a pattern is a symbol.

    pattern : of the first axes of the array.
    own : the shape of the array.
    factors : patterns over all axes; only the first is used.
    """
    sparse = out[: len(out) - len(own) + pattern.ndim]
    if not factors and sparse == pattern.shape:
        return pattern
    if any(isinstance(p, PatternSymbol) for p in (pattern, *factors[:1])):
        return follows(
            ("stretched", own, out), lambda p, *of: stretched(p, own, out, of), pattern, *factors[:1]
        )
    if factors:
        first = factors[0]
        products: Any = pattern.once(("stretched", own, out), ForOthers)
        product = products.get(first)
        if product is None:
            dense = own[pattern.ndim :]
            operands = (
                pattern.value(np.ones((pattern.count, *dense), bool)),
                first.value(np.ones(first.count, bool)),
            )
            product = products[first] = run_in_layouts(TABLE["multiply"], operands, {}).pattern
        return stretched(product, product.shape, out)
    if 2 * extent(pattern, own, out) > prod(sparse):
        return None
    result: Pattern = pattern.once(
        ("stretched", sparse), lambda: broadcast(pattern.value(np.ones(pattern.count, bool)), sparse).pattern
    )
    return result


__all__ = ["extent", "stretched"]
