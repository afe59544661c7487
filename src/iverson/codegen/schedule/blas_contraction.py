"""Contractions by BLAS: tasks that are matrix products of groups of axes.

A sum of products of two reads whose indices are all plain axes is a batched matrix product: axes in both
reads and the output are the batch, axes in one read and the output are rows or columns, axes in both reads
only are contracted. A product may be one of boxes of these arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from iverson.codegen.nests.nodes import Buffer, Load, Var
from iverson.codegen.nests.task import Task
from iverson.expr.nodes import Apply, Expr, is_number

Array = np.ndarray[Any, Any]
#: Products with fewer multiplications than this are left to compiled loops. Measured (`make calibrate`, two
#: threads at 2.5 GHz): the loops are not slower up to 9e5.
WORTH_BLAS = 32**3
SMALLEST = 8
#: The groups of axes of each array, among batch, rows, inner and columns.
OUT, LEFT, RIGHT = (0, 1, 3), (0, 1, 2), (0, 2, 3)

#: A box without bounds.
EVERYWHERE: Mapping[str, tuple[int, int]] = MappingProxyType({})


@dataclass(frozen=True)
class Product:
    """``out (combine)= left @ right``: which axis of each array is which, in the order of the groups.

    left, right, out : the buffers. left_axes etc. : for batch, rows, inner and columns, the positions
    of the axes in that array. extents, starts : of the box, for batch, rows, inner, columns.
    """

    out: Buffer
    left: Buffer
    right: Buffer
    left_axes: tuple[tuple[int, ...], ...]  # batch, rows, inner
    right_axes: tuple[tuple[int, ...], ...]  # batch, inner, columns
    out_axes: tuple[tuple[int, ...], ...]  # batch, rows, columns
    extents: tuple[tuple[int, ...], ...]  # batch, rows, inner, columns
    fresh: bool
    starts: tuple[tuple[int, ...], ...]

    @property
    def boxes(self) -> tuple[tuple[slice, ...], ...]:
        """Boxes of ``out``, ``left`` and ``right`` that take part."""
        groups = ((self.out_axes, OUT), (self.left_axes, LEFT), (self.right_axes, RIGHT))
        return tuple(self._box(axes, of) for axes, of in groups)

    def _box(self, axes: tuple[tuple[int, ...], ...], of: tuple[int, ...]) -> tuple[slice, ...]:
        slices = {
            k: slice(start, start + n)
            for group, g in zip(axes, of, strict=True)
            for k, start, n in zip(group, self.starts[g], self.extents[g], strict=True)
        }
        return tuple(slices[k] for k in range(len(slices)))


def product(
    task: Task, *, any_size: bool = False, box: Mapping[str, tuple[int, int]] = EVERYWHERE
) -> Product | None:
    """The task as a matrix product, or None where it is none, or too small or thin to gain from BLAS.

    any_size : also where it gains nothing.
    box : first and last + 1 of the values of axes that do not run over all of theirs.
    """
    e = task.value
    plain = (
        task.combine == "sum"
        and not (task.where or task.lets or task.walk or task.whole)
        and task.out.dtype.kind == "f"
    )
    if not (plain and isinstance(e, Apply) and e.name == "multiply"):
        return None
    lhs, rhs = e.args
    if not (isinstance(lhs, Load) and isinstance(rhs, Load)):
        return None
    extents = {a.name: a.extent for a in task.axes}
    if any(n is None or not is_number(a.lower, 0) for a, n in zip(task.axes, extents.values(), strict=True)):
        return None
    names = [_names(x.indices, x.buffer, extents) for x in (lhs, rhs)]
    target = _names(task.write, task.out, extents)
    if names[0] is None or names[1] is None or target is None:
        return None
    a, b, o = names[0], names[1], target
    batch = [n for n in o if n in a and n in b]
    rows = [n for n in o if n in a and n not in b]
    columns = [n for n in o if n in b and n not in a]
    inner = [n for n in a if n in b and n not in o]
    covered = {*batch, *rows, *columns, *inner}
    if covered != set(extents) or covered != {*a, *b} or len(o) != len(batch + rows + columns):
        return None
    ranges = {n: box.get(n, (0, extent or 0)) for n, extent in extents.items()}
    groups = [[ranges[n] for n in g] for g in (batch, rows, inner, columns)]
    sizes = tuple(tuple(stop - start for start, stop in g) for g in groups)
    _, m, k, n = (prod(s) for s in sizes)
    if not any_size and (m * k * n < WORTH_BLAS or min(m, k, n) < SMALLEST):
        return None

    def places(order: list[str], *groups: list[str]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(order.index(n) for n in g) for g in groups)

    return Product(
        task.out,
        lhs.buffer,
        rhs.buffer,
        places(a, batch, rows, inner),
        places(b, batch, inner, columns),
        places(o, batch, rows, columns),
        sizes,
        task.fresh,
        tuple(tuple(start for start, _ in g) for g in groups),
    )


def _names(indices: tuple[Expr, ...], buffer: Buffer, extents: Mapping[str, int | None]) -> list[str] | None:
    """The axes an access runs over, one per dimension and each over all of it; else None."""
    names = [i.name for i in indices if isinstance(i, Var) and i.name in extents]
    if len(names) != len(indices) or len(set(names)) != len(names):
        return None
    covers_all = all(extents[n] == d for n, d in zip(names, buffer.shape, strict=True))
    return names if covers_all else None
