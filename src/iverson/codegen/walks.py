"""Loop nests along a given walk: exact loops that elimination found, with accumulators and marks put in.

A walk is nested: ``(var, lower, upper, step, body)`` a loop, ``(condition, body)`` a guard, and a dict
from axes to expressions a point at which the task runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iverson.codegen.loops import depends
from iverson.codegen.nodes import (
    Const,
    Declare,
    Expr,
    If,
    Let,
    Local,
    Loop,
    Stmt,
    Store,
    Update,
    UpdateArg,
    Var,
    identity,
    replaced,
    statements,
)
from iverson.codegen.schedule import Task, motion, with_shared

#: What a walk is made of; see the header.
Walked = Any


def nest(task: Task, walk: Walked, strategy: str) -> Stmt:
    """A phase that runs the task along the walk."""
    phase = _Walk(task, strategy).build(walk, (), False)
    (only,) = phase if len(phase) == 1 else (Loop("once", Const(0), Const(1), phase),)
    return only if isinstance(only, Loop) else Loop("once", Const(0), Const(1), (only,))


class _Walk:
    def __init__(self, task: Task, strategy: str) -> None:
        self.task, self.strategy = task, strategy

    def build(self, walk: Walked, around: tuple[str, ...], inside: bool) -> tuple[Stmt, ...]:
        """Statements for a walk inside the loops ``around``; ``inside`` an accumulator or not."""
        if not inside and self._accumulates(walk, around):
            return self._accumulated(walk, around)
        if isinstance(walk, Mapping):
            return self._point(walk, inside)
        if len(walk) == 2:
            condition, body = walk
            return (If(condition, self._all(body, around, inside)),)
        var, lower, upper, step, body = walk
        inner = self._all(body, (*around, var), inside)
        mark, factor = self._mark(var, inner, around, inside)
        if mark == "parallel" and not self._owns(var):
            inner = with_shared(inner)
        return (Loop(var, lower, upper, inner, step, mark, factor),)

    def _all(self, body: tuple[Walked, ...], around: tuple[str, ...], inside: bool) -> tuple[Stmt, ...]:
        return tuple(s for w in body for s in self.build(w, around, inside))

    # --- points -----------------------------------------------------------------------------------

    def _at(self, e: Expr, point: Mapping[str, Expr]) -> Expr:
        moved = {n: x for n, x in point.items() if x != Var(n)}
        return replaced(e, moved) if moved else e

    def _point(self, point: Mapping[str, Expr], inside: bool) -> tuple[Stmt, ...]:
        task = self.task
        lets = tuple(Let(x.name, self._at(x.value, point)) for x in task.lets)
        value = self._at(task.value, point)
        if task.position is not None:
            best = UpdateArg("best", "at", task.combine, value, self._at(task.position, point))
            return (*lets, best)
        if inside:
            return (*lets, Update("acc", task.combine, value))
        write = tuple(self._at(w, point) for w in task.write)
        return (*lets, Store(task.out, write, value, task.combine))

    # --- accumulators -----------------------------------------------------------------------------

    def _accumulates(self, walk: Walked, around: tuple[str, ...]) -> bool:
        """Whether the written entry is known here and loops remain: a reduction starts."""
        if isinstance(walk, Mapping) or self.task.combine == "assign":
            return self.task.position is not None
        free = set(_variables(walk))
        points = _points(walk)
        writes = [tuple(self._at(w, p) for w in self.task.write) for p in points]
        same = all(w == writes[0] for w in writes)
        return same and not any(depends(i, free) for i in writes[0]) and _has_loop(walk)

    def _accumulated(self, walk: Walked, around: tuple[str, ...]) -> tuple[Stmt, ...]:
        task = self.task
        body = self.build(walk, around, True)
        write = tuple(self._at(w, _points(walk)[0]) for w in task.write)
        if task.position is not None:
            dtype = task.value.dtype
            first = Const(identity(task.combine, dtype), dtype)
            return (
                Declare("best", dtype, first),
                Declare("at", task.out.dtype, Const(2**63 - 1)),
                *body,
                Store(task.out, write, Local("at", task.out.dtype)),
            )
        dtype = task.out.dtype
        return (
            Declare("acc", dtype, Const(identity(task.combine, dtype), dtype)),
            *body,
            Store(task.out, write, Local("acc", dtype), task.combine),
        )

    # --- marks ------------------------------------------------------------------------------------

    def _owns(self, var: str) -> bool:
        """Whether different values of a loop's variable write different entries."""
        return self.strategy == "injective" or any(w == Var(var) for w in self.task.write)

    def _mark(
        self, var: str, inner: tuple[Stmt, ...], around: tuple[str, ...], inside: bool
    ) -> tuple[str, int]:
        stores = [s for s in statements(inner) if isinstance(s, Store)]
        innermost = not any(isinstance(s, Loop) and s.mark == "vector" for s in statements(inner))
        if not around and not inside and stores and self._parallel(var):
            return "parallel", 1
        if inside:
            contiguous = not any(isinstance(s, Loop) for s in inner) and self._reads_along(var)
            return ("vector", 2) if contiguous and self.task.position is None else ("", 1)
        along = innermost and stores and all(motion(s, var) == 1 for s in stores)
        return ("vector", 2) if along else ("", 1)

    def _parallel(self, var: str) -> bool:
        return self._owns(var) or self.task.combine == "sum"

    def _reads_along(self, var: str) -> bool:
        lets = self.task.lets
        return all(motion(x, var, lets) < 2 for x in self.task.loads)


def _points(walk: Walked) -> list[Mapping[str, Expr]]:
    if isinstance(walk, Mapping):
        return [walk]
    return [p for w in walk[-1] for p in _points(w)]


def _variables(walk: Walked) -> list[str]:
    if isinstance(walk, Mapping):
        return []
    own = [walk[0]] if len(walk) == 5 else []
    return own + [v for w in walk[-1] for v in _variables(w)]


def _has_loop(walk: Walked) -> bool:
    return bool(_variables(walk))
