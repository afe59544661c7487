"""Cost model of phases: a rough count of work, which decides whether threads are worth starting.

One unit is one scalar operation of one lane; what runs in vector lanes counts a sixteenth. Extents that
depend on data count as the average the index range allows, or 16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isinf

from iverson.codegen.nests.integer_bounds import Ranges, Scope, affine, extremes
from iverson.codegen.nests.nodes import If, Load, Loop, Stmt, expressions, statements
from iverson.expr.function_facts import FEW, LIGHT
from iverson.expr.nodes import Apply, Expr, subexpressions

_LOAD = 4.0
_DEAR = 12.0
#: Instructions of a function that is not among `FEW`, and of a body that fills the processor's queues.
_INSTRUCTIONS, LONG = 40, 48
#: Below this many units a phase stays on one thread. Measured for tanh(x) exp(-x) (`make calibrate`, two
#: threads at 2.5 GHz, idle): threads gain from the smallest size on, 2e3.
WORTH_THREADS = 400_000.0


def cost(phase: Stmt, sizes: Mapping[str, int]) -> float:
    """Units of work in a phase, at these sizes."""
    ranges: Ranges = {name: (n, n) for name, n in sizes.items()}
    return _statement(phase, Scope(), ranges, 1.0)


def is_worth_threads(phase: Stmt, units: float) -> bool:
    """True if threads share a phase with this much work: there is enough of it, or a user asks for it."""
    return units >= WORTH_THREADS or (
        isinstance(phase, Loop) and phase.mark == "parallel" and phase.factor > 1
    )


def trips(phase: Stmt, sizes: Mapping[str, int], wanted: Callable[[Stmt], float]) -> float:
    """Number of times that the statements of a phase run, each weighted by ``wanted(statement)``.

    Conditions of guards are taken to hold.
    """
    ranges: Ranges = {name: (n, n) for name, n in sizes.items()}

    def total(s: Stmt, scope: Scope) -> float:
        weight = float(wanted(s))
        if isinstance(s, If):
            return weight + sum(total(item, scope) for item in s.body)
        if not isinstance(s, Loop):
            return weight
        inner = replace(scope, loops=(*scope.loops, s))
        return weight + _extent(s, scope, ranges) * sum(total(item, inner) for item in s.body)

    return total(phase, Scope())


def _extent(s: Loop, scope: Scope, ranges: Ranges) -> float:
    length = affine(s.upper, scope) - affine(s.lower, scope)
    low, high = extremes(length, scope, ranges)
    extent = 16.0 if isinf(high) else ((0 if isinf(low) else low) + high) / 2
    return max(extent, 0.0) / s.step


def _statement(s: Stmt, scope: Scope, ranges: Ranges, share: float) -> float:
    units = share * sum(_expression(e) for e in expressions(s)) + share
    if isinstance(s, If):
        return units + sum(_statement(item, scope, ranges, share) for item in s.body)
    if not isinstance(s, Loop):
        return units
    inner = replace(scope, loops=(*scope.loops, s))
    share = share / 16 if s.mark == "vector" else share
    below = sum(_statement(item, inner, ranges, share) for item in s.body)
    return units + _extent(s, scope, ranges) * below


def is_long(body: tuple[Stmt, ...]) -> bool:
    """True if a body has no loops, and more than `LONG` instructions.

    Such a body keeps the processor busy by itself: to run several iterations of it at once gains nothing.
    """
    block = tuple(statements(body))
    if any(isinstance(s, Loop) for s in block):
        return False
    parts = [x for s in block for e in expressions(s) for x in subexpressions(e) if isinstance(x, Apply)]
    return sum(1 if x.name in LIGHT or x.name in FEW else _INSTRUCTIONS for x in parts) > LONG


def _expression(e: Expr) -> float:
    total = 1.0
    for x in subexpressions(e):
        if isinstance(x, Apply):
            total += 1.0 if x.name in LIGHT else _DEAR
        elif isinstance(x, Load):
            total += _LOAD
    return total
