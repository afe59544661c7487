"""Visit counts: how often the innermost bodies of a phase run and how many bytes it touches, for reports.

They are counted, not estimated. Bounds may depend on other loops. What depends on data counts as if it were
so: a guard holds, an index is any. Decisions are made by the cost model, `codegen.nests.phase_cost`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from iverson.codegen.nests.interpret import Array, evaluate
from iverson.codegen.nests.nodes import (
    Buffer,
    If,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Var,
    expressions,
    statements,
)
from iverson.codegen.schedule.row_tiling import parts
from iverson.expr.nodes import Expr, subexpressions

#: By loop variable: the least and the greatest value, and the step.
Ranges = dict[str, tuple[int, int, int]]


def visits(
    phase: Stmt, sizes: Mapping[str, int], arrays: Mapping[str, Array] | None = None
) -> tuple[int, int]:
    """Number of runs of bodies without loops, and the bytes of entries that are read and written.

    An iteration counts if a guard inside it fails, but not what a guard around loops leaves out. An entry
    counts once as read and once as written, however often it is; of an index that data gives, all do. Parts
    of a loop over rows count by themselves, as they run one after the other (`row_tiling`).

    arrays : by name, those that bounds of loops are read from.
    """
    if phase_parts := parts(phase):
        counts = [visits(p, sizes, arrays) for p, _ in phase_parts]
        return sum(n for n, _ in counts), sum(n for _, n in counts)
    ranges: Ranges = {}
    points = _visits((phase,), dict(sizes), ranges, arrays or {})
    reads: dict[str, list[tuple[Buffer, Sequence[Expr]]]] = {}
    writes: dict[str, list[tuple[Buffer, Sequence[Expr]]]] = {}
    for s in statements((phase,)):
        if isinstance(s, Store):
            writes.setdefault(s.buffer.name, []).append((s.buffer, s.indices))
            if s.combine != "assign":
                reads.setdefault(s.buffer.name, []).append((s.buffer, s.indices))
        for e in expressions(s):
            for x in subexpressions(e):
                if isinstance(x, Load):
                    reads.setdefault(x.buffer.name, []).append((x.buffer, x.indices))
    return points, sum(_touched(accesses, ranges, sizes) for accesses in (*reads.values(), *writes.values()))


def _visits(body: tuple[Stmt, ...], at: dict[str, int], ranges: Ranges, arrays: Mapping[str, Array]) -> int:
    nests = [s for s in body if any(isinstance(x, Loop) for x in statements((s,)))]
    return sum(_nest(s, at, ranges, arrays) for s in nests) if nests else 1


def _nest(s: Stmt, at: dict[str, int], ranges: Ranges, arrays: Mapping[str, Array]) -> int:
    """Number of runs of the innermost bodies in a loop or guard; its variables' values go to ``ranges``.

    at : values of sizes and of the variables of loops around.
    """
    if isinstance(s, If):
        return _visits(s.body, at, ranges, arrays) if _holds(s.condition, at) else 0
    assert isinstance(s, Loop)
    lower, upper = (int(evaluate(e, at, arrays)) for e in (s.lower, s.upper))
    span = range(lower, upper, s.step)
    if not span:
        return 0
    low, high, _ = ranges.get(s.var, (span[0], span[-1], s.step))
    ranges[s.var] = min(low, span[0]), max(high, span[-1]), s.step
    if s.var not in _bounding(s.body):
        return len(span) * _visits(s.body, at, ranges, arrays)
    return sum(_visits(s.body, {**at, s.var: k}, ranges, arrays) for k in span)


def _holds(condition: Expr, at: dict[str, int]) -> bool:
    on_data = any(isinstance(x, (Load, Local)) for x in subexpressions(condition))
    return on_data or bool(evaluate(condition, at, {}))


def _bounding(body: tuple[Stmt, ...]) -> set[str]:
    """The variables in bounds and guards of a body."""
    bounds = (e for s in statements(body) for e in _bounds(s))
    return {x.name for e in bounds for x in subexpressions(e) if isinstance(x, Var)}


def _bounds(s: Stmt) -> Iterator[Expr]:
    if isinstance(s, Loop):
        yield from (s.lower, s.upper)
    elif isinstance(s, If):
        yield s.condition


def _touched(
    accesses: Sequence[tuple[Buffer, Sequence[Expr]]], ranges: Ranges, sizes: Mapping[str, int]
) -> int:
    """The bytes of a buffer's entries that are accessed, at most; of each value that they hold in turn."""
    buffer = accesses[0][0]
    counts = [_entries(indices, ranges) for _, indices in accesses]
    known_counts = [n for n in counts if n is not None]
    turns = sizes[buffer.turns] if isinstance(buffer.turns, str) else buffer.turns
    buffer_bytes = size_of(buffer, sizes) * turns
    return (
        buffer_bytes
        if len(known_counts) < len(counts)
        else min(buffer_bytes, sum(known_counts) * buffer.dtype.itemsize)
    )


def _entries(indices: Sequence[Expr], ranges: Ranges) -> int | None:
    """Largest number of entries that an access names; None if it depends on data."""
    below = [x for e in indices for x in subexpressions(e)]
    if any(isinstance(x, (Load, Local)) for x in below):
        return None
    names = {x.name for x in below if isinstance(x, Var)}
    return prod((high - low) // step + 1 for n in names for low, high, step in [ranges.get(n, (0, -1, 1))])


def size_of(b: Buffer, sizes: Mapping[str, int]) -> int:
    """The bytes of a buffer."""
    return prod(sizes[n] if isinstance(n, str) else n for n in b.shape) * b.dtype.itemsize
