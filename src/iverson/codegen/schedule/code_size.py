"""Code size: a loop body is written out as often as the work that it does is worth.

    for i in range(5):  # vector, tile x6, ...          for i in range(5):  # vector, tile x6, ...
      for j in range(2):  # unroll              ->        for j in range(2):
        for k in range(8):  # unroll                        for k in range(8):

Loops that are jammed or written out (marks "unroll", "tile" and "vector") save some instructions each time
that they run, and LLVM takes a tenth of a millisecond for each line of the copies of their bodies. So every
copy must run `RUNS` times in a call, unless all copies are `SMALL` together (`docs/decisions/0172`). Loops
that are written out become plain first, then tiles and groups of vectors get smaller. Values are
the same to the bit: the vectors of a reduction, which decide the order of its terms, stay as they are. Code
for any sizes is left as it is, since nothing is known of its work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from iverson.codegen.nests.integer_bounds import Scope
from iverson.codegen.nests.loop_facts import accumulators, most_iterations
from iverson.codegen.nests.nodes import If, Loop, Stmt, loads_and_stores, statements
from iverson.codegen.nests.phase_cost import INSTRUCTIONS, instructions
from iverson.expr.symbolic_numbers import is_infinite, is_symbolic

#: Runs of each copy of a body in a call, instructions that may be written out however seldom they run, and
#: lanes of a vector.
RUNS, SMALL, LANES = 128, 60, 4
NOWHERE = Scope()


def in_proportion(s: Stmt, times: float, around: Scope = NOWHERE) -> Stmt:
    """The statement with as many copies of loop bodies as its work is worth.

    times : how often it runs in a call.
    """
    if isinstance(s, If):
        return replace(s, body=tuple(in_proportion(x, times, around) for x in s.body))
    if not isinstance(s, Loop) or is_infinite(times):
        return s
    if s.mark in ("", "parallel"):
        inner = replace(around, loops=(*around.loops, s))
        times *= _iterations(s, around)
        return replace(s, body=tuple(in_proportion(x, times, inner) for x in s.body))
    choice: Stmt = s
    for choice in _choices(s):
        copies, runs = _counted(choice, 1, times, around)
        if copies <= max(SMALL, runs / RUNS):
            break
    return choice


def _iterations(s: Loop, around: Scope) -> float:
    """Iterations at most, and at least one; infinite where a size says how many."""
    limit = most_iterations(s, around)
    return inf if is_infinite(limit) or is_symbolic(limit) else max(1.0, limit)


def _counted(s: Stmt, copies: float, times: float, around: Scope) -> tuple[float, float]:
    """Instructions of all copies of a statement, and those that run in a call."""
    if not isinstance(s, (Loop, If)):
        size = instructions((s,)) + 2 * len(list(loads_and_stores(s)))
        return copies * size, times * size
    if isinstance(s, Loop):
        n = _iterations(s, around)
        if s.mark == "vector":
            n = max(1.0, n / LANES)
        if s.mark:
            copies *= n if s.mark == "unroll" else min(s.factor, n)
        times *= n
        around = replace(around, loops=(*around.loops, s))
    parts = [_counted(x, copies, times, around) for x in s.body]
    return sum(p[0] for p in parts), sum(p[1] for p in parts)


def _choices(s: Loop) -> Iterator[Stmt]:
    """The loop as it is, then with ever fewer copies of the bodies in it."""
    smaller: Stmt = s
    yield smaller
    for mark in ("unroll", "tile", "vector"):
        while (fewer := _with_fewer(smaller, mark)) is not None:
            smaller = fewer
            yield smaller


def _with_fewer(s: Stmt, mark: str) -> Stmt | None:
    """The statement with fewer copies of the first loop in it that has a mark and can do with fewer.

    None if there is no such loop.
    """
    if not isinstance(s, (Loop, If)):
        return None
    if isinstance(s, Loop) and s.mark == mark and (s.factor == 1 if mark == "unroll" else s.factor > 1):
        if mark == "unroll":
            return replace(s, mark="")
        if mark == "tile" or not (accumulators(s) or _is_costly(s)):
            factor = max(k for k in range(1, s.factor) if s.factor % k == 0)
            return replace(s, factor=factor, mark="" if mark == "tile" and factor == 1 else mark)
    for k, x in enumerate(s.body):
        fewer = _with_fewer(x, mark)
        if fewer is not None:
            return replace(s, body=(*s.body[:k], fewer, *s.body[k + 1 :]))
    return None


def _is_costly(s: Loop) -> bool:
    """True if an iteration of a loop evaluates an elementary function.

    A group of vectors hides the time that it takes, and of two groups LLVM computes once what is the same for
    all rows: with one vector at a time, rotary embeddings took half as long again.
    """
    return instructions(tuple(statements(s.body))) >= INSTRUCTIONS
