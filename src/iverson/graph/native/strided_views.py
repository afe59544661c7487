"""Strided views: transposes, slices and reshapes that see another value through strides and need no memory.

y = permute_dims[axes=(1, 0)](x)   ->   y is x's buffer by strides (1, n)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from iverson.codegen.programs.nodes import c_strides
from iverson.core import dtypes
from iverson.graph.ir.nodes import Equation, Graph, Value


@dataclass(frozen=True)
class Strided:
    """Entries of ``root``, a value in C order: an offset and strides, in entries."""

    root: Value
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def itself(value: Value) -> Strided:
    """A value as all of itself."""
    return Strided(value, value.shape, c_strides(value.shape), 0)


def views(graph: Graph) -> dict[Value, Strided]:
    """The values of a graph that are other values seen through strides."""
    by_value: dict[Value, Strided] = {}
    for equation in graph.equations:
        strided = view(equation, by_value)
        if strided is not None:
            by_value[equation.results[0]] = strided
    return by_value


def view(equation: Equation, known: Mapping[Value, Strided]) -> Strided | None:
    """The result as strides over the root of the operand; None where it is new entries.

    Found by carrying the op out on an array of that layout, so that no op's strides are said here again.

    known : the values that are found to be views so far.
    """
    op, x = equation.op, equation.operands[0] if equation.operands else None
    moves = op.entry_map.moves and op.forward is not None and len(equation.operands) == 1
    if not moves or type(x) is not Value or not dtypes.is_compiled(x.dtype):
        return None
    source = known.get(x) or itself(x)
    if prod(source.root.shape) == 0 or prod(equation.results[0].shape) == 0:
        return None
    memory = np.empty(source.root.shape, x.dtype)
    step = memory.itemsize
    start = memory.reshape(-1)[source.offset :]
    array = np.lib.stride_tricks.as_strided(start, source.shape, [s * step for s in source.strides])
    result = op.forward(array, **equation.params)
    if type(result) is not np.ndarray or result.dtype != x.dtype or not np.may_share_memory(result, memory):
        return None
    offset, remainder = divmod(result.ctypes.data - memory.ctypes.data, step)
    if remainder or result.shape != equation.results[0].shape:
        return None
    return Strided(source.root, result.shape, tuple(s // step for s in result.strides), offset)


__all__ = ["Strided", "itself", "view", "views"]
