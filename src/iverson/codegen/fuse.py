"""Two phases over the same loops as one: what both read is loaded, and what both compute is computed, once.

    for i: acc = 0; for j: acc += f(i, j); P[i] = acc
    for i: acc = 0; for j: acc += g(i, j); Q[i] = acc
    ->  for i: acc = 0; acc_1 = 0; for j: acc += f(i, j); acc_1 += g(i, j); P[i] = acc; Q[i] = acc_1

Only where neither reads what the other writes. Values that are computed twice become one in `llvm`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from iverson.codegen.nodes import (
    Declare,
    If,
    Let,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Update,
    UpdateArg,
    alike,
    expressions,
    mapped,
    rewritten,
    statements,
)
from iverson.expr.nodes import Const, Expr, changed, same, subexpressions

#: Vector accumulators of a fused nest at most: more than that do not fit in registers.
ACCUMULATORS = 24
#: Statements in a fused nest at most, so that it compiles in reasonable time.
STATEMENTS = 40


def fuse(phases: list[Stmt], new: Stmt) -> list[Stmt]:
    """The phases with one more: joined to one of them that shares its loops and a read, or at the end."""
    for k in reversed(range(len(phases))):
        found = joined(phases[k], new)
        if found is not None:
            return [*phases[:k], found, *phases[k + 1 :]]
        if not independent(phases[k], new) or _stored(phases[k]).keys() & _stored(new).keys():
            break  # what comes later in time may not pass it
    return [*phases, new]


def joined(first: Stmt, second: Stmt) -> Stmt | None:
    """The two phases as one; None where their loops differ, they depend on each other, or share no read."""
    if not independent(first, second) or not (_loaded(first) & _loaded(second)):
        return None
    taken = set(_names(first))
    names = {n: _fresh(n, taken) for n in _names(second)}
    found = _merged(first, _renamed(second, names))
    if (
        found is None
        or not _in_step(found)
        or len(list(statements((found,)))) > STATEMENTS
        or _pressure(found) > ACCUMULATORS
    ):
        return None
    return found


def independent(first: Stmt, second: Stmt) -> bool:
    """Whether neither phase reads what the other writes, and both share what they both write, or neither."""
    a, b = _stored(first), _stored(second)
    same = all(a[n] == b[n] for n in a.keys() & b.keys())
    return same and not (a.keys() & _loaded(second)) and not (b.keys() & _loaded(first))


def _in_step(phase: Stmt) -> bool:
    """Whether stores to one buffer go, in each iteration, to entries of that iteration's own.

    So it is where their indices are the same, constants aside.
    """
    found: dict[str, tuple[Expr, ...]] = {}
    for s in statements((phase,)):
        if isinstance(s, Store):
            moving = tuple(Const(0) if isinstance(i, Const) else i for i in s.indices)
            if not same(found.setdefault(s.buffer.name, moving), moving):
                return False
    return True


def _stored(phase: Stmt) -> dict[str, bool]:
    found = [s for s in statements((phase,)) if isinstance(s, Store)]
    return {s.buffer.name: s.shared for s in found}


def _loaded(phase: Stmt) -> set[str]:
    inside = (e for s in statements((phase,)) for e in expressions(s))
    return {x.buffer.name for e in inside for x in subexpressions(e) if isinstance(x, Load)}


def _merged(a: Stmt, b: Stmt) -> Stmt | None:
    if not alike(a, b):
        return None
    assert isinstance(a, (Loop, If))
    assert isinstance(b, (Loop, If))
    nests = [[s for s in x.body if isinstance(s, (Loop, If))] for x in (a, b)]
    if not nests[0] and not nests[1]:
        return replace(a, body=(*a.body, *b.body))
    if len(nests[0]) != 1 or len(nests[1]) != 1:
        return None
    inner = _merged(nests[0][0], nests[1][0])
    if inner is None:
        return None
    (before, after), (before_b, after_b) = _rewrap(a.body, nests[0][0]), _rewrap(b.body, nests[1][0])
    return replace(a, body=(*before, *before_b, inner, *after, *after_b))


def _rewrap(body: tuple[Stmt, ...], inner: Stmt) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
    at = next(k for k, s in enumerate(body) if s is inner)
    return body[:at], body[at + 1 :]


def _pressure(phase: Stmt, copies: int = 1) -> int:
    """Vector accumulators that are alive at once."""
    total = 0
    if isinstance(phase, (Loop, If)):
        if isinstance(phase, Loop) and phase.mark in ("vector", "tile"):
            copies *= phase.factor
        names = {s.name for s in statements(phase.body) if isinstance(s, Update)}
        own = sum(isinstance(s, Declare) for s in phase.body)
        inner = [_pressure(s, copies) for s in phase.body if isinstance(s, (Loop, If))]
        vectors = [s.factor for s in statements(phase.body) if isinstance(s, Loop) and s.mark == "vector"]
        total = max([own * copies * max(vectors, default=1) if names else 0, *inner])
    return total


# --- names -----------------------------------------------------------------------


def _names(phase: Stmt) -> Iterator[str]:
    return (s.name for s in statements((phase,)) if isinstance(s, (Let, Declare)))


def _fresh(name: str, taken: set[str]) -> str:
    found, n = name, 0
    while found in taken:
        n += 1
        found = f"{name}_{n}"
    taken.add(found)
    return found


def _renamed(s: Stmt, names: Mapping[str, str]) -> Stmt:
    def local(e: Expr) -> Expr:
        return Local(names.get(e.name, e.name), e.dtype) if isinstance(e, Local) else e

    def named(item: Stmt) -> Stmt:
        if isinstance(item, UpdateArg):
            return replace(item, best=names.get(item.best, item.best), at=names.get(item.at, item.at))
        if isinstance(item, (Let, Declare, Update)):
            return replace(item, name=names.get(item.name, item.name))
        return item

    return rewritten(mapped(s, lambda e: changed(e, local)), named)
