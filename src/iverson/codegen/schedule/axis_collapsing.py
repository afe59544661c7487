"""Axis collapsing: axes that lie one behind the other in every buffer become one, so that all lanes are used.

for i < 64: for j < 10: O[i, j] = A[i, j] * s[]
->  for i < 640: O'[i] = A'[i] * s[]                    O', A': the same memory, of shape (640,)
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from iverson.codegen.nests.nodes import Buffer, Load, Store, Var, replaced
from iverson.codegen.nests.task import Axis, Task
from iverson.codegen.schedule.loop_schedule import LANES
from iverson.expr.nodes import Const, Expr, changed


def flattened(task: Task) -> Task:
    """The task over as few axes as its accesses allow: adjacent axes are joined.

    The task itself if it is not elementwise, or if its last axis fills whole vectors. Buffers keep their
    names: whoever calls the nest sees their memory in the new shapes.
    """
    plain = task.combine == "assign" and not (
        task.where or task.walk or task.whole or task.position or task.best
    )
    width = task.axes[-1].typical_extent if plain and task.axes else inf
    if width == inf or width % LANES == 0:
        return task
    task = _without_ones(task)
    if any(not isinstance(i, Var | Const) for i in task.write):
        return task
    if [i.name for i in task.write if isinstance(i, Var)] != [a.name for a in task.axes]:
        return task
    while (pair := _pair(task)) is not None:
        task = _joined(task, *pair)
    return task


def _without_ones(task: Task) -> Task:
    """The task without axes of one index, which is put in; the task itself if all axes are of one."""
    replacements: dict[str, Expr] = {a.name: Const(0) for a in task.axes if _whole(a) and a.extent == 1}
    if not replacements or len(replacements) == len(task.axes):
        return task
    return replace(
        task,
        write=tuple(replaced(i, replacements) for i in task.write),
        value=replaced(task.value, replacements),
        axes=tuple(a for a in task.axes if a.name not in replacements),
        lets=tuple(replace(x, value=replaced(x.value, replacements)) for x in task.lets),
    )


def _pair(task: Task) -> tuple[Axis, Axis] | None:
    """Two adjacent axes that can be one: every access moves along both in step with memory, or along neither.

    None if there are no such axes.
    """
    if any(_uses_axes(e) for e in task.expressions):
        return None
    accesses: list[Load | Store] = [Store(task.out, task.write, task.value), *task.loads]
    for a, b in zip(task.axes, task.axes[1:], strict=False):
        names = {x.buffer.name for x in accesses if _places(x, a)}
        if _whole(a) and _whole(b) and all(_in_step(x, a, b, x.buffer.name in names) for x in accesses):
            return a, b
    return None


def _uses_axes(e: Expr) -> bool:
    """True if a value depends on an axis otherwise than by reading the entry there."""
    waiting, visited = [e], {id(e)}
    while waiting:
        x = waiting.pop()
        if isinstance(x, Var) or (isinstance(x, Load) and not _is_at_axes(x)):
            return True
        inside = () if isinstance(x, Load) else x.operands
        waiting += [y for y in inside if id(y) not in visited]
        visited.update(map(id, inside))
    return False


def _is_at_axes(x: Load) -> bool:
    return all(isinstance(i, Var | Const) for i in x.indices)


def _whole(a: Axis) -> bool:
    plain = isinstance(a.lower, Const) and a.lower.value == 0 and not a.lever
    return plain and a.extent is not None and a.extent > 0


def _in_step(x: Load | Store, a: Axis, b: Axis, elsewhere: bool) -> bool:
    """True if an access has neither axis, or both, next to each other and over whole dimensions.

    elsewhere : whether another access of the same buffer has them; then one that has neither is of one entry.
    """
    first, second = _places(x, a), _places(x, b)
    if not first and not second:
        return not elsewhere or all(isinstance(i, Const) for i in x.indices)
    if len(first) != 1 or len(second) != 1 or x.buffer.strides is not None:
        return False
    between = x.buffer.shape[first[0] + 1 : second[0]]
    extents = x.buffer.shape[first[0]], x.buffer.shape[second[0]]
    return first < second and extents == (a.extent, b.extent) and all(n == 1 for n in between)


def _places(x: Load | Store, a: Axis) -> list[int]:
    return [d for d, i in enumerate(x.indices) if isinstance(i, Var) and i.name == a.name]


def _joined(task: Task, a: Axis, b: Axis) -> Task:
    """The task with two axes as one, which has the name of the first."""
    assert a.extent is not None
    assert b.extent is not None
    length = a.extent * b.extent
    axis = Axis(a.name, Const(0), Const(length), label=a.label)
    accesses: list[Load | Store] = [Store(task.out, task.write, task.value), *task.loads]
    places = {x.buffer.name: (_places(x, a)[0], _places(x, b)[0]) for x in accesses if _places(x, a)}

    def at(x: Load | Store) -> tuple[Buffer, tuple[Expr, ...]]:
        if x.buffer.name not in places:
            return x.buffer, x.indices
        d, e = places[x.buffer.name]
        old, index = x.buffer.shape, x.indices[d]
        if not _places(x, a):  # one entry of what is read along the axes
            row, column = x.indices[d], x.indices[e]
            assert isinstance(row, Const)
            assert isinstance(column, Const)
            index = Const(row.value * b.extent + column.value)
        shape = (*old[:d], length, *old[e + 1 :])
        return replace(x.buffer, shape=shape), (*x.indices[:d], index, *x.indices[e + 1 :])

    def moved(e: Expr) -> Expr:
        return Load(*at(e)) if isinstance(e, Load) else e

    out, write = at(Store(task.out, task.write, task.value))
    axes = tuple(axis if x is a else x for x in task.axes if x is not b)
    lets = tuple(replace(x, value=changed(x.value, moved)) for x in task.lets)
    return replace(task, out=out, write=write, value=changed(task.value, moved), axes=axes, lets=lets)


__all__ = ["flattened"]
