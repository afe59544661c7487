"""What is made of each result of a reduction, made where that is still in a register.

for i: acc = 0; for j: acc += f(i, j); R[i] = acc
for i: U[i] = g(R[i], i)
->  for i: acc = 0; for j: acc += f(i, j); U[i] = g(acc, i)
"""

from __future__ import annotations

from iverson.codegen.nodes import (
    Buffer,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    Var,
    expressions,
    replaced,
    rewritten,
    statements,
)
from iverson.codegen.task import Task
from iverson.expr.nodes import Expr, changed, same, subexpressions

#: Parts of a value at most, written out: more are better computed from memory.
LARGEST = 200


def finished(phase: Stmt, read: Buffer, task: Task) -> Stmt | None:
    """The phase with the task's value stored where it stores what the task reads; None where that is not all.

    phase : stores every entry of ``read``, whole, and nothing reads them but the task.
    task : assigns each entry of its buffer from the entry of ``read`` at the same place.
    """
    own = [s for s in statements((phase,)) if isinstance(s, Store) and s.buffer.name == read.name]
    if not own or any(s.combine != "assign" or s.shared or s.atomic for s in own):
        return None
    if any(s.buffer.shape != task.out.shape for s in own):  # entries beyond those would not be stored
        return None
    names = [i.name for i in task.write if isinstance(i, Var)]
    plain = task.combine == "assign" and not (task.where or task.walk or task.position or task.best)
    if not plain or len(names) != len(task.write) or {a.name for a in task.axes} != set(names):
        return None
    value = task.value
    for let in reversed(task.lets):
        value = _named(value, let)
        if sum(1 for _ in subexpressions(value)) > LARGEST:
            return None
    loads = [x for x in subexpressions(value) if isinstance(x, Load)]
    if not all(same(x.indices, task.write) for x in loads if x.buffer.name == read.name):
        return None
    below = {x.buffer.name for s in statements((phase,)) for e in expressions(s) for x in _loads(e)}
    stored = {s.buffer.name for s in statements((phase,)) if isinstance(s, Store)}
    others = {x.buffer.name for x in loads} - {read.name}
    if {read.name, task.out.name} & below or others & stored or task.out.name in stored:
        return None

    def store(s: Stmt) -> Stmt:
        if not isinstance(s, Store) or s.buffer.name != read.name:
            return s
        at = dict(zip(names, s.indices, strict=True))
        kept = s.value

        def final(e: Expr) -> Expr:
            return kept if isinstance(e, Load) and e.buffer.name == read.name else e

        # The indices first: what is stored has names of its own.
        return Store(task.out, s.indices, changed(replaced(value, at), final))

    return rewritten(phase, store)


def _loads(e: Expr) -> list[Load]:
    return [x for x in subexpressions(e) if isinstance(x, Load)]


def _named(e: Expr, let: Let) -> Expr:
    """The expression with a value in place of its name."""
    return changed(e, lambda x: let.value if isinstance(x, Local) and x.name == let.name else x)


__all__ = ["finished"]
