"""Loop fusion: two phases over the same loops become one, which loads and computes once what both need.

    for i: acc = 0; for j: acc += f(i, j); P[i] = acc
    for i: acc = 0; for j: acc += g(i, j); Q[i] = acc
    ->  for i: acc = 0; acc_1 = 0; for j: acc += f(i, j); acc_1 += g(i, j); P[i] = acc; Q[i] = acc_1

    for i: T[i] = f(i)
    for i: U[i] = g(T[i], i)
    ->  for i: t = f(i); T[i] = t; U[i] = g(t, i)

Two phases are fused only if neither reads what the other writes, but for entries that the first writes in the
same iteration. Values that are computed twice become one in `codegen.emit.nest_emission`. A caller that knows
that nobody else reads them drops the stores (`without`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from iverson.codegen.nests.nodes import (
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
    Var,
    alike,
    bound,
    expressions,
    mapped,
    rewritten,
    statements,
)
from iverson.expr.nodes import Const, Expr, atoms, changed, same, subexpressions

#: Vector accumulators of a fused nest at most: more than that do not fit in registers.
ACCUMULATORS = 24
#: Phases that an earlier one may pass to be fused with a new one: each is looked at.
WINDOW = 6
#: Statements in a fused nest at most, so that it compiles in reasonable time.
STATEMENTS = 80


def fuse(phases: list[Stmt], new: Stmt) -> list[Stmt]:
    """The phases with one more: joined to one of them that shares its loops and a read, or at the end.

    The joint phase takes the place of the earlier one, if the new phase may pass those between, or else the
    end, if the earlier one may.
    """
    for k in reversed(range(len(phases))):
        joint = joined(phases[k], new)
        if joint is not None:
            return [*phases[:k], joint, *phases[k + 1 :]]
        if not _commute(phases[k], new):
            break
    for k in reversed(range(max(0, len(phases) - WINDOW), len(phases) - 1)):
        joint = joined(phases[k], new)
        if joint is not None and all(_commute(phases[k], between) for between in phases[k + 1 :]):
            return [*phases[:k], *phases[k + 1 :], joint]
    return [*phases, new]


def _commute(a: Stmt, b: Stmt) -> bool:
    """True if two phases may run in either order."""
    return independent(a, b) and not _stored(a).keys() & _stored(b).keys()


def joined(first: Stmt, second: Stmt) -> Stmt | None:
    """The two phases as one; None where their loops differ, one iteration depends on another, or they share
    no entry."""
    intermediates = _stored(first).keys() & _loaded(second)
    if intermediates:
        chained = _chained(first, second, intermediates)
        if chained is None:
            return None
        first, second = chained
    if not independent(first, second) or not (intermediates or _loaded(first) & _loaded(second)):
        return None
    shapes = shapes_in(first)
    if any(shapes.get(name, shape) != shape for name, shape in shapes_in(second).items()):
        return None  # one of them has seen axes as one (`axis_collapsing`), the other has not
    (second,) = apart((second,), set(bound(first)))
    phase = _merged(first, second, guards=not intermediates)
    if (
        phase is None
        or not _in_step(phase)
        or len(list(statements((phase,)))) > STATEMENTS
        or _pressure(phase) > ACCUMULATORS
    ):
        return None
    return phase


def _chained(first: Stmt, second: Stmt, intermediates: Set[str]) -> tuple[Stmt, Stmt] | None:
    """The two phases with local names for the entries of ``intermediates`` that the second one reads.

    A name is that of the value which the first phase stores there. The result is None if the second phase
    reads entries of other iterations, or if an entry is made in several steps.

    intermediates : names of the buffers that the first phase writes and the second one reads.
    """
    stores = {
        s.buffer.name: s for s in _innermost(first) if isinstance(s, Store) and s.buffer.name in intermediates
    }
    all_of_them = [s for s in statements((first,)) if isinstance(s, Store) and s.buffer.name in intermediates]
    if (
        len(stores) != len(intermediates)
        or len(all_of_them) != len(intermediates)
        or intermediates & _stored(second).keys()
    ):
        return None
    loops = list(_loops(first))
    blocks = {x.lower.name for x in loops if isinstance(x.lower, Var)}  # their loops run inside
    variables = {x.var for x in loops} - blocks
    if not all(_is_own(s.indices, variables) for s in all_of_them):
        return None
    if any(s.combine != "assign" or s.shared or s.value.dtype != s.buffer.dtype for s in all_of_them):
        return None
    loads = [x for s in statements((second,)) for e in expressions(s) for x in subexpressions(e)]
    if not all(
        same(x.indices, stores[x.buffer.name].indices)
        for x in loads
        if isinstance(x, Load) and x.buffer.name in intermediates
    ):
        return None
    names_in_use = {*bound(first), *bound(second)}
    values = {n: Local(fresh("made", names_in_use), s.value.dtype) for n, s in stores.items()}

    def value(e: Expr) -> Expr:
        return values[e.buffer.name] if isinstance(e, Load) and e.buffer.name in intermediates else e

    def kept(s: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(s, Store) or s.buffer.name not in intermediates:
            return (s,)
        local = values[s.buffer.name]
        return Let(local.name, s.value), replace(s, value=local)

    return expanded(first, kept), mapped(second, lambda e: changed(e, value))


def _loops(s: Stmt) -> Iterator[Loop]:
    if isinstance(s, (Loop, If)):
        if isinstance(s, Loop):
            yield s
        for x in s.body:
            yield from _loops(x)


def _is_own(indices: tuple[Expr, ...], variables: Set[str]) -> bool:
    """True if the indices give each iteration of the loops an entry of its own."""
    names = [x.name for x in indices if isinstance(x, Var)]
    other_indices = [x for x in indices if not isinstance(x, (Var, Const))]
    return not other_indices and set(names) == variables


def without(phase: Stmt, dropped: Set[str]) -> Stmt:
    """The phase without stores to the buffers whose names are in ``dropped``."""
    return expanded(phase, lambda s: () if isinstance(s, Store) and s.buffer.name in dropped else (s,))


def expanded(s: Stmt, f: Callable[[Stmt], tuple[Stmt, ...]]) -> Stmt:
    """A loop or guard in which the results of ``f`` replace each statement that is no loop or guard."""
    assert isinstance(s, (Loop, If))
    parts = [(expanded(x, f),) if isinstance(x, (Loop, If)) else f(x) for x in s.body]
    return replace(s, body=tuple(x for part in parts for x in part))


def _innermost(s: Stmt) -> Iterator[Stmt]:
    """The statements of bodies without loops and guards in them."""
    if isinstance(s, (Loop, If)):
        nests = [x for x in s.body if isinstance(x, (Loop, If))]
        for x in nests or s.body:
            yield from _innermost(x) if nests else (x,)


def independent(first: Stmt, second: Stmt) -> bool:
    """True if neither phase reads what the other writes.

    Besides, of a buffer that both write, the stores must be ``shared`` in both or in neither.
    """
    a, b = _stored(first), _stored(second)
    agree = all(a[n] == b[n] for n in a.keys() & b.keys())
    return agree and not (a.keys() & _loaded(second)) and not (b.keys() & _loaded(first))


def _in_step(phase: Stmt) -> bool:
    """True if several stores to one buffer never meet in an entry in different iterations.

    So it is if their indices are the same, constants aside. Sums may go to any entries if the variable of
    each loop in lanes, tiles or threads is the same index of all; in threads, also if all stores are
    ``shared``.
    """
    stores_by_buffer: dict[str, list[Store]] = {}
    for s in statements((phase,)):
        if isinstance(s, Store):
            stores_by_buffer.setdefault(s.buffer.name, []).append(s)
    return all(_same_entries(stores) or _in_order(phase, stores) for stores in stores_by_buffer.values())


def _same_entries(stores: list[Store]) -> bool:
    first, *other_indices = [
        tuple(Const(0) if isinstance(i, Const) else i for i in s.indices) for s in stores
    ]
    return all(same(first, moving) for moving in other_indices)


def _in_order(phase: Stmt, stores: list[Store]) -> bool:
    if any(s.combine != "sum" for s in stores):
        return False
    marks = ("vector", "tile") if all(s.shared for s in stores) else ("vector", "tile", "parallel")
    apart = [x.var for x in _loops(phase) if x.mark in marks]
    return all(any(_is_var_of_all(stores, k, v) for k in range(len(stores[0].indices))) for v in apart)


def _is_var_of_all(stores: list[Store], axis: int, name: str) -> bool:
    at = [s.indices[axis] for s in stores if len(s.indices) > axis]
    return len(at) == len(stores) and all(isinstance(e, Var) and e.name == name for e in at)


def _stored(phase: Stmt) -> dict[str, bool]:
    stores = [s for s in statements((phase,)) if isinstance(s, Store)]
    return {s.buffer.name: s.shared for s in stores}


def _loaded(phase: Stmt) -> set[str]:
    inside = (e for s in statements((phase,)) for e in expressions(s))
    return {x.buffer.name for e in inside for x in atoms(e) if isinstance(x, Load)}


def shapes_in(phase: Stmt) -> dict[str, tuple[int | str, ...]]:
    """The shapes in which a phase sees its buffers."""
    shapes = {s.buffer.name: s.buffer.shape for s in statements((phase,)) if isinstance(s, Store)}
    for s in statements((phase,)):
        for e in expressions(s):
            shapes |= {x.buffer.name: x.buffer.shape for x in atoms(e) if isinstance(x, Load)}
    return shapes


def _merged(a: Stmt, b: Stmt, *, guards: bool) -> Stmt | None:
    """One nest of two whose loops are the same, with the innermost statements of both.

    None if they differ, or if a body has several loops.

    guards : True if guards around innermost statements may differ; else they are the same.
    """
    if not alike(a, b):
        return None
    assert isinstance(a, (Loop, If))
    assert isinstance(b, (Loop, If))
    kinds = Loop if guards and not any(map(_has_loop, (*a.body, *b.body))) else (Loop, If)
    nests = [[s for s in x.body if isinstance(s, kinds)] for x in (a, b)]
    if not nests[0] and not nests[1]:
        return replace(a, body=(*a.body, *b.body))
    if len(nests[0]) != 1 or len(nests[1]) != 1:
        return None
    inner = _merged(nests[0][0], nests[1][0], guards=guards)
    if inner is None:
        return None
    (before, after), (before_b, after_b) = _rewrap(a.body, nests[0][0]), _rewrap(b.body, nests[1][0])
    return replace(a, body=(*before, *before_b, inner, *after, *after_b))


def _has_loop(s: Stmt) -> bool:
    return any(isinstance(x, Loop) for x in statements((s,)))


def _rewrap(body: tuple[Stmt, ...], inner: Stmt) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
    at = next(k for k, s in enumerate(body) if s is inner)
    return body[:at], body[at + 1 :]


def _pressure(phase: Stmt, copies: int = 1) -> int:
    """Largest number of vector accumulators that are alive at once.

    copies : times that tiles and vector loops around the phase repeat it.
    """
    total = 0
    if isinstance(phase, (Loop, If)):
        if isinstance(phase, Loop) and phase.mark in ("vector", "tile"):
            copies *= phase.factor
        names = {s.name for s in statements(phase.body) if isinstance(s, Update)}
        accumulators = sum(isinstance(s, Declare) for s in phase.body)
        inner = [_pressure(s, copies) for s in phase.body if isinstance(s, (Loop, If))]
        vectors = [s.factor for s in statements(phase.body) if isinstance(s, Loop) and s.mark == "vector"]
        total = max([accumulators * copies * max(vectors, default=1) if names else 0, *inner])
    return total


# --- names -----------------------------------------------------------------------


def apart(body: Sequence[Stmt], taken: set[str]) -> tuple[Stmt, ...]:
    """The statements, which follow each other, with other names for values and variables named in ``taken``.

    Their names, and those of their loop variables, are added to ``taken``.
    """
    names: dict[str, str] = {}
    result = []
    for s in body:
        taken.update(x.var for x in statements((s,)) if isinstance(x, Loop))
        local_names = dict.fromkeys(x.name for x in statements((s,)) if isinstance(x, (Let, Declare)))
        names.update({name: fresh(name, taken) for name in local_names})
        is_new = any(name != new for name, new in names.items())
        result.append(renamed(s, names) if is_new else s)
    return tuple(result)


def fresh(name: str, taken: set[str]) -> str:
    """``name``, or ``name`` with a number if it is in ``taken``; the result is added to ``taken``."""
    candidate, n = name, 0
    while candidate in taken:
        n += 1
        candidate = f"{name}_{n}"
    taken.add(candidate)
    return candidate


def renamed(s: Stmt, names: Mapping[str, str]) -> Stmt:
    """The statement with other names for values and variables."""

    def local(e: Expr) -> Expr:
        return Local(names.get(e.name, e.name), e.dtype) if isinstance(e, Local) else e

    def named(item: Stmt) -> Stmt:
        if isinstance(item, UpdateArg):
            return replace(item, best=names.get(item.best, item.best), at=names.get(item.at, item.at))
        if isinstance(item, (Let, Declare, Update)):
            return replace(item, name=names.get(item.name, item.name))
        return item

    return rewritten(mapped(s, lambda e: changed(e, local)), named)
