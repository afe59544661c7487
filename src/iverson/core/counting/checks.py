"""Checks of results: functions that look at the results of each op as they are computed, per context.

They are called where work is counted, and only while a counter or a check is open: without one, a call costs
nothing more. While a check is open, compiled functions run op by op, so that it sees what is between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import TypeAlias

from iverson.core.counting import work
from iverson.core.op import Op
from iverson.core.protocols import LayoutValue

#: Values of layouts, and numbers.
Operands: TypeAlias = Sequence[LayoutValue | complex]
#: A code object and an instruction of it.
Where: TypeAlias = tuple[CodeType, int]
#: ``check(op, results, operands)``: of layouts' values, and of numbers among the operands.
Check: TypeAlias = Callable[[Op, Sequence[LayoutValue], Operands], None]

_checks: ContextVar[tuple[Check, ...]] = ContextVar("iverson_checks", default=())
#: The user's call that the equation of a graph which is evaluated comes from; None outside of graphs.
site: ContextVar[Where | None] = ContextVar("iverson_site", default=None)


def in_force() -> tuple[Check, ...]:
    """The checks that are open in this context, outermost first; none while no counter or check is open."""
    return _checks.get() if work.active.count else ()


@contextmanager
def checking(check: Check) -> Iterator[None]:
    """Context in which ``check`` is called with the results of each op."""
    token = _checks.set((*_checks.get(), check))
    work.active.count += 1
    try:
        yield
    finally:
        work.active.count -= 1
        _checks.reset(token)


def run(op: Op, results: Sequence[LayoutValue], operands: Operands) -> None:
    """Call the checks of this context with the values of the results and operands of a call of ``op``."""
    for check in _checks.get():
        check(op, results, operands)


@contextmanager
def at(where: Where | None) -> Iterator[None]:
    """Context in which results count as computed by the user's call ``where``.

    With None, they stay those of the call that an enclosing context names.
    """
    if where is None:
        yield
        return
    token = site.set(where)
    try:
        yield
    finally:
        site.reset(token)


__all__ = ["Check", "Operands", "Where", "at", "checking", "in_force", "run", "site"]
