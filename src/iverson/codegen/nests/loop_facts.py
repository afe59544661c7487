"""Loop facts: extents, accumulators, varying names, and which loops may be vector loops of which width."""

from __future__ import annotations

from math import isinf

from iverson.codegen.nests.integer_bounds import Scope, affine, extremes
from iverson.codegen.nests.nodes import (
    Declare,
    Let,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Update,
    UpdateArg,
    Var,
    expressions,
    statements,
)
from iverson.core import dtypes
from iverson.expr.affine import Affine
from iverson.expr.nodes import Apply, Const, DType, Expr, subexpressions

#: A loop that runs at most this often is not worth lanes.
SHORT = 4


def constant_extent(s: Loop) -> int | None:
    """How often a loop runs, where that does not depend on anything."""
    difference = affine(s.upper, Scope()) - affine(s.lower, Scope())
    if difference.terms:
        return None
    return max(0, -(-difference.const // s.step))


def sides(e: Expr, how: str, scope: Scope) -> list[Affine]:
    """The forms of which a bound is the maximum or minimum."""
    if isinstance(e, Apply) and e.name == how:
        return [f for a in e.args for f in sides(a, how, scope)]
    if isinstance(e, Apply) and e.name == "add" and isinstance(e.args[1], Const):
        return [f.shift(int(e.args[1].value)) for f in sides(e.args[0], how, scope)]
    return [affine(e, scope)]


def most_iterations(s: Loop, around: Scope) -> float:
    """How often a loop inside others runs at most: infinite where that is not known."""
    lows, highs = sides(s.lower, "maximum", around), sides(s.upper, "minimum", around)
    most = min(extremes(h - low, around, {})[1] for h in highs for low in lows)
    return most if isinf(most) else max(0, -(-most // s.step))


def is_short(s: Loop, around: Scope) -> bool:
    """Whether a loop never runs more than a few times: lanes would be idle and their masks in the way."""
    return most_iterations(s, around) <= SHORT


def accumulators(s: Loop) -> tuple[Update | UpdateArg, ...]:
    """One update for each variable from outside that the loop's body updates."""
    declared = {d.name for d in statements(s.body) if isinstance(d, Declare)}
    found: dict[str, Update | UpdateArg] = {}
    for u in statements(s.body):
        if isinstance(u, Update) and u.name not in declared:
            found[u.name] = u
        elif isinstance(u, UpdateArg) and u.best not in declared:
            found[u.best] = u
    return tuple(found.values())


def varying(s: Loop) -> frozenset[str]:
    """Names in a loop's body that may differ between its iterations."""
    names = {s.var}
    for item in statements(s.body):
        if isinstance(item, Declare) or (isinstance(item, Let) and depends(item.value, names)):
            names.add(item.name)
    return frozenset(names)


def depends(e: Expr, names: set[str] | frozenset[str]) -> bool:
    """Whether an expression uses any of the names."""
    return any(isinstance(x, (Var, Local)) and x.name in names for x in subexpressions(e))


def vectorizable(s: Loop) -> bool:
    """Whether the iterations of a loop marked "vector" can be lanes.

    Not where the bounds of an inner loop with a step differ between lanes, where lanes add to entries
    that may be the same (an address that depends on data), or where they would all assign one entry.
    """
    names = varying(s)
    return all(_fits(item, s, names) for item in statements(s.body))


def _fits(item: Stmt, s: Loop, names: frozenset[str]) -> bool:
    if isinstance(item, Loop) and item.step != 1:
        return not any(depends(e, names) for e in (item.lower, item.upper))
    if isinstance(item, Store):
        moves = [i for i in item.indices if depends(i, names)]
        if item.combine == "assign":
            return bool(moves)
        return all(_even(i, names) for i in moves)
    return True


def _even(e: Expr, names: frozenset[str]) -> bool:
    """Whether an index surely grows evenly with the loop: a sum of its variable and what is the same."""
    if not depends(e, names):
        return True
    if isinstance(e, Var):
        return True
    if isinstance(e, Apply) and e.name in ("add", "subtract"):
        return all(_even(a, names) for a in e.args) and sum(depends(a, names) for a in e.args) == 1
    if isinstance(e, Apply) and e.name == "multiply":
        scale = [a for a in e.args if isinstance(a, Const)]
        rest = [a for a in e.args if not isinstance(a, Const)]
        return len(scale) == 1 == len(rest) and scale[0].value != 0 and _even(rest[0], names)
    return False


def width(s: Loop, vector_bytes: int) -> int:
    """Lanes for a vector loop: a register of its widest floats, or of what it stores."""
    floats, others = [1], [1]
    for item in statements(s.body):
        for e in expressions(item):
            for x in subexpressions(e):
                if isinstance(x, (Load, Local, Const)):
                    (floats if dtypes.is_inexact(x.dtype) else others).append(_in_register(x.dtype))
        if isinstance(item, Store):
            kind = floats if dtypes.is_inexact(item.buffer.dtype) else others
            kind.append(_in_register(item.buffer.dtype))
    widest = max(floats) if len(floats) > 1 else max(others)
    lanes = min(vector_bytes // widest, 32)
    count = constant_extent(s)
    while count is not None and lanes > 1 and lanes // 2 >= count:
        lanes //= 2
    return max(lanes, 1)


def _in_register(dtype: DType) -> int:
    """Bytes of a lane; the parts of a complex number are in two registers, half precision in single."""
    dtype = dtypes.widened(dtype)
    return dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize


def has_loop(body: tuple[Stmt, ...]) -> bool:
    """Whether a block contains a loop."""
    return any(isinstance(s, Loop) for s in statements(body))


def updated(u: Update | UpdateArg) -> str:
    """The variable that stands for an update (the best value, for a position)."""
    return u.name if isinstance(u, Update) else u.best


def carried(s: Loop, vector_bytes: int) -> tuple[Loop, ...]:
    """The vector loop inside ``s`` whose accumulators may stay vectors for all of ``s``; at most one.

    It must make all updates of variables from outside ``s``, so that nobody misses their lanes.
    """
    outside = {updated(u) for u in accumulators(s)}
    found = [
        v
        for v in statements(s.body)
        if isinstance(v, Loop)
        and v.mark == "vector"
        and outside
        and {updated(u) for u in accumulators(v)} == outside
        and _count(v, outside) == _count(s, outside)
        and vectorizable(v)
    ]
    return tuple(found) if len(found) == 1 and width(found[0], vector_bytes) > 1 else ()


def _count(s: Loop, names: set[str]) -> int:
    """How many updates of the names a loop's body holds."""
    return sum(updated(u) in names for u in statements(s.body) if isinstance(u, (Update, UpdateArg)))
