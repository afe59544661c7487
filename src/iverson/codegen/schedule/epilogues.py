"""Epilogues: elementwise work on the result of a reduction is done while that is in a register.

for i: acc = 0; for j: acc += f(i, j); R[i] = acc
for i: U[i] = g(R[i], i)
->  for i: acc = 0; for j: acc += f(i, j); U[i] = g(acc, i)
"""

from __future__ import annotations

from iverson.codegen.nests.nodes import (
    Buffer,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    Var,
    bound,
    expressions,
    replaced,
    statements,
)
from iverson.codegen.nests.task import Task
from iverson.codegen.schedule.loop_fusion import expanded, fresh, shapes_in
from iverson.expr.nodes import Expr, changed, same, subexpressions

#: Parts of a nest at most: LLVM's work grows faster than they do.
LARGEST = 400


def finished(phase: Stmt, read: Buffer, task: Task) -> Stmt | None:
    """The phase with the value of ``task`` stored in place of the entries of ``read``.

    None if this would not do all that the task does, or if the nest would be too large.

    phase : stores every entry of ``read``, whole, and nothing reads them but the task.
    task : assigns each entry of its buffer from the entry of ``read`` at the same place.
    """
    stores = [s for s in statements((phase,)) if isinstance(s, Store) and s.buffer.name == read.name]
    if not stores or any(s.combine != "assign" or s.shared for s in stores):
        return None
    if any(s.buffer.shape != task.out.shape for s in stores):  # entries beyond those would not be stored
        return None
    names = [i.name for i in task.write if isinstance(i, Var)]
    plain = task.combine == "assign" and not (
        task.where or task.walk or task.whole or task.position or task.best
    )
    if not plain or len(names) != len(task.write) or {a.name for a in task.axes} != set(names):
        return None
    if (
        sum(_size(e) for s in statements((phase,)) for e in expressions(s)) + sum(map(_size, _all(task)))
        > LARGEST
    ):
        return None
    loads = task.loads
    if not all(same(x.indices, task.write) for x in loads if x.buffer.name == read.name):
        return None
    shapes = shapes_in(phase)
    if any(shapes.get(x.buffer.name, x.buffer.shape) != x.buffer.shape for x in loads):
        return None
    below = {x.buffer.name for s in statements((phase,)) for e in expressions(s) for x in _loads(e)}
    outputs = {s.buffer.name for s in statements((phase,)) if isinstance(s, Store)}
    other_reads = {x.buffer.name for x in loads} - {read.name}
    if {read.name, task.out.name} & below or other_reads & outputs or task.out.name in outputs:
        return None

    names_in_use = set(bound(phase))

    def store(s: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(s, Store) or s.buffer.name != read.name:
            return (s,)
        at = dict(zip(names, s.indices, strict=True))
        # Of its own for each: there may be several in one block.
        names_of = {x.name: fresh(x.name, names_in_use) for x in task.lets}
        result = s.value if isinstance(s.value, Local) else Local(fresh("made", names_in_use), s.value.dtype)

        def final(e: Expr) -> Expr:
            if isinstance(e, Local):
                return Local(names_of.get(e.name, e.name), e.dtype)
            return result if isinstance(e, Load) and e.buffer.name == read.name else e

        # The indices first: what is stored has names of its own.
        new_lets = [Let(names_of[x.name], changed(replaced(x.value, at), final)) for x in task.lets]
        first = () if result is s.value else (Let(result.name, s.value),)
        return (*first, *new_lets, Store(task.out, s.indices, changed(replaced(task.value, at), final)))

    return expanded(phase, store)


def _all(task: Task) -> list[Expr]:
    return [task.value, *(x.value for x in task.lets)]


def _size(e: Expr) -> int:
    return sum(1 for _ in subexpressions(e))


def _loads(e: Expr) -> list[Load]:
    return [x for x in subexpressions(e) if isinstance(x, Load)]


__all__ = ["finished"]
