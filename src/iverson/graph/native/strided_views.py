"""Strided views: transposes, slices and reshapes that see another value through strides and need no memory.

y = permute_dims[axes=(1, 0)](x)   ->   y is x's buffer by strides (1, n)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from iverson.codegen.programs.nodes import c_strides, reshaped_strides
from iverson.core import dtypes
from iverson.core.table import TABLE
from iverson.graph.ir.nodes import Equation, Graph, Value
from iverson.ops.rules.notation import Moves


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


#: Ops whose index in the operand is an affine function of the index in the result.
AFFINE = frozenset({"index_basic", "permute_dims", "broadcast_to", "flip", "diagonal"})
#: Ops that keep the order of entries.
IN_ORDER = frozenset({"reshape", "expand_dims", "squeeze"})


def view(equation: Equation, known: Mapping[Value, Strided]) -> Strided | None:
    """The result as strides over the root of the operand; None where it is new entries.

    Strides follow from the index notation of the op, at index 0 and at index 1 of each axis.

    known : the values that are found to be views so far.
    """
    op, x = equation.op, equation.operands[0] if equation.operands else None
    if op.name not in AFFINE | IN_ORDER or TABLE.get(op.name) is not op or type(x) is not Value:
        return None
    source = known.get(x) or itself(x)
    shape = equation.results[0].shape
    if not dtypes.is_compiled(x.dtype) or prod(source.root.shape) == 0 or prod(shape) == 0:
        return None
    if op.name in IN_ORDER:
        new_strides = reshaped_strides(source.shape, source.strides, shape)
        return None if new_strides is None else replace(source, shape=shape, strides=new_strides)
    assert isinstance(op.te, Moves)
    source_index = op.te.source

    def place(axis: int | None) -> int:
        unit: tuple[Any, ...] = tuple([int(k == axis) for k in range(len(shape))])
        at: Sequence[Any] = source_index(source.shape, unit, **equation.params)
        return sum([i * s for i, s in zip(at, source.strides, strict=True)])

    first = place(None)
    strides = [place(axis) - first for axis in range(len(shape))]
    return Strided(source.root, shape, tuple(strides), source.offset + first)


__all__ = ["Strided", "itself", "view", "views"]
