"""Operand packing: operands are copied with another axis last, so that a reduction's lanes are contiguous.

    for f, k: for w: O[f, k] += G[f, w] * X[k, 2 w]
    ->  for p, k: X'[p, k] = X[k, p]
        for f, k: for w: O[f, k] += G[f, w] * X'[2 w, k]        k in lanes, G[f, w] the same in all of them

It is done if each entry of the copy is read many times, and the lanes and another axis make a register tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from iverson.codegen.nests.integer_bounds import Scope, affine
from iverson.codegen.nests.loop_facts import depends
from iverson.codegen.nests.nodes import COMMUTING, INT64, Buffer, Let, Load, Loop, Stmt, Store, Var
from iverson.codegen.nests.task import MOTION_COST, Axis, Task, motion
from iverson.codegen.schedule.loop_schedule import LANES, Choice
from iverson.expr.nodes import Apply, Const, Expr, changed
from iverson.expr.symbolic_numbers import typical

#: Points below which a copy is never made. Measured for distances of rows (`make calibrate`, two threads at
#: 2.5 GHz): copies gain nothing up to 1.7e7.
WORTH = 2_000_000
#: Lanes' entries that are copied together.
BLOCK = 2 * LANES
#: What copying an entry costs, in contiguous vector reads.
COPIED = 3.0
#: A copy must bring the cost of a point's reads below this share of what it is without.
GAIN = 0.8


def packed(task: Task) -> tuple[list[Stmt], Task]:
    """Phases that copy operands, and the task on the copies; none, and the task itself, if that is better."""
    extents = [a.extent for a in task.axes]
    points = typical(prod(n for n in extents if n is not None))
    plain = task.reduces and task.walk is None and task.combine in COMMUTING and None not in extents
    if not plain or points < WORTH:
        return [], task
    choice = Choice(task)
    if choice.vector is None:
        return [], task
    best, copies = GAIN * choice.weight(choice.vector), dict[Load, int]()
    for a in choice.plain:
        dimensions = {x: d for x in task.loads if (d := _dimension(x, a, task)) is not None}
        extra = COPIED * LANES * sum(_size(x.buffer) for x in dimensions) / points
        weight = choice.weight(a, dict.fromkeys(dimensions, MOTION_COST[1])) + extra
        if dimensions and weight < best:
            best, copies = weight, dimensions
    new_task = _on_copies(task, copies)
    if not copies or Choice(new_task).tiled is None:
        return [], task
    return [_copying(b, d) for b, d in dict.fromkeys((x.buffer, d) for x, d in copies.items())], new_task


def _dimension(x: Load, a: Axis, task: Task) -> int | None:
    """Dimension in which the index of a read grows by 1 with the axis ``a``.

    None if this is the last dimension, if other indices depend on the axis too, or if they grow otherwise.
    """
    b = x.buffer
    if b.strides is not None or b.name == task.out.name or motion(x, a.name, task.lets) != 2:
        return None
    if not all(isinstance(n, int) for n in b.shape):
        return None
    lets = {item.name: item.value for item in task.lets}
    moving = []
    for d, index in enumerate(x.indices):
        form = affine(index, Scope(lets=lets))
        hidden = any(depends(e, {a.name}) for e, _ in form.terms if not isinstance(e, Var))
        coefficient = form.coefficient(Var(a.name))
        if hidden or coefficient:
            moving.append((d, None if hidden else coefficient))
    return moving[0][0] if len(moving) == 1 and moving[0][1] == 1 else None


def _copy(b: Buffer, d: int) -> Buffer:
    """The buffer that holds ``b`` with dimension ``d`` last."""
    shape = (*b.shape[:d], *b.shape[d + 1 :], b.shape[d])
    return Buffer(f"{b.name}_by{d}", b.dtype, shape, label=f"{b.label or b.name} (packed)")


def _copying(b: Buffer, d: int) -> Stmt:
    """The phase that makes a copy, in blocks of the lanes' axis: what a block reads stays in the cache."""
    at: tuple[Expr, ...] = tuple(Var(f"p{k}") for k in range(len(b.shape)))
    store = Store(_copy(b, d), (*at[:d], *at[d + 1 :], at[d]), Load(b, at))
    first, extent = Var(f"p{d}_0"), Const(b.shape[d])
    end = Apply("minimum", (Apply("add", (first, Const(BLOCK)), INT64), extent), INT64)
    last = len(b.shape) - 1
    lanes = Loop(f"p{d}", first, end, (store,), mark="vector", factor=2)
    row = Loop(f"p{last}", Const(0), Const(b.shape[last]), (lanes,))
    nest = Loop(first.name, Const(0), extent, (row,), step=BLOCK)
    for k in reversed([k for k in range(last) if k != d]):
        nest = Loop(f"p{k}", Const(0), Const(b.shape[k]), (nest,))
    return replace(nest, mark="parallel")


def _on_copies(task: Task, copies: Mapping[Load, int]) -> Task:
    def moved(e: Expr) -> Expr:
        if isinstance(e, Load) and (d := copies.get(e)) is not None:
            return Load(_copy(e.buffer, d), (*e.indices[:d], *e.indices[d + 1 :], e.indices[d]))
        return e

    lets = tuple(Let(x.name, changed(x.value, moved)) for x in task.lets)
    where = tuple(changed(e, moved) for e in task.where)
    return replace(task, value=changed(task.value, moved), lets=lets, where=where)


def _size(b: Buffer) -> int:
    return prod(n for n in b.shape if isinstance(n, int))
