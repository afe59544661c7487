"""Loop facts: extents, accumulators, varying names, and which loops may be vector loops of which width."""

from __future__ import annotations

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
from iverson.expr.nodes import Apply, Const, DType, Expr, atoms
from iverson.expr.symbolic_numbers import integer, is_infinite

#: A loop that runs at most this often is not worth lanes.
SHORT = 4


def constant_extent(s: Loop) -> int | None:
    """Number of iterations of a loop if it is constant, else None."""
    difference = affine(s.upper, Scope()) - affine(s.lower, Scope())
    if difference.terms:
        return None
    return max(0, -(-difference.const // s.step))


def sides(e: Expr, how: str, scope: Scope) -> list[Affine]:
    """Affine forms whose maximum or minimum is the bound ``e``; one form if ``e`` is neither.

    how : "maximum" or "minimum".
    """
    if isinstance(e, Apply) and e.name == how:
        return [f for a in e.args for f in sides(a, how, scope)]
    if isinstance(e, Apply) and e.name == "add" and isinstance(e.args[1], Const):
        return [f.shift(integer(e.args[1].value)) for f in sides(e.args[0], how, scope)]
    return [affine(e, scope)]


def most_iterations(s: Loop, around: Scope) -> float:
    """Largest number of iterations of a loop inside others; infinite if it is not known."""
    lows, highs = sides(s.lower, "maximum", around), sides(s.upper, "minimum", around)
    extent = min(extremes(h - low, around, {})[1] for h in highs for low in lows)
    return extent if is_infinite(extent) else max(0, -(-extent // s.step))


def is_short(s: Loop, around: Scope) -> bool:
    """True if a loop runs at most `SHORT` times for sure: lanes would be idle and their masks in the way."""
    return most_iterations(s, around) <= SHORT


def accumulators(s: Loop) -> tuple[Update | UpdateArg, ...]:
    """One update for each variable from outside that the loop's body updates."""
    declared = {d.name for d in statements(s.body) if isinstance(d, Declare)}
    updates: dict[str, Update | UpdateArg] = {}
    for u in statements(s.body):
        if isinstance(u, Update) and u.name not in declared:
            updates[u.name] = u
        elif isinstance(u, UpdateArg) and u.best not in declared:
            updates[u.best] = u
    return tuple(updates.values())


def varying(s: Loop) -> frozenset[str]:
    """Names in a loop's body that may differ between its iterations."""
    names = {s.var}
    for item in statements(s.body):
        if isinstance(item, Declare) or (isinstance(item, Let) and depends(item.value, names)):
            names.add(item.name)
    return frozenset(names)


def depends(e: Expr, names: set[str] | frozenset[str]) -> bool:
    """True if an expression uses any of the names."""
    return any(isinstance(x, (Var, Local)) and x.name in names for x in atoms(e))


def vectorizable(s: Loop) -> bool:
    """True if the iterations of a loop marked "vector" can run in the lanes of vectors.

    They cannot if the bounds of an inner loop with a step differ between lanes, if lanes add to entries
    that may be the same (an address that depends on data), or if all lanes would assign one entry.
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
    """True if index ``e`` provably grows by equal steps over the iterations of a loop, or does not change.

    names : the names whose values differ between iterations.
    """
    if not depends(e, names):
        return True
    if isinstance(e, Var):
        return True
    if isinstance(e, Apply) and e.name in ("add", "subtract"):
        return all(_even(a, names) for a in e.args) and sum(depends(a, names) for a in e.args) == 1
    if isinstance(e, Apply) and e.name == "multiply":
        scale = [a for a in e.args if isinstance(a, Const)]
        factors = [a for a in e.args if not isinstance(a, Const)]
        return len(scale) == 1 == len(factors) and scale[0].value != 0 and _even(factors[0], names)
    return False


def width(s: Loop, vector_bytes: int) -> int:
    """Number of lanes for a vector loop: as many of its widest floats as ``vector_bytes`` hold, at most 32.

    Without floats, its widest values count. A loop that is known to run only a few times gets fewer lanes.
    """
    floats, non_floats = [1], [1]
    for item in statements(s.body):
        for e in expressions(item):
            for x in atoms(e):
                if isinstance(x, (Load, Local, Const)):
                    (floats if dtypes.is_inexact(x.dtype) else non_floats).append(_in_register(x.dtype))
        if isinstance(item, Store):
            kind = floats if dtypes.is_inexact(item.buffer.dtype) else non_floats
            kind.append(_in_register(item.buffer.dtype))
    widest = max(floats) if len(floats) > 1 else max(non_floats)
    lanes = min(vector_bytes // widest, 32)
    count = constant_extent(s)
    while count is not None and lanes > 1 and lanes // 2 >= count:
        lanes //= 2
    return max(lanes, 1)


def _in_register(dtype: DType) -> int:
    """Bytes of one lane of ``dtype`` in a register.

    Half precision is computed as float32; the two parts of a complex number are in different registers.
    """
    dtype = dtypes.widened(dtype)
    return dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize


def has_loop(body: tuple[Stmt, ...]) -> bool:
    """True if a block contains a loop."""
    return any(isinstance(s, Loop) for s in statements(body))


def updated(u: Update | UpdateArg) -> str:
    """Name of the variable that an update changes: for an UpdateArg, that of the best value."""
    return u.name if isinstance(u, Update) else u.best


def carried(s: Loop, vector_bytes: int) -> tuple[Loop, ...]:
    """The vector loop inside ``s`` whose accumulators may stay vectors for all of ``s``, alone in a tuple.

    The tuple is empty if there is no such loop. The loop must contain all updates of variables from outside
    ``s``: others would need the sum of the lanes.
    """
    outside = {updated(u) for u in accumulators(s)}
    loops = [
        v
        for v in statements(s.body)
        if isinstance(v, Loop)
        and v.mark == "vector"
        and outside
        and {updated(u) for u in accumulators(v)} == outside
        and _count(v, outside) == _count(s, outside)
        and vectorizable(v)
    ]
    return tuple(loops) if len(loops) == 1 and width(loops[0], vector_bytes) > 1 else ()


def _count(s: Loop, names: set[str]) -> int:
    """Number of updates of the names in a loop's body."""
    return sum(updated(u) in names for u in statements(s.body) if isinstance(u, (Update, UpdateArg)))
